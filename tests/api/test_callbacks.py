"""api/callbacks: what an application does for servers, and how long it may take."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from choices import for_connect
from http_peers import endpoint
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, eventually, nothing_left

from mcp_ref import (
    ClientOptions,
    Context,
    ErrorResponse,
    Limit,
    ProtocolError,
    RequestCancelled,
    Server,
    connect,
)
from mcp_ref.api.callbacks import Callbacks, CallbackTimeout
from mcp_ref.basic.index.error_responses import InternalError, TooManyRequests
from mcp_ref.basic.index.general_fields import MissingRequiredClientCapability
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.threads.outbox import Outbox


def request():
    """A server's request that is under way."""
    connection = Server("asking").attach(Outbox(lambda line: None))
    context = Context(connection, 1, "elicitation/create", {})
    connection.responder.serving[1] = context
    return context


# ------------------------------------------------------------------------- what is declared


def test_without_callbacks_nothing_is_declared():
    assert Callbacks().capabilities() == {}


@pytest.mark.spec("client/elicitation/at-least-one-mode")
def test_each_callback_is_a_capability_with_its_parts():
    def told(**options):
        return Callbacks(**options).capabilities()

    assert told(elicitation=print) == {"elicitation": {"form": {}, "url": {}}}
    assert told(elicitation=print, elicitation_modes=["url"]) == {"elicitation": {"url": {}}}
    assert told(sampling=print) == {"sampling": {}}
    assert told(sampling=print, sampling_tools=True, sampling_context=True) == {
        "sampling": {"tools": {}, "context": {}}
    }
    assert told(roots=[]) == told(roots=list) == {"roots": {"listChanged": True}}


@pytest.mark.spec("client/elicitation/at-least-one-mode")
@pytest.mark.parametrize("modes", [[], (), "url", ["form", "link"]])
def test_elicitation_has_a_mode_and_no_others_than_there_are(modes):
    with pytest.raises(ValueError, match="elicitation_modes are some of form, url"):
        connect(Server("any"), elicitation=print, options=ClientOptions(elicitation_modes=modes))


@pytest.mark.parametrize("name", ["elicitation", "sampling", "sampling_review"])
def test_a_callback_is_a_function(name):
    options = {"sampling": print} if name == "sampling_review" else {}
    with pytest.raises(TypeError, match=f"{name} is a function"):
        Callbacks(**{**options, name: "yes"})


@pytest.mark.spec(
    "client/elicitation/capability-at-initialize",
    "client/elicitation/capability-per-request",
)
@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_is_told_what_there_is_in_its_revision(date):
    server, seen = Server("any"), []

    @server.tool
    def look(ctx: Context) -> None:
        seen.append(ctx.client_capabilities)

    options = {"elicitation": print, "sampling": print, "sampling_tools": True, "roots": []}
    with connect(server, **for_connect(revision=date, **options)) as client:
        client.call_tool("look")
    forms, modes, tools = date >= "2025-06-18", date >= "2025-11-25", date >= "2025-11-25"
    assert ("elicitation" in seen[0]) == forms
    if forms:
        assert seen[0]["elicitation"] == ({"form": {}, "url": {}} if modes else {})
    assert seen[0]["sampling"] == ({"tools": {}} if tools else {})
    assert seen[0]["roots"] == ({} if date == MODERN else {"listChanged": True})


# --------------------------------------------------------------------------- how they are run


def test_a_callback_runs_on_a_thread_of_its_own():
    with nothing_left():
        found = Callbacks().run(lambda *given: (given, threading.current_thread().name), 1, "b")
    assert found == ((1, "b"), "mcp_ref asking")


def test_what_it_raises_is_told_without_a_traceback(caplog):
    def fail():
        raise RuntimeError("out of paper")

    with pytest.raises(InternalError, match="the client failed to answer: out of paper") as problem:
        Callbacks().run(fail)
    assert problem.value.data is None
    assert "Traceback" not in problem.value.message
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit(3), ValueError("\ud800")])
def test_whatever_it_raises_is_told(problem):
    def fail():
        raise problem

    with pytest.raises(InternalError, match="the client failed to answer") as told:
        Callbacks().run(fail)
    told.value.message.encode("utf-8")


def test_an_error_of_the_protocol_is_passed_on_as_it_is():
    refusal = ProtocolError("not today", code=5)

    def refuse():
        raise refusal

    with pytest.raises(ProtocolError) as problem:
        Callbacks().run(refuse)
    assert problem.value is refusal


def test_one_that_hangs_is_given_up_and_told_so():
    let_go, over = threading.Event(), threading.Event()
    with nothing_left():
        with pytest.raises(CallbackTimeout, match=r"there was no answer within 0\.01 s"):
            Callbacks(seconds=0.01).run(let_go.wait, PATIENCE, over=over)
        assert over.is_set()
        let_go.set()


def test_it_is_over_too_when_it_answered():
    over = threading.Event()
    assert Callbacks().run(over.is_set, over=over) is False
    assert over.is_set()


