"""The streams of Streamable HTTP (page: basic/transports/streamable-http): a response that is decided late.

A POST with a request is answered with one JSON object if the answer is all there is to say, and with
server-sent events if anything else is said before it. Who works on the request does not know which:
it has an `HttpStream`, where messages go, and which the thread of the HTTP connection turns into a response.

    worker                          thread of the connection
    send(progress)  ->  HttpStream  ->  first a message: headers of an event stream, then events as they come
    answer(result)  ->              ->  last event, end
    answer(result)  ->              ->  first the answer: one JSON object

A stream may outlive connections: in sessions of the legacy era its events have ids and are kept for a
while (basic/transports/streamable_http/log), and a client that was cut off, or sent away by `let_go`,
resumes it with
GET and Last-Event-ID. Nothing of one stream is ever sent on another.
# spec: basic/transports/streamable-http/no-cross-stream-replay

Revisions   2025-03-26 to 2025-11-25: resumption; 2025-11-25: a priming event, and polling (`let_go`).
            2026-07-28: no ids; when the connection closes, the request is cancelled.
Threads     `send`, `answer`: any thread, one at a time under `_lock`; they wait when the client reads slower
            than it is written to. An `EventResponse` is the connection's thread alone.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_ref.basic.transports.streamable_http.log import OVERHEAD
from mcp_ref.runtime.errors import ConnectionClosed, McpError
from mcp_ref.runtime.threads.outbox import Full

if TYPE_CHECKING:
    from mcp_ref.basic.index.messages import Json
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.transports.streamable_http.log import Log
    from mcp_ref.basic.transports.streamable_http.responses import EventResponse

__all__ = ["HttpStream"]

ROOM = 4 << 20
"""Bytes that may wait for a client that reads slowly; then whoever has more to say waits."""

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
        self.is_abandoned = False
        self._failure: BaseException | None = None
        # What the connection's thread sleeps on: released when there is something to see.
        self._wakes = threading.Lock()
        self._wakes.acquire()

    # -- whoever has something to say (runtime/threads/outbox.WayOut) ----------------------------------

    @property
    def is_busy(self) -> bool:
        """Nobody here waits for another who writes."""
        return False

    def begins(self, context: RequestContext) -> None:
        """Its request is about to run."""
        self.context = context
        context.environ, context.principal = self.environ, self.principal
        if self.is_modern:
            context.key = self

    def send(self, line: bytes, wait: float | None = None) -> None:
        """One message; its end of line is not part of it."""
        if self._mute:
            return
        with self._lock:
            kept = self._put(line, wait)
        self._told(line, kept)

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """The last message.  # spec: basic/transports/streamable-http/sse-terminates-after-response"""
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
            except ConnectionClosed as failure:  # nobody reads: then the stream ends without an answer
                self._failure = self._failure or failure
            self.answered = True
        self._told(line, kept)

    def let_go(self) -> bool:
        """Have the client leave and come back, if it can: the stream goes on.

        # spec: basic/transports/streamable-http/sse-close-connection
        # spec: basic/transports/streamable-http/sse-no-early-close
        """
        if self._mute or not (self.primes and self.log is not None):
            return False
        self.released = True
        self.wake()
        return True

    def abandon(self, reason: str) -> None:
        """The request was cancelled: the stream ends without an answer.

        # spec: basic/patterns/cancellation/no-response-after-cancel
        """
        self.is_abandoned = True
        self.fail(ConnectionClosed(reason))
        if self.log is not None:
            self.log.dismiss(self)

    def settle(self, seconds: float) -> bool:
        """Wait until the client was sent everything; False if it is not in time."""
        with self._lock:
            return self._wait_for(lambda: not self._size or not self._is_wanted, seconds)

    def fail(self, problem: BaseException) -> None:
        """Nothing will come any more."""
        with self._lock:
            self._failure = self._failure or problem
            self._freed()
        self.wake()

    def _put(self, line: bytes, wait: float | None) -> bool:
        """Add an event; whether the log is to know of it. Holds _lock."""
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
        """Holds _lock."""
        if self._events is NONE:
            self._events = deque()
        self._events.append(line)
        self._size += len(line)

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Until the client has been sent something, or is gone, and the condition holds. Holds _lock."""
        if self._room is None:
            self._room = threading.Condition(self._lock)
        return self._room.wait_for(condition, seconds)

    def _freed(self) -> None:
        """There is more room, or nobody to need it. Holds _lock."""
        if self._room is not None:
            self._room.notify_all()

    def _has_room(self, size: int) -> bool:
        """Holds _lock."""
        fits = not self._size or self._size + size <= ROOM
        return fits or not self._is_wanted or self._failure is not None

    @property
    def _is_wanted(self) -> bool:
        """Whether there is a connection for what is said. Holds _lock."""
        return self._awaited or self._reader is not None

    def _register(self) -> None:
        """From here on this is a stream of events. Holds _lock."""
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
        """Whether there is an event, `but` so many, that nobody has yet to be sent."""
        with self._lock:
            return self._is_forgettable(but)

    def _is_forgettable(self, but: int) -> bool:
        """Holds _lock."""
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
        """From now on this response has the events, those after a number first, and no other has them."""
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
        """Its connection is gone. What is not kept for another is of no use any more."""
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
        """Holds _lock."""
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
