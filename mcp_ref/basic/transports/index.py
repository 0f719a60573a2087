"""Custom transports (page: basic/transports/index), and one of them: client and server in one process.

A custom transport carries whole messages, and needs to know nothing else:

    the client's end    an object with `open_stream()` (ClientTransport), which is given to `connect`
    the server's end    `serve_stream(server, stream)`, for each client, on a thread of its own
    between them        at both ends, a MessageStream: `send`, `receive`, `close`

Everything else is the same as on stdio: the messages and their patterns, both eras, cancellation, time-outs.
A transport over bytes best sends a line for each message, as stdio does (docs/examples/unix_socket.py).

In memory (`Link`): a pair of connected sockets with the framing of stdio between two threads. They carry the
same bytes that a pipe would, so that nothing behaves differently here.

    set-up          `Link(server)` starts the server's half; the client reads with `read`
    framing         one message a line, UTF-8 (basic/transports/stdio)
    cancellation    notifications/cancelled, as on stdio
    end             either side closes its socket
    # spec: basic/transports/index/custom-document, basic/transports/index/custom-preserve-patterns
    # spec: basic/transports/index/custom-preserve-lifecycle, basic/transports/index/custom-transports
    # spec: basic/transports/index/custom-reuse-stdio-framing

Errors      if `send` or `receive` raises, or `receive` returns None, the connection ends. An OSError of
            `open_stream` becomes a LocalError of `connect`.
Threads     `mcp_ref memory server` reads for the server until `close`; workers answer. On a MessageStream
            `receive` is called by one thread, `send` by one at a time, `close` by any, also while the other
            two wait.
"""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.transports.stdio.framing import PREFIX_BYTES, Writer, read_lines
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.typing.mismatch import message_of

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import WayOut
    from mcp_ref.runtime.limits import Limit
    from mcp_ref.runtime.threads.shared import Shared

__all__ = [
    "ClientTransport",
    "Link",
    "MessageStream",
    "Served",
    "ServedOptions",
    "StreamLink",
    "serve_stream",
]

_log = logger("mcp_ref.memory")


class ServedOptions(Protocol):
    """Options of a server about its clients."""

    @property
    def max_message_bytes(self) -> int:
        """Bytes of the longest message that is read."""

    @property
    def notices(self) -> Limit | None:
        """The limit on progress and log messages to one connection."""

    @property
    def ping_every(self) -> float | None:
        """Seconds between two pings of a client; None if clients are not pinged."""


class Served(Protocol):
    """What a transport needs of the server, which it serves to one client."""

    @property
    def options(self) -> ServedOptions: ...

    @property
    def lifespan(self) -> Shared[Any]:
        """Its lifespan, which is entered as long as it is served."""

    def attach(self, outbox: WayOut) -> Connection:
        """Attach a new client, whose messages go out by `outbox`."""

    def hang_up(self, connection: Connection, seconds: float) -> None:
        """A client sends no more requests: end its subscriptions, and let what runs finish for a while."""

    def detach(self, connection: Connection, reason: str) -> None:
        """End the connection of a client, which has gone or is given up."""


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
        """Give up a client that no longer answers: what it still sends is ignored."""
        connection.fail(reason)
        with contextlib.suppress(OSError):  # the client closed its end just now
            self._theirs.shutdown(socket.SHUT_RDWR)

    def read(
        self, receive: Callable[[bytes], None], too_long: Callable[[int, bytes], None], limit: int
    ) -> None:
        """Read until the server's half or `close` ends it."""
        read_lines(self._ours.fileno(), receive, too_long, limit, _arrives(self._ours))

    def silence(self) -> str:
        """What is known of a server that does not answer."""
        return "the server is in this process"

    def exit_reason(self) -> str:
        """Why the output of the server ended."""
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
        """Close the socket: for the thread that reads, at its end, or instead of it."""
        self.write.close(0.5)
        with self._closing:
            self._ours.close()


