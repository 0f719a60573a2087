"""runtime/threads/deadlines: one limit for the whole of an operation; what moves it and what does not."""

import threading
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import PATIENCE

from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.runtime.errors import LocalError, RequestTimeout
from mcp_ref.runtime.threads import deadlines
from mcp_ref.runtime.threads.deadlines import Clock, Deadline
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.threads.workers import Workers


class Hands:
    """The time that a test sets."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def hands(monkeypatch):
    """The clock on the wall, in the hand of the test."""
    hands = Hands()
    monkeypatch.setattr(deadlines, "time", hands)
    return hands


# -- the clock --------------------------------------------------------------------------------


def test_a_clock_runs(hands):
    clock = Clock()
    start = clock.now()
    hands.now += 3
    assert clock.now() - start == 3


def test_a_held_clock_stands_still_and_goes_on_where_it_stood(hands):
    clock = Clock()
    start = clock.now()
    hands.now += 1
    with clock.hold():
        assert clock.is_held
        hands.now += 100
        assert clock.now() - start == 1
    assert not clock.is_held
    assert clock.now() - start == 1
    hands.now += 2
    assert clock.now() - start == 3


def test_holds_that_overlap_count_once(hands):
    """Two questions to people at once: the clock runs again when both are answered."""
    clock = Clock()
    start = clock.now()
    first, second = clock.hold(), clock.hold()
    first.__enter__()
    hands.now += 10
    second.__enter__()
    hands.now += 10
    first.__exit__(None, None, None)
    assert clock.is_held
    hands.now += 10
    second.__exit__(None, None, None)
    assert not clock.is_held
    assert clock.now() == start


def test_a_hold_ends_when_its_block_raises(hands):
    clock = Clock()
    with pytest.raises(KeyError), clock.hold():
        raise KeyError
    assert not clock.is_held


def test_many_threads_may_hold_a_clock():
    """Whatever the interleaving, the clock is free at the end and never ran faster than time."""
    clock = Clock()
    wall, start = deadlines.time.monotonic(), clock.now()
    begin = threading.Barrier(8)
    late = []

    def ask():
        begin.wait(PATIENCE)
        for _ in range(500):
            before = clock.now()
            with clock.hold():
                pass
            if clock.now() - before > deadlines.time.monotonic() - wall:
                late.append(clock.now())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not late
    assert not clock.is_held
    assert 0 <= clock.now() - start <= deadlines.time.monotonic() - wall


# -- the deadline -----------------------------------------------------------------------------


@pytest.mark.spec("basic/patterns/cancellation/timeout-all-requests")
def test_a_deadline_comes(hands):
    deadline = Deadline(5, Clock())
    assert deadline.span == 5
    assert deadline.left() == 5
    hands.now += 4
    assert deadline.left() == 1
    hands.now += 2
    assert deadline.left() == -1
    assert deadline.pause() == 0


@pytest.mark.spec("basic/patterns/cancellation/timeout-reset-on-progress")
def test_progress_restarts_the_deadline(hands):
    deadline = Deadline(5, Clock(), cap=100)
    hands.now += 4
    deadline.restart()
    assert deadline.left() == 5


@pytest.mark.spec("basic/patterns/cancellation/timeout-hard-cap")
def test_progress_does_not_move_the_cap(hands):
    deadline = Deadline(5, Clock(), cap=12)
    for _ in range(10):
        hands.now += 4
        deadline.restart()
        if deadline.left() <= 0:
            break
    assert hands.now == 1012
    assert deadline.left() == 0


def test_a_deadline_says_which_limit_ended_it(hands):
    clock = Clock()
    plain, moved, capped, held = (Deadline(5, clock, cap=12) for _ in range(4))
    hands.now += 4
    for deadline in (moved, capped):
        deadline.restart()
    hands.now += 4
    capped.restart()
    hands.now += 4.5
    assert plain.reached() == "5 s"
    assert moved.reached() == "5 s since the last progress"
    assert capped.reached() == "12 s in all (max_timeout), in spite of progress"
    with clock.hold():
        hands.now += deadlines.FOR_PEOPLE
    held.restart()
    assert held.reached() == "612 s in all, with the time in which a person was asked"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1.99998, "2 s"),
        (29.9971, "30 s"),
        (1.2345, "1.23 s"),
        (0.49998, "0.5 s"),
        (0.0001, "0.0001 s"),
        (3600, "3600 s"),
    ],
)
def test_a_time_is_told_in_a_few_digits_and_never_as_none(seconds, said):
    """A limit may be what another one left."""
    assert Deadline(seconds, Clock()).reached() == said


def test_a_cap_below_the_deadline_is_not_the_limit_that_ended_it(hands):
    deadline = Deadline(30, Clock(), cap=10)
    hands.now += 31
    assert deadline.reached() == "30 s"


def test_a_cap_below_the_deadline_is_not_named_as_the_limit_after_progress_either(hands):
    deadline = Deadline(30, Clock(), cap=10)
    hands.now += 20
    deadline.restart()
    hands.now += 11
    assert deadline.reached() == "30 s in all, in spite of progress"


def test_a_cap_below_the_deadline_counts_as_the_deadline(hands):
    deadline = Deadline(30, Clock(), cap=10)
    assert deadline.left() == 30


def test_without_a_cap_nothing_moves_the_deadline(hands):
    deadline = Deadline(5, Clock())
    hands.now += 3
    deadline.restart()
    assert deadline.left() == 2


def test_time_for_a_person_does_not_count_not_even_for_the_cap(hands):
    clock = Clock()
    deadline = Deadline(5, clock, cap=10)
    with clock.hold():
        hands.now += deadlines.FOR_PEOPLE
        assert deadline.left() == 5
        assert deadline.pause() == 5
    assert deadline.left() == 5


def test_a_peer_that_has_people_asked_for_ever_does_not_stop_the_clock_for_ever(hands):
    """A server could send one question after another: that gains it FOR_PEOPLE seconds, no more."""
    clock = Clock()
    deadline = Deadline(5, clock, cap=10)
    with clock.hold():
        hands.now += deadlines.FOR_PEOPLE + 9
        assert 0 < deadline.left() <= 1
        hands.now += 2
        assert deadline.left() <= 0


def test_a_wait_during_a_hold_looks_again_soon_even_at_the_very_end(hands):
    """Otherwise whoever waits would spin until the hold is over, or never see that it is."""
    clock = Clock()
    deadline = Deadline(1, clock)
    hands.now += 0.99
    with clock.hold():
        assert 0.01 < deadline.pause() <= 1
    assert deadline.pause() == pytest.approx(0.01)


@pytest.mark.parametrize("seconds", [float("inf"), 1e30, threading.TIMEOUT_MAX * 2])
def test_an_endless_deadline_makes_waits_that_a_lock_can_count(seconds):
    pause = Deadline(seconds, Clock()).pause()
    assert 0 < pause < threading.TIMEOUT_MAX
    assert not _locked().acquire(timeout=min(pause, 0.001))


def _locked():
    lock = threading.Lock()
    lock.acquire()
    return lock


@given(
    st.floats(0.001, 1000),
    st.none() | st.floats(0.001, 1000),
    st.lists(st.tuples(st.sampled_from(["work", "report", "person"]), st.floats(0, 500))),
)
def test_a_deadline_never_ends_early_and_never_after_its_cap(span, cap, events):
    hands = Hands()
    real, deadlines.time = deadlines.time, hands
    try:
        clock = Clock()
        deadline = Deadline(span, clock, cap=cap)
        most = max(span, cap) if cap is not None else span
        busy = silent = real_time = 0.0
        for event, seconds in events:
            real_time += seconds
            if event == "person":
                with clock.hold():
                    hands.now += seconds
                continue
            hands.now += seconds
            busy += seconds
            silent += seconds
            if event == "report":
                deadline.restart()
                silent = 0.0
            expected = min(span - silent, most - busy) if cap is not None else span - busy
            expected = min(expected, most + deadlines.FOR_PEOPLE - real_time)
            assert deadline.left() == pytest.approx(expected, abs=1e-6)
    finally:
        deadlines.time = real


# -- in use -----------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/patterns/cancellation/timeout-all-requests",
    "basic/patterns/cancellation/timeout-configurable",
    "basic/lifecycle/handle-request-timeout",
)
@pytest.mark.parametrize("by_connection", [True, False])
def test_every_request_has_a_time_limit(by_connection):
    """The connection's, or one of its own; nobody answers here."""
    nobody = types.SimpleNamespace()
    workers = Workers()
    connection = Connection(
        nobody, Outbox(lambda line: None), workers=workers, timeout=0.01 if by_connection else 600
    )
    with pytest.raises(RequestTimeout, match=r"no answer within 0\.01 s") as caught:
        connection.request("vendor/x", timeout=None if by_connection else 0.01)
    assert isinstance(caught.value, LocalError)
    connection.end("done")
