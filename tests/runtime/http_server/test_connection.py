"""runtime/http_server/connection: requests on a connection, one after another, whatever a client does
with it.
"""

import json
import logging
import queue
import socket
import threading

import pytest
from http_peers import RawHttp, chunks, request, serving
from peers import PATIENCE, eventually, nothing_left

from mcp_ref.runtime.http_server.receiving import Limits
from mcp_ref.runtime.http_server.server import HttpServer

HUGE = 100 << 20


def echo(environ, start_response):
    """What the application was told, as JSON."""
    body = environ["wsgi.input"].read()
    text = {key: value for key, value in environ.items() if isinstance(value, str)}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({**text, "length": len(body), "body": body[:100].decode("latin-1")}).encode()]


def deaf(environ, start_response):
    """Answers without a look at the body."""
    start_response("413 Content Too Large", [])
    return [b"no"]


def giving(pieces):
    """An application that answers with what `pieces()` returns."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return pieces()

    return app


def told(client):
    answer = client.response()
    assert answer.status == 200, answer
    return json.loads(answer.body)


@pytest.fixture(scope="module")
def port():
    with serving(echo) as server:
        yield server.port


@pytest.fixture
def client(port):
    with RawHttp(port) as client:
        yield client


# -- a connection is kept --------------------------------------------------------------------------


def test_requests_follow_one_another_on_a_connection(client):
    for number in range(3):
        assert told(client.send(request("POST", f"/{number}", b"x" * number)))["length"] == number


def test_pipelined_requests_are_answered_in_order(client):
    several = [request("POST", f"/{n}", b"x" * n) for n in range(20)]
    several[5] = request("POST", "/5", None, "Transfer-Encoding: chunked") + chunks(b"xx", b"xxx")
    client.send(b"".join(several))
    for number in range(20):
        said = told(client)
        assert (said["PATH_INFO"], said["length"]) == (f"/{number}", number)


def test_a_head_that_was_seen_before_does_not_bring_back_an_old_body(client):
    for body in (b"one", b"two", b"six"):
        assert told(client.send(request("POST", "/", body)))["body"] == body.decode()


def test_what_an_application_does_to_its_environ_is_gone_at_the_next_request():
    def app(environ, start_response):
        seen = environ.get("mine", "nothing")
        environ["mine"] = environ["HTTP_HOST"] = "changed"
        start_response("200 OK", [])
        return [seen.encode()]

    with serving(app) as server, RawHttp(server.port) as client:
        assert [client.send(request()).response().body for _ in range(2)] == [b"nothing"] * 2


def test_a_client_may_end_the_connection_with_a_request(client):
    answer = client.send(request("GET", "/", None, "Connection: close")).response()
    assert answer.headers["connection"] == "close"
    assert client.ended()


def test_a_client_of_http_1_0_is_answered_and_left(client):
    answer = client.send(b"GET / HTTP/1.0\r\n\r\n").response()
    assert (answer.version, answer.status, answer.headers["connection"]) == ("HTTP/1.0", 200, "close")
    assert client.ended()


def test_a_client_of_http_1_0_gets_no_chunks():
    with serving(giving(lambda: iter([b"one", b"two"]))) as server, RawHttp(server.port) as client:
        answer = client.send(b"GET / HTTP/1.0\r\n\r\n").response()
    assert "transfer-encoding" not in answer.headers
    assert answer.body == b"onetwo"


def test_a_client_that_is_done_sending_still_gets_its_answers(client):
    client.send(request("POST", "/1", b"a") + request("POST", "/2", b"b"))
    client.socket.shutdown(socket.SHUT_WR)
    assert [told(client)["PATH_INFO"] for _ in range(2)] == ["/1", "/2"]
    assert client.ended()


def test_an_idle_connection_is_closed():
    with nothing_left():
        server = HttpServer(echo, port=0, limits=Limits(idle=0.05))
        thread = threading.Thread(target=server.serve)
        with RawHttp(server.port) as client:
            client.send(request())  # before it serves: a late client would not be answered
            thread.start()
            assert told(client)
            assert client.ended()
        server.close()
        thread.join(PATIENCE)


# -- what an application is told -------------------------------------------------------------------


def test_an_application_is_told_where_it_is_and_who_asks(client, port):
    said = told(client.send(request("GET", "/a?b=c")))
    address = client.socket.getsockname()
    wanted = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a",
        "QUERY_STRING": "b=c",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": address[0],
        "REMOTE_PORT": str(address[1]),
        "HTTP_HOST": "here",
        "wsgi.url_scheme": "http",
    }
    assert wanted.items() <= said.items()


def test_an_environ_is_as_wsgi_wants_it():
    from wsgiref.validate import validator

    seen = {}

    def app(environ, start_response):
        seen.update(environ)
        assert environ["wsgi.input"].read(3) == b"abc"
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"x"]

    with serving(validator(app)) as server, RawHttp(server.port) as client:
        assert client.send(request("POST", "/", b"abc", "Content-Type: a/b")).response().status == 200
        assert client.send(request("POST", "/", b"abc", "Content-Type: a/b")).response().status == 200
    assert (seen["wsgi.multithread"], seen["wsgi.multiprocess"], seen["wsgi.run_once"]) == (
        True,
        False,
        False,
    )
    assert seen["wsgi.input_terminated"]
    assert isinstance(seen["werkzeug.socket"], socket.socket)


def test_werkzeug_reads_what_was_sent():
    from werkzeug.wrappers import Request, Response

    @Request.application
    def app(request):
        return Response(f"{request.method} {request.url} {len(request.get_data())}")

    with serving(app) as server, RawHttp(server.port) as client:
        assert client.send(request("POST", "/a?b", b"x" * 5)).response().body == b"POST http://here/a?b 5"
        client.send(request("POST", "/", None, "Transfer-Encoding: chunked") + chunks(b"abc", b"d"))
        assert client.response().body.endswith(b" 4")
        assert client.send(request("POST", "/", b"x" * 300_000)).response().body.endswith(b" 300000")


# -- bodies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, 1 << 20])
def test_a_body_of_any_size_arrives(client, size):
    body = bytes(range(256)) * (size // 256 + 1)
    said = told(client.send(request("POST", "/", body[:size])))
    assert (said["length"], said["CONTENT_LENGTH"]) == (size, str(size))
    assert told(client.send(request()))["length"] == 0


def test_a_body_in_chunks_arrives_without_them(client):
    client.send(request("POST", "/", None, "Transfer-Encoding: chunked") + chunks(b"abc", b"d" * 100_000))
    said = told(client)
    assert (said["length"], said["HTTP_TRANSFER_ENCODING"]) == (100_003, "chunked")
    assert "CONTENT_LENGTH" not in said


def test_a_body_that_says_it_is_gzip_passes_through(client):
    said = told(client.send(request("POST", "/", b"\x1f\x8b not really", "Content-Encoding: gzip")))
    assert (said["body"], said["HTTP_CONTENT_ENCODING"]) == ("\x1f\x8b not really", "gzip")


def test_a_body_after_its_head_is_waited_for(client):
    whole = request("POST", "/", b"abc")
    client.send(whole[:-3])
    client.send(whole[-3:])
    assert told(client)["body"] == "abc"


def test_a_client_that_asks_for_leave_is_told_to_go_on(client):
    client.send(request("POST", "/", None, "Expect: 100-continue", "Content-Length: 3"))
    assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert told(client.send(b"abc"))["body"] == "abc"
    assert told(client.send(request()))


def test_a_client_that_asks_for_leave_and_is_refused_does_not_get_it():
    with serving(deaf) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", None, "Expect: 100-continue", f"Content-Length: {HUGE}"))
        answer = client.response()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert client.ended()


@pytest.mark.parametrize("body", [b"x" * 5, b"x" * 65536])
def test_a_small_body_that_nobody_read_is_not_in_the_way(body):
    with serving(deaf) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", body) * 2)
        assert [client.response().status for _ in range(2)] == [413] * 2


def test_a_body_of_which_little_is_left_is_read_to_its_end():
    def app(environ, start_response):
        environ["wsgi.input"].read(100_000)
        start_response("200 OK", [])
        return []

    with serving(app) as server, RawHttp(server.port) as client:
        for _ in range(2):
            answer = client.send(request("POST", "/", b"x" * 150_000)).response()
            assert "connection" not in answer.headers


def test_a_body_whose_little_rest_does_not_come_ends_the_connection():
    def app(environ, start_response):
        environ["wsgi.input"].read(100_000)
        start_response("200 OK", [])
        return []

    with serving(app, patience=0.1) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", b"x" * 150_000)[:-100])
        assert client.response().status == 200
        assert client.rest() == b""


def test_a_body_of_100_mib_that_nobody_reads_does_not_hide_the_answer():
    with serving(deaf) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", None, f"Content-Length: {HUGE}"))
        piece = b"x" * (1 << 20)
        for _ in range(HUGE >> 20):
            client.send(piece)
        answer = client.response()
        assert (answer.status, answer.body, answer.headers["connection"]) == (413, b"no", "close")
        assert client.ended()


def test_a_body_in_chunks_that_nobody_reads_does_not_hide_the_answer():
    with serving(deaf) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", None, "Transfer-Encoding: chunked") + chunks(b"x" * 300_000))
        assert client.response().status == 413
        assert client.ended()


def test_what_is_thrown_away_has_an_end():
    with serving(deaf, max_body_bytes=100_000) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", None, f"Content-Length: {HUGE}"))
        piece = b"x" * 100_000
        with pytest.raises(ConnectionError):
            for _ in range(HUGE // len(piece)):
                client.send(piece)


def test_a_client_that_was_answered_early_and_goes_silent_is_not_waited_for():
    with serving(deaf, patience=0.05) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", None, "Content-Length: 100000"))
        assert client.response().status == 413
        assert client.ended()
        assert eventually(lambda: server.connections == 0)


def test_a_body_in_chunks_that_is_too_large_is_413():
    with serving(echo, max_body_bytes=1000) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", None, "Transfer-Encoding: chunked") + chunks(b"x" * 1001))
        assert client.response().status == 413
        assert client.ended()


# -- requests that are none ------------------------------------------------------------------------

BAD = {
    "a request line of garbage": (b"what is this\r\n\r\n", 400),
    "nothing but empty lines": (b"\r\n\r\n\r\n", 400),
    "a NUL alone": (b"\0\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "a TLS ClientHello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 300, 400),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "an address that is too long": (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n", 414),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "a host doubled": (request("GET", "/", None, "Host: there"), 400),
    "a length doubled": (request("POST", "/", b"abc", "Content-Length: 4"), 400),
    "a length and chunks": (request("POST", "/", b"abc", "Transfer-Encoding: chunked"), 400),
    "a coding doubled": (request("POST", "/", None, *["Transfer-Encoding: chunked"] * 2), 400),
    "a coding nobody knows": (request("POST", "/", None, "Transfer-Encoding: br"), 501),
    "a folded header": (request("GET", "/", None, "A: b", " c"), 400),
    "a bare CR": (request("GET", "/", None, "A: b\rc"), 400),
    "a NUL": (request("GET", "/", None, "A: b\0c"), 400),
    "a name that is no token": (request("GET", "/", None, "A b: c"), 400),
    "a name that is not ASCII": (request("GET", "/", None, "\xc4: c"), 400),
    "a header of 64 KiB": (request("GET", "/", None, "A: " + "b" * 65536), 431),
    "many headers": (request("GET", "/", None, *["A: b"] * 200), 431),
    "another expectation": (request("GET", "/", None, "Expect: more"), 417),
    "chunks that are none": (request("POST", "/", None, "Transfer-Encoding: chunked") + b"xyz\r\n", 400),
    "a chunk longer than it says": (
        request("POST", "/", None, "Transfer-Encoding: chunked") + b"1\r\nabc\r\n0\r\n\r\n",
        400,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_told_so_and_is_the_last(client, name):
    data, status = BAD[name]
    client.send(data + request("GET", "/smuggled"))
    answer = client.response()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 0 < len(answer.body) < 200
    assert client.ended()


KNOWN = (
    "Accept",
    "Content-Type",
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Origin",
    "Last-Event-ID",
    "User-Agent",
)


@pytest.mark.parametrize("name", KNOWN)
def test_each_header_may_come_doubled_in_any_case_not_ascii_and_long(client, name):
    key = name.upper().replace("-", "_")
    key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
    for spelled in (name, name.lower(), name.upper(), name.swapcase()):
        assert told(client.send(request("GET", "/", None, f"{spelled}: a", f"{name}: b")))[key] == "a, b"
    assert told(client.send(request("GET", "/", None, f"{name}: \xe4\xf6")))[key] == "\xe4\xf6"
    assert told(client.send(request("GET", "/", None, f"{name}: {'x' * 60_000}")))[key] == "x" * 60_000
    assert key not in told(client.send(request("GET", "/", None, f"{name.replace('-', '_', 1)}_: forged")))


def test_a_large_head_is_not_kept_for_the_next_request(client):
    for _ in range(2):
        assert len(told(client.send(request("GET", "/", None, "A: " + "b" * 10_000)))["HTTP_A"]) == 10_000


# -- clients that are slow, or leave ---------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        b"G",
        b"GET / HTTP/1.1\r\nHost: here\r\n",
        request("POST", "/", b"abc")[:-1],
        request("POST", "/", None, "Transfer-Encoding: chunked") + b"3\r\nab",
    ],
    ids=["one byte", "half a head", "half a body", "half a chunk"],
)
def test_a_request_that_does_not_come_to_an_end_is_given_up(part):
    with serving(echo, patience=0.05) as server, RawHttp(server.port) as client:
        assert client.send(part).response().status == 408
        assert client.ended()


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\nA: ", request("POST", "/", None, "Content-Length: 60000")]
)
def test_a_request_that_drips_is_given_up(start):
    stop = threading.Event()
    with serving(echo, patience=0.2) as server, RawHttp(server.port) as client:

        def drip():
            try:
                client.send(start)
                while not stop.wait(0.02):
                    client.send(b"x")
            except OSError:
                pass

        thread = threading.Thread(target=drip)
        thread.start()
        assert client.response().status == 408
        stop.set()
        thread.join(PATIENCE)


def test_a_client_that_leaves_within_its_request_is_nobody_to_answer():
    ran = []

    def app(environ, start_response):
        ran.append(environ)
        return echo(environ, start_response)

    with serving(app) as server:
        for part in (b"GET / HT", request("POST", "/", b"abc")[:-1]):
            with RawHttp(server.port) as client:
                client.send(part)
        assert eventually(lambda: server.connections == 0)
    assert ran == []


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_body_that_breaks_under_the_application_is_no_failure_of_its_own(caplog, wrapped):
    def app(environ, start_response):
        try:
            return echo(environ, start_response)
        except OSError as problem:
            raise RuntimeError if wrapped else problem from None

    with serving(app) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", b"x" * 100_000)[:-1])
        client.socket.shutdown(socket.SHUT_WR)
        assert client.response().status == 400
    with serving(app, patience=0.05) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", b"x" * 100_000)[:-1])
        assert client.response().status == (400 if wrapped else 408)
    assert not [record for record in caplog.records if record.name == "mcp_ref.http"]


def test_a_body_that_breaks_under_a_response_cuts_it(caplog):
    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"one"
        yield environ["wsgi.input"].read()

    with serving(app, patience=0.05) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", b"x" * 100_000)[:-1])
        with pytest.raises((ConnectionResetError, EOFError)):
            client.response()
    assert not [record for record in caplog.records if record.name == "mcp_ref.http"]


def test_a_stream_ends_when_its_client_has_left(caplog):
    pieces, closed = queue.Queue(), threading.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            while True:
                yield pieces.get(timeout=PATIENCE)
        finally:
            closed.set()

    with caplog.at_level(logging.DEBUG, "mcp_ref.http"), serving(app) as server:
        for leave in (RawHttp.close, RawHttp.reset):
            closed.clear()
            client = RawHttp(server.port).send(request())
            pieces.put(b"")
            client.head()
            leave(client)
            assert eventually(lambda: pieces.put(b"more") or closed.is_set())
            while not pieces.empty():
                pieces.get()
        assert eventually(lambda: server.connections == 0)
    assert {record.levelno for record in caplog.records if record.name == "mcp_ref.http"} == {logging.DEBUG}


def test_a_client_that_does_not_read_is_given_up():
    closed = threading.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            while True:
                yield b"x" * 100_000
        finally:
            closed.set()

    with serving(app, stall=0.05) as server, RawHttp(server.port, receive_buffer=4096) as client:
        client.send(request())
        assert closed.wait(PATIENCE)
        assert eventually(lambda: server.connections == 0)


# -- applications that fail ------------------------------------------------------------------------


def failing(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/exit":
        raise SystemExit(1)
    if path == "/call":
        raise KeyError("secret of the application")
    if path == "/peer":
        raise ConnectionResetError("of somebody else")
    start_response("200 OK", [])
    if path == "/silent":
        return Broken()
    return Broken(b"one")


class Broken:
    def __init__(self, *pieces):
        self.pieces = pieces

    def __iter__(self):
        yield from self.pieces
        raise KeyError("secret of the application")


@pytest.mark.parametrize("path", ["/call", "/exit", "/peer", "/silent"])
def test_an_application_that_fails_before_it_said_anything_is_500(caplog, path):
    with serving(failing) as server, RawHttp(server.port) as client:
        answer = client.send(request("GET", path)).response()
        assert (answer.status, answer.headers["connection"]) == (500, "close")
        assert b"secret" not in answer.body
        assert client.ended()
    (record,) = [record for record in caplog.records if record.name == "mcp_ref.http"]
    assert record.levelno == logging.ERROR
    assert record.exc_info[2] is not None


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_an_application_that_fails_later_is_cut_off_and_nobody_takes_it_for_whole(caplog, version):
    with serving(failing) as server, RawHttp(server.port) as client:
        client.send(request("GET", "/later", version=version))
        assert client.head().status == 200
        with pytest.raises((ConnectionResetError, EOFError)):
            if version == "HTTP/1.1":
                assert client.chunk() == b"one"
                client.chunk()
            else:
                client.rest()
    assert [record.levelno for record in caplog.records if record.name == "mcp_ref.http"] == [logging.ERROR]


def test_a_close_that_fails_harms_no_answer(caplog):
    class Closing:
        def __iter__(self):
            yield b"one"

        def close(self):
            raise KeyError("late")

    app = giving(lambda: Closing())
    with serving(app) as server, RawHttp(server.port) as client:
        assert client.send(request()).response().body == b"one"
        assert client.ended()
    assert [record.levelno for record in caplog.records if record.name == "mcp_ref.http"] == [logging.ERROR]


def test_an_application_that_caught_a_bad_body_answers_itself_and_the_connection_ends():
    def app(environ, start_response):
        try:
            environ["wsgi.input"].read()
        except OSError as problem:
            start_response("422 Mine", [])
            return [str(problem).encode()]
        raise AssertionError

    with serving(app, patience=0.05) as server:
        for body in (b"xyz\r\n", b"3\r\nab"):
            with RawHttp(server.port) as client:
                client.send(request("POST", "/", None, "Transfer-Encoding: chunked") + body)
                answer = client.response()
                assert (answer.status, answer.headers["connection"]) == (422, "close")
                assert client.ended()
        with RawHttp(server.port) as client:
            answer = client.send(request("POST", "/", b"x" * 70_000)[:-10]).response()
            assert (answer.status, answer.headers["connection"]) == (422, "close")


def test_a_body_kept_beyond_its_request_does_not_read_the_next_one():
    kept = []

    def app(environ, start_response):
        kept.append(environ["wsgi.input"])
        if len(kept) == 2:
            assert kept[0].read() in (b"", b"x" * 70_000)
        start_response("200 OK", [])
        return [environ["wsgi.input"].read()[:5]]

    with serving(app) as server, RawHttp(server.port) as client:
        client.send(request("POST", "/", b"x" * 70_000) + request("POST", "/", b"second"))
        assert [client.response().body for _ in range(2)] == [b"xxxxx", b"secon"]


# -- streams ---------------------------------------------------------------------------------------


def test_pieces_arrive_while_the_application_still_runs():
    pieces = queue.Queue()

    def app(environ, start_response):
        start_response("200 OK", [])
        yield from iter(lambda: pieces.get(timeout=PATIENCE), None)

    with serving(app) as server, RawHttp(server.port) as client:
        client.send(request())
        pieces.put(b"")
        assert client.head().headers["transfer-encoding"] == "chunked"
        for piece in (b"one", b"two"):
            pieces.put(piece)
            assert client.chunk() == piece
        pieces.put(None)
        assert client.chunk() == b""
        pieces.put(None)
        assert client.send(request()).response().body == b""


def test_an_application_may_write_while_it_runs():
    def app(environ, start_response):
        write = start_response("200 OK", [])
        write(b"one")
        go_on.wait(PATIENCE)
        return [b"two"]

    go_on = threading.Event()
    with serving(app) as server, RawHttp(server.port) as client:
        client.send(request()).head()
        assert client.chunk() == b"one"
        go_on.set()
        assert [client.chunk(), client.chunk()] == [b"two", b""]


def test_a_head_has_no_body(client):
    answer = client.send(request("HEAD")).response(to_head=True)
    assert int(answer.headers["content-length"]) > 0
    assert told(client.send(request()))["REQUEST_METHOD"] == "GET"


def test_a_response_may_be_ended_while_the_application_still_runs():
    """By any thread: the client has all of it, and the connection takes no other request."""
    ended, go, returned = threading.Event(), threading.Event(), threading.Event()

    def app(environ, start_response):
        write = start_response("200 OK", [])
        write(b"first")

        def end():
            environ["mcp_ref.response"].end_early()
            ended.set()

        threading.Thread(target=end).start()
        assert go.wait(PATIENCE)
        returned.set()
        return [b"nobody is sent this"]

    with serving(app) as server, RawHttp(server.port) as client:
        client.send(request() * 2)
        answer = client.response()
        assert (answer.status, answer.body) == (200, b"first")
        assert client.ended()
        assert ended.wait(PATIENCE)
        assert not returned.is_set()
        go.set()
        assert returned.wait(PATIENCE)
        assert eventually(lambda: server.connections == 0)
