"""Calls of tools that are tasks, or turn out to be, in both eras."""

import concurrent.futures

import pytest
from peers import LEGACY, MODERN, PATIENCE
from task_scripts import (
    DATE,
    DONE,
    ID,
    KNOWS,
    SILENCE,
    Refusal,
    Scripted,
    asking,
    created,
    declared,
    film,
    poll,
    required,
    scripted,
    state,
)
from web import talking

from mcp_ref import (
    ClientOptions,
    Context,
    ErrorResponse,
    InvalidResponse,
    MayHaveRun,
    NotReached,
    RequestTimeout,
    Server,
    ToolError,
    connect,
)
from mcp_ref.api import tasks as module
from mcp_ref.basic.utilities.tasks import behavior_requirements
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.runtime.errors import LocalError

ERAS = (DATE, MODERN)
eras = pytest.mark.parametrize("date", ERAS)


@pytest.fixture(autouse=True)
def threads_that_end_soon(monkeypatch):
    """Those that run tasks on a server, which does not know that the test is over."""
    monkeypatch.setattr(behavior_requirements, "IDLE_SECONDS", 0.02)


# -- calls that turn out to be tasks ---------------------------------------------------------------


@pytest.mark.spec(
    "basic/utilities/tasks/tool-required",
    "extensions/tasks/client-handles-both",
    "extensions/tasks/both-shapes-handled",
)
@pytest.mark.parametrize("is_known", [True, False])
@eras
def test_call_tool_gives_the_result_whatever_the_tool_says_of_tasks(date, is_known):
    with connect(film(), revision=date, elicitation=lambda request: {}) as client:
        if is_known:
            client.list_tools()
        assert client.call_tool("render", {"frames": 2}).structured == {"frames": 2}
        assert client.call_tool("render", {"frames": 3}).structured == {"frames": 3}
        assert client.call_tool("ask").text == "accept"
        assert client.call_tool("plain").text == "plain"


@pytest.mark.spec("basic/utilities/tasks/model-immediate-response")
@pytest.mark.parametrize(("date", "said"), [(DATE, "It is being rendered."), (MODERN, None)])
def test_a_task_has_what_a_model_can_be_given_at_once_from_the_answer_to_its_call(date, said):
    server = Server("film", tasks=TaskOptions(poll_interval=0.01))
    server.add_tool(lambda: "x", name="render", task="required", immediate_response="It is being rendered.")
    server.add_tool(lambda: "x", name="cut", task="required")
    with connect(server, revision=date) as client:
        task = client.start_tool("render")
        assert task.immediate_response == said
        assert task.result().text == "x"
        assert task.immediate_response == said
        assert client.task(task.id).immediate_response is None
        assert client.start_tool("cut").immediate_response is None


@pytest.mark.parametrize("waits", [True, False])
def test_a_call_that_became_a_task_was_begun_though_the_server_cannot_be_reached_any_more(waits):
    def handle(request, wire):
        wire.site.shut()
        wire.result(request, created(MODERN))
        wire.close()

    with talking(handle, MODERN, options=ClientOptions(extensions=KNOWS["extensions"])) as (_, client):
        with pytest.raises(MayHaveRun, match="The server had begun it before") as caught:
            client.call_tool("x") if waits else client.submit_tool("x").result(PATIENCE)
        assert isinstance(caught.value.__cause__, NotReached)


@pytest.mark.parametrize("code", [-32601, -32600])
def test_a_call_that_is_refused_without_a_task_is_looked_up_once_and_started_as_one(code):
    def call(params):
        if "task" not in params:
            raise Refusal(code, "as a task, please")
        return created(DATE)

    with scripted(DATE, {"tools/call": call}, support="required") as (server, client):
        assert client.call_tool("render").text == "done"
        assert server.methods() == ["tools/call", "tools/list", "tools/call", "tasks/result"]
        assert client.call_tool("render").text == "done"
        assert server.methods()[4:] == ["tools/call", "tasks/result"]


