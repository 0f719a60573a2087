"""Client: each feature, many threads on one connection, callbacks, and the end."""

import concurrent.futures
import contextlib
import gc
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
import weakref

import demos
import pytest
from choices import for_server
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, Notes, eventually, raw_server
from task_scripts import Scripted, created
from web import opened, talking, text, web

from mcp_ref import (
    Client,
    ClientOptions,
    ConnectionClosed,
    Context,
    ErrorResponse,
    InvalidResponse,
    Limit,
    McpError,
    RequestTimeout,
    Server,
    ServerOptions,
    ToolError,
    connect,
)
from mcp_ref.api import client as module
from mcp_ref.client.elicitation.url_mode import ElicitUrl, UrlElicitationNeeded, UrlElicitationRequired
from mcp_ref.runtime.errors import LocalError

LEVEL = "io.modelcontextprotocol/logLevel"

every = pytest.mark.parametrize("date", REVISIONS)


def demo(**options):
    server = demos.demo(**options)

    @server.tool
    def talk(ctx: Context) -> str:
        for n in range(20):
            ctx.log("error", n, logger="talk")
        return "said"

    @server.tool
    def ask(method: str, ctx: Context) -> dict[str, object]:
        return ctx.request(method, {"n": 1})

    return server


class Held:
    """A server with a tool that waits until it is let go."""

    def __init__(self):
        self.entered, self.go = threading.Semaphore(0), threading.Event()
        self.server = demo()

        @self.server.tool
        def wait(ctx: Context) -> str:
            self.entered.release()
            while not ctx.cancelled and not self.go.wait(0.005):
                pass
            return "done"

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.go.set()


# -- what a client knows ---------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_a_client_knows_the_server_from_the_start(date):
    with connect(demo(instructions="Add."), revision=date) as client:
        assert isinstance(client, Client)
        assert client.revision.date == date
        assert client.revision.modern == (date == MODERN)
        assert client.server_info == {"name": "demo", "version": "1.0"}
        assert client.server_capabilities.keys() == {"logging", "tools"}
        assert client.instructions == "Add."


# -- one server, and no other -----------------------------------------------------------------------


@pytest.mark.spec("architecture/index/one-server-per-client")
@pytest.mark.parametrize("date", REVISIONS)
def test_each_client_has_one_server_and_a_program_as_many_clients_as_it_likes(date):
    with contextlib.ExitStack() as stack:
        clients = {}
        for name in ("first", "second", "third"):
            server = Server(name)
            server.add_tool(lambda name=name: name, name="who")
            clients[name] = stack.enter_context(connect(server, revision=date))
        assert [client.server_info["name"] for client in clients.values()] == list(clients)
        for _ in range(3):
            for name, client in clients.items():
                assert client.call_tool("who").text == name


@pytest.mark.spec("architecture/index/client-boundary")
@pytest.mark.parametrize("date", REVISIONS)
def test_nothing_of_one_server_gets_to_another(date):
    """Neither what it is told nor what it tells; neither its tools, which have the same name, nor its end."""

    def script(name, kind):
        listed = {"name": "get", "inputSchema": {"type": "object"}, "outputSchema": kind}
        page = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [listed]}
        return f"""
            open_any({date!r})
            answer(receive("tools/list"), {page!r})
            send(method="vendor/said", params={{"by": {name!r}}})
            while True:
                request = receive("tools/call")
                if "end" in request["params"]["arguments"]:
                    sys.exit(9)
                answer(request, text(structuredContent={{"of": {name!r}}}))
        """

    def opened(name):
        kind = {"type": "object", "properties": {"of": {"const": name}}}
        client = connect(
            raw_server(script(name, kind)),
            revision=date,
            on_notification=lambda method, params: said[name].append(params["by"]),
            options=ClientOptions(on_stderr=heard[name]),
        )
        return stack.enter_context(client)

    heard, said = {"a": Notes(), "b": Notes()}, {"a": [], "b": []}
    with contextlib.ExitStack() as stack:
        clients = {name: opened(name) for name in ("a", "b")}
        for client in clients.values():
            client.list_tools()
        for name, client in clients.items():  # each is checked by the schema of its own server
            assert client.call_tool("get", {"secret": f"for {name}"}).structured == {"of": name}
        with pytest.raises(ConnectionClosed):
            clients["a"].call_tool("get", {"end": True})
        assert clients["b"].call_tool("get").structured == {"of": "b"}
        assert eventually(lambda: all(said.values()))
    assert said == {"a": ["a"], "b": ["b"]}
    assert "for a" in str(heard["a"].all) and "for b" in str(heard["b"].all)
    assert "for a" not in str(heard["b"].all) and "for b" not in str(heard["a"].all)


# -- many threads ----------------------------------------------------------------------------------


