"""A server made with the official SDK's MCPServer: resources, prompts, completion, and what it asks."""

import base64
import itertools
import warnings
from typing import Annotated, Any, Literal

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import (
    AssistantMessage,
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    Message,
    Resolve,
    Sample,
    UserMessage,
)
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import TextResource
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError, UrlElicitationRequiredError
from pydantic import BaseModel, Field

warnings.simplefilter("ignore", MCPDeprecationWarning)

MODERN = "2026-07-28"
server = MCPServer(
    "official", version="2.0", log_level="CRITICAL", cache_hints={"resources/read": CacheHint(ttl_ms=60_000)}
)
reads = 0
visited: set[str] = set()

# ------------------------------------------------------------------------------ resources


@server.resource(
    "config://app",
    name="config",
    title="Configuration",
    description="How it is set up.",
    mime_type="application/json",
    icons=[types.Icon(src="data:image/png;base64,AAAA", mime_type="image/png", sizes=["1x1"])],
    annotations=types.Annotations(audience=["user"], priority=0.5, last_modified="2026-07-28T12:00:00Z"),
    meta={"example.org/shelf": 7},
)
def config() -> dict[str, Any]:
    return {"depth": 3, "name": "wëll"}


@server.resource("logo://app", mime_type="image/png")
def logo() -> bytes:
    return b"\x89PNG\x00\xff"


@server.resource("count://reads")
def count() -> str:
    global reads
    reads += 1
    return str(reads)


@server.resource("broken://well")
def broken() -> str:
    raise ResourceError("the well is dry")


@server.resource("db://{table}/{row}", title="Row", mime_type="text/plain")
def row(table: str, row: int) -> str:
    if row > 9:
        raise ResourceNotFoundError(f"there is no row {row}")
    return f"{table}:{row + 1}"


@server.resource("file:///{+path}")
def file(path: str) -> str:
    return path


@server.resource("ask://{name}")
def asking(name: str, ctx: Context) -> str | types.InputRequiredResult:
    answers = ctx.input_responses
    if not answers:
        return ask("Which colour?")
    return f"{name} is {said(answers)}, {ctx.request_state}"


def ask(message: str) -> types.InputRequiredResult:
    """One question by hand."""
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.InputRequiredResult(
        input_requests={"q": types.ElicitRequest(params=params)}, request_state="so far"
    )


def said(answers: types.InputResponses) -> str:
    answer = answers["q"]
    assert isinstance(answer, types.ElicitResult)
    return str((answer.content or {}).get("answer", answer.action))


# -------------------------------------------------------------------------------- prompts


@server.prompt(
    title="Review",
    icons=[types.Icon(src="data:image/png;base64,AAAA", mime_type="image/png", sizes=["1x1"])],
)
def review(code: Annotated[str, Field(description="what to look at")], depth: int = 1) -> list[Message]:
    """Asks for a review."""
    return [UserMessage(f"Review {code}, depth {depth + 1}"), AssistantMessage("I will.")]


@server.prompt()
def everything() -> list[Message]:
    """One block of each type."""
    return [
        UserMessage(types.ImageContent(type="image", data="iVBORw==", mime_type="image/png")),
        UserMessage(types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/wav")),
        AssistantMessage(types.ResourceLink(type="resource_link", uri="file:///a.txt", name="a.txt", size=3)),
        UserMessage(
            types.EmbeddedResource(
                type="resource",
                resource=types.TextResourceContents(uri="file:///b.txt", text="b", mime_type="text/plain"),
            )
        ),
    ]


@server.prompt()
def asked(ctx: Context) -> Any:
    """Asks first."""
    answers = ctx.input_responses
    return f"Write about {said(answers)}." if answers else ask("About what?")


# ----------------------------------------------------------------------------- completion


@server.completion()
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion | None:
    if isinstance(ref, types.ResourceTemplateReference):
        if ref.uri != "db://{table}/{row}":
            raise MCPError(types.INVALID_PARAMS, f"no such template: {ref.uri}")
        table = (context.arguments or {}).get("table", "?") if context else "?"
        return types.Completion(
            values=[f"{table}{argument.value}{n}" for n in range(3)], total=300, has_more=True
        )
    if argument.name == "code":
        known = ["python", "pascal", "ruby"]
        return types.Completion(values=[word for word in known if word.startswith(argument.value)])
    return None


# -------------------------------------------------------------------------------- changes


numbers = itertools.count(1)


@server.tool()
async def change(ctx: Context) -> str:
    """Adds a resource and a prompt, tells of it in the way of either era, and gives their name."""
    name = f"new{next(numbers)}"
    server.add_resource(TextResource(uri=f"new://{name}", name=name, text=name))
    server.add_prompt(Prompt.from_function(lambda: name, name=name))
    await ctx.session.send_resource_list_changed()
    await ctx.session.send_prompt_list_changed()
    await ctx.session.send_tool_list_changed()
    await ctx.notify_resources_changed()
    await ctx.notify_prompts_changed()
    await ctx.notify_tools_changed()
    return name


@server.tool()
async def touch(uri: str, ctx: Context) -> str:
    """Says that a resource changed."""
    await ctx.notify_resource_updated(uri)
    return "touched"


# ------------------------------------------------------------------------------ questions


class Simple(BaseModel):
    """What every revision with forms has."""

    name: Annotated[str, Field(min_length=2, max_length=20, title="Name", description="yours")]
    email: Annotated[str, Field(json_schema_extra={"format": "email"})]
    site: Annotated[str, Field(json_schema_extra={"format": "uri"})]
    day: Annotated[str, Field(json_schema_extra={"format": "date"})]
    at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    people: Annotated[int, Field(ge=1, le=9)]
    weight: Annotated[float, Field(ge=0.5)]
    sure: bool = True
    unit: Literal["metre", "foot"] = "metre"
    note: str | None = None


class Choices(BaseModel):
    """What came later: several choices, and titles."""

    colours: list[Literal["red", "green", "blue"]] = Field(default=["red"], min_length=1, max_length=2)
    size: str = Field(
        json_schema_extra={"oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}
    )


async def ask_simple() -> Elicit[Simple]:
    return Elicit("Who are you?", Simple)


async def ask_choices() -> Elicit[Choices]:
    return Elicit("Which ones?", Choices)


@server.tool()
async def form(answer: Annotated[ElicitationResult[Simple], Resolve(ask_simple)]) -> str:
    """Asks with a form, in the way of either era."""
    return answer.model_dump_json()


@server.tool()
async def choices(answer: Annotated[ElicitationResult[Choices], Resolve(ask_choices)]) -> str:
    """The same with selections."""
    return answer.model_dump_json()


@server.tool()
async def needed(answer: Annotated[Simple, Resolve(ask_simple)]) -> str:
    """Cannot do without an answer."""
    return answer.name


@server.tool()
async def url(ctx: Context) -> str:
    """Asks to open a URL, in the way of the legacy era."""
    answer = await ctx.elicit_url("Please pay", "https://example.org/pay?n=1", "pay-1")
    return answer.action


@server.tool()
async def paid(ctx: Context) -> str:
    """Cannot go on before somebody has been at a URL; the one who asks again has."""
    if "pay-2" in visited:
        return "paid"
    visited.add("pay-2")
    params = types.ElicitRequestURLParams(
        message="Pay", url="https://example.org/pay", elicitation_id="pay-2"
    )
    raise UrlElicitationRequiredError([params])


@server.tool()
async def complete_payment(ctx: Context) -> str:
    """Tells that the person is done."""
    await ctx.session.send_elicit_complete("pay-2")
    return "told"


def message(text: str) -> types.SamplingMessage:
    return types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))


