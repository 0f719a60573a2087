"""basic/transports/streamable_http/responding: what a POST brings, and its response."""

import contextlib
import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from http_peers import Event, Peer, endpoint
from http_wire import (
    COMMENT,
    IS_MODERN,
    LATER,
    PRIMED,
    Cancels,
    Wire,
    blocks,
    in_state,
    read,
    stream_on,
    style,
)
from peers import META, MODERN, PATIENCE, eventually, nothing_left

import mcp_ref
from mcp_ref import Context, Limit, Server, ServerOptions
from mcp_ref.basic.index.error_responses import InvalidParams, InvalidRequest, MethodNotFound, TooManyRequests
from mcp_ref.basic.index.general_fields import InvalidMeta, MissingRequiredClientCapability
from mcp_ref.basic.patterns.index.context import Arrival
from mcp_ref.basic.transports.streamable_http import responding
from mcp_ref.basic.transports.streamable_http.http_errors import JSON as JSON_TYPE
from mcp_ref.basic.transports.streamable_http.receiving import EVENT_STREAM, TRANSITIONS, Kind, State
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS, HeaderMismatch
from mcp_ref.basic.transports.streamable_http.responding import HttpStream, accepted, refusal_body
from mcp_ref.basic.transports.streamable_http.resumability import Log
from mcp_ref.basic.transports.streamable_http.security import Refused
from mcp_ref.basic.versioning import UnsupportedProtocolVersion
from mcp_ref.runtime.errors import ConnectionClosed, WriteRefused
from mcp_ref.runtime.http_server import reply as reply_module
from mcp_ref.runtime.http_server.reply import HttpReply
from mcp_ref.runtime.threads.outbox import Full


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


def test_an_event_that_was_written_is_sent_though_its_request_is_cancelled_meanwhile(wire):
    """A client may cancel as soon as it has read the event: the flag tells the handler, not this call."""
    stream = stream_on(wire)
    write, wire.write = wire.write, lambda piece: (write(piece), stream.cancel("enough"))
    wire.reply._start = lambda *head: wire.start(*head) and wire.write
    stream.send(b"1")
    assert b"data: 1" in wire.sent
    assert stream.machine.is_over
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
    assert stream.machine.state is State.DETACHED


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


def named(cell):
    return cell.name if isinstance(cell, State) else str(cell)


@pytest.mark.parametrize(("state", "event"), LEGAL, ids=named)
def test_a_cell_of_the_table_leads_where_it_says(state, event):
    stream, _, reader = in_state(state)
    HAPPEN[event](stream, reader)
    assert stream.machine.state is TRANSITIONS[state][event]


@pytest.mark.parametrize("event", ["say", "answer"])
@pytest.mark.parametrize("state", [State.JSON, State.OVER], ids=named)
def test_after_the_end_there_is_nothing_more_to_say(state, event):
    stream, wire, _ = in_state(state)
    with pytest.raises(ConnectionClosed):
        HAPPEN[event](stream, None)
    assert stream.machine.state is state
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
    assert stream.machine.state is State.DETACHED
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
    assert (stream.machine.state is State.JSON) == (expected == "application/json")
    data = wire.finish(stream)
    assert (wire.status, wire.headers["Content-Type"]) == ("200 OK", expected)
    assert b'{"id":1}' in data
    assert int(wire.headers["Content-Length"]) == len(data)
    assert wire.begun == 1


@pytest.mark.spec("basic/transports/streamable-http/request-json-or-sse")
def test_an_answer_that_is_all_there_is_to_say_is_not_kept(wire, log):
    stream = stream_on(wire, PRIMED, log)
    stream.answer(b"{}")
    assert (wire.finish(stream), stream.machine.name, log.streams()) == (b"{}", "", [])


def test_an_answer_that_becomes_an_event_is_kept_as_one(wire, log):
    stream = stream_on(wire, Kind(likes_events=True, retry_ms=55), log)
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
    stream = HttpStream(kind=Kind(preface=b"event: endpoint\ndata: /x\n\n", event="message"))
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
    stream.attend(now + 5.0)
    assert wire.written == []
    stream.attend(now + 16.0)
    assert (wire.written, wire.headers) == ([COMMENT], dict(EVENT_STREAM))
    stream.attend(time.monotonic() + 5.0)
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
    assert stream.machine.state is State.DETACHED
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
    assert stream.machine.events is None


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
    assert (wire.is_ended, stream.machine.state) == (True, State.DETACHED)
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
    assert stream.machine.state is State.DETACHED


