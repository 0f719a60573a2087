"""How tasks are run, in both eras: creation, cancellation, expiry, limits, questions, a store that fails."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from peers import (
    ENV,
    LEGACY,
    MODERN,
    PATIENCE,
    REVISIONS,
    RawClient,
    eventually,
    nothing_left,
    plain,
    python,
    source,
)
from task_peers import DATE, ERAS, RELATED, FaultyStore, Stage, TaskClient, lines

from mcp_ref import Context, Elicit, Limit, ProtocolError, Sample, UrlElicitationRequired
from mcp_ref.basic.index.error_responses import InternalError, TooManyRequests
from mcp_ref.basic.patterns.index.context import Reports
from mcp_ref.basic.utilities.tasks import behavior_requirements as module
from mcp_ref.basic.utilities.tasks.behavior_requirements import Receiver, TaskNotFound, TaskOptions, TaskRun
from mcp_ref.basic.utilities.tasks.data_types import FIELDS, TaskIsOver
from mcp_ref.client.elicitation.url_mode import ElicitUrl
from mcp_ref.runtime.errors import RequestCancelled
from mcp_ref.runtime.stores.memory import MemoryStore
from mcp_ref.runtime.stores.sqlite import SqliteStore
from mcp_ref.runtime.stores.store import StoreError

BOTH = pytest.mark.parametrize("era", ERAS)
ACCEPT = {"action": "accept", "content": {}}

INTERRUPTED = "The task was interrupted, since what ran it has ended; start it again."

STORE_FAILS = "the store of tasks fails now; the log of this side says why"
"""What a peer is told: not where the store is."""


@pytest.fixture
def stage():
    with Stage() as made:
        made.add_usual()
        yield made


def answer_all(raw, task_id, reply):
    """Answer all that a task asks with `reply(method, params)`, until it is over; its outcome."""
    if raw.is_modern:
        done = set()

        def is_over():
            task = raw.get(task_id)
            asked = {k: q for k, q in task.get("inputRequests", {}).items() if k not in done}
            if asked:
                responses = {k: reply(q["method"], q.get("params", {})) for k, q in asked.items()}
                assert raw.update(task_id, responses)["result"]["resultType"] == "complete"
                done.update(asked)
            return task["status"] in ("completed", "failed", "cancelled")

        assert eventually(is_over)
        return raw.outcome(task_id)
    waiting = raw.ask("tasks/result", {"taskId": task_id})
    while True:
        message = raw.until(lambda m: "id" in m)
        if "method" not in message:
            assert message["id"] == waiting
            return message
        assert message["params"]["_meta"][RELATED] == {"taskId": task_id}
        raw.reply(message, reply(message["method"], message["params"]))


def text_of(outcome):
    return outcome["result"]["content"][0]["text"]


# -- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"store": object()}, TypeError),
        ({"store": "tasks.db"}, TypeError),
        ({"ttl": 0}, ValueError),
        ({"ttl": "1"}, TypeError),
        ({"max_ttl": -1}, ValueError),
        ({"ttl": 10, "max_ttl": 5}, ValueError),
        ({"poll_interval": 0}, ValueError),
        ({"grace": -1}, ValueError),
        ({"grace": None}, TypeError),
        ({"most_live": 0}, ValueError),
        ({"workers": 0}, ValueError),
        ({"workers": 1.5}, TypeError),
    ],
    ids=plain,
)
def test_an_option_that_cannot_be_is_refused_by_its_name(given, kind):
    with pytest.raises(kind, match=next(iter(given))):
        TaskOptions(**given)


def test_no_grace_is_a_grace():
    assert TaskOptions(grace=0).grace == 0


# -- creation ----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.spec(
    "basic/utilities/tasks/id-by-receiver",
    "basic/utilities/tasks/id-unique",
    "basic/utilities/tasks/id-string",
    "basic/utilities/tasks/unguessable-ids",
    "basic/utilities/tasks/create-result-soon",
)
def test_each_task_has_an_id_of_128_random_bits_and_is_there_when_it_is_handed_out(stage, era):
    with stage.client(era) as raw:
        ids = [raw.start("hold", {})["taskId"] for _ in range(20)]
        assert len(set(ids)) == 20
        assert all(len(task_id) == 32 and int(task_id, 16) >= 0 for task_id in ids)
        assert all(raw.get(task_id)["status"] == "working" for task_id in ids)


def test_ids_differ_in_every_bit():
    """16 bytes of `secrets`: each of the 128 bits is set in some of 64 ids, and not set in others."""
    run = TaskRun(Receiver(), bare_context(), Quiet(), dict, lambda result: b"")
    ids = [int(run._new_entry().id, 16) for _ in range(64)]
    either, both = 0, -1
    for task_id in ids:
        either, both = either | task_id, both & task_id
    assert either == 2**128 - 1
    assert both == 0


@BOTH
@pytest.mark.spec("extensions/tasks/durable-before-return", "extensions/tasks/consistency-awaited")
def test_the_store_has_a_task_before_it_is_handed_out(era):
    """extensions/tasks#task-creation: durable before it is returned."""
    store = SlowStore()
    with Stage(store=store) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            call = raw.begin("hold")
            assert store.entered.acquire(timeout=PATIENCE)
            assert raw.is_alive()
            assert not [m for m in raw.aside if m.get("id") == call]
            store.go.set()
            assert "result" in raw.answer(call)


