"""Streamable HTTP (page: basic/transports/streamable-http; basic/transports from 2025-03-26 to 2025-11-25).

One URL, the *MCP endpoint*. Every message of the client's is a POST; a request is answered with one JSON
object, or with a stream of server-sent events that ends with the answer. Both eras are served on it at once:

    modern   POST request    its headers repeat what is in its body (basic/transports/http_headers);
                             the stream's end is the end of the request, whichever side ends it
             GET, DELETE     405
    legacy   POST            in a session, which initialize opens (basic/transports/http_sessions);
                             202 for notifications and answers; batches in 2025-03-26
             GET             a stream for what belongs to no request; with Last-Event-ID, the rest of a
                             stream that broke (basic/transports/http_streams)
             DELETE          ends the session

A request is modern if its `_meta` says so, or if its MCP-Protocol-Version is none of the legacy era.

This is the server's half: a WSGI application. The client's is basic/transports/http_client. What is asked
of a request before its message is read is in basic/transports/http_security.

Revisions   2025-03-26 to 2026-07-28; the interim draft's headers within sessions. For 2024-11-05 see
            basic/transports/http_sse.
Errors      with an HTTP status: 400 -32020, -32021, -32022, bad `_meta` and what is no message; 404 -32601
            (2026-07-28), no such session; 403, 405, 406, 413, 415, 429, 503.
Threads     `__call__` runs on the WSGI server's threads, one a request, which wait for the workers that run
            it: a call or a stream holds one of them as long as it lasts. Workers are the application's,
            and start with the first request, in each process.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mcp_ref.basic.batch import wants_answer
from mcp_ref.basic.errors import (
    ConnectionClosed,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseError,
    ProtocolError,
    TooManyRequests,
)
from mcp_ref.basic.messages import Json, classify, decode, encode, encode_error, is_id
from mcp_ref.basic.meta import PROTOCOL_VERSION
from mcp_ref.basic.transports import http_headers
from mcp_ref.basic.transports.http_headers import HeaderMismatch
from mcp_ref.basic.transports.http_security import (
    Authenticate,
    Gate,
    Rates,
    Refused,
    accepts,
    authenticated,
    check_post,
    log_request,
    read_body,
)
from mcp_ref.basic.transports.http_sessions import HttpSession, Sessions
from mcp_ref.basic.transports.http_streams import LOOK, Response, Stream, departed
from mcp_ref.basic.versioning import (
    InvalidMeta,
    MissingRequiredClientCapability,
    UnsupportedProtocolVersion,
    is_modern,
    revision,
)
from mcp_ref.runtime.checks import check_callable, check_count, check_seconds, check_text
from mcp_ref.runtime.deadlines import Clock, Deadline
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.workers import Workers

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.request_response import Connection

__all__ = ["Application"]

_log = logging.getLogger("mcp_ref.http")

JSON = ("Content-Type", "application/json")
EVENTS = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    # spec: basic/transports/streamable-http/x-accel-buffering
    ("X-Accel-Buffering", "no"),
]
NEEDS = {
    "auto": ("application/json", "text/event-stream"),
    "json": ("application/json",),
    "stream": ("application/json", "text/event-stream"),
}
"""What the Accept of a POST must take."""

SOON = 0.05
"""Seconds that an answer gets to be the only event of its stream, before the stream is begun without it."""

STATUS: dict[type[ProtocolError], int] = {
    InvalidMeta: 400,
    HeaderMismatch: 400,  # spec: basic/transports/streamable-http/header-failure-400
    UnsupportedProtocolVersion: 400,  # spec: basic/transports/streamable-http/version-unsupported-400
    MissingRequiredClientCapability: 400,
    InvalidRequest: 400,
    MethodNotFound: 404,  # spec: basic/transports/streamable-http/method-unknown-404
    TooManyRequests: 429,
}
"""Of a modern error response, by its exception; 200 for all others."""

REASONS = {
    200: "200 OK",
    202: "202 Accepted",
    204: "204 No Content",
    400: "400 Bad Request",
    403: "403 Forbidden",
    404: "404 Not Found",
    405: "405 Method Not Allowed",
    406: "406 Not Acceptable",
    409: "409 Conflict",
    429: "429 Too Many Requests",
    503: "503 Service Unavailable",
}


class Answer(NamedTuple):
    """What goes back to an HTTP request."""

    status: int
    headers: list[tuple[str, str]]
    body: Iterable[bytes]


ACCEPTED = Answer(202, [("Content-Length", "0")], ())
"""# spec: basic/transports/streamable-http/notification-202"""


