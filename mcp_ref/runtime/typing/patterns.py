"""Searches with a regular expression that a peer wrote, or in a text that a peer wrote.

An expression is one of JSON Schema, put into the words of Python's `re` (runtime/typing/ecma262). Python may
take exponential time for one short string, and lets no other thread run meanwhile: nothing in this process
could end it. So its work is estimated first, from the translated pattern and from the text's length, and a
search that could take more than MAX_SEARCH_STEPS is not begun.

    ^[a-z]+(-[a-z]+)*$    one way at each character: linear, so up to millions of characters
    ^.*_.*_id$            two repetitions that may share what they match: quadratic, up to a thousand or so
    ^(a+)+$               a choice that is made anew with each repetition: exponential, up to a few characters

An author's own pattern is trusted in texts of up to MAX_TRUSTED_CHARACTERS, whatever the estimate says: it is
as much the author's code as the functions are, and common ones (a semantic version, a host's name) look worse
than they are. The texts come from peers, so there is a bound all the same.

The estimate is what backtracking takes at worst. At a repetition, or a choice, there are several ways on. If
they begin with different characters, the next character leaves one of them open, and the decision costs a
step; if not, it multiplies the cost of all that follows it. Constructs that few of Python's patterns have and
no schema's (`a++`, `(?>a)`, `(?m)`, `(?a)`) count as endless, so that they need no rules here.
"""

from __future__ import annotations

import functools
import math
import re
from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from mcp_ref.runtime.typing.budget import budget
from mcp_ref.runtime.typing.ecma262 import SPACES, translated
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["TooCostly", "check", "search", "work"]

MAX_SEARCH_STEPS = 10_000_000
"""Steps of one search, at most: between a tenth and a half of a second, in which no other thread runs."""
MAX_TRUSTED_CHARACTERS = 256
"""Characters of a text in which an author's own pattern is searched for without an estimate."""
MAX_PATTERN_CHARACTERS = 5000
"""Characters of a pattern; a longer one is refused."""
MAX_TRANSLATED_CHARACTERS = 4 * MAX_PATTERN_CHARACTERS
"""Characters of a pattern as Python has it, where `\\p{L}` alone has two thousand."""
MAX_NESTED_REPETITIONS = 5
"""Levels of repetitions within repetitions; a pattern with more counts as endless."""
MAX_RANGE_CHARACTERS = 4_000_000
"""Characters in the ranges of all classes together: compiling them takes up to a third of a second."""
RANGES_OF_A_STEP = 16
"""Ranges beyond the first 65,536 characters that are tried in the time of a step."""


class TooCostly(ValueError):
    """The search was not begun, or the pattern is too long."""


def search(pattern: str, text: str, *, is_trusted: bool = False) -> bool:
    """Whether the pattern is found anywhere in the text. `is_trusted`: the pattern is an author's own.

    Raises TooCostly, re.error, or Exhausted in a validation that has taken too long.
    """
    length = len(text)
    # Rounded up for long texts, so that one estimate serves many of them.
    rounded = length if length < 64 else 1 << length.bit_length()
    if not (is_trusted and length <= MAX_TRUSTED_CHARACTERS) and (
        _work(pattern, rounded) > MAX_SEARCH_STEPS and _work(pattern, length) > MAX_SEARCH_STEPS
    ):
        raise TooCostly(f"the pattern {pattern[:60]!r} could take too long in {length} characters")
    return _parsed(pattern)[0].search(text) is not None


def check(pattern: str) -> bool:
    """Return True for a valid pattern. Raises re.error, or TooCostly for one that is too long."""
    return bool(_parsed(pattern))


def work(pattern: str, length: int) -> float:
    """Steps that a search may take in a text of this length, at most.

    Raises re.error, TooCostly, or Exhausted where the estimate itself takes too long (runtime/typing/budget).
    """
    compiled, tree = _parsed(pattern)
    if compiled.flags & ~_FLAGS:
        return math.inf
    try:
        whole = _Estimate(length).sequence(tree, _NOTHING, compiled.flags, last=True)
    except (_Endless, RecursionError):
        return math.inf
    is_anchored = len(tree) > 0 and str(tree[0][0]) == "AT" and str(tree[0][1]).startswith("AT_BEGINNING")
    return length + whole.steps * (1 if is_anchored else length + 1)


