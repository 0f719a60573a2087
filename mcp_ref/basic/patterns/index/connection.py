"""Request and response (page: basic/patterns/index), for both roles.

A `Connection` is one peer, seen from the other: it sends what we ask and delivers the answers, and
it receives what the peer asks and sends our answers. Client and server are both an `Endpoint`
behind such a connection; only what they answer differs.

    peer asks   stream -> receive -> start -> (worker) _run -> Endpoint.answer -> handler
    we ask      see basic/patterns/index/requester, the other half of this page

Revisions   2024-11-05  either side asks the other
            2025-03-26  + batches; the answers to a batch travel as a batch
            2025-06-18  - batches
            2026-07-28  only clients ask (see Context.request and Answering.answer)

Threads     reader      one a connection: runs `receive` and nothing slow. It answers `ping`,
                        `initialize` and `server/discover` itself, unless that would run functions of the
                        author's; it delivers responses and sets flags of cancellation.
            worker      one a request, from start to end; may block as long as it likes
            Writing is no thread but a lock (runtime/threads/outbox). `serving` is a plain dict: the thread
            that takes an entry out owns its end, and that decides every race (with a lock, since an id may
            come again).

Shutdown    `end`: 1 every waiting call fails with the reason  2 every running request is flagged as
            cancelled  3 no more jobs; workers are joined, for a while  4 the outbox is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.batching import Batch, check_batch, wants_answer
from mcp_ref.basic.index.error_responses import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    ParseError,
    ProtocolError,
    TooManyRequests,
)
from mcp_ref.basic.index.messages import (
    Json,
    RequestId,
    begins,
    classify,
    decode,
    encode_error,
    encode_result,
    encode_unaddressed_error,
    is_broken_response,
    is_id,
    lacks_method,
    readable_id,
)
from mcp_ref.basic.lifecycle import Session
from mcp_ref.basic.patterns import cancellation, progress
from mcp_ref.basic.patterns.index.context import RequestContext, WayOut
from mcp_ref.basic.patterns.index.requester import Requester
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, RequestCancelled
from mcp_ref.runtime.json_text import Encoded, weight
from mcp_ref.runtime.limits import Limit, Limiter
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Deadline
from mcp_ref.runtime.threads.workers import QueueFull, Workers

if TYPE_CHECKING:
    from mcp_ref.basic.utilities.ping import Heartbeat

__all__ = ["DEFERRED", "Connection", "Deferred", "Endpoint"]

_log = logger("mcp_ref.connection")

IMMEDIATE = frozenset({"ping", "initialize", "server/discover"})
"""Answered by the reader itself, in the order in which they came: they are quick, and what a client does
next depends on the outcome. Where the author's own functions would run for one, `Endpoint.is_immediate` says
no, and a worker answers it."""

TO_THE_LAST = 10.0
"""Seconds that a peer gets to take the last answers."""

USUAL = Limit()


class Deferred:
    """Instead of a result: it comes later, by `Connection.complete`, and no thread waits for it."""


DEFERRED = Deferred()


class Endpoint(Protocol):
    """What a connection asks of the client or the server that owns it."""

    @property
    def context_type(self) -> type[RequestContext]:
        """What its handlers get."""

    def answer(self, context: RequestContext) -> Json | Encoded | Deferred:
        """The result of a request; raises ProtocolError. Runs on a worker (IMMEDIATE: the reader)."""

    def is_immediate(self, context: RequestContext) -> bool:
        """Whether the reader may answer a request of IMMEDIATE: no function of the author's runs for it."""

    def is_quick(self, context: RequestContext) -> bool:
        """Whether a request can neither speak before its answer nor, as far as is known, take long."""

    def notice(self, connection: Connection, method: str, params: Json, size: int) -> None:
        """A notification arrived, of so many bytes. Runs on the reader: hand it on, do nothing slow."""


