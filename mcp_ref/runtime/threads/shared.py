"""A context that several users share: the first of them enters it, the last one leaves it.

Threads     any. The second user waits until the first has entered it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Generic, TypeVar

from mcp_ref.runtime.threads import forks

__all__ = ["Shared"]

T = TypeVar("T")


class Shared(Generic[T]):
    """A context that is entered while it has users."""

    def __init__(self, enter: Callable[[ExitStack], T]) -> None:
        """`enter` enters all parts into the stack that it is given, and returns the value."""
        self._enter = enter
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._users = 0
        self._keepers = 0  # users that only keep it
        self._entered: ExitStack | None = None
        self.value: T | None = None

    def forked(self) -> None:
        """Begin anew in a forked child: what was entered is the parent's to leave."""
        forks.without_end.append(self._entered)
        self._begin()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Use it for as long as the block runs."""
        with self._lock:  # also held while the first user enters it, so that the second waits
            if self._users == 0:
                with ExitStack() as entered:
                    self.value = self._enter(entered)
                    self._entered = entered.pop_all()
            self._users += 1
        process = forks.count
        try:
            yield
        finally:
            with self._lock:
                if forks.count == process:  # a forked child began to count anew, without this use
                    self._users -= 1
                if self._users == 0 and self._entered is not None:
                    leaving, self._entered, self.value = self._entered, None, None
                    leaving.__exit__(None, None, None)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep it entered while the block runs, for work that goes on but is not a user, such as a task."""
        with self.used():
            with self._lock:
                self._keepers += 1
            process = forks.count
            try:
                yield
            finally:
                with self._lock:
                    if forks.count == process:
                        self._keepers -= 1

    @property
    def is_in_last_use(self) -> bool:
        """Whether at most one user is left, besides those that only keep it."""
        with self._lock:
            return self._users - self._keepers <= 1

    def add(self, part: Callable[[], AbstractContextManager[object]]) -> None:
        """Enter one more part, if the context is entered now."""
        with self._lock:
            if self._entered is not None:
                self._entered.enter_context(part())
