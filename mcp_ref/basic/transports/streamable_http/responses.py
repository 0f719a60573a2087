"""Responses of Streamable HTTP (page: basic/transports/streamable-http, "Receiving Messages").

What goes back to an HTTP request: one JSON object (`plain`, `error`), or a stream of server-sent events,
which is an `EventResponse`: the iterable of bytes that WSGI asks for more, piece by piece.

Revisions   2025-11-25 begins a stream with an event that has an id and nothing else.
            2026-07-28 gives errors a status of HTTP's (`STATUS`), and events no ids.
Threads     one `EventResponse` is the WSGI server's thread alone. Each half second of silence it asks
            whether the client is still there (`departed`).
"""

from __future__ import annotations

import functools
import select
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mcp_ref.basic.index.error_responses import InvalidRequest, MethodNotFound, ProtocolError, TooManyRequests
from mcp_ref.basic.index.messages import Json, encode, encode_error, is_id
from mcp_ref.basic.transports.streamable_http.request_metadata import HeaderMismatch
from mcp_ref.basic.transports.streamable_http.streams import HttpStream
from mcp_ref.basic.versioning import (
    InvalidMeta,
    MissingRequiredClientCapability,
    UnsupportedProtocolVersion,
)
from mcp_ref.runtime import events
from mcp_ref.runtime.errors import McpError

__all__ = ["ACCEPTED", "EventResponse", "HttpAnswer", "departed", "error", "plain", "reason", "whole"]

LOOK = 0.5
"""Seconds of silence after which the connection's thread looks whether the client is still there."""

JSON = ("Content-Type", "application/json")
EVENTS = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    # spec: basic/transports/streamable-http/x-accel-buffering
    ("X-Accel-Buffering", "no"),
]
STATUS: dict[type[McpError], int] = {
    InvalidMeta: 400,  # spec: basic/index/meta-missing-field-http-400
    HeaderMismatch: 400,  # spec: basic/transports/streamable-http/header-failure-400
    UnsupportedProtocolVersion: 400,  # spec: basic/transports/streamable-http/version-unsupported-400
    MissingRequiredClientCapability: 400,  # spec: basic/index/missing-capability-http-400
    InvalidRequest: 400,
    MethodNotFound: 404,  # spec: basic/transports/streamable-http/method-unknown-404
    TooManyRequests: 429,
}
"""Of a modern error response, by its exception; 200 for all others."""


class HttpAnswer(NamedTuple):
    """What goes back to an HTTP request."""

    status: int
    headers: list[tuple[str, str]]
    body: Iterable[bytes]


ACCEPTED = HttpAnswer(202, [("Content-Length", "0")], ())
"""# spec: basic/transports/streamable-http/notification-202"""


# ---------------------------------------------------------------------------- one object


@functools.cache
def reason(status: int) -> str:
    """The status line's words; of the statuses that there are, which are few."""
    from http import HTTPStatus

    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Refused"


def plain(status: int, body: bytes, *headers: tuple[str, str]) -> HttpAnswer:
    """One JSON object."""
    return HttpAnswer(status, [JSON, ("Content-Length", str(len(body))), *headers], (body,))


def error(status: int, problem: ProtocolError, message: Any) -> HttpAnswer:
    """An error to a request, by its id; without an id where there is none to be read.

    # spec: basic/transports/streamable-http/rejected-input-status
    """
    request_id = message.get("id") if type(message) is dict else None
    if is_id(request_id):
        return plain(status, encode_error(request_id, problem))
    return plain(status, encode({"jsonrpc": "2.0", "error": problem.to_wire()}))


# --------------------------------------------------------------------- events as they come


def opening(stream: HttpStream, retry_ms: int) -> list[bytes]:
    """What a stream begins with.

    # spec: basic/transports/streamable-http/sse-prime-event
    # spec: basic/transports/streamable-http/sse-retry-before-close
    """
    if stream.primes:
        return [events.encode(b"", id=f"{stream.name}-0", retry=retry_ms)]
    return [stream.opening] if stream.opening else []


