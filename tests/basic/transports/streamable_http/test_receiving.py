"""basic/transports/streamable_http/receiving: what is said, who is sent it, what is kept for whoever comes
back.
"""

import json
import logging
import socket
import ssl
import threading
import time
from types import SimpleNamespace

import pytest
from http_peers import Event, Peer, endpoint, read_event
from hypothesis import given
from hypothesis import strategies as st
from peers import MODERN, PATIENCE, eventually, nothing_left
from web import JSON, STREAM, opened, result_of, talking, text, web

from mcp_ref import Context, Limit, Server, ServerOptions, connect
from mcp_ref.basic.index.error_responses import InvalidParams, InvalidRequest, MethodNotFound, TooManyRequests
from mcp_ref.basic.index.general_fields import InvalidMeta, MissingRequiredClientCapability
from mcp_ref.basic.patterns.index.context import Arrival
from mcp_ref.basic.transports.streamable_http import receiving
from mcp_ref.basic.transports.streamable_http import receiving as module
from mcp_ref.basic.transports.streamable_http.receiving import (
    ACCEPTED,
    EVENTS,
    SECONDS_UNTIL_STREAM,
    EventResponse,
    HttpStream,
    Waiting,
    departed,
    error,
    plain,
    reason,
    whole,
)
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS, HeaderMismatch
from mcp_ref.basic.transports.streamable_http.resumability import OVERHEAD, Log
from mcp_ref.basic.transports.streamable_http.security import Refused
from mcp_ref.basic.versioning import UnsupportedProtocolVersion
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, RequestTimeout
from mcp_ref.runtime.threads.outbox import Full

ENVIRON = {"wsgi.multithread": True}
"""Of a request whose connection waits to see what its response will be."""


class Reader:
    """Stands for a response."""

    def __init__(self, stream, after=None):
        self.stream = stream
        stream.attach(self, after)

    def take(self):
        """The events that are new, by their numbers; None once another reader has the stream."""
        taken = self.stream.take(self)
        return None if taken is None else dict(taken)

    def leave(self):
        self.stream.detach(self)


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


@pytest.fixture
def log():
    return Log("tag", 1 << 20)


def told(log, *lines, **options):
    """A stream on which something was said."""
    stream = HttpStream(log=log, **options)
    for line in lines:
        stream.send(line)
    return stream


# ----------------------------------------------------------------------------- what is to be seen


@pytest.mark.spec("basic/transports/streamable-http/request-json-or-sse")
def test_an_answer_that_is_all_there_is_to_say_is_no_event_yet(log):
    for kept in (None, log):
        stream = HttpStream(log=kept)
        assert not stream.is_begun
        stream.answer(b"{}")
        assert (stream.is_plain, stream.is_over, stream.name) == (True, True, "")
        assert stream.whole() == b"{}"
        assert not stream.is_plain
    assert log.streams() == []


def test_anything_before_the_answer_makes_events_of_both(log):
    stream = told(log, b"1")
    assert (stream.is_begun, stream.is_over) == (True, False)
    stream.answer(b"2", InvalidRequest("no"))
    assert (stream.is_plain, stream.is_over) == (False, True)
    assert stream.problem.code == -32600
    assert Reader(stream).take() == {1: b"1", 2: b"2"}


def test_an_answer_that_becomes_an_event_is_kept_as_one(log):
    stream = HttpStream(log=log)
    stream.answer(b"2")
    Reader(stream)
    assert log.find("tag-1-0") == (stream, 0)


def test_who_waits_is_woken_by_all_that_there_is_to_see(log):
    for happen in (
        lambda stream: stream.send(b"1"),
        lambda stream: stream.answer(b"1"),
        lambda stream: stream.fail(ConnectionClosed("x")),
        lambda stream: stream.release(),
        lambda stream: stream.cancel("x"),
        lambda stream: Reader(stream),
    ):
        stream = HttpStream(log=log, primes=True)
        assert not stream.wait(0.0)
        happen(stream)
        assert stream.wait(PATIENCE)
        assert not stream.wait(0.0)


def test_two_things_to_see_wake_once():
    stream = told(None, b"1", b"2")
    assert stream.wait(PATIENCE)
    assert not stream.wait(0.0)


