"""The memory of an authorization server: bounded tables whose entries expire, and counters of attempts.

    Expiring(most, seconds)   .put(key, value)   .get(key)   .take(key): the value, once
    Attempts(most, seconds)   .begin(key): counts one, or says how long to wait   .forgive(key)

A table that is full forgets its oldest entry. So a client that floods a server disturbs others only while the
flood lasts; a table that refused new entries would stay full after it.

Threads     any; each table has a lock, which is held for a few instructions.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Attempts", "Expiring"]

T = TypeVar("T")

MAX_COUNTED_KEYS = 10_000
"""The most keys whose attempts are counted; the least recent is forgotten first."""


class Expiring(Generic[T]):
    """A bounded table whose entries expire."""

    def __init__(self, most: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._now = now
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()  # guarded by _lock

    def __len__(self) -> int:
        with self._lock:
            self._drop_expired()
            return len(self._entries)

    def put(self, key: Hashable, value: T, seconds: float | None = None) -> None:
        """Remember a value for `seconds`, or for those of the table."""
        with self._lock:
            self._put(key, value, self._seconds if seconds is None else seconds)

    def put_new(self, key: Hashable, value: T) -> bool:
        """Remember a value unless the key has one. Returns whether it did: of two threads one gets True."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None and found[0] > self._now():
                return False
            self._put(key, value, self._seconds)
            return True

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            found = self._entries.get(key)
            return found[1] if found is not None and found[0] > self._now() else None

    def take(self, key: Hashable) -> T | None:
        """Return the value and forget it: of two threads one gets it."""
        with self._lock:
            found = self._entries.pop(key, None)
            return found[1] if found is not None and found[0] > self._now() else None

    def _put(self, key: Hashable, value: T, seconds: float) -> None:
        """Store an entry, and drop what is too much. With _lock held."""
        self._entries[key] = (self._now() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._drop_expired()
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def _drop_expired(self) -> None:
        """With _lock held."""
        now = self._now()
        for key in [key for key, (end, _) in self._entries.items() if end <= now]:
            del self._entries[key]


class Attempts:
    """Counts attempts: for each key, `most` are allowed within `seconds`."""

    def __init__(self, most: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._now = now
        self._lock = threading.Lock()
        self._times: OrderedDict[Hashable, deque[float]] = OrderedDict()  # guarded by _lock

    def begin(self, key: Hashable) -> float:
        """Count an attempt before it is made, so that many at the same time count as well.

        Returns 0 if it may be made; otherwise the seconds to wait, and it is not counted.
        """
        now = self._now()
        with self._lock:
            times = self._times.setdefault(key, deque())
            self._times.move_to_end(key)
            while times and times[0] <= now - self._seconds:
                times.popleft()
            if len(times) >= self._most:
                return times[0] + self._seconds - now
            times.append(now)
            if len(self._times) > MAX_COUNTED_KEYS:
                self._times.popitem(last=False)
            return 0.0

    def forgive(self, key: Hashable) -> None:
        """Take back the attempt that `begin` counted last: it succeeded."""
        with self._lock:
            times = self._times.get(key)
            if times:
                times.pop()
