"""Caching (page: server/utilities/caching).

Some results say how long they may be cached, and for whom: `ttlMs` milliseconds, for anyone ("public") or
only for the caller that requested them ("private").

    server -> client   {..., ttlMs, cacheScope}
    client             uses its own copy while that is fresh, and asks again when it is stale
    server -> client   notifications/.../list_changed, notifications/resources/updated: stale from now on

Server half   `Caching`: what the author of a server says; `hints_by_method`: the hints for each method
Client half   `Cache`: results until they are stale, for one client or for several that share it

Revisions   2026-07-28.  On complete results of server/discover, tools/list, prompts/list,
            resources/list, resources/templates/list and resources/read.

Errors      no errors on the wire: a result with hints that make no sense is not cached.
Threads     a Cache may be used by any threads; its lock guards a table, and is never held while JSON is
            encoded or decoded.
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

__all__ = ["Cache", "CacheScope", "Caching", "hints", "hints_by_method"]

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
    """Caching hints for the results of a server. The default, stale at once and private, is always true.

    "public" lets a cache give a result to every caller, also to those that may not read it themselves: the
    scope is no access control.
    """

    ttl_ms: int = 0
    scope: CacheScope = "private"

    def __post_init__(self) -> None:
        hints(self.ttl_ms, self.scope)


def hints(ttl_ms: int, scope: CacheScope) -> Json:
    """The members `ttlMs` and `cacheScope` of a result. Raises ValueError."""
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or ttl_ms < 0:
        raise ValueError(f"ttl_ms must be a whole number of milliseconds, 0 or more, not {ttl_ms!r}")
    if scope not in ("public", "private"):
        raise ValueError(f"cache_scope must be 'public' or 'private', not {scope!r}")
    return {"ttlMs": ttl_ms, "cacheScope": scope}


def with_hints(result: Json, hints: Json) -> Json:
    """A result with the hints that its handler left out. A result that asks for input has no hints.

    # spec: server/utilities/caching/hints-required, server/utilities/caching/interim-without-hints
    """
    return {**hints, **result} if result["resultType"] == "complete" else result


def hints_by_method(default: Caching, per_method: Mapping[str, Caching] | None = None) -> dict[str, Json]:
    """The hints for each method with cacheable results. Raises ValueError, TypeError.

    All pages of a list have the same hints.  # spec: server/utilities/caching/page-same-scope
    """
    given = dict.fromkeys(CACHEABLE, default) | dict(per_method or {})
    for method, caching in given.items():
        if method not in CACHEABLE:
            raise ValueError(f"results of {method!r} cannot be cached; hints apply to {', '.join(CACHEABLE)}")
        if not isinstance(caching, Caching):
            raise TypeError(f"the hints for {method} must be a Caching, not {caching!r:.60}")
    return {method: hints(caching.ttl_ms, caching.scope) for method, caching in given.items()}


# ----------------------------------------------------------------------- client half

LISTS_BY_NOTIFICATION = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
"""The methods whose results a notification makes stale."""

RESOURCE_UPDATED = "notifications/resources/updated"

PER_REQUEST_META = frozenset({"progressToken", "traceparent", "tracestate"})
"""Members of `_meta` that differ with each request, so that a key must not have them."""

ENTRY_SIZE_DIVISOR = 8
"""A result takes up at most this part of `max_bytes`: one large result must not displace all others."""

MAX_TTL_MS = 2**53
"""The longest `ttlMs` that counts, in milliseconds: a server may send integers too large for a float."""

MAX_CHANGED_SERVERS = 1000
"""Servers whose last change is remembered by name; all other servers share one number."""


def fresh_for(result: Json) -> float:
    """Seconds for which a result is fresh after its receipt.

    # spec: server/utilities/caching/ttl-absent-zero, server/utilities/caching/ttl-negative-zero
    """
    ttl = result.get("ttlMs", 0)
    return min(max(0, ttl), MAX_TTL_MS) / 1000 if type(ttl) is int or type(ttl) is float else 0.0


class CacheKey(NamedTuple):
    """The request that a cached result answers, and the caller it is for."""

    server: Hashable
    method: str
    params: str
    caller: tuple[Hashable, ...]
    """The principal of a private result; empty for a public one."""


class CachedResult(NamedTuple):
    """A cached result, as JSON text: each caller gets a copy, so that no caller changes another's."""

    data: bytes
    size: int
    """Bytes of `data`, and characters of the params in its key."""
    fresh_until: float
    """By the clock of the Cache, in seconds."""
    uri: str
    """That of a resource, in a result of resources/read; it has no meaning for other methods."""


