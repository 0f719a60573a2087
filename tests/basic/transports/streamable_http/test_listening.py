"""basic/transports/streamable_http/listening: streams that last, and the thread that reads each."""

import logging
import threading
import time

import pytest
from http_peers import Event
from http_wire import (
    COMMENT,
    IS_MODERN,
    LATER,
    PRIMED,
    Cancels,
    Wire,
    blocks,
    closed,
    read,
    stream_on,
    style,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from peers import MODERN, PATIENCE, eventually, nothing_left
from web import JSON, opened, result_of, talking, text, web

from mcp_ref import connect
from mcp_ref.basic.index.error_responses import MethodNotFound
from mcp_ref.basic.transports.streamable_http import listening
from mcp_ref.basic.transports.streamable_http import receiving as module
from mcp_ref.basic.transports.streamable_http.receiving import EVENT_STREAM
from mcp_ref.basic.transports.streamable_http.responding import HttpStream
from mcp_ref.basic.transports.streamable_http.resumability import Log
from mcp_ref.runtime.errors import ConnectionClosed

RESUMABLE = ["2025-03-26", "2025-06-18", "2025-11-25"]
NOTE = {"jsonrpc": "2.0", "method": "notifications/note", "params": {"n": 1}}


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """A second is long for a test."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(module, "MIN_RETRY_SECONDS", 0.01)


@pytest.fixture
def log():
    return Log("tag", 1 << 20)


@pytest.fixture
def wire():
    return Wire()


# ----------------------------------------------------------------------------- who is sent what


@pytest.mark.spec(
    "basic/transports/streamable-http/one-stream-per-message",
    "basic/transports/streamable-http/no-broadcast",
)
def test_only_the_last_reader_is_sent_anything(log):
    stream = HttpStream(log=log)
    stream.send(b"1")
    first = read(stream, last_seen=0)
    assert blocks(next(first)) == [Event("1", "tag-1-1")]
    second = read(stream, last_seen=1)
    stream.send(b"2")
    assert list(first) == []
    assert blocks(next(second)) == [Event("2", "tag-1-2")]
    first.close()  # it does not take the stream along
    assert stream.reader() is second
    second.close()
    assert stream.reader() is None


@pytest.mark.spec("basic/transports/streamable-http/one-stream-per-message")
def test_who_resumes_ends_the_response_of_the_request(wire, log):
    stream = stream_on(wire, PRIMED, log)
    stream.send(b"1")
    reader = read(stream, last_seen=0)
    assert wire.is_ended
    stream.send(b"2")
    stream.answer(b"3")
    assert [event.data for event in blocks(wire.finish(stream))] == ["", "1"]
    assert [event.data for event in blocks(b"".join(reader))] == ["1", "2", "3"]


@pytest.mark.spec("basic/transports/streamable-http/replay-messages")
def test_who_comes_back_is_sent_what_comes_after_the_number_it_names(log):
    stream = HttpStream(log=log)
    for line in (b"1", b"2", b"3"):
        stream.send(line)
    stream.answer(b"4")
    for after in (0, 1, 3):
        told = [event.data for event in blocks(b"".join(read(stream, last_seen=after)))]
        assert told == ["1", "2", "3", "4"][after:]
    assert list(read(stream, last_seen=4)) == []


def test_without_a_log_what_was_sent_is_gone():
    stream = HttpStream()
    reader = read(stream)
    for line in (b"1", b"2"):
        stream.send(line)
        assert blocks(next(reader))[0].data == line.decode()
        assert len(stream.machine.events) == 0
    reader.close()
    stream.send(b"3")
    assert stream.machine.events is None


@pytest.mark.parametrize("resumed", [False, True])
def test_a_silent_stream_begins_with_a_comment_so_that_its_headers_get_out(log, resumed):
    stream = HttpStream(log=log)
    reader = read(stream, last_seen=0 if resumed else None)
    assert next(reader) == COMMENT
    stream.send(b"{}")
    assert blocks(next(reader)) == [Event("{}", "tag-1-1")]
    reader.close()


@pytest.mark.spec("basic/transports/streamable-http/sse-keep-alive")
def test_the_silence_of_a_reader_is_filled_with_comments():
    reader = read(HttpStream(style=style(keep_alive=0.02)))
    begun = time.monotonic()
    assert [next(reader) for _ in range(4)] == [COMMENT] * 4
    assert time.monotonic() - begun >= 0.06
    reader.attend(time.monotonic() + LATER)  # its own thread has seen to that
    reader.close()


def test_a_reader_sends_the_head_of_a_stream_and_then_what_there_is(wire):
    stream = HttpStream()
    reader = read(stream, wire=wire)
    assert reader.begin() is iter(reader)
    assert (wire.status, wire.headers) == ("200 OK", dict(EVENT_STREAM))
    stream.answer(b"{}")
    assert list(reader) == [b"data: {}\n\n"]
    reader.close()


@pytest.mark.parametrize("how", ["closed", "noticed"])
def test_a_reader_whose_client_left_ends_and_cancels_in_the_modern_era(wire, how):
    stream = stream_on(wire, IS_MODERN, keep_alive=PATIENCE)
    context = Cancels(stream)
    reader = read(stream, wire=wire)
    assert next(reader) == COMMENT
    (reader.close if how == "closed" else reader.client_left)()
    assert context.reasons == ["the client closed the stream"]
    assert list(reader) == []
    reader.close()
    reader.close()
    assert closed[-1:] == [reader]
    assert closed.count(reader) == 1


def test_a_request_that_lasts_is_read_by_its_own_thread(wire):
    """As subscriptions/listen is: its handler returns, and what is said later is sent all the same."""
    stream = stream_on(wire, IS_MODERN)
    reader = read(stream, wire=wire)
    stream.send(b"1")
    assert stream.finish() is reader
    stream.send(b"2")
    assert blocks(next(reader)) == [Event("1"), Event("2")]
    stream.answer(b"3")
    assert blocks(b"".join(reader)) == [Event("3")]
    reader.close()
    assert wire.headers == dict(EVENT_STREAM)


def test_a_request_that_was_to_last_and_is_refused_has_its_error_alone(wire):
    stream = stream_on(wire, IS_MODERN)
    reader = read(stream, wire=wire)
    stream.answer(b"{}", MethodNotFound("x"))
    assert wire.finish(stream) == b"{}"
    assert (wire.reply.status, wire.headers["Content-Type"]) == (404, "application/json")
    assert closed.count(reader) == 1


def test_what_fails_ends_the_reading_after_what_was_said():
    stream = HttpStream()
    reader = read(stream)
    stream.send(b"{}")
    reader.fail(ConnectionClosed("enough"))
    assert blocks(b"".join(reader)) == [Event("{}")]
    assert stream.machine.is_over


def test_events_that_come_while_the_thread_waits_are_sent_at_once():
    stream, seen = HttpStream(style=style(keep_alive=PATIENCE)), []
    reader = read(stream)
    thread = threading.Thread(target=lambda: seen.extend(reader))
    thread.start()
    for n in range(100):
        stream.send(b"%d" % n)
    stream.answer(b"last")
    thread.join(PATIENCE)
    assert [event.data for event in blocks(b"".join(seen))] == [*map(str, range(100)), "last"]
    reader.close()


# ------------------------------------------------------------------------------ coming back, often


class Client(RuleBasedStateMachine):
    """A client that loses the end of any connection, and comes back with the last id that it saw."""

    @initialize()
    def begin(self):
        self.wire, self.reader = Wire(), None
        self.stream = HttpStream(self.wire.reply, PRIMED, style(), Log("tag", 1 << 20))
        self.said, self.heard, self.seen = [], [], 0
        self.unread = b""  # what came on this connection, and was not looked at
        self.is_over = False
        self.stream.attend(time.monotonic() + LATER)
        self.hear(len(self.wire.events))

    def arrive(self):
        """What the connection brings by now."""
        if self.reader is None:
            self.unread += b"".join(self.wire.written)
            self.wire.written.clear()
            self.wire.written.append(b"")
        else:
            self.unread += next(self.reader, b"")

    def hear(self, most):
        """Look at so many of the events that came, at most."""
        self.arrive()
        found = blocks(self.unread)
        for event in found[:most]:
            self.seen = int(event.id.rpartition("-")[2])
            if event.data:
                self.heard.append(event.data)
        self.unread = b"".join(f"id: {event.id}\ndata: {event.data}\n\n".encode() for event in found[most:])
        assert self.heard == self.said[: len(self.heard)]

    @precondition(lambda self: not self.is_over)
    @rule(times=st.integers(1, 3))
    def say(self, times):
        for _ in range(times):
            self.said.append(str(len(self.said)))
            self.stream.send(self.said[-1].encode())

    @precondition(lambda self: not self.is_over)
    @rule()
    def answer(self):
        self.said.append("the answer")
        self.stream.answer(b"the answer")
        if self.reader is None and self.stream.reply is not None:
            self.wire.finish(self.stream)
        self.is_over = True

    @rule()
    def silence(self):
        self.stream.attend(time.monotonic() + LATER)

    @rule()
    def release(self):
        assert self.stream.release() or self.is_over

    @rule(most=st.integers(0, 3))
    def listen(self, most):
        self.hear(most)

    @rule()
    def leave(self):
        if self.reader is None:
            self.stream.client_left()
        else:
            self.reader.client_left()

    @rule()
    def come_back(self):
        self.unread = b""
        self.reader = read(self.stream, last_seen=self.seen)

    def teardown(self):
        if not self.is_over:
            self.answer()
        self.come_back()
        for _ in range(3):
            self.hear(len(self.said))
        assert self.heard == self.said


TestAClientHearsEverythingOnceAndInOrderHoweverOftenItComesBack = Client.TestCase
TestAClientHearsEverythingOnceAndInOrderHoweverOftenItComesBack.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)


def test_a_client_that_comes_back_while_the_handler_writes_hears_everything_once_and_in_order(wire):
    stream = HttpStream(wire.reply, PRIMED, style(keep_alive=PATIENCE), Log("tag", 1 << 24))
    stream.send(b"0")

    def speak():
        for number in range(1, 2000):
            stream.send(b"%d" % number)
        stream.answer(b"end")

    speaking = threading.Thread(target=speak)
    speaking.start()
    heard, seen = ["0"], 1
    while heard[-1] != "end":
        reader = read(stream, last_seen=seen)
        for event in blocks(next(reader, b""))[:7]:  # the rest of this connection is lost
            heard.append(event.data)
            seen = int(event.id.rpartition("-")[2])
        if seen % 2:
            reader.close()
    speaking.join(PATIENCE)
    assert heard == [*map(str, range(2000)), "end"]


@pytest.mark.parametrize("how", ["written", "read"])
def test_several_may_speak_at_once_and_the_order_of_each_is_kept(how):
    wire, heard = Wire(), []
    stream = stream_on(wire, keep_alive=PATIENCE) if how == "written" else HttpStream(style=style())
    reader = None if how == "written" else read(stream)

    def speak(who):
        for n in range(300):
            stream.send(b"%d %d" % (who, n))

    threads = [threading.Thread(target=speak, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    if reader is not None:
        while len(heard) < 1200:
            heard.extend(event.data for event in blocks(next(reader)))
    for thread in threads:
        thread.join(PATIENCE)
    stream.answer(b"end")
    heard += [event.data for event in (blocks(wire.finish(stream) if reader is None else b"".join(reader)))]
    assert heard.pop() == "end"
    for who in range(4):
        assert [line for line in heard if line.startswith(f"{who} ")] == [f"{who} {n}" for n in range(300)]
    assert len(heard) == 1200


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
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(module, "MIN_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(module, "MAX_RETRY_SECONDS", 0.01)
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
    monkeypatch.setattr(module, "MAX_SILENT_SECONDS", 4.0)  # long before a busy server is late by it
    begun = []

    def handle(request, wire):
        if request.method != "GET":
            wire.answer(202)
            return
        begun.append((time.monotonic(), request.headers.get("last-event-id")))
        wire.stream()
        wire.event(id=f"e{len(begun)}")
        for _ in range(2):
            if wire.site.over.wait(0.8):
                return
            wire.chunk(b":\n\n")
        wire.gone()

    with talking(handle, "2025-11-25", get=True):
        assert eventually(lambda: len(begun) == 2)
    (first, no_id), (second, its_id) = begun
    assert second - first > 5.5, "comments are signs of life"
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
            assert {changes.next(PATIENCE).kind, changes.next(PATIENCE).kind} == {"tools", "resource"}
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
    monkeypatch.setattr(module.Following, "_reopen", lambda self, exchange: 1 / 0)
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
    monkeypatch.setattr(module, "MAX_SILENT_SECONDS", 0.2)

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
    monkeypatch.setattr(module, "MAX_SILENT_SECONDS", 0.05)

    def handle(request, wire):
        wire.stream()
        wire.site.over.wait(0.3)
        wire.event(result_of(request, text("x")))
        wire.end()

    with talking(handle) as (_site, client):
        assert client.submit("tools/call", {"name": "a"}).result(PATIENCE).text == "x"


@pytest.mark.parametrize("status", [200, 405, 503])
def test_no_request_overtakes_the_get_of_what_belongs_to_no_request(status, monkeypatch):
    """A server may deliver what it says meanwhile on the wrong stream, or nowhere."""
    monkeypatch.setattr(listening, "MAX_ANSWER_SECONDS", PATIENCE)
    order = []

    def handle(request, wire):
        if request.method == "GET":
            time.sleep(0.1)  # a busy server
            order.append("answered")
            if status == 200:
                wire.stream()
                wire.gone()
            else:
                wire.answer(status)
        else:
            order.append(request.rpc)
            wire.result(request, text("x"))

    with talking(handle, "2025-11-25", get=True) as (_site, client):
        client.call_tool("a")
        assert order[:2] == ["answered", "tools/call"]


def test_a_get_that_is_not_answered_is_waited_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(listening, "MAX_ANSWER_SECONDS", 0.05)

    def handle(request, wire):
        if request.method == "GET":
            wire.gone()
        else:
            wire.result(request, text("x"))

    with talking(handle, "2025-11-25", get=True) as (_site, client):
        assert client.call_tool("a").text == "x"
