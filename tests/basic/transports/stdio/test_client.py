"""basic/transports/stdio/client: a server as a child process; how it starts, and how it ends."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    Json,
    Notes,
    eventually,
    nothing_left,
    one_sentence,
    python,
    raw_server,
    recorded,
    source,
    tap,
)

from mcp_ref import ClientOptions, ConnectionClosed, connect
from mcp_ref.basic.transports.stdio import client as stdio
from mcp_ref.runtime.errors import LocalError, McpError


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.mark.spec("basic/transports/stdio/client-launches-server", "basic/transports/index/support-stdio")
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_server_is_a_child_without_a_shell(revision: str, tmp_path: Path) -> None:
    """Its arguments are what they are; it is there while the client is open, and gone afterwards."""
    words = ["; touch x", "$HOME", "a b", "*", "`id`", "ü", ""]
    body = """
    import os, sys
    @server.tool
    def self() -> list[str]:
        return [str(os.getpid()), str(os.getppid()), os.getcwd(), *sys.argv[1:]]
    """
    with connect(
        [*python(source(body)), *words], revision=revision, options=ClientOptions(env=ENV, cwd=tmp_path)
    ) as client:
        found = json.loads(client.call_tool("self").text) if revision < "2025-06-18" else None
        structured = client.call_tool("self").structured
        pid, parent, cwd, *arguments = found or structured["result"]
        assert int(parent) == os.getpid()
        assert Path(cwd) == tmp_path.resolve()
        assert arguments == words
        os.kill(int(pid), 0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    with pytest.raises(ChildProcessError):
        os.waitpid(int(pid), os.WNOHANG)


@pytest.mark.spec("basic/transports/stdio/stdin-only-mcp", "basic/transports/stdio/stdout-only-mcp")
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_line_either_way_is_a_message(revision: str, tmp_path: Path) -> None:
    """From connect to close."""
    wire = tmp_path / "wire"
    body = """
    @server.tool
    def work(ctx: Context) -> str:
        print("noise")
        ctx.progress(1)
        return "two\\nlines \\u2028 more"
    """
    with connect(
        tap(python(source(body)), wire), revision=revision, options=ClientOptions(env=ENV)
    ) as client:
        client.list_tools()
        client.call_tool("work", on_progress=lambda *report: None)
        client.submit("tools/call", {"name": "work", "arguments": {}}).cancel()
    sent, received = recorded(wire)
    for message in sent + received:
        assert message["jsonrpc"] == "2.0"
        assert ("method" in message) + ("result" in message) + ("error" in message) == 1


def test_the_environment_is_safe_and_can_be_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret of ours reaches a server; nor does a value that a shell would run."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("TERM", "() { :; }; echo hacked")
    monkeypatch.setenv("LANG", "C.UTF-8")
    notes = Notes()
    with connect(
        raw_server("note(dict(os.environ))\nopen_modern()\ngo_on()"),
        options=ClientOptions(on_stderr=notes, env={"OWN": "é"}),
    ):
        seen = notes.until(lambda note: "PATH" in note)
    assert seen["OWN"] == "é"
    assert seen["PATH"] == os.environ["PATH"]
    assert seen["LANG"] == "C.UTF-8"
    assert set(seen) - {"LC_CTYPE"} <= {*stdio.INHERITED_VARIABLES, "OWN"}
    assert "TERM" not in seen
    assert stdio.safe_environment({"TERM": "dumb"})["TERM"] == "dumb"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/no/such/program"], "/no/such/program"),
        (["no-such-program-anywhere"], "no-such-program-anywhere"),
        (["/"], "cannot start"),
        (["a\0b"], "cannot start"),
    ],
)
def test_what_cannot_be_started_is_named(command: list[str], words: str) -> None:
    with pytest.raises(LocalError, match=words):
        connect(command)


def test_a_server_that_is_none_is_named_with_its_end() -> None:
    with pytest.raises(ConnectionClosed, match="exited with code 0"):
        connect(["true"])
    with pytest.raises(ConnectionClosed, match="exited with code 1"):
        connect(["false"], revision="2025-11-25")


@pytest.mark.spec(
    "basic/transports/stdio/shutdown-close-stdin",
    "basic/transports/stdio/shutdown-wait-exit",
    "basic/transports/stdio/shutdown-force",
    "basic/lifecycle/shutdown-sigterm",
    "basic/lifecycle/shutdown-sigkill",
    "basic/lifecycle/handle-shutdown-timeout",
)
@pytest.mark.parametrize(
    ("stays", "ended"),
    [
        ("sys.exit(7)", 7),
        ("time.sleep(60)", -signal.SIGTERM),
        (
            "signal.signal(signal.SIGTERM, lambda *a: note('no')); note('deaf')\nwhile True: time.sleep(60)",
            -9,
        ),
    ],
)
def test_close_is_as_gentle_as_it_can_be(stays: str, ended: int) -> None:
    """End of input, then SIGTERM, then SIGKILL; and no zombie."""
    script = (
        "import signal\nopen_modern()\nnote('open')\nwhile os.read(0, 100): pass\nnote('end of input')\n"
        + stays
    )
    notes = Notes()
    grace = PATIENCE if ended == 7 else 0.3
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes, grace=grace)) as client:
        notes.until(lambda note: note == "open")
        link = client.asker.line.link
        process, really = link.process, link._signal

        def signal_once_the_last_step_is_over(number: int) -> None:
            step = "no" if number == signal.SIGKILL else "deaf" if ended == -9 else "end of input"
            notes.until(lambda note: note == step)
            if number == signal.SIGTERM == -ended:
                link.grace = PATIENCE  # this signal ends it, however late
            really(number)

        link._signal = signal_once_the_last_step_is_over
        started = time.monotonic()
    assert time.monotonic() - started < PATIENCE
    assert process.poll() == ended
    with pytest.raises(ChildProcessError):
        os.waitpid(process.pid, 0)
    assert "end of input" in notes.all
    assert ("no" in notes.all) == (ended == -9)
    client.close()  # again is nothing


def test_close_waits_for_a_server_that_takes_a_while() -> None:
    script = "open_modern()\nwhile os.read(0, 100): pass\ntime.sleep(0.5)\nnote('finished')"
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes, grace=PATIENCE)) as client:
        process = client.asker.line.link.process
    assert process.poll() == 0
    assert "finished" in notes.all


GRANDCHILD = """
import subprocess
holder = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(30)"], {options})
note({{"holder": holder.pid}})
open_modern()
"""


def test_a_grandchild_that_holds_the_pipes_holds_up_neither_close_nor_the_news_of_a_death() -> None:
    """Our server is dead; that somebody else has its stdout open means nothing."""
    script = GRANDCHILD.format(options="stdin=subprocess.DEVNULL") + "receive('vendor/x')\nos._exit(5)"
    notes = Notes()
    with connect(raw_server(script), timeout=60, options=ClientOptions(on_stderr=notes)) as client:
        holder = notes.until(lambda note: "holder" in note)["holder"]
        started = time.monotonic()
        try:
            with pytest.raises(ConnectionClosed, match="exited with code 5"):
                client.request("vendor/x")
            client.close()
            assert time.monotonic() - started < PATIENCE
            assert "mcp_ref stderr" not in {thread.name for thread in threading.enumerate()}
        finally:
            os.kill(holder, signal.SIGKILL)


def test_what_a_killed_server_started_is_killed_with_it() -> None:
    """SIGKILL goes to all of its session."""
    script = GRANDCHILD.format(options="stdin=subprocess.DEVNULL") + (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
    )
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes, grace=0.1)):
        holder = notes.until(lambda note: "holder" in note)["holder"]

    def is_gone() -> bool:
        try:
            return "Z" in Path(f"/proc/{holder}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True

    assert eventually(is_gone)


@pytest.mark.spec("basic/transports/stdio/server-closes-stdout")
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("sys.exit(3)", "exited with code 3"),
        ("os.kill(os.getpid(), 9)", "ended by signal 9"),
    ],
)
def test_a_dying_server_fails_every_waiting_call_at_once(revision: str, end: str, words: str) -> None:
    """Of all threads, with its exit code and the last it said."""
    script = f"""
    open_any({revision!r})
    for _ in range(8):
        receive("vendor/x")
    for n in range(50):
        note(f"line {{n}}")
    note("out of memory")
    {end}
    """
    with connect(
        raw_server(script), revision=revision, timeout=60, options=ClientOptions(on_stderr=Notes())
    ) as client:
        problems: list[Exception] = []

        def ask() -> None:
            try:
                client.request("vendor/x")
            except ConnectionClosed as problem:
                problems.append(problem)

        started = time.monotonic()
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        calls = [client.submit("vendor/x") for _ in range(2)]
        for thread in threads:
            thread.join(PATIENCE)
        problems += [call.exception(PATIENCE) for call in calls]  # type: ignore[misc]
        assert time.monotonic() - started < PATIENCE
        assert len(problems) == 8
        for problem in problems:
            assert words in str(problem)
            assert "out of memory" in str(problem)
            assert "line 49" in str(problem)
            assert '"line 1"' not in str(problem)  # the last lines only


@pytest.mark.spec("basic/transports/stdio/server-closes-stdout")
def test_a_server_that_closes_its_output_but_lives_is_the_end_as_well() -> None:
    script = "open_modern()\nreceive('vendor/x')\nos.close(1)\nreceive()"
    with (
        connect(raw_server(script), timeout=60, options=ClientOptions(on_stderr=Notes())) as client,
        pytest.raises(ConnectionClosed, match="closed its output"),
    ):
        client.request("vendor/x")


HALF_WAY = """
open_any({revision!r})
receive("vendor/beside")
note("read")
os.read(0, 1000)
time.sleep(0.5)  # by then another thread writes what is left
{end}
"""
"""A server that reads no more than the beginning of a large message."""


def half_way(revision: str, end: str) -> list[McpError]:
    """What is said to a call beside the large one, to that itself and to one that comes later."""
    notes = Notes()
    command = raw_server(HALF_WAY.format(revision=revision, end=end))
    with connect(
        command, revision=revision, timeout=60, options=ClientOptions(on_stderr=notes, grace=0.1)
    ) as client:
        problems: list[McpError] = []

        def fails(method: str, params: Any = None) -> None:
            with pytest.raises(ConnectionClosed) as caught:
                client.request(method, params)
            problems.append(caught.value)

        started = time.monotonic()
        beside = client.submit("vendor/beside")
        notes.until(lambda note: note == "read")
        fails("vendor/large", {"a": "x" * (4 << 20)})
        problems.append(beside.exception(PATIENCE))  # type: ignore[arg-type]
        fails("vendor/later")
        assert time.monotonic() - started < PATIENCE
    return problems


@pytest.mark.parametrize("revision", [LEGACY[3], MODERN])
def test_a_server_that_closes_its_input_but_lives_fails_what_waits_with_that(revision: str) -> None:
    """No more can be written to it, nor the rest of what was begun: no answer comes to that."""
    problems = half_way(revision, "os.close(0)\ntime.sleep(60)")
    assert [type(problem) for problem in problems] == [ConnectionClosed] * 3
    for problem in problems:
        assert re.fullmatch(r"the server \S+ -S -E -c .* closed its input", one_sentence(str(problem)))


def test_a_server_that_dies_within_a_large_message_fails_what_waits_with_its_exit_code() -> None:
    """In the legacy era: a modern one is started again by the next call."""
    for problem in half_way(LEGACY[3], "sys.exit(3)"):
        assert "exited with code 3" in str(problem)


@pytest.mark.spec("basic/transports/stdio/stderr-handling", "basic/transports/stdio/stderr-not-error")
def test_stderr_goes_to_ours_or_to_the_callback(capfd: pytest.CaptureFixture[str]) -> None:
    """And means nothing: a server that logs there is well."""
    body = """
    import sys
    print("ready to serve", file=sys.stderr)
    @server.tool
    def say(words: str) -> str:
        print(words, file=sys.stderr, flush=True)
        return "said"
    """
    with connect(python(source(body)), options=ClientOptions(env=ENV)) as client:
        assert client.call_tool("say", {"words": "für Menschen"}).text == "said"
    assert "ready to serve\nfür Menschen\n" in capfd.readouterr().err
    heard: list[str] = []
    with connect(python(source(body)), options=ClientOptions(env=ENV, on_stderr=heard.append)) as client:
        client.call_tool("say", {"words": "für Menschen"})
        assert eventually(lambda: heard == ["ready to serve", "für Menschen"])
    assert capfd.readouterr().err == ""


def test_what_stderr_carries_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Bytes of no encoding, a megabyte without a newline, a callback that fails."""
    script = """
    os.write(2, bytes([0xff, 0xfe, 10]))
    for _ in range(16):
        os.write(2, b"x" * 65536)
    os.write(2, bytes([10]))
    open_modern()
    go_on()
    """
    heard: list[str] = []

    def fail(line: str) -> None:
        heard.append(line)
        if "\ufffd" in line:
            raise ValueError("cannot read that")

    with connect(raw_server(script), options=ClientOptions(on_stderr=fail)) as client:
        client.ping()
    assert "on_stderr failed" in caplog.text
    assert sum(line.count("x") for line in heard) >= 1 << 20
    assert max(map(len, heard)) <= 65536


