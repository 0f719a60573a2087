"""api/context: one request as its handler sees it; what ends with it, and what belongs to it."""

import logging
import threading

import pytest
from choices import for_connect
from handlers import Handler, cancel, nothing_about
from http_peers import Peer, endpoint
from peers import LEGACY, META, MODERN, PATIENCE, REVISIONS, RawClient, nothing_left
from protected import ISSUER, bearer, protected

from mcp_ref import Context, Elicit, ListRoots, Sample, Server, connect
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.patterns.index.requester import Requester
from mcp_ref.basic.versioning import revision as revision_of
from mcp_ref.runtime.errors import ConnectionClosed, LocalError, RequestCancelled, RequestTimeout
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.runtime.threads.outbox import Outbox


@pytest.fixture(autouse=True)
def no_thread_stays():
    with nothing_left():
        yield


# -- what it knows ----------------------------------------------------------------------------


def test_a_handler_knows_the_token_of_its_request_and_may_need_scopes():
    handler = Handler(lambda ctx: (ctx.token and ctx.token.subject, ctx.require_scopes("notes:write")))
    for token, status in (("notes:read", 403), ("notes:write", 200)):
        with (
            endpoint(handler.server, auth=protected()) as at,
            Peer(at.port, headers=bearer(ISSUER.token("ann", token))) as peer,
            peer.ask("vendor/x") as reply,
        ):
            assert reply.status == status
    assert handler.outcome() == ("ann", None)


def test_without_auth_a_pipe_needs_no_scopes_and_http_has_none():
    handler = Handler(lambda ctx: (ctx.token, ctx.require_scopes("notes:write")))
    with RawClient(handler.server, revision=MODERN) as raw:
        assert raw.request("vendor/x")["result"]["value"] == [None, None]
    with endpoint(handler.server) as at, Peer(at.port) as peer:
        assert "not protected" in peer.request("vendor/x")["message"]


# -- cancellation -----------------------------------------------------------------------------


# -- what belongs to the request --------------------------------------------------------------


# -- asking the client ------------------------------------------------------------------------


@pytest.mark.parametrize("revision", LEGACY)
def test_a_handler_asks_the_client_and_waits(revision):
    handler = Handler(lambda ctx: ctx.request("vendor/question", {"a": 1}))
    with RawClient(handler.server, revision=revision) as raw:
        request_id = raw.ask("vendor/x")
        question = raw.receive()
        assert question["method"] == "vendor/question"
        assert question["params"] == {"a": 1}
        raw.send({"jsonrpc": "2.0", "id": question["id"], "result": {"answer": 42}})
        assert raw.answer(request_id)["result"]["value"] == {"answer": 42}


@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_may_refuse_to_answer(revision):
    handler = Handler(lambda ctx: ctx.request("vendor/question"))
    with connect(handler.server, revision=revision) as client, pytest.raises(ErrorResponse):
        client.request("vendor/x")
    problem = handler.outcome()
    assert isinstance(problem, ErrorResponse)
    assert problem.code == -32601


@pytest.mark.spec(
    "basic/patterns/index/server-initiates-nothing", "basic/transports/stdio/server-no-requests"
)
def test_in_the_modern_era_a_server_asks_nothing():
    handler = Handler(lambda ctx: ctx.request("vendor/question"))
    with RawClient(handler.server, revision=MODERN) as raw:
        answer = raw.request("vendor/x")
        assert answer["error"]["code"] == -32603
        assert not raw.aside  # nothing came before it
    problem = handler.outcome()
    assert isinstance(problem, LocalError)
    assert "vendor/question: in 2026-07-28 a server sends no requests" in str(problem)


@pytest.mark.spec(
    "basic/patterns/index/server-initiates-nothing", "basic/transports/stdio/server-no-requests"
)
def test_not_even_beside_a_session_of_the_legacy_era():
    handler = Handler(lambda ctx: ctx.request("vendor/question"))
    with RawClient(handler.server, revision="2025-11-25") as raw:
        answer = raw.request("vendor/x", {"_meta": META})
        assert "error" in answer
        assert not raw.aside
    assert isinstance(handler.outcome(), LocalError)


def test_a_question_ends_with_the_request_that_asks_it():
    """The client cancels the request: the question is cancelled too, and the handler told."""
    handler = Handler(lambda ctx: ctx.request("vendor/question"))
    with RawClient(handler.server, revision="2025-06-18") as raw:
        request_id = raw.ask("vendor/x")
        question = raw.receive()
        cancel(raw, request_id, reason="never mind")
        withdrawn = raw.receive()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"] == {"requestId": question["id"], "reason": "never mind"}
        assert isinstance(handler.outcome(), RequestCancelled)
        assert nothing_about(raw, request_id)


