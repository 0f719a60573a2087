"""HTTP by hand: bytes out, and responses read to the letter.

with serving(app) as server, RawHttp(server.port) as client:      any WSGI application
    client.send(request("GET", "/"))
    assert client.response().status == 200

with endpoint(Server("books")) as at, Peer(at.port, "2025-11-25") as peer:      an MCP server
    with peer.ask("tools/call", {"name": "slow", "arguments": {}}) as reply:
        assert reply.message()["method"] == "notifications/progress"
    assert peer.request("ping") == {}

A `Peer` sends the headers of its revision, in a session if that has them; each request has a connection
of its own, unless it is given one (`on`). A `Reply` is read as it comes: pieces, events or messages.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from choices import for_http
from peers import META, MODERN, PATIENCE, Json, nothing_left

from mcp_ref.runtime.http_server.receiving import Limits
from mcp_ref.runtime.http_server.server import HttpServer


class Answer(NamedTuple):
    """A response. `headers` by lower-case name, the last one of a name; of challenges all."""

    version: str
    status: int
    headers: dict[str, str]
    body: bytes


def request(
    method: str = "GET", path: str = "/", body: bytes | None = None, *lines: str, version: str = "HTTP/1.1"
) -> bytes:
    """The bytes of a request; `lines` are further header lines."""
    head = [f"{method} {path} {version}", "Host: here", *lines]
    if body is not None:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*head, "\r\n")).encode("latin-1") + (body or b"")


def chunks(*pieces: bytes) -> bytes:
    """A body in chunks, with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


