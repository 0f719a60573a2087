"""Ctrl-C and SIGTERM, held back for as long as a message is on its way out.

An exception that their handlers raise in the middle of a write would leave half a line on the wire, and end
the connection. So the main thread, the only one that signals interrupt, notes the signal and acts on it when
the message is out. A second signal meanwhile is not held back: the user means it.

Threads     main only; on any other thread this does nothing.
"""

from __future__ import annotations

import _signal as signal  # the public module turns numbers into enums and back, 5 microseconds a time
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from mcp_ref.runtime.threads import forks

__all__ = ["HELD_BACK", "IN_PEACE", "Handled", "Uninterrupted"]

IN_PEACE = 10.0
"""Seconds, once the end of a server has begun, in which no signal interrupts the end of its lifespan."""

main_thread_id = threading.main_thread().ident
"""The thread that signals interrupt; in a forked child that is the one that forked."""


def _forked() -> None:
    """In a forked child: if another thread forked, the block that the main one was in never ends here."""
    global main_thread_id
    if threading.get_ident() != main_thread_id:
        for number in HELD_BACK:
            _let_through(number)
    main_thread_id = threading.get_ident()


def _let_through(number: int) -> None:
    """Give a signal the handler that it had before the blocks that hold it back."""
    handler: Any = signal.getsignal(number)
    while isinstance(holding := getattr(handler, "__self__", None), Uninterrupted):
        handler = dict(holding._handlers)[number]
        signal.signal(number, handler)


forks.on_fork(_forked)


HELD_BACK = (signal.SIGINT, signal.SIGTERM)


class Uninterrupted:
    """`with Uninterrupted():` holds these signals back while the block runs, which must not stop half-way."""

    __slots__ = ("_handlers", "_noted")

    def __init__(self) -> None:
        self._handlers: list[tuple[int, Any]] = []
        """The signals that are held back, with the handlers that they had before."""
        self._noted: tuple[Any, int, FrameType | None] | None = None

    def __enter__(self) -> None:
        if threading.get_ident() != main_thread_id:
            return
        try:
            for number in HELD_BACK:
                handler = signal.getsignal(number)
                if callable(handler):  # not SIG_IGN or SIG_DFL: a Python handler, which may raise
                    self._handlers.append((number, handler))
                    signal.signal(number, self._note)
        except BaseException:  # one of them came before it was held back
            self._restore()
            raise

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Take note of the first signal. Its handler is called at the end of the block; another one's now."""
        handler = dict(self._handlers)[number]
        if self._noted is None:
            self._noted = handler, number, frame
        else:
            handler(number, frame)

    def __exit__(self, *exception: object) -> None:
        if self._handlers:
            self._restore()
            if self._noted is not None:
                handler, number, frame = self._noted
                handler(number, frame)

    def _restore(self) -> None:
        """Give all signals their handlers back, also if one of these is called meanwhile, and raises.

        A loop, not a recursion: Python calls handlers where a function begins, before its first `try`.
        """
        problem: BaseException | None = None
        while self._handlers:
            try:
                while self._handlers:
                    signal.signal(*self._handlers[-1])
                    self._handlers.pop()
            except BaseException as raised:
                problem = raised
        if problem is not None:
            raise problem


class Handled:
    """`with Handled(function, numbers):` the function is the handler of these signals.

    Afterwards, and in a forked child, they are handled as they were before. A process enters one at a time:
    of two, a child could not tell which came first. Off the main thread, where no signal is handled, this
    does nothing.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], object], numbers: Iterable[int]) -> None:
        self._handler = handler
        self._numbers = numbers
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.get_ident() != main_thread_id:
            return
        forks.register(self)
        for number in self._numbers:
            before = signal.getsignal(number)
            self._before[number] = signal.SIG_DFL if before is None else before
            signal.signal(number, self._handler)

    def __exit__(self, *exception: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def forked(self) -> None:
        """Give signals their usual effect in a forked child: they end the child alone."""
        self.__exit__()
