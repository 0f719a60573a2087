"""runtime/http_client/authorizing: what an exchange asks an authorizer, and how often."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest
import requests
from http_exchanges import Numbered, ask, ok, within
from peers import PATIENCE
from web import JSON, web

from mcp_ref.runtime.errors import ConnectionClosed, McpError
from mcp_ref.runtime.http_client.authorizing import MAX_AUTHORIZATIONS, Refusal
from mcp_ref.runtime.http_client.sockets import Aborted, Expired
from mcp_ref.runtime.threads import deadlines

pytestmark = pytest.mark.usefixtures("own_environment")


def picky(wanted, status=401, *lines):
    """A server that takes one token."""

    def handle(request, wire):
        if request.headers.get("authorization") == f"Bearer {wanted}":
            wire.answer(200, b"{}", JSON)
        else:
            wire.answer(status, b"who?", *lines)

    return handle


def test_each_request_of_whatever_method_has_the_headers_of_the_authorizer(at):
    auth = Numbered()
    with web(ok) as site:
        http = at(site, auth=auth, headers={"authorization": "Basic x", "X-One": "1"})
        for method in ("POST", "GET", "DELETE"):
            assert ask(http, method=method) == (200, b"{}")
        assert auth.asked == [("POST", site.url), ("GET", site.url), ("DELETE", site.url)]
        assert [r.headers["authorization"] for r in site.requests] == ["Bearer 1", "Bearer 2", "Bearer 3"]
        assert all(len([n for n, _ in r.lines if n.lower() == "authorization"]) == 1 for r in site.requests)
        assert all(r.headers["x-one"] == "1" for r in site.requests)
    assert auth.nonces == [None] * 3


def test_the_authorizer_wins_over_that_of_a_session(at):
    session = requests.Session()
    session.auth = ("user", "password")
    with web(ok) as site:
        ask(at(site, auth=Numbered(), session=session))
        assert site.requests[0].headers["authorization"] == "Bearer 1"


def test_a_request_that_is_refused_is_sent_again(at):
    challenges = "WWW-Authenticate: Basic", "WWW-Authenticate: Bearer a=b", "DPoP-Nonce: n"
    auth = Numbered()
    with web(picky(3, 401, *challenges)) as site:
        assert ask(at(site, auth=auth), b"[1]") == (200, b"{}")
        assert [r.body for r in site.requests] == [b"[1]"] * 3
        assert len(site.wires) == 1  # the connection is kept
    refusal = auth.refusals[0]
    assert (refusal.status, refusal.challenge, refusal.nonce) == (401, "Basic, Bearer a=b", "n")
    assert refusal.sent == {"Authorization": "Bearer 1"}
    assert refusal.peer == "127.0.0.1"
    assert "Bearer 1" not in repr(refusal)


def test_no_request_is_sent_again_more_than_a_few_times(at):
    with web(picky(None, 403)) as site:
        assert ask(at(site, auth=Numbered())) == (403, b"who?")
        assert len(site.requests) == 1 + MAX_AUTHORIZATIONS


@pytest.mark.parametrize("body", [b"", b"who?", b"x" * 200_000])
def test_a_refusal_that_is_final_is_the_answer(at, body):
    def handle(request, wire):
        wire.answer(403, body, "X-Why: because", "Content-Type: text/plain")

    with web(handle) as site, at(site, auth=Numbered(False)).new(within()) as exchange:
        exchange.send("POST", {}, b"{}")
        assert (exchange.status, exchange.header("x-why"), exchange.media_type) == (
            403,
            "because",
            "text/plain",
        )
        assert exchange.read(1 << 20) == body[:65536]
        assert exchange.is_end_buffered()


def test_a_refusal_in_chunks_is_read_as_one_with_a_length(at):
    def handle(request, wire):
        wire.head(401, "Transfer-Encoding: chunked", "Content-Type: text/plain")
        wire.chunk(b"wh")
        wire.chunk(b"o?")
        wire.end()

    with web(handle) as site:
        assert ask(at(site, auth=Numbered(False))) == (401, b"who?")


def test_a_refusal_whose_body_breaks_off_is_a_refusal(at):
    def handle(request, wire):
        wire.head(401, "Content-Length: 100")
        wire.send(b"wh")
        wire.close()

    with web(handle) as site:
        assert ask(at(site, auth=Numbered(False))) == (401, b"wh")


def test_what_the_authorizer_raises_is_the_outcome_and_the_slot_is_free_again(at):
    with web(picky(None)) as site:
        http = at(site, auth=Numbered(McpError("no token")), limit=1)
        for _ in range(20):
            with pytest.raises(McpError, match="no token"):
                ask(http)


def test_other_statuses_are_none_of_its_business(at):
    auth = Numbered()
    with web(lambda request, wire: wire.answer(404, b"", "DPoP-Nonce: next")) as site:
        assert ask(at(site, auth=auth))[0] == 404
    assert (auth.refusals, auth.nonces) == ([], ["next"])


def test_a_redirect_within_the_server_has_headers_for_its_own_url(at):
    def handle(request, wire):
        if request.target == "/mcp":
            wire.answer(307, b"", "Location: /moved?a=b")
        else:
            wire.answer(200, b"{}")

    auth = Numbered()
    with web(handle) as site:
        assert ask(at(site, auth=auth))[0] == 200
        assert auth.asked == [("POST", site.url), ("POST", f"http://127.0.0.1:{site.port}/moved?a=b")]


def test_nothing_goes_to_another_origin(at):
    with web(ok) as other:
        to = f"Location: http://localhost:{other.port}/mcp"
        with web(lambda request, wire: wire.answer(307, b"", to)) as site:
            assert ask(at(site, auth=Numbered()))[0] == 307
        assert other.requests == []


def test_while_a_person_is_asked_time_stands_still_and_the_connection_is_free(at, monkeypatch):
    """The slot is kept: the number of requests that are under way stays bounded."""
    inside, go_on = threading.Event(), threading.Event()
    hands = SimpleNamespace(now=1000.0)
    hands.monotonic = lambda: hands.now
    monkeypatch.setattr(deadlines, "time", hands)

    def person(deadline):
        with deadline.hold():
            inside.set()
            assert go_on.wait(PATIENCE)

    auth = Numbered(during=person)
    with web(picky(2)) as site:
        http = at(site, auth=auth)
        result = []

        def call():
            with http.new(within()) as exchange:
                exchange.send("POST", {}, b"{}")
                result.append(exchange.status)

        thread = threading.Thread(target=call)
        thread.start()
        assert inside.wait(PATIENCE)
        hands.now += 2 * PATIENCE
        idle = [c for c in http.settings.pool.pool.queue if c is not None]
        assert len(idle) == 1
        assert len(http._under_way) == 1
        go_on.set()
        thread.join(PATIENCE)
        assert result == [200]


def test_an_exchange_that_was_ended_meanwhile_is_not_sent_again(at):
    with web(picky(None)) as site:
        exchanges = []
        http = at(site, auth=Numbered(during=lambda deadline: exchanges[0].abort()))
        exchanges.append(http.new(within()))
        with pytest.raises(Aborted):
            exchanges[0].send("POST", {}, b"{}")
        assert len(site.requests) == 1


def test_an_authorizer_that_takes_too_long_without_a_person_is_late(at):
    with web(picky(None)) as site:
        http = at(site, auth=Numbered(during=lambda deadline: time.sleep(0.2)))
        with http.new(within(0.1)) as exchange, pytest.raises(Expired):
            exchange.send("POST", {}, b"{}")


def test_a_connection_that_ends_before_the_second_answer_is_said_to_have_ended_then(at):
    def handle(request, wire):
        wire.answer(401) if request.headers["authorization"] == "Bearer 1" else wire.close()

    with web(handle) as site, pytest.raises(ConnectionClosed, match="before it answered"):
        ask(at(site, auth=Numbered()))


def test_stop_is_handed_on(at):
    auth = Numbered()
    http = at("http://127.0.0.1:1/", auth=auth)
    http.stop()
    assert auth.stopped == 1


@pytest.mark.parametrize("name", ["Host", "Mcp-Session-Id", "bad name"])
def test_headers_of_the_transport_are_not_the_authorizers(at, name):
    auth = Numbered()
    auth.headers = lambda method, url: {name: "secret"}
    with web(ok) as site, pytest.raises(ValueError, match="header") as problem:
        ask(at(site, auth=auth))
    assert "secret" not in str(problem.value)


def test_behind_a_proxy_the_address_of_the_server_is_not_known(at, monkeypatch):
    auth = Numbered(False)
    with web(picky(None)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert ask(at("http://mcp.example/mcp", auth=auth))[0] == 401
    assert auth.refusals[0].peer is None
    assert auth.asked == [("POST", "http://mcp.example/mcp")]


def test_a_refusal_holds_what_the_server_said():
    assert repr(Refusal(401, "Bearer", None, {})) == "Refusal(401, 'Bearer')"


def test_requests_without_one_go_as_before(at):
    """One function more for each request would be one too many."""
    with web(ok) as site:
        http = at(site)
        ask(http)
        called = []

        def see(frame, event, argument):
            if event == "call" and "mcp_ref/runtime/http_client" in frame.f_code.co_filename:
                called.append(frame.f_code.co_name)

        sys.setprofile(see)
        try:
            ask(http)
        finally:
            sys.setprofile(None)
        assert not {"merge_headers", "_is_to_be_repeated", "_url"} & set(called)
