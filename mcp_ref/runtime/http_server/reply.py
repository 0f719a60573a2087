"""The response to one HTTP request of a WSGI application, which any thread may begin, write, and end.

WSGI has two ways to send a body: the application returns it, or it calls `write`, which `start_response` has
returned. Only the second lets a thread that is busy say something meanwhile, and lets another thread say it
for it. `HttpReply` hides how the WSGI servers differ in that:

    server      a write that its client does not read     that the client left        an end before the return
    embedded    fails after `stall` seconds               its socket says so          `Response.end_early`
    gunicorn    fails after STALL_SECONDS, set here       its socket says so          the socket is shut
    waitress    goes to memory, up to 16 MiB; then waits  asked by a function         not possible
    another     as it likes                               only a failed write tells   not possible

What is said in quick succession is written together: a piece that follows a write within HOLD_SECONDS is held
back, until it is 8 KiB with those that follow, or is flushed a millisecond later. A tool that reports its
progress 1,000 times in a row takes 7 ms so, and 15 ms if each report is a write of its own.

A middleware may keep `write` from the application: then nothing can be said before the answer, and
WriteRefused says so.

Errors      ClientLeft; WriteRefused of runtime/errors.
Threads     any, but one at a time in `begin`, `write`, `whole` and `end_early`: their callers hold a lock.
            `cut` is for a thread that did not get that lock.
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
"""Seconds in which a client of gunicorn reads nothing until a write fails: gunicorn would wait for ever."""

HOLD_SECONDS = 0.001
"""Seconds after a write in which the next piece is held back."""

MAX_HELD_BYTES = 8192
"""Bytes with which it is written all the same: so few that a socket which takes any takes all of them."""

SAFE_UNREAD_BYTES = 8 << 20
"""Bytes that waitress takes into memory in any case; with more, a write may wait for the client."""


BEGUN_AGAIN = ConnectionClosed, ConnectionClosed("the response is begun again"), None
"""What `start_response` wants where it is called twice (`exc_info`): nothing was sent yet."""


class ClientLeft(ConnectionClosed):
    """The client closed the connection, or has read nothing for too long."""


class HttpReply:
    """What goes back to one HTTP request; and who sent it."""

    def __init__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> None:
        self.environ = environ
        self.principal: str | None = None
        """Who asks, if that is known."""
        self.headers: Headers = []
        """Sent with every response to this request."""
        self.status = 0
        """0 until it has begun."""
        self.is_sent = False
        """Whether anything of it was sent, or may have been: if not, it can be begun once more."""
        self._start = start_response
        self._write: Callable[[bytes], object] | None = None
        self._written = 0  # bytes
        self._wrote_at = 0.0
        self.held = b""
        """Held back, to be written with what follows."""

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Say the status and the headers. They are sent with the first bytes of the body.

        May be done once more if nothing was sent yet, as after a refused write.
        """
        again = () if not self.status else (BEGUN_AGAIN,)
        self._write = self._start(reason(status), [*headers, *self.headers], *again)
        self.status = status

    def whole(self, status: int, body: bytes, headers: Iterable[tuple[str, str]]) -> tuple[bytes, ...]:
        """A response whose body is all there: what the application returns for it."""
        again = () if not self.status else (BEGUN_AGAIN,)
        all_headers = [*headers, ("Content-Length", str(len(body))), *self.headers]
        self._write = self._start(reason(status), all_headers, *again)
        self.status = status
        return (body,) if body and self.environ["REQUEST_METHOD"] != "HEAD" else ()

    def write_soon(self, piece: bytes) -> bool:
        """Send a piece now, or hold it back. True if it is the first held: then `write` is to follow soon."""
        is_first = not self.held
        self.held += piece
        if len(self.held) < MAX_HELD_BYTES and time.monotonic() - self._wrote_at < HOLD_SECONDS:
            return is_first
        self.write(b"")
        return False

    def take_held(self) -> bytes:
        """What was held back, for a caller that sends it, or drops it."""
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
        """Where the server itself would wait for ever."""
        connection = self.environ.get("gunicorn.socket")
        if isinstance(connection, socket.socket) and connection.gettimeout() is None:
            with contextlib.suppress(OSError):
                set_kernel_timeout(connection, socket.SO_SNDTIMEO, STALL_SECONDS)

    def _failure(self, problem: Exception) -> Exception:
        """What a failed write means. The exception of waitress for it is none of the system's."""
        if isinstance(problem, OSError) or type(problem).__name__ == "ClientDisconnected" or self._written:
            self.is_sent = True
            self.cut()  # half a piece may have been sent: nothing may follow it
            return ClientLeft(f"the client has gone: {problem!r:.200}")
        return WriteRefused(f"{type(problem).__name__}: {problem}"[:300])

    def end_early(self) -> bool:
        """End the response though the application has not returned. False if the server cannot do that."""
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
        """Close the connection under a thread that is writing: its write fails."""
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    @property
    def connection(self) -> socket.socket | None:
        """The socket, where the server shows it and it can be asked; TLS cannot."""
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
    """The status line's words; there are few statuses."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Refused"


SHUT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
"""Linux says by itself that a peer has shut its side, also behind what it has sent ahead."""


def has_left(replies: Sequence[HttpReply]) -> list[bool]:
    """Of several requests, whether the client of each has gone; their sockets are asked all at once.

    A client that shut its side of the connection counts as gone, since one that waits for an answer does not.
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
    """Whether a connection that can be read has nothing to read. What a client sends ahead stays there."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:  # the poll promised too much
        return False
    except OSError:
        return True
