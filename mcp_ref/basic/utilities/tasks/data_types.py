"""What a task is (page: basic/utilities/tasks, "Data Types" and "Task Status Lifecycle").

    working  <->  input_required         either  ->  completed, failed or cancelled, which are final

Only `step` changes the status of a task, by one table (`TRANSITIONS`).

A store keeps a task as an entry (runtime/stores/store). Its `state` is a `TaskState`; its runner is the
process that works on the task, and None once the status is final. The two eras describe the same entry with
different field names (`Words`), and give a tool that says it failed different statuses: see `described`.

Revisions   2025-11-25: `Task`. 2026-07-28: the same with other names (mcp_ref/extensions/tasks).
Errors      TaskIsOver: the table has no such step.
Threads     plain values and functions.
"""

from __future__ import annotations

import functools
import time
import typing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.error_responses import Error, InternalError, InvalidParams
from mcp_ref.basic.index.general_fields import NotificationMeta, RequestMeta
from mcp_ref.basic.index.messages import NO_JSON_FORM, Json
from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.stores.store import Entry
from mcp_ref.schema import since, until

__all__ = [
    "RELATED_TASK",
    "Task",
    "TaskIsOver",
    "TaskMetadata",
    "TaskState",
    "TaskStatus",
    "described",
    "related",
    "related_as",
    "step",
]

_log = logger("mcp_ref.tasks")

RELATED_TASK = "io.modelcontextprotocol/related-task"
"""The key in `_meta` under which a message names the task it belongs to, as RelatedTaskMetadata."""

# ---------------------------------------------------------------------------- shapes

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskMetadata(TypedDict, total=False):
    """`task` in the params of a request: run this as a task, and keep its result for `ttl` milliseconds."""

    ttl: int


class RelatedTaskMetadata(TypedDict, total=False):
    taskId: Required[str]


class Task(TypedDict, total=False):
    taskId: Required[str]  # spec: basic/utilities/tasks/id-string
    status: Required[TaskStatus]
    statusMessage: str
    createdAt: Required[str]
    lastUpdatedAt: Required[str]
    ttl: Required[int | None]
    """Milliseconds from creation to deletion; None: unlimited."""
    pollInterval: int


class TaskAugmentedRequestParams(TypedDict, total=False):
    _meta: RequestMeta
    task: TaskMetadata


class CreateTaskResult(TypedDict, total=False):
    """The result of a request that is run as a task, sent at once."""

    _meta: Json
    task: Required[Task]


class TaskIdParams(TypedDict, total=False):
    """The params of tasks/get, tasks/result and tasks/cancel."""

    taskId: Required[str]


class GetTaskResult(Task, total=False):
    _meta: Json


class GetTaskPayloadResult(TypedDict, total=False):
    """The result of tasks/result: that of the request which became the task, whatever its type."""

    _meta: Json


class CancelTaskResult(Task, total=False):
    _meta: Json


class ListTasksResult(TypedDict, total=False):
    _meta: Json
    tasks: Required[list[Task]]
    nextCursor: str


class TaskStatusNotificationParams(Task, total=False):
    _meta: NotificationMeta


_SHAPES: dict[str, Any] = {
    "CreateTaskResult": CreateTaskResult,
    "RelatedTaskMetadata": RelatedTaskMetadata,
    "Task": Task,
    "TaskAugmentedRequestParams": TaskAugmentedRequestParams,
    "TaskMetadata": TaskMetadata,
    "TaskStatus": TaskStatus,
}
DEFINITIONS: dict[str, Any] = {
    name: Annotated[shape, since("2025-11-25"), until("2025-11-25")] for name, shape in _SHAPES.items()
}

# ------------------------------------------------------------------------ related task metadata


def related(said: Json, task_id: str) -> Json:
    """The params of a message, or a result, with the id of the task that it belongs to in `_meta`."""
    meta = said.get("_meta")
    meta = meta if isinstance(meta, dict) else {}  # a hook may have made it
    return {**said, "_meta": {**meta, RELATED_TASK: {"taskId": task_id}}}


def related_as(method: str, params: Json, said: Json) -> Json:
    """The result of a request, or the params of a notification about it, related to the request's own task.

    Unchanged if the request belongs to no task.

    # spec: basic/utilities/tasks/related-task-metadata
    """
    task_id = _task_of(method, params)
    return said if task_id is None else related(said, task_id)


def _task_of(method: str, params: Json) -> str | None:
    """The id of the task that a request belongs to; None if it belongs to none.

    Of the requests about tasks, only tasks/result belongs to the task that it names.

    # spec: basic/utilities/tasks/related-task-exempt
    """
    if method.startswith("tasks/"):
        task: Any = params if method == "tasks/result" else None
    else:
        meta = params.get("_meta")
        task = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
    task_id = task.get("taskId") if isinstance(task, dict) else None
    return task_id if isinstance(task_id, str) else None


# ----------------------------------------------------------------- the status, and what changes it

TaskEvent: TypeAlias = Literal["ask", "answer", "complete", "fail", "cancel"]

