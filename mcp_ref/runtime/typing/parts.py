"""Values with parts: the conversions of objects and arrays of which runtime/typing/values makes its codecs.

The faults of all parts, up to MAX_FAULTS, are reported in one error, each with its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp_ref.runtime.typing.codec import UNCHANGED, Convert, same, text_key
from mcp_ref.runtime.typing.mismatch import MAX_FAULTS, Mismatch, message_of, must

__all__ = [
    "check_different",
    "construct",
    "convert_each",
    "convert_members",
    "convert_row",
    "equality_key",
    "map_loader",
    "object_dumper",
    "object_loader",
]


def convert_each(convert: Convert, values: list[Any]) -> list[Any]:
    """All items converted by one conversion. Raises Mismatch."""
    done, problems = [], []
    for index, value in enumerate(values):
        try:
            done.append(convert(value))
        except Mismatch as problem:
            problems.append(problem.under(index).without_frames())
            if len(problems) == MAX_FAULTS:
                break
    if problems:
        raise Mismatch.all(problems)
    return done


def convert_row(converts: list[Convert], values: Iterable[Any]) -> list[Any]:
    """All items converted, each by the conversion at its own place. Raises Mismatch."""
    return convert_each(lambda pair: pair[0](pair[1]), list(zip(converts, values, strict=True)))


def map_loader(load_key: Convert, load: Convert) -> Convert:
    """A loader: a JSON object -> a dict with its keys and values converted."""
    has_plain_keys = UNCHANGED.get(load_key) is str

    def load_map(value: Any) -> Any:
        if not isinstance(value, dict):
            raise must("be an object", value)
        if not has_plain_keys or not {*map(type, value)} <= {str}:
            return convert_members(load_key, load, value)
        if load is same:
            return dict(value)
        try:
            return dict(zip(value, map(load, value.values()), strict=True))
        except Mismatch:
            return convert_members(load_key, load, value)  # which says where, and what else is wrong

    return load_map


def convert_members(load_key: Convert, load: Convert, value: Mapping[Any, Any]) -> dict[Any, Any]:
    """All members converted, with their keys. Raises Mismatch, also if two keys become the same one."""
    done, problems = {}, []
    key_kind, kind = UNCHANGED.get(load_key), UNCHANGED.get(load)
    for key, item in value.items():
        try:
            name = key if type(key) is key_kind else load_key(key)
            if name in done:
                raise Mismatch("is the same key as another one")
            done[name] = item if type(item) is kind or load is same else load(item)
        except Mismatch as problem:
            problems.append(problem.under(key).without_frames())
            if len(problems) == MAX_FAULTS:
                break
    if problems:
        raise Mismatch.all(problems)
    return done


def check_different(values: list[Any]) -> None:
    """Raises Mismatch if JSON Schema's `uniqueItems` does not hold."""
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


def object_loader(
    loads: dict[str, Convert], required: list[str], constants: list[str], make: Any, closed: bool
) -> Convert:
    """A loader: a JSON object -> what `make` makes of its members. A `closed` one refuses unknown members.

    The members named in `constants` are checked first: they tell whether the object is meant for this type.
    """
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
        return done if make is dict else construct(make, done)

    return load


def object_dumper(dumps: dict[str, Convert], required: list[str], make: Any, rest: Convert | None) -> Convert:
    """A dumper: a `make`, or a mapping of its members -> a JSON object.

    `rest` dumps unknown members; None refuses them.
    """
    kinds, others = _unchanged(dumps), rest or _refusal(dumps)

    def dump(value: Any) -> Any:
        if not isinstance(value, Mapping):
            if not isinstance(value, make):  # another type with these attributes may have more of them
                raise must(f"be {'an object' if make is dict else f'a {make.__name__}'}", value)
            value = {name: getattr(value, name) for name in dumps}
        return _fields(dumps, kinds, required, value, others)

    return dump


def _unchanged(converts: dict[str, Convert]) -> dict[str, type]:
    """The members whose conversion leaves values of one type as they are, with that type."""
    return {name: UNCHANGED[convert] for name, convert in converts.items() if convert in UNCHANGED}


def _refusal(converts: dict[str, Convert]) -> Convert:
    """The conversion of unknown members that refuses them: it raises Mismatch."""

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
    """The members of an object converted, unknown ones by `rest`. Raises Mismatch, also for missing ones."""
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
            problems.append(problem.under(name).without_frames())
            if len(problems) == MAX_FAULTS:
                break
    problems += [Mismatch("is required", (name,)) for name in required if name not in value]
    if problems:
        raise Mismatch.all(problems)
    return done


def construct(make: Any, members: dict[str, Any]) -> Any:
    """An instance of a class. Raises Mismatch for whatever the class raises, by its own rules for values."""
    try:
        return make(**members)
    except Exception as problem:
        raise Mismatch(message_of(problem)) from problem
