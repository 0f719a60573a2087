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

from typing import Annotated, Any, Literal, Required, TypedDict

from mcp_ref.basic.index.general_fields import NotificationMeta, RequestMeta
from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.schema import since, until
from mcp_ref.server.utilities.pagination import PaginatedRequestParams

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


class GetTaskRequest(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: Required[RequestId]
    method: Required[Literal["tasks/get"]]
    params: Required[TaskIdParams]


class GetTaskPayloadRequest(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: Required[RequestId]
    method: Required[Literal["tasks/result"]]
    params: Required[TaskIdParams]


class CancelTaskRequest(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: Required[RequestId]
    method: Required[Literal["tasks/cancel"]]
    params: Required[TaskIdParams]


class ListTasksRequest(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: Required[RequestId]
    method: Required[Literal["tasks/list"]]
    params: PaginatedRequestParams


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


class TaskStatusNotification(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    method: Required[Literal["notifications/tasks/status"]]
    params: Required[TaskStatusNotificationParams]


_SHAPES: dict[str, Any] = {
    "CancelTaskRequest": CancelTaskRequest,
    "CancelTaskResult": CancelTaskResult,
    "CreateTaskResult": CreateTaskResult,
    "GetTaskPayloadRequest": GetTaskPayloadRequest,
    "GetTaskPayloadResult": GetTaskPayloadResult,
    "GetTaskRequest": GetTaskRequest,
    "GetTaskResult": GetTaskResult,
    "ListTasksRequest": ListTasksRequest,
    "ListTasksResult": ListTasksResult,
    "RelatedTaskMetadata": RelatedTaskMetadata,
    "Task": Task,
    "TaskAugmentedRequestParams": TaskAugmentedRequestParams,
    "TaskMetadata": TaskMetadata,
    "TaskStatus": TaskStatus,
    "TaskStatusNotification": TaskStatusNotification,
    "TaskStatusNotificationParams": TaskStatusNotificationParams,
}
DEFINITIONS: dict[str, Any] = {
    name: Annotated[shape, since("2025-11-25"), until("2025-11-25")] for name, shape in _SHAPES.items()
}
