"""Regular expressions that strangers wrote, or that meet what strangers wrote.

Python's `re` may take exponential time for one short string, and lets no other thread run meanwhile:
a time limit inside this process is none. So a search that could take long is done in a process of its
own, which is ended after MAX_SECONDS; all others, which is nearly all, are done right here.

Could take long: a choice within a repetition, such as `(a+)+` or `(a|aa)*`, whatever the string; and
what would take more than MAX_WORK steps by a rough count, from the length of the string and from the ways
that choices and repetitions may go.

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
    anchored: bool
    spans: tuple[float, ...]
    """For each repetition that may vary: between how few and how many."""
    branches: int
    """Other places where the search may go on in more than one way."""
    turns: int
    """How often its repetitions go round at the least."""
    nested: bool
    """Whether a choice stands within a repetition."""

    def is_quick(self, length: int) -> bool:
        """Whether a search in a text of this length is done in no time."""
        work = (1 if self.anchored else length + 1) * self.turns * 2**self.branches
        for span in self.spans:
            work *= min(span, length) + 1
        return not self.nested and work <= MAX_WORK


def search(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text. Raises TooCostly, or re.error."""
    read = _read(pattern)
    if read.is_quick(len(text)):
        return read.compiled.search(text) is not None
    return _search_elsewhere(pattern, text)


def is_simple(pattern: str) -> bool:
    """Whether the pattern is quick for any string of moderate length."""
    return _read(pattern).is_quick(200)


@functools.lru_cache(maxsize=256)
def _read(pattern: str) -> _Read:
    # CPython's own parser: there is no public one, and to guess what a pattern costs would be worse.
    from re import _parser  # type: ignore[attr-defined]

    try:
        compiled, parsed = re.compile(pattern), _parser.parse(pattern)
    except (OverflowError, RecursionError) as problem:
        raise re.error(str(problem)) from None
    starts = (
        str(parsed[0][0]) == "AT" and str(parsed[0][1]).startswith("AT_BEGINNING") if len(parsed) else False
    )
    return _Read(compiled, starts and not compiled.flags & re.MULTILINE, *_count(parsed, _parser.MAXREPEAT))


def _count(parsed: Any, endless: Any) -> tuple[tuple[float, ...], int, int, bool]:
    """The last four members of a _Read."""
    spans: tuple[float, ...] = ()
    branches, turns, nested = 0, 1, False
    for operator, argument in parsed:
        name = str(operator)
        inner_spans: tuple[float, ...] = ()
        inner_branches, inner_turns = 0, 1
        for part in _inside(argument):
            found = _count(part, endless)
            inner_spans, inner_branches = inner_spans + found[0], inner_branches + found[1]
            inner_turns, nested = inner_turns * found[2], nested or found[3]
        if name.endswith("REPEAT"):
            least, most = argument[0], float("inf") if argument[1] == endless else argument[1]
            nested = nested or bool(most > 1 and (inner_spans or inner_branches))
            inner_turns *= max(1, least)
            if most > least:
                inner_spans = (*inner_spans, most - least)
        spans, turns = spans + inner_spans, turns * inner_turns
        branches += inner_branches + (name in ("BRANCH", "GROUPREF"))
    return spans, branches, turns, nested


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
