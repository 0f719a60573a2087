"""Event streams, as the client reads them (page: basic/transports/streamable-http, "Receiving Messages",
"Listening for Messages from the Server" and "Resumability and Redelivery").

    a stream of a request    messages of the server's, until the response is among them
    the stream of a GET      messages that belong to no request, for as long as the session lasts

A connection may end before its stream does, be it broken or, since 2025-11-25, closed politely by the server.
Then the stream goes on over another one, if its events had ids:

    client -> server   GET, Last-Event-ID: the last one seen      after `retry` ms, or a second

In the modern era nothing is resumed: a stream without its response is a request that failed.

Revisions   2025-03-26 to 2025-11-25: GET, resumption.  2026-07-28: neither.
Errors      ConnectionClosed, when a stream ends without the response and cannot be resumed; InvalidResponse
            for an event that is too long.
Threads     `follow` runs on the thread that waits for the response, or on a worker; `mcp_ref stream`, one a
            client in the legacy era, reads the stream of the GET.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from mcp_ref.basic.errors import ConnectionClosed, InvalidResponse, LocalError, McpError
from mcp_ref.basic.transports.http_client_answers import STREAM, refusal, status_of
from mcp_ref.runtime.calls import Call
from mcp_ref.runtime.deadlines import Clock, Deadline
from mcp_ref.runtime.events import Events, TooLarge
from mcp_ref.runtime.exchanges import HttpExchange
from mcp_ref.runtime.http_sockets import Aborted, Expired
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.workers import QueueFull

if TYPE_CHECKING:
    from mcp_ref.basic.transports.http_client import UrlConnection
    from mcp_ref.basic.transports.http_client_ways import Way
    from mcp_ref.runtime.outbox import WayOut

__all__ = ["Background", "follow"]

_log = logger("mcp_ref.http")

RETRY = 1.0
"""Seconds before a stream is resumed, where the server does not say."""

LONGEST = 60.0
"""Seconds to which the pauses grow when a server cannot be reached."""

SOONEST = 0.05
"""Seconds, doubled with each connection that brought no message, up to a second: a tenth after the first."""

OFTEN = 10
"""Connections of one stream that begin within a second, at most, whatever they bring and the server says."""

TRIES = 5
"""Connections in a row that bring nothing at all, before a request is given up."""

SILENCE = 300.0
"""Seconds without a byte after which a stream that has no end counts as broken: nobody may be there any more.

