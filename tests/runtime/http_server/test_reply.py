"""runtime/http_server/reply: the head and the pieces of a response on any WSGI server, and who has left."""

import select
import socket
import ssl
import threading

import pytest
from peers import PATIENCE, eventually, nothing_left

from mcp_ref.runtime.errors import WriteRefused
from mcp_ref.runtime.http_server import reply as module
from mcp_ref.runtime.http_server.reply import ClientLeft, HttpReply, has_left, reason


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


class Wsgi:
    """A WSGI server with one request."""

    def __init__(self, **environ):
        self.environ = {"REQUEST_METHOD": "POST", **environ}
        self.heads, self.pieces = [], []
        self.reply = HttpReply(self.environ, self.start)

    def start(self, status, headers, exc_info=None):
        self.heads.append((status, headers, exc_info))
        return self.write

    def write(self, piece):
        self.pieces.append(piece)


class Embedded:
    """What the embedded server shows of its response."""

    def __init__(self, has_begun=True):
        self.has_begun, self.ended = has_begun, 0

    def end_early(self):
        self.ended += 1


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


SHOWN = pytest.mark.parametrize("name", ["werkzeug.socket", "gunicorn.socket"])


def shown(connection, name="werkzeug.socket"):
    return Wsgi(**{name: connection}).reply


# ------------------------------------------------------------------------------------- the head


def test_a_status_has_its_words():
    assert reason(200) == "200 OK"
    assert reason(421) == "421 Misdirected Request"
    assert reason(499) == "499 Refused"


def test_headers_of_all_responses_to_a_request_go_with_each():
    wsgi = Wsgi()
    wsgi.reply.headers = [("Mcp-Session-Id", "s")]
    assert wsgi.reply.status == 0
    wsgi.reply.begin(202, [("A", "b")])
    assert wsgi.heads == [("202 Accepted", [("A", "b"), ("Mcp-Session-Id", "s")], None)]
    assert (wsgi.reply.status, wsgi.reply.is_sent) == (202, False)


def test_what_was_begun_and_not_sent_is_begun_once_more_as_wsgi_wants_it():
    wsgi = Wsgi()
    wsgi.reply.begin(200, [])
    wsgi.reply.begin(503, [])
    assert [(status, bool(exc_info)) for status, _, exc_info in wsgi.heads] == [
        ("200 OK", False),
        ("503 Service Unavailable", True),
    ]
    assert wsgi.reply.status == 503


@pytest.mark.parametrize(
    ("method", "body", "returned"), [("POST", b"{}", (b"{}",)), ("POST", b"", ()), ("HEAD", b"{}", ())]
)
def test_a_whole_response_has_its_length(method, body, returned):
    wsgi = Wsgi(REQUEST_METHOD=method)
    assert wsgi.reply.whole(418, body, [("A", "b")]) == returned
    assert wsgi.heads == [("418 I'm a Teapot", [("A", "b"), ("Content-Length", str(len(body)))], None)]


# ------------------------------------------------------------------------------------- pieces


def test_pieces_go_out_as_they_are_written():
    wsgi = Wsgi()
    wsgi.reply.begin(200, [])
    for piece in (b"a", b"b"):
        wsgi.reply.write(piece)
        assert wsgi.pieces[-1] == piece
    assert wsgi.reply.is_sent


# ------------------------------------------------------------- what is said in quick succession


