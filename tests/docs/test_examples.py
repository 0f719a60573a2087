"""Every example of the docs is run, and prints what its page says it prints.

An example `x.py` has its output beside it in `x.out`. They run in an environment that has the package
and what it depends on, as they do for a reader who typed `pip install`.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers import PATIENCE, eventually, port_kept

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SERVED = {
    "demo_server.py",
    "quickstart_server.py",
    "readme/http_server.py",
    "readme/server.py",
    "remote_server.py",
    "sqlite_server.py",
}
"""Examples that other examples start."""
ELSEWHERE = {
    "auth": "docs/test_auth_demo.py",
    "deploy": "deploy",
    "first_hour": "docs/test_first_hour.py",
    "agents": "docs/test_tasks.py",
    "notebook.py": "docs/test_tasks.py",
    "testing": "docs/test_tasks.py",
    "web": "docs/test_tasks.py",
}
"""Examples that tests of their own run."""
TOLD = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.out"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that finds the package, also in a child with the safe environment; `mcp-ref` beside it."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, symlinks=True)
    packages = next(home.glob("lib/python*/site-packages"))
    here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "project.pth").write_text("\n".join([str(ROOT), *here]))
    command = home / "bin" / "mcp-ref"
    command.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -W error -m mcp_ref "$@"\n')
    command.chmod(0o755)
    return str(home / "bin" / "python")


def run(
    python: str, *words: str, cwd: Path = EXAMPLES, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with warnings as errors."""
    return subprocess.run(
        [python, "-W", "error", *words],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("out", sorted(set(TOLD) - {"cli.out", "readme/http_client.out"}))
def test_example_prints_what_its_page_says(python: str, out: str) -> None:
    expected = EXAMPLES / out
    done = run(python, expected.with_suffix(".py").name, cwd=expected.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected.read_text()


def test_the_command_line_prints_what_its_page_says(python: str) -> None:
    path = f"{Path(python).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "cli.sh"], cwd=EXAMPLES, env={"PATH": path}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == (EXAMPLES / "cli.out").read_text(), done.stderr
    assert done.returncode == 0


def test_the_sentence_of_readme_about_its_example_is_true(python: str) -> None:
    done = run(python, "client.py", cwd=EXAMPLES / "readme")
    assert f"``{done.stdout.strip()}``" in (ROOT / "README.rst").read_text()


# -------------------------------------------------------------------------- over HTTP


@contextlib.contextmanager
def served(python: str, port: int, *words: str, cwd: Path) -> Iterator[None]:
    """A server in a process, which listens at that port; Ctrl-C ends it well."""
    command = [python, "-W", "error", *words]
    environment = {"PATH": os.environ["PATH"]}
    with subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert eventually(lambda: server.poll() is not None or _listens(port))
            yield
        finally:
            server.send_signal(signal.SIGINT)
            _, said = server.communicate(timeout=PATIENCE)
            assert server.returncode == 0, said


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def port() -> Iterator[str]:
    """Instead of 8000, where something else may be."""
    with port_kept() as kept:
        yield str(kept)


def test_the_samples_of_readme_over_http_do_what_it_says(python: str, port: str, tmp_path: Path) -> None:
    for name in "http_server.py", "http_client.py":
        sample = (EXAMPLES / "readme" / name).read_text()
        assert sample.count("8000") == 1
        (tmp_path / name).write_text(sample.replace("8000", port))
    with served(python, int(port), "http_server.py", cwd=tmp_path):
        done = run(python, "http_client.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (EXAMPLES / "readme" / "http_client.out").read_text()


def test_the_command_line_over_http_does_what_its_page_says(python: str, port: str) -> None:
    page = (ROOT / "docs" / "cli.rst").read_text()
    serve, call = (
        line.replace("8000", port).split() for line in re.findall("^ +(mcp-ref .*8000.*)$", page, re.M)
    )
    with served(python, int(port), "-m", "mcp_ref", *serve[1:], cwd=ROOT):
        done = run(python, "-m", "mcp_ref", *call[1:], cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_every_example_is_run() -> None:
    """None is left out: it has its output beside it, or is started by one that has, or is the demo; those
    in ELSEWHERE are run by other tests.
    """
    paths = [path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.py")]
    found = {str(path) for path in paths if path.parts[0] not in ELSEWHERE}
    for tests in ELSEWHERE.values():
        assert (ROOT / "tests" / tests).exists()
    run_here = {"cli.py"} ^ {out.removesuffix(".out") + ".py" for out in TOLD}
    assert found - run_here == {"demo.py", "wire.py", *SERVED}


# ------------------------------------------------------------------------- the demo


@pytest.fixture(scope="module")
def shown(python: str) -> str:
    """What the demo prints."""
    done = run(python, "docs/examples/demo.py", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def heads(text: str) -> list[tuple[str, str]]:
    """The arrow and the name of each message."""
    return re.findall(r"^(-->|<--) +\d+\.\d\d s  (.*?) +page: \S+$", text, re.M)


def test_the_demo_shows_every_message_in_both_directions(shown: str) -> None:
    before = shown.partition("a task in the legacy era")[0]
    said = heads(before)
    calls = ["tools/list", "tools/call", "tools/call", "end of input"]
    once = ["tools/call", "result of elicitation/create", "end of input"]
    twice = ["tools/call", "tools/call again, with what was asked for", "end of input"]
    hello = ["initialize", "notifications/initialized"]
    asked = [*hello, *calls, "server/discover", *calls, *hello, *once, "server/discover", *twice]
    assert [what for arrow, what in said if arrow == "-->"] == asked
    ended = ["result of tools/call", "the server exits with code 0"]
    calls = ["result of tools/list", "result of tools/call", *["notifications/progress"] * 3, *ended]
    once = ["elicitation/create", *ended]
    twice = ["question instead of a result of tools/call", *ended]
    hello, hi = ["result of initialize"], ["result of server/discover"]
    answered = [what for arrow, what in said if arrow == "<--"]
    assert answered == [*hello, *calls, *hi, *calls, *hello, *once, *hi, *twice]
    messages = [what for _, what in said if "end of" not in what and "exits" not in what]
    assert before.count('"jsonrpc": "2.0"') == len(messages) == 36


def test_the_demo_shows_where_the_tool_is_while_it_asks(shown: str) -> None:
    """It waits for the answer in the legacy era, and runs anew with it in the modern one."""
    _, legacy, modern, *_ = re.split("== 20.*a (?:question|task)", shown)
    begins, goes_on = "the function book() begins, and asks", "the function book() has its answer, and ends"
    moments = re.compile("the function.*|elicitation/create  |question instead|again, with what")
    asked = "elicitation/create  "
    assert moments.findall(legacy) == [begins, asked, asked, goes_on]
    assert moments.findall(modern) == [begins, "question instead", "again, with what", begins, goes_on]


LEGACY_TASK = [
    ("-->", "tools/call"),
    ("<--", "notifications/progress"),
    ("-->", "tasks/result"),
    ("<--", "elicitation/create"),
    ("-->", "result of elicitation/create"),
    ("<--", "notifications/progress"),
    ("<--", "result of tasks/result"),
    ("-->", "end of input"),
]
MODERN_TASK = [
    ("-->", "tools/call"),
    ("<--", "task instead of a result of tools/call"),
    ("-->", "subscriptions/listen"),
    ("-->", "tasks/get"),
    ("<--", "result of tasks/get"),
    ("-->", "tasks/update"),
    ("<--", "result of tasks/update"),
    ("-->", "end of input"),
]


def test_the_last_act_of_the_demo_is_a_task(shown: str) -> None:
    """What must come, in this order; how often the client looks meanwhile is a matter of time."""
    _, legacy, modern = re.split("== 20.*a task", shown)
    for expected, text in (LEGACY_TASK, legacy), (MODERN_TASK, modern):
        said = iter(heads(text))
        assert [head for head in expected if head in said] == expected
        assert "resource_link" in text
    assert legacy.count("task instead of a result") == 1
    assert "notifications/progress" not in modern.partition("== The result")[0]


def test_the_demo_names_pages_that_exist(shown: str) -> None:
    clauses = (ROOT / "docs" / "clauses.tsv").read_text().splitlines()
    known = {line.split("\t")[1] for line in clauses}
    old = {"basic/utilities/progress", "basic/utilities/cancellation"}
    assert set(re.findall(r"page: (\S+)$", shown, re.M)) <= known | old


def test_the_demo_ends_with_the_result_and_the_next_step(shown: str) -> None:
    result = shown.partition("== The result")[2]
    assert re.search(r"add\(2, 3\) +5 +5$", result, re.M)
    assert re.search(r"messages on the wire +12 +11$", result, re.M)
    assert re.search(r"messages on the wire +7 +6$", result, re.M)
    assert re.search(r"runs of book\(\) +1 +2$", result, re.M)
    assert re.search(r'render\("rain"\) +text, resource_link +text, resource_link$', result, re.M)
    statuses = "working, input_required, completed"
    assert re.search(rf"statuses of the task +{statuses} +{statuses}$", result, re.M)
    assert "== The next step" in result
    for name in re.findall(r"docs/\S+\.(?:py|rst)", result):
        assert (ROOT / name).is_file(), name


def test_the_demo_fits_the_screen_and_has_no_colours_in_a_pipe(shown: str) -> None:
    assert max(map(len, shown.splitlines())) <= 100
    assert "\x1b" not in shown


def test_the_demo_is_coloured_where_it_is_asked_for(python: str) -> None:
    assert "\x1b[36m-->" in run(python, "demo.py", FORCE_COLOR="1").stdout
    assert "\x1b" not in run(python, "demo.py", FORCE_COLOR="1", NO_COLOR="1").stdout


# ------------------------------------------------------------------------ the relay


def test_wire_tells_what_it_was_given(python: str) -> None:
    assert "usage" in run(python, "wire.py").stderr


def test_wire_ends_with_the_exit_code_of_its_server(python: str) -> None:
    done = run(python, "wire.py", python, "-c", "import sys; print('not json'); sys.exit(3)")
    assert done.returncode == 3
    assert done.stdout == "not json\n"
    assert re.search(r"<-- +\d+\.\d\d s  not JSON", done.stderr)
    assert "the server exits with code 3" in done.stderr


def test_wire_passes_large_messages_both_ways_and_shortens_what_it_shows(python: str) -> None:
    """A megabyte each way at once, which no pipe holds: neither direction waits for the other."""
    echo = "import sys\nfor line in sys.stdin: sys.stdout.write(line); sys.stdout.flush()"
    line = '{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"text": "' + "a" * 1_000_000 + '"}}\n'
    wire = subprocess.Popen(
        [python, "wire.py", python, "-c", echo],
        cwd=EXAMPLES,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said, shown = wire.communicate(line * 3, timeout=60)
    finally:
        wire.send_signal(signal.SIGKILL)
    assert said == line * 3
    assert len(shown) < 5000
    assert max(map(len, shown.splitlines())) <= 100
