"""A value that is fetched from elsewhere, kept for a while, and fetched again: the keys of an issuer.

    get()           the value; fetched by the first caller, and again once it is no longer fresh
    newer(value)    for a value that lacks something: the one that replaced it, or one that is fetched now

One thread fetches. The others go on with the value that there is, or wait for the first. However
many threads want a newer one, there is one fetch in each `pause`, even while fetches fail: a source that
does not answer is not asked more often for that.

Errors      NotFetched, with the seconds until the next attempt, if there is no value that may be used.
Threads     any. `_changed` guards the value and the times; it is not held during a fetch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks

__all__ = ["NotFetched", "Refreshed"]

T = TypeVar("T")
_log = logger("mcp_ref.fetch")


class NotFetched(RuntimeError):
    """There is no value, since it could not be fetched. `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refreshed(Generic[T]):
    """One value, and when it was fetched."""

    def __init__(
        self,
        name: str,
        fetch: Callable[[], T],
        *,
        fresh: float = 300.0,
        most: float = 86_400.0,
        pause: float = 30.0,
        patience: float = 15.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """All times are in seconds. A value is used as it is for `fresh`, and for `most` if fetching fails.

        `pause` is the time between two fetches, `patience` how long a thread waits for the one that fetches.
        """
        self._name, self._fetch, self._now = name, fetch, now
        self._fresh, self._most, self._pause, self._patience = fresh, most, pause, patience
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        # Guarded by _changed.
        self._value: T | None = None
        self._fetched_at = self._tried_at = -float("inf")
        self._is_fetching = False

    def forked(self) -> None:
        """Begin anew in a forked child: a thread of the parent's may have been fetching."""
        self._begin()

    def get(self) -> T:
        """Return the value, fetched if need be. Raises NotFetched."""
        with self._changed:
            value, age = self._usable(), self._now() - self._fetched_at
            if value is not None and (age < self._fresh or not self._may_fetch()):
                return value
            if value is None and not self._may_fetch():
                return self._waited()
            self._begins_to_fetch()
        return self._fetched()

    def newer(self, lacking: T) -> T:
        """Return another value than `lacking`, if there is one or it can be fetched now; else the same.

        Raises NotFetched.
        """
        with self._changed:
            value = self._usable()
            if value is not lacking or not self._may_fetch():
                return self._waited()
            self._begins_to_fetch()
        return self._fetched()

    # -- with _changed held ----------------------------------------------------------------------------

    def _usable(self) -> T | None:
        return self._value if self._now() - self._fetched_at < self._most else None

    def _may_fetch(self) -> bool:
        return not self._is_fetching and self._now() - self._tried_at >= self._pause

    def _begins_to_fetch(self) -> None:
        self._is_fetching, self._tried_at = True, self._now()

    def _waited(self) -> T:
        """Wait for a fetch that is under way, then return the value. Raises NotFetched."""
        self._changed.wait_for(lambda: not self._is_fetching, self._patience)
        value = self._usable()
        if value is None:
            left = self._tried_at + self._pause - self._now()
            raise NotFetched(f"{self._name} cannot be had just now", max(1.0, left))
        return value

    # -- without _changed --------------------------------------------------------------------------------

    def _fetched(self) -> T:
        """Fetch the value, and return it; if that fails, the one before, while it may be used."""
        value: T | None = None
        try:
            value = self._fetch()
        except Exception as problem:
            _log.warning("%s could not be fetched: %.300s", self._name, problem)
        finally:
            with self._changed:
                self._is_fetching = False
                if value is not None:
                    self._value, self._fetched_at = value, self._now()
                self._changed.notify_all()
        with self._changed:
            return self._waited()
