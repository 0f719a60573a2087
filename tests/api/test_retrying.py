"""api/retrying: which requests are sent again, and which are not."""

import threading
import time
from contextlib import contextmanager
from email.utils import formatdate

import pytest
import requests
from peers import MODERN, PATIENCE, eventually, nothing_left, port_kept
from requests.adapters import HTTPAdapter
from web import LIMITS, opened, text, web

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    ErrorResponse,
    HttpError,
    Limit,
    MayHaveRun,
    NotReached,
    RequestTimeout,
    Retry,
    Server,
    StreamBroken,
    connect,
)
from mcp_ref.api import retrying
from mcp_ref.basic.index.error_responses import HttpFailure, RefusedByStatus
from mcp_ref.runtime.http_server.receiving import Limits
from mcp_ref.runtime.http_server.server import HttpServer
from mcp_ref.server.tools import KnownTools

OLD = "2025-11-25"
SOON = Retry(3, pause=0.01)
TOOLS = {
    "resultType": "complete",
    "tools": [
        {"name": "pay", "inputSchema": {"type": "object"}},
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "put", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
    ],
    "ttlMs": 60_000,
    "cacheScope": "private",
}
eras = pytest.mark.parametrize("revision", [OLD, MODERN])


class Failing:
    """A server that fails the first requests of a method, and answers the next."""

    def __init__(self, rpc, *faults):
        self.rpc, self.faults, self.seen = rpc, list(faults), []

    def __call__(self, request, wire):
        if request.rpc == "tools/list" and self.rpc != "tools/list":
            wire.result(request, TOOLS)
            return
        if request.rpc == self.rpc:
            self.seen.append(request.message)
            if self.faults:
                self.faults.pop(0)(request, wire)
                return
        answers = {
            "tools/list": TOOLS,
            "resources/read": {"contents": [], "ttlMs": 0, "cacheScope": "private"},
        }
        if "method" in request.message:
            wire.result(request, answers.get(request.rpc, text("done")))
        else:
            wire.answer(202)


@contextmanager
def talking(failing, revision, **options):
    """Such a server and its client."""
    options.setdefault("timeout", PATIENCE)
    usual = opened(failing, revision, "s" if revision == OLD else None)

    def handle(request, wire):
        (failing if request.rpc == "tools/list" else usual)(request, wire)

    with web(handle) as site, connect(site.url, revision=revision, **options) as client:
        yield site, client


def lose(request, wire):
    wire.close()


def begin_and_lose(request, wire):
    wire.stream()
    wire.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    wire.close()


def for_good(fault):
    """The same, and afterwards no connection can be made any more."""

    def end(request, wire):
        wire.site.shut()
        for other in wire.site.wires:
            if other is not wire:
                other.close()
        fault(request, wire)

    return end


def ask_and_leave(request, wire):
    """A question, and no server is there to take the answer."""
    wire.site.shut()
    question = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    asked = {"resultType": "input_required", "inputRequests": {"q": question}}
    wire.result(request, asked, "Connection: close")  # or the retry may go out before it is closed
    wire.close()


def status(number, *lines):
    return lambda request, wire: wire.answer(number, b"", *lines)


def call(client, name="pay"):
    client.list_tools()
    return client.call_tool(name).text


# -- the rule --------------------------------------------------------------------------------------


@eras
@pytest.mark.parametrize("tool", ["look", "put"])
@pytest.mark.parametrize(
    "fault", [lose, status(502), status(503), status(504)], ids=["cut", "502", "503", "504"]
)
def test_a_lost_call_of_a_tool_that_may_run_twice_is_sent_again_under_a_new_id(revision, tool, fault):
    failing = Failing("tools/call", fault, fault)
    with talking(failing, revision, retry=SOON) as (_, client):
        assert call(client, tool) == "done"
    assert len({message["id"] for message in failing.seen}) == 3


@eras
@pytest.mark.parametrize("fault", [lose, status(502), status(504)], ids=["cut", "502", "504"])
def test_a_lost_call_of_any_other_tool_may_have_run_and_is_not_sent_again(revision, fault):
    failing = Failing("tools/call", fault)
    with talking(failing, revision, retry=SOON) as (_, client):
        with pytest.raises(MayHaveRun, match=r"^tools/call: .*the server may have done it") as problem:
            call(client)
        assert problem.value.__cause__ is not None
        assert isinstance(problem.value, ConnectionClosed)
        assert call(client) == "done"
    assert len(failing.seen) == 2


