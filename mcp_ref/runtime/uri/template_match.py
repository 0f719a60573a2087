"""Reading a URI back: which values of its variables make a template (`templates`) give this very URI.

A URI fits if the template can give it, to the letter, from one string for each variable and from a list or
dict for each {x*}; only the digits of percent-encodings may be upper or lower case, and what need not be
encoded may be. Values come decoded. {x} takes no reserved character, so neither slash nor comma; {+x} and
{#x} take any. {x*} comes back as a dict if all its parts are k=v, else as a list. What is empty and what
is missing look the same in {x} and {+x}: it is read as empty.

Where there are several readings, the first of these holds:

    1. Within one expression of several variables the separator ends a value, but not the last one.
    2. {+x} ends where a later {?...} or {#...} could begin.
    3. An expression that may be missing, such as {.x} or {/x}, is there if it can be.
    4. Each variable takes as much as it can, from left to right.

A reading is not taken back: {+x}{/y*} does not fit /==, because rule 3 gives all of it to {/y*}, and no list
and no dict has such a part.

It takes no longer for URIs that somebody made to take long. A template is a row of steps, each some fixed
text (its lead) and then a value out of some set of characters. For each step, from the last to the
first, `reach` notes all places of the URI from which the rest of the template fits the rest of the URI:
as bits of one integer, so that a step is worked out for all places at once, by a few operations.
With that the values are read from left to right, and no choice needs to be taken back.

Threads     plain functions; a matcher never changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from mcp_ref.runtime.uri.uris import MAX_URI, UNRESERVED, legal_length

if TYPE_CHECKING:
    from mcp_ref.runtime.uri.templates import Expression, Operator, Part, Value, Variable

__all__ = ["Matcher"]

ENCODED = "%"
"""Stands for any character that is percent-encoded in the URI."""

# ------------------------------------------------------------------------- text in one's hands

_ESCAPES = re.compile("(?:%[0-9A-Fa-f]{2})+")
_BYTES = 0xDC00
"""A code point that no text has, plus a byte: a percent-encoded byte, of ASCII or not of UTF-8."""
_KEEP = {byte: _BYTES + byte for byte in range(128)}
_DECODE = {_BYTES + byte: byte for byte in range(128)}
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")
_NOT_ASCII = re.compile("[^\0-\x7f]")


def characters(uri: str) -> str:
    """The URI with one character for each, and those that are percent-encoded still told from the rest."""
    return _ESCAPES.sub(_decoded, uri) if "%" in uri else uri


def _decoded(found: re.Match[str]) -> str:
    raw = bytes.fromhex(found[0].replace("%", ""))
    return raw.decode("utf-8", "surrogateescape").translate(_KEEP)


def _value(text: str) -> str:
    return text if text.isascii() else text.translate(_DECODE)


@lru_cache(maxsize=256)
def _marks(of: str) -> str:
    """A table that makes 1 of these characters and 0 of all others."""
    return "".join("1" if chr(code) in of else "0" for code in range(128))


FEW_PLACES = 8
"""Places of a text that are looked up one by one."""


class _Uri:
    """A URI that is looked at. Place p, before its character p, is bit `length - p` of a set of places."""

    def __init__(self, uri: str) -> None:
        self.text = characters(uri)
        self.length = len(self.text)
        self.kinds = self.text
        if not self.text.isascii():
            # A byte that is not UTF-8 is of no kind: no value has it.
            self.kinds = _NOT_ASCII.sub(ENCODED, _NOT_UTF_8.sub("\0", self.text))
        self._known: dict[tuple[str, str], int] = {}

    def members(self, of: str) -> int:
        """All characters that are of these; each has the bit of the place behind it."""
        key = ("members", of)
        if key not in self._known:
            self._known[key] = int("0" + self.kinds.translate(_marks(of)), 2)
        return self._known[key]

    def places(self, lead: str) -> int:
        """All places where this stands."""
        key = ("places", lead)
        if key not in self._known:
            self._known[key] = self._places(lead)
        return self._known[key]

    def _places(self, lead: str) -> int:
        if not lead:
            return (2 << self.length) - 1
        if lead.isascii() and self.text.count(lead) > FEW_PLACES:
            # Where each of its characters stands, one place further for each.
            found = -1
            for number, character in enumerate(lead):
                found &= self._places_of(character) << number
            return found
        marks = bytearray(b"0") * (self.length + 1)
        at = self.text.find(lead)
        while at >= 0:
            marks[at] = ord("1")
            at = self.text.find(lead, at + 1)
        return int(marks, 2)

    def _places_of(self, character: str) -> int:
        """All places where this ASCII character stands; quick however many they are."""
        text = self.text
        if not text.isascii():
            # What is not ASCII must be none of its kind: a sign that it is not is put there.
            text = _NOT_ASCII.sub("a" if character != "a" else "b", text)
        return int(text.translate(_marks(character)) + "0", 2)

    def run(self, start: int, of: str) -> int:
        """Where the characters that are of these end, from this place on."""
        return self.length - len(self.kinds[start:].lstrip(of))


# ------------------------------------------------------------------------------------ steps


class _Step(NamedTuple):
    lead: str
    of: str
    """The characters that the value may have."""
    least: int
    most: int | None
    variable: Variable | None
    operator: Operator | None
    then: int
    """The step after this one."""
    otherwise: int | None
    """The step instead of this one, if it may be left out."""
    exit: int
    """The step after the whole expression."""


def _steps(parts: Sequence[Part]) -> list[_Step]:
    steps: list[_Step] = []
    for index, part in enumerate(parts):
        base = len(steps)
        if isinstance(part, str):
            steps.append(_Step(characters(part), "", 0, None, None, None, base + 1, None, base + 1))
        elif part.operator.named:
            steps += _named_steps(part, base)
        else:
            stops = {later.operator.first for later in parts[index + 1 :] if not isinstance(later, str)}
            steps += _unnamed_steps(part, base, stops & {"?", "#"})
    return steps


def _unnamed_steps(expression: Expression, base: int, stops: set[str]) -> list[_Step]:
    """{x,y}: the first, unless all is missing; then the second, unless ..."""
    operator, variables = expression
    exit = base + len(variables)
    steps = []
    for index, variable in enumerate(variables):
        of = set(UNRESERVED + ENCODED + operator.reserved) - stops
        if variable.explode:
            of |= {operator.separator, "="}
        elif index < len(variables) - 1:
            of -= {operator.separator}
        lead = operator.separator if index else operator.first
        steps.append(
            _Step(
                lead,
                "".join(sorted(of)),
                0,
                variable.prefix,
                variable,
                operator,
                base + index + 1,
                exit if lead else None,
                exit,
            )
        )
    return steps


def _named_steps(expression: Expression, base: int) -> list[_Step]:
    """{?x,y}: any of them may be missing, and the first that is not has another character before it."""
    operator, variables = expression
    rows = [
        (lead, index, form)
        for lead in dict.fromkeys((operator.first, operator.separator))
        for index in range(lead != operator.first, len(variables))
        for form in _forms(operator, variables[index], lead)
    ]
    exit = base + len(rows)
    begins: dict[tuple[str, int], int] = {}
    for number, (lead, index, _) in enumerate(rows, base):
        begins.setdefault((lead, index), number)
    steps = []
    for number, (lead, index, (start, of, least, most)) in enumerate(rows, base):
        then = begins.get((operator.separator, index + 1), exit)
        is_last = number + 1 == exit or rows[number + 1 - base][0] != lead
        otherwise = exit if is_last else number + 1
        steps.append(_Step(start, of, least, most, variables[index], operator, then, otherwise, exit))
    return steps


def _forms(operator: Operator, variable: Variable, lead: str) -> list[tuple[str, str, int, int | None]]:
    """The ways to write one variable with its name: lead, characters, how many at least and at most."""
    of = UNRESERVED + ENCODED
    if variable.explode:
        return [(lead, of + operator.separator + "=", 0, None)]
    name = lead + characters(variable.name)
    if operator.if_empty:
        return [(name + "=", of, 0, variable.prefix)]
    return [(name + "=", of, 1, variable.prefix), (name, "", 0, variable.prefix)]


# --------------------------------------------------------------------------------- matching


class Matcher:
    """A template as steps."""

    __slots__ = ("_head", "_steps", "_times")

    def __init__(self, parts: Sequence[Part]) -> None:
        self._steps = _steps(parts)
        self._times = Counter(
            variable.name for part in parts if not isinstance(part, str) for variable in part.variables
        )
        first = parts[0] if parts else ""
        self._head = first.partition("%")[0] if isinstance(first, str) else ""

    def match(self, text: str) -> dict[str, Value] | None:
        """The values of the variables, or None."""
        if not text.startswith(self._head) or len(text) > MAX_URI or legal_length(text) < len(text):
            return None
        uri = _Uri(text)
        reach, taken = self._reach(uri)
        if not reach[0] >> uri.length & 1:
            return None
        found: dict[str, list[tuple[int | None, Value]]] = {}
        at, number = 0, 0
        while number < len(self._steps):
            step = self._steps[number]
            end = self._end(uri, at, number, reach, taken)
            if end is None:
                assert step.otherwise is not None  # or `at` were not in reach
                number = step.otherwise
                continue
            if step.variable is not None and step.operator is not None:
                value = _read(step.operator, step.variable, uri.text[at + len(step.lead) : end])
                if value is None:
                    return None
                found.setdefault(step.variable.name, []).append((step.variable.prefix, value))
            at, number = end, step.then
        if any(len(readings) < self._times[name] for name, readings in found.items()):
            return None  # a variable with a value has it everywhere
        return _agreed(found)

    def _reach(self, uri: _Uri) -> tuple[list[int], list[int]]:
        """For each step the places from which it and all that follow fit; those where it is not left out."""
        reach = [0] * len(self._steps) + [1]
        taken = reach[:]
        for number in reversed(range(len(self._steps))):
            step = self._steps[number]
            starts = _spread(reach[step.then], uri.members(step.of), step.least, step.most)
            here = (starts << len(step.lead)) & uri.places(step.lead)
            reach[number] = taken[number] = here
            if step.otherwise is not None:
                reach[number] |= reach[step.otherwise]
                if step.otherwise != step.exit:
                    taken[number] |= taken[step.otherwise]
        return reach, taken

    def _end(self, uri: _Uri, at: int, number: int, reach: list[int], taken: list[int]) -> int | None:
        """Where the step ends that begins at this place; None if it is left out."""
        step = self._steps[number]
        if not uri.text.startswith(step.lead, at):
            return None
        start = at + len(step.lead)
        stop = uri.run(start, step.of)
        if step.most is not None:
            stop = min(stop, start + step.most)
        following = step.then
        while following < len(self._steps) and self._steps[following].otherwise is not None:
            end = _furthest(uri, taken[following], start + step.least, stop)
            if end is not None:
                return end
            following = self._steps[following].exit
        return _furthest(uri, reach[step.then], start + step.least, stop)


def _spread(ends: int, members: int, least: int, most: int | None) -> int:
    """The places from which one of these ends is reached by members alone.

    To go back by one character is to double the bit. An addition goes back through a whole run of
    members in one go, as its carry does.
    """
    if not members:
        return 0 if least else ends
    if most is None:
        starts = (((ends & members) + members) ^ members) | ends
    else:
        starts = ends
        for _ in range(most - least):
            more = starts | (starts & members) << 1
            if more == starts:
                break
            starts = more
    return (starts & members) << 1 if least else starts


def _furthest(uri: _Uri, places: int, start: int, stop: int) -> int | None:
    """The last of these places from `start` to `stop`."""
    if start > stop:
        return None
    window = places >> (uri.length - stop) & ((1 << (stop - start + 1)) - 1)
    return stop + 1 - (window & -window).bit_length() if window else None


# ----------------------------------------------------------------------------------- values


def _read(operator: Operator, variable: Variable, text: str) -> Value | None:
    """What a variable is if this stands for it; None if nothing is."""
    if not variable.explode:
        return _value(text)
    pairs = [item.partition("=") for item in text.split(operator.separator)]
    if operator.named:
        return _named_items(operator, characters(variable.name), pairs)
    if operator.reserved:
        as_dict = _dict(pairs) if all(equals for _, equals, _ in pairs) else None
        return as_dict or ["".join(map(_value, pair)) for pair in pairs]
    if all(equals and "=" not in value for _, equals, value in pairs):
        return _dict(pairs)
    return None if "=" in text else [_value(key) for key, _, _ in pairs]


def _named_items(operator: Operator, name: str, pairs: list[tuple[str, str, str]]) -> Value | None:
    for _, equals, value in pairs:
        if "=" in value or bool(equals) is not bool(value or operator.if_empty):
            return None
    if all(key == name for key, _, _ in pairs):
        return [_value(value) for _, _, value in pairs]
    return _dict(pairs)


def _dict(pairs: list[tuple[str, str, str]]) -> dict[str, str] | None:
    made = {_value(key): _value(value) for key, _, value in pairs}
    return made if len(made) == len(pairs) else None


def _agreed(found: dict[str, list[tuple[int | None, Value]]]) -> dict[str, Value] | None:
    """One value for each variable, though it may stand in several places, also as a prefix of itself."""
    values: dict[str, Value] = {}
    for name, readings in found.items():
        if len(readings) == 1:
            values[name] = readings[0][1]
            continue
        value = max(readings, key=lambda reading: MAX_URI if reading[0] is None else reading[0])[1]
        for prefix, part in readings:
            whole = value[:prefix] if prefix is not None and isinstance(value, str) else value
            if whole != part:
                return None
        values[name] = value
    return values
