"""Pagination (page: server/utilities/pagination).

    client -> server   tools/list {cursor?}
    server -> client   {tools: [...], nextCursor?}        again with that cursor, until none comes

Tools, resources, templates and prompts are each a `PagedList` of the server: named items in the order in
which they were added, sent page by page, the same to every client (unless tools are hidden: `page_of`).

A cursor is the server's own note of where a page ended, opaque to the client. Ours holds the number of the
last item that was sent, so that it stays valid while items are added or removed, and a checksum, so that
any other string is refused.

Revisions   2024-11-05  cursors on tools/list, prompts/list, resources/list, resources/templates/list
            2026-07-28  an empty string is a cursor like any other

Errors      a cursor that is not ours: -32602. A client that gets this error within a list begins again at
            the first page, once.
Threads     server: any thread may add, replace and remove while requests run: each change makes a new
            table, and requests read the table that they find. client: one request for each page, from the
            caller's thread.
"""

from __future__ import annotations

import base64
import binascii
import json
import marshal
import threading
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Generic, Literal, Required, TypeAlias, TypedDict, TypeVar

from mcp_ref.basic.index.error_responses import ErrorResponse, InvalidParams
from mcp_ref.basic.index.general_fields import RequestMeta, ResultMeta
from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.basic.patterns.index.requester import Asks
from mcp_ref.basic.versioning import LATEST, Revision
from mcp_ref.runtime.errors import InvalidResponse, RequestTimeout
from mcp_ref.runtime.json_text import Encoded, weight
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Deadline
from mcp_ref.schema import Mismatch, checker, required, since

__all__ = ["EncodedPage", "PagedList", "all_pages", "everything", "page", "pages"]

_log = logger("mcp_ref.pagination")

MAX_PAGES = 10_000
"""Pages that a client fetches of one list. Only this limit ends a list whose cursors go round in a circle."""
MAX_LIST_BYTES = 64 << 20
"""Bytes in the pages of one list, as `_size` estimates them, after which a client fetches no further page."""

# ---------------------------------------------------------------------------- shapes

Cursor: TypeAlias = str


class PaginatedRequestParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), required(since="2026-07-28")]
    cursor: Cursor


ListParams = Annotated[PaginatedRequestParams, required(since="2026-07-28")]
"""The params of a request for a list. They are required since 2026-07-28; before, they could be left out."""