class SlowStore(MemoryStore):
    """Adds nothing before the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go = threading.Semaphore(0), threading.Event()

    def add(self, *given: Any, **more: Any) -> None:
        self.entered.release()
        self.go.wait(PATIENCE)
        super().add(*given, **more)


@BOTH
def test_a_cancel_that_comes_between_creation_and_answer_counts_and_the_tool_does_not_run(era):
    class Hasty(MemoryStore):
        """Another client of the same principal finds the task in its list, and cancels it at once."""

        def add(self, entry: Any, **more: Any) -> None:
            super().add(entry, **more)
            stage.server.tasks.cancel(entry.id, None, "not wanted")

    with Stage(store=Hasty()) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            task = raw.start("hold")
            assert task["status"] == "working"
            assert raw.get(task["taskId"])["status"] == "cancelled"
            assert eventually(lambda: not stage.server.tasks._runs)
            assert not stage.entered.acquire(blocking=False)


@BOTH
def test_what_a_tool_says_of_its_state_stands_beside_the_status_and_outlives_it(stage, era):
    @stage.tool(task="required")
    def told(ctx: Context) -> str:
        ctx.status("first")
        stage.entered.release()
        stage.open.wait(PATIENCE)
        return "x"

    with stage.client(era) as raw:
        task_id = raw.start("told")["taskId"]
        assert stage.is_entered()
        assert raw.get(task_id)["statusMessage"] == "first"
        stage.open.set()
        assert "statusMessage" not in raw.ended(task_id)


# -- cancelling and ending at once -------------------------------------------------------------------


class Quiet:
    """A plan that tells nothing."""

    words, ttl, at_once, relates = FIELDS, None, True, False

    def created(self, task: Any) -> Any:
        return task

    def notify(self, run: Any, entry: Any) -> None:
        pass


def bare_context(**more: Any) -> Any:
    """As much of a context as a run needs."""
    context = SimpleNamespace(
        method="tools/call", principal=None, handling=SimpleNamespace(run=None, task=None), reason=None
    )
    context.cancelled, context.reports = False, Reports()

    def cancel(reason: Any) -> None:
        context.reason, context.cancelled = reason, True

    context.cancel = cancel
    vars(context).update(more)
    return context


@pytest.mark.spec(
    "basic/utilities/tasks/terminal-is-final",
    "basic/utilities/tasks/cancelled-stays",
    "basic/utilities/tasks/cancel-terminal-32602",
)
def test_of_a_cancel_and_an_end_at_once_one_comes_first_and_stays_10_000_times(caplog):
    """What tasks/cancel was told is what the task is from then on: cancelled, or ended before."""
    receiver = Receiver(TaskOptions(most_live=20_000))
    runs: list[TaskRun] = []
    for _ in range(10_000):
        run = TaskRun(receiver, bare_context(), Quiet(), lambda: {"content": []}, lambda result: b"{}")
        run.hand_out()
        runs.append(run)
    ending = threading.Thread(target=lambda: [run.run() for run in runs])
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        ending.start()
        told = []
        for run in runs:
            try:
                told.append(receiver.cancel(run.id, None, "not wanted").state["status"])
            except TaskIsOver:
                told.append(receiver.find(run.id, None).state["status"])
        ending.join(PATIENCE)
    finally:
        sys.setswitchinterval(switch)
    after = [receiver.find(run.id, None) for run in runs]
    assert [entry.state["status"] for entry in after] == told
    assert set(told) <= {"completed", "cancelled"}
    assert {entry.version for entry in after} == {2}  # it ended once
    assert caplog.records == []
    assert receiver._runs == {}


@BOTH
def test_a_task_that_waits_for_a_thread_when_it_is_cancelled_never_runs(era):
    with Stage(workers=1) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            first, second = (raw.start("hold")["taskId"] for _ in range(2))
            assert stage.is_entered()
            assert raw.get(second)["status"] == "working"
            assert "result" in raw.about("tasks/cancel", second)
            assert raw.get(second)["status"] == "cancelled"
            stage.open.set()
            assert text_of(raw.outcome(first)) == "through"
            assert eventually(lambda: not stage.server.tasks._runs)
            assert not stage.entered.acquire(blocking=False)


@BOTH
@pytest.mark.spec("basic/utilities/tasks/cancel-stops")
def test_cancelling_wakes_a_tool_that_sleeps_or_waits_for_an_answer(stage, era):
    how = []

    @stage.tool(task="required")
    def sleeps(ctx: Context) -> None:
        stage.entered.release()
        try:
            ctx.sleep(1000)
        except BaseException as problem:
            how.append(type(problem))
            raise
        finally:
            stage.left.release()

    @stage.tool(task="required")
    def asks(ctx: Context) -> None:
        stage.entered.release()
        try:
            ctx.confirm("Sure?")
        except BaseException as problem:
            how.append(type(problem))
            raise
        finally:
            stage.left.release()

    with stage.client(era) as raw:
        for tool in ("sleeps", "asks"):
            task_id = raw.start(tool)["taskId"]
            assert stage.is_entered()
            if tool == "asks":
                raw.until_status(task_id, "input_required")
            raw.about("tasks/cancel", task_id)
            assert stage.is_left()
            assert raw.get(task_id)["status"] == "cancelled"
    assert how == [RequestCancelled, RequestCancelled]


# -- a request that may become a task (2026-07-28) ---------------------------------------------------


def test_a_call_that_is_quick_is_answered_as_usual(stage):
    with stage.client(MODERN) as raw:
        result = raw.answer(raw.begin("quick"))["result"]
        assert (result["resultType"], result["content"][0]["text"]) == ("complete", "done")


@pytest.mark.parametrize("grace", [0, 0.05])
def test_a_call_that_takes_longer_than_the_grace_is_handed_out(grace):
    with Stage(grace=grace) as stage:

        @stage.tool()
        def slow(ctx: Context) -> str:
            ctx.status("under way")
            stage.entered.release()
            stage.open.wait(PATIENCE)
            return "done"

        with stage.client(MODERN) as raw:
            task_id = raw.start("slow")["taskId"]
            assert stage.is_entered()
            assert raw.until_status(task_id, "working")["statusMessage"] == "under way"
            stage.open.set()
            assert text_of(raw.outcome(task_id)) == "done"


class Until:
    """Options of tasks whose grace is over when the test says so."""

    def __init__(self, stage: Stage) -> None:
        self._options, self.over = stage.server.tasks.options, threading.Event()
        stage.server.tasks.options = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._options, name)

    @property
    def grace(self) -> float:
        assert self.over.wait(PATIENCE)
        return 0.01


def test_a_call_that_is_cancelled_within_the_grace_is_no_task_and_nothing_failed(caplog):
    with Stage() as stage:
        grace = Until(stage)

        @stage.tool()
        def waits(ctx: Context) -> None:
            stage.entered.release()
            ctx.sleep(1000)

        @stage.tool()
        def ignores() -> str:
            stage.entered.release()
            stage.open.wait(PATIENCE)
            return "x"

        with stage.client(MODERN) as raw:
            for tool in ("waits", "ignores"):
                call = raw.begin(tool)
                assert stage.is_entered()
                raw.notify("notifications/cancelled", {"requestId": call})
                assert raw.is_alive()  # and so the cancellation was read
                grace.over.set()
                assert eventually(lambda: not raw_serving(stage))
                grace.over.clear()
            assert stage.store.page(None, None, 10) == []
            stage.open.set()
            assert raw.is_alive()
            assert raw.aside == []
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


def raw_serving(stage):
    """The threads of requests that still run."""
    return [t for t in threading.enumerate() if t.name.startswith("mcp_ref worker") and in_answer(t)]


def in_answer(thread):
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        if frame.f_code is TaskRun.answer.__code__:
            return True
        frame = frame.f_back
    return False


@pytest.mark.parametrize("answered_again", [False, True])
def test_what_is_asked_before_there_is_a_task_is_asked_in_rounds_and_after_it_in_the_task(answered_again):
    """The answers of the rounds are still known when it has become a task."""
    with Stage() as stage:

        @stage.tool()
        def ask(ctx: Context) -> list[str]:
            said = [] if answered_again else [ctx.elicit("One?").action]
            if answered_again and ctx.params.get("requestState"):
                assert ctx.become_task()  # before it comes to the question that was answered
            if answered_again:
                said = [ctx.elicit("One?").action]
            assert ctx.become_task()
            return [*said, ctx.elicit("Two?").action]

        with stage.client(MODERN) as raw:
            first = raw.answer(raw.begin("ask"))["result"]
            assert first["resultType"] == "input_required"
            (key,) = first["inputRequests"]
            retry = {
                "name": "ask",
                "arguments": {},
                "inputResponses": {key: {"action": "decline"}},
                "requestState": first["requestState"],
            }
            task = raw.request("tools/call", retry)["result"]
            assert task["resultType"] == "task"
            (question,) = raw.asked(task["taskId"]).values()
            assert question["params"]["message"] == "Two?"
            outcome = answer_all(raw, task["taskId"], lambda method, params: ACCEPT)
            assert outcome["result"]["structuredContent"] == {"result": ["decline", "accept"]}


def test_a_tool_that_asks_something_else_than_in_the_round_before_is_answered_anew(stage):
    @stage.tool()
    def ask(ctx: Context) -> list[str]:
        is_retry = "requestState" in ctx.params
        if is_retry:
            assert ctx.become_task()
        return [ctx.elicit("Now?" if is_retry else "Then?").action]

    with stage.client(MODERN) as raw:
        first = raw.answer(raw.begin("ask"))["result"]
        (key,) = first["inputRequests"]
        retry = {"name": "ask", "arguments": {}, "requestState": first["requestState"]}
        retry["inputResponses"] = {key: {"action": "decline"}}
        task_id = raw.request("tools/call", retry)["result"]["taskId"]
        outcome = answer_all(raw, task_id, lambda method, params: ACCEPT)
        assert outcome["result"]["structuredContent"] == {"result": ["accept"]}


def test_a_question_that_unwinds_while_the_call_is_handed_out_is_asked_by_the_task():
    with Stage() as stage:
        grace, runs = Until(stage), []

        @stage.tool()
        def ask(ctx: Context) -> str:
            runs.append(ctx.once("charge", lambda: len(runs)))
            try:
                return ctx.elicit("Sure?").action
            finally:
                if len(runs) == 1:  # it is unwound, slowly
                    grace.over.set()
                    stage.open.wait(PATIENCE)

        with stage.client(MODERN) as raw:
            task_id = raw.start("ask")["taskId"]
            stage.open.set()
            outcome = answer_all(raw, task_id, lambda method, params: ACCEPT)
            assert text_of(outcome) == "accept"
            assert runs == [0, 0]


def test_a_task_asks_what_a_result_of_its_tools_own_making_asks(stage):
    @stage.tool(task="required")
    def by_hand(ctx: Context) -> Any:
        if ctx.request_state is None:
            question = {"method": "elicitation/create", "params": Elicit("Sure?").question(ctx).params}
            return {
                "resultType": "input_required",
                "inputRequests": {"mine": question},
                "requestState": "step 1",
            }
        if ctx.request_state == "step 1":
            assert ctx.input_responses["mine"]["action"] == "accept"
            return {"resultType": "input_required", "requestState": "step 2"}  # come again
        return ctx.request_state

    with Stage(poll_interval=0.01) as quick:
        quick.server.tools = stage.server.tools
        quick.server.tasks.is_offered = True
        with quick.client(MODERN) as raw:
            task_id = raw.start("by_hand")["taskId"]
            assert text_of(answer_all(raw, task_id, lambda method, params: ACCEPT)) == "step 2"


BECOME = {
    "a call of an optional tool, where the client knows tasks": (MODERN, "optional", True),
    "a task from the start": (MODERN, "required", True),
    "a tool that may be none": (MODERN, "forbidden", False),
    "a task of 2025-11-25": (DATE, "optional", True),
}


@pytest.mark.parametrize("situation", BECOME)
def test_become_task_says_whether_it_is_one_now_and_is_harmless_when_repeated(stage, situation):
    era, support, becomes = BECOME[situation]
    said = []

    @stage.server.tool(task=support)
    def become(ctx: Context) -> str:
        said.extend((ctx.become_task(), ctx.become_task()))
        return "x"

    with stage.client(era) as raw:
        if becomes:
            assert text_of(raw.outcome(raw.start("become")["taskId"])) == "x"
        else:
            assert raw.answer(raw.call("become"))["result"]["content"][0]["text"] == "x"
    assert said == [becomes, becomes]


@pytest.mark.parametrize("date", REVISIONS)
def test_become_task_is_false_where_the_client_knows_no_tasks_and_the_call_goes_on(stage, date):
    said = []

    @stage.tool()
    def become(ctx: Context) -> str:
        said.append(ctx.become_task())
        ctx.status("x")
        return "x"

    with stage.client(date, {}) as raw:
        assert raw.answer(raw.call("become"))["result"]["content"][0]["text"] == "x"
    assert said == [False]


@BOTH
def test_become_task_is_false_for_what_is_no_call_of_a_tool(stage, era):
    @stage.server.prompt(name="p")
    def prompt(ctx: Context) -> str:
        return str(ctx.become_task())

    with stage.client(era) as raw:
        messages = raw.request("prompts/get", {"name": "p"})["result"]["messages"]
        assert messages[0]["content"]["text"] == "False"


def test_become_task_is_false_when_the_call_was_cancelled_or_is_over(stage):
    kept, said = [], []

    @stage.tool()
    def cancelled(ctx: Context) -> str:
        kept.append(ctx)
        stage.entered.release()
        assert eventually(lambda: ctx.cancelled)
        said.append(ctx.become_task())
        stage.left.release()
        return "x"

    @stage.tool()
    def over(ctx: Context) -> str:
        kept.append(ctx)
        return "x"

    with stage.client(MODERN) as raw:
        call = raw.begin("cancelled")
        assert stage.is_entered()
        raw.notify("notifications/cancelled", {"requestId": call})
        assert stage.is_left()
        raw.answer(raw.begin("over"))
        said.append(kept[-1].become_task())
    assert said == [False, False]


@pytest.mark.parametrize("why", ["the limit", "the store"])
@pytest.mark.parametrize("grace", [0.05, PATIENCE])
def test_a_call_that_has_begun_and_cannot_be_a_task_is_answered_when_it_ends(why, grace, caplog):
    store = FaultyStore()
    with Stage(store=store, most_live=1, grace=grace) as stage:
        stage.add_usual()
        said = []

        @stage.tool()
        def becomes(ctx: Context) -> str:
            if grace == PATIENCE:
                said.append(ctx.become_task())
            stage.entered.release()
            stage.open.wait(PATIENCE)
            return "done"

        with stage.client(MODERN) as raw:
            if why == "the limit":
                raw.start("stubborn")
                assert stage.is_entered()
            else:
                store.broken = {"add"}
            call = raw.begin("becomes")
            assert stage.is_entered()
            if grace < PATIENCE and why == "the store":
                assert store.has_failed()
            if grace < PATIENCE:  # it was refused while there was no room
                assert eventually(lambda: "cannot be a task" in caplog.text)
            stage.open.set()
            result = raw.answer(call)["result"]
            assert (result["resultType"], result["content"][0]["text"]) == ("complete", "done")
        assert said == [False] * (grace == PATIENCE)


# -- limits --------------------------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/limit-concurrent")
def test_of_10_000_tasks_at_once_all_beyond_the_limit_are_refused_and_threads_are_few():
    with Stage(most_live=500, workers=8, server={"queue": 2000}) as stage:
        stage.add_usual()
        with stage.client() as raw:
            outcomes: collections.Counter[str] = collections.Counter()
            for _ in range(10):
                calls = [
                    raw.message("tools/call", {"name": "stubborn", "arguments": {}, "task": {}})
                    for _ in range(1000)
                ]
                raw.send(*calls)
                for _ in calls:
                    answer = raw._next(PATIENCE)
                    if "error" in answer:
                        assert answer["error"]["code"] == 429
                        assert answer["error"]["data"]["retryAfterMs"] > 0
                    outcomes["error" if "error" in answer else "task"] += 1
            assert outcomes == {"task": 500, "error": 9500}
            assert len(stage.server.tasks._runs) == 500
            assert len(stage.store._entries) == 500
            assert stage.server.tasks.workers._workers == 8
            stage.open.set()
            assert eventually(lambda: not stage.server.tasks._runs)
            assert raw.start("quick")  # there is room again


@BOTH
@pytest.mark.spec("basic/utilities/tasks/limit-concurrent")
def test_a_task_that_is_over_makes_room_for_another(era):
    with Stage(most_live=2) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            first, _ = (raw.start("hold")["taskId"] for _ in range(2))
            error = raw.answer(raw.begin("hold"))["error"]
            assert error["code"] == 429
            assert "2" in error["message"]
            raw.about("tasks/cancel", first)
            assert raw.start("hold")


@BOTH
def test_what_one_principal_keeps_leaves_room_for_the_tasks_of_others(era):
    who, store = ["ann"], MemoryStore(most=6)
    with Stage(store=store, ttl=7200.0, server={"principal": lambda ctx: who[0]}) as stage:
        stage.server.add_tool(lambda: "done", name="brief", task="required")
        with stage.client(era) as raw:
            for _ in range(3):
                raw.outcome(raw.start("brief")["taskId"])
            error = raw.answer(raw.begin("brief"))["error"]
            assert (error["code"], "3 of the 6" in error["message"]) == (429, True)
            assert 7100_000 < error["data"]["retryAfterMs"] <= 7200_000
            who[0] = "bob"
            assert text_of(raw.outcome(raw.start("brief")["taskId"])) == "done"
    store.close()


def test_each_principal_has_a_limit_of_its_own():
    who = ["ann"]
    with Stage(most_live=1, server={"principal": lambda ctx: who[0]}) as stage:
        stage.add_usual()
        with stage.client() as raw:
            raw.start("hold")
            assert raw.answer(raw.begin("hold"))["error"]["code"] == 429
            who[0] = "bob"
            raw.start("hold")


@BOTH
def test_tools_that_ignore_cancellation_do_not_make_threads_without_end(era):
    """Their tasks no longer count as live; but as many as may wait for a thread wait, and no more."""
    with Stage(workers=1, most_live=1) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            runs = raw.start("stubborn")["taskId"]
            assert stage.is_entered()  # a task that is cancelled before it began does not run
            raw.about("tasks/cancel", runs)
            raw.about("tasks/cancel", raw.start("stubborn")["taskId"])  # it waits for the thread
            error = raw.answer(raw.begin("stubborn"))["error"]
            assert error["code"] == 429
            assert stage.server.tasks.workers._workers == 1
            assert not stage.entered.acquire(blocking=False)
            stage.open.set()
            assert eventually(lambda: not stage.server.tasks._runs)
            assert raw.outcome(raw.start("stubborn")["taskId"])["result"]


def test_an_optional_call_for_which_there_is_no_thread_is_refused_and_does_not_run():
    with Stage(workers=1, most_live=1) as stage:
        stage.add_usual()
        with stage.client(MODERN) as raw:
            runs = raw.start("stubborn")["taskId"]
            assert stage.is_entered()  # a task that is cancelled before it began does not run
            raw.about("tasks/cancel", runs)
            raw.about("tasks/cancel", raw.start("stubborn")["taskId"])  # it waits for the thread
            error = raw.answer(raw.begin("quick"))["error"]
            assert error["code"] == 429
            assert len(stage.store._entries) == 2


def test_a_call_after_the_end_of_the_workers_is_refused(stage):
    stage.server.tasks.workers.close(PATIENCE)
    with stage.client() as raw:
        assert raw.answer(raw.begin("quick"))["error"]["code"] == 429


@BOTH
def test_the_limit_of_calls_holds_in_tasks_too(era):
    with Stage(server={"limit": Limit(at_once=1)}) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            raw.start("hold")
            assert stage.is_entered()
            outcome = raw.outcome(raw.start("hold")["taskId"])
            assert outcome["error"]["code"] == 429


# -- expiry ------------------------------------------------------------------------------------------


@pytest.mark.spec("basic/utilities/tasks/ttl-delete", "basic/utilities/tasks/clean-up")
def test_a_task_is_gone_when_its_ttl_is_over_whatever_its_status():
    with Stage() as stage:
        stage.add_usual()
        with stage.client() as raw:
            ids = [raw.start(name, ttl=4000)["taskId"] for name in ("quick", "hold", "stubborn")]
            raw.about("tasks/cancel", ids[2])
            raw.ended(ids[0])
            assert stage.is_entered()
            assert stage.is_left()  # the tool is told to stop
            for task_id in ids:
                assert eventually(lambda task_id=task_id: "error" in raw.about("tasks/get", task_id))
                for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                    error = raw.about(method, task_id)["error"]
                    assert error["code"] == -32602
                    assert "expired" in error["message"]
            assert raw.request("tasks/list")["result"]["tasks"] == []
            stage.open.set()
            assert eventually(lambda: not stage.server.tasks._runs)
            assert eventually(lambda: not stage.store._entries)


def test_a_tool_whose_task_has_expired_asks_and_says_nothing_more(stage, monkeypatch):
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.01)
    said = []

    @stage.tool()
    def late(ctx: Context) -> None:
        assert eventually(lambda: stage.server.tasks.store.get(ctx.handling.task.id) is None)
        ctx.status("still there")
        try:
            ctx.confirm("Sure?")
        except BaseException as problem:
            said.append(type(problem))
        assert eventually(lambda: ctx.cancelled)
        said.append(ctx.reason)

    with stage.client() as raw:
        raw.start("late", ttl=4000)
        assert eventually(lambda: len(said) == 2)
    assert said == [RequestCancelled, "its task has expired"]


# -- what a tool does in a task ----------------------------------------------------------------------


def everything(ctx: Context) -> Any:
    """All that a context offers, in one tool."""
    from dataclasses import dataclass

    @dataclass
    class Form:
        name: str

    said: dict[str, Any] = {}
    said["once"] = ctx.once("charge", lambda: [1, 2])
    ctx.progress(1, 3, "begun")
    ctx.log("warning", "a word")
    said["elicit"] = ctx.elicit("Your name?", Form).data.name
    said["sample"] = ctx.sample("A poem", max_tokens=9).text
    said["roots"] = [root["uri"] for root in ctx.list_roots()]
    both = ctx.ask_all(Elicit("Sure?"), Sample("A line", max_tokens=5))
    said["both"] = [both[0].action, both[1].text]
    said["url"] = ctx.elicit_url("Please sign in", "https://example.com/in").action
    ctx.progress(2, 3)
    ctx.sleep(0.001)
    said["once again"] = ctx.once("charge", lambda: "no")
    said["close"] = ctx.close_stream()
    ctx.notify("notifications/vendor", {"a": 1})
    ctx.progress(3, 3)
    return said


def obliging(method, params):
    """A client that does what it is asked."""
    if method == "roots/list":
        return {"roots": [{"uri": "file:///home"}]}
    if method == "sampling/createMessage":
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "roses"}}
    if method == "ping":
        return {}
    return {"action": "accept", "content": {"name": "Ann"}} if params.get("mode") != "url" else ACCEPT


EVERYTHING = {
    "once": [1, 2],
    "elicit": "Ann",
    "sample": "roses",
    "roots": ["file:///home"],
    "both": ["accept", "roses"],
    "url": "accept",
    "once again": [1, 2],
    "close": False,
}


@BOTH
@pytest.mark.spec(
    "basic/utilities/tasks/related-task-everywhere",
    "basic/utilities/tasks/move-to-input-required",
    "basic/patterns/progress/task-token-lives-on",
    "basic/patterns/progress/task-same-token",
)
def test_whatever_a_tool_asks_and_says_it_asks_and_says_in_a_task(stage, era):
    import json

    stage.server.tool(task="required")(everything)
    with stage.client(era) as raw:
        if era == DATE:
            raw.request("logging/setLevel", {"level": "debug"})
        task_id = raw.start("everything", meta={"progressToken": "p"})["taskId"]
        outcome = answer_all(raw, task_id, obliging)
        assert json.loads(text_of(outcome)) == EVERYTHING
        said = [m for m in raw.aside if m.get("method", "") != "notifications/tasks/status"]
    if era == MODERN:
        assert said == []  # "not supported on tasks in general"
        return
    assert [m["method"].rpartition("/")[2] for m in said] == [
        "progress",
        "message",
        "progress",
        "vendor",
        "progress",
    ]
    assert all(m["params"]["_meta"] == {RELATED: {"taskId": task_id}} for m in said)
    reports = [m["params"] for m in said if m["method"] == "notifications/progress"]
    assert [(p["progressToken"], p["progress"]) for p in reports] == [("p", 1), ("p", 2), ("p", 3)]


def test_progress_in_a_task_of_2026_07_28_is_what_it_says_of_its_state(stage):
    @stage.tool(task="required")
    def reports(ctx: Context) -> None:
        ctx.progress(1, 4, "reading")
        stage.entered.release()
        stage.open.wait(PATIENCE)

    with stage.client(MODERN) as raw:
        task_id = raw.start("reports", meta={"progressToken": "p"})["taskId"]
        assert stage.is_entered()
        assert raw.get(task_id)["statusMessage"] == "reading (1 of 4)"
        assert raw.aside == []


@pytest.mark.spec("basic/patterns/progress/task-stop-when-terminal")
def test_nothing_is_said_of_a_task_that_is_over(stage):
    @stage.tool()
    def goes_on(ctx: Context) -> None:
        ctx.progress(1)
        stage.entered.release()
        stage.open.wait(PATIENCE)
        ctx.progress(2)
        ctx.log("warning", "still here")
        ctx.status("still here")
        stage.left.release()

    with stage.client() as raw:
        task_id = raw.start("goes_on", meta={"progressToken": "p"})["taskId"]
        assert stage.is_entered()
        told = raw.about("tasks/cancel", task_id)["result"]
        stage.open.set()
        assert stage.is_left()
        assert raw.get(task_id) == told
        said = [m["params"]["progress"] for m in raw.aside if m["method"] == "notifications/progress"]
        assert said == [1]


def test_a_request_of_the_servers_own_goes_by_way_of_the_task(stage):
    @stage.tool()
    def pings(ctx: Context) -> Any:
        single = ctx.request("ping")
        return [single, *ctx.requests([("ping", {}), ("roots/list", {})])]

    with stage.client() as raw:
        outcome = answer_all(raw, raw.start("pings")["taskId"], obliging)
        assert '"file:///home"' in outcome["result"]["content"][0]["text"]


def test_there_are_no_requests_of_the_servers_own_in_2026_07_28(stage):
    @stage.tool(task="required")
    def pings(ctx: Context) -> Any:
        return ctx.request("ping")

    with stage.client(MODERN) as raw:
        result = raw.outcome(raw.start("pings")["taskId"])["result"]
        assert result["isError"]
        assert "sends no requests" in result["content"][0]["text"]


@BOTH
def test_a_task_does_not_ask_what_its_client_did_not_declare(stage, era):
    @stage.tool(task="required")
    def asks(ctx: Context) -> bool:
        return ctx.confirm("Sure?")

    declared = {} if era == DATE else {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    with stage.client(era, declared) as raw:
        outcome = raw.outcome(raw.start("asks")["taskId"])
        if era == MODERN:
            assert outcome["error"]["code"] == -32021
        else:
            assert "did not declare the capability elicitation" in text_of(outcome)


@BOTH
def test_a_task_asks_no_more_than_it_may(stage, era, monkeypatch):
    monkeypatch.setattr(module, "MAX_QUESTIONS", 3)

    @stage.tool(task="required")
    def asks(ctx: Context) -> None:
        for number in range(4):
            ctx.elicit(f"{number}?")

    with stage.client(era) as raw:
        outcome = answer_all(raw, raw.start("asks")["taskId"], lambda method, params: ACCEPT)
        assert outcome["error"] == {"code": -32603, "message": "a task asks at most 3 questions"}


@BOTH
def test_a_task_keeps_no_answer_that_its_tool_has(stage, era):
    sizes = []

    @stage.tool(task="required")
    def asks(ctx: Context) -> None:
        for number in range(5):
            ctx.elicit(f"{number}?")
            sizes.append(len(stage.entry(ctx.handling.task.id).state["answers"]))

    with stage.client(era) as raw:
        answer_all(raw, raw.start("asks")["taskId"], lambda method, params: ACCEPT)
    assert sizes == [1] * 5


@BOTH
def test_several_threads_of_a_tool_ask_at_once_and_each_gets_its_answer(stage, era):
    @stage.tool(task="required")
    def asks(ctx: Context) -> list[str]:
        found: dict[int, str] = {}

        def ask(number: int) -> None:
            reply = ctx.sample(f"{number}", max_tokens=5)
            found[number] = reply.text

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        return [found[n] for n in range(8)]

    def echo(method, params):
        (message,) = params["messages"]
        content = message["content"]
        said = content["text"] if isinstance(content, dict) else content[0]["text"]
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": said}}

    with stage.client(era) as raw:
        outcome = answer_all(raw, raw.start("asks")["taskId"], echo)
        assert outcome["result"]["structuredContent"] == {"result": [str(n) for n in range(8)]}


@BOTH
def test_a_time_out_of_one_question_leaves_those_of_other_threads(stage, era):
    @stage.tool(task="required")
    def asks(ctx: Context) -> list[str]:
        other: list[str] = []
        thread = threading.Thread(target=lambda: other.append(ctx.elicit("Long?").action))
        thread.start()
        assert eventually(lambda: len(stage.entry(ctx.handling.task.id).state.get("asked", {})) == 1)
        try:
            ctx.elicit("Short?", timeout=0.01)
        except Exception as problem:
            short = type(problem).__name__
        stage.entered.release()
        thread.join(PATIENCE)
        return [short, *other]

    with stage.client(era) as raw:
        task_id = raw.start("asks")["taskId"]
        assert stage.is_entered()
        assert len(stage.entry(task_id).state["asked"]) == 1
        outcome = answer_all(raw, task_id, lambda method, params: ACCEPT)
        assert outcome["result"]["structuredContent"] == {"result": ["RequestTimeout", "accept"]}


@BOTH
def test_a_url_that_is_required_ends_a_task_in_the_way_of_the_era(stage, era):
    """basic/index: -32042 is of 2025-11-25, and of no other revision."""

    @stage.tool(task="required")
    def visits() -> str:
        raise UrlElicitationRequired(ElicitUrl("Please sign in", "https://example.com/in"))

    with stage.client(era) as raw:
        error = raw.outcome(raw.start("visits")["taskId"])["error"]
        assert error["code"] == (-32042 if era == DATE else -32603)


@BOTH
def test_a_client_that_has_gone_hears_nothing_and_its_task_goes_on(stage, era):
    @stage.tool(task="required")
    def goes_on(ctx: Context) -> str:
        stage.entered.release()
        stage.open.wait(PATIENCE)
        ctx.progress(2)
        ctx.log("warning", "x")
        ctx.status("x")
        return "done"

    with stage.client(era) as raw:
        task_id = raw.start("goes_on", meta={"progressToken": "p"})["taskId"]
        assert stage.is_entered()
    stage.open.set()
    with stage.client(era) as raw:
        assert text_of(raw.outcome(task_id)) == "done"


def without_an_end() -> list[Any]:
    """A list that is deeper than any stack."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@BOTH
