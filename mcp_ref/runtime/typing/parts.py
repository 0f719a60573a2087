"""Values with parts: what runtime/typing/values does to objects, arrays and alternatives at run time.

Everything here gathers the faults of all parts before it complains, each with its place.

Threads     plain functions.
"""

from __future__ import annotations

import enum
import math
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from mcp_ref.runtime.typing import scalars
from mcp_ref.runtime.typing.codec import Codec, Convert, Schema
from mcp_ref.runtime.typing.mismatch import MANY, Mismatch, must, shown, told

__all__ = [
    "all_different",
    "choice",
    "each",
    "first",
    "identity",
    "members",
    "object_dumper",
    "object_loader",
    "row",
    "same",
    "text_key",
]


def same(value: Any) -> Any:
    return value


def each(convert: Convert, values: list[Any]) -> list[Any]:
    done, problems = [], []
    for index, value in enumerate(values):
        try:
            done.append(convert(value))
        except Mismatch as problem:
            problems.append(problem.under(index))
            if len(problems) == MANY:
                break
    if problems:
        raise Mismatch.all(problems)
    return done


def row(converts: list[Convert], values: Iterable[Any]) -> list[Any]:
    """Like `each`, where every place has a conversion of its own."""
    done: list[Any] = []
    problems: list[Mismatch] = []
    for index, (convert, value) in enumerate(zip(converts, values, strict=True)):
        try:
            done.append(convert(value))
        except Mismatch as problem:
            problems.append(problem.under(index))
    if problems:
        raise Mismatch.all(problems)
    return done


def all_different(values: list[Any]) -> None:
    """JSON Schema's `uniqueItems`."""
    if len({identity(value) for value in values}) != len(values):
        raise must("hold no item twice", values)


def members(load_key: Convert, load: Convert, value: Mapping[Any, Any]) -> dict[Any, Any]:
    done, problems = {}, []
    for key, item in value.items():
        try:
            name = load_key(key)
            if name in done:
                raise Mismatch("is the same key as another one")
            done[name] = load(item)
        except Mismatch as problem:
            problems.append(problem.under(key))
            if len(problems) == MANY:
                break
    if problems:
        raise Mismatch.all(problems)
    return done


def object_loader(
    loads: dict[str, Convert],
    required: list[str],
    constants: list[str],
    make: Any,
    closed: bool,
) -> Convert:
    """A JSON object -> a `make`; the members named in `constants` tell whether it is meant for one."""

    def load(value: Any) -> Any:
        if not isinstance(value, dict):
            raise must("be an object", value)
        for name in constants:
            if name in value:
                try:
                    loads[name](value[name])
                except Mismatch as problem:
                    raise problem.under(name) from None
        done: dict[str, Any] = {}
        problems: list[Mismatch] = []
        for name, item in value.items():
            convert = loads.get(name)
            if convert is None:
                if closed and len(problems) < MANY:
                    problems.append(Mismatch(_unknown(loads), (name,)))
                elif not closed:
                    done[name] = item
                continue
            try:
                done[name] = convert(item)
            except Mismatch as problem:
                problems.append(problem.under(name))
        problems += [Mismatch("is required", (n,)) for n in required if n not in value]
        if problems:
            raise Mismatch.all(problems)
        return done if make is dict else _made(make, done)

    return load


def _unknown(known: Iterable[str]) -> str:
    return f"is not known here; known: {', '.join(known) or 'none'}"


def _made(make: Any, members: dict[str, Any]) -> Any:
    """The dataclass itself, whose `__post_init__` may have rules of its own."""
    try:
        return make(**members)
    except Exception as problem:
        raise Mismatch(told(problem)) from problem


