"""basic/transports/streamable_http/receiving: what a response is and becomes, and where what is said goes."""

import contextlib
import inspect
import json
import logging
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from http_peers import Event, Peer, endpoint, read_event
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from peers import MODERN, PATIENCE, eventually, nothing_left
from web import JSON, STREAM, opened, result_of, talking, text, web

from mcp_ref import Context, Limit, Server, ServerOptions, connect
from mcp_ref.basic.index.error_responses import InvalidParams, InvalidRequest, MethodNotFound, TooManyRequests
from mcp_ref.basic.index.general_fields import InvalidMeta, MissingRequiredClientCapability
from mcp_ref.basic.patterns.index.context import Arrival
from mcp_ref.basic.transports.streamable_http import receiving
from mcp_ref.basic.transports.streamable_http import receiving as module
from mcp_ref.basic.transports.streamable_http.receiving import (
    EVENT_STREAM,
    TRANSITIONS,
    AnswerStyle,
    EventReader,
    HttpStream,
    Kind,
    State,
)
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS, HeaderMismatch
from mcp_ref.basic.transports.streamable_http.resumability import Log
from mcp_ref.basic.versioning import UnsupportedProtocolVersion
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, RequestTimeout, WriteRefused
from mcp_ref.runtime.http_server import reply as reply_module
from mcp_ref.runtime.http_server.reply import HttpReply
from mcp_ref.runtime.threads.outbox import Full

COMMENT = b":\n\n"
LATER = 1e9
"""Seconds after which any silence was long."""


class Wire:
    """Stands for a WSGI server with one request, and for what the embedded one has besides WSGI."""

    def __init__(self, *, embedded=True, **environ):
        self.environ = {"REQUEST_METHOD": "POST", "wsgi.multithread": True, **environ}
        if embedded:
            self.environ["mcp_ref.response"] = self
        self.status, self.headers, self.begun = "", {}, 0
        self.written = []
        self.is_ended = False
        self.reply = HttpReply(self.environ, self.start)

    def start(self, status, headers, exc_info=None):
        assert not self.begun or exc_info is not None
        self.begun += 1
        self.status, self.headers = status, dict(headers)
        return self.write

    def write(self, piece):
        assert not self.is_ended
        self.written.append(piece)

    @property
    def has_begun(self):
        return bool(self.written)

    def end_early(self):
        self.is_ended = True

    def finish(self, stream):
        """The handler has returned: all that was sent, to the last byte."""
        pieces = stream.finish()
        self.written.extend(pieces)
        if hasattr(pieces, "close"):
            pieces.close()
        return self.sent

    @property
    def sent(self):
        return b"".join(self.written)

    @property
    def events(self):
        return blocks(self.sent)


def blocks(data):
    """The events of some bytes, comments left out."""
    *found, end = data.decode().split("\n\n")
    assert end == ""
    return [event for event in map(read_event, found) if event != Event(comment=event.comment)]


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


@pytest.fixture
def log():
    return Log("tag", 1 << 20)


@pytest.fixture
def wire():
    return Wire()


PRIMED = Kind(primes=True)
IS_MODERN = Kind(is_modern=True)


def style(answers="auto", keep_alive=0.0, retry_ms=55, **more):
    return AnswerStyle(answers, keep_alive, retry_ms, **more)


def stream_on(wire, kind=Kind(), log=None, **options):  # noqa: B008
    return HttpStream(wire.reply, kind, style(**options), log)


def read(stream, last_seen=None, wire=None):
    """Another connection reads it from now on."""
    return EventReader(
        stream, (wire or Wire()).reply, last_seen=last_seen, on_close=lambda reader: closed.append(reader)
    )


closed: list[EventReader] = []
"""The readers that were closed."""


def test_an_event_that_was_written_is_sent_though_its_request_is_cancelled_meanwhile(wire):
    """A client may cancel as soon as it has read the event: the flag tells the handler, not this call."""
    stream = stream_on(wire)
    write, wire.write = wire.write, lambda piece: (write(piece), stream.cancel("enough"))
    wire.reply._start = lambda *head: wire.start(*head) and wire.write
    stream.send(b"1")
    assert b"data: 1" in wire.sent
    assert stream.is_over
    with pytest.raises(ConnectionClosed):
        stream.send(b"2")


# ------------------------------------------------------------------ events that follow at once


@pytest.fixture
def quick(monkeypatch, wire):
    """A stream whose events follow each other at once; `flushes` are what it asked of the attendant."""
    monkeypatch.setattr(reply_module, "HOLD_SECONDS", LATER)
    stream, flushes = stream_on(wire), []
    stream.style.flush_soon = flushes.append
    stream.send(b"1")
    return stream, flushes


def datas(wire):
    return [event.data for event in wire.events]


def test_events_that_follow_at_once_are_written_together_and_the_attendant_is_asked_once(quick, wire):
    stream, flushes = quick
    for number in (b"2", b"3"):
        stream.send(number)
    assert datas(wire) == ["1"]
    assert flushes == [stream]
    assert stream.flush_held()
    assert datas(wire) == ["1", "2", "3"]
    assert len(wire.written) == 2


