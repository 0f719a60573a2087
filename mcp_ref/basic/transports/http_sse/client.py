"""HTTP+SSE as the client speaks it (page: basic/transports of 2024-11-05, "HTTP with SSE").

One stream brings all messages of the server, responses too; ours are POSTed to the URI that its first event
names. The exchange is shown in basic/transports/http_sse/server, which is the server's half.

    connection = OldConnection(client, exchanges, timeout=..., max_timeout=..., max_message_bytes=...)
    connection.open()           GET, until the endpoint event; raises HttpError where there is no such stream
    connection.request(...)     initialize, and all other requests
    connection.end(reason)      the stream is closed, which is the end of the session

Each thread POSTs its own messages and waits until the server has accepted them: a message that is refused is
an error for its sender alone. The end of the stream is the end of the connection.

The URI must be on the server that the stream came from: no message is ever sent to another.

Revisions   2024-11-05. Servers that still have this transport may agree on a later one, with initialize.
Errors      HttpError, RefusedByStatus (basic/transports/streamable_http/sending); InvalidResponse for a
            stream without a valid endpoint event; RequestTimeout; ConnectionClosed when the stream ended.
Threads     `mcp_ref reader` reads the stream, from `open` to the end. It never POSTs: its answers (to `ping`)
            go to a worker, as do requests that no thread waits for.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.context import WayOut
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.patterns.index.responder import Endpoint
from mcp_ref.basic.transports.streamable_http.http_errors import JSON, STREAM, refusal, wrong_type
from mcp_ref.basic.transports.streamable_http.sending import Posts
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, McpError, RequestTimeout
from mcp_ref.runtime.events import Event, Events, TooLarge
from mcp_ref.runtime.http_client.client import HttpClient
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Clock, Deadline, duration
from mcp_ref.runtime.threads.workers import QueueFull, Workers

__all__ = ["OldConnection"]

_log = logger("mcp_ref.http")

REPEATABLE_METHODS = frozenset({"initialize", "ping"})
"""Requests that may safely arrive twice, beside those of lists."""

SILENCE_SECONDS = 300.0
"""How long the stream of a server that sends keep-alive comments may be silent before it counts as lost."""

MAX_QUEUED_MESSAGES = 1000
"""Messages that may wait for a worker to POST them."""

_ENDPOINT_URI = re.compile(r"[!-~]{1,8000}")


class LosesConnection(Endpoint, Protocol):
    """An endpoint that is told of the end of its connection."""

    def lost(self, connection: Connection) -> None:
        """The stream ended. Runs on its reader."""


class OldConnection(Connection):
    """A connection to a server that speaks HTTP+SSE."""

    def __init__(
        self,
        endpoint: LosesConnection,
        exchanges: HttpClient,
        *,
        timeout: float,
        max_timeout: float | None,
        max_message_bytes: int,
    ) -> None:
        """`exchanges` is the HTTP client for the stream's URL. `end` stops exchanges, and leaves it open."""
        super().__init__(
            endpoint, Posts(self), workers=Workers(20, 100), timeout=timeout, max_timeout=max_timeout
        )
        self.exchanges = exchanges
        self.limit = max_message_bytes
        self._owner = endpoint
        self._senders = Workers(exchanges.limit, MAX_QUEUED_MESSAGES)
        self._target: str | None = None  # the target of POSTs
        self._is_begun = threading.Event()  # set when the target is known, or never will be
        self._problem: McpError | None = None
        self._reader = threading.Thread(target=self._read, name="mcp_ref reader", daemon=True)

    # -- the stream ------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the stream, and wait for the endpoint event.

        Raises HttpError or RefusedByStatus where there is no such stream.
        """
        self._reader.start()
        if not self._is_begun.wait(self.timeout):
            self.end("the stream did not begin")
            raise RequestTimeout(f"no endpoint event from the server within {self.timeout:g} s")
        if self._target is None:
            self.end("the stream did not begin")
            raise self._problem or ConnectionClosed("the client was closed")

    def _read(self) -> None:
        """Read the stream to its end, and end the connection with it. Runs on the reader."""
        try:
            self._read_stream()
        except Aborted:
            self._problem = ConnectionClosed("the client was closed")
        except McpError as problem:
            self._problem = problem
        except Exception as problem:
            _log.exception("the event stream could not be read")
            self._problem = ConnectionClosed(f"the event stream could not be read: {problem!r:.200}")
        self._is_begun.set()
        self.end(str(self._problem))
        with contextlib.suppress(ReferenceError):  # the application has dropped the client
            self._owner.lost(self)

    def _read_stream(self) -> None:
        """Open the stream and read all of it. Always raises, by its end at the latest."""
        with self.exchanges.new(None) as exchange:
            exchange.send("GET", {"Accept": STREAM})
            if exchange.status != 200:
                raise refusal(exchange, None)
            if exchange.media_type != STREAM:
                raise wrong_type(exchange, "GET")
            # Only a server that has sent a keep-alive comment is expected to send more.
            events = Events(
                exchange.read1, limit=self.limit, on_alive=lambda: exchange.set_read_timeout(SILENCE_SECONDS)
            )
            try:
                for event in events:
                    self._on_event(event)
            except Expired:
                raise ConnectionClosed(f"the event stream was silent for {SILENCE_SECONDS:g} s") from None
            except TooLarge as problem:
                raise ConnectionClosed(f"the event stream was given up: {problem}") from None
        raise ConnectionClosed("the server ended the event stream")

    def _on_event(self, event: Event) -> None:
        """Take the endpoint from the first event, and a message from each other one."""
        if self._target is None:
            self._target = self._endpoint(event)
            self._is_begun.set()
        elif event.name == "message" and event.data:
            self.receive(event.data.encode())
        else:  # a second endpoint event too: it could redirect our messages
            _log.info("ignored an event %.40r", event.name)

    def _endpoint(self, event: Event) -> str:
        """The target of POSTs, from the first event. Raises InvalidResponse."""
        url, reference = self.exchanges.url, event.data
        server = self.exchanges.settings.server  # errors show no more of the URL: its query may be a secret
        if event.name != "endpoint":
            raise InvalidResponse(
                f"the event stream of {server} begins with {event.name!r:.40}, not 'endpoint'"
            )
        if not _ENDPOINT_URI.fullmatch(reference):
            raise InvalidResponse(f"the endpoint event holds no URI: {reference!r:.100}")
        endpoint = _on_server_of(url, reference)
        if endpoint is None:
            raise InvalidResponse(
                f"the endpoint {reference:.200} is not on the server {server}: nothing is sent there"
            )
        return self.exchanges.target_of(endpoint)

    # -- messages ----------------------------------------------------------------------------------

    def _post(self, line: bytes, deadline: Deadline, call: Call | None = None) -> None:
        """POST one message, and wait until the server has accepted it. Raises what an exchange raises.

        A message that may arrive twice is sent once more if it failed on a stale kept-alive connection.
        # spec: basic/transports/streamable-http/sse-post-to-endpoint
        """
        headers = self._headers()
        is_repeatable = call is None or call.method in REPEATABLE_METHODS or call.method.endswith("/list")
        for may_repeat in (is_repeatable, False):
            with self.exchanges.new(deadline) as exchange:
                try:
                    exchange.send("POST", headers, line, self._target)
                except ConnectionClosed:
                    if may_repeat and exchange.failed_on_stale_connection:
                        continue
                    raise
                if 200 <= exchange.status < 300:
                    return
                raise refusal(exchange, None if call is None else call.id)

    def _headers(self) -> dict[str, str]:
        """The headers of a POST."""
        headers = {"Content-Type": JSON, "Accept": "*/*"}  # the body of the answer is not read
        if self.session.is_negotiated and self.session.revision.version_header:
            headers["MCP-Protocol-Version"] = self.session.revision.date
        return headers

    def transmit(self, call: Call, params: Json | None, line: bytes) -> None:
        """POST a request; its response comes on the stream."""
        if call.on_done is None:
            self._ask(call, line)
        else:
            self._on_worker(lambda: self._ask(call, line), lambda problem: self.finish(call, problem))

    def _ask(self, call: Call, line: bytes) -> None:
        """POST a request; an error is its outcome."""
        try:
            self._post(line, call.deadline, call)
        except Aborted:
            self.finish(call, self.failure or ConnectionClosed("the client was closed"))
        except Expired:
            pass  # the thread that waits for the call has the same deadline
        except McpError as problem:
            self.finish(call, problem)

    def post(self, line: bytes, wait: float | None) -> None:
        """POST a notification or a response."""
        deadline = Deadline(self.timeout if wait is None else wait, Clock())
        try:
            self._post(line, deadline)
        except Aborted:
            raise self.failure or ConnectionClosed("the client was closed") from None
        except Expired:
            raise RequestTimeout(
                f"the server did not take a message within {duration(deadline.span)}"
            ) from None

    def reply(self, line: bytes, wait: float | None) -> None:
        """POST a response, on a worker if this is the thread that reads."""
        if threading.current_thread() is self._reader:
            self._on_worker(lambda: self._reply(line, wait), _log_refusal)
        else:
            self._reply(line, wait)

    def _reply(self, line: bytes, wait: float | None) -> None:
        """POST a response; an error is logged, since no caller waits for it."""
        try:
            self.post(line, wait)
        except McpError as problem:
            _log_refusal(problem)

    def _on_worker(self, run: Callable[[], None], on_failure: Callable[[McpError], object]) -> None:
        """Run this on a worker, or report that too many messages wait for one."""
        try:
            self._senders.submit(lambda _: run(), None)
        except QueueFull:
            on_failure(ConnectionClosed("too many messages wait to be sent"))

    def notify(
        self,
        method: str,
        params: Json | None = None,
        *,
        wait: float | None = None,
        outbox: WayOut | None = None,
    ) -> None:
        """POST a notification. A cancellation that cannot be sent is logged, and is no error."""
        try:
            super().notify(method, params, wait=wait, outbox=outbox)
        except McpError as problem:
            if method != "notifications/cancelled":
                raise
            _log.info("%s: %s", method, problem)

    # -- the end -----------------------------------------------------------------------------------

    def end(self, reason: str, *, wait: float = 0.5) -> None:
        """End the connection: close the stream, and fail all waiting calls with the reason."""
        if self.is_inherited:
            return
        self.fail(reason)
        self.exchanges.stop()
        super().end(reason, wait=wait)
        self._senders.close(wait)
        if self._reader.is_alive() and self._reader is not threading.current_thread():
            self._reader.join(5.0)


def _log_refusal(problem: McpError) -> None:
    """Log that a response could not be sent."""
    _log.warning("the server did not take an answer: %s", problem)


def _on_server_of(base: str, reference: str) -> str | None:
    """The URL of a reference, if it has the origin of the base URL; else None."""
    try:
        url = urljoin(base, reference)
        return url if _origin(url) == _origin(base) else None
    except ValueError:  # not a URL
        return None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
