"""Event streams as the client reads them: however they are written, wherever they break, how they go on."""

import json
import logging
import threading
import time
from types import SimpleNamespace

import pytest
from peers import MODERN, PATIENCE, eventually
from web import JSON, STREAM, opened, result_of, talking, text, web

from mcp_ref import connect
from mcp_ref.basic.errors import ConnectionClosed, InvalidResponse, RequestTimeout
from mcp_ref.basic.transports import http_client_streams as module

RESUMABLE = ["2025-03-26", "2025-06-18", "2025-11-25"]
NOTE = {"jsonrpc": "2.0", "method": "notifications/note", "params": {"n": 1}}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """A second is long for a test."""
    monkeypatch.setattr(module, "RETRY", 0.05)
    monkeypatch.setattr(module, "SOONEST", 0.01)


def raw(*pieces, pause=0.0, chunked=False):
    """A stream made of these pieces; ANSWER in one of them is the response."""

    def handle(request, wire):
        answer = json.dumps(result_of(request, text("h\u00e9llo")), ensure_ascii=False).encode()
        wire.head(200, STREAM, *(["Transfer-Encoding: chunked"] if chunked else []))
        for piece in pieces:
            (wire.chunk if chunked else wire.send)(piece.replace(b"ANSWER", answer))
            wire.site.over.wait(pause)
        if chunked:
            wire.end()
        else:
            wire.close()

    return handle


def heard(handle, revision=MODERN, **more):
    """The text of the answer, and the notifications that came before it."""
    notes = []
    more.setdefault("timeout", 5)
    with talking(handle, revision, on_notification=lambda *n: notes.append(n), **more) as (_site, client):
        answer = client.call_tool("a").text
    return answer, notes


# ------------------------------------------------------------------------------- how they are written

NOTED = json.dumps(NOTE).encode()


@pytest.mark.spec("basic/transports/streamable-http/sse-ignore-comments")
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(b"data: NOTE\n\ndata: ANSWER\n\n", id="LF"),
        pytest.param(b"data: NOTE\r\rdata: ANSWER\r\r", id="CR"),
        pytest.param(b"data: NOTE\r\n\r\ndata: ANSWER\r\n\r\n", id="CRLF"),
        pytest.param(b"data: NOTE\n\r\ndata: ANSWER\r\n\n", id="mixed line ends"),
        pytest.param(b"\xef\xbb\xbfdata: NOTE\n\ndata: ANSWER\n\n", id="BOM"),
        pytest.param(b": hello\n\n:\r\n\ndata: NOTE\n:x\n\n:\n\ndata: ANSWER\n\n", id="comments"),
        pytest.param(b"data:NOTE\n\ndata:ANSWER\n\n", id="no space"),
        pytest.param(
            b'data: {"jsonrpc": "2.0",\ndata: "method":\ndata:  "notifications/note", "params": {"n": 1}}\n\n'
            b"data: ANSWER\n\n",
            id="multi-line data",
        ),
        pytest.param(b"event: message\ndata: NOTE\n\nevent: message\ndata: ANSWER\n\n", id="named message"),
        pytest.param(
            b"event: other\ndata: NOTE\n\nevent: ping\ndata: x\n\ndata: NOTE\n\ndata: ANSWER\n\n",
            id="unknown event types",
        ),
        pytest.param(
            b"id: 1\ndata:\n\nid: 2\n\nretry: 5\n\nfoo: bar\n\ndata: NOTE\n\ndata: ANSWER\n\n", id="no data"
        ),
        pytest.param(b"data: {not json\n\ndata: 7\n\ndata: NOTE\n\ndata: ANSWER\n\n", id="no messages"),
    ],
)
def test_a_stream_is_understood_however_it_is_written(stream, chunked):
    answer, notes = heard(raw(stream.replace(b"NOTE", NOTED), chunked=chunked))
    assert (answer, notes) == ("h\u00e9llo", [("notifications/note", {"n": 1})])