@pytest.mark.parametrize("end", ["answer", "fail", "silence"])
def test_what_is_held_back_comes_before_what_follows(quick, wire, end):
    stream, _ = quick
    stream.send(b"2")
    if end == "answer":
        stream.answer(b"3")
    elif end == "fail":
        stream.fail(ConnectionClosed("enough"))
    else:
        stream.attend(time.monotonic() + LATER)
    if end == "fail":
        assert wire.is_ended
    else:
        stream.finish() if end == "silence" else wire.finish(stream)
    assert datas(wire)[:2] == ["1", "2"]
    assert wire.sent.count(b"data: 2") == 1


def test_what_is_held_back_goes_to_the_connection_that_resumes_and_to_no_other(monkeypatch, wire, log):
    monkeypatch.setattr(reply_module, "HOLD_SECONDS", LATER)
    stream = stream_on(wire, PRIMED, log)
    stream.style.flush_soon = lambda stream: None
    stream.send(b"1")
    stream.send(b"2")
    second = Wire()
    reader = read(stream, 1, second)
    assert b"data: 2" not in wire.sent
    assert wire.is_ended
    assert b"data: 2" in next(reader)
    reader.close()


def test_a_client_that_left_is_found_when_what_was_held_back_is_written(quick, wire):
    stream, _ = quick
    stream.send(b"2")

    def refuse(piece):
        raise BrokenPipeError

    stream.reply._write = refuse
    assert stream.flush_held()
    assert stream.state is State.DETACHED


def test_what_is_held_back_waits_for_a_thread_that_speaks_and_for_a_client_that_reads_nothing(quick, wire):
    stream, _ = quick
    stream.send(b"2")
    with stream._speaking:
        assert not stream.flush_held()
    stream.reply.takes_at_once = lambda: False
    assert stream.flush_held()  # it is not asked again and again, but now and then
    assert datas(wire) == ["1"]
    del stream.reply.takes_at_once
    stream.attend(time.monotonic())
    assert datas(wire) == ["1", "2"]


# ------------------------------------------------------------------------------------ the table


def in_state(state, kind=PRIMED):
    """A stream of a session in this state, its wire, and who reads it."""
    wire, reader = Wire(), None
    stream = HttpStream(wire.reply, kind, style(), Log("tag", 1 << 20))
    if state in (State.EVENTS, State.DETACHED, State.RESUMED, State.OVER):
        stream.send(b"1")
    if state is State.DETACHED:
        stream.client_left()
    elif state is State.RESUMED:
        reader = read(stream, last_seen=0)
    elif state in (State.JSON, State.OVER):
        stream.answer(b"end")
    assert stream.state is state
    return stream, wire, reader


HAPPEN = {
    "say": lambda stream, reader: stream.send(b"2"),
    "answer": lambda stream, reader: stream.answer(b"2"),
    "silence": lambda stream, reader: stream.attend(time.monotonic() + LATER),
    "client_left": lambda stream, reader: (reader or stream).client_left(),
    "release": lambda stream, reader: stream.release(),
    "resume": lambda stream, reader: read(stream, last_seen=0),
    "fail": lambda stream, reader: stream.fail(ConnectionClosed("enough")),
}
CELLS = [(state, event) for state in State for event in HAPPEN]
LEGAL = [cell for cell in CELLS if cell[1] in TRANSITIONS[cell[0]]]
EMPTY = [cell for cell in CELLS if cell not in LEGAL]


def named(cell):
    return cell.name if isinstance(cell, State) else str(cell)


def test_the_table_that_is_told_is_the_one_that_holds():
    """In the text of the module, to which the documentation leads."""
    lines = inspect.getdoc(receiving).splitlines()
    head = next(number for number, line in enumerate(lines) if line.strip().startswith("state \\ event"))
    events = lines[head].split()[3:]
    told = {}
    for line in lines[head + 1 : head + 1 + len(State)]:
        name, *following = line.split()
        told[State[name]] = {e: State[to] for e, to in zip(events, following, strict=True) if to != "-"}
    assert told == TRANSITIONS
    assert set(events) == set(HAPPEN)


@pytest.mark.parametrize(("state", "event"), LEGAL, ids=named)
def test_a_cell_of_the_table_leads_where_it_says(state, event):
    stream, _, reader = in_state(state)
    HAPPEN[event](stream, reader)
    assert stream.state is TRANSITIONS[state][event]


@pytest.mark.parametrize(("state", "event"), EMPTY, ids=named)
def test_an_empty_cell_raises_and_all_is_as_it_was(state, event):
    stream, wire, _ = in_state(state)
    before = wire.sent
    with (
        stream._lock,
        pytest.raises(ConnectionClosed, match=f"is {state.value}, there is no more to {event}"),
    ):
        stream._after(event)
    assert (stream.state, wire.sent) == (state, before)


