"""api/serving: the steps of an answer; what each method answers is tested with its page."""

import dataclasses
import threading
import time

import pytest
from demos import demo
from peers import LEGACY, META, MODERN, PATIENCE, REVISIONS, RawClient, eventually, source

from mcp_ref import ClientOptions, Context, ErrorResponse, ProtocolError, Server, ServerOptions, connect
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.client.elicitation.url_mode import ElicitUrl, UrlElicitationRequired

SERVER_INFO = "io.modelcontextprotocol/serverInfo"


def test_a_server_serves_all_its_clients_by_one_endpoint():
    server = Server("one", version="1", options=ServerOptions(identify=False))
    with RawClient(server, revision=LEGACY[-1]) as old, RawClient(server, revision=MODERN) as new:
        for client in (old, new):
            client.request("ping") if client is old else client.request("server/discover")
    assert server.serving.server is server
    assert server.serving.handlers is server.handlers


@pytest.mark.parametrize("returned", [[1], "text", 5])
def test_a_handler_that_returns_no_object_is_at_fault(returned):
    server = Server("odd")
    server.on_request("vendor/odd")(lambda params: returned)
    with RawClient(server, revision=MODERN) as client:
        error = client.request("vendor/odd")["error"]
    assert (error["code"], error["message"]) == (-32603, "vendor/odd: the handler returned no object")


def test_a_method_of_no_revision_is_not_found():
    with RawClient(Server("small"), revision=MODERN) as client:
        assert client.request("tools/list")["error"]["code"] == -32601
        assert client.request("x" * 200)["error"]["message"] == (
            f"there is no method {'x' * 100!r} here, in {MODERN}"
        )


# -- two eras at once ------------------------------------------------------------------------------


@pytest.mark.spec("basic/versioning/dual-era-selects-stateless")
@pytest.mark.parametrize("date", LEGACY)
def test_both_eras_are_served_on_one_connection_at_once(date):
    with RawClient(demo(), revision=date) as raw:
        for _ in range(3):
            assert "resultType" not in raw.request("tools/list")["result"]
            assert raw.request("tools/list", {"_meta": META})["result"]["resultType"] == "complete"
        assert raw.is_alive()


@pytest.mark.spec("schema/removed-methods-2026")
@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe", "tasks/list", "x/y"])
def test_what_the_modern_era_does_not_have_is_not_found(method):
    with RawClient(demo(), revision=MODERN) as raw:
        assert raw.request(method)["error"]["code"] == -32601


# -- methods of one's own --------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_a_method_of_ones_own_is_answered_with_a_dict(date):
    server = demo()

    @server.on_request("vendor/double")
    def double(params):
        return {"n": params["n"] * 2}

    @server.on_request("vendor/who")
    def who(params, ctx):
        return {"method": ctx.method, "revision": str(ctx.revision)}

    @server.on_request("vendor/nothing")
    def nothing(params):
        return None

    with connect(server, revision=date) as client:
        assert client.request("vendor/double", {"n": 4})["n"] == 8
        assert client.request("vendor/who")["method"] == "vendor/who"
        assert client.request("vendor/who")["revision"] == date
        assert client.request("vendor/nothing").keys() <= {"resultType", "_meta"}
        assert double({"n": 1}) == {"n": 2}


OF_A_TASK = {"io.modelcontextprotocol/related-task": {"taskId": "theirs"}}


@pytest.mark.spec("basic/utilities/tasks/related-task-everywhere")
@pytest.mark.parametrize("date", LEGACY)
def test_what_is_said_of_a_request_of_a_clients_task_belongs_to_that_task_in_2025_11_25(date):
    server = demo()

    @server.on_request("vendor/slow")
    def slow(params, ctx):
        ctx.progress(1)
        return {"_meta": {"vendor/a": 1}}

    expected = OF_A_TASK if date == LEGACY[-1] else {}
    with RawClient(server, revision=date) as raw:
        request_id = raw.ask("vendor/slow", {"_meta": {"progressToken": "p", **OF_A_TASK}})
        report = raw.until(lambda m: m.get("method") == "notifications/progress")
        assert report["params"].get("_meta", {}) == expected
        assert raw.answer(request_id)["result"]["_meta"] == {"vendor/a": 1, **expected}
        for _ in range(2):  # a list is remembered as it was sent
            found = raw.request("tools/list", {"_meta": OF_A_TASK})["result"]
            assert found.get("_meta", {}) == expected
            assert "_meta" not in raw.request("tools/list")["result"]


@pytest.mark.parametrize("answer", ["text", 5, [1], True, object()])
def test_a_handler_that_returns_no_object_is_an_internal_error(answer):
    server = demo()
    server.on_request("vendor/odd")(lambda params: answer)
    with connect(server) as client:
        with pytest.raises(ErrorResponse) as refused:
            client.request("vendor/odd")
        assert refused.value.code == -32603
        client.ping()


