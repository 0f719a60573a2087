"""runtime/typing/values: a hint gives a schema, a loader and a dumper, and the three agree."""

from __future__ import annotations

import base64
import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import re
import threading
import time
import types
import typing
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, TypedDict, TypeVar

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kinds import LEAVES, SIMPLE_CONTAINERS, json_values, kinds, spoilt

from mcp_ref.runtime.typing.codec import same
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Bounds, Compiler, Field, dump_any

Plain = jsonschema.Draft202012Validator


def compiled(hint):
    """The codec of a hint, and its schema with the definitions it refers to."""
    compiler = Compiler()
    codec = compiler.codec(hint)
    return codec, {**codec.schema, **({"$defs": compiler.defs} if compiler.defs else {})}


def load(hint, value):
    return compiled(hint)[0].load(value)


def dump(hint, value):
    return compiled(hint)[0].dump(value)


def fails(convert, hint, value):
    with pytest.raises(Mismatch) as caught:
        convert(hint, value)
    return str(caught.value)


# ------------------------------------------------- the three agree, for hints drawn at random

# What `load` asks beyond the schema: that a string in a format is in it, that base64 is base64.
formats = jsonschema.FormatChecker(formats=())
formats.checks("date-time", ValueError)(
    lambda v: not isinstance(v, str) or (len(v) > 10 and datetime.datetime.fromisoformat(v))
)
formats.checks("date", ValueError)(lambda v: not isinstance(v, str) or datetime.date.fromisoformat(v))
formats.checks("time", ValueError)(
    lambda v: not isinstance(v, str) or datetime.time.fromisoformat(v) is not None
)
formats.checks("uuid", ValueError)(
    lambda v: not isinstance(v, str) or re.fullmatch(r"[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}", v, re.I)
)


def is_base64(kind, wanted, value, schema):
    try:
        base64.b64decode(value if isinstance(value, str) else "", validate=True)
    except ValueError:
        yield jsonschema.ValidationError("not base64")


def ecma_pattern(kind, pattern, value, schema):
    """In ECMA's dialect `$` does not match before a last line end."""
    if isinstance(value, str) and not re.search(pattern.removesuffix("$") + r"\Z", value):
        yield jsonschema.ValidationError("no match")


Strict = jsonschema.validators.extend(Plain, {"contentEncoding": is_base64, "pattern": ecma_pattern})


def accepted(codec, value):
    try:
        codec.load(value)
    except Mismatch as problem:
        assert str(problem)
        return False
    return True


def check_agreement(data, kind):
    codec, schema = compiled(kind.hint)
    try:
        fitting = codec.dump(data.draw(kind.values))
    except Mismatch:  # a set of alternatives may hold two values of one JSON
        assert not kind.exact
        fitting = None
    value = data.draw(spoilt(fitting))
    is_valid = Strict(schema, format_checker=formats).is_valid(value)
    if accepted(codec, value):
        assert is_valid
        assert Plain(schema).is_valid(value)
    else:
        assert not is_valid


def test_a_set_refuses_what_is_one_value_in_python_and_two_in_json():
    """Its schema cannot say so: `uniqueItems` goes by JSON."""
    codec, schema = compiled(set[Literal[1, True]])
    assert Strict(schema).is_valid([1, True])
    with pytest.raises(Mismatch, match="must hold no item twice"):
        codec.load([1, True])
    assert codec.load([True]) == {True}


@settings(deadline=None, max_examples=300)
@given(st.data(), kinds())
def test_load_accepts_what_the_schema_accepts(data, kind):
    check_agreement(data, kind)


@pytest.mark.parametrize("kind", [*LEAVES, *SIMPLE_CONTAINERS], ids=lambda kind: str(kind.hint))
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_load_accepts_what_the_schema_accepts_of_each_simple_kind(kind, data):
    check_agreement(data, kind)


@settings(deadline=None, max_examples=150)
@given(kinds(), json_values)
def test_load_accepts_any_json_that_the_schema_accepts(kind, value):
    codec, schema = compiled(kind.hint)
    assert accepted(codec, value) == Strict(schema, format_checker=formats).is_valid(value)


