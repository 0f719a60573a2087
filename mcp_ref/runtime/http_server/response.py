"""The response of a WSGI application, written by the embedded HTTP server in as few writes as possible.

    a list or tuple         head, Content-Length and the whole body in one write
    any other iterable      the head goes out with the first piece, even an empty one; each piece at once,
                            in a chunk of its own unless the application gave a Content-Length
    `write(...)`            the same; a list that is returned afterwards goes out together with the end

A client of HTTP/1.0 gets no chunks: there the end of the connection is the end of the body.

While the thread of the application is busy, any thread may end the response for it:
`environ["mcp_ref.response"].end_early()`. The connection takes no other request after that.

Errors      a client that reads nothing for too long is a ConnectionAbortedError, one that left is the
            system's own error; `is_broken` is set then. A mistake of the application raises ValueError,
            TypeError or AssertionError, before anything wrong was sent.
Threads     the connection's own, or any that calls `write`, one at a time.
"""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable, Iterable
from email.utils import formatdate
from types import TracebackType
from typing import Protocol

from mcp_ref.runtime.http_server.receiving import Body
from mcp_ref.runtime.http_server.request import FIELD_BYTES

__all__ = ["Response", "short_response"]

ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]

MAX_JOINED_BYTES = 65536
"""The most bytes that are joined for one write; copying more takes longer than a second write."""


@functools.lru_cache(maxsize=1)
def _http_date(second: int) -> str:
    return formatdate(second, usegmt=True)


def short_response(status: str, message: str, *header_lines: str) -> bytes:
    """A whole response with one line of text, after which the connection is closed."""
    text = f"{message}\n".encode("ascii", "backslashreplace")
    head = f"HTTP/1.1 {status}", "Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(text)}"
    date = f"Date: {_http_date(int(time.time()))}"
    lines = [*head, date, "Connection: close", *header_lines, "\r\n"]
    return "\r\n".join(lines).encode("ascii") + text


class Closes(Protocol):
    """The server of a connection, as far as a response has to know it."""

    is_closing: bool