def test_a_child_without_pidfds_is_watched_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none, its end is looked for once a second."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    script = GRANDCHILD.format(options="stdin=subprocess.DEVNULL") + "receive('vendor/x')\nos._exit(5)"
    notes = Notes()
    with connect(raw_server(script), timeout=60, options=ClientOptions(on_stderr=notes)) as client:
        holder = notes.until(lambda note: "holder" in note)["holder"]
        try:
            with pytest.raises(ConnectionClosed, match="exited with code 5"):
                client.request("vendor/x")
        finally:
            os.kill(holder, signal.SIGKILL)


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_close_fails_what_waits_and_what_is_being_written(revision: str) -> None:
    """A server that reads nothing at all: a call of 20 MB is stuck in the pipe."""
    script = f"open_any({revision!r})\nnote('deaf')\ntime.sleep(60)"
    notes = Notes()
    client = connect(
        raw_server(script), revision=revision, timeout=60, options=ClientOptions(on_stderr=notes, grace=0.1)
    )
    notes.until(lambda note: note == "deaf")
    problems: list[BaseException] = []

    def ask(params: Json) -> None:
        try:
            client.request("vendor/x", params)
        except ConnectionClosed as problem:
            problems.append(problem)

    asking: list[Callable[[], None]] = [lambda: ask({}), lambda: ask({"much": "x" * 20_000_000})]
    threads = [threading.Thread(target=run) for run in asking]
    for thread in threads:
        thread.start()
    link = client.asker.line.link
    assert eventually(lambda: stdio.unread(link._stdin) > 60_000)
    started = time.monotonic()
    client.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(problems) == 2
    assert time.monotonic() - started < PATIENCE


