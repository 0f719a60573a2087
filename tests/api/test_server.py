"""Server: what its author says, what passes through it, and what it tells of itself."""

import contextlib
import json
import logging
import threading
import time

import pytest
from choices import for_server
from demos import demo
from peers import (
    LEGACY,
    META,
    MODERN,
    PATIENCE,
    REVISIONS,
    RawClient,
    eventually,
    plain,
    source,
)

from mcp_ref import Context, McpError, ResourceServer, Server, ServerOptions, connect
from mcp_ref.api import http_server
from mcp_ref.api import server as module
from mcp_ref.basic.lifecycle import ServerCapabilities
from mcp_ref.basic.transports.stdio import server as stdio
from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.schema import checker

SERVER_INFO = "io.modelcontextprotocol/serverInfo"


# -- identity and capabilities ---------------------------------------------------------------------


FULL = {
    "title": "Demo",
    "description": "Shows things.",
    "website_url": "https://example.org",
    "icons": [{"src": "https://example.org/i.png"}],
}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_says_who_it_is_as_far_as_the_revision_has_words_for_it(date):
    with connect(demo(**FULL), revision=date) as client:
        known = {"name": "demo", "version": "1.0"}
        if date >= "2025-06-18":
            known["title"] = "Demo"
        if date >= "2025-11-25":
            known |= {"description": "Shows things.", "websiteUrl": "https://example.org"}
            known["icons"] = FULL["icons"]
        assert client.server_info == known


@pytest.mark.spec("basic/index/meta-server-info")
def test_every_modern_result_says_whose_it_is_unless_that_is_switched_off():
    with RawClient(demo(), revision=MODERN) as raw:
        for method, params in (("tools/list", {}), ("tools/call", {"name": "add", "arguments": {}})):
            result = raw.request(method, params)["result"]
            assert result["_meta"] == {SERVER_INFO: {"name": "demo", "version": "1.0"}}
    with RawClient(demo(identify=False), revision=MODERN) as raw:
        for method in ("tools/list", "server/discover"):
            assert "_meta" not in raw.request(method)["result"]


@pytest.mark.parametrize("date", LEGACY)
def test_results_of_the_legacy_era_are_not_dressed(date):
    with RawClient(demo(), revision=date) as raw:
        assert raw.request("tools/list")["result"].keys() == {"tools"}


@pytest.mark.parametrize("date", REVISIONS)
def test_instructions_are_told_if_there_are_any(date):
    with connect(demo(instructions="Add, do not subtract."), revision=date) as client:
        assert client.instructions == "Add, do not subtract."
    with connect(demo(), revision=date) as client:
        assert client.instructions is None


@pytest.mark.spec("server/tools/capability-declared", "server/utilities/logging/capability-declared")
@pytest.mark.parametrize("date", REVISIONS)
def test_capabilities_are_those_that_the_revision_has(date):
    server = demo(experimental={"odd": {}}, extensions={"com.example/x": {"a": 1}})
    with connect(server, revision=date) as client:
        declared = client.server_capabilities
    checker(ServerCapabilities, date)(declared)
    expected = {"logging": {}, "tools": {"listChanged": True}, "experimental": {"odd": {}}}
    if date == MODERN:
        expected |= {"extensions": {"com.example/x": {"a": 1}}}
    assert declared == expected
    with connect(Server("bare", options=ServerOptions(logging=False)), revision=date) as client:
        assert client.server_capabilities == {}


@pytest.mark.spec("architecture/index/advertise-server-features")
@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize("features", [(), ("logging",), ("tools",), ("logging", "tools")], ids=str)
def test_what_a_server_can_do_is_what_it_says_it_can(date, features):
    """Methods of a capability are answered if it is declared, and only then."""
    server = Server("some", options=ServerOptions(logging="logging" in features))
    if "tools" in features:
        server.add_tool(lambda: "hi", name="hi")
    with connect(server, revision=date) as client:
        declared = client.server_capabilities
    assert declared.keys() == set(features)
    params = {"tools/call": {"name": "hi"}, "logging/setLevel": {"level": "error"}}
    rows = [row for row in module.ROWS if row.capability and row.holds(date)]
    assert {row.name for row in rows} >= {"tools/list", "tools/call"}
    with RawClient(server, revision=date) as raw:
        for row in rows:
            answer = raw.request(row.name, params.get(row.name))
            if row.capability in features:
                assert "result" in answer
            else:
                assert answer["error"]["code"] == -32601