def object_dumper(dumps: dict[str, Convert], required: list[str], make: Any, rest: Convert | None) -> Convert:
    """A `make` or its members -> a JSON object; `rest` dumps what is not known, None refuses it."""

    def dump(value: Any) -> Any:
        if not isinstance(value, Mapping):
            if not isinstance(value, make):  # another type with these attributes may have more of them
                raise must(f"be {'an object' if make is dict else f'a {make.__name__}'}", value)
            value = {name: getattr(value, name) for name in dumps}
        done, problems = {}, []
        for name, item in value.items():
            try:
                convert = dumps.get(name, rest)
                if convert is None:
                    raise Mismatch(_unknown(dumps))
                done[text_key(name)] = convert(item)
            except Mismatch as problem:
                problems.append(problem.under(name))
        problems += [Mismatch("is required", (n,)) for n in required if n not in value]
        if problems:
            raise Mismatch.all(problems)
        return done

    return dump


def text_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise Mismatch(f"a key of a JSON object is a string, not {shown(key)}")


MAX_TRIES = 20_000
"""Alternatives that are tried for one value: those within alternatives multiply."""


class TooManyWays(Mismatch):
    """A value that fits no alternative so deep inside that finding out would take for ever."""


class _Effort(threading.local):
    """What this thread has tried for the value that it is at."""

    depth = tries = 0

    def __enter__(self) -> None:
        self.tries = self.tries if self.depth else 0
        self.depth += 1

    def __exit__(self, *exception: object) -> None:
        self.depth -= 1

    def spend(self) -> None:
        self.tries += 1
        if self.tries > MAX_TRIES:
            raise TooManyWays("fits none of the alternatives, in too many ways to tell why")


_effort = _Effort()


def first(converts: list[Convert], value: Any, says: str) -> Any:
    """The first alternative that fits. If none does, the complaint of the one that was meant.

    That is one of which only a part was wrong, and not the constant that tells it from the others.
    """
    problems = []
    with _effort:
        for convert in converts:
            _effort.spend()
            try:
                return convert(value)
            except TooManyWays:
                raise
            except Mismatch as problem:
                problems.append(problem)
    near = [p for p in problems if p.is_right_type or any(path for path, _ in p.faults)]
    meant = [p for p in near if not p.is_another_kind]
    if meant:
        raise min(meant, key=lambda p: len(p.faults))
    raise Mismatch.all(near) if near else must(f"be {says}", value)


def identity(value: Any) -> Any:
    """Equality as JSON has it: 1 and true differ, 1 and 1.0 do not."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *map(identity, value))
    if isinstance(value, dict):
        return (dict, frozenset((k, identity(v)) for k, v in value.items()))
    return value


def choice(values: Iterable[Any], enumeration: Any) -> Codec:
    """A Literal, or an Enum: one of a few constants."""
    values = list(values)
    table = {}
    for value in values:
        constant = value.value if isinstance(value, enum.Enum) else value
        if not isinstance(constant, str | int | float | bool | None):
            raise TypeError(f"a choice must be a JSON constant, not {constant!r}")
        if isinstance(constant, float) and not math.isfinite(constant):
            raise TypeError(f"a choice must be a JSON constant, not {constant!r}")
        table[identity(constant)] = value if enumeration is None else enumeration(value)
    if not values:
        raise TypeError("a choice of nothing")
    constants = [v.value if isinstance(v, enum.Enum) else v for v in values]
    names = ", ".join(shown(c) for c in constants)
    says = names if len(constants) == 1 else f"one of {names}"

    def load(value: Any) -> Any:
        try:
            return table[identity(value)]
        except (KeyError, TypeError):
            raise must(f"be {says}", value, another_kind=True) from None

    def dump(value: Any) -> Any:
        load(value.value if isinstance(value, enum.Enum) else value)
        return value.value if isinstance(value, enum.Enum) else value

    schema: Schema = {"const": constants[0]} if len(constants) == 1 else {"enum": constants}
    kinds = {scalars.json_kind(c) for c in constants}
    if len(kinds) == 1:
        schema = {"type": kinds.pop(), **schema}
    return Codec(schema, load, dump, says)