class Response:
    """One response."""

    def __init__(
        self,
        connection: socket.socket,
        server: Closes,
        *,
        is_http_1_0: bool,
        is_head: bool,
        wants_close: bool,
        body: Body | None = None,
    ) -> None:
        """The connection is closed after this response if the client `wants_close`, if the server is closing,
        or if the request has a `body` that will not be read to its end.
        """
        self._connection = connection
        self._is_http_1_0 = is_http_1_0
        self._is_head = is_head
        self._server, self._body = server, body
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self._is_chunked = False
        self._has_no_body = False  # then pieces of the application are dropped
        self._length_left: int | None = None  # bytes of the Content-Length that are still to be sent
        self.has_begun = False
        """Whether the head was sent."""
        self.closes = wants_close
        """Whether the connection is closed after this response."""
        self.is_complete = False
        """Whether all of it was sent."""
        self.is_broken = False
        """Whether sending failed."""

    def send(self, result: Iterable[bytes]) -> None:
        """Send all that the application returned; nothing if `end_early` came first."""
        try:
            if self.is_complete:
                return
            if isinstance(result, list | tuple):
                self._send_end(b"".join(result))
            else:
                for piece in result:
                    self.write(piece)
                    if self._has_no_body:
                        break
                self._send_end(b"")
        finally:
            if hasattr(result, "close"):
                result.close()

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        """WSGI's `start_response`."""
        if exc_info is not None and exc_info[1] is not None:
            if self.has_begun:
                raise exc_info[1].with_traceback(exc_info[2])
        elif self._status:
            raise AssertionError("start_response was called twice, without exc_info")
        self._status = status
        self._headers = headers
        return self.write

    def write(self, piece: bytes) -> None:
        """Send a piece of the body now, with the head before the first one."""
        if not isinstance(piece, bytes):
            raise TypeError(f"the body of a response is bytes, not {type(piece).__name__}")
        head = b"" if self.has_begun else self._head(None)
        if self._has_no_body or not piece:
            if head:
                self._send(head)
        elif self._is_chunked:
            self._send(b"%b%x\r\n" % (head, len(piece)), piece, b"\r\n")
        else:
            self._count(len(piece))
            self._send(head, piece)

    def _send_end(self, piece: bytes) -> None:
        """Send the last piece and the end of the body in one write, with the head if it was not sent."""
        head = b"" if self.has_begun else self._head(len(piece))
        if self._has_no_body:
            piece = b""
        elif self._is_chunked:
            piece = b"%x\r\n%b\r\n0\r\n\r\n" % (len(piece), piece) if piece else b"0\r\n\r\n"
        else:
            if self._length_left is not None and self._length_left != len(piece):
                relation = "shorter" if len(piece) < self._length_left else "longer"
                raise ValueError(f"the body is {relation} than the Content-Length says")
        if head or piece:
            self._send(head, piece)
        self.is_complete = True

    def end_early(self) -> None:
        """End the response before the application returns.

        The client sees the end of the body and of the connection: the connection's thread is still in the
        application, and could not serve another request.
        """
        self.closes = True
        if not self.is_complete:
            self._send_end(b"")
        self._connection.shutdown(socket.SHUT_WR)

    def _head(self, body_bytes: int | None) -> bytes:
        """The head; `body_bytes` is the length of the body where it is known.

        Step 1: the status and the headers of the application. Step 2: how the client finds the end of the
        body (RFC 9112, section 6), and whether the connection is closed. Step 3: the date.
        """
        status = self._status  # Step 1
        if not status:
            raise AssertionError("the application has not called start_response")
        if not (status[:3].isdigit() and status[:3] >= "200" and status[3:4] in ("", " ")):
            raise ValueError(f"not a status: {status!r}")
        lines = [f"HTTP/1.{0 if self._is_http_1_0 else 1} {status}"]
        has_date = self._add_headers(lines)
        self._add_framing(lines, body_bytes)  # Step 2
        if not has_date:  # Step 3
            lines.append(f"Date: {_http_date(int(time.time()))}")
        if self.closes:
            lines.append("Connection: close")
        lines.append("\r\n")
        head = "\r\n".join(lines).encode("latin-1")
        if len(head.translate(None, FIELD_BYTES)) != 2 * len(lines):
            raise ValueError("a control character in the status or in a header of the response")
        return head

    def _add_headers(self, lines: list[str]) -> bool:
        """Add the application's headers, except Connection. Returns whether Date is among them."""
        has_date = False
        for name, value in self._headers:
            lower = name.lower()
            if lower == "content-length":
                if not (value.isascii() and value.isdigit()):
                    raise ValueError(f"not a Content-Length: {value!r}")
                self._length_left = int(value)
            elif lower == "connection":
                self.closes = self.closes or value.lower() == "close"
                continue
            elif lower == "transfer-encoding":
                raise ValueError("Transfer-Encoding is set by the server, not by the application")
            elif lower == "date":
                has_date = True
            lines.append(f"{name}: {value}")
        return has_date

    def _add_framing(self, lines: list[str], body_bytes: int | None) -> None:
        if self._server.is_closing or (self._body is not None and self._body.leaves_rest()):
            self.closes = True
        never_has_body = self._status[:3] in ("204", "304")
        self._has_no_body = never_has_body or self._is_head
        if self._length_left is not None:
            return
        if body_bytes is not None and not never_has_body:
            self._length_left = body_bytes
            lines.append(f"Content-Length: {body_bytes}")
        elif not (self._has_no_body or self._is_http_1_0):
            self._is_chunked = True
            lines.append("Transfer-Encoding: chunked")

    def _count(self, size: int) -> None:
        if self._length_left is not None:
            self._length_left -= size
            if self._length_left < 0:
                raise ValueError("the body is longer than the Content-Length says")

    def _send(self, *parts: bytes) -> None:
        self.has_begun = True
        if sum(map(len, parts)) <= MAX_JOINED_BYTES:
            parts = (b"".join(parts),)
        try:
            for part in parts:
                self._connection.sendall(part)
        except OSError as problem:
            self.is_broken = True
            if isinstance(problem, BlockingIOError):
                raise ConnectionAbortedError("the client has read nothing for too long") from None
            raise
