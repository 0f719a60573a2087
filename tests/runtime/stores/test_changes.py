"""runtime/stores/changes: who waits for a change, and who hears of it.

As a user of a store sees it, this is in test_store.py.
"""

import threading
import time

import pytest
from peers import PATIENCE, eventually

from mcp_ref.runtime.stores.changes import Changes, next_version
from mcp_ref.runtime.stores.store import Entry

ONE = Entry("one", None, 1.0, None, None, {})


def waiting(changes, get, seconds=PATIENCE, **options):
    found = []
    thread = threading.Thread(target=lambda: found.append(changes.wait(get, "one", 1, seconds, **options)))
    thread.start()
    assert eventually(lambda: changes.is_watched)

    def result():
        thread.join(PATIENCE)
        return found[0]

    return result


def test_a_version_follows_the_one_before_whatever_was_made():
    assert next_version(ONE, Entry("one", None, 1.0, 5.0, "me", {"n": 1}, b"x", 77)) == Entry(
        "one", None, 1.0, 5.0, "me", {"n": 1}, b"x", 2
    )
    with pytest.raises(ValueError, match="keeps the id, the owner and the time"):
        next_version(ONE, Entry("two", None, 1.0, None, None, {}))


def test_a_change_between_reading_and_sleeping_is_not_missed():
    """It is made by the very call that reads: the later it came, the less could be missed."""
    changes = Changes()
    versions = [1, 2]

    def get(entry_id):
        found = Entry(entry_id, None, 1.0, None, None, {}, None, versions.pop(0))
        changes.tell(found)
        return found

    assert changes.wait(get, "one", 1, PATIENCE).version == 2


def test_who_is_woken_for_nothing_waits_on():
    changes = Changes()
    looks = []
    there = [ONE]

    def get(entry_id):
        looks.append(entry_id)
        return there[0]

    result = waiting(changes, get)
    for count in range(1, 4):
        assert eventually(lambda at=count: len(looks) >= at)
        changes.wake("one")
    there[0] = None
    changes.wake("another")
    changes.wake_all()
    assert result() is None
    assert not changes.is_watched


def test_it_looks_again_after_a_while():
    changes = Changes()
    there = [ONE, ONE, None]
    assert changes.wait(lambda _: there.pop(0), "one", 1, PATIENCE, look_again=0.01) is None
    assert there == []


def test_an_endless_wait_is_one_that_looks_again():
    changes = Changes()
    there = [ONE]
    result = waiting(changes, lambda _: there[0], float("inf"))
    there[0] = None
    changes.wake("one")
    assert result() is None


def test_it_sleeps_no_longer_than_the_entry_is_there():
    changes = Changes()
    end = time.time() + 0.05
    found = changes.wait(
        lambda _: Entry("one", None, 1.0, end, None, {}) if time.time() < end else None, "one", 1, PATIENCE
    )
    assert found is None


def test_what_a_read_raises_is_raised_and_no_one_waits_any_more():
    changes = Changes()
    with pytest.raises(ZeroDivisionError):
        changes.wait(lambda _: 1 // 0, "one", 1, PATIENCE)
    assert not changes.is_watched


def test_listeners_hear_in_their_order_until_they_end(caplog):
    changes = Changes()
    heard = []
    first = changes.listen(lambda e: heard.append(1))
    changes.listen(lambda e: 1 // 0)
    changes.listen(lambda e: heard.append(2))
    assert changes.is_heard
    changes.tell(ONE)
    first()
    changes.tell(ONE)
    assert heard == [1, 2, 2]
    assert caplog.text.count("ZeroDivisionError") == 2


def test_after_a_fork_no_one_waits_and_who_listens_hears():
    """Also if another thread held the lock. A wait that began before the fork leaves nothing behind."""
    changes = Changes()
    heard = []
    there = [ONE]
    result = waiting(changes, lambda _: there[0], look_again=0.01)
    changes.listen(heard.append)  # not before: whether a thread waits could not be seen
    changes._lock.acquire()
    changes.forked()
    there[0] = None
    assert result() is None
    changes.tell(ONE)
    assert heard == [ONE]
