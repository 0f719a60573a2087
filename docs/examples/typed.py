"""Types: arguments arrive as real Python values, and results go back the same way."""

import datetime
import enum
import json
from dataclasses import dataclass, field
from typing import Annotated

from mcp_ref import Bounds, Server, connect

server = Server("calendar")


class Kind(enum.Enum):
    MEETING = "meeting"
    HOLIDAY = "holiday"


@dataclass
class Entry:
    title: str
    day: datetime.date
    kind: Kind = Kind.MEETING
    guests: list[str] = field(default_factory=list)


@server.tool
def postpone(entry: Entry, days: Annotated[int, "by how many", Bounds(ge=1, le=365)] = 7) -> Entry:
    """Postpone an entry of the calendar."""
    entry.day += datetime.timedelta(days=days)
    return entry


with connect(server) as client:
    schema = client.list_tools()[0]["inputSchema"]
    print(json.dumps(schema["properties"]["days"]))
    lunch = {"title": "Lunch", "day": "2026-07-28", "guests": ["Ada"]}
    print(client.call_tool("postpone", {"entry": lunch}).structured)
    print(client.call_tool("postpone", {"entry": {"title": "Lunch", "day": "soon"}, "days": 0}).text)