def test_a_mute_stream_says_nothing_but_the_answer():
    stream = HttpStream(mute=True)
    stream.send(b"1")
    assert not stream.is_begun
    assert not stream.two_way
    stream.answer(b"2")
    assert stream.whole() == b"2"


def test_nothing_can_be_asked_where_one_thread_serves_all():
    assert not HttpStream(environ={"wsgi.multithread": False}).two_way
    assert HttpStream(environ=ENVIRON).two_way
    assert not HttpStream().is_busy


def test_the_context_of_a_request_learns_who_asks_and_how():
    for keyed in (False, True):
        stream = HttpStream(environ=ENVIRON, principal="ann", keyed=keyed)
        context = SimpleNamespace(arrival=Arrival(stream, 1), principal=None)
        stream.begins(context)
        assert (context.arrival.environ, context.principal) == (ENVIRON, "ann")
        assert (context.arrival.key is stream) == keyed
        assert stream.context is context


# ----------------------------------------------------------------------------- who is sent what


@pytest.mark.spec(
    "basic/transports/streamable-http/one-stream-per-message",
    "basic/transports/streamable-http/no-broadcast",
)
def test_only_the_last_reader_is_sent_anything(log):
    stream = told(log, b"1")
    first = Reader(stream)
    assert first.take() == {1: b"1"}
    stream.send(b"2")
    second = Reader(stream)
    assert first.take() is None
    assert second.take() == {2: b"2"}
    first.leave()  # it does not take the stream along
    assert stream.is_read
    second.leave()
    assert not stream.is_read


@pytest.mark.spec("basic/transports/streamable-http/replay-messages")
def test_who_comes_back_is_sent_what_comes_after_the_number_it_names(log):
    stream = told(log, b"1", b"2", b"3")
    assert Reader(stream).take() == {1: b"1", 2: b"2", 3: b"3"}
    assert Reader(stream, after=1).take() == {2: b"2", 3: b"3"}
    assert Reader(stream, after=0).take() == {1: b"1", 2: b"2", 3: b"3"}
    assert Reader(stream, after=3).take() == {}


def test_without_a_log_what_was_sent_is_gone():
    stream = told(None, b"1")
    reader = Reader(stream)
    assert reader.take() == {1: b"1"}
    stream.send(b"2")
    assert reader.take() == {2: b"2"}
    assert reader.take() == {}
    stream.send(b"3")
    reader.leave()
    stream.send(b"4")
    assert not stream._events


@pytest.mark.spec("basic/transports/streamable-http/sse-disconnect-not-cancel")
def test_with_a_log_what_was_not_sent_waits_for_another_connection(log):
    stream = told(log, b"1")
    reader = Reader(stream)
    reader.take()
    reader.leave()
    stream.send(b"2")
    stream.answer(b"3")
    assert Reader(stream, after=1).take() == {2: b"2", 3: b"3"}


def test_a_stream_that_nobody_can_come_back_for_keeps_nothing(log):
    stream = HttpStream(log=log, environ=ENVIRON)
    stream.discard()
    stream.send(b"1")
    assert not stream.is_begun


def test_it_lets_go_only_of_clients_that_will_come_back(log):
    assert not HttpStream(log=log).release()
    assert not HttpStream(primes=True).release()
    stream = HttpStream(log=log, primes=True)
    assert stream.release()
    assert stream.released
    Reader(stream, after=0)
    assert not stream.released


# ------------------------------------------------------------------------- a client that reads slowly


@pytest.fixture
def narrow(monkeypatch):
    """Room for little."""
    monkeypatch.setattr(receiving, "ROOM", 10)


def saying(stream, line=b"x" * 8, end="answer"):
    """A thread that has more to say, and what became of it."""
    outcome = []

    def say():
        try:
            outcome.append(getattr(stream, end)(line))
        except ConnectionClosed as problem:
            outcome.append(problem)

    thread = threading.Thread(target=say)
    thread.start()
    return thread, outcome


@pytest.mark.parametrize("awaited", [False, True], ids=["read", "awaited"])
def test_who_has_more_to_say_waits_until_the_client_was_sent_it(narrow, awaited):
    stream = HttpStream(environ=ENVIRON if awaited else None)
    reader = None if awaited else Reader(stream)
    stream.send(b"x" * 12)
    thread, _ = saying(stream, end="send")
    assert eventually(lambda: stream._room is not None)
    assert thread.is_alive()
    reader = reader or Reader(stream)
    assert reader.take() == {1: b"x" * 12}
    thread.join(PATIENCE)
    assert reader.take() == {2: b"x" * 8}


