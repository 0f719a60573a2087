"""Answering: what a client does for its server, and what it hears of it."""

import contextlib
import threading
import time

import demos
import pytest
from choices import for_connect
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    Notes,
    eventually,
    python,
    raw_server,
    recorded,
    source,
    tap,
)
from task_scripts import Scripted

from mcp_ref import ClientOptions, Context, Elicit, Limit, McpError, ProtocolError, Sample, connect


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
    with connect(demo(), revision=LEGACY[3]) as client, contextlib.ExitStack() as standing_still:
        clock = client.asker.connection.clock

        @client.on_request("vendor/ask")
        def slow(params):
            standing_still.close()
            threading.Event().wait(0.3)  # the person
            standing_still.enter_context(clock.hold())
            return {"n": 1}

        # But for the person the clock is held by the test: what a busy machine takes does not count either.
        standing_still.enter_context(clock.hold())
        assert asked(client, timeout=0.1).text == '{"n":1}'


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


def test_a_handler_of_the_applications_for_ping_is_refused():
    """It would never run: the reader answers ping, and waits for no function."""
    with connect(demo()) as client:
        add = client.on_request("ping")
        with pytest.raises(ValueError, match=r"^ping is answered by the client itself"):
            add(lambda params, context: {})


def test_nothing_that_a_server_asks_is_answered_by_the_thread_that_reads_but_ping():
    with connect(demo(), revision="2025-11-25") as client:
        answering = client.asker.answering
        contexts = [Context(client.asker.connection, 1, method, {}) for method in ("ping", "roots/list")]
        assert [answering.is_immediate(context) for context in contexts] == [True, False]


# -- tasks that it runs for its server -------------------------------------------------------------


TASKS = "2025-11-25"
FORM = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
PROMPT = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}], "maxTokens": 9}
SAID = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}


class Asking:
    """A server of 2025-11-25 that says each message itself, and the client that it asks."""

    def __init__(self, **options):
        self.server = Scripted(TASKS)
        self.client = connect(self.server, **for_connect(revision=TASKS, **options))
        self._count = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.client.close()

    @property
    def declared(self):
        return self.server.asked[0]["params"]["capabilities"]

    def begin(self, method, params):
        """Send a request; its id."""
        self._count += 1
        name = f"ask-{self._count}"
        self.server.ask(name, method, params)
        return name

    def answer(self, name):
        """The answer to a request, as soon as it is there."""
        found = []

        def is_there():
            found[:] = [message for message in self.server.answered() if message["id"] == name]
            return bool(found)

        assert eventually(is_there)
        return found[0]

    def request(self, method, params):
        return self.answer(self.begin(method, params))

    def start(self, method="elicitation/create", params=FORM, **task):
        """The task of a request that was to become one."""
        return self.request(method, {**params, "task": task})["result"]["task"]

    def about(self, method, task):
        return self.request(method, {"taskId": task["taskId"]})

    def told(self):
        return [status["status"] for status in self.server.params("notifications/tasks/status")]


@pytest.mark.spec("basic/utilities/tasks/capability-declared", "basic/utilities/tasks/capability-exhaustive")
@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({"elicitation": print}, {"elicitation": {"create": {}}}),
        ({"sampling": print}, {"sampling": {"createMessage": {}}}),
        (
            {"sampling": print, "elicitation": print},
            {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
        ),
    ],
)
def test_a_client_declares_that_it_runs_as_tasks_what_it_has_a_callback_for(options, requests):
    with Asking(**options) as asking:
        assert asking.declared["tasks"] == {"list": {}, "cancel": {}, "requests": requests}
    with Asking(tasks=False, **options) as asking:
        assert "tasks" not in asking.declared


def test_a_client_without_callbacks_declares_no_tasks():
    with Asking(roots=["/"]) as asking:
        assert asking.declared == {"roots": {"listChanged": True}}
        answers = [
            asking.request(f"tasks/{name}", {"taskId": "x"}) for name in ("get", "result", "cancel", "list")
        ]
        assert [answer["error"]["code"] for answer in answers] == [-32601] * 4


