"""api/resource_server: a protected server, through real sockets, in both transports and both eras."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
import requests
from http_peers import Endpoint, Peer, Reply, endpoint
from peers import ENV, MODERN, PATIENCE, RawClient
from protected import HOUR, ISSUER, METADATA, RESOURCE, Issuer, bearer, protected
from task_peers import MODERN_CAPABILITIES

from mcp_ref import Context, HttpError, HttpOptions, RefusedByStatus, Server, ServerOptions, connect
from mcp_ref.api.resource_server import AccessToken, CannotVerify, InvalidToken, ResourceServer
from mcp_ref.basic.authorization.index.error_handling import Challenge, parse_challenges
from mcp_ref.extensions.dpop import Nonces, Proofs

LEGACY = "2025-11-25"
EITHER = pytest.mark.parametrize("revision", [LEGACY, MODERN])
Json = dict[str, Any]


class Ran:
    """What handlers have run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def note(self, name: str) -> str:
        self.names.append(name)
        return name


def notes(ran: Ran, **options: Any) -> Server:
    """A server of which some things need scopes."""
    server = Server("notes", version="1", **options)

    @server.tool
    def who(ctx: Context) -> str:
        assert ctx.token is not None
        return f"{ctx.principal} {ctx.token.client_id} {' '.join(sorted(ctx.token.scopes))}"

    @server.tool(scopes=["notes:write"])
    def write(text: str) -> str:
        return ran.note("write")

    @server.tool(scopes=["notes:write", "notes:admin"], task="optional")
    def purge() -> str:
        return ran.note("purge")

    @server.tool
    def move(ctx: Context, to: str, *, says: bool = False) -> str:
        if says:
            ctx.progress(1)
        ctx.require_scopes("notes:write", f"notes:{to}")
        return ran.note("move")

    @server.resource("notes://plain")
    def plain() -> str:
        return "anyone's"

    @server.resource("notes://secret", scopes=["notes:secret"])
    def secret() -> str:
        return ran.note("secret")

    @server.resource("notes://{name}/draft", scopes=["notes:drafts"], complete={"name": ["ann"]})
    def draft(name: str) -> str:
        return ran.note("draft")

    @server.prompt(scopes=["notes:prompt"], complete={"style": ["short"]})
    def review(style: str) -> str:
        return ran.note("review")

    return server


class Site(NamedTuple):
    """A protected server that is served, and what ran there."""

    at: Endpoint
    ran: Ran
    server: Server

    def peer(self, token: str | None, revision: str = MODERN, **options: Any) -> Peer:
        headers = {} if token is None else bearer(token)
        return Peer(self.at.port, revision, headers=headers, capabilities=MODERN_CAPABILITIES, **options)

    def reader(self, *scopes: str, revision: str = MODERN, **options: Any) -> Peer:
        """A client on behalf of ann, with these scopes besides those that every request needs."""
        return self.peer(ISSUER.token("ann", "notes:read", *scopes), revision, **options)


@pytest.fixture
def site() -> Iterator[Site]:
    ran = Ran()
    server = notes(ran)
    auth = protected("notes:read", implies={"notes:admin": ["notes:write"]})
    with endpoint(server, auth=auth, sse_path="/sse", health_path="/health") as at:
        yield Site(at, ran, server)


def challenge_of(reply: Reply) -> Challenge:
    """The challenge of a refusal, whose body is an error."""
    (found,) = parse_challenges(reply.headers.get("www-authenticate"))
    assert found.scheme == "Bearer"
    assert found.resource_metadata == METADATA
    assert json.loads(reply.body())["error"]["code"] == -32600
    return found


def text(result: Any) -> str:
    found: str = result["content"][0]["text"]
    return found


# -- each request is looked at -------------------------------------------------------------------------

