"""A server: two functions, which any MCP client can find and call."""

from typing import Annotated

from mcp_ref import Bounds, Server

server = Server("weights", version="1.0.0")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def convert(kilos: Annotated[float, "what the scales say", Bounds(ge=0)]) -> dict[str, float]:
    """Convert a weight to pounds and ounces."""
    pounds, rest = divmod(kilos / 0.45359237, 1)
    return {"pounds": pounds, "ounces": round(rest * 16, 1)}


if __name__ == "__main__":
    server.run()
