"""runtime/typing/patterns: a search finds what the pattern means, and what could take long is not begun."""

import _sre
import math
import re
import time
from re import _casefix

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.runtime.typing import patterns
from mcp_ref.runtime.typing.budget import Exhausted, budget
from mcp_ref.runtime.typing.patterns import MAX_PATTERN_CHARACTERS, MAX_SEARCH_STEPS, TooCostly, search, work

letters = st.sampled_from("abc")
pieces = st.one_of(
    letters,
    st.sampled_from([".", r"\d", r"\w", "[a-b]", "[^a]", r"\b", "(?:ab)", "(?i:A)", "(?=a)", "(?<!b)"]),
    st.builds("{}{}".format, letters, st.sampled_from(["?", "{2}", "{1,3}", "??"])),
    st.builds("(?:{}|{})".format, letters, letters),
)
simple = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "^", r"\A"]),
    st.lists(pieces, max_size=5).map("".join),
    st.sampled_from(["", "a*", "[ab]+", ".*?"]),
    st.sampled_from(["", "$", r"\Z", "c"]),
)


@settings(deadline=None, max_examples=150)
@given(simple, st.text("abcA1 \n", max_size=12))
def test_a_search_finds_what_re_finds(pattern, text):
    assert search(pattern, text) is bool(re.search(re.sub(r"\$\Z", r"\\Z", pattern), text))


def test_an_end_is_not_before_a_last_line_feed():
    """As of ECMA-262, of which the patterns of JSON Schema are."""
    assert search("^[a-z]+$", "abc")
    assert not search("^[a-z]+$", "abc\n")


def test_a_pattern_prints_no_warning(recwarn):
    """A stranger's would go to the log of a program that knows nothing of it."""
    assert search("[[]--[&&]", "[--&")
    assert patterns.check("[[a]||[b]]")
    assert not recwarn.list


# --------------------------------------------------------------------- what is searched for

