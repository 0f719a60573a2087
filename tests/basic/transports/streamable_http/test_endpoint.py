"""basic/transports/streamable_http: the endpoint of both eras, the modern one on it, and its life."""

import contextlib
import inspect
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import pytest
from choices import for_http, for_server
from http_peers import Event, Peer, Reply, endpoint
from peers import ENV, LEGACY, META, MODERN, PATIENCE, eventually, nothing_left

from mcp_ref import Context, ErrorResponse, Limit, Server, ServerOptions, connect
from mcp_ref.basic.transports.streamable_http import endpoint as streamable_http
from mcp_ref.basic.transports.streamable_http.endpoint import Application
from mcp_ref.basic.transports.streamable_http.security import Denied
from mcp_ref.runtime.errors import ConnectionClosed
from mcp_ref.runtime.threads import forks

VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
SEATS = {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["seats"]}
NOTICED = 10.0
"""Seconds in which a departed client is noticed: one, and what a busy machine adds."""


class Silent:
    """A tool that says nothing until it is told to go on, and notes what became of it."""

    def __init__(self, server, name="silent", says=()):
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.cancelled = False

        @server.tool(name=name)
        def silent(ctx: Context) -> str:
            for number in says:
                ctx.progress(number)
            self.begun.set()
            while not self.go.wait(0.01) and not ctx.cancelled:
                pass
            self.cancelled = ctx.cancelled
            self.ended.set()
            ctx.progress(9)
            return "done"


def demo(**options):
    server = Server("demo", version="1", **for_server(options))

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def count(ctx: Context, to: int) -> str:
        for number in range(1, to + 1):
            ctx.progress(number, to)
        return "counted"

    @server.tool
    def book(ctx: Context) -> str:
        return f"{ctx.elicit('How many?', SEATS).content['seats']} seats"

    @server.tool
    def who(ctx: Context) -> str:
        return f"{ctx.principal} {ctx.http.headers.get('X-Tenant') if ctx.http else None}"

    server.add_resource(lambda: "x", "demo://a", name="a")
    return server


@pytest.fixture
def server():
    return demo()


def text(result):
    return result["content"][0]["text"]


# -------------------------------------------------------------------------------- one endpoint


@pytest.mark.spec(
    "basic/transports/streamable-http/endpoint-post",
    "basic/transports/streamable-http/endpoint-post-get",
    "basic/transports/streamable-http/request-json-or-sse",
    "basic/versioning/dual-era-selects-stateless",
)
def test_one_endpoint_serves_both_eras_at_once(server):
    with endpoint(server) as at:
        peers = [Peer(at.port, revision) for revision in (*LEGACY[1:], MODERN)]
        for peer in peers:
            assert text(peer.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})) == "3"
        for peer in peers[:-1]:
            with peer.get() as stream:
                assert (stream.status, stream.is_stream) == (200, True)


def test_one_connection_carries_one_request_after_another(server):
    with endpoint(server) as at, Peer(at.port) as modern, Peer(at.port, "2025-06-18") as legacy:
        connection = modern.connect()
        for peer in (modern, legacy, modern, legacy):
            message = peer.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            with peer.post(message, on=connection) as reply:
                assert text(reply.json()["result"]) == "3"
        assert at.http.connections <= 3


@pytest.mark.parametrize(("path", "status"), [("/mcp", 200), ("/mcp/", 200), ("/", 404), ("/mcp/x", 404)])
def test_there_is_one_path(server, path, status):
    with endpoint(server) as at, Peer(at.port, path=path) as peer, peer.ask("tools/list") as reply:
        assert reply.status == status
        if status == 404:
            assert reply.json()["error"]["message"] == "there is nothing at this path"


def test_the_path_counts_with_the_part_that_a_dispatcher_took_off(server):
    app = server.wsgi_app("/tools/mcp/", health_path="tools/up")
    with nothing_left():
        status, _, _ = by_hand(app, SCRIPT_NAME="/tools", PATH_INFO="/up", REQUEST_METHOD="GET")
        assert status == "200 OK"
        status, _, _ = by_hand(app, SCRIPT_NAME="/tools", PATH_INFO="/mcp", REQUEST_METHOD="PUT")
        assert status == "405 Method Not Allowed"
        status, _, _ = by_hand(app, SCRIPT_NAME="", PATH_INFO="/mcp", REQUEST_METHOD="PUT")
        assert status == "404 Not Found"
        app.close()


def by_hand(app, **environ):
    """One call of WSGI: status line, headers, body."""
    said = []
    body = app(
        {"HTTP_HOST": "localhost", "REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", **environ},
        lambda *told: said.extend(told),
    )
    return said[0], dict(said[1]), b"".join(body)


@pytest.mark.spec(
    "basic/transports/streamable-http/get-405-allow-header",
    "basic/transports/streamable-http/session-delete-405",
    "basic/transports/streamable-http/session-delete-405-allow",
    "basic/transports/streamable-http/get-sse-or-405",
    "basic/transports/streamable-http/get-delete-405",
)
@pytest.mark.parametrize(
    ("made", "options", "headers", "allowed"),
    [
        ({}, {}, {"MCP_Protocol_Version": MODERN}, "POST"),
        ({"revisions": [MODERN]}, {}, {}, "POST"),
        ({}, {"stateless": True}, {}, "POST"),
    ],
    ids=["a modern request", "a modern server", "stateless"],
)
def test_get_and_delete_are_405_where_there_are_no_sessions(made, options, headers, allowed):
    with endpoint(demo(**made), **options) as at, Peer(at.port, None) as peer:
        for method in ("GET", "DELETE"):
            with peer.http(method, **headers) as reply:
                assert (reply.status, reply.headers["allow"]) == (405, allowed)
                assert "id" not in reply.json()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE", "OPTIONS", "x" * 100])
def test_other_methods_are_405_with_what_is_allowed(server, method):
    with endpoint(server) as at, Peer(at.port, None) as peer:
        connection = peer.send(method)
        answer = connection.response(to_head=method == "HEAD")
        assert answer.status == 405
        assert set(answer.headers["allow"].split(", ")) == {"POST", "GET", "DELETE"}
        assert (answer.body == b"") == (method == "HEAD")


@pytest.mark.spec("basic/transports/streamable-http/old-clients-both-endpoints")
def test_the_transport_of_2024_11_05_may_be_served_beside_it(server):
    with (
        endpoint(server, sse_path="/sse") as at,
        Peer(at.port, None) as peer,
        Peer(at.port) as modern,
        peer.get(path="/sse") as stream,
    ):
        assert stream.event().event == "endpoint"
        assert "tools" in modern.request("tools/list")
        at.app.close()
        assert stream.messages() == []


