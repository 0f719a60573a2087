"""`close()` beside everything else: a restart, a slow callback, Ctrl-C, another `close()`.

Each descriptor has one owner. What is closed twice, or read after it was closed, is somebody else's by then:
so these tests look at descriptors that others open meanwhile, at what is open afterwards, and at processes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from choices import for_connect
from http_peers import endpoint, serving
from peers import ENV, LEGACY, MODERN, PATIENCE, Notes, eventually, nothing_left, raw_server

from mcp_ref import ClientOptions, Context, McpError, Server, connect
from mcp_ref.api import pipe_transport as line
from mcp_ref.basic.transports.stdio import client as stdio_client

OLD = LEGACY[-1]
ERAS = pytest.mark.parametrize("revision", [OLD, MODERN])

MORTAL = """
note({"pid": os.getpid()})
open_modern()
while True:
    message = receive()
    if message["method"] == "tools/call":
        os._exit(3)
    answer(message, discovered() if message["method"] == "server/discover" else {"tools": []})
"""
"""A server that crashes when a tool is called."""


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    before = descriptors()
    with nothing_left():
        yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before


def descriptors() -> set[str]:
    """What is open in this process, and what each is, without what looks."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(f"{each.name} {each.readlink()}")
    return {each for each in found if "/proc/" not in each}


@contextlib.contextmanager
def bystander() -> Iterator[None]:
    """Somebody who opens and closes pipes all the time, and finds nothing of it touched."""
    problems: list[str] = []
    over = threading.Event()

    def run() -> None:
        try:
            while not over.is_set():
                ends = [os.pipe() for _ in range(5)]
                for _, write in ends:
                    os.write(write, b"mine")
                over.wait(0.0005)
                for read, write in ends:
                    if os.read(read, 100) != b"mine":
                        problems.append("it was read, or written to")
                    os.close(read)
                    os.close(write)
        except OSError as problem:
            problems.append(f"it was closed: {problem}")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert problems == []


