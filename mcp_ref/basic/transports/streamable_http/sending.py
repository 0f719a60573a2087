"""Messages to the server (page: basic/transports/streamable-http, "Sending Messages"), on the client.

Each message of the client's is a POST of its own. What a request gets is JSON, or an event stream that ends
with the response:

    client -> server   POST request            -> 200 application/json    the response
                                               -> 200 text/event-stream   messages, the response among them
    client -> server   POST notification       -> 202
    client -> server   POST response (legacy)  -> 202
    client -> server   GET (legacy)            -> 200 text/event-stream   what belongs to no request, or 405
    client -> server   DELETE (legacy)         -> the session is over

What the server makes of a POST is in `responding`.

The thread that waits for a result reads it as well: the caller's thread POSTs its request, waits for the
answer and takes it, without handing anything to another. Only where no thread waits (a future, a
subscription), or where the caller has progress to look at, a worker reads the stream.

    UrlConnection   a server behind a URL: a Connection whose outbox is a Sender
    Sender          the POST of each message, the same in both HTTP transports: on which thread, how often,
                    and what a failure means
      StreamableHttp   what this page adds: headers, the answer to the POST, the session and its GET stream
      HttpSse          what HTTP+SSE adds (http_sse/client)
    Way             the way of one request: its POST, and the GETs that resume its stream; giving the request
                    up ends the one that is under way, and what the server asked on it

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

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.error_responses import ParseError, error_response
from mcp_ref.basic.index.general_fields import PROTOCOL_VERSION
from mcp_ref.basic.index.messages import Json, decode, encode_notification
from mcp_ref.basic.lifecycle import KnowsServer
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.context import WayOut
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.patterns.index.responder import Endpoint
from mcp_ref.basic.transports.streamable_http import receiving, request_metadata
from mcp_ref.basic.transports.streamable_http.http_errors import (
    JSON,
    STREAM,
    check_status,
    refusal,
    wrong_type,
)
from mcp_ref.basic.transports.streamable_http.listening import Background
from mcp_ref.basic.transports.streamable_http.sessions import UrlSession
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, LocalError, McpError, RequestTimeout
from mcp_ref.runtime.http_client.client import MAX_EXTRA_EXCHANGES, HttpClient
from mcp_ref.runtime.http_client.exchange import HttpExchange, TooLong
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.json_text import weight
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Clock, Deadline, duration
from mcp_ref.runtime.threads.workers import QueueFull, Workers

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths

__all__ = ["Sender", "StreamableHttp", "UrlConnection", "Way"]

_log = logger("mcp_ref.http")

REPEATABLE_METHODS = frozenset({"server/discover", "initialize", "ping"})
"""What may be sent again if a kept connection ended before a byte of the answer; and every list."""

URGENT = frozenset({"ping"})
"""What asks whether the server is there, and so waits for no room that its silence may have used up."""


class UrlConnection(Connection):
    """One server behind a URL. Its outbox is the transport, which POSTs each message."""

    outbox: Sender

    def __init__(
        self, endpoint: Endpoint, sender: Sender, *, timeout: float, max_timeout: float | None
    ) -> None:
        super().__init__(endpoint, sender, workers=Workers(20, 100), timeout=timeout, max_timeout=max_timeout)
        self.responder.answers_unreadable = sender.answers_unreadable
        sender.connection = self

    def transmit(self, call: Call, params: Json | None, line: bytes) -> None:
        """POST a request."""
        self.outbox.request(call, params, line)

    def notify(
        self,
        method: str,
        params: Json | None = None,
        *,
        wait: float | None = None,
        outbox: WayOut | None = None,
    ) -> None:
        """POST a notification."""
        self.outbox.notify(method, params, wait, outbox)

    def end(self, reason: str, *, wait: float = 0.5) -> None:
        """The connection is over; nothing of it is left, neither here nor, if it can be reached, there."""
        if self.is_inherited:
            return
        self.fail(reason)
        self.outbox.stop()
        super().end(reason, wait=wait)
        self.outbox.close(wait)


# --------------------------------------------------------------------------- the ways out


class Way(WayOut):
    """The way of one request: a POST of its own, and perhaps GETs that resume its stream."""

    closes = True
    is_busy = True  # each sender waits until the server has taken its message

    def __init__(self, sender: Sender, *, modern: bool = False) -> None:
        self._sender = sender
        self.is_modern = modern
        self.session_id: str | None = None
        """The session that the request was sent in: its stream goes on in no other."""
        self._lock = threading.Lock()
        self._exchange: HttpExchange | None = None  # guarded by _lock
        self._is_over = False  # guarded by _lock

    def go(self, exchange: HttpExchange) -> HttpExchange:
        """From now on it is this exchange. Raises Aborted if the answer is not wanted any more."""
        with self._lock:
            self._exchange = exchange
            if self._is_over:
                raise Aborted
        return exchange

    def send(self, line: bytes, wait: float | None = None) -> None:
        """POST a message that belongs to what the server asked."""
        self._sender.send(line, wait)

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """POST a response to what the server asked."""
        self._sender.answer(line, problem, wait)

    def end(self) -> None:
        """The answer is not wanted any more, or will not come. Any thread.

        What the server asked meanwhile is given up with it: it could not take it back on this stream.
        """
        with self._lock:
            self._is_over = True
            exchange = self._exchange
        if exchange is not None:
            exchange.abort()
        responder = self._sender.connection.responder
        for context in list(responder.serving.values()):
            if context.arrival.outbox is self:
                responder.cancel(context, "the request that it was asked for is over")


class Sender(WayOut):
    """What POSTs the messages of a client, in either of the HTTP transports.

    # spec: basic/transports/streamable-http/new-post-per-message, basic/transports/streamable-http/use-post

    A message that may arrive twice is sent again if its kept connection turns out to have been too old.
    """

    is_busy = True  # as on a Way
    connection: UrlConnection
    """Whose messages these are."""
    target: str | None = None
    """Where they are POSTed to, if not to the URL of the client."""
    answers_unreadable = True
    """Whether a message of the server that cannot be read is answered with an error."""

    def __init__(self, exchanges: HttpClient, max_message_bytes: int) -> None:
        self.exchanges = exchanges
        self.max_message_bytes = max_message_bytes
        # Two pools: an asker may wait until an exchange is free. See `readers`, too.
        self._askers = Workers(exchanges.limit, 10_000)
        self._senders = Workers(4, 1000)
        self._here = threading.local()  # `reads`: whether this thread reads what the server says

    def headers(
        self, method: str | None, params: Json | None, deadline: Deadline | None = None
    ) -> dict[str, str]:
        """The headers of a message; what it takes to know them counts as its time."""
        raise NotImplementedError

    # -- requests ----------------------------------------------------------------------------------------

    def request(self, call: Call, params: Json | None, line: bytes) -> None:
        """POST a request: here and now if this thread waits for it, else on a worker."""
        way = call.outbox = Way(self, modern=_revision_in(params) is not None)
        if call.on_done is None:
            self.settle(call, self.ask, way, params, line)
            return
        pool = self._senders if call.method in URGENT else self._askers
        try:
            pool.submit(lambda _: self.settle(call, self.ask, way, params, line), None)
        except QueueFull:
            self.connection.finish(call, LocalError(f"{call.method}: too many requests are under way"))

    def settle(self, call: Call, step: Callable[..., object], *arguments: Any) -> None:
        """Take a step towards the answer to a call; what goes wrong in it is the outcome of the call."""
        try:
            step(call, *arguments)
        except Aborted:
            self._lose(call, self._reason())
        except Expired:
            pass  # the thread that waits for the call sees to that
        except McpError as problem:
            self._lose(call, problem)
        except Exception as problem:
            _log.exception("%s could not be sent", call.method)
            self._lose(call, LocalError(f"{call.method}: {problem!r:.300}"))

    def _reason(self) -> ConnectionClosed:
        """Why everything was aborted."""
        return self.connection.failure or ConnectionClosed("the client was closed")

    def _lose(self, call: Call, problem: McpError) -> None:
        """No answer will come."""
        self.connection.finish(call, problem)
        if isinstance(call.outbox, Way):
            call.outbox.end()

    def ask(self, call: Call, way: Way, params: Json | None, line: bytes) -> None:
        """POST a request, until the server has taken it."""
        with self.post(call, way, params, line, call.deadline) as exchange:
            check_status(exchange, call.id)

    def post(
        self, call: Call, way: Way, params: Json | None, line: bytes, deadline: Deadline | None
    ) -> HttpExchange:
        """The POST of a request, up to the head of its answer. Its body is one message. The caller closes it.

        # spec: basic/transports/streamable-http/body-single-or-batch
        # spec: basic/transports/streamable-http/body-single
        # spec: basic/transports/streamable-http/body-request-or-notification
        """
        if call.done:  # it was cancelled before it could be sent
            raise Aborted
        headers = self.headers(call.method, params, call.deadline)
        exchange = way.go(self.exchanges.new(deadline, urgent=call.method in URGENT))
        way.session_id = headers.get("Mcp-Session-Id")
        safe = call.method in REPEATABLE_METHODS or call.method.endswith("/list")
        exchange.send("POST", headers, line, self.target, repeats=safe)
        return exchange

    # -- what gets no answer -----------------------------------------------------------------------------

    def send(self, line: bytes, wait: float | None = None, headers: dict[str, str] | None = None) -> None:
        """POST a notification or a response, and return when the server has taken it.

        Raises what the server, or the network, has against it.
        """
        deadline = Deadline(self.connection.timeout if wait is None else wait, Clock())
        try:
            with self.exchanges.new(deadline, urgent=True) as exchange:
                exchange.send("POST", headers or self.headers(None, None), line, self.target, repeats=True)
                check_status(exchange, None)
        except Aborted:
            raise self._reason() from None
        except Expired:
            raise RequestTimeout(
                f"the server did not take a message within {duration(deadline.span)}"
            ) from None

    def notify(self, method: str, params: Json | None, wait: float | None, outbox: WayOut | None) -> None:
        """POST a notification. A cancellation that cannot be sent is logged, and is no error."""
        try:
            self.send(encode_notification(method, params), wait, self.headers(method, params))
        except McpError as problem:
            if method != "notifications/cancelled":
                raise
            _log.info("%s: %.300r", method, problem)

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """POST a response; not on a thread that reads: others wait for what it has still to read."""
        if not getattr(self._here, "reads", False):
            self._answer(line, wait)
            return
        try:
            self._senders.submit(lambda _: self._answer(line, wait), None)
        except QueueFull:
            _log.warning("a response was not sent: too many wait")

    def _answer(self, line: bytes, wait: float | None) -> None:
        """That the server does not take it is its own affair."""
        try:
            self.send(line, wait)
        except McpError as refused:
            if self.connection.failure is None:
                _log.warning("the server did not take a response: %.300r", refused)

    # -- the end -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End what is under way, and begin nothing more."""
        self.exchanges.stop()

    def close(self, wait: float) -> None:
        """Give the threads so long to end. The connections of HTTP stay open: they may be another's too."""
        # What is waiting to be run finds out that all is over, and closes what it was given.
        if not self._askers.close(wait, drop=False):
            _log.info("a request is still being sent after the connection ended")
        self._senders.close(wait)


