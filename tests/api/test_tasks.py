"""Tasks: what a client does with them, in both eras, and with servers that say what is wrong."""

import contextlib
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from http_peers import endpoint, serving
from peers import ENV, MODERN, PATIENCE, eventually, python, source
from task_peers import Stage, lines
from task_scripts import (
    DATE,
    DONE,
    ID,
    OUT,
    SILENCE,
    FakeTime,
    Refusal,
    asking,
    created,
    film,
    patched,
    poll,
    scripted,
    state,
    tool,
)
from web import JSON, talking

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    ErrorResponse,
    InvalidResponse,
    McpError,
    RequestTimeout,
    Server,
    connect,
)
from mcp_ref.api import requests, results
from mcp_ref.api import tasks as module
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.basic.utilities.tasks import behavior_requirements
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.runtime.errors import LocalError, RequestCancelled

ERAS = (DATE, MODERN)
eras = pytest.mark.parametrize("date", ERAS)


@pytest.fixture(autouse=True)
def threads_that_end_soon(monkeypatch):
    """Those that run tasks on a server, which does not know that the test is over."""
    monkeypatch.setattr(behavior_requirements, "IDLE_SECONDS", 0.02)


def until_over(task, seconds=PATIENCE):
    return [(each.status, each.message) for each in task.updates(seconds)]


# -- from the call to the result -------------------------------------------------------------------


@pytest.mark.spec(
    "extensions/tasks/lifecycle-exposed",
    "extensions/tasks/client-handles-both",
    "basic/utilities/tasks/tool-optional",
)
@eras
def test_a_call_is_started_as_a_task_whose_result_is_that_of_the_call(date):
    with connect(film(), revision=date) as client:
        task = client.start_tool("render", {"frames": 3}, ttl=60)
        assert task.id
        assert task.status in ("working", "completed")
        result = task.result(PATIENCE)
        assert result.structured == {"frames": 3}
        assert (task.status, task.is_over) == ("completed", True)
        assert task.result() is result
        assert repr(task) == f"<Task {task.id} completed>"


@pytest.mark.spec("basic/utilities/tasks/ttl-requested")
def test_the_lifetime_that_is_asked_for_is_sent_in_milliseconds():
    with scripted(DATE) as (server, client):
        assert client.start_tool("render", ttl=1.5).ttl == 60
        assert server.params("tools/call")[0]["task"] == {"ttl": 1500}
        client.start_tool("render")
        assert server.params("tools/call")[1]["task"] == {}
        for ttl in (0, -1, float("nan")):
            with pytest.raises(ValueError, match="ttl"):
                client.start_tool("render", ttl=ttl)
        assert len(server.params("tools/call")) == 2


@eras
def test_a_task_that_is_kept_for_ever_has_no_ttl(date):
    name = "ttlMs" if date == MODERN else "ttl"
    with scripted(date, {"tools/call": created(date, **{name: None})}) as (_, client):
        assert client.start_tool("render").ttl is None


@pytest.mark.spec("extensions/tasks/client-handles-both")
def test_a_call_that_a_server_of_2026_07_28_answers_at_once_is_a_task_that_is_over():
    with connect(film(), revision=MODERN) as client:
        task = client.start_tool("plain")
        assert (task.id, task.status, task.is_over, task.ttl) == ("", "completed", True, None)
        assert until_over(task) == [("completed", None)]
        assert task.refresh().result().text == "plain"
        task.cancel()
        assert not client.asker.connection.waiting


@pytest.mark.parametrize("answer", [DONE, {**DONE, "structuredContent": {"n": "no number"}}])
def test_a_server_that_ignores_the_wish_for_a_task_gives_the_result_which_is_checked(answer):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    good = {**DONE, "structuredContent": {"n": 1}}
    listed = tool(outputSchema=schema)
    with scripted(DATE, {"tools/call": [good, answer], "tools/list": listed}) as (server, client):
        assert client.start_tool("render").result().structured == {"n": 1}
        with pytest.raises(InvalidResponse, match="structured"):
            client.start_tool("render", on_progress=print)
        assert not client.asker.connection.session.reporters
        assert server.methods() == ["tools/list", "tools/call", "tools/call", "tools/list"]


@eras
def test_the_result_of_a_task_is_checked_against_the_schema_of_its_tool(date):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    wrong = {**DONE, "structuredContent": {"n": "no number"}}
    answers = {
        "tools/list": tool(outputSchema=schema),
        "tasks/result": wrong,
        "tasks/get": state(date, "completed", **({"result": wrong} if date == MODERN else {})),
    }
    with scripted(date, answers) as (_, client):
        task = client.start_tool("render")
        for _ in range(2):
            with pytest.raises(InvalidResponse, match="structuredContent"):
                task.result(PATIENCE)


@eras
@pytest.mark.parametrize(
    "result", [{"content": 5}, {}, {"resultType": "task", **DONE}, {"resultType": "input_required", **DONE}]
)
def test_the_result_of_a_task_that_is_no_result_of_a_tool_is_invalid(date, result):
    get = state(date, "completed", **({"result": result} if date == MODERN else {}))
    with scripted(date, {"tasks/result": {**result}, "tasks/get": get}) as (_, client):
        with pytest.raises(InvalidResponse, match=r"tools/call|tasks/result"):
            client.start_tool("render").result(PATIENCE)
        with pytest.raises(InvalidResponse, match=r"tools/call|tasks/result"):
            client.task(ID).result(PATIENCE)


@pytest.mark.spec("basic/utilities/tasks/failed-status")
@eras
def test_a_tool_that_fails_is_a_result_in_both_eras(date):
    with connect(film(), revision=date) as client:
        task = client.start_tool("fail")
        assert task.result(PATIENCE).is_error
        assert task.result().text == "no film in the camera"
        assert task.status == ("completed" if date == MODERN else "failed")


@eras
def test_an_error_that_a_call_ended_with_is_raised_each_time(date):
    refusal = Refusal(-32603, "broken", data={"lens": 1})
    get = state(date, "failed")
    if date == MODERN:
        get["error"] = refusal.error
    with scripted(date, {"tasks/result": refusal, "tasks/get": get}) as (_, client):
        task = client.start_tool("render")
        for _ in range(2):
            with pytest.raises(ErrorResponse, match="broken") as caught:
                task.result(PATIENCE)
            assert (caught.value.code, caught.value.data) == (-32603, {"lens": 1})
        assert task.status == "failed"


