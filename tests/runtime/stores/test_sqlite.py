"""runtime/stores/sqlite: entries that processes share, and that outlive them.

What it promises like every store is in test_store.py, what goes wrong with files in test_database.py.
"""

import logging
import os
import random
import re
import signal
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from peers import PATIENCE, eventually, nothing_left
from store_peers import MANY, buried, counted, entry, finished, in_python

from mcp_ref.runtime.stores import database
from mcp_ref.runtime.stores import sqlite as module
from mcp_ref.runtime.stores.sqlite import SqliteStore
from mcp_ref.runtime.stores.store import Entry, StoreError, StoreFull

THREAD = "mcp_ref store"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tasks.db"


@pytest.fixture
def make_store(path):
    """A function that makes one more store of the same file; all are closed afterwards."""
    made = []

    def make(**options):
        made.append(SqliteStore(path, **options))
        return made[-1]

    with nothing_left():
        yield make
        for store in made:
            store.close()


@pytest.fixture
def store(make_store):
    return make_store()


@pytest.fixture
def rarely(monkeypatch):
    """No round of a thread but the first: what is seen, a call did or a change by another process."""
    monkeypatch.setattr(module, "ROUND_SECONDS", 1_000.0)


def rows(store):
    return store._one("SELECT count(*) FROM entries")


def of_the_dead(path, *names, owner="owner"):
    """Entries of a process that was killed."""
    script = """
    store = SqliteStore(path)
    for name in sys.argv[3:]:
        store.add(entry(store, name, sys.argv[2]), most_live=MANY)
    say(store.runner)
    wait_for_a_line()
    """
    with in_python(script, path, owner, *names) as other:
        runner = other.hear()
        other.kill()
    return runner


# -- a file ----------------------------------------------------------------------------------------


def test_entries_outlive_the_store(make_store):
    first = make_store()
    first.add(entry(first, expires=time.time() + 60), most_live=1)
    over = first.change("one", finished)
    first.close()
    second = make_store()
    assert second.get("one") == over
    assert second.runner != first.runner


def test_a_file_that_is_none_of_ours_is_refused_by_its_name(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreError, match=f"{re.escape(str(path))} is an SQLite database of another program"):
        SqliteStore(path)


@pytest.mark.parametrize("made", [str, Path])
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        (":memory:", "MemoryStore()"),
        ("file:tasks.db", "SqliteStore takes a path: write 'tasks.db'"),
        ("file:tasks.db?mode=memory&cache=shared", "MemoryStore()"),
        ("file::memory:", "MemoryStore()"),
        ("file:///var/tasks.db?mode=ro", "SqliteStore takes a path: write '/var/tasks.db'"),
    ],
)
def test_what_is_no_path_to_sqlite_is_refused_with_what_to_write(tmp_path, monkeypatch, name, instead, made):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=re.escape(instead)):
        SqliteStore(made(name))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_runners_that_cannot_be_made_is_said(path):
    path.with_name("tasks.db-runners").write_text("in the way")
    with pytest.raises(
        StoreError, match=re.escape(f"beside {path} that says who is alive cannot be written")
    ):
        SqliteStore(path)


