"""basic/transports/streamable_http/sessions: ids, owners, ends, and how many there may be."""

import contextlib
import json
import logging
import re
import threading
from types import SimpleNamespace

import pytest
from choices import for_server
from http_peers import Peer, Reply, endpoint
from peers import LEGACY, MODERN, PATIENCE, eventually, nothing_left
from web import LIMITS, opened, talking, text, web

from mcp_ref import ClientOptions, Context, McpError, Server, ServerOptions, connect
from mcp_ref.basic.transports.streamable_http import sessions as http_sessions
from mcp_ref.basic.transports.streamable_http.http_errors import HttpError, RefusedByStatus
from mcp_ref.basic.transports.streamable_http.responding import HttpStream
from mcp_ref.basic.transports.streamable_http.security import Refused
from mcp_ref.basic.transports.streamable_http.sessions import HttpSession, Sessions, session_owner_of
from mcp_ref.runtime.errors import InvalidResponse, RequestTimeout

REVISION = "2025-11-25"


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


@pytest.fixture
def server():
    server = Server("demo", version="1")
    server.gate = threading.Event()

    @server.tool
    def gated(ctx: Context) -> str:
        while not server.gate.wait(0.01) and not ctx.cancelled:
            pass
        return "cancelled" if ctx.cancelled else "done"

    return server


