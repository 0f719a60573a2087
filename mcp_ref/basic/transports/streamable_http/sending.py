"""Streamable HTTP, as the client speaks it (page: basic/transports/streamable-http, "Sending Messages").

Each message of ours is a POST of its own. What a request gets is JSON, or an event stream that ends with
the response:

    client -> server   POST request            -> 200 application/json    the response
                                               -> 200 text/event-stream   messages, the response among them
    client -> server   POST notification       -> 202
    client -> server   POST response (legacy)  -> 202
    client -> server   GET (legacy)            -> 200 text/event-stream   what belongs to no request, or 405
    client -> server   DELETE (legacy)         -> the session is over

The thread that waits for a result reads it as well: the caller's thread POSTs its request, waits for the
answer and takes it, without handing anything to another. Only where no thread waits (a future, a
subscription), or where the caller has progress to look at, a worker reads the stream.

Where a pipe has its outbox, a message goes by one of these:

    Posts   for a notification or a response: a POST that is over when the server has taken it
    Way     for one request: its POST, and the GETs that resume its stream; giving the request up ends the
            one that is under way, and what the server asked on it

Revisions   2025-03-26  sessions (sessions), the GET stream, resumption (receiving)
            2025-06-18  + MCP-Protocol-Version, from initialization on
            2026-07-28  no sessions; headers that repeat the body (request_metadata); letting go of the answer
                        cancels the request
Errors      HttpError and RefusedByStatus (http_errors); ConnectionClosed, where a connection ended too early;
            Aborted, on a way whose request was given up.
Threads     caller      POSTs its request, and reads the answer
            worker      one a request that no thread waits for, one a stream that another thread waits for;
                        others run what the server asks
            No thread that reads POSTs an answer: that is for `_senders`, of which there are four.
            `_lock` of a Way makes sure that no exchange begins on it once it is given up.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.error_responses import (
    InvalidParams,
    InvalidRequest,
    ParseError,
    ProtocolError,
    error_response,
)
from mcp_ref.basic.index.general_fields import PROTOCOL_VERSION, InvalidMeta
from mcp_ref.basic.index.messages import (
    Json,
    classify,
    decode,
    encode,
    encode_error,
    encode_notification,
    is_id,
)
from mcp_ref.basic.lifecycle import KnowsServer
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.patterns.index.responder import IMMEDIATE, Endpoint
from mcp_ref.basic.transports.streamable_http import receiving, request_metadata
from mcp_ref.basic.transports.streamable_http.http_errors import JSON, STREAM, refusal, wrong_type
from mcp_ref.basic.transports.streamable_http.receiving import JSON_OBJECT, HttpStream, Kind, Posted
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS
from mcp_ref.basic.transports.streamable_http.security import Refused
from mcp_ref.basic.transports.streamable_http.sessions import UrlSession
from mcp_ref.basic.versioning import is_modern
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    RequestCancelled,
    RequestTimeout,
)
from mcp_ref.runtime.http_client.client import HttpClient
from mcp_ref.runtime.http_client.exchange import HttpExchange, TooLong
from mcp_ref.runtime.http_client.slots import MAX_EXTRA_EXCHANGES
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.json_text import weight
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Clock, Deadline, duration
from mcp_ref.runtime.threads.workers import QueueFull, Workers

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext, WayOut
    from mcp_ref.basic.transports.streamable_http import Application
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths
    from mcp_ref.runtime.http_server.reply import Reply

__all__ = ["Posts", "UrlConnection", "Way"]


# ----------------------------------------------------------------------- server half


def accepted(reply: Reply) -> Iterable[bytes]:
    """The response to what has no answer.

    # spec: basic/transports/streamable-http/notification-202
    """
    return reply.whole(202, b"", ())


def refusal_body(
    reply: Reply, problem: Refused | ProtocolError, message: Any = None, *, is_modern: bool = False
) -> Iterable[bytes]:
    """The response to what is refused: an error with the id of its request, or without one that can be read.

    # spec: basic/transports/streamable-http/rejected-input-status
    # spec: basic/transports/streamable-http/rejected-input-body
    """
    if isinstance(problem, Refused):
        return reply.whole(problem.status, problem.body(), [JSON_OBJECT, *problem.headers])
    status = STATUS.get(type(problem), 400) if is_modern else 400
    request_id = message.get("id") if type(message) is dict else None
    if is_id(request_id):
        return reply.whole(status, encode_error(request_id, problem), [JSON_OBJECT])
    return reply.whole(status, encode({"jsonrpc": "2.0", "error": problem.to_wire()}), [JSON_OBJECT])


class ModernEra:
    """What an application does for clients of 2026-07-28: each request brings its own context.

    # spec: basic/transports/streamable-http/ignore-session-id
    # spec: basic/transports/streamable-http/ignore-last-event-id
    # spec: basic/transports/streamable-http/no-resumption
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self.connection: Connection
        """All requests of the era: what differs between their clients is in the requests."""

    def begin(self) -> None:
        """The first request in this process."""
        server = self._app.server
        mute, notices = HttpStream(None, Kind(is_mute=True)), server.options.notices
        self.connection = server.attach_shared(mute, None, notices=notices or MANY_NOTICES)

    def take(self, reply: Reply, message: Any) -> Posted:
        """A message. Raises ProtocolError, Refused, NoPlace."""
        kind, app = modern_kind(message), self._app
        if not app.server.versions.modern:
            raise InvalidRequest(
                f"this server speaks {', '.join(app.server.versions.supported)}: send initialize"
            )
        self._check_headers(reply.environ, message, kind)
        if kind == "notification":
            return Posted(kind, self.connection, None)
        # Each request has a stream of its own, for what is said to it and for nothing else.
        # spec: basic/transports/streamable-http/sse-request-notifications
        # spec: basic/transports/streamable-http/sse-notifications-related
        # spec: basic/transports/streamable-http/listen-no-request-scoped
        form = app.kind_of(reply.environ, is_modern=True)
        method = message["method"]
        if method == "subscriptions/listen":  # it has no answer that could be JSON
            stream = HttpStream(reply, form._replace(is_mute=False), app.style)
            app.open_reader(stream, reply)
            return Posted("quick", self.connection, stream)
        return Posted(
            "quick" if method in IMMEDIATE else kind, self.connection, HttpStream(reply, form, app.style)
        )

    def over(self) -> Refused:
        """A request that came when the server was ending."""
        return Refused(503, "The server is shutting down; retry in 5 s.", [("Retry-After", "5")])

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
                f"{before if self._app.legacy.dates else ''}"
            )
        version = params["_meta"].get(PROTOCOL_VERSION)
        if type(version) is str:  # else the door says what is wrong
            paths = request_metadata.mirrored(self._app.server.tools, message)
            request_metadata.check(request_metadata.header_of(environ), message, version, paths)


