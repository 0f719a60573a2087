"""runtime/stores/store: what every store promises, of each store that there is."""

import tempfile
import threading
import time
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from peers import PATIENCE, eventually, nothing_left
from store_peers import buried, counted, entry, finished

from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.stores import changes, memory, sqlite
from mcp_ref.runtime.stores.memory import MemoryStore
from mcp_ref.runtime.stores.sqlite import SqliteStore
from mcp_ref.runtime.stores.store import Entry, StoreError, StoreFull


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request, tmp_path):
    """A function that makes a store; all are closed afterwards, and leave nothing behind."""
    made = []

    def make(**options):
        if request.param == "memory":
            made.append(MemoryStore(**options))
        else:
            made.append(SqliteStore(tmp_path / f"{len(made)}.db", **options))
        return made[-1]

    with nothing_left():
        yield make
        for store in made:
            store.close()


@pytest.fixture
def store(make_store):
    return make_store()


def ids(entries):
    return [each.id for each in entries]


# -- entries ---------------------------------------------------------------------------------------


def test_what_is_added_is_there_and_comes_back_as_it_was(store):
    added = entry(store, "one", expires=time.time() + 60, state={"words": ["ü", "\ud800", None, 1.5]})
    store.add(added, most_live=1)
    assert store.get("one") == added
    assert store.get("two") is None


def test_an_entry_does_not_change_but_is_replaced(store):
    with pytest.raises(FrozenInstanceError):
        entry(store).version = 2


def test_a_change_counts_the_versions_and_returns_what_is_there_from_now_on(store):
    store.add(entry(store), most_live=1)
    changed = store.change("one", counted)
    assert (changed.state, changed.version) == ({"n": 1}, 2)
    assert store.get("one") == changed
    over = store.change("one", finished)
    assert (over.runner, over.outcome, over.version) == (None, b"the end", 3)
    assert store.get("one") == over


def test_a_change_that_returns_the_same_entry_writes_nothing(store):
    store.add(entry(store), most_live=1)
    heard = []
    end = store.listen(heard.append)
    assert store.change("one", lambda before: before).version == 1
    assert store.get("one").version == 1
    assert heard == []
    end()


def test_a_change_of_nothing_is_nothing(store):
    assert store.change("one", counted) is None


def test_what_a_change_raises_is_raised_and_nothing_is_changed(store):
    store.add(entry(store), most_live=1)

    def fail(before):
        raise LookupError("of its own")

    with pytest.raises(LookupError, match="of its own"):
        store.change("one", fail)
    assert store.get("one").version == 1
    assert store.change("one", counted).version == 2


@pytest.mark.parametrize("field", [{"id": "two"}, {"owner": "another"}, {"created": 1.0}])
def test_a_change_keeps_what_an_entry_is_found_by(store, field):
    store.add(entry(store), most_live=1)
    with pytest.raises(ValueError, match="keeps the id"):
        store.change("one", lambda before: replace(before, **field))
    assert store.get("one").version == 1


def test_an_id_is_used_once(store):
    store.add(entry(store), most_live=5)
    with pytest.raises(ValueError, match="that of another"):
        store.add(entry(store, owner="another"), most_live=5)
    assert store.get("one").owner == "owner"


def test_changes_of_many_threads_are_all_made(store):
    store.add(entry(store), most_live=1)

    def work():
        for _ in range(100):
            store.change("one", counted)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert store.get("one").state == {"n": 400}
    assert store.get("one").version == 401


@pytest.mark.parametrize("entry_id", ["", "\ud800", "\x00", "' OR 1=1 --", "x" * 100_000])
def test_an_id_of_a_stranger_is_an_unknown_one(store, entry_id):
    store.add(entry(store), most_live=1)
    assert store.get(entry_id) is None
    assert store.change(entry_id, counted) is None
    assert store.wait(entry_id, 1, 5) is None
    assert store.page(entry_id, (0.0, entry_id), 5) == []


# -- limits ----------------------------------------------------------------------------------------


