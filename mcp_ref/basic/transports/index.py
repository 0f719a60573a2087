"""In memory (page: basic/transports/index, "Custom Transports"): client and server in one process.

A pair of connected sockets with the framing of stdio between two threads: what crosses it is the
same bytes that a pipe would carry, so that nothing behaves differently here.

    set-up          `Link(server)` starts the server's half; the client reads with `read`
    framing         one message a line, UTF-8 (basic/transports/stdio)
    cancellation    notifications/cancelled, as on stdio
    end             either side closes its socket
    # spec: basic/transports/index/custom-document, basic/transports/index/custom-preserve-patterns
    # spec: basic/transports/index/custom-preserve-lifecycle, basic/transports/index/custom-transports
    # spec: basic/transports/index/custom-reuse-stdio-framing

Threads     `mcp_ref memory server` reads for the server until `close`; workers answer.
"""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.transports.stdio.framing import Writer, read_lines
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.typing.mismatch import message_of

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import WayOut
    from mcp_ref.runtime.limits import Limit
    from mcp_ref.runtime.threads.shared import Shared

__all__ = ["Link", "Served", "ServedOptions"]

_log = logger("mcp_ref.memory")


class ServedOptions(Protocol):
    """Options of a server about its clients."""

    @property
    def max_message_bytes(self) -> int:
        """Bytes of the longest message that is read."""

    @property
    def notices(self) -> Limit | None:
        """Progress and log messages that one connection may be sent."""

    @property
    def ping_every(self) -> float | None:
        """Seconds after which a client is pinged, if it is."""


class Served(Protocol):
    """What a transport needs of the server that it serves to one client."""

    @property
    def options(self) -> ServedOptions: ...

    @property
    def lifespan(self) -> Shared[Any]:
        """What is entered while it is served."""

    def attach(self, outbox: WayOut) -> Connection:
        """A new client, which is sent its messages by `outbox`."""

    def hang_up(self, connection: Connection, seconds: float) -> None:
        """A client sends no more requests: end what is open, and let what runs finish for a while."""

    def detach(self, connection: Connection, reason: str) -> None:
        """A client is gone, or is left."""


class Link:
    """A server in this process, as a client sees it."""

    def __init__(self, server: Served) -> None:
        self._server = server
        self._problem: Exception | None = None
        self.peer_drained_input = self.crashed = False  # a server in this process cannot be started again
        self._ours, self._theirs = socket.socketpair()
        self.write = Writer(self._ours.fileno())
        self._thread = threading.Thread(target=self._serve, name="mcp_ref memory server", daemon=True)
        self._closing = threading.Lock()  # held while our socket is shut or closed
        forks.register(self)
        self._thread.start()

    def forked(self) -> None:
        """Close a forked child's copies of the sockets: no thread is there to serve them."""
        self._closing = threading.Lock()
        self._ours.close()
        self._theirs.close()

    def _serve(self) -> None:
        try:
            self._serve_one()
        except Exception as problem:
            _log.exception("the server in this process could not serve")
            self._problem = problem
        finally:
            self._theirs.close()

    def _serve_one(self) -> None:
        server, limit = self._server, self._server.options.max_message_bytes
        with server.lifespan.used():
            write = Writer(self._theirs.fileno())
            connection = server.attach(Outbox(write))
            connection.lose = functools.partial(self._lose, connection)

            try:
                descriptor = self._theirs.fileno()
                read_lines(descriptor, connection.receive, connection.too_long, limit, _arrives(self._theirs))
            finally:
                server.detach(connection, "the client closed the connection")
                write.close(0.5)

    def _lose(self, connection: Connection, reason: str) -> None:
        """The client does not answer any more: then nothing that it still says counts."""
        connection.fail(reason)
        with contextlib.suppress(OSError):  # it went just now
            self._theirs.shutdown(socket.SHUT_RDWR)

    def read(
        self, receive: Callable[[bytes], None], too_long: Callable[[int, bytes], None], limit: int
    ) -> None:
        """Read until the server's half or `close` ends it."""
        read_lines(self._ours.fileno(), receive, too_long, limit, _arrives(self._ours))

    def exit_reason(self) -> str:
        """Why there is no more output."""
        if self._problem is not None:
            return f"the server in this process could not serve: {message_of(self._problem)}"
        return "the server in this process closed the connection"

    def close(self) -> None:
        """End both halves and wait for the server's."""
        with self._closing:
            try:
                self._ours.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the server's half went first
        self._thread.join(5.0)

    def release(self) -> None:
        """Give back the socket: for the thread that reads, at its end, or instead of it."""
        self.write.close(0.5)
        with self._closing:
            self._ours.close()


def _arrives(end: socket.socket) -> Callable[[], bool]:
    poll = select.poll()
    poll.register(end.fileno(), select.POLLIN)

    def ready() -> bool:
        poll.poll()
        return True

    return ready
