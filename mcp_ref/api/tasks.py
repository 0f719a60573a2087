"""A task as its client sees it (pages: basic/utilities/tasks, extensions/tasks).

    task = client.start_tool("render", {"film": "x"}, ttl=60)     returns at once
    task.id, task.status, task.message                            as they were when last looked at
    task.immediate_response                                       what a model can be given at once, or None
    for task in task.updates(): ...                               after each change, until the task is over
    result = task.result(timeout=300)                             waits; answers what the task asks
    task.cancel()
    client.task("786512e2-...")                                   the same task, from another process

One class for both eras. The messages are in the client halves of the two pages; `WAYS` has the one to use, by
`Revision.tasks`.

    2025-11-25   `result` is one tasks/result, which waits on the server; what the task asks comes beside it
    2026-07-28   `result` looks with tasks/get, answers with tasks/update, and looks again: when
                 notifications/tasks says that something has changed, or else after a pause

Errors      the error that the call ended with; RequestCancelled if the task was cancelled; RequestTimeout if
            it is not over in time: the task goes on, and `result` may be called again. InputRefused if it
            asks something that this client cannot answer, and ConnectionClosed, also when the client is
            closed meanwhile: it goes on then, too.
Threads     any, also several at once: a question is answered by the thread that sees it first. `_turn` guards
            the one tasks/result that they share, and is held while that is sent.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Protocol

from mcp_ref.api.pipe_transport import CLOSED
from mcp_ref.api.results import PendingCall, Result
from mcp_ref.api.retrying import becomes_of, wanted_pause
from mcp_ref.basic.index.error_responses import ErrorResponse, HttpError, error_response
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.subscriptions.client import Changes
from mcp_ref.basic.utilities.tasks import protocol_messages as tasks_of_2025
from mcp_ref.basic.utilities.tasks.data_types import FIELDS, FINAL, Words
from mcp_ref.basic.utilities.tasks.protocol_messages import TaskNews
from mcp_ref.extensions import tasks as task_extension
from mcp_ref.runtime import chance
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
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE

if TYPE_CHECKING:
    from mcp_ref.api.requests import Asker

__all__ = ["Task"]

_log = logger("mcp_ref.tasks")

FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 5.0
"""Seconds between two looks at a task: the first pause and the longest, where the server suggests none."""

MAX_SUGGESTED_SECONDS = 3600.0
"""The longest pause that is taken from a server's pollInterval: then the task is looked at all the same."""

LOOK_SECONDS = 0.005
"""If less than this is left of the caller's time, a task is late, and is not looked at once more."""

JITTER = 0.1
"""A random part of a pause, at most this, is added to it: so many clients do not look at the same moment."""

MAX_TURNED_AWAY = 50
"""Looks in a row, or answers, that a server may turn away (429, 503): then the wait for the task fails."""

LISTEN_SECONDS = 5.0
"""How long a server may take to acknowledge a subscription to a task. Without one, the task is polled."""

MAX_LOSSES = 3
"""How many requests for one result may be lost, though the server still answers tasks/get."""

RESULT_SECONDS = FOR_PEOPLE
"""How long one tasks/result waits. After that it is sent again: a task may take any time."""


class TaskWay(Protocol):
    """How one era asks for a task and waits for it."""

    words: Words

    def checked(self, state: Json) -> Json:
        """The state of a task, as the server sent it, if it is valid. Raises InvalidResponse."""

    def see_to(self, task: Task) -> None:
        """Have the questions of a task in the status input_required answered."""

    def outcome(self, task: Task, deadline: float | None) -> Json:
        """Wait for the end of the task, and return the result of the call. Raises the error if it is one."""

    def news(self, task: Task, deadline: float | None) -> News:
        """Begin to hear of the changes of the task."""


class News(Protocol):
    """The notifications of one task."""

    def wait(self, seconds: float) -> Json | None:
        """Wait for a notification, and return the state in it. None: it is time to look at the task."""

    def close(self) -> None: ...


