"""Responses of Streamable HTTP (page: basic/transports/streamable-http, "Receiving Messages"), on both sides.

A POST with a request is answered with one JSON object if the answer is all there is to say, and with
server-sent events if anything else is said before it. The thread of the request runs its handler. It does not
know which it will be: it has an `HttpStream`, where messages go.

    send(progress)      first a message: the head of an event stream; each message is written at once
    answer(result)      the last event, and the end: what the application returns
    answer(result)      first the answer: one JSON object, which the application returns

What a response is, and what it becomes, is one table (`TRANSITIONS`):

    state \\ event   say        answer   silence    client_left   release    resume     fail
    UNDECIDED       EVENTS     JSON     EVENTS     DETACHED      -          RESUMED    OVER
    JSON            -          -        -          JSON          -          -          JSON
    EVENTS          EVENTS     OVER     EVENTS     DETACHED      DETACHED   RESUMED    OVER
    DETACHED        DETACHED   OVER     -          DETACHED      DETACHED   RESUMED    OVER
    RESUMED         RESUMED    OVER     RESUMED    DETACHED      DETACHED   RESUMED    OVER
    OVER            -          -        -          OVER          -          OVER       OVER

    UNDECIDED   nothing was said                    JSON       the answer was all there is to say
    EVENTS      the thread that says something      DETACHED   no client is there; what is said is stored, if
                writes it to the client                        it can come back for it, and dropped otherwise
    RESUMED     another thread reads what is said   OVER       nothing more will be said
                and writes it (`EventReader`)

A stream may outlive connections: in sessions of the legacy era its events have ids and are kept for a while
(basic/transports/streamable_http/resumability), and a client that was cut off, or sent away by `release`,
goes on with GET and Last-Event-ID. Nothing of one stream is ever sent on another.
# spec: basic/transports/streamable-http/no-cross-stream-replay

The client's half reads the stream of a request until the response is among its messages (`follow`), and the
stream of a GET for as long as the session lasts (`Background`). A connection may end before its stream
does; then the stream goes on over another one, if its events had ids:

    client -> server   GET, Last-Event-ID: the last one seen      after `retry` ms, or a second

Revisions   2025-03-26 to 2025-11-25: GET, resumption; 2025-11-25: streams begin with an event that has an
            id and nothing else, and a server may end connections at any time (`release`).
            2026-07-28: no ids; when the connection closes, the request is cancelled; a stream without its
            response is a request that failed; errors have a status of HTTP's (`STATUS`).
Errors      server: ConnectionClosed for a message that comes after the end.
            client: ConnectionClosed, when a stream ends without the response and cannot be resumed;
            InvalidResponse for an event that is too long.
Threads     `send`, `answer`: the thread of the request, and threads that its handler made. `_speaking` is
            held while they write, so a client that reads slowly holds them up, for as long as the WSGI
            server lets it (runtime/http_server/reply). `_lock` guards the state and the events, and is never
            held during a write. The attendant calls `attend` and `client_left`, and waits for neither.
            An `EventReader` is run by the thread of its own connection, which waits for what is said.
            `follow` runs on the thread that waits for the response, or on a worker; `mcp_ref stream`, one a
            client in the legacy era, reads the stream of the GET.
"""

from __future__ import annotations

import contextlib
import enum
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from mcp_ref.basic.index.error_responses import TooManyRequests
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.transports.streamable_http.http_errors import STREAM, refusal, status_of
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS
from mcp_ref.basic.transports.streamable_http.resumability import StoredEvents
from mcp_ref.basic.transports.streamable_http.security import Refused
from mcp_ref.runtime import events
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    RequestCancelled,
    WriteRefused,
)
from mcp_ref.runtime.events import Events, TooLarge
from mcp_ref.runtime.http_client.exchange import HttpExchange
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.http_server.reply import ClientLeft, Headers, HttpReply
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.threads.outbox import Full
from mcp_ref.runtime.threads.workers import QueueFull

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext, WayOut
    from mcp_ref.basic.transports.streamable_http.resumability import Log
    from mcp_ref.basic.transports.streamable_http.sending import StreamableHttp, Way

__all__ = [
    "AnswerStyle",
    "Background",
    "EventReader",
    "HttpStream",
    "Kind",
    "Posted",
    "State",
    "follow",
]

