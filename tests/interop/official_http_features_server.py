"""A server made with the official SDK's MCPServer, with what HTTP has and pipes have not."""

import os
import warnings
from typing import Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Resolve
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel, Field

warnings.simplefilter("ignore", MCPDeprecationWarning)

server = MCPServer("official", version="2.0", log_level="CRITICAL")
begun: dict[str, anyio.Event] = {}
gates: dict[str, anyio.Event] = {}
ended: dict[str, anyio.Event] = {}
ends: dict[str, str] = {}


def event(known: dict[str, anyio.Event], name: str) -> anyio.Event:
    return known.setdefault(name, anyio.Event())


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def hold(name: str, ctx: Context, says: int = 0) -> str:
    """Goes on as soon as somebody opens it: silently, or after it has told of its progress."""
    for n in range(says):
        await ctx.report_progress(n + 1)
    event(begun, name).set()
    try:
        await event(gates, name).wait()
        ends[name] = "opened"
    except anyio.get_cancelled_exc_class():
        ends[name] = "cancelled"
        raise
    finally:
        event(ended, name).set()
    for n in range(says):
        await ctx.report_progress(says + n + 1)
    return f"held {name}"


@server.tool()
async def release(name: str) -> None:
    """Opens it."""
    event(gates, name).set()


@server.tool()
async def has_begun(name: str) -> bool:
    """Whether a call of `hold` runs; it is waited for."""
    with anyio.move_on_after(20):
        await event(begun, name).wait()
        return True
    return False


@server.tool()
async def how_it_ended(name: str) -> str:
    """What became of a call of `hold`; it is waited for."""
    with anyio.move_on_after(20):
        await event(ended, name).wait()
    return ends.get(name, "not yet")


@server.tool()
async def poll(ctx: Context, times: int = 2) -> str:
    """Has its client leave, and goes on without it."""
    for n in range(times):
        await ctx.report_progress(n)
        await ctx.close_sse_stream()
        await ctx.report_progress(n + 0.5)
    ends["poll"] = "polled"
    event(ended, "poll").set()
    return "polled"


@server.tool()
async def leave(ctx: Context) -> None:
    """Has its client leave the stream of GET, and come back."""
    await ctx.close_standalone_sse_stream()


@server.tool()
def headers(ctx: Context) -> dict[str, str]:
    """What came with the request that this is."""
    return dict(ctx.headers or {})


@server.tool()
def mirrored(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    number: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Number"})] = 0,
    sure: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Sure"})] = False,
) -> list[Any]:
    """Has arguments that are in headers too."""
    return [region, number, sure]


@server.tool()
def misnamed(region: str) -> str:
    """Has an annotation that is none: behind the SDK's back, which would refuse it."""
    return region


annotated = server._tool_manager.get_tool("misnamed")
assert annotated is not None
annotated.parameters["properties"]["region"]["x-mcp-header"] = "no token"


class Nothing(BaseModel):
    pass


async def ask() -> Elicit[Nothing]:
    return Elicit("Sure?", Nothing)


@server.tool()
async def confirm(answer: Annotated[ElicitationResult[Nothing], Resolve(ask)]) -> str:
    """Asks for yes or no, in the way of either era."""
    return answer.action


@server.tool()
async def change(ctx: Context) -> str:
    """Says that the list of tools changed, in the way of either era."""
    await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "changed"


@server.tool()
def die() -> None:
    """Ends the process."""
    os._exit(3)


@server.resource("text://one")
def one() -> str:
    return "one"


@server.prompt()
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello {name}"
