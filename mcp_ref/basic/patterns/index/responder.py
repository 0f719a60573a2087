"""Request and response (page: basic/patterns/index): the responder's half, for both roles.

    peer asks   Connection.route -> start -> _run -> Endpoint.answer -> handler
                handler -> _run -> _answer -> outbox

On a pipe one thread reads all messages, and `start` hands a request to a worker. Over HTTP each request has
a thread already, and runs there: `start` returns when it is answered.

Revisions   2024-11-05  either side answers requests
            2026-07-28  only servers answer requests (see `is_mute`)

Threads     reader      runs `start`, `cancel`, `refuse` and nothing slow. It answers `ping`, `initialize` and
                        `server/discover` itself, unless that would run functions of the author's
            worker, or over HTTP the thread of the request: one per request, from start to end; may block as
                        long as it likes
            `serving` is a dict: the thread that removes a request from it is the one that answers or cancels
            it, which decides every race between the two. Removing takes a lock, `_ending`: the peer may use
            an id again, so "is it still this request?" and "then remove it" must be one step.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.batching import Batch
from mcp_ref.basic.index.error_responses import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    ProtocolError,
    TooManyRequests,
)
from mcp_ref.basic.index.messages import (
    Json,
    RequestId,
    encode_error,
    encode_result,
    encode_unaddressed_error,
)
from mcp_ref.basic.lifecycle import Session
from mcp_ref.basic.patterns.index.context import RequestContext, WayOut
from mcp_ref.runtime.errors import ConnectionClosed, RequestCancelled
from mcp_ref.runtime.json_text import Encoded
from mcp_ref.runtime.limits import Limit, Limiter
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.workers import QueueFull, Workers

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection

__all__ = ["DEFERRED", "Deferred", "Endpoint", "Responder"]

_log = logger("mcp_ref.connection")

IMMEDIATE = frozenset({"ping", "initialize", "server/discover"})
"""Methods that the reader itself answers, in the order in which they came: they are quick, and what a client
does next depends on the outcome. Where functions of the author's would run, `Endpoint.is_immediate` returns
False, and a worker answers the request."""


class Deferred:
    """Returned instead of a result that comes later, by `Responder.complete`. No thread waits for it."""


DEFERRED = Deferred()


class Endpoint(Protocol):
    """What a connection needs of the client or the server that owns it."""

    @property
    def context_type(self) -> type[RequestContext]:
        """The class of the context that its handlers get."""

    def answer(self, context: RequestContext) -> Json | Encoded | Deferred:
        """The result of a request. Raises ProtocolError.

        Runs on a worker, or over HTTP on the thread of the request; for a request of IMMEDIATE on the reader.
        """

    def is_immediate(self, context: RequestContext) -> bool:
        """Whether the reader may answer a request of IMMEDIATE: no function of the author's would run."""

    def notice(self, connection: Connection, method: str, params: Json, size: int) -> None:
        """Handle a notification, of `size` bytes. Runs on the reader: hand it on, do nothing slow."""