@pytest.mark.parametrize("date", [LEGACY[1], MODERN])
@pytest.mark.parametrize("where", ["memory", "child"])
def test_sixteen_threads_make_fifty_calls_each_and_each_gets_its_own_answer(date, where):
    echo = f"""
        open_any({date!r})
        while True:
            request = receive()
            if "id" in request:
                a = request["params"]["arguments"]
                answer(request, text(str(a["a"] + a["b"])))
    """
    target = demo() if where == "memory" else raw_server(echo)
    with connect(target, revision=date, options=ClientOptions(on_stderr=Notes())) as client:
        start = threading.Barrier(16, timeout=PATIENCE)

        def work(who):
            start.wait()
            return [client.call_tool("add", {"a": who * 1000, "b": n}).text for n in range(50)]

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            found = list(pool.map(work, range(16), timeout=3 * PATIENCE))
    assert found == [[str(who * 1000 + n) for n in range(50)] for who in range(16)]


def test_a_call_that_waits_delays_nobody_else():
    with Held() as held, connect(held.server) as client:
        waiting = client.submit("tools/call", {"name": "wait"})
        assert held.entered.acquire(timeout=PATIENCE)
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        client.ping()
        held.go.set()
        assert waiting.result(PATIENCE).text == "done"


def test_answers_may_come_in_any_order():
    script = """
        open_modern()
        requests = [receive("tools/call") for _ in range(5)]
        for request in reversed(requests):
            answer(request, text(request["params"]["name"]))
        go_on()
    """
    with connect(raw_server(script), options=ClientOptions(on_stderr=Notes())) as client:
        calls = [client.submit("tools/call", {"name": f"t{n}"}) for n in range(5)]
        assert [call.result(PATIENCE).text for call in calls] == [f"t{n}" for n in range(5)]


def all_features(**options):
    """A server that has some of everything, and says what it was asked."""
    server = Server("demo", version="1.0", **for_server(options))

    @server.tool
    def add(a: int, b: int, ctx: Context) -> int:
        ctx.progress(1, 2)
        ctx.log("info", "at work")
        return a + b

    @server.resource("config://app")
    def config(ctx: Context) -> str:
        ctx.progress(1, 2)
        return "the configuration"

    @server.resource("item:///{id}", complete={"id": ["one", "two"]})
    def item(id: str) -> bytes:
        return id.encode()

    @server.prompt(complete={"language": ["Python", "Perl"]})
    def review(language: str, ctx: Context, code: str = "") -> str:
        ctx.progress(1, 2)
        return f"Review this {language}: {code}"

    return server


def sent_with_all(date, act, method):
    """The message of this method that a server gets when a client does something."""
    notes = Notes()
    script = f"ABLE.update(resources={{}}, prompts={{}})\nopen_any({date!r})\ngo_on(text('x'))"
    with connect(raw_server(script), revision=date, options=ClientOptions(on_stderr=notes)) as client:
        act(client)
        return notes.message(method)


# -- one line each ---------------------------------------------------------------------------------


@every
def test_each_feature_is_one_call(date):
    with connect(all_features(), revision=date) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["add"]
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert [resource["uri"] for resource in client.list_resources()] == ["config://app"]
        assert [t["uriTemplate"] for t in client.list_resource_templates()] == ["item:///{id}"]
        assert client.read_resource("config://app").text == "the configuration"
        assert client.read_resource("item:///7").blobs == [b"7"]
        assert [prompt["name"] for prompt in client.list_prompts()] == ["review"]
        assert client.get_prompt("review", {"language": "C"}).text == "Review this C: "
        said = client.complete(prompt="review", argument="language", value="py")
        assert said["completion"]["values"] == ["Python"]
        said = client.complete(resource="item:///{id}", argument="id", value="t")
        assert said["completion"]["values"] == ["two"]


@every
def test_progress_is_told_for_each_that_takes_a_while(date):
    told = []
    with connect(all_features(), revision=date) as client:
        options = {"on_progress": lambda *report: told.append(report[:2]), "timeout": PATIENCE, "rounds": 3}
        client.call_tool("add", {"a": 1, "b": 2}, **options)
        client.read_resource("config://app", **options)
        client.get_prompt("review", {"language": "C"}, **options)
    assert told == [(1, 2)] * 3


@every
def test_meta_of_the_caller_goes_along(date):
    meta = {"com.example/trace": [1]}

    def get_prompt(client):
        with pytest.raises(InvalidResponse):  # what this server answers is no prompt
            client.get_prompt("x", meta=meta)

    for act, method in (
        (lambda client: client.call_tool("x", meta=meta), "tools/call"),
        (get_prompt, "prompts/get"),
    ):
        assert sent_with_all(date, act, method)["params"]["_meta"]["com.example/trace"] == [1]


