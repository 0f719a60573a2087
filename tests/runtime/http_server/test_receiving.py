"""runtime/http_server/receiving: heads and bodies as they arrive, in whatever pieces, and not for ever."""

import contextlib
import io
import socket
import threading

import pytest
from http_peers import chunks
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import PATIENCE, nothing_left

from mcp_ref.runtime.http_server.receiving import MAX_DRAINED_BYTES, Limits, RequestReceiver
from mcp_ref.runtime.http_server.request import CHUNKED, BadRequest, RequestHead

HEAD = b"GET / HTTP/1.1\r\nHost: a"
END = b"\r\n\r\n"
QUICK = 0.05
"""Seconds, where the end of the patience is what is tested."""


@contextlib.contextmanager
def arriving(*pieces, end=True, **options):
    """An receiver, and the socket of its client, who has sent the first piece and sends the others."""
    options = {
        "idle": PATIENCE,
        "patience": PATIENCE,
        "max_header_bytes": 65536,
        "max_body_bytes": 1 << 20,
        **options,
    }
    ours, theirs = socket.socketpair()
    with nothing_left(), ours, theirs:
        receiver = RequestReceiver(ours, Limits(**options))
        theirs.sendall(pieces[0] if pieces else b"")
        asked = threading.Semaphore(0)
        receiver._connection = _Asking(ours, asked)

        def send():
            for piece in pieces[1:]:
                if not asked.acquire(timeout=PATIENCE):
                    return
                theirs.sendall(piece)
            if end:
                theirs.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield receiver, theirs
        finally:
            for _ in pieces:
                asked.release()
            sender.join(PATIENCE)


class _Asking:
    """A socket that says when it is read from again, so that pieces do not arrive as one."""

    def __init__(self, connection, asked):
        self.connection, self.asked, self.first = connection, asked, True
        self.sendall = connection.sendall

    def _ask(self):
        if not self.first:
            self.asked.release()
        self.first = False

    def recv(self, size):
        self._ask()
        return self.connection.recv(size)

    def recv_into(self, view):
        self._ask()
        return self.connection.recv_into(view)


def said(length, expects=False):
    return RequestHead({}, length, False, False, expects)


def refused(status, run, *args):
    with pytest.raises(BadRequest) as caught:
        run(*args)
    assert caught.value.status.startswith(str(status)), caught.value


# -- heads -----------------------------------------------------------------------------------------


def test_a_head_that_comes_at_once():
    with arriving(HEAD + END + b"more") as (receiver, _):
        assert receiver.read_head() == HEAD
        assert receiver.buffered == b"more"


def test_one_head_after_another_and_the_end():
    with arriving(HEAD + END + b"GET /2 HTTP/1.1" + END) as (receiver, _):
        assert [receiver.read_head(), receiver.read_head(), receiver.read_head()] == [
            HEAD,
            b"GET /2 HTTP/1.1",
            None,
        ]


@pytest.mark.parametrize("size", [1, 7, len(HEAD) + 1, len(HEAD) + 2, len(HEAD) + 3])
def test_a_head_that_comes_in_pieces(size):
    text = HEAD + END + b"abc"
    with arriving(*(text[i : i + size] for i in range(0, len(text), size))) as (receiver, _):
        assert receiver.read_head() == HEAD
        assert receiver.read_exactly(3) == b"abc"


def test_an_empty_line_before_a_request_is_no_part_of_it():
    with arriving(b"\r\n" + HEAD + END) as (receiver, _):
        assert receiver.read_head() == HEAD
    with arriving(b"\r\n", HEAD + END) as (receiver, _):
        assert receiver.read_head() == HEAD


def test_a_client_that_leaves_between_requests_asked_for_nothing():
    with arriving() as (receiver, _):
        assert receiver.read_head() is None


def test_a_client_that_leaves_within_a_head_is_gone():
    with arriving(HEAD) as (receiver, _), pytest.raises(ConnectionAbortedError):
        receiver.read_head()
    assert receiver.failed


def test_a_connection_may_be_idle_for_so_long():
    with arriving(end=False, idle=QUICK) as (receiver, _):
        assert receiver.read_head() is None
    with arriving(end=False, idle=2.5 * QUICK, patience=QUICK) as (receiver, _):
        assert receiver.read_head() is None


def test_a_head_that_does_not_come_to_an_end_is_given_up():
    with arriving(HEAD, end=False, patience=QUICK) as (receiver, _):
        refused(408, receiver.read_head)
    assert receiver.failed


