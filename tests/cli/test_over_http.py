"""mcp-ref over HTTP: a server that is served by it, and every command against its URL."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from peers import PATIENCE, port_kept

from mcp_ref.cli import actions, terminal
from mcp_ref.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
BOTH = pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
SECRET = "xyzzy"

Captured = pytest.CaptureFixture[str]


@contextlib.contextmanager
def served(path: str, *, address: str = "0", code: int = 0) -> Iterator[tuple[str, Any]]:
    """`mcp-ref serve` in a process of its own: the URL that it tells, and the process."""
    command = [sys.executable, "-W", "error", "-m", "mcp_ref", "serve", path, "--http", address]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            line = child.stderr.readline()
            found = re.fullmatch(r"serving at (http://\S+/mcp); Ctrl-C ends it\n", line)
            assert found is not None, line + (child.stderr.read() if child.poll() is not None else "")
            yield found[1], child
            child.send_signal(signal.SIGINT)
            assert child.wait(PATIENCE) == code
        finally:
            child.kill()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server of conftest.py is; none of its commands may harm it, and it ends well."""
    from cli.conftest import SERVER

    path = tmp_path_factory.mktemp("served") / "shop.py"
    path.write_text(SERVER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        with served(str(path)) as (place, _):
            yield place


# ------------------------------------------------------------------------------- the commands


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_server_at_a_url_tells_who_it_is(url: str, capsys: Captured, revision: str) -> None:
    assert main(["discover", "--json", "--revision", revision, "--", url]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["revision"], facts["serverInfo"]["name"]) == (revision, "demo")


@BOTH
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["tools"], "add(a: integer, b: integer)\n"),
        (["resources"], "demo://motto  text/plain, 4 bytes\n"),
        (["prompts"], "repeat(text)\n"),
        (["ping"], "answered in "),
        (["call", "add", "a=1", "b=2"], "3\n"),
        (["call", "add", "--arguments", '{"a": 1, "b": 2}', "--json"], '"structuredContent"'),
        (["prompt", "repeat", "text=x"], "user:\n    Say: x\n"),
        (["complete", "--prompt", "repeat", "text", "value 119"], "value 119\n"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_commands_do_what_they_do_over_pipes(
    url: str, capsys: Captured, revision: str, words: list[str], printed: str
) -> None:
    if revision == "2025-03-26":  # results had no structure
        printed = printed.replace('"structuredContent"', '"text": "3"')
    assert main([*words, "--revision", revision, "--", url]) == 0
    assert printed in capsys.readouterr().out


def test_variables_are_completed_by_what_was_chosen(url: str, capsys: Captured) -> None:
    of = ["complete", "--resource", "demo://{room}/{table}", "table"]
    assert main([*of, "--with", "room=hall", "--", url]) == 0
    assert capsys.readouterr().out == "hall\n"


def test_what_is_read_is_what_there_is(url: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["read", "demo://picture", "--", url]) == 0
    assert capfdbinary.readouterr().out == b"\x00\xff\n"


@BOTH
def test_log_messages_are_shown(url: str, capsys: Captured, revision: str) -> None:
    assert main(["call", "say", "text=12", "--log-level", "info", "--revision", revision, "--", url]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("12\n", "info: asked\n")


@BOTH
def test_the_server_may_ask_for_roots(url: str, capsys: Captured, revision: str, tmp_path: Path) -> None:
    words = ["call", "where", "--root", str(tmp_path), "--json", "--revision", revision]
    assert main([*words, "--", url]) == 0
    assert tmp_path.as_uri() in capsys.readouterr().out


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_the_person_at_the_terminal_is_asked(
    url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    monkeypatch.setattr(actions, "has_terminal", lambda: True)
    monkeypatch.setattr(terminal, "ask", lambda question: question.decline())
    assert main(["call", "asked", "--revision", revision, "--", url]) == 0
    assert capsys.readouterr().out == "decline\n"


def test_a_tool_that_fails_is_exit_code_1(url: str, capsys: Captured) -> None:
    assert main(["call", "fail", "--", url]) == 1
    assert capsys.readouterr().out == "it broke\n"


def test_the_servers_refusal_is_exit_code_3(url: str, capsys: Captured) -> None:
    assert main(["call", "nothing", "--", url]) == 3
    assert "the server refused: Unknown tool: nothing" in capsys.readouterr().err


def test_the_scheme_may_be_in_capitals(url: str, capsys: Captured) -> None:
    assert main(["ping", "--", url.replace("http", "HTTP")]) == 0


def test_no_answer_in_time_is_exit_code_5(url: str, capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        assert main(["ping", "--timeout", "0.3", "--", there]) == 5
    assert main(["call", "wait", "--timeout", "0.3", "--", url]) == 5


@BOTH
def test_ctrl_c_cancels_the_call_on_the_wire_and_is_exit_code_130(server: list[str], revision: str) -> None:
    with served(server[-1]) as (place, child):
        command = [sys.executable, "-m", "mcp_ref", "call", "wait", "--revision", revision, "--", place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as caller:
            assert child.stderr.readline() == "waiting\n"
            caller.send_signal(signal.SIGINT)
            out, err = caller.communicate(timeout=PATIENCE)
            assert (caller.returncode, out, err) == (130, "", "mcp-ref: interrupted\n")
        assert child.stderr.readline().startswith("ended: ")


# ------------------------------------------------------------------------------- listening


@pytest.fixture
def changes(changing: list[str]) -> str:
    """The file of a server on which something changes all the time."""
    path = Path(changing[-1])
    path.write_text(path.read_text().replace("server.run()", ""))
    return str(path)


@BOTH
def test_changes_are_printed_a_line_each(changes: str, capsys: Captured, revision: str) -> None:
    with served(changes) as (place, _):
        of = ["listen", "--tools", "demo://a", "--count", "4", "--revision", revision]
        assert main([*of, "--", place]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 4
    assert set(said.out.splitlines()) == {"tools", "demo://a"}
    assert said.err == "mcp-ref: listening\n"


def test_a_server_that_goes_while_it_is_listened_to_is_exit_code_4(server: list[str]) -> None:
    with served(server[-1]) as (place, child):
        command = [sys.executable, "-m", "mcp_ref", "listen", "--tools", "--", place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as listener:
            assert listener.stderr is not None
            assert listener.stderr.readline() == "mcp-ref: listening\n"
            child.send_signal(signal.SIGTERM)
            assert child.wait(PATIENCE) == 0
            out, err = listener.communicate(timeout=PATIENCE)
            assert (listener.returncode, out) == (4, ""), err
            assert err.startswith("mcp-ref: ")


# ---------------------------------------------------------------------------- what goes wrong


def test_a_wrong_path_is_exit_code_3(url: str, capsys: Captured) -> None:
    assert main(["tools", "--", f"{url}/elsewhere"]) == 3
    assert "there is nothing at this path" in capsys.readouterr().err


def test_a_port_that_nobody_listens_at_is_exit_code_4(capsys: Captured) -> None:
    with port_kept() as port:
        assert main(["tools", "--", f"http://127.0.0.1:{port}/mcp"]) == 4
    assert f"no connection to 127.0.0.1:{port}" in capsys.readouterr().err


def test_https_where_there_is_http_is_exit_code_4(url: str, capsys: Captured) -> None:
    assert main(["tools", "--", url.replace("http:", "https:")]) == 4
    assert "mcp-ref: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tools", "--", "http://"], "is no URL of a server"),
        (["tools", "--", "http:/one-slash/mcp"], "is no URL of a server"),
        (["tools", "--", "http://127.0.0.1:port/mcp"], "is no URL"),
        (["tools", "--", f"http://me:{SECRET}@127.0.0.1/mcp"], "credentials do not belong into a URL"),
        (["tools", "--", "http://127.0.0.1/mcp", "more"], "nothing may follow the URL of a server"),
        (["tools", "--env", f"A={SECRET}", "--", "http://127.0.0.1/mcp"], "--env is for a server"),
        (["tools", "--header", f"A: {SECRET}", "--", "python"], "--header is for a server at a URL"),
    ],
)
def test_misuse_is_exit_code_2_and_shows_no_secret(capsys: Captured, words: list[str], says: str) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert says in said
    assert SECRET not in said


# ----------------------------------------------------------------------------------- headers


class Strange(BaseHTTPRequestHandler):
    """A web server that knows nothing of MCP: /401, /404, /500 answer so, /200 with a page."""

    seen: list[dict[str, str]]

    def do_POST(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b"<html><title>Shop</title><p>Nothing here</p></html>"
        self.send_response(int(self.path[1:4]))
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def strange() -> Iterator[str]:
    Strange.seen = []
    with HTTPServer(("127.0.0.1", 0), Strange) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join(PATIENCE)


@pytest.mark.parametrize("status", [200, 401, 403, 404, 500])
def test_a_server_that_speaks_no_mcp_is_exit_code_3(strange: str, capsys: Captured, status: int) -> None:
    given = ["--header", f"Authorization: Bearer {SECRET}", "--header", "X-Shop: 1:2"]
    assert main(["tools", *given, "--", f"{strange}/{status}"]) == 3
    said = capsys.readouterr().err
    assert "Nothing here" in said
    assert SECRET not in said
    for headers in Strange.seen:
        assert (headers["authorization"], headers["x-shop"]) == (f"Bearer {SECRET}", "1:2")
    assert Strange.seen


@pytest.mark.parametrize(
    "headers",
    [
        [SECRET],
        [f"Authorization {SECRET}"],
        [f"Bearer {SECRET}:1"],  # what is before the colon is no name, but half of the secret
        [f": {SECRET}"],
        [f"Authorization: {SECRET}\r\nX: 1"],
        [f"Authorization: {SECRET}\u20ac"],
        [f"Mcp-Session-Id: {SECRET}"],
        [f"Authorization: {SECRET}", f"authorization: {SECRET}"],
    ],
)
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_header_is_never_shown_in_an_error(
    url: str, capsys: Captured, headers: list[str], extra: list[str]
) -> None:
    given = [word for header in headers for word in ("--header", header)]
    assert main(["tools", *extra, *given, "--", url]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "header" in printed.err
    assert SECRET not in printed.err


# ------------------------------------------------------------------------------------- serve


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0"])
def test_the_server_listens_at_the_given_address(server: list[str], capsys: Captured, address: str) -> None:
    if "::" in address and not _has_six():
        pytest.skip("this machine has no IPv6")
    with served(server[-1], address=address) as (place, _):
        assert place.startswith(f"http://{address[:-1]}")
        assert main(["call", "add", "a=1", "b=2", "--", place]) == 0
    assert capsys.readouterr().out == "3\n"


def _has_six() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("name", ["server", "http_server"])
def test_a_file_that_runs_its_server_itself_is_served_where_the_command_line_says(
    name: str, capsys: Captured
) -> None:
    with served(str(ROOT / f"docs/examples/readme/{name}.py")) as (place, child):
        assert not place.startswith("http://127.0.0.1:8000")  # which is what http_server.py says
        assert main(["call", "add", "a=1", "b=2", place]) == 0
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0
        assert child.stderr.read() == ""
    assert capsys.readouterr().out == "3\n"


RUNS_ITSELF = """
import contextlib, sys
from mcp_ref import Server

mine = Server("mine")
other = Server("other")
is_open = []

@mine.tool
def opened() -> bool:
    return bool(is_open)

@contextlib.contextmanager
def opening():
    is_open.append(1)
    yield
    is_open.clear()
    print("closed", file=sys.stderr)

with opening():
    mine.run("http", port=8000, path="/of/its/own/mcp")
print("behind", file=sys.stderr)
"""


def test_what_surrounds_the_run_of_a_file_holds_while_it_serves_and_what_follows_comes_after(
    tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "own.py"
    path.write_text(RUNS_ITSELF)
    with served(str(path)) as (place, child):
        assert place.endswith("/of/its/own/mcp")
        assert main(["call", "opened", place]) == 0
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 0
        assert child.stderr.read() == "closed\nbehind\n"
    assert capsys.readouterr().out == "true\n"


def test_a_port_in_use_is_exit_code_4_and_named(url: str, server: list[str], capsys: Captured) -> None:
    port = url.removesuffix("/mcp").rpartition(":")[2]
    assert main(["serve", server[-1], "--http", port]) == 4
    assert f"cannot listen on 127.0.0.1, port {port}: the port is in use" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_in_good_order(server: list[str], number: int) -> None:
    with served(server[-1]) as (_, child):
        child.send_signal(number)
        assert child.wait(PATIENCE) == 0
        assert child.stderr.read() == ""


def test_a_terminal_that_is_closed_ends_the_server(server: list[str]) -> None:
    with served(server[-1], code=129) as (_, child):
        child.send_signal(signal.SIGHUP)
        assert child.wait(PATIENCE) == 129
        assert child.stderr.read() == ""
