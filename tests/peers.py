"""Peers that speak by hand: what the tests use where one side must be raw bytes.

    RawClient(source or command)   starts a server child (or takes a Server of this process) and says
                                   what it is told to, well-formed or not
    raw_server(script)             a command: a child that is a server made of a few lines of script
    Notes()                        what such a child tells the test, as its `on_stderr`
    tap(command, file)             a command: the same server, with all that crosses the wire in a file
    source(...)                    the text of a server child made with this package
    one_sentence(message)          what an error says, checked
    nothing_left()                 around a test: it leaves no thread and no child process behind
    port_kept()                    a port for a child to listen at, which nothing else is given meanwhile
    plain(value)                   the id of a case, which is the same in every run

Every wait has the limit PATIENCE and ends as soon as what is waited for is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mcp_ref.basic.transports import index as memory

ROOT = str(Path(__file__).resolve().parents[1])
ENV = {"PYTHONPATH": ROOT}
"""What a child needs besides the safe environment: `ClientOptions(env=ENV)`."""

PATIENCE = 20.0
"""Seconds after which a test gives up waiting; never how long it waits."""

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
REVISIONS = (*LEGACY, MODERN)

Json = dict[str, Any]

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}
"""The `_meta` of every modern request."""


def source(body: str, *, options: str = "") -> str:
    """The text of a server child: `body` adds tools to `server`, then it runs.

    `options` are further arguments of `Server(...)`, as text.
    """
    opening = "from mcp_ref import Context, Server, ServerOptions\n"
    opening += f"server = Server('raw tests', version='1', {options})\n"
    return opening + textwrap.dedent(body) + "\nserver.run()\n"


def python(text: str) -> list[str]:
    """The command that runs a text as a Python program."""
    return [sys.executable, "-c", text]


# ------------------------------------------------------------------------- a raw client


class RawClient:
    """A client that sends the bytes it is told to, to a real child or to a Server of this process.

    What arrives is decoded with the standard library and waits in `receive`; a message that `answer`
    or `until` had to step over stays in `aside`. Without `revision` nothing is sent on its own.
    """

    def __init__(
        self,
        target: Any,
        *,
        revision: str | None = None,
        capabilities: Json | None = None,
        env: Json | None = None,
    ) -> None:
        self.revision = revision
        self.aside: list[Any] = []
        self.stderr: list[str] = []
        self._ids = iter(range(1, 1 << 30))
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.child: subprocess.Popen[bytes] | None = None
        self._link: memory.Link | None = None
        if isinstance(target, str | list | tuple):
            self._start(python(target) if isinstance(target, str) else target, env)
        else:
            self._link = memory.Link(target)
            self._run("raw reader", self._read_link)
        if revision is not None and revision != MODERN:
            try:
                self.initialize(revision, capabilities)
            except BaseException:
                self.close()
                raise

    def _start(self, command: Sequence[str], env: Json | None) -> None:
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **ENV, **(env or {})},
            bufsize=0,
        )
        self._run("raw reader", self._read_child)
        self._run("raw stderr", self._read_stderr)

    def _run(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads = [*getattr(self, "_threads", []), thread]
        thread.start()

    def _read_child(self) -> None:
        assert self.child is not None and self.child.stdout is not None
        with open(self.child.stdout.fileno(), "rb", closefd=False) as lines:
            for line in lines:
                self._arrived.put(json.loads(line))
        self._arrived.put(EOFError("the server closed its output"))

    def _read_stderr(self) -> None:
        assert self.child is not None and self.child.stderr is not None
        with open(self.child.stderr.fileno(), "rb", closefd=False) as lines:
            for line in lines:
                self.stderr.append(line.decode("utf-8", "replace").rstrip("\n"))

    def _read_link(self) -> None:
        assert self._link is not None
        self._link.read(lambda line: self._arrived.put(json.loads(line)), lambda *told: None, 1 << 30)
        self._arrived.put(EOFError("the server closed its output"))

    # -- out ---------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self._link is not None:
            self._link.write(data)
            return
        assert self.child is not None and self.child.stdin is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self.child.stdin.write(rest) :]

    def send(self, *messages: Any) -> None:
        """Send messages, one a line, in a single write."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def message(self, method: str, params: Json | None = None, **members: Any) -> Json:
        """A request of this revision with the next id; `id=...` names another one."""
        params = dict(params or {})
        if self.revision == MODERN:
            params["_meta"] = {**META, **params.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params, **members}

    def ask(self, method: str, params: Json | None = None, **members: Any) -> Any:
        """Send a request; its id."""
        message = self.message(method, params, **members)
        self.send(message)
        return message["id"]

    def call(self, tool: str, arguments: Json | None = None, meta: Json | None = None, **members: Any) -> Any:
        """Send a tools/call; its id."""
        params = {"name": tool, "arguments": arguments or {}, **({"_meta": meta} if meta else {})}
        return self.ask("tools/call", params, **members)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    def initialize(self, revision: str, capabilities: Json | None = None) -> Json:
        """The legacy handshake; the InitializeResult."""
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": info}
        opened: Json = self.answer(self.ask("initialize", params))["result"]
        self.notify("notifications/initialized")
        return opened

    # -- in -----------------------------------------------------------------------------

    def receive(self, timeout: float = PATIENCE) -> Any:
        """The next message. Raises EOFError at the end of output, TimeoutError if there is none."""
        if self.aside:
            return self.aside.pop(0)
        return self._next(timeout)

    def _next(self, timeout: float) -> Any:
        try:
            message = self._arrived.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"nothing arrived in {timeout:g} s; stderr: {self.stderr[-5:]}") from None
        if isinstance(message, Exception):
            self._arrived.put(message)  # the end stays the end
            raise message
        return message

    def until(self, wanted: Callable[[Any], bool], timeout: float = PATIENCE) -> Any:
        """The first message that is wanted; others wait in `aside`."""
        for index, message in enumerate(self.aside):
            if wanted(message):
                return self.aside.pop(index)
        end = time.monotonic() + timeout
        while True:
            message = self._next(max(0.0, end - time.monotonic()))
            if wanted(message):
                return message
            self.aside.append(message)

    def answer(self, request_id: Any, timeout: float = PATIENCE) -> Json:
        """The response with this id."""
        found: Json = self.until(
            lambda m: isinstance(m, dict) and "method" not in m and m.get("id", ()) == request_id, timeout
        )
        return found

    def request(self, method: str, params: Json | None = None, **members: Any) -> Json:
        """Send a request and wait for its response."""
        return self.answer(self.ask(method, params, **members))

    def is_alive(self) -> bool:
        """Whether the server answers a further request: what bad input must not change."""
        method = "server/discover" if self.revision == MODERN else "ping"
        return "result" in self.request(method)

    # -- the end -------------------------------------------------------------------------

    def end_input(self) -> None:
        """Close the server's stdin."""
        assert self.child is not None and self.child.stdin is not None
        self.child.stdin.close()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Until the child is gone; its exit code."""
        assert self.child is not None
        code = self.child.wait(timeout)
        for thread in self._threads:
            thread.join(timeout)
        return code

    def close(self) -> None:
        """End of input, and the end of whatever does not end by itself."""
        if self._link is not None:
            self._link.close()
        elif self.child is not None:
            self.end_input()
            try:
                self.child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        for thread in self._threads:
            thread.join(PATIENCE)
        if self._link is not None:
            self._link.release()
        elif self.child is not None:
            for stream in (self.child.stdout, self.child.stderr):
                if stream is not None:
                    stream.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


# ------------------------------------------------------------------------- a raw server

_RAW_SERVER = '''
import json, os, sys, time
_held = b""

def line():
    """The next line of input, as bytes; None at its end."""
    global _held
    while b"\\n" not in _held:
        data = os.read(0, 65536)
        if not data:
            return None
        _held += data
    first, _, _held = _held.partition(b"\\n")
    return first

def receive(*wanted):
    """The next message, or the next one of these methods ("" is a response). Ends with the input."""
    while (text := line()) is not None:
        message = json.loads(text)
        note(message)
        if not wanted or message.get("method", "") in wanted:
            return message
    sys.exit(0)

def write(data):
    """Bytes as they are."""
    while data:
        data = data[os.write(1, data):]

def send(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")

def answer(request, result):
    send(id=request["id"], result=result)

def error(request, code, message="no", **more):
    send(id=request["id"], error={"code": code, "message": message, **more})

def note(what):
    """Tell the test: one line of stderr, see `notes`."""
    os.write(2, json.dumps(what).encode() + b"\\n")

INFO = {"name": "raw server", "version": "1"}
ABLE = {"tools": {}, "logging": {}}

def discovered(**more):
    return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": ABLE,
            "ttlMs": 0, "cacheScope": "private", **more}

def open_modern():
    """Answer the probe of a client; the request."""
    request = receive("server/discover")
    answer(request, discovered())
    return request

def open_legacy(revision=None):
    """Refuse the probe, if there is one, and answer `initialize`; the request."""
    request = receive("server/discover", "initialize")
    while request["method"] != "initialize":
        error(request, -32601, "Method not found")
        request = receive("server/discover", "initialize")
    agreed = revision or request["params"]["protocolVersion"]
    answer(request, {"protocolVersion": agreed, "capabilities": ABLE, "serverInfo": INFO})
    receive("notifications/initialized")
    return request

def open_any(revision):
    """Open as a server of one revision."""
    return open_modern() if revision == "2026-07-28" else open_legacy(revision)

def text(words="", **more):
    """A result of tools/call."""
    return {"resultType": "complete", "content": [{"type": "text", "text": words}], **more}

def go_on(result={"resultType": "complete"}):
    """Answer whatever is asked with one result, until end of input."""
    while True:
        message = receive()
        if "method" in message and "id" in message:
            answer(message, discovered() if message["method"] == "server/discover" else result)
'''


def raw_server(script: str) -> list[str]:
    """The command of a server that is `script`; the functions above it are its vocabulary.

    Each message it receives is a line of its stderr: `ClientOptions(on_stderr=notes)` with `Notes()`.
    """
    return [sys.executable, "-S", "-E", "-c", _RAW_SERVER + textwrap.dedent(script)]


_TAP = """
import os, subprocess, sys, threading
record = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def copy(mark, source, target):
    for line in source:
        os.write(record, mark + line)
        target.write(line)
        target.flush()
    target.close()