@settings(deadline=None, max_examples=200)
@given(st.data(), kinds())
def test_a_value_comes_back_from_its_json(data, kind):
    codec, _ = compiled(kind.hint)
    value = data.draw(kind.values)
    try:
        written = codec.dump(value)
    except Mismatch:
        assert not kind.exact
        assume(False)
    wire = json.loads(json.dumps(written))
    back = codec.load(wire)
    if kind.exact:
        assert back == value
    again = codec.dump(back)
    assert codec.load(again) == back


@pytest.mark.spec("basic/index/schema-valid")
@settings(deadline=None, max_examples=150)
@given(kinds())
def test_every_schema_is_valid_and_is_json(kind):
    _, schema = compiled(kind.hint)
    Plain.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


# ------------------------------------------------------------------------------ kind by kind


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Size(enum.Enum):
    SMALL = 1
    UNKNOWN = "?"


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Address:
    """Where somebody lives.

    The second line keeps its place.
    """

    street: str
    zip: Annotated[str, "five digits", Bounds(pattern="^[0-9]{5}$")]
    tags: list[str] = dataclasses.field(default_factory=list)
    number: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass
class Person:
    name: str
    born: datetime.date
    home: Address | None = None
    friends: list[Person] = dataclasses.field(default_factory=list)


START = Point(1, 2)


class Movie(TypedDict, total=False):
    title: Required[str]
    year: int
    by: Annotated[NotRequired[str], "who made it"]


class Sequel(Movie):
    of: str
    after: NotRequired[Sequel]


@pytest.mark.parametrize(
    ("hint", "value", "written"),
    [
        (int, 5, 5),
        (float, 0.5, 0.5),
        (str, "é", "é"),
        (bool, True, True),
        (None, None, None),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (object, "x", "x"),
        (list, [1, "a"], [1, "a"]),
        (list[int], [1, 2], [1, 2]),
        (typing.List[int], [1], [1]),  # noqa: UP006
        (collections.abc.Sequence[int], [1], [1]),
        (tuple, (1, "a"), [1, "a"]),
        (typing.Tuple, (1,), [1]),  # noqa: UP006
        (tuple[()], (), []),
        (tuple[int, ...], (1, 2), [1, 2]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, str], {-7: "a"}, {"-7": "a"}),
        (dict[Any, int], {"a": 1}, {"a": 1}),
        (collections.abc.Mapping[str, int], {"a": 1}, {"a": 1}),
        (dict[Color, int], {Color.RED: 1}, {"red": 1}),
        (dict[decimal.Decimal, int], {decimal.Decimal("1.50"): 1}, {"1.50": 1}),
        (set[int], {5}, [5]),
        (set, {"a"}, ["a"]),
        (set[Any], {1.5}, [1.5]),
        (frozenset[str], frozenset("a"), ["a"]),
        (collections.abc.Set[str], frozenset("a"), ["a"]),
        (set[tuple[int, str]], {(1, "a")}, [[1, "a"]]),
        (Literal["a", 1], 1, 1),
        (Color, Color.RED, "red"),
        (Size, Size.SMALL, 1),
        (int | None, None, None),
        (typing.Optional[int], 3, 3),  # noqa: UP045
        (typing.Union[int, str], "a", "a"),  # noqa: UP007
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (Movie, {"title": "M", "year": 1931}, {"title": "M", "year": 1931}),
        (
            Address,
            Address("Elm", "12345", ["a"]),
            {"street": "Elm", "zip": "12345", "tags": ["a"]},
        ),
        (datetime.datetime, datetime.datetime(2026, 7, 28, 12, 0), "2026-07-28T12:00:00"),
        (datetime.date, datetime.date(2026, 7, 28), "2026-07-28"),
        (datetime.time, datetime.time(12, 30), "12:30:00"),
        (uuid.UUID, uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (decimal.Decimal, decimal.Decimal("0.10"), "0.10"),
        (pathlib.Path, pathlib.Path("a/b"), "a/b"),
        (bytes, b"\x00\xff", "AP8="),
    ],
)
def test_each_kind_there_and_back(hint, value, written):
    codec, schema = compiled(hint)
    assert codec.dump(value) == written
    back = codec.load(written)
    assert back == value
    assert type(back) is type(value)
    Plain(schema).validate(written)


