"""Responses of Streamable HTTP (page: basic/transports/streamable-http, "Receiving Messages"), on both sides.

A POST with a request is answered with one JSON object if the answer is all there is to say, and with
server-sent events if anything else is said before it. What a response is, and what it becomes, is one table
(`TRANSITIONS`):

    state \\ event   say        answer   silence    refused    client_left   release    resume     fail
    UNDECIDED       EVENTS     JSON     EVENTS     -          DETACHED      -          RESUMED    OVER
    JSON            -          -        -          JSON       JSON          -          -          JSON
    EVENTS          EVENTS     OVER     EVENTS     UNDECIDED  DETACHED      DETACHED   RESUMED    OVER
    DETACHED        DETACHED   OVER     -          DETACHED   DETACHED      DETACHED   RESUMED    OVER
    RESUMED         RESUMED    OVER     RESUMED    RESUMED    DETACHED      DETACHED   RESUMED    OVER
    OVER            -          -        -          OVER       OVER          -          OVER       OVER

    UNDECIDED   nothing was said                    JSON       the answer was all there is to say
    EVENTS      the thread that says something      DETACHED   no client is there; what is said is stored, if
                writes it to the client                        it can come back for it, and dropped otherwise
    RESUMED     another thread reads what is said   OVER       nothing more will be said
                and writes it (listening)

    refused     the WSGI server did not take the first piece: nothing was said after all

`ResponseMachine` goes by it: events happen to it, and it says what goes to the client. The thread, the
locks and the connection of a response are its `HttpStream` (responding).

A stream may outlive connections: in sessions of the legacy era its events have ids and are kept for a while
(resumability), and a client that was cut off, or sent away by `release`, goes on with GET and Last-Event-ID.
Nothing of one stream is ever sent on another.
# spec: basic/transports/streamable-http/no-cross-stream-replay

The client's half reads the stream of a request until the response is among its messages (`follow`). A
connection may end before its stream does; then the stream goes on over another one, if its events had ids:

    client -> server   GET, Last-Event-ID: the last one seen      after `retry` ms, or a second

Revisions   2025-03-26 to 2025-11-25: GET, resumption; 2025-11-25: streams begin with an event that has an
            id and nothing else, and a server may end connections at any time (`release`).
            2026-07-28: no ids; when the connection closes, the request is cancelled; a stream without its
            response is a request that failed; errors have a status of HTTP's (`STATUS`).
Errors      server: ConnectionClosed for what the table has no cell for, as a message after the end.
            client: ConnectionClosed, when a stream ends without the response and cannot be resumed;
            InvalidResponse for an event that is too long.
Threads     ResponseMachine has none, and no lock: who uses it has one (responding). `follow` runs on the
            thread that waits for the response, or on a worker.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_ref.basic.index.error_responses import TooManyRequests
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.transports.streamable_http.http_errors import STREAM, refusal
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS
from mcp_ref.basic.transports.streamable_http.resumability import StoredEvents
from mcp_ref.basic.transports.streamable_http.security import Forbidden, Refused
from mcp_ref.runtime import events
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    RequestCancelled,
    StreamBroken,
)
from mcp_ref.runtime.events import Events, TooLarge
from mcp_ref.runtime.http_client.exchange import HttpExchange
from mcp_ref.runtime.http_client.sockets import Expired
from mcp_ref.runtime.http_server.reply import Headers
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.workers import QueueFull

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import WayOut
    from mcp_ref.basic.transports.streamable_http.sending import StreamableHttp, Way

__all__ = ["TRANSITIONS", "Following", "Kind", "ResponseMachine", "State", "follow"]

_log = logger("mcp_ref.http")

# ----------------------------------------------------------------------- server half


class State(enum.Enum):
    """What a response is by now."""

    UNDECIDED = "undecided"
    JSON = "json"
    EVENTS = "events"
    DETACHED = "detached"
    RESUMED = "resumed"
    OVER = "over"

    __hash__ = object.__hash__  # that of an Enum is a function in Python, and each event looks a state up


_U, _J, _E, _D, _R, _O = State
__ = None
_EVENTS = ("say", "answer", "silence", "refused", "client_left", "release", "resume", "fail")
_FOLLOWING = {
    _U: (_E, _J, _E, __, _D, __, _R, _O),
    _J: (__, __, __, _J, _J, __, __, _J),
    _E: (_E, _O, _E, _U, _D, _D, _R, _O),
    _D: (_D, _O, __, _D, _D, _D, _R, _O),
    _R: (_R, _O, _R, _R, _D, _D, _R, _O),
    _O: (__, __, __, _O, _O, __, _O, _O),
}
TRANSITIONS: dict[State, dict[str, State]] = {
    state: {event: to for event, to in zip(_EVENTS, row, strict=True) if to is not None}
    for state, row in _FOLLOWING.items()
}
"""What follows on an event. Where there is nothing, the event raises."""

EVENT_STREAM: Headers = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    # spec: basic/transports/streamable-http/x-accel-buffering
    ("X-Accel-Buffering", "no"),
]
JSON_OBJECT = ("Content-Type", "application/json")


class Kind(NamedTuple):
    """What a response may be, by its request, its session, and the options."""

    is_modern: bool = False
    """The end of the connection cancels the request; errors have a status; ids are those of many clients."""
    is_mute: bool = False
    """Nothing but the answer has a place in it."""
    likes_events: bool = False
    """An answer alone is an event as well: the client likes that better, or an option says so."""
    retry_ms: int | None = None
    """The stream begins with an event that has an id, this time to wait, and nothing else."""
    preface: bytes = b""
    """The stream begins with this event (basic/transports/http_sse/server)."""
    event: str | None = None
    """The name of each event, where it has to be spelled out."""


USUAL_KIND = Kind()
Whole = tuple[int, bytes, Headers]
"""The status, the body and the headers of a response."""


@dataclass(slots=True, eq=False)
class ResponseMachine:
    """What a response is by now, and what was said on it. Events happen to it; it says what goes out."""

    kind: Kind = USUAL_KIND
    state: State = State.UNDECIDED
    names: Iterator[str] | None = None
    """Where its name comes from; None if no client can come back for what it missed."""
    name: str = ""
    """Its ids begin with it; "" until something was said that a client may come back for."""
    events: StoredEvents | None = None
    """What was said and may be asked for; None where what is said is written, or dropped."""
    reader: Any = None
    """Who reads it, in RESUMED and until all is read."""
    rest: bytes = b""
    """The answer, or its event, as the last that the thread of the request sends."""
    problem: McpError | None = None
    """What the answer says went wrong."""
    failure: BaseException | None = None
    """Why it is over, if not by its answer."""

    def _step(self, event: str) -> State:
        """An event happens. Returns the state before; raises ConnectionClosed where there is no cell."""
        before = self.state
        following = TRANSITIONS[before].get(event)
        if following is None:
            why = f"the response is {before.value}, there is no more to {event}"
            raise ConnectionClosed(why if self.failure is None else str(self.failure))
        self.state = following
        return before

    # -- what is said ----------------------------------------------------------------------------------

    def say(self, line: bytes) -> bytes:
        """A message. What its thread is to write; b"" if it is stored for another, or dropped.

        # spec: basic/transports/streamable-http/sse-server-messages
        # spec: basic/transports/streamable-http/sse-messages-related
        # spec: basic/transports/streamable-http/one-stream-per-message
        # spec: basic/transports/streamable-http/no-broadcast
        """
        return self._put(self._step("say"), line)

    def answer(self, line: bytes, problem: McpError | None = None) -> None:
        """The last message; what its thread has still to send of it is `rest`.

        # spec: basic/transports/streamable-http/sse-includes-response
        # spec: basic/transports/streamable-http/sse-batched-responses
        # spec: basic/transports/streamable-http/sse-terminates-after-response
        """
        self.problem, opening = problem, b""
        if self.state is State.UNDECIDED and self.kind.likes_events and self._status() == 200:
            opening = self._begin(self._step("silence"))
        before = self._step("answer")
        self.rest = line if before is State.UNDECIDED else opening + self._put(before, line)

    def silence(self) -> bytes:
        """Nothing was said for long: what begins the stream, or shows that it is alive.

        # spec: basic/transports/streamable-http/sse-keep-alive
        """
        return self._begin(self._step("silence")) or events.COMMENT

    def refused(self) -> None:
        """The first piece did not get out: nothing was said, and no client knows a name."""
        self._step("refused")
        self.name, self.events = "", None

    def _put(self, before: State, line: bytes) -> bytes:
        """One event more: what is to be written of it, with what comes before the first."""
        opening, number = self._begin(before), 0
        if self.events is not None:  # spec: basic/transports/streamable-http/sse-resumable
            number = self.events.add(line)
        if before not in WRITTEN:
            return b""
        if self.events is not None:
            self.events.mark_sent()
        return opening + self.framed(number, line)

    def _begin(self, before: State) -> bytes:
        """From its first event on a stream that can be resumed has a name. What the stream begins with."""
        if self.names is not None and not self.name:
            self.name, self.events = next(self.names), StoredEvents()
        return self.opening() if before is State.UNDECIDED else b""

    def opening(self) -> bytes:
        """What the stream begins with.

        # spec: basic/transports/streamable-http/sse-prime-event
        # spec: basic/transports/streamable-http/sse-retry-before-close
        """
        retry = self.kind.retry_ms
        return self.kind.preface if retry is None else events.encode(b"", id=f"{self.name}-0", retry=retry)

    def framed(self, number: int, line: bytes) -> bytes:
        """A message as an event, with an id where the stream can be resumed.

        # spec: basic/transports/streamable-http/event-id
        """
        event_id = f"{self.name}-{number}" if self.name else None
        return events.encode(line.rstrip(b"\n"), id=event_id, name=self.kind.event)

    # -- what happens to it ----------------------------------------------------------------------------

    def client_left(self) -> bool:
        """No client is there any more. Whether that cancels the request: not in a session, it may come back.

        # spec: basic/transports/streamable-http/sse-broken-stream-not-resumed
        # spec: basic/transports/streamable-http/sse-disconnect-anytime
        # spec: basic/transports/streamable-http/sse-disconnect-not-cancel
        """
        if self._step("client_left") is State.UNDECIDED:
            self.names = None  # it knows no id to come back with
        if self.names is None:
            self.events = None
        self.reader = None
        return self.kind.is_modern

    def release(self) -> None:
        """Its client was sent away, and will come back: the request goes on.

        # spec: basic/transports/streamable-http/sse-close-connection
        # spec: basic/transports/streamable-http/sse-no-early-close
        """
        self._step("release")
        self.reader = None

    def fail(self, problem: BaseException) -> State:
        """Nothing will come any more. Returns the state before.

        # spec: basic/transports/streamable-http/sse-terminate-on-session-expiry
        """
        before = self._step("fail")
        if self.state is State.OVER and before is not State.OVER:
            self.failure = problem
        return before

    def resume(self, reader: object, last_seen: int | None) -> State:
        """From now on this one reads the stream, after an event that its client has seen. The state before.

        # spec: basic/transports/streamable-http/replay-messages
        """
        before = self._step("resume")
        self._begin(before)
        self.events = StoredEvents() if self.events is None else self.events
        if last_seen is not None:
            self.events.rewind(last_seen)
        self.reader = reader
        return before

    def take(self, reader: object) -> list[bytes] | None:
        """The events that a reader was not sent yet; None at the end, or if it is another's turn."""
        if self.reader is not reader or self.events is None:
            return None
        taken = self.events.take()
        if self.names is None:
            self.events.forget_sent()
        if not taken and self.state is State.OVER:
            return None
        return [self.framed(number, line) for number, line in taken]

    # -- what is stored --------------------------------------------------------------------------------

    @property
    def unread_bytes(self) -> int:
        """Of events that were stored and not sent."""
        return 0 if self.events is None else self.events.unsent_bytes

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be said."""
        return self.state is State.OVER

    @property
    def is_spent(self) -> bool:
        """Whether it is over, and nothing is left of it."""
        return self.is_over and not self.events

    def has(self, number: int) -> bool:
        """Whether all after this event is still there."""
        return self.events is not None and self.events.has(number)

    def can_forget(self, but: int) -> bool:
        """Whether it has more than `but` events, and can do without the oldest."""
        return self.events is not None and self.events.spare(but, is_read=self.reader is not None) > 0

    def forget(self, size: int, but: int) -> int:
        """Drop the oldest events: as many as make so many bytes. Returns how many they make."""
        if self.events is None:
            return 0
        return self.events.forget(size, but, is_read=self.reader is not None)

    # -- the response as a whole -----------------------------------------------------------------------

    def whole(self) -> Whole:
        """All of a response of which nothing was sent yet."""
        if self.state is State.JSON:
            return self._one_object(self.rest)
        had_no_client = self.failure is None and self.state in (State.DETACHED, State.OVER)
        if self.rest or had_no_client or isinstance(self.failure, RequestCancelled):
            return 200, self.rest, EVENT_STREAM
        # Not 404: that would say that the request was not begun, and may well be sent again.
        ended = Refused(503, "the session, or the server, ended before the answer")
        return 503, ended.body(), [JSON_OBJECT]

    def refusal(self) -> Whole | None:
        """The response to a request that was to last, if all that was said is an error."""
        is_alone = self.events is not None and len(self.events) == 1 and not self.events.sent
        if self.problem is None or self.events is None or not is_alone:
            return None
        return self._one_object(self.events.take()[0][1])

    def _one_object(self, answer: bytes) -> Whole:
        headers = [JSON_OBJECT]
        if isinstance(self.problem, TooManyRequests):
            headers.append(("Retry-After", str(max(1, round(self.problem.data["retryAfterMs"] / 1000)))))
        elif isinstance(self.problem, Forbidden):
            headers.extend(self.problem.refused.headers)
        return self._status(), answer, headers

    def _status(self) -> int:
        """The status of an answer that is all there is to say."""
        if isinstance(self.problem, Forbidden):
            return self.problem.refused.status
        is_error = self.kind.is_modern and self.problem is not None
        return STATUS.get(type(self.problem), 200) if is_error else 200  # type: ignore[arg-type]


WRITTEN = (State.UNDECIDED, State.EVENTS)
"""In which a thread writes what it says to the client of the request."""


# ----------------------------------------------------------------------- client half

RETRY_SECONDS = 1.0
"""Seconds before a stream is resumed, where the server does not say."""

MAX_RETRY_SECONDS = 60.0
"""Seconds to which the pauses grow when a server cannot be reached."""

MIN_RETRY_SECONDS = 0.05
"""Seconds, doubled with each connection that brought no message, up to a second: a tenth after the first."""

OFTEN = 10
"""Connections of one stream that begin within a second, at most, whatever they bring and the server says."""

TRIES = 5
"""Connections in a row that bring nothing at all, before a request is given up."""

MAX_SILENT_SECONDS = 300.0
"""Seconds without a byte after which a stream that has no end counts as broken: the server may be gone.