# -------------------------------------------------------------------- what is asked of a request


@pytest.mark.spec(
    "basic/transports/streamable-http/origin-validated",
    "basic/transports/streamable-http/origin-invalid-403",
    "basic/transports/streamable-http/origin-403-body",
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "PUT"])
@pytest.mark.parametrize("header", ["Origin", "Host"])
def test_a_strangers_origin_or_host_is_403_whatever_it_asks(server, method, header):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer:
        message = peer.message("ping") if method == "POST" else None
        evil = {"Origin": "http://evil.example"} if header == "Origin" else {"Host": "evil.example"}
        with peer.http(method, message, **evil) as reply:
            assert reply.status == 403
            error = reply.json()
            assert "id" not in error
            assert "evil.example" in error["error"]["message"]
        assert peer.request("ping") == {}


def test_a_page_of_this_machine_may_ask(server):
    with endpoint(server) as at, Peer(at.port, headers={"Origin": "http://localhost:5173"}) as peer:
        assert peer.request("tools/list")["tools"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": None}, 415),
        ({"Content_Encoding": "gzip"}, 415),
        ({"Accept": "application/json"}, 406),
        ({"Accept": "text/event-stream"}, 406),
        ({"Accept": "text/html"}, 406),
    ],
    ids=str,
)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_body_that_is_not_json_or_an_answer_that_is_not_understood(server, revision, headers, status):
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        with peer.post(peer.message("tools/list"), **headers) as reply:
            assert reply.status == status
            assert "error" in reply.json()
        assert "tools" in peer.request("tools/list")


@pytest.mark.parametrize(
    ("answers", "accept", "status"),
    [
        ("json", "application/json", 200),
        ("json", "text/event-stream", 406),
        ("stream", "application/json", 406),
        ("auto", "*/*", 200),
    ],
)
def test_what_must_be_accepted_is_what_may_come(server, answers, accept, status):
    with (
        endpoint(server, answers=answers) as at,
        Peer(at.port) as peer,
        peer.post(peer.message("tools/list"), Accept=accept) as reply,
    ):
        assert reply.status == status


def test_a_body_beyond_the_limit_is_413(server):
    with endpoint(server, max_body_bytes=1000) as at, Peer(at.port) as peer:
        with peer.post(b" " * 1001) as reply:
            assert (reply.status, reply.json()["error"]["code"]) == (413, -32600)
        with peer.post(b" " * 1000) as reply:
            assert (reply.status, reply.json()["error"]["code"]) == (400, -32700)


@pytest.mark.spec(
    "basic/transports/streamable-http/rejected-input-body",
    "basic/transports/streamable-http/rejected-input-status",
)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"} {}', -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b'"text"', -32600),
        (b"7", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
    ],
    ids=lambda value: repr(value)[:40],
)
@pytest.mark.parametrize("revision", [None, "2025-11-25", MODERN])
def test_what_is_no_message_is_400_with_an_error(server, revision, body, code):
    with (
        endpoint(server) as at,
        Peer(at.port, revision) as peer,
        peer.post(body, MCP_Protocol_Version=MODERN if revision == MODERN else None) as reply,
    ):
        assert reply.status == 400
        assert reply.json()["error"]["code"] in (code, -32600)


@pytest.mark.spec("basic/transports/streamable-http/authenticate-connections")
def test_the_hook_says_who_asks_and_who_may_not(server):
    def known(request):
        if "Authorization" not in request.headers:
            raise Denied("say who you are", challenge='Bearer realm="books"')
        return str(request.authorization.token)

    with endpoint(server, authenticate=known, health_path="/health") as at:
        with Peer(at.port, None) as peer:
            for method in ("POST", "GET", "DELETE"):
                with peer.http(method, b"{}") as reply:
                    assert reply.status == 401
                    assert reply.headers["www-authenticate"] == 'Bearer realm="books"'
            with peer.http("GET", path="/health") as reply:
                assert reply.status == 200
        for revision in ("2025-11-25", MODERN):
            headers = {"Authorization": "Bearer ann", "X-Tenant": "blue"}
            with Peer(at.port, revision, headers=headers) as peer:
                assert text(peer.request("tools/call", {"name": "who", "arguments": {}})) == "ann blue"


def test_too_many_requests_are_429_with_the_time_to_come_back(server):
    with endpoint(server, rate=Limit(rate=0.01, burst=2)) as at, Peer(at.port) as peer:
        assert "tools" in peer.request("tools/list")
        assert "tools" in peer.request("tools/list")
        with peer.ask("tools/list") as reply:
            assert reply.status == 429
            assert 100 - PATIENCE < int(reply.headers["retry-after"]) <= 100


def test_each_principal_has_a_rate_of_its_own(server):
    options = {"rate": Limit(rate=0.01, burst=2), "authenticate": lambda request: request.headers["X-User"]}
    with endpoint(server, **options) as at:
        for user in ("ann", "bob"):
            with Peer(at.port, headers={"X-User": user}) as peer:
                statuses = []
                for _ in range(3):
                    with peer.ask("tools/list") as reply:
                        statuses.append(reply.status)
                assert statuses == [200, 200, 429]


def test_what_a_browser_needs_is_with_every_answer(server):
    page = {"Origin": "https://app.example"}
    with endpoint(server, browser_origins="https://app.example") as at, Peer(at.port, headers=page) as peer:
        for reply in (
            peer.ask("tools/list"),
            peer.ask("no/such/method"),
            peer.post(b"{"),
            peer.http("PUT"),
            peer.call("count", {"to": 2}, {"progressToken": "t"}),
        ):
            with reply:
                assert reply.headers["access-control-allow-origin"] == "https://app.example"
                assert "Mcp-Session-Id" in reply.headers["access-control-expose-headers"]
        with peer.http("OPTIONS", Access_Control_Request_Method="POST") as reply:
            assert reply.status == 204
            assert "Mcp-Method" in reply.headers["access-control-allow-headers"]


def test_the_health_path_needs_no_names_and_knows_of_the_end(server):
    with endpoint(server, health_path="/up") as at, Peer(at.port, None, headers={"Host": "x"}) as peer:
        with peer.http("GET", path="/up") as reply:
            assert (reply.status, reply.json()) == (200, {"status": "ok"})
        at.app.close()
        with peer.http("GET", path="/up") as reply:
            assert (reply.status, reply.json()) == (503, {"status": "closing"})
            assert "retry-after" in reply.headers