PICTURE = types.ImageContent(type="image", data=base64.b64encode(b"\x89PNG").decode(), mime_type="image/png")
WEATHER = types.Tool(name="weather", input_schema={"type": "object"})


async def ask_greeting() -> Sample:
    return Sample(
        [message("hi"), types.SamplingMessage(role="user", content=PICTURE)],
        max_tokens=7,
        system_prompt="Be kind",
        include_context="thisServer",
        temperature=0.5,
        stop_sequences=["x"],
        metadata={"a": 1},
        model_preferences=types.ModelPreferences(hints=[types.ModelHint(name="son")], cost_priority=0.1),
    )


async def ask_with_tool() -> Sample:
    return Sample(
        [message("weather?")], max_tokens=7, tools=[WEATHER], tool_choice=types.ToolChoice(mode="auto")
    )


async def ask_after_tool(
    first: Annotated[types.CreateMessageResultWithTools, Resolve(ask_with_tool)],
) -> Sample:
    results: list[Any] = [
        types.ToolResultContent(
            type="tool_result", tool_use_id=use.id, content=[types.TextContent(type="text", text="18")]
        )
        for use in first.content_as_list
        if isinstance(use, types.ToolUseContent)
    ]
    conversation = [
        message("weather?"),
        types.SamplingMessage(role="assistant", content=first.content),
        types.SamplingMessage(role="user", content=results),
    ]
    return Sample(conversation, max_tokens=7, tools=[WEATHER], tool_choice=types.ToolChoice(mode="none"))


async def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def greet(reply: Annotated[types.CreateMessageResult, Resolve(ask_greeting)]) -> str:
    """Asks a model, with every option there is."""
    assert isinstance(reply.content, types.TextContent)
    return f"{reply.content.text} by {reply.model}, {reply.stop_reason}"


@server.tool()
async def loop(reply: Annotated[types.CreateMessageResultWithTools, Resolve(ask_after_tool)]) -> str:
    """Asks a model that uses a tool."""
    return " ".join(block.text for block in reply.content_as_list if isinstance(block, types.TextContent))


@server.tool()
async def roots(found: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> list[str]:
    """Asks for the roots."""
    return [f"{root.uri} {root.name or '-'}" for root in found.roots]


@server.tool()
async def several(
    who: Annotated[ElicitationResult[Simple], Resolve(ask_simple)],
    reply: Annotated[types.CreateMessageResult, Resolve(ask_greeting)],
    found: Annotated[types.ListRootsResult, Resolve(ask_roots)],
) -> str:
    """Asks three things at once."""
    assert isinstance(reply.content, types.TextContent)
    return f"{who.action} {reply.content.text} {len(found.roots)}"


@server.tool()
async def forever(ctx: Context) -> Any:
    """Asks, and asks again."""
    return ask("Again?")


@server.tool()
async def old_way(ctx: Context) -> str:
    """Sends its question as a request of its own, which only a legacy server may do."""
    answer = await ctx.elicit("Who are you?", Simple)
    return answer.action


if __name__ == "__main__":
    server.run()
