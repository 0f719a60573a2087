"""Caching (page: server/utilities/caching).

Some results say how long they may be kept, and by whom: `ttlMs` milliseconds, by anyone ("public")
or only for the caller that fetched them ("private").

    server -> client   {..., ttlMs, cacheScope}
    client             takes its own copy while that is fresh, and asks again when it is not
    server -> client   notifications/.../list_changed, notifications/resources/updated: stale from now on

Server half   `Caching`: what the author of a server says; `table`: the hints for each method
Client half   `Cache`: results until they are stale, for one client or for several that share it

Revisions   2026-07-28.  On complete results of server/discover, tools/list, prompts/list,
            resources/list, resources/templates/list and resources/read.

Errors      none on the wire. What makes no sense to the cache is not kept.
Threads     a Cache may be used by any threads; its lock guards a table and is never held during JSON.
Not here    freshness that a server gives a single resource (server/resources).
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Required, TypedDict

from mcp_ref.basic.index.general_fields import ResultMeta, is_reserved
from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime.checks import check_count
from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.threads import forks
from mcp_ref.schema import Bounds, since

__all__ = ["Cache", "CacheScope", "Caching", "hints", "table"]

CACHEABLE = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)

# ---------------------------------------------------------------------------- shapes

CacheScope = Literal["public", "private"]
TtlMs = Annotated[int, Bounds(ge=0)]  # spec: server/utilities/caching/ttl-non-negative


class CacheableResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[str]
    ttlMs: Required[TtlMs]
    cacheScope: Required[CacheScope]


DEFINITIONS: dict[str, Any] = {"CacheableResult": Annotated[CacheableResult, since("2026-07-28")]}

# ----------------------------------------------------------------------- server half


@dataclass(frozen=True)
class Caching:
    """What a server says of its results. By default they are stale at once and private: always true.

    "public" gives a result to everybody, whoever asked for it first: it is no access control.
    """

    ttl_ms: int = 0
    scope: CacheScope = "private"

    def __post_init__(self) -> None:
        hints(self.ttl_ms, self.scope)


def hints(ttl_ms: int, scope: CacheScope) -> Json:
    """The two members, checked. Raises ValueError."""
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or ttl_ms < 0:
        raise ValueError(f"ttl_ms is a whole number of milliseconds from 0 on, not {ttl_ms!r}")
    if scope not in ("public", "private"):
        raise ValueError(f"cache_scope is 'public' or 'private', not {scope!r}")
    return {"ttlMs": ttl_ms, "cacheScope": scope}


def table(default: Caching, per_method: Mapping[str, Caching] | None = None) -> dict[str, Json]:
    """The hints for each method that has any. Raises ValueError, TypeError.

    They are the same for all pages of a list.  # spec: server/utilities/caching/page-same-scope
    """
    given = dict.fromkeys(CACHEABLE, default) | dict(per_method or {})
    for method, caching in given.items():
        if method not in CACHEABLE:
            raise ValueError(
                f"results of {method!r} are not cacheable; of these they are: {', '.join(CACHEABLE)}"
            )
        if not isinstance(caching, Caching):
            raise TypeError(f"caching of {method} is a Caching, not {caching!r:.60}")
    return {method: hints(caching.ttl_ms, caching.scope) for method, caching in given.items()}


# ----------------------------------------------------------------------- client half

LISTS = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
"""Which results a notification makes stale."""

UPDATED = "notifications/resources/updated"

PASSING = frozenset({"progressToken", "traceparent", "tracestate"})
"""Members of `_meta` that are another with each request, and no part of the question."""

SHARE = 8
"""One result may have the 8th part of the room."""

LONGEST = 2**53
"""Milliseconds beyond which nobody counts; a server may send any number."""

SERVERS = 1000
"""Servers of which it is remembered when they last announced a change."""


def fresh_for(result: Json) -> float:
    """For how many seconds a result may be taken as it is.

    # spec: server/utilities/caching/ttl-absent-zero, server/utilities/caching/ttl-negative-zero
    """
    ttl = result.get("ttlMs", 0)
    return min(max(0, ttl), LONGEST) / 1000 if type(ttl) is int or type(ttl) is float else 0.0


class Key(NamedTuple):
    """What a kept result answers, and for whom."""

    server: Hashable
    method: str
    params: str
    who: tuple[Hashable, ...]
    """The principal, or nobody in particular: then the result is public."""


class Entry(NamedTuple):
    """A result as JSON, which nobody can change."""

    data: bytes
    size: int
    until: float
    uri: str


class Cache:
    """Results of servers, as long as they are fresh.

    `server` and `principal` are the application's keys: all on which an answer may depend, besides method
    and parameters, is in one of them: where the server is and as whom the client speaks to it. Nothing
    is fetched from here, so nothing is polled either.
    # spec: server/utilities/caching/ttl-not-polling, server/utilities/caching/poll-jitter-backoff
    """

    def __init__(
        self,
        max_entries: int = 1000,
        max_bytes: int = 64 << 20,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_count(1, max_entries=max_entries, max_bytes=max_bytes)
        self.max_entries, self.max_bytes = max_entries, max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        forks.tell(self)
        # All below guarded by _lock.
        self._kept: OrderedDict[Key, Entry] = OrderedDict()  # the least recently used first
        self._bytes = 0
        self._changes = 0
        self._changed: OrderedDict[Hashable, int] = OrderedDict()  # server -> number of its last change
        self._forgotten = 0  # the last change that `_changed` has no room for

    def forked(self) -> None:
        """In a forked child: another thread may have held the lock."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    # -- asking ------------------------------------------------------------------------------

    def generation(self, server: Hashable) -> int:
        """A number that is another one after each change at this server. Take it before you ask."""
        with self._lock:
            return self._changed.get(server, self._forgotten)

    def find(self, server: Hashable, principal: Hashable, method: str, params: Json | None) -> Json | None:
        """A copy of the result of such a request, if there is a fresh one. Its `ttlMs` is what is left.

        # spec: server/utilities/caching/key-method-params, server/utilities/caching/stale-refetch
        """
        asked = _asked(method, params)
        if asked is None:
            return None
        with self._lock:
            now = self._clock()
            kept = self._fresh(Key(server, method, asked, (principal,)), now)
            # spec: server/utilities/caching/scope-private-not-shared, server/utilities/caching/scope-public
            kept = kept or self._fresh(Key(server, method, asked, ()), now)
        if kept is None:
            return None
        found: Json = json.loads(kept.data)
        found["ttlMs"] = int((kept.until - now) * 1000)
        return found

    def _fresh(self, key: Key, now: float) -> Entry | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        if now >= kept.until:  # spec: server/utilities/caching/ttl-fresh-period
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return kept

    def store(
        self,
        server: Hashable,
        principal: Hashable,
        method: str,
        params: Json | None,
        result: Json,
        *,
        since: int,
    ) -> bool:
        """Keep a result that has just arrived, if it may be kept; whatever it replaces is gone.

        `since` is the generation when it was asked for: what changed meanwhile, it may not show.
        """
        asked = _asked(method, params)
        # spec: server/utilities/caching/interim-without-hints
        if asked is None or result.get("resultType", "complete") != "complete":
            return False
        entry = self._entry(asked, params or {}, result)
        mine, public = Key(server, method, asked, (principal,)), Key(server, method, asked, ())
        with self._lock:
            if since != self._changed.get(server, self._forgotten):
                return False
            self._drop(mine)
            self._drop(public)
            if entry is not None:  # what is not said to be public is private
                self._keep(public if result.get("cacheScope") == "public" else mine, entry)
        return entry is not None

    def _entry(self, asked: str, params: Json, result: Json) -> Entry | None:
        """What is kept of a result; None if it is stale at once, or too large.

        The time counts for each page by itself.
        # spec: server/utilities/caching/ttl-positive-fresh, server/utilities/caching/page-own-ttl
        """
        seconds = fresh_for(result)
        if not seconds:  # spec: server/utilities/caching/ttl-zero-stale
            return None
        try:
            data = to_json(result).encode("utf-8")
        except (TypeError, ValueError, RecursionError):
            return None
        size = len(asked) + len(data)
        if size > self.max_bytes // SHARE:
            return None
        return Entry(data, size, self._clock() + seconds, str(params.get("uri")))

    # -- what makes results stale ----------------------------------------------------------------

    def on_notification(self, server: Hashable, method: str, params: Json | None) -> None:
        """A server announces a change.  # spec: server/utilities/caching/notification-invalidates"""
        if method in LISTS:
            self._invalidate(server, lambda key, kept: key.method in LISTS[method])
        elif method == UPDATED:
            uri = (params or {}).get("uri")
            self._invalidate(
                server, lambda key, kept: key.method == "resources/read" and _are_kin(kept.uri, uri)
            )

    def forget(self, server: Hashable, method: str | None = None) -> None:
        """Keep nothing of a server, or of one method of it, that was asked for until now."""
        self._invalidate(server, lambda key, kept: method is None or key.method == method)

    def _invalidate(self, server: Hashable, concerns: Callable[[Key, Entry], bool]) -> None:
        with self._lock:
            self._changes += 1
            self._changed[server] = self._changes
            self._changed.move_to_end(server)
            if len(self._changed) > SERVERS:
                _, self._forgotten = self._changed.popitem(last=False)
            for key in [k for k, kept in self._kept.items() if k.server == server and concerns(k, kept)]:
                self._drop(key)

    # -- the table; the caller holds the lock -------------------------------------------------------

    def _keep(self, key: Key, kept: Entry) -> None:
        self._kept[key] = kept
        self._bytes += kept.size
        while len(self._kept) > self.max_entries or self._bytes > self.max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size


_CANONICAL = json.JSONEncoder(sort_keys=True, allow_nan=False, separators=(",", ":"))
"""The same parameters are the same text, whatever the order of their members."""


def _asked(method: str, params: Json | None) -> str | None:
    """The parameters that matter, in one writing; None for a request whose result is not kept.

    # spec: server/utilities/caching/key-method-params, server/utilities/caching/retry-results-uncached
    """
    params = params or {}
    if method not in CACHEABLE or "inputResponses" in params or "requestState" in params:
        return None
    try:
        meta = params.get("_meta") or {}
        # The protocol's own members say who asks; an author's may well be part of the question.
        own = {name: v for name, v in meta.items() if name not in PASSING and not is_reserved(name)}
        return _CANONICAL.encode([{k: v for k, v in params.items() if k != "_meta"}, own])
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None  # no params: no server will answer either


def _are_kin(kept: str, updated: Any) -> bool:
    """Whether two URIs are the same, or one stands below the other: a directory, and what is in it."""
    if not isinstance(updated, str):
        return True  # of whatever it may be
    one, other = kept.rstrip("/") + "/", updated.rstrip("/") + "/"
    return one.startswith(other) or other.startswith(one)
