"""Ping (page: basic/utilities/ping), which 2026-07-28 no longer has."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from choices import for_connect
from http_peers import Peer, endpoint
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    Notes,
    RawClient,
    eventually,
    nothing_left,
    python,
    raw_server,
    source,
)

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    ErrorResponse,
    LocalError,
    RequestTimeout,
    Server,
    ServerOptions,
    connect,
)
from mcp_ref.api.client import Client
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.utilities import ping as module
from mcp_ref.basic.utilities.ping import Heartbeat
from mcp_ref.runtime.threads.timers import later
from mcp_ref.schema import Mismatch, checker, definitions, message_shapes


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def test_the_shape_exists_until_2025_11_25() -> None:
    for revision in LEGACY:
        assert "PingRequest" in definitions(revision)
    assert "PingRequest" not in definitions(MODERN)
    checker(message_shapes("2024-11-05")["PingRequest"], "2024-11-05")({"method": "ping"})
    with pytest.raises(Mismatch, match="method"):
        checker(message_shapes("2025-11-25")["PingRequest"], "2025-11-25")(
            {"jsonrpc": "2.0", "id": 1, "method": "pong"}
        )


@pytest.mark.spec("basic/utilities/ping/respond-empty", "basic/utilities/ping/either-side")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_answers_with_an_empty_result(revision: str) -> None:
    """With and without params, before initialize, between the two steps of the handshake, and after."""
    with RawClient(Server("tests")) as client:
        assert client.request("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}
        info = {"name": "raw", "version": "1"}
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        assert "result" in client.request("initialize", hello)
        assert client.request("ping")["result"] == {}
        client.notify("notifications/initialized")
        assert client.request("ping", {"_meta": {"progressToken": 1}})["result"] == {}
        client.send({"jsonrpc": "2.0", "id": "bare", "method": "ping"})
        assert client.receive() == {"jsonrpc": "2.0", "id": "bare", "result": {}}


@pytest.mark.spec("basic/utilities/ping/respond-empty", "basic/utilities/ping/either-side")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_answers_with_an_empty_result(revision: str) -> None:
    script = f"""
    open_legacy({revision!r})
    send(id="ping", method="ping")
    note(receive(""))
    note("answered")
    go_on()
    """
    notes = Notes()
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes)):
        notes.until(lambda note: note == "answered")
    assert {"jsonrpc": "2.0", "id": "ping", "result": {}} in notes.all


@pytest.mark.spec("basic/utilities/ping/respond-empty")
@pytest.mark.parametrize("revision", LEGACY)
def test_no_busy_tool_delays_a_ping(revision: str) -> None:
    """Every worker sleeps and the queue is full: the reader answers."""
    server = Server("tests", options=ServerOptions(workers=2, queue=1))
    busy = threading.Semaphore(0)

    @server.tool
    def wait(ctx: Context) -> str:
        busy.release()
        ctx.sleep(60)
        return ""

    with RawClient(server, revision=revision) as client:
        for _ in range(2):
            client.call("wait")
            assert busy.acquire(timeout=PATIENCE)
        client.call("wait")
        refused = client.call("wait")
        assert client.receive()["id"] == refused  # 429: nothing more fits
        started = time.monotonic()
        for _ in range(20):
            assert client.request("ping")["result"] == {}
        assert time.monotonic() - started < PATIENCE


@pytest.mark.spec("basic/utilities/ping/either-side")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_of_ours_pings_a_client_of_ours(revision: str) -> None:
    body = """
    @server.tool
    def ask(ctx: Context) -> dict:
        return ctx.request("ping")
    """
    with connect(python(source(body)), revision=revision, options=ClientOptions(env=ENV)) as client:
        client.ping()
        assert client.call_tool("ask").text == "{}"


@pytest.mark.spec("basic/utilities/ping/log-failures", "basic/utilities/ping/no-parameters")
@pytest.mark.parametrize("revision", LEGACY)
def test_who_pings_by_hand_decides_what_silence_means(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server answers the second ping: the connection was left as it is."""
    script = f"open_legacy({revision!r})\nreceive('ping')\nwhile True: answer(receive('ping'), {{}})"
    notes = Notes()
    with connect(raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes)) as client:
        with pytest.raises(RequestTimeout):
            client.ping(timeout=0.05)
        assert "ping failed" in caplog.text
        client.ping()
    assert notes.message("ping").keys() == {"jsonrpc", "id", "method"}