@pytest.mark.parametrize("event", ["say", "answer"])
@pytest.mark.parametrize("state", [State.JSON, State.OVER], ids=named)
def test_after_the_end_there_is_nothing_more_to_say(state, event):
    stream, wire, _ = in_state(state)
    with pytest.raises(ConnectionClosed):
        HAPPEN[event](stream, None)
    assert stream.state is state
    wire.finish(stream)
    assert b"data: 2" not in wire.sent and wire.sent != b"2"


def test_who_speaks_after_a_failure_is_told_the_first_reason():
    stream, _, _ = in_state(State.EVENTS)
    stream.fail(ConnectionClosed("the first reason"))
    stream.fail(ConnectionClosed("another"))
    with pytest.raises(ConnectionClosed, match="the first reason"):
        stream.send(b"2")
    with pytest.raises(ConnectionClosed, match="the first reason"):
        stream.answer(b"2")


def test_a_stream_without_a_request_waits_for_a_client():
    """As that of a GET does."""
    stream = HttpStream()
    assert stream.state is State.DETACHED
    stream.send(b"nobody can come for it")
    reader = read(stream)
    stream.send(b"1")
    assert blocks(next(reader)) == [Event("1")]
    reader.close()


# ----------------------------------------------------------------------------- what response it is


@pytest.mark.spec("basic/transports/streamable-http/request-json-or-sse")
@pytest.mark.parametrize(
    ("answers", "kind", "expected"),
    [
        ("auto", Kind(), "application/json"),
        ("auto", Kind(likes_events=True), "text/event-stream"),
        ("json", Kind(is_mute=True), "application/json"),
        ("stream", Kind(likes_events=True), "text/event-stream"),
    ],
)
def test_an_answer_alone_is_json_unless_a_setting_or_its_client_says_otherwise(wire, answers, kind, expected):
    stream = stream_on(wire, kind, answers=answers)
    stream.answer(b'{"id":1}')
    assert stream.is_result == (expected == "application/json")
    data = wire.finish(stream)
    assert (wire.status, wire.headers["Content-Type"]) == ("200 OK", expected)
    assert b'{"id":1}' in data
    assert int(wire.headers["Content-Length"]) == len(data)
    assert wire.begun == 1


@pytest.mark.spec("basic/transports/streamable-http/request-json-or-sse")
def test_an_answer_that_is_all_there_is_to_say_is_not_kept(wire, log):
    stream = stream_on(wire, PRIMED, log)
    stream.answer(b"{}")
    assert (wire.finish(stream), stream.name, log.streams()) == (b"{}", "", [])


def test_an_answer_that_becomes_an_event_is_kept_as_one(wire, log):
    stream = stream_on(wire, Kind(likes_events=True, primes=True), log)
    stream.answer(b"2")
    wire.finish(stream)
    assert wire.events == [Event("", "tag-1-0", retry="55"), Event("2", "tag-1-1")]
    assert log.find("tag-1-0") == (stream, 0)


@pytest.mark.spec("basic/transports/streamable-http/sse-terminates-after-response")
def test_what_is_said_is_written_at_once_and_the_answer_is_the_last_event(wire):
    stream = stream_on(wire)
    stream.send(b'{"n":1}\n')
    assert wire.events == [Event('{"n":1}')]
    stream.send(b'{"n":2}')
    assert wire.events[1:] == [Event('{"n":2}')]
    stream.answer(b'{"n":3}\n')
    wire.finish(stream)
    assert wire.events == [Event(f'{{"n":{n}}}') for n in (1, 2, 3)]
    assert (wire.status, "Content-Length" in wire.headers) == ("200 OK", False)
    assert (stream.reply, stream.context) == (None, None), "what is kept is what was said"


@pytest.mark.spec("basic/transports/streamable-http/x-accel-buffering")
def test_the_headers_of_a_stream_keep_proxies_from_holding_it_back(wire):
    stream_on(wire).send(b"1")
    assert wire.headers == dict(EVENT_STREAM)
    assert wire.headers == {
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }


def test_a_mute_stream_says_nothing_but_the_answer(wire):
    stream = stream_on(wire, Kind(is_mute=True))
    stream.send(b"1")
    stream.attend(time.monotonic() + LATER)
    assert not stream.two_way
    assert not stream.release()
    stream.answer(b"2")
    assert wire.finish(stream) == b"2"


@pytest.mark.parametrize(
    ("problem", "modern", "status"),
    [
        (MethodNotFound("x"), True, 404),
        (MethodNotFound("x"), False, 200),
        (InvalidParams("x"), True, 200),
        (TooManyRequests("x", 2.6), True, 429),
        (TooManyRequests("x", 2.6), False, 200),
    ],
)
@pytest.mark.parametrize("likes_events", [False, True])
def test_an_error_alone_has_its_status_in_the_modern_era(wire, problem, modern, status, likes_events):
    stream = stream_on(wire, Kind(is_modern=modern, likes_events=likes_events))
    stream.answer(b"{}", problem)
    assert not stream.is_result
    wire.finish(stream)
    assert wire.reply.status == status
    assert (wire.headers["Content-Type"] == "application/json") == (not likes_events or status != 200)


