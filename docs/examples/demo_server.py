"""The server of the demo: two tools."""

from mcp_ref import Context, Server

server = Server("demo", version="1.0.0", instructions="Adds and counts.")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(title="Count", annotations={"readOnlyHint": True})
def count(upto: int, ctx: Context) -> list[str]:
    """Count aloud."""
    words = []
    for number in range(1, upto + 1):
        ctx.progress(number, upto, message="counting")
        words.append(f"number {number}")
    return words


if __name__ == "__main__":
    server.run()