def modern_kind(message: Any) -> str:
    """Whether the body of a POST is a request or a notification. Raises InvalidRequest for any other."""
    if type(message) is list:
        raise InvalidRequest("a batch; only 2025-03-26 has batches")
    kind = classify(message)
    if kind == "response":  # spec: basic/transports/streamable-http/client-no-responses
        raise InvalidRequest("in 2026-07-28 a client sends requests and notifications, no responses")
    return kind


MANY_NOTICES = Limit(rate=1e6, burst=1_000_000)
"""Notifications to all modern clients together; each of them is bounded by how quickly it reads."""

# ----------------------------------------------------------------------- client half


class Poster(Protocol):
    """A connection that POSTs each of its messages."""

    def post(self, line: bytes, wait: float | None) -> None:
        """A notification, or a response: return when the server has taken it."""

    def reply(self, line: bytes, wait: float | None) -> None:
        """A response; an error is logged."""


class Posts:
    """The way of whatever is no request of ours: a POST each, which wants no more than to be taken.

    # spec: basic/transports/streamable-http/new-post-per-message, basic/transports/streamable-http/use-post
    """

    begins: Callable[[RequestContext], object] | None = None
    """Every message has a POST of its own: there is nothing to prepare."""
    closes = False
    two_way = True
    is_busy = True  # each sender waits until the server has taken its message

    def __init__(self, connection: Poster) -> None:
        self._connection = connection

    def send(self, line: bytes, wait: float | None = None) -> None:
        """POST one message. Raises ConnectionClosed, HttpError."""
        self._connection.post(line, wait)

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """POST a response."""
        self._connection.reply(line, wait)

    def cancel(self, reason: str) -> None:
        """Nothing was begun that would have to be ended."""

    def release(self) -> bool:
        """There is no client that could come back: this is one."""
        return False

    def flush(self, seconds: float) -> bool:
        """`send` returned only when its message was written: nothing is left to wait for."""
        return True

    def fail(self, problem: BaseException) -> None:
        """The connection says so itself."""


