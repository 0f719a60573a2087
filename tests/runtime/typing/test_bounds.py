"""runtime/typing/bounds: limits are in the schema, and kept on the way in and on the way out."""

import dataclasses
import datetime
import decimal
import types
import typing
from typing import Annotated, Any, Literal, TypedDict

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Compiler

Plain = jsonschema.Draft202012Validator
Other = types.SimpleNamespace
"""An object of the annotated-types package, as far as we look at one."""


def codec(hint, mark):
    made = Compiler().codec(Annotated[hint, mark])
    Plain.check_schema(made.schema)
    return made


@pytest.mark.parametrize(
    ("hint", "mark", "keywords", "good", "bad", "said"),
    [
        (int, Bounds(ge=3), {"minimum": 3}, [3, 4.0], [2, 2.0], "must be at least 3, not 2"),
        (int, Bounds(gt=3), {"exclusiveMinimum": 3}, [4], [3], "must be more than 3, not 3"),
        (float, Bounds(le=1), {"maximum": 1}, [1, 0.5], [1.5], "must be at most 1, not 1.5"),
        (float, Bounds(lt=1), {"exclusiveMaximum": 1}, [0.5], [1, 1.0], "must be less than 1, not 1"),
        (int, Bounds(multiple_of=5), {"multipleOf": 5}, [0, 10], [3], "must be a multiple of 5, not 3"),
        (str, Bounds(min_length=1), {"minLength": 1}, ["a"], [""], "must be at least 1 long, not ''"),
        (str, Bounds(max_length=2), {"maxLength": 2}, ["aé", "😀😀"], ["abc"], "at most 2 long, not 'abc'"),
        (str, Bounds(pattern="^a"), {"pattern": "^a"}, ["ab"], ["ba"], "must match ^a, not 'ba'"),
        (list[int], Bounds(min_length=1), {"minItems": 1}, [[1]], [[]], "be at least 1 long, not an array"),
        (set[int], Bounds(max_length=1), {"maxItems": 1}, [[1]], [[1, 2]], "be at most 1 long"),
        (tuple[int, ...], Bounds(max_length=1), {"maxItems": 1}, [[1]], [[1, 2]], "be at most 1 long"),
        (dict[str, int], Bounds(min_length=1), {"minProperties": 1}, [{"a": 1}], [{}], "at least 1 long"),
        (Literal[1, 5], Bounds(ge=2), {"minimum": 2}, [5], [1], "must be at least 2, not 1"),
        (int, Other(ge=3), {"minimum": 3}, [3], [2], "must be at least 3"),
        (
            str,
            Other(min_length=1, max_length=2),
            {"minLength": 1, "maxLength": 2},
            ["a"],
            [""],
            "at least 1 long",
        ),
        (
            int,
            Other(gt=0, le=5),
            {"exclusiveMinimum": 0, "maximum": 5},
            [5],
            [0],
            "more than 0",
        ),
    ],
)
def test_each_bound(hint, mark, keywords, good, bad, said):
    made = codec(hint, mark)
    assert keywords.items() <= made.schema.items()
    for value in good:
        made.load(value)
        assert Plain(made.schema).is_valid(value)
    for value in bad:
        with pytest.raises(Mismatch, match=said.replace("^", r"\^")):
            made.load(value)
        assert not Plain(made.schema).is_valid(value)


@pytest.mark.parametrize(
    ("hint", "mark", "good", "bad"),
    [
        (int, Bounds(ge=3), 3, 2),
        (str, Bounds(max_length=1), "a", "ab"),
        (set[int], Bounds(max_length=1), {1}, {1, 2}),
        (bytes, Bounds(max_length=4), b"abc", b"abcd"),
    ],
)
def test_a_result_is_tested_as_well(hint, mark, good, bad):
    made = codec(hint, mark)
    made.dump(good)
    with pytest.raises(Mismatch):
        made.dump(bad)


def test_a_format_is_named_and_not_tested():
    made = codec(str, Bounds(format="uri"))
    assert made.schema == {"type": "string", "format": "uri"}
    assert made.load("not a uri") == "not a uri"


def test_an_object_that_only_looks_like_a_bound():
    class Mark:
        def format(self):
            return "text"

    assert codec(str, Mark()).schema == {"type": "string"}


# ---------------------------------------------------------- values of several kinds


class Node(TypedDict, total=False):
    next: "Node"


