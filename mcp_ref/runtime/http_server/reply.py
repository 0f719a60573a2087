"""The response to one HTTP request of a WSGI application, which any thread may begin, write, and end.

WSGI has two ways to send a body: the application returns it, or it calls `write`, which `start_response`
returned. Only `write` can send something while the thread of the application is still busy, and can be called
by another thread in its place. `HttpReply` hides how the WSGI servers differ in that:

    server      a write that its client does not read     that the client left        an end before the return
    embedded    fails after `stall` seconds               its socket says so          `Response.end_early`
    gunicorn    fails after STALL_SECONDS, set here       its socket says so          the socket is shut
    waitress    goes to memory, up to 16 MiB; then waits  asked by a function         not possible
    another     as that server does it                    only a failed write tells   not possible

Pieces in quick succession are written together: a piece that follows a write within HOLD_SECONDS is held back
until 8 KiB are held, or until it is flushed a millisecond later. This way a tool that reports its progress
1,000 times in a row takes 7 ms, and 15 ms if each report is a write of its own.

A middleware may keep `write` from the application: then nothing can be sent before the application returns,
and `write` raises WriteRefused.

Errors      ClientLeft; WriteRefused of runtime/errors.
Threads     any, but one at a time in the methods that send (`begin`, `write`, `write_soon`, `whole`,
            `end_early`): their callers hold a lock. `cut` is for a thread that did not get that lock.
"""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any

from mcp_ref.runtime.errors import ConnectionClosed, WriteRefused
from mcp_ref.runtime.http_server.receiving import set_kernel_timeout

__all__ = ["ClientLeft", "Headers", "HttpReply", "has_left"]

Headers = list[tuple[str, str]]

STALL_SECONDS = 60.0
"""Seconds that a client of gunicorn may read nothing before a write fails; gunicorn would wait for ever."""

HOLD_SECONDS = 0.001
"""Seconds after a write during which the next piece is held back."""

MAX_HELD_BYTES = 8192
"""Held-back bytes at which they are written: so few that a socket which takes any takes all of them."""

SAFE_UNREAD_BYTES = 8 << 20
"""Bytes of a response that waitress buffers in any case; beyond that, a write may wait for the client."""


BEGUN_AGAIN = ConnectionClosed, ConnectionClosed("the response is begun again"), None
"""The `exc_info` that WSGI requires of a second call of `start_response`, before anything was sent."""


class ClientLeft(ConnectionClosed):
    """The client closed the connection, or has read nothing for too long."""


