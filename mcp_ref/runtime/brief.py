"""A short repr of a JSON value: what a peer sent may be a picture of megabytes, or ten thousand rows.

>>> brief({"text": "a" * 1000, "rows": list(range(1000)), "done": None})
"{'text': 'aaaaaaaaaaaaaaa...' (1000 characters), 'rows': [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...], 'done': None}"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["brief"]

MAX_PARTS = 200
"""Values within the value, at any depth, that are shown; the rest is left out."""
MAX_ITEMS, MAX_MEMBERS = 10, 30
"""Items of one array, and members of one object, that are shown."""
MAX_CHARACTERS, SHOWN_CHARACTERS = 200, 15
"""Characters of a string that is shown whole, and how many are shown of a longer one."""
MAX_DEPTH = 20
"""Levels of arrays and objects within each other that are shown."""


def brief(value: Any) -> str:
    """The repr of a JSON value, with long texts cut and large parts left out. It never raises."""
    return _Brief().of(value, MAX_DEPTH)


class _Brief:
    """Makes one repr, and counts the values that may still be shown."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def of(self, value: Any, depth: int) -> str:
        if isinstance(value, dict):
            members = ((f"{_of_one(key)}: ", member) for key, member in value.items())
            return f"{{{', '.join(self._parts(members, MAX_MEMBERS, depth))}}}"
        if isinstance(value, list | tuple):
            return f"[{', '.join(self._parts((('', item) for item in value), MAX_ITEMS, depth))}]"
        return _of_one(value)

    def _parts(self, parts: Iterable[tuple[str, Any]], most: int, depth: int) -> Iterator[str]:
        """Each part with what stands before it (a key, or nothing), then "..." if any are left out."""
        for number, (before, part) in enumerate(parts):
            if number == most or self._left == 0 or depth == 0:
                yield "..."
                return
            self._left -= 1
            yield before + self.of(part, depth - 1)


def _of_one(value: Any) -> str:
    """The repr of a value without parts."""
    if isinstance(value, str):
        if len(value) > MAX_CHARACTERS:
            return f"{value[:SHOWN_CHARACTERS] + '...'!r} ({len(value)} characters)"
        return repr(value)
    if isinstance(value, int) and abs(value) >= 10**40:  # Python refuses to write one of 4,300 digits
        return "a very long number"
    try:
        return repr(value)[:MAX_CHARACTERS]
    except Exception:
        return f"a {type(value).__name__}"