@pytest.mark.parametrize(
    "problem",
    [
        ProtocolError("half a pair: \ud800"),
        ProtocolError("what is this?", data={"x": object()}),
        ProtocolError("how much?", data=float("nan")),
        ProtocolError("how deep?", data=without_an_end()),
    ],
    ids=range(4),
)
def test_an_error_without_a_json_form_ends_a_task_as_it_ends_a_call(stage, era, problem):
    @stage.tool(task="required", name="fails")
    def fails() -> str:
        raise problem

    @stage.server.tool
    def plainly() -> str:
        raise problem

    with stage.client(era) as raw:
        task_id = raw.start("fails")["taskId"]
        task = raw.ended(task_id)
        assert task["status"] == "failed"
        assert task["statusMessage"] == problem.message.replace("\ud800", r"\ud800")
        plain = raw.answer(raw.call("plainly"))["error"]
        assert raw.outcome(task_id)["error"] == plain


@BOTH
@pytest.mark.parametrize("way", ["returned", "raised"])
def test_a_result_without_a_json_form_is_that_of_a_tool_that_failed(stage, era, way):
    @stage.tool(task="required", name="odd")
    def odd(ctx: Context) -> str:
        ctx.status("half a pair: \ud800")
        if way == "raised":
            raise ValueError("half a pair: \ud800")
        return "half a pair: \ud800"

    with stage.client(era) as raw:
        task_id = raw.start("odd")["taskId"]
        task = raw.ended(task_id)
        assert task["status"] == ("failed" if era == DATE else "completed")
        assert task["statusMessage"] == text_of(raw.outcome(task_id))
        assert raw.outcome(task_id)["result"]["isError"]


