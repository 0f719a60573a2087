"""Limits on calls: how many a second, and how many at once.

A token bucket limits the rate: it holds `burst` tokens and gets `rate` new ones a second; a call takes one. A
counter limits the calls that are running. A call that is refused is told when to try again.

Threads     any; the `_lock` of a Limiter guards its numbers, that of a Limiters its table. Each is held for a
            few instructions.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from mcp_ref.runtime.threads import forks

__all__ = ["Limit", "Limiter", "Limiters"]

FULL_RETRY_SECONDS = 0.1
"""Seconds after which to retry a call that was refused because too many are running."""


@dataclass(frozen=True)
class Limit:
    """The limit of one connection, or of one principal."""

    rate: float = 20_000.0
    """Calls a second, over time."""
    burst: int = 100_000
    """Calls that may come in one go, before `rate` limits them."""
    at_once: int = 256
    """Calls that run at the same time."""

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.burst < 1 or self.at_once < 1:
            raise ValueError("a limit lets some calls through: rate, burst and at_once are above zero")


class Limiter:
    """Counts calls against one Limit."""

    __slots__ = ("_filled_at", "_lock", "_running", "_tokens", "limit")

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._tokens = float(limit.burst)
        self._filled_at = time.monotonic()
        self._running = 0

    def forked(self) -> None:
        """Replace the lock in a forked child: another thread may have held it."""
        self._lock = threading.Lock()

    def enter(self) -> float:
        """Return zero if the call may run (then `leave` must follow), else the seconds to wait."""
        with self._lock:
            if self._running >= self.limit.at_once:
                return FULL_RETRY_SECONDS
            seconds = self._take()
            self._running += seconds == 0.0
            return seconds

    def take(self) -> float:
        """The same for a notification, which does not count as running: `rate` alone limits it.

        No `leave` follows.
        """
        with self._lock:
            return self._take()

    def _take(self) -> float:
        """Take a token and return zero, or return the seconds until there will be one. With _lock held."""
        limit, now = self.limit, time.monotonic()
        self._tokens = min(limit.burst, self._tokens + (now - self._filled_at) * limit.rate)
        self._filled_at = now
        if self._tokens < 1.0:
            return max(0.001, (1.0 - self._tokens) / limit.rate)
        self._tokens -= 1.0
        return 0.0

    def leave(self) -> None:
        """A call that `enter` let in has ended."""
        with self._lock:
            self._running -= 1


MAX_PRINCIPALS = 10_000
"""Callers whose limits are remembered; the least recent is forgotten first."""


class Limiters:
    """The limiters of principals, however many connections each of them has."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._by_principal: OrderedDict[str, Limiter] = OrderedDict()  # guarded by _lock
        forks.register(self)

    def forked(self) -> None:
        """Forget the calls that were counted, in a forked child: they are the parent's."""
        for limiter in self._by_principal.values():
            limiter.forked()
        self._lock, self._by_principal = threading.Lock(), OrderedDict()

    def of(self, principal: str) -> Limiter:
        """The limiter that counts the calls of a principal; a new one at its first call."""
        with self._lock:
            found = self._by_principal.setdefault(principal, Limiter(self.limit))
            self._by_principal.move_to_end(principal)
            if len(self._by_principal) > MAX_PRINCIPALS:
                self._by_principal.popitem(last=False)
            return found
