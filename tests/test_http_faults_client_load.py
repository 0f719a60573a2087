"""Servers that say too much, over HTTP, and our client: an error for the call that it hit, and no more.

Answers without end, packed and huge ones, what is left over in a connection, ids that fit into no header,
floods, and many clients that come and go.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from http_client_faults import ERAS, OLD, Handler, bad, goes_on, hello, resident, standing
from peers import MODERN, PATIENCE, Json, eventually
from web import JSON, STREAM, Request, Site, Wire, open_files, opened, result_of, talking, text, web

from mcp_ref import ConnectionClosed, HttpFailure, InvalidResponse, McpError, RequestTimeout, connect
from mcp_ref.runtime.errors import LocalError

BOTH = pytest.mark.parametrize("revision", ERAS)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with standing(monkeypatch):
        yield


# ---------------------------------------------------------------------------- answers without end


def endless(opening: bytes, piece: bytes) -> Handler:
    """Sends on for as long as the client is there."""

    def handle(request: Request, wire: Wire) -> None:
        wire.send(opening)
        wire.socket.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            while True:
                wire.socket.sendall(piece)

    return handle


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n"
WITHOUT_END = {
    "JSON": endless(PLAIN % b"application/json", b" " * 65536),
    "JSON in chunks": endless(CHUNKED % b"application/json", b"10000\r\n" + b" " * 65536 + b"\r\n"),
    "a line of an event": endless(PLAIN % b"text/event-stream", b"data: " + b"x" * 65536),
    "the lines of an event": endless(PLAIN % b"text/event-stream", b"data: x\n" * 8000),
    "an id": endless(PLAIN % b"text/event-stream", b"id: " + b"x" * 65536),
    "an HTML page": endless(PLAIN % b"text/html", b"<p>no</p>" * 8000),
    "a redirect": endless(b"HTTP/1.1 302 Found\r\nLocation: http://other.invalid/\r\n\r\n", b"x" * 65536),
    "a status": endless(b"HTTP/1.1 500 No\r\nContent-Type: text/plain\r\n\r\n", b"x" * 65536),
    "a head": endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "a line of the head": endless(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 65536),
    "a chunk's size": endless(CHUNKED % b"application/json", b"0" * 65536),
}


@BOTH
@pytest.mark.parametrize("kind", WITHOUT_END)
def test_an_answer_without_end(revision: str, kind: str) -> None:
    """It is let go of at the limit, long before the time-out; what came is not kept in memory."""
    with bad(WITHOUT_END[kind], revision, max_message_bytes=1_000_000) as (_site, client):
        before, began = resident(), time.monotonic()
        with pytest.raises((ConnectionClosed, InvalidResponse, LocalError)) as problem:
            client.call_tool("a")
        assert not isinstance(problem.value, RequestTimeout)
        assert time.monotonic() - began < PATIENCE / 2
        assert resident() - before < 50 << 20
        goes_on(client)


@BOTH
@pytest.mark.parametrize(
    "handle",
    [
        pytest.param(endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), id="100 Continue"),
        pytest.param(endless(CHUNKED % b"application/json" + b"0\r\n", b"X: y\r\n" * 999), id="trailers"),
        pytest.param(endless(PLAIN % b"text/event-stream", b":\n\n" * 1000), id="comments"),
        pytest.param(endless(PLAIN % b"text/event-stream", b"data: {}\n\n" * 1000), id="events"),
        pytest.param(endless(PLAIN % b"text/event-stream", b"id: 1\n\n" * 1000), id="ids"),
    ],
)
def test_a_stream_that_never_comes_to_its_answer(revision: str, handle: Handler) -> None:
    """The deadline of the call ends it, however lively it is."""
    with bad(handle, revision) as (_site, client):
        before, began = resident(), time.monotonic()
        with pytest.raises((RequestTimeout, ConnectionClosed)):
            client.request("tools/call", {"name": "a"}, timeout=0.4)
        assert time.monotonic() - began < PATIENCE / 2
        assert resident() - before < 50 << 20
        goes_on(client)


# --------------------------------------------------------------------------------- packed answers


@functools.cache
def packed(size: int, coding: str) -> bytes:
    """So many blanks before a small object."""
    data = b" " * size + b"{}"
    return gzip.compress(data) if coding == "gzip" else zlib.compress(data)


@BOTH
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("media", [JSON, STREAM, "Content-Type: text/html"])
@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_bursts(revision: str, coding: str, media: str, status: int) -> None:
    """200 MiB in 200 KiB, which nobody has asked to be packed: only what is within the limit is unpacked."""
    bomb = packed(200 << 20, coding)

    def handle(request: Request, wire: Wire) -> None:
        wire.answer(status, bomb, media, f"Content-Encoding: {coding}")

    with bad(handle, revision, max_message_bytes=1_000_000) as (_site, client):
        before = resident()
        with pytest.raises((ConnectionClosed, InvalidResponse, LocalError)):
            client.call_tool("a")
        assert resident() - before < 50 << 20
        goes_on(client)


# ------------------------------------------------------------------------------------ error pages


@BOTH
@pytest.mark.parametrize("status", [200, 502])
def test_error_pages_that_leave_much_unfinished_hold_up_nothing_else(revision: str, status: int) -> None:
    """Ten at once, of nearly 64 KiB each: other requests are answered in time meanwhile."""
    page = b"Bad Gateway" + b"<!--" * 16_000
    failures: list[str] = []

    def handle(request: Request, wire: Wire) -> None:
        wire.answer(status, page, "Content-Type: text/html")

    with bad(handle, revision) as (_site, client):

        def call() -> None:
            with pytest.raises(HttpFailure) as problem:
                client.call_tool("a")
            failures.append(str(problem.value))

        calls = [threading.Thread(target=call) for _ in range(10)]
        for thread in calls:
            thread.start()
        while any(thread.is_alive() for thread in calls):
            client.ping(timeout=5)
    assert len(failures) == 10
    assert all("Bad Gateway" in said and len(said) < 500 for said in failures), failures[0]


# ------------------------------------------------------------ what is left over in a connection


@BOTH
@pytest.mark.parametrize(
    "more",
    [
        b"\r\n",
        b"x" * 1000,
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n{"jsonrpc":"2.0"'
        b',"id":4,"result":{"content":[],"forged":1}}',
    ],
    ids=["a line end", "bytes", "an answer", "a forged answer"],
)
def test_more_than_the_answer_is_not_taken_for_the_next_one(revision: str, more: bytes) -> None:
    def handle(request: Request, wire: Wire) -> None:
        body = json.dumps(result_of(request, text("right"))).encode()
        wire.send(
            b"HTTP/1.1 200 OK\r\n%b\r\nContent-Length: %d\r\n\r\n" % (JSON.encode(), len(body)) + body + more
        )

    with bad(handle, revision) as (_site, client):
        for _ in range(5):
            assert client.call_tool("a").text == "right"
        goes_on(client)


# --------------------------------------------------------------------- ids that fit into no header


@pytest.mark.parametrize(
    "event_id", ["é", "日本", "\x01", "a\x7fb", "\t", " x ", "😀", "x" * 100_000, "a: b", "%0d%0a"]
)
def test_an_event_id_that_fits_into_no_header(event_id: str) -> None:
    """The stream breaks after it. It is resumed with the id, or cannot be; nothing else goes wrong."""

    def handle(request: Request, wire: Wire) -> object:
        if request.method == "GET":
            if "last-event-id" not in request.headers:
                return wire.answer(405)
            wire.stream()
            wire.event({"jsonrpc": "2.0", "id": asked[0], "result": text("resumed")})
            return wire.end()
        if request.rpc != "tools/call":
            return hello(request, wire)
        asked.append(request.message["id"])
        wire.stream()
        wire.chunk(f"id: {event_id}\ndata:\n\n".encode())
        return wire.close()

    asked: list[Any] = []
    with talking(handle, OLD, session="s", get=True, timeout=PATIENCE) as (_site, client):
        try:
            assert client.call_tool("a").text == "resumed"
        except ConnectionClosed as problem:
            assert len(str(problem)) < 600
        goes_on(client)


# ------------------------------------------------------------------------------------------ floods


@BOTH
def test_a_flood_of_messages_in_one_stream(revision: str) -> None:
    """Answers to nobody, reports, log messages: what our callbacks cannot keep up with is dropped."""

    def handle(request: Request, wire: Wire) -> None:
        wire.stream()
        for number in range(0, 10_000, 100):
            piece = b""
            for n in range(number, number + 100):
                stray = {"jsonrpc": "2.0", "id": 10**6 + n, "result": {}}
                log = {"jsonrpc": "2.0", "method": "notifications/message"}
                log["params"] = {"level": "info", "data": n}
                piece += b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in (stray, log))
            wire.chunk(piece)
        wire.event(result_of(request, text("right")))
        wire.end()

    with bad(handle, revision, on_log=lambda *log: None) as (_site, client):
        assert client.call_tool("a").text == "right"
        goes_on(client)


def test_a_flood_of_questions_in_one_stream() -> None:
    """Each is answered once, by a POST of its own, with a result or with 429; then the call is answered."""
    answers: list[Json] = []
    all_there = threading.Event()

    def handle(request: Request, wire: Wire) -> object:
        if request.rpc is None:
            answers.append(request.message)
            if len(answers) == 500:
                all_there.set()
            return wire.answer(202)
        if request.rpc != "tools/call":
            return hello(request, wire)
        wire.stream()
        for number in range(500):
            wire.event({"jsonrpc": "2.0", "id": f"q{number}", "method": "vendor/ask"})
        assert all_there.wait(PATIENCE)
        wire.event(result_of(request, text("right")))
        return wire.end()

    with talking(handle, OLD, session="s", timeout=PATIENCE) as (_site, client):
        client.on_request("vendor/ask")(lambda params: {})
        assert client.call_tool("a").text == "right"
        assert len({answer["id"] for answer in answers}) == 500
        assert {answer.get("error", {}).get("code") for answer in answers} <= {None, 429}
        goes_on(client)


@BOTH
def test_messages_in_a_stream_that_are_none(revision: str) -> None:
    """The list of test_bad_input, as events: none of it is the end of the stream."""
    wrong = [
        b"\xff\xfe",
        b"hello",
        b"5",
        b"[]",
        b'[{"jsonrpc":"2.0","method":"x"}]',
        b"{}",
        b"[" * 10_000,
        b'{"a":' * 10_000,
        b'{"jsonrpc":"2.0","method":"x","params":{"a":1e400}}',
        b'{"jsonrpc":"2.0","method":"x","method":"y"}',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","method":5}',
        b'{"jsonrpc":"1.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"unknown/x","params":[]}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":5}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[],"progress":1}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    ]

    def handle(request: Request, wire: Wire) -> object:
        if request.rpc != "tools/call":
            return wire.answer(202) if "method" not in request.message else hello(request, wire)
        wire.stream()
        for each in wrong:
            wire.chunk(b"data: %b\n\n" % each * 3)
        wire.event(result_of(request, text("right")))
        return wire.end()

    with talking(handle, revision, session="s", timeout=PATIENCE) as (_site, client):
        assert client.call_tool("a").text == "right"
        goes_on(client)


def test_10000_cookies() -> None:
    """A server may set what it likes: what is sent back to it stays within the head of a request."""

    def handle(request: Request, wire: Wire) -> None:
        sizes.append(len(request.headers.get("cookie", "")))
        lines = [f"Set-Cookie: c{number}-{len(sizes)}={'x' * 50}" for number in range(90)]
        wire.result(request, text("hello"), *lines)

    sizes: list[int] = []
    with bad(handle, MODERN) as (_site, client):
        for _ in range(112):
            assert client.call_tool("a").text == "hello"
    assert 0 < max(sizes) < 16_384


# ------------------------------------------------------------------------------- comings and goings


def test_200_clients_that_come_and_go_while_their_server_misbehaves() -> None:
    """Each opens, calls, is let down in one way or another, and closes: nothing is left of any."""
    ways: list[Handler] = [
        hello,
        lambda request, wire: wire.close(),
        lambda request, wire: wire.reset(),
        lambda request, wire: wire.answer(500, b"<html>no</html>", "Content-Type: text/html"),
        lambda request, wire: wire.head(200, JSON, "Content-Length: 100"),
        lambda request, wire: wire.stream(),
    ]

    def handle(request: Request, wire: Wire) -> object:
        return ways[len(site.requests) % len(ways)](request, wire)

    site: Site
    with web(opened(handle, MODERN)) as site:
        before = open_files()

        def one(number: int) -> None:
            with connect(site.url, timeout=PATIENCE) as client, contextlib.suppress(McpError):
                client.request("tools/call", {"name": "a"}, timeout=0.2)

        for start in range(0, 200, 20):
            threads = [threading.Thread(target=one, args=(start + n,)) for n in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
        assert eventually(lambda: open_files() <= before)
