"""The line to a URL: opened once, asked by many, closed for good; old servers have another one behind it."""

import threading
import time

import pytest
from peers import LEGACY, MODERN, PATIENCE, eventually
from web import opened, talking, text, web

from mcp_ref import Server, connect
from mcp_ref.api.http_transport import HttpLine
from mcp_ref.basic.transports.streamable_http.sending import StreamableHttp, UrlConnection
from mcp_ref.runtime.errors import ConnectionClosed, InvalidResponse, LocalError


def rest(request, wire):
    if "id" in request.message:
        wire.result(request, text("hello"))
    else:
        wire.answer(202)


def test_a_server_that_comes_back_is_asked_again_without_a_word():
    with talking(rest) as (site, client):
        assert client.call_tool("a").text == "hello"
        for wire in site.wires:
            wire.close()
        assert client.call_tool("a").text == "hello"


def test_a_request_that_fails_says_nothing_of_the_next():
    def handle(request, wire):
        if request.message["params"]["name"] == "bad":
            wire.close()
        else:
            rest(request, wire)

    with talking(handle) as (_site, client):
        for _ in range(3):
            with pytest.raises(ConnectionClosed):
                client.call_tool("bad")
            assert client.call_tool("good").text == "hello"


@pytest.mark.parametrize("revision", LEGACY)
def test_only_the_legacy_era_has_sessions_and_a_stream_of_its_own(revision):
    with talking(rest, revision, "s-1") as (_site, client):
        assert client.session_id == "s-1"
        assert isinstance(client.asker.connection, UrlConnection)
        assert isinstance(client.asker.connection.outbox, StreamableHttp)
    assert client.session_id is None
    with talking(rest, MODERN, "s-1") as (_site, client):
        assert client.session_id is None


def test_a_server_of_this_process_has_no_session():
    with connect(Server("x", version="1")) as client:
        assert client.session_id is None
        client.asker.line.listen()
        assert not client.asker.repeats_arguments


def test_arguments_are_repeated_only_in_the_modern_era():
    with talking(rest) as (_site, client):
        assert client.asker.repeats_arguments
    with talking(rest, "2025-11-25") as (_site, client):
        assert not client.asker.repeats_arguments


def test_a_session_that_is_opened_anew_is_listened_to_anew():
    sessions = iter(["s-1", "s-2"])

    def handle(request, wire):
        if request.rpc == "initialize":
            opened(rest, "2025-11-25", next(sessions))(request, wire)
        elif request.headers["mcp-session-id"] == "s-1" and request.rpc == "tools/call":
            wire.answer(404)
        else:
            opened(rest, "2025-11-25")(request, wire)

    with web(handle) as site, connect(site.url, revision="2025-11-25") as client:
        client.set_log_level("error")
        with client.listen(resources=["x://a"]) as changes:
            assert client.call_tool("a").text == "hello"
            assert changes.next(PATIENCE).uri == "x://a"
        assert eventually(lambda: len(site.of("logging/setLevel")) == 2)
        assert [r.headers["mcp-session-id"] for r in site.of("logging/setLevel")] == ["s-1", "s-2"]
        assert [r.headers["mcp-session-id"] for r in site.of("resources/subscribe")] == ["s-1", "s-2"]
        site.asked(lambda r: r.method == "GET" and r.headers["mcp-session-id"] == "s-2")


def test_what_was_opened_in_vain_leaves_nothing():
    with web(lambda request, wire: wire.answer(500)) as site, pytest.raises(LocalError, match="500"):
        connect(site.url)


def test_a_server_that_is_no_old_one_either_is_told_of_by_what_it_said_first():
    def handle(request, wire):
        wire.answer(405, b"no POST here", "Content-Type: text/plain")

    with web(handle) as site:
        with pytest.raises(LocalError, match=r"status 405.*no POST here"):
            connect(site.url)
        assert site.requests[-1].method == "GET"


def test_an_old_stream_that_is_broken_is_told_of_as_such():
    def handle(request, wire):
        if request.method == "GET":
            wire.head(200, "Content-Type: text/event-stream")
            wire.send(b"event: endpoint\ndata: http://elsewhere.invalid/\n\n")
            wire.gone()
        else:
            wire.answer(405)

    with web(handle) as site, pytest.raises(InvalidResponse, match="not on the server"):
        connect(site.url)


def test_an_old_server_is_talked_to_in_its_own_way():
    def handle(request, wire):
        if request.method != "GET":
            wire.answer(404)
            return
        wire.head(200, "Content-Type: text/event-stream")
        wire.send(b"event: endpoint\ndata: /messages\n\n")
        wire.gone()

    lines = []

    class Line(HttpLine):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            lines.append(self)

    with web(handle) as site:
        import mcp_ref.api.http_transport as module

        real, module.HttpLine = module.HttpLine, Line
        try:
            with pytest.raises(LocalError):
                connect(site.url, timeout=PATIENCE)
        finally:
            module.HttpLine = real
        posted = [r.target for r in site.requests if r.method == "POST"]
        assert "/messages" in posted
        assert not lines[0].repeats_arguments
        assert lines[0].alive() is lines[0].connection is not lines[0]._http


def test_threads_that_wait_are_let_go_when_another_closes():
    def handle(request, wire):
        wire.stream()
        wire.gone()

    outcome = []

    def wait():
        with pytest.raises(ConnectionClosed, match="this client was closed"):
            client.call_tool("a")
        outcome.append(1)

    with web(opened(handle)) as site:
        client = connect(site.url)
        threads = [threading.Thread(target=wait) for _ in range(5)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: len(site.of("tools/call")) == 5)
        start = time.monotonic()
        client.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert time.monotonic() - start < PATIENCE / 2
        assert outcome == [1] * 5


@pytest.mark.parametrize("revision", LEGACY[1:])
def test_a_server_that_does_not_answer_any_more_is_lost_with_the_reason(revision):
    """And all that came with its session."""
    with talking(rest, revision, "s-1") as (_site, client):
        with client.listen(tools=True) as changes:
            client.asker.line.lose("it did not answer a ping")
            with pytest.raises(ConnectionClosed, match="it did not answer a ping"):
                changes.next(PATIENCE)
        with pytest.raises(ConnectionClosed, match="it did not answer a ping"):
            client.call_tool("a")