class PaginatedRequest(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25")]]
    id: Required[Annotated[RequestId, since("2025-11-25")]]
    method: Required[str]
    params: ListParams


class PaginatedResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    nextCursor: Cursor


DEFINITIONS: dict[str, Any] = {
    "Cursor": Cursor,
    "PaginatedRequest": PaginatedRequest,
    "PaginatedResult": PaginatedResult,
}

# ----------------------------------------------------------------------- server half


def page(kind: str, numbers: Sequence[int], cursor: str | None, size: int) -> tuple[int, int, str | None]:
    """The page at a cursor: the index of its first item, the index after its last, and the next cursor.

    `kind` is the method that lists the items, so that a cursor of one list is refused by another. Each item
    has a number that it keeps, and items added later have higher ones (`numbers` is sorted): so no item is
    left out or sent twice, whatever is added or removed between two pages.
    # spec: server/utilities/pagination/stable-cursors, server/utilities/pagination/operations
    """
    start = 0 if cursor is None else bisect_right(numbers, _read(kind, cursor))
    end = min(len(numbers), start + size)
    # spec: server/utilities/pagination/next-cursor-optional
    return start, end, _write(kind, numbers[end - 1]) if end < len(numbers) else None


def _write(kind: str, last: int) -> str:
    note = json.dumps([kind, last]).encode()
    return base64.urlsafe_b64encode(zlib.crc32(note).to_bytes(4, "big") + note).decode("ascii")


def _read(kind: str, cursor: str) -> int:
    """The number of the last item sent, from a cursor. Raises InvalidParams.

    # spec: server/utilities/pagination/invalid-cursor-32602
    # spec: server/utilities/pagination/handle-invalid-cursors
    """
    try:
        raw = base64.b64decode(cursor.encode("ascii"), b"-_", validate=True)
        if zlib.crc32(raw[4:]).to_bytes(4, "big") == raw[:4]:
            # The checksum is no secret: a client may have computed it for a cursor of its own making.
            note = json.loads(raw[4:])
            if type(note) is list and [type(part) for part in note] == [str, int] and note[0] == kind:
                return int(note[1])
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise InvalidParams(f"{kind}: this cursor is not one that this list gave out: {cursor[:40]!r}")


T = TypeVar("T")


class EncodedPage(dict[str, Any]):
    """A page that is sent many times, with its encoded form for each revision that asked for it."""

    def __init__(self, members: Json) -> None:
        super().__init__(members)
        self.encoded: dict[Any, Encoded] = {}


class PagedList(Generic[T]):
    """Named items in order, and the pages of the list of them."""

    def __init__(
        self,
        method: str,
        member: str,
        key: Callable[[T], str],
        listed: Callable[[T, str], Json],
        page_size: int,
        changed: Callable[[], None],
    ) -> None:
        """`method` lists the items in the `member` of its result; `key(item)` is the name of an item, and
        `listed(item, date)` its definition as a revision has it; `changed()` notifies the clients.
        """
        self._method, self._member = method, member
        self._key, self._listed = key, listed
        self._changed = changed
        self._lock = threading.Lock()  # guards changes, not reads
        forks.register(self)
        # Key -> the number of the item, and the item. Later items have higher numbers; no number comes twice.
        self._items: dict[str, tuple[int, T]]
        self._count = 0
        self._pages: dict[tuple[str, int], EncodedPage]  # by revision and first item
        self.get: Callable[[str], T | None]
        """The item with exactly this name, or None. It is the `get` of a dict, for speed: each call looks up
        its tool, often twice.
        """
        self.page_size = page_size
        self.used = False
        """Whether there ever was an item: then the server has the capability, even with an empty list."""
        self._set({})

    def forked(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._lock = threading.Lock()

    def keys(self) -> list[str]:
        """All names, in order."""
        return list(self._items)

    def values(self) -> list[T]:
        """All items, in order."""
        return [item for _, item in self._items.values()]

    def add(self, item: T, *, replace: bool = False) -> None:
        """Add an item, or with `replace` put it in the place of the one with its name.

        Raises ValueError if the name is taken.
        """
        key = self._key(item)
        with self._lock:
            if key in self._items and not replace:  # spec: server/tools/name-unique
                raise ValueError(
                    f"{key!r} is among the {self._member} already; pass replace=True to replace it"
                )
            self._set(self._with(self._items, [item]))
        self._changed()

    def remove(self, key: str) -> None:
        """Remove an item. Raises KeyError if the list has no such name."""
        with self._lock:
            if key not in self._items:
                raise KeyError(f"there is no {key!r} among the {self._member}")
            self._set({k: entry for k, entry in self._items.items() if k != key})
        self._changed()

    def change(self, added: Iterable[T], removed: Iterable[str]) -> None:
        """Add or replace many and remove many, as one change. Unknown names to remove are ignored.

        Clients are notified if names come or go, but not if only definitions change, such as the size of a
        file that grows.
        """
        gone, new = set(removed), list(added)
        with self._lock:
            if not new and gone.isdisjoint(self._items):
                return
            before = self._items.keys()
            left = {k: entry for k, entry in self._items.items() if k not in gone}
            self._set(self._with(left, new))
            same = before == self._items.keys()
        if not same:
            self._changed()

    def _with(self, items: dict[str, tuple[int, T]], new: Iterable[T]) -> dict[str, tuple[int, T]]:
        """A new table, with items added, or put in the place of those with their names. With _lock held."""
        items = dict(items)
        for item in new:
            key = self._key(item)
            if key not in items:
                self._count += 1
            items[key] = (items[key][0] if key in items else self._count, item)
        return items

    def _set(self, items: dict[str, tuple[int, T]]) -> None:
        self._items = items
        self.get = {key: item for key, (_, item) in items.items()}.get
        self._pages = {}
        self.used = self.used or bool(items)

    def page(self, at: Revision, cursor: str | None) -> EncodedPage:
        """One page of the list, as a revision has it; the same object until the list changes."""
        pages = self._pages  # read before _items, and set after them: no old page gets into a new dict
        if cursor is None and (at.date, 0) in pages:
            return pages[at.date, 0]
        entries = list(self._items.values())
        numbers = [number for number, _ in entries]
        start, end, following = page(self._method, numbers, cursor, self.page_size)
        if (at.date, start) in pages:
            return pages[at.date, start]
        kept = EncodedPage({self._member: [self._listed(item, at.date) for _, item in entries[start:end]]})
        if following is not None:
            kept["nextCursor"] = following
        # Only pages that begin at a multiple of the page size are kept, so that there are not too many: a
        # cursor that a client made up may begin anywhere.
        if start % self.page_size == 0:
            pages[at.date, start] = kept
        return kept

    def page_of(self, at: Revision, cursor: str | None, shows: Callable[[T], bool]) -> Json:
        """One page of the items that a caller may see. The cursors are those of the whole list."""
        entries = [(number, item) for number, item in list(self._items.values()) if shows(item)]
        numbers = [number for number, _ in entries]
        start, end, following = page(self._method, numbers, cursor, self.page_size)
        found: Json = {self._member: [self._listed(item, at.date) for _, item in entries[start:end]]}
        return found if following is None else {**found, "nextCursor": following}


# ----------------------------------------------------------------------- client half


def pages(
    client: Asks,
    method: str,
    params: Json | None = None,
    *,
    timeout: float | None = None,
    deadline: Deadline | None = None,
) -> Iterator[Any]:
    """Each page of a list, fetched when the caller wants it: each within `timeout`, all by the `deadline`.

    A server may give the same cursor for two pages. The cache knows a page by its cursor, and could return
    the wrong one of the two: so when a cursor comes twice, all cached pages of the list are dropped.
    # spec: server/utilities/pagination/opaque-cursors, server/utilities/pagination/both-flows
    # spec: server/utilities/pagination/page-size-by-server
    """
    cursors: set[int] = set()  # their hashes: they may be long
    has_twice = False
    try:
        for result in _pages(client, method, params, timeout, deadline):
            yield result
            cursor = hash(str(result.get("nextCursor")))
            has_twice = has_twice or cursor in cursors
            if has_twice:
                client.forget_cached(method)
            cursors.add(cursor)
    finally:
        if has_twice:
            client.forget_cached(method)


def _pages(
    client: Asks, method: str, params: Json | None, timeout: float | None, deadline: Deadline | None
) -> Iterator[Any]:
    """One page after another, from the server or from the cache."""
    params, size = dict(params or {}), 0
    for _ in range(MAX_PAGES):
        if deadline is not None:
            timeout = deadline.left()
            if timeout <= 0:
                raise RequestTimeout(f"{method}: not all of it came in time")
        result = client.request(method, params, timeout=timeout)
        yield result
        cursor = result.get("nextCursor")
        # spec: server/utilities/pagination/missing-cursor-is-end
        # spec: server/utilities/pagination/empty-cursor-not-end
        if cursor is None:
            return
        if not isinstance(cursor, str):
            raise InvalidResponse(f"{method}: nextCursor is not a string: {cursor!r:.80}")
        size += _size(method, result)
        if size > MAX_LIST_BYTES:
            raise InvalidResponse(f"{method}: the server's list has more than {MAX_LIST_BYTES >> 20} MiB.")
        # A cursor that was here before is no sign of a circle: only the number of pages ends a circle.
        # spec: server/utilities/pagination/cursor-value-decides-nothing
        params["cursor"] = cursor  # spec: server/utilities/pagination/cursor-not-persisted
    raise InvalidResponse(
        f"{method}: the server's list has more than {MAX_PAGES} pages; fewer and longer ones are needed."
    )


def _size(method: str, page: Any) -> int:
    """About how many bytes a page takes in memory.

    `marshal` writes lists and dicts with the brackets that `weight` counts, in an eighth of the time that
    JSON takes.
    """
    try:
        return weight(marshal.dumps(dict(page)))
    except ValueError as problem:  # it is nested 2,000 levels deep, or of types that JSON does not have
        raise InvalidResponse(f"{method}: a page of the list cannot be measured: {problem}") from None


def all_pages(client: Asks, method: str, **limits: Any) -> list[Json]:
    """All pages of a list, within the limits of `pages`.

    The server may refuse a cursor, since it came from a cached page, or since the list has changed meanwhile.
    Then the cached pages are dropped, and the list is fetched from its start, once.
    # spec: server/utilities/caching/invalid-cursor-discards, server/utilities/caching/snapshot-refetch
    """
    fetched: list[Json] = []
    try:
        for result in pages(client, method, **limits):
            fetched.append(result)
        return fetched
    except ErrorResponse as problem:
        if not fetched or problem.code != InvalidParams.code:  # the error is not about a cursor
            raise
    client.forget_cached(method)
    return list(pages(client, method, **limits))


def everything(client: Asks, method: str, member: str, *, timeout: float | None = None) -> list[Any]:
    """All items of a list, from all its pages: `everything(client, "prompts/list", "prompts")`.

    An item that moved between two pages while they were fetched is there twice, or not at all.
    # spec: server/utilities/caching/no-consistency-across-pages
    """
    items: list[Any] = []
    for result in all_pages(client, method, timeout=timeout):
        found = result.get(member)
        if not isinstance(found, list):
            raise InvalidResponse(f"{method}: the result has no list of {member}")
        items += found
    return items


def definitions_of(method: str, result: Json, member: str, key: str, shape: Any) -> list[Any]:
    """The items of one page that have the shape of a definition; the others are logged and dropped.

    `key` is the member that names an item. Raises InvalidResponse if there is no list at all.
    """
    found = result.get(member)
    if not isinstance(found, list):
        raise InvalidResponse(f"{method}: the result has no list of {member}")
    good, check = [], checker(shape, LATEST.date)
    for item in found:
        try:
            check(item)
            good.append(item)
        except Mismatch as problem:
            name = item.get(key) if isinstance(item, dict) else item
            _log.warning("%s: left out %.100r, whose definition is wrong: %s", method, name, problem)
    return good
