"""runtime/threads/calls: what the sender of a request waits for."""

import threading
from collections import deque

import pytest
from peers import PATIENCE

from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.patterns.progress import Report
from mcp_ref.runtime.errors import RequestCancelled
from mcp_ref.runtime.threads import deadlines
from mcp_ref.runtime.threads.calls import Call
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.threads.outbox import Outbox


class Hands:
    """The time that a test sets, for deadlines; threads wait in real time all the same."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def hands(monkeypatch):
    hands = Hands()
    monkeypatch.setattr(deadlines, "time", hands)
    return hands


def call_for(seconds=PATIENCE, clock=None, **more):
    return Call(1, "vendor/x", Deadline(seconds, clock or Clock(), **more), Outbox(lambda line: None))


def in_thread(run):
    """Run it beside the test; give back the thread and what it returned."""
    found = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    return thread, found


def test_an_answer_that_is_there_already_is_not_waited_for():
    call = call_for(0)
    call.finish({"a": 1})
    assert call.done
    assert call.wait(None)
    assert call.result() == {"a": 1}


def test_an_answer_wakes_whoever_waits():
    call = call_for()
    thread, found = in_thread(lambda: call.wait(None))
    call.finish({"a": 1})
    thread.join(PATIENCE)
    assert found == [True]


def test_an_error_is_raised_where_the_result_is_asked_for():
    call = call_for()
    call.finish(ErrorResponse(-32601, "there is no such method"))
    assert call.wait(None)
    with pytest.raises(ErrorResponse, match="no such method") as caught:
        call.result()
    assert caught.value.code == -32601


def test_without_an_answer_the_wait_ends_with_the_deadline():
    call = call_for(0.01)
    assert not call.wait(None)
    assert not call.done


def test_an_endless_wait_ends_with_the_answer():
    call = call_for(float("inf"))
    thread, found = in_thread(lambda: call.wait(None))
    call.finish({})
    thread.join(PATIENCE)
    assert found == [True]


def test_a_wake_without_news_goes_on_waiting():
    call = call_for()
    thread, found = in_thread(lambda: call.wait(None))
    for _ in range(100):
        call.wake()
    assert not found
    call.finish({})
    thread.join(PATIENCE)
    assert found == [True]


def test_an_answer_in_the_last_moment_counts():
    """The deadline passes and the answer is there: it is taken, not thrown away."""
    call = call_for(-1)
    call.finish({"late": True})
    assert call.wait(None)


# -- progress ---------------------------------------------------------------------------------


def report(call, progress):
    call.reports.append(Report(progress, None, None))
    call.wake()


def test_progress_runs_on_the_waiting_thread_in_order_and_before_the_end():
    call = call_for()
    call.reports = deque()
    seen = []

    def on_progress(progress, total, message):
        seen.append((progress, threading.current_thread()))

    thread, found = in_thread(lambda: call.wait(on_progress))
    for progress in range(50):
        report(call, progress)
    call.finish({})
    thread.join(PATIENCE)
    assert found == [True]
    assert [progress for progress, _ in seen] == list(range(50))
    assert {where for _, where in seen} == {thread}


def test_progress_and_answer_before_anybody_waits_are_both_delivered():
    call = call_for()
    call.reports = deque()
    report(call, 1)
    report(call, 2)
    call.finish({})
    seen = []
    assert call.wait(lambda *news: seen.append(news))
    assert seen == [(1, None, None), (2, None, None)]


def test_a_callback_that_raises_ends_the_wait():
    call = call_for()
    call.reports = deque()
    report(call, 1)

    def on_progress(*news):
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        call.wait(on_progress)


def test_progress_nobody_wants_is_left_alone():
    call = call_for()
    call.reports = deque()
    report(call, 1)
    call.finish({})
    assert call.wait(None)


def test_progress_keeps_a_wait_alive_beyond_its_deadline(hands):
    call = call_for(5, cap=1000)
    call.reports = deque()
    told = threading.Event()
    thread, found = in_thread(lambda: call.wait(lambda *news: told.set()))
    for progress in range(10):  # forty seconds of work, and never five of silence
        told.clear()
        hands.now += 4
        call.deadline.restart()
        report(call, progress)
        assert told.wait(PATIENCE)
    assert not found
    call.finish({})
    thread.join(PATIENCE)
    assert found == [True]


def test_a_held_clock_keeps_a_wait_alive(hands, monkeypatch):
    """A person is asked something for minutes, and the deadline is a hundredth of a second."""
    clock = Clock()
    call = call_for(0.01, clock)
    looks = threading.Semaphore(0)
    pause = Deadline.pause
    monkeypatch.setattr(Deadline, "pause", lambda self: looks.release() or pause(self))
    with clock.hold():
        hands.now += 300
        thread, found = in_thread(lambda: call.wait(None))
        for _ in range(3):
            assert looks.acquire(timeout=PATIENCE)
        assert not found
    hands.now += 1
    thread.join(PATIENCE)
    assert found == [False]


# -- callers that do not wait -----------------------------------------------------------------


def test_whoever_does_not_wait_is_told_on_the_thread_that_ends_it():
    call = call_for()
    told = []
    call.on_done = lambda over: told.append((over, threading.current_thread()))
    thread, _ = in_thread(lambda: call.finish(RequestCancelled("vendor/x: enough")))
    thread.join(PATIENCE)
    assert told == [(call, thread)]
    with pytest.raises(RequestCancelled, match="enough"):
        call.result()


def test_the_outcome_is_there_before_anybody_is_told():
    call = call_for()
    seen = []
    call.on_done = lambda over: seen.append((over.done, over.outcome))
    call.finish({"a": 1})
    assert seen == [(True, {"a": 1})]
