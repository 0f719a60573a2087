"""runtime/threads/outbox: many threads send, one at a time writes, and nothing waits for ever."""

import errno
import os
import signal
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import PATIENCE, eventually, nothing_left

from mcp_ref.runtime.errors import ConnectionClosed, LocalError
from mcp_ref.runtime.threads import signals
from mcp_ref.runtime.threads.outbox import Full, Outbox


class Terminated(BaseException):
    """What the handler of SIGTERM raises."""


@pytest.fixture
def terminated():
    def stop(number, frame):
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(autouse=True)
def no_thread_stays():
    with nothing_left():
        yield


class Gate:
    """A `write` that stands still until it is let go, one write after another or for good."""

    def __init__(self):
        self.written = []
        self.entered = threading.Semaphore(0)
        self.passes = threading.Semaphore(0)
        self.open = threading.Event()
        self.problem = None

    def __call__(self, data):
        self.entered.release()
        while not self.open.is_set() and not self.passes.acquire(timeout=0.01):
            pass
        if self.problem is not None:
            raise self.problem
        self.written.append(data)

    def wait(self):
        """Until somebody writes."""
        assert self.entered.acquire(timeout=PATIENCE)


def beside(run, *args):
    """Run it in a thread; `caught` has the exception, if there was one."""
    caught = []

    def guarded():
        try:
            run(*args)
        except Exception as problem:
            caught.append(problem)

    thread = threading.Thread(target=guarded)
    thread.caught = caught
    thread.start()
    return thread


def finished(*threads):
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return [problem for thread in threads for problem in thread.caught]


# -- forks ------------------------------------------------------------------------------------


def test_in_a_forked_child_nothing_is_sent_and_whoever_tries_is_told_why():
    """Not even where another thread of the parent was writing: its lock is held for ever."""
    written = []
    outbox = Outbox(written.append)
    with outbox._lock:
        outbox.forked()
        with pytest.raises(ConnectionClosed, match="forked after the connection was made"):
            outbox.send(b"one\n")
    assert written == []


# -- order ------------------------------------------------------------------------------------


def test_a_message_is_written_on_the_thread_that_sends_it():
    written = []
    Outbox(lambda data: written.append((data, threading.current_thread()))).send(b"one\n")
    assert written == [(b"one\n", threading.current_thread())]


def test_whoever_sends_while_another_writes_goes_on_at_once():
    gate = Gate()
    outbox = Outbox(gate)
    writer = beside(outbox.send, b"1\n")
    gate.wait()
    outbox.send(b"2\n")  # does not block, although nothing is written yet
    outbox.send(b"3\n")
    assert not gate.written
    gate.open.set()
    assert not finished(writer)
    assert b"".join(gate.written) == b"1\n2\n3\n"


def test_small_messages_share_a_write():
    gate = Gate()
    outbox = Outbox(gate)
    writer = beside(outbox.send, b"1\n")
    gate.wait()
    for number in range(2, 100):
        outbox.send(b"%d\n" % number)
    gate.open.set()
    assert not finished(writer)
    assert len(gate.written) == 2


def lines_of(thread, count, size):
    return [b"%d %d %b\n" % (thread, number, b"x" * ((number * 37) % size)) for number in range(count)]


def check_stream(stream, sent):
    """Whole lines only, each thread's in its order, none lost and none twice."""
    assert stream.endswith(b"\n")
    per_thread = {thread: [] for thread in sent}
    for line in stream.splitlines(keepends=True):
        per_thread[int(line.split(b" ", 1)[0])].append(line)
    assert per_thread == sent


@pytest.mark.spec("basic/transports/stdio/one-message-per-line")
@pytest.mark.parametrize(("size", "limit"), [(20, 4 << 20), (3000, 4 << 20), (3000, 2000), (20, 1)])
def test_lines_of_many_threads_never_mix(size, limit):
    """Through a real pipe that takes less than is sent at once, and with an outbox that is always full."""
    sent = {thread: lines_of(thread, 150, size) for thread in range(8)}
    reading, writing = os.pipe()
    received = []

    def read():
        while chunk := os.read(reading, 4096):
            received.append(chunk)

    def write(data):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(writing, rest[:1500]) :]

    outbox = Outbox(write, limit=limit)
    begin = threading.Barrier(8)

    def send_all(thread):
        begin.wait(PATIENCE)
        for line in sent[thread]:
            outbox.send(line)

    reader = beside(read)
    assert not finished(*[beside(send_all, thread) for thread in sent])
    outbox.send(b"0 last\n")  # the writer of before is still at it, or done: either way it gets out
    sent[0].append(b"0 last\n")
    assert eventually(
        lambda: sum(map(len, received)) == sum(len(line) for lines in sent.values() for line in lines)
    )
    os.close(writing)
    assert not finished(reader)
    os.close(reading)
    check_stream(b"".join(received), sent)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.integers(0, 300), max_size=12), min_size=1, max_size=4),
    st.integers(1, 1000),
)
def test_whatever_is_sent_arrives_whole_and_in_order(sizes, limit):
    sent = {
        thread: [b"%d %d %b\n" % (thread, number, b"x" * size) for number, size in enumerate(lengths)]
        for thread, lengths in enumerate(sizes)
    }
    written = []
    outbox = Outbox(written.append, limit=limit)

    def send_all(thread):
        for line in sent[thread]:
            outbox.send(line)

    assert not finished(*[beside(send_all, thread) for thread in sent])
    if any(sent.values()):
        check_stream(b"".join(written), sent)