def test_a_generator_may_fill_an_array():
    assert dump(collections.abc.Iterable[int], (n for n in (1, 2))) == [1, 2]
    assert dump(list[int], iter([1])) == [1]


@pytest.mark.parametrize(
    "hint",
    [
        complex,
        bytearray,
        type("Name", (str,), {}),
        type("Pair", (tuple,), {}),
        collections.deque,
        collections.Counter[str],
        collections.defaultdict,
        collections.abc.Callable[[int], int],
        collections.abc.Iterator[int],
        collections.abc.Generator[int, None, None],
        typing.NewType("Metres", float),
        TypeVar("Number", int, float),
        type[int],
        [int],
        re.Pattern[str],
        "a string",
        Literal[b"x"],
        enum.Enum("Odd", {"A": (1, 2)}),
        dict[bool, int],
        dict[Point, int],
        dict[Literal[1, 2], int],
        dict[Annotated[int, Bounds(ge=0)], int],
        dict[int | str, int],
    ],
)
def test_a_hint_without_a_json_form_is_a_type_error(hint):
    with pytest.raises(TypeError):
        compiled(hint)


def test_the_type_error_shows_the_hint():
    with pytest.raises(TypeError, match="complex"):
        compiled(dict[str, list[complex]])
    with pytest.raises(TypeError, match=r"^items: .*Iterator\[int\] has no JSON form; write Iterable"):
        Compiler().object([Field("items", collections.abc.Iterator[int], True)], dict)


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (list[int], {"a": 1}, "must be an array, not an object"),
        (list[int], [1, "x", 2, None], "[1]: must be an integer, not 'x'; [3]: must be an integer, not null"),
        (tuple[int, str], [1], "must be an array of 2, not an array of 1"),
        (tuple[int, str], ["a", 1], "[0]: must be an integer, not 'a'; [1]: must be a string, not 1"),
        (set[int], [1, 2, 1], "must hold no item twice, not an array of 3"),
        (set[int], [1, 1.0], "must hold no item twice, not an array of 2"),
        (dict[str, int], [], "must be an object, not an array of 0"),
        (dict[str, int], {"a": "b"}, "a: must be an integer, not 'b'"),
        (dict[int, int], {"x": 1}, "x: must be an integer as a key, not 'x'"),
        (dict[int, int], {"-0": 1}, "-0: must be an integer as a key, not '-0'"),
        (int | None, "x", "must be an integer or null, not 'x'"),
        (Address, {}, "street: is required; zip: is required"),
        (Address, {"street": 1, "zip": "12345"}, "street: must be a string, not 1"),
        (Point, {"x": 1, "z": 2}, "z: is not known here; known: x, y"),
        (Movie, {"title": "M", "year": "x"}, "year: must be an integer, not 'x'"),
        (list[Point], [{"x": {}}], "[0].x: must be an integer, not an empty object"),
        (Literal["a", "b"], "c", "must be one of 'a', 'b', not 'c'"),
        (Literal["a"], ["a"], "must be 'a', not an array of 1"),
        (Color, "blue", "must be one of 'red', 'green', not 'blue'"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(hint, value, said):
    assert fails(load, hint, value) == said


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (list[int], "ab", "must be an array"),
        (list[int], [1, "x"], "[1]: must be an integer"),
        (list[int], 5, "must be an array"),
        (tuple[int, str], (1,), "must be an array of 2"),
        (tuple[int, str], (1, 2), "[1]: must be a string"),
        (set[int], [1, 1], "must hold no item twice"),
        (dict[str, int], [("a", 1)], "must be an object"),
        (dict[str, int], {"a": "b"}, "a: must be an integer"),
        (dict[str, int], {1: 1}, "[1]: must be a string"),
        (Point, (1, 2), "must be a Point"),
        (Point, {"x": 1, "z": 1}, "z: is not known here; known: x, y"),
        (Point, {"y": 1}, "x: is required"),
        (Address, Point(1, 2), "must be a Address"),
        (Movie, Address("a", "12345"), "must be an object"),
        (Movie, {"title": "M", 5: 1}, "[5]: a key of a JSON object is a string, not 5"),
        (Movie, {"title": "M", "more": [1, 2.5j]}, "more[1]: a complex has no JSON form"),
        (Color, "blue", "must be one of"),
        (int | None, "x", "must be an integer or null"),
    ],
)
def test_a_wrong_result_is_found_when_it_is_dumped(hint, value, said):
    assert said in fails(dump, hint, value)


