"""runtime/typing/parts: all faults of all parts are gathered, each with its place."""

import dataclasses
import enum

import jsonschema
import pytest
from conversions import doubled, integer, told
from hypothesis import given, settings
from kinds import json_values

from mcp_ref.runtime.typing import codec, parts
from mcp_ref.runtime.typing.alternatives import choice
from mcp_ref.runtime.typing.codec import same
from mcp_ref.runtime.typing.mismatch import MAX_FAULTS, Mismatch, must


def test_same():
    thing = object()
    assert same(thing) is thing


def test_each():
    assert parts.convert_each(doubled, [1, 2]) == [2, 4]
    assert told(parts.convert_each, doubled, ["a", 1, None]) == (
        "[0]: must be an integer, not 'a'; [2]: must be an integer, not null"
    )


def test_each_stops_at_a_hundred_faults():
    tried = []

    def refuse(value):
        tried.append(value)
        raise must("be gone", value)

    told(parts.convert_each, refuse, list(range(5000)))
    assert len(tried) == MAX_FAULTS


def test_row():
    assert parts.convert_row([integer, str], [1, 2]) == [1, "2"]
    assert told(parts.convert_row, [integer, integer], ["a", "b"]).count("must be an integer") == 2


def test_members():
    assert parts.convert_members(str.upper, doubled, {"a": 1}) == {"A": 2}
    assert told(parts.convert_members, integer, integer, {"a": 1, 2: "x"}) == (
        "a: must be an integer, not 'a'; [2]: must be an integer, not 'x'"
    )
    with pytest.raises(Mismatch) as caught:
        parts.convert_members(integer, integer, {f"k{n}": 1 for n in range(5000)})
    assert len(caught.value.faults) == MAX_FAULTS


def test_all_different():
    parts.check_different([1, True, "1", [1], {"a": 1}, 0, False, None])
    for twice in ([1, 1.0], [[1, {"a": 2}], [1, {"a": 2}]], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]):
        assert told(parts.check_different, twice) == "must hold no item twice, not an array of 2"


@settings(deadline=None, max_examples=200)
@given(json_values, json_values)
def test_identity_is_what_json_schema_calls_equal(one, other):
    for a, b in ((one, other), (one, one)):
        assert (parts.equality_key(a) == parts.equality_key(b)) == (
            jsonschema.Draft202012Validator({"const": a}).is_valid(b)
        )


# ----------------------------------------------------------------------------- objects


@dataclasses.dataclass
class Pair:
    a: int
    b: int = 0

    def __post_init__(self):
        if self.b < 0:
            raise ValueError("b is below zero")


LOADS = {"a": integer, "b": integer}


def test_object_loader_makes_the_object():
    load = parts.object_loader(LOADS, ["a"], [], Pair, True)
    assert load({"a": 1}) == Pair(1)
    assert told(load, []) == "must be an object, not an array of 0"
    assert told(load, {"b": "x", "c": 1}) == (
        "b: must be an integer, not 'x'; c: is not known here; known: a, b; a: is required"
    )
    assert told(load, {"a": 1, "b": -1}) == "b is below zero"


def test_a_subclass_of_dict_is_an_object_too():
    """What `call_tool` returns is one."""

    class Result(dict):
        pass

    assert parts.object_loader(LOADS, ["a"], [], dict, False)(Result(a=1)) == {"a": 1}


def test_object_loader_of_no_members():
    assert told(parts.object_loader({}, [], [], dict, True), {"a": 1}) == "a: is not known here; known: none"


def test_a_constant_that_is_another_one_ends_the_matter():
    """Nothing else of the object is looked at: it was meant for another shape."""

    def never(value):
        raise AssertionError("looked at")

    kind = choice(["cat"]).load
    load = parts.object_loader({"kind": kind, "lives": never}, ["lives"], ["kind"], dict, True)
    assert told(load, {"lives": 9, "kind": "dog"}) == "kind: must be 'cat', not 'dog'"
    assert told(load, {}) == "lives: is required"


@pytest.mark.parametrize("problem", [TypeError("no"), RuntimeError(), KeyError("k")])
def test_whatever_the_constructor_raises_is_a_fault_of_the_value(problem):
    def make(**members):
        raise problem

    assert told(parts.object_loader({}, [], [], make, True), {}) == (str(problem) or "RuntimeError")


def test_an_open_object_keeps_the_unknown():
    load = parts.object_loader(LOADS, [], [], dict, False)
    given = {"a": 1, "more": [None]}
    assert load(given) == given
    assert load(given) is not given


def test_many_unknown_members_are_told_in_short():
    with pytest.raises(Mismatch) as caught:
        parts.object_loader(LOADS, [], [], dict, True)({f"k{n}": 1 for n in range(5000)})
    assert len(caught.value.faults) == MAX_FAULTS


def test_object_dumper():
    dump = parts.object_dumper(LOADS, ["a"], Pair, None)
    assert dump(Pair(1, 2)) == {"a": 1, "b": 2}
    assert dump({"a": 1}) == {"a": 1}
    assert told(dump, Pair("x")) == "a: must be an integer, not 'x'"
    assert told(dump, {"c": 1}) == "c: is not known here; known: a, b; a: is required"
    assert told(dump, enum.Enum("Other", {"a": 1})).startswith("must be a Pair, not ")


def test_object_dumper_with_a_way_to_dump_the_rest():
    dump = parts.object_dumper(LOADS, [], dict, doubled)
    assert dump({"a": 1, "c": 4}) == {"a": 1, "c": 8}
    assert told(dump, 5) == "must be an object, not 5"
    assert told(dump, {5: 5}) == "[5]: a key of a JSON object is a string, not 5"


# -------------------------------------------------------------------------------- maps


def test_a_map_of_anything_is_copied_as_it_is():
    load, value = parts.map_loader(codec.scalar_of(str).load, same), {"a": [1], "b": None}
    assert load(value) == value
    assert load(value) is not value
    assert told(load, {"a": 1, 2: 3}) == "[2]: must be a string, not 2"
    assert told(load, [1]) == "must be an object, not an array of 1"


def test_two_keys_that_become_one_are_a_fault():
    assert told(parts.map_loader(str, integer), {"1": 1, 1: 2}) == "[1]: is the same key as another one"


def test_members_of_the_right_type_are_taken_without_a_call():
    loads = {"a": codec.scalar_of(int).load, "b": codec.scalar_of(str).load}
    load = parts.object_loader(loads, ["a"], [], dict, True)
    assert load({"a": 1, "b": "x"}) == {"a": 1, "b": "x"}
    assert load({"a": 1.0}) == {"a": 1}
    assert told(load, {"a": "x", "b": 5}) == "a: must be an integer, not 'x'; b: must be a string, not 5"
