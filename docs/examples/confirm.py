"""Review and audit: see every call before it goes, and keep a line of every call that went."""

import logging
import sys

from mcp_ref import ClientOptions, McpError, Server, connect

server = Server("files")


@server.tool(annotations={"readOnlyHint": True})
def show(name: str) -> str:
    """Show a file."""
    return f"this is {name}"


@server.tool
def delete(name: str) -> str:
    """Delete a file."""
    return f"{name} is gone"


def confirm(tool, hints, arguments):
    """A person could be asked here. `hints` is what the server claims, with the defaults filled in."""
    print("may it?", tool["name"], arguments, "destructive:", hints["destructiveHint"])
    return not hints["destructiveHint"]


audit = logging.getLogger("mcp_ref.audit")
audit.setLevel(logging.INFO)
audit.addHandler(logging.StreamHandler(sys.stdout))

with connect(server, confirm=confirm, options=ClientOptions(audit_arguments=True)) as client:
    client.call_tool("show", {"name": "a.txt"})
    try:
        client.call_tool("delete", {"name": "a.txt"})
    except McpError as problem:
        print(problem)