def test_characters_that_are_cut_are_put_together():
    def handle(request, wire):
        wire.stream()
        answer = json.dumps(result_of(request, text("\u20ac\u00e9")), ensure_ascii=False).encode()
        for byte in b"data: " + answer + b"\n\n":
            wire.chunk(bytes([byte]))
        wire.end()

    assert heard(handle)[0] == "\u20ac\u00e9"


def test_an_event_without_its_blank_line_is_no_event():
    with pytest.raises(ConnectionClosed, match="ended without the answer"):
        heard(raw(b"data: ANSWER\n"))


def test_events_are_delivered_the_moment_they_arrive():
    """Also where nothing says how long a body is, and the server keeps it open."""
    go_on = threading.Event()

    def handle(request, wire):
        wire.head(200, STREAM)
        wire.send(b"data: " + NOTED + b"\n\n")
        assert go_on.wait(PATIENCE)
        wire.send(b"data: " + json.dumps(result_of(request, text("x"))).encode() + b"\n\n")
        wire.gone()

    with talking(handle, on_notification=lambda *note: go_on.set()) as (_site, client):
        assert client.call_tool("a").text == "x"


def test_the_answer_is_given_out_before_the_stream_has_ended():
    def handle(request, wire):
        wire.stream()
        wire.event(result_of(request, text("x")))
        wire.gone()

    with talking(handle) as (_site, client):
        start = time.monotonic()
        assert client.call_tool("a").text == "x"
        assert time.monotonic() - start < PATIENCE / 2


def test_a_huge_event_is_read_in_time():
    answer, _ = heard(lambda request, wire: _huge(request, wire, 4 << 20))
    assert len(answer) == 4 << 20


def _huge(request, wire, size):
    wire.stream()
    wire.event(result_of(request, text("x" * size)))
    wire.end()


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_an_event_beyond_the_limit_is_an_error_of_this_request_alone(revision):
    def handle(request, wire):
        _huge(request, wire, 20_000 if request.message["params"]["name"] == "huge" else 10)

    with talking(handle, revision, max_message_bytes=10_000) as (site, client):
        with pytest.raises(InvalidResponse, match="longer than 10000 bytes"):
            client.call_tool("huge")
        assert client.call_tool("small").text == "x" * 10
        assert not [r for r in site.requests if "last-event-id" in r.headers]


@pytest.mark.parametrize("piece", [b": alive\n\n", b"x"])
def test_a_deadline_holds_against_signs_of_life_and_slow_drips(piece):
    start = time.monotonic()
    with pytest.raises(RequestTimeout):
        heard(raw(*[piece] * 1000, pause=0.02), timeout=0.2)
    assert time.monotonic() - start < PATIENCE / 2


def test_progress_moves_the_deadline():
    def handle(request, wire):
        wire.stream()
        token = request.message["params"]["_meta"]["progressToken"]
        for n in range(8):
            params = {"progressToken": token, "progress": n}
            wire.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            wire.site.over.wait(0.2)
        wire.event(result_of(request, text("x")))
        wire.end()

    with talking(handle) as (_site, client):
        assert client.call_tool("a", timeout=1.2, on_progress=lambda *report: None).text == "x"


# --------------------------------------------------------------------------- how they break, and go on


def breaks(how="end", retry=None, ids=True, rest=None):
    """A stream that ends before its response; a GET brings the rest, by `rest(request, wire, answer)`."""
    answers = []

    def handle(request, wire):
        if request.method == "GET":
            if "last-event-id" not in request.headers:
                wire.answer(405)
            elif rest is None:
                wire.stream()
                wire.event(NOTE, id="b")
                wire.event(answers[-1], id="c")
                wire.end()
            else:
                rest(request, wire, answers[-1])
            return
        answers.append(result_of(request, text("late")))
        wire.stream()
        fields = {"id": "a"} if ids else {}
        wire.event(**fields, **({"retry": retry} if retry is not None else {}))
        if how == "end":
            wire.end()
        elif how == "reset":
            wire.reset()
        else:
            wire.close()

    return handle


