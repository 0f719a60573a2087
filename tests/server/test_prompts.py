"""server/prompts: listing prompts and getting one, on both sides."""

from __future__ import annotations

import base64
import dataclasses
import enum
import queue
from typing import Annotated, Any

import pytest
from choices import for_server
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, RawClient, plain

from mcp_ref import Context, ErrorResponse, InvalidResponse, ProtocolError, RequestCancelled, Server, connect
from mcp_ref.api.from_function.prompt import assistant, prompt_from, user
from mcp_ref.basic.versioning import TABLE
from mcp_ref.runtime.errors import LocalError
from mcp_ref.schema import Mismatch, checker
from mcp_ref.server import content
from mcp_ref.server import prompts as page
from mcp_ref.server.prompts import GetPromptResult

every = pytest.mark.parametrize("date", REVISIONS)
ICON = {"src": "https://example.org/icon.png", "mimeType": "image/png"}


class Style(enum.Enum):
    SHORT = "short"
    LONG = "long"


def reviewer(**options):
    """A server with one prompt of many arguments."""
    server = Server("prompts", **for_server(options))

    @server.prompt(title="Review", icons=[ICON], meta={"org.example/a": 1})
    def review(
        code: str,
        style: Annotated[Style, "how much to say"] = Style.SHORT,
        line: int = 0,
        tags: list[str] = [],  # noqa: B006
    ) -> str:
        """Review some code.

        Args:
            code: all of it
        """
        return f"{code}|{style.name}|{line}|{tags}"

    return server


def giving(value, **options):
    """A server whose only prompt, `it`, gives this."""
    server = Server("prompts")
    server.add_prompt(lambda: value, name="it", **options)
    return server


def failing(problem):
    server = Server("prompts")

    @server.prompt
    def fail():
        raise problem

    return server


def refused(server, name="it", arguments=None, date=MODERN):
    """The error with which a prompt is refused."""
    with connect(server, revision=date) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.get_prompt(name, arguments)
        assert client.request("prompts/list")  # and the server goes on
    return caught.value


# ----------------------------------------------------------------------------------- the list


@pytest.mark.spec(
    "server/prompts/list-answered",
    "server/prompts/capability-at-initialize",
    "server/prompts/capability-in-discover",
    "server/prompts/respect-capabilities",
)
@every
def test_a_function_is_listed_with_what_its_revision_knows_of_it(date):
    newer = {"title": "Review", "_meta": {"org.example/a": 1}} if date >= "2025-06-18" else {}
    newest = {"icons": [ICON]} if date >= "2025-11-25" else {}
    with connect(reviewer(), revision=date) as client:
        assert client.server_capabilities["prompts"] is not None
        assert client.list_prompts() == [
            {
                "name": "review",
                "description": "Review some code.",
                "arguments": [
                    {"name": "code", "description": "all of it", "required": True},
                    {"name": "style", "description": "how much to say", "required": False},
                    {"name": "line", "required": False},
                    {"name": "tags", "required": False},
                ],
                **newer,
                **newest,
            }
        ]


@pytest.mark.spec("server/prompts/respect-capabilities")
@every
def test_a_server_without_prompts_declares_none_and_has_no_such_methods(date):
    with connect(Server("empty"), revision=date) as client:
        assert "prompts" not in client.server_capabilities
        with pytest.raises(LocalError, match="prompts/list: the server did not declare"):
            client.list_prompts()
        with pytest.raises(LocalError, match="prompts/get: the server did not declare"):
            client.get_prompt("any")
    with RawClient(Server("empty"), revision=date) as raw:
        assert raw.request("prompts/list")["error"]["code"] == -32601
        assert raw.request("prompts/get", {"name": "any"})["error"]["code"] == -32601


@pytest.mark.spec("server/prompts/list-empty-or-changing", "server/prompts/list-may-change")
@every
def test_the_list_may_become_empty_and_there_is_still_one(date):
    server = reviewer()
    server.remove_prompt("review")
    with connect(server, revision=date) as client:
        assert client.list_prompts() == []
        server.add_prompt(lambda: "hi", name="hello")
        assert [prompt["name"] for prompt in client.list_prompts()] == ["hello"]
    with pytest.raises(KeyError, match="no 'review'"):
        server.remove_prompt("review")


