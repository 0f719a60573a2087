"""The first hour, as five scripts: each does what it says, is short and typed, and needs no inner module."""

from __future__ import annotations

import ast
import contextlib
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from http_peers import serving
from peers import ENV, PATIENCE, ROOT, eventually, nothing_left, port_kept

from mcp_ref import ClientOptions, Server, ToolError, connect

FOLDER = Path(ROOT, "docs", "examples", "first_hour")
SCRIPTS = ("confirmation", "flask_app", "remote_client", "sqlite_server", "three_servers")
STARTED = "slow_server"
"""By three_servers."""


def run(
    script: str, *words: str, stdin: str = "", folder: Path = FOLDER, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", folder / f"{script}.py", *words],
        env={"PATH": "/usr/bin:/bin", **ENV, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


# ------------------------------------------------------------------------ all of them


def test_there_are_five_scripts_and_what_one_of_them_starts() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*SCRIPTS, STARTED}


@pytest.mark.parametrize("script", [*SCRIPTS, STARTED])
def test_a_script_is_short_and_imports_nothing_from_within(script: str) -> None:
    text = (FOLDER / f"{script}.py").read_text()
    assert len(text.splitlines()) < 30
    imported = re.findall(r"^\s*(?:from|import) (mcp_ref\S*)", text, re.M)
    assert imported == ["mcp_ref"]
    assert ast.get_docstring(ast.parse(text))


def test_a_type_checker_finds_nothing_in_the_scripts(tmp_path: Path) -> None:
    """Nor in those that show a task."""
    options = ["--strict", "--config-file=", f"--cache-dir={tmp_path}", "--no-error-summary"]
    more = [*FOLDER.parent.glob("agents/*.py"), *FOLDER.parent.glob("testing/*.py")]
    more += [FOLDER.parent / "notebook.py", FOLDER.parent / "web" / "flask_context.py"]
    files = [*more, *(FOLDER / f"{script}.py" for script in (*SCRIPTS, STARTED))]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    # The package itself is checked with its own settings, by `make types`.
    said = [line for line in done.stdout.splitlines() if not line.startswith("mcp_ref/")]
    assert (said, done.stderr) == ([], "")
    assert done.returncode in (0, 1)  # 2: it could not check at all


# --------------------------------------------------------------------- a SQLite server


def test_a_sqlite_server(tmp_path: Path) -> None:
    file = tmp_path / "books.db"
    with closing(sqlite3.connect(file)) as books, books:
        books.execute("create table books (title text primary key, year integer)")
    command = [sys.executable, "-W", "error", FOLDER / "sqlite_server.py", file]
    with nothing_left(), connect(command, options=ClientOptions(env=ENV), check=True) as client:
        for title, year in ("Emma", 1815), ("Ulysses", 1922), ("x'); drop table books; --", 2000):
            client.call_tool("add", {"title": title, "year": year})
        assert client.call_tool("find", {"before": 1900}, returns=list[tuple[str, int]]) == [("Emma", 1815)]
        assert client.call_tool("find", {"title": "'"}).structured == {
            "result": [["x'); drop table books; --", 2000]]
        }
        calls = [client.submit_tool("add", {"title": str(n), "year": n}) for n in range(20)]
        assert [call.result().is_error for call in calls] == [False] * 20
        with pytest.raises(ToolError, match="UNIQUE"):
            client.call_tool("add", {"title": "Emma", "year": 1})
    with closing(sqlite3.connect(file)) as books:
        assert books.execute("select count(*) from books").fetchone() == (23,)


# ------------------------------------------------------------------- a client with retry


class Flaky:
    """A server that is turned away, cut off or away, as often as it is told to."""

    def __init__(self, app: Callable[..., Iterable[bytes]], *problems: str) -> None:
        self.app, self.problems = app, list(problems)
        self.tokens: set[str | None] = set()
        self.called = 0

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.tokens.add(environ.get("HTTP_AUTHORIZATION"))
        is_call = environ.get("HTTP_MCP_METHOD") == "tools/call"
        self.called += is_call
        if self.problems and is_call:
            problem = self.problems.pop(0)
            environ["wsgi.input"].read()
            start(problem, [("Retry-After", "0")] if problem.startswith("503") else [])
            return [b""]
        return self.app(environ, start)


def calculator() -> Server:
    server = Server("calculator")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


def test_a_remote_client_tries_again() -> None:
    server = calculator()
    app = Flaky(server.wsgi_app(), "503 Service Unavailable", "503 Service Unavailable")
    with serving(app) as at, closing(app.app):
        done = run("remote_client", f"http://127.0.0.1:{at.port}/mcp", MCP_TOKEN="secret")
    assert (done.stdout, done.stderr) == ("calculator speaks 2026-07-28\n- add\n3\n", "")
    assert app.tokens == {"Bearer secret"}
    assert app.called == 3


WAITS = """
import runpy, sys
from mcp_ref.api import retrying

def sleep(self, pause, problem):
    print(type(problem).__name__, file=sys.stderr, flush=True)
    input()

retrying.Attempts._sleep = sleep
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script whose pauses between two attempts are told, and last until there is a line of input."""


def test_a_remote_client_waits_for_a_server_that_starts() -> None:
    script, quickstart = FOLDER / "remote_client.py", Path(ROOT, "docs/examples/quickstart_server.py")
    with contextlib.ExitStack() as running:
        port = running.enter_context(port_kept())

        def start(*words: Any) -> subprocess.Popen[str]:
            command = [sys.executable, *map(str, words)]
            ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            environment = {"PATH": "/usr/bin:/bin", **ENV}
            child = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **ends)
            running.enter_context(child)
            running.callback(child.kill)
            return child

        client = start("-W", "error", "-c", WAITS, script, f"http://127.0.0.1:{port}/mcp")
        assert client.stderr is not None
        assert client.stderr.readline() == "NotReached\n"
        server = start("-m", "mcp_ref", "serve", quickstart, "--http", port)
        assert eventually(lambda: server.poll() is not None or _listens(port))
        said = client.communicate("\n", timeout=60)
    assert said == ("weights speaks 2026-07-28\n- add\n- convert\n3\n", "")


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        ("502 Bad Gateway", "look whether it was done: tools/call: "),
        ("401 Unauthorized", "HttpFailure: "),
    ],
)
def test_a_remote_client_says_what_went_wrong(problem: str, says: str) -> None:
    app = Flaky(calculator().wsgi_app(), *[problem] * 10)
    with serving(app) as at, closing(app.app):
        done = run("remote_client", f"http://127.0.0.1:{at.port}/mcp")
    assert done.returncode == 1
    assert done.stderr.startswith(says)
    assert done.stderr.count("\n") == 1
    assert app.called == 1


