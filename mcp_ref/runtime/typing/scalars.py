"""The values without parts: numbers, strings, dates and their like, as JSON carries them.

`CODECS` maps a Python type to (schema, load, dump, says); mcp_ref/runtime/values has the rest.
The modules of the rarer types are imported when this one is, which costs a millisecond or two.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import pathlib
import re
from typing import Any

from mcp_ref.runtime.typing.mismatch import Mismatch, must
from mcp_ref.runtime.typing.patterns import TooCostly, search

__all__ = ["CODECS", "INT_KEY", "divides", "is_decimal", "json_kind", "load_int_key", "matches"]


def json_kind(value: Any) -> str:
    """JSON Schema's word for what a value is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float) or is_decimal(value):
        return "number"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "string"


def matches(value: Any, pattern: str) -> bool:
    """JSON Schema's `pattern` in a type hint: anywhere in the string unless it is anchored."""
    try:
        return search(pattern, value, is_trusted=True)
    except TooCostly as problem:
        raise Mismatch(f"cannot be checked: {problem}") from None


def divides(value: Any, step: Any) -> bool:
    """JSON Schema's `multipleOf`; exact for whole numbers and for a Decimal."""
    if is_decimal(value):
        return _divides_decimal(value, type(value)(str(step)))
    if type(step) is int:
        return bool(value % step == 0)
    try:
        quotient = float(value / step)
    except OverflowError:
        quotient = math.inf
    return quotient.is_integer() if math.isfinite(quotient) else _divides_exactly(value, step)


def _divides_decimal(value: Any, step: Any) -> bool:
    """With as many digits as the quotient has: 28, which is usual, would be too few for a longer number."""
    import decimal

    exact = decimal.Context(prec=max(28, value.adjusted() - step.adjusted() + 2), traps=[])
    return exact.remainder(value, step).is_zero()


def _divides_exactly(value: Any, step: Any) -> bool:
    from fractions import Fraction

    return Fraction(value) % Fraction(step) == 0


def is_decimal(value: Any) -> bool:
    """Whether it is a Decimal, asked without loading the module that defines them."""
    return type(value).__name__ == "Decimal" and type(value).__module__ in ("decimal", "_decimal")


# -- load ---------------------------------------------------------------------------


def _load_int(value: Any) -> Any:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON has one kind of number: 1.0 is 1
        return int(value)
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


def _load_str(value: Any) -> Any:
    if type(value) is str:
        return value
    raise must("be a string", value)


def _load_bool(value: Any) -> Any:
    if value is True or value is False:
        return value
    raise must("be true or false", value)


def _load_none(value: Any) -> Any:
    if value is None:
        return None
    raise must("be null", value)


def load_int_key(value: str) -> int:
    """A key of `dict[int, ...]`."""
    if re.fullmatch(INT_KEY, value) is None:
        raise must("be an integer as a key", value)
    return int(value)


INT_KEY = r"^(0|-?[1-9][0-9]{0,4000})$"


def _parsed(says: str, parse: Any) -> Any:
    def load(value: Any) -> Any:
        if type(value) is not str:
            raise must(f"be {says} as a string", value)
        try:
            return parse(value)
        except (ValueError, ArithmeticError, binascii.Error):
            raise must(f"be {says}", value) from None

    return load


def _load_decimal(value: Any) -> Any:
    import decimal

    if type(value) is int or (type(value) is float and value.is_integer()):
        return decimal.Decimal(value)
    if type(value) is str and re.fullmatch(_DECIMAL, value):
        return decimal.Decimal(value)
    raise must("be a decimal number as a string, or an integer", value)


_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"


def _load_uuid(value: Any) -> Any:
    import uuid

    if type(value) is str and re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        return uuid.UUID(value)
    raise must("be a UUID", value)


# -- dump ---------------------------------------------------------------------------


