"""runtime/http_client/slots: at most so many http at once, and a few more for what is urgent."""

import threading
import time

import pytest
from http_exchanges import begun, waits, within
from peers import PATIENCE
from web import web

from mcp_ref.runtime.http_client.slots import MAX_EXTRA_EXCHANGES
from mcp_ref.runtime.http_client.sockets import Aborted, Expired


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
    parents = http.slots._changed
    http.forked()
    assert http.slots._changed is not parents
    with http.new(within()) as exchange, pytest.raises(Aborted):
        exchange.send("POST", {}, b"{}")
    with http.new(within()) as exchange, pytest.raises(Aborted):
        exchange.pause(60)