class Clock:
    """The time of the module, which is the test's."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(http_sessions, "time", clock)
    return clock


@pytest.fixture
def table(server):
    """Sessions without HTTP: `open_one()` adds one."""
    sessions = Sessions(3, 60.0)

    def open_one(owner="address here"):
        sessions.make_room(owner)
        session = HttpSession(server, None, 10_000, owner)
        sessions.add(session)
        return session

    sessions.open_one = open_one
    yield sessions
    sessions.close("the test is over")


# -------------------------------------------------------------------------------------- the id


@pytest.mark.spec(
    "basic/transports/streamable-http/session-id-visible-ascii",
    "basic/transports/streamable-http/session-id-secure",
    "docs/security_best_practices/session-id-non-deterministic",
)
def test_an_id_is_random_and_visible_ascii(server, monkeypatch):
    asked = []
    real = http_sessions.secrets.token_urlsafe
    monkeypatch.setattr(http_sessions.secrets, "token_urlsafe", lambda n: asked.append(n) or real(n))
    ids = {HttpSession(server, None, 1000).id for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"[\x21-\x7e]{40,}", session_id) for session_id in ids)
    assert set(asked) == {32}  # bytes from the system's source of randomness


@pytest.mark.spec("basic/transports/streamable-http/event-id-unique")
def test_two_sessions_have_no_event_id_in_common(table):
    first, second = table.open_one(), table.open_one()
    assert next(first.log.names) != next(second.log.names)


# ------------------------------------------------------------------------------------- finding it


@pytest.mark.spec(
    "basic/transports/streamable-http/session-id-missing-400",
    "basic/transports/streamable-http/session-terminated-404",
)
def test_a_session_is_found_until_it_ends(table):
    session = table.open_one()
    assert table.find(session.id, None) is session
    for session_id, status in ((None, 400), ("other", 404), (session.id.lower() + "x", 404)):
        with pytest.raises(Refused) as refused:
            table.find(session_id, None)
        assert refused.value.status == status
    table.remove(session, "enough")
    table.remove(session, "again")  # nothing happens
    with pytest.raises(Refused) as refused:
        table.find(session.id, None)
    assert refused.value.status == 404
    assert len(table) == 0


@pytest.mark.spec(
    "docs/security_best_practices/session-id-user-bound",
    "docs/security_best_practices/no-session-authentication",
)
def test_the_id_of_a_session_is_of_no_use_to_another_principal(server):
    def who(request):
        return request.headers.get("X-User")

    with (
        endpoint(server, authenticate=who) as at,
        Peer(at.port, REVISION, headers={"X-User": "ann"}) as ann,
        Peer(at.port, REVISION, headers={"X-User": "bob"}) as bob,
        Peer(at.port, REVISION, headers={"X-User": None}, opens=False) as nobody,
    ):
        bob.session = nobody.session = ann.session
        for thief in (bob, nobody):
            for method, message in (("POST", thief.message("ping")), ("GET", None), ("DELETE", None)):
                with thief.http(method, message) as reply:
                    assert reply.status == 404
        assert ann.request("ping") == {}


def test_no_log_of_a_server_holds_the_id_of_a_session(server, caplog):
    """A reader of the log could take over the session. Requests that are refused are no exception."""
    caplog.set_level(logging.DEBUG)

    @server.tool
    def broken() -> None:
        raise RuntimeError("a fault of the tool")

    with endpoint(server) as at, Peer(at.port, REVISION) as peer:
        secret = peer.session
        server.gate.set()
        for tool in ("gated", "broken", "unknown"):
            with peer.call(tool) as reply:
                assert reply.status == 200
        with peer.get() as stream:
            assert stream.status == 200
        wrong = [
            {"Last_Event_ID": "of-no-stream"},
            {"Last_Event_ID": secret},
            {"MCP_Protocol_Version": secret},
            {"Mcp_Session_Id": f"{secret}x"},
            {"Mcp_Session_Id ": secret},
            {"Mcp_Session_Id": f"{secret}\x00"},
        ]
        for headers in wrong:
            with peer.get(**headers) as reply:
                assert reply.status in (400, 404)
        assert peer.delete() == 204
        with peer.ask("ping") as reply:
            assert reply.status == 404
    assert "a session ends" in caplog.text
    assert "a fault of the tool" in caplog.text
    assert secret not in caplog.text


# -------------------------------------------------------------------------------- how many, how long


def test_there_are_so_many_and_no_more(server):
    with (
        endpoint(server, max_sessions=2, max_sessions_each=2) as at,
        Peer(at.port, REVISION) as first,
        Peer(at.port, REVISION),
        Peer(at.port, None) as third,
    ):
        params = {
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        with third.ask("initialize", params) as reply:
            assert reply.status == 503
            assert reply.headers["retry-after"] == "10"
        assert first.delete() == 204
        with third.ask("initialize", params) as reply:
            assert reply.status == 200


def test_one_that_was_opened_and_never_used_makes_room(table, clock):
    used, idle, fresh = table.open_one(), table.open_one(), None
    table.find(used.id, None)
    clock.now += 1
    fresh = table.open_one()
    with pytest.raises(Refused, match="3 sessions"):
        table.open_one()
    clock.now += http_sessions.UNUSED_SECONDS - 0.5
    table.find(used.id, None)
    newest = table.open_one()  # `idle` alone has waited long enough
    assert set(table.all()) == {used, fresh, newest}
    with pytest.raises(Refused):
        table.find(idle.id, None)


def test_one_that_was_opened_and_never_used_ends_soon(table, clock):
    """So that whoever opens sessions and does nothing else cannot hold the table for half an hour."""
    table.idle = 1800.0
    used, unused = table.open_one(), table.open_one()
    table.find(used.id, None)
    clock.now += http_sessions.UNUSED_SECONDS + 1
    table.sweep()
    assert table.all() == [used]
    assert unused.unrelated.machine.is_over


def test_the_timer_looks_soon_enough_for_what_was_never_used(table, monkeypatch):
    spans = []
    monkeypatch.setattr(http_sessions, "later", lambda seconds, run: spans.append(seconds))
    table.idle = 1800.0
    table.open_one()
    assert spans == [http_sessions.UNUSED_SECONDS / 2]


def test_one_owner_has_so_many_and_no_more(table, clock):
    table.each = 2
    first, second = table.open_one("ann"), table.open_one("ann")
    for session in (first, second):
        table.find(session.id, None)
    with pytest.raises(Refused, match="2 sessions") as refused:
        table.open_one("ann")
    assert refused.value.status == 429
    assert refused.value.headers == (("Retry-After", "60"),)
    table.open_one("bob")
    table.remove(first, "enough")
    table.open_one("ann")
    with pytest.raises(Refused, match="3 sessions") as refused:
        table.open_one("cid")
    assert refused.value.status == 503
    table.close("all")
    assert not table._owned


def test_what_was_opened_meanwhile_counts(server):
    """Two who open a session at once have both found room for one."""
    for limits in ({"limit": 1}, {"limit": 9, "each": 1}):
        sessions = Sessions(idle=60.0, **limits)
        opened = []
        for _ in range(2):
            sessions.make_room("ann")
            opened.append(HttpSession(server, None, 10_000, "ann"))
        sessions.add(opened[0])
        with pytest.raises(Refused):
            sessions.add(opened[1])
        assert sessions.all() == opened[:1]
        sessions.close("the test is over")
        opened[1].end("the test is over")


@pytest.mark.parametrize(
    ("environ", "principal", "same"),
    [
        ({"REMOTE_ADDR": "10.0.0.1"}, None, {"REMOTE_ADDR": "10.0.0.1"}),
        ({"REMOTE_ADDR": "2001:db8::1"}, None, {"REMOTE_ADDR": "2001:db8::ffff:1"}),
        ({"REMOTE_ADDR": "fe80::1%eth0"}, None, {"REMOTE_ADDR": "fe80::2"}),
        ({"REMOTE_ADDR": "::ffff:10.0.0.1"}, None, {"REMOTE_ADDR": "10.0.0.1"}),
        ({"REMOTE_ADDR": "unix:"}, None, {"REMOTE_ADDR": "unix:"}),
        ({}, None, {}),
        ({"REMOTE_ADDR": "10.0.0.1"}, "ann", {"REMOTE_ADDR": "10.0.0.2"}),
    ],
)
def test_a_session_is_counted_to_its_principal_or_its_address(environ, principal, same):
    assert session_owner_of(environ, principal) == session_owner_of(same, principal)
    for other in ("192.0.2.1", "::ffff:192.0.2.1", "2001:db8:0:1::1"):
        assert session_owner_of(environ, principal) != session_owner_of({"REMOTE_ADDR": other}, None)
    assert session_owner_of(environ, principal) != session_owner_of(environ, "bob")


def test_one_that_was_used_makes_no_room_however_long_ago(server, table, clock):
    table.idle = 10 * http_sessions.UNUSED_SECONDS
    used, *others = (table.open_one() for _ in range(3))
    table.find(used.id, None)
    clock.now += 5 * http_sessions.UNUSED_SECONDS
    newer = [table.open_one() for _ in others]
    assert set(table.all()) == {used, *newer}
    with pytest.raises(Refused, match="3 sessions"):
        table.open_one()
    clock.now += 4 * http_sessions.UNUSED_SECONDS
    assert table.find(used.id, None) is used


@pytest.mark.spec("basic/transports/streamable-http/session-terminated")
def test_what_was_not_used_for_long_ends(table, clock):
    old, used = table.open_one(), table.open_one()
    clock.now += 59
    table.find(used.id, None)
    table.sweep()
    assert len(table) == 2
    clock.now += 2
    table.sweep()
    assert table.all() == [used]
    assert old.unrelated.machine.is_over


def test_what_runs_or_is_open_is_not_idle(table, clock):
    idle, listening, serving = table.open_one(), table.open_one(), table.open_one()
    listening.unrelated.machine.resume(object(), None)
    running = SimpleNamespace(arrival=SimpleNamespace(outbox=HttpStream()), cancel=lambda reason: None)
    serving.connection.responder.serving[1] = running
    clock.now += 1000
    table.sweep()
    assert set(table.all()) == {listening, serving}
    assert idle.unrelated.machine.is_over
    serving.connection.responder.serving.clear()
    table.sweep()
    assert table.all() == [listening]


@contextlib.contextmanager
def kept(sessions):
    """None ends for being idle as long as this lasts: to open one may take longer than it may be idle."""
    sweep, sessions.sweep = sessions.sweep, lambda: None
    try:
        yield
    finally:
        sessions.sweep = sweep


@pytest.mark.spec("basic/transports/streamable-http/session-terminated-404")
def test_an_idle_session_ends_by_itself(server):
    with endpoint(server, session_idle=0.1) as at, Peer(at.port, REVISION, opens=False) as peer:
        with kept(at.app.sessions):
            peer.initialize()
        assert eventually(lambda: len(at.app.sessions) == 0)
        with peer.ask("ping") as reply:
            assert reply.status == 404
        peer.session = None
        with kept(at.app.sessions):
            peer.initialize()
            assert peer.request("ping") == {}
        assert eventually(lambda: len(at.app.sessions) == 0)  # the timer is set again


def test_a_session_with_a_get_stream_or_a_call_lasts(server):
    """The time that makes sessions idle passes several times over a third one, which ends."""
    with endpoint(server, session_idle=0.1) as at, contextlib.ExitStack() as peers:
        with kept(at.app.sessions):
            listening, calling = (peers.enter_context(Peer(at.port, REVISION)) for _ in range(2))
            stream = peers.enter_context(listening.get())
            message = calling.message("tools/call", {"name": "gated", "arguments": {}})
            connection = calling.send("POST", message)
            assert eventually(lambda: all(session.is_busy for session in at.app.sessions.all()))
        for _ in range(2):
            with kept(at.app.sessions):
                peers.enter_context(Peer(at.port, REVISION))
            assert eventually(lambda: len(at.app.sessions) == 2)
        assert stream.block() is not None
        server.gate.set()
        assert b'"done"' in connection.response().body


# ---------------------------------------------------------------------------------------- its end


@pytest.mark.spec("basic/transports/streamable-http/sse-terminate-on-session-expiry")
def test_the_end_of_a_session_ends_its_streams_and_what_runs_in_it(table):
    session = table.open_one()
    stream = http_sessions.HttpStream(log=session.log)
    stream.send(b"{}\n")
    session.end("enough")
    assert session.unrelated.machine.is_over
    assert stream.machine.is_over
    assert session.connection not in session._server.listeners._sessions


def test_there_is_no_timer_without_sessions(table):
    assert table._timer is None
    session = table.open_one()
    timer = table._timer
    assert timer is not None
    other = table.open_one()
    assert table._timer is timer
    table.remove(session, "enough")
    assert table._timer is timer
    table.remove(other, "enough")
    assert table._timer is None
    table.open_one()
    table._sweep_now()
    assert table._timer is not None
    table.close("all")
    assert table._timer is None


def test_a_sweep_for_which_the_system_has_no_thread_is_put_off(table, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    table.open_one()
    timer = table._timer
    monkeypatch.setattr(threading.Thread, "start", refuse)
    table._begin_sweep()
    monkeypatch.undo()
    timer.cancel()
    assert table._timer is not timer


def test_no_session_is_opened_after_the_end_of_all(table):
    table.close("all")
    with pytest.raises(Refused) as refused:
        table.open_one()
    assert (refused.value.status, len(table)) == (503, 0)


def test_a_session_of_another_process_is_refused_with_what_to_do_about_several():
    first, second = Server("first"), Server("second")
    with (
        endpoint(first) as one,
        Peer(one.port, REVISION) as peer,
        endpoint(second) as two,
        Peer(two.port, REVISION, opens=False) as other,
    ):
        other.session = peer.session
        with other.ask("tools/list", {}) as reply:
            assert reply.status == 404
            said = json.loads(reply.body())["error"]["message"]
    assert "send initialize for a new one" in said
    assert "route each Mcp-Session-Id to the same process" in said
    assert "wsgi_app(stateless=True)" in said


def test_a_forked_child_has_none_of_its_parents_sessions_and_all_their_room(table):
    """`forked` is what the child calls. The sessions go on: they are the parent's to end."""
    table.each = 1
    first = table.open_one("ann")
    timer = table._timer
    with table._lock:  # held for ever, by a thread that the child does not have
        table.forked()
        assert len(table) == 0
        table.make_room(first.owner)
        with pytest.raises(Refused) as caught:
            table.find(first.id, first.principal)
        assert caught.value.status == 404
    timer.cancel()
    first.end("it was the parent's")


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
def test_a_session_and_its_revision_are_named_from_initialization_on(revision, monkeypatch):
    monkeypatch.setattr(http_sessions, "PARTING_SECONDS", PATIENCE)
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
def test_no_log_and_no_description_holds_the_id_of_a_session(caplog, ends, monkeypatch):
    """Not of a new session either, and not where the server says the id in its refusals."""
    monkeypatch.setattr(http_sessions, "PARTING_SECONDS", PATIENCE)
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