class Task:
    """A call of a tool that runs as a task on the server.  # spec: extensions/tasks/lifecycle-exposed"""

    def __init__(
        self, asker: Asker, state: Json, params: Json | None, finished: Result | None = None
    ) -> None:
        """`params` are those of the call, if it was made here. `finished` is the result of a call that was
        answered at once, and so never was a task.
        """
        self.asker, self.params, self.state = asker, params, state
        self.way = WAYS[asker.negotiated.revision.tasks]
        self.immediate_response: str | None = None
        """What a model can be given until the task is over, if the server sent such a text (2025-11-25)."""
        self.is_seed = True
        """Whether `state` was never fetched: it is from the answer to the call, which has no questions."""
        self.on_end: Callable[[], object] = _nothing
        """Called when the task is over, perhaps several times: ends the reports of its progress."""
        self._finished = finished
        self._is_recorded = finished is not None  # whether the audit has the end of the call
        self._pause = FIRST_PAUSE_SECONDS
        self._due = self._next_look()
        self._turned_away: Counter[str] = Counter()  # looks, and answers, in a row
        self._turn = threading.Lock()
        # 2025-11-25: the tasks/result under way. Guarded by _turn
        self._fetching: PendingCall[Result] | None = None
        self.checks = False
        """Whether `result` raises ToolError if the tool failed, as `connect(check=True)` has it."""
        self.answers = task_extension.Answers()
        """2026-07-28: the answers to its questions, so that each is asked and sent once."""

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.status}{f': {self.message}' if self.message else ''}>"

    # -- as it was when last looked at -----------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its id on the server; empty for a call that was answered at once, and so is no task."""
        return str(self.state.get("taskId", ""))

    @property
    def status(self) -> str:
        """working, input_required, completed, failed or cancelled."""
        return str(self.state["status"])

    @property
    def message(self) -> str | None:
        """What the server says of its status, for people."""
        return self.state.get("statusMessage")

    @property
    def ttl(self) -> float | None:
        """Seconds for which the server keeps it, from its creation; None without a limit."""
        ttl = self.state.get(self.way.words.ttl)
        return None if ttl is None else ttl / 1000

    @property
    def is_over(self) -> bool:
        """Whether its status is final."""
        return self.status in FINAL

    # -- what its client does with it ------------------------------------------------------------------

    def refresh(self) -> Task:
        """Look at it anew with tasks/get. Returns this task."""
        if self._finished is None:
            self.look(None)
        return self

    def updates(self, timeout: float | None = None) -> Iterator[Task]:
        """Yield the task as it is, and again after each change of its status or message, until it is over.

        What it asks meanwhile is answered by the callbacks of the client. Raises RequestTimeout.
        """
        return self.changes(_deadline(timeout))

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result of the call. What the task asks meanwhile is answered by the callbacks.

        `timeout` bounds the wait for the server, in seconds. The task goes on if it passes.
        """
        deadline = _deadline(timeout)
        if self._finished is None:
            self._finished = self._ended(deadline)
        return self._finished.raise_for_error() if self.checks else self._finished

    def cancel(self) -> None:
        """Ask the server to stop it. Raises ErrorResponse in 2025-11-25 if it is over already.

        # spec: basic/patterns/cancellation/task-uses-tasks-cancel
        # spec: extensions/tasks/cancel-not-by-notification
        # spec: basic/utilities/tasks/related-task-not-in-requests
        """
        if self._finished is not None:
            return
        check_offers(self.asker, "cancel")
        answer = self.asker.request("tasks/cancel", {"taskId": self.id})
        if self.asker.negotiated.revision.tasks == "asked for":
            self.set(self.way.checked(answer))

    # -- the wait for its end ----------------------------------------------------------------------------

    def changes(self, deadline: float | None) -> Iterator[Task]:
        """See `updates`.

        # spec: basic/utilities/tasks/poll-until-terminal, basic/utilities/tasks/keep-polling
        # spec: basic/utilities/tasks/status-notification-not-relied, extensions/tasks/poll-until-terminal
        # spec: extensions/tasks/poll-beside-notifications
        """
        yield self
        if self.is_over:
            return
        with contextlib.closing(self.way.news(self, deadline)) as news:
            while not self.is_over:
                if self.status == "input_required":
                    self.unless_turned_away("answer", lambda: self.way.see_to(self))
                seen = self.status, self.message
                self._next(news, deadline)
                if (self.status, self.message) != seen:
                    yield self

    def _next(self, news: News, deadline: float | None) -> None:
        """Wait for a notification of the task, or look at it when that is due. Raises RequestTimeout.

        # spec: basic/utilities/tasks/respect-poll-interval, extensions/tasks/poll-interval-honoured
        """
        until = self._due if deadline is None else min(self._due, deadline)
        told = news.wait(max(0.0, until - time.monotonic()))
        if told is not None:
            self.set(told)
            return
        self.check_open()
        if deadline is not None and deadline - time.monotonic() < LOOK_SECONDS:
            raise self.late()
        self.unless_turned_away("look", lambda: self.look(deadline))

    def unless_turned_away(self, name: str, act: Callable[[], None]) -> None:
        """Send something about the task. If the server turns it away, the next look is due when it says.

        That is no end of the task: a server whose threads are all taken has done no part of the request.
        """
        try:
            act()
        except McpError as problem:
            if not self.put_off(name, problem):
                raise
        else:
            self._turned_away[name] = 0

    def put_off(self, name: str, problem: McpError) -> bool:
        """Put the next look off, if the server has only turned a request away. Returns whether it has."""
        self._turned_away[name] += 1
        if becomes_of(problem) != "turned away" or self._turned_away[name] > MAX_TURNED_AWAY:
            return False
        pause = min(wanted_pause(problem) or 0.0, MAX_SUGGESTED_SECONDS)
        self._due = max(self._due, time.monotonic() + pause * (1 + JITTER * chance.fraction()))
        _log.info("a task is looked at later: %s", problem)
        return True

    def pause(self, deadline: float | None) -> None:
        """Wait until the next look is due. Raises RequestTimeout, ConnectionClosed."""
        until = self._due if deadline is None else min(self._due, deadline)
        self.asker.closing.wait(max(0.0, until - time.monotonic()))
        self.check_open()
        if deadline is not None and time.monotonic() >= deadline:
            raise self.late()

    def check_open(self) -> None:
        """Raises ConnectionClosed if the client was closed, which ends the pauses between looks."""
        if self.asker.closing.is_set():
            raise ConnectionClosed(CLOSED)

    def fetch(self, deadline: float | None) -> None:
        """Look at a task until its state was fetched; a server may turn looks away. Raises as `look`."""
        while self.is_seed:
            self.unless_turned_away("look", lambda: self.look(deadline))
            if self.is_seed:
                self.pause(deadline)

    def look(self, deadline: float | None) -> None:
        """tasks/get. Raises RequestTimeout, ErrorResponse, InvalidResponse."""
        usual = self.asker.connection.timeout
        timeout = usual if deadline is None else min(usual, _left(deadline))
        try:
            answer = self.asker.request("tasks/get", {"taskId": self.id}, timeout=timeout)
            self.set(self.way.checked(answer))
        except RequestTimeout:
            if timeout < usual:
                raise self.late() from None
            raise
        finally:
            self._due = self._next_look()

    def _next_look(self) -> float:
        """When to look again, if no notification comes first: by `time.monotonic`."""
        suggested = self.state.get(self.way.words.poll)
        if isinstance(suggested, int) and suggested > 0:
            pause = min(suggested, 1000 * MAX_SUGGESTED_SECONDS) / 1000
        else:
            pause, self._pause = self._pause, min(1.5 * self._pause, MAX_PAUSE_SECONDS)
        return time.monotonic() + pause * (1 + JITTER * chance.fraction())

    def set(self, state: Json) -> None:
        """Take the state that the server has sent. A task that is over keeps its status.

        Raises InvalidResponse for the state of another task.
        """
        if state["taskId"] != self.id:
            raise InvalidResponse(f"tasks/get: the answer is about the task {state['taskId']!r:.80}")
        if self.is_over and state["status"] != self.status:
            _log.info("a task that was %s is said to be %s, which is ignored", self.status, state["status"])
            return
        if state["status"] != self.status:
            self._pause = FIRST_PAUSE_SECONDS
        self.state, self.is_seed = state, False
        if self.is_over:
            self.on_end()

    def _ended(self, deadline: float | None) -> Result:
        """Wait for the result, check it and record it; an error is recorded if the task is over."""
        try:
            result = self._checked(self.way.outcome(self, deadline))
        except McpError as problem:
            if self.is_over:
                self._record(problem)
            if isinstance(problem, ErrorResponse):
                raise self.asker.explained(problem) from None
            raise
        self._record(result)
        return result

    def _checked(self, raw: Json) -> Result:
        if raw.get("resultType", "complete") != "complete":
            raise InvalidResponse(f"tools/call: a task has no result of the type {raw['resultType']!r:.60}")
        return self.asker.checked("tools/call", self.params or {}, raw)

    def _record(self, outcome: Json | McpError) -> None:
        """Record the end of the call in the audit, once (spec: basic/utilities/tasks/requestor-logs)."""
        self.on_end()
        if not self._is_recorded and self.params is not None:
            self._is_recorded = True
            self.asker.ended("tools/call", self.params, outcome, task_id=self.id)

    def fetching(self) -> PendingCall[Result]:
        """2025-11-25: the tasks/result under way, which all threads wait for; a new one if it has failed."""
        with self._turn:
            if self._fetching is None or _has_failed(self._fetching):
                params = {"taskId": self.id}
                self._fetching = self.asker.submit("tasks/result", params, timeout=RESULT_SECONDS)
            return self._fetching

    def late(self) -> RequestTimeout:
        """The error for a task that is not over in time."""
        return RequestTimeout(f"the task {self.id} is not over in time: it is {self.status}")

    def cancelled(self) -> RequestCancelled:
        """The error for a task that was cancelled."""
        return RequestCancelled(self.message or "the task was cancelled")


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + check_seconds("timeout", timeout)


def _has_failed(call: PendingCall[Result]) -> bool:
    return call.done() and (call.cancelled() or call.exception() is not None)


# --------------------------------------------------------------------------------- 2025-11-25


class NewsByStatus:
    """notifications/tasks/status.  # spec: basic/utilities/tasks/notify-not-relied"""

    def __init__(self, task: Task) -> None:
        self._task_news, self._news = task.asker.task_news, TaskNews(task.id)
        self._closing = task.asker.closing  # set before all `told` are
        self._task_news.add(self._news)

    def wait(self, seconds: float) -> Json | None:
        """The last state that was notified; None if no notification comes in so many seconds.

        None at once if the client is closed.
        """
        end = time.monotonic() + seconds
        while not self._closing.is_set():
            is_told = self._news.told.wait(max(0.0, end - time.monotonic()))
            self._news.told.clear()
            state, self._news.state = self._news.state, None
            if state is not None and _is_good(tasks_of_2025.checked, state):
                return state
            if not is_told:
                break
        return None

    def close(self) -> None:
        """Hear of this task no longer."""
        self._task_news.discard(self._news)


