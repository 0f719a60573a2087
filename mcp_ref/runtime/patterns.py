"""Regular expressions that strangers wrote, or that meet what strangers wrote.

Python's `re` may take exponential time for one short string, and lets no other thread run meanwhile:
a time limit inside this process is none. So a search that could take long is done in a process of its
own, which is ended after MAX_SECONDS; all others, which is nearly all, are done right here.

Could take long: a repetition within a repetition, such as `(a+)+`; and several repetitions, or one, if
the string is long for their number.

Threads     any; a search in another process blocks the calling thread only.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

__all__ = ["TooCostly", "search"]

MAX_SECONDS = 2.0
MAX_WORK = 10_000_000
"""Steps that a search of this process may take, at most, by a rough count."""

_CODE = """
import json, re, sys
pattern, text = json.loads(sys.stdin.buffer.read())
sys.exit(10 if re.search(pattern, text) else 11)
"""


class TooCostly(ValueError):
    """The search was given up."""


def search(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text. Raises TooCostly, or re.error."""
    compiled, repeats, nested = _read(pattern)
    if not repeats or (not nested and len(text) ** (repeats + 1) <= MAX_WORK):
        return compiled.search(text) is not None
    return _search_elsewhere(pattern, text)


def is_simple(pattern: str) -> bool:
    """Whether the pattern is quick for any string of moderate length."""
    _, repeats, nested = _read(pattern)
    return repeats <= 2 and not nested


@functools.lru_cache(maxsize=256)
def _read(pattern: str) -> tuple[re.Pattern[str], int, bool]:
    """The compiled pattern, how many open repetitions it has, and whether one holds another."""
    from re import _parser  # type: ignore[attr-defined]

    compiled = re.compile(pattern)
    repeats, nested = _repeats(_parser.parse(pattern), _parser.MAXREPEAT)
    return compiled, repeats, nested


def _repeats(parsed: Any, endless: Any) -> tuple[int, bool]:
    found, nested = 0, False
    for operator, argument in parsed:
        inner, deeper = 0, False
        for part in _inside(argument):
            count, below = _repeats(part, endless)
            inner, deeper = inner + count, deeper or below
        many = str(operator).endswith("REPEAT") and (argument[1] == endless or argument[1] > 100)
        found += inner + many
        nested = nested or deeper or bool(many and inner)
        if str(operator) == "GROUPREF":  # what it repeats is known only when it is searched
            found, nested = found + 1, True
    return found, nested


def _inside(argument: Any) -> list[Any]:
    """The parsed parts within an operator's argument, however it holds them."""
    if hasattr(argument, "data") and hasattr(argument, "state"):
        return [argument]
    if isinstance(argument, list | tuple):
        return [part for item in argument for part in _inside(item)]
    return []


def _search_elsewhere(pattern: str, text: str) -> bool:
    import json
    import subprocess

    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CODE],
            input=json.dumps([pattern, text]).encode(),
            timeout=MAX_SECONDS,
            capture_output=True,
        )
    except (subprocess.TimeoutExpired, OSError) as problem:
        raise TooCostly(f"the pattern {pattern[:60]!r} takes too long to search for") from problem
    if done.returncode not in (10, 11):
        raise TooCostly(f"the pattern {pattern[:60]!r} could not be searched for")
    return done.returncode == 10
