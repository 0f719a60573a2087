"""HTTP+SSE, the transport of 2024-11-05 (page: basic/transports in that revision, "HTTP with SSE").

Two endpoints. One stream, which the client opens with GET, brings all messages of the server; its first event
names the URI to which the client POSTs its own:

    client -> server   GET /sse
    server -> client   event: endpoint          data: /sse/messages?session_id=...
    client -> server   POST to that URI         -> 202, whatever the message is
    server -> client   event: message           data: {"jsonrpc": ...}         responses too

The session begins and ends with the stream.

This is the server's half, beside Streamable HTTP on the same server (`sse_path`), for clients that do not
support that. The client's is basic/transports/http_sse/client.
# spec: basic/transports/streamable-http/old-clients-both-endpoints

Revisions   2024-11-05. Later ones of the legacy era are agreed on as well, since clients that still use this
            transport offer them; 2026-07-28 is refused.
Errors      400 no session id, invalid JSON, or an invalid message without an id under which to answer it;
            404 a session that is unknown, over, or another principal's; 405, 406, 413, 415, 503.
Threads     the WSGI server's: a stream holds one as long as it lasts. A POST is over, with 202, before its
            request runs, so that a worker runs it: without the 202 a client could not POST the answer to a
            question. `_lock` guards the table.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from mcp_ref.basic.index.batching import wants_answer
from mcp_ref.basic.index.error_responses import InvalidRequest, ProtocolError
from mcp_ref.basic.index.messages import Json, classify, is_broken_response, is_id
from mcp_ref.basic.patterns.index.context import RequestContext, WayOut
from mcp_ref.basic.transports.streamable_http.receiving import Kind
from mcp_ref.basic.transports.streamable_http.responding import (
    AnswerStyle,
    HttpStream,
    accepted,
    refusal_body,
)
from mcp_ref.basic.transports.streamable_http.security import Refused, accepts
from mcp_ref.basic.versioning import UnsupportedProtocolVersion, is_modern
from mcp_ref.runtime import events
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.places import NoPlace

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.endpoint import Application, Handler
    from mcp_ref.runtime.errors import McpError
    from mcp_ref.runtime.http_server.reply import HttpReply
    from mcp_ref.runtime.threads.workers import Workers

__all__ = ["OldTransport"]

_log = logger("mcp_ref.http")


class _SessionStream(HttpStream):
    """The stream of a session: all messages of the server, responses included, none of which ends it."""

    closes = False

    def __init__(self, endpoint: str, style: AnswerStyle) -> None:
        # spec: basic/transports/streamable-http/sse-endpoint-event
        preface = events.encode(endpoint.encode("ascii"), name="endpoint")
        # spec: basic/transports/streamable-http/sse-message-events
        super().__init__(kind=Kind(preface=preface, event="message"), style=style)
        self.pending: set[_PostOutgoing] = set()
        """POSTs with requests that are still to be answered."""
        self._closing: ConnectionClosed | None = None

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """Send a response on the one stream, as any other message."""
        self.send(line, wait)

    def cancel(self, reason: str) -> None:
        """Do nothing for a cancelled request: the stream serves the others."""

    def done(self, outgoing: _PostOutgoing) -> None:
        """Note that a POST has its responses, or will have none."""
        self.pending.discard(outgoing)
        if self._closing is not None and not self.pending:
            self.fail(self._closing)

    def leave(self, reason: str) -> None:
        """End the stream as soon as all requests are answered."""
        self._closing = ConnectionClosed(reason)
        if not self.pending:
            self.fail(self._closing)


class _PostOutgoing(WayOut):
    """The outgoing side of one POST: sends on the session's stream, and has the facts of its HTTP request."""

    def __init__(self, stream: _SessionStream, reply: HttpReply) -> None:
        self._stream = stream
        self._environ, self._principal = reply.environ, reply.principal

    def send(self, line: bytes, wait: float | None = None) -> None:
        """Send a message on the one stream."""
        self._stream.send(line, wait)

    def begins(self, context: RequestContext) -> None:
        """Give a request that is about to run the facts of its HTTP request."""
        context.arrival.environ, context.principal = self._environ, self._principal

    def fail(self, problem: BaseException) -> None:
        """End the one stream."""
        self._stream.fail(problem)

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """Send a response on the one stream, as any other message."""
        try:
            self._stream.send(line, wait)
        finally:
            self._stream.done(self)

    def cancel(self, reason: str) -> None:
        """Note that the request was cancelled, and gets no response."""
        self._stream.done(self)


class _Session:
    """One client, from the GET that opens its stream to the end of the stream."""

    def __init__(self, app: Application, workers: Workers, path: str, principal: str | None) -> None:
        self.id = secrets.token_urlsafe(32)
        self.principal = principal
        self.stream = _SessionStream(f"{path}?session_id={self.id}", app.style)
        self.connection = app.server.attach_shared(self.stream, workers)
        self.connection.listener = self.stream.reader
        self.is_over = False
        self._server = app.server
        if app.server.options.ping_every is not None:
            self.connection.lose = self.end

    def end(self, reason: str) -> None:
        """End the session: cancel its requests, end its stream. May be called twice."""
        self.is_over = True
        self._server.detach(self.connection, reason)


