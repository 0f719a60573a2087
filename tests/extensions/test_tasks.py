"""Tasks of 2026-07-28 (page: extensions/tasks): the server decides, and all is told by tasks/get."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from http_peers import Peer, endpoint
from hypothesis import given
from hypothesis import strategies as st
from peers import META, MODERN, PATIENCE, RawClient, eventually, nothing_left, source
from task_peers import (
    CAPABILITIES,
    DATE,
    FINAL,
    MODERN_CAPABILITIES,
    RELATED,
    FaultyStore,
    Stage,
    TaskClient,
)

from mcp_ref import Context, Elicit, ProtocolError, Sample, Server
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.basic.patterns.subscriptions import server as subscriptions
from mcp_ref.extensions import tasks as module
from mcp_ref.extensions.tasks import BY_STATUS, EXTENSION, CreateTaskResult, checked, created, is_created
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.schema import checker

METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
ACK = "notifications/subscriptions/acknowledged"
TOLD = "notifications/tasks"
MISSING = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
ACCEPT = {"action": "accept", "content": {}}
WITHOUT = {"elicitation": {"form": {}}, "sampling": {}}
"""A client that does not know tasks."""


@pytest.fixture
def stage():
    with Stage() as made:
        made.add_usual()

        @made.tool(task="required")
        def ask(ctx: Context) -> str:
            return ctx.elicit("Sure?").action

        yield made


def params_of(method, task_id="x"):
    params = {"taskId": task_id}
    return {**params, "inputResponses": {}} if method == "tasks/update" else params


# -- capabilities ----------------------------------------------------------------------------------


@pytest.mark.spec(
    "extensions/tasks/identifier",
    "extensions/overview/server-advertises",
    "extensions/tasks/legacy-declaration-migrated",
    "extensions/tasks/legacy-not-advertised",
    "extensions/overview/disabled-by-default",
)
def test_a_server_with_a_tool_that_may_be_a_task_declares_the_extension(stage):
    plain = Server("plain")
    plain.add_tool(lambda: "x", name="it")
    with stage.client(MODERN) as raw, RawClient(plain, revision=MODERN) as other:
        assert raw.request("server/discover")["result"]["capabilities"]["extensions"] == {EXTENSION: {}}
        assert "tasks" not in raw.request("server/discover")["result"]["capabilities"]
        assert "extensions" not in other.request("server/discover")["result"]["capabilities"]


def test_a_server_without_tasks_knows_no_method_of_theirs():
    plain = Server("plain")
    plain.add_tool(lambda: "x", name="it")
    with TaskClient(plain, revision=MODERN) as raw:
        for method in METHODS:
            assert raw.request(method, params_of(method))["error"]["code"] == -32601
        assert listen(raw, "x") == {}


@pytest.mark.spec("extensions/tasks/tasks-result-32601")
@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
def test_what_the_older_form_had_besides_is_gone(stage, method):
    with stage.client(MODERN) as raw:
        assert raw.request(method, {"taskId": "x"})["error"]["code"] == -32601


def test_the_list_of_tools_says_nothing_of_tasks(stage):
    with stage.client(MODERN) as raw:
        assert all("execution" not in tool for tool in raw.request("tools/list")["result"]["tools"])


@pytest.mark.spec("extensions/tasks/no-task-without-capability", "extensions/overview/fallback-or-reject")
def test_a_client_that_did_not_declare_it_gets_the_result_however_long_that_takes():
    with Stage(grace=0.01) as stage:

        @stage.tool()
        def slow() -> str:
            stage.entered.release()
            stage.open.wait(0.1)
            return "done"

        with stage.client(MODERN, WITHOUT) as raw:
            result = raw.answer(raw.begin("slow"))["result"]
            assert (result["resultType"], result["content"][0]["text"]) == ("complete", "done")


@pytest.mark.spec("extensions/tasks/capability-required-32021", "extensions/overview/server-checks-client")
def test_a_tool_that_runs_as_a_task_only_is_refused_to_a_client_that_does_not_know_tasks(stage):
    with stage.client(MODERN, WITHOUT) as raw:
        error = raw.answer(raw.begin("hold"))["error"]
        assert (error["code"], error["data"]) == (-32021, MISSING)
        assert not stage.entered.acquire(blocking=False)


@pytest.mark.spec("extensions/tasks/no-task-without-capability", "extensions/overview/client-advertises")
def test_what_counts_is_what_this_very_request_says(stage):
    with stage.client(MODERN) as raw:
        task_id = raw.start("hold")["taskId"]
        assert stage.is_entered()
        without = {"_meta": {CAPABILITIES: WITHOUT}}
        call = raw.request("tools/call", {"name": "hold", "arguments": {}, **without})
        assert call["error"]["code"] == -32021
        for method in METHODS:
            answer = raw.request(method, {**params_of(method, task_id), **without})
            assert (answer["error"]["code"], answer["error"]["data"]) == (-32021, MISSING)
        assert raw.get(task_id)["status"] == "working"


@pytest.mark.spec("extensions/tasks/methods-capability-32021")
@pytest.mark.parametrize("method", METHODS)
def test_a_client_that_does_not_know_tasks_is_told_so_before_anything_about_the_task(stage, method):
    with stage.client(MODERN, WITHOUT) as raw:
        error = raw.request(method, params_of(method, "no such task"))["error"]
        assert (error["code"], error["data"]) == (-32021, MISSING)


@pytest.mark.spec("extensions/overview/untrusted-fields")
@pytest.mark.parametrize("wrong", [True, 7, "yes", [], None], ids=repr)
def test_an_extension_whose_settings_are_no_object_is_refused(stage, wrong):
    with stage.client(MODERN, {"extensions": {EXTENSION: wrong}}) as raw:
        error = raw.answer(raw.begin("hold"))["error"]
        assert error["code"] == -32602
        assert EXTENSION in error["message"]


@pytest.mark.spec("extensions/tasks/server-decides", "extensions/tasks/task-parameter-ignored")
def test_a_task_field_in_the_call_decides_nothing(stage):
    with stage.client(MODERN) as raw:
        answer = raw.request("tools/call", {"name": "quick", "arguments": {}, "task": {"ttl": 5}})
        assert answer["result"]["resultType"] == "complete"


@pytest.mark.spec("extensions/tasks/supported-methods")
def test_only_calls_of_tools_become_tasks():
    with Stage(grace=0) as stage:
        stage.add_usual()
        stage.server.add_prompt(lambda: "x", name="p")
        stage.server.add_resource(lambda: "x", "demo://a", name="a")
        with stage.client(MODERN) as raw:
            for method, params in (("prompts/get", {"name": "p"}), ("resources/read", {"uri": "demo://a"})):
                assert raw.request(method, params)["result"]["resultType"] == "complete"


# -- creation --------------------------------------------------------------------------------------


@pytest.mark.spec(
    "extensions/tasks/result-type-task",
    "extensions/tasks/create-result-flat",
    "extensions/tasks/task-fields",
    "extensions/tasks/server-decides",
    "extensions/tasks/durable-before-return",
)
def test_a_task_is_handed_out_as_the_result_itself_and_can_be_got_at_once(stage):
    with stage.client(MODERN) as raw:
        for _ in range(50):
            task = raw.start("hold")
            checker(CreateTaskResult, MODERN, ("_meta",))(task)
            assert (task["resultType"], task["status"]) == ("task", "working")
            assert (task["ttlMs"], task["pollIntervalMs"]) == (3_600_000, 1000)
            assert raw.get(task["taskId"])["status"] == "working"


@pytest.mark.spec("extensions/tasks/mrtr-before-task")
def test_what_is_asked_before_there_is_a_task_is_asked_by_the_call_itself(stage):
    @stage.tool()
    def first_ask(ctx: Context) -> str:
        said = ctx.elicit("Before?").action
        assert ctx.become_task()
        return said

    with stage.client(MODERN) as raw:
        result = raw.answer(raw.begin("first_ask"))["result"]
        assert result["resultType"] == "input_required"
        (key,) = result["inputRequests"]
        retry = {"name": "first_ask", "arguments": {}, "requestState": result["requestState"]}
        task = raw.request("tools/call", {**retry, "inputResponses": {key: ACCEPT}})["result"]
        assert task["resultType"] == "task"
        assert raw.outcome(task["taskId"])["result"]["content"][0]["text"] == "accept"


@pytest.mark.spec("extensions/tasks/unguessable-ids")
def test_an_id_is_of_128_random_bits(stage):
    with stage.client(MODERN) as raw:
        ids = [int(raw.start("hold")["taskId"], 16) for _ in range(100)]
    either, both = 0, -1
    for task_id in ids:
        either, both = either | task_id, both & task_id
    assert (either, both) == (2**128 - 1, 0)


@pytest.mark.spec("extensions/tasks/result-type-task-exclusive", "extensions/tasks/reserved-prefixes")
@pytest.mark.parametrize("support", ["forbidden", "required"])
def test_no_result_of_a_tools_own_making_is_a_task(stage, support):
    @stage.server.tool(task=support)
    def makes() -> Any:
        return {"content": [], "resultType": "task", "taskId": "x"}

    @stage.server.on_request("vendor/x")
    def answers(params: Any) -> Any:
        return {"resultType": "task"}

    with stage.client(MODERN) as raw:
        errors = [raw.request("vendor/x")["error"]]
        if support == "required":
            errors.append(raw.ended(raw.start("makes")["taskId"])["error"])
        else:
            errors.append(raw.answer(raw.begin("makes"))["error"])
        assert [error["code"] for error in errors] == [-32603, -32603]
        assert all("task" in error["message"] for error in errors)


# -- tasks/get -------------------------------------------------------------------------------------


@pytest.mark.spec(
    "extensions/tasks/get-checks-status",
    "extensions/tasks/get-working",
    "extensions/tasks/get-input-required",
    "extensions/tasks/get-completed",
    "extensions/tasks/get-cancelled",
    "extensions/tasks/get-failed",
    "extensions/tasks/failed-error-field",
    "extensions/tasks/failed-status-message",
    "extensions/tasks/get-result-type-complete",
    "extensions/tasks/result-type-task-exclusive",
    "extensions/tasks/task-fields",
)
def test_a_task_is_got_with_what_its_status_brings(stage):
    @stage.tool(task="required")
    def fails() -> str:
        raise ProtocolError("no such account", code=1001, data={"account": 7})

    @stage.tool(task="required")
    def works() -> str:
        return "done"

    with stage.client(MODERN) as raw:
        ids = {
            "working": raw.start("hold")["taskId"],
            "input_required": raw.start("ask")["taskId"],
            "completed": raw.start("works")["taskId"],
            "failed": raw.start("fails")["taskId"],
            "cancelled": raw.start("stubborn")["taskId"],
        }
        raw.about("tasks/cancel", ids["cancelled"])
        tasks = {status: raw.until_status(task_id, status) for status, task_id in ids.items()}
        for status, task in tasks.items():
            checker(BY_STATUS[status], MODERN, ("_meta", "resultType"))(task)
            assert task["resultType"] == "complete"
            brought = {"inputRequests", "result", "error"} & task.keys()
            assert (
                brought
                == {
                    "working": set(),
                    "input_required": {"inputRequests"},
                    "completed": {"result"},
                    "failed": {"error"},
                    "cancelled": set(),
                }[status]
            )
        assert tasks["failed"]["error"] == {
            "code": 1001,
            "message": "no such account",
            "data": {"account": 7},
        }
        assert tasks["failed"]["statusMessage"] == "no such account"
        (question,) = tasks["input_required"]["inputRequests"].values()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Sure?"
        assert "_meta" not in question["params"]


@pytest.mark.spec(
    "extensions/tasks/is-error-completed",
    "extensions/tasks/failed-only-json-rpc",
    "extensions/tasks/get-completed",
)
def test_the_result_of_a_task_is_that_of_the_plain_call_also_of_one_that_failed(stage):
    @stage.tool()
    def raises() -> str:
        raise ValueError("not enough rows")

    @stage.tool()
    def data() -> dict[str, int]:
        return {"a": 1}

    def as_task(ctx: Context, params: Any, proceed: Any) -> Any:
        if ctx.params.get("name") in ("raises", "data", "quick") and raw.wants_task:
            assert ctx.become_task()
        return proceed(params)

    stage.server.around(as_task)
    with stage.client(MODERN) as raw:
        for name, arguments in (("raises", {}), ("data", {}), ("quick", {}), ("quick", {"text": 7})):
            raw.wants_task = False
            plain = raw.answer(raw.begin(name, arguments))["result"]
            raw.wants_task = True
            task = raw.ended(raw.start(name, arguments)["taskId"])
            assert task["status"] == "completed"
            assert task["result"] == plain
            assert plain["resultType"] == "complete"


@pytest.mark.spec(
    "extensions/tasks/unknown-task-get-32602",
    "extensions/tasks/unknown-task-other-32602",
    "extensions/tasks/errors",
    "extensions/tasks/informative-errors",
)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("unknown", ["", "x", "é\n\x00", "%", "0" * 32, "A" * 9999], ids=range(6))
def test_an_id_that_names_no_task_is_refused(stage, method, unknown):
    with stage.client(MODERN) as raw:
        error = raw.request(method, params_of(method, unknown))["error"]
        assert error["code"] == -32602
        assert error["message"].startswith("Task not found: ")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wrong", [None, 7, True, ["x"], {}], ids=repr)
def test_an_id_that_is_no_string_is_refused(stage, method, wrong):
    with stage.client(MODERN) as raw:
        error = raw.request(method, params_of(method, wrong))["error"]
        assert error["code"] == -32602
        assert "taskId" in error["message"]


@pytest.mark.spec("extensions/tasks/auth-each-request")
def test_the_task_of_another_principal_is_not_there():
    who = ["ann"]
    with Stage(server={"principal": lambda ctx: who[0]}) as stage:
        stage.add_usual()
        with stage.client(MODERN) as raw:
            task_id = raw.start("hold")["taskId"]
            who[0] = "bob"
            for method in METHODS:
                error = raw.request(method, params_of(method, task_id))["error"]
                assert error["code"] == -32602
                assert error["message"] == f"Task not found: {task_id!r}; it may have expired"
            who[0] = "ann"
            assert raw.get(task_id)["status"] == "working"


# -- tasks/update ----------------------------------------------------------------------------------


@pytest.mark.spec(
    "extensions/tasks/update-acknowledged",
    "extensions/tasks/update-result-type",
    "extensions/tasks/get-all-outstanding",
    "extensions/tasks/partial-responses",
    "extensions/tasks/stray-responses-ignored",
)
def test_answers_count_one_by_one_and_those_to_anything_else_are_ignored(stage):
    @stage.tool(task="required")
    def three(ctx: Context) -> list[str]:
        return [answer.action for answer in ctx.ask_all(*[Elicit(text) for text in "abc"])]

    with stage.client(MODERN) as raw:
        task_id = raw.start("three")["taskId"]
        asked = raw.asked(task_id)
        keys = {request["params"]["message"]: key for key, request in asked.items()}
        assert set(keys) == set("abc")
        acknowledged = raw.update(task_id, {keys["b"]: {"action": "decline"}, "elicitation-99": 7, "": None})
        assert acknowledged["result"].keys() <= {"resultType", "_meta"}
        assert acknowledged["result"]["resultType"] == "complete"
        task = raw.get(task_id)
        assert (task["status"], set(task["inputRequests"])) == ("input_required", {keys["a"], keys["c"]})
        raw.update(task_id, {keys["b"]: ACCEPT})  # once more: the first answer counts
        raw.update(task_id, {})
        raw.update(task_id, {keys["a"]: ACCEPT, keys["c"]: {"action": "cancel"}})
        outcome = raw.outcome(task_id)["result"]
        assert outcome["structuredContent"] == {"result": ["accept", "decline", "cancel"]}


@pytest.mark.spec(
    "extensions/tasks/input-keys-unique",
    "extensions/tasks/input-keys-not-reused",
    "extensions/tasks/input-keys-not-ambiguous",
)
def test_no_key_is_used_twice_in_the_life_of_a_task(stage):
    @stage.tool(task="required")
    def many(ctx: Context) -> None:
        for _ in range(4):
            ctx.ask_all(Elicit("The same?"), Elicit("The same?"), Sample("x", max_tokens=5))
        try:
            ctx.elicit("Never answered?", timeout=0.01)
        except TimeoutError:
            ctx.elicit("After it?")

    seen: list[str] = []
    sampled = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}}
    with stage.client(MODERN) as raw:
        task_id = raw.start("many")["taskId"]

        def is_over() -> bool:
            task = raw.get(task_id)
            asked = task.get("inputRequests", {})
            told = {k: q for k, q in asked.items() if q["params"].get("message") != "Never answered?"}
            if told:
                seen.extend(told)
                answers = {k: sampled if "sampling" in q["method"] else ACCEPT for k, q in told.items()}
                raw.update(task_id, answers)
            return task["status"] in FINAL

        assert eventually(is_over)
        assert raw.get(task_id)["status"] == "completed"
    assert len(seen) == len(set(seen)) == 13


@pytest.mark.parametrize(
    ("responses", "place"),
    [
        ({"elicitation-1": 7}, "elicitation-1"),
        ({"elicitation-1": None}, "elicitation-1"),
        ({"elicitation-1": {"action": "perhaps"}}, "action"),
        ({"elicitation-1": {}}, "action"),
        ([], "inputResponses"),
        (None, "inputResponses"),
        ("accept", "inputResponses"),
    ],
    ids=repr,
)
def test_an_answer_of_a_wrong_shape_is_refused_and_its_question_is_still_asked(stage, responses, place):
    with stage.client(MODERN) as raw:
        task_id = raw.start("ask")["taskId"]
        before = raw.asked(task_id)
        error = raw.update(task_id, responses)["error"]
        assert error["code"] == -32602
        assert place in error["message"]
        assert raw.get(task_id)["inputRequests"] == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "is required"),
        ({"inputResponses": None}, "must be an object, not null"),
        ({"inputResponses": []}, "must be an object, not an array of 0"),
        ({"inputResponses": 5}, "must be an object, not 5"),
    ],
    ids=repr,
)
def test_answers_that_are_missing_or_no_object_are_refused_in_the_words_of_other_fields(stage, given, said):
    with stage.client(MODERN) as raw:
        task_id = raw.start("ask")["taskId"]
        error = raw.about("tasks/update", task_id, **given)["error"]
        assert (error["code"], error["message"]) == (-32602, f"tasks/update: inputResponses: {said}")


def test_where_one_answer_is_wrong_none_counts(stage):
    @stage.tool(task="required")
    def two(ctx: Context) -> None:
        ctx.ask_all(Elicit("One?"), Elicit("Two?"))

    with stage.client(MODERN) as raw:
        task_id = raw.start("two")["taskId"]
        first, second = raw.asked(task_id)
        assert raw.update(task_id, {first: ACCEPT, second: 7})["error"]["code"] == -32602
        assert set(raw.get(task_id)["inputRequests"]) == {first, second}


def test_an_update_without_answers_is_refused(stage):
    with stage.client(MODERN) as raw:
        task_id = raw.start("ask")["taskId"]
        assert raw.about("tasks/update", task_id)["error"]["code"] == -32602


@pytest.mark.spec("extensions/tasks/stray-responses-ignored", "extensions/tasks/update-acknowledged")
@pytest.mark.parametrize("status", ["working", *FINAL])
def test_an_update_is_acknowledged_in_every_status_and_changes_nothing(stage, status):
    @stage.tool(task="required")
    def ends(fails: bool) -> str:
        if fails:
            raise ProtocolError("no")
        return "done"

    with stage.client(MODERN) as raw:
        if status in ("working", "cancelled"):
            task_id = raw.start("hold")["taskId"]
            assert stage.is_entered()
        else:
            task_id = raw.start("ends", {"fails": status == "failed"})["taskId"]
        if status == "cancelled":
            raw.about("tasks/cancel", task_id)
        before = raw.until_status(task_id, status)
        assert raw.update(task_id, {"elicitation-1": ACCEPT})["result"]["resultType"] == "complete"
        assert raw.get(task_id) == before


# -- tasks/cancel ----------------------------------------------------------------------------------


@pytest.mark.spec(
    "extensions/tasks/cancel-acknowledged",
    "extensions/tasks/cancel-result-type",
    "extensions/tasks/cancel-other-terminal",
)
@pytest.mark.parametrize("status", ["working", "input_required", *FINAL])
def test_cancelling_is_acknowledged_in_every_status_and_ends_what_has_not_ended(stage, status):
    @stage.tool(task="required")
    def ends(fails: bool) -> str:
        if fails:
            raise ProtocolError("no")
        return "done"

    name = {"working": "hold", "input_required": "ask", "cancelled": "hold"}.get(status, "ends")
    arguments = {"fails": status == "failed"} if name == "ends" else {}
    with stage.client(MODERN) as raw:
        task_id = raw.start(name, arguments)["taskId"]
        if status == "cancelled":
            raw.about("tasks/cancel", task_id)
        raw.until_status(task_id, status)
        result = raw.about("tasks/cancel", task_id)["result"]
        assert result.keys() <= {"resultType", "_meta"}
        assert result["resultType"] == "complete"
        after = status if status in FINAL else "cancelled"
        assert raw.get(task_id)["status"] == after


# -- one task, both eras ---------------------------------------------------------------------------


@pytest.mark.spec("extensions/tasks/legacy-tasks-served")
def test_a_task_is_told_to_each_client_in_the_words_of_its_revision(stage):
    with stage.client(DATE) as old, stage.client(MODERN) as new:
        older, newer = old.start("ask")["taskId"], new.start("ask")["taskId"]
        for task_id in (older, newer):
            (key,) = new.asked(task_id)
            assert old.get(task_id)["status"] == "input_required"
            assert new.update(task_id, {key: ACCEPT})["result"]
            result = old.about("tasks/result", task_id)["result"]
            assert result["content"][0]["text"] == "accept"
            assert result["_meta"][RELATED] == {"taskId": task_id}
            assert "resultType" not in result
            told = new.ended(task_id)["result"]
            assert told["resultType"] == "complete"
            assert RELATED not in told.get("_meta", {})
            assert new.about("tasks/cancel", task_id)["result"]["resultType"] == "complete"
            assert new.ended(task_id)["result"]["content"][0]["text"] == "accept"


@pytest.mark.spec("extensions/tasks/legacy-capability-non-declaring")
@pytest.mark.parametrize("tasks", [{}, {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}])
def test_a_client_that_declares_the_older_form_only_does_not_know_tasks(stage, tasks):
    with stage.client(MODERN, {"tasks": tasks}) as raw:
        error = raw.answer(raw.begin("hold"))["error"]
        assert (error["code"], error["data"]) == (-32021, MISSING)
        assert raw.answer(raw.begin("quick"))["result"]["resultType"] == "complete"


@pytest.mark.spec("extensions/tasks/not-under-2025-11-25")
def test_the_extension_means_nothing_in_a_session_of_2025_11_25():
    with Stage(grace=0) as stage:
        stage.add_usual()
        with stage.client(DATE, MODERN_CAPABILITIES) as raw:
            result = raw.answer(raw.call("quick"))["result"]
            assert result["content"][0]["text"] == "done"
            assert raw.request("tasks/update", params_of("tasks/update"))["error"]["code"] == -32601


def test_what_only_a_session_can_be_asked_is_not_answered_by_an_update(stage):
    @stage.tool()
    def pings(ctx: Context) -> str:
        ctx.request("ping", timeout=PATIENCE)
        return "done"

    with stage.client(DATE) as old, stage.client(MODERN) as new:
        task_id = old.start("pings")["taskId"]
        (key,) = new.asked(task_id)
        error = new.update(task_id, {key: {}})["error"]
        assert error["code"] == -32602
        assert "ping" in error["message"]
        waiting = old.ask("tasks/result", {"taskId": task_id})
        old.reply(old.requested("ping"), {})
        assert old.answer(waiting)["result"]["content"][0]["text"] == "done"


# -- notifications ---------------------------------------------------------------------------------


def listen(raw, *ids, **more):
    """Listen to tasks; what was agreed to."""
    raw.ask("subscriptions/listen", {"notifications": {"taskIds": list(ids), **more}})
    return raw.until(lambda m: m.get("method") == ACK)["params"]["notifications"]


def told(raw, status):
    """The next task that is told with this status, without what is of the notification."""
    params = raw.notified(TOLD, status=status)
    return {name: value for name, value in params.items() if name != "_meta"}


@pytest.mark.spec(
    "extensions/tasks/status-notifications",
    "extensions/tasks/ack-task-ids",
    "extensions/tasks/notification-complete-state",
    "extensions/tasks/no-progress-or-log",
)
def test_who_listens_to_a_task_is_told_what_tasks_get_would_say_after_each_change(stage):
    @stage.tool(task="required")
    def busy(ctx: Context) -> str:
        stage.open.wait(PATIENCE)
        ctx.progress(1, 2)
        ctx.log("emergency", "nobody is to hear this")
        return ctx.elicit("Sure?").action

    with stage.client(MODERN) as raw, stage.client(MODERN) as other:
        meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
        task_id = raw.start("busy", meta=meta)["taskId"]
        assert listen(raw, task_id) == {"taskIds": [task_id]}
        stage.open.set()
        asked = told(raw, "input_required")
        assert asked == without_dress(raw.get(task_id))
        (key,) = asked["inputRequests"]
        raw.update(task_id, {key: ACCEPT})
        done = told(raw, "completed")
        assert done == without_dress(raw.get(task_id))
        assert done["result"]["content"][0]["text"] == "accept"
        for task in (asked, done):
            checker(BY_STATUS[task["status"]], MODERN)(task)
        assert raw.is_alive()
        assert {m["method"] for m in raw.aside} <= {TOLD}
        assert other.is_alive()
        assert other.aside == []


def without_dress(task):
    return {name: value for name, value in task.items() if name not in ("_meta", "resultType")}


@pytest.mark.spec("extensions/tasks/listen-capability-32021")
def test_listening_to_tasks_is_for_clients_that_know_them(stage):
    with stage.client(MODERN, WITHOUT) as raw:
        for ids in (["x"], []):
            error = raw.request("subscriptions/listen", {"notifications": {"taskIds": ids}})["error"]
            assert (error["code"], error["data"]) == (-32021, MISSING)
        assert stage.server.listeners._streams == {}


@pytest.mark.spec("extensions/tasks/ack-task-ids")
def test_ids_of_no_task_and_of_the_tasks_of_others_are_left_out_of_the_acknowledgment():
    who = ["ann"]
    with Stage(server={"principal": lambda ctx: who[0]}) as stage:
        stage.add_usual()
        with stage.client(MODERN) as raw:
            foreign = raw.start("hold")["taskId"]
            who[0] = "bob"
            mine = raw.start("hold")["taskId"]
            assert stage.is_entered()
            assert stage.is_entered()
            agreed = listen(raw, "nothing", mine, foreign, mine, "", toolsListChanged=True)
            assert agreed == {"taskIds": [mine], "toolsListChanged": True}
            who[0] = "ann"
            raw.about("tasks/cancel", foreign)
            who[0] = "bob"
            raw.about("tasks/cancel", mine)
            assert told(raw, "cancelled")["taskId"] == mine
            assert raw.is_alive()
            assert raw.aside == []


@pytest.mark.parametrize("wrong", ["x", 7, None, True, {}, [7], [None], ["x", []]], ids=repr)
def test_ids_that_are_no_list_of_strings_are_refused(stage, wrong):
    with stage.client(MODERN) as raw:
        error = raw.request("subscriptions/listen", {"notifications": {"taskIds": wrong}})["error"]
        assert error["code"] == -32602
        assert "taskIds" in error["message"]


def test_tasks_count_among_what_a_connection_may_watch(stage, monkeypatch):
    monkeypatch.setattr(subscriptions, "MAX_URIS", 3)
    with stage.client(MODERN) as raw:
        ids = [raw.start("hold")["taskId"] for _ in range(4)]
        error = raw.request("subscriptions/listen", {"notifications": {"taskIds": ids}})["error"]
        assert error["code"] == 429
        assert listen(raw, *ids[:2]) == {"taskIds": ids[:2]}
        error = raw.request("subscriptions/listen", {"notifications": {"taskIds": ids[2:]}})["error"]
        assert error["code"] == 429
        assert listen(raw, ids[2]) == {"taskIds": ids[2:3]}


def test_a_task_that_has_expired_is_told_of_no_more():
    with Stage(ttl=1.0) as stage:
        stage.add_usual()
        with stage.client(MODERN) as raw:
            task_id = raw.start("stubborn")["taskId"]
            assert stage.is_entered()
            listen(raw, task_id)
            assert eventually(lambda: "error" in raw.about("tasks/get", task_id))
            stage.open.set()
            assert eventually(lambda: not stage.server.tasks._runs)
            stage.server.tasks.on_change(SimpleNamespace(id=task_id))
            assert eventually(lambda: not stage.server.listeners._telling)
            assert raw.is_alive()
            assert raw.aside == []
            assert listen(raw, task_id) == {"taskIds": []}


class DumbStore(FaultyStore):
    """It fails only for the thread that tells of changes: so it can be broken before there is any."""

    def _check(self, name: str) -> None:
        if threading.current_thread().name == "mcp_ref changes":
            super()._check(name)


def test_a_change_that_the_store_could_not_tell_of_is_told_when_it_can():
    store = DumbStore()
    with Stage(store=store) as stage:
        stage.add_usual()
        with stage.client(MODERN) as raw:
            task_id = raw.start("hold")["taskId"]
            assert stage.is_entered()
            listen(raw, task_id)
            store.broken = {"get"}
            assert raw.about("tasks/cancel", task_id)["result"]["resultType"] == "complete"
            assert store.has_failed()
            assert store.has_failed()
            store.broken = set()
            assert told(raw, "cancelled")["taskId"] == task_id


def test_ids_that_the_store_cannot_look_up_are_an_internal_error():
    store = FaultyStore()
    with Stage(store=store) as stage:
        stage.add_usual()
        with stage.client(MODERN) as raw:
            task_id = raw.start("hold")["taskId"]
            store.broken = {"get"}
            answer = raw.request("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
            assert answer["error"]["code"] == -32603
            store.broken = set()


def test_a_subscription_ends_and_its_task_goes_on(stage):
    with stage.client(MODERN) as raw:
        task_id = raw.start("hold")["taskId"]
        name = raw.ask("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        raw.until(lambda m: m.get("method") == ACK)
        raw.notify("notifications/cancelled", {"requestId": name})
        assert raw.is_alive()  # and so the cancellation was read
        stage.open.set()
        assert raw.ended(task_id)["status"] == "completed"
        assert raw.aside == []


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
    "extensions/tasks/result-type-task",
    "extensions/tasks/get-input-required",
    "extensions/tasks/update-acknowledged",
    "extensions/tasks/status-notifications",
)
def test_a_task_from_its_beginning_to_its_end_over_stdio():
    with nothing_left(), TaskClient(CHILD, revision=MODERN) as raw:
        task_id = raw.start("render", {"frames": 3}, {"progressToken": "p"})["taskId"]
        assert listen(raw, task_id) == {"taskIds": [task_id]}
        (key,) = raw.asked(task_id)
        assert raw.get(task_id)["statusMessage"] == "3 of 3"
        raw.update(task_id, {key: ACCEPT})
        done = told(raw, "completed")
        assert done["result"]["content"][0]["text"] == "published"
        assert raw.about("tasks/cancel", task_id)["result"]["resultType"] == "complete"
        assert raw.get(task_id)["status"] == "completed"


def over_http(peer, method, task_id, **more):
    """A request about a task over HTTP: its result, or its error."""
    message = peer.message(method, {"taskId": task_id, **more})
    with peer.post(message, Mcp_Name=task_id) as reply:
        assert not reply.is_stream
        answer = reply.json()
        return answer.get("result", answer.get("error"))


@pytest.mark.spec(
    "extensions/tasks/result-type-task",
    "extensions/tasks/durable-before-return",
    "extensions/tasks/get-input-required",
    "extensions/tasks/status-notifications",
)
def test_a_task_from_its_beginning_to_its_end_over_http(stage):
    with endpoint(stage.server) as at, Peer(at.port, capabilities=MODERN_CAPABILITIES) as peer:
        task = peer.request("tools/call", {"name": "ask", "arguments": {}})
        assert task["resultType"] == "task"
        task_id = task["taskId"]
        assert eventually(lambda: over_http(peer, "tasks/get", task_id)["status"] == "input_required")
        with peer.ask("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}) as reply:
            assert reply.message()["params"]["notifications"] == {"taskIds": [task_id]}
            (key,) = over_http(peer, "tasks/get", task_id)["inputRequests"]
            done = over_http(peer, "tasks/update", task_id, inputResponses={key: ACCEPT})
            assert done["resultType"] == "complete"
            messages = iter(reply.message, None)
            last = next(m["params"] for m in messages if m["params"]["status"] == "completed")
            assert last["result"]["content"][0]["text"] == "accept"
        assert over_http(peer, "tasks/get", task_id)["result"] == last["result"]
        assert over_http(peer, "tasks/cancel", task_id)["resultType"] == "complete"


@pytest.mark.spec("extensions/tasks/mcp-name-task-id")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("said", [None, "another", "X"])
def test_over_http_the_header_names_the_task(stage, method, said):
    with endpoint(stage.server) as at, Peer(at.port, capabilities=MODERN_CAPABILITIES) as peer:
        message = peer.message(method, params_of(method))
        with peer.post(message, Mcp_Name=said) as reply:
            assert reply.status == 400
            assert reply.json()["error"]["code"] == -32020


def test_over_http_a_client_that_leaves_within_the_grace_leaves_no_task():
    with Stage() as stage:
        gone = []

        @stage.tool()
        def waits(ctx: Context) -> None:
            stage.entered.release()
            try:
                ctx.sleep(1000)
            finally:
                gone.append(ctx.handling.task)
                stage.left.release()

        with endpoint(stage.server) as at, Peer(at.port, capabilities=MODERN_CAPABILITIES) as peer:
            message = peer.message("tools/call", {"name": "waits", "arguments": {}})
            connection = peer.send("POST", message)
            assert stage.is_entered()
            connection.reset()
            assert stage.is_left()
            assert gone == [None]
            assert stage.store.page(None, None, 10) == []


# -- client half: what arrives -------------------------------------------------------------------------

TIMES: dict[str, Any] = {
    "taskId": "786512e2",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:50:00Z",
    "ttlMs": 60_000,
}
BROUGHT: dict[str, dict[str, Any]] = {
    "working": {},
    "input_required": {"inputRequests": {}},
    "completed": {"result": {}},
    "failed": {"error": {"code": -32603, "message": "no"}},
    "cancelled": {},
}


@pytest.mark.parametrize("status", BROUGHT)
def test_a_task_as_it_is_told_has_what_its_status_brings(status):
    task = {**TIMES, "status": status, **BROUGHT[status]}
    assert checked(task) is task
    for member in BROUGHT[status]:
        with pytest.raises(InvalidResponse, match=member):
            checked({name: value for name, value in task.items() if name != member})


@pytest.mark.parametrize("status", ["done", None, 7, ["working"], {}], ids=repr)
def test_a_task_in_no_status_is_invalid(status):
    with pytest.raises(InvalidResponse, match="status"):
        checked({**TIMES, "status": status})


@given(st.dictionaries(st.sampled_from([*TIMES, "status", "result"]), st.none() | st.text() | st.integers()))
def test_whatever_is_told_of_a_task_is_one_or_invalid(told):
    try:
        checked(told)
    except InvalidResponse:
        return
    assert told.keys() >= {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"}


@pytest.mark.spec("extensions/tasks/unsupported-request-invalid")
def test_a_task_instead_of_any_other_result_is_invalid():
    task = {"resultType": "task", "status": "working", **TIMES}
    assert created("tools/call", task)["taskId"] == "786512e2"
    for method in ("prompts/get", "resources/read", "tools/list"):
        with pytest.raises(InvalidResponse, match=method):
            created(method, task)
    with pytest.raises(InvalidResponse, match="tools/call"):
        created("tools/call", {"resultType": "task"})


@pytest.mark.parametrize(
    ("result", "is_one"),
    [({"resultType": "task"}, True), ({"resultType": "complete"}, False), ({}, False), (None, False)],
    ids=repr,
)
def test_a_task_is_known_by_its_result_type(result, is_one):
    assert is_created(result) is is_one


def test_the_capability_is_asked_of_each_request():
    assert META[CAPABILITIES] == {}
    context: Any = SimpleNamespace(client_capabilities={"extensions": {EXTENSION: {}}})
    assert module.is_declared(context)
    for capabilities in ({}, {"extensions": {}}, {"extensions": []}, {"extensions": None}):
        assert not module.is_declared(SimpleNamespace(client_capabilities=capabilities))  # type: ignore


def client_that(fulfil: Any) -> Any:
    """A client that answers elicitations with a function of their message."""

    def call(method: str, params: Any, context: Any) -> Any:
        return fulfil(params.get("message"))

    return SimpleNamespace(input_requests={"elicitation/create": None}, fulfil=call)


def question(message: str) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": message}}


@pytest.mark.spec(
    "extensions/tasks/client-inspects-inputs",
    "extensions/tasks/inputs-deduplicated",
    "extensions/tasks/answered-keys-tracked",
    "extensions/tasks/update-keys-outstanding",
)
def test_each_question_is_answered_once_and_sent_as_long_as_it_is_asked():
    asked: list[str] = []
    client = client_that(lambda message: asked.append(message) or ACCEPT)
    answers = module.Answers()
    answers.gather(client, {"a": question("One?"), "b": question("Two?")})
    answers.gather(client, {"a": question("One?"), "b": question("Two?"), "c": question("Three?")})
    assert asked == ["One?", "Two?", "Three?"]
    unsent = answers.unsent({"a": question("One?"), "c": question("Three?"), "d": question("New?")})
    assert unsent == {"a": ACCEPT, "c": ACCEPT}  # "b" was answered in another way
    answers.sent(unsent)
    assert answers.unsent({"a": question("One?"), "c": question("Three?")}) == {}


@pytest.mark.parametrize(
    "wrong", [7, {}, {"method": "tools/call"}, {"method": "elicitation/create", "params": 7}], ids=repr
)
def test_what_is_no_request_for_input_is_refused_before_any_callback_runs(wrong):
    asked: list[str] = []
    client = client_that(lambda message: asked.append(message) or ACCEPT)
    with pytest.raises(InvalidResponse, match="inputRequests"):
        module.Answers().gather(client, {"a": question("Fine?"), "b": wrong})
    assert asked == []


def test_a_question_that_was_refused_may_be_asked_again():
    def refuse(message: str) -> Any:
        raise ProtocolError("not that")

    answers = module.Answers()
    with pytest.raises(InputRefused, match="not that"):
        answers.gather(client_that(refuse), {"a": question("Sure?")})
    answers.gather(client_that(lambda message: ACCEPT), {"a": question("Sure?")})
    assert answers.unsent({"a": None}) == {"a": ACCEPT}


def test_a_client_answers_no_more_questions_than_it_remembers(monkeypatch):
    monkeypatch.setattr(module, "MAX_KEYS", 2)
    answers = module.Answers()
    client = client_that(lambda message: ACCEPT)
    with pytest.raises(InputRefused, match="2 questions"):
        answers.gather(client, {key: question(key) for key in "abc"})
    assert answers.unsent(dict.fromkeys("abc")) == {"a": ACCEPT, "b": ACCEPT}


def test_capabilities_can_be_had_with_the_extension_and_without_it() -> None:
    others = {"sampling": {}, "extensions": {"com.example/other": {}}}
    both = module.with_tasks(others)
    assert module.is_known_to(both)
    assert module.without_tasks(both) == others
    assert module.without_tasks({"sampling": {}}) == {"sampling": {}}
