"""Streams that last ("Listening for Messages from the Server" until 2025-11-25), on both sides.

    client -> server   GET                              -> events that belong to no request, or 405
    client -> server   GET, Last-Event-ID               -> the rest of a stream that broke
    client -> server   POST subscriptions/listen        -> events, from 2026-07-28

The server's half is the body of such a response: an `EventReader` takes the messages of an `HttpStream`
(responding), which is RESUMED meanwhile. These messages belong to no running request; the response to a
request is among them only if the client resumes the stream of that request.

The client's half (`Background`) reads the stream of the GET for as long as the session lasts.

Revisions   2025-03-26 to 2025-11-25: GET. 2026-07-28: subscriptions/listen.
Threads     An `EventReader` is run by the thread of its own connection, and `client_left` by the attendant.
            On the client the thread `mcp_ref stream`, one for each in the legacy era, reads the stream of the
            GET.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_ref.basic.transports.streamable_http.http_errors import status_of
from mcp_ref.basic.transports.streamable_http.receiving import (
    EVENT_STREAM,
    MAX_SILENT_SECONDS,
    WRITTEN,
    Following,
    State,
)
from mcp_ref.runtime import events
from mcp_ref.runtime.errors import McpError
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Clock, Deadline

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.responding import HttpStream
    from mcp_ref.basic.transports.streamable_http.sending import StreamableHttp, Way
    from mcp_ref.runtime.http_server.reply import HttpReply

__all__ = ["Background", "EventReader"]

_log = logger("mcp_ref.http")

MAX_ANSWER_SECONDS = 0.5
"""Seconds that requests wait for the answer to the GET at most: some servers send no head before an event."""

# ----------------------------------------------------------------------- server half


class EventReader:
    """The body of a response, which WSGI iterates over: its thread waits for the messages of a stream."""

    def __init__(
        self,
        stream: HttpStream,
        reply: HttpReply,
        *,
        last_seen: int | None = None,
        on_close: Callable[[EventReader], object],
    ) -> None:
        """Take the stream over from any other connection, after the event `last_seen` if that is given.

        `on_close` is called once, at the end of this reader.
        """
        self.stream, self.reply = stream, reply
        self._on_close: Callable[[EventReader], object] | None = on_close
        self._begins = last_seen is None  # nothing of the stream was sent
        self._patience = 0.0  # the first piece is sent at once, even if it is only a comment
        with stream.lock:
            before, first = stream.machine.resume(self, last_seen), stream.reply
            stream.enter_log()
            stream.notify()
        if before in WRITTEN and first is not None and reply is not first:
            first.take_held()  # dropped: this reader sends these events
            stream.end_response()

    def begin(self) -> EventReader:
        """Send the head. Returns the body."""
        self.reply.begin(200, EVENT_STREAM)
        return self

    def __iter__(self) -> EventReader:
        return self

    def __next__(self) -> bytes:
        """The events since the last piece, or a comment if there were none for a while.

        # spec: basic/transports/streamable-http/get-server-messages
        # spec: basic/transports/streamable-http/get-unrelated
        # spec: basic/transports/streamable-http/get-no-response
        """
        stream, machine = self.stream, self.stream.machine
        with stream.lock:
            stream.wait_for(self._has_news, self._patience)
            pieces = machine.take(self)
            stream.notify()
        if pieces is None:
            raise StopIteration
        if pieces and stream.log is not None:
            stream.log.trim()
        if self._begins:
            pieces.insert(0, machine.opening())
        self._begins, self._patience = False, stream.style.keep_alive
        return b"".join(pieces) or events.COMMENT

    def _has_news(self) -> bool:
        machine = self.stream.machine
        return machine.reader is not self or machine.unread_bytes > 0 or machine.state is State.OVER

    def attend(self, now: float) -> None:
        """Do nothing: the thread of the reader sends the comments itself."""

    def client_left(self) -> None:
        """Wake the thread that waits: the attendant found that the client has gone."""
        self.stream.client_left(self)

    def fail(self, problem: BaseException) -> None:
        """End the stream."""
        self.stream.fail(problem)

    def close(self) -> None:
        """WSGI calls this once the response is over, or its connection is."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            self.stream.client_left(self)
            on_close(self)


# ----------------------------------------------------------------------- client half


class Background:
    """Reads the messages that belong to no request, until it is stopped or the server has no such stream.

    A server that is gone is asked again for as long as the client lives, after longer and longer pauses.
    """

    def __init__(self, sender: StreamableHttp, way: Way) -> None:
        """# spec: basic/transports/streamable-http/get-opens-stream"""
        self._sender = sender
        self._way = way
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mcp_ref stream", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the GET was answered or has failed; for a moment at most.

        A request that overtakes the GET may have its notifications dropped: the server has no stream for
        them yet.
        """
        self._answered.wait(MAX_ANSWER_SECONDS)

    def _run(self) -> None:
        try:
            self._hear()
        finally:
            self._answered.set()

    def _hear(self) -> None:
        sender = self._sender
        served = sender.session.id
        stream = Following(sender, sender, served)
        try:
            while True:
                # spec: basic/transports/streamable-http/get-accept
                exchange = sender.exchanges.new(None, read_timeout=MAX_SILENT_SECONDS)
                stream.go_on(self._way.go(exchange), None, self._answered)
        except Aborted:
            pass
        except McpError as problem:  # no such stream: 405, or whatever else a server says instead
            if (
                served is not None
                and status_of(problem) == 404
                and sender.session.may_renew_for_stream(is_first=not stream.begun)
            ):
                self._renew(served, problem)
            else:
                _log.info("no stream for what belongs to no request: %.300r", problem)
        except Exception:
            _log.exception("the stream for what belongs to no request failed")

    def _renew(self, served: str, problem: McpError) -> None:
        """Open a new session after the end of this one, for an application that listens and sends nothing."""
        deadline = Deadline(self._sender.connection.timeout, Clock())
        try:
            self._sender.session.renew(served, problem, deadline)
        except (McpError, Aborted, Expired) as failed:
            _log.warning("nothing is heard of the server any more: %.300r", failed)

    def stop(self) -> None:
        """Close the stream.  # spec: basic/transports/streamable-http/get-client-closes"""
        self._way.end()
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)
