"""What a client of the embedded HTTP server sends, read from its socket within limits of size and time.

A connection has one `RequestReceiver`: it reads the head of one request after another. `open_body` returns
the body that the application reads as `wsgi.input`. It ends where the request ends: an application that reads
on gets b"", and never a byte of the next request.

    head of a request      `idle` seconds until its first byte, `patience` until it is complete
    body                   `patience`, and one second more for each 64 KiB that have arrived; if `patience` is
                           not above `idle`, silence of `patience` ends it too

A limit between two bytes alone would let a client hold its thread for hours with a byte now and then; a limit
for the whole body alone would cut off large uploads on slow lines. So the time grows with what has arrived.

Errors      `BadRequest` with the status of the answer; a client that leaves is a ConnectionError.
Threads     the connection's own.
POSIX       time-outs are set in the kernel, as a C `timeval`.
"""

from __future__ import annotations

import io
import re
import socket
import struct
from abc import abstractmethod
from time import monotonic
from typing import Any, NamedTuple

from mcp_ref.runtime.http_server.request import (
    CHUNKED,
    HEADERS_TOO_LARGE,
    MAX_HEADERS,
    MAX_REQUEST_LINE_BYTES,
    BadRequest,
    RequestHead,
    check_field_line,
    excerpt,
    is_token,
    uri_too_long,
)

__all__ = ["Body", "ChunkedBody", "Limits", "RequestReceiver", "SizedBody", "set_kernel_timeout"]

BODY_BYTES_PER_SECOND = 65536
"""The rate below which the body of a slow client runs out of time."""
MAX_DRAINED_BYTES = 65536
"""The longest unread rest of a body that is read and dropped, so that the next request can follow."""
MAX_CHUNK_SIZE_LINE_BYTES = 1024
"""The longest line before a chunk, which says the size of the chunk."""
MAX_TRAILER_BYTES = 8192
"""All trailers of a body together: the fields that may follow its last chunk."""

_END_OF_HEAD = b"\r\n\r\n"
_BARE_LF = re.compile(rb"(?<!\r)\n")
# RFC 9112, section 7.1: chunk-size [ chunk-ext ]
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t -~\x80-\xff]*)?")