class Cache:
    """Results of servers, as long as they are fresh.

    `server` and `principal` are the application's keys. Everything that an answer may depend on besides
    method and parameters is in one of them: the address of the server, and the identity that the client has
    there. The cache sends no requests, so it does not poll either.
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
        forks.register(self)
        # All below guarded by _lock.
        self._entries: OrderedDict[CacheKey, CachedResult] = OrderedDict()  # the least recently used first
        self._bytes = 0
        self._changes = 0
        self._last_change: OrderedDict[Hashable, int] = OrderedDict()  # server -> number of its last change
        self._oldest_change = 0  # for all servers not in `_last_change`: the last number dropped from it

    def forked(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    # -- lookup and storage ------------------------------------------------------------------

    def generation(self, server: Hashable) -> int:
        """A number that differs after each change at this server. Take it before you send a request."""
        with self._lock:
            return self._last_change.get(server, self._oldest_change)

    def find(self, server: Hashable, principal: Hashable, method: str, params: Json | None) -> Json | None:
        """A copy of the fresh result of such a request, or None. Its `ttlMs` is the time that is left.

        # spec: server/utilities/caching/key-method-params, server/utilities/caching/stale-refetch
        """
        canonical = _canonical_params(method, params)
        if canonical is None:
            return None
        with self._lock:
            now = self._clock()
            entry = self._find_fresh(CacheKey(server, method, canonical, (principal,)), now)
            # spec: server/utilities/caching/scope-private-not-shared, server/utilities/caching/scope-public
            entry = entry or self._find_fresh(CacheKey(server, method, canonical, ()), now)
        if entry is None:
            return None
        result: Json = json.loads(entry.data)
        result["ttlMs"] = int((entry.fresh_until - now) * 1000)
        return result

    def _find_fresh(self, key: CacheKey, now: float) -> CachedResult | None:
        """The entry of a key; a stale one is dropped. With _lock held."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now >= entry.fresh_until:  # spec: server/utilities/caching/ttl-fresh-period
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry

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
        """Cache a result that has just arrived, and drop the one it replaces. False if it cannot be cached.

        `since` is the generation at which it was requested: if the server has announced a change since
        then, the result may be older than that change, and is not cached.
        """
        canonical = _canonical_params(method, params)
        # spec: server/utilities/caching/interim-without-hints
        if canonical is None or result.get("resultType", "complete") != "complete":
            return False
        entry = self._entry_of(result, canonical, params or {})
        private, public = (
            CacheKey(server, method, canonical, (principal,)),
            CacheKey(server, method, canonical, ()),
        )
        with self._lock:
            if since != self._last_change.get(server, self._oldest_change):
                return False
            self._drop(private)
            self._drop(public)
            if entry is not None:  # without a scope, a result is private
                self._add(public if result.get("cacheScope") == "public" else private, entry)
        return entry is not None

    def _entry_of(self, result: Json, canonical: str, params: Json) -> CachedResult | None:
        """The entry of a result; None if it is stale at once, or too large.

        Each page of a list has a time of its own.
        # spec: server/utilities/caching/ttl-positive-fresh, server/utilities/caching/page-own-ttl
        """
        seconds = fresh_for(result)
        if not seconds:  # spec: server/utilities/caching/ttl-zero-stale
            return None
        try:
            data = to_json(result).encode("utf-8")
        except (TypeError, ValueError, RecursionError):
            return None
        size = len(canonical) + len(data)
        if size > self.max_bytes // ENTRY_SIZE_DIVISOR:
            return None
        return CachedResult(data, size, self._clock() + seconds, str(params.get("uri")))

    # -- invalidation ----------------------------------------------------------------------------

    def on_notification(self, server: Hashable, method: str, params: Json | None) -> None:
        """Drop the results that a server announces as changed.

        # spec: server/utilities/caching/notification-invalidates
        """
        if method in LISTS_BY_NOTIFICATION:
            self._invalidate(server, lambda key, entry: key.method in LISTS_BY_NOTIFICATION[method])
        elif method == RESOURCE_UPDATED:
            uri = (params or {}).get("uri")
            self._invalidate(
                server, lambda key, entry: key.method == "resources/read" and _are_related(entry.uri, uri)
            )

    def forget(self, server: Hashable, method: str | None = None) -> None:
        """Drop all cached results of a server, or of one method.

        Results of requests that are under way will not be stored.
        """
        self._invalidate(server, lambda key, entry: method is None or key.method == method)

    def _invalidate(self, server: Hashable, is_stale: Callable[[CacheKey, CachedResult], bool]) -> None:
        with self._lock:
            self._changes += 1
            self._last_change[server] = self._changes
            self._last_change.move_to_end(server)
            if len(self._last_change) > MAX_CHANGED_SERVERS:
                _, self._oldest_change = self._last_change.popitem(last=False)
            stale = [k for k, entry in self._entries.items() if k.server == server and is_stale(k, entry)]
            for key in stale:
                self._drop(key)

    # -- the entries; the caller holds the lock -----------------------------------------------------

    def _add(self, key: CacheKey, entry: CachedResult) -> None:
        self._entries[key] = entry
        self._bytes += entry.size
        while len(self._entries) > self.max_entries or self._bytes > self.max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: CacheKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size


