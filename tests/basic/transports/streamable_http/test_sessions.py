"""basic/transports/streamable_http/sessions: ids, owners, ends, and how many there may be."""

import json
import logging
import re
import threading

import pytest
from http_peers import Peer, endpoint
from peers import PATIENCE, eventually, nothing_left

from mcp_ref import Context, Server
from mcp_ref.basic.transports.streamable_http import sessions as http_sessions
from mcp_ref.basic.transports.streamable_http.refusals import Refused
from mcp_ref.basic.transports.streamable_http.sessions import HttpSession, Sessions, owner_of
from mcp_ref.runtime.threads.workers import Workers

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
    workers = Workers(2, 10)
    sessions = Sessions(3, 60.0, lambda run, argument: run(argument))

    def open_one(owner="address here"):
        sessions.make_room(owner)
        session = HttpSession(server, workers, None, 10_000, owner)
        sessions.add(session)
        return session

    sessions.open_one = open_one
    yield sessions
    sessions.close("the test is over")
    workers.close(PATIENCE)


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
    workers = Workers(1, 1)
    ids = {HttpSession(server, workers, None, 1000).id for _ in range(500)}
    workers.close(1.0)
    assert len(ids) == 500
    assert all(re.fullmatch(r"[\x21-\x7e]{40,}", session_id) for session_id in ids)
    assert set(asked) == {32}  # bytes from the system's source of randomness


@pytest.mark.spec("basic/transports/streamable-http/event-id-unique")
def test_two_sessions_have_no_event_id_in_common(table):
    first, second = table.open_one(), table.open_one()
    assert first.log.tag != second.log.tag


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
    assert unused.unrelated.is_over


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
    workers = Workers(2, 10)
    for limits in ({"limit": 1}, {"limit": 9, "each": 1}):
        sessions = Sessions(idle=60.0, hand_on=lambda run, argument: run(argument), **limits)
        opened = []
        for _ in range(2):
            sessions.make_room("ann")
            opened.append(HttpSession(server, workers, None, 10_000, "ann"))
        sessions.add(opened[0])
        with pytest.raises(Refused):
            sessions.add(opened[1])
        assert sessions.all() == opened[:1]
        sessions.close("the test is over")
        opened[1].end("the test is over")
    workers.close(PATIENCE)


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
    assert owner_of(environ, principal) == owner_of(same, principal)
    for other in ("192.0.2.1", "::ffff:192.0.2.1", "2001:db8:0:1::1"):
        assert owner_of(environ, principal) != owner_of({"REMOTE_ADDR": other}, None)
    assert owner_of(environ, principal) != owner_of(environ, "bob")


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
    assert old.unrelated.is_over


def test_what_runs_or_is_open_is_not_idle(table, clock):
    calling, listening, serving = table.open_one(), table.open_one(), table.open_one()
    calling.streams[calling.unrelated] = None
    listening.unrelated.attach(object(), None)
    serving.connection.serving[1] = None
    clock.now += 1000
    table.sweep()
    assert len(table) == 3
    serving.connection.serving.clear()
    table.sweep()
    assert set(table.all()) == {calling, listening}


@pytest.mark.spec("basic/transports/streamable-http/session-terminated-404")
def test_an_idle_session_ends_by_itself(server):
    with endpoint(server, session_idle=0.1) as at, Peer(at.port, REVISION) as peer:
        assert eventually(lambda: len(at.app.sessions) == 0)
        with peer.ask("ping") as reply:
            assert reply.status == 404
        peer.session = None
        peer.initialize()
        assert peer.request("ping") == {}
        assert eventually(lambda: len(at.app.sessions) == 0)  # the timer is set again


def test_a_session_with_a_get_stream_or_a_call_lasts(server):
    """The time that makes sessions idle passes several times over a third one, which ends."""
    with (
        endpoint(server, session_idle=0.1) as at,
        Peer(at.port, REVISION) as listening,
        Peer(at.port, REVISION) as calling,
        listening.get() as stream,
    ):
        connection = calling.send("POST", calling.message("tools/call", {"name": "gated", "arguments": {}}))
        for _ in range(2):
            with Peer(at.port, REVISION):
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
    assert session.unrelated.is_over
    assert stream.is_over
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
    table._sweep_now(None)
    assert table._timer is not None
    table.close("all")
    assert table._timer is None


def test_no_session_is_opened_after_the_end_of_all(table):
    table.close("all")
    with pytest.raises(Refused) as refused:
        table.open_one()
    assert (refused.value.status, len(table)) == (503, 0)


def test_a_session_of_another_process_is_refused_with_what_to_do_about_several():
    first, second = Server("first"), Server("second")
    with (
        endpoint(first) as one,
        endpoint(second) as two,
        Peer(one.port, REVISION) as peer,
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
