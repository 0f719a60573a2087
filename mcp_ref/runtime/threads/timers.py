"""Timers: functions that run later, on one thread for the whole process.

Threads     `mcp_ref timers`, a daemon, is started by the first timer and ends when none is left.
            It only runs functions that hand work on (release a waiter, put a job in a queue): the
            caller that sets a timer must see to that, or it delays all others. A forked child begins
            without timers, and its first one starts a thread there.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks

__all__ = ["Timer", "later"]

_log = logger("mcp_ref.timers")


class Timer:
    """A function that runs later, unless it is cancelled before."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], object]) -> None:
        self.run: Callable[[], object] | None = run

    def cancel(self) -> None:
        """Do not run the function. Harmless if it already ran."""
        self.run = None


LINGER = 1.0
"""The longest time, in seconds, for which a cancelled timer is remembered."""

_order = itertools.count()
_wakes = threading.Condition()
_pending: list[tuple[float, int, Timer]] = []  # guarded by _wakes; a heap
_thread: threading.Thread | None = None  # guarded by _wakes


def later(seconds: float, run: Callable[[], object]) -> Timer:
    """Run a function on the timer thread, once, after `seconds`."""
    global _thread
    timer = Timer(run)
    with _wakes:
        heapq.heappush(_pending, (time.monotonic() + seconds, next(_order), timer))
        if _thread is None:
            thread = threading.Thread(target=_loop, name="mcp_ref timers", daemon=True)
            thread.start()  # if the system has no more to give, the next timer tries again
            _thread = thread
        elif _pending[0][2] is timer:
            _wakes.notify()
    return timer


def _forked() -> None:
    """In a forked child: the timers that were set are the parent's, and so is the thread."""
    global _wakes, _thread
    _wakes, _thread = threading.Condition(), None
    _pending.clear()


forks.on_fork(_forked)


def _forget_cancelled() -> None:
    """With _wakes held."""
    kept = [entry for entry in _pending if entry[2].run is not None]
    if len(kept) < len(_pending):
        _pending[:] = kept
        heapq.heapify(_pending)


def _loop() -> None:
    global _thread
    while True:
        with _wakes:
            _forget_cancelled()
            if not _pending:
                _thread = None
                return
            wait = _pending[0][0] - time.monotonic()
            if wait > 0:
                _wakes.wait(min(wait, LINGER))
                continue
            run = heapq.heappop(_pending)[2].run
        try:
            if run is not None:
                run()
        except BaseException:  # all timers share this thread: none of them may end it
            _log.exception("a timer failed")
