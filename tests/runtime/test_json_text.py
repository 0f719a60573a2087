"""runtime/json_text: a text is read strictly or refused with a reason, and what is written means the same."""

import json
import math
import threading
import tracemalloc

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from json_lines import BAD_JSON, json_values, nested

from mcp_ref.runtime import json_text
from mcp_ref.runtime.json_text import (
    MAX_JSON_LEVELS,
    MAX_JSON_PARTS,
    MAX_UNCOUNTED_BYTES,
    NotJson,
    from_json,
    to_json,
)

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault."""

# -- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("line", BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json_is_refused(line):
    with pytest.raises(NotJson):
        from_json(line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"a":"\xff"}', "not UTF-8: byte 6 is 0xff"),
        (b'{"a" 1}', "at character 5"),
        (b'{"a', "Unterminated string starting at character 1$"),
        (b'["a\tb"]', "Invalid control character at character 3$"),
        (b'{\n "a" 1}', "at line 2, column 6"),
        (b'{"abc":1,"abc":1}', "the member 'abc' stands twice in one object"),
        (b'{"a":1,"abc":1,"b":1,"abc":2}', "the member 'abc' stands twice in one object"),
        (b'{"a":-1e400}', "the number -1e400 is beyond what a double can hold"),
        (b"[NaN]", "NaN is not a JSON number"),
        (nested("mixed", 10_000), "nested deeper than 200 levels"),
        (nested("arrays", 201), "nested deeper than 200 levels"),
        (b'"\\ud800"', "half a surrogate pair"),
        (b"1" * 5000, "an integer of too many digits"),
    ],
)
def test_the_reason_says_what_is_wrong(line, words):
    with pytest.raises(NotJson, match=words.replace("(", r"\(")):
        from_json(line)


GOOD_JSON = {
    "a pair of surrogates": (b'"\\ud83d\\ude00"', "\U0001f600"),
    "a pair in capitals": (b'"\\uD83D\\uDE00"', "\U0001f600"),
    "no escape, but the text of one": (b'"\\\\ud83d"', "\\ud83d"),
    "an escaped backslash before a pair": (b'"\\\\\\ud83d\\ude00"', "\\\U0001f600"),
    "an astral character as it is": ('"\U0001f600"'.encode(), "\U0001f600"),
    "an escaped NUL": (b'"\\u0000"', "\x00"),
    "the same key in two objects": (b'[{"a":1},{"a":{"a":2}}]', [{"a": 1}, {"a": {"a": 2}}]),
    "keys that look alike": ('{"é":1,"e\u0301":2}'.encode(), {"é": 1, "e\u0301": 2}),
    "a large integer": (b"123456789012345678901234567890", 123456789012345678901234567890),
    "the largest double": (b"1.7976931348623157e308", 1.7976931348623157e308),
    "a number too small to see": (b"1e-400", 0.0),
    "zero below zero": (b"-0.0", -0.0),
    "blanks around": (b' \t{"a" : 1}\r', {"a": 1}),
    "brackets in strings": (json.dumps({"a": "[{" * 300}).encode(), {"a": "[{" * 300}),
    "brackets side by side": (b"[" + b"[]," * 300 + b"{}]", [[]] * 300 + [{}]),
}


@pytest.mark.parametrize(("line", "value"), GOOD_JSON.values(), ids=GOOD_JSON)
def test_good_json_is_taken_as_it_is(line, value):
    assert from_json(line) == value


@pytest.mark.parametrize("part", ["[]", "{}", '{"a":1}', '""', "1"])
def test_a_text_of_too_many_parts_is_refused_before_anything_is_made_of_it(part):
    """An array of a million empty arrays takes 80 MB."""
    line = ("[" + ",".join([part] * (MAX_JSON_PARTS + 1)) + "]").encode()
    tracemalloc.start()
    try:
        with pytest.raises(NotJson, match="1,000,000 parts"):
            from_json(line)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_commas_and_brackets_in_strings_are_no_parts():
    text = ',[{"\\' * 30_000 + "\\\\"
    for value in ([text], {text: [text, "x"]}, [text, "", '"', text]):
        line = json.dumps(value).encode()
        assert len(line) > MAX_UNCOUNTED_BYTES
        assert from_json(line, 10) == value
        with pytest.raises(NotJson):
            from_json(line, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_parts_are_counted_the_same_wherever_a_text_is_cut(size, monkeypatch):
    monkeypatch.setattr(json_text, "_PIECE_BYTES", size)
    line = rb'[{"a":",[{","b\\":"\"[","c":[1,2]},"",[]]'
    parts = 9
    assert not json_text.has_more_parts(line, parts)
    assert json_text.has_more_parts(line, parts - 1)


def test_a_small_text_has_its_parts_uncounted():
    assert from_json(b"[1,2,3]", 0) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["arrays", "objects", "mixed"])
def test_the_deepest_nesting_that_is_allowed_is_allowed(kind):
    value = from_json(nested(kind, MAX_JSON_LEVELS))
    assert from_json(to_json(value).encode()) == value


def test_the_limit_of_depth_holds_on_a_thread_whose_stack_is_in_use():
    """Deep input is refused, not the end of the reader, wherever it is read."""
    caught = []

    def deep(levels):
        if levels:
            deep(levels - 1)
        else:
            with pytest.raises(NotJson) as problem:
                from_json(nested("mixed", 10_000))
            caught.append(problem.value)
            assert from_json(nested("mixed", 50)) is not None

    thread = threading.Thread(target=deep, args=(300,))
    thread.start()
    thread.join()
    assert len(caught) == 1


# -- any text ---------------------------------------------------------------------------


def check_reading(line):
    try:
        value = from_json(line)
    except NotJson as problem:
        to_json(str(problem)).encode()  # what is said about it can be sent
        return
    assert from_json(to_json(value).encode()) == value


@settings(CALM, max_examples=300)
@given(st.binary(max_size=200))
@example(b"\x00")
@example(b"-")
@example(b'"\\')
def test_any_bytes_are_a_value_or_refused(line):
    check_reading(line)


PIECES = [
    *[b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b'"a":', b"1", b"-", b"1e999", b"0.5", b"null"],
    *[b"true", b"NaN", b'"\\ud83d"', b'"\\ude00"', b"\\", b"\\u", b"\xff", b"\xc3", b" ", b"9" * 4301],
]


@settings(CALM, max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=30).map(b"".join))
def test_anything_like_json_is_a_value_or_refused(line):
    check_reading(line)


@settings(CALM)
@given(json_values(), st.sampled_from(["ascii", "spaced", "raw"]))
def test_every_way_to_write_a_value_is_read_alike(value, style):
    text = {
        "ascii": lambda: json.dumps(value),
        "spaced": lambda: json.dumps(value, indent=2).replace("\n", "\t"),
        "raw": lambda: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    }[style]()
    assert from_json(text.encode()) == value


# -- what cannot be written ---------------------------------------------------------------------


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Thing(), "an object of type Thing is not JSON serializable"),
        ({"a": [1, {"b": Thing()}]}, "a[1].b: an object of type Thing is not JSON serializable"),
        ({"a": (1, b"x")}, "a[1]: an object of type bytes is not JSON serializable"),
        ({"two words": {3}}, "['two words']: an object of type set is not JSON serializable"),
        ({"a": {(1, 2): 1}}, "a: the key (1, 2) is not a string"),
        ({"a": [math.nan]}, "a[0]: nan is not a JSON number"),
        ([-math.inf, Thing()], "[0]: -inf is not a JSON number"),
    ],
)
def test_what_json_cannot_carry_is_named_with_its_place(value, said):
    with pytest.raises((TypeError, ValueError)):
        json_text.to_json(value)
    assert json_text.not_json_at(value) == said


@CALM
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner)
            | st.tuples(inner)
            | st.dictionaries(st.text() | st.integers() | st.none() | st.binary(), inner)
        ),
    )
)
def test_a_place_is_found_exactly_where_the_value_cannot_be_written(value):
    try:
        json_text.to_json(value)
    except (TypeError, ValueError):
        assert json_text.not_json_at(value)
    else:
        assert json_text.not_json_at(value) == ""


def test_a_value_that_contains_itself_has_an_end():
    value = {"a": 1}
    value["b"] = [value]
    assert json_text.not_json_at(value) == ""
    assert json_text.not_json_at({"x": value, "y": b""}).startswith("y: ")


# -- weight -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part", ["[]", "{}", "1.5", '"ab"', '{"k":1}', "[1]", '{"a":{"b":[]}}', "[[[[[]]]]]"]
)
def test_a_text_weighs_about_what_it_takes_in_memory(part):
    """At least half of it, and by far more than its bytes."""
    line = f"[{','.join([part] * 20_000)}]".encode()
    tracemalloc.start()
    try:
        value = from_json(line)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(value) == 20_000
    assert taken / 2 < json_text.weight(line) < taken * 3


def test_a_short_text_weighs_its_bytes():
    assert json_text.weight(b"[" * 256) == 256
    assert json_text.weight(b"[" * 257) == 257 * 65


@pytest.mark.parametrize("words", [1_000, 20_000, 1_000_000])
@pytest.mark.parametrize("mark", [b",", b"[", b"{"])
@pytest.mark.parametrize("marks", [0, 1, 99, 100, 101, 5_000])
def test_a_text_of_any_size_weighs_its_bytes_and_its_marks(words, mark, marks):
    """Few of them are counted in another way than many."""
    text = mark.join([b"w" * (words // (marks + 1))] * (marks + 1))
    assert json_text.weight(text) == len(text) + 64 * marks
