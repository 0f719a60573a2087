"""Responses of Streamable HTTP (page: basic/transports/streamable-http, "Receiving Messages"), on both sides.

A POST with a request is answered with one JSON object if the answer is all there is to say, and with
server-sent events if anything else is said before it. The thread that works on the request does not know
which: it has an `HttpStream`, where messages go, and which the thread of the HTTP connection turns into a
response.

    worker                          thread of the connection
    send(progress)  ->  HttpStream  ->  first a message: headers of an event stream, then events as they come
    answer(result)  ->              ->  last event, end
    answer(result)  ->              ->  first the answer: one JSON object

`Waiting` is where the thread of the connection waits for that, and where calls and streams are counted,
each of which holds a thread of the WSGI server as long as it lasts: one more is refused before the last
thread is used up.

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
Errors      server: 503 with Retry-After where there is no thread, or no stream, to be had.
            client: ConnectionClosed, when a stream ends without the response and cannot be resumed;
            InvalidResponse for an event that is too long.
Threads     `send`, `answer`: any thread, one at a time under `_lock`; they wait when the client reads
            slower than it is written to. An `EventResponse` is the WSGI server's thread alone; each half
            second of silence it asks whether the client is still there (`departed`). `_lock` of `Waiting`
            guards its sets.
            `follow` runs on the thread that waits for the response, or on a worker; `mcp_ref stream`, one a
            client in the legacy era, reads the stream of the GET.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_ref.basic.index.error_responses import InvalidRequest, ProtocolError, TooManyRequests
from mcp_ref.basic.index.messages import Json, classify, encode, encode_error, is_id
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.transports.streamable_http.http_errors import STREAM, refusal, status_of
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS
from mcp_ref.basic.transports.streamable_http.resumability import OVERHEAD
from mcp_ref.basic.transports.streamable_http.security import Refused
from mcp_ref.runtime import events
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, LocalError, McpError
from mcp_ref.runtime.events import Events, TooLarge
from mcp_ref.runtime.http_client.exchange import HttpExchange
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.threads.outbox import Full
from mcp_ref.runtime.threads.workers import QueueFull

if TYPE_CHECKING:
    from mcp_ref.basic.index.messages import Json
    from mcp_ref.basic.patterns.index.context import RequestContext, WayOut
    from mcp_ref.basic.transports.streamable_http.resumability import Log
    from mcp_ref.basic.transports.streamable_http.sending import StreamableHttp, Way

__all__ = [
    "ACCEPTED",
    "SECONDS_UNTIL_STREAM",
    "Background",
    "EventResponse",
    "HttpAnswer",
    "HttpStream",
    "Waiting",
    "departed",
    "error",
    "follow",
    "plain",
    "reason",
    "whole",
]

_log = logger("mcp_ref.http")

ROOM = 4 << 20
"""Bytes that may wait for a client that reads slowly; then senders wait."""

STALL = 60.0
"""Seconds that it waits, at most."""


NONE: deque[bytes] = deque(maxlen=0)
"""The events of a stream that has none."""


class HttpStream:
    """Where the messages of one request go, or (GET) those of a session that belong to no request."""

    closes = True
    waits = True
    event: str | None = None
    """The name of each event, where it has to be spelled out (basic/transports/http_sse/server)."""
    opening = b""
    """What comes before the first event."""

    def __init__(
        self,
        *,
        log: Log | None = None,
        primes: bool = False,
        environ: Json | None = None,
        principal: str | None = None,
        keyed: bool = False,
        mute: bool = False,
        eager: bool = False,
    ) -> None:
        """`log`: resumable. `primes`: begins with an event that has but an id. `keyed`: the id of the request
        means nothing here, since it is one of many clients' (2026-07-28). `mute`: nothing but the answer has
        a place in the response. `eager`: its client likes events better than JSON.
        """
        self.log = log
        self.primes = primes
        self.environ, self.principal = environ, principal
        self.two_way = not mute and (environ is None or bool(environ.get("wsgi.multithread", True)))
        self.name = ""
        """In the log, once there is an event in it."""
        self.context: RequestContext | None = None
        self.problem: McpError | None = None
        """What the answer says went wrong."""
        self.is_modern, self.is_eager = keyed, eager
        self._mute = mute
        self._owner = threading.get_ident()  # the connection's thread: it waits for no other to make room
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._room: threading.Condition | None = None  # made by the first that waits for it
        self._events: deque[bytes] = NONE  # until there is one
        self._first = 1  # the number of the first of them
        self._size = 0  # of those that the client has not been sent
        self._sent = 0  # the number of the last event that it has been sent
        self._reader: EventResponse | None = None
        self._awaited = environ is not None  # a connection waits to see what response this will be
        self._discards = False
        self.answered = False
        self.released = False
        """Whether the client is to go and come back."""
        self.is_cancelled = False
        self._failure: BaseException | None = None
        # What the connection's thread sleeps on: released when there is something to see.
        self._wakes = threading.Lock()
        self._wakes.acquire()

    # -- for senders (basic/patterns/index/context.WayOut) ---------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """A sender never waits here for another that writes."""
        return False

    def begins(self, context: RequestContext) -> None:
        """Its request is about to run."""
        self.context = context
        context.arrival.environ, context.principal = self.environ, self.principal
        if self.is_modern:
            context.arrival.key = self

    def send(self, line: bytes, wait: float | None = None) -> None:
        """One message; its end of line is not part of it.

        # spec: basic/transports/streamable-http/sse-server-messages
        # spec: basic/transports/streamable-http/sse-messages-related
        # spec: basic/transports/streamable-http/get-server-messages
        # spec: basic/transports/streamable-http/get-unrelated
        # spec: basic/transports/streamable-http/one-stream-per-message
        # spec: basic/transports/streamable-http/no-broadcast
        """
        if self._mute:
            return
        with self._lock:
            kept = self._put(line, wait)
        self._told(line, kept)

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """The last message.

        # spec: basic/transports/streamable-http/sse-includes-response
        # spec: basic/transports/streamable-http/sse-batched-responses
        # spec: basic/transports/streamable-http/get-no-response
        # spec: basic/transports/streamable-http/sse-terminates-after-response
        """
        kept = False
        if problem is not None:
            # Its frames know the message, and this stream: together they would outlive the request.
            problem.__traceback__ = problem.__context__ = problem.__cause__ = None
        with self._lock:
            self.problem = problem
            try:
                if self.name or self._events or self._sent:
                    kept = self._put(line, wait)
                else:  # all there is to say, perhaps: not yet an event
                    self._add(line)
            except ConnectionClosed as failure:  # the client has gone: the stream ends without an answer
                self._failure = self._failure or failure
            self.answered = True
        self._told(line, kept)

    def release(self) -> bool:
        """Have the client leave and come back, if it can: the stream goes on.

        # spec: basic/transports/streamable-http/sse-close-connection
        # spec: basic/transports/streamable-http/sse-no-early-close
        """
        if self._mute or not (self.primes and self.log is not None):
            return False
        self.released = True
        self.wake()
        return True

    def cancel(self, reason: str) -> None:
        """The request was cancelled: the stream ends without an answer.

        # spec: basic/patterns/cancellation/no-response-after-cancel
        """
        self.is_cancelled = True
        self.fail(ConnectionClosed(reason))
        if self.log is not None:
            self.log.forget(self)

    def flush(self, seconds: float) -> bool:
        """Wait until the client was sent everything; False if it is not in time."""
        with self._lock:
            return self._wait_for(lambda: not self._size or not self._is_wanted, seconds)

    def fail(self, problem: BaseException) -> None:
        """Nothing will come any more.

        # spec: basic/transports/streamable-http/sse-terminate-on-session-expiry
        """
        with self._lock:
            self._failure = self._failure or problem
            self._freed()
        self.wake()

    def _put(self, line: bytes, wait: float | None) -> bool:
        """Add an event; whether the log is to know of it. With _lock held."""
        if self._failure is not None:
            raise ConnectionClosed(str(self._failure))
        if self._discards:
            return False
        if not self._has_room(len(line)):
            seconds = STALL if wait is None else min(wait, STALL)
            seconds = 0.0 if self._awaited and self._owner == threading.get_ident() else seconds
            if not self._wait_for(lambda: self._has_room(len(line)), seconds):
                raise Full(f"the client has read nothing for {seconds:g} s")
        self._add(line)
        self._register()
        return self.log is not None

    def _add(self, line: bytes) -> None:
        """With _lock held."""
        if self._events is NONE:
            self._events = deque()
        self._events.append(line)
        self._size += len(line)

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Until the client has been sent something, or is gone, and the condition holds. With _lock held."""
        if self._room is None:
            self._room = threading.Condition(self._lock)
        return self._room.wait_for(condition, seconds)

    def _freed(self) -> None:
        """There is more room, or it is needed no more. With _lock held."""
        if self._room is not None:
            self._room.notify_all()

    def _has_room(self, size: int) -> bool:
        """With _lock held."""
        fits = not self._size or self._size + size <= ROOM
        return fits or not self._is_wanted or self._failure is not None

    @property
    def _is_wanted(self) -> bool:
        """Whether there is a connection for what is said. With _lock held."""
        return self._awaited or self._reader is not None

    def _register(self) -> None:
        """From here on this is a stream of events. With _lock held.

        # spec: basic/transports/streamable-http/sse-resumable
        """
        if self.log is not None and not self.name:
            self.name = self.log.enter(self)

    def _told(self, line: bytes, kept: bool) -> None:
        """Something was said. Without _lock: the log may have this stream forget its first event."""
        if kept and self.log is not None:
            self.log.keep(self, len(line))
        self.wake()

    def wake(self) -> None:
        """Have the connection's thread look."""
        try:
            self._wakes.release()
        except RuntimeError:
            pass  # it was told already and has not looked yet

    # -- the log ---------------------------------------------------------------------------------

    def has(self, number: int) -> bool:
        """Whether all after this event is still there."""
        with self._lock:
            return self._first - 1 <= number < self._first + len(self._events)

    def can_forget(self, but: int) -> bool:
        """Whether more than `but` events are stored that no connected client has still to receive."""
        with self._lock:
            return self._is_forgettable(but)

    def _is_forgettable(self, but: int) -> bool:
        """With _lock held."""
        return len(self._events) > but and not (self._is_wanted and self._first > self._sent)

    def forget(self, size: int, but: int) -> int:
        """The first events are too old to be sent again: as many as make so many bytes; returns how many."""
        freed = 0
        with self._lock:
            while freed < size and self._is_forgettable(but):
                line = self._events.popleft()
                freed += len(line) + OVERHEAD
                if self._first > self._sent:
                    self._size -= len(line)
                self._first += 1
        return freed

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left of it, and nothing will come."""
        return self.is_over and not self._events

    # -- the connection's thread ----------------------------------------------------------------

    def wait(self, seconds: float) -> bool:
        """Until there is something to see; False if there is not, in time."""
        return self._wakes.acquire(timeout=seconds)

    @property
    def is_plain(self) -> bool:
        """Whether the answer is there and is all that there is."""
        return self.answered and not self.name and not self._sent and len(self._events) == 1

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come, other than what is there."""
        return self.answered or self._failure is not None

    @property
    def is_begun(self) -> bool:
        """Whether anything was said, or sent."""
        return bool(self.name or self._events or self._sent)

    @property
    def is_read(self) -> bool:
        """Whether a response has it just now."""
        return self._reader is not None

    def reader(self) -> EventResponse | None:
        """The response that has it just now."""
        return self._reader

    def whole(self) -> bytes:
        """The answer, for a response that is nothing else."""
        with self._lock:
            self._sent = self._first
            self._size = 0
            return self._events.popleft()

    def attach(self, reader: EventResponse, after: int | None) -> None:
        """From now on this response has the events, those after a number first, and no other has them.

        # spec: basic/transports/streamable-http/replay-messages
        """
        with self._lock:
            early = list(self._events) if self.log is not None and not self.name else []
            self._register()
            if after is not None:
                self._sent, self.released = after, False
                skipped = max(0, after + 1 - self._first)
                self._size = sum(len(line) for line in itertools.islice(self._events, skipped, None))
            self._reader, self._discards, self._awaited = reader, False, False
        for line in early:  # the answer came first, and is an event all the same
            self._told(line, kept=True)
        self.wake()

    def discard(self) -> None:
        """Its client is gone, and cannot come back for it."""
        with self._lock:
            self._discards, self._awaited = True, False
            self._events.clear()
            self._size = 0
            self._freed()

    def detach(self, reader: EventResponse) -> None:
        """Its connection is gone. Events that are not stored for a resumed stream are dropped."""
        with self._lock:
            if self._reader is reader:
                self._reader = None
                if self.log is None:
                    self._events.clear()
                    self._size = 0
                    self._discards = True
                self._freed()

    def take(self, reader: EventResponse) -> list[tuple[int, bytes]] | None:
        """What the client has not been sent, each with its number; None if another response has it now."""
        with self._lock:
            taken = self._take() if self._reader is reader else None
        if taken and self.log is not None:
            self.log.trim()
        return taken

    def finish(self) -> list[tuple[int, bytes]]:
        """The same for a stream that is over before any response had it."""
        with self._lock:
            alone = self.log is not None and not self.name
            self._register()
            self._awaited = False
            taken = self._take()
        if alone:
            for _, line in taken:
                self._told(line, kept=True)
        elif self.log is not None:
            self.log.trim()
        return taken

    def _take(self) -> list[tuple[int, bytes]]:
        """With _lock held."""
        start = max(self._sent + 1, self._first)
        taken = list(enumerate(itertools.islice(self._events, start - self._first, None), start))
        if taken:
            self._sent = taken[-1][0]
            self._size = 0
            if self.log is None:
                self._events.clear()
                self._first = self._sent + 1
            self._freed()
        return taken