# -- full -------------------------------------------------------------------------------------


def test_a_full_outbox_blocks_and_goes_on_when_there_is_room():
    gate = Gate()
    outbox = Outbox(gate, limit=10)
    writer = beside(outbox.send, b"a" * 5)
    gate.wait()
    outbox.send(b"b" * 6)
    blocked = beside(outbox.send, b"c" * 5)
    blocked.join(0.05)
    assert blocked.is_alive()  # six and five are more than ten
    gate.passes.release()  # the first write ends; the next one takes what waited
    gate.wait()
    assert not finished(blocked)
    gate.open.set()
    assert not finished(writer)
    assert b"".join(gate.written) == b"aaaaabbbbbbccccc"


def test_a_message_larger_than_the_outbox_still_goes():
    gate = Gate()
    outbox = Outbox(gate, limit=10)
    writer = beside(outbox.send, b"a" * 100)
    gate.wait()
    outbox.send(b"b" * 100)
    gate.open.set()
    assert not finished(writer)
    assert gate.written == [b"a" * 100, b"b" * 100]


def test_a_peer_that_takes_nothing_is_given_up():
    """Whoever waits for room hears of it; the limit is the outbox's `stall`."""
    gate = Gate()
    outbox = Outbox(gate, limit=10, stall=0.02)
    writer = beside(outbox.send, b"a")
    gate.wait()
    outbox.send(b"b" * 10)
    blocked = [beside(outbox.send, b"c" * 10) for _ in range(4)]
    problems = finished(*blocked)
    assert len(problems) == 4
    assert all(isinstance(problem, ConnectionClosed) for problem in problems)
    assert "has read nothing for 0.02 s" in str(problems[0])
    gate.open.set()
    finished(writer)


# -- failing ----------------------------------------------------------------------------------


def test_a_write_that_fails_is_the_end_of_the_connection():
    def write(data):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    outbox = Outbox(write)
    with pytest.raises(ConnectionClosed, match="Broken pipe") as caught:
        outbox.send(b"one\n")
    assert isinstance(caught.value, LocalError)
    assert isinstance(caught.value.__cause__, BrokenPipeError)
    with pytest.raises(ConnectionClosed, match="Broken pipe"):
        outbox.send(b"two\n")


def test_a_write_that_fails_wakes_everybody_who_waits():
    gate = Gate()
    outbox = Outbox(gate, limit=10)
    writer = beside(outbox.send, b"a")
    gate.wait()
    outbox.send(b"b" * 10)
    blocked = [beside(outbox.send, b"c" * 10) for _ in range(5)]
    gate.problem = BrokenPipeError(errno.EPIPE, "Broken pipe")
    gate.open.set()
    problems = finished(writer, *blocked)
    assert len(problems) == 6
    assert all(isinstance(problem, ConnectionClosed) for problem in problems)
    assert not gate.written


@pytest.mark.parametrize("by_another_thread", [False, True])
def test_of_a_write_that_fails_the_connection_is_told_whichever_thread_it_was(by_another_thread):
    told = []
    heard = threading.Event()

    class Write:
        def begin(self, data):
            return len(data) // 2 if by_another_thread else self(data)

        def __call__(self, data):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    def on_failure(reason):
        told.append(reason)
        heard.set()

    outbox = Outbox(Write())
    outbox.on_failure = on_failure
    if by_another_thread:
        outbox.send(b"one\n")
    else:
        with pytest.raises(ConnectionClosed):
            outbox.send(b"one\n")
    assert heard.wait(PATIENCE)
    assert told == ["[Errno 32] Broken pipe"]


def test_an_end_that_is_no_failed_write_is_told_to_nobody():
    outbox = Outbox(lambda data: None)
    outbox.on_failure = lambda reason: pytest.fail("it was told")
    outbox.fail(ConnectionClosed("the server exited with code 3"))
    with pytest.raises(ConnectionClosed, match="exited with code 3"):
        outbox.send(b"one\n")


