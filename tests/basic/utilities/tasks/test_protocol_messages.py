"""Messages about tasks in 2025-11-25: capabilities, negotiation, get, result, list, cancel."""

from __future__ import annotations

import base64
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from http_peers import Peer, endpoint
from hypothesis import given
from hypothesis import strategies as st
from peers import LEGACY, PATIENCE, RawClient, eventually, nothing_left, source
from task_peers import DATE, LEGACY_CAPABILITIES, RELATED, FaultyStore, Stage, TaskClient

from mcp_ref import Context, Elicit, LocalError, ProtocolError, Sample, Server
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.basic.utilities.tasks import protocol_messages as module
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.basic.utilities.tasks.data_types import Task
from mcp_ref.basic.utilities.tasks.protocol_messages import augmented, capability, created, may_augment
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.schema import checker

METHODS = ("tasks/get", "tasks/result", "tasks/cancel")
STATUS = "notifications/tasks/status"

STORE_FAILS = "the store of tasks fails now; the log of this side says why"
"""What a peer is told: not where the store is."""


@pytest.fixture
def stage():
    with Stage() as made:
        made.add_usual()
        yield made


# -- capabilities ----------------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/capability-declared")
def test_a_server_with_a_tool_that_may_be_a_task_declares_tasks(stage):
    raw = RawClient(stage.server)
    with raw:
        declared = raw.initialize(DATE)["capabilities"]
    assert declared["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


@pytest.mark.parametrize("date", [date for date in LEGACY if date != DATE])
def test_before_2025_11_25_nothing_is_declared_and_there_are_no_such_methods(stage, date):
    with RawClient(stage.server) as raw:
        assert "tasks" not in raw.initialize(date)["capabilities"]
        for method in (*METHODS, "tasks/list"):
            assert raw.request(method, {"taskId": "x"})["error"]["code"] == -32601
        assert all("execution" not in tool for tool in raw.request("tools/list")["result"]["tools"])


@pytest.mark.spec(
    "basic/utilities/tasks/list-capability",
    "basic/utilities/tasks/cancel-capability",
    "basic/utilities/tasks/capability-declared",
)
def test_a_server_whose_tools_are_no_tasks_declares_nothing_and_knows_no_such_method():
    server = Server("plain")
    server.add_tool(lambda: "x", name="it")
    with RawClient(server) as raw:
        assert "tasks" not in raw.initialize(DATE)["capabilities"]
        for method in (*METHODS, "tasks/list"):
            assert raw.request(method, {"taskId": "x"})["error"]["code"] == -32601


@pytest.mark.spec("basic/utilities/tasks/list-capability", "basic/utilities/tasks/cancel-capability")
def test_a_session_that_was_not_told_of_list_and_cancel_has_neither():
    """The first tool that may be a task comes when the session is open."""
    with Stage() as stage:
        stage.server.add_tool(lambda: "x", name="plain")
        with stage.client() as raw:
            stage.add_usual()
            for method in ("tasks/list", "tasks/cancel"):
                answer = raw.request(method, {"taskId": "x"})
                assert answer["error"]["code"] == -32601
                assert "not declared" in answer["error"]["message"]


@pytest.mark.spec("server/tools/execution-task-support")
def test_the_list_of_tools_says_which_may_be_tasks(stage):
    stage.server.add_tool(lambda: "x", name="plain")
    with stage.client() as raw:
        tools = raw.request("tools/list")["result"]["tools"]
    assert {tool["name"]: tool.get("execution") for tool in tools} == {
        "quick": {"taskSupport": "optional"},
        "hold": {"taskSupport": "required"},
        "stubborn": {"taskSupport": "required"},
        "plain": None,
    }


@pytest.mark.spec("basic/utilities/tasks/capability-exhaustive")
@pytest.mark.parametrize(
    ("declared", "may"),
    [
        ({"tasks": {"requests": {"tools": {"call": {}}}}}, True),
        ({"tasks": {"requests": {"tools": {"list": {}}}}}, False),
        ({"tasks": {"requests": {"sampling": {"createMessage": {}}}}}, False),
        ({"tasks": {"list": {}, "cancel": {}}}, False),
        ({"tasks": {"requests": {"tools": True}}}, False),
        ({"tasks": {"requests": []}}, False),
        ({"tasks": None}, False),
        ({}, False),
    ],
)
def test_what_is_not_among_the_declared_requests_is_no_task(declared, may):
    assert may_augment(declared, "tools/call") is may


@pytest.mark.spec("basic/utilities/tasks/no-list-unidentified")
def test_a_receiver_that_cannot_tell_its_requestors_apart_declares_no_list():
    assert "list" not in capability({"tools": {"call": {}}}, lists=False)
    assert capability({}, lists=True)["list"] == {}


# -- may this call be a task? ----------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/tool-forbidden-32601")
def test_a_forbidden_tool_is_not_called_as_a_task(stage):
    stage.server.add_tool(lambda: "x", name="plain")
    with stage.client() as raw:
        error = raw.answer(raw.begin("plain"))["error"]
        assert error["code"] == -32601
        assert "without `task`" in error["message"]
        assert raw.request("tasks/list")["result"]["tasks"] == []


@pytest.mark.spec("basic/utilities/tasks/tool-required-32601", "basic/utilities/tasks/require-augmentation")
def test_a_required_tool_is_called_as_a_task_only(stage):
    with stage.client() as raw:
        error = raw.answer(raw.call("hold"))["error"]
        assert error["code"] == -32601
        assert "`task`" in error["message"]


@pytest.mark.spec("basic/utilities/tasks/task-field-opts-in", "basic/utilities/tasks/create-result-returned")
def test_an_optional_tool_is_a_task_if_the_call_says_so_and_an_ordinary_call_if_not(stage):
    with stage.client() as raw:
        assert raw.answer(raw.call("quick"))["result"]["content"][0]["text"] == "done"
        result = raw.answer(raw.begin("quick"))["result"]
        assert set(result) == {"task"}
        checker(Task, DATE)(result["task"])


@pytest.mark.spec(
    "basic/utilities/tasks/create-result-returned", "basic/utilities/tasks/create-result-nested"
)
def test_a_tool_that_would_refuse_its_arguments_is_a_task_all_the_same(stage):
    with stage.client() as raw:
        task = raw.start("quick", {"text": 7})
        assert raw.ended(task["taskId"])["status"] == "failed"


def test_an_unknown_tool_is_refused_as_it_is_without_a_task(stage):
    with stage.client() as raw:
        assert raw.answer(raw.begin("nothing"))["error"] == raw.answer(raw.call("nothing"))["error"]


@pytest.mark.spec("basic/utilities/tasks/process-normally-undeclared")
@pytest.mark.parametrize("date", LEGACY)
def test_where_tasks_were_not_declared_the_field_is_ignored(date):
    """As of 2025-11-25 it must have its shape; before, it is nothing at all."""
    server = Server("plain")
    server.add_tool(lambda: "x", name="it")
    with RawClient(server, revision=date) as raw:
        answer = raw.request("tools/call", {"name": "it", "task": {"ttl": 1000}})
        assert answer["result"]["content"][0]["text"] == "x"


@pytest.mark.spec("basic/utilities/tasks/process-normally-undeclared")
@pytest.mark.parametrize("date", [date for date in LEGACY if date != DATE])
def test_in_an_older_revision_a_task_tool_runs_as_an_ordinary_call(stage, date):
    @stage.tool(task="required", name="must")
    def must() -> str:
        return "ran"

    with RawClient(stage.server, revision=date) as raw:
        for task in ({"ttl": 5}, {"ttl": "no number"}, None, 7):
            answer = raw.request("tools/call", {"name": "must", "task": task})
            assert answer["result"]["content"][0]["text"] == "ran"


@pytest.mark.spec("basic/utilities/tasks/process-normally-undeclared")
def test_a_session_that_began_before_there_were_tasks_calls_as_before():
    with Stage() as stage:
        stage.server.add_tool(lambda: "x", name="plain")
        with stage.client() as raw:
            stage.add_usual()
            result = raw.answer(raw.begin("quick"))["result"]
            assert result["content"][0]["text"] == "done"


@pytest.mark.spec("basic/utilities/tasks/model-immediate-response")
def test_what_a_model_may_be_told_at_once_comes_with_the_task(stage):
    @stage.tool(immediate_response="It is being rendered.")
    def render() -> str:
        return "x"

    with stage.client() as raw:
        result = raw.answer(raw.begin("render"))["result"]
        assert result["_meta"] == {module.MODEL_IMMEDIATE_RESPONSE: "It is being rendered."}
        assert module.immediate_response(result) == "It is being rendered."


@pytest.mark.parametrize("meta", [None, [], "text", {}, {module.MODEL_IMMEDIATE_RESPONSE: 5}])
def test_what_is_no_text_is_nothing_to_tell_a_model(meta):
    assert module.immediate_response({"task": {}, "_meta": meta}) is None
    assert module.immediate_response({"task": {}}) is None


@pytest.mark.spec("basic/utilities/tasks/ttl-requested", "basic/utilities/tasks/ttl-override")
@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        (60_000, 60_000),
        (1_000, 1_000),
        (0, 1_000),
        (1, 1_000),
        (86_400_000, 86_400_000),
        (86_400_001, 86_400_000),
        (2**63, 86_400_000),
        (10**400, 86_400_000),
    ],
    ids=lambda milliseconds: str(milliseconds)[:20],
)
def test_a_ttl_is_granted_within_bounds(stage, wanted, granted):
    with stage.client() as raw:
        task = raw.start("quick", ttl=wanted)
        assert task["ttl"] == granted
        assert raw.get(task["taskId"])["ttl"] == granted