@pytest.mark.parametrize(("seconds", "told"), [(0.1, "1"), (1.2, "1"), (2.6, "3")])
def test_who_asks_too_often_is_told_when_to_come_back(wire, seconds, told):
    stream = stream_on(wire, IS_MODERN)
    stream.answer(b"{}", TooManyRequests("x", seconds))
    wire.finish(stream)
    assert wire.headers["Retry-After"] == told


def test_an_error_after_something_was_said_is_the_last_event(wire):
    stream = stream_on(wire, IS_MODERN)
    stream.send(b"1")
    stream.answer(b"2", MethodNotFound("x"))
    wire.finish(stream)
    assert wire.status == "200 OK"
    assert wire.events == [Event("1"), Event("2")]


def test_a_problem_is_kept_without_its_frames(wire):
    """They know the message, and the stream: together they would outlive the request."""
    try:
        raise InvalidRequest("no") from ValueError("why")
    except InvalidRequest as caught:
        problem = caught
    stream_on(wire).answer(b"{}", problem)
    assert (problem.__traceback__, problem.__cause__, problem.__context__) == (None, None, None)


@pytest.mark.spec(
    "basic/transports/streamable-http/header-failure-400",
    "basic/transports/streamable-http/version-unsupported-400",
    "basic/transports/streamable-http/method-unknown-404",
    "basic/index/missing-capability-http-400",
    "basic/index/meta-missing-field-http-400",
)
def test_the_status_of_a_modern_error():
    assert STATUS[HeaderMismatch] == STATUS[UnsupportedProtocolVersion] == 400
    assert STATUS[MissingRequiredClientCapability] == STATUS[InvalidMeta] == STATUS[InvalidRequest] == 400
    assert STATUS[MethodNotFound] == 404
    assert InvalidParams not in STATUS


@pytest.mark.spec(
    "basic/transports/streamable-http/event-id-names-stream", "basic/transports/streamable-http/event-id"
)
def test_a_stream_with_a_log_has_ids_that_name_it(log):
    for number in (1, 2):
        wire = Wire()
        stream = stream_on(wire, log=log)
        stream.send(b"{}")
        stream.answer(b"{}")
        wire.finish(stream)
        assert [event.id for event in wire.events] == [f"tag-{number}-1", f"tag-{number}-2"]


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-prime-event",
    "basic/transports/streamable-http/sse-retry-before-close",
)
@pytest.mark.parametrize("first", ["a message", "silence"])
def test_a_stream_that_primes_begins_with_an_id_and_the_time_to_wait_and_only_once(wire, log, first):
    stream = stream_on(wire, PRIMED, log)
    if first == "silence":
        stream.attend(time.monotonic() + LATER)
        assert wire.events == [Event("", "tag-1-0", retry="55")]
    stream.send(b"{}")
    assert wire.events == [Event("", "tag-1-0", retry="55"), Event("{}", "tag-1-1")]
    reader = read(stream, last_seen=0)
    stream.answer(b"[]")
    assert blocks(b"".join(reader)) == [Event("{}", "tag-1-1"), Event("[]", "tag-1-2")]


def test_the_name_and_the_opening_of_a_stream_that_has_them():
    """As the transport of 2024-11-05 has it."""
    stream = HttpStream()
    stream.event = "message"
    stream.opening = lambda: b"event: endpoint\ndata: /x\n\n"
    reader = read(stream)
    stream.send(b"{}")
    stream.answer(b"{}")
    told = Event("{}", event="message")
    assert blocks(b"".join(reader)) == [Event("/x", event="endpoint"), told, told]


def test_nothing_can_be_asked_where_one_thread_serves_all():
    assert not stream_on(Wire(**{"wsgi.multithread": False})).two_way
    assert not stream_on(Wire(), can_ask=False).two_way
    assert stream_on(Wire()).two_way
    assert HttpStream().two_way
    assert not HttpStream().is_busy


@pytest.mark.parametrize("modern", [False, True])
def test_the_context_of_a_request_learns_who_asks_and_how(wire, modern):
    stream = stream_on(wire, Kind(is_modern=modern))
    wire.reply.principal = "ann"
    context = SimpleNamespace(arrival=Arrival(stream, 1), principal=None)
    stream.begins(context)
    assert (context.arrival.environ, context.principal) == (wire.environ, "ann")
    assert (context.arrival.key is stream) == modern
    assert stream.context is context


# --------------------------------------------------------------------------- silence, and departures


def test_how_long_a_request_may_be_silent():
    assert style("auto", 15.0).silence == 15.0
    assert style("json", 15.0).silence == float("inf")
    assert style("stream", 15.0).silence == 0.0


