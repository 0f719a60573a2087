"""Registry: what an author says to a server (page: server/index)."""

import contextlib
import threading

import pytest
from http_peers import endpoint
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, RawClient

from mcp_ref import Caching, Context, ErrorResponse, Server, ServerOptions, connect
from mcp_ref.api.registering import Registry
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.basic.versioning import Method, revision
from mcp_ref.schema import pruner
from mcp_ref.server.prompts import Prompt
from mcp_ref.server.resources import Resource

every = pytest.mark.parametrize("date", REVISIONS)


def registry(**options):
    """One by itself, and the kinds of the changes that it announces."""
    changed = []
    return Registry(1000, changed.append, (), ServerOptions(**options), TaskOptions()), changed


# -- tools, resources, prompts ---------------------------------------------------------------------


def test_what_is_registered_stays_the_function_it_was():
    server, changed = registry()

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool(name="deux", title="Two")
    def two(a: int) -> int:
        return a + 2

    @server.resource("config://app")
    def config() -> str:
        return "config"

    @server.resource("item:///{id}", name="items", mime_type="text/plain")
    def item(id: str) -> str:
        return id

    @server.prompt
    def review(code: str) -> str:
        return f"Review {code}"

    @server.prompt(name="bonjour", description="In French.")
    def hello() -> str:
        return "Bonjour"

    assert (add(1, 2), two(1), config(), item("7"), review("x"), hello()) == (
        3,
        3,
        "config",
        "7",
        "Review x",
        "Bonjour",
    )
    assert server.tools.keys() == ["add", "deux"]
    assert server.tools.get("deux").definition["title"] == "Two"
    assert server.resources.keys() == ["config://app"]
    assert server.templates.keys() == ["item:///{id}"]
    assert server.templates.get("item:///{id}").definition["mimeType"] == "text/plain"
    assert server.prompts.keys() == ["review", "bonjour"]
    assert server.prompts.get("bonjour").definition["description"] == "In French."
    assert changed == ["tools"] * 2 + ["resources"] * 2 + ["prompts"] * 2


def test_what_is_taken_can_be_replaced_and_what_is_there_removed():
    server, changed = registry()
    acts = {
        "tools": (lambda **o: server.add_tool(lambda: "x", name="it", **o), lambda: server.remove_tool("it")),
        "prompts": (
            lambda **o: server.add_prompt(lambda: "x", name="it", **o),
            lambda: server.remove_prompt("it"),
        ),
        "resources": (
            lambda **o: server.add_resource(lambda: "x", "a://b", name="it", **o),
            lambda: server.remove_resource("a://b"),
        ),
        "templates": (
            lambda **o: server.add_resource(lambda id: "x", "a:///{id}", name="it", **o),
            lambda: server.remove_resource("a:///{id}"),
        ),
    }
    for kind, (add, remove) in acts.items():
        with pytest.raises(KeyError):
            remove()
        changed.clear()
        add()
        with pytest.raises(ValueError, match="replace=True"):
            add()
        add(replace=True)
        remove()
        with pytest.raises(KeyError):
            remove()
        assert changed == ["resources" if kind == "templates" else kind] * 3


@every
def test_what_was_registered_can_be_used_in_every_revision(date, tmp_path):
    (tmp_path / "a.txt").write_text("from a file")
    server = Server("all")
    server.add_tool(lambda: "a tool", name="it")
    server.add_resource(lambda: "a resource", "config://app", name="app")
    server.add_resource(lambda id: f"item {id}", "item:///{id}", name="items")
    server.add_prompt(lambda: "a prompt", name="it")
    server.add_directory(tmp_path, uri="files:///")
    with connect(server, revision=date) as client:
        assert client.call_tool("it").text == "a tool"
        assert client.read_resource("config://app").text == "a resource"
        assert client.read_resource("item:///7").text == "item 7"
        assert client.read_resource("files:///a.txt").text == "from a file"
        assert client.get_prompt("it").text == "a prompt"
        assert [r["uri"] for r in client.list_resources()] == ["config://app", "files:///a.txt"]
        assert [t["uriTemplate"] for t in client.list_resource_templates()] == ["item:///{id}"]
        assert [p["name"] for p in client.list_prompts()] == ["it"]