@pytest.mark.parametrize("date", LEGACY[:3])
def test_no_tasks_are_declared_before_2025_11_25(date):
    server = Scripted(date)
    with connect(server, revision=date, elicitation=print, sampling=print):
        assert "tasks" not in server.asked[0]["params"]["capabilities"]


@pytest.mark.spec(
    "basic/utilities/tasks/create-result-returned",
    "basic/utilities/tasks/create-result-soon",
    "basic/utilities/tasks/starts-working",
    "basic/utilities/tasks/result-exact",
    "basic/utilities/tasks/related-task-in-result",
)
def test_a_request_that_is_to_be_a_task_is_answered_with_one_and_its_result_fetched_later():
    entered, go = threading.Event(), threading.Event()

    def think(request):
        entered.set()
        assert go.wait(PATIENCE)
        return SAID

    with Asking(sampling=think) as asking:
        task = asking.start("sampling/createMessage", PROMPT, ttl=60_000)
        assert (task["status"], task["ttl"]) == ("working", 60_000)
        assert entered.wait(PATIENCE)
        assert asking.about("tasks/get", task)["result"]["status"] == "working"
        waiting = asking.begin("tasks/result", {"taskId": task["taskId"]})
        assert [t["taskId"] for t in asking.request("tasks/list", {})["result"]["tasks"]] == [task["taskId"]]
        go.set()
        result = asking.answer(waiting)["result"]
        assert result.pop("_meta") == {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}
        assert result == SAID
        assert asking.about("tasks/get", task)["result"]["status"] == "completed"
        assert eventually(lambda: asking.told() == ["completed"])


OF_A_TASK = {"io.modelcontextprotocol/related-task": {"taskId": "theirs"}}


def answered(asking, method, **params):
    """The `_meta` of the result of a request that belongs to a task of the server's."""
    meta = {**OF_A_TASK, **params.pop("_meta", {})}
    return asking.request(method, {**params, "_meta": meta})["result"].get("_meta")


@pytest.mark.spec("basic/utilities/tasks/related-task-everywhere")
def test_what_is_answered_to_a_request_of_a_task_belongs_to_that_task():
    with Asking(elicitation=lambda request: {}, sampling=lambda request: SAID, roots=["/"]) as asking:
        asking.client.on_request("vendor/own")(lambda params: {"_meta": {"vendor/a": 1}})
        assert answered(asking, "elicitation/create", **FORM) == OF_A_TASK
        assert answered(asking, "sampling/createMessage", **PROMPT) == OF_A_TASK
        assert answered(asking, "roots/list") == OF_A_TASK
        assert answered(asking, "ping") == OF_A_TASK
        assert answered(asking, "vendor/own") == {"vendor/a": 1, **OF_A_TASK}
        assert asking.request("vendor/own", {})["result"] == {"_meta": {"vendor/a": 1}}
        assert "_meta" not in asking.request("elicitation/create", FORM)["result"]
        assert "_meta" not in asking.request("vendor/none", {"_meta": OF_A_TASK})["error"]


@pytest.mark.spec(
    "basic/utilities/tasks/related-task-everywhere",
    "basic/utilities/tasks/related-task-ignored",
    "basic/utilities/tasks/related-task-not-in-results",
)
def test_a_request_of_a_task_that_becomes_a_task_itself_is_answered_as_each_of_them():
    with Asking(elicitation=lambda request: {}) as asking:
        result = asking.request("elicitation/create", {**FORM, "task": {}, "_meta": OF_A_TASK})["result"]
        assert result["_meta"] == OF_A_TASK
        task_id = result["task"]["taskId"]
        own = {"io.modelcontextprotocol/related-task": {"taskId": task_id}}
        assert answered(asking, "tasks/result", taskId=task_id) == own
        assert answered(asking, "tasks/get", taskId=task_id) is None
        assert answered(asking, "tasks/list") is None


