"""Streamable HTTP as the client speaks it: what it sends, what it makes of the answers, and how it ends."""

import contextlib
import contextvars
import json
import logging
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from http_peers import endpoint
from peers import META, MODERN, PATIENCE, REVISIONS, eventually
from web import ABLE, INFO, JSON, LIMITS, STREAM, opened, result_of, talking, text, web

import mcp_ref
from mcp_ref import Denied, Server, ServerOptions, connect
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.transports.streamable_http import sending, sessions
from mcp_ref.basic.transports.streamable_http.http_errors import HttpError
from mcp_ref.basic.transports.streamable_http.sending import Sender, StreamableHttp, Way
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    RequestCancelled,
    RequestTimeout,
)
from mcp_ref.runtime.http_client.sockets import Aborted


class Exchange:
    """Knows only whether it was ended."""

    def __init__(self):
        self.sent = ("", {})
        self.was_aborted = threading.Event()

    def abort(self):
        self.was_aborted.set()


def quiet():
    """A sender whose server asks nothing."""
    return SimpleNamespace(connection=SimpleNamespace(responder=SimpleNamespace(serving={})))


def test_whoever_gives_a_request_up_ends_the_exchange_that_is_under_way():
    way = Way(quiet())
    first, second = Exchange(), Exchange()
    assert way.go(first) is first
    assert not way.is_begun
    first.sent = ("/mcp", {})
    way.go(second)
    assert way.is_begun
    way.end()
    assert second.was_aborted.is_set() and not first.was_aborted.is_set()


def test_no_exchange_begins_on_a_way_that_was_given_up():
    way = Way(quiet(), modern=True)
    way.end()
    with pytest.raises(Aborted):
        way.go(Exchange())
    assert way.is_modern and way.closes


def test_a_message_that_is_no_request_is_posted():
    def handle(request, wire):
        if request.rpc is None:
            wire.answer(500 if request.message["id"] == "bad" else 202)
        else:
            wire.result(request, text("hello"))

    with talking(handle, "2025-11-25", "s-1") as (site, client):
        posts = client.asker.connection.outbox
        assert isinstance(posts, Sender) and posts.is_busy and posts.two_way and not posts.closes
        assert posts.begins is None
        posts.answer(b'{"jsonrpc": "2.0", "id": "good", "result": {}}')
        posts.answer(b'{"jsonrpc": "2.0", "id": "bad", "result": {}}')
        assert [r.headers["mcp-session-id"] for r in site.requests if r.rpc is None and r.body] == ["s-1"] * 2
        assert posts.flush(1)
        assert not posts.release()
        posts.cancel("no reason")
        posts.fail(OSError())


def test_what_the_server_asked_on_a_way_is_given_up_with_it():
    class Sender:
        def __init__(self):
            self.connection = self.responder = self
            self.serving, self.cancelled = {}, []

        def cancel(self, context, reason):
            self.cancelled.append(self.serving.pop(context.key))
            assert "over" in reason

    sender = Sender()
    way, another = Way(sender), Way(sender)
    for key, outbox in enumerate((way, another, way)):
        sender.serving[key] = SimpleNamespace(key=key, arrival=SimpleNamespace(outbox=outbox))
    first, _, third = sender.serving.values()
    way.end()
    way.end()
    assert sender.cancelled == [first, third], "once, and not what was asked on another"


def test_whatever_else_is_said_there_is_a_post_too():
    class Posted:
        def __init__(self):
            self.posted = []

        def send(self, line, wait):
            self.posted.append((line, wait))

    sender = Posted()
    Way(sender).send(b"{}", 0.2)
    assert sender.posted == [(b"{}", 0.2)]


SESSION = "session-7"


def plain(request, wire):
    """Any request: an empty result, in JSON."""
    if "id" in request.message:
        wire.result(request, text("hello"))
    else:
        wire.answer(202)


def streamed(request, wire):
    """The same as an event stream."""
    wire.stream()
    wire.event(result_of(request, text("hello")))
    wire.end()


def only(method, handle):
    """`handle` for one method, `plain` for the others."""
    return lambda request, wire: (handle if request.rpc == method else plain)(request, wire)


def called(handle, revision=MODERN, timeout=PATIENCE, **more):
    """What call_tool says of a server that answers it so."""
    with talking(only("tools/call", handle), revision, SESSION, timeout=timeout, **more) as (_site, client):
        return client.call_tool("echo")


# -------------------------------------------------------------------------------- what is sent


@pytest.mark.spec(
    "basic/transports/streamable-http/new-post-per-message",
    "basic/transports/streamable-http/use-post",
    "basic/transports/streamable-http/accept-both",
    "basic/transports/streamable-http/body-single",
    "basic/transports/streamable-http/body-single-or-batch",
    "basic/transports/streamable-http/body-request-or-notification",
)
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_message_is_a_post_of_its_own(revision):
    with talking(plain, revision) as (site, client):
        client.call_tool("a")
        client.call_tool("b")
        client.notify("notifications/mine")
        for request in [r for r in site.requests if r.method == "POST"]:
            assert request.target == "/mcp"
            assert isinstance(request.message, dict)
            assert request.headers["content-type"] == "application/json"
            assert request.headers["accept"] == "application/json, text/event-stream"
        assert [r.rpc for r in site.requests if r.rpc in ("tools/call", "notifications/mine")] == [
            "tools/call",
            "tools/call",
            "notifications/mine",
        ]


