"""The client's half of stdio (page: basic/transports/stdio).

The client starts the server as a child process, and ends it (`Child.close`):

    start     a pipe each for stdin, stdout and stderr; a safe environment
    close     close stdin, wait, SIGTERM, wait, SIGKILL

What the child writes to stderr is for people: it is printed to our own stderr, or given to a function of the
application.

Revisions   all; 2026-07-28: the client sends no responses.
Threads     `mcp_ref reader` reads stdout, `mcp_ref stderr` reads stderr.
Not here    how the client finds out the server's era (basic/transports/stdio/backward_compatibility).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from mcp_ref.basic.transports.stdio.framing import STALL_SECONDS, Writer, read_lines
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.suggestions import call_for_command
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.pipes import poll_for, unread, widen
from mcp_ref.runtime.threads.signals import Uninterrupted
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["Child", "safe_environment"]

_log = logger("mcp_ref.stdio")

INHERITED_VARIABLES = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
"""The variables of our environment that a child inherits: none that hold secrets."""


def safe_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: a few harmless variables, and those it is given."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    # A value that starts with "()" is a shell function, which some shells would run.
    safe = {name: value for name, value in inherited.items() if not value.startswith("()")}
    return {**safe, **(more or {})}


MAX_COMMAND_CHARACTERS = 1000
"""Characters of a command in the error that says why it did not start."""

MAX_LABEL_CHARACTERS = 200
"""Characters of a command in the error of a write: `python -c` may have a whole program in it."""


EXIT_REASON_SECONDS = 0.5
"""Seconds for the exit status of a child whose output has ended, and as many for the rest of its stderr. All
calls that fail with the child wait for both."""

LAST_WORDS_SECONDS = 5.0
"""Seconds for which `close` waits for `on_stderr` to take the last lines of the server."""


def _label(command: list[str], length: int) -> str:
    """A whole command on one line: its script says more than its interpreter."""
    import shlex

    return f"{one_line(shlex.join(command)):.{length}}"


def _start_error(command: list[str], problem: Exception) -> str:
    """The error for a command that does not start: why, and the call that was probably meant."""
    error = f"cannot start {_label(command, MAX_COMMAND_CHARACTERS)}: {problem}"
    is_of_folder = isinstance(problem, OSError) and problem.filename != command[0]  # the folder is `cwd`
    advice = None if is_of_folder else call_for_command(command)
    return error if advice is None else f"{error}; write {advice}"


class Child:
    """A server process that we started.  # spec: basic/transports/stdio/client-launches-server

    Each descriptor has one owner, which closes it when it is no longer needed:

        stdin                 `close`, once no write is under way
        stdout, the pidfd     the thread that reads stdout: `release`
        stderr                the thread that reads it, however long `on_stderr` takes
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
        self._said = LastWords()
        self._closing = threading.RLock()  # a handler of a signal may close what is being closed
        self._had_read = True
        self._is_started = False
        try:
            with Uninterrupted():
                self._start(env, cwd)
        except BaseException:
            # Of a signal's handler: `Uninterrupted` held the signal back until the child was complete.
            if self._is_started:
                self.close()
                self.release()
            raise

    def _start(self, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None) -> None:
        """Start the process, and the thread that reads its stderr."""
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
            raise LocalError(_start_error(self.command, problem)) from problem
        streams = self.process.stdin, self.process.stdout, self.process.stderr
        self._stdin, self._stdout, self._stderr = (stream.fileno() for stream in streams if stream)
        widen(self._stdin, self._stdout)
        server = f"the server {_label(self.command, MAX_LABEL_CHARACTERS)}"
        self.write = Writer(self._stdin, peer=server)  # spec: basic/transports/stdio/stdin-only-mcp
        self._wakes = _Wakes("close", "read", "listen")
        self._exit = os.pidfd_open(self.process.pid) if hasattr(os, "pidfd_open") else -1
        self._stderr_thread = threading.Thread(
            target=self._forward_stderr, name="mcp_ref stderr", daemon=True
        )
        forks.register(self)
        try:
            self._stderr_thread.start()
        except RuntimeError:  # the system is out of threads
            self._stop_listening()
            self.close()
            self.release()
            raise
        self._is_started = True

    @property
    def peer_drained_input(self) -> bool:
        """Whether the child had read all that we wrote when its output ended."""
        return self._had_read and not self.write.broken

    def read(
        self, receive: Callable[[bytes], None], too_long: Callable[[int, bytes], None], limit: int
    ) -> None:
        """Read lines until the child's output ends, the child is dead or `close` was called."""
        poll = poll_for(self._stdout, select.POLLIN)
        for descriptor in (self._wakes.woken, self._exit):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)

        def ready() -> bool:
            while True:
                # Without a pidfd, look once a second whether the child is dead.
                events = [descriptor for descriptor, _ in poll.poll(None if self._exit >= 0 else 1000)]
                if self._stdout in events:
                    return True
                # Dead, and nothing left to read. A grandchild may still hold the pipe: do not wait for that.
                if events or self.process.poll() is not None:
                    return False

        def hear(line: bytes) -> None:
            if b'"jsonrpc"' not in line:  # a `print` for debugging, a banner, a log in JSON
                _log.info("the server wrote to stdout what is no message: %.200r", line)
                self._said.add(self._said.stdout, line)
            receive(line)

        read_lines(self._stdout, hear, too_long, limit, ready)
        stdin = self.process.stdin
        self._had_read = stdin is None or stdin.closed or unread(self._stdin) == 0

    def _forward_stderr(self) -> None:
        """Pass on what the child writes to stderr, until its end or `close`. It is never taken for an error.

        A grandchild may hold the pipe for much longer than the child lives.
        # spec: basic/transports/stdio/stderr-handling, basic/transports/stdio/stderr-not-error
        """
        try:
            self._forward_lines()
        finally:
            self._stop_listening()

    def _stop_listening(self) -> None:
        """Close stderr: for the thread that reads it, at its end."""
        if self.process.stderr is not None:
            self.process.stderr.close()
        self._wakes.leave("listen")

    def _forward_lines(self) -> None:
        """Read stderr by lines. After `close` a few reads more, for what is in the pipe already."""
        poll = poll_for(self._stderr, select.POLLIN)
        poll.register(self._wakes.woken, select.POLLIN)
        held, reads_left = b"", 16
        while reads_left:
            events = [descriptor for descriptor, _ in poll.poll()]
            reads_left -= self._wakes.woken in events
            if self._stderr not in events:
                break
            data = os.read(self._stderr, 32768)
            if not data:
                break
            *lines, held = (held + data).split(b"\n")
            if len(held) >= 32768:
                lines, held = [*lines, held], b""
            for line in lines:
                self._on_stderr_line(line)
        if held:
            self._on_stderr_line(held)

    def _on_stderr_line(self, line: bytes) -> None:
        """Give a line to `on_stderr`, or print it; the last ones are stored for `exit_reason`."""
        text = line.decode("utf-8", "replace")
        self._said.add(self._said.stderr, line)
        process = forks.count
        try:
            if self._on_stderr is not None:
                self._on_stderr(text)
            elif sys.stderr is not None:
                print(text, file=sys.stderr, flush=True)
        except BaseException as problem:  # keep reading: a child whose stderr is full stands still
            if forks.count != process:
                forks.end_child(problem)
            _log.exception("on_stderr failed")
        if forks.count != process:
            forks.end_child()

    def exit_reason(self) -> str:
        """Why the output ended: the exit code, the last lines of stderr, and stray lines of stdout."""
        import subprocess

        try:
            code = self.process.wait(EXIT_REASON_SECONDS)
        except subprocess.TimeoutExpired:
            # spec: basic/transports/stdio/server-closes-stdout
            return self._shown("closed its output")
        self._stderr_thread.join(EXIT_REASON_SECONDS)
        return self._shown(f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}")

    def silence(self) -> str:
        """What is known of a child that does not answer."""
        return self._shown("is running")

    def _shown(self, what: str) -> str:
        """An error text: the whole command, what happened to it, and what it wrote last."""
        return f"the server {_label(self.command, MAX_COMMAND_CHARACTERS)} {what}{self._said}"

    @property
    def crashed(self) -> bool:
        """Whether it has ended with an error or by a signal."""
        return self.process.poll() not in (None, 0)

    def close(self) -> None:
        """End the child, as gently as it allows. Leaves no process behind.

        Signals go to all of its session. Any thread, any number of times: each step may be repeated, so that
        a call after one that Ctrl-C interrupted does the rest.
        # spec: basic/transports/stdio/shutdown-close-stdin, basic/transports/stdio/shutdown-wait-exit
        # spec: basic/transports/stdio/shutdown-force, basic/lifecycle/handle-shutdown-timeout
        # spec: basic/lifecycle/shutdown-sigterm, basic/lifecycle/shutdown-sigkill
        """
        with self._closing:
            # Step 1: give up a write that waits for the child, and close its stdin.
            self.write.close(STALL_SECONDS)
            if self.process.stdin is not None:
                self.process.stdin.close()
            # Step 2: wait for it to exit.
            if not self._exits_in_time():
                # Step 3: SIGTERM, and wait again.
                self._signal(signal.SIGTERM)
                if not self._exits_in_time():
                    # Step 4: SIGKILL.
                    self._signal(signal.SIGKILL)
                    self.process.wait()
            # Step 5: wake the threads that read, and wait for the last lines of stderr.
            self._wakes.wake("close")
        if self._stderr_thread is not threading.current_thread() and self._stderr_thread.ident is not None:
            self._stderr_thread.join(LAST_WORDS_SECONDS)

    def _signal(self, number: int) -> None:
        """Send a signal to the child and all that it started: it may be a wrapper, such as sh or npx."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _exits_in_time(self) -> bool:
        """Whether the child exits within `grace` seconds."""
        import subprocess

        try:
            self.process.wait(self.grace)
        except subprocess.TimeoutExpired:
            return False
        return True

    def release(self) -> None:
        """Close what reading needs: for the thread that reads stdout, at its end, or instead of it."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        descriptor, self._exit = self._exit, -1
        if descriptor >= 0:
            os.close(descriptor)
        self._wakes.leave("read")

    def forked(self) -> None:
        """Forget the server in a forked child: only the parent may end it and wait for it."""
        self._closing = threading.RLock()
        if self.process.returncode is None:
            self.process.returncode = 0
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self._wakes.forked()
        self.release()


