"""One connection of the embedded HTTP server: request after request, each answered before the next is read.

    Step 1   the head is read and parsed; a bad one is answered with its status and closes the connection
    Step 2   a small body is read now, a larger one while the application reads `wsgi.input`
    Step 3   the application runs, on this thread, and its response goes out piece by piece
    Step 4   what it left of the body is read and dropped, up to 64 KiB; if more is left, or the unknown rest
             of a body in chunks, the connection is closed

After an early answer the client may still be sending. If the connection were closed at once, the system would
answer what arrives with a reset, and the client would lose the answer that it had not read yet. So our side
is shut first, and what still arrives is read and dropped for a while (`_linger`).

If an application fails before the head was sent, the answer is a 500. If it fails later, the connection is
reset: where the end of the connection marks the end of the body, half a response would look like a whole one.

Errors      are handled here. `mcp_ref.http` logs the failure of an application with its traceback, and at
            DEBUG what happens to connections.
Threads     each connection has its own, `mcp_ref http N` (runtime/http_server/server).
"""

from __future__ import annotations

import contextlib
import io
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING, Any

from mcp_ref.runtime.http_server.receiving import (
    MAX_DRAINED_BYTES,
    Body,
    RequestReceiver,
    set_kernel_timeout,
)
from mcp_ref.runtime.http_server.request import BadRequest, RequestHead, parse_head
from mcp_ref.runtime.http_server.response import Response, short_response
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks

if TYPE_CHECKING:
    from mcp_ref.runtime.http_server.server import HttpServer

__all__ = ["HttpConnection"]

_log = logger("mcp_ref.http")

MAX_SMALL_BODY_BYTES = 65536
"""A body up to this size is read before the application runs."""
MAX_REMEMBERED_HEAD_BYTES = 4096
"""The longest head that is remembered, to bound the memory of an idle connection; a longer one is parsed
each time."""
MAX_LINGER_SECONDS = 2.0
"""After an early answer the connection is closed when nothing has arrived for this many seconds."""