@pytest.mark.spec(
    "basic/transports/streamable-http/metadata-headers",
    "basic/transports/streamable-http/version-header-every-post",
    "basic/transports/streamable-http/version-header-matches-meta",
    "basic/transports/streamable-http/mcp-method-header",
    "basic/transports/streamable-http/mcp-name-header",
    "basic/transports/streamable-http/mcp-method-header-notifications",
    "basic/transports/streamable-http/append-standard-headers",
    "schema/meta-version-matches-header",
)
def test_a_modern_message_repeats_itself_in_its_headers_and_has_no_session():
    with talking(plain, MODERN, SESSION) as (site, client):
        client.call_tool("gr\u00fc\u00df")
        client.request("resources/unknown", {"uri": "x://y"})
        client.notify("notifications/mine")
        assert client.session_id is None
        client.close()
        assert {r.method for r in site.requests} == {"POST"}
        for request in site.requests:
            assert request.headers["mcp-protocol-version"] == MODERN
            assert request.headers["mcp-method"] == request.rpc
            assert "mcp-session-id" not in request.headers
            if request.rpc != "notifications/mine":
                meta = request.message["params"]["_meta"]
                assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
        assert site.of("tools/call")[0].headers["mcp-name"].startswith("=?base64?")


def test_headers_of_the_application_go_along():
    with talking(plain, headers={"Authorization": "Bearer t"}) as (site, client):
        client.call_tool("a")
        assert all(r.headers["authorization"] == "Bearer t" for r in site.requests)


# ------------------------------------------------------------------------------- what comes back


@pytest.mark.spec("basic/transports/streamable-http/client-supports-both")
@pytest.mark.parametrize("handle", [plain, streamed])
@pytest.mark.parametrize("revision", REVISIONS)
def test_json_and_event_streams_are_understood(revision, handle):
    assert called(handle, revision).text == "hello"


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"]
)
def test_only_the_media_type_counts(kind):
    def handle(request, wire):
        wire.answer(200, json.dumps(result_of(request, text("hello"))).encode(), f"Content-Type: {kind}")

    assert called(handle).text == "hello"


def test_initialize_may_be_answered_by_a_stream_too():
    def handle(request, wire):
        if request.rpc == "initialize":
            wire.stream(f"Mcp-Session-Id: {SESSION}")
            result = {"protocolVersion": "2025-11-25", "capabilities": ABLE, "serverInfo": INFO}
            wire.event(result_of(request, result))
            wire.end()
        else:
            opened(plain, "2025-11-25")(request, wire)

    with web(handle) as site, connect(site.url, revision="2025-11-25") as client:
        assert client.session_id == SESSION
        assert client.call_tool("a").text == "hello"


def test_connections_are_kept_whatever_the_answers_are():
    flip = iter([plain, streamed] * 10)
    with talking(lambda request, wire: next(flip)(request, wire)) as (site, client):
        under_way = client.asker.connection.outbox.exchanges._under_way
        for _ in range(10):
            client.call_tool("a")
            assert eventually(lambda: not under_way)  # the end of a stream may come after its answer
        assert len(site.wires) <= 2


@pytest.mark.spec("basic/transports/streamable-http/multiple-streams")
def test_many_threads_share_one_client():
    barrier = threading.Barrier(10)

    def handle(request, wire):
        barrier.wait(PATIENCE)
        streamed(request, wire)

    with talking(handle) as (_site, client):
        results = []

        def run():
            results.append(client.call_tool("a").text)

        threads = [threading.Thread(target=run) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == ["hello"] * 10


def test_progress_is_told_on_the_thread_that_waits():
    def handle(request, wire):
        wire.stream()
        for n in (1, 2):
            params = {"progressToken": request.message["params"]["_meta"]["progressToken"], "progress": n}
            wire.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        wire.event(result_of(request, text("hello")))
        wire.end()

    seen = []
    with talking(handle) as (_site, client):
        client.call_tool("a", on_progress=lambda n, *_: seen.append((n, threading.current_thread())))
    assert seen == [(1, threading.current_thread()), (2, threading.current_thread())]


def test_futures_are_read_by_workers():
    with talking(streamed) as (_site, client):
        pending = [client.submit("tools/call", {"name": "a"}) for _ in range(5)]
        assert [p.result(PATIENCE).text for p in pending] == ["hello"] * 5


def _json(body, status=200):
    return lambda request, wire: wire.answer(status, body, JSON)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b'{"jsonrpc": "2.0", "id": 1', "not JSON"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a": NaN}', "NaN"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"jsonrpc": "2.0", "id": 999, "result": {}}', "no answer to this request"),
        (b'{"jsonrpc": "2.0", "result": {}}', "no answer to this request"),
        (b'{"jsonrpc": "2.0", "method": "notifications/x"}', "no answer to this request"),
        (b'{"id": 1}', "no answer to this request"),
        (b"{}", "no answer to this request"),
        (b"[]", "no answer to this request"),
        (b"7", "no answer to this request"),
        (b"null", "no answer to this request"),
    ],
)
def test_a_body_that_is_no_answer_is_an_error_at_once_with_status_and_url(body, said):
    with pytest.raises(InvalidResponse, match=rf"server at http://127.0.0.1:\d+/mcp, status 200, .*{said}"):
        called(_json(body))


