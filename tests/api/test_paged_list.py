"""Shelf: named things in order, and the pages of their list (page: server/index)."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from peers import MODERN, PATIENCE, REVISIONS, nothing_left

from mcp_ref import Server, connect
from mcp_ref.api.paged_list import Kept, Shelf
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.basic.versioning import revision
from mcp_ref.server.utilities import pagination

AT = revision(MODERN)


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


class Thing:
    """Something with a name."""

    def __init__(self, name, value=0):
        self.name, self.value = name, value


def shelf(page_size=3, changed=lambda: None):
    return Shelf(
        "things/list",
        "things",
        lambda thing: thing.name,
        lambda thing, date: {"name": thing.name, "value": thing.value, "date": date},
        page_size,
        changed,
    )


def names(kept):
    return [thing["name"] for thing in kept["things"]]


def walk(things, at=AT):
    """The names on each page, as a client gets them."""
    pages, cursor = [], None
    while True:
        page = things.page(at, cursor)
        pages.append(names(page))
        cursor = page.get("nextCursor")
        if cursor is None:
            return pages


# -- items -----------------------------------------------------------------------------------------


def test_an_item_is_found_by_its_very_name():
    things = shelf()
    thing = Thing("a")
    things.add(thing)
    assert things.get("a") is thing
    assert things.get("A") is None
    assert things.keys() == ["a"]
    assert things.values() == [thing]


@pytest.mark.spec("server/tools/name-unique")
def test_a_name_is_given_once_unless_it_is_to_be_replaced():
    things = shelf()
    for name in "abc":
        things.add(Thing(name))
    with pytest.raises(ValueError, match=r"'b' is among the things already; pass replace=True"):
        things.add(Thing("b", 1))
    assert things.get("b").value == 0
    things.add(Thing("b", 1), replace=True)
    things.add(Thing("d"), replace=True)  # there is nothing to replace: no error
    assert things.keys() == ["a", "b", "c", "d"]
    assert things.get("b").value == 1


def test_what_is_not_there_cannot_be_removed():
    things = shelf()
    things.add(Thing("a"))
    with pytest.raises(KeyError, match="no 'b' among the things"):
        things.remove("b")
    things.remove("a")
    with pytest.raises(KeyError):
        things.remove("a")


def test_a_shelf_was_used_though_it_is_empty_again():
    things = shelf()
    assert not things.used
    things.change([], ["x"])
    assert not things.used
    things.add(Thing("a"))
    things.remove("a")
    assert things.used
    assert things.keys() == []


def test_each_change_is_announced_once_and_after_it_can_be_seen():
    seen = []
    things = shelf(changed=lambda: seen.append(things.keys()))
    things.add(Thing("a"))
    things.add(Thing("a"), replace=True)
    things.change([Thing("b"), Thing("c")], ["a", "nobody"])
    things.remove("c")
    assert seen == [["a"], ["a"], ["b", "c"], ["b"]]
    for fails in (lambda: things.add(Thing("b")), lambda: things.remove("x")):
        with pytest.raises((ValueError, KeyError)):
            fails()
    assert len(seen) == 4


def test_many_changes_at_once_are_one():
    announced = []
    things = shelf(changed=lambda: announced.append(1))
    things.change((Thing(name) for name in "abcd"), iter(()))
    assert things.keys() == ["a", "b", "c", "d"]
    things.change([Thing("b", 1), Thing("e"), Thing("a", 1)], ["a", "c", "c", "zzz"])
    assert things.keys() == ["b", "d", "e", "a"]  # replaced in its place; removed and added is the last
    assert [thing.value for thing in things.values()] == [1, 0, 0, 1]
    assert len(announced) == 2
    things.change([], ["zzz", "yyy"])
    things.change([], [])
    assert len(announced) == 2


def test_of_many_changes_clients_are_told_if_names_came_or_went():
    """Not of a file that grew: its definition is another one, the list is the same."""
    announced = []
    things = shelf(changed=lambda: announced.append(1))
    things.add(Thing("a"))
    first = things.page(AT, None)
    things.change([Thing("a", 1)], [])
    assert len(announced) == 1
    assert first["things"][0]["value"] == 0
    assert things.page(AT, None)["things"][0]["value"] == 1
    things.change([Thing("b")], ["a"])
    assert len(announced) == 2


# -- pages -----------------------------------------------------------------------------------------


@pytest.mark.spec("server/tools/list-paginated", "server/tools/list-deterministic-order")
@pytest.mark.parametrize("size", [1, 2, 3, 10, 11])
def test_the_pages_of_a_list_have_each_item_once_in_order(size):
    things = shelf(size)
    wanted = [str(n) for n in range(10)]
    for name in wanted:
        things.add(Thing(name))
    pages = walk(things)
    assert [name for page in pages for name in page] == wanted
    assert {len(page) for page in pages[:-1]} <= {size}
    assert pages == walk(things)


def test_an_empty_list_is_one_page_without_a_cursor():
    assert shelf().page(AT, None) == {"things": []}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_page_is_the_same_object_until_something_changes(date):
    """And so what it looks like on the wire is worked out once."""
    things, at = shelf(), revision(date)
    for name in "abcde":
        things.add(Thing(name))
    first = things.page(at, None)
    assert isinstance(first, Kept)
    assert first.encoded == {}
    assert first["things"][0]["date"] == date
    second = things.page(at, first["nextCursor"])
    assert names(second) == ["d", "e"]
    assert things.page(at, None) is first
    assert things.page(at, first["nextCursor"]) is second
    others = [things.page(revision(other), None) for other in REVISIONS if other != date]
    assert not any(other is first for other in others)
    things.add(Thing("f"))
    assert things.page(at, None) is not first
    assert names(things.page(at, first["nextCursor"])) == ["d", "e", "f"]


def test_nothing_is_left_out_or_comes_twice_while_items_come_and_go():
    things = shelf(2)
    for name in "abcdef":
        things.add(Thing(name))
    first = things.page(AT, None)
    assert names(first) == ["a", "b"]
    things.change([Thing("g")], ["a", "b", "d"])
    second = things.page(AT, first["nextCursor"])
    assert names(second) == ["c", "e"]
    things.remove("f")
    assert names(things.page(AT, second["nextCursor"])) == ["g"]
    things.change([], ["c", "e", "g"])
    assert things.page(AT, second["nextCursor"]) == {"things": []}


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "é", "[1]", "a" * 100_000])
def test_a_cursor_of_nobody_is_refused(cursor):
    things = shelf()
    things.add(Thing("a"))
    with pytest.raises(InvalidParams, match="things/list: this cursor"):
        things.page(AT, cursor)


def test_cursors_that_somebody_made_up_fill_no_memory():
    """Their checksum is no secret: a client may ask for a page from each item on."""
    things = shelf(100)
    things.change([Thing(str(n)) for n in range(1000)], [])
    for n in range(1000):
        page = things.page(AT, pagination._write("things/list", n))
        assert len(page["things"]) == min(100, 1000 - n)
    assert sum(len(page["things"]) for page in things._pages.values()) <= 1000
    assert len(walk(things)) == 10


class Shelves(RuleBasedStateMachine):
    """Whatever is done to it, a shelf is a dict that remembers its order."""

    def __init__(self):
        super().__init__()
        self.announced = 0
        self.things = shelf(2, self.announce)
        self.expected = {}

    def announce(self):
        self.announced += 1

    @rule(name=st.sampled_from("abcdef"), value=st.integers(0, 3))
    def replace(self, name, value):
        self.things.add(Thing(name, value), replace=True)
        self.expected[name] = value

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def remove(self, data):
        name = data.draw(st.sampled_from(sorted(self.expected)))
        self.things.remove(name)
        del self.expected[name]

    @rule(added=st.lists(st.sampled_from("abcdef")), removed=st.lists(st.sampled_from("abcdef")))
    def change(self, added, removed):
        before, names = self.announced, set(self.expected)
        self.things.change([Thing(name, 9) for name in added], removed)
        for name in set(removed):
            self.expected.pop(name, None)
        self.expected.update(dict.fromkeys(added, 9))
        assert self.announced == before + (names != set(self.expected))

    @invariant()
    def is_the_dict(self):
        assert {thing.name: thing.value for thing in self.things.values()} == self.expected
        assert self.things.keys() == list(self.expected)
        assert [name for page in walk(self.things) for name in page] == list(self.expected)


Shelves.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestShelves = Shelves.TestCase


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5), st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=20))
def test_a_walk_that_others_interrupt_sees_all_that_stays_once(size, changes):
    things = shelf(size)
    things.change([Thing(str(n)) for n in range(10)], [])
    removed, changing = set(), iter(changes)
    seen, cursor = [], None
    while True:
        page = things.page(AT, cursor)
        seen += names(page)
        cursor = page.get("nextCursor")
        if cursor is None:
            break
        for _ in range(2):
            add, n = next(changing, (False, None))
            if n is not None and add:
                things.add(Thing(str(n)), replace=True)
            elif n is not None:
                things.change([], [str(n)])
                removed.add(str(n))
    stayed = [str(n) for n in range(10) if str(n) not in removed]
    assert [name for name in seen if name in stayed] == stayed


# -- a server's lists ------------------------------------------------------------------------------


def returning(value):
    return lambda: value


def listed(client):
    return [tool["name"] for tool in client.list_tools()]


def tools(*names, **options):
    server = Server("tools", **options)
    for name in names:
        server.add_tool(returning(name), name=name)
    return server


@pytest.mark.spec("server/tools/list-deterministic-order", "server/tools/list-answered")
@pytest.mark.parametrize("date", REVISIONS)
def test_the_order_is_that_in_which_tools_were_added(date):
    names = ["zeta", "alpha", "mid", "Alpha", "beta"]
    with connect(tools(*names), revision=date) as client:
        for _ in range(3):
            assert listed(client) == names


def test_a_replaced_tool_keeps_its_place_and_a_removed_one_comes_back_last():
    server = tools("a", "b", "c")
    with connect(server) as client:
        server.add_tool(lambda: "new", name="b", description="new", replace=True)
        assert listed(client) == ["a", "b", "c"]
        assert client.call_tool("b").text == "new"
        server.remove_tool("a")
        assert listed(client) == ["b", "c"]
        server.add_tool(lambda: "again", name="a")
        assert listed(client) == ["b", "c", "a"]


@pytest.mark.spec("server/tools/name-case-sensitive")
def test_names_differ_by_case():
    server = Server("case")
    server.add_tool(lambda: "small", name="a")
    server.add_tool(lambda: "large", name="A")
    with connect(server) as client:
        assert client.call_tool("a").text == "small"
        assert client.call_tool("A").text == "large"


@pytest.mark.spec("server/tools/list-empty-or-changing", "server/tools/list-may-change")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_list_may_become_empty(date):
    server = tools("a")
    with connect(server, revision=date) as client:
        server.remove_tool("a")
        assert client.list_tools() == []


@pytest.mark.spec("server/tools/list-not-per-connection")
def test_every_client_sees_the_same_list_whatever_others_do():
    server = tools("a", "b", page_size=1)
    with connect(server, revision=MODERN) as one, connect(server, revision=MODERN) as other:
        next(one.pages("tools/list"))
        one.call_tool("a")
        assert one.list_tools() == other.list_tools()


def test_many_threads_may_change_the_table_while_it_is_read():
    server = tools("kept", page_size=3)
    with connect(server) as client:

        def change(who):
            for n in range(40):
                server.add_tool(lambda: None, name=f"{who}-{n}")
                server.remove_tool(f"{who}-{n}")

        threads = [threading.Thread(target=change, args=(who,)) for who in "abcd"]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert "kept" in listed(client)
        for thread in threads:
            thread.join(PATIENCE)
        assert listed(client) == ["kept"]