@pytest.mark.spec(
    "basic/transports/streamable-http/resume-by-last-event-id",
    "basic/transports/streamable-http/resume-always-via-get",
    "basic/transports/streamable-http/sse-client-polls",
    "basic/transports/streamable-http/sse-disconnect-anytime",
)
@pytest.mark.parametrize("how", ["end", "close", "reset"])
@pytest.mark.parametrize("revision", RESUMABLE)
def test_a_stream_that_breaks_is_resumed_where_it_broke(revision, how):
    notes = []
    told = {"on_notification": lambda *note: notes.append(note)}
    with talking(breaks(how), revision, "s-1", get=True, **told) as (site, client):
        assert client.call_tool("a").text == "late"
        again = site.asked(lambda r: "last-event-id" in r.headers)
        assert (again.method, again.headers["last-event-id"]) == ("GET", "a")
        assert again.headers["accept"] == "text/event-stream"
        assert again.headers["mcp-session-id"] == "s-1"
        assert again.headers.get("mcp-protocol-version") == (revision if revision >= "2025-06-18" else None)
        assert len(site.of("tools/call")) == 1
    assert notes == [("notifications/note", {"n": 1})]


@pytest.mark.spec("basic/transports/streamable-http/sse-respect-retry")
@pytest.mark.parametrize(
    ("retry", "default", "least"), [(300, 2 * PATIENCE, 0.3), (0, 2 * PATIENCE, 0.0), (None, 0.2, 0.2)]
)
def test_the_server_says_how_long_to_wait(monkeypatch, retry, default, least):
    monkeypatch.setattr(module, "RETRY", default)
    with talking(breaks(retry=retry), "2025-11-25", get=True) as (_site, client):
        start = time.monotonic()
        assert client.call_tool("a").text == "late"
        assert least <= time.monotonic() - start < PATIENCE


def test_a_server_that_wants_to_be_asked_often_is_asked_often():
    count = []

    def rest(request, wire, answer):
        count.append(request.headers["last-event-id"])
        wire.stream()
        if len(count) == 9:
            wire.event(answer)
        else:
            wire.event(id=f"e{len(count)}")
        wire.end()

    with talking(breaks(retry=1, rest=rest), "2025-11-25", get=True) as (_site, client):
        assert client.call_tool("a").text == "late"
    assert count == ["a", *(f"e{n}" for n in range(1, 9))]


def test_polling_goes_no_further_than_the_deadline():
    def rest(request, wire, answer):
        wire.stream()
        wire.event(id="b")
        wire.end()

    with talking(breaks(retry=20, rest=rest), "2025-11-25", get=True) as (site, client):
        with pytest.raises(RequestTimeout):
            client.call_tool("a", timeout=0.3)
        assert len(site.of("notifications/cancelled")) == 1


@pytest.mark.spec("basic/transports/streamable-http/no-resumption")
def test_a_modern_stream_is_never_resumed():
    with talking(breaks(), MODERN, get=True) as (site, client):
        with pytest.raises(ConnectionClosed, match="tools/call: the stream ended without the answer"):
            client.call_tool("a")
        assert all(r.method == "POST" for r in site.requests)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_a_stream_that_has_no_ids_or_no_right_to_them_cannot_be_resumed(revision):
    with talking(breaks(ids=revision == "2024-11-05"), revision, get=True) as (site, client):
        with pytest.raises(ConnectionClosed, match="ended without the answer"):
            client.call_tool("a")
        assert not [r for r in site.requests if "last-event-id" in r.headers]


def _answers(status, body=b"", *lines):
    return lambda request, wire, answer: wire.answer(status, body, *lines)


@pytest.mark.parametrize(
    "rest",
    [_answers(404), _answers(405), _answers(400, b"what?"), _answers(200, b"{}", JSON), _answers(204)],
)
def test_a_server_that_does_not_know_the_stream_any_more_ends_the_call(rest):
    with (
        talking(breaks(rest=rest), "2025-11-25", "s-1", get=True) as (_site, client),
        pytest.raises(ConnectionClosed, match=r"tools/call: the stream ended .* cannot be resumed"),
    ):
        client.call_tool("a")


