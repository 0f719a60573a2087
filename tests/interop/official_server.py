"""A server made with the official SDK's MCPServer, for a client of this package."""

import os
import sys
import warnings
from dataclasses import dataclass
from datetime import date
from typing import Annotated

import anyio
import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import BaseModel, Field

warnings.simplefilter("ignore", MCPDeprecationWarning)

server = MCPServer("official", version="2.0", title="Official", instructions="Ask.", log_level="ERROR")
cancelled = anyio.Event()
present = 0
complete = anyio.Event()


class Walk(BaseModel):
    day: date
    length: Annotated[float, Field(gt=0)]


@dataclass
class Summary:
    walks: int
    total: float
    last: date


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def summarise(walks: list[Walk]) -> Summary:
    """Count walks."""
    return Summary(len(walks), sum(walk.length for walk in walks), max(walk.day for walk in walks))


@server.tool(
    title="Adorned",
    description="It has every member that a tool may have.",
    icons=[types.Icon(src="data:image/png;base64,AAAA", mime_type="image/png", sizes=["1x1"])],
    annotations=types.ToolAnnotations(title="Hint", read_only_hint=True, open_world_hint=False),
    meta={"example.org/shelf": 7},
)
def adorned(n: Annotated[int, Field(ge=1, description="how many")]) -> dict[str, int]:
    return {"n": n * 2}


@server.tool()
def broken(kind: str) -> str:
    """Fails in three ways."""
    if kind == "protocol":
        raise MCPError(1001, "no such account", {"account": 7})
    if kind == "tool":
        raise ToolError("the well is dry")
    raise ValueError("a secret")


@server.tool()
def contents() -> list[types.ContentBlock]:
    """One block of each type."""
    return [
        types.TextContent(
            type="text",
            text="hello",
            annotations=types.Annotations(audience=["user"], priority=0.5),
            _meta={"example.org/k": "v"},
        ),
        types.ImageContent(type="image", data="iVBORw==", mime_type="image/png"),
        types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/wav"),
        types.ResourceLink(type="resource_link", uri="file:///a.txt", name="a.txt", size=3),
        types.EmbeddedResource(
            type="resource", resource=types.TextResourceContents(uri="file:///b.txt", text="its text")
        ),
        types.EmbeddedResource(
            type="resource", resource=types.BlobResourceContents(uri="file:///c.bin", blob="AAE=")
        ),
    ]


@server.tool()
def whole() -> types.CallToolResult:
    """A result with `_meta`, made by hand."""
    block = types.TextContent(type="text", text="whole")
    return types.CallToolResult(content=[block], _meta={"example.org/trace": "t1"})


@server.tool()
async def count(upto: int, ctx: Context) -> str:
    """Reports progress."""
    for n in range(1, upto + 1):
        await ctx.report_progress(n, upto, f"step {n}")
    return "counted"


@server.tool()
async def speak(ctx: Context) -> None:
    """Logs at three levels."""
    await ctx.debug("low")
    await ctx.log("warning", {"volume": 7}, logger_name="speaker")
    await ctx.error("loud")


@server.tool()
async def wait(ctx: Context) -> str:
    """Waits until it is cancelled."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep(30)
    except anyio.get_cancelled_exc_class():
        cancelled.set()
        raise
    return "nobody cancelled this"


@server.tool()
async def was_cancelled() -> bool:
    """Whether `wait` was cancelled since this was last asked."""
    global cancelled
    with anyio.move_on_after(10):
        await cancelled.wait()
    found, cancelled = cancelled.is_set(), anyio.Event()
    return found


@server.tool()
def echo(text: str) -> str:
    """Gives back what it was given."""
    return text


@server.tool()
async def meet() -> str:
    """Returns when twenty calls of it run at once."""
    global present
    present += 1
    if present == 20:
        complete.set()
    with anyio.fail_after(10):
        await complete.wait()
    return "met"


@server.tool()
def noisy() -> str:
    """Speaks to people."""
    print("for people", file=sys.stderr, flush=True)
    return "quiet"


@server.tool()
def die() -> str:
    """Ends the process."""
    print("out of memory", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    server.run()