def test_fail_wakes_everybody_with_its_reason_though_a_write_hangs():
    gate = Gate()
    outbox = Outbox(gate, limit=10)
    writer = beside(outbox.send, b"a")
    gate.wait()
    outbox.send(b"b" * 10)
    blocked = [beside(outbox.send, b"c" * 10) for _ in range(5)]
    outbox.fail(ConnectionClosed("the server exited with code 3"))
    problems = finished(*blocked)
    assert [str(problem) for problem in problems] == ["the server exited with code 3"] * 5
    with pytest.raises(ConnectionClosed, match="code 3"):
        outbox.send(b"d")
    gate.open.set()
    finished(writer)
    assert gate.written == [b"a"]  # nothing more after the end


def test_the_first_reason_stays():
    outbox = Outbox(lambda data: None)
    outbox.fail(ConnectionClosed("first"))
    outbox.fail(ConnectionClosed("second"))
    with pytest.raises(ConnectionClosed, match="first"):
        outbox.send(b"x")


def test_a_write_that_is_interrupted_leaves_no_outbox_that_swallows():
    """Ctrl-C while the main thread writes: the line may be half out, so nothing can follow it.

    What must not be is that later messages are taken and never written.
    """

    def write(data):
        raise KeyboardInterrupt

    outbox = Outbox(write)
    with pytest.raises(KeyboardInterrupt):
        outbox.send(b"one\n")
    with pytest.raises(ConnectionClosed):
        outbox.send(b"two\n")


class Slow:
    """A way out that begins well, and then takes no more until `gate` is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.out: list[bytes] = []
        self.problem: Exception | None = None

    def begin(self, data: bytes) -> int:
        if self.gate.is_set():
            self(data)
            return len(data)
        self.out.append(bytes(data[:3]))
        return 3

    def __call__(self, data: bytes) -> None:
        assert self.gate.wait(10)
        if self.problem is not None:
            raise self.problem
        self.out.append(bytes(data))


def test_whoever_has_something_to_say_to_a_slow_peer_goes_on_at_once():
    slow = Slow()
    outbox = Outbox(slow)
    outbox.send(b"first\n")
    outbox.send(b"second\n")
    assert outbox.is_busy
    assert [t.name for t in threading.enumerate()].count("mcp_ref writer") == 1
    assert not outbox.flush(0.01)
    slow.gate.set()
    assert outbox.flush(10)
    assert b"".join(slow.out) == b"first\nsecond\n"
    outbox.send(b"third\n")
    assert b"".join(slow.out).endswith(b"third\n")


def test_there_is_no_room_for_ever_and_whoever_waits_says_for_how_long():
    slow = Slow()
    outbox = Outbox(slow, limit=10)
    outbox.send(b"first\n")
    outbox.send(b"second\n")
    with pytest.raises(Full, match=r"has read nothing for 0\.01 s"):
        outbox.send(b"third\n", 0.01)
    slow.gate.set()
    assert outbox.flush(10)


def test_a_slow_peer_that_goes_away_fails_whoever_comes_next():
    slow = Slow()
    slow.problem = BrokenPipeError("gone")
    outbox = Outbox(slow)
    outbox.send(b"first\n")
    slow.gate.set()
    assert outbox.flush(10)
    with pytest.raises(ConnectionClosed, match="gone"):
        outbox.send(b"second\n")


def test_without_a_thread_to_spare_the_caller_waits_itself(monkeypatch):
    def none_left(thread):
        raise RuntimeError("can't start new thread")

    slow = Slow()
    slow.begin = lambda data: 0
    slow.gate.set()
    monkeypatch.setattr(threading.Thread, "start", none_left)
    Outbox(slow).send(b"first\n")
    assert slow.out == [b"first\n"]


# -- signals, on the main thread --------------------------------------------------------------------


def test_a_signal_waits_until_a_message_is_written(terminated):
    written = []

    def write(data):
        signal.raise_signal(signal.SIGTERM)
        written.append(data)

    outbox = Outbox(write)
    with pytest.raises(Terminated):
        outbox.send(b"whole")
    assert written == [b"whole"]
    assert not outbox.is_busy


def test_a_signal_interrupts_the_wait_for_room(terminated):
    """Nothing is half written then, and the peer may not read for long."""
    gate = Gate()
    outbox = Outbox(gate, limit=1)
    writer = beside(outbox.send, b"first")
    gate.wait()
    outbox.send(b"second")

    def interrupt():
        assert eventually(lambda: outbox._room._waiters)
        signal.pthread_kill(signals.main_thread_id, signal.SIGTERM)

    interrupts = beside(interrupt)
    with pytest.raises(Terminated):
        outbox.send(b"third")
    gate.open.set()
    for thread in (writer, interrupts):
        thread.join(PATIENCE)
        assert thread.caught == []
    outbox.send(b"fourth")
    assert b"".join(gate.written) == b"firstsecondfourth"
