"""Responses of Streamable HTTP (page: basic/transports/streamable-http, "Receiving Messages"), on both sides.

A POST with a request is answered with one JSON object if the answer is all that is sent, and with
server-sent events if any other message is sent before it. Here a *response* is one of HTTP, and the *answer*
is the JSON-RPC response in it. The states of a response and the events that change them are one table
(`TRANSITIONS`):

    state \\ event   say        answer   silence    refused    client_left   release    resume     fail
    UNDECIDED       EVENTS     JSON     EVENTS     -          DETACHED      -          RESUMED    OVER
    JSON            -          -        -          JSON       JSON          -          -          JSON
    EVENTS          EVENTS     OVER     EVENTS     UNDECIDED  DETACHED      DETACHED   RESUMED    OVER
    DETACHED        DETACHED   OVER     -          DETACHED   DETACHED      DETACHED   RESUMED    OVER
    RESUMED         RESUMED    OVER     RESUMED    RESUMED    DETACHED      DETACHED   RESUMED    OVER
    OVER            -          -        -          OVER       OVER          -          OVER       OVER

    UNDECIDED   nothing was sent yet                JSON       the answer was the first message
    EVENTS      a thread that sends a message       DETACHED   no client is there: messages are stored if it
                writes it to the client                        can come back for them, else dropped
    RESUMED     another thread takes the messages   OVER       nothing more will be sent
                and writes them (listening)

    say         a message that is not the answer    silence    nothing was sent for a while
    release     the server sends its client away,   refused    the WSGI server did not take the first piece,
                which comes back for the rest                  so nothing was sent after all

`ResponseMachine` follows this table: it is told of each event, and returns what is to be written. The thread,
the locks and the connection of a response are in its `HttpStream` (responding).

A stream may outlive connections: in sessions of the legacy era its events have ids and are kept for a while
(resumability), and a client that was cut off, or sent away by `release`, goes on with GET and Last-Event-ID.
A message of one stream is never sent on another.
# spec: basic/transports/streamable-http/no-cross-stream-replay

The client's half reads the stream of a request until it has brought the answer (`follow`). A connection may
end before its stream does; then the stream goes on over another one, if its events had ids:

    client -> server   GET, Last-Event-ID: the last one seen      after `retry` ms, or a second

Revisions   2025-03-26 to 2025-11-25: GET, resumption; 2025-11-25: streams begin with an event that has an
            id and no data, and a server may end connections at any time (`release`).
            2026-07-28: no ids; when the connection closes, the request is cancelled; a request whose stream
            ends without the answer has failed; errors have an HTTP status (`STATUS`).
Errors      server: ConnectionClosed for an event that has no cell in the table, such as a message after the
            end. client: ConnectionClosed when a stream ends without the answer and cannot be resumed
            (StreamBroken in 2026-07-28); InvalidResponse for an event that is too long.
Threads     ResponseMachine has no lock: its user holds one (responding). `follow` runs on the thread that
            waits for the answer, or on a worker.
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
    """The states of a response: see the table of this module."""

    UNDECIDED = "undecided"
    JSON = "json"
    EVENTS = "events"
    DETACHED = "detached"
    RESUMED = "resumed"
    OVER = "over"

    __hash__ = object.__hash__  # Enum's is written in Python, and slow: each event looks a state up


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
"""The next state, by state and event. An event that has none raises ConnectionClosed."""

EVENT_STREAM: Headers = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    # spec: basic/transports/streamable-http/x-accel-buffering
    ("X-Accel-Buffering", "no"),
]
JSON_OBJECT = ("Content-Type", "application/json")


class Kind(NamedTuple):
    """What a response may become. Its request, its session and the options decide that."""

    is_modern: bool = False
    """The end of the connection cancels the request; errors have an HTTP status; many clients share one
    Connection, so that their request ids may collide."""
    is_mute: bool = False
    """Only the answer is sent; all other messages are dropped."""
    likes_events: bool = False
    """Even an answer alone is sent as an event: the client prefers that, or an option says so."""
    retry_ms: int | None = None
    """If not None, the stream begins with an event that has an id, this time to wait, and no data."""
    preface: bytes = b""
    """The event with which the stream begins if `retry_ms` is None (basic/transports/http_sse/server)."""
    event: str | None = None
    """The name of each event; None where events need none."""


USUAL_KIND = Kind()
Whole = tuple[int, bytes, Headers]
"""The status, the body and the headers of a response."""


@dataclass(slots=True, eq=False)
class ResponseMachine:
    """The state of a response, and its stored messages. Told of events, it returns what is to be written."""

    kind: Kind = USUAL_KIND
    state: State = State.UNDECIDED
    names: Iterator[str] | None = None
    """The source of its name; None if a client cannot come back for events that it missed."""
    name: str = ""
    """The beginning of its event ids; "" until the first event that a client may come back for."""
    events: StoredEvents | None = None
    """Events that wait for the reader, or may be asked for again; None if all are written or dropped."""
    reader: Any = None
    """The EventReader that reads it, in RESUMED and, once it is OVER, until all is read."""
    rest: bytes = b""
    """What the thread of the request has still to send: the answer, or the event that holds it."""
    problem: McpError | None = None
    """The error that is the answer, if it is one."""
    failure: BaseException | None = None
    """Why it is over without an answer, if it is."""

    def _step(self, event: str) -> State:
        """Change the state. Returns the one before; raises ConnectionClosed if the event has no cell."""
        before = self.state
        following = TRANSITIONS[before].get(event)
        if following is None:
            why = f"the response is {before.value}, there is no more to {event}"
            raise ConnectionClosed(why if self.failure is None else str(self.failure))
        self.state = following
        return before

    # -- what is said ----------------------------------------------------------------------------------

    def say(self, line: bytes) -> bytes:
        """A message is sent. Returns what its thread must write; b"" if it is stored or dropped.

        # spec: basic/transports/streamable-http/sse-server-messages
        # spec: basic/transports/streamable-http/sse-messages-related
        # spec: basic/transports/streamable-http/one-stream-per-message
        # spec: basic/transports/streamable-http/no-broadcast
        """
        return self._put(self._step("say"), line)

    def answer(self, line: bytes, problem: McpError | None = None) -> None:
        """The last message is sent; what the thread of the request must still write of it is `rest`.

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
        """Nothing was sent for a while. Returns what begins the stream, or a comment if it has begun.

        # spec: basic/transports/streamable-http/sse-keep-alive
        """
        return self._begin(self._step("silence")) or events.COMMENT

    def refused(self) -> None:
        """The first piece could not be written: so nothing was sent, and no client knows the name."""
        self._step("refused")
        self.name, self.events = "", None

    def _put(self, before: State, line: bytes) -> bytes:
        """Add an event. Returns what its thread must write, with the opening before the first event."""
        opening, number = self._begin(before), 0
        if self.events is not None:  # spec: basic/transports/streamable-http/sse-resumable
            number = self.events.add(line)
        if before not in WRITTEN:
            return b""
        if self.events is not None:
            self.events.mark_sent()
        return opening + self.framed(number, line)

    def _begin(self, before: State) -> bytes:
        """Name a stream that can be resumed, with its first event. Returns the opening if it is still due."""
        if self.names is not None and not self.name:
            self.name, self.events = next(self.names), StoredEvents()
        return self.opening() if before is State.UNDECIDED else b""

    def opening(self) -> bytes:
        """The first bytes of the stream: an event that has an id and no data, or the preface.

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
        """The client has left. Returns whether that cancels the request: not in a session, to which a client
        may come back.

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
        """The server has sent its client away; the client will come back, and the request goes on.

        # spec: basic/transports/streamable-http/sse-close-connection
        # spec: basic/transports/streamable-http/sse-no-early-close
        """
        self._step("release")
        self.reader = None

    def fail(self, problem: BaseException) -> State:
        """No message will follow, and no answer. Returns the state before.

        # spec: basic/transports/streamable-http/sse-terminate-on-session-expiry
        """
        before = self._step("fail")
        if self.state is State.OVER and before is not State.OVER:
            self.failure = problem
        return before

    def resume(self, reader: object, last_seen: int | None) -> State:
        """From now on `reader` reads the stream, after the event `last_seen`. Returns the state before.

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
        """The events that this reader has not taken yet; None at the end, or if another reader took over."""
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
        """Bytes of the events that are stored and were not sent."""
        return 0 if self.events is None else self.events.unsent_bytes

    @property
    def is_over(self) -> bool:
        """Whether no more messages can follow."""
        return self.state is State.OVER

    @property
    def is_spent(self) -> bool:
        """Whether it is over, and none of its events is stored any more."""
        return self.is_over and not self.events

    def has(self, number: int) -> bool:
        """Whether all events after this one are still stored."""
        return self.events is not None and self.events.has(number)

    def can_forget(self, but: int) -> bool:
        """Whether it has more than `but` events, of which the oldest may be dropped."""
        return self.events is not None and self.events.spare(but, is_read=self.reader is not None) > 0

    def forget(self, size: int, but: int) -> int:
        """Drop the oldest events, until `size` bytes are freed or `but` are left. Returns the bytes freed."""
        if self.events is None:
            return 0
        return self.events.forget(size, but, is_read=self.reader is not None)

    # -- the response as a whole -----------------------------------------------------------------------

    def whole(self) -> Whole:
        """The whole response, if nothing of it was sent yet."""
        if self.state is State.JSON:
            return self._one_object(self.rest)
        had_no_client = self.failure is None and self.state in (State.DETACHED, State.OVER)
        if self.rest or had_no_client or isinstance(self.failure, RequestCancelled):
            return 200, self.rest, EVENT_STREAM
        # Not 404: that would say that the request was not begun, so that the client may send it again.
        ended = Refused(503, "the session, or the server, ended before the answer")
        return 503, ended.body(), [JSON_OBJECT]

    def refusal(self) -> Whole | None:
        """The response to a request whose stream would have lasted, if all that was sent is an error."""
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
        """The HTTP status of an answer that is the whole response."""
        if isinstance(self.problem, Forbidden):
            return self.problem.refused.status
        is_error = self.kind.is_modern and self.problem is not None
        return STATUS.get(type(self.problem), 200) if is_error else 200  # type: ignore[arg-type]


WRITTEN = (State.UNDECIDED, State.EVENTS)
"""The states in which a thread that sends a message also writes it to the client."""


# ----------------------------------------------------------------------- client half

RETRY_SECONDS = 1.0
"""Seconds before a stream is resumed, if the server does not say."""

MAX_RETRY_SECONDS = 60.0
"""Seconds to which the pauses grow while a server cannot be reached."""

MIN_RETRY_SECONDS = 0.05
"""Seconds of a pause before it is doubled, once for each connection in a row that brought no message: 0.1 s
after the first of them, and 1 s at most, or MAX_RETRY_SECONDS if they brought nothing at all."""

OFTEN = 10
"""The most connections of one stream that begin within a second, whatever they bring and the server says."""

TRIES = 5
"""Connections in a row that brought nothing at all, after which a request is given up."""

MAX_SILENT_SECONDS = 300.0
"""Seconds without a byte after which a stream without a deadline counts as broken: the server may be gone.