def test_nothing_is_looked_at_for_a_log_that_is_not_kept(server, caplog, monkeypatch):
    looked = []
    monkeypatch.setattr(streamable_http, "log_request", lambda *facts: looked.append(facts))
    with (
        caplog.at_level(logging.WARNING, "mcp_ref.http.requests"),
        endpoint(server) as at,
        Peer(at.port) as peer,
    ):
        peer.request("tools/list")
    assert looked == []


def test_requests_are_logged_without_secrets(server, caplog):
    secret = "s3cr3t"
    with (
        endpoint(server, authenticate=lambda request: "ann") as at,
        caplog.at_level(logging.INFO, "mcp_ref.http.requests"),
        Peer(at.port, headers={"Authorization": f"Bearer {secret}"}, path=f"/mcp?key={secret}") as peer,
    ):
        peer.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2, "c": secret}})
    (line,) = caplog.messages
    assert line.startswith("127.0.0.1 POST /mcp 200 ")
    assert line.endswith(" tools/call ann")
    assert secret not in caplog.text


# ------------------------------------------------------------------------------ the modern era


@pytest.mark.spec(
    "basic/transports/streamable-http/request-json-or-sse",
    "basic/transports/streamable-http/ignore-session-id",
    "basic/transports/streamable-http/ignore-last-event-id",
)
def test_a_modern_request_has_no_session_and_resumes_nothing(server):
    with endpoint(server) as at, Peer(at.port) as peer:
        message = peer.message("tools/list")
        with peer.post(message, Mcp_Session_Id="none", Last_Event_ID="none") as reply:
            assert reply.status == 200
            assert "mcp-session-id" not in reply.headers
            assert reply.json()["result"]["tools"]


@pytest.mark.spec(
    "basic/transports/streamable-http/sse-request-notifications",
    "basic/transports/streamable-http/sse-terminates-after-response",
    "basic/transports/streamable-http/x-accel-buffering",
)
def test_what_is_said_before_the_answer_makes_it_a_stream(server):
    with (
        endpoint(server) as at,
        Peer(at.port) as peer,
        peer.call("count", {"to": 3}, {"progressToken": "t"}) as reply,
    ):
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["x-accel-buffering"] == "no"
        assert reply.headers["cache-control"] == "no-store"
        events = reply.events()
    assert {(event.id, event.event, event.retry) for event in events} == {(None, None, None)}
    messages = [event.message for event in events]
    assert [m["params"]["progress"] for m in messages[:-1]] == [1, 2, 3]
    assert text(messages[-1]["result"]) == "counted"


@pytest.mark.spec("basic/transports/streamable-http/no-resumption")
def test_a_modern_stream_has_no_ids_and_get_resumes_nothing(server):
    with endpoint(server) as at, Peer(at.port) as peer:
        with peer.call("count", {"to": 2}, {"progressToken": "t"}) as reply:
            assert [event.id for event in reply.events()] == [None, None, None]
        with peer.get("anything-1", MCP_Protocol_Version=MODERN) as reply:
            assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.spec("basic/transports/streamable-http/sse-notifications-related")
def test_notifications_are_on_the_stream_of_their_request_alone(server):
    """Two clients, the same id, the same token, at the same time."""
    gates = [Silent(server, f"silent{n}") for n in (0, 1)]

    @server.tool
    def one(ctx: Context, n: int) -> str:
        gates[n].begun.set()
        assert gates[n].go.wait(PATIENCE)
        ctx.progress(n)
        return str(n)

    with endpoint(server) as at, Peer(at.port) as first, Peer(at.port) as second:
        for n, peer in enumerate((first, second)):
            message = first.message(
                "tools/call",
                {"name": "one", "arguments": {"n": n}, "_meta": {"progressToken": "t"}},
                id=1,
            )
            gates[n].connection = peer.send("POST", message)
            assert gates[n].begun.wait(PATIENCE)
        for gate in gates:
            gate.go.set()
        for n, gate in enumerate(gates):
            progress, answer = Reply(gate.connection).messages()
            assert (progress["params"]["progress"], answer["id"], text(answer["result"])) == (n, 1, str(n))


STATUSES = {
    "an unknown method": ("no/such/method", {}, {}, 404, -32601),
    "a method that is no more": ("ping", {}, {}, 404, -32601),
    "a capability that is not offered": ("prompts/list", {}, {}, 404, -32601),
    "wrong parameters": ("tools/call", {"name": 7}, {"Mcp_Name": "7"}, 200, -32602),
    "no such tool": ("tools/call", {"name": "none", "arguments": {}}, {}, 200, -32602),
    "an unknown version": (
        "tools/list",
        {"_meta": {VERSION: "2030-01-01"}},
        {"MCP_Protocol_Version": "2030-01-01"},
        400,
        -32022,
    ),
    "another version in the header": ("tools/list", {}, {"MCP_Protocol_Version": "2030-01-01"}, 400, -32020),
    "no version in the header": ("tools/list", {}, {"MCP_Protocol_Version": None}, 400, -32020),
    "no method in the header": ("tools/list", {}, {"Mcp_Method": None}, 400, -32020),
    "another method in the header": ("tools/list", {}, {"Mcp_Method": "Tools/list"}, 400, -32020),
    "no name in the header": ("tools/call", {"name": "add"}, {"Mcp_Name": None}, 400, -32020),
    "another name in the header": ("tools/call", {"name": "add"}, {"Mcp_Name": "sub"}, 400, -32020),
}


@pytest.mark.spec(
    "basic/transports/streamable-http/method-unknown-404",
    "basic/transports/streamable-http/version-unsupported-400",
    "basic/transports/streamable-http/version-header-mismatch",
    "basic/transports/streamable-http/version-header-absent-reject",
    "basic/transports/streamable-http/header-failure-400",
    "basic/transports/streamable-http/header-failure-json-error",
    "basic/transports/streamable-http/missing-standard-header",
    "basic/transports/streamable-http/reject-header-body-mismatch",
    "basic/index/error-code-header-mismatch",
)
@pytest.mark.parametrize("case", STATUSES)
def test_an_error_has_its_status(server, case):
    method, params, headers, status, code = STATUSES[case]
    with endpoint(server) as at, Peer(at.port) as peer:
        message = peer.message(method, params)
        with peer.post(message, **headers) as reply:
            assert reply.status == status
            answer = reply.json()
            assert (answer["id"], answer["error"]["code"]) == (message["id"], code)


