"""server/utilities/completion: who completes what, ranked and bounded, on both sides."""

from __future__ import annotations

import enum
import queue
import threading
import time
from typing import Annotated, Literal

import pytest
from choices import for_server
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import MODERN, PATIENCE, REVISIONS, RawClient, plain

from mcp_ref import (
    ClientOptions,
    Context,
    ErrorResponse,
    InvalidResponse,
    Limit,
    ProtocolError,
    RequestCancelled,
    Server,
    connect,
)
from mcp_ref.basic.versioning import revision
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.typing.texts import text_parameters_of
from mcp_ref.schema import checker
from mcp_ref.server.utilities import completion as page
from mcp_ref.server.utilities.completion import Suggestions, complete_params, completers

every = pytest.mark.parametrize("date", REVISIONS)
WITH_CONTEXT = ("2025-06-18", "2025-11-25", MODERN)
TEMPLATE = "db://{schema}/{table}"


class Size(enum.Enum):
    SMALL = "small"
    HUGE = "huge"
    TEN = 10


def tables(value, arguments):
    """A completer that tells what it was given."""
    return [f"{arguments.get('schema', '?')}.{value}"]


def shop(**options):
    """A server with something of everything that can be completed."""
    server = Server("completion", **for_server(options))

    @server.prompt(complete={"language": ["Python", "perl", "C++"], "framework": lambda value: ["b", "a"]})
    def review(
        language: str, framework: str = "", size: Size = Size.SMALL, code: str = "", loud: bool = False
    ):
        return "Review!"

    @server.resource(TEMPLATE, complete={"schema": ["main", "temp"], "table": tables})
    def rows(schema: str, table: str) -> str:
        return ""

    @server.resource("config://app")
    def config() -> str:
        return ""

    return server


def completing(source, **options):
    """A server whose only prompt, `it`, has an argument `a` that this completes."""
    server = Server("completion", **for_server(options))
    server.add_prompt(lambda a, b="": "", name="it", complete={"a": source})
    return server


def values(client, argument, value="", **of):
    """What an argument of `review` could become."""
    return client.complete(**(of or {"prompt": "review"}), argument=argument, value=value)["completion"][
        "values"
    ]


def completed(source, value="", date=MODERN, **options):
    """The completion of the argument `a` of `it`."""
    with connect(completing(source, **options), revision=date) as client:
        return client.complete(prompt="it", argument="a", value=value)["completion"]


def refused(source, value="", date=MODERN):
    """The error with which a completion is refused."""
    with connect(completing(source), revision=date) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.complete(prompt="it", argument="a", value=value)
        assert client.list_prompts()  # and the server goes on
    return caught.value


# ------------------------------------------------------------------------------ the capability


@pytest.mark.spec("server/utilities/completion/capability-declared")
@every
def test_completion_is_declared_by_who_has_something_to_complete(date):
    with connect(shop(), revision=date) as client:
        assert ("completions" in client.server_capabilities) == (date >= "2025-03-26")
        assert values(client, "language", "p") == ["perl", "Python"]


@pytest.mark.spec("server/utilities/completion/unsupported-32601")
@every
def test_a_server_with_nothing_to_complete_has_no_such_method(date):
    server = Server("bare")
    server.add_prompt(lambda a: "", name="it")
    params = {"ref": {"type": "ref/prompt", "name": "it"}, "argument": {"name": "a", "value": ""}}
    with RawClient(server, revision=date) as raw:
        assert raw.request("completion/complete", params)["error"]["code"] == -32601
    expected = LocalError if date >= "2025-03-26" else ErrorResponse
    with connect(server, revision=date) as client, pytest.raises(expected):
        client.complete(prompt="it", argument="a")


# ---------------------------------------------------------------------- whatever is completed


@pytest.mark.spec(
    "server/utilities/completion/reference-types", "server/utilities/completion/argument-name-value"
)
@every
def test_arguments_of_prompts_and_variables_of_templates(date):
    with connect(shop(), revision=date) as client:
        assert values(client, "language", "PY") == ["Python"]
        assert values(client, "schema", "m", resource=TEMPLATE) == ["main", "temp"]
        assert values(client, "table", "x", resource=TEMPLATE) == ["?.x"]