@pytest.mark.parametrize(
    "happen",
    [
        lambda stream, reader: reader.leave(),
        lambda stream, reader: stream.discard(),
        lambda stream, reader: stream.fail(ConnectionClosed("enough")),
    ],
    ids=["it leaves", "it is gone", "the stream fails"],
)
def test_nobody_waits_for_a_client_that_is_gone(narrow, happen):
    stream = HttpStream()
    reader = Reader(stream)
    stream.send(b"x" * 12)
    thread, _ = saying(stream)
    assert eventually(lambda: stream._room is not None)
    happen(stream, reader)
    if stream.is_read:
        reader.leave()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_nobody_waits_for_ever(narrow, monkeypatch):
    stream = HttpStream()
    Reader(stream)
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


def test_what_is_kept_for_later_needs_no_room(narrow, log):
    stream = told(log, *[b"x" * 8] * 5)
    assert len(Reader(stream).take()) == 5


def test_whoever_ends_a_connection_can_wait_until_all_was_sent():
    stream = HttpStream()
    assert stream.flush(0.0)
    reader = Reader(stream)
    stream.send(b"1")
    assert not stream.flush(0.01)
    reader.take()
    assert stream.flush(0.0)
    stream.send(b"2")
    reader.leave()
    assert stream.flush(0.0)


def test_after_a_failure_nothing_can_be_said(log):
    stream = told(log, b"1")
    stream.fail(ConnectionClosed("the first reason"))
    stream.fail(ConnectionClosed("another"))
    with pytest.raises(ConnectionClosed, match="the first reason"):
        stream.send(b"2")
    stream.answer(b"3")
    assert Reader(stream).take() == {1: b"1"}


def test_a_cancelled_request_ends_its_stream_without_an_answer(log):
    stream = told(log, b"1")
    stream.cancel("cancelled")
    assert stream.is_over
    assert stream.is_cancelled
    assert not stream.answered


# ------------------------------------------------------------------------------ coming back, often


def test_the_first_events_are_forgotten_as_many_as_make_so_many_bytes(log):
    stream = told(log, b"1", b"2", b"3", b"4")
    assert stream.forget(1, but=0) == OVERHEAD + 1
    assert stream.forget(OVERHEAD + 2, but=0) == 2 * (OVERHEAD + 1)
    assert (stream.has(2), stream.has(3), stream.has(4)) == (False, True, True)
    assert stream.can_forget(but=0)
    assert not stream.can_forget(but=1)
    assert stream.forget(1, but=1) == 0
    assert not stream.is_spent
    stream.cancel("cancelled")
    stream.forget(1, but=0)
    assert stream.is_spent


def test_what_its_client_has_yet_to_be_sent_is_not_forgotten(log):
    stream = told(log, b"1")
    reader = Reader(stream)
    assert stream.forget(1, but=0) == 0
    reader.take()
    stream.send(b"2")
    assert stream.forget(10_000, but=0) == OVERHEAD + 1
    assert reader.take() == {2: b"2"}
    stream.send(b"3")
    reader.leave()
    assert stream.forget(10_000, but=0) == 2 * (OVERHEAD + 1)
    assert stream.flush(0.0)


@pytest.mark.parametrize("kept", [False, True])
def test_a_stream_that_is_over_before_anybody_reads_it_is_had_at_once(log, kept):
    stream = HttpStream(log=log if kept else None, environ=ENVIRON)
    stream.answer(b"1")
    assert stream.finish() == [(1, b"1")]
    assert log.find("tag-1-0") == ((stream, 0) if kept else None)
    stream = HttpStream(log=log if kept else None, environ=ENVIRON)
    stream.send(b"1")
    stream.answer(b"2")
    assert stream.finish() == [(1, b"1"), (2, b"2")]
    assert stream.finish() == []


def test_it_is_spent_when_it_is_over_and_nothing_is_left_of_it(log):
    """Only then is it forgotten: before its answer, and as long as that is kept, it is found."""
    stream = HttpStream(log=log, environ=ENVIRON)
    assert not stream.is_spent  # empty, and not over
    stream.send(b"1")
    assert not stream.is_spent
    stream.answer(b"2")
    assert stream.is_over
    assert not stream.is_spent  # over, and not empty
    assert log.find("tag-1-0") == (stream, 0)