def test_a_request_that_was_cancelled_asks_nothing_any_more():
    go_on = threading.Event()
    handler = Handler(lambda ctx: go_on.wait(PATIENCE) and ctx.request("vendor/question"))
    with RawClient(handler.server, revision="2025-06-18") as raw:
        request_id = raw.ask("vendor/x")
        handler.is_entered()
        cancel(raw, request_id)
        assert raw.is_alive()
        go_on.set()
        assert isinstance(handler.outcome(), RequestCancelled)
        assert nothing_about(raw, request_id)


def test_a_question_has_a_time_limit():
    handler = Handler(lambda ctx: ctx.request("vendor/question", timeout=0.01))
    with RawClient(handler.server, revision="2025-06-18") as raw:
        request_id = raw.ask("vendor/x")
        question = raw.receive()
        withdrawn = raw.receive()
        assert withdrawn["params"]["requestId"] == question["id"]
        assert raw.answer(request_id)["error"]["code"] == -32603
    assert isinstance(handler.outcome(), RequestTimeout)


def test_a_question_ends_when_the_client_goes():
    handler = Handler(lambda ctx: ctx.request("vendor/question"))
    with RawClient(handler.server, revision="2025-06-18") as raw:
        raw.ask("vendor/x")
        raw.receive()
    assert isinstance(handler.outcome(), RequestCancelled)


class Lost:
    """A connection to a client that is gone."""

    def __init__(self):
        self.responder, self.serving = self, {}
        self.outbox = Outbox(lambda line: None)

    def may_notify(self):
        return True

    def serves(self, context):
        return self.serving.get(context.arrival.key) is context

    def lose(self, *arguments, **options):
        raise ConnectionClosed("the client hung up")

    notify = request = request_all = lose


@pytest.mark.parametrize(
    "speak",
    [
        lambda ctx: ctx.notify("vendor/news"),
        lambda ctx: ctx.progress(1),
        lambda ctx: ctx.request("vendor/question"),
        lambda ctx: ctx.requests([("vendor/question", {})]),
    ],
)
def test_who_speaks_to_a_client_that_is_gone_is_told_that_the_request_was_given_up(speak):
    """And not that a connection failed, which would be a fault of the handler's own."""
    connection = Lost()
    context = Context(connection, 1, "vendor/x", {"_meta": {"progressToken": "t"}})
    context.revision = revision_of("2025-11-25")
    context.reports.progress_token = "t"
    connection.responder.serving[1] = context
    with pytest.raises(RequestCancelled, match="vendor/x: the client hung up"):
        speak(context)


def test_a_tool_whose_client_goes_while_it_asks_did_not_fail(caplog):
    server, left = Server("asks"), threading.Event()

    @server.tool
    def ask(ctx: Context) -> str:
        try:
            return str(ctx.list_roots())
        finally:
            left.set()

    with (
        caplog.at_level(logging.INFO),
        RawClient(server, revision="2025-06-18", capabilities={"roots": {}}) as raw,
    ):
        raw.ask("tools/call", {"name": "ask", "arguments": {}})
        raw.receive()
    assert left.wait(PATIENCE)
    assert "tool ask failed" not in caplog.text


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_handler_goes_on_only_with_a_client_that_can(revision):
    handler = Handler(lambda ctx: ctx.require_capability(sampling={}))
    with RawClient(handler.server, revision=revision, capabilities={"roots": {}}) as raw:
        error = raw.request("vendor/x")["error"]
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"sampling": {}}}
    with RawClient(handler.server, revision=revision, capabilities={"sampling": {}}) as raw:
        meta = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}} if revision == MODERN else {}
        assert "result" in raw.request("vendor/x", {"_meta": meta})


@pytest.mark.spec("basic/lifecycle/negotiated-capabilities-only")
@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list"])
def test_a_client_is_asked_nothing_that_it_did_not_declare(method):
    server = Server("asks")

    @server.tool
    def ask(ctx: Context) -> str:
        ctx.request(method)
        return "asked"

    with connect(server, revision="2025-11-25") as client:
        said = client.call_tool("ask")
    assert said.is_error
    assert said.text == f"{method}: the client did not declare the capability {method.partition('/')[0]}"


URL_PARAMS = {"mode": "url", "message": "Go", "url": "https://example.com/", "elicitationId": "1"}
SAMPLE_PARAMS = {"messages": [], "maxTokens": 5}