def test_a_request_that_is_cancelled_is_no_longer_waited_for():
    entered, let_go, over = threading.Event(), threading.Event(), threading.Event()
    context, problems = request(), []

    def callback():
        entered.set()
        let_go.wait(PATIENCE)
        return "too late"

    def wait():
        try:
            Callbacks().run(callback, context=context, over=over)
        except RequestCancelled as problem:
            problems.append(problem)

    with nothing_left():
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert entered.wait(PATIENCE)
        context.cancel("not wanted")
        waiting.join(PATIENCE)
        assert len(problems) == 1
        assert over.is_set()
        let_go.set()


def test_a_request_that_was_cancelled_before_is_not_waited_for():
    let_go, context = threading.Event(), request()
    context.cancel("not wanted")
    with nothing_left():
        with pytest.raises(RequestCancelled, match="not wanted"):
            Callbacks().run(let_go.wait, PATIENCE, context=context)
        let_go.set()


def test_one_that_answered_in_time_is_not_bothered_by_the_request_any_more():
    context = request()
    assert Callbacks().run(int, context=context) == 0
    context.cancel("too late")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_when_the_client_is_closed_nobody_is_waited_for(era):
    context = request() if era == "legacy" else None
    callbacks, entered, let_go, problems = Callbacks(), threading.Event(), threading.Event(), []

    def callback():
        entered.set()
        let_go.wait(PATIENCE)

    def wait():
        try:
            callbacks.run(callback, context=context)
        except ConnectionClosed as problem:
            problems.append(problem)

    with nothing_left():
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert entered.wait(PATIENCE)
        callbacks.close()
        waiting.join(PATIENCE)
        assert len(problems) == 1
        with pytest.raises(ConnectionClosed):
            callbacks.run(let_go.wait, PATIENCE)
        let_go.set()


@pytest.mark.spec("client/elicitation/rate-limit", "client/sampling/rate-limit")
def test_only_so_many_run_in_a_while():
    callbacks = Callbacks(limit=Limit(rate=0.001, burst=2))
    assert [callbacks.run(int), callbacks.run(int)] == [0, 0]
    with pytest.raises(TooManyRequests, match="this client is asked too much") as problem:
        callbacks.run(pytest.fail)
    assert problem.value.data["retryAfterMs"] > 0


def test_one_that_hangs_counts_until_it_ends():
    let_go = threading.Event()
    callbacks = Callbacks(limit=Limit(at_once=1), seconds=0.01)
    with nothing_left():
        with pytest.raises(CallbackTimeout):
            callbacks.run(let_go.wait, PATIENCE)
        with pytest.raises(TooManyRequests):
            callbacks.run(pytest.fail)
        let_go.set()
        assert eventually(lambda: callbacks.limiter.enter() == 0.0)
        callbacks.limiter.leave()
        callbacks.seconds = PATIENCE  # this one is to answer
        assert callbacks.run(int) == 0


def test_without_a_thread_to_be_had_it_fails_and_no_longer_counts(monkeypatch):
    def none(thread):
        raise RuntimeError("can't start new thread")

    callbacks = Callbacks(limit=Limit(at_once=1))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        with pytest.raises(InternalError, match="can't start new thread"):
            callbacks.run(int)
    assert callbacks.run(int) == 0


# ---------------------------------------------------------------------- both, over a connection


def test_a_protocol_error_that_is_returned_is_raised():
    with pytest.raises(ProtocolError, match="not today"):
        Callbacks().run(lambda: ProtocolError("not today", code=5))


def test_what_goes_with_sampling_goes_with_nothing_else():
    for options in ({"sampling_tools": True}, {"sampling_context": True}, {"sampling_review": print}):
        with pytest.raises(ValueError, match="go with sampling"):
            Callbacks(**options)


@pytest.mark.parametrize("date", LEGACY[2:])
def test_a_server_that_asks_too_much_is_told(date):
    server = Server("greedy")

    @server.tool
    def ask(ctx: Context) -> str:
        return ctx.elicit("Sure?").action

    options = {"elicitation": lambda question: True, "ask_limit": Limit(rate=0.001, burst=1)}
    with connect(server, **for_connect(revision=date, **options)) as client:
        assert client.call_tool("ask").text == "accept"
        assert "this client is asked too much" in client.call_tool("ask").text


def test_a_question_is_over_when_the_server_takes_it_back():
    """Legacy: the tool is cancelled, and with it the question; a callback that looks sees it."""
    server, asked, over = Server("fickle"), threading.Event(), threading.Event()

    @server.tool
    def ask(ctx: Context) -> str:
        return ctx.elicit("Sure?", timeout=0.02).action

    def callback(question):
        asked.set()
        assert eventually(lambda: question.is_over)
        over.set()

    with nothing_left(), connect(server, revision="2025-11-25", elicitation=callback) as client:
        while not asked.is_set():  # what is taken back before it is shown is not asked
            assert "no answer within" in client.call_tool("ask").text
        assert over.wait(PATIENCE)


