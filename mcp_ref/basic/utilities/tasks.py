"""Tasks as of 2025-11-25 (page: basic/utilities/tasks): the shapes.

Either side may ask for a request to be run as a task, and fetch what comes of it later.

    requestor -> receiver   tools/call {..., task: {ttl?}}     -> {task: Task}
    requestor -> receiver   tasks/get {taskId}                 -> Task
    requestor -> receiver   tasks/result {taskId}              -> what the request itself would give
    requestor -> receiver   tasks/cancel {taskId}, tasks/list {cursor?}
    receiver -> requestor   notifications/tasks/status Task

Revisions   2025-11-25 only; an extension in 2026-07-28.
Errors      none of its own.
Threads     shapes alone: nothing runs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Required, TypedDict

from mcp_ref.basic.index.error_responses import MethodNotFound
from mcp_ref.basic.index.general_fields import NotificationMeta, RequestMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import Method, Notification
from mcp_ref.schema import since, until

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["RELATED_TASK", "Task", "TaskMetadata", "TaskStatus"]

RELATED_TASK = "io.modelcontextprotocol/related-task"
"""The member of `_meta` that says which task a message belongs to, as RelatedTaskMetadata."""

# ---------------------------------------------------------------------------- shapes

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskMetadata(TypedDict, total=False):
    """On a request: run this as a task, and keep its result for so many milliseconds."""

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
    """Milliseconds from its creation; None for ever."""
    pollInterval: int


class TaskAugmentedRequestParams(TypedDict, total=False):
    _meta: RequestMeta
    task: TaskMetadata


class CreateTaskResult(TypedDict, total=False):
    """What answers at once to a request that is run as a task."""

    _meta: Json
    task: Required[Task]  # spec: basic/utilities/tasks/create-result-nested


class TaskIdParams(TypedDict, total=False):
    """Which task is meant."""

    taskId: Required[str]


class GetTaskResult(Task, total=False):
    _meta: Json


class GetTaskPayloadResult(TypedDict, total=False):
    """Whatever the request would have given that the task is of."""

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

# -------------------------------------------------------------------------- messages


def refuse(endpoint: Any, params: Json, context: RequestContext) -> NoReturn:
    """Answer a request about tasks. No endpoint of ours runs any: the rows are here for their shapes."""
    raise MethodNotFound(f"{context.method}: there are no tasks here")


_TASKS: Json = {"since": "2025-11-25", "until": "2025-11-25", "sender": "either"}
METHODS = (
    Method("tasks/get", refuse, params=TaskIdParams, result=GetTaskResult, **_TASKS),
    Method("tasks/result", refuse, params=TaskIdParams, result=GetTaskPayloadResult, **_TASKS),
    Method("tasks/cancel", refuse, params=TaskIdParams, result=CancelTaskResult, **_TASKS),
    # By name: `basic` stands below `server`, whose page on pagination has this shape.
    Method("tasks/list", refuse, params="ListParams", result=ListTasksResult, **_TASKS),
)
NOTIFICATIONS = (
    Notification("notifications/tasks/status", "TaskStatus", params=TaskStatusNotificationParams, **_TASKS),
)