def test_a_mapping_may_stand_for_a_dataclass():
    assert dump(Point, {"x": 1}) == {"x": 1}


def test_bool_and_int_are_two_things():
    assert "integer" in fails(load, int, True)
    assert "number" in fails(load, float, False)
    assert "true or false" in fails(load, bool, 1)
    assert load(set[int | bool], [1]) == {1}
    assert "must be 1" in fails(load, Literal[1], True)


def test_a_whole_number_is_an_integer_however_written():
    assert load(int, 3.0) == 3
    assert type(load(int, 3.0)) is int
    assert load(Literal[3], 3.0) == 3
    assert type(load(float, 3)) is float


def test_unhashable_items_that_no_hint_tells_of():
    assert "what Python can hash" in fails(load, set[tuple[Any, ...]], [[[1]]])


# --------------------------------------------------------------------------- objects


def test_a_dataclass_arrives_as_itself():
    person = load(Person, {"name": "A", "born": "2000-01-02", "home": {"street": "Elm", "zip": "12345"}})
    assert person == Person("A", datetime.date(2000, 1, 2), Address("Elm", "12345"))
    assert person.home.number == 0


def test_a_field_that_init_does_not_take_is_no_argument():
    assert "number: is not known" in fails(load, Address, {"street": "a", "zip": "12345", "number": 1})


def test_post_init_may_refuse():
    @dataclasses.dataclass
    class Range:
        low: int
        high: int

        def __post_init__(self):
            if self.low > self.high:
                raise ValueError("low is above high")

    assert fails(load, list[Range], [{"low": 2, "high": 1}]) == "[0]: low is above high"


