"""JSON text: a strict reader, the writer, and what a text weighs before it is read.

from_json     bytes of UTF-8 -> one value, or `NotJson`, which says why not; the parts of a large text are
              counted before any value is made
to_json       a value -> text, without blanks
not_json_at   where a value has something that to_json refuses, and what
weight        about how many bytes a text will take in memory
Encoded       a value that is JSON already, in pieces
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp_ref.runtime.typing.mismatch import place, summary

__all__ = ["Encoded", "NotJson", "from_json", "has_more_parts", "not_json_at", "to_json", "weight"]

MAX_JSON_LEVELS = 200
"""Levels of arrays and objects. A deeper text would exhaust the stack of any code that walks through it."""
MAX_UNCOUNTED_BYTES = 64 << 10
"""Bytes of a text that is read without counting its parts first: there cannot be many."""
MAX_UNWEIGHED_BYTES = 256
"""Bytes of a text that `weight` does not look into: ten thousand such texts are no burden."""
PART_BYTES = 64
"""Bytes that a part takes in memory: those of an empty list, and of the reference to it."""
MAX_JSON_PARTS = 1_000_000
"""Commas and opening brackets of a text; each may stand for a value of up to 200 bytes in memory."""


class NotJson(ValueError):
    """A text that is not JSON, or that two readers could understand differently."""


def from_json(text: bytes, max_parts: int = MAX_JSON_PARTS) -> Any:
    """One JSON value from its text. Raises NotJson.

    Stricter than Python's `json`: a text that two readers could understand differently is refused.
    """
    if len(text) > MAX_UNCOUNTED_BYTES and has_more_parts(text, max_parts):
        raise NotJson(f"a message has more than {max_parts:,} parts (commas and opening brackets)")
    try:
        value = _DECODER.decode(text.decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        raise _not_json(problem, text) from None
    if len(text) > 2 * MAX_JSON_LEVELS and _may_be_deep(text) and _is_deeper(value, MAX_JSON_LEVELS):
        raise NotJson(_TOO_DEEP)
    if b"\\" in text and _LONE_SURROGATE.search(text):
        try:
            to_json(value).encode("utf-8")
        except UnicodeEncodeError:
            raise NotJson("a string holds half a surrogate pair, which UTF-8 cannot carry") from None
    return value


_TOO_DEEP = f"nested deeper than {MAX_JSON_LEVELS} levels"


def _not_json(problem: ValueError | RecursionError, text: bytes) -> NotJson:
    """The error that says, in our words, why the decoder refused a text."""
    match problem:
        case UnicodeDecodeError():
            return NotJson(f"not UTF-8: byte {problem.start} is {text[problem.start]:#04x}")
        case json.JSONDecodeError():
            is_one_line = "\n" not in problem.doc
            line = f"line {problem.lineno}, column {problem.colno}"
            where = f"character {problem.pos}" if is_one_line else line
            # Some of Python's messages end with this word, before a place: "Unterminated string starting at".
            return NotJson(f"not JSON: {problem.msg.removesuffix(' at')} at {where}")
        case RecursionError():
            return NotJson(_TOO_DEEP)
    reason = "an integer of too many digits" if "int_max_str_digits" in str(problem) else problem
    return NotJson(f"not JSON: {reason}")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counted.items() if count > 1)
        raise ValueError(f"the member {twice[:80]!r} stands twice in one object")
    return members


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is beyond what a double can hold")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_float=_finite, parse_constant=_no_constant
)
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # half a pair; the other half may be there


def _may_be_deep(text: bytes) -> bool:
    """Whether a text opens more than MAX_JSON_LEVELS objects and arrays; stops counting when it does."""
    return _few(text, (b"[", b"{"), MAX_JSON_LEVELS) is None


def _few(text: bytes, marks: tuple[bytes, ...], most: int) -> int | None:
    """How many of these marks a text has; None if they are more than `most`: the counting stops there.

    `find` leaps from mark to mark: for a mebibyte with few of them that takes 11 microseconds a kind of mark,
    `count` takes 280.
    """
    found = 0
    for mark in marks:
        at = text.find(mark)
        while at >= 0:
            found += 1
            if found > most:
                return None
            at = text.find(mark, at + 1)
    return found


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]  # level by level: recursion could exhaust the stack
    for _ in range(limit):
        inner = itertools.chain.from_iterable(n.values() if type(n) is dict else n for n in level)
        level = [child for child in inner if type(child) is dict or type(child) is list]
        if not level:
            return False
    return True


_PART_MARKS = (b",", b"[", b"{")
_PIECE_BYTES = 16 << 10
_FEW_MARKS = 100


def has_more_parts(text: bytes, most: int) -> bool:
    """Whether a text has more than `most` parts: commas and opening brackets outside of strings.

    It has at most one value more than it has parts. First these marks are counted everywhere, which is quick;
    if they are too many, those inside of strings are left out, piece by piece, until the answer is clear.
    """
    if not _is_more(most, _marks(text), len(text)):
        return False
    # Without escapes each quote begins or ends a string.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return _is_more(most, _marks_outside_strings(plain), len(plain))


def _is_more(most: int, marks: Iterator[int], size: int) -> bool:
    """Whether `marks`, the counts of a text of `size` bytes, exceed `most`; stops once that is clear."""
    counted = 0
    while counted + size > most:  # as if each byte that is left were a mark
        if counted > most:
            return True
        counted += next(marks)
        size -= min(size, _PIECE_BYTES)
    return False


def _marks(text: bytes) -> Iterator[int]:
    """How many commas and opening brackets each piece of a text has.

    They are counted by what `replace` leaves: it leaps from mark to mark, where `count` looks at each byte.
    For a mebibyte of words that takes 0.1 ms instead of 1.7.
    """
    for piece in _pieces(text):
        yield sum(len(piece) - len(piece.replace(mark, b"")) for mark in _PART_MARKS)


def _marks_outside_strings(text: bytes) -> Iterator[int]:
    is_inside = False
    for piece in _pieces(text):
        strings = piece.split(b'"')
        outside = b"".join(strings[is_inside::2])
        is_inside ^= len(strings) % 2 == 0
        yield sum(map(outside.count, _PART_MARKS))


def _pieces(text: bytes) -> Iterator[bytes]:
    return (text[start : start + _PIECE_BYTES] for start in range(0, len(text), _PIECE_BYTES))


def weight(text: bytes) -> int:
    """About how many bytes a text will take in memory once it is read: queues are bounded by that.

    `[[],[],...]` takes twenty times as many bytes as it has. Commas within strings count as well, so that the
    estimate for such a text is a little too high.
    """
    if len(text) <= MAX_UNWEIGHED_BYTES:
        return len(text)
    if len(text) <= _PIECE_BYTES:
        marks = sum(map(text.count, _PART_MARKS))
    else:  # usually some long strings
        few = _few(text, _PART_MARKS, _FEW_MARKS)
        marks = sum(_marks(text)) if few is None else few
    return len(text) + PART_BYTES * marks


@dataclass(slots=True)
class Encoded:
    """A value that is JSON already: its pieces are written one after another, as they are."""

    pieces: list[bytes]


to_json = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
"""The text of a value, on one line. Raises ValueError or TypeError for a value that JSON cannot carry."""


def not_json_at(value: Any) -> str:
    """Where a value has the first part that `to_json` refuses, and what it is; "" if none is found.

    Python's encoder names only its type, which in a large value does not help to find it.
    """
    for path, part in itertools.islice(_parts_of(value), MAX_JSON_PARTS):
        if isinstance(part, dict):
            key = next((key for key in part if not isinstance(key, _KEY_TYPES)), None)
            if key is not None:
                return f"{place(path)}the key {summary(key)} is not a string"
        elif isinstance(part, float):
            if not math.isfinite(part):
                return f"{place(path)}{part} is not a JSON number"
        elif not isinstance(part, _JSON_TYPES):
            return f"{place(path)}an object of type {type(part).__qualname__} is not JSON serializable"
    return ""


_KEY_TYPES = (str, int, float, bool, type(None))
_JSON_TYPES = (*_KEY_TYPES, list, tuple)


def _parts_of(value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """A value and the parts in it, each with its place, in the order in which they are written.

    Not those deeper than MAX_JSON_LEVELS: a value may contain itself.
    """
    left: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while left:
        path, part = left.pop()
        yield path, part
        if len(path) >= MAX_JSON_LEVELS:
            continue
        if isinstance(part, dict):
            inner = [((*path, str(key)), child) for key, child in part.items()]
        elif isinstance(part, list | tuple):
            inner = [((*path, number), child) for number, child in enumerate(part)]
        else:
            continue
        left.extend(reversed(inner))