def test_a_head_that_drips_is_given_up_all_the_same():
    stop = threading.Event()
    with arriving(b"G", end=False, patience=4 * QUICK) as (receiver, theirs):

        def drip():
            while not stop.wait(QUICK):
                theirs.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        refused(408, receiver.read_head)
        stop.set()
        thread.join(PATIENCE)


def test_patience_also_ends_where_it_is_longer_than_idleness():
    with arriving(HEAD, end=False, idle=QUICK, patience=2.5 * QUICK) as (receiver, _):
        refused(408, receiver.read_head)


def test_a_request_line_without_an_end_is_refused_before_it_is_all_there():
    with arriving(*[b"GET /" + b"a" * 4090] * 3, end=False) as (receiver, _):
        refused(414, receiver.read_head)


def test_a_head_that_is_too_large_is_refused_before_it_is_all_there():
    with arriving(HEAD, *[b"\r\nX: " + b"a" * 4000] * 3, end=False, max_header_bytes=8000) as (receiver, _):
        refused(431, receiver.read_head)


def test_a_head_that_comes_at_once_and_is_too_large_is_refused():
    with arriving(HEAD + b"x" * 200 + END, max_header_bytes=200) as (receiver, _):
        refused(431, receiver.read_head)


def test_a_header_of_64_kib_is_taken_where_heads_may_be_that_large():
    head = HEAD + b"\r\nX: " + b"a" * 65536
    with arriving(head, END, max_header_bytes=70000) as (receiver, _):
        assert receiver.read_head() == head
    with arriving(head, END) as (receiver, _):
        refused(431, receiver.read_head)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"\x00\x00",
        b"\xff\xfe",
        b" GET / HTTP/1.1\r\n",
        b"\n\n",
        b'{"jsonrpc": "2.0"}\n',
    ],
    ids=["TLS ClientHello", "LF alone", "NUL", "high bytes", "a space", "empty lines", "JSON"],
)
def test_what_cannot_become_a_head_is_refused_at_once(garbage):
    with arriving(garbage, end=False) as (receiver, _):
        refused(400, receiver.read_head)


def test_a_line_end_without_cr_that_comes_late_is_seen():
    with arriving(b"GET / HTTP/1.1\r", b"\nHost: a", b"\n", end=False) as (receiver, _):
        refused(400, receiver.read_head)


# -- bodies with a length --------------------------------------------------------------------------


def body_of(receiver, head):
    receiver.begin_body(head)
    return receiver.open_body(head)


def test_a_small_body_is_read_as_it_is():
    with arriving(b"ab", b"cdef") as (receiver, _):
        assert receiver.read_exactly(3) == b"abc"
        assert receiver.read_exactly(3) == b"def"


def test_a_body_that_ends_too_soon_is_none():
    with arriving(b"ab") as (receiver, _), pytest.raises(ConnectionAbortedError):
        receiver.read_exactly(3)
    with arriving(b"ab") as (receiver, _), pytest.raises(ConnectionAbortedError):
        body_of(receiver, said(3)).readall()


def test_a_body_that_does_not_come_is_given_up():
    with arriving(b"ab", end=False, patience=QUICK) as (receiver, _):
        receiver.begin_body(said(3))
        refused(408, receiver.read_exactly, 3)


def test_a_body_ends_where_its_length_says():
    for read in (lambda b: b.readall(), lambda b: b.read(100), lambda b: io.BufferedReader(b).read()):
        with arriving(b"abc" + HEAD + END) as (receiver, _):
            receiver.buffered = receiver.read_exactly(1)
            body = body_of(receiver, said(3))
            assert body.read(1) == b"a"
            assert read(body) == b"bc"
            assert body.read(1) == body.readall() == b""
            assert body.left == 0
            assert receiver.read_head() == HEAD


def test_a_body_can_be_read_line_by_line():
    with arriving(b"one\ntw", b"o\nthree") as (receiver, _):
        assert list(io.BufferedReader(body_of(receiver, said(13)))) == [b"one\n", b"two\n", b"three"]


def test_a_large_body_is_read_into_the_place_that_is_there_for_it():
    text = bytes(range(256)) * 2000
    with arriving(text[:1000], text[1000:]) as (receiver, _):
        receiver.buffered = receiver.read_exactly(10)
        assert io.BufferedReader(body_of(receiver, said(len(text)))).read(len(text)) == text


