"""The server of this package over HTTP. Arguments: its port; "json", "stream" or "auto"."""

import sys

from functions import functions

from mcp_ref import Context, HttpOptions, Server

port, answers = int(sys.argv[1]), sys.argv[2]
server = Server("bench", version="1.0.0")
for function in functions(0):
    server.add_tool(function)


@server.tool
def count(steps: int, ctx: Context) -> str:
    """Say how far it is, after each step."""
    for step in range(steps):
        ctx.progress(step + 1, steps)
    return "done"


if __name__ == "__main__":
    server.run("http", port=port, options=HttpOptions(answers=answers))