_log = logger("mcp_ref.http")

# ------------------------------------------------------------------------------ the states


class State(enum.Enum):
    """What a response is by now."""

    UNDECIDED = "undecided"
    JSON = "json"
    EVENTS = "events"
    DETACHED = "detached"
    RESUMED = "resumed"
    OVER = "over"


_U, _J, _E, _D, _R, _O = State
TRANSITIONS: dict[State, dict[str, State]] = {
    _U: {"say": _E, "answer": _J, "silence": _E, "client_left": _D, "resume": _R, "fail": _O},
    _J: {"client_left": _J, "fail": _J},
    _E: {
        "say": _E,
        "answer": _O,
        "silence": _E,
        "client_left": _D,
        "release": _D,
        "resume": _R,
        "fail": _O,
    },
    _D: {"say": _D, "answer": _O, "client_left": _D, "release": _D, "resume": _R, "fail": _O},
    _R: {
        "say": _R,
        "answer": _O,
        "silence": _R,
        "client_left": _D,
        "release": _D,
        "resume": _R,
        "fail": _O,
    },
    _O: {"client_left": _O, "resume": _O, "fail": _O},
}
"""What follows on an event. Where there is nothing, the event raises."""


# ------------------------------------------------------------------------------ one response

ROOM = 4 << 20
"""Bytes that may wait for a thread that reads them; then senders wait."""

STALL = 60.0
"""Seconds that they wait, at most."""

BLOCKED_SECONDS = 0.1
"""Seconds for which a thread that ends a response waits for one that writes: longer only if the client reads
nothing. Then the connection is cut."""

EVENT_STREAM: Headers = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    # spec: basic/transports/streamable-http/x-accel-buffering
    ("X-Accel-Buffering", "no"),
]
JSON_OBJECT = ("Content-Type", "application/json")


class AnswerStyle:
    """How one application answers, as its options say."""

    def __init__(self, answers: str, keep_alive: float, retry_ms: int, *, can_ask: bool = True) -> None:
        self.answers = answers
        self.keep_alive = keep_alive
        self.retry_ms = retry_ms
        self.silence = {"json": math.inf, "stream": 0.0}.get(answers, keep_alive)
        """Seconds for which a request may be silent before it becomes a stream, which comments keep alive."""
        self.can_ask = can_ask
        """Whether a client can answer while its request runs: there is a thread for that."""
        self.flush_soon: Callable[[HttpStream], object] | None = None
        """Has `flush_held` called soon, where there is an attendant: events may be held back a moment."""
        self.can_write = True
        """Whether anything can be said before an answer: not if a middleware swallows what is written."""


USUAL_STYLE = AnswerStyle("auto", 15.0, 1000)


class Kind(NamedTuple):
    """What a response may be, by its request, its session, and the options."""

    is_modern: bool = False
    """The end of the connection cancels the request; errors have a status; ids are those of many clients."""
    is_mute: bool = False
    """Nothing but the answer has a place in it."""
    likes_events: bool = False
    """An answer alone is an event as well: the client likes that better, or an option says so."""
    primes: bool = False
    """The stream begins with an event that has an id and nothing else."""


USUAL_KIND = Kind()


