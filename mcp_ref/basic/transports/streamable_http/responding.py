"""What a POST brings, and its response: the server's half of "Sending Messages" (page:
basic/transports/streamable-http).

    POST request            -> 200 application/json    the response
                            -> 200 text/event-stream   messages, the response among them
    POST notification       -> 202
    POST response (legacy)  -> 202
    what is refused         -> its status, and an error as the body

Each era has a class that says what a POST brings (`Posted`): its kind, its connection, and the stream for the
messages that are sent back. For 2026-07-28 that is `ModernEra`, for sessions sessions.LegacyEra. The thread
of the request runs the handler, which does not know whether the response will be JSON or events: it sends its
messages to an `HttpStream`.

    send(progress)      a message comes first: an event stream begins, and each message is written at once
    answer(result)      the last event, and the end: what the application returns

    answer(result)      the answer comes first: one JSON object, which the application returns

A ResponseMachine (receiving) decides which of these the response becomes. `HttpStream` is the shell around
it: the connection, the locks, and the threads that meet there.

Revisions   2025-03-26 to 2026-07-28.
Errors      ConnectionClosed for a message that comes after the end; Full if a client reads nothing;
            WriteRefused if nothing can be written before the answer.
Threads     `send`, `answer`: the thread of the request, and threads that its handler made. `_speaking` is
            held while they write, so a client that reads slowly holds them up, for as long as the WSGI
            server lets it (runtime/http_server/reply). `lock` guards the machine, and is never held during a
            write. The attendant calls `attend`, `flush_held` and `client_left`, none of which waits.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_ref.basic.index.error_responses import InvalidParams, InvalidRequest, ProtocolError
from mcp_ref.basic.index.general_fields import PROTOCOL_VERSION, InvalidMeta
from mcp_ref.basic.index.messages import Json, classify, encode, encode_error, is_id
from mcp_ref.basic.patterns.index.context import RequestContext, WayOut
from mcp_ref.basic.patterns.index.responder import IMMEDIATE
from mcp_ref.basic.transports.streamable_http import request_metadata
from mcp_ref.basic.transports.streamable_http.receiving import (
    EVENT_STREAM,
    JSON_OBJECT,
    TRANSITIONS,
    USUAL_KIND,
    WRITTEN,
    Kind,
    ResponseMachine,
    State,
)
from mcp_ref.basic.transports.streamable_http.request_metadata import STATUS
from mcp_ref.basic.transports.streamable_http.security import Refused, prefers_events
from mcp_ref.basic.versioning import MODERN_FIELDS
from mcp_ref.runtime.errors import ConnectionClosed, McpError, RequestCancelled, WriteRefused
from mcp_ref.runtime.http_server.reply import ClientLeft, HttpReply
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.outbox import Full

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.transports.streamable_http.endpoint import Application
    from mcp_ref.basic.transports.streamable_http.listening import EventReader
    from mcp_ref.basic.transports.streamable_http.resumability import Log

__all__ = ["AnswerStyle", "HttpStream", "ModernEra", "Posted", "accepted", "refusal_body", "shutting_down"]

_log = logger("mcp_ref.http")

ROOM = 4 << 20
"""Bytes of messages that may wait for the reader of a stream; beyond them, senders wait."""

STALL = 60.0
"""Seconds that a sender waits for room, at most."""

BLOCKED_SECONDS = 0.1
"""Seconds for which a thread that ends a response waits for one that writes. A write takes longer only if the
client reads nothing: then the connection is cut."""


class AnswerStyle:
    """How one application answers requests, by its options."""

    def __init__(self, answers: str, keep_alive: float, retry_ms: int, *, can_ask: bool = True) -> None:
        self.answers = answers
        self.keep_alive = keep_alive
        self.retry_ms = retry_ms
        self.silence = {"json": math.inf, "stream": 0.0}.get(answers, keep_alive)
        """Seconds for which a request may be silent before it becomes a stream, which comments keep alive."""
        self.can_ask = can_ask
        """Whether a client can answer a question while its request runs: a second thread takes that POST."""
        self.flush_soon: Callable[[HttpStream], object] | None = None
        """Has the attendant call `flush_held` soon, so that events may be held back for a moment. None if
        there is no attendant: then each event is written at once."""
        self.can_write = True
        """Whether messages can be sent before the answer: not if a middleware swallows what is written."""

    def kind_of(self, environ: Json, *, is_modern: bool, primes: bool = False, lasts: bool = False) -> Kind:
        """The kind of a response. If it `primes`, its stream begins with an event without data.

        A request that `lasts` sends its messages as events even if `answers` is "json".
        """
        likes_events = self.answers == "stream" or (
            self.answers == "auto" and prefers_events(environ.get("HTTP_ACCEPT"))
        )
        retry_ms = self.retry_ms if primes else None
        return _known_kind(is_modern, self.answers == "json" and not lasts, likes_events, retry_ms)


_known_kind = functools.lru_cache(64)(Kind)
"""Cached: there are few kinds, and to make one takes half a microsecond."""

USUAL_STYLE = AnswerStyle("auto", 15.0, 1000)


class HttpStream(WayOut):
    """Where the messages of one request go, or (GET) those of a session that belong to no request."""

    closes = True

    def __init__(
        self,
        reply: HttpReply | None = None,
        kind: Kind = USUAL_KIND,
        style: AnswerStyle = USUAL_STYLE,
        log: Log | None = None,
    ) -> None:
        """Without a `reply` it is DETACHED until a client comes. With a `log` it can be resumed."""
        self.reply = reply
        self.style, self.log = style, log
        self.context: RequestContext | None = None
        self.opened: EventReader | None = None
        """Serves the stream of a request that lasts, once its handler has returned."""
        self._owner = threading.get_ident()
        self._speaking = threading.Lock()
        self._spoke_at = time.monotonic()  # guarded by _speaking
        self.lock = threading.Lock()
        # Guarded by lock.
        begun = State.DETACHED if reply is None else State.UNDECIDED
        self.machine = ResponseMachine(kind, begun, None if log is None else log.names)
        self._changed: threading.Condition | None = None  # made by the first that waits

    # -- for senders (basic/patterns/index/context.WayOut) ---------------------------------------------

    @property
    def two_way(self) -> bool:
        """Whether the client can be asked something, and answer, while its request runs."""
        if not (self._can_speak and self.style.can_ask):
            return False
        return self.reply is None or bool(self.reply.environ.get("wsgi.multithread", True))

    @property
    def _can_speak(self) -> bool:
        """Whether messages other than the answer can be sent."""
        return self.style.can_write and not self.machine.kind.is_mute

    def begins(self, context: RequestContext) -> None:
        """Give a request that is about to run the facts of its HTTP request."""
        self.context = context
        if self.reply is not None:
            context.arrival.environ, context.principal = self.reply.environ, self.reply.principal
        if self.machine.kind.is_modern:
            context.arrival.key = self  # not its id: clients that share the Connection may use the same ids

    def send(self, line: bytes, wait: float | None = None) -> None:
        """Send a message, without the newline of `line`; drop it if only the answer can be sent.

        Raises ConnectionClosed, Full, WriteRefused.
        """
        if not self._can_speak:
            return
        is_there, machine = True, self.machine
        with self._speaking:
            with self.lock:
                if machine.state is State.RESUMED:
                    self._wait_for_room(len(line), wait)
                piece = machine.say(line)
                self.enter_log()
                self.notify()
            if piece:
                is_there = self._write(piece)
        if self.log is not None and machine.name:
            self.log.keep(self, len(line))  # not under `lock`, which it takes to drop events of this stream
        if not is_there:
            self.client_left()

    def answer(self, line: bytes, problem: McpError | None = None, wait: float | None = None) -> None:
        """Send the answer, which is the last message."""
        if problem is not None:
            # Its frames refer to the message and to this stream, and would keep both beyond the request.
            problem.__traceback__ = problem.__context__ = problem.__cause__ = None
        machine = self.machine
        with self._speaking, self.lock:
            try:
                if machine.state is State.RESUMED:
                    self._wait_for_room(len(line), wait)
                machine.answer(line, problem)
            except Full as full:  # the stream ends without its answer
                machine.fail(full)
            if machine.state is not State.JSON:
                self.enter_log()
                self.notify()
        if self.log is not None and machine.name and machine.failure is None:
            self.log.keep(self, len(line))
        # The answer to a batch comes from another thread if the last request of the batch was cancelled.
        if machine.rest and threading.get_ident() != self._owner:
            self.end_response()

    def release(self) -> bool:
        """Send the client away, to come back for the rest; the request goes on. False if that cannot be."""
        machine = self.machine
        if machine.kind.retry_ms is None or not self._can_speak:
            return False  # its stream does not begin with an id to come back with
        with self._speaking:
            if machine.state is State.UNDECIDED and not self._say_nothing():
                return False  # it has just gone, and knows no id
            before = machine.state
            if "release" not in TRANSITIONS[before]:
                return False
            reply = self.reply
            if before is State.EVENTS and reply is not None and not reply.end_early():
                return False
            with self.lock:
                if machine.state is before:  # else it is over, or the client is already back, and may stay
                    machine.release()
                    self.notify()
        return True

    def cancel(self, reason: str) -> None:
        """The request was cancelled: the stream ends without an answer.

        # spec: basic/patterns/cancellation/no-response-after-cancel
        """
        self.fail(RequestCancelled(reason))
        if self.log is not None and self.machine.is_spent:
            self.log.remove(self.machine.name)

    def fail(self, problem: BaseException) -> None:
        """End the stream without an answer. Waits for a thread that writes for BLOCKED_SECONDS at most."""
        with self.lock:
            before = self.machine.fail(problem)
            self.notify()
        if before in WRITTEN:
            self.end_response()

    def is_wanted(self) -> bool:
        """Whether the request is to run: a modern client that left has cancelled it."""
        return not (self.machine.kind.is_modern and self.machine.state is State.DETACHED)

    def reader(self) -> EventReader | None:
        """The EventReader that reads the stream now, if there is one."""
        found: EventReader | None = self.machine.reader
        return found

    # -- waiting and waking, with the lock held --------------------------------------------------------

    def _wait_for_room(self, size: int, wait: float | None) -> None:
        """Wait until the thread that reads has sent enough. Raises Full."""
        machine = self.machine

        def has_room() -> bool:
            unread = machine.unread_bytes
            return machine.state is not State.RESUMED or not unread or unread + size <= ROOM

        seconds = STALL if wait is None else min(wait, STALL)
        if not self.wait_for(has_room, seconds):
            raise Full(f"the client has read nothing for {seconds:g} s")

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition of the machine is true; False if that takes longer than `seconds`."""
        if condition():
            return True
        if self._changed is None:
            self._changed = threading.Condition(self.lock)
        return self._changed.wait_for(condition, seconds)

    def notify(self) -> None:
        """Wake the threads that wait: the machine has changed."""
        if self._changed is not None:
            self._changed.notify_all()

    def enter_log(self) -> None:
        """Enter the stream in the log, before its first event is written: a client may ask for it then."""
        if self.log is not None and self.machine.name:
            self.log.enter(self.machine.name, self)

    # -- what is written, with _speaking held ----------------------------------------------------------

    def _write(self, piece: bytes, *, at_once: bool = False) -> bool:
        """Write a piece of the stream, the first with the head, or hold it back. False if the client left.

        Raises WriteRefused if the WSGI server cannot write now: the machine is as if nothing had been sent.
        That happens once in the life of an application.
        """
        reply, self._spoke_at = self.reply, time.monotonic()
        assert reply is not None
        try:
            if not reply.is_sent:
                reply.begin(200, EVENT_STREAM)
                reply.write(piece)
            elif at_once or self.style.flush_soon is None:
                reply.write(piece)
            elif reply.write_soon(piece):
                self.style.flush_soon(self)
        except ClientLeft:
            return False
        except WriteRefused as problem:
            self._take_back(problem)
            raise
        return True

    def _take_back(self, problem: WriteRefused) -> None:
        """The first piece was refused: from now on this application sends nothing but answers, as JSON."""
        _log.error("nothing can be sent before an answer: %s; answers are JSON alone from now on", problem)
        self.style.can_write = False
        with self.lock:
            name = self.machine.name
            self.machine.refused()
        if self.log is not None:
            self.log.remove(name)

    def _say_nothing(self) -> bool:
        """Begin the stream, or show that it is alive. False if the client left."""
        with self.lock:
            piece = self.machine.silence()
            self.enter_log()
        return self._write(piece, at_once=True)

    # -- the attendant's (runtime/http_server/attendant) -----------------------------------------------

    def attend(self, now: float) -> None:
        """If nothing was sent for a while, begin the stream, or show that it is alive. Does not wait."""
        self.flush_held()
        is_undecided = self.machine.state is State.UNDECIDED
        silence = self.style.silence if is_undecided else self.style.keep_alive
        if now - self._spoke_at >= silence and self._can_speak:
            self._without_waiting(self._say_nothing)

    def flush_held(self) -> bool:
        """Write the events that were held back; False to be called again. Does not wait."""
        if self.reply is None or not self.reply.held:
            return True
        return self._without_waiting(functools.partial(self._write, b"", at_once=True))

    def _without_waiting(self, write: Callable[[], bool]) -> bool:
        """Call `write`, or leave it for later if the client reads slowly. False if a thread writes now."""
        reply = self.reply
        if reply is None or not reply.takes_at_once():
            return True
        if not self._speaking.acquire(blocking=False):
            return False
        is_there = True
        try:
            if self.machine.state in WRITTEN:
                is_there = write()
        except (ConnectionClosed, WriteRefused):
            pass  # it ended just now; or nothing can be said, and that is logged
        finally:
            self._speaking.release()
        if not is_there:
            self.client_left()
        return True

    def client_left(self, reader: EventReader | None = None) -> None:
        """The connection of the request is gone, or that of its `reader`. Any thread.

        # spec: basic/patterns/cancellation/http-disconnect-cancels
        # spec: basic/transports/streamable-http/cancel-on-disconnect
        # spec: basic/transports/streamable-http/cancel-stops-work
        # spec: basic/transports/streamable-http/cancel-silences
        """
        machine = self.machine
        with self.lock:
            if machine.reader is not reader or (reader is None and machine.state not in WRITTEN):
                return
            cancels = machine.client_left()
            self.notify()
        context = self.context  # read now: a request that begins later looks whether it is still wanted
        if cancels and context is not None:
            context.connection.responder.cancel(context, "the client closed the stream")

    # -- the end of the response -----------------------------------------------------------------------

    def finish(self) -> Iterable[bytes]:
        """Return what is still to be sent, after the handler has returned, on the thread of the request.

        # spec: basic/transports/streamable-http/request-json-or-sse
        """
        machine = self.machine
        with self._speaking:
            reply, reader, refusal = self.reply, machine.reader, None
            opened, self.opened = self.opened, None
            if reader is not None and reader.reply is reply:
                refusal = machine.refusal()
                if refusal is None:  # the stream of a request that lasts
                    body: Iterable[bytes] = reader.begin()
                    return body
                reader.close()
            elif opened is not None:
                opened.close()  # its client left before the stream began
            self.reply = self.context = None  # a stream that stays in the log needs only its events
            if reply is None:  # another thread has sent it all
                return ()
            if refusal is not None:
                return reply.whole(*refusal)
            if machine.state is State.JSON and machine.problem is None:
                return reply.whole(200, machine.rest, (JSON_OBJECT,))
            with self.lock:
                if machine.state in WRITTEN:  # it was never answered: its session, or the server, has ended
                    machine.fail(ConnectionClosed("the connection has ended"))
            return self._remaining(reply)

    def _remaining(self, reply: HttpReply) -> Iterable[bytes]:
        """What is still to be sent; the whole response if nothing was sent yet. With _speaking held."""
        if reply.is_sent:
            body: Iterable[bytes] = tuple(filter(None, (reply.take_held() + self.machine.rest,)))
        else:
            body = reply.whole(*self.machine.whole())
        self.machine.rest = b""
        return body

    def end_response(self) -> None:
        """End the response although the handler still runs. Any thread but that of the request."""
        reply = self.reply
        if reply is None:
            return
        if not self._speaking.acquire(timeout=BLOCKED_SECONDS):
            reply.cut()
            return
        rest = self.machine.rest
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
            self.reply, self.machine.rest = reply, rest  # it is sent once the handler returns
        finally:
            self._speaking.release()