def _dump_int(value: Any) -> Any:
    if type(value) is int:
        return value
    if not isinstance(value, bool) and hasattr(value, "__index__"):  # an IntEnum, a numpy integer
        return int(value.__index__())
    raise must("be an integer", value)


def _dump_float(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise must("be a number", value)
    if type(value) is int:
        _load_float(value)
        return value
    if not math.isfinite(value):
        raise Mismatch(f"JSON has no number for {value}")
    return value if type(value) is float else float(value)


def _dump_str(value: Any) -> Any:
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise must("be a string", value)


def _as_text(kind: Any, says: str, write: Any) -> Any:
    def dump(value: Any) -> Any:
        if not isinstance(value, kind):
            raise must(f"be {says}", value)
        return write(value)

    return dump


def _load_datetime(text: str) -> Any:
    if len(text) <= len("2026-07-28"):  # Python would add midnight to a mere date
        raise ValueError("no time")
    return datetime.datetime.fromisoformat(text)


def _dump_date(value: Any) -> Any:
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        raise must("be a date without a time", value)
    return value.isoformat()


def _dump_decimal(value: Any) -> Any:
    import decimal

    if not isinstance(value, decimal.Decimal) or not value.is_finite():
        raise must("be a finite Decimal", value)
    return format(value, "f")


def _dump_uuid(value: Any) -> Any:
    import uuid

    if not isinstance(value, uuid.UUID):
        raise must("be a UUID", value)
    return str(value)


def _text(kind: Any, says: str, schema: dict[str, Any], parse: Any, write: Any) -> Any:
    return ({"type": "string", **schema}, _parsed(says, parse), _as_text(kind, says, write), says)


class _Late(dict[Any, Any]):
    """The table, which learns `Decimal` and `UUID` only when they are asked for."""

    def get(self, kind: Any, default: Any = None) -> Any:
        row = super().get(kind)
        if row is None and getattr(kind, "__module__", "") in ("decimal", "_decimal", "uuid"):
            row = _LATE.get(kind.__name__)
        return row or default


_LATE: dict[str, Any] = {
    "Decimal": (
        {"type": ["string", "integer"], "pattern": _DECIMAL},
        _load_decimal,
        _dump_decimal,
        "a decimal number",
    ),
    "UUID": ({"type": "string", "format": "uuid"}, _load_uuid, _dump_uuid, "a UUID"),
}

_NONE = ({"type": "null"}, _load_none, _load_none, "null")

_TABLE: dict[Any, Any] = {
    int: ({"type": "integer"}, _load_int, _dump_int, "an integer"),
    float: ({"type": "number"}, _load_float, _dump_float, "a number"),
    str: ({"type": "string"}, _load_str, _dump_str, "a string"),
    bool: ({"type": "boolean"}, _load_bool, _load_bool, "true or false"),
    None: _NONE,
    type(None): _NONE,
    datetime.datetime: _text(
        datetime.datetime,
        "a date and time such as 2026-07-28T12:00:00Z",
        {"format": "date-time"},
        _load_datetime,
        datetime.datetime.isoformat,
    ),
    datetime.date: (
        {"type": "string", "format": "date"},
        _parsed("a date such as 2026-07-28", datetime.date.fromisoformat),
        _dump_date,
        "a date such as 2026-07-28",
    ),
    datetime.time: _text(
        datetime.time,
        "a time such as 12:00:00",
        {"format": "time"},
        datetime.time.fromisoformat,
        datetime.time.isoformat,
    ),
    bytes: _text(
        bytes,
        "base64",
        {"contentEncoding": "base64"},
        lambda text: base64.b64decode(text, validate=True),
        lambda data: base64.b64encode(data).decode("ascii"),
    ),
    **{
        kind: _text(kind, "a path", {"format": "path"}, kind, str)
        for kind in (pathlib.Path, pathlib.PurePath, pathlib.PosixPath, pathlib.PurePosixPath)
    },
}

CODECS: Any = _Late(_TABLE)
