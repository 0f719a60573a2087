"""One time limit, handed down through all the steps of an operation.

A deadline is set once, where the operation begins; each step asks what is `left`. Two things move
it: progress from the peer restarts its clock, up to a cap, and time during which the peer waits for
*us* (a person is asked something) does not count. But FOR_PEOPLE seconds after the cap, in real time, the
deadline is over in any case.

Threads     made by the caller of a request; `restart` and `hold` are called by the reader and by
            workers. Reading needs no lock: the state of a clock is one tuple, which is replaced as a whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

__all__ = ["Clock", "Deadline", "duration"]

MAX_DEADLINE_SECONDS = 3600.0
"""The longest single wait, in seconds, after which it looks again: no lock accepts an infinite time-out."""


FOR_PEOPLE = 600.0
"""The longest time, in seconds, that a deadline stands still for a person: a peer may ask for ever."""


def duration(seconds: float) -> str:
    """Seconds as an error message shows them: rounded, since what is left of a limit has many digits."""
    return f"{round(seconds, 2 if seconds >= 1 else 3) or seconds:g} s"


class Clock:
    """The time of all deadlines of one connection. It stands still while it is held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds = 0  # guarded by _lock
        # When it was stopped (None: it runs), and the seconds of earlier holds. Replaced under _lock.
        self._state: tuple[float | None, float] = (None, 0.0)

    def forked(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._lock = threading.Lock()

    def now(self) -> float:
        """The time in seconds, without those during which the clock was held."""
        # Read before the state: else the seconds of a hold between the two would count as time.
        now = time.monotonic()
        held_at, lost = self._state
        return (now if held_at is None else held_at) - lost

    @property
    def is_held(self) -> bool:
        """Whether a person is being asked something right now."""
        return self._state[0] is not None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Stop the clock for as long as the block runs; blocks may overlap."""
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
    """A time limit: `seconds`, or with restarts up to `cap`, by a clock that may be held."""

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
        """Stop its clock, and with it all deadlines of that clock, for as long as the block runs."""
        return self._clock.hold()

    def restart(self) -> None:
        """Start the time anew, up to the cap: the peer has reported progress."""
        self._end = self._clock.now() + self.span
        self._has_restarted = True

    def reached(self) -> str:
        """Name the limit that ended the wait, for an error message: "no answer within ..."."""
        if time.monotonic() >= self._last:
            return f"{duration(self._longest + FOR_PEOPLE)} in all, with the time in which a person was asked"
        if self._cap < self._end:
            limit = " (max_timeout)" if self._longest > self.span else ""  # one below `span` has no effect
            return f"{duration(self._longest)} in all{limit}, in spite of progress"
        return duration(self.span) + (" since the last progress" if self._has_restarted else "")

    def pause(self) -> float:
        """How many seconds a wait may last before it must look at the deadline again: never endless."""
        left = min(self.left(), MAX_DEADLINE_SECONDS)
        return max(0.05, left) if self._clock.is_held else max(0.0, left)