@given(
    st.lists(
        st.sampled_from(["say", "take", "leave", "come back"]).flatmap(
            lambda what: st.tuples(st.just(what), st.integers(0, 3))
        ),
        max_size=40,
    )
)
def test_a_client_hears_everything_once_and_in_order_however_often_it_comes_back(steps):
    """It loses the last few events of each connection, and asks for what comes after the last it has."""
    log = Log("tag", 1 << 20)
    stream, said, heard = HttpStream(log=log), 0, []
    stream.send(b"0")
    reader = Reader(stream)
    for what, lost in [*steps, ("come back", 0), ("take", 0)]:
        if what == "say":
            said += 1
            stream.send(b"%d" % said)
        elif what == "take" and stream.is_read:
            taken = list(reader.take().values())
            heard += taken[: len(taken) - lost]
            if lost and taken:
                reader.leave()
        elif what == "leave":
            reader.leave()
        elif what == "come back":
            assert log.find(f"tag-1-{len(heard)}") == (stream, len(heard))
            reader = Reader(stream, after=len(heard))
    assert heard == [b"%d" % n for n in range(said + 1)]


def test_many_may_speak_at_once_while_one_reads():
    log = Log("tag", 1 << 24)
    stream, heard = HttpStream(log=log), []
    reader = Reader(stream)

    def speak(who):
        for n in range(300):
            stream.send(b"%d %d" % (who, n))

    def read():
        while not stream.answered or stream._size:
            stream.wait(PATIENCE)
            heard.extend(reader.take().values())

    threads = [threading.Thread(target=speak, args=(who,)) for who in range(4)]
    reading = threading.Thread(target=read)
    for thread in (reading, *threads):
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    stream.answer(b"end")
    reading.join(PATIENCE)
    assert heard.pop() == b"end"
    for who in range(4):
        mine = [line for line in heard if line.startswith(b"%d " % who)]
        assert mine == [b"%d %d" % (who, n) for n in range(300)]
    assert len(heard) == 1200


def test_where_nothing_but_json_is_sent_nobody_is_let_go(log):
    stream = HttpStream(log=log, primes=True, mute=True)
    assert not stream.release()
    assert not stream.released


COMMENT = b":\n\n"


def response(stream, *, after=None, keep_alive=PATIENCE, gone=lambda: False, closed=None):
    return EventResponse(
        stream,
        after=after,
        keep_alive=keep_alive,
        retry_ms=55,
        gone=gone,
        on_close=(lambda each: None) if closed is None else closed.append,
    )


def blocks(data):
    """The events of some bytes."""
    *found, end = data.decode().split("\n\n")
    assert end == ""
    return [read_event(block) for block in found]


@pytest.fixture
def hasty(monkeypatch):
    """It looks every moment whether the client is there."""
    monkeypatch.setattr(receiving, "LOOK", 0.01)


# ----------------------------------------------------------------------------------- one object


def test_a_status_has_its_words():
    assert reason(200) == "200 OK"
    assert reason(421) == "421 Misdirected Request"
    assert reason(499) == "499 Refused"


@pytest.mark.spec("basic/transports/streamable-http/notification-202")
def test_what_needs_no_answer_is_202_with_nothing():
    assert (ACCEPTED.status, b"".join(ACCEPTED.body)) == (202, b"")
    assert dict(ACCEPTED.headers) == {"Content-Length": "0"}


@pytest.mark.spec("basic/transports/streamable-http/request-json-or-sse")
def test_one_object_has_type_and_length():
    answer = plain(418, b'{"a":1}', ("X", "y"))
    assert (answer.status, b"".join(answer.body)) == (418, b'{"a":1}')
    assert dict(answer.headers) == {"Content-Type": "application/json", "Content-Length": "7", "X": "y"}


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
def test_an_error_has_the_id_of_its_request_if_that_can_be_read(message, request_id):
    answer = error(400, InvalidRequest("no"), message)
    body = json.loads(b"".join(answer.body))
    assert body.pop("error")["code"] == -32600
    assert body == {"jsonrpc": "2.0", **({} if request_id is None else {"id": request_id})}


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


# ------------------------------------------------------------------------------ events as they come