@every
def test_what_makes_no_sense_is_refused_and_not_sent(date):
    with connect(all_features(), revision=date) as client:
        for act, complaint in (
            (lambda: client.call_tool(5), "name is a string"),
            (lambda: client.call_tool("add", [1]), "arguments is a dict"),
            (lambda: client.call_tool("add", meta="x"), "meta is a dict"),
            (lambda: client.read_resource(None), "uri is a string"),
            (lambda: client.get_prompt(b"x"), "name is a string"),
            (lambda: client.get_prompt("x", {1: "y"}), "arguments is a dict"),
            (lambda: client.listen(resources="config://app"), "a list of URIs, not one string"),
            (lambda: client.listen(resources=["config://app", 5]), r"resources\[1\] is a string"),
            (lambda: client.visit("x", timeout="y"), "timeout is a number"),
        ):
            with pytest.raises(TypeError, match=complaint):
                act()
        assert not client.asker.connection.waiting
        assert not client.asker.subscriptions


@every
def test_half_a_surrogate_pair_is_refused_by_the_name_of_its_parameter(date):
    half = "\ud800"
    with connect(all_features(), revision=date) as client:
        for act, name in (
            (lambda: client.call_tool(half), "name"),
            (lambda: client.submit_tool(half), "name"),
            (lambda: client.start_tool(half), "name"),
            (lambda: client.task(half), "task_id"),
            (lambda: client.read_resource(f"x:{half}"), "uri"),
            (lambda: client.get_prompt(half), "name"),
            (lambda: client.complete(prompt=half, argument="a"), "prompt"),
            (lambda: client.complete(resource=half, argument="a"), "resource"),
            (lambda: client.complete(prompt="x", argument=half), "argument"),
            (lambda: client.complete(prompt="x", argument="a", value=half), "value"),
            (lambda: client.listen(resources=[half]), r"resources\[0\]"),
            (lambda: client.request(half), "method"),
            (lambda: client.notify(half), "method"),
        ):
            with pytest.raises(ValueError, match=f"^{name} holds half a surrogate pair"):
                act()
        assert not client.asker.connection.waiting
        assert not client.asker.subscriptions


@every
def test_pages_are_fetched_one_by_one(date):
    server, asked = Server("paged", page_size=2), []
    for n in range(5):
        server.add_tool(lambda: "x", name=f"t{n}")

    @server.around
    def count(ctx, params, proceed):
        asked.append(ctx.method)
        return proceed(params)

    with connect(server, revision=date) as client:
        asked.clear()
        pages = client.pages("tools/list")
        assert [len(next(pages)["tools"]) for _ in range(2)] == [2, 2]
        assert asked == ["tools/list"] * 2
        assert len(client.list_tools()) == 5


# -- is the server there? --------------------------------------------------------------------------


def test_ping_asks_the_server_and_not_the_cache():
    server, asked = Server("kept", options=ServerOptions(ttl_ms=60_000)), []

    @server.around
    def count(ctx, params, proceed):
        asked.append(ctx.method)
        return proceed(params)

    with connect(server, cache=True) as client:
        for _ in range(3):
            client.request("server/discover")
        asked.clear()
        for _ in range(3):
            client.ping()
    assert asked == ["server/discover"] * 3


# -- changes ---------------------------------------------------------------------------------------


@every
def test_listening_takes_lists_and_resources(date):
    server = all_features()
    with connect(server, revision=date) as client:
        with client.listen(tools=True, prompts=True, resources=True) as changes:
            assert changes.kinds == {"tools", "prompts", "resources"}
            assert changes.uris == ()
        uris = (uri for uri in ["config://app", "item:///1", "config://app"])
        with client.listen(resources=uris, resource_list=True) as changes:
            assert changes.kinds == {"resources"}
            assert changes.uris == ("config://app", "item:///1")
            server.resource_updated("item:///1")
            assert changes.next(PATIENCE).uri == "item:///1"


# -- what the application has ----------------------------------------------------------------------


@every
def test_a_server_is_told_of_other_roots(date, tmp_path):
    server = Server("rooted")

    @server.tool
    def where(ctx: Context) -> list[str]:
        return [root["uri"] for root in ctx.list_roots()]

    other = tmp_path / "other"
    other.mkdir()
    with connect(server, revision=date, roots=[tmp_path]) as client:
        assert tmp_path.as_uri() in client.call_tool("where").text
        client.set_roots(iter([other]))
        assert other.as_uri() in client.call_tool("where").text
        client.set_roots(lambda: [tmp_path])
        assert other.as_uri() not in client.call_tool("where").text
        with pytest.raises((TypeError, ValueError)):
            client.set_roots(["https://example.org"])


def test_who_declared_no_roots_has_none_later():
    with connect(all_features()) as client, pytest.raises(ValueError, match="connected without roots"):
        client.set_roots([])


