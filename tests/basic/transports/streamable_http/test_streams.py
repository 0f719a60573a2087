"""basic/transports/streamable_http/streams: what is said, who is sent it, what is kept for whoever comes
back.
"""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import PATIENCE, eventually, nothing_left

from mcp_ref.basic.index.error_responses import InvalidRequest
from mcp_ref.basic.transports.streamable_http import streams as http_streams
from mcp_ref.basic.transports.streamable_http.log import OVERHEAD, Log
from mcp_ref.basic.transports.streamable_http.streams import HttpStream
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.threads.outbox import Full

ENVIRON = {"wsgi.multithread": True}
"""Of a request whose connection waits to see what its response will be."""


class Reader:
    """Stands for a response."""

    def __init__(self, stream, after=None):
        self.stream = stream
        stream.attach(self, after)

    def take(self):
        """The events that are new, by their numbers; None once another reader has the stream."""
        taken = self.stream.take(self)
        return None if taken is None else dict(taken)

    def leave(self):
        self.stream.detach(self)


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


@pytest.fixture
def log():
    return Log("tag", 1 << 20)


def told(log, *lines, **options):
    """A stream on which something was said."""
    stream = HttpStream(log=log, **options)
    for line in lines:
        stream.send(line)
    return stream


# ----------------------------------------------------------------------------- what is to be seen


@pytest.mark.spec("basic/transports/streamable-http/request-json-or-sse")
def test_an_answer_that_is_all_there_is_to_say_is_no_event_yet(log):
    for kept in (None, log):
        stream = HttpStream(log=kept)
        assert not stream.is_begun
        stream.answer(b"{}")
        assert (stream.is_plain, stream.is_over, stream.name) == (True, True, "")
        assert stream.whole() == b"{}"
        assert not stream.is_plain
    assert log.streams() == []


def test_anything_before_the_answer_makes_events_of_both(log):
    stream = told(log, b"1")
    assert (stream.is_begun, stream.is_over) == (True, False)
    stream.answer(b"2", InvalidRequest("no"))
    assert (stream.is_plain, stream.is_over) == (False, True)
    assert stream.problem.code == -32600
    assert Reader(stream).take() == {1: b"1", 2: b"2"}


def test_an_answer_that_becomes_an_event_is_kept_as_one(log):
    stream = HttpStream(log=log)
    stream.answer(b"2")
    Reader(stream)
    assert log.find("tag-1-0") == (stream, 0)


def test_who_waits_is_woken_by_all_that_there_is_to_see(log):
    for happen in (
        lambda stream: stream.send(b"1"),
        lambda stream: stream.answer(b"1"),
        lambda stream: stream.fail(ConnectionClosed("x")),
        lambda stream: stream.let_go(),
        lambda stream: stream.abandon("x"),
        lambda stream: Reader(stream),
    ):
        stream = HttpStream(log=log, primes=True)
        assert not stream.wait(0.0)
        happen(stream)
        assert stream.wait(PATIENCE)
        assert not stream.wait(0.0)


def test_two_things_to_see_wake_once():
    stream = told(None, b"1", b"2")
    assert stream.wait(PATIENCE)
    assert not stream.wait(0.0)


def test_a_mute_stream_says_nothing_but_the_answer():
    stream = HttpStream(mute=True)
    stream.send(b"1")
    assert not stream.is_begun
    assert not stream.two_way
    stream.answer(b"2")
    assert stream.whole() == b"2"


def test_nothing_can_be_asked_where_one_thread_serves_all():
    assert not HttpStream(environ={"wsgi.multithread": False}).two_way
    assert HttpStream(environ=ENVIRON).two_way
    assert not HttpStream().is_busy


def test_the_context_of_a_request_learns_who_asks_and_how():
    class Context:
        key = environ = principal = None

    for keyed in (False, True):
        stream, context = HttpStream(environ=ENVIRON, principal="ann", keyed=keyed), Context()
        stream.begins(context)
        assert (context.environ, context.principal) == (ENVIRON, "ann")
        assert (context.key is stream) == keyed
        assert stream.context is context


# ----------------------------------------------------------------------------- who is sent what


@pytest.mark.spec(
    "basic/transports/streamable-http/one-stream-per-message",
    "basic/transports/streamable-http/no-broadcast",
)
def test_only_the_last_reader_is_sent_anything(log):
    stream = told(log, b"1")
    first = Reader(stream)
    assert first.take() == {1: b"1"}
    stream.send(b"2")
    second = Reader(stream)
    assert first.take() is None
    assert second.take() == {2: b"2"}
    first.leave()  # it does not take the stream along
    assert stream.is_read
    second.leave()
    assert not stream.is_read