@BOTH
def test_a_state_in_half_characters_is_told_in_whole_ones(stage, era):
    @stage.tool(task="required")
    def odd(ctx: Context) -> None:
        ctx.status("half a pair: \ud800")
        stage.entered.release()
        stage.open.wait(PATIENCE)

    with stage.client(era) as raw:
        task_id = raw.start("odd")["taskId"]
        assert stage.is_entered()
        assert raw.get(task_id)["statusMessage"] == r"half a pair: \ud800"


@BOTH
def test_a_question_without_a_json_form_is_an_error_for_the_tool(stage, era):
    @stage.tool(task="required")
    def odd(ctx: Context) -> str:
        try:
            ctx.elicit("half a pair: \ud800")
        except ValueError as problem:
            return type(problem).__name__
        return "asked"

    with stage.client(era) as raw:
        assert text_of(raw.outcome(raw.start("odd")["taskId"])) == "UnicodeEncodeError"


# -- hooks, and what they make of it -----------------------------------------------------------------


@BOTH
def test_hooks_stand_around_a_call_that_runs_as_a_task(stage, era):
    seen = []

    @stage.server.around
    def hook(ctx: Context, params: Any, proceed: Any) -> Any:
        if ctx.method != "tools/call":
            return proceed(params)
        seen.append((params["name"], ctx.handling.task is not None))
        return {**proceed({**params, "arguments": {"text": "hooked"}}), "vendor": 1}

    @stage.tool(task="required", name="echo")
    def echo(text: str) -> str:
        return text

    with stage.client(era) as raw:
        outcome = raw.outcome(raw.start("echo", {"text": "plain"})["taskId"])
        assert text_of(outcome) == "hooked"
        assert outcome["result"]["vendor"] == 1
    assert seen == [("echo", True)]


