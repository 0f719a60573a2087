"""Limits on a value: `Annotated[int, Bounds(ge=0, le=10)]`.

What is tested is the JSON, on its way in and on its way out, so that it is what the schema says.

Threads     plain functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from mcp_ref.runtime import scalars
from mcp_ref.runtime.codec import Codec, Schema
from mcp_ref.runtime.mismatch import must

__all__ = ["Bounds", "bounded"]


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
_SIZES = {
    "array": {"minLength": "minItems", "maxLength": "maxItems"},
    "object": {"minLength": "minProperties", "maxLength": "maxProperties"},
}


def bounded(codec: Codec, mark: Any) -> Codec:
    """The codec with the limits of a `Bounds` (or of an annotated-types object) on it."""
    schema, tests = dict(codec.schema), []
    if getattr(mark, "format", None) is not None:
        schema["format"] = mark.format
    for name, (keyword, kinds, says, test) in _BOUNDS.items():
        bound = getattr(mark, name, None)
        if bound is not None:
            schema[_keyword(keyword, schema)] = bound
            tests.append((kinds, test, bound, says.format(bound)))
    if not tests:
        return dataclasses.replace(codec, schema=schema)

    def check(value: Any) -> None:
        kind = scalars.json_kind(value)
        for kinds, test, bound, says in tests:
            if kind in kinds and not test(value, bound):
                raise must(says, value)

    def load(value: Any) -> Any:
        done = codec.load(value)
        check(value)
        return done

    def dump(value: Any) -> Any:
        done = codec.dump(value)
        check(done)
        return done

    return Codec(schema, load, dump, codec.says)


def _keyword(keyword: str, schema: Schema) -> str:
    """The length of an array is `minItems`, that of an object `minProperties`."""
    for part in (schema, *schema.get("anyOf", ())):
        if part.get("type") in _SIZES:
            return _SIZES[part["type"]].get(keyword, keyword)
    return keyword
