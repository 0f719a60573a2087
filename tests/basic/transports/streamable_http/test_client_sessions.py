"""The session of a client over HTTP: opened, named, lost, and opened anew, once for all who notice."""

import logging
import threading

import pytest
from peers import LEGACY, PATIENCE, eventually
from web import opened, talking, text, web

from mcp_ref import connect
from mcp_ref.basic.transports.streamable_http import client_sessions as http_client_sessions
from mcp_ref.basic.transports.streamable_http.answers import HttpError, RefusedByStatus
from mcp_ref.runtime.errors import (
    InvalidResponse,
    RequestTimeout,
)

SESSION = "session-7"


def plain(request, wire):
    """Any request: an empty result, in JSON."""
    if "id" in request.message:
        wire.result(request, text("hello"))
    else:
        wire.answer(202)


@pytest.mark.spec(
    "basic/transports/streamable-http/session-id-echoed",
    "basic/transports/streamable-http/version-header-later-requests",
    "basic/transports/streamable-http/version-header-negotiated",
    "basic/lifecycle/http-version-header",
    "basic/transports/streamable-http/session-id-handled-securely",
)
@pytest.mark.parametrize("revision", LEGACY)
def test_a_session_and_its_revision_are_named_from_initialization_on(revision):
    with talking(plain, revision, SESSION) as (site, client):
        assert client.session_id == SESSION
        client.call_tool("a")
        client.notify("notifications/mine")
        site.asked(lambda r: r.method == "GET")
        client.close()
        first, *others = site.requests
        assert first.rpc == "initialize"
        assert "mcp-session-id" not in first.headers and "mcp-protocol-version" not in first.headers
        assert {r.method for r in others} == {"POST", "GET", "DELETE"}
        date = revision if revision >= "2025-06-18" else None
        for request in others:
            assert request.headers["mcp-session-id"] == SESSION
            assert request.headers.get("mcp-protocol-version") == date
            assert SESSION not in request.target


def test_no_session_is_needed():
    with talking(plain, "2025-11-25") as (site, client):
        client.call_tool("a")
        assert client.session_id is None
        client.close()
        assert not any("mcp-session-id" in r.headers or r.method == "DELETE" for r in site.requests)


@pytest.mark.spec("basic/transports/streamable-http/session-id-handled-securely")
@pytest.mark.parametrize("session", ["with space", "\u00fc", "x" * 5000, "tab\there"])
def test_a_session_id_that_none_may_be_is_refused(session):
    with web(opened(plain, "2025-11-25", session)) as site, pytest.raises(InvalidResponse, match="visible"):
        connect(site.url, revision="2025-11-25")


@pytest.mark.spec("basic/transports/streamable-http/session-id-handled-securely")
@pytest.mark.parametrize("ends", ["with an error", "with words"])
def test_no_log_and_no_description_holds_the_id_of_a_session(caplog, ends):
    """Not of a new session either, and not where the server says the id in its refusals."""
    caplog.set_level(logging.DEBUG)
    ids = ["secret-of-1", "secret-of-2"]
    left = list(ids)

    def handle(request, wire):
        if request.headers["mcp-session-id"] == ids[1]:
            plain(request, wire)
        elif ends == "with an error":
            wire.error(request, -32001, f"there is no session {ids[0]}", status=404)
        else:
            wire.answer(404, f"there is no session {ids[0]}".encode(), "Content-Type: text/plain")

    def serve(request, wire):
        opened(handle, "2025-11-25", left.pop(0) if request.rpc == "initialize" else None)(request, wire)

    with web(serve) as site:
        with connect(site.url, revision="2025-11-25") as client:
            assert client.call_tool("a").text == "hello"
            assert client.session_id == ids[1]
            site.asked(lambda r: r.method == "GET" and r.headers["mcp-session-id"] == ids[1])
            assert "secret" not in f"{client!r} {client} {client.revision} {client.server_info}"
        assert [r.headers["mcp-session-id"] for r in site.requests if r.method == "DELETE"] == [ids[1]]
    assert "opening a new session" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.spec("basic/transports/streamable-http/session-id-handled-securely")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_id_of_a_session_is_not_carried_to_another_server(status):
    with web(plain) as other:

        def elsewhere(request, wire):
            wire.answer(status, b"", f"Location: {other.url}")

        with talking(elsewhere, "2025-11-25", SESSION) as (site, client):
            with pytest.raises(HttpError, match="is not followed"):
                client.call_tool("a")
            assert site.of("tools/call")[0].headers["mcp-session-id"] == SESSION
        assert other.requests == []


class Sessions:
    """A server whose sessions can be ended."""

    def __init__(self, handle=plain, revision="2025-11-25"):
        self.handle, self.revision = handle, revision
        self.number = 0
        self.alive = set()
        self.lock = threading.Lock()
        self.refuses = self.silent = False

    def __call__(self, request, wire):
        if request.rpc == "initialize":
            if self.silent:
                wire.site.over.wait(10)
                return
            if self.refuses:
                wire.answer(503, b"busy", "Content-Type: text/plain")
                return
            with self.lock:
                self.number += 1
                self.alive.add(f"s{self.number}")
                opened(plain, self.revision, f"s{self.number}")(request, wire)
        elif request.headers.get("mcp-session-id") not in self.alive and request.method == "POST":
            error = {"code": -32001, "message": "Session not found"}
            wire.json({"jsonrpc": "2.0", "id": None, "error": error}, status=404)
        else:
            opened(self.handle, self.revision)(request, wire)


