"""The bytes that a client of the embedded HTTP server sends, in order, and how long that may take.

A connection has one `Intake`. It gives the head of one request after another, and `Intake.body` is what
the application reads as `wsgi.input`, which ends where the request ends, whoever reads on.

    head of a request      `idle` seconds until it begins, `patience` until it is there
    body                   `patience`, and a second for each 64 KiB that have come

Errors      `BadRequest` with the status of the answer; a client that leaves is a ConnectionError.
Threads     that of the connection, alone.
POSIX       the kernel's own time-outs are set, in the layout of a `timeval`.
"""

from __future__ import annotations

import io
import re
import socket
import struct
from abc import abstractmethod
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from mcp_ref.runtime.http_server.request import (
    CHUNKED,
    MAX_HEADERS,
    MAX_LINE,
    BadRequest,
    Head,
    bad,
    check_field_line,
    is_token,
    shown,
    too_long,
)

__all__ = ["Body", "Chunked", "Intake", "Sized"]

T = TypeVar("T")

RATE = 65536
"""Bytes of a body that buy a slow client one more second."""

MAX_SIZE_LINE = 1024
"""Bytes of the line that says how long a chunk is."""

MAX_TRAILER_BYTES = 8192
"""Bytes of all trailers of a body: the fields that may follow its last chunk."""

_BARE = re.compile(rb"(?<!\r)\n")


class Intake:
    """The bytes that a client sends, in order."""

    def __init__(
        self, connection: socket.socket, *, idle: float, patience: float, max_head: int, max_body: int
    ) -> None:
        self._connection = connection
        self.patience = patience
        self.idle = idle
        self.max_head = max_head
        self.max_body = max_body
        self.held = b""  # what has arrived and belongs to nobody yet
        self.to_invite = False  # the client waits for 100 Continue before it sends the body
        self.failed = False  # what comes next, if anything, belongs to a request that was given up
        self._waited = 0.0  # for this request
        self._bonus = 0.0  # seconds that it has earned
        # The kernel ends each wait: that costs nothing where there is something to read.
        self._tick = min(idle, patience)
        limit = struct.pack("@ll", int(self._tick), max(1, int(self._tick % 1 * 1e6)))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def head(self) -> bytes | None:
        """The head of the next request; None if there is none, because the client left or is idle."""
        data = self.held or self._first()
        if data[:1] == b"\r":  # an empty line before a request is no part of it
            data = data.removeprefix(b"\r\n") or self._first()
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if not data:
                return None
            self._waited = self._bonus = 0.0
            data, end = self._piecemeal(data)
        if end > self.max_head:
            raise self._too_large()
        self.held = data[end + 4 :]
        return data[:end]

    def _first(self) -> bytes:
        waited = 0.0
        while True:
            try:
                return self._connection.recv(4096)
            except BlockingIOError:
                waited += self._tick
                if waited >= self.idle:
                    return b""

    def _piecemeal(self, data: bytes) -> tuple[bytes, int]:
        """A head that did not come at once. What cannot become one is refused as soon as that is seen."""
        got = bytearray(data)
        seen = 0
        while (end := got.find(b"\r\n\r\n", max(0, seen - 3))) < 0:
            if not is_token(chr(got[0])):
                raise bad("this is not HTTP/1.1")
            if _BARE.search(got, seen):
                raise bad("a line that ends in LF without CR")
            if len(got) > MAX_LINE and got.find(b"\n", 0, MAX_LINE + 2) < 0:
                raise too_long()
            if len(got) > self.max_head + 4:
                raise self._too_large()
            seen = len(got)
            got += self.some(8192)
        return bytes(got), end

    def _too_large(self) -> BadRequest:
        why = f"a head of more than {self.max_head} bytes"
        return BadRequest("431 Request Header Fields Too Large", why)

    def body(self, head: Head) -> Body:
        """What the application reads, where that is not there yet. Before that, `begin`."""
        if head.length == CHUNKED:
            return Chunked(self)
        return Sized(self, head.length)

    def begin(self, head: Head) -> None:
        """A request has begun: from here on its body may take `patience`."""
        self._waited = self._bonus = 0.0
        self.to_invite = head.expects and not self.held

    def exactly(self, size: int) -> bytes:
        """So many bytes."""
        data = self.held
        while len(data) < size:
            data += self.some(size - len(data))
        self.held = data[size:]
        return data[:size]

    def some(self, size: int) -> bytes:
        """Some more bytes of a request that has begun."""
        return self._patiently(self._connection.recv, size)

    def fill(self, view: memoryview) -> int:
        """Some more bytes of a request that has begun, into a place that is there for them."""
        return self._patiently(self._connection.recv_into, view)

    def _patiently(self, receive: Callable[[Any], T], what: Any) -> T:
        if self.to_invite:
            self.to_invite = False
            self._connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while True:
            began = monotonic()
            try:
                got: T | None = receive(what)
            except BlockingIOError:
                got = None
            self._waited += monotonic() - began
            if got is not None and not got:
                self.failed = True
                raise ConnectionAbortedError("the client left within a request")
            if self._waited > self.patience + self._bonus or (got is None and self._tick >= self.patience):
                self.failed = True
                why = f"the request was not there within {self.patience:g} s"
                raise BadRequest("408 Request Timeout", why)
            if got is not None:
                return got

    def earn(self, size: int) -> None:
        """So much of a body has come: the rest may take longer."""
        self._bonus += size / RATE


