"""runtime/typing/alternatives: a value is the first thing that it fits, and else the one that was meant."""

import enum
import re

import pytest
from conversions import doubled, integer, told

from mcp_ref.runtime.typing.alternatives import choice, first
from mcp_ref.runtime.typing.budget import Exhausted
from mcp_ref.runtime.typing.codec import same
from mcp_ref.runtime.typing.mismatch import Mismatch, must

# -------------------------------------------------------------------- alternatives, choices


def test_first_takes_the_first_that_fits():
    assert first([doubled, same], 2, "") == 4
    assert first([doubled, same], "a", "") == "a"


def test_first_complains_for_the_alternative_that_was_meant():
    def cat(value):
        raise Mismatch.all([must("be 'cat'", "dog", another_kind=True).under("kind")])

    def dog(value):
        raise must("be an integer", "x").under("legs")

    def kitten(value):
        raise Mismatch.all([must("be an integer", "x").under("legs"), must("be small", 9).under("age")])

    assert told(first, [integer, cat, dog], {}, "a pet") == "legs: must be an integer, not 'x'"
    assert told(first, [kitten, dog], {}, "a pet") == "legs: must be an integer, not 'x'"
    assert told(first, [integer, cat], {}, "a pet") == "kind: must be 'cat', not 'dog'"
    assert told(first, [integer, integer], {}, "a pet") == "must be a pet, not an empty object"


def test_alternatives_within_alternatives_end():
    """2 ** 40 ways to be wrong: given up after MAX_ALTERNATIVES, and not told as if it were one of them."""

    def deeper(level):
        def convert(value):
            return first([deeper(level + 1)] * 2 if level < 40 else [integer], value, "an integer")

        return convert

    with pytest.raises(Exhausted, match="given up: it takes more than 20,000 alternatives"):
        deeper(0)("x")
    assert first([integer, str], 5.5, "a number") == "5.5"
    assert told(first, [integer], "x", "an integer") == "must be an integer, not 'x'"


class Answer(enum.Enum):
    YES = "yes"
    NO = 0


def test_a_choice_of_constants():
    codec = choice(["a", 1, None])
    assert codec.schema == {"enum": ["a", 1, None]}
    assert [codec.load(v) for v in ("a", 1, 1.0, None)] == ["a", 1, 1, None]
    assert told(codec.load, True) == "must be one of 'a', 1, null, not true"
    assert told(codec.load, {"a": 1}) == "must be one of 'a', 1, null, not an object"
    assert told(codec.dump, "b") == "must be one of 'a', 1, null, not 'b'"


def test_one_constant():
    codec = choice(["a"])
    assert codec.schema == {"type": "string", "const": "a"}
    assert codec.says == "'a'"


def test_an_enum():
    codec = choice(Answer)
    assert codec.schema == {"enum": ["yes", 0]}
    assert codec.load("yes") is Answer.YES
    assert codec.load(0) is Answer.NO
    assert told(codec.load, False) == "must be one of 'yes', 0, not false"
    assert codec.dump(Answer.NO) == 0
    assert codec.dump("yes") == "yes"


def test_members_of_an_enum_as_constants():
    codec = choice([Answer.YES])
    assert codec.load("yes") is Answer.YES
    assert codec.dump(Answer.YES) == "yes"


def test_a_choice_that_json_has_not():
    with pytest.raises(TypeError, match=re.escape("must be a JSON constant, not b'x'")):
        choice([b"x"])


@pytest.mark.parametrize("values", [[], [float("nan")], [float("inf")], [b"bytes"]])
def test_a_choice_is_of_json_constants_and_of_one_at_least(values):
    with pytest.raises(TypeError, match="a choice"):
        choice(values)
