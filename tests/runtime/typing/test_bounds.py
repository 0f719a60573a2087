"""runtime/typing/bounds: what stands in `Annotated` is in the schema and kept, or refused; never lost."""

import dataclasses
import datetime
import decimal
import fractions
import re
import types
import typing
from typing import Annotated, Any, Literal, TypedDict

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref import Context, ErrorResponse, Server, connect
from mcp_ref.runtime.typing import bounds
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
        (str, Bounds(format="email"), {"format": "email"}, ["a@b.c"], [], ""),
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


@pytest.mark.parametrize(
    ("name", "good"),
    [("uri", "a:b"), ("email", "a@b.c"), ("date", "2026-07-28"), ("date-time", "2026-07-28T12:00:00Z")],
)
def test_a_format_holds(name, good):
    made = codec(str | None, Bounds(format=name))
    for convert in (made.load, made.dump):
        assert convert(good) == good
        assert convert(None) is None
        with pytest.raises(Mismatch, match=f"must have the format {name}, not 'notmail'"):
            convert("notmail")


def test_a_format_in_a_dict_is_shown_and_not_tested():
    made = codec(str, {"format": "email"})
    assert made.schema == {"type": "string", "format": "email"}
    assert made.load("notmail") == "notmail"


def test_a_format_of_another_class_may_mean_something_else():
    assert codec(str, Other(format="%Y-%m-%d")).schema == {"type": "string"}
    assert codec(str, Other(format="email", min_length=1)).schema == {"type": "string", "minLength": 1}


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


@pytest.mark.parametrize("hint", [decimal.Decimal, decimal.Decimal | None, int | decimal.Decimal])
@pytest.mark.parametrize("mark", [Bounds(ge=0), Bounds(lt=1), Bounds(multiple_of=0.01), Other(gt=0)])
def test_a_number_limits_no_decimal_which_is_a_string_in_json(hint, mark):
    """No schema can say it of a string; a sum of money below zero must not pass for a limited one."""
    with pytest.raises(TypeError, match=r"would not hold for a Decimal.*compare it within the function"):
        codec(hint, mark)


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
        (str, Bounds(pattern=b"a"), "b'a' is not a pattern"),
        (str, Bounds(pattern="a{99999999999999}"), "is not a pattern: the repetition number is too large"),
        (str, Bounds(format=5), "format=5 cannot be checked here; email, uri, date, date-time can"),
        (str, Bounds(format="hostname"), r"'hostname' cannot .* \{\"format\": \"hostname\"\}"),
        (str, Bounds(format=""), "format='' cannot be checked"),
        (int, Bounds(format="email"), "format='email' means nothing for an integer"),
        (str, Bounds(max_length=2.5), "max_length=2.5 is not a whole number"),
        (str, Bounds(max_length=float("inf")), "max_length=inf is not a whole number"),
        (str, Bounds(min_length=True, max_length=98765), "min_length=True is not a whole number"),
        (list[int], Bounds(min_length=-1), "min_length=-1 is too small"),
        (float, Bounds(ge=float("inf")), "ge=inf is not a number"),
        (int, Bounds(le=10**400), "the bound le is beyond a double"),
        (str, Bounds(ge=-(10**5000)), "the bound ge is beyond a double"),
        (int, Bounds(ge=5, le=2), "minimum 5 and maximum 2 leave no value"),
        (int, Bounds(ge=2, lt=2), "minimum 2 and exclusiveMaximum 2 leave no value"),
        (int, Bounds(gt=2, le=2), "exclusiveMinimum 2 and maximum 2 leave no value"),
        (float, Bounds(gt=2, lt=2), "exclusiveMinimum 2 and exclusiveMaximum 2 leave no value"),
        (str, Bounds(min_length=5, max_length=2), "minLength 5 and maxLength 2 leave no value"),
        (list[int], Bounds(min_length=5, max_length=2), "minItems 5 and maxItems 2 leave no value"),
        (dict[str, int], Bounds(min_length=5, max_length=2), "minProperties 5 and maxProperties 2"),
        (tuple[int, int], Bounds(max_length=1), "minItems 2 and maxItems 1 leave no value"),
        (Annotated[int, Bounds(ge=1), Bounds(ge=5)], Bounds(le=2), "minimum 5 and maximum 2 leave no value"),
        (str, Bounds(pattern="a" * 6000), "is not a pattern: .*more than 5000 characters"),
        (str, Bounds(pattern=r"\p{Script=Han}"), "is not a pattern: the property"),
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
    try:
        made = codec(float, Bounds(**limits))
    except TypeError as problem:
        assert "leave no value" in str(problem)
        return
    try:
        made.load(value)
        fits = True
    except Mismatch:
        fits = False
    assert fits == Plain(made.schema).is_valid(value)


def test_a_pattern_is_looked_for_anywhere():
    assert bounds.is_match("xaby", "ab")
    assert not bounds.is_match("xaby", "^ab")