_FLAGS = re.UNICODE | re.IGNORECASE | re.DOTALL
"""The flags that the estimate knows; a pattern with any other counts as endless."""


@functools.lru_cache(maxsize=1024)
def _work(pattern: str, length: int) -> float:
    return work(pattern, length)


@functools.lru_cache(maxsize=256)
def _parsed(pattern: str) -> tuple[re.Pattern[str], Any]:
    """A pattern as Python's, compiled, and as CPython's tree. Raises re.error, TooCostly.

    The message of either may be printed: what it has of the pattern is short, and escaped.
    """
    # CPython's own parser: there is no public one, and to guess what a pattern costs would be worse.
    from re import _parser  # type: ignore[attr-defined]

    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise TooCostly(f"the pattern {pattern[:60]!r}... has more than {MAX_PATTERN_CHARACTERS} characters")
    try:
        ours = translated(pattern)
        if len(ours) > MAX_TRANSLATED_CHARACTERS:
            raise TooCostly(f"the pattern {pattern[:60]!r} has too many classes of characters")
        tree = _parser.parse(ours)
        if _range_characters(tree) > MAX_RANGE_CHARACTERS:
            raise TooCostly(f"the pattern {pattern[:60]!r} has too many characters in its classes")
        return re.compile(ours), tree
    except re.error as problem:  # without its position, which is one in the translation
        raise re.error(one_line(problem.msg)[:200]) from None
    except (OverflowError, RecursionError) as problem:
        raise re.error(str(problem)) from None


def _range_characters(tree: Any) -> int:
    """How many characters the ranges of a tree have: `re` visits each, up to U+FFFF, to compile its class."""
    total, parts = 0, [tree]
    while parts:
        part = parts.pop()
        if isinstance(part, tuple) and str(part[0]) == "RANGE":
            first, last = part[1]
            total += max(0, min(last, 0xFFFF) - first)
        elif part is not None and not isinstance(part, int):
            parts.extend(part)
    return total


# ---------------------------------------------------------------------------- the estimate


class _Next(NamedTuple):
    """What follows a part of a pattern."""

    first: int
    """The characters it may begin with, a bit each."""
    probe: float
    """Steps until it is known that it does not begin here."""


class _Part(NamedTuple):
    """What a part of a pattern costs, from one place in the text."""

    first: int
    """The characters it may begin with."""
    idle: float
    """In how many ways it matches the empty string."""
    probe: float
    """Steps until it is known that it does not begin here."""
    steps: float
    """Steps in it, in all its ways together."""
    ways: float
    """In how many ways its end is reached with a next character that what follows may begin with."""

    def before(self, after: _Next) -> _Next:
        """What follows the part in front of this one, where `after` follows this one."""
        return _Next(self.first | (after.first if self.idle else 0), self.probe + self.idle * after.probe)

    def and_then(self, other: _Part) -> _Part:
        """This part and another one after it."""
        first, probe = self.before(_Next(other.first, other.probe))
        steps, ways = self.steps + self.ways * other.steps, self.ways * other.ways
        return _Part(first, self.idle * other.idle, probe, steps, ways)


_NOTHING = _Next(0, 1)
_EMPTY = _Part(0, 1, 1, 1, 1)
_ENDLESS = 1e15
_SINGLE = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
"""Parts that match one character."""


class _Endless(Exception):
    """The steps are too many, or the pattern too unusual, to be counted further."""


