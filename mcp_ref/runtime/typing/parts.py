"""Values with parts: what runtime/typing/values does to objects, arrays and alternatives at run time.

All faults of all parts are reported in one error, each with its place.

Threads     plain functions.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any

from mcp_ref.runtime.typing.budget import Exhausted, budget
from mcp_ref.runtime.typing.codec import UNCHANGED, Codec, Convert, Schema, json_kind, same
from mcp_ref.runtime.typing.mismatch import MAX_FAULTS, Mismatch, message_of, must, summary

__all__ = [
    "check_different",
    "choice",
    "convert_each",
    "convert_members",
    "convert_row",
    "equality_key",
    "first",
    "object_dumper",
    "object_loader",
    "text_key",
]


# -- arrays and maps ----------------------------------------------------------------------


def convert_each(convert: Convert, values: list[Any]) -> list[Any]:
    """All items converted."""
    done, problems = [], []
    for index, value in enumerate(values):
        try:
            done.append(convert(value))
        except Mismatch as problem:
            problems.append(problem.under(index))
            if len(problems) == MAX_FAULTS:
                break
    if problems:
        raise Mismatch.all(problems)
    return done


def convert_row(converts: list[Convert], values: Iterable[Any]) -> list[Any]:
    """All items converted, each by the conversion of its place."""
    return convert_each(lambda pair: pair[0](pair[1]), list(zip(converts, values, strict=True)))


def convert_members(load_key: Convert, load: Convert, value: Mapping[Any, Any]) -> dict[Any, Any]:
    """All keys and values of a map converted."""
    done, problems = {}, []
    key_kind, kind = UNCHANGED.get(load_key), UNCHANGED.get(load)
    for key, item in value.items():
        try:
            name = key if type(key) is key_kind else load_key(key)
            if name in done:
                raise Mismatch("is the same key as another one")
            done[name] = item if type(item) is kind or load is same else load(item)
        except Mismatch as problem:
            problems.append(problem.under(key))
            if len(problems) == MAX_FAULTS:
                break
    if problems:
        raise Mismatch.all(problems)
    return done


def text_key(key: Any) -> str:
    """A key of a map whose keys no hint describes."""
    if isinstance(key, str):
        return key
    raise Mismatch(f"a key of a JSON object is a string, not {summary(key)}")


def check_different(values: list[Any]) -> None:
    """JSON Schema's `uniqueItems`. Raises Mismatch."""
    if len({equality_key(value) for value in values}) != len(values):
        raise must("hold no item twice", values)