@pytest.mark.parametrize("fault", ["503", "429", "close"])
def test_a_server_that_is_away_for_a_moment_is_asked_again(fault):
    tries = []

    def rest(request, wire, answer):
        tries.append(1)
        if len(tries) == 3:
            wire.stream()
            wire.event(answer)
            wire.end()
        elif fault == "close":
            wire.close()
        else:
            wire.answer(int(fault))

    with talking(breaks(rest=rest), "2025-11-25", get=True) as (_site, client):
        assert client.call_tool("a").text == "late"


def test_a_server_that_stays_away_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.001)
    tries = []

    def rest(request, wire, answer):
        tries.append(1)
        wire.answer(503)

    with talking(breaks(rest=rest), "2025-11-25", get=True) as (_site, client):
        with pytest.raises(ConnectionClosed, match="ended without the answer"):
            client.call_tool("a")
        assert client.session_id is None
    assert len(tries) == module.TRIES


def test_a_stream_that_never_brings_anything_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "SOONEST", 0.001)

    def rest(request, wire, answer):
        wire.stream("X: y")
        wire.end()

    with (
        talking(breaks(retry=0, rest=rest), "2025-11-25", get=True) as (_site, client),
        pytest.raises(ConnectionClosed, match="ended without the answer"),
    ):
        client.call_tool("a")


def test_a_wait_for_the_next_try_is_ended_by_close_and_by_cancel():
    with talking(breaks(retry=30_000), "2025-11-25", get=True) as (site, client):
        first, second = (client.submit("tools/call", {"name": "a"}) for _ in range(2))
        assert eventually(lambda: len(site.of("tools/call")) == 2)
        time.sleep(0.05)
        assert first.cancel()
        start = time.monotonic()
        client.close()
        assert time.monotonic() - start < PATIENCE
        with pytest.raises(ConnectionClosed, match="was closed"):
            second.result(PATIENCE)


@pytest.mark.parametrize("begun", [True, False], ids=["during-its-stream", "before-its-answer"])
def test_a_call_whose_session_ended_meanwhile_is_lost(monkeypatch, begun):
    """The stream was one of a session that is over: nothing of it can be asked for in the next one."""
    renewed, heard = threading.Event(), threading.Event()

    def pause(exchange, seconds):
        heard.set()
        renewed.wait(PATIENCE)

    monkeypatch.setattr(module.HttpExchange, "pause", pause)
    stream = breaks()

    def handle(request, wire):
        if request.rpc == "tools/call" and request.message["params"]["name"] == "other":
            if len([r for r in wire.site.of("tools/call") if r.message["params"]["name"] == "other"]) == 1:
                wire.answer(404)
            else:
                wire.result(request, text("x"))
        else:
            if request.rpc == "tools/call" and not begun:
                assert renewed.wait(PATIENCE)
            stream(request, wire)

    sessions = iter(["s-1", "s-2"])

    def server(request, wire):
        if request.rpc == "initialize":
            opened(handle, "2025-11-25", next(sessions))(request, wire)
        else:
            opened(handle, "2025-11-25", get=True)(request, wire)

    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        lost = client.submit("tools/call", {"name": "a"})
        site.asked(lambda r: r.rpc == "tools/call")
        if begun:
            assert heard.wait(PATIENCE)
        assert client.call_tool("other").text == "x"
        renewed.set()
        with pytest.raises(ConnectionClosed, match="its session is over"):
            lost.result(PATIENCE)
        assert all("last-event-id" not in r.headers for r in site.requests if r.method == "GET")


# --------------------------------------------------------------------------------- the stream of a GET