REQUESTS: dict[str, Json] = {
    "a POST": {"method": "POST", "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}},
    "a notification": {
        "method": "POST",
        "message": {"jsonrpc": "2.0", "method": "notifications/initialized"},
    },
    "what is no message": {"method": "POST", "message": b"["},
    "a GET": {"method": "GET", "Accept": "text/event-stream"},
    "a DELETE": {"method": "DELETE"},
    "the stream of HTTP+SSE": {"method": "GET", "path": "/sse", "Accept": "text/event-stream"},
    "a message of HTTP+SSE": {
        "method": "POST",
        "message": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        "path": "/sse/messages?session_id=x",
    },
}
EVERY = pytest.mark.parametrize("asked", REQUESTS.values(), ids=REQUESTS)


def ask(peer: Peer, asked: Json, **more: Any) -> Reply:
    asked = {**asked, **more}
    return peer.http(asked.pop("method"), asked.pop("message", None), **asked)


@EVERY
@pytest.mark.spec(
    "basic/authorization/index/unauthenticated-401",
    "basic/authorization/index/challenge-scope",
    "basic/authorization/security-considerations/validate-before-processing",
    "docs/security_best_practices/verify-inbound",
    "docs/security_best_practices/no-session-authentication",
)
def test_a_request_without_a_token_is_refused_without_an_error_code(site: Site, asked: Json) -> None:
    """A session does not stand for a token."""
    with site.reader(revision=LEGACY) as ann, site.peer(None, LEGACY, opens=False) as peer:
        peer.session = ann.session
        with ask(peer, asked) as reply:
            assert reply.status == 401
            challenge = challenge_of(reply)
        assert (challenge.error, challenge.scopes) == (None, ("notes:read",))
        assert ann.request("ping") == {}


BAD_TOKENS = {
    "expired": lambda: ISSUER.token("ann", "notes:read", exp=time.time() - HOUR),
    "not yet valid": lambda: ISSUER.token("ann", "notes:read", nbf=time.time() + HOUR),
    "wrong audience": lambda: ISSUER.token("ann", "notes:read", aud="https://other.example/mcp"),
    "no audience": lambda: ISSUER.token("ann", "notes:read", aud=None),
    "wrong issuer": lambda: ISSUER.token("ann", "notes:read", iss="https://evil.example"),
    "wrong key": lambda: Issuer().token("ann", "notes:read"),
    "wrong typ": lambda: ISSUER.token("ann", "notes:read", header={"typ": "JWT"}),
    "missing claims": lambda: ISSUER.token(None, "notes:read"),
    "bound to a key": lambda: ISSUER.token("ann", "notes:read", cnf={"jkt": "thumb"}),
    "nonsense": lambda: "nonsense",
}


@pytest.mark.spec(
    "basic/authorization/index/token-invalid-401",
    "basic/authorization/index/token-validated",
    "basic/authorization/index/token-audience",
    "basic/authorization/index/token-error-response",
    "basic/authorization/security-considerations/wrong-audience-rejected",
    "basic/authorization/security-considerations/own-tokens-only",
)
@pytest.mark.parametrize("kind", BAD_TOKENS)
def test_a_bad_token_is_refused_by_every_request(
    site: Site, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bad = BAD_TOKENS[kind]()
    with site.reader(revision=LEGACY) as ann:
        for asked in REQUESTS.values():
            with ask(ann, asked, Authorization=f"Bearer {bad}") as reply:
                assert reply.status == 401
                challenge = challenge_of(reply)
                assert challenge.error == "invalid_token"
                assert bad not in str(reply.headers)
        assert ann.request("ping") == {}
    assert bad not in caplog.text


@EVERY
@pytest.mark.spec("basic/authorization/index/status-codes")
def test_a_malformed_authorization_header_is_a_bad_request(site: Site, asked: Json) -> None:
    good = ISSUER.token("ann", "notes:read")
    with site.peer(None, LEGACY, opens=False) as peer:
        for header in (f"Bearer {good}, Bearer {good}", "Bearer", f"Bearer {good} {good}"):
            with ask(peer, asked, Authorization=header) as reply:
                assert reply.status == 400
                assert challenge_of(reply).error == "invalid_request"
        connection = peer.connect()
        connection.send(
            f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{site.at.port}\r\nAuthorization: Bearer {good}\r\n"
            f"Authorization: Bearer {good}\r\n\r\n".encode()
        )
        assert connection.response().status == 400


@pytest.mark.spec("basic/authorization/index/no-token-in-query")
def test_a_token_in_the_query_or_in_the_body_is_none(site: Site) -> None:
    token = ISSUER.token("ann", "notes:read")
    with site.peer(None) as peer:
        message = peer.message("tools/call", {"name": "who", "access_token": token})
        with peer.post({**message, "access_token": token}, path=f"/mcp?access_token={token}") as reply:
            assert reply.status == 401
            assert challenge_of(reply).error is None
    with site.peer(token) as peer, peer.post(peer.message("ping"), path="/mcp?access_token=x") as reply:
        assert reply.status == 400


@EITHER
def test_a_good_token_says_whose_request_it_is(site: Site, revision: str) -> None:
    with site.reader("other", revision=revision) as peer:
        assert text(peer.request("tools/call", {"name": "who"})) == "ann editor notes:read other"


def test_a_client_of_ours_and_one_of_requests_bring_a_token(site: Site) -> None:
    url, headers = f"http://127.0.0.1:{site.at.port}/mcp", bearer(ISSUER.token("bob", "notes:read"))
    for revision in (LEGACY, MODERN):
        with connect(url, revision=revision, headers=headers) as client:
            assert client.call_tool("who").text.startswith("bob")
    answer = requests.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, timeout=PATIENCE)
    assert answer.status_code == 401
    assert f'resource_metadata="{METADATA}"' in answer.headers["WWW-Authenticate"]
    with connect(url, auth=lambda: ISSUER.token("ann", "notes:read")) as client:
        assert client.call_tool("who").text.startswith("ann")
        with pytest.raises(HttpError) as lacking:
            client.call_tool("write", {"text": "x"})
    assert lacking.value.status == 403
    assert lacking.value.challenge is not None
    assert 'scope="notes:read notes:write"' in lacking.value.challenge
    with pytest.raises(RefusedByStatus) as refused, connect(url):
        pass
    assert refused.value.status == 401


# -- sessions, and tokens that end -----------------------------------------------------------------------


def test_the_session_of_another_subject_is_worth_nothing(site: Site) -> None:
    with site.reader(revision=LEGACY) as ann:
        bob = bearer(ISSUER.token("bob", "notes:read", "notes:admin"))
        for method, message in (("POST", ann.message("ping")), ("GET", None), ("DELETE", None)):
            with ann.http(method, message, **bob, Accept="application/json, text/event-stream") as reply:
                assert reply.status == 404
        with ann.http("GET", path="/sse", Accept="text/event-stream") as stream:
            event = stream.event()
            assert event is not None
            with ann.post(ann.message("ping"), path=event.data, **bob) as reply:
                assert reply.status == 404
        again = bearer(ISSUER.token("ann", "notes:read", client_id="another"))
        with ann.post(ann.message("ping"), **again) as reply:
            assert reply.status == 200


def test_a_token_that_ends_while_a_stream_is_open_ends_no_stream_but_the_next_request(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    short = ISSUER.token("ann", "notes:read", exp=now + HOUR)
    with site.peer(short, LEGACY) as ann, ann.get() as stream:
        assert stream.status == 200
        monkeypatch.setattr(time, "time", lambda: now + HOUR + 31)  # the skew is 30 s
        with ann.post(ann.message("ping")) as reply:
            assert reply.status == 401
            assert "expired" in challenge_of(reply).params["error_description"]
        site.server.add_tool(lambda: "x", name="late")
        event = stream.event()
        assert event is not None
        assert event.message["method"] == "notifications/tools/list_changed"


# -- scopes ----------------------------------------------------------------------------------------------

NEEDS: dict[str, tuple[str, Json, tuple[str, ...]]] = {
    "a tool": ("tools/call", {"name": "write", "arguments": {"text": "x"}}, ("notes:write",)),
    "a tool of several": ("tools/call", {"name": "purge"}, ("notes:write", "notes:admin")),
    "a resource": ("resources/read", {"uri": "notes://secret"}, ("notes:secret",)),
    "a template": ("resources/read", {"uri": "notes://ann/draft"}, ("notes:drafts",)),
    "a prompt": ("prompts/get", {"name": "review", "arguments": {"style": "x"}}, ("notes:prompt",)),
    "an argument of a prompt": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "style", "value": ""}},
        ("notes:prompt",),
    ),
    "an argument of a template": (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "notes://{name}/draft"},
            "argument": {"name": "name", "value": ""},
        },
        ("notes:drafts",),
    ),
}


