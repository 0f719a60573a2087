"""Text from a peer, made safe for a terminal and a log, and recognizable as the peer's.

A message of a server may hold escape sequences, characters that reverse the direction of writing, or lines
that look as if this program had written them. `plain` replaces the first two and `one_line` escapes them;
`quoted` also puts a mark before each line, even where the terminal would have broken a long one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

__all__ = ["QUOTE_MARK", "one_line", "plain", "quoted", "wrapped"]

QUOTE_MARK = "| "
"""Before each line that a peer wrote."""


def plain(text: Any) -> str:
    """Text with U+FFFD in place of control characters, except line feeds and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in str(text))


def one_line(text: Any) -> str:
    """Text on one line, with unprintable characters escaped as in a Python string."""
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in whole)


def quoted(text: Any, width: int, max_lines: int) -> list[str]:
    """Text as marked lines that fit into the width; a last line says that more were left out."""
    columns = max(width - len(QUOTE_MARK), 10)
    lines = [QUOTE_MARK + line for line in wrapped(text, columns, max_lines + 1)]
    if len(lines) > max_lines:
        lines[max_lines:] = ["(it goes on, and is not shown further)"]
    return lines


def wrapped(text: Any, width: int, max_lines: int) -> list[str]:
    """The first lines of a text, broken at spaces where there are any, so that they fit into the width."""
    lines: list[str] = []
    # The rest of a long text need not be looked at: a column has no more than a few combining marks on it.
    for paragraph in plain(str(text)[: width * max_lines * 4]).expandtabs(4).split("\n"):
        for line in _broken(paragraph, width):
            lines.append(line)
            if len(lines) == max_lines:
                return lines
    return lines


def _broken(text: str, width: int) -> Iterator[str]:
    """The parts of a line that fit into the width; one empty part for an empty line."""
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
    """The width of a character: Chinese and Japanese ones take two columns, combining marks none."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