@pytest.mark.spec("basic/transports/streamable-http/x-accel-buffering")
def test_the_headers_of_a_stream_keep_proxies_from_holding_it_back():
    assert dict(EVENTS) == {
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }


@pytest.mark.spec("basic/transports/streamable-http/sse-terminates-after-response")
def test_a_stream_without_a_log_is_events_without_ids_until_the_answer():
    stream = HttpStream()
    stream.send(b'{"n":1}\n')
    stream.send(b'{"n":2}')
    stream.answer(b'{"n":3}\n')
    found = whole(stream, 55)
    assert blocks(found) == [Event(f'{{"n":{n}}}') for n in (1, 2, 3)]


@pytest.mark.spec(
    "basic/transports/streamable-http/event-id-names-stream", "basic/transports/streamable-http/event-id"
)
def test_a_stream_with_a_log_has_ids_that_name_it():
    log = Log("tag", 10_000)
    for number in (1, 2):
        stream = HttpStream(log=log)
        stream.send(b"{}")
        stream.answer(b"{}")
        ids = [event.id for event in blocks(whole(stream, 55))]
        assert ids == [f"tag-{number}-1", f"tag-{number}-2"]


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-prime-event",
    "basic/transports/streamable-http/sse-retry-before-close",
)
def test_a_stream_that_primes_begins_with_an_id_and_the_time_to_wait_and_only_once():
    stream = HttpStream(log=Log("tag", 10_000), primes=True)
    first = response(stream)
    assert blocks(next(first)) == [Event("", "tag-1-0", retry="55")]
    stream.send(b"{}")
    assert blocks(next(first)) == [Event("{}", "tag-1-1")]
    first.close()
    stream.answer(b"[]")
    assert blocks(b"".join(response(stream, after=0))) == [Event("{}", "tag-1-1"), Event("[]", "tag-1-2")]


def test_the_name_and_the_opening_of_a_stream_that_has_them():
    """As the transport of 2024-11-05 has it."""
    stream = HttpStream()
    stream.event, stream.opening = "message", b"event: endpoint\ndata: /x\n\n"
    stream.send(b"{}")
    stream.answer(b"{}")
    named = Event("{}", event="message")
    assert blocks(whole(stream, 55)) == [Event("/x", event="endpoint"), named, named]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_silent_stream_begins_with_a_comment_so_that_its_headers_get_out(resumed):
    stream = HttpStream(log=Log("tag", 10_000))
    each = response(stream, after=0 if resumed else None)
    assert next(each) == COMMENT
    stream.send(b"{}")
    assert blocks(next(each)) == [Event("{}", "tag-1-1")]


@pytest.mark.spec("basic/transports/streamable-http/sse-keep-alive")
def test_silence_is_filled_with_comments(hasty):
    asked = []
    each = response(HttpStream(), keep_alive=0.05, gone=lambda: asked.append(1))
    assert [next(each) for _ in range(3)] == [COMMENT] * 3
    assert len(asked) >= 2


def test_a_client_that_is_gone_ends_the_response(hasty):
    left, closed = threading.Event(), []
    each = response(HttpStream(), gone=left.is_set, closed=closed)
    assert next(each) == COMMENT
    left.set()
    assert list(each) == []
    assert each.left
    each.close()
    each.close()
    assert closed == [each]


def test_a_response_that_is_closed_before_its_end_was_left():
    stream = HttpStream()
    each = response(stream)
    next(each)
    each.close()
    assert each.left
    assert not stream.is_read
    finished = HttpStream()
    finished.answer(b"{}")
    each = response(finished)
    list(each)
    each.close()
    assert not each.left


def test_what_fails_ends_the_response_after_what_was_said():
    stream = HttpStream()
    stream.send(b"{}")
    stream.fail(ConnectionClosed("enough"))
    assert blocks(whole(stream, 55)) == [Event("{}")]


@pytest.mark.spec("basic/transports/streamable-http/sse-close-connection")
def test_a_stream_that_lets_go_ends_the_response_and_not_itself():
    stream = HttpStream(log=Log("tag", 10_000), primes=True)
    each = response(stream)
    stream.send(b"{}")
    assert stream.release()
    assert blocks(b"".join(each)) == [Event("", "tag-1-0", retry="55"), Event("{}", "tag-1-1")]
    each.close()
    assert not each.left
    assert not stream.is_over


