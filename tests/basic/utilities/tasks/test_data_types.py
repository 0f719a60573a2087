"""What a task is (page: basic/utilities/tasks, "Data Types" and "Task Status Lifecycle")."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import REVISIONS

from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.basic.utilities.tasks import data_types as tasks
from mcp_ref.basic.utilities.tasks.data_types import (
    FIELDS,
    TRANSITIONS,
    TaskIsOver,
    Words,
    abandoned,
    described,
    ended,
    is_over,
    related,
    related_as,
    step,
    timestamp,
    with_state,
)
from mcp_ref.runtime.stores.store import Entry
from mcp_ref.schema import Mismatch, checker, definitions, message_shapes

DATE = "2025-11-25"
TASK: dict[str, Any] = {
    "taskId": "786512e2",
    "status": "working",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:40:00Z",
    "ttl": 60000,
}
FINAL = ("completed", "failed", "cancelled")
EVENTS = ("ask", "answer", "complete", "fail", "cancel")

MESSAGES = {
    f"{task}{kind}"
    for task in ("GetTask", "GetTaskPayload", "CancelTask", "ListTasks")
    for kind in ("Request", "Result")
} | {"TaskStatusNotification", "TaskStatusNotificationParams"}


def without(member: str) -> dict[str, Any]:
    return {name: value for name, value in TASK.items() if name != member}


def entry(status: str = "working", **state: Any) -> Entry:
    """A task as a store has it."""
    found = {"status": status, "method": "tools/call", "updated": 2.0, "ttl": 60_000, "poll": 1000, **state}
    return Entry("786512e2", None, 1.0, 61.0, None if status in FINAL else "me", found)


# -- shapes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*tasks.DEFINITIONS, *sorted(MESSAGES)])
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_shapes_exist_in_2025_11_25_only(name: str, revision: str) -> None:
    assert (name in definitions(revision)) == (revision == DATE)


def test_the_ttl_that_is_asked_for_is_a_number_of_milliseconds_and_may_be_missing() -> None:
    check = checker(tasks.TaskMetadata, DATE)
    check({})
    check({"ttl": 60000})
    for wrong in ("long", None, 1.5, True):
        with pytest.raises(Mismatch, match="ttl"):
            check({"ttl": wrong})


@pytest.mark.parametrize("status", ["working", "input_required", "completed", "failed", "cancelled"])
def test_a_task_is_in_one_of_five_states(status: str) -> None:
    checker(tasks.Task, DATE)({**TASK, "status": status})


@pytest.mark.parametrize("member", TASK)
def test_a_task_has_all_of_its_members(member: str) -> None:
    with pytest.raises(Mismatch, match=member):
        checker(tasks.Task, DATE)(without(member))


@pytest.mark.spec("basic/utilities/tasks/id-string")
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


@pytest.mark.spec("basic/utilities/tasks/create-result-nested")
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


# -- related task metadata --------------------------------------------------------------------------

ABOUT = {tasks.RELATED_TASK: {"taskId": "t"}}


def test_what_belongs_to_a_task_says_so_beside_what_it_says_already() -> None:
    assert related({}, "t") == {"_meta": ABOUT}
    assert related({"a": 1, "_meta": {"b": 2}}, "t") == {"a": 1, "_meta": {"b": 2, **ABOUT}}
    assert related({"_meta": {tasks.RELATED_TASK: 5}}, "t") == {"_meta": ABOUT}
    assert related({"_meta": "text"}, "t") == {"_meta": ABOUT}


@pytest.mark.spec(
    "basic/utilities/tasks/related-task-everywhere",
    "basic/utilities/tasks/related-task-metadata",
    "basic/utilities/tasks/related-task-exempt",
)
@pytest.mark.parametrize(
    ("method", "params", "is_related"),
    [
        ("elicitation/create", {"_meta": ABOUT}, True),
        ("elicitation/create", {"_meta": {tasks.RELATED_TASK: {"taskId": "t", "more": 1}}}, True),
        ("elicitation/create", {"_meta": {}}, False),
        ("elicitation/create", {"taskId": "t"}, False),
        ("elicitation/create", {"_meta": 5}, False),
        ("elicitation/create", {"_meta": {tasks.RELATED_TASK: "t"}}, False),
        ("elicitation/create", {"_meta": {tasks.RELATED_TASK: {"taskId": 5}}}, False),
        ("tasks/result", {"taskId": "t", "_meta": {tasks.RELATED_TASK: {"taskId": "another"}}}, True),
        ("tasks/get", {"taskId": "t", "_meta": ABOUT}, False),
        ("tasks/cancel", {"taskId": "t", "_meta": ABOUT}, False),
        ("tasks/list", {"_meta": ABOUT}, False),
    ],
)
def test_what_is_said_of_a_request_belongs_to_the_task_of_the_request(
    method: str, params: dict[str, Any], is_related: bool
) -> None:
    assert related_as(method, params, {"a": 1}) == ({"a": 1, "_meta": ABOUT} if is_related else {"a": 1})


# -- the table of transitions ----------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/valid-transitions")
def test_the_table_has_the_moves_of_the_page_and_no_others() -> None:
    """basic/utilities/tasks#task-status-lifecycle; a further question leaves a task where it is."""
    moves = {(at, to) for at, following in TRANSITIONS.items() for to in following.values()}
    assert moves == {
        ("working", "input_required"),
        ("input_required", "working"),
        ("input_required", "input_required"),
        *itertools.product(("working", "input_required"), FINAL),
    }


