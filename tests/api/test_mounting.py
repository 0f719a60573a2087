"""`server.mount`: what another server has is listed, called, read and asked for through this one."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from http_peers import endpoint
from peers import ENV, LEGACY, MODERN, PATIENCE, ROOT, eventually, nothing_left, python, source
from task_scripts import knowing_tasks

from mcp_ref import (
    Client,
    ClientOptions,
    ConnectionClosed,
    Context,
    ErrorResponse,
    LocalError,
    NotReached,
    ProtocolError,
    Server,
    connect,
)
from mcp_ref.api.mounting import Mount
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.extensions.tasks import EXTENSION

BOTH = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])


class Shop:
    """A server with some of everything, and what happened in it."""

    def __init__(self, **options: Any) -> None:
        self.server = server = Server("shop", **options)
        self.ran: list[str] = []
        self.may_end = threading.Event()

        @server.tool(task="optional")
        def order(what: str, ctx: Context) -> str:
            """Order something."""
            self.ran.append("run")
            ctx.once("paid", lambda: self.ran.append("paid"))
            ctx.progress(1, 2, "asking")
            colour = ctx.elicit(f"Which {what}?", str).data
            sure = ctx.confirm("Really?")
            return f"{colour} {what} {bool(sure)}"

        @server.tool
        def invent(ctx: Context) -> str:
            return ctx.sample("A name", max_tokens=9).text + str(len(ctx.list_roots()))

        @server.tool
        def fail(how: str) -> str:
            if how == "protocol":
                raise ProtocolError("sold out", code=1001, data={"what": "tea"})
            raise ValueError("it broke")

        @server.tool
        def wait(ctx: Context) -> str:
            self.ran.append("waiting")
            try:
                ctx.sleep(60)
            finally:
                self.ran.append("ended")
            return ""

        @server.resource("shop://price", mime_type="text/plain")
        def price(ctx: Context) -> str:
            return f"price {ctx.elicit('Which?', str).data}"

        @server.resource("shop://shelf/{name}", complete={"name": ["left", "right"]})
        def shelf(name: str) -> bytes:
            return name.encode()

        @server.prompt(complete={"what": ["tea", "toast"]})
        def advertise(what: str, ctx: Context) -> str:
            """Praise it."""
            return f"Buy {what}: {ctx.elicit('Why?', str).data}"


@pytest.fixture(params=["server", "client", "url"])
def mounted(request: pytest.FixtureRequest) -> Iterator[tuple[Shop, Server]]:
    """A shop, and a server in which it is mounted, in three ways."""
    shop, outer = Shop(), Server("outer")
    outer.add_tool(lambda: "own", name="own")
    told: dict[str, Any] = {"elicitation": refuse, "sampling": refuse, "roots": list}
    if request.param == "server":
        outer.mount("shop", shop.server)
        yield shop, outer
    elif request.param == "client":
        with connect(shop.server, **told) as client:
            outer.mount("shop", client)
            yield shop, outer
    else:
        with endpoint(shop.server) as site, connect(f"http://127.0.0.1:{site.port}/mcp", **told) as client:
            outer.mount("shop", client)
            yield shop, outer


def refuse(question: Any) -> Any:
    raise AssertionError("the wrong one is asked")


def answer(question: Any) -> Any:
    if question.message == "Really?":
        return True
    return {"value": f"red[{question.message}]"}


@BOTH
def test_what_the_other_server_has_is_listed(mounted: tuple[Shop, Server], revision: str) -> None:
    with connect(mounted[1], revision=revision) as client:
        tools = {tool["name"]: tool for tool in client.list_tools()}
        assert list(tools) == ["own", "shop.order", "shop.invent", "shop.fail", "shop.wait"]
        assert tools["shop.order"]["description"] == "Order something."
        assert "execution" not in tools["shop.order"]
        assert [r["uri"] for r in client.list_resources()] == ["shop://price"]
        assert [t["uriTemplate"] for t in client.list_resource_templates()] == ["shop://shelf/{name}"]
        assert [p["name"] for p in client.list_prompts()] == ["shop.advertise"]
        assert client.read_resource("shop://shelf/top").blobs == [b"top"]
        found = client.complete(prompt="shop.advertise", argument="what", value="te")
        assert found["completion"]["values"] == ["tea"]
        found = client.complete(resource="shop://shelf/{name}", argument="name", value="r")
        assert found["completion"]["values"] == ["right"]


@BOTH
def test_questions_and_progress_are_relayed(mounted: tuple[Shop, Server], revision: str) -> None:
    shop, outer = mounted
    heard: list[Any] = []
    told: dict[str, Any] = {"elicitation": answer, "sampling": lambda asked: "Bo", "roots": ["/srv", "/tmp"]}
    with connect(outer, revision=revision, **told) as client:
        called = client.call_tool("shop.order", {"what": "tea"}, on_progress=lambda *a: heard.append(a))
        assert (called.text, called.is_error) == ("red[Which tea?] tea True", False)
        assert shop.ran == ["run", "paid", "run", "run"]
        assert heard[0] == (1, 2, "asking")
        assert client.call_tool("shop.invent").text == "Bo2"
        assert client.read_resource("shop://price").text == "price red[Which?]"
        prompt = client.get_prompt("shop.advertise", {"what": "tea"})
        assert (prompt.text, prompt["description"]) == ("Buy tea: red[Why?]", "Praise it.")


@BOTH
def test_errors_are_those_of_the_other_server(mounted: tuple[Shop, Server], revision: str) -> None:
    with connect(mounted[1], revision=revision) as client:
        with pytest.raises(ErrorResponse, match="sold out") as refused:
            client.call_tool("shop.fail", {"how": "protocol"})
        assert (refused.value.code, refused.value.data) == (1001, {"what": "tea"})
        failed = client.call_tool("shop.fail", {"how": "tool"})
        assert (failed.is_error, failed.text) == (True, "it broke")
        with pytest.raises(ErrorResponse, match="Unknown tool"):
            client.call_tool("order", {"what": "tea"})
        if revision == MODERN:  # this client cannot be asked
            with pytest.raises(ErrorResponse, match="elicitation"):
                client.call_tool("shop.order", {"what": "tea"})
        else:
            assert client.call_tool("shop.order", {"what": "tea"}).is_error


def test_a_cancelled_call_is_cancelled_there(mounted: tuple[Shop, Server]) -> None:
    shop, outer = mounted
    with connect(outer) as client:
        call = client.submit_tool("shop.wait")
        assert eventually(lambda: shop.ran == ["waiting"])
        assert call.cancel()
        # Over HTTP long before the first comment, for which 15 s of silence are needed.
        assert eventually(lambda: shop.ran == ["waiting", "ended"], PATIENCE / 2)


@BOTH
def test_changes_there_are_changes_here(mounted: tuple[Shop, Server], revision: str) -> None:
    shop, outer = mounted
    with connect(outer, revision=revision) as client, client.listen(tools=True) as changes:
        shop.server.add_tool(lambda: "new", name="new")
        shop.server.remove_tool("wait")
        assert changes.next(timeout=PATIENCE) is not None
        names = lambda: [tool["name"] for tool in client.list_tools()]  # noqa: E731
        assert eventually(lambda: names() == ["own", "shop.order", "shop.invent", "shop.fail", "shop.new"])
        assert client.call_tool("shop.new").text == "new"


def test_a_server_is_connected_to_while_the_other_one_serves() -> None:
    entered: list[str] = []
    shop, outer = Shop(), Server("outer")

    class Open:
        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *exception: object) -> None:
            entered.append("out")

    inner = Server("inner", lifespan=lambda server: Open())
    with nothing_left():
        mount = outer.mount("inner", inner)
        assert entered == ["in", "out"]
        with pytest.raises(LocalError, match=r"inner\.\* is not connected, since this server does not serve"):
            mount.refresh()
        with connect(outer):
            assert entered == ["in", "out", "in"]
            mount.refresh()
            outer.mount("late", shop.server)
        assert entered[3:] == ["out"]
    assert repr(mount) == "<Mount inner.*, 0 items>"


def test_without_a_prefix_names_are_as_they_are_and_another_separator_may_stand_between() -> None:
    outer = Server("outer")
    outer.mount("", Shop().server)
    with connect(outer) as client:
        assert client.list_tools()[0]["name"] == "order"
    other = Server("other")
    other.mount("shop", Shop().server, separator="__")
    with connect(other) as client:
        assert client.list_tools()[0]["name"] == "shop__order"


def test_a_name_that_is_taken_is_refused_and_later_left_out(caplog: pytest.LogCaptureFixture) -> None:
    outer, inner = Server("outer"), Server("inner")
    outer.add_tool(lambda: "own", name="a.b")
    inner.add_tool(lambda: "inner", name="b")
    with pytest.raises(ValueError, match=r"'a\.b' is among the tools already"):
        outer.mount("a", inner)
    assert outer.handlers.mounts == ()
    outer.remove_tool("a.b")
    mount = outer.mount("a", inner)
    outer.add_tool(lambda: "own", name="a.c")
    with connect(outer) as client:
        inner.add_tool(lambda: "inner", name="c")
        mount.refresh()
        assert client.call_tool("a.c").text == "own"
        assert client.call_tool("a.b").text == "inner"
    assert "a.c of a. is left out: that name is taken" in caplog.text


@pytest.mark.parametrize(
    ("given", "kind", "why"),
    [
        ((5, None), TypeError, "prefix is a string"),
        (
            ("x", "server.py"),
            TypeError,
            r"a Server or a Client, not 'server\.py'; connect\(\.\.\.\) makes one",
        ),
        (("x", "itself"), ValueError, "cannot be mounted in itself"),
        (
            ("x y", Server("inner")),
            ValueError,
            r"begin the names of tools: 'x y\.' is no tool name: 1 to 128",
        ),
        (("ü", Server("inner")), ValueError, r"'ü\.' is no tool name"),
    ],
    ids=["no string", "no server", "itself", "a space", "an umlaut"],
)
def test_what_cannot_be_mounted_is_refused(given: Any, kind: type[Exception], why: str) -> None:
    server = Server("outer")
    prefix, inner = given
    with pytest.raises(kind, match=why):
        server.mount(prefix, server if inner == "itself" else inner)


def test_a_separator_is_one_that_names_of_tools_may_have() -> None:
    outer = Server("outer")
    with pytest.raises(ValueError, match="'x/' is no tool name"):
        outer.mount("x", Server("inner"), separator="/")
    outer.mount("x", Server("inner"), separator="")
    outer.mount("", Server("inner"), separator="/")  # there is nothing for it to separate


class Curious:
    """A server that asks all there is to ask, in tools, a resource and a prompt."""

    def __init__(self) -> None:
        self.server = server = Server("curious")
        self.declared: list[Any] = []

        @server.tool
        def elicit(ctx: Context) -> str:
            self.declared.append(ctx.client_capabilities)
            return str(ctx.elicit("How many?", int).data)

        @server.tool
        def sample(ctx: Context) -> str:
            return ctx.sample("A name", max_tokens=9).text

        @server.tool
        def roots(ctx: Context) -> str:
            return str(len(ctx.list_roots()))

        @server.resource("c://number")
        def number(ctx: Context) -> str:
            return str(ctx.elicit("How many?", int).data)

        @server.prompt
        def count(ctx: Context) -> str:
            return str(ctx.elicit("How many?", int).data)


@BOTH
@pytest.mark.parametrize("callbacks", [{}, {"elicitation": refuse, "sampling": refuse}], ids=["none", "some"])
def test_a_mounted_client_of_2026_relays_questions_whatever_callbacks_it_has(
    revision: str, callbacks: Any
) -> None:
    inner, outer = Curious(), Server("outer")
    told: dict[str, Any] = {
        "elicitation": lambda q: {"value": 4},
        "sampling": lambda q: "Bo",
        "roots": [ROOT],
    }
    with connect(inner.server, revision=MODERN, **callbacks) as far:
        outer.mount("far", far)
        with connect(outer, revision=revision, **told) as client:
            asked = [client.call_tool(f"far.{name}").text for name in ("elicit", "sample", "roots")]
            assert asked == ["4", "Bo", "1"]
            assert client.read_resource("c://number").text == "4"
            assert client.get_prompt("far.count").text == "4"


@BOTH
def test_a_relayed_request_declares_what_the_client_of_the_outer_server_can_be_asked(revision: str) -> None:
    inner, outer = Curious(), Server("outer")
    extensions = {"com.example/theirs": {}}
    options = ClientOptions(extensions={"com.example/ours": {}, EXTENSION: {}})
    with connect(inner.server, revision=MODERN, options=options, sampling=refuse) as far:
        outer.mount("far", far)
        asked = {"elicitation": lambda q: {"value": 4}, "roots": [ROOT]}
        with connect(
            outer, revision=revision, **asked, options=ClientOptions(extensions=extensions)
        ) as client:
            client.call_tool("far.elicit")
        declared = {"elicitation": {"form": {}, "url": {}}, "roots": {}}
        assert inner.declared[0] == {**declared, "extensions": {"com.example/ours": {}}}


@BOTH
def test_what_a_task_of_a_mounted_client_asks_that_client_answers(revision: str) -> None:
    inner, outer = Server("inner"), Server("outer")

    @inner.tool(task="required")
    def elicit(ctx: Context) -> str:
        return str(ctx.elicit("How many?", int).data)

    with connect(inner, revision=MODERN, elicitation=lambda question: {"value": 5}) as far:
        outer.mount("far", far)
        with connect(outer, revision=revision, elicitation=refuse) as client:
            assert client.call_tool("far.elicit").text == "5"


@BOTH
def test_what_the_client_of_the_outer_server_cannot_be_asked_is_its_own_to_declare(revision: str) -> None:
    outer = Server("outer")
    with connect(Curious().server, revision=MODERN, elicitation=refuse) as far:
        outer.mount("far", far)
        with connect(outer, revision=revision) as client:
            if revision == MODERN:
                with pytest.raises(ErrorResponse, match=r"elicitation=\.\.\.\) declares it") as missing:
                    client.call_tool("far.elicit")
                assert missing.value.code == -32021
            else:
                failed = client.call_tool("far.elicit")
                assert failed.is_error
                assert failed.text == "tools/call: this request needs the client capability elicitation.form"


@BOTH
def test_what_a_legacy_server_cannot_ask_fails_with_the_argument_of_the_mounted_client(revision: str) -> None:
    outer = Server("outer")
    with connect(Curious().server, revision=LEGACY[-1], sampling=lambda question: "Bo") as far:
        outer.mount("far", far)
        with connect(outer, revision=revision, elicitation=answer, roots=[ROOT]) as client:
            why = r"far\.\* speaks 2025-11-25, where questions cannot be relayed: the mounted client answers"
            failed = client.call_tool("far.elicit")
            assert failed.is_error
            assert re.search(why + r" .* connect\(\.\.\., elicitation=\.\.\.\)", failed.text)
            assert re.search(
                why + r" .* connect\(\.\.\., roots=\[\.\.\.\]\)", client.call_tool("far.roots").text
            )
            assert client.call_tool("far.sample").text == "Bo"
            with pytest.raises(ErrorResponse, match=why):
                client.read_resource("c://number")
            with pytest.raises(ErrorResponse, match=why):
                client.get_prompt("far.count")


def test_other_failures_of_a_legacy_server_are_told_as_they_are() -> None:
    inner, outer = Server("inner"), Server("outer")

    @inner.tool
    def fail(why: str) -> str:
        raise ValueError(why)

    with connect(inner, revision=LEGACY[-1], elicitation=answer) as far:
        outer.mount("far", far)
        with connect(outer) as client:
            for why in ("no roots here", "elicitation is not supported", "unsupported"):
                assert client.call_tool("far.fail", {"why": why}).text == why
            for why in ("Sampling not supported", "Client does not support listing roots"):  # the SDKs' words
                assert "cannot be relayed" in client.call_tool("far.fail", {"why": why}).text


def test_a_server_of_the_legacy_era_asks_the_client_that_is_connected_to_it() -> None:
    """A client with callbacks answers; a Server of that era is told that there is nobody to ask."""
    shop = Shop(revisions=LEGACY)
    with connect(shop.server, elicitation=answer) as inner:
        outer = Server("outer")
        outer.mount("shop", inner)
        with connect(outer) as client:
            assert client.call_tool("shop.order", {"what": "tea"}).text == "red[Which tea?] tea True"
    outer = Server("outer")
    outer.mount("shop", shop.server)
    with connect(outer, elicitation=refuse) as client:
        assert client.call_tool("shop.order", {"what": "tea"}).is_error


@pytest.mark.parametrize("there", [None, ["2025-11-25"], ["2025-06-18"]])
@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_a_tool_that_is_a_task_alone_there_is_waited_for_here(revision: str, there: list[str] | None) -> None:
    shop = Shop(tasks=TaskOptions(poll_interval=0.01), **({"revisions": there} if there else {}))
    shop.server.add_tool(lambda: "baked", name="bake", task="required")
    outer = Server("outer")
    outer.mount("shop", shop.server)
    with connect(outer, revision=revision) as client:
        assert client.call_tool("shop.bake").text == "baked"
        assert client.call_tool("shop.bake").text == "baked"


@BOTH
def test_an_optional_task_is_an_ordinary_call_there_and_what_it_asks_is_relayed(revision: str) -> None:
    shop, outer = Shop(tasks=TaskOptions(grace=0)), Server("outer")
    outer.mount("shop", shop.server)
    # Also for a client that says with each request that it knows tasks.
    with connect(outer, revision=revision, elicitation=answer, options=knowing_tasks()) as client:
        assert client.call_tool("shop.order", {"what": "tea"}).text == "red[Which tea?] tea True"


@BOTH
@pytest.mark.parametrize("question", ["elicit", "roots"])
def test_a_call_that_asks_as_a_task_there_fails_and_says_why(revision: str, question: str) -> None:
    shop, outer = Shop(tasks=TaskOptions(poll_interval=0.01)), Server("outer")

    @shop.server.tool(task="required")
    def bake(ctx: Context) -> str:
        try:
            return str(ctx.elicit("Which?", str) if question == "elicit" else ctx.list_roots())
        finally:
            shop.ran.append("ended")

    outer.mount("shop", shop.server)
    with connect(outer, revision=revision, elicitation=refuse, roots=["/srv"]) as client:
        called = client.call_tool("shop.bake")
        assert called.is_error
        assert "what a task of a mounted server asks is not relayed" in called.text
        assert eventually(lambda: shop.ran == ["ended"])


def test_a_cancelled_call_cancels_its_task_there() -> None:
    shop, outer = Shop(tasks=TaskOptions(poll_interval=0.01)), Server("outer")

    @shop.server.tool(task="required")
    def bake(ctx: Context) -> str:
        shop.ran.append("baking")
        try:
            ctx.sleep(60)
        finally:
            shop.ran.append("ended")
        return ""

    outer.mount("shop", shop.server)
    with connect(outer) as client:
        call = client.submit_tool("shop.bake")
        assert eventually(lambda: shop.ran == ["baking"])
        assert call.cancel()
        assert eventually(lambda: shop.ran == ["baking", "ended"])


def test_a_server_that_is_gone_fails_the_call_with_the_reason() -> None:
    crash = source("""
        import os

        @server.tool
        def crash() -> str:
            os._exit(3)
        """)
    options = ClientOptions(env=ENV)
    with connect(python(crash), revision=LEGACY[-1], options=options) as inner:
        outer = Server("outer")
        outer.mount("x", inner)
        with connect(outer) as client:
            failed = client.call_tool("x.crash")
            assert failed.is_error
            assert "exited with code 3" in failed.text


def with_one_that_is_gone(client: Client) -> tuple[Server, Mount]:
    """A server with a tool of its own, in which this client was mounted, and is no use now."""
    outer = Server("outer")
    outer.add_tool(lambda: "own", name="own")
    return outer, outer.mount("far", client)


def check_that_the_rest_is_served(outer: Server, revision: str, why: str) -> None:
    with connect(outer, revision=revision) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["own", "far.add"]
        assert client.call_tool("own").text == "own"
        failed = client.call_tool("far.add", {"a": 1})
        assert failed.is_error
        assert re.search(why, failed.text)


ADD = """
    import os

    @server.tool
    def add(a: int) -> int:
        if a == 0:
            os._exit(3)
        return a + 1
    """


@BOTH
def test_a_client_that_was_closed_stops_nothing_else(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    inner = Server("inner")
    inner.add_tool(lambda a: a, name="add")
    with connect(inner) as far:
        outer, _ = with_one_that_is_gone(far)
    with nothing_left():
        check_that_the_rest_is_served(outer, revision, "this client was closed")
    told = [record.getMessage() for record in caplog.records if record.name == "mcp_ref.mount"]
    assert told == ["far.* is mounted, and is not there: this client was closed"]


@BOTH
def test_a_legacy_child_that_crashed_stops_nothing_else(revision: str) -> None:
    options = ClientOptions(env=ENV)
    with connect(python(source(ADD)), revision=LEGACY[-1], options=options) as far:
        outer, _ = with_one_that_is_gone(far)
        with pytest.raises(ConnectionClosed):
            far.call_tool("add", {"a": 0})
        check_that_the_rest_is_served(outer, revision, "exited with code 3")


def test_a_url_where_nobody_is_stops_nothing_else_and_is_there_again_later() -> None:
    inner = Server("inner")
    inner.add_tool(lambda a: a, name="add")
    with endpoint(inner) as site:
        far = connect(f"http://127.0.0.1:{site.port}/mcp", timeout=PATIENCE)
        outer, mount = with_one_that_is_gone(far)
    with nothing_left(), contextlib.ExitStack() as later, far, connect(outer) as client:
        changes = later.enter_context(client.listen(tools=True))
        assert client.call_tool("own").text == "own"
        assert "Connection refused" in client.call_tool("far.add", {"a": 1}).text
        with pytest.raises(NotReached, match="Connection refused"):
            mount.refresh()
        inner.add_tool(lambda: "new", name="new")
        later.enter_context(endpoint(inner, http={"port": site.port}))
        mount.refresh()
        assert client.call_tool("far.new").text == "new"
        assert changes.next(PATIENCE) is not None
        inner.remove_tool("new")  # which is heard of again
        assert eventually(lambda: "far.new" not in [tool["name"] for tool in client.list_tools()])


def test_the_thread_that_hears_of_changes_ends_when_the_other_server_has_no_more_to_tell() -> None:
    def ears() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "mcp_ref mount"]

    inner, outer = Server("inner"), Server("outer")
    inner.add_tool(lambda: "1", name="one")
    with endpoint(inner) as site, connect(f"http://127.0.0.1:{site.port}/mcp") as far:
        outer.mount("far", far)
        with connect(outer) as client:
            inner.add_tool(lambda: "2", name="two")
            assert eventually(lambda: len(client.list_tools()) == 2)
            assert ears()
            site.app.close(0)
            assert eventually(lambda: not ears())


@BOTH
def test_a_server_that_cannot_be_connected_to_stops_nothing_else(revision: str) -> None:
    is_down = threading.Event()

    @contextlib.contextmanager
    def lifespan(server: Server) -> Iterator[None]:
        if is_down.is_set():
            raise RuntimeError("no database")
        yield

    inner, outer = Server("inner", lifespan=lifespan), Server("outer")
    inner.add_tool(lambda a: a, name="add")
    outer.add_tool(lambda: "own", name="own")
    mount = outer.mount("far", inner)
    is_down.set()
    with nothing_left(), connect(outer, revision=revision) as client:
        check_that_the_rest_is_served(outer, revision, r"far\.\* is not connected, since .* no database")
        with pytest.raises(ConnectionClosed, match="no database"):
            mount.refresh()
        is_down.clear()
        mount.refresh()
        assert client.call_tool("far.add", {"a": "1"}).text == "1"
    with pytest.raises(LocalError, match="since this server does not serve"):
        mount.refresh()


def test_a_question_that_is_none_is_an_error_of_the_call() -> None:
    inner, outer = Server("inner"), Server("outer")

    @inner.on_request("tools/call")
    def call(params: Any) -> Any:
        return {"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}}

    inner.add_tool(lambda: "", name="ask")
    mount = outer.mount("x", inner)
    assert isinstance(mount, Mount)
    with connect(outer, elicitation=answer) as client, pytest.raises(ErrorResponse):
        client.call_tool("x.ask")


def test_a_template_that_is_none_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    inner, outer = Server("inner"), Server("outer")

    @inner.on_request("resources/templates/list")
    def templates(params: Any) -> Any:
        return {"resourceTemplates": [{"uriTemplate": "x://{a", "name": "a"}]}

    inner.add_resource(lambda: "", "x://b", name="b")
    outer.mount("x", inner)
    assert "a template of x. is left out" in caplog.text


@pytest.mark.parametrize("between", [0, 1, 2])
def test_servers_cannot_be_mounted_in_each_other_nor_in_a_ring(between: int) -> None:
    first = Server("first")
    first.add_tool(lambda: "1", name="one")
    last = first
    for number in range(between + 1):
        outer = Server(f"around {number}")
        outer.mount("in", last)
        last = outer
    with pytest.raises(ValueError, match=r"ring: 'first' is mounted in 'around \d' already"):
        first.mount("ring", last)
    assert first.handlers.mounts == ()
    with connect(last) as client:  # and the other way round all is as it was
        assert client.call_tool("in." * (between + 1) + "one").text == "1"


def test_a_server_may_be_mounted_twice_and_by_two_ways() -> None:
    inner, side, outer = Server("inner"), Server("side"), Server("outer")
    inner.add_tool(lambda: "1", name="one")
    side.mount("in", inner)
    for prefix, server in (("a", inner), ("b", inner), ("side", side)):
        outer.mount(prefix, server)
    with connect(outer) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["a.one", "b.one", "side.in.one"]
