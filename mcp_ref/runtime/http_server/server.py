"""The embedded HTTP/1.1 server: any WSGI application, a thread for each connection, which stays open.

    HttpServer(app, port=8000)     listens
    .serve()                       accepts until `.stop()`, which any thread and any signal handler may call
    .close(seconds)                lets requests run that long, then closes all connections

Why not werkzeug's own server, although werkzeug is a dependency: it closes a connection after each response,
has no limits, and parses a head as if it were an e-mail. And why a thread for each connection, not a
selector: the application blocks, so each request needs a thread anyway, and an idle connection costs only a
stack that is hardly touched.

Limits      `Limits` in runtime/http_server/receiving. A connection beyond `max_connections` gets a short 503.
Errors      OSError if the address cannot be used. `mcp_ref.http` logs the failure of an application with its
            traceback, and at DEBUG what happens to connections.
Threads     the caller of `serve` accepts, and refuses. Each connection has a thread, `mcp_ref http N`, that
            reads, runs the application, and writes. `_changed` guards the table of open connections. A
            thread takes its socket out of the table before it closes it, so `close` never shuts a descriptor
            that the system has given to another socket.
POSIX       time-outs are set in the kernel; this module does not run on Windows.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import threading
import time
from collections import deque
from typing import Any
from weakref import WeakSet
from wsgiref.types import WSGIApplication

from mcp_ref.runtime.http_server.connection import HttpConnection
from mcp_ref.runtime.http_server.receiving import Limits
from mcp_ref.runtime.http_server.response import short_response
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.signals import Uninterrupted

__all__ = ["HttpServer"]

_log = logger("mcp_ref.http")

REFUSED_OPEN_SECONDS = 1.0
"""Seconds that a refused connection stays open, so that its client can read why it was refused."""
MAX_REFUSED_OPEN = 64
"""The most refused connections that stay open at once; beyond that the oldest is closed."""
BACKLOG = 1024
"""The most connections that the system queues until they are accepted."""
LOOK_SECONDS = 0.5
"""The longest time, in seconds, between two looks for refused connections that must be closed."""
NO_RESOURCES_SECONDS = 0.2
"""Seconds before the next attempt to accept, when the system has no descriptor or no memory left."""
JOIN_SECONDS = 1.0
"""Seconds that `close` waits for `serve` to return, and for the threads of connections that it has shut."""

DEFAULT_LIMITS = Limits()

_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class HttpServer:
    """An HTTP server: it listens from its creation, and answers while `serve` runs."""

    def __init__(
        self, app: WSGIApplication, host: str = "127.0.0.1", port: int = 8000, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.app = app
        self.limits = limits
        self.is_closing = False
        self.running: set[socket.socket] = set()
        """The sockets of connections that are serving a request."""
        self._listener = _listen(host, port)
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self._is_stopped = False
        self._not_serving = threading.Event()
        self._not_serving.set()
        self._changed = threading.Condition()
        self._threads: dict[socket.socket, threading.Thread] = {}  # guarded by _changed: open connections
        # `close` waits for the threads in here: they leave the table above a moment before they end.
        self._started: WeakSet[threading.Thread] = WeakSet()
        self._count = 0
        # When to close each refused connection, and the connection. Used by the thread that accepts, and by
        # `close` after that.
        self._refused: deque[tuple[float, socket.socket]] = deque()
        forks.register(self)

    @property
    def is_serving(self) -> bool:
        return not self._not_serving.is_set()

    @property
    def connections(self) -> int:
        return len(self._threads)

    def forked(self) -> None:
        """In a forked child, close the copies of the sockets; the parent goes on serving on its own."""
        self._changed = threading.Condition()
        if not self.is_serving:
            return
        for connection in list(self._threads):
            connection.close()
        self._threads.clear()
        self._listener.close()

    def serve(self) -> None:
        """Accept connections until `stop` is called or Ctrl-C is pressed."""
        if self.is_closing:
            return
        self._not_serving.clear()
        try:
            listening = select.poll()
            listening.register(self._listener, select.POLLIN)
            while not self._is_stopped:
                if listening.poll(LOOK_SECONDS * 1000):
                    # A signal has to wait until the thread is in the table, or `close` would not wait for it.
                    with Uninterrupted():
                        self._accept()
                self._close_refused(time.monotonic())
        except KeyboardInterrupt:
            pass
        finally:
            self._stop_listening()
            self._not_serving.set()

    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
        except OSError as problem:  # also if the client has left already, or `stop` woke the loop
            if problem.errno in _NO_RESOURCES:
                _log.warning("cannot accept a connection: %s", problem)
                with self._changed:  # until a connection ends, which gives resources back
                    self._changed.wait(NO_RESOURCES_SECONDS)
            return
        if self.connections >= self.limits.max_connections:
            self._refuse(connection, f"{self.connections} connections are open")
            return
        self._count += 1
        thread = threading.Thread(
            target=self._run, args=(connection, address), name=f"mcp_ref http {self._count}", daemon=True
        )
        with self._changed:
            self._threads[connection] = thread
        try:
            thread.start()
            self._started.add(thread)
        except RuntimeError as problem:  # the system has no more threads
            self._forget(connection)
            self._refuse(connection, str(problem))

    def _refuse(self, connection: socket.socket, reason: str) -> None:
        _log.debug("connection refused: %s", reason)
        answer = short_response("503 Service Unavailable", "too many connections", "Retry-After: 1")
        with contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(answer)
            connection.shutdown(socket.SHUT_WR)
        # Not closed yet: a request that arrives on a closed socket causes a reset, and the answer is lost.
        self._refused.append((time.monotonic() + REFUSED_OPEN_SECONDS, connection))
        if len(self._refused) > MAX_REFUSED_OPEN:
            self._refused.popleft()[1].close()

    def _close_refused(self, until: float) -> None:
        while self._refused and self._refused[0][0] <= until:
            self._refused.popleft()[1].close()

    def _run(self, connection: socket.socket, address: Any) -> None:
        try:
            HttpConnection(connection, address, self).run()
        except Exception:
            _log.exception("a connection failed")
        finally:
            self._forget(connection)
            connection.close()

    def _forget(self, connection: socket.socket) -> None:
        with self._changed:
            self._threads.pop(connection, None)
            self.running.discard(connection)
            self._changed.notify_all()

    def stop(self) -> None:
        """Accept no more connections. Returns at once; open connections go on."""
        self._is_stopped = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the loop

    def close(self, seconds: float = 3.0) -> None:
        """Stop, let requests run for up to `seconds`, then close all connections."""
        # Step 1: accept no more; from now on each response says that its connection will be closed.
        self.is_closing = True
        self.stop()
        self._not_serving.wait(JOIN_SECONDS)
        self._stop_listening()
        # Step 2: shut the connections without a request for reading: their threads end.
        end = time.monotonic() + seconds
        self._shut(socket.SHUT_RD, idle_only=True)
        if self._join(end):
            return
        # Step 3: the time of the others is up.
        self._shut(socket.SHUT_RDWR)
        if not self._join(time.monotonic() + JOIN_SECONDS):
            _log.warning("%d connections are still in a request that does not end", self.connections)

    def _stop_listening(self) -> None:
        self._close_refused(float("inf"))
        self._listener.close()

    def _shut(self, how: int, *, idle_only: bool = False) -> None:
        with self._changed:
            for connection in list(self._threads):
                if not (idle_only and connection in self.running):
                    with contextlib.suppress(OSError):
                        connection.shutdown(how)

    def _join(self, end: float) -> bool:
        """Wait for the threads of all connections until `end`. Returns whether they have ended."""
        for thread in list(self._started):
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
                if thread.is_alive():
                    return False
        return True


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ValueError(f"a port is a number up to 65535, not {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as problem:
        number = getattr(problem, "errno", errno.EINVAL)
        reason = "the port is in use" if number == errno.EADDRINUSE else str(problem)
        raise OSError(number, f"cannot listen on {host}, port {port}: {reason}") from problem
    listener.setblocking(False)  # `accept` must not wait if the client has left since `poll`
    return listener