def test_what_should_be_an_answer_and_is_none_says_why():
    def handle(request, wire):
        wire.json({"jsonrpc": "2.0", "id": request.message["id"], "result": 7})

    with pytest.raises(InvalidResponse, match="not an object"):
        called(handle)

    def neither(request, wire):
        wire.json({"jsonrpc": "2.0", "id": request.message["id"]})

    with pytest.raises(InvalidResponse, match="a method, or a result"):
        called(neither)


def test_an_answer_in_a_batch_is_found_where_batches_are():
    def handle(request, wire):
        wire.json([result_of(request, text("hello"))])

    assert called(handle, "2025-03-26").text == "hello"
    with pytest.raises(InvalidResponse):
        called(handle, "2025-06-18")


def test_an_answer_that_is_too_long_is_an_error_of_this_request_alone():
    def long(request, wire):
        wire.result(request, text("x" * 20_000))

    with talking(only("tools/call", long), max_message_bytes=10_000) as (_site, client):
        with pytest.raises(InvalidResponse, match="longer than 10000"):
            client.call_tool("a")
        assert client.request("prompts/unknown").text == "hello"


# ---------------------------------------------------------------------------------- statuses


@pytest.mark.parametrize("status", [200, 400, 404, 409, 500, 503])
@pytest.mark.parametrize("with_id", [True, False])
def test_a_json_rpc_error_is_one_whatever_the_status(status, with_id):
    def handle(request, wire):
        error = {"code": -32602, "message": "no such tool", "data": {"x": 1}}
        wire.json(
            {"jsonrpc": "2.0", "id": request.message["id"] if with_id else None, "error": error},
            status=status,
        )

    with pytest.raises(ErrorResponse, match="no such tool") as refused:
        called(handle)
    assert (refused.value.code, refused.value.data) == (-32602, {"x": 1})
    assert getattr(refused.value, "status", 200) == status


@pytest.mark.parametrize("head", ["Content-Length: 100", "Content-Encoding: gzip\r\nContent-Length: 4"])
def test_a_refusal_whose_body_breaks_off_or_cannot_be_read_says_its_status_and_its_url(head):
    def handle(request, wire):
        wire.send(f"HTTP/1.1 401 Unauthorized\r\n{JSON}\r\n{head}\r\n\r\nbody".encode())
        wire.close()

    with pytest.raises(HttpError, match=r"http://127.0.0.1:\d+/mcp answered with HTTP status 401"):
        called(handle)


def test_an_error_of_another_request_is_not_taken_for_this_ones():
    with pytest.raises(HttpError, match="status 400"):
        called(_json(b'{"jsonrpc": "2.0", "id": 12345, "error": {"code": 1, "message": "x"}}', 400))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "status 400: why"),
        (401, r"auth="),
        (403, "does not allow"),
        (404, "no MCP at this URL"),
        (405, "does not take this method at this URL"),
        (406, "cannot answer"),
        (413, "status 413: why"),
        (415, "does not take JSON"),
        (500, "status 500: why"),
        (502, "status 502: why"),
    ],
)
def test_a_status_is_an_error_that_says_what_it_means(status, said):
    with pytest.raises(HttpError, match=said) as refused:
        called(lambda request, wire: wire.answer(status, b"why", "Content-Type: text/plain"))
    assert refused.value.status == status
    assert isinstance(refused.value, LocalError)


def test_a_redirect_elsewhere_says_where_to():
    with pytest.raises(HttpError, match=r"status 307: it redirects to http://other.invalid/mcp") as refused:
        called(lambda request, wire: wire.answer(307, b"", "Location: http://other.invalid/mcp"))
    assert refused.value.status == 307


def test_a_redirect_within_the_server_is_followed():
    def handle(request, wire):
        if request.target == "/mcp":
            wire.answer(307, b"", "Location: /mcp/")
        else:
            plain(request, wire)

    assert called(handle).text == "hello"


# ------------------------------------------------------------------------ connections that end


def _closes_before(request, wire):
    wire.close()


def _closes_within_json(request, wire):
    wire.head(200, JSON, "Content-Length: 100")
    wire.send(b'{"jsonrpc"')
    wire.close()


def _closes_within_stream(request, wire):
    wire.stream()
    wire.chunk(b'data: {"jsonrpc": "2.0"')
    wire.close()


def _ends_stream_early(request, wire):
    wire.stream()
    wire.event({"jsonrpc": "2.0", "method": "notifications/x"})
    wire.end()


@pytest.mark.parametrize(
    ("handle", "said"),
    [
        (_closes_before, "closed the connection before it answered"),
        (_closes_within_json, "closed the connection within its answer"),
        (_closes_within_stream, r"tools/call: the stream from http\S+/mcp ended without the answer"),
        (_ends_stream_early, r"tools/call: the stream from http\S+/mcp ended without the answer"),
    ],
)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_closing_before_and_within_the_answer_fails_this_request_alone(handle, said, revision):
    with talking(only("tools/call", handle), revision) as (_site, client):
        with pytest.raises(ConnectionClosed, match=said):
            client.call_tool("a")
        assert client.request("prompts/unknown").text == "hello"


