"""The embedded HTTP/1.1 server: any WSGI application, a thread a connection, kept open between requests.

werkzeug's threaded server listens and accepts. What happens on a connection is ours: werkzeug's own
handler closes it after each answer, has no limits, and parses a head as if it were an e-mail
(:mod:`mcp_ref.runtime.http_server.connection`).

    HttpServer(app, port=8000)     listens
    .serve()                       accepts until `.stop()`, which any thread may call, or a signal's handler
    .close(seconds)                lets requests end that long, then ends their connections

Limits      `max_connections`: one more gets a short 503. A head of `max_header_bytes`; `idle` seconds
            between requests, `patience` for a request to arrive, `stall` for a client to read.
            `max_body_bytes` holds for chunked bodies, and for what is read and thrown away so that a
            client that still sends gets to see its answer; what a body may be is the application's.
Errors      OSError where the address cannot be had. `mcp_ref.http` logs: what fails in an application
            with its traceback, what happens to connections at DEBUG.
Threads     whoever calls `serve` accepts, and refuses. Each connection has a thread, `mcp_ref http N`,
            that reads, runs the application, and writes.
POSIX       the kernel's own time-outs of sockets are used; this module does not run on Windows.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from collections import deque
from typing import Any
from weakref import WeakSet
from wsgiref.types import WSGIApplication

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler, select_address_family

from mcp_ref.runtime.http_server.connection import HttpConnection
from mcp_ref.runtime.http_server.response import plain
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.signals import Uninterrupted

__all__ = ["HttpServer"]

_log = logger("mcp_ref.http")

SHORT = 1.0
"""Seconds for which a connection that was refused stays open, so that its client can read why."""

REFUSED = 64
"""Connections that were refused and are still open."""

LAST = 1.0
"""Seconds in which threads whose connections were shut are to end."""


class HttpServer:
    """Listens from the start; serves while `serve` runs."""

    def __init__(
        self,
        app: WSGIApplication,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        max_connections: int = 1000,
        idle: float = 30.0,
        patience: float = 10.0,
        stall: float = 60.0,
        max_header_bytes: int = 65536,
        max_body_bytes: int = 256 << 20,
        backlog: int = 1024,
    ) -> None:
        self.app = app
        self.max_connections = max_connections
        self.idle = idle
        self.patience = patience
        self.stall = stall
        self.max_header_bytes = max_header_bytes
        self.max_body_bytes = max_body_bytes
        self.is_closing = False
        self.running: set[socket.socket] = set()
        """The connections that are in a request."""
        self._served = threading.Event()
        self._served.set()
        with _listen(host, port, backlog) as listening:
            self._listener = _Listener(self, host, port, listening.fileno())
        self.host = host
        self.port = self._listener.port

    @property
    def is_serving(self) -> bool:
        """Whether `serve` runs."""
        return not self._served.is_set()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._listener.threads)

    def serve(self) -> None:
        """Accept connections until `stop`; Ctrl-C counts as one."""
        if self.is_closing:
            return
        self._served.clear()
        try:
            self._listener.serve_forever()
        except _Stopped:
            pass
        finally:
            self._served.set()

    def stop(self) -> None:
        """Accept no more. Returns at once; the connections there are go on."""
        self._listener.stop()

    def close(self, seconds: float = 3.0) -> None:
        """Stop, give the requests that run so many seconds, and end all connections."""
        self.is_closing = True
        self.stop()
        self._served.wait(LAST)
        self._listener.server_close()
        end = time.monotonic() + seconds
        self._listener.shut(socket.SHUT_RD, idle_only=True)
        if not self._listener.join(end):
            self._listener.shut(socket.SHUT_RDWR)
            if not self._listener.join(time.monotonic() + LAST):
                _log.warning("%d connections are still in a request that does not end", self.connections)


def _listen(host: str, port: int, backlog: int) -> socket.socket:
    # werkzeug, left to do this, would end the process where the address is in use.
    if not 0 <= port <= 65535:
        raise ValueError(f"a port is a number up to 65535, not {port}")
    family = select_address_family(host, port)
    try:
        address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
        return socket.create_server(address, family=family, backlog=backlog)
    except (OSError, UnicodeError) as problem:
        number = getattr(problem, "errno", errno.EINVAL)
        why = "the port is in use" if number == errno.EADDRINUSE else str(problem)
        raise OSError(number, f"cannot listen on {host}, port {port}: {why}") from problem


class _Stopped(Exception):
    """Ends the loop that accepts, from within: its own `shutdown` must not be called on its own thread."""


class _Handler(WSGIRequestHandler):
    """What werkzeug's server makes of a socket; all the rest of it is ours."""

    protocol_version = "HTTP/1.1"
    server: _Listener

    def setup(self) -> None:
        pass

    def handle(self) -> None:
        HttpConnection(self.request, self.client_address, self.server.owner).run()

    def finish(self) -> None:
        pass