class HttpConnection:
    """One connection, on its thread."""

    def __init__(self, connection: socket.socket, address: Any, server: HttpServer) -> None:
        self._socket = connection
        self._server = server
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        set_kernel_timeout(connection, socket.SO_SNDTIMEO, server.limits.stall)
        self._receiver = RequestReceiver(connection, server.limits)
        self._base_environ = _base_environ(connection, address, server)
        self._last_text = b""
        self._last_head: RequestHead | None = None  # `_last_text`, parsed

    def run(self) -> None:
        server = self._server
        try:
            while (text := self._receiver.read_head()) is not None:
                server.running.add(self._socket)
                if not self._serve_request(text):
                    break
                server.running.discard(self._socket)
                # Only after the line above: `close` sets `is_closing`, then shuts sockets outside `running`.
                # In the other order both could pass this connection over.
                if server.is_closing:
                    break
        except BadRequest as problem:
            self._refuse(problem)
        except OSError as problem:
            self._log_problem(problem)

    def _serve_request(self, text: bytes) -> bool:
        """Serve one request. Returns whether another may follow."""
        head = self._last_head if text == self._last_text else None  # Step 1
        if head is None:
            head = self._parse(text)
        environ = head.environ.copy()
        body = self._open_body(head, environ)  # Step 2
        is_head = environ["REQUEST_METHOD"] == "HEAD"
        response = Response(
            self._socket,
            self._server,
            is_http_1_0=head.is_http_1_0,
            is_head=is_head,
            wants_close=head.wants_close,
            body=body,
        )
        environ["mcp_ref.response"] = response
        process = forks.count
        try:
            result = self._server.app(environ, response.start)  # Step 3
            if forks.count != process:  # the application forked, and this is the child: the parent answers
                forks.end_child()
            response.send(result)
        except BaseException as problem:  # also SystemExit: `exit()` in an application is answered with 500
            if forks.count != process:
                forks.end_child(problem)
            self._end_failed(response, problem)
            return False
        if not response.closes:
            return body is None or self._drain(body)  # Step 4
        if body is not None or not self._server.is_closing:
            self._linger()
        return False

    def _parse(self, text: bytes) -> RequestHead:
        """Parse a head, and keep it: clients that repeat a call repeat its head.

        A tool call takes 78 us of the server's processor time with this, and 89 without: the strings of the
        environ are then the same objects too, which is faster wherever they are looked up.
        """
        head = parse_head(text, self._base_environ)
        if len(text) <= MAX_REMEMBERED_HEAD_BYTES:
            self._last_text, self._last_head = text, head
        return head

    def _open_body(self, head: RequestHead, environ: dict[str, Any]) -> Body | None:
        """Set `wsgi.input`. Returns the body if it is read while the application runs, else None."""
        receiver = self._receiver
        if not head.body_bytes:
            environ["wsgi.input"] = io.BytesIO()
            return None
        if head.body_bytes == len(receiver.buffered) <= MAX_SMALL_BODY_BYTES:  # it came with its head
            environ["wsgi.input"], receiver.buffered = io.BytesIO(receiver.buffered), b""
            return None
        receiver.begin_body(head)
        if 0 < head.body_bytes <= MAX_SMALL_BODY_BYTES and not receiver.owes_continue:
            environ["wsgi.input"] = io.BytesIO(receiver.read_exactly(head.body_bytes))
            return None
        body = receiver.open_body(head)
        environ["wsgi.input"] = io.BufferedReader(body)
        return body

    def _drain(self, body: Body) -> bool:
        """Read what the application left of a body. Returns whether its end was reached."""
        try:
            while body.left:
                body.read_some(MAX_DRAINED_BYTES)
        except OSError as problem:
            self._log_problem(problem)
        return not body.left

    def _end_failed(self, response: Response, problem: BaseException) -> None:
        """End a request whose application raised something: its client's fault, or its own."""
        is_clients = response.is_broken or self._receiver.failed or isinstance(problem, BadRequest)
        if is_clients:
            self._log_problem(problem)
        else:
            _log.error("an application failed", exc_info=problem)
        if response.is_complete:
            return
        if response.has_begun:
            # SO_LINGER of zero seconds makes `close` send a reset.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        elif isinstance(problem, BadRequest):
            self._refuse(problem)
        elif is_clients:
            self._refuse(BadRequest("the body did not arrive"))
        else:
            self._refuse(BadRequest("the server failed; its log says how", "500 Internal Server Error"))

    def _refuse(self, problem: BadRequest) -> None:
        self._log_problem(problem)
        with contextlib.suppress(OSError):
            self._socket.sendall(short_response(problem.status, str(problem)))
            self._linger()

    def _linger(self) -> None:
        """Shut our side, and read what the client still sends, so that it can read the answer."""
        self._server.running.discard(self._socket)
        limits = self._server.limits
        end, bytes_left = time.monotonic() + limits.idle, limits.max_body_bytes
        buffer = bytearray(65536)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(min(MAX_LINGER_SECONDS, limits.patience))
            while bytes_left > 0 and time.monotonic() < end and (size := self._socket.recv_into(buffer)):
                bytes_left -= size

    def _log_problem(self, problem: BaseException) -> None:
        _log.debug("connection of %s: %s", self._base_environ["REMOTE_ADDR"], problem)


def _base_environ(connection: socket.socket, address: Any, server: HttpServer) -> dict[str, Any]:
    """The part of an environ that is the same for all requests of a connection."""
    return {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "werkzeug.socket": connection,
        "SERVER_SOFTWARE": "mcp_ref",
        "SERVER_NAME": server.host,
        "SERVER_PORT": str(server.port),
        "SCRIPT_NAME": "",
        "REMOTE_ADDR": address[0],
        "REMOTE_PORT": str(address[1]),
    }