@pytest.mark.spec("basic/transports/streamable-http/sse-keep-alive")
def test_silence_for_long_makes_a_stream_which_comments_keep_alive(wire):
    stream = stream_on(wire, keep_alive=15.0)
    now = time.monotonic()
    stream.attend(now + 14.0)
    assert wire.written == []
    stream.attend(now + 16.0)
    assert (wire.written, wire.headers) == ([COMMENT], dict(EVENT_STREAM))
    stream.attend(time.monotonic() + 14.0)
    assert wire.written == [COMMENT]
    stream.attend(time.monotonic() + 16.0)
    assert wire.written == [COMMENT, COMMENT]
    stream.answer(b"{}")
    wire.finish(stream)
    assert wire.events == [Event("{}")]


@pytest.mark.parametrize(("answers", "begins"), [("json", False), ("stream", True)])
def test_a_setting_says_whether_silence_makes_a_stream(wire, answers, begins):
    stream = stream_on(wire, answers=answers, keep_alive=15.0)
    stream.attend(time.monotonic())
    assert bool(wire.written) == begins


def test_what_is_being_written_to_is_not_silent(wire):
    stream = stream_on(wire)
    with stream._speaking:
        stream.attend(time.monotonic() + LATER)
    assert wire.written == []


def test_no_comment_waits_for_a_client_that_does_not_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                ours.send(b"x" * 65536)
        wire = Wire(**{"werkzeug.socket": ours})
        stream_on(wire).attend(time.monotonic() + LATER)
        assert wire.written == []


class Cancels:
    """Stands for the context of a request that runs: why it was cancelled."""

    def __init__(self, stream):
        self.reasons = []
        self.arrival, self.principal = Arrival(stream, 1), None
        self.connection = SimpleNamespace(responder=self)
        stream.begins(self)

    def cancel(self, context, reason):
        assert context is self
        self.reasons.append(reason)
        return True


def lost(piece):
    raise BrokenPipeError


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("noticed", ["by the attendant", "by a message", "by a comment"])
def test_a_client_that_leaves_has_cancelled_in_the_modern_era_alone(modern, noticed):
    wire = Wire(embedded=False)
    stream = stream_on(wire, Kind(is_modern=modern))
    context = Cancels(stream)
    wire.write = lost
    if noticed == "by the attendant":
        stream.client_left()
    elif noticed == "by a message":
        stream.send(b"1")
    else:
        stream.attend(time.monotonic() + LATER)
    assert stream.state is State.DETACHED
    assert context.reasons == (["the client closed the stream"] if modern else [])
    assert stream.is_wanted() is not modern
    stream.send(b"heard by no client")
    stream.client_left()
    assert len(context.reasons) == int(modern)


@pytest.mark.spec("basic/transports/streamable-http/sse-disconnect-not-cancel")
def test_with_a_log_what_was_not_sent_waits_for_another_connection(wire, log):
    stream = stream_on(wire, PRIMED, log)
    stream.send(b"1")
    stream.client_left()
    stream.send(b"2")
    stream.answer(b"3")
    assert wire.finish(stream).count(b"data: 1") == 1
    assert b"data: 2" not in wire.sent
    assert blocks(b"".join(read(stream, last_seen=1))) == [Event("2", "tag-1-2"), Event("3", "tag-1-3")]


def test_without_a_log_what_no_client_can_hear_is_dropped(wire):
    stream = stream_on(wire)
    stream.send(b"1")
    stream.client_left()
    stream.send(b"2")
    stream.answer(b"3")
    assert wire.finish(stream) == b"data: 1\n\n"
    assert stream._events is None


def test_a_request_whose_client_left_before_anything_was_said_has_an_empty_stream(wire):
    stream = stream_on(wire)
    stream.client_left()
    stream.answer(b"1")
    assert (wire.finish(stream), wire.status) == (b"", "200 OK")


# -------------------------------------------------------------------------------------- release


@pytest.mark.spec("basic/transports/streamable-http/sse-close-connection")
@pytest.mark.parametrize("says", [0, 1])
def test_a_client_is_let_go_and_the_request_goes_on(wire, log, says):
    stream = stream_on(wire, PRIMED, log)
    for _ in range(says):
        stream.send(b"1")
    assert stream.release()
    assert (wire.is_ended, stream.state) == (True, State.DETACHED)
    assert wire.events[0] == Event("", "tag-1-0", retry="55")
    assert stream.release(), "it has gone already, and will come back"
    stream.send(b"2")
    stream.answer(b"3")
    assert len(blocks(wire.finish(stream))) == 1 + says
    told = [event.data for event in blocks(b"".join(read(stream, last_seen=says)))]
    assert told == ["2", "3"]


def test_a_client_that_came_back_is_let_go_again():
    stream, _, reader = in_state(State.RESUMED)
    assert blocks(next(reader)) == [Event("1", "tag-1-1")]
    assert stream.release()
    assert list(reader) == []
    assert stream.state is State.DETACHED