def test_a_relative_path_stays_the_same_file(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    with closing(SqliteStore("tasks.db")) as store:
        monkeypatch.chdir("/")
        store.add(entry(store), most_live=1)
        assert store.get("one") is not None
    assert path.is_file()


def test_power_safe_waits_for_the_disk(make_store):
    store = make_store(power_safe=True)
    assert store._one("PRAGMA synchronous") == 2


def test_all_that_is_searched_for_has_an_index(store):
    for statement, values in (
        (module._GET, ("x",)),
        (module._PAGE, ("x", 0, "", 0, 5)),
        (module._CHANGED_BY_OTHERS, (0, 5, "x", 5)),
        (module._REMOVE_EXPIRED, (0, 5)),
        (module._OF_RUNNER, ("x", 0, 5)),
        (module._NEXT_RUNNER, ("",)),
    ):
        plan = [row[3] for row in store._rows(f"EXPLAIN QUERY PLAN {statement}", values)]
        assert any("SEARCH entries" in step for step in plan)
        assert not any("SCAN entries" in step or "TEMP B-TREE" in step for step in plan)


def test_entries_that_are_over_leave_no_room_that_grows(store):
    """Removed entries make room in the file for new ones."""
    for turn in range(4):
        for number in range(300):
            made = entry(store, f"{turn} {number}", expires=time.time() + 60, outcome=bytes(3_000))
            store.add(made, most_live=MANY)
        for number in range(300):
            store.change(f"{turn} {number}", lambda e: replace(e, expires=time.time() - 1))
        store._remove_expired()
        if turn == 0:
            pages = store._one("PRAGMA page_count")
    assert rows(store) == 0
    assert store._one("SELECT entries FROM totals") == 0
    assert store._one("PRAGMA page_count") <= 1.2 * pages


def test_the_id_of_an_expired_entry_may_be_used_once_more(store):
    store.add(entry(store, expires=time.time() - 1), most_live=1)
    store.add(entry(store, owner="another"), most_live=1)
    assert store.get("one").owner == "another"


def test_an_owner_that_no_file_can_hold_is_refused(store):
    with pytest.raises(ValueError, match="surrogates"):
        store.add(entry(store, owner="\ud800"), most_live=1)
    store.add(entry(store), most_live=1)


# -- several processes -----------------------------------------------------------------------------


def test_of_changes_that_two_processes_make_at_once_none_is_lost(path, store):
    script = """
    store = SqliteStore(path)
    say("ready")
    wait_for_a_line()
    for _ in range(5_000):
        store.change("one", counted)
    store.close()
    """
    store.add(entry(store), most_live=1)
    with in_python(script, path) as one, in_python(script, path) as two:
        for other in (one, two):
            assert other.hear() == "ready"
        for other in (one, two):
            other.tell()
        for other in (one, two):
            other.end()
    found = store.get("one")
    assert (found.state, found.version) == ({"n": 10_000}, 10_001)


def test_the_limit_of_an_owner_holds_for_all_processes_together(path, store):
    script = """
    store = SqliteStore(path)
    say("ready")
    wait_for_a_line()
    added = 0
    for number in range(100):
        try:
            store.add(entry(store, f"{os.getpid()} {number}"), most_live=50)
            added += 1
        except StoreFull:
            pass
    say(added)
    wait_for_a_line()
    """
    with in_python(script, path) as one, in_python(script, path) as two:
        for other in (one, two):
            assert other.hear() == "ready"
        for other in (one, two):
            other.tell()
        assert sum(int(other.hear()) for other in (one, two)) == 50
    assert rows(store) == 50


CHANGES = """
store = SqliteStore(path)
say("ready")
while line := wait_for_a_line():
    name, _, what = line.partition(" ")
    if what == "add":
        store.add(entry(store, name), most_live=MANY)
    else:
        store.change(name, finished if what == "finish" else counted)
    say("done")
store.close()
"""


def test_a_wait_ends_with_the_change_by_another_process(path, store, rarely):
    store.add(entry(store), most_live=1)
    found = []
    with in_python(CHANGES, path) as other:
        assert other.hear() == "ready"
        thread = threading.Thread(target=lambda: found.append(store.wait("one", 1, PATIENCE)))
        thread.start()
        assert eventually(lambda: store._changes.is_watched)
        start = time.monotonic()
        other.tell("one finish")
        thread.join(PATIENCE)
        assert time.monotonic() - start < PATIENCE / 2
    assert (found[0].version, found[0].outcome) == (2, b"the end")


def test_what_another_process_adds_and_changes_is_heard_of_once_on_the_stores_thread(path, store, rarely):
    heard = []
    end = store.listen(lambda e: heard.append((e.id, e.version, e.outcome, threading.current_thread().name)))
    store.add(entry(store, "mine"), most_live=9)
    me = threading.current_thread().name
    assert heard == [("mine", 1, None, me)]
    with in_python(CHANGES, path) as other:
        assert other.hear() == "ready"
        for told, version, outcome in (
            ("theirs add", 1, None),
            ("mine change", 2, None),
            ("theirs finish", 2, b"the end"),
        ):
            other.tell(told)
            assert other.hear() == "done"
            expected = (told.split()[0], version, outcome, THREAD)
            assert eventually(lambda: heard[-1] == expected)  # noqa: B023
        assert len(heard) == 4
        end()
        other.tell("theirs change")
        assert other.hear() == "done"
        other.end()
    store.wait("theirs", 3, 0.1)
    assert len(heard) == 4


def test_more_changes_than_a_batch_are_all_heard_of(path, make_store, rarely):
    store, other = make_store(), make_store()
    heard = set()
    store.listen(lambda e: heard.add(e.id))
    names = {str(number) for number in range(2 * module.BATCH + 7)}
    for name in names:
        other.add(entry(other, name), most_live=MANY)
    assert eventually(lambda: heard == names)


def test_what_was_there_before_is_not_heard_of(make_store, rarely):
    store, other = make_store(), make_store()
    other.add(entry(other, "old"), most_live=9)
    heard = []
    store.listen(lambda e: heard.append(e.id))
    other.add(entry(other, "new"), most_live=9)
    assert eventually(lambda: heard)
    assert heard == ["new"]


def test_who_listens_late_does_not_hear_all_that_happened_meanwhile(make_store):
    """The thread is there, for another reason, and knows how far it has come."""
    store, other = make_store(), make_store()
    store.on_abandoned(buried)
    for number in range(300):
        other.add(entry(other, str(number)), most_live=MANY)
    newest = store._one("SELECT seq FROM totals")
    assert eventually(lambda: store._heard == newest)
    heard = []
    store.listen(lambda e: heard.append(e.id))
    other.add(entry(other, "new"), most_live=MANY)
    assert eventually(lambda: heard)
    assert heard == ["new"]


# -- the abandoned ---------------------------------------------------------------------------------


def test_an_entry_of_a_living_runner_is_left_alone(make_store):
    store, other = make_store(), make_store()
    other.add(entry(other), most_live=1)
    store.on_abandoned(buried)
    store._bury_all()
    assert store.get("one").runner == other.runner
    assert other.get("one").version == 1


@pytest.mark.parametrize(
    "look",
    [
        lambda store: store.get("one"),
        lambda store: store.page("owner", None, 5)[0],
        lambda store: store.wait("one", 1, PATIENCE),
        lambda store: store.change("one", lambda before: before),
    ],
    ids=["get", "page", "wait", "change"],
)
def test_who_sees_an_entry_of_a_dead_runner_sees_what_becomes_of_it(path, store, rarely, look):
    store.on_abandoned(buried)
    assert eventually(lambda: not store._nudge.is_set())  # the one round is over
    runner = of_the_dead(path, "one")
    heard = []
    store.listen(heard.append)
    found = look(store)
    assert (found.runner, found.state, found.version) == (None, {"n": 0, "buried": 1}, 2)
    assert look(store).version == 2
    assert runner not in (store.get("one").runner, store.runner)
    assert (found.id, 2) in [(e.id, e.version) for e in heard]


def test_a_change_of_an_abandoned_entry_comes_after_its_burial(path, store, rarely):
    store.on_abandoned(buried)
    of_the_dead(path, "one")
    seen = []

    def change(before):
        seen.append(before)
        return counted(before)

    found = store.change("one", change)
    assert (seen[0].runner, seen[0].version) == (None, 2)
    assert (found.state, found.version) == ({"n": 1, "buried": 1}, 3)


def test_a_change_of_an_abandoned_entry_that_raises_leaves_it_to_the_next(path, store, rarely):
    store.on_abandoned(buried)
    of_the_dead(path, "one")
    with pytest.raises(ZeroDivisionError):
        store.change("one", lambda before: 1 // 0)
    assert store.get("one").state == {"n": 0, "buried": 1}


def test_the_abandoned_that_no_one_asks_for_are_found(path, store):
    heard = []
    store.listen(lambda e: heard.append((e.id, e.state.get("buried"))))
    store.on_abandoned(buried)
    runner = of_the_dead(path, *map(str, range(2 * module.BATCH + 3)))
    start = time.monotonic()
    assert eventually(lambda: len([b for _, b in heard if b]) == 2 * module.BATCH + 3)
    assert time.monotonic() - start < PATIENCE / 2
    assert eventually(lambda: not path.with_name("tasks.db-runners").joinpath(runner).exists())
    assert store._one("SELECT count(*) FROM entries WHERE runner IS NOT NULL") == 0


def test_before_it_is_said_what_becomes_of_them_the_abandoned_stay(path, store):
    of_the_dead(path, "one")
    assert store.get("one").runner is not None
    store._bury_all()
    store.on_abandoned(buried)
    assert store.get("one").state["buried"] == 1


def test_the_abandoned_take_no_room_of_their_owner(path, store, rarely):
    store.on_abandoned(buried)
    of_the_dead(path, "one", "two")
    store.add(entry(store, "three"), most_live=2)
    assert [e.runner for e in store.page("owner", None, 9)] == [None, None, store.runner]


def test_an_entry_of_a_runner_without_a_file_is_abandoned(store):
    store.on_abandoned(buried)
    store.add(entry(store, "one", runner="0" * 32), most_live=9)
    store.add(entry(store, "two", runner="no runner at all"), most_live=9)
    assert eventually(lambda: store._one("SELECT count(*) FROM entries WHERE runner IS NOT NULL") == 0)
    assert store.get("one").state["buried"] == store.get("two").state["buried"] == 1


def test_what_a_closed_store_ran_is_abandoned(make_store):
    store, other = make_store(), make_store()
    store.on_abandoned(buried)
    other.add(entry(other), most_live=1)
    assert store.get("one").runner == other.runner
    other.close()
    assert eventually(lambda: store.get("one").runner is None)


def test_an_entry_that_cannot_be_buried_stays_and_the_others_do_not_wait_for_it(path, store, rarely, caplog):
    def bury(before):
        if before.id == "bad":
            raise LookupError("of its own")
        return buried(before)

    store.on_abandoned(bury)
    of_the_dead(path, "bad", "good")
    store._bury_all()
    assert store.get("good").state["buried"] == 1
    assert store.get("bad").version == 1
    assert "stays as it is" in caplog.text


def test_two_who_find_an_abandoned_entry_at_once_bury_it_once(path, make_store):
    names = [str(number) for number in range(200)]
    stores = [make_store() for _ in range(3)]
    of_the_dead(path, *names)
    barrier = threading.Barrier(3)

    def bury(each):
        each.on_abandoned(buried)
        barrier.wait(PATIENCE)
        for name in random.Random(each.runner).sample(names, len(names)):
            assert each.get(name).state["buried"] == 1

    threads = [threading.Thread(target=bury, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert {(e.state["buried"], e.version) for e in stores[0].page("owner", None, 999)} == {(1, 2)}


# -- processes that are killed ---------------------------------------------------------------------

NURSERY = """
import random

def work(number):
    # Says what has returned, and begins the next; `n` and the outcome must agree whenever it is killed.
    store = SqliteStore(path)
    for at in range(1_000_000):
        name = f"{number} {at}"
        store.add(entry(store, name, expires=time.time() + 3600), most_live=MANY)
        say("added", name)
        for n in range(at % 3):
            store.change(name, counted)
        if at % 4:
            text = f"{name} ".encode() * random.randint(1, 2_000)
            state = {"n": len(text)}
            store.change(name, lambda e: replace(e, runner=None, state=state, outcome=text))
            say("finished", name, len(text))

while line := wait_for_a_line():
    pid = os.fork()
    if not pid:
        work(line)
    say("pid", pid)
    os.waitpid(pid, 0)
    say("over")
"""


def test_whenever_a_process_is_killed_all_that_returned_is_there_and_nothing_by_halves(path, make_store):
    """Two others look after the dead at once; a third reads what became of them."""
    undertakers = [make_store(), make_store()]
    for each in undertakers:
        each.on_abandoned(buried)
    reader = make_store()
    chance = random.Random(12)
    total = 0
    with in_python(NURSERY, path) as nursery:
        for number in range(40):
            nursery.tell(str(number))
            lines = killed_in_work(nursery, chance.uniform(0.002, 0.05))
            added = {line.removeprefix("added ") for line in lines if line.startswith("added")}
            over = dict(
                line.removeprefix("finished ").rsplit(" ", 1) for line in lines if line.startswith("finished")
            )
            total += len(added)
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
            check_dead(reader, undertakers, str(number), added, over)
    assert total > 100


def killed_in_work(nursery, seconds):
    """What a worker had said when it was killed, so long after its first word."""
    lines, pid = [], None
    timer = None
    while (line := nursery.hear()) != "over":
        if line.startswith("pid"):
            pid = int(line.split()[1])
        else:
            lines.append(line)
        if pid and lines and timer is None:
            timer = threading.Timer(seconds, kill, (pid,))
            timer.start()
    timer.join()
    return lines


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def check_dead(reader, undertakers, number, added, over):
    """Each entry of a killed worker is what it said, or was abandoned, once."""
    for name in added:
        for each in undertakers:
            assert each.get(name) is not None, name
    there = [e.id for e in reader.page("owner", None, MANY) if e.id.split()[0] == number]
    assert added <= set(there)
    assert len(there) <= len(added) + 1  # one may have been added, and not said
    for name in there:
        found = undertakers[0].get(name)
        assert found.runner is None
        if found.outcome is None:
            assert name not in over
            assert found.state["buried"] == 1
            assert found.version == 2 + found.state["n"]
        else:
            assert "buried" not in found.state
            assert found.outcome == f"{name} ".encode() * (len(found.outcome) // len(f"{name} "))
            assert found.state == {"n": len(found.outcome)}
            assert over.get(name, str(len(found.outcome))) == str(len(found.outcome))
        assert reader.get(name) == found


# -- forks -----------------------------------------------------------------------------------------


def test_a_forked_child_is_another_runner_of_the_same_entries(path):
    """What listens, and what becomes of the abandoned, holds in the child from its first use on."""
    script = """
    from mcp_ref.runtime.stores import sqlite
    store = SqliteStore(path)
    store.on_abandoned(buried)
    heard = []
    store.listen(lambda e: heard.append(e.id))
    store.add(entry(store, "parent"), most_live=9)
    pid = os.fork()
    if not pid:
        signal.alarm(30)
        mine = entry(store, "child")
        assert mine.runner != store.get("parent").runner
        store.add(mine, most_live=9)
        say(*heard)
        say(*sorted(t.name for t in threading.enumerate()))
        wait_for_a_line()
        os._exit(0)
    while "child" not in heard:
        time.sleep(0.01)
    assert store.get("child").runner not in (None, store.runner)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while store.get("child").runner:
        time.sleep(0.01)
    say(store.get("parent").runner == store.runner, store.get("child").state["buried"])
    store.close()
    """
    with in_python(script, path) as other:
        assert other.hear() == "parent child"
        assert other.hear() == f"MainThread {THREAD}"
        assert other.hear() == "True 1"


def test_the_entries_of_a_killed_parent_are_abandoned_though_its_child_lives(path, store):
    script = """
    store = SqliteStore(path)
    store.add(entry(store, "parent"), most_live=9)
    if not os.fork():
        store.add(entry(store, "child"), most_live=9)
        say("ready", os.getpid())
        signal.alarm(60)
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
    """
    store.on_abandoned(buried)
    with in_python(script, path) as other:
        pid = int(other.hear().split()[1])
        other.kill()
        assert eventually(lambda: store.get("parent").runner is None)
        assert store.get("child").runner is not None
        kill(pid)
        assert eventually(lambda: store.get("child").runner is None)


def test_what_the_hook_does_in_this_process(store):
    store.on_abandoned(buried)
    store.add(entry(store), most_live=1)
    runner, thread = store.runner, store._thread
    store.forked()  # its own thread goes on here, which a child would not have: it is ended first
    assert store.runner != runner
    assert store.get("one").state["buried"] == 1
    assert store._thread not in (None, thread)
    store.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()


# -- the thread ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.listen(print),
        lambda store: store.wait("one", 1, 0.01),
        lambda store: store.on_abandoned(buried),
    ],
    ids=["listen", "wait", "on_abandoned"],
)
def test_there_is_one_thread_from_the_first_who_needs_it_to_the_end(store, use):
    before = set(threading.enumerate())  # stores of other tests may have theirs still

    def threads():
        return [t for t in threading.enumerate() if t.name == THREAD and t not in before]

    store.add(entry(store), most_live=1)
    store.get("one")
    store.change("one", counted)
    assert threads() == []
    use(store)
    use(store)
    (thread,) = threads()
    assert thread.daemon
    store.close()
    assert not thread.is_alive()


def test_what_listens_may_close_the_store(make_store):
    store, other = make_store(), make_store()
    store.listen(lambda e: store.close())
    other.add(entry(other), most_live=1)
    assert eventually(lambda: store._is_closed and not store._thread.is_alive())


def test_what_has_expired_leaves_the_file(store):
    store.on_abandoned(buried)
    for number in range(module.BATCH + 3):
        store.add(entry(store, str(number), expires=time.time() + 0.01), most_live=MANY)
    store.add(entry(store, "stays", expires=time.time() + 600), most_live=MANY)
    assert eventually(lambda: rows(store) == 1)
    assert store._one("SELECT entries FROM totals") == 1


def test_the_thread_says_once_what_is_wrong_and_goes_on(path, make_store, caplog):
    store = make_store()
    heard = []
    store.listen(lambda e: heard.append(e.id))
    away = path.with_name("away.db")
    with caplog.at_level(logging.WARNING, "mcp_ref.stores"):
        path.rename(away)
        assert eventually(lambda: "is gone: put it back" in caplog.text)
        with pytest.raises(StoreError, match="is gone"):
            store.get("one")
        away.rename(path)
        other = make_store()
        other.add(entry(other), most_live=1)
        assert eventually(lambda: heard == ["one"])
    assert caplog.text.count("is gone: put it back") == 1
    assert store.get("one") is not None


def test_an_error_that_no_one_expects_does_not_end_the_thread(make_store, monkeypatch, caplog):
    store, other = make_store(), make_store()
    hear, failures = store._hear, []

    def fail_once():
        if not failures:
            failures.append(1)
            raise LookupError("a bug")
        hear()

    monkeypatch.setattr(store, "_hear", fail_once)
    heard = []
    store.listen(lambda e: heard.append(e.id))
    assert eventually(lambda: "failed, and goes on" in caplog.text)
    other.add(entry(other), most_live=1)
    assert eventually(lambda: heard == ["one"])


def test_a_store_that_another_process_keeps_locked_says_so_and_works_again(path, store, monkeypatch):
    monkeypatch.setattr(database, "LOCKED_SECONDS", 0.1)
    script = """
    import sqlite3
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("locked")
    wait_for_a_line()
    connection.execute("COMMIT")
    say("free")
    """
    store.add(entry(store), most_live=1)
    with in_python(script, path) as other:
        assert other.hear() == "locked"
        for write in (
            lambda: store.add(entry(store, "two"), most_live=9),
            lambda: store.change("one", counted),
        ):
            with pytest.raises(StoreError, match="other processes have kept"):
                write()
        assert store.get("one").version == 1
        other.tell()
        assert other.hear() == "free"
    assert store.change("one", counted).version == 2
    assert store.get("two") is None


def test_a_full_disk_is_no_reason_to_forget_what_was_added(path):
    script = """
    import resource
    store = SqliteStore(path)
    store.on_abandoned(buried)
    limit = os.path.getsize(path + "-wal") + 1_000_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    added = []
    try:
        for number in range(10_000):
            store.add(entry(store, str(number)), most_live=MANY)
            added.append(str(number))
    except StoreError as error:
        say(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
    try:
        store.change("0", finished)
    except StoreError as error:
        say(error)
    found = [e.id for e in store.page("owner", None, MANY)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    say(len(added) > 5, sorted(found) == sorted(added))
    say(store.get("0").version, store.change("0", finished).version)
    store.close()
    """
    with in_python(script, path) as other:
        for _ in range(2):
            assert other.hear().startswith(f"{path} cannot be read or written: is the disk full")
        assert other.hear() == "True True"
        assert other.hear() == "1 2"
        other.end()


def test_the_limit_of_all_holds_for_entries_of_every_owner(make_store):
    store = make_store(most=2)
    for number in range(2):
        store.add(entry(store, str(number), owner=None, runner=None), most_live=1)
    with pytest.raises(StoreFull, match="the store has 2 entries"):
        store.add(Entry("three", "owner", 1.0, None, None, {}), most_live=1)