@pytest.mark.parametrize(
    "options",
    [
        {"revisions": ["2024-01-01"]},
        {"page_size": 0},
        {"ttl_ms": -1},
        {"cache_scope": "mine"},
        {"icons": [{"src": "/x"}]},
        {"extensions": {"noprefix": {}}},
    ],
    ids=str,
)
def test_a_server_that_cannot_be_is_refused_at_once(options):
    with pytest.raises(ValueError):
        Server("bad", **for_server(options))


@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_of_one_revision_serves_that_one(date):
    server = demo(revisions=[date])
    assert server.versions.supported == [date]
    with connect(server) as client:
        assert client.revision.date == date
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


def test_there_is_one_transport_to_run():
    with pytest.raises(ValueError, match="stdio"):
        demo().run("carrier pigeon")


def test_run_serves_stdio_until_its_end():
    with RawClient(source("@server.tool\ndef hi() -> str:\n    return 'hi'"), revision=MODERN) as raw:
        assert raw.answer(raw.call("hi"))["result"]["content"][0]["text"] == "hi"
        raw.end_input()
        assert raw.wait() == 0


# -- the lifespan ----------------------------------------------------------------------------------


class Life:
    """A lifespan that tells what became of it."""

    def __init__(self):
        self.events = []

    @contextlib.contextmanager
    def __call__(self, server):
        self.events.append(("entered", server.info["name"]))
        try:
            yield {"db": len(self.events)}
        finally:
            self.events.append(("left",))


def test_a_lifespan_is_entered_once_for_all_connections_and_left_with_the_last():
    life = Life()
    server = demo(lifespan=life)

    @server.tool
    def value(ctx: Context) -> dict[str, int]:
        return ctx.lifespan

    assert life.events == []
    with connect(server, revision=LEGACY[0]) as one:
        assert one.call_tool("value").text == '{"db":1}'
        with connect(server) as two, connect(server) as three:
            assert two.call_tool("value").structured == {"db": 1}
            assert three.call_tool("value").structured == {"db": 1}
        assert life.events == [("entered", "demo")]
        assert one.call_tool("value").text == '{"db":1}'
    assert eventually(lambda: life.events[-1] == ("left",))
    with connect(server) as again:  # a new life for the next that comes
        assert again.call_tool("value").structured == {"db": 3}
    assert eventually(lambda: len(life.events) == 4)


def test_a_lifespan_is_left_also_when_its_use_ends_in_an_error():
    life = Life()
    server = demo(lifespan=life)
    with pytest.raises(ZeroDivisionError), server.lifespan.used():
        assert life.events == [("entered", "demo")]
        raise ZeroDivisionError
    assert life.events[-1] == ("left",)
    with server.lifespan.used(), server.lifespan.used():
        assert len(life.events) == 3
    assert len(life.events) == 4


def test_many_connections_at_once_share_one_life():
    life = Life()
    server = demo(lifespan=life)
    start, leave = threading.Barrier(8, timeout=PATIENCE), threading.Barrier(8, timeout=PATIENCE)

    def run():
        start.wait()
        with connect(server) as client:
            client.call_tool("add", {"a": 1, "b": 1})
            leave.wait()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert eventually(lambda: life.events == [("entered", "demo"), ("left",)])


def test_a_lifespan_that_cannot_be_entered_fails_the_connection_at_once_and_may_work_later(caplog):
    fails = [True]

    @contextlib.contextmanager
    def life(server):
        if fails:
            raise OSError("the database is away")
        yield "there"

    server = demo(lifespan=life)
    server.tool(name="value")(lambda_of_context)
    before = time.monotonic()
    with pytest.raises(McpError):
        connect(server)
    assert time.monotonic() - before < PATIENCE
    assert any(r.exc_info and "away" in str(r.exc_info[1]) for r in caplog.records)
    fails.clear()
    with connect(server) as client:
        assert client.call_tool("value").text == "there"


def lambda_of_context(ctx: Context) -> str:
    return str(ctx.lifespan)


def test_without_a_lifespan_its_value_is_none():
    server = demo()
    server.tool(name="value")(lambda_of_context)
    with connect(server) as client:
        assert client.call_tool("value").text == "None"


