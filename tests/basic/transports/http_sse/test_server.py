"""basic/transports/http_sse/server: the two endpoints of 2024-11-05, by hand."""

import contextlib
import json
import threading
import time

import pytest
from choices import for_server
from http_peers import Event, Peer, endpoint
from peers import LEGACY, META, PATIENCE, eventually

from mcp_ref import Context, Limit, Server, connect
from mcp_ref.basic.index.error_responses import TooManyRequests
from mcp_ref.basic.transports.streamable_http.security import Denied

NOTICED = 10.0
"""Seconds in which a departed client is noticed: half a one, and what a busy machine adds."""


class Old:
    """A client of HTTP+SSE: a stream that is open, and what can be POSTed beside it."""

    def __init__(self, port, revision="2024-11-05", *, path="/sse", capabilities=None, **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.peer = Peer(port, None, opens=False, headers=named)
        self.stream = self.peer.http("GET", path=path, Accept="text/event-stream")
        assert self.stream.status == 200, self.stream.body()
        first = self.stream.event()
        assert first.event == "endpoint"
        self.uri = first.data
        self.on = self.peer.connect()
        self.capabilities = capabilities or {}
        self._ids = iter(range(1, 1000))
        if revision is not None:
            self.opened = self.initialize(revision)

    def initialize(self, revision):
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": self.capabilities, "clientInfo": info}
        result = self.request("initialize", params)["result"]
        self.tell({"method": "notifications/initialized"})
        return result

    def post(self, message, **headers):
        """The status of a POST, and its body."""
        reply = self.peer.post(message, on=self.on, **{"path": self.uri, "Accept": None, **headers})
        return reply.status, reply.body()

    def tell(self, message):
        assert self.post({"jsonrpc": "2.0", **message}) == (202, b"")

    def ask(self, method, params=None, **more):
        request_id = next(self._ids)
        self.tell({"id": request_id, "method": method, "params": params or {}, **more})
        return request_id

    def message(self):
        event = self.stream.event()
        assert event is not None, "the stream has ended"
        assert event.event == "message"
        assert event.id is None
        return json.loads(event.data)

    def request(self, method, params=None):
        request_id = self.ask(method, params)
        answer = self.message()
        assert answer["id"] == request_id
        return answer

    def call(self, tool, **arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments})["result"]

    def leave(self):
        self.stream.connection.close()

    def close(self):
        self.peer.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Slow:
    """A tool that runs until it is told to go on, or cancelled."""

    def __init__(self, server):
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.cancelled = False

        @server.tool
        def slow(ctx: Context) -> str:
            self.begun.set()
            while not self.go.wait(0.01) and not ctx.cancelled:
                pass
            self.cancelled = ctx.cancelled
            self.ended.set()
            return "done"


def make(**options):
    server = Server("old", version="1", **for_server(options))

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def count(ctx: Context, to: int) -> str:
        for number in range(to):
            ctx.progress(number + 1, to)
        return "counted"

    @server.tool
    def who(ctx: Context) -> str:
        return f"{ctx.principal} {ctx.http.headers.get('X-Tenant')}"

    @server.tool
    def roots(ctx: Context) -> int:
        return len(ctx.list_roots())

    return server


@pytest.fixture
def server():
    return make()


@pytest.fixture
def at(server):
    with endpoint(server, sse_path="/sse") as at:
        yield at


def text(result):
    return result["content"][0]["text"]


def sessions(at):
    return at.app._old._sessions


# ----------------------------------------------------------------------------- the two endpoints


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-two-endpoints",
    "basic/transports/streamable-http/sse-endpoint-event",
    "basic/transports/streamable-http/sse-message-events",
)
def test_the_stream_begins_with_the_uri_for_posts_and_brings_all_answers(at):
    with Old(at.port, None) as old:
        assert old.stream.headers["content-type"] == "text/event-stream"
        assert old.uri.startswith("/sse/messages?session_id=")
        assert old.initialize("2024-11-05")["protocolVersion"] == "2024-11-05"
        assert text(old.call("add", a=2, b=3)) == "5"
        assert old.request("ping")["result"] == {}


