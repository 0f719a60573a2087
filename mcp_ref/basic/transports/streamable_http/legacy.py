"""The legacy era over Streamable HTTP (page: basic/transports, 2025-03-26 to 2025-11-25).

    client -> server   POST initialize                    -> its result, and Mcp-Session-Id
    client -> server   POST request, Mcp-Session-Id       -> JSON or events; the server may ask back on them
    client -> server   POST notification, or an answer    -> 202
    client -> server   GET                                -> events that belong to no request
    client -> server   GET, Last-Event-ID                 -> the rest of a stream that broke
    client -> server   DELETE                             -> 204, and the session is over

With `stateless` there are no sessions: each POST is served on its own, in the revision that its header names,
and nothing can be asked of the client.

A client that is gone has not cancelled anything: what it asked for goes on, and waits in the session's log.
# spec: basic/transports/streamable-http/sse-disconnect-anytime
# spec: basic/transports/streamable-http/sse-disconnect-not-cancel

Revisions   2025-03-26  sessions, GET, Last-Event-ID, batches
            2025-06-18  + MCP-Protocol-Version; - batches
            2025-11-25  + streams begin with an id, so that a server may end connections at any time
            interim     Mcp-* headers, where there are any, repeat the body (or must be there: a setting)
Errors      400 no session id, an unknown version or Last-Event-ID, no message; 404 no such session; 406.
Threads     the WSGI server's.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.batching import wants_answer
from mcp_ref.basic.index.error_responses import InvalidRequest, ProtocolError
from mcp_ref.basic.index.messages import Json, classify
from mcp_ref.basic.lifecycle import refuse_initialize
from mcp_ref.basic.transports.streamable_http import request_metadata as http_headers
from mcp_ref.basic.transports.streamable_http.refusals import Refused
from mcp_ref.basic.transports.streamable_http.responses import ACCEPTED, HttpAnswer, error
from mcp_ref.basic.transports.streamable_http.security import accepts, prefers_events
from mcp_ref.basic.transports.streamable_http.sessions import HttpSession, owner_of
from mcp_ref.basic.transports.streamable_http.streams import HttpStream
from mcp_ref.basic.versioning import revision

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.transports.streamable_http import Application
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths

__all__ = ["LegacyEra", "header_of", "mirrored", "nothing"]

ASSUMED = "2025-03-26"
"""The revision of a client that does not name it: the last one without the header that would."""


class LegacyEra:
    """What an application does for clients of the legacy era."""

    def __init__(self, app: Application, stateless: bool, require_headers: bool, log_bytes: int) -> None:
        self.dates = frozenset(date for date in app.server.revisions if not revision(date).modern)
        self._app = app
        self._stateless = stateless
        self._require_headers = require_headers
        self._log_bytes = log_bytes
        self._momentaries: weakref.WeakSet[Connection] = weakref.WeakSet()
        """Of requests outside of sessions, as long as they run."""

    # -- POST ------------------------------------------------------------------------------------

    def post(self, environ: Json, message: Any, principal: str | None) -> HttpAnswer:
        """A message within a session, or the one that opens it."""
        app, session_id = self._app, environ.get("HTTP_MCP_SESSION_ID")
        opens = type(message) is dict and message.get("method") == "initialize"
        try:
            if not self.dates:
                refuse_initialize(app.server, message.get("params"))
            version = self._version(environ)
            if opens and (session_id is None or self._stateless):
                return self._initialize(environ, message, principal)
            session = None if self._stateless else app.sessions.find(session_id, principal)
            connection = self._momentary(version) if session is None else session.connection
            kind = self._kind(environ, message)
        except ProtocolError as problem:
            return error(400, problem, message)
        if kind in ("notification", "response"):
            connection.route(message, connection.outbox)
            return ACCEPTED
        stream = self._stream(session, environ, principal)
        streams = {} if session is None else session.streams
        app.waiting.admit(stream, is_long=False)
        streams[stream] = None
        if kind == "request":
            connection.start(message, stream)
        elif not self._batch(connection, message, stream):
            app.waiting.leave(stream)
            streams.pop(stream, None)
            fault = stream.problem
            return error(400, fault, None) if isinstance(fault, ProtocolError) else ACCEPTED
        return app.waiting.answered(
            stream, environ, gone=nothing, over=lambda stream: streams.pop(stream, None)
        )

    def _version(self, environ: Json) -> str | None:
        """The header, if it is there. Raises InvalidRequest for a version that this server does not have.

        # spec: basic/transports/streamable-http/version-header-invalid-400
        """
        version: str | None = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        if version is None or version in self.dates:
            return version
        known = ", ".join(self._app.server.revisions)
        raise InvalidRequest(f"MCP-Protocol-Version is {version!r:.40}; this server has {known}")

    def _assumed(self) -> str:
        """The revision of a client that does not name it. Raises InvalidRequest if this server lacks it."""
        if ASSUMED in self.dates:
            return ASSUMED
        known = ", ".join(self._app.server.revisions)
        raise InvalidRequest(f"MCP-Protocol-Version is missing; this server has {known}")

    def _initialize(self, environ: Json, message: Json, principal: str | None) -> HttpAnswer:
        """# spec: basic/transports/streamable-http/session-id-assigned"""
        app, owner = self._app, owner_of(environ, principal)
        if not self._stateless:
            app.sessions.make_room(owner)
        session = HttpSession(app.server, app.workers, principal, self._log_bytes, owner)
        session.connection.session.is_lasting = not self._stateless
        stream = HttpStream(environ=environ, principal=principal)
        session.connection.route(message, stream)  # at once, and on this thread
        headers = []
        if stream.answered and stream.problem is None and not self._stateless:
            if app.server.ping_every is not None:
                session.connection.lose = functools.partial(app.sessions.remove, session)
            try:
                app.sessions.add(session)
            except Refused as problem:
                session.end(problem.message)
                raise
            headers = [("Mcp-Session-Id", session.id)]
        else:
            session.end("it is not to last")
        if not stream.answered:  # a notification by that name
            return ACCEPTED
        return app.waiting.finished(stream, headers)

    def _momentary(self, version: str | None) -> Connection:
        """A session for one message alone: nobody can come back to it, so nothing keeps it.

        # spec: basic/transports/streamable-http/version-header-absent-default
        # spec: basic/transports/streamable-http/version-header-absent-legacy
        """
        app, at = self._app, revision(version or self._assumed())
        connection: Connection = app.server.connection(HttpStream(mute=True), app.workers)
        connection.session.assume(at, app.server.capabilities(at, tells=False))
        connection.limiter = app.modern.limiter
        self._momentaries.add(connection)
        return connection

    def close(self, reason: str) -> None:
        """What runs outside of sessions is cancelled."""
        for connection in list(self._momentaries):
            connection.end(reason)

    def _kind(self, environ: Json, message: Any) -> str:
        """What a message is. Raises ProtocolError where its headers say something else, or it is none."""
        if type(message) is list:
            return "batch"
        kind = classify(message)
        if kind != "response":
            paths = mirrored(self._app.server, message)
            http_headers.check_draft(header_of(environ), message, paths, self._require_headers)
        return kind

    def _stream(self, session: HttpSession | None, environ: Json, principal: str | None) -> HttpStream:
        """For what is said while a request runs, and for its answer; on no other is any of that.

        # spec: basic/transports/streamable-http/sse-messages-related
        # spec: basic/transports/streamable-http/sse-server-messages
        # spec: basic/transports/streamable-http/sse-includes-response
        # spec: basic/transports/streamable-http/one-stream-per-message
        # spec: basic/transports/streamable-http/no-broadcast
        """
        stream = HttpStream(
            log=None if session is None else session.log,
            primes=session is not None and session.connection.session.revision.polls,
            environ=environ,
            principal=principal,
            mute=self._app.answers == "json",
            eager=prefers_events(environ.get("HTTP_ACCEPT")),
        )
        stream.two_way = stream.two_way and not self._app.waiting.is_single
        return stream

    def _batch(self, connection: Connection, messages: list[Any], stream: HttpStream) -> bool:
        """Have a batch served. False if nothing in it waits for an answer, or all of it was refused.

        # spec: basic/transports/streamable-http/sse-batched-responses
        # spec: basic/transports/streamable-http/rejected-input-status
        """
        connection.receive_batch(messages, stream)
        return stream.problem is None and (stream.answered or any(map(wants_answer, messages)))

    # -- GET and DELETE ----------------------------------------------------------------------------

    def get(self, environ: Json, principal: str | None) -> HttpAnswer:
        """A stream for what belongs to no request, or the rest of one that broke.

        An empty Last-Event-ID is none: in the SSE standard it says that no event was seen. One that this
        session does not have (any more) is 400, which the page leaves open: any other stream would have its
        client believe that nothing was lost. The newest connection has a stream, and the one before it ends.

        # spec: basic/transports/streamable-http/endpoint-post-get
        # spec: basic/transports/streamable-http/replay-messages
        """
        if not accepts(environ.get("HTTP_ACCEPT"), "text/event-stream"):
            raise Refused(406, "GET is answered with text/event-stream")
        session = self._session_of(environ, principal)
        last, stream, after = environ.get("HTTP_LAST_EVENT_ID"), session.unrelated, None
        if last:
            found = session.log.find(last)
            if found is None:
                raise Refused(
                    400,
                    "Last-Event-ID names no event that this session has; GET without it opens a new stream.",
                )
            stream, after = found  # a connection that still has it, perhaps a dead one, has it no longer
        self._app.waiting.admit(stream, is_long=True)
        return self._app.waiting.streamed(stream, environ, gone=nothing, over=nothing, after=after)

    def delete(self, environ: Json, principal: str | None) -> HttpAnswer:
        """# spec: basic/transports/streamable-http/session-terminated"""
        self._app.sessions.remove(self._session_of(environ, principal), "the client ended the session")
        return HttpAnswer(204, [], ())

    def check_session(self, environ: Json, principal: str | None) -> None:
        """A POST whose body is still to be read. Raises Refused if its headers name no session."""
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        is_legacy = self.dates and not self._stateless and version not in self._app.server.modern_versions()
        if is_legacy and "HTTP_MCP_SESSION_ID" in environ:
            self._session_of(environ, principal)

    def _session_of(self, environ: Json, principal: str | None) -> HttpSession:
        try:
            self._version(environ)
        except InvalidRequest as problem:
            raise Refused(400, str(problem)) from None
        return self._app.sessions.find(environ.get("HTTP_MCP_SESSION_ID"), principal)


def nothing(stream: HttpStream) -> None:
    """What the end of a response means where it means nothing."""


def header_of(environ: Json) -> Callable[[str], str | None]:
    """A header's value by its name."""
    return lambda name: environ.get("HTTP_" + name.upper().replace("-", "_"))


def mirrored(server: Any, message: Json) -> Paths | None:
    """The arguments of a call that are to stand in headers as well."""
    if message["method"] != "tools/call":
        return None
    params = message.get("params")
    name = params.get("name") if type(params) is dict else None
    tool = server.toolbox.get(name) if type(name) is str else None
    return None if tool is None else tool.mirrored
