"""The comparison of the shapes of tasks with an official schema finds what differs, and nothing else."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import task_shapes

from mcp_ref.extensions import tasks

NAMES = [
    *tasks.DEFINITIONS,
    "DetailedTask",
    "GetTaskRequest",
    "GetTaskResult",
    "UpdateTaskRequest",
]
NAMES += ["TaskStatusNotification", "TaskStatusNotificationParams"]


def official(**changed: Any) -> dict[str, Any]:
    """A schema that says what ours says, but for these definitions."""
    ours = copy.deepcopy(task_shapes.our_definitions())
    return {"$defs": {**ours, **changed}}


def ours(name: str) -> Any:
    return copy.deepcopy(task_shapes.our_definitions()[name])


def differences(schema: dict[str, Any], *more: str) -> list[str]:
    return task_shapes.compare(schema, [*NAMES, *more])[1]


def test_what_says_the_same_has_no_differences() -> None:
    assert task_shapes.compare(official(), NAMES) == (len(NAMES), [])


def test_a_member_that_is_missing_or_too_many_is_named() -> None:
    task = ours("Task")
    task["properties"]["colour"] = task["properties"].pop("statusMessage")
    assert differences(official(Task=task)) == [
        "Task.statusMessage: is not in the official schema",
        "Task.colour: is missing",
    ]


def test_a_member_that_is_required_by_one_side_only_is_named() -> None:
    task = ours("Task")
    task["required"].remove("ttlMs")
    (found,) = differences(official(Task=task))
    assert found.startswith("Task: required are ['createdAt', ")


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": ["integer", "null"], "minimum": 0},
        {"anyOf": [{"type": "number"}, {"type": "null"}]},
        True,
    ],
)
def test_another_type_is_named(changed: Any) -> None:
    task = ours("Task")
    task["properties"]["ttlMs"] = changed
    found = differences(official(Task=task))
    assert found
    assert all(line.startswith("Task.ttlMs") for line in found)


def test_another_status_is_named() -> None:
    task = ours("Task")
    task["properties"]["status"]["enum"].append("paused")
    (found,) = differences(official(Task=task))
    assert found.startswith("Task.status: ")


def test_one_alternative_that_differs_is_found_within_all() -> None:
    changed = ours("DetailedTask")
    changed["anyOf"] = [{"type": "string"}, *changed["anyOf"][1:]]
    found = differences(official(DetailedTask=changed))
    assert found
    assert {line.partition("(")[0].partition(":")[0].partition(".")[0] for line in found} <= {
        "DetailedTask",
        "GetTaskResult",
        "TaskStatusNotificationParams",
        "TaskStatusNotification",
    }


def test_a_definition_that_is_not_ours_is_named() -> None:
    assert differences(official(PausedTask={"type": "object"}), "PausedTask") == [
        "PausedTask: no such definition is ours",
    ]


def test_the_same_may_be_written_in_another_way() -> None:
    """By name or in full, composed or not, constants one by one; and the bound that all integers have."""
    task = ours("Task")
    status = [{"type": "string", "const": value} for value in reversed(task["properties"]["status"]["enum"])]
    whole = {"type": "integer", "minimum": -(2**53 - 1), "maximum": 2**53 - 1}
    task["properties"] |= {"status": {"anyOf": status}, "ttlMs": {"anyOf": [{"type": "null"}, whole]}}
    half = {"type": "object", "properties": {"taskId": task["properties"].pop("taskId")}}
    assert differences(official(Task={"allOf": [half, task]})) == []


def test_the_command_counts_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ext-tasks.json"
    path.write_text(json.dumps({"$defs": {"Task": ours("Task")}}))
    assert task_shapes.main([str(path)]) == 0
    assert capsys.readouterr().out.startswith("0 differences in ")
    path.write_text(json.dumps({"$defs": {"Task": {"type": "string"}}}))
    assert task_shapes.main([str(path)]) == 1
    assert "Task: " in capsys.readouterr().out
