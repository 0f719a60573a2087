"""Faults that end a process, or could: `server.run("http")` in a child, and what it leaves behind.

SIGTERM under load, a port in use, a tool that prints, 1,000 connections that come and go. The child's
threads and open files are counted from outside.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_faults import ERAS, added, listen
from http_peers import Peer, RawHttp, Reply
from peers import ENV, LEGACY, MODERN, PATIENCE, eventually

BOTH = pytest.mark.parametrize("revision", ERAS)
REPORTS = {"progressToken": "p"}

SERVER = """
import functools, logging, os, subprocess, sys, threading
from mcp_ref import Context, HttpOptions, Server
from mcp_ref.api import server as api_server

logging.basicConfig()
api_server.Workers = functools.partial(api_server.Workers, idle=0.2)  # so that they end soon
server = Server("faulty", version="1")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.tool
def steps(ctx: Context, to: int) -> str:
    for number in range(to):
        ctx.progress(number + 1, to)
        ctx.sleep(0.01)
    return "done"

@server.tool
def much(ctx: Context) -> str:
    for number in range(1_000_000):
        ctx.progress(number + 1, message="x" * 10_000)
    return "done"

@server.tool
def nap(ctx: Context, seconds: float) -> str:
    ctx.progress(1)
    ctx.sleep(seconds)
    return "rested"

is_stubborn = threading.Event()

@server.tool
def stubborn(seconds: float) -> str:
    is_stubborn.set()
    threading.Event().wait(seconds)
    return "done"

@server.tool
def when_stubborn() -> bool:
    return is_stubborn.wait(20)

@server.tool
def prints(ctx: Context) -> str:
    print("to stdout")
    ctx.progress(1)
    os.write(1, b"HTTP/1.1 200 OK\\r\\n\\r\\n")
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    sys.stdout.flush()
    ctx.progress(2)
    return "printed"

@server.tool
def leaves() -> str:
    raise SystemExit(3)

@server.tool
def interrupts() -> str:
    raise KeyboardInterrupt

server.run("http", port=PORT, on_ready=lambda url: print(url, flush=True), OPTIONS)
"""


class Child:
    """The server under test."""

    def __init__(self, port: int = 0, options: str = "") -> None:
        text = SERVER.replace("PORT", str(port)).replace("OPTIONS", options)
        self.process = subprocess.Popen(
            [sys.executable, "-c", text],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **ENV},
        )
        assert self.process.stdout is not None
        url = self.process.stdout.readline().decode()
        self.port = int(url.split(":")[2].split("/")[0]) if url else 0

    def state(self) -> tuple[int, int]:
        """Threads, open files."""
        pid = self.process.pid
        found = re.search(r"^Threads:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
        assert found is not None
        return int(found[1]), len(list(Path(f"/proc/{pid}/fd").iterdir()))

    def ended(self, limit: float = PATIENCE) -> tuple[int, str, str]:
        """Its status, and what it said, once it is gone."""
        out, errors = self.process.communicate(timeout=limit)
        return self.process.returncode, out.decode(), errors.decode()

    def end(self) -> tuple[str, str]:
        """SIGTERM; what it said."""
        self.process.terminate()
        status, out, errors = self.ended()
        assert status == 0, errors
        assert "Traceback" not in errors
        return out, errors


@contextlib.contextmanager
def child(port: int = 0, options: str = "") -> Iterator[Child]:
    found = Child(port, options)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
        for stream in (found.process.stdout, found.process.stderr):
            assert stream is not None
            stream.close()
        found.process.wait()


# ----------------------------------------------------------------------------- port in use


def test_a_port_in_use() -> None:
    """Status 1, and a last line that names host and port; no half-started server is left."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with child(port) as one:
            status, out, errors = one.ended()
    assert (status, out) == (1, "")
    assert errors.splitlines()[-1].endswith(f"cannot listen on 127.0.0.1, port {port}: the port is in use")


def test_a_port_in_use_by_a_server_of_ours_which_goes_on() -> None:
    with child() as first, Peer(first.port) as peer:
        with child(first.port) as second:
            assert second.ended()[0] == 1
        assert added(peer) == "42"
        first.end()


def test_a_port_is_free_again_at_once() -> None:
    """Though connections of the server before are still in the books of the system."""
    with child() as first, Peer(first.port) as peer:
        assert added(peer) == "42"
        first.end()
        with child(first.port) as second:
            assert second.port == first.port
            assert added(peer) == "42"
            second.end()


