"""basic/transports/stdio/server: one client, on the stdin and stdout of the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from peers import (
    ENV,
    LEGACY,
    META,
    MODERN,
    PATIENCE,
    REVISIONS,
    Json,
    Notes,
    RawClient,
    eventually,
    nothing_left,
    python,
    source,
)
from task_peers import TaskClient

from mcp_ref import ClientOptions, Context, Server, ServerOptions, connect
from mcp_ref.basic.transports.stdio import server as stdio


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.mark.spec("basic/index/process-not-conversation-bound")
def test_a_server_process_belongs_to_no_thread_and_to_no_task() -> None:
    """Threads come and go, each with a task of its own; the process stays, until the client is closed."""
    body = """
    import os
    @server.tool
    def pid() -> int:
        return os.getpid()
    """
    found: list[Any] = []
    with connect(python(source(body)), options=ClientOptions(env=ENV)) as client:
        for _ in range(3):
            thread = threading.Thread(target=lambda: found.append(client.call_tool("pid").structured))
            thread.start()
            thread.join(PATIENCE)
        found.append(client.call_tool("pid").structured)
    assert len(found) == 4
    assert found == found[:1] * 4


@pytest.mark.spec("basic/transports/stdio/server-message-kinds")
def test_a_server_writes_answers_and_what_belongs_to_a_request_or_to_a_subscription() -> None:
    """Of 2026-07-28. Everything else that happens meanwhile is told to nobody."""
    body = """
    kept = []

    @server.tool
    def work(ctx: Context) -> str:
        kept.append(ctx)
        ctx.progress(1)
        ctx.log("info", "at work")
        server.add_tool(lambda: "", name="another")     # of which one subscription is told
        server.add_prompt(lambda: "", name="question")  # and of this none
        return "done"

    @server.tool
    def say_more() -> str:
        kept[0].notify("notifications/message", {"level": "info", "data": "of what was answered"})
        return "done"
    """
    with RawClient(python(source(body)), revision=MODERN) as client:
        listening = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        said = [client.receive()]
        assert said[0]["method"] == "notifications/subscriptions/acknowledged"
        meta = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"}
        call = client.call("work", meta=meta)
        while call not in map(kind_of, said):
            said.append(client.receive())
        last = client.call("say_more")
        while not {"tools", last} <= {kind_of(message) for message in said}:
            said.append(client.receive())
        client.end_input()
        with pytest.raises(EOFError):
            while True:
                said.append(client.receive())
    kinds = [kind_of(message) for message in said]
    responses, subscription = [call, last, listening], ["acknowledged", "tools", "cancelled"]
    assert sorted(map(str, kinds)) == sorted(map(str, [*responses, *subscription, "progress", "message"]))
    assert said[kinds.index("cancelled")]["params"]["requestId"] == listening
    told = [message["params"]["_meta"] for message in said if kind_of(message) in ("acknowledged", "tools")]
    assert [meta["io.modelcontextprotocol/subscriptionId"] for meta in told] == [listening] * 2
    for of_the_call in ("progress", "message"):  # while it was in flight
        assert kinds.index(of_the_call) < kinds.index(call)


def kind_of(message: Json) -> Any:
    """The id of a response, or the last part of a notification's method; `tools` for its list's change."""
    if "method" not in message:
        return message["id"]
    assert "id" not in message
    return message["method"].removesuffix("/list_changed").rpartition("/")[2]


@contextmanager
def standard_streams(data: bytes | None) -> Iterator[tuple[int, int]]:
    """This process's stdin and stdout are pipes for a while; yields the far ends."""
    incoming, feed = os.pipe()
    result, outgoing = os.pipe()
    kept = os.dup(0), os.dup(1)
    os.dup2(incoming, 0)
    os.dup2(outgoing, 1)
    os.close(incoming)
    os.close(outgoing)
    if data is not None:
        os.write(feed, data)
        os.close(feed)
    try:
        yield feed, result
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for descriptor in (*kept, result):
            os.close(descriptor)
        if data is None:
            os.close(feed)


def lines_of(*messages: Json) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def is_waiting(pid: int) -> bool:
    """Whether the main thread of a process has done nothing for a while: it waits for input."""

    def turns() -> list[str]:
        status = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
        return [line for line in status if line.startswith(("State:\tR", "voluntary", "nonvoluntary"))]

    before = turns()
    threading.Event().wait(0.05)
    return turns() == before and len(before) == 2


