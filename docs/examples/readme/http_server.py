from mcp_ref import Server

server = Server("calculator", version="1.0.0")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run("http", port=8000)
