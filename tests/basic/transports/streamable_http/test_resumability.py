"""basic/transports/streamable_http/resumability: what a client may ask for again, and what is forgotten."""

import threading

import pytest
from http_peers import Event, read_event
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from peers import PATIENCE

from mcp_ref.basic.transports.streamable_http.listening import EventReader
from mcp_ref.basic.transports.streamable_http.responding import HttpStream
from mcp_ref.basic.transports.streamable_http.resumability import OVERHEAD, Log, StoredEvents
from mcp_ref.runtime.http_server.reply import HttpReply


class Reader:
    """Stands for a connection that reads a stream."""

    def __init__(self, stream, after=None):
        reply = HttpReply({}, lambda *head: None)
        self.reader = EventReader(stream, reply, last_seen=after, on_close=lambda reader: None)

    def take(self):
        """The events that are new, by their numbers."""
        pieces = self.reader.stream.machine.take(self.reader) or []
        self.reader.stream.log.trim()
        events = [read_event(piece.decode().removesuffix("\n\n")) for piece in pieces]
        return {int(event.id.rpartition("-")[2]): event.data.encode() for event in events}

    def leave(self):
        self.reader.close()


@pytest.fixture
def log():
    return Log("tag", 1 << 20)


def told(log, *lines):
    """A stream on which something was said."""
    stream = HttpStream(log=log)
    for line in lines:
        stream.send(line)
    return stream


# ------------------------------------------------------------------------------ the events of a stream


class Model(RuleBasedStateMachine):
    """The model is a list of all that was ever said."""

    @initialize()
    def begin(self):
        self.events, self.said = StoredEvents(), []
        self.first, self.sent = 1, 0

    def unsent(self):
        return {
            number: line
            for number, line in enumerate(self.said, 1)
            if number > self.sent and number >= self.first
        }

    @rule(line=st.binary(max_size=5))
    def add(self, line):
        self.said.append(line)
        assert self.events.add(line) == len(self.said)

    @rule()
    def take(self):
        assert dict(self.events.take()) == self.unsent()
        self.sent = max(self.sent, len(self.said)) if self.unsent() else self.sent

    @rule()
    def mark_sent(self):
        self.events.mark_sent()
        self.sent = len(self.said)

    @rule(data=st.data())
    def rewind(self, data):
        number = data.draw(st.integers(self.first - 1, len(self.said)))
        assert self.events.has(number)
        self.events.rewind(number)
        self.sent = number

    @rule()
    def forget_sent(self):
        self.events.forget_sent()
        self.first = max(self.first, min(self.sent, len(self.said)) + 1)

    @rule(size=st.integers(0, 3 * OVERHEAD), but=st.integers(0, 2), is_read=st.booleans())
    def forget(self, size, but, is_read):
        freed = 0
        while freed < size and len(self.said) - self.first + 1 > but:
            if is_read and self.first > self.sent:
                break
            freed += len(self.said[self.first - 1]) + OVERHEAD
            self.first += 1
        assert self.events.forget(size, but, is_read=is_read) == freed

    @invariant()
    def all_is_as_the_list_says(self):
        if hasattr(self, "events"):
            assert len(self.events) == len(self.said) - self.first + 1
            assert (self.events.first, self.events.sent) == (self.first, self.sent)
            assert self.events.unsent_bytes == sum(map(len, self.unsent().values()))
            for number in range(-1, len(self.said) + 2):
                assert self.events.has(number) == (self.first - 1 <= number <= len(self.said))


TestStoredEventsAreWhatAListOfThemSays = Model.TestCase
TestStoredEventsAreWhatAListOfThemSays.settings = settings(max_examples=100, deadline=None)


def test_the_first_events_are_forgotten_as_many_as_make_so_many_bytes(log):
    stream = told(log, b"1", b"2", b"3", b"4")
    assert stream.machine.forget(1, but=0) == OVERHEAD + 1
    assert stream.machine.forget(OVERHEAD + 2, but=0) == 2 * (OVERHEAD + 1)
    assert (stream.machine.has(2), stream.machine.has(3), stream.machine.has(4)) == (False, True, True)
    assert stream.machine.can_forget(but=0)
    assert not stream.machine.can_forget(but=1)
    assert stream.machine.forget(1, but=1) == 0
    assert not stream.machine.is_spent
    stream.cancel("cancelled")
    stream.machine.forget(1, but=0)
    assert stream.machine.is_spent