# ------------------------------------------------------------------------------ Flask


def test_a_flask_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delitem(sys.modules, "flask_app", raising=False)
    import flask_app

    with nothing_left():
        answer = flask_app.app.test_client().get("/greet/Ada")
    assert (answer.status_code, answer.text) == (200, "Hello, Ada!")
    mounted = flask_app.app.wsgi_app.mounts["/mcp"]
    with (
        serving(flask_app.app) as at,
        closing(mounted),
        connect(f"http://127.0.0.1:{at.port}/mcp") as client,
    ):
        assert client.call_tool("greet", {"name": "Ada"}).text == "Hello, Ada!"
    sys.modules.pop("flask_app")


# ------------------------------------------------------------- three servers, confirmation


def test_three_servers_with_progress_bars(tmp_path: Path) -> None:
    """They copy at the same time; more slowly than on the page, since they may begin half a second apart."""
    for name in ("three_servers", STARTED):
        text = Path(FOLDER, f"{name}.py").read_text()
        Path(tmp_path, f"{name}.py").write_text(text.replace("ctx.sleep(0.1)", "ctx.sleep(0.6)"))
    start = time.monotonic()
    done = run("three_servers", folder=tmp_path)
    assert done.stderr == ""
    shown = done.stdout.replace("\r", "\n").splitlines()
    assert shown[-3:] == ["photos: 3 files copied", "letters: 8 files copied", "music: 5 files copied"]
    bars = [[bar.count("#") for bar in re.findall(r"\[(.{10})\]", line)] for line in shown if "[" in line]
    assert bars[-1] == [10, 10, 10]
    assert all(list(bar) == sorted(bar) for bar in zip(*bars, strict=True))
    at_work = [sum(0 < bar < 10 for bar in line) for line in bars]
    assert max(at_work) > 1, "they ran one after another"
    assert time.monotonic() - start < 2 * PATIENCE


def test_a_confirmation() -> None:
    done = run("confirmation", stdin="y\nno\n")
    asked = "files asks: Delete {} [y/N] "
    assert done.stdout == (
        f"{asked.format('a.txt?')}a.txt is gone\n{asked.format('b.txt?')}b.txt is kept\nleft: b.txt\n"
    )
    assert done.stderr == ""