def test_serve_answers_until_the_end_of_input_and_gives_the_streams_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "GRACE_SECONDS", PATIENCE)
    server = Server("tests", options=ServerOptions(max_message_bytes=1000))

    @server.tool
    def noisy() -> str:
        print("to people")
        os.write(1, b"to people as well\n")
        return "said"

    call = {"name": "noisy", "arguments": {}, "_meta": META}
    data = lines_of(
        {"id": 1, "method": "server/discover", "params": {"_meta": META}},
        {"id": 2, "method": "x" * 2000},
        {"id": 3, "method": "tools/call", "params": call},
    )
    with standard_streams(data) as (_, result):
        server.run()
        os.write(1, b"mine again\n")
        written = os.read(result, 1 << 20).splitlines()
    assert written.pop() == b"mine again"
    answers = [json.loads(line) for line in written]
    assert {answer.get("id"): "result" in answer for answer in answers} == {1: True, 2: False, 3: True}
    assert "bytes" in next(a["error"]["message"] for a in answers if "error" in a)


def test_serve_runs_on_any_thread() -> None:
    """Signals are left alone there."""
    server = Server("tests")
    handler = signal.getsignal(signal.SIGTERM)
    data = lines_of({"id": 1, "method": "server/discover", "params": {"_meta": META}})
    with standard_streams(data) as (_, result):
        thread = threading.Thread(target=server.run)
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert json.loads(os.read(result, 1 << 20))["id"] == 1
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_at_a_signal_and_leaves_its_lifespan(number: int) -> None:
    """In the main thread; the handler of before is back afterwards."""
    steps: list[str] = []

    @contextmanager
    def lifespan(server: Server) -> Iterator[None]:
        steps.append("entered")
        yield
        steps.append("left")

    handler = signal.getsignal(signal.SIGTERM)
    data = lines_of({"id": 1, "method": "server/discover", "params": {"_meta": META}})
    with standard_streams(None) as (feed, result):

        def interrupt() -> None:
            os.write(feed, data)
            os.read(result, 1 << 20)
            assert eventually(lambda: is_waiting(os.getpid()))
            os.kill(os.getpid(), number)

        thread = threading.Thread(target=interrupt)
        thread.start()
        Server("tests", lifespan=lifespan).run()
        thread.join(PATIENCE)
    assert steps == ["entered", "left"]
    assert signal.getsignal(signal.SIGTERM) is handler


def test_serve_ends_when_its_input_cannot_be_read() -> None:
    with standard_streams(b"") as (_, result):
        target = os.open(os.devnull, os.O_WRONLY)
        os.dup2(target, 0)  # open, but not for reading
        os.close(target)
        Server("tests").run()
        os.write(1, b"after\n")
        assert os.read(result, 100) == b"after\n"


def test_serve_ends_when_its_output_is_gone() -> None:
    """Nobody reads the answers: it goes on until the end of input and then is done."""
    data = lines_of(*({"id": n, "method": "ping"} for n in range(100)))
    with standard_streams(data) as (_, result):
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, result)  # the far end of stdout is closed
        os.close(nothing)
        Server("tests").run()


@pytest.mark.spec("basic/transports/stdio/stdout-only-mcp", "basic/transports/stdio/stderr-logging")
@pytest.mark.parametrize("revision", REVISIONS)
def test_nothing_that_a_tool_writes_or_reads_breaks_the_stream(revision: str) -> None:
    body = """
    import os, subprocess, sys
    @server.tool
    def noisy() -> str:
        print("print")
        print('{"jsonrpc": "2.0", "id": 1, "result": {}}', flush=True)
        sys.stdout.write("write")
        sys.stdout.buffer.write(bytes([10]) + b"buffer" + bytes([10]))
        sys.stdout.flush()
        os.write(1, b"descriptor" + bytes([10]))
        sys.__stdout__.write("dunder" + chr(10))
        subprocess.run(["/bin/sh", "-c", "echo child; cat"], check=True)
        os.system("echo system")
        try:
            input("prompt? ")
        except EOFError:
            return "no input"
    print("before serving ended", file=sys.stderr)
    """
    with RawClient(source(body), revision=revision) as client:
        for _ in range(2):
            call = client.call("noisy")
            answer = client.receive()
            assert answer["id"] == call
            assert answer["result"]["content"][0]["text"] == "no input"
        assert client.is_alive()
        client.end_input()
        assert client.wait() == 0
    assert client.aside == []
    said = "\n".join(client.stderr)
    for word in (
        "print",
        '"id": 1',
        "write",
        "buffer",
        "descriptor",
        "dunder",
        "child",
        "system",
        "prompt? ",
    ):
        assert word in said


