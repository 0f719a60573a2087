"""runtime/typing/scalars: numbers, strings, dates and their like, as JSON carries them."""

import datetime
import decimal
import enum
import fractions
import pathlib
import subprocess
import sys
import uuid
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.runtime.typing import scalars
from mcp_ref.runtime.typing.mismatch import Mismatch

ROOT = Path(__file__).resolve().parents[3]


def codec(kind):
    schema, load, dump, says = scalars.CODECS.get(kind)
    assert says
    jsonschema.Draft202012Validator.check_schema(schema)
    return load, dump


def load(kind, value):
    return codec(kind)[0](value)


def dump(kind, value):
    return codec(kind)[1](value)


class Level(enum.IntEnum):
    LOW = 1


class Index:
    """What numpy's integers are like."""

    def __index__(self):
        return 7


class Text(str):
    def __str__(self):
        return "something else"


DATE, NOON = datetime.date(2026, 7, 28), datetime.datetime(2026, 7, 28, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("kind", "value", "loaded"),
    [
        (int, 5, 5),
        (int, 5.0, 5),
        (int, 10**400, 10**400),
        (float, 5, 5.0),
        (float, 0.5, 0.5),
        (str, "", ""),
        (bool, False, False),
        (None, None, None),
        (type(None), None, None),
        (datetime.datetime, "2026-07-28T12:00:00Z", NOON),
        (datetime.datetime, "2026-07-28T14:00:00+02:00", NOON),
        (datetime.date, "2026-07-28", DATE),
        (datetime.time, "12:30", datetime.time(12, 30)),
        (uuid.UUID, "00000000-0000-0000-0000-00000000000A", uuid.UUID(int=10)),
        (decimal.Decimal, "-1.50", decimal.Decimal("-1.50")),
        (decimal.Decimal, 3, decimal.Decimal(3)),
        (decimal.Decimal, 3.0, decimal.Decimal(3)),
        (bytes, "AA==", b"\x00"),
        (pathlib.Path, "/a/../b", pathlib.Path("/a/../b")),
        (pathlib.PurePosixPath, "a", pathlib.PurePosixPath("a")),
    ],
)
def test_load(kind, value, loaded):
    assert load(kind, value) == loaded
    assert type(load(kind, value)) is type(loaded)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (int, "5"),
        (int, 5.5),
        (int, None),
        (int, float("inf")),
        (float, True),
        (float, "0.5"),
        (float, 10**400),
        (str, 5),
        (bool, 0),
        (bool, "true"),
        (None, 0),
        (None, ""),
        (datetime.datetime, "2026-07-28"),
        (datetime.datetime, "20260728"),
        (datetime.datetime, "yesterday at noon"),
        (datetime.datetime, 1785240000),
        (datetime.date, "2026-02-30"),
        (datetime.date, "2026-07-28T12:00:00"),
        (datetime.time, "25:00"),
        (uuid.UUID, "00000000000000000000000000000000"),
        (uuid.UUID, "{00000000-0000-0000-0000-000000000000}"),
        (uuid.UUID, 7),
        (decimal.Decimal, "1e5"),
        (decimal.Decimal, "NaN"),
        (decimal.Decimal, " 1"),
        (decimal.Decimal, "1\n"),
        (decimal.Decimal, "١"),
        (decimal.Decimal, 0.5),
        (decimal.Decimal, True),
        (bytes, "A"),
        (bytes, "AA=\n="),
        (bytes, "é"),
        (bytes, []),
        (pathlib.Path, 5),
    ],
)
def test_load_refuses(kind, value):
    with pytest.raises(Mismatch, match=r"^must be"):
        load(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "dumped"),
    [
        (int, 5, 5),
        (int, Level.LOW, 1),
        (int, Index(), 7),
        (float, 0.5, 0.5),
        (float, 5, 5),
        (float, type("Real", (float,), {})(0.5), 0.5),
        (str, Text("a"), "a"),
        (bool, True, True),
        (None, None, None),
        (datetime.datetime, NOON, "2026-07-28T12:00:00+00:00"),
        (datetime.date, DATE, "2026-07-28"),
        (decimal.Decimal, decimal.Decimal("1E+3"), "1000"),
        (bytes, b"", ""),
        (pathlib.Path, pathlib.PosixPath("a"), "a"),
    ],
)
def test_dump(kind, value, dumped):
    assert dump(kind, value) == dumped
    assert type(dump(kind, value)) is type(dumped)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (int, True, "be an integer"),
        (int, 5.0, "be an integer"),
        (int, "5", "be an integer"),
        (float, True, "be a number"),
        (float, "5", "be a number"),
        (float, float("nan"), "JSON has no number for nan"),
        (float, float("-inf"), "JSON has no number for -inf"),
        (float, 10**400, "that a float can hold"),
        (str, b"a", "be a string"),
        (bool, 1, "be true or false"),
        (None, False, "be null"),
        (datetime.datetime, DATE, "be a date and time"),
        (datetime.date, NOON, "be a date without a time"),
        (datetime.date, "2026-07-28", "be a date without a time"),
        (uuid.UUID, "00000000-0000-0000-0000-000000000000", "be a UUID"),
        (decimal.Decimal, decimal.Decimal("NaN"), "be a finite Decimal"),
        (decimal.Decimal, 1, "be a finite Decimal"),
        (bytes, "a", "be base64"),
        (pathlib.Path, "a", "be a path"),
    ],
)
def test_dump_refuses(kind, value, said):
    with pytest.raises(Mismatch, match=said):
        dump(kind, value)