def test_a_client_that_is_back_before_it_was_let_go_may_stay(log):
    """It has seen the end of its response, and the thread that ended it has not gone on yet."""
    wire, readers = Wire(), []
    stream = stream_on(wire, PRIMED, log)
    stream.send(b"1")
    resuming = threading.Thread(target=lambda: readers.append(read(stream, last_seen=1)))

    def end_early():
        if resuming.ident is None:
            resuming.start()
            assert eventually(lambda: stream.state is State.RESUMED)
        wire.is_ended = True

    wire.end_early, wire.write = end_early, wire.written.append
    assert stream.release()
    resuming.join(PATIENCE)
    stream.send(b"2")
    [reader] = readers
    assert stream.reader() is reader
    assert blocks(next(reader)) == [Event("2", "tag-1-2")]
    reader.close()


def test_only_clients_that_will_come_back_are_let_go(log):
    for kind, kept in ((Kind(), log), (Kind(is_mute=True, primes=True), log), (IS_MODERN, None)):
        wire = Wire()
        stream = stream_on(wire, kind, kept)
        assert not stream.release()
        assert (wire.begun, stream.state) == (0, State.UNDECIDED)


def test_where_a_response_cannot_be_ended_early_its_client_is_kept(log):
    wire = Wire(embedded=False)
    stream = stream_on(wire, PRIMED, log)
    assert not stream.release()
    assert stream.state is State.EVENTS
    stream.answer(b"1")
    wire.finish(stream)
    assert wire.events[1:] == [Event("1", "tag-1-1")]


@pytest.mark.parametrize("state", [State.JSON, State.OVER], ids=named)
def test_after_the_end_there_is_no_client_to_let_go(state):
    stream, wire, _ = in_state(state)
    assert not stream.release()
    assert not wire.is_ended


def test_a_client_that_has_just_gone_without_an_id_is_not_let_go(log):
    wire = Wire(embedded=False)
    wire.write = lost
    assert not stream_on(wire, PRIMED, log).release()


# ------------------------------------------------------------- the end, by another thread than the handler's


def elsewhere(do, *arguments):
    """Run it on another thread, and wait for its end."""
    thread = threading.Thread(target=do, args=arguments)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_request_that_fails_before_anything_was_said_is_503_at_once(wire, log):
    for kept in (None, log):
        wire = Wire()
        stream = stream_on(wire, PRIMED if kept else Kind(), kept)
        elsewhere(stream.fail, ConnectionClosed("enough"))
        assert (wire.reply.status, wire.is_ended) == (503, True)
        assert json.loads(wire.sent)["error"]["message"]
        assert stream.reply is None, "the attendant has no more to do for it"
        before = wire.sent
        with pytest.raises(ConnectionClosed, match="enough"):
            stream.answer(b"1")
        assert wire.finish(stream) == before


def test_a_request_that_fails_after_something_was_said_is_the_end_of_its_stream(wire, log):
    stream = stream_on(wire, PRIMED, log)
    stream.send(b"1")
    elsewhere(stream.fail, ConnectionClosed("enough"))
    assert wire.is_ended
    assert [event.data for event in wire.events] == ["", "1"]
    before = wire.sent
    assert wire.finish(stream) == before


@pytest.mark.spec("basic/patterns/cancellation/no-response-after-cancel")
@pytest.mark.parametrize("says", [0, 1])
def test_what_is_cancelled_ends_at_once_without_an_answer(wire, log, says):
    stream = stream_on(wire, Kind(), log)
    for _ in range(says):
        stream.send(b"1")
    elsewhere(stream.cancel, "cancelled")
    assert (wire.is_ended, stream.is_over) == (True, True)
    assert (wire.status, wire.headers["Content-Type"]) == ("200 OK", "text/event-stream")
    assert [event.data for event in wire.events] == ["1"] * says
    assert stream.is_spent is not bool(says), "what was said can be had again"


def test_what_was_cancelled_where_nothing_ends_early_is_a_stream_without_an_answer():
    """There the end is written, and the client has all of it; the thread returns later."""
    wire = Wire(embedded=False)
    stream = stream_on(wire)
    elsewhere(stream.cancel, "cancelled")
    assert (wire.finish(stream), wire.status) == (b"", "200 OK")


def test_the_answer_of_another_thread_ends_the_response_at_once(wire):
    """As that of a batch may, when its last request is cancelled."""
    stream = stream_on(wire)
    elsewhere(stream.answer, b"[]")
    assert (wire.sent, wire.is_ended, wire.status) == (b"[]", True, "200 OK")
    assert wire.finish(stream) == b"[]"


