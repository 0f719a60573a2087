"""Tasks (page: extensions/tasks, `io.modelcontextprotocol/tasks`): a call that goes on after it was answered.

A client declares with each request that it knows tasks. The server alone decides: it answers a call with the
result of the call, or with a task if the call takes long.

    client -> server   tools/call                            -> {resultType: "task", taskId, status, ...}
    client -> server   tasks/get {taskId}                    -> the task, as often as `pollIntervalMs` allows;
                       with `inputRequests`, `result` or `error` once there are any
    client -> server   tasks/update {taskId, inputResponses} -> {}: answers to the task's questions
    client -> server   tasks/cancel {taskId}                 -> {}, even if it comes too late
    client -> server   subscriptions/listen {notifications: {taskIds}}
    server -> client   notifications/tasks                   the result of tasks/get, after each change

The differences from the tasks of 2025-11-25 (mcp_ref/basic/utilities/tasks), which the same code runs:

                           2025-11-25                       this extension
    who decides            the requestor, with `task`       the server, if the client knows tasks
    the result             tasks/result, which waits        in tasks/get
    the task's questions   requests, beside tasks/result    `inputRequests` in tasks/get, then tasks/update
    a tool's isError       "failed"                         "completed"; "failed" is for JSON-RPC errors
    tasks/list, progress   yes                              no
    names                  ttl, pollInterval; nested        ttlMs, pollIntervalMs; flat

Server half   `plan_of`, `on_get`, `on_update`, `on_cancel`, `detailed`, `TaskListening`
Client half   `created`, `checked`, `Answers`, `is_created`

Revisions   2026-07-28, as an extension.
Errors      -32021 to a client that did not declare the extension; -32602 for a task that is unknown.
Threads     handlers run where requests run, and do not wait.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Literal, Protocol, Required, TypedDict

from mcp_ref.basic.index.error_responses import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    Error,
    ErrorResponse,
    InternalError,
    InvalidParams,
)
from mcp_ref.basic.index.general_fields import RequestMeta, ResultMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr.basic_workflow import (
    AnswersServers,
    InputRefused,
    InputRequests,
    InputResponses,
    check_requests,
    check_response,
    fulfilled,
    server_of,
)
from mcp_ref.basic.utilities.tasks.behavior_requirements import Receiver, TaskRun, record
from mcp_ref.basic.utilities.tasks.data_types import TaskIsOver, TaskStatus, Words, described, is_over
from mcp_ref.basic.utilities.tasks.protocol_messages import TaskTools
from mcp_ref.basic.versioning import LATEST, Method, require_capability
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.runtime.stores.store import Entry
from mcp_ref.runtime.typing.mismatch import must
from mcp_ref.schema import Mismatch, checker

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["EXTENSION", "Task", "TaskListening", "created", "detailed", "plan_of"]

EXTENSION = "io.modelcontextprotocol/tasks"  # spec: extensions/tasks/identifier

REQUIRED: Json = {"extensions": {EXTENSION: {}}}
"""The capabilities that a client must declare to use tasks."""

# spec: extensions/tasks/is-error-completed, extensions/tasks/failed-only-json-rpc
WORDS = Words("ttlMs", "pollIntervalMs", "completed")

# ---------------------------------------------------------------------------- shapes


class TaskTimes(TypedDict, total=False):
    """The fields of every task, whatever its status.  # spec: extensions/tasks/task-fields"""

    taskId: Required[str]
    statusMessage: str
    createdAt: Required[str]
    lastUpdatedAt: Required[str]
    ttlMs: Required[int | None]
    """Milliseconds from creation to deletion; None: unlimited."""
    pollIntervalMs: int


class Task(TaskTimes, total=False):
    status: Required[TaskStatus]


class CreateTaskResult(Task, total=False):
    _meta: ResultMeta
    resultType: Required[Literal["task"]]


class WorkingTask(TaskTimes, total=False):
    status: Required[Literal["working"]]


class InputRequiredTask(TaskTimes, total=False):
    status: Required[Literal["input_required"]]
    inputRequests: Required[InputRequests]


class CompletedTask(TaskTimes, total=False):
    status: Required[Literal["completed"]]
    result: Required[Json]


class FailedTask(TaskTimes, total=False):
    status: Required[Literal["failed"]]
    error: Required[Error]


class CancelledTask(TaskTimes, total=False):
    status: Required[Literal["cancelled"]]


