"""Long strings within a value, each encoded by itself, and only once.

A tool's text is often in its structured content as well: to encode a megabyte twice, and to copy it from
buffer to buffer, would cost more than all the rest of the call.

Threads     a `LongStrings` belongs to one value and one thread.
"""

from __future__ import annotations

import os
import re
from typing import Any

from mcp_ref.runtime.json_text import Encoded, to_json

__all__ = ["LONG_CHARACTERS", "LongStrings"]

LONG_CHARACTERS = 32_768
"""Characters from which on a string is long, and so encoded by itself."""

_MARK = os.urandom(16).hex()  # random, so that no peer can send it
_ESCAPED = [chr(code) for code in range(32)] + ['"', "\\"]


class LongStrings:
    """The long strings of one value."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def mark(self, value: Any) -> Any:
        """An object with a mark in place of each long string among its members; any other value as it is."""
        if not isinstance(value, dict):
            return value
        return {name: self._mark(member) for name, member in value.items()}

    def _mark(self, value: Any) -> Any:
        if type(value) is not str or len(value) < LONG_CHARACTERS:
            return value
        # By identity: to compare megabytes would cost what this saves.
        index = next((i for i, known in enumerate(self.found) if known is value), len(self.found))
        if index == len(self.found):
            self.found.append(value)
        return f"{_MARK}{index}."

    def encode(self, marked: Any) -> Encoded:
        """The JSON of a value whose long strings were marked."""
        strings = [_encode_string(value) for value in self.found]
        texts = re.split(rf'"{_MARK}(\d+)\."', to_json(marked))  # text, index, text, index ... text
        return Encoded([strings[int(t)] if at % 2 else t.encode("utf-8") for at, t in enumerate(texts)])


def _encode_string(value: str) -> bytes:
    """The JSON of one string. Most long strings need no escapes, and it is quick to find that out."""
    if any(character in value for character in _ESCAPED):
        return to_json(value).encode("utf-8")
    return b'"%b"' % value.encode("utf-8")
