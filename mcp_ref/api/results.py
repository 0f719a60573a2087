"""What a client gives back: results, and requests that are still under way.

A result is the dict that came over the wire, with a few short-cuts on top. A `PendingCall` is a
`concurrent.futures.Future`: it can be waited for together with others, and cancelling it cancels the
request on the wire.

    result.raise_for_error()   the result, unless it says that a tool failed: then ToolError
    result.load(Note)          what a tool returned, as a Note

Threads     a PendingCall is finished by the reader, or by a worker of the connection when its time is up;
            its callbacks run on the client's thread for events, and `result()` checks the result on the
            thread that calls it.
"""

from __future__ import annotations

import base64
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, get_origin, overload

from mcp_ref.api.retrying import begun_before
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.requester import Call
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused, Rounds
from mcp_ref.runtime.brief import brief
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    NotReached,
    RequestCancelled,
    RequestTimeout,
)
from mcp_ref.runtime.threads.outbox import INHERITED
from mcp_ref.runtime.threads.timers import Timer, later
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.texts import fits, reader_of
from mcp_ref.runtime.typing.values import Compiler
from mcp_ref.runtime.untrusted_text import plain
from mcp_ref.server.content import texts
from mcp_ref.server.tools import ToolError

if TYPE_CHECKING:
    from mcp_ref.api.requests import Asker
    from mcp_ref.api.tasks import Task
    from mcp_ref.basic.patterns.index.connection import Connection

__all__ = ["PendingCall", "Result", "as_returned", "unchanged"]

T = TypeVar("T")


class Result(dict[str, Any]):
    """A result as it came over the wire, with a few short-cuts."""

    request: tuple[str, Json] | None = None
    """Of an input_required result: the method and params of its request, for `Client.resume`."""

    def __repr__(self) -> str:
        return f"Result({brief(self)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: text, pictures and sounds, with everything escaped (api/notebooks)."""
        from mcp_ref.api.notebooks import as_html  # start-up time

        return as_html(self)

    @property
    def text(self) -> str:
        """All text: of a tool's `content`, a resource's `contents` or a prompt's `messages`."""
        if "messages" in self:
            return texts([m.get("content") for m in self["messages"] if isinstance(m, dict)])
        if "contents" in self:
            return texts([{"type": "text", **c} for c in self["contents"] if isinstance(c, dict)])
        return texts(self.get("content"))

    @property
    def blobs(self) -> list[bytes]:
        """The binary parts of a resource's `contents`, decoded."""
        found = self.get("contents", ())
        return [base64.b64decode(c["blob"]) for c in found if isinstance(c, dict) and "blob" in c]

    @property
    def is_input_required(self) -> bool:
        """Whether this is a question instead of a result (basic/patterns/mrtr)."""
        return self.get("resultType") == "input_required"

    @property
    def input_requests(self) -> Json:
        """The questions of an input_required result: key -> request."""
        found = self.get("inputRequests", {})
        return found if isinstance(found, dict) else {}

    @property
    def structured(self) -> Any:
        """`structuredContent`: what a tool returned, as data; non-objects are in {"result": ...}."""
        return self.get("structuredContent")

    @property
    def is_error(self) -> bool:
        """Whether a tool says that it failed.  # spec: schema/is-error-default"""
        return self.get("isError") is True

    def raise_for_error(self) -> Result:
        """Return this result, for chaining. Raises ToolError if it says that a tool failed."""
        if self.is_error:
            raise self._error()
        return self

    def _error(self) -> ToolError:
        """The exception for a tool that failed. Made here: a frame that raises it must not have it in a
        variable, since the two would hold each other, and the client with them.
        """
        content = self.get("content")
        problem = ToolError(
            self.text or "the tool failed, without a word", content if isinstance(content, list) else ()
        )
        problem.args = (plain(problem.message.replace("\r\n", "\n")),)  # other code may print it
        return problem

    @overload
    def load(self, kind: type[T]) -> T: ...
    @overload
    def load(self, kind: Any) -> Any: ...
    def load(self, kind: Any) -> Any:
        """What a tool returned, as a value of this type: from the structured content or else the text.

        No content at all is None, if the type allows None; several texts are a list, if it allows a list.
        Raises ToolError if the tool failed, InvalidResponse if it returned something else, InputRefused if
        this is a question instead of a result.
        """
        self.raise_for_error()
        if self.is_input_required:
            raise InputRefused("the server asks for input: there is nothing yet that the tool returned")
        try:
            return _loader(kind)(self)
        except Mismatch as problem:
            name = repr(kind) if get_origin(kind) else getattr(kind, "__name__", None) or repr(kind)
            raise InvalidResponse(f"what the tool returned is no {name:.100}: {problem}") from None


