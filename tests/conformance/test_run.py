"""The gate of the conformance suite: what makes it shut. And what run.py starts, it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from peers import nothing_left, port_kept
from web import Request, Wire, web

sys.path.insert(1, str(Path(__file__).resolve().parent))

import gate
import run

HERE = Path(__file__).resolve().parent
TIME = "2026-07-28T12-00-00-000Z"
WANTED = {"ping": 2, "tools_call": 1}
SKIPPED = {"tasks-status-notifications"}
"""Scenarios that this version of the suite has, and skips whatever a server does."""


def left(results: Path, name: str, *statuses: str, said: str | None = "hello\ndone\n", **more: Any) -> None:
    """What the suite leaves of one scenario."""
    directory = results / f"{name}-{TIME}"
    directory.mkdir(parents=True)
    checks = [{"id": f"check-{n}", "status": status, **more} for n, status in enumerate(statuses)]
    (directory / "checks.json").write_text(json.dumps(checks))
    if said is not None:
        (directory / "stdout.txt").write_text(said)


def faults(results: Path, side: str = "client", wanted: dict[str, int] = WANTED) -> list[str]:
    return gate.judge(results, side, wanted).faults


# -------------------------------------------------------------------------------- the gate


def test_all_is_well(tmp_path: Path) -> None:
    left(tmp_path, "ping", "SUCCESS", "SUCCESS", "SUCCESS", "INFO", "SKIPPED")
    left(tmp_path, "tools_call", "SUCCESS")
    report = gate.judge(tmp_path, "client", WANTED)
    assert report.faults == []
    assert [(v.scenario, v.succeeded, v.expected) for v in report.verdicts] == [
        ("ping", 3, 2),
        ("tools_call", 1, 1),
    ]


def test_a_check_that_failed_is_a_fault(tmp_path: Path) -> None:
    left(tmp_path, "ping", "SUCCESS", "SUCCESS", "FAILURE", errorMessage="it was late")
    left(tmp_path, "tools_call", "SUCCESS")
    assert faults(tmp_path) == ["ping: FAILURE check-2: it was late"]


def test_a_warning_is_a_fault(tmp_path: Path) -> None:
    left(tmp_path, "ping", "SUCCESS", "SUCCESS", "WARNING")
    left(tmp_path, "tools_call", "SUCCESS")
    assert faults(tmp_path) == ["ping: WARNING check-2: no reason given"]


def test_a_status_that_is_not_known_is_a_fault(tmp_path: Path) -> None:
    left(tmp_path, "ping", "SUCCESS", "SUCCESS", "UNSURE")
    left(tmp_path, "tools_call", "SUCCESS")
    assert faults(tmp_path) == ["ping: UNSURE check-2: no reason given"]


def test_fewer_successes_than_expected_are_a_fault(tmp_path: Path) -> None:
    left(tmp_path, "ping", "SUCCESS", "SKIPPED", "INFO")
    left(tmp_path, "tools_call")
    assert faults(tmp_path) == ["ping: 1 checks succeeded, of 2", "tools_call: 0 checks succeeded, of 1"]


def test_a_scenario_without_results_is_a_fault(tmp_path: Path) -> None:
    left(tmp_path, "ping", "SUCCESS", "SUCCESS")
    assert faults(tmp_path) == ["tools_call: it left no results"]


def test_no_results_at_all_are_faults(tmp_path: Path) -> None:
    assert faults(tmp_path / "nothing") == ["ping: it left no results", "tools_call: it left no results"]


def test_a_scenario_that_nobody_expected_is_a_fault(tmp_path: Path) -> None:
    left(tmp_path, "ping", "SUCCESS", "SUCCESS")
    left(tmp_path, "tools_call", "SUCCESS")
    left(tmp_path, "new-one", "SUCCESS")
    assert faults(tmp_path) == ["new-one: nobody expected this scenario"]


@pytest.mark.parametrize("text", ["", "{", "{}x", '["SUCCESS"]', '[{"id": "a"}]', '[{"status": []}]', "null"])
def test_results_that_cannot_be_read_are_a_fault(tmp_path: Path, text: str) -> None:
    left(tmp_path, "ping", "SUCCESS")
    (tmp_path / f"ping-{TIME}" / "checks.json").write_text(text)
    (fault,) = faults(tmp_path, wanted={"ping": 1})
    assert fault.startswith("ping: its results cannot be read")


def test_a_scenario_whose_results_were_never_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / f"ping-{TIME}").mkdir()
    (fault,) = faults(tmp_path, wanted={"ping": 1})
    assert fault.startswith("ping: its results cannot be read")


@pytest.mark.parametrize("said", [None, "", "hello\n", "done\nbut not\n", "undone\n"])
def test_a_client_that_did_not_come_to_its_end_is_a_fault(tmp_path: Path, said: str | None) -> None:
    left(tmp_path, "ping", "SUCCESS", said=said)
    (fault,) = faults(tmp_path, wanted={"ping": 1})
    assert fault == "ping: the client did not come to its end: see its stderr.txt"


def test_what_is_not_covered_yet_is_not_counted_but_named(tmp_path: Path) -> None:
    left(tmp_path, "sep-2640-client-verify-size", "FAILURE", said="")
    left(tmp_path, "sep-2640-client-no-prefetch", "WARNING")
    report = gate.judge(tmp_path, "client", {})
    assert report.faults == []
    assert report.not_counted == ["sep-2640-client-no-prefetch", "sep-2640-client-verify-size"]


def test_a_server_leaves_no_output_and_has_its_side_in_the_name(tmp_path: Path) -> None:
    left(tmp_path, "server-ping", "SUCCESS", said=None)
    left(tmp_path, "server-server-initialize", "SUCCESS", said=None)
    left(tmp_path, "server-sep-2640-skills", "FAILURE", said=None)
    report = gate.judge(tmp_path, "server", {"ping": 1, "server-initialize": 1})
    assert report.faults == []
    assert report.not_counted == ["sep-2640-skills"]


# ----------------------------------------------------------------------------- the table


@pytest.mark.parametrize(
    ("side", "revision", "scenarios"),
    [
        ("server", "2025-03-26", 1),
        ("server", "2025-06-18", 27),
        ("server", "2025-11-25", 33),
        ("server", "2026-07-28", 50),
        ("client", "2025-03-26", 2),
        ("client", "2025-06-18", 5),
        ("client", "2025-11-25", 25),
        ("client", "2026-07-28", 39),
    ],
)
def test_the_table_has_every_scenario_of_a_leg(side: str, revision: str, scenarios: int) -> None:
    wanted = gate.expected(side, revision)
    assert len(wanted) == scenarios
    assert all(least > 0 or scenario in SKIPPED for scenario, least in wanted.items())
    assert any((leg.side, leg.revision) == (side, revision) for leg in run.LEGS)


def test_scenarios_of_extensions_are_not_in_every_leg() -> None:
    """The suite finds them by the requirements of a revision alone."""
    some = gate.expected("server", "2026-07-28", extensions=False)
    assert gate.expected("server", "2026-07-28").keys() - some.keys() == {
        "tasks-capability-negotiation",
        "tasks-dispatch-and-envelope",
        "tasks-lifecycle",
        "tasks-mrtr-composition",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-request-state-removal",
        "tasks-required-task-error",
        "tasks-status-notifications",
        "tasks-wire-fields",
    }
    assert [leg.extensions for leg in run.LEGS] == [not leg.name.startswith("all") for leg in run.LEGS]


def test_faults_stand_in_the_table_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    good = gate.Report([gate.Verdict("ping", 2, 2, [])], ["sep-2640-x"])
    bad = gate.Report([gate.Verdict("ping", 1, 2, ["1 checks succeeded, of 2"])], [])
    run.show({run.LEGS[0]: good, run.LEGS[1]: bad}, ["what is wrong"])
    printed = capsys.readouterr().out
    assert [line.split() for line in printed.splitlines() if line.startswith("ping")] == [
        ["ping", "2", "1/2", "!"]
    ]
    assert "not counted, for this package does not do it yet: sep-2640-x" in printed
    assert printed.endswith("1 faults\n  what is wrong\n")


# ------------------------------------------------------------------------- the processes


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started() -> None:
    parent = """