@pytest.mark.spec("server/prompts/list-paginated", "server/prompts/handle-pagination")
@every
def test_a_long_list_comes_in_pages_and_the_client_gets_them_all(date):
    server = Server("prompts", page_size=2)
    for number in range(5):
        server.add_prompt(lambda: "", name=f"p{number}")
    with connect(server, revision=date) as client:
        assert [len(p["prompts"]) for p in client.pages("prompts/list")] == [2, 2, 1]
        assert [prompt["name"] for prompt in client.list_prompts()] == [f"p{n}" for n in range(5)]
        with pytest.raises(ErrorResponse, match="-32602"):
            client.request("prompts/list", {"cursor": "mine"})


@pytest.mark.spec("server/prompts/list-not-per-connection")
def test_the_list_is_the_same_for_every_connection_whatever_was_asked_before():
    server = reviewer()
    with connect(server) as one, connect(server) as other:
        before = other.list_prompts()
        one.get_prompt("review", {"code": "x"})
        with pytest.raises(ErrorResponse):
            one.get_prompt("nothing")
        assert one.list_prompts() == other.list_prompts() == before


@pytest.mark.spec("server/prompts/list-changed", "server/prompts/respect-capabilities")
@pytest.mark.parametrize("date", LEGACY)
def test_clients_of_the_legacy_era_are_told_of_changes(date):
    server, told = reviewer(), queue.SimpleQueue()
    with connect(server, revision=date, on_notification=lambda method, params: told.put(method)) as client:
        assert client.server_capabilities["prompts"] == {"listChanged": True}
        client.list_prompts()  # and so the session is open
        for change in (
            lambda: server.add_prompt(lambda: "new", name="new"),
            lambda: server.add_prompt(lambda: "newer", name="new", replace=True),
            lambda: server.remove_prompt("new"),
        ):
            change()
            assert told.get(timeout=PATIENCE) == "notifications/prompts/list_changed"


@pytest.mark.spec("server/prompts/list-changed-subscribed")
@every
def test_whoever_listens_hears_of_changes_in_either_era(date):
    server = reviewer()
    with connect(server, revision=date) as client:
        client.list_prompts()  # and so the session is open
        with client.listen(prompts=True) as changes:
            server.add_prompt(lambda: "new", name="new")
            change = changes.next(PATIENCE)
            assert (change.kind, change.method) == ("prompts", "notifications/prompts/list_changed")


def test_a_name_is_given_once_unless_it_is_to_be_replaced():
    server = giving("old")
    with pytest.raises(ValueError, match="'it' is among the prompts already"):
        server.add_prompt(lambda: "new", name="it")
    server.add_prompt(lambda: "new", name="it", replace=True)
    with connect(server) as client:
        assert client.get_prompt("it")["messages"] == [user("new")]


# ---------------------------------------------------------------------------------- arguments


@pytest.mark.spec("server/prompts/validate-arguments")
@every
def test_arguments_are_text_and_arrive_as_what_the_function_takes(date):
    with connect(reviewer(), revision=date) as client:
        got = client.get_prompt("review", {"code": "1", "style": "long", "line": "7", "tags": '["a"]'})
        assert got["messages"] == [user("1|LONG|7|['a']")]
        assert got["description"] == "Review some code."
        assert client.get_prompt("review", {"code": "x"})["messages"] == [user("x|SHORT|0|[]")]


@pytest.mark.spec("schema/invalid-params-contexts")
@pytest.mark.spec(
    "server/prompts/missing-argument-32602", "server/prompts/validate-arguments", "server/prompts/errors"
)
@every
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "review: code: is required"),
        ({"code": "x", "colour": "red"}, "review: colour: is not known here; known: code, style, line, tags"),
        ({"code": "x", "style": "medium"}, "review: style: must be one of 'short', 'long', not 'medium'"),
        ({"code": "x", "line": "first"}, "review: line: must be an integer, not 'first'"),
        ({"code": "x", "tags": "[1]"}, "review: tags[0]: must be a string, not 1"),
        ({"line": "x"}, "review: line: must be an integer, not 'x'; code: is required"),
    ],
)
def test_arguments_that_are_missing_unknown_or_wrong_are_named(date, arguments, said):
    problem = refused(reviewer(), "review", arguments, date)
    assert (problem.code, problem.message) == (-32602, said)