def is_gone(pid: int) -> bool:
    """Whether a child has ended, and was waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# ------------------------------------------------------------------------- beside a restart


class Gate:
    """A function that stops on its way: `reached` when it is there, and on with `go`."""

    def __init__(self, function: Callable[..., Any], *, after: bool) -> None:
        self._function, self._after = function, after
        self.reached, self.go = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        found = self._function(*arguments) if self._after else None
        self.reached.set()
        assert self.go.wait(PATIENCE)
        return found if self._after else self._function(*arguments)


@pytest.mark.parametrize("released", ["while it closes", "after it was closed"])
@pytest.mark.parametrize(
    ("name", "after"), [("_dial", False), ("_dial", True), ("open", False), ("_hang_up", True)]
)
def test_close_beside_a_restart_leaves_nothing_and_touches_nothing_else(
    monkeypatch: pytest.MonkeyPatch, name: str, after: bool, released: str
) -> None:
    """Wherever the restart is: before the new process, with it, while they agree."""
    monkeypatch.setattr(line, "STARTING", PATIENCE if released == "while it closes" else 0.05)
    notes = Notes()
    for _ in range(5):
        with (
            bystander(),
            connect(raw_server(MORTAL), revision=MODERN, options=ClientOptions(on_stderr=notes)) as client,
        ):
            with pytest.raises(McpError):
                client.call_tool("any")
            opened: Any = client.asker.line
            gate = Gate(getattr(opened, name), after=after)
            monkeypatch.setattr(opened, name, gate)

            def ask(client: Any = client) -> None:
                with pytest.raises(McpError):
                    client.list_tools()

            asking = threading.Thread(target=ask)
            asking.start()
            assert gate.reached.wait(PATIENCE)
            monkeypatch.undo()
            monkeypatch.setattr(line, "STARTING", PATIENCE if released == "while it closes" else 0.05)
            closing = threading.Thread(target=client.close)
            closing.start()
            if released == "after it was closed":
                closing.join(PATIENCE)
                assert not closing.is_alive()
            else:
                assert eventually(lambda line=opened: line._closed)
            gate.go.set()
            for thread in (asking, closing):
                thread.join(PATIENCE)
                assert not thread.is_alive()
    pids = [note["pid"] for note in notes.all if isinstance(note, dict) and "pid" in note]
    assert eventually(lambda: all(map(is_gone, pids)))


def test_close_at_any_moment_of_a_restart() -> None:
    """The same without gates: many rounds, and whatever comes first."""
    notes = Notes()
    for number in range(40):
        with bystander():
            client = connect(raw_server(MORTAL), revision=MODERN, options=ClientOptions(on_stderr=notes))
            with pytest.raises(McpError):
                client.call_tool("any")
            begun = threading.Event()

            def ask(client: Any = client, begun: threading.Event = begun) -> None:
                begun.set()
                with contextlib.suppress(McpError):
                    client.list_tools()

            asking = [threading.Thread(target=ask) for _ in range(3)]
            for thread in asking:
                thread.start()
            assert begun.wait(PATIENCE)
            threading.Event().wait(number * 0.001)  # another moment in each round
            client.close()
            for thread in asking:
                thread.join(PATIENCE)
                assert not thread.is_alive()
            with pytest.raises(McpError):
                client.list_tools()
    pids = [note["pid"] for note in notes.all if isinstance(note, dict) and "pid" in note]
    assert len(pids) >= 40
    assert eventually(lambda: all(map(is_gone, pids)))


@ERAS
def test_many_threads_close_at_once(revision: str) -> None:
    with bystander():
        for _ in range(5):
            script = f"open_any({revision!r})\ngo_on()"
            client = connect(raw_server(script), revision=revision, options=ClientOptions(grace=PATIENCE))
            process = client.asker.line.link.process
            closing = [threading.Thread(target=client.close) for _ in range(5)]
            for thread in closing:
                thread.start()
            for thread in closing:
                thread.join(PATIENCE)
                assert not thread.is_alive()
            assert process.poll() == 0


# ------------------------------------------------------------------------- beside a callback


@pytest.mark.parametrize("count", [1, 8])
def test_a_slow_on_stderr_reads_nothing_but_its_own_stderr(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """When it comes back, long after `close`, the numbers of our descriptors are those of others."""
    monkeypatch.setattr(stdio_client, "LAST_WORDS_SECONDS", 0.05)
    inside, go = threading.Semaphore(0), threading.Event()

    def slow(text: str) -> None:
        inside.release()
        go.wait(PATIENCE * 3)

    script = "open_modern()\nos.write(2, b'something\\n')\ngo_on()"
    clients = [connect(raw_server(script), options=ClientOptions(on_stderr=slow)) for _ in range(count)]
    listeners = [thread for thread in threading.enumerate() if thread.name == "mcp_ref stderr"]
    assert len(listeners) == count
    assert all(inside.acquire(timeout=PATIENCE) for _ in clients)
    closing = [threading.Thread(target=client.close) for client in clients]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    theirs = [os.pipe() for _ in range(20 * count)]
    try:
        for _, write in theirs:
            os.write(write, b"theirs")
        go.set()
        for listener in listeners:
            listener.join(PATIENCE)
            assert not listener.is_alive()
        for read, _ in theirs:
            os.set_blocking(read, False)
            assert os.read(read, 100) == b"theirs"
    finally:
        for ends in theirs:
            for end in ends:
                os.close(end)


@ERAS
def test_on_stderr_may_close_the_client(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    clients: list[Any] = []
    done = threading.Event()
    there = threading.Event()

    def closes(text: str) -> None:
        assert there.wait(PATIENCE)
        clients[0].close()
        done.set()

    script = f"open_any({revision!r})\nos.write(2, b'something\\n')\ngo_on()"
    options = ClientOptions(on_stderr=closes, grace=PATIENCE)
    client = connect(raw_server(script), revision=revision, options=options)
    process = client.asker.line.link.process
    clients.append(client)
    there.set()
    assert done.wait(PATIENCE)
    assert process.poll() == 0
    assert "failed" not in caplog.text
    client.close()


def talkative() -> Server:
    server = Server("tests")

    @server.tool
    def says(ctx: Context) -> str:
        ctx.log("error", "something")
        ctx.progress(1)
        return "said"

    return server


@ERAS
@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("which", ["on_log", "on_progress", "done"])
def test_a_callback_may_close_the_client(revision: str, over_http: bool, which: str) -> None:
    closed = threading.Event()
    clients: list[Any] = []

    def closes(*what: object) -> None:
        clients[0].close()
        closed.set()

    with contextlib.ExitStack() as stack:
        server: Any = talkative()
        if over_http:
            server = f"http://127.0.0.1:{stack.enter_context(endpoint(server)).port}/mcp"
        options: Any = {"on_log": closes} if which == "on_log" else {}
        client = stack.enter_context(
            connect(server, **for_connect(revision=revision, timeout=PATIENCE, **options))
        )
        clients.append(client)
        with contextlib.suppress(McpError):
            if which == "done":
                future = client.submit("tools/call", {"name": "says"})
                future.add_done_callback(closes)
                future.result(PATIENCE)
            else:
                client.call_tool("says", on_progress=closes if which == "on_progress" else None)
        assert closed.wait(PATIENCE)
        with pytest.raises(McpError, match="closed"):
            client.list_tools()


# ------------------------------------------------------------------------- Ctrl-C


class Interrupted:
    """The first call of a function is interrupted, before it has done anything or when it has done all."""

    def __init__(self, function: Callable[..., Any], *, after: bool) -> None:
        self._function, self._after, self.count = function, after, 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return self._function(*arguments, **options)
        self.count += 1
        if self.count == 1 and not self._after:
            raise KeyboardInterrupt
        try:
            return self._function(*arguments, **options)
        finally:
            if self.count == 1:
                raise KeyboardInterrupt


STEPS: dict[str, Callable[[Any], tuple[Any, str]]] = {
    "callbacks": lambda client: (client.asker.answering.callbacks, "close"),
    "line": lambda client: (client.asker.line, "close"),
    "hang up": lambda client: (client.asker.line, "_hang_up"),
    "write": lambda client: (client.asker.line.link.write, "close"),
    "stdin": lambda client: (client.asker.line.link.process.stdin, "close"),
    "wait": lambda client: (client.asker.line.link.process, "wait"),
    "signal": lambda client: (client.asker.line.link, "_signal"),
    "wake": lambda client: (client.asker.line.link._wakes, "wake"),
    "connection": lambda client: (client.asker.connection, "end"),
    "reader": lambda client: (client.asker.line._reader, "join"),
    "listener": lambda client: (client.asker.line.link._stderr_thread, "join"),
    "events": lambda client: (client.asker.events, "close"),
}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_after_ctrl_c_in_close_another_close_does_the_rest(
    monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    """Wherever it comes. The server is one that has to be told three times."""
    script = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open_modern()
    while True: time.sleep(60)
    """
    with bystander():
        client = connect(raw_server(script), revision=MODERN, options=ClientOptions(grace=0.1))
        process = client.asker.line.link.process
        owner, name = STEPS[step](client)
        if step == "stdin":  # a file of the standard library's takes no other methods
            monkeypatch.setattr(client.asker.line.link.process, "stdin", Stdin(owner, after=after))
        else:
            monkeypatch.setattr(owner, name, Interrupted(getattr(owner, name), after=after))
        with pytest.raises(KeyboardInterrupt):
            client.close()
        client.close()
        assert process.poll() == -9
        with pytest.raises(McpError, match="closed"):
            client.list_tools()


