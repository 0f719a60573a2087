"""One connection of the embedded HTTP server: one request after another, each answered before the next.

    the head is read and parsed    a bad one is answered with its status, and is the last
    a small body is read           before the application runs; a larger one when it reads it
    the application runs           on this thread, and its response goes out as it comes
    what nobody read is read       up to 64 KiB; beyond that the answer says that the connection ends

A connection never ends while its client may still be sending without having seen the answer: it is
half closed, and heard out for a while, because the system would otherwise throw the answer away.

Errors      all end here. `mcp_ref.http` logs what fails in an application, with its traceback, and at
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
from typing import Any, Protocol
from wsgiref.types import WSGIApplication

from mcp_ref.runtime.http_server.receiving import Body, Intake
from mcp_ref.runtime.http_server.request import BadRequest, Head, parse
from mcp_ref.runtime.http_server.response import Response, give_up_after, plain
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks

__all__ = ["HttpConnection", "Owner"]

_log = logger("mcp_ref.http")

SMALL = 65536
"""Bytes of a body that is read before the application runs."""

FAMILIAR = 4096
"""Bytes of a head that is kept, with what it says: most clients send the same one again and again."""

DRAIN = 65536
"""Bytes of a body that nobody has read which are read for the sake of the next request."""

LINGER = 2.0
"""Seconds without a byte after which a client that was answered early is not listened to any longer."""


class Owner(Protocol):
    """What a connection wants to know of its server."""

    app: WSGIApplication
    host: str
    port: int
    idle: float
    patience: float
    stall: float
    max_header_bytes: int
    max_body_bytes: int
    is_closing: bool
    running: set[socket.socket]


class HttpConnection:
    """One connection, on its thread."""

    def __init__(self, connection: socket.socket, address: Any, owner: Owner) -> None:
        self._socket = connection
        self._owner = owner
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        give_up_after(connection, owner.stall)
        self._intake = Intake(
            connection,
            idle=owner.idle,
            patience=owner.patience,
            max_head=owner.max_header_bytes,
            max_body=owner.max_body_bytes,
        )
        self._base = _environ(connection, address, owner)
        self._known: tuple[bytes, Head] | None = None  # the last head, and what it says
        self._closes = False  # the client wants no answer after this one
        self._body: Body | None = None  # what of the body is to be read while the application runs

    def run(self) -> None:
        """One request after another."""
        try:
            while (text := self._intake.head()) is not None:
                self._owner.running.add(self._socket)
                if not self._request(text):
                    break
                self._owner.running.discard(self._socket)
                if self._owner.is_closing:  # whoever closes looks at `running` after it has said so
                    break
        except BadRequest as problem:
            self._refuse(problem)
        except OSError as problem:
            _log.debug("connection of %s: %s", self._base["REMOTE_ADDR"], problem)

    def _request(self, text: bytes) -> bool:
        """Serve a request. False if it is to be the last one."""
        if self._known is not None and self._known[0] == text:
            head = self._known[1]
        else:
            head = parse(text, self._base)
            if len(text) <= FAMILIAR:
                self._known = text, head
        self._closes = head.closes
        environ = head.environ.copy()
        body = self._receive(head, environ)
        is_head = environ["REQUEST_METHOD"] == "HEAD"
        response = Response(self._socket, old=head.old, is_head=is_head, must_close=self._must_close)
        process = forks.count
        try:
            answer = self._owner.app(environ, response.start)
            if forks.count != process:  # the application forked: the parent answers
                forks.end_child()
            response.send(answer)
        except BaseException as problem:  # the application's exit() must not end in silence either
            if forks.count != process:
                forks.end_child(problem)
            self._failed(response, problem)
            return False
        if response.closes:
            if body is not None or not self._owner.is_closing:
                self._linger()
            return False
        return body is None or self._drain(body)

    def _receive(self, head: Head, environ: dict[str, Any]) -> Body | None:
        """Make `wsgi.input`. Returns what is still to come of the body."""
        body, intake = None, self._intake
        if not head.length:
            environ["wsgi.input"] = io.BytesIO()
        else:
            intake.begin(head)
            if 0 < head.length <= SMALL and not intake.to_invite:
                environ["wsgi.input"] = io.BytesIO(intake.exactly(head.length))
            else:
                body = intake.body(head)
                environ["wsgi.input"] = io.BufferedReader(body)
        self._body = body
        return body

    def _must_close(self) -> bool:
        """Whether the connection ends with the answer whose head is being written."""
        if self._closes or self._owner.is_closing:
            return True
        if self._body is None or not self._body.left:
            return False
        # A client that still waits for leave to send its body may send it now, or not.
        uninvited, self._intake.to_invite = self._intake.to_invite, False
        return uninvited or self._intake.failed or not 0 < self._body.left <= DRAIN

    def _drain(self, body: Body) -> bool:
        """Read what the application left of a body. False if that did not come to an end."""
        try:
            while body.left:
                body.piece(DRAIN)
        except OSError as problem:
            _log.debug("connection of %s: %s", self._base["REMOTE_ADDR"], problem)
        return not body.left

    def _failed(self, response: Response, problem: BaseException) -> None:
        """The application raised something: because of its client, or for reasons of its own."""
        theirs = response.broken or self._intake.failed or isinstance(problem, BadRequest)
        if theirs:
            _log.debug("connection of %s: %s", self._base["REMOTE_ADDR"], problem)
        else:
            _log.error("an application failed", exc_info=problem)
        if response.begun and not response.complete:
            # Reset: where the end of the connection is the end of the body, this must not look like it.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        elif isinstance(problem, BadRequest):
            self._refuse(problem)
        elif theirs:
            self._refuse(BadRequest("400 Bad Request", "the body did not arrive"))
        elif not response.begun:
            self._refuse(BadRequest("500 Internal Server Error", "the server failed; its log says how"))

    def _refuse(self, problem: BadRequest) -> None:
        _log.debug("connection of %s: %s: %s", self._base["REMOTE_ADDR"], problem.status, problem)
        with contextlib.suppress(OSError):
            self._socket.sendall(plain(problem.status, str(problem)))
            self._linger()

    def _linger(self) -> None:
        """Hear out a client that still sends: cut off now, it might not see the answer."""
        self._owner.running.discard(self._socket)
        end = time.monotonic() + self._owner.idle
        room = self._owner.max_body_bytes
        place = bytearray(65536)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(min(LINGER, self._owner.patience))
            while room > 0 and time.monotonic() < end and (got := self._socket.recv_into(place)):
                room -= got


def _environ(connection: socket.socket, address: Any, owner: Owner) -> dict[str, Any]:
    """What is the same for all requests of a connection."""
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
        "SERVER_NAME": owner.host,
        "SERVER_PORT": str(owner.port),
        "SCRIPT_NAME": "",
        "REMOTE_ADDR": address[0],
        "REMOTE_PORT": str(address[1]),
    }
