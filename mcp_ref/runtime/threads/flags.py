"""Flags: events that the handler of a signal may set, and that go on working in a forked child.

threading.Event guards itself with a lock. A handler that sets it, while the thread that it interrupts is
about to wait for it, waits for that lock for ever; so does a child that was forked at such a moment. A Flag
has no lock that two threads want: each thread that waits has one of its own, which `set` releases.

Threads     any; `set` also in the handler of a signal. One operation of a list or an attribute at a time,
            which Python does in one step.
"""

from __future__ import annotations

import threading

__all__ = ["Flag"]


class Flag:
    """Set or not; threads wait until it is."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[threading.Lock] = []
        """One for each thread that waits, held until it is to look."""

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake the threads that wait."""
        self._is_set = True
        for asleep in list(self._waiting):
            try:
                asleep.release()
            except RuntimeError:
                pass  # it was woken already, and has not looked yet

    def clear(self) -> None:
        """Set it no longer."""
        self._is_set = False

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most so long. Returns whether it is."""
        asleep = threading.Lock()
        asleep.acquire()
        self._waiting.append(asleep)
        try:
            if not self._is_set:  # after it was entered: a `set` from now on releases it
                asleep.acquire(timeout=max(0.0, seconds))
            return self._is_set
        finally:
            self._waiting.remove(asleep)
