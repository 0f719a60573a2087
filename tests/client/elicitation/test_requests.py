"""client/elicitation: a person is asked: the shapes as each revision has them, and both halves."""

import enum
import re
import socket
import subprocess
import threading
import webbrowser
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, TypedDict

import jsonschema
import pytest
from choices import for_connect
from peers import LEGACY, MODERN, REVISIONS, Notes, RawClient, nothing_left, plain, raw_server

from mcp_ref import Context, McpError, ProtocolError, Server, connect
from mcp_ref.api.callbacks import Callbacks
from mcp_ref.basic.index.error_responses import InternalError, InvalidParams, MethodNotFound, TooManyRequests
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.basic.versioning import revision
from mcp_ref.client.elicitation import requests as elicitation
from mcp_ref.client.elicitation.requests import Answer, Elicit, ElicitationRequest, warnings_about
from mcp_ref.client.elicitation.url_mode import ElicitUrl, UrlElicitationRequired
from mcp_ref.client.roots import ListRoots
from mcp_ref.runtime.errors import InvalidResponse, LocalError
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.schema import Mismatch, checker, definitions

FORM = {
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}},
}
URL = {"mode": "url", "message": "Sign in", "url": "https://example.org/x", "elicitationId": "1"}
CHOICES = {
    "untitled": {"type": "string", "enum": ["a", "b"]},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    "several": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
    "several titled": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
}


def valid(date, name, value):
    """Whether the schema of this revision takes the value."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": definitions(date)}
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def test_elicitation_came_with_2025_06_18():
    found = ["ElicitRequest" in definitions(date) for date in REVISIONS]
    assert found == [False, False, True, True, True]


@pytest.mark.parametrize("date", REVISIONS[2:])
def test_a_form_is_asked_for_in_every_revision_that_has_it(date):
    ids = {"jsonrpc": "2.0", "id": 1}
    assert valid(date, "ElicitRequest", {**ids, "method": "elicitation/create", "params": FORM})
    assert not valid(date, "ElicitRequest", {**ids, "method": "elicitation/create", "params": {}})


def test_a_url_is_asked_for_from_2025_11_25_on():
    assert [valid(date, "ElicitRequestURLParams", URL) for date in REVISIONS[3:]] == [True, True]
    without = {key: value for key, value in URL.items() if key != "elicitationId"}
    assert [valid(date, "ElicitRequestURLParams", without) for date in REVISIONS[3:]] == [False, True]


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_selections_grew_with_2025_11_25(choice):
    found = [valid(date, "PrimitiveSchemaDefinition", choice) for date in REVISIONS[3:]]
    assert found == [True, True]


@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    ("action", "good"), [("accept", True), ("decline", True), ("cancel", True), ("no", False)]
)
def test_an_answer_has_one_of_three_actions(date, action, good):
    check = checker(elicitation.ElicitResult, date)
    if good:
        check({"action": action, "content": {"name": "x", "n": 1, "yes": True}})
    else:
        with pytest.raises(Mismatch, match="action"):
            check({"action": action})


def test_a_selection_of_several_is_an_answer_from_2025_11_25_on():
    several = {"action": "accept", "content": {"tags": ["a", "b"]}}
    checker(elicitation.ElicitResult, "2025-11-25")(several)
    with pytest.raises(Mismatch, match="tags"):
        checker(elicitation.ElicitResult, "2025-06-18")(several)


@pytest.mark.parametrize("date", REVISIONS[2:])
def test_a_form_is_flat(date):
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    with pytest.raises(Mismatch, match="properties"):
        checker(elicitation.ElicitRequestFormParams, date)({"message": "x", "requestedSchema": nested})


# ----------------------------------------------------------------------- server half


@dataclass
class Contact:
    name: Annotated[str, Bounds(min_length=2)]
    age: int | None = None
    share: float = 0.5
    yes: bool = True


class Color(enum.Enum):
    DARK_RED = "r"
    GREEN = "g"


@dataclass
class Choice:
    color: Color


def asked_in(date):
    """As much of a request's context as a question looks at."""
    return SimpleNamespace(revision=revision(date))


def question(date, message="Who?", schema=None):
    return Elicit(message, schema).question(asked_in(date))