class HttpStream:
    """Where the messages of one request go, or (GET) those of a session that belong to no request."""

    closes = True
    is_busy = False  # a sender waits for the client alone
    event: str | None = None
    """The name of each event, where it has to be spelled out (basic/transports/http_sse/server)."""

    def __init__(
        self,
        reply: HttpReply | None = None,
        kind: Kind = USUAL_KIND,
        style: AnswerStyle = USUAL_STYLE,
        log: Log | None = None,
    ) -> None:
        """Without a `reply` it is DETACHED: a client is yet to come. With a `log` it can be resumed."""
        self.reply = reply
        self.kind, self.style, self.log = kind, style, log
        self.name = ""
        """In the log, once there is an event in it."""
        self.context: RequestContext | None = None
        self.state = State.DETACHED if reply is None else State.UNDECIDED
        self._owner = threading.get_ident()
        self._speaking = threading.Lock()
        # Guarded by _speaking.
        self._rest = b""  # what is still to be sent once the handler has returned
        self._problem: McpError | None = None  # what the answer says went wrong
        self._spoke_at = time.monotonic()
        self._lock = threading.Lock()
        # Guarded by _lock, as is `state`.
        self._events: StoredEvents | None = None  # until there is one
        self._reader: EventReader | None = None  # in RESUMED
        self._changed: threading.Condition | None = None  # made by the first that waits
        self._failure: BaseException | None = None  # why it is over, if not by its answer

    # -- for senders (basic/patterns/index/context.WayOut) ---------------------------------------------

    @property
    def two_way(self) -> bool:
        """Whether the client can be asked something, and answer, while its request runs."""
        if self.kind.is_mute or not (self.style.can_write and self.style.can_ask):
            return False
        return self.reply is None or bool(self.reply.environ.get("wsgi.multithread", True))

    def begins(self, context: RequestContext) -> None:
        """Its request is about to run."""
        self.context = context
        if self.reply is not None:
            context.arrival.environ, context.principal = self.reply.environ, self.reply.principal
        if self.kind.is_modern:
            context.arrival.key = self

    def send(self, line: bytes, wait: float | None = None) -> None:
        """One message; its end of line is not part of it. Raises ConnectionClosed, Full, WriteRefused.

        # spec: basic/transports/streamable-http/sse-server-messages
        # spec: basic/transports/streamable-http/sse-messages-related
        # spec: basic/transports/streamable-http/get-server-messages
        # spec: basic/transports/streamable-http/get-unrelated
        # spec: basic/transports/streamable-http/one-stream-per-message
        # spec: basic/transports/streamable-http/no-broadcast
        """
        if self.kind.is_mute or not self.style.can_write:
            return
        is_there = True
        with self._speaking:
            with self._lock:
                following, number = self._say(line, wait)
            if following is State.EVENTS:
                is_there = self._write(self._framed(number, line), "say")
        if number and self.log is not None:
            self.log.keep(self, len(line))  # without _lock: it may have this stream forget its first event
        if not is_there:
            self.client_left()

    def _say(self, line: bytes, wait: float | None) -> tuple[State, int]:
        """The state after a message, and its number if it is stored. With both locks held."""
        if self.state is State.RESUMED:
            self._wait_for_room(len(line), wait)
        following = self.state if self.state is State.EVENTS else self._after("say")
        is_kept = self.log is not None or following is State.RESUMED
        number = self._store(line, following) if is_kept else 0
        if self.state is not State.UNDECIDED:  # else once its first event was written
            self.state = following
        return following, number

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """The last message.

        # spec: basic/transports/streamable-http/sse-includes-response
        # spec: basic/transports/streamable-http/sse-batched-responses
        # spec: basic/transports/streamable-http/get-no-response
        # spec: basic/transports/streamable-http/sse-terminates-after-response
        # spec: basic/transports/streamable-http/request-json-or-sse
        """
        if problem is not None:
            # Its frames know the message, and this stream: together they would outlive the request.
            problem.__traceback__ = problem.__context__ = problem.__cause__ = None
        number = 0
        with self._speaking:
            self._problem = problem
            with self._lock:
                if self.state is State.UNDECIDED and not (self.kind.likes_events and self._status() == 200):
                    self.state, self._rest = TRANSITIONS[State.UNDECIDED]["answer"], line
                else:
                    number = self._answer_with_event(line, wait)
        if number and self.log is not None:
            self.log.keep(self, len(line))
        # Another thread answers where the last request of a batch was cancelled.
        if self._rest and threading.get_ident() != self._owner:
            self._end_response()

    def _answer_with_event(self, line: bytes, wait: float | None) -> int:
        """The answer is the last event; its number, if it is stored. With both locks held."""
        try:
            self._wait_for_room(len(line), wait)
        except Full as full:  # the stream ends without its answer
            self._failure, self.state = full, self._after("fail")
            self._notify()
            return 0
        if self.state is State.UNDECIDED:
            self.state = self._after("silence")
        before, self.state = self.state, self._after("answer")
        number = self._store(line, before)
        if before is State.EVENTS:
            self._rest = self._framed(number, line)
        self._notify()
        return number

    def release(self) -> bool:
        """Have the client leave and come back, if it can: the request goes on. False if it cannot.

        # spec: basic/transports/streamable-http/sse-close-connection
        # spec: basic/transports/streamable-http/sse-no-early-close
        """
        if not self._can_come_back():
            return False
        with self._speaking:
            if self.state is State.UNDECIDED and not self._say_nothing():
                return False  # it has just gone, and knows no id to come back with
            before = self.state
            if "release" not in TRANSITIONS[before]:
                return False
            reply = self.reply
            if before is State.EVENTS and reply is not None and not reply.end_early():
                return False
            with self._lock:
                if self.state is before:  # else it is over; or the client is back by now, and may stay
                    self.state, self._reader = self._after("release"), None
                    self._notify()
        return True

    def _can_come_back(self) -> bool:
        """Whether its client is given an id to come back with, before anything is said."""
        return self.kind.primes and not self.kind.is_mute and self.style.can_write

    def cancel(self, reason: str) -> None:
        """The request was cancelled: the stream ends without an answer.

        # spec: basic/patterns/cancellation/no-response-after-cancel
        """
        self.fail(RequestCancelled(reason))
        if self.log is not None:
            self.log.drop(self)

    def flush(self, seconds: float) -> bool:
        """`send` returned when its message was written, or stored for a thread that reads it."""
        return True

    def fail(self, problem: BaseException) -> None:
        """Nothing will come any more. Does not wait for a thread that writes.

        # spec: basic/transports/streamable-http/sse-terminate-on-session-expiry
        """
        with self._lock:
            before, self.state = self.state, self._after("fail")
            if self.state is State.OVER and before is not State.OVER:
                self._failure = problem
            self._notify()
        if before in (State.UNDECIDED, State.EVENTS):
            self._end_response()

    @property
    def is_result(self) -> bool:
        """Whether all that was said is an answer, and no error."""
        return self.state is State.JSON and self._problem is None

    def is_wanted(self) -> bool:
        """Whether its request is to run: a modern client that left has cancelled it."""
        return not (self.kind.is_modern and self.state is State.DETACHED)

    # -- states and events, with _lock held ------------------------------------------------------------

    def _after(self, event: str) -> State:
        """The state after an event. Raises ConnectionClosed where there is none."""
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            why = f"the response is {self.state.value}, there is no more to {event}"
            raise ConnectionClosed(why if self._failure is None else str(self._failure))
        return following

    def _store(self, line: bytes, state: State) -> int:
        """Store an event that a client may come for; its number, or 0 where none can.

        # spec: basic/transports/streamable-http/sse-resumable
        """
        is_kept = self.log is not None and (state is State.EVENTS or self.name != "" or self.reply is None)
        if not (is_kept or state is State.RESUMED):
            return 0
        self._register()
        if self._events is None:  # empty is not none: the numbers go on
            self._events = StoredEvents()
        number = self._events.add(line)
        if state is State.EVENTS:
            self._events.mark_sent()  # by the thread that says it
        elif self._changed is not None:
            self._changed.notify_all()
        return number

    def _register(self) -> None:
        """From here on this is a stream of events, and the log has it."""
        if self.log is not None and not self.name:
            self.name = self.log.enter(self)

    def _wait_for_room(self, size: int, wait: float | None) -> None:
        """Wait until the thread that reads has sent enough. Raises Full."""
        unread = self._events
        if self.state is not State.RESUMED or unread is None:
            return
        seconds = STALL if wait is None else min(wait, STALL)
        if not self._wait_for(
            lambda: (
                self.state is not State.RESUMED
                or not unread.unsent_bytes
                or unread.unsent_bytes + size <= ROOM
            ),
            seconds,
        ):
            raise Full(f"the client has read nothing for {seconds:g} s")

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        if condition():
            return True
        if self._changed is None:
            self._changed = threading.Condition(self._lock)
        return self._changed.wait_for(condition, seconds)

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.notify_all()

    # -- what is written, with _speaking held ----------------------------------------------------------

    def opening(self) -> bytes:
        """What the stream begins with.

        # spec: basic/transports/streamable-http/sse-prime-event
        # spec: basic/transports/streamable-http/sse-retry-before-close
        """
        return events.encode(b"", id=f"{self.name}-0", retry=self.style.retry_ms) if self.kind.primes else b""

    def _framed(self, number: int, line: bytes) -> bytes:
        """A message as an event, with an id where the stream can be resumed.

        # spec: basic/transports/streamable-http/event-id
        """
        if self.log is None:
            return events.encode(line.rstrip(b"\n"), name=self.event)
        return events.encode(line.rstrip(b"\n"), id=f"{self.name}-{number}")

    def _write(self, piece: bytes, event: str) -> bool:
        """Send a piece of the stream now, the first with the opening before it. False if the client left.

        Where nothing can be written, all is as it was; raises WriteRefused, once in an application's life.
        """
        assert self.reply is not None
        self._spoke_at = time.monotonic()
        begins = self.state is State.UNDECIDED
        is_there = True
        try:
            if begins:
                self.reply.begin(200, EVENT_STREAM)
                self.reply.write(self.opening() + piece)
            elif self.style.flush_soon is None or event == "silence":
                self.reply.write(piece)
            elif self.reply.write_soon(piece):
                self.style.flush_soon(self)
        except ClientLeft:
            is_there = False
        except WriteRefused as problem:
            self._take_back(problem)
            raise
        if begins:
            with (
                self._lock
            ):  # it may have ended meanwhile: the client may cancel as soon as it reads the event
                self.state = TRANSITIONS[self.state].get(event, self.state)
        return is_there

    def _take_back(self, problem: WriteRefused) -> None:
        """Nothing was said, and nothing can be said: the answers of this application are JSON from now on."""
        _log.error("nothing can be sent before an answer: %s; answers are JSON alone from now on", problem)
        self.style.can_write = False
        with self._lock:
            name, self.name, self._events = self.name, "", None
        if self.log is not None:
            self.log.remove(name)

    def _say_nothing(self) -> bool:
        """Begin the stream, or show that it is alive. False if the client left.

        # spec: basic/transports/streamable-http/sse-keep-alive
        """
        with self._lock:
            self._after("silence")
            self._register()
        begins_with_event = self.state is State.UNDECIDED and self.kind.primes
        return self._write(b"" if begins_with_event else events.COMMENT, "silence")

    # -- the attendant's (runtime/http_server/attendant) -----------------------------------------------

    def attend(self, now: float) -> None:
        """Where nothing was said for long, begin the stream, or show that it is alive. Waits for nothing."""
        reply = self.reply
        if reply is not None and reply.held:
            self.flush_held()
        if reply is None or not self._is_silent(now) or not reply.takes_at_once():
            return
        if not self._speaking.acquire(blocking=False):
            return  # it is being written to: it is not silent
        is_there = True
        try:
            if self.state in (State.UNDECIDED, State.EVENTS):
                is_there = self._say_nothing()
        except (ConnectionClosed, WriteRefused):
            pass  # it ended just now; or nothing can be said, and that is logged
        finally:
            self._speaking.release()
        if not is_there:
            self.client_left()

    def _is_silent(self, now: float) -> bool:
        """Whether something should be sent, for nothing was for so long."""
        silence = self.style.silence if self.state is State.UNDECIDED else self.style.keep_alive
        return now - self._spoke_at >= silence and self.style.can_write and not self.kind.is_mute

    def flush_held(self) -> bool:
        """Write the events that were held back; False to be asked again. Waits for nothing."""
        reply = self.reply
        if reply is None or not reply.held or not reply.takes_at_once():
            return True  # where the client reads slowly, `attend` does it, or the next event
        if not self._speaking.acquire(blocking=False):
            return False
        is_there = True
        try:
            if self.state is State.EVENTS:
                is_there = self._write(b"", "silence")
        finally:
            self._speaking.release()
        if not is_there:
            self.client_left()
        return True

    def client_left(self) -> None:
        """The connection of the request is gone. Any thread.

        In the modern era that cancels the request. In a session it goes on: its client may come back.
        # spec: basic/patterns/cancellation/http-disconnect-cancels
        # spec: basic/transports/streamable-http/cancel-on-disconnect
        # spec: basic/transports/streamable-http/cancel-stops-work
        # spec: basic/transports/streamable-http/cancel-silences
        # spec: basic/transports/streamable-http/sse-broken-stream-not-resumed
        # spec: basic/transports/streamable-http/sse-disconnect-anytime
        # spec: basic/transports/streamable-http/sse-disconnect-not-cancel
        """
        with self._lock:
            if self.state not in (State.UNDECIDED, State.EVENTS):
                return
            self.state = self._after("client_left")
        self._cancel_if_modern()

    def _cancel_if_modern(self) -> None:
        context = self.context
        if self.kind.is_modern and context is not None:
            context.connection.responder.cancel(context, "the client closed the stream")

    # -- the end of the response -----------------------------------------------------------------------

    def finish(self) -> Iterable[bytes]:
        """What is still to be sent, now that the handler has returned. Runs on the thread of the request."""
        with self._speaking:
            reply, reader = self.reply, self._reader
            if reader is not None and reader.reply is reply:
                return self._finish_lasting(reader)
            self.reply = self.context = None  # what is kept of a stream is what was said on it
            if reply is None:  # another thread has sent it all
                return ()
            if self.state is State.JSON and self._problem is None:
                return reply.whole(200, self._rest, (JSON_OBJECT,))
            self._check_answered()
            return self._remaining(reply)

    def _check_answered(self) -> None:
        """A request that was taken off the table has no answer: its session, or the server, has ended."""
        with self._lock:
            if self.state in (State.UNDECIDED, State.EVENTS):
                self.state, self._failure = self._after("fail"), ConnectionClosed("the connection has ended")

    def _finish_lasting(self, reader: EventReader) -> Iterable[bytes]:
        """The stream of a request that lasts; or, if it was refused, the error as one object."""
        if not self._is_refused():
            return reader.begin()
        answer = self._take()[0][1]
        reader.close()
        self.reply = self.context = None
        return self._one_object(reader.reply, answer)

    def _is_refused(self) -> bool:
        """Whether a request that was to last has an error instead, and nothing else."""
        with self._lock:
            has_answer_alone = self._events is not None and len(self._events) == 1 and not self._events.sent
            return self.state is State.OVER and self._problem is not None and has_answer_alone

    def _remaining(self, reply: HttpReply) -> Iterable[bytes]:
        """What is still to be sent; all of the response, if nothing was sent yet. With _speaking held."""
        rest, self._rest = self._rest, b""
        if reply.is_sent:
            rest = reply.take_held() + rest
            return (rest,) if rest else ()
        if rest and self.state is State.JSON:
            return self._one_object(reply, rest)
        if rest:
            return reply.whole(200, self.opening() + rest, EVENT_STREAM)
        had_no_client = self._failure is None and self.state in (State.DETACHED, State.OVER)
        if had_no_client or isinstance(self._failure, RequestCancelled):
            return reply.whole(200, b"", EVENT_STREAM)
        # Not 404: that would say that the request was not begun, and may well be sent again.
        ended = Refused(503, "the session, or the server, ended before the answer")
        return reply.whole(503, ended.body(), [JSON_OBJECT])

    def _one_object(self, reply: HttpReply, answer: bytes) -> Iterable[bytes]:
        """The response whose answer is all there is to say."""
        if self._problem is None:
            return reply.whole(200, answer, (JSON_OBJECT,))
        return reply.whole(self._status(), answer, [JSON_OBJECT, *self._retry_after()])

    def _end_response(self) -> None:
        """End the response although the handler still runs. Any thread but that of the request."""
        reply = self.reply
        if reply is None:
            return
        if not self._speaking.acquire(timeout=BLOCKED_SECONDS):
            reply.cut()
            return
        rest = self._rest
        try:
            if self.reply is not None and self.style.can_write:  # else the handler has returned just now
                self.reply = None
                for piece in self._remaining(reply) or (b"",):
                    reply.write(piece)
                reply.end_early()
        except ClientLeft:
            pass
        except WriteRefused as problem:
            self._take_back(problem)
            self.reply, self._rest = reply, rest  # it is sent once the handler returns
        finally:
            self._speaking.release()

    def _status(self) -> int:
        """The status of an answer that is all there is to say."""
        return (
            STATUS.get(type(self._problem), 200) if self.kind.is_modern and self._problem is not None else 200
        )

    def _retry_after(self) -> Headers:
        if not isinstance(self._problem, TooManyRequests):
            return []
        return [("Retry-After", str(max(1, round(self._problem.data["retryAfterMs"] / 1000))))]

    # -- the log (resumability) ------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be said."""
        return self.state is State.OVER

    @property
    def is_spent(self) -> bool:
        """Whether it is over, and nothing is left of it."""
        return self.is_over and not self._events

    @property
    def _is_read(self) -> bool:
        return self._reader is not None

    @property
    def _stored(self) -> StoredEvents:
        return NO_EVENTS if self._events is None else self._events

    def has(self, number: int) -> bool:
        """Whether all after this event is still there."""
        with self._lock:
            return self._stored.has(number)

    def can_forget(self, but: int) -> bool:
        """Whether it has more than `but` events, and can do without the oldest."""
        with self._lock:
            return self._stored.can_forget(but, is_read=self._is_read)

    def forget(self, size: int, but: int) -> int:
        """Drop the oldest events: as many as make so many bytes. Returns how many they make."""
        with self._lock:
            return self._stored.forget(size, but, is_read=self._is_read)

    # -- the thread that reads it ----------------------------------------------------------------------

    def reader(self) -> EventReader | None:
        """What reads it just now."""
        return self._reader

    def attach(self, reader: EventReader, last_seen: int | None) -> None:
        """From now on this one reads the stream, from an event on, and no other connection has it.

        # spec: basic/transports/streamable-http/replay-messages
        """
        with self._lock:
            before, self.state = self.state, self._after("resume")
            self._register()
            if last_seen is not None and self._events is not None:
                self._events.rewind(last_seen)
            self._reader = reader
            self._notify()
        # UNDECIDED, too: the client may have read the first event before the thread that wrote it goes on.
        first = self.reply
        if before in (State.UNDECIDED, State.EVENTS) and first is not None and reader.reply is not first:
            first.take_held()  # the new one has it
            self._end_response()

    def take(self, reader: EventReader, seconds: float) -> list[bytes] | None:
        """The events that its client was not sent yet, waiting so long for one; None at the end."""
        with self._lock:
            self._wait_for(lambda: self._reader is not reader or self._has_unsent or self.is_over, seconds)
            if self._reader is not reader:
                return None
            taken = self._take()
            if not taken and self.is_over:
                return None
            self._notify()
        if taken and self.log is not None:
            self.log.trim()
        return [self._framed(number, line) for number, line in taken]

    def _take(self) -> list[tuple[int, bytes]]:
        """With _lock held."""
        if self._events is None:
            return []
        taken = self._events.take()
        if self.log is None:
            self._events.forget_sent()
        return taken

    @property
    def _has_unsent(self) -> bool:
        return self._events is not None and self._events.unsent_bytes > 0

    def detach(self, reader: EventReader) -> None:
        """The connection of a reader is gone. What no client can come back for is dropped."""
        with self._lock:
            if self._reader is not reader:
                return
            self._reader = None
            self.state = self._after("client_left")
            if self.log is None:
                self._events = None
            self._notify()
        self._cancel_if_modern()


