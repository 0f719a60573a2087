"""Logging: messages from a server to its client, and Python's own logging on the same way."""

import logging
import queue

from mcp_ref import Context, Server, connect
from mcp_ref.server.utilities.logging import bridge

library = logging.getLogger("weather_station")
library.setLevel(logging.DEBUG)
library.addHandler(bridge())

server = Server("weather")


@server.tool
def forecast(ctx: Context) -> str:
    """Tomorrow's weather."""
    library.info("asking %d stations", 3)  # a library that knows nothing of MCP
    ctx.log("warning", {"station": 2, "state": "silent"}, logger="forecast")
    return "rain"


# The forecast logs twice: the level of the second client keeps one of the messages back.
for revision, level, messages in (("2025-11-25", "info", 2), ("2026-07-28", "warning", 1)):
    heard: queue.Queue = queue.Queue()  # callbacks run on a thread of the client's
    with connect(server, revision=revision, on_log=lambda *said, heard=heard: heard.put(said)) as client:
        client.set_log_level(level)
        print(revision, level, client.call_tool("forecast").text)
        for _ in range(messages):
            print(*heard.get(timeout=10))