# ----------------------------------------------------------------------- what a POST brings


class Posted(NamedTuple):
    """What a POST brings to the endpoint."""

    kind: str
    """request, batch, notification, response; "quick": a request that does not wait for its turn;
    "answered": an initialize that has its answer already."""
    connection: Connection
    stream: HttpStream | None
    """Where messages to its client go; None if there will be none."""


def accepted(reply: HttpReply) -> Iterable[bytes]:
    """The response to a POST that holds no request: 202.

    # spec: basic/transports/streamable-http/notification-202
    """
    return reply.whole(202, b"", ())


def refusal_body(
    reply: HttpReply, problem: Refused | ProtocolError, message: Any = None, *, is_modern: bool = False
) -> Iterable[bytes]:
    """The response to a refused POST: an error with the id of the request, if that can be read.

    # spec: basic/transports/streamable-http/rejected-input-status
    # spec: basic/transports/streamable-http/rejected-input-body
    """
    if isinstance(problem, Refused):
        return reply.whole(problem.status, problem.body(), [JSON_OBJECT, *problem.headers])
    status = STATUS.get(type(problem), 400) if is_modern else 400
    request_id = message.get("id") if type(message) is dict else None
    if is_id(request_id):
        return reply.whole(status, encode_error(request_id, problem), [JSON_OBJECT])
    return reply.whole(status, encode({"jsonrpc": "2.0", "error": problem.to_wire()}), [JSON_OBJECT])


