"""Fields as a person types them (page: client/elicitation): one line of text for each.

    wanted(field)          what is to be typed: "a whole number; at least 1"
    read(field, said)      what was typed -> the value, or a Mismatch; choices go by their numbers
    shown(field, value)    the value, as a person reads it

Revisions   2025-06-18  forms
Errors      Mismatch, whose text begins with "must".
Threads     plain functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mcp_ref.client.elicitation.requested_schema import FORMATS, FormField
from mcp_ref.runtime.typing.mismatch import Mismatch

__all__ = ["called", "read", "shown", "wanted"]

_WANTED = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "yes or no",
    "choice": "the number of one of these",
    "choices": "numbers of these, such as 1, 3, or 0 for none",
}


def wanted(field: FormField) -> str:
    """What is to be typed, in words of ours."""
    words = [FORMATS[field.format][0] if field.format in FORMATS else _WANTED[field.kind]]
    bounds = {
        "at least {}": field.minimum,
        "at most {}": field.maximum,
        "at least {} long": field.min_length,
        "at most {} long": field.max_length,
        "at least {} of them": field.min_items,
        "at most {} of them": field.max_items,
    }
    words += [rule.format(bound) for rule, bound in bounds.items() if bound is not None]
    return "; ".join(words)


def called(value: str, title: str) -> str:
    """A choice: its title does not hide what will be sent."""
    return title if title == value else f"{title} ({value})"


def shown(field: FormField, value: Any) -> str:
    """A value as its field would show it."""
    titles = {choice: called(choice, title) for choice, title in field.choices}
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(titles[item] for item in value) or "none of them"
    return titles.get(value, str(value))


def read(field: FormField, said: str) -> Any:
    """The value that was typed. Raises Mismatch."""
    if not said:
        raise Mismatch("must not be left empty")
    value = _READ[field.kind](field, said)
    field.check(value)
    return value


def _text(field: FormField, said: str) -> str:
    if not all(character.isprintable() or character.isspace() for character in said):
        raise Mismatch("must not hold keys that are no letters")
    return said


def _number(field: FormField, said: str) -> float:
    if not re.fullmatch(r"[+-]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?", said):
        raise Mismatch(f"must be a number such as {'12' if field.kind == 'integer' else '0.5'}")
    return int(said) if re.fullmatch(r"[+-]?[0-9]+", said) else float(said)


def _boolean(field: FormField, said: str) -> bool:
    for word, value in ("yes", True), ("no", False), ("true", True), ("false", False):
        if word.startswith(said.lower()):
            return value
    raise Mismatch("must be yes or no")


def _choice(field: FormField, said: str) -> str:
    if not re.fullmatch(r"[0-9]{1,9}", said) or not 1 <= int(said) <= len(field.choices):
        raise Mismatch(f"must be a number from 1 to {len(field.choices)}")
    return field.choices[int(said) - 1][0]


def _choices(field: FormField, said: str) -> list[str]:
    if said == "0":
        return []
    return list(dict.fromkeys(_choice(field, part) for part in re.split(r"[\s,;]+", said.strip(" ,;"))))


_READ: dict[str, Callable[[FormField, str], Any]] = {
    "string": _text,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
    "choice": _choice,
    "choices": _choices,
}