@pytest.mark.spec("basic/transports/streamable-http/old-clients-both-endpoints")
def test_old_and_new_clients_are_served_beside_one_another(at):
    with Old(at.port) as old, Peer(at.port) as modern, Peer(at.port, "2025-11-25") as legacy:
        assert text(old.call("add", a=1, b=1)) == "2"
        for peer in (modern, legacy):
            params = {"name": "add", "arguments": {"a": 1, "b": 2}}
            assert text(peer.request("tools/call", params)) == "3"


@pytest.mark.parametrize("revision", LEGACY)
def test_any_revision_of_the_era_may_be_agreed_on(at, revision):
    with Old(at.port, revision) as old:
        assert old.opened["protocolVersion"] == revision
        assert text(old.call("add", a=1, b=2)) == "3"


def test_a_request_of_the_modern_era_is_told_what_is_spoken_here(at):
    with Old(at.port, None) as old:
        answer = old.request("server/discover", {"_meta": META})
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"]["supported"] == list(LEGACY)
        old.initialize("2025-06-18")  # and goes on in what is


def test_what_a_request_says_before_its_answer_comes_on_the_same_stream(at):
    with Old(at.port) as old:
        params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "t"}}
        request_id = old.ask("tools/call", params)
        messages = [old.message() for _ in range(4)]
        assert [m["params"]["progress"] for m in messages[:3]] == [1, 2, 3]
        assert messages[3]["id"] == request_id


def test_the_server_asks_on_the_stream_and_is_answered_by_post(at):
    with Old(at.port, "2025-11-25", capabilities={"roots": {}}) as old:
        request_id = old.ask("tools/call", {"name": "roots", "arguments": {}})
        asked = old.message()
        assert asked["method"] == "roots/list"
        old.tell({"id": asked["id"], "result": {"roots": [{"uri": "file:///a"}]}})
        answer = old.message()
        assert (answer["id"], text(answer["result"])) == (request_id, "1")


def test_changes_are_announced_on_the_stream(at, server):
    with Old(at.port) as old:
        server.add_tool(lambda: 1, name="another")
        assert old.message()["method"] == "notifications/tools/list_changed"


def test_a_batch_of_2025_03_26_is_answered_in_one_event(at):
    with Old(at.port, "2025-03-26") as old:
        old_batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in "ab"]
        assert old.post(old_batch)[0] == 202
        assert sorted(m["id"] for m in old.message()) == ["a", "b"]
        assert old.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}])[0] == 202
        assert old.request("ping")["result"] == {}


def test_a_tool_sees_the_post_that_called_it(at):
    with Old(at.port) as old:
        params = {"name": "who", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params}
        assert old.post(message, X_Tenant="north")[0] == 202
        assert text(old.message()["result"]) == "None north"


def test_a_cancelled_request_is_not_answered_and_the_stream_goes_on(at, server):
    slow = Slow(server)
    with Old(at.port) as old:
        request_id = old.ask("tools/call", {"name": "slow", "arguments": {}})
        assert slow.begun.wait(PATIENCE)
        old.tell({"method": "notifications/cancelled", "params": {"requestId": request_id}})
        assert slow.ended.wait(PATIENCE)
        assert slow.cancelled
        assert text(old.call("add", a=1, b=1)) == "2"


def test_a_client_of_this_package_finds_the_old_transport_by_itself(at):
    with connect(f"http://127.0.0.1:{at.port}/sse") as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert len(sessions(at)) == 1
    assert eventually(lambda: not sessions(at), NOTICED)