@pytest.mark.spec("basic/utilities/tasks/limit-ttl")
@given(st.integers(0))
def test_no_ttl_is_more_than_the_most_nor_less_than_a_result_needs(wanted):
    receiver = module.Receiver(TaskOptions(max_ttl=5.0, ttl=2.0))

    context: Any = SimpleNamespace(
        method="tools/call", principal=None, params={"task": {"ttl": wanted}}, handling=SimpleNamespace()
    )
    plan = module.AskedForPlan(module.ttl_of(context))
    run = module.TaskRun(receiver, context, plan, dict, lambda result: b"")
    assert 1000 <= run._new_entry().state["ttl"] <= 5000


@pytest.mark.parametrize("wrong", [-1, -(10**30), None, "60000", 1.5, True, [], {}], ids=repr)
def test_a_ttl_that_is_no_lifetime_is_refused_and_there_is_no_task(stage, wrong):
    with stage.client() as raw:
        error = raw.answer(raw.begin("quick", ttl=wrong))["error"]
        assert error["code"] == -32602
        assert "ttl" in error["message"]
        assert raw.request("tasks/list")["result"]["tasks"] == []


@pytest.mark.parametrize("wrong", [True, 7, "x", [], [1]], ids=repr)
def test_a_task_field_that_is_no_object_is_refused(stage, wrong):
    with stage.client() as raw:
        answer = raw.request("tools/call", {"name": "quick", "task": wrong})
        assert answer["error"]["code"] == -32602


def test_a_task_without_a_ttl_lives_as_long_as_the_server_says():
    with Stage(ttl=120.0) as stage:
        stage.add_usual()
        with stage.client() as raw:
            assert raw.start("quick")["ttl"] == 120_000


# -- tasks/get -------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/utilities/tasks/starts-working",
    "basic/utilities/tasks/created-at",
    "basic/utilities/tasks/last-updated-at",
    "basic/utilities/tasks/ttl-actual",
    "basic/utilities/tasks/poll-interval",
)
def test_a_task_is_got_with_all_its_members_in_every_status(stage):
    @stage.tool()
    def ask(ctx: Context) -> bool:
        return ctx.confirm("Sure?")

    @stage.tool()
    def broken() -> str:
        raise ProtocolError("no such account", code=1001)

    with stage.client() as raw:
        begun = {name: raw.start(name) for name in ("hold", "ask", "quick", "broken", "stubborn")}
        assert {task["status"] for task in begun.values()} == {"working"}
        ids = {name: task["taskId"] for name, task in begun.items()}
        raw.about("tasks/cancel", ids["stubborn"])
        found = {
            "working": raw.get(ids["hold"]),
            "input_required": raw.until_status(ids["ask"], "input_required"),
            "completed": raw.ended(ids["quick"]),
            "failed": raw.ended(ids["broken"]),
            "cancelled": raw.get(ids["stubborn"]),
        }
        for status, task in found.items():
            checker(Task, DATE)(task)
            assert task["status"] == status
            assert task["ttl"] == 3_600_000
            assert task["pollInterval"] == 1000
            assert task["createdAt"] <= task["lastUpdatedAt"]
        for name, status in (("hold", "working"), ("quick", "completed")):
            assert found[status]["createdAt"] == begun[name]["createdAt"]


@pytest.mark.spec(
    "basic/utilities/tasks/unknown-task-32602",
    "basic/utilities/tasks/standard-errors",
    "basic/utilities/tasks/informative-errors",
)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "unknown",
    ["", "x", "0" * 32, "é\n\x00", "../../etc/passwd", "' OR 1=1 --", "%", "A" * 100_000],
    ids=lambda value: repr(value[:20]),
)
def test_an_id_that_names_no_task_is_refused(stage, method, unknown):
    with stage.client() as raw:
        error = raw.about(method, unknown)["error"]
        assert error["code"] == -32602
        assert error["message"].startswith("Task not found: ")
        assert len(error["message"]) < 400