@EITHER
@pytest.mark.spec(
    "basic/authorization/index/insufficient-scope-403",
    "basic/authorization/index/insufficient-scope-lists",
    "basic/authorization/index/single-challenge",
    "basic/authorization/index/status-codes",
)
@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
def test_what_needs_scopes_is_done_with_all_of_them_and_not_begun_without(
    site: Site, needs: tuple[str, Json, tuple[str, ...]], revision: str
) -> None:
    method, params, scopes = needs
    for has in ((), scopes[:-1], ("notes:other",)):
        with site.reader(*has, revision=revision) as peer:
            with peer.ask(method, params) as reply:
                assert reply.status == 403
                challenge = challenge_of(reply)
            assert challenge.error == "insufficient_scope"
            assert challenge.scopes == ("notes:read", *scopes)
    assert site.ran.names == []
    with site.reader(*scopes, revision=revision) as peer:
        assert "code" not in peer.request(method, params)


def test_a_token_without_the_scopes_of_every_request_is_told_those_of_the_tool_as_well(site: Site) -> None:
    with site.peer(ISSUER.token("ann", "other")) as peer:
        with peer.call("write", {"text": "x"}) as reply:
            assert reply.status == 403
            assert challenge_of(reply).scopes == ("notes:read", "notes:write")
        with peer.http("GET", Accept="text/event-stream") as reply:
            assert reply.status in (403, 405)
    with site.peer(ISSUER.token("ann", "other"), LEGACY, opens=False) as peer:
        for asked in REQUESTS.values():
            if asked.get("message") != b"[":
                with ask(peer, asked) as reply:
                    assert reply.status in (403, 404)
                    if "messages" not in asked.get("path", ""):
                        assert challenge_of(reply).scopes == ("notes:read",)


@pytest.mark.spec("basic/authorization/index/scope-hierarchies")
def test_a_broader_scope_will_do(site: Site) -> None:
    with site.reader("notes:admin") as peer:
        assert text(peer.request("tools/call", {"name": "write", "arguments": {"text": "x"}})) == "write"
        assert text(peer.request("tools/call", {"name": "purge"})) == "purge"


@EITHER
def test_a_call_that_would_be_a_task_needs_its_scopes_before_it_is_one(site: Site, revision: str) -> None:
    params: Json = {"name": "purge", **({"task": {}} if revision == LEGACY else {})}
    with site.reader(revision=revision) as peer, peer.ask("tools/call", params) as reply:
        assert reply.status == 403
    assert site.ran.names == []


def test_a_message_of_http_sse_needs_the_same_scopes(site: Site) -> None:
    with (
        site.reader(revision="2024-11-05", opens=False) as peer,
        peer.http("GET", path="/sse", Accept="text/event-stream") as stream,
    ):
        event = answer = stream.event()
        assert event is not None
        info = {"name": "x", "version": "1"}
        opening = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": info}
        opened = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        call = peer.message("tools/call", {"name": "who"})
        for message in (peer.message("initialize", opening), opened, call):
            with peer.post(message, path=event.data) as reply:
                assert reply.status == 202
            answer = answer if message is opened else stream.event()
            assert answer is not None
        assert text(answer.message["result"]) == "ann editor notes:read"
        call = peer.message("tools/call", {"name": "write", "arguments": {"text": "x"}})
        with peer.post(call, path=event.data) as reply:
            assert reply.status == 403
            assert challenge_of(reply).scopes == ("notes:read", "notes:write")
        with peer.post(peer.message("ping"), path=event.data) as reply:
            assert reply.status == 202
    assert site.ran.names == []


def test_a_batch_needs_all_that_its_messages_need(site: Site) -> None:
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": {"name": "review"}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "write"}},
    ]
    with site.reader(revision="2025-03-26") as peer, peer.post(batch) as reply:
        assert reply.status == 403
        assert challenge_of(reply).scopes == ("notes:read", "notes:prompt", "notes:write")


