"""HTTP+SSE as the client speaks it (page: basic/transports of 2024-11-05, "HTTP with SSE").

One stream brings all that the server says, answers too; what we say is POSTed to the URI that its first
event names. The exchange is shown in basic/transports/http_sse/server, which is the server's half.

    connection = OldConnection(client, exchanges, timeout=..., max_timeout=..., max_message_bytes=...)
    connection.open()           GET, until the endpoint event; raises HttpError where there is no such stream
    connection.request(...)     initialize, and whatever follows
    connection.end(reason)      the stream is closed, which is the end of the session

Each thread POSTs what it has to say itself and waits until the server has taken it, so that it hears when
the server does not: that is an error for this one message, and for no other. The end of the stream is the
end of all.

The URI must be on the server that the stream came from: nothing is ever sent to another.

Revisions   2024-11-05. Servers that still have this transport may agree on a later one, with initialize.
Errors      HttpError, RefusedByStatus (basic/transports/streamable_http/sending); InvalidResponse for a
stream
            that does not begin as it should; RequestTimeout; ConnectionClosed when it ended.
Threads     `mcp_ref reader` reads the stream, from `open` to the end. It never POSTs: what it has to answer
            (`ping`) goes to a worker, as do requests that nobody waits for.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin, urlsplit

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.transports.streamable_http.http_errors import JSON, STREAM, refusal, wrong_type
from mcp_ref.basic.transports.streamable_http.sending import Posts
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    McpError,
    RequestTimeout,
)
from mcp_ref.runtime.events import Event, Events, TooLarge
from mcp_ref.runtime.http_client.client import HttpClient
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Clock, Deadline, duration
from mcp_ref.runtime.threads.outbox import WayOut
from mcp_ref.runtime.threads.workers import QueueFull, Workers

__all__ = ["OldConnection"]

_log = logger("mcp_ref.http")

SAFE = frozenset({"initialize", "ping"})
"""Requests that may arrive twice; and every list."""

SILENCE = 300.0
"""Seconds without a byte after which a server that used to give signs of life is taken to be gone."""

QUEUE = 1000
"""Messages that may wait for a worker to POST them."""

_URI = re.compile(r"[!-~]{1,8000}")


class _Mail(Posts):
    """The way of all messages to the endpoint that the server named."""

    _connection: OldConnection

    def send(self, line: bytes, wait: float | None = None) -> None:
        """POST one message. Raises what the server, or the network, has against it."""
        self._connection.post(line, wait)


class OldConnection(Connection):
    """A server that speaks HTTP+SSE."""

    def __init__(
        self,
        client: Any,
        exchanges: HttpClient,
        *,
        timeout: float,
        max_timeout: float | None,
        max_message_bytes: int,
    ) -> None:
        """`exchanges` are with the URL of the stream; this stops them at its end, and leaves them open."""
        super().__init__(
            client, _Mail(self), workers=Workers(20, 100), timeout=timeout, max_timeout=max_timeout
        )
        self.exchanges = exchanges
        self.limit = max_message_bytes
        self._client = client
        self._senders = Workers(exchanges.limit, QUEUE)
        self._target: str | None = None  # where POSTs go
        self._found = threading.Event()  # set when that is known, or will never be
        self._problem: McpError | None = None
        self._reader = threading.Thread(target=self._read, name="mcp_ref reader", daemon=True)

    # -- the stream ------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the stream, and learn where to POST. HttpError, RefusedByStatus: there is no such stream."""
        self._reader.start()
        if not self._found.wait(self.timeout):
            self.end("the stream did not begin")
            raise RequestTimeout(f"no endpoint event from the server within {self.timeout:g} s")
        if self._target is None:
            self.end("the stream did not begin")
            raise self._problem or ConnectionClosed("the client was closed")

    def _read(self) -> None:
        try:
            self._read_stream()
        except Aborted:
            self._problem = ConnectionClosed("the client was closed")
        except McpError as problem:
            self._problem = problem
        except Exception as problem:
            _log.exception("the event stream could not be read")
            self._problem = ConnectionClosed(f"the event stream could not be read: {problem!r:.200}")
        self._found.set()
        self.end(str(self._problem))
        with contextlib.suppress(ReferenceError):  # the application has dropped the client
            self._client.lost(self)

    def _read_stream(self) -> None:
        """All of the stream; its end is an error."""
        with self.exchanges.new(None) as exchange:
            exchange.send("GET", {"Accept": STREAM})
            if exchange.status != 200:
                raise refusal(exchange, None)
            if exchange.media_type != STREAM:
                raise wrong_type(exchange, "GET")
            # Who gives signs of life is missed when they cease.
            events = Events(
                exchange.read1, limit=self.limit, on_alive=lambda: exchange.set_read_timeout(SILENCE)
            )
            try:
                for event in events:
                    self._heard(event)
            except Expired:
                raise ConnectionClosed(f"the event stream was silent for {SILENCE:g} s") from None
            except TooLarge as problem:
                raise ConnectionClosed(f"the event stream was given up: {problem}") from None
        raise ConnectionClosed("the server ended the event stream")

    def _heard(self, event: Event) -> None:
        if self._target is None:
            self._target = self._endpoint(event)
            self._found.set()
        elif event.name == "message" and event.data:
            self.receive(event.data.encode())
        else:  # a second endpoint too: whoever could send one could have us talk to somebody else
            _log.info("ignored an event %.40r", event.name)

    def _endpoint(self, event: Event) -> str:
        """Where to POST, from the first event. Raises InvalidResponse."""
        url, said = self.exchanges.url, event.data
        server = self.exchanges.settings.server  # no more of the URL: its query may be a secret
        if event.name != "endpoint":
            raise InvalidResponse(
                f"the event stream of {server} begins with {event.name!r:.40}, not 'endpoint'"
            )
        if not _URI.fullmatch(said):
            raise InvalidResponse(f"the endpoint event holds no URI: {said!r:.100}")
        there = _on_server_of(url, said)
        if there is None:
            raise InvalidResponse(
                f"the endpoint {said:.200} is not on the server {server}: nothing is sent there"
            )
        return self.exchanges.target_of(there)

    # -- messages ----------------------------------------------------------------------------------

    def _post(self, line: bytes, deadline: Deadline, call: Call | None = None) -> None:
        """Have one message taken. Raises what the server, or the network, has against it.

        Once more if its connection was a kept one that turned out to be too old: where that does no harm.
        # spec: basic/transports/streamable-http/sse-post-to-endpoint
        """
        headers = {"Content-Type": JSON, "Accept": "*/*"}  # what is in the answer is of no interest
        if self.session.is_open and self.session.revision.reaches("2025-06-18"):
            headers["MCP-Protocol-Version"] = self.session.revision.date
        harmless = call is None or call.method in SAFE or call.method.endswith("/list")
        for again in (harmless, False):
            with self.exchanges.new(deadline) as exchange:
                try:
                    exchange.send("POST", headers, line, self._target)
                except ConnectionClosed:
                    if again and exchange.failed_on_stale_connection:
                        continue
                    raise
                if 200 <= exchange.status < 300:
                    return
                raise refusal(exchange, None if call is None else call.id)

    def transmit(self, call: Call, params: Json | None, line: bytes) -> None:
        """POST a request; the answer comes on the stream."""
        if call.on_done is None:
            self._ask(call, line)
        else:
            self._on_worker(lambda: self._ask(call, line), lambda problem: self.settle(call, problem))

    def _ask(self, call: Call, line: bytes) -> None:
        """POST a request; what goes wrong is its outcome."""
        try:
            self._post(line, call.deadline, call)
        except Aborted:
            self.settle(call, self.failure or ConnectionClosed("the client was closed"))
        except Expired:
            pass  # whoever waits for the call sees to that
        except McpError as problem:
            self.settle(call, problem)

    def post(self, line: bytes, wait: float | None) -> None:
        """POST a notification, or an answer."""
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
        """POST an answer, but not on the thread that reads."""
        if threading.current_thread() is self._reader:
            self._on_worker(lambda: self._reply(line, wait), _not_taken)
        else:
            self._reply(line, wait)

    def _reply(self, line: bytes, wait: float | None) -> None:
        try:
            self.post(line, wait)
        except McpError as problem:
            _not_taken(problem)

    def _on_worker(self, run: Callable[[], None], failed: Callable[[McpError], object]) -> None:
        try:
            self._senders.submit(lambda _: run(), None)
        except QueueFull:
            failed(ConnectionClosed("too many messages wait to be sent"))

    def notify(
        self,
        method: str,
        params: Json | None = None,
        *,
        wait: float | None = None,
        outbox: WayOut | None = None,
    ) -> None:
        """POST a notification. If it only says that a request is given up, nobody waits for its success."""
        try:
            super().notify(method, params, wait=wait, outbox=outbox)
        except McpError as problem:
            if method != "notifications/cancelled":
                raise
            _log.info("%s: %s", method, problem)

    # -- the end -----------------------------------------------------------------------------------

    def end(self, reason: str, *, wait: float = 0.5) -> None:
        """The connection is over: the stream is closed, and whoever waits for anything gets the reason."""
        if self.is_inherited:
            return
        self.fail(reason)
        self.exchanges.stop()
        super().end(reason, wait=wait)
        self._senders.close(wait)
        if self._reader.is_alive() and self._reader is not threading.current_thread():
            self._reader.join(5.0)


def _not_taken(problem: McpError) -> None:
    _log.warning("the server did not take an answer: %s", problem)


def _on_server_of(base: str, reference: str) -> str | None:
    """The URL that is meant, if it has the origin of the other one."""
    try:
        there = urljoin(base, reference)
        return there if _origin(there) == _origin(base) else None
    except ValueError:  # no URL at all
        return None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