def as_returned(returns: Any, check: bool) -> Callable[[Result], Any]:
    """The function that makes of a Result what the caller gets: a value of the type `returns`; or the Result
    itself, where `check` makes a failed tool a ToolError.
    """
    if returns is not None:
        try:
            _loader(returns)  # a type that JSON cannot carry is an error before anything is sent
        except TypeError as problem:
            raise TypeError(f"returns: {problem}") from None
        return lambda result: result.load(returns)
    return Result.raise_for_error if check else unchanged


def unchanged(result: Result) -> Result:
    """The result itself, whatever it says."""
    return result


def _loader(kind: Any) -> Callable[[Result], Any]:
    """The function that makes such a value from a Result. Raises TypeError if JSON cannot carry the type."""
    try:
        hash(kind)
    except TypeError:  # such as a dict in Annotated: it cannot be cached
        return _new_loader(kind)
    return _kept_loader(kind)


def _new_loader(kind: Any) -> Callable[[Result], Any]:
    compiler = Compiler()
    codec, read = compiler.codec(kind), reader_of(kind)
    is_object = compiler.resolved(codec).get("type") == "object"

    def load_content(result: Result) -> Any:
        blocks = result.get("content")
        if blocks == [] and fits(codec.load, None):
            return codec.load(None)
        try:
            return codec.load(read(result.text))
        except Mismatch:
            # A tool that declares no return type and returns [text, text] sends one block for each text.
            several = _only_texts(blocks)
            if several and fits(codec.load, several):
                return codec.load(several)
            raise

    def load(result: Result) -> Any:
        if "structuredContent" not in result:
            return load_content(result)
        data = result.structured
        # A value of a type that need not be an object is wrapped in one: see api/from_function/tool.
        is_wrapped = isinstance(data, dict) and data.keys() == {"result"}
        if is_wrapped and not (is_object and fits(codec.load, data)):
            data = data["result"]
        return codec.load(data)

    return load


def _only_texts(blocks: Any) -> list[str] | None:
    """The texts of content that has only text blocks; None for other content."""
    if isinstance(blocks, list) and all(isinstance(b, dict) and b.get("type") == "text" for b in blocks):
        return [block.get("text", "") for block in blocks]
    return None


_kept_loader = functools.lru_cache(maxsize=256)(_new_loader)  # bounded, since it keeps classes alive


def _sent_no_more(params: Json) -> NoReturn:
    raise LocalError("the request is over")


