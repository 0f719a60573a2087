"""runtime/typing/codec: numbers, strings, dates and their like, as JSON carries them."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import subprocess
import sys
import uuid
from pathlib import Path

import jsonschema
import pytest
from conversions import told
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.runtime.typing.codec import Codec, Field, json_kind, load_int_key, scalar_of, text_key
from mcp_ref.runtime.typing.mismatch import Mismatch

ROOT = Path(__file__).resolve().parents[3]


def codec(kind):
    found = scalar_of(kind)
    assert found.says
    jsonschema.Draft202012Validator.check_schema(found.schema)
    return found.load, found.dump


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
        (datetime.date, NOON, "be a date such as 2026-07-28"),
        (datetime.date, "2026-07-28", "be a date such as 2026-07-28"),
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


def test_a_hint_that_is_no_scalar_has_no_such_codec():
    for hint in (list, list[int], decimal.Context, int | None, "int", []):
        assert scalar_of(hint) is None


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
        ("a", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_json_kind(value, kind):
    assert json_kind(value) == kind


@pytest.mark.parametrize(("key", "number"), [("0", 0), ("-7", -7), ("12", 12)])
def test_an_integer_as_a_key(key, number):
    assert load_int_key(key) == number


@pytest.mark.parametrize("key", ["", "-", "-0", "01", "1.0", " 1", "1\n", "١", "x", "1" * 4002])
def test_no_integer_as_a_key(key):
    with pytest.raises(Mismatch, match="be an integer as a key"):
        load_int_key(key)


def test_a_codec_is_four_things_and_does_not_change():
    codec = Codec({"type": "integer"}, int, str, "an integer")
    assert (codec.load("5"), codec.dump(5), codec.says) == (5, "5", "an integer")
    with pytest.raises(dataclasses.FrozenInstanceError):
        codec.says = "another"


def test_a_field_has_no_default_unless_one_is_given():
    assert Field("a", int, True).default is None


def test_a_key_that_no_hint_describes_is_a_string():
    assert text_key("a") == "a"
    assert told(text_key, 5) == "a key of a JSON object is a string, not 5"