@every
def test_definitions_have_what_their_revision_has(date):
    """A member that all of its own are too young for is left out as well."""
    server, _ = registry()
    server.add_resource(
        lambda: "x",
        "a://b",
        name="b",
        title="B",
        annotations={"lastModified": "2026-01-01T00:00:00Z"},
        icons=[{"src": "https://example.org/i.png"}],
    )
    server.add_prompt(lambda: "x", name="it", title="It", icons=[{"src": "https://example.org/i.png"}])
    (resource,) = server.resources.page(revision(date), None)["resources"]
    full = server.resources.get("a://b").definition
    without = set() if date >= "2025-06-18" else {"annotations"}
    assert resource.keys() == pruner(Resource, date)(full).keys() - without
    assert ("annotations" in resource) == (date >= "2025-06-18")
    (prompt,) = server.prompts.page(revision(date), None)["prompts"]
    assert prompt == pruner(Prompt, date)(server.prompts.get("it").definition)


@pytest.mark.parametrize(
    ("act", "complaint"),
    [
        (lambda server: server.tool("name"), "tool is a function, not 'name'"),
        (lambda server: server.tool(5), "tool is a function, not 5"),
        (lambda server: server.prompt("name"), "prompt is a function, not 'name'"),
        (lambda server: server.resource(lambda: "x"), "uri is a string, not <function"),
        (lambda server: server.remove_resource(None), "uri is a string, not None"),
        (lambda server: server.on_request(lambda params: {}), "method is a string, not <function"),
        (lambda server: server.on_notification(lambda params: {}), "method is a string, not <function"),
        (lambda server: server.on_notification("vendor/x")("y"), "function is a function, not 'y'"),
        (lambda server: server.on_request("vendor/x")("y"), "not a callable"),
        (lambda server: server.around("y"), "hook is a function, not 'y'"),
        (lambda server: server.add_resource(lambda: "x", "a://b", nme="typo"), "nme"),
    ],
)
def test_a_decorator_that_is_used_in_the_wrong_way_says_so_at_once(act, complaint):
    """And not that what it was to register is missing, later."""
    server, changed = registry()
    with pytest.raises(TypeError, match=complaint):
        act(server)
    assert changed == []
    assert server.handlers.hooks == ()
    assert server.handlers.by_notification == {}


@pytest.mark.parametrize("dates", [{"since": "2024-01-01"}, {"until": "tomorrow"}])
def test_a_method_of_a_revision_that_there_is_not_is_refused(dates):
    with pytest.raises(ValueError, match="is not a revision of MCP"):
        registry()[0].on_request("vendor/x", **dates)


