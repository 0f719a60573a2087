"""Which functions are quick: those that were, the last time.

A function that takes a few microseconds costs more to hand to a worker than to run. How long it will take is
not known beforehand, but how long it took the last time is. One that was ever slow is trusted no more.

Threads     any; a function's last time is one value in a dict, replaced in one piece.
"""

from __future__ import annotations

__all__ = ["Pace"]

MAX_INLINE_SECONDS = 0.002
"""Seconds: what took less is quick."""
SLOW = 1.0
"""Seconds: what ever took more is never quick again."""


class Pace:
    """How long functions took, by their names."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def took(self, name: str, seconds: float) -> None:
        if self._last.get(name, 0.0) <= SLOW:
            self._last[name] = seconds

    def is_quick(self, name: str) -> bool:
        """Whether it may be run where it is in the way of others if it is not."""
        return self._last.get(name, SLOW) < MAX_INLINE_SECONDS
