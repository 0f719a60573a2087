"""HTTP servers that say what a test has them say, byte by byte.

    def handle(request, wire):                     runs on a thread of the connection, once a request
        wire.answer(200, b"{}", "Content-Type: application/json")

    with web(handle) as site:
        ... site.url, site.requests

    with talking(handle, "2025-11-25") as (site, client):      a server of MCP and a client of it;
        ...                                                    `handle` gets what comes after the opening

A handler that returns keeps the connection; `wire.close()` and `wire.reset()` end it. When the block ends,
every connection is ended, and a handler that waits (`wire.gone`, `site.over`) is let go.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from choices import for_connect
from peers import MODERN, PATIENCE, Json, nothing_left

from mcp_ref import Client, connect

JSON, STREAM = "Content-Type: application/json", "Content-Type: text/event-stream"
ABLE = {"tools": {}, "logging": {}, "resources": {"subscribe": True}, "prompts": {}}
INFO = {"name": "web", "version": "1"}


class Request:
    """One request, as it arrived."""

    def __init__(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.method, self.target, self.body = method, target, body
        self.lines = headers
        self.headers = {name.lower(): value for name, value in headers}

    @property
    def message(self) -> Any:
        """The JSON in its body; {} without one."""
        return json.loads(self.body) if self.body else {}

    @property
    def rpc(self) -> str | None:
        """The method of its message."""
        found: str | None = self.message.get("method")
        return found

    def __repr__(self) -> str:
        return f"{self.method} {self.target} {self.body[:200]!r}"


class Wire:
    """The server's end of one connection."""

    def __init__(self, site: Site, connection: socket.socket) -> None:
        self.site = site
        self.socket = connection
        self._held = b""

    # -- in --------------------------------------------------------------------------------

    def read(self) -> Request | None:
        """The next request; None at the end of the connection."""
        while b"\r\n\r\n" not in self._held:
            if not self._more():
                return None
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        length = int({name.lower(): value for name, value in headers}.get("content-length", 0))
        while len(self._held) < length:
            if not self._more():
                return None
        body, self._held = self._held[:length], self._held[length:]
        return Request(method, target, headers, body)

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except OSError:
            return False
        self._held += data
        return bool(data)

    def gone(self, timeout: float = PATIENCE) -> bool:
        """Whether the client ends the connection in time."""
        try:
            self.socket.settimeout(timeout)
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    # -- out -------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Bytes as they are; that the client has left is its own affair."""
        with contextlib.suppress(OSError):
            self.socket.sendall(data)

    def head(self, status: int, *lines: str) -> None:
        """The head of an answer whose body is still to come."""
        self.send("\r\n".join((f"HTTP/1.1 {status} So", *lines, "\r\n")).encode("latin-1"))

    def answer(self, status: int, body: bytes = b"", *lines: str) -> None:
        """A whole answer."""
        head = "\r\n".join((f"HTTP/1.1 {status} So", *lines, f"Content-Length: {len(body)}", "\r\n"))
        self.send(head.encode("latin-1") + body)

    def json(self, message: Any, *lines: str, status: int = 200) -> None:
        """A message as the body of an answer."""
        self.answer(status, json.dumps(message).encode(), JSON, *lines)

    def result(self, request: Request, result: Json, *lines: str, status: int = 200) -> None:
        """The result of a request, in JSON."""
        self.json(result_of(request, result), *lines, status=status)

    def error(self, request: Request, code: int, message: str, status: int = 200, data: Any = None) -> None:
        """An error instead of it."""
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        self.json({"jsonrpc": "2.0", "id": request.message.get("id"), "error": error}, status=status)

    def stream(self, *lines: str) -> None:
        """The head of an event stream, in chunks."""
        self.head(200, STREAM, "Transfer-Encoding: chunked", *lines)

    def chunk(self, data: bytes) -> None:
        """A piece of a body in chunks; b"" is its end."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, message: Any = None, **fields: Any) -> None:
        """One event of a stream in chunks: `event(result_of(...), id="7")`."""
        lines = [f"{name}: {value}" for name, value in fields.items()]
        lines.append(f"data: {json.dumps(message)}" if message is not None else "data:")
        self.chunk(("\n".join(lines) + "\n\n").encode())

    def end(self) -> None:
        """The end of a body in chunks."""
        self.chunk(b"")

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def reset(self) -> None:
        """End the connection without a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