@pytest.mark.spec("basic/transports/streamable-http/one-stream-per-message")
def test_a_stream_that_another_response_took_is_over_for_the_first():
    stream = HttpStream(log=Log("tag", 10_000))
    first = response(stream)
    assert next(first) == COMMENT
    second = response(stream, after=0)
    stream.send(b"{}")
    assert list(first) == []
    assert not first.left
    assert blocks(next(second)) == [Event("{}", "tag-1-1")]


def test_events_that_come_while_the_response_waits_are_sent_at_once():
    stream, seen = HttpStream(), []
    thread = threading.Thread(target=lambda: seen.extend(response(stream)))
    thread.start()
    for n in range(100):
        stream.send(b"%d" % n)
    stream.answer(b"last")
    thread.join(PATIENCE)
    told = [event.data for event in blocks(b"".join(seen)) if event.data]
    assert told == [*map(str, range(100)), "last"]


# ------------------------------------------------------------------------------ is anybody there?


def test_a_closed_connection_is_told_from_one_that_is_silent_or_has_more_to_say():
    for name in ("werkzeug.socket", "gunicorn.socket"):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            gone = departed({name: ours})
            assert not gone()
            theirs.sendall(b"more")
            assert not gone()
            assert ours.recv(10) == b"more"  # it is still there to be read
            theirs.shutdown(socket.SHUT_WR)
            assert gone()
        assert gone()  # our own end is closed


def test_a_connection_that_was_reset_is_gone():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
        with ours:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            theirs.close()
            assert departed({"werkzeug.socket": ours})()


def test_a_poll_that_promised_too_much_is_no_departure():
    class Hasty:
        def __init__(self, real):
            self.fileno = real.fileno

        def recv(self, size, flags):
            raise BlockingIOError

    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x")
        assert not departed({"werkzeug.socket": Hasty(ours)})()


def test_some_servers_say_it_themselves_and_some_cannot():
    assert departed({"waitress.client_disconnected": lambda: True})()
    assert not departed({"waitress.client_disconnected": lambda: False})()
    assert not departed({})()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wrapped = ssl.create_default_context().wrap_socket(
            ours, do_handshake_on_connect=False, server_hostname="x"
        )
        theirs.close()
        assert not departed({"werkzeug.socket": wrapped})()
        wrapped.close()


ENVIRON = {"wsgi.multithread": True}


def waiting(**options):
    given = {"answers": "auto", "keep_alive": PATIENCE, "retry_ms": 55, "max_streams": 10, "threads": None}
    return Waiting(**{**given, **options})


def nothing(stream):
    pass


def answered(where, stream, environ=ENVIRON, **options):
    where.admit(stream, is_long=False)
    return where.answered(stream, environ, **{"gone": nothing, "over": nothing, **options})


def body(answer):
    return b"".join(answer.body)


def kind(answer):
    return dict(answer.headers).get("Content-Type")


# --------------------------------------------------------------------------------- how many


def fill(where, *longs):
    """Let so many in, `is_long` of each; True for each that was let in."""
    let_in = []
    for is_long in longs:
        stream = HttpStream()
        try:
            where.admit(stream, is_long=is_long)
        except Refused as refused:
            assert refused.status == 503
            assert dict(refused.headers)["Retry-After"]
            let_in.append(False)
        else:
            let_in.append(True)
            if is_long:
                where.streamed(stream, ENVIRON, gone=nothing, over=nothing)
    return let_in


@pytest.mark.parametrize(
    ("threads", "longs", "let_in"),
    [
        (None, [True, False] * 5, [True] * 10),
        (1, [False] * 3, [True] * 3),
        (2, [False, False], [True, False]),
        (2, [True, False], [True, False]),
        (3, [True, True], [True, False]),
        (3, [True, False, False], [True, True, False]),
        (5, [True] * 4, [True, True, True, False]),
        (5, [True, True, True, False, False], [True, True, True, True, False]),
        (5, [False] * 5, [True] * 4 + [False]),
    ],
)
def test_one_thread_stays_for_answers_and_one_for_calls_that_streams_do_not_get(threads, longs, let_in):
    assert fill(waiting(threads=threads), *longs) == let_in


def test_streams_have_a_number_of_their_own():
    where = waiting(max_streams=2)
    assert fill(where, True, True, True, False) == [True, True, False, True]
    assert where.count == 3


