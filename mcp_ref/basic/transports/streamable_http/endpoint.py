"""Streamable HTTP (page: basic/transports/streamable-http; basic/transports from 2025-03-26 to 2025-11-25).

One URL, the *MCP endpoint*. Every message of the client's is a POST; a request is answered with one JSON
object, or with a stream of server-sent events that ends with the answer. Both eras are served on it at once:

    modern   POST request    its headers repeat what is in its body (request_metadata);
                             the stream's end is the end of the request, whichever side ends it
             GET, DELETE     405
    legacy   POST            in a session, which initialize opens (sessions);
                             202 for notifications and answers; batches in 2025-03-26
             GET             a stream for what belongs to no request; with Last-Event-ID, the rest of a
                             stream that broke (basic/transports/streamable_http/receiving)
             DELETE          ends the session

A request is modern if its `_meta` says so, or if its MCP-Protocol-Version is not of the legacy era.

This is the server's half: a WSGI application. The client's is basic/transports/streamable_http/sending. What
is asked of a request before its message is read is in basic/transports/streamable_http/security.

Revisions   2025-03-26 to 2026-07-28; the interim draft's headers within sessions. For 2024-11-05 see
            basic/transports/http_sse/server.
Errors      with an HTTP status: 400 -32020, -32021, -32022, bad `_meta` and what is no message; 404 -32601
            (2026-07-28), no such session; 403, 405, 406, 413, 415, 429, 503.
Threads     `__call__` runs on the WSGI server's threads, one a request, which wait for the workers that run
            it: a call or a stream holds one of them as long as it lasts. What is quick (server/tools) they
            run themselves. Workers are the application's, and start with the first request, in each process.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.error_responses import InvalidParams, InvalidRequest, ParseError, ProtocolError
from mcp_ref.basic.index.general_fields import PROTOCOL_VERSION, InvalidMeta
from mcp_ref.basic.index.messages import Json, decode
from mcp_ref.basic.lifecycle import ServerFacts
from mcp_ref.basic.transports.streamable_http import request_metadata
from mcp_ref.basic.transports.streamable_http.options import HttpOptions
from mcp_ref.basic.transports.streamable_http.receiving import (
    ACCEPTED,
    HttpAnswer,
    HttpStream,
    Waiting,
    error,
    ignore,
    modern_kind,
    plain,
    reason,
)
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS
from mcp_ref.basic.transports.streamable_http.security import (
    Authenticate,
    BodyBudget,
    BodyShare,
    Gate,
    Rates,
    Refused,
    authenticated,
    check_post,
    log_request,
    prefers_events,
    read_body,
)
from mcp_ref.basic.transports.streamable_http.sessions import LegacyEra, Sessions, header_of, mirrored
from mcp_ref.basic.versioning import is_modern
from mcp_ref.runtime.checks import check_bool, check_callable, check_count, check_seconds, check_text
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.json_text import MAX_JSON_PARTS
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.threads import forks

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import WayOut
    from mcp_ref.basic.patterns.subscriptions.server import Listeners
    from mcp_ref.basic.transports.http_sse.server import OldTransport
    from mcp_ref.basic.transports.index import ServedOptions
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths
    from mcp_ref.runtime.threads.shared import Shared
    from mcp_ref.runtime.threads.workers import Workers

__all__ = ["Application"]

ACCEPT_BY_ANSWERS = {
    "auto": ("application/json", "text/event-stream"),
    "json": ("application/json",),
    "stream": ("application/json", "text/event-stream"),
}
"""What the Accept of a POST must take, by the option `answers`."""


BYTES_OF_A_PART = 16
"""A body may have one part (basic/index/messages) for so many of the bytes that it may have: so that what it
becomes in memory is in proportion to them.
"""

FEW_PARTS = 10_000
"""Parts that a body may have besides, however short it must be."""

MANY = Limit(rate=1e6, burst=1_000_000)
"""Notifications to all modern clients together; each of them is bounded by how quickly it reads."""


USUAL = HttpOptions()


class Tool(Protocol):
    """A tool, as HTTP sees it."""

    @property
    def mirrored(self) -> Paths:
        """The arguments that also travel in headers."""


class Tools(Protocol):
    """The tools of a server, by name."""

    def get(self, key: str, /) -> Tool | None: ...


class HttpServed(ServerFacts, Protocol):
    """What this transport needs of the server that it serves to many clients."""

    @property
    def tools(self) -> Tools: ...

    @property
    def listeners(self) -> Listeners: ...

    @property
    def options(self) -> ServedOptions: ...

    def new_workers(self) -> Workers:
        """Threads for the requests of all clients."""

    @property
    def lifespan(self) -> Shared[Any]:
        """What is entered while it is served."""

    def attach(self, outbox: WayOut, workers: Workers, *, notices: Limit | None = None) -> Connection:
        """A new client, which is sent its messages by `outbox`."""

    def connection(self, outbox: WayOut, workers: Workers) -> Connection:
        """A client that hears of no changes."""

    def detach(self, connection: Connection, reason: str) -> None:
        """A client is gone, or is left."""


class Application:
    """The MCP endpoint of a server, as a WSGI application: `server.wsgi_app()` makes one."""

    def __init__(
        self,
        server: HttpServed,
        path: str = "/mcp",
        *,
        health_path: str | None = None,
        sse_path: str | None = None,
        stateless: bool = False,
        allowed_hosts: str | Iterable[str] | None = None,
        allowed_origins: str | Iterable[str] | None = None,
        authenticate: Authenticate | None = None,
        threads: int | None = None,
        keep_alive: float = 15.0,
        options: HttpOptions = USUAL,
    ) -> None:
        """`health_path` tells a load balancer how it is; `sse_path` serves the transport of 2024-11-05 as
        well. `stateless` opens no sessions. `authenticate(request)` names the principal of a request.
        `threads` says how many the WSGI server has, so that streams and calls are refused before the last is
        used up. `keep_alive` is how long a stream may be silent. HttpOptions has the rest.
        """
        check_text(path=path)
        check_callable(authenticate=authenticate)
        check_bool(stateless=stateless)
        if threads is not None:
            check_count(1, threads=threads)
        if not isinstance(options, HttpOptions):
            raise TypeError(f"options is an HttpOptions, not {options!r:.60}")
        self.server = server
        self._notices = server.options.notices or MANY
        self.path = _checked("path", path)
        self.health_path = None if health_path is None else _checked("health_path", health_path)
        if self.health_path == self.path:
            raise ValueError(f"health_path and path are both {self.path}")
        self.stateless, self.options = stateless, options
        self.max_body_bytes, together = options.body_bounds(server.options.max_message_bytes)
        self.bodies = BodyBudget(together)
        self._max_parts = min(MAX_JSON_PARTS, self.max_body_bytes // BYTES_OF_A_PART + FEW_PARTS)
        self.waiting = Waiting(
            answers=options.answers,
            keep_alive=check_seconds("keep_alive", keep_alive),
            retry_ms=options.retry_ms,
            max_streams=options.max_streams,
            threads=threads,
        )
        self.sessions = Sessions(
            options.max_sessions, options.session_idle, self._hand_on, options.most_sessions_each()
        )
        self.gate = Gate(allowed_hosts, allowed_origins, options.browser_origins)
        self._authenticate, self._rates = authenticate, Rates(options.rate)
        self._legacy = LegacyEra(self)
        self._has_modern = bool(server.versions.modern)
        self._decoding = threading.Lock()  # held while a large body becomes a message
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._process: int | None = None
        self._closing = False
        self._closed = threading.Event()
        self._hurries = False
        # Of this process, from the first request on.
        self._entered = ExitStack()
        self.workers: Workers
        self.modern: Connection
        """All requests of the modern era: what differs between their clients is in the requests."""
        self._old = self._old_transport(sse_path)
        self._others = {} if self._old is None else self._old.paths()
        forks.register(self)

    def forked(self) -> None:
        """Begin anew, with the first request, in a forked child: what was served is the parent's."""
        self._lock, self._decoding = threading.Lock(), threading.Lock()
        forks.without_end.append(self._entered)
        self._process, self._entered = None, ExitStack()
        self._hurries = False
        for part in (self.waiting, self.sessions, self.bodies, self._rates, self._old):
            if part is not None:
                part.forked()

    def _old_transport(self, sse_path: str | None) -> OldTransport | None:
        if sse_path is None:
            return None
        # Late, for start-up time: few servers serve the transport of 2024-11-05.
        from mcp_ref.basic.transports.http_sse.server import OldTransport

        return OldTransport(self, _checked("sse_path", sse_path))

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
                if handle == self._options:  # a browser asks on its own, and says nothing of who is behind it
                    answer = self._options(environ, None)
                else:
                    principal = self._admitted(environ)
                    answer = handle(environ, principal)
        except Refused as problem:
            answer = plain(problem.status, problem.body(), *problem.headers)
        except ProtocolError as problem:  # what a legacy server says of what is no message
            answer = error(400, problem, None)
        log_request(environ, answer.status, time.monotonic() - begun, principal)
        start_response(reason(answer.status), [*answer.headers, *cors])
        return answer.body if environ["REQUEST_METHOD"] != "HEAD" else ()

    def _admitted(self, environ: Json) -> str | None:
        """The principal of a request. Raises Refused if it may not ask, or not now."""
        principal = None if self._authenticate is None else authenticated(self._authenticate, environ)
        self._rates.check(principal or "")
        if self._process != os.getpid() or self._closing:
            self.start()
        return principal

    def _handler(self, path: str, environ: Json) -> Callable[[Json, str | None], HttpAnswer]:
        """What answers to a path and a method. Raises Refused."""
        method = environ["REQUEST_METHOD"]
        if path != self.path:
            return self._other(path, method)
        if method == "POST":
            return self._post
        if method == "OPTIONS":
            return self._options
        # spec: basic/transports/streamable-http/get-sse-or-405
        # spec: basic/transports/streamable-http/session-delete-405
        if method in ("GET", "DELETE") and self._has_sessions(environ):
            return self._legacy.get if method == "GET" else self._legacy.delete
        allowed = "POST, GET, DELETE" if self._has_sessions(environ) else "POST"
        # spec: basic/transports/streamable-http/get-405-allow-header
        # spec: basic/transports/streamable-http/session-delete-405-allow
        # spec: basic/transports/streamable-http/get-delete-405
        raise Refused(405, f"{method[:20]} is not allowed here", [("Allow", allowed)])

    def _other(self, path: str, method: str) -> Callable[[Json, str | None], HttpAnswer]:
        """What answers at a path that is not the endpoint's (basic/transports/http_sse/server). Raises
        Refused.
        """
        known = {kind: handle for kind, handle in self._others.items() if kind.endswith(f" {path}")}
        if not known:
            raise Refused(404, "there is nothing at this path")
        if method == "OPTIONS":
            return self._options
        found = known.get(f"{method} {path}")
        if found is None:
            allowed = ", ".join(kind.partition(" ")[0] for kind in known)
            raise Refused(405, f"{method[:20]} is not allowed here", [("Allow", allowed)])
        return found

    def _has_sessions(self, environ: Json) -> bool:
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        return (
            bool(self._legacy.dates) and not self.stateless and (version not in self.server.versions.modern)
        )

    def _options(self, environ: Json, principal: str | None) -> HttpAnswer:
        return HttpAnswer(204, self.gate.preflight(environ), ())

    def _health(self, environ: Json) -> HttpAnswer:
        """The answer of `health_path`, by any host name: it has nothing to hide. Raises Refused."""
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise Refused(405, "health is asked for with GET", [("Allow", "GET, HEAD")])
        if self._closing:
            return plain(503, b'{"status":"closing"}', ("Retry-After", "5"))
        return plain(200, b'{"status":"ok"}')

    # -- POST ------------------------------------------------------------------------------------

    def _post(self, environ: Json, principal: str | None) -> HttpAnswer:
        """One message (or a batch of them).  # spec: basic/transports/streamable-http/endpoint-post"""
        # Step 1: the headers say what the body is, and that its answer can be read.
        check_post(environ, ACCEPT_BY_ANSWERS[self.options.answers])
        # Step 2: a large body needs its share of the memory; what can be said without it is said first.
        share = self.bodies.share(environ)
        if share is not None:
            self._legacy.check_session(environ, principal)
        # Step 3: read and decode it.
        try:
            message = self.receive(environ, share)
        except ParseError as problem:
            return error(400, problem, None)
        # Step 4: its era serves it.
        if self._is_modern(environ, message):
            return self._post_modern(environ, message, principal)
        return self._legacy.post(environ, message, principal)

    def receive(self, environ: Json, share: BodyShare | None) -> Any:
        """The message in a body. Raises Refused, ParseError."""
        body = read_body(environ, self.max_body_bytes, share)
        if share is None:
            return decode(body, self._max_parts)
        with self._decoding:  # no other thread runs meanwhile: those that wait get their turn between two
            return decode(body, self._max_parts)

    def _is_modern(self, environ: Json, message: Any) -> bool:
        """Whether a message is of the modern era, by its `_meta` or else by its headers."""
        params = message.get("params") if type(message) is dict else None
        if type(params) is dict and is_modern(params):
            return True
        if not self._legacy.dates:
            return not (type(message) is dict and message.get("method") == "initialize")
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        if version is None or version in self._legacy.dates:
            return False
        # An unknown version within a session is a mistake of the legacy era's.
        return "HTTP_MCP_SESSION_ID" not in environ or version in self.server.versions.modern

    # -- 2026-07-28

    def _post_modern(self, environ: Json, message: Any, principal: str | None) -> HttpAnswer:
        """A request that brings its own context, or a notification.

        # spec: basic/transports/streamable-http/ignore-session-id
        # spec: basic/transports/streamable-http/ignore-last-event-id
        # spec: basic/transports/streamable-http/no-resumption
        """
        try:
            kind = modern_kind(message)
            if not self._has_modern:
                raise InvalidRequest(
                    f"this server speaks {', '.join(self.server.versions.supported)}: send initialize"
                )
            self._check_headers(environ, message, kind)
        except ProtocolError as problem:
            return error(STATUS.get(type(problem), 400), problem, message)
        lasts = message["method"] == "subscriptions/listen"  # it has no answer that could be JSON
        # Each request has a stream of its own, for what is said to it and for nothing else.
        # spec: basic/transports/streamable-http/sse-request-notifications
        # spec: basic/transports/streamable-http/sse-notifications-related
        # spec: basic/transports/streamable-http/listen-no-request-scoped
        stream = HttpStream(
            environ=environ,
            principal=principal,
            keyed=True,
            mute=self.options.answers == "json" and not lasts,
            eager=prefers_events(environ.get("HTTP_ACCEPT")),
        )
        if kind == "notification":
            self.modern.route(message, stream)
            return ACCEPTED
        self.waiting.admit(stream, is_long=lasts)
        self.modern.responder.start(self.modern, message, stream)
        return self.waiting.answered(stream, environ, gone=self._cancel, over=ignore)

    def _check_headers(self, environ: Json, message: Json, kind: str) -> None:
        """Raises ProtocolError where `_meta` lacks what every request brings, or headers differ from it."""
        params = message.get("params", {})
        if type(params) is not dict or not is_modern(params):
            if kind == "notification":
                return  # what headers and _meta it has, no page says
            if type(params) is not dict:
                raise InvalidParams(f"{message['method'][:80]}: params must be an object")
            before = "; before 2026-07-28 initialize comes first, and then the Mcp-Session-Id that it gives"
            raise InvalidMeta(
                "params._meta: io.modelcontextprotocol/protocolVersion is missing"
                f"{before if self._legacy.dates else ''}"
            )
        version = params["_meta"].get(PROTOCOL_VERSION)
        if type(version) is str:  # else the door says what is wrong
            request_metadata.check(header_of(environ), message, version, mirrored(self.server, message))

    def _cancel(self, stream: HttpStream) -> None:
        """The client closed the stream.

        # spec: basic/patterns/cancellation/http-disconnect-cancels
        # spec: basic/transports/streamable-http/cancel-on-disconnect
        # spec: basic/transports/streamable-http/cancel-stops-work
        # spec: basic/transports/streamable-http/cancel-silences
        # spec: basic/transports/streamable-http/sse-broken-stream-not-resumed
        """
        if stream.context is not None:
            self.modern.responder.cancel(stream.context, "the client closed the stream")

    # -- its life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """The first request in this process: from here on there are workers, and the server's lifespan."""
        with self._lock:
            if self._closing:
                raise Refused(503, "this server is going", [("Retry-After", "5")])
            if self._process == os.getpid():
                return
            self._entered = ExitStack()
            self._entered.enter_context(self.server.lifespan.used())
            self.workers = self.server.new_workers()
            self.modern = self.server.attach(HttpStream(mute=True), self.workers, notices=self._notices)
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

    def hurry(self) -> None:
        """Have `close` wait no longer for calls. A signal's handler may call it, since it takes no lock."""
        self._hurries = True

    def _give_calls(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._hurries and (left := end - time.monotonic()) > 0:
            if self.waiting.flush(min(left, 0.1)):
                return

    def _end(self, seconds: float) -> None:
        reason = "the server is going"
        self.server.listeners.close(self.modern, reason)
        # spec: basic/lifecycle/shutdown-http, basic/transports/streamable-http/get-server-closes
        for session in self.sessions.all():
            session.unrelated.fail(ConnectionClosed(reason))
        if self._old is not None:
            self._old.close(reason)
        self._give_calls(seconds)
        self.sessions.close(reason)
        self._legacy.close(reason)
        self.server.detach(self.modern, reason)
        self.waiting.fail(ConnectionClosed(reason))
        self.waiting.flush(1.0)
        self.workers.close(0.5)
        self._entered.close()


def _normal(path: str) -> str:
    return "/" + path.strip("/")


def _checked(name: str, path: str) -> str:
    """A path of ours, as a request will have it. Raises ValueError for one that none could."""
    if not _ENDPOINT_PATH.fullmatch(path):
        raise ValueError(f"{name} is made of letters, digits and -._~/, not {path!r:.80}")
    return _normal(path)


_ENDPOINT_PATH = re.compile(r"[A-Za-z0-9\-._~/]*")
