"""HTTP+SSE, the transport of 2024-11-05 (page: basic/transports in that revision, "HTTP with SSE").

Two endpoints. One stream, which the client opens with GET, brings all that the server says; its first event
names the URI to which the client POSTs all that it says itself:

    client -> server   GET /sse
    server -> client   event: endpoint          data: /sse/messages?session_id=...
    client -> server   POST to that URI         -> 202, whatever the message is
    server -> client   event: message           data: {"jsonrpc": ...}         answers too

The stream is the session: it begins with it, and ends with it.

This is the server's half, beside Streamable HTTP on the same server (`sse_path`), for clients that know no
better. The client's is basic/transports/http_sse/client.
# spec: basic/transports/streamable-http/old-clients-both-endpoints

Revisions   2024-11-05. Later ones of the legacy era are agreed on as well, since clients that still use this
            transport offer them; 2026-07-28 is refused.
Errors      400 no session id, what is no JSON, or no message and without an id that could be answered;
            404 no such session, one that is over, or another principal's; 405, 406, 413, 415, 503.
Threads     the WSGI server's: a stream holds one as long as it lasts, and looks twice a second whether its
            client is still there. Requests run on the application's workers. `_lock` guards the table.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from mcp_ref.basic.index.batching import wants_answer
from mcp_ref.basic.index.error_responses import InvalidRequest
from mcp_ref.basic.index.messages import Json, classify, is_broken_response, is_id
from mcp_ref.basic.transports.streamable_http.receiving import ACCEPTED, HttpAnswer, HttpStream, ignore
from mcp_ref.basic.transports.streamable_http.security import Refused, accepts, check_post
from mcp_ref.basic.versioning import UnsupportedProtocolVersion, is_modern, revision
from mcp_ref.runtime import events
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.logs import logger

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.transports.streamable_http.endpoint import Application
    from mcp_ref.runtime.errors import McpError

__all__ = ["OldTransport"]

_log = logger("mcp_ref.http")

Handler = Callable[[Json, str | None], HttpAnswer]


class _SessionStream(HttpStream):
    """All that the server says in a session, answers included: no answer is its end."""

    closes = False
    waits = False
    event = "message"  # spec: basic/transports/streamable-http/sse-message-events

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        # spec: basic/transports/streamable-http/sse-endpoint-event
        self.opening = events.encode(endpoint.encode("ascii"), name="endpoint")
        self.pending: set[_Posted] = set()
        """What is still to be answered."""
        self._last: ConnectionClosed | None = None

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """An answer goes like any other message."""
        self.send(line, wait)

    def abandon(self, reason: str) -> None:
        """A request was cancelled; others go on."""

    def done(self, way: _Posted) -> None:
        """One request has its answer, or will have none."""
        self.pending.discard(way)
        if self._last is not None and not self.pending:
            self.fail(self._last)

    def leave(self, reason: str) -> None:
        """End as soon as all is answered."""
        self._last = ConnectionClosed(reason)
        if not self.pending:
            self.fail(self._last)


class _Posted:
    """The way out of one request: the session's stream; and what HTTP said of the POST that it came by."""

    closes = False
    waits = False
    two_way = True
    is_busy = False

    def __init__(self, stream: _SessionStream, environ: Json, principal: str | None) -> None:
        self._stream = stream
        self._environ, self._principal = environ, principal
        self.send = stream.send
        self.let_go = stream.let_go
        self.settle = stream.settle
        self.fail = stream.fail

    def begins(self, context: RequestContext) -> None:
        """Its request is about to run."""
        context.environ, context.principal = self._environ, self._principal

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """An answer goes like any other message."""
        try:
            self._stream.send(line, wait)
        finally:
            self._stream.done(self)

    def abandon(self, reason: str) -> None:
        """The request was cancelled: there is no answer."""
        self._stream.done(self)


class _Session:
    """One client, from the GET that opened its stream to the end of that."""

    def __init__(self, app: Application, path: str, principal: str | None) -> None:
        self.id = secrets.token_urlsafe(32)
        self.principal = principal
        self.stream = _SessionStream(f"{path}?session_id={self.id}")
        self.connection = app.server.attach(self.stream, app.workers)
        self.connection.listener = self.stream.reader
        self.is_over = False
        self._server = app.server
        if app.server.ping_every is not None:
            self.connection.lose = self.end

    def end(self, reason: str) -> None:
        """Whatever runs is cancelled, the stream ends. May be called twice."""
        self.is_over = True
        self._server.detach(self.connection, reason)


