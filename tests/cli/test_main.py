"""mcp-ref: its arguments and its exit codes, each by running it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_ref import __version__
from mcp_ref.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
ENV = ["--env", f"PYTHONPATH={ROOT}"]


def test_a_tool_that_fails_is_exit_code_1(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "fail", "--quiet", *ENV, *server]) == 1
    assert "it broke" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["call", "add", "a"], "an argument is NAME=VALUE"),
        (["call", "add", "a=x"], "a: not JSON"),
        (["call", "add", "--arguments", "[1]"], "--arguments takes a JSON object"),
        (["call", "add", "--arguments", "{"], "--arguments: not JSON"),
        (["call", "add", "--log-level", "loud"], "'loud' is no log level"),
        (["tools", "--env", "NAME"], "--env takes NAME=VALUE"),
    ],
)
def test_misuse_is_exit_code_2(
    server: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([*arguments, *ENV, *server]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["tools"], ["tools", "--"], [], ["tools", "--timeout", "0", "--", "x"]]
)
def test_a_command_line_without_sense_is_explained(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: mcp-ref" in capsys.readouterr().err


def test_the_servers_refusal_is_exit_code_3(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "nothing", *ENV, *server]) == 3
    assert "Unknown tool: nothing" in capsys.readouterr().err


def test_a_server_that_cannot_be_started_is_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", "--", "no-such-program-here"]) == 4
    assert "cannot start" in capsys.readouterr().err


def test_no_answer_in_time_is_exit_code_5(server: list[str]) -> None:
    silent = ["--", sys.executable, "-c", "import sys; sys.stdin.read()"]
    assert main(["ping", "--timeout", "0.3", *silent]) == 5


def test_ctrl_c_cancels_the_call_on_the_wire_and_is_exit_code_130(server: list[str]) -> None:
    command = [sys.executable, "-m", "mcp_ref", "call", "wait", *ENV, *server]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with running:
        assert running.stderr is not None
        said = running.stderr.readline()
        assert said == "waiting\n"
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
        assert running.wait(10) == 130
    assert "ended: the caller stopped waiting" in rest
    assert "mcp-ref: interrupted" in rest


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mcp-ref {__version__}\n"