@every
def test_enums_literals_and_bools_complete_by_themselves(date):
    server = Server("completion")

    @server.prompt
    def it(
        size: Size, kind: Annotated[Literal["a", "b"] | None, "which"] = None, loud: bool = False, n: int = 0
    ):
        return ""

    with connect(server, revision=date) as client:
        assert values(client, "size", "", prompt="it") == ["small", "huge", "10"]
        assert values(client, "size", "hg", prompt="it") == ["huge"]
        assert values(client, "kind", "", prompt="it") == ["a", "b"]
        assert values(client, "loud", "t", prompt="it") == ["true"]
        assert values(client, "n", "", prompt="it") == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (["a", "b"], ["a", "b"]),
        (("a", 1, 0.5, True, Size.TEN), ["a", "1", "0.5", "true", "10"]),
        ((str(n) for n in range(3)), ["0", "1", "2"]),
        (dict.fromkeys(["x", "y"]).keys(), ["x", "y"]),
        (Size, ["small", "huge", "10"]),
        (Literal["l", "m"], ["l", "m"]),
        ([], []),
    ],
    ids=plain,
)
def test_what_an_author_may_give(source, found):
    assert completed(source)["values"] == found


@pytest.mark.spec("server/utilities/completion/total-and-has-more")
@every
def test_an_argument_without_a_completer_has_no_suggestions(date):
    with connect(shop(), revision=date) as client:
        got = client.complete(prompt="review", argument="code", value="x")["completion"]
        assert got == {"values": [], "total": 0, "hasMore": False}


def test_what_an_author_says_goes_before_what_the_type_says():
    server = Server("completion")

    @server.prompt(complete={"size": lambda value: ["small"]})
    def it(size: Size):
        return ""

    with connect(server) as client:
        assert values(client, "size", "", prompt="it") == ["small"]


# ----------------------------------------------------------------------------- the references


@pytest.mark.spec(
    "server/utilities/completion/invalid-prompt-32602",
    "server/utilities/completion/missing-argument-32602",
    "server/utilities/completion/validate-inputs",
    "server/utilities/completion/validate-inputs-should",
    "server/utilities/completion/errors",
)
@every
@pytest.mark.parametrize(
    ("of", "argument", "said"),
    [
        ({"prompt": "preview"}, "a", "Unknown prompt: preview; known: review"),
        ({"prompt": ""}, "a", "Unknown prompt: ; known: review"),
        (
            {"prompt": "review"},
            "tone",
            "the prompt review has no argument 'tone'; it has language, framework, size, code, loud",
        ),
        ({"resource": "db://{a}"}, "a", f"Unknown resource template: db://{{a}}; known: {TEMPLATE}"),
        ({"resource": "db://main/users"}, "table", "Unknown resource template: db://main/users"),
        (
            {"resource": TEMPLATE},
            "row",
            f"the template {TEMPLATE} has no argument 'row'; it has schema, table",
        ),
        ({"resource": "config://app"}, "a", "the resource config://app has no argument 'a'; it has none"),
    ],
)
def test_what_there_is_not_is_named(date, of, argument, said):
    with connect(shop(), revision=date) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.complete(**of, argument=argument)
        assert values(client, "language", "py") == ["Python"]
    assert caught.value.code == -32602
    assert caught.value.message.startswith(said)


def test_a_file_of_a_directory_is_a_resource_without_arguments(tmp_path):
    (tmp_path / "a.txt").write_text("hi")
    server = shop()
    server.add_directory(tmp_path)
    with connect(server) as client:
        uri = (tmp_path / "a.txt").as_uri()
        with pytest.raises(ErrorResponse, match=f"the resource {uri} has no argument 'a'"):
            client.complete(resource=uri, argument="a")


REF, ARGUMENT = {"type": "ref/prompt", "name": "review"}, {"name": "language", "value": "p"}