# spec: basic/utilities/tasks/valid-transitions, basic/utilities/tasks/terminal-is-final
TRANSITIONS: dict[TaskStatus, dict[TaskEvent, TaskStatus]] = {
    "working": {
        "ask": "input_required",
        "complete": "completed",
        "fail": "failed",
        "cancel": "cancelled",
    },
    "input_required": {
        "ask": "input_required",
        "answer": "working",
        "complete": "completed",
        "fail": "failed",
        "cancel": "cancelled",
    },
    "completed": {},
    "failed": {},
    "cancelled": {},
}
"""Status -> event -> the next status. An event that is not listed comes too late."""

FINAL = frozenset(status for status, following in TRANSITIONS.items() if not following)
"""The statuses that never change again."""


class TaskState(TypedDict, total=False):
    """The `state` of a task's entry: what is stored besides its owner, its times and its outcome."""

    status: Required[TaskStatus]
    message: str
    """For people: what is being done, or what went wrong."""
    method: Required[str]
    """The method of the request that runs."""
    updated: Required[float]
    """When the state last changed, in seconds since 1970."""
    ttl: Required[int | None]
    """Milliseconds from creation to deletion."""
    poll: Required[int]
    """Milliseconds that the requestor is asked to wait between two requests tasks/get."""
    asked: dict[str, Json]
    """The questions that wait for an answer: key -> {method, params}."""
    answers: dict[str, Json]
    """The answers to earlier questions: key -> {result}, {error}, or {invalid: why}."""
    count: int
    """How many questions were asked so far. It makes the key of the next one unique."""
    is_error: bool
    """Whether the outcome is the result of a tool that says it failed."""


class TaskIsOver(InvalidParams):
    """The status of a task is final: the event comes too late."""

    def __init__(self, event: str, status: str) -> None:
        super().__init__(f"Cannot {event} task: already in terminal status {status!r}")


def step(entry: Entry, event: TaskEvent, **changes: Any) -> Entry:
    """The task after an event; `changes` are members of its state. Raises TaskIsOver.

    Every change of a status goes through this function.
    """
    state = typing.cast(TaskState, entry.state)
    following = TRANSITIONS[state["status"]].get(event)
    if following is None:
        raise TaskIsOver(event, state["status"])
    return with_state(entry, {**changes, "status": following})


def with_state(entry: Entry, changes: Json) -> Entry:
    """The task with these members of its state changed; a member that is None is removed."""
    state = {**entry.state, **changes, "updated": time.time()}
    if isinstance(state.get("message"), str):
        state["message"] = writable(state["message"])
    return replace(entry, state={name: value for name, value in state.items() if _is_kept(name, value)})


def writable(message: str) -> str:
    """A message for people that UTF-8 can encode: half a surrogate pair is written as an escape."""
    return message.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_kept(name: str, value: Any) -> bool:
    return name == "ttl" or value is not None


def ended(entry: Entry, event: TaskEvent, outcome: bytes, **changes: Any) -> Entry:
    """The task after its end, with its outcome: without a runner, and without its questions and answers."""
    over = step(entry, event, asked=None, answers=None, count=None, **changes)
    return replace(over, runner=None, outcome=outcome)


def error_text(error: Error) -> bytes:
    """A JSON-RPC error as the outcome of a task, in bytes."""
    try:
        return to_json(error).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        _log.exception("the error of a task has no JSON form")
        return to_json({"code": error["code"], "message": NO_JSON_FORM}).encode("utf-8")


def abandoned(entry: Entry) -> Entry:
    """The task after its process, or its server or client, has ended: failed, with a message that says so."""
    problem = InternalError("The task was interrupted, since what ran it has ended; start it again.")
    return ended(entry, "fail", error_text(problem.to_wire()), message=problem.message)


def is_over(entry: Entry) -> bool:
    """Whether the status of a task is final."""
    return entry.state["status"] in FINAL


# ------------------------------------------------------------------ a task, as its requestor sees it


class Words(NamedTuple):
    """How an era describes a task: the names of two fields, and one status."""

    ttl: str
    poll: str
    tool_error: TaskStatus
    """The status of a task whose tool says that it failed."""


# spec: basic/utilities/tasks/failed-status
FIELDS = Words("ttl", "pollInterval", "failed")
"""The words of 2025-11-25."""


def described(entry: Entry, words: Words = FIELDS) -> Json:
    """The task as its requestor gets it: the fields of `Task`, in the words of its era.

    # spec: basic/utilities/tasks/created-at, basic/utilities/tasks/last-updated-at
    # spec: basic/utilities/tasks/ttl-actual, basic/utilities/tasks/poll-interval
    # spec: basic/utilities/tasks/failed-status-message
    """
    state = typing.cast(TaskState, entry.state)
    task: Json = {
        "taskId": entry.id,
        "status": words.tool_error if state.get("is_error") else state["status"],
    }
    if "message" in state:
        task["statusMessage"] = state["message"]
    task["createdAt"], task["lastUpdatedAt"] = timestamp(entry.created), timestamp(state["updated"])
    task[words.ttl], task[words.poll] = state["ttl"], state["poll"]
    return task


def timestamp(seconds: float) -> str:
    """A time as an ISO 8601 timestamp in UTC, with milliseconds."""
    whole = int(seconds)
    return f"{_to_the_second(whole)}.{int(1000 * (seconds - whole)):03d}Z"


@functools.lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
