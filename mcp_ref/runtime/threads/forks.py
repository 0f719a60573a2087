"""What a forked child keeps of its parent: the memory and one thread, but no connection to any peer.

The child has copies of the parent's pipes and sockets. If it wrote to them, read from them or shut them down,
the parent's requests would get wrong answers, or none. And a lock that another thread held during the fork is
held for ever in the child. So each object that has a thread, a lock or a descriptor registers here, and its
`forked` is called in the child, before any other code runs there:

    connections, outboxes, writers      refuse from then on: they are the parent's
    pipes, sockets                      the child's copies are closed, which the parent does not notice
    workers, timers, servers            begin anew, empty: the child can use its own
    handlers of signals                 are again those from before `serve`

A tool may call `os.fork` and return in both processes. The child has no request to answer, so `end_child`
ends it: otherwise it would go on as a second worker of a connection that belongs to its parent.

Threads     the hook runs on the only thread of the child.
"""

from __future__ import annotations

import contextlib
import os
import sys
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


_told: WeakSet[Tellable] = WeakSet()
_functions: list[Callable[[], object]] = []


def register(thing: Tellable) -> None:
    """Have `thing.forked()` called in each forked child, as long as the thing exists."""
    _told.add(thing)


def on_fork(function: Callable[[], object]) -> None:
    """Have a function called in each forked child: for the state of a module."""
    _functions.append(function)


def _in_child() -> None:
    global count
    count += 1
    for run in [*_functions, *(thing.forked for thing in list(_told))]:
        try:
            run()
        except Exception:
            traceback.print_exc()


os.register_at_fork(after_in_child=_in_child)


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
