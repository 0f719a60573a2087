"""Forms: what a server asks for, as each revision has it, and what becomes of the answer."""

import enum
import json
from dataclasses import dataclass
from typing import Annotated

from mcp_ref import Context, Server, connect
from mcp_ref.schema import Bounds


class Room(enum.Enum):
    ATTIC = "r1"
    SEA_VIEW = "r2"


@dataclass
class Booking:
    name: Annotated[str, "As on your passport", Bounds(min_length=2)]
    nights: Annotated[int, Bounds(ge=1, le=30)] = 1
    room: Room = Room.ATTIC
    note: str | None = None


server = Server("hotel")


@server.tool
def book(ctx: Context) -> str:
    """Book a room."""
    answer = ctx.elicit("Whom do we expect?", Booking)
    return f"{answer.action}: {answer.data}"


def fill_in(question):
    print("asked for", json.dumps(question.schema["properties"]["room"]))
    return {"name": "Mona", "room": "r2"}


for revision in ("2025-06-18", "2026-07-28"):
    print(f"-- {revision}")
    with connect(server, revision=revision, elicitation=fill_in) as client:
        print(client.call_tool("book").text)

print("-- an answer that does not fit")
with connect(server, revision="2025-11-25", elicitation=lambda question: {"nights": 0}) as client:
    print(client.call_tool("book").text)
