"""Request and response (page: basic/patterns/index): the requester's half, for both roles.

    we ask      request -> outbox ... reader -> deliver -> the thread that waits

Revisions   2024-11-05  either side sends requests to the other
            2026-07-28  only clients send requests (see Context.request)

Threads     caller      any thread in `request`: waits for its own answer and runs its `on_progress`
            reader      runs `deliver`
            `waiting` is a plain dict: the thread that pops a call from it is the one that ends the call.
            `dict.pop` is atomic, so this decides every race between an answer, a time-out, a cancellation and
            the end of the connection.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mcp_ref.basic.index.error_responses import InvalidRequest, error_response
from mcp_ref.basic.index.messages import Json, RequestId, encode, encode_notification, is_id, new_ids
from mcp_ref.basic.patterns import cancellation, progress
from mcp_ref.basic.patterns.index.context import ending
from mcp_ref.runtime.checks import check_seconds
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    RequestCancelled,
    RequestTimeout,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.threads.outbox import INHERITED, Full
from mcp_ref.runtime.threads.timers import later

if TYPE_CHECKING:
    from mcp_ref.basic.lifecycle import Session
    from mcp_ref.basic.patterns.index.context import RequestContext, WayOut

__all__ = ["Asks", "Call", "Requester"]

_log = logger("mcp_ref.connection")

MAX_IN_FLIGHT = 10_000
"""Requests of ours that may wait for an answer on one connection; one more is refused with LocalError."""

CLOSE_REASON_SECONDS = 1.0
"""How long a failed write waits for the reader to end the connection: the reader may learn a better reason
for it, such as the exit status of the server."""


class Asks(Protocol):
    """What the pages that send requests to a server need of the client."""

    def request(self, method: str, params: Json | None = None, *, timeout: float | None = None) -> Json:
        """Send a request, and return its result."""

    def forget_cached(self, method: str | None = None) -> None:
        """Drop the cached results of one method, or all."""


class Call:
    """A request of ours that waits for its answer."""

    __slots__ = (
        "_wakes",
        "deadline",
        "done",
        "id",
        "is_sent",
        "method",
        "on_done",
        "on_report",
        "outbox",
        "outcome",
        "params",
        "reports",
        "untold",
    )

    def __init__(
        self, call_id: RequestId, method: str, params: Json | None, deadline: Deadline, outbox: WayOut
    ) -> None:
        self.id = call_id
        self.outbox = outbox
        self.method = method
        self.params = params
        self.deadline = deadline
        self.is_sent = False
        """Whether the request is on its way. On a pipe, its cancellation comes after it."""
        self.untold: list[str] | None = None
        """The reason of a cancellation that the peer was not told; empty once a thread tells it."""
        self.done = False
        self.outcome: Json | McpError = {}
        # Progress that the caller has not seen yet; None if it asked for no progress. Old reports may be
        # lost, the newest never is.
        self.reports: deque[progress.Report] | None = None
        # For callers that do not wait. Usually the reader runs these, so they must not block.
        self.on_done: Callable[[Call], object] | None = None
        self.on_report: Callable[[Call], object] | None = None
        # A binary semaphore: `wait` acquires it, `wake` releases it. It begins acquired.
        self._wakes = threading.Lock()
        self._wakes.acquire()

    def wake(self) -> None:
        """Have the thread in `wait` look at `reports` and `done`."""
        try:
            self._wakes.release()
        except RuntimeError:
            pass  # it was woken already and has not looked yet

    def finish(self, outcome: Json | McpError) -> None:
        """Store the result, or the error that came instead. For the thread that popped it from `waiting`."""
        self.outcome = outcome
        self.done = True
        self.wake()
        # `on_done` may refer to this call. Dropping it breaks the cycle, so that both are freed at once.
        on_done, self.on_done = self.on_done, None
        if on_done is not None:
            on_done(self)

    def wait(self, on_progress: progress.OnProgress | None) -> bool:
        """Wait for the outcome; False if the deadline passes first. Runs on the caller's thread."""
        while True:
            if not self._wakes.acquire(timeout=self.deadline.pause()) and self.deadline.left() <= 0:
                return False
            while self.reports and on_progress is not None:
                on_progress(*self.reports.popleft())
                if not self.done and self.deadline.left() <= 0:  # reports come faster than they are taken
                    return False
            if self.done:
                return True

    def result(self) -> Json:
        """The result of a finished call. Raises the error that came instead: once, for one caller."""
        outcome = self.outcome
        if isinstance(outcome, McpError):
            # The traceback of a raised error refers to this call. If the call also referred to the error, the
            # cycle would keep the client alive.
            self.outcome = LocalError(f"{self.method}: the error that came was raised before")
            try:
                raise outcome
            finally:
                del outcome
        return outcome


