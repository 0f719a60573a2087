"""Request and response (page: basic/patterns/index): the requester's half, for both roles.

    we ask      request -> outbox ... reader -> deliver -> the thread that waits

Revisions   2024-11-05  either side asks the other
            2026-07-28  only clients ask (see Context.request)

Threads     caller      any thread in `request`: waits for its own answer and runs its `on_progress`
            reader      runs `deliver`
            `waiting` is a plain dict: whoever takes an entry out owns its end, and that decides every
            race between an answer, a time-out, a cancellation and the end of the connection.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mcp_ref.basic.index.error_responses import (
    InvalidRequest,
    error_response,
)
from mcp_ref.basic.index.messages import Json, RequestId, encode, is_id
from mcp_ref.basic.patterns import cancellation, progress
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
from mcp_ref.runtime.threads.outbox import INHERITED, Full, WayOut
from mcp_ref.runtime.threads.timers import later

if TYPE_CHECKING:
    from mcp_ref.basic.patterns import progress
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.runtime.threads.outbox import WayOut

__all__ = [
    "Call",
    "Requester",
]


class Call:
    """A request of ours that waits for its answer."""

    __slots__ = (
        "_wakes",
        "deadline",
        "done",
        "id",
        "method",
        "on_done",
        "on_report",
        "outbox",
        "outcome",
        "reports",
    )

    def __init__(self, call_id: RequestId, method: str, deadline: Deadline, outbox: WayOut) -> None:
        self.id = call_id
        self.outbox = outbox
        self.method = method
        self.deadline = deadline
        self.done = False
        self.outcome: Json | McpError = {}
        # Progress that the caller has not seen yet. Old reports may be lost, the newest never is.
        self.reports: deque[progress.Report] | None = None
        # For callers that do not wait: run by the reader, so they only hand on.
        self.on_done: Callable[[Call], object] | None = None
        self.on_report: Callable[[Call], object] | None = None
        self._wakes = threading.Lock()
        self._wakes.acquire()

    def wake(self) -> None:
        """Let the caller look at what is new."""
        try:
            self._wakes.release()
        except RuntimeError:
            pass  # it was told already and has not looked yet

    def finish(self, outcome: Json | McpError) -> None:
        """The answer, or the reason why there is none. Only whoever took the call out of `waiting`."""
        self.outcome = outcome
        self.done = True
        self.wake()
        if self.on_done is not None:
            self.on_done(self)

    def wait(self, on_progress: progress.OnProgress | None) -> bool:
        """Until the outcome is there; False if the deadline passes first. Runs on the caller."""
        while True:
            if not self._wakes.acquire(timeout=self.deadline.pause()) and self.deadline.left() <= 0:
                return False
            while self.reports and on_progress is not None:
                on_progress(*self.reports.popleft())
            if self.done:
                return True

    def result(self) -> Json:
        """The result of a finished call; raises what came instead."""
        if isinstance(self.outcome, McpError):
            raise self.outcome
        return self.outcome


_log = logger("mcp_ref.connection")

MAX_IN_FLIGHT = 10_000
"""Requests of ours that may wait for an answer on one connection."""

GOING = 1.0
"""Seconds in which a peer that reads no more may turn out to be gone: then its end is the better reason."""


class Requester:
    """What we ask of one peer."""

    def __init__(self, outbox: WayOut, *, timeout: float, max_timeout: float | None) -> None:
        self.timeout = check_seconds("timeout", timeout)
        self.max_timeout = 20 * timeout if max_timeout is None else check_seconds("max_timeout", max_timeout)
        self.outbox = outbox
        self.clock = Clock()
        self._ids = itertools.count(1)  # spec: basic/index/request-id-unique-in-session
        self.waiting: dict[RequestId, Call] = {}
        self._reason: str | None = None  # why the connection is over, once it is
        self._over = threading.Lock()  # held until the connection is over
        self._over.acquire()
        self.is_inherited = False
        """Whether this is a forked child: then the connection is its parent's."""
        forks.tell(self)

    @property
    def failure(self) -> ConnectionClosed | None:
        """Why nobody answers any more; None as long as somebody may.

        A new exception each time. One that was raised refers to the frames of whoever caught it: shared among
        callers, it would keep the arguments of all their calls, and show them to each other.
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
        """Send a request. Whoever calls must wait for it, or give `on_done`, which the reader runs.

        `prepare` sees the call before it is sent. `outbox` is the way it goes, if not the usual one.
        """
        if len(self.waiting) >= MAX_IN_FLIGHT:
            raise LocalError(f"{MAX_IN_FLIGHT} requests are waiting for an answer already")
        seconds = self.timeout if timeout is None else check_seconds("timeout", timeout)
        deadline = Deadline(seconds, self.clock, cap=self.max_timeout)
        call = Call(next(self._ids), method, deadline, outbox or self.outbox)
        call.on_done, call.on_report = on_done, on_report
        message: Json = {"jsonrpc": "2.0", "id": call.id, "method": method}
        if wants_progress:
            params = progress.ask(params, call)
        if params is not None:
            message["params"] = params
        line = encode(message)
        if prepare is not None:
            prepare(call)
        self.waiting[call.id] = call  # spec: basic/index/request-id-unique-in-flight
        if self._reason is not None:
            self.settle(call, ConnectionClosed(self._reason))
        else:
            try:
                self.transmit(call, params, line)
            except Full as problem:
                self.settle(call, RequestTimeout(f"{method}: {problem}"))
            except ConnectionClosed as problem:
                if self._over.acquire(timeout=GOING):  # the reader may find out why, and says it better
                    self._over.release()
                self.settle(call, self.failure or problem)
            except BaseException:  # Ctrl-C, when the message was out
                self.cancel(call, "the caller stopped waiting")
                raise
        return call

    def transmit(self, call: Call, params: Json | None, line: bytes) -> None:
        """Have a request travel. Where each has a way of its own, this is what differs."""
        call.outbox.send(line, call.deadline.left())

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

        Raises ErrorResponse (the peer refused), RequestTimeout, ConnectionClosed, RequestCancelled.
        """
        outbox = self.outbox if on_behalf_of is None else on_behalf_of.outbox
        call = self.call(
            method, params, timeout=timeout, wants_progress=on_progress is not None, outbox=outbox
        )
        try:
            if on_behalf_of is None:
                return self._outcome(call, on_progress)
            with on_behalf_of.ending(lambda reason: self.cancel(call, reason)):
                return self._outcome(call, on_progress)
        except BaseException:
            # Ctrl-C, or a callback that raised: the caller waits no more. It stands around `_outcome`, not in
            # it: Python looks for signals where a function begins, which is before its first `try`.
            self.cancel(call, "the caller stopped waiting")
            raise

    def request_all(
        self,
        requests: Sequence[tuple[str, Json]],
        *,
        timeout: float | None = None,
        on_behalf_of: RequestContext,
    ) -> list[Json]:
        """Send several requests at once and wait for all results. If one fails, the others are given up."""
        calls: list[Call] = []

        def give_up(reason: str) -> None:
            for call in calls:
                self.cancel(call, reason)

        with on_behalf_of.ending(give_up):
            try:
                for method, params in requests:
                    # One by one: the next may fail.
                    calls.append(self.call(method, params, timeout=timeout, outbox=on_behalf_of.outbox))
                on_behalf_of.check_cancelled()
                return [self._outcome(call, None) for call in calls]
            finally:
                give_up("another question beside it failed")

    def _outcome(self, call: Call, on_progress: progress.OnProgress | None) -> Json:
        """Wait for a call. Runs on the thread that wants its result."""
        answered = call.wait(on_progress)
        # spec: basic/patterns/cancellation/timeout-sends-cancelled, basic/lifecycle/handle-request-timeout
        if not answered and self.cancel(call, "no answer in time"):
            raise RequestTimeout(f"{call.method}: no answer within {call.deadline.reached()}")
        return call.result()

    def cancel(self, call: Call, reason: str) -> bool:
        """Give up a request of ours; False if its end came first."""
        # spec: basic/patterns/cancellation/in-progress-only
        if not self.settle(call, RequestCancelled(f"{call.method}: {reason}")):
            return False
        cancellation.send(self, call, reason)
        return True

    def settle(self, call: Call, outcome: Json | McpError) -> bool:
        """End a request of ours; False if its end came first.

        # spec: basic/patterns/cancellation/race-handling
        """
        if self.waiting.pop(call.id, None) is None:
            return False
        call.finish(outcome)
        return True

    def forget(self, call: Call) -> bool:
        """Wait no longer for an answer that may still come; say nothing to the peer. False if it came."""
        return self.waiting.pop(call.id, None) is not None

    def notify(
        self,
        method: str,
        params: Json | None = None,
        *,
        wait: float | None = None,
        outbox: WayOut | None = None,
    ) -> None:
        """Send a notification.  # spec: basic/index/notification-no-id"""
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        (outbox or self.outbox).send(encode(message), wait)

    def deliver(self, message: Json) -> None:
        """A response: to whoever waits for it."""
        call_id = message.get("id")
        call = self.waiting.pop(call_id, None) if is_id(call_id) else None
        if call is None:
            # Late, or to nobody.  # spec: basic/patterns/cancellation/ignore-late-response
            _log.info("ignored a response to %r: %.200r", call_id, message.get("error", "a result"))
        elif "error" in message:
            call.finish(error_response(message["error"]))
        elif type(message["result"]) is dict:
            call.finish(message["result"])
        else:
            call.finish(InvalidResponse(f"{call.method}: the result is not an object"))

    def deliver_none(self, call_id: Any, problem: InvalidRequest) -> None:
        """What should be a response, and is none: whoever waits for it waits in vain."""
        call = self.waiting.pop(call_id, None) if is_id(call_id) else None
        if call is None:
            _log.warning("ignored a response that is none: %s", problem)
        else:
            call.finish(InvalidResponse(f"{call.method}: {problem}"))

    def fail(self, reason: str) -> ConnectionClosed:
        """Nobody answers any more: whoever waits, or asks later, is told why. May be called twice."""
        if self._reason is None:
            self._reason = reason
            with contextlib.suppress(RuntimeError):  # another thread was as quick
                self._over.release()
        for call in list(self.waiting.values()):
            self.settle(call, ConnectionClosed(self._reason))
        return ConnectionClosed(self._reason)

    def unwritable(self, reason: str) -> None:
        """Nothing more can be sent: whoever waits is told soon, unless there is an end to tell of before.

        Any thread, the one that reads as well: it waits for nothing.
        """
        if self._reason is None:
            with contextlib.suppress(RuntimeError):  # the system has no more threads to give
                later(GOING, lambda: self.fail(reason))

    def forked(self) -> None:
        """In a forked child: nothing is asked on this connection, and no answer comes."""
        self.is_inherited = True
        self._reason = INHERITED
        self._over = threading.Lock()
        self.clock.forked()
        calls = list(self.waiting.values())
        self.waiting.clear()
        for call in calls:
            if call.on_done is None:  # perhaps it is the thread that forked which waits; others are not there
                call.finish(ConnectionClosed(INHERITED))
