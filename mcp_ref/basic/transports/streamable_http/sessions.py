"""Sessions over HTTP (page: basic/transports/streamable-http until 2025-11-25, "Session Management").

    client -> server   POST initialize                    -> its result, and Mcp-Session-Id
    client -> server   POST request, Mcp-Session-Id       -> JSON or events; the server may ask back on them
    client -> server   POST notification, or a response   -> 202
    client -> server   GET                                -> events that belong to no request
    client -> server   GET, Last-Event-ID                 -> the rest of a stream that broke
    client -> server   DELETE                             -> 204, and the session is over

Server      The core of a session is a `Connection`, as on stdio: the state of the handshake, the requests
            that run, and those that wait for an answer. Here it also has an id, an owner, a log of events,
            and an end of its own: by DELETE, after a time without use, or when the server shuts down. A
            session that was opened and never used ends soon, and an owner may have only some of all
            sessions: a single client cannot take them all, and keep them.
            With `stateless` there are no sessions: each POST is served on its own, in the revision that
            its header names, and the client cannot be asked anything.
            A client that disconnects has not cancelled anything: its request goes on, and the messages
            of it wait in the session's log.
Client      404 says that the session is over, and that the request was not begun: the client opens another
            session, without the id, and sends the request again. If several threads notice at once, the
            first opens the new session, and the others wait for it. A worker then restores in it what the
            old one had: the GET stream, the log level and the subscriptions.

Revisions   2025-03-26  sessions, GET, Last-Event-ID, batches
            2025-06-18  + MCP-Protocol-Version; - batches
            2025-11-25  + streams begin with an id, so that a server may end connections at any time
            interim     Mcp-* headers, if there are any, repeat the body (`require_headers`: all are required)
Errors      server: 400 for no session id, an unknown version or Last-Event-ID, or a body that is not a
            message; 404 for a session that is unknown, over, or another principal's; 503 for too many
            sessions, 429 for too many of one owner.
            # spec: basic/transports/streamable-http/session-terminated-404
            client: InvalidResponse for an id that is not visible ASCII, or is too long; the 404 itself after
            RENEWALS new sessions within a minute.
Threads     any. `_lock` guards the table of sessions; it is not held while a session ends. The thread
            `mcp_ref sessions` ends sessions that were not used. On the client `_renewal` is held by the
            thread that opens a session; others wait for it within their deadlines. While it is held, only
            the handshake is waited for.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import re
import secrets
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.batching import check_batch, wants_answer
from mcp_ref.basic.index.error_responses import InvalidRequest
from mcp_ref.basic.index.messages import Json, classify
from mcp_ref.basic.lifecycle import Session
from mcp_ref.basic.patterns.index.responder import IMMEDIATE
from mcp_ref.basic.transports.streamable_http import request_metadata
from mcp_ref.basic.transports.streamable_http.receiving import Kind, State
from mcp_ref.basic.transports.streamable_http.responding import (
    USUAL_STYLE,
    AnswerStyle,
    HttpStream,
    Posted,
    shutting_down,
)
from mcp_ref.basic.transports.streamable_http.resumability import Log
from mcp_ref.basic.transports.streamable_http.security import Refused, accepts
from mcp_ref.basic.versioning import Revision, refuse_initialize, revision
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, McpError
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.threads.timers import Timer, later

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import WayOut
    from mcp_ref.basic.transports.streamable_http.endpoint import Application, HttpServed
    from mcp_ref.basic.transports.streamable_http.sending import StreamableHttp
    from mcp_ref.runtime.http_server.reply import HttpReply

__all__ = ["HttpSession", "LegacyEra", "Sessions", "UrlSession", "is_initialize", "session_owner_of"]

_log = logger("mcp_ref.http")

UNUSED_SECONDS = 60.0
"""Seconds after which a session ends that was never used: a client goes on at once, or not at all."""


def session_owner_of(environ: Json, principal: str | None) -> str:
    """The owner that a new session is counted for: its principal, or else the address of its client.

    For IPv6 that is the network (/64), since one machine may have all the addresses in it.
    """
    if principal is not None:
        return f"principal {principal}"
    address = str(environ.get("REMOTE_ADDR", ""))
    if ":" in address:
        try:
            number = ipaddress.IPv6Address(address.partition("%")[0])
        except ValueError:
            pass  # not an IP address: the text of the WSGI server is used as it is
        else:  # a socket for both kinds names IPv4 addresses as ::ffff:10.0.0.1
            address = str(number.ipv4_mapped or ipaddress.IPv6Network((number, 64), strict=False))
    return f"address {address}"


UNKNOWN_SESSION = (
    "this process knows no such session (any more); send initialize for a new one, and where several "
    "processes serve one URL, route each Mcp-Session-Id to the same process, or serve with "
    "wsgi_app(stateless=True)"
)


class HttpSession:
    """One client's session."""

    def __init__(
        self,
        server: HttpServed,
        principal: str | None,
        log_bytes: int,
        owner: str = "",
        style: AnswerStyle = USUAL_STYLE,
    ) -> None:
        # spec: basic/transports/streamable-http/session-id-secure
        # spec: basic/transports/streamable-http/session-id-visible-ascii
        # spec: docs/security_best_practices/session-id-non-deterministic
        self.id = secrets.token_urlsafe(32)
        self.principal = principal
        self.owner = sys.intern(owner)  # one text for all sessions of an owner
        """The owner that it is counted for (`session_owner_of`)."""
        self.log = Log(secrets.token_hex(4), log_bytes)
        self.unrelated = HttpStream(style=style, log=self.log)
        """The stream of messages that belong to no request: the client reads it with GET."""
        self.connection = server.attach_shared(self.unrelated, None)
        if server.options.ping_every is not None:
            self.connection.listener = self.unrelated.reader
        self.used = time.monotonic()
        self.in_use = False
        """Whether any request named this session after initialize."""
        self._server = server

    @property
    def is_busy(self) -> bool:
        """Whether a request runs or the GET stream is open: then it is not idle."""
        return bool(self.connection.responder.serving or self.unrelated.reader())

    def idle_for(self, now: float) -> float:
        """Seconds since it was used last; 0 while it is busy."""
        return 0.0 if self.is_busy else now - self.used

    def end(self, reason: str) -> None:
        """End the session: cancel its requests, and end all its streams."""
        _log.debug("a session ends: %s", reason)
        running = [context.arrival.outbox for context in list(self.connection.responder.serving.values())]
        self._server.detach(self.connection, reason)
        streams: list[WayOut] = [*running, *self.log.streams()]
        for stream in streams:
            stream.fail(ConnectionClosed(reason))
        self.log.clear()


