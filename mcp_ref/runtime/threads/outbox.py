"""The outbox of a connection: many threads send messages, one at a time writes them.

A thread that calls `send` while no other writes becomes the writer: it writes its own message and all that
others add meanwhile, in order, and then leaves. The others only add and go on, so that no thread
waits for a pipe that another one is already filling, and small messages share one system call.

No sender is held up for long: when the peer does not read, a separate thread, `mcp_ref writer`, waits
for it, and the sender goes on.

Bounded: when `limit` bytes are waiting, `send` blocks until some of them are gone. If the peer takes
nothing for `stall` seconds, `send` raises Full: no wait in here is endless. A signal waits until the message
of the main thread is out (runtime/threads/signals).

Threads     any. `_lock` guards the messages that wait, and is never held during the write itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mcp_ref.runtime.errors import ConnectionClosed, McpError
from mcp_ref.runtime.threads import forks, signals
from mcp_ref.runtime.threads.signals import Uninterrupted

__all__ = ["INHERITED", "Full", "Outbox"]

INHERITED = "this process was forked after the connection was made: make a connection of its own"


class Full(ConnectionClosed):
    """There is no room for one more message, and the wait for room has timed out."""


class Outbox:
    """Where the messages to one peer wait to be written; all requests of a pipe share it."""

    begins = None
    """No request needs an outbox of its own: there is nothing to prepare."""
    closes = False
    two_way = True

    def __init__(self, write: Callable[[bytes], None], *, limit: int = 4 << 20, stall: float = 60.0) -> None:
        self._write = write
        # Writes for a short while, and returns how many bytes it wrote. Without it, writes block.
        self._begin: Callable[[bytes], int] | None = getattr(write, "begin", None)
        self.limit = limit
        self.stall = stall
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self.on_failure: Callable[[str], object] | None = None
        """Called with the reason when a write has failed for good. Any thread; must not wait."""
        forks.register(self)
        # All below guarded by _lock.
        self._waiting: list[bytes] = []
        self._size = 0
        self._writing = False
        self._error: BaseException | None = None

    def send(self, line: bytes, wait: float | None = None) -> None:
        """Write one message, or leave it to the thread that is writing.

        Raises ConnectionClosed when nothing can be written any more, Full when there was no room for
        the message within `wait` seconds.
        """
        seconds = self.stall if wait is None else min(wait, self.stall)
        take = self._take if threading.get_ident() != signals.main_thread_id else self._take_uninterrupted
        while not take(line):
            self._wait_for_room(len(line), seconds)  # signals interrupt this, since nothing is half written

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """Send the answer to a request, like any other message."""
        self.send(line, wait)

    def cancel(self, reason: str) -> None:
        """Send nothing: on a pipe, a cancelled request has no answer."""

    def is_wanted(self) -> bool:
        """Return True: on a pipe a client cancels a request by a message."""
        return True

    def release(self) -> bool:
        """Return False: the client of a pipe cannot come back, so the connection must not be ended."""
        return False

    def _take_uninterrupted(self, line: bytes) -> bool:
        with Uninterrupted():
            return self._take(line)

    def _take(self, line: bytes) -> bool:
        """Write one message, or leave it to the thread that is writing. False if there is no room for it."""
        with self._lock:
            if self._error is not None:
                raise ConnectionClosed(str(self._error)) from self._error
            if self._writing:
                if not self._has_room(len(line)):
                    return False
                self._waiting.append(line)  # the thread that writes will take it along
                self._size += len(line)
                return True
            self._writing = True
        self._write_all(line)
        return True

    def _has_room(self, size: int) -> bool:
        """Whether a message may be sent, or will be refused at once. With _lock held."""
        is_over = not self._writing or self._error is not None
        return is_over or not self._size or self._size + size <= self.limit

    def _wait_for_room(self, size: int, wait: float) -> None:
        """Wait until some messages are gone, or the connection is over. Raises Full."""
        with self._lock:
            if not self._has_room(size) and not self._room.wait(max(0.0, wait)):
                raise Full(f"the peer has read nothing for {wait:g} s")

    def _write_all(self, line: bytes) -> None:
        """Be the writer until no message is left; if the peer is slow, hand over to a thread."""
        try:
            while line:
                if self._begin is None:
                    self._write(line)
                elif (written := self._begin(line)) < len(line):
                    self._hand_over(line[written:])
                    return
                line = self._more()
        except Exception as problem:
            self._failed(problem)
            raise ConnectionClosed(str(problem)) from problem
        except BaseException:  # a second Ctrl-C: half a line may have been written, so no other may follow
            self.fail(ConnectionClosed("interrupted in the middle of a message"))
            raise

    def _more(self) -> bytes:
        """Return the messages that were added meanwhile. If b"", this thread is the writer no longer."""
        with self._lock:
            line = b"".join(self._waiting)
            if line:
                self._clear()
            else:
                self._writing = False
            self._room.notify_all()
            return line

    def _hand_over(self, rest: bytes) -> None:
        """Have a thread of its own wait for the peer and write the rest."""
        thread = threading.Thread(target=self._finish, args=(rest,), name="mcp_ref writer", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads to give
            self._finish(rest)

    def _finish(self, rest: bytes) -> None:
        try:
            while rest:
                self._write(rest)
                rest = self._more()
        except Exception as problem:
            self._failed(problem)

    def _failed(self, problem: Exception) -> None:
        """Fail, and call `on_failure`: on the writer's thread there is no caller that would learn of it."""
        self.fail(problem)
        if self.on_failure is not None:
            self.on_failure(str(problem))

    def _clear(self) -> None:
        """Empty the list: the writer has the messages, or nothing can be sent. With _lock held."""
        self._waiting.clear()
        self._size = 0

    @property
    def is_busy(self) -> bool:
        return self._writing

    def flush(self, seconds: float) -> bool:
        """Wait until everything is written; False if it is not in time."""
        with self._lock:
            return self._room.wait_for(lambda: not self._writing, seconds)

    def forked(self) -> None:
        """Send nothing more in a forked child: connection and waiting messages are the parent's."""
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self.fail(ConnectionClosed(INHERITED))

    def fail(self, problem: BaseException) -> None:
        """Send nothing more. Senders that wait, and all later ones, get ConnectionClosed with this reason."""
        with self._lock:
            if self._error is None:
                self._error = problem
            self._clear()
            self._writing = False
            self._room.notify_all()