def test_closing_after_the_answer_is_no_fault():
    def handle(request, wire):
        plain(request, wire)
        wire.close()

    assert called(handle).text == "hello"


def test_a_server_that_is_not_there_is_said_so():
    with web(plain) as site:
        url = site.url
    with pytest.raises(ConnectionClosed, match=r"no connection to 127\.0\.0\.1"):
        connect(url)


def _loses_second(method):
    """Answers the first, and ends the kept connection at the second without a word."""

    def handle(request, wire):
        same = [r for r in wire.site.requests if r.rpc == method]
        if request.rpc == method and len(same) == 2:
            wire.close()
        elif method.endswith("/list"):
            wire.result(
                request, {"resultType": "complete", "prompts": [], "ttlMs": 0, "cacheScope": "private"}
            )
        else:
            plain(request, wire)

    return handle


def test_what_may_be_done_twice_is_sent_again_if_a_kept_connection_was_too_old():
    with talking(_loses_second("prompts/list")) as (site, client):
        client.list_prompts()
        assert client.list_prompts() == []
        assert len(site.of("prompts/list")) == 3


def test_a_call_is_never_sent_twice():
    with talking(_loses_second("tools/call")) as (site, client):
        client.call_tool("a")
        with pytest.raises(ConnectionClosed, match="before it answered"):
            client.call_tool("a")
        assert len(site.of("tools/call")) == 2


# ------------------------------------------------------------------------------- giving up


def _silent(request, wire):
    gone.append(wire.gone())


def _silent_stream(request, wire):
    wire.stream()
    wire.chunk(b": hello\n\n")
    gone.append(wire.gone())


gone: list[bool] = []


@pytest.fixture(autouse=True)
def _nobody_gone():
    gone.clear()


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-explicit-cancel",
    "basic/patterns/cancellation/timeout-cancels-by-transport",
    "basic/patterns/cancellation/http-no-cancelled-message",
)
@pytest.mark.parametrize("handle", [_silent, _silent_stream])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", MODERN])
def test_a_time_out_lets_go_of_the_answer_and_says_so_where_that_is_not_clear(revision, handle):
    def has_arrived(seconds):
        gone.clear()
        with talking(only("tools/call", handle), revision) as (site, client):
            start = time.monotonic()
            with pytest.raises(RequestTimeout, match=rf"no answer within {seconds:g} s"):
                client.call_tool("a", timeout=seconds)
            if not site.of("tools/call"):
                return False
            assert time.monotonic() - start < PATIENCE
            assert eventually(lambda: True in gone)
            assert client.request("prompts/unknown").text == "hello"
            if revision == MODERN:
                assert site.of("notifications/cancelled") == []
            else:
                site.asked(lambda r: r.rpc == "notifications/cancelled")
                told = site.of("notifications/cancelled")
                number = site.of("tools/call")[0].message["id"]
                assert [t.message["params"]["requestId"] for t in told] == [number]
            return True

    assert any(map(has_arrived, LIMITS))


@pytest.mark.spec("basic/patterns/cancellation/http-no-cancelled-message")
@pytest.mark.parametrize("handle", [_silent, _silent_stream])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_future_that_is_cancelled_lets_go_of_the_answer(revision, handle):
    with talking(only("tools/call", handle), revision) as (site, client):
        pending = client.submit("tools/call", {"name": "a"})
        site.asked(lambda r: r.rpc == "tools/call")
        assert pending.cancel()
        assert eventually(lambda: gone == [True])
        if revision != MODERN:
            site.asked(lambda r: r.rpc == "notifications/cancelled")
        assert len(site.of("notifications/cancelled")) == (revision != MODERN)


def test_a_cancellation_may_take_longer_than_its_caller_waits(monkeypatch):
    """A new TLS connection over a slow link takes longer than that."""
    headers, has_gone_on = StreamableHttp.headers, threading.Event()

    def slowly(sender, method, *arguments):
        if method == "notifications/cancelled":
            assert has_gone_on.wait(PATIENCE)
        return headers(sender, method, *arguments)

    monkeypatch.setattr(StreamableHttp, "headers", slowly)
    with talking(only("tools/call", _silent), "2025-11-25") as (site, client):
        pending = client.submit("tools/call", {"name": "a"})
        site.asked(lambda r: r.rpc == "tools/call")
        assert pending.cancel()
        has_gone_on.set()
        assert site.asked(lambda r: r.rpc == "notifications/cancelled")


def test_a_cancellation_is_sent_with_the_headers_of_its_caller():
    """A function for headers may look at a context variable."""
    who = contextvars.ContextVar("who", default="nobody")
    who.set("ann")
    more = {"headers": lambda: {"X-Who": who.get()}}
    with talking(only("tools/call", _silent), "2025-11-25", **more) as (site, client):
        pending = client.submit("tools/call", {"name": "a"})
        site.asked(lambda r: r.rpc == "tools/call")
        assert pending.cancel()
        assert site.asked(lambda r: r.rpc == "notifications/cancelled").headers["x-who"] == "ann"


