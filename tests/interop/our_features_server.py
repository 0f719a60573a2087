"""A server of this package: resources, prompts, completion, and what it asks. Arguments: its revisions.

`MCP_REF_FILES` in the environment names a directory that it has as resources.
"""

import json
import os
import sys
import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any, Literal

from mcp_ref import (
    Answer,
    Bounds,
    Context,
    Elicit,
    ElicitUrl,
    ListRoots,
    ResourceNotFound,
    Sample,
    Server,
    UrlElicitationRequired,
)
from mcp_ref.api.from_function.prompt import assistant, user
from mcp_ref.client.sampling.messages import tool_result
from mcp_ref.schema import REVISIONS
from mcp_ref.server import content
from mcp_ref.server.content import TextResourceContents
from mcp_ref.server.prompts import PromptMessage

ICON = {"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["1x1"]}

server = Server("ours", version="1.2.3", revisions=sys.argv[1:] or REVISIONS, page_size=4)
roots_changed = threading.Event()
paid_by: set[str] = set()
runs = reads = 0

# ------------------------------------------------------------------------------ resources


@dataclass
class Config:
    depth: int
    name: str


@server.resource(
    "config://app",
    name="config",
    title="Configuration",
    description="How it is set up.",
    mime_type="application/json",
    size=26,
    icons=[ICON],
    annotations={"audience": ["user"], "priority": 0.5, "lastModified": "2026-07-28T12:00:00Z"},
    meta={"example.org/shelf": 7},
)
def config() -> Config:
    return Config(3, "wëll")


@server.resource("logo://app", mime_type="image/png")
def logo() -> bytes:
    return b"\x89PNG\x00\xff"


@server.resource("pair://both")
def pair() -> list[Any]:
    text: TextResourceContents = {"uri": "pair://both/a", "text": "a", "_meta": {"example.org/k": "v"}}
    return [text, {"uri": "pair://both/b", "blob": b"\x00\x01"}]


@server.resource("count://reads", ttl_ms=60_000, cache_scope="private")
def count() -> str:
    global reads
    reads += 1
    return str(reads)


@server.resource("broken://well")
def broken() -> str:
    raise ValueError("the well is dry")


def rows(value: str, arguments: dict[str, str]) -> list[str]:
    return [f"{arguments.get('table', '?')}{value}{n}" for n in range(300)]


@server.resource(
    "db://{table}/{row}",
    title="Row",
    mime_type="text/plain",
    icons=[ICON],
    complete={"table": ["walks", "words"], "row": rows},
)
def row(table: str, row: int) -> str:
    """One row of a table."""
    if row > 9:
        raise ResourceNotFound(f"db://{table}/{row}")
    return f"{table}:{row + 1}"


@server.resource("tree:///{+path}{?depth,kinds}")
def tree(path: str, depth: int = 1, kinds: str | None = None) -> str:
    return f"{path} {depth} {kinds}"


@server.resource("ask://{name}")
def asking(name: str, ctx: Context) -> str:
    answer = ctx.elicit("Which colour?", {"type": "object", "properties": {"answer": {"type": "string"}}})
    return f"{name} is {answer.content}"


if "MCP_REF_FILES" in os.environ:
    server.add_directory(os.environ["MCP_REF_FILES"], uri="docs://files/", poll=60)

# -------------------------------------------------------------------------------- prompts


class Style(Enum):
    SHORT = "short"
    LONG = "long"
    SHOUTED = "shouted"


@server.prompt(title="Review", icons=[ICON], meta={"example.org/n": 1}, complete={"code": ["python", "ruby"]})
def review(code: Annotated[str, "what to look at"], style: Style = Style.SHORT, depth: int = 1) -> list[Any]:
    """Asks for a review."""
    return [user(f"Review {code}, {style.value}, depth {depth + 1}"), assistant("I will.")]


@server.prompt
def everything() -> list[PromptMessage]:
    """One block of each type."""
    return [
        user(content.image(b"\x89PNG", "image/png")),
        user(content.audio(b"RIFF", "audio/wav")),
        assistant(content.resource_link("file:///a.txt", "a.txt", size=3)),
        user(content.embedded("file:///b.txt", "b")),
    ]


@server.prompt
def asked(ctx: Context) -> str:
    """Asks first."""
    answer = ctx.elicit("About what?", {"type": "object", "properties": {"answer": {"type": "string"}}})
    return f"Write about {answer.content}."


for number in range(5):
    server.add_prompt(lambda: "one of many", name=f"many{number}", description="One of many.")

# -------------------------------------------------------------------------------- changes


@server.tool
def change() -> str:
    """Adds a resource and a prompt, and takes them away the next time."""
    try:
        server.remove_resource("new://one")
        server.remove_prompt("new")
        server.remove_tool("new")
    except KeyError:
        server.add_resource(lambda: "new", "new://one", name="new")
        server.add_prompt(lambda: "new", name="new")
        server.add_tool(lambda: "new", name="new", description="New.")
    return "changed"


@server.tool
def touch(uri: str) -> str:
    """Says that a resource changed."""
    server.resource_updated(uri)
    return "touched"


# ------------------------------------------------------------------------------ questions


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Simple:
    """What every revision with forms has."""

    name: Annotated[str, Bounds(min_length=2, max_length=20), {"title": "Name"}, "yours"]
    email: Annotated[str, Bounds(format="email")]
    site: Annotated[str, Bounds(format="uri")]
    day: date
    at: datetime
    people: Annotated[int, Bounds(ge=1, le=9)]
    weight: Annotated[float, Bounds(ge=0.5)]
    size: Size
    unit: Literal["metre", "foot"] = "metre"
    sure: bool = True
    note: str | None = None


@dataclass
class Choices:
    """What came later: several choices, and titles for them."""

    colours: Annotated[list[Literal["red", "green", "blue"]], Bounds(min_length=1, max_length=2)]
    sizes: list[Size] = field(default_factory=lambda: [Size.SMALL])


def told(answer: Answer) -> str:
    return f"{answer.action} {answer.data!r}"


@server.tool
def form(ctx: Context) -> str:
    """Asks with a form."""
    answer = ctx.elicit("Who are you?", Simple)
    if answer.accepted:
        assert isinstance(answer.data, Simple)
        assert isinstance(answer.data.day, date)
        assert answer.data.at.astimezone(UTC).hour == 12
        assert answer.data.size is Size.LARGE
    return told(answer)


@server.tool
def choices(ctx: Context) -> str:
    """Asks with selections of several."""
    return told(ctx.elicit("Which ones?", Choices))


@server.tool
def confirm(ctx: Context) -> str:
    """Asks for yes or no."""
    return told(ctx.elicit("Sure?"))


@server.tool
def url(ctx: Context) -> str:
    """Asks to open a URL."""
    return ctx.elicit_url("Please pay", "https://example.org/pay?n=1").action


@server.tool
def paid() -> str:
    """Cannot go on before somebody has been at a URL."""
    if not paid_by:
        raise UrlElicitationRequired(ElicitUrl("Pay", "https://example.org/pay", "pay-2"))
    return "paid"


@server.tool
def complete_payment() -> bool:
    """The person is done at the URL."""
    paid_by.add("pay-2")
    return server.elicitation_complete("pay-2")


WEATHER = {"name": "weather", "inputSchema": {"type": "object"}}


@server.tool
def greet(ctx: Context) -> str:
    """Asks a model, with every option there is."""
    reply = ctx.sample(
        ["hi", content.image(b"\x89PNG", "image/png")],
        max_tokens=7,
        system_prompt="Be kind",
        include_context="none",
        temperature=0.5,
        stop_sequences=["x"],
        metadata={"a": 1},
        model_preferences={"hints": [{"name": "son"}], "costPriority": 0.1},
    )
    return f"{reply.text} by {reply.model}, {reply.stop_reason}"


@server.tool
def loop(ctx: Context) -> str:
    """Asks a model that uses a tool."""
    messages: list[Any] = ["weather?"]
    reply = ctx.sample(messages, max_tokens=7, tools=[WEATHER])
    messages += [reply.as_message(), *(tool_result(use, "18") for use in reply.tool_uses)]
    return ctx.sample(messages, max_tokens=7, tools=[WEATHER], tool_choice="none").text


@server.tool
def roots(ctx: Context) -> list[str]:
    """Asks for the roots."""
    return [f"{root['uri']} {root.get('name', '-')}" for root in ctx.list_roots()]


@server.tool
def within(path: str, ctx: Context) -> bool:
    """Whether a path is in one of them."""
    return ctx.is_within_roots(path)


@server.on_notification("notifications/roots/list_changed")
def on_roots_list_changed(params: dict[str, Any]) -> None:
    roots_changed.set()


@server.tool
def wait_for_roots() -> bool:
    """Until the client says that its roots changed."""
    return roots_changed.wait(10)


@server.tool
def several(ctx: Context) -> str:
    """Asks three things at once."""
    answer, reply, found = ctx.ask_all(Elicit("Sure?"), Sample("hi", max_tokens=7), ListRoots())
    return f"{answer.action} {reply.text} {len(found)}"


@server.tool
def one_by_one(ctx: Context) -> str:
    """Asks three things, one after another, and does something once in between."""

    def charge() -> int:
        global runs
        runs += 1
        return runs

    answer = ctx.elicit("Sure?")
    number = ctx.once("charge", charge)
    reply = ctx.sample("hi", max_tokens=7)
    return f"{answer.action} {reply.text} {len(ctx.list_roots())} {number == runs}"


@server.tool
def forever(ctx: Context) -> str:
    """Asks, and asks again."""
    for number in range(50):
        ctx.elicit(f"Question {number}?")
    return "enough"


@server.tool(output_schema=False)
def by_hand(ctx: Context) -> Any:
    """An input_required result of its own making."""
    if not ctx.input_responses:
        params = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
        ask = {"method": "elicitation/create", "params": params}
        return {"resultType": "input_required", "inputRequests": {"q": ask}, "requestState": "so far"}
    return f"{ctx.input_responses['q']['action']} {ctx.request_state}"


@server.tool(output_schema=False)
def again(ctx: Context) -> Any:
    """Asks nothing but to be called again."""
    if ctx.request_state is None:
        return {"resultType": "input_required", "requestState": "later"}
    return json.dumps(ctx.input_responses)


if __name__ == "__main__":
    server.run()
