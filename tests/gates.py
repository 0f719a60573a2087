"""A server with a tool that waits until the test opens a gate."""

from __future__ import annotations

import threading
from typing import Any

from choices import for_server
from peers import PATIENCE

from mcp_ref import Context, Server


class Gate:
    """Where a tool waits until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()

    def wait(self, ctx: Context) -> str:
        self.entered.release()
        while not ctx.cancelled and not self.open.wait(0.01):
            pass
        return "through"

    def is_entered(self) -> bool:
        return self.entered.acquire(timeout=PATIENCE)


def make_server(gate: Gate | None = None, **options: Any) -> Server:
    server = Server("tests", version="1", **for_server(options))

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    if gate is not None:
        server.add_tool(gate.wait, name="wait")
    return server