def test_an_owner_has_so_many_entries_under_way_and_others_have_their_own(store):
    for number in range(3):
        store.add(entry(store, str(number)), most_live=3)
    with pytest.raises(StoreFull, match="3 are under way"):
        store.add(entry(store, "more"), most_live=3)
    assert store.get("more") is None
    store.add(entry(store, "of another", owner="another"), most_live=3)
    store.add(entry(store, "of none", owner=None), most_live=3)
    store.change("1", finished)
    store.add(entry(store, "more"), most_live=3)
    assert store.get("more") is not None


def test_entries_that_are_over_are_not_under_way(store):
    for number in range(5):
        store.add(entry(store, str(number), runner=None), most_live=1)
    store.add(entry(store), most_live=1)


def test_a_store_has_so_many_entries_in_all(make_store):
    store = make_store(most=3)
    for number in range(3):
        store.add(entry(store, str(number), owner=str(number)), most_live=1)
    with pytest.raises(StoreFull, match="3 entries"):
        store.add(entry(store, "more"), most_live=1)


def test_what_has_expired_takes_no_room(make_store):
    store = make_store(most=6)
    soon = time.time() + 0.1
    for number in range(6):
        store.add(entry(store, str(number), owner=str(number % 2), expires=soon), most_live=3)
    assert eventually(lambda: time.time() > soon)
    for number in range(6):
        store.add(entry(store, f"new {number}", owner=str(number % 2)), most_live=3)


def test_one_owner_has_half_of_the_entries_at_most_and_those_that_are_over_count(make_store):
    store = make_store(most=7)
    for number in range(3):
        store.add(entry(store, str(number)), most_live=1)
        store.change(str(number), finished)
    with pytest.raises(StoreFull, match="one owner has 3 of the 7 entries"):
        store.add(entry(store, "more"), most_live=1)
    with pytest.raises(ValueError, match="that of another one"):
        store.add(entry(store, "1"), most_live=1)
    for number in range(3):
        store.add(entry(store, f"of another {number}", owner="another"), most_live=5)
    store.add(entry(store, "of a third", owner="third"), most_live=1)
    with pytest.raises(StoreFull, match="the store has 7 entries"):
        store.add(entry(store, "of a fourth", owner="fourth"), most_live=1)


def test_where_owners_are_not_told_apart_they_have_the_whole_store(make_store):
    store = make_store(most=4)
    for number in range(4):
        store.add(entry(store, str(number), owner=None), most_live=4)
    with pytest.raises(StoreFull, match="the store has 4 entries"):
        store.add(entry(store, "more", owner=None), most_live=5)


def test_a_share_is_never_nothing(make_store):
    store = make_store(most=1)
    store.add(entry(store), most_live=1)
    assert store.get("one") is not None


def full(store, owner):
    """The error that tells an owner that there is no room."""
    with pytest.raises(StoreFull) as told:
        store.add(entry(store, "more", owner=owner), most_live=1)
    return told.value


@pytest.mark.parametrize("owner", ["owner", "another"])
def test_who_finds_no_room_is_told_when_the_first_entry_in_the_way_expires(make_store, owner):
    """For an owner that has its share that is one of its own; for others, it is one of anybody's."""
    store, now = make_store(most=4), time.time()
    lives = {"0": ("owner", 300), "1": ("owner", 200), "2": ("third", 100), "3": ("third", None)}
    for entry_id, (whose, life) in lives.items():
        if owner == "owner" and whose == "third":
            continue  # it has its share before the store is full
        expires = None if life is None else now + life
        store.add(entry(store, entry_id, owner=whose, runner=None, expires=expires), most_live=1)
    assert full(store, owner).seconds == pytest.approx({"owner": 200, "another": 100}[owner], abs=20)
    moved = {"owner": "1", "another": "2"}[owner]
    store.change(moved, lambda before: replace(before, expires=now + 250))
    assert full(store, owner).seconds == pytest.approx({"owner": 250, "another": 200}[owner], abs=20)