class Sessions:
    """The sessions of one application, by their ids; kept in this process.

    Processes that share sessions would put another class in its place.
    """

    def __init__(self, limit: int, idle: float, each: int | None = None) -> None:
        """Up to `limit` sessions, `each` of one owner; a session that is unused for `idle` seconds ends."""
        self.limit = limit
        self.each = each
        self.idle = idle
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._sessions: dict[str, HttpSession] = {}
        self._owned: Counter[str] = Counter()
        self._timer: Timer | None = None
        self._closed = False

    def forked(self) -> None:
        """Forget all sessions in a forked child: they are the parent's."""
        self._lock = threading.Lock()
        self._sessions, self._owned, self._timer = {}, Counter(), None

    def __len__(self) -> int:
        return len(self._sessions)

    def make_room(self, owner: str) -> None:
        """Raise Refused if there is no room for one more of this owner, even after a sweep."""
        if self._refusal(owner) is not None:
            self.sweep()
        refusal = self._refusal(owner)
        if refusal is not None:
            raise refusal

    def _refusal(self, owner: str) -> Refused | None:
        """Why there is no room for one more; None if there is room."""
        if len(self._sessions) >= self.limit:
            return Refused(
                503,
                f"There are {self.limit} sessions, which is the limit; retry in 10 s.",
                [("Retry-After", "10")],
            )
        if self.each is not None and self._owned[owner] >= self.each:
            return Refused(
                429,
                f"You have {self.each} sessions, which is the limit; end one with DELETE, or retry in 60 s.",
                [("Retry-After", "60")],
            )
        return None

    def add(self, session: HttpSession) -> None:
        """Add a session. Raises Refused if the server is shutting down, or there is no room any more."""
        with self._lock:
            if self._closed:
                raise shutting_down()
            refusal = self._refusal(session.owner)  # others may have been opened meanwhile
            if refusal is not None:
                raise refusal
            self._sessions[session.id] = session
            self._owned[session.owner] += 1
            if self._timer is None:
                self._timer = self._set_timer()

    def find(self, session_id: str | None, principal: str | None) -> HttpSession:
        """The session that a request names. Raises Refused.

        # spec: basic/transports/streamable-http/session-id-missing-400
        """
        if session_id is None:
            raise Refused(
                400, "this needs an Mcp-Session-Id header: send initialize first, and use what it gives"
            )
        session = self._sessions.get(session_id)
        # The session of another principal counts as unknown, so that ids cannot be probed.
        # spec: docs/security_best_practices/session-id-user-bound
        # spec: docs/security_best_practices/no-session-authentication
        if session is None or session.principal != principal:
            raise Refused(404, UNKNOWN_SESSION)
        session.used = time.monotonic()
        session.in_use = True
        return session

    def remove(self, session: HttpSession, reason: str) -> None:
        """End a session."""
        self._end([session], reason)

    def sweep(self) -> None:
        """End the sessions that were not used for long."""
        now = time.monotonic()
        idle = [
            session
            for session in list(self._sessions.values())
            if session.idle_for(now) > (self.idle if session.in_use else min(UNUSED_SECONDS, self.idle))
        ]
        self._end(idle, "the session was not used for long")

    def _end(self, sessions: list[HttpSession], reason: str) -> None:
        for session in sessions:
            with self._lock:
                known = self._sessions.pop(session.id, None)
                if known is not None:
                    self._owned[known.owner] -= 1
                    if not self._owned[known.owner]:
                        del self._owned[known.owner]
                if not self._sessions and self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
            if known is not None:
                known.end(reason)

    def all(self) -> list[HttpSession]:
        """The sessions that are open."""
        return list(self._sessions.values())

    def close(self, reason: str) -> None:
        """End all sessions, and refuse new ones from now on."""
        with self._lock:
            self._closed = True
        self._end(self.all(), reason)

    def _set_timer(self) -> Timer:
        return later(max(0.05, min(self.idle / 2, UNUSED_SECONDS / 2)), self._begin_sweep)

    def _begin_sweep(self) -> None:
        """Sweep on a new thread: this runs on the thread of the timers, which must not wait for sessions."""
        try:
            threading.Thread(target=self._sweep_now, name="mcp_ref sessions", daemon=True).start()
        except RuntimeError:  # the system is out of threads: it may have one later
            self._sweep_later()

    def _sweep_now(self) -> None:
        self.sweep()
        self._sweep_later()

    def _sweep_later(self) -> None:
        with self._lock:
            self._timer = self._set_timer() if self._sessions else None