def _is_good(check: Callable[[Json], object], state: Json) -> bool:
    """Whether the state in a notification is valid. An invalid one is logged and ignored."""
    try:
        check(state)
    except InvalidResponse as problem:
        _log.info("ignored what a notification says of a task: %s", problem)
        return False
    return True


class AskedFor:
    """2025-11-25: the client asks for a task."""

    words = FIELDS

    def checked(self, state: Json) -> Json:
        """The state, if it is a valid Task. Raises InvalidResponse."""
        return tasks_of_2025.checked(state)

    def see_to(self, task: Task) -> None:
        """Send tasks/result, though there is no result yet: beside it the server sends its questions.

        # spec: basic/utilities/tasks/call-result-on-input-required
        """
        task.fetching()

    def news(self, task: Task, deadline: float | None) -> News:
        """notifications/tasks/status."""
        return NewsByStatus(task)

    def outcome(self, task: Task, deadline: float | None) -> Json:
        """The result of tasks/result; polled for as well, where that request is lost or times out.

        # spec: basic/utilities/tasks/poll-beside-result
        """
        lost = 0
        while True:
            try:
                result = task.fetching().result(None if deadline is None else _left(deadline))
                # spec: basic/utilities/tasks/failed-status
                status, message = ("failed", result.text) if result.is_error else ("completed", None)
                task.set({**task.state, "status": status, "statusMessage": message})
                return result
            except (ErrorResponse, HttpError, RequestTimeout) as problem:
                _go_on_after(task, problem, deadline)
            except (ConnectionClosed, CancelledError) as problem:
                lost += 1
                _look_after(task, problem, deadline)
                if lost > MAX_LOSSES:
                    raise
            except TimeoutError:
                raise task.late() from None
            for _ in task.changes(deadline):  # tasks/result did not wait for the end: so look at the task
                pass