@pytest.mark.spec("basic/utilities/tasks/related-task-everywhere")
def test_the_progress_of_a_request_of_a_task_belongs_to_that_task():
    with Asking() as asking:

        @asking.client.on_request("vendor/slow")
        def slow(params, ctx):
            ctx.progress(1)
            return {}

        assert answered(asking, "vendor/slow", _meta={"progressToken": "p"}) == OF_A_TASK
        said = [m["params"] for m in asking.server.asked if m.get("method") == "notifications/progress"]
        assert said == [{"progressToken": "p", "progress": 1, "_meta": OF_A_TASK}]


@pytest.mark.parametrize("date", LEGACY[:3])
def test_before_2025_11_25_no_answer_belongs_to_a_task(date):
    server = Scripted(date)
    with connect(server, revision=date, roots=["/"]):
        server.ask("1", "roots/list", {"_meta": OF_A_TASK})
        assert eventually(server.answered)
        assert "_meta" not in server.answered()[0]["result"]


@pytest.mark.spec("basic/utilities/tasks/related-task-everywhere")
def test_every_message_of_a_task_that_asks_and_reports_says_so_on_the_wire(tmp_path):
    """All but those that the page excepts."""
    body = """
        from mcp_ref import Context

        @server.tool(task="required")
        def ask(ctx: Context) -> str:
            ctx.progress(1)
            return ctx.elicit("Sure?").action + ctx.sample("Hello", max_tokens=9).text
    """
    wire, heard = tmp_path / "wire", []
    options = ClientOptions(env=ENV)
    with connect(
        tap(python(source(body)), wire),
        revision=TASKS,
        options=options,
        elicitation=lambda request: {},
        sampling=lambda request: "Hi",
    ) as client:
        task = client.start_tool("ask", on_progress=lambda *report: heard.append(report))
        assert task.result(PATIENCE).text == "acceptHi"
    sent, received = recorded(wire)
    asked = [m for m in received if m.get("method", "") in ("elicitation/create", "sampling/createMessage")]
    answers = [m for m in sent if m.get("id") in {a["id"] for a in asked} and "result" in m]
    reports = [m for m in received if m.get("method") == "notifications/progress"]
    assert (len(asked), len(answers), len(reports)) == (2, 2, 1)
    of_task = {"io.modelcontextprotocol/related-task": {"taskId": task.id}}
    assert all(m["params"]["_meta"] == of_task for m in (*asked, *reports))
    assert all(m["result"]["_meta"] == of_task for m in answers)


@pytest.mark.spec("basic/utilities/tasks/result-same-error", "basic/utilities/tasks/failed-status")
def test_what_a_callback_raises_is_the_error_of_its_task():
    def refuse(request):
        raise ProtocolError("I will not", code=1001)

    with Asking(elicitation=refuse) as asking:
        task = asking.start()
        error = asking.about("tasks/result", task)["error"]
        assert (error["code"], error["message"]) == (1001, "I will not")
        found = asking.about("tasks/get", task)["result"]
        assert (found["status"], found["statusMessage"]) == ("failed", "I will not")


@pytest.mark.spec(
    "basic/utilities/tasks/cancel-before-response",
    "basic/utilities/tasks/cancelled-stays",
    "basic/utilities/tasks/cancel-terminal-32602",
)
def test_a_task_that_is_cancelled_while_the_person_thinks_drops_their_answer():
    entered, go, left = threading.Event(), threading.Event(), threading.Event()

    def think(request):
        entered.set()
        go.wait(PATIENCE)
        left.set()
        return {}

    with Asking(elicitation=think) as asking:
        task = asking.start()
        assert entered.wait(PATIENCE)
        waiting = asking.begin("tasks/result", {"taskId": task["taskId"]})
        assert asking.about("tasks/cancel", task)["result"]["status"] == "cancelled"
        assert "cancelled" in asking.answer(waiting)["error"]["message"]
        go.set()
        assert left.wait(PATIENCE)
        assert asking.about("tasks/get", task)["result"]["status"] == "cancelled"
        assert asking.about("tasks/cancel", task)["error"]["code"] == -32602


