"""runtime/typing/mismatch: a fault is told with its place and its cause, in few words."""

import contextlib
import doctest
import gc
import re
import weakref
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.runtime.typing import mismatch
from mcp_ref.runtime.typing.mismatch import MAX_FAULTS, Mismatch, message_of, must, place, summary
from mcp_ref.runtime.typing.values import Compiler


def test_the_example_in_the_docstring():
    assert doctest.testmod(mismatch).failed == 0


def test_a_fault_names_rule_value_and_place():
    problem = must("be an integer", "x").under("age").under(3).under("people")
    assert str(problem) == "people[3].age: must be an integer, not 'x'"
    assert problem.faults == [(("people", 3, "age"), "must be an integer, not 'x'")]
    assert isinstance(problem, ValueError)


def test_the_value_itself_has_no_place():
    assert str(must("be null", 0)) == "must be null, not 0"


def test_several_faults_are_told_together():
    both = Mismatch.all([must("be null", 1).under("a"), must("be null", 2).under("b")])
    assert str(both.under("c")) == "c.a: must be null, not 1; c.b: must be null, not 2"


@pytest.mark.parametrize(
    ("count", "end"),
    [(10, "not 9"), (11, "; and 1 more"), (MAX_FAULTS, f"; and {MAX_FAULTS - 10} more at least")],
)
def test_a_long_list_is_cut(count, end):
    problem = Mismatch.all(must("be null", n).under(n) for n in range(count))
    assert str(problem).endswith(end)
    assert str(problem).count("must be") == 10


def test_no_more_faults_are_kept_than_anybody_reads():
    some = [Mismatch.all(must("be null", 1).under(n) for n in range(60)) for _ in range(3)]
    assert len(Mismatch.all(some).faults) == MAX_FAULTS


def test_a_wrong_constant_tells_of_another_kind_one_level_up_and_no_further():
    wrong = must("be 'a'", "b", another_kind=True)
    assert wrong.is_another_kind
    assert wrong.under("kind").is_another_kind
    assert Mismatch.all([must("be null", 1), wrong]).is_another_kind
    assert not Mismatch.all([wrong, must("be null", 1)]).under("item").is_another_kind
    assert not must("be null", 1).is_another_kind


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("a",), "a: "),
        ((0,), "[0]: "),
        (("a", 0, "b"), "a[0].b: "),
        (("$ref", "x/y", "a-b"), "$ref.x/y.a-b: "),
        (("two words",), "['two words']: "),
        (("",), "['']: "),
        (("a\nb", "c"), "['a\\nb'].c: "),
        (("k" * 101,), f"['{'k' * 37}...']: "),
    ],
)
def test_places(path, text):
    assert place(path) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (1.5, "1.5"),
        ("a", "'a'"),
        ("x" * 41, "'" + "x" * 37 + "...'"),
        ("line\nbreak", "'line\\nbreak'"),
        ({}, "an empty object"),
        ({"a": 1}, "an object"),
        ([], "an array of 0"),
        ([1, 2], "an array of 2"),
        (10**40, "a very long number"),
        (tuple(range(100)), "a tuple"),
    ],
)
def test_values_are_shown_in_short(value, text):
    assert summary(value) == text


def test_an_integer_too_long_to_be_written_is_shown_too():
    assert summary(-(10**5000)) == "a very long number"


def test_what_an_exception_says_whatever_its_author_made_of_it():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert message_of(ValueError("why")) == "why"
    assert message_of(ValueError()) == "ValueError"
    assert message_of(Mute()) == "Mute"
    assert message_of(ValueError("half a \ud800 character")) == "half a \\ud800 character"


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text() | st.integers(0, 99), max_size=4), st.text() | st.integers() | st.floats())
def test_a_message_is_one_short_line_whatever_the_peer_sent(path, value):
    problem = must("be null", value)
    for key in path:
        problem.under(key)
    assert len(str(problem)) < 700
    assert not re.search(r"[\x00-\x1f]", str(problem))


def test_a_fault_that_is_kept_refers_to_no_frame():
    try:
        try:
            {}["x"]
        except KeyError:
            raise must("be there", 1) from None
    except Mismatch as problem:
        kept = problem.without_frames()
    assert (kept.__traceback__, kept.__context__, kept.__cause__) == (None, None, None)
    assert str(kept) == "must be there, not 1"


@pytest.mark.parametrize("hint", [int | list[int], list[int], dict[str, int], Literal["a", "b"] | int])
@pytest.mark.parametrize("value", [[1, "x"], "x", {"a": "b"}, 1])
def test_what_a_caller_has_is_not_kept_by_a_value_that_does_not_fit(hint, value):
    """Nor by one that fits the second of two alternatives: without the collector of garbage, it is gone."""

    class Mine:
        pass

    def call():
        mine = Mine()
        with contextlib.suppress(Mismatch):
            load(value)
        return weakref.ref(mine)

    load = Compiler().codec(hint).load
    gc.disable()
    try:
        assert call()() is None
    finally:
        gc.enable()
