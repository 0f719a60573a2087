"""Messages to the server (page: basic/transports/streamable-http, "Sending Messages"), on the client.

The client POSTs each message by itself. A request is answered with JSON, or with an event stream that ends
with the response:

    client -> server   POST request            -> 200 application/json    the response
                                               -> 200 text/event-stream   messages, the response among them
    client -> server   POST notification       -> 202
    client -> server   POST response (legacy)  -> 202
    client -> server   GET (legacy)            -> 200 text/event-stream   what belongs to no request, or 405
    client -> server   DELETE (legacy)         -> the session is over

The server's half is `responding`.

The thread that waits for a result does all the work: it POSTs its request, waits for the answer and reads it,
without handing anything to another thread. A worker reads the stream only if no thread waits (a future, a
subscription), or if the thread that waits handles progress.

    UrlConnection   a server behind a URL: a Connection whose outbox is a Sender
    Sender          the POST of each message, the same in both HTTP transports: on which thread, how often,
                    and what a failure means
      StreamableHttp   what this page adds: headers, the answer to the POST, the session and its GET stream
      HttpSse          what HTTP+SSE adds (http_sse/client)
    Way             the outgoing side of one request: its POST, and the GETs that resume its stream; giving
                    the request up ends the exchange under way, and the requests that the server sent on it

Revisions   2025-03-26  sessions (sessions), the GET stream, resumption (receiving)
            2025-06-18  + MCP-Protocol-Version, from initialization on
            2026-07-28  no sessions; headers that repeat the body (request_metadata); closing the response
                        cancels the request
Errors      HttpError and RefusedByStatus (http_errors); ConnectionClosed, where a connection ended too early;
            Aborted, on a way whose request was given up.
Threads     caller      POSTs its request, and reads the answer
            worker      one for each request that no thread waits for, and for each stream that another thread
                        waits for; others run the server's requests
            A thread that reads a stream never POSTs a response: the four `_senders` do that, and they
            POST all cancellations.
            `_lock` of a Way makes sure that no exchange begins on it once its request is given up.
"""

from __future__ import annotations

import contextvars
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
"""Requests that may be sent again if a kept connection ends before a byte of the answer; so may lists."""

URGENT = frozenset({"ping"})
"""Requests that ask whether the server is there. They do not wait for a free exchange: a silent server may
have used up all."""

CANCEL_SECONDS = 5.0
"""Seconds in which a cancellation is to be POSTed, from the moment when the request was given up."""


class UrlConnection(Connection):
    """The connection to a server behind a URL. Its outbox is the transport, which POSTs each message."""

    outbox: Sender

    def __init__(
        self, endpoint: Endpoint, sender: Sender, *, timeout: float, max_timeout: float | None
    ) -> None:
        super().__init__(endpoint, sender, workers=Workers(20, 100), timeout=timeout, max_timeout=max_timeout)
        self.responder.answers_unreadable = sender.answers_unreadable
        sender.connection = self

    def transmit(self, call: Call, params: Json | None, line: bytes) -> None:
        """POST a request."""
        call.is_sent = True  # an exchange is cancelled from its beginning on
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
        """End the connection, its threads, and its session on the server, if that can be reached."""
        if self.is_inherited:
            return
        self.fail(reason)
        self.outbox.stop()
        super().end(reason, wait=wait)
        self.outbox.close(wait)


# --------------------------------------------------------------------------- the outgoing sides