def test_a_body_may_take_longer_the_more_of_it_has_come():
    with arriving(end=False, patience=QUICK) as (receiver, _):
        receiver.begin_body(said(10))
        receiver._waited = 1.0
        receiver.extend_time(2 << 16)
        assert receiver._bonus == 2.0
        with pytest.raises(BadRequest):  # silence is another matter
            receiver.read_some(1)


def test_nobody_is_invited_to_send_what_is_not_read():
    with arriving(end=False) as (receiver, theirs):
        body_of(receiver, said(3, expects=True))
        assert receiver.owes_continue
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_a_client_that_waits_for_it_is_invited_when_its_body_is_read():
    with arriving(b"", b"abc", end=False) as (receiver, theirs):
        receiver._connection.first = False
        assert body_of(receiver, said(3, expects=True)).readall() == b"abc"
        assert theirs.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_client_that_did_not_wait_is_not_invited():
    with arriving(b"abc") as (receiver, theirs):
        receiver.buffered = receiver.read_exactly(1)
        assert body_of(receiver, said(3, expects=True)).readall() == b"abc"
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


@pytest.mark.parametrize(
    ("length", "rest"),
    [(3, False), (MAX_DRAINED_BYTES, False), (MAX_DRAINED_BYTES + 1, True), (CHUNKED, True)],
)
def test_a_rest_that_is_short_and_of_known_length_may_be_dropped_later(length, rest):
    with arriving() as (receiver, _):
        assert body_of(receiver, said(length)).leaves_rest() is rest


def test_a_body_that_was_read_leaves_nothing():
    with arriving(b"abc3\r\nabc\r\n0\r\n\r\n") as (receiver, _):
        for length in (3, CHUNKED):
            body = body_of(receiver, said(length))
            assert body.readall() == b"abc"
            assert not body.leaves_rest()


def test_a_body_that_was_not_invited_or_did_not_come_stays_unread():
    """And once that is said to the client, it is not invited any more."""
    with arriving() as (receiver, _):
        assert body_of(receiver, said(3, expects=True)).leaves_rest()
        assert not receiver.owes_continue
        body = body_of(receiver, said(3))
        with pytest.raises(ConnectionAbortedError):
            body.readall()
        assert body.leaves_rest()


# -- chunks ----------------------------------------------------------------------------------------


def chunked(receiver):
    return body_of(receiver, said(CHUNKED))


def test_chunks_are_one_body_and_what_follows_is_the_next_request():
    with arriving(chunks(b"abc", b"d" * 20) + HEAD + END) as (receiver, _):
        body = chunked(receiver)
        assert body.left == CHUNKED
        assert body.readall() == b"abc" + b"d" * 20
        assert body.left == 0
        assert body.readall() == body.read(5) == b""
        assert receiver.read_head() == HEAD


@pytest.mark.parametrize(
    ("trailers", "status"),
    [
        (b"no colon\r\n", 400),
        (b": no name\r\n", 400),
        (b"a b: c\r\n", 400),
        (b"A : b\r\n", 400),
        (b"A: b\r\n folded\r\n", 400),
        (b"A: b\0c\r\n", 400),
        (b"A: b\rc\r\n", 400),
        (b"A: b\n", 400),
        (b"\xe9: b\r\n", 400),
        (b"A: b\r\n" * 101, 431),
        (b"A: " + b"b" * 8190 + b"\r\n", 431),
        (b"A: " + b"b" * 100_000, 431),
        (b"".join(b"A%d: %b\r\n" % (n, b"x" * 100) for n in range(90)), 431),
    ],
    ids=lambda value: ascii(value)[:14],
)
def test_trailers_are_checked_as_headers_are(trailers, status):
    with arriving(b"3\r\nabc\r\n0\r\n" + trailers + b"\r\n") as (receiver, _):
        refused(status, receiver.open_body(said(CHUNKED)).read)


def test_as_many_trailers_as_there_may_be():
    trailers = b"A: b\r\n" * 99 + b"B: " + b"b" * (8192 - 99 * 6 - 2 - 5) + b"\r\n"
    with arriving(b"3\r\nabc\r\n0\r\n" + trailers + b"\r\nnext") as (receiver, _):
        assert receiver.open_body(said(CHUNKED)).read() == b"abc"
        assert receiver.buffered == b"next"