def test_many_threads_register_at_once_and_all_of_it_is_there():
    server, changed = registry()
    start = threading.Barrier(8, timeout=PATIENCE)

    def register(who):
        start.wait()
        for n in range(25):
            server.add_tool(lambda: "x", name=f"{who}-{n}")
            server.add_resource(lambda: "x", f"a://{who}/{n}", name="x")
            server.add_prompt(lambda: "x", name=f"{who}-{n}")

    threads = [threading.Thread(target=register, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for items in (server.tools, server.resources, server.prompts):
        assert len(items.keys()) == 200
    assert len(changed) == 600


# -- what there is ---------------------------------------------------------------------------------


def test_what_a_server_offers_is_what_it_ever_had():
    server, _ = registry()
    kinds = ("tools", "resources", "prompts", "completions", "logging")
    assert [server.offers(kind) for kind in kinds] == [False, False, False, False, True]
    server.add_tool(lambda: "x", name="it")
    server.remove_tool("it")
    assert server.offers("tools")
    server.add_resource(lambda id: "x", "a:///{id}", name="it")
    assert server.offers("resources")
    server.add_prompt(lambda: "x", name="it")
    assert server.offers("prompts")
    assert not server.offers("completions")
    server.add_prompt(lambda word: "x", name="other", complete={"word": ["one", "two"]})
    assert server.offers("completions")
    assert not registry(logging=False)[0].offers("logging")


def test_a_directory_is_a_resource_to_come(tmp_path):
    server, _ = registry()
    directory = server.add_directory(tmp_path)
    assert server.directories == (directory,)
    assert server.offers("resources")


@every
def test_what_will_come_later_can_be_declared_before(date):
    server = Server("later", options=ServerOptions(offers=["prompts", "resources"], logging=False))
    with connect(server, revision=date) as client:
        assert client.server_capabilities == {
            "prompts": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
        }
        assert client.list_prompts() == []
        with client.listen(prompts=True) as changes:
            server.add_prompt(lambda: "x", name="new")
            assert changes.next(PATIENCE).kind == "prompts"


@pytest.mark.parametrize("given", ["telepathy", ["tools", "telepathy"], ["logging"]])
def test_what_no_server_can_offer_cannot_be_declared(given):
    with pytest.raises(ValueError, match="offers are some of tools, resources, prompts, completions"):
        Server("later", options=ServerOptions(offers=given))
    assert registry(offers="tools")[0].offers("tools")


def test_a_resource_is_there_if_something_could_be_read():
    server, _ = registry()
    server.add_resource(lambda: "x", "config://app", name="app")
    server.add_resource(lambda id: "x", "item:///{id}", name="items")
    for uri, there in {
        "config://app": True,
        "item:///7": True,
        "config://App": False,
        "config://other": False,
        "no uri": False,
        "": False,
        "item:///%zz": False,
        "item:///" + "x" * (2 << 20): False,
    }.items():
        assert server.has_resource(uri) == there


# -- methods of one's own --------------------------------------------------------------------------


def test_a_method_is_in_the_table_of_each_revision_that_has_it():
    rows = (Method("vendor/old", lambda s, p, c: {}, until="2025-03-26"),)
    server = Registry(10, lambda kind: None, rows, ServerOptions(), TaskOptions())
    server.on_request("vendor/new", since="2025-11-25")(lambda params: {"n": 1})
    assert [list(server.handlers.tables[date]) for date in REVISIONS] == [
        ["vendor/old"],
        ["vendor/old"],
        [],
        ["vendor/new"],
        ["vendor/new"],
    ]
    assert server.handlers.tables[MODERN]["vendor/new"].handler(server, {}, None) == {"n": 1}


@every
def test_a_method_may_be_replaced_also_one_that_there_is(date):
    server = Server("own")
    server.add_tool(lambda: "x", name="it")
    server.on_request("vendor/x")(lambda params: {"n": 1})
    server.on_request("vendor/x")(lambda params: {"n": 2})

    @server.on_request("tools/call")
    def call(params, ctx: Context):
        return {"content": [{"type": "text", "text": f"not {params['name']}"}]}

    with connect(server, revision=date) as client:
        assert client.request("vendor/x")["n"] == 2
        assert client.call_tool("it").text == "not it"
    with connect(Server("other"), revision=date) as client, pytest.raises(ErrorResponse):
        client.request("vendor/x")


RESULTS = {
    "tools/call": lambda said: {"content": [{"type": "text", "text": said}]},
    "prompts/get": lambda said: {
        "messages": [{"role": "user", "content": {"type": "text", "text": said}}],
    },
    "resources/read": lambda said: {"contents": [{"uri": "x://y", "text": said}]},
}
"""What a handler of one's own returns that says something."""

PARAMS = {"tools/call": {"name": "x"}, "prompts/get": {"name": "x"}, "resources/read": {"uri": "x://y"}}
QUESTION = {
    "method": "elicitation/create",
    "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
}


def by_asking(method, ctx):
    """A handler that asks with its context."""
    return RESULTS[method]("yes" if ctx.elicit("Sure?") else "no")


def by_returning(method, ctx):
    """A handler that returns its question, and finds the answer when it runs again."""
    answer = ctx.input_responses.get("sure")
    if answer is None:
        return {"resultType": "input_required", "inputRequests": {"sure": QUESTION}}
    return RESULTS[method]("yes" if answer["action"] == "accept" else "no")


@pytest.mark.spec("basic/patterns/mrtr/supported-requests")
@pytest.mark.parametrize(
    ("how", "date"), [*((by_asking, date) for date in [*LEGACY[2:], MODERN]), (by_returning, MODERN)]
)
@pytest.mark.parametrize("method", RESULTS)
@pytest.mark.parametrize("transport", ["memory", "http"])
def test_a_handler_of_ones_own_may_ask_where_the_method_may(date, method, how, transport):
    server, questions = Server("own"), []

    @server.on_request(method)
    def handle(params, ctx: Context):
        return how(method, ctx)

    def callback(question):
        questions.append(question.message)
        return len(questions) == 1

    with contextlib.ExitStack() as stack:
        target = server if transport == "memory" else stack.enter_context(endpoint(server))
        url = target if target is server else f"http://127.0.0.1:{target.port}/mcp"
        client = stack.enter_context(connect(url, revision=date, elicitation=callback))
        assert [client.request(method, PARAMS[method]).text for _ in range(2)] == ["yes", "no"]
    assert questions == ["Sure?", "Sure?"]


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_a_handler_of_ones_own_may_ask_over_http_whatever_was_quick_before_it(method):
    """The thread that took its request is the one that sends its question: it must not wait."""
    server = Server("own")
    server.tool(name="x")(lambda: "quick")
    with endpoint(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        with connect(url, revision=LEGACY[-1], elicitation=lambda question: True) as client:
            for _ in range(3):  # a tool that was quick is run without a worker
                client.call_tool("x")

            @server.on_request(method)
            def handle(params, ctx: Context):
                return {"tools": [], "content": [], "_meta": {"vendor/said": ctx.confirm("Sure?", timeout=5)}}

            assert client.request(method, {"name": "x"})["_meta"] == {"vendor/said": True}


@pytest.mark.spec("basic/patterns/mrtr/unsupported-requests")
@pytest.mark.parametrize("method", ["vendor/x", "tools/list"])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda method, ctx: {"said": ctx.elicit("Sure?").action}, "{} failed"),
        (by_returning, "{}: only tools/call, prompts/get and resources/read may ask"),
    ],
)
def test_a_handler_of_ones_own_asks_nothing_where_the_method_may_not(method, how, said):
    server = Server("own")
    server.on_request(method)(lambda params, ctx: how(method, ctx))
    with (
        connect(server, revision=MODERN, elicitation=lambda question: True) as client,
        pytest.raises(ErrorResponse) as refused,
    ):
        client.request(method)
    assert (refused.value.code, refused.value.message) == (-32603, said.format(method))


