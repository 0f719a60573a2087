"""runtime/threads/refreshed: one value for many threads, and one fetch."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from peers import PATIENCE, eventually

from mcp_ref.runtime.threads.refreshed import NotFetched, Refreshed


class Source:
    """What is fetched: numbers, one after another, when the test lets it."""

    def __init__(self, **options: float) -> None:
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()
        self.problem: Exception | None = None
        self.time = 100.0
        self.value = Refreshed("the number", self.fetch, now=lambda: self.time, **options)

    def fetch(self) -> int:
        self.count += 1
        number = self.count
        assert self.gate.wait(PATIENCE)
        if self.problem is not None:
            raise self.problem
        return number


def test_a_value_is_fetched_once_and_used_while_it_is_fresh() -> None:
    source = Source(fresh=300.0)
    assert [source.value.get() for _ in range(3)] == [1, 1, 1]
    source.time += 299.0
    assert source.value.get() == 1
    source.time += 1.0
    assert source.value.get() == 2
    assert source.count == 2


def test_threads_that_need_a_first_value_wait_for_one_fetch() -> None:
    source = Source()
    source.gate.clear()
    with ThreadPoolExecutor(20) as pool:
        found = [pool.submit(source.value.get) for _ in range(20)]
        assert eventually(lambda: source.count == 1)
        source.gate.set()
        assert {future.result(PATIENCE) for future in found} == {1}
    assert source.count == 1


def test_while_one_thread_refreshes_the_others_go_on_with_the_old_value() -> None:
    source = Source(fresh=300.0)
    source.value.get()
    source.time += 400.0
    source.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        refreshing = pool.submit(source.value.get)
        assert eventually(lambda: source.count == 2)
        assert source.value.get() == 1
        source.gate.set()
        assert refreshing.result(PATIENCE) == 2
    assert source.value.get() == 2


def test_a_value_that_is_lacking_is_replaced_at_most_once_in_each_pause() -> None:
    source = Source(pause=30.0)
    first = source.value.get()
    assert source.value.newer(first) == first  # it was fetched just now
    source.time += 30.0
    with ThreadPoolExecutor(20) as pool:
        found = {
            future.result(PATIENCE) for future in [pool.submit(source.value.newer, first) for _ in range(100)]
        }
    assert found == {2}
    assert source.count == 2
    for _ in range(100):
        assert source.value.newer(2) == 2
        source.time += 0.1
    assert source.count == 2


def test_a_fetch_that_fails_leaves_the_old_value_for_a_while_and_is_not_tried_at_once() -> None:
    source = Source(fresh=300.0, most=1000.0, pause=30.0)
    source.value.get()
    source.problem = OSError("nobody there")
    source.time += 400.0
    assert [source.value.get() for _ in range(5)] == [1] * 5
    assert source.count == 2
    source.time += 30.0
    assert source.value.get() == 1
    assert source.count == 3
    source.time += 600.0  # older than it may be
    with pytest.raises(NotFetched, match="the number cannot be had"):
        source.value.get()
    source.problem = None
    source.time += 30.0
    assert source.value.get() == 5


def test_without_a_first_value_all_that_wait_are_told_when_to_come_back() -> None:
    source = Source(pause=30.0)
    source.problem = OSError("nobody there")
    for passed in (0.0, 10.0):
        source.time += passed
        with pytest.raises(NotFetched) as problem:
            source.value.get()
        assert problem.value.retry_after == pytest.approx(30.0 - passed)
    assert source.count == 1
    with pytest.raises(NotFetched):
        source.value.newer(0)


def test_a_thread_does_not_wait_for_ever() -> None:
    source = Source(patience=0.05)
    source.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(source.value.get)
        assert eventually(lambda: source.count == 1)
        with pytest.raises(NotFetched):
            source.value.get()
        source.gate.set()
        assert fetching.result(PATIENCE) == 1


def test_a_forked_child_begins_anew() -> None:
    source = Source()
    source.value.get()
    child = os.fork()
    if child == 0:
        os._exit(source.value.get())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert source.value.get() == 1
