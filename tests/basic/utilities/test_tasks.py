"""Tasks as of 2025-11-25 (page: basic/utilities/tasks): the shapes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from peers import REVISIONS

from mcp_ref.api.server import ROWS
from mcp_ref.basic.index.error_responses import MethodNotFound
from mcp_ref.basic.utilities import tasks
from mcp_ref.schema import Mismatch, checker, definitions, message_shapes

DATE = "2025-11-25"
TASK: dict[str, Any] = {
    "taskId": "786512e2",
    "status": "working",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:40:00Z",
    "ttl": 60000,
}


MESSAGES = {
    f"{task}{kind}"
    for task in ("GetTask", "GetTaskPayload", "CancelTask", "ListTasks")
    for kind in ("Request", "Result")
} | {"TaskStatusNotification", "TaskStatusNotificationParams"}


def without(member: str) -> dict[str, Any]:
    return {name: value for name, value in TASK.items() if name != member}


@pytest.mark.parametrize("name", [*tasks.DEFINITIONS, *sorted(MESSAGES)])
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_shapes_exist_in_2025_11_25_only(name: str, revision: str) -> None:
    assert (name in definitions(revision)) == (revision == DATE)


def test_the_ttl_that_is_asked_for_is_a_number_of_milliseconds_and_may_be_missing() -> None:
    check = checker(tasks.TaskMetadata, DATE)
    check({})
    check({"ttl": 60000})
    with pytest.raises(Mismatch, match="ttl"):
        check({"ttl": "long"})


@pytest.mark.parametrize("status", ["working", "input_required", "completed", "failed", "cancelled"])
def test_a_task_is_in_one_of_five_states(status: str) -> None:
    checker(tasks.Task, DATE)({**TASK, "status": status})


@pytest.mark.parametrize("member", TASK)
def test_a_task_has_all_of_its_members(member: str) -> None:
    with pytest.raises(Mismatch, match=member):
        checker(tasks.Task, DATE)(without(member))


@pytest.mark.parametrize(
    ("member", "wrong"),
    [
        ("taskId", 7),
        ("status", "done"),
        ("createdAt", 1764066600),
        ("ttl", "forever"),
        ("pollInterval", "5s"),
        ("statusMessage", 1),
    ],
)
def test_a_task_with_a_wrong_member_is_none(member: str, wrong: Any) -> None:
    with pytest.raises(Mismatch, match=member):
        checker(tasks.Task, DATE)({**TASK, member: wrong})


def test_a_task_may_be_kept_for_ever() -> None:
    checker(tasks.Task, DATE)({**TASK, "ttl": None})


def test_what_a_task_is_created_with_stands_below_task() -> None:
    check = checker(tasks.CreateTaskResult, DATE)
    check({"task": TASK})
    with pytest.raises(Mismatch, match="task"):
        check(TASK)


@pytest.mark.parametrize("shape", [tasks.GetTaskResult, tasks.CancelTaskResult])
def test_the_state_of_a_task_is_the_result_itself(shape: Any) -> None:
    check = checker(shape, DATE)
    check({**TASK, "_meta": {"com.example/a": 1}})
    with pytest.raises(Mismatch):
        check({"task": TASK})


def test_a_status_notification_carries_the_whole_task() -> None:
    check = checker(message_shapes(DATE)["TaskStatusNotification"], DATE)
    message = {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": TASK}
    check(message)
    with pytest.raises(Mismatch, match="status"):
        check({**message, "params": without("status")})


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("GetTaskRequest", "tasks/get"),
        ("GetTaskPayloadRequest", "tasks/result"),
        ("CancelTaskRequest", "tasks/cancel"),
    ],
)
def test_a_request_about_a_task_names_it(name: str, method: str) -> None:
    check = checker(message_shapes(DATE)[name], DATE)
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": "786512e2"}}
    check(message)
    with pytest.raises(Mismatch, match="taskId"):
        check({**message, "params": {}})
    with pytest.raises(Mismatch, match="method"):
        check({**message, "method": "tasks/list"})


def test_tasks_are_listed_in_pages() -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tasks/list"}
    check = checker(message_shapes(DATE)["ListTasksRequest"], DATE)
    check(listing)
    check({**listing, "params": {"cursor": "x"}})
    with pytest.raises(Mismatch, match="cursor"):
        check({**listing, "params": {"cursor": 1}})
    check = checker(tasks.ListTasksResult, DATE)
    check({"tasks": [TASK], "nextCursor": "x"})
    with pytest.raises(Mismatch, match=r"tasks\[0\].ttl"):
        check({"tasks": [without("ttl")]})


def test_the_result_of_a_task_is_whatever_its_request_would_give() -> None:
    checker(tasks.GetTaskPayloadResult, DATE)(
        {"content": [], "_meta": {tasks.RELATED_TASK: {"taskId": "786512e2"}}}
    )


def test_no_endpoint_answers_requests_about_tasks() -> None:
    assert not {row.name for row in tasks.METHODS} & {row.name for row in ROWS}
    with pytest.raises(MethodNotFound, match="tasks/get"):
        tasks.refuse(None, {"taskId": "786512e2"}, SimpleNamespace(method="tasks/get"))
