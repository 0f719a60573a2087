"""runtime/threads/places: so many calls and streams, and no more; turns in the order of asking."""

import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from peers import PATIENCE, eventually, nothing_left

from mcp_ref.runtime.threads import places as module
from mcp_ref.runtime.threads.places import NoPlace, Places


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def made(running=10, waiting=10, streams=10, threads=None):
    return Places(running=running, waiting=waiting, streams=streams, threads=threads)


def wanted():
    return True


def is_refused(enter, *arguments):
    try:
        enter(*arguments)
    except NoPlace as problem:
        assert problem.seconds > 0
        assert f"retry in {problem.seconds} s" in str(problem)
        return True
    return False


class Caller:
    """A call on a thread of its own, which waits for its turn."""

    def __init__(self, places, is_wanted=wanted):
        self.problem = None
        self.runs = threading.Event()
        self.thread = threading.Thread(target=self._enter, args=(places, is_wanted))
        self.thread.start()

    def _enter(self, places, is_wanted):
        try:
            places.enter_call(is_wanted)
        except NoPlace as problem:
            self.problem = problem
        else:
            self.runs.set()

    def ended(self):
        self.thread.join(PATIENCE)
        return not self.thread.is_alive()


def in_line(places, count, *arguments):
    """So many callers that wait, the first in line first."""
    callers = []
    for _ in range(count):
        before = places.taken
        callers.append(Caller(places, *arguments))
        assert eventually(lambda: places.taken == before + 1)  # noqa: B023
    return callers


# ------------------------------------------------------------------------------------ calls


def test_as_many_as_may_run_begin_at_once():
    places = made(running=3)
    for _ in range(3):
        places.enter_call(wanted)
    assert places.taken == 3
    for _ in range(3):
        places.leave_call()
    assert places.taken == 0


def test_turns_are_handed_over_in_the_order_of_asking():
    places = made(running=1)
    places.enter_call(wanted)
    callers = in_line(places, 3)
    for number, caller in enumerate(callers):
        assert not any(each.runs.is_set() for each in callers[number:])
        places.leave_call()
        assert caller.runs.wait(PATIENCE)
        assert caller.ended()
    places.leave_call()
    assert places.taken == 0


def test_who_comes_later_does_not_overtake_those_who_wait():
    places = made(running=1)
    places.enter_call(wanted)
    first, second = in_line(places, 2)
    places.leave_call()  # the place is the first one's by now, whether it runs yet or not
    third = Caller(places)
    assert first.runs.wait(PATIENCE)
    assert not second.runs.is_set()
    assert eventually(lambda: places.taken == 3)
    for caller in (second, third):
        places.leave_call()
        assert caller.runs.wait(PATIENCE)
    places.leave_call()
    assert (places.taken, all(each.ended() for each in (first, second, third))) == (0, True)


def test_more_than_may_wait_are_refused_at_once():
    places = made(running=1, waiting=2)
    places.enter_call(wanted)
    callers = in_line(places, 2)
    begun = time.monotonic()
    with pytest.raises(NoPlace, match="1 calls run, and 2 wait, which is the limit") as refused:
        places.enter_call(wanted)
    assert (refused.value.seconds, time.monotonic() - begun < PATIENCE / 2) == (1, True)
    for caller in callers:
        places.leave_call()
        assert caller.runs.wait(PATIENCE)
    places.leave_call()
    assert places.taken == 0


def test_a_turn_that_does_not_come_in_time_is_refused_and_leaves_the_line(monkeypatch):
    monkeypatch.setattr(module, "TURN_SECONDS", 0.05)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    places = made(running=1)
    places.enter_call(wanted)
    caller = Caller(places)
    assert caller.ended()
    assert "1 calls run, which is the limit" in str(caller.problem)
    assert places.taken == 1
    places.leave_call()
    places.enter_call(wanted)  # the one that gave up has taken no place with it
    places.leave_call()
    assert places.taken == 0


def test_a_call_that_is_not_wanted_any_more_leaves_the_line(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    places, is_wanted = made(running=1), threading.Event()
    is_wanted.set()
    places.enter_call(wanted)
    leaves, stays = *in_line(places, 1, is_wanted.is_set), *in_line(places, 1)
    is_wanted.clear()
    assert leaves.ended()
    assert leaves.problem is not None
    places.leave_call()
    assert stays.runs.wait(PATIENCE)
    places.leave_call()
    assert (places.taken, stays.ended()) == (0, True)


def test_a_turn_that_comes_while_it_is_given_up_is_taken(monkeypatch):
    """No place is lost between the two."""
    places = made(running=1)
    places.enter_call(wanted)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)

    def is_wanted():
        places.leave_call()  # just now
        return False

    places.enter_call(is_wanted)
    assert places.taken == 1
    places.leave_call()
    assert places.taken == 0


