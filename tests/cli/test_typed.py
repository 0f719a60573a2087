"""cli/typed: what a person types for a field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.cli.typed import called, read, shown, wanted
from mcp_ref.client.elicitation.requested_schema import FormField, fields_of
from mcp_ref.schema import Mismatch


def field(**about) -> FormField:
    return fields_of({"type": "object", "properties": {"it": about}})[0]


TEXT = field(type="string", maxLength=5)
NUMBER = field(type="number", minimum=0, maximum=1000)
WHOLE = field(type="integer")
SURE = field(type="boolean")
COLOR = field(type="string", oneOf=[{"const": "#f00", "title": "Red"}, {"const": "Blue", "title": "Blue"}])
SOME = field(type="array", items={"type": "string", "enum": ["a", "b", "c"]}, minItems=1, maxItems=2)


@pytest.mark.parametrize(
    ("what", "said", "value"),
    [
        (TEXT, "a bc", "a bc"),
        (TEXT, "!x", "!x"),
        (NUMBER, "12", 12),
        (NUMBER, "+0.5", 0.5),
        (NUMBER, "1e2", 100.0),
        (WHOLE, "-7", -7),
        (WHOLE, "1e1", 10.0),
        (SURE, "y", True),
        (SURE, "YES", True),
        (SURE, "true", True),
        (SURE, "n", False),
        (SURE, "false", False),
        (COLOR, "1", "#f00"),
        (COLOR, "02", "Blue"),
        (SOME, "1", ["a"]),
        (SOME, "3, 1", ["c", "a"]),
        (SOME, " 1 2 ,1", ["a", "b"]),
        (field(type="array", items={"type": "string", "enum": ["a"]}), "0", []),
        (field(type="string", format="date"), "2026-07-28", "2026-07-28"),
    ],
)
def test_a_line_is_a_value(what, said, value):
    found = read(what, said)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("what", "said", "fault"),
    [
        (TEXT, "", "must not be left empty"),
        (TEXT, "abcdef", "must be at most 5 long"),
        (TEXT, "a\x1b[D", "must not hold keys that are no letters"),
        (NUMBER, "", "must not be left empty"),
        (NUMBER, "many", "must be a number such as 0.5"),
        (NUMBER, "1_000", "must be a number such as 0.5"),
        (NUMBER, "１２", "must be a number such as 0.5"),
        (NUMBER, "-1", "must be at least 0"),
        (NUMBER, "1e999", "must be a number"),
        (NUMBER, "9" * 5000, "must be a number such as 0.5"),
        (WHOLE, "x", "must be a number such as 12"),
        (WHOLE, "0.5", "must be an integer"),
        (SURE, "perhaps", "must be yes or no"),
        (COLOR, "Red", "must be a number from 1 to 2"),
        (COLOR, "0", "must be a number from 1 to 2"),
        (COLOR, "3", "must be a number from 1 to 2"),
        (SOME, "1, d", "must be a number from 1 to 3"),
        (SOME, ",", "must be a number from 1 to 3"),
        (SOME, "0", "must have at least 1 of the choices"),
        (SOME, "1 2 3", "must have at most 2 of the choices"),
        (field(type="string", format="email"), "nobody", "must be an e-mail address"),
    ],
)
def test_another_line_is_a_fault(what, said, fault):
    with pytest.raises(Mismatch) as caught:
        read(what, said)
    assert str(caught.value).startswith(fault)


@given(
    st.sampled_from([TEXT, NUMBER, WHOLE, SURE, COLOR, SOME]),
    st.text(max_size=8) | st.text("0123456789 ,.e-"),
)
def test_whatever_is_typed_is_a_value_that_fits_or_a_fault(what, said):
    try:
        what.check(read(what, said))
    except Mismatch as problem:
        assert str(problem).startswith("must ")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (TEXT, "a text; at most 5 long"),
        (field(type="string", format="email", minLength=3), "an e-mail address; at least 3 long"),
        (field(type="string", format="hostname"), "a text"),
        (NUMBER, "a number; at least 0; at most 1000"),
        (WHOLE, "a whole number"),
        (SURE, "yes or no"),
        (COLOR, "the number of one of these"),
        (
            SOME,
            "numbers of these, such as 1, 3, or 0 for none; at least 1 of them; at most 2 of them",
        ),
    ],
)
def test_what_is_wanted_is_said_in_words(what, words):
    assert wanted(what) == words


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        (TEXT, "abc", "abc"),
        (NUMBER, 0.5, "0.5"),
        (SURE, True, "yes"),
        (SURE, False, "no"),
        (COLOR, "#f00", "Red (#f00)"),
        (COLOR, "Blue", "Blue"),
        (SOME, ["c", "a"], "c, a"),
        (SOME, [], "none of them"),
    ],
)
def test_a_value_is_shown_as_a_person_reads_it(what, value, text):
    assert shown(what, value) == text


def test_a_title_does_not_hide_what_is_sent():
    assert called("delete-everything", "Keep all") == "Keep all (delete-everything)"
