"""extras/authorization_server/expiring: tables that are bounded and forget; attempts that are counted."""

import threading

from mcp_ref.extras.authorization_server import expiring
from mcp_ref.extras.authorization_server.expiring import Attempts, Expiring


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def test_an_entry_is_there_until_its_time_is_over():
    clock = Clock()
    table = Expiring(10, 60.0, clock)
    table.put("a", 1)
    table.put("b", 2, seconds=5.0)
    assert (table.get("a"), table.get("b"), table.get("c"), len(table)) == (1, 2, None, 2)
    clock.time += 5.0
    assert (table.get("a"), table.get("b"), table.take("b"), len(table)) == (1, None, None, 1)


def test_an_entry_is_taken_once():
    table = Expiring(10, 60.0)
    table.put("a", 1)
    assert (table.take("a"), table.take("a"), table.get("a")) == (1, None, None)


def test_of_many_threads_one_puts_and_one_takes():
    table, put, took = Expiring(10, 60.0), [], []
    together = threading.Barrier(8)

    def run():
        together.wait()
        put.append(table.put_new("a", 1))
        together.wait()
        took.append(table.take("a"))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (put.count(True), took.count(1)) == (1, 1)


def test_a_name_may_be_used_again_after_its_time():
    clock = Clock()
    table = Expiring(10, 60.0, clock)
    assert [table.put_new("a", 1), table.put_new("a", 1)] == [True, False]
    clock.time += 60.0
    assert table.put_new("a", 1)


def test_a_full_table_forgets_what_has_expired_and_then_the_oldest():
    clock = Clock()
    table = Expiring(2, 60.0, clock)
    table.put("old", 1)
    table.put("short", 2, seconds=1.0)
    clock.time += 2.0
    table.put("new", 3)
    assert (table.get("old"), table.get("new")) == (1, 3)
    table.put("newer", 4)
    assert (table.get("old"), table.get("new"), table.get("newer"), len(table)) == (None, 3, 4, 2)


def test_attempts_are_so_many_in_so_many_seconds():
    clock = Clock()
    attempts = Attempts(2, 10.0, clock)
    assert [attempts.begin("a"), attempts.begin("a")] == [0.0, 0.0]
    clock.time += 4.0
    assert (attempts.begin("a"), attempts.begin("b")) == (6.0, 0.0)
    clock.time += 6.0
    assert attempts.begin("a") == 0.0


def test_a_good_attempt_does_not_count():
    attempts = Attempts(1, 10.0)
    for _ in range(5):
        assert attempts.begin("a") == 0.0
        attempts.forgive("a")
    attempts.forgive("never tried")
    attempts.begin("a")
    assert attempts.begin("a") > 0


def test_attempts_at_the_same_moment_are_counted_before_they_are_made():
    attempts, waits = Attempts(3, 10.0), []
    together = threading.Barrier(12)

    def run():
        together.wait()
        waits.append(attempts.begin("a"))

    threads = [threading.Thread(target=run) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert waits.count(0.0) == 3


def test_counted_keys_are_bounded(monkeypatch):
    monkeypatch.setattr(expiring, "MAX_COUNTED_KEYS", 2)
    attempts = Attempts(1, 10.0)
    assert [attempts.begin(key) for key in "abc"] == [0.0] * 3
    assert attempts.begin("a") == 0.0  # forgotten
    assert attempts.begin("c") > 0


def test_a_key_that_was_used_again_is_not_the_next_to_be_forgotten(monkeypatch):
    monkeypatch.setattr(expiring, "MAX_COUNTED_KEYS", 2)
    attempts = Attempts(2, 10.0)
    assert [attempts.begin(key) for key in "abac"] == [0.0] * 4
    assert attempts.begin("a") > 0
    assert [attempts.begin("b"), attempts.begin("b")] == [0.0, 0.0]  # forgotten
