"""Ping (page: basic/utilities/ping).

Either side asks whether the other one is still there, at any time, and gets an empty result.

Revisions   2024-11-05 to 2025-11-25.  2026-07-28 has no ping: `server/discover` tells as much.
Threads     answered by the reader itself, so that no busy tool delays it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict

from mcp_ref.basic.errors import LocalError
from mcp_ref.basic.messages import AnyParams, Json, RequestId
from mcp_ref.basic.meta import RequestParams
from mcp_ref.basic.versioning import Method
from mcp_ref.schema import since, until, was

if TYPE_CHECKING:
    from mcp_ref.basic.context import Context
    from mcp_ref.basic.patterns.request_response import Connection

__all__ = ["on_ping", "ping"]

_log = logging.getLogger("mcp_ref.ping")

# ---------------------------------------------------------------------------- shapes


class PingRequest(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25")]]
    id: Required[Annotated[RequestId, since("2025-11-25")]]
    method: Required[Literal["ping"]]
    params: Annotated[RequestParams, was(AnyParams, until="2025-06-18")]


DEFINITIONS: dict[str, Any] = {"PingRequest": Annotated[PingRequest, until("2025-11-25")]}

# ---------------------------------------------------------------------- whoever is asked


def on_ping(endpoint: Any, params: Json, context: Context) -> Json:
    """# spec: basic/utilities/ping/respond-empty"""
    return {}


METHODS = (Method("ping", on_ping, until="2025-11-25"),)

# ----------------------------------------------------------------------- whoever asks


def ping(connection: Connection, timeout: float | None = None) -> None:
    """Return if the peer answers; raise RequestTimeout or ConnectionClosed if not.

    # spec: basic/utilities/ping/either-side, basic/utilities/ping/log-failures
    """
    try:
        connection.request("ping", timeout=timeout)
    except LocalError as problem:
        _log.warning("ping failed: %s", problem)
        raise
