"""Every revision, both eras, over real pipes, with both sides ours.

How a client finds out the era of servers that are not ours is in basic/transports/test_era.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from peers import (
    ENV,
    LEGACY,
    META,
    MODERN,
    PATIENCE,
    REVISIONS,
    Json,
    RawClient,
    eventually,
    nothing_left,
    python,
    source,
)

from mcp_ref import Client, ClientOptions, Context, ErrorResponse, McpError, RequestTimeout, connect
from mcp_ref.basic.versioning import revision as facts

BODY = """
import dataclasses, enum, logging, threading

class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"

@dataclasses.dataclass
class Point:
    x: int
    y: int = 0

@server.tool(title="Add", annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool
def move(point: Point, by: int, colour: Colour = Colour.RED) -> Point:
    assert isinstance(point, Point) and isinstance(colour, Colour)
    return Point(point.x + by, point.y + by)

@server.tool
def fail() -> str:
    raise ValueError("out of paper")

@server.tool
def count(upto: int, ctx: Context) -> list[int]:
    for n in range(upto):
        ctx.progress(n + 1, upto, message=f"step {n}")
    return list(range(upto))

@server.tool
def talk(ctx: Context) -> str:
    ctx.log("debug", {"n": 1}, logger="talk")
    ctx.log("warning", "careful", logger="talk")
    return "talked"

stopped = threading.Event()

@server.tool
def slow(ctx: Context) -> str:
    try:
        ctx.progress(1)
        ctx.sleep(60)
    finally:
        stopped.set()

@server.tool
def was_stopped() -> bool:
    return stopped.wait(10)

@server.tool
def grow(ctx: Context) -> str:
    # The round that tells of it begins when all are there, however long that takes.
    from mcp_ref.basic.patterns.subscriptions import server as subscriptions
    rounds, later = [], subscriptions.later
    subscriptions.later = lambda seconds, tell: rounds.append(tell)
    try:
        for n in range(20):
            server.add_tool(lambda: "new", name=f"new_{n}")
    finally:
        subscriptions.later = later
    for tell in rounds:
        tell()
    return "grown"

@server.on_request("vendor/echo")
def vendor_echo(params, ctx):
    return {"echo": params.get("value"), "revision": str(ctx.revision)}

@server.on_request("vendor/fails")
def vendor_fails(params):
    from mcp_ref import ProtocolError
    raise ProtocolError("no such account", code=1001, data={"account": 7})

noticed = threading.Event()

@server.on_notification("vendor/notice")
def vendor_notice(params):
    noticed.set()

@server.on_request("vendor/was-noticed")
def vendor_was_noticed(params):
    return {"noticed": noticed.wait(10)}
"""
COMMAND = python(source(BODY, options="instructions='be brief', page_size=3"))
NAMES = ["add", "move", "fail", "count", "talk", "slow", "was_stopped", "grow"]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(revision: str) -> Iterator[Client]:
    with connect(COMMAND, revision=revision, timeout=PATIENCE, options=ClientOptions(env=ENV)) as ours:
        yield ours


def test_what_both_sides_know_of_each_other(client: Client, revision: str) -> None:
    assert str(client.revision) == revision
    assert client.server_info["name"] == "raw tests"
    assert client.instructions == "be brief"
    assert client.server_capabilities is not None
    assert {"tools", "logging"} <= set(client.server_capabilities)
    assert client.request("vendor/echo")["revision"] == revision


def test_tools_are_listed_page_by_page_in_their_order(client: Client, revision: str) -> None:
    pages = list(client.pages("tools/list"))
    assert [len(page["tools"]) for page in pages] == [3, 3, 2]
    assert ["nextCursor" in page for page in pages] == [True, True, False]
    tools = client.list_tools()
    assert [tool["name"] for tool in tools] == NAMES
    assert tools == [tool for page in pages for tool in page["tools"]]
    add = tools[0]
    assert add["inputSchema"]["required"] == ["a", "b"]
    assert ("annotations" in add) == facts(revision).reaches("2025-03-26")
    assert ("title" in add) == ("outputSchema" in add) == facts(revision).reaches("2025-06-18")


def test_a_bad_cursor_is_refused(client: Client) -> None:
    with pytest.raises(ErrorResponse) as refused:
        client.request("tools/list", {"cursor": "made up"})
    assert refused.value.code == -32602


def test_tools_are_called(client: Client, revision: str) -> None:
    result = client.call_tool("add", {"a": 40, "b": 2})
    assert result.text == "42"
    assert not result.is_error
    moved = client.call_tool("move", {"point": {"x": 1}, "by": 2, "colour": "blue"})
    if facts(revision).reaches("2025-06-18"):
        assert result.structured in (42, {"result": 42})
        assert moved.structured == {"x": 3, "y": 2}
    else:
        assert result.structured is None
    assert '"x"' in moved.text


def test_tools_fail_in_their_several_ways(client: Client, revision: str) -> None:
    failed = client.call_tool("fail")
    assert failed.is_error
    assert "out of paper" in failed.text
    assert "Traceback" not in failed.text
    with pytest.raises(ErrorResponse) as refused:
        client.call_tool("unknown")
    assert refused.value.code == -32602
    if facts(revision).bad_arguments == "result":
        assert client.call_tool("add", {"a": "x", "b": 1}).is_error
    else:
        with pytest.raises(ErrorResponse) as refused:
            client.call_tool("add", {"a": "x", "b": 1})
        assert refused.value.code == -32602


def test_progress(client: Client, revision: str) -> None:
    heard: list[tuple[Any, ...]] = []
    result = client.call_tool("count", {"upto": 5}, on_progress=lambda *report: heard.append(report))
    assert "4" in result.text
    assert [report[:2] for report in heard] == [(n, 5) for n in range(1, 6)]
    assert heard[-1][2] == ("step 4" if facts(revision).reaches("2025-03-26") else None)


def test_log_messages(revision: str) -> None:
    """Of the level that was asked for and above; in the modern era none without asking."""
    heard: list[tuple[str, Any, str | None]] = []
    with connect(
        COMMAND, revision=revision, on_log=lambda *log: heard.append(log), options=ClientOptions(env=ENV)
    ) as client:
        client.set_log_level("warning")
        client.call_tool("talk")
        assert eventually(lambda: heard)
        client.set_log_level("debug")
        client.call_tool("talk")
        assert eventually(lambda: len(heard) == 3)
    assert heard[0] == ("warning", "careful", "talk")
    assert heard[1] == ("debug", {"n": 1}, "talk")


def test_cancellation_and_time_outs(client: Client) -> None:
    begun = threading.Event()
    params: Json = {"name": "slow", "arguments": {}}
    call = client.submit("tools/call", params, on_progress=lambda *report: begun.set())
    assert begun.wait(PATIENCE)  # or it would never be run, nor stopped
    assert call.cancel()
    with pytest.raises(RequestTimeout):
        client.call_tool("slow", timeout=0.1)
    assert "true" in client.call_tool("was_stopped").text.lower()
    client.ping()


def test_ping(client: Client, revision: str) -> None:
    client.ping()
    if revision == MODERN:
        with pytest.raises(ErrorResponse) as refused:
            client.request("ping")
        assert refused.value.code == -32601
    else:
        assert dict(client.request("ping")) == {}


def test_a_changed_list_is_announced_once(revision: str) -> None:
    """Twenty new tools, one notification; in the modern era changes flow on subscriptions only."""
    notices: list[str] = []
    told = threading.Event()

    def hear(method: str, params: Json) -> None:
        notices.append(method)
        told.set()

    with connect(COMMAND, revision=revision, on_notification=hear, options=ClientOptions(env=ENV)) as client:
        assert len(client.list_tools()) == 8
        client.call_tool("grow")
        if revision == MODERN:
            assert len(client.list_tools()) == 28
            client.ping()
        else:
            assert told.wait(PATIENCE)
            assert len(client.list_tools()) == 28
            client.ping()
        assert client.call_tool("new_7").text == "new"
    assert notices == ([] if revision == MODERN else ["notifications/tools/list_changed"])


def test_methods_and_notifications_of_a_vendor(client: Client) -> None:
    assert client.request("vendor/echo", {"value": [1, "é", None]})["echo"] == [1, "é", None]
    with pytest.raises(ErrorResponse) as refused:
        client.request("vendor/fails")
    assert (refused.value.code, refused.value.message, refused.value.data) == (
        1001,
        "no such account",
        {"account": 7},
    )
    with pytest.raises(ErrorResponse) as refused:
        client.request("vendor/unknown")
    assert refused.value.code == -32601
    client.notify("vendor/notice", {"a": 1})
    assert client.request("vendor/was-noticed")["noticed"] is True


def test_many_threads_at_once(client: Client) -> None:
    wrong: list[str] = []

    def work(n: int) -> None:
        for k in range(10):
            text = client.call_tool("add", {"a": n, "b": k}).text
            if text != str(n + k):
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert wrong == []


@pytest.mark.parametrize("asking", LEGACY)
def test_the_server_asks_the_client(asking: str) -> None:
    """In the legacy era: a question, its refusal, its progress, and its cancellation."""
    body = """
    @server.tool
    def ask(ctx: Context, what: str) -> dict:
        return ctx.request("vendor/question", {"what": what}, timeout=0.2 if what == "slow" else 10)
    """
    stopped = threading.Event()
    with connect(python(source(body)), revision=asking, options=ClientOptions(env=ENV)) as client:

        @client.on_request("vendor/question")
        def question(params: Json, ctx: Context) -> Json:
            if params["what"] == "slow":
                try:
                    ctx.sleep(60)
                finally:
                    stopped.set()
            if params["what"] == "bad":
                raise LookupError("cannot say")
            return {"answer": params["what"] * 2}

        assert "haha" in client.call_tool("ask", {"what": "ha"}).text
        assert client.call_tool("ask", {"what": "bad"}).is_error

        def is_stopped() -> bool:  # a question that times out before it is begun is asked again
            assert client.call_tool("ask", {"what": "slow"}).is_error
            return stopped.is_set()

        assert eventually(is_stopped)
        client.ping()


# ------------------------------------------------------------------- which revision it becomes


def test_a_client_that_names_no_revision_gets_the_newest() -> None:
    with connect(COMMAND, options=ClientOptions(env=ENV)) as client:
        assert str(client.revision) == MODERN
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


@pytest.mark.parametrize("spoken", REVISIONS)
def test_a_client_that_names_no_revision_gets_what_the_server_has(spoken: str) -> None:
    command = python(source(BODY, options=f"revisions=[{spoken!r}]"))
    with connect(command, options=ClientOptions(env=ENV)) as client:
        assert str(client.revision) == spoken
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        client.ping()


@pytest.mark.parametrize("client_speaks", [("2024-11-05", "2025-06-18"), ("2025-03-26", MODERN), REVISIONS])
@pytest.mark.parametrize("server_speaks", [("2025-03-26", "2025-06-18"), ("2024-11-05", MODERN), REVISIONS])
def test_the_newest_that_both_know(client_speaks: tuple[str, ...], server_speaks: tuple[str, ...]) -> None:
    """Or an error that names what either side has."""
    command = python(source(BODY, options=f"revisions={server_speaks!r}"))
    common = [date for date in REVISIONS if date in client_speaks and date in server_speaks]
    if not common:
        with pytest.raises(McpError):
            connect(command, options=ClientOptions(env=ENV, revisions=client_speaks))
        return
    with connect(command, options=ClientOptions(env=ENV, revisions=client_speaks)) as client:
        assert str(client.revision) == common[-1]
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


@pytest.mark.parametrize("asked", REVISIONS)
def test_a_revision_that_the_server_lacks_is_an_error(asked: str) -> None:
    others = [date for date in REVISIONS if date != asked]
    with pytest.raises(McpError):
        connect(
            python(source("", options=f"revisions={others!r}")),
            revision=asked,
            options=ClientOptions(env=ENV),
        )


def test_a_revision_that_does_not_exist_is_an_error_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="1999-01-01"):
        connect(["/no/such/program"], revision="1999-01-01")


# ---------------------------------------------------------------------- both eras on one pipe


@pytest.mark.spec("basic/versioning/dual-era-selects-stateless")
@pytest.mark.parametrize("legacy", LEGACY)
def test_both_eras_on_one_pipe_at_once(legacy: str) -> None:
    """Each request is served in its own: interleaved, and written in one go."""
    with RawClient(source(BODY), revision=legacy) as client:
        messages: list[Json] = []
        for n in range(40):
            params: Json = {"value": n}
            if n % 2:
                params["_meta"] = META
            messages.append({"jsonrpc": "2.0", "id": n + 100, "method": "vendor/echo", "params": params})
        client.send(*messages)
        for n in range(40):
            result = client.answer(n + 100)["result"]
            assert result["echo"] == n
            assert result["revision"] == (MODERN if n % 2 else legacy)
            assert ("resultType" in result) == bool(n % 2)
        assert client.request("ping")["result"] == {}
        params = {"_meta": META}
        client.send({"jsonrpc": "2.0", "id": "p", "method": "ping", "params": params})
        assert client.answer("p")["error"]["code"] == -32601
        client.send({"jsonrpc": "2.0", "id": "d", "method": "server/discover", "params": params})
        assert client.answer("d")["result"]["supportedVersions"] == [*reversed(REVISIONS)]


@pytest.mark.parametrize("legacy", LEGACY)
def test_modern_first_and_legacy_afterwards(legacy: str) -> None:
    """A modern request opens nothing and closes nothing."""
    with RawClient(source(BODY)) as client:
        client.send({"jsonrpc": "2.0", "id": "d", "method": "server/discover", "params": {"_meta": META}})
        assert "result" in client.answer("d")
        client.send({"jsonrpc": "2.0", "id": "n", "method": "tools/list"})
        assert client.answer("n")["error"]["code"] == -32602
        assert client.initialize(legacy)["protocolVersion"] == legacy
        assert client.request("tools/list")["result"]["tools"]


def test_what_a_legacy_session_agreed_on_does_not_count_for_modern_requests() -> None:
    """Its log level and capabilities are the session's; a modern request brings its own."""
    with RawClient(source(BODY), revision="2025-11-25") as client:
        assert "result" in client.request("logging/setLevel", {"level": "debug"})
        call = {"name": "talk", "arguments": {}, "_meta": META}
        client.send({"jsonrpc": "2.0", "id": "m", "method": "tools/call", "params": call})
        assert "result" in client.answer("m")
        assert client.aside == []
        client.answer(client.call("talk"))
        assert len(client.aside) == 2


def test_nothing_is_logged_as_wrong_in_a_good_session(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcp_ref")
    for date in REVISIONS:
        with connect(COMMAND, revision=date, options=ClientOptions(env=ENV)) as client:
            client.list_tools()
            client.call_tool("add", {"a": 1, "b": 2})
            client.ping()
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == []
