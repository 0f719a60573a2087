"""runtime/limits: so many calls a second, so many at once, and when to come back."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import PATIENCE

from mcp_ref.runtime import limits
from mcp_ref.runtime.limits import Limit, Limiter


class Hands:
    """The time that a test sets."""

    def __init__(self):
        self.now = 50.0

    def monotonic(self):
        return self.now


@pytest.fixture
def hands(monkeypatch):
    hands = Hands()
    monkeypatch.setattr(limits, "time", hands)
    return hands


def passes(limiter):
    """Whether a call may run; it is over at once."""
    if limiter.enter():
        return False
    limiter.leave()
    return True


def test_a_burst_may_come_in_one_go_and_no_more(hands):
    limiter = Limiter(Limit(rate=1, burst=3))
    assert [passes(limiter) for _ in range(5)] == [True, True, True, False, False]


def test_whoever_is_refused_is_told_when_to_come_back(hands):
    limiter = Limiter(Limit(rate=4, burst=1))
    assert limiter.enter() == 0
    limiter.leave()
    wait = limiter.enter()
    assert wait == pytest.approx(0.25)
    hands.now += wait - 0.01
    assert limiter.enter() > 0
    hands.now += 0.01
    assert limiter.enter() == 0


def test_the_rate_counts_over_time(hands):
    limiter = Limiter(Limit(rate=10, burst=10))
    passed = 0
    for _ in range(1000):
        passed += passes(limiter)
        hands.now += 0.01
    assert 100 <= passed <= 111  # ten seconds at ten a second, and the burst


def test_a_long_silence_saves_up_no_more_than_a_burst(hands):
    limiter = Limiter(Limit(rate=100, burst=2))
    hands.now += 3600
    assert [passes(limiter) for _ in range(3)] == [True, True, False]


def test_no_more_calls_run_at_once_than_may(hands):
    limiter = Limiter(Limit(at_once=2))
    assert limiter.enter() == 0
    assert limiter.enter() == 0
    assert limiter.enter() > 0
    limiter.leave()
    assert limiter.enter() == 0


def test_a_call_refused_for_the_number_at_once_costs_nothing(hands):
    limiter = Limiter(Limit(rate=0.001, burst=2, at_once=1))
    assert limiter.enter() == 0
    for _ in range(10):
        assert limiter.enter() > 0
    limiter.leave()
    assert passes(limiter)
    assert not passes(limiter)


def test_the_wait_is_never_nothing_even_for_the_highest_rate(hands):
    limiter = Limiter(Limit(rate=1e12, burst=1))
    assert passes(limiter)
    assert limiter.enter() >= 0.001


def test_one_busy_client_stays_below_the_defaults():
    """256 at once and a burst of 100,000 are above what one busy client needs."""
    limiter = Limiter(Limit())
    assert all(limiter.enter() == 0 for _ in range(256))
    assert limiter.enter() > 0
    for _ in range(256):
        limiter.leave()
    assert all(passes(limiter) for _ in range(10_000))


@pytest.mark.parametrize(
    "wrong", [{"rate": 0}, {"rate": -1.0}, {"burst": 0}, {"burst": -5}, {"at_once": 0}, {"at_once": -1}]
)
def test_a_limit_that_lets_nothing_through_is_refused_where_it_is_written(wrong):
    with pytest.raises(ValueError, match="above zero"):
        Limit(**wrong)


def test_many_threads_together_get_no_more_than_the_limit():
    limiter = Limiter(Limit(rate=0.0001, burst=500, at_once=4))
    running, most, passed = [0], [0], [0]
    count = threading.Lock()
    begin = threading.Barrier(8)

    def call():
        begin.wait(PATIENCE)
        for _ in range(200):
            if limiter.enter():
                continue
            with count:
                running[0] += 1
                passed[0] += 1
                most[0] = max(most[0], running[0])
            with count:
                running[0] -= 1
            limiter.leave()

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert most[0] <= 4
    assert 0 < passed[0] <= 500


@settings(deadline=None)
@given(
    st.floats(0.1, 1000),
    st.integers(1, 50),
    st.integers(1, 10),
    st.lists(st.sampled_from(["enter", "leave"]) | st.floats(0, 2), max_size=80),
)
def test_whatever_happens_the_two_limits_hold(rate, burst, at_once, events):
    hands = Hands()
    real, limits.time = limits.time, hands
    try:
        limiter = Limiter(Limit(rate=rate, burst=burst, at_once=at_once))
        running = entered = 0
        start = hands.now
        for event in events:
            if event == "enter":
                wait = limiter.enter()
                assert wait >= 0
                entered += wait == 0
                running += wait == 0
            elif event == "leave":
                if running:
                    limiter.leave()
                    running -= 1
            else:
                hands.now += event
            assert running <= at_once
            assert entered <= burst + (hands.now - start) * rate + 1e-6
    finally:
        limits.time = real


def test_what_has_no_end_counts_by_rate_alone(hands):
    limiter = Limiter(Limit(rate=2, burst=3, at_once=1))
    assert [limiter.take() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert limiter.take() == pytest.approx(0.5)
    hands.now += 0.5
    assert limiter.take() == 0.0
    hands.now += 0.5
    assert limiter.enter() == 0.0  # nothing that was taken is still running


# -- of principals ---------------------------------------------------------------------------------


def test_the_limits_of_the_least_recent_principals_are_forgotten(monkeypatch):
    monkeypatch.setattr(limits, "MAX_PRINCIPALS", 3)
    limiters = limits.Limiters(Limit(rate=0.001, burst=1))
    first = limiters.of("a")
    assert first.enter() == 0
    assert limiters.of("a") is first
    for name in "bc":
        limiters.of(name)
    assert limiters.of("a") is first  # used again, and so not the least recent
    limiters.of("d")
    assert limiters.of("a") is first
    assert limiters.of("b") is not None
    assert len(limiters._by_principal) == 3


def test_in_a_forked_child_no_lock_of_the_parents_is_waited_for():
    limiters = limits.Limiters(Limit())
    limiter = limiters.of("a")
    with limiters._lock, limiter._lock:
        limiters.forked()
        assert not limiters._lock.locked()
        assert not limiter._lock.locked()
        assert limiters.of("a") is not limiter
