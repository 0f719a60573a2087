"""A server with one tool, for tests that need no more of one."""

from __future__ import annotations

from typing import Any

from choices import for_server

from mcp_ref import Server


def demo(**options: Any) -> Server:
    """`add`, and options of `Server` or of ServerOptions, each by its name."""
    server = Server("demo", version="1.0", **for_server(options))

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    return server
