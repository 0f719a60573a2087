"""runtime/http_client/client: what the exchanges of one client share, how many run at once, how they end."""

import threading
import time

import pytest
from http_exchanges import ask, begun, ok, waits, within
from peers import PATIENCE, eventually
from web import STREAM, open_files, web

from mcp_ref.runtime.http_client.client import MAX_EXTRA_EXCHANGES
from mcp_ref.runtime.http_client.sockets import Aborted, Expired


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
            exchange.send("POST", {}, b"{}", http.settings.target_of(f"{site.url}/messages?id=7"))
        assert site.requests[0].target == "/mcp/messages?id=7"
        assert http.settings.target_of(f"http://127.0.0.1:{site.port}") == "/"
        assert http.settings.target_of("http://127.0.0.1:1/mcp") is None, "it is another server"


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
    assert open_files() <= before  # what other tests left to the collector may have been closed


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
            connected = exchange._socket
            http.forked()
            assert exchange.is_aborted
            exchange.abort()
            go_on.set()
            heard = b""
            while not heard.endswith(b"cd"):
                more = connected.recv(4)
                assert more
                heard += more


# ------------------------------------------------------------------------------ how many at once


def test_an_exchange_above_the_limit_waits_for_a_slot(at):
    with web(waits) as site:
        http = at(site, limit=2)
        first, second = begun(http), begun(http)
        done = threading.Event()

        def third():
            with begun(http):
                done.set()

        thread = threading.Thread(target=third)
        thread.start()
        assert not done.wait(0.1)
        first.close()
        assert done.wait(PATIENCE)
        thread.join()
        second.close()


def test_a_wait_for_a_slot_ends_with_the_deadline_and_with_abort(at):
    with web(waits) as site:
        http = at(site, limit=1)
        first = begun(http)
        with http.new(within(0.1)) as late, pytest.raises(Expired):
            late.send("POST", {}, b"{}")
        aborted = http.new(None)
        timer = threading.Timer(0.05, aborted.abort)
        timer.start()
        with aborted, pytest.raises(Aborted):
            aborted.send("POST", {}, b"{}")
        timer.join()
        assert aborted.is_aborted
        first.close()


def test_urgent_exchanges_have_a_few_slots_more(at):
    with web(waits) as site:
        http = at(site, limit=1)
        first = begun(http)
        with http.new(within(0.05)) as usual, pytest.raises(Expired):
            usual.send("POST", {}, b"{}")
        urgent = [http.new(within(), urgent=True) for _ in range(MAX_EXTRA_EXCHANGES)]
        for exchange in urgent:
            exchange.send("POST", {}, b"{}")
        with http.new(within(0.05), urgent=True) as late, pytest.raises(Expired):
            late.send("POST", {}, b"{}")
        for exchange in (first, *urgent):
            exchange.close()


def test_an_exchange_that_pauses_before_it_begins_takes_no_slot(at):
    with web(waits) as site:
        http = at(site, limit=1)
        first = begun(http)
        second = http.new(within())
        second.pause(0.01)
        with pytest.raises(Expired):
            http.new(within(0.02)).pause(5)
        first.close()
        with second:
            second.send("POST", {}, b"{}")


@pytest.mark.parametrize("how", ["abort", "stop"])
def test_such_a_pause_is_ended_by_any_thread(at, how):
    http = at("http://127.0.0.1:1/mcp")
    exchange = http.new(None)
    timer = threading.Timer(0.05, exchange.abort if how == "abort" else http.stop)
    timer.start()
    start = time.monotonic()
    with pytest.raises(Aborted):
        exchange.pause(10)
    assert time.monotonic() - start < PATIENCE / 2
    timer.join()
    if how == "stop":
        with pytest.raises(Aborted):
            http.new(None).pause(0.01)


def test_in_a_forked_child_no_exchange_begins_nor_waits_for_a_lock_of_the_parents(at):
    http = at("http://127.0.0.1:1/mcp")
    parents = http._changed
    http.forked()
    assert http._changed is not parents
    with http.new(within()) as exchange, pytest.raises(Aborted):
        exchange.send("POST", {}, b"{}")
    with http.new(within()) as exchange, pytest.raises(Aborted):
        exchange.pause(60)
