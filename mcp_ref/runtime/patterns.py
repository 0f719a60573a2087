"""Regular expressions that strangers wrote, or that meet what strangers wrote.

Python's `re` may take exponential time for one short string, and lets no other thread run meanwhile:
a time limit inside this process is none. So a search that could take long is done in a process of its
own, which is ended after MAX_SECONDS; all others, which is nearly all, are done right here.

Could take long: a choice within a repetition, such as `(a+)+` or `(a|aa)*`; many choices; and several
endless repetitions, or one, if the string is long for their number.

Threads     any; a search in another process blocks the calling thread only.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, NamedTuple

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


class _Read(NamedTuple):
    """What is known of a pattern."""

    compiled: re.Pattern[str]
    choices: int
    """Places where the search may go on in more than one way."""
    endless: int
    """Those of them that may repeat without end."""
    nested: bool
    """Whether a choice stands within a repetition."""
    anchored: bool

    @property
    def is_simple(self) -> bool:
        return not self.nested and self.choices <= 8

    def is_quick(self, length: int) -> bool:
        """Whether a search in a text of this length is done in no time."""
        turns = self.endless if self.anchored else self.endless + 1
        return self.is_simple and (not self.endless or length**turns <= MAX_WORK)


def search(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text. Raises TooCostly, or re.error."""
    read = _read(pattern)
    if read.is_quick(len(text)):
        return read.compiled.search(text) is not None
    return _search_elsewhere(pattern, text)


def is_simple(pattern: str) -> bool:
    """Whether the pattern is quick for any string of moderate length."""
    read = _read(pattern)
    return read.is_simple and read.endless <= 2


@functools.lru_cache(maxsize=256)
def _read(pattern: str) -> _Read:
    from re import _parser  # type: ignore[attr-defined]

    compiled, parsed = re.compile(pattern), _parser.parse(pattern)
    anchored = len(parsed) > 0 and str(parsed[0][0]) == "AT" and str(parsed[0][1]).startswith("AT_BEGINNING")
    return _Read(compiled, *_count(parsed, _parser.MAXREPEAT), anchored)


def _count(parsed: Any, endless: Any) -> tuple[int, int, bool]:
    """Choices, endless repetitions, and whether a choice stands within a repetition."""
    choices, without_end, nested = 0, 0, False
    for operator, argument in parsed:
        name, inner = str(operator), (0, 0, False)
        for part in _inside(argument):
            found = _count(part, endless)
            inner = inner[0] + found[0], inner[1] + found[1], inner[2] or found[2]
        repeats = name in ("MAX_REPEAT", "MIN_REPEAT")
        varies = repeats and argument[0] != argument[1]
        choices += inner[0] + (varies or name in ("BRANCH", "GROUPREF"))
        without_end += inner[1] + (varies and (argument[1] == endless or argument[1] > 100))
        nested = nested or inner[2] or bool(repeats and argument[1] > 1 and inner[0])
    return choices, without_end, nested


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