def test_chunks_with_extensions_and_trailers_are_read_without_them():
    text = b'3;a=b\r\nabc\r\n1 ; x="y"\r\nd\r\n000\r\nX: y\r\nContent-Length: 7\r\n\r\n'
    with arriving(text + HEAD + END) as (receiver, _):
        assert chunked(receiver).readall() == b"abcd"
        assert receiver.read_head() == HEAD


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.integers(1, 30), st.integers(1, 50))
@settings(deadline=None, max_examples=30)
def test_chunks_may_be_cut_and_read_anywhere(pieces, size, step):
    text = chunks(*pieces) + b"next"
    with arriving(*(text[i : i + size] for i in range(0, len(text), size))) as (receiver, _):
        receiver.buffered = receiver.read_exactly(1)
        body = chunked(receiver)
        assert b"".join(iter(lambda: body.read(step), b"")) == b"".join(pieces)
        assert receiver.read_exactly(4) == b"next"


@pytest.mark.parametrize(
    "text",
    [
        b"\r\n",
        b"x\r\nabc\r\n",
        b"-3\r\nabc\r\n",
        b"+3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b"3_0\r\nabc\r\n",
        b" 3\r\nabc\r\n",
        b"3 \r\nabc\r\n",
        b"\xb2\r\nabc\r\n",
        b"3\nabc\n0\n\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\r\nabc0\r\n\r\n",
        b"3\r\nabc\r\n\r\n",
        b"3;a\rb\r\nabc\r\n0\r\n\r\n",
        b"3;a\0b\r\nabc\r\n0\r\n\r\n",
        b"3\rabc\r\n",
        b"1" * 16 + b"\r\n",
        b"3;" + b"x" * 2000 + b"\r\nabc\r\n",
        b"3;" + b"x" * 2000,
        b"0\r\nX: y\n\r\n",
    ],
)
def test_chunks_that_are_not_to_the_letter_are_refused(text):
    with arriving(text) as (receiver, _):
        refused(400, chunked(receiver).readall)


@pytest.mark.parametrize(
    "text", [b"3\r\nabcd\r\n0\r\n\r\n", b"3\r\nabc0\r\n\r\n", b"3\r\nabc\r\r\n0\r\n\r\n"]
)
def test_a_chunk_that_is_longer_than_it_says_is_told_as_that(text):
    with (
        arriving(text) as (receiver, _),
        pytest.raises(BadRequest, match="a chunk that is longer than it says"),
    ):
        chunked(receiver).readall()


@pytest.mark.parametrize(
    "text", [b"3;" + b"x" * 2000 + b"\r\nabc\r\n", b"3\nabc\r\n0\r\n\r\n", b"0\r\nX: y\n\r\n"]
)
def test_a_line_between_chunks_that_is_wrong_is_told_as_that(text):
    with arriving(text) as (receiver, _), pytest.raises(BadRequest, match="a line of a chunked body"):
        chunked(receiver).readall()


def test_chunks_that_end_too_soon_are_no_body():
    for text in (
        b"3",
        b"3\r\n",
        b"3\r\nab",
        b"3\r\nabc",
        b"3\r\nabc\r\n",
        b"3\r\nabc\r\n0\r\n",
        b"0\r\nX: y\r\n",
    ):
        with arriving(text) as (receiver, _), pytest.raises(ConnectionAbortedError):
            chunked(receiver).readall()


def test_chunks_that_do_not_come_are_given_up():
    with arriving(b"3\r\nab", end=False, patience=QUICK) as (receiver, _):
        refused(408, chunked(receiver).readall)


def test_chunks_may_be_so_much_together():
    with arriving(chunks(b"x" * 60, b"y" * 40), max_body_bytes=100) as (receiver, _):
        assert len(chunked(receiver).readall()) == 100
    with arriving(chunks(b"x" * 60, b"y" * 41), max_body_bytes=100) as (receiver, _):
        refused(413, chunked(receiver).readall)
    with arriving(b"fffffffffffffff\r\n", max_body_bytes=100) as (receiver, _):
        refused(413, chunked(receiver).readall)


def test_the_line_that_says_how_long_a_chunk_is_may_be_1024_bytes_long():
    for more, is_taken in ((0, True), (1, False)):
        line = b"3;" + b"x" * (1024 - 4 + more) + b"\r\n"
        with arriving(line + b"abc\r\n0\r\n\r\n") as (receiver, _):
            if is_taken:
                assert chunked(receiver).readall() == b"abc"
            else:
                refused(400, chunked(receiver).readall)