@pytest.mark.spec(
    "client/elicitation/common-parameters",
    "client/elicitation/form-parameters",
    "client/elicitation/message-and-schema",
    "client/elicitation/mode-omitted",
)
@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    "schema", [None, Contact, FORM["requestedSchema"]], ids=["nothing", "class", "schema"]
)
def test_a_question_is_the_request_of_the_page(date, schema):
    asked = question(date, schema=schema)
    assert asked.method == "elicitation/create"
    assert asked.needs == {"elicitation": {"form": {}}}
    assert set(asked.params) == {"message", "requestedSchema"} | ({"mode"} if date >= "2025-11-25" else set())
    assert asked.params.get("mode", "form") == "form"
    assert valid(
        date, "ElicitRequest", {"jsonrpc": "2.0", "id": 1, "method": asked.method, "params": asked.params}
    )


@pytest.mark.parametrize("date", REVISIONS[:2])
def test_there_is_no_question_before_2025_06_18(date):
    with pytest.raises(LocalError, match=f"came with 2025-06-18; this client speaks {date}"):
        question(date)


@pytest.mark.parametrize("message", [None, 5, ["Who?"]])
def test_a_message_is_text(message):
    with pytest.raises(TypeError, match="message is a string"):
        question(MODERN, message)


@pytest.mark.spec("client/elicitation/flat-primitive-schema", "client/elicitation/string-formats")
@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"type": "object", "properties": {}}, "a form has no fields within fields"),
        ({"type": "array", "items": {"type": "object"}}, "properties.x"),
        ({"type": "null"}, "must be string, number, integer, boolean"),
        ({"type": "string", "format": "ipv4"}, "format"),
        ({"type": "string", "pattern": "a+"}, "pattern: is not a keyword"),
        ({"$ref": "#/$defs/x"}, "properties.x"),
    ],
)
def test_what_is_no_form_is_not_asked(date, about, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        question(date, schema={"type": "object", "properties": {"x": about}})


@pytest.mark.spec("client/elicitation/string-formats")
@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize("kind", ["email", "uri", "date", "date-time"])
def test_there_are_four_formats(date, kind):
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": kind}}}
    assert question(date, schema=schema).params["requestedSchema"] == schema


@pytest.mark.spec("client/elicitation/enum-legacy-names")
def test_titles_of_a_choice_are_written_as_the_revision_has_it():
    def field(date):
        return question(date, schema=Choice).params["requestedSchema"]["properties"]["color"]

    assert field("2025-06-18") == {"type": "string", "enum": ["r", "g"], "enumNames": ["Dark red", "Green"]}
    titled = [{"const": "r", "title": "Dark red"}, {"const": "g", "title": "Green"}]
    assert field("2025-11-25") == field(MODERN) == {"type": "string", "oneOf": titled}


@pytest.mark.spec(
    "client/elicitation/handle-actions",
    "client/elicitation/handle-decline",
    "client/elicitation/no-success-assumption",
)
@pytest.mark.parametrize("date", REVISIONS[2:])
def test_what_became_of_a_question_can_be_told_apart(date):
    read = question(date, schema=Contact).read
    yes = read({"action": "accept", "content": {"name": "Mo", "share": 0.25}})
    assert yes == Answer("accept", {"name": "Mo", "share": 0.25}, Contact("Mo", None, 0.25, True))
    assert yes.accepted
    assert bool(yes) is True
    for action in ("decline", "cancel"):
        for more in ({}, {"content": {"name": 5}}, {"content": None}):
            no = read({"action": action, **more})
            assert no == Answer(action)
            assert not no.accepted
            assert bool(no) is False


@pytest.mark.spec("client/elicitation/no-success-assumption")
@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    ("said", "outcome"),
    [(True, "deleted"), (False, "kept"), (None, "kept"), ({}, "deleted")],
    ids=["yes", "no", "nothing", "an empty form"],
)
@pytest.mark.parametrize("asks", ["elicit", "confirm"])
def test_what_the_person_refuses_is_not_done(date, said, outcome, asks):
    server = Server("files")

    @server.tool
    def delete(ctx: Context) -> str:
        """Delete everything."""
        if getattr(ctx, asks)("Really delete?"):
            return "deleted"
        return "kept"

    with connect(server, revision=date, elicitation=lambda question: said) as client:
        assert client.call_tool("delete").text == outcome


@pytest.mark.parametrize("date", REVISIONS[2:])
def test_confirm_is_one_question_without_fields_and_gives_true_or_false(date):
    server, asked, got = Server("files"), [], []

    @server.tool
    def delete(ctx: Context) -> str:
        """Delete everything."""
        got.append(ctx.confirm("Really delete?", timeout=60))
        return "done"

    def callback(question):
        asked.append((question.message, list(question.fields)))
        return len(asked) == 1

    with connect(server, revision=date, elicitation=callback) as client:
        client.call_tool("delete")
        client.call_tool("delete")
    assert asked == [("Really delete?", [])] * 2
    assert got == [True, False]


