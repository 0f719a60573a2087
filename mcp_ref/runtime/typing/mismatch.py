"""A value that does not fit: what was wrong with it, and where.

>>> problem = must("be an integer", "x").under(2).under("items")
>>> str(problem)
"items[2]: must be an integer, not 'x'"
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["MAX_FAULTS", "Mismatch", "message_of", "must", "place", "summary"]

_LISTED = 10
MAX_FAULTS = 100
"""Faults reported of one value, which may be a hostile one."""


class Mismatch(ValueError):
    """One or several faults of one value; `str()` names them all, each with its place."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.faults: list[tuple[tuple[str | int, ...], str]] = [(path, message)]
        self.constant_at: int | None = None
        """A constant did not match, so many levels down."""
        self.is_right_type = False
        """Only a bound was broken: of several alternatives, this may be the one meant."""

    def under(self, key: str | int) -> Mismatch:
        """The same faults, seen from the container that holds the value at `key`."""
        self.faults = [((key, *path), message) for path, message in self.faults]
        if self.constant_at is not None:
            self.constant_at += 1
        return self

    def without_frames(self) -> Mismatch:
        """The same, to be kept in a variable: by its frames it would refer to itself, and to its callers'."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)

    @property
    def is_another_kind(self) -> bool:
        """The value or a member of its own is another constant: this alternative was not meant."""
        return self.constant_at is not None and self.constant_at <= 1

    @classmethod
    def all(cls, problems: Iterable[Mismatch]) -> Mismatch:
        """Several problems as one."""
        problems = list(problems)
        one = cls("")
        one.faults = [fault for problem in problems for fault in problem.faults][:MAX_FAULTS]
        one.constant_at = min((p.constant_at for p in problems if p.constant_at is not None), default=None)
        return one

    def __str__(self) -> str:
        lines = [f"{place(path)}{message}" for path, message in self.faults[:_LISTED]]
        if len(self.faults) > _LISTED:
            more = len(self.faults) - _LISTED
            lines.append(f"and {more} more" if len(self.faults) < MAX_FAULTS else f"and {more} more at least")
        return "; ".join(lines)


def message_of(problem: BaseException) -> str:
    """The message of an exception, as text that can be sent, whatever its author made of it."""
    try:
        text = str(problem)
    except Exception:
        text = ""
    return (text or type(problem).__name__).encode("utf-8", "backslashreplace").decode("utf-8")


def must(rule: str, value: Any, *, another_kind: bool = False) -> Mismatch:
    """The fault of a value that must "be a string", say. `another_kind`: it is not even of the right kind."""
    problem = Mismatch(f"must {rule}, not {summary(value)}")
    problem.constant_at = 0 if another_kind else None
    return problem


def place(path: Iterable[str | int]) -> str:
    """`a.b[2]: `; nothing for the value itself."""
    text = ""
    for key in path:
        text += f".{key}" if _is_plain(key) else f"[{summary(key)}]"
    return f"{text.removeprefix('.')}: " if text else ""


def _is_plain(key: str | int) -> bool:
    return isinstance(key, str) and re.fullmatch(r"[\w$/.-]{1,100}", key) is not None


_JSON_WORDS = {"None": "null", "True": "true", "False": "false"}


def summary(value: Any) -> str:
    """A value as a message may show it: short, on one line."""
    match value:
        case dict():
            return "an object" if value else "an empty object"
        case list():
            return f"an array of {len(value)}"
        case int() if abs(value) >= 10**40:  # Python refuses to write one of 4,300 digits
            return "a very long number"
        case str() if len(value) > 40:
            value = value[:37] + "..."
    text = repr(value)
    return _JSON_WORDS.get(text, text) if len(text) <= 80 else f"a {type(value).__name__}"