class PendingCall(Future[T]):
    """A request under way. `cancel()` cancels it on the wire as well.

    It is done when it is answered. If the answer is a task (extensions/tasks), `result()` waits for its end.
    """

    def __init__(
        self,
        client: Asker,
        connection: Connection,
        rounds: Rounds,
        make: Callable[[Result], T],
        *,
        follows: bool = False,
    ) -> None:
        """`make` makes from the Result what the caller gets. `follows`: `result()` also waits for the end of
        a task that the call asked for, in 2025-11-25.
        """
        super().__init__()
        self._make, self._follows = make, follows
        self._made: tuple[T] | None = None
        self._client = client
        self._connection = connection
        self._rounds = rounds
        self._timing = threading.Lock()
        self._timer: Timer | None = None  # of the round under way; guarded by _timing
        self._checked: Result | None = None
        self._task: Task | None = None  # the task as which the server runs the call, if it does
        self._given_up = threading.Event()
        self._send: Callable[[Json], object] = _sent_no_more
        self.call: Call
        """The request of the latest round."""

    def begin(self, send: Callable[[Json], object]) -> None:
        """Send the request; later rounds are sent in the same way."""
        self._send = send
        send(self._rounds.params)

    def cancel(self) -> bool:
        """Cancel the request. False if it is over already, or between two rounds.

        Between two rounds a person may be asked something, and no request is on the wire: then it ends with
        the next round, which is not sent.
        """
        self._given_up.set()
        return self._connection.cancel(self.call, "cancelled by its caller") or self.cancelled()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result. Raises the error that came instead. Ctrl-C here cancels the request."""
        if self._connection.is_inherited:
            self._condition = threading.Condition()  # a thread of the parent's may have held its lock
            if not self.done():
                raise ConnectionClosed(INHERITED)
        end = None if timeout is None else time.monotonic() + timeout
        try:
            raw = cast(Result, super().result(timeout))
        except KeyboardInterrupt:
            self.cancel()
            raise
        if self._checked is None:
            checked = self._client.checked(self.call.method, self._rounds.params, raw, timeout)
            if self._task is None:
                self._task = self._client.task_in(
                    self.call.method, self._rounds.params, checked, follows=self._follows
                )
            self._checked = checked if self._task is None else self._end_of(self._task, end)
        if self._made is None:
            self._made = (self._make(self._checked),)
        return self._made[0]

    def _end_of(self, task: Task, end: float | None) -> Result:
        """Wait for the result of a call that the server runs as a task."""
        try:
            return task.result(None if end is None else max(0.001, end - time.monotonic()))
        except RequestTimeout as problem:
            raise TimeoutError(str(problem)) from None  # as any future raises it
        except NotReached as problem:
            raise begun_before(self.call.method, problem) from problem
        except KeyboardInterrupt:
            self._client.submit("tasks/cancel", {"taskId": task.id})
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that `result` would raise; None if it would return."""
        end = None if timeout is None else time.monotonic() + timeout
        problem = super().exception(timeout)
        if problem is None:
            try:
                self.result(None if end is None else max(0.0, end - time.monotonic()))
            except McpError as found:
                return found
        return problem

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have `fn(self)` called when the request is over, on the client's thread for events."""
        super().add_done_callback(lambda future: self._client.events.run(fn, future, always=True))

    def watch(self, call: Call) -> None:
        """Set a timer for the deadline of a round, since no thread waits for its answer.

        Called before the round is sent: once it is sent, its answer may come and the next round begin at any
        moment, and this would set `call` back to the round before.
        """
        self.call = call
        self._set_timer(call)

    def _set_timer(self, call: Call) -> None:
        """Set the timer, unless the round is over: then it would keep the client alive until it goes off."""
        with self._timing:
            if not call.done:
                self._timer = later(max(0.01, call.deadline.pause()), lambda: self._expire(call))

    def _expire(self, call: Call) -> None:
        """The timer went off: end the request if its time is up. Runs on the thread of the timers."""
        if call.deadline.left() > 0 or self._connection.waiting.pop(call.id, None) is None:
            self._set_timer(call)  # progress moved the deadline; or the call is not sent yet, or just ending
            return
        problem = RequestTimeout(f"{call.method}: no answer within {call.deadline.reached()}")
        if not self._connection.responder.submit(self._give_up, problem, always=True):
            call.finish(problem)  # the connection is closed: there is no server to tell

    def _give_up(self, problem: RequestTimeout) -> None:
        """Tell the server, then end the call; the other way round if sending could take a while."""
        busy = self._connection.outbox.is_busy
        if busy:
            self.call.finish(problem)
        self._connection.tell(self.call, "no answer in time")
        if not busy:
            self.call.finish(problem)

    def finish(self, call: Call) -> None:
        """A round has its outcome: begin the next one, or end. Runs on the thread that has the outcome."""
        with self._timing:
            if self._timer is not None:
                self._timer.cancel()
        try:
            prepare = self._rounds.next(call.outcome)
        except InputRefused as problem:
            self._end(problem)
            return
        if prepare is None:
            self._end(call.outcome)
        # On a worker, since what comes before the next round may take long: a person may have to be asked.
        elif not self._connection.responder.submit(self._next_round, prepare, always=True):
            self._end(self._connection.failure or ConnectionClosed("this client was closed"))

    def _next_round(self, prepare: Callable[[], None]) -> None:
        """Send the request again. Runs on a worker."""
        try:
            prepare()
            if self._given_up.is_set():
                raise RequestCancelled(f"{self.call.method}: cancelled by its caller")
            self._send(self._rounds.params)
            if self._given_up.is_set():  # while it was being sent
                self.cancel()
        except McpError as problem:
            self._end(problem)
        except BaseException as problem:  # a fault of ours must not leave the caller waiting
            self._end(LocalError(f"{self.call.method}: {problem!r}"))
            raise

    def _end(self, outcome: Json | McpError) -> None:
        """Give this future its result or its exception."""
        call = self.call
        if isinstance(outcome, NotReached) and self._rounds.has_begun:
            outcome = begun_before(call.method, outcome)
        self._send = _sent_no_more  # break a reference cycle: `send` refers to this future and to the client
        ended, params = self._client.ended, self._rounds.params
        self._client.events.run(lambda outcome: ended(call.method, params, outcome), outcome, always=True)
        if isinstance(outcome, RequestCancelled):
            super().cancel()
            self.set_running_or_notify_cancel()  # wakes threads in `concurrent.futures.wait`
        elif not self.set_running_or_notify_cancel():
            pass
        elif isinstance(outcome, ErrorResponse):
            self.set_exception(self._client.explained(outcome))
        elif isinstance(outcome, McpError):
            self.set_exception(outcome)
        else:
            self.set_result(cast(T, Result(outcome)))  # `result` makes what the caller gets of it
