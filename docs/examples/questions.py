"""Elicitation: what a callback may say, and what the tool that asked makes of it."""

from dataclasses import dataclass
from typing import Annotated

from mcp_ref import Context, McpError, Server, connect
from mcp_ref.schema import Bounds

server = Server("bookings")


@dataclass
class Table:
    seats: Annotated[int, Bounds(ge=1, le=8)]
    window: bool = False


@server.tool
def book(ctx: Context) -> str:
    """Book a table."""
    try:
        answer = ctx.elicit("A table for how many?", Table)
    except McpError as problem:  # no person there, or an answer that fits no table
        return f"no person could be asked: {problem}"
    if answer.action == "decline":
        return "as you like"
    if answer.action == "cancel":
        return "another time, perhaps"
    return f"booked: {answer.data}"


CALLBACKS = {
    "a dict": lambda question: {"seats": 2},
    "an instance": lambda question: Table(4, window=True),
    "False": lambda question: False,
    "question.decline()": lambda question: question.decline(),
    "None": lambda question: None,
    "too many": lambda question: {"seats": 9},
}
for said, callback in CALLBACKS.items():
    with connect(server, revision="2025-11-25", elicitation=callback) as client:
        print(f"{said:20}{client.call_tool('book').text}")