# ------------------------------------------------------------------------ what tools do to it


@BOTH
def test_a_tool_that_writes_to_stdout(revision: str) -> None:
    """It goes to the server's stdout, and into no response."""
    with child() as one, Peer(one.port, revision) as peer:
        with peer.call("prints", {}, REPORTS) as reply:
            messages = reply.messages()
        assert [m["params"]["progress"] for m in messages[:-1]] == [1, 2]
        assert messages[-1]["result"]["content"][0]["text"] == "printed"
        assert added(peer) == "42"
        out, errors = one.end()
    assert "to stdout" in out
    assert "from a child" in out
    assert errors == ""


@BOTH
@pytest.mark.parametrize("tool", ["leaves", "interrupts"])
def test_a_tool_that_would_end_the_process(revision: str, tool: str) -> None:
    """Its call has failed; the process goes on, and ends when it is told to."""
    with child() as one, Peer(one.port, revision) as peer:
        with peer.call(tool) as reply:
            answer = reply.answer()
        assert "error" in answer or answer["result"]["isError"]
        assert added(peer) == "42"
        one.process.terminate()
        assert one.ended()[0] == 0


# -------------------------------------------------------------------------- SIGTERM under load


class Caller(threading.Thread):
    """A client that calls and calls, each time on one connection, until the server is gone."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(name=f"caller {number}")
        self.port, self.number = port, number
        self.working = threading.Event()
        self.results = 0
        self.ends: list[str] = []
        self.problems: list[BaseException] = []

    def run(self) -> None:
        try:
            with Peer(self.port, (MODERN, *LEGACY[1:])[self.number % 4]) as peer:
                kinds = (self.adds, self.streams, self.naps, self.listens)
                kinds[self.number // 4 % 4](peer)
        except (ConnectionError, EOFError) as problem:
            self.ends.append(type(problem).__name__)
        except BaseException as problem:
            self.problems.append(problem)
        finally:
            self.working.set()

    def takes(self, reply: Reply) -> bool:
        """Read a response to its end, which must be proper. False if it says that the server goes."""
        with reply:
            try:
                messages = reply.messages()
            except (EOFError, ConnectionError) as problem:  # between two requests it may end, not within one
                raise AssertionError("a response was cut") from problem
        self.working.set()
        if reply.status == 503 or (reply.status == 404 and "id" not in messages[-1]):
            self.ends.append(f"{reply.status}")
            return False
        if not messages or "method" in messages[-1]:
            self.ends.append("a stream without an answer")
            return False
        if "error" in messages[-1]:
            self.ends.append(messages[-1]["error"]["message"])
            return False
        self.results += 1
        return True

    def adds(self, peer: Peer) -> None:
        with RawHttp(self.port) as connection:
            while self.takes(peer.call("add", {"a": 1, "b": 2}, on=connection)):
                pass

    def streams(self, peer: Peer) -> None:
        while self.takes(peer.call("steps", {"to": 20}, REPORTS)):
            pass

    def naps(self, peer: Peer) -> None:
        connection = peer.send(
            "POST", peer.message("tools/call", {"name": "nap", "arguments": {"seconds": 60}})
        )
        self.working.set()
        self.takes(Reply(connection))

    def listens(self, peer: Peer) -> None:
        with listen(peer) as stream:
            assert stream.block() is not None
            self.working.set()
            self.ends.append("answered" if "result" in (stream.messages() or [{}])[-1] else "ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "options", ["", "options=HttpOptions(answers='stream')", "options=HttpOptions(answers='json')"]
)
def test_sigterm_under_load(number: signal.Signals, options: str) -> None:
    """20 clients call: exit 0 within the limit, every response ends properly, nothing on stderr."""
    with child(options=f"grace=0.5, {options}") as one:
        callers = [Caller(one.port, number) for number in range(20)]
        for caller in callers:
            caller.start()
        for caller in callers:
            assert caller.working.wait(PATIENCE)
        began = time.monotonic()
        one.process.send_signal(number)
        status, out, errors = one.ended()
        took = time.monotonic() - began
        for caller in callers:
            caller.join(PATIENCE)
            assert not caller.is_alive()
    assert (status, out, errors) == (0, "", "")
    assert took < PATIENCE
    assert [problem for caller in callers for problem in caller.problems] == []
    assert sum(caller.results for caller in callers) > 0
    assert all(caller.ends for caller in callers)


@BOTH
def test_sigterm_with_a_tool_that_does_not_end(revision: str) -> None:
    """It is left behind; its client is told that the server went, or sees the end."""
    with child(options="grace=0.2") as one, Peer(one.port, revision) as peer:
        message = peer.message("tools/call", {"name": "stubborn", "arguments": {"seconds": 60}})
        connection = peer.send("POST", message)
        silent = peer.connect()
        with peer.call("when_stubborn", on=silent) as reply:  # before it has begun, nobody would be told
            assert reply.answer()["result"]["content"][0]["text"] == "true"
        began = time.monotonic()
        one.process.terminate()
        status, _, errors = one.ended()
        assert time.monotonic() - began < PATIENCE
        assert status == 0, errors
        assert "Traceback" not in errors, errors
        with Reply(connection) as reply:
            assert reply.status in (404, 503)
            assert reply.body()
        assert silent.ended()


@BOTH
def test_sigterm_with_clients_that_read_nothing(revision: str) -> None:
    """They are cut: nobody waits for them, other than for a moment."""
    with child(options="grace=0.3") as one, contextlib.ExitStack() as stack:
        for _ in range(5):
            peer = stack.enter_context(Peer(one.port, revision))
            deaf = stack.enter_context(RawHttp(one.port, receive_buffer=4096))
            params = {"name": "much", "arguments": {}, "_meta": REPORTS}
            peer.send("POST", peer.message("tools/call", params), on=deaf)
            assert deaf.socket.recv(1, socket.MSG_PEEK)
        began = time.monotonic()
        one.process.terminate()
        status, _, errors = one.ended()
        assert time.monotonic() - began < PATIENCE
        assert status == 0, errors
        assert "Traceback" not in errors, errors


def test_sigterm_twice() -> None:
    """The second does not wait for calls."""
    nap = {"name": "nap", "arguments": {"seconds": 60}, "_meta": REPORTS}
    with (
        child(options="grace=60.0") as one,
        Peer(one.port, MODERN) as peer,
        Reply(peer.send("POST", peer.message("tools/call", nap))) as reply,
    ):
        first = reply.message()
        assert first is not None and first["method"] == "notifications/progress"  # it has begun
        one.process.terminate()
        assert eventually(lambda: is_refused(one.port))  # before it has heard the first, two are one
        one.process.terminate()
        assert one.ended(PATIENCE)[0] == 0


def is_refused(port: int) -> bool:
    """Whether no server listens there. One that stops resets a connection that it had not accepted."""
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


# -------------------------------------------------------------------- connections that come and go


@pytest.mark.parametrize("part", ["nothing", "half a head", "half a body", "a request", "a call that lasts"])
def test_1000_connections_opened_and_dropped(part: str) -> None:
    """All open at once, then all gone, with a goodbye and without: threads and files are back."""
    with child() as one, Peer(one.port, MODERN) as peer:
        assert added(peer) == "42"
        peer.close()
        assert eventually(lambda: one.state()[0] <= 2, 20)
        before = one.state()
        tool = ("nap", {"seconds": 60}) if part == "a call that lasts" else ("add", {"a": 1, "b": 2})
        message = peer.message("tools/call", {"name": tool[0], "arguments": tool[1]})
        sent: list[bytes] = []
        recorder: Any = type("Recorder", (), {"send": lambda self, data: sent.append(data)})()
        peer.send("POST", message, on=recorder)
        size = {"nothing": 0, "half a head": 50, "half a body": len(sent[0]) - 50}.get(part, len(sent[0]))
        count = 100 if part == "a call that lasts" else 1000
        clients = []
        for _ in range(count):
            client = RawHttp(one.port)
            client.socket.sendall(sent[0][:size])
            clients.append(client)
        assert eventually(lambda: one.state()[1] > before[1] + 50)
        for number, client in enumerate(clients):
            (client.reset if number % 2 else client.close)()
        assert eventually(lambda: one.state()[1] <= before[1], 30), (one.state(), before)
        assert added(peer) == "42"
        peer.close()
        assert eventually(lambda: one.state() <= before, 30), (one.state(), before)
        assert one.end() == ("", "")
