"""basic/transports/streamable_http/legacy: sessions of the legacy era on the endpoint, revision by
revision.
"""

import json
import threading

import pytest
from http_peers import Peer, Reply, endpoint
from peers import LEGACY, MODERN, PATIENCE, eventually, nothing_left

from mcp_ref import Context, Server

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
    server = Server("demo", version="1", **options)
    server.gate = gate = Gate()

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def count(ctx: Context, to: int) -> str:
        for number in range(1, to + 1):
            ctx.progress(number, to)
        return "counted"

    @server.tool
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

    @server.tool
    def book(ctx: Context) -> str:
        return f"{ctx.elicit('How many?', SEATS).content['seats']} seats"

    @server.tool
    def folders(ctx: Context) -> str:
        return f"{len(ctx.list_roots())} folders"

    @server.tool
    def poll(ctx: Context) -> str:
        ctx.progress(1)
        went = ctx.close_stream()
        gate.begun.set()
        assert gate.go.wait(PATIENCE)
        ctx.progress(2)
        return f"let go: {went}"

    @server.tool
    def who(ctx: Context) -> str:
        return f"{ctx.revision} {ctx.principal}"

    return server


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


@pytest.fixture
def server():
    return demo()


def text(result):
    return result["content"][0]["text"]


def called(peer, tool, **arguments):
    return text(peer.request("tools/call", {"name": tool, "arguments": arguments}))


# ------------------------------------------------------------------------------- a session's life


@pytest.mark.spec(
    "basic/transports/streamable-http/session-id-assigned",
    "basic/transports/streamable-http/session-terminated",
    "basic/transports/streamable-http/session-terminated-404",
    "basic/transports/streamable-http/notification-202",
)
@pytest.mark.parametrize("revision", SESSIONS)
def test_a_session_opens_works_and_ends(server, revision):
    with endpoint(server) as at, Peer(at.port, revision) as peer:
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
def test_without_the_id_of_a_session_it_is_400(server, method):
    with endpoint(server) as at, Peer(at.port, "2025-06-18") as peer:
        message = peer.message("tools/list") if method == "POST" else None
        with peer.http(method, message, Mcp_Session_Id=None) as reply:
            assert reply.status == 400
            assert "initialize" in reply.json()["error"]["message"]


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("forged", ["x", "", "0" * 4096, "é", "../../etc/passwd"], ids=lambda v: v[:9])
def test_a_session_that_nobody_opened_is_404(server, method, forged):
    with endpoint(server) as at, Peer(at.port, "2025-06-18") as peer:
        message = peer.message("tools/list") if method == "POST" else None
        with peer.http(method, message, Mcp_Session_Id=forged) as reply:
            assert reply.status == 404


def test_a_handshake_that_fails_opens_no_session(server):
    with endpoint(server) as at, Peer(at.port, None) as peer:
        with peer.ask("initialize", {"protocolVersion": 7}) as reply:
            assert reply.json()["error"]["code"] == -32602
            assert "mcp-session-id" not in reply.headers
        assert peer.tell({"method": "initialize"}) == 202  # a notification by that name
        assert len(at.app.sessions) == 0


@pytest.mark.parametrize("revision", SESSIONS)
def test_a_session_that_found_no_room_in_the_end_leaves_nothing_behind(server, revision):
    """There was room when its handshake began; meanwhile others had taken it, or the server was closed."""
    with endpoint(server) as at, Peer(at.port, revision, opens=False) as peer:
        make_room, ended = at.app.sessions.make_room, []

        def closes(owner):
            make_room(owner)
            at.app.sessions.close("the server is shutting down")

        detach = server.detach
        server.detach = lambda connection, reason: (ended.append(reason), detach(connection, reason))
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
    server = demo(ping_every=3600.0)
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        (session,) = at.app.sessions.all()
        peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}))
        assert server.gate.begun.wait(PATIENCE)
        session.connection.lose("no ping was answered")
        assert server.gate.ended.wait(PATIENCE)
        assert server.gate.cancelled
        assert len(at.app.sessions) == 0
        with peer.post(peer.message("ping")) as reply:
            assert reply.status == 404
    with endpoint(demo()) as at, Peer(at.port, revision) as peer:
        (session,) = at.app.sessions.all()
        assert session.connection.lose is None