class RawHttp:
    """A connection to a server of this machine."""

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held = b""

    def send(self, data: bytes) -> RawHttp:
        self.socket.sendall(data)
        return self

    def receive(self) -> bytes:
        """What came with the next read; b"" at the end."""
        data, self._held = self._held or self.socket.recv(65536), b""
        return data

    def until(self, mark: bytes) -> bytes:
        """Everything up to and with the mark."""
        data = b""
        while mark not in data:
            more = self.receive()
            if not more:
                raise EOFError(f"the connection ended after {data!r}")
            data += more
        found, _, self._held = data.partition(mark)
        return found + mark

    def exactly(self, size: int) -> bytes:
        data, self._held = self._held, b""
        while len(data) < size:
            more = self.receive()
            if not more:
                raise EOFError(f"the connection ended after {len(data)} of {size} bytes")
            data += more
        data, self._held = data[:size], data[size:]
        return data

    def head(self) -> Answer:
        """The head of a response; its body is still to be read."""
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1")[:-4].split("\r\n")
        version, status, *_ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        challenges = [line for line in lines if line.lower().startswith("www-authenticate:")]
        if challenges:
            headers["www-authenticate"] = ", ".join(line.partition(":")[2].strip() for line in challenges)
        return Answer(version, int(status), headers, b"")

    def chunk(self) -> bytes:
        """One chunk; b"" is the end of the body."""
        size = int(self.until(b"\r\n"), 16)
        return self.exactly(size + 2)[:-2]

    def response(self, *, to_head: bool = False) -> Answer:
        """A whole response, framed as its head says."""
        answer = self.head()
        if to_head or answer.status in (204, 304):
            return answer
        if answer.headers.get("transfer-encoding") == "chunked":
            body = b"".join(iter(self.chunk, b""))
        elif "content-length" in answer.headers:
            body = self.exactly(int(answer.headers["content-length"]))
        else:
            body = self.rest()
        return answer._replace(body=body)

    def rest(self) -> bytes:
        """All that comes until the server ends the connection."""
        return b"".join(iter(self.receive, b""))

    def ended(self) -> bool:
        """Whether the server ends the connection, properly and without another byte."""
        return self.receive() == b""

    def reset(self) -> None:
        """Leave without a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawHttp:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextlib.contextmanager
def serving(app: Callable[..., Any], *, port: int = 0, **options: Any) -> Iterator[HttpServer]:
    """A server of this process, which leaves nothing behind."""
    with nothing_left():
        server = HttpServer(app, port=port, limits=Limits(**options))
        thread = threading.Thread(target=server.serve, name="serving")
        thread.start()
        try:
            yield server
        finally:
            server.close(0.1)
            thread.join(PATIENCE)
            assert not thread.is_alive()


# ------------------------------------------------------------------------------ event streams


class Event(NamedTuple):
    """A block of a stream of server-sent events; all that is not there is None."""

    data: str | None = None
    id: str | None = None
    event: str | None = None
    retry: str | None = None
    comment: str | None = None

    @property
    def message(self) -> Any:
        """The JSON in it."""
        assert self.data, f"{self} has no message"
        return json.loads(self.data)


def read_event(block: str) -> Event:
    """One block, strictly: each field at most once, nothing that no page of the specification knows."""
    fields: dict[str, str] = {}
    for line in block.split("\n"):
        name, colon, value = line.partition(":")
        name = name or "comment"
        assert colon and name in Event._fields and name not in fields, f"{line!r} in {block!r}"
        fields[name] = value.removeprefix(" ")
    return Event(**fields)


class Reply:
    """A response whose head was read; its body is read as it comes."""

    def __init__(self, connection: RawHttp, *, keep: bool = False) -> None:
        self.connection = connection
        self._keep = keep
        head = connection.head()
        self.status, self.headers = head.status, head.headers
        self.is_chunked = self.headers.get("transfer-encoding") == "chunked"
        length = self.headers.get("content-length")
        self._left = None if length is None else int(length)
        if self.status in (204, 304):
            self._left = 0
        self._text = b""

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def piece(self) -> bytes:
        """What comes next of the body; b"" at its end. EOFError where it ends before that."""
        if self.is_chunked:
            return self.connection.chunk()
        if self._left is None:
            return self.connection.receive()
        piece, self._left = self.connection.exactly(self._left), 0
        return piece

    def body(self) -> bytes:
        """All that is still to come."""
        held, self._text = self._text, b""
        return held + b"".join(iter(self.piece, b""))

    def json(self) -> Any:
        """The one object that it is."""
        assert self.headers["content-type"] == "application/json", self.headers
        return json.loads(self.body())

    def block(self) -> Event | None:
        """The next block of a stream, comments included; None at the end."""
        while b"\n\n" not in self._text:
            piece = self.piece()
            if not piece:
                assert not self._text, f"the stream ends within {self._text!r}"
                return None
            self._text += piece
        block, _, self._text = self._text.partition(b"\n\n")
        return read_event(block.decode())

    def event(self) -> Event | None:
        """The next event, which is not only a comment; None at the end."""
        assert self.is_stream, (self.status, self.headers)
        while (block := self.block()) is not None:
            if block != Event(comment=block.comment):
                return block
        return None

    def events(self) -> list[Event]:
        """All events until the end."""
        return list(iter(self.event, None))

    def message(self) -> Json | None:
        """The next message of a stream; None at the end."""
        while (event := self.event()) is not None:
            if event.data:
                found: Json = event.message
                return found
        return None

    def messages(self) -> list[Json]:
        """All messages until the end, whether it is a stream or one object."""
        if not self.is_stream:
            return [self.json()]
        return list(iter(self.message, None))

    def answer(self) -> Json:
        """The response: the last message, after which nothing comes."""
        return self.messages()[-1]

    def close(self) -> None:
        """Leave, read or not."""
        if not self._keep:
            self.connection.close()

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


# -------------------------------------------------------------------------------- an MCP client


def encoded(message: Any) -> bytes:
    """The body of a POST: bytes as they are, anything else as JSON."""
    return message if isinstance(message, bytes) else json.dumps(message).encode()


class Peer:
    """A client of an MCP endpoint, by hand. Of a legacy revision it opens a session, unless told not to."""

    def __init__(
        self,
        port: int,
        revision: str | None = MODERN,
        *,
        path: str = "/mcp",
        capabilities: Json | None = None,
        opens: bool = True,
        headers: Json | None = None,
    ) -> None:
        """`headers` goes with every request; a value None takes one away."""
        self.port, self.revision, self.path = port, revision, path
        self.more = headers or {}
        self.session: str | None = None
        self.opened: Json = {}
        self._capabilities = capabilities or {}
        self._ids = itertools.count(1)
        self._connections: list[RawHttp] = []
        if opens and revision not in (None, MODERN):
            self.initialize()

    # -- what is sent

    def message(self, method: str, params: Json | None = None, **members: Any) -> Json:
        """A request of this revision with the next id; `id=...` names another one."""
        params = dict(params or {})
        if self.revision == MODERN:
            meta = {**META, "io.modelcontextprotocol/clientCapabilities": self._capabilities}
            params["_meta"] = {**meta, **params.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params, **members}

    def headers(self, message: Any = None) -> Json:
        """Those that go with a message."""
        found: Json = {
            "Host": f"127.0.0.1:{self.port}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": None if message is None else "application/json",
            "Mcp-Session-Id": self.session,
        }
        if self.session is not None and self.revision not in (None, "2025-03-26"):
            found["MCP-Protocol-Version"] = self.revision
        if self.revision == MODERN and isinstance(message, dict):
            params = message.get("params") or {}
            found["MCP-Protocol-Version"] = MODERN
            found["Mcp-Method"] = message.get("method")
            if message.get("method") in ("tools/call", "prompts/get", "resources/read"):
                found["Mcp-Name"] = params.get("name", params.get("uri"))
        return found

    def send(
        self, method: str, message: Any = None, *, on: RawHttp | None = None, path: str = "", **headers: Any
    ) -> RawHttp:
        """Send an HTTP request, without waiting for anything; `Mcp_Name=...` is a header."""
        connection = on or self.connect()
        found = {**self.headers(message), **self.more}
        found.update({name.replace("_", "-"): value for name, value in headers.items()})
        lines = [f"{method} {path or self.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in found.items() if value is not None]
        body = b"" if message is None else encoded(message)
        if message is not None:
            lines.append(f"Content-Length: {len(body)}")
        return connection.send("\r\n".join((*lines, "\r\n")).encode("latin-1") + body)

    def connect(self) -> RawHttp:
        """A new connection, which ends with this client at the latest."""
        self._connections.append(RawHttp(self.port))
        return self._connections[-1]

    # -- requests of HTTP

    def http(self, method: str, message: Any = None, *, on: RawHttp | None = None, **more: Any) -> Reply:
        """Send an HTTP request, and read the head of its response."""
        return Reply(self.send(method, message, on=on, **more), keep=on is not None)

    def post(self, message: Any, **more: Any) -> Reply:
        """POST a message, a batch, or bytes."""
        return self.http("POST", message, **more)

    def get(self, after: str | None = None, **more: Any) -> Reply:
        """GET a stream, or the rest of one."""
        return self.http("GET", **{"Accept": "text/event-stream", "Last_Event_ID": after, **more})

    def delete(self, **more: Any) -> int:
        """DELETE the session; the status."""
        with self.http("DELETE", **more) as reply:
            return reply.status

    # -- requests of MCP

    def ask(self, method: str, params: Json | None = None, **members: Any) -> Reply:
        """POST a request."""
        return self.post(self.message(method, params, **members))

    def call(
        self, tool: str, arguments: Json | None = None, meta: Json | None = None, **headers: Any
    ) -> Reply:
        """POST a tools/call."""
        params = {"name": tool, "arguments": arguments or {}, **({"_meta": meta} if meta else {})}
        return self.post(self.message("tools/call", params), **headers)

    def request(self, method: str, params: Json | None = None, **members: Any) -> Any:
        """POST a request; its result, or its error as it is."""
        with self.ask(method, params, **members) as reply:
            answer = reply.answer()
            return answer["result"] if "result" in answer else answer["error"]

    def tell(self, message: Json, **more: Any) -> int:
        """POST a notification or an answer; the status. Its body must be empty where that is 202."""
        with self.post({"jsonrpc": "2.0", **message}, **more) as reply:
            assert reply.status != 202 or reply.body() == b""
            return reply.status

    def initialize(self) -> None:
        """The handshake."""
        info = {"name": "raw", "version": "1"}
        params = {
            "protocolVersion": self.revision,
            "capabilities": self._capabilities,
            "clientInfo": info,
        }
        with self.ask("initialize", params) as reply:
            self.session = reply.headers.get("mcp-session-id")
            self.opened = reply.answer()["result"]
        assert self.tell({"method": "notifications/initialized"}) == 202

    def close(self) -> None:
        """Leave; sessions stay behind."""
        for connection in self._connections:
            connection.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Endpoint(NamedTuple):
    """An MCP server that is served in this process."""

    port: int
    app: Any
    http: HttpServer


@contextlib.contextmanager
def endpoint(
    server: Any, *, grace: float = 0.0, http: Json | None = None, **options: Any
) -> Iterator[Endpoint]:
    """Serve a Server with `wsgi_app(**options)` on the embedded server, which leaves nothing behind."""
    app = server.wsgi_app(**for_http(options))
    with serving(app, **(http or {})) as serving_it:
        try:
            yield Endpoint(serving_it.port, app, serving_it)
        finally:
            app.close(grace)