EVERYDAY = [
    (r"^\d{4}-\d{2}-\d{2}$", "2026-07-28", True),
    (r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$", "someone@mail.example.com", True),
    (r"^[a-z0-9]+(?:-[a-z0-9]+)*$", "-".join(["word"] * 1000), True),
    (r"^[a-z]+(,[a-z]+)*$", "a,b," * 1000, False),
    (r"^P(?!$)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?$", "P3Y6M4DT12H30M5S", True),
    (r"^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$", "10.0.0.255", True),
    (r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", "QUJD" * 10_000, True),
    (r"^https?://[^\s/]+(/[^\s]*)?$", "https://example.com/" + "a" * 10_000, True),
    (r"^\w+\s\w+$", "a" * 10_000 + " b", True),
    (r"\d+\.\d+", "version 1.2 of " * 50, True),
    (r"(?i)^[a-f]+$", "ABCDEF", True),
    ("", "", True),
    ("^x-", "x-name", True),
    ("b+", "a" * 100_000, False),
    ("^[^ ]*$", "a" * 1_000_000, True),
    ("^.*_.*_id$", "user_account_id", True),
    ("^.*_.*_id$", "_" * 500, False),
]


@pytest.mark.parametrize(("pattern", "text", "found"), [pytest.param(*row, id=row[0]) for row in EVERYDAY])
def test_what_people_write_is_searched_for(pattern, text, found):
    assert search(pattern, text) is found


# --------------------------------------------------------------------- and what is not

COSTLY = [
    ("^(a+)+$", "a" * 40 + "!"),
    ("^(a|aa)*$", "a" * 80 + "!"),
    ("^(?:a|ab|b)*c", "ab" * 80),
    ("^(?:a?){40}a{40}b", "a" * 60),
    (r"^(a*)*\1c", "a" * 40),
    ("a*a*a*a*a*b", "a" * 1000),
    ("(?=(a+)+$)x", "a" * 40 + "!"),
    ("^(?:[ab][ab]?)+c", "ab" * 40),
    ("^.*_.*_id$", "_" * 30_000),
    ("^.*_.*_id$", "_" * 1_000_000),
    ("a+b", "a" * 30_000),
    (r"\d+\.\d+", "1" * 30_000),
    (r"^\s*\S+(\s+\S+)*\s*$", "a " * 15_000),
    (r"^(?:a(?=.*b))*$", "a" * 30_000),
    (r"(?i)^[k]*\u212a*K*x", "k" * 30_000),
    (r"(?i)^(?:\u0345x|\u03b9x)+$", "\u03b9x" * 20 + "!"),
    (r"(?i)^(?:\u0345x|[\u1fbe]x)+$", "\u0399x" * 20 + "!"),
    (r"(?a)^\d$", "1"),
    (r"^(?a:\D)\d$", "1"),
    ("^a++$", "a"),
    ("^(?>a)$", "a"),
    pytest.param("^" + "(?:|a|b)" * 25 + "c", "a" * 30, id="nothing, in many ways"),
    pytest.param("^" + "a{0,100}" * 8 + "b$", "a" * 300, id="many repetitions, each with an end"),
    pytest.param("(?m)^[\\s\\S]*b", "\n" * 100_000, id="a beginning in every line"),
    pytest.param("^" + "(?:" * 3 + "){60000}" * 3 + "b", "a", id="nothing, many times"),
    pytest.param("(?:" * 200 + "a" + ")*" * 200, "bbbbbb", id="deep"),
    pytest.param("a" * (MAX_PATTERN_CHARACTERS + 1), "b", id="long"),
]


@pytest.mark.parametrize(("pattern", "text"), COSTLY)
def test_what_could_take_long_is_not_begun(pattern, text):
    begun = time.thread_time()
    with pytest.raises(TooCostly):
        search(pattern, text)
    assert time.thread_time() - begun < 2


LETTERS = [
    (r"^\p{L}+$", "\u00e9" * 100_000, True),
    (r"^\p{L}[\p{L}\p{M}' -]*$", "e" * 100_000, True),
    (r"^\p{Lu}\p{Ll}*(?:[\s-]\p{Lu}\p{Ll}*)*$", "Ab " * 2000, False),
    (r"\p{L}", "!" * 400_000, False),
    (r"^\S+(?:\s\S+)*$", "ab " * 20_000 + "b", True),
    (r"^[^\s]+(?:[\s][^\s]+)*$", "\u3000b" * 20_000, False),
    (r"^[\S]+(?:\s[\S]+)*$", "ab " * 20_000 + "b", True),
    (r"^(?:.*\n)*$", "a\n" * 20_000, True),
    (r"(?i)^(?:.*\n)*$", "a\n" * 20_000, True),
]


@pytest.mark.parametrize(("pattern", "text", "found"), LETTERS)
def test_letters_and_spaces_of_all_scripts_cost_little(pattern, text, found):
    begun = time.thread_time()
    assert search(pattern, text) is found
    assert time.thread_time() - begun < 2


def test_many_ranges_count_for_more_than_one_step():
    assert work(r"^\p{L}*x", 1000) > 3 * work("^[a-z]*x", 1000)
    with pytest.raises(TooCostly):
        search(r"\p{L}", "!" * 2_000_000)
    with pytest.raises(TooCostly, match="has too many classes of characters"):
        search(r"\p{L}" * 100, "a")


@pytest.mark.parametrize(
    "piece", ["[\u0100-\ufff0]", "[^\\0-\uff00]", "[a-\U0010fff0]", r"\p{Co}", "(?:[\u0100-\ufff0]|a){0,2}"]
)
@pytest.mark.parametrize("start", ["", "(?i)", "(?i)^"])
def test_wide_ranges_are_not_compiled_by_the_thousand(piece, start):
    begun = time.thread_time()
    with pytest.raises(TooCostly, match="has too many characters in its classes"):
        patterns.check(start + piece * (700 if piece == r"\p{Co}" else 180))
    assert time.thread_time() - begun < 1
    begun = time.thread_time()
    assert patterns.check(start + piece * 40)
    assert time.thread_time() - begun < 1


def test_an_estimate_ends_with_the_validation_that_it_is_for():
    begun = time.thread_time()
    with budget().limited(math.inf, 0.1), pytest.raises(Exhausted):
        work("(" * 5 + "ab" * 2300 + "){1,2}" * 5, 1000)
    assert time.thread_time() - begun < 0.7


def test_what_is_refused_is_said():
    with pytest.raises(TooCostly, match=r"the pattern '\^\(a\+\)\+\$' could take too long in 40 characters"):
        search("^(a+)+$", "a" * 40)
    with pytest.raises(TooCostly, match="has more than 5000 characters"):
        search("a" * 6000, "a")


def test_an_estimate_is_kept(monkeypatch):
    """A tool's pattern meets each call: to estimate it anew would take longer than to search."""
    monkeypatch.setattr(patterns, "_Estimate", None)
    with pytest.raises(TypeError):
        work("^known[a-z]+$", 5)
    monkeypatch.undo()
    assert search("^known[a-z]+$", "known" + "b" * 100)
    monkeypatch.setattr(patterns, "_Estimate", None)
    assert search("^known[a-z]+$", "known" + "b" * 110)


# --------------------------------------------------------------------- the estimate is no less than the truth

LINEAR = [
    r"^[a-z]+$",
    r"^[a-z0-9]+(?:-[a-z0-9]+)*$",
    "^(?:ab?c)*d$",
    r"^\w+(?:\s\w+)*$",
    "^[^_]*_[^_]*_id$",
    "foo.*",
]


@pytest.mark.parametrize("pattern", LINEAR)
def test_work_that_is_linear_is_estimated_so(pattern):
    assert work(pattern, 20_000) < 2.5 * work(pattern, 10_000)
    assert work(pattern, 100_000) < MAX_SEARCH_STEPS


atoms = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "[^b]", r"\w", "(?:a|b)", "(?:a|ab)", "(?i:A)", "ab", "aa"]
)
repeats = st.sampled_from(["*", "+", "?", "{2}", "{0,3}", "{2,}", "*?", "+?", "++", ""])
hostile = st.recursive(
    st.builds("{}{}".format, atoms, repeats),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}){}".format, inner, repeats),
        st.builds("(?:{}|{}){}".format, inner, inner, repeats),
        st.builds("(?={})".format, inner),
        st.builds("(?>{})".format, inner),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=300)