@pytest.mark.spec("basic/utilities/tasks/unknown-task-32602", "basic/utilities/tasks/unknown-cursor-32602")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tasks/get", {"taskId": "unknown"}),
        ("tasks/result", {"taskId": "unknown"}),
        ("tasks/cancel", {"taskId": "unknown"}),
        ("tasks/get", {}),
        ("tasks/get", {"taskId": 5}),
        ("tasks/list", {"cursor": "unknown"}),
        ("elicitation/create", {**FORM, "task": {"ttl": -1}}),
    ],
)
def test_what_a_client_does_not_know_of_tasks_is_an_error_for_the_server(method, params):
    with Asking(elicitation=lambda request: {}) as asking:
        assert asking.request(method, params)["error"]["code"] == -32602
        assert asking.request("tasks/list", {})["result"] == {"tasks": []}


@pytest.mark.spec("basic/utilities/tasks/process-normally-undeclared")
@pytest.mark.parametrize("tasks", [True, False])
def test_a_wish_for_a_task_is_ignored_where_the_client_did_not_declare_it(tasks):
    with Asking(roots=["/"], elicitation=lambda request: {}, tasks=tasks) as asking:
        assert asking.request("roots/list", {"task": {}})["result"]["roots"]
        answer = asking.request("elicitation/create", {**FORM, "task": {}})["result"]
        assert ("task" in answer) == tasks
        if tasks:
            assert asking.request("elicitation/create", FORM)["result"]["action"] == "accept"


def test_tasks_that_ask_too_much_at_once_fail_and_the_others_go_on():
    entered, go = threading.Semaphore(0), threading.Event()

    def think(request):
        entered.release()
        go.wait(PATIENCE)
        return {}

    limit = Limit(rate=1000, burst=1000, at_once=2)
    with Asking(elicitation=think, ask_limit=limit) as asking:
        tasks = [asking.start() for _ in range(2)]
        for _ in tasks:
            assert entered.acquire(timeout=PATIENCE)
        third = asking.start()
        assert "asked too much" in asking.about("tasks/result", third)["error"]["message"]
        go.set()
        assert [asking.about("tasks/result", task)["result"]["action"] for task in tasks] == ["accept"] * 2


def test_a_client_that_is_closed_leaves_no_task_behind():
    """The fixture sees that no thread is left."""
    entered, go = threading.Event(), threading.Event()

    def think(request):
        entered.set()
        go.wait(PATIENCE)

    with Asking(elicitation=think) as asking:
        asking.start()
        assert entered.wait(PATIENCE)
    assert eventually(lambda: not any(t.name.startswith("mcp_ref worker") for t in threading.enumerate()))
    go.set()


@pytest.mark.spec("basic/utilities/tasks/augment-if-declared")
@pytest.mark.parametrize("tasks", [True, False])
def test_a_server_asks_for_tasks_and_has_their_answers_whether_or_not_the_client_runs_any(tasks):
    server = demo()

    @server.tool
    def ask_all(ctx: Context) -> str:
        form = Elicit("Sure?", {"type": "object", "properties": {}})
        answers = ctx.ask_all(form, Sample("Hello", max_tokens=9), as_task=True)
        return f"{answers[0].action} {answers[1].text}"

    options = for_connect(tasks=tasks, elicitation=lambda request: {}, sampling=lambda request: "Hi")
    with connect(server, revision=TASKS, **options) as client:
        assert client.call_tool("ask_all").text == "accept Hi"
        assert len(client.asker.answering.tasks.store.page(None, None, 9)) == (2 if tasks else 0)
