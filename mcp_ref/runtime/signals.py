"""Ctrl-C, held back for as long as a message is on its way out.

A KeyboardInterrupt in the middle of a write would leave half a line on the wire and end the connection.
So the main thread, the only one that signals interrupt, notes it and raises it when the message is out.
A second Ctrl-C meanwhile is not held back: somebody is in earnest.

Threads     main only; for any other thread this does nothing.
"""

from __future__ import annotations

import _signal as signal  # the public module turns numbers into enums and back, 5 microseconds a time
import threading
from types import FrameType
from typing import Any

__all__ = ["Uninterrupted"]

_MAIN = threading.main_thread().ident


class Uninterrupted:
    """`with Uninterrupted():` around what must be finished once it was begun."""

    __slots__ = ("_before", "_noted")

    def __init__(self) -> None:
        self._before: Any = None
        self._noted: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        if threading.get_ident() == _MAIN:
            before = signal.getsignal(signal.SIGINT)
            if callable(before):  # neither ignored nor deadly: so it may raise
                self._before = before
                signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted is not None:
            self._before(number, frame)
        self._noted = number, frame

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            if self._noted is not None:
                self._before(*self._noted)