def test_a_handler_that_raises_tells_the_client_no_more_than_that(caplog):
    server = demo()

    @server.on_request("vendor/fail")
    def fail(params):
        raise ValueError("the password is 1234")

    @server.on_request("vendor/no")
    def no(params):
        raise ProtocolError("not you", code=1403, data=["why"])

    with connect(server) as client:
        with pytest.raises(ErrorResponse) as failed:
            client.request("vendor/fail")
        assert failed.value.code == -32603
        assert "1234" not in str(failed.value)
        with pytest.raises(ErrorResponse) as refused:
            client.request("vendor/no")
        assert (refused.value.code, refused.value.message, refused.value.data) == (1403, "not you", ["why"])
    assert any(r.exc_info and "1234" in str(r.exc_info[1]) for r in caplog.records)


def test_a_listener_that_raises_harms_nobody(caplog):
    server = demo()
    called = threading.Event()

    @server.on_notification("vendor/news")
    def news(params):
        called.set()
        raise ValueError("bad news")

    with connect(server) as client:
        client.notify("vendor/news")
        assert called.wait(PATIENCE)
        client.list_tools()
    assert eventually(lambda: any("bad news" in str(r.exc_info) for r in caplog.records if r.exc_info))


def test_more_notifications_than_can_wait_are_dropped_and_said_so(caplog):
    server = demo(workers=1, queue=2)
    go, entered = threading.Event(), threading.Event()

    @server.on_notification("vendor/slow")
    def slow(params):
        entered.set()
        go.wait(PATIENCE)

    with RawClient(server, revision=LEGACY[3]) as raw:
        raw.notify("vendor/slow")
        assert entered.wait(PATIENCE)
        for _ in range(50):
            raw.notify("vendor/slow")
        assert raw.is_alive()
        go.set()
    assert any("dropped vendor/slow" in r.getMessage() for r in caplog.records)


# -- hooks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_hooks_see_every_request_the_first_one_outermost(date):
    server = demo()
    seen = []

    @server.around
    def outer(ctx, params, proceed):
        seen.append(("outer in", ctx.method, dict(params).get("name")))
        result = proceed(params)
        seen.append(("outer out", ctx.method, "content" in result))
        return result

    @server.around
    def inner(ctx, params, proceed):
        seen.append(("inner in", ctx.method, str(ctx.revision)))
        return proceed(params)

    with connect(server, revision=date) as client:
        seen.clear()
        client.call_tool("add", {"a": 1, "b": 2})
    assert seen[:3] == [
        ("outer in", "tools/call", "add"),
        ("inner in", "tools/call", date),
        ("outer out", "tools/call", True),
    ]


@pytest.mark.parametrize("date", LEGACY)
def test_ping_and_initialize_do_not_pass_the_hooks(date):
    server = demo()
    seen = []

    @server.around
    def note(ctx, params, proceed):
        seen.append(ctx.method)
        return proceed(params)

    with connect(server, revision=date) as client:
        client.ping()
        client.list_tools()
    assert seen == ["tools/list"]


@pytest.mark.parametrize("date", REVISIONS)
def test_a_hook_may_answer_refuse_and_change(date):
    server = demo()
    server.on_request("vendor/echo")(lambda params: {"echo": params.get("n")})

    @server.around
    def guard(ctx, params, proceed):
        if params.get("n") == 1:
            return {"echo": "answered by the hook"}
        if params.get("n") == 2:
            raise ProtocolError("not two", code=1002)
        if params.get("n") == 3:
            raise InvalidParams("three is wrong")
        if "n" in params:
            return {**proceed({**params, "n": params["n"] * 10}), "seen": True}
        return proceed(params)

    with connect(server, revision=date) as client:
        assert client.request("vendor/echo", {"n": 1})["echo"] == "answered by the hook"
        for n, code in ((2, 1002), (3, -32602)):
            with pytest.raises(ErrorResponse) as refused:
                client.request("vendor/echo", {"n": n})
            assert refused.value.code == code
        changed = client.request("vendor/echo", {"n": 4})
        assert (changed["echo"], changed["seen"]) == (40, True)


def test_a_hook_may_time_and_read_what_a_tool_did():
    server = demo()
    times = {}

    @server.around
    def timing(ctx, params, proceed):
        start = time.perf_counter()
        try:
            return proceed(params)
        finally:
            times[ctx.method] = time.perf_counter() - start

    with connect(server) as client:
        client.call_tool("add", {"a": 1, "b": 2})
    assert 0 < times["tools/call"] < PATIENCE