# Not those by name: Python calls no time of theirs equal that a change of clocks makes twice.
zones = st.none() | st.integers(-1439, 1439).map(lambda m: datetime.timezone(datetime.timedelta(minutes=m)))


@settings(deadline=None, max_examples=100)
@given(
    st.one_of(
        st.tuples(st.just(int), st.integers()),
        st.tuples(st.just(float), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just(str), st.text()),
        st.tuples(st.just(bytes), st.binary()),
        st.tuples(st.just(uuid.UUID), st.uuids()),
        st.tuples(st.just(decimal.Decimal), st.decimals(-(10**9), 10**9, allow_nan=False)),
        st.tuples(st.just(datetime.datetime), st.datetimes(timezones=zones)),
        st.tuples(st.just(datetime.date), st.dates()),
        st.tuples(st.just(datetime.time), st.times()),
        st.tuples(st.just(pathlib.Path), st.text().map(pathlib.Path)),
    )
)
def test_what_was_dumped_loads_again(case):
    kind, value = case
    assert load(kind, dump(kind, value)) == value


def test_a_type_that_is_no_scalar_is_not_in_the_table():
    assert scalars.CODECS.get(list) is None
    assert scalars.CODECS.get(decimal.Context) is None
    assert scalars.CODECS.get(list, "nothing") == "nothing"


def test_decimal_and_uuid_are_not_imported_for_those_who_do_not_use_them():
    code = (
        "import mcp_ref.runtime.typing.values, sys; print({'decimal', 'uuid', 'fractions'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert done.stdout.strip() == "set()", done.stderr


# -------------------------------------------------------------------------- small questions


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "number"),
        (decimal.Decimal(1), "number"),
        ("a", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_json_kind(value, kind):
    assert scalars.json_kind(value) == kind


@pytest.mark.parametrize(("key", "number"), [("0", 0), ("-7", -7), ("12", 12)])
def test_an_integer_as_a_key(key, number):
    assert scalars.load_int_key(key) == number


@pytest.mark.parametrize("key", ["", "-", "-0", "01", "1.0", " 1", "1\n", "١", "x", "1" * 4002])
def test_no_integer_as_a_key(key):
    with pytest.raises(Mismatch, match="be an integer as a key"):
        scalars.load_int_key(key)


def test_a_pattern_is_looked_for_anywhere():
    assert scalars.matches("xaby", "ab")
    assert not scalars.matches("xaby", "^ab")


def test_a_pattern_that_could_take_for_ever_is_a_fault_of_the_value():
    with pytest.raises(Mismatch, match=r"cannot be checked: the pattern .* could take too long in 301 char"):
        scalars.matches("a" * 300 + "!", "^(a+)+$")


@pytest.mark.parametrize(
    ("value", "step", "divided"),
    [
        (6, 3, True),
        (7, 3, False),
        (10**17 + 1, 2, False),
        (7.5, 2, False),
        (7.5, 2.5, True),
        (0.3, 0.1, False),
        (10**400, 0.5, True),
        (1e308, 1e-10, True),
        (10**400, 3.0, False),
        (decimal.Decimal("19.99"), 0.01, True),
        (decimal.Decimal("19.995"), 0.01, False),
        (decimal.Decimal(9), 3, True),
        (decimal.Decimal("1" * 29), 1, True),
        (decimal.Decimal("1" * 29 + ".5"), 1, False),
        (decimal.Decimal("1" * 29 + ".25"), 0.25, True),
        (decimal.Decimal("9" * 5000), 3, True),
        (decimal.Decimal("9" * 5000 + "1"), 3, False),
        (decimal.Decimal("0." + "1" * 40), 0.01, False),
        (decimal.Decimal(0), 7, True),
    ],
)
def test_divides(value, step, divided):
    if (value, step) == (1e308, 1e-10):
        divided = fractions.Fraction(1e308) % fractions.Fraction(1e-10) == 0
    assert scalars.divides(value, step) is divided


@settings(deadline=None, max_examples=200)
@given(
    st.integers(-(10**20), 10**20) | st.floats(-1e6, 1e6, allow_nan=False),
    st.sampled_from([1, 2, 3, 7, 0.5, 0.25, 0.1, 1.5]),
)
def test_divides_as_json_schema_does(value, step):
    assert scalars.divides(value, step) == jsonschema.Draft202012Validator({"multipleOf": step}).is_valid(
        value
    )
