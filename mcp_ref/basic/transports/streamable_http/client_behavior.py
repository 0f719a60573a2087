"""Arguments of tools that go into headers: what a client has to know for that (page: server/tools,
"x-mcp-header"; the rules are in basic/transports/streamable_http/schema_extension).

    known tool        the arguments that its definition marks (client.mirrored keeps them)
    unknown tool      the list of tools is fetched once, in the time of the first call
    -32020            the tool wants other headers than we know of: the list is fetched anew, and the call
                      sent again, once

Revisions   2026-07-28, over Streamable HTTP.
Threads     the caller's; for futures a worker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.transports.streamable_http import schema_extension as http_annotations
from mcp_ref.server import tools

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths
    from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["is_about_headers", "mirrored", "refresh"]

Mirrored: TypeAlias = "dict[str, tuple[Any, Paths]]"
"""The name of a tool -> its definition, and the arguments that it wants in headers."""

HEADER_MISMATCH = -32020
"""basic/transports/streamable_http/request_metadata"""


def mirrored(client: Any, name: Any, deadline: Deadline | None) -> Paths | None:
    """Which arguments of a tool go into headers, by the definition that we know, or get in time.

    # spec: basic/transports/streamable-http/inspect-input-schema
    """
    tool = client.known_tools.get(name)
    if tool is None:
        tool = tools.fetched(client, name, deadline=deadline)
    kept: tuple[Any, Paths] | None = client.mirrored.get(name)
    if kept is None or kept[0] is not tool:
        kept = tool, http_annotations.annotated(tool.get("inputSchema", {}))
        client.mirrored[name] = kept
    return kept[1]


def is_about_headers(client: Any, method: str, problem: Any) -> bool:
    """Whether a call was refused for its headers: the tool may want others than we know of."""
    code = problem.code if isinstance(problem, ErrorResponse) else None
    return method == "tools/call" and code == HEADER_MISMATCH and bool(client.repeats_arguments)


def refresh(client: Any, params: Json, timeout: float | None) -> None:
    """Ask for the tools anew.  # spec: basic/transports/streamable-http/header-mismatch-refresh"""
    client.forget_cached("tools/list")
    tools.fetched(client, params.get("name"), timeout=timeout)
