"""cli/follow: a task is followed to its end, and Ctrl-C asks what is to become of it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import ROOT, Person
from cli.test_over_http import served
from peers import PATIENCE, eventually

from mcp_ref import Context, Server, Task, TaskOptions, connect
from mcp_ref.cli.follow import follow, way_back
from mcp_ref.cli.main import main
from mcp_ref.cli.show import TaskLine

BOTH = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
ENV = ["--env", f"PYTHONPATH={ROOT}"]
MENU = "cancel it, or Enter to wait on? > "
CTRL_C = "\x03"

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def go(work: list[str]) -> Path:
    """The file whose being there lets `build` end."""
    return Path(work[-1]).with_name("go")


@pytest.fixture
def url(work: list[str]) -> Iterator[str]:
    """Where the same server is served."""
    with served(work[-1]) as (place, _):
        yield place


def task_id(said: str) -> str:
    found = re.search(r"mcp-ref: task ([0-9a-f]{32})$", said, re.M)
    assert found, said
    return found[1]


def begun(person: Person) -> str:
    """The id of the task, once it is shown and beside it how far the task is."""
    found = task_id(person.sees("\n"))
    person.sees("1 of 3")
    return found


def call(tool: str, revision: str) -> list[str]:
    return ["call", tool, "--task", "--revision", revision]


# ------------------------------------------------------------------------------ at a terminal


@BOTH
def test_on_a_terminal_the_id_stays_and_a_bar_shows_how_far_the_task_is(
    work: list[str], go: Path, revision: str
) -> None:
    with Person(*call("build", revision), *ENV, *work) as person:
        task_id(person.sees("\n"))
        person.sees("[#######.............] 1 of 3 building\ufffd[2J")
        go.touch()
        code, out, rest = person.ends()
    assert (code, out) == (0, "built\n")
    assert rest.endswith("\r\x1b[K")


@BOTH
def test_what_a_task_asks_is_asked_at_the_terminal(work: list[str], revision: str) -> None:
    with Person(*call("sure", revision), *ENV, *work) as person:
        person.sees("| Really?")
        person.sees("accept, decline or cancel? > ")
        person.types("accept\n")
        code, out, _ = person.ends()
    assert (code, out) == (0, "yes\n")


@BOTH
@pytest.mark.parametrize("key", ["d\n", CTRL_C], ids=["d", "ctrl-c"])
def test_a_task_that_is_detached_from_goes_on_and_can_be_come_back_to(
    url: str, go: Path, capsys: Captured, revision: str, key: str
) -> None:
    with Person(*call("build", revision), "--", url) as person:
        name = begun(person)
        person.types(CTRL_C)
        person.sees(f"detach (it goes on), {MENU}")
        person.types(key)
        code, out, said = person.ends()
    assert (code, out) == (130, "")
    back = f"mcp-ref tasks --id={name} --wait -- {url}"
    assert said.endswith(f"mcp-ref: the task goes on. Come back to it:\n  {back}\n")
    go.touch()
    capsys.readouterr()
    assert main([*back.split()[1:4], "--revision", revision, *back.split()[4:]]) == 0
    assert capsys.readouterr().out == "built\n"


@BOTH
def test_a_task_that_is_cancelled_at_the_menu_ends_on_the_server(url: str, go: Path, revision: str) -> None:
    with Person(*call("build", revision), "--", url) as person:
        begun(person)
        person.types(CTRL_C)
        person.sees(MENU)
        person.types("c\n")
        code, out, said = person.ends()
    assert (code, out) == (130, "")
    assert said.endswith("mcp-ref: the task was cancelled\n")
    assert eventually(go.with_name("ended").exists)


def test_an_empty_answer_waits_on(work: list[str], go: Path) -> None:
    with Person(*call("build", "2026-07-28"), *ENV, *work) as person:
        begun(person)
        for _ in range(2):
            person.types(CTRL_C)
            person.sees(MENU)
            person.types("\n")
            person.sees("1 of 3")  # the line is back
        go.touch()
        code, out, _ = person.ends()
    assert (code, out) == (0, "built\n")


def test_a_task_that_ends_while_the_person_chooses_gives_its_result(work: list[str], go: Path) -> None:
    with Person(*call("build", "2025-11-25"), *ENV, *work) as person:
        begun(person)
        person.types(CTRL_C)
        person.sees(MENU)
        go.touch()
        person.sees("this question is over")
        code, out, _ = person.ends()
    assert (code, out) == (0, "built\n")


@BOTH
def test_who_detaches_from_a_server_of_this_command_is_told_what_survives_it(
    work: list[str], capsys: Captured, revision: str
) -> None:
    kept = [*ENV, *work, "kept"]
    with Person(*call("build", revision), *kept) as person:
        name = begun(person)
        person.types(CTRL_C)
        person.sees(f"detach (which ends the server), {MENU}")
        person.types("d\n")
        code, out, said = person.ends()
    assert (code, out) == (130, "")
    assert "mcp-ref: the server ends with this command; its tasks survive only in a SqliteStore" in said
    assert main(["tasks", "--id", name, "--revision", revision, *kept]) == 0
    state, message = capsys.readouterr().out.splitlines()[:2]
    assert state == f"{name}  failed"
    assert "The task was interrupted" in message


# --------------------------------------------------------------------------- without a terminal


def run(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mcp_ref", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # without a controlling terminal
    )


@BOTH
def test_without_a_terminal_the_id_is_a_line_and_so_is_how_far_it_is_and_ctrl_c_cancels(
    url: str, go: Path, revision: str
) -> None:
    with run(*call("build", revision), "--", url) as caller:
        assert caller.stderr is not None
        said = ""
        while not ("task " in said and "1 of 3" in said):
            said += caller.stderr.readline()
        caller.send_signal(signal.SIGINT)
        out, rest = caller.communicate(timeout=PATIENCE)
    task_id(said)
    assert "mcp-ref: working: building\ufffd[2J (1 of 3)\n" in said
    assert (caller.returncode, out) == (130, "")
    assert rest.endswith("mcp-ref: the task was cancelled\n")
    assert eventually(go.with_name("ended").exists)


def test_without_a_terminal_ctrl_c_ends_only_the_waiting_for_a_task_that_was_there(
    url: str, go: Path, capsys: Captured
) -> None:
    with connect(url) as client:
        task = client.start_tool("build")
        with run("tasks", "--id", task.id, "--wait", "--", url) as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline().startswith("mcp-ref: working")
            waiting.send_signal(signal.SIGINT)
            out, rest = waiting.communicate(timeout=PATIENCE)
        assert (waiting.returncode, out) == (130, "")
        assert "the task goes on" in rest
        go.touch()
        assert task.result(PATIENCE).text == "built"


# ------------------------------------------------------------------------------ in this process


server = Server("here", tasks=TaskOptions(poll_interval=0.05))
may_end = threading.Event()


@server.tool(task="required")
def hold(ctx: Context) -> str:
    ctx.status("holding")
    while not may_end.is_set():
        ctx.sleep(0.02)
    return "held"


class Interrupting(TaskLine):
    """Ctrl-C is pressed when the task says what it does."""

    def on_status(self, status: str, message: str | None) -> None:
        super().on_status(status, message)
        if message == "holding":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


AT_URL = Namespace(config=None, server=["http://127.0.0.1/mcp"], header=[])


@pytest.fixture
def task() -> Iterator[Task]:
    may_end.clear()
    with connect(server) as client:
        yield client.start_tool("hold")
        may_end.set()


def test_a_result_is_returned_and_what_a_task_ends_with_is_raised(task: Task) -> None:
    may_end.set()
    assert follow(task, TaskLine(), never, AT_URL).text == "held"


def never(is_over: Callable[[], bool]) -> Any:
    raise AssertionError("there was no Ctrl-C")


@pytest.mark.parametrize(
    ("choice", "said"), [("detach", "the task goes on"), ("cancel", "the task was cancelled")]
)
def test_the_choice_after_ctrl_c_is_done(task: Task, choice: Any, said: str) -> None:
    with pytest.raises(KeyboardInterrupt, match=said):
        follow(task, Interrupting(), lambda is_over: choice, AT_URL)
    assert task.refresh().status == {"detach": "working", "cancel": "cancelled"}[choice]


def test_waiting_on_is_a_choice(task: Task) -> None:
    def choose(is_over: Callable[[], bool]) -> Any:
        assert not is_over()
        may_end.set()
        assert eventually(is_over)
        return "cancel"  # it comes too late, and is no error

    assert follow(task, Interrupting(), choose, AT_URL).text == "held"


def test_cancelling_what_is_over_by_then_gives_its_result(task: Task) -> None:
    """Between the choice and the server's hearing of it the task has ended."""
    cancel = task.cancel

    def late() -> None:
        may_end.set()
        assert eventually(lambda: task.is_over)
        cancel()

    task.cancel = late  # type: ignore[method-assign]
    assert follow(task, Interrupting(), lambda is_over: "cancel", AT_URL).text == "held"