@pytest.mark.spec("basic/transports/streamable-http/replay-messages")
def test_who_comes_back_is_sent_what_comes_after_the_number_it_names(log):
    stream = told(log, b"1", b"2", b"3")
    assert Reader(stream).take() == {1: b"1", 2: b"2", 3: b"3"}
    assert Reader(stream, after=1).take() == {2: b"2", 3: b"3"}
    assert Reader(stream, after=0).take() == {1: b"1", 2: b"2", 3: b"3"}
    assert Reader(stream, after=3).take() == {}


def test_without_a_log_what_was_sent_is_gone():
    stream = told(None, b"1")
    reader = Reader(stream)
    assert reader.take() == {1: b"1"}
    stream.send(b"2")
    assert reader.take() == {2: b"2"}
    assert reader.take() == {}
    stream.send(b"3")
    reader.leave()
    stream.send(b"4")
    assert not stream._events


@pytest.mark.spec("basic/transports/streamable-http/sse-disconnect-not-cancel")
def test_with_a_log_what_was_not_sent_waits_for_another_connection(log):
    stream = told(log, b"1")
    reader = Reader(stream)
    reader.take()
    reader.leave()
    stream.send(b"2")
    stream.answer(b"3")
    assert Reader(stream, after=1).take() == {2: b"2", 3: b"3"}


def test_a_stream_that_nobody_can_come_back_for_keeps_nothing(log):
    stream = HttpStream(log=log, environ=ENVIRON)
    stream.discard()
    stream.send(b"1")
    assert not stream.is_begun


def test_it_lets_go_only_of_clients_that_will_come_back(log):
    assert not HttpStream(log=log).let_go()
    assert not HttpStream(primes=True).let_go()
    stream = HttpStream(log=log, primes=True)
    assert stream.let_go()
    assert stream.released
    Reader(stream, after=0)
    assert not stream.released


# ------------------------------------------------------------------------- a client that reads slowly


@pytest.fixture
def narrow(monkeypatch):
    """Room for little."""
    monkeypatch.setattr(http_streams, "ROOM", 10)


def saying(stream, line=b"x" * 8, end="answer"):
    """A thread that has more to say, and what became of it."""
    outcome = []

    def say():
        try:
            outcome.append(getattr(stream, end)(line))
        except ConnectionClosed as problem:
            outcome.append(problem)

    thread = threading.Thread(target=say)
    thread.start()
    return thread, outcome


@pytest.mark.parametrize("awaited", [False, True], ids=["read", "awaited"])
def test_who_has_more_to_say_waits_until_the_client_was_sent_it(narrow, awaited):
    stream = HttpStream(environ=ENVIRON if awaited else None)
    reader = None if awaited else Reader(stream)
    stream.send(b"x" * 12)
    thread, _ = saying(stream, end="send")
    assert eventually(lambda: stream._room is not None)
    assert thread.is_alive()
    reader = reader or Reader(stream)
    assert reader.take() == {1: b"x" * 12}
    thread.join(PATIENCE)
    assert reader.take() == {2: b"x" * 8}


@pytest.mark.parametrize(
    "happen",
    [
        lambda stream, reader: reader.leave(),
        lambda stream, reader: stream.discard(),
        lambda stream, reader: stream.fail(ConnectionClosed("enough")),
    ],
    ids=["it leaves", "it is gone", "the stream fails"],
)
def test_nobody_waits_for_a_client_that_is_gone(narrow, happen):
    stream = HttpStream()
    reader = Reader(stream)
    stream.send(b"x" * 12)
    thread, _ = saying(stream)
    assert eventually(lambda: stream._room is not None)
    happen(stream, reader)
    if stream.is_read:
        reader.leave()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_nobody_waits_for_ever(narrow, monkeypatch):
    stream = HttpStream()
    Reader(stream)
    stream.send(b"x" * 100)  # the first always has room
    with pytest.raises(Full, match=r"0\.01 s"):
        stream.send(b"x" * 8, wait=0.01)
    monkeypatch.setattr(http_streams, "STALL", 0.02)
    with pytest.raises(Full, match=r"0\.02 s"):
        stream.send(b"x" * 8, wait=60.0)
    with pytest.raises(Full):
        stream.send(b"x" * 8)
    stream.answer(b"x" * 8)
    assert stream.is_over  # without its answer


def test_what_is_kept_for_later_needs_no_room(narrow, log):
    stream = told(log, *[b"x" * 8] * 5)
    assert len(Reader(stream).take()) == 5


def test_whoever_ends_a_connection_can_wait_until_all_was_sent():
    stream = HttpStream()
    assert stream.settle(0.0)
    reader = Reader(stream)
    stream.send(b"1")
    assert not stream.settle(0.01)
    reader.take()
    assert stream.settle(0.0)
    stream.send(b"2")
    reader.leave()
    assert stream.settle(0.0)


def test_after_a_failure_nothing_can_be_said(log):
    stream = told(log, b"1")
    stream.fail(ConnectionClosed("the first reason"))
    stream.fail(ConnectionClosed("another"))
    with pytest.raises(ConnectionClosed, match="the first reason"):
        stream.send(b"2")
    stream.answer(b"3")
    assert Reader(stream).take() == {1: b"1"}