@pytest.mark.spec("basic/utilities/tasks/unknown-task-32602")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wrong", [None, 7, True, ["x"], {}], ids=repr)
def test_an_id_that_is_no_string_is_refused(stage, method, wrong):
    with stage.client() as raw:
        error = raw.about(method, wrong)["error"]
        assert error["code"] == -32602
        assert "taskId" in error["message"]
        assert raw.request(method, {})["error"]["code"] == -32602


@given(st.text(max_size=60))
def test_no_text_that_was_not_given_out_finds_a_task(text):
    receiver = module.Receiver()
    with pytest.raises(InvalidParams, match="Task not found"):
        receiver.find(text, None)


@pytest.mark.spec(
    "basic/utilities/tasks/task-id-parameter-wins",
    "basic/utilities/tasks/related-task-ignored",
    "basic/utilities/tasks/related-task-not-in-results",
    "basic/utilities/tasks/related-task-exempt",
)
def test_the_task_that_is_meant_is_the_one_in_taskid_whatever_the_meta_says(stage):
    with stage.client() as raw:
        one, other = (raw.start("quick")["taskId"] for _ in range(2))
        held = raw.start("hold")["taskId"]
        for task_id in (one, other):
            raw.ended(task_id)
        for related in ({"taskId": other}, {"taskId": "nothing"}, 7, None, {}):
            meta = {"_meta": {RELATED: related}}
            assert raw.about("tasks/get", one, **meta)["result"]["taskId"] == one
            assert raw.about("tasks/result", one, **meta)["result"]["_meta"][RELATED] == {"taskId": one}
            assert raw.about("tasks/cancel", one, **meta)["error"]["code"] == -32602
        answers = [
            raw.about("tasks/get", one),
            raw.about("tasks/cancel", held),
            raw.request("tasks/list"),
        ]
        assert all("_meta" not in answer["result"] for answer in answers)
        assert all("_meta" not in task for task in answers[-1]["result"]["tasks"])


# -- tasks/cancel ----------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/utilities/tasks/cancel-before-response",
    "basic/utilities/tasks/cancel-stops",
    "basic/utilities/tasks/cancelled-stays",
)
def test_a_cancelled_task_is_answered_with_its_status_and_its_tool_is_told(stage):
    with stage.client() as raw:
        task = raw.start("hold")
        assert stage.is_entered()
        told = raw.about("tasks/cancel", task["taskId"])["result"]
        checker(Task, DATE)(told)
        assert (told["taskId"], told["status"]) == (task["taskId"], "cancelled")
        assert "cancelled" in told["statusMessage"]
        assert stage.is_left()
        assert raw.get(task["taskId"]) == told


@pytest.mark.spec("basic/utilities/tasks/cancelled-stays")
def test_a_tool_that_ignores_cancellation_ends_and_its_task_stays_cancelled(stage):
    with stage.client() as raw:
        task_id = raw.start("stubborn")["taskId"]
        assert stage.is_entered()
        told = raw.about("tasks/cancel", task_id)["result"]
        stage.open.set()
        assert stage.is_left()
        assert eventually(lambda: not stage.server.tasks._runs)
        assert raw.get(task_id) == told
        assert "cancelled" in raw.about("tasks/result", task_id)["error"]["message"]


@pytest.mark.spec("basic/utilities/tasks/cancel-terminal-32602")
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_task_that_is_over_cannot_be_cancelled(stage, status):
    @stage.tool()
    def fails() -> str:
        raise ProtocolError("no")

    with stage.client() as raw:
        name = {"completed": "quick", "failed": "fails", "cancelled": "hold"}[status]
        task_id = raw.start(name)["taskId"]
        if status == "cancelled":
            raw.about("tasks/cancel", task_id)
        before = raw.ended(task_id)
        error = raw.about("tasks/cancel", task_id)["error"]
        assert error == {
            "code": -32602,
            "message": f"Cannot cancel task: already in terminal status {status!r}",
        }
        assert raw.get(task_id) == before


@pytest.mark.spec("basic/patterns/cancellation/task-uses-tasks-cancel")
def test_notifications_cancelled_for_the_call_does_not_touch_its_task(stage):
    with stage.client() as raw:
        call = raw.begin("hold")
        task_id = raw.answer(call)["result"]["task"]["taskId"]
        assert stage.is_entered()
        raw.notify("notifications/cancelled", {"requestId": call})
        assert raw.get(task_id)["status"] == "working"
        stage.open.set()
        assert raw.outcome(task_id)["result"]["content"][0]["text"] == "through"


# -- tasks/list ------------------------------------------------------------------------------------


def listed(raw, **params):
    """All pages of the list: the ids of each."""
    pages, cursor = [], params
    while True:
        result = raw.request("tasks/list", cursor)["result"]
        pages.append([task["taskId"] for task in result["tasks"]])
        if "nextCursor" not in result:
            return pages
        cursor = {"cursor": result["nextCursor"]}


@pytest.mark.spec(
    "basic/utilities/tasks/list-paginated",
    "basic/utilities/tasks/list-next-cursor",
    "basic/utilities/tasks/list-complete",
)
def test_a_list_in_pages_has_every_task_once_in_the_order_of_their_beginning(stage, monkeypatch):
    monkeypatch.setattr(module, "PAGE_SIZE", 3)
    with stage.client() as raw:
        ids = []
        for count in range(8):
            assert [task_id for page in listed(raw) for task_id in page] == ids
            assert [len(page) for page in listed(raw)] == [3] * (count // 3) + [count % 3] * (
                count % 3 > 0 or count == 0
            )
            ids.append(raw.start("quick")["taskId"])
        assert all(raw.get(task_id) for task_id in ids)


def test_a_task_that_comes_between_two_pages_is_on_the_last(stage, monkeypatch):
    monkeypatch.setattr(module, "PAGE_SIZE", 2)
    with stage.client() as raw:
        ids = [raw.start("quick")["taskId"] for _ in range(3)]
        first = raw.request("tasks/list")["result"]
        ids.append(raw.start("quick")["taskId"])
        rest = raw.request("tasks/list", {"cursor": first["nextCursor"]})["result"]
        assert [task["taskId"] for task in (*first["tasks"], *rest["tasks"])] == ids
        assert "nextCursor" not in rest


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.spec("basic/utilities/tasks/unknown-cursor-32602")
@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "é",
        "=" * 9,
        encoded([1, "x"]),
        encoded([1.0, 2]),
        encoded([1.0]),
        encoded([1.0, "x", 3]),
        encoded({"a": 1.0, "b": "x"}),
        encoded(None),
        encoded([float("nan"), "x"]),
        encoded([float("inf"), "x"]),
        encoded([1.0, "\ud800"]),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_a_cursor_that_is_none_is_refused(stage, cursor):
    with stage.client() as raw:
        error = raw.request("tasks/list", {"cursor": cursor})["error"]
        assert error["code"] == -32602
        assert "cursor" in error["message"]
        assert len(error["message"]) < 400


