"""A client of a server elsewhere, which may be away for a while: `python remote_client.py http://host/mcp`."""

import os
import sys

from mcp_ref import MayHaveRun, McpError, Retry, connect

token = os.environ.get("MCP_TOKEN")  # none, if the server wants none
try:
    # What surely was not done, or may be done twice, is sent again up to five times.
    with connect(sys.argv[1], auth=token, retry=Retry(5), check=True, timeout=10) as client:
        print(client.server_info["name"], "speaks", client.revision)
        for tool in client.list_tools():
            print("-", tool["name"])
        print(client.call_tool("add", {"a": 1, "b": 2}, returns=int))
except MayHaveRun as problem:
    sys.exit(f"look whether it was done: {problem}")
except McpError as problem:  # away for longer, a wrong token, a tool that failed
    sys.exit(f"{type(problem).__name__}: {problem}")