@BOTH
@pytest.mark.parametrize(
    ("made", "code"),
    [
        (ProtocolError("not today", code=1001), 1001),
        (ValueError("a fault of the hook"), -32603),
        ("no object", -32603),
        (KeyboardInterrupt(), -32603),
    ],
    ids=repr,
)
def test_whatever_a_hook_does_the_task_comes_to_an_end(stage, era, made, code):
    @stage.server.around
    def hook(ctx: Context, params: Any, proceed: Any) -> Any:
        if ctx.method != "tools/call":
            return proceed(params)
        if isinstance(made, BaseException):
            raise made
        return made

    with stage.client(era) as raw:
        task_id = raw.start("hold")["taskId"]
        task = raw.ended(task_id)
        assert task["status"] == "failed"
        assert raw.outcome(task_id)["error"]["code"] == code
        assert "fault of the hook" not in task["statusMessage"]


@BOTH
@pytest.mark.parametrize("meta", [7, None, []], ids=repr)
def test_a_result_whose_meta_is_none_does_not_leave_its_task_without_an_end(stage, era, meta):
    """In 2026-07-28 every result has a `_meta` of the server's."""

    @stage.server.around
    def hook(ctx: Context, params: Any, proceed: Any) -> Any:
        return {"content": [], "_meta": meta} if ctx.method == "tools/call" else proceed(params)

    with stage.client(era) as raw:
        task_id = raw.start("hold")["taskId"]
        assert raw.ended(task_id)["status"] == ("completed" if era == DATE else "failed")
        outcome = raw.outcome(task_id)
        if era == DATE:
            assert outcome["result"] == {"content": [], "_meta": {RELATED: {"taskId": task_id}}}
        else:
            assert outcome["error"]["code"] == -32603


