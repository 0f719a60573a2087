"""A tool that failed need not be silent, and what it returned can come as what it was."""

import datetime
from dataclasses import dataclass

from mcp_ref import Server, ToolError, connect

server = Server("notes")


@dataclass
class Note:
    text: str
    day: datetime.date


@server.tool
def note(number: int) -> Note:
    """A note."""
    if number > 1:
        raise LookupError(f"there is no note {number}")
    return Note("Buy milk", datetime.date(2026, 7, 28))


with connect(server) as client:
    result = client.call_tool("note", {"number": 1})
    print(result.raise_for_error().structured)
    print(result.load(Note))
    print(client.call_tool("note", {"number": 1}, returns=Note))
    print(client.call_tool("note", {"number": 2}).is_error)

with connect(server, check=True) as client:
    call = client.submit_tool("note", {"number": 2})
    try:
        call.result(timeout=10)
    except ToolError as problem:
        print("failed:", problem, problem.content)
