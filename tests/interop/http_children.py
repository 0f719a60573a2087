"""Servers over HTTP in processes of their own, and a line to them that can be cut.

serving("our_http_server.py", "our_server", "{}") as url    a child, from its first line to SIGTERM
Line(url)                                                   the same URL, until `cut`
connect_and_hear(url)                                       a client of ours whose GET stream is open
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from choices import for_connect
from peers import ENV, PATIENCE, eventually

from mcp_ref import Client, connect
from mcp_ref.basic.transports.streamable_http.sending import StreamableHttp

HERE = Path(__file__).parent

LIMITS = (0.5, 3.0, PATIENCE)
"""Seconds of a call that is to be given up while it runs: more of them if it had not begun by then."""


@contextlib.contextmanager
def serving(script: str, *arguments: str, env: dict[str, str] | None = None, ends: int = 0) -> Iterator[str]:
    """Start it, and end it as a supervisor would; it has to go at once, with the exit code `ends`."""
    command = [sys.executable, str(HERE / script), *arguments]
    with tempfile.TemporaryFile("w+") as stderr:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, **ENV, **(env or {})},
            text=True,
        )
        assert child.stdout is not None
        try:
            ready, _, _ = select.select([child.stdout], [], [], PATIENCE)
            url = child.stdout.readline().strip() if ready else ""
            if not url.startswith("http"):
                stderr.seek(0)
                raise AssertionError(f"{script} did not start: {stderr.read()[-2000:]}")
            yield url
        finally:
            child.terminate()
            try:
                code = child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                code = child.wait()
            child.stdout.close()
        stderr.seek(0)
        assert code == ends, f"{script} ended with {code}: {stderr.read()[-2000:]}"


def connect_and_hear(url: str, **options: Any) -> Client:
    """As `connect`. It returns when the stream of the GET is open, if there is one: what the SDK's server
    sends on that stream before, its questions among it, is lost.
    """
    client = connect(url, **for_connect(**options))
    sender = client.asker.connection.outbox
    if isinstance(sender, StreamableHttp) and sender.background is not None:
        way = sender.background._way
        assert eventually(lambda: way._exchange is not None and way._exchange.status)
    return client


_REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.1\r\n((?:[^\r\n]+\r\n)+)\r\n")


class Sent(NamedTuple):
    """A request that went over a line. `headers` by lower-case name."""

    method: str
    path: str
    headers: dict[str, str]


class Line:
    """Connections to a server by way of this process; `cut` ends those that there are, all at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._target = (parts.hostname, parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._sent: list[bytearray] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{parts.path}"
        self._run(self._accept)

    def _run(self, run: Callable[..., None], *arguments: socket.socket) -> threading.Thread:
        thread = threading.Thread(target=run, args=arguments, name="line", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._run(self._connect, near)

    def _connect(self, near: socket.socket) -> None:
        with near, socket.create_connection(self._target) as far:
            record = bytearray()
            with self._lock:
                self._ends += [near, far]
                self._sent.append(record)
            back = self._run(self._copy, far, near)
            self._copy(near, far, record)
            back.join()
            with self._lock:
                self._ends = [end for end in self._ends if end not in (near, far)]

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket, record: bytearray | None = None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if record is not None:
                    record += data
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def sent(self, method: str = "") -> list[Sent]:
        """The requests that went over it, of all connections one after another."""
        with self._lock:
            heads = [match.groups() for record in self._sent for match in _REQUEST.finditer(bytes(record))]
        found = []
        for name, path, lines in heads:
            pairs = (line.split(": ", 1) for line in lines.decode("latin-1").splitlines())
            found.append(Sent(name.decode(), path.decode(), {key.lower(): value for key, value in pairs}))
        return [one for one in found if method in (one.method, "")]

    @property
    def opened(self) -> int:
        """How many connections there have been."""
        return len(self._sent)

    def cut(self) -> None:
        """As if somebody had stepped on the cable. New connections go through."""
        with self._lock:
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in list(self._threads):
            thread.join(PATIENCE)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