def test_schema_of_a_dataclass():
    _, schema = compiled(Address)
    assert schema == {
        "type": "object",
        "description": "Where somebody lives.\n\nThe second line keeps its place.",
        "properties": {
            "street": {"type": "string"},
            "zip": {"type": "string", "description": "five digits", "pattern": "^[0-9]{5}$"},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["street", "zip"],
        "additionalProperties": False,
    }


def test_schema_of_a_named_tuple_shows_defaults_and_no_made_up_docstring():
    _, schema = compiled(Point)
    assert schema["properties"]["y"] == {"type": "integer", "default": 0}
    assert "description" not in schema


def test_a_named_tuple_without_hints():
    untyped = collections.namedtuple("untyped", "a b", defaults=[1])
    assert load(untyped, {"a": "x"}) == untyped("x", 1)


def test_defaults_are_dumped_as_their_type_says():
    @dataclasses.dataclass
    class Wish:
        color: Color = Color.RED
        day: datetime.date = datetime.date(2026, 7, 28)
        where: Point = START
        none: int | None = None

    properties = compiled(Wish)[1]["properties"]
    assert properties["color"]["default"] == "red"
    assert properties["day"]["default"] == "2026-07-28"
    assert properties["where"]["default"] == {"x": 1, "y": 2}
    assert "default" not in properties["none"]


def test_a_default_of_another_type_is_the_authors_mistake():
    @dataclasses.dataclass
    class Wrong:
        size: int = "large"

    with pytest.raises(TypeError, match=r"default of size.*'large'"):
        compiled(Wrong)


@pytest.mark.parametrize(
    ("hint", "is_required", "line"),
    [
        (int, True, "`size: Annotated[int, Field(...)]`"),
        (Annotated[list[str], "words"], False, "`size: Annotated[list[str], Field(...)] = default`"),
    ],
)
def test_a_default_shaped_as_a_field_of_pydantic_belongs_in_the_type(hint, is_required, line):
    field = types.SimpleNamespace(metadata=[], is_required=lambda: is_required)
    said = f"default of size is a Field, which stands in the type here: write {line}"
    with pytest.raises(TypeError, match=re.escape(said)):
        Compiler().object([Field("size", hint, False, field)], dict)


def test_default_factories_run_for_each_value():
    first, second = (load(Address, {"street": "a", "zip": "12345"}) for _ in range(2))
    first.tags.append("x")
    assert second.tags == []


def test_an_init_var_is_refused():
    @dataclasses.dataclass
    class Secret:
        key: dataclasses.InitVar[int]

    with pytest.raises(TypeError, match="InitVar"):
        Compiler().object(Compiler().fields(Secret), Secret)


def test_required_and_not_required_where_annotations_are_strings():
    """This module has `from __future__ import annotations`, which hides both from Python."""
    assert compiled(Movie)[1]["required"] == ["title"]
    _, schema = compiled(Sequel)
    assert schema["$defs"]["Sequel"]["required"] == ["title", "of"]
    assert compiled(Movie)[1]["properties"]["by"] == {"type": "string", "description": "who made it"}


def test_a_typed_dict_keeps_what_it_does_not_know():
    film = {"title": "M", "seen": {"by": [1]}}
    assert load(Movie, film) == film
    assert dump(Movie, {**film, "at": datetime.date(2026, 7, 28)}) == {**film, "at": "2026-07-28"}


# ------------------------------------------------------------------- names and recursion


@dataclasses.dataclass
class Add:
    left: Expression
    right: Expression
    op: Literal["+"] = "+"


@dataclasses.dataclass
class Multiply:
    left: Expression
    right: Expression
    op: Literal["*"]


@dataclasses.dataclass
class Negate:
    of: Expression


@dataclasses.dataclass
class Call:
    name: str
    with_: list[Expression]
    block: Block | None = None


@dataclasses.dataclass
class Block:
    lines: list[Expression | Block | Loop]


@dataclasses.dataclass
class Loop:
    block: Block
    until: Expression


Expression = Add | Multiply | Negate | Call | Block | Loop | float


class Tree(TypedDict):
    name: str
    children: NotRequired[dict[str, Tree]]


def test_a_type_may_hold_itself():
    codec, schema = compiled(Person)
    assert schema["$ref"] == "#/$defs/Person"
    data = {"name": "A", "born": "2000-01-01", "friends": [{"name": "B", "born": "2000-01-01"}]}
    person = codec.load(data)
    assert person.friends[0].name == "B"
    assert codec.dump(person)["friends"][0]["friends"] == []
    Plain.check_schema(schema)
    Plain(schema).validate(codec.dump(person))
    data["friends"][0]["friends"] = [{"name": "C"}]
    with pytest.raises(Mismatch, match=re.escape("friends[0].friends[0].born: is required")):
        codec.load(data)
    assert not Plain(schema).is_valid(data)


def test_a_recursive_typed_dict():
    tree = {"name": "a", "children": {"b": {"name": "b"}}}
    assert load(Tree, tree) == tree
    tree["children"]["b"]["children"] = {"c": {}}
    assert fails(load, Tree, tree) == "children.b.children.c.name: is required"


def test_types_that_hold_each_other_compile_once_each():
    """Six types of which each mentions all: as many definitions, and no explosion of paths."""
    codec, schema = compiled(Expression)
    assert len(json.dumps(schema)) < 20_000
    value = Add(Negate(1.0), Multiply(2.0, Call("f", [Block([Loop(Block([]), 3.0)])]), "*"))
    written = codec.dump(value)
    assert codec.load(written) == value
    Plain.check_schema(schema)
    Plain(schema).validate(written)


class Numbers:
    class Node(TypedDict):
        value: int
        next: NotRequired[Numbers.Node | None]


class Words:
    class Node(TypedDict):
        value: str
        next: NotRequired[Words.Node | None]


def test_two_types_of_one_name_keep_apart():
    first, second = Numbers.Node, Words.Node
    codec, schema = compiled(tuple[first, second, first])
    assert sorted(schema["$defs"]) == ["Node", "Node_"]
    good = [{"value": 1, "next": {"value": 2}}, {"value": "a", "next": None}, {"value": 1}]
    assert codec.load(good) == tuple(good)
    Plain(schema).validate(good)
    bad = [*good[:2], {"value": 1, "next": {"value": "b"}}]
    assert not Plain(schema).is_valid(bad)
    with pytest.raises(Mismatch, match=re.escape("[2].next.value: must be an integer")):
        codec.load(bad)


def test_a_type_alias_statement_may_be_recursive():
    """`type Nested = int | list[Nested]`, which Python 3.12 can write: anything with a __value__."""
    alias = type("Alias", (), {"__hash__": object.__hash__})()
    alias.__name__ = "Nested"
    alias.__value__ = int | list[typing.Any]
    assert load(alias, [1]) == [1]


# --------------------------------------------------------------------- unions and annotations


def test_a_union_of_plain_types_is_a_list_of_types():
    assert compiled(int | str | None)[1] == {"type": ["integer", "string", "null"]}
    assert compiled(int | list[int])[1] == {
        "anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]
    }


def test_of_several_alternatives_the_one_that_was_meant_complains():
    class Cat(TypedDict):
        kind: Literal["cat"]
        lives: int

    class Dog(TypedDict):
        kind: Literal["dog"]
        legs: int

    pet = typing.Union[Cat, Dog]  # noqa: UP007
    assert fails(load, pet, {"kind": "dog", "legs": "x"}) == "legs: must be an integer, not 'x'"
    assert fails(load, pet, {"kind": "fish", "lives": 1, "legs": 0}) == (
        "kind: must be 'cat', not 'fish'; kind: must be 'dog', not 'fish'"
    )
    assert fails(load, pet | None, []) == "must be an object or null, not an array of 0"


def test_the_alternatives_that_are_not_meant_do_not_hide_the_fault():
    assert fails(load, Point | None, {"x": "a"}) == "x: must be an integer, not 'a'"
    assert fails(load, Annotated[int, Bounds(ge=0)] | None, -1) == "must be at least 0, not -1"
    assert fails(load, Literal["all"] | int, "x") == "must be 'all' or an integer, not 'x'"
    assert fails(load, list[int] | dict[str, int], {"a": "b"}) == "a: must be an integer, not 'b'"
    assert fails(load, Color | None, "blue") == "must be one of 'red', 'green' or null, not 'blue'"


def test_a_subclass_in_a_union_keeps_its_own_fields():
    @dataclasses.dataclass
    class Base:
        x: int

    @dataclasses.dataclass
    class Derived(Base):
        y: int

    assert dump(Base | Derived, Derived(1, 2)) == {"x": 1, "y": 2}
    assert dump(Annotated[Base, "one"] | Annotated[Derived, "other"], Derived(1, 2)) == {"x": 1, "y": 2}
    assert dump(datetime.date | datetime.datetime, datetime.datetime(2026, 1, 2, 3)) == "2026-01-02T03:00:00"
    assert load(datetime.datetime | datetime.date, "2026-01-02") == datetime.date(2026, 1, 2)


def test_a_description_and_keywords_that_inform():
    _, schema = compiled(Annotated[int, "how many", {"examples": [1, 2]}])
    assert schema == {"type": "integer", "description": "how many", "examples": [1, 2]}
    _, schema = compiled(Annotated[Tree, "a tree"])
    assert schema["description"] == "a tree"
    Plain.check_schema(schema)


def test_an_annotation_of_another_library_is_left_alone():
    assert compiled(Annotated[int, object()])[1] == {"type": "integer"}


# ------------------------------------------------------------------- values without a hint


class Label(str):
    pass


class Whole(int):
    pass


class Fields(dict):
    pass


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a", "a"),
        (None, None),
        (True, True),
        (0.5, 0.5),
        ({"a": (1, [None])}, {"a": [1, [None]]}),
        ({5}, [5]),
        (Color.RED, "red"),
        (Point(1, 2), {"x": 1, "y": 2}),
        ([Address("a", "12345")], [{"street": "a", "zip": "12345", "tags": []}]),
        (datetime.date(2026, 7, 28), "2026-07-28"),
        (decimal.Decimal("1.5"), "1.5"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (b"a", "YQ=="),
        (Label("a"), "a"),
        (Whole(3), 3),
        (Fields(a={1}), {"a": [1]}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.deque([1]), [1]),
        (range(3), [0, 1, 2]),
    ],
)
def test_dump_any_goes_by_what_a_value_is(value, written):
    done = dump_any(value)
    assert done == written
    assert json.loads(json.dumps(done)) == written


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "a object has no JSON form"),
        ({"a": [1, 2j]}, "a[1]: a complex has no JSON form"),
        ({1: 2}, "[1]: a key of a JSON object is a string, not 1"),
        (float("nan"), "JSON has no number for nan"),
        (collections.OrderedDict({1: 2}), "a key of a JSON object is a string"),
    ],
)
def test_dump_any_refuses_what_json_has_not(value, said):
    with pytest.raises(Mismatch, match=re.escape(said)):
        dump_any(value)