BY_STATUS: dict[str, Any] = {
    "working": WorkingTask,
    "input_required": InputRequiredTask,
    "completed": CompletedTask,
    "failed": FailedTask,
    "cancelled": CancelledTask,
}
"""Status -> shape. A DetailedTask is one of these shapes."""


class TaskIdParams(TypedDict, total=False):
    _meta: Required[RequestMeta]
    taskId: Required[str]


class UpdateTaskParams(TypedDict, total=False):
    _meta: Required[RequestMeta]
    taskId: Required[str]
    inputResponses: Required[InputResponses]


class TaskSubscriptionNotifications(TypedDict, total=False):
    """What this extension adds to SubscriptionFilter: the tasks whose changes a client wants to hear of."""

    taskIds: list[str]


DEFINITIONS: dict[str, Any] = {
    "Task": Task,
    "TaskStatus": TaskStatus,
    "CreateTaskResult": CreateTaskResult,
    "TaskSubscriptionNotifications": TaskSubscriptionNotifications,
    "TaskSubscriptionAcknowledgedNotifications": TaskSubscriptionNotifications,
    **{shape.__name__: shape for shape in BY_STATUS.values()},
}

# ----------------------------------------------------------------------- server half


class TaskHost(Protocol):
    """What this page needs of the server."""

    @property
    def tasks(self) -> Receiver:
        """The tasks that it runs."""


class DecidedPlan:
    """The plan of a call that is a task because the server decides so (2026-07-28)."""

    words = WORDS
    ttl: int | None = None
    relates = False  # spec: extensions/tasks/no-progress-or-log

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once

    def created(self, task: Json) -> Json:
        """The CreateTaskResult. The store has the task already; its id is 128 random bits.

        # spec: extensions/tasks/result-type-task, extensions/tasks/create-result-flat
        # spec: extensions/tasks/durable-before-return, extensions/tasks/unguessable-ids
        """
        return {"resultType": "task", **task}

    def notify(self, run: TaskRun, entry: Entry) -> None:
        """Nothing to do: subscriptions tell clients of a change, on any connection (`Receiver.on_change`)."""


def is_declared(context: RequestContext) -> bool:
    """Whether this request declares that its client knows tasks; an earlier request does not count.

    # spec: extensions/tasks/legacy-capability-non-declaring
    """
    return is_known_to(context.client_capabilities)


def plan_of(tools: TaskTools, context: RequestContext) -> DecidedPlan | None:
    """The plan for this call of a tool, which may become a task; None for an ordinary call.

    Raises MissingRequiredClientCapability if the tool runs as a task only, and the client knows no tasks.
    # spec: extensions/tasks/server-decides, extensions/tasks/no-task-without-capability
    # spec: extensions/tasks/capability-required-32021, extensions/tasks/task-parameter-ignored
    # spec: extensions/tasks/mrtr-before-task
    """
    tool = tools.get(context.params["name"])
    if tool is None or tool.task_support == "forbidden":
        return None
    if tool.task_support == "required":
        require_capability(context, REQUIRED)
        return DecidedPlan(at_once=True)
    return DecidedPlan(at_once=False) if is_declared(context) else None


def check_handler_made(result: Json, context: RequestContext) -> None:
    """Check a task that a handler returned by itself: it must be a CreateTaskResult. Raises InternalError.

    A handler returns one to pass on the task of another server (`Server.on_request`).
    # spec: extensions/tasks/result-type-task-exclusive, extensions/tasks/reserved-prefixes
    """
    if not is_created(result):
        return
    if context.method != "tools/call" or context.handling.run is not None or not is_declared(context):
        raise InternalError(f"{context.method}: the handler returned a task where there must be none")
    try:
        checker(CreateTaskResult, LATEST.date, ("_meta",))(result)
    except Mismatch as problem:
        raise InternalError(f"{context.method}: the handler returned a task: {problem}") from None


def detailed(entry: Entry) -> Json:
    """The DetailedTask: the task, with the field of its status, if that has one.

    # spec: extensions/tasks/get-checks-status, extensions/tasks/get-working
    # spec: extensions/tasks/get-input-required, extensions/tasks/get-all-outstanding
    # spec: extensions/tasks/get-completed, extensions/tasks/get-failed, extensions/tasks/get-cancelled
    # spec: extensions/tasks/failed-error-field, extensions/tasks/failed-status-message
    # spec: extensions/tasks/notification-complete-state
    """
    task = described(entry, WORDS)
    if task["status"] == "input_required":
        task["inputRequests"] = entry.state["asked"]
    elif task["status"] == "completed":
        task["result"] = {"resultType": "complete", **json.loads(entry.outcome or b"{}")}
    elif task["status"] == "failed":
        task["error"] = json.loads(entry.outcome or b"{}")
    return task


