"""The server of this package over HTTP. Arguments: its port; "json", "stream" or "auto"; extra tools."""

import sys

from functions import functions

from mcp_ref import Context, HttpOptions, Server

port, answers, extra_tools = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = Server("bench", version="1.0.0")
for function in functions(extra_tools):
    server.add_tool(function)


@server.tool
def count(steps: int, ctx: Context) -> str:
    """Say how far it is, after each step."""
    for step in range(steps):
        ctx.progress(step + 1, steps)
    return "done"


if __name__ == "__main__":
    server.run("http", port=port, options=HttpOptions(answers=answers))
