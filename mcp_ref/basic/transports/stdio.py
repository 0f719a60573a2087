"""stdio (pages: basic/transports/index and basic/transports/stdio; basic/transports until 2025-11-25).

The client starts the server as a child process. One message a line: requests go down the child's
stdin, answers come up its stdout, and its stderr is for people.

    client                                          server (child)
    start -> server/discover or initialize ------>  `serve`: read a line, act, write a line
    close: close stdin, wait, SIGTERM, wait, SIGKILL        end of input: finish and exit

The framing needs no child: `read_lines` and `Writer` work on any byte stream, a socket for one
(basic/transports/memory).  # spec: basic/transports/index/custom-reuse-stdio-framing

Revisions   2024-11-05  newline-delimited JSON-RPC
            2025-03-26  + UTF-8 is a must; a batch may stand on a line
            2025-06-18  - batches
            2026-07-28  the client sends no responses, the server no requests; the server exits at
                        end of input

Not here    how the client finds out the server's era (basic/transports/era).
Threads     server: the thread that called `serve` is the reader, workers answer.
            client: `mcp_ref reader`, and `mcp_ref stderr` which passes on what the child says there.
POSIX       stdin and stdout are polled; this module does not run on Windows.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mcp_ref.basic.errors import ConnectionClosed, LocalError
from mcp_ref.runtime.outbox import Outbox
from mcp_ref.runtime.pipes import poll_for, unread, widen
from mcp_ref.runtime.targets import call_for

__all__ = ["Child", "Writer", "read_lines", "safe_environment", "serve"]

_log = logging.getLogger("mcp_ref.stdio")

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

    def __init__(self, descriptor: int, stall: float = STALL) -> None:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._stall = stall
        self._poll = poll_for(descriptor, select.POLLOUT)
        self._writing = threading.Lock()  # held during a write, so that nobody closes under it
        self._retired = False
        self.broken = False
        """Whether the peer is known to read no more."""

    def __call__(self, data: bytes) -> None:
        """All of it."""
        if self._some(data, self._stall) < len(data):
            raise ConnectionClosed(f"the peer has read nothing for {self._stall:g} s")

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
                    if not self._poll.poll(wait * 1000):
                        break
                except BrokenPipeError:
                    self.broken = True
                    raise
            return len(data) - len(rest)

    def retire(self, wait: float) -> bool:
        """No more writes. True when none is under way, so that the descriptor may be closed."""
        self._retired = True
        if not self._writing.acquire(timeout=wait):
            return False
        self._writing.release()
        return True


# ----------------------------------------------------------------------- server half


def serve(server: Any) -> None:
    """Serve one client over this process's stdin and stdout; returns at end of input.

    # spec: basic/transports/stdio/server-exits-on-eof
    """
    with _own_streams() as (incoming, outgoing), _signals_heard(incoming) as bell, server.running():
        write = Writer(outgoing)
        connection = server.attach(Outbox(write))
        connection.lose = bell.ring

        reason = "end of input"
        try:
            limit = server.max_message_bytes
            read_lines(incoming, connection.receive, connection.too_long, limit, bell.wait)
            if bell.reason is None:
                server.hang_up(connection, GRACE)
            else:
                reason = bell.reason
        except KeyboardInterrupt:
            reason = "interrupted"
        except OSError as problem:
            reason = str(problem)
        finally:
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
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield incoming, outgoing
    finally:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            sys.stdout.flush()
        os.set_blocking(outgoing, True)
        os.dup2(incoming, 0)
        os.dup2(outgoing, 1)
        for descriptor in (incoming, outgoing, nothing):
            os.close(descriptor)


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

    def wait(self) -> bool:
        """Until there is input; False if reading is to end."""
        while self.reason is None:
            events = [found for found, _ in self._poll.poll()]
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


@contextlib.contextmanager
def _signals_heard(descriptor: int) -> Iterator[_Bell]:
    """SIGTERM ends `serve` like Ctrl-C does, so that lifespans are left properly.

    Yields what waits for input, or for a signal: also for one that comes just before the wait, which
    a plain `read` would sleep through. Off the main thread there are no signals to hear.
    """
    with contextlib.closing(_Bell(descriptor)) as bell:
        if threading.current_thread() is not threading.main_thread():
            yield bell
            return

        def stop(number: int, frame: Any) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGTERM, stop)
        heard = signal.set_wakeup_fd(bell.wake, warn_on_full_buffer=False)
        try:
            yield bell
        finally:
            signal.set_wakeup_fd(heard)
            signal.signal(signal.SIGTERM, before)


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


def _not_started(command: list[str], problem: Exception) -> str:
    """The whole command, why it does not start, and what was meant if it is one text with spaces."""
    import shlex

    said = f"cannot start {shlex.join(command):.{MAX_COMMAND_CHARACTERS}}: {problem}"
    meant = call_for(command[0]) if len(command) == 1 and len(command[0].split()) > 1 else None
    return said if meant is None else f"{said}; write {meant}"


class Child:
    """A server that we started.  # spec: basic/transports/stdio/client-launches-server"""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        grace: float = 2.0,
    ) -> None:
        import subprocess

        self.command = [os.fspath(part) for part in command]
        self.grace = grace
        self._on_stderr = on_stderr
        self._last_words: deque[str] = deque(maxlen=20)
        self._closing = threading.Lock()
        self._had_read = True
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
        self.write = Writer(self._stdin)  # spec: basic/transports/stdio/stdin-only-mcp
        self._woken, self._wake = os.pipe()
        self._exit = os.pidfd_open(self.process.pid) if hasattr(os, "pidfd_open") else -1
        self._listener = threading.Thread(target=self._listen, name="mcp_ref stderr", daemon=True)
        self._listener.start()

    @property
    def heard(self) -> bool:
        """Whether it had read all that we wrote, when its output ended."""
        return self._had_read and not self.write.broken

    def read(
        self, receive: Callable[[bytes], None], too_long: Callable[[int, bytes], None], limit: int
    ) -> None:
        """Read until the child's output ends, the child is dead or `close` was called."""
        poll = poll_for(self._stdout, select.POLLIN)
        for descriptor in (self._woken, self._exit):
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
        self._had_read = unread(self._stdin) == 0

    def _listen(self) -> None:
        """Pass on what the child says to people, and make nothing of it.

        # spec: basic/transports/stdio/stderr-handling, basic/transports/stdio/stderr-not-error
        Until the end of its stderr, or `close`: a grandchild may hold the pipe for much longer.
        """
        poll = poll_for(self._stderr, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        held, rest = b"", 16  # how much may still be read when all is over
        while rest:
            events = [descriptor for descriptor, _ in poll.poll()]
            rest -= self._woken in events
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
        self._last_words.append(text[:500])
        try:
            if self._on_stderr is not None:
                self._on_stderr(text)
            elif sys.stderr is not None:
                print(text, file=sys.stderr, flush=True)
        except BaseException:  # the child must be heard on, or it cannot go on itself
            _log.exception("on_stderr failed")

    def obituary(self) -> str:
        """Why there is no more output: the exit code and the last lines of stderr."""
        import subprocess

        try:
            code = self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            # spec: basic/transports/stdio/server-closes-stdout
            return f"the server {self.command[0]} closed its output"
        self._listener.join(0.5)
        how = f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
        words = "\n  ".join(self._last_words)
        return f"the server {self.command[0]} {how}" + (f"; it said last:\n  {words}" if words else "")

    @property
    def crashed(self) -> bool:
        """Whether it is gone, and not by its own will."""
        return self.process.poll() not in (None, 0)

    def close(self) -> None:
        """End the child, as gently as it allows. Leaves no process behind.

        1 close its stdin  2 wait  3 SIGTERM  4 wait  5 SIGKILL, each to all of its session. While a
        thread is writing to it, stdin cannot be closed: then SIGTERM comes first.
        # spec: basic/transports/stdio/shutdown-close-stdin, basic/transports/stdio/shutdown-wait-exit
        # spec: basic/transports/stdio/shutdown-force, basic/lifecycle/handle-shutdown-timeout
        # spec: basic/lifecycle/shutdown-sigterm, basic/lifecycle/shutdown-sigkill
        """
        with self._closing:
            if self.process.stdin is None or self.process.stdin.closed:
                return
            if not self.write.retire(0.2):
                self._signal(signal.SIGTERM)  # it does not read: only its end ends the write
                self.write.retire(self.grace)
            self.process.stdin.close()
            if not self._gone():
                self._signal(signal.SIGTERM)
                if not self._gone():
                    self._signal(signal.SIGKILL)
                    self.process.wait()
            os.write(self._wake, b"x")

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
        """After `close`, and after the reader has ended: give back the descriptors."""
        self._listener.join(5.0)  # a callback of the application's may be slow
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        for descriptor in (self._woken, self._wake, self._exit):
            if descriptor >= 0:
                os.close(descriptor)