def test_a_visit_that_an_error_asks_for_and_then_the_request_again():
    server, been = Server("shop"), []

    @server.tool
    def pay(ctx: Context) -> str:
        if been:
            return "paid"
        been.append(ElicitUrl("Pay first", "https://example.org/pay"))
        raise UrlElicitationRequired(*been)

    def go(asked):
        server.elicitation_complete(asked.elicitation_id)
        return asked.accept()

    with connect(server, revision="2025-11-25", elicitation=lambda asked: asked.accept()) as client:
        with pytest.raises(UrlElicitationNeeded) as needed:
            client.call_tool("pay")
        server.elicitation_complete(needed.value.elicitations[0]["elicitationId"])
        assert client.visit(needed.value, timeout=PATIENCE)
        assert client.call_tool("pay").text == "paid"
        with pytest.raises(ValueError, match="timeout"):
            client.visit(needed.value, timeout=-1)


@every
def test_log_messages_come_from_the_level_on_that_was_set(date):
    logged = []
    with connect(all_features(), revision=date, on_log=lambda *message: logged.append(message[:2])) as client:
        client.set_log_level("error")
        client.call_tool("add", {"a": 1, "b": 2})
        client.set_log_level("debug")
        client.call_tool("add", {"a": 1, "b": 2})
        assert eventually(lambda: logged)
    assert logged == [("info", "at work")]


@pytest.mark.parametrize("date", REVISIONS)
def test_what_the_server_does_not_have_is_not_asked_of_it(date):
    with connect(Server("bare", options=ServerOptions(logging=False)), revision=date) as client:
        for act in (
            client.list_tools,
            lambda: client.call_tool("x"),
            client.list_resources,
            client.list_resource_templates,
            lambda: client.read_resource("a://b"),
            client.list_prompts,
            lambda: client.get_prompt("x"),
        ):
            with pytest.raises(LocalError, match="did not declare"):
                act()


@every
def test_a_server_that_is_asked_too_much_says_so(date):
    with connect(all_features(limit=Limit(rate=0.001, burst=1)), revision=date) as client:
        client.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(ErrorResponse) as refused:
            client.call_tool("add", {"a": 1, "b": 2})
        assert refused.value.code == 429


@pytest.mark.parametrize("date", REVISIONS)
def test_ping_returns_if_the_server_is_there(date):
    with connect(all_features(), revision=date) as client:
        assert client.ping() is None
        assert client.ping(timeout=5) is None


def test_ping_tells_when_nobody_answers():
    script = "open_legacy()\nreceive('never')"
    with (
        connect(raw_server(script), revision=LEGACY[0], options=ClientOptions(on_stderr=Notes())) as client,
        pytest.raises(RequestTimeout),
    ):
        client.ping(timeout=0.05)


@pytest.mark.spec("server/utilities/logging/set-level")
def test_the_log_level_is_sent_in_the_way_of_the_era():
    def act(client):
        client.set_log_level("notice")
        client.call_tool("x")

    assert sent_with_all(LEGACY[3], act, "logging/setLevel")["params"] == {"level": "notice"}
    assert "_meta" not in sent_with_all(LEGACY[3], act, "tools/call")["params"]
    assert sent_with_all(MODERN, act, "tools/call")["params"]["_meta"][LEVEL] == "notice"
    assert (
        LEVEL
        not in sent_with_all(MODERN, lambda client: client.call_tool("x"), "tools/call")["params"]["_meta"]
    )


@pytest.mark.parametrize("date", REVISIONS)
def test_meta_of_the_callers_own_goes_with_what_is_read(date):
    server = Server("meta")

    @server.resource("meta://mine")
    def mine(ctx: Context) -> str:
        return str(ctx.meta.get("com.example/trace"))

    with connect(server, revision=date) as client:
        assert client.read_resource("meta://mine", meta={"com.example/trace": "t1"}).text == "t1"
        assert client.read_resource("meta://mine").text == "None"


# -- callbacks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_log_messages_and_notifications_are_told_in_order(date):
    told, last = [], threading.Event()

    def on_log(level, data, logger):
        told.append(("log", level, data, logger))

    def on_notification(method, params):
        told.append(("any", method, params["data"]))
        if params["data"] == 19:
            last.set()

    with connect(demo(), revision=date, on_log=on_log, on_notification=on_notification) as client:

        @client.on_notification("notifications/message")
        def one(params):
            told.append(("one", params["data"]))

        client.set_log_level("debug")
        client.call_tool("talk")
        assert last.wait(PATIENCE)
    expected = []
    for n in range(20):
        expected += [("log", "error", n, "talk"), ("one", n), ("any", "notifications/message", n)]
    assert told == expected


def test_slow_callbacks_delay_no_answer():
    running, go = threading.Event(), threading.Event()

    def on_log(level, data, logger):
        running.set()
        go.wait(PATIENCE)

    with connect(demo(), revision=LEGACY[3], on_log=on_log) as client:
        client.call_tool("talk")
        assert running.wait(PATIENCE)
        for n in range(20):
            assert client.call_tool("add", {"a": n, "b": 1}).text == str(n + 1)
        client.ping()
        go.set()