def test_a_child_leaves_its_lifespan_at_end_of_input():
    text = source(
        """
        import contextlib, sys

        @contextlib.contextmanager
        def life(server):
            print("entered", file=sys.stderr, flush=True)
            yield
            print("left", file=sys.stderr, flush=True)

        server = Server("life", lifespan=life)
        """
    )
    with RawClient(text, revision=MODERN) as raw:
        assert raw.is_alive()
        raw.end_input()
        assert raw.wait() == 0
        assert raw.stderr == ["entered", "left"]


# -- principals ------------------------------------------------------------------------------------


def test_one_client_may_leave_while_others_are_told_of_changes(caplog):
    caplog.set_level(logging.WARNING)
    server = demo()
    for _ in range(10):
        with connect(server, revision=LEGACY[3]) as client:
            server.add_tool(lambda: None, name="x", replace=True)
            client.ping()
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


def test_a_change_is_told_also_while_every_worker_is_busy():
    """Whoever waits for the change, in a tool or behind one, would otherwise wait for ever."""
    server = demo(workers=1, queue=1)
    go, entered = threading.Event(), threading.Event()

    @server.on_notification("vendor/slow")
    def slow(params):
        entered.set()
        go.wait(PATIENCE)

    with RawClient(server, revision=LEGACY[3]) as raw:
        raw.notify("vendor/slow")
        assert entered.wait(PATIENCE)
        server.add_tool(lambda: None, name="x")
        assert raw.receive() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        go.set()


@pytest.mark.spec("server/tools/list-changed")
def test_a_removed_tool_is_announced():
    server = demo()
    with RawClient(server, revision=LEGACY[3]) as raw:
        assert raw.is_alive()
        server.remove_tool("add")
        assert raw.receive() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


# -- principals, and features that come later: what an auditor found ---------------------------------


@pytest.mark.spec("basic/patterns/mrtr/request-state-principal")
def test_a_question_is_gone_on_with_by_its_own_principal_only():
    who = ["alice"]
    server = Server("of many", principal=lambda ctx: who[0])

    @server.tool
    def ask(ctx: Context) -> str:
        return f"{ctx.elicit('Sure?').action} by {ctx.principal}"

    with RawClient(server, revision=MODERN) as raw:
        meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
        asked = raw.answer(raw.call("ask", meta=meta))["result"]
        (key,) = asked["inputRequests"]
        again = {
            "name": "ask",
            "arguments": {},
            "_meta": meta,
            "inputResponses": {key: {"action": "accept", "content": {}}},
            "requestState": asked["requestState"],
        }
        who[0] = "mallory"
        assert raw.request("tools/call", again)["error"]["code"] == -32602
        who[0] = "alice"
        assert raw.request("tools/call", again)["result"]["content"][0]["text"] == "accept by alice"


@pytest.mark.parametrize("date", REVISIONS)
def test_what_is_offered_is_declared_before_there_is_any_and_its_first_is_announced(date):
    server = Server("later", options=ServerOptions(offers=["prompts", "tools"]))
    with connect(server, revision=date) as client, client.listen(prompts=True) as changes:
        assert client.list_prompts() == client.list_tools() == []
        assert not changes.refused
        server.add_prompt(lambda: "hi", name="first")
        assert changes.next(PATIENCE).kind == "prompts"


@pytest.mark.parametrize("options", [{"offers": ["toys"]}, {"offers": "toys"}, {"secret": "short"}], ids=str)
def test_options_of_no_sense_are_refused_with_the_reason(options):
    with pytest.raises(ValueError, match=r"offers|secret"):
        Server("bad", **for_server(options))


@pytest.mark.parametrize("secret", [5, [5], [], object()], ids=plain)
def test_a_secret_is_bytes_or_text(secret):
    with pytest.raises(TypeError, match="a secret is bytes or text"):
        Server("bad", secret=secret)


def test_a_directory_that_is_added_while_clients_are_there_is_watched(tmp_path):
    server = Server("late", options=ServerOptions(offers=["resources"]))
    with connect(server) as client, client.listen(resources=True) as changes:
        server.add_directory(tmp_path, poll=0.05)
        (tmp_path / "new.txt").write_text("hi")
        assert changes.next(PATIENCE).kind == "resources"
        assert [r["name"] for r in client.list_resources()] == ["new.txt"]


def test_a_directory_that_is_added_is_returned(tmp_path):
    (tmp_path / "a.txt").write_text("hi")
    directory = Server("files").add_directory(tmp_path, uri="files:///")
    assert directory.find("files:///a.txt") is not None