This holds for the stream of a GET; for any other only once the server has sent a sign of life on it.
"""


class Following:
    """What the client knows of one stream, over all its connections."""

    def __init__(self, sender: StreamableHttp, outbox: WayOut, session_id: str | None) -> None:
        """The stream belongs to the session `session_id`, and is not resumed once that session is over.

        Another thread may open a new session at any time.
        """
        self._sender = sender
        self._outbox = outbox
        self._session_id = session_id
        self.last_id: str | None = None
        self.retry = RETRY_SECONDS
        self.failures = 0  # connections in a row that brought nothing at all
        self.problem = ""  # why the last of them broke, if it did
        self.url = ""  # where the last of them led, as errors show it
        self.idle = 0  # connections in a row that brought no message
        self.begun: deque[float] = deque(maxlen=OFTEN)  # when the last connections began

    def read(self, exchange: HttpExchange, call: Call | None) -> None:
        """Read the events of one connection, up to the answer to the call.

        That the connection ends or breaks is no error here: another may follow. Raises InvalidResponse,
        Aborted, Expired.
        """
        self.begun.append(time.monotonic())
        self.problem, self.url = "", exchange.shown_url

        def on_alive() -> None:
            """A comment or an event without data came: from now on a long silence is a broken connection."""
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
            raise InvalidResponse(f"{problem}, from {self.url}") from None
        except (ConnectionClosed, Expired) as problem:
            self._broken(exchange, problem)
        finally:
            self.last_id = events.last_id or self.last_id
            if events.retry is not None:
                self.retry = events.retry / 1000

    def _broken(self, exchange: HttpExchange, problem: Exception) -> None:
        """Note why a connection broke or could not be made. Raises the problem if the request is late."""
        if isinstance(problem, Expired) and exchange.has_deadline:
            raise problem
        self.problem = str(problem)
        _log.info("a stream broke: %.300r", problem)

    def _read_events(self, events: Events, call: Call | None) -> None:
        """Deliver messages, until the stream ends or the answer to the call was among them."""
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
        """Wait, then read what follows the last event over a new connection, which may be the first one.

        `answered` is set once the GET was answered, or has failed. Raises HttpError, InvalidResponse, Aborted
        or Expired where another connection would be of no use.
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
        if self.last_id:  # sent in UTF-8: http.client encodes header values in latin-1
            headers["Last-Event-ID"] = self.last_id.encode().decode("latin-1")
        exchange.send("GET", headers)
        if exchange.status == 429 or exchange.status >= 500:  # a later try may succeed
            raise ConnectionClosed(str(refusal(exchange, None)))
        if exchange.status != 200 or exchange.media_type != STREAM:
            raise refusal(exchange, None)

    @property
    def pause(self) -> float:
        """Seconds to wait before the next connection: never less than the server says.

        After a connection that brought no message it is a tenth of a second at least. As long as each one
        brings messages, the next may begin at once, but no more than OFTEN within a second.
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
    """Read the stream of a request until the answer is there, and resume it if need be. Ends the exchange."""
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
    """End an exchange whose answer was read. Its stream ends at once or soon: then the connection is kept.

    A worker waits for that end, unless it is here already.
    """
    with contextlib.suppress(QueueFull):  # the system gives no thread: the connection is closed
        if not exchange.is_end_buffered() and sender.readers.submit(
            HttpExchange.drain, exchange, always=True
        ):
            return
    exchange.close()


def _resume(call: Call, sender: StreamableHttp, way: Way, stream: Following) -> None:
    """Read what follows the last event, over another connection.

    Raises ConnectionClosed, InvalidResponse, Aborted, Expired.

    # spec: basic/transports/streamable-http/sse-client-polls
    # spec: basic/transports/streamable-http/loss-mitigated-by-resuming
    """
    agreed = sender.session.agreed
    resumable = not way.is_modern and agreed is not None and agreed.resumes
    ended = f"the stream from {stream.url} ended without the answer"
    # spec: basic/transports/streamable-http/no-resumption
    if not resumable or not stream.last_id or _is_hopeless(call, sender, stream):
        kind = StreamBroken if way.is_modern else ConnectionClosed
        raise kind(f"{call.method}: {ended}{_why(stream)}")
    exchange = sender.exchanges.new(call.deadline if call.on_done is None else None)
    try:
        stream.go_on(way.go(exchange), call)
    except InvalidResponse:
        raise
    except McpError as problem:
        raise ConnectionClosed(f"{call.method}: {ended}, and cannot be resumed: {problem}") from None


def _why(stream: Following) -> str:
    """Why the last try to resume the stream failed, if that is known; for an error message."""
    return f", and cannot be resumed: {stream.problem}" if stream.failures and stream.problem else ""


def _is_hopeless(call: Call, sender: StreamableHttp, stream: Following) -> bool:
    """Whether there were TRIES in vain, or the next one would begin after the deadline.

    The error that is raised now says why the stream broke, which a time-out would not say. While a person is
    asked something, the deadline stands still, and no try is too late.
    """
    is_too_late = stream.pause >= call.deadline.left() and not sender.connection.clock.is_held
    return stream.failures >= TRIES or (stream.failures > 0 and is_too_late)