def test_callbacks_that_raise_harm_nobody(caplog):
    told, last = [], threading.Event()

    def on_log(level, data, logger):
        told.append(data)
        if data == 19:
            last.set()
        raise ValueError("a bad callback")

    with connect(demo(), revision=LEGACY[3], on_log=on_log) as client:
        assert client.call_tool("talk").text == "said"
        assert last.wait(PATIENCE)
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"
    assert told == list(range(20))
    assert any(r.exc_info and "a bad callback" in str(r.exc_info[1]) for r in caplog.records)


def test_a_callback_may_use_the_client():
    found = concurrent.futures.Future()

    def on_log(level, data, logger):
        if data == 0:
            found.set_result(client.call_tool("add", {"a": 20, "b": 3}).text)

    with connect(demo(), revision=LEGACY[3], on_log=on_log) as client:
        client.call_tool("talk")
        assert found.result(PATIENCE) == "23"


def test_a_callback_may_close_the_client():
    closed = threading.Event()

    def on_log(level, data, logger):
        client.close()
        closed.set()

    with connect(demo(), revision=LEGACY[3], on_log=on_log) as client:
        try:
            client.call_tool("talk")
        except ConnectionClosed:
            pass
        assert closed.wait(PATIENCE)
    with pytest.raises(ConnectionClosed):
        client.ping()