def test_a_cancellation_that_waits_for_too_long_is_not_sent(monkeypatch):
    """The request was given up long ago, and others wait behind it."""
    monkeypatch.setattr(sending, "CANCEL_SECONDS", 0.0)
    with talking(only("tools/call", _silent), "2025-11-25") as (site, client):
        pending = client.submit("tools/call", {"name": "a"})
        site.asked(lambda r: r.rpc == "tools/call")
        assert pending.cancel()
        assert client.request("prompts/unknown").text == "hello"
    assert site.of("notifications/cancelled") == []


def test_a_request_that_waits_for_its_turn_is_given_up_without_a_word(monkeypatch):
    """The server has not seen it: there is nothing to cancel."""
    with talking(only("tools/call", _silent), "2025-11-25") as (site, client):
        exchanges, waits = client.asker.connection.outbox.exchanges, threading.Event()
        exchanges.limit = 1
        first = client.submit("tools/call", {"name": "a"})
        site.asked(lambda r: r.rpc == "tools/call")
        wait = exchanges._wait
        monkeypatch.setattr(exchanges, "_wait", lambda exchange: waits.set() or wait(exchange))
        second = client.submit("tools/call", {"name": "a"})
        assert waits.wait(PATIENCE)
        assert second.cancel()
        assert first.cancel()
        site.asked(lambda r: r.rpc == "notifications/cancelled")
        told = [r.message["params"]["requestId"] for r in site.of("notifications/cancelled")]
        assert told == [site.of("tools/call")[0].message["id"]]
        assert len(site.of("tools/call")) == 1


def test_a_future_whose_time_is_up_lets_go_of_the_answer():
    def has_arrived(seconds):
        gone.clear()
        with talking(only("tools/call", _silent_stream)) as (site, client):
            with pytest.raises(RequestTimeout):
                client.submit("tools/call", {"name": "a"}, timeout=seconds).result(PATIENCE)
            if not site.of("tools/call"):
                return False
            assert eventually(lambda: True in gone)
            return True

    assert any(map(has_arrived, LIMITS))


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_ctrl_c_lets_go_of_the_answer(revision):
    with talking(only("tools/call", _silent_stream), revision) as (site, client):

        def interrupt():
            site.asked(lambda r: r.rpc == "tools/call")
            signal.pthread_kill(main, signal.SIGINT)

        main = threading.main_thread().ident
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("a")
        thread.join()
        assert eventually(lambda: gone == [True])
        assert client.request("prompts/unknown").text == "hello"


def test_a_callback_that_fails_lets_go_of_the_answer():
    def handle(request, wire):
        wire.stream()
        params = {"progressToken": request.message["params"]["_meta"]["progressToken"], "progress": 1}
        wire.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        gone.append(wire.gone())

    with talking(only("tools/call", handle)) as (_site, client):
        with pytest.raises(ZeroDivisionError):
            client.call_tool("a", on_progress=lambda *report: 1 / 0)
        assert eventually(lambda: gone == [True])


def test_a_server_that_does_not_take_the_cancellation_is_not_waited_for():
    def handle(request, wire):
        if request.rpc == "notifications/cancelled":
            wire.answer(500)
        else:
            opened(only("tools/call", _silent), "2025-11-25")(request, wire)

    def has_arrived(seconds):
        with web(handle) as site, connect(site.url, revision="2025-11-25") as client:
            with pytest.raises(RequestTimeout):
                client.call_tool("a", timeout=seconds)
            if not site.of("tools/call"):
                return False
            site.asked(lambda r: r.rpc == "notifications/cancelled")
            return True

    assert any(map(has_arrived, LIMITS))


@pytest.mark.parametrize("handle", [_silent, _silent_stream])
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_close_returns_at_once_and_ends_all_that_waits(revision, handle):
    outcome = []

    def wait(client):
        try:
            client.call_tool("a")
        except ConnectionClosed as problem:
            outcome.append(str(problem))

    with web(opened(only("tools/call", handle), revision, SESSION)) as site:
        client = connect(site.url, revision=revision)
        threads = [threading.Thread(target=wait, args=[client]) for _ in range(3)]
        for thread in threads:
            thread.start()
        pending = [client.submit("tools/call", {"name": "a"}) for _ in range(3)]
        assert eventually(lambda: len(site.of("tools/call")) == 6)
        start = time.monotonic()
        client.close()
        assert time.monotonic() - start < PATIENCE / 2
        for thread in threads:
            thread.join(PATIENCE)
        for each in pending:
            with pytest.raises(ConnectionClosed, match="this client was closed"):
                each.result(PATIENCE)
        assert outcome == ["this client was closed"] * 3
        with pytest.raises(ConnectionClosed, match="this client was closed"):
            client.call_tool("a")
        client.close()


def test_close_ends_the_connections_that_were_kept():
    with talking(plain) as (site, client):
        assert client.call_tool("a").text == "hello"
        client.close()
        assert site.wires
        assert all(wire.gone() for wire in site.wires)


def test_a_forked_child_does_not_end_the_session_of_its_parent():
    with talking(plain, "2025-11-25", SESSION) as (site, client):
        client.asker.connection.is_inherited = True
        client.asker.connection.end("the child is closed")
        client.asker.connection.is_inherited = False
        assert client.call_tool("a").text == "hello"
        assert [r.method for r in site.requests if r.method == "DELETE"] == []