# ------------------------------------------------------------------------------ many of all


def test_a_codec_is_safe_in_many_threads():
    codec, _ = compiled(Person)
    data = {"name": "A", "born": "2000-01-01", "friends": [{"name": "B", "born": "2000-01-01"}] * 20}
    expected, wrong = codec.load(data), []

    def work():
        for _ in range(50):
            if codec.load(data) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not wrong


def test_a_hostile_array_costs_a_bounded_list_of_faults():
    with pytest.raises(Mismatch) as caught:
        load(list[list[int]], [["x"] * 1000] * 1000)
    assert len(caught.value.faults) == 100
    assert str(caught.value).endswith("more at least")


def test_a_compiled_part_is_not_changed_by_its_users():
    hint = list[int]
    before = json.dumps(compiled(hint)[1])
    compiled(Annotated[hint, "described", Bounds(min_length=1)])
    assert json.dumps(compiled(hint)[1]) == before
    assert same(5) == 5


@dataclasses.dataclass
class Nested:
    children: list[Nested]


@pytest.mark.parametrize("convert", [load, dump], ids=["in", "out"])
def test_a_fault_deep_inside_is_found_once_and_not_twice_a_level(convert):
    """A second look at each level would take for ever here."""
    value: Any = {"children": "x"}
    for _ in range(90):
        value = {"children": [value]}
    started = time.thread_time()
    assert fails(convert, Nested, value).endswith("children: must be an array, not 'x'")
    assert time.thread_time() - started < 5