class Way(Posts):
    """The way of one request: a POST of its own, and perhaps GETs that resume its stream."""

    closes = True

    def __init__(self, connection: UrlConnection, modern: bool = False) -> None:
        super().__init__(connection)
        self._responder = connection.responder
        self.is_modern = modern
        self.session_id: str | None = None
        """The session that the request was sent in: its stream goes on in no other."""
        self._lock = threading.Lock()
        self._exchange: HttpExchange | None = None  # guarded by _lock
        self._is_over = False  # guarded by _lock
        self._asked: list[RequestContext] = []  # guarded by _lock

    def go(self, exchange: HttpExchange) -> HttpExchange:
        """From now on it is this exchange. Raises Aborted if the answer is not wanted any more."""
        with self._lock:
            self._exchange = exchange
            if self._is_over:
                raise Aborted
        return exchange

    def begins(self, context: RequestContext) -> None:
        """The server asks something on the stream of this request."""
        with self._lock:
            self._asked = [asked for asked in self._asked if not asked.is_over]
            self._asked.append(context)

    def end(self) -> None:
        """The answer is not wanted any more, or will not come. Any thread.

        What the server asked meanwhile is given up with it: it could not take it back on this stream.
        """
        with self._lock:
            self._is_over = True
            exchange, asked = self._exchange, self._asked
            self._asked = []
        if exchange is not None:
            exchange.abort()
        for context in asked:
            self._responder.cancel(context, "the request that it was asked for is over")


_log = logger("mcp_ref.http")

POST = {"Content-Type": JSON, "Accept": f"{JSON}, {STREAM}"}
"""# spec: basic/transports/streamable-http/accept-both"""

REPEATABLE_METHODS = frozenset({"server/discover", "initialize", "ping"})
"""What may be sent again if a kept connection ended before a byte of the answer; and every list."""

URGENT = frozenset({"ping"})
"""What asks whether the server is there, and so waits for no room that its silence may have used up."""


class SendsToUrl(KnowsServer, Protocol):
    """A client, as its connection to a URL sees it."""

    @property
    def endpoint(self) -> Endpoint:
        """What answers the server, and hears it."""

    def annotated(self, params: Json | None, deadline: Deadline | None) -> Paths:
        """Which arguments of a tools/call go into headers."""

    def renewed(self) -> None:
        """There is a new session: make it what the old one was."""


