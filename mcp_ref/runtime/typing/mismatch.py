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
"""Faults that a message names."""
MAX_FAULTS = 100
"""Faults collected of one value, which may be a hostile one."""


class Mismatch(ValueError):
    """One or several faults of one value; `str()` names the first ten, each with its place."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.faults: list[tuple[tuple[str | int, ...], str]] = [(path, message)]
        self.constant_at: int | None = None
        """How many levels down a constant did not match; None if no constant is wrong."""
        self.is_right_type = False
        """Only a bound was broken, not the type: of several alternatives, this may be the one meant."""

    def under(self, key: str | int) -> Mismatch:
        """The same faults, seen from the container that holds the value at `key`."""
        self.faults = [((key, *path), message) for path, message in self.faults]
        if self.constant_at is not None:
            self.constant_at += 1
        return self

    def without_frames(self) -> Mismatch:
        """The same fault without its traceback, for a caller that keeps it in a variable.

        The frames of the traceback would refer to that variable, and so to the fault itself, and to all that
        the callers' variables hold.
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)

    @property
    def is_another_kind(self) -> bool:
        """Whether the value, or one of its members, is another constant: this alternative was not meant."""
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
    """The message of an exception as text that UTF-8 can carry; the name of its type if it has no message.

    It never raises, even if the `__str__` of an author's exception does.
    """
    try:
        text = str(problem)
    except Exception:
        text = ""
    return (text or type(problem).__name__).encode("utf-8", "backslashreplace").decode("utf-8")


def must(rule: str, value: Any, *, another_kind: bool = False) -> Mismatch:
    """The fault of a value that breaks a rule such as "be a string".

    `another_kind`: the value is another constant, so that an alternative with this rule was not meant.
    """
    problem = Mismatch(f"must {rule}, not {summary(value)}")
    problem.constant_at = 0 if another_kind else None
    return problem


def place(path: Iterable[str | int]) -> str:
    """A path as a message begins with it: `a.b[2]: `, and "" for the value itself."""
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
