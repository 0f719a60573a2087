"""Caching (page: server/utilities/caching).

Some results say how long they may be kept, and by whom: `ttlMs` milliseconds, by anyone ("public")
or only for the caller that fetched them ("private").

Revisions   2026-07-28.  On complete results of server/discover, tools/list, prompts/list,
            resources/list, resources/templates/list and resources/read.

Here        the hints on the wire. What we send is what the server was given: `Server(ttl_ms=...,
            cache_scope=...)`; by default a result is stale at once and private, which is always true.
            All pages of a list carry the same scope. What we read is for how long the definitions of
            tools are good (server/tools); results are not kept.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

from mcp_ref.basic.messages import Json
from mcp_ref.basic.meta import ResultMeta
from mcp_ref.schema import Bounds, since

__all__ = ["CacheScope", "hints"]

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


def hints(ttl_ms: int, scope: CacheScope) -> Json:
    """The two members, checked. Raises ValueError."""
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or ttl_ms < 0:
        raise ValueError(f"ttl_ms is a whole number of milliseconds from 0 on, not {ttl_ms!r}")
    if scope not in ("public", "private"):
        raise ValueError(f"cache_scope is 'public' or 'private', not {scope!r}")
    return {"ttlMs": ttl_ms, "cacheScope": scope}


# ----------------------------------------------------------------------- client half


def fresh_for(result: Json) -> float:
    """For how many seconds a result may be taken as it is.

    # spec: server/utilities/caching/ttl-absent-zero, server/utilities/caching/ttl-negative-zero
    """
    ttl = result.get("ttlMs", 0)
    return max(0, ttl) / 1000 if type(ttl) is int or type(ttl) is float else 0.0