def _go_on_after(task: Task, problem: McpError, deadline: float | None) -> None:
    """Decide whether to go on, after tasks/result was refused. Raises the problem if not.

    What a proxy says is the end, unless it asks to come back later. A server may refuse tasks/result because
    the task is not over, or because too many wait; but not once it is over.
    """
    if not isinstance(problem, ErrorResponse | RequestTimeout) and becomes_of(problem) != "turned away":
        raise problem
    _look_after(task, problem, deadline)
    if task.put_off("result", problem):
        task.pause(deadline)
    elif task.is_over:
        raise problem


def _look_after(task: Task, problem: McpError | CancelledError, deadline: float | None) -> None:
    """Look at a task, after its tasks/result failed. Raises that problem if tasks/get fails, too.

    Raises RequestTimeout if the caller's time is up, and RequestCancelled for a task that was cancelled.
    """
    try:
        task.unless_turned_away("look", lambda: task.look(deadline))
    except RequestTimeout:
        raise
    except McpError:
        task.check_open()
        raise problem from None
    if task.status == "cancelled":
        raise task.cancelled() from None


# --------------------------------------------------------------------------------- 2026-07-28


class NewsByListening:
    """notifications/tasks, by a subscription to this task. If the server refuses it, `wait` only pauses.

    # spec: extensions/tasks/listen-by-task-ids
    """

    def __init__(self, task: Task, deadline: float | None) -> None:
        self._id, self._closing = task.id, task.asker.closing
        self._changes: Changes | None = Changes(task.asker, (), (), (task.id,))
        self._call: object = None  # the subscription (by its call) after whose begin the task was looked at
        try:
            self._changes.open(LISTEN_SECONDS if deadline is None else min(LISTEN_SECONDS, _left(deadline)))
            if self._changes.refused:
                self._stop("it does not report them")
        except McpError as problem:
            self._stop(str(problem))

    def wait(self, seconds: float) -> Json | None:
        """The last state that was notified; None if no notification comes in so many seconds.

        None at once if the subscription is new, or was renewed: the task may have changed before it began.
        None also if the client is closed.
        """
        end = time.monotonic() + seconds
        while self._changes is not None:
            if self._call is not self._changes.call:
                self._call = self._changes.call
                return None
            try:
                change = self._changes.next(max(0.0, end - time.monotonic()))
            except McpError as problem:
                self._stop(str(problem))
                break
            state = self._changes.task_states.pop(self._id, None)
            if state is not None and _is_good(task_extension.checked, state):
                return state
            if change is None:
                if self._changes.is_over:
                    self._stop("it has ended the subscription")
                break
        self._closing.wait(max(0.0, end - time.monotonic()))
        return None

    def _stop(self, why: str) -> None:
        _log.info("a task is looked at now and then; there is no hearing of its changes: %s", why)
        self.close()

    def close(self) -> None:
        """Listen no longer."""
        changes, self._changes = self._changes, None
        if changes is not None:
            changes.close()


