"""What a server says to a person, at a pseudo-terminal and in this process."""

from __future__ import annotations

import io
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from http_peers import serving
from peers import ENV, PATIENCE

from mcp_ref import Context, Server, connect
from mcp_ref.api import at_terminal
from mcp_ref.api.at_terminal import RequestLog, say_serving, say_waiting

SERVER = """
import sys
from mcp_ref import Server
server = Server("demo")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

if __name__ == "__main__":
    server.run(*sys.argv[1:2], **({"port": 0, "log": len(sys.argv) > 2} if sys.argv[1:] else {}))
"""


class AtTerminal:
    """A program whose streams are a terminal."""

    def __init__(self, *words: str) -> None:
        self.screen, line = os.openpty()
        self.child = subprocess.Popen(
            [sys.executable, *words],
            stdin=line,
            stdout=line,
            stderr=line,
            env={**os.environ, **ENV},
            start_new_session=True,
        )
        os.close(line)
        self.seen = ""

    def sees(self, pattern: str) -> re.Match[str]:
        until = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.seen)) is None:
            ready = select.select([self.screen], [], [], max(0.0, until - time.monotonic()))[0]
            assert ready, f"no {pattern!r} in {self.seen!r}"
            self.seen += os.read(self.screen, 65_536).decode().replace("\r\n", "\n")
        return found

    def __enter__(self) -> AtTerminal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.screen)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return str(path)


def test_a_server_that_is_started_by_hand_says_what_it_waits_for(script: str) -> None:
    with AtTerminal(script) as server:
        server.sees("demo waits for a client, which starts it by itself and talks to it in JSON.\n")
        server.sees(rf"To try it, end it \(Ctrl-D\), and then: mcp-ref shell {re.escape(script)}\n")
        os.write(server.screen, b"\x04")
        assert server.child.wait(PATIENCE) == 0
    with AtTerminal("-m", "mcp_ref", "serve", script) as server:
        server.sees(rf"mcp-ref shell -- \S+ -m mcp_ref serve {re.escape(script)}\n")


def test_a_server_over_http_says_its_url_and_each_request(script: str) -> None:
    with AtTerminal(script, "http", "log") as server:
        url = server.sees(r"serving at (http://127\.0\.0\.1:\d+/mcp); Ctrl-C ends it\n")[1]
        with connect(url) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        time_and_place = r"\d\d:\d\d:\d\d 127\.0\.0\.1 POST /mcp"
        server.sees(rf"{time_and_place} server/discover 200 \d+ ms\n")
        server.sees(rf"{time_and_place} tools/call 200 \d+ ms\n")
        requests.get(url.replace("/mcp", "/no\x1b[2Jwhere"), timeout=PATIENCE)
        server.sees(r"GET /no\\x1b\[2Jwhere - 404")
        server.child.send_signal(signal.SIGINT)
        assert server.child.wait(PATIENCE) == 0
    with AtTerminal(script, "http") as server:
        url = server.sees(r"serving at (http://\S+);")[1]
        with connect(url) as client:
            client.call_tool("add", {"a": 1, "b": 2})
        server.child.send_signal(signal.SIGINT)
        assert server.child.wait(PATIENCE) == 0
        assert "tools/call" not in server.seen


def test_the_command_says_each_request_with_log(script: str) -> None:
    command = [sys.executable, "-m", "mcp_ref", "serve", script, "--http", "0", "--log"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **ENV}
    ) as child:
        assert child.stderr is not None
        found = re.match(r"serving at (\S+);", child.stderr.readline())
        assert found is not None
        with connect(found[1]) as client:
            client.ping()
        assert " POST /mcp server/discover 200 " in child.stderr.readline()
        child.terminate()


def test_log_of_a_server_on_stdio_is_misuse(script: str) -> None:
    command = [sys.executable, "-m", "mcp_ref", "serve", script, "--log"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **ENV}, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert "--log is about requests over HTTP" in done.stderr


class Stream(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: is_terminal  # type: ignore[method-assign]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_is_said_where_there_is_no_terminal(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = Stream(is_terminal)
    monkeypatch.setattr(sys, "stdin", Stream(is_terminal))
    monkeypatch.setattr(sys, "stderr", said)
    (tmp_path / "my server.py").touch()
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "my server.py")])
    say_waiting("de\x1bmo")
    say_serving("http://h/")
    assert ("serving at http://h/; Ctrl-C ends it\n" in said.getvalue()) is is_terminal
    assert (f"mcp-ref shell '{tmp_path}/my server.py'\n" in said.getvalue()) is is_terminal
    assert "\x1b" not in said.getvalue()


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_stream_that_is_gone_is_no_terminal(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stdin", gone if stream else None)
    monkeypatch.setattr(sys, "stderr", None)
    say_waiting("demo")
    say_serving("http://h/")
    at_terminal._say("x")


def test_a_request_that_fails_is_told_of_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/fail":
            raise ValueError("out of order")
        start_response("204 No Content", [])
        return []

    log = RequestLog(app)
    started: list[Any] = []
    assert log({"PATH_INFO": "/x" * 300}, lambda *given: started.append(given)) == []
    with pytest.raises(ValueError, match="out of order"):
        log({"PATH_INFO": "/fail", "REQUEST_METHOD": "GET"}, started.append)
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\S+ - - (/x){100} - 204 \d+ ms", first)
    assert re.fullmatch(r"\S+ - GET /fail - - \d+ ms", second)
    assert started == [("204 No Content", [])]


def test_a_stream_of_events_passes_through() -> None:
    server = Server("demo")

    @server.tool
    def add(a: int, b: int, ctx: Context) -> int:
        ctx.progress(1, 2)
        return a + b

    app, reports = server.wsgi_app(), []
    with serving(RequestLog(app)) as site:
        with connect(f"http://127.0.0.1:{site.port}/mcp") as client:
            on_progress = lambda *told: reports.append(told)  # noqa: E731
            assert client.call_tool("add", {"a": 1, "b": 2}, on_progress=on_progress).text == "3"
        app.close(0)
    assert reports == [(1, 2, None)]
