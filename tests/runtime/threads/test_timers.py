"""runtime/threads/timers: one thread for everything that is to happen later."""

import importlib.util
import logging
import threading
from unittest import mock

import pytest
from peers import PATIENCE, eventually

from mcp_ref.runtime.threads import timers as shared


@pytest.fixture
def timers():
    """The module with no timers in it, whatever else this process is doing; none may stay behind."""
    spec = importlib.util.spec_from_file_location("timers_of_one_test", shared.__file__)
    fresh = importlib.util.module_from_spec(spec)
    before = set(threading.enumerate())
    spec.loader.exec_module(fresh)
    yield fresh
    assert eventually(lambda: not threads_since(before))


def threads_since(before):
    return [t for t in set(threading.enumerate()) - before if t.name == "mcp_ref timers"]


def test_a_timer_runs_once_on_the_thread_for_timers(timers):
    ran = []
    done = threading.Event()
    timers.later(0.001, lambda: (ran.append(threading.current_thread()), done.set()))
    assert done.wait(PATIENCE)
    assert [thread.name for thread in ran] == ["mcp_ref timers"]
    assert ran[0].daemon


def test_it_does_not_run_early(timers):
    """Measured on the clock that it is set by."""
    times = []
    done = threading.Event()
    start = timers.time.monotonic()
    timers.later(0.03, lambda: (times.append(timers.time.monotonic() - start), done.set()))
    assert done.wait(PATIENCE)
    assert times[0] >= 0.03


def test_timers_run_in_the_order_of_their_times(timers):
    """Also when a later call asks for an earlier time, and equal times keep the order of the calls."""
    order = []
    done = threading.Event()
    with timers._wakes:  # so that all are set before the first one runs
        now = timers.time.monotonic()
        with mock.patch.object(timers, "time") as clock:
            clock.monotonic.return_value = now
            timers.later(0.03, lambda: (order.append("last"), done.set()))
            timers.later(0.01, lambda: order.append("first"))
            timers.later(0.02, lambda: order.append("second"))
            timers.later(0.02, lambda: order.append("third"))
    assert done.wait(PATIENCE)
    assert order == ["first", "second", "third", "last"]


def test_an_earlier_timer_does_not_wait_for_the_one_before_it(timers):
    distant = timers.later(3600, lambda: None)
    soon = threading.Event()
    timers.later(0.001, soon.set)
    assert soon.wait(PATIENCE)
    distant.cancel()
    timers.later(0, lambda: None)  # the thread looks, finds that nothing is left, and ends


def test_a_cancelled_timer_does_not_run(timers):
    ran = []
    done = threading.Event()
    with timers._wakes:  # so that it is cancelled before its time, however late this thread is
        cancelled = timers.later(0.01, lambda: ran.append("cancelled"))
        timers.later(0.02, done.set)
        cancelled.cancel()
    assert done.wait(PATIENCE)
    assert not ran


def test_a_timer_cancelled_at_the_last_moment_does_not_run(timers):
    """One timer cancels the next, when both are due."""
    ran = []
    done = threading.Event()
    with timers._wakes:
        timers.later(0, lambda: second.cancel())
        second = timers.later(0, lambda: ran.append("second"))
        timers.later(0, done.set)
    assert done.wait(PATIENCE)
    assert not ran


def test_cancelling_afterwards_is_harmless(timers):
    done = threading.Event()
    timer = timers.later(0, done.set)
    assert done.wait(PATIENCE)
    timer.cancel()
    timer.cancel()


@pytest.mark.parametrize("problem", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_a_timer_that_raises_is_logged_and_the_others_still_run(timers, caplog, problem):
    def fail():
        raise problem

    done = threading.Event()
    with caplog.at_level(logging.ERROR, "mcp_ref.timers"):
        timers.later(0, fail)
        timers.later(0.001, done.set)
        assert done.wait(PATIENCE)
    assert [record.message for record in caplog.records] == ["a timer failed"]


def test_an_endless_timer_is_only_one_that_waits_for_long(timers):
    """`timeout=float("inf")` of a request ends up here."""
    endless = timers.later(float("inf"), lambda: None)
    done = threading.Event()
    timers.later(0.001, done.set)
    assert done.wait(PATIENCE)
    done.clear()
    timers.later(0.001, done.set)
    assert done.wait(PATIENCE)
    endless.cancel()
    timers.later(0, lambda: None)


def test_the_thread_ends_when_no_timer_is_left_and_comes_back(timers):
    before = set(threading.enumerate())
    for _ in range(3):
        done = threading.Event()
        timers.later(0, done.set)
        assert done.wait(PATIENCE)
        assert eventually(lambda: not threads_since(before))


def test_one_thread_is_enough_for_timers_from_many(timers):
    before = set(threading.enumerate())
    counted = threading.Semaphore(0)
    seen = set()

    def run():
        seen.add(threading.current_thread())
        counted.release()

    def ask():
        for _ in range(100):
            timers.later(0.02, run)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    hold = timers.later(3600, lambda: None)
    for asker in askers:
        asker.start()
    for _ in range(400):
        assert counted.acquire(timeout=PATIENCE)
    for asker in askers:
        asker.join(PATIENCE)
    assert len(seen) == 1
    assert len(threads_since(before)) == 1
    hold.cancel()
    timers.later(0, lambda: None)
    assert not counted.acquire(blocking=False)
