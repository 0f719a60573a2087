"""server/prompts, "Data Types": how functions become prompts, and what they give."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import MODERN, REVISIONS, plain

from mcp_ref import Context, ErrorResponse, Server, connect
from mcp_ref.api.from_function.prompt import assistant, prompt_from, user
from mcp_ref.basic.versioning import TABLE
from mcp_ref.schema import Mismatch, checker
from mcp_ref.server import content
from mcp_ref.server.prompts import GetPromptResult

every = pytest.mark.parametrize("date", REVISIONS)
ICON = {"src": "https://example.org/icon.png", "mimeType": "image/png"}


def giving(value, **options):
    """A server whose only prompt, `it`, gives this."""
    server = Server("prompts")
    server.add_prompt(lambda: value, name="it", **options)
    return server


def given_at(value, date=MODERN):
    """The messages that a prompt gives to a client of this revision."""
    with connect(giving(value), revision=date) as client:
        return client.get_prompt("it")["messages"]


def refused(value):
    """The error that a client gets if this is what a prompt gives."""
    with connect(giving(value)) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.get_prompt("it")
        assert client.request("prompts/list")  # and the server goes on
    return caught.value


# ------------------------------------------------------------------------------- registering


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
    made = prompt_from(Server.run, name="run", description="Go.")
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
        (lambda: "", {"name": "a", "icons": [{"src": "javascript:alert(1)"}]}, "an icon has a src"),
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

    with connect(server, name="me") as client:
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


# ----------------------------------------------------------------------------------- messages

PICTURE = content.image(b"png", "image/png")
SOUND = content.audio(b"wav", "audio/wav")
LINK = content.resource_link("file:///a.txt", "a.txt")
FILE = content.embedded("file:///a.txt", "text", "text/plain")
BLOB = content.embedded("file:///a.bin", b"\0\1", "application/x-thing")


@pytest.mark.spec("server/prompts/role-values")
@every
@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hi", [user("hi")]),
        ("", [user("")]),
        (PICTURE, [user(PICTURE)]),
        (user("hi"), [user("hi")]),
        ({"role": "assistant", "content": "hi"}, [assistant("hi")]),
        ([], []),
        (["a", assistant("b"), PICTURE], [user("a"), assistant("b"), user(PICTURE)]),
        (("a", "b"), [user("a"), user("b")]),
        ({"messages": "hi"}, [user("hi")]),
        ({"messages": [assistant(FILE)]}, [assistant(FILE)]),
    ],
    ids=str,
)
def test_what_a_function_returns_becomes_messages(date, value, messages):
    assert given_at(value, date) == messages
    for message in messages:
        assert set(message) == {"role", "content"}


@every
def test_a_result_of_its_own_making_says_what_it_likes(date):
    own = {"description": "Mine", "messages": ["hi"], "_meta": {"org.example/n": 1}, "resultType": "complete"}
    with connect(giving(own, description="The prompt's"), revision=date) as client:
        got = client.get_prompt("it")
        assert (got["description"], got["_meta"]["org.example/n"]) == ("Mine", 1)
        assert ("resultType" in got) == (date == MODERN)
    assert own["messages"] == ["hi"]  # what the function keeps is not changed


@pytest.mark.spec(
    "server/prompts/image-base64-mime",
    "server/prompts/audio-base64-mime",
    "server/prompts/embedded-resource-fields",
    "server/prompts/embedded-resource-mime",
    "server/prompts/embedded-resource-content",
    "server/prompts/resource-links",
)
@every
def test_content_of_every_type_arrives_as_far_as_the_revision_has_it(date):
    blocks = [PICTURE, SOUND, LINK, FILE, BLOB]
    got = [message["content"] for message in given_at(blocks, date)]
    assert got[0] == PICTURE
    assert got[3:] == [FILE, BLOB]
    assert base64.b64decode(got[4]["resource"]["blob"]) == b"\0\1"
    assert got[1] == SOUND if date >= "2025-03-26" else "audio/wav" in got[1]["text"]
    assert got[2] == LINK if date >= "2025-06-18" else "file:///a.txt" in got[2]["text"]


def test_what_is_newer_than_the_revision_is_left_out_inside_a_block():
    block = content.text("hi", annotations={"priority": 1, "lastModified": "2026-07-28"}, meta={"a": 1})
    assert given_at(block, MODERN) == [user(block)]
    assert given_at(block, "2025-03-26") == [
        user({"type": "text", "text": "hi", "annotations": {"priority": 1}}),
    ]


@pytest.mark.spec("server/prompts/embedded-resource-mime")
@pytest.mark.parametrize(
    ("uri", "contents", "mime"),
    [
        ("file:///a.py", "text", "text/x-python"),
        ("file:///picture.png", b"data", "image/png"),
        ("notes://today", "text", "text/plain"),
        ("notes://today", b"data", "application/octet-stream"),
    ],
)
def test_an_embedded_resource_says_what_it_is(uri, contents, mime):
    block = content.embedded(uri, contents)
    assert given_at(block)[0]["content"]["resource"]["mimeType"] == mime
    assert "mimeType" not in block["resource"]


def test_makers_of_messages():
    assert user("hi") == {"role": "user", "content": {"type": "text", "text": "hi"}}
    assert assistant(PICTURE) == {"role": "assistant", "content": PICTURE}
    with pytest.raises(Mismatch, match="must be a content block"):
        user({"type": "video"})
    with pytest.raises(Mismatch, match="must be a content block"):
        assistant(None)


# ----------------------------------------------------------------- prompts that return nonsense

FORMS = "must be text, a content block, a message, or a list of these"


@pytest.mark.spec("server/prompts/errors", "server/prompts/validate-input-output")
@pytest.mark.parametrize(
    ("nonsense", "said"),
    [
        (None, f"{FORMS}, not null"),
        (7, f"{FORMS}, not 7"),
        (b"bytes", FORMS),
        (object(), FORMS),
        ({"text": "hi"}, f"{FORMS}, not an object"),
        (["a", None], f"messages[1]: {FORMS}, not null"),
        ([["a"]], f"messages[0]: {FORMS}, not an array of 1"),
        ({"messages": None}, f"{FORMS}, not null"),
        ({"messages": ["a"], "description": 1}, "description: must be a string, not 1"),
        ({"messages": ["a"], "_meta": []}, "_meta: must be an object"),
        ({"role": "system", "content": "hi"}, "role: must be 'user' or 'assistant', not 'system'"),
        ({"role": ["user"], "content": "hi"}, "role: must be 'user' or 'assistant'"),
        ({"role": "user"}, "content: must be a content block"),
        ({"role": "user", "content": None}, "content: must be a content block"),
        ([{"role": "user", "content": {"type": "video"}}], "messages[0].content: must be a content block"),
        ({"type": "text"}, "text: is required"),
        ([{"type": "text", "text": 1}], "messages[0].text: must be a string, not 1"),
        ({"type": ["text"]}, FORMS),
    ],
    ids=plain,
)
def test_a_prompt_that_returns_nonsense_is_an_internal_error_that_says_so(nonsense, said, caplog):
    problem = refused(nonsense)
    assert problem.code == -32603
    assert problem.message.startswith(f"what the prompt it returned is none: {said}")
    assert "it returned what is no prompt" in caplog.text


@pytest.mark.spec(
    "server/prompts/image-base64-mime",
    "server/prompts/audio-base64-mime",
    "server/prompts/embedded-resource-fields",
    "server/prompts/embedded-resource-mime",
    "server/prompts/embedded-resource-content",
)
@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "image", "data": "no base64!", "mimeType": "image/png"}, "data: must be base64"),
        ({"type": "image", "data": "\u00e4", "mimeType": "image/png"}, "data: must be base64"),
        ({"type": "image", "data": "", "mimeType": "png"}, "mimeType: must be a MIME type"),
        ({"type": "image", "data": ""}, "mimeType: is required"),
        ({"type": "audio", "data": "a", "mimeType": "audio/wav"}, "data: must be base64"),
        ({"type": "audio", "data": "", "mimeType": ""}, "mimeType: must be a MIME type"),
        ({"type": "resource", "resource": {"uri": "no uri", "text": ""}}, "resource.uri: "),
        ({"type": "resource", "resource": {"uri": "", "text": ""}}, "resource.uri: "),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": "="}}, "resource.blob: must be base64"),
        (
            {"type": "resource", "resource": {"uri": "a:b", "text": "", "mimeType": "\n"}},
            "resource.mimeType: must be a MIME type",
        ),
        ({"type": "resource", "resource": {"uri": "a:b"}}, "resource"),
        ({"type": "resource", "resource": {"text": ""}}, "resource"),
        ({"type": "resource"}, "resource: is required"),
    ],
    ids=str,
)
def test_content_that_breaks_its_rules_is_never_sent(block, said):
    for value, place in ((block, ""), ([user("a"), {"role": "assistant", "content": block}], "content.")):
        problem = refused(value)
        assert problem.code == -32603
        assert f"{place}{said}" in problem.message


def test_a_list_that_contains_itself_ends():
    endless: list[Any] = []
    endless.append(endless)
    assert "messages[0]" in refused(endless).message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "messages", "data"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
almost = st.builds(
    lambda role, kind, more: {"role": role, "content": {"type": kind, **more}},
    st.sampled_from(["user", "assistant", "system", None]),
    st.sampled_from(["text", "image", "resource", "video"]),
    st.dictionaries(
        st.sampled_from(["text", "data", "mimeType", "resource"]), json_values | st.just("aGk="), max_size=3
    ),
)


@given(json_values | almost | st.lists(almost | st.text(), max_size=3), st.sampled_from(TABLE))
@settings(max_examples=200, deadline=None)
def test_whatever_is_returned_the_result_is_right_or_there_is_none(value, at):
    prompt = prompt_from(lambda: None, name="it")
    try:
        result = prompt.result(value, at)
    except Mismatch:
        return
    checker(GetPromptResult, at.date, ("resultType", "_meta"))(result)


@pytest.mark.spec("server/prompts/input-required")
def test_a_question_instead_of_messages_is_left_as_it_is():
    question = {"resultType": "input_required", "requestState": "s", "inputRequests": {}}
    assert prompt_from(lambda: None, name="it").result(question, TABLE[-1]) is question