class Tone(enum.Enum):
    WARM = "w"
    COOL = "c"


@pytest.mark.parametrize("date", REVISIONS[2:])
def test_one_value_is_asked_for_by_its_type(date):
    """`ctx.elicit("How many?", int)`: a form of one field, whose value is the data of the answer."""
    server, asked, answers = Server("shop"), [], []
    kinds = {"int": int, "str": str, "bool": bool, "enum": Tone}
    said = {"int": 3, "str": "Mona", "bool": False, "enum": Tone.COOL}

    @server.tool
    def ask(kind: str, ctx: Context) -> str:
        answers.append(ctx.elicit(f"{kind}?", kinds[kind]))
        return "done"

    def callback(question):
        asked.extend(question.fields)
        return {"value": said[question.message[:-1]]}

    with connect(server, revision=date, elicitation=callback) as client:
        for kind in kinds:
            assert client.call_tool("ask", {"kind": kind}).text == "done"
    assert [(field.name, field.kind, field.required) for field in asked] == [
        ("value", kind, True) for kind in ("integer", "string", "boolean", "choice")
    ]
    assert [answer.data for answer in answers] == list(said.values())
    assert all(answers)  # accepted, also where the value is False
    assert answers[-1].content == {"value": "c"}


@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(("said", "action"), [(False, "decline"), (None, "cancel")])
def test_one_value_that_is_refused_is_none(date, said, action):
    server, answers = Server("shop"), []

    @server.tool
    def ask(ctx: Context) -> str:
        answers.append(ctx.elicit("How many?", int))
        return "done"

    with connect(server, revision=date, elicitation=lambda question: said) as client:
        assert client.call_tool("ask").text == "done"
    assert answers == [Answer(action)]
    assert answers[0].data is None


@pytest.mark.spec("client/elicitation/server-validates-data")
@pytest.mark.parametrize("date", REVISIONS[2:])
def test_a_value_of_another_type_is_an_error_where_it_was_asked(date):
    read = question(date, schema=int).read
    for content in ({"value": "three"}, {"value": 2.5}, {}, {"count": 3}):
        with pytest.raises(InvalidResponse, match="the client's answer does not fit the form: value: "):
            read({"action": "accept", "content": content})


def test_a_class_gives_an_instance_and_a_schema_what_was_filled_in():
    class Named(TypedDict):
        name: str

    answer = {"action": "accept", "content": {"name": "Mo"}}
    assert question(MODERN, schema=Contact).read(answer).data == Contact("Mo")
    assert question(MODERN, schema=Named).read(answer).data == {"name": "Mo"}
    assert question(MODERN, schema=FORM["requestedSchema"]).read(answer).data == {"name": "Mo"}
    assert question(MODERN).read({"action": "accept"}) == Answer("accept", {}, {})


@pytest.mark.spec("client/elicitation/server-validates-data", "client/elicitation/validate-both-sides")
@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "name: is required"),
        (None, "name: is required"),
        ({"name": "M"}, "name: must be at least 2 long"),
        ({"name": 5}, "name: must be a string"),
        ({"name": "Mo", "age": 1.5}, "age: must be an integer"),
        ({"name": "Mo", "age": True}, "age: must be a number"),
        ({"name": "Mo", "yes": "yes"}, "yes: must be true or false"),
        ({"name": ["Mo"]}, "name: must be a string"),
        ({"name": {"first": "Mo"}}, "name: must be a string"),
    ],
)
def test_an_answer_that_breaks_the_form_is_a_clear_error(date, content, said):
    with pytest.raises(InvalidResponse) as problem:
        question(date, schema=Contact).read({"action": "accept", "content": content})
    assert str(problem.value).startswith(f"the client's answer does not fit the form: {said}")


@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    "result", [{}, {"action": "yes"}, {"action": None}, {"action": "accept", "content": [1]}], ids=repr
)
def test_an_answer_that_is_none_is_a_clear_error(date, result):
    with pytest.raises(InvalidResponse, match=r"elicitation/create: (action|content)"):
        question(date).read(result)


def test_what_was_not_asked_for_is_left_out():
    """The schema does not close the object, and some clients write more."""
    answer = question(MODERN, schema=Contact).read({"action": "accept", "content": {"name": "Mo", "more": 1}})
    assert answer.content == {"name": "Mo"}


# ----------------------------------------------------------------------- client half