class Posted(NamedTuple):
    """What a POST brings to the endpoint."""

    kind: str
    """request, batch, notification, response; "quick": a request that needs no turn; "answered" by now."""
    connection: Connection
    stream: HttpStream | None
    """Where what is said to it goes; None if nothing is."""


NO_EVENTS = StoredEvents()
"""Of a stream on which nothing was said. Nothing is added to it."""


class EventReader:
    """The body of a response whose thread waits for what is said on a stream, as WSGI runs it."""

    def __init__(
        self,
        stream: HttpStream,
        reply: HttpReply,
        *,
        last_seen: int | None = None,
        on_close: Callable[[EventReader], object],
    ) -> None:
        """With `last_seen` it goes on after that event. `on_close` is called once, at its end."""
        self.stream, self.reply = stream, reply
        self._on_close: Callable[[EventReader], object] | None = on_close
        self._resumes = last_seen is not None
        self._has_begun = False
        stream.attach(self, last_seen)

    def begin(self) -> EventReader:
        """The body, after the head."""
        self.reply.begin(200, EVENT_STREAM)
        return self

    def __iter__(self) -> EventReader:
        return self

    def __next__(self) -> bytes:
        """What was said by now, or a comment where nothing was for long; the first piece is there at once."""
        pieces = self.stream.take(self, self.stream.style.keep_alive if self._has_begun else 0.0)
        if pieces is None:
            raise StopIteration
        if not (self._has_begun or self._resumes):
            pieces.insert(0, self.stream.opening())
        self._has_begun = True
        return b"".join(pieces) or events.COMMENT

    def attend(self, now: float) -> None:
        """Its own thread sees to comments."""

    def flush_held(self) -> bool:
        """Its own thread holds nothing back."""
        return True

    def client_left(self) -> None:
        """The attendant found that the client has gone: the thread that waits is told."""
        self.stream.detach(self)

    def fail(self, problem: BaseException) -> None:
        """Nothing more will be said on the stream."""
        self.stream.fail(problem)

    def close(self) -> None:
        """WSGI calls this once the response is over, or its connection is."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            self.stream.detach(self)
            on_close(self)


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
        self.idle = 0  # connections in a row that brought no message
        self.begun: deque[float] = deque(maxlen=OFTEN)  # when the last connections did

    def read(self, exchange: HttpExchange, call: Call | None) -> None:
        """All events of one connection, up to the response to the call.

        An end of the connection, whichever, is no error in here. Raises InvalidResponse, Aborted, Expired.
        """
        self.begun.append(time.monotonic())

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

    def go_on(self, exchange: HttpExchange, call: Call | None) -> None:
        """Wait, and read what follows the last event, over another connection; or over the first one.

        Raises what is against another one: HttpError, InvalidResponse, Aborted, Expired.
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
    if not resumable or not stream.last_id or stream.failures >= TRIES:
        raise ConnectionClosed(f"{call.method}: the stream ended without the answer")
    exchange = sender.exchanges.new(call.deadline if call.on_done is None else None)
    try:
        stream.go_on(way.go(exchange), call)
    except InvalidResponse:
        raise
    except McpError as problem:
        said = f"{call.method}: the stream ended without the answer, and cannot be resumed: {problem}"
        raise ConnectionClosed(said) from None


