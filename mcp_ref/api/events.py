"""The thread for events: runs the callbacks of a client's application, one after another.

Callbacks for notifications and of futures run here, in order, so that a slow one delays no answer. The calls
that wait are bounded, in number and in bytes: if a server floods the client, notifications are dropped, and
memory does not grow.

Revisions   all.
Threads     `run` is called by any thread and does not wait; callbacks run on one `mcp_ref worker` of their
            own. After `close`, a callback that must run `always` is run by the thread that calls `run`.
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
"""How many calls of callbacks may wait for a slow one."""

MAX_EVENT_BYTES = 32 << 20
"""How many bytes the messages of these calls may have together."""


class EventThread:
    """Runs callbacks in order; drops calls beyond the bounds, and logs that."""

    def __init__(self) -> None:
        self._worker = Workers(limit=1, queue=MAX_EVENTS, queue_bytes=MAX_EVENT_BYTES)
        self._dropping = threading.Lock()
        self._dropped = self._dropped_bytes = 0  # since this was last logged; guarded by _dropping

    def run(
        self, callback: Callable[[Any], object], argument: Any, *, always: bool = False, size: int = 0
    ) -> None:
        """Have `callback(argument)` called on the thread for events. With `always` it is never dropped.

        `size` is how many bytes its message holds in memory.
        """
        try:
            if not self._worker.submit(callback, argument, always=always, size=size) and always:
                callback(argument)  # after `close`, when there is no thread for events any more
        except QueueFull:
            self._drop(size)
        else:
            if self._dropped and self._worker.waiting <= 1:
                self._tell_dropped()

    def _drop(self, size: int) -> None:
        """Count a dropped call. The log has one line when dropping begins, and one when it is over: a server
        that floods the client must not flood the log.
        """
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
        """Wait until the callbacks that are queued now have run, for `seconds` at most.

        A thread of this package does not wait: it may be the one that runs them.
        """
        if not threading.current_thread().name.startswith("mcp_ref"):
            done = threading.Event()
            self.run(lambda done: done.set(), done, always=True)
            done.wait(seconds)

    def close(self, wait: float, *, drop: bool = True) -> None:
        """Wait up to `wait` seconds for the calls in the queue; with `drop`, only for the one that runs."""
        self._worker.close(wait, drop=drop)