class Application:
    """The MCP endpoint of a server, as a WSGI application: `server.wsgi_app()` makes one."""

    def __init__(
        self,
        server: Any,
        path: str = "/mcp",
        *,
        sse_path: str | None = None,
        health_path: str | None = None,
        stateless: bool = False,
        answers: Literal["auto", "json", "stream"] = "auto",
        allowed_hosts: str | Iterable[str] | None = None,
        allowed_origins: str | Iterable[str] | None = None,
        browser_origins: str | Iterable[str] = (),
        authenticate: Authenticate | None = None,
        rate: Limit | None = None,
        require_headers: bool = False,
        max_body_bytes: int | None = None,
        max_sessions: int = 1000,
        session_idle: float = 1800.0,
        max_streams: int = 1000,
        threads: int | None = None,
        keep_alive: float = 15.0,
        retry_ms: int = 1000,
        log_bytes: int = 1 << 20,
    ) -> None:
        """`sse_path` serves the transport of 2024-11-05 as well. `answers` decides between JSON and event
        streams where "auto" would look what comes first. `stateless` opens no sessions. `rate` bounds the
        requests of each principal, which `authenticate(request)` names. `require_headers` demands the
        interim draft's headers within sessions. `threads` says how many the WSGI server has, so that streams
        and calls are refused before the last is used up. `keep_alive` is how long a stream may be silent.
        `log_bytes` bounds what each session keeps for clients that were cut off.
        """
        check_text(path=path)
        check_callable(authenticate=authenticate)
        check_count(1, max_sessions=max_sessions, max_streams=max_streams, log_bytes=log_bytes)
        check_count(0, retry_ms=retry_ms)
        if answers not in NEEDS:
            raise ValueError(f"answers is 'auto', 'json' or 'stream', not {answers!r}")
        if threads is not None:
            check_count(1, threads=threads)
        self.server = server
        self.path = _normal(path)
        self.health_path = None if health_path is None else _normal(health_path)
        self.stateless, self.answers, self.require_headers = stateless, answers, require_headers
        self.max_body_bytes = server.max_message_bytes if max_body_bytes is None else max_body_bytes
        self.max_streams, self.threads, self.retry_ms, self.log_bytes = (
            max_streams,
            threads,
            retry_ms,
            log_bytes,
        )
        self.keep_alive = check_seconds("keep_alive", keep_alive)
        self.sessions = Sessions(max_sessions, check_seconds("session_idle", session_idle), self._hand_on)
        self.gate = Gate(allowed_hosts, allowed_origins, browser_origins)
        self._authenticate, self._rates = authenticate, Rates(rate)
        self._legacy = {date for date in server.revisions if not revision(date).modern}
        self._has_modern = len(self._legacy) < len(server.revisions)
        # A call that is silent for longer becomes a stream, so that comments keep its connection alive.
        self._silence = {"auto": keep_alive, "json": float("inf"), "stream": SOON}[answers]
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._running: set[Stream] = set()  # of requests that a connection waits for
        self._open: set[Response] = set()
        self._process: int | None = None
        self._closing = False
        self._closed = threading.Event()
        # Of this process, from the first request on.
        self._entered = ExitStack()
        self.workers: Workers
        self.modern: Connection
        """All requests of the modern era: what differs between their clients is in the requests."""
        self._others = self._old_transport(sse_path)

    def _old_transport(self, sse_path: str | None) -> dict[str, Callable[[Json, str | None], Answer]]:
        if sse_path is None:
            return {}
        from mcp_ref.basic.transports.http_sse import OldTransport

        return OldTransport(self, _normal(sse_path)).paths()

    # -- WSGI --------------------------------------------------------------------------------------

    def __call__(self, environ: Json, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """One HTTP request."""
        begun = time.monotonic()
        principal, cors = None, []
        path = _normal(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
        try:
            if path == self.health_path:
                answer = self._health(environ)
            else:
                self.gate.check(environ)
                cors = self.gate.cors(environ)
                handle = self._handler(path, environ)
                if self._authenticate is not None:
                    principal = authenticated(self._authenticate, environ)
                self._rates.check(principal or "")
                if self._process != os.getpid() or self._closing:
                    self.start()
                answer = handle(environ, principal)
        except Refused as problem:
            answer = _plain(problem.status, problem.body(), *problem.headers)
        except ProtocolError as problem:  # what a legacy server says of what is no message
            answer = _error(400, problem, None)
        log_request(environ, answer.status, time.monotonic() - begun, principal)
        start_response(REASONS.get(answer.status) or _reason(answer.status), [*answer.headers, *cors])
        return answer.body if environ["REQUEST_METHOD"] != "HEAD" else ()

    def _handler(self, path: str, environ: Json) -> Callable[[Json, str | None], Answer]:
        """What answers to a path and a method. Raises Refused."""
        method = environ["REQUEST_METHOD"]
        if path != self.path:
            other = self._others.get(f"{method} {path}")
            if other is None:
                raise Refused(404, "there is nothing at this path")
            return other
        if method == "POST":
            return self._post
        if method == "OPTIONS":
            return self._options
        # spec: basic/transports/streamable-http/get-sse-or-405, basic/transports/streamable-http/session-delete-405
        if method in ("GET", "DELETE") and self._has_sessions(environ):
            return self._get if method == "GET" else self._delete
        allowed = "POST, GET, DELETE" if self._has_sessions(environ) else "POST"
        # spec: basic/transports/streamable-http/get-405-allow-header
        # spec: basic/transports/streamable-http/session-delete-405-allow
        # spec: basic/transports/streamable-http/modern-only-get-delete-405
        raise Refused(405, f"{method[:20]} is not allowed here", [("Allow", allowed)])

    def _has_sessions(self, environ: Json) -> bool:
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        return bool(self._legacy) and not self.stateless and (version not in self.server.modern_versions())

    def _options(self, environ: Json, principal: str | None) -> Answer:
        return Answer(204, self.gate.preflight(environ), ())

    def _health(self, environ: Json) -> Answer:
        """For whoever watches over this process: no name, no secret."""
        if self._closing:
            return _plain(503, b'{"status":"closing"}', ("Retry-After", "5"))
        return _plain(200, b'{"status":"ok"}')

    # -- POST ------------------------------------------------------------------------------------

    def _post(self, environ: Json, principal: str | None) -> Answer:
        """One message (or a batch of them).  # spec: basic/transports/streamable-http/endpoint-post"""
        check_post(environ, NEEDS[self.answers])
        body = read_body(environ, self.max_body_bytes)
        try:
            message = decode(body)
        except ParseError as problem:
            return _error(400, problem, None)
        if self._is_modern(environ, message):
            return self._post_modern(environ, message, principal)
        return self._post_legacy(environ, message, principal)

    def _is_modern(self, environ: Json, message: Any) -> bool:
        """# spec: basic/versioning/dual-era-selects-stateless"""
        params = message.get("params") if type(message) is dict else None
        if type(params) is dict and is_modern(params):
            return True
        if not self._legacy:
            return not (type(message) is dict and message.get("method") == "initialize")
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        return version is not None and version not in self._legacy and self._has_modern

    # -- 2026-07-28

    def _post_modern(self, environ: Json, message: Any, principal: str | None) -> Answer:
        """A request that brings its own context, or a notification.

        # spec: basic/transports/streamable-http/modern-only-session-header-ignored
        # spec: basic/transports/streamable-http/no-resumption
        """
        try:
            kind = classify(message)
            if kind == "response":  # spec: basic/transports/streamable-http/client-no-responses
                raise InvalidRequest("in 2026-07-28 a client sends requests and notifications, no responses")
            if not self._has_modern:
                raise InvalidRequest(
                    f"this server speaks {', '.join(self.server.revisions)}: send initialize"
                )
            self._check_headers(environ, message, kind)
        except ProtocolError as problem:
            return _error(STATUS.get(type(problem), 400), problem, message)
        stream = Stream(environ=environ, principal=principal, keyed=True, mute=self.answers == "json")
        if kind == "notification":
            self.modern.route(message, stream)
            return ACCEPTED
        self._admit(stream, message["method"] == "subscriptions/listen")
        self.modern.start(message, stream)
        return self._answered(stream, environ, self._cancel)

    def _check_headers(self, environ: Json, message: Json, kind: str) -> None:
        """Raises ProtocolError where the `_meta` lacks what every request brings, or the headers differ from it."""
        params = message.get("params", {})
        if type(params) is not dict or not is_modern(params):
            if kind == "notification":
                return  # what headers and _meta it has, no page says
            raise InvalidMeta("params._meta: io.modelcontextprotocol/protocolVersion is missing")
        version = params["_meta"].get(PROTOCOL_VERSION)
        if type(version) is str:  # else the door says what is wrong
            http_headers.check(_headers(environ), message, version, self._mirrored(message))

    def _mirrored(self, message: Json) -> Any:
        """The arguments that are to be in headers as well."""
        if message["method"] != "tools/call":
            return None
        params = message.get("params")
        name = params.get("name") if type(params) is dict else None
        tool = self.server.toolbox.get(name) if type(name) is str else None
        return None if tool is None else tool.mirrored

    def _cancel(self, stream: Stream) -> None:
        """The client closed the stream.

        # spec: basic/patterns/cancellation/http-disconnect-cancels
        # spec: basic/transports/streamable-http/disconnect-is-cancel
        """
        if stream.context is not None:
            self.modern.give_up(stream.context, "the client closed the stream")

    # -- until 2025-11-25

    def _post_legacy(self, environ: Json, message: Any, principal: str | None) -> Answer:
        """Something within a session, or what opens one.

        # spec: basic/transports/streamable-http/version-header-invalid-400
        """
        if not self._legacy:
            offered = (
                message.get("params", {}).get("protocolVersion")
                if type(message.get("params")) is dict
                else ""
            )
            return _error(400, UnsupportedProtocolVersion(str(offered), self.server.revisions), message)
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        if version is not None and version not in self._legacy:
            known = ", ".join(self.server.revisions)
            return _error(
                400, InvalidRequest(f"MCP-Protocol-Version {version!r:.40}: there are {known}"), message
            )
        opens = type(message) is dict and message.get("method") == "initialize"
        session_id = environ.get("HTTP_MCP_SESSION_ID")
        if opens and (session_id is None or self.stateless):
            return self._initialize(environ, message, principal)
        if self.stateless:
            session = self._momentary(version, principal)
        else:
            session = self.sessions.find(session_id, principal)
        return self._within(session, environ, message, principal)

    def _initialize(self, environ: Json, message: Json, principal: str | None) -> Answer:
        """# spec: basic/transports/streamable-http/session-id-assigned"""
        if not self.stateless:
            self.sessions.make_room()
        session = HttpSession(self.server, self.workers, principal, self.log_bytes)
        stream = Stream(environ=environ, principal=principal)
        session.connection.route(message, stream)
        headers = []
        if stream.problem is None and stream.answered and not self.stateless:
            self.sessions.add(session)
            headers = [("Mcp-Session-Id", session.id)]
        else:
            session.end("it is not to last")
        if not stream.answered:  # a notification by that name
            return ACCEPTED
        return self._finished(stream, headers)

    def _momentary(self, version: str | None, principal: str | None) -> HttpSession:
        """Without sessions: one for this message alone, in the revision that its header names.

        # spec: basic/transports/streamable-http/version-header-absent-default
        # spec: basic/transports/streamable-http/version-header-absent-legacy
        """
        session = HttpSession(self.server, self.workers, principal, self.log_bytes)
        at = revision(version or ASSUMED)
        session.connection.session.assume(at, self.server.capabilities(at))
        session.connection.limiter = self.modern.limiter
        return session

    def _within(self, session: HttpSession, environ: Json, message: Any, principal: str | None) -> Answer:
        """A message of a session."""
        connection = session.connection
        try:
            kind = "batch" if type(message) is list else classify(message)
            if kind != "batch":
                mirrored = self._mirrored(message) if "method" in message else None
                http_headers.check_draft(_headers(environ), message, mirrored, self.require_headers)
        except ProtocolError as problem:
            return _error(400, problem, message)
        if kind in ("notification", "response"):
            connection.route(message, session.unrelated)
            return ACCEPTED
        primes = connection.session.revision.polls
        stream = Stream(
            log=None if self.stateless else session.log,
            primes=primes and not self.stateless,
            environ=environ,
            principal=principal,
            mute=self.answers == "json",
        )
        self._admit(stream, False)
        session.streams.add(stream)
        if kind == "batch":
            connection.receive_batch(message, stream)
            if not stream.answered and not any(map(wants_answer, message)):
                self._ended(stream, session)
                return ACCEPTED
        else:
            connection.start(message, stream)
        return self._answered(stream, environ, lambda stream: None, session)

    # -- the answer to a request ------------------------------------------------------------------

    def _admit(self, stream: Stream, is_long: bool) -> None:
        """One more request runs. Raises Refused where it would take the last threads."""
        with self._lock:
            running = len(self._running) + len(self._open)
            if is_long and len(self._open) >= self.max_streams:
                raise Refused(
                    503, f"{self.max_streams} streams are open, which is all", [("Retry-After", "5")]
                )
            if self.threads is not None and self.threads > 1:
                # One stays for what ends the others: answers, cancellations. Streams leave one more for calls.
                reserve = 2 if is_long and self.threads > 2 else 1
                if running + reserve >= self.threads:
                    raise Refused(
                        503, f"{running} of {self.threads} threads are in use", [("Retry-After", "1")]
                    )
            self._running.add(stream)

    def _ended(self, stream: Stream, session: HttpSession | None) -> None:
        with self._lock:
            self._running.discard(stream)
        if session is not None:
            session.streams.discard(stream)
            if self.stateless:
                session.end("its one message was answered")

    def _answered(
        self,
        stream: Stream,
        environ: Json,
        gone: Callable[[Stream], object],
        session: HttpSession | None = None,
    ) -> Answer:
        """Wait until it is clear what kind of response it is, and give that; `gone` if the client leaves."""
        end = time.monotonic() + self._silence
        departs: Callable[[], bool] | None = None
        while not stream.wait(min(LOOK, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                break
            departs = departs or departed(environ)
            if departs():
                gone(stream)
                stream.discard()
                self._ended(stream, session)
                return Answer(200, [("Content-Length", "0")], ())
        if stream.is_plain or stream.is_over:
            self._ended(stream, session)
            return self._finished(stream)
        return self._streamed(stream, environ, gone, session, after=None)

    def _finished(self, stream: Stream, headers: Sequence[tuple[str, str]] = ()) -> Answer:
        """All there is to say is known: one piece."""
        if not stream.answered and not stream.is_begun:
            return _plain(404, Refused(404, "the session ended before the answer").body())
        status = STATUS.get(type(stream.problem), 200) if stream.is_modern and stream.problem else 200
        if stream.is_plain and (self.answers != "stream" or status != 200):
            more = list(headers)
            if isinstance(stream.problem, TooManyRequests) and stream.problem.data:
                more.append(("Retry-After", str(max(1, round(stream.problem.data["retryAfterMs"] / 1000)))))
            return _plain(status, stream.whole(), *more)
        response = self._response(stream, {}, None, lambda response: None)
        body = b"".join(response)
        response.close()
        return Answer(200, [*EVENTS, ("Content-Length", str(len(body))), *headers], (body,))

    def _streamed(
        self,
        stream: Stream,
        environ: Json,
        gone: Callable[[Stream], object],
        session: HttpSession | None,
        after: int | None,
    ) -> Answer:
        """A response that goes on for a while."""

        def over(response: Response) -> None:
            with self._lock:
                self._open.discard(response)
            if response.left:
                gone(stream)
            self._ended(stream, session)

        response = self._response(stream, environ, after, over)
        with self._lock:
            self._running.discard(stream)
            self._open.add(response)
        return Answer(200, EVENTS, response)

    def _response(
        self, stream: Stream, environ: Json, after: int | None, over: Callable[[Response], object]
    ) -> Response:
        return Response(
            stream,
            after=after,
            keep_alive=self.keep_alive,
            retry_ms=self.retry_ms,
            gone=departed(environ),
            on_close=over,
        )

    # -- GET and DELETE ----------------------------------------------------------------------------

    def _get(self, environ: Json, principal: str | None) -> Answer:
        """A stream for what belongs to no request, or the rest of one that broke.

        # spec: basic/transports/streamable-http/endpoint-post-get
        """
        if not accepts(environ.get("HTTP_ACCEPT"), "text/event-stream"):
            raise Refused(406, "GET is answered with text/event-stream")
        session = self._session_of(environ, principal)
        last, stream, after = environ.get("HTTP_LAST_EVENT_ID"), session.unrelated, None
        if last is not None:
            found = session.log.find(last)
            if found is None:
                raise Refused(400, "Last-Event-ID names no event that this session has (any more)")
            stream, after = found
        elif stream.is_read:
            raise Refused(409, "this session has a stream for GET already")
        self._admit(stream, True)
        return self._streamed(stream, environ, lambda stream: None, None, after)

    def _delete(self, environ: Json, principal: str | None) -> Answer:
        """# spec: basic/transports/streamable-http/session-terminated"""
        self.sessions.remove(self._session_of(environ, principal), "the client ended the session")
        return Answer(204, [], ())

    def _session_of(self, environ: Json, principal: str | None) -> HttpSession:
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        if version is not None and version not in self._legacy:
            raise Refused(400, f"MCP-Protocol-Version {version!r:.40} is none of this server's")
        return self.sessions.find(environ.get("HTTP_MCP_SESSION_ID"), principal)

    # -- its life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """The first request in this process: from here on there are workers, and the server's lifespan."""
        with self._lock:
            if self._closing:
                raise Refused(503, "this server is going", [("Retry-After", "5")])
            if self._process == os.getpid():
                return
            self._entered = ExitStack()
            self._entered.enter_context(self.server.running())
            self.workers = Workers(self.server.workers, self.server.queue)
            self.modern = self.server.attach(Stream(mute=True), self.workers)
            self._process = os.getpid()

    def _hand_on(self, run: Callable[[Any], object], argument: Any) -> None:
        self.workers.submit(run, argument, always=True)

    def close(self, seconds: float = 3.0) -> None:
        """End it. May be called by any thread, and twice: the second waits for the first.

        1 no more requests: 503  2 streams that last are ended as their pages say  3 calls get so many seconds
        4 what still runs is cancelled, sessions end  5 workers are joined  6 the lifespan is left
        """
        with self._lock:
            first, self._closing = not self._closing, True
            running = self._process == os.getpid()
        if not first:
            self._closed.wait(seconds + 10.0)
            return
        try:
            if running:
                self._end(seconds)
        finally:
            self._closed.set()

    def _end(self, seconds: float) -> None:
        reason = "the server is going"
        self.server.listeners.close(self.modern, reason)
        for session in self.sessions.all():
            session.unrelated.fail(ConnectionClosed(reason))
        deadline, pause = Deadline(seconds, Clock()), threading.Event()
        while (self._running or self._open) and deadline.left() > 0:
            pause.wait(0.01)
        self.sessions.close(reason)
        self.server.detach(self.modern, reason)
        for stream in [*self._running, *(response.stream for response in list(self._open))]:
            stream.fail(ConnectionClosed(reason))
        deadline = Deadline(1.0, Clock())
        while (self._running or self._open) and deadline.left() > 0:
            pause.wait(0.01)
        self.workers.close(0.5)
        self._entered.close()


ASSUMED = "2025-03-26"
"""The revision of a client that does not name it: the last one without the header that would."""


def _normal(path: str) -> str:
    return "/" + path.strip("/")


def _reason(status: int) -> str:
    from http import HTTPStatus

    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Refused"


def _headers(environ: Json) -> Callable[[str], str | None]:
    return lambda name: environ.get("HTTP_" + name.upper().replace("-", "_"))


def _plain(status: int, body: bytes, *headers: tuple[str, str]) -> Answer:
    """One JSON object."""
    return Answer(status, [JSON, ("Content-Length", str(len(body))), *headers], (body,))


def _error(status: int, problem: ProtocolError, message: Any) -> Answer:
    """An error to a request, by its id; without an id where there is none to be read.

    # spec: basic/transports/streamable-http/rejected-input-status
    """
    request_id = message.get("id") if type(message) is dict else None
    if is_id(request_id):
        return _plain(status, encode_error(request_id, problem))
    return _plain(status, encode({"jsonrpc": "2.0", "error": problem.to_wire()}))
