"""Limits on the calls that run at once, and on the threads of a WSGI server that are taken.

    enter_call, leave_call          a call runs; it may have to wait for its turn, up to TURN_SECONDS
    enter_stream, leave_stream      a stream stays open, and runs nothing; it never waits for a place

All requests share the threads of a WSGI server. If calls that wait for answers of their clients took the last
thread, none would be left to receive such an answer. So if `threads` is given, one thread stays free for
requests that end the waits of others, and streams leave one more for calls.

Errors      NoPlace, which says when to try again.
Threads     any. Turns are handed over in the order in which they were asked for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from mcp_ref.runtime.errors import LocalError

__all__ = ["NoPlace", "Places"]

TURN_SECONDS = 10.0
"""Seconds that a call waits for its turn before it is refused."""

LOOK_SECONDS = 0.25
"""Seconds between two looks of a waiting call at whether it is still wanted."""


class NoPlace(LocalError):
    """There is no place, and none is expected soon. Try again after `seconds`."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds


class Places:
    """The calls and the streams of one application."""

    def __init__(self, *, running: int, waiting: int, streams: int, threads: int | None) -> None:
        """At most `running` calls run, `waiting` more wait, and `streams` are open at once.

        `threads` is how many threads the WSGI server has; None if that is not known, and not checked.
        """
        self._limits = running, waiting, streams
        self.threads = threads
        self.forked()

    def forked(self) -> None:
        """Begin with all places free: at the start, and again in a forked child."""
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._running = self.streams = 0
        self._turns: deque[threading.Lock] = deque()  # of calls that wait

    @property
    def taken(self) -> int:
        """How many threads calls and streams occupy."""
        return self._running + len(self._turns) + self.streams

    def enter_stream(self) -> None:
        """Take the place of a stream; `leave_stream` must follow. Raises NoPlace."""
        with self._lock:
            if self.streams >= self._limits[2]:
                raise NoPlace(f"{self.streams} streams are open, which is the limit; retry in 5 s.", 5)
            self._check_threads(1 if self.threads == 2 else 2)
            self.streams += 1

    def leave_stream(self) -> None:
        with self._lock:
            self.streams -= 1

    def _check_threads(self, free: int) -> None:
        """Raise NoPlace unless `free` threads stay free besides the caller's. With _lock held."""
        if self.threads is not None and self.taken + free >= self.threads:
            raise NoPlace(f"{self.taken} of {self.threads} threads are taken; retry in 1 s.", 1)

    def enter_call(self, is_wanted: Callable[[], bool]) -> bool:
        """Take the place of a call, once it is its turn; `leave_call` must follow. Raises NoPlace.

        While it waits, it asks `is_wanted` now and then, and gives up if not. Returns whether it had to wait.
        """
        with self._lock:
            if self.threads is not None and self.threads > 1:
                self._check_threads(1)
            if self._running < self._limits[0]:
                self._running += 1
                return False
            turn = self._wait_in_line()
        end = time.monotonic() + TURN_SECONDS
        while not turn.acquire(timeout=LOOK_SECONDS):
            if time.monotonic() >= end or not is_wanted():
                self._give_up(turn)
                break
        return True

    def _wait_in_line(self) -> threading.Lock:
        """Queue, and return a lock that is released when it is the caller's turn. With _lock held."""
        running, waiting, _ = self._limits
        if len(self._turns) >= waiting:
            raise NoPlace(f"{running} calls run, and {waiting} wait, which is the limit; retry in 1 s.", 1)
        turn = threading.Lock()
        turn.acquire()
        self._turns.append(turn)
        return turn

    def _give_up(self, turn: threading.Lock) -> None:
        """Leave the queue. Raises NoPlace, unless the turn came just now."""
        with self._lock:
            if turn in self._turns:
                self._turns.remove(turn)
                raise NoPlace(f"{self._running} calls run, which is the limit; retry in 1 s.", 1)

    def leave_call(self) -> None:
        """Give the place of a call to the next in the queue."""
        with self._lock:
            if self._turns:
                self._turns.popleft().release()
            else:
                self._running -= 1
