"""runtime/typing/ecma262: a pattern means to Python what it means to ECMA-262, or is refused."""

import contextlib
import re
import time
import unicodedata
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.runtime.typing.ecma262 import SPACES, translated

pytestmark = pytest.mark.filterwarnings("error")


def found(pattern, text):
    return re.search(translated(pattern), text) is not None


MEANINGS = [  # a pattern, texts in which it is found, texts in which it is not
    ("^[a-z]+$", ["abc"], ["abc\n", "abc\r\n", "ABC", ""]),
    (r"^a\$$", ["a$"], ["a", "a$\n"]),
    ("^[$]$", ["$"], ["$\n", ""]),
    ("a$|b", ["xa", "by"], ["a\n"]),
    (r"^\\$", ["\\"], ["\\\n", "$"]),
    ("^.$", ["a", "\U0001f600", "\x85"], ["\n", "\r", "\u2028", "\u2029", "ab"]),
    (r"^\.$", ["."], ["a"]),
    (r"^\d+$", ["019"], ["\u0661", "a"]),
    (r"^\D$", ["a", "\u0661"], ["5"]),
    (r"^\w+$", ["aZ_9"], ["\u00e9", "-"]),
    (r"^\W$", ["\u00e9", "-"], ["a"]),
    (r"^\s+$", [" \t\n\v\f\r\u00a0\ufeff\u2028\u3000"], ["\x85", "\x1c", "a"]),
    (r"^\S$", ["\x85", "a"], [" ", "\ufeff"]),
    (r"\bb", ["b", "\u00e9b", "-b"], ["ab", "_b"]),
    (r"^\B$", [""], ["a"]),
    (r"a\Bb", ["ab"], ["a b"]),
    ("[]", [], ["", "a", "]"]),
    ("^[]a]", [], ["]", "a"]),
    ("^[^]$", ["a", "\n", "]"], ["", "ab"]),
    ("^[[]$", ["["], ["]", ""]),
    ("^[a&&b!--c||d~~e[]+$", ["a&b!+-c|d~e["], ["]", ".", "X"]),
    (r"^[\]]$", ["]"], ["\\"]),
    (r"^[\\]$", ["\\"], ["]"]),
    ("^[a^]$", ["a", "^"], ["b"]),
    ("^[a-]$", ["a", "-"], ["b"]),
    ("^[a-a]$", ["a"], ["-", "b"]),
    (r"^[\w-.]$", ["a", "-", "."], ["/"]),
    (r"^[+-\d]$", ["+", "-", "5"], [",", "."]),
    (r"^[\W]$", ["-", "\u00e9"], ["a"]),
    (r"^[^\W_]$", ["a"], ["_", "-", "\u00e9"]),
    (r"^[^\s\S]$", [], ["a", " "]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^[\n\t\x41\u0042\103]$", ["\n", "\t", "A", "B", "C"], ["n", "x"]),
    (r"^[\U0001F600-\U0001F64F]$", ["\U0001f601"], ["U"]),
    (r"^[\ud83d\ude00-\ud83d\ude4f]$", ["\U0001f601"], ["\ud83d"]),
    (r"^\ud83d\ude00$", ["\U0001f600"], []),
    (r"^\u{1F600}{2}$", ["\U0001f600" * 2], ["\U0001f600"]),
    (r"^\u{2A}$", ["*"], [""]),
    (r"^\u0041\x42$", ["AB"], []),
    (r"^\cJ$", ["\n"], ["J"]),
    (r"^\/\-$", ["/-"], []),
    (r"^(?<year>\d{4})-\k<year>$", ["2026-2026"], ["2026-2025", "2026-2026\n"]),
    ("(?<=a)b(?<!c)", ["ab"], ["b"]),
    (r"^\p{L}+$", ["A\u00e9\u5b57\U00020000"], ["1", "-", "a\n"]),
    (r"^\p{Lu}\p{Lowercase_Letter}$", ["\u00c9\u00e9"], ["\u00e9\u00c9"]),
    (r"^[\p{gc=Nd}\p{Punctuation}]$", ["5", "\u0661", "!"], ["a", "\u2167"]),
    (r"^\P{N}$", ["a"], ["5", "\u2167"]),
    (r"^[^\P{N}]$", ["5"], ["a"]),
    (r"^\p{General_Category=Zs}\p{S}$", [" +"], ["\n+"]),
    (r"^(a)\1$", ["aa"], ["a"]),
    # Python's own, which schemas have, though they should not
    (r"\Aab\Z", ["ab"], ["ab\n"]),
    ("(?i)^k.$", ["Kk", "\u212ak"], ["k\n", "kk\n"]),
    ("(?s)^.$", ["\n"], ["\n\n"]),
    ("(?s:.)(.)$", ["\na"], ["a\n"]),
    ("(?m)^a$", ["a\nb"], ["ab"]),
    ("(?m:^a$)$|^b(?:c)$", ["b\na", "bc"], ["a\nb", "bc\n"]),
    ("(?s)(?-s:.)", ["a"], ["\n"]),
    (r"(?i)^[\W]$", ["-"], ["k", "s", "i"]),
    (r"(?P<n>a)(?P=n)", ["aa"], ["a"]),
]


@pytest.mark.parametrize(
    ("pattern", "matches", "others"), [pytest.param(*row, id=row[0]) for row in MEANINGS]
)
def test_a_pattern_means_what_ecma_262_says(pattern, matches, others):
    assert [text for text in matches if not found(pattern, text)] == []
    assert [text for text in others if found(pattern, text)] == []


CATEGORIES = """
    L Letter | LC Cased_Letter | Lu Uppercase_Letter | Ll Lowercase_Letter | Lt Titlecase_Letter
    Lm Modifier_Letter | Lo Other_Letter | M Mark Combining_Mark | Mn Nonspacing_Mark | Mc Spacing_Mark
    Me Enclosing_Mark | N Number | Nd Decimal_Number digit | Nl Letter_Number | No Other_Number
    P Punctuation punct | Pc Connector_Punctuation | Pd Dash_Punctuation | Ps Open_Punctuation
    Pe Close_Punctuation | Pi Initial_Punctuation | Pf Final_Punctuation | Po Other_Punctuation | S Symbol
    Sm Math_Symbol | Sc Currency_Symbol | Sk Modifier_Symbol | So Other_Symbol | Z Separator
    Zs Space_Separator | Zl Line_Separator | Zp Paragraph_Separator | C Other | Cc Control cntrl | Cf Format
    Cs Surrogate | Co Private_Use | Cn Unassigned
"""
"""The general categories of ECMA-262, each with its other names, as in the table of their values."""


@pytest.mark.parametrize("line", re.split(r"[|\n]", CATEGORIES.strip()), ids=str.strip)
def test_each_general_category_has_all_of_its_names(line):
    short, *others = line.split()
    kinds = ("Lu", "Ll", "Lt") if short == "LC" else (short,)
    expected = re.compile(translated(rf"\p{{{short}}}"))
    for code in range(0, 0x110000, 7):
        is_in = unicodedata.category(chr(code)).startswith(kinds)
        assert (expected.search(chr(code)) is not None) is is_in
    for name in others:
        for start in ("", "gc=", "General_Category="):
            assert translated(rf"\p{{{start}{name}}}") == expected.pattern


REFUSED = [
    (r"\p{Script=Greek}", r"the property \p{Script=Greek} is not supported"),
    (r"\p{gc=gc=L}", r"the property \p{gc=gc=L} is not supported"),
    (r"\p{General_Category=gc=L}", r"the property \p{General_Category=gc=L} is not supported"),
    (r"\p{=L}", r"the property \p{=L} is not supported"),
    (r"\p{gc}", r"the property \p{gc} is not supported"),
    (r"\p{letter}", r"the property \p{letter} is not supported"),
    (r"[\p{Emoji}]", r"the property \p{Emoji} is not supported"),
    (r"\p", r"the property \p is not supported"),
    (r"\p{L", r"the property \p is not supported"),
    ("[a", "unterminated character set"),
    ("[a\\", "unterminated character set"),
    ("[b--a]", "bad character range b--"),
    ("[z-a]", "bad character range z-a"),
    (r"\u12", r"bad escape \u"),
    (r"\u{110000}", "there is no character 110000"),
    (r"[\8]", r"bad escape \8"),
    (r"[\k]", r"bad escape \k"),
    (r"\c1", r"bad escape \c"),
    ("(?x) a # [", "the flag x is not supported"),
    ("(?#[)a]", "comments are not supported"),
    ("(?#[)$(?#])x", "comments are not supported"),
    ("(?iiiiiiiiiiiix)[ #]", "the flag x is not supported"),
    (r"\k<a>(?<a>b)", "unknown group name"),
    (r"(?<a>\k<a>b)", "cannot refer to an open group"),
    (r"\1(b)", "invalid group reference"),
    (r"\k", "missing group name"),
    ("(?<a$>a)", "bad character in group name"),
    (")$", "unbalanced parenthesis"),
    ("a\\", "bad escape (end of pattern)"),
]


@pytest.mark.parametrize(("pattern", "said"), REFUSED)
def test_what_python_cannot_express_is_refused(pattern, said):
    with pytest.raises(re.error, match=re.escape(said)):
        re.compile(translated(pattern))


@settings(max_examples=300)
@given(st.text(r"ab$.[]^-\dwWpPuk{}L<>()?:=!is&|~0" + "\n\u00e9", max_size=12))
def test_any_text_is_translated_or_refused_and_nothing_is_printed(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            re.compile(translated(text))
        except (re.error, OverflowError):
            return


@pytest.mark.parametrize("piece", ["a", "(?", "(?a", "(?a-", "[", r"\p{", r"\u{1", r"\k<", "(?<", "a)", "-"])
@pytest.mark.parametrize("start", ["", "(?", "(?a-", "[", r"\p{", r"\u{", r"\k<"])
def test_a_translation_takes_linear_time(piece, start):
    begun = time.thread_time()
    with contextlib.suppress(re.error):
        translated(start + piece * 40_000 + "|")
    assert time.thread_time() - begun < 2


def is_space(char):
    return any(first <= ord(char) <= last for first, last in SPACES)


MEMBERS = {
    **{char: char.__eq__ for char in "a[&|~.$(é"},
    r"\]": "]".__eq__,
    r"\-": "-".__eq__,
    r"\^": "^".__eq__,
    r"\u{1F600}": "\U0001f600".__eq__,
    "b-d": lambda char: char in "bcd",
    r"\x21-\/": lambda char: "!" <= char <= "/",
    r"\d": lambda char: char in "0123456789",
    r"\W": lambda char: not (char.isascii() and char.isalnum()) and char != "_",
    r"\s": is_space,
    r"\S": lambda char: not is_space(char),
    r"\p{Lu}": lambda char: unicodedata.category(char) == "Lu",
    r"\P{L}": lambda char: not unicodedata.category(char).startswith("L"),
}


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(sorted(MEMBERS)), max_size=4),
    st.booleans(),
    st.characters() | st.sampled_from("a[]&-^ 5Z"),
)
def test_a_class_is_the_sum_of_its_members(members, is_negated, char):
    pattern = f"^[{'^' if is_negated else ''}{''.join(members)}]$"
    assert found(pattern, char) is (any(MEMBERS[member](char) for member in members) is not is_negated)


@settings(max_examples=300)
@given(st.text("ab^1-\n", min_size=1).map(re.escape), st.text("ab^1-\n", max_size=5))
def test_the_end_is_the_very_end(pattern, text):
    assert found(f"(?:{pattern})$", text) is (re.search(f"(?:{pattern})(?![\\s\\S])", text) is not None)
    assert found(f"^{pattern}$", text) is (re.fullmatch(pattern, text) is not None)
