"""Client: many threads on one connection, callbacks, being asked, and the end."""

import concurrent.futures
import contextlib
import gc
import logging
import threading
import time
import warnings
import weakref

import pytest
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, Notes, eventually, nothing_left, raw_server
from web import opened, talking, text, web

from mcp_ref import Client, ConnectionClosed, Context, McpError, ProtocolError, Server, connect
from mcp_ref.api import client as module


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def demo(**options):
    server = Server("demo", version="1.0", **options)

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

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
            on_stderr=heard[name],
            on_notification=lambda method, params: said[name].append(params["by"]),
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
    with connect(target, revision=date, on_stderr=Notes()) as client:
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
    with connect(raw_server(script), on_stderr=Notes()) as client:
        calls = [client.submit("tools/call", {"name": f"t{n}"}) for n in range(5)]
        assert [call.result(PATIENCE).text for call in calls] == [f"t{n}" for n in range(5)]


# -- what is sent ----------------------------------------------------------------------------------


def sent(date, act, method):
    """The message of this method that a server gets when a client does something."""
    notes = Notes()
    with connect(
        raw_server(f"open_any({date!r})\ngo_on(text('x'))"), revision=date, on_stderr=notes
    ) as client:
        act(client)
        return notes.message(method)


# -- what comes back -------------------------------------------------------------------------------


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
        on_stderr=Notes(),
        on_notification=on_notification,
        on_log=lambda *message: told.append(message),
    ) as client:
        assert last.wait(PATIENCE)
        client.ping()
    assert "vendor/odd" not in told
    assert not any(isinstance(entry, tuple) for entry in told)


# -- being asked -----------------------------------------------------------------------------------


def asked(client, method="vendor/ask", **options):
    return client.call_tool("ask", {"method": method}, **options)


@pytest.mark.parametrize("date", LEGACY)
def test_a_legacy_server_may_ask_the_client(date):
    with connect(demo(), revision=date) as client:

        @client.on_request("vendor/ask")
        def answer(params, ctx):
            return {"n": params["n"] + 1, "method": ctx.method, "revision": str(ctx.revision)}

        @client.on_request("vendor/plain")
        def plain(params):
            return {"n": 5}

        @client.on_request("vendor/nothing")
        def nothing(params):
            return None

        said = asked(client).text
        assert '"n":2' in said
        assert date in said
        assert '"n":5' in asked(client, "vendor/plain").text
        assert asked(client, "vendor/nothing").text == "{}"
        assert asked(client, "ping").text == "{}"
        assert plain({}) == {"n": 5}


@pytest.mark.parametrize("date", LEGACY)
def test_what_a_client_does_not_answer_is_an_error_for_the_server(date):
    with connect(demo(), revision=date) as client:
        result = asked(client, "vendor/unknown")
        assert result.is_error
        assert "-32601" in result.text

        @client.on_request("vendor/odd")
        def odd(params):
            return "text"

        @client.on_request("vendor/fail")
        def fail(params):
            raise ValueError("the password is 1234")

        @client.on_request("vendor/no")
        def no(params):
            raise ProtocolError("I will not", code=1001)

        assert "-32603" in asked(client, "vendor/odd").text
        assert "1234" not in asked(client, "vendor/fail").text
        assert asked(client, "vendor/no").text == "I will not (1001)"


@pytest.mark.spec("basic/patterns/index/server-initiates-nothing")
def test_a_modern_server_asks_nothing():
    with connect(demo(), revision=MODERN) as client:
        client.on_request("vendor/ask")(lambda params: {})
        result = asked(client)
        assert result.is_error
        assert MODERN in result.text


def test_a_request_of_a_modern_server_is_not_served():
    served = threading.Event()
    script = """
        open_modern()
        request = receive("vendor/go")
        send(id=1, method="vendor/ask", params={})
        answer(request, {"resultType": "complete"})
        go_on()
    """
    with connect(raw_server(script), revision=MODERN, on_stderr=Notes()) as client:
        client.on_request("vendor/ask")(lambda params: served.set())
        client.request("vendor/go")
        client.ping()
    assert not served.is_set()


