"""The server of this package, with its defaults. Argument: how many tools besides the usual three."""

import sys

from functions import functions

from mcp_ref import Server

server = Server("bench", version="1.0.0")
for function in functions(int(sys.argv[1])):
    server.add_tool(function)

if __name__ == "__main__":
    server.run()
