"""A server to be tested, in a module of its own."""

from mcp_ref import Context, Server

server = Server("weights")


@server.tool
def convert(kilos: float) -> dict[str, float]:
    """Convert a weight to pounds."""
    if kilos < 0:
        raise ValueError("a weight is not negative")
    return {"pounds": round(kilos / 0.45359237, 2)}


@server.tool
def clear(ctx: Context) -> str:
    """Forget all weights, if the person agrees."""
    return "cleared" if ctx.confirm("Forget all weights?") else "kept"


if __name__ == "__main__":
    server.run()