@pytest.mark.spec("basic/transports/streamable-http/session-delete")
@pytest.mark.parametrize("status", [200, 204, 404, 405, 500])
def test_a_session_is_ended_by_delete_whatever_the_server_says_to_that(status, monkeypatch):
    monkeypatch.setattr(sessions, "PARTING_SECONDS", PATIENCE)

    def handle(request, wire):
        if request.method == "DELETE":
            wire.answer(status)
        else:
            opened(plain, "2025-11-25", SESSION)(request, wire)

    with web(handle) as site:
        with connect(site.url, revision="2025-11-25", headers={"Authorization": "Bearer t"}) as client:
            assert client.session_id == SESSION
        assert client.session_id is None
        (last,) = [r for r in site.requests if r.method == "DELETE"]  # the GET may be read after it
        told = [last.headers[name] for name in ("mcp-session-id", "authorization", "mcp-protocol-version")]
        assert told == [SESSION, "Bearer t", "2025-11-25"]


@pytest.mark.parametrize("how", [_silent, _closes_before])
def test_a_server_that_does_not_answer_the_delete_is_not_waited_for_long(how, monkeypatch):
    monkeypatch.setattr(sessions, "PARTING_SECONDS", 0.1)

    def handle(request, wire):
        if request.method == "DELETE":
            how(request, wire)
        else:
            opened(plain, "2025-11-25", SESSION)(request, wire)

    with web(handle) as site:
        client = connect(site.url, revision="2025-11-25")
        start = time.monotonic()
        client.close()
        assert time.monotonic() - start < PATIENCE / 2


@pytest.mark.spec("basic/patterns/cancellation/ignore-late-response")
def test_a_late_answer_is_ignored():
    given_up = threading.Event()

    def handle(request, wire):
        given_up.wait(PATIENCE)
        plain(request, wire)

    with talking(only("tools/call", handle)) as (_site, client):
        with pytest.raises(RequestTimeout):
            client.call_tool("a", timeout=0.05)
        given_up.set()
        assert client.request("prompts/unknown").text == "hello"


@pytest.mark.parametrize("line", [b":\n\n" * 200, b'data: {"jsonrpc":"2.0","method":"x/y"}\n\n' * 50])
def test_a_server_that_never_ceases_to_send_is_late_all_the_same(line):
    def handle(request, wire):
        wire.stream()
        with contextlib.suppress(OSError):
            while not wire.site.over.is_set():
                wire.chunk(line)

    site = talking(only("tools/call", handle), MODERN, SESSION)
    with site as (_, client), pytest.raises(RequestTimeout):
        client.call_tool("echo", timeout=0.3)


# ------------------------------------------------------------ what a legacy server asks and says