class EndingSessions:
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
    server = EndingSessions(revision=revision)
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
    server = EndingSessions()
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
    server = EndingSessions()
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
    def has_arrived(seconds):
        server = EndingSessions()
        with web(server) as site, connect(site.url, revision="2025-11-25") as client:
            server.alive.clear()
            server.silent = True
            with pytest.raises(RequestTimeout):
                client.request("tools/list", timeout=seconds)
            return len(site.of("initialize")) == 2

    assert any(map(has_arrived, LIMITS))


def test_a_new_session_is_as_the_old_one_was():
    server = EndingSessions()
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
    server = EndingSessions()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        for _ in range(http_sessions.RENEWALS):
            server.alive.clear()
            client.call_tool("a")
        server.alive.clear()
        with pytest.raises(RefusedByStatus, match="Session not found") as refused:
            client.call_tool("a")
        assert refused.value.status == 404


def test_what_was_opened_anew_a_minute_ago_no_longer_counts():
    server = EndingSessions()
    with web(server) as site, connect(site.url, revision="2025-11-25") as client:
        for _ in range(http_sessions.RENEWALS):
            server.alive.clear()
            client.call_tool("a")
        session = client.asker.connection.outbox.session
        session._renewals = [then - 60 for then in session._renewals]
        server.alive.clear()
        assert client.call_tool("a").text == "hello"
        assert len(session._renewals) == 1


def test_a_session_that_cannot_be_opened_anew_now_may_be_later():
    server = EndingSessions()
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
    class Unsteady(EndingSessions):
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

    class Slow(EndingSessions):
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


SESSIONS = LEGACY[1:]
"""The revisions of the legacy era that have this transport."""
FORM = {"elicitation": {}}
SEATS = {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["seats"]}
CHANGED = "notifications/tools/list_changed"


class Gate:
    """Where a tool waits until the test lets it go on."""

    def __init__(self):
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.cancelled = None


def demo(**options):
    demo_server = Server("demo", version="1", **for_server(options))
    demo_server.gate = gate = Gate()

    @demo_server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @demo_server.tool
    def count(ctx: Context, to: int) -> str:
        for number in range(1, to + 1):
            ctx.progress(number, to)
        return "counted"

    @demo_server.tool
    def gated(ctx: Context, says: bool = False) -> str:
        if says:
            ctx.progress(1)
        gate.begun.set()
        while not gate.go.wait(0.01) and not ctx.cancelled:
            pass
        gate.cancelled = ctx.cancelled
        if says:
            ctx.progress(2)
        gate.ended.set()
        return "done"

    @demo_server.tool
    def book(ctx: Context) -> str:
        return f"{ctx.elicit('How many?', SEATS).content['seats']} seats"

    @demo_server.tool
    def folders(ctx: Context) -> str:
        return f"{len(ctx.list_roots())} folders"

    @demo_server.tool
    def poll(ctx: Context) -> str:
        ctx.progress(1)
        went = ctx.close_stream()
        gate.begun.set()
        assert gate.go.wait(PATIENCE)
        ctx.progress(2)
        return f"let go: {went}"

    @demo_server.tool
    def who(ctx: Context) -> str:
        return f"{ctx.revision} {ctx.principal}"

    return demo_server


