"""`mcp-ref shell`: a person at a pseudo-terminal, lines from a pipe, and what Tab finds."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from cli.conftest import ROOT, Person
from http_peers import endpoint
from peers import PATIENCE

from mcp_ref import Context, Server
from mcp_ref.cli import shell as shells
from mcp_ref.cli.main import main
from mcp_ref.cli.shell import Completer, Shell

ENV = ["--env", f"PYTHONPATH={ROOT}"]
TAB, CTRL_C, CTRL_D = "\t", "\x03", "\x04"

Captured = pytest.CaptureFixture[str]


def at_terminal(*words: str) -> Person:
    return Person("shell", *ENV, *words, all_of_it=True)


# -- a person at a terminal ------------------------------------------------------------------------------


def test_a_person_runs_one_command_after_another_over_one_connection(server: list[str]) -> None:
    with at_terminal("--quiet", *server) as person:
        said = person.sees("demo> ")
        assert "demo 1.0.0, revision 2026-07-28\n:help lists what can be said here, Ctrl-D ends it\n" in said
        person.types("call pay\n")  # the state of this server shows that it is the same one
        person.sees("It wants you to open this page in a browser")
        person.sees("cancel? > ")
        person.types(CTRL_C)
        person.sees("demo> ")
        person.types("call add a=1 b=2\n")
        assert "\n3\n" in person.sees("demo> ")
        person.types("call pay\n")
        assert "\npaid\n" in person.sees("demo> ")
        person.types("call add a=1\n")
        assert "b" in person.sees("demo> ")
        person.types("call fail\n")
        assert "it broke" in person.sees("demo> ")
        person.types("call nothing\n")
        assert "mcp-ref: the server refused: Unknown tool: nothing" in person.sees("demo> ")
        person.types("tolls\n")
        assert "invalid choice: 'tolls'" in person.sees("demo> ")
        person.types("read demo://motto --log-level info\n")
        assert "mcp-ref: unrecognized argument --log-level" in person.sees("demo> ")
        person.types("# nothing\n")
        person.sees("demo> ")
        person.types(CTRL_D)
        code, _, said = person.ends()
    assert code == 0
    assert "Traceback" not in said


def test_ctrl_c_ends_what_runs_and_not_the_shell(server: list[str]) -> None:
    with at_terminal(*server) as person:
        person.sees("demo> ")
        person.types("call wait\n")
        person.sees("waiting")
        person.types(CTRL_C)
        person.sees("interrupted")  # what the tool says at its end may come within the prompt
        person.types("call add a=1 b=2\n")
        person.sees("\n3\n")
        person.types("half a line")
        # Python's readline misses a signal between its prompt and its wait: a person presses the keys again.
        again = threading.Event()
        presses = threading.Thread(target=lambda: _press(person, again))
        presses.start()
        try:
            person.sees("line")
            person.sees("demo> ")
        finally:
            again.set()
            presses.join(PATIENCE)
        person.types("\n:quit\n")
        assert person.ends()[0] == 0


def _press(person: Person, end: threading.Event) -> None:
    """Ctrl-C now and then, until it has an effect."""
    while not end.wait(0.2):
        person.types(CTRL_C)


def test_tab_completes_by_what_the_server_has(server: list[str]) -> None:
    with at_terminal(*server) as person:
        person.sees("demo> ")
        person.types("ca" + TAB)
        person.sees("call ")
        person.types("ad" + TAB)
        person.sees("add ")
        person.types("a" + TAB)
        person.sees("a=")
        person.types("1 b=2\n")
        person.sees("\n3\n")
        person.sees("demo> ")
        person.types(":rev" + TAB + "2025-1" + TAB)
        person.sees(":revision 2025-11-25 ")
        person.types("\n")
        person.sees("demo 1.0.0, revision 2025-11-25\n")
        person.sees("demo> ")
        person.types("discover\n")
        person.sees("revision      2025-11-25")
        person.sees("demo> ")
        person.types(CTRL_D)
        assert person.ends()[0] == 0


def test_the_wire_is_shown_while_the_person_wants_it(server: list[str]) -> None:
    with at_terminal(*server) as person:
        person.sees("demo> ")
        person.types(":wire\n")
        person.sees("messages are shown\n")
        person.types("call say text=hello\n")
        person.sees('--> {"jsonrpc":"2.0"')
        person.sees('"method":"tools/call"')
        person.sees('<-- {"jsonrpc":"2.0"')
        person.sees("\nhello\n")
        person.sees("demo> ")
        person.types(":wire off\n")
        person.sees("messages are not shown\n")
        person.sees("demo> ")
        person.types("call say text=hello\n")
        assert "jsonrpc" not in person.sees("\nhello\n")


def test_the_server_may_ask_the_person(server: list[str]) -> None:
    with at_terminal(*server) as person:
        person.sees("demo> ")
        person.types("call asked\n")
        person.sees("Sure?")
        person.types("\n")
        person.sees("> ")
        person.types("!decline\n")
        person.sees("decline")


# -- lines from a pipe -----------------------------------------------------------------------------------


def piped(lines: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mcp_ref", "shell", *ENV, *words]
    return subprocess.run(
        command, cwd=ROOT, input=lines, capture_output=True, text=True, timeout=3 * PATIENCE, check=False
    )


@pytest.mark.parametrize(
    ("lines", "code", "out"),
    [
        ("call add a=1 b=2\ncall say text='a b'\n", 0, "3\na b\n"),
        ("call add --json a=1 b=2\n", 0, '{\n  "resultType": "complete"'),
        ("call fail\n", 1, "it broke"),
        ("call fail\nping --json\n", 0, "milliseconds"),
        ("call add a=x b=1", 2, ""),
        ("say 'it", 2, ""),
        ("call nothing\n", 3, ""),
        (":quit\ncall fail\n", 0, ""),
        ("prompt repeat text=x\n", 0, "Say: x"),
        ("tools --help\n", 0, "usage: tools [options]"),
        (":help\n", 0, ":revision   say which revision"),
        (":rev\n", 0, "2026-07-28\n"),
        ("", 0, ""),
    ],
)
def test_lines_of_a_pipe_are_run_without_a_prompt(
    server: list[str],
    lines: str,
    code: int,
    out: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    assert main(["shell", *ENV, *server]) == code
    printed = capsys.readouterr().out
    assert out in printed
    assert "demo>" not in printed


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (":", "there is no ':'; there are :help, :wire"),
        (":re", "there is no ':re'"),
        (":wire maybe", ":wire takes on or off, not 'maybe'"),
        (":help me", "nothing may follow: remove 'me'"),
        (":revision a b", "nothing may follow: remove 'b'"),
        (":revision 2020-01-01", "2026-07-28"),
        ("call add --env A=1", "unrecognized argument --env"),
        ("tools http://127.0.0.1/mcp", "unrecognized argument http://127.0.0.1/mcp"),
        ("serve x.py", "invalid choice: 'serve'"),
        ("shell", "invalid choice: 'shell'"),
    ],
)
def test_a_line_that_makes_no_sense_is_explained_and_the_next_one_is_run(
    server: list[str], line: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{line}\ncall add a=1 b=2\n"))
    assert main(["shell", *ENV, *server]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("mcp-ref: ")
    assert says in said.err
    assert said.out == "3\n"


def test_a_pipe_that_is_closed_ends_the_shell(server: list[str]) -> None:
    command = [sys.executable, "-m", "mcp_ref", "shell", *ENV, *server]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.close()
        child.stdin.write(b"tools\n" * 3)
        child.stdin.close()
        assert child.wait(PATIENCE) == 141


def test_a_server_at_a_url_may_be_connected_to_again(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    with endpoint(Server("far", version="2")) as site:
        url = f"127.0.0.1:{site.port}/mcp"
        lines = ":wire on\nping\n:wire off\n:reconnect\n:revision 2025-06-18\n:revision\n"
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        assert main(["shell", url]) == 0
        said = capsys.readouterr()
    assert '"method":"server/discover"' in said.err
    assert "far 2, revision 2026-07-28\nfar 2, revision 2025-06-18\n" in said.err
    assert said.out.endswith("\n2025-06-18\n")


def test_a_message_on_the_wire_is_shown_in_one_line_and_not_without_end(capsys: Captured) -> None:
    shell: Any = object.__new__(Shell)
    shell._shows_wire = True
    shell._on_wire("<", b'"\x1b[2J\n"')
    shell._on_wire(">", b"x" * 5000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("<-- ")
    assert "\x1b" not in lines[0]
    assert lines[1] == f"--> {'x' * 4000}... (5,000 bytes)"


def test_log_messages_are_shown_from_the_level_that_was_wanted(
    server: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("call say text=x\n"))
    assert main(["shell", "--log-level", "info", *ENV, *server]) == 0
    assert "info: asked" in capsys.readouterr().err
    assert main(["shell", "--log-level", "loud", *ENV, *server]) == 2


# -- what Tab finds --------------------------------------------------------------------------------------


@pytest.fixture
def completer() -> Iterator[Completer]:
    server = Server("shop")

    @server.tool
    def paint(colour: Literal["red", "dark red", "green"], size: Literal[1, 2], dry: bool, name: str) -> str:
        return ""

    @server.tool
    def pack(ctx: Context) -> str:
        return ""

    @server.resource("shop://a")
    def a() -> str:
        return ""

    @server.prompt(complete={"city": ["Paris", "Pa\x1b", "Porto"], "street": streets})
    def go(city: str, street: str) -> str:
        return ""

    with endpoint(server) as site:
        options = Namespace(
            config=None,
            server=[f"http://127.0.0.1:{site.port}/mcp"],
            env=[],
            header=[],
            quiet=False,
            revision=None,
            timeout=PATIENCE,
            log_level=None,
            root=None,
        )
        shell = Shell(options, lambda words, known: known, lambda problem: 1, [], has_terminal=False)
        try:
            yield Completer(shell, ["call", "prompt", "ping", ":wire"])
        finally:
            shell.client.close()


def streets(value: str, arguments: dict[str, str]) -> Sequence[str]:
    return [f"{arguments.get('city')}-street"]


@pytest.mark.parametrize(
    ("before", "text", "found"),
    [
        ("", "p", ["prompt ", "ping "]),
        ("", ":", [":wire "]),
        ("call ", "pa", ["paint ", "pack "]),
        ("call paint ", "", ["colour=", "size=", "dry=", "name="]),
        ("call paint size=1 ", "", ["colour=", "dry=", "name="]),
        ("call paint ", "colour=", ["colour=red ", "colour=green "]),
        ("call paint ", "size=", ["size=1 ", "size=2 "]),
        ("call paint ", "dry=t", ["dry=true "]),
        ("call paint ", "name=x", []),
        ("call paint ", "other=", []),
        ("call nothing ", "", []),
        ("prompt ", "", ["go "]),
        ("prompt go ", "", ["city=", "street="]),
        ("prompt go ", "city=P", ["city=Paris ", "city=Porto "]),
        ("prompt go city=Paris x ", "street=", ["street=Paris-street "]),
        ("read ", "shop", ["shop://a "]),
        ("listen ", "", ["shop://a "]),
        (":wire ", "o", ["on ", "off "]),
        (":revision ", "2024", ["2024-11-05 "]),
        ("ping ", "x", []),
    ],
)
def test_a_word_is_completed_by_its_place(
    completer: Completer, before: str, text: str, found: list[str]
) -> None:
    assert completer.candidates(before, text) == found


def test_an_argument_of_any_value_is_completed_by_none(completer: Completer) -> None:
    """JSON Schema has `true` for it."""
    server_has: Any = completer._shell.client
    server_has.list_tools = lambda: [{"name": "t", "inputSchema": {"properties": {"x": True}}}]
    assert completer.candidates("call t ", "") == ["x="]
    assert completer.candidates("call t ", "x=") == []


def test_lists_are_kept_until_the_line_is_run(completer: Completer) -> None:
    server_has: Any = completer._shell.client
    asked: list[str] = []
    fetch = server_has.list_tools
    server_has.list_tools = lambda: asked.append("tools") or fetch()
    completer.candidates("call ", "p")
    completer.candidates("call ", "pa")
    assert asked == ["tools"]
    completer.forget()
    completer.candidates("call ", "p")
    assert asked == ["tools", "tools"]


def test_a_server_that_is_gone_has_nothing_to_choose_from(completer: Completer) -> None:
    completer._shell.client.close()
    assert completer.candidates("call ", "p") == []


def test_readline_gets_one_candidate_after_another(completer: Completer) -> None:
    readline = pytest.importorskip("readline")
    before = readline.get_completer()
    with shells._completing(completer):
        assert readline.get_completer() is completer
        assert [completer("p", state) for state in range(3)] == ["prompt ", "ping ", None]
    assert readline.get_completer() is before


def test_where_there_is_no_readline_nothing_is_completed(
    completer: Completer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "readline", None)
    with shells._completing(completer):
        pass


def test_typed_lines_are_run_until_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    """As at the terminal above, in this process."""

    class Typed(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Typed("ping\n:quit\n"))
    with endpoint(Server("far", version="2")) as site:
        assert main(["shell", f"http://127.0.0.1:{site.port}/mcp"]) == 0
        monkeypatch.setattr(sys, "stdin", Typed("ping\n"))
        assert main(["shell", f"http://127.0.0.1:{site.port}/mcp"]) == 0
        answers: list[Any] = [KeyboardInterrupt, EOFError]

        def ask(prompt: str) -> str:
            raise answers.pop(0)

        monkeypatch.setattr("builtins.input", ask)
        assert main(["shell", f"http://127.0.0.1:{site.port}/mcp"]) == 0
    said = capsys.readouterr()
    assert said.out.count("answered in") == 2
    assert "far> " in said.out
    assert "far 2, revision 2026-07-28" in said.err