def test_what_its_client_has_yet_to_be_sent_is_not_forgotten(log):
    stream = told(log, b"1")
    reader = Reader(stream)
    assert stream.machine.forget(1, but=0) == 0
    assert reader.take() == {1: b"1"}
    stream.send(b"2")
    assert stream.machine.forget(10_000, but=0) == OVERHEAD + 1
    assert reader.take() == {2: b"2"}
    stream.send(b"3")
    reader.leave()
    assert stream.machine.forget(10_000, but=0) == 2 * (OVERHEAD + 1)


# ------------------------------------------------------------------------------ the log of a session


@pytest.mark.spec(
    "basic/transports/streamable-http/event-id-unique",
    "basic/transports/streamable-http/event-id-names-stream",
    "basic/transports/streamable-http/no-cross-stream-replay",
)
def test_an_id_leads_to_its_stream_and_number(log):
    first, second = told(log, b"1", b"2"), told(log, b"a")
    assert (first.machine.name, second.machine.name) == ("tag-1", "tag-2")
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


@pytest.mark.spec("basic/transports/streamable-http/event-id-unique")
def test_streams_that_begin_at_once_have_names_of_their_own(log):
    names, together = [], threading.Barrier(8)

    def begin():
        together.wait(PATIENCE)
        names.extend(told(log, b"1").machine.name for _ in range(100))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(set(names)) == len(names) == 800


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


def test_a_stream_is_found_before_its_answer_and_as_long_as_that_is_kept(log):
    stream = told(log, b"1")
    assert not stream.machine.is_spent
    stream.answer(b"2")
    assert (stream.machine.is_over, stream.machine.is_spent) == (True, False)
    assert log.find("tag-1-0") == (stream, 0)


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


def test_what_a_client_has_yet_to_be_sent_stays_beyond_the_limit():
    log = Log("tag", 2 * OVERHEAD)
    stream = HttpStream(log=log)
    reader = Reader(stream)
    for _ in range(10):
        stream.send(b"x")
    assert len(reader.take()) == 10
    stream.send(b"x")
    assert log.find("tag-1-3") is None


@pytest.mark.spec("basic/transports/streamable-http/event-id-unique")
def test_the_numbers_go_on_when_all_events_were_forgotten(log):
    stream = told(log, b"1", b"2")
    assert stream.machine.forget(10_000, but=0) == 2 * (OVERHEAD + 1)
    assert [stream.machine.has(number) for number in range(4)] == [False, False, True, False]
    stream.send(b"3")
    assert log.find("tag-1-1") is None
    assert Reader(stream, after=2).take() == {3: b"3"}


def test_a_session_that_is_over_keeps_nothing(log):
    told(log, b"1")
    log.clear()
    assert (log.streams(), log.find("tag-1-0")) == ([], None)


def test_a_stream_that_had_no_events_after_all_is_forgotten(log):
    stream = HttpStream(log=log)
    name = next(log.names)
    log.enter(name, stream)
    log.enter(name, stream)
    assert log.streams() == [stream]
    log.remove(name)
    log.remove(name)
    assert log.streams() == []


@pytest.mark.parametrize("lines", [(), (b"1",)], ids=["nothing was said", "something was said"])
def test_nothing_stays_of_streams_that_were_cancelled(lines):
    """However many there are in a session: what no client can ask for is not in the log."""
    log = Log("tag", 2 * (OVERHEAD + 1))
    for _ in range(20):
        stream = told(log, *lines)
        reader = Reader(stream)
        reader.take()
        reader.leave()
        stream.cancel("cancelled")
    goes_on = told(log, b"a", b"b")
    assert log.streams() == [goes_on]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["say", "end"]), st.integers(0, 900)), max_size=60)
)
def test_a_log_keeps_the_newest_and_never_more_than_its_bytes(steps):
    """Several streams, of which some end and others begin in their place."""
    log, said = Log("tag", 5000), []
    streams = {number: HttpStream(log=log) for number in range(4)}
    for number, what, size in steps:
        stream = streams[number]
        (stream.send if what == "say" else stream.answer)(b"x" * size)
        said.append((stream, size))
        if what == "end":
            streams[number] = HttpStream(log=log)
        kept = log.streams()
        assert sum(OVERHEAD for each in kept for _ in range(len(each.machine.events or ()))) <= log.limit
        assert log._size <= log.limit
        last = len(stream.machine.events) + stream.machine.events.first - 1
        assert log.find(f"{stream.machine.name}-{last - 1}") == (stream, last - 1), "the newest can be had"


def test_events_of_a_stream_are_told_with_their_ids(log):
    stream = told(log, b"1")
    reader = EventReader(stream, HttpReply({}, lambda *head: None), last_seen=0, on_close=lambda reader: None)
    block = next(reader).decode().removesuffix("\n\n")
    assert read_event(block) == Event("1", "tag-1-1")
    reader.close()