@pytest.mark.spec("basic/utilities/tasks/unknown-cursor-32602")
@pytest.mark.parametrize("wrong", [7, None, True, []], ids=repr)
def test_a_cursor_that_is_no_string_is_refused(stage, wrong):
    with stage.client() as raw:
        assert raw.request("tasks/list", {"cursor": wrong})["error"]["code"] == -32602


@given(st.text(max_size=200) | st.binary(max_size=80).map(lambda b: base64.urlsafe_b64encode(b).decode()))
def test_any_other_cursor_is_refused_in_words(cursor):
    with pytest.raises(InvalidParams, match="cursor"):
        module._place(cursor)


@given(st.floats(0, 4e9), st.text("0123456789abcdef", min_size=1))
def test_a_cursor_leads_back_to_its_place(created, name):
    class Entry:
        id = name

    Entry.created = created
    assert module._place(module._cursor(Entry)) == (created, name)


# -- tasks/result: what the request would have given -------------------------------------------------


def add_outcomes(stage):
    """Tools that end in every way."""

    @stage.tool()
    def text() -> str:
        return "é" * 70_000

    @stage.tool()
    def data() -> dict[str, int]:
        return {"a": 2**60}

    @stage.tool()
    def nothing() -> None:
        return None

    @stage.tool()
    def ready() -> Any:
        return {"content": [{"type": "text", "text": "x"}], "_meta": {"com.example/a": [1]}, "own": None}

    @stage.tool()
    def raises() -> str:
        raise ValueError("not enough rows")

    @stage.tool()
    def says_so() -> Any:
        return {"content": [{"type": "text", "text": "no rows"}], "isError": True}

    @stage.tool()
    def refuses() -> str:
        raise ProtocolError("no such account", code=1001, data={"account": [7, None]})

    @stage.tool()
    def missing() -> str:
        raise InvalidParams("what is this?")

    @stage.tool()
    def undeclared() -> dict[str, int]:
        return {"a": "no number"}  # type: ignore[dict-item]

    @stage.tool()
    def leaves() -> str:
        raise SystemExit(3)

    return (
        "text",
        "data",
        "nothing",
        "ready",
        "raises",
        "says_so",
        "refuses",
        "missing",
        "undeclared",
        "leaves",
    )


@pytest.mark.spec(
    "basic/utilities/tasks/result-exact",
    "basic/utilities/tasks/result-same-success",
    "basic/utilities/tasks/result-same-error",
    "basic/utilities/tasks/result-terminal",
    "basic/utilities/tasks/related-task-in-result",
    "basic/utilities/tasks/related-task-everywhere",
    "basic/utilities/tasks/failed-status",
    "basic/utilities/tasks/failed-status-message",
)
def test_the_result_of_a_task_is_that_of_the_plain_call_with_the_task_in_its_meta(stage):
    names = add_outcomes(stage)
    with stage.client() as raw:
        for name in (*names, "quick"):
            arguments = {"text": 7} if name == "quick" else {}  # quick: arguments that are wrong
            plain = raw.answer(raw.call(name, arguments))
            task_id = raw.start(name, arguments)["taskId"]
            task = raw.ended(task_id)
            answer = raw.about("tasks/result", task_id)
            assert raw.about("tasks/result", task_id).get("result") == answer.get("result"), name  # again
            if "error" in plain:
                assert answer["error"] == plain["error"], name
                assert task["status"] == "failed"
                assert task["statusMessage"] == plain["error"]["message"]
                continue
            assert answer["result"]["_meta"].pop(RELATED) == {"taskId": task_id}
            assert {"_meta": {}, **plain["result"]} == answer["result"], name
            is_error = plain["result"].get("isError", False)
            assert task["status"] == ("failed" if is_error else "completed")
            if is_error:
                assert task["statusMessage"] == plain["result"]["content"][0]["text"]


@pytest.mark.spec("basic/utilities/tasks/result-terminal", "basic/utilities/tasks/result-exact")
def test_the_result_of_a_cancelled_task_is_an_error_that_says_so(stage):
    with stage.client() as raw:
        task_id = raw.start("hold")["taskId"]
        message = raw.about("tasks/cancel", task_id)["result"]["statusMessage"]
        assert raw.about("tasks/result", task_id)["error"] == {"code": -32603, "message": message}


@pytest.mark.spec("basic/utilities/tasks/result-blocks")
@pytest.mark.parametrize("how", ["completed", "cancelled", "asked and completed"])
def test_a_request_for_the_result_is_answered_when_the_task_is_over_and_not_before(stage, how):
    @stage.tool()
    def ask(ctx: Context) -> str:
        stage.entered.release()
        return "yes" if ctx.confirm("Sure?") else "no"

    with stage.client() as raw, stage.client() as other:
        task_id = raw.start("ask" if "asked" in how else "hold")["taskId"]
        assert stage.is_entered()
        waiting = raw.ask("tasks/result", {"taskId": task_id})
        assert eventually(lambda: stage.server.tasks._waiting == 1)
        assert raw.get(task_id)["status"] in ("working", "input_required")  # polling goes on beside it
        assert not any(m.get("id") == waiting and "method" not in m for m in raw.aside)
        if how == "completed":
            stage.open.set()
            assert raw.answer(waiting)["result"]["content"][0]["text"] == "through"
        elif how == "cancelled":
            other.about("tasks/cancel", task_id)
            assert raw.answer(waiting)["error"]["code"] == -32603
        else:
            raw.reply(raw.requested("elicitation/create"), {"action": "accept", "content": {}})
            assert raw.answer(waiting)["result"]["content"][0]["text"] == "yes"
        assert eventually(lambda: stage.server.tasks._waiting == 0)


def test_a_request_for_the_result_that_is_cancelled_waits_no_longer_and_the_task_goes_on(stage):
    with stage.client() as raw:
        task_id = raw.start("hold")["taskId"]
        waiting = raw.ask("tasks/result", {"taskId": task_id})
        assert eventually(lambda: stage.server.tasks._waiting == 1)
        raw.notify("notifications/cancelled", {"requestId": waiting})
        assert eventually(lambda: stage.server.tasks._waiting == 0)
        assert raw.get(task_id)["status"] == "working"


def test_a_task_that_expires_while_its_result_is_waited_for_is_not_found():
    with Stage() as stage:
        stage.add_usual()
        with stage.client() as raw:
            task_id = raw.start("hold", ttl=4000)["taskId"]
            assert raw.about("tasks/result", task_id)["error"]["code"] == -32602
            assert stage.is_left()  # its tool was told


