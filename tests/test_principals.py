"""What belongs to one principal is worth nothing to another: over HTTP, in both transports and both eras, by
a hook and by tokens.

Sessions, event ids, tasks, the state of questions and limits, each in the hands of a thief who knows the id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from http_peers import Endpoint, Peer, endpoint
from peers import MODERN, PATIENCE, eventually
from protected import ISSUER, bearer, protected
from task_peers import MODERN_CAPABILITIES

from mcp_ref import Context, HttpOptions, Limit, Server

LEGACY = "2025-11-25"
EITHER = pytest.mark.parametrize("revision", [LEGACY, MODERN])
Json = dict[str, Any]


class Site(NamedTuple):
    """A server whose callers have names."""

    server: Server
    at: Endpoint
    gate: threading.Event
    credentials_of: Callable[[str | None], Json]

    def peer(self, name: str | None, revision: str = LEGACY, **options: Any) -> Peer:
        """A client on behalf of a principal."""
        return Peer(
            self.at.port,
            revision,
            headers=self.credentials_of(name),
            capabilities=MODERN_CAPABILITIES,
            **options,
        )


def by_header(request: Any) -> str | None:
    """An `authenticate` hook."""
    found: str | None = request.headers.get("X-User")
    return found


def credentials_of(name: str | None) -> dict[str, str | None]:
    return {"X-User": name}


def server_of(gate: threading.Event, principal: Callable[[Context], str | None] | None = None) -> Server:
    server = Server("of many", version="1", principal=principal, secret="sixteen bytes and more")

    @server.tool
    def who(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool
    def steps(ctx: Context) -> str:
        ctx.progress(1)
        gate.wait(PATIENCE)
        return f"for {ctx.principal}"

    @server.tool
    def book(ctx: Context) -> str:
        return f"{ctx.confirm('Really?')} for {ctx.principal}"

    @server.tool(task="optional")
    def render(ctx: Context) -> str:
        while not gate.wait(0.01) and not ctx.cancelled:
            pass
        return f"for {ctx.principal}"

    return server


def token_of(name: str | None) -> dict[str, str]:
    """A token, also of who is called None: without one there is no request."""
    return bearer(ISSUER.token(str(name)))


@pytest.fixture(params=["authenticate", "auth"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    gate = threading.Event()
    server = server_of(gate)
    has_hook = request.param == "authenticate"
    who = {"authenticate": by_header} if has_hook else {"auth": protected()}
    with endpoint(server, sse_path="/sse", **who) as at:
        try:
            yield Site(server, at, gate, credentials_of if has_hook else token_of)
        finally:
            gate.set()


def text(result: Any) -> str:
    found: str = result["content"][0]["text"]
    return found


def whose(peer: Peer) -> str:
    return text(peer.request("tools/call", {"name": "who"}))


@EITHER
@pytest.mark.spec("docs/security_best_practices/session-id-user-bound")
def test_the_principal_of_the_request_is_that_of_its_handler(site: Site, revision: str) -> None:
    for name in ("ann", "bob", None):
        with site.peer(name, revision) as peer:
            assert whose(peer) == str(name)


@pytest.mark.parametrize("thief", ["bob", None])
def test_the_session_id_of_another_principal_is_worth_nothing(site: Site, thief: str | None) -> None:
    with site.peer("ann") as ann, site.peer(thief, opens=False) as other:
        other.session = ann.session
        for method, message in (("POST", other.message("ping")), ("GET", None), ("DELETE", None)):
            with other.http(method, message, Accept="application/json, text/event-stream") as reply:
                assert reply.status == 404
        with other.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) as reply:
            assert reply.status == 404
        assert ann.request("ping") == {}


def test_the_event_id_of_another_principal_is_worth_nothing(site: Site) -> None:
    """Neither in the session that it is of, nor in one's own."""
    with site.peer("ann") as ann, site.peer("bob") as bob:
        reply = ann.call("steps", meta={"progressToken": "t"})
        seen: list[str] = []
        while not seen:
            event = reply.event()
            assert event is not None
            seen += [event.id] if event.id else []
        with bob.get(seen[0]) as stolen:
            assert stolen.status == 400
        own, bob.session = bob.session, ann.session
        with bob.get(seen[0]) as stolen:
            assert stolen.status == 404
        bob.session = own
        reply.close()
        site.gate.set()
        with ann.get(seen[0]) as rest:
            assert rest.status == 200
            assert "for ann" in str(rest.answer())


@pytest.mark.parametrize("thief", ["bob", None])
def test_the_uri_for_messages_of_another_principal_is_worth_nothing(site: Site, thief: str | None) -> None:
    """HTTP+SSE: the id of the session is in the URI of the endpoint event."""
    with site.peer("ann", opens=False) as ann, site.peer(thief, opens=False) as other:
        stream = ann.http("GET", path="/sse", Accept="text/event-stream")
        event = stream.event()
        assert event is not None
        with other.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=event.data) as reply:
            assert reply.status == 404
        with ann.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path=event.data) as reply:
            assert reply.status == 202
        answer = stream.event()
        assert answer is not None
        assert answer.message["result"] == {}


def begun(peer: Peer) -> str:
    """The id of a task that runs."""
    params: Json = {"name": "render"}
    if peer.revision == LEGACY:
        found: str = peer.request("tools/call", {**params, "task": {}})["task"]["taskId"]
    else:
        found = peer.request("tools/call", params)["taskId"]
    return found