@pytest.mark.spec(
    "basic/transports/streamable-http/get-opens-stream",
    "basic/transports/streamable-http/get-accept",
    "basic/transports/streamable-http/get-client-closes",
)
@pytest.mark.parametrize("revision", ["2024-11-05", *RESUMABLE])
def test_what_belongs_to_no_request_is_heard_on_a_stream_of_its_own(revision):
    notes, ended = [], []

    def handle(request, wire):
        if request.method == "GET":
            wire.stream()
            wire.event(NOTE)
            wire.event({"jsonrpc": "2.0", "id": "p", "method": "ping"})
            ended.append(wire.gone())
        else:
            wire.answer(202)

    got = threading.Event()
    told = {"on_notification": lambda *note: (notes.append(note), got.set())}
    with talking(handle, revision, "s-1", get=True, **told) as (site, client):
        assert got.wait(PATIENCE)
        request = site.asked(lambda r: r.method == "GET")
        assert request.headers["accept"] == "text/event-stream"
        assert request.headers["mcp-session-id"] == "s-1"
        answer = site.asked(lambda r: r.message.get("id") == "p" and "result" in r.message)
        assert answer.method == "POST"
        assert [t.name for t in threading.enumerate() if t.name == "mcp_ref stream"] == ["mcp_ref stream"]
        client.close()
        assert eventually(lambda: ended == [True])
    assert notes == [("notifications/note", {"n": 1})]


def test_there_is_none_in_the_modern_era():
    with talking(lambda request, wire: None, get=True) as (site, _client):
        pass
    assert all(r.method == "POST" for r in site.requests)


def gets(site):
    """The sessions for which a stream was asked for, in order."""
    return [r.headers.get("mcp-session-id") for r in site.requests if r.method == "GET"]


@pytest.mark.spec("basic/transports/streamable-http/session-restart-on-404")
def test_404_to_the_first_get_means_that_the_session_is_over():
    """As to any request with its id: a new one is opened, and its stream is heard."""
    sessions = iter(["s-1", "s-2"])
    heard = threading.Event()

    def handle(request, wire):
        if request.rpc == "initialize":
            opened(handle, "2025-11-25", next(sessions))(request, wire)
        elif request.method == "GET" and request.headers["mcp-session-id"] == "s-1":
            wire.answer(404)
        elif request.method == "GET":
            wire.stream()
            wire.event({"jsonrpc": "2.0", "method": "notifications/note", "params": {}})
            wire.gone()
        else:
            opened(lambda request, wire: wire.result(request, text("x")), "2025-11-25")(request, wire)

    with (
        web(handle) as site,
        connect(site.url, revision="2025-11-25", on_notification=lambda *note: heard.set()) as client,
    ):
        assert heard.wait(10)
        assert client.session_id == "s-2"
        assert client.call_tool("a").text == "x"
        assert gets(site) == ["s-1", "s-2"]


def test_404_to_the_get_of_the_new_session_as_well_means_that_there_is_no_such_stream():
    """The server has just given that id: it is the GET that it does not know. One more handshake, no loop."""
    sessions = iter(["s-1", "s-2", "s-3"])

    def handle(request, wire):
        if request.rpc == "initialize":
            opened(handle, "2025-11-25", next(sessions))(request, wire)
        elif request.method == "GET":
            wire.answer(404)
        else:
            opened(lambda request, wire: wire.result(request, text("x")), "2025-11-25")(request, wire)

    with web(handle) as site, connect(site.url, revision="2025-11-25") as client:
        assert eventually(lambda: gets(site) == ["s-1", "s-2"])
        assert eventually(lambda: not [t for t in threading.enumerate() if t.name == "mcp_ref stream"])
        assert client.call_tool("a").text == "x"
        assert client.session_id == "s-2"
        assert (gets(site), len(site.of("initialize"))) == (["s-1", "s-2"], 2)


@pytest.mark.parametrize("status", [404, 405])
def test_without_a_session_there_is_none_to_be_lost(status):
    def handle(request, wire):
        if request.method == "GET":
            wire.answer(status)
        else:
            wire.result(request, text("x"))

    with talking(handle, "2025-11-25", get=True) as (site, client):
        assert eventually(lambda: gets(site) == [None])
        assert eventually(lambda: not [t for t in threading.enumerate() if t.name == "mcp_ref stream"])
        assert client.call_tool("a").text == "x"
        assert (gets(site), len(site.of("initialize"))) == ([None], 1)