def set_kernel_timeout(connection: socket.socket, option: int, seconds: float) -> None:
    """Set SO_RCVTIMEO or SO_SNDTIMEO: a call that waits longer raises BlockingIOError.

    `settimeout` would do as well, but costs a `poll` before each read and write, even if neither has to wait.
    """
    limit = struct.pack("@ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
    connection.setsockopt(socket.SOL_SOCKET, option, limit)


class Limits(NamedTuple):
    """What clients may take of one server. Times are in seconds."""

    max_connections: int = 1000
    idle: float = 30.0
    """How long a connection may wait for its next request to begin."""
    patience: float = 10.0
    """How long a request may take to arrive; a body has more time the longer it is."""
    stall: float = 60.0
    """How long a client may read nothing of a response."""
    max_header_bytes: int = 65536
    max_body_bytes: int = 256 << 20
    """Bounds a body in chunks, and what is read and dropped so that a client that still sends can read its
    answer. A body with a Content-Length is for the application to judge."""


class RequestReceiver:
    """Reads the requests of one connection."""

    def __init__(self, connection: socket.socket, limits: Limits) -> None:
        self._connection = connection
        self.limits = limits
        self.buffered = b""
        """Bytes that have arrived and are not used yet: of the body, or of the next request."""
        self.owes_continue = False
        """Whether the client waits for `100 Continue` before it sends the body."""
        self.failed = False
        """Whether a request broke off: what may still arrive belongs to it, and is not a new request."""
        self._waited = 0.0  # seconds, for this request
        self._bonus = 0.0  # seconds that its body has gained by arriving
        self._tick = min(limits.idle, limits.patience)  # seconds after which the kernel ends a read
        set_kernel_timeout(connection, socket.SO_RCVTIMEO, self._tick)

    def read_head(self) -> bytes | None:
        """Return the head of the next request; None if the client left or was idle for too long."""
        data, self.buffered = self.buffered, b""
        data = data or self._read_when_idle()
        if data[:1] == b"\r":  # RFC 9112, section 2.2: an empty line before a request is ignored
            data = data.removeprefix(b"\r\n") or self._read_when_idle()
        if not data:
            return None
        end = data.find(_END_OF_HEAD)
        if end < 0:
            self._waited = self._bonus = 0.0
            data, end = self._complete_head(data)
        if end > self.limits.max_header_bytes:
            raise self._head_too_large()
        self.buffered = data[end + 4 :]
        return data[:end]

    def _read_when_idle(self) -> bytes:
        """Return the first bytes of a request; b"" if the client left or was idle for too long."""
        waited = 0.0
        while waited < self.limits.idle:
            try:
                return self._connection.recv(4096)
            except BlockingIOError:
                waited += self._tick
        return b""

    def _complete_head(self, data: bytes) -> tuple[bytes, int]:
        """Read on until a head is complete. Returns what was read, and where the head ends in it.

        Bytes that cannot become a head are refused at once.
        """
        head = bytearray(data)
        checked = 0
        while (end := head.find(_END_OF_HEAD, max(0, checked - 3))) < 0:
            if not is_token(chr(head[0])):
                raise BadRequest("this is not HTTP/1.1")
            if _BARE_LF.search(head, checked):
                raise BadRequest("a line that ends in LF without CR")
            if len(head) > MAX_REQUEST_LINE_BYTES and head.find(b"\n", 0, MAX_REQUEST_LINE_BYTES + 2) < 0:
                raise uri_too_long()
            if len(head) > self.limits.max_header_bytes + 4:
                raise self._head_too_large()
            checked = len(head)
            head += self.read_some(8192)
        return bytes(head), end

    def _head_too_large(self) -> BadRequest:
        return BadRequest(f"a head of more than {self.limits.max_header_bytes} bytes", HEADERS_TOO_LARGE)

    def begin_body(self, head: RequestHead) -> None:
        """Start the time limit of a body: it has `patience` seconds to arrive, and more as it arrives."""
        self._waited = self._bonus = 0.0
        self.owes_continue = head.wants_continue and not self.buffered

    def open_body(self, head: RequestHead) -> Body:
        """Return the body as the application reads it, after `begin_body`."""
        return ChunkedBody(self) if head.body_bytes == CHUNKED else SizedBody(self, head.body_bytes)

    def read_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.read_some(size - len(data))
        return data

    def read_some(self, size: int) -> bytes:
        """Return 1 to `size` bytes of a request that has begun. Raises BadRequest, ConnectionError."""
        if self.buffered:
            data, self.buffered = self.buffered[:size], self.buffered[size:]
            return data
        if self.owes_continue:
            self.owes_continue = False
            self._connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while True:
            began = monotonic()
            try:
                received: bytes | None = self._connection.recv(size)
            except BlockingIOError:
                received = None
            self._waited += monotonic() - began
            if received == b"":
                self.failed = True
                raise ConnectionAbortedError("the client left before its request was complete")
            if self._is_late(received):
                self.failed = True
                late = f"the request did not arrive within {self.limits.patience:g} s"
                raise BadRequest(late, "408 Request Timeout")
            if received is not None:
                return received

    def _is_late(self, received: bytes | None) -> bool:
        # The kernel's time-out may end a little early, with `_waited` just below `patience`. So a silent tick
        # is late if a tick is `patience` long, as by default: even for a body that has gained time.
        is_silent = received is None and self._tick >= self.limits.patience
        return is_silent or self._waited > self.limits.patience + self._bonus

    def extend_time(self, body_bytes: int) -> None:
        """Give the rest of a body more time, for the bytes of it that have arrived."""
        self._bonus += body_bytes / BODY_BYTES_PER_SECOND


class Body(io.RawIOBase):
    """A body that is read while it arrives."""

    left = 0
    """How many bytes are still to be read; CHUNKED until the last chunk was read."""

    def __init__(self, receiver: RequestReceiver) -> None:
        self._receiver = receiver

    @abstractmethod
    def read_some(self, size: int) -> bytes:
        """Return some bytes, b"" at the end of the body."""

    def leaves_rest(self) -> bool:
        """Whether the rest of the body will stay unread, so that the connection must be closed.

        Asked when the head of the response is sent; after that no `100 Continue` may be sent any more.
        """
        if not self.left:
            return False
        # A client that was not told to continue may send its body or not: what its next bytes are is unknown.
        was_uninvited, self._receiver.owes_continue = self._receiver.owes_continue, False
        return was_uninvited or self._receiver.failed or not 0 < self.left <= MAX_DRAINED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.read_some(len(buffer))
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read_some(1 << 18), b""))