# ------------------------------------------------------------------- again and again: `ping_every`

SOON = 0.05
"""Seconds between pings; a peer that is to be missed has as long for its answer."""


def until_silent(client: Client) -> ConnectionClosed:
    """What becomes of a request to a server that says nothing any more."""
    client.asker.connection.timeout = SOON  # for pings: the handshake has all the time that it needs
    with pytest.raises(ConnectionClosed) as lost:
        client.request("vendor/wait", timeout=6 * PATIENCE)
    return lost.value


@pytest.mark.spec(
    "basic/utilities/ping/periodic",
    "basic/utilities/ping/log-failures",
)
@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_process_that_stops_answering_is_ended(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers one ping and then none. The process goes, though nobody has closed the client."""
    notes = Notes()
    script = f"open_legacy({revision!r})\nanswer(receive('ping'), {{}})\nwhile True: receive()"
    with connect(
        raw_server(script), revision=revision, options=ClientOptions(on_stderr=notes, ping_every=SOON)
    ) as client:
        notes.message("ping")
        lost = until_silent(client)
        assert "did not answer a ping within 0.05 s" in str(lost)
        assert "ping failed: the peer did not answer a ping" in caplog.text
        with pytest.raises(ConnectionClosed, match="did not answer a ping"):
            client.list_tools()
        assert eventually(lambda: client_has_no_child(client))


def client_has_no_child(client: Client) -> bool:
    line: Any = client.asker.line
    return line.link.process.poll() is not None


@pytest.mark.spec(
    "basic/utilities/ping/periodic",
    "basic/utilities/ping/timeout-suits-network",
    "basic/utilities/ping/no-parameters",
    "basic/utilities/ping/stale-connection",
)
@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_on_stdio_leaves_a_client_that_stops_answering(revision: str) -> None:
    options = f"options=ServerOptions(ping_every={SOON}, timeout={SOON})"
    with RawClient(python(source("", options=options)), revision=revision) as client:
        assert client.receive() == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        with pytest.raises(EOFError):
            client.receive()
        assert client.wait() == 0
    assert "did not answer a ping within 0.05 s" in "\n".join(client.stderr)


@pytest.mark.spec("basic/utilities/ping/periodic", "basic/utilities/ping/frequency-configurable")
@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_that_answers_stays(revision: str) -> None:
    server = Server("tests", options=ServerOptions(ping_every=SOON, timeout=6 * PATIENCE))
    with RawClient(server, revision=revision) as client:
        for _ in range(3):
            ping = client.until(lambda message: message.get("method") == "ping")
            client.send({"jsonrpc": "2.0", "id": ping["id"], "result": {}})
        assert client.request("ping")["result"] == {}


@pytest.mark.spec("basic/utilities/ping/stale-connection")
def test_a_server_in_this_process_leaves_a_client_that_stops_answering() -> None:
    with RawClient(
        Server("tests", options=ServerOptions(ping_every=SOON, timeout=SOON)), revision=LEGACY[-1]
    ) as client:
        assert client.receive()["method"] == "ping"
        with pytest.raises(EOFError):
            client.receive()


def test_an_error_is_a_sign_of_life() -> None:
    server = Server("tests", options=ServerOptions(ping_every=SOON, timeout=6 * PATIENCE))
    with RawClient(server, revision=LEGACY[-1]) as client:
        for _ in range(2):
            ping = client.until(lambda message: message.get("method") == "ping")
            error = {"code": -32601, "message": "what is that?"}
            client.send({"jsonrpc": "2.0", "id": ping["id"], "error": error})
        assert client.request("ping")["result"] == {}


@pytest.mark.spec("basic/utilities/ping/no-excess")
@pytest.mark.parametrize("revision", LEGACY)
def test_no_second_ping_goes_before_the_first_is_answered(revision: str) -> None:
    script = f"""
    open_legacy({revision!r})
    held = receive()
    answer(receive(), {{}})
    answer(held, {{}})
    answer(receive(), {{}})
    go_on({{}})
    """
    notes = Notes()
    options = {"on_stderr": notes, "revision": revision, "timeout": 6 * PATIENCE}
    with connect(raw_server(script), **for_connect(ping_every=SOON, **options)) as client:
        notes.message("ping")
        passed = threading.Event()
        later(5 * SOON, passed.set)  # enough for others, if others there were
        assert passed.wait(PATIENCE)
        client.request("vendor/x")
        notes.until(lambda note: [m["method"] for m in notes.all].count("ping") > 1)
    methods = [note["method"] for note in notes.all]
    assert methods[methods.index("ping") :][:3] == ["ping", "vendor/x", "ping"]


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_nothing_is_pinged_unless_it_was_asked_for_and_never_in_2026_07_28(revision: str) -> None:
    given = SOON if revision == MODERN else None
    made: list[Connection] = []

    class Noted(Server):
        def attach(self, *options: Any, **more: Any) -> Connection:
            made.append(super().attach(*options, **more))
            return made[-1]

    with connect(
        Noted("tests", options=ServerOptions(ping_every=given)),
        revision=revision,
        options=ClientOptions(ping_every=given),
    ) as client:
        client.ping()
        assert [side.heartbeat for side in (client.asker.connection, *made)] == [None, None]


@pytest.mark.parametrize("odd", [0, -1, "5", True, float("nan")])
def test_the_seconds_between_pings_are_more_than_none(odd: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="ping_every"):
        Server("tests", options=ServerOptions(ping_every=odd))
    with pytest.raises((TypeError, ValueError), match="ping_every"):
        connect(Server("tests"), options=ClientOptions(ping_every=odd))


# ------------------------------------------------------------------------------- over HTTP


@pytest.mark.spec("basic/utilities/ping/stale-connection", "basic/utilities/ping/periodic")
@pytest.mark.parametrize("revision", LEGACY[1:])
def test_over_http_a_session_counts_as_lost_when_its_client_stops_answering(revision: str) -> None:
    server = Server("tests", options=ServerOptions(ping_every=SOON, timeout=SOON))
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        with peer.get() as stream:
            assert (stream.message() or {})["method"] == "ping"
            assert stream.message() is None  # the stream ends
        with peer.ask("tools/list") as reply:
            assert reply.status == 404
        assert len(at.app.sessions) == 0


@pytest.mark.parametrize("revision", LEGACY[1:])
def test_over_http_a_client_that_answers_stays(revision: str) -> None:
    server = Server("tests", options=ServerOptions(ping_every=SOON, timeout=6 * PATIENCE))
    with endpoint(server) as at, Peer(at.port, revision) as peer, peer.get() as stream:
        for _ in range(3):
            ping = stream.message() or {}
            assert ping["method"] == "ping"
            assert peer.tell({"id": ping["id"], "result": {}}) == 202
        assert peer.request("ping") == {}


@pytest.mark.parametrize("revision", LEGACY[1:])
def test_over_http_nothing_is_missed_of_a_client_without_a_get_stream(revision: str) -> None:
    """There is no way for a ping to it: beats go by, and the session stays."""
    server = Server("tests", options=ServerOptions(ping_every=SOON, timeout=SOON))
    with endpoint(server) as at, Peer(at.port, revision, opens=False) as peer:
        peer.initialize()
        (session,) = at.app.sessions.all()
        looked, looks = threading.Semaphore(0), session.connection.listener

        def listener() -> object:
            looked.release()
            return looks()

        session.connection.listener = listener
        for _ in range(3):
            assert looked.acquire(timeout=PATIENCE)
        assert not session.connection.waiting
        assert peer.request("ping") == {}
        with peer.get() as stream:  # and now there is
            assert (stream.message() or {})["method"] == "ping"


def test_over_http_a_get_stream_that_went_while_a_ping_was_under_way_says_nothing() -> None:
    server = Server("tests", options=ServerOptions(ping_every=SOON, timeout=SOON))
    with endpoint(server) as at, Peer(at.port, "2025-11-25", opens=False) as peer:
        peer.initialize()
        (session,) = at.app.sessions.all()
        streams = iter([object(), object()])  # when the ping goes, and when no answer has come
        looked = threading.Semaphore(0)

        def listener() -> object:
            looked.release()
            return next(streams, None)

        session.connection.listener = listener
        for _ in range(3):
            assert looked.acquire(timeout=PATIENCE)
        assert not session.connection.waiting
        assert peer.request("ping") == {}


@pytest.mark.spec("basic/utilities/ping/stale-connection", "basic/utilities/ping/periodic")
@pytest.mark.parametrize("revision", LEGACY)
def test_over_http_the_connection_to_a_server_that_stops_answering_is_ended(revision: str) -> None:
    """Of 2024-11-05 by way of HTTP+SSE."""
    server, go = Server("tests"), threading.Event()

    @server.on_request("ping")
    def hang(params: dict[str, object]) -> dict[str, object]:
        go.wait(6 * PATIENCE)
        return {}

    @server.on_request("vendor/wait")
    def wait(params: dict[str, object]) -> dict[str, object]:
        go.wait(6 * PATIENCE)
        return {}

    path = "sse" if revision == "2024-11-05" else "mcp"
    with endpoint(server, sse_path="/sse") as at:
        try:
            url = f"http://127.0.0.1:{at.port}/{path}"
            with connect(url, revision=revision, options=ClientOptions(ping_every=SOON)) as client:
                lost = until_silent(client)
                assert "did not answer a ping within 0.05 s" in str(lost)
                with pytest.raises(ConnectionClosed, match="did not answer a ping"):
                    client.request("vendor/x")
        finally:
            go.set()


def test_over_http_a_ping_waits_for_no_room_that_calls_have_taken() -> None:
    """As many calls are under way as may be: a ping goes beside them, and the server is not lost."""
    server, go = Server("tests", options=ServerOptions(workers=200)), threading.Event()

    @server.tool
    def wait() -> str:
        go.wait(6 * PATIENCE)
        return "done"

    with (
        endpoint(server) as at,
        connect(
            f"http://127.0.0.1:{at.port}/mcp",
            revision="2025-11-25",
            timeout=6 * PATIENCE,
            options=ClientOptions(ping_every=SOON),
        ) as client,
    ):
        pinged = threading.Semaphore(0)
        connection = client.asker.connection
        listener, connection.listener = connection.listener, lambda: pinged.release() or listener()
        calls = [client.submit("tools/call", {"name": "wait"}) for _ in range(100)]
        for _ in range(5):  # each ping goes after the one before was answered
            assert pinged.acquire(timeout=PATIENCE)
        go.set()
        assert {call.result(6 * PATIENCE).text for call in calls} == {"done"}


@pytest.mark.spec("basic/utilities/ping/stale-connection")
def test_over_http_and_sse_a_session_counts_as_lost_too() -> None:
    """The transport of 2024-11-05."""
    server = Server("tests", options=ServerOptions(ping_every=SOON, timeout=SOON))
    with (
        endpoint(server, sse_path="/sse") as at,
        Peer(at.port, "2024-11-05", path="/sse", opens=False) as peer,
        peer.get() as stream,
    ):
        opening = stream.event()
        assert opening is not None
        posts = opening.data
        hello = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        for message in (
            peer.message("initialize", hello),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
        ):
            with peer.post(message, path=posts) as reply:
                assert reply.status == 202
        assert "result" in (stream.message() or {})
        assert (stream.message() or {})["method"] == "ping"
        assert stream.message() is None  # the stream ends


def test_2026_07_28_has_no_ping_and_a_client_asks_discover() -> None:
    """It tells as much."""
    with RawClient(Server("tests"), revision=MODERN) as client:
        assert client.request("ping")["error"]["code"] == -32601
    notes = Notes()
    with connect(raw_server("open_modern()\ngo_on()"), options=ClientOptions(on_stderr=notes)) as ours:
        ours.ping()
    assert [m["method"] for m in notes.all] == ["server/discover", "server/discover"]


# ----------------------------------------------------------------------------- one step at a time


class Silent:
    """A connection as a Heartbeat sees it, on which everything happens when the test says so."""

    timeout = 7.0
    failure = None

    def __init__(self) -> None:
        self.heard_on: object | None = self
        self.pings: list[Any] = []
        self.refusal: Exception | None = None

    def listener(self) -> object | None:
        return self.heard_on

    def call(self, method: str, *, on_done: Any, prepare: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.pings.append(on_done)
        prepare("the call")

    def forget(self, call: Any) -> bool:
        return True


class Answer:
    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome


class Steps:
    """A Heartbeat whose timers run when `pass_time` says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.due: list[tuple[float, Any]] = []
        self.lost: list[str] = []
        self.over = threading.Event()
        self.connection: Any = Silent()
        monkeypatch.setattr(module, "later", self._later)
        self.heartbeat = Heartbeat(self.connection, 3.0, self._lose)
        self.heartbeat.start()

    def _later(self, seconds: float, run: Any) -> Any:
        self.due = [(seconds, run)]
        return self

    def cancel(self) -> None:
        self.due = []

    def _lose(self, reason: str) -> None:
        self.lost.append(reason)
        self.over.set()

    def pass_time(self) -> float:
        """The next timer goes off, and what it has a thread do is done."""
        [(seconds, run)] = self.due
        self.due = []
        run()
        for thread in threading.enumerate():
            if thread.name == "mcp_ref ping":
                thread.join(PATIENCE)
        return seconds


def test_a_ping_that_cannot_be_sent_goes_after_the_next_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    steps.connection.refusal = LocalError("not now")
    assert steps.pass_time() == 3.0
    steps.connection.refusal = None
    assert steps.pass_time() == 3.0
    assert len(steps.connection.pings) == 1
    assert steps.due[0][0] == 7.0, "now an answer is due"


def test_where_nothing_would_bring_a_ping_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    steps.connection.heard_on = None
    for _ in range(3):
        assert steps.pass_time() == 3.0
    assert not steps.connection.pings
    assert not steps.lost


def test_silence_after_what_would_have_brought_the_ping_went_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = Steps(monkeypatch)
    steps.pass_time()
    steps.connection.heard_on = object()
    assert steps.pass_time() == 7.0
    assert not steps.lost
    assert steps.due[0][0] == 3.0


@pytest.mark.parametrize("outcome", [{}, ErrorResponse(-32601, "no ping here"), LocalError("odd")])
def test_any_answer_is_followed_by_a_pause(outcome: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    steps.pass_time()
    steps.connection.pings.pop()(Answer(outcome))
    assert not steps.lost
    assert steps.due[0][0] == 3.0


def test_a_ping_that_could_not_be_written_is_a_failed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    steps.pass_time()
    steps.connection.pings.pop()(Answer(RequestTimeout("the peer reads nothing")))
    assert steps.over.wait(PATIENCE)
    assert steps.lost == ["the peer reads nothing"]


def test_without_threads_the_end_of_a_connection_waits_for_the_next_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = Steps(monkeypatch)

    def no_threads(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    steps.pass_time()
    with monkeypatch.context() as within:
        within.setattr(threading.Thread, "start", no_threads)
        assert steps.pass_time() == 7.0
    assert not steps.lost
    assert steps.pass_time() == 3.0
    assert steps.pass_time() == 7.0
    assert steps.over.wait(PATIENCE)
    assert steps.lost == ["the peer did not answer a ping within 7 s"]