class OldTransport:
    """The two endpoints of HTTP+SSE, beside those of an application."""

    def __init__(self, app: Application, sse_path: str) -> None:
        """Streams are opened at `sse_path`; POSTs go to `messages` below it."""
        self._app = app
        self._streams_at, self._posts_at = sse_path, _messages_below(sse_path)
        for path in (self._streams_at, self._posts_at):
            if path in (app.path, app.health_path):
                raise ValueError(f"sse_path: {path} is the path of another endpoint; choose a different one")
        self._legacy = app.server.versions.legacy[::-1]
        if not self._legacy:
            raise ValueError(f"sse_path: this server speaks {', '.join(app.server.versions.supported)} alone")
        self._workers: Workers | None = None  # from the first stream on
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}  # guarded by _lock, as is `_workers`

    def forked(self) -> None:
        """In a forked child: forget all sessions, which are the parent's."""
        self._lock = threading.Lock()
        self._sessions = {}
        self._workers = None

    def paths(self) -> dict[str, dict[str, Handler]]:
        """The handlers of each path, by method. The application has authenticated the request.

        # spec: basic/transports/streamable-http/sse-two-endpoints
        """
        return {self._streams_at: {"GET": self._open}, self._posts_at: {"POST": self._post}}

    # -- the stream ------------------------------------------------------------------------------

    def _open(self, reply: HttpReply) -> Iterable[bytes]:
        """GET: open a session, which lasts as long as its stream."""
        if not accepts(reply.environ.get("HTTP_ACCEPT"), "text/event-stream"):
            raise Refused(406, "GET is answered with text/event-stream")
        if not reply.environ.get("wsgi.multithread", True):
            raise Refused(503, "this transport needs a server with threads: its stream holds one")
        with self._lock:
            self._workers = self._workers or self._app.server.new_workers()
        session = _Session(self._app, self._workers, _endpoint_of(reply.environ), reply.principal)

        def over() -> None:
            with self._lock:
                self._sessions.pop(session.id, None)
            session.end("the stream has ended")

        try:
            reader = self._app.open_reader(session.stream, reply, on_close=over)
        except NoPlace as problem:
            session.end(str(problem))
            raise
        with self._lock:
            self._sessions[session.id] = session
        return reader.begin()

    # -- messages --------------------------------------------------------------------------------

    def _post(self, reply: HttpReply) -> Iterable[bytes]:
        """POST: take a message; responses to it go out on the stream."""
        session = self._find(reply)
        outgoing = _PostOutgoing(session.stream, reply)
        try:
            message = self._app.bodies.receive(reply.environ, (), lambda: None)
            self._app.start()  # raises Refused if the body came slowly, and the server was closed meanwhile
            if type(message) is list:
                if any(map(wants_answer, message)):
                    session.stream.pending.add(outgoing)
                session.connection.receive_batch(message, outgoing)
            else:
                self._route(session, message, outgoing)
        except ProtocolError as problem:  # the body is not a message, and has no id to answer it by
            return refusal_body(reply, problem)
        if session.is_over:  # the session ended meanwhile: cancel what this POST has started
            session.end("the session is over")
            raise _no_session()
        return accepted(reply)

    def _route(self, session: _Session, message: Any, outgoing: _PostOutgoing) -> None:
        """Route one message. Raises InvalidRequest for an invalid one without an id to answer it by."""
        try:
            is_request = classify(message) == "request"
        except InvalidRequest:
            if type(message) is not dict or not is_id(message.get("id")):
                raise
            is_request = not is_broken_response(message)
        if is_request:
            session.stream.pending.add(outgoing)
        date = _modern_date(message) if is_request else None
        if date is None:
            session.connection.route(message, outgoing)
        else:
            problem = UnsupportedProtocolVersion(date, self._legacy)
            session.connection.responder.refuse(message["id"], problem, outgoing)

    def _find(self, reply: HttpReply) -> _Session:
        """The session that a POST names. Raises Refused."""
        try:
            ids = parse_qs(reply.environ.get("QUERY_STRING", ""), max_num_fields=16).get("session_id", [])
        except ValueError:
            ids = []
        if len(ids) != 1:
            raise Refused(400, "POST to the URI of the endpoint event: this one has no session_id")
        session = self._sessions.get(ids[0])
        # Another principal's session is answered as an unknown one, so that ids cannot be probed.
        if session is None or session.principal != reply.principal:
            raise _no_session()
        return session

    # -- the end ---------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """End each session once its requests are answered; the application ends the others."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.stream.leave(reason)

    def end(self) -> None:
        """No session is left: end the workers."""
        if self._workers is not None:
            self._workers.close(0.5)


def _messages_below(path: str) -> str:
    """The path of POSTs, for that of streams."""
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
    """The answer to a POST that names no session of its principal."""
    return Refused(
        404,
        "this process has no such session (any more); open a stream for a new one, and where several "
        "processes serve one URL, route a stream and its messages to the same process",
    )