@pytest.mark.parametrize("status", [400, 401, 403, 405, 406, 200, 204, 302])
def test_a_server_without_such_a_stream_is_not_asked_again(status, caplog):
    def handle(request, wire):
        if request.method == "GET":
            wire.answer(status, b"{}", JSON)
        else:
            wire.result(request, text("x"))

    with caplog.at_level(logging.WARNING), talking(handle, "2025-11-25", "s-1", get=True) as (site, client):
        site.asked(lambda r: r.method == "GET")
        assert eventually(lambda: not [t for t in threading.enumerate() if t.name == "mcp_ref stream"])
        assert client.call_tool("a").text == "x"
        assert client.session_id == "s-1"
        assert len([r for r in site.requests if r.method == "GET"]) == 1
    assert not caplog.records


@pytest.mark.parametrize("fault", ["end", "close", "reset", "503"])
def test_a_stream_that_breaks_is_opened_again_from_where_it_broke(fault):
    got = threading.Event()
    opened_times = []

    def handle(request, wire):
        if request.method != "GET":
            wire.answer(202)
            return
        opened_times.append(request.headers.get("last-event-id"))
        if len(opened_times) == 1:
            wire.stream()
            wire.event(id="g-1", retry=10)
            if fault == "end":
                wire.end()
            elif fault == "reset":
                wire.reset()
            else:
                wire.close()
        elif fault == "503" and len(opened_times) == 2:
            wire.answer(503)
        else:
            wire.stream()
            wire.event(NOTE)
            wire.gone()

    with talking(handle, "2025-11-25", get=True, on_notification=lambda *n: got.set()) as (_site, _client):
        assert got.wait(PATIENCE)
    assert opened_times[:2] == [None, "g-1"]
    assert len(opened_times) == (3 if fault == "503" else 2)


def test_a_server_that_is_away_is_asked_for_as_long_as_the_client_lives(monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.001)
    monkeypatch.setattr(module, "SOONEST", 0.001)
    monkeypatch.setattr(module, "LONGEST", 0.01)
    got = threading.Event()

    def handle(request, wire):
        if request.method != "GET":
            wire.result(request, text("x"))
        elif len([r for r in wire.site.requests if r.method == "GET"]) < 3 * module.TRIES:
            wire.close()
        else:
            wire.stream()
            wire.event(NOTE)
            wire.gone()

    with talking(handle, "2025-11-25", get=True, on_notification=lambda *n: got.set()) as (_site, client):
        assert got.wait(PATIENCE)
        assert client.call_tool("a").text == "x"


def test_pauses_grow_but_not_without_end_and_are_never_shorter_than_the_server_says():
    stream = module.Following(SimpleNamespace(belonging=SimpleNamespace(id=None)), None, None)
    stream.retry = 1.0
    pauses = []
    for stream.failures in range(10):
        pauses.append(stream.pause)
    assert pauses == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    stream.retry = 300.0
    for stream.failures in (0, 1, 1000):
        assert stream.pause == 300.0
    stream.retry = stream.failures = 0
    pauses.clear()
    for stream.idle in (0, 1, 2, 3, 1000):
        pauses.append(stream.pause)
    assert pauses == [0.0, 0.02, 0.04, 0.08, 1.0]


@pytest.mark.parametrize("retry", [0.0, 0.001, 0.1])
@pytest.mark.parametrize("brought", ["nothing", "no message"])
def test_after_a_connection_that_brought_nothing_a_tenth_of_a_second_is_waited_at_least(
    monkeypatch, retry, brought
):
    """Whatever `retry` says: a client that hears nothing need not ask hundreds of times a second."""
    monkeypatch.undo()  # the pauses as they are
    stream = module.Following(SimpleNamespace(belonging=SimpleNamespace(id=None)), None, None)
    stream.retry, stream.idle = retry, 1
    stream.failures = 1 if brought == "nothing" else 0
    assert stream.pause == 0.1