Handler = Callable[[Request, Wire], object]


class Site:
    """A server, and what it was asked."""

    def __init__(self, handle: Handler, tls: ssl.SSLContext | None) -> None:
        self.requests: list[Request] = []
        self.wires: list[Wire] = []
        self.over = threading.Event()
        self._handle = handle
        self._tls = tls
        self._more = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/mcp"
        self._threads = [threading.Thread(target=self._accept, name="web")]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=[connection], name="web connection")
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        wire = Wire(self, connection)
        self.wires.append(wire)
        if self.over.is_set():
            wire.close()
        while (request := wire.read()) is not None:
            with self._more:
                self.requests.append(request)
                self._more.notify_all()
            self._handle(request, wire)
        wire.close()

    def asked(self, wanted: Callable[[Request], object], timeout: float = PATIENCE) -> Request:
        """The first request that is wanted, as soon as it is there."""
        with self._more:
            found: list[Request] = []

            def there() -> bool:
                found[:] = [r for r in self.requests if wanted(r)]
                return bool(found)

            assert self._more.wait_for(there, timeout), f"not asked; there is {self.requests!r:.2000}"
            return found[0]

    def of(self, rpc: str) -> list[Request]:
        """The POSTs of this method, so far."""
        return [r for r in self.requests if r.rpc == rpc]

    def shut(self) -> None:
        """Take no more connections: they are refused."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        """End everything."""
        self.over.set()
        self.shut()
        self._threads[0].join(PATIENCE)
        for wire in self.wires:
            wire.close()
        for thread in self._threads:
            thread.join(PATIENCE)


@contextlib.contextmanager
def web(handle: Handler, tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A server of this process; neither it nor its clients leave anything behind."""
    with nothing_left():
        site = Site(handle, tls)
        try:
            yield site
        finally:
            site.close()


def open_files() -> int:
    """How many descriptors this process has (Linux)."""
    return len(list(Path("/proc/self/fd").iterdir()))


def certificate(place: Path) -> tuple[ssl.SSLContext, str]:
    """What a server needs to speak TLS as 127.0.0.1, and the file by which a client knows it."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=127.0.0.1", "-days", "2"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(place / "cert.pem", place / "key.pem")
    return tls, str(place / "cert.pem")


LIMITS = (0.2, 2.0, 8.0)
"""Seconds of a request that is to be given up after it has arrived: more of them if it had not by then."""


@contextlib.contextmanager
def talking(
    handle: Handler, revision: str = MODERN, session: str | None = None, *, get: bool = False, **options: Any
) -> Iterator[tuple[Site, Client]]:
    """A server of one revision and a client of it; `options` are those of connect."""
    with (
        web(opened(handle, revision, session, get)) as site,
        connect(site.url, **for_connect(revision=revision, **options)) as client,
    ):
        yield site, client


def result_of(request: Request, result: Json) -> Json:
    """The response that carries a result."""
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": result}


def text(words: str = "", **more: Any) -> Json:
    """A result of tools/call."""
    return {"resultType": "complete", "content": [{"type": "text", "text": words}], **more}


def opened(handle: Handler, revision: str = MODERN, session: str | None = None, get: bool = False) -> Handler:
    """A server of one revision: answers what opens and ends it, and leaves the rest to `handle`.

    Without `get` there is no stream for what belongs to no request.
    """

    def handler(request: Request, wire: Wire) -> object:
        rpc = request.rpc
        if request.method == "DELETE" or (request.method == "GET" and not get):
            return wire.answer(405)
        if rpc == "server/discover":
            if revision != MODERN:
                return wire.answer(400, b"what?", "Content-Type: text/plain")
            found = {"supportedVersions": [MODERN], "capabilities": ABLE, "ttlMs": 0, "cacheScope": "private"}
            return wire.result(request, {"resultType": "complete", **found})
        if rpc == "initialize":
            lines = [] if session is None else [f"Mcp-Session-Id: {session}"]
            result = {"protocolVersion": revision, "capabilities": ABLE, "serverInfo": INFO}
            return wire.result(request, result, *lines)
        if rpc is not None and rpc.startswith("notifications/") and rpc != "notifications/mine":
            return wire.answer(202)
        if rpc == "tools/list" and revision == MODERN:
            lists = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
            return wire.result(request, lists)
        return handle(request, wire)

    return handler