@pytest.mark.spec("basic/transports/stdio/server-exits-on-eof")
@pytest.mark.parametrize("revision", REVISIONS)
def test_end_of_input_is_a_prompt_clean_exit(revision: str) -> None:
    with RawClient(source(""), revision=revision) as client:
        assert client.is_alive()
        started = time.monotonic()
        client.end_input()
        assert client.wait() == 0
        assert time.monotonic() - started < PATIENCE
        assert client.stderr == []


def test_end_of_input_before_anything_was_said() -> None:
    done = subprocess.run(
        python(source("")), env={**os.environ, **ENV}, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.spec("basic/transports/stdio/server-exits-on-eof")
@pytest.mark.parametrize("nap", ["ctx.sleep(60)", "time.sleep(60)", "threading.Event().wait()"])
def test_end_of_input_ends_a_server_whose_tool_still_runs(nap: str) -> None:
    """Also one that never looks whether it is cancelled."""
    body = f"""
    import sys, threading, time
    @server.tool
    def slow(ctx: Context) -> str:
        print("begun", file=sys.stderr, flush=True)
        {nap}
    """
    with RawClient(source(body), revision=MODERN) as client:
        client.call("slow")
        assert eventually(lambda: "begun" in client.stderr)
        started = time.monotonic()
        client.end_input()
        assert client.wait() == 0
        assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize("revision", REVISIONS)
def test_requests_piped_in_one_go_are_answered_before_the_end(revision: str) -> None:
    """As with a shell: `server.py < requests`."""
    body = """
    import time
    from mcp_ref.basic.transports.stdio import server as stdio
    stdio.GRACE_SECONDS = 20.0
    @server.tool
    def nap() -> str:
        time.sleep(0.1)
        return "slept"
    """
    calls = [
        {
            "id": n,
            "method": "tools/call",
            "params": {"name": "nap", "arguments": {}, **({"_meta": META} if revision == MODERN else {})},
        }
        for n in range(10, 30)
    ]
    info = {"name": "raw", "version": "1"}
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
    opening = [{"id": 1, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]
    data = lines_of(*(opening if revision != MODERN else []), *calls)
    done = subprocess.run(python(source(body)), env={**os.environ, **ENV}, input=data, capture_output=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {a["id"] for a in answers if "result" in a} >= set(range(10, 30))
    assert done.returncode == 0


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_the_lifespan_properly(number: int, busy: bool) -> None:
    body = """
    import sys
    @server.tool
    def slow(ctx: Context) -> str:
        print("begun", file=sys.stderr, flush=True)
        ctx.sleep(60)
    """
    opening = """
import contextlib, sys
@contextlib.contextmanager
def lifespan(server):
    print("entered", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("left", file=sys.stderr, flush=True)
"""
    with RawClient(opening + source(body, options="lifespan=lifespan"), revision=MODERN) as client:
        assert client.is_alive()
        if busy:
            client.call("slow")
            assert eventually(lambda: "begun" in client.stderr)
        assert client.child is not None
        pid = client.child.pid
        assert eventually(lambda: is_waiting(pid))
        client.child.send_signal(number)
        assert client.wait() == 0
    assert [line for line in client.stderr if line != "begun"] == ["entered", "left"]


LEAVING = """
import contextlib, os, sys, threading
from mcp_ref.basic.transports.stdio import server as stdio

@contextlib.contextmanager
def lifespan(server):
    try:
        yield
    finally:
        print("leaving", file=sys.stderr, flush=True)
        for _ in range(1000):  # until the test says so
            if os.path.exists(sys.argv[1]):
                break
            threading.Event().wait(0.01)
        print("left", file=sys.stderr, flush=True)
"""
"""A lifespan whose end takes its time."""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT, None])
def test_a_second_signal_does_not_cut_the_lifespans_end_short(first: int | None, tmp_path: Path) -> None:
    """Whatever began the end: a signal, or the end of input."""
    go = tmp_path / "go"
    command = [*python(LEAVING + source("", options="lifespan=lifespan")), str(go)]
    with RawClient(command, revision=MODERN) as client:
        assert client.is_alive()
        assert client.child is not None
        if first is None:
            client.end_input()
        else:
            client.child.send_signal(first)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            assert eventually(lambda: "leaving" in client.stderr)
            client.child.send_signal(number)
        go.touch()
        assert client.wait() == 0
    assert client.stderr == ["leaving", "left"]


def test_a_lifespan_that_does_not_end_can_be_interrupted_after_a_while(tmp_path: Path) -> None:
    """`stdio.IN_PEACE` seconds after the first signal the next one counts."""
    opening = LEAVING + "stdio.IN_PEACE = 0.0\n"
    command = [*python(opening + source("", options="lifespan=lifespan")), str(tmp_path / "never")]
    with RawClient(command, revision=MODERN) as client:
        assert client.is_alive()
        assert client.child is not None
        client.child.terminate()
        assert eventually(lambda: "leaving" in client.stderr)
        client.child.terminate()
        assert client.wait() != 0
    assert "left" not in client.stderr


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_message_in_single_bytes_and_many_in_one_write(revision: str) -> None:
    with RawClient(source(""), revision=revision) as client:
        message = client.message("tools/list", id="slow")
        for byte in json.dumps(message, ensure_ascii=False).encode() + b"\n":
            client.write(bytes([byte]))
        client.answer("slow")
        messages = [client.message("ping" if revision != MODERN else "server/discover") for _ in range(50)]
        client.send(*messages)
        assert all("result" in client.answer(m["id"]) for m in messages)
        client.write(b"\r\n\n  \n" + json.dumps(client.message("tools/list", id="cr")).encode() + b"\r\n")
        client.answer("cr")


def peak_memory(pid: int) -> int:
    """The most memory a process ever had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


@pytest.mark.parametrize(
    ("options", "allowed"), [("", 64), ("options=ServerOptions(max_message_bytes=100_000)", 4)]
)
def test_a_message_beyond_the_limit_is_not_kept_in_memory(options: str, allowed: int) -> None:
    """160 MiB on one line: the server never has more of it than its limit, and goes on."""
    with RawClient(source("", options=options), revision=MODERN) as client:
        assert client.is_alive()
        assert client.child is not None
        before = peak_memory(client.child.pid)
        client.write(b'{"jsonrpc":"2.0","id":1,"method":"')
        for _ in range(160):
            client.write(b"x" * (1 << 20))
        client.write(b'"}\n')
        error = client.receive()["error"]
        assert error["code"] == -32600
        assert "bytes" in error["message"]
        assert client.is_alive()
        assert peak_memory(client.child.pid) - before < allowed + 12


@pytest.mark.parametrize("part", [b"[]", b'{"a":1}'], ids=["arrays", "objects"])
def test_a_message_of_many_small_parts_is_refused_before_it_takes_memory(part: bytes) -> None:
    """62 MiB, of which Python would make up to 2 GB."""
    with RawClient(source(""), revision=MODERN) as client:
        assert client.is_alive()
        assert client.child is not None
        before = peak_memory(client.child.pid)
        client.write(b"[" + b",".join([part] * (62 * (1 << 20) // (len(part) + 1))) + b"]\n")
        assert client.receive()["error"]["code"] == -32700
        assert client.is_alive()
        assert peak_memory(client.child.pid) - before < 3 * 64 + 12


@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_of_ours_ends_with_its_client(revision: str) -> None:
    """Even when the client is killed: end of input is enough."""
    text = f"""
import os, time
from mcp_ref import ClientOptions, connect
client = connect({python(source("import os"))!r}, revision={revision!r}, options=ClientOptions(env={ENV!r}))
print(client.asker.line.link.process.pid, flush=True)
time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, env={**os.environ, **ENV})
    assert child.stdout is not None
    with child, child.stdout:
        server = int(child.stdout.readline())
        os.kill(server, 0)
        child.kill()

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    assert eventually(is_gone)