@pytest.mark.spec("server/tools/capability-declared")
@every
@pytest.mark.parametrize("method", ["tools/call", "tools/list", "prompts/get", "resources/read"])
def test_a_handler_of_ones_own_for_a_feature_declares_it(date, method):
    server = Server("own")
    server.on_request(method)(lambda params: {})
    server.on_request("vendor/x")(lambda params: {})
    with connect(server, revision=date) as client:
        assert set(client.server_capabilities) == {"logging", method.partition("/")[0]}


@pytest.mark.spec("server/utilities/caching/hints-required")
def test_a_list_of_ones_own_carries_the_hints_of_its_method():
    server = Server("own", options=ServerOptions(caching={"tools/list": Caching(5000, "public")}))
    server.on_request("tools/list")(lambda params: {"tools": []})
    with connect(server, revision=MODERN) as client:
        result = client.request("tools/list")
    assert (result["ttlMs"], result["cacheScope"]) == (5000, "public")


LISTS = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
}
COMPLETE = {"argument": {"name": "a", "value": ""}}
UNKNOWN = [
    ("tools/call", {"name": "nothing"}, "Unknown tool: nothing"),
    ("prompts/get", {"name": "nothing"}, "Unknown prompt: nothing"),
    ("resources/read", {"uri": "x://nothing"}, "Resource not found"),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "nothing"}, **COMPLETE},
        "Unknown prompt: nothing",
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "x://{nothing}"}, **COMPLETE},
        "Unknown resource template: x://{nothing}",
    ),
]


def with_secrets():
    """A server with one of everything that not every client is to know of."""
    server = Server("discreet")
    server.add_tool(lambda: "x", name="secret")
    server.add_prompt(lambda a: "x", name="secret", complete={"a": ["x"]})
    server.add_resource(lambda: "x", "secret://one")
    server.add_resource(lambda a: "x", "secret://all/{a}", complete={"a": ["x"]})
    return server


def without_secrets(method, result):
    """The result of a list, without what is secret."""
    kind, key = LISTS[method]
    return {**result, kind: [item for item in result[kind] if not item[key].startswith("secret")]}


def by_hook(server):
    """Hide them with a hook."""

    @server.around
    def hide(ctx, params, proceed):
        result = proceed(params)
        return without_secrets(ctx.method, result) if ctx.method in LISTS else result


def by_lists(server):
    """Hide them with lists of one's own."""
    for method, (kind, _) in LISTS.items():
        server.on_request(method)(lambda params, kind=kind: {kind: []})


@every
@pytest.mark.parametrize("hide", [by_hook, by_lists])
def test_what_a_list_hides_is_named_by_no_error(date, hide):
    server = with_secrets()
    hide(server)
    with RawClient(server, revision=date) as raw:
        said = [raw.request(method) for method in LISTS]
        for method, params, start in UNKNOWN:
            response = raw.request(method, params)
            assert response["error"]["message"].startswith(start)
            said.append(response)
    assert "secret" not in str(said)


def test_where_nothing_is_hidden_an_error_names_what_there_is():
    with RawClient(with_secrets(), revision=MODERN) as raw:
        named = [raw.request(method, params)["error"]["message"] for method, params, _ in UNKNOWN]
    assert named[0] == "Unknown tool: nothing; known: secret"
    assert named[1] == named[3] == "Unknown prompt: nothing; known: secret"
    assert named[4] == "Unknown resource template: x://{nothing}; known: secret://all/{a}"


