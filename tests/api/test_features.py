"""Features: what a client offers, feature by feature (pages: server/tools, server/resources, ...)."""

import pytest
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, Notes, nothing_left, raw_server

from mcp_ref import Context, ErrorResponse, InvalidResponse, Limit, RequestTimeout, Server, connect
from mcp_ref.client.elicitation.url_mode import ElicitUrl, UrlElicitationNeeded, UrlElicitationRequired
from mcp_ref.runtime.errors import LocalError

LEVEL = "io.modelcontextprotocol/logLevel"

every = pytest.mark.parametrize("date", REVISIONS)


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def demo(**options):
    """A server that has some of everything, and says what it was asked."""
    server = Server("demo", version="1.0", **options)

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


def sent(date, act, method):
    """The message of this method that a server gets when a client does something."""
    notes = Notes()
    script = f"ABLE.update(resources={{}}, prompts={{}})\nopen_any({date!r})\ngo_on(text('x'))"
    with connect(raw_server(script), revision=date, on_stderr=notes) as client:
        act(client)
        return notes.message(method)


# -- one line each ---------------------------------------------------------------------------------


@every
def test_each_feature_is_one_call(date):
    with connect(demo(), revision=date) as client:
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
    with connect(demo(), revision=date) as client:
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
        assert sent(date, act, method)["params"]["_meta"]["com.example/trace"] == [1]


@every
def test_what_makes_no_sense_is_refused_and_not_sent(date):
    with connect(demo(), revision=date) as client:
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
        assert not client.connection.waiting
        assert not client.listening


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
    server, asked = Server("kept", ttl_ms=60_000), []

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
    server = demo()
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
    with connect(demo()) as client, pytest.raises(ValueError, match="connected without roots"):
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
    with connect(demo(), revision=date, on_log=lambda *message: logged.append(message[:2])) as client:
        client.set_log_level("error")
        client.call_tool("add", {"a": 1, "b": 2})
        client.set_log_level("debug")
        client.call_tool("add", {"a": 1, "b": 2})
    assert logged == [("info", "at work")]


@pytest.mark.parametrize("date", REVISIONS)
def test_what_the_server_does_not_have_is_not_asked_of_it(date):
    with connect(Server("bare", logging=False), revision=date) as client:
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
    with connect(demo(limit=Limit(rate=0.001, burst=1)), revision=date) as client:
        client.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(ErrorResponse) as refused:
            client.call_tool("add", {"a": 1, "b": 2})
        assert refused.value.code == 429


@pytest.mark.parametrize("date", REVISIONS)
def test_ping_returns_if_the_server_is_there(date):
    with connect(demo(), revision=date) as client:
        assert client.ping() is None
        assert client.ping(timeout=5) is None


def test_ping_tells_when_nobody_answers():
    script = "open_legacy()\nreceive('never')"
    with (
        connect(raw_server(script), on_stderr=Notes(), revision=LEGACY[0]) as client,
        pytest.raises(RequestTimeout),
    ):
        client.ping(timeout=0.05)


@pytest.mark.spec("server/utilities/logging/set-level")
def test_the_log_level_is_sent_in_the_way_of_the_era():
    def act(client):
        client.set_log_level("notice")
        client.call_tool("x")

    assert sent(LEGACY[3], act, "logging/setLevel")["params"] == {"level": "notice"}
    assert "_meta" not in sent(LEGACY[3], act, "tools/call")["params"]
    assert sent(MODERN, act, "tools/call")["params"]["_meta"][LEVEL] == "notice"
    assert LEVEL not in sent(MODERN, lambda client: client.call_tool("x"), "tools/call")["params"]["_meta"]


@pytest.mark.parametrize("date", REVISIONS)
def test_meta_of_the_callers_own_goes_with_what_is_read(date):
    server = Server("meta")

    @server.resource("meta://mine")
    def mine(ctx: Context) -> str:
        return str(ctx.meta.get("com.example/trace"))

    with connect(server, revision=date) as client:
        assert client.read_resource("meta://mine", meta={"com.example/trace": "t1"}).text == "t1"
        assert client.read_resource("meta://mine").text == "None"