# --------------------------------------------------------------------------- the stream of a GET


class Background:
    """Hears what belongs to no request, until it is stopped or the server has no such stream.

    A server that is gone is asked again for as long as the client lives, later and later.
    """

    def __init__(self, sender: StreamableHttp, way: Way) -> None:
        """# spec: basic/transports/streamable-http/get-opens-stream"""
        self._sender = sender
        self._way = way
        self._thread = threading.Thread(target=self._run, name="mcp_ref stream", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        sender = self._sender
        served = sender.session.id
        stream = Following(sender, sender, served)
        try:
            while True:
                # spec: basic/transports/streamable-http/get-accept
                exchange = sender.exchanges.new(None, read_timeout=MAX_SILENT_SECONDS)
                stream.go_on(self._way.go(exchange), None)
        except Aborted:
            pass
        except McpError as problem:  # 405 says that there is no such stream; so do others, in their way
            if served is not None and status_of(problem) == 404 and self._may_renew(stream):
                self._renew(served, problem)
            else:
                _log.info("no stream for what belongs to no request: %.300r", problem)
        except Exception:
            _log.exception("the stream for what belongs to no request failed")

    def _may_renew(self, stream: Following) -> bool:
        """Whether 404 says that the session is over, as it does to every request with the id of one.

        Not if the session was opened for that reason, and never had this stream either: its id is good, so
        that it is the GET which the server does not know.
        """
        session = self._sender.session
        is_first = not stream.begun
        if is_first and session.was_renewed_for_stream:
            return False
        session.was_renewed_for_stream = is_first
        return True

    def _renew(self, served: str, problem: McpError) -> None:
        """The session is over: open a new one, for those of our callers that listen."""
        deadline = Deadline(self._sender.connection.timeout, Clock())
        try:
            self._sender.session.renew(served, problem, deadline)
        except (McpError, Aborted, Expired) as failed:
            _log.warning("nothing is heard of the server any more: %.300r", failed)

    def stop(self) -> None:
        """Hear no longer.  # spec: basic/transports/streamable-http/get-client-closes"""
        self._way.end()
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)
