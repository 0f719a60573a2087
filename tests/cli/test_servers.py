"""Which server a command line means: with `--` and without, and by its name in a configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import ROOT, SERVER
from http_peers import endpoint
from peers import ENV, PATIENCE

from mcp_ref import LocalError, Server
from mcp_ref.cli import servers
from mcp_ref.cli.main import main

Captured = pytest.CaptureFixture[str]


def options(**given: Any) -> Namespace:
    usual = {"config": None, "server": [], "env": [], "header": [], "quiet": False}
    return Namespace(**{**usual, **given})


def calculator(name: str = "calculator") -> Server:
    server = Server(name)

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.resource("sum://one")
    def one() -> str:
        return "1"

    return server


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with the server of conftest.py; children find the package."""
    (tmp_path / "server.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{SERVER}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(path: Path, **entries: Any) -> str:
    path.write_text(json.dumps({"mcpServers": entries}))
    return str(path)


# -- without -- ----------------------------------------------------------------------------------------


def test_a_url_needs_no_dashes(capsys: Captured) -> None:
    with endpoint(calculator()) as site:
        for url in (f"http://127.0.0.1:{site.port}/mcp", f"127.0.0.1:{site.port}/mcp"):
            assert main(["tools", url, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)[0]["name"] == "add"
            assert main(["call", "add", "a=1", "b=2", url]) == 0
            assert main(["call", "add", "--timeout", "20", "a=1", "b=2", url]) == 0
            assert main(["call", "add", "--arguments", '{"a": 1, "b": 2}', url]) == 0
            assert main(["read", "sum://one", url]) == 0
            assert main(["read", "sum://one", "--output", "-", url]) == 0
            assert main(["discover", "--", url]) == 0
            assert capsys.readouterr().out.startswith("3\n3\n3\n11calculator")


def test_a_file_is_run_by_this_python(script: Path, capsys: Captured) -> None:
    assert main(["tools", "server.py"]) == 0
    assert capsys.readouterr().out.startswith("add(")
    assert main(["call", "add", "a=1", "b=2", "--json", "./server.py"]) == 0
    assert json.loads(capsys.readouterr().out)["structuredContent"] == {"result": 3}
    assert main(["prompt", "repeat", "text=server.py", "server.py"]) == 0
    assert "Say: server.py" in capsys.readouterr().out
    assert main(["complete", "--prompt", "repeat", "text", "value 11", "server.py"]) == 0
    assert "value 110" in capsys.readouterr().out
    assert main(["tools", sys.executable, "server.py"]) == 0


def test_the_value_of_complete_may_be_left_out_before_any_server(script: Path, capsys: Captured) -> None:
    asked = ["complete", "--prompt", "repeat", "text"]
    assert main([*asked, "server.py"]) == 0
    assert "value 0\n" in capsys.readouterr().out
    with endpoint(calculator()) as site:  # it has no prompts to complete: that is its answer, and no misuse
        assert main([*asked, f"127.0.0.1:{site.port}/mcp"]) == 4
    file = config(script / "mcp.json", shop={"command": sys.executable, "args": ["server.py"]})
    for words in (["value 11", "shop"], ["shop"], ["value 11"]):
        capsys.readouterr()
        assert main([*asked, *words, "--config", file]) == 0
        assert "value 11\n" in capsys.readouterr().out
    assert main([*asked, "server.py", "--", sys.executable, "server.py"]) == 0
    assert "value" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tools"], "name the server, as the last words: a URL such as http://127.0.0.1:8000/mcp, a file"),
        (["call", "add", "a=1"], "name the server"),
        (["read", "http://127.0.0.1/mcp"], "name the server"),
        (["tools", "nowhere.py"], "there is no file 'nowhere.py'"),
        (
            ["tools", "python", "server.py", "--fast"],
            "unrecognized argument --fast; a server's command stands",
        ),
        (
            ["tools", "example.com/mcp"],
            "the URL of a server begins with http:// or https://; write https://example.com/mcp",
        ),
        (["tools", "ftp://example.com/mcp"], "the URL of a server begins with http:// or https://\n"),
        (["tools", "server.py", "extra"], "stands behind --; write -- python server.py extra"),
        (["tools", "http://127.0.0.1/mcp", "--", "python"], "either 'http://127.0.0.1/mcp' or what stands"),
        (["call", "add", "--config", "no.json", "files"], "--config: [Errno 2] No such file"),
        (["tools", "--config", "mcp.json", "--fast"], "unrecognized argument --fast"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_said_with_its_usage(
    words: list[str], says: str, capsys: Captured, script: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "usage: mcp-ref" in said
    assert says in said


def test_what_stands_behind_dashes_is_the_server_and_what_stands_before_is_not(capsys: Captured) -> None:
    found = options(uris=["http://h/resource"])
    servers.take_server(found, [], ["python", "server.py"])
    assert (found.uris, found.server) == (["http://h/resource"], ["python", "server.py"])
    found = options(uris=["http://h/resource"])
    servers.take_server(found, ["b://x", "http://h/mcp"], None)
    assert (found.uris, found.server) == (["http://h/resource", "b://x"], ["http://h/mcp"])


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        (["python", "s.py"], True),
        (["http://a/"], False),
        (["HTTPS://a/"], False),
        (["localhost:8000/mcp"], False),
        (["./http-server"], True),
    ],
)
def test_a_server_is_behind_a_command_or_at_a_url(words: list[str], is_one: bool) -> None:
    assert servers.is_command(options(server=words)) == is_one


# -- a configuration -----------------------------------------------------------------------------------


def test_a_server_of_a_configuration_is_meant_by_its_name(
    script: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "mcp")
    with endpoint(calculator()) as site:
        file = config(
            script / "mcp.json",
            web={"url": f"http://127.0.0.1:{site.port}/${{PLACE}}"},
            demo={"command": sys.executable, "args": ["server.py"]},
        )
        for words in (["web"], ["--", "web"]):
            assert main(["call", "add", "a=1", "b=2", "--config", file, *words]) == 0
            assert capsys.readouterr().out == "3\n"
        assert main(["ping", "--config", file, "demo"]) == 0
        assert main(["discover", "--config", file, "web"]) == 0
        assert "calculator" in capsys.readouterr().out
        assert main(["call", "demo.say", "text=hello", "--config", file, "--quiet"]) == 0
        assert main(["call", "web.add", "a=1", "b=2", "--config", file]) == 0
        assert capsys.readouterr().out == "hello\n3\n"


def test_the_only_server_of_a_configuration_needs_no_name(script: Path, capsys: Captured) -> None:
    file = config(script / "mcp.json", demo={"command": sys.executable, "args": ["server.py"]})
    assert main(["tools", "--config", file]) == 0
    assert capsys.readouterr().out.startswith("add(")
    assert main(["call", "add", "a=1", "b=2", "--config", file]) == 0


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_the_tools_of_all_servers_are_listed_together(
    script: Path, quiet: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    loud = "import sys; print('hello', file=sys.stderr); exec(open('server.py').read())"
    with endpoint(calculator()) as site:
        file = config(
            script / "mcp.json",
            demo={"command": sys.executable, "args": ["-c", loud]},
            web={"url": f"http://127.0.0.1:{site.port}/mcp"},
        )
        assert main(["tools", "--config", file, *quiet]) == 0
        said = capfd.readouterr()
        assert said.out.index("demo.add(") < said.out.index("web.add(")
        assert ("demo: hello" in said.err) is not bool(quiet)


def test_one_server_that_is_not_there_is_told_and_the_others_are_listed(
    script: Path, capsys: Captured
) -> None:
    file = config(
        script / "mcp.json",
        demo={"command": sys.executable, "args": ["server.py"]},
        gone={"command": "no-such-\x1bprogram"},
    )
    assert main(["tools", "--config", file]) == 4
    said = capsys.readouterr()
    assert "demo.add(" in said.out
    assert "mcp-ref: gone: cannot start" in said.err
    assert "\x1b" not in said.err


def test_one_server_that_is_not_there_is_told_once(script: Path) -> None:
    """In a process of its own, where nothing but `logging` itself would print what is logged."""
    file = config(script / "mcp.json", a={"command": "no-such-program"}, b={"command": "no-such-program"})
    done = subprocess.run(
        [sys.executable, "-m", "mcp_ref", "tools", "--config", file],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=ENV,
    )
    assert done.returncode == 4
    lines = done.stderr.splitlines()
    assert [line.split(": cannot start")[0] for line in lines] == ["mcp-ref: a", "mcp-ref: b"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ping"], "name one of the servers in FILE: a, b"),
        (["call", "c.add"], "name one of the servers in FILE: a, b"),
        (["ping", "c"], "there is no server 'c' in FILE: a, b"),
        (["ping", "a", "b"], "--config takes the name of one server: remove 'b'"),
        (["ping", "a", "--header", "A: 1"], "--header is for a server at a URL"),
        (["ping", "b", "--env", "A=1"], "--env is for a server that is started here"),
        (["tools", "--env", "A=1"], "--env is for one server: name it"),
        (["tools", "--header", "A: 1"], "--header is for one server: name it"),
        (["ping", "odd"], "either command or url"),
    ],
)
def test_a_name_that_makes_no_sense_is_misuse(
    words: list[str], says: str, tmp_path: Path, capsys: Captured
) -> None:
    entries: dict[str, Any] = {"a": {"command": "run"}, "b": {"url": "http://127.0.0.1:1/mcp"}}
    if "odd" in words:
        entries["odd"] = {}
    file = config(tmp_path / "mcp.json", **entries)
    assert main([*words, "--config", file]) == 2
    assert says.replace("FILE", file) in capsys.readouterr().err


def test_a_configuration_without_servers_has_none_to_name(tmp_path: Path, capsys: Captured) -> None:
    assert main(["ping", "--config", config(tmp_path / "mcp.json")]) == 2
    assert "it has no servers" in capsys.readouterr().err
    assert main(["tools", "--config", str(tmp_path / "gone.json")]) == 2
    assert "--config: [Errno 2]" in capsys.readouterr().err


def test_headers_and_variables_of_the_command_line_stand_in_place_of_those_of_the_entry(
    tmp_path: Path,
) -> None:
    file = config(
        tmp_path / "mcp.json",
        web={"url": "http://h/mcp", "headers": {"X-A": "1", "X-B": "2"}},
        run={"command": "run", "env": {"A": "1", "B": "2"}, "cwd": "/srv"},
    )
    found = servers.target(options(config=file, server=["web"], header=["x-a: 3"]))
    assert (found["target"], found["headers"]) == ("http://h/mcp", {"x-a": "3", "X-B": "2"})
    found = servers.target(options(config=file, server=["run"], env=["A=3"], quiet=True))
    assert (found["target"], found["headers"]) == (["run"], None)
    assert (found["options"].env, found["options"].cwd) == ({"A": "3", "B": "2"}, "/srv")
    found["options"].on_stderr("dropped")


def test_the_way_to_a_server_is_what_was_typed(tmp_path: Path) -> None:
    file = config(tmp_path / "mcp.json", a={"command": "run"})
    assert servers.way_to(options(config=file)) == ["--config", file, "a"]
    assert servers.way_to(options(server=["run", "-v"])) == ["--", "run", "-v"]


# -- headers, and pairs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], {}),
        (["A: 1"], {"A": "1"}),
        (["A:1", "X-B : 2:3 "], {"A": "1", "X-B": "2:3"}),
        (["A:"], {"A": ""}),
    ],
)
def test_headers_are_written_as_for_curl(given: list[str], found: dict[str, str]) -> None:
    assert servers._headers(given) == found


@pytest.mark.parametrize("given", [["secret"], [": secret"], ["a secret: b"], ["A: secret", "a: secret"]])
def test_a_wrong_header_is_explained_without_its_text(given: list[str]) -> None:
    with pytest.raises(ValueError, match="--header") as caught:
        servers._headers(given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("pair", ["a", "=a", ""])
def test_a_pair_has_a_name_and_a_value(pair: str) -> None:
    assert servers.pairs("it takes", ["a=1", "b=c=d"]) == {"a": "1", "b": "c=d"}
    with pytest.raises(ValueError, match=f"it takes NAME=VALUE, not {pair!r}"):
        servers.pairs("it takes", [pair])


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^b is given twice$"):
        servers.pairs("it takes", ["a=1", "b=1", "b=1"])
    assert servers.pairs("it takes", ["a=1", "a=2"], last_wins=True) == {"a": "2"}


def test_of_variables_for_a_server_the_last_one_of_a_name_counts() -> None:
    found = servers.target(options(server=["run"], env=["A=1", "A=2"]))
    assert found["options"].env == {"A": "2"}


def test_a_file_that_there_is_not_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="there is no file"):
        servers.take_server(options(), [os.fspath(tmp_path / "a.py")], None)
