"""Tools that ask the client something, and wait for the answer: a person, a model, a list of roots."""

from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from fixtures_server import server

from mcp_ref import Answer, Context


def told(answer: Answer) -> str:
    return f"User response: {answer.action} {answer.content}"


@server.tool(output_schema=False)
def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    return f"LLM response: {ctx.sample(prompt, max_tokens=100).text}"


@server.tool(output_schema=False)
def test_list_roots(ctx: Context) -> str:
    """Asks for the client's roots."""
    return "\n".join(f"{root['uri']} {root.get('name', '')}".strip() for root in ctx.list_roots())


@dataclass
class User:
    username: str
    email: str


@server.tool(output_schema=False)
def test_elicitation(message: str, ctx: Context) -> str:
    """Asks a person for their name and address."""
    return told(ctx.elicit(message, User))


@server.tool(output_schema=False)
def test_elicitation_url(ctx: Context) -> str:
    """Asks a person to open a URL, and says soon that they are done there (2025-11-25)."""
    name = ctx.once("name", lambda: uuid4().hex)  # the same when this runs again with the answer
    answer = ctx.elicit_url(
        "Please confirm in your browser", f"https://example.com/{name}", elicitation_id=name
    )
    if answer.accepted:
        server.elicitation_complete(name)
    return f"User response: {answer.action}"


@server.tool(output_schema=False)
def test_streaming_elicitation(ctx: Context) -> str:
    """Asks yes or no; in 2026-07-28 without a request on the stream of its answer."""
    return told(ctx.elicit("Go on?"))


@dataclass
class Defaults:
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@server.tool(output_schema=False)
def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with a form whose fields of each type have a default."""
    return told(ctx.elicit("Please review and update the form fields", Defaults))


OPTIONS = ["option1", "option2", "option3"]
TITLED = [
    {"const": "value1", "title": "First Option"},
    {"const": "value2", "title": "Second Option"},
    {"const": "value3", "title": "Third Option"},
]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}


@server.tool(output_schema=False)
def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks with a form that has a selection of each kind."""
    return told(ctx.elicit("Please select options", ENUMS))
