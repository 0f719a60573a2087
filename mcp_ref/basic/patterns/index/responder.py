"""Request and response (page: basic/patterns/index): the responder's half, for both roles.

    peer asks   Connection.route -> start -> _run -> Endpoint.answer -> handler
                handler -> _run -> _answer -> outbox

On a pipe one thread reads for all, and `start` hands the request to a worker. Over HTTP each request has a
thread already, and runs there: `start` returns when it is answered.

Revisions   2024-11-05  either side is asked
            2026-07-28  only servers are asked (see Client.answer)

Threads     reader      runs `start`, `cancel`, `refuse` and nothing slow. It answers `ping`, `initialize` and
                        `server/discover` itself, unless that would run functions of the author's
            worker, or over HTTP the thread of the request: one a request, from start to end; may block as
                        long as it likes
            `serving` is a plain dict: the thread that takes an entry out owns its end, and that decides every
            race (with a lock, since an id may come again).
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
"""Answered by the reader itself, in the order in which they came: they are quick, and what a client does
next depends on the outcome. Where the author's own functions would run for one, `Endpoint.is_immediate` says
no, and a worker answers it."""


class Deferred:
    """Instead of a result: it comes later, by `Responder.complete`, and no thread waits for it."""


DEFERRED = Deferred()


class Endpoint(Protocol):
    """What a connection asks of the client or the server that owns it."""

    @property
    def context_type(self) -> type[RequestContext]:
        """What its handlers get."""

    def answer(self, context: RequestContext) -> Json | Encoded | Deferred:
        """The result of a request; raises ProtocolError. Runs where requests run (IMMEDIATE: the reader)."""

    def is_immediate(self, context: RequestContext) -> bool:
        """Whether the reader may answer a request of IMMEDIATE: no function of the author's runs for it."""

    def notice(self, connection: Connection, method: str, params: Json, size: int) -> None:
        """A notification arrived, of so many bytes. Runs on the reader: hand it on, do nothing slow."""


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
        """`shared` workers belong to others as well, and do not end with this connection. Without workers a
        request runs on the thread that brings it.
        """
        self.endpoint = endpoint
        self.session = session
        self.workers = workers
        self.is_shared = shared
        self.limiter = Limiter(limit or Limit())
        self._notices = Limiter(notices or Limit())
        self.serving: dict[Hashable, RequestContext] = {}
        self._ending = threading.Lock()  # makes "is it still this one? then take it out" one step
        self.is_mute = False
        """True on a client of the modern era, which sends no responses at all."""
        self.answers_unreadable = True
        """False where an error without an id would have to be a message of its own, and belong to none."""

    def serves(self, context: RequestContext) -> bool:
        """Whether a request is neither answered nor cancelled yet; a task may run on after that."""
        return self.serving.get(context.arrival.key) is context

    def may_notify(self) -> bool:
        """Whether one more notification stays within what a peer can be expected to take."""
        return not self._notices.take()

    def start(
        self,
        connection: Connection,
        message: Json,
        outbox: WayOut,
        batch: Batch | None = None,
        size: int = 0,
    ) -> None:
        """A request: have a worker run it, or run it here.

        The connection is not kept here: a cycle of the two would outlive a client that was dropped.
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
        """The context of a request, which is served from now on. Raises InvalidParams, InvalidRequest."""
        request_id, method, params = message["id"], message["method"], message.get("params", {})
        if type(params) is not dict:
            raise InvalidParams(f"{method[:80]}: params must be an object")
        context = self.endpoint.context_type(connection, request_id, method, params, outbox)
        context.arrival.batch = batch
        if outbox.begins is not None:
            outbox.begins(context)
        if self.serving.setdefault(context.arrival.key, context) is not context:
            raise InvalidRequest(f"the id {request_id!r:.80} is in use by a request that still runs")
        return context

    def submit(
        self, run: Callable[[Any], object], argument: Any, *, size: int = 0, always: bool = False
    ) -> bool:
        """Run a function that may take a while: on a worker (see `Workers.submit`), or else here."""
        if self.workers is not None:
            return self.workers.submit(run, argument, size=size, always=always)
        try:
            run(argument)
        except Exception:
            _log.exception("a function of the application failed")
        return True

    def _run(self, context: RequestContext, is_reader: bool = False) -> None:
        """Run one request and send its answer: the one place where exceptions become errors.

        A handler may come back in a forked child: the request is the parent's to answer, so the child ends.
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
        """The answer to a request whose handler raised what is no error of the protocol."""
        if isinstance(problem, RequestCancelled | ConnectionClosed):
            _log.debug("%s: %s", context.method, problem)
            return encode_error(context.request_id, InternalError(f"{context.method} was given up"))
        if context.connection.is_inherited:
            forks.end_child(problem)
        if isinstance(problem, KeyboardInterrupt) and is_reader:
            raise problem  # not the request's: a signal for the thread that reads
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
        # A request that was cancelled is no longer in the table: its answer is dropped.
        # spec: basic/patterns/cancellation/no-response-after-cancel
        with context.reports.speaking:  # what another thread of the tool is saying gets out before
            taken = self._take_off(context)
        if taken:
            try:
                (context.arrival.batch or context.arrival.outbox).answer(line, error, wait)
            except ConnectionClosed as problem:
                _log.debug("the peer has gone, and an answer is dropped: %s", problem)

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

    def refuse(
        self,
        request_id: RequestId | None,
        problem: ProtocolError,
        outbox: WayOut,
        batch: Batch | None = None,
    ) -> None:
        """Answer with an error, also where the id could not be read."""
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
        """The peer no longer wants an answer; False if there is no such request any more."""
        context = self.serving.get(request_id)
        if context is None or type(context.request_id) is not type(request_id):
            return False
        return self.cancel(context, reason)

    def cancel(self, context: RequestContext, reason: str | None) -> bool:
        """Stop a request; nothing is answered. False if its end came before."""
        if not self._take_off(context):
            return False
        context.cancel(reason)
        (context.arrival.batch or context.arrival.outbox).cancel(reason or "the request was cancelled")
        return True

    # -- the end -----------------------------------------------------------------------------

    def end(self, reason: str, wait: float) -> None:
        """Cancel what runs, and let it finish for a while. May be called twice."""
        for context in list(self.serving.values()):
            if self._take_off(context):
                context.cancel(reason)
        if self.workers is not None and not self.is_shared and not self.workers.close(wait):
            _log.info("a request still runs after the connection ended")

    def forked(self) -> None:
        """Forget the requests in a forked child: they are answered by the parent, and only there."""
        self._ending = threading.Lock()
        for context in self.serving.values():
            context.reports.speaking = threading.Lock()
        self.serving.clear()  # so that nothing more is said of these requests
        for limiter in (self.limiter, self._notices):
            limiter.forked()