@pytest.mark.parametrize("owner", [None, "owner"])
def test_who_finds_no_room_for_ever_is_told_to_come_back_within_a_day(make_store, owner):
    store = make_store(most=2)
    for number in range(1 if owner else 2):
        store.add(entry(store, str(number), owner=owner, runner=None), most_live=1)
    assert full(store, owner).seconds == 86_400


def test_what_is_under_way_may_end_at_any_time_and_so_it_is_worth_a_try_soon(store):
    store.add(entry(store, expires=time.time() + 3600), most_live=1)
    assert full(store, "owner").seconds == 1


@pytest.mark.parametrize(("given", "told"), [(-5, 1), (0.5, 1), (1.5, 1.5), (1e9, 86_400), (None, 86_400)])
def test_the_time_to_come_back_is_a_second_at_least_and_a_day_at_most(given, told):
    assert StoreFull("no room", given).seconds == told


def test_errors_of_stores_are_local_ones():
    assert issubclass(StoreFull, StoreError)
    assert issubclass(StoreError, LocalError)


# -- expiry ----------------------------------------------------------------------------------------


def test_what_has_expired_is_seen_no_more(store):
    soon = time.time() + 0.05
    store.add(entry(store, expires=soon), most_live=1)
    assert eventually(lambda: time.time() >= soon)
    assert store.get("one") is None
    assert store.page("owner", None, 5) == []
    assert store.change("one", counted) is None
    assert store.wait("one", 1, 0) is None


def test_a_change_may_move_the_time_of_expiry_both_ways(store, monkeypatch):
    store.add(entry(store, "one", expires=time.time() + 60), most_live=5)
    store.add(entry(store, "two", expires=time.time() + 60), most_live=5)
    store.change("one", lambda before: replace(before, expires=None))
    store.change("two", lambda before: replace(before, expires=time.time() - 1))
    assert store.get("two") is None
    clock = SimpleNamespace(time=lambda: time.time() + 120, monotonic=time.monotonic, sleep=time.sleep)
    for each in (memory, sqlite, changes):
        monkeypatch.setattr(each, "time", clock)
    assert store.get("one") is not None


# -- pages -----------------------------------------------------------------------------------------


