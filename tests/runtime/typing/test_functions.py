"""runtime/typing/functions: the signature of a user's function is its contract."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import inspect
import json
from typing import Annotated, Any, NotRequired, Optional, Required, TypedDict

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import kinds

from mcp_ref.runtime.typing.docstrings import description_of
from mcp_ref.runtime.typing.functions import parameters_of, return_hint, takes_one
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Bounds


class Context:
    """Stands for the real one: any class will do."""


class OwnContext(Context):
    pass


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Item:
    name: str
    parts: list[Item] = dataclasses.field(default_factory=list)


class Options(TypedDict, total=False):
    limit: Required[int]
    color: NotRequired[Color]


def read(function):
    found = parameters_of(function, Context)
    jsonschema.Draft202012Validator.check_schema(found.schema)
    json.dumps(found.schema)
    return found


def called(function, **arguments):
    return function(**read(function).load(arguments))


def refused(function):
    with pytest.raises(TypeError) as caught:
        parameters_of(function, Context)
    return str(caught.value)


def told(function, arguments):
    with pytest.raises(Mismatch) as caught:
        read(function).load(arguments)
    return str(caught.value)


# ------------------------------------------------------------------------------ arguments


@pytest.mark.spec("server/tools/input-schema-root-object", "server/tools/input-schema-object")
def test_the_schema_of_a_signature():
    def search(
        query: str,
        limit: Annotated[int, "how many", Bounds(ge=1, le=100)] = 10,
        *,
        color: Color = Color.RED,
        since: datetime.date | None = None,
    ) -> list[str]:
        """Search."""

    assert read(search).schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {
                "type": "integer",
                "description": "how many",
                "minimum": 1,
                "maximum": 100,
                "default": 10,
            },
            "color": {"type": "string", "const": "red", "default": "red"},
            "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


@pytest.mark.spec("server/tools/input-schema-no-parameters")
def test_a_function_without_parameters():
    found = read(lambda: None)
    assert found.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert found.load({}) == {}
    assert told(lambda: None, {"a": 1}) == "a: is not known here; known: none"


def test_arguments_arrive_as_python_values():
    def f(day: datetime.date, color: Color, item: Item, options: Options, pair: tuple[int, str]):
        return day, color, item, options, pair

    got = called(
        f,
        day="2026-07-28",
        color="red",
        item={"name": "a", "parts": [{"name": "b"}]},
        options={"limit": 3, "color": "red"},
        pair=[1, "x"],
    )
    assert got == (
        datetime.date(2026, 7, 28),
        Color.RED,
        Item("a", [Item("b")]),
        {"limit": 3, "color": Color.RED},
        (1, "x"),
    )


def test_all_wrong_arguments_are_told_at_once():
    def f(a: int, b: list[str], c: str = ""):
        pass

    assert told(f, {"a": "x", "b": ["y", 2], "d": 1}) == (
        "a: must be an integer, not 'x'; b[1]: must be a string, not 2; d: is not known here; known: a, b, c"
    )
    assert told(f, {}) == "a: is required; b: is required"
    assert told(f, []) == "must be an object, not an array of 0"


def test_a_parameter_without_a_hint_takes_anything():
    def f(a, b=2):
        return a, b

    assert read(f).schema["properties"] == {"a": {}, "b": {"default": 2}}
    assert called(f, a={"x": [None]}) == ({"x": [None]}, 2)


def test_definitions_are_beside_the_properties():
    schema = read(lambda item: item).schema
    assert "$defs" not in schema

    def f(item: Item, other: Item | None = None):
        pass

    schema = read(f).schema
    assert list(schema["$defs"]) == ["Item"]
    assert schema["properties"]["item"] == {"$ref": "#/$defs/Item"}


def test_left_out_arguments_are_left_to_the_function():
    def f(a: int = 1):
        return a

    assert read(f).load({}) == {}
    assert called(f) == 1


def test_mutable_defaults_are_not_shared_between_calls():
    def collect(item: int, into: list[int] = [], seen: dict[str, list[int]] = {"a": []}):  # noqa: B006
        into.append(item)
        seen["a"].append(item)
        return into, seen

    assert called(collect, item=1) == ([1], {"a": [1]})
    assert called(collect, item=2) == ([2], {"a": [2]})
    assert called(collect, item=3, into=[0]) == ([0, 3], {"a": [3]})
    assert read(collect).schema["properties"]["into"]["default"] == []


def test_the_default_in_the_schema_is_json():
    def f(day: datetime.date = datetime.date(2026, 7, 28), color: Color = Color.RED):
        pass

    properties = read(f).schema["properties"]
    assert [p["default"] for p in properties.values()] == ["2026-07-28", "red"]


# -------------------------------------------------------------------------------- kwargs


def test_keyword_arguments_take_what_is_not_named():
    def f(a: int, **more: Any):
        return a, more

    assert read(f).schema["additionalProperties"] is True
    assert called(f, a=1, b=[2], **{"two words": 3}) == (1, {"b": [2], "two words": 3})


def test_keyword_arguments_without_a_hint():
    def f(**more):
        return more

    assert read(f).schema["additionalProperties"] is True
    assert called(f, a=None) == {"a": None}


def test_keyword_arguments_have_a_type_as_others_do():
    def f(a: int = 0, **days: datetime.date):
        return days

    assert read(f).schema["additionalProperties"] == {"type": "string", "format": "date"}
    assert called(f, a=1, b="2026-07-28") == {"b": datetime.date(2026, 7, 28)}
    assert told(f, {"b": "x"}).startswith("b: must be a date")


def test_positional_parameters_cannot_be_filled_by_name():
    def star(*args: int):
        pass

    def slash(a: int, /, b: int):
        pass

    def context_first(ctx: Context, /):
        pass

    assert "star: `*args: 'int'` cannot be filled" in refused(star)
    assert "slash: `a: 'int'` cannot be filled" in refused(slash)
    assert "cannot be filled" in refused(context_first)


# ------------------------------------------------------------------------------- context


def test_the_context_is_found_by_its_type():
    def plain(ctx: Context, a: int):
        pass

    def last(a: int, whatever: OwnContext):
        pass

    def optional(a: int, ctx: Optional[Context] = None):  # noqa: UP045
        pass

    def modern(a: int, *, c: Context | None = None):
        pass

    def annotated(a: int, c: Annotated[Context, "mine"]):
        pass

    for function, name in (
        (plain, "ctx"),
        (last, "whatever"),
        (optional, "ctx"),
        (modern, "c"),
        (annotated, "c"),
    ):
        found = read(function)
        assert found.context == name
        assert list(found.schema["properties"]) == ["a"]
        assert found.load({"a": 1}) == {"a": 1}
        assert f"{name}: is not known" in told(function, {"a": 1, name: {}})


def test_no_context_is_none():
    assert read(lambda ctx: None).context is None


def test_two_contexts_are_one_too_many():
    def f(a: Context, b: Context):
        pass

    assert refused(f).endswith("both a and b want the context")


def test_a_list_of_contexts_is_no_context():
    def f(a: list[Context]):
        pass

    assert "has no JSON form" in refused(f)


# --------------------------------------------------------------- functions of all sorts


class Greeter:
    def __init__(self, greeting="hello"):
        self.greeting = greeting

    def greet(self, name: str, ctx: Context | None = None) -> str:
        return f"{self.greeting} {name}"

    @classmethod
    def loud(cls, name: str) -> str:
        return name.upper()

    @staticmethod
    def twice(number: int) -> int:
        return number * 2

    def __call__(self, name: str, times: int = 1) -> list[str]:
        """Greet often."""
        return [self.greet(name)] * times


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def test_methods_and_callable_objects():
    assert called(Greeter().greet, name="A") == "hello A"
    assert read(Greeter().greet).context == "ctx"
    assert called(Greeter.loud, name="a") == "A"
    assert called(Greeter.twice, number=2) == 4
    assert called(Greeter(), name="A", times=2) == ["hello A", "hello A"]
    assert told(Greeter(), {"name": 5}) == "name: must be a string, not 5"
    assert return_hint(Greeter()) == list[str]
    assert description_of(Greeter().__call__) == "Greet often."


def test_partial_functions():
    def power(base: int, exponent: int, unit: str = "m") -> int:
        return base**exponent

    square = functools.partial(power, exponent=2)
    assert called(square, base=3) == 9
    assert read(square).schema["properties"]["exponent"]["default"] == 2
    assert read(square).schema["required"] == ["base"]
    of_two = functools.partial(power, 2)
    assert called(of_two, exponent=5) == 32
    assert "base" not in read(of_two).schema["properties"]
    twice = functools.partial(functools.partial(power, 2), exponent=3)
    assert called(twice) == 8
    assert return_hint(twice) is int
    assert called(functools.partial(Greeter().greet), name="B") == "hello B"


def test_decorated_functions():
    @traced
    @traced
    def f(day: datetime.date) -> int:
        """Doc."""
        return day.day

    assert called(f, day="2026-07-28") == 28
    assert return_hint(f) is int
    assert description_of(f) == "Doc."
    assert called(functools.partial(traced(Greeter.twice)), number=3) == 6
    assert called(traced(functools.partial(Greeter.twice)), number=3) == 6
    assert called(functools.lru_cache(Greeter.twice), number=3) == 6


def test_a_wrapper_that_does_not_say_what_it_wraps():
    def wrapper(*args, **kwargs):
        pass

    assert "`*args` cannot be filled" in refused(wrapper)


def test_a_builtin_function():
    assert "cannot be filled" in refused(divmod)


def test_asynchronous_functions_are_refused():
    async def f():
        pass

    async def generator():
        yield 1

    class Callable:
        async def __call__(self):
            pass

    for function in (f, generator, functools.partial(f), Callable(), Callable().__call__):
        assert "is asynchronous; a plain function may block" in refused(function)
    assert "test_asynchronous_functions_are_refused.<locals>.f " in refused(f)


# ------------------------------------------------------------------------ the author's mistakes


def test_a_bad_hint_names_function_and_hint():
    def f(a: int, number: list[complex]):
        pass

    said = refused(f)
    assert "test_a_bad_hint_names_function_and_hint.<locals>.f" in said
    assert "complex" in said


@pytest.mark.parametrize("hint", ["Nowhere", "list[Nowhere]", "typing.Nothing", "list["])
def test_a_hint_that_cannot_be_read(hint):
    def f(a):
        pass

    f.__annotations__ = {"a": hint}
    assert refused(f).endswith("hints must be importable from its module")


def test_a_hint_inside_a_class_that_cannot_be_read():
    @dataclasses.dataclass
    class Lost:
        a: Nowhere  # noqa: F821

    def f(lost):
        pass

    f.__annotations__ = {"lost": Lost}
    assert "name 'Nowhere' is not defined" in refused(f)


def test_a_default_that_does_not_fit():
    def f(a: int = "x"):
        pass

    assert refused(f).endswith("the default of a does not fit its type: must be an integer, not 'x'")


def test_a_bound_that_means_nothing():
    def f(a: Annotated[str, Bounds(ge=1)]):
        pass

    assert refused(f).endswith("ge=1 means nothing for a string")


# -------------------------------------------------------------------------------- return


def test_return_hints():
    def none():
        pass

    def some() -> list[Item]:
        pass

    assert return_hint(none) is inspect.Signature.empty
    assert return_hint(some) == list[Item]
    assert return_hint(lambda: None) is inspect.Signature.empty


# -------------------------------------------------------------------- any function at all


@settings(deadline=None, max_examples=60)
@given(st.data(), st.lists(kinds(), max_size=3))
def test_a_function_gets_back_what_its_caller_meant(data, parameters):
    names = ("one", "two", "three")[: len(parameters)]

    def function(**given):
        return given

    signature = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    function.__signature__ = inspect.Signature(signature)
    function.__annotations__ = {n: k.hint for n, k in zip(names, parameters, strict=True)}
    found = read(function)
    assert sorted(found.schema.get("required", [])) == sorted(names)
    arguments = data.draw(st.fixed_dictionaries(dict.fromkeys(names, st.just({"no": "thing"}))))
    is_valid = jsonschema.Draft202012Validator(found.schema).is_valid(arguments)
    try:
        assert function(**found.load(arguments)).keys() == set(names)
    except Mismatch as problem:
        assert not is_valid or any(word in json.dumps(found.schema) for word in ("format", "Encoding"))
        assert any(name in str(problem) for name in names)
    else:
        assert is_valid


# -- functions that take one dict -------------------------------------------------------------


def take(arguments):
    return arguments


def take_with_context(arguments, ctx: Context, more=None):
    return arguments


def take_by_keyword(*, arguments=None):
    return arguments


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (take, (None, "arguments")),
        (take_with_context, ("ctx", "arguments")),
        (take_by_keyword, (None, "arguments")),
        (functools.partial(take_with_context, more=1), ("ctx", "arguments")),
    ],
)
def test_of_a_function_that_takes_one_dict_the_parameters_are_known(function, found):
    assert takes_one(function, Context) == found


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: None, "it takes its arguments as one dict"),
        (lambda one, other: None, "it takes its arguments as one dict"),
        (lambda *many: None, "cannot be filled by name"),
        (lambda **many: None, "it takes its arguments as one dict"),
        (lambda one, /: None, "cannot be filled by name"),
    ],
)
def test_a_function_that_cannot_take_one_dict_is_refused(function, says):
    with pytest.raises(TypeError, match=says):
        takes_one(function, Context)
