"""runtime/audit: one line for each call, whatever text is in it."""

import logging

import pytest

from mcp_ref.runtime import audit


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "mcp_ref.audit")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "mcp_ref.audit"]


def test_a_line_says_what_was_called_for_whom_and_how_it_ended(lines):
    audit.record("served", {"name": "add", "arguments": {"a": 1}}, "done", "alice", False)
    assert lines() == ["served tools/call add for alice: done"]


def test_arguments_are_in_it_only_when_they_are_asked_for(lines):
    audit.record("made", {"name": "add", "arguments": {"a": 1}}, "done", "demo", True)
    audit.record("made", {"name": "add"}, "done", "demo", True)
    assert lines() == ["made tools/call add for demo: done {'a': 1}", "made tools/call add for demo: done {}"]


@pytest.mark.spec("server/tools/log-usage")
def test_what_a_stranger_wrote_begins_no_line_of_its_own(lines):
    audit.record("served", {"name": "add\nserved tools/call root"}, "failed:\r\nx", "a\u2028b", True)
    (line,) = lines()
    assert len(line.splitlines()) == 1
    assert "add\\nserved" in line


def test_long_names_and_arguments_are_cut(lines):
    audit.record("served", {"name": "n" * 1000, "arguments": {"a": "x" * 10_000}}, "done", "-", True)
    (line,) = lines()
    assert "n" * 128 in line and "n" * 129 not in line and len(line) < 2300


def test_a_line_about_a_task_has_the_beginning_of_its_id_alone(lines):
    audit.record_task("completed", "tools/call", "0123456789abcdef", None)
    audit.record_task("created", "tools/call", "0123456789abcdef", "alice\nroot")
    assert lines() == [
        "task 01234567 of tools/call for -: completed",
        "task 01234567 of tools/call for alice\\nroot: created",
    ]