LOOK = 0.5
"""Seconds of silence after which the connection's thread looks whether the client is still there."""

JSON = ("Content-Type", "application/json")
EVENTS = [
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    # spec: basic/transports/streamable-http/x-accel-buffering
    ("X-Accel-Buffering", "no"),
]


def go_on(stream: HttpStream) -> None:
    """A client of the legacy era that disconnects has not cancelled its request, so there is nothing to do.

    # spec: basic/transports/streamable-http/sse-disconnect-anytime
    # spec: basic/transports/streamable-http/sse-disconnect-not-cancel
    """


def ignore(stream: HttpStream) -> None:
    """Where nothing is to be done at the end of a response."""


def modern_kind(message: Any) -> str:
    """Whether the body of a POST is a request or a notification. Raises InvalidRequest for any other."""
    if type(message) is list:
        raise InvalidRequest("a batch; only 2025-03-26 has batches")
    kind = classify(message)
    if kind == "response":  # spec: basic/transports/streamable-http/client-no-responses
        raise InvalidRequest("in 2026-07-28 a client sends requests and notifications, no responses")
    return kind


class HttpAnswer(NamedTuple):
    """What goes back to an HTTP request."""

    status: int
    headers: list[tuple[str, str]]
    body: Iterable[bytes]


ACCEPTED = HttpAnswer(202, [("Content-Length", "0")], ())
"""# spec: basic/transports/streamable-http/notification-202"""


