"""mcp-ref: its arguments and its exit codes, each by running it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Person
from peers import PATIENCE, eventually, source

from mcp_ref import __version__
from mcp_ref.basic.transports.streamable_http.http_errors import HttpError
from mcp_ref.cli import actions
from mcp_ref.cli import main as program
from mcp_ref.cli.main import main
from mcp_ref.runtime.errors import ConnectionClosed, McpError

ROOT = Path(__file__).resolve().parents[2]
ENV = ["--env", f"PYTHONPATH={ROOT}"]


NO_ADDRESSES = ["", "x", "65536", "-1", ":8000", "::1:8000", "[::1]", "[::1:8000", "[]:1", "a b:1", "\u0661"]


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
        (["call", "add", "--log-level", "loud"], "'loud' is not a log level"),
        (["tools", "--env", "NAME"], "--env takes NAME=VALUE"),
        (["prompt", "repeat", "text"], "an argument is NAME=VALUE"),
        (["complete", "--prompt", "repeat", "text", "--with", "=a"], "--with takes NAME=VALUE"),
    ],
)
def test_misuse_is_exit_code_2(
    server: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([*arguments, *ENV, *server]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["tools"],
        ["tools", "--"],
        [],
        ["tools", "--timeout", "0", "--", "x"],
        ["complete", "a", "--", "x"],
        ["complete", "a", "--prompt", "p", "--resource", "r:", "--", "x"],
        ["listen", "--count", "0", "--", "x"],
        ["listen", "--for", "0", "--", "x"],
        ["listen", "--count", "many", "--", "x"],
        ["serve", "x.py", "--http"],
        ["serve", "x.py", "--", "--http", "8000"],
        *(["serve", "x.py", "--http", address] for address in NO_ADDRESSES),
    ],
)
def test_a_wrong_command_line_is_explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: mcp-ref" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "offers_file"), [("login", False), ("logout", False), ("tools", True)])
def test_the_usage_of_a_command_names_the_servers_that_it_takes(
    command: str, offers_file: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    usage = capsys.readouterr().out.split("\n\n")[0]
    assert "URL | " in usage
    assert ("FILE.py" in usage) is offers_file


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tools", "--timeout", "soon"], "it must be a number of seconds above 0, not 'soon'"),
        (["listen", "--for", "nan"], "it must be a number of seconds above 0, not 'nan'"),
        (["listen", "--count", "1.5"], "it must be a number above 0, not '1.5'"),
    ],
)
def test_a_number_that_is_none_is_named(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--", "x"])
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0", ("127.0.0.1", 0)),
        ("65535", ("127.0.0.1", 65535)),
        ("localhost:8000", ("localhost", 8000)),
        ("0.0.0.0:8000", ("0.0.0.0", 8000)),
        ("[::1]:8000", ("::1", 8000)),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(
    text: str, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []
    monkeypatch.setattr(actions, "serve", lambda options: given.append(options.http) or 0)
    assert main(["serve", "x.py", "--http", text]) == 0
    assert given == [address]


@pytest.mark.parametrize(
    ("problem", "code"), [(HttpError(404, "no MCP here"), 3), (ConnectionClosed("no connection"), 4)]
)
def test_an_answer_in_http_alone_is_exit_code_3_and_no_connection_is_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: McpError, code: int
) -> None:
    def ping(options: object) -> int:
        raise problem

    monkeypatch.setattr(actions, "ping", ping)
    assert main(["ping", "--", "http://127.0.0.1/"]) == code
    assert capsys.readouterr().err == f"mcp-ref: {problem}\n"


def test_the_servers_refusal_is_exit_code_3(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "nothing", *ENV, *server]) == 3
    assert "Unknown tool: nothing" in capsys.readouterr().err


def test_what_a_refusal_says_cannot_steer_the_terminal(
    server: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", "a\x1b[2J", *ENV, *server]) == 3
    assert r"Unknown tool: a\x1b[2J" in capsys.readouterr().err


def test_a_server_that_cannot_be_started_is_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", "--", "no-such-program-here"]) == 4
    assert "cannot start" in capsys.readouterr().err


def test_a_shell_runs_lines_whose_errors_are_those_of_a_line(
    server: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "call add b=2 --json a=1\ntools --no\nshell\ncall nothing\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    assert main(["shell", *ENV, *server]) == 3
    said = capsys.readouterr()
    assert '"text": "3"' in said.out
    assert "unrecognized argument --no" in said.err
    assert "invalid choice: 'shell'" in said.err
    assert "usage" not in said.err


def test_a_fault_of_this_program_is_no_error_of_a_line() -> None:
    with pytest.raises(ZeroDivisionError):
        program._report(ZeroDivisionError())


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


def test_ctrl_c_ends_listening_on_the_wire_and_is_exit_code_130(changing: list[str]) -> None:
    command = [sys.executable, "-m", "mcp_ref", "listen", "--tools", *ENV, *changing]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with running:
        assert running.stdout is not None
        assert running.stdout.readline() == "tools\n"
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=10)
        assert running.returncode == 130
    assert said == "mcp-ref: listening\nmcp-ref: interrupted\n"


@pytest.mark.parametrize("words", [["read", "demo://nothing"], ["prompt", "nothing"], ["prompt", "repeat"]])
def test_what_the_server_does_not_have_is_exit_code_3(server: list[str], words: list[str]) -> None:
    assert main([*words, *ENV, *server]) == 3


def test_a_server_without_resources_is_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    code = "from mcp_ref import Server; Server('empty').run()"
    for words in ["resources"], ["prompts"], ["read", "a:b"]:
        assert main([*words, *ENV, "--", sys.executable, "-c", code]) == 4
    assert "did not declare the capability 'resources'" in capsys.readouterr().err


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mcp-ref {__version__}\n"


LONG = """
from mcp_ref import Server
server = Server("long")