def test_a_tool_of_which_nothing_is_known_is_not_believed_to_be_harmless():
    failing = Failing("tools/call", lose)
    with talking(failing, OLD, retry=SOON) as (_, client), pytest.raises(MayHaveRun):
        client.call_tool("look")
    assert len(failing.seen) == 1


@eras
@pytest.mark.parametrize(
    ("rpc", "act"),
    [
        ("tools/list", lambda client: client.list_tools()),
        ("resources/read", lambda client: client.read_resource("x:y")),
        ("ping", lambda client: client.request("ping")),
    ],
)
def test_what_only_reads_is_sent_again(revision, rpc, act):
    failing = Failing(rpc, status(502), status(502), status(502))
    with talking(failing, revision, retry=SOON) as (_, client):
        act(client)
    assert len(failing.seen) == 4


def test_a_call_of_2026_07_28_that_is_lost_with_its_stream_is_sent_again_under_a_new_id():
    failing = Failing("tools/call", begin_and_lose)
    with talking(failing, MODERN, retry=SOON) as (_, client):
        assert call(client) == "done"
    first, second = failing.seen
    assert first["id"] != second["id"]
    assert first["params"] == second["params"]


def test_without_retry_a_call_that_is_lost_with_its_stream_is_the_callers_to_repeat():
    failing = Failing("tools/call", begin_and_lose)
    with talking(failing, MODERN) as (_, client), pytest.raises(StreamBroken):
        call(client)
    assert len(failing.seen) == 1


def test_a_call_of_the_legacy_era_that_is_lost_with_its_stream_may_have_run():
    failing = Failing("tools/call", begin_and_lose)
    with talking(failing, OLD, retry=SOON) as (_, client), pytest.raises(MayHaveRun):
        call(client)
    assert len(failing.seen) == 1


@pytest.mark.parametrize(
    ("fault", "tool"), [(begin_and_lose, "pay"), (begin_and_lose, "look"), (lose, "look")]
)
def test_a_call_that_was_sent_and_then_cannot_be_sent_again_may_have_run(fault, tool):
    failing = Failing("tools/call", for_good(fault))
    with talking(failing, MODERN, retry=SOON) as (_, client):
        client.list_tools()
        with pytest.raises(
            MayHaveRun, match=r"^tools/call: no connection to .*\. It was sent before"
        ) as caught:
            client.call_tool(tool)
    assert isinstance(caught.value.__cause__, NotReached)
    assert len(failing.seen) == 1


def test_a_call_that_was_sent_and_is_turned_away_the_next_time_may_have_run():
    failing = Failing("tools/call", begin_and_lose, status(429, "Retry-After: 31"))
    with talking(failing, MODERN, retry=SOON) as (_, client), pytest.raises(MayHaveRun) as caught:
        call(client)
    assert caught.value.__cause__.status == 429


@pytest.mark.parametrize("retry", [None, SOON])
def test_a_call_of_which_the_server_asked_something_was_begun(retry):
    failing = Failing("tools/call", ask_and_leave)
    with talking(failing, MODERN, retry=retry, sampling=lambda question: "hello") as (_, client):
        with pytest.raises(MayHaveRun, match="The server had begun it before") as caught:
            client.call_tool("pay")
        assert isinstance(caught.value.__cause__, NotReached)


def test_a_future_of_which_the_server_asked_something_was_begun():
    failing = Failing("tools/call", ask_and_leave)
    with (
        talking(failing, MODERN, sampling=lambda question: "hello") as (_, client),
        pytest.raises(MayHaveRun, match="The server had begun it before"),
    ):
        client.submit_tool("pay").result(PATIENCE)


@eras
def test_a_call_that_never_left_is_not_said_to_have_run(revision):
    failing = Failing("tools/call")
    with talking(failing, revision, retry=SOON) as (site, client):
        site.shut()
        for wire in site.wires:
            wire.close()
        assert eventually(lambda: all(wire.socket.fileno() < 0 for wire in site.wires))
        with pytest.raises(ConnectionClosed) as caught:
            client.call_tool("pay")
    assert type(caught.value) is NotReached