PARAMETERS = {
    "as they are": ({"Region": "eu", "Priority": "42", "Urgent": "true"}, 200),
    "in base64": ({"Region": "=?base64?ZXU=?=", "Priority": "42", "Urgent": "true"}, 200),
    "a number as JSON writes it": ({"Region": "eu", "Priority": "42.0", "Urgent": "true"}, 200),
    "one more, which is of no use": ({"Region": "eu", "Priority": "42", "Urgent": "true", "Size": "9"}, 200),
    "another text": ({"Region": "EU", "Priority": "42", "Urgent": "true"}, 400),
    "another number": ({"Region": "eu", "Priority": "43", "Urgent": "true"}, 400),
    "no number": ({"Region": "eu", "Priority": "many", "Urgent": "true"}, 400),
    "no boolean": ({"Region": "eu", "Priority": "42", "Urgent": "True"}, 400),
    "base64 that is none": ({"Region": "=?base64?Z?=", "Priority": "42", "Urgent": "true"}, 400),
    "not ASCII": ({"Region": "\xe9u", "Priority": "42", "Urgent": "true"}, 400),
    "one missing": ({"Region": "eu", "Priority": "42"}, 400),
    "none": ({}, 400),
}


@pytest.mark.spec(
    "basic/transports/streamable-http/param-validate",
    "basic/transports/streamable-http/param-missing-rejected",
    "basic/transports/streamable-http/param-invalid-characters",
    "basic/transports/streamable-http/param-mismatch-error",
    "basic/transports/streamable-http/decode-before-compare",
    "basic/transports/streamable-http/integer-numeric-compare",
)
@pytest.mark.parametrize("case", PARAMETERS)
def test_arguments_that_are_marked_stand_in_headers_too(server, case):
    @server.tool
    def route(
        region: Annotated[str, "where", {"x-mcp-header": "Region"}],
        priority: Annotated[int, "how much", {"x-mcp-header": "Priority"}],
        urgent: Annotated[bool, "how soon", {"x-mcp-header": "Urgent"}],
    ) -> str:
        return f"{region} {priority} {urgent}"

    headers, status = PARAMETERS[case]
    with endpoint(server) as at, Peer(at.port) as peer:
        arguments = {"region": "eu", "priority": 42, "urgent": True}
        sent = {f"Mcp_Param_{name}": value for name, value in headers.items()}
        with peer.call("route", arguments, **sent) as reply:
            answer = reply.json()
            assert reply.status == status
            if status == 200:
                assert text(answer["result"]) == "eu 42 True"
            else:
                assert answer["error"]["code"] == -32020
    with (
        endpoint(server) as at,
        Peer(at.port, "2025-11-25") as peer,
        peer.call("route", arguments, **sent) as reply,
    ):
        if status == 200 or not headers:
            assert reply.status == 200
        elif case != "one missing":
            assert (reply.status, reply.json()["error"]["code"]) == (400, -32001)


@pytest.mark.spec("basic/index/meta-missing-field-http-400")
@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
def test_a_request_without_what_every_request_brings_is_400(server, missing):
    with endpoint(server) as at, Peer(at.port) as peer:
        message = peer.message("tools/list")
        del message["params"]["_meta"][f"io.modelcontextprotocol/{missing}"]
        with peer.post(message) as reply:
            assert reply.status == 400
            error = reply.json()["error"]
            assert error["code"] == -32602
            assert missing in error["message"]


@pytest.mark.spec("basic/index/meta-missing-field-http-400")
@pytest.mark.parametrize("params", [{}, [], {"_meta": {}}, {"_meta": 7}], ids=str)
@pytest.mark.parametrize("revisions", [[MODERN], None], ids=["a modern server", "both eras"])
def test_a_request_without_a_context_is_400(params, revisions):
    """What says that it is modern is its header, or that the server speaks nothing else."""
    made = {"revisions": revisions} if revisions else {}
    with endpoint(demo(**made)) as at, Peer(at.port, None) as peer:
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": params}
        headers = {} if revisions else {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/list"}
        with peer.post(message, **headers) as reply:
            answer = reply.json()
            assert (reply.status, answer["id"], answer["error"]["code"]) == (400, 7, -32602)
        assert peer.tell({"method": "notifications/other", "params": params}, **headers) in (202, 400)


@pytest.mark.spec("basic/index/missing-capability-http-400")
def test_a_capability_that_the_client_lacks_is_400(server):
    with endpoint(server) as at, Peer(at.port) as peer, peer.call("book") as reply:
        assert reply.status == 400
        assert reply.json()["error"]["code"] == -32021


@pytest.mark.spec("basic/transports/streamable-http/notification-202")
def test_a_notification_is_202_without_a_body(server):
    with endpoint(server) as at, Peer(at.port) as peer:
        assert peer.tell({"method": "notifications/other", "params": {"_meta": META}}) == 202
        headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "notifications/other"}
        assert peer.tell({"method": "notifications/other"}, **headers) == 202


@pytest.mark.spec(
    "basic/transports/streamable-http/rejected-input-status",
    "basic/transports/streamable-http/client-no-responses",
)
@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
        [{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}],
        [],
    ],
    ids=["a response", "an error", "a batch", "an empty batch"],
)
def test_what_no_modern_client_sends_is_400(server, body):
    with (
        endpoint(server) as at,
        Peer(at.port) as peer,
        peer.post(body, MCP_Protocol_Version=MODERN) as reply,
    ):
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32600)


def test_the_same_id_of_two_clients_is_no_clash_and_no_cancellation(server):
    silent = Silent(server)
    with endpoint(server) as at, Peer(at.port) as first, Peer(at.port) as second:
        waiting = first.send("POST", first.message("tools/call", {"name": "silent", "arguments": {}}, id=1))
        assert silent.begun.wait(PATIENCE)
        assert "tools" in second.request("tools/list", id=1)
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 1, "_meta": META}}
        assert second.tell(cancelled) == 202
        silent.go.set()
        assert waiting.response().status == 200
        assert not silent.cancelled


def test_a_legacy_server_answers_a_modern_request_so_that_its_client_falls_back():
    with (
        endpoint(demo(revisions=["2025-06-18"])) as at,
        Peer(at.port) as peer,
        peer.ask("tools/list") as reply,
    ):
        assert reply.status == 400
        error = reply.json()["error"]
        assert error["code"] not in (-32020, -32021, -32022)
        assert "initialize" in error["message"]


# -- what a modern client may rely on when it leaves


