"""A tool with a hand-written schema: its function takes the arguments as one dict."""

from mcp_ref import Server, connect

server = Server("by hand")

POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}


@server.tool(name="mirror", input_schema=POINT, output_schema=POINT)
def mirrored(point):
    """Mirror a point at the diagonal."""
    return {"x": point["y"], "y": point["x"]}


with connect(server) as client:
    print(client.call_tool("mirror", {"x": 1, "y": 2}).structured)
    print(client.call_tool("mirror", {"x": 1}).text)