@pytest.mark.spec(
    "basic/lifecycle/negotiated-capabilities-only",
    "client/elicitation/no-unsupported-mode",
    "client/sampling/no-tools-without-capability",
    "client/sampling/include-context-needs-capability",
)
@pytest.mark.parametrize(
    ("method", "params", "part"),
    [
        ("elicitation/create", URL_PARAMS, "elicitation.url"),
        ("elicitation/create", {**URL_PARAMS, "mode": "dance"}, "elicitation.dance"),
        ("sampling/createMessage", {**SAMPLE_PARAMS, "tools": []}, "sampling.tools"),
        ("sampling/createMessage", {**SAMPLE_PARAMS, "toolChoice": {"mode": "none"}}, "sampling.tools"),
        ("sampling/createMessage", {**SAMPLE_PARAMS, "includeContext": "thisServer"}, "sampling.context"),
        ("sampling/createMessage", {**SAMPLE_PARAMS, "includeContext": "allServers"}, "sampling.context"),
    ],
)
def test_a_raw_request_asks_no_part_of_a_capability_that_the_client_did_not_declare(method, params, part):
    server, asked = Server("asks"), []

    @server.tool
    def ask(ctx: Context) -> str:
        return str(ctx.request(method, params))

    bare = {"elicitation": asked.append, "elicitation_modes": ["form"], "sampling": asked.append}
    with connect(server, **for_connect(revision="2025-11-25", **bare)) as client:
        said = client.call_tool("ask")
    assert (said.is_error, said.text) == (
        True,
        f"{method}: the client did not declare the capability {part}",
    )
    assert asked == []


@pytest.mark.parametrize(
    ("date", "method", "params"),
    [
        ("2025-11-25", "elicitation/create", URL_PARAMS),
        ("2025-11-25", "sampling/createMessage", {**SAMPLE_PARAMS, "tools": [], "includeContext": "none"}),
        ("2025-11-25", "sampling/createMessage", {**SAMPLE_PARAMS, "includeContext": "thisServer"}),
        # There was no such part of the capability yet.
        ("2025-06-18", "sampling/createMessage", {**SAMPLE_PARAMS, "includeContext": "thisServer"}),
    ],
)
def test_a_raw_request_asks_what_the_client_declared(date, method, params):
    server, asked = Server("asks"), []

    @server.tool
    def ask(ctx: Context) -> str:
        return str(ctx.request(method, params))

    def model(request):
        asked.append(request)
        return "hello"

    full = {"elicitation": asked.append, "sampling": model}
    if date == "2025-11-25":
        full |= {"sampling_tools": True, "sampling_context": True}
    with connect(server, **for_connect(revision=date, **full)) as client:
        said = client.call_tool("ask")
    assert not said.is_error, said.text
    assert len(asked) == 1


# -- asking the client: the same call in either era (basic/patterns/mrtr) ------------------------


def asks(run):
    """A server with a tool that returns what `run(ctx)` does, and a client's answers to all it may ask."""
    server = Server("asks")

    @server.tool
    def ask(ctx: Context) -> str:
        return str(run(ctx))

    answers = {
        "elicitation": lambda question: (
            {"name": question.message} if question.schema.get("properties") else True
        ),
        "sampling": lambda request: request.text.upper(),
        "roots": [{"uri": "file:///a/b", "name": "B"}],
    }
    return server, answers


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ASKED = {
    "elicit": (lambda ctx: ctx.elicit("Mona", NAME).data, "{'name': 'Mona'}", "2025-06-18"),
    "confirm": (lambda ctx: ctx.confirm("Sure?"), "True", "2025-06-18"),
    "elicit_url": (lambda ctx: ctx.elicit_url("Go", "https://example.com/").action, "accept", "2025-11-25"),
    "sample": (lambda ctx: ctx.sample("hi", max_tokens=5, temperature=0.5).text, "HI", "2024-11-05"),
    "list_roots": (lambda ctx: [root["name"] for root in ctx.list_roots()], "['B']", "2024-11-05"),
    "within": (
        lambda ctx: [ctx.is_within_roots(p) for p in ("/a/b/c", "/a/c")],
        "[True, False]",
        "2024-11-05",
    ),
    "ask": (lambda ctx: ctx.ask(Sample("hi", max_tokens=5)).text, "HI", "2024-11-05"),
    "ask_all": (
        lambda ctx: [
            reply.text for reply in ctx.ask_all(Sample("a", max_tokens=5), Sample("b", max_tokens=5))
        ],
        "['A', 'B']",
        "2024-11-05",
    ),
    "once": (
        lambda ctx: (ctx.once("n", lambda: 5), ctx.sample("hi", max_tokens=5).text),
        "(5, 'HI')",
        "2024-11-05",
    ),
}


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("revision", REVISIONS)
def test_asking_the_client(what, revision):
    run, said, since = ASKED[what]
    server, answers = asks(run)
    with connect(server, **for_connect(revision=revision, **answers)) as client:
        result = client.call_tool("ask")
    assert result.is_error == (revision < since)
    assert (since in result.text) if result.is_error else result.text == said


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_no_question_is_not_asked(revision):
    server, answers = asks(lambda ctx: ctx.ask_all("Sure?"))
    with connect(server, **for_connect(revision=revision, **answers)) as client:
        assert client.call_tool("ask").text.startswith(
            "ask_all takes Elicit, ElicitUrl, Sample and ListRoots"
        )


