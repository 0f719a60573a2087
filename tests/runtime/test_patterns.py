"""runtime/patterns: a search finds what `re` finds, and always ends."""

import re
import subprocess
import time
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import nothing_left

from mcp_ref.runtime import patterns
from mcp_ref.runtime.patterns import TooCostly, is_simple, search


@pytest.fixture(autouse=True)
def nothing_stays():
    with nothing_left():
        yield


@pytest.fixture
def here(monkeypatch):
    """No search of this test is done in another process."""

    def refuse(*args, **options):
        raise AssertionError(f"a process was started for {options['input']!r}")

    monkeypatch.setattr(subprocess, "run", refuse)


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
    assert search(pattern, text) is bool(re.search(pattern, text))


@settings(deadline=None, max_examples=100)
@given(simple)
def test_whether_a_pattern_is_simple_can_be_told_of_any(pattern):
    assert is_simple(pattern) in (True, False)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^\d{4}-\d{2}-\d{2}$", "2026-07-28", True),
        (r"^[a-z]+@[a-z]+\.org$", "a@b.com", False),
        ("", "", True),
        ("^x-", "x-name", True),
        ("b+", "a" * 3000, False),
        ("^[^ ]*$", "a" * 1_000_000, True),
    ],
)
def test_what_people_write_is_searched_for_right_here(here, pattern, text, found):
    assert search(pattern, text) is found


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^(a+)+$", "aaa", True),
        ("^(ab|b)*c$", "ababc", True),
        ("^(ab|b)*c$", "abab", False),
        (r"(a)\1(?:bb|c)+", "xaac", True),
        ("(a?b?)*c", "ü\udcff\0c", True),
    ],
)
def test_a_choice_within_a_repetition_is_searched_for_elsewhere(monkeypatch, pattern, text, found):
    started = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: started.append(a) or run(*a, **k))
    monkeypatch.setattr(patterns, "MAX_SECONDS", 10.0)
    assert search(pattern, text) is found
    assert len(started) == 1


COSTLY = [
    ("^(a+)+$", "a" * 40 + "!"),
    ("^(a|aa)*$", "a" * 80 + "!"),
    ("^(?:a|ab|b)*c", "ab" * 80),
    ("^(?:a?){40}a{40}b", "a" * 60),
    (r"^(a*)*\1c", "a" * 40),
    ("a*a*a*a*a*b", "a" * 1000),
    ("(?=(a+)+$)x", "a" * 40 + "!"),
    ("^(?:[ab][ab]?)+c", "ab" * 40),
    pytest.param("^" + "a{0,100}" * 8 + "b$", "a" * 300, id="many repetitions, each with an end"),
    pytest.param("(?m)^[\\s\\S]*b", "\n" * 100_000, id="a beginning in every line"),
    pytest.param("^" + "(?:" * 3 + "){60000}" * 3 + "b", "a", id="nothing, many times"),
]


@pytest.mark.parametrize(("pattern", "text"), COSTLY)
def test_a_costly_search_ends(monkeypatch, pattern, text):
    """In a process of its own, which may be ended: in this one nothing could stop it."""
    monkeypatch.setattr(patterns, "MAX_SECONDS", 0.2)
    assert not patterns._read(pattern).is_quick(len(text))  # else this test would hang
    start = time.monotonic()
    with pytest.raises(TooCostly, match="takes too long"):
        search(pattern, text)
    assert time.monotonic() - start < 10


def test_a_long_text_is_no_matter_for_the_thread_that_searches():
    """Where one repetition is quick, two may not be: then it is done elsewhere, or given up."""
    read = patterns._read("a+b+c")
    assert read.is_quick(50)
    assert not read.is_quick(100_000)


def test_a_search_that_cannot_be_done_elsewhere_is_given_up(monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: types.SimpleNamespace(returncode=-9))
    with pytest.raises(TooCostly, match="could not be searched for"):
        search("(a+)+", "a")

    def no_process(*args, **options):
        raise OSError("no process can be had")

    monkeypatch.setattr(subprocess, "run", no_process)
    with pytest.raises(TooCostly, match="takes too long"):
        search("(a+)+", "a")


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[", "*", "(?P<x>a)(?P<x>b)"])
def test_what_is_no_pattern_is_said_to_be_none(pattern):
    with pytest.raises(re.error):
        search(pattern, "a")
    with pytest.raises(re.error):
        is_simple(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["^x-", "^[a-z]+$", r"\d+\.\d+", "", "a|b", "^(foo|bar)$", "(ab){3}", "[ab]*", "(?i)^x", "(?:a{2}){2}"],
)
def test_simple_patterns(pattern):
    assert is_simple(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+", "(a|bc)*", "(a?){20}", "a*b*c*", "a?" * 20, r"(a*)\1*b+c+", "(?:x(?:a|bc))+", "(?>(?:a|bc)+)*"],
)
def test_patterns_that_are_not_simple(pattern):
    assert not is_simple(pattern)
