"""Bodies that would cost much more memory, or time, than they have bytes.

The server runs in a child process, whose peak of memory the system tells (VmHWM). While the bodies come,
another client calls a tool again and again, and is answered each time.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from http_faults import ERAS, OLD, added, standing
from http_peers import Peer, RawHttp, Reply, chunks
from peers import MODERN, PATIENCE, eventually
from test_http_faults import head
from test_http_faults_load import together
from test_http_faults_process import Child, child

from mcp_ref import HttpOptions, Server, ServerOptions
from mcp_ref.basic.index.messages import decode
from mcp_ref.basic.transports.streamable_http import security
from mcp_ref.basic.transports.streamable_http.security import Denied, read_body

BOTH = pytest.mark.parametrize("revision", ERAS)

MIB = 1 << 20
LIMIT = 4 * MIB


def peak(of: Child) -> int:
    """Bytes of memory that the child ever had in use."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{of.process.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def full_of(part: bytes, size: int) -> bytes:
    """An array of so many bytes."""
    count = (size - 1) // (len(part) + 1)
    return b"[" + b",".join([part] * count) + b"]"


def status_of(port: int, peer: Peer, body: bytes) -> int:
    """Of the answer to a POST of this body, on a connection of its own."""
    with RawHttp(port) as client:
        message = peer.message("tools/call", {"name": "add"})
        try:
            client.send(head(peer, message, f"Content-Length: {len(body)}"))
            client.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # nobody reads it any more: then there is an answer
        return client.response().status


