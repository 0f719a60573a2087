"""Checks of arguments, at the moment when a user passes them.

Most checks take values by the names of their parameters: `check_text(name=name)`. The error names the
parameter and the value. Without the check Python would report the mistake later, in other words, from a place
that the user does not know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

__all__ = [
    "check_bool",
    "check_callable",
    "check_count",
    "check_names",
    "check_object",
    "check_seconds",
    "check_sendable",
    "check_text",
    "check_text_if_any",
    "keywords_of",
]


def check_text(**given: Any) -> None:
    """Each value must be a string. Raises TypeError."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is a string, not {value!r:.60}")


def check_text_if_any(**given: Any) -> None:
    """Each value must be a string, or None. Raises TypeError."""
    check_text(**{name: value for name, value in given.items() if value is not None})


def check_sendable(**given: Any) -> None:
    """Each value must be a string that a message can hold, in UTF-8. Raises TypeError, ValueError."""
    check_text(**given)
    for name, value in given.items():
        if not value.isascii() and not _has_utf8(value):
            raise ValueError(f"{name} holds half a surrogate pair, which UTF-8 cannot carry")


def _has_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_object(**given: Any) -> None:
    """Each value must be a dict (or the like) with strings as keys, or None. Raises TypeError."""
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise TypeError(f"{name} is a dict whose keys are strings, not {value!r:.60}")


def check_bool(**given: Any) -> None:
    """Each value must be True or False: a string such as "no" would count as true. Raises TypeError."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} is True or False, not {value!r:.60}")


def check_callable(**given: Callable[..., Any] | None) -> None:
    """Each value must be callable, or None. Raises TypeError."""
    for name, value in given.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} is a function, not {value!r:.60}")


def check_names(
    function: str, given: Iterable[str], known: Collection[str], elsewhere: Mapping[str, str] | None = None
) -> None:
    """Check the keywords of a function that passes them on. Raises TypeError for an unknown one.

    `elsewhere` maps keywords that belong to something else to the line to write instead.
    """
    for name in given:
        if name not in known:
            advice = f"; there are {', '.join(known)}" if known else ""
            if elsewhere is not None and name in elsewhere:
                advice = f"; write {elsewhere[name]}"
            raise TypeError(f"{function} got an unexpected keyword argument {name!r}{advice}")


def keywords_of(function: Any, *more: str) -> list[str]:
    """The keywords of a function that passes them on to this `function`, with `more` of its own."""
    return [*function.__kwdefaults__, *more]


def check_count(least: int, **given: Any) -> None:
    """Each value must be a whole number, not below `least`. Raises TypeError, ValueError."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} is a whole number, not {value!r:.60}")
        if value < least:
            raise ValueError(f"{name} is at least {least}, not {value}")


def check_seconds(name: str, value: float) -> float:
    """Return the value if it can be a time limit in seconds. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number of seconds, not {value!r:.60}")
    if not value > 0:  # so written, it refuses NaN as well
        raise ValueError(f"{name} is a number of seconds above 0, not {value!r}")
    if value >= threading.TIMEOUT_MAX:
        most = f"{threading.TIMEOUT_MAX:.0f}, which is the longest wait of this system"
        raise ValueError(f"{name} is a number of seconds below {most}, not {value!r:.60}")
    return value