threading.Thread(target=copy, args=(b"<", child.stdout, sys.stdout.buffer)).start()
copy(b">", sys.stdin.buffer, child.stdin)
sys.exit(child.wait())
"""


def tap(command: Sequence[str], record: Path) -> list[str]:
    """The command of a server whose wire is recorded; `recorded` reads the file afterwards."""
    return [sys.executable, "-S", "-E", "-c", _TAP, str(record), *command]


def recorded(record: Path) -> tuple[list[Any], list[Any]]:
    """What the client sent and what the server sent."""
    lines = record.read_bytes().splitlines()
    sent = [json.loads(line[1:]) for line in lines if line.startswith(b">")]
    return sent, [json.loads(line[1:]) for line in lines if line.startswith(b"<")]


class Notes:
    """What a raw server says to people, one JSON value a line: give it as `on_stderr`."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._more = threading.Condition()

    def __call__(self, line: str) -> None:
        try:
            value: Any = json.loads(line)
        except ValueError:
            value = line
        with self._more:
            self.all.append(value)
            self._more.notify_all()

    def until(self, wanted: Callable[[Any], bool], timeout: float = PATIENCE) -> Any:
        """The first value that is wanted, as soon as it is there."""
        end = time.monotonic() + timeout
        with self._more:
            while True:
                for value in self.all:
                    if wanted(value):
                        return value
                if not self._more.wait(max(0.0, end - time.monotonic())):
                    raise TimeoutError(f"not noted in {timeout:g} s; there is {self.all!r:.2000}")

    def message(self, method: str) -> Json:
        """The first message of this method that the server received."""
        found: Json = self.until(lambda m: isinstance(m, dict) and m.get("method") == method)
        return found


