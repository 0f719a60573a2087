"""What the embedded HTTP server answers: a WSGI application's response, in as few writes as there can be.

    a list or tuple         head, Content-Length and all of the body in one write
    any other iterable      the head goes out with the first piece, also an empty one; every piece at
                            once, in a chunk of its own unless the application gave a Content-Length
    `write(...)`            the same; a list returned after that goes out together with the end

An application that fails before the head was sent has its failure answered with 500; after that the
connection is cut, so that no client takes half an answer for a whole one. To HTTP/1.0 there are no
chunks: the end of the connection is the end of the body.

Errors      a client that reads nothing for too long is a ConnectionAbortedError, one that left is what
            the system says; `broken` is set then. What the application does wrong is its own exception.
Threads     that of the connection, or whichever calls `write`, one at a time.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from types import TracebackType

__all__ = ["Response", "give_up_after", "plain"]

ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]

ONE_WRITE = 65536
"""Bytes up to which pieces are copied together; a longer one costs more to copy than to send."""

_PLAIN = bytes([9, *range(32, 127), *range(128, 256)])

_clock: tuple[int, str] = (0, "")  # the second, and how HTTP writes it


def _date() -> str:
    global _clock
    now = int(time.time())
    second, text = _clock
    if now != second:
        moment = time.gmtime(now)
        day, month = _DAYS[moment.tm_wday], _MONTHS[moment.tm_mon - 1]
        text = time.strftime(f"{day}, %d {month} %Y %H:%M:%S GMT", moment)
        _clock = now, text
    return text


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # in English, whatever the locale
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def give_up_after(connection: socket.socket, seconds: float) -> None:
    """How long a client may read nothing: the kernel watches that."""
    limit = struct.pack("@ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def plain(status: str, why: str, *more: str) -> bytes:
    """A whole short answer, after which the connection ends. `more` are further header lines."""
    text = f"{why}\n".encode("ascii", "backslashreplace")
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(text)}",
        f"Date: {_date()}",
        "Connection: close",
        *more,
        "\r\n",
    ]
    return "\r\n".join(lines).encode("ascii") + text


class Response:
    """One response. `must_close` is asked, when the head is sent, whether the connection ends with it."""

    def __init__(
        self, connection: socket.socket, *, old: bool, is_head: bool, must_close: Callable[[], bool]
    ) -> None:
        self._connection = connection
        self._old = old
        self._is_head = is_head
        self._must_close = must_close
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self._chunked = False
        self._silent = False  # no body, whatever the application gives
        self._left: int | None = None  # of the Content-Length
        self.begun = False
        """Whether the head is on its way."""
        self.closes = False
        """Whether the connection ends with this response."""
        self.complete = False
        """Whether all of it was sent."""
        self.broken = False
        """Whether it was the connection that failed."""

    def send(self, result: Iterable[bytes]) -> None:
        """Send what the application gives, to its end."""
        try:
            if isinstance(result, list | tuple):
                self._finish(b"".join(result))
            else:
                self._stream(result)
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        """WSGI's `start_response`."""
        if exc_info is not None and exc_info[1] is not None:
            if self.begun:
                raise exc_info[1].with_traceback(exc_info[2])
        elif self._status:
            raise AssertionError("start_response was called twice, without exc_info")
        self._status = status
        self._headers = headers
        return self.write

    def write(self, piece: bytes) -> None:
        """Send a piece of the body now, with the head if that was not sent."""
        if not isinstance(piece, bytes):
            raise TypeError(f"the body of a response is bytes, not {type(piece).__name__}")
        head = b"" if self.begun else self._head(None)
        if self._silent or not piece:
            if head:
                self._send(head)
        elif self._chunked:
            self._send(b"%b%x\r\n" % (head, len(piece)), piece, b"\r\n")
        else:
            self._count(len(piece))
            self._send(head, piece)

    def _stream(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self.write(piece)
            if self._silent:
                break
        self._finish(b"")

    def _finish(self, piece: bytes) -> None:
        """Send the last piece and the end, in one."""
        if not self.begun:
            head = self._head(len(piece))
            self._count_all(len(piece))
            self._send(head, b"" if self._silent else piece)
        elif self._silent:
            pass
        elif self._chunked:
            self._send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(piece), piece) if piece else b"0\r\n\r\n")
        else:
            self._count_all(len(piece))
            if piece:
                self._send(piece)
        self.complete = True

    def _head(self, length: int | None) -> bytes:
        """The head; `length` is that of the body, where it is known."""
        status = self._status
        if not status:
            raise AssertionError("the application has not called start_response")
        if not (status[:3].isdigit() and status[:3] >= "200" and status[3:4] in ("", " ")):
            raise ValueError(f"not a status: {status!r}")
        lines = [f"HTTP/1.0 {status}" if self._old else f"HTTP/1.1 {status}"]
        dated = self._take(lines)
        empty = status[:3] in ("204", "304")
        self._silent = empty or self._is_head
        if self._left is None and length is not None and not empty:
            self._left = length
            lines.append(f"Content-Length: {length}")
        elif self._left is None and not self._silent:
            self._chunked = not self._old
            if self._chunked:
                lines.append("Transfer-Encoding: chunked")
        if not dated:
            lines.append(f"Date: {_date()}")
        self.closes = self._must_close() or self.closes
        if self.closes:
            lines.append("Connection: close")
        lines.append("\r\n")
        head = "\r\n".join(lines).encode("latin-1")
        if len(head.translate(None, _PLAIN)) != 2 * len(lines):
            raise ValueError("a control character in the status or in a header of the response")
        return head

    def _take(self, lines: list[str]) -> bool:
        """The application's headers, apart from those that are the connection's. Whether it gave a date."""
        dated = False
        for name, value in self._headers:
            known = name.lower()
            if known == "content-length":
                if not (value.isascii() and value.isdigit()):
                    raise ValueError(f"not a Content-Length: {value!r}")
                self._left = int(value)
            elif known == "connection":
                self.closes = value.lower() == "close"
                continue
            elif known == "transfer-encoding":
                raise ValueError("Transfer-Encoding is the server's own")
            elif known == "date":
                dated = True
            lines.append(f"{name}: {value}")
        return dated

    def _count(self, size: int) -> None:
        """A piece of a body with a Content-Length."""
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                raise ValueError("the body is longer than the Content-Length says")

    def _count_all(self, size: int) -> None:
        """The last piece of such a body."""
        if not self._silent:
            self._count(size)
            if self._left:
                raise ValueError("the body is shorter than the Content-Length says")

    def _send(self, *parts: bytes) -> None:
        self.begun = True
        if sum(map(len, parts)) <= ONE_WRITE:
            parts = (b"".join(parts),)
        try:
            for part in parts:
                self._connection.sendall(part)
        except BlockingIOError:
            self.broken = True
            raise ConnectionAbortedError("the client has read nothing for too long") from None
        except OSError:
            self.broken = True
            raise
