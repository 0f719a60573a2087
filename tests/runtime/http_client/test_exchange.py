"""An HTTP exchange: how far it came, what is sent along, and that nothing is left."""

import contextlib
import gzip
import json
import os
import socket
import threading
import time

import pytest
import requests
from http_exchanges import Numbered, ask, begun, ok, waits, within
from peers import PATIENCE, eventually
from web import STREAM, certificate, web

from mcp_ref.runtime.errors import ConnectionClosed, NotReached
from mcp_ref.runtime.http_client import exchange as module
from mcp_ref.runtime.http_client.exchange import TooLong, without_query
from mcp_ref.runtime.http_client.sockets import Aborted, Expired

pytestmark = pytest.mark.usefixtures("own_environment")


# ------------------------------------------------------------------------------ what comes back


def test_an_answer_has_a_status_headers_and_a_body(at):
    def handle(request, wire):
        wire.answer(201, b"[1]", "Content-Type: Application/JSON; charset=utf-8", "X-Two: b")

    with web(handle) as site, at(site).new(within()) as exchange:
        exchange.send("POST", {"X-One": "a"}, b"{}")
        assert (exchange.status, exchange.media_type) == (201, "application/json")
        assert exchange.header("x-two") == "b"
        assert exchange.header("x-three") is None
        assert exchange.read(100) == b"[1]"
        assert site.requests[0].headers["x-one"] == "a"
        assert site.requests[0].target == "/mcp"


def test_the_url_that_errors_tell_is_the_one_that_was_asked(at):
    """Where it was sent on to, or another of the server's, without what may be secret."""

    def handle(request, wire):
        if request.target == "/mcp":
            wire.answer(307, b"", "Location: /moved?key=secret")
        else:
            wire.answer(404)

    with web(handle) as site:
        http = at(site)
        with http.new(within()) as exchange:
            assert exchange.shown_url == site.url
            exchange.send("POST", {}, b"{}")
            assert exchange.shown_url == f"http://127.0.0.1:{site.port}/moved"
        with http.new(within()) as exchange:
            exchange.send("POST", {}, b"{}", "//messages?session_id=secret")
            assert exchange.shown_url == f"http://127.0.0.1:{site.port}//messages"


