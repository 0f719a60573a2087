"""The raw peer over HTTP: sockets that stay open, and requests that were made beforehand.

Both servers get the same bytes: the headers that any client's library sends, nothing tuned to one of
them. An answer is whole when its length is reached or its last chunk is there; nothing more of it is
looked at while a clock runs.
"""

from __future__ import annotations

import json
import random
import re
import socket
import time
from typing import Any

from wire import LEGACY, META, MODERN, OURS, PATIENCE, Client, Package, Process

HOST = "127.0.0.1"
PATH = "/mcp"
PIECE = 1 << 16
LAST_CHUNK = b"\r\n0\r\n\r\n"
"""How a chunked body ends. No event does: messages end in a brace."""

_length = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def is_whole(data: bytes) -> bool:
    """Whether an answer is complete."""
    head, blank, body = data.partition(b"\r\n\r\n")
    if not blank:
        return False
    length = _length.search(head)
    return len(body) >= int(length[1]) if length else data.endswith(LAST_CHUNK)


class Socket:
    """One connection, kept."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """The whole answer to a request, head and body."""
        self.socket.sendall(request)
        data = self._piece()
        while not is_whole(data):
            data += self._piece()
        return data

    def open_stream(self, request: bytes) -> None:
        """Send a request and wait for the head of its answer, which goes on."""
        self.socket.sendall(request)
        data = self._piece()
        while b"\r\n\r\n" not in data:
            data += self._piece()
        if not data.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"no stream: {data[:500]!r}")

    def ask_for_much(self, request: bytes) -> bytes:
        """As `ask`, where the answer comes in very many pieces: each is looked at once."""
        self.socket.sendall(request)
        data = self._piece()
        while b"\r\n\r\n" not in data:
            data += self._piece()
        pieces = [data]
        head, _, body = data.partition(b"\r\n\r\n")
        length = _length.search(head)
        if length is None:
            while not b"".join(pieces[-len(LAST_CHUNK) :]).endswith(LAST_CHUNK):
                pieces.append(self._piece())
        else:
            missing = int(length[1]) - len(body)
            while missing > 0:
                pieces.append(self._piece())
                missing -= len(pieces[-1])
        return b"".join(pieces)

    def close(self) -> None:
        self.socket.close()

    def _piece(self) -> bytes:
        data = self.socket.recv(PIECE)
        if not data:
            raise SystemExit("the server closed a connection in the middle")
        return data


class HttpServer(Process):
    """A server under load, which answers as told: with JSON, with event streams, or as it likes ("auto")."""

    def __init__(self, package: Package, answers: str, extra_tools: int = 0) -> None:
        self.port = _free_port()
        script = f"http_server_{package.name}.py"
        super().__init__(package, script, str(self.port), answers, str(extra_tools))
        self.sockets: list[Socket] = []
        while not self._listens():
            if self.has_ended or time.perf_counter() - self.started > PATIENCE:
                self.close()
                raise SystemExit(f"{self.script} does not listen")
            time.sleep(0.01)

    def _listens(self) -> bool:
        try:
            Socket(self.port).close()
        except ConnectionRefusedError:
            return False
        return True

    def connect(self) -> Socket:
        """A connection, closed when the server is."""
        self.sockets.append(Socket(self.port))
        return self.sockets[-1]

    def close(self) -> None:
        """First our side, then the server, politely."""
        for connection in self.sockets:
            connection.close()
        self.terminate()
        super().close()


PORTS = range(20_000, 30_000)
"""Below those that Linux gives to sockets that ask for any: so no other program is given one meanwhile."""


def _free_port() -> int:
    while True:
        port = random.choice(PORTS)
        try:
            socket.create_server((HOST, port)).close()
        except OSError:
            continue
        return port


class Peer:
    """A client of one revision: in the legacy era with a session of its own."""

    def __init__(self, server: HttpServer, revision: str, connection: Socket | None = None) -> None:
        self.revision, self.session = revision, ""
        self.host = f"{HOST}:{server.port}"
        self.connection = connection or server.connect()
        if revision == LEGACY:
            self._open_session()

    def _open_session(self) -> None:
        info = {"name": "raw", "version": "1.0.0"}
        hello = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": info}
        answer = self.connection.ask(self.request("hello", "initialize", hello))
        found = re.search(rb"\r\nmcp-session-id: *(\S+)", answer, re.IGNORECASE)
        if found is None:
            raise SystemExit(f"no session: {answer[:500]!r}")
        self.session = found[1].decode("ascii")
        said = self.connection.ask(self._post({"method": "notifications/initialized"}))
        if not said.startswith(b"HTTP/1.1 202"):
            raise SystemExit(f"no session: {said[:500]!r}")

    def request(self, request_id: int | str, method: str, params: dict[str, Any]) -> bytes:
        """A request, as it goes over the wire."""
        if self.revision == MODERN:
            params = {**params, "_meta": META}
        return self._post({"id": request_id, "method": method, "params": params})

    def call(self, request_id: int | str, tool: str, **arguments: Any) -> bytes:
        """A call."""
        return self.request(request_id, "tools/call", {"name": tool, "arguments": arguments})

    def _post(self, message: dict[str, Any]) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
        headers = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if self.revision == MODERN:
            headers += [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {message['method']}"]
            if "name" in message["params"]:
                headers.append(f"Mcp-Name: {message['params']['name']}")
        return self._head("POST", "application/json, text/event-stream", headers) + body

    def listen(self) -> bytes:
        """The GET of a stream."""
        return self._head("GET", "text/event-stream", [])

    def _head(self, verb: str, accept: str, headers: list[str]) -> bytes:
        lines = [
            f"{verb} {PATH} HTTP/1.1",
            f"Host: {self.host}",
            "User-Agent: raw/1.0.0",
            "Accept-Encoding: gzip, deflate",
            f"Accept: {accept}",
            "Connection: keep-alive",
            *headers,
        ]
        if self.session:
            lines += [f"Mcp-Session-Id: {self.session}", f"MCP-Protocol-Version: {self.revision}"]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


def check_sum(peer: Peer, answers: str) -> None:
    """That a server adds, and answers in the way it was told to."""
    answer = peer.connection.ask(peer.call("sum", "add", a=2, b=3))
    streamed = b"text/event-stream" in answer.partition(b"\r\n\r\n")[0]
    if result_of(answer).get("structuredContent") != {"result": 5} or streamed != (answers == "stream"):
        raise SystemExit(f"a wrong answer: {answer[:500]!r}")


def body_of(answer: bytes) -> bytes:
    """An answer's body, its chunks put together: they may end anywhere, within a word too."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if _length.search(head):
        return rest
    pieces = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        end = int(size, 16)
        pieces.append(rest[:end])
        rest = rest[end + 2 :]
    return b"".join(pieces)


def result_of(answer: bytes) -> Any:
    """The result that is somewhere in an answer: in its last line that is JSON."""
    for text in reversed(body_of(answer).split(b"\n")):
        text = text.strip().removeprefix(b"data:").strip()
        if text.startswith(b"{"):
            return json.loads(text).get("result", {})
    return {}


class HttpClient(Client):
    """A client library, against the raw server."""

    def __init__(self, package: Package, revision: str, answers: str) -> None:
        self._raw = Process(OURS, "http_raw_server.py")
        port = int(self._raw.read_line())
        super().__init__(package, revision, f"http://{HOST}:{port}/{answers}")

    def close(self) -> None:
        super().close()
        self._raw.close()