@server.tool
def lines() -> str:
    return "a line of text\\n" * 100_000

@server.tool
def accent() -> str:
    return "h\\u00e9 \\u2603"

server.run()
"""


def run(arguments: list[str], code: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mcp_ref", *arguments, *ENV, "--", sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_a_reader_that_goes_away_is_exit_code_141_without_a_word() -> None:
    """As in `mcp-ref call ... | head -1`."""
    with run(["call", "lines"], LONG) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"a line of text\n"
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(30) == 141


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_the_terminal_lacks_do_not_fail(encoding: str) -> None:
    with run(["call", "accent"], LONG, env={**os.environ, "PYTHONIOENCODING": encoding}) as child:
        said, trouble = child.communicate(timeout=30)
    assert child.returncode == 0, trouble
    assert said.decode(encoding).encode("ascii", "backslashreplace") == b"h\\xe9 \\u2603\n"


def test_an_invalid_schema_is_not_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the server's fault, and the call goes all the same."""
    server = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if message["method"] == "server/discover":
        result |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    elif message["method"] == "tools/list":
        schema = {"type": "object", "properties": {"a": {"enum": 5, "type": [1]}}, "required": 5}
        bad = {"type": "object", "properties": [5]}
        result["tools"] = [{"name": "t", "inputSchema": schema}, {"name": "u", "inputSchema": bad}]
    else:
        result["content"] = [{"type": "text", "text": json.dumps(message["params"]["arguments"])}]
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
    behind = ["--", sys.executable, "-c", server]
    assert main(["tools", *behind]) == 0
    assert main(["call", "t", "a=1", *behind]) == 0
    assert main(["call", "u", "a=1", *behind]) == 0
    assert capsys.readouterr().out.splitlines() == ["t([a: 1])", "u()", '{"a": 1}', '{"a": 1}']


def test_what_the_output_cannot_show_is_written_in_escapes(
    server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal without UTF-8 is no reason for a call to fail."""
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert main(["call", "say", "text=caf\u00e9", *ENV, *server]) == 0
    assert shown.getvalue() == b"caf\\xe9\n"


def test_a_reader_that_goes_away_is_exit_code_141(server: list[str]) -> None:
    command = [sys.executable, "-m", "mcp_ref", "tools", "--json", *ENV, *server]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(20) == 141


def test_a_pipe_that_breaks_while_it_is_written_to_is_exit_code_141(
    server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(options: object) -> int:
        raise BrokenPipeError

    kept = os.dup(1)
    monkeypatch.setattr(actions, "ping", broken)
    try:
        assert main(["ping", *ENV, *server]) == 141
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_closes_the_connection(number: int) -> None:
    """So the server is ended properly, and a terminal that was asking is put back."""
    script = source("""
        import sys, time

        @server.tool
        def slow() -> str:
            print("running", file=sys.stderr, flush=True)
            time.sleep(60)
            return "never"
    """)
    program = [sys.executable, "-m", "mcp_ref", "call", "slow", *ENV]
    command = [*program, "--", sys.executable, "-c", script]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
    ) as child:
        assert child.stderr is not None
        assert any("running" in line for line in iter(child.stderr.readline, ""))
        (server,) = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        child.send_signal(number)
        assert child.wait(PATIENCE) == 128 + number
        assert eventually(lambda: not Path(f"/proc/{server}").exists())


@pytest.mark.parametrize("task", [[], ["--task"]])
def test_a_terminal_that_is_closed_while_it_shows_progress_is_exit_code_129(
    work: list[str], task: list[str]
) -> None:
    words = ["call", "build", *task, *ENV, "--revision", "2025-11-25", *work]
    with Person(*words, all_of_it=True) as person:
        person.sees("1 of 3")
        os.close(person.screen)
        person.screen = os.open(os.devnull, os.O_RDWR)  # for the end of `with` to close
        assert person.child.wait(PATIENCE) == 129


def test_the_program_handles_signals_unless_they_are_ignored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    monkeypatch.setattr(sys, "argv", ["mcp-ref", "--version"])
    try:
        with pytest.raises(SystemExit):
            main()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
        assert ended.value.code == 143
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
