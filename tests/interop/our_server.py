"""A server of this package, for the official SDK's client. Arguments: its revisions (default: all)."""

import sys
import threading
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any

from mcp_ref import Bounds, Context, Server, ServerOptions
from mcp_ref.basic.index.error_responses import ProtocolError
from mcp_ref.schema import REVISIONS
from mcp_ref.server import content
from mcp_ref.server.content import ContentBlock
from mcp_ref.server.tools import CallToolResult

server = Server(
    "ours",
    version="1.2.3",
    title="Ours",
    instructions="Add numbers.",
    revisions=sys.argv[1:] or REVISIONS,
    page_size=5,
    options=ServerOptions(website_url="https://example.org/ours", ttl_ms=0),
)
cancellations: list[str | None] = []
cancelled = threading.Event()
heard: list[Any] = []
hearing = threading.Event()
started = threading.Barrier(20)


class Unit(Enum):
    METRE = "m"
    FOOT = "ft"


@dataclass
class Walk:
    day: date
    length: float
    unit: Unit = Unit.METRE


@dataclass
class Summary:
    walks: int
    total: float
    last: date


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first
    """
    return a + b


@server.tool
def summarise(walks: list[Walk]) -> Summary:
    """Count walks."""
    assert all(isinstance(walk.unit, Unit) for walk in walks)
    return Summary(len(walks), sum(walk.length for walk in walks), max(walk.day for walk in walks))


@server.tool(
    name="adorned",
    title="Adorned",
    description="It has every member that a tool may have.",
    icons=[{"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["1x1"]}],
    annotations={"title": "Hint", "readOnlyHint": True, "openWorldHint": False},
    meta={"example.org/shelf": 7},
    input_schema={
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
    },
    output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)
def adorned(arguments: dict[str, Any]) -> Any:
    return {"n": arguments["n"] * 2}


@server.tool
def broken(kind: str) -> str:
    """Fails, with an exception or with a protocol error."""
    if kind == "protocol":
        raise ProtocolError("no such account", code=1001, data={"account": 7})
    raise ValueError("the well is dry")


@server.tool
def contents() -> list[ContentBlock]:
    """One block of each type."""
    return [
        content.text(
            "hello", annotations={"audience": ["user"], "priority": 0.5}, meta={"example.org/k": "v"}
        ),
        content.image(b"\x89PNG", "image/png"),
        content.audio(b"RIFF", "audio/wav"),
        content.resource_link("file:///a.txt", "a.txt", description="a file", mime_type="text/plain", size=3),
        content.embedded("file:///b.txt", "its text", "text/plain"),
        content.embedded("file:///c.bin", b"\x00\x01", "application/octet-stream"),
    ]


@server.tool
def whole() -> CallToolResult:
    """A result with `_meta`, made by hand."""
    return {"content": [content.text("whole")], "_meta": {"example.org/trace": "t1"}}


@server.tool
def count(upto: int, ctx: Context) -> str:
    """Reports progress."""
    for n in range(1, upto + 1):
        ctx.progress(n, upto, f"step {n}")
    return "counted"


@server.tool
def speak(ctx: Context) -> None:
    """Logs at three levels."""
    ctx.log("debug", "low", "speaker")
    ctx.log("warning", {"volume": 7}, "speaker")
    ctx.log("error", "loud")


@server.tool
def wait(ctx: Context) -> str:
    """Waits until it is cancelled."""
    ctx.progress(1)
    try:
        ctx.sleep(30)
    finally:
        cancellations.append(ctx.reason)
        cancelled.set()
    return "nobody cancelled this"


@server.tool
def cancellations_seen() -> list[str | None]:
    """What `wait` was told."""
    cancelled.wait(10)
    return cancellations


@server.tool
def echo(text: str) -> str:
    """Gives back what it was given."""
    return text


@server.tool
def meet() -> str:
    """Returns when twenty calls of it run at once."""
    started.wait(10)
    return "met"


@server.tool
def noisy() -> str:
    """Prints, which must not reach the wire."""
    print("this is no message")
    print("and this is for people", file=sys.stderr)
    return "quiet"


@server.tool
def grow(ctx: Context) -> str:
    """Adds a tool and removes one."""
    server.add_tool(lambda: "new", name="grown", description="It was not here before.")
    server.remove_tool("noisy")
    return "grown"


@server.tool
def bounded(n: Annotated[int, Bounds(ge=0, le=9)], word: Annotated[str, "any word"] = "so") -> dict[str, int]:
    """Takes a digit."""
    return {word: n}


@server.tool
def asks_back(ctx: Context) -> str:
    """Pings the client, which only a legacy server may do."""
    return f"answered with {ctx.request('ping')}"


@server.tool
def notifications_heard() -> list[Any]:
    """What `vendor/heard` brought."""
    hearing.wait(10)
    return heard


@server.tool
def tells(ctx: Context) -> str:
    """Sends a notification of its own."""
    ctx.notify("notifications/vendor/told", {"news": 1})
    return "told"


@server.on_request("vendor/double")
def double(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    return {"doubled": params["n"] * 2, "revision": ctx.revision.date}


@server.on_notification("vendor/heard")
def on_heard(params: dict[str, Any]) -> None:
    heard.append({key: value for key, value in params.items() if key != "_meta"})
    hearing.set()


if __name__ == "__main__":
    server.run()