class Responder:
    """The requests that one peer sends, from their arrival to their answers."""

    def __init__(
        self,
        endpoint: Endpoint,
        session: Session,
        workers: Workers | None,
        *,
        shared: bool,
        limit: Limit | None,
        notices: Limit | None,
    ) -> None:
        """`shared`: the workers serve other connections too, and are not closed with this one. Without
        workers a request runs on the thread that brings it. `limit` and `notices`: see Connection.
        """
        self.endpoint = endpoint
        self.session = session
        self.workers = workers
        self.is_shared = shared
        self.limiter = Limiter(limit or Limit())
        self._notices = Limiter(notices or Limit())
        self.serving: dict[Hashable, RequestContext] = {}
        self.answering = 0
        """How many answers are just being sent: `Connection.drain` waits for these, too."""
        # Makes "is it still this request? then remove it" one step. Guards `answering`, too.
        self._ending = threading.Lock()
        self.is_mute = False
        """True on a client of the modern era, which sends no responses at all."""
        self.answers_unreadable = True
        """Whether a message whose id cannot be read is answered, with an error for no particular request.
        False on a client of Streamable HTTP, which would have to POST that error as a message of its own."""

    def serves(self, context: RequestContext) -> bool:
        """Whether a request is neither answered nor cancelled yet. A task goes on after its answer."""
        return self.serving.get(context.arrival.key) is context

    def may_notify(self) -> bool:
        """Whether one more notification may be sent within the limit of the connection. Counts it."""
        return not self._notices.take()

    def start(
        self,
        connection: Connection,
        message: Json,
        outbox: WayOut,
        batch: Batch | None = None,
        size: int = 0,
    ) -> None:
        """Take a request: have a worker run it, or run it here.

        The connection is passed in, not stored: a reference cycle of the two would outlive a dropped client.
        """
        if self.is_mute:  # spec: basic/transports/index/binding-directions
            _log.warning("ignored %.80r: in this revision a server sends no requests", message["method"])
            return
        request_id, method = message["id"], message["method"]
        try:
            context = self._admit(connection, message, outbox, batch)
            if self.workers is None:
                self._run(context)
            elif method in IMMEDIATE and self.endpoint.is_immediate(context):
                self._run(context, is_reader=True)
            # spec: basic/index/interleaved-conversations
            elif not self.workers.submit(self._run, context, size=size):
                self._take_off(context)
                raise TooManyRequests("The server is shutting down; retry in 5 s.", 5.0)
        except QueueFull as full:
            self._take_off(context)
            self.refuse(request_id, TooManyRequests(str(full), 0.1), outbox, batch)
        except ProtocolError as problem:
            self.refuse(request_id, problem, outbox, batch)

    def _admit(
        self, connection: Connection, message: Json, outbox: WayOut, batch: Batch | None
    ) -> RequestContext:
        """Make the context of a request, and enter it in `serving`. Raises InvalidParams, InvalidRequest."""
        request_id, method, params = message["id"], message["method"], message.get("params", {})
        if type(params) is not dict:
            raise InvalidParams(f"{method[:80]}: params must be an object")
        context = self.endpoint.context_type(connection, request_id, method, params, outbox)
        context.arrival.batch = batch
        if outbox.begins is not None:
            outbox.begins(context)
        if self.serving.setdefault(context.arrival.key, context) is not context:
            raise InvalidRequest(f"the id {request_id!r:.80} is in use by a request that still runs")
        if outbox.begins is not None and not outbox.is_wanted():
            self.cancel(context, "the client closed the stream")  # when there was no request to cancel yet
        return context

    def submit(
        self, run: Callable[[Any], object], argument: Any, *, size: int = 0, always: bool = False
    ) -> bool:
        """Run a function that may take a while: on a worker (see `Workers.submit`), or here without workers.

        False if the workers are closed.
        """
        if self.workers is not None:
            return self.workers.submit(run, argument, size=size, always=always)
        try:
            run(argument)
        except Exception:
            _log.exception("a function of the application failed")
        return True

    def _run(self, context: RequestContext, is_reader: bool = False) -> None:
        """Run one request and send its answer: the one place where exceptions become errors.

        A handler that forked may return in the child. The parent answers the request, so the child ends here.
        """
        if context.cancellation.requested:
            return
        error: ProtocolError | None = None
        try:
            result = self.endpoint.answer(context)
            line = b"" if isinstance(result, Deferred) else encode_result(context.request_id, result)
        except ProtocolError as problem:
            error, line = problem, encode_error(context.request_id, problem)
        except BaseException as problem:
            line = self._failed(context, problem, is_reader)
        if context.connection.is_inherited:
            forks.end_child(error)
        if line:
            self._answer(context, line, error)

    def _failed(self, context: RequestContext, problem: BaseException, is_reader: bool) -> bytes:
        """The answer to a request whose handler raised something other than a ProtocolError."""
        if isinstance(problem, RequestCancelled | ConnectionClosed):
            _log.debug("%s: %s", context.method, problem)
            return encode_error(context.request_id, InternalError(f"{context.method} was given up"))
        if context.connection.is_inherited:
            forks.end_child(problem)
        if isinstance(problem, KeyboardInterrupt) and is_reader:
            raise problem  # Ctrl-C is not about this request: it is for the thread that reads
        # spec: server/tools/server-errors-are-protocol-errors
        _log.error("%s failed", context.method, exc_info=problem)
        return encode_error(context.request_id, InternalError(f"{context.method} failed"))

    def _answer(
        self,
        context: RequestContext,
        line: bytes,
        error: ProtocolError | None = None,
        wait: float | None = None,
    ) -> None:
        # A request that was cancelled is no longer in `serving`: its answer is dropped.
        # spec: basic/patterns/cancellation/no-response-after-cancel
        with context.reports.speaking:  # a notification that another thread is sending goes out first
            taken = self._take_off(context, answers=1)
        if not taken:
            return
        try:
            (context.arrival.batch or context.arrival.outbox).answer(line, error, wait)
        except ConnectionClosed as problem:
            _log.debug("the peer has gone, and an answer is dropped: %s", problem)
        else:
            if context.handling.task is not None:
                context.handling.task.answered()
        finally:
            with self._ending:
                self.answering -= 1

    def complete(self, context: RequestContext, result: Json, *, wait: float) -> None:
        """Send the result of a request whose handler returned DEFERRED. Any thread; once.

        The result is dropped if the outbox has no room for it within `wait` seconds.
        """
        self._answer(context, encode_result(context.request_id, result), wait=wait)

    def _take_off(self, context: RequestContext, answers: int = 0) -> bool:
        """Remove a request from `serving`; `answers` is 1 if its answer comes next.

        False if it was removed before: its id may be in use again.
        """
        with self._ending:  # spec: basic/patterns/cancellation/race-handling
            if self.serving.get(context.arrival.key) is not context:
                return False
            del self.serving[context.arrival.key]
            self.answering += answers
            return True

    def refuse(
        self,
        request_id: RequestId | None,
        problem: ProtocolError,
        outbox: WayOut,
        batch: Batch | None = None,
    ) -> None:
        """Answer with an error, also if the id could not be read (None; see `answers_unreadable`)."""
        _log.debug("refused: %s", problem)
        if self.is_mute:  # spec: basic/patterns/index/client-sends-no-responses
            _log.warning("ignored what the server sent: %s", problem)
        elif request_id is not None or batch is not None or self.answers_unreadable:
            with contextlib.suppress(ConnectionClosed):  # the peer has gone, and needs no answer
                (batch or outbox).answer(self._error(request_id, problem), problem)

    def _error(self, request_id: RequestId | None, problem: ProtocolError) -> bytes:
        if request_id is not None:
            return encode_error(request_id, problem)
        has_null = self.session.is_negotiated and self.session.revision.unreadable_id == "null"
        return encode_unaddressed_error(problem, has_null=has_null)

    def cancel_by_id(self, request_id: RequestId, reason: str | None) -> bool:
        """Cancel the request with this id. False if no such request runs."""
        context = self.serving.get(request_id)
        if context is None or type(context.request_id) is not type(request_id):
            return False
        return self.cancel(context, reason)

    def cancel(self, context: RequestContext, reason: str | None) -> bool:
        """Cancel a request: nothing is answered. False if it was answered or cancelled before."""
        if not self._take_off(context):
            return False
        context.cancel(reason)
        (context.arrival.batch or context.arrival.outbox).cancel(reason or "the request was cancelled")
        return True

    # -- the end -----------------------------------------------------------------------------

    def end(self, reason: str, wait: float) -> None:
        """Cancel all requests, and give the workers `wait` seconds to finish. May be called twice."""
        for context in list(self.serving.values()):
            if self._take_off(context):
                context.cancel(reason)
        if self.workers is not None and not self.is_shared and not self.workers.close(wait):
            _log.info("a request still runs after the connection ended")

    def forked(self) -> None:
        """Forget the requests in a forked child: the parent answers them."""
        self._ending = threading.Lock()
        for context in self.serving.values():
            context.reports.speaking = threading.Lock()
        self.serving.clear()  # so that nothing more is said of these requests
        self.answering = 0
        for limiter in (self.limiter, self._notices):
            limiter.forked()
