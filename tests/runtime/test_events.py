"""Server-sent events, against the rules of the HTML standard, written down here a second time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.runtime.events import COMMENT, MAX_RETRY_MS, READ_BYTES, Event, Events, TooLarge, encode

BOM = b"\xef\xbb\xbf"
MB = 1 << 20


def source(pieces: Iterable[bytes]) -> Callable[[int], bytes]:
    """Each read gives one piece; an empty one would be the end."""
    rest = iter([piece for piece in pieces if piece])
    return lambda size: next(rest, b"")


def parse(*pieces: bytes, limit: int = MB) -> list[Event]:
    return list(Events(source(pieces), limit=limit))


def told(*pieces: bytes, limit: int = MB) -> tuple[list[Event], str | None, int | None, int, bool]:
    """All that a stream has to say: events, last id, retry, signs of life, whether it was too large."""
    alive: list[None] = []
    events = Events(source(pieces), limit=limit, on_alive=lambda: alive.append(None))
    found = []
    try:
        for event in events:
            found.append(event)
    except TooLarge:
        return found, events.last_id, events.retry, len(alive), True
    return found, events.last_id, events.retry, len(alive), False


def each_byte(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


def every_cut(stream: bytes) -> Iterable[list[bytes]]:
    """Whole, in each two pieces, and byte by byte."""
    return chain(
        ([stream[:i], stream[i:]] for i in range(len(stream))),
        [each_byte(stream)],
    )


def message(data: str = "x", id: str | None = None, retry: int | None = None, name: str = "message") -> Event:
    return Event(name, data, id, retry)


# ------------------------------------------------------------------------------- written


def test_an_event_is_a_line_of_data_and_a_blank_line():
    assert encode(b'{"a":1}') == b'data: {"a":1}\n\n'


def test_what_else_an_event_has_stands_before_its_data():
    assert encode(b"{}", id="s-7", name="endpoint", retry=250) == (
        b"id: s-7\nevent: endpoint\nretry: 250\ndata: {}\n\n"
    )
    assert encode(b"{}", name="message") == b"event: message\ndata: {}\n\n"
    assert encode(b"", id="é") == "id: é\ndata: \n\n".encode()  # the event that primes a stream


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_data_of_several_lines_is_several_lines_of_data(end: bytes):
    assert encode(b"a" + end + b"b") == b"data: a\ndata: b\n\n"
    assert parse(encode(b"a" + end + end + b"id: 5" + end)) == [message("a\n\nid: 5\n")]


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "a\n\ndata: {}"])
def test_an_id_that_would_be_more_than_an_id_is_refused(bad: str):
    with pytest.raises(ValueError, match="the id of an event must be one line, without NUL"):
        encode(b"{}", id=bad)


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\n\ndata: {}"])
def test_a_name_that_would_be_more_than_a_name_is_refused(bad: str):
    with pytest.raises(ValueError, match="the name of an event must be one line"):
        encode(b"{}", name=bad)


def test_a_negative_retry_is_refused():
    with pytest.raises(ValueError, match="must be 0 ms or more, not -1"):
        encode(b"{}", retry=-1)
    assert parse(encode(b"x", retry=0)) == [message(retry=0)]


ONE_LINE = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=12)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"])),
            st.none() | ONE_LINE,
            st.none() | ONE_LINE,
            st.none() | st.integers(0, MAX_RETRY_MS),
        ),
        max_size=6,
    ),
    st.integers(1, 40),
)
def test_what_was_encoded_is_read_back(rows, size):
    stream, wanted, last = b"", [], None
    for data, id, name, retry in rows:
        stream += encode(data.encode(), id=id, name=name, retry=retry) + COMMENT
        last = last if id is None else id
        wanted.append(Event(name or "message", data, last, retry))
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert parse(*pieces) == wanted == parse(stream)


# ------------------------------------------------------------------------------- read, by name

FAULTS = {
    "LF": (b"data: a\n\ndata: b\n\n", [message("a"), message("b")]),
    "CR": (b"data: a\r\rdata: b\r\r", [message("a"), message("b")]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [message("a"), message("b")]),
    "LF CRLF": (b"data: a\n\r\ndata: b\n\r\n", [message("a"), message("b")]),
    "CR LF CR": (b"data: a\r\n\rdata: b\r\n\r", [message("a"), message("b")]),
    "LF CR": (b"data: a\n\rdata: b\n\r", [message("a"), message("b")]),
    "CRLF LF": (b"data: a\r\n\ndata: b\r\n\n", [message("a"), message("b")]),
    "all line ends in one block": (b"data: a\rdata: b\r\ndata: c\n\r", [message("a\nb\nc")]),
    "many blank lines": (b"\n\r\n\r\r\ndata: a\n\n\n\n\r\n", [message("a")]),
    "multi-line data": (b"data: {\ndata:  1\ndata: }\n\n", [message("{\n 1\n}")]),
    "multi-line data, empty lines": (b"data\ndata:\ndata: \n\n", [message("\n\n")]),
    "multi-line data, apart": (b"data: a\nid: 1\n: c\nwhat: x\ndata: b\n\n", [message("a\nb", "1")]),
    "no space after the colon": (b"data:a\n\n", [message("a")]),
    "one space of several is dropped": (b"data:  a \ndata:  b \n\n", [message(" a \n b ")]),
    "a tab is no space": (b"data:\ta\ndata:\tb\n\n", [message("\ta\n\tb")]),
    "colons in the data": (b"data: a:b: c\ndata:::\n\n", [message("a:b: c\n::")]),
    "empty data": (b"data:\n\ndata\n\ndata: \n\n", [message("")] * 3),
    "empty data that primes": (b"id: 1-0\ndata: \n\n", [message("", "1-0")]),
    "comments": (b": hi\n\n:\n\n:data: no\ndata: a\n: in between\n\n:\n", [message("a")]),
    "_BYTE_ORDER_MARK": (BOM + b"data: a\n\n", [message("a")]),
    "BOM, then a blank line": (BOM + b"\r\ndata: a\n\n", [message("a")]),
    "BOM twice": (BOM + BOM + b"data: a\n\ndata: b\n\n", [message("b")]),
    "BOM in the middle": (b"data: a\n\n" + BOM + b"data: b\n\ndata: c\n\n", [message("a"), message("c")]),
    "BOM in the data": (b"data: " + BOM + b"\n\n", [message("\ufeff")]),
    "half a BOM": (b"\xef\xbb", []),
    "only a BOM": (BOM, []),
    "what begins like a BOM": (b"\xef\xbb\ndata: a\n\n", [message("a")]),
    "UTF-8": ("data: é€😀\n\n".encode(), [message("é€😀")]),
    "UTF-8 in several lines": ("data: é\ndata: 😀\n\n".encode(), [message("é\n😀")]),
    "invalid UTF-8": (b"data: a\xffb\xe2\x82\ndata: \xc3\n\ndata: c\n\n", [message("a�b�\n�"), message("c")]),
    "invalid UTF-8 in a name": (b"event: \xff\nid: \xfe\ndata: a\n\n", [message("a", "�", name="�")]),
    "other line ends are data": (
        "data: a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n\n".encode(),
        [message("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg")],
    ),
    "NUL in the data": (b"data: a\0b\n\n", [message("a\0b")]),
    "no final blank line": (b"data: a\n\ndata: b\n", [message("a")]),
    "no final line end": (b"data: a\n\nid: 2\ndata: b", [message("a")]),
    "nothing at all": (b"", []),
    "event types": (
        b"event: endpoint\ndata: m\n\ndata: a\n\n",
        [message("m", name="endpoint"), message("a")],
    ),
    "unknown event types": (b"event: $what ever\ndata: a\n\n", [message("a", name="$what ever")]),
    "the last of several event types": (b"event: x\nevent: y\ndata: a\n\n", [message("a", name="y")]),
    "an empty event type": (b"event: x\nevent:\ndata: a\n\n", [message("a")]),
    "an event type without data": (b"event: x\n\ndata: a\n\n", [message("a")]),
    "unknown fields": (b"foo: 1\ndataset: x\nDATA: y\n data: z\nd: 0\ndata : q\ndata: a\n\n", [message("a")]),
    "unknown fields that begin like known": (
        b"idx: 1\neventual: e\nretrying: 5\ndata: a\n\n",
        [message("a")],
    ),
    "the id stays": (
        b"data: a\n\nid: 1\ndata: b\n\ndata: c\n\n",
        [message("a"), message("b", "1"), message("c", "1")],
    ),
    "the id is taken back": (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [message("a", "1"), message("b", "")]),
    "an id with NUL is none": (b"id: 1\nid: 2\0\ndata: a\n\n", [message("a", "1")]),
    "an id without data counts": (b"id: 7\n\ndata: a\n\n", [message("a", "7")]),
    "retry": (b"retry: 250\ndata: a\n\ndata: b\n\n", [message("a", retry=250), message("b")]),
    "the last good retry": (b"retry: 1\nretry:002\nretry: soon\ndata: a\n\n", [message("a", retry=2)]),
    "HTML": (b"<!DOCTYPE html>\n<html>\n\n<p>data: no</p>\n\n</html>\n", []),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_stream_is_read_as_the_standard_says_however_it_is_cut(fault: str):
    stream, wanted = FAULTS[fault]
    assert parse(stream) == wanted
    for pieces in every_cut(stream):
        assert parse(*pieces) == wanted, pieces


@pytest.mark.parametrize("bad", ["soon", "-1", "+1", "1.5", "1e3", " 1", "1 ", "0x10", "٣", "²", "1_0", ""])
def test_a_retry_that_is_not_all_ascii_digits_is_ignored(bad: str):
    assert told(f"retry: {bad}\ndata: x\n\n".encode()) == ([message()], None, None, 0, False)


@pytest.mark.parametrize("digits", [str(MAX_RETRY_MS + 1), "9" * 10, "9" * 11, "9" * 100_000, "0" + "9" * 30])
def test_a_retry_is_a_day_at_the_most(digits: str):
    assert told(f"retry: {digits}\n\n".encode())[2] == MAX_RETRY_MS


def test_leading_zeros_are_zeros():
    assert told(b"retry: " + b"0" * 100_000 + b"12\n\n")[2] == 12


# ------------------------------------------------------------------------------- what is no event


@pytest.mark.spec("basic/transports/streamable-http/sse-ignore-comments")
def test_comments_are_signs_of_life_and_nothing_else():
    stream = COMMENT + COMMENT + b": no blank line\n:\n" + encode(b"x")
    assert told(stream) == ([message()], None, None, 4, False)
    assert parse(COMMENT) == []  # also when nobody asked to be told


def test_a_comment_within_an_event_is_a_sign_of_life_at_once():
    calls: list[str] = []

    def read1(size: int) -> bytes:
        calls.append("read")
        return next(pieces, b"")

    pieces = iter([b"data: a\n", b":\n", b"\n"])
    events = Events(read1, limit=100, on_alive=lambda: calls.append("alive"))
    assert list(events) == [message("a")]
    assert calls == ["read", "read", "alive", "read", "read"]


def test_a_block_without_data_is_a_sign_of_life_and_moves_id_and_retry():
    assert told(b"id: 7\n\n") == ([], "7", None, 1, False)
    assert told(b"retry: 250\n\n") == ([], None, 250, 1, False)
    assert told("event: x\r\nid: é\r\nretry: 5\r\n\r\n".encode()) == ([], "é", 5, 1, False)
    assert told(b"foo: bar\n\n\n\n") == ([], None, None, 1, False)


def test_id_and_retry_are_there_when_the_event_is():
    events = Events(source([b"id: 1\nretry: 5\ndata: a\n\nid: 2\nretry: 6\n\ndata: b\n\n"]), limit=100)
    assert (events.last_id, events.retry) == (None, None)
    assert next(events) == message("a", "1", 5)
    assert (events.last_id, events.retry) == ("1", 5)
    assert next(events) == message("b", "2")
    assert (events.last_id, events.retry) == ("2", 6)
    with pytest.raises(StopIteration):
        next(events)


def test_the_id_of_a_block_that_was_cut_off_is_not_resumed_from():
    assert told(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")[1] == "1"


# ------------------------------------------------------------------------------- as soon as it is there


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r\n", b"\r\n\r", b"\n\r"])
def test_an_event_is_handed_out_at_its_blank_line_with_nothing_read_after_it(end: bytes):
    def read1(size: int) -> bytes:
        assert pieces, "read on, though the event is whole"
        return pieces.pop(0)

    pieces = each_byte(b"data: a" + end)
    events = Events(read1, limit=100)
    assert next(events) == message("a")
    pieces += [b"\n"] * end.endswith(b"\r") + [b"data: b\n\ndata: c\n\n"]
    assert next(events) == message("b")
    assert next(events) == message("c")


def test_slow_drips_from_another_thread_make_an_event():
    reading, writing = os.pipe()
    got = threading.Event()

    def drip() -> None:
        for byte in each_byte(encode(b"a")):
            os.write(writing, byte)
        assert got.wait(10.0)
        os.close(writing)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        events = Events(lambda size: os.read(reading, size), limit=100)
        assert next(events) == message("a")  # while the stream is open
        got.set()
        assert list(events) == []
    finally:
        got.set()
        thread.join(10.0)
        os.close(reading)


def test_reads_are_bounded_and_there_is_none_after_the_end():
    asked = []

    def read1(size: int) -> bytes:
        asked.append(size)
        return b"data: a\n\n" if len(asked) == 1 else b""

    assert list(Events(read1, limit=100)) == [message("a")]
    assert asked == [READ_BYTES, READ_BYTES]


def test_what_the_source_raises_comes_through_and_ends_it():
    def read1(size: int) -> bytes:
        if pieces:
            return pieces.pop()
        raise ConnectionResetError("gone")

    pieces = [b"data: a\n\ndata: b\n"]
    events = Events(read1, limit=100)
    assert next(events) == message("a")
    with pytest.raises(ConnectionResetError, match="gone"):
        next(events)
    assert list(events) == []


def test_what_on_alive_raises_comes_through():
    def stop() -> None:
        raise TimeoutError("no more patience")

    with pytest.raises(TimeoutError, match="no more patience"):
        next(Events(source([COMMENT]), limit=100, on_alive=stop))


# ------------------------------------------------------------------------------- limits


LIMIT = 40
TOO_LARGE = {
    "a line": b"data: " + b"x" * LIMIT + b"\n\n",
    "a line without end": b"data: " + b"x" * 10 * LIMIT,
    "many lines of data": b"data: x\n" * 10 + b"\n",
    "many empty lines of data": b"data\n" * 10 + b"\n",
    "many lines of other fields": b"id: 1\n" * 10 + b"\n",
    "many unknown fields": b"a: 1\n" * 10 + b"\n",
    "a comment": b":" + b"x" * LIMIT + b"\n",
    "a line after a mark": BOM + b"data: " + b"x" * LIMIT,
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_what_is_larger_than_the_limit_is_refused_however_it_is_cut(what: str):
    stream = encode(b"before") + TOO_LARGE[what]
    if what == "a line after a mark":
        stream = TOO_LARGE[what]
    wanted = [message("before")][: stream.count(b"before")]
    for pieces in every_cut(stream):
        found, _, _, _, too_large = told(*pieces, limit=LIMIT)
        assert (found, too_large) == (wanted, True), pieces


def test_the_error_names_the_limit_and_nothing_follows_it():
    events = Events(source([b"data: " + b"x" * 50, b"\n\ndata: a\n\n"]), limit=LIMIT)
    with pytest.raises(TooLarge, match="longer than 40 bytes"):
        next(events)
    assert list(events) == []


def test_the_limit_is_for_an_event_not_for_the_stream():
    line = b"data: " + b"x" * (LIMIT - 6)  # just as large as it may be
    stream = BOM + (line + b"\n\n") * 5 + COMMENT * 50 + b"\n" * 100
    for pieces in ([stream], each_byte(stream)):
        assert parse(*pieces, limit=LIMIT) == [message("x" * (LIMIT - 6))] * 5


def test_comments_without_blank_lines_are_not_kept():
    assert told(b"data: a\n", *[b": still here\n"] * 1000, b"\n", limit=LIMIT)[::3] == ([message("a")], 1000)


def test_the_smallest_pieces_are_not_kept_one_by_one():
    stream = b"data: " + b"x" * 50_000 + b"\ndata" * 10_000 + b"\n\n"
    rest = iter(range(0, len(stream), 2))

    def read1(size: int) -> bytes:
        start = next(rest, None)
        return b"" if start is None else stream[start : start + 2]

    tracemalloc.start()
    try:
        next(Events(read1, limit=MB))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(stream)


def seconds_for(stream: bytes, piece: int) -> float:
    """Of this thread's own time, the best of three."""
    best = float("inf")
    pieces = [stream[i : i + piece] for i in range(0, len(stream), piece)]
    for _ in range(3):
        start = time.thread_time()
        [event] = Events(source(pieces), limit=64 * MB)
        best = min(best, time.thread_time() - start)
        assert len(event.data) > len(stream) / 10
    return best


