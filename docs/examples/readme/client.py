import sys

from mcp_ref import connect

with connect([sys.executable, "server.py"]) as client:
    result = client.call_tool("add", {"a": 1, "b": 2})
    print(result.text, result.structured, client.revision)