@pytest.mark.spec(
    "basic/patterns/cancellation/http-disconnect-cancels",
    "basic/transports/streamable-http/cancel-on-disconnect",
    "basic/transports/streamable-http/cancel-stops-work",
)
@pytest.mark.parametrize("talks", [False, True], ids=["silent", "after it said something"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_client_that_leaves_has_cancelled(server, talks, reset):
    silent = Silent(server, says=[1] if talks else [])
    with endpoint(server) as at, Peer(at.port) as peer:
        params = {"name": "silent", "arguments": {}, "_meta": {"progressToken": "t"}}
        connection = peer.send("POST", peer.message("tools/call", params))
        assert silent.begun.wait(PATIENCE)
        if talks:
            assert b"notifications/progress" in connection.until(b"\n\n")
        begun = time.monotonic()
        connection.reset() if reset else connection.close()
        assert silent.ended.wait(PATIENCE)
        assert silent.cancelled
        assert time.monotonic() - begun < NOTICED
        assert eventually(lambda: not at.app.modern.connection.responder.serving)


@pytest.mark.spec(
    "basic/transports/streamable-http/cancel-silences",
    "basic/transports/streamable-http/sse-broken-stream-not-resumed",
)
def test_nothing_is_said_to_a_client_that_has_left(server):
    """It closes only its own direction, so that it would hear what is still said."""
    silent = Silent(server)
    with endpoint(server, keep_alive=0.1) as at, Peer(at.port) as peer:
        meta = {"progressToken": "t"}
        message = peer.message("tools/call", {"name": "silent", "arguments": {}, "_meta": meta}, id=7)
        connection = peer.send("POST", message)
        assert connection.head().status == 200
        connection.socket.shutdown(socket.SHUT_WR)
        assert silent.ended.wait(PATIENCE)
        rest = connection.rest()
        assert b"data" not in rest
        assert not at.app.modern.connection.responder.serving
        assert "tools" in peer.request("tools/list", id=7)  # the id is free, and nothing comes with it


# -- what asks


def test_a_question_travels_in_the_answer_and_its_answer_in_the_next_request(server):
    able = {"elicitation": {"form": {}}}
    with endpoint(server) as at, Peer(at.port, capabilities=able) as peer:
        params = {"name": "book", "arguments": {}}
        with peer.ask("tools/call", params) as reply:
            assert reply.status == 200
            asked = reply.json()["result"]
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        params["inputResponses"] = {key: {"action": "accept", "content": {"seats": 2}}}
        params["requestState"] = asked["requestState"]
        assert text(peer.request("tools/call", params)) == "2 seats"


# -- subscriptions


def listen(peer, *, meta=None, **wanted):
    """A subscription that was acknowledged."""
    reply = peer.ask("subscriptions/listen", {"notifications": wanted, "_meta": meta or {}})
    first = reply.message()
    assert first is not None and first["method"] == "notifications/subscriptions/acknowledged"
    return reply


@pytest.mark.spec(
    "basic/transports/streamable-http/listen-no-request-scoped",
    "basic/transports/streamable-http/sse-notifications-related",
)
@pytest.mark.parametrize("answers", ["auto", "json", "stream"])
def test_a_subscription_is_a_stream_of_changes_and_of_nothing_else(server, answers):
    """Whatever it asks for itself: what calls report and log meanwhile does not come on it."""

    @server.tool
    def talk(ctx: Context) -> str:
        ctx.log("emergency", "of the call")
        ctx.progress(1, 2)
        return "said"

    asked = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": "t"}
    with endpoint(server, answers=answers) as at, Peer(at.port) as peer:
        with listen(peer, resourceSubscriptions=["demo://a"], meta=asked) as stream:
            assert stream.headers["x-accel-buffering"] == "no"
            with peer.call("talk", meta=asked) as reply:
                *messages, answer = reply.messages()
            assert text(answer["result"]) == "said"
            methods = [] if answers == "json" else ["notifications/message", "notifications/progress"]
            assert [message["method"] for message in messages] == methods
            server.resource_updated("demo://a")
            told = stream.message()
            assert told["method"] == "notifications/resources/updated"
            assert SUBSCRIPTION in told["params"]["_meta"]
        assert eventually(lambda: not at.app.modern.connection.responder.serving)


@pytest.mark.spec("basic/transports/streamable-http/sse-keep-alive")
def test_a_subscription_is_kept_alive_by_comments(server):
    with (
        endpoint(server, keep_alive=0.1) as at,
        Peer(at.port) as peer,
        listen(peer, toolsListChanged=True) as stream,
    ):
        assert [stream.block() for _ in range(2)] == [Event(comment="")] * 2


@pytest.mark.spec("basic/patterns/cancellation/http-disconnect-cancels")
def test_a_subscription_ends_when_its_client_leaves(server):
    with endpoint(server) as at, Peer(at.port) as peer:
        stream = listen(peer, toolsListChanged=True)
        assert at.app.places.taken == 1
        stream.close()
        assert eventually(lambda: at.app.places.taken == 0, NOTICED)
        assert eventually(lambda: not at.app.modern.connection.responder.serving)


@pytest.mark.spec("basic/patterns/subscriptions/graceful-response")
def test_a_subscription_is_answered_when_the_server_goes(server):
    with endpoint(server) as at, Peer(at.port) as peer, listen(peer, toolsListChanged=True) as stream:
        at.app.close()
        (last,) = stream.messages()
        assert last["result"]["_meta"][SUBSCRIPTION] == last["id"]


# ------------------------------------------------------------------- JSON or a stream: a setting


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", MODERN])
@pytest.mark.parametrize("answers", ["json", "stream"])
def test_the_setting_forces_either(server, revision, answers):
    with endpoint(server, answers=answers) as at, Peer(at.port, revision) as peer:
        for tool, arguments in (("add", {"a": 1, "b": 2}), ("count", {"to": 2})):
            with peer.call(tool, arguments, {"progressToken": "t"}) as reply:
                assert reply.is_stream == (answers == "stream")
                messages = reply.messages()
                assert "result" in messages[-1]
                assert len(messages) == (3 if reply.is_stream and tool == "count" else 1)


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_client_that_likes_streams_better_gets_them(server, revision):
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        message = peer.message("tools/list")
        with peer.post(message, Accept="text/event-stream, application/json") as reply:
            assert reply.is_stream
            assert [m["id"] for m in reply.messages()] == [message["id"]]


@pytest.mark.spec("basic/transports/streamable-http/sse-keep-alive")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_a_call_that_is_silent_for_long_becomes_a_stream(server, revision):
    silent = Silent(server)
    with (
        endpoint(server, keep_alive=0.1) as at,
        Peer(at.port, revision) as peer,
        peer.call("silent") as reply,
    ):
        assert reply.is_stream
        assert reply.block() == reply.block() == Event(comment="")
        silent.go.set()
        assert text(reply.answer()["result"]) == "done"


# -------------------------------------------------------------------------------------- its life


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"path": 7}, TypeError),
        ({"answers": "both"}, ValueError),
        ({"authenticate": "ann"}, TypeError),
        ({"rate": 5}, TypeError),
        ({"threads": 0}, ValueError),
        ({"max_sessions": 0}, ValueError),
        ({"max_streams": True}, TypeError),
        ({"log_bytes": 0}, ValueError),
        ({"retry_ms": -1}, ValueError),
        ({"max_body_bytes": 0}, ValueError),
        ({"keep_alive": 0}, ValueError),
        ({"session_idle": "long"}, TypeError),
        ({"allowed_hosts": []}, ValueError),
        ({"nonsense": 1}, TypeError),
    ],
    ids=str,
)
def test_wrong_settings_are_named_at_once(server, options, wrong):
    with pytest.raises(wrong, match=next(iter(options))):
        server.wsgi_app(**for_http(options))