class CacheOfServer(NamedTuple):
    """The part of a Cache that belongs to one server and one principal. Without `cache`, nothing is kept."""

    cache: Cache | None
    server: Hashable
    principal: Hashable

    def generation(self) -> int:
        """A number that differs after each change at the server."""
        return 0 if self.cache is None else self.cache.generation(self.server)

    def find(self, method: str, params: Json) -> Json | None:
        """A copy of the fresh result of such a request, or None."""
        return None if self.cache is None else self.cache.find(self.server, self.principal, method, params)

    def store(self, method: str, params: Json, result: Json, since: int) -> None:
        """Cache a result that was requested at the generation `since`."""
        if self.cache is not None:
            self.cache.store(self.server, self.principal, method, params, result, since=since)

    def on_notification(self, method: str, params: Json) -> None:
        """Drop the results that the server announces as changed."""
        if self.cache is not None:
            self.cache.on_notification(self.server, method, params)

    def forget(self, method: str | None) -> None:
        """Drop the results of one method, or all."""
        if self.cache is not None:
            self.cache.forget(self.server, method)


_CANONICAL_ENCODER = json.JSONEncoder(sort_keys=True, allow_nan=False, separators=(",", ":"))
"""Equal parameters have the same text, whatever the order of their members."""


def _canonical_params(method: str, params: Json | None) -> str | None:
    """The parameters that the answer depends on, as one text; None if the result cannot be cached.

    # spec: server/utilities/caching/key-method-params, server/utilities/caching/retry-results-uncached
    """
    params = params or {}
    if method not in CACHEABLE or "inputResponses" in params or "requestState" in params:
        return None
    try:
        members = {name: value for name, value in params.items() if name != "_meta"}
        return _CANONICAL_ENCODER.encode([members, _custom_meta(params.get("_meta") or {})])
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None  # not valid params: the server will refuse them, so there is no result to cache


def _custom_meta(meta: Json) -> Json:
    """The members of `_meta` that the answer may depend on.

    The protocol's own members describe the client, which is part of the key already; an author's may well
    change the answer.
    """
    return {name: v for name, v in meta.items() if name not in PER_REQUEST_META and not is_reserved(name)}


def _are_related(cached: str, updated: Any) -> bool:
    """Whether two URIs are equal, or one stands below the other: a directory, and a file in it."""
    if not isinstance(updated, str):
        return True  # the notification does not say which resource, so it may be any
    one, other = cached.rstrip("/") + "/", updated.rstrip("/") + "/"
    return one.startswith(other) or other.startswith(one)