def test_a_pattern_guards_the_very_end_of_a_string():
    guarded = codec(str, Bounds(pattern="^[a-z]+$"))
    assert guarded.load("abc") == "abc"
    for convert in (guarded.load, guarded.dump):
        with pytest.raises(Mismatch, match="must match"):
            convert("abc\n")


def test_a_pattern_that_could_take_for_ever_is_a_fault_of_the_value():
    with pytest.raises(Mismatch, match=r"cannot be checked: the pattern .* could take too long in 301 char"):
        bounds.is_match("a" * 300 + "!", "^(a+)+$")


@pytest.mark.parametrize(
    ("value", "step", "divided"),
    [
        (6, 3, True),
        (7, 3, False),
        (10**17 + 1, 2, False),
        (7.5, 2, False),
        (7.5, 2.5, True),
        (0.3, 0.1, False),
        (10**400, 0.5, True),
        (1e308, 1e-10, True),
        (10**400, 3.0, False),
    ],
)
def test_divides(value, step, divided):
    if (value, step) == (1e308, 1e-10):
        divided = fractions.Fraction(1e308) % fractions.Fraction(1e-10) == 0
    assert bounds.is_multiple(value, step) is divided


@settings(deadline=None, max_examples=200)
@given(
    st.integers(-(10**20), 10**20) | st.floats(-1e6, 1e6, allow_nan=False),
    st.sampled_from([1, 2, 3, 7, 0.5, 0.25, 0.1, 1.5]),
)
def test_divides_as_json_schema_does(value, step):
    assert bounds.is_multiple(value, step) == jsonschema.Draft202012Validator({"multipleOf": step}).is_valid(
        value
    )


# -- marks of other packages ----------------------------------------------------------------------
# The stand-ins have the shapes of pydantic's and of annotated-types' objects; the objects themselves are met
# in tests/interop/test_pydantic.py.


class Limit:
    """Shaped as annotated_types.Ge and the like: one attribute, in a slot."""

    def __init__(self, **limits):
        self.__dict__.update(limits)


class Group(Limit):
    """Shaped as annotated_types.GroupedMetadata: an iterable of others."""

    __is_annotated_types_grouped_metadata__ = ()

    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


class FieldInfo(Limit):
    """Shaped as pydantic.fields.FieldInfo."""

    def __init__(self, *metadata, required=True, **said):
        empty = dict.fromkeys(("title", "description", "examples", "alias", "json_schema_extra"))
        super().__init__(metadata=list(metadata), required=required, **(empty | said))

    def is_required(self):
        return self.required


class Doc(Limit):
    """Shaped as typing_extensions.Doc."""


def made(hint, *marks):
    codec = Compiler().codec(Annotated[hint, *marks])
    jsonschema.Draft202012Validator.check_schema(codec.schema)
    return codec


@pytest.mark.parametrize(
    ("hint", "mark", "keywords", "good", "bad"),
    [
        (int, FieldInfo(Limit(ge=1)), {"minimum": 1}, 1, 0),
        (int, FieldInfo(Limit(gt=1), Limit(le=3)), {"exclusiveMinimum": 1, "maximum": 3}, 2, 4),
        (float, FieldInfo(Limit(lt=1)), {"exclusiveMaximum": 1}, 0.5, 1),
        (int, FieldInfo(Limit(multiple_of=5)), {"multipleOf": 5}, 10, 11),
        (str, FieldInfo(Limit(min_length=1)), {"minLength": 1}, "a", ""),
        (list[int], FieldInfo(Limit(max_length=1)), {"maxItems": 1}, [1], [1, 2]),
        (str, FieldInfo(Limit(pattern="^a")), {"pattern": "^a"}, "ab", "ba"),
        (str, FieldInfo(Limit(pattern=re.compile("^a"))), {"pattern": "^a"}, "ab", "ba"),
        (int, FieldInfo(FieldInfo(Limit(ge=1))), {"minimum": 1}, 1, 0),
        (int, FieldInfo(Limit(strict=True), Limit(ge=1)), {"minimum": 1}, 1, 0),
        (float, FieldInfo(Limit(allow_inf_nan=False), Limit(ge=1)), {"minimum": 1}, 1, 0),
        (int, Group(Limit(ge=1), Limit(le=3)), {"minimum": 1, "maximum": 3}, 3, 4),
        (int, FieldInfo(Group(Limit(ge=1))), {"minimum": 1}, 1, 0),
        (int | None, FieldInfo(Limit(ge=1)), {"minimum": 1}, None, 0),
    ],
)
def test_the_limits_of_another_package_are_in_the_schema_and_kept(hint, mark, keywords, good, bad):
    codec = made(hint, mark)
    assert keywords.items() <= codec.schema.items()
    codec.load(good)
    with pytest.raises(Mismatch):
        codec.load(bad)