def test_the_lifespan_begins_with_the_first_request_and_ends_with_the_application():
    happened = []

    @contextlib.contextmanager
    def life(server):
        happened.append("entered")
        yield
        happened.append("left")

    with endpoint(demo(lifespan=life)) as at, Peer(at.port) as peer:
        assert happened == []
        peer.request("tools/list")
        peer.request("tools/list")
        assert happened == ["entered"]
        at.app.close()
        assert happened == ["entered", "left"]


def test_an_application_that_is_closed_ends_the_tasks_before_the_lifespan(monkeypatch):
    """They fail, and their handlers have time to clean up while what they need is still there."""
    monkeypatch.setattr(streamable_http, "LAST_SECONDS", PATIENCE)
    ends = []

    @contextlib.contextmanager
    def life(server):
        yield "open"
        ends.append("lifespan left")

    server, begun = demo(lifespan=life), threading.Event()

    @server.tool(task="required")
    def render(ctx: Context) -> str:
        begun.set()
        try:
            ctx.sleep(60)
        finally:
            ends.append(f"cleaned up while {ctx.lifespan}")

    with endpoint(server) as at:
        with connect(f"http://127.0.0.1:{at.port}/mcp") as client:
            task = client.start_tool("render")
        assert begun.wait(PATIENCE)
        at.app.close(0.0)
        assert ends == ["cleaned up while open", "lifespan left"]
    assert server.tasks.store.get(task.id).state["status"] == "failed"


def holding():
    """A server whose task `hold` ends when it is cancelled."""
    server, begun = demo(), threading.Event()

    @server.tool(task="required")
    def hold(ctx: Context) -> None:
        begun.set()
        ctx.sleep(60)

    return server, begun


def test_an_application_that_is_closed_leaves_the_tasks_of_a_server_that_is_served_elsewhere():
    server, begun = holding()
    with endpoint(server) as first, endpoint(server) as second:
        Peer(first.port).request("tools/list")
        with connect(f"http://127.0.0.1:{second.port}/mcp") as client:
            task = client.start_tool("hold")
            assert begun.wait(PATIENCE)
            first.app.close(0.0)
            assert task.refresh().status == "working"
            second.app.close(0.0)
    assert server.tasks.store.get(task.id).state["status"] == "failed"


def test_who_waits_for_a_task_is_told_at_the_end_before_calls_are_waited_for():
    """The time that calls get is not for tasks: tasks/result is answered at once."""
    server, begun = holding()
    with endpoint(server) as at, connect(f"http://127.0.0.1:{at.port}/mcp", revision="2025-11-25") as client:
        task = client.start_tool("hold")
        assert begun.wait(PATIENCE)
        waiting = client.submit("tasks/result", {"taskId": task.id}, timeout=PATIENCE)
        assert eventually(lambda: server.tasks._waiting)
        closing = threading.Thread(target=at.app.close, args=(10 * PATIENCE,))
        closing.start()
        with pytest.raises(ErrorResponse, match="The task was interrupted"):
            waiting.result(PATIENCE)
        closing.join(PATIENCE)
        assert not closing.is_alive()


def test_a_lifespan_that_fails_is_tried_again_by_the_next_request(caplog):
    tried = []

    @contextlib.contextmanager
    def life(server):
        tried.append(1)
        if len(tried) == 1:
            raise OSError("the database is not there yet")
        yield

    with endpoint(demo(lifespan=life)) as at, Peer(at.port) as peer:
        with peer.ask("tools/list") as reply:
            assert reply.status == 500
        assert "the database is not there yet" in caplog.text
        assert "tools" in peer.request("tools/list")


def test_an_application_that_was_never_used_closes_and_stays_closed(server):
    with endpoint(server) as at, Peer(at.port) as peer:
        at.app.close()
        at.app.close()
        with peer.ask("tools/list") as reply:
            assert reply.status == 503
            assert "retry-after" in reply.headers


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_calls_get_so_many_seconds_to_finish(server, revision):
    silent = Silent(server)
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        message = peer.message("tools/call", {"name": "silent", "arguments": {}})
        connection = peer.send("POST", message)
        assert silent.begun.wait(PATIENCE)
        closing = threading.Thread(target=at.app.close, args=(PATIENCE,))
        closing.start()
        assert eventually(lambda: refused(peer))
        assert closing.is_alive()
        silent.go.set()
        assert text(json.loads(connection.response().body)["result"]) == "done"
        closing.join(PATIENCE)
        assert not closing.is_alive()


def test_calls_get_no_more_time_once_somebody_is_in_a_hurry(server):
    silent = Silent(server)
    with endpoint(server) as at, Peer(at.port) as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "silent", "arguments": {}}))
        assert silent.begun.wait(PATIENCE)
        closing = threading.Thread(target=at.app.close, args=(10 * PATIENCE,))
        closing.start()
        assert eventually(lambda: refused(peer))
        at.app.hurry()
        closing.join(PATIENCE)
        assert not closing.is_alive()
        assert connection.response().status == 503


def test_idle_sessions_end_on_a_thread_of_their_own_and_not_on_that_of_the_timers(server):
    with endpoint(server, session_idle=0.1) as at:
        names = []
        is_open, ended = threading.Event(), threading.Event()
        sweep = at.app.sessions.sweep

        def seen():
            names.append(threading.current_thread().name)
            if is_open.is_set():  # which may take longer than it may be idle
                sweep()
                ended.set()

        at.app.sessions.sweep = seen
        with Peer(at.port, "2025-11-25"):
            is_open.set()
            assert ended.wait(PATIENCE)
        assert set(names) == {"mcp_ref sessions"}


