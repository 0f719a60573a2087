r"""Regular expressions as JSON Schema has them, those of ECMA-262, in the words of Python's `re`.

Both sides of a connection read a schema, and have to read it alike: `^[a-z]+$`, where it guards the name of a
file, must not let a last line feed pass, as it would if it were Python's. A pattern is read as ECMA-262 does
with the flag `u`, which JSON Schema recommends: a character is a whole code point. These parts change:

    $                        the very end, never before a last line feed     -> \Z
    .                        no line end: none of \n, \r, \u2028, \u2029     -> a class
    \d \w \b \B              those of ASCII                                  -> classes, (?a:\b), (?a:(?!\b))
    \s                       white space and line ends                       -> a class
    \p{Lu} \P{L}             a general category, as Python's Unicode has it  -> a class
    [...]                    [] has no character, [^] all                    -> a class without special signs
    (?<name>...) \k<name>    a group with a name, and what it matched        -> (?P<name>...) (?P=name)
    \u{1F600} \ud83d\ude00   a character; \cJ, too                           -> the character

What ECMA-262 does not have, and Python does (`\A`, `(?i)`, `a++`), means what it means in Python. Comments
are refused, `(?#...)` and those of `(?x)`: a bracket in one would be taken for a class. So is what Python
does not have: properties other than categories (`\p{Script=Greek}`), look-behinds of any length, and
back-references before the end of their group. Two differences remain. A back-reference to a group that took
no part fails, and in ECMA-262 it is empty. A group in a repetition keeps what it matched in an earlier round.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from typing import TypeAlias

__all__ = ["SPACES", "Ranges", "translated"]

Ranges: TypeAlias = list[tuple[int, int]]
"""A set of characters: the first and the last of each range of code points."""

_LAST_CODE = 0x10FFFF
_DIGITS = [(0x30, 0x39)]
_WORD = [*_DIGITS, (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
SPACES = [
    *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
]
"""What `\\s` matches: WhiteSpace and LineTerminator of ECMA-262."""
_LINE_ENDS = [(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)]

_ESCAPE = r"""
    \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}     # the halves of a surrogate pair
    | \\u\{[0-9a-fA-F]++\} | \\u[0-9a-fA-F]{4} | \\U[0-9a-fA-F]{8} | \\x[0-9a-fA-F]{2}
    | \\c[A-Za-z] | \\[0-7]{1,3} | \\[pP]\{[^{}]*+\} | \\k<[^<>]*+>
    | \\.