def test_a_hook_around_a_call_that_may_become_a_task_sees_the_question_of_its_round(stage):
    seen = []

    @stage.server.around
    def hook(ctx: Context, params: Any, proceed: Any) -> Any:
        result = proceed(params)
        seen.append(result.get("resultType"))
        return result

    @stage.tool()
    def asks(ctx: Context) -> bool:
        return ctx.confirm("Sure?")

    with stage.client(MODERN) as raw:
        assert raw.answer(raw.begin("asks"))["result"]["resultType"] == "input_required"
    assert seen == ["input_required"]


# -- forks -------------------------------------------------------------------------------------------

FORKS = source(
    """
    import logging, os
    logging.disable(logging.ERROR)

    def ended(pid):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @server.tool(task="required")
    def returns() -> str:
        pid = os.fork()
        return f"the child ended with {ended(pid)}" if pid else "said by the child"

    @server.tool(task="required")
    def raises() -> str:
        pid = os.fork()
        if not pid:
            raise ValueError("said by the child")
        return f"the child ended with {ended(pid)}"
    """
)


@BOTH
@pytest.mark.parametrize(("tool", "status"), [("returns", 0), ("raises", 1)])
def test_a_tool_that_forks_in_a_task_is_answered_by_the_parent_alone(era, tool, status):
    with nothing_left(), TaskClient(FORKS, revision=era) as raw:
        for _ in range(2):
            task_id = raw.start(tool)["taskId"]
            assert text_of(raw.outcome(task_id)) == f"the child ended with {status}"
        assert not [m for m in raw.aside if m.get("method") != "notifications/tasks/status"]


def test_a_forked_child_runs_none_of_its_parents_tasks():
    receiver = Receiver()
    run = TaskRun(receiver, bare_context(), Quiet(), dict, lambda result: b"{}")
    run.hand_out()
    assert receiver._runs
    receiver.forked()
    assert receiver._runs == {}