def test_in_a_mount_the_uri_is_the_one_that_the_client_sees(server):
    app = server.wsgi_app("/tools/mcp", sse_path="/tools/sse")

    def answered(**more):
        environ = {"REQUEST_METHOD": "GET", "HTTP_HOST": "localhost", "QUERY_STRING": "", **more}
        with contextlib.closing(app(environ, lambda status, headers: None)) as body:
            return next(iter(body))

    mounted = answered(SCRIPT_NAME="/tools", PATH_INFO="/sse/")
    assert mounted.startswith(b"event: endpoint\ndata: /tools/sse/messages?session_id=")
    app.close(0)
    app = server.wsgi_app(sse_path="/")
    assert answered(PATH_INFO="/").startswith(b"event: endpoint\ndata: /messages?session_id=")
    app.close(0)


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", -32700), (b"\xff", -32700), (b"[" * 5000, -32700), (b"{}", -32600), (b"7", -32600)],
)
def test_what_cannot_be_answered_on_the_stream_is_400_and_harms_nothing(at, body, code):
    with Old(at.port) as old:
        status, said = old.post(body)
        assert status == 400
        assert json.loads(said)["error"]["code"] == code
        assert text(old.call("add", a=1, b=1)) == "2"


def test_what_is_no_message_but_has_an_id_is_answered_on_the_stream(at):
    with Old(at.port) as old:
        old.tell({"id": 9, "method": "ping", "jsonrpc": "1.0"})
        answer = old.message()
        assert (answer["id"], answer["error"]["code"]) == (9, -32600)
        assert old.post([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])[0] == 202  # no batches in 2024-11-05
        assert old.message()["error"]["code"] == -32600


def test_a_question_whose_answer_is_no_answer_does_not_wait_for_another(at):
    with Old(at.port, "2025-11-25", capabilities={"roots": {}}) as old:
        request_id = old.ask("tools/call", {"name": "roots", "arguments": {}})
        asked = old.message()
        old.tell({"id": asked["id"]})
        answer = old.message()
        assert answer["id"] == request_id
        assert answer["result"]["isError"]


@pytest.mark.parametrize("query", ["", "?x=1", "?session_id=", "?session_id=a&session_id=b", "?" + "a&" * 40])
def test_a_post_to_no_session_is_400(at, query):
    with Old(at.port) as old:
        assert old.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path="/sse/messages" + query)[0] == 400


@pytest.mark.parametrize("forged", ["x", "%00", "%F0%9F%90%8D", "a" * 4000, "../../etc/passwd"])
def test_a_forged_session_id_is_404(at, forged):
    with Old(at.port) as old:
        path = f"/sse/messages?session_id={forged}"
        assert old.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=path)[0] == 404
        assert text(old.call("add", a=1, b=1)) == "2"


def test_a_session_of_another_process_is_refused_with_what_to_do_about_several(at):
    with Old(at.port) as old, endpoint(Server("another"), sse_path="/sse") as other, Old(other.port) as new:
        status, body = new.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=old.uri)
    assert status == 404
    said = json.loads(body)["error"]["message"]
    assert "open a stream for a new one" in said
    assert "where several processes serve one URL, route a stream and its messages to the same" in said


def test_session_ids_are_of_this_transport_alone(at):
    with Old(at.port) as old, Peer(at.port, "2025-11-25") as new:
        path = f"/sse/messages?session_id={new.session}"
        assert old.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=path)[0] == 404
        new.session = old.uri.partition("=")[2]
        with new.ask("ping") as reply:
            assert reply.status == 404


def test_anothers_session_is_none(server):
    def who(request):
        if "X-Name" not in request.headers:
            raise Denied("who are you?")
        return request.headers["X-Name"]

    with endpoint(server, sse_path="/sse", authenticate=who) as at:
        with Old(at.port, X_Name="ann") as ann, Old(at.port, X_Name="bob") as bob:
            assert bob.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=ann.uri)[0] == 404
            assert text(ann.call("who")) == "ann None"
            assert text(bob.call("who")) == "bob None"
        with Peer(at.port, None) as nobody, nobody.http("GET", path="/sse") as reply:
            assert reply.status == 401