def client(date, callback=lambda question: True, **options):
    """As much of a client as answering takes."""
    return SimpleNamespace(
        negotiated=SimpleNamespace(revision=revision(date), server_name="bookings"),
        callbacks=Callbacks(elicitation=callback, **options),
    )


def answered(said, schema=FORM["requestedSchema"], date=MODERN):
    """The result that a client makes of what its callback returned."""
    given = client(date, lambda question: said)
    return elicitation.answer(given, {"message": "Who?", "requestedSchema": schema}, None)


def refused(date, params, **options):
    """What a client says of a request that it refuses as invalid, without asking anybody."""
    with pytest.raises(InvalidParams) as problem:
        elicitation.answer(client(date, pytest.fail, **options), params, None)
    assert problem.value.code == -32602
    return problem.value.message.removeprefix("elicitation/create: ")


@pytest.mark.spec("client/elicitation/three-actions", "client/elicitation/content-on-accept")
@pytest.mark.parametrize("date", REVISIONS[2:])
def test_what_a_callback_may_return(date):
    mona = {"action": "accept", "content": {"name": "Mona"}}
    for said in ({"name": "Mona"}, Contact("Mona"), Answer("accept", {"name": "Mona"})):
        schema = forms_of_contact(date) if isinstance(said, Contact) else FORM["requestedSchema"]
        found = answered(said, schema, date)
        assert found["action"] == "accept"
        assert found["content"]["name"] == "Mona"
        assert valid(date, "ElicitResult", {"action": "accept", "content": {"name": "Mona"}})
    assert answered({"name": "Mona"}, date=date) == mona
    empty = {"type": "object", "properties": {}}
    assert answered(True, empty, date) == {"action": "accept", "content": {}}
    assert answered(False, date=date) == answered(Answer("decline"), date=date) == {"action": "decline"}
    assert (
        answered(None, date=date) == answered(Answer("cancel", {"x": 1}), date=date) == {"action": "cancel"}
    )


def forms_of_contact(date):
    return question(date, schema=Contact).params["requestedSchema"]


@pytest.mark.spec("client/elicitation/defaults-prefilled")
def test_what_is_left_out_takes_its_default():
    schema = question(MODERN, schema=Contact).params["requestedSchema"]
    filled = {"name": "Mo", "share": 0.5, "yes": True}
    for said in ({"name": "Mo"}, Contact("Mo"), {"name": "Mo", "age": None, "share": None}):
        assert answered(said, schema) == {"action": "accept", "content": filled}


@pytest.mark.spec("client/elicitation/client-validates-responses", "client/elicitation/validate-both-sides")
@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "the client's answer does not fit the form: name: is required"),
        (True, "the client's answer does not fit the form: name: is required"),
        ({"name": 5}, "the client's answer does not fit the form: name: must be a string"),
        ({"name": "Mo", "more": 1}, "the client's answer does not fit the form: more: is not a field"),
        ({5: "Mo"}, "the client's answer"),
        ("Mona", "the client's answer does not fit the form: must be an object"),
        (["Mona"], "the client's answer does not fit the form: must be an object"),
        (0, "the client's answer does not fit the form: must be an object"),
        (object(), "the client's answer does not fit the form: a object has no JSON form"),
        ({"name": object()}, "the client's answer does not fit the form: name: a object has no JSON form"),
        (Answer("yes"), "the client's callback answered 'yes'; the actions are accept, decline, cancel"),
        (Answer("accept", 5), "the client's answer does not fit the form: must be an object"),
    ],
    ids=plain,
)
def test_an_answer_that_breaks_the_form_is_not_sent(date, said, why, caplog):
    schema = {**FORM["requestedSchema"], "required": ["name"]}
    with pytest.raises(InternalError) as problem:
        answered(said, schema, date)
    assert problem.value.message.startswith(why)
    assert problem.value.code == -32603


def test_a_callback_may_refuse_with_an_error_of_its_own():
    def refuse(question):
        raise ProtocolError("not now", code=99)

    with pytest.raises(ProtocolError) as problem:
        elicitation.answer(client(MODERN, refuse), FORM, None)
    assert problem.value.code == 99