def _arrives(end: socket.socket) -> Callable[[], bool]:
    """A function that waits for input on a socket, for `read_lines`."""
    poll = select.poll()
    poll.register(end.fileno(), select.POLLIN)

    def ready() -> bool:
        poll.poll()
        return True

    return ready


# ------------------------------------------------------------------- custom transports


class MessageStream(Protocol):
    """One end of a connection that carries messages, each the bytes of one JSON text, without a line break.

    # spec: basic/transports/index/custom-transports
    """

    def send(self, message: bytes) -> None:
        """Send a message. It may wait, but not for ever; OSError: the other end is gone, or takes nothing."""

    def receive(self) -> bytes | None:
        """Wait for the next message; None if there will be no more, and OSError if the connection broke."""

    def close(self) -> None:
        """End the connection: what waits in `receive` or `send` returns or raises. Twice does no harm."""


class ClientTransport(Protocol):
    """How a client connects to its server over a custom transport: `connect(transport)`."""

    def open_stream(self) -> MessageStream:
        """Open a new connection to the server. Raises OSError if that fails.

        Called again, with the next request, if the connection to a server of 2026-07-28 was lost.
        """


def serve_stream(server: Served, stream: MessageStream) -> None:
    """Serve one client on this thread until its stream ends; then close the stream."""
    reason = "the client closed the connection"
    try:
        with server.lifespan.used():
            connection = server.attach(Outbox(functools.partial(_send_all, stream)))
            connection.lose = functools.partial(_lose, connection, stream)
            try:
                _receive_all(
                    stream, connection.receive, connection.too_long, server.options.max_message_bytes
                )
            except Exception as problem:
                _log.info("the connection broke: %s", problem)
                reason = f"the connection broke: {message_of(problem)}"
            finally:
                server.detach(connection, reason)
    finally:
        stream.close()


def _lose(connection: Connection, stream: MessageStream, reason: str) -> None:
    """Give up a client that no longer answers."""
    connection.fail(reason)
    stream.close()


def _send_all(stream: MessageStream, lines: bytes) -> None:
    for line in lines.split(b"\n"):
        if line:
            stream.send(line)


def _receive_all(
    stream: MessageStream,
    receive: Callable[[bytes], None],
    too_long: Callable[[int, bytes], None],
    limit: int,
) -> None:
    while (message := stream.receive()) is not None:
        if len(message) > limit:
            too_long(len(message), message[:PREFIX_BYTES])
        elif message:
            receive(message)


class StreamLink:
    """A server behind a custom transport, as a client sees it."""

    peer_drained_input = True

    def __init__(self, transport: ClientTransport) -> None:
        self._name = type(transport).__name__
        try:
            self._stream = transport.open_stream()
        except OSError as problem:
            raise LocalError(f"{self._name}: no connection: {problem}") from problem
        self._problem: Exception | None = None
        self._is_closed = False
        self.crashed = False
        """Whether the connection ended without our `close`: then the next request may open another one."""

    def write(self, lines: bytes) -> None:
        """Send messages, a line each."""
        _send_all(self._stream, lines)

    def read(
        self, receive: Callable[[bytes], None], too_long: Callable[[int, bytes], None], limit: int
    ) -> None:
        """Read until the stream ends."""
        try:
            _receive_all(self._stream, receive, too_long, limit)
        except Exception as problem:
            self._problem = problem
        self.crashed = not self._is_closed

    def silence(self) -> str:
        """What is known of a server that does not answer."""
        return f"the connection to the server, by {self._name}, is open"

    def exit_reason(self) -> str:
        """Why the stream ended."""
        if self._problem is not None:
            return f"the connection broke: {message_of(self._problem)}"
        return "the server closed the connection"

    def close(self) -> None:
        """End the connection."""
        self._is_closed = True
        self._stream.close()

    def release(self) -> None:
        """Close what reading needs: for the thread that reads, at its end, or instead of it."""
        self._stream.close()