@pytest.mark.spec(
    "server/utilities/completion/validate-inputs",
    "server/utilities/completion/missing-argument-32602",
    "server/utilities/completion/reference-types",
)
@every
@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({}, "ref: is required"),
        ({"argument": ARGUMENT}, "ref: is required"),
        ({"ref": REF}, "argument: is required"),
        ({"ref": {"type": "ref/tool", "name": "x"}, "argument": ARGUMENT}, "ref"),
        ({"ref": {"type": "ref/prompt"}, "argument": ARGUMENT}, "ref.name: is required"),
        ({"ref": {"type": "ref/resource", "name": "x"}, "argument": ARGUMENT}, "ref.uri: is required"),
        ({"ref": {"type": "ref/resource", "uri": 1}, "argument": ARGUMENT}, "ref.uri: must be a string"),
        ({"ref": "review", "argument": ARGUMENT}, "ref: must be an object"),
        ({"ref": REF, "argument": "language"}, "argument: must be an object"),
        ({"ref": REF, "argument": {"name": "language"}}, "argument.value: is required"),
        ({"ref": REF, "argument": {"value": "p"}}, "argument.name: is required"),
        ({"ref": REF, "argument": {"name": "language", "value": 1}}, "argument.value: must be a string"),
    ],
    ids=str,
)
def test_a_malformed_request_is_refused_with_its_place(date, params, place):
    with RawClient(shop(), revision=date) as raw:
        error = raw.request("completion/complete", params)["error"]
        assert error["code"] == -32602
        assert error["message"].startswith(f"completion/complete: {place}")
        assert raw.is_alive()


@pytest.mark.spec("server/utilities/completion/validate-inputs")
@pytest.mark.parametrize("date", WITH_CONTEXT)
@pytest.mark.parametrize("context", [1, {"arguments": []}, {"arguments": {"a": 1}}], ids=str)
def test_a_malformed_context_is_refused_with_its_place(date, context):
    with RawClient(shop(), revision=date) as raw:
        params = {"ref": REF, "argument": ARGUMENT, "context": context}
        error = raw.request("completion/complete", params)["error"]
        assert (error["code"], error["message"][:28]) == (-32602, "completion/complete: context")


# ------------------------------------------------------------------------------- what is chosen


@pytest.mark.spec("server/utilities/completion/context-arguments")
@every
def test_a_completer_hears_what_was_chosen_where_the_revision_can_say_so(date):
    with connect(shop(), revision=date) as client:
        got = client.complete(resource=TEMPLATE, argument="table", value="x", arguments={"schema": "main"})
        assert got["completion"]["values"] == ["main.x" if date in WITH_CONTEXT else "?.x"]


@every
def test_a_context_of_an_older_revision_is_no_part_of_the_request(date):
    """An unknown member is ignored, whatever it is."""
    params = {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "table", "value": "x"}}
    with RawClient(shop(), revision=date) as raw:
        got = raw.request("completion/complete", {**params, "context": {"arguments": {"schema": "main"}}})
        assert got["result"]["completion"]["values"] == ["main.x" if date in WITH_CONTEXT else "?.x"]
        if date not in WITH_CONTEXT:
            assert "result" in raw.request("completion/complete", {**params, "context": 7})


def test_a_completer_may_want_the_context_of_the_request():
    def one(ctx: Context, value):
        return [f"{ctx.client_info['name']} {value}"]

    def all_three(value, arguments, ctx: Context):
        return [f"{ctx.method} {value} {arguments}"]

    for source, said in ((one, "me x"), (all_three, "completion/complete x {'b': 'y'}")):
        with connect(completing(source), options=ClientOptions(name="me")) as client:
            got = client.complete(prompt="it", argument="a", value="x", arguments={"b": "y"})
            assert got["completion"]["values"] == [said]


def test_a_default_of_a_completer_is_its_own():
    made = [lambda value, n=n: [f"{n}{value}"] for n in range(2)]
    assert completed(made[1], "x")["values"] == ["1x"]
    assert completed(lambda value="", arguments=None: [f"{value}{arguments}"], "x")["values"] == ["x{}"]


@pytest.mark.spec("server/utilities/completion/validate-inputs")
def test_a_value_and_a_context_that_are_too_long_are_refused():
    with connect(completing(lambda value, arguments: [str(len(value))])) as client:
        got = client.complete(prompt="it", argument="a", value="x" * page.MAX_TYPED_CHARACTERS)
        assert got["completion"]["values"] == [str(page.MAX_TYPED_CHARACTERS)]
        with pytest.raises(ErrorResponse, match=r"argument\.value: 10001 characters; at most 10000"):
            client.complete(prompt="it", argument="a", value="x" * (page.MAX_TYPED_CHARACTERS + 1))
        with pytest.raises(ErrorResponse, match=r"context\.arguments: at most 1000000 characters"):
            client.complete(prompt="it", argument="a", arguments={"b": "x" * page.MAX_CHOSEN_CHARACTERS})


# --------------------------------------------------------------------------------- the ranking


