"""The threads that run requests: as few as will do, as many as are needed, up to a limit.

    thread              started by                     runs                      ends
    mcp_ref worker N    `submit` or the foreman        one job after another     after `idle` seconds
                                                                                 without one; at `close`
    mcp_ref foreman     `submit`, when a job must      watches that jobs get     after `idle` seconds
                        wait for a busy worker         taken                     without need; at `close`

Short jobs run fastest on one thread: threads that take turns spend more time on the turns than on
the jobs. So a job is left to the worker that took the last one, if that was just now: it will be
back in microseconds. If it is not, the job before was a long one: then the foreman wakes two more
workers, TICK_SECONDS later four, then eight, until they are quick with their jobs or no job waits.

When the queue is full, `submit` raises QueueFull at once. It never blocks, so that a reader may call it.
The queue is full when `queue` jobs wait, or jobs with `queue_bytes` bytes; a single job may be of any size.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks

__all__ = ["QueueFull", "Workers"]

_log = logger("mcp_ref.workers")

Job = tuple[Callable[[Any], object], Any, int]
"""A function, its argument, and how many bytes stay in memory while they wait."""

MAX_WAITING_BYTES = 64 << 20

TICK_SECONDS = 0.0005
JOBS_PER_TICK = 3
"""Short jobs that a worker does within TICK_SECONDS; workers that do fewer are busy with long ones."""


class QueueFull(Exception):
    """The limit of waiting jobs, or of their bytes, is reached; or the system gives no thread."""


class Jobs:
    """The jobs that wait for a worker, with their bounds. Guarded by the lock of the pool."""

    def __init__(self, max_jobs: int, max_bytes: int) -> None:
        self.max_jobs = max_jobs
        self.max_bytes = max_bytes
        self.bytes = 0
        self.waiting: deque[Job] = deque()

    def add(self, job: Job, workers: float) -> bool:
        """Add a job; False if there is no room. `workers` jobs do not count as waiting, since a worker is on
        its way to them or could be started.
        """
        waiting = len(self.waiting) - workers
        if waiting >= self.max_jobs or (waiting > 0 and self.bytes + job[2] > self.max_bytes):
            return False
        self.waiting.append(job)
        self.bytes += job[2]
        return True

    def take(self, *, newest: bool = False) -> Job:
        job = self.waiting.pop() if newest else self.waiting.popleft()
        self.bytes -= job[2]
        return job

    def clear(self) -> None:
        self.waiting.clear()
        self.bytes = 0


class Workers:
    """A pool of threads: `limit` jobs run at once, `queue` wait, with `queue_bytes`; more are refused."""

    def __init__(
        self, limit: int = 100, queue: int = 1000, idle: float = 10.0, *, queue_bytes: int = MAX_WAITING_BYTES
    ) -> None:
        self.limit = limit
        self.idle = idle
        self._jobs = Jobs(queue, queue_bytes)
        self._closed = False
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        # All below, `_jobs` and `_closed`, guarded by _lock. A worker is known by its lock: it sleeps on it.
        self._free: list[threading.Lock] = []  # asleep; the last to fall asleep wakes first
        self._threads: set[threading.Thread] = set()
        self._started = 0
        self._workers = 0  # how many threads there are
        self._called: set[threading.Lock] = set()  # woken or started, and not at the queue yet
        self._done = 0  # jobs, ever
        # The worker that took the last job, while it is at work, and when it did.
        self._latest: tuple[threading.Lock | None, float] = None, 0.0
        self._foreman: threading.Lock | None = None  # its lock, while there is one; released to wake it
        self._foreman_called = False

    def forked(self) -> None:
        """Begin without threads and jobs in a forked child: those are the parent's."""
        self._jobs.clear()
        self._begin()

    def submit(
        self, run: Callable[[Any], object], argument: Any, *, always: bool = False, size: int = 0
    ) -> bool:
        """Have a worker call `run(argument)`. Raises QueueFull; False after `close`, when nothing is run.

        `always` takes a job beyond the bounds: for callers whose jobs are bounded otherwise. `size` is how
        many bytes the job keeps in memory while it waits.
        """
        with self._lock:
            if self._closed:
                return False
            free = math.inf if always else len(self._called) + self._startable()
            if not self._jobs.add((run, argument, size), free):
                raise QueueFull(f"{self.waiting} requests are waiting, with {self.waiting_bytes} bytes")
            latest, began = self._latest
            if latest is None or time.monotonic() - began > TICK_SECONDS:
                if not self._wake() and not self._workers:
                    self._jobs.take(newest=True)
                    raise QueueFull("there is no thread to run this, and the system gives no more")
            elif not self._foreman_called:
                self._call_foreman()
            return True

    def _startable(self) -> int:
        """How many more workers may be woken or started. With _lock held."""
        return self.limit - self._workers + len(self._free)

    def _wake(self) -> bool:
        """Wake or start one more worker; False if no more may run. With _lock held."""
        if self._startable() <= 0:
            return False
        if self._free:
            asleep = self._free.pop()
            asleep.release()
        elif self._workers < self.limit:
            asleep = threading.Lock()
            if not self._start(f"mcp_ref worker {self._started + 1}", self._work, asleep):
                return False
            self._started += 1
            self._workers += 1
        else:
            return False
        self._called.add(asleep)
        self._latest = asleep, time.monotonic()
        return True

    def _start(self, name: str, run: Callable[[threading.Lock], None], asleep: threading.Lock) -> bool:
        """Start a thread; False if the system has no more to give. With _lock held."""
        # A daemon: a tool that never returns must not keep the process alive after `close`.
        thread = threading.Thread(target=run, args=(asleep,), name=name, daemon=True)
        asleep.acquire()
        try:
            thread.start()
        except RuntimeError as problem:
            _log.error("no more threads: %s", problem)
            return False
        self._threads.add(thread)
        return True

    def _work(self, asleep: threading.Lock) -> None:
        back, process = False, forks.count
        while True:
            job = self._take(asleep, back)
            back = job is not None
            if job is not None:
                run, argument, _ = job
                try:
                    run(argument)
                except BaseException as problem:
                    if forks.count != process:
                        forks.end_child(problem)
                    _log.exception("a job failed")
                if forks.count != process:  # the job forked: its child has no place among these workers
                    forks.end_child()
                del job, run, argument  # what a job held must not live until the next one
                continue
            if not self._closed:
                asleep.acquire(timeout=self.idle)
            if self._leave(asleep):
                return

    def _take(self, asleep: threading.Lock, back: bool) -> Job | None:
        """Return the next job, for a worker that is new or `back` from one.

        Without a job, the worker counts as free from now on.
        """
        with self._lock:
            self._done += back
            self._called.discard(asleep)
            if self._jobs.waiting:
                self._latest = asleep, time.monotonic()
                return self._jobs.take()
            if self._latest[0] is asleep:
                self._latest = None, 0.0
            if not self._closed:
                self._free.append(asleep)
            return None

    def _leave(self, asleep: threading.Lock) -> bool:
        """Whether this worker may end: not if it was woken just now, nor while jobs wait that it could do."""
        with self._lock:
            if asleep in self._free:
                self._free.remove(asleep)
            if (self._jobs.waiting and self._startable() > 0) or asleep in self._called:
                asleep.acquire(blocking=False)  # it may have been released after it stopped waiting
                return False
            self._workers -= 1
            self._threads.discard(threading.current_thread())
            return True

    def _call_foreman(self) -> None:
        """Wake or start the foreman, which sees to it that the jobs get taken. With _lock held."""
        if self._foreman is not None:
            self._foreman.release()
            self._foreman_called = True
        else:
            foreman = threading.Lock()
            if self._start("mcp_ref foreman", self._watch, foreman):
                self._foreman = foreman
                self._foreman_called = True

    def _watch(self, asleep: threading.Lock) -> None:
        while True:
            self._watch_queue()
            if (self._closed or not asleep.acquire(timeout=self.idle)) and self._dismissed(asleep):
                return

    def _watch_queue(self) -> None:
        """While jobs wait and workers are slow with theirs, wake two more workers, then four, eight ..."""
        done, more = self._done, 2
        while True:
            time.sleep(TICK_SECONDS)  # the promised longest wait of a job for a busy worker
            with self._lock:
                at_work = self._workers - len(self._free)
                if self._done - done >= JOBS_PER_TICK * at_work:
                    more = 2
                elif all(self._wake() for _ in range(min(more, len(self._jobs.waiting)))):
                    more *= 2
                else:
                    more = 0  # all workers that may run are at work
                done = self._done
                if not self._jobs.waiting or not more:
                    self._foreman_called = False
                    return

    def _dismissed(self, asleep: threading.Lock) -> bool:
        """Whether the foreman may end, not needed for long: not if it was called just now."""
        with self._lock:
            if self._foreman_called and not self._closed:
                asleep.acquire()
                return False
            self._foreman = None
            self._threads.discard(threading.current_thread())
            return True

    @property
    def waiting(self) -> int:
        return len(self._jobs.waiting)

    @property
    def waiting_bytes(self) -> int:
        return self._jobs.bytes

    def close(self, timeout: float, *, drop: bool = True) -> bool:
        """Take no more jobs; `drop` those that wait, or have them done. Waits for the threads.

        Returns False if threads are left after `timeout` seconds.
        """
        with self._lock:
            if drop:
                self._jobs.clear()
            self._wake_all(for_jobs=not self._closed)
            self._closed = True
            others = self._others()
        end = time.monotonic() + timeout
        while others:
            for thread in others:
                thread.join(max(0.0, end - time.monotonic()))
            with self._lock:
                others = self._others()  # the foreman may have started more, for the jobs that waited
            if time.monotonic() >= end:
                break
        return not others

    def _wake_all(self, *, for_jobs: bool) -> None:
        """Wake the threads that have nothing to do, so that they end. With _lock held.

        `for_jobs`: also a worker for the jobs that wait, and the foreman.
        """
        if for_jobs and self._jobs.waiting:
            self._wake()
        for asleep in self._free:
            asleep.release()
        self._free.clear()
        if for_jobs and self._foreman is not None and not self._foreman_called:
            self._foreman.release()

    def _others(self) -> list[threading.Thread]:
        """The threads that run, without this one: a job may close its own pool. With _lock held."""
        this = threading.current_thread()
        return [thread for thread in self._threads if thread is not this and thread.is_alive()]