@eras
@pytest.mark.parametrize("number", [429, 503])
def test_a_call_that_is_turned_away_is_sent_again_when_the_server_says(revision, number, monkeypatch):
    naps = []
    monkeypatch.setattr(retrying.Attempts, "_sleep", lambda self, pause, problem: naps.append(pause))
    failing = Failing("tools/call", status(number, "Retry-After: 7"), status(number, "Retry-After: 0"))
    with talking(failing, revision, retry=SOON) as (_, client):
        assert call(client) == "done"
    assert 7 <= naps[0] <= 7.7
    assert naps[1] == 0
    assert len(failing.seen) == 3


@eras
def test_a_server_that_wants_a_longer_pause_than_is_allowed_is_not_asked_again(revision):
    failing = Failing("tools/call", status(429, "Retry-After: 31"))
    with (
        talking(failing, revision, retry=SOON) as (_, client),
        pytest.raises(HttpError) as problem,
    ):
        call(client)
    assert problem.value.status == 429
    assert len(failing.seen) == 1


@eras
@pytest.mark.parametrize("number", [429, 503])
def test_a_date_to_come_back_is_waited_for_like_a_number_of_seconds(revision, number, monkeypatch):
    naps = []
    monkeypatch.setattr(retrying.Attempts, "_sleep", lambda self, pause, problem: naps.append(pause))
    date = formatdate(time.time() + 600, usegmt=True)
    failing = Failing("tools/call", status(number, f"Retry-After: {date}"))
    with talking(failing, revision, retry=Retry(1, longest=1000)) as (_, client):
        assert call(client) == "done"
    assert 600 - PATIENCE <= naps[0] <= 660


@eras
def test_a_date_that_is_further_away_than_the_longest_pause_is_the_end(revision):
    date = formatdate(time.time() + 600, usegmt=True)
    failing = Failing("tools/call", status(503, f"Retry-After: {date}"))
    with talking(failing, revision, retry=SOON) as (_, client), pytest.raises(HttpError):
        call(client)
    assert len(failing.seen) == 1


@pytest.mark.parametrize("revision", [OLD, MODERN])
def test_the_limits_of_our_own_server_are_waited_for(revision):
    server = Server("limited", limit=Limit(rate=20, burst=1))
    ran = []

    @server.tool
    def pay(n: int) -> int:
        ran.append(n)
        return n

    with connect(server, revision=revision, retry=Retry(20, pause=0.01)) as client:
        for n in range(4):
            client.call_tool("pay", {"n": n})
    assert ran == [0, 1, 2, 3]


@eras
def test_an_error_an_answer_and_a_silence_are_the_end(revision):
    def refuse(request, wire):
        wire.error(request, -32603, "no")

    def has_arrived(seconds):
        failing = Failing("tools/call", refuse, lambda request, wire: wire.gone())
        with talking(failing, revision, retry=SOON) as (_, client):
            with pytest.raises(ErrorResponse, match="no"):
                call(client, "look")
            with pytest.raises(RequestTimeout):
                client.call_tool("look", timeout=seconds)
        assert len(failing.seen) <= 2
        return len(failing.seen) == 2

    assert any(map(has_arrived, LIMITS))


@eras
def test_after_so_many_times_the_last_error_is_raised(revision):
    failing = Failing("tools/call", *[status(502)] * 9)
    with talking(failing, revision, retry=Retry(2, pause=0.01)) as (_, client):
        with pytest.raises(HttpError) as problem:
            call(client, "look")
        assert problem.value.status == 502
    assert len(failing.seen) == 3


def test_a_future_is_not_sent_again():
    failing = Failing("tools/call", lose)
    with talking(failing, MODERN, retry=SOON) as (_, client):
        client.list_tools()
        future = client.submit("tools/call", {"name": "look", "arguments": {}})
        with pytest.raises(ConnectionClosed):
            future.result(PATIENCE)
    assert len(failing.seen) == 1


# -- the connection --------------------------------------------------------------------------------


@pytest.fixture
def port():
    """Nobody listens there, but who is told to."""
    with port_kept() as kept:
        yield kept


@eras
def test_a_server_that_is_not_there_yet_is_waited_for(revision, port, monkeypatch):
    """It comes when the client has been refused, and waits."""
    server, given = Server("late"), []

    @server.tool
    def hello() -> str:
        return "hello"

    app = server.wsgi_app()

    def begin(self, pause, problem):
        assert isinstance(problem, NotReached)
        if not given:
            http = HttpServer(app, "127.0.0.1", port, Limits(100, max_body_bytes=1 << 20))
            thread = threading.Thread(target=http.serve)
            thread.start()
            given.extend([http, thread])

    monkeypatch.setattr(retrying.Attempts, "_sleep", begin)
    try:
        with connect(f"http://127.0.0.1:{port}/mcp", revision=revision, retry=Retry(1)) as client:
            assert client.call_tool("hello").text == "hello"
    finally:
        http, thread = given
        http.stop()
        app.close(0.0)
        http.close(0.5)
        thread.join(PATIENCE)