class Pings(threading.Thread):
    """A client that asks `ping` again and again, and counts what it is answered."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.statuses: Counter[int] = Counter()
        self._peer = peer
        self._over = threading.Event()

    def run(self) -> None:
        with RawHttp(self._peer.port) as connection:
            while not self._over.is_set():
                call = self._peer.call("add", {"a": 1, "b": 1}, on=connection)
                self.statuses[call.status] += 1
                call.body()

    def __enter__(self) -> Pings:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self.join(PATIENCE)
        assert not self.is_alive()


@BOTH
@pytest.mark.parametrize("part", [b"[]", b"{}", b'{"a":1}', b'""'], ids=lambda part: part.decode())
def test_bodies_of_many_small_parts_cost_little_memory_and_hold_up_no_other_client(
    revision: str, part: bytes
) -> None:
    with child() as at, Peer(at.port, revision) as peer, Peer(at.port, revision) as other:
        assert added(peer) == "42"
        before = peak(at)
        with Pings(other) as pings:
            just_allowed, far_beyond = full_of(part, LIMIT), full_of(part, 62 * MIB)
            assert together(6, lambda number: status_of(at.port, peer, just_allowed)) == [400] * 6
            assert together(2, lambda number: status_of(at.port, peer, far_beyond)) == [413] * 2
        assert peak(at) - before < 150 * MIB
        assert set(pings.statuses) == {200}
        at.end()


# --------------------------------------------------------------------- all bodies under way together


LARGE = 100_000
"""Bytes of a body that needs its share of what may be under way together."""


def holding(peer: Peer, size: int = LARGE, *, chunked: bool = False) -> RawHttp:
    """A call with a body of so many bytes, which is held; the connection on which its answer will come."""
    message = peer.message("tools/call", {"name": "hold", "arguments": {}})
    body = json.dumps(message).encode().ljust(size)
    line = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    return peer.connect().send(head(peer, message, line) + (chunks(body) if chunked else body))


@BOTH
@pytest.mark.parametrize("chunked", [False, True], ids=["sized", "chunked"])
def test_a_large_body_beyond_the_bytes_in_flight_is_503_before_it_is_read(
    revision: str, chunked: bool
) -> None:
    with (
        standing(max_body_bytes=2 * LARGE, max_bytes_in_flight=3 * LARGE) as at,
        at.peer(revision) as peer,
        at.peer(revision) as other,
    ):
        held = [holding(peer, chunked=chunked) for _ in range(2)]
        assert at.seen.all_begun(2)
        assert at.app.bodies.taken == 2 * LARGE
        with at.raw() as client:
            message = other.message("tools/call", {"name": "hold"})
            client.send(head(other, message, f"Content-Length: {LARGE + 1}"))
            with Reply(client, keep=True) as reply:
                assert reply.status == 503
                assert int(reply.headers["retry-after"]) > 0
                assert f"{2 * LARGE} of {3 * LARGE} bytes" in reply.json()["error"]["message"]
        assert added(other) == "42"  # a small one is always served
        at.seen.go.set()
        for connection in held:
            assert Reply(connection).answer()["result"]["content"][0]["text"] == "held"
        assert eventually(lambda: at.app.bodies.taken == 0)
        assert Reply(holding(other, 2 * LARGE)).answer()["result"]["content"][0]["text"] == "held"


@BOTH
def test_a_body_in_chunks_is_503_once_there_is_no_room_for_more_of_it(revision: str) -> None:
    with (
        standing(max_body_bytes=2 * LARGE, max_bytes_in_flight=2 * LARGE) as at,
        at.peer(revision) as peer,
        at.raw() as client,
    ):
        held = holding(peer)
        assert at.seen.all_begun()
        message = peer.message("tools/call", {"name": "hold"})
        piece = b" " * 1000
        client.send(head(peer, message, "Transfer-Encoding: chunked"))
        client.send(chunks(*[piece] * 66)[: -len(chunks())])
        assert client.response().status == 503
        at.seen.go.set()
        assert Reply(held).answer()["result"]["content"][0]["text"] == "held"


def test_the_body_of_a_call_counts_until_the_call_ends_though_its_client_left() -> None:
    """In the legacy era a client that leaves has not cancelled: its message stays in memory."""
    with (
        standing(max_body_bytes=LARGE, max_bytes_in_flight=LARGE) as at,
        at.peer(OLD) as peer,
    ):
        holding(peer).close()
        assert at.seen.all_begun()
        assert eventually(lambda: not at.app.attendant.watched)
        assert at.app.bodies.taken == LARGE
        with Reply(holding(peer)) as reply:
            assert reply.status == 503
        at.seen.go.set()
        assert eventually(lambda: at.app.bodies.taken == 0)


@BOTH
@pytest.mark.parametrize("batch", [False, True], ids=["message", "batch"])
def test_a_body_that_is_refused_leaves_its_share(revision: str, batch: bool) -> None:
    with standing(max_body_bytes=LARGE, max_bytes_in_flight=LARGE) as at, at.peer(revision) as peer:
        for _ in range(5):
            message = peer.message("no/such/method")
            body = json.dumps([message] if batch else message).encode().ljust(LARGE)
            with peer.post(body, MCP_Protocol_Version=peer.revision, Mcp_Method="no/such/method") as reply:
                assert reply.status == (400 if batch else 404 if revision == MODERN else 200)
                assert "error" in reply.json()
            assert eventually(lambda: at.app.bodies.taken == 0)


@pytest.mark.parametrize(("wrong", "status"), [("another", 404), ("gone", 404), ("version", 400)])
def test_a_session_is_looked_at_before_a_large_body_is_read(wrong: str, status: int) -> None:
    with standing() as at, at.peer(OLD) as peer, at.raw() as client:
        message = peer.message("tools/call", {"name": "add"})
        if wrong == "another":
            peer.more["Mcp-Session-Id"] = "another"
        elif wrong == "gone":
            assert peer.delete() == 204
        else:
            peer.more["MCP-Protocol-Version"] = "2001-01-01"
        found = {**peer.headers(message), **peer.more, "Content-Length": LARGE}
        lines = [f"{name}: {value}" for name, value in found.items()]
        text = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "\r\n"]).encode()
        with Reply(client.send(text), keep=True) as reply:  # of the body nothing is sent
            assert reply.status == status
        peer.more.clear()


@BOTH
@pytest.mark.parametrize(
    ("line", "status"),
    [("Content-Type: text/plain", 415), ("Accept: text/html", 406), ("Authorization: Bearer wrong", 401)],
)
def test_the_headers_are_looked_at_before_a_large_body_is_read(revision: str, line: str, status: int) -> None:
    def authenticate(request: Any) -> str:
        if request.headers.get("Authorization") == "Bearer wrong":
            raise Denied("wrong token")
        return "somebody"

    with standing(authenticate=authenticate) as at, at.peer(revision) as peer, at.raw() as client:
        message = peer.message("tools/call", {"name": "add"})
        name, value = line.split(": ")
        found = {**peer.headers(message), name: value, "Content-Length": LARGE}
        lines = [f"{name}: {value}" for name, value in found.items() if value is not None]
        text = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "\r\n"]).encode()
        with Reply(client.send(text), keep=True) as reply:  # of the body nothing is sent
            assert reply.status == status


@BOTH
def test_large_bodies_become_messages_one_after_the_other(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other thread runs while one does: between two of them, those who wait for a turn have theirs."""
    read, inside, go = [], [], threading.Event()
    most = 0

    def reading(*arguments: Any) -> bytes:
        body = read_body(*arguments)
        read.append(len(body))
        return body

    def decoding(body: bytes, max_parts: int) -> Any:
        nonlocal most
        if len(body) < LARGE:
            return decode(body, max_parts)
        inside.append(body)
        most = max(most, len(inside))
        assert go.wait(PATIENCE)
        inside.remove(body)
        return decode(body, max_parts)

    monkeypatch.setattr(security, "read_body", reading)
    monkeypatch.setattr(security, "decode", decoding)
    with standing() as at, at.peer(revision) as peer, at.peer(revision) as other:
        at.seen.go.set()
        waiting = [holding(peer) for _ in range(4)]
        assert eventually(lambda: read.count(LARGE) == 4)
        assert added(other) == "42"  # a small one waits for none of them
        go.set()
        for connection in waiting:
            assert Reply(connection).answer()["result"]["content"][0]["text"] == "held"
    assert most == 1


def test_the_bytes_in_flight_are_no_fewer_than_one_body_may_have() -> None:
    server = Server("tests")
    with pytest.raises(ValueError, match="max_bytes_in_flight"):
        server.wsgi_app(options=HttpOptions(max_body_bytes=1000, max_bytes_in_flight=999))
    assert server.wsgi_app().bodies.limit == 8 * LIMIT
    assert server.wsgi_app(options=HttpOptions(max_body_bytes=1000)).bodies.limit == 8000
    assert server.wsgi_app(options=HttpOptions(max_bytes_in_flight=LIMIT)).bodies.limit == LIMIT
    assert Server("tests", options=ServerOptions(max_message_bytes=1000)).wsgi_app().bodies.one == 1000