@pytest.mark.spec("server/prompts/validate-arguments")
@every
@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"name": "review", "arguments": {"code": 1}}, "arguments.code: must be a string, not 1"),
        ({"name": "review", "arguments": {"code": None}}, "arguments.code: must be a string, not null"),
        ({"name": "review", "arguments": {"code": ["x"]}}, "arguments.code: must be a string"),
        ({"name": "review", "arguments": ["x"]}, "arguments: must be an object"),
        ({"name": 1}, "name: must be a string"),
        ({}, "name: is required"),
    ],
)
def test_a_malformed_request_is_refused_with_its_place(date, params, place):
    with RawClient(reviewer(), revision=date) as raw:
        error = raw.request("prompts/get", params)["error"]
        assert error["code"] == -32602
        assert error["message"].startswith(f"prompts/get: {place}")
        assert raw.is_alive()


@pytest.mark.spec("schema/invalid-params-contexts")
@pytest.mark.spec("server/prompts/invalid-name-32602", "server/prompts/errors")
@every
def test_an_unknown_name_is_refused_with_the_names_there_are(date):
    problem = refused(reviewer(), "preview", date=date)
    assert (problem.code, problem.message) == (-32602, "Unknown prompt: preview; known: review")


@pytest.mark.spec("server/prompts/invalid-name-32602")
def test_of_many_names_twenty_are_told_and_of_a_long_one_its_beginning():
    server = Server("prompts")
    for number in range(30):
        server.add_prompt(lambda: "", name=f"p{number}")
    said = refused(server, "x" * 10_000).message
    assert said.endswith("p19")
    assert len(said) < 400


@every
def test_arguments_may_be_left_out(date):
    with RawClient(giving("hi"), revision=date) as raw:
        assert raw.request("prompts/get", {"name": "it"})["result"]["messages"] == [user("hi")]


# ------------------------------------------------------------------------- prompts that fail


@pytest.mark.spec("server/prompts/errors")
@every
def test_a_prompt_that_raises_is_an_internal_error_with_its_message_and_no_traceback(date, caplog):
    problem = refused(failing(ValueError("no such table")), "fail", date=date)
    assert (problem.code, problem.message) == (-32603, "the prompt fail failed: no such table")
    assert "Traceback" in caplog.text


@every
def test_a_protocol_error_that_a_prompt_raises_is_that_error(date):
    problem = refused(failing(ProtocolError("not for you", code=1001, data={"a": 1})), "fail", date=date)
    assert (problem.code, problem.message, problem.data) == (1001, "not for you", {"a": 1})


def test_a_prompt_that_gives_up_or_exits_is_an_error_all_the_same():
    for raised in (RequestCancelled("enough"), SystemExit(1), KeyboardInterrupt()):
        assert refused(failing(raised), "fail").code == -32603


@pytest.mark.spec("server/prompts/errors", "server/prompts/validate-input-output")
@every
def test_a_prompt_that_returns_no_messages_is_an_internal_error_that_says_so(date, caplog):
    problem = refused(giving(["a", 7]), date=date)
    assert problem.code == -32603
    assert problem.message.startswith("the prompt it returned no prompt: messages[1]: must be text")
    assert "it returned what is no prompt" in caplog.text


@every
@pytest.mark.parametrize(
    "value", ["half a \ud800", {"messages": "a", "_meta": {"a": object()}}], ids=["half", "object"]
)
def test_what_has_no_json_form_is_an_internal_error_that_says_so(date, value):
    problem = refused(giving(value), date=date)
    assert problem.code == -32603
    assert problem.message.startswith("what the prompt returned is no JSON: ")


# --------------------------------------------------------------------------------- questions


@dataclasses.dataclass
class Tone:
    tone: str


@pytest.mark.spec("server/prompts/input-required")
@pytest.mark.parametrize("date", ["2025-06-18", "2025-11-25", MODERN])
def test_a_prompt_may_ask_before_it_answers(date):
    server = Server("prompts")

    @server.prompt
    def greet(name: str, ctx: Context) -> str:
        answer = ctx.elicit("In which tone?", Tone)
        return f"Greet {name}, {answer.data.tone}"

    with connect(server, revision=date, elicitation=lambda asked: {"tone": "kindly"}) as client:
        assert client.get_prompt("greet", {"name": "Ann"})["messages"] == [user("Greet Ann, kindly")]


