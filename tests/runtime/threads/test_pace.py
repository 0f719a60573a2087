"""Which functions are quick."""

from mcp_ref.runtime.threads.pace import MAX_INLINE_SECONDS, SLOW, Pace


def test_what_was_quick_the_last_time_is_quick():
    pace = Pace()
    assert not pace.is_quick("add"), "nobody knows yet"
    pace.took("add", MAX_INLINE_SECONDS / 2)
    assert pace.is_quick("add")
    assert not pace.is_quick("other")
    pace.took("add", MAX_INLINE_SECONDS)
    assert not pace.is_quick("add")
    pace.took("add", 0.0)
    assert pace.is_quick("add")


def test_what_was_ever_slow_is_never_quick_again():
    pace = Pace()
    pace.took("report", 0.0)
    pace.took("report", SLOW + 0.1)
    pace.took("report", 0.0)
    assert not pace.is_quick("report")
