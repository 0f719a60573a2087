"""runtime/typing/budget: a validation that would take for ever is given up."""

import itertools
import math
import threading
import types

import pytest

from mcp_ref.runtime.typing import budget as module
from mcp_ref.runtime.typing.budget import Exhausted, budget
from mcp_ref.runtime.typing.mismatch import Mismatch


def test_so_many_steps_are_taken_and_no_more():
    with budget().limited(2):
        budget().spend(1)
        budget().spend(1)
        budget().spend()
        with pytest.raises(Exhausted, match=r"^validation was given up: it takes more than 2 alternatives"):
            budget().spend(1)


def test_what_was_given_up_is_a_fault_of_the_value():
    assert issubclass(Exhausted, Mismatch)
    assert Exhausted("why").reason == "why"


def test_a_validation_within_another_has_the_budget_of_the_outermost():
    with budget().limited(2):
        for _ in range(2):
            with budget().limited(100):
                budget().spend(1)
        with pytest.raises(Exhausted), budget().limited(100):
            budget().spend(1)
    with budget().limited(1):
        budget().spend(1)


def test_between_two_validations_there_are_no_limits():
    with budget().limited(0, 0.0), pytest.raises(Exhausted):
        budget().spend(1)
    budget().spend(1)
    budget().spend()


def test_each_thread_has_its_own():
    with budget().limited(0):
        spent = []
        other = threading.Thread(target=lambda: [budget().spend(1), spent.append(1)])
        other.start()
        other.join()
        assert spent == [1]


@pytest.mark.parametrize(("work", "is_given_up"), [(0.01, False), (1.0, True)])
def test_seconds_are_of_work_and_not_of_the_clock(monkeypatch, work, is_given_up):
    """Each look at the clock is a minute after the last: the machine is busy with something else."""
    clock, worked = itertools.count(step=60.0), itertools.count(step=work)
    stand_in = types.SimpleNamespace(monotonic=lambda: next(clock), thread_time=lambda: next(worked))
    monkeypatch.setattr(module, "time", stand_in)
    with budget().limited(math.inf, 5.0):
        if not is_given_up:
            for _ in range(20):
                budget().spend()
        else:
            with pytest.raises(Exhausted, match=r"it takes longer than 5\.0 seconds"):
                for _ in range(20):
                    budget().spend()