class Way(WayOut):
    """The outgoing side of one request: its POST, and perhaps GETs that resume its stream."""

    closes = True
    is_busy = True  # each sender waits until the server has taken its message

    def __init__(self, sender: Sender, *, modern: bool = False) -> None:
        self._sender = sender
        self.is_modern = modern
        self.session_id: str | None = None
        """The session that the request was sent in: its stream goes on in no other."""
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._exchange: HttpExchange | None = None
        self._was_begun = False  # by an exchange before that one
        self._is_over = False

    @property
    def is_begun(self) -> bool:
        """Whether the server may have seen the request."""
        with self._lock:
            return self._was_begun or _is_begun(self._exchange)

    def go(self, exchange: HttpExchange) -> HttpExchange:
        """Let this be the exchange under way. Raises Aborted if the answer is no longer wanted."""
        with self._lock:
            self._was_begun = self._was_begun or _is_begun(self._exchange)
            self._exchange = exchange
            if self._is_over:
                raise Aborted
        return exchange

    def send(self, line: bytes, wait: float | None = None) -> None:
        """POST a message that belongs to a request of the server."""
        self._sender.send(line, wait)

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """POST the response to a request of the server."""
        self._sender.answer(line, problem, wait)

    def end(self) -> None:
        """End the exchange under way: the answer is no longer wanted, or will not come. Any thread.

        Requests that the server sent on it are cancelled too: with the stream, the server has lost the means
        to cancel them itself.
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


def _is_begun(exchange: HttpExchange | None) -> bool:
    """Whether its request has a target: it is given one when it no longer waits for its turn."""
    return exchange is not None and exchange.sent[0] != ""


class Sender(WayOut):
    """POSTs the messages of a client: what the two HTTP transports have in common.

    # spec: basic/transports/streamable-http/new-post-per-message, basic/transports/streamable-http/use-post

    A message that may arrive twice is sent again if the server turns out to have closed a kept connection.
    """

    is_busy = True  # as on a Way
    connection: UrlConnection
    """The connection whose messages these are."""
    target: str | None = None
    """Where they are POSTed to, if not to the URL of the client."""
    answers_unreadable = True
    """Whether a message of the server that cannot be read is answered with an error."""

    def __init__(self, exchanges: HttpClient, max_message_bytes: int) -> None:
        self.exchanges = exchanges
        self.max_message_bytes = max_message_bytes
        # Two pools: an asker may wait until an exchange is free. The responses and cancellations that
        # `_senders` POST must not wait behind it, since the exchanges under way may depend on them. See
        # `readers`, too.
        self._askers = Workers(exchanges.limit, 10_000)
        self._senders = Workers(4, 1000)
        self._here = threading.local()  # `reads`: whether this thread reads the messages of the server

    def headers(
        self, method: str | None, params: Json | None, deadline: Deadline | None = None
    ) -> dict[str, str]:
        """The headers of a message. If the list of tools must be fetched for them, `deadline` bounds that."""
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
        """Run a step towards the answer to a call; an error in it becomes the outcome of the call."""
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
        """Finish a call with an error: no answer will come."""
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
        """POST a request, one message, and wait for the head of the answer. The caller closes the exchange.

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

    # -- messages that get no answer ---------------------------------------------------------------------

    def send(self, line: bytes, wait: float | None = None, headers: dict[str, str] | None = None) -> None:
        """POST a notification or a response, and return when the server has taken it.

        Raises McpError if the server refuses it, or cannot be reached.
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
        """POST a notification.

        A cancellation that cannot be sent is logged, and is no error. Its caller has given up a request, and
        waits no longer than `wait`; the POST, which may need a new TLS connection, has more time. A thread of
        this package does not wait at all: it may have others to serve.
        """
        if method != "notifications/cancelled":
            self.send(encode_notification(method, params), wait, self.headers(method, params))
            return
        told, deadline = threading.Event(), Deadline(CANCEL_SECONDS, Clock())
        context = contextvars.copy_context()  # a `headers` function may look at it
        try:
            is_taken = self._senders.submit(
                lambda _: context.run(self._cancel, method, params, deadline, told), None
            )
        except QueueFull as full:
            _log.info("%s was not sent: %s", method, full)
            return
        if is_taken and not threading.current_thread().name.startswith("mcp_ref"):
            told.wait(CANCEL_SECONDS if wait is None else wait)

    def _cancel(self, method: str, params: Json | None, deadline: Deadline, told: threading.Event) -> None:
        """POST a cancellation, and set `told`. Runs on one of `_senders`."""
        try:
            if deadline.left() > 0:  # else others were sent for so long
                self.send(encode_notification(method, params), deadline.left(), self.headers(method, params))
        except McpError as problem:
            _log.info("%s: %.300r", method, problem)
        finally:
            told.set()

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """POST a response; on a worker if this thread reads, since others wait for what it will read next."""
        if not getattr(self._here, "reads", False):
            self._answer(line, wait)
            return
        try:
            self._senders.submit(lambda _: self._answer(line, wait), None)
        except QueueFull:
            _log.warning("a response was not sent: too many wait")

    def _answer(self, line: bytes, wait: float | None) -> None:
        """POST a response. If the server does not take it, that is logged, and no error."""
        try:
            self.send(line, wait)
        except McpError as refused:
            if self.connection.failure is None:
                _log.warning("the server did not take a response: %.300r", refused)

    # -- the end -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End all exchanges, and begin no more."""
        self.exchanges.stop()

    def close(self, wait: float) -> None:
        """Give the threads `wait` seconds to end. HTTP connections stay open: others may use them, too."""
        # Jobs that wait still run (`drop=False`): they find the exchanges stopped, and fail their calls.
        if not self._askers.close(wait, drop=False):
            _log.info("a request is still being sent after the connection ended")
        self._senders.close(wait)