@pytest.mark.spec("basic/utilities/tasks/rate-limit")
def test_only_so_many_requests_wait_for_results_and_others_are_told_to_poll(stage, monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    with stage.client() as raw:
        task_id = raw.start("hold")["taskId"]
        waiting = [raw.ask("tasks/result", {"taskId": task_id}) for _ in range(3)]
        assert eventually(lambda: stage.server.tasks._waiting == 3)
        error = raw.about("tasks/result", task_id)["error"]
        assert error["code"] == 429
        assert "tasks/get" in error["message"]
        assert raw.get(task_id)["status"] == "working"
        stage.open.set()
        assert all("result" in raw.answer(each) for each in waiting)
        assert "result" in raw.about("tasks/result", task_id)  # of a task that is over, none waits


def test_requests_for_results_leave_half_of_the_workers_to_others():
    """Else tasks/cancel, on the same connection, would wait for the end of the task."""
    with Stage(server={"workers": 2}) as stage:
        stage.add_usual()
        with stage.client() as raw:
            task_id = raw.start("hold")["taskId"]
            first = raw.ask("tasks/result", {"taskId": task_id})
            assert eventually(lambda: stage.server.tasks._waiting == 1)
            assert raw.about("tasks/result", task_id)["error"]["code"] == 429
            assert raw.about("tasks/cancel", task_id)["result"]["status"] == "cancelled"
            assert "error" in raw.answer(first)


# -- tasks/result: what the task asks ----------------------------------------------------------------


def add_asking(stage, **options):
    """`ask` asks one yes or no, and says how it went; `ask_twice` asks two things one after the other."""

    @stage.tool(**options)
    def ask(ctx: Context, timeout: float = PATIENCE) -> str:
        try:
            answer = ctx.elicit("Sure?", timeout=timeout)
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"
        return answer.action

    @stage.tool(**options)
    def ask_twice(ctx: Context) -> list[str]:
        return [ctx.elicit(text).action for text in ("One?", "Two?")]


@pytest.mark.spec(
    "basic/utilities/tasks/move-to-input-required",
    "basic/utilities/tasks/leave-input-required",
    "basic/utilities/tasks/related-task-on-requests",
    "basic/utilities/tasks/related-task-shared",
)
def test_what_a_task_asks_is_sent_beside_the_request_for_its_result(stage):
    add_asking(stage)
    with stage.client() as raw:
        task_id = raw.start("ask_twice")["taskId"]
        waiting = raw.ask("tasks/result", {"taskId": task_id})
        for text, action in (("One?", "accept"), ("Two?", "decline")):
            request = raw.requested("elicitation/create")
            assert request["params"]["message"] == text
            assert request["params"]["_meta"] == {RELATED: {"taskId": task_id}}
            assert raw.get(task_id)["status"] == "input_required"
            raw.reply(request, {"action": action, "content": {}})
        result = raw.answer(waiting)["result"]
        assert result["structuredContent"] == {"result": ["accept", "decline"]}
        raw.notified(STATUS, status="completed")  # perhaps after the result
        told = [m["params"]["status"] for m in raw.aside if m.get("method") == STATUS]
        # In order; one that was overtaken by the next is not told. The last one was: "completed", above.
        changes = iter(["input_required", "working", "input_required", "working"])
        assert all(status in changes for status in told)


def test_a_task_asks_nothing_before_its_result_is_asked_for(stage):
    add_asking(stage)
    with stage.client() as raw:
        task_id = raw.start("ask")["taskId"]
        raw.until_status(task_id, "input_required")
        assert raw.is_alive()
        assert not [m for m in raw.aside if "id" in m]
        raw.ask("tasks/result", {"taskId": task_id})
        assert raw.requested("elicitation/create")


def test_several_questions_at_once_are_sent_at_once_and_answered_in_any_order(stage):
    @stage.tool()
    def ask(ctx: Context) -> list[str]:
        return [answer.action for answer in ctx.ask_all(*[Elicit(text) for text in "abc"])]

    with stage.client() as raw:
        task_id = raw.start("ask")["taskId"]
        waiting = raw.ask("tasks/result", {"taskId": task_id})
        requests = {m["params"]["message"]: m for m in (raw.requested("elicitation/create") for _ in "abc")}
        for text, action in (("c", "cancel"), ("a", "accept")):
            raw.reply(requests[text], {"action": action, "content": {}})
        asked = lambda: stage.entry(task_id).state.get("asked", {})  # noqa: E731
        assert eventually(lambda: len(asked()) == 1)
        assert raw.get(task_id)["status"] == "input_required"  # one is still to come
        raw.reply(requests["b"], {"action": "decline"})
        result = raw.answer(waiting)["result"]
        assert result["structuredContent"] == {"result": ["accept", "decline", "cancel"]}


@pytest.mark.spec("basic/utilities/tasks/related-task-everywhere")
def test_two_that_wait_for_one_result_are_both_asked_and_the_first_answer_counts(stage):
    add_asking(stage)
    with stage.client() as one, stage.client() as two:
        task_id = one.start("ask")["taskId"]
        waiting = {raw: raw.ask("tasks/result", {"taskId": task_id}) for raw in (one, two)}
        requests = {raw: raw.requested("elicitation/create") for raw in (one, two)}
        two.reply(requests[two], {"action": "decline"})
        withdrawn = one.notified("notifications/cancelled")
        assert withdrawn["requestId"] == requests[one]["id"]
        assert withdrawn["_meta"] == {RELATED: {"taskId": task_id}}
        one.reply(requests[one], {"action": "accept", "content": {}})  # too late
        for raw in (one, two):
            assert raw.answer(waiting[raw])["result"]["content"][0]["text"] == "decline"


def test_a_client_that_comes_back_on_a_new_connection_is_asked_again(stage):
    add_asking(stage)
    with stage.client() as raw:
        task_id = raw.start("ask")["taskId"]
        raw.ask("tasks/result", {"taskId": task_id})
        raw.requested("elicitation/create")
    assert eventually(lambda: stage.server.tasks._waiting == 0)
    with stage.client() as raw:
        assert raw.get(task_id)["status"] == "input_required"
        waiting = raw.ask("tasks/result", {"taskId": task_id})
        raw.reply(raw.requested("elicitation/create"), {"action": "accept", "content": {}})
        assert raw.answer(waiting)["result"]["content"][0]["text"] == "accept"


def test_a_question_that_is_answered_with_an_error_is_that_error_for_the_tool(stage):
    @stage.tool()
    def ask(ctx: Context) -> Any:
        try:
            ctx.confirm("Sure?")
        except Exception as problem:
            return {"code": problem.code, "message": problem.message, "data": problem.data}  # type: ignore

    for more in ({}, {"data": {"a": 1}}):
        with stage.client() as raw:
            task_id = raw.start("ask")["taskId"]
            waiting = raw.ask("tasks/result", {"taskId": task_id})
            raw.refuse(raw.requested("elicitation/create"), -1, "the user has gone home", **more)
            said = json.loads(raw.answer(waiting)["result"]["content"][0]["text"])
            assert said == {"code": -1, "message": "the user has gone home", "data": more.get("data")}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([1], "the result is not an object"),
        ("accept", "the result is not an object"),
        ({}, "action"),
        ({"action": "perhaps"}, "action"),
    ],
    ids=repr,
)
def test_an_answer_of_a_wrong_shape_is_the_end_of_the_question(stage, wrong, said):
    add_asking(stage)
    with stage.client() as raw:
        task_id = raw.start("ask")["taskId"]
        waiting = raw.ask("tasks/result", {"taskId": task_id})
        raw.reply(raw.requested("elicitation/create"), wrong)
        text = raw.answer(waiting)["result"]["content"][0]["text"]
        assert text.startswith("InvalidResponse: ")
        assert said in text


