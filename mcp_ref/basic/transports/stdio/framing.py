"""stdio (pages: basic/transports/index and basic/transports/stdio; basic/transports until 2025-11-25).

The client starts the server as a child process. One message a line: requests go down the child's
stdin, answers come up its stdout, and its stderr is for people.

    client                                          server (child)
    start -> server/discover or initialize ------>  `serve`: read a line, act, write a line
    close: close stdin, wait, SIGTERM, wait, SIGKILL        end of input: finish and exit

The framing needs no child: `read_lines` and `Writer` work on any byte stream, a socket for one
(basic/transports/index).  # spec: basic/transports/index/custom-reuse-stdio-framing

Revisions   2024-11-05  newline-delimited JSON-RPC
            2025-03-26  + UTF-8 is a must; a batch may stand on a line
            2025-06-18  - batches
            2026-07-28  the client sends no responses, the server no requests; the server exits at
                        end of input

Not here    how the client finds out the server's era (basic/transports/stdio/backward_compatibility).
Threads     server: the thread that called `serve` is the reader, workers answer.
            client: `mcp_ref reader`, and `mcp_ref stderr` which passes on what the child says there.
POSIX       stdin and stdout are polled; this module does not run on Windows.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mcp_ref.runtime.errors import (
    ConnectionClosed,
    LocalError,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.plain import one_line
from mcp_ref.runtime.targets import call_for_command
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.threads.pipes import poll_for, unread, widen
from mcp_ref.runtime.threads.signals import IN_PEACE, Handled, Uninterrupted

__all__ = ["Child", "Writer", "read_lines", "safe_environment", "serve"]

_log = logger("mcp_ref.stdio")

MAX_MESSAGE = 64 << 20
"""Bytes of the longest line that is read; a longer one is refused without being kept."""

BEGINNING = 256
"""Bytes that are kept of a longer one: enough to say what it was an answer to."""

SHORT = 0.1
"""Seconds for which whoever has something to say waits itself for a peer that does not read."""

STALL = 60.0
"""Seconds that a peer may leave our bytes unread before it is given up."""

# ------------------------------------------------------------------------- the framing


def read_lines(
    descriptor: int,
    receive: Callable[[bytes], None],
    too_long: Callable[[int, bytes], None],
    limit: int = MAX_MESSAGE,
    ready: Callable[[], bool] | None = None,
) -> None:
    """Hand every line to `receive`, until end of input. Empty lines are nothing.

    A line beyond the limit is skipped to its end, then reported with its length and first bytes. A
    last line without a newline is a message that was cut off, and is not one. `ready` may wait for
    input, and say that there is no more to be read.
    """
    held: list[bytes] = []  # the beginning of a line that has not ended yet
    size = 0  # its length, also of what was skipped
    chunk = 65536
    while ready is None or ready():
        try:
            data = os.read(descriptor, chunk)
        except BlockingIOError:  # a socket that is also the way out, and so does not block
            poll_for(descriptor, select.POLLIN).poll()
            continue
        if not data:
            break
        chunk = 1 << 20 if len(data) == chunk else 65536
        start, end = 0, data.find(b"\n")
        while end >= 0:
            line = data[start:end]
            size += len(line)
            if held:
                line = b"".join((*held, line))
                held.clear()
            if size > limit:
                too_long(size, line[:BEGINNING])
            elif line and not line.isspace():
                receive(line)
            size = 0
            start, end = end + 1, data.find(b"\n", end + 1)
        if start < len(data):
            size += len(data) - start
            held.append(data[start:])
            if size > limit:
                held[:] = [held[0][:BEGINNING]]  # what is skipped is counted, not kept
    if held:
        _log.warning("the input ended within a message of %d bytes", size)


class Writer:
    """Writes all of the bytes it is given, or raises when the peer takes none for too long."""

    def __init__(self, descriptor: int, stall: float = STALL, *, peer: str = "the peer") -> None:
        """`peer` is who reads, in the error that tells of it."""
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._stall = stall
        self._peer = peer
        self._poll = poll_for(descriptor, select.POLLOUT)
        self._writing = threading.Lock()  # held during a write, so that nobody closes under it
        self._retired = False
        self.broken = False
        """Whether the peer is known to read no more."""
        forks.tell(self)

    def __call__(self, data: bytes) -> None:
        """All of it."""
        if self._some(data, self._stall) < len(data):
            raise ConnectionClosed(f"{self._peer} has read nothing for {self._stall:g} s")

    def begin(self, data: bytes) -> int:
        """As much as the peer takes without long waits; how many bytes that were."""
        return self._some(data, min(SHORT, self._stall))

    def _some(self, data: bytes, wait: float) -> int:
        with self._writing:
            rest = memoryview(data)
            while rest:
                if self._retired:
                    raise ConnectionClosed("the connection was closed")
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    if not self._has_room(wait):
                        break
                except BrokenPipeError as problem:
                    self.broken = True
                    raise ConnectionClosed(f"{self._peer} closed its input") from problem
            return len(data) - len(rest)

    def _has_room(self, seconds: float) -> bool:
        """Wait until the peer has read, or no more is to be written. False after so many seconds."""
        end = time.monotonic() + seconds
        while not self._poll.poll(max(0.0, min(SHORT, end - time.monotonic())) * 1000):
            if self._retired:
                return True
            if time.monotonic() >= end:
                return False
        return True

    def retire(self, wait: float) -> bool:
        """No more writes. True when none is under way, so that the descriptor may be closed.

        One that waits for its peer gives up within SHORT seconds.
        """
        self._retired = True
        if not self._writing.acquire(timeout=wait):
            return False
        self._writing.release()
        return True

    def forked(self) -> None:
        """In a forked child: the descriptor is the parent's to write to."""
        self._retired = True
        self._writing = threading.Lock()