def test_hooks_wrap_what_the_server_asks_the_first_one_outermost():
    seen = []
    with connect(demo(), revision=LEGACY[3]) as client:
        client.on_request("vendor/ask")(lambda params: {"n": params["n"]})
        client.on_request("vendor/other")(lambda params: {"n": params["n"]})

        @client.around
        def outer(ctx, params, proceed):
            seen.append(("outer", ctx.method))
            if ctx.method == "vendor/other":
                raise ProtocolError("not that", code=1002)
            start = time.perf_counter()
            result = proceed({"n": params["n"] * 10})
            return {**result, "timed": time.perf_counter() - start >= 0}

        @client.around
        def inner(ctx, params, proceed):
            seen.append(("inner", params["n"]))
            if params["n"] == 70:
                return {"n": "answered by the hook"}
            return proceed(params)

        assert asked(client).text == '{"n":10,"timed":true}'
        assert seen == [("outer", "vendor/ask"), ("inner", 10)]
        assert asked(client, "vendor/other").text == "not that (1002)"
        seen.clear()
        assert asked(client, "ping").text == "{}"
        assert seen == []


def test_time_in_which_the_client_is_asked_does_not_count_against_its_own_call():
    """A person may take longer to answer than the call that needs the answer may take."""
    with connect(demo(), revision=LEGACY[3]) as client:

        @client.on_request("vendor/ask")
        def slow(params):
            threading.Event().wait(1.2)  # the person
            return {"n": 1}

        assert asked(client, timeout=1.0).text == '{"n":1}'


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
    client = connect(raw_server("open_modern()\ngo_on()"), on_stderr=Notes())
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
    script = f"open_any({date!r})\nwhile os.read(0, 100): pass\nnote('end of input')\ntime.sleep(60)"
    with connect(raw_server(script), revision=date, on_stderr=notes, grace=1.0) as client:
        process = client._line.link.process
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
        self._close = client._line.close
        monkeypatch.setattr(client._line, "close", self)

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
    assert not client._line.link._thread.is_alive()
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
        client._line.link.close()
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
    with connect(raw_server(script), revision=date, on_stderr=Notes()) as client:
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
            on_stderr=Notes(),
            max_message_bytes=50_000,
            on_notification=lambda method, params, told=told: told.append(method),
        ) as client:
            client.ping()
            assert told == []


# -- what the application does for the server ------------------------------------------------------


@pytest.mark.parametrize("date", ["2025-06-18", "2025-11-25", MODERN])
def test_what_the_application_can_do_is_done_when_the_server_asks(date):
    server = demo()

    @server.tool(name="book")
    def book(ctx: Context) -> str:
        answer = ctx.elicit("Sure?")
        return f"{answer.action} {ctx.sample('Say hello', max_tokens=9).text} {len(ctx.list_roots())}"

    options = {
        "elicitation": lambda asked: asked.accept(),
        "sampling": lambda wanted: "hello",
        "roots": ["."],
    }
    with connect(server, revision=date, **options) as client:
        assert client.call_tool("book").text == "accept hello 1"


@pytest.mark.parametrize("date", ["2025-06-18", "2025-11-25", MODERN])
def test_an_answer_of_the_application_that_cannot_be_sent_is_an_error(date, caplog):
    server = demo()

    @server.tool
    def sample(ctx: Context) -> str:
        return str(ctx.sample("Say hello", max_tokens=9).text)

    with connect(server, revision=date, sampling=lambda wanted: "\ud800") as client:
        if date == MODERN:
            with pytest.raises(McpError):
                client.call_tool("sample")
        else:
            assert client.call_tool("sample").is_error
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"


