"""Many calls at once: `submit_tool` returns a `concurrent.futures.Future`."""

import threading
from concurrent.futures import as_completed

from mcp_ref import Server, connect

server = Server("meeting")
everybody = threading.Barrier(3)


@server.tool
def meet(who: str) -> str:
    """Wait until three have come."""
    everybody.wait(10)  # a tool may block: each call has a thread of its own
    return f"{who} met the others"


with connect(server) as client:
    calls = [client.submit_tool("meet", {"who": who}, timeout=10) for who in ("Ada", "Ben", "Cho")]
    for line in sorted(call.result().text for call in as_completed(calls)):
        print(line)
