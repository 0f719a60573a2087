"""A server made with the official SDK's low-level Server, for a client of this package.

It does by hand what MCPServer does not: pages, schemas of any kind, levels of log messages, changes of
the list, methods of its own, requests to the client.
"""

import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

warnings.simplefilter("ignore", MCPDeprecationWarning)

NUMBER: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ANY: dict[str, Any] = {"type": "object"}
PAGE = 3
MODERN = "2026-07-28"
"""Only here may an output schema be of any kind; the SDK refuses to send another before."""

level: types.LoggingLevel = "info"
news: list[str] = []
heard = anyio.Event()
tools: dict[str, types.Tool] = {}


def offer(name: str, **options: Any) -> None:
    tools[name] = types.Tool(name=name, input_schema=ANY, **options)


for plain in ("speak", "grow", "ping_back", "tells", "news"):
    offer(plain)
offer("truth", output_schema=NUMBER)
offer("lie", output_schema=NUMBER)
offer("silence", output_schema=NUMBER)
offer("listing", output_schema={"type": "array", "items": {"type": "integer"}})


async def on_list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    cursor = params.cursor if params else None
    try:
        start = int(cursor or 0)
    except ValueError:
        raise MCPError(types.INVALID_PARAMS, "no such cursor") from None
    known = [tool for tool in tools.values() if tool.name != "listing" or ctx.protocol_version == MODERN]
    page = known[start : start + PAGE]
    following = str(start + PAGE) if start + PAGE < len(known) else None
    return types.ListToolsResult(tools=page, next_cursor=following)


def result(said: str, **options: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)], **options)


async def on_call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name not in tools:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    if params.name == "truth":
        return result("1", structured_content={"n": 1})
    if params.name == "lie":
        return result("one", structured_content={"n": "one"})
    if params.name == "listing":
        return result("[1, 2]", structured_content=[1, 2])
    if params.name == "speak":
        await speak(ctx)
    elif params.name == "grow":
        offer(f"grown_{len(tools)}")
        await ctx.session.send_tool_list_changed()
    elif params.name == "ping_back":
        await ctx.session.send_ping()
    elif params.name == "news":
        with anyio.move_on_after(10):
            await heard.wait()
        return result(",".join(news))
    elif params.name == "tells":
        await ctx.session.send_notification(
            Told(params=ToldParams(news=1)), related_request_id=ctx.request_id
        )
    return result("done")


async def speak(ctx: Any) -> None:
    """Filtered by us in the legacy era, by the SDK in the modern one."""
    levels: list[types.LoggingLevel] = ["debug", "info", "warning", "error"]
    for at in levels:
        if ctx.protocol_version == MODERN or levels.index(at) >= levels.index(level):
            await ctx.session.send_log_message(at, f"at {at}", "speaker", related_request_id=ctx.request_id)


async def on_set_logging_level(ctx: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    global level
    level = params.level
    return types.EmptyResult()


class DoubleParams(types.RequestParams):
    n: int


class HeardParams(types.NotificationParams):
    news: str


class ToldParams(types.NotificationParams):
    news: int


class Told(types.Notification[ToldParams, str]):
    method: str = "notifications/vendor/told"
    params: ToldParams


async def on_double(ctx: Any, params: DoubleParams) -> dict[str, Any]:
    return {"doubled": params.n * 2, "revision": ctx.protocol_version}


async def on_heard(ctx: Any, params: HeardParams) -> None:
    news.append(params.news)
    heard.set()


server: Server[Any] = Server(
    "low",
    version="3.0",
    on_list_tools=on_list_tools,
    on_call_tool=on_call_tool,
    on_set_logging_level=on_set_logging_level,
)
server.add_request_handler("vendor/double", DoubleParams, on_double)
server.add_notification_handler("vendor/heard", HeardParams, on_heard)


async def main() -> None:
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


if __name__ == "__main__":
    anyio.run(main)