@pytest.mark.spec(
    "client/elicitation/absent-mode-is-form",
    "client/elicitation/ui-identifies-server",
    "client/elicitation/ui-identifies-server-should",
)
@pytest.mark.parametrize("date", REVISIONS[2:])
def test_what_a_callback_sees(date):
    seen = []
    able = client(date, lambda question: seen.append((question, question.is_over)) or {"name": "Mo"})
    elicitation.answer(able, FORM, None)
    [(asked, was_over)] = seen
    assert isinstance(asked, ElicitationRequest)
    assert (asked.server, asked.message, asked.mode) == ("bookings", "Who?", "form")
    assert asked.schema == FORM["requestedSchema"]
    assert [(field.name, field.kind, field.min_length) for field in asked.fields] == [("name", "string", 1)]
    assert (asked.url, asked.host, asked.elicitation_id) == (None, "", None)
    assert not was_over
    assert asked.is_over  # now that it is answered


@pytest.mark.spec("client/elicitation/enum-variants")
@pytest.mark.parametrize("date", REVISIONS[3:])
def test_all_kinds_of_choices_are_understood(date):
    seen = []

    def choose(asked):
        seen.extend(asked.fields)
        return {
            field.name: [field.choices[0][0]] if field.kind == "choices" else field.choices[0][0]
            for field in seen
        }

    schema = {"type": "object", "properties": CHOICES}
    found = elicitation.answer(client(date, choose), {"message": "Which?", "requestedSchema": schema}, None)
    assert found["content"] == {"untitled": "a", "titled": "a", "several": ["a"], "several titled": ["a"]}
    assert [field.choices[0] for field in seen] == [("a", "a"), ("a", "A"), ("a", "a"), ("a", "A")]


def test_without_a_callback_there_is_no_such_method():
    with pytest.raises(MethodNotFound, match="this client has no elicitation"):
        elicitation.answer(client(MODERN, None), FORM, None)


@pytest.mark.parametrize("date", REVISIONS[:2])
def test_in_older_revisions_there_is_no_such_method(date):
    with pytest.raises(MethodNotFound):
        elicitation.answer(client(date, pytest.fail), FORM, None)


@pytest.mark.spec("client/elicitation/undeclared-mode-32602")
@pytest.mark.parametrize("date", REVISIONS[3:])
@pytest.mark.parametrize("mode", ["url", "voice", 5, None, ["form"]])
def test_a_mode_that_was_not_declared_is_refused(date, mode):
    params = {**FORM, **URL, "mode": mode}
    assert "did not declare the mode" in refused(date, params, elicitation_modes=["form"])
    without = {**FORM, "mode": "form"}
    assert "did not declare the mode 'form'" in refused(date, without, elicitation_modes=["url"])


def test_urls_are_refused_in_a_revision_without():
    assert "did not declare the mode 'url'" in refused("2025-06-18", URL)


@pytest.mark.parametrize("date", REVISIONS[2:])
@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "message: is required"),
        ({"message": 5, "requestedSchema": FORM["requestedSchema"]}, "message: must be a string"),
        ({"message": "Who?"}, "requestedSchema: is required"),
        ({"message": "Who?", "requestedSchema": []}, "requestedSchema"),
        ({"message": "Who?", "requestedSchema": {"type": "array", "properties": {}}}, "requestedSchema.type"),
        (
            {
                "message": "Who?",
                "requestedSchema": {"type": "object", "properties": {"x": {"type": "object"}}},
            },
            "requestedSchema.properties",
        ),
        (
            {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}, "required": ["x"]}},
            "required: there is no field 'x'",
        ),
        (
            {
                "message": "?",
                "requestedSchema": {"type": "object", "properties": {"x": {"type": "string", "enum": []}}},
            },
            "properties.x: has no choices",
        ),
    ],
)
def test_a_request_that_breaks_a_rule_is_invalid(date, params, said):
    assert refused(date, params).startswith(said)


# ------------------------------------------------------------------------------------ URLs


@pytest.mark.spec("client/elicitation/url-valid")
@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/sign-in?state=a%20b&x=1#top",
        "https://xn--bcher-kva.example:8443/",
        "https://[2001:db8::1]/",
        "http://localhost:8000/",
        "http://127.0.0.1/",
    ],
)
def test_a_whole_web_address_is_one(url, caplog):
    elicitation.check_url(url)
    assert not caplog.text


@pytest.mark.spec("client/elicitation/url-valid")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "/sign-in",
        "https://",
        "https:///path",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://example.com/",
        "data:text/html,x",
        "https://example.com/a b",
        "https://example.com/\n",
        "https://example.com/\x1b[2K",
        "https://b\u00fccher.example/",
        "https://example.com/\u202egro.live",
        "https://[::1/",
        "https://example.com/<script>",
        "https://example.com/`rm`",
        "https://example.com\\@evil.example/",
    ],
)
def test_what_is_no_web_address_is_refused(url):
    with pytest.raises(ValueError, match="URL"):
        elicitation.check_url(url)