def shutting_down() -> Refused:
    """The refusal of a request that comes while the server shuts down."""
    return Refused(503, "The server is shutting down; retry in 5 s.", [("Retry-After", "5")])


MANY_NOTICES = Limit(rate=1e6, burst=1_000_000)
"""Limit on notifications to all modern clients together; each client is bounded by how quickly it reads."""


class ModernEra:
    """What an application does for clients of 2026-07-28: each request brings its own context.

    # spec: basic/transports/streamable-http/ignore-session-id
    # spec: basic/transports/streamable-http/ignore-last-event-id
    # spec: basic/transports/streamable-http/no-resumption
    """

    over = staticmethod(shutting_down)

    def __init__(self, app: Application) -> None:
        self._app = app
        self.connection: Connection
        """The connection of all modern requests: what differs between their clients is in each `_meta`."""

    def begin(self) -> None:
        """Attach the connection, with the first request in this process."""
        server = self._app.server
        mute, notices = HttpStream(None, Kind(is_mute=True)), server.options.notices
        self.connection = server.attach_shared(mute, None, notices=notices or MANY_NOTICES)

    def take(self, reply: HttpReply, message: Any) -> Posted:
        """Take a request or a notification (step 5). Raises ProtocolError, Refused, NoPlace."""
        app = self._app
        if type(message) is list:
            raise InvalidRequest("a batch; only 2025-03-26 has batches")
        kind = classify(message)
        if kind == "response":  # spec: basic/transports/streamable-http/client-no-responses
            raise InvalidRequest("in 2026-07-28 a client sends requests and notifications, no responses")
        if not app.server.versions.modern:
            raise InvalidRequest(
                f"this server speaks {', '.join(app.server.versions.supported)}: send initialize"
            )
        self._check_headers(reply.environ, message, kind)
        if kind == "notification":
            return Posted(kind, self.connection, None)
        # Each request has a stream of its own, for the messages that belong to it and for no others.
        # spec: basic/transports/streamable-http/sse-request-notifications
        # spec: basic/transports/streamable-http/sse-notifications-related
        # spec: basic/transports/streamable-http/listen-no-request-scoped
        method = message["method"]
        lasts = method == "subscriptions/listen"
        form = app.style.kind_of(reply.environ, is_modern=True, lasts=lasts)
        stream = HttpStream(reply, form, app.style)
        if lasts:
            stream.opened = app.open_reader(stream, reply)
        return Posted("quick" if lasts or method in IMMEDIATE else kind, self.connection, stream)

    def _check_headers(self, environ: Json, message: Json, kind: str) -> None:
        """Raise ProtocolError if `_meta` lacks its required fields, or a header differs from the body."""
        params = message.get("params", {})
        meta = params.get("_meta") if type(params) is dict else None
        if type(meta) is not dict or MODERN_FIELDS.isdisjoint(meta):
            if kind == "notification":
                return  # no page says which headers and which _meta a notification has
            if type(params) is not dict:
                raise InvalidParams(f"{message['method'][:80]}: params must be an object")
            before = "; before 2026-07-28 initialize comes first, and then the Mcp-Session-Id that it gives"
            raise InvalidMeta(
                "params._meta: io.modelcontextprotocol/protocolVersion is missing"
                f"{before if self._app.legacy.dates else ''}"
            )
        version = meta.get(PROTOCOL_VERSION)
        if type(version) is str:  # else the door, which checks `_meta`, says what is wrong
            paths = request_metadata.mirrored(self._app.server.tools, message)
            request_metadata.check(request_metadata.header_of(environ), message, version, paths)