def test_pages_are_in_the_order_of_creation_and_follow_each_other(store):
    for number in (3, 1, 2, 0, 4):
        store.add(entry(store, f"id {number}", created=100.0 + number // 2), most_live=9)
    store.add(entry(store, "foreign", owner="another", created=100.0), most_live=9)
    seen, after = [], None
    while found := store.page("owner", after, 2):
        seen += ids(found)
        after = (found[-1].created, found[-1].id)
    assert seen == [f"id {number}" for number in range(5)]
    assert ids(store.page("another", None, 9)) == ["foreign"]
    assert store.page("unknown", None, 9) == []


def test_entries_without_an_owner_are_a_page_of_their_own(store):
    store.add(entry(store, "one", owner=None), most_live=9)
    store.add(entry(store, "two", owner=""), most_live=9)
    assert ids(store.page(None, None, 9)) == ["one"]
    assert ids(store.page("", None, 9)) == ["two"]


def test_a_page_has_no_outcomes(store):
    store.add(entry(store), most_live=9)
    over = store.change("one", finished)
    assert store.page("owner", None, 9) == [replace(over, outcome=None)]


def test_a_page_may_begin_after_an_entry_that_is_gone(store):
    soon = time.time() + 0.05
    for number in range(4):
        store.add(
            entry(store, str(number), created=float(number), expires=soon if number == 1 else None),
            most_live=9,
        )
    assert eventually(lambda: store.get("1") is None)
    assert ids(store.page("owner", (1.0, "1"), 9)) == ["2", "3"]


# -- waits -----------------------------------------------------------------------------------------


def in_thread(run):
    """The result of a call that another thread makes, once it is there."""
    results, done = [], threading.Event()

    def work():
        try:
            results.append(run())
        except Exception as problem:
            results.append(problem)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()

    def result():
        assert done.wait(PATIENCE)
        thread.join(PATIENCE)
        return results[0]

    return result


def waiting(store, version=1, seconds=PATIENCE):
    """A thread that waits for a change of "one", and does so by now."""
    result = in_thread(lambda: store.wait("one", version, seconds))
    assert eventually(lambda: "one" in store._changes._waiting)
    return result


def test_a_wait_ends_with_the_change(store):
    store.add(entry(store), most_live=1)
    results = [waiting(store) for _ in range(3)]
    changed = store.change("one", counted)
    assert [result() for result in results] == [changed] * 3
    assert store._changes._waiting == {}


def test_a_wait_for_what_has_changed_already_returns_at_once(store):
    store.add(entry(store), most_live=1)
    changed = store.change("one", counted)
    assert store.wait("one", 1, PATIENCE) == changed


def test_a_wait_ends_when_its_time_is_over(store):
    store.add(entry(store), most_live=1)
    start = time.monotonic()
    assert store.wait("one", 1, 0.05).version == 1
    assert 0.05 <= time.monotonic() - start < PATIENCE


def test_a_wait_ends_when_the_entry_expires(store):
    store.add(entry(store, expires=time.time() + 0.1), most_live=1)
    start = time.monotonic()
    assert store.wait("one", 1, PATIENCE) is None
    assert time.monotonic() - start < PATIENCE / 2


def test_changes_of_others_do_not_end_a_wait(store):
    store.add(entry(store, "one"), most_live=9)
    store.add(entry(store, "two"), most_live=9)
    result = waiting(store)
    store.change("two", counted)
    store.change("one", counted)
    assert result().id == "one"


def test_the_end_of_the_store_is_the_end_of_a_wait(store):
    store.add(entry(store), most_live=1)
    result = waiting(store, seconds=float("inf"))
    store.close()
    assert isinstance(result(), StoreError)


# -- listeners -------------------------------------------------------------------------------------


def test_each_addition_and_change_is_heard_of_on_the_thread_that_makes_it(store):
    heard = []
    end = store.listen(lambda each: heard.append((each, threading.current_thread())))
    added = entry(store)
    store.add(added, most_live=1)
    changed = store.change("one", finished)
    assert heard == [(added, threading.current_thread()), (changed, threading.current_thread())]
    end()
    end()
    store.add(entry(store, "two"), most_live=1)
    assert len(heard) == 2


def test_what_listens_may_use_the_store(store):
    seen = []
    store.listen(lambda each: seen.append(store.get(each.id)))
    store.add(entry(store), most_live=1)
    assert ids(seen) == ["one"]


def test_a_listener_that_fails_is_logged_and_the_others_hear(store, caplog):
    def fail(each):
        raise LookupError("of its own")

    heard = []
    store.listen(fail)
    store.listen(heard.append)
    store.add(entry(store), most_live=1)
    assert ids(heard) == ["one"]
    assert "a listener to the changes of a store failed" in caplog.text


def test_who_listens_twice_hears_twice_and_ends_each(store):
    heard = []
    first, second = store.listen(heard.append), store.listen(heard.append)
    store.add(entry(store), most_live=1)
    assert len(heard) == 2
    first()
    store.change("one", counted)
    assert len(heard) == 3
    second()
    store.change("one", counted)
    assert len(heard) == 3


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.add(entry(store), most_live=1),
        lambda store: store.get("one"),
        lambda store: store.change("one", counted),
        lambda store: store.page(None, None, 1),
        lambda store: store.wait("one", 1, 1),
        lambda store: store.listen(print),
        lambda store: store.on_abandoned(buried),
    ],
)
def test_a_closed_store_says_so_and_may_be_closed_again(store, use):
    store.add(entry(store, expires=time.time() + 60), most_live=1)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        use(store)


# -- both, compared with a model -------------------------------------------------------------------

OWNERS = st.sampled_from([None, "", "a", "b"])
IDS = st.sampled_from([f"id {number}" for number in range(12)])
LIFE = st.sampled_from([None, 1, 5, 30])
MOST, MOST_LIVE = 6, 2