class _Estimate:
    """The recursion over CPython's tree of a pattern, for a text of one length."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.nesting = 0
        self.looks = 0
        """How many lookarounds and back-references were met: they may read the same text again."""

    def sequence(self, nodes: Any, after: _Next, flags: int, last: bool = False) -> _Part:
        """The cost of parts one after another. `last`: where they end, the search has succeeded."""
        budget().spend()  # the estimate takes a second or two for some patterns
        whole = _EMPTY
        for node in reversed(list(nodes)):
            whole = self._part(node, whole.before(after), flags, last).and_then(whole)
            if max(whole[1:]) > _ENDLESS:
                raise _Endless
            last = last and str(node[0]) in ("MAX_REPEAT", "MIN_REPEAT") and node[1][0] == 0
        return whole

    def _part(self, node: Any, after: _Next, flags: int, last: bool) -> _Part:
        name, argument = str(node[0]), node[1]
        if _is_place(node):
            return _EMPTY
        match name:
            case "SUBPATTERN" if not argument[1] & ~_FLAGS:
                return self.sequence(argument[3], after, (flags | argument[1]) & ~argument[2], last)
            case "BRANCH":
                return _choice([self.sequence(way, after, flags, last) for way in argument[1]], after)
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeated(argument, after, flags, last)
            case "ASSERT" | "ASSERT_NOT":  # it looks further than the next character, whatever that is
                self.looks += 1
                inner = self.sequence(argument[1], _NOTHING, flags)
                return _Part(0, 1, inner.steps, inner.steps, 1)
            case "GROUPREF":
                self.looks += 1
                return _Part(_ANY, 1, self.length, self.length, 1)
        if name not in _SINGLE:
            raise _Endless
        steps = _steps(name, argument)
        return _Part(_characters(name, argument, flags), 0, steps, steps, 1)

    def _repeated(self, argument: Any, after: _Next, flags: int, last: bool) -> _Part:
        least, most, nodes = argument
        if last and _is_single(nodes):  # nothing after it can fail, and so lead back into its rounds
            most = least
        most = min(int(most), least + self.length)
        if most > 1:
            return self._many(least, most, nodes, after, flags)
        part = self.sequence(nodes, after, flags, last) if most else _EMPTY
        return part if least == most else _choice([part, _EMPTY], after)

    def _many(self, least: int, most: int, nodes: Any, after: _Next, flags: int) -> _Part:
        """The cost of a repetition that may have two rounds or more."""
        self.nesting += not _is_single(nodes)
        if self.nesting > MAX_NESTED_REPETITIONS:
            raise _Endless
        outline, looks = self.sequence(nodes, after, flags), self.looks
        following = _Next(outline.first | after.first, outline.probe + after.probe)
        part = self.sequence(nodes, following, flags)
        self.nesting -= not _is_single(nodes)
        rounds, ways = self._rounds(part, most, max(1, nodes.getwidth()[0]))
        round_steps = part.steps
        if ways == 1 and self.looks == looks:
            # There is one path through all rounds: together they take the text once.
            round_steps = _Estimate(0).sequence(nodes, following, flags).steps
        steps = 1 + part.steps + (rounds + 1) * (round_steps + after.probe)
        is_open = least < most and (ways > 1 or part.first & after.first)
        idle = _power(part.idle, most) if least else 1 + part.idle * most
        return _Part(part.first, idle, part.probe + 1, steps, rounds + 1 if is_open else ways)

    def _rounds(self, part: _Part, most: int, width: int) -> tuple[float, float]:
        """How many rounds there are in all paths together, and how many paths."""
        if part.idle:  # a round may take nothing: any division of the text among rounds is a way
            ways = _power(max(part.ways, 2), most)
            return 2 * ways, ways
        turns = min(most, self.length // width + 1)
        ways = _power(part.ways, turns)
        return (turns, ways) if part.ways <= 1 else (_power(part.ways, turns + 1), ways)


def _is_place(node: Any) -> bool:
    """Whether a part takes no character and no time: `^`, `$`, `\\b`, `\\B`."""
    name, argument = str(node[0]), node[1]
    return name == "AT" or (
        name in ("SUBPATTERN", "ASSERT_NOT") and len(argument[-1]) == 1 and _is_place(argument[-1][0])
    )


def _is_single(nodes: Any) -> bool:
    return len(nodes) == 1 and str(nodes[0][0]) in _SINGLE


def _choice(ways: list[_Part], after: _Next) -> _Part:
    """The cost of a choice: the next character tells which part it is, or else all are gone through."""
    idle, probe = sum(way.idle for way in ways), sum(way.probe for way in ways)
    is_clear = [way.idle > 0 for way in ways].count(True) <= 1 and _are_apart(ways, after)
    both = max if is_clear else sum
    first = functools.reduce(int.__or__, (way.first for way in ways))
    return _Part(first, idle, probe, both(way.steps for way in ways) + probe, both(way.ways for way in ways))


def _are_apart(ways: list[_Part], after: _Next) -> bool:
    """Whether no two of the ways begin with the same character."""
    seen = 0
    for way in ways:
        first = way.before(after).first
        if first & seen:
            return False
        seen |= first
    return True


def _power(base: float, exponent: float) -> float:
    """A power within bounds, or else _Endless: nothing may become infinite, as 0 times that is NaN."""
    if base > 1 and exponent * math.log(base) > math.log(_ENDLESS):
        raise _Endless
    return float(base**exponent)


# ---------------------------------------------------------------------------- sets of characters

_OTHERS = {"digit": 1 << 128, "space": 1 << 129, "word": 1 << 130, "rest": 1 << 131}
"""A set is a number with a bit for each character of ASCII, and a bit for each kind of other characters."""
_ANY = (1 << 132) - 1
_NO_SPACES = _OTHERS["digit"] | _OTHERS["word"] | _OTHERS["rest"]
_SMALL, _LARGE = (sum(1 << code for code in range(start, start + 26)) for start in (ord("a"), ord("A")))


_IOTA_BELOW = "\u0345"
"""Another case of the letter iota, for the flag `i`; Python does not count it as a letter."""
_WIDE_SPACES = [code for first, last in SPACES for code in range(max(first, 128), last + 1)]
"""The characters of the kind "space"."""
_OTHER_CODES = 0x110000 - 128 - len(_WIDE_SPACES)
"""How many characters there are of the other three kinds together."""


def _set_of(code: int) -> int:
    """The set of one character; for a character that is not ASCII, the set of its whole kind."""
    if code < 128:
        return 1 << code
    if code in _WIDE_SPACES:
        return _OTHERS["space"]
    char = chr(code)
    if char.isdecimal():
        return _OTHERS["digit"]
    return _OTHERS["word" if char.isalnum() or char == _IOTA_BELOW else "rest"]


def _steps(name: str, argument: Any) -> int:
    """What it takes to test one character: far beyond ASCII, the ranges of a class are tried one by one."""
    if name != "IN":
        return 1
    return 1 + sum(last > 0xFFFF for _, last in _ranges(argument)) // RANGES_OF_A_STEP


def _ranges(items: Any) -> list[tuple[int, int]]:
    """The first and the last character of each member of a class."""
    if str(items[-1][0]) == "CATEGORY":
        return [(0, 0x10FFFF)]  # [\\s\\S]: ecma262 leaves no other category
    return [value if isinstance(value, tuple) else (value, value) for _, value in items if value is not None]


def _characters(name: str, argument: Any, flags: int) -> int:
    """The set that a part for one character matches; too many characters rather than too few."""
    if name == "ANY":
        return _ANY if flags & re.DOTALL else _ANY & ~_set_of(ord("\n"))
    items = argument if name == "IN" else [("LITERAL", argument)]
    is_negated = name == "NOT_LITERAL" or str(items[0][0]) == "NEGATE"
    found, certain = _sets(_ranges(items))
    if flags & re.IGNORECASE:  # some letters of ASCII have another case beyond ASCII
        found = _of_either_case(found)
    return _ANY & ~certain if is_negated else found


def _of_either_case(found: int) -> int:
    """A set with the other cases of its letters."""
    found |= (found & _SMALL) >> 32 | (found & _LARGE) << 32
    found |= _OTHERS["word"] if found & (_SMALL | _LARGE) else 0
    return found | (_SMALL | _LARGE if found & _OTHERS["word"] else 0)


def _sets(ranges: list[tuple[int, int]]) -> tuple[int, int]:
    """The set of ranges that do not overlap; and of the bits of that set, those that stand for no more."""
    found = certain = spaces = others = 0
    for first, last in ranges:
        if first < 128:
            certain |= (2 << min(last, 127)) - (1 << first)
        here = bisect_right(_WIDE_SPACES, last) - bisect_left(_WIDE_SPACES, first)
        spaces += here
        wide = max(0, last - max(first, 128) + 1) - here
        others += wide
        found |= (_set_of(last) if first == last else _NO_SPACES) if wide else 0
    certain |= _OTHERS["space"] if spaces == len(_WIDE_SPACES) else 0
    certain |= _NO_SPACES if others == _OTHER_CODES else 0
    return found | certain | (_OTHERS["space"] if spaces else 0), certain
