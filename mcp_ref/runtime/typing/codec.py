"""Codecs, and those of values without parts: numbers, strings, dates and the like.

    Codec       the JSON Schema of a hint, a loader (JSON -> Python) and a dumper (Python -> JSON)
    scalar_of   the codec of a type whose values have no parts

Threads     a codec has no state; any thread may use it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path, PosixPath, PurePath, PurePosixPath
from typing import Any, NamedTuple

from mcp_ref.runtime.typing.mismatch import Mismatch, must, summary

__all__ = [
    "Codec",
    "Convert",
    "Field",
    "Schema",
    "json_kind",
    "load_int_key",
    "same",
    "scalar_of",
    "text_key",
]

Schema = dict[str, Any]
Convert = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Codec:
    """A compiled type hint. `load` and `dump` raise Mismatch."""

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


def json_kind(value: Any) -> str:
    """JSON Schema's name for the type of a value."""
    if isinstance(value, bool):  # before int, which it extends
        return "boolean"
    return next((word for word, kind in _JSON_KINDS.items() if isinstance(value, kind)), "string")


_JSON_KINDS = {"null": type(None), "integer": int, "number": float, "array": list, "object": dict}


def _load_int(value: Any) -> Any:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON has one kind of number: 1.0 is 1
        return int(value)
    raise must("be an integer", value)


def _dump_int(value: Any) -> Any:
    if type(value) is int:
        return value
    if not isinstance(value, bool) and hasattr(value, "__index__"):  # an IntEnum, a numpy integer
        return int(value.__index__())
    raise must("be an integer", value)


def _load_float(value: Any) -> Any:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise must("be a number that a float can hold", value) from None
    raise must("be a number", value)


def _dump_float(value: Any) -> Any:
    if type(value) is int:
        _load_float(value)
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise must("be a number", value)
    if not math.isfinite(value):
        raise Mismatch(f"JSON has no number for {value}")
    return float(value)


def _load_str(value: Any) -> Any:
    if type(value) is str:
        return value
    raise must("be a string", value)


def _dump_str(value: Any) -> Any:
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise must("be a string", value)


def _bool(value: Any) -> Any:
    if value is True or value is False:
        return value
    raise must("be true or false", value)


def _none(value: Any) -> Any:
    if value is None:
        return None
    raise must("be null", value)


def same(value: Any) -> Any:
    """The conversion that leaves every value as it is."""
    return value


UNCHANGED: dict[Convert, type] = {
    _load_int: int,
    _dump_int: int,
    _load_float: float,
    _load_str: str,
    _dump_str: str,
}
"""Conversions that leave each value of exactly this type as it is, and so need not be called for it."""

INT_KEY = r"^(0|-?[1-9][0-9]{0,4000})$"


def text_key(key: Any) -> str:
    """A key of a map whose keys no hint describes: a string. Raises Mismatch."""
    if isinstance(key, str):
        return key
    raise Mismatch(f"a key of a JSON object is a string, not {summary(key)}")


def load_int_key(value: str) -> int:
    if re.fullmatch(INT_KEY, value) is None:
        raise must("be an integer as a key", value)
    return int(value)


def _text(
    kind: Any, says: str, format: str | None, read: Convert, write: Convert = str, but: Any = ()
) -> Codec:
    """The codec of a type `kind` whose values are strings in JSON; `but` are subclasses of it to refuse."""

    def load(value: Any) -> Any:
        if type(value) is str:
            with contextlib.suppress(ValueError):
                return read(value)
        raise must(f"be {says}", value)

    def dump(value: Any) -> Any:
        if not isinstance(value, kind) or isinstance(value, but):
            raise must(f"be {says}", value)
        return write(value)

    schema = {"format": format} if format else {"contentEncoding": "base64"}
    return Codec({"type": "string", **schema}, load, dump, says)


def _read_datetime(text: str) -> Any:
    if len(text) <= len("2026-07-28"):  # Python would add midnight to a mere date
        raise ValueError("no time")
    return datetime.fromisoformat(text)


_CODECS: dict[Any, Codec] = {
    int: Codec({"type": "integer"}, _load_int, _dump_int, "an integer"),
    float: Codec({"type": "number"}, _load_float, _dump_float, "a number"),
    str: Codec({"type": "string"}, _load_str, _dump_str, "a string"),
    bool: Codec({"type": "boolean"}, _bool, _bool, "true or false"),
    **dict.fromkeys((None, type(None)), Codec({"type": "null"}, _none, _none, "null")),
    datetime: _text(
        datetime,
        "a date and time such as 2026-07-28T12:00:00Z",
        "date-time",
        _read_datetime,
        datetime.isoformat,
    ),
    date: _text(date, "a date such as 2026-07-28", "date", date.fromisoformat, but=datetime),
    time: _text(time, "a time such as 12:00:00", "time", time.fromisoformat),
    bytes: _text(
        bytes, "base64", None, lambda t: b64decode(t, validate=True), lambda b: b64encode(b).decode("ascii")
    ),
    **{kind: _text(kind, "a path", "path", kind) for kind in (Path, PurePath, PosixPath, PurePosixPath)},
}

DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"
_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@functools.cache
def _late_codecs() -> dict[Any, Codec]:
    """The codecs of types whose modules take long to import: they are imported when a hint needs them."""
    import decimal
    import uuid

    def load_decimal(value: Any) -> Any:
        if type(value) is int or (type(value) is float and value.is_integer()):
            return decimal.Decimal(value)
        if type(value) is str and re.fullmatch(DECIMAL, value):
            return decimal.Decimal(value)
        raise must("be a decimal number as a string, or an integer", value)

    def dump_decimal(value: Any) -> Any:
        if not isinstance(value, decimal.Decimal) or not value.is_finite():
            raise must("be a finite Decimal", value)
        return format(value, "f")

    def read_uuid(text: str) -> Any:
        if re.fullmatch(_UUID, text) is None:  # Python would take braces, and leave out hyphens
            raise ValueError("no UUID")
        return uuid.UUID(text)

    schema = {"type": ["string", "integer"], "pattern": DECIMAL}
    return {
        decimal.Decimal: Codec(schema, load_decimal, dump_decimal, "a decimal number"),
        uuid.UUID: _text(uuid.UUID, "a UUID", "uuid", read_uuid),
    }


def scalar_of(hint: Any) -> Codec | None:
    """The codec of a type without parts; None for any other hint."""
    if hint is not None and not isinstance(hint, type):
        return None
    is_late = getattr(hint, "__module__", "") in ("decimal", "_decimal", "uuid")
    return _late_codecs().get(hint) if is_late else _CODECS.get(hint)