RENEWALS = 3
"""New sessions that a client opens within a minute; after these, a 404 is the error of the request."""

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")


ASSUMED = "2025-03-26"
"""The revision of a client that names none: the last one without the MCP-Protocol-Version header."""


class LegacyEra:
    """What an application does for clients of the legacy era."""

    def __init__(self, app: Application) -> None:
        self.dates = frozenset(app.server.versions.legacy)
        self._app = app
        self._momentaries: weakref.WeakSet[Connection] = weakref.WeakSet()
        """The connections of requests outside of sessions, as long as the requests run."""

    # -- POST ------------------------------------------------------------------------------------

    def take(self, reply: HttpReply, message: Any) -> Posted:
        """Take a message in a session, or the one that opens it (step 5). Raises ProtocolError, Refused."""
        environ, app = reply.environ, self._app
        if not self.dates:
            refuse_initialize(message.get("params"), app.server.versions.supported)
        version = self._version(environ)
        if is_initialize(message) and (app.stateless or "HTTP_MCP_SESSION_ID" not in environ):
            self._check_headers(environ, message)
            return self._initialize(reply, message)
        session, connection = self._client_of(reply, version)
        kind = self._kind(environ, message)
        if kind in ("notification", "response"):
            return Posted(kind, connection, None)
        if kind == "batch":
            check_batch(message, is_known=connection.knows_batches)
            if not any(map(wants_answer, message)):
                return Posted(kind, connection, None)
        elif message["method"] in IMMEDIATE:
            kind = "quick"
        return Posted(kind, connection, self._stream(reply, session))

    def _client_of(self, reply: HttpReply, version: str | None) -> tuple[HttpSession | None, Connection]:
        """The session of a message, if there are sessions, and its connection.

        Raises ProtocolError, Refused.
        """
        if self._app.stateless:
            return None, self._momentary(version)
        session = self._session_of(reply)
        return session, session.connection

    def _stream(self, reply: HttpReply, session: HttpSession | None) -> HttpStream:
        """A stream for the messages and the answer of one request, which are sent on no other."""
        primes = session is not None and session.connection.session.revision.polls
        kind = self._app.style.kind_of(reply.environ, is_modern=False, primes=primes)
        return HttpStream(reply, kind, self._app.style, None if session is None else session.log)

    def over(self) -> Refused:
        """The refusal of a request whose session ended before it could begin."""
        return Refused(404, UNKNOWN_SESSION)

    def _version(self, environ: Json) -> str | None:
        """The version header, if there is one. Raises InvalidRequest if this server lacks that version.

        # spec: basic/transports/streamable-http/version-header-invalid-400
        """
        version: str | None = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        if version is None or version in self.dates:
            return version
        known = ", ".join(self._app.server.versions.supported)
        raise InvalidRequest(f"MCP-Protocol-Version is {version!r:.40}; this server has {known}")

    def _assumed(self) -> str:
        """The revision of a client that does not name it. Raises InvalidRequest if this server lacks it."""
        if ASSUMED in self.dates:
            return ASSUMED
        known = ", ".join(self._app.server.versions.supported)
        raise InvalidRequest(f"MCP-Protocol-Version is missing; this server has {known}")

    def _initialize(self, reply: HttpReply, message: Json) -> Posted:
        """Open a session: answered at once.  # spec: basic/transports/streamable-http/session-id-assigned"""
        app, owner = self._app, session_owner_of(reply.environ, reply.principal)
        if not app.stateless:
            app.sessions.make_room(owner)
        session = HttpSession(app.server, reply.principal, app.options.log_bytes, owner, app.style)
        session.connection.session.is_lasting = not app.stateless
        stream = HttpStream(reply, style=app.style)
        session.connection.route(message, stream)
        response = stream.machine
        if response.state is State.JSON and response.problem is None and not app.stateless:
            if app.server.options.ping_every is not None:
                session.connection.lose = functools.partial(app.sessions.remove, session)
            try:
                app.sessions.add(session)
            except Refused as problem:
                session.end(problem.message)
                raise
            reply.headers = [*reply.headers, ("Mcp-Session-Id", session.id)]
        else:
            session.end("it is not to last")
        if response.state is State.UNDECIDED:  # no answer: it had no id, and so was a notification
            return Posted("notification", session.connection, None)
        return Posted("answered", session.connection, stream)

    def _momentary(self, version: str | None) -> Connection:
        """A connection for one message alone: no client can come back to it, so that it is not stored.

        # spec: basic/transports/streamable-http/version-header-absent-default
        # spec: basic/transports/streamable-http/version-header-absent-legacy
        """
        app, at = self._app, revision(version or self._assumed())
        connection = app.server.connection(HttpStream(None, Kind(is_mute=True)), None)
        connection.session.assume(at, app.server.capabilities(at, tells=False))
        connection.responder.limiter = app.modern.connection.responder.limiter
        self._momentaries.add(connection)
        return connection

    def close(self, reason: str) -> None:
        """Cancel the requests that run outside of sessions."""
        for connection in list(self._momentaries):
            connection.end(reason)

    def _kind(self, environ: Json, message: Any) -> str:
        """What a message is. Raises ProtocolError if it is no message, or its headers contradict it."""
        if type(message) is list:
            return "batch"
        kind = classify(message)
        if kind != "response":
            self._check_headers(environ, message)
        return kind

    def _check_headers(self, environ: Json, message: Json) -> None:
        """Check that headers agree with the body that they repeat. Raises DraftHeaderMismatch."""
        headers = request_metadata.header_of(environ)
        paths = request_metadata.mirrored(self._app.server.tools, message)
        request_metadata.check_draft(headers, message, paths, self._app.options.require_headers)

    # -- GET and DELETE ----------------------------------------------------------------------------

    def get(self, reply: HttpReply) -> Iterable[bytes]:
        """Open the stream of messages that belong to no request, or the rest of a stream that broke.

        An empty Last-Event-ID counts as absent: in the SSE standard it says that no event was seen. An id
        that this session does not have (any more) gets 400, which the page leaves open: if it got another
        stream, the client would believe that nothing was lost. A stream has one connection, the newest: the
        one before it ends.

        # spec: basic/transports/streamable-http/endpoint-post-get
        """
        if not accepts(reply.environ.get("HTTP_ACCEPT"), "text/event-stream"):
            raise Refused(406, "GET is answered with text/event-stream")
        session = self._session_of(reply)
        last, stream, seen = reply.environ.get("HTTP_LAST_EVENT_ID"), session.unrelated, None
        if last:
            found = session.log.find(last)
            if found is None:
                raise Refused(
                    400,
                    "Last-Event-ID names no event that this session has; GET without it opens a new stream.",
                )
            stream, seen = found  # taken over from a connection that still reads it, perhaps a dead one
        return self._app.open_reader(stream, reply, last_seen=seen).begin()

    def delete(self, reply: HttpReply) -> Iterable[bytes]:
        """End the session.  # spec: basic/transports/streamable-http/session-terminated"""
        self._app.sessions.remove(self._session_of(reply), "the client ended the session")
        reply.begin(204, ())
        return ()

    def check_session(self, reply: HttpReply) -> None:
        """Check the session of a POST, before a large body is read. Raises InvalidRequest, Refused."""
        version = reply.environ.get("HTTP_MCP_PROTOCOL_VERSION")
        is_legacy = self.dates and not self._app.stateless and version not in self._app.server.versions.modern
        if is_legacy and "HTTP_MCP_SESSION_ID" in reply.environ:
            self._session_of(reply)

    def _session_of(self, reply: HttpReply) -> HttpSession:
        """The session that a request names. Raises InvalidRequest, Refused."""
        self._version(reply.environ)
        return self._app.sessions.find(reply.environ.get("HTTP_MCP_SESSION_ID"), reply.principal)