# --------------------------------------------------------------------------- Streamable HTTP

POST = {"Content-Type": JSON, "Accept": f"{JSON}, {STREAM}"}
"""The headers of each POST.  # spec: basic/transports/streamable-http/accept-both"""


class SendsToUrl(KnowsServer, Protocol):
    """A client, as its connection to a URL sees it."""

    def annotated(self, params: Json | None, deadline: Deadline | None) -> Paths:
        """Which arguments of a tools/call go into headers."""

    def renewed(self) -> None:
        """Restore in a new session what the old one had."""


class StreamableHttp(Sender):
    """The sender of Streamable HTTP: a request that it POSTs is answered with JSON or a stream of events."""

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
        """The headers of a message, as its revision demands them.

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
        """POST a notification. In the modern era a cancellation ends the stream, and is not POSTed.

        # spec: basic/transports/streamable-http/sse-explicit-cancel
        # spec: basic/patterns/cancellation/http-no-cancelled-message
        """
        if method == "notifications/cancelled":
            is_enough = self.client.negotiated.revision.modern
            if isinstance(outbox, Way):
                outbox.end()
                # What the server has not seen needs no cancellation.
                is_enough = outbox.is_modern or not outbox.is_begun
            if is_enough:
                return
        super().notify(method, params, wait, outbox)

    # -- the answer to a request -------------------------------------------------------------------------

    def ask(self, call: Call, way: Way, params: Json | None, line: bytes) -> None:
        """POST a request, and take its answer, or have a worker take it.

        A 404 says that its session is over, and that it was not begun: it is sent again in a new session.
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
        """Take an answer by its head.  # spec: basic/transports/streamable-http/client-supports-both"""
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
        elif not self.readers.submit(  # the thread that waits handles progress
            lambda _: self.settle(call, receiving.follow, self, way, exchange), None, always=True
        ):
            raise Aborted

    def _take_json(self, call: Call, exchange: HttpExchange) -> None:
        """Take an answer that is a body of JSON."""
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

    # -- messages of the server --------------------------------------------------------------------------

    def hear(self, data: bytes, outbox: WayOut) -> None:
        """Handle the message in one event; if it is a request, its response goes out by `outbox`.

        Never raises.
        """
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
        """Open the GET stream, and wait a moment for its answer: the notifications of a request that is sent
        before it may be lost.
        """
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
        """End the threads, the session (with DELETE), and the HTTP connections."""
        super().close(wait)
        if not self.readers.close(wait, drop=False):
            _log.info("a stream is still being read after the connection ended")
        self.session.say_goodbye()
        self.exchanges.close()


def _revision_in(params: Json | None) -> str | None:
    """The revision that a message names in its `_meta`; None in the legacy era."""
    meta = params.get("_meta") if params is not None else None
    date = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
    return date if isinstance(date, str) else None


def _wrong_body(call: Call, exchange: HttpExchange, fault: str) -> InvalidResponse:
    where = f"the server at {exchange.shown_url}, status {exchange.status},"
    return InvalidResponse(f"{call.method}: the body of {where} {fault}")
