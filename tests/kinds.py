"""Type hints of all kinds with values that fit them, for tests that draw them at random.

`kinds()` draws a `Kind`: a hint, a strategy for its Python values, and whether each value comes back
equal from its JSON (of `bytes | str`, say, it cannot).
"""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import re
import typing
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, TypedDict

from hypothesis import strategies as st

from mcp_ref.runtime.typing.bounds import Bounds


class Kind(NamedTuple):
    hint: Any
    values: st.SearchStrategy[Any]
    exact: bool = True


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"
    HALF = 0.5


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


floats = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=2)
stamps = st.datetimes(timezones=st.sampled_from([None, datetime.UTC]))
text = st.text(max_size=8)
whole = st.integers(-(10**20), 10**20)

HASHABLE = [
    Kind(int, whole),
    Kind(float, floats),
    Kind(str, text),
    Kind(bool, st.booleans()),
    Kind(None, st.none()),
    Kind(bytes, st.binary(max_size=8)),
    Kind(datetime.datetime, stamps),
    Kind(datetime.date, st.dates()),
    Kind(datetime.time, st.times()),
    Kind(uuid.UUID, st.uuids()),
    Kind(decimal.Decimal, decimals),
    Kind(pathlib.Path, text.map(pathlib.Path)),
    Kind(Color, st.sampled_from(Color)),
    Kind(Level, st.sampled_from(Level)),
    Kind(Mixed, st.sampled_from(Mixed)),
    Kind(Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    Kind(Literal[Color.RED], st.just(Color.RED)),
    Kind(Annotated[int, "how many", Bounds(ge=0, lt=10)], st.integers(0, 9)),
    Kind(Annotated[int, Bounds(multiple_of=3)], whole.map(lambda n: n * 3)),
    Kind(Annotated[float, Bounds(gt=0, le=1)], st.floats(0.0625, 1)),
    Kind(Annotated[str, Bounds(min_length=1, max_length=3)], st.text(min_size=1, max_size=3)),
    Kind(Annotated[str, Bounds(pattern="^[a-c]*$")], st.text("abc", max_size=4)),
]
SET_ITEMS = [kind for kind in HASHABLE if kind.hint != Literal["a", 1, True, None]]
"""Not what has 1 and True, two values in JSON and one in Python: test_values has that by itself."""
KEYS = [
    Kind(str, text),
    Kind(int, whole),
    Kind(uuid.UUID, st.uuids()),
    Kind(datetime.date, st.dates()),
    Kind(Color, st.sampled_from(Color)),
    Kind(Literal["x", "y"], st.sampled_from(["x", "y"])),
    Kind(Annotated[str, Bounds(max_length=2)], st.text(max_size=2)),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | floats | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
LEAVES = [*HASHABLE, Kind(Any, json_values)]
SIMPLE_CONTAINERS = [
    Kind(list[int], st.lists(whole, max_size=3)),
    Kind(set[int], st.sets(whole, min_size=1, max_size=3)),
    Kind(tuple[()], st.just(())),
    Kind(tuple[int, str], st.tuples(whole, text)),
    Kind(dict[int, bool], st.dictionaries(whole, st.booleans(), max_size=3)),
    Kind(int | None, whole | st.none()),
    Kind(float | list[float], floats | st.lists(floats)),
    Kind(Annotated[str | None, Bounds(min_length=2)], st.none() | st.text(min_size=2, max_size=4)),
]
NAMES = ("a", "b", "c")


def _list(draw: Any, inner: Any) -> Kind:
    item = draw(inner)
    if draw(st.booleans()):
        return Kind(list[item.hint], st.lists(item.values, max_size=3), item.exact)
    bounded = Annotated[list[item.hint], Bounds(min_length=1, max_length=2)]
    return Kind(bounded, st.lists(item.values, min_size=1, max_size=2), item.exact)


def _tuple(draw: Any, inner: Any) -> Kind:
    if draw(st.booleans()):
        item = draw(inner)
        return Kind(tuple[item.hint, ...], st.lists(item.values, max_size=3).map(tuple), item.exact)
    items = draw(st.lists(inner, max_size=3))
    hint = tuple[tuple(i.hint for i in items)] if items else tuple[()]
    return Kind(hint, st.tuples(*(i.values for i in items)), all(i.exact for i in items))


def _dict(draw: Any, inner: Any) -> Kind:
    key, item = draw(st.sampled_from(KEYS)), draw(inner)
    return Kind(dict[key.hint, item.hint], st.dictionaries(key.values, item.values, max_size=3), item.exact)


def _set(draw: Any, inner: Any) -> Kind:
    item, make = draw(st.sampled_from(SET_ITEMS)), draw(st.sampled_from([set, frozenset]))
    return Kind(make[item.hint], st.sets(item.values, max_size=3).map(make))


def _union(draw: Any, inner: Any) -> Kind:
    kinds = draw(st.lists(inner, min_size=2, max_size=3))
    return Kind(typing.Union[tuple(k.hint for k in kinds)], st.one_of(*(k.values for k in kinds)), False)  # noqa: UP007


def _optional(draw: Any, inner: Any) -> Kind:
    item = draw(inner)
    return Kind(typing.Optional[item.hint], st.none() | item.values, item.exact)  # noqa: UP045


def _fields(draw: Any, inner: Any) -> dict[str, Kind]:
    return {name: draw(inner) for name in NAMES[: draw(st.integers(0, 3))]}


def _dataclass(draw: Any, inner: Any) -> Kind:
    fields = _fields(draw, inner)
    made = dataclasses.make_dataclass(
        "Record",
        [(n, typing.Optional[k.hint], dataclasses.field(default=None)) for n, k in fields.items()],  # noqa: UP045
    )
    if fields and draw(st.booleans()):
        made = dataclasses.make_dataclass("Record", [(n, k.hint) for n, k in fields.items()])
    return Kind(made, st.builds(made, **_values(fields)), all(k.exact for k in fields.values()))


def _named_tuple(draw: Any, inner: Any) -> Kind:
    fields = _fields(draw, inner)
    made: Any = NamedTuple("Row", [(n, k.hint) for n, k in fields.items()])
    return Kind(made, st.builds(made, **_values(fields)), all(k.exact for k in fields.values()))


def _typed_dict(draw: Any, inner: Any) -> Kind:
    fields = _fields(draw, inner)
    must = {name: draw(st.booleans()) for name in fields}
    marked = {n: (Required if must[n] else NotRequired)[k.hint] for n, k in fields.items()}
    made: Any = TypedDict("Shape", marked, total=draw(st.booleans()))  # type: ignore[misc]
    values = _values(fields)
    fixed = st.fixed_dictionaries(
        {n: v for n, v in values.items() if must[n]},
        optional={n: v for n, v in values.items() if not must[n]},
    )
    return Kind(made, fixed, all(k.exact for k in fields.values()))


def _values(fields: dict[str, Kind]) -> dict[str, st.SearchStrategy[Any]]:
    return {name: kind.values for name, kind in fields.items()}


_MAKERS = (_list, _tuple, _dict, _set, _union, _optional, _dataclass, _named_tuple, _typed_dict)


def _container(inner: Any) -> st.SearchStrategy[Kind]:
    @st.composite
    def made(draw: Any) -> Kind:
        return draw(st.sampled_from(_MAKERS))(draw, inner)

    return made()


def kinds() -> st.SearchStrategy[Kind]:
    """A hint of any kind, nested."""
    return st.recursive(st.sampled_from(LEAVES), _container, max_leaves=6)


@st.composite
def spoilt(draw: Any, value: Any) -> Any:
    """JSON that differs from `value` in one place, or in none."""
    how = draw(st.sampled_from(["as it is", "another", "inside", "inside", "more", "less"]))
    if how == "another":
        return draw(json_values)
    if isinstance(value, list):
        return draw(_spoilt_list(how, value))
    if isinstance(value, dict):
        return draw(_spoilt_dict(how, value))
    return draw(spoilt_scalar(value)) if how != "as it is" else value


def spoilt_scalar(value: Any) -> st.SearchStrategy[Any]:
    if isinstance(value, str):
        numbers = [float(value), float(value.partition(".")[0])] if re.fullmatch(r"-?\d+\.\d+", value) else []
        return st.sampled_from([value + "x", value[1:], value.upper(), [value], len(value), *numbers])
    if isinstance(value, int | float) and not isinstance(value, bool):
        return st.sampled_from([0, True, float(value), value + 1, -value, value + 0.5, str(value)])
    return st.sampled_from([value, 0, 1, True, "true"])


@st.composite
def _spoilt_list(draw: Any, how: str, value: list[Any]) -> Any:
    value = list(value)
    if how == "inside" and value:
        at = draw(st.integers(0, len(value) - 1))
        value[at] = draw(spoilt(value[at]))
    if how == "more":
        value.append(draw(st.sampled_from(value) if value else json_values))
    return value[1:] if how == "less" else value


@st.composite
def _spoilt_dict(draw: Any, how: str, value: dict[str, Any]) -> Any:
    value = dict(value)
    if how == "more":
        value[draw(st.sampled_from(["a", "z", "1", "-0", ""]))] = draw(json_values)
    if value and how in ("inside", "less"):
        key = draw(st.sampled_from(sorted(value)))
        item = value.pop(key)
        if how == "inside":
            value[key] = draw(spoilt(item))
    return value
