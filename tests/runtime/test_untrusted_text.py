"""runtime/untrusted_text: text from a peer on a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.runtime.untrusted_text import QUOTE_MARK, one_line, plain, quoted, wrapped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zürich, 東京\tand\nmore", "Zürich, 東京\tand\nmore"),
        ("\x1b[31mred\x07", "\ufffd[31mred\ufffd"),
        ("a\rb\x08c\x9b", "a\ufffdb\ufffdc\ufffd"),
        ("over\u202eridden\u2028", "over\ufffdridden\ufffd"),
        ("zero\u200bwidth\ud800", "zero\ufffdwidth\ufffd"),
        (5, "5"),
    ],
)
def test_what_would_steer_a_terminal_is_not_shown(text, shown):
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zürich, 東京", "Zürich, 東京"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\udc80\u2028", r"\udc80\u2028"),
        (5, "5"),
    ],
)
def test_on_one_line_what_cannot_be_printed_is_written_as_python_would(text, shown):
    assert one_line(text) == shown


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two", ["one two"]),
        ("one two three", ["one two", "three"]),
        ("onetwothree", ["onetwoth", "ree"]),
        ("one twothreefour", ["one", "twothree", "four"]),
        ("one\n\ntwo\n", ["one", "", "two", ""]),
        ("12345678 9", ["12345678", "9"]),
        ("東京都千代田区", ["東京都千", "代田区"]),
        ("e\u0301" * 9, ["e\u0301" * 8, "e\u0301"]),
        ("a\tb", ["a   b"]),
    ],
)
def test_lines_are_broken_where_the_terminal_would_break_them(text, lines):
    assert wrapped(text, 8, 10) == lines


@given(st.text(st.characters(codec="utf-8"), max_size=60) | st.text("ab \n", max_size=60), st.integers(2, 12))
def test_no_line_is_too_wide_and_nothing_but_spaces_is_lost(text, width):
    lines = wrapped(text, width, 1000)
    for line in lines:
        wide = sum(unicodedata.east_asian_width(c) in "WF" for c in line if not unicodedata.combining(c))
        narrow = sum(unicodedata.combining(c) == 0 for c in line)
        assert wide + narrow <= width
    assert "".join("".join(lines).split()) == "".join(plain(text.expandtabs(4)).split())


def test_each_line_of_a_quotation_has_a_mark():
    assert quoted("It is I,\n| the program", 13, 9) == ["| It is I,", "| | the", "| program"]
    assert all(line.startswith(QUOTE_MARK) for line in quoted("word " * 20, 20, 9))


def test_a_long_text_is_cut_and_says_so():
    lines = quoted("word " * 1_000_000, 40, 3)
    assert len(lines) == 4
    assert lines[-1] == "(it goes on, and is not shown further)"
    assert quoted("a\nb\nc", 40, 3) == ["| a", "| b", "| c"]


def test_a_narrow_terminal_gets_lines_all_the_same():
    assert quoted("0123456789ab", 1, 5) == ["| 0123456789", "| ab"]
