"""Lines of bytes (page: basic/transports/stdio; basic/transports until 2025-11-25).

One message a line, in UTF-8: `read_lines` brings them in, a `Writer` sends them out. Neither needs a child:
they work on any byte stream, such as a socket (basic/transports/index).

Revisions   2024-11-05  newline-delimited JSON-RPC
            2025-03-26  + UTF-8 is a must; a batch may stand on a line
            2025-06-18  - batches
Threads     `read_lines` runs on the reader; a `Writer` belongs to the thread that writes, one at a time
            (runtime/threads/outbox).
POSIX       pipes are polled; this does not run on Windows.
"""

from __future__ import annotations

import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterator

from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.pipes import poll_for

__all__ = ["Writer", "read_lines"]

_log = logger("mcp_ref.stdio")

MAX_MESSAGE_BYTES = 64 << 20
"""Bytes of the longest line that is read; a longer one is skipped without being stored."""

PREFIX_BYTES = 256
"""Bytes of a longer line that are stored, from its beginning: enough for the id of most messages."""

CHUNK_BYTES = 64 << 10
"""Bytes of a read. One that is full means that the pipe holds more: the next may have MAX_CHUNK_BYTES."""

MAX_CHUNK_BYTES = 1 << 20

SHORT_WAIT_SECONDS = 0.1
"""Seconds for which a sender blocks on a peer that reads nothing before it queues the rest of its message."""

STALL_SECONDS = 60.0
"""Seconds for which a peer may leave our bytes unread before the connection is closed."""

# ------------------------------------------------------------------------- the framing


def read_lines(
    descriptor: int,
    receive: Callable[[bytes], None],
    too_long: Callable[[int, bytes], None],
    limit: int = MAX_MESSAGE_BYTES,
    ready: Callable[[], bool] | None = None,
) -> None:
    """Give every line to `receive`, until end of input. Empty lines are ignored.

    A line is a message, and all that there is of it.
    # spec: basic/transports/stdio/metadata-inline

    A line beyond the limit is skipped to its end; then `too_long` gets its length and first bytes. A last
    line without a newline is a message that was cut off, and is dropped. `ready` may wait for input, and
    returns False to end reading.
    """
    held: list[bytes] = []  # the beginning of a line that has not ended yet
    size = 0  # its length, also of what was skipped
    for data in _chunks(descriptor, ready):
        start, end = 0, data.find(b"\n")
        while end != -1:
            line = data[start:end]
            size += len(line)
            if held:
                line = b"".join((*held, line))
                held.clear()
            if size > limit:
                too_long(size, line[:PREFIX_BYTES])
            elif line.strip():
                receive(line)
            size = 0
            start = end + 1
            end = data.find(b"\n", start)
        if start < len(data):
            size += len(data) - start
            held.append(data[start:])
            if size > limit:
                held[:] = [_beginning_of(held)]  # the rest is counted, but not stored
    if held:
        _log.warning("the input ended within a message of %d bytes", size)


def _beginning_of(pieces: list[bytes]) -> bytes:
    """The first PREFIX_BYTES of a line in pieces, of which the first may be short."""
    found = b""
    for piece in pieces:
        found += piece[: PREFIX_BYTES - len(found)]
        if len(found) == PREFIX_BYTES:
            break
    return found


def _chunks(descriptor: int, ready: Callable[[], bool] | None) -> Iterator[bytes]:
    """The input as it comes, until its end, or until `ready` returns False."""
    size = CHUNK_BYTES
    while ready is None or ready():
        try:
            data = os.read(descriptor, size)
        except BlockingIOError:  # a socket that is also written to, and so is non-blocking
            poll_for(descriptor, select.POLLIN).poll()
            continue
        if not data:
            return
        size = MAX_CHUNK_BYTES if len(data) == size else CHUNK_BYTES
        yield data


class Writer:
    """Writes all bytes that it is given, or raises when the peer reads none for too long."""

    def __init__(self, descriptor: int, stall: float = STALL_SECONDS, *, peer: str = "the peer") -> None:
        """`peer` is the name of the reader in error messages."""
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._stall = stall
        self._peer = peer
        self._poll = poll_for(descriptor, select.POLLOUT)
        self._writing = threading.Lock()  # held during a write, so that the descriptor is not closed under it
        self._closed = False
        self.broken = False
        """Whether the peer closed its input."""
        forks.register(self)

    def __call__(self, data: bytes) -> None:
        """Write all of the data. Raises ConnectionClosed."""
        if self.begin(data, self._stall) < len(data):
            raise ConnectionClosed(f"{self._peer} has read nothing for {self._stall:g} s")

    def begin(self, data: bytes, wait: float = SHORT_WAIT_SECONDS) -> int:
        """Write until the peer takes nothing for `wait` seconds; returns the number of bytes written.

        Raises ConnectionClosed.
        """
        wait = min(wait, self._stall)
        with self._writing:
            rest = memoryview(data)
            while rest:
                if self._closed:
                    raise ConnectionClosed("the connection was closed")
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    if not self._has_room(wait):
                        break
                except BrokenPipeError as problem:
                    self.broken = True
                    raise ConnectionClosed(f"{self._peer} closed its input") from problem
            return len(data) - len(rest)

    def _has_room(self, seconds: float) -> bool:
        """Wait until the peer has read, or the writer was closed. False if neither happens in `seconds`."""
        end = time.monotonic() + seconds
        while not self._poll.poll(max(0.0, min(SHORT_WAIT_SECONDS, end - time.monotonic())) * 1000):
            if self._closed:
                return True
            if time.monotonic() >= end:
                return False
        return True

    def close(self, wait: float) -> bool:
        """End writing. True when no write is under way, so that the descriptor may be closed.

        A write that waits for its peer gives up within SHORT_WAIT_SECONDS.
        """
        self._closed = True
        if not self._writing.acquire(timeout=wait):
            return False
        self._writing.release()
        return True

    def forked(self) -> None:
        """Write nothing more in a forked child: the descriptor is the parent's."""
        self._closed = True
        self._writing = threading.Lock()