@pytest.mark.spec("client/elicitation/url-https")
def test_a_url_without_encryption_is_warned_of(caplog):
    elicitation.check_url("http://example.com/")
    assert "should be https" in caplog.text


@pytest.mark.spec("client/elicitation/privacy-decline")
@pytest.mark.spec("client/elicitation/content-on-accept", "client/elicitation/three-actions")
@pytest.mark.parametrize("date", REVISIONS[3:])
@pytest.mark.parametrize(
    ("said", "result"),
    [
        (True, {"action": "accept"}),
        (Answer("accept"), {"action": "accept"}),
        (Answer("accept", {"token": "secret"}), {"action": "accept"}),
        (False, {"action": "decline"}),
        (Answer("decline"), {"action": "decline"}),
        (None, {"action": "cancel"}),
        (Answer("cancel"), {"action": "cancel"}),
    ],
    ids=repr,
)
def test_what_a_callback_may_say_to_a_url(date, said, result):
    """Consent and nothing else: what is done there is not the client's to tell."""
    assert elicitation.answer(client(date, lambda question: said), URL, None) == result


@pytest.mark.parametrize("said", ["yes", {"ok": True}, {}, 1, "https://example.com/", ["accept"]])
def test_only_true_accepts_a_url(said):
    with pytest.raises(InternalError, match="content for a URL: True would accept it"):
        elicitation.answer(client(MODERN, lambda question: said), URL, None)


@pytest.mark.spec(
    "client/elicitation/url-shown-in-full",
    "client/elicitation/url-no-prefetch",
    "client/elicitation/url-no-open-without-consent",
    "client/elicitation/url-opened-securely",
    "client/elicitation/url-domain-consent",
    "client/elicitation/clear-presentation",
)
@pytest.mark.parametrize("date", REVISIONS[3:])
def test_a_callback_sees_the_whole_url_and_its_host(date):
    seen = []
    url = "https://user@sign-in.example.com:8443/a?b=c"
    elicitation.answer(client(date, lambda question: seen.append(question)), {**URL, "url": url}, None)
    [asked] = seen
    assert (asked.mode, asked.message, asked.url, asked.host) == (
        "url",
        "Sign in",
        url,
        "sign-in.example.com",
    )
    assert list(asked.fields) == []
    assert asked.schema == {}


@pytest.mark.spec("client/elicitation/url-valid")
@pytest.mark.parametrize("date", REVISIONS[3:])
@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://", 5, None])
def test_a_url_that_is_none_never_gets_to_a_person(date, url):
    assert "url" in refused(date, {**URL, "url": url}).lower()


def test_an_elicitation_id_is_part_of_it_in_2025_11_25():
    without = {key: value for key, value in URL.items() if key != "elicitationId"}
    assert refused("2025-11-25", without) == "elicitationId: is required"
    assert elicitation.answer(client(MODERN), without, None) == {"action": "accept"}


@pytest.mark.spec("client/elicitation/url-no-prefetch", "client/elicitation/url-no-open-without-consent")
@pytest.mark.parametrize("said", [True, False])
def test_a_client_opens_no_url_and_looks_at_none(said, monkeypatch):
    """Whether or not it is accepted: opening it is for the application, with the person's consent."""
    for module, name in (
        (webbrowser, "open"),
        (socket, "socket"),
        (socket, "getaddrinfo"),
        (subprocess, "Popen"),
    ):
        monkeypatch.setattr(module, name, lambda *given, **options: pytest.fail(f"{given}"))
    elicitation.answer(client("2025-11-25", lambda question: said), URL, None)


# -------------------------------------------------------------------------------- both, over a connection


def asker(schema):
    """A server whose tool asks for this, and says what it got."""
    server = Server("bookings", title="Bookings Ltd.")

    @server.tool
    def ask(ctx: Context) -> str:
        try:
            answer = ctx.elicit("Who?", schema)
        except McpError as problem:
            return f"{type(problem).__name__}: {problem}"
        return f"{answer.action} {answer.data}"

    return server


@pytest.mark.parametrize("date", REVISIONS[2:])
def test_a_tool_asks_a_person_in_every_revision_with_forms(date):
    seen = []

    def ask(question):
        seen.append((question.server, question.message, [field.kind for field in question.fields]))
        return Contact("Mona", 7, 0.75, False)

    with nothing_left(), connect(asker(Contact), revision=date, elicitation=ask) as connected:
        said = connected.call_tool("ask").text
    assert said == "accept Contact(name='Mona', age=7, share=0.75, yes=False)"
    assert seen == [("Bookings Ltd.", "Who?", ["string", "integer", "number", "boolean"])]


