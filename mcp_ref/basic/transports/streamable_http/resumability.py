"""What a client may ask for again (page: basic/transports, "Resumability and Redelivery").

A client that was cut off names the last event that it saw; the server sends what came after it, on the same
stream. So the events of a session are kept for a while: not all, and never more than so many bytes.

    StoredEvents    the events of one stream, each with its number
    Log             the streams of one session
        keep        an event was said        -> those of the oldest streams go, where there are too many
        find        Last-Event-ID            -> its stream, and the number of the event

Revisions   2025-03-26 to 2025-11-25.  In 2026-07-28 nothing is resumed.
Threads     any; see `_lock`. StoredEvents have no lock: their stream has one for them.
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
"""Bytes that an event counts for besides its own: a log of many small ones is large as well."""


FREED_AT_ONCE = 16
"""The part of the limit, a sixteenth, that is freed where there are too many: to free a little for each event
would cost each of them a look at all streams."""


class StoredEvents:
    """The events of one stream, numbered from 1, as far as they are still there."""

    __slots__ = ("_lines", "first", "sent", "unsent_bytes")

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self.first = 1
        """The number of the oldest that is still there."""
        self.sent = 0
        """The number of the last one that a client was sent."""
        self.unsent_bytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def last(self) -> int:
        """The number of the newest."""
        return self.first + len(self._lines) - 1

    def add(self, line: bytes) -> int:
        """One more; its number."""
        self._lines.append(line)
        self.unsent_bytes += len(line)
        return self.last

    def has(self, number: int) -> bool:
        """Whether all after this event is still there."""
        return self.first - 1 <= number <= self.last

    def rewind(self, number: int) -> None:
        """Its client has seen this event, and nothing after it."""
        self.sent = number
        self.unsent_bytes = sum(map(len, self._unsent()))

    def _unsent(self) -> list[bytes]:
        return self._lines[max(0, self.sent + 1 - self.first) :]

    def take(self) -> list[tuple[int, bytes]]:
        """What was not sent yet, each with its number: it counts as sent from now on."""
        taken = list(enumerate(self._unsent(), max(self.sent + 1, self.first)))
        if taken:
            self.mark_sent()
        return taken

    def mark_sent(self) -> None:
        """All of them were sent."""
        self.sent, self.unsent_bytes = self.last, 0

    def forget_sent(self) -> None:
        """Its client cannot come back for what it was sent."""
        self._drop(max(0, min(self.sent + 1 - self.first, len(self._lines))))

    def _drop(self, count: int) -> None:
        del self._lines[:count]
        self.first += count

    def spare(self, but: int, *, is_read: bool) -> int:
        """How many of the oldest can go: all `but` so many, and none that a client has still to be sent."""
        most = len(self._lines) - but
        return min(most, self.sent + 1 - self.first) if is_read else most

    def forget(self, size: int, but: int, *, is_read: bool) -> int:
        """Drop the oldest: as many as make so many bytes. Returns how many they make."""
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
        """The `tag` is in all ids of this session, so that the id of another one is known for what it is."""
        self.limit = limit
        self.names: Iterator[str] = map(f"{tag}-%d".__mod__, itertools.count(1))
        """Of its streams: their ids begin so.

        # spec: basic/transports/streamable-http/event-id-names-stream
        """
        self._lock = threading.Lock()
        # Guarded by _lock, under which the locks of streams in the log are taken; a stream that enters it is
        # not in it yet.
        self._size = 0
        self._streams: dict[str, HttpStream] = {}
        self._newest: HttpStream | None = None  # that said something

    def enter(self, name: str, stream: HttpStream) -> None:
        """A stream that has begun. It may be in the log."""
        if name not in self._streams:
            with self._lock:
                self._streams[name] = stream

    def keep(self, stream: HttpStream, size: int) -> None:
        """One more event; those of the oldest streams go where there are too many, the newest last."""
        with self._lock:
            self._newest = stream if size + OVERHEAD <= self.limit else None  # what is too large goes itself
            self._size += size + OVERHEAD
            if self._size > self.limit:
                self._trim()

    def trim(self) -> None:
        """Events were sent: some that could not go before may go now."""
        if self._size > self.limit:
            with self._lock:
                self._trim()

    def remove(self, name: str) -> None:
        """Nothing is left of a stream, or it had no events after all."""
        with self._lock:
            self._streams.pop(name, None)

    def _trim(self) -> None:
        """Not what a client who is there has yet to be sent: ROOM bounds that. With _lock held."""
        target = self.limit - self.limit // FREED_AT_ONCE // OVERHEAD * OVERHEAD
        while self._size > target and (stream := self._oldest()) is not None:
            with stream.lock:
                self._size -= stream.machine.forget(self._size - target, but=int(stream is self._newest))
                if stream.machine.is_spent:
                    del self._streams[stream.machine.name]

    def _oldest(self) -> HttpStream | None:
        """The stream that can spare events most easily: one that is over, before one that goes on."""
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

        An id is a string that we made: another spelling of the same number is not it.
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
        """Those that something is left of."""
        with self._lock:
            return list(self._streams.values())

    def clear(self) -> None:
        """The session is over. Breaks the cycle of a log and its streams, so that both are freed at once."""
        with self._lock:
            self._streams.clear()
            self._newest = None