class Model(RuleBasedStateMachine):
    """A dict, and both stores, which must say the same. Time is what the test says."""

    @initialize()
    def begin(self):
        self.now = 1_000.0
        self.folder = tempfile.TemporaryDirectory()
        clock = SimpleNamespace(time=lambda: self.now, monotonic=time.monotonic, sleep=time.sleep)
        self.patches = [mock.patch.object(module, "time", clock) for module in (memory, sqlite, changes)]
        for patch in self.patches:
            patch.start()
        self.model = {}
        self.stores = [
            MemoryStore(most=MOST),
            SqliteStore(f"{self.folder.name}/tasks.db", most=MOST),
        ]

    def teardown(self):
        for store in self.stores:
            store.close()
        for patch in self.patches:
            patch.stop()
        self.folder.cleanup()

    def there(self):
        for each in list(self.model.values()):
            if each.expires is not None and each.expires <= self.now:
                del self.model[each.id]
        return self.model

    def both(self, use):
        """What both stores do: the entry, without the name of its runner, or the kind of error."""
        said = []
        for store in self.stores:
            try:
                said.append(self.as_model(use(store)))
            except (StoreFull, ValueError) as problem:
                said.append(type(problem))
        assert said[0] == said[1]
        return said[0]

    def as_model(self, found):
        if isinstance(found, list):
            return [self.as_model(each) for each in found]
        return replace(found, runner="me") if isinstance(found, Entry) and found.runner else found

    @rule(entry_id=IDS, owner=OWNERS, life=LIFE, is_live=st.booleans(), earlier=st.integers(0, 3))
    def add(self, entry_id, owner, life, is_live, earlier):
        expires = None if life is None else self.now + life
        made = Entry(entry_id, owner, self.now - earlier, expires, "me" if is_live else None, {"n": 0})
        there = self.there()
        owned = [each for each in there.values() if each.owner == owner]
        live = [each for each in owned if each.runner]
        expected = None
        if entry_id in there:
            expected = ValueError
        elif (
            len(there) >= MOST
            or (is_live and len(live) >= MOST_LIVE)
            or (owner is not None and len(owned) >= MOST // 2)
        ):
            expected = StoreFull
        else:
            there[entry_id] = made
        said = self.both(
            lambda s: s.add(replace(made, runner=s.runner if is_live else None), most_live=MOST_LIVE)
        )
        assert said == expected

    @rule(entry_id=IDS, life=LIFE, end=st.booleans(), fails=st.booleans())
    def change(self, entry_id, life, end, fails):
        def make(before):
            if fails:
                raise ValueError
            made = replace(counted(before), expires=None if life is None else self.now + life)
            return finished(made) if end else made

        before = self.there().get(entry_id)
        expected = None
        if before is not None and fails:
            expected = ValueError
        elif before is not None:
            expected = replace(make(before), version=before.version + 1)
            self.model[entry_id] = expected
        assert self.both(lambda s: s.change(entry_id, make)) == expected

    @rule(entry_id=IDS)
    def get(self, entry_id):
        assert self.both(lambda s: s.get(entry_id)) == self.there().get(entry_id)

    @rule(entry_id=IDS, version=st.integers(1, 3))
    def wait(self, entry_id, version):
        assert self.both(lambda s: s.wait(entry_id, version, 0)) == self.there().get(entry_id)

    @rule(owner=OWNERS, after=st.none() | st.tuples(st.integers(990, 1_100), IDS), count=st.integers(1, 5))
    def page(self, owner, after, count):
        found = sorted(
            (e for e in self.there().values() if e.owner == owner), key=lambda e: (e.created, e.id)
        )
        expected = [replace(e, outcome=None) for e in found if after is None or (e.created, e.id) > after]
        assert self.both(lambda s: s.page(owner, after, count)) == expected[:count]

    @precondition(lambda self: self.now < 1_100)
    @rule(seconds=st.sampled_from([0.5, 1, 7]))
    def time_passes(self, seconds):
        self.now += seconds


Model.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
test_both_stores_do_what_a_dict_would = Model.TestCase