def test_a_subscription_needs_the_scopes_of_its_resources(site: Site) -> None:
    with site.reader(revision=LEGACY) as peer:
        for uri, status in (("notes://secret", 403), ("notes://plain", 200)):
            with peer.ask("resources/subscribe", {"uri": uri}) as reply:
                assert reply.status == status
    with site.reader() as peer:
        for uris, status in ((["notes://plain", "notes://secret", 7], 403), (["notes://plain"], 200)):
            wanted = {"notifications": {"resourceSubscriptions": uris}}
            with peer.ask("subscriptions/listen", wanted) as reply:
                assert reply.status == status


@pytest.mark.parametrize(
    "message",
    [
        {"method": "tools/call"},
        {"method": "tools/call", "params": []},
        {"method": "tools/call", "params": {"name": []}},
        {"method": "prompts/get", "params": {"name": {}}},
        {"method": "resources/read", "params": {"uri": 7}},
        {"method": "resources/read", "params": {"uri": "nothing://here"}},
        {"method": "completion/complete", "params": {"ref": 7}},
        {"method": "subscriptions/listen", "params": {"notifications": 7}},
        {"method": "subscriptions/listen", "params": {"notifications": {"resourceSubscriptions": 7}}},
        {"method": ["tools/call"]},
        {},
        7,
    ],
)
def test_what_is_no_proper_message_needs_no_scopes_and_is_refused_as_ever(site: Site, message: Any) -> None:
    if isinstance(message, dict):
        message = {"jsonrpc": "2.0", "id": 1, **message}
    with site.reader(revision=LEGACY) as peer, peer.post(message) as reply:
        assert reply.status in (200, 400)
        assert "error" in reply.answer()


# -- within a handler --------------------------------------------------------------------------------------


@EITHER
def test_a_handler_may_need_more_scopes_which_is_403_where_nothing_was_said(
    site: Site, revision: str
) -> None:
    with site.reader("notes:write", revision=revision) as peer:
        with peer.call("move", {"to": "archive"}) as reply:
            assert reply.status == 403
            body = json.loads(reply.body())
            (challenge,) = parse_challenges(reply.headers["www-authenticate"])
        assert body["id"] is not None
        assert challenge.error == "insufficient_scope"
        assert challenge.scopes == ("notes:read", "notes:write", "notes:archive")
        with peer.call("move", {"to": "archive"}, Accept="text/event-stream, application/json") as reply:
            assert reply.status == 403  # also to a client that likes events better
        with peer.call("move", {"to": "archive", "says": True}, meta={"progressToken": 1}) as reply:
            assert reply.status == 200
            assert "notes:archive" in reply.messages()[-1]["error"]["message"]
        with peer.call("move", {"to": 'x"\r\nX-Evil: 1'}) as reply:  # no scope: the author's fault
            assert reply.status == 200
            assert "www-authenticate" not in reply.headers
            assert reply.answer()["result"]["isError"] is True
    with site.reader("notes:write", "notes:archive", revision=revision) as peer:
        assert text(peer.request("tools/call", {"name": "move", "arguments": {"to": "archive"}})) == "move"


def test_what_started_the_server_on_a_pipe_may_do_everything() -> None:
    """Stdio has no part in authorization."""
    ran = Ran()
    for revision in (LEGACY, MODERN):
        with RawClient(notes(ran), revision=revision) as raw:
            for call in (
                {"name": "write", "arguments": {"text": "x"}},
                {"name": "move", "arguments": {"to": "x"}},
            ):
                assert "result" in raw.request("tools/call", call)
    assert ran.names == ["write", "move"] * 2


def test_over_http_without_auth_no_request_has_any_scope() -> None:
    server = Server("open")

    @server.tool
    def write(ctx: Context) -> str:
        assert ctx.token is None
        ctx.require_scopes("notes:write")
        return "written"

    with endpoint(server) as at, Peer(at.port, MODERN) as peer:
        assert "not protected" in peer.request("tools/call", {"name": "write"})["message"]


KINDS = pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])


def add_scoped(server: Server, kind: str) -> None:
    """Add something that needs a scope."""
    if kind == "tool":
        server.add_tool(lambda: "x", name="write", scopes=["notes:write"])
    elif kind == "prompt":
        server.add_prompt(lambda: "x", name="write", scopes=["notes:write"])
    else:
        uri = "notes://a" if kind == "resource" else "notes://{a}"
        function = (lambda: "x") if kind == "resource" else (lambda a: "x")
        server.add_resource(function, uri, name="a", scopes=["notes:write"])


@KINDS
def test_what_needs_scopes_cannot_be_added_to_what_is_served_without_auth(kind: str) -> None:
    """Else an application that was made before would serve it to everyone."""
    server = Server("open")
    with closing(server.wsgi_app()):
        with pytest.raises(ValueError, match=r"needs scopes, .* has an application without it already$"):
            add_scoped(server, kind)
        read = server.add_tool(lambda: "x", name="read")
        with pytest.raises(ValueError, match=r"^the tool read needs scopes"):
            read.update(lambda: "y", scopes=["notes:read"])
    with connect(server) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["read"]
        assert client.call_tool("read").text == "x"


@KINDS
def test_what_needs_scopes_may_be_added_while_it_is_served_with_auth(kind: str) -> None:
    server = Server("closed")
    with closing(server.wsgi_app(auth=protected())):
        add_scoped(server, kind)