def test_a_server_asks_on_the_stream_and_gets_its_answer_by_post():
    answers = []

    def handle(request, wire):
        if request.rpc is None:  # an answer of the client's
            answers.append(request)
            wire.answer(202)
            got.set()
        else:
            wire.stream()
            params = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
            wire.event({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": params})
            wire.event({"jsonrpc": "2.0", "id": "q-2", "method": "ping"})
            got.wait(PATIENCE)
            wire.event(result_of(request, text("hello")))
            wire.end()

    got = threading.Event()
    with talking(handle, "2025-11-25", SESSION, elicitation=lambda asked: {}) as (_site, client):
        assert client.call_tool("a").text == "hello"
        assert eventually(lambda: len(answers) == 2)
        found = {r.message["id"]: r for r in answers}
        assert found["q-1"].message["result"]["action"] == "accept"
        assert found["q-2"].message["result"] == {}
        for request in answers:
            assert request.headers["mcp-session-id"] == SESSION
            assert request.headers["mcp-protocol-version"] == "2025-11-25"


def test_a_server_that_does_not_take_an_answer_is_named_in_the_log(caplog):
    def handle(request, wire):
        if request.rpc is None:
            wire.answer(400, b"not now", "Content-Type: text/plain")
            return
        wire.stream()
        wire.event({"jsonrpc": "2.0", "id": "q-2", "method": "ping"})
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle, "2025-11-25") as (_site, client), caplog.at_level(logging.WARNING):
        assert client.call_tool("a").text == "hello"
        assert eventually(lambda: "did not take a response" in caplog.text)
    assert "not now" in caplog.text


@pytest.mark.spec(
    "basic/transports/streamable-http/client-no-responses", "basic/patterns/index/client-sends-no-responses"
)
def test_a_modern_server_gets_no_answers():
    def handle(request, wire):
        wire.stream()
        wire.event({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": {}})
        wire.event({"jsonrpc": "2.0", "id": "q-2", "method": "ping"})
        wire.event({"not": "a message"})
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle, elicitation=lambda asked: {}) as (site, client):
        assert client.call_tool("a").text == "hello"
        client.request("tools/unknown")
        assert all(r.rpc for r in site.requests)


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_notification_that_is_not_taken_is_an_error_for_whoever_sent_it(revision):
    def handle(request, wire):
        if request.rpc == "notifications/mine":
            wire.answer(400, b"no", "Content-Type: text/plain")
        else:
            plain(request, wire)

    with talking(handle, revision) as (_site, client), pytest.raises(HttpError, match="status 400: no"):
        client.notify("notifications/mine")


def test_a_notification_is_waited_for_no_longer_than_a_request():
    def handle(request, wire):
        if request.rpc == "notifications/mine":
            wire.gone()
        else:
            plain(request, wire)

    with talking(handle) as (_site, client):
        client.asker.connection.timeout = 0.2
        with pytest.raises(RequestTimeout, match=r"did not take a message within 0\.2 s"):
            client.notify("notifications/mine")
        client.close()
        with pytest.raises(ConnectionClosed, match="closed"):
            client.notify("notifications/mine")


def test_a_pong_that_is_not_taken_holds_nothing_up():
    def handle(request, wire):
        if request.rpc is None:
            wire.gone()
            return
        wire.stream()
        wire.event({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle, "2025-11-25") as (site, client):
        start = time.monotonic()
        assert client.call_tool("a").text == "hello"
        assert time.monotonic() - start < PATIENCE / 2
        site.asked(lambda r: r.message.get("id") == "p")


def test_answers_that_nobody_takes_are_not_kept_without_end(caplog, monkeypatch):
    def handle(request, wire):
        if request.rpc is None:
            wire.gone()
            return
        wire.stream()
        for n in range(20):
            wire.event({"jsonrpc": "2.0", "id": f"p{n}", "method": "ping"})
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle, "2025-11-25") as (_site, client):
        monkeypatch.setattr(client.asker.connection.outbox._senders._jobs, "max_jobs", 3)
        assert client.call_tool("a").text == "hello"
        assert "too many wait" in caplog.text


def test_calls_that_take_all_the_room_leave_some_for_the_answers_that_they_wait_for():
    """A server that asks something in each of them."""
    answered = threading.Semaphore(0)

    def handle(request, wire):
        if request.rpc is None:
            wire.answer(202)
            answered.release()
            return
        wire.stream()
        wire.event({"jsonrpc": "2.0", "id": f"q{request.message['id']}", "method": "roots/list"})
        answered.acquire(timeout=PATIENCE)
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle, "2025-11-25", roots=[], timeout=PATIENCE) as (_site, client):
        client.asker.connection.outbox.exchanges.limit = 5
        pending = [client.submit("tools/call", {"name": "a"}) for _ in range(12)]
        assert [p.result(PATIENCE).text for p in pending] == ["hello"] * 12


def test_what_is_said_while_a_question_is_answered_does_not_end_the_stream_it_was_asked_on():
    """It goes out by the way of the request, as the answer does; only a cancellation gives the request up."""

    def ask(params, ctx):
        ctx.notify("notifications/message", {"level": "info", "data": "one moment"})
        return {"action": "cancel"}

    def handle(request, wire):
        if request.rpc != "tools/call":
            wire.answer(202)
            return
        wire.stream()
        params = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
        wire.event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
        wire.site.asked(lambda r: r.message.get("id") == "q")
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle, "2025-11-25", elicitation=lambda asked: {}) as (site, client):
        client.on_request("elicitation/create")(ask)
        assert client.call_tool("a").text == "hello"
        assert len(site.of("notifications/message")) == 1
        assert [r.message["result"] for r in site.requests if r.message.get("id") == "q"] == [
            {"action": "cancel"}
        ]


@pytest.mark.parametrize("how", ["cancel", "break"])
def test_a_question_on_a_stream_that_nobody_reads_any_more_is_taken_back(how):
    asked, over = threading.Event(), threading.Event()

    def ask(params, ctx):
        asked.set()
        while not ctx.is_over:
            time.sleep(0.005)
        over.set()
        return {"action": "cancel"}

    def handle(request, wire):
        wire.stream()
        params = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
        wire.event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
        if how == "break":
            asked.wait(PATIENCE)
            wire.close()
        wire.gone()

    with talking(only("tools/call", handle), "2025-11-25", elicitation=lambda asked: {}) as (site, client):
        client.on_request("elicitation/create")(ask)
        pending = client.submit("tools/call", {"name": "a"})
        assert asked.wait(PATIENCE)
        if how == "cancel":
            assert pending.cancel()
        assert over.wait(PATIENCE)
        assert not [r for r in site.requests if r.message.get("id") == "q"]


def test_a_body_that_is_no_message_is_not_answered():
    def handle(request, wire):
        if request.rpc == "tools/call":
            wire.json({"jsonrpc": "2.0", "id": [], "method": "x"})
        else:
            wire.gone()

    with talking(handle, "2025-11-25") as (site, client):
        start = time.monotonic()
        with pytest.raises(InvalidResponse, match="no answer"):
            client.call_tool("a")
        assert time.monotonic() - start < PATIENCE / 2
        assert all(r.rpc for r in site.requests if r.method == "POST")


# --------------------------------------------------------------------------------- limits


def test_more_requests_than_can_wait_are_refused(monkeypatch):
    with talking(only("tools/call", _silent)) as (site, client):
        monkeypatch.setattr(client.asker.connection.outbox._askers._jobs, "max_jobs", 0)
        monkeypatch.setattr(client.asker.connection.outbox._askers, "limit", 1)
        first = client.submit("tools/call", {"name": "a"})
        site.asked(lambda r: r.rpc == "tools/call")
        with pytest.raises(LocalError, match="too many requests"):
            client.submit("tools/call", {"name": "b"}).result(PATIENCE)
        first.cancel()