def test_a_thousand_calls_on_many_threads_are_never_more_than_may_run():
    places, running, most, count = made(running=3, waiting=100), set(), [], threading.Lock()

    def call():
        for number in range(50):
            places.enter_call(wanted)
            with count:
                running.add((threading.get_ident(), number))
                most.append(len(running))
            threading.Event().wait(0.0001)
            with count:
                running.discard((threading.get_ident(), number))
            places.leave_call()

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
        assert not thread.is_alive()
    assert len(most) == 1000
    assert max(most) <= 3
    assert places.taken == 0


# ------------------------------------------------------------------------------------ streams


def test_streams_have_a_number_of_their_own_and_do_not_wait():
    places = made(running=1, streams=2)
    places.enter_stream()
    places.enter_stream()
    with pytest.raises(NoPlace, match="2 streams are open, which is the limit; retry in 5 s"):
        places.enter_stream()
    places.enter_call(wanted)
    assert (places.taken, places.streams) == (3, 2)
    places.leave_stream()
    places.enter_stream()
    assert places.streams == 2


# ------------------------------------------------------------------------------------ threads


@pytest.mark.parametrize(
    ("threads", "longs", "let_in"),
    [
        (None, [True, False] * 5, [True] * 10),
        (1, [False] * 3, [True] * 3),
        (1, [True], [False]),
        (2, [False, False], [True, False]),
        (2, [True, False], [True, False]),
        (3, [True, True], [True, False]),
        (3, [True, False, False], [True, True, False]),
        (5, [True] * 4, [True, True, True, False]),
        (5, [True, True, True, False, False], [True, True, True, True, False]),
        (5, [False] * 5, [True] * 4 + [False]),
    ],
)
def test_one_thread_stays_for_answers_and_one_for_calls_that_streams_do_not_get(threads, longs, let_in):
    places = made(threads=threads)
    found = [
        not (is_refused(places.enter_stream) if is_long else is_refused(places.enter_call, wanted))
        for is_long in longs
    ]
    assert found == let_in


def test_a_thread_that_waits_is_taken_as_well():
    places = made(running=1, threads=3)
    places.enter_call(wanted)
    [caller] = in_line(places, 1)
    with pytest.raises(NoPlace, match="2 of 3 threads are taken; retry in 1 s"):
        places.enter_call(wanted)
    places.leave_call()
    assert caller.runs.wait(PATIENCE)
    assert caller.ended()


def test_who_is_over_makes_room():
    places = made(threads=2)
    places.enter_call(wanted)
    assert is_refused(places.enter_call, wanted)
    places.leave_call()
    assert not is_refused(places.enter_call, wanted)


def test_a_forked_child_has_all_places_free():
    places = made(running=1)
    places.enter_call(wanted)
    places.enter_stream()
    with places._lock:  # held for ever, by a thread that the child does not have
        places.forked()
        assert places.taken == 0
        places.enter_call(wanted)


class Model(RuleBasedStateMachine):
    """Whatever comes and goes: what is let in is what the limits say."""

    @initialize(running=st.integers(1, 4), streams=st.integers(0, 4), threads=st.none() | st.integers(2, 8))
    def begin(self, running, streams, threads):
        self.limits = running, streams, threads
        self.places = made(running=running, waiting=0, streams=streams, threads=threads)
        self.calls = self.streams = 0

    def has_threads(self, free):
        threads = self.limits[2]
        return threads is None or self.calls + self.streams + free < threads

    @rule()
    def call(self):
        may = self.calls < self.limits[0] and self.has_threads(1)
        assert is_refused(self.places.enter_call, wanted) is not may
        self.calls += may

    @rule()
    def stream(self):
        may = self.streams < self.limits[1] and self.has_threads(1 if self.limits[2] == 2 else 2)
        assert is_refused(self.places.enter_stream) is not may
        self.streams += may

    @rule()
    def end_call(self):
        if self.calls:
            self.places.leave_call()
            self.calls -= 1

    @rule()
    def end_stream(self):
        if self.streams:
            self.places.leave_stream()
            self.streams -= 1

    def teardown(self):
        assert self.places.taken == self.calls + self.streams


TestWhateverComesAndGoesWhatIsLetInIsWhatTheLimitsSay = Model.TestCase
TestWhateverComesAndGoesWhatIsLetInIsWhatTheLimitsSay.settings = settings(max_examples=60, deadline=None)