@pytest.mark.parametrize(
    ("unit", "small"),
    [(b"x", 8 * MB), (b"data: x\n", MB // 16), (b"data\n", MB // 16)],
    ids=["huge events", "many lines", "many empty lines"],
)
def test_time_grows_with_the_size_and_not_with_its_square(unit: bytes, small: int):
    """Four times the bytes: about four times as long, where the square would be sixteen, and many seconds."""
    head, tail = (b"data: ", b"\n\n") if unit == b"x" else (b"", b"\n")
    small_time = seconds_for(head + unit * small + tail, 1400)
    assert seconds_for(head + unit * 4 * small + tail, 1400) < 10 * small_time + 0.5


# ------------------------------------------------------------------------------- against the rules


def by_the_rules(stream: bytes) -> tuple[list[Event], str | None, int | None, int, bool]:
    """The standard's own algorithm, for a stream that is there as a whole."""
    *lines, _unfinished = re.split("\r\n|\r|\n", stream.decode(errors="replace").removeprefix("\ufeff"))
    found: list[Event] = []
    last_id = retry = None
    alive = 0
    data, name, id, own, seen = [], "", None, None, False
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            last_id = last_id if id is None else id
            if data:
                found.append(Event(name or "message", "\n".join(data), last_id, own))
            alive += seen and not data
            data, name, id, own, seen = [], "", None, None, False
            continue
        alive += not field
        seen = seen or bool(field)
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "id" and "\0" not in value:
            id = value
        elif field == "retry" and re.fullmatch("[0-9]+", value):
            retry = own = min(int(value), MAX_RETRY_MS)
    return found, last_id, retry, alive, False


WORDS = [
    *(b"data", b"data: ", b"data:", b"event: ", b"id: ", b"id", b"retry: ", b"retry:", b": ", b":", b" "),
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"7", b"00250", b"x", b"{}", b"message", b"\0", b"\t"),
    *("é".encode(), "😀".encode(), "\u2028".encode()),
    *(b"\x85", b"\x0b", b"\xff", b"\xe2\x82", BOM, b"\xef\xbb"),
]
STREAMS = st.lists(st.sampled_from(WORDS) | st.binary(max_size=3), max_size=40).map(b"".join)
CUTS = st.lists(st.integers(0, 120), max_size=12)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(p for p in places if p < len(stream))})
    return [stream[a:b] for a, b in pairwise(edges)]


@settings(deadline=None, max_examples=400)
@given(STREAMS, CUTS)
def test_any_stream_cut_anywhere_says_what_the_rules_say(stream: bytes, places: list[int]):
    wanted = by_the_rules(stream)
    assert told(stream) == wanted
    assert told(*cut(stream, places)) == wanted
    assert told(*each_byte(stream)) == wanted


@settings(deadline=None)
@given(STREAMS, CUTS, st.integers(0, 60))
def test_a_limit_is_the_same_for_any_cut(stream: bytes, places: list[int], limit: int):
    wanted = told(stream, limit=limit)
    assert told(*cut(stream, places), limit=limit) == wanted
    assert told(*each_byte(stream), limit=limit) == wanted


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=20), st.integers(0, 300))
def test_arbitrary_bytes_are_too_large_at_worst(pieces: list[bytes], limit: int):
    told(*pieces, limit=limit)


# ------------------------------------------------------------------------------- the module


def test_the_parser_of_fields_is_loaded_when_there_is_something_to_read():
    program = "import sys, mcp_ref.runtime.events; sys.exit('sseclient' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