@KINDS
def test_what_needs_scopes_is_not_served_without_auth(kind: str) -> None:
    server = Server("open")
    add_scoped(server, kind)
    with pytest.raises(ValueError, match="needs scopes, which no request has without auth="):
        server.wsgi_app()
    server.wsgi_app(auth=protected()).close()


# -- lists by scope ------------------------------------------------------------------------------------


def names_of(result: Json) -> list[str]:
    return [tool["name"] for tool in result["tools"]]


@EITHER
@pytest.mark.spec("server/tools/list-by-authorization")
def test_a_caller_sees_the_tools_that_its_scopes_allow(revision: str) -> None:
    server = notes(Ran(), options=ServerOptions(cache_scope="public", ttl_ms=60_000))
    auth = protected("notes:read", hides_tools=True, implies={"notes:admin": ["notes:write"]})
    with endpoint(server, auth=auth) as at:

        def listed(*scopes: str) -> Json:
            headers = bearer(ISSUER.token("ann", "notes:read", *scopes))
            with Peer(at.port, revision, headers=headers) as peer:
                found: Json = peer.request("tools/list")
                if "notes:admin" not in scopes:
                    unknown = peer.request("tools/call", {"name": "nosuch"})
                    assert "purge" not in unknown["message"]
                return found

        for _ in range(2):
            assert names_of(listed()) == ["who", "move"]
            assert names_of(listed("notes:write")) == ["who", "write", "move"]
            assert names_of(listed("notes:admin")) == ["who", "write", "purge", "move"]
        hints = {name: listed().get(name) for name in ("ttlMs", "cacheScope")}
        expected = (60_000, "private") if revision == MODERN else (None, None)
        assert (hints["ttlMs"], hints["cacheScope"]) == expected


def test_hidden_tools_leave_no_gaps_in_the_pages() -> None:
    server = Server("paged", page_size=2)
    for number in range(10):
        server.add_tool(lambda: "x", name=f"t{number}", scopes=["even"] if number % 2 == 0 else ["odd"])
    with endpoint(server, auth=protected(hides_tools=True)) as at:
        for scope, numbers in (("even", range(0, 10, 2)), ("odd", range(1, 10, 2))):
            with connect(
                f"http://127.0.0.1:{at.port}/mcp", headers=bearer(ISSUER.token("ann", scope)), revision=MODERN
            ) as client:
                assert [tool["name"] for tool in client.list_tools()] == [f"t{n}" for n in numbers]


def test_more_resources_than_one_may_watch_are_refused_before_they_are_looked_up(site: Site) -> None:
    uris = [f"notes://{number}/draft" for number in range(10_001)]
    with site.reader() as peer:
        with peer.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}) as reply:
            assert reply.status == 429
        wanted = {"notifications": {"resourceSubscriptions": [*uris[:9_999], *["notes://secret"] * 9_999]}}
        with peer.ask("subscriptions/listen", wanted) as reply:
            assert reply.status == 403


def test_without_hiding_the_list_is_the_same_for_all(site: Site) -> None:
    with site.reader() as ann, site.reader("notes:admin") as bob:
        assert ann.request("tools/list") == bob.request("tools/list")


# -- what is told -----------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/authorization/index/prm-server",
    "basic/authorization/authorization-server-discovery/prm-implemented",
    "basic/authorization/authorization-server-discovery/discovery-mechanism",
    "basic/authorization/authorization-server-discovery/www-authenticate-on-401",
)
def test_the_metadata_and_the_health_need_no_token_nor_a_known_host_or_page(site: Site) -> None:
    elsewhere = {"Host": "notes.example.com", "Origin": "https://page.example"}
    root = "/.well-known/oauth-protected-resource"
    with site.peer(None) as peer:
        for path in (f"{root}/mcp", root):
            with peer.http("GET", path=path, **elsewhere) as reply:
                assert reply.status == 200
                assert reply.headers["access-control-allow-origin"] == "*"
                assert reply.json() == {
                    "resource": RESOURCE,
                    "authorization_servers": [ISSUER.url],
                    "bearer_methods_supported": ["header"],
                    "scopes_supported": ["notes:read"],
                }
            with peer.http("OPTIONS", path=path, **elsewhere) as reply:
                assert reply.status == 204
            with peer.http("DELETE", path=path) as reply:
                assert reply.status == 405
        with peer.http("GET", path="/health", **elsewhere) as reply:
            assert reply.status == 200
        with peer.http("GET", path=f"{root}/other") as reply:
            assert reply.status == 404


def test_behind_a_proxy_the_resource_is_the_public_url() -> None:
    auth = protected(
        resource="https://example.com/public/mcp",
        scopes_supported=["a", "b"],
        resource_name="Notes",
        documentation="https://example.com/docs",
    )
    url = "https://example.com/.well-known/oauth-protected-resource/public/mcp"
    assert auth.metadata_url == url
    with endpoint(Server("behind"), auth=auth) as at, Peer(at.port, MODERN) as peer:
        with peer.post(peer.message("ping")) as reply:
            assert parse_challenges(reply.headers["www-authenticate"])[0].resource_metadata == url
        for path in ("/public/mcp", "/mcp", ""):
            with peer.http("GET", path=f"/.well-known/oauth-protected-resource{path}") as reply:
                assert reply.json() == auth.metadata()
    assert auth.metadata()["scopes_supported"] == ["a", "b"]
    assert auth.metadata()["resource_name"] == "Notes"
    assert auth.metadata()["resource_documentation"] == "https://example.com/docs"
    assert "scopes_supported" not in protected().metadata()


