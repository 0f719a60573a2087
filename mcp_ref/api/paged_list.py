"""What a server lists: its tools, resources, templates and prompts (page: server/index).

All four are lists of named things, in the order in which they were added, sent page by page, the same to
every client. A `Shelf` is such a list.

Revisions   all.
Threads     any thread may add, replace and remove while requests run: each change makes a new table,
            and requests read whichever table they find.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from mcp_ref.basic.index.messages import Encoded, Json
from mcp_ref.basic.versioning import Revision
from mcp_ref.runtime.threads import forks
from mcp_ref.server.utilities import pagination

__all__ = ["Kept", "Shelf"]

T = TypeVar("T")


class Kept(dict[str, Any]):
    """A result that is sent many times: it remembers what it looks like on the wire."""

    def __init__(self, members: Json) -> None:
        super().__init__(members)
        self.encoded: dict[Any, Encoded] = {}


class Shelf(Generic[T]):
    """Named things in order, and the pages of their list."""

    def __init__(
        self,
        method: str,
        member: str,
        key: Callable[[T], str],
        listed: Callable[[T, str], Json],
        page_size: int,
        changed: Callable[[], None],
    ) -> None:
        """`method` lists them in its result's `member`; `listed(item, date)` is one as a revision has it."""
        self._method, self._member = method, member
        self._key, self._listed = key, listed
        self._changed = changed
        self._lock = threading.Lock()  # guards changes, not reads
        forks.tell(self)
        # Key -> its number, which grows from item to item, and the item.
        self._items: dict[str, tuple[int, T]] = {}
        self._count = 0
        self._pages: dict[tuple[str, int], Kept] = {}  # by revision and first item
        self.page_size = page_size
        self.used = False
        """Whether there ever was an item: then the server has the capability, also with an empty list."""

    def forked(self) -> None:
        """In a forked child: another thread may have held the lock."""
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        """The item of that very name.  # spec: server/tools/name-case-sensitive"""
        found = self._items.get(key)
        return None if found is None else found[1]

    def keys(self) -> list[str]:
        """All names, in order."""
        return list(self._items)

    def values(self) -> list[T]:
        """All items, in order."""
        return [item for _, item in self._items.values()]

    def add(self, item: T, *, replace: bool = False) -> None:
        """Add an item; a name that is taken is an error unless it is to be replaced, in its place."""
        key = self._key(item)
        with self._lock:
            if key in self._items and not replace:  # spec: server/tools/name-unique
                raise ValueError(
                    f"{key!r} is among the {self._member} already; pass replace=True to replace it"
                )
            self._set(self._with(self._items, [item]))
        self._changed()

    def remove(self, key: str) -> None:
        """Remove an item. Raises KeyError if there is none of that name."""
        with self._lock:
            if key not in self._items:
                raise KeyError(f"there is no {key!r} among the {self._member}")
            self._set({k: entry for k, entry in self._items.items() if k != key})
        self._changed()

    def change(self, added: Iterable[T], removed: Iterable[str]) -> None:
        """Add or replace many and remove many, as one change. Names that are not there are no error.

        Clients are told of names that come or go; not of a definition that is another one, as that of a
        file which grows.
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
        """The table with these added, or put in the place of what has their name. Holds _lock."""
        items = dict(items)
        for item in new:
            key = self._key(item)
            if key not in items:
                self._count += 1
            items[key] = (items[key][0] if key in items else self._count, item)
        return items

    def _set(self, items: dict[str, tuple[int, T]]) -> None:
        self._items = items
        self._pages = {}
        self.used = self.used or bool(items)

    def page(self, at: Revision, cursor: str | None) -> Kept:
        """One page of the list, as this revision has it; the same object until something changes.

        # spec: server/tools/list-deterministic-order, server/tools/list-not-per-connection
        # spec: server/tools/list-paginated, server/tools/list-may-change, server/tools/list-empty-or-changing
        """
        pages = self._pages
        if cursor is None and (at.date, 0) in pages:
            return pages[at.date, 0]
        entries = list(self._items.values())
        numbers = [number for number, _ in entries]
        start, end, following = pagination.page(self._method, numbers, cursor, self.page_size)
        if (at.date, start) in pages:
            return pages[at.date, start]
        kept = Kept({self._member: [self._listed(item, at.date) for _, item in entries[start:end]]})
        if following is not None:
            kept["nextCursor"] = following
        if start % self.page_size == 0:  # a cursor that somebody made up may begin anywhere
            pages[at.date, start] = kept
        return kept
