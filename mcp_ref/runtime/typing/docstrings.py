"""What a docstring says of a function and of its parameters, in the style of Google, NumPy or Sphinx."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

__all__ = ["description_of", "parameter_docs"]

_SECTION = (
    r"(?m)^\s*(?:Args|Arguments|Parameters|Params|Returns|Raises|Yields)\s*:?[ \t]*\n(?=\s*-{3,}|[ \t])"
    r"|^\s*:(?:param|type|returns?|rtype|raises)\b"
)


def description_of(function: Callable[..., Any]) -> str | None:
    """The docstring up to the part that describes parameters, results or errors; None if that is empty."""
    return re.split(_SECTION, inspect.getdoc(function) or "", maxsplit=1)[0].rstrip() or None


def parameter_docs(text: str) -> dict[str, str]:
    """What a docstring says of each parameter, by name."""
    found = {
        name: " ".join(words.split())
        for name, words in re.findall(r":param\s+(?:[\w\[\], .|]+\s+)?(\w+):\s*((?:.+)(?:\n[ \t]+.+)*)", text)
    }
    google = re.search(
        r"(?m)^(?:Args|Arguments|Params|Parameters)\s*:[ \t]*\n((?:[ \t]+.*\n?|[ \t]*\n)+)", text
    )
    if google:
        found |= _items(google.group(1), r"^(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
    numpy = re.search(r"(?m)^Parameters[ \t]*\n-{3,}[ \t]*\n((?:.*\n?)*?)(?=\n\S.*\n-{3,}|\Z)", text)
    if numpy:
        found |= _items(numpy.group(1), r"^(\w+)\s*(?::.*)?()$")
    return {name: words for name, words in found.items() if words}


def _items(block: str, opening: str) -> dict[str, str]:
    """Entries, which start at the block's own indent; deeper lines continue the last entry."""
    lines = inspect.cleandoc("\n" + block).splitlines()
    found: dict[str, str] = {}
    current = ""
    for line in lines:
        start = re.match(opening, line)
        if start and not line[0].isspace():
            current = start.group(1)
            found[current] = start.group(2).strip()
        elif current and line[:1].isspace():
            found[current] = f"{found[current]} {line.strip()}".strip()
    return found