@pytest.fixture
def demo_server():
    return demo()


def text_of(result):
    return result["content"][0]["text"]


def called(peer, tool, **arguments):
    return text_of(peer.request("tools/call", {"name": tool, "arguments": arguments}))


# ------------------------------------------------------------------------------- a session's life


@pytest.mark.spec(
    "basic/transports/streamable-http/session-id-assigned",
    "basic/transports/streamable-http/session-terminated",
    "basic/transports/streamable-http/session-terminated-404",
    "basic/transports/streamable-http/notification-202",
)
@pytest.mark.parametrize("revision", SESSIONS)
def test_a_session_opens_works_and_ends(demo_server, revision):
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer:
        assert peer.opened["protocolVersion"] == revision
        assert peer.session
        assert called(peer, "add", a=1, b=2) == "3"
        assert called(peer, "who").startswith(revision)
        assert peer.tell({"method": "notifications/other"}) == 202
        assert peer.delete() == 204
        for method, message in (("POST", peer.message("ping")), ("GET", None), ("DELETE", None)):
            with peer.http(method, message) as reply:
                assert (reply.status, "id" in reply.json()) == (404, False)


@pytest.mark.spec("basic/transports/streamable-http/session-id-missing-400")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_without_the_id_of_a_session_it_is_400(demo_server, method):
    with endpoint(demo_server) as at, Peer(at.port, "2025-06-18") as peer:
        message = peer.message("tools/list") if method == "POST" else None
        with peer.http(method, message, Mcp_Session_Id=None) as reply:
            assert reply.status == 400
            assert "initialize" in reply.json()["error"]["message"]


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("forged", ["x", "", "0" * 4096, "é", "../../etc/passwd"], ids=lambda v: v[:9])
def test_a_session_that_nobody_opened_is_404(demo_server, method, forged):
    with endpoint(demo_server) as at, Peer(at.port, "2025-06-18") as peer:
        message = peer.message("tools/list") if method == "POST" else None
        with peer.http(method, message, Mcp_Session_Id=forged) as reply:
            assert reply.status == 404


def test_a_handshake_that_fails_opens_no_session(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, None) as peer:
        with peer.ask("initialize", {"protocolVersion": 7}) as reply:
            assert (reply.status, reply.json()["error"]["code"]) == (200, -32602)
            assert "mcp-session-id" not in reply.headers
        assert peer.tell({"method": "initialize"}) == 202  # a notification by that name
        assert len(at.app.sessions) == 0


@pytest.mark.parametrize("revision", SESSIONS)
def test_a_session_that_found_no_room_in_the_end_leaves_nothing_behind(demo_server, revision):
    """There was room when its handshake began; meanwhile others had taken it, or the server was closed."""
    with endpoint(demo_server) as at, Peer(at.port, revision, opens=False) as peer:
        make_room, ended = at.app.sessions.make_room, []

        def closes(owner):
            make_room(owner)
            at.app.sessions.close("the server is shutting down")

        detach = demo_server.detach
        demo_server.detach = lambda connection, reason: (ended.append(reason), detach(connection, reason))
        at.app.sessions.make_room = closes
        opening = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        with peer.ask("initialize", opening) as reply:
            assert reply.status == 503
            assert reply.headers["retry-after"] == "5"
            assert "mcp-session-id" not in reply.headers
        assert ended == ["The server is shutting down; retry in 5 s."]
        assert len(at.app.sessions) == 0


@pytest.mark.parametrize("revision", SESSIONS)
def test_a_session_whose_client_answers_no_ping_ends(revision):
    """Only if pings were asked for. What still runs in it is cancelled, and its id is no longer one."""
    demo_server = demo(ping_every=3600.0)
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer:
        (session,) = at.app.sessions.all()
        peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}))
        assert demo_server.gate.begun.wait(PATIENCE)
        session.connection.lose("no ping was answered")
        assert demo_server.gate.ended.wait(PATIENCE)
        assert demo_server.gate.cancelled
        assert len(at.app.sessions) == 0
        with peer.post(peer.message("ping")) as reply:
            assert reply.status == 404
    with endpoint(demo()) as at, Peer(at.port, revision) as peer:
        (session,) = at.app.sessions.all()
        assert session.connection.lose is None


@pytest.mark.spec("basic/transports/streamable-http/session-terminated-404")
@pytest.mark.parametrize("revision", SESSIONS)
def test_a_large_body_for_a_session_that_is_none_is_refused_before_it_is_read(demo_server, revision):
    """Of a small one it is said afterwards. The connection stays: only the head of the request was sent."""
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer:
        for more, status in (
            ({"Mcp_Session_Id": "forged"}, 404),
            ({"MCP_Protocol_Version": "2030-01-01"}, 400),
        ):
            with peer.http(
                "POST", Content_Length=1_000_000, Content_Type="application/json", **more
            ) as reply:
                assert reply.status == status
        message = peer.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        message["params"]["_meta"] = {"ballast": "x" * 100_000}
        with peer.post(message) as reply:
            assert text_of(reply.answer()["result"]) == "3"


def test_a_large_body_without_a_session_is_looked_at_first(demo_server):
    """It may be the handshake, or of the modern era."""
    ballast = {"ballast": "x" * 100_000}
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25", opens=False) as peer:
        opening = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"experimental": {"vendor/x": ballast}},
            "clientInfo": {"name": "x", "version": "1"},
        }
        with peer.ask("initialize", opening) as reply:
            assert reply.status == 200
            assert reply.headers["mcp-session-id"]
    useless = {"Mcp-Session-Id": "of no use"}
    with endpoint(demo_server) as at, Peer(at.port, MODERN, headers=useless) as peer:
        assert "tools" in peer.request("tools/list", {"_meta": ballast})