def test_a_message_ends_the_growth_of_pauses(monkeypatch):
    """Connections that bring none are further and further apart; one that brings a message begins anew."""
    pauses, over = [], threading.Event()
    monkeypatch.setattr(module.HttpExchange, "pause", lambda exchange, seconds: pauses.append(seconds))
    brings = iter([False, False, False, True, True, False, False])

    def handle(request, wire):
        if request.method != "GET":
            wire.result(request, text("x"))
            return
        wire.stream()
        message = next(brings, None)
        if message is None:
            over.set()
            wire.gone()
            return
        wire.event(NOTE if message else None, id="x", retry=0)
        wire.end()

    with talking(handle, "2025-11-25", get=True):
        assert over.wait(PATIENCE)
        assert pauses == [0.02, 0.04, 0.08, 0.0, 0.0, 0.02, 0.04]


def test_a_server_that_closes_each_connection_at_once_does_not_keep_the_client_busy():
    def handle(request, wire):
        if request.method == "GET":
            wire.stream()
            wire.event(id="x", retry=0)
            wire.end()
        else:
            wire.result(request, text("x"))

    with talking(handle, "2025-11-25", get=True) as (site, _client):

        def gets():
            return len([r for r in site.requests if r.method == "GET"])

        assert eventually(lambda: gets() > 3)
        time.sleep(0.5)
        assert gets() < 15


def test_a_server_that_ends_each_connection_after_a_message_is_asked_ten_times_a_second():
    """Not as often as it goes, whatever `retry` says. Nothing of what it says is lost by that."""
    begun, got = [], threading.Event()

    def handle(request, wire):
        if request.method == "GET":
            begun.append(time.monotonic())
            wire.stream()
            wire.event({**NOTE, "params": {"n": len(begun)}}, id=len(begun), retry=0)
            wire.end()
        else:
            wire.result(request, text("x"))

    heard = []

    def note(method, params):
        heard.append(params["n"])
        if len(heard) == 25:
            got.set()

    with talking(handle, "2025-11-25", get=True, on_notification=note):
        assert got.wait(PATIENCE)
    assert heard[:25] == list(range(1, 26))
    assert all(later - first > 0.99 for first, later in zip(begun, begun[10:], strict=False))


@pytest.mark.parametrize("last_id", ["\u4e16\u754c", "\u00fc", "a b", "x" * 1000])
def test_any_id_can_be_resumed_from(last_id):
    seen = []

    def rest(request, wire, answer):
        seen.append(request.headers["last-event-id"].encode("latin-1").decode())
        wire.stream()
        wire.event(answer)
        wire.end()

    def handle(request, wire):
        if request.method == "POST":
            answers.append(result_of(request, text("late")))
            wire.stream()
            wire.chunk(f"id: {last_id}\ndata:\n\n".encode())
            wire.end()
        elif "last-event-id" in request.headers:
            rest(request, wire, answers[-1])
        else:
            wire.answer(405)

    answers = []
    with talking(handle, "2025-11-25", get=True) as (_site, client):
        assert client.call_tool("a").text == "late"
    assert seen == [last_id]


def test_a_stream_on_which_nothing_comes_for_long_is_opened_again(monkeypatch):
    monkeypatch.setattr(module, "SILENCE", 0.8)
    begun = []

    def handle(request, wire):
        if request.method != "GET":
            wire.answer(202)
            return
        begun.append((time.monotonic(), request.headers.get("last-event-id")))
        wire.stream()
        wire.event(id=f"e{len(begun)}")
        for _ in range(4):
            if wire.site.over.wait(0.25):
                return
            wire.chunk(b":\n\n")
        wire.gone()

    with talking(handle, "2025-11-25", get=True):
        assert eventually(lambda: len(begun) == 2)
    (first, no_id), (second, its_id) = begun
    assert second - first > 1.5, "comments are signs of life"
    assert (no_id, its_id) == (None, "e1")