"""
_CHANGING = re.compile(
    rf"""
    (?P<escape> {_ESCAPE} )
    | (?P<set> \[ (?P<not>\^?) (?P<members> (?: \\. | [^\\\]] )*+ ) (?P<closed> \]? ) )
    | (?P<named> \(\?< (?![=!]) )
    | (?P<comment> \(\?\# )
    | (?P<flags> \(\? (?P<on>[a-zA-Z]*+) -? (?P<off>[a-zA-Z]*+) (?P<rest>[:)]) )
    | (?P<open> \( )
    | (?P<close> \) )
    | (?P<end> \$ )
    | (?P<any> \. )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A part of a pattern that may change; all between two such parts stays."""
_MEMBER = re.compile(rf"{_ESCAPE} | .", re.VERBOSE | re.DOTALL)
"""A member of a class, or the hyphen of a range."""


def translated(pattern: str) -> str:
    """The pattern in the words of Python's `re`. Raises re.error."""
    return _CHANGING.sub(_Scan().part, pattern)


class _Scan:
    """One reading of a pattern, from left to right."""

    def __init__(self) -> None:
        self.flags = [frozenset[str]()]
        """The flags in force within each group that is open, the innermost last."""

    def part(self, found: re.Match[str]) -> str:
        """A part as Python has it. Raises re.error."""
        match found.lastgroup:
            case "escape":
                return _escape(found[0])
            case "set":
                if not found["closed"]:
                    raise re.error("unterminated character set")
                return _class(_members(found["members"]), bool(found["not"]))
            case "comment":
                raise re.error("comments are not supported")
            case "end":
                return "$" if "m" in self.flags[-1] else r"\Z"
            case "any":
                return "." if "s" in self.flags[-1] else _class(_LINE_ENDS, is_negated=True)
        self._follow(found)
        return "(?P<" if found.lastgroup == "named" else found[0]

    def _follow(self, found: re.Match[str]) -> None:
        """Keep the flags in force, where a group begins or ends."""
        if found.lastgroup == "close":
            del self.flags[max(1, len(self.flags) - 1) :]
            return
        flags = self.flags[-1].union(found["on"] or "").difference(found["off"] or "")
        if "x" in flags:
            raise re.error("the flag x is not supported")
        if found["rest"] == ")":  # no group: the flags are those of the whole pattern
            self.flags[-1] = flags
        else:
            self.flags.append(flags)


def _escape(escape: str) -> str:
    """An escape outside of a class."""
    kind = escape[1]
    if kind in "dDwWsSpP":
        return _class(_named(kind.lower(), escape), kind.isupper())
    if kind in "bB":  # Python's own \B does not match in an empty text, before 3.14
        return r"(?a:\b)" if kind == "b" else r"(?a:(?!\b))"
    if kind == "k":
        return f"(?P={escape[3:-1]})"
    return re.escape(chr(_code(escape))) if kind in "cu" else escape


def _members(text: str) -> Ranges:
    """The characters of a class, from the text between its brackets."""
    tokens = _MEMBER.findall(text)[::-1]
    ranges: Ranges = []
    while tokens:
        member = _member(tokens.pop())
        if len(tokens) > 1 and tokens[-1] == "-":
            tokens.pop()
            member = _from_to(member, _member(tokens.pop()))
        ranges += member
    return ranges


def _member(token: str) -> Ranges:
    """The characters that one character or one escape stands for within a class."""
    kind = token[1:2]
    if not kind or kind not in "dDwWsSpP":
        code = _code(token) if kind else ord(token)
        return [(code, code)]
    found = _named(kind.lower(), token)
    return _complement(found) if kind.isupper() else found


def _named(kind: str, escape: str) -> Ranges:
    """The characters of `\\d`, `\\w` and `\\s`, or of a property."""
    found = {"d": _DIGITS, "w": _WORD, "s": SPACES}.get(kind) or _property(escape[3:-1])
    if not found:
        raise re.error(f"the property {escape:.60} is not supported")
    return found


def _from_to(low: Ranges, high: Ranges) -> Ranges:
    """Two members of a class with a hyphen between them; beside a set (`\\w-.`) it is a member itself."""
    first, last = low[0][0], high[-1][1]
    if low != [(first, first)] or high != [(last, last)]:
        return [*low, (0x2D, 0x2D), *high]
    if first > last:
        raise re.error(f"bad character range {chr(first)}-{chr(last)}")
    return [(first, last)]


def _class(ranges: Ranges, is_negated: bool) -> str:
    """A class of Python's, in which every character stands for itself."""
    merged = _merged(ranges)
    if merged and merged[-1][1] == _LAST_CODE:
        # By what it lacks: with the flag `i`, a class of all other characters would match `k`, for one, as
        # another case of the sign for kelvin.
        merged, is_negated = _complement(merged), not is_negated
    ends = [(re.escape(chr(first)), re.escape(chr(last))) for first, last in merged]
    members = "".join(low if low == high else f"{low}-{high}" for low, high in ends)
    if not members:  # any character, or none
        members, is_negated = r"\s\S", not is_negated
    return f"[{'^' if is_negated else ''}{members}]"


def _merged(ranges: Ranges) -> Ranges:
    """The same characters in ascending ranges that do not touch."""
    merged: Ranges = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _complement(ranges: Ranges) -> Ranges:
    merged = _merged(ranges)
    starts = [0, *(last + 1 for _, last in merged)]
    ends = [*(first - 1 for first, _ in merged), _LAST_CODE]
    return [(first, last) for first, last in zip(starts, ends, strict=True) if first <= last]


_CONTROLS = {"b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7}
"""`\\a` is Python's; `\\b` is a backspace only within a class."""


def _code(escape: str) -> int:
    """The character that an escape stands for. Raises re.error."""
    kind, digits = escape[1], escape[2:].strip("{}")
    if kind in _CONTROLS:
        return _CONTROLS[kind]
    if kind in "01234567":
        return int(escape[1:], 8)
    if kind == "c" and digits:
        return ord(digits) % 32
    if kind in "xuU" and digits:
        return _hexadecimal(digits)
    if kind.isascii() and kind.isalnum():
        raise re.error(f"bad escape {escape:.60}")
    return ord(kind)


def _hexadecimal(digits: str) -> int:
    first, _, second = digits.partition(r"\u")
    code = int(first, 16)
    if second:  # each half of a surrogate pair has ten bits of the character
        code = 0x10000 + (code % 0x400 << 10) + int(second, 16) % 0x400
    if code > _LAST_CODE:
        raise re.error(f"there is no character {digits:.60}")
    return code


_LONG_NAMES = {
    "Letter": "L",
    "Mark": "M",
    "Number": "N",
    "Punctuation": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt",
    "Cased_Letter": "LC",
    "Modifier_Letter": "Lm",
    "Other_Letter": "Lo",
    "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me",
    "Combining_Mark": "M",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Letter_Number": "Nl",
    "Other_Number": "No",
    "Connector_Punctuation": "Pc",
    "Dash_Punctuation": "Pd",
    "Other_Punctuation": "Po",
    "punct": "P",
    "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe",
    "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf",
    "Math_Symbol": "Sm",
    "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk",
    "Other_Symbol": "So",
    "Space_Separator": "Zs",
    "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp",
    "Other": "C",
    "Control": "Cc",
    "cntrl": "Cc",
    "Format": "Cf",
    "Surrogate": "Cs",
    "Private_Use": "Co",
    "Unassigned": "Cn",
}
"""The long names of the general categories, and their other names, as in ECMA-262's table of them."""


def _property(text: str) -> Ranges | None:
    """The characters of a property, from the text between the braces; None for a property we do not know."""
    property_name, _, value = text.partition("=")
    name = value if property_name in ("General_Category", "gc") else text
    return _categories().get(_LONG_NAMES.get(name, name))


@functools.cache
def _categories() -> dict[str, Ranges]:
    """The characters of each general category, by its name of one letter or two.

    `LC`, too, is one of ECMA-262's: letters that have cases.
    """
    found: dict[str, Ranges] = {}
    for name, run in itertools.groupby(
        range(_LAST_CODE + 1), key=lambda code: unicodedata.category(chr(code))
    ):
        codes = list(run)
        for key in (name, name[0]):
            found.setdefault(key, []).append((codes[0], codes[-1]))
    return found | {"LC": [*found["Lu"], *found["Ll"], *found["Lt"]]}