def test_a_second_handshake_within_a_session_is_refused(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-06-18") as peer:
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        assert peer.request("initialize", params)["code"] == -32600
        assert called(peer, "add", a=1, b=2) == "3"
        assert len(at.app.sessions) == 1


@pytest.mark.spec(
    "basic/versioning/initialize-error-names-versions", "basic/versioning/modern-only-initialize-http"
)
def test_a_server_of_the_modern_era_says_what_it_speaks():
    with endpoint(demo(revisions=["2026-07-28"])) as at, Peer(at.port, None) as peer:
        with peer.ask("initialize", {"protocolVersion": "2025-11-25"}) as reply:
            assert reply.status == 400
            error = reply.json()["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        with peer.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": []}) as reply:
            assert reply.status == 400
            assert reply.json()["error"]["data"]["supported"] == ["2026-07-28"]


# -------------------------------------------------------------------------------------- versions


@pytest.mark.spec("basic/transports/streamable-http/version-header-invalid-400")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(
    "said", ["2025-06-1", "latest", "", "2030-01-01", "é", "1" * 5000], ids=lambda v: v[:9]
)
def test_a_version_that_this_server_does_not_have_is_400(revision, said):
    with endpoint(demo(revisions=SESSIONS)) as at, Peer(at.port, revision) as peer:
        for method, message in (("POST", peer.message("ping")), ("GET", None), ("DELETE", None)):
            with peer.http(method, message, MCP_Protocol_Version=said) as reply:
                assert reply.status == 400
                assert "MCP-Protocol-Version" in reply.json()["error"]["message"]
        assert peer.request("ping") == {}


@pytest.mark.spec("basic/transports/streamable-http/version-header-absent-default")
def test_in_a_session_the_version_is_what_was_agreed(demo_server):
    with (
        endpoint(demo_server) as at,
        Peer(at.port, "2025-11-25", headers={"MCP-Protocol-Version": None}) as peer,
    ):
        assert called(peer, "who").startswith("2025-11-25")


def test_another_version_than_was_agreed_changes_nothing(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        peer.more = {"MCP-Protocol-Version": "2025-06-18"}
        assert called(peer, "who").startswith("2025-11-25")


@pytest.mark.spec(
    "basic/transports/streamable-http/version-header-absent-default",
    "basic/transports/streamable-http/version-header-absent-legacy",
)
def test_without_session_and_header_it_is_2025_03_26(demo_server):
    with endpoint(demo_server, stateless=True) as at, Peer(at.port, None) as peer:
        assert called(peer, "who").startswith("2025-03-26")
        with peer.post([peer.message("ping"), peer.message("ping")]) as reply:
            assert len(reply.json()) == 2


# ------------------------------------------------------------------------------------- streams


@pytest.mark.spec(
    "basic/transports/streamable-http/event-id",
    "basic/transports/streamable-http/event-id-unique",
    "basic/transports/streamable-http/sse-includes-response",
    "basic/transports/streamable-http/sse-server-messages",
    "basic/transports/streamable-http/sse-terminates-after-response",
)
@pytest.mark.parametrize("revision", SESSIONS)
def test_events_have_ids_and_end_with_the_answer(demo_server, revision):
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer:
        ids = []
        for _ in range(2):
            with peer.call("count", {"to": 2}, {"progressToken": "t"}) as reply:
                assert reply.headers["x-accel-buffering"] == "no"
                events = reply.events()
            ids += [event.id for event in events]
            messages = [event.message for event in events if event.data]
            assert [m.get("method") for m in messages] == ["notifications/progress"] * 2 + [None]
        assert len(set(ids)) == len(ids)
        assert all(ids)


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-prime-event",
    "basic/transports/streamable-http/sse-retry-before-close",
)
@pytest.mark.parametrize("revision", SESSIONS)
def test_streams_of_2025_11_25_begin_with_an_id(demo_server, revision):
    with endpoint(demo_server, retry_ms=77) as at, Peer(at.port, revision) as peer:
        with peer.call("count", {"to": 1}, {"progressToken": "t"}) as reply:
            first = reply.event()
        assert (first.data == "" and first.retry == "77") == (revision == "2025-11-25")


@pytest.mark.spec(
    "basic/transports/streamable-http/one-stream-per-message",
    "basic/transports/streamable-http/no-broadcast",
    "basic/transports/streamable-http/get-no-response",
    "basic/transports/streamable-http/get-unrelated",
    "basic/transports/streamable-http/get-server-messages",
    "basic/transports/streamable-http/sse-messages-related",
    "basic/transports/streamable-http/multiple-streams",
)
@pytest.mark.parametrize("revision", SESSIONS)
def test_each_message_is_on_one_stream_the_one_it_belongs_to(demo_server, revision):
    """A GET stream, two calls at once: each hears its own, and what belongs to none is on the GET stream."""
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer, peer.get() as get:
        assert get.block() is not None
        gated = peer.send(
            "POST",
            peer.message(
                "tools/call",
                {"name": "gated", "arguments": {"says": True}, "_meta": {"progressToken": "g"}},
                id="g",
            ),
        )
        assert demo_server.gate.begun.wait(PATIENCE)
        with peer.call("count", {"to": 2}, {"progressToken": "c"}) as reply:
            counted = reply.messages()
        demo_server.add_tool(lambda: "x", name="new")
        assert get.message()["method"] == CHANGED
        demo_server.gate.go.set()
        heard = Reply(gated).messages()
        peer.delete()
        assert get.messages() == []
    assert [m["params"]["progressToken"] for m in counted[:-1]] == ["c", "c"]
    assert [m["params"]["progressToken"] for m in heard[:-1]] == ["g", "g"]
    assert heard[-1]["id"] == "g"


