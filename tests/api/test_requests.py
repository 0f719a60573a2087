"""Asking: any request of a client, and what belongs to it (page: basic/patterns/index, client's side)."""

import logging
import threading

import pytest
from demos import demo
from peers import LEGACY, META, MODERN, PATIENCE, REVISIONS, Notes, eventually, raw_server
from task_scripts import Scripted, film

from mcp_ref import (
    ClientOptions,
    Context,
    ErrorResponse,
    InvalidResponse,
    MayHaveRun,
    NotReached,
    RequestTimeout,
    Result,
    Retry,
    Server,
    ServerOptions,
    connect,
)
from mcp_ref.api import requests as module
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.runtime.errors import LocalError

LEVEL = "io.modelcontextprotocol/logLevel"


def sent(date, act, method):
    """The message of this method that a server gets when a client does something."""
    notes = Notes()
    with connect(
        raw_server(f"open_any({date!r})\ngo_on(text('x'))"),
        revision=date,
        options=ClientOptions(on_stderr=notes),
    ) as client:
        act(client)
        return notes.message(method)


# -- what is sent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_meta_of_the_caller_goes_along(date):
    meta = {"com.example/trace": {"a": 1}, "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    message = sent(date, lambda client: client.call_tool("x", {"a": 1}, meta=meta), "tools/call")
    found = message["params"]["_meta"]
    assert {key: found[key] for key in meta} == meta
    assert (found.keys() - meta.keys()) == (META.keys() if date == MODERN else set())
    message = sent(date, lambda client: client.request("v/x", {"_meta": meta}), "v/x")
    assert meta.items() <= message["params"]["_meta"].items()


@pytest.mark.spec("basic/index/meta-reserved-keys")
@pytest.mark.parametrize(
    "meta",
    [{LEVEL: "debug"}, {"progressToken": 1}, {"mcp.dev/x": 1}, {"a b": 1}, {"traceparent": "odd"}, {"": 1}],
)
@pytest.mark.parametrize("date", [LEGACY[3], MODERN])
def test_meta_that_a_caller_may_not_write_is_refused_and_not_sent(date, meta):
    with connect(demo(), revision=date) as client:
        for act in (
            lambda: client.call_tool("add", {"a": 1, "b": 1}, meta=meta),
            lambda: client.request("tools/list", {"_meta": meta}),
            lambda: client.submit("tools/list", {"_meta": meta}),
        ):
            with pytest.raises(ValueError):
                act()
        assert not client.asker.connection.waiting


@pytest.mark.parametrize("date", LEGACY)
def test_a_legacy_request_without_params_has_none(date):
    message = sent(date, lambda client: client.request("vendor/x"), "vendor/x")
    assert message.keys() == {"jsonrpc", "id", "method"}


@pytest.mark.parametrize("date", REVISIONS)
def test_the_callers_own_params_are_not_changed(date):
    params = {"name": "x", "arguments": {"a": [1]}, "_meta": {"com.example/x": 1}}
    before = {"name": "x", "arguments": {"a": [1]}, "_meta": {"com.example/x": 1}}
    sent(date, lambda client: client.request("tools/call", params, on_progress=print), "tools/call")
    assert params == before


@pytest.mark.parametrize("date", REVISIONS)
def test_notify_sends_any_notification(date):
    message = sent(date, lambda client: client.notify("vendor/news", {"a": 1}), "vendor/news")
    assert message == {"jsonrpc": "2.0", "method": "vendor/news", "params": {"a": 1}}


@pytest.mark.spec(
    "basic/lifecycle/negotiated-capabilities-only", "basic/lifecycle/negotiated-capabilities-only-should"
)
@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize(
    ("method", "capability"),
    [
        ("tools/call", "tools"),
        ("tools/list", "tools"),
        ("resources/read", "resources"),
        ("prompts/get", "prompts"),
        ("completion/complete", "completions"),
        ("logging/setLevel", "logging"),
    ],
)
def test_what_the_server_did_not_declare_is_not_asked_of_it(date, method, capability):
    if capability == "completions" and date == "2024-11-05":
        return  # there is no such capability yet: see the next test
    with connect(Server("bare", options=ServerOptions(logging=False)), revision=date) as client:
        for act in (client.request, client.submit, lambda m: list(client.pages(m))):
            with pytest.raises(LocalError, match=f"capability '{capability}'"):
                act(method)
        assert not client.asker.connection.waiting
        with pytest.raises(ErrorResponse):
            client.request("vendor/x")  # a method of one's own needs no capability


@pytest.mark.spec(
    "basic/lifecycle/negotiated-capabilities-only", "architecture/index/subscription-capability-needed"
)
@pytest.mark.parametrize("declared", [{}, {"listChanged": True}, {"subscribe": False}], ids=str)
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
@pytest.mark.parametrize("date", LEGACY)
def test_no_part_of_a_capability_is_used_that_the_server_did_not_declare(date, method, declared):
    notes = Notes()
    script = f"ABLE['resources'] = {declared!r}\nopen_legacy({date!r})\ngo_on({{'resources': []}})"
    with connect(raw_server(script), revision=date, options=ClientOptions(on_stderr=notes)) as client:
        for act in (client.request, client.submit):
            with pytest.raises(LocalError, match=r"did not declare the capability 'resources\.subscribe'"):
                act(method, {"uri": "x://a"})
        client.request("resources/list")  # whose capability it declared
        notes.message("resources/list")
        assert not [note for note in notes.all if isinstance(note, dict) and note.get("method") == method]


@pytest.mark.parametrize("date", LEGACY)
def test_a_part_of_a_capability_that_the_server_declared_is_used(date):
    script = f"ABLE['resources'] = {{'subscribe': True}}\nopen_legacy({date!r})\ngo_on({{}})"
    with connect(raw_server(script), revision=date, options=ClientOptions(on_stderr=Notes())) as client:
        assert client.request("resources/subscribe", {"uri": "x://a"}) == {}


def test_completion_of_2024_11_05_needs_no_capability():
    """There was none: only the server's answer tells."""
    with connect(Server("bare"), revision="2024-11-05") as client, pytest.raises(ErrorResponse) as refused:
        client.request("completion/complete", {})
    assert refused.value.code == -32601


def test_what_has_no_json_form_is_refused_and_leaves_nothing_behind():
    with connect(demo()) as client:
        for odd in (object(), {1, 2}, float("nan"), "\ud800"):
            with pytest.raises((TypeError, ValueError)):
                client.call_tool("add", {"a": odd})
        assert not client.asker.connection.waiting
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


@pytest.mark.spec("basic/index/result-type-unknown-invalid", "basic/index/result-type-supported-set")
@pytest.mark.parametrize("kind", ["partial", "", "COMPLETE", 5, None, ["complete"], {}])
def test_a_result_of_an_unknown_type_is_refused(kind):
    result = {"resultType": kind, "content": []}
    with connect(
        raw_server(f"open_modern()\ngo_on({result!r})"), options=ClientOptions(on_stderr=Notes())
    ) as client:
        with pytest.raises(InvalidResponse, match="resultType"):
            client.call_tool("x")
        with pytest.raises(InvalidResponse, match="resultType"):
            client.submit("vendor/x").result(PATIENCE)
        client.ping()


@pytest.mark.spec("basic/index/result-type-absent-complete")
def test_a_result_without_a_type_is_complete():
    with connect(
        raw_server("open_modern()\ngo_on({'content': []})"), options=ClientOptions(on_stderr=Notes())
    ) as client:
        assert client.call_tool("x") == {"content": []}


@pytest.mark.parametrize("result", ["text", 5, None, [1], True])
def test_a_result_that_is_no_object_is_refused(result):
    with connect(
        raw_server(f"open_modern()\ngo_on({result!r})"), options=ClientOptions(on_stderr=Notes())
    ) as client:
        with pytest.raises(InvalidResponse, match="object"):
            client.request("vendor/x")
        client.ping()


def test_an_error_of_the_server_is_raised_with_code_message_and_data():
    script = """
        open_modern()
        error(receive("vendor/x"), 1234, "so it is", data={"why": [1]})
        error(receive("vendor/x"), "no code")
        go_on()
    """
    with connect(raw_server(script), options=ClientOptions(on_stderr=Notes())) as client:
        with pytest.raises(ErrorResponse) as refused:
            client.request("vendor/x")
        assert (refused.value.code, refused.value.message) == (1234, "so it is")
        assert refused.value.data == {"why": [1]}
        with pytest.raises(InvalidResponse):
            client.request("vendor/x")


def test_progress_is_told_on_the_callers_own_thread():
    server = demo()

    @server.tool
    def count(ctx: Context) -> str:
        for n in range(10):
            ctx.progress(n, 10, f"step {n}")
        return "done"

    told = []
    with connect(server) as client:
        client.call_tool(
            "count", on_progress=lambda *report: told.append((*report, threading.current_thread()))
        )
    assert told[-1][:3] == (9, 10, "step 9")
    assert {entry[3] for entry in told} == {threading.current_thread()}


@pytest.mark.spec("basic/patterns/cancellation/stdio-cancelled-notification")
def test_a_progress_callback_that_raises_ends_the_call_and_cancels_it():
    cancelled = threading.Event()
    server = demo()

    @server.tool
    def work(ctx: Context) -> str:
        ctx.progress(1)
        while not ctx.cancelled:
            threading.Event().wait(0.005)
        cancelled.set()
        return "x"

    def on_progress(*report):
        raise ZeroDivisionError

    with connect(server) as client:
        with pytest.raises(ZeroDivisionError):
            client.call_tool("work", on_progress=on_progress)
        assert cancelled.wait(PATIENCE)
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"


@pytest.mark.parametrize("date", REVISIONS)
def test_what_can_be_no_request_is_refused_and_not_sent(date):
    with connect(demo(), revision=date) as client:
        for act, complaint in (
            (lambda: client.request(5), "method is a string"),
            (lambda: client.request("vendor/x", [1]), "params is a dict"),
            (lambda: client.request("vendor/x", {1: 2}), "params is a dict"),
            (lambda: client.request("vendor/x", {"_meta": 5}), "_meta is a dict"),
            (lambda: client.request("vendor/x", on_progress=5), "on_progress is a function"),
            (lambda: client.request("vendor/x", rounds="many"), "rounds is a whole number"),
            (lambda: client.request("vendor/x", rounds=True), "rounds is a whole number"),
            (lambda: client.submit("vendor/x", on_progress=5), "on_progress is a function"),
            (lambda: client.notify(None), "method is a string"),
            (lambda: client.notify("vendor/x", "y"), "params is a dict"),
        ):
            with pytest.raises(TypeError, match=complaint):
                act()
        with pytest.raises(ValueError, match="rounds is at least 0"):
            client.request("vendor/x", rounds=-1)
        assert not client.asker.connection.waiting


# -- what is asked back ----------------------------------------------------------------------------


def curious(rounds):
    """A server that asks so many times before it answers; and who was asked."""
    server, asked = demo(), []

    @server.tool
    def talk(ctx: Context) -> str:
        said = [ctx.elicit(f"question {n}").action for n in range(rounds)]
        return " ".join(said)

    def answer(question):
        asked.append(question.message)
        return question.accept()

    return server, asked, answer


@pytest.mark.spec("basic/patterns/mrtr/retry-new-id", "basic/patterns/mrtr/client-immediate-retry")
@pytest.mark.parametrize("date", ["2025-06-18", "2025-11-25", MODERN])
def test_what_the_server_asks_is_answered_until_there_is_a_result(date):
    server, asked, answer = curious(3)
    with connect(server, revision=date, elicitation=answer) as client:
        assert client.call_tool("talk").text == "accept accept accept"
    assert asked == ["question 0", "question 1", "question 2"]


def test_rounds_say_how_often_and_the_next_question_is_the_callers():
    server, asked, answer = curious(3)
    with connect(server, elicitation=answer) as client:
        result = client.call_tool("talk", rounds=0)
        assert asked == []
        assert result.is_input_required
        (name,) = result.input_requests
        result = client.resume(result, {name: {"action": "decline"}}, rounds=1)
        assert asked == ["question 1"]
        assert result.is_input_required
        (name,) = result.input_requests
        assert client.resume(result, {name: {"action": "cancel"}}).text == "decline accept cancel"


def test_a_server_that_asks_without_end_is_left_after_some_rounds():
    server, asked, answer = curious(100)
    with connect(server, elicitation=answer, options=ClientOptions(max_rounds=4)) as client:
        with pytest.raises(InputRefused, match="tools/call: the server asked 5 times, and no end"):
            client.call_tool("talk")
        assert client.call_tool("talk", rounds=2).is_input_required
    assert len(asked) == 6


def test_what_is_no_question_cannot_be_answered():
    with connect(demo()) as client:
        for result in (
            client.call_tool("add", {"a": 1, "b": 2}),
            Result(),
            Result(resultType="input_required"),
        ):
            with pytest.raises(ValueError, match="only an input_required result"):
                client.resume(result, {})
        with pytest.raises(TypeError, match="responses is a dict"):
            client.resume(Result(), [])


@pytest.mark.parametrize("where", ["vendor/x", "tools/list"])
def test_a_question_where_none_may_be_is_no_result(where):
    question = {"resultType": "input_required", "requestState": "x"}
    with connect(
        raw_server(f"open_modern()\ngo_on({question!r})"), options=ClientOptions(on_stderr=Notes())
    ) as client:
        with pytest.raises(InvalidResponse):
            client.request(where)
        client.ping()


def test_the_audit_tells_of_a_question_and_of_the_end_that_came_of_it(caplog):
    caplog.set_level(logging.INFO)
    server, _, answer = curious(2)
    with connect(server, elicitation=answer) as client:
        caplog.clear()
        result = client.call_tool("talk", rounds=0)
        (name,) = result.input_requests
        client.resume(result, {name: {"action": "accept"}})
        client.asker.rules = client.asker.rules._replace(max_rounds=0)
        with pytest.raises(InputRefused):
            client.call_tool("talk")
    made = [r.getMessage() for r in caplog.records if "made" in r.getMessage()]
    assert [sum(word in line for line in made) for word in ("asked", "done", "InputRefused")] == [2, 1, 1]


# -- what was kept ---------------------------------------------------------------------------------


def counting(**options):
    """A server that counts what it is asked."""
    server, asked = demo(**options), []

    @server.around
    def count(ctx, params, proceed):
        asked.append(ctx.method)
        return proceed(params)

    return server, asked


def test_what_is_fresh_is_not_asked_for_again_until_it_is_forgotten():
    server, asked = counting(ttl_ms=60_000)
    with connect(server, cache=True) as client:
        asked.clear()
        first = client.request("tools/list")
        first["tools"].clear()  # the caller's own, and nobody else's
        assert len(client.request("tools/list")["tools"]) == 1
        assert asked == ["tools/list"]
        client.forget_cached("tools/list")
        client.request("tools/list")
        client.forget_cached()
        client.request("tools/list")
        assert asked == ["tools/list"] * 3
        client.submit("tools/list").result(PATIENCE)  # futures ask always
        assert asked == ["tools/list"] * 4


@pytest.mark.parametrize(("date", "cache"), [*((date, True) for date in LEGACY), (MODERN, False)])
def test_without_a_cache_or_in_the_legacy_era_all_is_asked_for(date, cache):
    server, asked = counting(ttl_ms=60_000)
    with connect(server, revision=date, cache=cache) as client:
        asked.clear()
        for _ in range(3):
            client.request("tools/list")
        client.forget_cached()
        assert asked == ["tools/list"] * 3


# -- futures and events ----------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_reports_of_a_future_are_told_on_the_thread_for_events(date):
    server = demo()

    @server.tool
    def count(ctx: Context) -> str:
        for n in range(10):
            ctx.progress(n, 10)
        return "done"

    told = []
    with connect(server, revision=date) as client:
        call = client.submit(
            "tools/call",
            {"name": "count", "arguments": {}},
            on_progress=lambda *report: told.append((report[0], threading.current_thread().name)),
        )
        assert call.result(PATIENCE).text == "done"
        assert eventually(lambda: told and told[-1][0] == 9)
    assert {name for _, name in told} == {next(name for _, name in told)}
    assert "reader" not in told[0][1]


def test_a_server_has_a_name_for_people():
    with connect(demo(title="The Demo")) as client:
        assert client.asker.negotiated.server_name == "The Demo"
    with connect(demo(identify=False)) as client:
        assert client.asker.negotiated.server_name == "a server without a name"
        client.asker.negotiated.server_info = {"name": 5}
        assert client.asker.negotiated.server_name == "a server without a name"
    with connect(demo()) as client:
        assert client.asker.negotiated.server_name == "demo"
        assert not client.asker.closing.is_set()
    assert client.asker.closing.is_set()


def test_a_request_that_was_not_answered_in_time_may_be_asked_again():
    script = """
        open_modern()
        receive("vendor/x")
        go_on({"resultType": "complete", "n": 2})
    """
    with connect(raw_server(script), options=ClientOptions(on_stderr=Notes())) as client:
        with pytest.raises(RequestTimeout):
            client.request("vendor/x", timeout=0.05)
        assert client.request("vendor/x")["n"] == 2


# -- another version, in mid-life ------------------------------------------------------------------


CHANGED = """
open_modern()
for _ in range(TIMES):
    request = receive("tools/call")
    error(request, -32022, "Unsupported protocol version", data={"supported": SUPPORTED, "requested": "x"})
go_on(text("done"))
"""


def changed(times, supported):
    """The command of a server that refuses the version of some calls, though it has agreed on it."""
    return raw_server(f"TIMES, SUPPORTED = {times!r}, {supported!r}\n{CHANGED}")


def called(client, how):
    if how == "call":
        return client.call_tool("x")
    return client.submit("tools/call", {"name": "x", "arguments": {}}).result(PATIENCE)


@pytest.mark.spec("basic/versioning/client-retries-supported-version")
@pytest.mark.parametrize("how", ["call", "submit"])
@pytest.mark.parametrize("supported", [[MODERN], ["2099-01-01", MODERN, "2025-11-25"]])
def test_a_version_that_is_refused_in_mid_life_is_followed_by_one_more_try(how, supported):
    notes = Notes()
    with connect(changed(1, supported), options=ClientOptions(on_stderr=notes)) as client:
        assert called(client, how).text == "done"
        assert called(client, how).text == "done"
    calls = [m for m in notes.all if m.get("method") == "tools/call"]
    assert len(calls) == 3
    assert {m["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] for m in calls} == {MODERN}
    assert len({m["id"] for m in calls}) == 3


@pytest.mark.spec("basic/versioning/client-retries-supported-version")
@pytest.mark.parametrize("how", ["call", "submit"])
@pytest.mark.parametrize(
    ("times", "supported", "sent"),
    [(2, [MODERN], 2), (1, ["2099-01-01"], 1), (1, ["2025-11-25"], 1), (1, None, 1), (1, [5, None], 1)],
)
def test_a_server_that_goes_on_refusing_or_names_no_version_of_ours_is_an_error(how, times, supported, sent):
    """The server's own, with what it supports; with a legacy version alone nothing can go on."""
    notes = Notes()
    with connect(changed(times, supported), options=ClientOptions(on_stderr=notes)) as client:
        with pytest.raises(ErrorResponse, match="Unsupported protocol version") as caught:
            called(client, how)
        assert (caught.value.code, caught.value.data["supported"]) == (-32022, supported)
        client.ping()
    assert len([m for m in notes.all if m.get("method") == "tools/call"]) == sent


@pytest.mark.parametrize("how", ["call", "submit"])
def test_a_session_of_the_legacy_era_follows_no_version_that_an_error_names(how):
    """Its version was agreed on for as long as it lasts."""
    script = f"""
    open_legacy({LEGACY[-1]!r})
    request = receive("tools/call")
    data = {{"supported": [{MODERN!r}], "requested": "x"}}
    error(request, -32022, "Unsupported protocol version", data=data)
    go_on(text("done"))
    """
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as client:
        with pytest.raises(ErrorResponse, match="Unsupported protocol version"):
            called(client, how)
        assert client.revision == LEGACY[-1]
        assert called(client, how).text == "done"
    assert len([m for m in notes.all if m.get("method") == "tools/call"]) == 2


def test_an_error_that_names_a_capability_says_which_argument_declares_it():
    server = demo()

    @server.tool
    def ask(ctx: Context) -> str:
        return ctx.sample("hello", max_tokens=5).text

    says = pytest.raises(ErrorResponse, match=r"connect\(\.\.\., sampling=.*declares it")
    with connect(server, revision=MODERN) as client, says as caught:
        client.call_tool("ask")
    assert caught.value.code == -32021


def test_a_new_session_is_made_what_the_old_one_was():
    server = demo()
    with connect(server, revision="2025-11-25", on_log=lambda *said: None) as client:
        client.set_log_level("debug")
        client.list_tools()
        assert client.asker.tools.find("add") is not None
        levels = []
        server.around(lambda ctx, params, proceed: (levels.append((ctx.method, params)), proceed(params))[1])
        client.asker.line.listen = lambda: None
        client.asker.renewed()
        assert client.asker.tools.find("add") is None
        assert levels == [("logging/setLevel", {"level": "debug"})]


def test_a_request_that_was_refused_for_its_headers_has_its_tool_fetched_anew():
    with connect(demo(), revision=MODERN) as client:
        refused = ErrorResponse(-32020, "a header differs")
        assert not client.asker.can_correct("tools/call", refused), "there are no headers on a pipe"
        client.asker.correct({"name": "add"}, refused, 5.0)
        assert client.asker.tools.find("add")["name"] == "add"
        assert not client.asker.annotated({"name": "add"}, None)


# -- calls that become tasks -----------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/requestor-logs", "basic/utilities/tasks/requestor-tracks")
@pytest.mark.parametrize("date", [LEGACY[3], MODERN])
def test_the_audit_names_the_task_that_a_call_became(date, caplog):
    caplog.set_level(logging.INFO, "mcp_ref.audit")
    with connect(Scripted(date), revision=date) as client:
        client.start_tool("render")
    assert [r.getMessage() for r in caplog.records] == [
        "made tools/call render for scripted: task 786512e2: began"
        if date == LEGACY[3]
        else "made tools/call render for -: task 786512e2: began"
    ]


@pytest.mark.parametrize("answer", [{"task": 5}, {"task": {"taskId": 5}}, {"task": {}}])
def test_what_is_no_task_has_no_name_in_the_audit(answer, caplog):
    caplog.set_level(logging.INFO, "mcp_ref.audit")
    with (
        connect(Scripted(LEGACY[3], {"tools/call": answer}), revision=LEGACY[3]) as client,
        pytest.raises(InvalidResponse),
    ):
        client.start_tool("render")
    assert [r.getMessage() for r in caplog.records] == ["made tools/call render for scripted: done"]


@pytest.mark.spec("basic/patterns/progress/task-token-lives-on", "basic/patterns/progress/token-unique")
def test_the_progress_of_a_task_has_a_token_of_its_own_which_lives_as_long_as_the_task():
    seen, server = [], Scripted(LEGACY[3])
    with connect(server, revision=LEGACY[3]) as client:
        tasks = [client.start_tool("render", on_progress=lambda *r: seen.append(r)) for _ in range(2)]
        first, second = [m["params"]["_meta"]["progressToken"] for m in server.asked[-2:]]
        assert first != second
        assert set(client.asker.connection.session.reporters) == {first, second}
        server.say("notifications/progress", {"progressToken": first, "progress": 1, "message": "x"})
        tasks[0].result(PATIENCE)
        assert seen == [(1, None, "x")]
        assert set(client.asker.connection.session.reporters) == {second}


def test_more_tasks_than_can_be_heard_of_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_REPORTERS", 1)
    with connect(Scripted(LEGACY[3]), revision=LEGACY[3]) as client:
        client.start_tool("render", on_progress=print)
        with pytest.raises(LocalError, match="1 tasks report"):
            client.start_tool("render", on_progress=print)


@pytest.mark.spec("extensions/overview/client-advertises", "extensions/tasks/identifier")
def test_only_requests_that_are_about_tasks_say_that_the_client_knows_them():
    server = Scripted(MODERN)
    with connect(server, revision=MODERN) as client:
        client.list_tools()
        client.start_tool("render").result(PATIENCE)
        said = {
            message["method"]: message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            for message in server.asked
            if "id" in message
        }
    knows = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    about = {"tools/call", "tasks/get", "subscriptions/listen"}
    assert said == {method: knows if method in about else {} for method in said}
    assert about <= said.keys()


# -- what is sent again, and for whom --------------------------------------------------------------


def asking():
    server = Server("asking")

    @server.tool
    def ask(ctx: Context) -> str:
        return ctx.elicit("Sure?").action

    return server


def test_a_request_that_was_not_sent_is_sent_again_if_retry_says_so():
    tries = []

    def send():
        tries.append(len(tries))
        if len(tries) < 3:
            raise NotReached("nobody is there")
        return "sent"

    with connect(demo(), retry=Retry(2, pause=0.001)) as client:
        assert client.asker._sent(send, "tools/call", {"name": "add"}) == "sent"
        assert tries == [0, 1, 2]


def test_a_call_that_has_asked_was_begun_though_its_server_is_not_reached_any_more(monkeypatch):
    with connect(asking(), revision=MODERN, elicitation=lambda question: True) as client:
        outcome, rounds = client.asker._outcome, []

        def once(*given):
            rounds.append(given)
            if len(rounds) > 1:
                raise NotReached("nobody is there")
            return outcome(*given)

        monkeypatch.setattr(client.asker, "_outcome", once)
        with pytest.raises(MayHaveRun, match="The server had begun it before"):
            client.call_tool("ask")
        rounds.append(())
        with pytest.raises(NotReached):  # nothing of this one was begun
            client.call_tool("ask")


@pytest.mark.parametrize("date", [LEGACY[3], MODERN])
def test_a_call_that_can_only_be_a_task_becomes_one_by_itself(date):
    with connect(film(), revision=date) as client:
        assert client.call_tool("render", {"frames": 1}).structured == {"frames": 1}
        assert client.submit_tool("render", {"frames": 2}).result(PATIENCE).structured == {"frames": 2}


def test_a_relayed_request_declares_what_the_client_that_it_is_made_for_can_be_asked():
    outer = Server("outer")
    with connect(asking(), revision=MODERN) as far:
        outer.mount("far", far)
        with connect(outer, revision=MODERN, elicitation=lambda question: True) as client:
            assert client.call_tool("far.ask").text == "accept"
        with connect(outer, revision=MODERN) as client, pytest.raises(ErrorResponse) as refused:
            client.call_tool("far.ask")
        assert refused.value.code == -32021