class Stdin:
    """A pipe whose first `close` is interrupted."""

    def __init__(self, real: Any, *, after: bool) -> None:
        self._real = real
        self.close = Interrupted(real.close, after=after)

    @property
    def closed(self) -> bool:
        return bool(self._real.closed)


def test_a_real_ctrl_c_in_close() -> None:
    """A server that does not end; the person does not want to wait for it, and then does."""
    script = "open_modern()\nwhile os.read(0, 100): pass\nnote('end of input')\ntime.sleep(60)"
    notes = Notes()
    client = connect(
        raw_server(script), revision=MODERN, options=ClientOptions(on_stderr=notes, grace=PATIENCE * 2)
    )
    process = client.asker.line.link.process

    def interrupt() -> None:
        notes.until(lambda note: note == "end of input")
        os.kill(os.getpid(), signal.SIGINT)

    person = threading.Thread(target=interrupt)
    person.start()
    with pytest.raises(KeyboardInterrupt):
        client.close()
    person.join(PATIENCE)
    assert process.poll() is None
    client.asker.line.link.grace = 2.0  # each time: it needs a moment to die of SIGTERM
    client.close()
    assert process.poll() == -signal.SIGTERM


HTTP_STEPS: dict[str, Callable[[Any], tuple[Any, str]]] = {
    "line": lambda client: (client.asker.line, "close"),
    "connection": lambda client: (client.asker.line._http, "end"),
    "exchanges": lambda client: (client.asker.line._exchanges, "stop"),
    "background": lambda client: (client.asker.line._sender.background, "stop"),
    "workers": lambda client: (client.asker.line._http.responder.workers, "close"),
    "askers": lambda client: (client.asker.line._sender._askers, "close"),
    "goodbye": lambda client: (client.asker.line._sender.session, "say_goodbye"),
    "delete": lambda client: (client.asker.line._exchanges, "new"),
    "settings": lambda client: (client.asker.line._exchanges.settings, "close"),
    "events": lambda client: (client.asker.events, "close"),
}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", HTTP_STEPS)
def test_after_ctrl_c_in_close_another_close_ends_the_session(
    monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    with endpoint(talkative()) as at:
        client = connect(f"http://127.0.0.1:{at.port}/mcp", revision=OLD)
        assert client.call_tool("says").text == "said"
        assert len(at.app.sessions) == 1
        owner, name = HTTP_STEPS[step](client)
        monkeypatch.setattr(owner, name, Interrupted(getattr(owner, name), after=after))
        with pytest.raises(KeyboardInterrupt):
            client.close()
        client.close()
        assert eventually(lambda: len(at.app.sessions) == 0)
        with pytest.raises(McpError, match="closed"):
            client.list_tools()


def test_ctrl_c_in_connect_leaves_nothing() -> None:
    """A server that says nothing: neither it nor a thread stays behind."""
    notes = Notes()

    def interrupt() -> None:
        notes.message("server/discover")
        os.kill(os.getpid(), signal.SIGINT)

    person = threading.Thread(target=interrupt)
    person.start()
    with pytest.raises(KeyboardInterrupt):
        connect(
            raw_server("note({'pid': os.getpid()})\nwhile True: receive()"),
            options=ClientOptions(on_stderr=notes),
        )
    person.join(PATIENCE)
    assert all(is_gone(note["pid"]) for note in notes.all if "pid" in note)


def test_ctrl_c_in_connect_over_http_leaves_nothing() -> None:
    asked = threading.Event()

    def silent(environ: Any, start_response: Any) -> Any:
        asked.set()
        over.wait(PATIENCE)
        start_response("503 Service Unavailable", [])
        return [b""]

    over = threading.Event()
    with serving(silent) as server:

        def interrupt() -> None:
            asked.wait(PATIENCE)
            os.kill(os.getpid(), signal.SIGINT)

        person = threading.Thread(target=interrupt)
        person.start()
        with pytest.raises(KeyboardInterrupt):
            connect(f"http://127.0.0.1:{server.port}/mcp")
        person.join(PATIENCE)
        over.set()


# ------------------------------------------------------------------------- no close at all


@contextlib.contextmanager
def warned(*messages: str) -> Iterator[None]:
    """The block drops a client, and these warnings begin so."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
        # A thread of the client that is just ending may be the last that has it.
        assert eventually(lambda: gc.collect() >= 0 and len(told) >= len(messages))
    found = [str(each.message) for each in told if each.category is ResourceWarning]
    assert len(found) == len(messages), found
    for said, message in zip(found, messages, strict=True):
        assert said.startswith(message)


def part_of_a_cycle(command: Any, revision: str) -> Any:
    """A client with a callback that has it; its process."""
    clients: list[Any] = []
    clients.append(connect(command, revision=revision, on_log=lambda *what: clients))
    clients[0].list_tools()
    return clients[0].asker.line.link.process


@ERAS
def test_a_client_that_is_dropped_warns_and_ends_its_server(revision: str) -> None:
    """Also one that is part of a cycle, by a callback that uses it."""
    command = raw_server(f"open_any({revision!r})\ngo_on({{'tools': [], 'resultType': 'complete'}})")
    with warned(f"unclosed client of {sys.executable} -S -E -c "):
        process = part_of_a_cycle(command, revision)
    assert eventually(lambda: process.poll() is not None)


@ERAS
def test_a_client_of_this_process_that_is_dropped_warns_and_leaves_nothing(revision: str) -> None:
    with warned("unclosed client of a server of this process"):
        assert connect(talkative(), revision=revision).call_tool("says").text == "said"


@ERAS
def test_a_client_of_a_url_that_is_dropped_warns_and_ends_its_session(revision: str) -> None:
    """What may be secret in the URL is not told."""
    with endpoint(talkative()) as at:
        url = f"http://127.0.0.1:{at.port}/mcp"
        with warned(f"unclosed client of {url}"):
            assert connect(f"{url}?key=secret", revision=revision).call_tool("says").text == "said"
        assert eventually(lambda: len(at.app.sessions) == 0)


@ERAS
def test_a_client_that_was_closed_warns_of_nothing(revision: str) -> None:
    with warned():
        with connect(talkative(), revision=revision) as client:
            client.list_tools()
        del client


@ERAS
def test_a_request_that_is_under_way_keeps_its_client(revision: str) -> None:
    """One that waits for a future needs no more than the future."""
    go = threading.Event()
    server = Server("tests")
    server.add_tool(lambda: go.wait(PATIENCE), name="waits")
    with warned("unclosed client of"):
        future = connect(server, revision=revision).submit("tools/call", {"name": "waits"})
        gc.collect()
        go.set()
        assert future.result(PATIENCE).text == "true"
        del future
        assert eventually(lambda: gc.collect() >= 0 and not threads("mcp_ref reader"))


def threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_a_program_that_ends_without_close_leaves_no_server() -> None:
    """Not even one that does not care for the end of its input."""
    script = """
    import sys
    from peers import raw_server
    from mcp_ref import ClientOptions, connect
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open_modern(); time.sleep(60)"
    client = connect(raw_server(deaf), options=ClientOptions(grace=0.1))
    print(client.asker.line.link.process.pid, flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([ENV["PYTHONPATH"], str(Path(__file__).parent)])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "ResourceWarning: unclosed client of" in done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
