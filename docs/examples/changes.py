"""Tools come and go while clients are connected; many changes become one notification."""

import queue

from mcp_ref import Server, connect

server = Server("plugins")
server.add_tool(lambda: "one", name="one")
heard: queue.Queue = queue.Queue()

with connect(server, revision="2025-11-25", on_notification=lambda *said: heard.put(said)) as client:
    print([tool["name"] for tool in client.list_tools()])
    server.add_tool(lambda: "two", name="two")
    server.add_tool(lambda: "three", name="three")
    server.remove_tool("one")
    method, params = heard.get(timeout=10)
    print(method)
    print([tool["name"] for tool in client.list_tools()])