@pytest.mark.spec("basic/transports/streamable-http/session-terminated-404")
@pytest.mark.parametrize("revision", SESSIONS)
def test_a_large_body_for_a_session_that_is_none_is_refused_before_it_is_read(server, revision):
    """Of a small one it is said afterwards. The connection stays: only the head of the request was sent."""
    with endpoint(server) as at, Peer(at.port, revision) as peer:
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
            assert text(reply.answer()["result"]) == "3"


def test_a_large_body_without_a_session_is_looked_at_first(server):
    """It may be the handshake, or of the modern era."""
    ballast = {"ballast": "x" * 100_000}
    with endpoint(server) as at, Peer(at.port, "2025-11-25", opens=False) as peer:
        opening = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"experimental": {"vendor/x": ballast}},
            "clientInfo": {"name": "x", "version": "1"},
        }
        with peer.ask("initialize", opening) as reply:
            assert reply.status == 200
            assert reply.headers["mcp-session-id"]
    useless = {"Mcp-Session-Id": "of no use"}
    with endpoint(server) as at, Peer(at.port, MODERN, headers=useless) as peer:
        assert "tools" in peer.request("tools/list", {"_meta": ballast})


def test_a_second_handshake_within_a_session_is_refused(server):
    with endpoint(server) as at, Peer(at.port, "2025-06-18") as peer:
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
def test_in_a_session_the_version_is_what_was_agreed(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25", headers={"MCP-Protocol-Version": None}) as peer:
        assert called(peer, "who").startswith("2025-11-25")


def test_another_version_than_was_agreed_changes_nothing(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        peer.more = {"MCP-Protocol-Version": "2025-06-18"}
        assert called(peer, "who").startswith("2025-11-25")


@pytest.mark.spec(
    "basic/transports/streamable-http/version-header-absent-default",
    "basic/transports/streamable-http/version-header-absent-legacy",
)
def test_without_session_and_header_it_is_2025_03_26(server):
    with endpoint(server, stateless=True) as at, Peer(at.port, None) as peer:
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
def test_events_have_ids_and_end_with_the_answer(server, revision):
    with endpoint(server) as at, Peer(at.port, revision) as peer:
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
def test_streams_of_2025_11_25_begin_with_an_id(server, revision):
    with endpoint(server, retry_ms=77) as at, Peer(at.port, revision) as peer:
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
def test_each_message_is_on_one_stream_the_one_it_belongs_to(server, revision):
    """A GET stream, two calls at once: each hears its own, and what belongs to none is on the GET stream."""
    with endpoint(server) as at, Peer(at.port, revision) as peer, peer.get() as get:
        assert get.block() is not None
        gated = peer.send(
            "POST",
            peer.message(
                "tools/call",
                {"name": "gated", "arguments": {"says": True}, "_meta": {"progressToken": "g"}},
                id="g",
            ),
        )
        assert server.gate.begun.wait(PATIENCE)
        with peer.call("count", {"to": 2}, {"progressToken": "c"}) as reply:
            counted = reply.messages()
        server.add_tool(lambda: "x", name="new")
        assert get.message()["method"] == CHANGED
        server.gate.go.set()
        heard = Reply(gated).messages()
        peer.delete()
        assert get.messages() == []
    assert [m["params"]["progressToken"] for m in counted[:-1]] == ["c", "c"]
    assert [m["params"]["progressToken"] for m in heard[:-1]] == ["g", "g"]
    assert heard[-1]["id"] == "g"


def test_what_belongs_to_no_request_waits_for_a_get(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        session = at.app.sessions.find(peer.session, None)
        server.add_tool(lambda: "x", name="new")
        assert eventually(lambda: session.unrelated.is_begun)
        with peer.get() as stream:
            assert stream.message()["method"] == CHANGED


def test_a_second_get_takes_over_and_the_first_ends(server):
    """It may be that the first one's connection is dead, and nobody knows yet."""
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer, peer.get() as first:
        assert first.block() is not None
        with peer.get() as second:
            assert second.status == 200
            assert first.events() == []
            server.add_tool(lambda: "x", name="new")
            assert second.message()["method"] == CHANGED
        assert eventually(lambda: at.app.waiting.count == 0)


def test_get_needs_an_accept_for_event_streams(server):
    with (
        endpoint(server) as at,
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
def test_a_broken_connection_cancels_nothing_and_the_rest_can_be_had(server, revision):
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        reply = peer.call("gated", {"says": True}, {"progressToken": "t"})
        event = reply.event()
        while not event.data:
            event = reply.event()
        reply.connection.reset()
        assert eventually(lambda: at.app.waiting.count == 0)
        server.gate.go.set()
        assert server.gate.ended.wait(PATIENCE)
        assert not server.gate.cancelled
        for _ in range(2):  # as often as it likes
            with peer.get(event.id) as rest:
                messages = rest.messages()
            assert [m.get("params", {}).get("progress") for m in messages] == [2, None]
            assert text(messages[-1]["result"]) == "done"


@pytest.mark.spec("basic/transports/streamable-http/sse-disconnect-not-cancel")
def test_a_client_that_leaves_before_anything_was_said_has_not_cancelled(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}))
        assert server.gate.begun.wait(PATIENCE)
        connection.reset()
        assert eventually(lambda: at.app.waiting.count == 0)
        server.gate.go.set()
        assert server.gate.ended.wait(PATIENCE)
        assert not server.gate.cancelled


def test_cancelled_is_what_cancels(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}, id=5))
        assert server.gate.begun.wait(PATIENCE)
        assert peer.tell({"method": "notifications/cancelled", "params": {"requestId": 5}}) == 202
        assert server.gate.ended.wait(PATIENCE)
        assert server.gate.cancelled
        connection.close()


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-close-connection",
    "basic/transports/streamable-http/sse-retry-before-close",
    "basic/transports/streamable-http/sse-no-early-close",
)
@pytest.mark.parametrize("revision", SESSIONS)
def test_the_client_of_a_long_call_may_be_let_go_and_comes_back(server, revision):
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        reply = peer.call("poll", {}, {"progressToken": "t"})
        assert server.gate.begun.wait(PATIENCE)
        if revision != "2025-11-25":  # its clients would not come back
            server.gate.go.set()
            assert text(reply.answer()["result"]) == "let go: False"
            return
        first, second = reply.events()
        assert (first.retry, second.message["params"]["progress"]) == ("1000", 1)
        with peer.get(second.id) as rest:
            server.gate.go.set()
            progress, answer = rest.messages()
        assert progress["params"]["progress"] == 2
        assert text(answer["result"]) == "let go: True"


