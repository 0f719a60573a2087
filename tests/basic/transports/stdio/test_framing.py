"""stdio (page: basic/transports/stdio): framing, the server's half, the client's half."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    one_sentence,
    python,
    raw_server,
    recorded,
    source,
    tap,
)

from mcp_ref import ConnectionClosed, Context, Server, connect
from mcp_ref.basic.transports.stdio import framing as stdio
from mcp_ref.runtime.errors import (
    LocalError,
    McpError,
)


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
    with connect(python(source(body)), env=ENV) as client:
        for _ in range(3):
            thread = threading.Thread(target=lambda: found.append(client.call_tool("pid").structured))
            thread.start()
            thread.join(PATIENCE)
        found.append(client.call_tool("pid").structured)
    assert len(found) == 4
    assert found == found[:1] * 4


# ------------------------------------------------------------------- what a server says


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


# ------------------------------------------------------------------------- the framing


def read_all(data: bytes, sizes: list[int], limit: int = 1 << 20) -> tuple[list[bytes], list[int]]:
    """What `read_lines` makes of bytes that arrive in pieces of these sizes."""
    lines: list[bytes] = []
    refused: list[int] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # one read, one piece
    with ours, theirs:

        def too_long(size: int, beginning: bytes) -> None:
            refused.append(size)
            assert set(beginning) <= set(b"x")

        reader = threading.Thread(
            target=stdio.read_lines, args=(ours.fileno(), lines.append, too_long, limit)
        )
        reader.start()
        while data:
            size = max(1, sizes.pop() if sizes else len(data))
            theirs.send(data[:size])
            data = data[size:]
        theirs.close()
        reader.join(PATIENCE)
    return lines, refused


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b" ")), max_size=8),
    st.lists(st.integers(1, 12), max_size=30),
)
@pytest.mark.spec("basic/transports/stdio/one-message-per-line")
def test_lines_are_lines_however_they_arrive(lines: list[bytes], sizes: list[int]) -> None:
    """Split anywhere, joined at will; empty lines are nothing."""
    found, refused = read_all(b"".join(line + b"\n" for line in lines), sizes)
    assert found == [line for line in lines if line and not line.isspace()]
    assert refused == []


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 40), max_size=8), st.lists(st.integers(1, 15), max_size=30))
def test_a_line_beyond_the_limit_is_reported_and_the_next_one_read(
    lengths: list[int], sizes: list[int]
) -> None:
    lines = [b"x" * length for length in lengths]
    found, refused = read_all(b"".join(line + b"\n" for line in lines), sizes, limit=20)
    assert found == [line for line in lines if 0 < len(line) <= 20]
    assert refused == [len(line) for line in lines if len(line) > 20]


def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    """A socket is the way in and the way out, and whoever writes to it makes it not block."""
    lines: list[bytes] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stdio.Writer(ours.fileno())
        arguments = (ours.fileno(), lines.append, lambda *told: None)
        reader = threading.Thread(target=stdio.read_lines, args=arguments)
        reader.start()
        assert not eventually(lambda: not reader.is_alive(), 0.05)
        theirs.send(b"one\n")
        assert eventually(lambda: lines == [b"one"])
        theirs.close()
        reader.join(PATIENCE)


def test_a_last_line_without_its_end_is_no_message(caplog: pytest.LogCaptureFixture) -> None:
    assert read_all(b'{"a":1}\n{"b":', []) == ([b'{"a":1}'], [])
    assert "ended within a message of 5 bytes" in caplog.text


def test_a_writer_writes_everything_to_a_slow_reader() -> None:
    data = random.Random(1).randbytes(3_000_000)
    source_, target = os.pipe()
    got: list[bytes] = []

    def read() -> None:
        while piece := os.read(source_, 5000):
            got.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    stdio.Writer(target)(data)
    os.close(target)
    reader.join(PATIENCE)
    os.close(source_)
    assert b"".join(got) == data


def test_a_writer_gives_up_a_peer_that_does_not_read() -> None:
    source_, target = os.pipe()
    write = stdio.Writer(target, stall=0.05)
    with pytest.raises(ConnectionClosed, match=r"has read nothing for 0\.05 s"):
        write(bytes(10_000_000))
    assert write.retire(1.0)
    with pytest.raises(ConnectionClosed):
        write(b"more")
    os.close(source_)
    os.close(target)


def test_a_writer_is_not_retired_while_it_writes() -> None:
    source_, target = os.pipe()
    write = stdio.Writer(target, stall=PATIENCE)
    problems: list[Exception] = []
    waits = threading.Event()
    real = write._poll

    class Poll:
        def poll(self, milliseconds: float) -> Any:
            waits.set()
            return real.poll(milliseconds)

    write._poll = Poll()  # type: ignore[assignment]

    def fill() -> None:
        try:
            write(bytes(1_000_000))
        except ConnectionClosed as problem:
            problems.append(problem)

    writer = threading.Thread(target=fill)
    writer.start()
    assert waits.wait(PATIENCE)  # the pipe is full, and the writer inside the write
    assert write.retire(0.05) is False
    os.read(source_, 65536)  # room again: the writer looks, and finds that it is to end
    writer.join(PATIENCE)
    assert problems
    assert write.retire(0.05)
    os.close(source_)
    os.close(target)


# --------------------------------------------------------- the server's half, in this process


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


def test_serve_answers_until_the_end_of_input_and_gives_the_streams_back() -> None:
    server = Server("tests", max_message_bytes=1000)

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


# ------------------------------------------------------------ the server's half, real children


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
from mcp_ref.basic.transports import stdio

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


@pytest.mark.parametrize(("options", "allowed"), [("", 64), ("max_message_bytes=100_000", 4)])
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


# ------------------------------------------------------------------------ the client's half


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
    with connect([*python(source(body)), *words], env=ENV, cwd=tmp_path, revision=revision) as client:
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
    with connect(tap(python(source(body)), wire), env=ENV, revision=revision) as client:
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
        raw_server("note(dict(os.environ))\nopen_modern()\ngo_on()"), on_stderr=notes, env={"OWN": "é"}
    ):
        seen = notes.until(lambda note: "PATH" in note)
    assert seen["OWN"] == "é"
    assert seen["PATH"] == os.environ["PATH"]
    assert seen["LANG"] == "C.UTF-8"
    assert set(seen) - {"LC_CTYPE"} <= {*stdio.INHERITED, "OWN"}
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
    with connect(raw_server(script), on_stderr=notes, grace=0.3) as client:
        notes.until(lambda note: note == "open")
        process = client._line.link.process
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
    with connect(raw_server(script), on_stderr=notes, grace=PATIENCE) as client:
        process = client._line.link.process
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
    with connect(raw_server(script), on_stderr=notes, timeout=60) as client:
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
    with connect(raw_server(script), on_stderr=notes, grace=0.1):
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
    with connect(raw_server(script), on_stderr=Notes(), revision=revision, timeout=60) as client:
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
        connect(raw_server(script), on_stderr=Notes(), timeout=60) as client,
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
    with connect(command, on_stderr=notes, revision=revision, timeout=60, grace=0.1) as client:
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
    with connect(python(source(body)), env=ENV) as client:
        assert client.call_tool("say", {"words": "für Menschen"}).text == "said"
    assert "ready to serve\nfür Menschen\n" in capfd.readouterr().err
    heard: list[str] = []
    with connect(python(source(body)), env=ENV, on_stderr=heard.append) as client:
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

    with connect(raw_server(script), on_stderr=fail) as client:
        client.ping()
    assert "on_stderr failed" in caplog.text
    assert sum(line.count("x") for line in heard) >= 1 << 20
    assert max(map(len, heard)) <= 65536


def test_a_child_without_pidfds_is_watched_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none, its end is looked for once a second."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    script = GRANDCHILD.format(options="stdin=subprocess.DEVNULL") + "receive('vendor/x')\nos._exit(5)"
    notes = Notes()
    with connect(raw_server(script), on_stderr=notes, timeout=60) as client:
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
    client = connect(raw_server(script), on_stderr=notes, revision=revision, grace=0.1, timeout=60)
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
    link = client._line.link
    assert eventually(lambda: stdio.unread(link._stdin) > 60_000)
    started = time.monotonic()
    client.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(problems) == 2
    assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_of_ours_ends_with_its_client(revision: str) -> None:
    """Even when the client is killed: end of input is enough."""
    text = f"""