def test_what_close_cuts_off_lands_in_no_other_file(tmp_path: Path) -> None:
    """Nobody closes a descriptor under a write: its number may be another file's at once."""
    script = "open_modern()\nnote('open')\ntime.sleep(60)"
    notes, failed = Notes(), []
    client = connect(raw_server(script), options=ClientOptions(on_stderr=notes, grace=0.2))
    notes.until(lambda note: note == "open")

    def say_much() -> None:
        try:
            client.call_tool("x", {"a": "SECRET" * 2_000_000})
        except ConnectionClosed as problem:
            failed.append(problem)

    caller = threading.Thread(target=say_much)
    caller.start()
    link = client.asker.line.link
    assert eventually(lambda: link.write._writing.locked())
    closer = threading.Thread(target=client.close)
    closer.start()
    files = []
    while closer.is_alive():
        files.append((tmp_path / "victim").open("ab", buffering=0))  # whatever number is free, now
        closer.join(0.01)
    caller.join(PATIENCE)
    for file in files:
        file.close()
    assert len(failed) == 1
    assert (tmp_path / "victim").read_bytes() == b""


def test_a_server_behind_a_wrapper_is_ended_as_well() -> None:
    """SIGTERM to the wrapper alone would leave the server an orphan."""
    script = "note({'pid': os.getpid()})\nopen_modern()\nwhile True: time.sleep(60)"
    command = ["sh", "-c", '"$@"; true', "wrapper", *raw_server(script)]
    notes = Notes()
    with connect(command, options=ClientOptions(on_stderr=notes, grace=0.1)):
        pid = notes.until(lambda note: "pid" in note)["pid"]
    assert eventually(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descriptors() -> set[str]:
    """Those of this process, and the one that looks."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_no_descriptor_is_left_though_a_grandchild_holds_stderr() -> None:
    script = """
    import subprocess
    holder = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(30)"],
                              start_new_session=True)
    note({"holder": holder.pid})
    open_modern()
    receive("nothing")
    """
    before = descriptors()
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)):
        holder = notes.until(lambda note: "holder" in note)["holder"]
    try:
        assert descriptors() == before
        assert "mcp_ref stderr" not in {thread.name for thread in threading.enumerate()}
    finally:
        os.kill(holder, signal.SIGKILL)


@pytest.mark.parametrize("problem", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_on_stderr_that_would_end_its_thread_does_not(problem: type[BaseException]) -> None:
    """The child must be heard on, or it stands still when its stderr is full."""
    script = """
    open_modern()
    while True:
        request = receive("vendor/x")
        for _ in range(20):
            os.write(2, b"x" * 16000 + bytes([10]))
        answer(request, {"resultType": "complete"})
    """
    heard: list[str] = []

    def fail(line: str) -> None:
        heard.append(line)
        raise problem

    with connect(raw_server(script), options=ClientOptions(on_stderr=fail)) as client:
        for _ in range(3):
            client.request("vendor/x", timeout=PATIENCE)
        assert eventually(lambda: sum(line.startswith("x") for line in heard) == 60)


def test_a_client_without_stderr_keeps_its_stdout_for_itself() -> None:
    """What the child says to people has nowhere to go then."""
    script = """