class OldTransport:
    """The two endpoints, beside those of an application."""

    def __init__(self, app: Application, sse_path: str) -> None:
        """`sse_path` is where streams are opened; POSTs go to `messages` below it."""
        self._app = app
        self._streams_at, self._posts_at = sse_path, _messages_below(sse_path)
        for path in (self._streams_at, self._posts_at):
            if path in (app.path, app.health_path):
                raise ValueError(f"sse_path: {path} is another endpoint's")
        self._legacy = [date for date in app.server.revisions if not revision(date).modern]
        if not self._legacy:
            raise ValueError(f"sse_path: this server speaks {', '.join(app.server.revisions)} alone")
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}  # guarded by _lock

    def forked(self) -> None:
        """In a forked child: all sessions are the parent's."""
        self._lock = threading.Lock()
        self._sessions = {}

    def paths(self) -> dict[str, Handler]:
        """What answers to which method and path; the application has asked who asks.

        # spec: basic/transports/streamable-http/sse-two-endpoints
        """
        streams, posts = self._streams_at, self._posts_at
        return {
            f"GET {streams}": self._open,
            f"POST {posts}": self._post,
        }

    # -- the stream ------------------------------------------------------------------------------

    def _open(self, environ: Json, principal: str | None) -> HttpAnswer:
        """GET: a session, as long as its stream lasts."""
        if not accepts(environ.get("HTTP_ACCEPT"), "text/event-stream"):
            raise Refused(406, "GET is answered with text/event-stream")
        if not environ.get("wsgi.multithread", True):
            raise Refused(503, "this transport needs a server with threads: its stream holds one")
        app = self._app
        session = _Session(app, _endpoint_of(environ), principal)
        try:
            app.waiting.admit(session.stream, is_long=True)
        except Refused as problem:
            session.end(problem.message)
            raise
        with self._lock:
            self._sessions[session.id] = session

        def over(stream: HttpStream) -> None:
            with self._lock:
                self._sessions.pop(session.id, None)
            session.end("the stream has ended")

        return app.waiting.streamed(session.stream, environ, gone=ignore, over=over)

    # -- messages --------------------------------------------------------------------------------

    def _post(self, environ: Json, principal: str | None) -> HttpAnswer:
        """A message; what is to be said to it goes out on the stream."""
        session = self._find(environ, principal)
        check_post(environ, ())
        message = self._app.receive(environ, self._app.bodies.share(environ))
        way = _Posted(session.stream, environ, principal)
        if type(message) is list:
            if any(map(wants_answer, message)):
                session.stream.pending.add(way)
            session.connection.receive_batch(message, way)
        else:
            self._route(session, message, way)
        if session.is_over:  # meanwhile: then nothing of it may go on
            session.end("the session is over")
            raise _no_session()
        return ACCEPTED

    def _route(self, session: _Session, message: Any, way: _Posted) -> None:
        """One message. Raises InvalidRequest for what is none and has no id by which to say so."""
        try:
            is_request = classify(message) == "request"
        except InvalidRequest:
            if type(message) is not dict or not is_id(message.get("id")):
                raise
            is_request = not is_broken_response(message)
        if is_request:
            session.stream.pending.add(way)
        date = _modern_date(message) if is_request else None
        if date is None:
            session.connection.route(message, way)
        else:
            problem = UnsupportedProtocolVersion(date, self._legacy)
            session.connection.refuse(message["id"], problem, way)

    def _find(self, environ: Json, principal: str | None) -> _Session:
        """The session that a POST names. Raises Refused."""
        try:
            said = parse_qs(environ.get("QUERY_STRING", ""), max_num_fields=16).get("session_id", [])
        except ValueError:
            said = []
        if len(said) != 1:
            raise Refused(400, "POST to the URI of the endpoint event: this one has no session_id")
        session = self._sessions.get(said[0])
        # Another's session is none: so nobody learns which there are.
        if session is None or session.principal != principal:
            raise _no_session()
        return session

    # -- the end ---------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """No session begins any more. Each ends when nothing runs in it; `Waiting.fail` ends the others."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.stream.leave(reason)


def _messages_below(path: str) -> str:
    return path.rstrip("/") + "/messages"


def _endpoint_of(environ: Json) -> str:
    """The path for POSTs as the client knows it, mounts included."""
    path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return quote(_messages_below("/" + path.strip("/")).encode("latin-1"))


def _modern_date(message: Json) -> str | None:
    """The revision that a request of the modern era names."""
    params = message.get("params")
    if type(params) is not dict or not is_modern(params):
        return None
    return str(params["_meta"].get("io.modelcontextprotocol/protocolVersion"))[:40]


def _no_session() -> Refused:
    return Refused(
        404,
        "this process knows no such session (any more); open a stream for a new one, and where several "
        "processes serve one URL, route a stream and its messages to the same process",
    )