class UrlConnection(Connection):
    """One server behind a URL."""

    def __init__(
        self,
        client: SendsToUrl,
        exchanges: HttpClient,
        *,
        timeout: float,
        max_timeout: float | None,
        max_message_bytes: int,
    ) -> None:
        super().__init__(
            client.endpoint, Posts(self), workers=Workers(20, 100), timeout=timeout, max_timeout=max_timeout
        )
        self.responder.answers_unreadable = False
        self.client = client
        self.exchanges = exchanges
        self.limit = max_message_bytes
        # spec: basic/transports/streamable-http/multiple-streams
        # Two pools: a sender may wait until an exchange is free, and only readers free one. In one pool they
        # would deadlock.
        self._askers = Workers(exchanges.limit, 10_000)
        self.readers = Workers(exchanges.limit + MAX_EXTRA_EXCHANGES, 1000)
        self._senders = Workers(4, 1000)
        self._here = threading.local()
        self.belonging = UrlSession(self)
        self.background: receiving.Background | None = None

    # -- what goes out -----------------------------------------------------------------------------------

    def headers(
        self, method: str | None, params: Json | None, deadline: Deadline | None = None
    ) -> dict[str, str]:
        """What the revision wants in the headers of a message; what it takes to know that counts as its time.

        # spec: basic/transports/streamable-http/metadata-headers
        # spec: basic/transports/streamable-http/mcp-method-header-notifications
        """
        date = _date(params)
        if method is not None and date is not None:
            annotated = self.client.annotated(params, deadline) if method == "tools/call" else None
            return {**POST, **request_metadata.mirror(method, params, date, annotated)}
        if self.client.negotiated.revision.mirrors_body:
            said = {} if method is None else {"Mcp-Method": method}
            return {**POST, "MCP-Protocol-Version": self.client.negotiated.revision.date, **said}
        return {**POST, **({} if method == "initialize" else self.belonging.headers())}

    def _posted(
        self,
        way: Way,
        deadline: Deadline | None,
        headers: dict[str, str],
        line: bytes,
        *,
        safe: bool,
        urgent: bool = False,
    ) -> HttpExchange:
        """One POST, up to the head of its answer, which the caller closes. Its body is one message.

        # spec: basic/transports/streamable-http/body-single-or-batch
        # spec: basic/transports/streamable-http/body-single
        # spec: basic/transports/streamable-http/body-request-or-notification

        What is `safe` to be done twice is sent again, if a kept connection turns out to have been too old.
        """
        for again in (safe, False):
            exchange = way.go(self.exchanges.new(deadline, urgent=urgent))
            way.session_id = headers.get("Mcp-Session-Id")
            try:
                exchange.send("POST", headers, line)
                return exchange
            except BaseException as problem:
                exchange.close()
                if (
                    not isinstance(problem, ConnectionClosed)
                    or not again
                    or not exchange.failed_on_stale_connection
                ):
                    raise
        raise AssertionError("the second try has either returned or raised")

    def post(self, line: bytes, wait: float | None, headers: dict[str, str] | None = None) -> None:
        """A message that gets no answer. Raises what the server, or the network, has against it."""
        headers = self.headers(None, None) if headers is None else headers
        deadline = Deadline(self.timeout if wait is None else wait, Clock())
        try:
            with self._posted(Way(self), deadline, headers, line, safe=True, urgent=True) as exchange:
                if not 200 <= exchange.status < 300:
                    raise refusal(exchange, None)
        except Aborted:
            raise self.failure or ConnectionClosed("the client was closed") from None
        except Expired:
            raise RequestTimeout(
                f"the server did not take a message within {duration(deadline.span)}"
            ) from None

    def notify(
        self,
        method: str,
        params: Json | None = None,
        *,
        wait: float | None = None,
        outbox: WayOut | None = None,
    ) -> None:
        """POST a notification; that a request is given up, only where the end of its stream does not say so.

        # spec: basic/transports/streamable-http/sse-explicit-cancel
        # spec: basic/patterns/cancellation/http-no-cancelled-message
        """
        if isinstance(outbox, Way):
            outbox.end()
        modern = outbox.is_modern if isinstance(outbox, Way) else self.client.negotiated.revision.modern
        if modern and method == "notifications/cancelled":
            return
        try:
            self.post(encode_notification(method, params), wait, self.headers(method, params))
        except McpError as problem:
            if not isinstance(outbox, Way):
                raise
            _log.info("%s: %.300r", method, problem)

    # -- requests ----------------------------------------------------------------------------------------

    def transmit(self, call: Call, params: Json | None, line: bytes) -> None:
        """POST a request: here and now if this thread waits for it, else on a worker."""
        way = call.outbox = Way(self, _date(params) is not None)
        if call.on_done is None:
            self.ending(call, lambda: self._ask(call, way, params, line))
        else:
            pool = self._senders if call.method in URGENT else self._askers
            try:
                pool.submit(lambda _: self.ending(call, lambda: self._ask(call, way, params, line)), None)
            except QueueFull:
                self.finish(call, LocalError(f"{call.method}: too many requests are under way"))

    def ending(self, call: Call, run: Callable[[], None]) -> None:
        """Do something for a call; what goes wrong is its outcome."""
        try:
            run()
        except Aborted:
            self._lose(call, self.failure or RequestCancelled(f"{call.method}: given up"))
        except Expired:
            pass  # the thread that waits for the call sees to that
        except McpError as problem:
            self._lose(call, problem)
        except Exception as problem:
            _log.exception("%s could not be sent", call.method)
            self._lose(call, LocalError(f"{call.method}: {problem!r:.300}"))

    def _lose(self, call: Call, problem: McpError) -> None:
        """No answer will come."""
        self.finish(call, problem)
        if isinstance(call.outbox, Way):
            call.outbox.end()

    def _ask(self, call: Call, way: Way, params: Json | None, line: bytes) -> None:
        """One request, from its POST to its answer.

        A 404 says that its session is over, and that it was not begun: it goes again, in a new one.
        """
        if call.done:  # it was cancelled before it could be sent
            return
        deadline = call.deadline if call.on_done is None else None
        safe = call.method in REPEATABLE_METHODS or call.method.endswith("/list")
        self.belonging.wait(call.deadline)
        served = self.belonging.id
        urgent = call.method in URGENT
        exchange = self._posted(
            way, deadline, self.headers(call.method, params, call.deadline), line, safe=safe, urgent=urgent
        )
        in_session = served is not None and call.method != "initialize" and not way.is_modern
        if in_session and exchange.status == 404:
            with exchange:
                lost = refusal(exchange, call.id)
            self.belonging.renew(served, lost, call.deadline)
            exchange = self._posted(
                way,
                deadline,
                self.headers(call.method, params, call.deadline),
                line,
                safe=safe,
                urgent=urgent,
            )
        try:
            self._answered(call, way, exchange)
        except BaseException:
            exchange.close()
            raise

    def _answered(self, call: Call, way: Way, exchange: HttpExchange) -> None:
        """The head of the answer is there.  # spec: basic/transports/streamable-http/client-supports-both"""
        succeeded = 200 <= exchange.status < 300
        if succeeded and call.method == "initialize":
            self.belonging.begin(exchange.header("mcp-session-id"))
            way.session_id = self.belonging.id
        if not succeeded:
            raise refusal(exchange, call.id)
        if exchange.media_type == JSON:
            self._take(call, exchange)
            exchange.close()
        elif exchange.media_type != STREAM:
            raise wrong_type(exchange, call.method)
        elif call.reports is None or call.on_done is not None:
            receiving.follow(self, call, way, exchange)
        else:  # the waiting thread has the progress to look at
            follow = functools.partial(receiving.follow, self, call, way, exchange)
            if not self.readers.submit(lambda _: self.ending(call, follow), None, always=True):
                raise Aborted

    def _take(self, call: Call, exchange: HttpExchange) -> None:
        """The answer is a body of JSON."""
        try:
            body = exchange.read(self.limit)
            message = decode(body)
        except TooLong:
            raise _wrong_body(call, exchange, f"is longer than {self.limit} bytes") from None
        except ParseError as problem:
            raise _wrong_body(call, exchange, f"is {problem.message}") from None
        if type(message) is dict and "error" in message and message.get("id") is None:
            self.finish(call, error_response(message["error"]))
        else:
            self._hear(message, self.outbox, weight(body))
        if not call.done:
            self.finish(call, _wrong_body(call, exchange, "holds no answer to this request"))

    # -- what the server says ----------------------------------------------------------------------------

    def hear(self, data: bytes, outbox: WayOut) -> None:
        """One event of a stream; what is said to a request in it goes out by `outbox`. Never raises."""
        try:
            message = decode(data)
        except ParseError as problem:
            _log.info("ignored an event that is no message: %.300r", problem)
        else:
            self._hear(message, outbox, weight(data))

    def _hear(self, message: Any, outbox: WayOut, size: int) -> None:
        self._here.reads = True
        try:
            if type(message) is list:
                self.receive_batch(message, outbox, size)
            else:
                self.route(message, outbox, size=size)
        except Exception:  # a fault of ours must not be the end of the stream
            _log.exception("a message could not be handled: %.200r", message)
        finally:
            self._here.reads = False

    def reply(self, line: bytes, wait: float | None) -> None:
        """POST a response; not on a thread that reads: others wait for what it has still to read."""
        if not getattr(self._here, "reads", False):
            self._reply(line, wait)
            return
        try:
            self._senders.submit(lambda _: self._reply(line, wait), None)
        except QueueFull:
            _log.warning("a response was not sent: too many wait")

    def _reply(self, line: bytes, wait: float | None) -> None:
        """That the server does not take it is its own affair."""
        try:
            self.post(line, wait)
        except McpError as refused:
            if self.failure is None:
                _log.warning("the server did not take a response: %.300r", refused)

    # -- the background, and the end ---------------------------------------------------------------------

    def listen(self) -> None:
        """Hear what belongs to no request."""
        if self.background is not None:
            self.background.stop()
        self.background = receiving.Background(self)

    def end(self, reason: str, *, wait: float = 0.5) -> None:
        """The connection is over; nothing of it is left, neither here nor, if it can be reached, there."""
        if self.is_inherited:
            return
        self.fail(reason)
        self.exchanges.stop()
        if self.background is not None:
            self.background.stop()
        super().end(reason, wait=wait)
        # What is waiting to be run finds out that all is over, and closes what it was given.
        if not (self._askers.close(wait, drop=False) & self.readers.close(wait, drop=False)):
            _log.info("a stream is still being read after the connection ended")
        self._senders.close(wait)
        self.belonging.say_goodbye()
        self.exchanges.close()


def _date(params: Json | None) -> str | None:
    """The revision that a message brings itself; None in the legacy era."""
    meta = params.get("_meta") if params is not None else None
    date = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
    return date if isinstance(date, str) else None


def _wrong_body(call: Call, exchange: HttpExchange, fault: str) -> InvalidResponse:
    where = f"the server at {exchange.shown_url}, status {exchange.status},"
    return InvalidResponse(f"{call.method}: the body of {where} {fault}")