def test_a_context_that_outlives_serve_harms_nobody() -> None:
    """A tool that never ends is left behind as a daemon; `run` returns."""
    server = Server("tests")
    release = threading.Event()

    @server.tool
    def stuck(ctx: Context) -> str:
        release.wait(PATIENCE)
        return "late"

    data = lines_of(
        {"id": 1, "method": "tools/call", "params": {"name": "stuck", "arguments": {}, "_meta": META}}
    )
    with standard_streams(data) as (_, result):
        started = time.monotonic()
        server.run()
        assert time.monotonic() - started < PATIENCE / 2
        os.write(1, b"after\n")
        assert os.read(result, 100) == b"after\n"
    release.set()


PRINTING = """
import os
@server.tool
def speak() -> str:
    print("to people", flush=True)
    os.write(1, b"raw\\n")
    return "spoken"
"""


def shell(redirection: str) -> list[str]:
    """The command of a server whose standard streams a shell arranged."""
    return ["sh", "-c", f'exec "$@" {redirection}', "shell", *python(source(PRINTING))]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_server_without_stderr_serves_and_its_tools_may_print(revision: str) -> None:
    with RawClient(shell("2>&-"), revision=revision) as client:
        for _ in range(3):
            answer = client.answer(client.call("speak"))["result"]
            assert answer["content"] == [{"type": "text", "text": "spoken"}]
            assert not answer.get("isError")
        client.end_input()
        assert client.wait() == 0


