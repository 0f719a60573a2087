"""Pagination: a long list comes page by page; `list_tools` fetches them all."""

from mcp_ref import ErrorResponse, Server, connect

server = Server("long list", page_size=4)
for number in range(10):
    server.add_tool(lambda: "", name=f"tool_{number}")

with connect(server) as client:
    print(len(client.list_tools()), "tools")
    for page in client.pages("tools/list"):
        print([tool["name"] for tool in page["tools"]], "more" if "nextCursor" in page else "the end")
    try:
        client.request("tools/list", {"cursor": "my own"})
    except ErrorResponse as problem:
        print(problem)
