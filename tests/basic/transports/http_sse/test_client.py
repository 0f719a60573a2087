"""basic/transports/http_sse/client: with servers of 2024-11-05 that go wrong in every way."""

import contextlib
import json
import queue
import socket
import threading
import time

import pytest
from choices import for_connect
from http_peers import serving
from peers import PATIENCE, eventually

from mcp_ref import ConnectionClosed, ErrorResponse, RequestTimeout, connect
from mcp_ref.basic.transports.http_sse.client import HttpSse
from mcp_ref.basic.transports.streamable_http.http_errors import HttpError
from mcp_ref.basic.transports.streamable_http.sending import UrlConnection
from mcp_ref.runtime.errors import InvalidResponse, LocalError
from mcp_ref.runtime.http_client.client import HttpClient

BREAK = RuntimeError("the stream is cut here")
"""As a piece of a stream: the connection is reset."""

TAKEN = ("202 Accepted", [], b"Accepted")


def event(data, name=None):
    """One event; a message is JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


class Fake:
    """A server of the old transport that does what it is told: a WSGI application."""

    def __init__(self, *pieces, endpoint="/messages?session_id=1", revision="2024-11-05"):
        self.revision = revision
        self.pieces = queue.SimpleQueue()
        for piece in pieces or (event(endpoint, "endpoint"),):
            self.pieces.put(piece)
        self.opens = ("200 OK", [("Content-Type", "text/event-stream")])
        self.posted = []
        self.gets = []
        self.refuses = {}  # by method: what is answered to its POST
        self.results = {"tools/list": {"tools": []}}

    def __call__(self, environ, start_response):
        where = environ["PATH_INFO"] + ("?" + environ["QUERY_STRING"] if environ["QUERY_STRING"] else "")
        if environ["REQUEST_METHOD"] == "GET":
            self.gets.append(environ)
            start_response(*self.opens)
            return iter(self.pieces.get, None) if self.opens[0] != "200 OK" else self.stream()
        message = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        if environ["PATH_INFO"] == "/sse":
            status, headers, body = "405 Method Not Allowed", [], b""
        else:
            self.posted.append((where, message, environ))
            found = self.refuses.get(message.get("method"), TAKEN)
            if found is TAKEN and "method" in message and "id" in message:
                self.answer(message)
            status, headers, body = found() if callable(found) else found
        start_response(status, headers)
        return [body]

    def stream(self):
        while (piece := self.pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def answer(self, message):
        """The answer to a request, on the stream."""
        result = self.results.get(message["method"], {})
        if message["method"] == "initialize":
            able = {"tools": {}, "logging": {}}
            info = {"name": "fake", "version": "1"}
            result = {"protocolVersion": self.revision, "capabilities": able, "serverInfo": info}
        if result is not None:
            self.say(id=message["id"], result=result)

    def say(self, **message):
        self.pieces.put(event({"jsonrpc": "2.0", **message}, "message"))

    def messages(self, method):
        return [message for _, message, _ in self.posted if message.get("method") == method]


@contextlib.contextmanager
def served(fake):
    """Its URL."""
    with serving(fake) as http:
        try:
            yield f"http://127.0.0.1:{http.port}/sse"
        finally:
            fake.pieces.put(None)


@contextlib.contextmanager
def session(fake, **options):
    """A client in a session with it."""
    with served(fake) as url, connect(url, **for_connect(**{"timeout": PATIENCE, **options})) as client:
        yield client


class Nobody:
    """A client that answers nothing."""

    def __init__(self):
        self.lost_ones = []

    def lost(self, connection):
        self.lost_ones.append(connection)


@contextlib.contextmanager
def connection(url, **options):
    """A transport that is not opened yet; its connection is ended afterwards."""
    exchanges = HttpClient(url)
    nobody = Nobody()
    found = HttpSse(nobody, exchanges, 1 << 20)
    UrlConnection(nobody, found, **{"timeout": PATIENCE, "max_timeout": None, **options})
    try:
        yield found
    finally:
        found.connection.end("the test is over")
        exchanges.close()


def refused_by(fake, **options):
    """What opening the stream raises."""
    with served(fake) as url, connection(url, **options) as found, pytest.raises(Exception) as caught:
        found.open()
    assert not found._reader.is_alive()
    return caught.value


# ------------------------------------------------------------------------------ how it should go


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-post-to-endpoint",
    "basic/transports/streamable-http/old-server-fallback-modern",
    "basic/transports/streamable-http/old-server-fallback-listed",
    "basic/transports/streamable-http/old-server-fallback-4xx",
)
def test_all_is_posted_to_the_uri_of_the_endpoint_event():
    fake = Fake(endpoint="/elsewhere/7?session_id=x%20y")
    with session(fake) as client:
        assert client.revision.date == "2024-11-05"
        assert client.list_tools() == []
    assert {where for where, _, _ in fake.posted} == {"/elsewhere/7?session_id=x%20y"}
    methods = [message["method"] for _, message, _ in fake.posted]
    assert methods == ["initialize", "notifications/initialized", "tools/list"]
    assert fake.gets[0]["HTTP_ACCEPT"] == "text/event-stream"
    assert {environ["CONTENT_TYPE"] for _, _, environ in fake.posted} == {"application/json"}


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("/a?b=c", "/a?b=c"),
        ("messages", "/messages"),
        ("?session_id=1", "/sse?session_id=1"),
        ("http://{host}/m?x", "/m?x"),
        ("HTTP://{host}/m#fragment", "/m"),
        ("//{host}/m", "/m"),
    ],
)
def test_the_uri_may_be_relative_or_absolute(said, target):
    fake = Fake(b": ")
    with served(fake) as url, connection(url) as found:
        host = url.split("/")[2]
        fake.pieces.put(b"hello\n\n" + event(said.format(host=host), "endpoint"))
        found.open()
        assert found.target == target


def test_headers_of_the_application_go_with_all_and_those_of_the_revision_with_posts():
    fake = Fake(revision="2025-11-25")
    with session(fake, headers={"Authorization": "Bearer x"}) as client:
        client.list_tools()
    environs = [fake.gets[0], *(environ for _, _, environ in fake.posted)]
    assert {environ["HTTP_AUTHORIZATION"] for environ in environs} == {"Bearer x"}
    dates = [environ.get("HTTP_MCP_PROTOCOL_VERSION") for environ in environs]
    assert dates == [None, None, "2025-11-25", "2025-11-25"]


def test_events_may_drip_in_any_pieces_and_others_are_ignored():
    fake = Fake(*(bytes([byte]) for byte in b": hi\r\n\r\nevent: endpoint\rdata: /m\r\r"))
    with session(fake) as client:
        fake.results["tools/list"] = None
        fake.pieces.put(
            b"event: weather\ndata: rain\n\n" + event("", "message") + event("/other", "endpoint")
        )
        asked = threading.Thread(target=drip, args=(fake,))
        asked.start()
        assert client.list_tools() == []
        asked.join(PATIENCE)
    assert {where for where, _, _ in fake.posted} == {"/m"}


def drip(fake):
    assert eventually(lambda: fake.messages("tools/list"))
    message = fake.messages("tools/list")[0]
    for byte in event({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}):
        fake.pieces.put(bytes([byte]))


def test_many_threads_ask_at_once():
    fake = Fake()
    with session(fake) as client:
        threads = [threading.Thread(target=client.list_tools) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert len(fake.messages("tools/list")) == 20
    assert len({message["id"] for message in fake.messages("tools/list")}) == 20


def test_what_the_server_asks_is_answered_by_post():
    fake = Fake()
    with session(fake, roots=["file:///a"]):
        fake.say(id="q", method="roots/list")
        assert eventually(lambda: any(message.get("id") == "q" for _, message, _ in fake.posted))
    answer = next(message for _, message, _ in fake.posted if message.get("id") == "q")
    assert answer["result"]["roots"][0]["uri"] == "file:///a"


def test_a_post_that_is_taken_late_holds_up_nothing_else():
    fake, taken = Fake(), threading.Event()

    def late():
        assert taken.wait(PATIENCE)
        return TAKEN

    with session(fake) as client:
        fake.refuses["tools/call"] = late
        calling = threading.Thread(target=client.call_tool, args=("slow", {}))
        calling.start()
        assert eventually(lambda: fake.messages("tools/call"))
        fake.say(id="p", method="ping")  # is not answered by the thread that reads
        assert eventually(lambda: any(message.get("id") == "p" for _, message, _ in fake.posted))
        assert client.list_tools() == []
        fake.say(id=fake.messages("tools/call")[0]["id"], result={"content": []})
        taken.set()
        calling.join(PATIENCE)
        assert not calling.is_alive()


def test_an_answer_that_is_not_taken_is_the_servers_affair(caplog):
    fake = Fake()
    with session(fake) as client:
        fake.refuses[None] = ("500 Internal Server Error", [], b"no")
        fake.say(id="p", method="ping")
        assert eventually(lambda: "did not take a response" in caplog.text)
        assert client.list_tools() == []


def test_answers_that_cannot_be_sent_are_dropped_and_not_kept_for_ever(caplog):
    fake = Fake()
    with session(fake) as client:
        senders = client.asker.connection.outbox._senders
        senders._jobs.add = lambda job, free: False
        fake.say(id="p", method="ping")
        assert eventually(lambda: "too many wait" in caplog.text)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_stream_that_has_moved_within_the_server_is_followed(status):
    fake = Fake()

    def moving(environ, start_response):
        if environ["PATH_INFO"] == "/sse" and environ["REQUEST_METHOD"] == "GET":
            start_response(f"{status} Moved", [("Location", "/events/"), ("Content-Length", "0")])
            return []
        return fake(environ, start_response)

    with serving(moving) as http:
        try:
            with connect(f"http://127.0.0.1:{http.port}/sse") as client:
                assert client.list_tools() == []
        finally:
            fake.pieces.put(None)
    assert [environ["PATH_INFO"] for environ in fake.gets] == ["/events/"]


def test_posts_that_have_moved_within_the_server_are_followed():
    fake = Fake(endpoint="/old")

    def moving(environ, start_response):
        if environ["PATH_INFO"] == "/old":
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            start_response("307 Temporary Redirect", [("Location", "/new"), ("Content-Length", "0")])
            return []
        return fake(environ, start_response)

    with serving(moving) as http:
        try:
            with connect(f"http://127.0.0.1:{http.port}/sse") as client:
                assert client.list_tools() == []
        finally:
            fake.pieces.put(None)
    assert {where for where, _, _ in fake.posted} == {"/new"}


# ---------------------------------------------------------------------- streams that do not begin


@pytest.mark.parametrize(
    "said",
    [
        "http://evil.example/messages",
        "//evil.example/messages",
        "https://127.0.0.1/messages",
        "http://127.0.0.1:1/messages",
        "http://127.0.0.1.evil.example/",
        "http://[::1/",
        "http://127.0.0.1:notaport/",
        "javascript:alert(1)",
        "file:///etc/passwd",
    ],
)
def test_an_endpoint_on_another_server_is_refused_and_nothing_sent_there(said):
    fake = Fake(endpoint=said)
    problem = refused_by(fake)
    assert isinstance(problem, InvalidResponse)
    assert said in str(problem)
    assert "nothing is sent there" in str(problem)
    assert not fake.posted


@pytest.mark.parametrize("said", ["", "/a b", "/a\ndata: /b", "/caf\xe9", "/" + "a" * 9000, "/\x00"])
def test_an_endpoint_that_is_no_uri_is_refused(said):
    problem = refused_by(Fake(endpoint=said))
    assert isinstance(problem, InvalidResponse)
    assert "holds no URI" in str(problem)


def test_a_stream_that_begins_with_something_else_is_refused():
    problem = refused_by(Fake(event({"jsonrpc": "2.0", "method": "notifications/message"})))
    assert isinstance(problem, InvalidResponse)
    assert "begins with 'message', not 'endpoint'" in str(problem)


@pytest.mark.parametrize(
    "pieces", [(), (b": nothing but comments\n\n",) * 3, (b"event: endpoint\ndata: /m\n",)]
)
def test_a_stream_without_an_endpoint_event_is_not_waited_for_without_end(pieces):
    began = time.monotonic()
    problem = refused_by(Fake(b": \n\n", *pieces), timeout=0.2)
    assert isinstance(problem, RequestTimeout)
    assert "no endpoint event from the server within 0.2 s" in str(problem)
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize("last", [None, BREAK])
def test_a_stream_that_ends_before_the_endpoint_event_is_an_error(last):
    assert isinstance(refused_by(Fake(b": \n\n", b"event: endpoint\nda", last)), ConnectionClosed)


def test_what_is_no_event_stream_is_refused_with_what_it_says():
    fake = Fake(b"<html><title>Welcome</title></html>", None)
    fake.opens = ("200 OK", [("Content-Type", "text/html")])
    problem = refused_by(fake)
    assert isinstance(problem, HttpError)
    assert "text/html" in str(problem)
    assert "Welcome" in str(problem)


@pytest.mark.parametrize("status", ["204 No Content", "401 Unauthorized", "404 Not Found", "500 Broken"])
def test_a_url_without_a_stream_is_refused_by_its_status(status):
    fake = Fake(b"", None)
    fake.opens = (status, [("Content-Type", "text/plain")])
    problem = refused_by(fake)
    assert isinstance(problem, HttpError)
    assert problem.status == int(status[:3])


def test_a_redirect_to_another_server_is_not_followed():
    fake = Fake(b"", None)
    fake.opens = ("302 Found", [("Location", "http://evil.example/sse")])
    problem = refused_by(fake)
    assert isinstance(problem, HttpError)
    assert "http://evil.example/sse, which is not followed" in str(problem)


def test_redirects_in_a_circle_end():
    fake = Fake(b"", None, b"", None)
    fake.opens = ("307 Temporary Redirect", [("Location", "/sse?again")])
    problem = refused_by(fake)
    assert isinstance(problem, HttpError)
    assert problem.status == 307


def test_a_server_that_is_not_there_is_an_error():
    with serving(Fake()) as http:
        url = f"http://127.0.0.1:{http.port}/sse"
    with connection(url) as found, pytest.raises(ConnectionClosed, match="no connection"):
        found.open()


def test_a_server_that_never_answers_is_not_waited_for_without_end():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/sse"
        with connection(url, timeout=0.1) as found, pytest.raises(RequestTimeout):
            found.open()
        assert not found._reader.is_alive()


def test_a_connection_that_is_ended_while_it_opens_says_so():
    with served(Fake(b": \n\n")) as url, connection(url) as found:
        opening = threading.Timer(0.05, found.connection.end, ("over",))
        opening.start()
        with pytest.raises(ConnectionClosed, match="the client was closed"):
            found.open()
        opening.join()


# ------------------------------------------------------------------------- messages that go wrong


def test_a_post_that_is_refused_is_an_error_for_this_request_alone():
    fake = Fake()
    with session(fake) as client:
        fake.refuses["tools/call"] = ("413 Content Too Large", [("Content-Type", "text/plain")], b"too much")
        with pytest.raises(HttpError, match="too much") as caught:
            client.call_tool("add", {})
        assert caught.value.status == 413
        assert client.list_tools() == []
    assert not fake.messages("notifications/cancelled")


@pytest.mark.parametrize("body", [b"", b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}'])
def test_a_post_that_is_refused_names_the_address_that_was_asked(body):
    """Not that of the stream, which is another. Its query names the session, and is not told."""
    fake = Fake(endpoint="/elsewhere/7?session_id=secret")
    with session(fake) as client:
        fake.refuses["tools/list"] = ("404 Not Found", [("Content-Type", "application/json")], body)
        with pytest.raises(HttpError) as caught:
            client.list_tools()
        url = f"http://{client.asker.connection.outbox.exchanges.settings.server}/elsewhere/7"
        assert caught.value.url == url
        assert url in str(caught.value)
        assert "secret" not in str(caught.value)


def test_a_refusal_in_json_rpc_is_the_servers_error():
    fake = Fake()
    body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"no such session"}}'
    with session(fake) as client:
        fake.refuses["tools/list"] = ("404 Not Found", [("Content-Type", "application/json")], body)
        with pytest.raises(ErrorResponse, match="no such session") as caught:
            client.list_tools()
        assert (caught.value.code, caught.value.status) == (-32600, 404)


def test_a_notification_that_is_refused_is_an_error_for_whoever_sent_it():
    fake = Fake()
    with session(fake) as client:
        fake.refuses["notifications/x"] = ("500 Internal Server Error", [], b"")
        with pytest.raises(HttpError):
            client.asker.connection.notify("notifications/x")
        over = threading.Event()
        fake.refuses["notifications/x"] = lambda: over.wait(PATIENCE) and TAKEN
        with pytest.raises(RequestTimeout, match=r"did not take a message within 0\.05 s"):
            client.asker.connection.notify("notifications/x", wait=0.05)
        over.set()


def test_an_initialize_that_is_refused_is_what_connect_raises():
    fake = Fake()
    fake.refuses["initialize"] = ("401 Unauthorized", [("WWW-Authenticate", "Bearer")], b"")
    with served(fake) as url, pytest.raises(HttpError) as caught:
        connect(url)
    assert (caught.value.status, caught.value.challenge) == (401, "Bearer")


def test_a_request_that_is_given_up_is_cancelled_whether_or_not_the_server_hears_of_it():
    fake = Fake()
    fake.results["tools/call"] = None
    with session(fake) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("add", {}, timeout=0.1)
        assert eventually(lambda: fake.messages("notifications/cancelled"))
        assert fake.messages("notifications/cancelled")[0]["params"]["requestId"]
        fake.refuses["notifications/cancelled"] = ("500 Internal Server Error", [], b"")
        with pytest.raises(RequestTimeout):
            client.call_tool("add", {}, timeout=0.1)


def test_a_post_that_is_never_taken_is_given_up_in_time():
    fake, over = Fake(), threading.Event()
    fake.refuses["tools/list"] = lambda: over.wait(PATIENCE) and TAKEN
    fake.results["tools/list"] = None
    with session(fake) as client:
        began = time.monotonic()
        with pytest.raises(RequestTimeout):
            client.request("tools/list", {}, timeout=0.2)
        assert time.monotonic() - began < PATIENCE / 2
        over.set()


def test_a_request_that_nobody_waits_for_is_sent_all_the_same():
    fake = Fake()
    with session(fake) as client:
        done = queue.SimpleQueue()
        client.asker.connection.call("tools/list", {}, on_done=done.put)
        assert done.get(timeout=PATIENCE).outcome == {"tools": []}
        fake.refuses["tools/list"] = ("500 Internal Server Error", [], b"")
        client.asker.connection.call("tools/list", {}, on_done=done.put)
        assert isinstance(done.get(timeout=PATIENCE).outcome, HttpError)
        client.asker.connection.outbox._askers._jobs.add = lambda job, free: False
        client.asker.connection.call("tools/list", {}, on_done=done.put)
        refused = done.get(timeout=PATIENCE).outcome
        assert isinstance(refused, LocalError) and "too many requests" in str(refused)


@pytest.mark.parametrize(("ask", "sent"), [("tools/list", 2), ("tools/call", 1)])
def test_a_kept_connection_that_is_too_old_costs_a_second_try_where_that_is_harmless(ask, sent):
    fake, once = Fake(), iter([True])

    def closing():
        if next(once, False):
            fake.posted[-1][2]["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return TAKEN

    fake.results[ask] = None
    with session(fake) as client:
        fake.refuses[ask] = closing
        asked = queue.SimpleQueue()
        client.asker.connection.call(ask, {}, on_done=asked.put)
        assert eventually(lambda: len(fake.messages(ask)) == sent)
        if sent == 1:
            assert isinstance(asked.get(timeout=PATIENCE).outcome, ConnectionClosed)
        else:
            fake.say(id=fake.messages(ask)[1]["id"], result={"tools": []})
            assert asked.get(timeout=PATIENCE).outcome == {"tools": []}
    assert len(fake.messages(ask)) == sent


# ------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize("last", [None, BREAK])
def test_the_end_of_the_stream_is_the_end_of_all_that_waits(last):
    fake = Fake()
    fake.results["tools/list"] = None
    with session(fake) as client:
        failed = queue.SimpleQueue()

        def ask():
            try:
                client.list_tools()
            except ConnectionClosed as problem:
                failed.put(problem)

        for _ in range(3):
            threading.Thread(target=ask, daemon=True).start()
        assert eventually(lambda: len(fake.messages("tools/list")) == 3)
        fake.pieces.put(last)
        for _ in range(3):
            assert "stream" in str(failed.get(timeout=PATIENCE)) or last is BREAK
        with pytest.raises(ConnectionClosed):
            client.list_tools()


def test_who_waits_for_a_post_to_be_taken_hears_of_the_end_of_the_stream_at_once():
    fake, over = Fake(), threading.Event()
    with session(fake) as client:
        fake.refuses["notifications/x"] = fake.refuses["tools/list"] = lambda: over.wait(PATIENCE) and TAKEN
        fake.results["tools/list"] = None
        threading.Timer(0.1, fake.pieces.put, (None,)).start()
        with pytest.raises(ConnectionClosed, match="ended the event stream"):
            client.list_tools()
        with pytest.raises(ConnectionClosed, match="ended the event stream"):
            client.asker.connection.notify("notifications/x")
        over.set()


def test_a_huge_event_ends_the_stream_with_the_limit_in_its_reason():
    fake = Fake()
    fake.results["tools/list"] = {"tools": [], "padding": "x" * 20_000}
    limited = session(fake, max_message_bytes=10_000)
    with limited as client, pytest.raises(ConnectionClosed, match="longer than 10000 bytes"):
        client.list_tools()


def test_a_message_that_is_no_json_is_not_the_end():
    fake = Fake()
    with session(fake) as client:
        fake.pieces.put(event("{", "message") + event("[1, 2", "message"))
        assert client.list_tools() == []


def test_a_fault_of_ours_ends_the_connection_with_a_reason(monkeypatch, caplog):
    fake = Fake()
    with session(fake) as client:
        monkeypatch.setattr(client.asker.connection, "receive", lambda line: 1 / 0)
        with pytest.raises(ConnectionClosed, match="could not be read"):
            client.list_tools()
    assert "ZeroDivisionError" in caplog.text


def test_close_ends_the_stream_and_leaves_neither_thread_nor_socket():
    fake = Fake()
    with serving(fake) as http:
        client = connect(f"http://127.0.0.1:{http.port}/sse")
        reader = client.asker.connection.outbox._reader
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < PATIENCE / 2
        assert not reader.is_alive()
        client.close()
        fake.pieces.put(b": \n\n")  # only whoever writes notices
        fake.pieces.put(b": \n\n")
        fake.pieces.put(None)
        assert eventually(lambda: http.connections == 0)


def test_close_does_not_wait_for_a_server_that_takes_nothing():
    fake, over = Fake(), threading.Event()
    fake.refuses["tools/list"] = lambda: over.wait(PATIENCE) and TAKEN
    fake.results["tools/list"] = None
    with served(fake) as url:
        client = connect(url)
        failed = queue.SimpleQueue()

        def ask():
            try:
                client.list_tools()
            except ConnectionClosed as problem:
                failed.put(problem)

        threading.Thread(target=ask, daemon=True).start()
        assert eventually(lambda: fake.messages("tools/list"))
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < PATIENCE / 2
        assert "closed" in str(failed.get(timeout=PATIENCE))
        over.set()


def test_its_way_out_is_what_a_connection_expects_of_one():
    with served(Fake()) as url, connection(url) as found:
        way = found.connection.outbox
        assert (way.closes, way.two_way, way.is_busy, way.release(), way.flush(0)) == (
            False,
            True,
            True,
            False,
            True,
        )
        way.cancel("gone")
        way.fail(ConnectionClosed("gone"))


def test_a_call_that_is_over_before_it_is_sent_has_its_reason():
    with served(Fake()) as url, connection(url) as found:
        found.open()
        found.exchanges.stop()  # as when the stream ends between two steps
        with pytest.raises(ConnectionClosed):
            found.connection.request("tools/list", {})
        with pytest.raises(ConnectionClosed):
            found.send(b"{}", 1.0)
