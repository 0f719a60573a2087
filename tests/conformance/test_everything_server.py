"""The everything server in every revision, with our client: each fixture does what the suite wants of it.

Over stdio, over Streamable HTTP, and over HTTP+SSE. The suite itself speaks HTTP only, and not every
revision; and a tool that fails passes some of its scenarios, but none of these tests.
"""

from __future__ import annotations

import base64
import queue
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from choices import for_connect
from peers import ENV, LEGACY, MODERN, PATIENCE, REVISIONS, RawClient, eventually, nothing_left

from mcp_ref import ClientOptions, ErrorResponse, Result, connect

sys.path.insert(1, str(Path(__file__).resolve().parent))

import run

COMMAND = [sys.executable, str(Path(__file__).with_name("everything_server.py"))]
ROOT = Path(__file__).resolve().parent.as_uri()
WAYS = [
    *((revision, "stdio") for revision in REVISIONS),
    ("2024-11-05", "sse"),
    *((revision, "mcp") for revision in REVISIONS[1:]),
]
"""Revisions and transports: the last two are paths of the server's."""
TOOLS = {
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_tool_with_logging",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "json_schema_2020_12_tool",
    "test_x_mcp_header",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_resource_link",
    "test_list_roots",
    "test_elicitation_url",
    "test_trigger_resource_update",
    "test_print_stdout",
    "test_structured_output",
    "test_slow",
    "test_echo",
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
}
PROMPTS = {
    "test_simple_prompt",
    "test_prompt_with_arguments",
    "test_prompt_with_embedded_resource",
    "test_prompt_with_image",
    "test_input_required_result_prompt",
}