def is_initialize(message: Any) -> bool:
    """Whether a message is `initialize`, which opens a session."""
    return type(message) is dict and message.get("method") == "initialize"


# ----------------------------------------------------------------------- client half

PARTING_SECONDS = 1.0
"""Seconds that a server gets to answer the DELETE of a session."""


class UrlSession:
    """The session of a client with the server at its URL: its headers, its end, and opening another."""

    def __init__(self, sender: StreamableHttp) -> None:
        self._sender = sender
        self.id: str | None = None
        self.was_renewed_for_stream = False
        """Whether this session was opened because a GET in the one before was answered with 404."""
        self._agreed_before: Revision | None = None
        self._renewal = threading.RLock()
        self._renewing: int | None = None  # the thread that opens a new session
        self._renewals: list[float] = []  # guarded by _renewal

    def headers(self) -> dict[str, str]:
        """The headers that name the session and its revision.

        # spec: basic/transports/streamable-http/session-id-echoed
        # spec: basic/transports/streamable-http/version-header-later-requests
        # spec: basic/transports/streamable-http/version-header-negotiated
        # spec: basic/lifecycle/http-version-header

        The id goes to this server alone, and into no log.
        # spec: basic/transports/streamable-http/session-id-handled-securely
        """
        headers, agreed = {}, self.agreed
        if self.id is not None:
            headers["Mcp-Session-Id"] = self.id
        if agreed is not None and agreed.version_header:
            headers["MCP-Protocol-Version"] = agreed.date
        return headers

    @property
    def agreed(self) -> Revision | None:
        """The revision of the session; while a new one is being opened, that of the one before."""
        session = self._sender.connection.session
        return session.revision if session.is_negotiated else self._agreed_before

    def begin(self, session_id: str | None) -> None:
        """Begin with the id that came with the answer to `initialize`, if any. Raises InvalidResponse."""
        if session_id is not None and _SESSION_ID.fullmatch(session_id) is None:
            raise InvalidResponse("initialize: the session id is not made of visible ASCII characters")
        self.id = session_id

    def say_goodbye(self) -> None:
        """DELETE the session, if there is one.  # spec: basic/transports/streamable-http/session-delete"""
        if self.id is None:
            return
        try:
            deadline = Deadline(PARTING_SECONDS, Clock())
            with self._sender.exchanges.new(deadline, last=True) as exchange:
                exchange.send("DELETE", self.headers())
        except (McpError, Aborted, Expired) as problem:
            _log.debug("the end of the session: %.300r", problem)
        self.id = None  # only now: if Ctrl-C interrupts the DELETE, `end` may be called once more

    def wait(self, deadline: Deadline) -> None:
        """Wait while another thread opens a new session. Raises Expired."""
        if self._renewing not in (None, threading.get_ident()):
            with self._alone(deadline):
                pass

    @contextlib.contextmanager
    def _alone(self, deadline: Deadline) -> Iterator[None]:
        """Around a block during which no other thread opens a session. Raises Expired."""
        if not self._renewal.acquire(timeout=max(0.0, deadline.left())):
            raise Expired
        try:
            yield
        finally:
            self._renewal.release()

    def renew(self, served: str | None, lost: McpError, deadline: Deadline) -> None:
        """Open a new session instead of `served`, which the server has ended; `lost` is its 404.

        Of several threads that notice, the first one does it. Raises `lost` after RENEWALS within a minute.

        # spec: basic/transports/streamable-http/session-restart-on-404
        """
        connection, client = self._sender.connection, self._sender.client
        with self._alone(deadline):
            if self.id != served:
                return  # another thread did
            now = time.monotonic()
            self._renewals = [before for before in self._renewals if now - before < 60]
            if self._renewing is not None or len(self._renewals) >= RENEWALS:
                raise lost
            self._renewals.append(now)
            # A server may repeat the id in what it says.
            # spec: basic/transports/streamable-http/session-id-handled-securely
            said = repr(lost).replace(served, "...") if served else repr(lost)
            _log.warning("opening a new session: %.300s", said)
            self._renewing = threading.get_ident()
            before, self._agreed_before = connection.session, self.agreed
            connection.session = Session()
            try:
                seconds = max(0.01, min(connection.timeout, deadline.left()))
                client.negotiated.initialize(connection, seconds)
            except BaseException:
                connection.session, self.id = before, served
                raise
            finally:
                self._renewing = None
        # On a worker: the thread that noticed may hold locks that this needs.
        self._sender.readers.submit(self._restore, None, always=True)

    def may_renew_for_stream(self, *, is_first: bool) -> bool:
        """Whether a 404 to the GET means that the session is over, as it does for any other request in it.

        Not if this session was itself opened for such a 404 and its first GET, which `is_first` says, gets
        one again: the id is new, so that the 404 must mean that the server knows no GET.
        """
        if is_first and self.was_renewed_for_stream:
            return False
        self.was_renewed_for_stream = is_first
        return True

    def _restore(self, nothing: None) -> None:
        """Restore the GET stream, the log level and the subscriptions of the old session. On a worker."""
        try:
            self._sender.client.renewed()
        except McpError as problem:
            _log.warning("the new session is not as the old one was: %.300r", problem)
