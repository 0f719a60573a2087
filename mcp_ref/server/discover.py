"""Discovery (page: server/discover).

    client -> server   server/discover                                    (nothing but `_meta`)
    server -> client   {supportedVersions, capabilities, instructions?, ttlMs, cacheScope}

One request for all that a server says of itself. On stdio it is also how a client finds out whether
the server is a modern one (basic/transports/stdio/backward_compatibility).

Revisions   2026-07-28.  Before, the result of `initialize` said the same (basic/lifecycle).
Threads     `on_discover` runs on the reader (on a worker if there are hooks), over Streamable HTTP on the
            thread that took the POST; `check_result` on the thread that sent the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Required, TypedDict

from mcp_ref.basic.index.general_fields import ResultMeta, request_meta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import ClientCapabilities, ServerCapabilities, ServerFacts
from mcp_ref.basic.versioning import LATEST, Era, Method, newest
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.schema import Mismatch, checker, pruner
from mcp_ref.server.utilities.caching import CacheScope, TtlMs

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["on_discover"]

# ---------------------------------------------------------------------------- shapes


class DiscoverResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[str]
    supportedVersions: Required[list[str]]  # spec: server/discover/result-fields
    capabilities: Required[ServerCapabilities]
    instructions: str
    ttlMs: Required[TtlMs]
    cacheScope: Required[CacheScope]


# ----------------------------------------------------------------------- server half


def on_discover(server: ServerFacts, params: Json, context: RequestContext) -> Json:
    """Answer server/discover.  # spec: server/discover/implemented

    `supportedVersions` are all revisions that the server speaks, newest first, the same as in an
    UnsupportedProtocolVersionError. A client that chooses a legacy one of them sends `initialize`, since a
    request cannot name a legacy revision in its `_meta`.
    """
    result: Json = {
        "supportedVersions": server.versions.supported,
        "capabilities": pruner(ServerCapabilities, context.revision.date)(
            server.capabilities(context.revision)
        ),
    }
    if server.instructions:
        result["instructions"] = server.instructions
    return result


METHODS = (Method("server/discover", on_discover, since="2026-07-28", result=DiscoverResult, cacheable=True),)

# ----------------------------------------------------------------------- client half


def params(supported: Iterable[str], declared: Any, info: Any) -> Json:
    """The params of server/discover: `_meta` in the newest modern version, and nothing else.

    # spec: server/discover/no-body-parameters
    """
    latest = newest(supported, Era.MODERN) or LATEST
    return {"_meta": request_meta(latest.date, pruner(ClientCapabilities, latest.date)(declared), info)}


def check_result(client: object, params: Json, result: Json, timeout: float | None) -> None:
    """Check the shape of a result. Raises InvalidResponse."""
    try:
        checker(DiscoverResult, LATEST.date, ("ttlMs", "cacheScope", "resultType"))(result)
    except Mismatch as problem:
        raise InvalidResponse(f"server/discover: {problem}") from None