def test_a_thread_that_is_blocked_in_a_write_is_cut_off():
    """Its client reads nothing, and would hold up the end for as long as it likes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire = Wire(embedded=False, **{"werkzeug.socket": ours})
        wire.write = ours.sendall
        stream = stream_on(wire, IS_MODERN)

        def write():
            with contextlib.suppress(ConnectionClosed):
                stream.send(b"x" * (64 << 20))

        writing = threading.Thread(target=write)
        writing.start()
        assert eventually(lambda: theirs.recv(1, socket.MSG_PEEK))
        begun = time.monotonic()
        stream.fail(ConnectionClosed("enough"))
        assert time.monotonic() - begun < PATIENCE
        writing.join(PATIENCE)
        assert not writing.is_alive()
        assert stream.is_over
        assert list(stream.finish()) == []


def test_a_client_that_resumes_before_its_first_event_is_out_has_no_response_of_the_request(log):
    """It may have read the event while the thread that wrote it has not gone on yet."""
    wire, readers = Wire(), []
    stream = stream_on(wire, PRIMED, log)
    resuming = threading.Thread(target=lambda: readers.append(read(stream, last_seen=1)))
    real = wire.write

    def write(piece):
        real(piece)
        if not readers and not resuming.is_alive():
            resuming.start()
            assert eventually(lambda: stream.state is State.RESUMED)

    wire.write = write
    stream.send(b"1")
    resuming.join(PATIENCE)
    assert wire.is_ended
    stream.send(b"2")
    [reader] = readers
    assert blocks(next(reader)) == [Event("2", "tag-1-2")]
    reader.close()


# --------------------------------------------------------------------------------- refused writes


def returns_none(wire):
    wire.reply = HttpReply(wire.environ, lambda *head: wire.start(*head) and None)


def raises(wire):
    def write(piece):
        raise RuntimeError("there is no write here")

    wire.write = write


def swallows(wire):
    wire.write = lambda piece: None


REFUSED = pytest.mark.parametrize("refuse", [returns_none, raises, swallows])


@REFUSED
@pytest.mark.parametrize("first", ["a message", "silence", "release"])
def test_where_nothing_can_be_written_it_is_logged_once_and_answers_are_json(refuse, first, log, caplog):
    same = style()
    for turn in range(3):
        wire = Wire()
        refuse(wire)
        stream = HttpStream(wire.reply, PRIMED, same, log)
        assert stream.two_way == (turn == 0)
        if turn == 0 and first != "silence":
            with pytest.raises(WriteRefused):
                stream.send(b"1") if first == "a message" else stream.release()
        else:
            stream.attend(time.monotonic() + LATER)
        stream.send(b"nothing comes of it")
        assert not stream.release()
        assert not stream.two_way
        stream.answer(b"{}")
        assert (wire.finish(stream), wire.status) == (b"{}", "200 OK")
        assert wire.headers["Content-Type"] == "application/json"
    assert log.streams() == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "answers are JSON alone from now on" in caplog.text


@REFUSED
@pytest.mark.parametrize("known", [False, True], ids=["not known yet", "known"])
def test_where_nothing_can_be_written_the_end_is_sent_once_the_handler_returns(refuse, known):
    wire = Wire()
    refuse(wire)
    stream = stream_on(wire)
    stream.style.can_write = not known
    elsewhere(stream.fail, ConnectionClosed("enough"))
    assert wire.sent == b""
    body = wire.finish(stream)
    assert wire.reply.status == 503
    assert int(wire.headers["Content-Length"]) == len(body) > 0


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
        assert len(stream._events) == 0
    reader.close()
    stream.send(b"3")
    assert stream._events is None


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
    assert stream.is_over


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


# ------------------------------------------------------------------------- a client that reads slowly


@pytest.fixture
def narrow(monkeypatch):
    """Room for little."""
    monkeypatch.setattr(receiving, "ROOM", 10)


def saying(stream, line=b"x" * 8):
    """A thread that has more to say, and waits for room."""
    thread = threading.Thread(target=stream.send, args=(line,))
    thread.start()
    assert eventually(lambda: stream._changed is not None)
    assert thread.is_alive()
    return thread


def test_who_has_more_to_say_waits_until_the_client_was_sent_it(narrow):
    stream = HttpStream()
    reader = read(stream)
    stream.send(b"x" * 12)
    thread = saying(stream)
    assert blocks(next(reader)) == [Event("x" * 12)]
    thread.join(PATIENCE)
    assert blocks(next(reader)) == [Event("x" * 8)]
    reader.close()


@pytest.mark.parametrize("happen", ["it leaves", "another reads"])
def test_no_thread_waits_for_a_client_that_is_gone(narrow, log, happen):
    stream = HttpStream(log=log)
    reader = read(stream)
    stream.send(b"x" * 12)
    thread = saying(stream)
    second = None
    if happen == "it leaves":
        reader.client_left()
    else:
        second = read(stream, last_seen=1)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    if second is not None:
        assert [event.id for event in blocks(next(second))] == ["tag-1-2"]


def test_a_thread_that_waits_for_room_is_told_when_the_stream_fails(narrow):
    stream, told = HttpStream(), []
    read(stream)
    stream.send(b"x" * 12)

    def say():
        try:
            stream.send(b"x" * 8)
        except ConnectionClosed as problem:
            told.append(str(problem))

    thread = threading.Thread(target=say)
    thread.start()
    assert eventually(lambda: stream._changed is not None)
    stream.fail(ConnectionClosed("enough"))
    thread.join(PATIENCE)
    assert told == ["enough"]


def test_no_thread_waits_for_ever(narrow, monkeypatch):
    stream = HttpStream()
    reader = read(stream)
    stream.send(b"x" * 100)  # the first always has room
    with pytest.raises(Full, match=r"0\.01 s"):
        stream.send(b"x" * 8, wait=0.01)
    monkeypatch.setattr(receiving, "STALL", 0.02)
    with pytest.raises(Full, match=r"0\.02 s"):
        stream.send(b"x" * 8, wait=60.0)
    with pytest.raises(Full):
        stream.send(b"x" * 8)
    stream.answer(b"x" * 8)
    assert stream.is_over  # without its answer
    assert blocks(b"".join(reader)) == [Event("x" * 100)]


def test_what_is_kept_for_later_needs_no_room(narrow, log):
    stream = HttpStream(log=log)
    for _ in range(5):
        stream.send(b"x" * 8)
    stream.answer(b"end")
    assert len(blocks(b"".join(read(stream, last_seen=0)))) == 6
    assert stream.flush(0.0)


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


# ----------------------------------------------------------------------------------- over HTTP


def test_the_last_threads_are_kept_for_calls_and_answers_over_http():
    """Four threads: two streams, a call that asks, and the answer to it, which needs the last one."""
    server = Server("demo", version="1")

    @server.tool
    def folders(ctx: Context) -> str:
        return f"{len(ctx.list_roots())} folders"

    with (
        endpoint(server, threads=4) as at,
        Peer(at.port, "2025-11-25", capabilities={"roots": {}}) as peer,
        Peer(at.port, "2025-11-25") as second,
        Peer(at.port, "2025-11-25") as third,
        peer.get(),
        second.get(),
    ):
        with third.get() as refused:
            assert refused.status == 503
            assert "2 of 4 threads are taken" in refused.json()["error"]["message"]
        with peer.call("folders") as reply:
            asked = reply.message()
            with third.ask("tools/list") as refused:
                assert refused.status == 503
            assert peer.tell({"id": asked["id"], "result": {"roots": []}}) == 202
            assert reply.answer()["result"]["content"][0]["text"] == "0 folders"
        # The thread of the call is free a moment after its answer has arrived.
        assert eventually(lambda: at.app.places.taken == 2)
        assert "tools" in third.request("tools/list")


def test_too_many_calls_at_once_are_429_with_the_time_to_come_back():
    server = Server("demo", version="1", limit=Limit(rate=0.4, burst=1))
    server.add_tool(lambda: "x", name="x")
    with endpoint(server) as at, Peer(at.port) as peer:
        assert "content" in peer.request("tools/call", {"name": "x", "arguments": {}})
        with peer.call("x") as reply:
            assert reply.status == 429
            assert reply.headers["retry-after"] in ("2", "3")
            assert reply.json()["id"]


def test_more_requests_than_may_run_and_wait_are_503():
    server = Server("demo", version="1", options=ServerOptions(workers=1, queue=0))
    begun, go = threading.Event(), threading.Event()
    server.add_tool(lambda: begun.set() or str(go.wait(PATIENCE)), name="wait")
    with endpoint(server) as at, Peer(at.port) as peer:
        first = peer.send("POST", peer.message("tools/call", {"name": "wait", "arguments": {}}))
        assert begun.wait(PATIENCE)
        for method in ("tools/call", "tools/list"):  # a list is a request like any other
            with peer.ask(method, {"name": "wait"} if method == "tools/call" else None) as reply:
                assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        with peer.ask("server/discover") as reply:  # what tells a client where it is goes on
            assert reply.status == 200
        go.set()
        assert first.response().status == 200


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_nothing_is_left_of_a_hundred_clients_that_leave(revision):
    server = Server("demo", version="1")
    left = threading.Event()

    @server.tool
    def wait(ctx: Context) -> str:
        while not ctx.cancelled and not left.wait(0.01):
            pass
        return "x"

    with endpoint(server) as at, Peer(at.port, revision) as peer:
        connections = [
            peer.send("POST", peer.message("tools/call", {"name": "wait", "arguments": {}}))
            for _ in range(100)
        ]
        assert eventually(lambda: at.app.places.taken == 100)
        for connection in connections:
            connection.reset()
        assert eventually(lambda: not at.app.attendant.watched)
        left.set()
        assert eventually(lambda: at.app.places.taken == 0)
        assert "tools" in peer.request("tools/list")


RESUMABLE = ["2025-03-26", "2025-06-18", "2025-11-25"]
NOTE = {"jsonrpc": "2.0", "method": "notifications/note", "params": {"n": 1}}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """A second is long for a test."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(module, "MIN_RETRY_SECONDS", 0.01)


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
    monkeypatch.setattr(module, "RETRY_SECONDS", default)
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
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
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
    monkeypatch.setattr(module, "MIN_RETRY_SECONDS", 0.001)

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


def test_pauses_grow_but_not_without_end_and_are_never_shorter_than_the_server_says():
    stream = module.Following(SimpleNamespace(), None, None)
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
    stream = module.Following(SimpleNamespace(), None, None)
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
    monkeypatch.setattr(module, "MAX_SILENT_SECONDS", 0.8)
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