@pytest.mark.spec("extensions/tasks/client-handles-both")
def test_a_task_that_is_over_when_it_is_handed_out_is_looked_at_for_its_result():
    forged = created(MODERN, "completed", result={"content": "forged"})
    with scripted(MODERN, {"tools/call": forged}) as (server, client):
        assert client.start_tool("render").result(PATIENCE).text == "done"
        assert server.methods() == ["tools/call", "tasks/get"]


# -- looking at it ---------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/utilities/tasks/poll-until-terminal",
    "basic/utilities/tasks/status-notification-not-relied",
    "basic/utilities/tasks/notify-not-relied",
    "basic/utilities/tasks/keep-polling",
    "extensions/tasks/poll-until-terminal",
)
@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
@eras
def test_a_task_is_looked_at_until_it_is_over_where_nothing_is_told_of_it(date, end):
    gets = [
        state(date),
        state(date, statusMessage="half"),
        state(date, statusMessage="half"),
        state(date, end),
    ]
    with scripted(date, {"tasks/get": gets}) as (server, client):
        task = client.start_tool("render")
        assert until_over(task) == [("working", None), ("working", "half"), (end, None)]
        assert server.params("tasks/get") == [{"taskId": ID}] * 4
        assert until_over(task) == [(end, None)]
        assert len(server.params("tasks/get")) == 4


@contextlib.contextmanager
def without_time(date, **options):
    """Time passes in the pauses alone."""
    clock = FakeTime()
    with (
        patched(module, time=clock, chance=SimpleNamespace(fraction=lambda: 0.0)),
        patched(module.WAYS["decided" if date == MODERN else "asked for"], news=lambda task, deadline: clock),
    ):
        yield clock


@pytest.mark.spec(
    "basic/utilities/tasks/respect-poll-interval",
    "basic/utilities/tasks/poll-interval-respected",
    "extensions/tasks/poll-interval-honoured",
    "extensions/tasks/poll-interval-respected",
)
@eras
def test_the_interval_that_the_server_suggested_last_passes_before_each_look(date):
    gets = [
        state(date, **poll(date, 7000)),
        state(date, statusMessage="x", **poll(date, 20)),
        state(date, "completed"),
    ]
    first = created(date, **poll(date, 5000))
    with (
        scripted(date, {"tools/call": first, "tasks/get": gets}) as (server, client),
        without_time(date) as clock,
    ):
        assert until_over(client.start_tool("render"), 60)[-1] == ("completed", None)
        assert clock.pauses == pytest.approx([5.0, 7.0, 0.02])
        assert len(server.params("tasks/get")) == 3


@eras
@pytest.mark.parametrize("suggested", [OUT, 0, -1])
def test_without_an_interval_the_pauses_grow_to_a_limit(date, suggested):
    def get(params):
        return state(
            date, "completed" if len(server.params("tasks/get")) > 20 else "working", **poll(date, suggested)
        )

    first = created(date, **poll(date, suggested))
    with (
        scripted(date, {"tools/call": first, "tasks/get": get}) as (server, client),
        without_time(date) as clock,
    ):
        until_over(client.start_tool("render"), 1000)
    assert clock.pauses[:3] == pytest.approx([0.1, 0.15, 0.225])
    assert clock.pauses[15:] == [module.MAX_PAUSE_SECONDS] * 6
    assert sorted(clock.pauses) == clock.pauses


@eras
@pytest.mark.parametrize("suggested", [10**12, 10**400])
def test_an_interval_beyond_all_measure_is_cut(date, suggested):
    gets = [state(date, **poll(date, suggested)), state(date, "completed")]
    with scripted(date, {"tasks/get": gets}) as (_, client), without_time(date) as clock:
        until_over(client.start_tool("render"), 10_000)
    assert clock.pauses[1:] == [module.MAX_SUGGESTED_SECONDS]


@eras
def test_part_of_each_pause_is_left_to_chance_and_makes_it_longer(date):
    with (
        scripted(date, {"tools/call": created(date, **poll(date, 1000))}) as (_, client),
        without_time(date) as clock,
        patched(module, chance=SimpleNamespace(fraction=lambda: 0.5)),
    ):
        until_over(client.start_tool("render"))
    assert clock.pauses == pytest.approx([1.05])


@eras
def test_a_look_that_comes_too_often_for_the_server_is_repeated_later(date):
    gets = [Refusal(429, "slower"), Refusal(429, "slower"), state(date, "completed")]
    with scripted(date, {"tasks/get": gets}) as (server, client):
        assert until_over(client.start_tool("render"))[-1] == ("completed", None)
        assert len(server.params("tasks/get")) == 3


@eras
def test_a_server_that_is_too_busy_is_asked_about_the_task_when_it_says(date):
    """All its threads were taken: 503 with Retry-After. It has done no part of the requests."""
    left = 0

    def too_busy(environ, start_response):
        nonlocal left
        if not left:
            return app(environ, start_response)
        left -= 1
        start_response("503 Service Unavailable", [("Retry-After", "0"), ("Content-Length", "0")])
        return []

    with Stage(grace=0, poll_interval=0.01) as stage:
        stage.add_usual()
        app = stage.server.wsgi_app()
        with (
            serving(too_busy) as at,
            contextlib.closing(app),
            connect(f"http://127.0.0.1:{at.port}/mcp", revision=date) as client,
        ):
            task = client.start_tool("hold", ttl=60.0)
            assert stage.is_entered()
            stage.open.set()
            left = 4  # the subscription, or tasks/result; and looks
            assert task.result(PATIENCE).text == "through"
    assert left == 0


@eras
def test_a_server_that_turns_away_look_after_look_is_given_up(date):
    answers = {"tasks/get": Refusal(429, "slower")}
    with patched(module, MAX_TURNED_AWAY=3), scripted(date, answers) as (server, client):
        task = client.start_tool("render")
        with pytest.raises(ErrorResponse, match="slower"):
            until_over(task)
        assert len(server.params("tasks/get")) == 4


def test_a_task_that_was_over_at_once_is_fetched_from_a_busy_server():
    """The answer to the call says that it is over, and not what its result is."""
    answers = {
        "tools/call": created(MODERN, "completed"),
        "tasks/get": [Refusal(429), Refusal(429), state(MODERN, "completed")],
    }
    with scripted(MODERN, answers) as (server, client):
        assert client.start_tool("render").result(PATIENCE).text == "done"
        assert len(server.params("tasks/get")) == 3
    answers["tasks/get"] = Refusal(429, data={"retryAfterMs": 60_000})
    with scripted(MODERN, answers) as (_, client):
        task = client.start_tool("render")
        with pytest.raises(RequestTimeout, match="not over in time"):
            task.result(0.1)