It counts for the stream of a GET, and for every other on which the server has given signs of life before.
"""


class Following:
    """What is known of one stream, over all its connections."""

    def __init__(self, sender: StreamableHttp, outbox: WayOut, session_id: str | None) -> None:
        """The stream is one of the session `session_id`; another thread may open the next at any time."""
        self._sender = sender
        self._outbox = outbox
        self._session_id = session_id
        self.last_id: str | None = None
        self.retry = RETRY_SECONDS
        self.failures = 0  # connections in a row that brought nothing at all
        self.problem = ""  # what ended the last of them, if it was no end in order
        self.idle = 0  # connections in a row that brought no message
        self.begun: deque[float] = deque(maxlen=OFTEN)  # when the last connections did

    def read(self, exchange: HttpExchange, call: Call | None) -> None:
        """All events of one connection, up to the response to the call.

        An end of the connection, whichever, is no error in here. Raises InvalidResponse, Aborted, Expired.
        """
        self.begun.append(time.monotonic())
        self.problem = ""

        def on_alive() -> None:
            """Bytes came. A server that gives signs of life is missed when they cease."""
            self.failures = 0
            if not exchange.has_deadline:
                exchange.read_timeout = MAX_SILENT_SECONDS

        # spec: basic/transports/streamable-http/sse-ignore-comments
        events = Events(exchange.read1, limit=self._sender.max_message_bytes, on_alive=on_alive)
        self.failures += 1
        self.idle += 1
        try:
            self._read_events(events, call)
        except TooLarge as problem:
            raise InvalidResponse(str(problem)) from None
        except (ConnectionClosed, Expired) as problem:
            self._broken(exchange, problem)
        finally:
            self.last_id = events.last_id or self.last_id
            if events.retry is not None:
                self.retry = events.retry / 1000

    def _broken(self, exchange: HttpExchange, problem: Exception) -> None:
        """A connection ended, or could not be had, for which there may be another; not for a late request."""
        if isinstance(problem, Expired) and exchange.has_deadline:
            raise problem
        self.problem = str(problem)
        _log.info("a stream broke: %.300r", problem)

    def _read_events(self, events: Events, call: Call | None) -> None:
        """Messages, until the stream ends or the response to the call is among them."""
        for event in events:
            self.failures = 0
            if event.data and event.name == "message":
                self.idle = 0
                self._sender.hear(event.data.encode(), self._outbox)
                if call is not None and call.done:
                    return

    def go_on(
        self, exchange: HttpExchange, call: Call | None, answered: threading.Event | None = None
    ) -> None:
        """Wait, and read what follows the last event, over another connection; or over the first one.

        `answered` is set once the GET was answered, or could not be. Raises what is against another
        connection: HttpError, InvalidResponse, Aborted, Expired.
        """
        with exchange:
            if self.begun or self.failures:
                exchange.pause(self.pause)
            try:
                self._reopen(exchange)
            except (ConnectionClosed, Expired) as problem:
                self.failures += 1
                self._broken(exchange, problem)
                return
            finally:
                if answered is not None:
                    answered.set()
            if call is None:  # the server has such a stream
                self._sender.session.was_renewed_for_stream = False
            self.read(exchange, call)

    def _reopen(self, exchange: HttpExchange) -> None:
        """GET the rest of the stream. Raises ConnectionClosed, HttpError, Aborted, Expired.

        # spec: basic/transports/streamable-http/resume-by-last-event-id
        # spec: basic/transports/streamable-http/resume-always-via-get
        """
        session = self._sender.session
        if session.id != self._session_id:
            raise LocalError("its session is over")
        headers = {"Accept": STREAM, **session.headers()}
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
            first = max(self.retry, 2 * MIN_RETRY_SECONDS)
            return max(self.retry, min(MAX_RETRY_SECONDS, first * 2.0 ** min(self.failures - 1, 20)))
        if self.idle:
            return max(self.retry, min(1.0, MIN_RETRY_SECONDS * 2.0 ** min(self.idle, 20)))
        if len(self.begun) < OFTEN:
            return self.retry
        return max(self.retry, self.begun[0] + 1.0 - time.monotonic())


# ------------------------------------------------------------------------- the stream of a request


def follow(call: Call, sender: StreamableHttp, way: Way, exchange: HttpExchange) -> None:
    """Read a stream until the response to the call is there. Sees to the end of the exchange."""
    stream = Following(sender, way, way.session_id)
    try:
        stream.read(exchange, call)
    except BaseException:
        exchange.close()
        raise
    if call.done and not exchange.is_aborted:
        _finish(sender, exchange)
    else:
        exchange.close()
    while not call.done:
        _resume(call, sender, way, stream)


def _finish(sender: StreamableHttp, exchange: HttpExchange) -> None:
    """The response was read. The stream ends with it, at once or soon: then the connection can be kept."""
    with contextlib.suppress(QueueFull):  # not one thread is to be had
        if not exchange.is_end_buffered() and sender.readers.submit(
            HttpExchange.drain, exchange, always=True
        ):
            return
    exchange.close()


def _resume(call: Call, sender: StreamableHttp, way: Way, stream: Following) -> None:
    """Read what follows the last event, on another connection.

    # spec: basic/transports/streamable-http/sse-client-polls
    # spec: basic/transports/streamable-http/loss-mitigated-by-resuming
    """
    agreed = sender.session.agreed
    resumable = not way.is_modern and agreed is not None and agreed.resumes
    # spec: basic/transports/streamable-http/no-resumption
    if not resumable or not stream.last_id or _is_hopeless(call, sender, stream):
        kind = StreamBroken if way.is_modern else ConnectionClosed
        raise kind(f"{call.method}: the stream ended without the answer{_why(stream)}")
    exchange = sender.exchanges.new(call.deadline if call.on_done is None else None)
    try:
        stream.go_on(way.go(exchange), call)
    except InvalidResponse:
        raise
    except McpError as problem:
        said = f"{call.method}: the stream ended without the answer, and cannot be resumed: {problem}"
        raise ConnectionClosed(said) from None


def _why(stream: Following) -> str:
    """Why the last try to resume it was in vain, if it is known."""
    return f", and cannot be resumed: {stream.problem}" if stream.failures and stream.problem else ""


def _is_hopeless(call: Call, sender: StreamableHttp, stream: Following) -> bool:
    """Whether there were enough tries in vain, or the next would come too late: a time-out would not say why.

    While a person is asked something, no time is too late.
    """
    is_too_late = stream.pause >= call.deadline.left() and not sender.connection.clock.is_held
    return stream.failures >= TRIES or (stream.failures > 0 and is_too_late)