@pytest.mark.parametrize("date", REVISIONS)
def test_a_hook_may_filter_a_list_for_one_caller_only(date):
    """What is kept for all callers is not what a hook gets to change."""
    server = demo()
    server.add_tool(lambda: "x", name="secret")

    @server.around
    def only_for_ann(ctx, params, proceed):
        result = proceed(params)
        if ctx.method == "tools/list" and ctx.client_info.get("name") != "ann":
            result["tools"] = [tool for tool in result["tools"] if tool["name"] != "secret"]
        return result

    def names(who):
        with connect(server, revision=date, options=ClientOptions(name=who)) as client:
            return [tool["name"] for tool in client.list_tools()]

    for _ in range(2):
        assert names("bob") == ["add"]
        assert names("ann") == ["add", "secret"]


# -- what wraps a question -------------------------------------------------------------------------


@dataclasses.dataclass
class Day:
    day: int


@pytest.mark.parametrize("date", ["2025-06-18", "2025-11-25", MODERN])
@pytest.mark.parametrize("hooked", [False, True])
def test_a_handler_that_asks_may_have_hooks_around_it(date, hooked):
    """In the modern era a hook sees the question go by as a result."""
    server = demo()
    seen = []

    @server.tool
    def book(ctx: Context) -> str:
        return f"day {ctx.elicit('Which day?', Day).data.day}"

    if hooked:

        @server.around
        def note(ctx, params, proceed):
            result = proceed(params)
            if ctx.method == "tools/call":
                seen.append(result.get("resultType", "complete"))
            return result

    with connect(server, revision=date, elicitation=lambda asked: {"day": 7}) as client:
        assert client.call_tool("book").text == "day 7"
    if hooked:
        assert seen == (["input_required", "complete"] if date == MODERN else ["complete"])


def test_a_visit_that_is_required_is_asked_for_in_the_modern_era():
    server = demo()
    been = []

    @server.tool
    def pay(ctx: Context) -> str:
        if not been:
            been.append(1)
            raise UrlElicitationRequired(ElicitUrl("Pay first", "https://example.org/pay"))
        return "paid"

    with connect(server, elicitation=lambda asked: asked.accept()) as client:
        assert client.call_tool("pay").text == "paid"


@pytest.mark.parametrize("hooked", [False, True])
def test_a_method_that_may_not_ask_fails_if_it_does(hooked, caplog):
    server = demo()
    server.on_request("vendor/ask")(lambda params: {"resultType": "input_required", "requestState": "x"})
    if hooked:
        server.around(lambda ctx, params, proceed: proceed(params))
    with connect(server) as client, pytest.raises(ErrorResponse, match="only tools/call"):
        client.request("vendor/ask")


def test_a_tool_may_make_its_question_by_hand():
    server = demo()

    @server.around
    def ask_first(ctx, params, proceed):
        if ctx.method == "tools/call" and ctx.request_state is None:
            return {"resultType": "input_required", "requestState": "asked"}
        return proceed(params)

    with connect(server) as client:
        result = client.call_tool("add", {"a": 1, "b": 2}, rounds=0)
        assert result.is_input_required
        assert client.resume(result, {}).text == "3"


