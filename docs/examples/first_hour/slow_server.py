"""A server that takes its time: three_servers.py starts it three times."""

from mcp_ref import Context, Server

server = Server("copier")


@server.tool
def copy(files: int, ctx: Context) -> str:
    """Copy files, and say how far it is."""
    for number in range(1, files + 1):
        ctx.sleep(0.1)  # ends at once when the call is cancelled
        ctx.progress(number, files)
    return f"{files} files copied"


server.run()