def test_a_client_that_comes_back_on_time_hears_what_comes_later(server):
    """From the first event on, which has but an id."""
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        with peer.call("poll", {}, {"progressToken": "t"}) as reply:
            first, _ = reply.events()
        with peer.get(first.id) as rest:
            assert rest.message()["params"]["progress"] == 1
            server.gate.go.set()
            assert rest.message()["params"]["progress"] == 2
            assert "result" in rest.message()
            assert rest.message() is None


def test_who_resumes_takes_the_stream_over(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        first = peer.call("gated", {"says": True}, {"progressToken": "t"})
        begun = first.event()
        assert first.message() is not None
        with peer.get(begun.id) as second:
            assert first.events() == []
            assert second.message()["params"]["progress"] == 1
            server.gate.go.set()
            assert text(second.answer()["result"]) == "done"


@pytest.mark.spec("basic/transports/streamable-http/no-cross-stream-replay")
@pytest.mark.parametrize("revision", SESSIONS)
def test_nothing_of_another_stream_or_session_is_sent_again(server, revision):
    with endpoint(server) as at, Peer(at.port, revision) as peer, Peer(at.port, revision) as other:
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
def test_a_forged_last_event_id_is_400(server, forged):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        with peer.call("count", {"to": 1}, {"progressToken": "t"}) as reply:
            tag = reply.event().id.split("-")[0]
        raw = forged.replace("{tag}", tag).encode().decode("latin-1")
        with peer.get(raw) as refused:
            assert refused.status == 400
            assert "Last-Event-ID" in refused.json()["error"]["message"]
        assert peer.request("ping") == {}


@pytest.mark.spec("basic/transports/streamable-http/sse-terminate-on-session-expiry")
def test_the_streams_of_a_session_end_with_it(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer, peer.get() as get:
        assert get.block() is not None
        with peer.call("gated", {"says": True}, {"progressToken": "t"}) as reply:
            assert server.gate.begun.wait(PATIENCE)
            silent = peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}))
            (session,) = at.app.sessions.all()
            assert eventually(lambda: len(session.connection.serving) == 2)
            assert peer.delete() == 204
            assert [m["method"] for m in reply.messages()] == ["notifications/progress"]
            assert get.events() == []
            assert silent.response().status == 503
        assert server.gate.ended.wait(PATIENCE)
        assert server.gate.cancelled