def test_ten_people_may_be_asked_at_once_and_the_eleventh_is_not():
    """The default: a flood of questions does not become a flood of windows."""
    server, let_go = Server("flood"), threading.Event()
    entered = threading.Semaphore(0)

    def callback(question):
        entered.release()
        return let_go.wait(PATIENCE)

    @server.tool
    def ask(ctx: Context) -> str:
        return ctx.elicit("Sure?").action

    with (
        nothing_left(),
        connect(server, revision=MODERN, elicitation=callback) as client,
        ThreadPoolExecutor(10) as pool,
    ):
        calls = [pool.submit(client.call_tool, "ask") for _ in range(10)]
        for _ in range(10):
            assert entered.acquire(timeout=PATIENCE)
        with pytest.raises(InputRefused, match="this client is asked too much"):
            client.call_tool("ask")
        let_go.set()
        assert [call.result(PATIENCE).text for call in calls] == ["accept"] * 10


def test_a_client_that_is_closed_waits_for_nobody_any_more():
    asked, go, problems = threading.Event(), threading.Event(), []

    def ask(value):
        asked.set()
        go.wait(PATIENCE)

    callbacks, over = Callbacks(elicitation=ask), threading.Event()

    def run():
        try:
            callbacks.run(ask, 1, over=over)
        except ConnectionClosed as problem:
            problems.append(str(problem))

    thread = threading.Thread(target=run)
    thread.start()
    assert asked.wait(PATIENCE)
    callbacks.close()
    thread.join(PATIENCE)
    assert problems == ["this client was closed"] and over.is_set()
    go.set()
    with pytest.raises(ConnectionClosed):  # nor is anybody asked afterwards for long
        callbacks.run(lambda: go.wait(PATIENCE))


# -- what was not declared ------------------------------------------------------------------------------


NEEDS = [
    (lambda ctx: ctx.elicit("Sure?"), {}, "elicitation=..."),
    (lambda ctx: ctx.elicit_url("Go", "https://example.org/"), {}, "elicitation=..."),
    (
        lambda ctx: ctx.elicit_url("Go", "https://example.org/"),
        {"elicitation": lambda question: True, "elicitation_modes": ["form"]},
        "options=ClientOptions(elicitation_modes=['form', 'url'])",
    ),
    (lambda ctx: ctx.sample("Hi", max_tokens=9), {}, "sampling=..."),
    (
        lambda ctx: ctx.require_capability(sampling={"tools": {}, "context": {}}),
        {"sampling": lambda request: "x"},
        "options=ClientOptions(sampling_tools=True, sampling_context=True)",
    ),
    (
        lambda ctx: ctx.require_capability(sampling={"tools": {}}),
        {},
        "sampling=..., options=ClientOptions(sampling_tools=True)",
    ),
    (lambda ctx: ctx.list_roots(), {}, "roots=[...]"),
    (
        lambda ctx: ctx.require_capability(extensions={"com.example/x": {}}),
        {},
        "options=ClientOptions(extensions={'com.example/x': {}})",
    ),
    (
        lambda ctx: ctx.require_capability(roots={}, experimental={"a": {}}),
        {},
        "roots=[...], options=ClientOptions(experimental={'a': {}})",
    ),
]


@pytest.mark.spec("basic/index/missing-capability-error")
@pytest.mark.parametrize(("needs", "options", "arguments"), NEEDS, ids=[said for _, _, said in NEEDS])
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("transport", ["memory", "http"])
def test_a_client_that_declared_too_little_is_told_which_argument_is_missing(
    needs, options, arguments, waits, transport
):
    server = Server("needs")

    @server.tool
    def tool(ctx: Context) -> str:
        needs(ctx)
        return "done"

    with contextlib.ExitStack() as stack:
        target = server
        if transport == "http":
            target = f"http://127.0.0.1:{stack.enter_context(endpoint(server)).port}/mcp"
        client = stack.enter_context(connect(target, **for_connect(revision=MODERN, **options)))
        with pytest.raises(ErrorResponse) as refused:
            if waits:
                client.call_tool("tool")
            else:
                client.submit("tools/call", {"name": "tool", "arguments": {}}).result(PATIENCE)
    problem = refused.value
    assert problem.code == -32021
    assert problem.message.startswith("this request needs the client capability ")
    assert f"{problem.message} (-32021)" in str(problem)
    assert str(problem).endswith(f"; connect(..., {arguments}) declares it")


def test_all_parts_that_are_missing_are_named():
    problem = MissingRequiredClientCapability({"sampling": {"tools": {}, "context": {}}, "roots": {}})
    assert (
        problem.message == "this request needs the client capability sampling.tools, sampling.context, roots"
    )


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"requiredCapabilities": 5},
        {"requiredCapabilities": {"x": 5}},
        {"requiredCapabilities": {}},
    ],
)
def test_a_server_that_names_no_capability_we_know_gets_no_advice(data):
    server = Server("odd")

    @server.around
    def refuse(ctx, params, proceed):
        if ctx.method != "tools/call":
            return proceed(params)
        problem = MissingRequiredClientCapability({})
        problem.message, problem.data = "no", data
        raise problem

    server.add_tool(lambda: "x", name="tool")
    with connect(server, revision=MODERN) as client, pytest.raises(ErrorResponse) as refused:
        client.call_tool("tool")
    assert str(refused.value) == "no (-32021)"