def test_a_question_that_is_not_answered_in_time_is_withdrawn(stage):
    add_asking(stage)
    with stage.client() as raw:
        task_id = raw.start("ask", {"timeout": 0.05})["taskId"]
        text = raw.about("tasks/result", task_id)["result"]["content"][0]["text"]
        assert text.startswith("RequestTimeout: ")
        assert stage.entry(task_id).state.get("asked") is None


@pytest.mark.spec("basic/utilities/tasks/related-task-everywhere")
def test_a_question_is_withdrawn_from_the_client_when_its_task_is_cancelled(stage):
    add_asking(stage)
    with stage.client() as raw:
        task_id = raw.start("ask")["taskId"]
        waiting = raw.ask("tasks/result", {"taskId": task_id})
        request = raw.requested("elicitation/create")
        raw.about("tasks/cancel", task_id)
        withdrawn = raw.notified("notifications/cancelled")
        assert withdrawn["requestId"] == request["id"]
        assert withdrawn["_meta"] == {RELATED: {"taskId": task_id}}
        assert "cancelled" in raw.answer(waiting)["error"]["message"]


@pytest.mark.spec("basic/patterns/mrtr/no-undeclared-input-request")
def test_a_client_that_did_not_declare_it_is_not_asked_what_the_task_of_another_asks(stage):
    add_asking(stage)
    with stage.client() as able, stage.client(capabilities={}) as unable:
        task_id = able.start("ask")["taskId"]
        able.until_status(task_id, "input_required")
        waiting = unable.ask("tasks/result", {"taskId": task_id})
        assert eventually(lambda: stage.server.tasks._waiting == 1)
        able.ask("tasks/result", {"taskId": task_id})
        able.reply(able.requested("elicitation/create"), {"action": "accept", "content": {}})
        assert unable.answer(waiting)["result"]["content"][0]["text"] == "accept"
        assert not [m for m in unable.aside if m.get("method") == "elicitation/create"]


def test_all_threads_that_run_tasks_may_wait_for_an_answer_at_once():
    """The answers are given to them by other threads."""
    with Stage(workers=2) as stage:
        add_asking(stage)
        with stage.client() as raw:
            ids = [raw.start("ask")["taskId"] for _ in range(4)]
            waiting = [raw.ask("tasks/result", {"taskId": task_id}) for task_id in ids]
            for _ in ids:
                raw.reply(raw.requested("elicitation/create"), {"action": "accept", "content": {}})
            assert all("result" in raw.answer(each) for each in waiting)


# -- status notifications ----------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/status-notification", "basic/utilities/tasks/notify-no-related-task")
def test_a_change_of_status_is_told_with_the_whole_task_to_the_connection_that_began_it(stage):
    with stage.client() as raw, stage.client() as other:
        task_id = raw.start("hold")["taskId"]
        stage.open.set()
        told = raw.notified(STATUS, taskId=task_id, status="completed")
        assert told == raw.get(task_id)
        assert "_meta" not in told
        assert other.is_alive()
        assert other.aside == []


def test_the_first_word_of_a_task_is_the_answer_that_hands_it_out(stage):
    with stage.client() as raw:
        for _ in range(200):
            call = raw.begin("quick")
            task_id = raw.answer(call)["result"]["task"]["taskId"]
            assert raw.aside == []
            assert raw.notified("notifications/tasks/status")["taskId"] == task_id
            raw.aside.clear()


def test_what_becomes_of_a_task_while_its_answer_is_sent_is_told_after_it(stage, monkeypatch):
    """Its client would not know the task of an earlier notification."""
    ended, answer = threading.Event(), Outbox.answer

    def heard(entry):  # after the server, which listens longer
        if entry.state["status"] == "completed":
            ended.set()

    def answer_late(outbox, line, *how):
        if b"taskId" in line:
            assert ended.wait(PATIENCE)
        answer(outbox, line, *how)

    monkeypatch.setattr(Outbox, "answer", answer_late)
    stage.server.tasks.store.listen(heard)
    with stage.client() as raw:
        call = raw.begin("quick")
        task = raw.answer(call)["result"]["task"]
        assert raw.aside == []
        assert task["status"] == "working"
        said = raw.notified("notifications/tasks/status")
        assert (said["taskId"], said["status"]) == (task["taskId"], "completed")
        raw.about("tasks/result", task["taskId"])
        assert raw.aside == []


# -- principals --------------------------------------------------------------------------------------


def by_name(ctx: Context) -> str | None:
    """The principal of a test: what an HTTP header says."""
    found: str | None = ctx.http.headers.get("X-Who")
    return found


@pytest.mark.spec(
    "basic/utilities/tasks/bind-authorization",
    "basic/utilities/tasks/reject-foreign-tasks",
    "basic/utilities/tasks/list-own-context",
)
def test_the_task_of_another_principal_is_not_there():
    with Stage(server={"principal": by_name}) as stage:
        stage.add_usual()
        with endpoint(stage.server) as at:
            with (
                Peer(at.port, DATE, headers={"X-Who": "ann"}) as ann,
                Peer(at.port, DATE, headers={"X-Who": "bob"}) as bob,
            ):
                task_id = ann.request("tools/call", {"name": "hold", "task": {}})["task"]["taskId"]
                for method in METHODS:
                    refused = bob.request(method, {"taskId": task_id})
                    assert refused == bob_cannot(task_id)
                assert bob.request("tasks/list")["tasks"] == []
                assert [t["taskId"] for t in ann.request("tasks/list")["tasks"]] == [task_id]
                assert ann.request("tasks/get", {"taskId": task_id})["status"] == "working"
            with Peer(
                at.port, DATE, headers={"X-Who": "ann"}
            ) as again:  # another session of the same principal
                assert again.request("tasks/cancel", {"taskId": task_id})["status"] == "cancelled"


def bob_cannot(task_id: str) -> dict[str, Any]:
    """The same as for a task that never was."""
    return {"code": -32602, "message": f"Task not found: {task_id!r}; it may have expired"}