# ----------------------------------------------------------------------- server half


def serve(server: Any) -> None:
    """Serve one client over this process's stdin and stdout; returns at end of input.

    # spec: basic/transports/stdio/server-exits-on-eof
    """
    with _own_streams() as (incoming, outgoing), _Signals(incoming) as signals, server.running():
        write = Writer(outgoing)
        connection = server.attach(Outbox(write))
        connection.lose = signals.bell.ring

        reason = "end of input"
        try:
            limit = server.max_message_bytes
            read_lines(incoming, connection.receive, connection.too_long, limit, signals.bell.wait)
            if signals.bell.reason is None:
                server.hang_up(connection, GRACE)
            else:
                reason = signals.bell.reason
        except KeyboardInterrupt:
            reason = "interrupted"
        except OSError as problem:
            reason = str(problem)
        finally:
            signals.end()
            server.detach(connection, reason)
            write.retire(0.5)


GRACE = 1.0
"""Seconds that running requests get to finish after end of input."""


@contextlib.contextmanager
def _own_streams() -> Iterator[tuple[int, int]]:
    """stdin and stdout for the protocol alone, as descriptors that nobody else knows.

    Whoever prints meanwhile, a library or a child of a tool, prints to stderr; whoever reads stdin
    finds it empty.
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
    """The two descriptors of the protocol, which a forked child has as well."""

    def __init__(self, nothing: int, *descriptors: int) -> None:
        self._nothing = nothing
        self.descriptors = descriptors
        forks.tell(self)

    def forked(self) -> None:
        """In a forked child they lead nowhere, so that the client sees the end of the parent as its end."""
        for descriptor in self.descriptors:
            os.dup2(self._nothing, descriptor, inheritable=False)


def _ensure_open(standard: int) -> None:
    """A standard stream that was closed reads as empty and takes everything."""
    try:
        os.fstat(standard)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != standard:
            os.dup2(nothing, standard)
            os.close(nothing)


class _Bell:
    """What the thread that reads waits for besides input: a signal, or that reading is to end.

    Threads     `ring` is for any, `wait` for the one that reads.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._woken, self.wake = os.pipe()
        for end in (self._woken, self.wake):
            os.set_blocking(end, False)
        self._poll = poll_for(descriptor, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._ringing = threading.Lock()  # so that nothing is written to a descriptor of somebody else's
        self._is_closed = False  # guarded by _ringing
        self.reason: str | None = None
        """Why reading is to end."""
        self.is_waited_for = False
        """Whether `wait` will soon look at `reason`."""

    def wait(self) -> bool:
        """Until there is input; False if reading is to end. A signal just before the poll wakes it, too."""
        while self.reason is None:
            self.is_waited_for = True
            events = [found for found, _ in self._poll.poll()]
            self.is_waited_for = False
            if self._woken in events:
                os.read(self._woken, 512)  # the signal's own function has run, or runs next
            elif self._descriptor in events:
                return True
        return False

    def ring(self, reason: str) -> None:
        """Have reading end."""
        with self._ringing:
            self.reason = reason
            if not self._is_closed:
                with contextlib.suppress(BlockingIOError):  # full: it wakes as it is
                    os.write(self.wake, b"x")

    def close(self) -> None:
        """Nothing is read any more."""
        with self._ringing:
            self._is_closed = True
            os.close(self._woken)
            os.close(self.wake)


class _Signals:
    """SIGTERM ends `serve` like Ctrl-C does, so that lifespans are left properly. Off the main thread there
    are no signals to hear.

        while the lifespan is entered   the signal interrupts it
        while a line is waited for      the signal ends the wait
        while a line is handled         the signal interrupts it
        once the end has begun          nothing, for IN_PEACE seconds: the lifespan's end is not cut short
    """

    def __init__(self, descriptor: int) -> None:
        self.bell = _Bell(descriptor)
        self._since: float | None = None  # when the end began
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> _Signals:
        self._exits.callback(self.bell.close)
        if threading.current_thread() is threading.main_thread():
            heard = signal.set_wakeup_fd(self.bell.wake, warn_on_full_buffer=False)
            self._exits.callback(signal.set_wakeup_fd, heard)
            interrupts = signal.getsignal(signal.SIGINT) == signal.default_int_handler  # else it is not ours
            numbers = (signal.SIGTERM, signal.SIGINT) if interrupts else (signal.SIGTERM,)
            self._exits.enter_context(Handled(self._hear, numbers))
            forks.tell(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self._exits.close()

    def forked(self) -> None:
        """In a forked child: its signals must not wake the parent."""
        signal.set_wakeup_fd(-1)

    def end(self) -> None:
        """The end has begun: from now on signals are not heard for a while."""
        if self._since is None:
            self._since = time.monotonic()

    def _hear(self, number: int, frame: Any) -> None:
        if self._since is not None and time.monotonic() - self._since < IN_PEACE:
            return
        first = self._since is None
        self.end()
        if not (first and self.bell.is_waited_for):
            raise KeyboardInterrupt
        self.bell.reason = "interrupted"


# ----------------------------------------------------------------------- client half

INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What a child sees of our environment unless told otherwise: no secrets."""


def safe_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: a few harmless variables, and those it is given."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # A value that starts so is a shell function, which some shells would run.
    safe = {name: value for name, value in kept.items() if not value.startswith("()")}
    return {**safe, **(more or {})}


MAX_COMMAND_CHARACTERS = 1000
"""Of a command, in the error that tells that it does not start."""

MAX_LABEL_CHARACTERS = 200
"""Of a command, in the error that tells how it ended: it may hold a whole program, for `python -c`."""


def _shown(command: list[str], length: int) -> str:
    """A whole command, on one line: which script does not run says more than which interpreter does."""
    import shlex

    return f"{one_line(shlex.join(command)):.{length}}"


def _not_started(command: list[str], problem: Exception) -> str:
    """The whole command, why it does not start, and what was meant if that can be told."""
    said = f"cannot start {_shown(command, MAX_COMMAND_CHARACTERS)}: {problem}"
    is_of_folder = isinstance(problem, OSError) and problem.filename != command[0]  # of cwd, that is
    meant = None if is_of_folder else call_for_command(command)
    return said if meant is None else f"{said}; write {meant}"


class Child:
    """A server that we started.  # spec: basic/transports/stdio/client-launches-server

    Each descriptor has one owner, which closes it when it needs it no more:

        stdin                 `close`, once no write is under way
        stdout, the pidfd     the thread that reads: `release`
        stderr                the thread that listens to it, however long `on_stderr` takes
        the pipe that wakes   the last of these three
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        grace: float = 2.0,
    ) -> None:
        self.command = [os.fspath(part) for part in command]
        self.grace = grace
        self._on_stderr = on_stderr
        self._last_words: deque[str] = deque(maxlen=20)
        self._closing = threading.RLock()  # a handler of a signal may close what is being closed
        self._had_read = True
        self._is_started = False
        try:
            with Uninterrupted():
                self._start(env, cwd)
        except KeyboardInterrupt:  # held back until all of it was there
            if self._is_started:
                self.close()
                self.release()
            raise

    def _start(self, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None) -> None:
        import subprocess

        try:
            # A session of its own: Ctrl-C in a terminal is ours to handle, not the child's.
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=safe_environment(env),
                cwd=cwd,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as problem:
            raise LocalError(_not_started(self.command, problem)) from problem
        streams = self.process.stdin, self.process.stdout, self.process.stderr
        self._stdin, self._stdout, self._stderr = (stream.fileno() for stream in streams if stream)
        widen(self._stdin, self._stdout)
        server = f"the server {_shown(self.command, MAX_LABEL_CHARACTERS)}"
        self.write = Writer(self._stdin, peer=server)  # spec: basic/transports/stdio/stdin-only-mcp
        self._wakes = _Wakes("close", "read", "listen")
        self._exit = os.pidfd_open(self.process.pid) if hasattr(os, "pidfd_open") else -1
        self._listener = threading.Thread(target=self._listen, name="mcp_ref stderr", daemon=True)
        forks.tell(self)
        try:
            self._listener.start()
        except RuntimeError:  # the system has no more threads to give
            self._deafen()
            self.close()
            self.release()
            raise
        self._is_started = True

    @property
    def heard(self) -> bool:
        """Whether it had read all that we wrote, when its output ended."""
        return self._had_read and not self.write.broken

    def read(
        self, receive: Callable[[bytes], None], too_long: Callable[[int, bytes], None], limit: int
    ) -> None:
        """Read until the child's output ends, the child is dead or `close` was called."""
        poll = poll_for(self._stdout, select.POLLIN)
        for descriptor in (self._wakes.woken, self._exit):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)

        def ready() -> bool:
            while True:
                events = [descriptor for descriptor, _ in poll.poll(None if self._exit >= 0 else 1000)]
                if self._stdout in events:
                    return True
                # Dead, and nothing left to read: that a grandchild still holds the pipe means nothing.
                if events or self.process.poll() is not None:
                    return False

        read_lines(self._stdout, receive, too_long, limit, ready)
        stdin = self.process.stdin
        self._had_read = stdin is None or stdin.closed or unread(self._stdin) == 0

    def _listen(self) -> None:
        """Pass on what the child says to people, and make nothing of it.

        # spec: basic/transports/stdio/stderr-handling, basic/transports/stdio/stderr-not-error
        Until the end of its stderr, or `close`: a grandchild may hold the pipe for much longer.
        """
        try:
            self._listen_on()
        finally:
            self._deafen()

    def _deafen(self) -> None:
        """Nothing more is heard of stderr: for the thread that listens, at its end."""
        if self.process.stderr is not None:
            self.process.stderr.close()
        self._wakes.leave("listen")

    def _listen_on(self) -> None:
        poll = poll_for(self._stderr, select.POLLIN)
        poll.register(self._wakes.woken, select.POLLIN)
        held, rest = b"", 16  # how much may still be read when all is over
        while rest:
            events = [descriptor for descriptor, _ in poll.poll()]
            rest -= self._wakes.woken in events
            if self._stderr not in events:
                break
            data = os.read(self._stderr, 32768)
            if not data:
                break
            *lines, held = (held + data).split(b"\n")
            if len(held) >= 32768:
                lines, held = [*lines, held], b""
            for line in lines:
                self._heard_on_stderr(line)
        if held:
            self._heard_on_stderr(held)

    def _heard_on_stderr(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        self._last_words.append(one_line(text[:500]))
        process = forks.count
        try:
            if self._on_stderr is not None:
                self._on_stderr(text)
            elif sys.stderr is not None:
                print(text, file=sys.stderr, flush=True)
        except BaseException as problem:  # the child must be heard on, or it cannot go on itself
            if forks.count != process:
                forks.end_child(problem)
            _log.exception("on_stderr failed")
        if forks.count != process:
            forks.end_child()

    def obituary(self) -> str:
        """Why there is no more output: the exit code and the last lines of stderr."""
        import subprocess

        command = _shown(self.command, MAX_LABEL_CHARACTERS)
        try:
            code = self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            # spec: basic/transports/stdio/server-closes-stdout
            return f"the server {command} closed its output"
        self._listener.join(0.5)
        how = f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
        words = "\n  ".join(self._last_words)
        return f"the server {command} {how}" + (f"; it said last:\n  {words}" if words else "")

    @property
    def crashed(self) -> bool:
        """Whether it is gone, and not by its own will."""
        return self.process.poll() not in (None, 0)

    def close(self) -> None:
        """End the child, as gently as it allows. Leaves no process behind.

        1 close its stdin  2 wait  3 SIGTERM  4 wait  5 SIGKILL, each to all of its session. A write that
        waits for the child is given up first. Any thread, any number of times: each step is one that may be
        done again, so that a call after one that Ctrl-C interrupted does the rest.
        # spec: basic/transports/stdio/shutdown-close-stdin, basic/transports/stdio/shutdown-wait-exit
        # spec: basic/transports/stdio/shutdown-force, basic/lifecycle/handle-shutdown-timeout
        # spec: basic/lifecycle/shutdown-sigterm, basic/lifecycle/shutdown-sigkill
        """
        with self._closing:
            self.write.retire(STALL)
            if self.process.stdin is not None:
                self.process.stdin.close()
            if not self._gone():
                self._signal(signal.SIGTERM)
                if not self._gone():
                    self._signal(signal.SIGKILL)
                    self.process.wait()
            self._wakes.wake("close")
        if self._listener is not threading.current_thread() and self._listener.ident is not None:
            self._listener.join(LAST_WORDS)

    def _signal(self, number: int) -> None:
        """To the child and all that it started: it may be a wrapper, such as sh or npx."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _gone(self) -> bool:
        import subprocess

        try:
            self.process.wait(self.grace)
        except subprocess.TimeoutExpired:
            return False
        return True

    def release(self) -> None:
        """Give back what reading took: for the thread that reads, at its end, or instead of it."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        descriptor, self._exit = self._exit, -1
        if descriptor >= 0:
            os.close(descriptor)
        self._wakes.leave("read")

    def forked(self) -> None:
        """In a forked child: the server is the parent's child, to end and to wait for."""
        self._closing = threading.RLock()
        if self.process.returncode is None:
            self.process.returncode = 0
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self._wakes.forked()
        self.release()


LAST_WORDS = 5.0
"""Seconds that `close` gives `on_stderr` to hear the last of what the server said."""


class _Wakes:
    """A pipe that wakes the threads of a Child. The last of those that use it closes it."""

    def __init__(self, *users: str) -> None:
        self.woken, self._wake = os.pipe()
        self._lock = threading.Lock()
        self._users = set(users)  # guarded by _lock

    def wake(self, user: str) -> None:
        """Wake all who poll `woken`, for good. The user that does so needs it no more."""
        self._leave(user, wakes=True)

    def leave(self, user: str) -> None:
        """This one polls it no more."""
        self._leave(user, wakes=False)

    def _leave(self, user: str, *, wakes: bool) -> None:
        with Uninterrupted(), self._lock:
            if user not in self._users:
                return
            self._users.remove(user)
            if wakes:
                os.write(self._wake, b"x")
            if not self._users:
                os.close(self.woken)
                os.close(self._wake)

    def forked(self) -> None:
        """In a forked child none of them is there; what is written would wake those of the parent."""
        self._lock = threading.Lock()
        for user in list(self._users):
            self.leave(user)