def test_a_fault_of_ours_is_the_end_of_one_request_only(monkeypatch, caplog):
    with talking(plain) as (_site, client):
        monkeypatch.setattr(client.asker.connection.outbox, "headers", lambda *args: 1 / 0)
        with pytest.raises(LocalError, match="ZeroDivisionError"):
            client.call_tool("a")
        monkeypatch.undo()
        assert client.call_tool("a").text == "hello"


def test_a_request_that_was_cancelled_before_it_was_sent_is_not_sent():
    with talking(plain) as (site, client):
        connection = client.asker.connection

        def prepare(call):
            early.append(call)

        early = []
        real = connection.transmit

        def transmit(call, params, line):
            connection.cancel(call, "not any more")
            real(call, params, line)

        connection.transmit = transmit
        with pytest.raises(RequestCancelled):
            connection.request("tools/call", {"name": "a", "_meta": META})
        assert site.of("tools/call") == [] and site.of("notifications/cancelled") == []


def test_what_calls_itself_a_stream_and_is_none_has_no_answer():
    with pytest.raises(ConnectionClosed, match="ended without the answer"):
        called(lambda request, wire: wire.answer(200, b"x", STREAM))


def test_a_message_that_cannot_be_handled_is_not_the_end_of_its_stream(monkeypatch, caplog):
    def handle(request, wire):
        wire.stream()
        wire.event({"jsonrpc": "2.0", "method": "notifications/x"})
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle) as (_site, client):
        monkeypatch.setattr(client.asker.answering, "notice", lambda *args: 1 / 0)
        assert client.call_tool("a").text == "hello"
    assert "could not be handled" in caplog.text


def test_a_request_of_a_session_that_is_over_is_sent_again_in_the_next():
    sessions = iter(["s-1", "s-2"])

    def handle(request, wire):
        if request.rpc == "initialize":
            opened(handle, "2025-11-25", next(sessions))(request, wire)
        elif request.rpc == "tools/call" and request.headers["mcp-session-id"] == "s-1":
            wire.answer(404)
        else:
            opened(plain, "2025-11-25")(request, wire)

    with web(handle) as site, connect(site.url, revision="2025-11-25") as client:
        assert client.call_tool("a").text == "hello"
        assert client.session_id == "s-2"


def test_a_server_that_asks_what_there_is_not_gets_an_error_for_it():
    def handle(request, wire):
        if request.rpc is None:
            wire.answer(202)
            return
        wire.stream()
        wire.event({"jsonrpc": "2.0", "id": 7, "method": "no/such", "params": []})
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle, "2025-11-25") as (site, client):
        assert client.call_tool("a").text == "hello"
        refused = site.asked(lambda r: r.message.get("id") == 7)
        assert refused.message["error"]["code"] == -32602


def test_those_who_wait_for_room_are_not_in_the_way_of_those_who_read():
    begun, others = threading.Event(), threading.Event()

    def handle(request, wire):
        begun.set()
        wire.stream()
        others.wait(PATIENCE)
        wire.event(result_of(request, text("hello")))
        wire.end()

    with talking(handle) as (_site, client):
        client.asker.connection.outbox.exchanges.limit = 1
        client.asker.connection.outbox._askers.limit = 1
        seen = []
        caller = threading.Thread(
            target=lambda: seen.append(client.call_tool("a", on_progress=lambda *report: None).text)
        )
        caller.start()
        assert begun.wait(PATIENCE)
        pending = [client.submit("tools/call", {"name": "b"}) for _ in range(3)]
        others.set()
        caller.join(PATIENCE)
        assert seen == ["hello"]
        assert [p.result(PATIENCE).text for p in pending] == ["hello"] * 3


@pytest.mark.parametrize("revision", [None, "2025-03-26", "2025-11-25", "2026-07-28"])
def test_who_is_denied_learns_the_status_and_the_url_without_the_query(revision):
    """The body is a JSON-RPC error: neither it nor the status counts alone."""

    def deny(request):
        raise Denied("bad token")

    with endpoint(Server("closed"), authenticate=deny) as at:
        url = f"http://127.0.0.1:{at.port}/mcp"
        with pytest.raises(mcp_ref.HttpError) as refused:
            connect(f"{url}?key=secret", revision=revision, headers={"Authorization": "Bearer wrong"})
    problem = refused.value
    assert isinstance(problem, mcp_ref.ErrorResponse)
    assert (problem.status, problem.url, problem.code, problem.message) == (401, url, -32600, "bad token")
    assert str(problem) == f"bad token (-32600); HTTP status 401 from {url}"


@pytest.mark.parametrize("status", [403, 503])
def test_a_call_that_is_denied_says_so_too(status):
    def deny(request):
        if request.headers.get("Mcp-Method") == "tools/call":
            raise Denied("not now", status=status)

    with (
        endpoint(Server("closed", options=ServerOptions(offers=["tools"])), authenticate=deny) as at,
        connect(f"http://127.0.0.1:{at.port}/mcp", revision="2026-07-28") as client,
    ):
        later = client.submit("tools/call", {"name": "a"})
        for call in (lambda: client.call_tool("a"), lambda: later.result(10)):
            with pytest.raises(mcp_ref.HttpError, match=f"HTTP status {status} from http://127") as refused:
                call()
            assert refused.value.status == status
