"""runtime/brief: the repr of what a peer sent, whatever that is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.runtime.brief import MAX_ITEMS, MAX_MEMBERS, MAX_PARTS, brief

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 0.5, "a", "a\n'b'", [], {}, [1, [2, {"a": None}]], {"a": [1, "b"], "c": {}}],
    ids=repr,
)
def test_a_small_value_is_its_repr(value):
    assert brief(value) == repr(value)


def test_long_texts_are_cut_and_say_how_long_they_are():
    assert brief("a" * 200) == repr("a" * 200)
    assert brief({"a": "b" * 201}) == "{'a': 'bbbbbbbbbbbbbbb...' (201 characters)}"
    assert len(brief({"k" * 10_000: 1})) < 100


def test_large_parts_are_left_out_where_they_are():
    assert brief(list(range(MAX_ITEMS))) == repr(list(range(MAX_ITEMS)))
    many = brief({"a": list(range(10**6)), "b": 1})
    assert many == "{'a': [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...], 'b': 1}"
    assert brief(dict.fromkeys(map(str, range(1000)))).count(": None") == MAX_MEMBERS
    assert brief([[[[[0] * 9] * 9] * 9] * 9]).count("0") < MAX_PARTS


def test_what_is_deep_ends_somewhere():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert brief(deep) == "[" * 21 + "..." + "]" * 21
    while deep:  # so that the interpreter need not take it apart as deep as it is
        deep = deep.pop()


class Odd:
    def __repr__(self):
        raise ValueError("no")


def test_what_has_no_repr_is_named():
    assert brief([Odd(), 10**5000, -(10**5000), 10**39]) == (
        f"[a Odd, a very long number, a very long number, {10**39}]"
    )


@given(JSON)
def test_it_is_short_whatever_it_is(value):
    assert len(brief(value)) < 100_000