@pytest.mark.spec(
    "server/utilities/completion/sorted-by-relevance", "server/utilities/completion/fuzzy-matching"
)
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", ["line items", "items", "lineitems", "Items", "old_items", "ITEM", "it-e-m", "other"]),
        ("item", ["items", "Items", "ITEM", "line items", "old_items", "lineitems", "it-e-m"]),
        ("Item", ["Items", "items", "ITEM", "line items", "old_items", "lineitems", "it-e-m"]),
        ("ITEM", ["ITEM", "items", "Items", "line items", "old_items", "lineitems", "it-e-m"]),
        ("oi", ["old_items"]),
        ("er", ["other"]),
        ("zzz", []),
        ("itemsitems", []),
        ("x" * 10_000, []),
    ],
)
def test_the_best_comes_first(typed, found):
    """Exact beginning, beginning in another case, beginning of a word, anywhere, letters in order."""
    source = ["line items", "items", "lineitems", "Items", "old_items", "ITEM", "it-e-m", "other"]
    assert completed(source, typed)["values"] == found


def test_letters_of_every_script_match_without_case():
    assert completed(["Straße", "ÄRGER", "été"], "STRASS")["values"] == ["Straße"]
    assert completed(["Straße", "ÄRGER", "été"], "ä")["values"] == ["ÄRGER"]


@given(st.lists(st.text("abAB_ ", max_size=6), max_size=8), st.text("abAB_", max_size=4))
@settings(max_examples=200, deadline=None)
def test_of_a_list_each_value_that_has_the_letters_in_order_is_found_once_and_in_rank(source, typed):
    parameters = text_parameters_of(lambda a: "", Context)
    found = completers(parameters, {"a": source})["a"](typed, {}, None)

    def spread(value):
        rest = iter(value.casefold())
        return all(character in rest for character in typed.casefold())

    assert sorted(found) == sorted(value for value in source if spread(value))
    begins = [value.startswith(typed) for value in found]
    assert begins == sorted(begins, reverse=True)
    inside = [typed.casefold() in value.casefold() for value in found]
    assert inside == sorted(inside, reverse=True)


# ----------------------------------------------------------------------------------- how many


@pytest.mark.spec(
    "server/utilities/completion/max-100-values", "server/utilities/completion/total-and-has-more"
)
@every
@pytest.mark.parametrize(
    ("count", "more"), [(0, False), (99, False), (100, False), (101, True), (10_000, True)]
)
def test_a_hundred_are_sent_and_told_of_how_many(date, count, more):
    source = [f"v{n}" for n in range(count)]
    for given_source in (source, lambda value: source):
        got = completed(given_source, date=date)
        assert got == {"values": source[:100], "total": count, "hasMore": more}
        checker(page.CompleteResult, date, ("resultType",))({"completion": got})


@pytest.mark.spec("server/utilities/completion/max-100-values")
def test_a_function_without_end_is_stopped():
    asked = []

    def endless(value):
        while True:
            asked.append(None)
            yield f"{value}{len(asked)}"

    got = completed(endless, "x")
    assert len(got.pop("values")) == 100
    assert got == {"hasMore": True}
    assert len(asked) <= page.MAX_SOURCE_VALUES + 1


def test_a_function_keeps_its_own_order_and_its_own_choice():
    assert completed(lambda value: ["zebra", "ant", "Bee"], "b")["values"] == ["zebra", "ant", "Bee"]


@pytest.mark.spec("server/utilities/completion/total-and-has-more")
@pytest.mark.parametrize(
    ("given_back", "sent"),
    [
        (Suggestions(["a"]), {"values": ["a"], "hasMore": False}),
        (Suggestions(["a"], total=1), {"values": ["a"], "total": 1, "hasMore": False}),
        (Suggestions(["a"], total=5), {"values": ["a"], "total": 5, "hasMore": True}),
        (Suggestions(["a", "b"], total=1), {"values": ["a", "b"], "total": 2, "hasMore": False}),
        (Suggestions(["a"], has_more=True), {"values": ["a"], "hasMore": True}),
        (Suggestions(["a"], total=5, has_more=False), {"values": ["a"], "total": 5, "hasMore": False}),
        (Suggestions(["a"] * 101, has_more=False), {"values": ["a"] * 100, "hasMore": True}),
        (Suggestions((Size.TEN, 2)), {"values": ["10", "2"], "hasMore": False}),
        (None, {"values": [], "total": 0, "hasMore": False}),
    ],
    ids=str,
)
def test_a_function_may_page_by_itself(given_back, sent):
    assert completed(lambda value: given_back) == sent


