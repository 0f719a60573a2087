"""A client: starts the server, uses it, and ends it."""

import sys
from pathlib import Path

from mcp_ref import connect

SERVER = Path(__file__).with_name("quickstart_server.py")

with connect([sys.executable, SERVER]) as client:
    print("speaks", client.revision)
    for tool in client.list_tools():
        print("offers", tool["name"], "-", tool["description"])

    print(client.call_tool("add", {"a": 1, "b": 2}).text)
    print(client.call_tool("convert", {"kilos": 2.5}).structured)

    failed = client.call_tool("convert", {"kilos": -1})
    print(failed.is_error, failed.text)