# -------------------------------------------------------------------------------- it asks back


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-server-messages",
    "basic/transports/streamable-http/sse-messages-related",
    "basic/transports/streamable-http/notification-202",
)
@pytest.mark.parametrize("answers", ["auto", "stream"])
def test_a_question_is_on_the_stream_of_its_request_and_is_answered_by_post(server, answers):
    with (
        endpoint(server, answers=answers) as at,
        Peer(at.port, "2025-06-18", capabilities=FORM) as peer,
        peer.call("book") as reply,
    ):
        asked = reply.message()
        assert asked["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"seats": 2}}
        assert peer.tell({"id": asked["id"], "result": answer}) == 202
        assert text(reply.answer()["result"]) == "2 seats"


@pytest.mark.parametrize("revision", SESSIONS)
def test_roots_are_asked_for_in_every_revision(server, revision):
    with (
        endpoint(server) as at,
        Peer(at.port, revision, capabilities={"roots": {}}) as peer,
        peer.call("folders") as reply,
    ):
        asked = reply.message()
        assert peer.tell({"id": asked["id"], "result": {"roots": [{"uri": "file:///a"}]}}) == 202
        assert text(reply.answer()["result"]) == "1 folders"


def test_an_answer_to_nothing_is_taken_and_ignored(server):
    with endpoint(server) as at, Peer(at.port, "2025-06-18") as peer:
        assert peer.tell({"id": "nothing", "result": {}}) == 202
        assert peer.request("ping") == {}


@pytest.mark.parametrize(("answers", "stateless"), [("json", False), ("auto", True)])
def test_where_nothing_can_be_asked_the_tool_is_told(server, answers, stateless):
    with (
        endpoint(server, answers=answers, stateless=stateless) as at,
        Peer(at.port, "2025-06-18", capabilities=FORM, opens=not stateless) as peer,
    ):
        result = peer.request("tools/call", {"name": "book", "arguments": {}})
        assert result["isError"]


# ------------------------------------------------------------------------------------- batches


@pytest.mark.spec("basic/transports/streamable-http/sse-batched-responses")
def test_a_batch_is_answered_by_a_batch(server):
    with endpoint(server) as at, Peer(at.port, "2025-03-26") as peer:
        batch = [
            peer.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
            {"jsonrpc": "2.0", "method": "notifications/other"},
            peer.message("ping"),
        ]
        with peer.post(batch) as reply:
            found = {m["id"]: m["result"] for m in reply.json()}
        assert found.keys() == {batch[0]["id"], batch[2]["id"]}
        assert text(found[batch[0]["id"]]) == "3"


def test_what_the_requests_of_a_batch_say_comes_before_their_answers(server):
    with endpoint(server) as at, Peer(at.port, "2025-03-26") as peer:
        meta = {"progressToken": "t"}
        params = {"name": "count", "arguments": {"to": 2}, "_meta": meta}
        with peer.post([peer.message("tools/call", params), peer.message("ping")]) as reply:
            *told, answers = reply.messages()
        assert [m["params"]["progress"] for m in told] == [1, 2]
        assert len(answers) == 2


@pytest.mark.spec("basic/transports/streamable-http/notification-202")
def test_a_batch_without_requests_is_202(server):
    with endpoint(server) as at, Peer(at.port, "2025-03-26") as peer:
        batch = [
            {"jsonrpc": "2.0", "method": "notifications/other"},
            {"jsonrpc": "2.0", "id": 9, "result": {}},
        ]
        with peer.post(batch) as reply:
            assert (reply.status, reply.body()) == (202, b"")
        assert at.app.waiting.count == 0


@pytest.mark.spec("basic/transports/streamable-http/rejected-input-status")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("notifications", [False, True], ids=["requests", "notifications"])
def test_later_revisions_have_no_batches(server, revision, notifications):
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        message = (
            {"jsonrpc": "2.0", "method": "notifications/other"} if notifications else peer.message("ping")
        )
        with peer.post([message]) as reply:
            assert reply.status == 400
            assert reply.json()["error"]["code"] == -32600


def test_an_empty_batch_is_400(server):
    with endpoint(server) as at, Peer(at.port, "2025-03-26") as peer, peer.post([]) as reply:
        assert reply.status == 400
        assert reply.json()["error"]["code"] == -32600


# --------------------------------------------------------------------------- without sessions


@pytest.mark.parametrize("revision", SESSIONS)
def test_stateless_each_post_stands_for_itself(server, revision):
    headers = {"MCP-Protocol-Version": revision}
    with endpoint(server, stateless=True) as at, Peer(at.port, revision, headers=headers) as peer:
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


def test_stateless_what_runs_is_cancelled_when_the_server_goes(server):
    with endpoint(server, stateless=True) as at, Peer(at.port, None) as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "gated", "arguments": {}}))
        assert server.gate.begun.wait(PATIENCE)
        at.app.close(0.05)
        assert server.gate.ended.wait(PATIENCE)
        assert server.gate.cancelled
        assert connection.response().status == 503