def test_an_error_names_twenty_of_what_there_is_at_most():
    server = Server("large")
    names = [f"tool{n}" for n in range(30)]
    for name in names:
        server.add_tool(lambda: "x", name=name)
    with RawClient(server, revision=MODERN) as raw:
        error = raw.request("tools/call", {"name": "nothing"})["error"]
    assert error["message"] == f"Unknown tool: nothing; known: {', '.join(names[:20])}"


@pytest.mark.parametrize("date", [LEGACY[0], MODERN])
def test_hooks_are_added_while_requests_run(date):
    server = Server("hooked")
    server.on_request("vendor/x")(lambda params: {"seen": params.get("seen", [])})
    with RawClient(server, revision=date) as raw:
        assert raw.request("vendor/x")["result"]["seen"] == []
        for n in range(3):

            @server.around
            def hook(ctx, params, proceed, n=n):
                return proceed({**params, "seen": [*params.get("seen", []), n]})

            assert raw.request("vendor/x")["result"]["seen"] == list(range(n + 1))
        assert len(server.handlers.hooks) == 3


def test_a_method_may_exist_in_some_revisions_only():
    server = Server("some")
    server.on_request("vendor/old", until="2025-03-26")(lambda params: {})
    server.on_request("vendor/new", since="2025-11-25")(lambda params: {})
    server.on_request("vendor/mid", since="2025-03-26", until="2025-06-18")(lambda params: {})
    found = {}
    for date in REVISIONS:
        with RawClient(server, revision=date) as raw:
            found[date] = ["result" in raw.request(f"vendor/{name}") for name in ("old", "mid", "new")]
            missing = [raw.request(f"vendor/{name}").get("error", {}).get("code") for name in ("old", "new")]
            assert set(missing) <= {None, -32601}
    assert list(found.values()) == [
        [True, False, False],
        [True, True, False],
        [False, True, False],
        [False, False, True],
        [False, False, True],
    ]


def test_a_method_of_one_server_is_no_method_of_another():
    one, other = Server("one"), Server("other")
    one.on_request("vendor/mine")(lambda params: {})
    with connect(other) as client, pytest.raises(ErrorResponse) as refused:
        client.request("vendor/mine")
    assert refused.value.code == -32601


@pytest.mark.spec("architecture/index/advertise-server-features")
def test_a_feature_that_comes_later_is_told_from_then_on():
    server = Server("some")
    with RawClient(server, revision=MODERN) as raw:
        assert raw.request("server/discover")["result"]["capabilities"] == {"logging": {}}
        server.add_tool(lambda: "hi", name="hi")
        declared = raw.request("server/discover")["result"]["capabilities"]
        assert declared == {"logging": {}, "tools": {"listChanged": True}}


@pytest.mark.parametrize("date", REVISIONS)
def test_notifications_of_the_client_are_heard(date):
    server = Server("hears")
    heard, come = [], threading.Event()

    @server.on_notification("vendor/news")
    def news(params):
        heard.append(params)
        come.set()

    with connect(server, revision=date) as client:
        client.notify("vendor/unknown", {"a": 1})
        client.notify("vendor/news", {"n": 1})
        assert come.wait(PATIENCE)
    assert heard == [{"n": 1}]
    news({"n": 2})  # a listener stays the function it was
    assert heard[1] == {"n": 2}


def test_one_place_is_one_directorys(tmp_path):
    server = Server("twice")
    server.add_directory(tmp_path, uri="docs://a/")
    with pytest.raises(ValueError, match="docs://a/ already"):
        server.add_directory(tmp_path, uri="docs://a/")
    server.add_directory(tmp_path, uri="docs://b/")


@pytest.mark.parametrize("decorator", ["tool", "prompt", "resource"])
def test_a_wrong_keyword_of_a_decorator_is_refused_at_once_by_the_name_that_the_author_wrote(decorator):
    place = ["note:///x"] if decorator == "resource" else []
    said = rf"Server\.{decorator} got an unexpected keyword argument 'nam'; there are name, "
    with pytest.raises(TypeError, match=said):
        getattr(Server("x"), decorator)(*place, nam="y")


@pytest.mark.parametrize(
    ("method", "place", "there_is"),
    [
        ("add_tool", [print], "name, .*replace$"),
        ("add_resource", [print, "note:///x"], "name, .*replace$"),
        ("add_prompt", [print], "name, .*replace$"),
        ("add_directory", ["."], "uri, "),
    ],
)
def test_a_wrong_keyword_of_a_method_is_refused_by_the_name_that_the_author_wrote(method, place, there_is):
    said = rf"^Server\.{method} got an unexpected keyword argument 'nam'; there are {there_is}"
    with pytest.raises(TypeError, match=said):
        getattr(Server("x"), method)(*place, nam="y")
