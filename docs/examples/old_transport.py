"""One server for clients of today and of 2024-11-05. The client finds out which endpoint it was given."""

import queue
import threading

from mcp_ref import Server, connect

server = Server("shelf", version="1")


@server.tool
def books(subject: str) -> int:
    """How many there are."""
    return len(subject)


ready: queue.SimpleQueue[str] = queue.SimpleQueue()
options = {"port": 0, "sse_path": "/sse", "on_ready": ready.put}
threading.Thread(target=server.run, args=("http",), kwargs=options, daemon=True).start()
url = ready.get(timeout=10)

for path in ("/mcp", "/sse"):
    with connect(url.replace("/mcp", path)) as client:
        print(path, client.revision.date, client.call_tool("books", {"subject": "music"}).text)