def about(peer: Peer, method: str, task_id: str) -> Json:
    """A request about a task; its result, or its error."""
    name = {"Mcp_Name": task_id} if peer.revision == MODERN else {}
    with peer.post(peer.message(method, {"taskId": task_id}), **name) as reply:
        answer = reply.answer()
    found: Json = answer["result"] if "result" in answer else answer["error"]
    return found


TASK_METHODS = {LEGACY: ("tasks/get", "tasks/cancel", "tasks/result"), MODERN: ("tasks/get", "tasks/cancel")}


@EITHER
@pytest.mark.spec("basic/utilities/tasks/bind-authorization", "extensions/tasks/auth-each-request")
def test_the_task_id_of_another_principal_is_worth_nothing(site: Site, revision: str) -> None:
    with site.peer("ann", revision) as ann, site.peer("bob", revision) as bob:
        task_id = begun(ann)
        for method in TASK_METHODS[revision]:
            assert about(bob, method, task_id)["code"] == -32602
        if revision == LEGACY:
            assert bob.request("tasks/list")["tasks"] == []
        assert about(ann, "tasks/get", task_id)["status"] == "working"
        # The other era finds it for the same principal, and for no other.
        there = MODERN if revision == LEGACY else LEGACY
        with site.peer("ann", there) as same, site.peer("bob", there) as other:
            assert about(same, "tasks/get", task_id)["status"] == "working"
            assert about(other, "tasks/get", task_id)["code"] == -32602


def test_a_subscription_hears_nothing_of_the_task_of_another_principal(site: Site) -> None:
    with site.peer("ann", MODERN) as ann, site.peer("bob", MODERN) as bob:
        wanted = {"notifications": {"taskIds": [begun(ann)]}}
        for peer, agreed in ((ann, 1), (bob, 0)):
            with peer.ask("subscriptions/listen", wanted) as stream:
                event = stream.event()
                assert event is not None
                said = event.message["params"]["notifications"]
                assert len(said.get("taskIds", [])) == agreed


@pytest.mark.spec("basic/patterns/mrtr/request-state-principal")
def test_the_request_state_of_another_principal_is_worth_nothing(site: Site) -> None:
    with site.peer("ann", MODERN) as ann, site.peer("bob", MODERN) as bob, site.peer(None, MODERN) as anyone:
        asked = ann.request("tools/call", {"name": "book"})
        answers = {key: {"action": "accept", "content": {}} for key in asked["inputRequests"]}
        retry = {"name": "book", "inputResponses": answers, "requestState": asked["requestState"]}
        for thief in (bob, anyone):
            assert thief.request("tools/call", retry)["code"] == -32602
        assert text(ann.request("tools/call", retry)) == "True for ann"


@EITHER
def test_each_principal_has_limits_of_its_own_however_many_sessions(revision: str) -> None:
    server = Server("rated", limit=Limit(rate=0.001, burst=2))

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    call = {"name": "add", "arguments": {"a": 1, "b": 2}}
    with endpoint(server, authenticate=by_header) as at:

        def peer(name: str) -> Peer:
            return Peer(at.port, revision, headers=credentials_of(name))

        with peer("ann") as first, peer("ann") as second, peer("bob") as bob:
            assert "content" in first.request("tools/call", call)
            assert "content" in second.request("tools/call", call)
            assert first.request("tools/call", call)["code"] == 429
            assert "content" in bob.request("tools/call", call)


def test_the_requests_of_each_principal_are_counted_in_both_transports(site: Site) -> None:
    options = HttpOptions(rate=Limit(rate=0.001, burst=2))
    with endpoint(site.server, authenticate=by_header, sse_path="/sse", options=options) as at:
        with Peer(at.port, MODERN, headers=credentials_of("ann")) as ann:
            with ann.http("GET", path="/sse", Accept="text/event-stream") as stream:
                assert stream.status == 200
            assert whose(ann) == "ann"
            with ann.call("who") as refused:
                assert refused.status == 429
        with Peer(at.port, MODERN, headers=credentials_of("bob")) as bob:
            assert whose(bob) == "bob"


@EITHER
def test_the_author_may_name_another_principal(revision: str) -> None:
    """`Server(principal=)` has the last word; where it names none, what HTTP said stays."""
    gate = threading.Event()
    gate.set()

    def named(ctx: Context) -> str | None:
        assert ctx.principal in ("ann", "bob")
        return {"ann": "the team"}.get(ctx.principal)

    with endpoint(server_of(gate, named), authenticate=by_header) as at:
        for name, principal in (("ann", "the team"), ("bob", "bob")):
            with Peer(at.port, revision, headers=credentials_of(name)) as peer:
                assert whose(peer) == principal


def test_a_session_belongs_to_whom_http_names_whatever_the_author_says() -> None:
    gate = threading.Event()
    gate.set()
    with (
        endpoint(server_of(gate, lambda ctx: "the team"), authenticate=by_header) as at,
        Peer(at.port, LEGACY, headers=credentials_of("ann")) as ann,
        Peer(at.port, LEGACY, headers=credentials_of("bob"), opens=False) as bob,
    ):
        bob.session = ann.session
        with bob.call("who") as reply:
            assert reply.status == 404
        assert whose(ann) == "the team"


def test_a_task_is_run_for_the_principal_of_its_call(site: Site) -> None:
    with site.peer("ann", MODERN) as ann:
        task_id = begun(ann)
        site.gate.set()
        found: list[Json] = []

        def is_over() -> bool:
            found[:] = [about(ann, "tasks/get", task_id)]
            return found[0]["status"] == "completed"

        assert eventually(is_over)
        assert text(found[0]["result"]) == "for ann"