def test_a_session_that_is_over_is_noticed_by_whoever_listens_only():
    sessions = iter(["s-1", "s-2"])

    def handle(request, wire):
        if request.rpc == "initialize":
            opened(handle, "2025-11-25", next(sessions))(request, wire)
        elif request.method == "GET" and request.headers["mcp-session-id"] == "s-1":
            if "last-event-id" in request.headers:
                wire.answer(404)
            else:
                wire.stream()
                wire.event(id="a", retry=1)
                over.wait(PATIENCE)
                wire.end()
        elif request.method == "GET":
            wire.stream()
            wire.gone()
        else:
            opened(lambda request, wire: wire.result(request, {}), "2025-11-25")(request, wire)

    over = threading.Event()
    with web(handle) as site, connect(site.url, revision="2025-11-25") as client:
        with client.listen(tools=True, resources=["x://a"]) as changes:
            over.set()
            assert {changes.next(5).kind, changes.next(5).kind} == {"tools", "resource"}
        assert client.session_id == "s-2"


def test_an_event_that_is_no_message_is_not_answered():
    def handle(request, wire):
        if request.rpc is None:
            wire.answer(202)
            return
        wire.stream()
        for event in (
            {},
            [],
            7,
            None,
            {"jsonrpc": "2.0", "id": [], "method": "x"},
            {"id": 1.5, "method": "y"},
        ):
            wire.event(event)
        wire.chunk(b"data: {no json\n\n")
        wire.event(result_of(request, text("x")))
        wire.end()

    with talking(handle, "2025-11-25") as (site, client):
        assert client.call_tool("a").text == "x"
        time.sleep(0.05)
        assert all(r.rpc for r in site.requests if r.method == "POST")


def test_a_stream_with_an_event_beyond_the_limit_is_given_up(caplog):
    def handle(request, wire):
        if request.method == "GET":
            wire.stream()
            wire.event({"x": "y" * 20_000})
            wire.gone()
        else:
            wire.result(request, text("x"))

    with talking(handle, "2025-11-25", get=True, max_message_bytes=10_000) as (_site, client):
        assert eventually(lambda: not [t for t in threading.enumerate() if t.name == "mcp_ref stream"])
        assert client.call_tool("a").text == "x"


def test_a_fault_of_ours_in_the_background_is_logged(caplog, monkeypatch):
    monkeypatch.setattr(module.Following, "reopen", lambda self, exchange: 1 / 0)
    with talking(lambda request, wire: wire.answer(202), "2025-11-25", get=True):
        assert eventually(lambda: "failed" in caplog.text)


def test_close_ends_many_streams_at_once_and_leaves_no_thread():
    def handle(request, wire):
        wire.stream()
        wire.chunk(b":\n\n")
        wire.gone()

    with talking(handle, "2025-11-25", get=True) as (site, client):
        pending = [client.submit("tools/call", {"name": "a"}) for _ in range(20)]
        assert eventually(lambda: len(site.of("tools/call")) == 20)
        start = time.monotonic()
        client.close()
        assert time.monotonic() - start < PATIENCE / 2
        assert eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("mcp_ref w")])
        assert all(isinstance(p.exception(PATIENCE), ConnectionClosed) for p in pending)


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_stream_without_end_that_gave_signs_of_life_is_missed_when_they_cease(revision, monkeypatch):
    monkeypatch.setattr(module, "SILENCE", 0.2)

    def handle(request, wire):
        if request.rpc == "tools/call":
            wire.stream()
            wire.chunk(b":\n\n")
            wire.gone()
        else:
            wire.answer(202)

    with talking(handle, revision) as (_site, client):
        pending = client.submit("tools/call", {"name": "a"})
        with pytest.raises(ConnectionClosed, match="ended without the answer"):
            pending.result(PATIENCE)


def test_a_stream_that_was_always_silent_may_stay_so(monkeypatch):
    monkeypatch.setattr(module, "SILENCE", 0.05)

    def handle(request, wire):
        wire.stream()
        wire.site.over.wait(0.3)
        wire.event(result_of(request, text("x")))
        wire.end()

    with talking(handle) as (_site, client):
        assert client.submit("tools/call", {"name": "a"}).result(PATIENCE).text == "x"