@pytest.mark.parametrize("support", ["optional", "forbidden", None])
def test_a_call_that_is_refused_for_another_reason_is_not_sent_again(support):
    with scripted(DATE, {"tools/call": Refusal(-32601)}, support=support) as (server, client):
        with pytest.raises(ErrorResponse):
            client.call_tool("render")
        assert len(server.params("tools/call")) == 1


@pytest.mark.spec(
    "basic/utilities/tasks/tool-needs-capability",
    "basic/utilities/tasks/no-capability-no-tasks",
    "basic/utilities/tasks/augment-if-declared",
    "basic/utilities/tasks/capability-exhaustive",
)
@pytest.mark.parametrize(
    "declared", [{"list": {}, "cancel": {}}, {"requests": {}}, {"requests": {"tools": {}}}, {}]
)
def test_no_call_asks_for_a_task_where_the_server_did_not_declare_that_it_runs_calls_as_tasks(declared):
    answers = {"tools/call": Refusal(-32601)}
    with scripted(DATE, answers, tasks=declared or False, support="required") as (server, client):
        client.list_tools()
        with pytest.raises(LocalError, match=r"did not declare tasks\.requests\.tools\.call"):
            client.start_tool("render")
        with pytest.raises(ErrorResponse):
            client.call_tool("render")
        assert server.params("tools/call") == [{"name": "render", "arguments": {}}]


@pytest.mark.spec("basic/utilities/tasks/tool-forbidden")
@pytest.mark.parametrize("support", ["forbidden", None, "sometimes", 5])
def test_a_tool_that_forbids_tasks_is_not_started_as_one(support):
    with scripted(DATE, support=support) as (server, client):
        with pytest.raises(LocalError, match="render does not run as a task: call it with call_tool"):
            client.start_tool("render")
        assert server.params("tools/call") == []


def test_a_tool_that_the_server_does_not_list_is_not_started_and_the_error_says_so():
    refused = pytest.raises(LocalError, match="the server lists no tool 'nosuch'")
    with connect(film(), revision=DATE) as client, refused:
        client.start_tool("nosuch")


@eras
def test_a_callback_for_progress_that_fails_is_logged_and_the_task_goes_on(date, caplog):
    server = Server("film", tasks=TaskOptions(grace=PATIENCE, poll_interval=0.01))

    @server.tool(task="optional")
    def render(ctx: Context) -> str:
        ctx.progress(1, 2)
        return "done"

    with connect(server, revision=date) as client:
        task = client.start_tool("render", on_progress=lambda *report: 1 / 0)
        assert task.result(PATIENCE).text == "done"
    assert "ZeroDivisionError" in caplog.text


@eras
def test_a_call_whose_end_does_not_come_in_time_is_cancelled(date):
    answers = {"tasks/get": state(date), "tasks/result": SILENCE}
    with scripted(date, answers, support="required") as (server, client):
        client.list_tools()
        client.asker.connection.max_timeout = 0.1  # from here on: what came before may have taken longer
        with pytest.raises(RequestTimeout, match="not over in time"):
            client.call_tool("render")
        assert server.is_asked("tasks/cancel")
        assert server.params("tasks/cancel") == [{"taskId": ID}]