@pytest.mark.parametrize("hooked", [False, True])
def test_a_handler_that_fails_is_no_question(hooked):
    server = demo()
    server.on_request("vendor/fail")(lambda params: 1 // 0)
    if hooked:
        server.around(lambda ctx, params, proceed: proceed(params))
    with connect(server) as client:
        with pytest.raises(ErrorResponse) as refused:
            client.request("vendor/fail")
        assert refused.value.code == -32603


# -- what the reader answers itself ----------------------------------------------------------------


BUSY = """
import threading

@server.tool
def hold() -> str:
    threading.Event().wait(30)
    return "held"
"""


def hello(date="2025-11-25"):
    return {"protocolVersion": date, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


def test_server_discover_is_answered_where_initialize_is():
    """On the reader: at once while every worker is busy, and in the order in which they were sent."""
    with RawClient(source(BUSY, options="options=ServerOptions(workers=1)"), revision=MODERN) as raw:
        raw.call("hold", id="held")
        raw.ask("server/discover", id="first")
        raw.revision = None
        raw.ask("initialize", hello(), id="second")
        raw.revision = MODERN
        raw.ask("server/discover", id="third")
        assert [raw.receive()["id"] for _ in range(3)] == ["first", "second", "third"]
        assert raw.child is not None
        raw.child.kill()


def test_the_reader_runs_no_function_of_the_authors():
    """A `principal` and a hook may be slow: lifecycle requests do not wait for them."""
    held, went_on = threading.Event(), threading.Event()
    threads: dict[str, str] = {}

    def principal(context):
        threads[context.method] = threading.current_thread().name
        return "ada"

    server = Server("held", principal=principal)
    with RawClient(server, revision="2025-11-25") as raw:
        assert "result" in raw.request("ping")
        raw.revision = MODERN
        assert "result" in raw.request("server/discover")
    assert threads == {}

    @server.around
    def slow(context, params, proceed):
        threads[context.method] = threading.current_thread().name
        held.set()
        assert went_on.wait(10)
        return proceed(params)

    with RawClient(server, revision="2025-11-25") as raw:
        raw.revision = MODERN
        raw.ask("server/discover", id="slow")
        assert held.wait(10)
        raw.revision = "2025-11-25"
        assert "result" in raw.request("ping"), "the reader is free while the hook waits"
        went_on.set()
        assert "result" in raw.answer("slow")
    assert threads["server/discover"].startswith("mcp_ref worker")


@pytest.mark.parametrize("method", ["ping", "server/discover"])
def test_a_lifecycle_method_that_the_author_answers_is_run_by_a_worker(method):
    server = Server("own")

    @server.on_request(method)
    def own(params):
        return {"thread": threading.current_thread().name}

    with RawClient(server, revision="2025-11-25" if method == "ping" else MODERN) as raw:
        assert raw.request(method)["result"]["thread"].startswith("mcp_ref worker")


def test_in_a_forked_child_no_visit_is_waited_for():
    serving = Server("demo").serving
    serving.elicitations["e1"] = object()
    serving.forked()
    assert serving.elicitations == {}


@pytest.mark.parametrize("method", ["initialize", "ping", "vendor/unknown"])
def test_a_server_of_the_modern_era_alone_wants_meta_in_each_request(method):
    with RawClient(Server("new", revisions=[MODERN])) as client:
        error = client.request(method, {"protocolVersion": LEGACY[-1]})["error"]
    assert error["code"] == (-32022 if method == "initialize" else -32602)


# -- tasks of a handler's own making ---------------------------------------------------------------

KNOWS_TASKS = {
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
}
HAND_MADE = {
    "resultType": "task",
    "taskId": "of-another-server",
    "status": "working",
    "createdAt": "2026-07-28T00:00:00Z",
    "lastUpdatedAt": "2026-07-28T00:00:00Z",
    "ttlMs": None,
}


@pytest.mark.parametrize("meta", [None, KNOWS_TASKS], ids=["a client without tasks", "a client with tasks"])
@pytest.mark.parametrize("broken", [False, True], ids=["a task", "half a task"])
@pytest.mark.spec("extensions/tasks/result-type-task-exclusive", "extensions/tasks/reserved-prefixes")
@pytest.mark.spec("extensions/tasks/no-task-without-capability")
def test_a_handler_passes_on_a_task_as_the_extension_has_it_or_nothing(meta, broken):
    """extensions/tasks: the resultType "task" is for CreateTaskResults, and for clients that know them."""
    server = demo()
    made = {key: value for key, value in HAND_MADE.items() if not (broken and key == "status")}
    server.on_request("tools/call")(lambda params: made)
    with RawClient(server, revision=MODERN) as raw:
        answer = raw.answer(raw.call("add", {"a": 1, "b": 2}, meta=meta))
        if meta is None or broken:
            assert answer["error"]["code"] == -32603
            assert answer["error"]["message"].startswith("tools/call: the handler returned a task")
        else:
            assert answer["result"]["taskId"] == "of-another-server"


@pytest.mark.parametrize("task", ["forbidden", "required"])
@pytest.mark.spec("extensions/tasks/result-type-task-exclusive")
def test_what_a_tool_returns_is_no_task(task):
    """A tool that runs as a task does not have another one as its result."""
    server = Server("made by hand")
    server.add_tool(lambda: {"content": [], **HAND_MADE}, name="odd", task=task, output_schema=False)
    with RawClient(server, revision=MODERN) as raw:
        answer = raw.answer(raw.call("odd", meta=KNOWS_TASKS if task == "required" else None))
        if task == "forbidden":
            assert answer["error"]["code"] == -32603
            return
        ours = {"taskId": answer["result"]["taskId"], "_meta": KNOWS_TASKS}
        assert eventually(lambda: raw.request("tasks/get", ours)["result"]["status"] == "failed")
        assert raw.request("tasks/get", ours)["result"]["error"]["code"] == -32603


def test_only_a_call_of_a_tool_is_answered_with_a_task():
    server = demo()
    server.on_request("prompts/get")(lambda params: HAND_MADE)
    with RawClient(server, revision=MODERN) as raw:
        answer = raw.request("prompts/get", {"name": "a", "_meta": KNOWS_TASKS})
        assert answer["error"]["code"] == -32603
