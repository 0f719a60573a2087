"""runtime/threads/shared: entered by the first that uses it, left by the last."""

from __future__ import annotations

import contextlib
import threading

import pytest

from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.threads.shared import Shared


class Life:
    """Says when it is entered and left."""

    def __init__(self):
        self.events = []

    @contextlib.contextmanager
    def part(self, name):
        self.events.append(f"{name} begins")
        yield name
        self.events.append(f"{name} ends")

    def enter(self, entered):
        return entered.enter_context(self.part("life"))


def test_the_first_enters_it_and_the_last_leaves_it():
    life = Life()
    shared = Shared(life.enter)
    shared.add(lambda: life.part("too early"))
    assert shared.value is None
    with shared.used():
        with shared.used():
            shared.add(lambda: life.part("more"))
        assert shared.value == "life"
        assert life.events == ["life begins", "more begins"]
    assert life.events == ["life begins", "more begins", "more ends", "life ends"]
    assert shared.value is None


def test_what_keeps_it_is_no_use_but_has_it_until_its_own_end():
    life = Life()
    shared = Shared(life.enter)
    with shared.kept():
        with shared.used():
            assert shared.is_in_last_use
            with shared.used():
                assert not shared.is_in_last_use
            with shared.kept():
                assert shared.is_in_last_use
        assert life.events == ["life begins"]
    assert life.events == ["life begins", "life ends"]


def test_what_cannot_be_entered_is_tried_again_by_the_next():
    tries = []

    def enter(entered):
        tries.append(entered)
        return 1 / (len(tries) - 1)

    shared = Shared(enter)
    with pytest.raises(ZeroDivisionError), shared.used():
        pass
    with shared.used():
        assert shared.value == 1


def test_the_second_waits_until_it_is_entered():
    go, values = threading.Event(), []

    def enter(entered):
        go.wait(20)
        return "value"

    shared = Shared(enter)

    def use():
        with shared.used():
            values.append(shared.value)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(20)
    assert values == ["value"] * 3


def test_in_a_forked_child_it_is_entered_anew_and_the_parents_is_not_left(monkeypatch):
    kept, life = [], Life()
    monkeypatch.setattr(forks, "without_end", kept)
    shared = Shared(life.enter)
    parents = shared.used()
    parents.__enter__()
    with shared._lock:  # by a thread that the child does not have
        shared.forked()
    with shared.used():
        assert life.events == ["life begins"] * 2
    assert life.events == ["life begins", "life begins", "life ends"]
    kept[0].close()
    assert life.events[2:] == ["life ends"] * 2