def refused(peer):
    with peer.ask("tools/list") as reply:
        return reply.status == 503


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_calls_that_do_not_finish_are_cancelled_and_their_clients_are_told(server, revision):
    """Not by 404, which would say that they were not begun."""
    silent = Silent(server)
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        connection = peer.send("POST", peer.message("tools/call", {"name": "silent", "arguments": {}}))
        assert silent.begun.wait(PATIENCE)
        at.app.close(0.05)
        assert silent.ended.wait(PATIENCE)
        assert silent.cancelled
        assert connection.response().status == 503


@pytest.mark.spec("basic/lifecycle/shutdown-http", "basic/transports/streamable-http/get-server-closes")
def test_get_streams_end_when_the_server_goes(server):
    with endpoint(server) as at, Peer(at.port, "2025-11-25") as peer, peer.get() as stream:
        assert stream.block() is not None
        at.app.close()
        assert stream.messages() == []


def test_whoever_closes_second_waits_for_the_first(server):
    silent = Silent(server)
    with endpoint(server) as at, Peer(at.port) as peer:
        peer.send("POST", peer.message("tools/call", {"name": "silent", "arguments": {}}))
        assert silent.begun.wait(PATIENCE)
        first = threading.Thread(target=at.app.close, args=(PATIENCE,))
        first.start()
        assert eventually(lambda: refused(peer))
        second = threading.Thread(target=at.app.close, args=(PATIENCE,))
        second.start()
        assert second.is_alive()
        silent.go.set()
        for thread in (first, second):
            thread.join(PATIENCE)
            assert not thread.is_alive()


