"""basic/transports/streamable_http/resumability: what a client may ask for again, and what is forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.basic.transports.streamable_http.receiving import HttpStream
from mcp_ref.basic.transports.streamable_http.resumability import OVERHEAD, Log


class Reader:
    """Stands for a response."""

    def __init__(self, stream, after=None):
        self.stream = stream
        stream.attach(self, after)

    def take(self):
        return dict(self.stream.take(self))


@pytest.fixture
def log():
    return Log("tag", 1 << 20)


def told(log, *lines):
    """A stream on which something was said."""
    stream = HttpStream(log=log)
    for line in lines:
        stream.send(line)
    return stream


@pytest.mark.spec(
    "basic/transports/streamable-http/event-id-unique",
    "basic/transports/streamable-http/event-id-names-stream",
    "basic/transports/streamable-http/no-cross-stream-replay",
)
def test_an_id_leads_to_its_stream_and_number(log):
    first, second = told(log, b"1", b"2"), told(log, b"a")
    assert (first.name, second.name) == ("tag-1", "tag-2")
    for number in (0, 1, 2):
        assert log.find(f"tag-1-{number}") == (first, number)
    assert log.find("tag-2-1") == (second, 1)
    for none in ("tag-1-3", "tag-2-2", "tag-3-0", "other-1-1", "tag-1", "tag-1-", "tag-1-x", "tag-1-²"):
        assert log.find(none) is None
    assert log.find("tag-1-" + "9" * 5000) is None
    for other_spelling in ("0" * 12, "00", "01", "+1", "1 ", "١"):
        assert log.find(f"tag-1-{other_spelling}") is None


@given(st.text())
def test_no_event_id_does_any_harm(text):
    log = Log("tag", 10_000)
    told(log, b"1")
    found = log.find(text)
    assert found is None or text in ("tag-1-0", "tag-1-1")


@pytest.mark.spec("basic/transports/streamable-http/sse-resumable")
def test_events_of_the_oldest_stream_are_forgotten_first():
    log = Log("tag", 4 * (OVERHEAD + 1))
    first, second = told(log, b"1", b"2"), told(log, b"a", b"b")
    assert log.find("tag-1-0")
    first.send(b"3")
    assert log.find("tag-1-0") is None
    assert Reader(first, after=1).take() == {2: b"2", 3: b"3"}
    second.send(b"c")
    second.send(b"d")
    assert log.find("tag-1-1") is None
    assert log.find("tag-2-1") == (second, 1)


def test_events_of_a_stream_that_is_over_are_forgotten_before_others():
    log = Log("tag", 4 * (OVERHEAD + 1))
    goes_on, over = told(log, b"1", b"2"), told(log, b"a")
    over.answer(b"b")
    goes_on.send(b"3")
    assert log.find("tag-1-0") == (goes_on, 0)
    assert log.find("tag-2-0") is None
    assert log.find("tag-2-1") == (over, 1)


def test_a_stream_that_is_over_leaves_the_log_with_its_last_event():
    log = Log("tag", 2 * (OVERHEAD + 1))
    first = told(log, b"1")
    first.answer(b"2")
    second = told(log, b"a")
    assert log.streams() == [first, second]
    second.send(b"b")
    assert log.streams() == [second]


def test_the_newest_event_is_kept_if_there_is_room_for_it_at_all():
    log = Log("tag", 6000)
    stream = told(log, b"1" * 5000, b"2" * 5000)
    assert Reader(stream, after=1).take() == {2: b"2" * 5000}
    told(log, b"3" * 5001)
    assert [log.find(f"tag-2-{number}") for number in (0, 1)] != [None, None]
    assert log.find("tag-2-0") is None


def test_what_is_larger_than_the_log_waits_for_a_client_that_is_there_and_for_no_other():
    log = Log("tag", 6000)
    stream = HttpStream(log=log)
    reader = Reader(stream)
    stream.send(b"x" * 9000)
    assert log.find("tag-1-0") == (stream, 0)
    assert len(reader.take()[1]) == 9000
    assert log.find("tag-1-0") is None


def test_what_is_kept_for_a_client_goes_once_it_was_sent():
    log = Log("tag", 3 * (OVERHEAD + 1))
    stream = HttpStream(log=log)
    reader = Reader(stream)
    for _ in range(10):
        stream.send(b"x")
    assert log.find("tag-1-0") == (stream, 0)
    reader.take()
    assert log.find("tag-1-0") is None
    assert log.find("tag-1-7") == (stream, 7)


def test_a_session_that_is_over_keeps_nothing(log):
    told(log, b"1")
    log.clear()
    assert (log.streams(), log.find("tag-1-0")) == ([], None)


def test_what_a_client_has_yet_to_be_sent_is_not_forgotten():
    log = Log("tag", 2 * OVERHEAD)
    stream = HttpStream(log=log)
    reader = Reader(stream)
    for _ in range(10):
        stream.send(b"x")
    assert len(reader.take()) == 10
    stream.send(b"x")
    assert log.find("tag-1-3") is None


@pytest.mark.parametrize("lines", [(), (b"1",)], ids=["nothing was said", "something was said"])
def test_nothing_stays_of_streams_that_were_cancelled(lines):
    """However many there are in a session: what nobody can ask for is not in the log."""
    log = Log("tag", 2 * (OVERHEAD + 1))
    for _ in range(20):
        stream = told(log, *lines)
        reader = Reader(stream)
        reader.take()
        stream.detach(reader)
        stream.cancel("cancelled")
    goes_on = told(log, b"a", b"b")
    assert log.streams() == [goes_on]
