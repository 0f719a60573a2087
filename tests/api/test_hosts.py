"""Several servers at once: started side by side, each for itself, and asked as one."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from http_peers import endpoint
from peers import ENV, LEGACY, PATIENCE, eventually, nothing_left, python, source

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    LocalError,
    Server,
    connect,
    connect_all,
)
from mcp_ref.api import hosts
from mcp_ref.api.hosts import servers_of, side_by_side

ECHO = source("""
    import os
    import sys

    @server.tool
    def echo(said: str) -> str:
        return said + os.environ.get("SUFFIX", "")

    @server.tool
    def crash() -> str:
        print("crashing", file=sys.stderr, flush=True)
        os._exit(3)
    """)


def notes(name: str = "notes") -> Server:
    server = Server(name)

    @server.tool
    def read(title: str) -> str:
        return f"{title} of {name}"

    @server.prompt
    def sum_up(title: str) -> str:
        return f"Sum up {title} of {name}."

    @server.resource(f"{name}://all")
    def everything() -> str:
        return f"all {name}"

    @server.resource("common://readme")
    def readme() -> str:
        return f"the readme of {name}"

    return server


def child(**more: Any) -> dict[str, Any]:
    """An entry for the server ECHO."""
    program, *args = python(ECHO)
    return {"command": program, "args": args, "env": {**ENV, **more}}


# -- what is common to all servers ---------------------------------------------------------------------


def test_servers_of_three_kinds_are_one(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    with nothing_left(), endpoint(notes("web")) as site:
        url = {"type": "http", "url": f"http://127.0.0.1:{site.port}/mcp", "headers": {"X-Any": "1"}}
        file.write_text(json.dumps({"mcpServers": {"echo": child(SUFFIX="!"), "web": url}}))
        config = {**servers_of(file), "here": notes("here")}
        with connect_all(config) as host:
            assert host.problems == {}
            assert repr(host) == "<Host: echo, web, here>"
            names = [tool["name"] for tool in host.list_tools()]
            assert names == ["echo.echo", "echo.crash", "web.read", "here.read"]
            assert host.call_tool("echo.echo", {"said": "hi"}).text == "hi!"
            assert host.call_tool("web.read", {"title": "a"}, timeout=PATIENCE).text == "a of web"
            assert host.call_tool("here.read", {"title": "a"}).text == "a of here"
            assert host.call_tool("here.read", {"title": "a"}, returns=str) == "a of here"
            assert [prompt["name"] for prompt in host.list_prompts()] == ["web.sum_up", "here.sum_up"]
            assert host.get_prompt("here.sum_up", {"title": "a"}).text == "Sum up a of here."
            assert host["web"].server_info["name"] == "web"
        assert host.clients == {}
        host.close()


def test_resources_are_read_where_they_were_listed() -> None:
    with connect_all({"a": notes("a"), "b": notes("b")}) as host:
        assert host.read_resource("b://all").text == "all b"
        assert [(r["name"], r["uri"]) for r in host.list_resources()] == [
            ("a.everything", "a://all"),
            ("a.readme", "common://readme"),
            ("b.everything", "b://all"),
            ("b.readme", "common://readme"),
        ]
        assert host.read_resource("a://all", timeout=PATIENCE).text == "all a"
        with pytest.raises(LocalError, match=r"a and b have 'common://readme' in a list: say which one"):
            host.read_resource("common://readme")
        assert host.read_resource("common://readme", server="b").text == "the readme of b"
        with pytest.raises(LocalError, match="no server has 'x://' in a list"):
            host.read_resource("x://")


def test_a_model_may_want_other_names() -> None:
    with connect_all({"a.b": notes("a"), "c": notes("c")}, separator="__") as host:
        assert [tool["name"] for tool in host.list_tools()] == ["a.b__read", "c__read"]
        assert host.call_tool("a.b__read", {"title": "x"}).text == "x of a"
        client, name = host.find("c__any__thing")
        assert (client, name) == (host["c"], "any__thing")


def test_servers_are_started_side_by_side() -> None:
    """Each of them waits until all three are there."""
    barrier = threading.Barrier(3, timeout=PATIENCE)
    servers = {name: notes(name) for name in "abc"}
    for server in servers.values():
        server.lifespan.add(lambda: _Met(barrier))
    with nothing_left(), connect_all(servers) as host:
        assert list(host.clients) == ["a", "b", "c"]


class _Met:
    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    def __enter__(self) -> None:
        self.barrier.wait()

    def __exit__(self, *exception: object) -> None:
        pass


# -- one failing without the others --------------------------------------------------------------------


def test_one_that_cannot_be_connected_to_keeps_none_of_the_others_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {
        "gone": ["no-such-program-at-all"],
        "dead": python("import sys; sys.exit('out of order')"),
        "odd": {"command": "run", "args": "-v"},
        "off": {"command": "no-such-program-either", "disabled": True},
        "unset": {"url": "http://h/", "headers": {"Key": "${SURELY_NOT_SET}"}},
        "here": notes(),
    }
    with nothing_left(), connect_all(config) as host:
        assert list(host.clients) == ["here"]
        assert [type(problem) for problem in host.problems.values()] == [
            LocalError,
            ConnectionClosed,
            TypeError,
            ValueError,
        ]
        assert repr(host) == "<Host: here; problems: gone, dead, odd, unset>"
        assert host.call_tool("here.read", {"title": "x"}).text == "x of notes"
        with pytest.raises(LocalError, match="the server 'gone' is not connected: cannot start no-such-"):
            host.call_tool("gone.any")
        with pytest.raises(LocalError, match=r"'off\.any' begins with the name of no server and '\.'"):
            host.call_tool("off.any")
        with pytest.raises(LocalError, match="there is no server 'off'; there are gone, dead, odd, unset"):
            host["off"]
    assert "gone: cannot start no-such-program-at-all" in caplog.text
    with pytest.raises(LocalError, match="the server 'here' is not connected: closed"):
        host["here"]


def test_one_that_cannot_list_its_tools_is_a_problem_until_it_can() -> None:
    server = Server("fragile")
    broken: list[bool] = [True]

    @server.tool
    def read() -> str:
        return "x"

    @server.around
    def fail(ctx: Context, params: Any, proceed: Any) -> Any:
        if broken and ctx.method == "tools/list":
            raise ValueError("out of order")
        return proceed(params)

    with connect_all({"fragile": server, "notes": notes(), "plain": Server("no tools")}) as host:
        assert [tool["name"] for tool in host.list_tools()] == ["notes.read"]
        assert list(host.problems) == ["fragile"]
        broken.clear()
        assert [tool["name"] for tool in host.list_tools()] == ["fragile.read", "notes.read"]
        assert host.problems == {}


def test_a_mistake_of_this_program_is_no_problem_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(client: Any) -> Any:
        raise ZeroDivisionError

    with connect_all({"notes": notes()}) as host, pytest.raises(ZeroDivisionError):
        host._lists("tools", bug)


def test_a_server_that_crashed_is_connected_to_again() -> None:
    config = {"echo": child(), "gone": ["no-such-program-at-all"]}
    with nothing_left(), connect_all(config, revision=LEGACY[-1]) as host:
        with pytest.raises(ConnectionClosed):
            host.call_tool("echo.crash")
        with pytest.raises(ConnectionClosed):
            host.call_tool("echo.echo", {"said": "x"})
        assert host.reconnect("echo") is host["echo"]
        assert host.call_tool("echo.echo", {"said": "x"}).text == "x"
        with pytest.raises(LocalError, match="cannot start"):
            host.reconnect("gone")
        assert list(host.problems) == ["gone"]
        with pytest.raises(LocalError, match="there is no server 'other'"):
            host.reconnect("other")


def test_what_a_server_writes_to_stderr_says_whose_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    with connect_all({"echo": child()}) as host, pytest.raises(ConnectionClosed):
        host.call_tool("echo.crash")
    assert "echo: crashing\n" in capfd.readouterr().err
    own = ClientOptions(on_stderr=said.append)
    with connect_all({"echo": child()}, options=own) as host, pytest.raises(ConnectionClosed):
        host.call_tool("echo.crash")
    assert said == ["crashing"]
    assert "crashing" not in capfd.readouterr().err


def test_without_a_stderr_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    hosts._print("echo", "crashing")


# -- who asks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [LEGACY[-1], "2026-07-28"])
def test_a_question_has_the_name_that_the_application_gave_the_server(revision: str) -> None:
    """A server could call itself anything, such as another one of them."""
    servers = {}
    for name in ("one", "two"):
        servers[name] = Server("bank")

        @servers[name].tool
        def ask(ctx: Context) -> str:
            return ctx.elicit("Your PIN?").action + " " + ctx.sample("Hello?", max_tokens=5).text

    asked: list[str] = []

    def answer(question: Any) -> bool:
        asked.append(question.server)
        return False

    def sample(question: Any) -> str:
        asked.append(question.server)
        return "hello"

    with connect_all(servers, elicitation=answer, sampling=sample, revision=revision) as host:
        assert host.call_tool("one.ask").text == host.call_tool("two.ask").text == "decline hello"
    assert asked == ["one", "one", "two", "two"]


def test_each_server_may_be_given_something_of_its_own() -> None:
    heard: list[tuple[str, Any]] = []

    def each(name: str) -> dict[str, Any]:
        return {"on_log": lambda level, data, logger: heard.append((name, data))}

    server = Server("talks")

    @server.tool
    def talk(ctx: Context) -> str:
        ctx.log("error", "hello")
        return ""

    with connect_all({"a": server, "b": server}, each=each) as host:
        for name in ("a", "b"):
            host[name].set_log_level("info")
            host.call_tool(f"{name}.talk")
        assert eventually(lambda: sorted(heard) == [("a", "hello"), ("b", "hello")])


def test_what_is_given_to_one_server_alone_is_named_if_connect_does_not_take_it() -> None:
    given: dict[str, Any] = {"a": {"tiemout": 5}, "b": 5, "c": {"target": "x"}}
    with connect_all(dict.fromkeys(given, notes()), each=lambda name: given[name]) as host:
        said = {name: str(problem) for name, problem in host.problems.items()}
    unknown = "connect, by each('{}'), got an unexpected keyword argument '{}'; there are revision, "
    assert said["a"].startswith(unknown.format("a", "tiemout"))
    assert said["b"] == "each('b') returned 5, and not a dict of keywords of connect"
    assert said["c"].startswith(unknown.format("c", "target"))


@pytest.mark.parametrize(
    ("method", "place"),
    [
        ("call_tool", "notes.read"),
        ("get_prompt", "notes.sum_up"),
        ("read_resource", "notes://all"),
        ("read_resource", "notes://nowhere"),
    ],
)
def test_a_wrong_keyword_is_refused_by_the_name_that_the_caller_wrote(method: str, place: str) -> None:
    said = rf"^Host\.{method} got an unexpected keyword argument 'tiemout'; there are timeout, "
    with connect_all({"notes": notes()}) as host, pytest.raises(TypeError, match=said):
        getattr(host, method)(place, tiemout=5)


# -- configurations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "servers"),
    [
        ({"mcpServers": {"a": {"command": "x"}}}, {"a": {"command": "x"}}),
        ({"servers": {"a": {"url": "http://h/"}}, "inputs": []}, {"a": {"url": "http://h/"}}),
        ({"a": "python server.py"}, {"a": "python server.py"}),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, {}),
        ({"command": {"command": "x"}}, {"command": {"command": "x"}}),
        ({"context_servers": {"a": {"command": "x"}}}, {"a": {"command": "x"}}),
    ],
)
def test_a_configuration_is_servers_by_name(config: Any, servers: Any, tmp_path: Path) -> None:
    assert servers_of(config) == servers
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(config))
    assert servers_of(file) == servers_of(str(file)) == servers


@pytest.mark.parametrize(
    ("config", "kind", "why"),
    [
        (5, TypeError, "the configuration is a dict of servers by name, or a JSON file of one, not 5"),
        (
            {"mcpServers": []},
            TypeError,
            r"the configuration: mcpServers is a dict of servers by name, not \[\]",
        ),
        ({1: {}}, TypeError, "the configuration: it is a dict of servers by name"),
        ({"command": "run"}, TypeError, r"the configuration is one server, .* write connect\(\.\.\.\)"),
        ({"serverUrl": "http://h/"}, TypeError, "the configuration is one server"),
        ({"a": 1, "a.b": 2}, ValueError, r"tools of 'a' and 'a\.b' could not be told apart"),
        ({"": 1}, ValueError, "one character at least"),
        ("no-such-file.json", FileNotFoundError, "no-such-file"),
        ("http://h/mcp", TypeError, r"is one server, .* write connect\('http://h/mcp'\)"),
        ("https://user:pw@h/mcp", TypeError, r"^[^@]* write connect\('https://h/mcp', headers=.*"),
        ("http:", TypeError, r"write connect\(\.\.\.\)"),
        ("localhost:8000/mcp", TypeError, r"write connect\('localhost:8000/mcp'\)"),
        ("server.py", TypeError, r"write connect\('server\.py'\)"),
        ("", TypeError, r"the path of a JSON file, not ''$"),
        ('{"mcpServers": {}}', TypeError, r"not '.*; write connect_all\(json\.loads\(\.\.\.\)\)"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(config: Any, kind: type[Exception], why: str) -> None:
    with nothing_left(), pytest.raises(kind, match=why):
        connect_all(config)


def test_a_file_may_begin_with_the_mark_of_its_encoding(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": {"command": "x"}}')
    assert servers_of(file) == {"a": {"command": "x"}}


def test_an_entry_that_makes_no_sense_is_named_with_its_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        json.dumps({"mcpServers": {"a": {"comand": "x"}, "b": {"command": "no-such", "arg": []}}})
    )
    with connect_all(file) as host:
        assert str(host.problems["a"]).endswith(f"did you mean command? (a in {file})")
    assert f"b in {file} has 'arg', which means nothing here: did you mean 'args'?" in caplog.messages
    with pytest.raises(TypeError, match=re.escape(f"(a in {file})")):
        connect(servers_of(file)["a"])
    with connect_all({"mcpServers": servers_of(file)}) as host:
        assert str(host.problems["a"]).endswith(f"(a in {file})")
    with connect_all({"a": {"comand": "x"}}) as host:
        assert str(host.problems["a"]).endswith("(a in the configuration)")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting .* at character 1"),
        ('{\n "a": 1,\n}', "at line 3, column 1"),
        ("{\n // no JSON\n}", "at line 2, column 2"),
        ('{"mcpServers": {"a": 1, "a": 2}}', "twice"),
        ("[]", "is a dict of servers"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(
        (ValueError, TypeError), match=f"{re.escape(str(file))}.*{why}" if text != "[]" else why
    ):
        connect_all(file)


@pytest.mark.parametrize(
    ("options", "kind", "why"),
    [
        ({"separator": ""}, ValueError, "separator"),
        ({"separator": None}, TypeError, "separator is a string"),
        ({"tiemout": 5}, TypeError, "connect_all got an unexpected keyword argument 'tiemout'"),
        ({"env": {}}, TypeError, r"keyword argument 'env'; write options=ClientOptions\(env=\.\.\.\)$"),
        ({"headers": {"Authorization": "Bearer x"}}, TypeError, "headers would go to every server"),
        ({"auth": "token"}, TypeError, "auth would go to every server"),
        ({"options": 5}, TypeError, "options is a ClientOptions"),
        ({"timeout": "x"}, TypeError, "timeout is a number of seconds"),
        ({"each": {}}, TypeError, "each is a function"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_started(
    options: Any, kind: type[Exception], why: str
) -> None:
    with nothing_left(), pytest.raises(kind, match=why):
        connect_all({"notes": notes()}, **options)


# -- side by side --------------------------------------------------------------------------------------


def test_what_jobs_return_and_raise_comes_in_their_order() -> None:
    def leave() -> None:
        raise SystemExit(3)

    later = threading.Event()
    jobs: dict[str, Any] = {
        "a": lambda: later.wait(PATIENCE),
        "b": lambda: 1 / 0,
        "c": leave,
        "d": later.set,
    }
    with nothing_left():
        found = side_by_side(jobs)
    assert list(found) == ["a", "b", "c", "d"]
    assert found["a"] is True
    assert isinstance(found["b"], ZeroDivisionError)
    assert str(found["c"]) == "SystemExit: 3"
    assert side_by_side({}) == {}


def test_more_jobs_than_threads_are_all_done() -> None:
    most, running, lock = [0], [0], threading.Lock()

    def job() -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.005)
        with lock:
            running[0] -= 1
        return 1

    found = side_by_side({str(number): job for number in range(3 * hosts.AT_ONCE)})
    assert sum(value for value in found.values() if isinstance(value, int)) == 3 * hosts.AT_ONCE
    assert most[0] <= hosts.AT_ONCE


def test_an_interrupt_ends_servers_that_are_just_being_started() -> None:
    is_started = threading.Event()

    def interrupt() -> None:
        is_started.wait(PATIENCE)
        signal.pthread_kill(main, signal.SIGINT)

    silent = python("import sys, time; print('here', file=sys.stderr, flush=True); time.sleep(600)")
    options = ClientOptions(on_stderr=lambda line: is_started.set(), grace=0.1, probe_timeout=300)
    main, helper = threading.get_ident(), threading.Thread(target=interrupt)
    with nothing_left():
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            connect_all({"silent": silent, "here": notes()}, timeout=300, options=options)
        helper.join()


def test_a_server_that_would_be_started_after_an_interrupt_is_not_asked_anything() -> None:
    starting = hosts._Starting()
    starting.close()
    with nothing_left():
        assert isinstance(
            side_by_side({"a": lambda: starting.connect(lambda: connect(notes()))})["a"], LocalError
        )


def test_an_interrupt_undoes_what_is_done_and_what_still_comes() -> None:
    """Ctrl-C while one server is connected and another takes its time: both are closed."""
    slow, is_waiting, undone = threading.Event(), threading.Event(), []

    def wait() -> str:
        is_waiting.set()
        slow.wait(PATIENCE)
        return "slow"

    def interrupt() -> None:
        is_waiting.wait(PATIENCE)
        eventually(lambda: sum(t.name == "mcp_ref host" for t in threading.enumerate()) == 1)
        signal.pthread_kill(main, signal.SIGINT)

    main = threading.get_ident()
    with nothing_left():
        helper = threading.Thread(target=interrupt)
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            side_by_side({"quick": lambda: "quick", "slow": wait}, undo=undone.append)
        assert undone == ["quick"]
        slow.set()
        assert eventually(lambda: undone == ["quick", "slow"])
        helper.join()


def test_an_interrupt_that_comes_as_a_result_is_taken_undoes_that_one_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Taken(SimpleQueue[Any]):
        def get(self, *arguments: Any) -> Any:
            super().get(*arguments)
            raise KeyboardInterrupt

    undone: list[str] = []
    monkeypatch.setattr(hosts, "SimpleQueue", Taken)
    with nothing_left(), pytest.raises(KeyboardInterrupt):
        side_by_side({"quick": lambda: "quick"}, undo=undone.append)
    assert undone == ["quick"]