@pytest.mark.spec("basic/transports/streamable-http/origin-validated")
def test_strangers_are_kept_out_of_both_endpoints(at):
    with Old(at.port) as old:
        evil = {"Origin": "http://evil.example"}
        assert old.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, **evil)[0] == 403
        with old.peer.http("GET", path="/sse", **evil) as reply:
            assert reply.status == 403
        with old.peer.http("GET", path="/sse", Host="evil.example") as reply:
            assert reply.status == 403


def test_a_post_is_json_of_a_bounded_size(server):
    with endpoint(server, sse_path="/sse", max_body_bytes=1000) as at, Old(at.port) as old:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert old.post(ping, Content_Type="text/plain")[0] == 415
        assert old.post(ping, Content_Encoding="gzip")[0] == 415
        assert old.post({**ping, "params": {"x": "y" * 1000}})[0] == 413
        old.on = old.peer.connect()
        assert text(old.call("add", a=1, b=1)) == "2"


@pytest.mark.parametrize(
    ("method", "path", "allowed"), [("POST", "/sse", "GET"), ("GET", "/sse/messages?session_id=x", "POST")]
)
def test_each_endpoint_takes_its_own_method(at, method, path, allowed):
    with Peer(at.port, None) as peer, peer.http(method, b"{}", path=path) as reply:
        assert (reply.status, reply.headers["allow"]) == (405, allowed)


def test_a_stream_is_for_clients_that_take_one(at):
    with Peer(at.port, None) as peer, peer.http("GET", path="/sse", Accept="application/json") as reply:
        assert reply.status == 406
        assert not sessions(at)


def test_web_pages_may_be_let_in(server):
    page = {"Origin": "https://app.example", "Access_Control_Request_Method": "POST"}
    origins = ["https://app.example"]
    with endpoint(server, sse_path="/sse", browser_origins=origins) as at, Peer(at.port, None) as peer:
        for path in ("/sse", "/sse/messages"):
            with peer.http("OPTIONS", path=path, **page) as reply:
                assert reply.status == 204
                assert "Content-Type" in reply.headers["access-control-allow-headers"]


def test_a_server_without_threads_has_no_such_stream(server):
    app = server.wsgi_app(sse_path="/sse")
    said = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/sse", "HTTP_HOST": "localhost"}
    body = app({**environ, "wsgi.multithread": False}, lambda status, headers: said.append(status))
    assert said == ["503 Service Unavailable"]
    assert b"threads" in b"".join(body)
    app.close(0)


@pytest.mark.parametrize("path", ["/mcp", "/health"])
def test_a_path_that_is_taken_is_refused(server, path):
    with pytest.raises(ValueError, match="another endpoint"):
        server.wsgi_app(sse_path=path, health_path="/health")


def test_the_path_for_posts_is_checked_as_well(server):
    with pytest.raises(ValueError, match="/a/messages is the path of another endpoint"):
        server.wsgi_app("/a/messages", sse_path="/a")


def test_a_server_of_the_modern_era_alone_has_no_use_for_it():
    with pytest.raises(ValueError, match="this server speaks 2026-07-28 alone"):
        make(revisions=["2026-07-28"]).wsgi_app(sse_path="/sse")


# ------------------------------------------------------------------------------- limits, and the end


def test_streams_are_counted_with_those_of_the_new_transport(server):
    with endpoint(server, sse_path="/sse", max_streams=2) as at:
        with Old(at.port), Peer(at.port, "2025-11-25") as new, new.get() as stream:
            assert stream.status == 200
            with new.http("GET", path="/sse", Accept="text/event-stream") as refused:
                assert refused.status == 503
            assert len(sessions(at)) == 1
        assert eventually(lambda: at.app.places.taken == 0, NOTICED)
        with Old(at.port) as old:
            assert text(old.call("add", a=1, b=1)) == "2"


