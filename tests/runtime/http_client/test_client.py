"""runtime/http_client/client: what the http of one client share, and how they end together."""

import threading

import pytest
from http_exchanges import ask, begun, ok, waits, within
from peers import PATIENCE, eventually
from web import STREAM, open_files, web

from mcp_ref.runtime.http_client.sockets import Aborted


def test_a_connection_is_used_again(at):
    with web(ok) as site:
        http = at(site)
        for _ in range(5):
            assert ask(http) == (200, b"{}")
        assert len(site.wires) == 1


def test_another_target_of_the_server_can_be_asked_for(at):
    with web(ok) as site:
        http = at(site)
        with http.new(within()) as exchange:
            exchange.send("POST", {}, b"{}", http.target_of(f"{site.url}/messages?id=7"))
        assert site.requests[0].target == "/mcp/messages?id=7"
        assert http.target_of("http://127.0.0.1") == "/"


def test_the_end_ends_all_and_lets_one_last_request_out(at):
    outcome = []

    def one():
        try:
            with http.new(None) as exchange:
                exchange.send("POST", {}, b"{}")
                exchange.read1(10)
        except Aborted as problem:
            outcome.append(problem)

    def handle(request, wire):
        ok(request, wire) if request.method == "DELETE" else waits(request, wire)

    with web(handle) as site:
        http = at(site, limit=2)
        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: len(site.requests) == 2)
        http.stop()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(outcome) == 4
        with http.new(within(), last=True) as last:
            last.send("DELETE", {})
            assert last.status == 200
        with pytest.raises(Aborted):
            begun(http)


def test_nothing_is_left_open(at):
    before = open_files()
    with web(ok) as site:
        http = at(site)
        for _ in range(3):
            ask(http)
        http.close()
    assert open_files() == before


def test_in_a_forked_child_the_parents_exchanges_are_over_and_their_sockets_are_left_alone(at):
    """To shut a socket down in the child would be to shut it down for the parent."""
    go_on = threading.Event()

    def handle(request, wire):
        wire.head(200, STREAM, "Content-Length: 4")
        wire.send(b"ab")
        assert go_on.wait(PATIENCE)
        wire.send(b"cd")

    with web(handle) as site:
        http = at(site)
        with http.new(within()) as exchange:
            exchange.send("POST", {}, b"{}")
            connected = exchange._lease._socket
            http.forked()
            assert exchange.is_aborted
            exchange.abort()
            go_on.set()
            heard = b""
            while not heard.endswith(b"cd"):
                more = connected.recv(4)
                assert more
                heard += more
