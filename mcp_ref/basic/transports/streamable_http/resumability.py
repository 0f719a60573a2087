"""What a client may ask for again (page: basic/transports, "Resumability and Redelivery").

A client that was cut off names the last event that it saw; the server sends the events that came after it, on
the same stream. So the newest events of a session are kept, up to a number of bytes (`log_bytes`), and beyond
that only those that a connected client has still to be sent.

    StoredEvents    the events of one stream, each with its number
    Log             the streams of one session
        keep        an event was stored      -> events of the oldest streams go, if there are too many
        find        Last-Event-ID            -> its stream, and the number of the event

Revisions   2025-03-26 to 2025-11-25.  In 2026-07-28 nothing is resumed.
Threads     any; see `_lock`. StoredEvents has no lock of its own: that of its stream guards it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.responding import HttpStream

__all__ = ["OVERHEAD", "Log", "StoredEvents"]

OVERHEAD = 1000
"""Bytes that each event counts for, besides its own: many small events take much memory as well."""


FREED_AT_ONCE = 16
"""A sixteenth of the limit is freed at once: to free a little for each new event would cost each of them a
look at all streams."""


class StoredEvents:
    """The events of one stream, numbered from 1, as far as they are still stored."""

    __slots__ = ("_lines", "first", "sent", "unsent_bytes")

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self.first = 1
        """The number of the oldest event that is still stored."""
        self.sent = 0
        """The number of the last event that a client was sent."""
        self.unsent_bytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self.first + len(self._lines) - 1

    def add(self, line: bytes) -> int:
        """Store one more event. Returns its number."""
        self._lines.append(line)
        self.unsent_bytes += len(line)
        return self.last

    def has(self, number: int) -> bool:
        """Whether all events after this one are still stored."""
        return self.first - 1 <= number <= self.last

    def rewind(self, number: int) -> None:
        """Count this event as the last that the client was sent."""
        self.sent = number
        self.unsent_bytes = sum(map(len, self._unsent()))

    def _unsent(self) -> list[bytes]:
        return self._lines[max(0, self.sent + 1 - self.first) :]

    def take(self) -> list[tuple[int, bytes]]:
        """The events that were not sent yet, each with its number. They count as sent from now on."""
        taken = list(enumerate(self._unsent(), max(self.sent + 1, self.first)))
        if taken:
            self.mark_sent()
        return taken

    def mark_sent(self) -> None:
        """Count all events as sent."""
        self.sent, self.unsent_bytes = self.last, 0

    def forget_sent(self) -> None:
        """Drop the events that were sent: the client cannot come back for them."""
        self._drop(max(0, min(self.sent + 1 - self.first, len(self._lines))))

    def _drop(self, count: int) -> None:
        del self._lines[:count]
        self.first += count

    def spare(self, but: int, *, is_read: bool) -> int:
        """How many of the oldest events can go: all but the newest `but`.

        If the stream `is_read`, no event can go that its client has still to be sent.
        """
        most = len(self._lines) - but
        return min(most, self.sent + 1 - self.first) if is_read else most

    def forget(self, size: int, but: int, *, is_read: bool) -> int:
        """Drop the oldest events that can go, until `size` bytes are freed. Returns the bytes freed."""
        freed, count, spare = 0, 0, self.spare(but, is_read=is_read)
        while freed < size and count < spare:
            freed += len(self._lines[count]) + OVERHEAD
            count += 1
        self._drop(count)
        self.rewind(self.sent)
        return freed


class Log:
    """The events of one session that a client may ask for again: the newest, up to a number of bytes.

    # spec: basic/transports/streamable-http/event-id-unique
    """

    def __init__(self, tag: str, limit: int) -> None:
        """All ids of this session begin with the `tag`: so an id of another session is not found here."""
        self.limit = limit
        self.names: Iterator[str] = map(f"{tag}-%d".__mod__, itertools.count(1))
        """The names for its streams, with which their event ids begin.

        # spec: basic/transports/streamable-http/event-id-names-stream
        """
        self._lock = threading.Lock()
        # Guarded by _lock. Under it the locks of the streams in the log are taken. `enter` is called with the
        # lock of a stream held, but takes _lock only for a stream that is not in the log: so no deadlock.
        self._size = 0
        self._streams: dict[str, HttpStream] = {}
        self._newest: HttpStream | None = None  # the stream of the newest event

    def enter(self, name: str, stream: HttpStream) -> None:
        """Add a stream that has begun, if it is not in the log yet."""
        if name not in self._streams:
            with self._lock:
                self._streams[name] = stream

    def keep(self, stream: HttpStream, size: int) -> None:
        """Count a new event of a stream. Beyond the limit those of the oldest streams go, the newest last."""
        with self._lock:
            self._newest = stream if size + OVERHEAD <= self.limit else None  # too large: it goes as well
            self._size += size + OVERHEAD
            if self._size > self.limit:
                self._trim()

    def trim(self) -> None:
        """Drop events that could not go until they were sent, if there are too many."""
        if self._size > self.limit:
            with self._lock:
                self._trim()

    def remove(self, name: str) -> None:
        """Remove a stream of which no event is stored."""
        with self._lock:
            self._streams.pop(name, None)

    def _trim(self) -> None:
        """Drop events until there is room. With _lock held.

        Events that a connected client has still to be sent stay: ROOM (responding) bounds those.
        """
        target = self.limit - self.limit // FREED_AT_ONCE // OVERHEAD * OVERHEAD
        while self._size > target and (stream := self._oldest()) is not None:
            with stream.lock:
                self._size -= stream.machine.forget(self._size - target, but=int(stream is self._newest))
                if stream.machine.is_spent:
                    del self._streams[stream.machine.name]

    def _oldest(self) -> HttpStream | None:
        """The oldest stream that can spare events: one that is over comes before any that goes on."""
        spare = None
        for stream in self._streams.values():
            with stream.lock:
                can_forget = stream.machine.can_forget(but=int(stream is self._newest))
            if can_forget and stream.machine.is_over:
                return stream
            spare = spare or (stream if can_forget else None)
        return spare

    def find(self, event_id: str) -> tuple[HttpStream, int] | None:
        """The stream that an id belongs to, and the number of the event; None if it is not stored (any more).

        Only the very string that we sent is an id: another spelling of the same number is not found.
        """
        name, _, number = event_id.rpartition("-")
        if not (number.isascii() and number.isdigit() and len(number) < 12 and str(int(number)) == number):
            return None
        with self._lock:
            stream = self._streams.get(name)
        if stream is None:
            return None
        with stream.lock:
            return (stream, int(number)) if stream.machine.has(int(number)) else None

    def streams(self) -> list[HttpStream]:
        """The streams in the log."""
        with self._lock:
            return list(self._streams.values())

    def clear(self) -> None:
        """The session is over. Breaks the cycle of a log and its streams, so that both are freed at once."""
        with self._lock:
            self._streams.clear()
            self._newest = None
