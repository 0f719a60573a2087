"""The MCP endpoint (page: basic/transports/streamable-http; basic/transports from 2025-03-26 to 2025-11-25).

One URL. The client POSTs each of its messages there; a request is answered with one JSON object, or with a
stream of server-sent events that ends with the answer. Both eras are served at once:

    modern   POST request    its headers repeat what is in its body
                             the stream's end is the end of the request, whichever side ends it
             GET, DELETE     405
    legacy   POST            in a session, which initialize opens;
                             202 for notifications and responses; batches in 2025-03-26
             GET             a stream for messages that belong to no request; with Last-Event-ID, the rest of
                             a stream that broke
             DELETE          ends the session

A message is modern if its `_meta` says so, or if it names an MCP-Protocol-Version that is not of the legacy
era. There is one exception: an unknown version within a session is an error of the legacy era.

This is the server's half, a WSGI application. A request goes through eight steps, in `__call__` and `_post`:

    1 Host and Origin      2 path, method, who     3 read the message    4 its era
                             asks
    5 its session, its     6 wait for its turn     7 run it              8 send the rest
      headers, its stream

Revisions   2025-03-26 to 2026-07-28, and within sessions the headers of the interim draft. For 2024-11-05 see
            basic/transports/http_sse/server.
Errors      with an HTTP status: 400 for -32020, -32021, -32022, a bad `_meta`, and a body that is not a
            message; 404 for -32601 (2026-07-28) and an unknown session; 401, 403, 405, 406, 408, 411, 413,
            415, 429, 500, 501, 503.
Threads     A request runs from its first byte to its last on the thread that its connection or WSGI server
            gave it: `__call__`, the handler, and the messages that the handler sends. One more thread, the
            attendant (runtime/http_server/attendant), looks after requests that are silent: it notices
            clients that left, begins streams and writes comments.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.error_responses import ProtocolError
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import ServerFacts
from mcp_ref.basic.transports.streamable_http.listening import EventReader
from mcp_ref.basic.transports.streamable_http.options import HttpOptions
from mcp_ref.basic.transports.streamable_http.responding import (
    AnswerStyle,
    HttpStream,
    ModernEra,
    Posted,
    accepted,
    refusal_body,
    shutting_down,
)
from mcp_ref.basic.transports.streamable_http.security import (
    Authenticate,
    BodyBudget,
    Gate,
    Guard,
    Refused,
    log_request,
    requests_log,
)
from mcp_ref.basic.transports.streamable_http.sessions import LegacyEra, Sessions, is_initialize
from mcp_ref.basic.versioning import is_modern
from mcp_ref.runtime.checks import check_bool, check_callable, check_count, check_seconds, check_text
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.http_server.attendant import Attendant
from mcp_ref.runtime.http_server.reply import HttpReply
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.places import NoPlace, Places

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import WayOut
    from mcp_ref.basic.patterns.subscriptions.server import Listeners
    from mcp_ref.basic.transports.http_sse.server import OldTransport
    from mcp_ref.basic.transports.streamable_http.request_metadata import Tools
    from mcp_ref.basic.utilities.tasks.behavior_requirements import Receiver
    from mcp_ref.runtime.threads.shared import Shared
    from mcp_ref.runtime.threads.workers import Workers

__all__ = ["Application"]

ACCEPT_BY_ANSWERS = {
    "auto": ("application/json", "text/event-stream"),
    "json": ("application/json",),
    "stream": ("application/json", "text/event-stream"),
}
"""The media types that the Accept header of a POST must allow, by the option `answers`."""

USUAL = HttpOptions()


class HttpServedOptions(Protocol):
    """Options of a server about its clients, and about their requests."""

    @property
    def max_message_bytes(self) -> int:
        """Bytes of the longest message that is read."""

    @property
    def notices(self) -> Limit | None:
        """The limit on progress and log messages to one connection."""

    @property
    def ping_every(self) -> float | None:
        """Seconds between two pings of a client; None if clients are not pinged."""

    @property
    def workers(self) -> int:
        """Requests that may run at once."""

    @property
    def queue(self) -> int:
        """Requests that may wait for their turn."""


class HttpServed(ServerFacts, Protocol):
    """What this transport needs of the server, which it serves to many clients."""

    @property
    def tools(self) -> Tools: ...

    @property
    def listeners(self) -> Listeners: ...

    @property
    def options(self) -> HttpServedOptions: ...

    def new_workers(self) -> Workers:
        """Threads for requests that have none (basic/transports/http_sse)."""

    @property
    def lifespan(self) -> Shared[Any]:
        """Its lifespan, which is entered as long as it is served."""

    @property
    def tasks(self) -> Receiver:
        """Its tasks, which end with this process."""

    def attach_shared(
        self, outbox: WayOut, workers: Workers | None, *, notices: Limit | None = None
    ) -> Connection:
        """Attach a new client, whose messages go out by `outbox`."""

    def connection(self, outbox: WayOut, workers: Workers | None) -> Connection:
        """Return a connection that is not attached: its client is told of no changes."""

    def detach(self, connection: Connection, reason: str) -> None:
        """End the connection of a client, which has gone or is given up."""


Handler = Callable[[HttpReply], Iterable[bytes]]
"""Answers the requests to a path with a method: returns the body for WSGI. Raises Refused, NoPlace."""


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
        authenticate: Authenticate | Guard | None = None,
        threads: int | None = None,
        keep_alive: float = 15.0,
        options: HttpOptions = USUAL,
    ) -> None:
        """At `health_path` a load balancer sees whether the server is up; `sse_path` serves the transport of
        2024-11-05 as well. With `stateless` no sessions are opened. `authenticate(request)` returns the
        principal of a request; so does a Guard, which also says what the request may do.
        `threads` is the number of threads of the WSGI server: streams and calls are refused before they take
        the last one. `keep_alive` is how many seconds a stream may be silent before a comment is sent on it.
        HttpOptions has the other options.
        """
        check_text(path=path)
        if not isinstance(authenticate, Guard):
            check_callable(authenticate=authenticate)
        check_bool(stateless=stateless)
        if threads is not None:
            check_count(1, threads=threads)
        if not isinstance(options, HttpOptions):
            raise TypeError(f"options is an HttpOptions, not {options!r:.60}")
        self.server = server
        self.path = _checked("path", path)
        self.health_path = None if health_path is None else _checked("health_path", health_path)
        if self.health_path == self.path:
            raise ValueError(f"health_path and path are both {self.path}")
        self.stateless, self.options = stateless, options
        one, together = options.body_bounds(server.options.max_message_bytes)
        self.bodies = BodyBudget(together, one)
        check_seconds("keep_alive", keep_alive)
        self.style = AnswerStyle(options.answers, keep_alive, options.retry_ms, can_ask=threads != 1)
        self.places = Places(
            running=server.options.workers,
            waiting=server.options.queue,
            streams=options.max_streams,
            threads=threads,
        )
        self.attendant = Attendant(min(MAX_PAUSE_SECONDS, keep_alive / 2))
        self.style.flush_soon = self.attendant.flush_soon
        self.sessions = Sessions(options.max_sessions, options.session_idle, options.most_sessions_each())
        self.gate = Gate(
            allowed_hosts,
            allowed_origins,
            options.browser_origins,
            authenticate,
            options.rate,
            self.health_path,
        )
        self.modern, self.legacy = ModernEra(self), LegacyEra(self)
        self._life = Life(self)
        self._old = self._old_transport(sse_path)
        forks.register(self)

    def forked(self) -> None:
        """Start afresh in a forked child, with its first request: all that was under way is the parent's."""
        parts = (self._life, self.places, self.attendant, self.sessions, self.bodies, self._old)
        for part in parts:
            if part is not None:
                part.forked()

    def _old_transport(self, sse_path: str | None) -> OldTransport | None:
        if sse_path is None:
            return None
        # Late, for start-up time: few servers serve the transport of 2024-11-05.
        from mcp_ref.basic.transports.http_sse.server import OldTransport

        return OldTransport(self, _checked("sse_path", sse_path))

    # -- a request ---------------------------------------------------------------------------------

    def __call__(self, environ: Json, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one HTTP request, as WSGI calls an application. Steps 1 and 2; `_post` has the others."""
        begun, reply = time.monotonic(), HttpReply(environ, start_response)
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        path = path if path == self.path else _normal(path)
        try:
            # Step 1: refuse a Host or an Origin that is not allowed.
            if path not in self.gate.open_paths:
                reply.headers = self.gate.check(environ)
            # Step 2: find the handler of the path and the method, and the principal that asks.
            if path == self.path and environ["REQUEST_METHOD"] == "POST":
                if self.gate.identifies or not self._life.is_open:
                    self._identify(reply)
                body = self._post(reply)
            else:
                body = self._find(path, reply)(reply)
        except (Refused, ProtocolError) as problem:
            body = refusal_body(reply, problem)
        except NoPlace as problem:
            later = [("Retry-After", str(problem.seconds))]
            body = refusal_body(reply, Refused(503, str(problem), later))
        if requests_log.isEnabledFor(logging.INFO):
            log_request(environ, reply.status, time.monotonic() - begun, reply.principal)
        return body

    def _identify(self, reply: HttpReply) -> None:
        """Step 2: set the principal; with the first request, begin to serve. Raises Refused."""
        if self.gate.identifies:
            reply.principal = self.gate.identify(reply.environ)
        if not self._life.is_open:
            self._life.begin()

    def _find(self, path: str, reply: HttpReply) -> Handler:
        """Return the handler of a request that is not the POST of a message. Raises Refused."""
        document = self.gate.documents.get(path)
        if document is not None:
            return document
        handle = self._handler(path, reply.environ)
        if handle not in (self._health, self._preflight):  # these two are asked for without credentials
            self._identify(reply)
        return handle

    def _handler(self, path: str, environ: Json) -> Handler:
        """Return the handler of a path and a method, which is the same for every principal. Raises Refused.

        # spec: basic/transports/streamable-http/get-405-allow-header
        # spec: basic/transports/streamable-http/session-delete-405-allow
        # spec: basic/transports/streamable-http/get-delete-405
        """
        method = environ["REQUEST_METHOD"]
        if path == self.health_path:
            return self._health
        known = self._handlers(path, environ.get("HTTP_MCP_PROTOCOL_VERSION"))
        if not known:
            raise Refused(404, "there is nothing at this path")
        if method == "OPTIONS":
            return self._preflight
        if method not in known:
            raise Refused(405, f"{method[:20]} is not allowed here", [("Allow", ", ".join(known))])
        return known[method]

    def _handlers(self, path: str, version: str | None) -> dict[str, Handler]:
        """The handlers at a path, by method, for a client whose MCP-Protocol-Version is `version`."""
        if path != self.path:
            return {} if self._old is None else self._old.paths().get(path, {})
        has_sessions = self.legacy.dates and not self.stateless and version not in self.server.versions.modern
        # spec: basic/transports/streamable-http/get-sse-or-405
        # spec: basic/transports/streamable-http/session-delete-405
        in_session: dict[str, Handler] = {"GET": self.legacy.get, "DELETE": self.legacy.delete}
        return {"POST": self._post, **(in_session if has_sessions else {})}

    def _preflight(self, reply: HttpReply) -> Iterable[bytes]:
        headers, reply.headers = self.gate.preflight(reply.environ, reply.headers), []
        reply.begin(204, headers)
        return ()

    def _health(self, reply: HttpReply) -> Iterable[bytes]:
        if reply.environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise Refused(405, "health is asked for with GET", [("Allow", "GET, HEAD")])
        kind = ("Content-Type", "application/json")
        if self._life.is_closing:
            return reply.whole(503, b'{"status":"closing"}', [kind, ("Retry-After", "5")])
        return reply.whole(200, b'{"status":"ok"}', [kind])

    def _post(self, reply: HttpReply) -> Iterable[bytes]:
        """Serve one message, or a batch.  # spec: basic/transports/streamable-http/endpoint-post"""
        # Step 3: check by the headers that the body is JSON and that the client accepts the answer; then read
        # it. A message that the token does not allow is refused here (403), before any handler or stream
        # begins.
        need = ACCEPT_BY_ANSWERS[self.options.answers]
        message = self.bodies.receive(
            reply.environ, need, functools.partial(self.legacy.check_session, reply)
        )
        if not self._life.is_open:  # the body came slowly, and the server was closed meanwhile: 503
            self._life.begin()
        # Step 4: its era.
        era = self._era_of(reply.environ, message)
        # Step 5: its kind, the connection of its client, and the stream for what is sent back to it.
        try:
            kind, connection, stream = era.take(reply, message)
        except ProtocolError as problem:
            return refusal_body(reply, problem, message, is_modern=era is self.modern)
        if stream is None or kind == "answered":
            return self._without_run(reply, Posted(kind, connection, stream), message)
        self.attendant.watch(stream)
        has_place = False
        try:
            # Step 6: wait for its turn, unless it is sure to be quick.
            if kind in ("request", "batch"):
                has_waited = self.places.enter_call(stream.is_wanted)
                has_place = True
                if has_waited and connection.failure is not None:  # its session, or the server, has ended
                    raise era.over()
            # Step 7: run it, on this thread.
            if kind == "batch":
                connection.receive_batch(message, stream)
            else:
                connection.responder.start(connection, message, stream)
        finally:
            self.attendant.leave(stream)
            if has_place:
                self.places.leave_call()
        # Step 8: return what is still to be sent, which may be the whole response.
        return stream.finish()

    def _without_run(self, reply: HttpReply, posted: Posted, message: Any) -> Iterable[bytes]:
        """Finish a POST for which no handler runs: of notifications and responses, or of `initialize`.

        The answer to `initialize` is there already, by step 5.
        """
        if posted.stream is not None:
            return posted.stream.finish()
        if posted.kind == "batch":
            posted.connection.receive_batch(message, posted.connection.outbox)
        else:
            posted.connection.route(message, posted.connection.outbox)
        return accepted(reply)

    def _era_of(self, environ: Json, message: Any) -> ModernEra | LegacyEra:
        """The era of a message, by its `_meta` or else by its headers."""
        params = message.get("params") if type(message) is dict else None
        if type(params) is dict and is_modern(params):
            return self.modern
        if not self.legacy.dates:
            return self.legacy if is_initialize(message) else self.modern
        version = environ.get("HTTP_MCP_PROTOCOL_VERSION")
        if version is None or version in self.legacy.dates:
            return self.legacy
        # An unknown version within a session is a mistake of a legacy client, and gets a legacy error.
        in_session = "HTTP_MCP_SESSION_ID" in environ and version not in self.server.versions.modern
        return self.legacy if in_session else self.modern

    # -- for both eras, and for HTTP+SSE --------------------------------------------------------------

    def open_reader(
        self,
        stream: HttpStream,
        reply: HttpReply,
        *,
        last_seen: int | None = None,
        on_close: Callable[[], object] | None = None,
    ) -> EventReader:
        """Return a reader by which the thread of a request serves a stream that lasts. Raises NoPlace."""

        def closed(reader: EventReader) -> None:
            self.attendant.leave(reader)
            self.places.leave_stream()
            if on_close is not None:
                on_close()

        self.places.enter_stream()
        try:
            reader = EventReader(stream, reply, last_seen=last_seen, on_close=closed)
        except BaseException:
            self.places.leave_stream()
            raise
        self.attendant.watch(reader)
        return reader

    # -- its life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Enter the server's lifespan now, and not with the first request. Raises Refused after `close`."""
        self._life.begin()

    def close(self, seconds: float = 3.0) -> None:
        """Shut down. May be called by any thread, and twice: the second call waits for the first.

        1 new requests get 503  2 tasks fail, and streams that last are ended as their pages say
        3 calls get `seconds` to finish  4 what still runs is cancelled, sessions end  5 the attendant ends
        6 the lifespan is left
        """
        self._life.close(seconds, self._end)

    def hurry(self) -> None:
        """Make `close` stop waiting for calls. A signal handler may call this, since it takes no lock."""
        self._life.hurries = True

    def _end(self, seconds: float) -> None:
        reason = "the server is shutting down"
        # Step 2: fail the tasks, unless the server is also served in another way. Only then end the streams
        # that last, since these tell clients of their tasks.
        ends_tasks = self.server.lifespan.is_in_last_use
        if ends_tasks:
            self.server.tasks.fail()
        self.server.listeners.close(self.modern.connection, reason)
        # spec: basic/lifecycle/shutdown-http, basic/transports/streamable-http/get-server-closes
        for session in self.sessions.all():
            session.unrelated.fail(ConnectionClosed(reason))
        if self._old is not None:
            self._old.close(reason)
        # Step 3: let calls finish.
        self._wait_for_responses(seconds)
        # Step 4: cancel what still runs, and end the sessions.
        self.sessions.close(reason)
        self.legacy.close(reason)
        self.server.detach(self.modern.connection, reason)
        for response in list(self.attendant.watched):
            response.fail(ConnectionClosed(reason))
        if ends_tasks:
            self.server.tasks.close(LAST_SECONDS)
        self._life.hurries = False
        self._wait_for_responses(LAST_SECONDS)
        # Step 5: end the threads. No response is under way any more, or only those that cannot be ended.
        if self._old is not None:
            self._old.end()
        self.attendant.close(LAST_SECONDS)

    def _wait_for_responses(self, seconds: float) -> None:
        end, pause = time.monotonic() + seconds, threading.Event()
        while self.places.taken and not self._life.hurries and time.monotonic() < end:
            pause.wait(0.01)


MAX_PAUSE_SECONDS = 0.25
"""Seconds between two rounds of the attendant, at most: a client that left is noticed within a second."""

LAST_SECONDS = 1.0
"""Seconds that `close` waits for tasks that failed, for requests that it cancelled, and for the attendant."""


class Life:
    """The time in which requests are served: from the first one in a process to `close`.

    The server's lifespan is entered with the first request.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self.hurries = False
        """Whether `close` shall no longer wait for calls."""
        self.is_open = False
        """Whether requests are served in this process."""
        self.is_closing = False
        self._closed = threading.Event()
        self.forked()

    def forked(self) -> None:
        """Start afresh in a forked child: only the parent may leave the lifespan that it entered."""
        forks.without_end.append(getattr(self, "_entered", None))
        self._lock = threading.Lock()
        self._entered = ExitStack()
        self.is_open = self.hurries = False

    def begin(self) -> None:
        """Enter the lifespan, if this is the first request in this process. Raises Refused after `close`."""
        with self._lock:
            if self.is_closing:
                raise shutting_down()
            if not self.is_open:
                self._entered.enter_context(self._app.server.lifespan.used())
                self._app.modern.begin()
                self.is_open = True

    def close(self, seconds: float, end: Callable[[float], None]) -> None:
        """Take no more requests, `end` what is under way, and leave the lifespan."""
        with self._lock:
            is_first, self.is_closing = not self.is_closing, True
            was_open, self.is_open = self.is_open, False
        if not is_first:
            self._closed.wait(seconds + 10.0)
            return
        try:
            if was_open:
                end(seconds)
                self._entered.close()
        finally:
            self._closed.set()


def _normal(path: str) -> str:
    return "/" + path.strip("/")


def _checked(name: str, path: str) -> str:
    """A path of the settings, as requests spell it. Raises ValueError for one that no request can have."""
    if not _ENDPOINT_PATH.fullmatch(path):
        raise ValueError(f"{name} is made of letters, digits and -._~/, not {path!r:.80}")
    return _normal(path)


_ENDPOINT_PATH = re.compile(r"[A-Za-z0-9\-._~/]*")