def test_a_client_that_is_back_before_it_was_let_go_may_stay(log):
    """It has seen the end of its response, and the thread that ended it has not gone on yet."""
    wire, readers = Wire(), []
    stream = stream_on(wire, PRIMED, log)
    stream.send(b"1")
    resuming = threading.Thread(target=lambda: readers.append(read(stream, last_seen=1)))

    def end_early():
        if resuming.ident is None:
            resuming.start()
            assert eventually(lambda: stream.machine.state is State.RESUMED)
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
    for kind, kept in ((Kind(), log), (Kind(is_mute=True, retry_ms=55), log), (IS_MODERN, None)):
        wire = Wire()
        stream = stream_on(wire, kind, kept)
        assert not stream.release()
        assert (wire.begun, stream.machine.state) == (0, State.UNDECIDED)


def test_where_a_response_cannot_be_ended_early_its_client_is_kept(log):
    wire = Wire(embedded=False)
    stream = stream_on(wire, PRIMED, log)
    assert not stream.release()
    assert stream.machine.state is State.EVENTS
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
    assert (wire.is_ended, stream.machine.is_over) == (True, True)
    assert (wire.status, wire.headers["Content-Type"]) == ("200 OK", "text/event-stream")
    assert [event.data for event in wire.events] == ["1"] * says
    assert stream.machine.is_spent is not bool(says), "what was said can be had again"


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
        assert stream.machine.is_over
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
            assert eventually(lambda: stream.machine.state is State.RESUMED)

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


# ------------------------------------------------------------------------- a client that reads slowly


@pytest.fixture
def narrow(monkeypatch):
    """Room for little."""
    monkeypatch.setattr(responding, "ROOM", 10)


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
    monkeypatch.setattr(responding, "STALL", 0.02)
    with pytest.raises(Full, match=r"0\.02 s"):
        stream.send(b"x" * 8, wait=60.0)
    with pytest.raises(Full):
        stream.send(b"x" * 8)
    stream.answer(b"x" * 8)
    assert stream.machine.is_over  # without its answer
    assert blocks(b"".join(reader)) == [Event("x" * 100)]


def test_what_is_kept_for_later_needs_no_room(narrow, log):
    stream = HttpStream(log=log)
    for _ in range(5):
        stream.send(b"x" * 8)
    stream.answer(b"end")
    assert len(blocks(b"".join(read(stream, last_seen=0)))) == 6
    assert stream.flush(0.0)


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
    ):
        # The thread of a request is free a moment after its answer has arrived.
        assert eventually(lambda: at.app.places.taken == 0)
        peer.get()
        second.get()
        with third.get() as refused:
            assert refused.status == 503
            assert "2 of 4 threads are taken" in refused.json()["error"]["message"]
        assert eventually(lambda: at.app.places.taken == 2)
        with peer.call("folders") as reply:
            asked = reply.message()
            with third.ask("tools/list") as refused:
                assert refused.status == 503
            assert peer.tell({"id": asked["id"], "result": {"roots": []}}) == 202
            assert reply.answer()["result"]["content"][0]["text"] == "0 folders"
        assert eventually(lambda: at.app.places.taken == 2)
        assert "tools" in third.request("tools/list")


def test_too_many_calls_at_once_are_429_with_the_time_to_come_back():
    server = Server("demo", version="1", limit=Limit(rate=0.01, burst=1))
    server.add_tool(lambda: "x", name="x")
    with endpoint(server) as at, Peer(at.port) as peer:
        assert "content" in peer.request("tools/call", {"name": "x", "arguments": {}})
        with peer.call("x") as reply:
            assert reply.status == 429
            assert 100 - PATIENCE < int(reply.headers["retry-after"]) <= 101
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


# ------------------------------------------------------------------- the server's half: 202, and refusals


def replied(make, *arguments, **options):
    """Status, headers and body of what is made with a reply."""
    heads = []
    reply = HttpReply({"REQUEST_METHOD": "POST"}, lambda *head: heads.append(head))
    body = b"".join(make(reply, *arguments, **options))
    [(_, headers)] = heads
    return reply.status, dict(headers), body


@pytest.mark.spec("basic/transports/streamable-http/notification-202")
def test_what_needs_no_answer_is_202_with_nothing():
    assert replied(accepted) == (202, {"Content-Length": "0"}, b"")


@pytest.mark.spec("basic/transports/streamable-http/rejected-input-body")
@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        ({"id": 7}, 7),
        ({"id": "a"}, "a"),
        ({"id": None}, None),
        ({"id": 1.5}, None),
        ({"id": True}, None),
        ({"id": []}, None),
        ({}, None),
        ([{"id": 7}], None),
        (None, None),
    ],
    ids=str,
)
def test_a_refusal_has_the_id_of_its_request_if_that_can_be_read(message, request_id):
    status, headers, body = replied(refusal_body, InvalidRequest("no"), message)
    assert (status, headers) == (400, {"Content-Type": JSON_TYPE, "Content-Length": str(len(body))})
    said = json.loads(body)
    assert said.pop("error")["code"] == -32600
    assert said == {"jsonrpc": "2.0", **({} if request_id is None else {"id": request_id})}


