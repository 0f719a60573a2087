"""basic/transports/streamable_http/options: the bounds and choices of an application."""

from __future__ import annotations

import pytest

from mcp_ref import HttpOptions


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"answers": "both"}, ValueError),
        ({"require_headers": "yes"}, TypeError),
        ({"rate": 5}, TypeError),
        ({"max_body_bytes": 0}, ValueError),
        ({"max_bytes_in_flight": "many"}, TypeError),
        ({"max_sessions": 0}, ValueError),
        ({"max_sessions_each": 0}, ValueError),
        ({"session_idle": 0}, ValueError),
        ({"max_streams": 1.5}, TypeError),
        ({"retry_ms": -1}, ValueError),
        ({"log_bytes": 0}, ValueError),
        ({"max_session": 5}, TypeError),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_is_refused_by_its_name(given, error):
    with pytest.raises(error, match=next(iter(given))):
        HttpOptions(**given)


def test_one_owner_has_half_of_the_sessions_unless_it_is_said():
    assert HttpOptions(max_sessions=7).most_sessions_each() == 3
    assert HttpOptions(max_sessions=1).most_sessions_each() == 1
    assert HttpOptions(max_sessions=7, max_sessions_each=7).most_sessions_each() == 7


def test_a_body_is_no_longer_than_a_message_of_the_server_and_fits_into_all_of_them():
    assert HttpOptions().body_bounds(64 << 20) == (4 << 20, 32 << 20)
    assert HttpOptions().body_bounds(1000) == (1000, 8000)
    assert HttpOptions(max_body_bytes=5000).body_bounds(1000) == (5000, 40_000)
    with pytest.raises(
        ValueError, match="max_bytes_in_flight is 10, which is less than one body may have: 20"
    ):
        HttpOptions(max_body_bytes=20, max_bytes_in_flight=10).body_bounds(1000)
