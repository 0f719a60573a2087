"""runtime/stores/memory: what a store in this process keeps, what it costs, and how it forgets.

What it promises like every store is in test_store.py.
"""

import gc
import sys
import threading
import time
import tracemalloc
import weakref
from dataclasses import replace

import pytest
from peers import PATIENCE, eventually
from store_peers import MANY, buried, entry, finished, in_python

from mcp_ref.runtime.stores.memory import FEW, MemoryStore
from mcp_ref.runtime.stores.store import StoreError, StoreFull
from mcp_ref.runtime.threads import timers


@pytest.fixture
def store():
    made = MemoryStore()
    yield made
    made.close()


def test_ten_thousand_entries_that_are_over_cost_less_than_2_kib_each():
    outcome = bytes(3_000)
    tracemalloc.start()
    try:
        store = MemoryStore()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(10_000):
            made = entry(
                store,
                f"{number:032x}",
                expires=time.time() + 3600,
                state={"status": "working", "message": f"{number} of 10,000", "tool": f"render {number}"},
            )
            store.add(made, most_live=MANY)
            store.change(made.id, lambda e: replace(e, runner=None, outcome=outcome))
        each = (tracemalloc.get_traced_memory()[0] - before) / 10_000
        store.close()
    finally:
        tracemalloc.stop()
    assert 200 < each < 2048


def test_the_id_of_another_entry_is_refused(store):
    store.add(entry(store), most_live=1)
    with pytest.raises(ValueError, match="the id of a new entry"):
        store.add(entry(store), most_live=9)


def test_a_change_costs_no_memory_that_stays(store):
    store.add(entry(store), most_live=1)
    for number in range(10_000):
        store.change("one", lambda e, at=number: replace(e, expires=time.time() + 3600 + at))
    assert len(store._expiries) <= 3 + FEW
    assert store._expiries[0][0] <= store.get("one").expires


@pytest.mark.parametrize("owner", ["ann", "bob"])
def test_who_finds_no_room_is_told_when_the_first_entry_in_the_way_expires(owner):
    """For an owner that has its share it is one of its own; for others, any."""
    store, now = MemoryStore(most=4), time.time()
    for name, whose, seconds in (
        ("a1", "ann", 300),
        ("a2", "ann", 200),
        ("c", "carl", 500),
        ("d", "dora", 100),
    ):
        if owner == "ann" and whose != "ann":
            continue  # its share is what is in its way, not the end of the store
        store.add(entry(store, name, owner=whose, expires=now + 9_999), most_live=MANY)
        store.change(name, lambda e, end=now + seconds: replace(e, expires=end))
    with pytest.raises(StoreFull) as told:
        store.add(entry(store, "more", owner=owner), most_live=MANY)
    assert told.value.seconds == pytest.approx({"ann": 200, "bob": 100}[owner], abs=20)
    store.close()


def test_no_entry_is_added_while_the_outcomes_take_too_much_but_those_under_way_end():
    store = MemoryStore(most_bytes=10)
    for name in ("one", "two"):
        store.add(entry(store, name), most_live=9)
    for name in ("one", "two"):
        store.change(name, finished)
    assert store.get("two").outcome == b"the end"
    with pytest.raises(StoreFull, match="10 bytes") as told:
        store.add(entry(store, "three"), most_live=9)
    assert told.value.seconds == 86_400  # none of them expires
    store.change("one", lambda e: replace(e, expires=time.time() - 1))
    store.add(entry(store, "three"), most_live=9)
    store.close()


def test_what_has_expired_is_removed_though_no_one_asks_for_it(store):
    """Its memory is free again, and no thread is left that waits for nothing."""
    for number in range(3):
        store.add(entry(store, str(number), expires=time.time() + 0.05 * (number + 1)), most_live=9)
    assert eventually(
        lambda: (store._entries, store._owners, store._expiries, store._timer) == ({}, {}, [], None)
    )


def test_an_earlier_time_of_expiry_does_not_wait_for_a_later_one(store):
    store.add(entry(store, "late", expires=time.time() + 3600), most_live=9)
    store.add(entry(store, "soon", expires=time.time() + 0.05), most_live=9)
    assert eventually(lambda: list(store._entries) == ["late"])


def test_very_many_that_expire_at_once_are_removed_in_parts(store):
    soon = time.time() + 60
    for number in range(2_500):
        store.add(entry(store, str(number), owner=str(number % 2), expires=soon), most_live=MANY)
    assert store._remove_expired(soon)
    assert len(store._entries) == 1_500
    assert store._remove_expired(soon)
    assert not store._remove_expired(soon)
    assert (store._entries, store._owners) == ({}, {})


def test_the_keys_of_removed_entries_do_not_pile_up(store):
    """Of 2,000 entries of one owner, one in ten stays."""
    for number in range(2_000):
        expires = None if number % 10 == 0 else time.time() + 60
        store.add(entry(store, f"{number:04}", created=float(number), expires=expires), most_live=MANY)
    while store._remove_expired(time.time() + 61):
        pass
    owned = store._owners["owner"]
    assert len(owned.keys) - owned.gone == 200
    assert len(owned.keys) <= 2 * (200 + FEW) + 1
    assert [e.id for e in store.page("owner", None, 3)] == ["0000", "0010", "0020"]