@pytest.mark.spec("basic/transports/streamable-http/rejected-input-status")
@pytest.mark.parametrize(("modern", "status"), [(True, 404), (False, 400)])
def test_a_refusal_has_the_status_of_its_error_in_the_modern_era(modern, status):
    found, _, _ = replied(refusal_body, MethodNotFound("x"), {"id": 1}, is_modern=modern)
    assert found == status


def test_a_refusal_by_http_has_its_own_status_and_headers():
    status, headers, body = replied(refusal_body, Refused(405, "not here", [("Allow", "POST")]))
    assert (status, headers["Allow"], headers["Content-Type"]) == (405, "POST", JSON_TYPE)
    assert json.loads(body)["error"]["message"] == "not here"


# ------------------------------------------------------------------- the server's half: the modern era


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ([], "only 2025-03-26 has batches"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "a client sends requests and notifications"),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}, "params must be an object"),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, "protocolVersion is missing"),
    ],
    ids=["a batch", "a response", "no object", "no _meta"],
)
def test_what_is_no_request_of_the_modern_era_is_400_and_says_why(message, said):
    with (
        endpoint(Server("demo")) as at,
        Peer(at.port) as peer,
        peer.post(message, MCP_Protocol_Version=MODERN) as reply,
    ):
        assert reply.status == 400
        assert said in reply.json()["error"]["message"]


@pytest.mark.parametrize("params", [{}, {"params": []}, {"params": {"_meta": META}}], ids=str)
def test_a_notification_of_the_modern_era_needs_no_meta(params):
    with endpoint(Server("demo")) as at, Peer(at.port) as peer:
        message = {"jsonrpc": "2.0", "method": "notifications/vendor", **params}
        with peer.post(message, MCP_Protocol_Version=MODERN) as reply:
            assert (reply.status, reply.body()) == (202, b"")


def test_a_server_without_the_modern_era_says_what_it_speaks():
    old = Server("old", revisions=["2025-11-25"])
    with endpoint(old) as at, Peer(at.port) as peer, peer.ask("tools/list") as reply:
        assert reply.status == 400
        assert "2025-11-25" in reply.json()["error"]["message"]


def test_a_server_of_the_modern_era_alone_does_not_name_initialize():
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with (
        endpoint(Server("new", revisions=[MODERN])) as at,
        Peer(at.port) as peer,
        peer.post(message, MCP_Protocol_Version=MODERN) as reply,
    ):
        assert "initialize" not in reply.json()["error"]["message"]


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-request-notifications",
    "basic/transports/streamable-http/listen-no-request-scoped",
)
def test_what_belongs_to_a_request_is_on_its_stream_and_on_no_other():
    server = Server("demo")

    @server.tool
    def report(ctx: mcp_ref.Context) -> str:
        ctx.progress(1)
        return "done"

    params = {"name": "report", "_meta": {"progressToken": "p"}}
    with (
        endpoint(server) as at,
        Peer(at.port) as peer,
        peer.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}) as stream,
    ):
        assert stream.message()["method"] == "notifications/subscriptions/acknowledged"
        with peer.ask("tools/call", params) as reply:
            told = [message.get("method") for message in reply.messages()]
        assert told == ["notifications/progress", None]
        server.add_tool(lambda: "x", name="new")
        assert stream.message()["method"] == "notifications/tools/list_changed"


def test_a_request_that_waited_until_the_server_ended_is_503_and_never_runs(monkeypatch):
    server = Server("demo", options=ServerOptions(workers=1))
    begun, go = threading.Semaphore(0), threading.Event()

    @server.tool
    def hold() -> str:
        begun.release()
        return str(go.wait(PATIENCE))

    with endpoint(server) as at, Peer(at.port) as peer:
        held = peer.send("POST", peer.message("tools/call", {"name": "hold"}))
        assert begun.acquire(timeout=PATIENCE)
        waits = peer.send("POST", peer.message("tools/call", {"name": "hold"}))
        assert eventually(lambda: at.app.places.taken == 2)
        kind = type(at.app.modern.connection)
        monkeypatch.setattr(kind, "failure", property(lambda connection: ConnectionClosed("the end")))
        go.set()
        answer = waits.response()
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert held.response().status == 200
        assert not begun.acquire(blocking=False)
        assert eventually(lambda: not at.app.places.taken)
        monkeypatch.undo()