def framed(stream: HttpStream, messages: list[tuple[int, bytes]]) -> list[bytes]:
    """Messages as events, with ids where the stream can be resumed.

    # spec: basic/transports/streamable-http/event-id
    """
    if stream.log is None:
        return [events.encode(line.rstrip(b"\n"), name=stream.event) for _, line in messages]
    name = stream.name
    return [events.encode(line.rstrip(b"\n"), id=f"{name}-{number}") for number, line in messages]


def whole(stream: HttpStream, retry_ms: int) -> bytes:
    """A stream that is over, in one piece."""
    messages = stream.finish()
    return b"".join((*opening(stream, retry_ms), *framed(stream, messages)))


class EventResponse:
    """A stream on its way to a client: the iterable of bytes that WSGI wants. One thread has it.

    # spec: basic/transports/streamable-http/request-json-or-sse
    """

    def __init__(
        self,
        stream: HttpStream,
        *,
        after: int | None,
        keep_alive: float,
        retry_ms: int,
        gone: Callable[[], bool],
        on_close: Callable[[EventResponse], object],
    ) -> None:
        self.stream = stream
        self.left = False
        """Whether the client went before the end."""
        self._resumes = after is not None
        self._keep_alive = keep_alive
        self._retry = retry_ms
        self._gone = gone
        self._on_close = on_close
        self._begun = False
        self._over = False
        self._closed = False
        stream.attach(self, after)

    def __iter__(self) -> EventResponse:
        return self

    def __next__(self) -> bytes:
        """The next piece: what there is by now, or a comment where there is nothing for long.

        # spec: basic/transports/streamable-http/sse-keep-alive
        """
        silent_until = time.monotonic() + self._keep_alive
        while self._goes_on():
            piece = self._piece()
            if piece:
                return piece
            if self._goes_on() and self._is_silent(silent_until):
                return events.COMMENT
        raise StopIteration

    def _goes_on(self) -> bool:
        return not self._over

    def _is_silent(self, until: float) -> bool:
        """Wait for something to see; True if it is time for a comment."""
        if not self._begun:  # for servers that send no headers before there is a body
            self._begun = True
            return True
        if self.stream.wait(max(0.0, min(LOOK, until - time.monotonic()))):
            return False
        if self._gone():
            self.left = self._over = True
            return False
        return time.monotonic() >= until

    def _piece(self) -> bytes:
        stream = self.stream
        over = stream.is_over  # before the taking: what comes after it is for the next look
        released = stream.released
        taken = stream.take(self)
        if taken is None:
            self._over = True
            stream.wake()  # what woke this thread may have been for the one that has it now
            return b""
        pieces = framed(stream, taken)
        if not (self._begun or self._resumes):
            pieces = [*opening(stream, self._retry), *pieces]
        self._begun = self._begun or bool(pieces)
        self._over = over or released
        return b"".join(pieces)

    def close(self) -> None:
        """WSGI calls this once the response is over, or its connection is."""
        if not self._closed:
            self._closed = True
            self.left = self.left or not self._over
            self.stream.detach(self)
            self._on_close(self)


def departed(environ: Json) -> Callable[[], bool]:
    """How to ask whether the client of a request has gone. Where nobody can say, only writing tells."""
    told = environ.get("waitress.client_disconnected")
    if told is not None:
        return lambda: bool(told())
    connection = environ.get("werkzeug.socket") or environ.get("gunicorn.socket")
    if connection is None or isinstance(connection, ssl.SSLSocket):
        return lambda: False
    return lambda: _is_closed(connection)


SHUT = getattr(select, "POLLRDHUP", 0)
"""Linux says by itself that a peer has shut its side, also behind what it has sent ahead."""


def _is_closed(connection: Any) -> bool:
    """Whether the peer has shut its side: then it can be read, and there is nothing."""
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN | SHUT)
        found = poll.poll(0)
        if not found or found[0][1] & SHUT:
            return bool(found)
        return not connection.recv(1, 2)  # MSG_PEEK: what a client sends ahead stays where it is
    except BlockingIOError:
        return False
    except (OSError, ValueError):
        return True