class _Listener(ThreadedWSGIServer):
    """Accepts, counts, refuses."""

    def __init__(self, owner: HttpServer, host: str, port: int, descriptor: int) -> None:
        self.owner = owner
        self.threads: dict[socket.socket, threading.Thread] = {}
        self._changed = threading.Condition()  # guards `threads`: whoever is in it has not closed its socket
        self._refused: deque[tuple[float, socket.socket]] = deque()
        self._started: WeakSet[threading.Thread] = WeakSet()
        self._stopped = False
        self._numbered = 0
        super().__init__(host, port, owner.app, _Handler, fd=descriptor)
        forks.tell(self)

    def forked(self) -> None:
        """In a forked child, while the parent serves: the child's copies of the sockets are closed."""
        self._changed = threading.Condition()
        if not self.owner.is_serving:
            return
        for connection in list(self.threads):
            connection.close()
        self.threads.clear()
        self.socket.close()

    # -- the loop that accepts

    def stop(self) -> None:
        self._stopped = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the loop

    def service_actions(self) -> None:
        """After each turn of the loop, at least every half second."""
        now = time.monotonic()
        while self._refused and (self._stopped or self._refused[0][0] < now):
            self._refused.popleft()[1].close()
        if self._stopped:
            raise _Stopped

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as problem:
            if problem.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                _log.warning("cannot accept a connection: %s", problem)
                with self._changed:
                    self._changed.wait(0.2)  # the end of a connection is what helps
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """A new connection. Ctrl-C waits until its thread is known: else `join` would not wait for it."""
        with Uninterrupted():
            self._accept(request, client_address)

    def _accept(self, request: socket.socket, client_address: Any) -> None:
        self._numbered += 1
        name = f"mcp_ref http {self._numbered}"
        arguments = request, client_address
        thread = threading.Thread(target=self.process_request_thread, args=arguments, name=name, daemon=True)
        with self._changed:
            full = len(self.threads) >= self.owner.max_connections
            if not full:
                self.threads[request] = thread
        if full:
            self._refuse(request, f"{self.owner.max_connections} connections are open")
            return
        try:
            thread.start()
            self._started.add(thread)
        except RuntimeError as problem:  # the system has no more threads to give
            self._forget(request)
            self._refuse(request, str(problem))

    def shutdown_request(self, request: Any) -> None:
        """After Ctrl-C in `process_request`: a connection that has a thread is ended by `close`."""
        with self._changed:
            has_thread = request in self.threads
        if not has_thread:
            super().shutdown_request(request)

    def _refuse(self, request: socket.socket, why: str) -> None:
        _log.debug("connection refused: %s", why)
        answer = plain("503 Service Unavailable", "too many connections", "Retry-After: 1")
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(answer)
            request.shutdown(socket.SHUT_WR)
        # Closed at once, it would be reset by the request that is just arriving, and the answer lost.
        self._refused.append((time.monotonic() + SHORT, request))
        if len(self._refused) > REFUSED:
            self._refused.popleft()[1].close()

    def server_close(self) -> None:
        while self._refused:
            self._refused.popleft()[1].close()
        super().server_close()

    # -- the connections

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            _log.exception("a connection failed")
        finally:
            self._forget(request)
            request.close()

    def _forget(self, request: socket.socket) -> None:
        with self._changed:
            self.threads.pop(request, None)
            self.owner.running.discard(request)
            self._changed.notify_all()

    def shut(self, how: int, *, idle_only: bool = False) -> None:
        """Let connections see their end, those that are in no request or all."""
        with self._changed:
            for connection in list(self.threads):
                if not (idle_only and connection in self.owner.running):
                    with contextlib.suppress(OSError):
                        connection.shutdown(how)

    def join(self, end: float) -> bool:
        """Wait until no thread is left, also of those whose connection has ended just now."""
        for thread in list(self._started):
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
                if thread.is_alive():
                    return False
        return True