# -- the store fails ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("step", ["add", "listen", "on_abandoned"])
@pytest.mark.spec("basic/utilities/tasks/internal-32603", "basic/utilities/tasks/informative-errors")
def test_a_task_that_the_store_cannot_keep_is_refused_and_does_not_run(era, step):
    store = FaultyStore(step)
    with Stage(store=store) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            for _ in range(2):
                error = raw.answer(raw.begin("hold"))["error"]
                assert error == {"code": -32603, "message": STORE_FAILS}
            assert stage.server.tasks._runs == {}
            store.broken = set()
            task_id = raw.start("hold")["taskId"]
            assert stage.is_entered()
            raw.about("tasks/cancel", task_id)  # which the receiver hears of
            assert stage.is_left()
            assert not stage.entered.acquire(blocking=False)


@BOTH
def test_an_answer_is_kept_as_soon_as_the_store_works_again(era, caplog):
    """2025-11-25: it came as the response to a request, and will not come again. 2026-07-28: the client is
    told that it was not taken, and sends it again.
    """
    store = FaultyStore()
    with Stage(store=store) as stage:

        @stage.tool(task="required")
        def asks(ctx: Context) -> str:
            return ctx.elicit("Who?", {"type": "object", "properties": {}}).action

        with stage.client(era) as raw:
            task_id = raw.start("asks")["taskId"]
            if raw.is_modern:
                key = next(iter(raw.asked(task_id)))
                store.broken = {"change"}
                assert raw.update(task_id, {key: ACCEPT})["error"] == {"code": -32603, "message": STORE_FAILS}
                store.broken = set()
                raw.update(task_id, {key: ACCEPT})
                outcome = raw.outcome(task_id)
            else:
                waiting = raw.ask("tasks/result", {"taskId": task_id})
                question = raw.requested("elicitation/create")
                store.broken = {"change"}
                raw.reply(question, ACCEPT)
                assert store.has_failed() and store.has_failed()
                store.broken = set()
                outcome = raw.answer(waiting)
            assert text_of(outcome) == "accept"
    assert "a job failed" not in caplog.text


@BOTH
def test_the_end_of_a_task_is_kept_as_soon_as_the_store_works_again(era, caplog):
    store = FaultyStore()
    with Stage(store=store) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            task_id = raw.start("hold")["taskId"]
            assert stage.is_entered()
            store.broken = {"change"}
            stage.open.set()
            assert store.has_failed()
            assert store.has_failed()
            assert raw.get(task_id)["status"] == "working"
            store.broken = set()
            assert text_of(raw.outcome(task_id)) == "through"
    assert "tried again" in caplog.text


def test_the_end_of_a_task_that_could_not_be_kept_until_it_expired_is_given_up(caplog):
    store = FaultyStore()
    with Stage(store=store) as stage:
        stage.add_usual()
        with stage.client() as raw:
            raw.start("stubborn", ttl=4000)
            assert stage.is_entered()
            store.broken = {"change"}
            stage.open.set()
            assert eventually(lambda: not stage.server.tasks._runs)
    assert "could not be kept" in caplog.text


@BOTH
def test_what_a_tool_says_of_its_state_is_lost_where_the_store_fails_and_it_goes_on(era):
    store = FaultyStore()
    with Stage(store=store) as stage:

        @stage.tool(task="required")
        def told(ctx: Context) -> str:
            store.broken = {"change"}
            ctx.status("lost")
            store.broken = set()
            return "done"

        with stage.client(era) as raw:
            assert text_of(raw.outcome(raw.start("told")["taskId"])) == "done"


@BOTH
def test_a_question_that_the_store_cannot_keep_is_an_error_for_the_tool(era):
    store = FaultyStore()
    with Stage(store=store) as stage:

        @stage.tool(task="required")
        def asks(ctx: Context) -> str:
            store.broken = {"change"}
            try:
                ctx.confirm("Sure?")
            except InternalError as problem:
                return str(problem)
            finally:
                store.broken = set()
            return "asked"

        with stage.client(era) as raw:
            assert text_of(raw.outcome(raw.start("asks")["taskId"])) == STORE_FAILS


@BOTH
def test_a_question_outlives_a_store_that_fails_while_its_answer_is_waited_for(era):
    store = FaultyStore()
    with Stage(store=store) as stage:

        @stage.tool(task="required")
        def asks(ctx: Context) -> bool:
            return ctx.confirm("Sure?")

        with stage.client(era) as raw:
            task_id = raw.start("asks")["taskId"]
            raw.until_status(task_id, "input_required")
            store.broken = {"wait"}
            assert store.has_failed()
            store.broken = set()
            assert text_of(answer_all(raw, task_id, lambda method, params: ACCEPT)) == "true"


def test_an_error_of_the_store_is_told_by_its_kind():
    with pytest.raises(InternalError, match=STORE_FAILS), module.Explained():
        raise StoreError("the disk is full")
    with pytest.raises(TooManyRequests, match="as many as may be") as told, module.Explained():
        raise module.StoreFull("as many as may be", 90.0)
    assert told.value.data == {"retryAfterMs": 90_000}


# -- a store that several servers share --------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("end", ["answered", "cancelled"])
def test_any_server_of_a_shared_store_answers_for_a_task_that_another_runs(era, end, tmp_path):
    """As processes behind a load balancer do: the questions, the answers and the outcome are in the store."""
    with contextlib.ExitStack() as entered:
        stages = [entered.enter_context(Stage(store=SqliteStore(tmp_path / "tasks.db"))) for _ in range(2)]
        for stage in stages:
            entered.callback(stage.store.close)
            asks = stage.tool(task="required", name="asks")
            asks(asks_and_tells(stage))
        first, second = (entered.enter_context(stage.client(era)) for stage in stages)
        task_id = first.start("asks")["taskId"]
        second.until_status(task_id, "input_required")
        if end == "answered":
            outcome = answer_all(second, task_id, lambda method, params: ACCEPT)
            assert text_of(outcome) == "accept"
            assert text_of(first.outcome(task_id)) == "accept"
        else:
            assert "result" in second.about("tasks/cancel", task_id)
            assert first.get(task_id)["status"] == "cancelled"
        assert stages[0].is_left()
        assert not stages[1].left.acquire(blocking=False)


def asks_and_tells(stage):
    """A tool that asks once, and tells when it has ended."""

    def asks(ctx: Context) -> str:
        try:
            return ctx.elicit("Sure?").action
        finally:
            stage.left.release()

    return asks


# -- the end of a server -----------------------------------------------------------------------------

SLEEPS = source(
    """
    import sys, time

    @server.tool(task="required")
    def sleeps() -> str:
        print("asleep", file=sys.stderr, flush=True)
        time.sleep(3600)
        return "never"
    """
)


@BOTH
def test_a_server_whose_client_has_left_ends_though_a_task_runs(era):
    with nothing_left(), TaskClient(SLEEPS, revision=era) as raw:
        raw.start("sleeps")
        assert eventually(lambda: "asleep" in raw.stderr)
        raw.end_input()
        assert raw.wait() == 0


# -- the receiver by itself ----------------------------------------------------------------------------


def test_a_task_that_is_gone_is_not_found_by_any_who_wait_or_change_it():
    receiver = Receiver(TaskOptions(store=MemoryStore()))
    run = TaskRun(receiver, bare_context(), Quiet(), dict, lambda result: b"{}")
    run.hand_out()
    entry = receiver.find(run.id, None)
    receiver.store._remove(entry)
    for attempt in (
        lambda: receiver.waited(entry, 0.01),
        lambda: receiver.answer(entry.id, "k", {}),
        lambda: receiver.cancel(entry.id, None, "x"),
    ):
        with pytest.raises(TaskNotFound):
            attempt()