def test_a_page_of_a_known_origin_may_send_a_token_and_read_the_challenge() -> None:
    options = HttpOptions(browser_origins=["https://page.example"])
    with (
        endpoint(Server("for pages"), auth=protected(), options=options) as at,
        Peer(at.port, MODERN) as peer,
    ):
        with peer.http("OPTIONS", Origin="https://page.example") as reply:
            assert reply.status == 204
            allowed = reply.headers["access-control-allow-headers"].lower()
            assert "authorization" in allowed
            assert "dpop" in allowed
        with peer.post(peer.message("ping"), Origin="https://page.example") as reply:
            assert reply.status == 401
            assert reply.headers["access-control-allow-origin"] == "https://page.example"
            exposed = reply.headers["access-control-expose-headers"].lower()
            assert "www-authenticate" in exposed
            assert "dpop-nonce" in exposed
        with peer.post(peer.message("ping"), Origin="https://evil.example") as reply:
            assert reply.status == 403
            assert "www-authenticate" not in reply.headers


# -- verifiers of one's own ---------------------------------------------------------------------------------


def served(verify: Any, **options: Any) -> Any:
    server = Server("own", options=ServerOptions(offers=["tools"]))
    return endpoint(server, auth=protected(verify=verify, **options))


def status_of(at: Endpoint, token: str = "secret-token") -> tuple[int, Json]:
    with Peer(at.port, MODERN, headers=bearer(token)) as peer, peer.ask("tools/list") as reply:
        assert "secret-token" not in f"{reply.headers}{reply.body()!r}"
        return reply.status, dict(reply.headers)