class Clock:
    """The time of the module, which is the test's."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def begun():
    """A response of which something was just written."""
    wsgi = Wsgi()
    wsgi.reply.begin(200, [])
    wsgi.reply.write(b"0")
    return wsgi


def test_a_piece_after_a_pause_goes_out_at_once(clock):
    wsgi = begun()
    clock.now += 2 * module.HOLD_SECONDS
    assert not wsgi.reply.write_soon(b"1")
    assert (wsgi.pieces, wsgi.reply.held) == ([b"0", b"1"], b"")


def test_pieces_in_quick_succession_are_held_back_and_only_the_first_says_so(clock):
    wsgi = begun()
    assert wsgi.reply.write_soon(b"1")
    assert not wsgi.reply.write_soon(b"2")
    assert (wsgi.pieces, wsgi.reply.held) == ([b"0"], b"12")


@pytest.mark.parametrize("end", ["a piece later", "many bytes", "a write", "an early end"])
def test_what_is_held_back_goes_out_before_what_follows(clock, end):
    wsgi = begun()
    wsgi.environ["mcp_ref.response"] = Embedded()
    wsgi.reply.write_soon(b"1")
    if end == "a piece later":
        clock.now += 2 * module.HOLD_SECONDS
        wsgi.reply.write_soon(b"2")
    elif end == "many bytes":
        wsgi.reply.write_soon(b"2" * module.MAX_HELD_BYTES)
    elif end == "a write":
        wsgi.reply.write(b"2")
    else:
        assert wsgi.reply.end_early()
    assert b"".join(wsgi.pieces).rstrip(b"2") == b"01"
    assert wsgi.reply.held == b""


def test_what_is_held_back_can_be_taken_to_be_sent_otherwise(clock):
    wsgi = begun()
    wsgi.reply.write_soon(b"1")
    assert wsgi.reply.take_held() == b"1"
    assert wsgi.reply.take_held() == b""
    wsgi.reply.write(b"2")
    assert wsgi.pieces == [b"0", b"2"]


def test_a_client_that_left_before_an_early_end_is_no_fault(clock):
    wsgi = begun()
    wsgi.environ["mcp_ref.response"] = Embedded()
    wsgi.reply.write_soon(b"1")

    def refuse(piece):
        raise BrokenPipeError

    wsgi.reply._write = refuse
    assert wsgi.reply.end_early()


def test_a_server_without_write_says_so_and_may_be_sent_something_else():
    wsgi = Wsgi()
    reply = HttpReply(wsgi.environ, lambda *head: wsgi.start(*head) and None)
    reply.begin(200, [])
    with pytest.raises(WriteRefused, match="start_response returned no function"):
        reply.write(b"a")
    assert not reply.is_sent


def test_a_write_that_raises_at_first_is_refused():
    wsgi = Wsgi()
    wsgi.write = lambda piece: 1 / 0
    wsgi.reply.begin(200, [])
    with pytest.raises(WriteRefused, match="ZeroDivisionError"):
        wsgi.reply.write(b"a")
    assert not wsgi.reply.is_sent


def test_a_write_that_a_middleware_swallows_is_refused():
    wsgi = Wsgi(**{"mcp_ref.response": Embedded(has_begun=False)})
    wsgi.reply.begin(200, [])
    with pytest.raises(WriteRefused, match="did not reach the server"):
        wsgi.reply.write(b"a")
    assert not wsgi.reply.is_sent


class ClientDisconnected(Exception):
    """As that of waitress, which is no OSError."""


@pytest.mark.parametrize("problem", [BrokenPipeError("x"), TimeoutError("x"), ClientDisconnected("x")])
def test_a_write_to_a_client_that_has_gone_says_so_and_nothing_follows(pair, problem):
    ours, theirs = pair
    wsgi = Wsgi(**{"werkzeug.socket": ours})

    def write(piece):
        raise problem

    wsgi.write = write
    wsgi.reply.begin(200, [])
    with pytest.raises(ClientLeft, match="the client has gone"):
        wsgi.reply.write(b"a")
    assert wsgi.reply.is_sent, "a part of it may have been"
    assert theirs.recv(1) == b"", "the connection is cut"


def test_a_write_that_fails_later_is_the_end_whatever_it_raises():
    wsgi = Wsgi()
    wsgi.reply.begin(200, [])
    wsgi.reply.write(b"a")
    wsgi.write = lambda piece: 1 / 0
    wsgi.reply._write = wsgi.write
    with pytest.raises(ClientLeft):
        wsgi.reply.write(b"b")


def test_gunicorn_is_told_how_long_a_client_may_read_nothing(pair, monkeypatch):
    """It would wait for ever. Its socket fails with the error of the system."""
    monkeypatch.setattr(module, "STALL_SECONDS", 0.05)
    ours, _ = pair
    wsgi = Wsgi(**{"gunicorn.socket": ours})
    wsgi.write = ours.sendall
    wsgi.reply.begin(200, [])
    with pytest.raises(ClientLeft):
        wsgi.reply.write(b"x" * (64 << 20))


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_a_time_that_gunicorn_has_set_itself_is_left_as_it_is(pair, seconds, monkeypatch):
    set_to = []
    monkeypatch.setattr(module, "set_kernel_timeout", lambda *arguments: set_to.append(arguments[2]))
    ours, _ = pair
    ours.settimeout(seconds)
    wsgi = Wsgi(**{"gunicorn.socket": ours})
    wsgi.reply.begin(200, [])
    wsgi.reply.write(b"a")
    wsgi.reply.write(b"b")
    assert set_to == ([module.STALL_SECONDS] if seconds is None else [])


# ------------------------------------------------------------------------------------- an early end


def test_the_embedded_server_ends_a_response_itself(pair):
    embedded = Embedded()
    wsgi = Wsgi(**{"mcp_ref.response": embedded, "werkzeug.socket": pair[0]})
    assert wsgi.reply.end_early()
    assert embedded.ended == 1


def test_elsewhere_the_socket_is_shut_and_what_was_written_arrives(pair):
    ours, theirs = pair
    reply = shown(ours, "gunicorn.socket")
    ours.sendall(b"the last")
    assert reply.end_early()
    assert theirs.recv(100) == b"the last"
    assert theirs.recv(100) == b""
    assert reply.end_early(), "twice does no harm"


def test_where_there_is_no_way_to_end_early_it_says_so():
    assert not Wsgi().reply.end_early()


@pytest.mark.parametrize("problem", [OSError("gone"), ValueError("shorter than the Content-Length")])
def test_an_end_for_a_client_that_has_gone_is_no_error(problem):
    embedded = Embedded()

    def end_early():
        raise problem

    embedded.end_early = end_early
    assert Wsgi(**{"mcp_ref.response": embedded}).reply.end_early()


@SHOWN
def test_a_thread_that_waits_in_a_write_is_cut_off(pair, name):
    ours, _ = pair
    wsgi, told = Wsgi(**{name: ours}), []
    wsgi.write = ours.sendall
    wsgi.reply.begin(200, [])

    def write():
        try:
            wsgi.reply.write(b"x" * (64 << 20))
        except ClientLeft as problem:
            told.append(problem)

    thread = threading.Thread(target=write)
    thread.start()
    assert eventually(lambda: not select.select([], [ours], [], 0)[1])
    wsgi.reply.cut()
    thread.join(PATIENCE)
    assert len(told) == 1
    wsgi.reply.cut()


def test_without_a_socket_there_is_nothing_to_cut():
    Wsgi().reply.cut()


# ---------------------------------------------------------------------------- whether it would wait


def test_a_socket_says_whether_it_takes_more(pair):
    ours, _ = pair
    reply = shown(ours)
    assert reply.takes_at_once()
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            ours.send(b"x" * 65536)
    assert not reply.takes_at_once()
    ours.close()
    assert not reply.takes_at_once()


def test_a_server_that_buffers_is_trusted_with_so_many_bytes():
    wsgi = Wsgi()
    wsgi.reply.begin(200, [])
    wsgi.reply.write(b"x" * (module.SAFE_UNREAD_BYTES - 1))
    assert wsgi.reply.takes_at_once()
    wsgi.reply.write(b"x")
    assert not wsgi.reply.takes_at_once()


# ---------------------------------------------------------------------------- who has left


@SHOWN
def test_a_closed_connection_is_told_from_one_that_is_silent_or_has_more_to_say(pair, name):
    ours, theirs = pair
    reply = shown(ours, name)
    assert has_left([reply]) == [False]
    theirs.sendall(b"more")
    assert has_left([reply]) == [False]
    assert ours.recv(10) == b"more", "it is still there to be read"
    theirs.shutdown(socket.SHUT_WR)
    assert has_left([reply]) == [True]
    ours.close()
    assert has_left([reply]) == [True]


def test_a_client_that_has_sent_ahead_and_left_is_gone(pair):
    """The system says so behind what is still to be read (Linux)."""
    ours, theirs = pair
    theirs.sendall(b"more")
    theirs.close()
    assert has_left([shown(ours)]) == [True]


def test_where_the_system_does_not_say_so_the_end_is_read(pair, monkeypatch):
    monkeypatch.setattr(module, "SHUT", 0)
    ours, theirs = pair
    reply = shown(ours)
    theirs.sendall(b"x")
    assert has_left([reply]) == [False]
    ours.recv(1)
    theirs.shutdown(socket.SHUT_WR)
    assert has_left([reply]) == [True]


def test_a_connection_that_was_reset_is_gone():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
        with ours:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            theirs.close()
            assert eventually(lambda: has_left([shown(ours)]) == [True])  # the system may take a moment


class Odd:
    """A socket on which reading fails in its way."""

    def __init__(self, real, problem):
        self.fileno, self._problem = real.fileno, problem

    def recv(self, size, flags):
        raise self._problem


@pytest.mark.parametrize(("problem", "left"), [(BlockingIOError(), False), (OSError(), True)])
def test_a_poll_that_promised_too_much_is_no_departure_and_an_error_is(pair, problem, left):
    ours, theirs = pair
    theirs.sendall(b"x")
    assert has_left([shown(Odd(ours, problem))]) == [left]


def test_some_servers_say_it_themselves_and_some_cannot(pair):
    assert has_left([Wsgi(**{"waitress.client_disconnected": lambda: True}).reply]) == [True]
    assert has_left([Wsgi(**{"waitress.client_disconnected": lambda: False}).reply]) == [False]
    assert has_left([Wsgi().reply]) == [False]
    ours, theirs = pair
    wrapped = ssl.create_default_context().wrap_socket(
        ours, do_handshake_on_connect=False, server_hostname="x"
    )
    theirs.close()
    assert has_left([shown(wrapped)]) == [False]
    assert shown(wrapped).connection is None
    wrapped.close()


def test_many_are_asked_at_once_and_each_is_told_apart():
    pairs = [socket.socketpair() for _ in range(50)]
    try:
        replies = [shown(ours) for ours, _ in pairs]
        for _, theirs in pairs[::3]:
            theirs.close()
        assert has_left(replies) == [number % 3 == 0 for number in range(50)]
    finally:
        for ours, theirs in pairs:
            ours.close()
            theirs.close()


def test_of_no_requests_none_has_left():
    assert has_left([]) == []