def test_an_answer_without_a_type_has_none(at):
    with web(lambda request, wire: wire.answer(200)) as site, at(site).new(within()) as exchange:
        exchange.send("POST", {}, b"{}")
        assert exchange.media_type == ""


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("body", [b"", b"x" * 1000])
@pytest.mark.parametrize("how", ["length", "chunks"])
def test_a_connection_is_used_again_even_if_nobody_cared_for_the_body(at, read, body, how):
    def handle(request, wire):
        if how == "length":
            wire.answer(202, body)
        else:
            head = b"HTTP/1.1 202 So\r\nTransfer-Encoding: chunked\r\n\r\n"
            wire.send(head + (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n")

    with web(handle) as site:
        http = at(site)
        for _ in range(3):
            with http.new(within()) as exchange:
                exchange.send("POST", {}, b"{}")
                if read:
                    assert exchange.read(2000) == body
        assert len(site.wires) == 1 or (how == "chunks" and body and not read)


def test_a_body_that_goes_on_is_not_waited_for(at):
    def handle(request, wire):
        wire.stream()
        wire.event({})
        wire.gone()

    with web(handle) as site:
        exchange = at(site).new(within())
        exchange.send("POST", {}, b"{}")
        assert exchange.read1(100)
        start = time.monotonic()
        assert not exchange.is_end_buffered()
        exchange.close()
        assert time.monotonic() - start < PATIENCE / 2


def test_a_stream_that_ends_soon_keeps_its_connection(at, monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAIN_SECONDS", PATIENCE)

    def handle(request, wire):
        wire.stream()
        wire.event({})
        wire.site.over.wait(0.05)
        wire.end()

    with web(handle) as site:
        http = at(site)
        for _ in range(2):
            exchange = http.new(within())
            exchange.send("POST", {}, b"{}")
            exchange.read1(100)
            exchange.drain()
        assert len(site.wires) == 1


def test_a_stream_that_does_not_end_is_let_go(at, monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAIN_SECONDS", 0.05)

    def handle(request, wire):
        wire.stream()
        wire.event({})
        ended.append(wire.gone())

    ended = []
    with web(handle) as site:
        exchange = at(site).new(within())
        exchange.send("POST", {}, b"{}")
        exchange.drain()
        assert eventually(lambda: ended == [True])


@pytest.mark.parametrize("how", ["length", "chunks", "close", "gzip"])
def test_a_body_beyond_the_limit_is_not_read(at, how):
    def handle(request, wire):
        if how == "length":
            wire.head(200, "Content-Length: 1000000000")
        elif how == "gzip":
            wire.answer(200, gzip.compress(b"x" * 1_000_000), "Content-Encoding: gzip")
        else:
            wire.head(200, *(["Transfer-Encoding: chunked"] if how == "chunks" else []))
            send = wire.chunk if how == "chunks" else wire.send
            for _ in range(30):
                send(b"x" * 100)

    with web(handle) as site, at(site).new(within()) as exchange:
        exchange.send("POST", {}, b"{}")
        with pytest.raises(TooLong):
            exchange.read(1000)


def test_a_body_just_at_the_limit_is_read(at):
    with web(lambda request, wire: wire.answer(200, b"x" * 1000)) as site:
        assert ask(at(site), limit=1000) == (200, b"x" * 1000)


def test_a_body_that_is_compressed_unasked_is_read(at):
    def handle(request, wire):
        wire.answer(200, gzip.compress(b"hello"), "Content-Encoding: gzip")

    with web(handle) as site:
        assert ask(at(site)) == (200, b"hello")
        assert site.requests[0].headers["accept-encoding"] == "identity"


def test_a_body_that_is_not_compressed_as_it_says_is_an_error(at):
    def handle(request, wire):
        wire.answer(200, b"hello", "Content-Encoding: gzip")

    with web(handle) as site, pytest.raises(ConnectionClosed, match="within its answer"):
        ask(at(site))


# --------------------------------------------------------------------------- how far it came


def _before(request, wire):
    wire.close()


def _reset(request, wire):
    wire.reset()


def _in_status(request, wire):
    wire.send(b"HTTP/1.1 2")
    wire.close()


def _in_headers(request, wire):
    wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: app")
    wire.close()


def _no_headers(request, wire):
    wire.send(b"HTTP/1.1 200 OK\r\nthis is no header\r\nContent-Length: 2\r\n\r\n{}")


def _no_http(request, wire):
    wire.send(b"SSH-2.0-hello\r\n")
    wire.close()


def _no_end_of_headers(request, wire):
    wire.send(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000)
    wire.close()


def _long_header(request, wire):
    wire.send(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n")
    wire.close()


def _in_body(request, wire):
    wire.head(200, "Content-Length: 100")
    wire.send(b"half")
    wire.close()


def _in_chunk(request, wire):
    wire.head(200, "Transfer-Encoding: chunked")
    wire.send(b"64\r\nhalf")
    wire.close()


def _between_chunks(request, wire):
    wire.head(200, "Transfer-Encoding: chunked")
    wire.chunk(b"half")
    wire.close()


def _no_chunk(request, wire):
    wire.head(200, "Transfer-Encoding: chunked")
    wire.send(b"hello\r\n")
    wire.close()


@pytest.mark.parametrize(
    ("handle", "said"),
    [
        (_before, "closed the connection before it answered"),
        (_reset, "closed the connection before it answered"),
        (_in_status, "is no HTTP"),
        (_in_headers, "is no HTTP"),
        (_no_headers, "is no HTTP"),
        (_no_http, "is no HTTP"),
        (_no_end_of_headers, "is no HTTP"),
        (_long_header, "is no HTTP"),
        (_in_body, "closed the connection within its answer"),
        (_in_chunk, "closed the connection within its answer"),
        (_between_chunks, "closed the connection within its answer"),
        (_no_chunk, "closed the connection within its answer"),
    ],
)
def test_closing_before_and_within_the_answer_are_told_apart(at, handle, said):
    with web(handle) as site, pytest.raises(ConnectionClosed, match=f"127.0.0.1:{site.port} .*{said}|{said}"):
        ask(at(site))


@pytest.mark.parametrize("status_line", [b"", b"HTTP/1.1 abc "])
def test_what_is_no_http_is_quoted_on_one_line_that_can_be_printed(at, status_line):
    def handle(request, wire):
        wire.send(status_line + b"\x1b[2J\x9bevil\r\nline two\r\n\r\n")
        wire.close()

    with web(handle) as site, pytest.raises(ConnectionClosed, match="is no HTTP") as caught:
        ask(at(site))
    assert str(caught.value).isprintable()
    assert "\\x1b[2J\\x9bevil" in str(caught.value)


def test_closing_after_the_answer_is_nobodys_loss(at):
    def handle(request, wire):
        wire.answer(200, b"{}")
        wire.close()

    with web(handle) as site:
        http = at(site)
        for _ in range(3):
            assert ask(http) == (200, b"{}")
            assert eventually(lambda: all(wire.socket.fileno() < 0 for wire in site.wires))
        assert len(site.wires) == 3


@pytest.mark.parametrize("repeats", [True, False])
def test_a_kept_connection_that_ends_before_the_answer_costs_a_second_try_where_allowed(at, repeats):
    def handle(request, wire):
        if len(site.requests) in (1, 3):
            wire.answer(200, b"{}")
        else:
            wire.close()

    with web(handle) as site:
        http = at(site)
        ask(http)
        with http.new(within()) as again:
            if repeats:
                again.send("POST", {}, b"{}", repeats=True)
                assert again.status == 200
            else:
                with pytest.raises(ConnectionClosed):
                    again.send("POST", {}, b"{}")
        assert len(site.requests) == (3 if repeats else 2)


@pytest.mark.parametrize("name", ["Authorization", "X-Signature"])
def test_a_request_that_is_sent_once_more_is_signed_once_more(at, name):
    """A server refuses a nonce that it has seen."""
    nonces = iter("abc")

    def sign(request):
        assert name not in request.headers
        request.headers[name] = next(nonces)
        return request

    def handle(request, wire):
        if len(site.requests) == 2:
            wire.close()
        else:
            wire.answer(200, b"{}")

    with web(handle) as site, requests.Session() as session:
        session.auth = sign
        http = at(site, session=session)
        ask(http)
        with http.new(within()) as again:
            again.send("POST", {}, b"{}", repeats=True)
            assert again.sent[1][name] == "c"
        assert [request.headers[name.lower()] for request in site.requests] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@a.example/x?secret#secret", "http://a.example/x"),
        ("/users/@me?secret", "/users/@me"),
        ("http://a.example/@scope", "http://a.example/@scope"),
        ("http://[secret", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url, shown):
    assert without_query(url) == shown
    assert "secret" not in without_query("http:me:secret@a.example/x")


def test_a_new_connection_that_ends_before_the_answer_is_no_reason_to_try_again(at):
    with web(lambda request, wire: wire.close()) as site:
        with at(site).new(within()) as first, pytest.raises(ConnectionClosed):
            first.send("POST", {}, b"{}", repeats=True)
        assert len(site.requests) == 1


def test_no_server_is_said_so(at):
    with web(ok) as site:
        url = site.url
    with pytest.raises(ConnectionClosed, match=r"no connection to 127.0.0.1:.*refused"):
        ask(at(url))


def test_what_went_out_on_a_kept_connection_is_not_said_to_have_reached_nobody(at):
    """Also if it is sent again, and there is nobody any more."""

    def handle(request, wire):
        if len(site.requests) == 1:
            wire.answer(200, b"{}")
        else:
            site.shut()
            wire.close()

    with web(handle) as site:
        http = at(site)
        ask(http)
        with http.new(within()) as again, pytest.raises(ConnectionClosed, match="no connection to") as caught:
            again.send("POST", {}, b"{}", repeats=True)
    assert not isinstance(caught.value, NotReached)


def test_a_proxy_that_is_not_there_is_named_and_nothing_was_sent(at, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:1")
    with pytest.raises(NotReached) as caught:
        ask(at("http://server.example/mcp"))
    assert str(caught.value).startswith("no connection to server.example through the proxy 127.0.0.1:1: ")


@pytest.mark.parametrize("status", [403, 407])
def test_a_proxy_that_refuses_the_way_to_a_server_is_named_with_its_status(at, monkeypatch, status):
    with web(lambda request, wire: wire.answer(status)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        wanted = rf"^no connection to server\.example through the proxy 127\.0\.0\.1:{proxy.port}: .*{status}"
        with pytest.raises(NotReached, match=wanted):
            ask(at("https://server.example/mcp"))
        assert proxy.requests[0].method == "CONNECT"


def test_a_proxy_that_ended_after_the_request_is_not_said_to_have_been_out_of_reach(at, monkeypatch):
    with web(lambda request, wire: wire.close()) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(ConnectionClosed, match=r"through the proxy .* before it answered") as caught:
            ask(at("http://server.example/mcp"))
    assert not isinstance(caught.value, NotReached)


@pytest.mark.parametrize("within_answer", [True, False])
def test_what_tls_has_against_an_answer_is_not_said_to_have_reached_nobody(at, tls_and_file, within_answer):
    tls, path = tls_and_file
    session = requests.Session()
    session.verify = path

    def handle(request, wire):
        if within_answer:
            wire.stream()
            wire.chunk(b"begun")
        raw = socket.socket(fileno=os.dup(wire.socket.fileno()))
        with raw:
            raw.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)  # a record that nobody has encrypted
        wire.gone()

    with (
        web(handle, tls) as site,
        session,
        at(site, session=session).new(within()) as asked,
        pytest.raises(ConnectionClosed, match="closed the connection") as caught,
    ):
        asked.send("POST", {}, b"{}")
        while asked.read1(100):
            pass
    assert not isinstance(caught.value, NotReached)


def test_no_such_host_is_said_so(at, monkeypatch):
    def nobody(*args, **options):
        raise OSError("Name or service not known")

    monkeypatch.setattr("urllib3.util.connection.socket.getaddrinfo", nobody)
    with pytest.raises(ConnectionClosed, match=r"no connection to nowhere.invalid.*not known"):
        ask(at("http://nowhere.invalid/mcp"))


def test_time_that_is_up_is_no_lost_connection(at):
    silent = web(lambda request, wire: wire.gone())
    with silent as site, at(site).new(within(0.1)) as exchange, pytest.raises(Expired):
        exchange.send("POST", {}, b"{}")
    with web(ok) as site:
        deadline = within(0.01)
        time.sleep(0.02)
        with at(site).new(deadline) as late, pytest.raises(Expired):
            late.send("POST", {}, b"{}")
    assert site.requests == []


# ----------------------------------------------------------------------------------- redirects


def _moved(status, location):
    def handle(request, wire):
        if request.target == "/mcp":
            wire.answer(status, b"over there", *([f"Location: {location}"] if location else []))
        else:
            wire.answer(200, request.body)

    return handle


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("location", ["/mcp/", "mcp/", "http://127.0.0.1:{port}/mcp/?x=y"])
def test_a_redirect_within_the_server_is_followed_with_the_same_body(at, status, location):
    def handle(request, wire):
        _moved(status, location.format(port=site.port))(request, wire)

    with web(handle) as site:
        http = at(site, headers={"Authorization": "Bearer t"})
        assert ask(http, b"body") == (200, b"body")
        assert ask(http, b"body") == (200, b"body")
        assert [r.method for r in site.requests] == ["POST"] * (4 if status == 307 else 3)
        assert all(r.headers["authorization"] == "Bearer t" for r in site.requests)
        assert len(site.wires) == 1


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_lose_the_body_is_not_followed(at, status):
    with web(_moved(status, "/mcp/")) as site:
        http = at(site)
        assert ask(http)[0] == status
        assert ask(http, None, "GET") == (200, b""), "a GET has none to lose"


@pytest.mark.parametrize("location", ["http://127.0.0.1:{other}/mcp", "https://127.0.0.1:{port}/mcp", None])
@pytest.mark.parametrize("status", [301, 307, 308])
def test_nothing_is_ever_sent_to_another_server(at, status, location):
    with web(ok) as other:

        def handle(request, wire):
            there = location and location.format(other=other.port, port=site.port)
            _moved(status, there)(request, wire)

        with web(handle) as site:
            assert ask(at(site, headers={"Authorization": "Bearer t"})) == (status, b"over there")
            assert len(site.requests) == 1
        assert other.requests == []


@pytest.mark.parametrize(
    "location", ["http://there.example\\@here.example/x", "//there.example\\@here.example/x"]
)
@pytest.mark.parametrize("status", [307, 308])
def test_a_proxy_is_sent_nothing_for_another_server(at, monkeypatch, status, location):
    """Of two hosts that could be read in the URL, one is the server's own."""
    with web(lambda request, wire: wire.answer(status, b"", f"Location: {location}")) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        http = at("http://here.example/mcp", headers={"Authorization": "Bearer t"})
        assert ask(http)[0] == ask(http)[0] == status
        assert [request.target for request in proxy.requests] == ["http://here.example/mcp"] * 2


def test_redirects_in_a_circle_are_followed_once(at):
    def handle(request, wire):
        wire.answer(307, b"", f"Location: {'/a' if request.target == '/mcp' else '/mcp'}")

    with web(handle) as site:
        assert ask(at(site))[0] == 307
        assert [r.target for r in site.requests] == ["/mcp", "/a"]


# ------------------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def tls_and_file(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"))


def test_tls_is_spoken_with_a_server_whose_certificate_the_session_knows(at, tls_and_file):
    tls, path = tls_and_file
    session = requests.Session()
    session.verify = path
    with web(ok, tls) as site, session:
        http = at(site, session=session)
        assert ask(http) == (200, b"{}")
        assert ask(http) == (200, b"{}")
        assert len(site.wires) == 1


def test_a_certificate_that_nobody_knows_is_refused(at, tls_and_file):
    tls, _ = tls_and_file
    with web(ok, tls) as site, pytest.raises(ConnectionClosed, match=r"by TLS.*certificate"):
        ask(at(site))
    assert site.requests == []


def test_a_stream_over_tls_is_read_as_it_comes_and_ended_from_outside(at, tls_and_file):
    tls, path = tls_and_file
    session = requests.Session()
    session.verify = path

    def handle(request, wire):
        wire.stream()
        wire.event({"n": 1})
        wire.gone()

    with web(handle, tls) as site, session:
        exchange = at(site, session=session).new(None)
        exchange.send("POST", {}, b"{}")
        assert exchange.read1(1000) == b'data: {"n": 1}\n\n'
        timer = threading.Timer(0.05, exchange.abort)
        timer.start()
        with exchange, pytest.raises(Aborted):
            exchange.read1(1000)
        timer.join()


def test_informational_answers_are_skipped(at):
    """Or the next request on the connection would get the answer to this one."""

    def handle(request, wire):
        for head in (b"102 Processing", b"103 Early Hints\r\nLink: </x>", b"100 Continue"):
            wire.send(b"HTTP/1.1 " + head + b"\r\n\r\n")
        wire.json({"n": json.loads(request.body)})

    with web(handle) as site:
        http = at(site)
        for number in range(3):
            with http.new(within()) as exchange:
                exchange.send("POST", {}, b"%d" % number)
                assert exchange.status == 200
                assert json.loads(exchange.read(1000)) == {"n": number}


def test_informational_answers_without_end_are_given_up(at):
    def handle(request, wire):
        wire.send(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)

    with web(handle) as site, pytest.raises(ConnectionClosed):
        ask(at(site))


@pytest.mark.parametrize("aborted", [False, True], ids=["deadline", "abort"])
def test_over_tls_too_a_server_that_never_ceases_to_send_does_not_go_on_for_ever(at, tls_and_file, aborted):
    tls, path = tls_and_file
    session = requests.Session()
    session.verify = path

    def handle(request, wire):
        wire.stream()
        with contextlib.suppress(OSError):
            while not wire.site.over.is_set():
                wire.chunk(b":\n\n" * 2000)

    with web(handle, tls) as site, session:
        exchange = at(site, session=session).new(within())
        exchange.send("POST", {}, b"{}")
        if not aborted:
            exchange.deadline = within(0.3)  # only now: a handshake may take as long as it takes
        timer = threading.Timer(0.1, exchange.abort if aborted else lambda: None)
        timer.start()
        with exchange, pytest.raises(Aborted if aborted else Expired):
            while exchange.read1(65536):
                pass
        timer.join()


def test_a_stream_is_a_stream_whatever_its_type_has_besides(at):
    def handle(request, wire):
        wire.answer(200, b"", f"{STREAM};charset=utf-8")

    with web(handle) as site, at(site).new(within()) as exchange:
        exchange.send("GET", {})
        assert exchange.media_type == "text/event-stream"


# --------------------------------------------------------------------------------- the end


def test_what_was_aborted_has_nothing_to_drain(at):
    with web(waits) as site:
        exchange = begun(at(site))
        exchange.abort()
        exchange.drain()
        exchange.close()


def test_an_abort_is_no_fault_of_the_server(at):
    def handle(request, wire):
        exchange.abort()
        wire.close()

    with web(handle) as site:
        exchange = at(site).new(within())
        with exchange, pytest.raises(Aborted):
            exchange.send("POST", {}, b"{}")


def test_a_redirect_with_a_page_leaves_the_time_that_there_is(at, monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAIN_SECONDS", 0.05)

    def handle(request, wire):
        if request.target == "/mcp":
            wire.answer(307, b"<h1>moved</h1>", "Location: /mcp/")
        else:
            wire.site.over.wait(0.2)
            wire.answer(200, b"{}")

    with web(handle) as site:
        http = at(site)
        assert ask(http) == (200, b"{}")
        with http.new(None) as exchange:
            exchange.send("POST", {}, b"{}")
            assert exchange.read(10) == b"{}"


@pytest.mark.parametrize("location", ["http://[::1/", "http://h:port/", "http://h:99999/", "//", "mailto:x"])
def test_a_redirect_to_nowhere_is_not_followed(at, location):
    with web(_moved(307, location)) as site:
        assert ask(at(site)) == (307, b"over there")


def test_silence_ends_an_exchange_that_has_no_other_end(at):
    def handle(request, wire):
        wire.stream()
        for _ in range(5):
            wire.chunk(b":\n\n")
        wire.gone()

    with web(handle) as site, at(site).new(None) as exchange:
        exchange.send("GET", {})
        exchange.read_timeout = 0.3  # only now: the head takes as long as it takes
        start = time.monotonic()
        with pytest.raises(Expired):
            while exchange.read1(100):
                pass
        assert time.monotonic() - start > 0.25


def test_an_exchange_without_a_deadline_says_so(at):
    http = at("http://127.0.0.1:1/mcp")
    assert not http.new(None).has_deadline
    assert http.new(within()).has_deadline


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h:8/mcp?key=secret#x", "https://h:8/mcp"),
        ("https://ann:secret@h/mcp", "https://h/mcp"),
        ("https://[h/mcp?key=secret", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret_in_it(url, shown):
    assert module.without_query(url) == shown


# ------------------------------------------------------------------------------ authorization


@pytest.mark.parametrize("wanted", ["Bearer 2", None])
def test_what_is_refused_goes_again_with_other_headers_and_the_last_refusal_is_the_answer(at, wanted):
    def handle(request, wire):
        if request.headers["authorization"] == wanted:
            wire.answer(200, b"{}")
        elif request.headers["authorization"] == "Bearer 1":
            wire.head(401, "Content-Length: 100")  # it breaks off
            wire.close()
        else:
            wire.answer(403, b"no", "DPoP-Nonce: n")

    with web(handle) as site:
        auth = Numbered()
        assert ask(at(site, auth=auth)) == ((403, b"no") if wanted is None else (200, b"{}"))
        assert auth.nonces == ([] if wanted is None else [None])
        http = at(site, auth=Numbered(answers=False))
        assert ask(http) == (401, b"")