@given(
    hostile,
    st.sampled_from(["", "^"]),
    st.sampled_from(["", "$", "c$", "(?!a)x", "b"]),
    st.sampled_from(["a", "b", "ab", "aab", "ba"]),
    st.sampled_from([12, 25, 60, 300, 1000, 3000, 30_000]),
    st.sampled_from(["", "c", "!", "b"]),
)
def test_a_search_that_is_begun_ends_soon(pattern, start, rest, piece, length, end):
    """Whatever the expression: MAX_SEARCH_STEPS steps are less than a second of this thread's time."""
    whole, text = start + pattern + rest, (piece * length)[:length] + end
    begun = time.thread_time()
    try:
        found = search(whole, text)
    except TooCostly:
        return
    taken = time.thread_time() - begun
    assert taken < 1.5, (whole, len(text), work(whole, len(text)))
    assert found in (True, False)


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[", "*", "(?P<x>a)(?P<x>b)"])
def test_what_is_no_pattern_is_said_to_be_none(pattern):
    with pytest.raises(re.error):
        search(pattern, "a")
    with pytest.raises(re.error):
        work(pattern, 1)


RAW = "\x1b[2J\u202e\n"
"""What clears a screen, turns the direction of writing, and begins a line."""


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (rf"\p{{{RAW}}}", r"the property \p{\x1b[2J\u202e\n} is not supported"),
        (r"[\udfff-\ud800]", r"bad character range \udfff-\ud800"),
        (r"[\n-\t]", r"bad character range \n-\t"),
        ("(?\x1b)", r"unknown extension ?\x1b"),
        ("(?<\x1b>a)", r"bad character in group name '\x1b'"),
    ],
)
def test_the_message_about_a_pattern_may_be_printed(pattern, said):
    """A stranger wrote the pattern, and the message may go to a terminal."""
    with pytest.raises(re.error) as caught:
        patterns.check(pattern)
    assert str(caught.value) == said
    assert str(caught.value).isprintable()


def test_the_message_about_a_pattern_is_short():
    with pytest.raises(re.error) as caught:
        patterns.check(f"(?<{'-' * 4000}>a)")
    assert len(str(caught.value)) == 200


SEMANTIC_VERSION = (
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)


def test_an_authors_own_pattern_is_believed_for_texts_that_are_short():
    version = "1.22.333-alpha.1.beta-2+build.20261118"
    with pytest.raises(TooCostly):
        search(SEMANTIC_VERSION, version)
    assert search(SEMANTIC_VERSION, version, is_trusted=True)
    assert not search(SEMANTIC_VERSION, version + "_", is_trusted=True)
    longest = "1.0.0-" + "a" * (patterns.MAX_TRUSTED_CHARACTERS - 6)
    assert search(SEMANTIC_VERSION, longest, is_trusted=True)
    with pytest.raises(TooCostly):  # the text is a stranger's all the same
        search(SEMANTIC_VERSION, longest + "a", is_trusted=True)


def test_a_letter_of_either_case_begins_no_space():
    """Some letters have another case beyond ASCII, which is a letter too."""
    assert search(r"(?i)^\s*select\b[\s\S]*$", "SELECT " + "x" * 100_000)
    assert search("(?i)^k$", "\u212a")
    assert search("(?i)^s$", "\u017f")


def test_characters_that_are_equal_with_the_flag_i_have_a_set_in_common():
    """Else two ways on would seem to be apart where both are open: exponential time, estimated as linear."""
    extra = _casefix._EXTRA_CASES
    apart = []
    for char in map(chr, range(0x110000)):
        lower = _sre.unicode_tolower(ord(char))
        upper = chr(lower).upper()
        for other in {lower, *extra.get(lower, ()), *(map(ord, upper) if len(upper) == 1 else ())}:
            either = [patterns._of_either_case(patterns._set_of(code)) for code in (ord(char), other)]
            if not either[0] & either[1]:
                apart.append((char, chr(other)))
    assert apart == []