# ---------------------------------------------------------------------------- one object


@functools.cache
def reason(status: int) -> str:
    """The status line's words; of the statuses that there are, which are few."""
    from http import HTTPStatus

    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Refused"


def plain(status: int, body: bytes, *headers: tuple[str, str]) -> HttpAnswer:
    """One JSON object."""
    return HttpAnswer(status, [JSON, ("Content-Length", str(len(body))), *headers], (body,))


def error(status: int, problem: ProtocolError, message: Any) -> HttpAnswer:
    """An error to a request, by its id; without one if the id could not be read.

    # spec: basic/transports/streamable-http/rejected-input-status
    # spec: basic/transports/streamable-http/rejected-input-body
    """
    request_id = message.get("id") if type(message) is dict else None
    if is_id(request_id):
        return plain(status, encode_error(request_id, problem))
    return plain(status, encode({"jsonrpc": "2.0", "error": problem.to_wire()}))


# --------------------------------------------------------------------- events as they come


def opening(stream: HttpStream, retry_ms: int) -> list[bytes]:
    """What a stream begins with.

    # spec: basic/transports/streamable-http/sse-prime-event
    # spec: basic/transports/streamable-http/sse-retry-before-close
    """
    if stream.primes:
        return [events.encode(b"", id=f"{stream.name}-0", retry=retry_ms)]
    return [stream.opening] if stream.opening else []