def test_the_id_of_a_removed_entry_may_be_used_once_more(store):
    """The same entry is one of its page, and not two; nor does another owner's page have it."""
    for name in ("one", "two", "three"):
        store.add(
            entry(store, name, created=5.0, expires=time.time() + (60 if name != "two" else -1)), most_live=9
        )
    for owner in ("owner", "another"):
        store.add(entry(store, "two", owner=owner, created=5.0, expires=time.time() + 0.01), most_live=9)
        assert eventually(lambda: "two" not in store._entries)
    store.add(entry(store, "two", owner="owner", created=5.0), most_live=9)
    assert [e.id for e in store.page("owner", None, 9)] == ["one", "three", "two"]
    assert store.page("another", None, 9) == []
    assert store._owners["owner"].gone == 0


def test_entries_are_kept_and_not_copied(store):
    """Neither by `get`, nor for a page, unless an outcome is left out of it."""
    added = entry(store)
    store.add(added, most_live=1)
    assert store.get("one") is added
    assert store.page("owner", None, 9)[0] is added
    assert store.change("one", lambda e: e) is added
    over = store.change("one", finished)
    assert store.get("one") is over
    assert store.page("owner", None, 9) == [replace(over, outcome=None)]
    assert store.page("owner", (added.created, "one"), 9) == []
    assert store.change("two", finished) is None


def test_a_wait_looks_once_and_sleeps_until_the_change(store, monkeypatch):
    """It does not ask again and again."""
    store.add(entry(store), most_live=1)
    looks, get = [], store.get
    monkeypatch.setattr(store, "get", lambda name: looks.append(name) or get(name))
    found = []
    thread = threading.Thread(target=lambda: found.append(store.wait("one", 1, PATIENCE)))
    thread.start()
    assert eventually(lambda: store._changes.is_watched and len(looks) == 2)
    thread.join(0.2)
    assert len(looks) == 2
    over = store.change("one", finished)
    thread.join(PATIENCE)
    assert found == [over]
    assert store.wait("one", 1, PATIENCE) is over


def test_what_cannot_be_added_is_said(store):
    small = MemoryStore(most=1)
    small.add(entry(small), most_live=1)
    with pytest.raises(StoreFull, match="has 1 entries"):
        small.add(entry(small, "two"), most_live=1)
    with pytest.raises(ValueError, match="that of another one"):
        small.add(entry(small), most_live=1)
    small.close()
    with pytest.raises(StoreError, match="closed"):
        small.get("one")
    store.add(entry(store), most_live=1)
    with pytest.raises(StoreFull, match="1 are under way"):
        store.add(entry(store, "two"), most_live=1)


def test_who_listens_hears_of_it(store):
    heard = []
    end = store.listen(heard.append)
    store.add(entry(store), most_live=1)
    end()
    store.change("one", finished)
    assert [e.version for e in heard] == [1]


def test_no_entry_is_ever_abandoned(store):
    store.on_abandoned(buried)
    added = entry(store)
    store.add(added, most_live=1)
    assert store.get("one") is added


def test_a_store_that_is_forgotten_is_not_kept_by_its_timer():
    store = MemoryStore()
    store.add(entry(store, expires=time.time() + 0.05), most_live=1)
    gone = weakref.ref(store)
    timer = store._timer
    del store
    gc.collect()
    assert eventually(lambda: gone() is None)  # its timer may be at it just now
    assert eventually(lambda: all(pending is not timer for _, _, pending in list(timers._pending)))


def test_the_store_of_a_forked_child_is_empty_and_its_own():
    """Also when another thread held the lock; the parent's goes on. What listens hears in the child too."""
    script = """
    from mcp_ref.runtime.stores.memory import MemoryStore
    store = MemoryStore()
    heard = []
    store.listen(lambda e: heard.append(e.id))
    store.add(entry(store, expires=time.time() + 60), most_live=9)
    runner = store.runner
    store._lock.acquire()
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        assert store.get("one") is None and store.runner != runner
        store.add(entry(store, "two"), most_live=9)
        assert store.wait("two", 1, 0.01).id == "two"
        assert heard == ["one", "two"]
        os._exit(0)
    store._lock.release()
    say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), store.get("one").id, store.get("two"))
    """
    with in_python(script, "") as other:
        assert other.hear() == "0 one None"


def test_in_this_process_the_same(store):
    """What the hook does, where coverage sees it."""
    store.add(entry(store), most_live=1)
    runner = store.runner
    store.forked()
    assert store.get("one") is None
    assert store.runner != runner


def test_an_entry_is_found_at_every_moment_of_a_change():
    """`get` takes no lock."""
    store = MemoryStore()
    found = entry(store)
    store.add(found, most_live=1)
    misses, over = [], threading.Event()

    def look():
        while not over.is_set():
            if store.get(found.id) is None:
                misses.append(1)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(20_000):
            state = {"n": number}
            store.change(found.id, lambda before, state=state: replace(before, state=state))
    finally:
        over.set()
        looking.join()
        sys.setswitchinterval(switch)
    assert misses == []
