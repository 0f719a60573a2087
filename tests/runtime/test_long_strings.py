"""runtime/long_strings: a long string is written as it is, and once."""

import json

import pytest

from mcp_ref.runtime.json_text import Encoded
from mcp_ref.runtime.long_strings import LONG_CHARACTERS, LongStrings

LONG = "x" * LONG_CHARACTERS


@pytest.mark.parametrize(
    "text",
    [LONG, 'a "quoted" \\ back\nslash\t' * 5000, "ü€😀" * 20_000, "\x7f\u2028" * 40_000],
    ids=["plain", "escapes", "wide", "odd"],
)
def test_a_long_string_is_written_as_it_is(text):
    long = LongStrings()
    encoded = long.encode([long.mark({"a": text, "b": 1}), {"c": text}])
    assert type(encoded) is Encoded
    assert json.loads(b"".join(encoded.pieces)) == [{"a": text, "b": 1}, {"c": text}]


def test_a_long_string_in_two_places_is_written_once():
    long = LongStrings()
    pieces = long.encode([long.mark({"a": LONG}), long.mark({"b": LONG})]).pieces
    first, second = [piece for piece in pieces if len(piece) > 1000]
    assert first is second


def test_long_strings_are_looked_for_among_the_members_of_an_object():
    long = LongStrings()
    for value in ({"a": LONG[1:], "b": [LONG]}, [LONG], LONG, None):
        assert long.mark(value) == value
    assert long.found == []
    assert long.mark({"a": 1, "b": LONG}) != {"a": 1, "b": LONG}
    assert long.found == [LONG]
