"""runtime/http_server/response: what goes out, in how many writes, and what an application may not
do.
"""

import contextlib
import re
import socket
import threading
from types import SimpleNamespace

import pytest
from peers import PATIENCE, nothing_left

from mcp_ref.runtime.http_server import response as module
from mcp_ref.runtime.http_server.receiving import set_kernel_timeout
from mcp_ref.runtime.http_server.response import Response, short_response

DATE = re.compile(rb"Date: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z][a-z] \d{4} \d\d:\d\d:\d\d GMT\r\n")


OPEN = SimpleNamespace(is_closing=False)
"""A server that goes on."""


class Line:
    """A connection that notes each write."""

    def __init__(self):
        self.writes = []

    def sendall(self, data):
        self.writes.append(bytes(data))


def run(response, app):
    """What a connection does with an application."""
    response.send(app({}, response.start))


def respond(app, *, is_http_1_0=False, is_head=False, closes=False):
    """The response, and its writes without the date."""
    line = Line()
    response = Response(line, OPEN, is_http_1_0=is_http_1_0, is_head=is_head, wants_close=closes)
    response.writes = line.writes
    try:
        run(response, app)
    finally:
        response.writes = [DATE.sub(b"", data) for data in line.writes]
    return response


def failed(app, problem, match, **options):
    """The writes of a response that failed."""
    line = Line()
    response = Response(line, OPEN, is_http_1_0=False, is_head=False, wants_close=False, **options)
    with pytest.raises(problem, match=match):
        run(response, app)
    assert not response.is_complete
    assert not response.is_broken
    assert response.has_begun == bool(line.writes)
    return [DATE.sub(b"", data) for data in line.writes]


def giving(pieces, *headers, status="200 OK"):
    def app(environ, start_response):
        start_response(status, list(headers))
        return pieces

    return app


# -- how many writes -------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[b"abc"], (b"a", b"", b"bc")])
def test_a_list_is_one_write_with_its_length(pieces):
    response = respond(giving(pieces, ("A", "b")))
    assert response.writes == [b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\nabc"]
    assert response.has_begun and response.is_complete and not response.closes and not response.is_broken


def test_an_empty_list_has_the_length_0():
    assert respond(giving([])).writes == [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]


def test_a_length_that_the_application_gives_stays_as_it_is():
    response = respond(giving([b"abc"], ("content-length", "3")))
    assert response.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"]
    response = respond(giving(iter([b"ab", b"c"]), ("content-length", "3")))
    assert response.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", b"c"]


def test_without_a_length_each_piece_is_a_chunk_and_the_head_goes_with_the_first():
    response = respond(giving(iter([b"abc", b"d" * 17])))
    assert response.writes == [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"11\r\n" + b"d" * 17 + b"\r\n",
        b"0\r\n\r\n",
    ]


def test_an_empty_piece_sends_the_head_at_once_and_is_no_chunk():
    response = respond(giving(iter([b"", b"a", b"", b"b"])))
    head, *chunks = response.writes
    assert head == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert chunks == [b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"]


def test_an_iterable_without_a_piece_is_an_empty_response():
    assert respond(giving(iter([]))).writes == [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]


def test_a_generator_may_call_start_response_when_it_is_first_asked():
    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"a"

    assert len(respond(app).writes) == 2


def test_what_is_written_goes_out_before_the_application_returns():
    seen = []

    def app(environ, start_response):
        write = start_response("200 OK", [])
        write(b"one")
        seen.extend(line.writes)
        write(b"")
        return [b"tw", b"o"]

    line = Line()
    run(Response(line, OPEN, is_http_1_0=False, is_head=False, wants_close=False), app)
    assert seen == line.writes[:1]
    assert seen[0].endswith(b"\r\n\r\n3\r\none\r\n")
    assert line.writes[1:] == [b"3\r\ntwo\r\n0\r\n\r\n"]


def test_the_end_after_what_was_written_is_only_the_end():
    def app(environ, start_response):
        start_response("200 OK", [])(b"one")
        return []

    assert respond(app).writes[1:] == [b"0\r\n\r\n"]

    def counted(environ, start_response):
        start_response("200 OK", [("Content-Length", "3")])(b"one")
        return []

    assert respond(counted).writes == [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"]


def test_a_list_after_what_was_written_with_a_length_completes_it():
    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "6")])(b"one")
        return [b"two"]

    assert respond(app).writes[1:] == [b"two"]