@pytest.mark.spec("basic/utilities/tasks/no-list-unidentified", "basic/utilities/tasks/list-capability")
def test_over_http_without_principals_there_is_no_list_but_the_rest():
    with Stage() as stage:
        stage.add_usual()
        with endpoint(stage.server) as at, Peer(at.port, DATE) as peer:
            declared = peer.opened["capabilities"]["tasks"]
            assert declared == {"cancel": {}, "requests": {"tools": {"call": {}}}}
            assert peer.request("tasks/list")["code"] == -32601
            task_id = peer.request("tools/call", {"name": "hold", "task": {}})["task"]["taskId"]
            assert peer.request("tasks/cancel", {"taskId": task_id})["status"] == "cancelled"


@pytest.mark.spec("basic/utilities/tasks/no-list-unidentified")
def test_a_client_whom_the_principal_function_does_not_know_has_no_list():
    """Else it would have the tasks of all clients that are not known."""
    with Stage(server={"principal": by_name}) as stage:
        stage.add_usual()
        with (
            endpoint(stage.server) as at,
            Peer(at.port, DATE) as one,
            Peer(at.port, DATE, headers={"X-Who": "a"}) as known,
        ):
            one.request("tools/call", {"name": "quick", "task": {}})
            assert one.request("tasks/list")["code"] == -32601
            assert known.request("tasks/list")["tasks"] == []


def test_a_principal_function_that_raises_refuses_every_request_about_tasks():
    def raising(ctx: Context) -> str | None:
        if ctx.method.startswith("tasks/"):
            raise ValueError("the directory is down")
        return None

    with Stage(server={"principal": raising}) as stage:
        stage.add_usual()
        with stage.client() as raw:
            task_id = raw.start("quick")["taskId"]
            for method in (*METHODS, "tasks/list"):
                error = raw.about(method, task_id)["error"]
                assert error["code"] == -32603
                assert "directory" not in error["message"]


def test_a_principal_function_that_is_slow_delays_its_own_request_only():
    slow, entered = threading.Event(), threading.Event()

    def waits(ctx: Context) -> str | None:
        if ctx.method == "tasks/get" and not slow.is_set():
            entered.set()
            slow.wait(PATIENCE)
        return None

    with Stage(server={"principal": waits}) as stage:
        stage.add_usual()
        with stage.client() as raw:
            task_id = raw.start("quick")["taskId"]
            late = raw.ask("tasks/get", {"taskId": task_id})
            assert entered.wait(PATIENCE)
            assert "result" in raw.about("tasks/result", task_id)
            slow.set()
            assert raw.answer(late)["result"]["status"] == "completed"


# -- the store fails ---------------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/internal-32603", "basic/utilities/tasks/informative-errors")
@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("tasks/get", "get"),
        ("tasks/result", "get"),
        ("tasks/result", "wait"),
        ("tasks/cancel", "get"),
        ("tasks/cancel", "change"),
        ("tasks/list", "page"),
    ],
)
def test_a_request_about_a_task_that_the_store_fails_is_an_internal_error(method, step):
    store = FaultyStore()
    with Stage(store=store) as stage:
        stage.add_usual()
        with stage.client() as raw:
            task_id = raw.start("hold")["taskId"]
            store.broken = {step}
            params = {} if method == "tasks/list" else {"taskId": task_id}
            error = raw.request(method, params)["error"]
            assert error == {"code": -32603, "message": STORE_FAILS}
            store.broken = set()
            assert raw.get(task_id)["status"] == "working"


# -- over stdio and HTTP -----------------------------------------------------------------------------

CHILD = source(
    """
    @server.tool(task="required")
    def render(ctx: Context, frames: int) -> str:
        ctx.status("rendering")
        for frame in range(frames):
            ctx.progress(frame + 1, frames)
        if not ctx.confirm("Publish it?"):
            return "thrown away"
        return "published"
    """
)


@pytest.mark.spec(
    "basic/utilities/tasks/result-blocks",
    "basic/utilities/tasks/related-task-on-requests",
    "basic/utilities/tasks/list-complete",
    "basic/patterns/progress/task-same-token",
)
def test_a_task_from_its_beginning_to_its_end_over_stdio():
    with nothing_left(), TaskClient(CHILD) as raw:
        task = raw.start("render", {"frames": 3}, {"progressToken": "p"}, ttl=60_000)
        task_id = task["taskId"]
        heard = [raw.notified("notifications/progress")["progress"] for _ in range(3)]
        assert heard == [1, 2, 3]
        assert raw.until_status(task_id, "input_required")["statusMessage"] == "rendering"
        waiting = raw.ask("tasks/result", {"taskId": task_id})
        request = raw.requested("elicitation/create")
        assert request["params"]["_meta"][RELATED] == {"taskId": task_id}
        raw.reply(request, {"action": "accept", "content": {}})
        assert raw.answer(waiting)["result"]["content"][0]["text"] == "published"
        assert [t["status"] for t in raw.request("tasks/list")["result"]["tasks"]] == ["completed"]
        assert raw.about("tasks/cancel", task_id)["error"]["code"] == -32602


@pytest.mark.spec(
    "basic/utilities/tasks/get-no-sse-upgrade",
    "basic/utilities/tasks/get-transport-rules",
    "basic/utilities/tasks/related-task-on-requests",
)
def test_a_task_from_its_beginning_to_its_end_over_http():
    with Stage() as stage:
        stage.add_usual()
        add_asking(stage)
        with (
            endpoint(stage.server) as at,
            Peer(at.port, DATE, capabilities=LEGACY_CAPABILITIES) as peer,
        ):
            task_id = peer.request("tools/call", {"name": "ask", "task": {}})["task"]["taskId"]

            def status() -> str:
                with peer.ask("tasks/get", {"taskId": task_id}) as reply:
                    assert not reply.is_stream
                    return reply.json()["result"]["status"]

            assert eventually(lambda: status() == "input_required")
            with peer.ask("tasks/result", {"taskId": task_id}) as reply:
                request = reply.message()
                assert request["method"] == "elicitation/create"
                assert request["params"]["_meta"][RELATED] == {"taskId": task_id}
                answer = {"id": request["id"], "result": {"action": "accept", "content": {}}}
                assert peer.tell(answer) == 202
                result = reply.message()["result"]
                assert result["content"][0]["text"] == "accept"
                assert result["_meta"][RELATED] == {"taskId": task_id}
            assert status() == "completed"


@pytest.mark.spec("basic/utilities/tasks/get-disconnect", "basic/utilities/tasks/result-disconnect")
def test_a_client_that_leaves_the_stream_of_its_result_is_asked_again_on_the_next_over_http():
    with Stage() as stage:
        add_asking(stage)
        with (
            endpoint(stage.server) as at,
            Peer(at.port, DATE, capabilities=LEGACY_CAPABILITIES) as peer,
        ):
            task_id = peer.request("tools/call", {"name": "ask", "task": {}})["task"]["taskId"]
            with peer.ask("tasks/result", {"taskId": task_id}) as reply:
                first = reply.message()
                reply.connection.reset()
            with peer.ask("tasks/result", {"taskId": task_id}) as reply:
                second = reply.message()
                assert second["method"] == first["method"] == "elicitation/create"
                assert second["id"] != first["id"]
                peer.tell({"id": second["id"], "result": {"action": "decline"}})
                messages = iter(reply.message, None)
                (result,) = [m["result"] for m in messages if "result" in m]
                assert result["content"][0]["text"] == "decline"