import sys
from mcp_ref import connect
with connect(sys.argv[1:]) as client:
    client.ping()
    print("mine")
"""
    command = [sys.executable, "-c", script, *raw_server("os.write(2, b'THEIRS')\nopen_modern()\ngo_on()")]
    wrapped = ["sh", "-c", 'exec "$@" 2>&-', "shell", *command]
    done = subprocess.run(wrapped, env={**os.environ, **ENV}, stdout=subprocess.PIPE, timeout=30)
    assert (done.returncode, done.stdout) == (0, b"mine\n")


@pytest.mark.parametrize("revision", [LEGACY[3], MODERN])
def test_a_time_out_holds_also_when_the_server_reads_nothing(revision: str) -> None:
    """A large message that nobody takes: the caller is told in time, and `close` is quick."""
    script = f"""
    open_any({revision!r})
    time.sleep(60)
    """
    with connect(
        raw_server(script), revision=revision, options=ClientOptions(on_stderr=Notes(), grace=0.2)
    ) as client:
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            client.request("vendor/big", {"a": "x" * (3 << 20)}, timeout=0.5)
        future = client.submit("vendor/big", {"a": "x" * (3 << 20)}, timeout=0.5)
        with pytest.raises(TimeoutError):
            client.request("vendor/more", {"a": "x" * (3 << 20)}, timeout=0.5)
        assert isinstance(future.exception(10), TimeoutError)
        assert time.monotonic() - start < PATIENCE


def test_a_child_for_which_there_is_no_thread_is_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        assert thread.name == "mcp_ref stderr"
        raise RuntimeError("can't start new thread")

    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            stdio.Child(["cat"])
    assert descriptors() == before


@pytest.mark.parametrize(
    ("number", "problem"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_while_a_child_is_started_ends_the_child(
    number: int, problem: type[BaseException], request: pytest.FixtureRequest
) -> None:
    """It is held back until all is there that must be given back. An application may exit by it."""

    class Interrupted(stdio.Child):
        def _start(self, *arguments: Any) -> None:
            signal.raise_signal(number)
            super()._start(*arguments)
            started.append(self.process)

    def stops(number: int, frame: Any) -> None:
        raise problem

    started: list[Any] = []
    request.addfinalizer(functools.partial(signal.signal, number, signal.signal(number, stops)))
    before = descriptors()
    with pytest.raises(problem):
        Interrupted(["cat"])
    assert started[0].poll() is not None
    assert eventually(lambda: descriptors() == before)


class Deaf(stdio.Child):
    """A child process as a forked one has it: without the thread that listens."""

    def _forward_stderr(self) -> None:
        pass


def test_a_server_that_the_parent_started_is_left_alone_by_a_forked_child() -> None:
    """Neither ended, nor waited for, nor at its end of input; nor are the parent's threads woken."""
    before = descriptors()
    child = Deaf(["cat"])
    child._stderr_thread.join(PATIENCE)
    into, out, woken = os.dup(child._stdin), os.dup(child._stdout), os.dup(child._wakes.woken)
    with child._wakes._lock:  # held for ever, by a thread that the forked child does not have
        child.forked()
        child.close()
        child.release()
    assert os.read(woken, 1) == b""  # closed, and nothing was written
    with pytest.raises(ConnectionClosed):
        child.write(b"the child's\n")
    os.write(into, b"the parent's\n")
    assert os.read(out, 100) == b"the parent's\n"
    for descriptor in (into, out, woken):
        os.close(descriptor)
    assert os.waitpid(child.process.pid, 0)[1] == 0  # at its end of input, as the parent would see it
    assert descriptors() == before