def test_a_server_that_is_not_there_at_all_is_an_error_that_says_nothing_was_sent(port):
    url = f"http://127.0.0.1:{port}/mcp"
    with nothing_left(), pytest.raises(NotReached, match="no connection to"):
        connect(url, retry=Retry(2, pause=0.01))


def test_a_command_that_ends_is_not_opened_again():
    begun = time.monotonic()
    with nothing_left(), pytest.raises(ConnectionClosed):
        options = ClientOptions(on_stderr=lambda line: None)
        connect(["false"], retry=Retry(50, pause=20), options=options)
    assert time.monotonic() - begun < 15


def test_a_client_that_is_closed_ends_the_pause(monkeypatch):
    sleeps, sleep = threading.Event(), retrying.Attempts._sleep

    def noted(self, pause, problem):
        sleeps.set()
        sleep(self, pause, problem)

    monkeypatch.setattr(retrying.Attempts, "_sleep", noted)
    failing = Failing("tools/call", status(502))
    with talking(failing, MODERN, retry=Retry(3, pause=20.0)) as (_, client):
        client.list_tools()
        outcome = []

        def ask():
            try:
                client.call_tool("look")
            except HttpError as problem:
                outcome.append(problem)

        thread = threading.Thread(target=ask)
        thread.start()
        assert sleeps.wait(PATIENCE)
        client.close()
        thread.join(PATIENCE)
    assert [problem.status for problem in outcome] == [502]


def test_a_session_whose_adapter_retries_is_refused_with_this_advice():
    session = requests.Session()
    session.mount("http://", HTTPAdapter(max_retries=3))
    with pytest.raises(ValueError, match=r"connect with retry=Retry\(5\)"):
        connect("http://127.0.0.1:9/mcp", options=ClientOptions(session=session))


# -- the words -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, -1, True, "3", 1.5])
def test_a_number_of_times_is_a_whole_number(wrong):
    with pytest.raises((TypeError, ValueError), match="times is"):
        Retry(wrong)


@pytest.mark.parametrize("name", ["pause", "longest"])
def test_pauses_are_seconds(name):
    with pytest.raises((TypeError, ValueError), match=name):
        Retry(3, **{name: -1})


@pytest.mark.parametrize("wrong", [3, True, "3", {"times": 3}])
def test_connect_takes_a_retry_and_nothing_else(wrong):
    with pytest.raises(TypeError, match=r"retry is a Retry, such as Retry\(5\)"):
        connect(Server("x"), retry=wrong)


@pytest.mark.parametrize(
    ("problem", "row"),
    [
        (NotReached("x"), "never left"),
        (StreamBroken("x"), "lost with its stream"),
        (ConnectionClosed("x"), "lost"),
        (HttpFailure(502, "x"), "lost"),
        (HttpFailure(503, "x"), "lost"),
        (HttpFailure(503, "x", retry_after=1.0), "turned away"),
        (HttpFailure(429, "x"), "turned away"),
        (HttpFailure(404, "x"), None),
        (ErrorResponse(429, "x"), "turned away"),
        (RefusedByStatus(ErrorResponse(1, "x"), 429), "turned away"),
        (ErrorResponse(-32603, "x"), None),
        (RequestTimeout("x"), None),
    ],
    ids=repr,
)
def test_what_became_of_a_request_is_a_row_of_the_table(problem, row):
    assert retrying.becomes_of(problem) == row


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        ({"retryAfterMs": 1500}, 1.5),
        ({"retryAfterMs": "1"}, None),
        ({"retryAfterMs": -1}, None),
        (None, None),
    ],
)
def test_our_own_way_to_say_when_to_come_back_is_understood(data, seconds):
    assert retrying.wanted_pause(ErrorResponse(429, "x", data)) == seconds


def test_a_hint_that_is_no_boolean_is_no_promise():
    tools = KnownTools()
    tools.store([{"name": "x", "annotations": {"readOnlyHint": "yes", "idempotentHint": 1}}], 60)
    assert not retrying.is_harmless("tools/call", {"name": "x"}, tools)
