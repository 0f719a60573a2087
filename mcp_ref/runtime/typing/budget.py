"""What a validation may cost: alternatives that are tried, references that are followed, seconds of work.

A small value may take for ever to check, where alternatives stand within alternatives, or where a schema
refers to itself twice. So each thread counts what its current validation has spent.

Threads     each thread has a budget of its own.
"""

from __future__ import annotations

import math
import threading
import time

from mcp_ref.runtime.typing.mismatch import Mismatch

__all__ = ["Budget", "Exhausted", "budget"]


class Exhausted(Mismatch):
    """A validation that was given up."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"validation was given up: {reason}")
        self.reason = reason


class Budget:
    """What the current validation of one thread may still cost."""

    def __init__(self) -> None:
        self._depth = 0  # validations under way, each within the one before: the outermost sets the limits
        self._max_steps = self._steps_left = math.inf
        self._max_seconds = self._clock_end = self._work_end = math.inf

    def limited(self, steps: float, seconds: float = math.inf) -> Budget:
        """The context of one validation: `with budget().limited(20_000, 5.0): ...`.

        Within another validation of this thread it sets no limits: those of the outermost hold.
        """
        self._depth += 1
        if self._depth == 1:
            self._max_steps = self._steps_left = steps
            self._max_seconds = self._clock_end = seconds
            if seconds < math.inf:
                self._clock_end, self._work_end = time.monotonic() + seconds, time.thread_time() + seconds
        return self

    def __enter__(self) -> Budget:
        return self

    def __exit__(self, *exception: object) -> None:
        self._depth -= 1
        if self._depth == 0:  # one search, between two validations, has no limits
            self._steps_left = self._clock_end = math.inf

    def spend(self, steps: int = 0) -> None:
        """Count steps, and look at the time. Raises Exhausted."""
        self._steps_left -= steps
        if self._steps_left < 0:
            raise Exhausted(f"it takes more than {self._max_steps:,} alternatives and references")
        if self._clock_end < math.inf and time.monotonic() > self._clock_end:
            self._count_work()

    def _count_work(self) -> None:
        """Look at the time that this thread has worked. Raises Exhausted.

        That time counts, and not the clock's: on a busy machine any schema would seem costly. It is read only
        after the clock has run out, since reading it takes ten times as long as reading the clock.
        """
        left = self._work_end - time.thread_time()
        if left <= 0:
            raise Exhausted(f"it takes longer than {self._max_seconds} seconds")
        self._clock_end = time.monotonic() + left


class _Thread(threading.local):
    def __init__(self) -> None:
        self.budget = Budget()


_thread = _Thread()


def budget() -> Budget:
    """The budget of this thread."""
    return _thread.budget