# --------------------------------------------------------------------------- Streamable HTTP

POST = {"Content-Type": JSON, "Accept": f"{JSON}, {STREAM}"}
"""# spec: basic/transports/streamable-http/accept-both"""


class SendsToUrl(KnowsServer, Protocol):
    """A client, as its connection to a URL sees it."""

    def annotated(self, params: Json | None, deadline: Deadline | None) -> Paths:
        """Which arguments of a tools/call go into headers."""

    def renewed(self) -> None:
        """There is a new session: make it what the old one was."""


class StreamableHttp(Sender):
    """The sender of Streamable HTTP: what it POSTs is answered by the response, or by a stream of events."""

    answers_unreadable = False  # the error would be a message of its own, and belong to no request

    def __init__(
        self,
        client: SendsToUrl,
        exchanges: HttpClient,
        max_message_bytes: int,
        *,
        draft_headers: bool = False,
    ) -> None:
        """`draft_headers`: whether messages in sessions repeat their body, as an interim draft had it."""
        super().__init__(exchanges, max_message_bytes)
        self.client, self._draft_headers = client, draft_headers
        # spec: basic/transports/streamable-http/multiple-streams
        # Another pool than the askers': they may wait until an exchange is free, and only readers free one.
        # In one pool they would deadlock.
        self.readers = Workers(exchanges.limit + MAX_EXTRA_EXCHANGES, 1000)
        self.session = UrlSession(self)
        self.background: Background | None = None

    def headers(
        self, method: str | None, params: Json | None, deadline: Deadline | None = None
    ) -> dict[str, str]:
        """What the revision wants in the headers of a message.

        # spec: basic/transports/streamable-http/metadata-headers
        # spec: basic/transports/streamable-http/mcp-method-header-notifications
        """
        date = _revision_in(params)
        if method is not None and date is not None:
            annotated = self.client.annotated(params, deadline) if method == "tools/call" else None
            return {**POST, **request_metadata.mirror(method, params, date, annotated)}
        if self.client.negotiated.revision.mirrors_body:
            said = {} if method is None else {"Mcp-Method": method}
            return {**POST, "MCP-Protocol-Version": self.client.negotiated.revision.date, **said}
        in_session = {} if method == "initialize" else self.session.headers()
        if self._draft_headers and method is not None:
            annotated = self.client.annotated(params, deadline) if method == "tools/call" else None
            in_session |= request_metadata.mirror_draft(method, params, annotated)
        return {**POST, **in_session}

    def notify(self, method: str, params: Json | None, wait: float | None, outbox: WayOut | None) -> None:
        """POST a notification; that a request is given up, only where the end of its stream does not say so.

        # spec: basic/transports/streamable-http/sse-explicit-cancel
        # spec: basic/patterns/cancellation/http-no-cancelled-message
        """
        if method == "notifications/cancelled":
            modern = self.client.negotiated.revision.modern
            if isinstance(outbox, Way):
                outbox.end()
                modern = outbox.is_modern
            if modern:
                return
        super().notify(method, params, wait, outbox)

    # -- the answer to a request -------------------------------------------------------------------------

    def ask(self, call: Call, way: Way, params: Json | None, line: bytes) -> None:
        """One request, from its POST to its answer.

        A 404 says that its session is over, and that it was not begun: it goes again, in a new one.
        """
        deadline = call.deadline if call.on_done is None else None
        self.session.wait(call.deadline)
        served = self.session.id
        exchange = self.post(call, way, params, line, deadline)
        in_session = served is not None and call.method != "initialize" and not way.is_modern
        if in_session and exchange.status == 404:
            with exchange:
                lost = refusal(exchange, call.id)
            self.session.renew(served, lost, call.deadline)
            exchange = self.post(call, way, params, line, deadline)
        try:
            self._take(call, way, exchange)
        except BaseException:
            exchange.close()
            raise

    def _take(self, call: Call, way: Way, exchange: HttpExchange) -> None:
        """The head of the answer is there.  # spec: basic/transports/streamable-http/client-supports-both"""
        check_status(exchange, call.id)
        if call.method == "initialize":
            self.session.begin(exchange.header("mcp-session-id"))
            way.session_id = self.session.id
        if exchange.media_type == JSON:
            with exchange:
                self._take_json(call, exchange)
        elif exchange.media_type != STREAM:
            raise wrong_type(exchange, call.method)
        elif call.reports is None or call.on_done is not None:
            receiving.follow(call, self, way, exchange)
        elif not self.readers.submit(  # the waiting thread has the progress to look at
            lambda _: self.settle(call, receiving.follow, self, way, exchange), None, always=True
        ):
            raise Aborted

    def _take_json(self, call: Call, exchange: HttpExchange) -> None:
        """The answer is a body of JSON."""
        try:
            body = exchange.read(self.max_message_bytes)
            message = decode(body)
        except TooLong:
            raise _wrong_body(call, exchange, f"is longer than {self.max_message_bytes} bytes") from None
        except ParseError as problem:
            raise _wrong_body(call, exchange, f"is {problem.message}") from None
        if type(message) is dict and "error" in message and message.get("id") is None:
            self.connection.finish(call, error_response(message["error"]))
        else:
            self._hear(message, self, weight(body))
        if not call.done:
            self.connection.finish(call, _wrong_body(call, exchange, "holds no answer to this request"))

    # -- what the server says ----------------------------------------------------------------------------

    def hear(self, data: bytes, outbox: WayOut) -> None:
        """One event of a stream; what is said to a request in it goes out by `outbox`. Never raises."""
        self.exchanges.tell("<", data)
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
                self.connection.receive_batch(message, outbox, size)
            else:
                self.connection.route(message, outbox, size=size)
        except Exception:  # a fault of ours must not be the end of the stream
            _log.exception("a message could not be handled: %.200r", message)
        finally:
            self._here.reads = False

    def listen(self) -> None:
        """Hear what belongs to no request: no request goes out before the server has begun to say it."""
        if self.background is not None:
            self.background.stop()
        self.background = Background(self, Way(self))
        self.background.wait()

    # -- the end -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End what is under way, the GET stream too."""
        super().stop()
        if self.background is not None:
            self.background.stop()

    def close(self, wait: float) -> None:
        """End the threads, by DELETE the session, and the connections of HTTP."""
        super().close(wait)
        if not self.readers.close(wait, drop=False):
            _log.info("a stream is still being read after the connection ended")
        self.session.say_goodbye()
        self.exchanges.close()


def _revision_in(params: Json | None) -> str | None:
    """The revision that a message brings itself; None in the legacy era."""
    meta = params.get("_meta") if params is not None else None
    date = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
    return date if isinstance(date, str) else None


def _wrong_body(call: Call, exchange: HttpExchange, fault: str) -> InvalidResponse:
    where = f"the server at {exchange.shown_url}, status {exchange.status},"
    return InvalidResponse(f"{call.method}: the body of {where} {fault}")
