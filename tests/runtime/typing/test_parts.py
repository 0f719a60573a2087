"""runtime/typing/parts: all faults of all parts are gathered, each with its place."""

import dataclasses
import enum
import re

import jsonschema
import pytest
from hypothesis import given, settings
from kinds import json_values

from mcp_ref.runtime.typing import parts
from mcp_ref.runtime.typing.budget import Exhausted
from mcp_ref.runtime.typing.codec import same
from mcp_ref.runtime.typing.mismatch import MAX_FAULTS, Mismatch, must


def integer(value):
    if type(value) is int:
        return value
    raise must("be an integer", value)


def doubled(value):
    return integer(value) * 2


def told(convert, *args):
    with pytest.raises(Mismatch) as caught:
        convert(*args)
    return str(caught.value)


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

    kind = parts.choice(["cat"]).load
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


# -------------------------------------------------------------------- alternatives, choices


def test_first_takes_the_first_that_fits():
    assert parts.first([doubled, same], 2, "") == 4
    assert parts.first([doubled, same], "a", "") == "a"


def test_first_complains_for_the_alternative_that_was_meant():
    def cat(value):
        raise Mismatch.all([must("be 'cat'", "dog", another_kind=True).under("kind")])

    def dog(value):
        raise must("be an integer", "x").under("legs")

    def kitten(value):
        raise Mismatch.all([must("be an integer", "x").under("legs"), must("be small", 9).under("age")])

    assert told(parts.first, [integer, cat, dog], {}, "a pet") == "legs: must be an integer, not 'x'"
    assert told(parts.first, [kitten, dog], {}, "a pet") == "legs: must be an integer, not 'x'"
    assert told(parts.first, [integer, cat], {}, "a pet") == "kind: must be 'cat', not 'dog'"
    assert told(parts.first, [integer, integer], {}, "a pet") == "must be a pet, not an empty object"


def test_alternatives_within_alternatives_end():
    """2 ** 40 ways to be wrong: given up after MAX_ALTERNATIVES, and not told as if it were one of them."""

    def deeper(level):
        def convert(value):
            return parts.first([deeper(level + 1)] * 2 if level < 40 else [integer], value, "an integer")

        return convert

    with pytest.raises(Exhausted, match="given up: it takes more than 20,000 alternatives"):
        deeper(0)("x")
    assert parts.first([integer, str], 5.5, "a number") == "5.5"
    assert told(parts.first, [integer], "x", "an integer") == "must be an integer, not 'x'"


class Answer(enum.Enum):
    YES = "yes"
    NO = 0


def test_a_choice_of_constants():
    codec = parts.choice(["a", 1, None])
    assert codec.schema == {"enum": ["a", 1, None]}
    assert [codec.load(v) for v in ("a", 1, 1.0, None)] == ["a", 1, 1, None]
    assert told(codec.load, True) == "must be one of 'a', 1, null, not true"
    assert told(codec.load, {"a": 1}) == "must be one of 'a', 1, null, not an object"
    assert told(codec.dump, "b") == "must be one of 'a', 1, null, not 'b'"


def test_one_constant():
    codec = parts.choice(["a"])
    assert codec.schema == {"type": "string", "const": "a"}
    assert codec.says == "'a'"


def test_an_enum():
    codec = parts.choice(Answer)
    assert codec.schema == {"enum": ["yes", 0]}
    assert codec.load("yes") is Answer.YES
    assert codec.load(0) is Answer.NO
    assert told(codec.load, False) == "must be one of 'yes', 0, not false"
    assert codec.dump(Answer.NO) == 0
    assert codec.dump("yes") == "yes"


def test_members_of_an_enum_as_constants():
    codec = parts.choice([Answer.YES])
    assert codec.load("yes") is Answer.YES
    assert codec.dump(Answer.YES) == "yes"


def test_a_choice_that_json_has_not():
    with pytest.raises(TypeError, match=re.escape("must be a JSON constant, not b'x'")):
        parts.choice([b"x"])


@pytest.mark.parametrize("values", [[], [float("nan")], [float("inf")], [b"bytes"]])
def test_a_choice_is_of_json_constants_and_of_one_at_least(values):
    with pytest.raises(TypeError, match="a choice"):
        parts.choice(values)