def test_a_fault_deep_inside_what_no_hint_tells_of():
    value: Any = object()
    for _ in range(90):
        value = [value]
    with pytest.raises(Mismatch, match="has no JSON form"):
        dump_any(value)


@dataclasses.dataclass
class Sum:
    kind: Literal["sum"]
    left: Term


@dataclasses.dataclass
class Product:
    kind: Literal["product"]
    left: Term


@dataclasses.dataclass
class Power:
    left: Term
    kind: Literal["power"]


Term = Sum | Product | Power | int


@pytest.mark.parametrize("kind", ["sum", "product", "power"])
def test_the_constant_of_an_alternative_is_looked_at_before_its_parts(kind):
    """Wherever it stands: else each level of a tree would double the work."""
    value: Any = 1
    for _ in range(60):
        value = {"left": value, "kind": kind}
    started = time.thread_time()
    made = load(Term, value)
    assert time.thread_time() - started < 5
    assert made.kind == kind
    assert dump(Term, made) == value


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (dict[decimal.Decimal, int], {"1.0": 1, "1.00": 2}, "is the same key as another one"),
        (dict[uuid.UUID, int], {"a" * 32: 1, "A" * 32: 2}, ""),
        (
            set[uuid.UUID],
            ["AAAAAAAA-AAAA-AAAA-AAAA-AAAAAAAAAAAA", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"],
            "must hold no item twice",
        ),
        (frozenset[decimal.Decimal], ["1.0", "1.00"], "must hold no item twice"),
    ],
)
def test_no_value_is_lost_because_two_of_them_are_one(hint, value, said):
    assert said in fails(load, hint, value)