def test_suggestions_that_are_none_are_refused():
    for values, total in (("abc", None), (7, None), (["a"], -1), (["a"], True), (["a"], 1.5)):
        with pytest.raises((TypeError, ValueError)):
            Suggestions(values, total)


# -------------------------------------------------------------------------- what cannot be right


def asynchronous():
    async def ask(value):
        pass

    return ask


@pytest.mark.parametrize(
    ("given_complete", "said"),
    [
        ({"b": ["x"]}, "there is no parameter 'b'; there are: a"),
        ({"a": "text"}, "a must be a list, an Enum or a function, not 'text'"),
        ({"a": 7}, "a must be a list, an Enum or a function, not 7"),
        ({"a": {"x": 1}}, "a must be a list, an Enum or a function, not an object"),
        ({"a": ["x", None]}, "a suggestion is a string, not null"),
        ({"a": range(10_001)}, "a has more than 10000 values; pass a function"),
        ({"a": lambda: ["x"]}, r"a must take \(value\) or \(value, arguments\)"),
        ({"a": lambda value, arguments, more: []}, r"a must take \(value\) or \(value, arguments\)"),
        ({"a": eval("lambda value, /: []")}, r"a must take \(value\) or \(value, arguments\)"),
        ({"a": asynchronous()}, "the function for a is asynchronous"),
    ],
    ids=plain,
)
def test_what_cannot_complete_is_refused_when_it_is_registered(given_complete, said):
    with pytest.raises((TypeError, ValueError), match=f"complete: .*{said}|{said}"):
        Server("completion").add_prompt(lambda a: "", name="it", complete=given_complete)


def test_a_completer_may_take_more_than_it_is_given():
    assert completed(lambda value, *rest, **more: [f"{value}{rest}{more}"], "x")["values"] == ["x(){}"]


def test_a_function_that_takes_anything_may_have_anything_completed():
    parameters = text_parameters_of(lambda a, **rest: "", Context)
    assert set(completers(parameters, {"b": ["x"]})) == {"b"}


@pytest.mark.spec("server/utilities/completion/errors")
@every
@pytest.mark.parametrize(
    ("given_back", "said"),
    [
        ("text", "a completer must return a list of strings, not 'text'"),
        (7, "a completer must return a list of strings, not 7"),
        ({"values": ["a"]}, "a completer must return a list of strings, not an object"),
        ([None], "a suggestion is a string, not null"),
        ([["a"]], "a suggestion is a string, not an array of 1"),
        ([b"a"], "a suggestion is a string, not b'a'"),
        ([float("nan")], "Out of range float values are not JSON compliant"),
    ],
    ids=str,
)
def test_a_function_that_gives_nonsense_is_an_internal_error_that_says_so(date, given_back, said, caplog):
    problem = refused(lambda value: given_back, date=date)
    assert problem.code == -32603
    assert problem.message.startswith(f"completing a failed: {said}")
    assert "completing 'a' failed" in caplog.text


@pytest.mark.spec("server/utilities/completion/errors")
@every
def test_a_function_that_raises_is_an_internal_error_without_traceback(date, caplog):
    problem = refused(lambda value: {}["x"], date=date)
    assert (problem.code, problem.message) == (-32603, "completing a failed: 'x'")
    assert "Traceback" in caplog.text


def raising(problem):
    def source(value):
        raise problem

    return source


def test_a_protocol_error_is_sent_as_it_is_and_giving_up_is_an_error():
    problem = refused(raising(ProtocolError("not for you", code=1001)))
    assert (problem.code, problem.message) == (1001, "not for you")
    assert refused(raising(RequestCancelled("enough"))).code == -32603
    assert refused(raising(SystemExit(1))).code == -32603


# --------------------------------------------------------------------------------------- limits


@pytest.mark.spec("server/utilities/completion/rate-limit", "server/utilities/completion/rate-limit-requests")
@every
def test_completions_beyond_the_burst_are_refused_and_told_when_to_come_back(date):
    with connect(completing(["a"], limit=Limit(rate=0.001, burst=3)), revision=date) as client:
        for _ in range(3):
            client.complete(prompt="it", argument="a")
        with pytest.raises(ErrorResponse, match="too many completions; try again in") as caught:
            client.complete(prompt="it", argument="a")
        assert caught.value.code == 429
        assert caught.value.data["retryAfterMs"] > 0