def one_sentence(message: str) -> str:
    """The message of an error, which is one concise sentence: clauses may be parted by semicolons."""
    assert re.search(r"[\r\n]|[.!?][\"')]*\s+[A-Z]", message) is None, f"several sentences: {message!r}"
    assert 0 < len(message) <= 1000, f"not concise: {message!r}"
    return message


# ----------------------------------------------------------------------- around a test

PORTS = range(10_000, 20_000)
"""Below those that a system gives to sockets that ask for any: it gives none of these away."""


@contextlib.contextmanager
def port_kept() -> Iterator[int]:
    """A free port of this machine, for who must be told it before it listens there, and for nobody.

    Until the block ends no other process of the tests is given it: who has the UDP port of a number has its
    TCP port too, which itself stays free.
    """
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kept:
            try:
                kept.bind(("127.0.0.1", port))
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                continue
            yield port
            return
    raise OSError("no port is free")


def eventually(condition: Callable[[], Any], timeout: float = PATIENCE) -> bool:
    """Whether it becomes true in time. For what offers nothing to wait on, such as a process table."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        threading.Event().wait(0.005)
    return True


def plain(value: Any) -> str:
    """As `ids` of a parametrized test: the value in words, without addresses, and in one order."""
    value = sorted(value) if isinstance(value, set) else value
    return re.sub(r" at 0x[0-9a-f]+", "", value if isinstance(value, str) else repr(value))


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Fails if the block leaves threads or children of this process behind."""
    before = set(threading.enumerate())
    children = _children()
    yield

    def left() -> set[threading.Thread]:
        return {t for t in set(threading.enumerate()) - before if t.name != "mcp_ref timers"}

    assert eventually(lambda: not left()), f"threads left behind: {left()}"
    assert eventually(lambda: not _children() - children), f"children left behind: {_children() - children}"


def _children() -> set[int]:
    """The children of this process, zombies included (Linux; elsewhere nothing is known)."""
    found: set[int] = set()
    for listing in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that ended meanwhile
            found.update(map(int, listing.read_text().split()))
    return found
