"""A proxy between client and server that ends connections on which nothing is said.

Many do that after 60 s. It is what the comments of an event stream are for (`keep_alive`).
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from http_faults import ERAS, listen, standing
from http_peers import Peer
from peers import MODERN, PATIENCE, eventually

BOTH = pytest.mark.parametrize("revision", ERAS)


CLOSES = 3.0
"""What are 60 s in the world; the keep-alive is a thirtieth of it, which a busy machine needs."""


class Proxy:
    """Hands on what both sides say; where the server is silent for `limit` seconds, it ends both."""

    def __init__(self, port: int, limit: float) -> None:
        self.limit = limit
        self.ended = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._carry, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _carry(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._target))
        with client, server, contextlib.suppress(ConnectionError):
            heard = time.monotonic()
            while True:
                left = heard + self.limit - time.monotonic()
                ready, _, _ = select.select([client, server], [], [], max(0.0, left))
                if not ready:
                    self.ended += 1
                    return
                for source, target in ((client, server), (server, client)):
                    if source in ready:
                        data = source.recv(65536)
                        if not data:
                            return
                        target.sendall(data)
                        heard = time.monotonic()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)


@contextlib.contextmanager
def proxy(port: int, limit: float) -> Iterator[Proxy]:
    found = Proxy(port, limit)
    try:
        yield found
    finally:
        found.close()


@BOTH
@pytest.mark.parametrize("answers", ["auto", "stream"])
def test_a_proxy_that_closes_at_60_s(revision: str, answers: str) -> None:
    """At 3 s here. A call that is silent for longer is kept alive by comments, and answered."""
    with (
        standing(answers=answers, keep_alive=0.1) as at,
        proxy(at.port, CLOSES) as between,
        Peer(between.port, revision) as peer,
        peer.call("hold") as reply,
    ):
        begun = time.monotonic()
        while time.monotonic() - begun < CLOSES * 1.2:
            block = reply.block()
            assert block is not None
            assert block.data is None or block.data == ""
        at.seen.go.set()
        assert reply.answer()["result"]["content"][0]["text"] == "held"
        assert between.ended == 0
        assert peer.session is None or peer.delete() == 204


@BOTH
def test_a_proxy_that_closes_at_60_s_where_answers_are_json_alone(revision: str) -> None:
    """Nothing keeps that alive: the client sees the end, and a modern server the cancellation."""
    with (
        standing(answers="json", keep_alive=0.1) as at,
        proxy(at.port, CLOSES) as between,
        Peer(between.port, revision) as peer,
    ):
        connection = peer.send("POST", peer.message("tools/call", {"name": "hold"}))
        assert connection.ended()
        assert between.ended >= 1
        if revision == MODERN:
            assert at.seen.cancelled.acquire(timeout=PATIENCE)
        else:
            assert eventually(lambda: not at.app.attendant.watched)
            assert not at.seen.cancelled.acquire(blocking=False)
            at.seen.go.set()
            assert at.seen.finished.acquire(timeout=PATIENCE)
            assert peer.delete() == 204


@BOTH
def test_a_proxy_that_closes_a_stream_that_lasts(revision: str) -> None:
    """GET and subscriptions/listen outlive it as well."""
    with (
        standing(keep_alive=0.1) as at,
        proxy(at.port, CLOSES) as between,
        Peer(between.port, revision) as peer,
        listen(peer) as stream,
    ):
        begun = time.monotonic()
        while time.monotonic() - begun < CLOSES * 1.2:
            assert stream.block() is not None
        assert between.ended == 0
        assert peer.session is None or peer.delete() == 204