@pytest.mark.spec("server/utilities/completion/rate-limit")
def test_completions_beyond_those_that_may_run_at_once_are_refused_and_make_room_again():
    running, goes_on = queue.SimpleQueue(), threading.Event()

    def slow(value):
        running.put(value)
        assert goes_on.wait(PATIENCE)
        return [value]

    with connect(completing(slow, limit=Limit(at_once=1))) as client:
        params = {"ref": {"type": "ref/prompt", "name": "it"}, "argument": {"name": "a", "value": "x"}}
        first = client.submit("completion/complete", params)
        running.get(timeout=PATIENCE)
        with pytest.raises(ErrorResponse, match="too many completions"):
            client.complete(prompt="it", argument="a", value="y")
        goes_on.set()
        assert first.result(PATIENCE)["completion"]["values"] == ["x"]
        with pytest.raises(ErrorResponse, match="no argument 'z'"):
            client.complete(prompt="it", argument="z")
        assert values(client, "a", "w", prompt="it") == ["w"]  # whatever came of it, there is room again


def test_ten_thousand_values_are_ranked_in_no_time():
    source = [f"{n:05} some table of a large database {n}" for n in range(10_000)]
    with connect(completing(source)) as client:
        for typed in ("", "some", "zz", "0 9 1", "s" * 10_000):
            begun = time.process_time()
            client.complete(prompt="it", argument="a", value=typed)
            assert time.process_time() - begun < 2


# ----------------------------------------------------------------------- what a client takes


def answering(result):
    """A server that answers every completion with this."""
    server = completing(["a"])
    server.on_request("completion/complete")(lambda params: result)
    return server


@pytest.mark.spec("server/utilities/completion/handle-partial")
@every
@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ({"values": ["a"]}, {"values": ["a"]}),
        ({"values": ["a"], "total": 3}, {"values": ["a"], "total": 3}),
        ({"values": ["a"], "hasMore": True}, {"values": ["a"], "hasMore": True}),
        ({}, {"values": []}),
        ({"values": ["a", None, 1, "b"]}, {"values": ["a", "b"]}),
        ({"values": [], "total": "many", "hasMore": "yes"}, {"values": []}),
        ({"values": ["a"], "total": None, "hasMore": None}, {"values": ["a"]}),
        ({"values": ["a"] * 150, "total": 150}, {"values": ["a"] * 100, "total": 150, "hasMore": True}),
        ({"values": ["a"], "org.example/x": 1}, {"values": ["a"], "org.example/x": 1}),
    ],
    ids=str,
)
def test_a_client_makes_do_with_what_a_server_sends(date, said, taken):
    with connect(answering({"completion": said}), revision=date) as client:
        assert client.complete(prompt="it", argument="a")["completion"] == taken


@every
@pytest.mark.parametrize(
    "result", [{}, {"completion": None}, {"completion": []}, {"completion": {"values": "a"}}]
)
def test_what_is_no_completion_is_refused(date, result):
    with (
        connect(answering(result), revision=date) as client,
        pytest.raises(InvalidResponse, match="no completion"),
    ):
        client.complete(prompt="it", argument="a")


def test_a_caller_names_one_thing_to_complete():
    for of in ({}, {"prompt": "a", "resource": "b"}):
        with pytest.raises(TypeError, match="one of them"):
            complete_params(revision(REVISIONS[0]), argument="a", **of)


@pytest.mark.spec(
    "server/utilities/completion/reference-types",
    "server/utilities/completion/argument-name-value",
    "server/utilities/completion/context-arguments",
)
@every
def test_what_a_client_sends_is_what_the_page_says(date):
    sent = complete_params(revision(date), prompt="it", argument="a", value="x", arguments={"b": "y"})
    context = {"context": {"arguments": {"b": "y"}}} if date in WITH_CONTEXT else {}
    params = {"ref": {"type": "ref/prompt", "name": "it"}, "argument": {"name": "a", "value": "x"}, **context}
    assert sent == params
    checker(page.CompleteRequestParams, date, ("_meta",))(params)
    params = complete_params(revision(date), resource="db://{a}", argument="a", arguments={})
    assert params == {
        "ref": {"type": "ref/resource", "uri": "db://{a}"},
        "argument": {"name": "a", "value": ""},
    }
