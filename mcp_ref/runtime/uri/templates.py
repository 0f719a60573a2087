"""URI templates (RFC 6570, levels 1 to 3): URIs with variables, whose values are read back from a URI.

    {x}             a value without reserved characters, so with neither slash nor comma; {x,y} is a,b
    {+x}  {#x}      any characters: / ? # , and the others. {#x} begins with #
    {.x}  {/x}      .value, /value
    {;x}  {?x,y}  {&x}          ;x=value    ?x=value&y=value    &x=value

A URI fits if some values expand the template to exactly that URI; only the digits of percent-encodings may be
upper or lower case, and more of a value may be percent-encoded than need be. Values are returned decoded. A
missing value and an empty one look the same in {x} and {+x}: both are read as empty.

The RFC leaves open how a URI is read back. Among several readings these rules choose, the first one first:

    1. In an expression of several variables the separator ends each value but the last one. 2. {+x} ends
    where a later {?...} or {#...} could begin. 3. An expression that may be missing, such as {.x} or {/x}, is
    there if it can be. 4. Each variable takes as much as it can, from left to right.

A template whose values would run into each other is refused: URIs could be made to take long to read. So is
level 4, {x*} and {x:3}: {+x} takes as one value what {/x*} would take in parts.

Errors      BadTemplate: what is wrong, at which offset. For a URI that does not fit, `match` returns None.
Threads     a template never changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from mcp_ref.runtime.uri.uris import MAX_URI, RESERVED, UNRESERVED, legal_length

__all__ = ["BadTemplate", "Template"]

MAX_VARIABLES = 100
"""Variables of one template, counted as often as they are written; no resource has that many."""
MAX_ENDING = 100
"""Characters of a literal that is searched for in a value, to find its end."""


class BadTemplate(ValueError):
    """The text is not a URI template, or one whose values could not be read back."""


class Operator(NamedTuple):
    """How an expression looks (RFC 6570, appendix A)."""

    first: str
    """Stands before the first value, if there is any."""
    separator: str
    reserved: str = ""
    """Reserved characters that a value may have."""
    named: bool = False
    """Whether each value goes with its name."""
    if_empty: str = "="
    """What follows the name if the value is empty."""


OPERATORS = {
    "": Operator("", ","),
    "+": Operator("", ",", RESERVED),
    "#": Operator("#", ",", RESERVED),
    ".": Operator(".", "."),
    "/": Operator("/", "/"),
    ";": Operator(";", ";", named=True, if_empty=""),
    "?": Operator("?", "&", named=True),
    "&": Operator("&", "&", named=True),
}


class Expression(NamedTuple):
    """What stands between { and }."""

    text: str
    operator: Operator
    names: list[str]
    """The names of its variables."""


Part: TypeAlias = str | Expression


class Template:
    """A URI template, whose values can be read back from a URI."""

    __slots__ = ("_head", "_names", "_pattern", "text", "variables")

    def __init__(self, text: str) -> None:
        parts = list(_parse(text))
        self._names = [name for part in parts if not isinstance(part, str) for name in part.names]
        if len(self._names) > MAX_VARIABLES:
            raise BadTemplate(f"{text[:80]!r} has {len(self._names)} variables: {MAX_VARIABLES} are the most")
        self.text = text
        self.variables: tuple[str, ...] = tuple(dict.fromkeys(self._names))
        """The names, each once, in order."""
        self._pattern = re.compile(_Pattern(parts).regex)
        self._head = parts[0].partition("%")[0] if parts and isinstance(parts[0], str) else ""

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def match(self, uri: str) -> dict[str, str] | None:
        """The values with which the template expands to this URI; None if it never does.

        A variable that has no value in this URI, as may happen to those of {?x,y}, is left out.
        """
        if not uri.startswith(self._head) or len(uri) > MAX_URI or legal_length(uri) < len(uri):
            return None
        found = self._pattern.fullmatch(_characters(uri))
        if found is None:
            return None
        values: dict[str, str | None] = {}
        for name, value in zip(self._names, found.groups(), strict=True):
            if values.setdefault(name, value) != value:
                return None  # a variable has one value, wherever it stands
        return {name: value.translate(_DECODE) for name, value in values.items() if value is not None}


# --------------------------------------------------------------------------------- parsing

# Text, which `re` compiles for the first template: that takes 1.7 ms, and many servers have no templates.
_PART = r"\{([^{}]*)\}|[^{]+|\{"
# RFC 6570 lists what a literal may be: all but a few that no URI may have. (The apostrophe may: its
# absence from that list is a known erratum.)
_LITERAL = (
    rf"(?:[{re.escape(UNRESERVED + RESERVED)}\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\uffef\U00010000-\U0010fffd]++"
    r"|%[0-9A-Fa-f]{2})*+"
)
_NAME = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
_OPERATORS_TO_COME = "=,!@|"


def _parse(text: str) -> Iterator[Part]:
    if len(text) > MAX_URI:
        raise BadTemplate(f"a template of {len(text)} characters: {MAX_URI} are the most")
    for found in re.finditer(_PART, text):
        if found[0] == "{":
            raise _bad(text, found.start(), "this { is never closed")
        if found[1] is None:
            yield _literal(text, found.start(), found[0])
        else:
            yield _expression(text, found.start(1), found[1])


def _bad(text: str, at: int, problem: str) -> BadTemplate:
    return BadTemplate(f"{text[:80]!r}, offset {at}: {problem}")


def _literal(text: str, start: int, written: str) -> str:
    """A literal as it is in a URI: what may not stand there is percent-encoded. Raises BadTemplate."""
    found = re.match(_LITERAL, written)
    legal = found.end() if found else 0
    if legal < len(written):
        bad, at = written[legal : legal + 3], start + legal
        if bad[0] == "}":
            raise _bad(text, at, "this } closes nothing")
        if bad[0] == "%":
            raise _bad(text, at, f"{bad!r} is no percent-encoding")
        raise _bad(text, at, f"{bad[0]!r} may not stand in a URI")
    return quote(written, safe=RESERVED + "%")


def _expression(text: str, start: int, written: str) -> Expression:
    if not written:
        raise _bad(text, start, "an expression without a variable")
    if written[0] in _OPERATORS_TO_COME:
        raise _bad(text, start, f"the operator {written[0]!r} has no meaning yet")
    sign = written[0] if written[0] in OPERATORS else ""
    at, names = start + len(sign), written[len(sign) :].split(",")
    for name in names:
        if not re.fullmatch(_NAME, name):
            problem = f"{name[:40]!r} is no name of a variable: A-Z a-z 0-9 _ and dots within"
            if {*name} & {*"*:"}:
                problem += "; level 4 is not known here, {+x} takes several parts in one"
            raise _bad(text, at, problem)
        at += len(name) + 1
    return Expression(written, OPERATORS[sign], names)


# ------------------------------------------------------------------- the regular expression

ENCODED = "%"
"""In a set of characters: stands for all that are percent-encoded in the URI, and for those beyond ASCII."""
_ENCODED = "\x80-\ud7ff\udc00-\udc7f\ue000-\U0010ffff"
"""The same characters in a text that `_characters` returns. Bytes that are not UTF-8 are not among them: no
value has those."""


class _Run(NamedTuple):
    """An open value, and what comes after it, up to a literal that the value could not contain.

    A value is open if it could contain the text that ends it: {x} in {x}.{y}. Since {x} takes as much as it
    can, there is never a dot in {y}: it would belong to {x}. The regular expression forbids a dot in {y}, so
    that only one dot can end {x}. Otherwise the rest would be tried at each dot, which takes quadratic time
    for a URI of dots.
    """

    start: int
    """The index of its first piece among those of the regular expression."""
    first: frozenset[str]
    """The characters that the open value may have."""
    last: frozenset[str]
    """The characters that the last value may have. A next value that may have others is refused: after one of
    these it could have the dot after all, since the open value would end before it."""
    ends: tuple[str, ...] = ()
    """The texts that the next value must not contain, such as the dot."""
    is_lazy: bool = False
    """Whether the last value takes as little as it can, as an expression that may be missing comes next."""


class _Pattern:
    """Writes the regular expression of a template, for URIs as `_characters` returns them.

    Most values end at a character that they cannot have, so they are possessive: they never give back what
    they took. The others are in a `_Run`.
    """

    def __init__(self, parts: list[Part]) -> None:
        self._written: list[str] = []
        self._run: _Run | None = None
        for index, part in enumerate(parts):
            if isinstance(part, str):
                self._literal(_characters(part))
            else:
                self._expression(part, parts[index + 1 :])
        self.regex = "".join(self._written)

    def _literal(self, literal: str) -> None:
        run = self._run
        self._written.append(re.escape(literal))
        if run is None:
            return
        if _kinds(literal) <= run.first:
            overlaps = any(literal.endswith(literal[:length]) for length in range(1, len(literal)))
            if run.is_lazy or (overlaps and run.ends) or len(literal) > MAX_ENDING:
                raise BadTemplate(f"the value before {literal[:40]!r} could go on with it: write / instead")
            self._run = run._replace(ends=(literal,))
        else:
            # However the run is read, it ends here. It becomes an atomic group: what follows is tried once.
            self._written[run.start] = "(?>" + self._written[run.start]
            self._written.append(")")
            self._run = None

    def _expression(self, part: Expression, later: list[Part]) -> None:
        # The characters that each value may have. The separator ends each value but the last (rule 1); the ?
        # or # of a later expression ends any value (rule 2).
        ends = {other.operator.first for other in later if isinstance(other, Expression)} & {"?", "#"}
        last = frozenset(UNRESERVED + part.operator.reserved + ENCODED) - ends
        allowed = [last - {part.operator.separator}] * (len(part.names) - 1) + [last]
        optional, literal = _beginnings(later)
        _check_beginnings(part, optional, literal)
        guard = self._guard(part, allowed[0])
        more = "+"
        if last & (optional | literal):
            more = "?" if last & optional else ""
            self._open(part, last, is_lazy=bool(more))
        values = [f"((?:{guard}{_class(of)})*{more})" for of in allowed]
        self._written.append((_named if part.operator.named else _unnamed)(part, values))

    def _guard(self, part: Expression, value: frozenset[str]) -> str:
        """The lookahead that keeps the ends of an open value out of a value after it; "" without one."""
        run, operator = self._run, part.operator
        if run is None or (operator.first and operator.first not in run.first):
            return ""
        if part.names[1:] or not value <= run.last or bool(operator.first) is not run.is_lazy:
            raise _unclear(part)
        ends = (*run.ends, operator.first) if operator.first else run.ends
        self._run = run._replace(last=value, ends=ends)
        return f"(?!{'|'.join(map(re.escape, ends))})"

    def _open(self, part: Expression, value: frozenset[str], *, is_lazy: bool) -> None:
        if part.operator.first or part.names[1:]:
            raise _unclear(part)
        run = self._run or _Run(len(self._written), value, value)
        self._run = run._replace(is_lazy=is_lazy)


def _check_beginnings(part: Expression, optional: frozenset[str], literal: frozenset[str]) -> None:
    """Refuse an expression that may be missing if what follows could be taken for it, as in {/x}/y."""
    operator = part.operator
    own = {operator.first, "="} if operator.named else {operator.first}
    if part.names[1:]:
        own.add(operator.separator)
    if own & literal or (own & optional and not operator.named) or "" in optional:
        raise _unclear(part)


def _unclear(part: Expression) -> BadTemplate:
    return BadTemplate(
        f"where the values of {{{part.text[:40]}}} begin and end would not be clear: put / before and after "
        "it, write {x} for {+x} or {/x}, or make it a parameter, as in {?x}"
    )


def _kinds(text: str) -> frozenset[str]:
    """The characters of a text, with ENCODED for those that it stands for."""
    return frozenset(ENCODED if c > "\x7f" and not "\udc80" <= c <= "\udcff" else c for c in text)


def _beginnings(parts: list[Part]) -> tuple[frozenset[str], frozenset[str]]:
    """The characters with which the next parts begin: expressions that may be missing, and then a literal."""
    optional: set[str] = set()
    for part in parts:
        if isinstance(part, str):
            return frozenset(optional), _kinds(_characters(part)[0])
        optional.add(part.operator.first)
    return frozenset(optional), frozenset()


def _class(characters: frozenset[str]) -> str:
    return f"[{re.escape(''.join(sorted(characters)))}{_ENCODED}]"


def _unnamed(part: Expression, values: list[str]) -> str:
    """{/x,y}: y is there only if x is."""
    operator, regex = part.operator, ""
    for value in reversed(values[1:]):
        regex = f"(?:{re.escape(operator.separator)}{value}{regex})?+"
    regex = re.escape(operator.first) + values[0] + regex
    return f"(?:{regex})?+" if operator.first else regex


def _named(part: Expression, values: list[str]) -> str:
    """{?x,y}: each may be missing, and the first that is there comes after the ?."""
    operator, regex, one = part.operator, "", _class(frozenset(UNRESERVED))
    separator = r"(?:(?<=\?)|(?<!\?)&)" if operator.first == "?" else operator.separator
    for variable, value in zip(part.names, values, strict=True):
        name = re.escape(_characters(variable)) + operator.if_empty
        if not operator.if_empty:
            name += f"(?:=(?={one})|(?!{one}|=))"
        regex += f"(?:{separator}{name}{value})?+"
    return rf"(?:\?{regex}(?<!\?))?+" if operator.first == "?" else regex


# ----------------------------------------------------------------------------------- values

_ESCAPES = re.compile("(?:%[0-9A-Fa-f]{2})+")
_BYTES = 0xDC00
"""A code point that no text has (a surrogate). This plus a byte is that byte, percent-encoded, if it is ASCII
or not UTF-8."""
_KEEP = {byte: _BYTES + byte for byte in range(128)}
_DECODE = {_BYTES + byte: byte for byte in range(128)}


def _characters(uri: str) -> str:
    """The URI with one character for each percent-encoded one, still distinct from one written plainly."""
    return _ESCAPES.sub(_decoded, uri) if "%" in uri else uri


def _decoded(found: re.Match[str]) -> str:
    raw = bytes.fromhex(found[0].replace("%", ""))
    return raw.decode("utf-8", "surrogateescape").translate(_KEEP)