@pytest.mark.parametrize(
    ("mark", "schema"),
    [
        (
            FieldInfo(title="Size", description="How much", examples=[1]),
            {"title": "Size", "description": "How much", "examples": [1]},
        ),
        (FieldInfo(json_schema_extra={"x-unit": "m", "example": 5}), {"x-unit": "m", "example": 5}),
        ({"unit": "m"}, {"unit": "m"}),
        (
            FieldInfo(json_schema_extra={"readOnly": True, "examples": [3]}),
            {"readOnly": True, "examples": [3]},
        ),
        ({"title": "Size", "deprecated": False}, {"title": "Size", "deprecated": False}),
        (FieldInfo(deprecated=True), {"deprecated": True}),
        (Limit(ge=1, description="How much"), {"minimum": 1, "description": "How much"}),
        (Doc(documentation="How much"), {"description": "How much"}),
    ],
)
def test_what_they_say_for_people_is_in_the_schema(mark, schema):
    assert made(int, mark).schema == {"type": "integer", **schema}


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (Limit(func=str.isdigit), "func"),
        (FieldInfo(Limit(func=str.isdigit)), "func"),
        (Group(Limit(min_length=1), Limit(strip_whitespace=True)), "strip_whitespace"),
        (Limit(min_length=1, to_upper=True), "to_upper"),
        (FieldInfo(Limit(max_digits=3)), "max_digits"),
        (FieldInfo(Limit(decimal_places=0)), "decimal_places"),
        (Limit(tz=None, uuid_version=4), "uuid_version"),
        (FieldInfo(alias="other"), "alias"),
        (FieldInfo(json_schema_extra=print), "json_schema_extra"),
        (FieldInfo(json_schema_extra={"minLength": 5}), "says minLength, which would be shown and not kept"),
        (
            FieldInfo(json_schema_extra={"default": 3, "$schema": "zz", "$id": "x", "x-a": 1}),
            r"says \$id, \$schema, default, which .* a default behind the parameter, and null",
        ),
        ({"minLength": 5, "examples": ["x"]}, "says minLength, which would be shown and not kept"),
        ({"enum": ["a", "b"]}, "says enum, which would be shown and not kept"),
        ({"$ref": "#"}, r"says \$ref, which would be shown and not kept; write a limit as Bounds"),
        ({5: "m"}, "says 5, which is no keyword"),
        ({"title": 5}, "says title=5: not a str"),
        ({"examples": "x"}, "says examples='x': not a list"),
        (Bounds, "Bounds in Annotated says no limit"),
        (FieldInfo(discriminator="kind"), "discriminator"),
        (FieldInfo(required=False), r"default: write it behind the parameter"),
        (Limit(pattern=re.compile("a", re.IGNORECASE)), "flags"),
        (Limit(ge=1), "ge=1 means nothing for a string"),
    ],
)
def test_what_cannot_be_kept_is_refused_when_the_function_is_registered(mark, said):
    def tool(a: Annotated[str, mark]) -> str:
        return a

    with pytest.raises(TypeError, match=rf"tool: .*{said}"):
        Server("marks").add_tool(tool)


@pytest.mark.parametrize("module", ["pydantic.types", "annotated_types", "pydantic"])
def test_an_object_of_these_packages_that_says_nothing_known_is_refused(module):
    kind = type("Odd", (), {"__module__": module})
    with pytest.raises(TypeError, match=f"{re.escape(module)}\\.Odd"):
        made(int, kind())


@pytest.mark.parametrize(
    "mark",
    [None, 5, object(), Other(dependency=print), int, ("a",)],
    ids=["None", "number", "object", "dependency", "class", "tuple"],
)
def test_an_object_of_anybody_else_says_nothing(mark):
    assert made(int, mark).schema == {"type": "integer"}


def test_a_description_in_a_mark_counts_more_than_the_docstring():
    server = Server("marks")

    @server.tool
    def add(a: Annotated[int, FieldInfo(Limit(ge=1), description="mine")], b: int, ctx: Context) -> int:
        """Add.

        Args:
            a: not this
            b: this
        """
        return a + b

    with connect(server) as client:
        (tool,) = client.list_tools()
    properties = tool["inputSchema"]["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 1, "description": "mine"}
    assert properties["b"] == {"type": "integer", "description": "this"}


def test_a_call_that_breaks_such_a_limit_does_not_reach_the_function():
    server, called = Server("marks"), []

    @server.tool
    def add(a: Annotated[int, FieldInfo(Limit(ge=1))]) -> None:
        called.append(a)

    @server.prompt
    def review(line: Annotated[int, FieldInfo(Limit(ge=1))]) -> str:
        called.append(line)
        return "x"

    with connect(server) as client:
        result = client.call_tool("add", {"a": 0})
        assert result.is_error and "a: must be at least 1, not 0" in result.text
        with pytest.raises(ErrorResponse, match="line: must be at least 1, not 0"):
            client.get_prompt("review", {"line": "0"})
    assert called == []
