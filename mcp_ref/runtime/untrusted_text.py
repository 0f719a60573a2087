"""Text of a stranger's on a terminal: without what would steer it, and recognisably the stranger's.

A server's message may hold escape sequences, marks that turn the direction of writing round, or lines that
look as if the program had written them. `plain` takes the first two out; `quoted` puts a mark before each
line, also where the terminal would have broken it.

Threads     plain functions.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

__all__ = ["MARK", "one_line", "plain", "quoted", "wrapped"]

MARK = "| "
"""Before each line that a stranger wrote."""


def plain(text: Any) -> str:
    """Text without what would steer a terminal; ends of lines and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in str(text))


def one_line(text: Any) -> str:
    """Text of which all can be printed, on one line: what cannot is written as in a string of Python."""
    said = str(text)
    if said.isprintable():
        return said
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in said)


def quoted(text: Any, width: int, most: int) -> list[str]:
    """Text as lines that fit, each marked as a stranger's; `most` of them, and a word on the others."""
    lines = [MARK + line for line in wrapped(text, max(width - len(MARK), 10), most + 1)]
    return lines if len(lines) <= most else [*lines[:most], "(it goes on, and is not shown further)"]


def wrapped(text: Any, width: int, most: int) -> list[str]:
    """Text in lines of so many columns, broken at spaces where there are any; the first `most` lines."""
    lines: list[str] = []
    # What cannot be shown need not be looked at: a column has no more than a few marks on it.
    for paragraph in plain(str(text)[: width * most * 4]).expandtabs(4).split("\n"):
        for line in _broken(paragraph, width):
            lines.append(line)
            if len(lines) == most:
                return lines
    return lines


def _broken(text: str, width: int) -> Iterator[str]:
    """A line in parts that fit; an empty one is a part."""
    start, columns, space = 0, 0, -1
    for at, character in enumerate(text):
        columns += _columns(character)
        space = at if character == " " else space
        if columns > width:
            end = space if space > start else at
            yield text[start:end]
            start = end + 1 if end == space else end
            columns, space = sum(map(_columns, text[start : at + 1])), -1
    yield text[start:]


def _columns(character: str) -> int:
    """How much room it takes: Chinese and Japanese take two columns, marks on a letter none."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