class Decided:
    """2026-07-28: the server decides that a call runs as a task."""

    words = task_extension.WORDS

    def checked(self, state: Json) -> Json:
        """The state, if it is a valid DetailedTask. Raises InvalidResponse."""
        return task_extension.checked(state)

    def see_to(self, task: Task) -> None:
        """Answer what the task asks, each question once. If one cannot be answered, the answers to others are
        sent all the same.

        # spec: extensions/tasks/client-fulfils-inputs, extensions/tasks/observe-after-update
        """
        if task.is_seed:
            return  # the answer to the call does not say what is asked
        asked = task.state["inputRequests"]
        try:
            task.answers.gather(task.asker.answering, asked)
        finally:
            responses = task.answers.unsent(asked)
            if responses:
                params = {"taskId": task.id, "inputResponses": responses}
                task.asker.request("tasks/update", params)
                task.answers.sent(responses)

    def news(self, task: Task, deadline: float | None) -> News:
        """notifications/tasks."""
        return NewsByListening(task, deadline)

    def outcome(self, task: Task, deadline: float | None) -> Json:
        """The result in the state of the task, once that is over."""
        for _ in task.changes(deadline):
            pass
        task.fetch(deadline)
        if task.status == "cancelled":
            raise task.cancelled()
        if task.status == "failed":
            raise error_response(task.state["error"])
        result: Json = task.state["result"]
        return result


WAYS: dict[str, TaskWay] = {"asked for": AskedFor(), "decided": Decided()}
"""How to wait for a task, by `Revision.tasks`."""


def check_offers(asker: Asker, part: str) -> None:
    """Check that a server of 2025-11-25 declared tasks/list, or tasks/cancel. Raises LocalError."""
    agreed = asker.negotiated
    declared = (agreed.server_capabilities or {}).get("tasks", {})
    if agreed.revision.tasks == "asked for" and part not in declared:
        raise LocalError(f"tasks/{part}: the server did not declare the capability 'tasks.{part}'")


def _nothing() -> None:
    """The `on_end` of a task that reports no progress."""
