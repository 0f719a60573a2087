"""A bounded number of exchanges at once: an exchange waits for a slot as long as its deadline allows.

Open streams occupy slots for hours, and calls may be waiting for an answer of ours that needs one. So there
are a few more slots for what is urgent: without them 64 streams could block each other for ever.

Errors      Aborted, Expired of runtime/http_client/sockets.
Threads     any. `_changed` guards who is under way; nothing is waited for while it is held but itself. A
            semaphore would not do: those waiting must see `stop`, `abort` and deadlines that move.
"""

from __future__ import annotations

import threading

from mcp_ref.runtime.http_client.sockets import Aborted, Expired, Lease
from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["MAX_EXTRA_EXCHANGES", "Slots"]

MAX_EXTRA_EXCHANGES = 16
"""Urgent exchanges beyond the limit."""
LOOK_SECONDS = 1.0
"""A wait for a slot looks at its deadline at least so often: the deadline may move."""


class Slots:
    """Who is under way, and who waits to begin."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._changed = threading.Condition()
        self._under_way: set[Lease] = set()  # guarded by _changed
        self._is_stopped = False

    def forked(self) -> None:
        """Lend nothing in a forked child: the exchanges are the parent's."""
        self._changed = threading.Condition()
        self._is_stopped = True
        for lease in self._under_way:
            lease.forked()
        self._under_way.clear()

    def enter(self, lease: Lease, *, is_urgent: bool, is_last: bool) -> None:
        """Wait for a slot. Raises Aborted, Expired."""
        limit = self.limit + MAX_EXTRA_EXCHANGES if is_urgent or is_last else self.limit
        with self._changed:
            while len(self._under_way) >= limit and not self._is_stopped and not lease.is_aborted:
                self._wait(lease.deadline)
            if lease.is_aborted or (self._is_stopped and not is_last):
                raise Aborted
            self._under_way.add(lease)

    def _wait(self, deadline: Deadline | None) -> None:
        """Wait for a change. With _changed held."""
        seconds = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline.pause())
        if not self._changed.wait(seconds) and deadline is not None and deadline.left() <= 0:
            raise Expired

    def leave(self, lease: Lease) -> None:
        """Give the slot back."""
        with self._changed:
            self._under_way.discard(lease)
            self._changed.notify_all()

    def pause(self, lease: Lease, seconds: float) -> None:
        """Wait without a slot, within the deadline. Raises Aborted, Expired."""
        left = seconds if lease.deadline is None else min(seconds, lease.deadline.left())
        with self._changed:
            if self._changed.wait_for(lambda: self._is_stopped or lease.is_aborted, max(0.0, left)):
                raise Aborted
        if left < seconds:
            raise Expired

    def wake(self) -> None:
        """Have those that wait in `enter` look again."""
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """End all exchanges; from now on only a last one may enter."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            leases = list(self._under_way)
        for lease in leases:
            lease.abort()