def test_requests_are_limited_in_a_session_as_elsewhere():
    with endpoint(make(limit=Limit(rate=0.01, burst=2)), sse_path="/sse") as at, Old(at.port) as old:
        params = {"name": "add", "arguments": {"a": 1, "b": 1}}
        codes = [old.request("tools/call", params).get("error", {}).get("code") for _ in range(3)]
        assert codes[-1] == TooManyRequests.code


def test_a_silent_stream_is_kept_alive(server):
    with endpoint(server, sse_path="/sse", keep_alive=0.1) as at, Old(at.port) as old:
        assert old.stream.block() == Event(comment="")
        assert text(old.call("add", a=1, b=1)) == "2"


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_ends_its_session_and_all_that_runs_in_it(at, server, how):
    slow = Slow(server)
    with Old(at.port) as old:
        old.ask("tools/call", {"name": "slow", "arguments": {}})
        assert slow.begun.wait(PATIENCE)
        began = time.monotonic()
        getattr(old.stream.connection, how)()
        assert slow.ended.wait(PATIENCE)
        assert slow.cancelled
        assert time.monotonic() - began < NOTICED
        assert eventually(lambda: not sessions(at))
        assert old.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})[0] == 404


def test_a_post_whose_session_ends_meanwhile_leaves_nothing_running(at, server):
    slow = Slow(server)
    with Old(at.port) as old:
        session = next(iter(sessions(at).values()))
        session.is_over = True  # it ended after the POST had found it
        params = {"name": "slow", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
        assert old.post(message)[0] == 404
        assert not session.connection.responder.serving
        assert not slow.begun.is_set() or slow.ended.wait(PATIENCE)


def test_many_come_and_go_and_nothing_stays(at):
    for _ in range(20):
        with contextlib.ExitStack() as open_ones:
            for _ in range(5):
                peer = open_ones.enter_context(Peer(at.port, None))
                open_ones.enter_context(peer.http("GET", path="/sse", Accept="text/event-stream"))
    assert eventually(lambda: not sessions(at) and at.app.places.taken == 0)


def test_an_application_that_closes_ends_idle_streams_at_once(at):
    with Old(at.port) as old:
        began = time.monotonic()
        at.app.close(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2
        assert old.stream.event() is None
        assert old.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})[0] == 503
    assert eventually(lambda: not sessions(at))


def test_an_application_that_closes_lets_what_runs_be_answered_first(at, server):
    slow = Slow(server)
    with Old(at.port) as old:
        request_id = old.ask("tools/call", {"name": "slow", "arguments": {}})
        assert slow.begun.wait(PATIENCE)
        closing = threading.Thread(target=at.app.close, args=(PATIENCE,))
        closing.start()
        unanswered = {"jsonrpc": "2.0", "method": "notifications/x"}  # its answer would be on the stream
        assert eventually(lambda: old.post(unanswered)[0] == 503)
        slow.go.set()
        assert old.message()["id"] == request_id
        assert old.stream.event() is None
        closing.join(PATIENCE)
        assert not closing.is_alive()


def test_an_application_that_closes_waits_no_longer_than_it_should(at, server):
    slow = Slow(server)
    with Old(at.port) as old:
        old.ask("tools/call", {"name": "slow", "arguments": {}})
        assert slow.begun.wait(PATIENCE)
        at.app.close(0.05)
        assert slow.ended.wait(PATIENCE)
        assert slow.cancelled
        assert old.stream.event() is None


def test_a_cancelled_request_is_not_waited_for_by_an_application_that_closes(at, server):
    slow = Slow(server)
    with Old(at.port) as old:
        request_id = old.ask("tools/call", {"name": "slow", "arguments": {}})
        assert slow.begun.wait(PATIENCE)
        old.tell({"method": "notifications/cancelled", "params": {"requestId": request_id}})
        began = time.monotonic()
        at.app.close(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2
        assert old.stream.event() is None
