"""URI templates (RFC 6570): a URI with variables in it, filled in or read back.

    {x}             a,b of one value: percent-encoded but for letters, digits and - . _ ~
    {+x}  {#x}      reserved characters stay: / ? # , and the others. {#x} begins with #
    {.x}  {/x}      .value, /value
    {;x}  {?x,y}  {&x}          ;x=value    ?x=value&y=value    &x=value
    {x:3}           the first three characters
    {x*}            a list or a dict in several parts: {/x*} -> /a/b, {?x*} -> ?x=a&x=b or ?k=a&l=b

A variable that has no value leaves nothing behind, nor has an empty list or dict one. The RFC only
fills in; how a URI is read back is told in `template_match`.

Errors      BadTemplate for a text that is no template: what is wrong, at which offset. ValueError or
            TypeError for values that have no place in one. A URI that does not fit is None.

Threads     a template never changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from mcp_ref.runtime.uri.template_match import Matcher
from mcp_ref.runtime.uri.uris import MAX_URI, RESERVED, UNRESERVED, BadUri, check_uri, leads_out

__all__ = ["MAX_URI", "BadTemplate", "BadUri", "Template", "Value", "check_uri", "leads_out"]

MAX_VARIABLES = 100
"""Variables of one template; no resource has that many."""

Value: TypeAlias = str | list[str] | dict[str, str]


class BadTemplate(ValueError):
    """This text is no URI template."""


class Operator(NamedTuple):
    """What an expression of one kind looks like (RFC 6570, appendix A)."""

    first: str
    """Stands before the first value, if there is any."""
    separator: str
    named: bool
    """Whether each value goes with its name."""
    if_empty: str
    """What follows the name if the value is empty."""
    reserved: str
    """Reserved characters that stay as they are."""


OPERATORS = {
    "": Operator("", ",", False, "", ""),
    "+": Operator("", ",", False, "", RESERVED),
    "#": Operator("#", ",", False, "", RESERVED),
    ".": Operator(".", ".", False, "", ""),
    "/": Operator("/", "/", False, "", ""),
    ";": Operator(";", ";", True, "", ""),
    "?": Operator("?", "&", True, "=", ""),
    "&": Operator("&", "&", True, "=", ""),
}


class Variable(NamedTuple):
    """One of the variables of an expression."""

    name: str
    explode: bool
    """`x*`: a list or a dict, in several parts."""
    prefix: int | None
    """`x:3`: so many characters, at most."""


class Expression(NamedTuple):
    """What stands between { and }."""

    operator: Operator
    variables: tuple[Variable, ...]


Part: TypeAlias = str | Expression


class Template:
    """A URI template, ready to be filled in and to be read back.

    # spec: server/resources/uri-template-rfc6570
    """

    __slots__ = ("_matcher", "parts", "text", "variables")

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: tuple[Part, ...] = tuple(_parse(text))
        """Literal text, as it stands in a URI, and expressions."""
        named = [v.name for part in self.parts if isinstance(part, Expression) for v in part.variables]
        if len(named) > MAX_VARIABLES:
            raise BadTemplate(f"{text[:80]!r} has {len(named)} variables: {MAX_VARIABLES} are the most")
        self.variables: tuple[str, ...] = tuple(dict.fromkeys(named))
        """The names, each once, in order."""
        self._matcher = Matcher(self.parts)

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def expand(self, values: Mapping[str, Value]) -> str:
        """The URI with these values. Raises ValueError or TypeError for one that has no place in it."""
        return "".join(part if isinstance(part, str) else _expanded(part, values) for part in self.parts)

    def match(self, uri: str) -> dict[str, Value] | None:
        """The values with which the template gives this URI; None if it never does.

        Nothing is missing but what has no value in this URI, such as a parameter of {?x,y} that is
        not there.
        """
        return self._matcher.match(uri)


# --------------------------------------------------------------------------------- parsing

# RFC 6570 lists what a literal may be: all but a few that no URI may have. (The apostrophe may: its
# absence from that list is a known erratum.)
_LITERAL = re.compile(
    rf"(?:[{re.escape(UNRESERVED + RESERVED)}\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\uffef\U00010000-\U0010fffd]++"
    r"|%[0-9A-Fa-f]{2})*+"
)
_NAME = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*")
_MODIFIER = re.compile(r"\*|:[1-9][0-9]{0,3}|")
_OPERATORS_TO_COME = "=,!@|"


def _parse(text: str) -> Iterator[Part]:
    if len(text) > MAX_URI:
        raise BadTemplate(f"a template of {len(text)} characters: {MAX_URI} are the most")
    at = 0
    while at < len(text):
        start = text.find("{", at)
        if start != at:
            end = start if start > 0 else len(text)
            yield _literal(text, at, end)
            at = end
            continue
        end = text.find("}", start)
        if end < 0:
            raise _bad(text, start, "this { is never closed")
        yield _expression(text, start + 1, end)
        at = end + 1


def _bad(text: str, at: int, problem: str) -> BadTemplate:
    return BadTemplate(f"{text[:80]!r}, offset {at}: {problem}")


def _literal(text: str, start: int, end: int) -> str:
    found = _LITERAL.match(text, start, end)
    legal = found.end() if found else start
    if legal < end:
        bad = text[legal : min(legal + 3, end)]
        if bad[0] == "}":
            raise _bad(text, legal, "this } closes nothing")
        if bad[0] == "%":
            raise _bad(text, legal, f"{bad!r} is no percent-encoding")
        raise _bad(text, legal, f"{bad[0]!r} may not stand in a URI")
    return quote(text[start:end], safe=RESERVED + "%")


def _expression(text: str, start: int, end: int) -> Expression:
    if start == end:
        raise _bad(text, start, "an expression without a variable")
    if text[start] in _OPERATORS_TO_COME:
        raise _bad(text, start, f"the operator {text[start]!r} has no meaning yet")
    operator = OPERATORS.get(text[start])
    if operator is not None:
        start += 1
    variables = []
    for written in text[start:end].split(","):
        variables.append(_variable(text, start, written))
        start += len(written) + 1
    return Expression(operator or OPERATORS[""], tuple(variables))


def _variable(text: str, at: int, written: str) -> Variable:
    found = _NAME.match(written)
    name = found[0] if found else ""
    modifier = written[len(name) :]
    if not name or modifier[:1] not in ("", "*", ":"):
        raise _bad(text, at, f"{written[:40]!r} is no name of a variable: A-Z a-z 0-9 _ and dots within")
    if not _MODIFIER.fullmatch(modifier):
        raise _bad(text, at, f"{written[:40]!r}: after a name comes * or :1 to :9999, or nothing")
    return Variable(name, modifier == "*", int(modifier[1:]) if modifier[1:] else None)


# -------------------------------------------------------------------------------- filling in

_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CHARACTER = re.compile("%[0-9A-Fa-f]{2}|.", re.DOTALL)


def _expanded(expression: Expression, values: Mapping[str, Value]) -> str:
    operator = expression.operator
    parts: list[str] = []
    for variable in expression.variables:
        value = values.get(variable.name)
        if value is None or value in ([], {}):
            continue
        _check(variable, value)
        if variable.explode and not isinstance(value, str):
            parts += _exploded(operator, variable.name, value)
        else:
            parts.append(_named(operator, variable.name, _plain(operator, variable, value)))
    return operator.first + operator.separator.join(parts) if parts else ""


def _check(variable: Variable, value: Value) -> None:
    """Refuse what is neither text nor made of text."""
    if isinstance(value, dict):
        texts: list[str] = [*value, *value.values()]
    else:
        texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{variable.name}: a string, or a list or dict of strings, not {value!r:.80}")
    if variable.prefix is not None and not isinstance(value, str):
        raise ValueError(f"{variable.name}:{variable.prefix} is for strings, not for {value!r:.80}")
    if any(map(_SURROGATE.search, texts)):
        raise ValueError(f"{variable.name}: half a surrogate pair has no percent-encoding: {value!r:.80}")


def _plain(operator: Operator, variable: Variable, value: Value) -> str:
    """A value in one piece."""
    if isinstance(value, str):
        if variable.prefix is not None:
            value = _beginning(operator, value, variable.prefix)
        return _encoded(operator, value)
    texts = [text for pair in value.items() for text in pair] if isinstance(value, dict) else value
    return ",".join(_encoded(operator, text) for text in texts)


def _beginning(operator: Operator, value: str, length: int) -> str:
    if not operator.reserved:
        return value[:length]
    # Here a percent-encoding is let through, so it counts as the one character it stands for.
    characters = _CHARACTER.finditer(value)
    return "".join(found[0] for found, _ in zip(characters, range(length), strict=False))


def _exploded(operator: Operator, name: str, value: list[str] | dict[str, str]) -> list[str]:
    if isinstance(value, list):
        return [_named(operator, name, _encoded(operator, text)) for text in value]
    if not operator.named:
        return [f"{_encoded(operator, key)}={_encoded(operator, text)}" for key, text in value.items()]
    # The RFC would leave & and = in a key as they are, and so make two parameters of one.
    return [_named(operator, quote(key, safe=""), _encoded(operator, text)) for key, text in value.items()]


def _named(operator: Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else name + operator.if_empty


def _encoded(operator: Operator, text: str) -> str:
    if not operator.reserved:
        return quote(text, safe="")
    return quote(_LONE_PERCENT.sub("%25", text), safe=RESERVED + "%")