def framed(stream: HttpStream, messages: list[tuple[int, bytes]]) -> list[bytes]:
    """Messages as events, with ids where the stream can be resumed.

    # spec: basic/transports/streamable-http/event-id
    """
    if stream.log is None:
        return [events.encode(line.rstrip(b"\n"), name=stream.event) for _, line in messages]
    name = stream.name
    return [events.encode(line.rstrip(b"\n"), id=f"{name}-{number}") for number, line in messages]


def whole(stream: HttpStream, retry_ms: int) -> bytes:
    """A stream that is over, in one piece."""
    messages = stream.finish()
    return b"".join((*opening(stream, retry_ms), *framed(stream, messages)))


class EventResponse:
    """A stream on its way to a client: the iterable of bytes that WSGI wants. One thread has it.

    # spec: basic/transports/streamable-http/request-json-or-sse
    """

    def __init__(
        self,
        stream: HttpStream,
        *,
        after: int | None,
        keep_alive: float,
        retry_ms: int,
        gone: Callable[[], bool],
        on_close: Callable[[EventResponse], object],
    ) -> None:
        self.stream = stream
        self.left = False
        """Whether the client went before the end."""
        self._resumes = after is not None
        self._keep_alive = keep_alive
        self._retry = retry_ms
        self._gone = gone
        self._on_close = on_close
        self._begun = False
        self._over = False
        self._closed = False
        stream.attach(self, after)

    def __iter__(self) -> EventResponse:
        return self

    def __next__(self) -> bytes:
        """The next piece: what there is by now, or a comment where there is nothing for long.

        # spec: basic/transports/streamable-http/sse-keep-alive
        """
        silent_until = time.monotonic() + self._keep_alive
        while self._goes_on():
            piece = self._piece()
            if piece:
                return piece
            if self._goes_on() and self._is_silent(silent_until):
                return events.COMMENT
        raise StopIteration

    def _goes_on(self) -> bool:
        return not self._over

    def _is_silent(self, until: float) -> bool:
        """Wait for something to see; True if it is time for a comment."""
        if not self._begun:  # for servers that send no headers before there is a body
            self._begun = True
            return True
        if self.stream.wait(max(0.0, min(LOOK, until - time.monotonic()))):
            return False
        if self._gone():
            self.left = self._over = True
            return False
        return time.monotonic() >= until

    def _piece(self) -> bytes:
        stream = self.stream
        over = stream.is_over  # before the taking: what comes after it is for the next look
        released = stream.released
        taken = stream.take(self)
        if taken is None:
            self._over = True
            stream.wake()  # what woke this thread may have been for the one that has it now
            return b""
        pieces = framed(stream, taken)
        if not (self._begun or self._resumes):
            pieces = [*opening(stream, self._retry), *pieces]
        self._begun = self._begun or bool(pieces)
        self._over = over or released
        return b"".join(pieces)

    def close(self) -> None:
        """WSGI calls this once the response is over, or its connection is."""
        if not self._closed:
            self._closed = True
            self.left = self.left or not self._over
            self.stream.detach(self)
            self._on_close(self)