class Connection(Requester):
    """One peer: what we ask of it (basic/patterns/index/requester), and here what it asks of us."""

    def __init__(
        self,
        endpoint: Endpoint,
        outbox: WayOut,
        *,
        workers: Workers,
        shared: bool = False,
        timeout: float = 30.0,
        max_timeout: float | None = None,
        limit: Limit | None = None,
        notices: Limit | None = None,
    ) -> None:
        """`shared` workers belong to others as well, and do not end with this connection."""
        super().__init__(outbox, timeout=timeout, max_timeout=max_timeout)
        self.endpoint = endpoint
        self.workers = workers
        self._shared = shared
        self.session = Session()
        self.limiter = Limiter(limit or USUAL)
        self._notices = Limiter(notices or USUAL)
        self.serving: dict[Hashable, RequestContext] = {}
        self._ending = threading.Lock()  # makes "is it still this one? then take it out" one step
        self.answers = True
        """False on a client of the modern era, which sends no responses at all."""
        self.heartbeat: Heartbeat | None = None
        """What pings the peer now and then, if that was asked for (basic/utilities/ping)."""
        self.listener: Callable[[], object | None] = _itself
        """What would bring a request of ours to the peer just now; None if nothing would."""
        self.lose: Callable[[str], object] | None = None
        """How its transport gives it up, for a reason, where that is more than its end."""

    def may_notify(self) -> bool:
        """Whether one more notification stays within what a peer can be expected to take."""
        if self._notices.enter():
            return False
        self._notices.leave()
        return True

    # -- what the peer sends -------------------------------------------------------------

    def receive(self, line: bytes) -> None:
        """One line from the peer. Runs on the reader; never raises, whatever the line holds."""
        try:
            message = decode(line)
            if type(message) is list:  # spec: basic/transports/stdio/batch-per-line
                self.receive_batch(message, self.outbox, weight(line))
            else:
                self.route(message, self.outbox, size=weight(line))
        except ParseError as problem:
            self.refuse(None, problem, self.outbox)
        except ReferenceError:
            _log.debug("ignored what a client that was dropped received")
        except Exception:  # a fault of ours must not be the end of all other requests
            _log.exception("a message could not be handled: %.200r", line)

    def too_long(self, size: int, beginning: bytes) -> None:
        """A line that was too long to be read; of its beginning we know, at best, what it was."""
        said = f"a message of {size} bytes is longer than this side reads"
        kind, message_id = begins(beginning)
        call = self.waiting.pop(message_id, None) if kind == "response" and is_id(message_id) else None
        if call is not None:
            call.finish(InvalidResponse(f"{call.method}: {said}"))
        elif kind == "request":
            self.refuse(message_id, InvalidRequest(said), self.outbox)

    def route(self, message: Any, outbox: WayOut, batch: Batch | None = None, size: int = 0) -> None:
        """One message; what is said to a request goes out by `outbox`. Runs on the reader.

        `size` is its weight in bytes, where what waits is not weighed elsewhere.
        """
        try:
            kind = classify(message)
        except InvalidRequest as problem:
            self._route_none(message, problem, outbox, batch)
            return
        if kind == "request":
            self.start(message, outbox, batch, size)
        elif kind == "response":
            self.deliver(message)
        else:
            self._notice(message, size)

    def _route_none(self, message: Any, problem: InvalidRequest, outbox: WayOut, batch: Batch | None) -> None:
        """What is no message. With a result or an error it was to be a response, which is never answered.

        With an id alone it is a response, too, if something waits under that id. If nothing does, it is a
        request that lacks its method, and is answered under its id, as JSON-RPC has it.
        """
        if is_broken_response(message):
            self.deliver_none(message["id"], problem)
        elif lacks_method(message) and is_id(message["id"]) and message["id"] in self.waiting:
            self.deliver_none(message["id"], problem)
            if batch is not None:
                batch.add(None)
        else:
            self.refuse(readable_id(message), problem, outbox, batch)

    def start(self, message: Json, outbox: WayOut, batch: Batch | None = None, size: int = 0) -> None:
        """A request: have a worker run it."""
        if not self.answers:  # spec: basic/transports/index/binding-directions
            _log.warning("ignored %.80r: in this revision a server sends no requests", message["method"])
            return
        request_id, method = message["id"], message["method"]
        try:
            context = self._admit(message, outbox, batch)
            if method in IMMEDIATE and self.endpoint.is_immediate(context):
                self._run(context, is_reader=True)
            elif outbox.waits and self.endpoint.is_quick(context) and self.workers.enter():
                self._run_here(context)
            # spec: basic/index/interleaved-conversations
            elif not self.workers.submit(self._run, context, size=size):
                self._take_off(context)
                raise TooManyRequests("this server is going", 5.0)
        except QueueFull:
            self._take_off(context)
            waiting, held = self.workers.waiting, self.workers.waiting_bytes
            full = TooManyRequests(f"{waiting} requests are waiting, with {held} bytes", 0.1)
            self.refuse(request_id, full, outbox, batch)
        except ProtocolError as problem:
            self.refuse(request_id, problem, outbox, batch)

    def _admit(self, message: Json, outbox: WayOut, batch: Batch | None) -> RequestContext:
        """The context of a request, which is served from now on. Raises InvalidParams, InvalidRequest."""
        request_id, method, params = message["id"], message["method"], message.get("params", {})
        if type(params) is not dict:
            raise InvalidParams(f"{method[:80]}: params must be an object")
        context = self.endpoint.context_type(self, request_id, method, params, outbox)
        context.arrival.batch = batch
        outbox.begins(context)
        if self.serving.setdefault(context.arrival.key, context) is not context:
            raise InvalidRequest(f"the id {request_id!r:.80} is in use by a request that still runs")
        return context

    def _run_here(self, context: RequestContext) -> None:
        """On this thread, which would only wait for the worker; it counts as one while it runs."""
        try:
            self._run(context)
        finally:
            self.workers.leave()

    def _run(self, context: RequestContext, is_reader: bool = False) -> None:
        """Run one request and send its answer: the one place where exceptions become errors."""
        if context.cancellation.requested:
            return
        error: ProtocolError | None = None
        try:
            result = self.endpoint.answer(context)
            self._end_if_forked()
            if isinstance(result, Deferred):
                return
            line = encode_result(context.request_id, result)
        except ProtocolError as problem:
            error, line = problem, encode_error(context.request_id, problem)
        except (RequestCancelled, ConnectionClosed) as problem:
            _log.debug("%s: %s", context.method, problem)
            line = encode_error(context.request_id, InternalError(f"{context.method} was given up"))
        except BaseException as problem:
            self._end_if_forked(problem)
            if isinstance(problem, KeyboardInterrupt) and is_reader:
                raise  # not the request's: a signal for the thread that reads
            # spec: server/tools/server-errors-are-protocol-errors
            _log.exception("%s failed", context.method)
            line = encode_error(context.request_id, InternalError(f"{context.method} failed"))
        self._end_if_forked(error)
        self._answer(context, line, error)

    def _end_if_forked(self, problem: BaseException | None = None) -> None:
        """A handler came back in a forked child: the request is the parent's to answer, so the child ends."""
        if self.is_inherited:
            forks.end_child(problem)

    def _answer(
        self,
        context: RequestContext,
        line: bytes,
        error: ProtocolError | None = None,
        wait: float | None = None,
    ) -> None:
        # A request that was cancelled is no longer in the table: its answer is dropped.
        # spec: basic/patterns/cancellation/no-response-after-cancel
        with context.reports.speaking:  # what another thread of the tool is saying gets out before
            taken = self._take_off(context)
        if taken:
            self._send_answer(line, context.arrival.outbox, context.arrival.batch, error, wait)

    def complete(self, context: RequestContext, result: Json, *, wait: float) -> None:
        """The answer to a request whose handler deferred it. Any thread; once.

        It is dropped if there is no room for it within so many seconds.
        """
        self._answer(context, encode_result(context.request_id, result), wait=wait)

    def _take_off(self, context: RequestContext) -> bool:
        """No longer serve a request; False if its end came before. Its id may be another's by now."""
        with self._ending:  # spec: basic/patterns/cancellation/race-handling
            if self.serving.get(context.arrival.key) is not context:
                return False
            del self.serving[context.arrival.key]
            return True

    def _send_answer(
        self,
        line: bytes,
        outbox: WayOut,
        batch: Batch | None,
        error: ProtocolError | None = None,
        wait: float | None = None,
    ) -> None:
        try:
            if batch is not None:
                batch.add(line)
            else:
                outbox.answer(line, error, wait)
        except ConnectionClosed as problem:
            _log.debug("the peer has gone, and an answer is dropped: %s", problem)

    def refuse(
        self,
        request_id: RequestId | None,
        problem: ProtocolError,
        outbox: WayOut,
        batch: Batch | None = None,
    ) -> None:
        """Answer with an error, also where the id could not be read."""
        _log.debug("refused: %s", problem)
        if not self.answers:  # spec: basic/patterns/index/client-sends-no-responses
            _log.warning("ignored what the server sent: %s", problem)
            return
        if request_id is not None:
            line = encode_error(request_id, problem)
        else:
            has_null = self.session.is_open and self.session.revision.unreadable_id == "null"
            line = encode_unaddressed_error(problem, has_null=has_null)
        self._send_answer(line, outbox, batch, problem)

    def cancel_serving(self, request_id: RequestId, reason: str | None) -> bool:
        """The peer no longer wants an answer; False if there is no such request any more."""
        context = self.serving.get(request_id)
        if context is None or type(context.request_id) is not type(request_id):
            return False
        return self.give_up(context, reason)

    def give_up(self, context: RequestContext, reason: str | None) -> bool:
        """Stop a request; nothing is answered. False if its end came before."""
        if not self._take_off(context):
            return False
        context.cancel(reason)
        if context.arrival.batch is None:
            context.arrival.outbox.abandon(reason or "the request was cancelled")
        else:
            context.arrival.batch.add(None)
        return True

    def _notice(self, message: Json, size: int) -> None:
        """A notification. It is never answered, not even a wrong one."""
        # spec: basic/index/notification-no-response
        method, params = message["method"], message.get("params", {})
        if type(params) is not dict:
            _log.info("ignored %.80r: its params are not an object", method)
        elif method == "notifications/cancelled":
            cancellation.on_cancelled(self, params)
        elif method == "notifications/progress":
            progress.on_progress(self, params)
        else:
            self.endpoint.notice(self, method, params, size)

    def receive_batch(self, messages: list[Any], outbox: WayOut, size: int = 0) -> None:
        """A batch of so many bytes; its answers go out by `outbox`, as one. Runs on the reader."""
        try:
            check_batch(messages, is_known=self.session.is_open and self.session.revision.batches)
        except InvalidRequest as problem:
            self.refuse(None, problem, outbox)
            return
        batch = Batch(outbox, sum(1 for m in messages if wants_answer(m)))
        for message in messages:
            if type(message) is dict and message.get("method") == "initialize":
                # spec: basic/lifecycle/init-not-in-batch
                self.refuse(readable_id(message), InvalidRequest("initialize in a batch"), outbox, batch)
            else:
                self.route(message, outbox, batch, size // len(messages))

    # -- the end -----------------------------------------------------------------------------

    def forked(self) -> None:
        """In a forked child: what runs here is answered by the parent, and only there."""
        super().forked()
        self._ending = threading.Lock()
        for context in self.serving.values():
            context.reports.speaking = threading.Lock()
        self.serving.clear()  # so that nothing more is said of these requests
        for limiter in (self.limiter, self._notices):
            limiter.forked()

    def drain(self, seconds: float) -> None:
        """Give running requests a while to finish and their answers a way out."""
        deadline = Deadline(seconds, self.clock)
        pause = threading.Event()
        while self.serving and deadline.left() > 0:
            pause.wait(0.005)
        self.outbox.settle(TO_THE_LAST)

    def end(self, reason: str, *, wait: float = 0.5) -> None:
        """The connection is over: the steps of the module's docstring. May be called twice."""
        if self.is_inherited:
            return
        failure = self.fail(reason)
        if self.heartbeat is not None:
            self.heartbeat.stop()
        for context in list(self.serving.values()):
            if self._take_off(context):
                context.cancel(reason)
        if not self._shared and not self.workers.close(wait):
            _log.info("a request still runs after the connection ended")
        self.outbox.fail(failure)


def _itself() -> object:
    """A pipe brings what is written to it, as long as there is one."""
    return Connection