def test_stateless_what_a_client_asks_for_is_told_even_where_nothing_can_be_kept(server):
    with endpoint(server, stateless=True) as at, Peer(at.port, None) as peer:
        assert peer.tell({"method": "notifications/initialized"}) == 202
        assert peer.tell({"id": 1, "result": {}}) == 202
        server.gate.go.set()
        with peer.call("poll") as reply:
            assert text(reply.answer()["result"]) == "let go: False"


# --------------------------------------------------------------- the headers of the interim draft


@pytest.mark.spec(
    "basic/transports/streamable-http/param-mismatch-error-32001",
    "basic/transports/streamable-http/header-failure-json-error-32001",
)
def test_headers_that_differ_from_the_message_are_400_within_a_session_too(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
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


def test_a_setting_requires_the_headers_of_the_draft(server):
    with endpoint(server, require_headers=True) as at, Peer(at.port, None) as peer:
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


def test_json_is_what_a_legacy_client_gets_where_nothing_else_is_said(server):
    with (
        endpoint(server) as at,
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
    server, begun, cancelled = Server("x"), threading.Event(), threading.Event()

    @server.tool
    def silent(ctx: Context) -> str:
        begun.set()
        try:
            ctx.sleep(PATIENCE)
        finally:
            if ctx.cancelled:
                cancelled.set()
        return "rested"

    with endpoint(server, stateless=True) as at, Peer(at.port, "2025-11-25", opens=False) as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "silent"}))
        assert begun.wait(PATIENCE)
        at.app.close(0.05)
        assert cancelled.wait(PATIENCE)
        assert connection.response().status == 503


def test_without_sessions_nothing_is_declared_that_could_never_be_told():
    server = Server("x", offers=["tools", "resources", "prompts"])
    with endpoint(server, stateless=True) as at, Peer(at.port, "2025-11-25") as peer:
        assert peer.opened["capabilities"] == {"logging": {}, "tools": {}, "resources": {}, "prompts": {}}
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        assert peer.opened["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
