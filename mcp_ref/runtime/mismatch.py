"""A value that does not fit: what was wrong with it, and where.

>>> problem = must("be an integer", "x").under(2).under("items")
>>> str(problem)
"items[2]: must be an integer, not 'x'"
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["MANY", "Mismatch", "must", "place", "shown"]

_LISTED = 10
MANY = 100
"""Faults kept of one value: more help nobody, and the value may be a hostile one."""


class Mismatch(ValueError):
    """One or several faults of one value; `str()` names them all, each with its place."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.faults: list[tuple[tuple[str | int, ...], str]] = [(path, message)]
        self.is_another_kind = False
        """A constant did not match: of several alternatives, this is not the one meant."""
        self.is_right_type = False
        """Only a bound was broken: of several alternatives, this may be the one meant."""

    def under(self, key: str | int) -> Mismatch:
        """The same faults, seen from the container that holds the value at `key`."""
        self.faults = [((key, *path), message) for path, message in self.faults]
        return self

    @classmethod
    def all(cls, problems: Iterable[Mismatch]) -> Mismatch:
        """Several problems as one."""
        problems = list(problems)
        one = cls("")
        one.faults = [fault for problem in problems for fault in problem.faults][:MANY]
        one.is_another_kind = any(problem.is_another_kind for problem in problems)
        return one

    def __str__(self) -> str:
        told = [f"{place(path)}{message}" for path, message in self.faults[:_LISTED]]
        if len(self.faults) > _LISTED:
            more = len(self.faults) - _LISTED
            told.append(f"and {more} more" if len(self.faults) < MANY else f"and {more} more at least")
        return "; ".join(told)


def must(rule: str, value: Any, *, another_kind: bool = False) -> Mismatch:
    """The fault of a value that does not keep a rule."""
    problem = Mismatch(f"must {rule}, not {shown(value)}")
    problem.is_another_kind = another_kind
    return problem


def place(path: Iterable[str | int]) -> str:
    """`a.b[2]: `; nothing for the value itself."""
    text = ""
    for key in path:
        text += f".{key}" if _plain(key) else f"[{shown(key)}]"
    return f"{text.removeprefix('.')}: " if text else ""


def _plain(key: str | int) -> bool:
    return isinstance(key, str) and re.fullmatch(r"[\w$/.-]{1,100}", key) is not None


def shown(value: Any) -> str:
    """A value as a message may show it: short, on one line."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) and len(value) > 40:
        value = value[:37] + "..."
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a very long number"
    return text if len(text) <= 80 else f"a {type(value).__name__}"
