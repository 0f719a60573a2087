"""Server-sent events, as the HTML standard defines them: written by a server, read by a client.

A stream is lines, an event is a block of lines, and a blank line ends a block:

    id: 7                           encode(b'{"jsonrpc": ...}', id="7")
    data: {"jsonrpc": ...}          -> Event("message", '{"jsonrpc": ...}', "7", None)

    :                               COMMENT, which only shows that the server is alive

Bytes arrive in pieces that are cut anywhere. `Events` makes lines of them, and blocks of the lines. What the
fields of a block mean is left to sseclient-py; but it joins the lines of data one by one, in quadratic time.
So it gets a block at a time, with one line for each field, and further lines of data are joined here. An
event is handed out as soon as the end of its blank line has arrived.

Bounded: a line or a block above the limit ends the reading. The time for an event grows with its size only,
not with the number of pieces or lines in which it came.

Errors      TooLarge, and what the source of the bytes raises; after either there is nothing more to read.
            Nothing else that a server may write is an error: unknown fields are ignored, and a block that
            the end of the stream cuts off is dropped.
Threads     `encode` any. An `Events` belongs to one thread; its `last_id` and `retry` may be read by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["COMMENT", "Event", "Events", "TooLarge", "encode"]

COMMENT = b":\n\n"
"""Shows the reader, and proxies on the way, that the stream is alive."""
MAX_RETRY_MS = 24 * 60 * 60 * 1000
"""The longest wait that a server can ask for, in milliseconds: a day. A longer one counts as a day."""
READ_BYTES = 65536
"""The most bytes to read at once."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def encode(data: bytes, *, id: str | None = None, name: str | None = None, retry: int | None = None) -> bytes:
    """One event. Line ends in the data, CR, LF or CRLF, reach the reader as LF.

    Raises ValueError for an id, a name or a retry that an event cannot carry.
    """
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    if id is None and name is None and retry is None:
        return b"".join((b"data: ", data, b"\n\n"))
    if retry is not None and retry < 0:
        raise ValueError(f"the retry of an event must be 0 ms or more, not {retry}")
    head = _line("id: ", "id", id) + _line("event: ", "name", name)
    head += "" if retry is None else f"retry: {retry}\n"
    return b"".join((head.encode(), b"data: ", data, b"\n\n"))


def _line(field: str, what: str, value: str | None) -> str:
    if value is None:
        return ""
    if "\n" in value or "\r" in value or "\0" in value:
        raise ValueError(f"the {what} of an event must be one line, without NUL: {value!r}")
    return f"{field}{value}\n"


class TooLarge(ValueError):
    """A line or an event is larger than the reader allows."""


class Event(NamedTuple):
    """An event: a block with data, which may be empty."""

    name: str
    """`message` unless the block has an `event` field."""
    data: str
    id: str | None
    """The last id so far, perhaps of an earlier event: None before the first, "" after an empty one."""
    retry: int | None
    """Milliseconds, if this very block has the field."""


class Events:
    """An iterator over the events of a stream.

    `read1(n)` blocks until some bytes are there, at most n, and returns b"" at the end. `on_alive` is called
    for each comment and for each block without data, neither of which is an event.
    """

    def __init__(
        self, read1: Callable[[int], bytes], *, limit: int, on_alive: Callable[[], object] | None = None
    ) -> None:
        self.limit = limit
        self.last_id: str | None = None
        """Where to resume: the last id, also of a block without data."""
        self.retry: int | None = None
        """Milliseconds to wait before reconnecting, by the last `retry` field."""
        self._read1 = read1
        self._alive = on_alive or (lambda: None)
        # The block so far.
        self._fields: dict[bytes, bytes] = {}  # the last line of each field, but the first line of data
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
        # so `_fields` and `_more` still hold the block of this event.
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
        """Each block with a field, as sseclient-py needs it: with an empty line of data if it has none.

        It makes no event of a block without data, so that we would miss the id in that block.
        """
        for line in self._lines():
            if line:
                self._add_line(line)
            elif self._size:
                lines = [*self._fields.values(), b"\n"]
                if b"data" not in self._fields:
                    lines.insert(0, b"data")
                block = b"\n".join(lines)
                yield block if block.isascii() else block.decode(errors="replace").encode()
                self._begin_block()

    def _add_line(self, line: bytes) -> None:
        """Add a line to the block, unless it is a comment or of an unknown field."""
        if line.startswith(b":"):
            self._alive()
            return
        self._size += len(line) + 1
        name = line[:6].partition(b":")[0]  # `event` and `retry` are the longest known names
        if name == b"data" and name in self._fields:
            self._more += b"\n"
            self._more += line[5:].removeprefix(b" ")
        elif name in (b"data", b"event") or (name == b"id" and b"\0" not in line):
            self._fields[name] = line
        elif name == b"retry" and (digits := line[6:].removeprefix(b" ")).isdigit():
            # Ten digits at most: `int` would be slow for a long number, and refuse the longest.
            self.retry = min(int(digits.lstrip(b"0")[:10].ljust(1, b"0")), MAX_RETRY_MS)
            self._fields[name] = line

    def _lines(self) -> Iterator[bytes]:
        """Each line, without its end; text after the last line end is not a line."""
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
        """The bytes as they arrive, without a byte order mark, and with LF for each line end."""
        first: bytes | None = b""  # the first bytes, while they may be a mark or a part of one; then None
        cut = False  # whether the last piece ended with CR: an LF is then the other half of a CRLF
        while piece := self._read1(READ_BYTES):
            if first is not None:
                first += piece
                if _BYTE_ORDER_MARK.startswith(first):
                    continue
                piece, first = first.removeprefix(_BYTE_ORDER_MARK), None
            if cut and piece.startswith(b"\n"):
                piece = piece[1:]
            cut = piece.endswith(b"\r")
            if b"\r" in piece:
                piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            yield piece

    def _check(self, more: int) -> None:
        """Raises TooLarge if a line of `more` bytes would exceed the limit; a blank line adds nothing."""
        if more and self._size + more > self.limit:
            self._begin_block()
            raise TooLarge(f"an event, or a line, of the stream is longer than {self.limit} bytes")

    def _begin_block(self) -> None:
        self._fields.clear()
        self._more.clear()
        self._size = 0
