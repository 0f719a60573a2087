"""What each command of mcp-ref does."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Person
from cli.test_over_http import served
from peers import PATIENCE

from mcp_ref import Server, connect
from mcp_ref.cli import actions, terminal
from mcp_ref.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
ENV = ["--env", f"PYTHONPATH={ROOT}"]


def test_tools_are_listed_for_people(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", *ENV, *server]) == 0
    assert "add(a: integer, b: integer)\n    Add two numbers." in capsys.readouterr().out


def test_tools_are_listed_for_scripts(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "--json", *ENV, *server]) == 0
    names = [tool["name"] for tool in json.loads(capsys.readouterr().out)]
    assert names == ["add", "say", "fail", "wait", "where", "asked", "pay"]


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
        (["call", "add", "a=x"], "a: not JSON: Expecting value"),
        (["call", "add", "a=x"], "; the tool wants integer, not 'x'"),
        (["call", "add", "--arguments", "[1]"], "--arguments takes a JSON object"),
        (["call", "add", "--arguments", "{"], "--arguments: not JSON"),
        (["call", "add", "--log-level", "loud"], "'loud' is not a log level"),
        (["tools", "--env", "NAME"], "--env takes NAME=VALUE"),
    ],
)
def test_wrong_arguments_are_explained(
    server: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([*arguments, *ENV, *server]) == 2
    assert says in capsys.readouterr().err


def test_ping_prints_how_long_it_took(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_file_that_runs_its_server_itself_is_served_over_stdio_and_once(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "from mcp_ref import Server\n"
        "mine = Server('mine')\n"
        "mine.add_tool(lambda: 'done', name='work')\n"
        "mine.run('http', port=-1)\n"  # a port that is no port: it does not matter here
    )
    us = [*ENV, "--", sys.executable, "-m", "mcp_ref", "serve"]
    for target in (str(path), f"{path}:mine"):
        assert main(["call", "work", *us, target]) == 0
    done = subprocess.run(
        [*us[3:], str(path)], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_file_that_runs_another_server_than_the_one_that_is_named_is_misuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.py"
    path.write_text("from mcp_ref import Server\na, b = Server('a'), Server('b')\na.run()\n")
    assert main(["serve", f"{path}:b"]) == 2
    assert (
        "it runs another server than 'b' while it is loaded: put that run() below" in capsys.readouterr().err
    )


def test_the_only_server_of_a_file_is_named_where_there_is_none_called_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shop.py"
    path.write_text("from mcp_ref import Server\nmine = Server('mine')\n")
    assert main(["serve", str(path)]) == 2
    assert f"has no Server called 'server'; write {path}:mine" in capsys.readouterr().err


def test_serve_serves_over_http_until_ctrl_c(
    server: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, on its main thread; tests/cli/test_over_http.py has real ones."""
    called: list[int] = []

    def ready(url: str) -> None:
        ping = threading.Thread(target=lambda: called.append(main(["call", "add", "a=1", "b=1", "--", url])))
        threading.Thread(target=lambda: (ping.start(), ping.join(10), signal.raise_signal(2))).start()

    run = Server.run

    def watched(self: Server, transport: str, *, on_ready: Callable[[str], object], **options: Any) -> None:
        run(self, transport, on_ready=lambda url: (on_ready(url), ready(url)), **options)

    monkeypatch.setattr(Server, "run", watched)
    assert main(["serve", server[-1], "--http", "0"]) == 0
    said = capsys.readouterr()
    assert (called, said.out) == ([0], "2\n")
    assert re.fullmatch(r"serving at http://127\.0\.0\.1:\d+/mcp; Ctrl-C ends it\n", said.err)


@pytest.mark.parametrize(
    "words",
    [
        ["--env", "A=secret", "--", "http://127.0.0.1/mcp"],
        ["--", "HTTPS://127.0.0.1/mcp", "more"],
        ["--header", "A: secret", "--", "python"],
    ],
)
def test_an_option_that_does_not_fit_the_place_of_the_server_is_misuse(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["ping", *words]) == 2
    said = capsys.readouterr().err
    assert "URL" in said
    assert "secret" not in said


