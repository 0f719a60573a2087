"""HTTP+SSE as the client speaks it (page: basic/transports of 2024-11-05, "HTTP with SSE").

One stream brings all messages of the server, responses too; ours are POSTed to the URI that its first event
names. The exchange is shown in basic/transports/http_sse/server, which is the server's half.

    sender = HttpSse(endpoint, exchanges, max_message_bytes)
    connection = UrlConnection(endpoint, sender, timeout=..., max_timeout=...)
    sender.open()               GET, until the endpoint event; raises HttpError where there is no such stream
    connection.request(...)     initialize, and all other requests
    connection.end(reason)      the stream is closed, which is the end of the session

Each thread POSTs its own messages, but for cancellations, and waits until the server has accepted them
(basic/transports/streamable_http/sending): a message that is refused is an error for its sender alone. The
end of the stream is the end of the connection.

The URI must be on the server that the stream came from: no message is ever sent to another.

Revisions   2024-11-05. Servers that still have this transport may agree on a later one, with initialize.
Errors      HttpError, RefusedByStatus (basic/transports/streamable_http/http_errors); InvalidResponse for a
            stream without a valid endpoint event; RequestTimeout; ConnectionClosed when the stream ended.
Threads     `mcp_ref reader` reads the stream, from `open` to the end. It never POSTs: workers POST its
            responses (to `ping`), all cancellations, and the requests that no thread waits for.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
from typing import Protocol

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.transports.streamable_http.http_errors import JSON, STREAM, refusal, wrong_type
from mcp_ref.basic.transports.streamable_http.sending import Sender
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, McpError, RequestTimeout
from mcp_ref.runtime.events import Event, Events, TooLarge
from mcp_ref.runtime.http_client.client import HttpClient
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["HttpSse"]

_log = logger("mcp_ref.http")

SILENCE_SECONDS = 300.0
"""Seconds for which the stream of a server that sends keep-alive comments may be silent, before it counts as
lost."""

_ENDPOINT_URI = re.compile(r"[!-~]{1,8000}")


class LosesConnection(Protocol):
    """An endpoint that is told of the end of its connection."""

    def lost(self, connection: Connection) -> None:
        """The stream ended. Runs on its reader."""


class HttpSse(Sender):
    """The sender of HTTP+SSE, and the stream on which the server answers."""

    def __init__(self, owner: LosesConnection, exchanges: HttpClient, max_message_bytes: int) -> None:
        """`exchanges` is the HTTP client for the stream's URL. The end stops them, and leaves it open."""
        super().__init__(exchanges, max_message_bytes)
        self._owner = owner
        self._is_begun = threading.Event()  # set when the target is known, or never will be
        self._problem: McpError | None = None
        self._reader = threading.Thread(target=self._read, name="mcp_ref reader", daemon=True)

    def headers(
        self, method: str | None, params: Json | None, deadline: Deadline | None = None
    ) -> dict[str, str]:
        """The headers of a POST."""
        headers = {"Content-Type": JSON, "Accept": "*/*"}  # the body of the answer is not read
        session = self.connection.session
        if session.is_negotiated and session.revision.version_header:
            headers["MCP-Protocol-Version"] = session.revision.date
        return headers

    # -- the stream ------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the stream, and wait for the endpoint event.

        Raises HttpError or RefusedByStatus where there is no such stream.
        """
        deadline = Deadline(self.connection.timeout, self.connection.clock)
        self._reader.start()
        while not self._is_begun.wait(deadline.pause()) and deadline.left() > 0:
            pass
        if self._is_begun.is_set():
            problem = self._problem or ConnectionClosed("the client was closed")
        else:
            seconds = deadline.reached()
            problem = RequestTimeout(f"no endpoint event from the server within {seconds}")
        if self.target is None:
            self.connection.end("the stream did not begin")
            raise problem

    def _read(self) -> None:
        """Read the stream to its end, and end the connection with it. Runs on the reader."""
        self._here.reads = True
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
        self.connection.end(str(self._problem))
        with contextlib.suppress(ReferenceError):  # the application has dropped the client
            self._owner.lost(self.connection)

    def _read_stream(self) -> None:
        """Open the stream and read all of it. Always raises, by its end at the latest."""
        # On the clock of the connection, which stands still while a person is asked for authorization.
        with self.exchanges.new(Deadline(math.inf, self.connection.clock)) as exchange:
            exchange.send("GET", {"Accept": STREAM})
            if exchange.status != 200:
                raise refusal(exchange, None)
            if exchange.media_type != STREAM:
                raise wrong_type(exchange, "GET")

            def on_alive() -> None:
                # Only a server that has sent a keep-alive comment is expected to send more.
                exchange.read_timeout = SILENCE_SECONDS

            try:
                for event in Events(exchange.read1, limit=self.max_message_bytes, on_alive=on_alive):
                    self._on_event(event)
            except Expired:
                raise ConnectionClosed(f"the event stream was silent for {SILENCE_SECONDS:g} s") from None
            except TooLarge as problem:
                raise ConnectionClosed(f"the event stream was given up: {problem}") from None
        raise ConnectionClosed("the server ended the event stream")

    def _on_event(self, event: Event) -> None:
        """Take the endpoint from the first event, and a message from each other one."""
        if self.target is None:
            # spec: basic/transports/streamable-http/sse-post-to-endpoint
            self.target = self._endpoint(event)
            self._is_begun.set()
        elif event.name == "message" and event.data:
            data = event.data.encode()
            self.exchanges.tell("<", data)
            self.connection.receive(data)
        else:  # a second endpoint event too: it could redirect our messages
            _log.info("ignored an event %.40r", event.name)

    def _endpoint(self, event: Event) -> str:
        """The target of POSTs, from the first event. Raises InvalidResponse."""
        server = self.exchanges.settings.server  # errors show no more of the URL: its query may be a secret
        if event.name != "endpoint":
            raise InvalidResponse(
                f"the event stream of {server} begins with {event.name!r:.40}, not 'endpoint'"
            )
        if not _ENDPOINT_URI.fullmatch(event.data):
            raise InvalidResponse(f"the endpoint event holds no URI: {event.data!r:.100}")
        target = self.exchanges.settings.target_of(event.data)
        if target is None:
            raise InvalidResponse(
                f"the endpoint {event.data:.200} is not on the server {server}: nothing is sent there"
            )
        return target

    # -- the end -----------------------------------------------------------------------------------

    def close(self, wait: float) -> None:
        """End the threads; the stream was closed."""
        super().close(wait)
        if self._reader.is_alive() and self._reader is not threading.current_thread():
            self._reader.join(5.0)
