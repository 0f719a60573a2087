"""Server-sent events, as the WHATWG's HTML standard has them: written by a server, read by a client.

A stream is lines, an event is a block of lines, and a blank line is the end of a block:

    id: 7                           encode(b'{"jsonrpc": ...}', id="7")
    data: {"jsonrpc": ...}          -> Event("message", '{"jsonrpc": ...}', "7", None)

    :                               COMMENT: nothing but a sign of life

Bytes arrive in pieces, cut anywhere. `Events` makes lines of them and blocks of lines; what a field of a
block means is left to sseclient-py, which is given one whole block at a time, with at most one line for
each field: it adds line to line, at a cost that grows with the square, so the further lines of data are
added here. An event is handed out as soon as the end of its blank line is there.

Bounded: a line or block above the limit ends the reading. The time for an event grows with its size
only, not with the number of pieces or lines that it came in.

Errors      TooLarge; and whatever the source of the bytes raises. After either there is nothing more
            to be read. Nothing that a peer may write is an error otherwise: what is not known is ignored,
            and a block that the stream's end cut off is dropped.
Threads     `encode` any. An `Events` belongs to one thread; its `last_id` and `retry` may be read by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["COMMENT", "Event", "Events", "TooLarge", "encode"]

COMMENT = b":\n\n"
"""Keeps a stream alive, and tells its reader so."""

MAX_RETRY = 24 * 60 * 60 * 1000
"""Milliseconds that a server can have its client wait: a day. Beyond that it is taken for a day."""

PIECE = 65536
"""Bytes that are asked for at once."""

BOM = b"\xef\xbb\xbf"


# ------------------------------------------------------------------------- writing


def encode(data: bytes, *, id: str | None = None, name: str | None = None, retry: int | None = None) -> bytes:
    """One event. Lines of the data, however they end, are lines for the reader too, ended by LF.

    Raises ValueError for an id, a name or a retry that would not arrive as it is.
    """
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    if id is None and name is None and retry is None:
        return b"".join((b"data: ", data, b"\n\n"))
    return b"".join((_head(id, name, retry), data, b"\n\n"))


def _head(id: str | None, name: str | None, retry: int | None) -> bytes:
    """The event up to its data."""
    head = "data: "
    if retry is not None:
        if retry < 0:
            raise ValueError(f"the retry of an event must be 0 ms or more, not {retry}")
        head = f"retry: {retry}\n{head}"
    if name is not None:
        if "\n" in name or "\r" in name:
            raise ValueError(f"the name of an event must be one line: {name!r}")
        head = f"event: {name}\n{head}"
    if id is not None:
        if "\n" in id or "\r" in id or "\0" in id:
            raise ValueError(f"the id of an event must be one line, without NUL: {id!r}")
        head = f"id: {id}\n{head}"
    return head.encode()


# ------------------------------------------------------------------------- reading


class TooLarge(ValueError):
    """A line or an event is larger than the reader allows."""


class Event(NamedTuple):
    """What a block says that has data; the data may be empty."""

    name: str
    """`message` unless the block says otherwise."""
    data: str
    id: str | None
    """The last id so far, which may be an earlier event's: None before the first, "" once taken back."""
    retry: int | None
    """Milliseconds, when this very block says so."""


class Events:
    """The events of a stream, one after the other: an iterator.

    `read1(n)` blocks until there are some bytes, n at the most, and is empty at the end. `on_alive` is
    called for each comment and for each block without data, which are no events.
    """

    def __init__(
        self, read1: Callable[[int], bytes], *, limit: int, on_alive: Callable[[], object] | None = None
    ) -> None:
        self.limit = limit
        self.last_id: str | None = None
        """Where to resume. Also blocks without data move it."""
        self.retry: int | None = None
        """Milliseconds to wait before reconnecting, as the server said last."""
        self._read1 = read1
        self._on_alive = on_alive
        # The block so far.
        self._fields: dict[bytes, bytes] = {}  # the line of each field: the last, but of data the first
        self._more = bytearray()  # the other lines of data, each with a newline before it
        self._size = 0
        self._events = self._parse()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def _parse(self) -> Iterator[Event]:
        from sseclient import SSEClient

        # It makes one event of each block, and takes the next block only when asked for the next event:
        # the block in here is still the one that this event was made of.
        for found in SSEClient(self._blocks()).events():
            if found.id is not None:
                self.last_id = found.id
            if b"data" in self._fields:
                data = found.data + self._more.decode(errors="replace") if self._more else found.data
                retry = None if found.retry is None else self.retry
                yield Event(found.event, data, self.last_id, retry)
            else:
                self._alive()

    def _blocks(self) -> Iterator[bytes]:
        """Each block with a field, so written that sseclient-py reads it rightly.

        Without data it would say nothing of the block: it gets an empty line of data.
        """
        for line in self._lines():
            if line:
                self._keep(line)
            elif self._size:
                lines = [*self._fields.values(), b"\n"]
                if b"data" not in self._fields:
                    lines.insert(0, b"data")
                block = b"\n".join(lines)
                yield block if block.isascii() else block.decode(errors="replace").encode()
                self._forget()

    def _keep(self, line: bytes) -> None:
        """Add a line to the block, unless it says nothing."""
        if line.startswith(b":"):
            # spec: basic/transports/streamable-http/sse-ignore-comments
            self._alive()
            return
        self._size += len(line) + 1
        name = line[:6].partition(b":")[0]  # no field that is known has a longer name
        if name == b"data" and name in self._fields:
            self._more += b"\n"
            self._more += line[5:].removeprefix(b" ")
        elif name in (b"data", b"event") or (name == b"id" and b"\0" not in line):
            self._fields[name] = line
        elif name == b"retry" and (digits := line[6:].removeprefix(b" ")).isdigit():
            self.retry = _milliseconds(digits)
            self._fields[name] = line

    def _lines(self) -> Iterator[bytes]:
        """Each whole line, without its end; what no line end follows is none."""
        held = bytearray()  # the beginning of a line that has not ended yet
        for piece in self._pieces():
            lines = piece.split(b"\n")
            rest = lines.pop()
            for line in lines:
                if held:
                    held += line
                    line = bytes(held)
                    held.clear()
                self._check(len(line))
                yield line
            held += rest
            self._check(len(held))

    def _pieces(self) -> Iterator[bytes]:
        """What arrives, without a byte order mark, each line end an LF."""
        first: bytes | None = b""  # as long as there is nothing but a mark, or half of one
        cut = False  # whether the last piece ended with CR: an LF is then the other half of a CRLF
        while piece := self._read1(PIECE):
            if first is not None:
                first += piece
                if BOM.startswith(first):
                    continue
                piece, first = first.removeprefix(BOM), None
            if cut and piece.startswith(b"\n"):
                piece = piece[1:]
            cut = piece.endswith(b"\r")
            if b"\r" in piece:
                piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            yield piece

    def _check(self, more: int) -> None:
        """Refuse a block that would be too large with a line of so many bytes; a blank one adds nothing."""
        if more and self._size + more > self.limit:
            self._forget()
            raise TooLarge(f"an event, or a line, of the stream is longer than {self.limit} bytes")

    def _forget(self) -> None:
        """The next block begins."""
        self._fields.clear()
        self._more.clear()
        self._size = 0

    def _alive(self) -> None:
        if self._on_alive is not None:
            self._on_alive()


def _milliseconds(digits: bytes) -> int:
    """A bounded number: `int` takes its time for a long one, and refuses the longest."""
    digits = digits.lstrip(b"0")
    return MAX_RETRY if len(digits) > 10 else min(int(digits or b"0"), MAX_RETRY)