@pytest.mark.spec("basic/utilities/tasks/terminal-is-final")
@pytest.mark.parametrize(("status", "event"), [*itertools.product(FINAL, EVENTS)])
def test_no_event_leads_out_of_a_final_status(status: str, event: Any) -> None:
    assert is_over(entry(status))
    with pytest.raises(TaskIsOver, match=status) as caught:
        step(entry(status), event)
    assert isinstance(caught.value, InvalidParams)


@pytest.mark.spec("basic/utilities/tasks/valid-transitions", "basic/utilities/tasks/terminal-is-final")
@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_whatever_happens_a_task_follows_the_table_and_stays_where_it_ends(events: list[Any]) -> None:
    task, end = entry(), None
    for event in events:
        before = task.state["status"]
        try:
            task = step(task, event)
        except TaskIsOver:
            assert event not in TRANSITIONS[before]  # type: ignore[index]
        else:
            assert end is None
            assert task.state["status"] == TRANSITIONS[before][event]  # type: ignore[index]
        if is_over(task):
            end = task.state["status"]
    assert end in (None, task.state["status"])


def test_a_task_that_waits_for_no_answer_takes_none() -> None:
    with pytest.raises(TaskIsOver):
        step(entry("working"), "answer")


def test_a_change_leaves_the_entry_before_it_as_it_was_and_says_when() -> None:
    before = entry(message="one", asked={"k": {}})
    after = with_state(before, {"message": "two", "asked": None})
    assert (before.state["message"], before.state["updated"]) == ("one", 2.0)
    assert after.state["message"] == "two"
    assert "asked" not in after.state
    assert after.state["updated"] > before.state["updated"]


def test_a_task_that_is_kept_for_ever_stays_so() -> None:
    assert with_state(entry(ttl=None), {"message": "x"}).state["ttl"] is None


def test_the_end_of_a_task_forgets_what_it_asked_and_who_ran_it() -> None:
    task = entry("input_required", asked={"k": {}}, answers={"j": {}}, count=2)
    over = ended(task, "complete", b"{}", message="m")
    assert (over.runner, over.outcome, over.state["status"]) == (None, b"{}", "completed")
    assert not over.state.keys() & {"asked", "answers", "count"}


@pytest.mark.parametrize("status", ["working", "input_required"])
def test_a_task_that_was_interrupted_failed_and_says_why(status: str) -> None:
    over = abandoned(entry(status))
    assert over.state["status"] == "failed"
    assert "what ran it has ended" in over.state["message"]
    assert json.loads(over.outcome or b"") == {"code": -32603, "message": over.state["message"]}


# -- a task in words -------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/utilities/tasks/created-at",
    "basic/utilities/tasks/last-updated-at",
    "basic/utilities/tasks/ttl-actual",
    "basic/utilities/tasks/poll-interval",
)
def test_a_task_is_told_with_its_times() -> None:
    told = described(entry(message="half"))
    checker(tasks.Task, DATE)(told)
    assert told == {
        "taskId": "786512e2",
        "status": "working",
        "statusMessage": "half",
        "createdAt": "1970-01-01T00:00:01.000Z",
        "lastUpdatedAt": "1970-01-01T00:00:02.000Z",
        "ttl": 60_000,
        "pollInterval": 1000,
    }


def test_what_a_task_has_not_said_is_left_out_and_an_endless_ttl_is_null() -> None:
    told = described(entry(ttl=None))
    assert told["ttl"] is None
    assert "statusMessage" not in told


@pytest.mark.spec("basic/utilities/tasks/failed-status")
def test_a_tool_that_says_it_failed_is_told_in_the_words_of_the_era() -> None:
    over = ended(entry(), "complete", b"{}", is_error=True)
    assert described(over, FIELDS)["status"] == "failed"
    modern = described(over, Words("ttlMs", "pollIntervalMs", "completed"))
    assert (modern["status"], modern["ttlMs"], modern["pollIntervalMs"]) == ("completed", 60_000, 1000)


@pytest.mark.spec("basic/utilities/tasks/created-at", "basic/utilities/tasks/last-updated-at")
@given(st.floats(0, 4e9))
def test_a_time_is_told_in_utc_to_the_millisecond(seconds: float) -> None:
    said = timestamp(seconds)
    assert said.endswith("Z")
    assert len(said) == len("2025-11-25T10:30:00.000Z")
    read = datetime.fromisoformat(said)
    assert read.tzinfo == UTC
    assert abs(read.timestamp() - seconds) <= 0.001