def on_get(host: TaskHost, params: Json, context: RequestContext) -> Json:
    """The task as it is now, also one that was begun in 2025-11-25.

    # spec: extensions/tasks/get-result-type-complete, extensions/tasks/methods-capability-32021
    # spec: extensions/tasks/errors, extensions/tasks/unknown-task-get-32602
    # spec: extensions/tasks/legacy-tasks-served, extensions/tasks/auth-each-request
    """
    require_capability(context, REQUIRED)
    entry = host.tasks.find(params["taskId"], context.principal)
    if is_over(entry):
        record("retrieved", entry)
    return detailed(entry)


def on_update(host: TaskHost, params: Json, context: RequestContext) -> Json:
    """Take answers to outstanding questions of the task; all other answers are ignored.

    # spec: extensions/tasks/update-acknowledged, extensions/tasks/update-result-type
    # spec: extensions/tasks/stray-responses-ignored, extensions/tasks/partial-responses
    # spec: extensions/tasks/unknown-task-other-32602
    """
    require_capability(context, REQUIRED)
    if "inputResponses" not in params:
        raise InvalidParams("tasks/update: inputResponses: is required")
    if type(params["inputResponses"]) is not dict:  # its values are checked below, if they answer a question
        problem = must("be an object", params["inputResponses"])
        raise InvalidParams(f"tasks/update: inputResponses: {problem}")
    entry = host.tasks.find(params["taskId"], context.principal)
    asked = entry.state.get("asked", {})
    # spec: extensions/tasks/stray-responses-ignored, extensions/tasks/partial-responses
    answers = {key: answer for key, answer in params["inputResponses"].items() if key in asked}
    for key, answer in answers.items():  # check all of them before one is stored
        check_answer(key, asked[key]["method"], answer, context)
    for key, answer in answers.items():
        host.tasks.answer(entry.id, key, {"result": answer})
    return {}


def check_answer(key: str, method: str, answer: Any, context: RequestContext) -> None:
    """Check the answer to one question of a task. Raises InvalidParams.

    A task that was begun in a session of 2025-11-25 may ask what an input request cannot: that is refused.
    """
    if method not in server_of(context).input_requests:
        raise InvalidParams(f"inputResponses.{key:.80}: {method} is not asked in {context.revision}")
    check_response(key, method, answer, context)


def on_cancel(host: TaskHost, params: Json, context: RequestContext) -> Json:
    """Cancel the task, unless it is over.

    # spec: extensions/tasks/cancel-acknowledged, extensions/tasks/cancel-result-type
    # spec: extensions/tasks/cancel-other-terminal, extensions/tasks/cancel-cooperative
    """
    require_capability(context, REQUIRED)
    try:
        host.tasks.cancel(params["taskId"], context.principal, "The task was cancelled by request.")
    except TaskIsOver:
        pass  # it came too late, which is no error here
    return {}


class TaskListening:
    """What subscriptions need to know of tasks (basic/patterns/subscriptions/server)."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host

    def agreed_ids(self, wanted: Any, context: RequestContext) -> list[str]:
        """The ids, among those wanted, of tasks that this principal has. Raises InvalidParams, and -32021.

        # spec: extensions/tasks/ack-task-ids, extensions/tasks/listen-capability-32021
        # spec: extensions/tasks/status-notifications, extensions/tasks/notification-complete-state
        """
        require_capability(context, REQUIRED)
        if not isinstance(wanted, list) or not all(isinstance(task_id, str) for task_id in wanted):
            raise InvalidParams("subscriptions/listen: notifications.taskIds: must be a list of strings")
        return [task_id for task_id in dict.fromkeys(wanted) if self._is_there(task_id, context)]

    def _is_there(self, task_id: str, context: RequestContext) -> bool:
        try:
            self._host.tasks.find(task_id, context.principal)
        except InvalidParams:
            return False
        return True

    def described(self, task_id: str) -> Json | None:
        """The params of a notifications/tasks about a task as it is now; None if it is gone."""
        entry = self._host.tasks.store.get(task_id)
        return None if entry is None else detailed(entry)


# spec: extensions/tasks/supported-methods, extensions/tasks/tasks-result-32601
METHODS = (
    Method("tasks/get", on_get, since=LATEST.date, params=TaskIdParams, capability="tasks"),
    Method("tasks/update", on_update, since=LATEST.date, params=UpdateTaskParams, capability="tasks"),
    Method("tasks/cancel", on_cancel, since=LATEST.date, params=TaskIdParams, capability="tasks"),
)

# ----------------------------------------------------------------------- client half

MAX_KEYS = 1000
"""Questions of one task that a client answers; the next one raises InputRefused."""


def is_known_to(capabilities: Json) -> bool:
    """Whether a peer that declared these capabilities knows tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and EXTENSION in extensions


