"""A server as a WSGI application: `wsgi:app`. What differs from place to place is in the environment."""

import os
from dataclasses import dataclass

from mcp_ref import Context, Server

THREADS = int(os.environ.get("MCP_THREADS", "16"))

# Processes that share a secret go on with each other's questions.
server = Server("deployed", version="1.0", secret=os.environ.get("MCP_SECRET"))


@dataclass
class Table:
    seats: int


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def copy(files: int, ctx: Context) -> str:
    """Copy some files."""
    for number in range(1, files + 1):
        ctx.sleep(0.1)  # ends at once when the request is cancelled
        ctx.progress(number, files, message=f"file {number}")
    return f"{files} files copied"


@server.tool
def book(ctx: Context) -> str:
    """Book a table."""
    answer = ctx.elicit("A table for how many?", Table)
    return f"a table for {answer.data.seats}" if answer else "no table"


app = server.wsgi_app(
    path="/mcp",
    health_path="/health",
    threads=THREADS,  # as many as the WSGI server has: so it can refuse what would use up the last
    keep_alive=float(os.environ.get("MCP_KEEP_ALIVE", "15")),
    allowed_hosts=os.environ["MCP_HOSTS"].split() if "MCP_HOSTS" in os.environ else None,
)