# ------------------------------------------------------------------------- the body


class Body(io.RawIOBase):
    """A body that is not there yet. It ends where the request ends, whoever reads on."""

    left = 0
    """Bytes that are still to come; CHUNKED while nobody knows."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def readable(self) -> bool:
        return True

    def readall(self) -> bytes:
        pieces = []
        while piece := self.piece(1 << 18):
            pieces.append(piece)
        return b"".join(pieces)

    @abstractmethod
    def piece(self, size: int) -> bytes:
        """Some of it, b"" at its end."""


class Sized(Body):
    """A body with a Content-Length."""

    def __init__(self, intake: Intake, length: int) -> None:
        super().__init__(intake)
        self.left = length

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: self.left]
        if not view:
            return 0
        if self._intake.held:
            piece = self._from_held(len(view))
            view[: len(piece)] = piece
            return len(piece)
        got = self._intake.fill(view)
        self._count(got)
        return got

    def piece(self, size: int) -> bytes:
        size = min(size, self.left)
        if not size:
            return b""
        if self._intake.held:
            return self._from_held(size)
        piece = self._intake.some(size)
        self._count(len(piece))
        return piece

    def _from_held(self, size: int) -> bytes:
        piece, self._intake.held = self._intake.held[:size], self._intake.held[size:]
        self._count(len(piece))
        return piece

    def _count(self, size: int) -> None:
        self.left -= size
        self._intake.earn(size)


_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t -~\x80-\xff]*)?")


class Chunked(Body):
    """A body in chunks. Each line of the framing must be as RFC 9112 has it, to the letter."""

    def __init__(self, intake: Intake) -> None:
        super().__init__(intake)
        self.left = CHUNKED
        self._data, intake.held = intake.held, b""
        self._at = 0  # how much of _data is used up
        self._chunk = 0  # what is left of this chunk
        self._begun = False
        self._total = 0

    def readinto(self, buffer: Any) -> int:
        piece = self.piece(len(buffer))
        memoryview(buffer)[: len(piece)] = piece
        return len(piece)

    def piece(self, size: int) -> bytes:
        if not self.left or not size:
            return b""
        if not self._chunk:
            self._next_chunk()
            if not self.left:
                return b""
        if self._at == len(self._data):
            self._data, self._at = self._intake.some(65536), 0
        piece = self._data[self._at : self._at + min(size, self._chunk)]
        self._at += len(piece)
        self._chunk -= len(piece)
        self._intake.earn(len(piece))
        return piece

    def _next_chunk(self) -> None:
        if self._begun:
            self._line(2, bad("a chunk that is longer than it says"))
        self._begun = True
        line = self._line(MAX_SIZE_LINE)
        said = _SIZE.fullmatch(line)
        if said is None:
            raise bad(f"not the size of a chunk: {shown(line.decode('latin-1'))}")
        self._chunk = int(said[1], 16)
        self._total += self._chunk
        if self._total > self._intake.max_body:
            raise BadRequest("413 Content Too Large", f"a body of more than {self._intake.max_body} bytes")
        if not self._chunk:
            self._skip_trailers()

    def _skip_trailers(self) -> None:
        """Read the trailers, as strictly as headers. They are never added to these, nor looked at."""
        why = f"more than {MAX_HEADERS} trailers, or {MAX_TRAILER_BYTES} bytes of them"
        too_many = BadRequest("431 Request Header Fields Too Large", why)
        room = MAX_TRAILER_BYTES
        for _ in range(MAX_HEADERS + 1):
            line = self._line(room, too_many)
            if not line:
                break
            check_field_line(line)
            room -= len(line) + 2
        else:
            raise too_many
        self._intake.held, self._data, self.left = self._data[self._at :], b"", 0

    def _line(self, limit: int, too_long: BadRequest | None = None) -> bytes:
        """A line, without its end. Raises `too_long` for one that does not end within the limit."""
        while (end := self._data.find(b"\n", self._at)) < 0 and len(self._data) - self._at < limit:
            self._data, self._at = self._data[self._at :] + self._intake.some(8192), 0
        line = self._data[self._at : end + 1]
        if end < 0 or len(line) > limit:
            raise too_long or bad("a line of a chunked body that is too long")
        if line[-2:] != b"\r\n":
            raise bad("a line of a chunked body that does not end in CR LF")
        self._at = end + 1
        return line[:-2]