def is_required_by(problem: ErrorResponse) -> bool:
    """Whether a request was refused because its client did not declare this extension."""
    required = problem.data.get("requiredCapabilities") if isinstance(problem.data, dict) else None
    is_lacking = problem.code == MISSING_REQUIRED_CLIENT_CAPABILITY and isinstance(required, dict)
    return is_lacking and is_known_to(required or {})


def with_tasks(capabilities: Json) -> Json:
    """The capabilities of a client, with this extension."""
    extensions = capabilities.get("extensions", {})
    return {**capabilities, "extensions": {**extensions, EXTENSION: extensions.get(EXTENSION, {})}}


def without_tasks(capabilities: Json) -> Json:
    """The capabilities of a client, without this extension."""
    if not is_known_to(capabilities):
        return capabilities
    others = {name: settings for name, settings in capabilities["extensions"].items() if name != EXTENSION}
    return {**capabilities, "extensions": others}


def is_created(result: Any) -> bool:
    """Whether a request was answered with a task."""
    return isinstance(result, dict) and result.get("resultType") == "task"


def created(method: str, result: Json) -> Json:
    """The task in a CreateTaskResult. Raises InvalidResponse.

    # spec: extensions/tasks/unsupported-request-invalid, extensions/tasks/client-handles-both
    """
    if method != "tools/call":
        raise InvalidResponse(f"{method}: the server answered with a task, which it must not do here")
    _check(method, CreateTaskResult, result)
    return result


def checked(task: Json) -> Json:
    """The DetailedTask of a tasks/get or a notifications/tasks, if it is one. Raises InvalidResponse."""
    status = task.get("status")
    shape = BY_STATUS.get(status) if isinstance(status, str) else None
    if shape is None:
        raise InvalidResponse(f"tasks/get: there is no status {task.get('status')!r:.60}")
    _check("tasks/get", shape, task)
    return task


def _check(method: str, shape: Any, value: Json) -> None:
    try:
        checker(shape, LATEST.date, ("_meta",))(value)
    except Mismatch as problem:
        raise InvalidResponse(f"{method}: {problem}") from None


class Answers:
    """A client's answers to the questions of one task.

    May be used from any thread: each question is answered once, by the first thread that takes it. `_lock`
    guards `_taken` and `_unsent`.
    # spec: extensions/tasks/inputs-deduplicated, extensions/tasks/answered-keys-tracked
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[str] = set()
        self._unsent: Json = {}

    def gather(self, client: AnswersServers, asked: Json) -> None:
        """Answer the questions that are new, with the callbacks of the client.

        Raises InputRefused: no message can tell the server of a refusal, so the task goes on waiting. The
        refused question may be asked again.
        # spec: extensions/tasks/client-inspects-inputs, extensions/tasks/inputs-same-trust
        """
        check_requests(client, "tasks/get", asked)
        for key, request in asked.items():
            if not self._take(key):
                continue
            try:
                answer = fulfilled(client, "tasks/get", request)
            except BaseException:
                with self._lock:
                    self._taken.discard(key)
                raise
            with self._lock:
                self._unsent[key] = answer

    def _take(self, key: str) -> bool:
        with self._lock:
            if key in self._taken:
                return False
            if len(self._taken) >= MAX_KEYS:
                raise InputRefused(f"tasks/get: the task has asked {MAX_KEYS} questions already")
            self._taken.add(key)
            return True

    def unsent(self, asked: Json) -> Json:
        """The answers that the server does not have yet, to questions that it still asks.

        # spec: extensions/tasks/update-keys-outstanding
        """
        with self._lock:
            return {key: answer for key, answer in self._unsent.items() if key in asked}

    def sent(self, responses: Json) -> None:
        """Note that the server has these answers: they are not sent again."""
        with self._lock:
            for key in responses:
                self._unsent.pop(key, None)