def departed(environ: Json) -> Callable[[], bool]:
    """How to ask whether the client of a request has gone. Where that cannot be asked, only writing tells."""
    told = environ.get("waitress.client_disconnected")
    if told is not None:
        return lambda: bool(told())
    connection = environ.get("werkzeug.socket") or environ.get("gunicorn.socket")
    if connection is None or isinstance(connection, ssl.SSLSocket):
        return lambda: False
    return lambda: _is_closed(connection)


SHUT = getattr(select, "POLLRDHUP", 0)
"""Linux says by itself that a peer has shut its side, also behind what it has sent ahead."""


def _is_closed(connection: socket.socket) -> bool:
    """Whether the peer has shut its side: then it can be read, and there is nothing."""
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN | SHUT)
        found = poll.poll(0)
        if not found or found[0][1] & SHUT:
            return bool(found)
        return not connection.recv(1, 2)  # MSG_PEEK: what a client sends ahead stays where it is
    except BlockingIOError:
        return False
    except (OSError, ValueError):
        return True


SOON = 0.05
"""Seconds that an answer gets to be the only event of its stream, before the stream is begun without it."""

SECONDS_UNTIL_STREAM: dict[str, Callable[[float], float]] = {
    "auto": lambda keep_alive: keep_alive,
    "json": lambda keep_alive: float("inf"),
    "stream": lambda keep_alive: SOON,
}
"""By the setting `answers`: how long a request may be silent before it becomes a stream, which is then kept
alive by comments.
"""


