"""Limits on a value: `Annotated[int, Bounds(ge=0, le=10)]`.

What is tested is the JSON, on its way in and on its way out, so that it is what the schema says.
One kind is tested further than a schema can say: the number that a Decimal's string stands for.

Threads     plain functions.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

from mcp_ref.runtime.typing import scalars
from mcp_ref.runtime.typing.codec import Codec, Schema
from mcp_ref.runtime.typing.mismatch import must

__all__ = ["LIMITS", "Bounds", "bounded"]


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Limits on a value, to be written `Annotated[int, Bounds(ge=0, le=10)]`.

    The names are those of the `annotated-types` package, whose objects are understood as well.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None


# name -> (keyword, JSON types it limits, rule, test); as in JSON Schema, other types pass.
_NUMBERS, _SIZED = ("integer", "number"), ("string", "array", "object")
_BOUNDS: dict[str, tuple[str, tuple[str, ...], str, Callable[[Any, Any], bool]]] = {
    "ge": ("minimum", _NUMBERS, "be at least {}", lambda v, b: v >= b),
    "gt": ("exclusiveMinimum", _NUMBERS, "be more than {}", lambda v, b: v > b),
    "le": ("maximum", _NUMBERS, "be at most {}", lambda v, b: v <= b),
    "lt": ("exclusiveMaximum", _NUMBERS, "be less than {}", lambda v, b: v < b),
    "multiple_of": ("multipleOf", _NUMBERS, "be a multiple of {}", scalars.divides),
    "min_length": ("minLength", _SIZED, "be at least {} long", lambda v, b: len(v) >= b),
    "max_length": ("maxLength", _SIZED, "be at most {} long", lambda v, b: len(v) <= b),
    "pattern": ("pattern", ("string",), "match {}", scalars.matches),
}
LIMITS = tuple(_BOUNDS)
"""The names of all limits."""

_SIZES = {"string": "Length", "array": "Items", "object": "Properties"}


def bounded(codec: Codec, mark: Any) -> Codec:
    """The codec with the limits of a `Bounds` (or of an annotated-types object) on it."""
    schema, tests = dict(codec.schema), []
    if isinstance(getattr(mark, "format", None), str):
        schema["format"] = mark.format
    types = _types(codec.schema)
    for name, (keyword, kinds, says, test) in _BOUNDS.items():
        bound = getattr(mark, name, None)
        if bound is None:
            continue
        limited = [kind for kind in kinds if not types or kind in types]
        _check_bound(name, bound, limited, codec)
        for written in dict.fromkeys(_keyword(keyword, kind) for kind in limited):
            _also(schema, written, bound)
        tests.append((kinds, test, bound, says.format(bound)))
    if not tests:
        return dataclasses.replace(codec, schema=schema)

    def check(value: Any) -> None:
        kind = scalars.json_kind(value)
        for kinds, test, bound, says in tests:
            if kind in kinds and not test(value, bound):
                problem = must(says, value)
                problem.is_right_type = True
                raise problem

    def load(value: Any) -> Any:
        done = codec.load(value)
        check(done if scalars.is_decimal(done) else value)
        return done

    def dump(value: Any) -> Any:
        done = codec.dump(value)
        check(value if scalars.is_decimal(value) else done)
        return done

    return Codec(schema, load, dump, codec.says)


def _types(schema: Schema) -> set[str]:
    """The JSON types that a schema lets pass; none where it does not say."""
    if "anyOf" in schema:
        parts = [_types(part) for part in schema["anyOf"]]
        return set().union(*parts) if all(parts) else set()
    said = schema.get("type", [])
    return {said} if isinstance(said, str) else set(said)


def _check_bound(name: str, bound: Any, limited: list[str], codec: Codec) -> None:
    """A bound that could limit nothing, or is none itself, is the author's mistake."""
    if not limited:
        raise TypeError(f"the bound {name}={bound!r} means nothing for {codec.says}")
    if name == "pattern":
        try:
            re.compile(bound)
        except (re.error, TypeError) as problem:
            raise TypeError(f"{bound!r} is not a pattern: {problem}") from None
    elif isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
        raise TypeError(f"the bound {name}={bound!r} is not a number")
    elif (name == "multiple_of" and bound <= 0) or (name.endswith("length") and bound < 0):
        raise TypeError(f"the bound {name}={bound!r} is too small")


def _keyword(keyword: str, kind: str) -> str:
    """The length of an array is `minItems`, that of an object `minProperties`."""
    return keyword.replace("Length", _SIZES.get(kind, "Length"))


def _also(schema: Schema, keyword: str, bound: Any) -> None:
    """Add a keyword; where one is there already, both hold."""
    if schema.get(keyword, bound) == bound:
        schema[keyword] = bound
    else:
        schema["allOf"] = [*schema.get("allOf", []), {keyword: bound}]
