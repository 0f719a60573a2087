"""The thread for events: what a client tells its application, one after another.

Callbacks for notifications and of futures run here, in order, so that a slow one delays no answer. What waits
for them is bounded, by number and by weight: a server that floods the client costs notifications, not memory.

Revisions   all.
Threads     `run` is called by any thread and never blocks; the callbacks run on one `mcp_ref worker`, alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.workers import QueueFull, Workers

__all__ = ["EventThread"]

_log = logger("mcp_ref.client")

MAX_EVENTS = 10_000
"""Calls of callbacks that wait for a slow one."""

MAX_EVENT_BYTES = 32 << 20
"""And bytes of the messages that they are for."""


class EventThread:
    """Runs callbacks in order; drops those beyond the bounds, and says so."""

    def __init__(self) -> None:
        self._worker = Workers(limit=1, queue=MAX_EVENTS, queue_bytes=MAX_EVENT_BYTES)
        self._dropping = threading.Lock()
        self._dropped = self._dropped_bytes = 0  # since the last that was not; guarded by _dropping

    def run(
        self, callback: Callable[[Any], object], argument: Any, *, always: bool = False, size: int = 0
    ) -> None:
        """Have a callback called; one that must run `always` may not be dropped.

        `size` is the weight of its message in bytes.
        """
        try:
            if not self._worker.submit(callback, argument, always=always, size=size) and always:
                callback(argument)  # the thread is gone
        except QueueFull:
            self._drop(size)
        else:
            if self._dropped and self._worker.waiting <= 1:
                self._tell_dropped()

    def _drop(self, size: int) -> None:
        """One line when it begins and one when it is over: a server that floods us must not flood the log."""
        with self._dropping:
            self._dropped += 1
            self._dropped_bytes += size
            if self._dropped > 1:
                return
        _log.warning(
            "the callbacks for notifications are too slow: %d wait, %d bytes in memory; more are dropped",
            self._worker.waiting,
            self._worker.waiting_bytes,
        )

    def _tell_dropped(self) -> None:
        with self._dropping:
            dropped, self._dropped = self._dropped, 0
            size, self._dropped_bytes = self._dropped_bytes, 0
        if dropped:
            _log.warning(
                "dropped %d notifications of %d bytes in memory: the callbacks were too slow", dropped, size
            )

    def settle(self, seconds: float) -> None:
        """Wait until the callbacks that are due now have run.

        A thread of ours does not wait: it may be the one that runs them.
        """
        if not threading.current_thread().name.startswith("mcp_ref"):
            done = threading.Event()
            self.run(lambda done: done.set(), done, always=True)
            done.wait(seconds)

    def close(self, wait: float, *, drop: bool = True) -> None:
        """Wait so many seconds for the callbacks that are due; with `drop`, for the one that runs alone."""
        self._worker.close(wait, drop=drop)