def test_a_server_without_stdin_has_its_end_of_input_at_once() -> None:
    done = subprocess.run(shell("<&-"), env={**os.environ, **ENV}, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_server_without_stdout_ends_with_its_input() -> None:
    data = lines_of({"id": 1, "method": "tools/call", "params": {"name": "speak", "_meta": META}})
    done = subprocess.run(
        shell(">&-"), env={**os.environ, **ENV}, input=data, capture_output=True, timeout=30
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("method", ["ping", "initialize"])
def test_a_signal_while_the_reader_answers_is_not_lost(number: int, method: str) -> None:
    """A request answered by the reader itself: the signal is not its failure, but the end of the server."""
    body = f"""
    import os, signal
    answer = server.serving.answer
    def interrupted(context):
        if context.method == {method!r}:
            os.kill(os.getpid(), {int(number)})
        return answer(context)
    server.serving.answer = interrupted
    """
    with RawClient(source(body)) as client:
        client.revision = "2025-11-25"
        info = {"name": "raw", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        client.ask("initialize", hello)
        if method == "ping":
            client.receive()
            client.ask("ping")
        assert client.wait() == 0
    assert client.stderr == []


def test_a_signal_that_comes_between_two_reads_is_not_slept_through() -> None:
    """However often, whenever: SIGTERM after each answer, when the reader is about to read again."""
    script = "from mcp_ref import Server\nServer('s').run()"
    for _ in range(10):
        with RawClient(python(script), revision=LEGACY[3]) as client:
            assert client.child is not None
            assert client.is_alive()
            client.child.terminate()
            assert client.child.wait(PATIENCE) == 0


def test_a_standard_stream_that_was_closed_reads_as_empty_and_takes_everything() -> None:
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    stdio._ensure_open(write)
    try:
        assert os.read(write, 10) == b""
        assert os.write(write, b"taken") == 5
        stdio._ensure_open(write)  # it is open: left as it is
        assert os.read(write, 10) == b""
    finally:
        os.close(write)


def test_the_bell_ends_reading_for_the_reason_that_was_given_and_rings_no_more_once_closed() -> None:
    read, write = os.pipe()
    bell = stdio._Bell(read)
    outcome: list[bool] = []
    reader = threading.Thread(target=lambda: outcome.append(bell.wait()))
    reader.start()
    bell.ring("the client answers no ping")
    reader.join(PATIENCE)
    assert outcome == [False]
    for _ in range(100_000):  # more than the pipe holds: that is no fault
        bell.ring("again")
    bell.close()
    bell.ring("too late")  # to a descriptor that may be another's by now
    os.close(read)
    os.close(write)


def test_the_streams_of_the_protocol_lead_nowhere_in_a_forked_child() -> None:
    """So that the client sees the end of the parent as the end, however long the child lives."""
    nothing = os.open(os.devnull, os.O_RDWR)
    read, write = os.pipe()
    streams = stdio._Streams(nothing, write)
    streams.forked()
    os.write(write, b"the child's")
    assert os.read(read, 100) == b""  # its end is closed
    assert not os.get_inheritable(write)
    for descriptor in (nothing, read, write):
        os.close(descriptor)


TASKS = """
import contextlib
from mcp_ref import SqliteStore, TaskOptions
from mcp_ref.basic.transports.stdio import server as stdio
stdio.GRACE_SECONDS = 20.0

@contextlib.contextmanager
def lifespan(server):
    yield "open"
    print("lifespan left", file=sys.stderr)

"""

TASK = """
@server.tool(task="required")
def render(ctx: Context) -> str:
    try:
        print("begun", file=sys.stderr)
        while True:
            ctx.sleep(60)
    finally:
        print("cleaned up while", ctx.lifespan, file=sys.stderr)
"""


@pytest.mark.parametrize("date", ["2025-11-25", MODERN])
def test_a_task_that_runs_at_the_end_of_input_cleans_up_and_is_reported_as_failed(
    date: str, tmp_path: Path
) -> None:
    """Before the lifespan ends. The next process says what became of it."""
    notes = Notes()
    options = f"lifespan=lifespan, tasks=TaskOptions(store=SqliteStore({str(tmp_path / 'tasks.db')!r}))"
    command = python("import sys" + TASKS + source(TASK, options=options))
    about = ClientOptions(env=ENV, on_stderr=notes, grace=PATIENCE)
    with connect(command, revision=date, options=about) as client:
        task = client.start_tool("render")
        notes.until(lambda line: line == "begun")
    notes.until(lambda line: line == "lifespan left")
    assert notes.all == ["begun", "cleaned up while open", "lifespan left"]
    with connect(command, revision=date, options=about) as client:
        again = client.task(task.id)
        assert again.status == "failed"
        assert again.message == "The task was interrupted, since what ran it has ended; start it again."


HELD = """
from mcp_ref.basic.patterns.subscriptions import server as subscriptions
from mcp_ref.basic.transports.stdio import server as stdio
subscriptions.ACKNOWLEDGMENT_SECONDS = stdio.GRACE_SECONDS = 20.0
@server.tool(task="required")
def hold(ctx: Context) -> None:
    ctx.sleep(60)
"""


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
@pytest.mark.parametrize("date", ["2025-11-25", MODERN])
def test_a_client_that_waits_for_a_task_at_the_end_is_told_that_it_failed(
    date: str, number: int | None
) -> None:
    """By a notification, and at the end of input by the answer to tasks/result too."""
    with TaskClient(source(HELD), revision=date) as client:
        task_id = client.start("hold")["taskId"]
        if date == MODERN:
            client.ask("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
            client.notified("notifications/subscriptions/acknowledged")
            waiting = None
        else:
            waiting = client.ask("tasks/result", {"taskId": task_id})
            client.request("ping")
        if number is None:
            client.end_input()
        else:
            assert client.child is not None
            client.child.send_signal(number)
        method = "notifications/tasks" if date == MODERN else "notifications/tasks/status"
        assert client.notified(method, status="failed")["taskId"] == task_id
        if waiting is not None and number is None:
            assert client.answer(waiting)["error"]["message"].startswith("The task was interrupted")
        assert client.wait() == 0


TERMINATED = """
import signal, threading
from mcp_ref.runtime.threads.outbox import Outbox

def send_alone(outbox, line, wait=None, usual=Outbox.send):
    if threading.current_thread() is threading.main_thread():
        outbox.flush(20)  # so that no other thread takes the line along
    usual(outbox, line, wait)

def terminated(outbox, usual=Outbox._more):
    if threading.current_thread() is threading.main_thread() and server.tasks._runs:
        Outbox._more = usual
        signal.raise_signal(signal.SIGTERM)
    return usual(outbox)

Outbox.send, Outbox._more = send_alone, terminated
"""


def test_a_signal_that_comes_while_the_reader_writes_cuts_nothing_that_is_to_be_said() -> None:
    """The answer to ping is out, and the thread that wrote it has not left the outbox yet."""
    with TaskClient(source(HELD + TERMINATED), revision="2025-11-25") as client:
        task_id = client.start("hold")["taskId"]
        client.request("ping")
        assert client.notified("notifications/tasks/status", status="failed")["taskId"] == task_id
        assert client.wait() == 0
