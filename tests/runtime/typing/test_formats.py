"""runtime/typing/formats: which texts have a format. More of them are in tests/client/elicitation."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.runtime.typing.formats import FORMATS


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("email", "octocat@github.com", "octocat"),
        ("uri", "mailto:octocat@github.com", "octocat"),
        ("date", "2026-07-28", "20260728"),
        ("date", "2024-02-29", "2026-02-29"),
        ("date-time", "2026-07-28T12:00:00Z", "2026-07-28T12:00:00"),
        ("date-time", "2026-07-28T12:00:00Z", "2026-07-28T25:00:00Z"),
    ],
)
def test_each_format(name, good, bad):
    _, fits = FORMATS[name]
    assert fits(good) is True
    assert fits(bad) is False


@given(st.emails())
def test_every_address_is_an_address(text):
    assert FORMATS["email"][1](text)


@given(st.datetimes(timezones=st.timezones()) | st.datetimes(timezones=st.just(None)))
def test_every_time_with_an_offset_is_a_time(moment):
    text = moment.isoformat()
    offset = moment.utcoffset()
    is_whole = offset is not None and offset.seconds % 60 == 0 and not offset.microseconds
    assert FORMATS["date-time"][1](text) == is_whole


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_checked_in_no_time_whatever_the_text(name):
    for text in ("a" * 100_000, "a." * 50_000, '"' + "\\" * 100_000, "a@" + "a-" * 50_000, "0" * 100_000):
        begun = time.thread_time()
        assert FORMATS[name][1](text) is False
        assert time.thread_time() - begun < 1  # quadratic time would be ten seconds at least
