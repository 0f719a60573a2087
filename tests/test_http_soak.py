"""A soak: 10,000 mixed calls over 50 connections, and the server is as it was before.

The same number of threads and open files as it began with, and its memory within 10 %. Its memory is measured
after as many connections did as much before: then all is imported, and what a process keeps for so many
threads is kept.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_peers import Peer, RawHttp
from peers import ENV, PATIENCE, eventually

CONNECTIONS = 50
CALLS = 10_000

SERVER = """
from mcp_ref import Context, Server

server = Server("soak")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.tool
def echo(text: str) -> str:
    return text

@server.tool
def steps(n: int, ctx: Context) -> str:
    for step in range(n):
        ctx.progress(step + 1, n)
    return "done"

@server.tool
def nap(ctx: Context) -> str:
    ctx.progress(1)
    ctx.sleep(60)
    return "rested"

@server.tool
def ask(ctx: Context) -> str:
    return ctx.elicit("Sure?").action

server.run("http", port=0, on_ready=lambda url: print(url, flush=True))
"""


class Child:
    """The server under test, and what it takes of the machine."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdout=subprocess.PIPE,
            env={**os.environ, **ENV},
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split(":")[2].split("/")[0])

    def status(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+)", text, re.M)
        assert found is not None
        return int(found[1])

    @property
    def files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    @property
    def threads(self) -> int:
        return self.status("Threads")

    @property
    def kilobytes(self) -> int:
        return self.status("VmRSS")


@pytest.fixture
def child() -> Iterator[Child]:
    found = Child()
    yield found
    found.process.terminate()
    assert found.process.wait(PATIENCE) == 0
    assert found.process.stdout is not None
    found.process.stdout.close()


class Caller:
    """One connection's worth of calls, of all kinds, in an order that is the same in every run."""

    def __init__(self, port: int, number: int) -> None:
        self.random = random.Random(number)
        self.port = port
        self.revision = ("2026-07-28", "2025-03-26", "2025-06-18", "2025-11-25")[number % 4]
        self.peer = Peer(port, self.revision, capabilities={"elicitation": {}})
        self.connection = RawHttp(port)

    def run(self, calls: int) -> None:
        kinds = [self.add, self.add, self.add, self.echo, self.steps, self.wrong, self.broken, self.once]
        for _ in range(calls):
            self.random.choice(kinds)()
        if self.random.random() < 0.5:
            self.leave()
        if self.peer.session is not None:
            assert self.peer.delete(on=self.connection) == 204
        self.connection.close()
        self.peer.close()

    def call(self, name: str, arguments: Any, meta: Any = None) -> Any:
        with self.peer.call(name, arguments, meta, on=self.connection) as reply:
            return reply.messages()

    def add(self) -> None:
        a, b = self.random.randrange(1000), self.random.randrange(1000)
        [answer] = self.call("add", {"a": a, "b": b})
        assert answer["result"]["content"][0]["text"] == str(a + b)

    def echo(self) -> None:
        text = "é" * self.random.randrange(5000)
        [answer] = self.call("echo", {"text": text})
        assert answer["result"]["content"][0]["text"] == text

    def steps(self) -> None:
        messages = self.call("steps", {"n": 5}, {"progressToken": 7})
        assert [m["params"]["progress"] for m in messages[:-1]] == [1, 2, 3, 4, 5]
        assert messages[-1]["result"]["content"][0]["text"] == "done"

    def wrong(self) -> None:
        [answer] = self.call("nothing", {})
        assert answer["error"]["code"] == -32602

    def broken(self) -> None:
        with self.peer.post(b'{"jsonrpc": "2.0", "id": 1, "meth', on=self.connection) as reply:
            assert (reply.status, reply.json()["error"]["code"]) == (400, -32700)

    def once(self) -> None:
        """A connection for one request."""
        with self.peer.call("add", {"a": 1, "b": 1}) as reply:
            assert reply.answer()["result"]["content"][0]["text"] == "2"

    def leave(self) -> None:
        """In the middle of a call that would last.

        Once it has begun: a cancellation that came before it would be ignored.
        """
        params = {"name": "nap", "arguments": {}, "_meta": {"progressToken": 7}}
        message = self.peer.message("tools/call", params)
        with self.peer.post(message) as reply:
            assert reply.message()["method"] == "notifications/progress"
        if self.peer.session is not None:
            cancelled = {"requestId": message["id"], "reason": "gone"}
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
            with self.peer.post(note, on=self.connection) as reply:
                assert reply.status == 202


def rounds(port: int, calls: int) -> None:
    """All connections at once, each with so many calls. Raises what went wrong in any."""
    problems: list[BaseException] = []

    def one(number: int) -> None:
        try:
            Caller(port, number).run(calls)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if problems:
        raise problems[0]


def test_ten_thousand_calls_leave_no_thread_no_file_and_no_memory_behind(child: Child) -> None:
    """Issue: "a soak of 10,000 mixed calls over 50 connections"."""
    first = child.threads + 1, child.files  # the attendant comes with the first call, and stays
    rounds(child.port, CALLS // CONNECTIONS)
    assert eventually(lambda: (child.threads, child.files) == first, 30), (child.threads, child.files, first)
    before = child.kilobytes
    rounds(child.port, CALLS // CONNECTIONS)
    assert eventually(lambda: (child.threads, child.files) == first, 30), (child.threads, child.files, first)
    assert child.kilobytes < before * 1.1, json.dumps({"before": before, "after": child.kilobytes})