# -- client half: the messages -------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/ttl-requested")
def test_a_request_is_augmented_with_a_ttl_in_milliseconds():
    assert augmented({"name": "x"}, None) == {"name": "x", "task": {}}
    assert augmented({"name": "x"}, 1.5) == {"name": "x", "task": {"ttl": 1500}}


def test_an_answer_that_holds_no_task_is_invalid():
    with pytest.raises(InvalidResponse, match="no task"):
        created("tools/call", {"content": []})
    with pytest.raises(InvalidResponse, match="status"):
        module.checked({**TASK, "status": "done"})
    assert module.checked(TASK) is TASK
    assert created("tools/call", {"task": TASK}) is TASK


TASK = {
    "taskId": "786512e2",
    "status": "working",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:40:00Z",
    "ttl": 60000,
}


def client_of(**declared: Any) -> Any:
    """A client whose server declared this."""
    return SimpleNamespace(negotiated=SimpleNamespace(server_capabilities=declared))


def tool(support: Any) -> dict[str, Any]:
    return {"name": "x", "execution": {"taskSupport": support}}


CALLS = {"tasks": {"requests": {"tools": {"call": {}}}}}


@pytest.mark.spec(
    "basic/utilities/tasks/tool-needs-capability",
    "basic/utilities/tasks/tool-forbidden",
    "basic/utilities/tasks/augment-if-declared",
    "basic/utilities/tasks/no-capability-no-tasks",
    "basic/utilities/tasks/tool-optional",
    "basic/utilities/tasks/tool-required",
)
@pytest.mark.parametrize(
    ("declared", "definition", "may", "must"),
    [
        (CALLS, tool("optional"), True, False),
        (CALLS, tool("required"), True, True),
        (CALLS, tool("forbidden"), False, False),
        (CALLS, tool("perhaps"), False, False),
        (CALLS, tool(None), False, False),
        (CALLS, {"name": "x", "execution": "required"}, False, False),
        (CALLS, {"name": "x"}, False, False),
        ({}, tool("required"), False, False),
        ({"tasks": {"list": {}}}, tool("optional"), False, False),
    ],
    ids=str,
)
def test_a_client_asks_for_a_task_where_server_and_tool_say_that_it_may(declared, definition, may, must):
    client = client_of(**declared)
    assert module.must_augment(client, definition) is must
    if may:
        module.check_may_augment(client, definition)
    else:
        with pytest.raises(LocalError):
            module.check_may_augment(client, definition)


@pytest.mark.parametrize("wrong", [None, 7, "x", [], {"ttl": "long"}, {"ttl": None}, {"ttl": -1}], ids=repr)
def test_a_wish_for_a_task_that_is_none_is_refused_on_either_side(wrong):
    context: Any = SimpleNamespace(method="sampling/createMessage", params={"task": wrong})
    with pytest.raises(InvalidParams, match="task"):
        module.ttl_of(context)


def test_what_a_server_says_of_a_task_reaches_those_that_wait_for_it():
    one, other = module.TaskNews("786512e2"), module.TaskNews("another")
    module.on_status({one, other}, TASK)
    assert (one.state, one.told.is_set()) == (TASK, True)
    assert (other.state, other.told.is_set()) == (None, False)
    module.on_status({one, other}, {})
    assert one.state == TASK


# -- a server that asks its client for tasks -------------------------------------------------------------

RUNS_TASKS = {
    **LEGACY_CAPABILITIES,
    "tasks": {"requests": {"elicitation": {"create": {}}}},
}
ACCEPTED = {"action": "accept", "content": {}}
SAMPLED = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "word"}}


def add_asks_for_tasks(stage):
    """An ordinary tool that asks one thing as a task, and one that its client does not run as one."""

    @stage.server.tool
    def asks(ctx: Context) -> list[str]:
        both = ctx.ask_all(Elicit("Sure?"), Sample("A word", max_tokens=5), as_task=True, timeout=PATIENCE)
        return [both[0].action, both[1].text]


@pytest.mark.spec(
    "basic/utilities/tasks/augment-if-declared",
    "basic/utilities/tasks/capability-exhaustive",
    "basic/utilities/tasks/ttl-requested",
)
@pytest.mark.parametrize("as_task", [True, False])
def test_a_server_asks_for_tasks_where_its_client_declared_that_it_runs_them(stage, as_task):
    """A client may still answer with the result."""
    add_asks_for_tasks(stage)
    with stage.client(DATE, RUNS_TASKS) as raw:
        call = raw.call("asks")
        elicited = raw.requested("elicitation/create")
        sampled = raw.requested("sampling/createMessage")
        assert elicited["params"]["task"] == {"ttl": PATIENCE * 1000}
        assert "task" not in sampled["params"]
        raw.reply(sampled, SAMPLED)
        if as_task:
            raw.reply(elicited, {"task": TASK})
            fetched = raw.requested("tasks/result")
            assert fetched["params"] == {"taskId": TASK["taskId"]}
            raw.reply(fetched, ACCEPTED)
        else:
            raw.reply(elicited, ACCEPTED)
        assert raw.answer(call)["result"]["structuredContent"] == {"result": ["accept", "word"]}
        assert raw.aside == []


def test_the_tasks_of_a_client_are_cancelled_when_their_results_are_not_wanted_any_more(stage):
    add_asks_for_tasks(stage)
    with stage.client(DATE, RUNS_TASKS) as raw:
        call = raw.call("asks")
        raw.reply(raw.requested("sampling/createMessage"), SAMPLED)
        raw.reply(raw.requested("elicitation/create"), {"task": TASK})
        fetched = raw.requested("tasks/result")
        raw.notify("notifications/cancelled", {"requestId": call})
        assert raw.notified("notifications/cancelled")["requestId"] == fetched["id"]
        cancelled = raw.requested("tasks/cancel")
        assert cancelled["params"] == {"taskId": TASK["taskId"]}
        raw.reply(cancelled, {**TASK, "status": "cancelled"})
        assert raw.is_alive()


def test_a_task_of_a_client_that_is_none_is_an_invalid_response(stage):
    add_asks_for_tasks(stage)
    with stage.client(DATE, RUNS_TASKS) as raw:
        call = raw.call("asks")
        raw.reply(raw.requested("sampling/createMessage"), SAMPLED)
        raw.reply(raw.requested("elicitation/create"), {"task": {"taskId": 7}})
        result = raw.answer(call)["result"]
        assert result["isError"]
        assert "no task" in result["content"][0]["text"]
