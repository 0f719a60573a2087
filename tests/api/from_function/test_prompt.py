"""server/prompts, "Data Types": how functions become prompts, and what they give."""

from __future__ import annotations

from typing import Annotated

import pytest

from mcp_ref import ClientOptions, Context, ErrorResponse, Server, connect
from mcp_ref.api.from_function.prompt import prompt_from, user

ICON = {"src": "https://example.org/icon.png", "mimeType": "image/png"}


def test_the_signature_gives_the_arguments_and_the_docstring_what_they_are():
    def review(code: str, line: Annotated[int, "where to begin"] = 0, *, ctx: Context) -> str:
        """Review some code.

        Args:
            code: all of it
        """
        return f"{code}:{line}"

    made = prompt_from(review, title="Review", icons=[ICON], meta={"org.example/a": 1})
    assert made.definition == {
        "name": "review",
        "title": "Review",
        "description": "Review some code.",
        "icons": [ICON],
        "arguments": [
            {"name": "code", "description": "all of it", "required": True},
            {"name": "line", "description": "where to begin", "required": False},
        ],
        "_meta": {"org.example/a": 1},
    }
    assert made.load({"code": "x", "line": "7"}) == {"code": "x", "line": 7}
    assert made.context == "ctx"


def test_what_is_said_outright_goes_before_what_the_function_says():
    made = prompt_from(Server.remove_tool, name="remove", description="Go.")
    assert made.definition["description"] == "Go."
    assert prompt_from(lambda: "x", name="x").definition == {"name": "x"}


def test_a_prompt_stays_a_function():
    server = Server("prompts")

    @server.prompt
    def hello(name: str) -> str:
        return f"Hello {name}"

    assert hello("you") == "Hello you"


def asynchronous():
    async def ask():
        pass

    return ask


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (lambda: "", {}, "no name for a prompt"),
        (lambda: "", {"name": ""}, "no name for a prompt"),
        (lambda: "", {"name": " "}, "no name for a prompt"),
        (lambda: "", {"name": 1}, "no name for a prompt"),
        (lambda: "", {"name": "\ud800"}, "surrogates not allowed"),
        (lambda: "", {"name": "a", "title": 1}, "title: must be a string"),
        (lambda: "", {"name": "a", "icons": [{"src": "javascript:alert(1)"}]}, "the src of an icon"),
        (lambda: "", {"name": "a", "meta": {"mcp.org/x": 1}}, "_meta|reserved"),
        (lambda: "", {"name": "a", "complete": {"b": []}}, "no parameter 'b'"),
        (lambda *a: "", {"name": "a"}, "cannot be filled by name"),
        (asynchronous(), {}, "asynchronous"),
    ],
)
def test_what_can_be_no_prompt_is_refused_at_once(function, options, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Server("prompts").add_prompt(function, **options)


def test_the_context_is_the_functions_own():
    server = Server("prompts")

    @server.prompt
    def who(ctx: Context, greeting: str = "Hello") -> str:
        return f"{greeting} {ctx.client_info['name']}, {ctx.method}"

    with connect(server, options=ClientOptions(name="me")) as client:
        assert client.list_prompts()[0]["arguments"] == [{"name": "greeting", "required": False}]
        assert client.get_prompt("who")["messages"] == [user("Hello me, prompts/get")]
        with pytest.raises(ErrorResponse, match="ctx: is not known here"):
            client.get_prompt("who", {"ctx": "x"})


def test_a_function_may_take_any_further_argument():
    server = Server("prompts")

    @server.prompt
    def fill(template: str, **values: str) -> str:
        return template.format(**values)

    with connect(server) as client:
        got = client.get_prompt("fill", {"template": "{a}-{b}", "a": "1", "b": "2"})
        assert got["messages"] == [user("1-2")]
