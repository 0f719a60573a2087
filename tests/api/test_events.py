"""The thread for events: callbacks in order, and what becomes of those that are too many."""

import re
import threading

from peers import LEGACY, PATIENCE, Notes, eventually, raw_server

from mcp_ref import ClientOptions, Server, connect
from mcp_ref.api import events


def test_more_than_callbacks_can_keep_up_with_is_dropped_and_said_so(caplog, monkeypatch):
    monkeypatch.setattr(events, "MAX_EVENTS", 100)
    go, running = threading.Event(), threading.Event()
    script = """
        open_legacy()
        for n in range(300):
            send(method="vendor/news", params={"n": n})
        go_on()
    """
    with connect(
        raw_server(script),
        revision=LEGACY[3],
        on_notification=lambda method, params: running.set() or go.wait(PATIENCE),
        options=ClientOptions(on_stderr=Notes()),
    ) as client:
        assert running.wait(PATIENCE)
        client.ping()
        go.set()
        assert eventually(lambda: client.asker.events._worker.waiting == 0)
    told = [r.getMessage() for r in caplog.records if "too slow" in r.getMessage()]
    assert len(told) == 1, "however many are dropped"
    found = re.match(
        r"the callbacks for notifications are too slow: (\d+) wait, \d+ bytes in memory", told[0]
    )
    assert found is not None
    # The first does not count as one that waits once the thread for callbacks is on its way to it.
    assert 100 <= int(found[1]) <= 100 + 1


def test_what_waits_for_slow_callbacks_is_weighed(caplog):
    """A thousand messages of 100 KB, while the callback is busy with the first: 32 MiB of them wait."""
    go, running, heard = threading.Event(), threading.Event(), []
    script = """
        open_legacy()
        for n in range(1000):
            send(method="notifications/message", params={"level": "error", "data": str(n) + "x" * 100_000})
        while True:
            request = receive("ping", "vendor/last")
            answer(request, {})
            if request["method"] == "vendor/last":
                send(method="notifications/message", params={"level": "error", "data": "last"})
                send(method="notifications/message", params={"level": "error", "data": "very last"})
    """

    def on_log(level, data, logger):
        running.set()
        heard.append(data)
        go.wait(PATIENCE)

    with connect(
        raw_server(script), revision=LEGACY[3], on_log=on_log, options=ClientOptions(on_stderr=Notes())
    ) as client:
        assert running.wait(PATIENCE)
        client.ping(timeout=PATIENCE)  # all of them are read
        waiting = client.asker.events._worker.waiting_bytes
        assert events.MAX_EVENT_BYTES - 200_000 < waiting <= events.MAX_EVENT_BYTES
        go.set()
        assert eventually(lambda: client.asker.events._worker.waiting == 0)
        client.request("vendor/last")
        assert eventually(lambda: heard[-1] == "very last")
    told = [r.getMessage() for r in caplog.records if "too slow" in r.getMessage()]
    assert told[0].startswith("the callbacks for notifications are too slow: ")
    kept = len(heard) - 2
    assert 300 < kept < 400
    dropped = 1000 - kept
    assert told[1].startswith(f"dropped {dropped} notifications of {dropped // 10}")
    assert len(told) == 2


def test_an_event_that_must_be_told_is_told_after_the_end_too():
    client = connect(Server("demo"))
    client.close()
    told = []
    client.asker.events.run(told.append, 1, always=True)
    client.asker.events.run(told.append, 2)
    assert told == [1]


def test_what_is_due_has_run_when_it_has_settled():
    thread, seen = events.EventThread(), []
    for n in range(100):
        thread.run(seen.append, n)
    thread.settle(PATIENCE)
    assert seen == list(range(100))
    thread.close(1.0)
    thread.settle(PATIENCE)  # nothing will run any more, and nothing is waited for


def test_a_callback_does_not_wait_for_itself():
    thread, done = events.EventThread(), threading.Event()

    def settle(argument):
        thread.settle(PATIENCE)
        done.set()

    thread.run(settle, None)
    assert done.wait(PATIENCE / 2)
    thread.close(1.0)