class SizedBody(Body):
    """A body with a Content-Length."""

    def __init__(self, receiver: RequestReceiver, length: int) -> None:
        super().__init__(receiver)
        self.left = length

    def read_some(self, size: int) -> bytes:
        size = min(size, self.left)
        if not size:
            return b""
        data = self._receiver.read_some(size)
        self.left -= len(data)
        self._receiver.extend_time(len(data))
        return data


class ChunkedBody(Body):
    """A body in chunks. Each line of the framing must follow RFC 9112 to the letter."""

    def __init__(self, receiver: RequestReceiver) -> None:
        super().__init__(receiver)
        self.left = CHUNKED
        # Bytes that have arrived, and how many of them are used up. Cutting off each chunk instead would copy
        # the rest each time: quadratic time for chunks of one byte.
        self._data, self._at = b"", 0
        self._chunk_left = 0
        self._has_begun = False
        self._total = 0

    def read_some(self, size: int) -> bytes:
        if self.left and size and not self._chunk_left:
            self._next_chunk()
        if not self.left or not size:
            return b""
        if self._at == len(self._data):
            self._data, self._at = self._receiver.read_some(65536), 0
        piece = self._data[self._at : self._at + min(size, self._chunk_left)]
        self._at += len(piece)
        self._chunk_left -= len(piece)
        self._receiver.extend_time(len(piece))
        return piece

    def _next_chunk(self) -> None:
        if self._has_begun:
            self._read_line(2, BadRequest("a chunk that is longer than it says"))
        self._has_begun = True
        line = self._read_line(MAX_CHUNK_SIZE_LINE_BYTES)
        found = _CHUNK_SIZE.fullmatch(line)
        if found is None:
            raise BadRequest(f"not the size of a chunk: {excerpt(line.decode('latin-1'))}")
        self._chunk_left = int(found[1], 16)
        self._total += self._chunk_left
        limit = self._receiver.limits.max_body_bytes
        if self._total > limit:
            raise BadRequest(f"a body of more than {limit} bytes", "413 Content Too Large")
        if not self._chunk_left:
            self._skip_trailers()

    def _skip_trailers(self) -> None:
        """Check the trailers like headers, and drop them: merged into the headers they could forge one."""
        too_many = BadRequest(
            f"more than {MAX_HEADERS} trailers, or {MAX_TRAILER_BYTES} bytes", HEADERS_TOO_LARGE
        )
        bytes_left = MAX_TRAILER_BYTES
        for _ in range(MAX_HEADERS + 1):
            line = self._read_line(bytes_left, too_many)
            if not line:
                break
            check_field_line(line)
            bytes_left -= len(line) + 2
        else:
            raise too_many
        self._receiver.buffered, self._data, self.left = self._data[self._at :], b"", 0

    def _read_line(self, limit: int, too_long: BadRequest | None = None) -> bytes:
        """Return a line, without its end. Raises `too_long` if it does not end within `limit` bytes."""
        while (end := self._data.find(b"\n", self._at)) < 0 and len(self._data) - self._at < limit:
            self._data, self._at = self._data[self._at :] + self._receiver.read_some(8192), 0
        line = self._data[self._at : end + 1]
        if end < 0 or len(line) > limit:
            raise too_long or BadRequest("a line of a chunked body that is too long")
        if line[-2:] != b"\r\n":
            raise BadRequest("a line of a chunked body that does not end in CR LF")
        self._at = end + 1
        return line[:-2]