class Waiting:
    """What is under way in one application."""

    def __init__(
        self,
        *,
        answers: str,
        keep_alive: float,
        retry_ms: int,
        max_streams: int,
        threads: int | None,
    ) -> None:
        self._answers = answers
        self._keep_alive = keep_alive
        self._silence = SECONDS_UNTIL_STREAM[answers](keep_alive)
        self._retry_ms = retry_ms
        self._max_streams = max_streams
        self._threads = threads
        self.forked()

    def forked(self) -> None:
        """Begin with nothing under way: at the start, and again in a forked child."""
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._undecided: set[HttpStream] = set()
        self._open: set[EventResponse] = set()

    @property
    def is_single(self) -> bool:
        """Whether a request takes the only thread there is, so that nothing else can come in meanwhile."""
        return self._threads == 1

    @property
    def count(self) -> int:
        """How many streams wait for their answer or are open."""
        return len(self._undecided) + len(self._open)

    def admit(self, stream: HttpStream, *, is_long: bool) -> None:
        """One more. Raises Refused where it would take the last threads."""
        with self._lock:
            if is_long and len(self._open) >= self._max_streams:
                raise Refused(
                    503, f"{self._max_streams} streams are open, which is all", [("Retry-After", "5")]
                )
            if self._threads is not None and (is_long or self._threads > 1):
                # One stays for what ends the others: answers, cancellations. Streams leave one for calls.
                reserve = 2 if is_long and self._threads != 2 else 1
                if self.count + reserve >= self._threads:
                    raise Refused(
                        503, f"{self.count} of {self._threads} threads wait", [("Retry-After", "1")]
                    )
            self._undecided.add(stream)

    def leave(self, stream: HttpStream) -> None:
        """It is over, or never began."""
        with self._lock:
            self._undecided.discard(stream)

    def answered(
        self,
        stream: HttpStream,
        environ: Json,
        *,
        gone: Callable[[HttpStream], object],
        over: Callable[[HttpStream], object],
    ) -> HttpAnswer:
        """Wait until it is clear what response a stream will be. `gone`: the client left; `over`: the end."""
        end = time.monotonic() + self._silence
        departs: Callable[[], bool] | None = None
        while not stream.wait(min(LOOK, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                break
            departs = departs or departed(environ)
            if departs():
                gone(stream)
                stream.discard()
                self._end(stream, over)
                return HttpAnswer(200, [("Content-Length", "0")], ())
        if stream.is_over:
            self._end(stream, over)
            return self.finished(stream)
        return self.streamed(stream, environ, gone=gone, over=over)

    def _end(self, stream: HttpStream, over: Callable[[HttpStream], object]) -> None:
        self.leave(stream)
        # What is kept of a stream is what was said on it. Besides, it and its context know each other.
        stream.context = stream.environ = None
        over(stream)

    def finished(self, stream: HttpStream, headers: Sequence[tuple[str, str]] = ()) -> HttpAnswer:
        """All there is to say was said: one piece."""
        problem = stream.problem
        if stream.is_cancelled and not stream.is_begun:
            return HttpAnswer(200, [*EVENTS, ("Content-Length", "0")], ())
        if not stream.answered and not stream.is_begun:
            # Not 404: that would say that the request was not begun, and may well be sent again.
            return plain(503, Refused(503, "the session, or the server, ended before the answer").body())
        status = STATUS.get(type(problem), 200) if stream.is_modern and problem is not None else 200
        if stream.is_plain and (status != 200 or not self._prefers_events(stream)):
            return plain(status, stream.whole(), *headers, *_retry_after(problem))
        body = whole(stream, self._retry_ms)
        return HttpAnswer(200, [*EVENTS, ("Content-Length", str(len(body))), *headers], (body,))

    def _prefers_events(self, stream: HttpStream) -> bool:
        """Whether an answer that could be one object goes as an event all the same."""
        return self._answers == "stream" or (self._answers == "auto" and stream.is_eager)

    def streamed(
        self,
        stream: HttpStream,
        environ: Json,
        *,
        gone: Callable[[HttpStream], object],
        over: Callable[[HttpStream], object],
        after: int | None = None,
    ) -> HttpAnswer:
        """A response that goes on for a while; with `after`, from there on."""

        def on_close(response: EventResponse) -> None:
            with self._lock:
                self._open.discard(response)
            if response.left:
                gone(stream)
            self._end(stream, over)

        response = EventResponse(
            stream,
            after=after,
            keep_alive=self._keep_alive,
            retry_ms=self._retry_ms,
            gone=departed(environ),
            on_close=on_close,
        )
        with self._lock:
            self._undecided.discard(stream)
            self._open.add(response)
        return HttpAnswer(200, EVENTS, response)

    def flush(self, seconds: float) -> bool:
        """Wait until nothing is under way; False if something still is."""
        deadline, pause = Deadline(seconds, Clock()), threading.Event()
        while self.count and deadline.left() > 0:
            pause.wait(0.01)
        return not self.count

    def fail(self, problem: Exception) -> None:
        """Nothing more will be said."""
        with self._lock:
            streams = [*self._undecided, *(response.stream for response in self._open)]
        for stream in streams:
            stream.fail(problem)


def _retry_after(problem: Any) -> list[tuple[str, str]]:
    if not isinstance(problem, TooManyRequests):
        return []
    return [("Retry-After", str(max(1, round(problem.data["retryAfterMs"] / 1000))))]


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
