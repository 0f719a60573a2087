"""basic/transports/streamable_http/responses: one object, or a stream of events piece by piece."""

import json
import socket
import ssl
import threading

import pytest
from http_peers import Event, read_event
from peers import PATIENCE

from mcp_ref.basic.index.error_responses import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
)
from mcp_ref.basic.transports.streamable_http import responses as http_responses
from mcp_ref.basic.transports.streamable_http.log import Log
from mcp_ref.basic.transports.streamable_http.request_metadata import HeaderMismatch
from mcp_ref.basic.transports.streamable_http.responses import (
    ACCEPTED,
    EVENTS,
    STATUS,
    EventResponse,
    departed,
    error,
    plain,
    reason,
    whole,
)
from mcp_ref.basic.transports.streamable_http.streams import HttpStream
from mcp_ref.basic.versioning import (
    InvalidMeta,
    MissingRequiredClientCapability,
    UnsupportedProtocolVersion,
)
from mcp_ref.runtime.errors import ConnectionClosed

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
    monkeypatch.setattr(http_responses, "LOOK", 0.01)


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
    assert stream.let_go()
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
