"""What each command of mcp-ref does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mcp_ref.cli import actions
from mcp_ref.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
ENV = ["--env", f"PYTHONPATH={ROOT}"]


def test_tools_are_listed_for_people(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", *ENV, *server]) == 0
    assert "add(a: integer, b: integer)\n    Add two numbers." in capsys.readouterr().out


def test_tools_are_listed_for_scripts(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "--json", *ENV, *server]) == 0
    assert [tool["name"] for tool in json.loads(capsys.readouterr().out)] == ["add", "say", "fail", "wait"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_discover_tells_who_the_server_is_in_any_revision(
    server: list[str], capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    assert main(["discover", "--json", "--revision", revision, *ENV, *server]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["revision"] == revision
    assert facts["serverInfo"]["name"] == "demo"
    assert facts["instructions"] == "Ask it."
    assert "tools" in facts["capabilities"]
    assert main(["discover", "--revision", revision, *ENV, *server]) == 0
    assert f"revision      {revision}" in capsys.readouterr().out


def test_a_call_prints_the_text_of_the_result(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "add", "a=1", "b=2", *ENV, *server]) == 0
    assert capsys.readouterr().out == "3\n"


def test_an_argument_is_text_where_the_tool_wants_a_string(
    server: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", "say", "text=12", "--log-level", "info", *ENV, *server]) == 0
    printed = capsys.readouterr()
    assert printed.out == "12\n"
    assert "info: asked" in printed.err


def test_all_arguments_can_be_given_as_one_object(
    server: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", "add", "b=5", "--arguments", '{"a": 1, "b": 2}', "--json", *ENV, *server]) == 0
    assert json.loads(capsys.readouterr().out)["structuredContent"] == {"result": 6}
    assert main(["call", "add", "--arguments", '{"a": 1, "b": 2}', *ENV, *server]) == 0


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
def test_arguments_without_sense_are_explained(
    server: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([*arguments, *ENV, *server]) == 2
    assert says in capsys.readouterr().err


def test_ping_tells_how_long_it_took(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", *ENV, *server]) == 0
    assert capsys.readouterr().out.startswith("answered in ")
    assert main(["ping", "--json", *ENV, *server]) == 0
    assert json.loads(capsys.readouterr().out)["milliseconds"] > 0


def test_serve_serves_a_file_and_a_module(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(server[-1])
    us = [*ENV, "--", sys.executable, "-m", "mcp_ref", "serve"]
    for target in (str(path), f"{path}:server"):
        assert main(["call", "add", "a=1", "b=1", *us, target]) == 0
    here = [*ENV, "--env", f"PYTHONPATH={ROOT}{os.pathsep}{path.parent}"]
    assert main(["ping", *here, "--", sys.executable, "-m", "mcp_ref", "serve", "shop:server"]) == 0


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("{path}:other", "has no Server called 'other'"),
        ("{path}:nothing", "has no Server called 'nothing'"),
        ("nowhere.py:server", "there is no file nowhere.py"),
        ("no_such_module_here:server", "No module named"),
    ],
)
def test_serve_explains_what_it_cannot_serve(
    server: list[str], capsys: pytest.CaptureFixture[str], target: str, says: str
) -> None:
    assert main(["serve", target.format(path=server[-1])]) == 2
    assert says in capsys.readouterr().err


def test_values_are_json_where_nothing_is_known_of_them() -> None:
    assert actions._value("x", "[1, 2]", None) == [1, 2]
    assert actions._value("x", "a word", None) == "a word"


@pytest.mark.parametrize("problem", ["RuntimeError('boom')", "KeyError('boom')", "1 / 0, 'boom'"])
def test_a_module_that_raises_is_misuse_and_no_failed_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], problem: str
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(f"raise {problem}\n")
    assert main(["serve", f"{path}:server"]) == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert "Error" in said
