"""What a compiled hint is made of; runtime/typing/values compiles, runtime/typing/parts and
runtime/typing/bounds help.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Codec", "Convert", "Field", "Schema"]

Schema = dict[str, Any]
Convert = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Codec:
    """A compiled hint."""

    schema: Schema
    load: Convert
    dump: Convert
    says: str
    """What a value must be, in words: "an integer"."""


class Field(NamedTuple):
    """One member of an object: of a dataclass, a TypedDict, a NamedTuple or an argument list."""

    name: str
    hint: Any
    required: bool
    default: Any = None