@eras
@pytest.mark.parametrize("answer", [Refusal(-32602, "Task not found"), Refusal(-32603)])
def test_any_other_error_of_a_look_is_for_the_caller(date, answer):
    with scripted(date, {"tasks/get": answer, "tasks/result": answer}) as (_, client):
        task = client.start_tool("render")
        for act in (task.refresh, lambda: list(task.updates(PATIENCE)), lambda: task.result(PATIENCE)):
            with pytest.raises(ErrorResponse) as caught:
                act()
            assert caught.value.code == answer.error["code"]


# -- what the server tells -------------------------------------------------------------------------


HOUR = 3_600_000


@pytest.mark.spec("extensions/tasks/listen-by-task-ids", "extensions/tasks/poll-beside-notifications")
def test_changes_are_heard_by_a_subscription_to_the_task():
    slow = state(MODERN, **poll(MODERN, HOUR))
    answers = {"tools/call": created(MODERN, **poll(MODERN, HOUR)), "tasks/get": slow}
    with scripted(MODERN, answers, acknowledged=[ID]) as (server, client):
        states = client.start_tool("render").updates(PATIENCE)
        assert next(states).status == "working"
        found = []

        def follow():
            found.extend((each.status, each.message) for each in states)

        thread = threading.Thread(target=follow)
        thread.start()
        assert server.is_asked("tasks/get")  # once, for what changed before the subscription
        server.say("notifications/tasks", {**slow, "statusMessage": "half"})
        server.say("notifications/tasks", state(MODERN, "completed"))
        thread.join(PATIENCE)
        assert found[-1] == ("completed", None)
        assert server.params("subscriptions/listen") == [{"notifications": {"taskIds": [ID]}}]
        assert len(server.params("tasks/get")) == 1
        assert server.is_asked("notifications/cancelled")  # of the subscription, and of nothing else


@pytest.mark.spec("basic/utilities/tasks/keep-polling")
def test_a_status_notification_is_heard_before_it_is_time_to_look():
    slow = state(DATE, **poll(DATE, HOUR))
    with scripted(DATE, {"tools/call": created(DATE, **poll(DATE, HOUR)), "tasks/get": slow}) as (
        server,
        client,
    ):
        states = client.start_tool("render").updates(PATIENCE)
        next(states)
        found = []
        thread = threading.Thread(target=lambda: found.extend(each.status for each in states))
        thread.start()
        assert eventually(lambda: client.asker.task_news)
        server.say("notifications/tasks/status", state(DATE, "completed"))
        thread.join(PATIENCE)
        assert found == ["completed"]
        assert server.params("tasks/get") == []
        assert not client.asker.task_news


