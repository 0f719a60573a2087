"""The server's half of stdio (page: basic/transports/stdio).

The process serves one client on its own stdin and stdout, and exits when its input ends:

    `serve`    read a line, act, write a line     ...     end of input: finish what runs, and exit

What a tool prints goes to stderr: stdout is for messages alone.

Revisions   2026-07-28: the server exits at end of input, and sends no requests.
Threads     the thread that called `serve` is the reader; workers answer.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.transports.index import Served
from mcp_ref.basic.transports.stdio.framing import Writer, read_lines
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.threads.pipes import poll_for, widen
from mcp_ref.runtime.threads.signals import IN_PEACE, Handled

if TYPE_CHECKING:
    from mcp_ref.basic.utilities.tasks.behavior_requirements import Receiver

__all__ = ["serve"]

GRACE_SECONDS = 1.0
"""How long running requests may go on after end of input, and tasks after they were cancelled."""


class ServedAlone(Served, Protocol):
    """What this transport needs of the server whose process it has to itself."""

    @property
    def tasks(self) -> Receiver:
        """Its tasks, which end with this process."""


def serve(server: ServedAlone) -> None:
    """Serve one client over this process's stdin and stdout; returns at end of input.

    # spec: basic/transports/stdio/server-exits-on-eof
    """
    with _own_streams() as (incoming, outgoing), _Signals(incoming) as signals, server.lifespan.used():
        write = Writer(outgoing)
        connection = server.attach(Outbox(write))
        connection.lose = signals.bell.ring

        reason = "end of input"
        try:
            limit = server.options.max_message_bytes
            read_lines(incoming, connection.receive, connection.too_long, limit, signals.bell.wait)
            _end_tasks(server)
            if signals.bell.reason is None:
                server.hang_up(connection, GRACE_SECONDS)
            else:
                reason = signals.bell.reason
        except KeyboardInterrupt:
            reason = "interrupted"
        except OSError as problem:
            reason = str(problem)
        finally:
            signals.end()
            _end_tasks(server)
            server.detach(connection, reason)
            if server.lifespan.is_in_last_use:
                server.tasks.close(GRACE_SECONDS)
            write.close(0.5)


def _end_tasks(server: ServedAlone) -> None:
    """Fail the tasks that run here, before the connection ends, so that clients that wait for them are told.

    Not if the server is also served in another way, in which the tasks can go on.
    """
    if server.lifespan.is_in_last_use:
        server.tasks.fail()


@contextlib.contextmanager
def _own_streams() -> Iterator[tuple[int, int]]:
    """stdin and stdout for the protocol alone, under descriptors that no other code uses.

    Meanwhile what a library or a child of a tool prints goes to stderr, and stdin is empty for them.
    # spec: basic/transports/stdio/stdout-only-mcp, basic/transports/stdio/stderr-logging
    """
    for standard in (0, 1, 2):
        _ensure_open(standard)
    incoming, outgoing = os.dup(0), os.dup(1)
    widen(incoming, outgoing)
    nothing = os.open(os.devnull, os.O_RDWR)
    streams = _Streams(nothing, incoming, outgoing)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield incoming, outgoing
    finally:
        streams.descriptors = ()
        with contextlib.suppress(AttributeError, OSError, ValueError):
            sys.stdout.flush()
        os.set_blocking(outgoing, True)
        os.dup2(incoming, 0)
        os.dup2(outgoing, 1)
        for descriptor in (incoming, outgoing, nothing):
            os.close(descriptor)


class _Streams:
    """The two descriptors of the protocol, of which a forked child has copies."""

    def __init__(self, nothing: int, *descriptors: int) -> None:
        self._nothing = nothing
        self.descriptors = descriptors
        forks.register(self)

    def forked(self) -> None:
        """In a forked child: replace both, so that the client sees end of input when the parent exits."""
        for descriptor in self.descriptors:
            os.dup2(self._nothing, descriptor, inheritable=False)


def _ensure_open(standard: int) -> None:
    """Open a standard stream that was closed on the null device."""
    try:
        os.fstat(standard)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != standard:
            os.dup2(nothing, standard)
            os.close(nothing)


class _Bell:
    """Wakes the thread that reads when there is no input: for a signal, or to end reading.

    Threads     `ring` is for any, `wait` for the one that reads.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._woken, self.wake = os.pipe()
        for end in (self._woken, self.wake):
            os.set_blocking(end, False)
        self._poll = poll_for(descriptor, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._ringing = threading.Lock()  # so that `ring` never writes to a closed, reused descriptor
        self._is_closed = False  # guarded by _ringing
        self.reason: str | None = None
        """Why reading ends; None while it goes on."""
        self.is_waited_for = False
        """Whether `wait` will soon look at `reason`."""

    def wait(self) -> bool:
        """Wait for input; False if reading is to end. A signal just before the poll wakes it as well."""
        while self.reason is None:
            self.is_waited_for = True
            events = [descriptor for descriptor, _ in self._poll.poll()]
            self.is_waited_for = False
            if self._woken in events:
                os.read(self._woken, 512)  # the signal's own function has run, or runs next
            elif self._descriptor in events:
                return True
        return False

    def ring(self, reason: str) -> None:
        """End reading, for this reason."""
        with self._ringing:
            self.reason = reason
            if not self._is_closed:
                with contextlib.suppress(BlockingIOError):  # full: what is in it wakes the reader
                    os.write(self.wake, b"x")

    def close(self) -> None:
        """Close the pipe, after the last `wait`."""
        with self._ringing:
            self._is_closed = True
            os.close(self._woken)
            os.close(self.wake)


class _Signals:
    """SIGTERM ends `serve` like Ctrl-C does, so that lifespans are left properly.

    Only on the main thread: Python delivers no signals to others.

        while the lifespan is entered   the signal interrupts it
        while a line is waited for      the signal ends the wait
        while a line is handled         the signal interrupts it, but no message that is being written
        once the end has begun          nothing, for IN_PEACE seconds: the lifespan's end is not cut short
    """

    def __init__(self, descriptor: int) -> None:
        self.bell = _Bell(descriptor)
        self._since: float | None = None  # when the end began
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> _Signals:
        self._exits.callback(self.bell.close)
        if threading.current_thread() is threading.main_thread():
            previous = signal.set_wakeup_fd(self.bell.wake, warn_on_full_buffer=False)
            self._exits.callback(signal.set_wakeup_fd, previous)
            # An application that handles or ignores SIGINT itself goes on doing so.
            interrupts = signal.getsignal(signal.SIGINT) == signal.default_int_handler
            numbers = (signal.SIGTERM, signal.SIGINT) if interrupts else (signal.SIGTERM,)
            self._exits.enter_context(Handled(self._on_signal, numbers))
            forks.register(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self._exits.close()

    def forked(self) -> None:
        """Detach a forked child's signals from the pipe that wakes the parent's reader."""
        signal.set_wakeup_fd(-1)

    def end(self) -> None:
        """Ignore signals for a while, since the end has begun."""
        if self._since is None:
            self._since = time.monotonic()

    def _on_signal(self, number: int, frame: Any) -> None:
        """End a wait for a line by the bell, and interrupt anything else."""
        if self._since is not None and time.monotonic() - self._since < IN_PEACE:
            return
        first = self._since is None
        self.end()
        if not (first and self.bell.is_waited_for):
            raise KeyboardInterrupt
        self.bell.reason = "interrupted"
