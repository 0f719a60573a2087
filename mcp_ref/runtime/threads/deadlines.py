"""One time limit, handed down through all the steps of an operation.

A deadline is set once, where the operation begins; each step asks what is `left`. Two things move
it: progress from the peer restarts its clock, up to a cap, and time during which the peer waits for
*us* (a person is asked something) does not count. FOR_PEOPLE seconds after the cap, by any clock, it is
over.

Threads     made by the caller of a request; `restart` and `hold` are called by the reader and by
            workers. Reading needs no lock: the state is replaced in one piece.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

__all__ = ["Clock", "Deadline", "duration"]

MAX_DEADLINE_SECONDS = 3600.0
"""Seconds after which every wait looks again: an endless one is more than a lock can count."""


FOR_PEOPLE = 600.0
"""The longest that a deadline stands still while a person is asked: a peer may ask for ever."""


def duration(seconds: float) -> str:
    """Seconds for people: what is left of a longer time has more digits than anybody wants to read."""
    return f"{round(seconds, 2 if seconds >= 1 else 3) or seconds:g} s"


class Clock:
    """Time as the deadlines of one connection count it: it stands still while it is held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds = 0  # guarded by _lock
        # When it was stopped (None: it runs), and the seconds lost before. Replaced under _lock.
        self._state: tuple[float | None, float] = (None, 0.0)

    def forked(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds, without those during which the clock was held."""
        now = time.monotonic()  # first: a hold that ends meanwhile must not make this look late
        held_at, lost = self._state
        return (now if held_at is None else held_at) - lost

    @property
    def is_held(self) -> bool:
        """Whether a person is being asked something right now."""
        return self._state[0] is not None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Stops the clock for as long as the block runs; blocks may overlap."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._holds += change
            held_at, lost = self._state
            now = time.monotonic()
            if held_at is None:
                self._state = (now, lost)
            elif not self._holds:
                self._state = (None, lost + now - held_at)


class Deadline:
    """When to stop waiting."""

    __slots__ = ("_cap", "_clock", "_end", "_has_restarted", "_last", "_longest", "began", "span")

    def __init__(self, seconds: float, clock: Clock, *, cap: float | None = None) -> None:
        now = clock.now()
        self._clock = clock
        self.span = seconds
        self._end = now + seconds
        longest = max(seconds, cap) if cap is not None else seconds
        self._longest = longest
        self._has_restarted = False
        self._cap = now + longest
        self.began = time.monotonic()
        self._last = self.began + longest + FOR_PEOPLE

    def left(self) -> float:
        """Seconds until the end; zero or less when it is over."""
        return min(min(self._end, self._cap) - self._clock.now(), self._last - time.monotonic())

    def hold(self) -> AbstractContextManager[None]:
        """Stops its clock, and with it all deadlines of that clock, for as long as the block runs."""
        return self._clock.hold()

    def restart(self) -> None:
        """The peer is at work."""
        self._end = self._clock.now() + self.span
        self._has_restarted = True

    def reached(self) -> str:
        """The limit that ended the wait, for the error that tells of it: "no answer within ..."."""
        if time.monotonic() >= self._last:
            return f"{duration(self._longest + FOR_PEOPLE)} in all, with the time in which a person was asked"
        if self._cap < self._end:
            limit = " (max_timeout)" if self._longest > self.span else ""  # a shorter one counts for nothing
            return f"{duration(self._longest)} in all{limit}, in spite of progress"
        return duration(self.span) + (" since the last progress" if self._has_restarted else "")

    def pause(self) -> float:
        """How long a wait may last before it should look again: never for ever."""
        left = min(self.left(), MAX_DEADLINE_SECONDS)
        return max(0.05, left) if self._clock.is_held else max(0.0, left)
