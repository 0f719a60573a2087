"""`served`, used before it is served: a client has called it, in the process that imports it."""

from served import app, server

from mcp_ref import connect

__all__ = ["app", "server"]

with connect(server) as client:
    client.submit("tools/call", {"name": "echo", "arguments": {"words": "warm"}}).result(10)
    pending = client.submit("tools/call", {"name": "echo", "arguments": {"words": "warm"}}, timeout=600)
    pending.result(10)
