"""HTTP by hand, for tests of the embedded server: bytes out, and responses read to the letter.

with serving(app) as server, RawHttp(server.port) as client:
    client.send(request("GET", "/"))
    assert client.response().status == 200
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from peers import PATIENCE, nothing_left

from mcp_ref.runtime.serving import HttpServer


class Answer(NamedTuple):
    """A response. `headers` by lower-case name, the last one of a name."""

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
        data = b""
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
def serving(app: Callable[..., Any], **options: Any) -> Iterator[HttpServer]:
    """A server of this process, which leaves nothing behind."""
    with nothing_left():
        server = HttpServer(app, port=0, **options)
        thread = threading.Thread(target=server.serve, name="serving")
        thread.start()
        try:
            yield server
        finally:
            server.close(0.1)
            thread.join(PATIENCE)
            assert not thread.is_alive()