@eras
def test_ctrl_c_in_a_call_cancels_its_task(date, monkeypatch):
    def interrupted(*given, **more):
        raise KeyboardInterrupt

    with scripted(date, {"tasks/get": state(date)}, support="required") as (server, client):
        client.list_tools()
        with monkeypatch.context() as patch:
            patch.setattr(module.Task, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.call_tool("render")
        assert server.is_asked("tasks/cancel")


@eras
def test_a_person_confirms_a_call_once_also_where_it_becomes_a_task(date):
    confirmed = []

    def confirm(tool, hints, arguments):
        confirmed.append((tool["name"], arguments))
        return True

    with connect(film(), revision=date, confirm=confirm) as client:
        client.call_tool("render", {"frames": 1})
        client.start_tool("render", {"frames": 2}).result(PATIENCE)
    assert confirmed == [("render", {"frames": 1}), ("render", {"frames": 2})]
    with connect(film(), revision=date, confirm=lambda *given: False) as client:
        for act in (client.call_tool, client.start_tool):
            with pytest.raises(LocalError, match="not confirmed"):
                act("render", {"frames": 1})


def test_a_future_of_a_call_that_became_a_task_gives_what_comes_of_it():
    with connect(film(), revision=MODERN) as client:
        future = client.submit("tools/call", {"name": "render", "arguments": {"frames": 2}})
        assert future.result(PATIENCE).structured == {"frames": 2}
        assert future.result() is future.result()
        assert future.exception() is None


def test_a_future_that_waits_for_a_task_keeps_the_rules_of_futures(monkeypatch):
    gets = [state(MODERN)] * 3 + [state(MODERN, "failed")]
    with scripted(MODERN, {"tasks/get": lambda params: gets.pop(0)}) as (server, client):
        future = client.submit("tools/call", {"name": "render"})
        server.answers["tasks/get"] = state(MODERN, **poll(MODERN, 3_600_000))
        assert concurrent.futures.wait([future], PATIENCE).done  # else 0.05 s may pass before there is a task
        for act in (future.result, future.exception):
            with pytest.raises(TimeoutError, match="not over in time") as caught:
                act(0.05)
            assert not isinstance(caught.value, RequestTimeout)
        with monkeypatch.context() as patch:
            patch.setattr(module.Task, "look", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
            patch.setattr(module, "MAX_SUGGESTED_SECONDS", 0.01)
            future._task._due = 0
            with pytest.raises(KeyboardInterrupt):
                future.result(PATIENCE)
        assert server.is_asked("tasks/cancel")
        server.answers["tasks/get"] = state(MODERN, "failed")
        future._task._due = 0
        assert isinstance(future.exception(PATIENCE), ErrorResponse)


def test_a_request_of_any_kind_gives_the_task_as_it_came():
    with scripted(MODERN) as (_, client):
        found = client.request("tools/call", {"name": "render"})
        assert (found["resultType"], found["taskId"]) == ("task", ID)
        assert client.task(found["taskId"]).result().text == "done"


def test_a_question_before_there_is_a_task_is_for_the_caller_with_no_rounds_and_resume_waits_for_the_task():
    question = {
        "resultType": "input_required",
        "requestState": "s",
        "inputRequests": asking("a")["inputRequests"],
    }
    answers = {"tools/call": lambda params: created(MODERN) if "requestState" in params else question}
    with scripted(MODERN, answers) as (server, client):
        asked = client.call_tool("render", rounds=0)
        assert asked.is_input_required
        assert client.resume(asked, {"a": {"action": "decline"}}).text == "done"
        assert server.params("tools/call")[1]["inputResponses"] == {"a": {"action": "decline"}}


# -- what a call declares, in 2026-07-28 -----------------------------------------------------------


@pytest.mark.spec("extensions/overview/disabled-by-default", "extensions/tasks/client-handles-both")
def test_a_call_that_is_refused_for_want_of_the_extension_is_sent_again_with_it_and_confirmed_once():
    confirmed, server = [], Scripted(MODERN, {"tools/call": required})
    with connect(server, revision=MODERN, confirm=lambda *call: confirmed.append(call) or True) as client:
        assert client.call_tool("render").text == "done"
        calls = [message for message in server.asked if message.get("method") == "tools/call"]
    assert [declared(message) for message in calls] == [{}, KNOWS]
    assert len(confirmed) == 1


@pytest.mark.parametrize(
    "data",
    [None, {}, {"requiredCapabilities": {"sampling": {}}}, {"requiredCapabilities": {"extensions": 5}}, 5],
)
def test_a_call_that_is_refused_for_want_of_something_else_is_not_sent_again(data):
    server = Scripted(MODERN, {"tools/call": Refusal(-32021, **({} if data is None else {"data": data}))})
    with connect(server, revision=MODERN) as client:
        with pytest.raises(ErrorResponse):
            client.call_tool("render")
        assert len(server.params("tools/call")) == 1


def test_a_server_of_2025_11_25_is_not_told_in_words_of_2026_07_28_that_its_client_knows_tasks():
    refusal = Refusal(-32021, "as a task alone", data={"requiredCapabilities": KNOWS})
    with scripted(DATE, {"tools/call": refusal}) as (server, client):
        with pytest.raises(ErrorResponse, match="as a task alone"):
            client.call_tool("render")
        assert len(server.params("tools/call")) == 1


@eras
def test_an_error_that_a_task_ends_with_is_no_reason_to_call_again(date):
    error = Refusal(-32021 if date == MODERN else -32601, "no lens", data={"requiredCapabilities": KNOWS})
    failed = state(date, "failed", **({"error": error.error} if date == MODERN else {}))
    answers = {"tasks/result": error, "tasks/get": failed}
    if date == MODERN:
        answers["tools/call"] = required
    server = Scripted(date, answers, support="required")
    with connect(server, revision=date) as client:
        client.list_tools()
        with pytest.raises(ErrorResponse, match="no lens"):
            client.call_tool("render")
        assert len(server.params("tools/call")) == (2 if date == MODERN else 1)


def test_with_no_rounds_a_call_that_is_sent_again_gives_its_question_to_the_caller():
    def call(params):
        task = required(params)
        return task if "requestState" in params else {"resultType": "input_required", "requestState": "s"}

    server = Scripted(MODERN, {"tools/call": call})
    with connect(server, revision=MODERN) as client:
        asked = client.call_tool("render", rounds=0)
        assert asked.is_input_required
        assert client.resume(asked, {}).text == "done"
        assert len(server.params("tools/call")) == 3


def test_a_client_without_tasks_does_not_declare_them_for_a_call_that_wants_them():
    server = Scripted(MODERN, {"tools/call": required})
    with connect(server, revision=MODERN, options=ClientOptions(tasks=False)) as client:
        with pytest.raises(ErrorResponse) as caught:
            client.call_tool("render")
        assert caught.value.code == -32021
        assert len(server.params("tools/call")) == 1


@pytest.mark.spec("extensions/tasks/unsupported-request-invalid")
def test_a_call_that_did_not_say_so_is_not_answered_with_a_task():
    wrong = pytest.raises(InvalidResponse, match="unknown resultType 'task'")
    with connect(Scripted(MODERN), revision=MODERN) as client, wrong:
        client.call_tool("render")


@pytest.mark.spec("extensions/overview/client-advertises", "extensions/tasks/identifier")
def test_an_extension_for_tasks_stands_beside_the_others():
    server = Scripted(MODERN)
    options = ClientOptions(extensions={"com.example/x": {"a": 1}})
    with connect(server, revision=MODERN, options=options) as client:
        client.start_tool("render").cancel()
        client.list_tools()
    mine = {"com.example/x": {"a": 1}}
    both = {**mine, **KNOWS["extensions"]}
    said = [(message["method"], declared(message)["extensions"]) for message in server.asked]
    assert said == [
        ("server/discover", mine),
        ("tools/call", both),
        ("tasks/cancel", both),
        ("tools/list", mine),
    ]


# -- tasks by their ids ----------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/list-cursor-opaque")
def test_the_list_of_tasks_has_those_of_all_pages():
    pages = {None: ("x ÿ", "1"), "x ÿ": ("", "2"), "": (None, "3")}

    def listed(params):
        following, task_id = pages[params.get("cursor")]
        page = {"tasks": [state(DATE, taskId=task_id)]}
        return page if following is None else {**page, "nextCursor": following}

    with scripted(DATE, {"tasks/list": listed}) as (_, client):
        assert [task.id for task in client.list_tasks()] == ["1", "2", "3"]


@pytest.mark.parametrize("page", [{}, {"tasks": 5}, {"tasks": [5]}, {"tasks": [{}]}])
def test_a_list_of_what_are_no_tasks_is_invalid(page):
    with scripted(DATE, {"tasks/list": page}) as (_, client), pytest.raises(InvalidResponse):
        client.list_tasks()


def test_there_is_no_list_in_2026_07_28():
    with scripted(MODERN) as (server, client):
        with pytest.raises(LocalError, match=r"client\.task\(id\)"):
            client.list_tasks()
        assert server.methods() == []


@eras
def test_a_task_that_is_unknown_is_an_error_of_the_server(date):
    with connect(film(), revision=date) as client:
        with pytest.raises(ErrorResponse, match="not found") as caught:
            client.task("unknown")
        assert caught.value.code == -32602
        with pytest.raises(TypeError):
            client.task(5)


@pytest.mark.parametrize("date", LEGACY[:3])
def test_a_revision_without_tasks_says_what_to_write_instead(date):
    with connect(film(), revision=date) as client:
        acts = (lambda: client.start_tool("plain"), lambda: client.task("x"), client.list_tasks)
        for act in acts:
            with pytest.raises(LocalError, match=f"there are no tasks in {date}: use call_tool"):
                act()
        assert client.call_tool("plain").text == "plain"


def test_a_client_that_does_not_want_tasks_says_how_to_have_them():
    with connect(film(), revision=MODERN, options=ClientOptions(tasks=False)) as client:
        for act in (lambda: client.start_tool("plain"), lambda: client.task("x")):
            with pytest.raises(LocalError, match=r"options=ClientOptions\(tasks=True\)"):
                act()
        with pytest.raises(ErrorResponse) as caught:
            client.call_tool("render", {"frames": 1})
        assert caught.value.code == -32021
        assert client.call_tool("plain").text == "plain"


def test_a_server_that_answers_with_a_task_though_it_was_not_declared_is_wrong():
    wrong = pytest.raises(InvalidResponse, match="unknown resultType 'task'")
    with scripted(MODERN, options=ClientOptions(tasks=False)) as (_, client), wrong:
        client.call_tool("render")


def test_a_result_of_2025_11_25_is_no_task_because_it_says_so_in_words_of_2026_07_28():
    answers = {"tools/call": {**DONE, **created(MODERN)}}
    with scripted(DATE, answers) as (_, client), pytest.raises(InvalidResponse, match="resultType"):
        client.call_tool("render")


# -- futures of calls ------------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/tool-required", "extensions/tasks/client-handles-both")
@eras
def test_the_future_of_a_call_waits_for_the_end_of_its_task(date):
    """Also in 2025-11-25, where the call itself has to ask for the task."""
    with connect(film(), revision=date) as client:
        futures = [client.submit_tool("render", {"frames": n}, returns=dict[str, int]) for n in range(3)]
        assert [future.result(PATIENCE) for future in futures] == [{"frames": n} for n in range(3)]
        assert client.submit_tool("plain").result(PATIENCE).text == "plain"
        assert client.submit_tool("fail").result(PATIENCE).is_error


@eras
def test_a_request_by_hand_that_asks_for_a_task_has_what_the_server_sent(date):
    with connect(film(), revision=date) as client:
        params = {"name": "render", "arguments": {"frames": 1}, "task": {}}
        result = client.submit("tools/call", params).result(PATIENCE)
        assert ("task" in result) == (date == DATE)


@eras
def test_a_task_of_a_client_that_checks_raises_what_its_tool_said(date):
    with connect(film(), revision=date, check=True) as client:
        task = client.start_tool("fail")
        for each in (task, task if task.id == "" else client.task(task.id)):
            with pytest.raises(ToolError, match="no film in the camera"):
                each.result(PATIENCE)
        with pytest.raises(ToolError, match="no film in the camera"):
            client.call_tool("fail")
        if date == DATE:
            (listed,) = [each for each in client.list_tasks() if each.id == task.id]
            with pytest.raises(ToolError, match="no film in the camera"):
                listed.result(PATIENCE)
    with connect(film(), revision=date) as client:
        assert client.start_tool("fail").result(PATIENCE).is_error
