"""What a client gives back: results with short-cuts, and futures that cancel on the wire."""

import concurrent.futures
import datetime
import enum
import json
import logging
import pickle
import threading
import time
from dataclasses import dataclass
from typing import Annotated, TypedDict

import pytest
from peers import MODERN, PATIENCE, REVISIONS, Notes, eventually, nothing_left, plain, raw_server
from task_scripts import Scripted, created, state
from web import opened, web

from mcp_ref import (
    ClientOptions,
    ConnectionClosed,
    Context,
    ElicitUrl,
    ErrorResponse,
    InvalidResponse,
    McpError,
    RequestTimeout,
    Result,
    Server,
    ToolError,
    UrlElicitationNeeded,
    UrlElicitationRequired,
    connect,
)
from mcp_ref.api import results
from mcp_ref.api.tasks import Task
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.basic.transports.streamable_http.http_errors import RefusedByStatus
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.threads.deadlines import Clock


class Gate:
    """A server with a tool that waits: at a gate, or until it is cancelled."""

    def __init__(self):
        self.entered, self.open, self.cancelled = (threading.Event() for _ in range(3))
        self.server = Server("gate")

        @self.server.tool
        def wait(ctx: Context) -> str:
            self.entered.set()
            while not self.open.wait(0.005):
                if ctx.cancelled:
                    self.cancelled.set()
                    ctx.check_cancelled()
            return "through"

        @self.server.tool
        def add(a: int, b: int, ctx: Context) -> int:
            ctx.progress(1, 2, "half")
            return a + b


@pytest.fixture
def gate():
    with nothing_left():
        found = Gate()
        yield found
        found.open.set()


def call(client, name, arguments=None, **options):
    return client.submit("tools/call", {"name": name, "arguments": arguments or {}}, **options)


def test_a_future_whose_server_asks_without_end_fails():
    """As `call_tool` does: the question is no result."""
    server, asked = Server("curious"), []

    @server.tool
    def ask(ctx: Context) -> str:
        for number in range(20):
            ctx.elicit(f"Question {number}?")
        return "enough"

    with (
        nothing_left(),
        connect(server, elicitation=asked.append, options=ClientOptions(max_rounds=3)) as client,
    ):
        problem = call(client, "ask").exception(PATIENCE)
        assert isinstance(problem, InputRefused)
        assert str(problem) == "tools/call: the server asked 4 times, and no end"
        assert len(asked) == 3


# -- results -------------------------------------------------------------------------------------


def test_a_result_is_the_dict_of_the_wire_with_short_cuts():
    wire = {"content": [{"type": "text", "text": "a"}], "structuredContent": {"x": 1}, "isError": True}
    result = Result(wire)
    assert result == wire
    assert isinstance(result, dict)
    assert (result.text, result.structured, result.is_error) == ("a", {"x": 1}, True)


@pytest.mark.spec("schema/is-error-default")
@pytest.mark.parametrize("wire", [{}, {"isError": False}, {"isError": None}, {"content": None}])
def test_without_is_error_a_result_is_none(wire):
    assert Result(wire).is_error is False
    assert Result(wire).text == ""
    assert Result(wire).structured is None


@pytest.mark.spec("schema/is-error-default")
@pytest.mark.parametrize("wire", [1, "true", [True], {"a": 1}, 0, ""])
def test_only_true_says_that_a_tool_failed(wire):
    assert Result({"isError": wire}).is_error is False


# -- futures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_a_submitted_request_is_a_future_of_its_result(gate, date):
    with connect(gate.server, revision=date) as client:
        future = call(client, "add", {"a": 1, "b": 2})
        assert isinstance(future, concurrent.futures.Future)
        assert future.result(PATIENCE).text == "3"
        assert isinstance(future.result(), Result)
        assert future.done()
        assert not future.cancelled()
        assert future.exception() is None
        assert future.cancel() is False


def test_futures_can_be_waited_for_together(gate):
    with connect(gate.server) as client:
        futures = [call(client, "add", {"a": n, "b": n}) for n in range(20)]
        done, pending = concurrent.futures.wait(futures, timeout=PATIENCE)
        assert not pending
        assert sorted(int(f.result().text) for f in done) == [2 * n for n in range(20)]
        futures = [call(client, "add", {"a": n, "b": n}) for n in range(20)]
        found = [f.result().text for f in concurrent.futures.as_completed(futures, timeout=PATIENCE)]
        assert sorted(map(int, found)) == [2 * n for n in range(20)]


@pytest.mark.spec("basic/patterns/cancellation/stdio-cancelled-notification")
@pytest.mark.parametrize("date", REVISIONS)
def test_cancel_cancels_on_the_wire(gate, date):
    with connect(gate.server, revision=date) as client:
        future = call(client, "wait")
        assert gate.entered.wait(PATIENCE)
        assert future.cancel() is True
        assert gate.cancelled.wait(PATIENCE)
        assert future.cancelled()
        assert future.cancel() is True
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(PATIENCE)
        assert client.call_tool("add", {"a": 1, "b": 1}).text == "2"


