"""Answering: what a client does for its server, and what it hears of it."""

import threading
import time

import demos
import pytest
from choices import for_connect
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, Notes, eventually, raw_server

from mcp_ref import ClientOptions, Context, McpError, ProtocolError, connect


def demo(**options):
    server = demos.demo(**options)

    @server.tool
    def ask(method: str, ctx: Context) -> dict[str, object]:
        return ctx.request(method, {"n": 1})

    return server


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
    with connect(raw_server(script), revision=MODERN, options=ClientOptions(on_stderr=Notes())) as client:
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
    with connect(server, **for_connect(revision=date, **options)) as client:
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
        assert len(client.list_tools()) == 2
        assert client.asker.tools._by_name
        server.add_tool(lambda: "x", name="new")
        assert changes.next(PATIENCE)
        assert not client.asker.tools._by_name
        assert len(client.list_tools()) == 3


def test_a_visit_that_is_over_is_known():
    script = """
        open_legacy("2025-11-25")
        receive("vendor/go")
        send(method="notifications/elicitation/complete", params={"elicitationId": "e1"})
        go_on()
    """
    with connect(
        raw_server(script), revision="2025-11-25", options=ClientOptions(on_stderr=Notes())
    ) as client:
        client.asker.answering.callbacks.elicitations.expect("e1")
        client.notify("vendor/go")
        assert eventually(lambda: client.asker.answering.callbacks.elicitations._known["e1"])


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
    with connect(
        raw_server(script), revision="2025-11-25", roots=["."], options=ClientOptions(on_stderr=notes)
    ) as client:
        assert "not before initialization" in notes.until(lambda note: isinstance(note, list))[1]
        client.ping()


@pytest.mark.parametrize("date", LEGACY)
def test_what_a_server_says_is_heard_by_its_method_and_by_who_hears_all(date):
    """In the order in which it came, on the thread for events."""
    server, heard, logged = demo(), [], []

    @server.tool
    def speak(ctx: Context) -> str:
        ctx.log("warning", "first")
        ctx.notify("vendor/news", {"n": 1})
        return "done"

    with connect(
        server,
        revision=date,
        on_log=lambda level, data, logger: logged.append((level, data)),
        on_notification=lambda method, params: heard.append(method),
    ) as client:

        @client.on_notification("vendor/news")
        def news(params):
            heard.append(params["n"])

        client.call_tool("speak")
        assert eventually(lambda: len(heard) == 3)
    assert logged == [("warning", "first")]
    assert heard == ["notifications/message", 1, "vendor/news"]


def test_nothing_that_a_server_asks_is_answered_by_the_thread_that_reads_but_ping():
    with connect(demo(), revision="2025-11-25") as client:
        answering = client.asker.answering
        contexts = [Context(client.asker.connection, 1, method, {}) for method in ("ping", "roots/list")]
        assert [answering.is_immediate(context) for context in contexts] == [True, False]
