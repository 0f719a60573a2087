"""basic/transports/streamable_http/waiting: how many requests may wait, and what response each will be."""

import json
import socket
import threading
import time

import pytest
from http_peers import Peer, endpoint
from peers import MODERN, PATIENCE, eventually, nothing_left

from mcp_ref import Context, Limit, Server
from mcp_ref.basic.index.error_responses import (
    InvalidParams,
    MethodNotFound,
    TooManyRequests,
)
from mcp_ref.basic.transports.streamable_http import responses as http_responses
from mcp_ref.basic.transports.streamable_http import waiting as http_waiting
from mcp_ref.basic.transports.streamable_http.log import Log
from mcp_ref.basic.transports.streamable_http.refusals import Refused
from mcp_ref.basic.transports.streamable_http.streams import HttpStream
from mcp_ref.basic.transports.streamable_http.waiting import SILENCE, Waiting
from mcp_ref.runtime.errors import ConnectionClosed

ENVIRON = {"wsgi.multithread": True}


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


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
        assert eventually(lambda: at.app.waiting.count == 2)
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
    assert SILENCE["auto"](15.0) == 15.0
    assert SILENCE["json"](15.0) == float("inf")
    assert SILENCE["stream"](15.0) < 1


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
    stream.abandon("cancelled")
    answer = answered(waiting(), stream)
    assert (answer.status, kind(answer), body(answer)) == (200, "text/event-stream", b"")


def test_a_client_that_leaves_while_nothing_was_said_is_noticed(monkeypatch):
    monkeypatch.setattr(http_waiting, "LOOK", 0.01)
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
    monkeypatch.setattr(http_responses, "LOOK", 0.01)
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
    server = Server("demo", version="1", workers=1, queue=0)
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
    assert where.settle(0.0)
    where.admit(stream, is_long=False)
    begun = time.monotonic()
    assert not where.settle(0.05)
    assert time.monotonic() - begun < PATIENCE
    threading.Timer(0.03, where.leave, (stream,)).start()
    assert where.settle(PATIENCE)


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
        assert eventually(lambda: at.app.waiting.count == 100)
        for connection in connections:
            connection.reset()
        assert eventually(lambda: at.app.waiting.count == 0)
        left.set()
        assert "tools" in peer.request("tools/list")