@pytest.mark.spec("basic/transports/streamable-http/session-restart-on-404")
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_session_that_is_gone_is_opened_anew_and_the_request_sent_again(revision):
    server = Sessions(revision=revision)
    with web(server) as site, connect(site.url, revision=revision) as client:
        assert client.session_id == "s1"
        server.alive.clear()
        assert client.call_tool("a").text == "hello"
        assert client.session_id == "s2"
        again = site.of("initialize")[1]
        assert "mcp-session-id" not in again.headers
        assert [r.headers["mcp-session-id"] for r in site.of("tools/call")] == ["s1", "s2"]
        assert [r.headers["mcp-session-id"] for r in site.of("notifications/initialized")] == ["s1", "s2"]


def test_many_threads_notice_and_one_opens_the_new_session():
    server = Sessions()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        server.alive.clear()
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(client.call_tool("a").text)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert results == ["hello"] * 8
        assert server.number == 2
        assert len([r for r in site.of("tools/call") if r.headers["mcp-session-id"] == "s2"]) == 8


def test_who_waits_to_subscribe_when_the_session_is_lost_gets_there():
    """The new session is told of what is watched, while the lock of those who subscribe is held."""
    server = Sessions()
    with (
        web(server) as site,
        connect(site.url, revision="2025-11-25", timeout=9) as client,
        client.listen(resources=["x://a"]),
    ):
        server.alive.clear()
        with client.listen(resources=["x://b"]) as changes:
            assert not changes.refused

        def again(r):
            return r.message["params"]["uri"] == "x://a" and r.headers["mcp-session-id"] == "s2"

        assert eventually(lambda: any(map(again, site.of("resources/subscribe"))))


def test_a_new_session_takes_no_longer_than_the_request_that_wants_it():
    server = Sessions()
    with web(server) as site, connect(site.url, revision="2025-11-25", timeout=9) as client:
        server.alive.clear()
        server.silent = True
        with pytest.raises(RequestTimeout):
            client.request("tools/list", timeout=0.2)
        assert len(site.of("initialize")) == 2


def test_a_new_session_is_as_the_old_one_was():
    server = Sessions()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        client.set_log_level("error")
        with client.listen(tools=True, resources=["x://a"]) as changes:
            server.alive.clear()
            client.call_tool("a")

            def sent():
                found = [r for r in site.requests if r.headers.get("mcp-session-id") == "s2"]
                return [(r.rpc, r.message.get("params")) for r in found if r.method == "POST"]

            assert eventually(lambda: ("logging/setLevel", {"level": "error"}) in sent())
            assert eventually(lambda: ("resources/subscribe", {"uri": "x://a"}) in sent())
            assert [c.uri or c.kind for c in (changes.next(9), changes.next(9))] == ["tools", "x://a"]
        site.asked(lambda r: r.method == "GET" and r.headers["mcp-session-id"] == "s2")


def test_a_server_that_ends_every_session_is_given_up():
    server = Sessions()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        for _ in range(http_client_sessions.RENEWALS):
            server.alive.clear()
            client.call_tool("a")
        server.alive.clear()
        with pytest.raises(RefusedByStatus, match="Session not found") as refused:
            client.call_tool("a")
        assert refused.value.status == 404


def test_what_was_opened_anew_a_minute_ago_no_longer_counts():
    server = Sessions()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        for _ in range(http_client_sessions.RENEWALS):
            server.alive.clear()
            client.call_tool("a")
        belonging = client.connection.belonging
        belonging._renewals = [then - 60 for then in belonging._renewals]
        server.alive.clear()
        assert client.call_tool("a").text == "hello"
        assert len(belonging._renewals) == 1


def test_a_session_that_cannot_be_opened_anew_now_may_be_later():
    server = Sessions()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        server.alive.clear()
        server.refuses = True
        with pytest.raises(HttpError, match="503"):
            client.call_tool("a")
        assert client.session_id == "s1"
        server.refuses = False
        assert client.call_tool("a").text == "hello"
        assert client.session_id == "s2"


def test_a_session_that_ends_while_it_is_opened_is_an_error():
    class Unsteady(Sessions):
        def __call__(self, request, wire):
            super().__call__(request, wire)
            if request.rpc == "notifications/initialized" and self.number > 1:
                self.alive.clear()

    server = Unsteady()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        client.set_log_level("error")
        server.alive.clear()
        with pytest.raises(RefusedByStatus, match="Session not found"):
            client.call_tool("a")


def test_whoever_asks_while_a_session_is_opened_waits_for_it_but_not_too_long():
    slow = threading.Event()

    class Slow(Sessions):
        def __call__(self, request, wire):
            if request.rpc == "initialize" and self.number:
                slow.wait(PATIENCE)
            super().__call__(request, wire)

    server = Slow()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        server.alive.clear()
        results = []
        first = threading.Thread(target=lambda: results.append(client.call_tool("a").text))
        first.start()
        assert eventually(lambda: len(site.of("initialize")) == 2)
        with pytest.raises(RequestTimeout):
            client.call_tool("b", timeout=0.1)
        second = threading.Thread(target=lambda: results.append(client.call_tool("c").text))
        second.start()
        slow.set()
        first.join(PATIENCE)
        second.join(PATIENCE)
        assert results == ["hello", "hello"]
        assert not [r for r in site.of("tools/call") if r.message["params"]["name"] == "b"]


def test_without_a_session_404_is_an_error():
    with talking(lambda request, wire: wire.answer(404), "2025-11-25") as (_site, client):
        with pytest.raises(HttpError, match="status 404"):
            client.call_tool("a")
        assert client.session_id is None