def test_a_cancelled_future_is_done_for_whoever_waits_for_several(gate):
    """`concurrent.futures.wait` and `as_completed` must not hang on it."""
    with connect(gate.server) as client:
        future = call(client, "wait")
        threading.Thread(target=lambda: gate.entered.wait(PATIENCE) and future.cancel()).start()
        done, pending = concurrent.futures.wait([future], timeout=PATIENCE)
        assert (len(done), len(pending)) == (1, 0)
        assert list(concurrent.futures.as_completed([future], timeout=PATIENCE)) == [future]


def test_many_threads_may_cancel_one_future(gate):
    with connect(gate.server) as client:
        for _ in range(20):
            future = call(client, "wait")
            start = threading.Barrier(4, timeout=PATIENCE)
            said = []

            def cancel(future=future, start=start, said=said):
                start.wait()
                said.append(future.cancel())

            threads = [threading.Thread(target=cancel) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            assert future.cancelled()
            assert True in said


@pytest.mark.spec("basic/patterns/cancellation/timeout-all-requests", "server/tools/call-timeouts")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_future_without_an_answer_ends_with_a_time_out_and_a_cancellation(gate, date, monkeypatch):
    with connect(gate.server, revision=date) as client:
        outbox, said = client.asker.connection.outbox, []
        send = outbox.send
        monkeypatch.setattr(outbox, "send", lambda line, wait=None: (said.append(line), send(line, wait)))
        with client.asker.connection.clock.hold():  # until it is sent
            future = call(client, "wait", timeout=0.05)
        with pytest.raises(RequestTimeout):
            future.result(PATIENCE)
        assert isinstance(future.exception(), TimeoutError)
        assert eventually(lambda: len(said) == 2)  # nobody waits for the second line, if the way out is busy
        asked, cancelled = map(json.loads, said)
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == asked["id"]
        assert not client.asker.connection.waiting


def test_a_future_whose_time_is_up_while_it_is_sent_ends_and_is_cancelled_after_its_request(
    gate, monkeypatch
):
    """The other way round, the server would ignore the cancellation, and then do the work."""
    ended, said = threading.Event(), []

    def send_slowly(line, wait=None):
        if b"tools/call" in line:
            assert ended.wait(PATIENCE)
        said.append(json.loads(line)["method"])
        send(line, wait)

    finish = results.PendingCall.finish
    monkeypatch.setattr(
        results.PendingCall, "finish", lambda future, call: (finish(future, call), ended.set())
    )
    with connect(gate.server) as client:
        outbox = client.asker.connection.outbox
        send = outbox.send
        monkeypatch.setattr(outbox, "send", send_slowly)
        future = call(client, "wait", timeout=0.05)
        assert future.done()
        with pytest.raises(RequestTimeout):
            future.result(PATIENCE)
        assert said == ["tools/call", "notifications/cancelled"]


def test_waiting_less_long_than_the_future_takes_does_not_end_it(gate):
    with connect(gate.server) as client:
        future = call(client, "wait")
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(0.01)
        gate.open.set()
        assert future.result(PATIENCE).text == "through"


class ClockByHand(Clock):
    """It goes on when the test says so."""

    seconds = 0.0

    def now(self):
        return self.seconds


def test_progress_restarts_the_time_out_of_a_future(monkeypatch):
    server, steps, heard, looks = Server("slow"), threading.Semaphore(0), threading.Semaphore(0), []

    @server.tool
    def work(ctx: Context) -> str:
        for n in range(3):
            assert steps.acquire(timeout=PATIENCE)
            ctx.progress(n)
        return "done"

    expire = results.PendingCall._expire
    monkeypatch.setattr(
        results.PendingCall, "_expire", lambda future, call: (expire(future, call), looks.append(call))
    )
    with connect(server) as client:
        clock = client.asker.connection.clock = ClockByHand()
        future = call(client, "work", timeout=0.1, on_progress=lambda *report: heard.release())
        for _ in range(3):
            clock.seconds += 0.09
            seen = len(looks)
            assert eventually(lambda seen=seen: len(looks) > seen + 1)  # the second of them has seen the time
            steps.release()
            assert heard.acquire(timeout=PATIENCE)
        assert future.result(PATIENCE).text == "done"  # after more than the time-out


def test_an_error_is_raised_where_the_result_is_wanted(gate):
    with connect(gate.server) as client:
        future = call(client, "nothing of the kind")
        with pytest.raises(ErrorResponse) as refused:
            future.result(PATIENCE)
        assert refused.value.code == -32602
        assert future.exception() is refused.value


def test_a_result_that_breaks_the_rules_is_an_exception_of_the_future():
    with connect(raw_server("open_modern()\ngo_on({'content': 'none'})")) as client:
        future = call(client, "x")
        with pytest.raises(InvalidResponse, match="content"):
            future.result(PATIENCE)
        assert isinstance(future.exception(PATIENCE), InvalidResponse)


def test_each_call_is_checked_and_audited_once(gate, caplog):
    caplog.set_level(logging.INFO, "mcp_ref.audit")
    with connect(gate.server) as client:
        future = call(client, "add", {"a": 1, "b": 2})
        assert future.result(PATIENCE) is future.result(PATIENCE)
    made = [r for r in caplog.records if r.name == "mcp_ref.audit" and r.getMessage().startswith("made")]
    assert len(made) == 1


def test_progress_of_a_future_is_told_in_order():
    server = Server("steps")

    @server.tool
    def work(ctx: Context) -> str:
        for n in range(50):
            ctx.progress(n, 50, f"step {n}")
        return "done"

    with connect(server) as client:
        told, last = [], threading.Event()

        def on_progress(progress, total, message):
            told.append((progress, total, message))
            if progress == 49:
                last.set()

        assert call(client, "work", on_progress=on_progress).result(PATIENCE).text == "done"
        assert last.wait(PATIENCE)
        assert [t[0] for t in told] == sorted(t[0] for t in told)
        assert told[-1] == (49, 50, "step 49")


# -- callbacks -----------------------------------------------------------------------------------


def test_callbacks_run_on_the_clients_own_thread_with_the_future(gate):
    with connect(gate.server) as client:
        told = threading.Event()
        seen = []

        def done(future):
            seen.append((future, threading.current_thread()))
            told.set()

        future = call(client, "wait")
        future.add_done_callback(done)
        assert not seen
        gate.open.set()
        assert told.wait(PATIENCE)
        assert seen[0][0] is future
        assert seen[0][1] not in (threading.current_thread(), client.asker.line._reader)


def test_a_callback_may_use_the_client(gate):
    """It runs on neither the reader nor the timers, so it may wait for another answer."""
    with connect(gate.server) as client:
        found = concurrent.futures.Future()
        first = call(client, "add", {"a": 1, "b": 2})
        first.add_done_callback(
            lambda future: found.set_result(
                client.call_tool("add", {"a": int(future.result().text), "b": 1}).text
            )
        )
        assert found.result(PATIENCE) == "4"


def test_a_slow_callback_delays_no_answer(gate):
    with connect(gate.server) as client:
        held, running = threading.Event(), threading.Event()
        first = call(client, "add", {"a": 1, "b": 2})
        first.add_done_callback(lambda future: running.set() or held.wait(PATIENCE))
        assert running.wait(PATIENCE)
        assert call(client, "add", {"a": 1, "b": 2}).result(PATIENCE).text == "3"
        assert client.call_tool("add", {"a": 2, "b": 2}).text == "4"
        held.set()


def test_a_callback_that_raises_harms_nobody(gate, caplog):
    with connect(gate.server) as client:
        after = threading.Event()
        future = call(client, "add", {"a": 1, "b": 2})
        future.add_done_callback(lambda future: 1 / 0)
        future.add_done_callback(lambda future: after.set())
        assert after.wait(PATIENCE)
        assert future.result(PATIENCE).text == "3"
    assert any(r.exc_info and r.exc_info[0] is ZeroDivisionError for r in caplog.records)


def test_callbacks_run_for_cancelled_futures_too(gate):
    with connect(gate.server) as client:
        told = threading.Event()
        future = call(client, "wait")
        future.add_done_callback(lambda future: future.cancelled() and told.set())
        assert gate.entered.wait(PATIENCE)
        future.cancel()
        assert told.wait(PATIENCE)


def test_a_callback_added_late_runs_at_once(gate):
    with connect(gate.server) as client:
        future = call(client, "add", {"a": 1, "b": 2})
        future.result(PATIENCE)
        told = threading.Event()
        future.add_done_callback(lambda future: told.set())
        assert told.wait(PATIENCE)


# -- the end -------------------------------------------------------------------------------------


def test_close_fails_what_is_under_way_and_runs_its_callbacks(gate):
    told = threading.Semaphore(0)
    with connect(gate.server) as client:
        futures = [call(client, "wait") for _ in range(5)]
        for future in futures:
            future.add_done_callback(lambda future: told.release())
        assert gate.entered.wait(PATIENCE)
    for future in futures:
        with pytest.raises(ConnectionClosed, match="closed"):
            future.result(PATIENCE)
    for _ in futures:
        assert told.acquire(timeout=PATIENCE)


def test_a_server_that_dies_fails_what_is_under_way_with_the_reason():
    script = """
        open_modern()
        receive("tools/call")
        note("I am ill")
        sys.exit(7)
    """
    with nothing_left(), connect(raw_server(script), options=ClientOptions(on_stderr=Notes())) as client:
        future = call(client, "x")
        with pytest.raises(ConnectionClosed, match=r"(?s)code 7.*I am ill"):
            future.result(PATIENCE)
        with pytest.raises(ConnectionClosed, match="code 7"):
            call(client, "x").result(PATIENCE)


def test_a_late_answer_to_a_timed_out_future_is_ignored():
    script = """
        open_modern()
        late = receive("tools/call")
        receive("notifications/cancelled")
        answer(late, text("too late"))
        go_on(text("in time"))
    """
    notes = Notes()
    with connect(raw_server(script), revision=MODERN, options=ClientOptions(on_stderr=notes)) as client:
        with client.asker.connection.clock.hold():  # until it is sent
            late = call(client, "x", timeout=0.05)
        with pytest.raises(RequestTimeout):
            late.result(PATIENCE)
        notes.message("notifications/cancelled")
        assert call(client, "y").result(PATIENCE).text == "in time"


# -- what an adversary found ---------------------------------------------------------------------


def test_a_done_callback_runs_though_other_events_are_too_many(gate, caplog):
    """The queue of events is bounded; what tells of the end of a call is not among what may be dropped."""
    server, held, told = Server("chatty"), threading.Event(), threading.Event()

    @server.tool
    def chatter(ctx: Context) -> int:
        for _ in range(10_200):
            ctx.log("error", "x")
        return 1

    with connect(server, revision="2025-11-25", on_log=lambda *said: held.wait(PATIENCE)) as client:
        future = call(client, "chatter")
        future.add_done_callback(lambda future: told.set())
        assert future.result(PATIENCE).text == "1"
        held.set()
        assert told.wait(PATIENCE)
    assert "more are dropped" in caplog.text


def test_a_callback_added_after_close_runs_all_the_same(gate):
    with connect(gate.server) as client:
        future = call(client, "add", {"a": 1, "b": 2})
        future.result(PATIENCE)
    told = []
    future.add_done_callback(told.append)
    assert told == [future]


def test_a_finished_future_waits_no_longer_than_it_is_asked_to():
    """The result is to be checked against a list of tools that never comes."""
    script = """
    open_modern()
    while True:
        request = receive("tools/call", "tools/list")
        if request["method"] == "tools/call":
            answer(request, text("x", structuredContent={"a": 1}))
    """
    with connect(raw_server(script), timeout=60) as client:
        future = call(client, "x")
        assert concurrent.futures.wait([future], PATIENCE).done
        started = time.monotonic()
        assert future.result(0.1).structured == {"a": 1}
        assert time.monotonic() - started < PATIENCE


def test_ctrl_c_while_a_result_is_awaited_gives_the_request_up(monkeypatch):
    """As in a blocking call: nobody waits any more."""

    def interrupted(future, timeout=None):
        raise KeyboardInterrupt

    server = Server("slow")
    began, ended = threading.Event(), threading.Event()

    @server.tool
    def slow(ctx: Context) -> str:
        began.set()
        try:
            ctx.sleep(60)
        finally:
            ended.set()
        return "done"

    with connect(server) as client:
        call = client.submit("tools/call", {"name": "slow", "arguments": {}})
        assert began.wait(10)
        with monkeypatch.context() as patched:
            patched.setattr(concurrent.futures.Future, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                call.result()
        assert ended.wait(10)
        assert call.cancelled()


def test_a_time_out_while_the_way_out_is_busy_is_told_to_the_caller_first(monkeypatch):
    """Nobody's time-out waits for a peer that does not read."""
    gate = threading.Event()
    server = Server("slow")
    server.add_tool(lambda: gate.wait(10) and "done", name="slow", output_schema=False)
    with connect(server) as client:
        monkeypatch.setattr(type(client.asker.connection.outbox), "is_busy", property(lambda outbox: True))
        call = client.submit("tools/call", {"name": "slow", "arguments": {}}, timeout=0.05)
        assert isinstance(call.exception(10), TimeoutError)
        gate.set()


def test_a_time_out_on_a_connection_that_is_closed_is_told_all_the_same(monkeypatch):
    gate = threading.Event()
    server = Server("slow")
    server.add_tool(lambda: gate.wait(10) and "done", name="slow", output_schema=False)
    with connect(server) as client:
        monkeypatch.setattr(client.asker.connection.responder.workers, "submit", lambda *job, **more: False)
        call = client.submit("tools/call", {"name": "slow", "arguments": {}}, timeout=0.05)
        assert isinstance(call.exception(10), TimeoutError)
        gate.set()


# -- results of resources, of prompts, and questions --------------------------------------------------


def test_the_text_of_a_result_is_all_text_of_whatever_it_is_of():
    message = {"role": "user", "content": {"type": "text", "text": "one"}}
    image = {"role": "user", "content": {"type": "image", "data": "", "mimeType": "image/png"}}
    assert Result({"messages": [message, image, 5, {**message}]}).text == "one\none"
    contents = [{"uri": "a:b", "text": "one"}, {"uri": "a:c", "blob": "AAE="}, 5]
    assert Result({"contents": contents}).text == "one"
    assert Result({"contents": contents}).blobs == [b"\x00\x01"]
    assert Result({}).text == "" and Result({}).blobs == []


def test_a_question_says_what_it_asks():
    question = Result({"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}})
    assert question.is_input_required
    assert question.input_requests == {"a": {"method": "roots/list"}}
    assert Result({"inputRequests": 5}).input_requests == {}
    assert not Result({"resultType": "complete"}).is_input_required


def asking():
    server = Server("asking")

    @server.tool
    def ask(ctx: Context) -> str:
        return f"{ctx.elicit('One?').action} {ctx.elicit('Two?').action}"

    return server


@pytest.mark.parametrize("date", ["2025-06-18", "2025-11-25", MODERN])
def test_a_future_goes_through_what_the_server_asks_first(date):
    asked = []
    with connect(asking(), revision=date, elicitation=lambda q: asked.append(q.message) or True) as client:
        future = client.submit("tools/call", {"name": "ask", "arguments": {}})
        assert future.result(PATIENCE).text == "accept accept"
        assert asked == ["One?", "Two?"]


def test_a_future_that_is_cancelled_while_a_person_is_asked_is_not_sent_again():
    waiting, go = threading.Event(), threading.Event()

    def ask(question):
        waiting.set()
        go.wait(PATIENCE)
        return True

    with connect(asking(), revision=MODERN, elicitation=ask) as client:
        future = client.submit("tools/call", {"name": "ask", "arguments": {}})
        assert waiting.wait(PATIENCE)
        assert not future.cancel()  # not at once, that is
        go.set()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(PATIENCE)
        client.ping()


def test_a_future_that_is_cancelled_while_it_is_sent_again_is_cancelled_on_the_wire():
    ready, server = threading.Event(), Server("asking")

    @server.tool
    def ask(ctx: Context) -> str:
        ctx.elicit("One?")
        ctx.sleep(60)
        return "done"

    with connect(server, revision=MODERN, elicitation=lambda question: ready.wait(PATIENCE)) as client:
        future = client.submit("tools/call", {"name": "ask", "arguments": {}})
        send = future._send

        def cancelled_meanwhile(params):
            future._given_up.set()
            return send(params)

        future._send = cancelled_meanwhile
        ready.set()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(PATIENCE)
        client.ping()


@pytest.fixture
def overtaken(monkeypatch):
    """A future whose question was answered, and which was sent again, before it was sent to the end; and the
    timers of its rounds.
    """
    again, server = threading.Event(), Server("asking")

    @server.tool
    def ask(ctx: Context) -> str:
        ctx.elicit("One?")
        again.set()
        ctx.sleep(60)
        return "done"

    caller = threading.current_thread()
    with connect(server, revision=MODERN, elicitation=lambda question: True) as client:
        outbox = client.asker.connection.outbox
        send = outbox.send

        def send_slowly(line, wait=None):
            send(line, wait)
            if threading.current_thread() is caller and b"tools/call" in line:
                assert again.wait(PATIENCE)

        outbox.send = send_slowly
        set_timer, timers = results.later, []
        monkeypatch.setattr(results, "later", lambda *given: timers.append(set_timer(*given)) or timers[-1])
        yield client.submit("tools/call", {"name": "ask", "arguments": {}}), timers


def test_a_future_that_is_sent_again_before_it_was_sent_to_the_end_can_be_cancelled(overtaken):
    future, _ = overtaken
    assert future.cancel()
    assert future.cancelled()


def test_a_future_that_is_sent_again_before_it_was_sent_to_the_end_leaves_no_timer_behind(overtaken):
    """One that is left would keep the client alive until its time comes."""
    future, timers = overtaken
    future.cancel()
    assert [timer.run for timer in timers] == [None, None]


def test_a_future_whose_time_is_up_before_it_was_sent_ends_soon_after(monkeypatch):
    """The first look at its time finds it not even waiting, and is not the last one."""
    expire, looks = results.PendingCall._expire, []

    def look(future, call):
        looks.append(call.id in future._connection.waiting)
        expire(future, call)

    monkeypatch.setattr(results.PendingCall, "_expire", look)
    with connect(asking(), revision=MODERN) as client:
        watch = results.PendingCall.watch

        def watch_slowly(future, call):
            watch(future, call)
            assert eventually(lambda: looks)

        monkeypatch.setattr(results.PendingCall, "watch", watch_slowly)
        monkeypatch.setattr(client.asker.connection.outbox, "send", lambda line, wait=None: None)
        future = client.submit("tools/call", {"name": "ask", "arguments": {}}, timeout=0.001)
        with pytest.raises(RequestTimeout):
            future.result(PATIENCE)
        assert looks[0] is False
        assert looks[-1] is True


def test_a_future_whose_answer_cannot_be_had_says_so():
    with connect(asking(), revision=MODERN, elicitation=lambda question: {"no": "field"}) as client:
        future = client.submit("tools/call", {"name": "ask", "arguments": {}})
        with pytest.raises(InputRefused):
            future.result(PATIENCE)


def test_a_fault_of_ours_between_rounds_leaves_nobody_waiting(monkeypatch, caplog):
    def broken(*arguments):
        raise RuntimeError("broken")

    with connect(asking(), revision=MODERN, elicitation=lambda question: True) as client:
        monkeypatch.setattr("mcp_ref.basic.patterns.mrtr.basic_workflow.retry", broken)
        future = client.submit("tools/call", {"name": "ask", "arguments": {}})
        with pytest.raises(LocalError, match="broken"):
            future.result(PATIENCE)
        assert eventually(lambda: "a job failed" in caplog.text)


def test_a_question_that_comes_when_the_client_is_closed_is_the_end(monkeypatch):
    with connect(asking(), revision=MODERN, elicitation=lambda question: True) as client:
        monkeypatch.setattr(client.asker.connection.responder.workers, "submit", lambda *job, **more: False)
        future = client.submit("tools/call", {"name": "ask", "arguments": {}})
        with pytest.raises(ConnectionClosed):
            future.result(PATIENCE)


def test_an_error_with_places_to_visit_is_told_as_one():
    server = Server("signing in")

    @server.tool
    def need() -> str:
        raise UrlElicitationRequired(ElicitUrl("Sign in", "https://example.com/"))

    with connect(server, revision="2025-11-25", elicitation=lambda question: True) as client:
        future = client.submit("tools/call", {"name": "need", "arguments": {}})
        assert isinstance(future.exception(PATIENCE), UrlElicitationNeeded)


def test_a_future_whose_headers_are_always_wrong_is_sent_twice_and_no_more():
    """With the tools asked for in between."""
    listed = {
        "tools": [{"name": "it", "inputSchema": {"type": "object"}}],
        "ttlMs": 0,
        "cacheScope": "private",
    }

    def serve(request, wire):
        if request.rpc == "tools/list":
            wire.result(request, {"resultType": "complete", **listed})
        elif request.rpc == "tools/call":
            wire.error(request, -32020, "Header mismatch", 400)
        else:
            opened(serve)(request, wire)

    with web(serve) as site, connect(site.url) as client:
        problem = call(client, "it").exception(PATIENCE)
        assert (type(problem), problem.code) == (RefusedByStatus, -32020)
        methods = [r.rpc for r in site.requests if r.rpc in ("tools/call", "tools/list")]
    assert methods == ["tools/list", "tools/call", "tools/list", "tools/call"]


# -- calls that the server runs as tasks -----------------------------------------------------------


KNOWING_TASKS = ClientOptions(extensions={"io.modelcontextprotocol/tasks": {}})


@pytest.mark.spec("extensions/tasks/client-handles-both")
def test_a_call_that_became_a_task_is_done_when_it_is_answered_and_its_result_is_that_of_the_task():
    with connect(Scripted(MODERN), revision=MODERN, options=KNOWING_TASKS) as client:
        call = client.submit("tools/call", {"name": "render"})
        assert call.result(PATIENCE).text == "done"
        assert call.done()
        assert call.exception() is None


def test_the_time_for_the_result_of_a_task_is_that_of_any_future():
    server = Scripted(MODERN, {"tasks/get": state(MODERN)})
    with connect(server, revision=MODERN, options=KNOWING_TASKS) as client:
        call = client.submit("tools/call", {"name": "render"})
        assert concurrent.futures.wait([call], PATIENCE).done  # else 0.05 s may pass before there is a task
        for act in (call.result, call.exception):
            with pytest.raises(TimeoutError, match="not over in time") as caught:
                act(0.05)
            assert type(caught.value) is TimeoutError


def test_ctrl_c_while_a_call_waits_for_its_task_cancels_that(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    server = Scripted(MODERN)
    with connect(server, revision=MODERN, options=KNOWING_TASKS) as client:
        call = client.submit("tools/call", {"name": "render"})
        monkeypatch.setattr(Task, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            call.result(PATIENCE)
        assert server.is_asked("tasks/cancel")


def test_a_task_that_another_request_is_answered_with_is_no_result():
    with connect(Scripted(MODERN, {"vendor/x": created(MODERN)}), revision=MODERN) as client:
        assert isinstance(client.submit("vendor/x").exception(PATIENCE), InvalidResponse)


# -- a tool that failed --------------------------------------------------------------------------


class Mood(enum.Enum):
    GLAD = "g"
    SAD = "s"


@dataclass
class Note:
    text: str
    day: datetime.date
    mood: Mood = Mood.GLAD


class Pair(TypedDict):
    a: int
    b: str


def notes():
    """A server with a tool for each kind of what tools return, and one that fails."""
    server = Server("notes")

    @server.tool
    def note(text: str) -> Note:
        return Note(text, datetime.date(2026, 7, 28), Mood.SAD)

    @server.tool
    def all_notes() -> list[Note]:
        return [note("a"), note("b")]

    @server.tool
    def pair() -> Pair:
        return {"a": 1, "b": "two"}

    @server.tool
    def count() -> int:
        return 3

    @server.tool
    def name() -> str:
        return "12"

    @server.tool
    def perhaps(there: bool) -> Note | None:
        return note("c") if there else None

    @server.tool
    def untyped():
        return {"text": "d", "day": "2026-07-28"}

    @server.tool
    def fail(message: str) -> int:
        raise ValueError(message)

    @server.tool
    def ask(ctx: Context) -> int:
        answer = ctx.elicit("How many?", int)
        return answer.data

    server.add_tool(lambda: None, name="nothing")
    server.add_tool(lambda: ["a", "b"], name="several")
    server.add_tool(lambda: ["a"], name="single")
    return server


def test_a_result_that_is_no_error_is_returned_as_it_is():
    for wire in ({}, {"content": []}, {"isError": False}, {"contents": []}, {"messages": []}):
        result = Result(wire)
        assert result.raise_for_error() is result


def test_a_result_that_is_an_error_raises_its_text_and_its_content():
    blocks = [{"type": "text", "text": "the well"}, {"type": "text", "text": "is dry"}]
    with pytest.raises(ToolError) as caught:
        Result({"content": blocks, "isError": True}).raise_for_error()
    problem = caught.value
    assert isinstance(problem, McpError)
    assert str(problem) == problem.message == Result({"content": blocks}).text
    assert problem.content == blocks
    again = pickle.loads(pickle.dumps(problem))
    assert (type(again), str(again), again.content) == (ToolError, str(problem), blocks)


def test_the_text_of_such_an_error_steers_no_terminal_and_its_message_is_exact():
    sent = "first\r\n\tsecond\x1b[2J\r\u202ethird"
    with pytest.raises(ToolError) as caught:
        Result({"content": [{"type": "text", "text": sent}], "isError": True}).raise_for_error()
    assert str(caught.value) == "first\n\tsecond\ufffd[2J\ufffd\ufffdthird"
    assert caught.value.message == sent
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.message) == (str(caught.value), sent)


@pytest.mark.parametrize("content", [[], None, "odd", [{"type": "image", "data": "", "mimeType": "x/y"}]])
def test_an_error_without_a_word_says_so(content):
    with pytest.raises(ToolError, match="the tool failed, without a word"):
        Result({"content": content, "isError": True}).raise_for_error()


# -- what a tool returned ------------------------------------------------------------------------

NOTE = Note("a", datetime.date(2026, 7, 28), Mood.SAD)
RETURNED = [
    ("note", {"text": "a"}, Note, NOTE),
    ("all_notes", {}, list[Note], [NOTE, Note("b", NOTE.day, Mood.SAD)]),
    ("all_notes", {}, tuple[Note, ...], (NOTE, Note("b", NOTE.day, Mood.SAD))),
    ("pair", {}, Pair, {"a": 1, "b": "two"}),
    ("pair", {}, dict[str, int | str], {"a": 1, "b": "two"}),
    ("count", {}, int, 3),
    ("count", {}, float, 3.0),
    ("count", {}, Annotated[int, {"title": "How many"}], 3),
    ("name", {}, str, "12"),
    ("perhaps", {"there": True}, Note | None, Note("c", NOTE.day, Mood.SAD)),
    ("perhaps", {"there": False}, Note | None, None),
    ("perhaps", {"there": True}, Note, Note("c", NOTE.day, Mood.SAD)),
    ("untyped", {}, Note, Note("d", NOTE.day)),
    ("nothing", {}, type(None), None),
    ("nothing", {}, None, None),
    ("nothing", {}, str | None, None),
    ("nothing", {}, Note | None, None),
    ("nothing", {}, str, ""),
    ("several", {}, list[str], ["a", "b"]),
    ("several", {}, set[str], {"a", "b"}),
    ("several", {}, str, "a\nb"),
    ("single", {}, list[str], ["a"]),
    ("single", {}, list[str] | str, "a"),
]


@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize(("tool", "arguments", "kind", "value"), RETURNED, ids=plain)
def test_what_a_tool_returned_is_loaded_as_its_type(date, tool, arguments, kind, value):
    """From the structured content, and from the text in revisions without it."""
    with connect(notes(), revision=date) as client:
        loaded = client.call_tool(tool, arguments).load(kind)
    assert (loaded, type(loaded)) == (value, type(value))


@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize(
    ("tool", "kind", "says"),
    [
        ("count", Note, "what the tool returned is no Note: must be an object"),
        ("pair", Note, "what the tool returned is no Note: "),
        ("pair", int, "what the tool returned is no int: must be an integer"),
        ("untyped", int, "what the tool returned is no int: must be an integer"),
        ("name", bool, "what the tool returned is no bool: must be true or false"),
        ("count", list[int], "what the tool returned is no list[int]: must be an array"),
        ("nothing", int, "what the tool returned is no int: must be an integer, not ''"),
        ("several", list[int], "what the tool returned is no list[int]: must be an array, not 'a"),
        ("several", type(None), "what the tool returned is no NoneType: must be null"),
    ],
)
def test_what_is_of_another_type_is_an_invalid_response(date, tool, kind, says):
    with connect(notes(), revision=date) as client:
        result = client.call_tool(tool)
        with pytest.raises(InvalidResponse) as caught:
            result.load(kind)
    assert str(caught.value).startswith(says)


def test_an_error_has_nothing_to_load():
    with connect(notes()) as client, pytest.raises(ToolError, match="too late"):
        client.call_tool("fail", {"message": "too late"}).load(int)


def test_a_question_has_nothing_to_load():
    with connect(notes(), elicitation=lambda question: {"value": 3}) as client:
        question = client.call_tool("ask", rounds=0)
        with pytest.raises(InputRefused, match="the server asks for input"):
            question.load(int)
        assert client.call_tool("ask").load(int) == 3


def test_structured_content_of_another_server_need_not_be_in_an_object():
    """2026-07-28 lets it be of any kind; an object whose one member is `result` may be what was meant."""
    assert Result({"content": [], "structuredContent": [1, 2]}).load(list[int]) == [1, 2]
    assert Result({"content": [], "structuredContent": None}).load(int | None) is None
    wrapped = Result({"content": [], "structuredContent": {"result": 1}})
    assert wrapped.load(int) == 1
    assert wrapped.load(dict[str, int]) == {"result": 1}
    with pytest.raises(InvalidResponse):
        Result({"content": [], "structuredContent": {"result": 1, "more": 2}}).load(int)


def test_a_type_that_json_cannot_carry_is_refused_at_once():
    with pytest.raises(TypeError, match="has no JSON form"):
        Result({"content": []}).load(complex)
    for wrong in (complex, 5):
        with connect(notes()) as client, pytest.raises(TypeError, match=r"^returns: .* has no JSON form"):
            client.call_tool("count", returns=wrong)


@pytest.mark.parametrize("date", REVISIONS)
def test_a_future_gives_what_a_call_would(date):
    with connect(notes(), revision=date) as client:
        loaded = client.submit_tool("note", {"text": "a"}, returns=Note)
        assert isinstance(loaded, concurrent.futures.Future)
        raw, failed = client.submit_tool("count"), client.submit_tool("fail", {"message": "dry"})
        checked = client.submit_tool("fail", {"message": "dry"}, check=True)
        assert len(concurrent.futures.wait([loaded, raw, failed, checked], PATIENCE).done) == 4
        assert loaded.result(PATIENCE) == NOTE
        assert loaded.result(PATIENCE) is loaded.result(PATIENCE)
        assert isinstance(raw.result(PATIENCE), Result)
        assert failed.result(PATIENCE).is_error
        for _ in range(2):
            with pytest.raises(ToolError, match="dry"):
                checked.result(PATIENCE)
        assert isinstance(checked.exception(PATIENCE), ToolError)
        assert loaded.exception(PATIENCE) is None


@pytest.mark.parametrize("date", REVISIONS)
def test_a_future_of_a_tool_that_is_cancelled_cancels_it_on_the_wire(gate, date):
    with connect(gate.server, revision=date) as client:
        future = client.submit_tool("wait")
        assert gate.entered.wait(PATIENCE)
        assert future.cancel()
        assert gate.cancelled.wait(PATIENCE)
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(PATIENCE)


def test_a_result_says_what_it_is_and_not_all_of_a_picture():
    result = Result({"content": [{"type": "image", "data": "A" * 10**6, "mimeType": "image/png"}]})
    said = "Result({'content': [{'type': 'image', 'data': 'AAAAAAAAAAAAAAA...' (1000000 characters), "
    assert repr(result) == str(result) == said + "'mimeType': 'image/png'}]})"
    assert repr(Result({"tools": []})) == "Result({'tools': []})"