def test_questions_that_go_together_have_the_time_that_a_person_takes(monkeypatch):
    """Whatever the last of them is: the list of roots comes at once, and the others do not."""
    timeouts = []
    request_all = Requester.request_all

    def seen(self, several, *, timeout, **options):
        timeouts.append(timeout)
        return request_all(self, several, timeout=timeout, **options)

    monkeypatch.setattr(Requester, "request_all", seen)
    questions = [Elicit("Mona", NAME), ListRoots()]
    server, answers = asks(
        lambda ctx: [ctx.ask_all(*questions), ctx.ask_all(*questions[::-1]), ctx.list_roots()]
    )
    with connect(server, **for_connect(revision="2025-11-25", **answers)) as client:
        assert not client.call_tool("ask").is_error
    assert timeouts == [FOR_PEOPLE, FOR_PEOPLE, None]


def test_a_handler_may_keep_its_own_state():
    form = {"mode": "form", "message": "Mona", "requestedSchema": NAME}
    asked = {"name": {"method": "elicitation/create", "params": form}}
    server, answers = Server("asks"), asks(None)[1]

    @server.tool
    def ask(ctx: Context):
        if ctx.request_state is None:
            assert ctx.input_responses == {}
            return {"resultType": "input_required", "inputRequests": asked, "requestState": "asked"}
        return f"{ctx.request_state}: {ctx.input_responses['name']['content']}"

    with connect(server, **for_connect(**answers)) as client:
        assert client.call_tool("ask").text == "asked: {'name': 'Mona'}"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_nothing_is_asked_for_a_request_that_was_answered(revision):
    """By a thread that a tool left behind, say."""
    kept = []
    server, answers = asks(lambda ctx: kept.append(ctx))
    with connect(server, **for_connect(revision=revision, **answers)) as client:
        client.call_tool("ask")
        with pytest.raises(LocalError, match="tools/call was answered"):
            kept[0].elicit("Sure?")


@pytest.mark.parametrize("revision", REVISIONS)
def test_in_memory_there_is_no_http_and_no_stream_to_close(revision):
    server, answers = asks(lambda ctx: (ctx.http, ctx.close_stream()))
    with connect(server, **for_connect(revision=revision, **answers)) as client:
        assert client.call_tool("ask").text == "(None, False)"


# -- tasks -------------------------------------------------------------------------------------


@pytest.fixture
def threads_that_end_soon(monkeypatch):
    """Those that run tasks."""
    monkeypatch.setattr("mcp_ref.basic.utilities.tasks.behavior_requirements.IDLE_SECONDS", 0.02)


def says(ctx):
    """What a handler can say of itself, and what of it is there."""
    ctx.status("at it")
    ctx.progress(3, 10, "rendered")
    ctx.log("info", "nobody hears this")
    return [ctx.become_task(), ctx.close_stream(), ctx.http is None]


def server_of_tasks(run, **options):
    server = Server("tasks")
    go_on = threading.Event()

    @server.tool(**options)
    def work(ctx: Context) -> list[bool]:
        said = run(ctx)
        go_on.wait(PATIENCE)
        return said

    return server, go_on


@pytest.mark.usefixtures("threads_that_end_soon")
def test_what_a_task_of_2026_07_28_reports_is_what_it_says_of_its_state():
    server, go_on = server_of_tasks(says, task="required")
    with connect(server, revision=MODERN) as client:
        task = client.start_tool("work")
        for state in task.updates(PATIENCE):
            if state.message == "rendered (3 of 10)":
                go_on.set()
        assert task.result(PATIENCE).structured == {"result": [True, False, True]}


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_an_ordinary_call_has_no_status_and_does_not_become_a_task(revision):
    server, go_on = server_of_tasks(says)
    go_on.set()
    with connect(server, revision=revision) as client:
        said = client.call_tool("work").text
        assert said == "[false,false,true]"


@pytest.mark.usefixtures("threads_that_end_soon")
def test_a_task_sends_requests_of_its_own_and_waits_for_their_results():
    def ask(ctx):
        one = ctx.request("vendor/question", {"n": 1})
        two, three = ctx.requests([("vendor/question", {"n": 2}), ("vendor/question", {"n": 3})])
        return [each["n"] > 0 for each in (one, two, three)]

    server, go_on = server_of_tasks(ask, task="required")
    go_on.set()
    asked = []
    with connect(server, revision="2025-11-25") as client:

        @client.on_request("vendor/question")
        def question(params):
            asked.append(params["n"])
            return {"n": params["n"]}

        assert client.start_tool("work").result(PATIENCE).structured == {"result": [True, True, True]}
    assert sorted(asked) == [1, 2, 3]