import subprocess, sys
print("here", flush=True)
subprocess.run([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
"""
    began = time.monotonic()
    with nothing_left():
        code, said = run.called([sys.executable, "-S", "-c", parent], 6.0)
    assert (code, said) == (None, "here\n")
    assert time.monotonic() - began < 30


def test_what_a_command_printed_and_its_exit_code_are_kept() -> None:
    assert run.called([sys.executable, "-S", "-c", "import sys; print('here'); sys.exit(3)"], 30) == (
        3,
        "here\n",
    )


def test_a_server_that_ends_by_itself_is_a_fault() -> None:
    ends = [sys.executable, "-S", "-c", "import sys; sys.exit(3)"]
    with port_kept() as port, subprocess.Popen(ends, start_new_session=True) as process:
        assert not run.is_there(process, port)
        assert run.ended(process) == ["the everything server had ended before, with 3"]


def test_a_client_of_what_is_not_covered_yet_ends_at_once() -> None:
    """The suite starts dozens of them: none imports the package."""
    command = [sys.executable, "-S", "-E", str(HERE / "everything_client.py"), "http://localhost:1/mcp"]
    done = subprocess.run(
        command,
        env={"MCP_CONFORMANCE_SCENARIO": "sep-2640-client-no-prefetch"},
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == b"nothing was done: not covered yet\n"


def test_the_suite_is_pinned_and_names_no_registry() -> None:
    pinned = json.loads((HERE / "package.json").read_text())["dependencies"]
    lock = json.loads((HERE / "package-lock.json").read_text())["packages"]
    assert lock[""]["dependencies"] == pinned
    for name, version in pinned.items():
        assert lock[f"node_modules/{name}"]["version"] == version
    assert all("resolved" not in package for package in lock.values())
    assert all("integrity" in package for name, package in lock.items() if name)


# ------------------------------------------------------------------- the authorization server


ASKS = """
import sys
print("Access the following URL in your browser", flush=True)
print(sys.argv[1], flush=True)
print("Callback server started: http://127.0.0.1:1", flush=True)
"""


def test_a_person_opens_the_url_that_a_command_prints_fills_in_the_forms_and_says_yes() -> None:
    told = []

    def handle(request: Request, wire: Wire) -> None:
        told.append((request.method, request.target, request.body.decode()))
        form = b'<form action="/next"><input name="name"><input name="password"><input name="a" value="b">'
        wire.answer(200, form if request.method == "GET" else b"<p>Done", "Connection: close")
        wire.close()

    with web(handle) as site:
        url = f"{site.url}?x=y"
        code, said = run.attended([sys.executable, "-c", ASKS, url], 30)
    assert code == 0
    assert f"a person came to 200 at http://127.0.0.1:{site.port}/next" in said
    assert told == [
        ("GET", "/mcp?x=y", ""),
        ("POST", "/next", "name=ada&password=the+password+of+ada&a=b&answer=allow"),
    ]


def test_a_person_who_comes_to_no_page_and_a_command_that_does_not_end_are_told_of() -> None:
    code, said = run.attended([sys.executable, "-c", ASKS, "http://127.0.0.1:1/"], 30)
    assert (code, "came to nothing" in said) == (0, True)
    with nothing_left():
        waits = "import time; print('here', flush=True); time.sleep(60)"
        assert run.attended([sys.executable, "-c", waits], 6.0) == (None, "here\n")