def test_who_is_over_makes_room():
    where = waiting(threads=2)
    stream = HttpStream()
    where.admit(stream, is_long=False)
    assert fill(where, False) == [False]
    where.leave(stream)
    where.leave(stream)
    assert fill(where, False) == [True]


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
            assert "2 of 4 threads wait" in refused.json()["error"]["message"]
        with peer.call("folders") as reply:
            asked = reply.message()
            with third.ask("tools/list") as refused:
                assert refused.status == 503
            assert peer.tell({"id": asked["id"], "result": {"roots": []}}) == 202
            assert reply.answer()["result"]["content"][0]["text"] == "0 folders"
        # The thread of the call is free a moment after its answer has arrived.
        assert eventually(lambda: at.app.places.taken == 2)
        assert "tools" in third.request("tools/list")


# ----------------------------------------------------------------------------- what response it is


@pytest.mark.spec("basic/transports/streamable-http/request-json-or-sse")
@pytest.mark.parametrize(
    ("answers", "eager", "expected"),
    [
        ("auto", False, "application/json"),
        ("auto", True, "text/event-stream"),
        ("json", True, "application/json"),
        ("stream", False, "text/event-stream"),
    ],
)
def test_an_answer_alone_is_json_unless_a_setting_or_its_client_says_otherwise(answers, eager, expected):
    where, over = waiting(answers=answers), []
    stream = HttpStream(eager=eager)
    stream.answer(b'{"id":1}')
    answer = answered(where, stream, over=over.append)
    assert (answer.status, kind(answer)) == (200, expected)
    data = body(answer)
    assert b'{"id":1}' in data
    assert int(dict(answer.headers)["Content-Length"]) == len(data)
    assert over == [stream]
    assert where.count == 0


def test_what_was_all_said_by_now_is_one_piece_with_a_length():
    where, stream = waiting(), HttpStream(log=Log("tag", 10_000))
    stream.send(b"1")
    stream.answer(b"2")
    answer = answered(where, stream)
    data = body(answer)
    assert data == b"id: tag-1-1\ndata: 1\n\nid: tag-1-2\ndata: 2\n\n"
    assert int(dict(answer.headers)["Content-Length"]) == len(data)


def test_what_goes_on_is_a_stream_until_it_is_over():
    where, stream, over = waiting(), HttpStream(), []
    stream.send(b"1")
    answer = answered(where, stream, over=over.append)
    assert kind(answer) == "text/event-stream"
    assert (where.count, over) == (1, [])
    assert next(answer.body) == b"data: 1\n\n"
    stream.answer(b"2")
    assert body(answer) == b"data: 2\n\n"
    answer.body.close()
    assert (where.count, over) == (0, [stream])


@pytest.mark.spec("basic/transports/streamable-http/sse-keep-alive")
def test_silence_for_long_makes_a_stream():
    where = waiting(keep_alive=0.01)
    answer = answered(where, HttpStream())
    assert kind(answer) == "text/event-stream"
    assert next(answer.body) == b":\n\n"
    answer.body.close()


def test_how_long_a_request_may_be_silent():
    assert SECONDS_UNTIL_STREAM["auto"](15.0) == 15.0
    assert SECONDS_UNTIL_STREAM["json"](15.0) == float("inf")
    assert SECONDS_UNTIL_STREAM["stream"](15.0) < 1


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
@pytest.mark.parametrize("answers", ["auto", "stream"])
def test_an_error_alone_has_its_status_in_the_modern_era(problem, modern, status, answers):
    where, stream = waiting(answers=answers), HttpStream(keyed=modern)
    stream.answer(b"{}", problem)
    answer = answered(where, stream)
    assert answer.status == status
    assert (kind(answer) == "application/json") == (answers == "auto" or status != 200)


@pytest.mark.parametrize(("seconds", "told"), [(0.1, "1"), (1.2, "1"), (2.6, "3")])
def test_who_asks_too_often_is_told_when_to_come_back(seconds, told):
    stream = HttpStream(keyed=True)
    stream.answer(b"{}", TooManyRequests("x", seconds))
    assert dict(answered(waiting(), stream).headers)["Retry-After"] == told


def test_an_error_after_something_was_said_is_the_last_event():
    where, stream = waiting(), HttpStream(keyed=True)
    stream.send(b"1")
    stream.answer(b"2", MethodNotFound("x"))
    answer = answered(where, stream)
    assert (answer.status, kind(answer)) == (200, "text/event-stream")