WRONG = {"action": "accept", "content": {"name": 5}}


@pytest.mark.spec("client/elicitation/server-validates-data")
@pytest.mark.parametrize("date", LEGACY[2:])
def test_the_server_notices_what_a_legacy_client_gets_wrong(date):
    with RawClient(asker(Contact), revision=date, capabilities={"elicitation": {}}) as raw:
        called = raw.call("ask")
        request = raw.receive()
        raw.send({"jsonrpc": "2.0", "id": request["id"], "result": WRONG})
        said = raw.answer(called)["result"]["content"][0]["text"]
    assert said.startswith(
        "InvalidResponse: the client's answer does not fit the form: name: must be a string"
    )


@pytest.mark.spec("client/elicitation/server-validates-data")
def test_the_server_notices_what_a_modern_client_gets_wrong():
    meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    with RawClient(asker(Contact), revision=MODERN) as raw:
        asked = raw.answer(raw.call("ask", meta=meta))["result"]
        again = {"name": "ask", "arguments": {}, "requestState": asked["requestState"], "_meta": meta}
        done = raw.request("tools/call", {**again, "inputResponses": {"elicitation-1": WRONG}})
    said = done["result"]["content"][0]["text"]
    assert said.startswith(
        "InvalidResponse: the client's answer does not fit the form: name: must be a string"
    )


@pytest.mark.spec("client/elicitation/client-validates-responses")
@pytest.mark.parametrize("date", LEGACY[2:])
def test_the_client_tells_a_legacy_server_what_is_wrong(date):
    """With its own request, and with what the application answered."""
    notes = Notes()
    server = raw_server(f"""
        open_legacy({date!r})
        call = receive("tools/call")
        send(id="a", method="elicitation/create", params={{"message": 5}})
        send(id="b", method="elicitation/create", params={FORM!r})
        [receive(""), receive("")]
        answer(call, text("done"))
        go_on()
    """)
    options = {"elicitation": lambda question: {"name": ""}, "on_stderr": notes}
    with connect(server, **for_connect(revision=date, **options)) as connected:
        assert connected.call_tool("x").text == "done"
    errors = {m["id"]: m["error"] for m in notes.all if isinstance(m, dict) and m.get("id") in ("a", "b")}
    assert errors["a"]["code"] == -32602
    assert errors["a"]["message"].startswith("elicitation/create: message: must be a string")
    assert errors["b"]["code"] == -32603
    assert errors["b"]["message"].startswith("the client's answer does not fit the form: name")


def test_the_client_tells_its_caller_what_a_modern_server_gets_wrong():
    bad = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}, "required": ["x"]}}
    asked = {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "elicitation/create", "params": bad}},
    }
    server = raw_server(f"""
        open_modern()
        answer(receive("tools/call"), {asked!r})
        go_on()
    """)
    with (
        connect(server, elicitation=pytest.fail) as connected,
        pytest.raises(InputRefused, match="required: there is no field 'x'"),
    ):
        connected.call_tool("x")


# -- no mode that the client lacks, whichever way it is asked ----------------------------------------

VISIT = ElicitUrl("Sign in", "https://example.org/x")
OWN_FORM = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}
OWN_URL = {"method": "elicitation/create", "params": URL}


def own(question):
    """An input_required result of a handler's own making."""
    return {"resultType": "input_required", "inputRequests": {"it": question}, "requestState": "x"}


def raising():
    raise UrlElicitationRequired(VISIT)


WAYS = {
    "form": {
        "elicit": lambda ctx: ctx.elicit("Who?"),
        "confirm": lambda ctx: ctx.confirm("Sure?"),
        "ask_all": lambda ctx: ctx.ask_all(ListRoots(), Elicit("Who?")),
        "own result": lambda ctx: own(OWN_FORM),
        "request": lambda ctx: ctx.request("elicitation/create", FORM),
    },
    "url": {
        "elicit_url": lambda ctx: ctx.elicit_url("Sign in", "https://example.org/x"),
        "ask_all": lambda ctx: ctx.ask_all(ListRoots(), VISIT),
        "own result": lambda ctx: own(OWN_URL),
        "error": lambda ctx: raising(),
        "request": lambda ctx: ctx.request("elicitation/create", URL),
    },
}