def equality_key(value: Any) -> Any:
    """A key that is equal for values that JSON Schema calls equal: 1 and true differ, 1 and 1.0 do not."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *map(equality_key, value))
    if isinstance(value, dict):
        return (dict, frozenset((k, equality_key(v)) for k, v in value.items()))
    return value


# -- objects ------------------------------------------------------------------------------


def object_loader(
    loads: dict[str, Convert], required: list[str], constants: list[str], make: Any, closed: bool
) -> Convert:
    """A JSON object -> a `make`; the members named in `constants` tell whether it is meant for one."""
    rest = _refusal(loads) if closed else same
    kinds = _unchanged(loads)

    def load(value: Any) -> Any:
        if not isinstance(value, dict):
            raise must("be an object", value)
        for name in constants:
            if name in value:
                try:
                    loads[name](value[name])
                except Mismatch as problem:
                    raise problem.under(name) from None
        done = _fields(loads, kinds, required, value, rest)
        return done if make is dict else _construct(make, done)

    return load


def object_dumper(dumps: dict[str, Convert], required: list[str], make: Any, rest: Convert | None) -> Convert:
    """A `make` or its members -> a JSON object; `rest` dumps unknown members; None refuses them."""
    kinds, others = _unchanged(dumps), rest or _refusal(dumps)

    def dump(value: Any) -> Any:
        if not isinstance(value, Mapping):
            if not isinstance(value, make):  # another type with these attributes may have more of them
                raise must(f"be {'an object' if make is dict else f'a {make.__name__}'}", value)
            value = {name: getattr(value, name) for name in dumps}
        return _fields(dumps, kinds, required, value, others)

    return dump


def _unchanged(converts: dict[str, Convert]) -> dict[str, type]:
    """The members that a value of this type stays in as it is."""
    return {name: UNCHANGED[convert] for name, convert in converts.items() if convert in UNCHANGED}


def _refusal(converts: dict[str, Convert]) -> Convert:
    """The conversion of unknown members where there may be none."""

    def refuse(value: Any) -> Any:
        raise Mismatch(f"is not known here; known: {', '.join(converts) or 'none'}")

    return refuse


def _fields(
    converts: dict[str, Convert],
    kinds: dict[str, type],
    required: list[str],
    value: Mapping[Any, Any],
    rest: Convert,
) -> dict[str, Any]:
    """The members of an object converted, unknown ones by `rest`."""
    done, problems = {}, []
    for name, item in value.items():
        if type(item) is kinds.get(name):
            done[name] = item
            continue
        convert = converts.get(name, rest)
        try:
            key = name if type(name) is str else text_key(name)
            done[key] = item if convert is same else convert(item)
        except Mismatch as problem:
            problems.append(problem.under(name))
            if len(problems) == MAX_FAULTS:
                break
    problems += [Mismatch("is required", (name,)) for name in required if name not in value]
    if problems:
        raise Mismatch.all(problems)
    return done


def _construct(make: Any, members: dict[str, Any]) -> Any:
    """The dataclass itself, whose `__post_init__` may have rules of its own."""
    try:
        return make(**members)
    except Exception as problem:
        raise Mismatch(message_of(problem)) from problem


# -- alternatives -------------------------------------------------------------------------

MAX_ALTERNATIVES = 20_000
"""Alternatives that are tried for one value: those within alternatives multiply."""


def first(converts: list[Convert], value: Any, says: str) -> Any:
    """The value converted by the first alternative that it fits."""
    problems = []
    with budget().limited(MAX_ALTERNATIVES) as left:
        for convert in converts:
            left.spend(1)
            try:
                return convert(value)
            except Exhausted:
                raise
            except Mismatch as problem:
                problems.append(problem)
    raise _complaint(problems) or must(f"be {says}", value)


def _complaint(problems: list[Mismatch]) -> Mismatch | None:
    """The fault of the alternative that was meant.

    That is one of which only a part was wrong, and not the constant that tells it from the others.
    """
    near = [p for p in problems if p.is_right_type or any(path for path, _ in p.faults)]
    meant = [p for p in near if not p.is_another_kind]
    if meant:
        return min(meant, key=lambda p: len(p.faults))
    return Mismatch.all(near) if near else None


# -- choices ------------------------------------------------------------------------------


def choice(values: Iterable[Any]) -> Codec:
    """The codec of a Literal's values, or of an Enum's members: one of a few constants."""
    table = {equality_key(_constant(value)): value for value in values}
    constants = [_constant(value) for value in table.values()]
    if not constants:
        raise TypeError("a choice of nothing")
    names = ", ".join(map(summary, constants))
    says = names if len(constants) == 1 else f"one of {names}"

    def load(value: Any) -> Any:
        try:
            return table[equality_key(value)]
        except (KeyError, TypeError):
            raise must(f"be {says}", value, another_kind=True) from None

    def dump(value: Any) -> Any:
        constant = value.value if isinstance(value, enum.Enum) else value
        load(constant)
        return constant

    return Codec(_choice_schema(constants), load, dump, says)


def _constant(value: Any) -> Any:
    constant = value.value if isinstance(value, enum.Enum) else value
    is_json = isinstance(constant, str | int | float | None)
    if not is_json or (isinstance(constant, float) and not math.isfinite(constant)):
        raise TypeError(f"a choice must be a JSON constant, not {constant!r}")
    return constant


def _choice_schema(constants: list[Any]) -> Schema:
    schema: Schema = {"const": constants[0]} if len(constants) == 1 else {"enum": constants}
    kinds = {json_kind(constant) for constant in constants}
    return {"type": kinds.pop(), **schema} if len(kinds) == 1 else schema
