"""Lines of bytes (page: basic/transports/stdio; basic/transports until 2025-11-25).

One message a line, in UTF-8: `read_lines` brings them in, a `Writer` sends them out. Neither needs a child:
they work on any byte stream, a socket for one (basic/transports/index).
# spec: basic/transports/index/custom-reuse-stdio-framing

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
from collections.abc import Callable

from mcp_ref.runtime.errors import (
    ConnectionClosed,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.pipes import poll_for

__all__ = ["Writer", "read_lines"]

_log = logger("mcp_ref.stdio")

MAX_MESSAGE = 64 << 20
"""Bytes of the longest line that is read; a longer one is refused without being kept."""

BEGINNING = 256
"""Bytes that are kept of a longer one: enough to say what it was an answer to."""

SHORT = 0.1
"""Seconds for which whoever has something to say waits itself for a peer that does not read."""

STALL = 60.0
"""Seconds that a peer may leave our bytes unread before it is given up."""

# ------------------------------------------------------------------------- the framing


def read_lines(
    descriptor: int,
    receive: Callable[[bytes], None],
    too_long: Callable[[int, bytes], None],
    limit: int = MAX_MESSAGE,
    ready: Callable[[], bool] | None = None,
) -> None:
    """Hand every line to `receive`, until end of input. Empty lines are nothing.

    A line beyond the limit is skipped to its end, then reported with its length and first bytes. A
    last line without a newline is a message that was cut off, and is not one. `ready` may wait for
    input, and say that there is no more to be read.
    """
    held: list[bytes] = []  # the beginning of a line that has not ended yet
    size = 0  # its length, also of what was skipped
    chunk = 65536
    while ready is None or ready():
        try:
            data = os.read(descriptor, chunk)
        except BlockingIOError:  # a socket that is also the way out, and so does not block
            poll_for(descriptor, select.POLLIN).poll()
            continue
        if not data:
            break
        chunk = 1 << 20 if len(data) == chunk else 65536
        start, end = 0, data.find(b"\n")
        while end >= 0:
            line = data[start:end]
            size += len(line)
            if held:
                line = b"".join((*held, line))
                held.clear()
            if size > limit:
                too_long(size, line[:BEGINNING])
            elif line and not line.isspace():
                receive(line)
            size = 0
            start, end = end + 1, data.find(b"\n", end + 1)
        if start < len(data):
            size += len(data) - start
            held.append(data[start:])
            if size > limit:
                held[:] = [held[0][:BEGINNING]]  # what is skipped is counted, not kept
    if held:
        _log.warning("the input ended within a message of %d bytes", size)


class Writer:
    """Writes all of the bytes it is given, or raises when the peer takes none for too long."""

    def __init__(self, descriptor: int, stall: float = STALL, *, peer: str = "the peer") -> None:
        """`peer` is who reads, in the error that tells of it."""
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._stall = stall
        self._peer = peer
        self._poll = poll_for(descriptor, select.POLLOUT)
        self._writing = threading.Lock()  # held during a write, so that nobody closes under it
        self._retired = False
        self.broken = False
        """Whether the peer is known to read no more."""
        forks.tell(self)

    def __call__(self, data: bytes) -> None:
        """All of it."""
        if self._some(data, self._stall) < len(data):
            raise ConnectionClosed(f"{self._peer} has read nothing for {self._stall:g} s")

    def begin(self, data: bytes) -> int:
        """As much as the peer takes without long waits; how many bytes that were."""
        return self._some(data, min(SHORT, self._stall))

    def _some(self, data: bytes, wait: float) -> int:
        with self._writing:
            rest = memoryview(data)
            while rest:
                if self._retired:
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
        """Wait until the peer has read, or no more is to be written. False after so many seconds."""
        end = time.monotonic() + seconds
        while not self._poll.poll(max(0.0, min(SHORT, end - time.monotonic())) * 1000):
            if self._retired:
                return True
            if time.monotonic() >= end:
                return False
        return True

    def retire(self, wait: float) -> bool:
        """No more writes. True when none is under way, so that the descriptor may be closed.

        One that waits for its peer gives up within SHORT seconds.
        """
        self._retired = True
        if not self._writing.acquire(timeout=wait):
            return False
        self._writing.release()
        return True

    def forked(self) -> None:
        """In a forked child: the descriptor is the parent's to write to."""
        self._retired = True
        self._writing = threading.Lock()