@pytest.mark.spec("client/elicitation/no-unsupported-mode")
@pytest.mark.parametrize(
    ("mode", "way", "date"),
    [
        (mode, way, date)
        for mode, ways in WAYS.items()
        for way in ways
        for date in (["2025-11-25", MODERN] if way != "own result" else [MODERN])
    ],
)
def test_no_way_of_asking_sends_a_mode_that_the_client_did_not_declare(mode, way, date):
    """The request ends with what is lacking; on the wire there is no question, not even another beside it."""
    server = Server("asking", secret="a secret of thirty-two characters")

    @server.tool
    def tool(ctx: Context) -> str:
        return WAYS[mode][way](ctx)

    other = {"form": {"url": {}}, "url": {"form": {}}}[mode]
    for lacking in ({"roots": {}}, {"roots": {}, "elicitation": other}):
        meta = {"io.modelcontextprotocol/clientCapabilities": lacking} if date == MODERN else None
        with RawClient(server, revision=date, capabilities=lacking) as raw:
            request_id = raw.call("tool", meta=meta)
            said = raw.receive()
            assert said["id"] == request_id
            assert "method" not in said
            assert raw.is_alive()
            assert raw.aside == []
        if "error" in said:
            assert said["error"]["code"] == (-32021 if date == MODERN else -32603)
            assert "elicitation" in said["error"]["message"]
        else:
            assert said["result"]["isError"] is True
            assert "inputRequests" not in said["result"]
            (block,) = said["result"]["content"]
            assert "elicitation" in block["text"] or "sends no requests" in block["text"]


@pytest.mark.spec("client/elicitation/url-suspicious-warning", "client/elicitation/url-handled-carefully")
@pytest.mark.parametrize(
    ("url", "warnings"),
    [
        ("https://example.com/a?b=c#d", []),
        ("http://example.com/", ["not https"]),
        ("ftp://example.com/", ["not https"]),
        ("https://example.com@evil.example/", ["before the @"]),
        ("https://user:pw@evil.example/", ["before the @"]),
        ("https://xn--exmple-cua.com/", ["Punycode"]),
        ("https://www.XN--exmple-cua.com/", ["Punycode"]),
        ("https://ex\u0430mple.com/", ["beyond ASCII", "characters that no URL may have"]),
        ("https://192.0.2.1/", ["an IP address"]),
        ("https://[2001:db8::1]/", ["an IP address"]),
        ("https://3221225985/", ["an IP address"]),
        ("https://0xC0000201/", ["an IP address"]),
        ("https://192.0.2.0x1./", ["an IP address"]),
        ("https://good.example\\@evil.example/", ["before the @", "characters that no URL may have"]),
        ("https://good.example /", ["characters that no URL may have"]),
        ("https://g%6fod.example/", ["characters that no URL may have"]),
        ("https:///path", ["no host"]),
        ("https://[::1", ["not https", "no host"]),
        ("javascript:alert(1)", ["not https", "no host"]),
        ("", ["not https", "no host"]),
    ],
)
def test_what_is_suspicious_about_a_url_is_said(url, warnings):
    found = warnings_about(url)
    assert len(found) == len(warnings)
    for warning, word in zip(found, warnings, strict=True):
        assert word in warning


@pytest.mark.spec("client/elicitation/rate-limit")
def test_a_server_asks_only_so_often():
    slow = client(MODERN, lambda question: None, limit=Limit(rate=0.01, burst=1))
    elicitation.answer(slow, FORM, None)
    with pytest.raises(TooManyRequests):
        elicitation.answer(slow, FORM, None)


@pytest.mark.spec("client/elicitation/privacy-decline-should")
def test_a_user_may_decline_or_leave_in_the_first_revision_too():
    for said, action in ((False, "decline"), (None, "cancel")):
        asked = client("2025-06-18", lambda question, said=said: said)
        assert elicitation.answer(asked, FORM, None) == {"action": action}


def test_a_question_says_what_is_asked_and_by_whom():
    over = threading.Event()
    form = ElicitationRequest("hotel", {"message": "Who?", "requestedSchema": FORM["requestedSchema"]}, over)
    assert repr(form) == "<ElicitationRequest of 'hotel': 'Who?', fields ['name']>"
    url = ElicitationRequest("hotel", {"message": "Go", "mode": "url", "url": "https://a.example/"}, over)
    assert repr(url) == "<ElicitationRequest of 'hotel': 'Go', URL 'https://a.example/'>"
    bare = ElicitationRequest("h" * 10**6, {"message": "Sure?" * 10**6}, over)
    assert len(repr(bare)) < 200
