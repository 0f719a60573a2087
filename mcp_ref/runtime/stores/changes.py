"""Changes of entries: threads that wait for one of them, and listeners that hear of all.

Both stores have a `Changes`. A thread that waits registers first and then reads the entry; a thread that
changes the entry writes it first and then looks for threads that wait. So no change is missed.

Threads     any. `_lock` guards the two collections and is never held while a listener runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.stores.store import Entry

__all__ = ["Changes", "next_version"]

_log = logger("mcp_ref.stores")

MAX_SLEEP = 3600.0
"""The longest single wait, in seconds, after which it looks again: no lock accepts an infinite time-out."""


def next_version(entry: Entry, made: Entry) -> Entry:
    """The entry that `make` made, with the next version. Raises ValueError if it is not the same entry."""
    if made.id != entry.id or made.owner != entry.owner or made.created != entry.created:
        raise ValueError("a change keeps the id, the owner and the time of creation of an entry")
    return replace(made, version=entry.version + 1)


class Changes:
    """Waits for changes of one entry, and listeners to the changes of all."""

    def __init__(self) -> None:
        self._listeners: tuple[Callable[[Entry], object], ...] = ()  # replaced under _lock
        self.forked()

    def forked(self) -> None:
        """In a forked child: drop the waits, which are those of the parent's threads; listeners stay."""
        self._lock = threading.Lock()
        self._waiting: dict[str, list[threading.Event]] = {}  # guarded by _lock

    @property
    def is_watched(self) -> bool:
        """Whether any thread waits, or any listener listens."""
        return bool(self._waiting or self._listeners)

    @property
    def is_heard(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    def listen(self, hear: Callable[[Entry], object]) -> Callable[[], None]:
        """Have `hear` called with each entry that `tell` is given. Returns a function to stop that."""

        def listener(entry: Entry) -> None:  # an object of its own: one function may listen twice
            hear(entry)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        with self._lock:
            self._listeners = (*self._listeners, listener)
        return end

    def tell(self, entry: Entry) -> None:
        """Tell of an entry that was added or changed. Called without the store's lock."""
        self.wake(entry.id)
        for listener in self._listeners:
            try:
                listener(entry)
            except Exception:
                _log.exception("a listener to the changes of a store failed")

    def wake(self, entry_id: str) -> None:
        """Have the threads that wait for an entry look again."""
        if entry_id in self._waiting:  # nearly always false, and then no lock is needed
            with self._lock:
                for woken in self._waiting.get(entry_id, ()):
                    woken.set()

    def wake_all(self) -> None:
        """Have all threads that wait look again, such as when the store is closed."""
        with self._lock:
            for waiting in self._waiting.values():
                for woken in waiting:
                    woken.set()

    def wait(
        self,
        get: Callable[[str], Entry | None],
        entry_id: str,
        version: int,
        seconds: float,
        *,
        look_again: float = MAX_SLEEP,
    ) -> Entry | None:
        """Wait until `get` finds another version, for up to `seconds`. Returns what it found last.

        It looks when it is woken, when the entry expires, and every `look_again` seconds.
        """
        end = time.monotonic() + seconds
        with self._woken(entry_id) as woken:
            while True:
                woken.clear()
                entry = get(entry_id)
                left = end - time.monotonic()
                if entry is None or entry.version != version or left <= 0:
                    return entry
                if entry.expires is not None:
                    left = min(left, entry.expires - time.time())
                woken.wait(max(0.001, min(left, look_again)))

    @contextmanager
    def _woken(self, entry_id: str) -> Iterator[threading.Event]:
        """An event that is set by each change of an entry, as long as the block runs."""
        woken = threading.Event()
        with self._lock:
            self._waiting.setdefault(entry_id, []).append(woken)
        try:
            yield woken
        finally:
            with self._lock:
                waiting = self._waiting.get(entry_id, [])
                if woken in waiting:  # not in a forked child, which has dropped the waits
                    waiting.remove(woken)
                if not waiting:
                    self._waiting.pop(entry_id, None)