def test_a_cancelled_request_ends_its_stream_without_an_answer(log):
    stream = told(log, b"1")
    stream.abandon("cancelled")
    assert stream.is_over
    assert stream.is_abandoned
    assert not stream.answered


# ------------------------------------------------------------------------------ coming back, often


def test_the_first_events_are_forgotten_as_many_as_make_so_many_bytes(log):
    stream = told(log, b"1", b"2", b"3", b"4")
    assert stream.forget(1, but=0) == OVERHEAD + 1
    assert stream.forget(OVERHEAD + 2, but=0) == 2 * (OVERHEAD + 1)
    assert (stream.has(2), stream.has(3), stream.has(4)) == (False, True, True)
    assert stream.can_forget(but=0)
    assert not stream.can_forget(but=1)
    assert stream.forget(1, but=1) == 0
    assert not stream.is_spent
    stream.abandon("cancelled")
    stream.forget(1, but=0)
    assert stream.is_spent


def test_what_its_client_has_yet_to_be_sent_is_not_forgotten(log):
    stream = told(log, b"1")
    reader = Reader(stream)
    assert stream.forget(1, but=0) == 0
    reader.take()
    stream.send(b"2")
    assert stream.forget(10_000, but=0) == OVERHEAD + 1
    assert reader.take() == {2: b"2"}
    stream.send(b"3")
    reader.leave()
    assert stream.forget(10_000, but=0) == 2 * (OVERHEAD + 1)
    assert stream.settle(0.0)


@pytest.mark.parametrize("kept", [False, True])
def test_a_stream_that_is_over_before_anybody_reads_it_is_had_at_once(log, kept):
    stream = HttpStream(log=log if kept else None, environ=ENVIRON)
    stream.answer(b"1")
    assert stream.finish() == [(1, b"1")]
    assert log.find("tag-1-0") == ((stream, 0) if kept else None)
    stream = HttpStream(log=log if kept else None, environ=ENVIRON)
    stream.send(b"1")
    stream.answer(b"2")
    assert stream.finish() == [(1, b"1"), (2, b"2")]
    assert stream.finish() == []


def test_it_is_spent_when_it_is_over_and_nothing_is_left_of_it(log):
    """Only then is it forgotten: before its answer, and as long as that is kept, it is found."""
    stream = HttpStream(log=log, environ=ENVIRON)
    assert not stream.is_spent  # empty, and not over
    stream.send(b"1")
    assert not stream.is_spent
    stream.answer(b"2")
    assert stream.is_over
    assert not stream.is_spent  # over, and not empty
    assert log.find("tag-1-0") == (stream, 0)


@given(
    st.lists(
        st.sampled_from(["say", "take", "leave", "come back"]).flatmap(
            lambda what: st.tuples(st.just(what), st.integers(0, 3))
        ),
        max_size=40,
    )
)
def test_a_client_hears_everything_once_and_in_order_however_often_it_comes_back(steps):
    """It loses the last few events of each connection, and asks for what comes after the last it has."""
    log = Log("tag", 1 << 20)
    stream, said, heard = HttpStream(log=log), 0, []
    stream.send(b"0")
    reader = Reader(stream)
    for what, lost in [*steps, ("come back", 0), ("take", 0)]:
        if what == "say":
            said += 1
            stream.send(b"%d" % said)
        elif what == "take" and stream.is_read:
            taken = list(reader.take().values())
            heard += taken[: len(taken) - lost]
            if lost and taken:
                reader.leave()
        elif what == "leave":
            reader.leave()
        elif what == "come back":
            assert log.find(f"tag-1-{len(heard)}") == (stream, len(heard))
            reader = Reader(stream, after=len(heard))
    assert heard == [b"%d" % n for n in range(said + 1)]


def test_many_may_speak_at_once_while_one_reads():
    log = Log("tag", 1 << 24)
    stream, heard = HttpStream(log=log), []
    reader = Reader(stream)

    def speak(who):
        for n in range(300):
            stream.send(b"%d %d" % (who, n))

    def read():
        while not stream.answered or stream._size:
            stream.wait(PATIENCE)
            heard.extend(reader.take().values())

    threads = [threading.Thread(target=speak, args=(who,)) for who in range(4)]
    reading = threading.Thread(target=read)
    for thread in (reading, *threads):
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    stream.answer(b"end")
    reading.join(PATIENCE)
    assert heard.pop() == b"end"
    for who in range(4):
        mine = [line for line in heard if line.startswith(b"%d " % who)]
        assert mine == [b"%d %d" % (who, n) for n in range(300)]
    assert len(heard) == 1200


def test_where_nothing_but_json_is_sent_nobody_is_let_go(log):
    stream = HttpStream(log=log, primes=True, mute=True)
    assert not stream.let_go()
    assert not stream.released