class Session:
    """A client whose person and model answer, and that keeps what it hears."""

    def __init__(self, revision: str, target: Any) -> None:
        self.revision = revision
        self.is_child = target is COMMAND
        self.asked: list[Any] = []
        self.sampled: list[Any] = []
        self.logged: list[Any] = []
        self.notified: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.stderr: list[str] = []
        only_a_child = {"env": ENV, "on_stderr": self.stderr.append} if self.is_child else {}
        self.client = connect(
            target,
            **for_connect(
                revision=revision,
                elicitation=self.fill_in,
                sampling=self.reply,
                roots=[{"uri": ROOT, "name": "here"}],
                on_log=lambda level, data, logger: self.logged.append((level, data)),
                on_notification=lambda method, params: self.notified.put((method, params)),
                **only_a_child,
            ),
        )

    def fill_in(self, asked: Any) -> Any:
        """Says yes: with a name wherever there is to be a text, and yes wherever there is to be a boolean."""
        self.asked.append(asked)
        if asked.mode == "url":
            return True
        known = {"string": "Alice", "boolean": True}
        required = asked.schema.get("required", ())
        return {name: known[asked.schema["properties"][name]["type"]] for name in required}

    def reply(self, request: Any) -> str:
        self.sampled.append(request)
        return "Paris"

    def call(self, tool: str, **arguments: Any) -> Result:
        """The result of a tool that works."""
        result = self.client.call_tool(tool, arguments)
        assert not result.is_error, result.text
        return result

    def block(self, tool: str) -> Any:
        """The only content block of a tool's result."""
        (block,) = self.call(tool)["content"]
        return block

    def rpc(self, **params: Any) -> Result:
        """A round of tools/call whose question, if it is one, is not answered."""
        return self.client.request("tools/call", {"arguments": {}, **params}, rounds=0)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server is that the HTTP sessions share."""
    faults: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "RESULTS", tmp_path_factory.mktemp("http"))
        patch.setenv("PYTHONPATH", ENV["PYTHONPATH"])
        with run.server("auto", faults) as url:
            yield url.removesuffix("mcp")
    assert faults == []


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    revision, way = request.param
    target = COMMAND if way == "stdio" else request.getfixturevalue("http") + way
    with nothing_left():
        session = Session(revision, target)
        with session.client:
            yield session


def since(first: str) -> pytest.MarkDecorator:
    """Marks a test that is run from this revision on; without a mark, it is run in all."""
    later = [way for way in WAYS if REVISIONS.index(way[0]) >= REVISIONS.index(first)]
    return pytest.mark.parametrize("session", later, indirect=True, ids="-".join)


with_forms, with_all_forms, modern = since("2025-06-18"), since("2025-11-25"), since(MODERN)


def accepted(**content: Any) -> Any:
    return {"action": "accept", "content": content}


# ------------------------------------------------------------------------- what is offered


def test_every_fixture_is_listed_and_described(session: Session) -> None:
    tools = session.client.list_tools()
    assert {tool["name"] for tool in tools} == TOOLS
    for tool in tools:
        assert re.fullmatch("[A-Za-z0-9_.-]{1,128}", tool["name"])
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"
    prompts = session.client.list_prompts()
    assert {prompt["name"] for prompt in prompts} == PROMPTS
    assert all(prompt["description"] for prompt in prompts)


def test_lists_are_the_same_each_time(session: Session) -> None:
    assert session.client.list_tools() == session.client.list_tools()


def test_the_first_tool_takes_no_arguments(session: Session) -> None:
    """One scenario calls it, whichever it is, with `{}`."""
    first = session.client.list_tools()[0]["name"]
    assert not session.call(first).is_error


def test_what_is_offered_is_declared(session: Session) -> None:
    declared = session.client.server_capabilities or {}
    assert {"tools", "resources", "prompts", "logging"} <= declared.keys()
    assert session.revision == "2024-11-05" or "completions" in declared
    assert declared["tools"]["listChanged"]
    assert declared["prompts"]["listChanged"]


# ------------------------------------------------------------------------------- content


def test_simple_text_needs_no_arguments_at_all(session: Session) -> None:
    result = session.client.request("tools/call", {"name": "test_simple_text"})
    assert result["content"] == [{"type": "text", "text": "This is a simple text response for testing."}]


def test_image_content(session: Session) -> None:
    block = session.block("test_image_content")
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(block["data"]).startswith(b"\x89PNG\r\n")


@since("2025-03-26")
def test_audio_content(session: Session) -> None:
    block = session.block("test_audio_content")
    assert (block["type"], block["mimeType"]) == ("audio", "audio/wav")
    assert base64.b64decode(block["data"])[:4] == b"RIFF"


def test_embedded_resource(session: Session) -> None:
    block = session.block("test_embedded_resource")
    assert block["type"] == "resource"
    assert block["resource"]["uri"] == "test://embedded-resource"
    assert block["resource"]["mimeType"] == "text/plain"
    assert block["resource"]["text"]


@since("2025-06-18")
def test_resource_link_leads_to_a_resource(session: Session) -> None:
    block = session.block("test_resource_link")
    assert (block["type"], block["uri"], block["name"]) == (
        "resource_link",
        "test://static-text",
        "static-text",
    )
    assert session.client.read_resource(block["uri"]).text


def test_multiple_content_types(session: Session) -> None:
    blocks = session.call("test_multiple_content_types")["content"]
    assert [block["type"] for block in blocks] == ["text", "image", "resource"]


def test_error_handling(session: Session) -> None:
    result = session.client.call_tool("test_error_handling")
    assert result.is_error
    assert result["content"][0]["text"] == "This tool intentionally returns an error for testing"


def test_echo(session: Session) -> None:
    assert session.call("test_echo", text=" wëll\n ").text == " wëll\n "


@since("2025-06-18")
def test_structured_output(session: Session) -> None:
    tool = next(t for t in session.client.list_tools() if t["name"] == "test_structured_output")
    assert tool["outputSchema"]["type"] == "object"
    assert not tool["inputSchema"].get("required")
    result = session.call("test_structured_output")  # which the client holds against the schema
    assert result.structured == {
        "city": "Oslo",
        "temperature": 21.5,
        "conditions": ["sunny", "light wind"],
    }
    assert result["content"][0]["type"] == "text"


def test_the_keywords_of_a_schema_come_back_unchanged(session: Session) -> None:
    tool = next(t for t in session.client.list_tools() if t["name"] == "json_schema_2020_12_tool")
    schema = tool["inputSchema"]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$defs"]["address"]["$anchor"] == "addressDef"
    assert schema["properties"]["address"] == {"$ref": "#/$defs/address"}
    assert schema["properties"]["contactMethod"]["enum"] == ["phone", "email"]
    assert schema["allOf"] == [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}]
    assert schema["if"]["properties"] == {"contactMethod": {"const": "phone"}}
    assert schema["then"] == {"required": ["phone"]}
    assert schema["else"] == {"required": ["email"]}
    assert schema["additionalProperties"] is False


# -------------------------------------------------------------------- while a tool runs


def test_progress_is_told_three_times_before_the_result(session: Session) -> None:
    told: list[tuple[Any, ...]] = []
    session.client.call_tool("test_tool_with_progress", on_progress=lambda *report: told.append(report))
    assert [(done, total) for done, total, *_ in told] == [(0, 100), (50, 100), (100, 100)]


def test_three_messages_are_logged(session: Session) -> None:
    session.logged.clear()
    session.client.set_log_level("debug")
    session.call("test_tool_with_logging")
    assert eventually(lambda: len(session.logged) == 3)
    assert [level for level, _ in session.logged] == ["info"] * 3
    assert session.logged[0][1] == "Tool execution started"


def test_nobody_is_logged_to_who_does_not_want_it() -> None:
    with RawClient(COMMAND, revision=MODERN) as raw:
        answer = raw.answer(raw.call("test_logging_tool"))
        assert answer["result"]["content"][0]["text"] == "Logged one message."
        assert raw.aside == []


def test_what_is_printed_is_no_message(session: Session) -> None:
    assert session.call("test_print_stdout").text == "Printed one line."
    assert not session.is_child or eventually(lambda: "This was printed by a tool" in session.stderr)


def test_a_slow_tool_takes_its_time(session: Session) -> None:
    assert session.call("test_slow", delay_ms=1).text == "Took 1 ms."


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_slow_tool_ends_when_it_is_cancelled(revision: str) -> None:
    with nothing_left(), RawClient(COMMAND, revision=revision) as raw:
        number = raw.call("test_slow", {"delay_ms": 60_000})
        raw.notify("notifications/cancelled", {"requestId": number})
        assert raw.is_alive()
        raw.end_input()
        with pytest.raises(EOFError):  # and no answer before
            raw.receive()
        assert raw.wait() == 0


def test_the_tool_of_reconnections_has_its_result(session: Session) -> None:
    """Also where there is no stream that could be closed."""
    assert session.call("test_reconnection").text == "You reconnected, and here is the result."


# ------------------------------------------------------------------------------- changes


@pytest.mark.parametrize(
    ("tool", "kind", "wanted"),
    [
        ("test_trigger_tool_change", "tools", {"tools": True}),
        ("test_trigger_prompt_change", "prompts", {"prompts": True}),
        ("test_trigger_resource_update", "resource", {"resources": ["test://watched-resource"]}),
    ],
)
def test_who_listens_hears_of_a_change(session: Session, tool: str, kind: str, wanted: Any) -> None:
    before = session.client.list_tools(), session.client.list_prompts()
    with session.client.listen(**wanted) as changes:
        session.call(tool)
        change = changes.next(timeout=PATIENCE)
        assert change.kind == kind
        assert change.uri == ("test://watched-resource" if kind == "resource" else None)
    assert (session.client.list_tools(), session.client.list_prompts()) == before


# ------------------------------------------------------------------ resources and prompts


def test_text_and_binary_resources(session: Session) -> None:
    listed = {resource["uri"]: resource for resource in session.client.list_resources()}
    assert set(listed) == {"test://static-text", "test://static-binary", "test://watched-resource"}
    assert all(resource["name"] for resource in listed.values())
    (text,) = session.client.read_resource("test://static-text")["contents"]
    assert (text["uri"], text["mimeType"]) == ("test://static-text", "text/plain")
    assert text["text"]
    binary = session.client.read_resource("test://static-binary")
    assert binary["contents"][0]["mimeType"] == "image/png"
    assert binary.blobs[0].startswith(b"\x89PNG")


def test_the_template(session: Session) -> None:
    (template,) = session.client.list_resource_templates()
    assert template["uriTemplate"] == "test://template/{id}/data"
    (found,) = session.client.read_resource("test://template/123/data")["contents"]
    assert found["uri"] == "test://template/123/data"
    assert found["mimeType"] == "application/json"
    assert "123" in found["text"]


def test_a_resource_that_is_not_there(session: Session) -> None:
    uri = "test://nonexistent-resource-for-conformance-testing"
    with pytest.raises(ErrorResponse) as caught:
        session.client.read_resource(uri)
    assert caught.value.code == (-32602 if session.revision == MODERN else -32002)
    assert caught.value.data["uri"] == uri


def test_the_simple_prompt(session: Session) -> None:
    (message,) = session.client.get_prompt("test_simple_prompt")["messages"]
    assert message["role"] == "user"
    assert message["content"]["type"] == "text"


def test_the_prompt_with_arguments(session: Session) -> None:
    filled = session.client.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
    assert "arg1='one', arg2='two'" in filled.text


def test_the_prompt_with_a_resource(session: Session) -> None:
    filled = session.client.get_prompt("test_prompt_with_embedded_resource", {"resourceUri": "test://a"})
    block = filled["messages"][0]["content"]
    assert (block["type"], block["resource"]["uri"]) == ("resource", "test://a")


def test_the_prompt_with_an_image(session: Session) -> None:
    block = session.client.get_prompt("test_prompt_with_image")["messages"][0]["content"]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert block["data"]


def test_an_argument_is_completed(session: Session) -> None:
    found = session.client.complete(prompt="test_prompt_with_arguments", argument="arg1", value="test")
    assert found["completion"]["values"] == ["test", "testing"]


# ------------------------------------------------------- what is asked, in either era


def test_a_model_is_asked(session: Session) -> None:
    assert session.call("test_sampling", prompt="Hello?").text == "LLM response: Paris"
    assert (session.sampled[-1].text, session.sampled[-1].max_tokens) == ("Hello?", 100)


def test_roots_are_asked_for(session: Session) -> None:
    assert session.call("test_list_roots").text == f"{ROOT} here"


@with_forms
def test_a_person_is_asked(session: Session) -> None:
    said = session.call("test_elicitation", message="Who are you?").text
    assert said == "User response: accept {'username': 'Alice', 'email': 'Alice'}"
    asked = session.asked[-1]
    assert asked.message == "Who are you?"
    assert set(asked.schema["required"]) == {"username", "email"}


@with_all_forms
def test_a_form_has_a_default_for_each_type(session: Session) -> None:
    session.call("test_elicitation_sep1034_defaults")
    fields = session.asked[-1].schema["properties"]
    assert {name: (about["type"], about["default"]) for name, about in fields.items()} == {
        "name": ("string", "John Doe"),
        "age": ("integer", 30),
        "score": ("number", 95.5),
        "status": ("string", "active"),
        "verified": ("boolean", True),
    }
    assert fields["status"]["enum"] == ["active", "inactive", "pending"]


@with_all_forms
def test_a_form_has_a_selection_of_each_kind(session: Session) -> None:
    session.call("test_elicitation_sep1330_enums")
    fields = session.asked[-1].schema["properties"]
    assert fields["untitledSingle"]["enum"][0] == "option1"
    assert not {"oneOf", "enumNames"} & fields["untitledSingle"].keys()
    assert fields["titledSingle"]["oneOf"][0] == {"const": "value1", "title": "First Option"}
    assert "enum" not in fields["titledSingle"]
    assert len(fields["legacyEnum"]["enum"]) == len(fields["legacyEnum"]["enumNames"])
    assert fields["untitledMulti"]["items"] == {"type": "string", "enum": fields["untitledSingle"]["enum"]}
    assert fields["titledMulti"]["items"] == {"anyOf": fields["titledSingle"]["oneOf"]}


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_the_answers_of_the_suite_fit_its_form(revision: str) -> None:
    said = {
        "untitledSingle": "option1",
        "titledSingle": "value1",
        "legacyEnum": "opt1",
        "untitledMulti": ["option1", "option2"],
        "titledMulti": ["value1", "value2"],
    }
    with connect(
        COMMAND, revision=revision, elicitation=lambda asked: said, options=ClientOptions(env=ENV)
    ) as client:
        assert not client.call_tool("test_elicitation_sep1330_enums").is_error


@with_all_forms
def test_a_person_is_asked_to_open_a_url(session: Session) -> None:
    assert session.call("test_elicitation_url").text == "User response: accept"
    asked = session.asked[-1]
    assert (asked.mode, asked.host) == ("url", "example.com")
    if session.revision != MODERN:  # and that they are done is told to who asked
        method, params = "", {}
        while method != "notifications/elicitation/complete":
            method, params = session.notified.get(timeout=PATIENCE)
        assert params == {"elicitationId": asked.elicitation_id}


@with_forms
def test_a_question_that_streams(session: Session) -> None:
    assert session.call("test_streaming_elicitation").text == "User response: accept {}"


@with_forms
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("request_state", "state-ok: accept"),
        ("multiple_inputs", "{'name': 'Alice'}, Paris, 1 roots"),
        ("multi_round", "{'name': 'Alice'} {'color': 'Alice'}"),
        ("tampered_state", "state-ok: accept"),
        ("capabilities", "3 answers"),
    ],
)
def test_the_tools_of_rounds_come_to_an_end_in_either_era(session: Session, tool: str, said: str) -> None:
    assert session.call(f"test_input_required_result_{tool}").text == said


@pytest.mark.parametrize(
    ("tool", "said"), [("sampling", "The model says: Paris"), ("list_roots", f"Roots: {ROOT}")]
)
def test_a_model_and_roots_can_be_asked_in_every_revision(session: Session, tool: str, said: str) -> None:
    assert session.call(f"test_input_required_result_{tool}").text == said


@modern
def test_what_asks_by_its_result_comes_to_an_end(session: Session) -> None:
    assert session.call("test_input_required_result_elicitation").text == "Hello, Alice!"
    said = session.client.get_prompt("test_input_required_result_prompt").text
    assert said == "Use the following context: Alice"


# ------------------------------------------------------------- round by round (2026-07-28)


@modern
def test_a_name_is_asked_for_without_a_state(session: Session) -> None:
    first = session.rpc(name="test_input_required_result_elicitation")
    assert first["resultType"] == "input_required"
    assert "requestState" not in first
    asked = first.input_requests["user_name"]
    assert asked["method"] == "elicitation/create"
    assert asked["params"]["requestedSchema"]["properties"]["name"]["type"] == "string"
    assert asked["params"]["requestedSchema"]["required"] == ["name"]
    answers = {"user_name": accepted(name="Alice")}
    done = session.rpc(name="test_input_required_result_elicitation", inputResponses=answers)
    assert (done["resultType"], done.text) == ("complete", "Hello, Alice!")


@pytest.mark.parametrize(
    "answers",
    [
        {"wrong_key": accepted(data="wrong")},
        {"user_name": accepted(name=5)},
        {"user_name": accepted()},
        {"user_name": {"action": "decline"}},
    ],
)
@modern
def test_a_name_that_is_missing_is_asked_for_again(session: Session, answers: Any) -> None:
    again = session.rpc(name="test_input_required_result_elicitation", inputResponses=answers)
    assert again.input_requests.keys() == {"user_name"}


@modern
def test_answers_that_nobody_asked_for_are_ignored(session: Session) -> None:
    answers = {"user_name": accepted(name="Alice"), "unknown": accepted(a="b"), "other": accepted(a=1)}
    done = session.rpc(name="test_input_required_result_elicitation", inputResponses=answers)
    assert done.text == "Hello, Alice!"


@pytest.mark.parametrize("answers", [{"user_name": 12345}, None])
@modern
def test_answers_that_are_none_are_refused(session: Session, answers: Any) -> None:
    with pytest.raises(ErrorResponse) as caught:
        session.rpc(name="test_input_required_result_elicitation", inputResponses=answers)
    assert caught.value.code == -32602


@modern
def test_the_prompt_asks_for_its_context(session: Session) -> None:
    params = {"name": "test_input_required_result_prompt"}
    first = session.client.request("prompts/get", params, rounds=0)
    assert first.input_requests["user_context"]["method"] == "elicitation/create"
    answers = {"user_context": accepted(context="tests")}
    done = session.client.request("prompts/get", {**params, "inputResponses": answers})
    assert done.text == "Use the following context: tests"


@modern
def test_a_model_is_asked_by_a_result(session: Session) -> None:
    (asked,) = session.rpc(name="test_input_required_result_sampling").input_requests.values()
    assert asked["method"] == "sampling/createMessage"
    assert asked["params"]["maxTokens"] == 100
    (message,) = asked["params"]["messages"]
    assert message["content"]["text"] == "What is the capital of France?"


@modern
def test_roots_are_asked_for_by_a_result(session: Session) -> None:
    (asked,) = session.rpc(name="test_input_required_result_list_roots").input_requests.values()
    assert asked["method"] == "roots/list"


@modern
def test_a_state_travels_and_comes_back(session: Session) -> None:
    first = session.rpc(name="test_input_required_result_request_state")
    ((key, asked),) = first.input_requests.items()
    assert asked["params"]["requestedSchema"]["properties"]["ok"]["type"] == "boolean"
    assert isinstance(first["requestState"], str)
    done = session.client.resume(first, {key: accepted(ok=True)}, rounds=0)
    assert "state-ok" in done.text


@modern
def test_three_kinds_of_questions_at_once(session: Session) -> None:
    first = session.rpc(name="test_input_required_result_multiple_inputs")
    methods = sorted(asked["method"] for asked in first.input_requests.values())
    assert methods == ["elicitation/create", "roots/list", "sampling/createMessage"]
    assert first["requestState"]


@modern
def test_each_round_has_a_state_of_its_own(session: Session) -> None:
    first = session.rpc(name="test_input_required_result_multi_round")
    (key,) = first.input_requests
    second = session.client.resume(first, {key: accepted(name="Alice")}, rounds=0)
    assert second.is_input_required
    assert second["requestState"] != first["requestState"]
    (key,) = second.input_requests
    done = session.client.resume(second, {key: accepted(color="red")}, rounds=0)
    assert done.text == "{'name': 'Alice'} {'color': 'red'}"


@modern
def test_a_state_that_was_tampered_with_is_refused(session: Session) -> None:
    first = session.rpc(name="test_input_required_result_tampered_state")
    answers = {key: accepted(ok=True) for key in first.input_requests}
    with pytest.raises(ErrorResponse) as caught:
        session.rpc(
            name="test_input_required_result_tampered_state",
            inputResponses=answers,
            requestState=first["requestState"] + "-TAMPERED",
        )
    assert caught.value.code == -32602


# ------------------------------------------------- what a client that declares less is asked


def declaring(capabilities: Any) -> Any:
    return {"io.modelcontextprotocol/clientCapabilities": capabilities}


def test_only_what_was_declared_is_asked() -> None:
    with RawClient(COMMAND, revision=MODERN) as raw:
        tool = "test_input_required_result_capabilities"
        result = raw.answer(raw.call(tool, meta=declaring({"sampling": {}})))["result"]
        methods = [asked["method"] for asked in result["inputRequests"].values()]
        assert methods == ["sampling/createMessage"]


def test_a_form_needs_no_more_than_elicitation() -> None:
    with RawClient(COMMAND, revision=MODERN) as raw:
        meta = declaring({"elicitation": {}})
        result = raw.answer(raw.call("test_streaming_elicitation", meta=meta))["result"]
        assert result["resultType"] == "input_required"
        assert raw.aside == []


def test_a_capability_that_is_missing_is_named() -> None:
    with RawClient(COMMAND, revision=MODERN) as raw:
        error = raw.answer(raw.call("test_missing_capability"))["error"]
        assert error["code"] == -32021
        assert error["data"]["requiredCapabilities"] == {"sampling": {}}
        answer = raw.answer(raw.call("test_missing_capability", meta=declaring({"sampling": {}})))
        assert not answer["result"].get("isError")


# --------------------------------------------------------------------------------- tasks

TASKS = declaring({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
FORMS = {"elicitation": {"form": {}}}


class Tasks(RawClient):
    """A client of the two revisions that have tasks, over stdio, in the words of each."""

    def start(self, tool: str, **arguments: Any) -> str:
        """The id of a task."""
        if self.revision == MODERN:
            created = self.answer(self.call(tool, arguments, meta=TASKS))["result"]
            assert created["resultType"] == "task"
            return str(created["taskId"])
        params = {"name": tool, "arguments": arguments, "task": {}}
        return str(self.answer(self.ask("tools/call", params))["result"]["task"]["taskId"])

    def say(self, method: str, task_id: str, **params: Any) -> Any:
        meta = {"_meta": TASKS} if self.revision == MODERN else {}
        return self.answer(self.ask(method, {"taskId": task_id, **params, **meta}))

    def get(self, task_id: str) -> Any:
        return self.say("tasks/get", task_id)["result"]

    def until_over(self, task_id: str) -> Any:
        """The task when it is over."""
        final = {"completed", "failed", "cancelled"}
        assert eventually(lambda: self.get(task_id)["status"] in final)
        return self.get(task_id)

    def outcome(self, task_id: str) -> Any:
        """The result of a task, or its error: in the task, or fetched."""
        task = self.until_over(task_id)
        if self.revision == MODERN:
            return task.get("result") or task["error"]
        answer = self.say("tasks/result", task_id)
        return answer.get("result") or answer["error"]


@pytest.fixture(params=["2025-11-25", MODERN])
def tasks(request: pytest.FixtureRequest) -> Iterator[Tasks]:
    with nothing_left(), Tasks(COMMAND, revision=request.param, capabilities=FORMS) as raw:
        yield raw


def test_a_tool_that_is_no_task_greets(session: Session) -> None:
    assert session.call("greet", name="Alice").text == "Hello, Alice!"


def test_a_tool_that_may_be_a_task_is_called_as_any_other(session: Session) -> None:
    assert session.call("slow_compute", seconds=0.01, label="a").text == "Computed a in 0.01 s."


def test_a_tool_is_computed_as_a_task(tasks: Tasks) -> None:
    task_id = tasks.start("slow_compute", seconds=0.01, label="a")
    assert tasks.outcome(task_id)["content"][0]["text"] == "Computed a in 0.01 s."
    assert tasks.get(task_id)["status"] == "completed"


def test_a_task_ends_when_it_is_cancelled(tasks: Tasks) -> None:
    task_id = tasks.start("slow_compute", seconds=60, label="a")
    assert eventually(lambda: tasks.get(task_id).get("statusMessage") == "computing a")
    tasks.say("tasks/cancel", task_id)
    assert tasks.until_over(task_id)["status"] == "cancelled"


def test_a_tool_that_fails_in_a_task(tasks: Tasks) -> None:
    """extensions/tasks: such a task is completed. In 2025-11-25 it failed."""
    task_id = tasks.start("failing_job")
    assert tasks.outcome(task_id)["isError"] is True
    assert tasks.get(task_id)["status"] == ("completed" if tasks.revision == MODERN else "failed")


def test_a_task_that_ends_with_a_json_rpc_error(tasks: Tasks) -> None:
    task_id = tasks.start("protocol_error_job")
    assert tasks.outcome(task_id) == {"code": -32000, "message": "API rate limit exceeded"}
    assert tasks.get(task_id)["status"] == "failed"


@pytest.mark.parametrize("tool", ["failing_job", "protocol_error_job", "confirm_delete", "multi_input"])
def test_a_required_task_is_refused_to_a_client_that_wants_none(tasks: Tasks, tool: str) -> None:
    error = tasks.answer(tasks.call(tool, {"filename": "a"} if tool == "confirm_delete" else {}))["error"]
    assert error["code"] == (-32021 if tasks.revision == MODERN else -32601)


def test_a_task_asks_two_things_at_once_and_takes_the_answers_one_by_one() -> None:
    with nothing_left(), Tasks(COMMAND, revision=MODERN) as tasks:
        task_id = tasks.start("multi_input")
        assert eventually(lambda: tasks.get(task_id)["status"] == "input_required")
        name, yes = tasks.get(task_id)["inputRequests"]
        tasks.say("tasks/update", task_id, inputResponses={name: accepted(name="Alice")})
        assert eventually(lambda: tasks.get(task_id)["inputRequests"].keys() == {yes})
        tasks.say("tasks/update", task_id, inputResponses={yes: accepted(confirm=True)})
        text = tasks.outcome(task_id)["content"][0]["text"]
        assert text == "{'name': 'Alice'}, {'confirm': True}"


@pytest.mark.parametrize(("answer", "said"), [(True, "Deleted a.txt."), (False, "Kept a.txt.")])
def test_a_task_asks_whether_to_delete(answer: bool, said: str) -> None:
    with nothing_left(), Tasks(COMMAND, revision=MODERN) as tasks:
        task_id = tasks.start("confirm_delete", filename="a.txt")
        assert eventually(lambda: tasks.get(task_id)["status"] == "input_required")
        ((key, asked),) = tasks.get(task_id)["inputRequests"].items()
        assert asked["params"]["message"] == "Delete a.txt?"
        tasks.say("tasks/update", task_id, inputResponses={key: accepted(confirm=answer)})
        assert tasks.outcome(task_id)["content"][0]["text"] == said


def test_what_a_task_of_2025_asks_comes_beside_its_result() -> None:
    with nothing_left(), Tasks(COMMAND, revision="2025-11-25", capabilities=FORMS) as tasks:
        task_id = tasks.start("confirm_delete", filename="a.txt")
        number = tasks.ask("tasks/result", {"taskId": task_id})
        asked = tasks.until(lambda message: message.get("method") == "elicitation/create")
        assert asked["params"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task_id}
        tasks.send({"jsonrpc": "2.0", "id": asked["id"], "result": accepted(confirm=True)})
        assert tasks.answer(number)["result"]["content"][0]["text"] == "Deleted a.txt."


def test_a_call_asks_before_it_becomes_a_task() -> None:
    """extensions/tasks: what is asked before the task goes in rounds, and no state is in the task."""
    with nothing_left(), Tasks(COMMAND, revision=MODERN) as tasks:
        first = tasks.answer(tasks.call("test_tool_with_task", meta=TASKS))["result"]
        assert first["resultType"] == "input_required"
        assert "taskId" not in first
        answers = {key: accepted(name="Alice") for key in first["inputRequests"]}
        more = {"inputResponses": answers, "requestState": first["requestState"], "_meta": TASKS}
        params = {"name": "test_tool_with_task", "arguments": {}, **more}
        created = tasks.answer(tasks.ask("tools/call", params))["result"]
        assert created["resultType"] == "task"
        assert "requestState" not in created
        assert tasks.outcome(created["taskId"])["content"][0]["text"] == "Hello, Alice!"


# ------------------------------------------------------------------------------- headers


def test_parameters_of_three_types_go_in_headers(session: Session) -> None:
    tool = next(t for t in session.client.list_tools() if t["name"] == "test_x_mcp_header")
    fields = tool["inputSchema"]["properties"]
    assert {name: (about["type"], about["x-mcp-header"]) for name, about in fields.items()} == {
        "region": ("string", "Region"),
        "priority": ("integer", "Priority"),
        "verbose": ("boolean", "Verbose"),
    }
    given = {"region": "=?base64?SGVsbG8=", "priority": -7, "verbose": True}
    assert session.call("test_x_mcp_header", region="Hello")["content"]
    result = session.call("test_x_mcp_header", **given)
    if session.revision not in LEGACY[:2]:  # which have no structured content
        assert result.structured == given