def test_a_long_piece_is_not_copied():
    long = b"x" * 100_000
    assert respond(giving([long])).writes[1] is not None
    assert [len(w) for w in respond(giving([long])).writes[1:]] == [100_000]
    head, piece, end, last = respond(giving(iter([long]))).writes
    assert head.endswith(b"\r\n\r\n186a0\r\n")
    assert (piece, end, last) == (long, b"\r\n", b"0\r\n\r\n")


# -- who gets no body, or no chunks ----------------------------------------------------------------


def test_a_head_has_no_body():
    expected = [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"]
    assert respond(giving([b"abc"]), is_head=True).writes == expected
    assert respond(giving([b""], ("Content-Length", "3")), is_head=True).writes == expected


def test_a_head_of_a_stream_ends_it_after_the_first_piece():
    closed = []

    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            while True:
                yield b"more"
        finally:
            closed.append(True)

    response = respond(app, is_head=True)
    assert response.writes == [b"HTTP/1.1 200 OK\r\n\r\n"]
    assert response.is_complete
    assert closed == [True]


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_some_answers_have_no_body_and_no_length(status):
    for pieces in ([], [b"abc"], iter([b"abc"])):
        response = respond(giving(pieces, status=status))
        assert response.writes == [f"HTTP/1.1 {status}\r\n\r\n".encode()]
        assert response.is_complete


def test_http_1_0_gets_no_chunks():
    response = respond(giving(iter([b"abc", b"def"])), is_http_1_0=True, closes=True)
    assert response.writes == [b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabc", b"def"]
    assert response.closes
    response = respond(giving([b"abc"]), is_http_1_0=True, closes=True)
    assert response.writes == [b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"]


# -- headers that are the connection's -------------------------------------------------------------


def test_an_answer_has_a_date_unless_it_brings_one():
    line = Line()
    run(Response(line, OPEN, is_http_1_0=False, is_head=False, wants_close=False), giving([]))
    assert DATE.search(line.writes[0])
    assert respond(giving([], ("date", "now"))).writes == [
        b"HTTP/1.1 200 OK\r\ndate: now\r\nContent-Length: 0\r\n\r\n"
    ]


def test_the_date_is_written_as_http_wants_it_and_once_a_second():
    assert module._http_date(784111777) == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert module._http_date(784111777) is module._http_date(784111777)


def test_the_application_may_end_the_connection_and_not_keep_it():
    response = respond(giving([], ("Connection", "Close")))
    assert response.closes
    assert b"\r\nConnection: close\r\n" in response.writes[0]
    response = respond(giving([], ("Connection", "keep-alive")), closes=True)
    assert response.closes
    assert response.writes[0].count(b"Connection") == 1


@pytest.mark.parametrize("why", ["the server is closing", "a body is not read to its end"])
def test_whether_the_connection_ends_is_asked_when_the_head_is_sent(why):
    server, asked = SimpleNamespace(is_closing=False), []

    class Body:
        def leaves_rest(self):
            asked.append(1)
            return why != "the server is closing"

    def app(environ, start_response):
        start_response("200 OK", [])
        server.is_closing = why == "the server is closing"
        assert not asked
        yield b""
        assert response.closes

    response = Response(Line(), server, is_http_1_0=False, is_head=False, wants_close=False, body=Body())
    run(response, app)
    assert asked == ([] if server.is_closing else [1])


# -- what an application may not do ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("app", "problem", "match"),
    [
        (giving([b"a"], ("A", "b\r\nC: d")), ValueError, "control character"),
        (giving([b"a"], ("A\n", "b")), ValueError, "control character"),
        (giving([b"a"], ("A", "b\0")), ValueError, "control character"),
        (giving([b"a"], status="200 OK\r\nA: b"), ValueError, "control character"),
        (giving([b"a"], ("A", "\u20ac")), ValueError, "latin-1"),
        (giving([b"a"], status="OK"), ValueError, "not a status"),
        (giving([b"a"], status="2000"), ValueError, "not a status"),
        (giving([b"a"], status="100 Continue"), ValueError, "not a status"),
        (giving([b"a"], status=""), AssertionError, "start_response"),
        (lambda environ, start: [b"a"], AssertionError, "start_response"),
        (giving([b"a"], ("Transfer-Encoding", "chunked")), ValueError, "set by the server"),
        (giving([b"a"], ("Content-Length", "-1")), ValueError, "Content-Length"),
        (giving([b"a"], ("Content-Length", "\xb2")), ValueError, "Content-Length"),
        (giving([b"ab"], ("Content-Length", "1")), ValueError, "longer"),
        (giving([b"ab"], ("Content-Length", "3")), ValueError, "shorter"),
        (giving(iter([b"ab"]), ("Content-Length", "1")), ValueError, "longer"),
        (giving(["text"]), TypeError, "bytes-like"),
        (giving(iter(["text"])), TypeError, "not str"),
    ],
)
def test_what_is_wrong_before_the_head_is_sent_sends_nothing(app, problem, match):
    assert failed(app, problem, match) == []


def test_a_body_that_becomes_longer_or_shorter_than_said_is_noticed():
    assert len(failed(giving(iter([b"a", b"bc"]), ("Content-Length", "2")), ValueError, "longer")) == 1
    assert len(failed(giving(iter([b"a"]), ("Content-Length", "2")), ValueError, "shorter")) == 1


def test_start_response_is_called_once():
    def app(environ, start_response):
        start_response("200 OK", [])
        start_response("200 OK", [])
        return []

    assert failed(app, AssertionError, "twice") == []


def failing(*, late):
    def app(environ, start_response):
        start_response("200 OK", [])
        if late:
            yield b"a"
        try:
            raise KeyError("why")
        except KeyError as problem:
            start_response("500 Oh", [], (KeyError, problem, problem.__traceback__))
        yield b"sorry"

    return app


def test_with_exc_info_start_response_may_be_called_again_while_nothing_is_sent():
    assert respond(failing(late=False)).writes[0].startswith(b"HTTP/1.1 500 Oh\r\n")


def test_with_exc_info_start_response_raises_it_when_the_head_is_sent():
    assert len(failed(failing(late=True), KeyError, "why")) == 1


def test_exc_info_of_nothing_is_none():
    def app(environ, start_response):
        start_response("200 OK", [], (None, None, None))
        return []

    def twice(environ, start_response):
        start_response("200 OK", [])
        start_response("200 OK", [], (None, None, None))
        return []

    assert respond(app).is_complete
    failed(twice, AssertionError, "twice")


# -- close -----------------------------------------------------------------------------------------


class Pieces:
    def __init__(self, *pieces, problem=None):
        self.pieces, self.problem, self.closed = iter(pieces), problem, 0

    def __iter__(self):
        return self

    def __next__(self):
        for piece in self.pieces:
            return piece
        if self.problem:
            raise self.problem
        raise StopIteration

    def close(self):
        self.closed += 1


def test_close_is_called_once_however_it_ends():
    good, empty, bad, wrong = Pieces(b"a"), Pieces(), Pieces(b"a", problem=KeyError("why")), Pieces("text")
    for pieces in (good, empty):
        respond(giving(pieces))
    failed(giving(bad), KeyError, "why")
    failed(giving(wrong), TypeError, "not str")
    broken = Pieces(b"a", b"b")
    with pytest.raises(BrokenPipeError):
        respond_on(Broken(), giving(broken))
    assert [p.closed for p in (good, empty, bad, wrong, broken)] == [1] * 5


class Broken:
    def sendall(self, data):
        raise BrokenPipeError


def respond_on(connection, app):
    response = Response(connection, OPEN, is_http_1_0=False, is_head=False, wants_close=False)
    try:
        run(response, app)
    finally:
        respond_on.is_broken = response.is_broken
    return response


# -- clients that do not read ----------------------------------------------------------------------


def test_a_connection_that_fails_is_known_from_an_application_that_fails():
    with pytest.raises(BrokenPipeError):
        respond_on(Broken(), giving([b"a"]))
    assert respond_on.is_broken

    def app(environ, start_response):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        respond_on(Line(), app)
    assert not respond_on.is_broken


@contextlib.contextmanager
def connected():
    ours, theirs = socket.socketpair()
    with nothing_left(), ours, theirs:
        yield ours, theirs


def test_a_client_that_does_not_read_is_given_up():
    with connected() as (ours, _):
        set_kernel_timeout(ours, socket.SO_SNDTIMEO, 0.05)
        with pytest.raises(ConnectionAbortedError, match="read nothing"):
            respond_on(ours, giving(iter([b"x" * 100_000] * 1000)))
    assert respond_on.is_broken


def test_a_client_that_reads_slowly_gets_all_of_it():
    with connected() as (ours, theirs):
        set_kernel_timeout(ours, socket.SO_SNDTIMEO, PATIENCE)
        got = []

        def read():
            while data := theirs.recv(5000):
                got.append(data)

        thread = threading.Thread(target=read)
        thread.start()
        respond_on(ours, giving([b"x" * 2_000_000]))
        ours.shutdown(socket.SHUT_WR)
        thread.join(PATIENCE)
    assert b"".join(got).partition(b"\r\n\r\n")[2] == b"x" * 2_000_000


# -- short answers ---------------------------------------------------------------------------------


def test_a_short_response_says_why_and_ends_the_connection():
    assert DATE.sub(b"", short_response("400 Bad Request", "wh\xe4t", "Retry-After: 1")) == (
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 8\r\n"
        b"Connection: close\r\nRetry-After: 1\r\n\r\nwh\\xe4t\n"
    )


# -- an end before the application has returned ------------------------------------------------------


class Shut(Line):
    """A connection that notes when our side is shut."""

    def shutdown(self, how):
        assert how == socket.SHUT_WR
        self.writes.append("shut")


def early(*pieces, headers=(), **options):
    """A response of which so much was written, and which was ended then."""
    line = Shut()
    given = {"is_http_1_0": False, "is_head": False, "wants_close": False, **options}
    response = Response(line, OPEN, **given)
    write = response.start("200 OK", list(headers))
    for piece in pieces:
        write(piece)
    response.end_early()
    return response, [DATE.sub(b"", data) if isinstance(data, bytes) else data for data in line.writes]


def test_a_response_that_is_ended_early_has_the_end_of_its_body_and_of_its_connection():
    response, writes = early(b"abc")
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert writes == [head + b"3\r\nabc\r\n", b"0\r\n\r\n", "shut"]
    assert response.is_complete and response.closes


def test_a_response_that_has_not_begun_is_ended_early_with_its_head():
    response, writes = early()
    assert writes == [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "shut"]
    assert response.is_complete


def test_a_body_that_is_all_there_needs_no_other_end():
    response, writes = early(b"abc", headers=[("Content-Length", "3")])
    assert writes == [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "shut"]
    assert response.is_complete


def test_a_body_that_is_shorter_than_it_says_is_not_ended_early():
    with pytest.raises(ValueError, match="shorter than the Content-Length"):
        early(b"abc", headers=[("Content-Length", "4")])


def test_after_an_early_end_nothing_of_what_is_returned_is_sent_and_it_is_closed():
    class Body(list):
        is_closed = False

        def close(self):
            self.is_closed = True

    response, _ = early(b"abc")
    body = Body([b"late"])
    response.send(body)
    assert body.is_closed
    assert response._connection.writes[-1] == "shut"


def test_an_early_end_of_http_1_0_is_that_of_the_connection():
    _, writes = early(b"abc", is_http_1_0=True, wants_close=True)
    assert writes == [b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabc", "shut"]