@pytest.mark.parametrize("date", REVISIONS)
def test_a_list_of_tools_is_forgotten_when_it_changed(date):
    """And what was kept of it, where there is a cache."""
    server = demo(ttl_ms=60_000)
    with connect(server, revision=date, cache=True) as client, client.listen(tools=True) as changes:
        assert len(client.list_tools()) == 3
        assert client.known_tools
        server.add_tool(lambda: "x", name="new")
        assert changes.next(PATIENCE)
        assert not client.known_tools
        assert len(client.list_tools()) == 4


def test_a_visit_that_is_over_is_known():
    script = """
        open_legacy("2025-11-25")
        receive("vendor/go")
        send(method="notifications/elicitation/complete", params={"elicitationId": "e1"})
        go_on()
    """
    with connect(raw_server(script), revision="2025-11-25", on_stderr=Notes()) as client:
        client.elicitations.expect("e1")
        client.notify("vendor/go")
        assert eventually(lambda: client.elicitations._known["e1"])


def test_a_request_before_the_session_is_open_is_refused():
    script = """
        while (request := receive())["method"] != "initialize":
            error(request, -32601)
        send(id="early", method="roots/list")
        note(["refused", receive("")["error"]["message"]])
        answer(request, {"protocolVersion": "2025-11-25", "capabilities": ABLE, "serverInfo": INFO})
        go_on()
    """
    notes = Notes()
    with connect(raw_server(script), revision="2025-11-25", on_stderr=notes, roots=["."]) as client:
        assert "not before initialization" in notes.until(lambda note: isinstance(note, list))[1]
        client.ping()


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
        client.known_tools = {"a": {"name": "a"}}
        assert client.call_tool("a").text == "hello"
        assert client.session_id == "2"
        assert eventually(lambda: client.known_tools == {})
        assert eventually(lambda: len(site.of("logging/setLevel")) == 2)
        assert [r.headers["mcp-session-id"] for r in site.of("logging/setLevel")] == ["1", "2"]


def test_only_a_level_that_was_set_is_set_again():
    with talking(lambda request, wire: wire.result(request, {}), "2025-11-25", on_log=print) as (
        site,
        client,
    ):
        client.renewed()
        assert not site.of("logging/setLevel")


# -- clients that nobody closes, and those of a forked child --------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_a_client_that_is_dropped_is_warned_of_by_the_name_of_its_server_and_closed(date):
    client = connect(demo(), revision=date)
    link = client._line.link
    with pytest.warns(ResourceWarning, match="unclosed client of a server of this process, Server"):
        del client
        gc.collect()
    assert eventually(lambda: link._ours.fileno() == -1)


def test_a_client_that_is_there_when_the_program_ends_is_closed_before_that_goes_on():
    """On the same thread: at that time no other one is started any more."""
    client = connect(demo())
    client._finalizer.detach()
    with pytest.warns(ResourceWarning, match="unclosed client of the demo"):
        module._dropped(weakref.ref(client), client._line, client._events, "the demo", module.forks.count)
    with pytest.raises(ConnectionClosed, match="this client was closed"):
        client.call_tool("add", {"a": 1, "b": 2})


def test_a_forked_child_that_drops_the_client_of_its_parent_neither_warns_nor_closes():
    with connect(demo()) as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        before = module.forks.count - 1
        module._dropped(lambda: None, client._line, client._events, "the demo", before)
        assert client.call_tool("add", {"a": 1, "b": 2}).structured == {"result": 3}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_forked_child_that_closes_the_client_of_its_parent_ends_nothing(date):
    """What it asks is refused with what to do instead."""
    with connect(demo(), revision=date) as client:
        line = client._line
        line.connection.forked()
        client.close()
        assert not client.is_closed
        assert line.link._thread.is_alive()
        with pytest.raises(ConnectionClosed, match=r"was forked .* make a connection of its own"):
            client.call_tool("add", {"a": 1, "b": 2})
        line.close()
        client._events.close(0.0)
        client._finalizer.detach()