def test_what_ends_without_an_answer_says_why():
    for log in (None, Log("tag", 1000)):
        stream = HttpStream(log=log)
        stream.fail(ConnectionClosed("enough"))
        answer = answered(waiting(), stream)
        assert answer.status == 503
        assert json.loads(body(answer))["error"]["message"]


@pytest.mark.spec("basic/patterns/cancellation/no-response-after-cancel")
def test_what_was_cancelled_is_a_stream_without_an_answer():
    stream = HttpStream()
    stream.cancel("cancelled")
    answer = answered(waiting(), stream)
    assert (answer.status, kind(answer), body(answer)) == (200, "text/event-stream", b"")


def test_a_client_that_leaves_while_nothing_was_said_is_noticed(monkeypatch):
    monkeypatch.setattr(receiving, "LOOK", 0.01)
    where, stream, gone, over = waiting(), HttpStream(environ=ENVIRON), [], []
    ours, theirs = socket.socketpair()
    with ours:
        leaving = threading.Timer(0.05, theirs.close)
        leaving.start()
        answer = answered(where, stream, {"werkzeug.socket": ours}, gone=gone.append, over=over.append)
        leaving.join()
    assert (gone, over, where.count, body(answer)) == ([stream], [stream], 0, b"")
    stream.send(b"nobody hears this")
    assert not stream.is_begun


def test_a_client_that_leaves_in_the_midst_of_a_stream_is_noticed(monkeypatch):
    monkeypatch.setattr(receiving, "LOOK", 0.01)
    where, stream, gone, over = waiting(), HttpStream(environ=ENVIRON), [], []
    ours, theirs = socket.socketpair()
    with ours:
        stream.send(b"1")
        answer = answered(where, stream, {"werkzeug.socket": ours}, gone=gone.append, over=over.append)
        assert next(answer.body) == b"data: 1\n\n"
        theirs.close()
        assert body(answer) == b""
        answer.body.close()
    assert (gone, over, where.count) == ([stream], [stream], 0)


def test_too_many_calls_at_once_are_429_with_the_time_to_come_back():
    server = Server("demo", version="1", limit=Limit(rate=0.4, burst=1))
    server.add_tool(lambda: "x", name="x")
    with endpoint(server) as at, Peer(at.port) as peer:
        assert "content" in peer.request("tools/call", {"name": "x", "arguments": {}})
        with peer.call("x") as reply:
            assert reply.status == 429
            assert reply.headers["retry-after"] in ("2", "3")
            assert reply.json()["id"]


def test_more_requests_than_workers_and_queue_are_429():
    server = Server("demo", version="1", options=ServerOptions(workers=1, queue=0))
    begun, go = threading.Event(), threading.Event()
    server.add_tool(lambda: begun.set() or str(go.wait(PATIENCE)), name="wait")
    with endpoint(server) as at, Peer(at.port) as peer:
        first = peer.send("POST", peer.message("tools/call", {"name": "wait", "arguments": {}}))
        assert begun.wait(PATIENCE)
        with peer.call("wait") as reply:
            assert reply.status == 429
        with peer.ask("tools/list") as reply:  # a list is a request like any other, whichever thread runs it
            assert reply.status == 429
        with peer.ask("server/discover") as reply:  # what tells a client where it is goes on
            assert reply.status == 200
        go.set()
        assert first.response().status == 200


# ------------------------------------------------------------------------------------- the end


def test_the_end_of_all_can_be_waited_for():
    where, stream = waiting(), HttpStream()
    assert where.flush(0.0)
    where.admit(stream, is_long=False)
    begun = time.monotonic()
    assert not where.flush(0.05)
    assert time.monotonic() - begun < PATIENCE
    threading.Timer(0.03, where.leave, (stream,)).start()
    assert where.flush(PATIENCE)


def test_all_fail_together():
    where = waiting()
    undecided, opened = HttpStream(), HttpStream()
    where.admit(undecided, is_long=False)
    where.admit(opened, is_long=True)
    response = where.streamed(opened, ENVIRON, gone=nothing, over=nothing).body
    where.fail(ConnectionClosed("enough"))
    assert undecided.is_over
    assert list(response) == []


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
        assert eventually(lambda: at.app.places.taken == 0)
        left.set()
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