FORKS = """
import io, json, os, sys
from mcp_ref import Server
server = Server("forks")
server.add_tool(os.getpid, name="pid")
app = server.wsgi_app()

def call():
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pid",
        "arguments": {}, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}}}).encode()
    said = []
    found = app({"REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "HTTP_HOST": "localhost",
        "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body),
        "HTTP_MCP_PROTOCOL_VERSION": "2026-07-28", "HTTP_MCP_METHOD": "tools/call", "HTTP_MCP_NAME": "pid"},
        lambda *told: said.extend(told))
    return int(json.loads(b"".join(found))["result"]["content"][0]["text"])

assert call() == os.getpid()
child = os.fork()
assert call() == os.getpid()
app.close()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_each_process_has_workers_of_its_own():
    """An application that was used before its server forks works in the child too."""
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    run = subprocess.run(command, env={**os.environ, **ENV}, capture_output=True, text=True, timeout=30)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_page_names_every_setting_and_its_value():
    page = Path(__file__).parents[4] / "docs" / "basic" / "transports" / "streamable_http.rst"
    endpoint_part, _, _ = page.read_text().partition(".. _basic/transports/streamable_http/security:")
    rows = dict(re.findall(r"^`(\w+)` +(.+?)  ", endpoint_part, re.M))
    parameters = inspect.signature(Application.__init__).parameters
    defaults = {name: each.default for name, each in parameters.items() if name not in ("self", "server")}
    assert rows.keys() == defaults.keys() | {"auth"}  # of which `Server.wsgi_app` makes an `authenticate`
    for name, value in defaults.items():
        told = rows[name].strip("`").replace(",", "")
        if isinstance(value, str):
            assert told == f'"{value}"'
        elif type(value) in (int, float):
            number, _, unit = told.partition(" ")
            assert float(number) * {"KiB": 1024}.get(unit, 1) == value
        else:
            assert not re.search(r"\d", told) or name == "max_body_bytes", name


def test_an_application_is_what_a_server_makes(server):
    app = server.wsgi_app()
    assert isinstance(app, Application)
    assert streamable_http.__all__ == ["Application"]
    with pytest.raises(ValueError, match="'stdio' and 'http'"):
        server.run("carrier pigeon")


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_a_browser_asks_before_its_page_without_saying_who_is_behind_it(path):
    """A preflight has no Authorization header: the hook would refuse it, and the page could never ask."""

    def nobody(request):
        raise Denied("a token, please")

    origin = "https://app.example"
    options = {"sse_path": "/sse", "authenticate": nobody, "browser_origins": [origin]}
    with endpoint(Server("x"), **options) as at, Peer(at.port) as peer:
        with peer.http("OPTIONS", path=path, Origin=origin) as reply:
            assert reply.status == 204
            assert reply.headers["access-control-allow-origin"] == origin
        with peer.post(peer.message("server/discover"), Origin=origin) as reply:
            assert reply.status == 401
            assert reply.headers["access-control-allow-origin"] == origin
        with peer.http("OPTIONS", path=path) as reply:
            assert reply.status == 405


def test_a_method_that_a_path_does_not_have_is_405_there_too():
    with endpoint(Server("x"), sse_path="/sse") as at, Peer(at.port) as peer:
        with peer.http("DELETE", path="/sse") as reply:
            assert (reply.status, reply.headers["allow"]) == (405, "GET")
        with peer.http("GET", path="/nothing") as reply:
            assert reply.status == 404


def test_a_body_that_comes_when_the_server_has_gone_is_refused(server):
    """It was let in when the application still took requests."""
    with endpoint(server) as at, Peer(at.port) as peer:
        assert peer.request("tools/list")
        message = peer.message("tools/call", {"name": "nothing", "arguments": {}})
        body = json.dumps(message).encode() + b" " * 200_000
        head = {**peer.headers(message), "Content-Length": len(body)}
        lines = [f"{name}: {value}" for name, value in head.items() if value is not None]
        connection = peer.connect()
        connection.send("\r\n".join(("POST /mcp HTTP/1.1", *lines, "\r\n")).encode() + body[:-1])
        assert eventually(lambda: len(at.http.running) == 1)
        at.app.close()
        assert connection.send(body[-1:]).response().status in (429, 503)


def test_one_subscriber_that_leaves_takes_no_other_along(server, monkeypatch):
    """All modern clients share a connection: what ends is one stream of it."""
    wanted = {"notifications": {"toolsListChanged": True}}

    def gone(line, wait=None):
        raise ConnectionClosed("the client is gone")

    with (
        endpoint(server) as at,
        Peer(at.port) as peer,
        peer.ask("subscriptions/listen", wanted) as first,
        peer.ask("subscriptions/listen", wanted) as second,
    ):
        for each in (first, second):
            assert each.message()["method"] == "notifications/subscriptions/acknowledged"
        streams = server.listeners._streams[at.app.modern.connection]
        [leaves] = [stream for stream in streams if stream.context.request_id == 1]
        monkeypatch.setattr(leaves.context.arrival.outbox, "send", gone)
        for number in (1, 2):
            server.add_tool(lambda: 1, name=f"tool_{number}")
            assert second.message()["method"] == "notifications/tools/list_changed"
        assert eventually(lambda: leaves not in server.listeners._streams[at.app.modern.connection])
        at.app.close()
        assert second.message()["result"]["resultType"] == "complete"


@pytest.mark.parametrize(("notifications", "code"), [(None, -32602), (7, -32602)], ids=str)
def test_a_subscription_that_is_refused_is_one_object_with_the_error(server, notifications, code):
    """It was to last, and its response was to be events: of the two, JSON is what a client can read here."""
    params = {} if notifications is None else {"notifications": notifications}
    with endpoint(server) as at, Peer(at.port) as peer, peer.ask("subscriptions/listen", params) as reply:
        assert (reply.status, reply.json()["error"]["code"]) == (200, code)


@pytest.mark.parametrize("name", ["path", "health_path", "sse_path"])
@pytest.mark.parametrize("path", ["/ü", "/a b", "/a?b", "/a#b", "/%41", "/a\n"])
def test_a_path_that_no_request_could_have_is_an_error(server, name, path):
    with pytest.raises(ValueError, match=f"{name} is made of"):
        server.wsgi_app(**for_http({name: path}))


def test_two_things_at_one_path_are_an_error(server):
    with pytest.raises(ValueError, match="both /mcp"):
        server.wsgi_app(health_path="mcp/")


@pytest.mark.parametrize("name", ["stateless", "require_headers"])
def test_what_is_neither_true_nor_false_is_an_error(server, name):
    with pytest.raises(TypeError, match=f"{name} is True or False, not 'no'"):
        server.wsgi_app(**for_http({name: "no"}))


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS"])
def test_health_is_asked_for_with_get(server, method):
    with endpoint(server, health_path="/health") as at, Peer(at.port) as peer:
        with peer.http(method, path="/health") as reply:
            assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")
        with peer.http("GET", path="/health", Host="elsewhere.example") as reply:
            assert (reply.status, reply.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_no_more_tools_run_at_once_than_workers_says(revision):
    """Each on the thread of its connection; the others wait there for their turn."""
    server = Server("tests", options=ServerOptions(workers=2))
    held, go = threading.Semaphore(0), threading.Event()
    running, most = [], []

    @server.tool
    def work(holds: bool) -> str:
        running.append(1)
        most.append(len(running))
        held.release()
        assert not holds or go.wait(PATIENCE)
        running.pop()
        return "done"

    with endpoint(server) as at, Peer(at.port, revision) as peer:
        for _ in range(3):
            with peer.call("work", {"holds": False}) as reply:
                reply.answer()
            assert held.acquire(timeout=PATIENCE)
        calls = [
            peer.send("POST", peer.message("tools/call", {"name": "work", "arguments": {"holds": True}}))
            for _ in range(5)
        ]
        assert eventually(lambda: at.app.places.taken == 5)
        for _ in range(2):
            assert held.acquire(timeout=PATIENCE)
        assert not held.acquire(timeout=0.2)
        go.set()
        for connection in calls:
            assert Reply(connection).answer()["result"]["content"][0]["text"] == "done"
        assert max(most) == 2


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "with hooks"])
def test_a_request_runs_on_the_thread_of_its_connection_whatever_it_is(server, revision, hooked):
    """The first and the third, quick or slow, with a Context or without: there is no other thread for it."""
    seen: list[tuple[str, str]] = []

    def note(name):
        seen.append((name, threading.current_thread().name))
        return "done"

    @server.tool
    def plain() -> str:
        return note("plain")

    @server.tool
    def speaking(ctx: Context) -> str:
        ctx.progress(1)
        return note("speaking")

    @server.tool
    def slow() -> str:
        threading.Event().wait(0.005)
        return note("slow")

    @server.on_request("vendor/own")
    def own(params):
        return {"said": note("own")}

    if hooked:
        server.around(lambda ctx, params, proceed: proceed(params))
    with endpoint(server) as at, Peer(at.port, revision) as peer:
        for _ in range(3):
            for name in ("plain", "speaking", "slow"):
                with peer.call(name) as reply:
                    assert reply.answer()["result"]["content"][0]["text"] == "done"
            assert peer.request("vendor/own")["said"] == "done"
    assert Counter(name for name, _ in seen) == {"plain": 3, "speaking": 3, "slow": 3, "own": 3}
    assert all(thread.startswith("mcp_ref http ") for _, thread in seen), seen
    assert not [t for t in threading.enumerate() if t.name.startswith("mcp_ref worker")]


# -------------------------------------------------------------------------- a request, step by step


def test_options_are_of_their_own_kind():
    with pytest.raises(TypeError, match="options is an HttpOptions"):
        Server("demo").wsgi_app(options={"answers": "json"})


def test_a_call_without_a_place_is_503_and_says_when_to_come_back():
    server = Server("demo", options=ServerOptions(workers=1, queue=0))
    held = Silent(server)
    with endpoint(server) as at, Peer(at.port) as peer:
        first = peer.send("POST", peer.message("tools/call", {"name": "silent", "arguments": {}}))
        assert held.begun.wait(PATIENCE)
        with peer.call("silent") as refused:
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert "1 calls run" in refused.json()["error"]["message"]
        assert peer.request("server/discover")["supportedVersions"]  # waits for no turn
        held.go.set()
        assert Reply(first).answer()["result"]["content"][0]["text"] == "done"
        assert eventually(lambda: not at.app.places.taken)


def test_a_batch_takes_one_place_and_has_one_answer(server):
    with endpoint(server) as at, Peer(at.port, "2025-03-26") as peer:
        calls = [
            peer.message("tools/call", {"name": "add", "arguments": {"a": number, "b": 1}})
            for number in range(3)
        ]
        with peer.post(calls) as reply:
            assert [m["result"]["content"][0]["text"] for m in reply.json()] == ["1", "2", "3"]
        with peer.post([{"jsonrpc": "2.0", "method": "vendor/x"}] * 2) as reply:
            assert (reply.status, reply.body()) == (202, b"")
        assert eventually(lambda: not at.app.places.taken)


def test_a_forked_child_keeps_the_lifespan_that_its_parent_entered(server, monkeypatch):
    kept = []
    monkeypatch.setattr(forks, "without_end", kept)
    life = streamable_http.Life(server.wsgi_app())
    parents = life._entered
    kept.clear()
    life.forked()
    assert kept == [parents]
    assert life._entered is not parents