def test_values_are_json_where_nothing_is_known_of_them() -> None:
    assert actions._value("x", "[1, 2]", None) == [1, 2]
    assert actions._value("x", "a word", None) == "a word"
    with pytest.raises(ValueError, match="the tool wants integer or null, not 'a word'"):
        actions._value("x", "a word", {"type": ["integer", "null"]})


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


# --------------------------------------------------------------- resources, prompts, completion

BOTH = pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])


def test_resources_and_templates_are_listed(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resources", *ENV, *server]) == 0
    assert "demo://motto  text/plain, 4 bytes\n    motto\n    What we think." in capsys.readouterr().out
    assert main(["resources", "--json", *ENV, *server]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [r["uri"] for r in found["resources"]] == ["demo://motto", "demo://picture", "demo://ask"]
    assert [r["uriTemplate"] for r in found["resourceTemplates"]] == ["demo://{room}/{table}"]


def test_a_server_without_templates_has_resources_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resources", *by_hand(-32601)]) == 0
    assert capsys.readouterr().out == "a:b\n    b\n"
    assert main(["resources", *by_hand(-32603)]) == 3


def by_hand(code: int) -> list[str]:
    """A server that answers a request for templates with this error."""
    return [
        "--",
        sys.executable,
        "-c",
        f"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {{"jsonrpc": "2.0", "id": message["id"]}}
    result = {{"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}
    if message["method"] == "server/discover":
        result |= {{"supportedVersions": ["2026-07-28"], "capabilities": {{"resources": {{}}}}}}
        answer["result"] = result
    elif message["method"] == "resources/list":
        answer["result"] = {{**result, "resources": [{{"uri": "a:b", "name": "b"}}]}}
    else:
        answer["error"] = {{"code": {code}, "message": "no"}}
    print(json.dumps(answer), flush=True)
""",
    ]


def test_a_resource_is_read_into_a_pipe_byte_for_byte(
    server: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["read", "demo://motto", *ENV, *server]) == 0
    assert main(["read", "demo://picture", *ENV, *server]) == 0
    assert capfdbinary.readouterr().out == b"So\x1b!" + b"\x00\xff\n"


def test_a_resource_is_read_into_the_file_of_output(server: list[str], tmp_path: Path) -> None:
    path = tmp_path / "picture"
    assert main(["read", "demo://picture", "--output", str(path), *ENV, *server]) == 0
    assert path.read_bytes() == b"\x00\xff\n"


def test_a_file_that_cannot_be_written_is_misuse(
    server: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", "demo://motto", "--output", str(tmp_path), *ENV, *server]) == 2
    assert "--output: " in capsys.readouterr().err


class Screen(io.TextIOWrapper):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["demo://motto"], b"So\xef\xbf\xbd!\n"),
        (["demo://picture"], b"[blob: application/octet-stream, 3 bytes; --output FILE saves it]\n"),
        (["demo://picture", "--output", "-"], b"\x00\xff\n"),
        (["demo://t/1"], b"1 in t\n"),
    ],
)
def test_what_is_read_on_a_terminal_cannot_steer_it(
    server: list[str], monkeypatch: pytest.MonkeyPatch, words: list[str], printed: bytes
) -> None:
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Screen(screen, encoding="utf-8"))
    assert main(["read", *words, *ENV, *server]) == 0
    assert screen.getvalue() == printed


def test_a_resource_is_read_as_json_for_scripts(
    server: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", "demo://motto", "--json", "--log-level", "info", *ENV, *server]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["contents"][0]["text"] == "So\x1b!"
    assert "info: read" in said.err


def test_prompts_are_listed_and_got(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", *ENV, *server]) == 0
    assert capsys.readouterr().out == "repeat(text)\n    Say it again.\n"
    assert main(["prompts", "--json", *ENV, *server]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "repeat"
    assert main(["prompt", "repeat", "text=a=b", *ENV, *server]) == 0
    assert capsys.readouterr().out == "user:\n    Say: a=b\n"
    assert main(["prompt", "repeat", "text=7", "--json", *ENV, *server]) == 0
    assert json.loads(capsys.readouterr().out)["messages"][0]["content"]["text"] == "Say: 7"


@BOTH
def test_arguments_are_completed(
    server: list[str], capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    options = ["--revision", revision, *ENV, *server]
    assert main(["complete", "--prompt", "repeat", "text", "value 11", *options]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["value 11", "value 110"]
    assert main(["complete", "--prompt", "repeat", "text", *options]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 100
    assert said.err == "the first 100 of 120\n"


def test_variables_are_completed_by_what_was_chosen(
    server: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    of = ["complete", "--resource", "demo://{room}/{table}", "table"]
    assert main([*of, "--with", "room=hall", "--json", *ENV, *server]) == 0
    assert json.loads(capsys.readouterr().out)["completion"]["values"] == ["hall"]


# ------------------------------------------------------------------------------- listening


@BOTH
def test_changes_are_printed_a_line_each(
    changing: list[str], capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    of = ["listen", "--tools", "demo://a", "--count", "4", "--revision", revision]
    assert main([*of, *ENV, *changing]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 4
    assert set(said.out.splitlines()) == {"tools", "demo://a"}
    assert "mcp-ref: listening" in said.err


def test_changes_are_printed_for_scripts(changing: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["listen", "--json", "demo://a", "--count", "1", *ENV, *changing]) == 0
    assert json.loads(capsys.readouterr().out) == {"kind": "resource", "uri": "demo://a"}


def test_without_options_changes_of_all_lists_are_printed(
    changing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["listen", "--for", "20", "--count", "1", *ENV, *changing]) == 0
    assert capsys.readouterr().out == "tools\n"


def test_listening_for_a_while_ends_well(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["listen", "--prompts", "--for", "0.05", *ENV, *server]) == 0
    assert capsys.readouterr().out == ""


def test_too_few_changes_in_the_time_given_are_exit_code_5(
    server: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["listen", "demo://motto", "--for", "0.05", "--count", "2", *ENV, *server]) == 5
    assert "0 of 2 changes within 0.05 s" in capsys.readouterr().err


def test_a_server_that_notifies_of_nothing_is_exit_code_4(
    changing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["listen", "--prompts", *ENV, *changing]) == 4
    assert "notifies of none of these changes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sys.exit(3)", "3"),
        ("say(id=message['id'], result={'resultType': 'complete'}); sys.stdin.read()", "no more changes"),
    ],
)
def test_a_subscription_that_the_server_ends_is_exit_code_4(
    capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    code = f"""
import json, sys
def say(**said):
    print(json.dumps({{"jsonrpc": "2.0", **said}}), flush=True)
for text in sys.stdin:
    message = json.loads(text)
    if message["method"] == "server/discover":
        able = {{"supportedVersions": ["2026-07-28"], "capabilities": {{"tools": {{"listChanged": True}}}}}}
        able |= {{"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}
        say(id=message["id"], result=able)
    else:
        meta = {{"io.modelcontextprotocol/subscriptionId": message["id"]}}
        agreed = {{"_meta": meta, "notifications": {{"toolsListChanged": True}}}}
        say(method="notifications/subscriptions/acknowledged", params=agreed)
        {line}
"""
    assert main(["listen", "--tools", "--for", "10", "--", sys.executable, "-c", code]) == 4
    assert says in capsys.readouterr().err


# -------------------------------------------------------------------------- what a server asks


def test_roots_are_what_the_work_is_about(
    server: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    roots = ["--root", str(tmp_path), "--root", str(other)]
    assert main(["call", "where", "--json", *roots, *ENV, *server]) == 0
    structured = json.loads(capsys.readouterr().out)["structuredContent"]
    assert structured == {"result": [tmp_path.as_uri(), other.as_uri()]}
    assert main(["call", "where", "--root", "nowhere/at/all", *ENV, *server]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(("revision", "code"), [("2024-11-05", 1), ("2025-11-25", 1), ("2026-07-28", 3)])
def test_without_a_terminal_elicitation_is_not_offered(
    server: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    revision: str,
    code: int,
) -> None:
    monkeypatch.setattr(actions, "has_terminal", lambda: False)
    assert main(["call", "asked", "--revision", revision, *ENV, *server]) == code
    assert "elicitation" in "".join(capsys.readouterr())


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("words", [["call", "asked"], ["read", "demo://ask"]])
def test_the_person_at_the_terminal_is_asked(
    server: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    revision: str,
    words: list[str],
) -> None:
    monkeypatch.setattr(actions, "has_terminal", lambda: True)
    monkeypatch.setattr(terminal, "ask", lambda question: question.decline())
    assert main([*words, "--revision", revision, *ENV, *server]) == 0
    assert capsys.readouterr().out.strip() == "decline"


PAY = ["call", "pay", "--revision", "2025-11-25"]


def test_a_person_who_must_visit_a_page_first_is_asked_to(
    server: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def ask(question: Any) -> Any:
        seen.append(question.url)
        return question.accept()

    monkeypatch.setattr(actions, "has_terminal", lambda: True)
    monkeypatch.setattr(terminal, "ask", ask)
    assert main([*PAY, *ENV, *server]) == 0
    assert capsys.readouterr().out == "paid\n"
    assert seen == ["https://example.com/pay"]


@pytest.mark.parametrize("there", [False, True])
def test_a_call_without_the_visit_is_refused(
    server: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(actions, "has_terminal", lambda: there)
    monkeypatch.setattr(terminal, "ask", lambda question: question.decline())
    assert main([*PAY, *ENV, *server]) == 3
    assert ("needs a visit" if there else "did not declare") in capsys.readouterr().err


def test_a_call_asks_at_a_real_terminal(server: list[str]) -> None:
    """All of it, as a person would do it: in a session whose controlling terminal is a new one."""
    with Person("call", "asked", *ENV, *server) as person:
        assert "| Sure?" in person.sees("accept, decline or cancel? > ")
        person.types("accept\n")
        code, out, _ = person.ends()
    assert (code, out) == (0, "accept\n")


# ------------------------------------------------------------------------------------ tasks

ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


@ERAS
def test_a_tool_is_called_as_a_task(
    work: list[str], capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    Path(work[-1]).with_name("go").touch()
    assert main(["call", "build", "--task", "--json", "--revision", revision, *ENV, *work]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["content"][0]["text"] == "built"
    assert re.search(r"^mcp-ref: task [0-9a-f]{32}$", said.err, re.M)


@ERAS
def test_a_task_that_fails_is_exit_code_1(
    work: list[str], capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    assert main(["call", "fail", "--task", "--revision", revision, *ENV, *work]) == 1
    assert capsys.readouterr().out == "it broke\n"


def test_a_call_that_is_answered_at_once_has_no_task(
    work: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", "quick", "--task", *ENV, *work]) == 0
    said = capsys.readouterr()
    assert (said.out, "task" in said.err) == ("done\n", False)


@pytest.mark.parametrize(
    ("revision", "why"),
    [("2025-11-25", "plain does not run as a task"), ("2025-06-18", "there are no tasks in 2025-06-18")],
)
def test_a_call_that_cannot_be_a_task_is_to_leave_out_the_option(
    work: list[str], capsys: pytest.CaptureFixture[str], revision: str, why: str
) -> None:
    assert main(["call", "plain", "--task", "--revision", revision, *ENV, *work]) == 4
    assert capsys.readouterr().err == f"mcp-ref: {why}: leave out --task\n"


def test_tasks_are_listed_shown_waited_for_and_cancelled(
    work: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In 2025-11-25, where each command is another process: the server has a SqliteStore."""
    of = ["--revision", "2025-11-25", *ENV, *work, "kept"]
    assert main(["tasks", *of]) == 0
    assert capsys.readouterr().out == "no tasks\n"
    assert main(["call", "fail", "--task", "--ttl", "90", *of]) == 1
    assert main(["call", "quick", "--task", *of]) == 0
    capsys.readouterr()
    assert main(["tasks", "--json", *of]) == 0
    failed, done = json.loads(capsys.readouterr().out)
    assert (failed["status"], failed["ttl"], done["status"]) == ("failed", 90000, "completed")
    assert main(["tasks", *of]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{failed['taskId']}  failed",
        "    it broke",
        f"{done['taskId']}  completed",
    ]
    assert main(["tasks", "--id", failed["taskId"], *of]) == 0
    assert "kept for 90 s" in capsys.readouterr().out
    assert main(["tasks", "--id", failed["taskId"], "--wait", *of]) == 1
    assert main(["tasks", "--id", done["taskId"], "--wait", *of]) == 0
    assert capsys.readouterr().out == "it broke\ndone\n"
    assert main(["tasks", "--id", done["taskId"], "--cancel", *of]) == 3
    assert "already in terminal status" in capsys.readouterr().err


def test_in_2026_07_28_there_is_no_list_of_tasks_but_they_can_be_asked_for(
    work: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [*ENV, *work, "kept"]
    assert main(["tasks", *kept]) == 4
    said = capsys.readouterr().err
    assert "no list of tasks in 2026-07-28" in said
    assert "--id" in said
    assert main(["call", "fail", "--task", *kept]) == 1
    (found,) = re.findall("[0-9a-f]{32}", capsys.readouterr().err)
    assert main(["tasks", "--id", found, "--json", *kept]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["isError"]
    assert main(["tasks", "--id", found, "--cancel", *kept]) == 0
    assert capsys.readouterr().out.startswith(f"{found}  completed\n")


@ERAS
def test_a_task_that_another_command_cancels_is_exit_code_1(
    work: list[str], capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    with served(work[-1]) as (place, _), connect(place, revision=revision) as client:
        task = client.start_tool("build")
        waiting = subprocess.Popen(
            [sys.executable, "-m", "mcp_ref", "tasks", "--id", task.id, "--wait", "--", place],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline().startswith("mcp-ref: working")
            assert main(["tasks", "--id", task.id, "--cancel", "--revision", revision, "--", place]) == 0
            assert capsys.readouterr().out.startswith(f"{task.id}  cancelled\n")
            out, said = waiting.communicate(timeout=PATIENCE)
    assert (waiting.returncode, out) == (1, "")
    assert said.endswith("mcp-ref: The task was cancelled by request.\n")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["call", "quick", "--ttl", "5"], 2, "--ttl is about a task"),
        (["tasks", "--wait"], 2, "name it, with --id"),
        (["tasks", "--cancel"], 2, "name it, with --id"),
        (["tasks", "--id", "a\x1b"], 3, r"Task not found: 'a\x1b'"),
        (["tasks", "--revision", "2024-11-05"], 4, "there are no tasks in 2024-11-05"),
        (["call", "quick", "--task", "--revision", "2025-06-18"], 4, "there are no tasks in 2025-06-18"),
    ],
)
def test_what_cannot_be_done_with_tasks_is_explained(
    work: list[str], capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    assert main([*words, *ENV, *work]) == code
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "choice"), [("", "wait"), ("detach", "detach"), ("cancel", "cancel"), (None, "detach")]
)
@pytest.mark.parametrize(
    ("place", "hint"), [("python", "detach (which ends the server)"), ("http://a/", "detach (it goes on)")]
)
def test_a_person_who_says_nothing_detaches(
    monkeypatch: pytest.MonkeyPatch, typed: str | None, choice: str, place: str, hint: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(actions, "has_terminal", lambda: True)
    monkeypatch.setattr(terminal, "choose", lambda prompt, words, is_over: asked.append(prompt) or typed)
    assert actions._chooser(Namespace(config=None, server=[place]), "cancel")(lambda: False) == choice
    assert asked == [f"{hint}, cancel it, or Enter to wait on?"]


@pytest.mark.parametrize("otherwise", ["detach", "cancel"])
def test_without_a_person_the_choice_is_made(monkeypatch: pytest.MonkeyPatch, otherwise: Any) -> None:
    monkeypatch.setattr(actions, "has_terminal", lambda: False)
    assert actions._chooser(Namespace(config=None, server=["python"]), otherwise)(lambda: False) == otherwise
