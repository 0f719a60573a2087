"""The server of the official SDK over HTTP. Arguments: its port; "json", "stream" or "auto"; how many
tools besides the usual ones.

As it is installed, and as it does best: no log of requests. It has two ways of answering; "auto" is its
default, which is the event stream.
"""

import sys

import uvicorn
from functions import functions
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

port, answers, extra_tools = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = MCPServer("bench", version="1.0.0", log_level="WARNING")
for function in functions(extra_tools):
    server.add_tool(function)


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Say how far it is, after each step."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    return "done"


if __name__ == "__main__":
    app = server.streamable_http_app(json_response=answers == "json")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)
