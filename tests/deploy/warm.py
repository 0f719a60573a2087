"""`served`, used before it is served: a client has called it, and a timer waits while gunicorn forks."""

from served import app, server

from mcp_ref import connect
from mcp_ref.runtime.threads import timers

__all__ = ["app", "server"]

with connect(server) as client:
    client.submit("tools/call", {"name": "echo", "arguments": {"words": "warm"}}, timeout=600).result(10)

timers.later(600, lambda: None)  # its thread is there when the worker is forked, and is not in the worker
