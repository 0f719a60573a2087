"""A server that crashes: in the modern era the next request starts it again."""

import os
import sys

from mcp_ref import ConnectionClosed, Server, connect

server = Server("fragile")


@server.tool
def crash() -> str:
    """End the process."""
    os._exit(7)


@server.tool
def hello() -> str:
    """Say hello."""
    return "hello"


if sys.argv[1:] == ["serve"]:
    server.run()
    sys.exit()

for revision in ("2026-07-28", "2025-11-25"):
    with connect([sys.executable, __file__, "serve"], revision=revision) as client:
        try:
            client.call_tool("crash")
        except ConnectionClosed as problem:
            print(revision, "the call failed:", str(problem).rpartition("exited ")[2])
        try:
            print(revision, client.call_tool("hello").text)
        except ConnectionClosed:
            print(revision, "the session is gone with the server")
