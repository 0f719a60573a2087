"""The threads that run requests: as many as are needed, up to a limit.

    thread                 started by              runs                       ends
    mcp_ref worker N       `submit`, when no       one job after another      after `idle` seconds
                           worker is free                                     without one, or at
                                                                              `close`

A job waits in the queue when all workers are busy and no more may be started; when the queue is
full, `submit` says so at once. It never blocks, so that a reader may call it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["QueueFull", "Workers"]

_log = logging.getLogger("mcp_ref.workers")

Job = tuple[Callable[[Any], None], Any]


class QueueFull(Exception):
    """As many jobs are waiting as may wait."""


class Workers:
    """A pool of threads. `limit` run at once, `queue` wait, more are refused."""

    def __init__(self, limit: int = 100, queue: int = 1000, idle: float = 10.0) -> None:
        self.limit = limit
        self.queue = queue
        self.idle = idle
        self._lock = threading.Lock()
        # All below guarded by _lock.
        self._jobs: deque[Job] = deque()
        self._free: deque[threading.Lock] = deque()  # workers asleep; the last to sleep wakes first
        self._threads: set[threading.Thread] = set()
        self._started = 0
        self._closed = False

    def submit(self, run: Callable[[Any], None], argument: Any) -> None:
        """Have a worker call `run(argument)`. Raises QueueFull; drops the job after `close`."""
        with self._lock:
            if self._closed:
                return
            if len(self._jobs) >= self.queue:
                raise QueueFull
            self._jobs.append((run, argument))
            if self._free:
                self._free.pop().release()
            elif len(self._threads) < self.limit:
                self._start()

    def _start(self) -> None:
        self._started += 1
        thread = threading.Thread(target=self._work, name=f"mcp_ref worker {self._started}", daemon=True)
        # A daemon: a tool that never returns must not keep the process alive after `close`.
        self._threads.add(thread)
        thread.start()

    def _work(self) -> None:
        asleep = threading.Lock()
        asleep.acquire()
        while True:
            with self._lock:
                job = self._jobs.popleft() if self._jobs else None
                if job is None and self._closed:
                    self._threads.discard(threading.current_thread())
                    return
                if job is None:
                    self._free.append(asleep)
            if job is None:
                if not asleep.acquire(timeout=self.idle) and self._leave(asleep):
                    return
                continue
            run, argument = job
            try:
                run(argument)
            except BaseException:
                _log.exception("a job failed")
            del job, run, argument  # what a job held must not live until the next one

    def _leave(self, asleep: threading.Lock) -> bool:
        """Whether this worker, idle for long, may end: not if it was just woken."""
        with self._lock:
            if asleep not in self._free:
                asleep.acquire()
                return False
            self._free.remove(asleep)
            self._threads.discard(threading.current_thread())
            return True

    @property
    def waiting(self) -> int:
        """How many jobs wait for a worker."""
        return len(self._jobs)

    def close(self, timeout: float) -> bool:
        """No more jobs; those waiting are dropped. Waits for the running ones: False if some remain."""
        with self._lock:
            self._closed = True
            self._jobs.clear()
            for asleep in self._free:
                asleep.release()
            self._free.clear()
            threads = list(self._threads)
        end = time.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
        return not any(t.is_alive() for t in threads if t is not threading.current_thread())
