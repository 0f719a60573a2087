"""runtime/typing/hints: what `typing` leaves to its users."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import typing
from typing import Annotated, Any, NotRequired, Required, TypedDict, TypeVar

import pytest

from mcp_ref.runtime.typing.hints import fields_of, kind_of, replacement_for, required_hint

K = TypeVar("K")


@pytest.mark.parametrize(
    ("hint", "otherwise", "found"),
    [
        (int, True, (int, True)),
        (int, False, (int, False)),
        (Required[int], False, (int, True)),
        (NotRequired[int], True, (int, False)),
        (Annotated[Required[int], "a"], False, (Annotated[int, "a"], True)),
        (Required[Annotated[int, "a"]], False, (Annotated[int, "a"], True)),
        (Annotated[int, "a"], False, (Annotated[int, "a"], False)),
    ],
)
def test_required_or_not(hint, otherwise, found):
    assert required_hint(hint, otherwise) == found


def test_the_class_behind_a_hint():
    assert kind_of(int) is int
    assert kind_of(list[int]) is list
    assert kind_of(Annotated[Annotated[dict[str, int], 1], 2]) is dict
    assert kind_of(Any) is Any


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (typing.NewType("Metres", float), "the type that it is made of, <class 'float'>"),
        (TypeVar("Number", int, float), "its types themselves, <class 'int'> | <class 'float'>"),
        (collections.abc.Iterator[int], "Iterable[...] or list[...], which a generator may fill as well"),
        (collections.abc.Generator[int, None, None], "Iterable[...] or list[...]"),
        (K, "the type that it stands for"),
        (complex, "one of the types listed in mcp_ref.schema"),
    ],
)
def test_what_to_write_in_place_of_a_hint(hint, words):
    assert replacement_for(hint).startswith(words)


class Point(typing.NamedTuple):
    x: int
    y: int = 0


class Member(TypedDict, total=False):
    name: Required[str]
    age: int


@dataclasses.dataclass
class Order:
    number: int
    parts: list[str] = dataclasses.field(default_factory=list)
    paid: bool = False
    total: float = dataclasses.field(init=False, default=0.0)


@dataclasses.dataclass
class Secret:
    word: dataclasses.InitVar[str]


@pytest.mark.parametrize(
    ("hint", "fields"),
    [
        (Point, [("x", int, True, None), ("y", int, False, 0)]),
        (Member, [("name", str, True, None), ("age", int, False, None)]),
        (Order, [("number", int, True, None), ("parts", list[str], False, []), ("paid", bool, False, False)]),
        (
            collections.namedtuple("Old", "a b", defaults=[1]),
            [("a", Any, True, None), ("b", Any, False, 1)],
        ),
    ],
)
def test_the_fields_of_a_record_have_their_hints_and_defaults(hint, fields):
    assert [(f.name, f.hint, f.required, f.default) for f in fields_of(hint)] == fields


def test_a_record_that_cannot_be_read_back_is_refused():
    with pytest.raises(TypeError, match="InitVar"):
        fields_of(Secret)