It counts for the stream of a GET, and for every other on which the server has given signs of life before.
"""


class Following:
    """What is known of one stream, over all its connections."""

    def __init__(self, connection: UrlConnection, outbox: WayOut, session_id: str | None) -> None:
        """The stream is one of the session `session_id`; another thread may open the next at any time."""
        self._connection = connection
        self._outbox = outbox
        self._session_id = session_id
        self.last_id: str | None = None
        self.retry = RETRY
        self.failures = 0  # connections in a row that brought nothing at all
        self.idle = 0  # connections in a row that brought no message
        self.was_open = False
        self._begun: deque[float] = deque(maxlen=OFTEN)  # when the last ones did

    def read(self, exchange: HttpExchange, call: Call | None) -> None:
        """All events of one connection, up to the response to the call.

        An end of the connection, whichever, is no error in here. Raises InvalidResponse, Aborted, Expired.
        """
        self.was_open = True
        self._begun.append(time.monotonic())

        def alive() -> None:
            self.failures = 0
            if exchange.has_no_end:  # who gives signs of life is missed when they cease
                exchange.expect(SILENCE)

        events = Events(exchange.read1, limit=self._connection.limit, on_alive=alive)
        self.failures += 1
        self.idle += 1
        try:
            for event in events:
                self.failures = 0
                if event.data and event.name == "message":
                    self.idle = 0
                    self._connection.hear(event.data.encode(), self._outbox)
                    if call is not None and call.done:
                        return
        except TooLarge as problem:
            raise InvalidResponse(str(problem)) from None
        except (ConnectionClosed, Expired) as problem:
            if isinstance(problem, Expired) and not exchange.has_no_end:
                raise
            _log.info("a stream broke: %.300r", problem)
        finally:
            self.last_id = events.last_id or self.last_id
            if events.retry is not None:
                self.retry = events.retry / 1000

    def reopen(self, exchange: HttpExchange) -> None:
        """GET the rest of the stream. Raises ConnectionClosed, HttpError, Aborted, Expired.

        # spec: basic/transports/streamable-http/resume-by-last-event-id
        # spec: basic/transports/streamable-http/resume-always-via-get
        """
        belonging = self._connection.belonging
        if belonging.id != self._session_id:
            raise LocalError("its session is over")
        headers = {"Accept": STREAM, **belonging.headers()}
        if self.last_id:  # as bytes of UTF-8, which http.client writes as latin-1
            headers["Last-Event-ID"] = self.last_id.encode().decode("latin-1")
        exchange.send("GET", headers)
        if exchange.status == 429 or exchange.status >= 500:  # it may be better later
            raise ConnectionClosed(str(refusal(exchange, None)))
        if exchange.status != 200 or exchange.media_type != STREAM:
            raise refusal(exchange, None)

    @property
    def pause(self) -> float:
        """Seconds to wait before the next connection: never less than the server says.

        A tenth of a second at least, where the last one brought nothing. Where each brings something, all are
        wanted at once, but no more than OFTEN within a second.
        # spec: basic/transports/streamable-http/sse-respect-retry
        """
        if self.failures:
            first = max(self.retry, 2 * SOONEST)
            return max(self.retry, min(LONGEST, first * 2.0 ** min(self.failures - 1, 20)))
        if self.idle:
            return max(self.retry, min(1.0, SOONEST * 2.0 ** min(self.idle, 20)))
        if len(self._begun) < OFTEN:
            return self.retry
        return max(self.retry, self._begun[0] + 1.0 - time.monotonic())


# ------------------------------------------------------------------------- the stream of a request


def follow(connection: UrlConnection, call: Call, way: Way, exchange: HttpExchange) -> None:
    """Read a stream until the response to the call is there. Sees to the end of the exchange."""
    stream = Following(connection, way, way.session_id)
    try:
        stream.read(exchange, call)
    except BaseException:
        exchange.close()
        raise
    if call.done and not exchange.is_aborted:
        _finish(connection, exchange)
        return
    exchange.close()
    agreed = connection.belonging.agreed
    resumable = not way.is_modern and agreed is not None and agreed.reaches("2025-03-26")
    while not call.done:
        # spec: basic/transports/streamable-http/no-resumption
        if not resumable or not stream.last_id or stream.failures >= TRIES:
            raise ConnectionClosed(f"{call.method}: the stream ended without the answer")
        _resume(connection, call, way, stream)


def _finish(connection: UrlConnection, exchange: HttpExchange) -> None:
    """The response was read. The stream ends with it, at once or soon: then the connection can be kept."""
    if exchange.ends_now():
        exchange.close()
        return
    try:
        if connection.readers.submit(HttpExchange.drain, exchange, always=True):
            return
    except QueueFull:  # not one thread is to be had
        pass
    exchange.close()


def _resume(connection: UrlConnection, call: Call, way: Way, stream: Following) -> None:
    """Wait, and read what follows the last event, on another connection.

    # spec: basic/transports/streamable-http/sse-client-polls
    """
    deadline = call.deadline if call.on_done is None else None
    exchange = way.go(connection.exchanges.new(deadline))
    with exchange:
        exchange.pause(stream.pause)
        try:
            stream.reopen(exchange)
        except ConnectionClosed as problem:
            stream.failures += 1
            _log.info("%s: its stream could not be resumed yet: %.300r", call.method, problem)
            return
        except McpError as problem:
            said = f"{call.method}: the stream ended without the answer, and cannot be resumed: {problem}"
            raise ConnectionClosed(said) from None
        stream.read(exchange, call)


# --------------------------------------------------------------------------- the stream of a GET


class Background:
    """Hears what belongs to no request, until it is stopped or the server has no such stream.

    A server that is gone is asked again for as long as the client lives, later and later.
    """

    def __init__(self, connection: UrlConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._exchange = connection.exchanges.new(None)  # guarded by _lock
        self._is_over = False  # guarded by _lock
        self._thread = threading.Thread(target=self._run, name="mcp_ref stream", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        served = self._connection.belonging.id
        stream = Following(self._connection, self._connection.outbox, served)
        try:
            self._read_on(stream)
        except Aborted:
            pass
        except McpError as problem:  # 405 says that there is no such stream; so do others, in their way
            if served is not None and status_of(problem) == 404 and self._may_renew(stream):
                self._renew(served, problem)
            else:
                _log.info("no stream for what belongs to no request: %.300r", problem)
        except Exception:
            _log.exception("the stream for what belongs to no request failed")

    def _read_on(self, stream: Following) -> None:
        """One connection after another. Raises what ends them."""
        while True:
            with self._next() as exchange:
                try:
                    # spec: basic/transports/streamable-http/get-accept
                    stream.reopen(exchange)
                    self._connection.belonging.was_renewed_for_stream = False
                    stream.read(exchange, None)
                except (ConnectionClosed, Expired) as problem:
                    stream.failures += 1
                    _log.info("the stream for what belongs to no request: %.300r", problem)
            with self._next() as exchange:
                exchange.pause(stream.pause)

    def _next(self) -> HttpExchange:
        with self._lock:
            if self._is_over:
                raise Aborted
            self._exchange = self._connection.exchanges.new(None, silence=SILENCE)
            return self._exchange

    def _may_renew(self, stream: Following) -> bool:
        """Whether 404 says that the session is over, as it does to every request with the id of one.

        Not if the session was opened for that reason, and never had this stream either: its id is good, so
        that it is the GET which the server does not know.
        # spec: basic/transports/streamable-http/session-restart-on-404
        """
        belonging = self._connection.belonging
        is_first = not stream.was_open
        if is_first and belonging.was_renewed_for_stream:
            return False
        belonging.was_renewed_for_stream = is_first
        return True

    def _renew(self, served: str, problem: McpError) -> None:
        """The session is over: open a new one, for whoever listens."""
        connection = self._connection
        try:
            connection.belonging.renew(served, problem, Deadline(connection.timeout, Clock()))
        except (McpError, Aborted, Expired) as failed:
            _log.warning("nothing is heard of the server any more: %.300r", failed)

    def stop(self) -> None:
        """Hear no longer.  # spec: basic/transports/streamable-http/get-client-closes"""
        with self._lock:
            self._is_over = True
            exchange = self._exchange
        exchange.abort()
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)