class Requester:
    """The requests that we send to one peer, and the answers that we wait for."""

    session: Session
    """What was agreed with the peer. Set by the subclass, Connection."""

    def __init__(self, outbox: WayOut, *, timeout: float, max_timeout: float | None) -> None:
        self.timeout = check_seconds("timeout", timeout)
        self.max_timeout = 20 * timeout if max_timeout is None else check_seconds("max_timeout", max_timeout)
        self.outbox = outbox
        self.clock = Clock()
        self._ids = new_ids()
        self.waiting: dict[RequestId, Call] = {}
        self._reason: str | None = None  # why the connection is over, once it is
        self._over = threading.Lock()  # a one-shot event: held until the connection is over
        self._over.acquire()
        self.is_inherited = False
        """Whether this is a forked child: then the connection is its parent's."""
        forks.register(self)

    @property
    def failure(self) -> ConnectionClosed | None:
        """Why the connection is over; None while it is not.

        A new exception each time. Once raised, an exception refers to the frames that it passed through: one
        shared by all callers would keep the arguments of all their calls alive, and show them to each other.
        """
        return None if self._reason is None else ConnectionClosed(self._reason)

    def call(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        wants_progress: bool = False,
        on_done: Callable[[Call], object] | None = None,
        on_report: Callable[[Call], object] | None = None,
        prepare: Callable[[Call], object] | None = None,
        outbox: WayOut | None = None,
    ) -> Call:
        """Send a request, and return the call. The caller must wait for it, or give `on_done`.

        The functions are given the call: `on_done` once it has ended, on the thread that ended it;
        `on_report` when progress arrives, on the reader; `prepare` before the request is sent, on this
        thread. `outbox` is where it is sent, if not by the connection's own.
        """
        if len(self.waiting) >= MAX_IN_FLIGHT:
            raise LocalError(f"{MAX_IN_FLIGHT} requests are waiting for an answer already")
        deadline = cancellation.deadline_of(self, timeout)
        call = Call(next(self._ids), method, params, deadline, outbox or self.outbox)
        call.on_done, call.on_report = on_done, on_report
        message: Json = {"jsonrpc": "2.0", "id": call.id, "method": method}
        if wants_progress:
            params = progress.with_token(params, call)
        if params is not None:
            message["params"] = params
        line = encode(message)
        if prepare is not None:
            prepare(call)
        self.waiting[call.id] = call
        if self._reason is not None:
            self.finish(call, ConnectionClosed(self._reason))
        else:
            try:
                self.transmit(call, params, line)
            except ConnectionClosed as problem:
                self._finish_unsent(call, problem)
            except BaseException:  # Ctrl-C, perhaps after the message was sent
                call.is_sent = True
                self.cancel(call, "the caller stopped waiting")
                self._tell_now(call)
                raise
        if call.untold:  # cancelled on another thread, while it was being sent
            self._tell_now(call)
        return call

    def transmit(self, call: Call, params: Json | None, line: bytes) -> None:
        """Put a request on the wire. Over HTTP, UrlConnection overrides this: it POSTs each request."""
        call.outbox.send(line, call.deadline.left())
        call.is_sent = True

    def _finish_unsent(self, call: Call, problem: ConnectionClosed) -> None:
        """End a call whose request could not be sent."""
        if isinstance(problem, Full):
            self.finish(call, RequestTimeout(f"{call.method}: {problem}"))
            return
        if self._over.acquire(timeout=CLOSE_REASON_SECONDS):  # the reader may learn a better reason
            self._over.release()
        self.finish(call, self.failure or problem)

    def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: progress.OnProgress | None = None,
        on_behalf_of: RequestContext | None = None,
    ) -> Json:
        """Send a request and wait for its result.

        `on_behalf_of` is a request being handled that this one is made for: when it is cancelled, so is this
        one. If this same peer sent it, this one goes out by its outbox; it may also be of another peer.

        Raises ErrorResponse (the peer refused), RequestTimeout, ConnectionClosed, RequestCancelled.
        """
        if on_behalf_of is not None:
            (result,) = self.request_all(
                [(method, params)], timeout=timeout, on_progress=on_progress, on_behalf_of=on_behalf_of
            )
            return result
        call = self.call(method, params, timeout=timeout, wants_progress=on_progress is not None)
        try:
            return self._outcome(call, on_progress)
        except BaseException:
            # Ctrl-C, or a callback that raised: the caller waits no longer. This is around `_outcome`, not
            # inside it: Python handles signals where a function begins, which is before its first `try`.
            self.cancel(call, "the caller stopped waiting")
            raise

    def request_all(
        self,
        requests: Sequence[tuple[str, Json | None]],
        *,
        timeout: float | None = None,
        on_progress: progress.OnProgress | None = None,
        on_behalf_of: RequestContext,
    ) -> list[Json]:
        """Send several requests at once and wait for all results. If one fails, the others are cancelled.

        `on_progress` is for all of them. The rest is as for `request`.
        """
        outbox = on_behalf_of.arrival.outbox if on_behalf_of.connection is self else self.outbox
        calls: list[Call] = []

        def cancel_all(reason: str) -> None:
            for call in calls:
                self.cancel(call, reason)

        def enter(call: Call) -> None:
            # Before it is sent: the peer may cancel its own request as soon as it reads ours. Then the stream
            # of its own ends at once, and ours must be cancelled before that.
            calls.append(call)
            on_behalf_of.check_cancelled()  # else `cancel_all` may have run already, without this call

        with ending(on_behalf_of, cancel_all):
            try:
                for method, params in requests:
                    self.call(
                        method,
                        params,
                        timeout=timeout,
                        wants_progress=on_progress is not None,
                        prepare=enter,
                        outbox=outbox,
                    )
                on_behalf_of.check_cancelled()
                return [self._outcome(call, on_progress) for call in calls]
            finally:
                alone = len(requests) == 1
                cancel_all("the caller stopped waiting" if alone else "another question beside it failed")

    def _outcome(self, call: Call, on_progress: progress.OnProgress | None) -> Json:
        """Wait for a call and return its result. Runs on the caller's thread."""
        answered = call.wait(on_progress)
        # spec: basic/lifecycle/handle-request-timeout
        if not answered and self.cancel(call, "no answer in time"):
            raise RequestTimeout(f"{call.method}: no answer within {call.deadline.reached()}")
        return call.result()

    def cancel(self, call: Call, reason: str) -> bool:
        """Cancel a request of ours, and tell the peer. False if it had ended before."""
        # spec: basic/patterns/cancellation/in-progress-only
        if not self.finish(call, RequestCancelled(f"{call.method}: {reason}")):
            return False
        self.tell(call, reason)
        return True

    def tell(self, call: Call, reason: str) -> None:
        """Tell the peer that a call was cancelled, which has just ended here."""
        call.untold = [reason]
        self._tell_now(call)

    def _tell_now(self, call: Call) -> None:
        """Tell the peer of a cancellation, if the request was sent; else the thread that sends it will."""
        if call.is_sent and call.untold:
            try:
                reason = call.untold.pop()  # by one of two threads
            except IndexError:
                return
            cancellation.send(self, call, reason)

    def finish(self, call: Call, outcome: Json | McpError) -> bool:
        """End a request of ours with a result or an error. False if it had ended before.

        # spec: basic/patterns/cancellation/race-handling
        """
        if self.waiting.pop(call.id, None) is None:
            return False
        call.finish(outcome)
        return True

    def forget(self, call: Call) -> bool:
        """Stop waiting for an answer, without telling the peer. False if the call had ended before."""
        return self.waiting.pop(call.id, None) is not None

    def notify(
        self,
        method: str,
        params: Json | None = None,
        *,
        wait: float | None = None,
        outbox: WayOut | None = None,
    ) -> None:
        """Send a notification by this outbox, or the connection's own; `wait` is how long for room in it."""
        (outbox or self.outbox).send(encode_notification(method, params), wait)

    def deliver(self, message: Json) -> None:
        """End the call that waits for this response. Runs on the reader."""
        call_id = message.get("id")
        call = self.waiting.pop(call_id, None) if is_id(call_id) else None
        if call is None:
            # Late, or never asked for.  # spec: basic/patterns/cancellation/ignore-late-response
            _log.info("ignored a response to %r: %.200r", call_id, message.get("error", "a result"))
        elif "error" in message:
            call.finish(error_response(message["error"]))
        elif type(message["result"]) is dict:
            call.finish(message["result"])
        else:
            call.finish(InvalidResponse(f"{call.method}: the result is not an object"))

    def deliver_none(self, call_id: Any, problem: InvalidRequest) -> None:
        """Fail the call that a malformed response names, if there is one."""
        call = self.waiting.pop(call_id, None) if is_id(call_id) else None
        if call is None:
            _log.warning("ignored a malformed response: %s", problem)
        else:
            call.finish(InvalidResponse(f"{call.method}: {problem}"))

    def fail(self, reason: str) -> ConnectionClosed:
        """Mark the connection as over: all calls, waiting or new, fail with this reason. May be called twice.

        The first reason counts. Returns an error with that reason.
        """
        if self._reason is None:
            self._reason = reason
            with contextlib.suppress(RuntimeError):  # another thread failed it at the same time
                self._over.release()
        for call in list(self.waiting.values()):
            self.finish(call, ConnectionClosed(self._reason))
        return ConnectionClosed(self._reason)

    def unwritable(self, reason: str) -> None:
        """Fail the connection in CLOSE_REASON_SECONDS: the reader may learn a better reason before.

        For `Outbox.on_failure`, when a write has failed. Any thread, the reader too: it does not block.
        """
        if self._reason is None:
            with contextlib.suppress(RuntimeError):  # the system is out of threads
                later(CLOSE_REASON_SECONDS, lambda: self.fail(reason))

    def forked(self) -> None:
        """Fail all calls in a forked child: the connection is the parent's, and no answer comes here."""
        self.is_inherited = True
        self._reason = INHERITED
        self._over = threading.Lock()
        self.clock.forked()
        calls = list(self.waiting.values())
        self.waiting.clear()
        for call in calls:
            # The thread that forked is the only one here, and it may be waiting for one of these. The others
            # have `on_done` and no thread that waits.
            if call.on_done is None:
                call.finish(ConnectionClosed(INHERITED))