def test_what_belongs_to_no_request_waits_for_a_get(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        session = at.app.sessions.find(peer.session, None)
        demo_server.add_tool(lambda: "x", name="new")
        assert eventually(lambda: session.unrelated.machine.has(1))
        with peer.get() as stream:
            assert stream.message()["method"] == CHANGED


def test_a_second_get_takes_over_and_the_first_ends(demo_server):
    """It may be that the first one's connection is dead, and nobody knows yet."""
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer, peer.get() as first:
        assert first.block() is not None
        with peer.get() as second:
            assert second.status == 200
            assert first.events() == []
            demo_server.add_tool(lambda: "x", name="new")
            assert second.message()["method"] == CHANGED
        assert eventually(lambda: at.app.places.taken == 0)


def test_get_needs_an_accept_for_event_streams(demo_server):
    with (
        endpoint(demo_server) as at,
        Peer(at.port, "2025-11-25") as peer,
        peer.get(Accept="application/json") as reply,
    ):
        assert reply.status == 406


# -------------------------------------------------------------- connections break, and are let go


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-disconnect-not-cancel",
    "basic/transports/streamable-http/sse-disconnect-anytime",
    "basic/transports/streamable-http/sse-resumable",
    "basic/transports/streamable-http/replay-messages",
    "basic/transports/streamable-http/loss-mitigated-by-resuming",
)
@pytest.mark.parametrize("revision", SESSIONS)
def test_a_broken_connection_cancels_nothing_and_the_rest_can_be_had(demo_server, revision):
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer:
        reply = peer.call("gated", {"says": True}, {"progressToken": "t"})
        event = reply.event()
        while not event.data:
            event = reply.event()
        reply.connection.reset()
        assert eventually(lambda: not at.app.attendant.watched)
        demo_server.gate.go.set()
        assert demo_server.gate.ended.wait(PATIENCE)
        assert not demo_server.gate.cancelled
        for _ in range(2):  # as often as it likes
            with peer.get(event.id) as rest:
                messages = rest.messages()
            assert [m.get("params", {}).get("progress") for m in messages] == [2, None]
            assert text_of(messages[-1]["result"]) == "done"


@pytest.mark.spec("basic/transports/streamable-http/sse-disconnect-not-cancel")
def test_a_client_that_leaves_before_anything_was_said_has_not_cancelled(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}))
        assert demo_server.gate.begun.wait(PATIENCE)
        connection.reset()
        assert eventually(lambda: not at.app.attendant.watched)
        demo_server.gate.go.set()
        assert demo_server.gate.ended.wait(PATIENCE)
        assert not demo_server.gate.cancelled


def test_cancelled_is_what_cancels(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}, id=5))
        assert demo_server.gate.begun.wait(PATIENCE)
        assert peer.tell({"method": "notifications/cancelled", "params": {"requestId": 5}}) == 202
        assert demo_server.gate.ended.wait(PATIENCE)
        assert demo_server.gate.cancelled
        connection.close()


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-close-connection",
    "basic/transports/streamable-http/sse-retry-before-close",
    "basic/transports/streamable-http/sse-no-early-close",
)
@pytest.mark.parametrize("revision", SESSIONS)
def test_the_client_of_a_long_call_may_be_let_go_and_comes_back(demo_server, revision):
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer:
        reply = peer.call("poll", {}, {"progressToken": "t"})
        assert demo_server.gate.begun.wait(PATIENCE)
        if revision != "2025-11-25":  # its clients would not come back
            demo_server.gate.go.set()
            assert text_of(reply.answer()["result"]) == "let go: False"
            return
        first, second = reply.events()
        assert (first.retry, second.message["params"]["progress"]) == ("1000", 1)
        with peer.get(second.id) as rest:
            demo_server.gate.go.set()
            progress, answer = rest.messages()
        assert progress["params"]["progress"] == 2
        assert text_of(answer["result"]) == "let go: True"


def test_a_client_that_comes_back_on_time_hears_what_comes_later(demo_server):
    """From the first event on, which has but an id."""
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        with peer.call("poll", {}, {"progressToken": "t"}) as reply:
            first, _ = reply.events()
        with peer.get(first.id) as rest:
            assert rest.message()["params"]["progress"] == 1
            demo_server.gate.go.set()
            assert rest.message()["params"]["progress"] == 2
            assert "result" in rest.message()
            assert rest.message() is None