def test_a_signal_while_a_person_chooses_ends_the_question(task: Task) -> None:
    def choose(is_over: Callable[[], bool]) -> Any:
        assert not is_over()
        signal.raise_signal(signal.SIGINT)
        assert is_over()
        return "detach"

    with pytest.raises(KeyboardInterrupt, match="the task goes on"):
        follow(task, Interrupting(), choose, AT_URL)


def test_ctrl_c_is_what_it_was_afterwards(task: Task) -> None:
    with pytest.raises(KeyboardInterrupt):
        follow(task, Interrupting(), lambda is_over: "detach", AT_URL)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_task_is_followed_on_any_thread(task: Task) -> None:
    may_end.set()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(follow, task, TaskLine(), never, AT_URL).result(PATIENCE).text == "held"


def test_the_way_back_can_be_pasted_into_a_shell_whatever_a_server_calls_its_task() -> None:
    said = way_back("-x; rm *\n\x1b[2J", Namespace(config=None, server=["python", "my server.py"], header=[]))
    assert said.splitlines()[1:] == [
        "mcp-ref tasks '--id=-x; rm *\\n\ufffd[2J' --wait -- python 'my server.py'"
    ]


def test_the_way_back_says_that_headers_are_needed_and_not_what_is_in_them() -> None:
    said = way_back("1", Namespace(config=None, server=["http://a/"], header=["Authorization: xyzzy"]))
    assert said == (
        "the task goes on. Come back to it, with the same --header:\nmcp-ref tasks --id=1 --wait -- http://a/"
    )