def test_a_verifier_may_be_a_function(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen = []

    def verify(token: str) -> AccessToken | None:
        seen.append(token)
        return AccessToken(subject="ann", audience=(RESOURCE,)) if token == "secret-token" else None

    with served(verify) as at:
        assert status_of(at)[0] == 200
        assert status_of(at, "another")[0] == 401
    assert seen == ["secret-token", "another"]
    assert "secret-token" not in caplog.text


FAULTS = {
    "it cannot tell": (CannotVerify("the keys cannot be had", 7.2), 503),
    "it returns what no token is": (TypeError("scopes are several texts"), 500),
    "it fails": (RuntimeError("what is secret-token?"), 500),
    "it is refused": (InvalidToken('it is "revoked"\r\nX-Evil: 1'), 401),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_verifier_that_does_not_verify_lets_nobody_in(
    fault: tuple[Exception, int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    problem, status = fault

    def verify(token: str) -> AccessToken:
        raise problem

    with served(verify) as at:
        found, headers = status_of(at)
    assert found == status
    assert "x-evil" not in headers
    assert headers.get("retry-after") == ("7" if status == 503 else None)
    assert "secret-token" not in caplog.text


def test_a_client_that_may_try_again_at_once_is_told_to_wait_a_second() -> None:
    def verify(token: str) -> AccessToken:
        raise CannotVerify("the keys cannot be had", 0)

    with served(verify) as at:
        assert status_of(at)[1]["retry-after"] == "1"


@pytest.mark.parametrize("value", ["ann", True, {"sub": "ann"}])
def test_a_verifier_that_returns_something_else_lets_nobody_in(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with served(lambda token: value) as at:
        assert status_of(at)[0] == 500
    assert "no AccessToken" in caplog.text


def test_the_principal_is_the_subject_or_what_the_author_makes_of_the_token() -> None:
    def principal(token: AccessToken, **options: Any) -> str:
        return protected(**options).principal_of(token)

    ann = AccessToken(subject="ann", issuer=ISSUER.url)
    assert principal(ann) == "ann"
    assert principal(AccessToken(client_id="editor")) == "client editor"
    assert principal(AccessToken(subject="client editor")) == "subject client editor"
    assert principal(AccessToken(subject="subject client editor")) == "subject subject client editor"
    assert principal(ann, principal=lambda token: f"user {token.subject}") == "user ann"
    two = [ISSUER, Issuer("https://other.example")]
    assert principal(ann, issuers=two) == f"{ISSUER.url} ann"
    for lacking, issuers in ((AccessToken(), two[:1]), (AccessToken(subject="ann"), two)):
        with pytest.raises(InvalidToken, match=r"does not say|says neither"):
            principal(lacking, issuers=issuers)


@pytest.mark.parametrize("value", ["", None, 7, ValueError("secret-token")])
def test_a_principal_that_is_no_name_lets_nobody_in(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    def principal(token: AccessToken) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    verify = {
        "verify": lambda token: AccessToken(subject="ann", audience=(RESOURCE,)),
        "principal": principal,
    }
    with endpoint(Server("own"), auth=protected(**verify)) as at:
        assert status_of(at)[0] == 500
    assert "secret-token" not in caplog.text


def test_a_token_of_nobody_is_invalid() -> None:
    with served(lambda token: AccessToken(audience=(RESOURCE,))) as at:
        assert status_of(at)[0] == 401


# -- tokens that are bound to a key (DPoP) ----------------------------------------------------------------

KEY = Proofs()
"""The key of a client."""


class Bound:
    """A client with a token that is bound to its key."""

    def __init__(self, port: int, revision: str, proofs: Proofs = KEY, resource: str = RESOURCE) -> None:
        self.token = ISSUER.token("ann", cnf={"jkt": KEY.thumbprint})
        self.resource, self.proofs = resource, proofs
        self.peer = Peer(port, revision, opens=False)

    def proof(self, method: str = "POST", path: str | None = None, **options: Any) -> str:
        url = self.resource if path is None else self.resource.replace("/mcp", path)
        return self.proofs.proof(method, url, **{"access_token": self.token, **options})

    def ask(self, method: str = "POST", proof: str | None = None, **headers: Any) -> Reply:
        message = {"POST": self.peer.message("tools/list")}.get(method)
        usual = {"Authorization": f"DPoP {self.token}", "DPoP": proof or self.proof(method)}
        return self.peer.http(method, message, **{**usual, **headers})


@pytest.fixture
def bound() -> Iterator[Bound]:
    server = Server("bound", options=ServerOptions(offers=["tools"]))
    with endpoint(server, auth=protected(dpop=True), sse_path="/sse") as at:
        client = Bound(at.port, MODERN)
        with client.peer:
            yield client


def refusal_of(reply: Reply) -> tuple[int, list[tuple[str, str | None]]]:
    """The status; of each challenge the scheme and the error."""
    found = parse_challenges(reply.headers.get("www-authenticate"))
    return reply.status, [(challenge.scheme, challenge.error) for challenge in found]


@pytest.mark.spec("extensions/dpop/server-checks-proof")
def test_a_bound_token_comes_with_a_proof_for_each_request(bound: Bound) -> None:
    for _ in range(2):
        with bound.ask() as reply:
            assert reply.status == 200
    proof = bound.proof()
    with bound.ask(proof=proof) as reply:
        assert reply.status == 200
    with bound.ask(proof=proof) as reply:
        assert refusal_of(reply) == (401, [("DPoP", "invalid_dpop_proof"), ("Bearer", None)])


def test_a_bound_token_as_bearer_and_an_unbound_one_as_dpop_are_invalid(bound: Bound) -> None:
    with bound.ask(Authorization=f"Bearer {bound.token}") as reply:
        assert refusal_of(reply) == (401, [("Bearer", "invalid_token"), ("DPoP", None)])
    with bound.ask(Authorization=f"DPoP {ISSUER.token()}") as reply:
        assert refusal_of(reply) == (401, [("DPoP", "invalid_token"), ("Bearer", None)])
    with bound.ask(Authorization=f"Bearer {ISSUER.token()}", DPoP=None) as reply:
        assert reply.status == 200


def wrong_proofs(bound: Bound) -> dict[str, str | None]:
    return {
        "none": None,
        "nonsense": "nonsense",
        "two": f"{bound.proof()}, {bound.proof()}",
        "of another key": Proofs().proof("POST", RESOURCE, access_token=bound.token),
        "for another method": bound.proof("GET"),
        "for another URL": KEY.proof("POST", "https://other.example/mcp", access_token=bound.token),
        "for the address of the socket": KEY.proof(
            "POST", f"http://127.0.0.1:{bound.peer.port}/mcp", access_token=bound.token
        ),
        "for another token": bound.proof(access_token="another"),
        "for no token": bound.proof(access_token=None),
        "too old": Proofs(KEY.key, now=lambda: time.time() - HOUR).proof(
            "POST", RESOURCE, access_token=bound.token
        ),
    }


def test_a_proof_that_shows_nothing_is_refused(bound: Bound) -> None:
    for kind, proof in wrong_proofs(bound).items():
        with bound.ask(proof="x", DPoP=proof) as reply:
            status, challenges = refusal_of(reply)
            assert (status, challenges[0]) == (401, ("DPoP", "invalid_dpop_proof")), kind
            assert "ES256" in parse_challenges(reply.headers["www-authenticate"])[0].params["algs"]


def test_every_request_of_both_transports_needs_its_own_proof() -> None:
    """Also behind a proxy that takes off a part of the path."""
    resource = "https://example.com/public/mcp"
    server = Server("bound")
    with endpoint(server, auth=protected(dpop="required", resource=resource), sse_path="/sse") as at:
        client = Bound(at.port, LEGACY, resource=resource)
        client.token = ISSUER.token("ann", aud=resource, cnf={"jkt": KEY.thumbprint})
        with client.peer as peer:

            def signed(method: str, path: str = "/mcp") -> dict[str, str]:
                return {"Authorization": f"DPoP {client.token}", "DPoP": client.proof(method, path)}

            peer.more = signed("POST")
            with peer.ask(
                "initialize",
                {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
            ) as reply:
                peer.session = reply.headers["mcp-session-id"]
            for method in ("GET", "DELETE"):
                peer.more = {}
                with peer.http(method, Accept="text/event-stream") as reply:
                    assert refusal_of(reply) == (401, [("DPoP", None)])
                with peer.http(method, Accept="text/event-stream", **signed(method)) as reply:
                    assert reply.status in (200, 204)
            with peer.http("GET", path="/sse", Accept="text/event-stream", **signed("GET", "/sse")) as stream:
                event = stream.event()
                assert event is not None
                with peer.post(peer.message("ping"), path=event.data, **signed("POST", "/sse")) as reply:
                    assert reply.status == 401
                ok = signed("POST", "/sse/messages")
                with peer.post(peer.message("ping"), path=event.data, **ok) as reply:
                    assert reply.status == 202
            with peer.post(peer.message("ping"), Authorization=f"Bearer {ISSUER.token()}") as reply:
                assert refusal_of(reply) == (401, [("DPoP", None)])


def test_a_server_may_want_its_own_word_in_each_proof() -> None:
    server = Server("bound", options=ServerOptions(offers=["tools"]))
    nonces = Nonces("sixteen bytes or more")
    with endpoint(server, auth=protected(dpop=True, dpop_nonces=nonces)) as at:
        client = Bound(at.port, MODERN)
        with client.peer:
            with client.ask() as reply:
                assert refusal_of(reply) == (401, [("DPoP", "use_dpop_nonce"), ("Bearer", None)])
                nonce = reply.headers["dpop-nonce"]
            with client.ask(proof=client.proof(nonce=nonce)) as reply:
                assert reply.status == 200
            with client.ask(proof=client.proof(nonce="forged")) as reply:
                assert refusal_of(reply)[1][0] == ("DPoP", "use_dpop_nonce")


def test_the_metadata_says_how_tokens_are_bound() -> None:
    assert "dpop_signing_alg_values_supported" not in protected().metadata()
    some = protected(dpop=True).metadata()
    assert "ES256" in some["dpop_signing_alg_values_supported"]
    assert "dpop_bound_access_tokens_required" not in some
    assert protected(dpop="required").metadata()["dpop_bound_access_tokens_required"] is True


# -- what a ResourceServer may be ------------------------------------------------------------------------

WRONG: dict[str, tuple[Json, str]] = {
    "no URL": ({"resource": "notes.example.com/mcp"}, "resource: .* is no URL"),
    "a fragment": ({"resource": "https://a.example/mcp#x"}, "fragment"),
    "a user": ({"resource": "https://a:b@a.example/mcp"}, "a user"),
    "http elsewhere": ({"resource": "http://a.example/mcp"}, "not https"),
    "a broken host": ({"resource": "https://[x/mcp"}, "is no URL"),
    "a quote": ({"resource": 'https://a.example/"\u00e4'}, "is no URL"),
    "an issuer over http": ({"authorization_servers": ["http://a.example"]}, "not https"),
    "an issuer with a query": ({"authorization_servers": ["https://a.example?x"]}, "query"),
    "no issuer": ({"authorization_servers": []}, "at least one"),
    "an issuer alone": ({"authorization_servers": "https://a.example"}, "in a list"),
    "a scope with a line": ({"scopes": ["a\r\nb"]}, "no scope"),
    "offline_access": ({"scopes": ["offline_access"]}, "offline_access"),
    "offline_access supported": ({"scopes_supported": ["offline_access"]}, "offline_access"),
    "scopes as a text": ({"scopes": "a"}, "a list of strings"),
    "no verifier": ({"verify": None}, "verify"),
    "a verifier that is none": ({"verify": 7}, "verify"),
    "an unknown dpop": ({"dpop": "yes"}, "dpop"),
    "a skew before": ({"clock_skew": -1}, "clock_skew"),
    "nonces of another kind": ({"dpop_nonces": ["nonce"]}, "dpop_nonces is a Nonces, not list"),
    "hiding what": ({"hides_tools": "yes"}, "hides_tools"),
}


@pytest.mark.spec("basic/authorization/index/no-offline-access-challenge")
@pytest.mark.parametrize(("given", "problem"), WRONG.values(), ids=WRONG)
def test_a_resource_server_that_cannot_be_is_refused(given: Json, problem: str) -> None:
    usual = {"resource": RESOURCE, "authorization_servers": [ISSUER.url], "verify": ISSUER.verifier()}
    with pytest.raises((ValueError, TypeError), match=problem):
        ResourceServer(**{**usual, **given})


def test_http_is_for_this_machine_and_for_networks_of_ones_own() -> None:
    for resource in ("http://127.0.0.1:8000/mcp", "http://localhost/mcp", "http://[::1]:1/mcp"):
        protected(resource=resource)
    protected(resource="http://notes.internal/mcp", allow_http=True, clock_skew=0)


def test_auth_and_authenticate_are_one_question() -> None:
    with pytest.raises(ValueError, match="auth and authenticate both"):
        Server("both").wsgi_app(auth=protected(), authenticate=lambda request: "ann")


SERVED = """
import sys
sys.path.insert(0, {tests!r})
from mcp_ref import Server
from protected import protected
Server("child").run("http", port=0, auth=protected("a"), on_ready=lambda url: print(url, flush=True))
"""


def test_a_server_of_its_own_process_is_protected_as_well() -> None:
    script = SERVED.format(tests=__file__.rpartition("/api/")[0])
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        answer = requests.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, timeout=PATIENCE)
        child.terminate()
        assert child.wait(PATIENCE) == 0
    assert answer.status_code == 401
    assert 'scope="a"' in answer.headers["WWW-Authenticate"]


def test_many_threads_are_admitted_at_once(site: Site) -> None:
    token, found = ISSUER.token("ann", "notes:read"), []

    def ask_often() -> None:
        with site.peer(token) as peer:
            found.extend(text(peer.request("tools/call", {"name": "who"})) for _ in range(10))

    threads = [threading.Thread(target=ask_often) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == ["ann editor notes:read"] * 80


@pytest.mark.spec("basic/authorization/index/stdio-exempt")
def test_a_server_on_a_pipe_loads_nothing_of_this() -> None:
    code = (
        "import sys; from mcp_ref import Server; s = Server('x'); s.add_tool(lambda: 'x', name='x');"
        "from mcp_ref.basic.transports.stdio import server; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENV)
    assert not {name for name in done.stdout.split() if "authorization" in name or "resource_server" in name}
    assert "mcp_ref.basic.transports.streamable_http.security" not in done.stdout.split()