WRONG = [
    {"status": OUT},
    {"status": "sleeping"},
    {"status": 5},
    {"createdAt": OUT},
    {"createdAt": 5},
    {"statusMessage": ["half"]},
    {"taskId": OUT},
    {"taskId": 5},
    {"taskId": "another"},
    {"pollInterval": "soon", "pollIntervalMs": "soon"},
    {"ttl": "long", "ttlMs": "long"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
@eras
def test_a_notification_of_a_wrong_shape_or_about_another_task_changes_nothing(date, wrong):
    slow = state(date, **poll(date, HOUR))
    answers = {"tools/call": created(date, **poll(date, HOUR)), "tasks/get": slow}
    method = "notifications/tasks" if date == MODERN else "notifications/tasks/status"
    with scripted(date, answers, acknowledged=[ID]) as (server, client):
        states = client.start_tool("render").updates(PATIENCE)
        next(states)
        found = []
        thread = threading.Thread(target=lambda: found.extend(each.status for each in states))
        thread.start()
        assert server.is_asked("tasks/get") if date == MODERN else eventually(lambda: client.asker.task_news)
        server.say(method, state(date, "failed", **wrong))
        server.say(method, state(date, "completed"))
        thread.join(PATIENCE)
        assert found == ["completed"]
        assert len(server.params("tasks/get")) == (1 if date == MODERN else 0)


@pytest.mark.parametrize("answer", ["none of them", "error", "silence", "another task"])
def test_a_server_that_reports_no_changes_of_a_task_is_asked_for_them(answer, caplog):
    """It is no reason for a warning, either: "Servers MAY push status updates"."""
    listens = {"error": Refusal(-32601), "silence": SILENCE}
    answers = {"tasks/get": [state(MODERN)] * 3 + [state(MODERN, "completed")]}
    if answer in listens:
        answers["subscriptions/listen"] = listens[answer]
    reported = ["another"] if answer == "another task" else []
    with (
        scripted(MODERN, answers, acknowledged=reported) as (server, client),
        patched(module, LISTEN_SECONDS=0.05),
    ):
        assert client.start_tool("render").result(PATIENCE).text == "done"
        assert len(server.params("tasks/get")) == 4
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_it_is_noted_why_the_changes_of_a_task_are_not_heard_of(caplog):
    caplog.set_level(logging.INFO, "mcp_ref")
    answers = {"subscriptions/listen": Refusal(-32601, "not here"), "tasks/get": state(MODERN, "completed")}
    with scripted(MODERN, answers) as (_, client), patched(module, LISTEN_SECONDS=PATIENCE):
        assert client.start_tool("render").result(PATIENCE).text == "done"
    (said,) = [r.getMessage() for r in caplog.records if "there is no hearing of its changes" in r.msg]
    assert "not here" in said


def test_when_the_server_ends_the_subscription_the_pauses_are_kept_all_the_same():
    def get(params):
        server.end_subscription()
        return state(MODERN, **poll(MODERN, HOUR))

    with scripted(MODERN, {"tasks/get": get}, acknowledged=[ID]) as (server, client):
        task = client.start_tool("render")
        for seconds in (2, 8):  # the second for a machine so busy that the first look was not yet taken
            with pytest.raises(RequestTimeout, match="not over in time"):
                task.result(seconds)
            if server.params("tasks/get"):
                break
        assert len(server.params("tasks/get")) == 1


@pytest.mark.parametrize(
    ("date", "wait", "last", "special"),
    [
        (DATE, lambda task: list(task.updates()), "tools/call", {}),
        (DATE, lambda task: task.result(), "tasks/get", {"tasks/result": Refusal(429, "too many")}),
        (MODERN, lambda task: task.result(), "tasks/get", {}),
        (
            MODERN,
            lambda task: task.result(),
            "subscriptions/listen",
            {"subscriptions/listen": Refusal(-32601)},
        ),
    ],
    ids=["notifications", "turned away", "subscription", "polled"],
)
def test_a_wait_for_a_task_ends_when_the_client_is_closed(date, wait, last, special):
    """Also where the server wants the task looked at in an hour."""
    hour = poll(date, HOUR)
    answers = {"tools/call": created(date, **hour), "tasks/get": state(date, **hour), **special}
    with scripted(date, answers, acknowledged=[ID]) as (server, client):
        task, raised = client.start_tool("render"), []

        def follow():
            with pytest.raises(ConnectionClosed) as caught:
                wait(task)
            raised.append(str(caught.value))

        thread = threading.Thread(target=follow)
        thread.start()
        assert server.is_asked(last)
        assert date == MODERN or special or eventually(lambda: client.asker.task_news)
        client.close()
        thread.join(PATIENCE)
        assert raised == ["this client was closed"]


# -- wrong servers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [w for w in WRONG if w.get("taskId") != "another"], ids=str)
@eras
def test_a_task_of_a_wrong_shape_is_an_invalid_answer_to_the_call(date, wrong):
    with scripted(date, {"tools/call": created(date, **wrong)}) as (_, client):
        with pytest.raises(InvalidResponse, match="tools/call"):
            client.start_tool("render", on_progress=print)
        assert not client.asker.connection.session.reporters


@pytest.mark.spec("basic/utilities/tasks/create-result-nested")
@pytest.mark.parametrize("task", [None, 5, "x", [], {}])
def test_what_is_no_task_is_an_invalid_answer_to_the_call(task):
    with scripted(DATE, {"tools/call": {"task": task}}) as (_, client), pytest.raises(InvalidResponse):
        client.start_tool("render")


@pytest.mark.parametrize("wrong", WRONG, ids=str)
@eras
def test_a_task_of_a_wrong_shape_or_another_one_is_an_invalid_answer_to_a_look(date, wrong):
    with scripted(date, {"tasks/get": state(date, **wrong)}) as (_, client):
        task = client.start_tool("render")
        with pytest.raises(InvalidResponse, match="tasks/get"):
            task.refresh()
        assert (task.id, task.status) == (ID, "working")
        with pytest.raises(InvalidResponse, match="tasks/get"):
            client.task(ID)


@pytest.mark.parametrize(
    "missing", [("completed", "result"), ("failed", "error"), ("input_required", "inputRequests")]
)
def test_a_task_without_what_its_status_brings_is_an_invalid_answer(missing):
    status, member = missing
    with scripted(MODERN, {"tasks/get": state(MODERN, status, **{member: OUT})}) as (_, client):
        task = client.start_tool("render")
        with pytest.raises(InvalidResponse, match="tasks/get"):
            task.result(PATIENCE)


@pytest.mark.spec("extensions/tasks/unsupported-request-invalid")
@pytest.mark.parametrize("method", ["tools/list", "tasks/get", "tasks/update", "vendor/x"])
def test_a_task_in_answer_to_anything_but_a_call_is_invalid(method):
    with (
        scripted(MODERN, {method: created(MODERN)}) as (_, client),
        pytest.raises(InvalidResponse, match="task"),
    ):
        client.request(method, {"taskId": ID})


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
@eras
def test_a_task_that_is_over_stays_over_whatever_the_server_says(date, end, caplog):
    caplog.set_level(logging.INFO, "mcp_ref.tasks")
    gets = [state(date, end), state(date), state(date, "cancelled" if end == "completed" else "completed")]
    with scripted(date, {"tasks/get": gets}) as (_, client):
        task = client.start_tool("render")
        assert [task.refresh().status for _ in range(3)] == [end] * 3
        assert until_over(task) == [(end, None)]
    assert "which is ignored" in caplog.text


# -- waiting for the result, 2025-11-25 ------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/related-task-not-in-requests")
def test_the_result_is_one_request_that_waits_on_the_server():
    with scripted(DATE) as (server, client):
        task = client.start_tool("render")
        assert task.result(PATIENCE).text == "done"
        assert server.methods("tools/list") == ["tools/call", "tasks/result"]
        assert server.params("tasks/result") == [{"taskId": ID}]
        task.refresh()
        with contextlib.suppress(ErrorResponse):
            task.cancel()
        about = [m for m in server.asked if m.get("method", "").startswith("tasks/")]
        assert all("_meta" not in message["params"] for message in about)


@pytest.mark.spec("basic/utilities/tasks/poll-beside-result")
def test_a_result_that_cannot_be_waited_for_is_fetched_when_the_task_is_over():
    gets = [state(DATE), state(DATE), state(DATE, "completed")]
    answers = {"tasks/result": [Refusal(429, "too many wait"), DONE], "tasks/get": gets}
    with scripted(DATE, answers) as (server, client):
        assert client.start_tool("render").result(PATIENCE).text == "done"
        assert server.methods("tools/list") == [
            "tools/call",
            "tasks/result",
            *["tasks/get"] * 3,
            "tasks/result",
        ]


def test_a_server_that_does_not_wait_but_refuses_is_asked_again_when_the_task_is_over():
    gets = [state(DATE), state(DATE, "completed")]
    answers = {"tasks/result": [Refusal(-32602, "not completed yet"), DONE], "tasks/get": gets}
    with scripted(DATE, answers) as (_, client):
        assert client.start_tool("render").result(PATIENCE).text == "done"


def test_a_server_that_never_answers_is_given_up_once_the_task_is_over():
    gets = [state(DATE), state(DATE), state(DATE, "completed")]
    with (
        scripted(DATE, {"tasks/result": SILENCE, "tasks/get": gets}) as (server, client),
        patched(module, RESULT_SECONDS=0.05),
    ):
        with pytest.raises(RequestTimeout, match="tasks/result"):
            client.start_tool("render").result(PATIENCE)
        assert len(server.params("tasks/result")) == 2


def test_what_waits_for_a_result_is_used_again_after_a_time_out():
    with scripted(DATE, {"tasks/result": SILENCE}) as (server, client):
        task = client.start_tool("render")
        for _ in range(3):
            with pytest.raises(RequestTimeout, match="not over in time"):
                task.result(0.01)
        assert server.is_asked("tasks/result")
        server.reply(next(m for m in server.asked if m["method"] == "tasks/result"), DONE)
        assert task.result(PATIENCE).text == "done"
        assert len(server.params("tasks/result")) == 1


@pytest.mark.spec("basic/utilities/tasks/call-result-on-input-required")
def test_the_result_is_asked_for_when_the_task_wants_input():
    gets = [state(DATE, "input_required")] * 3 + [state(DATE, "completed")]
    with scripted(DATE, {"tasks/get": gets, "tasks/result": SILENCE}) as (server, client):
        task = client.start_tool("render")
        assert until_over(task) == [("working", None), ("input_required", None), ("completed", None)]
        assert len(server.params("tasks/result")) == 1
        server.reply(next(m for m in server.asked if m["method"] == "tasks/result"), DONE)
        assert task.result(PATIENCE).text == "done"
        assert len(server.params("tasks/result")) == 1


# -- what a task asks ------------------------------------------------------------------------------


@pytest.mark.spec(
    "extensions/tasks/client-inspects-inputs",
    "extensions/tasks/client-fulfils-inputs",
    "extensions/tasks/client-provides-inputs",
    "extensions/tasks/observe-after-update",
    "extensions/tasks/inputs-same-trust",
)
@pytest.mark.parametrize("wait", ["result", "updates"])
@eras
def test_what_a_task_asks_is_answered_by_the_callbacks(date, wait):
    asked = []

    def answer(request):
        asked.append(request.message)
        return {}

    with connect(film(), revision=date, elicitation=answer) as client:
        task = client.start_tool("ask", {"times": 3})
        if wait == "updates":
            assert until_over(task)[-1][0] == "completed"
        assert task.result(PATIENCE).text == "accept accept accept"
    assert asked == ["Question 0", "Question 1", "Question 2"]


@pytest.mark.spec(
    "extensions/tasks/inputs-deduplicated",
    "extensions/tasks/answered-keys-tracked",
    "extensions/tasks/update-keys-outstanding",
)
def test_a_question_that_is_seen_again_is_answered_once():
    asked = []
    gets = [
        asking("a"),
        asking("a"),
        asking("a", "b"),
        asking("a", "b"),
        asking("b"),
        state(MODERN, "completed"),
    ]
    with scripted(MODERN, {"tasks/get": gets}, elicitation=lambda request: asked.append(1) or {}) as (
        server,
        client,
    ):
        assert client.start_tool("render").result(PATIENCE).text == "done"
        updates = server.params("tasks/update")
    assert [sorted(update["inputResponses"]) for update in updates] == [["a"], ["b"]]
    assert all(update["taskId"] == ID for update in updates)
    assert len(asked) == 2


def test_an_answer_that_did_not_arrive_is_sent_again_and_not_asked_for_again():
    asked = []
    gets = [asking("a"), asking("a"), state(MODERN, "completed")]
    answers = {"tasks/get": gets, "tasks/update": [Refusal(-32603), {}]}
    with scripted(MODERN, answers, elicitation=lambda request: asked.append(1) or {}) as (server, client):
        task = client.start_tool("render")
        with pytest.raises(ErrorResponse):
            task.result(PATIENCE)
        assert task.result(PATIENCE).text == "done"
        first, second = server.params("tasks/update")
    assert first == second
    assert len(asked) == 1


def test_an_answer_that_a_busy_server_turned_away_is_sent_again():
    asked = []
    gets = [asking("a"), asking("a"), state(MODERN, "completed")]
    answers = {"tasks/get": gets, "tasks/update": [Refusal(429, "too many"), {}]}
    with scripted(MODERN, answers, elicitation=lambda request: asked.append(1) or {}) as (server, client):
        assert client.start_tool("render").result(PATIENCE).text == "done"
        first, second = server.params("tasks/update")
    assert first == second
    assert len(asked) == 1


def test_a_question_that_cannot_be_answered_is_refused_to_the_caller_and_the_task_goes_on():
    gets = [asking("a"), asking("a"), asking("a"), state(MODERN, "completed")]
    with scripted(MODERN, {"tasks/get": gets}) as (server, client):
        task = client.start_tool("render")
        with pytest.raises(InputRefused, match="elicitation/create"):
            task.result(PATIENCE)
        assert (task.status, server.params("tasks/update"), server.params("tasks/cancel")) == (
            "input_required",
            [],
            [],
        )
        client.asker.answering.callbacks.elicitation = lambda request: {}
        assert task.result(PATIENCE).text == "done"
        assert len(server.params("tasks/update")) == 1


def test_what_was_answered_is_sent_though_the_next_question_is_refused():
    def answer(request):
        if len(asked) == 1:
            asked.append("no")
            raise ValueError("I will not")
        asked.append("yes")
        return {}

    asked = []
    with scripted(MODERN, {"tasks/get": [asking("a", "b")]}, elicitation=answer) as (server, client):
        with pytest.raises(InputRefused, match="I will not"):
            client.start_tool("render").result(PATIENCE)
        assert [list(update["inputResponses"]) for update in server.params("tasks/update")] == [["a"]]
    assert asked == ["yes", "no"]


@pytest.mark.parametrize(
    "request_", [{"method": "vendor/x"}, {"method": ["elicitation/create"]}, {}, 5, {"method": 5}]
)
def test_what_is_no_request_of_a_server_is_refused_before_anything_is_asked(request_):
    asked = []
    task = asking("a")
    task["inputRequests"]["b"] = request_
    with scripted(MODERN, {"tasks/get": task}, elicitation=lambda request: asked.append(1)) as (
        server,
        client,
    ):
        with pytest.raises(InvalidResponse, match="tasks/get"):
            client.start_tool("render").result(PATIENCE)
        assert server.params("tasks/update") == []
    assert asked == []


def test_a_task_that_asks_without_end_is_given_up(monkeypatch):
    from mcp_ref.extensions import tasks as extension

    monkeypatch.setattr(extension, "MAX_KEYS", 5)

    def get(params):
        return asking(f"key {len(server.params('tasks/get'))}")

    with scripted(MODERN, {"tasks/get": get}, elicitation=lambda request: {}) as (server, client):
        with pytest.raises(InputRefused, match="5 questions"):
            client.start_tool("render").result(PATIENCE)
        assert len(server.params("tasks/update")) == 5


# -- time, cancellation, loss ----------------------------------------------------------------------


@eras
def test_a_task_that_is_not_over_in_time_goes_on(date):
    answers = {"tasks/get": state(date, **poll(date, 10)), "tasks/result": SILENCE}
    with scripted(date, answers, acknowledged=[ID]) as (server, client):
        task = client.start_tool("render")
        for act in (lambda: task.result(0.05), lambda: list(task.updates(0.05))):
            with pytest.raises(RequestTimeout, match=f"the task {ID} is not over in time: it is working"):
                act()
        assert server.params("tasks/cancel") == []
        for timeout in (0, -1, "1"):
            with pytest.raises((ValueError, TypeError), match="timeout"):
                task.result(timeout)
            with pytest.raises((ValueError, TypeError), match="timeout"):
                task.updates(timeout)


@eras
def test_the_time_of_the_wait_bounds_a_look_that_is_not_answered(date):
    answers = {"tasks/get": SILENCE, "tasks/result": Refusal(429)}
    with scripted(date, answers, acknowledged=[ID]) as (_, client):
        task = client.start_tool("render")
        with pytest.raises(RequestTimeout, match="not over in time"):
            task.result(0.1)
    with scripted(date, {"tasks/get": SILENCE}) as (_, client):
        task = client.start_tool("render")
        client.asker.connection.timeout = 0.1  # from here on: what came before may have taken longer
        with pytest.raises(RequestTimeout, match="tasks/get: no answer"):
            task.refresh()


@pytest.mark.spec(
    "basic/patterns/cancellation/task-uses-tasks-cancel", "extensions/tasks/cancel-not-by-notification"
)
@eras
def test_a_task_is_cancelled_by_a_request_and_not_by_a_notification(date):
    answers = {
        "tasks/get": state(date, "cancelled", statusMessage="by request"),
        "tasks/result": Refusal(-32603),
    }
    with scripted(date, answers) as (server, client):
        task = client.start_tool("render")
        task.cancel()
        assert server.params("tasks/cancel") == [{"taskId": ID}]
        assert task.status == ("working" if date == MODERN else "cancelled")
        for _ in range(2):
            with pytest.raises(RequestCancelled):
                task.result(PATIENCE)
        assert task.status == "cancelled"
        assert not any(m.get("params", {}).get("requestId") == 2 for m in server.asked)


@eras
def test_a_task_that_is_cancelled_while_another_thread_waits_ends_that_wait(date):
    with Stage() as stage:
        stage.add_usual()
        with connect(stage.server, revision=date) as client:
            task = client.start_tool("hold")
            caught = []

            def wait():
                with pytest.raises(RequestCancelled) as found:
                    client.task(task.id).result(PATIENCE)
                caught.append(found.value)

            thread = threading.Thread(target=wait)
            thread.start()
            assert stage.is_entered()
            task.cancel()
            thread.join(PATIENCE)
            assert "cancelled" in str(caught[0])
            if date == DATE:
                with pytest.raises(ErrorResponse, match="terminal status"):
                    task.cancel()


@pytest.mark.spec(
    "extensions/tasks/cancel-client-forgets", "basic/utilities/tasks/cancel-retention-not-relied"
)
@eras
def test_a_cancelled_task_that_the_server_has_deleted_is_an_error_and_no_endless_wait(date):
    gone = Refusal(-32602, "Task not found")
    with scripted(date, {"tasks/get": gone, "tasks/result": gone}) as (_, client):
        task = client.start_tool("render")
        task.cancel()
        with pytest.raises(ErrorResponse, match="not found"):
            task.result(PATIENCE)


@pytest.mark.parametrize("part", ["cancel", "list"])
def test_what_a_server_of_2025_11_25_did_not_declare_is_not_asked_of_it(part):
    declared = {name: {} for name in ("cancel", "list") if name != part}
    declared["requests"] = {"tools": {"call": {}}}
    with scripted(DATE, tasks=declared) as (server, client):
        task = client.start_tool("render")
        with pytest.raises(LocalError, match=f"did not declare the capability 'tasks.{part}'"):
            task.cancel() if part == "cancel" else client.list_tasks()
        assert server.params(f"tasks/{part}") == []


@eras
def test_a_connection_that_is_lost_ends_the_wait_and_another_one_finds_the_task(date):
    with Stage(grace=0) as stage:
        stage.add_usual()
        with connect(stage.server, revision=date) as first:
            task = first.start_tool("hold")
            caught = []

            def wait():
                with pytest.raises(ConnectionClosed) as found:
                    task.result(PATIENCE)
                caught.append(found.value)

            thread = threading.Thread(target=wait)
            thread.start()
            assert stage.is_entered()
            assert eventually(lambda: first.asker.connection.waiting)
            first.close()
            thread.join(PATIENCE)
            assert len(caught) == 1
        stage.open.set()
        with connect(stage.server, revision=date) as second:
            assert second.task(task.id).result(PATIENCE).text == "through"
            assert second.task(task.id).params is None


def test_a_result_that_is_lost_again_and_again_is_given_up(monkeypatch):
    """Over HTTP a stream may be lost, and the server be there."""

    class Lost:
        def result(self, timeout):
            raise ConnectionClosed("the stream was lost")

    with scripted(DATE) as (server, client):
        task = client.start_tool("render")
        monkeypatch.setattr(module.Task, "fetching", lambda self: Lost())
        with pytest.raises(ConnectionClosed, match="the stream was lost"):
            task.result(PATIENCE)
        assert len(server.params("tasks/get")) == module.MAX_LOSSES + 1


@eras
def test_ctrl_c_ends_the_wait_and_the_task_can_be_waited_for_again(date, monkeypatch):
    get = [state(date), state(date), state(date, "completed")]
    answers = {"tasks/result": [SILENCE, DONE], "tasks/get": get}
    with scripted(date, answers) as (server, client):
        task = client.start_tool("render")

        def interrupted(*given, **more):
            raise KeyboardInterrupt

        place = (results.Future, "result") if date == DATE else (module.Task, "look")
        with monkeypatch.context() as patch:
            patch.setattr(*place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                task.result(PATIENCE)
        assert server.params("tasks/cancel") == []
        assert not client.asker.connection.waiting
        assert task.result(PATIENCE).text == "done"


# -- many threads, many tasks ----------------------------------------------------------------------


@eras
def test_two_threads_that_wait_for_one_task_have_its_result_and_a_question_is_asked_once(date):
    asked, both, found = [], threading.Barrier(2), []

    def answer(request):
        asked.append(request.message)
        return {}

    with connect(film(), revision=date, elicitation=answer) as client:
        task = client.start_tool("ask", {"times": 3})

        def wait():
            both.wait(PATIENCE)
            found.append(task.result(PATIENCE).text)

        threads = [threading.Thread(target=wait) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert found == ["accept accept accept"] * 2
    assert asked == ["Question 0", "Question 1", "Question 2"]


@eras
def test_a_hundred_tasks_at_once_of_one_client_have_each_its_own_result(date):
    with connect(film(), revision=date) as client:
        tasks = [client.start_tool("render", {"frames": n}) for n in range(100)]
        found = {}

        def wait(n):
            found[n] = tasks[n].result(PATIENCE).structured

        threads = [threading.Thread(target=wait, args=(n,)) for n in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
        assert found == {n: {"frames": n} for n in range(100)}
        assert len({task.id for task in tasks}) == 100
        assert not client.asker.connection.waiting
        assert not client.asker.task_news


# -- progress --------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/patterns/progress/task-token-lives-on",
)
def test_progress_is_heard_until_the_task_is_over_and_never_after():
    seen = []
    with connect(film(), revision=DATE) as client:
        task = client.start_tool("render", {"frames": 50}, on_progress=lambda *report: seen.append(report))
        (token,) = client.asker.connection.session.reporters
        task.result(PATIENCE)
        assert seen == [(n, 50, None) for n in range(1, 51)]
        assert not client.asker.connection.session.reporters
    seen.clear()
    with scripted(DATE) as (server, client):
        task = client.start_tool("render", on_progress=lambda *report: seen.append(report))
        token = server.asked[-1]["params"]["_meta"]["progressToken"]
        server.say("notifications/progress", {"progressToken": token, "progress": 1})
        server.say("notifications/progress", {"progressToken": token, "progress": "wrong"})
        task.result(PATIENCE)
        assert seen == [(1, None, None)]
        server.say("notifications/progress", {"progressToken": token, "progress": 2})
        client.request("tasks/get", {"taskId": ID})
        assert seen == [(1, None, None)]


def test_a_report_that_comes_too_late_for_a_slow_callback_is_not_told():
    entered, go, seen = threading.Event(), threading.Event(), []

    def slow(progress, total, message):
        seen.append(progress)
        entered.set()
        go.wait(PATIENCE)

    with scripted(DATE) as (server, client), patched(requests, SETTLE_SECONDS=0.01):
        task = client.start_tool("render", on_progress=slow)
        token = server.asked[-1]["params"]["_meta"]["progressToken"]
        for progress in (1, 2):
            server.say("notifications/progress", {"progressToken": token, "progress": progress})
        assert entered.wait(PATIENCE)
        task.result(PATIENCE)
        go.set()
        client.asker.events.settle(PATIENCE)
        assert seen == [1]


def test_a_task_of_2026_07_28_has_no_progress_once_it_is_one():
    seen = []
    with connect(film(), revision=MODERN) as client:
        result = client.call_tool("render", {"frames": 3}, on_progress=lambda *report: seen.append(report))
        assert result.structured == {"frames": 3}
    assert seen == []


def test_the_tasks_whose_progress_is_heard_of_are_bounded(monkeypatch):
    monkeypatch.setattr(requests, "MAX_REPORTERS", 2)
    with scripted(DATE, {"tools/call": [created(DATE), created(DATE), Refusal(-32603), created(DATE)]}) as (
        _,
        client,
    ):
        first = client.start_tool("render", on_progress=print)
        client.start_tool("render", on_progress=print)
        with pytest.raises(LocalError, match="2 tasks report"):
            client.start_tool("render", on_progress=print)
        first.result(PATIENCE)
        with pytest.raises(ErrorResponse):
            client.start_tool("render", on_progress=print)
        assert len(client.asker.connection.session.reporters) == 1
        client.start_tool("render", on_progress=print)


# -- the audit -------------------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/requestor-logs", "basic/utilities/tasks/requestor-tracks")
@eras
def test_the_audit_has_a_line_when_a_call_becomes_a_task_and_one_when_that_ends(date, caplog):
    caplog.set_level(logging.INFO, "mcp_ref.audit")
    with connect(film(), revision=date) as client:
        ids = []
        for name, arguments in (("render", {"frames": 1}), ("fail", {})):
            task = client.start_tool(name, arguments)
            ids.append(task.id[:8])
            for _ in range(2):
                task.result(PATIENCE)
        whole = task.id
    made = [r.getMessage() for r in caplog.records if r.getMessage().startswith("made")]
    start = "made tools/call {} for film: task {}: {}"
    assert made == [
        start.format("render", ids[0], "began"),
        start.format("render", ids[0], "done"),
        start.format("fail", ids[1], "began"),
        start.format("fail", ids[1], "error"),
    ]
    assert whole not in caplog.text
    assert lines(caplog)


@eras
def test_the_audit_tells_of_a_task_that_was_cancelled_or_failed_once(date, caplog):
    caplog.set_level(logging.INFO, "mcp_ref.audit")
    for end, told in (("cancelled", "RequestCancelled"), ("failed", "ErrorResponse")):
        caplog.clear()
        with scripted(date, {"tasks/get": state(date, end), "tasks/result": Refusal(-32603)}) as (_, client):
            task = client.start_tool("render")
            for _ in range(2):
                with pytest.raises((ErrorResponse, RequestCancelled)):
                    task.result(PATIENCE)
        messages = [r.getMessage() for r in caplog.records]
        assert len(messages) == 2
        assert f"task {ID[:8]}: {told}" in messages[1]


# -- real processes, real HTTP ---------------------------------------------------------------------


CHILD = """
    import os, sys
    from mcp_ref import TaskOptions
    from mcp_ref.runtime.stores.sqlite import SqliteStore
    tasks = TaskOptions(grace=0, poll_interval=0.02, store=SqliteStore(sys.argv[1]) if sys.argv[1:] else None)
    server = Server("child", tasks=tasks)

    @server.tool(task="required")
    def render(frames: int, ctx: Context) -> dict[str, int]:
        for n in range(frames):
            ctx.progress(n + 1, frames)
        answer = ctx.elicit("Good?", {"type": "object", "properties": {}})
        return {"frames": frames, answer.action: 1}

    @server.tool(task="required")
    def hold(ctx: Context) -> str:
        ctx.sleep(600)
        return "never"

    @server.tool
    def die() -> str:
        os._exit(9)
"""


def child(*arguments):
    return [*python(source(CHILD)), *map(str, arguments)]


@eras
def test_a_task_of_a_process_is_followed_answered_and_fetched(date):
    seen = []
    with connect(
        child(), revision=date, elicitation=lambda request: {}, options=ClientOptions(env=ENV)
    ) as client:
        task = client.start_tool("render", {"frames": 3}, on_progress=lambda *report: seen.append(report[0]))
        states = until_over(task)
        assert (states[0], states[-1]) == (("working", None), ("completed", None))
        assert task.result(PATIENCE).structured == {"frames": 3, "accept": 1}
        assert seen == ([] if date == MODERN else [1, 2, 3])
        held = client.start_tool("hold")
        held.cancel()
        with pytest.raises(RequestCancelled):
            held.result(PATIENCE)


@eras
def test_a_task_is_found_again_after_its_server_was_started_anew(date, tmp_path):
    command = child(tmp_path / "tasks.db")
    options = {"revision": date, "elicitation": lambda request: {}, "options": ClientOptions(env=ENV)}
    with connect(command, **options) as client:
        done = client.start_tool("render", {"frames": 1})
        done.result(PATIENCE)
        held = client.start_tool("hold")
        with contextlib.suppress(ConnectionClosed):
            client.call_tool("die")
    with connect(command, **options) as client:
        assert client.task(done.id).result(PATIENCE).structured == {"frames": 1, "accept": 1}
        lost = client.task(held.id)
        assert until_over(lost)[-1] == (
            "failed",
            "The task was interrupted, since what ran it has ended; start it again.",
        )
        with pytest.raises(ErrorResponse, match="start it again"):
            lost.result(PATIENCE)


@eras
def test_a_task_is_followed_answered_and_fetched_over_http(date):
    with (
        endpoint(film()) as site,
        connect(f"http://127.0.0.1:{site.port}/mcp", revision=date, elicitation=lambda request: {}) as client,
    ):
        task = client.start_tool("ask", {"times": 2})
        assert until_over(task)[-1] == ("completed", None)
        assert task.result(PATIENCE).text == "accept accept"
        assert client.call_tool("render", {"frames": 3}).structured == {"frames": 3}
        with connect(f"http://127.0.0.1:{site.port}/mcp", revision=date) as other:
            assert other.task(task.id).result(PATIENCE).text == "accept accept"


@pytest.mark.spec(
    "basic/patterns/progress/task-token-lives-on", "basic/utilities/tasks/messages-on-any-stream"
)
def test_the_progress_of_a_task_arrives_over_http_on_any_stream():
    seen = []
    with (
        endpoint(film()) as site,
        connect(f"http://127.0.0.1:{site.port}/mcp", revision=DATE, elicitation=lambda request: {}) as client,
    ):
        assert client.asker.line.session_id
        task = client.start_tool("render", {"frames": 5}, on_progress=lambda *report: seen.append(report[0]))
        assert task.result(PATIENCE).structured == {"frames": 5}
        assert eventually(lambda: task.refresh().is_over)
        assert seen == sorted(seen)


@pytest.mark.spec("extensions/tasks/mcp-name-task-id")
def test_requests_about_a_task_of_2026_07_28_name_it_in_a_header():
    answers = {
        "tools/call": created(MODERN),
        "tasks/get": asking("a"),
        "tasks/update": {},
        "tasks/cancel": {},
    }

    def handle(request, wire):
        if request.rpc not in answers:
            wire.answer(404, b"", JSON)
            return
        result = {"resultType": "complete", **answers[request.rpc]}
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
        wire.answer(200, body, JSON)
        answers["tasks/get"] = (
            state(MODERN, "completed") if request.rpc == "tasks/update" else answers["tasks/get"]
        )

    with talking(handle, MODERN, elicitation=lambda request: {}) as (site, client):
        client.start_tool("render").result(PATIENCE)
        client.start_tool("render").cancel()
        named = [
            (r.rpc, r.headers.get("mcp-name")) for r in site.requests if (r.rpc or "").startswith("tasks/")
        ]
    assert {method for method, _ in named} == {"tasks/get", "tasks/update", "tasks/cancel"}
    assert {name for _, name in named} == {ID}


def test_more_tasks_are_waited_for_over_http_than_the_server_has_threads_to_listen_with(caplog):
    """Who finds none for a subscription looks now and then."""
    caplog.set_level(logging.INFO, "mcp_ref.tasks")
    with Stage(grace=0, poll_interval=0.05) as stage:
        stage.add_usual()
        with (
            endpoint(stage.server, threads=8) as site,
            connect(f"http://127.0.0.1:{site.port}/mcp", revision=MODERN) as client,
        ):
            tasks = [client.start_tool("hold") for _ in range(30)]
            with ThreadPoolExecutor(30) as pool:
                waits = [pool.submit(task.result, PATIENCE) for task in tasks]
                assert all(stage.is_entered() for _ in tasks)
                assert eventually(lambda: not any(task.is_seed for task in tasks))
                stage.open.set()
                assert [wait.result().text for wait in waits] == ["through"] * 30
    assert "looked at now and then" in caplog.text


# -- what strangers found --------------------------------------------------------------------------


def test_a_client_that_is_closed_while_its_person_thinks_leaves_the_task_waiting_for_an_answer():
    server = Server("asks", tasks=TaskOptions(poll_interval=0.01))

    @server.tool(task="required")
    def ask(ctx: Context) -> str:
        return "first " + ctx.elicit("Sure?").action

    for _ in range(10):
        thinks, over = threading.Event(), threading.Event()

        def think(request, thinks=thinks, over=over):
            thinks.set()
            over.wait(PATIENCE)
            return True

        with connect(server, revision="2025-11-25", elicitation=think) as first:
            task = first.start_tool("ask")
            waiting = threading.Thread(target=lambda task=task: suppressed(task.result))
            waiting.start()
            assert thinks.wait(PATIENCE)
        over.set()
        waiting.join(PATIENCE)
        with connect(server, revision="2025-11-25", elicitation=lambda request: True) as second:
            again = second.task(task.id)
            assert again.status == "input_required"
            assert again.result(PATIENCE).text == "first accept"


def suppressed(run):
    with contextlib.suppress(McpError):
        run()


@eras
def test_a_task_whose_tool_failed_says_why_before_and_after_its_result_was_fetched(date):
    with connect(film(), revision=date) as client:
        task = client.start_tool("fail")
        assert task.result(PATIENCE).text == "no film in the camera"
        assert task.message == "no film in the camera"


def test_who_cancels_a_task_whose_tool_failed_is_told_the_status_that_it_has():
    with connect(film(), revision="2025-11-25") as client:
        task = client.start_tool("fail")
        task.result(PATIENCE)
        with pytest.raises(ErrorResponse, match="already in terminal status 'failed'"):
            client.task(task.id).cancel()
