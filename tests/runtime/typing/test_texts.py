"""runtime/typing/texts: a function whose arguments arrive as text."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kinds import Color, Level, kinds

from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.texts import choices_of, text_of, text_parameters_of
from mcp_ref.runtime.typing.values import Bounds, Compiler


class Context:
    """Stands for the real one: any class will do."""


@dataclasses.dataclass
class Item:
    name: str
    parts: list[Item] = dataclasses.field(default_factory=list)


def read(hint, text):
    """A text as a parameter of this type gets it."""

    def function(value):
        pass

    function.__annotations__ = {"value": hint}
    return text_parameters_of(function, Context).load({"value": text})["value"]


def told(hint, text):
    with pytest.raises(Mismatch) as caught:
        read(hint, text)
    return str(caught.value).removeprefix("value").removeprefix(": ")


# ------------------------------------------------------------------------------- the signature


def test_the_parameters_of_a_signature():
    def review(
        code: str,
        ctx: Context,
        line: Annotated[int, "where to look"] = 0,
        *,
        color: Optional[Color] = None,  # noqa: UP045
    ) -> str:
        """Review some code.

        Args:
            code: all of it
        """

    found = text_parameters_of(review, Context)
    assert [(f.name, f.required, f.default) for f in found.fields] == [
        ("code", True, None),
        ("line", False, 0),
        ("color", False, None),
    ]
    assert [f.hint for f in found.fields] == [str, Annotated[int, "where to look"], Optional[Color]]  # noqa: UP045
    assert found.descriptions == {"code": "all of it", "line": "where to look"}
    assert found.context == "ctx"
    assert not found.others


def test_a_parameter_without_a_hint_gets_the_text():
    assert text_parameters_of(lambda a, b=None: a, Context).load({"a": "1", "b": "null"}) == {
        "a": "1",
        "b": "null",
    }


def test_missing_and_unknown_names_are_told_together():
    def f(a: int, b: str, c: str = ""):
        pass

    with pytest.raises(Mismatch) as caught:
        text_parameters_of(f, Context).load({"a": "x", "d": "1"})
    assert str(caught.value) == (
        "a: must be an integer, not 'x'; d: is not known here; known: a, b, c; b: is required"
    )


def test_further_names_have_the_type_of_the_rest():
    def f(a: str, **rest: int):
        pass

    found = text_parameters_of(f, Context)
    assert found.others
    assert [field.name for field in found.fields] == ["a"]
    assert found.load({"a": "1", "b": "2"}) == {"a": "1", "b": 2}
    with pytest.raises(Mismatch, match="b: must be an integer, not 'x'"):
        found.load({"a": "1", "b": "x"})


def test_a_default_that_can_change_is_made_anew():
    def f(tags: list[str] = []):  # noqa: B006
        tags.append("used")
        return tags

    load = text_parameters_of(f, Context).load
    assert f(**load({})) == ["used"]
    assert f(**load({})) == ["used"]


@pytest.mark.parametrize(
    "function",
    [lambda *values: None, eval("lambda a, /: None"), Context().__init__],
    ids=["*values", "by place", "a wrapper"],
)
def test_a_function_that_names_cannot_fill_is_refused(function):
    with pytest.raises(TypeError):
        text_parameters_of(function, Context)


def test_a_type_without_a_json_form_is_refused():
    def f(value: complex):
        pass

    with pytest.raises(TypeError, match="complex"):
        text_parameters_of(f, Context)


def test_partials_and_methods():
    class Reviewer:
        def review(self, code: str, line: int = 0):
            pass

    def add(a: int, b: int):
        pass

    assert text_parameters_of(Reviewer().review, Context).load({"code": "c", "line": "2"}) == {
        "code": "c",
        "line": 2,
    }
    assert text_parameters_of(functools.partial(add, b=1), Context).load({"a": "2"}) == {"a": 2}


# ------------------------------------------------------------------------------------ one value


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (str, "12", "12"),
        (str, "null", "null"),
        (str, '"quoted"', '"quoted"'),
        (Any, "[1]", "[1]"),
        (Literal["short", "long"], "long", "long"),
        (Literal[1, 2], "2", 2),
        (Literal["a", 1], "1", 1),
        (Color, "red", Color.RED),
        (Level, "2", Level.HIGH),
        (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
        (
            uuid.UUID,
            "12345678-1234-5678-1234-567812345678",
            uuid.UUID("12345678-1234-5678-1234-567812345678"),
        ),
        (Path, "/tmp/a", Path("/tmp/a")),
        (bytes, "aGk=", b"hi"),
        (int, "7", 7),
        (int, " 7 ", 7),
        (float, "7", 7.0),
        (bool, "true", True),
        (list[str], '["a"]', ["a"]),
        (list[int] | None, "null", None),
        (int | None, "7", 7),
        (str | None, "null", "null"),
        (str | int, "7", "7"),
        (int | Literal["auto"], "auto", "auto"),
        (int | Literal["auto"], "7", 7),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Annotated[int, Bounds(ge=0)], "7", 7),
    ],
)
def test_a_text_is_taken_as_it_is_if_the_type_takes_it_else_its_json(hint, text, value):
    found = read(hint, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("hint", "text", "said"),
    [
        (int, "x", "must be an integer, not 'x'"),
        (int, "1.5", "must be an integer, not 1.5"),
        (int, '"1"', "must be an integer, not '1'"),
        (bool, "True", "must be true or false, not 'True'"),
        (bool, "1", "must be true or false, not 1"),
        (float, "NaN", "must be a number, not 'NaN'"),
        (float, "1e999", "must be a number, not '1e999'"),
        (list[int], "[1, 2", "must be an array, not '[1, 2'"),
        (list[int], '[1, "2"]', "[1]: must be an integer, not '2'"),
        (Literal["a", "b"], "5", "must be one of 'a', 'b', not '5'"),
        (datetime.date, "20", "must be a date such as 2026-07-28, not '20'"),
        (Annotated[int, Bounds(ge=0)], "-1", "must be at least 0, not -1"),
        (Annotated[str, Bounds(max_length=3)], "12345", "must be at most 3 long, not '12345'"),
        (dict[str, int], '{"a": 1, "a": 2}', """must be an object, not '{"a": 1, "a": 2}'"""),
        (int, "\ud800", r"must be an integer, not '\ud800'"),
    ],
)
def test_a_text_that_does_not_fit_is_told_in_the_terms_of_its_type(hint, text, said):
    assert told(hint, text) == said


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "9" * 100_000, '{"a":' * 5_000], ids=["deep", "long", "open"]
)
def test_a_hostile_text_is_refused_like_any_other(text):
    assert told(list[int], text).startswith("must be an array")


def test_a_type_that_refers_to_itself_is_read_from_json():
    assert read(Item, '{"name": "a", "parts": [{"name": "b"}]}') == Item("a", [Item("b")])
    assert told(Item, "a") == "must be an object, not 'a'"
    assert told(Item, '{"name": "a", "parts": [{}]}') == ".parts[0].name: is required"


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_what_a_value_looks_like_as_text_is_read_back_as_that_value(data):
    kind = data.draw(kinds().filter(lambda kind: kind.exact))
    value = data.draw(kind.values)
    codec = Compiler().codec(kind.hint)
    dumped = codec.dump(value)
    text = dumped if isinstance(dumped, str) else to_json(dumped)
    if not isinstance(dumped, str):  # a text that is a value itself is taken for that one
        with pytest.raises(Mismatch):
            codec.load(text)
            assume(False)
    found = read(kind.hint, text)
    assert type(found) is type(value)
    assert found == value


@given(st.sampled_from([str, int, list[int], Color, dict[str, Any], Any, datetime.date | None]), st.text())
def test_any_text_is_read_or_refused_with_a_mismatch(hint, text):
    try:
        read(hint, text)
    except Mismatch as problem:
        assert str(problem)


# ---------------------------------------------------------------------- what could be written


class Size(enum.Enum):
    SMALL = 1
    HUGE = "huge"


@pytest.mark.parametrize(
    ("hint", "choices"),
    [
        (Size, ["1", "huge"]),
        (Level, ["1", "2"]),
        (Literal["a", 1, None, True], ["a", "1", "true"]),
        (Literal["only"], ["only"]),
        (Annotated[Literal["a", "b"] | None, "which"], ["a", "b"]),
        (Literal["a"] | Literal["b"] | str, ["a", "b"]),
        (bool, ["true", "false"]),
        (bool | None, ["true", "false"]),
        (str, []),
        (int, []),
        (list[Size], []),
        (Any, []),
        (None, []),
    ],
)
def test_the_texts_of_a_type_with_few_values(hint, choices):
    assert choices_of(hint) == choices
    for choice in choices:
        read(hint, choice)


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (Size.SMALL, "1"), (Size.HUGE, "huge"), (2, "2"), (0.5, "0.5"), (True, "true")],
)
def test_the_text_of_a_value(value, text):
    assert text_of(value) == text
    assert type(text_of(value)) is str


@pytest.mark.parametrize("value", [None, [], {}, b"a", object()])
def test_what_nobody_would_write_has_no_text(value):
    with pytest.raises(TypeError, match="is a string, not"):
        text_of(value)