def test_a_system_without_threads_for_timers_runs_tasks_all_the_same(stage, monkeypatch):
    def none(seconds: float, run: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "later", none)
    with stage.client() as raw:
        task_id = raw.start("quick")["taskId"]
        assert text_of(raw.outcome(task_id)) == "done"
    assert not stage.server.tasks._is_watching


def test_an_answer_to_what_was_not_asked_changes_nothing(stage):
    with stage.client() as raw:
        task_id = raw.start("hold")["taskId"]
        before = stage.entry(task_id)
        stage.server.tasks.answer(task_id, "elicitation-1", {"result": {}})
        assert stage.entry(task_id) is before


# -- the end of a server -----------------------------------------------------------------------------


@pytest.fixture
def lasting():
    """A stage whose lifespan says when it was left."""
    left = threading.Event()

    @contextlib.contextmanager
    def lifespan(server):
        yield "open"
        left.set()

    with Stage(server={"lifespan": lifespan}) as made:
        made.lifespan_left = left
        made.add_usual()
        yield made


def is_left_by_clients(stage):
    """Whether the tasks that run are all that use the lifespan."""
    return eventually(lambda: stage.server.lifespan._users == len(stage.server.tasks._runs))


@BOTH
def test_the_lifespan_lasts_until_the_last_task_is_over(lasting, era):
    seen = []

    @lasting.tool(task="required")
    def reads(ctx: Context) -> str:
        lasting.entered.release()
        lasting.open.wait(PATIENCE)
        seen.append((ctx.lifespan, lasting.lifespan_left.is_set()))
        return "read"

    with lasting.client(era) as raw:
        raw.start("reads")
        assert lasting.is_entered()
    assert is_left_by_clients(lasting)
    lasting.open.set()
    assert lasting.lifespan_left.wait(PATIENCE)
    assert seen == [("open", False)]


@BOTH
def test_a_task_that_the_store_refuses_does_not_keep_the_lifespan(era):
    with Stage(store=FaultyStore("add")) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            assert raw.answer(raw.begin("hold"))["error"]["message"] == STORE_FAILS
        assert eventually(lambda: stage.server.lifespan._users == 0)


@BOTH
def test_tasks_that_run_when_a_server_ends_fail_and_their_handlers_clean_up(stage, era):
    with stage.client(era) as raw:
        task_id = raw.start("hold")["taskId"]
        assert stage.is_entered()
        stage.server.tasks.close(PATIENCE)
        assert stage.left.acquire(blocking=False)
        task = raw.get(task_id)
        assert task["status"] == "failed"
        assert (
            task["statusMessage"] == "The task was interrupted, since what ran it has ended; start it again."
        )
        assert stage.server.tasks._runs == {}


@BOTH
def test_a_task_that_was_over_stays_what_it_is_when_a_server_ends(stage, era):
    with stage.client(era) as raw:
        task_id = raw.start("hold")["taskId"]
        raw.about("tasks/cancel", task_id)
        stage.server.tasks.close(PATIENCE)
        assert raw.get(task_id)["status"] == "cancelled"


@BOTH
def test_a_server_that_is_served_again_takes_tasks_again(stage, era):
    with stage.client(era) as raw:
        for _ in range(2):
            stage.server.tasks.close(0.0)
            raw.start("hold")
            assert stage.is_entered()


@BOTH
def test_a_handler_that_ignores_its_end_does_not_keep_the_lifespan(lasting, era):
    with lasting.client(era) as raw:
        raw.start("stubborn")
        assert lasting.is_entered()
    assert is_left_by_clients(lasting)
    lasting.server.tasks.close(0.01)
    assert lasting.lifespan_left.is_set()


@BOTH
def test_a_store_that_fails_when_a_server_ends_keeps_no_handler_from_its_end(era):
    store = FaultyStore()
    with Stage(store=store) as stage:
        stage.add_usual()
        with stage.client(era) as raw:
            for _ in range(3):
                raw.start("hold")
                assert stage.is_entered()
            store.broken = {"change"}
            stage.server.tasks.close(0.0)
            for _ in range(3):
                assert stage.is_left()
            store.broken = set()


PROGRAM = """
import contextlib, sys, threading
from mcp_ref import Context, Server, connect
from mcp_ref.basic.utilities.tasks import behavior_requirements
behavior_requirements.EXIT_SECONDS = 20.0

@contextlib.contextmanager
def lifespan(server):
    yield "open"
    print("lifespan left")

server, begun = Server("tests", lifespan=lifespan), threading.Event()

@server.tool(task="required")
def render(ctx: Context) -> None:
    begun.set()
    try:
        ctx.sleep(60)
    finally:
        print("cleaned up while", ctx.lifespan)

with connect(server, revision=sys.argv[1]) as client:
    client.start_tool("render")
    begun.wait(20)
print("end")
"""


@BOTH
def test_a_program_that_ends_cleans_up_after_its_tasks(era):
    done = subprocess.run(
        [*python(PROGRAM), era], env={**os.environ, **ENV}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["end", "cleaned up while open", "lifespan left"], done.stderr
    assert done.returncode == 0


# -- the audit ---------------------------------------------------------------------------------------


@BOTH
@pytest.mark.spec("basic/utilities/tasks/log-events", "basic/utilities/tasks/log-context")
def test_the_audit_says_when_a_task_began_ended_and_was_fetched_and_for_whom(era, caplog):
    caplog.set_level(logging.INFO, "mcp_ref.audit")
    with Stage(server={"principal": lambda ctx: "ann\nbob"}) as stage:
        stage.add_usual()

        @stage.tool(task="required")
        def fails() -> str:
            raise ProtocolError("no")

        with stage.client(era) as raw:
            one = raw.start("fails")["taskId"]
            raw.ended(one)
            raw.outcome(one)
            assert eventually(lambda: "failed" in lines(caplog))
            first = lines(caplog)
            caplog.clear()
            raw.about("tasks/cancel", raw.start("hold")["taskId"])
            assert lines(caplog) == ["created", "cancelled"]
    assert first[0] == "created" and first.count("failed") == 1  # perhaps after it was first fetched
    assert set(first[1:]) == {"failed", "retrieved"}
    said = [r.getMessage() for r in caplog.records if r.getMessage().startswith("task ")]
    assert all("ann" in line and "\n" not in line for line in said)
    assert not any(one in line for line in said)  # an id may be a key


# -- older revisions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("date", [date for date in LEGACY if date != DATE])
def test_before_2025_11_25_a_tool_that_asks_asks_as_ever(stage, date):
    @stage.tool(task="required")
    def lists(ctx: Context) -> str:
        return ctx.list_roots()[0]["uri"]

    with RawClient(stage.server, revision=date, capabilities={"roots": {}}) as raw:
        call = raw.call("lists")
        request = raw.until(lambda m: m.get("method") == "roots/list")
        assert RELATED not in request.get("params", {}).get("_meta", {})
        raw.send({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": [{"uri": "file:///home"}]}})
        assert raw.answer(call)["result"]["content"][0]["text"] == "file:///home"


def test_the_time_of_a_change_is_later_than_that_of_the_creation(stage):
    with stage.client() as raw:
        task_id = raw.start("hold")["taskId"]
        assert stage.is_entered()
        created = stage.entry(task_id).state["updated"]
        assert eventually(lambda: time.time() > created)
        raw.about("tasks/cancel", task_id)
        assert stage.entry(task_id).state["updated"] > created