@pytest.mark.parametrize(
    ("hint", "keywords"),
    [
        (str | None, {"minLength": 2}),
        (str | list[str], {"minLength": 2, "minItems": 2}),
        (typing.Optional[list[int]], {"minItems": 2}),  # noqa: UP045
        (str | dict[str, int] | list[int], {"minLength": 2, "minItems": 2, "minProperties": 2}),
        (Any, {"minLength": 2, "minItems": 2, "minProperties": 2}),
        (Literal["a", "abc", 1], {"minLength": 2, "minItems": 2, "minProperties": 2}),
    ],
)
def test_the_length_of_each_kind_has_its_keyword(hint, keywords):
    made = codec(hint, Bounds(min_length=2))
    found = {k: v for k, v in made.schema.items() if k.startswith("min")}
    assert found == keywords
    for value in (None, "a", "abc", [], ["a"], ["a", "b"], {}, {"a": 1}, {"a": 1, "b": 2}, 1):
        try:
            made.load(value)
        except Mismatch:
            assert not Plain(made.schema).is_valid(value)
        else:
            assert Plain(made.schema).is_valid(value)


def test_bounds_on_a_type_that_holds_itself():
    compiler = Compiler()
    made = compiler.codec(Annotated[Node, Bounds(min_length=1)])
    assert made.schema["minProperties"] == 1
    made.load({"next": {}})
    with pytest.raises(Mismatch, match="at least 1 long"):
        made.load({})


def test_of_two_bounds_both_hold():
    made = codec(Annotated[int, Bounds(ge=5)], Bounds(ge=0))
    assert made.schema == {"type": "integer", "minimum": 5, "allOf": [{"minimum": 0}]}
    with pytest.raises(Mismatch):
        made.load(3)
    assert codec(Annotated[int, Bounds(ge=5)], Bounds(ge=5, le=9)).schema == {
        "type": "integer",
        "minimum": 5,
        "maximum": 9,
    }


def test_a_decimal_is_compared_as_a_number():
    """No schema can say so of its string; a sum of money below zero must not pass for that."""
    made = codec(decimal.Decimal, Bounds(gt=0, multiple_of=0.01))
    assert made.load("0.10") == decimal.Decimal("0.10")
    assert made.dump(decimal.Decimal("0.10")) == "0.10"
    for bad in ("-5", "0", "0.001", 0, -5):
        with pytest.raises(Mismatch):
            made.load(bad)
    with pytest.raises(Mismatch, match="more than 0"):
        made.dump(decimal.Decimal(-1))
    with pytest.raises(Mismatch):
        codec(decimal.Decimal | None, Bounds(gt=0)).load("-5")


# ------------------------------------------------------------------ the author's mistakes


@pytest.mark.parametrize(
    ("hint", "mark", "said"),
    [
        (str, Bounds(ge=0), "ge=0 means nothing for a string"),
        (int, Bounds(min_length=1), "min_length=1 means nothing for an integer"),
        (list[str], Bounds(pattern="a"), "pattern='a' means nothing for an array"),
        (datetime.date, Bounds(ge=datetime.date(2026, 1, 1)), "means nothing for a date"),
        (int, Bounds(ge="0"), "ge='0' is not a number"),
        (int, Bounds(ge=True, le=98765), "ge=True is not a number"),
        (float, Bounds(le=float("nan")), "le=nan is not a number"),
        (int, Bounds(multiple_of=0), "multiple_of=0 is too small"),
        (str, Bounds(max_length=-1), "max_length=-1 is too small"),
        (str, Bounds(pattern="("), "'\\(' is not a pattern"),
        (str, Bounds(pattern=5), "5 is not a pattern"),
    ],
)
def test_a_bound_that_means_nothing_is_a_type_error(hint, mark, said):
    with pytest.raises(TypeError, match=said):
        codec(hint, mark)


def test_bounds_are_values():
    assert Bounds(ge=0) == Bounds(ge=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Bounds(ge=0).ge = 1


@settings(deadline=None, max_examples=200)
@given(
    st.integers(-20, 20) | st.floats(-20, 20) | st.decimals(-20, 20, places=1).map(float),
    st.fixed_dictionaries(
        {},
        optional={
            "ge": st.integers(-9, 9),
            "gt": st.floats(-9, 9),
            "le": st.integers(-9, 9),
            "lt": st.floats(-9, 9),
            "multiple_of": st.sampled_from([1, 2, 0.5, 0.1, 3]),
        },
    ),
)
def test_bounds_mean_what_their_keywords_mean(value, limits):
    made = codec(float, Bounds(**limits))
    try:
        made.load(value)
        fits = True
    except Mismatch:
        fits = False
    assert fits == Plain(made.schema).is_valid(value)