# -- what it tells, and how it ends ----------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_an_author_tells_that_a_resource_changed(date):
    server = demo()
    server.add_resource(lambda: "x", "config://app", name="app")
    with connect(server, revision=date) as client, client.listen(resources=["config://app"]) as changes:
        server.resource_updated("config://app")
        assert changes.next(PATIENCE).uri == "config://app"
        with pytest.raises(TypeError, match="uri is a string"):
            server.resource_updated(5)


@pytest.mark.parametrize("date", REVISIONS)
def test_a_directory_that_comes_while_there_are_clients_is_watched_too(date, tmp_path):
    server = Server("files", options=ServerOptions(offers=["resources"]))
    with connect(server, revision=date) as client, client.listen(resources=True) as changes:
        server.add_directory(tmp_path, uri="files:///", poll=0.02)
        (tmp_path / "a.txt").write_text("a")
        assert changes.next(PATIENCE).kind == "resources"
        assert [resource["uri"] for resource in client.list_resources()] == ["files:///a.txt"]


def test_nobody_is_told_of_a_visit_that_nobody_was_sent_on():
    assert demo().elicitation_complete("unknown") is False


def test_hanging_up_ends_what_is_open_and_lets_what_runs_finish():
    server, lines, go = demo(), [], threading.Event()

    @server.tool
    def slow() -> str:
        assert go.wait(PATIENCE)
        return "done"

    connection = server.attach(Outbox(lambda data: lines.extend(map(json.loads, data.splitlines()))))
    for name, method, params in (
        ("call", "tools/call", {"name": "slow"}),
        ("listen", "subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ):
        message = {"jsonrpc": "2.0", "id": name, "method": method, "params": {**params, "_meta": META}}
        connection.receive(json.dumps(message).encode())
    assert eventually(lambda: lines)
    helper = threading.Thread(target=lambda: eventually(lambda: len(lines) == 3) and go.set())
    helper.start()
    server.hang_up(connection, PATIENCE)
    server.detach(connection, "over")
    helper.join(PATIENCE)
    assert [m.get("method", m.get("id")) for m in lines] == [
        "notifications/subscriptions/acknowledged",
        "notifications/cancelled",
        "listen",
        "call",
    ]


@pytest.mark.parametrize("options", [{"limit": 5}, {"notices": "10/s"}])
def test_a_limit_is_a_limit(options):
    with pytest.raises(TypeError, match=r"(limit|notices) is a Limit"):
        Server("bad", **for_server(options))


def test_run_serves_the_streams_of_this_process(monkeypatch):

    served = []
    monkeypatch.setattr(stdio, "serve", served.append)
    server = demo()
    server.run()
    assert served == [server]


# -- in a forked child ------------------------------------------------------------------------------


def test_in_a_forked_child_a_lifespan_is_entered_anew_and_the_parents_is_not_left(monkeypatch):
    """Not by what the child serves, and not by its being forgotten either: it is kept."""
    kept = []
    monkeypatch.setattr(forks, "without_end", kept)
    life = Life()
    server = demo(lifespan=life)
    parents = server.lifespan.used()
    parents.__enter__()
    server.lifespan.forked()
    assert life.events == [("entered", "demo")]
    with server.lifespan.used():
        assert life.events == [("entered", "demo")] * 2
    assert life.events == [("entered", "demo"), ("entered", "demo"), ("left",)]
    assert len(kept) == 1
    kept[0].close()
    assert life.events[2:] == [("left",)] * 2


def test_in_a_forked_child_nobody_is_told_of_the_end_of_a_visit():
    server = demo()
    server.serving.elicitations["visit"] = object()
    server.serving.forked()
    assert not server.elicitation_complete("visit")


@pytest.mark.parametrize(
    ("options", "kind", "why"),
    [
        ({"limit": 5}, TypeError, "limit is a Limit"),
        ({"notices": 5}, TypeError, "notices is a Limit"),
        ({"ping_every": 0}, ValueError, "ping_every"),
        ({"ping_every": "often"}, TypeError, "ping_every"),
    ],
    ids=str,
)
def test_limits_and_pauses_that_are_none_are_refused_by_name(options, kind, why):
    with pytest.raises(kind, match=why):
        Server("bad", **for_server(options))


def test_a_forked_child_that_leaves_its_parents_service_can_serve_with_a_lifespan(monkeypatch):
    entered = []

    @contextlib.contextmanager
    def lifespan(server):
        entered.append(server)
        yield "here"

    server = demo(lifespan=lifespan)
    with server.lifespan.used():
        monkeypatch.setattr(forks, "count", forks.count + 1)  # as the hook does in a child
        server.lifespan.forked()
    forks.without_end.pop().close()

    @server.tool
    def where(ctx: Context) -> str:
        return str(ctx.lifespan)

    with connect(server) as client:
        assert client.call_tool("where").text == "here"
    assert len(entered) == 2


def test_a_forked_child_begins_anew_and_leaves_the_parents_lifespan_alone():
    events = []

    @contextlib.contextmanager
    def lifespan(server):
        events.append("entered")
        yield len(events)
        events.append("left")

    server = demo(lifespan=lifespan, principal=lambda context: "ann")
    with connect(server) as client:
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"
        inherited = len(forks.without_end)
        server.lifespan.forked()  # what the child of a fork calls
        assert len(forks.without_end) == inherited + 1
        with connect(server) as another:
            assert another.call_tool("add", {"a": 2, "b": 2}).text == "4"
            assert events == ["entered", "entered"]
        assert events == ["entered", "entered", "left"]
    forks.without_end.pop().close()
    assert events.count("left") == 2


def test_wsgi_app_is_an_application_at_a_path():
    app = demo().wsgi_app("/here", stateless=True)
    with contextlib.closing(app):
        statuses = []
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/elsewhere", "HTTP_HOST": "127.0.0.1"}
        b"".join(app(environ, lambda status, headers: statuses.append(status)))
        assert statuses[0].startswith("404")


@pytest.mark.parametrize(("transport", "options"), [("stdio", {}), ("http", {"port": 1})])
def test_run_hands_its_options_to_the_transport(transport, options, monkeypatch):
    served = []
    monkeypatch.setattr(stdio, "serve", lambda server, **given: served.append(("stdio", given)))
    monkeypatch.setattr(http_server, "serve", lambda server, **given: served.append(("http", given)))
    demo().run(transport, **options)
    assert served == [(transport, options)]


def test_ping_every_is_a_number_of_seconds():
    with pytest.raises(ValueError, match="ping_every"):
        demo(ping_every=-1)


def test_a_server_says_what_it_is_and_how_much_it_has():
    server = Server("notes", version="1.2.0")
    assert repr(server) == "<Server 'notes' 1.2.0: nothing yet>"
    for number in range(2):
        server.add_tool(lambda: None, name=f"tool{number}")
    server.add_resource(lambda: "", "note://1", name="note")
    server.add_resource(lambda number: "", "note://{number}", name="notes")
    server.add_prompt(lambda: "", name="sum-up")
    assert repr(server) == "<Server 'notes' 1.2.0: 2 tools, 1 resource, 1 template, 1 prompt>"


@pytest.mark.parametrize("name", ["limit", "options", "tasks"])
def test_an_option_of_another_kind_is_refused_by_its_name(name):
    with pytest.raises(TypeError, match=rf"^{name} is a"):
        Server("x", **{name: 5})


def test_what_needs_scopes_is_not_served_over_http_without_authorization():
    server = Server("notes")

    @server.tool(scopes=["write"])
    def write() -> str:
        return "written"

    with pytest.raises(ValueError, match=r"needs scopes, which no request has without auth="):
        server.wsgi_app()
    url = "https://mcp.example.com/mcp"
    auth = ResourceServer(url, authorization_servers=["https://auth.example.com"], verify=lambda token: None)
    app = server.wsgi_app(auth=auth)
    app.close(0.0)


def test_another_server_and_a_directory_are_there_as_long_as_this_one_is_served(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    other, server = Server("other"), Server("front")

    @other.tool(task="optional")
    def twice(n: int) -> int:
        return 2 * n

    server.mount("other", other)
    server.add_directory(tmp_path)
    with connect(server, check=True) as client:
        assert client.call_tool("other.twice", {"n": 4}).structured == {"result": 8}
        assert [each["name"] for each in client.list_resources()] == ["a.txt"]


def test_a_server_with_tasks_declares_them():
    server = Server("films")

    @server.tool(task="optional")
    def render() -> str:
        return "done"

    with connect(server, revision="2025-11-25") as client:
        assert "tools" in client.server_capabilities["tasks"]["requests"]
    with connect(server, revision="2026-07-28") as client:
        assert "io.modelcontextprotocol/tasks" in client.server_capabilities["extensions"]
