"""The loop that kills servers of tasks (task_kills.py), a few times; `.ci/run` has it go on for longer."""

import task_kills


def test_no_task_is_lost_or_stuck_or_has_another_result_after_its_server_was_killed(tmp_path):
    assert task_kills.run(8, tmp_path, seed=7) == 0


def test_the_loop_finds_what_it_is_for():
    task = {"taskId": "x", "status": "completed", "result": {"structuredContent": {"square": 9}}}
    assert task_kills.faults_of(task, 3, None) == []
    assert task_kills.faults_of({"taskId": "x", "status": "working"}, 3, None) == ["stuck: x is working"]
    assert task_kills.faults_of(task, 4, None)[0].startswith("wrong: x")
    assert task_kills.faults_of(task, 3, "something else")[0].startswith("changed: x")
    failed = {"taskId": "x", "status": "failed", "error": {"code": -32603, "message": "for whatever reason"}}
    assert task_kills.faults_of(failed, 3, None)[0].startswith("failed without a reason")
