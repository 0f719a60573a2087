"""One of several things: the alternatives of a union, the constants of a Literal or an Enum."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from typing import Any

from mcp_ref.runtime.typing.budget import Exhausted, budget
from mcp_ref.runtime.typing.codec import Codec, Convert, Schema, json_kind
from mcp_ref.runtime.typing.mismatch import Mismatch, must, summary
from mcp_ref.runtime.typing.parts import equality_key

__all__ = ["choice", "first"]

MAX_ALTERNATIVES = 20_000
"""Alternatives that are tried for one value. Those within alternatives multiply."""


def first(converts: list[Convert], value: Any, says: str) -> Any:
    """The value converted by the first alternative that it fits. Raises Mismatch if it fits none of them."""
    problems = []
    with budget().limited(MAX_ALTERNATIVES) as left:
        for convert in converts:
            left.spend(1)
            try:
                return convert(value)
            except Exhausted:
                raise
            except Mismatch as problem:
                problems.append(problem.without_frames())
    try:
        raise _complaint(problems) or must(f"be {says}", value)
    finally:
        # The error refers to this frame, and this frame to `problems`, which may have the error: such a cycle
        # would keep all that the callers' frames hold.
        problems.clear()


def _complaint(problems: list[Mismatch]) -> Mismatch | None:
    """The fault of the alternative that was probably meant; None if no alternative comes near.

    One was meant if only a part of the value was wrong, and not the constant that tells it from the others.
    If all that come near have another constant, their faults are reported together.
    """
    near = [p for p in problems if p.is_right_type or any(path for path, _ in p.faults)]
    meant = [p for p in near if not p.is_another_kind]
    if meant:
        return min(meant, key=lambda p: len(p.faults))
    return Mismatch.all(near) if near else None


def choice(values: Iterable[Any]) -> Codec:
    """The codec of a Literal or an Enum, whose values are a few constants. Raises TypeError."""
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
    """The JSON of a value of a Literal, or of a member of an Enum. Raises TypeError if it has none."""
    constant = value.value if isinstance(value, enum.Enum) else value
    is_json = isinstance(constant, str | int | float | None)
    if not is_json or (isinstance(constant, float) and not math.isfinite(constant)):
        raise TypeError(f"a choice must be a JSON constant, not {constant!r}")
    return constant


def _choice_schema(constants: list[Any]) -> Schema:
    schema: Schema = {"const": constants[0]} if len(constants) == 1 else {"enum": constants}
    kinds = {json_kind(constant) for constant in constants}
    return {"type": kinds.pop(), **schema} if len(kinds) == 1 else schema