def test_notifications_that_are_none_are_ignored():
    told, last = [], threading.Event()
    script = """
        open_legacy()
        for params in ([1], "x", None, 5):
            send(method="vendor/odd", params=params)
        for params in ({}, {"level": "loud", "data": 1}, {"level": "info"}):
            send(method="notifications/message", params=params)
        for params in ({}, {"progressToken": 99, "progress": 1}, {"progressToken": None}):
            send(method="notifications/progress", params=params)
        send(id=77, result={})
        send(id="nobody", error={"code": 1, "message": "x"})
        send(method="vendor/last")
        go_on()
    """

    def on_notification(method, params):
        told.append(method)
        if method == "vendor/last":
            last.set()

    with connect(
        raw_server(script),
        revision=LEGACY[3],
        on_notification=on_notification,
        on_log=lambda *message: told.append(message),
        options=ClientOptions(on_stderr=Notes()),
    ) as client:
        assert last.wait(PATIENCE)
        client.ping()
    assert "vendor/odd" not in told
    assert not any(isinstance(entry, tuple) for entry in told)


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_close_fails_every_waiting_call_at_once(date):
    with Held() as held:
        client = connect(held.server, revision=date)
        problems = []

        def wait():
            try:
                client.call_tool("wait", timeout=60)
            except McpError as problem:
                problems.append(problem)

        threads = [threading.Thread(target=wait) for _ in range(5)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert held.entered.acquire(timeout=PATIENCE)
        client.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert [type(problem) for problem in problems] == [ConnectionClosed] * 5


def test_close_may_be_called_twice_and_by_many():
    client = connect(demo())
    client.close()
    client.close()
    client = connect(raw_server("open_modern()\ngo_on()"), options=ClientOptions(on_stderr=Notes()))
    threads = [threading.Thread(target=client.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    with client:  # and at the end of a block once more
        pass


@pytest.mark.parametrize("date", REVISIONS)
def test_a_close_beside_another_ends_when_the_server_has_ended(date):
    """It is of no importance who was first: after `close`, or a block, the server is gone."""
    notes = Notes()
    script = f"open_any({date!r})\nwhile os.read(0, 100): pass\nnote('end of input')\ntime.sleep(1)"
    with connect(
        raw_server(script), revision=date, options=ClientOptions(on_stderr=notes, grace=PATIENCE)
    ) as client:
        process = client.asker.line.link.process
        first = threading.Thread(target=client.close)
        first.start()
        notes.until(lambda note: note == "end of input")
    assert process.poll() is not None
    assert not client._finalizer.alive  # so that nothing is warned of when the program ends
    first.join(PATIENCE)


class HeldClose:
    """Has the first `close` of a client's line wait until it is let go; `problem` is what it raises then."""

    def __init__(self, client, monkeypatch, problem=None):
        self.begun, self.go, self.problem = threading.Event(), threading.Event(), problem
        self._close = client.asker.line.close
        monkeypatch.setattr(client.asker.line, "close", self)

    def __call__(self):
        if self.begun.is_set():
            self._close()
            return
        self.begun.set()
        assert self.go.wait(PATIENCE)
        if self.problem is not None:
            raise self.problem
        self._close()


def test_a_close_beside_one_that_is_interrupted_does_the_rest(monkeypatch):
    client = connect(demo())
    held = HeldClose(client, monkeypatch, KeyboardInterrupt())

    def interrupted():
        with pytest.raises(KeyboardInterrupt):
            client.close()

    first = threading.Thread(target=interrupted)
    first.start()
    assert held.begun.wait(PATIENCE)
    second = threading.Thread(target=client.close)
    second.start()
    held.go.set()
    for thread in (first, second):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert not client.asker.line.link._thread.is_alive()
    assert not client._finalizer.alive


@contextlib.contextmanager
def closing_beside(client, held):
    """Another thread closes, and is held in it, for as long as the block lasts."""
    other = threading.Thread(target=client.close)
    other.start()
    assert held.begun.wait(PATIENCE)
    try:
        yield
    finally:
        held.go.set()
        other.join(PATIENCE)
        assert not other.is_alive()


def test_a_callback_that_closes_beside_another_thread_is_not_held_up(monkeypatch):
    """The other one waits for the callbacks: if they waited for it, too, neither would go on for a while."""
    there, go, closed = threading.Event(), threading.Event(), threading.Event()

    def on_log(level, data, logger):
        if data == 0:
            there.set()
            assert go.wait(PATIENCE)
            client.close()
            closed.set()

    client = connect(demo(), revision=LEGACY[3], on_log=on_log)
    held = HeldClose(client, monkeypatch)
    client.call_tool("talk")
    assert there.wait(PATIENCE)
    with closing_beside(client, held):
        go.set()
        assert closed.wait(PATIENCE)


def test_what_a_client_waits_for_at_its_end_does_not_wait_for_it(monkeypatch):
    """A server in this process, whose lifespan ends on a thread of its own, closes its client."""
    closed = threading.Event()

    @contextlib.contextmanager
    def lifespan(server):
        yield
        client.close()
        closed.set()

    client = connect(Server("any", lifespan=lifespan))
    held = HeldClose(client, monkeypatch)
    with closing_beside(client, held):
        client.asker.line.link.close()
        assert closed.wait(PATIENCE)


def test_after_close_everything_says_so():
    client = connect(demo())
    client.close()
    for act in (
        client.ping,
        client.list_tools,
        lambda: client.call_tool("add", {"a": 1, "b": 1}),
        lambda: client.request("vendor/x"),
        lambda: client.submit("vendor/x").result(PATIENCE),
        lambda: client.notify("vendor/x"),
    ):
        with pytest.raises(ConnectionClosed, match="closed"):
            act()
    assert client.revision.date == MODERN  # what it knew it still knows


def test_a_with_block_that_fails_closes_the_client_and_hides_nothing():
    with pytest.raises(ZeroDivisionError), connect(raw_server("open_modern()\ngo_on()")) as client:
        raise ZeroDivisionError
    with pytest.raises(ConnectionClosed):
        client.ping()


@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_that_dies_fails_all_calls_with_its_last_words(date):
    script = f"""
        open_any({date!r})
        receive("tools/call")
        receive("tools/call")
        note("out of memory")
        sys.exit(9)
    """
    with connect(raw_server(script), revision=date, options=ClientOptions(on_stderr=Notes())) as client:
        calls = [client.submit("tools/call", {"name": "x"}) for _ in range(2)]
        for call in calls:
            with pytest.raises(ConnectionClosed, match=r"(?s)code 9.*out of memory"):
                call.result(PATIENCE)
        if date != MODERN:  # the session died with its server
            with pytest.raises(ConnectionClosed, match="code 9"):
                client.ping()


def test_a_message_that_is_too_long_is_not_read_and_the_connection_lives(caplog):
    caplog.set_level(logging.DEBUG)
    for date in (LEGACY[3], MODERN):
        script = f"""
            open_any({date!r})
            send(method="vendor/long", params={{"a": "x" * 100_000}})
            go_on()
        """
        told = []
        with connect(
            raw_server(script),
            revision=date,
            on_notification=lambda method, params, told=told: told.append(method),
            options=ClientOptions(on_stderr=Notes(), max_message_bytes=50_000),
        ) as client:
            client.ping()
            assert told == []


# -- a new session -----------------------------------------------------------------------------------


def test_a_session_that_is_new_is_made_like_the_old_one():
    """Over HTTP a server may end a session: the client opens another
    (basic/transports/streamable_http/sending).
    """

    def legacy(session):
        def handle(request, wire):
            if request.rpc == "tools/call" and request.headers["mcp-session-id"] == "1":
                wire.answer(404)
            else:
                wire.result(request, text("hello"))

        return opened(handle, "2025-11-25", session)

    sessions = iter("12")
    latest = []

    def handle(request, wire):
        if request.rpc == "initialize":
            latest[:] = [legacy(next(sessions))]
        latest[0](request, wire)

    with web(handle) as site, connect(site.url, revision="2025-11-25") as client:
        assert client.session_id == "1"
        client.set_log_level("error")
        client.asker.tools.store([{"name": "a"}], 60)
        assert client.call_tool("a").text == "hello"
        assert client.session_id == "2"
        assert eventually(lambda: not client.asker.tools._by_name)
        assert eventually(lambda: len(site.of("logging/setLevel")) == 2)
        assert [r.headers["mcp-session-id"] for r in site.of("logging/setLevel")] == ["1", "2"]


def test_only_a_level_that_was_set_is_set_again():
    with talking(lambda request, wire: wire.result(request, {}), "2025-11-25", on_log=print) as (
        site,
        client,
    ):
        client.asker.renewed()
        assert not site.of("logging/setLevel")


# -- clients that nobody closes, and those of a forked child --------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_a_client_that_is_dropped_is_warned_of_by_the_name_of_its_server_and_closed(date):
    client = connect(demo(), revision=date)
    link = client.asker.line.link
    with pytest.warns(ResourceWarning, match="unclosed client of a server of this process, Server"):
        del client
        gc.collect()
    assert eventually(lambda: link._ours.fileno() == -1)


CELLS = {
    "a call": "client.call_tool('add', {'a': 1, 'b': 2})",
    "a tool that failed": "client.call_tool('fail', check=True)",
    "an error": "client.call_tool('nothing')",
    "a time-out": "client.call_tool('wait', timeout=0.01)",
    "a list": "client.list_tools()",
    "half of a list": "pages = client.pages('tools/list'); page = next(pages)",
    "a subscription": "changes = client.listen(tools=True)",
    "a subscription that was read": "changes = client.listen(tools=True); changes.next(0.05)",
    "a future": "future = client.submit_tool('add', {'a': 1, 'b': 2}); future.result()",
    "a future that nothing waits for": "future = client.submit_tool('add', {'a': 1, 'b': 2})",
    "a question": "client.call_tool('ask')",
    "a question to a future": "client.submit_tool('ask').result()",
    "a callback": "client.on_notification('x')(lambda params: client)",
}
"""What stands in a cell of a notebook below `client = connect(...)`."""

NOTEBOOK = """
import code, contextlib, gc, io, json, os, sys, time, warnings
from peers import PATIENCE, _children, eventually

warnings.simplefilter("ignore")
gc.disable()
revision, cells, command = json.loads(sys.argv[1])
first = (
    "from mcp_ref import ClientOptions, connect; "
    f"options = ClientOptions(env={dict(PYTHONPATH=os.pathsep.join(sys.path))}); "
    f"client = connect({command}, revision={revision!r}, elicitation=lambda question: {{'value': 1}},"
    " options=options); "
)
for name, cell in cells.items():
    space = {}
    notebook = code.InteractiveInterpreter(space)
    for _ in range(4):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            notebook.runcode(compile(first + cell, "cell", "exec"))
    again = eventually(lambda: len(_children()) == 1) and "client" in space
    space.clear()
    sys.last_value = sys.last_traceback = sys.last_exc = None
    print(name, again, eventually(lambda: not _children()), flush=True)
"""

NOTEBOOK_SERVER = """
from mcp_ref import Context, Server

server = Server("notebook")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.tool
def fail() -> int:
    raise ValueError("no")

@server.tool
def wait(ctx: Context) -> None:
    ctx.sleep(60)

@server.tool
def ask(ctx: Context) -> int:
    return ctx.elicit("How many?", int).data

server.run()
"""


@pytest.mark.parametrize("date", [LEGACY[3], MODERN])
def test_a_cell_of_a_notebook_that_is_run_four_times_leaves_one_child(date):
    """Without `close`, and without the collector of garbage: what is dropped is ended at once."""
    command = [sys.executable, "-c", NOTEBOOK_SERVER]
    given = json.dumps([date, CELLS, command])
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, given],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines() == [f"{name} True True" for name in CELLS], done.stderr[-3000:]


def test_a_client_that_is_dropped_in_the_middle_of_a_request_is_ended_after_it():
    with Held() as held, pytest.warns(ResourceWarning, match="unclosed client"):
        client = connect(held.server)
        future = client.submit_tool("wait")
        assert held.entered.acquire(timeout=PATIENCE)
        link = client.asker.line.link
        del client, future
        assert link._ours.fileno() != -1
        held.go.set()
        assert eventually(lambda: link._ours.fileno() == -1)


def test_a_client_that_is_there_when_the_program_ends_is_closed_before_that_goes_on():
    """On the same thread: at that time no other one is started any more."""
    client = connect(demo())
    client._finalizer.detach()
    with pytest.warns(ResourceWarning, match="unclosed client of the demo"):
        module._dropped(
            weakref.ref(client.asker), client.asker.line, client.asker.events, "the demo", module.forks.count
        )
    with pytest.raises(ConnectionClosed, match="this client was closed"):
        client.call_tool("add", {"a": 1, "b": 2})


def test_a_forked_child_that_drops_the_client_of_its_parent_neither_warns_nor_closes():
    with connect(demo()) as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        before = module.forks.count - 1
        module._dropped(lambda: None, client.asker.line, client.asker.events, "the demo", before)
        assert client.call_tool("add", {"a": 1, "b": 2}).structured == {"result": 3}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_forked_child_that_closes_the_client_of_its_parent_ends_nothing(date):
    """What it asks is refused with what to do instead."""
    with connect(demo(), revision=date) as client:
        line = client.asker.line
        line.connection.forked()
        client.close()
        assert not client.asker.closing.is_set()
        assert line.link._thread.is_alive()
        with pytest.raises(ConnectionClosed, match=r"was forked .* make a connection of its own"):
            client.call_tool("add", {"a": 1, "b": 2})
        line.close()
        client.asker.events.close(0.0)
        client._finalizer.detach()


# -- tasks (tests/api/test_tasks has the rest) -------------------------------------------------------


@pytest.mark.parametrize("date", [LEGACY[3], MODERN])
def test_a_client_starts_tasks_and_finds_them_again(date):
    with connect(Scripted(date, {"tasks/list": {"tasks": []}}), revision=date) as client:
        task = client.start_tool("render", {"film": "x"}, meta={"com.example/x": 1})
        assert task.result(PATIENCE).text == "done"
        assert client.task(task.id).status == "completed"
        if date != MODERN:
            assert client.list_tasks() == []
        for wrong in (
            lambda: client.start_tool(5),
            lambda: client.start_tool("x", []),
            lambda: client.task(5),
        ):
            with pytest.raises(TypeError):
                wrong()


def test_a_call_that_is_resumed_may_go_on_as_a_task():
    question = {"resultType": "input_required", "requestState": "s"}
    server = Scripted(MODERN, {"tools/call": [question, created(MODERN)]})
    with connect(
        server, revision=MODERN, options=ClientOptions(extensions={"io.modelcontextprotocol/tasks": {}})
    ) as client:
        asked = client.call_tool("render", rounds=0)
        assert client.resume(asked, {}).text == "done"


# -- a tool that failed --------------------------------------------------------------------------


def failing():
    server = Server("well")

    @server.tool
    def draw(litres: int, ctx: Context) -> int:
        if litres > 9:
            raise ToolError("the well is dry")
        if litres == 9 and not ctx.confirm("All of it?"):
            raise ToolError("as you like")
        return litres

    return server


@every
def test_a_tool_that_failed_is_a_result_unless_the_call_is_checked(date):
    with connect(failing(), revision=date) as client:
        assert client.call_tool("draw", {"litres": 10}).is_error
        assert client.call_tool("draw", {"litres": 1}, check=True).text == "1"
        with pytest.raises(ToolError, match=r"^the well is dry$") as caught:
            client.call_tool("draw", {"litres": 10}, check=True)
        assert caught.value.content == [{"type": "text", "text": "the well is dry"}]
        assert client.call_tool("draw", {"litres": 10}, check=False).is_error


@every
def test_a_client_that_checks_checks_every_call(date):
    with connect(failing(), revision=date, check=True) as client:
        assert client.call_tool("draw", {"litres": 1}).text == "1"
        for call in (client.call_tool, lambda *what: client.submit_tool(*what).result(PATIENCE)):
            with pytest.raises(ToolError, match=r"^the well is dry$"):
                call("draw", {"litres": 10})
        assert client.call_tool("draw", {"litres": 10}, check=False).is_error
        assert client.submit_tool("draw", {"litres": 10}, check=False).result(PATIENCE).is_error
        raw = client.request("tools/call", {"name": "draw", "arguments": {"litres": 10}})
        assert raw.is_error  # a request by hand has what came


def test_a_call_that_goes_on_by_hand_is_checked_too():
    with connect(failing(), revision=MODERN, check=True, elicitation=lambda question: False) as client:
        question = client.call_tool("draw", {"litres": 9}, rounds=0)
        assert question.is_input_required
        (key,) = question.input_requests
        with pytest.raises(ToolError, match="as you like"):
            client.resume(question, {key: {"action": "decline"}})


@every
def test_a_call_that_says_what_is_returned_gives_that_or_raises(date):
    with connect(failing(), revision=date) as client:
        assert client.call_tool("draw", {"litres": 1}, returns=int) == 1
        for check in (None, True, False):  # there is no int to return in any case
            with pytest.raises(ToolError, match="the well is dry"):
                client.call_tool("draw", {"litres": 10}, returns=int, check=check)
        with pytest.raises(InvalidResponse, match="what the tool returned is no bool: must be true or false"):
            client.call_tool("draw", {"litres": 1}, returns=bool)


@pytest.mark.parametrize("odd", [1, "yes", None])
def test_check_is_true_or_false(odd):
    with pytest.raises(TypeError, match="check"):
        connect(failing(), check=odd)
    with connect(failing()) as client:
        if odd is not None:
            with pytest.raises(TypeError, match="check"):
                client.call_tool("draw", {"litres": 1}, check=odd)
            with pytest.raises(TypeError, match="check"):
                client.submit_tool("draw", {"litres": 1}, check=odd)


@every
def test_a_client_says_whose_it_is(date):
    server = Server("we'll", version="2.0")
    with connect(server, revision=date) as client:
        assert repr(client) == f"<Client of \"we'll\" '2.0' in {date}>"
    assert repr(client) == f"<Client of \"we'll\" '2.0' in {date}, closed>"