import os, time
from mcp_ref import connect
client = connect({python(source("import os"))!r}, env={ENV!r}, revision={revision!r})
print(client._line.link.process.pid, flush=True)
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


# ------------------------------------------------------------- what an adversary found


def test_what_close_cuts_off_lands_in_no_other_file(tmp_path: Path) -> None:
    """Nobody closes a descriptor under a write: its number may be another file's at once."""
    script = "open_modern()\nnote('open')\ntime.sleep(60)"
    notes, failed = Notes(), []
    client = connect(raw_server(script), on_stderr=notes, grace=0.2)
    notes.until(lambda note: note == "open")

    def say_much() -> None:
        try:
            client.call_tool("x", {"a": "SECRET" * 2_000_000})
        except ConnectionClosed as problem:
            failed.append(problem)

    caller = threading.Thread(target=say_much)
    caller.start()
    link = client._line.link
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
    with connect(command, on_stderr=notes, grace=0.1):
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
    with connect(raw_server(script), on_stderr=notes):
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

    with connect(raw_server(script), on_stderr=fail) as client:
        for _ in range(3):
            client.request("vendor/x", timeout=PATIENCE)
        assert eventually(lambda: sum(line.startswith("x") for line in heard) == 60)


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("method", ["ping", "initialize"])
def test_a_signal_while_the_reader_answers_is_not_lost(number: int, method: str) -> None:
    """A request answered by the reader itself: the signal is not its failure, but the end of the server."""
    body = f"""
    import os, signal
    answer = server.answer
    def interrupted(context):
        if context.method == {method!r}:
            os.kill(os.getpid(), {int(number)})
        return answer(context)
    server.answer = interrupted
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


@pytest.mark.parametrize("revision", [LEGACY[3], MODERN])
def test_a_time_out_holds_also_when_the_server_reads_nothing(revision: str) -> None:
    """A large message that nobody takes: the caller is told in time, and `close` is quick."""
    script = f"""
    open_any({revision!r})
    time.sleep(60)
    """
    with connect(raw_server(script), revision=revision, on_stderr=Notes(), grace=0.2) as client:
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            client.request("vendor/big", {"a": "x" * (3 << 20)}, timeout=0.5)
        future = client.submit("vendor/big", {"a": "x" * (3 << 20)}, timeout=0.5)
        with pytest.raises(TimeoutError):
            client.request("vendor/more", {"a": "x" * (3 << 20)}, timeout=0.5)
        assert isinstance(future.exception(10), TimeoutError)
        assert time.monotonic() - start < PATIENCE


# ------------------------------------------------------------- a start that does not come to its end


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


def test_ctrl_c_while_a_child_is_started_ends_the_child() -> None:
    """It is held back until all is there that must be given back."""

    class Interrupted(stdio.Child):
        def _start(self, *arguments: Any) -> None:
            signal.raise_signal(signal.SIGINT)
            super()._start(*arguments)
            started.append(self.process)

    started: list[Any] = []
    before = descriptors()
    with pytest.raises(KeyboardInterrupt):
        Interrupted(["cat"])
    assert started[0].poll() is not None
    assert eventually(lambda: descriptors() == before)


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


# ------------------------------------------------------------------------------ in a forked child
#
# `forked` is what the child calls. Copies of the descriptors stand for those of the parent.


def test_a_forked_child_writes_nothing_to_its_parents_peer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        write = stdio.Writer(ours.fileno())
        write(b"the parent's")
        with write._writing:  # held for ever, by a thread that the child does not have
            write.forked()
            for say in (write, write.begin):
                with pytest.raises(ConnectionClosed):
                    say(b"the child's")
            assert write.retire(0.0)
        assert theirs.recv(100) == b"the parent's"
        ours.close()
        assert theirs.recv(100) == b""


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


class Deaf(stdio.Child):
    """A child process as a forked one has it: without the thread that listens."""

    def _listen(self) -> None:
        pass


def test_a_server_that_the_parent_started_is_left_alone_by_a_forked_child() -> None:
    """Neither ended, nor waited for, nor at its end of input; nor are the parent's threads woken."""
    before = descriptors()
    child = Deaf(["cat"])
    child._listener.join(PATIENCE)
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