def test_who_resumes_takes_the_stream_over(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        first = peer.call("gated", {"says": True}, {"progressToken": "t"})
        begun = first.event()
        assert first.message() is not None
        with peer.get(begun.id) as second:
            assert first.events() == []
            assert second.message()["params"]["progress"] == 1
            demo_server.gate.go.set()
            assert text_of(second.answer()["result"]) == "done"


@pytest.mark.spec("basic/transports/streamable-http/no-cross-stream-replay")
@pytest.mark.parametrize("revision", SESSIONS)
def test_nothing_of_another_stream_or_session_is_sent_again(demo_server, revision):
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer, Peer(at.port, revision) as other:
        with peer.call("count", {"to": 2}, {"progressToken": "first"}) as reply:
            first = reply.events()
        with peer.call("count", {"to": 2}, {"progressToken": "second"}) as reply:
            reply.events()
        with peer.get(first[0].id) as rest:
            again = [event for event in rest.events() if event.data]
        assert again == [event for event in first[1:] if event.data]
        with other.get(first[0].id) as refused:
            assert refused.status == 400


@pytest.mark.parametrize(
    "forged",
    [
        "1",
        "-",
        "x-1",
        "x-1-1",
        "é",
        "0" * 5000,
        "-1",
        "--",
        "١-١",
        "{tag}-1-99",
        "{tag}-9-1",
        "{tag}-1--1",
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_a_forged_last_event_id_is_400(demo_server, forged):
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        with peer.call("count", {"to": 1}, {"progressToken": "t"}) as reply:
            tag = reply.event().id.split("-")[0]
        raw = forged.replace("{tag}", tag).encode().decode("latin-1")
        with peer.get(raw) as refused:
            assert refused.status == 400
            assert "Last-Event-ID" in refused.json()["error"]["message"]
        assert peer.request("ping") == {}


@pytest.mark.spec("basic/transports/streamable-http/sse-terminate-on-session-expiry")
def test_the_streams_of_a_session_end_with_it(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer, peer.get() as get:
        assert get.block() is not None
        with peer.call("gated", {"says": True}, {"progressToken": "t"}) as reply:
            assert demo_server.gate.begun.wait(PATIENCE)
            silent = peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}))
            (session,) = at.app.sessions.all()
            assert eventually(lambda: len(session.connection.responder.serving) == 2)
            assert peer.delete() == 204
            assert [m["method"] for m in reply.messages()] == ["notifications/progress"]
            assert get.events() == []
            assert silent.response().status == 503
        assert demo_server.gate.ended.wait(PATIENCE)
        assert demo_server.gate.cancelled


# -------------------------------------------------------------------------------- it asks back


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-server-messages",
    "basic/transports/streamable-http/sse-messages-related",
    "basic/transports/streamable-http/notification-202",
)
@pytest.mark.parametrize("answers", ["auto", "stream"])
def test_a_question_is_on_the_stream_of_its_request_and_is_answered_by_post(demo_server, answers):
    with (
        endpoint(demo_server, answers=answers) as at,
        Peer(at.port, "2025-06-18", capabilities=FORM) as peer,
        peer.call("book") as reply,
    ):
        asked = reply.message()
        assert asked["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"seats": 2}}
        assert peer.tell({"id": asked["id"], "result": answer}) == 202
        assert text_of(reply.answer()["result"]) == "2 seats"


@pytest.mark.parametrize("revision", SESSIONS)
def test_roots_are_asked_for_in_every_revision(demo_server, revision):
    with (
        endpoint(demo_server) as at,
        Peer(at.port, revision, capabilities={"roots": {}}) as peer,
        peer.call("folders") as reply,
    ):
        asked = reply.message()
        assert peer.tell({"id": asked["id"], "result": {"roots": [{"uri": "file:///a"}]}}) == 202
        assert text_of(reply.answer()["result"]) == "1 folders"


def test_an_answer_to_nothing_is_taken_and_ignored(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-06-18") as peer:
        assert peer.tell({"id": "nothing", "result": {}}) == 202
        assert peer.request("ping") == {}


@pytest.mark.parametrize(("answers", "stateless"), [("json", False), ("auto", True)])
def test_where_nothing_can_be_asked_the_tool_is_told(demo_server, answers, stateless):
    with (
        endpoint(demo_server, answers=answers, stateless=stateless) as at,
        Peer(at.port, "2025-06-18", capabilities=FORM, opens=not stateless) as peer,
    ):
        result = peer.request("tools/call", {"name": "book", "arguments": {}})
        assert result["isError"]


# ------------------------------------------------------------------------------------- batches


@pytest.mark.spec("basic/transports/streamable-http/sse-batched-responses")
def test_a_batch_is_answered_by_a_batch(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-03-26") as peer:
        batch = [
            peer.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
            {"jsonrpc": "2.0", "method": "notifications/other"},
            peer.message("ping"),
        ]
        with peer.post(batch) as reply:
            found = {m["id"]: m["result"] for m in reply.json()}
        assert found.keys() == {batch[0]["id"], batch[2]["id"]}
        assert text_of(found[batch[0]["id"]]) == "3"


def test_what_the_requests_of_a_batch_say_comes_before_their_answers(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-03-26") as peer:
        meta = {"progressToken": "t"}
        params = {"name": "count", "arguments": {"to": 2}, "_meta": meta}
        with peer.post([peer.message("tools/call", params), peer.message("ping")]) as reply:
            *told, answers = reply.messages()
        assert [m["params"]["progress"] for m in told] == [1, 2]
        assert len(answers) == 2


@pytest.mark.spec("basic/transports/streamable-http/notification-202")
def test_a_batch_without_requests_is_202(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-03-26") as peer:
        batch = [
            {"jsonrpc": "2.0", "method": "notifications/other"},
            {"jsonrpc": "2.0", "id": 9, "result": {}},
        ]
        with peer.post(batch) as reply:
            assert (reply.status, reply.body()) == (202, b"")
        assert at.app.places.taken == 0


@pytest.mark.spec("basic/transports/streamable-http/rejected-input-status")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("notifications", [False, True], ids=["requests", "notifications"])
def test_later_revisions_have_no_batches(demo_server, revision, notifications):
    with endpoint(demo_server) as at, Peer(at.port, revision) as peer:
        message = (
            {"jsonrpc": "2.0", "method": "notifications/other"} if notifications else peer.message("ping")
        )
        with peer.post([message]) as reply:
            assert reply.status == 400
            assert reply.json()["error"]["code"] == -32600


def test_an_empty_batch_is_400(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-03-26") as peer, peer.post([]) as reply:
        assert reply.status == 400
        assert reply.json()["error"]["code"] == -32600


# --------------------------------------------------------------------------- without sessions


@pytest.mark.parametrize("revision", SESSIONS)
def test_stateless_each_post_stands_for_itself(demo_server, revision):
    headers = {"MCP-Protocol-Version": revision}
    with endpoint(demo_server, stateless=True) as at, Peer(at.port, revision, headers=headers) as peer:
        assert peer.opened["protocolVersion"] == revision
        assert peer.session is None
        assert called(peer, "add", a=1, b=2) == "3"
        assert called(peer, "who").startswith(revision)
        with peer.call("count", {"to": 2}, {"progressToken": "t"}) as reply:
            events = reply.events()
            assert [event.id for event in events] == [None] * 3
        with peer.post(peer.message("ping"), Mcp_Session_Id="any") as reply:
            assert reply.status == 200
        assert len(at.app.sessions) == 0


@pytest.mark.spec("basic/transports/streamable-http/version-header-absent-default")
def test_stateless_a_server_without_2025_03_26_must_be_told_the_revision():
    made = demo(revisions=["2025-06-18", "2025-11-25"])
    with endpoint(made, stateless=True) as at, Peer(at.port, None) as peer:
        with peer.ask("ping") as reply:
            assert reply.status == 400
            assert "MCP-Protocol-Version is missing" in reply.json()["error"]["message"]
        with peer.post(peer.message("ping"), MCP_Protocol_Version="2025-06-18") as reply:
            assert reply.json()["result"] == {}


def test_stateless_what_runs_is_cancelled_when_the_server_goes(demo_server):
    with endpoint(demo_server, stateless=True) as at, Peer(at.port, None) as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}))
        assert demo_server.gate.begun.wait(PATIENCE)
        at.app.close(0.05)
        assert demo_server.gate.ended.wait(PATIENCE)
        assert demo_server.gate.cancelled
        assert connection.response().status == 503


def test_stateless_what_a_client_asks_for_is_told_even_where_nothing_can_be_kept(demo_server):
    with endpoint(demo_server, stateless=True) as at, Peer(at.port, None) as peer:
        assert peer.tell({"method": "notifications/initialized"}) == 202
        assert peer.tell({"id": 1, "result": {}}) == 202
        demo_server.gate.go.set()
        with peer.call("poll") as reply:
            assert text_of(reply.answer()["result"]) == "let go: False"


# --------------------------------------------------------------- the headers of the interim draft


@pytest.mark.spec(
    "basic/transports/streamable-http/param-mismatch-error-32001",
    "basic/transports/streamable-http/header-failure-json-error-32001",
)
def test_headers_that_differ_from_the_message_are_400_within_a_session_too(demo_server):
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        message = peer.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        for headers, status in (
            ({}, 200),
            ({"Mcp_Method": "tools/call", "Mcp_Name": "add"}, 200),
            ({"Mcp_Method": "tools/list"}, 400),
            ({"Mcp_Name": "sub"}, 400),
        ):
            with peer.post(message, **headers) as reply:
                assert reply.status == status
                if status == 400:
                    assert reply.json()["error"]["code"] == -32001


def test_a_setting_requires_the_headers_of_the_draft(demo_server):
    with endpoint(demo_server, require_headers=True) as at, Peer(at.port, None) as peer:
        peer.revision = "2025-11-25"
        peer.more = {"Mcp-Method": "initialize"}
        with peer.ask(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        ) as reply:
            peer.session = reply.headers["mcp-session-id"]
        initialized = {"method": "notifications/initialized"}
        assert peer.tell(initialized) == 400
        assert peer.tell(initialized, Mcp_Method="notifications/initialized") == 202
        peer.more = {}
        with peer.ask("tools/list") as reply:
            assert (reply.status, reply.json()["error"]["code"]) == (400, -32001)
        peer.more = {"Mcp-Method": "tools/list"}
        assert "tools" in peer.request("tools/list")


@pytest.mark.parametrize("stateless", [False, True])
@pytest.mark.parametrize(("said", "status"), [(None, 400), ("tools/list", 400), ("initialize", 200)])
def test_the_setting_holds_for_initialize_too(demo_server, stateless, said, status):
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    with endpoint(demo_server, require_headers=True, stateless=stateless) as at, Peer(at.port, None) as peer:
        peer.more = {} if said is None else {"Mcp-Method": said}
        with peer.ask("initialize", hello) as reply:
            assert reply.status == status
            if status == 400:
                assert reply.json()["error"]["code"] == -32001
                assert "mcp-session-id" not in reply.headers


@pytest.mark.parametrize("date", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_client_sends_the_headers_of_the_draft_where_it_is_asked_to(demo_server, date):
    options = ClientOptions(draft_headers=True)
    with endpoint(demo_server, require_headers=True) as at:
        url = f"http://127.0.0.1:{at.port}/mcp"
        with connect(url, revision=date, options=options) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
            assert client.list_tools()
        with pytest.raises(McpError, match="Mcp-Method header is missing"):
            connect(url, revision=date)


def test_in_sessions_with_these_headers_a_tool_whose_marks_cannot_be_is_left_out():
    good = {"type": "object", "properties": {"to": {"type": "string", "x-mcp-header": "To"}}}
    bad = {"type": "object", "properties": {"sum": {"type": "number", "x-mcp-header": "Sum"}}}
    listed = {"tools": [{"name": name, "inputSchema": each} for name, each in (("good", good), ("bad", bad))]}
    seen = []

    def handle(request, wire):
        if request.rpc == "tools/list":
            wire.result(request, listed)
            return
        seen.append({name: request.headers.get(name) for name in ("mcp-method", "mcp-name", "mcp-param-to")})
        wire.result(request, {"content": []})

    usual = opened(handle, "2025-11-25", "s")
    with web(lambda request, wire: (handle if request.rpc == "tools/list" else usual)(request, wire)) as site:
        for draft, names in ((True, ["good"]), (False, ["good", "bad"])):
            options = ClientOptions(draft_headers=draft)
            with connect(site.url, revision="2025-11-25", options=options) as client:
                assert [tool["name"] for tool in client.list_tools()] == names
                client.call_tool("good", {"to": "ü"})
    assert seen == [
        {"mcp-method": "tools/call", "mcp-name": "good", "mcp-param-to": "=?base64?w7w=?="},
        {"mcp-method": None, "mcp-name": None, "mcp-param-to": None},
    ]


@pytest.mark.parametrize(("status", "times"), [(400, 2), (200, 1)])
def test_a_call_that_the_draft_refuses_for_its_headers_goes_once_more_and_another_error_does_not(
    status, times
):
    seen = []

    def handle(request, wire):
        if request.rpc == "tools/list":
            wire.result(request, {"tools": []})
            return
        seen.append(request.message["id"])
        wire.error(request, -32001, "Header mismatch, or what else a server means by it", status=status)

    with web(opened(handle, "2025-11-25", "s")) as site:
        options = ClientOptions(draft_headers=True)
        with connect(site.url, revision="2025-11-25", options=options) as client, pytest.raises(McpError):
            client.call_tool("x")
    assert len(seen) == times


def test_json_is_what_a_legacy_client_gets_where_nothing_else_is_said(demo_server):
    with (
        endpoint(demo_server) as at,
        Peer(at.port, "2025-11-25") as peer,
        peer.call("add", {"a": 1, "b": 2}) as reply,
    ):
        assert reply.headers["content-type"] == "application/json"
        assert json.loads(reply.body())["result"]["content"] == [{"type": "text", "text": "3"}]


def test_without_sessions_a_client_that_names_no_revision_is_told_which_there_are():
    """It would have to be 2025-03-26, which this server does not speak."""
    with (
        endpoint(Server("x", revisions=["2025-11-25"]), stateless=True) as at,
        Peer(at.port, None, opens=False) as peer,
    ):
        with peer.ask("ping") as reply:
            assert reply.status == 400
            assert "2025-11-25" in reply.json()["error"]["message"]
        with peer.post(peer.message("ping"), MCP_Protocol_Version="2025-11-25") as reply:
            assert reply.status == 200


def test_without_sessions_calls_are_cancelled_too_when_the_server_goes():
    demo_server, begun, cancelled = Server("x"), threading.Event(), threading.Event()

    @demo_server.tool
    def silent(ctx: Context) -> str:
        begun.set()
        try:
            ctx.sleep(PATIENCE)
        finally:
            if ctx.cancelled:
                cancelled.set()
        return "rested"

    with endpoint(demo_server, stateless=True) as at, Peer(at.port, "2025-11-25", opens=False) as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "silent"}))
        assert begun.wait(PATIENCE)
        at.app.close(0.05)
        assert cancelled.wait(PATIENCE)
        assert connection.response().status == 503


def test_without_sessions_nothing_is_declared_that_could_never_be_told():
    demo_server = Server("x", options=ServerOptions(offers=["tools", "resources", "prompts"]))
    with endpoint(demo_server, stateless=True) as at, Peer(at.port, "2025-11-25") as peer:
        assert peer.opened["capabilities"] == {"logging": {}, "tools": {}, "resources": {}, "prompts": {}}
    with endpoint(demo_server) as at, Peer(at.port, "2025-11-25") as peer:
        assert peer.opened["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
