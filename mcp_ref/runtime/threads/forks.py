"""What a forked child keeps of its parent: the memory and one thread, but no connection to any peer.

The child has copies of the parent's pipes and sockets. If it wrote to them, read from them or shut them down,
the parent's requests would get wrong answers, or none. And a lock that another thread held during the fork is
held for ever in the child. So each object that has a thread, a lock or a descriptor registers here, and its
`forked` is called in the child, before any other code runs there:

    connections, outboxes, writers      refuse from then on: they are the parent's
    pipes, sockets                      the child's copies are closed, which the parent does not notice
    workers, timers, servers            begin anew, empty: the child can use its own
    handlers of signals                 are again those from before `serve`

A signal that is sent to the child at once must find those handlers. `multiprocessing` ends its workers with
SIGTERM, and waits for them: a child that noted it with the parent's handler would live on for ever. So all
signals are blocked from before the fork until the child has been told. That is so on all threads but the main
one, where Python runs handlers as soon as signals are unblocked, and ignores what these raise in a hook: the
parent's Ctrl-C would be lost.

A tool may call `os.fork` and return in both processes. The child has no request to answer, so `end_child`
ends it: otherwise it would go on as a second worker of a connection that belongs to its parent.

Threads     the hooks run on the thread that forks; in the child there is no other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

__all__ = ["count", "end_child", "on_fork", "register", "without_end"]

count = 0
"""How many forks lie between the first process and this one. If it has changed, this is a forked child."""

without_end: list[Any] = []
"""What the parent has entered and the child must not end, such as a lifespan. The child keeps it here for
ever: if it dropped it, garbage collection would end it."""


class Tellable(Protocol):
    """An object that has to change in a forked child."""

    def forked(self) -> None:
        """Called in the child. Must not wait for anything, nor take a lock that is older than the fork."""


_EVERY_SIGNAL = signal.valid_signals()

_told: WeakSet[Tellable] = WeakSet()
_functions: list[Callable[[], object]] = []


def register(thing: Tellable) -> None:
    """Have `thing.forked()` called in each forked child, as long as the thing exists."""
    _told.add(thing)


def on_fork(function: Callable[[], object]) -> None:
    """Have a function called in each forked child: for the state of a module."""
    _functions.append(function)


class _Mask(threading.local):
    """The signals that the forking thread had blocked before, or None if it blocks no others for the fork."""

    before: set[int] | None = None


_mask = _Mask()


def _block_signals() -> None:
    if threading.current_thread() is not threading.main_thread():
        _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, _EVERY_SIGNAL)


def _unblock_signals() -> None:
    if _mask.before is not None:
        before, _mask.before = _mask.before, None
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_child() -> None:
    global count
    count += 1
    for run in [*_functions, *(thing.forked for thing in list(_told))]:
        try:
            run()
        except BaseException:  # the others have to be told, and signals to be unblocked
            traceback.print_exc()
    try:
        _unblock_signals()
    except BaseException as problem:  # of a handler: no code of the child runs yet that could catch it
        end_child(problem)


os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_in_child)


def end_child(problem: BaseException | None = None) -> NoReturn:
    """End a forked child whose handler has returned, or raised, with the exit status of a program.

    It ends at once: lifespans and `atexit` functions are the parent's to run. What was printed is flushed.
    """
    status = 0
    if isinstance(problem, SystemExit):
        status = problem.code if isinstance(problem.code, int) else int(problem.code is not None)
        if status == 1 and problem.code != 1:
            print(problem.code, file=sys.stderr)
    elif problem is not None:
        status = 1
        traceback.print_exception(problem)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)