# ------------------------------------------------------------------ what a client takes and sends


def answering(method, result):
    """A server with a prompt that answers a method with this instead."""
    server = giving("hi")
    server.on_request(method)(lambda params: result)
    return server


@pytest.mark.spec("server/prompts/validate-input-output")
@every
@pytest.mark.parametrize(
    ("result", "place"),
    [
        ({}, "messages: is required"),
        ({"messages": "x"}, "messages: must be an array"),
        ({"messages": [{"role": "system", "content": content.text("a")}]}, r"messages\[0\].role"),
        ({"messages": [user("a"), {"role": "user", "content": "a"}]}, r"messages\[1\].content"),
        ({"messages": [{"role": "user", "content": {"type": "video"}}]}, r"messages\[0\].content"),
        ({"messages": [], "description": 1}, "description: must be a string"),
    ],
    ids=str,
)
def test_a_result_of_the_wrong_shape_is_refused_with_its_place(date, result, place):
    server, said = answering("prompts/get", result), f"prompts/get it: {place}"
    with connect(server, revision=date) as client, pytest.raises(InvalidResponse, match=said):
        client.get_prompt("it")


def test_an_unfinished_result_is_not_judged_as_a_finished_one():
    page.check_result(None, {"name": "it"}, {"resultType": "input_required"}, None)


@every
def test_definitions_that_are_none_are_left_out_and_the_others_stay(date, caplog):
    good = {"name": "good", "arguments": [{"name": "a"}]}
    bad = [
        {"title": "no name"},
        "text",
        {"name": "bad", "arguments": [{}]},
        {"name": "worse", "arguments": {}},
    ]
    with connect(answering("prompts/list", {"prompts": [*bad, good]}), revision=date) as client:
        assert client.list_prompts() == [good]
    assert caplog.text.count("prompts/list: left out") == 4


@pytest.mark.parametrize("prompts", [None, "x", {}], ids=str)
def test_a_list_that_is_none_is_refused(prompts):
    server = answering("prompts/list", {"prompts": prompts})
    with connect(server) as client, pytest.raises(InvalidResponse, match="has no list of prompts"):
        client.list_prompts()


@pytest.mark.spec("schema/prompt-arguments-strings")
def test_arguments_of_a_prompt_are_text_also_for_the_caller():
    with connect(reviewer()) as client, pytest.raises(TypeError, match="argument 'line' of a prompt is text"):
        client.get_prompt("review", {"code": "x", "line": 7})


def test_a_caller_may_send_metadata_along():
    server = Server("prompts")

    @server.prompt
    def who(ctx: Context) -> str:
        return str(ctx.meta["org.example/who"])

    with connect(server) as client:
        got = client.get_prompt("who", meta={"org.example/who": "me"}, timeout=PATIENCE)
        assert got["messages"] == [user("me")]


every = pytest.mark.parametrize("date", REVISIONS)


def returning(value, **options):
    """A server whose only prompt, `it`, gives this."""
    server = Server("prompts")
    server.add_prompt(lambda: value, name="it", **options)
    return server


def given_at(value, date=MODERN):
    """The messages that a prompt gives to a client of this revision."""
    with connect(returning(value), revision=date) as client:
        return client.get_prompt("it")["messages"]


def refused_message(value):
    """The error that a client gets if this is what a prompt gives."""
    with connect(returning(value)) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.get_prompt("it")
        assert client.request("prompts/list")  # and the server goes on
    return caught.value


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
    with connect(returning(own, description="The prompt's"), revision=date) as client:
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
    problem = refused_message(nonsense)
    assert problem.code == -32603
    assert problem.message.startswith(f"the prompt it returned no prompt: {said}")
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
        problem = refused_message(value)
        assert problem.code == -32603
        assert f"{place}{said}" in problem.message


def test_a_list_that_contains_itself_ends():
    endless: list[Any] = []
    endless.append(endless)
    assert "messages[0]" in refused_message(endless).message


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