class LastWords:
    """The last lines that a child wrote that were not messages, for the error about its end."""

    def __init__(self) -> None:
        self.stderr: deque[str] = deque(maxlen=20)
        self.stdout: deque[str] = deque(maxlen=5)

    def add(self, to: deque[str], line: bytes) -> None:
        """A line was written."""
        to.append(one_line(line.decode("utf-8", "replace")[:500]))

    def __str__(self) -> str:
        said = ""
        if self.stderr:
            said += "\n  ".join(["; it said last:", *self.stderr])
        if self.stdout:
            said += "\n  ".join(["; it wrote to stdout, which is for messages alone:", *self.stdout])
        return said


class _Wakes:
    """A pipe that wakes the threads of a Child. Its last user closes it."""

    def __init__(self, *users: str) -> None:
        self.woken, self._wake = os.pipe()
        self._lock = threading.Lock()
        self._users = set(users)  # guarded by _lock

    def wake(self, user: str) -> None:
        """Wake all threads that poll `woken`, for good, and leave."""
        self._leave(user, wakes=True)

    def leave(self, user: str) -> None:
        """End the use of the pipe by this user."""
        self._leave(user, wakes=False)

    def _leave(self, user: str, *, wakes: bool) -> None:
        """Remove a user, which may wake the others; the last one closes the pipe."""
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
        """In a forked child: close the pipe, and wake no thread, since those are the parent's."""
        self._lock = threading.Lock()
        for user in list(self._users):
            self.leave(user)