class HttpReply:
    """The response to one HTTP request, beside the environ and the principal of that request."""

    def __init__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> None:
        self.environ = environ
        self.principal: str | None = None
        """On whose behalf the request is made, if that is known."""
        self.headers: Headers = []
        """Sent with every response to this request."""
        self.status = 0
        """The status, 0 until the response has begun."""
        self.is_sent = False
        """Whether any byte was sent, or may have been: if not, the response can be begun once more."""
        self._start = start_response
        self._write: Callable[[bytes], object] | None = None
        self._written = 0  # bytes
        self._wrote_at = 0.0
        self.held = b""
        """The bytes that are held back, to be written with what follows."""

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Set the status and the headers. They are sent with the first bytes of the body.

        May be done once more if nothing was sent yet, as after a refused write.
        """
        again = () if not self.status else (BEGUN_AGAIN,)
        self._write = self._start(reason(status), [*headers, *self.headers], *again)
        self.status = status

    def whole(self, status: int, body: bytes, headers: Iterable[tuple[str, str]]) -> tuple[bytes, ...]:
        """Begin a response whose body is all there. Returns what the application must return to WSGI."""
        again = () if not self.status else (BEGUN_AGAIN,)
        all_headers = [*headers, ("Content-Length", str(len(body))), *self.headers]
        self._write = self._start(reason(status), all_headers, *again)
        self.status = status
        return (body,) if body and self.environ["REQUEST_METHOD"] != "HEAD" else ()

    def write_soon(self, piece: bytes) -> bool:
        """Send a piece now, or hold it back. True if it is the first held: `write` must follow soon."""
        is_first = not self.held
        self.held += piece
        if len(self.held) < MAX_HELD_BYTES and time.monotonic() - self._wrote_at < HOLD_SECONDS:
            return is_first
        self.write(b"")
        return False

    def take_held(self) -> bytes:
        """Return what was held back, for a caller that sends it or drops it."""
        held, self.held = self.held, b""
        return held

    def write(self, piece: bytes) -> None:
        """Send a piece of the body now, after what was held back. Raises ClientLeft, WriteRefused."""
        piece = self.take_held() + piece
        if not callable(self._write):
            raise WriteRefused("start_response returned no function to write with")
        if not self._written:
            self._limit_stall()
        try:
            self._write(piece)
        except Exception as problem:
            raise self._failure(problem) from None
        embedded = self.environ.get("mcp_ref.response")
        if embedded is not None and not embedded.has_begun:
            raise WriteRefused("what was written did not reach the server")
        self._written += len(piece)
        self._wrote_at = time.monotonic()
        self.is_sent = True

    def _limit_stall(self) -> None:
        """Limit how long a write may wait, under a server that would wait for ever."""
        connection = self.environ.get("gunicorn.socket")
        if isinstance(connection, socket.socket) and connection.gettimeout() is None:
            with contextlib.suppress(OSError):
                set_kernel_timeout(connection, socket.SO_SNDTIMEO, STALL_SECONDS)

    def _failure(self, problem: Exception) -> Exception:
        """The error that a failed write means. ClientDisconnected is waitress's, and not an OSError."""
        if isinstance(problem, OSError) or type(problem).__name__ == "ClientDisconnected" or self._written:
            self.is_sent = True
            self.cut()  # half a piece may have been sent: nothing may follow it
            return ClientLeft(f"the client has gone: {problem!r:.200}")
        return WriteRefused(f"{type(problem).__name__}: {problem}"[:300])

    def end_early(self) -> bool:
        """End the response before the application returns. False if the server cannot do that."""
        embedded, connection = self.environ.get("mcp_ref.response"), self.connection
        if embedded is None and connection is None:
            return False
        with contextlib.suppress(OSError, ValueError, ClientLeft):  # the client has gone
            if self.held:
                self.write(b"")
            if embedded is not None:
                embedded.end_early()
            elif connection is not None:
                connection.shutdown(socket.SHUT_WR)
        return True

    def cut(self) -> None:
        """Shut the connection under a thread that is writing: its write fails."""
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    @property
    def connection(self) -> socket.socket | None:
        """The socket; None if the server does not show it, or it is of TLS, which cannot be peeked into."""
        shown = self.environ.get("werkzeug.socket") or self.environ.get("gunicorn.socket")
        return None if isinstance(shown, ssl.SSLSocket) else shown

    def says_that_client_left(self) -> bool:
        """Whether a server that shows no socket says that the client has gone."""
        told = self.environ.get("waitress.client_disconnected")
        return bool(told is not None and told())

    def takes_at_once(self) -> bool:
        """Whether a few bytes can be written now without waiting for the client."""
        connection = self.connection
        if connection is None:
            return self._written < SAFE_UNREAD_BYTES
        poll = select.poll()
        try:
            poll.register(connection.fileno(), select.POLLOUT)
        except (OSError, ValueError):  # closed just now
            return False
        return bool(poll.poll(0))


@functools.cache
def reason(status: int) -> str:
    """The status with its phrase, as `start_response` takes it. Cached: there are few statuses."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Refused"


SHUT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
"""Poll flags of a peer that has gone. Linux (POLLRDHUP) sets them even if bytes sent ahead are unread."""


def has_left(replies: Sequence[HttpReply]) -> list[bool]:
    """Whether the client of each reply has gone. One poll asks all their sockets.

    A client that shut its side of the connection counts as gone: while it waits for an answer, it does not.
    """
    left = [False] * len(replies)
    poll, numbers = select.poll(), {}
    for number, reply in enumerate(replies):
        connection = reply.connection
        descriptor = -1 if connection is None else connection.fileno()
        if connection is None:
            left[number] = reply.says_that_client_left()
        elif descriptor < 0:
            left[number] = True
        else:
            poll.register(descriptor, select.POLLIN | SHUT)
            numbers[descriptor] = number, connection
    for descriptor, flags in poll.poll(0):
        number, connection = numbers[descriptor]
        left[number] = bool(flags & SHUT) or _is_at_end(connection)
    return left


def _is_at_end(connection: socket.socket) -> bool:
    """Whether a readable connection is at its end. Bytes that the client sent ahead are not consumed."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:  # the poll promised too much
        return False
    except OSError:
        return True
