"""A server made with the official SDK's low-level Server, for what MCPServer does not do.

Pages, resources/subscribe, declared changes of lists, URL mode and other questions of its own making in
2026-07-28, roots that change, subscriptions that the server ends, contents that are wrong.
"""

import json
import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

warnings.simplefilter("ignore", MCPDeprecationWarning)

MODERN = "2026-07-28"
PAGE = 3
bus = InMemorySubscriptionBus()
listen = ListenHandler(bus)
subscribed: set[str] = set()
roots_changed = anyio.Event()


def part(items: list[Any], params: types.PaginatedRequestParams | None) -> tuple[list[Any], str | None]:
    """One page, and the cursor of the next."""
    try:
        start = int((params and params.cursor) or 0)
    except ValueError:
        raise MCPError(types.INVALID_PARAMS, "no such cursor") from None
    return items[start : start + PAGE], str(start + PAGE) if start + PAGE < len(items) else None


# ------------------------------------------------------------------- resources and prompts


async def on_list_resources(
    ctx: Any, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    known = [types.Resource(uri=f"item://{n}", name=f"item {n}", size=n) for n in range(7)]
    page, following = part(known, params)
    return types.ListResourcesResult(resources=page, next_cursor=following)


async def on_list_templates(
    ctx: Any, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    known = [types.ResourceTemplate(uri_template=f"t{n}://{{x}}", name=f"t{n}") for n in range(4)]
    page, following = part(known, params)
    return types.ListResourceTemplatesResult(resource_templates=page, next_cursor=following)


async def on_read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = params.uri
    if uri == "item://0":
        text = types.TextResourceContents(uri=f"{uri}/a", text="a", _meta={"example.org/k": "v"})
        blob = types.BlobResourceContents(uri=f"{uri}/b", blob="AAE=", mime_type="application/octet-stream")
        return types.ReadResourceResult(contents=[text, blob])
    if uri == "item://1":
        return types.ReadResourceResult(contents=[types.BlobResourceContents(uri=uri, blob="no base64!")])
    code = types.INVALID_PARAMS if ctx.protocol_version == MODERN else -32002
    raise MCPError(code, "Resource not found", {"uri": uri})


async def on_subscribe(ctx: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
    if not params.uri.startswith("item://"):
        raise MCPError(-32002, "Resource not found", {"uri": params.uri})
    subscribed.add(params.uri)
    return types.EmptyResult()


async def on_unsubscribe(ctx: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    subscribed.discard(params.uri)
    return types.EmptyResult()


async def on_list_prompts(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    argument = types.PromptArgument(name="word", title="Word", description="any", required=True)
    known = [types.Prompt(name=f"p{n}", arguments=[argument], _meta={"example.org/n": n}) for n in range(4)]
    page, following = part(known, params)
    return types.ListPromptsResult(prompts=page, next_cursor=following)


async def on_get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    text = types.TextContent(type="text", text=(params.arguments or {}).get("word", "?"))
    return types.GetPromptResult(
        description="made by hand",
        messages=[types.PromptMessage(role="assistant", content=text)],
        _meta={"example.org/trace": "t1"},
    )


async def on_completion(ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    found = [f"{params.argument.value}{n}" for n in range(100)]
    return types.CompleteResult(completion=types.Completion(values=found, total=1000, has_more=True))


# ------------------------------------------------------------------------------- questions

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"], "title": "Size"},
        "sure": {"type": "boolean", "default": True},
    },
    "required": ["size"],
}
MESSAGE = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="hi"))
SOUND = types.SamplingMessage(
    role="user", content=types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/wav")
)
QUESTIONS: dict[str, types.InputRequest] = {
    "form": types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="Which size?", requested_schema=SCHEMA)
    ),
    "url": types.ElicitRequest(
        params=types.ElicitRequestURLParams(message="Please pay", url="https://example.org/pay?n=1")
    ),
    "sample": types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[SOUND, MESSAGE], max_tokens=5)
    ),
    "roots": types.ListRootsRequest(),
}


async def on_call_tool(
    ctx: Any, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    arguments = params.arguments or {}
    if params.name == "ask":
        return await ask(ctx, params, arguments["kinds"])
    text = await TOOLS[params.name](ctx, **arguments)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def ask(
    ctx: Any, params: types.CallToolRequestParams, kinds: list[str]
) -> types.CallToolResult | types.InputRequiredResult:
    """Ask some questions, in the way of either era; none at all: only have the request sent again."""
    answers: dict[str, Any]
    if ctx.protocol_version != MODERN:
        answers = {kind: await ctx.session.send_request(*asked(kind)) for kind in kinds}
    elif params.request_state is None:
        requests = {kind: QUESTIONS[kind] for kind in kinds}
        return types.InputRequiredResult(input_requests=requests or None, request_state="so far: " + "ä" * 9)
    else:
        assert params.request_state == "so far: " + "ä" * 9
        answers = dict(params.input_responses or {})
    said = {
        kind: answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        for kind, answer in answers.items()
    }
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(said))])


def asked(kind: str) -> tuple[Any, Any]:
    """A question as a request of the legacy era, and the type of its result."""
    results = {"sample": types.CreateMessageResult, "roots": types.ListRootsResult}
    request = QUESTIONS[kind]
    if kind == "url":
        params = request.params.model_copy(update={"elicitation_id": "pay-1"})
        request = types.ElicitRequest(params=params)
    return request, results.get(kind, types.ElicitResult)


# --------------------------------------------------------------------------------- changes


async def touch(ctx: Any, uri: str) -> str:
    """A resource changed: tell whoever subscribed to it."""
    await bus.publish(ResourceUpdated(uri=uri))
    if uri in subscribed:
        await ctx.session.send_resource_updated(uri)
    return ",".join(sorted(subscribed))


async def change(ctx: Any) -> str:
    """All lists changed."""
    for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
        await bus.publish(event)
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    await ctx.session.send_resource_list_changed()
    return "changed"


async def end(ctx: Any) -> str:
    """End all subscriptions."""
    listen.close()
    return "ended"


async def wait_for_roots(ctx: Any) -> str:
    """Until the client says that its roots changed."""
    with anyio.fail_after(10):
        await roots_changed.wait()
    return "changed"


async def on_roots_list_changed(ctx: Any, params: types.NotificationParams | None) -> None:
    roots_changed.set()


TOOLS: dict[str, Any] = {"touch": touch, "change": change, "end": end, "wait_for_roots": wait_for_roots}


async def on_list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in ("ask", *TOOLS)]
    )


server: Server[Any] = Server(
    "low",
    version="3.0",
    on_list_resources=on_list_resources,
    on_list_resource_templates=on_list_templates,
    on_read_resource=on_read_resource,
    on_subscribe_resource=on_subscribe,
    on_unsubscribe_resource=on_unsubscribe,
    on_subscriptions_listen=listen,
    on_list_prompts=on_list_prompts,
    on_get_prompt=on_get_prompt,
    on_completion=on_completion,
    on_list_tools=on_list_tools,
    on_call_tool=on_call_tool,
    on_roots_list_changed=on_roots_list_changed,
)


async def main() -> None:
    options = server.create_initialization_options(
        NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


if __name__ == "__main__":
    anyio.run(main)
