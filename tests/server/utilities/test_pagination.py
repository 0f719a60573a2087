"""server/utilities/pagination: cursors that stay good, and clients that find the end."""

import base64
import json
import threading
import zlib

import pytest
from choices import for_server
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from peers import MODERN, PATIENCE, REVISIONS, Notes, nothing_left, raw_server

from mcp_ref import Caching, ClientOptions, ErrorResponse, InvalidResponse, Server, ServerOptions, connect
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.basic.versioning import revision
from mcp_ref.server.tools import Tool
from mcp_ref.server.utilities import pagination
from mcp_ref.server.utilities.pagination import EncodedPage, PagedList

KIND = "tools/list"


def numbered(count: int, page_size: int) -> Server:
    server = Server("pages", page_size=page_size)
    for number in range(count):
        server.add_tool(lambda: None, name=f"t{number}")
    return server


def names(page: dict) -> list[str]:
    return [tool["name"] for tool in page["tools"]]


def forged(note: bytes) -> str:
    """A cursor with a right checksum and any content: the checksum is no secret."""
    return base64.urlsafe_b64encode(zlib.crc32(note).to_bytes(4, "big") + note).decode("ascii")


# -- server ---------------------------------------------------------------------------------


@pytest.mark.spec(
    "server/utilities/pagination/next-cursor-optional",
    "server/utilities/pagination/missing-cursor-is-end",
    "server/utilities/pagination/page-size-by-server",
    "server/tools/list-paginated",
)
@pytest.mark.parametrize("date", REVISIONS)
def test_a_long_list_comes_in_pages_and_only_the_last_has_no_cursor(date):
    with connect(numbered(7, 3), revision=date) as client:
        pages = list(client.pages("tools/list"))
        assert [names(page) for page in pages] == [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6"]]
        assert ["nextCursor" in page for page in pages] == [True, True, False]


@pytest.mark.spec("server/utilities/pagination/both-flows")
@pytest.mark.parametrize(("count", "pages"), [(1, 1), (3, 1), (4, 2), (6, 2)])
def test_a_page_that_ends_with_the_list_has_no_cursor(count, pages):
    with connect(numbered(count, 3)) as client:
        assert len(list(client.pages("tools/list"))) == pages
        assert len(client.list_tools()) == count


def walk(server, client, between):
    """All names that a client sees which walks the list while `between(page number)` changes it."""
    seen = []
    for number, page in enumerate(client.pages("tools/list")):
        seen += names(page)
        between(number)
    return seen


@pytest.mark.spec("server/utilities/pagination/stable-cursors")
@pytest.mark.parametrize("date", REVISIONS)
def test_items_added_between_pages_are_neither_missed_nor_doubled(date):
    server = numbered(4, 2)
    with connect(server, revision=date) as client:
        more = [lambda: server.add_tool(lambda: None, name="new")]
        seen = walk(server, client, lambda number: more.pop()() if more else None)
    assert seen == ["t0", "t1", "t2", "t3", "new"]


@pytest.mark.spec("server/utilities/pagination/stable-cursors")
def test_an_item_removed_before_the_cursor_moves_nothing():
    server = numbered(6, 2)
    with connect(server) as client:
        seen = walk(server, client, lambda number: server.remove_tool("t0") if number == 0 else None)
    assert seen == ["t0", "t1", "t2", "t3", "t4", "t5"]


@pytest.mark.spec("server/utilities/pagination/stable-cursors")
def test_when_the_cursors_own_item_is_gone_the_list_goes_on_where_it_was():
    server = numbered(6, 2)
    with connect(server) as client:
        seen = walk(server, client, lambda number: server.remove_tool("t1") if number == 0 else None)
    assert set(seen) >= {"t0", "t1", "t3", "t4", "t5"}
    assert len(seen) == len(set(seen))


@pytest.mark.spec("server/utilities/pagination/stable-cursors")
def test_nothing_is_left_out_when_the_whole_page_before_is_removed():
    """The number of an item does not change when others go."""
    server = numbered(6, 3)
    with connect(server) as client:
        cursor = client.request("tools/list")["nextCursor"]
        for name in ("t0", "t1", "t2"):
            server.remove_tool(name)
        assert names(client.request("tools/list", {"cursor": cursor})) == ["t3", "t4", "t5"]


def test_when_everything_behind_the_cursor_is_gone_the_last_page_is_empty():
    server = numbered(4, 2)
    with connect(server) as client:
        cursor = client.request("tools/list")["nextCursor"]
        for name in ("t1", "t2", "t3"):
            server.remove_tool(name)
        page = client.request("tools/list", {"cursor": cursor})
    assert names(page) == []
    assert "nextCursor" not in page


BAD = {
    "empty": "",
    "text": "not-base64!",
    "short": "AAAA",
    "not ASCII": "ü" * 8,
    "another list's": pagination.page("prompts/list", [1, 2], None, 1)[2],
    "a number": forged(b"5"),
    "three parts": forged(b'["tools/list",1,2]'),
    "no JSON": forged(b"{"),
    "a number as text": forged(b'["tools/list","1"]'),
    "a fraction": forged(b'["tools/list",1.5]'),
    "true": forged(b'["tools/list",true]'),
    "an object within": forged(b'["tools/list",{}]'),
    "an object": forged(b'{"tools/list":1,"a":2,"b":3}'),
    "deep": forged(b"[" * 100_000),
}


@pytest.mark.spec(
    "server/utilities/pagination/invalid-cursor-32602", "server/utilities/pagination/handle-invalid-cursors"
)
@pytest.mark.parametrize("cursor", BAD.values(), ids=BAD)
def test_a_cursor_that_is_not_ours_is_refused(cursor):
    with pytest.raises(InvalidParams):
        pagination.page(KIND, [1, 2], cursor, 1)


@pytest.mark.spec("server/utilities/pagination/invalid-cursor-32602")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_bad_cursor_is_32602_on_the_wire_and_the_connection_lives(date):
    with connect(numbered(3, 1), revision=date) as client:
        for cursor in ("nonsense", "", 7, None):
            with pytest.raises(ErrorResponse) as refused:
                client.request("tools/list", {"cursor": cursor})
            assert refused.value.code == -32602
        assert len(client.list_tools()) == 3


KEYS = list(range(1, 21))


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(), st.binary().map(lambda b: base64.urlsafe_b64encode(b).decode())))
def test_any_text_is_a_cursor_of_ours_or_refused(cursor):
    try:
        start, end, _ = pagination.page(KIND, KEYS, cursor, 5)
    except InvalidParams:
        return
    assert 0 <= start <= end <= len(KEYS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=300)
@given(st.one_of(JSON, st.tuples(st.just(KIND), JSON)))
def test_any_note_with_a_right_checksum_is_good_or_refused(note):
    cursor = forged(json.dumps(note).encode())
    try:
        start, end, _ = pagination.page(KIND, KEYS, cursor, 5)
    except InvalidParams:
        return
    assert 0 <= start <= end <= len(KEYS)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 19), st.data())
def test_an_altered_cursor_is_refused(position, data):
    """One changed character: the checksum finds it, or the cursor still means the same."""
    keys = KEYS[: position + 2]
    cursor = pagination.page(KIND, keys, None, position + 1)[2]
    assert cursor is None or isinstance(cursor, str)
    if cursor is None:
        return
    place = data.draw(st.integers(0, len(cursor) - 1))
    altered = cursor[:place] + data.draw(st.characters(codec="ascii")) + cursor[place + 1 :]
    try:
        found = pagination.page(KIND, keys, altered, 1)
    except InvalidParams:
        return
    assert found == pagination.page(KIND, keys, cursor, 1)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(), unique=True, max_size=30).map(sorted), st.integers(1, 7))
def test_the_pages_of_any_list_are_the_list(keys, size):
    seen, cursor, rounds = [], None, 0
    while True:
        start, end, cursor = pagination.page(KIND, keys, cursor, size)
        seen += keys[start:end]
        rounds += 1
        if cursor is None:
            break
    assert seen == keys
    assert rounds == max(1, -(-len(keys) // size))


def test_a_page_has_at_least_one_item():
    with pytest.raises(ValueError, match="page_size"):
        Server("none", page_size=0)


# -- client ---------------------------------------------------------------------------------


class Pages:
    """A client of which only `request` is real: it hands out prepared pages."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.asked = []

    def forget_cached(self, method):
        """It keeps nothing."""

    def request(self, method, params, timeout=None):
        self.asked.append(dict(params))
        return self.pages.pop(0)


@pytest.mark.spec(
    "server/utilities/pagination/opaque-cursors", "server/utilities/pagination/cursor-not-persisted"
)
def test_a_cursor_goes_back_as_it_came():
    """Whatever it holds, also when it looks like one of our own."""
    odd = ' {"a": "é"}\n%00=='
    client = Pages({"nextCursor": odd}, {})
    assert len(list(pagination.pages(client, KIND))) == 2
    assert client.asked == [{}, {"cursor": odd}]


@pytest.mark.spec("server/utilities/pagination/empty-cursor-not-end")
def test_an_empty_cursor_is_not_the_end():
    client = Pages({"nextCursor": ""}, {"nextCursor": "b"}, {})
    assert len(list(pagination.pages(client, KIND))) == 3
    assert client.asked == [{}, {"cursor": ""}, {"cursor": "b"}]


def test_pages_are_fetched_only_when_they_are_asked_for():
    client = Pages({"nextCursor": "b"}, {})
    pages = pagination.pages(client, KIND, {"filter": 1})
    next(pages)
    assert client.asked == [{"filter": 1}]
    next(pages)
    assert client.asked[1:] == [{"filter": 1, "cursor": "b"}]


@pytest.mark.spec("server/utilities/pagination/cursor-value-decides-nothing")
@pytest.mark.parametrize("cursors", [["a", "a"], ["", ""], ["a", "b", "a"], ["a", "b", "c", "b"]])
def test_a_cursor_that_comes_again_is_a_cursor_like_any_other(cursors):
    """Its server may well know by other means where it was."""
    client = Pages(*({"nextCursor": cursor} for cursor in cursors), {})
    assert len(list(pagination.pages(client, KIND))) == len(cursors) + 1
    assert client.asked == [{}, *({"cursor": cursor} for cursor in cursors)]


class Endless:
    """A server that always has one more page."""

    def __init__(self, cursor):
        self.cursor, self.count = cursor, 0

    def forget_cached(self, method):
        """It keeps nothing."""

    def request(self, method, params, *, timeout=None):
        self.count += 1
        return {"nextCursor": self.cursor or str(self.count)}


@pytest.mark.spec("server/utilities/pagination/cursor-value-decides-nothing")
@pytest.mark.parametrize("cursors", [["a", "a", "a"], ["a", "b", "a", "b"], ["", ""]], ids=" ".join)
def test_a_cursor_that_comes_again_brings_the_next_page_also_where_pages_are_kept(cursors):
    """What is kept for a cursor is one page of several: it is not taken for the next one, now or later."""
    server, asked = Server("pages", options=ServerOptions(caching={KIND: Caching(60_000, "public")})), []

    @server.on_request(KIND)
    def pages(params):
        at = len(asked) % (len(cursors) + 1)
        asked.append(params.get("cursor"))
        item = {"name": f"tool{at}", "inputSchema": {"type": "object"}}
        more = {"nextCursor": cursors[at]} if at < len(cursors) else {}
        return {"tools": [item], **more}

    with connect(server, revision=MODERN, cache=True) as client:
        names = [f"tool{at}" for at in range(len(cursors) + 1)]
        assert [tool["name"] for tool in client.list_tools()] == names
        assert [tool["name"] for tool in client.list_tools()] == names
    assert asked == [None, *cursors] * 2


@pytest.mark.parametrize("cursor", [None, "the same"])
def test_a_list_without_end_is_given_up(cursor):
    endless = Endless(cursor)
    said = r"tools/list: the server's list has more than 10000 pages; fewer and longer ones are needed"
    with pytest.raises(InvalidResponse, match=said):
        list(pagination.pages(endless, KIND))
    assert endless.count == pagination.MAX_PAGES


class Heavy(Endless):
    """Each page of it is as large in memory as a mebibyte of text."""

    def __init__(self, part):
        super().__init__(None)
        self.part = part

    def request(self, method, params, *, timeout=None):
        return {"tools": self.part, **super().request(method, params)}


def test_a_page_that_is_nested_too_deep_to_be_measured_is_an_error():
    deep = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InvalidResponse, match="tools/list: a page of the list cannot be measured"):
        list(pagination.pages(Heavy(deep), KIND))


@pytest.mark.parametrize("part", ["d" * (1 << 20), [[] for _ in range(16 << 10)]], ids=["long", "many"])
def test_a_list_that_fills_the_memory_is_given_up(part):
    heavy = Heavy(part)
    with pytest.raises(InvalidResponse, match="tools/list: the server's list has more than 64 MiB"):
        list(pagination.pages(heavy, KIND))
    assert 55 <= heavy.count <= 64


def test_a_list_of_one_page_is_as_long_as_a_message_may_be(monkeypatch):
    monkeypatch.setattr(pagination, "MAX_LIST_BYTES", 1)
    assert pagination.all_pages(Pages({"tools": ["d" * 1000]}), KIND) == [{"tools": ["d" * 1000]}]


@pytest.mark.parametrize("cursor", [5, True, {}, ["a"]])
def test_a_cursor_that_is_no_text_is_refused(cursor):
    with pytest.raises(InvalidResponse, match="nextCursor"):
        list(pagination.pages(Pages({"nextCursor": cursor}), KIND))


# -- a whole list ---------------------------------------------------------------------------


class Script(Pages):
    """Answers in a row, errors among them; what was forgotten is noted."""

    def __init__(self, *answers):
        super().__init__(*answers)
        self.forgotten = []

    def request(self, method, params, timeout=None):
        self.timeout = timeout
        answer = super().request(method, params)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def forget_cached(self, method):
        self.forgotten.append((len(self.asked), method))


VOID = ErrorResponse(-32602, "no such cursor")


def test_everything_is_the_items_of_all_pages():
    client = Script({"tools": [1, 2], "nextCursor": "b"}, {"tools": [], "nextCursor": "c"}, {"tools": [3]})
    assert pagination.everything(client, KIND, "tools", timeout=5) == [1, 2, 3]
    assert client.asked == [{}, {"cursor": "b"}, {"cursor": "c"}]
    assert client.timeout == 5
    assert client.forgotten == []


@pytest.mark.spec(
    "server/utilities/caching/invalid-cursor-discards", "server/utilities/caching/snapshot-refetch"
)
def test_when_a_cursor_has_become_void_what_is_kept_is_forgotten_and_the_list_begins_anew():
    client = Script(
        {"tools": ["old"], "nextCursor": "b"}, VOID, {"tools": [1], "nextCursor": "z"}, {"tools": [2]}
    )
    assert pagination.everything(client, KIND, "tools") == [1, 2]
    assert client.asked == [{}, {"cursor": "b"}, {}, {"cursor": "z"}]
    assert client.forgotten == [(2, KIND)]


@pytest.mark.spec("server/utilities/caching/no-consistency-across-pages")
def test_pages_that_do_not_fit_each_other_are_taken_as_they_come():
    """While they were fetched, 2 moved to the second page and 3 to the first."""
    client = Script({"tools": [1, 2], "nextCursor": "b"}, {"tools": [2, 4]})
    assert pagination.everything(client, KIND, "tools") == [1, 2, 2, 4]


@pytest.mark.spec("server/utilities/caching/no-consistency-across-pages")
def test_a_tool_that_is_on_two_pages_is_no_fault_of_the_list():
    script = """
    open_modern()
    tool = {"name": "same", "inputSchema": {"type": "object"}}
    page = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]}
    answer(receive("tools/list"), {**page, "nextCursor": "b"})
    answer(receive("tools/list"), page)
    go_on(text("called"))
    """
    with connect(raw_server(script), options=ClientOptions(on_stderr=Notes())) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["same", "same"]
        assert client.call_tool("same").text == "called"


def test_a_cursor_that_is_void_again_is_an_error():
    client = Script({"nextCursor": "b"}, VOID, {"nextCursor": "c"}, VOID)
    with pytest.raises(ErrorResponse, match="no such cursor"):
        pagination.all_pages(client, KIND)
    assert len(client.asked) == 4
    assert len(client.forgotten) == 1


def test_an_error_on_the_first_page_is_not_about_a_cursor():
    client = Script(VOID)
    with pytest.raises(ErrorResponse, match="no such cursor"):
        pagination.everything(client, KIND, "tools")
    assert client.asked == [{}]
    assert client.forgotten == []


@pytest.mark.parametrize(
    "problem", [ErrorResponse(-32603, "broken"), ErrorResponse(-32002, "gone"), InvalidResponse("odd")]
)
def test_another_error_within_a_list_is_the_callers(problem):
    client = Script({"nextCursor": "b"}, problem)
    with pytest.raises(type(problem), match=str(problem.args[0])[:4]):
        pagination.everything(client, KIND, "tools")
    assert client.forgotten == []


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {}}, {"tools": "abc"}])
def test_a_page_without_a_list_of_items_is_refused(page):
    client = Script({"tools": [], "nextCursor": "b"}, page)
    with pytest.raises(InvalidResponse, match="tools/list: the result has no list of tools"):
        pagination.everything(client, KIND, "tools")


# -- the four lists -------------------------------------------------------------------------

MEMBERS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@pytest.mark.spec("server/utilities/pagination/operations")
@pytest.mark.parametrize("method", MEMBERS)
@pytest.mark.parametrize("date", REVISIONS)
def test_all_four_lists_come_in_pages(date, method):
    server = numbered(5, 2)
    for number in range(5):
        server.add_prompt(lambda: "", name=f"p{number}")
        server.add_resource(lambda: "", f"a://{number}", name=f"r{number}")
        server.add_resource(lambda x: "", f"b://{number}/{{x}}", name=f"u{number}")
    with connect(server, revision=date) as client:
        pages = list(client.pages(method))
        assert [len(page[MEMBERS[method]]) for page in pages] == [2, 2, 1]
        names = [item["name"] for item in pagination.everything(client, method, MEMBERS[method])]
        assert [name[1:] for name in names] == list("01234")
        with pytest.raises(ErrorResponse) as refused:
            client.request(method, {"cursor": "nonsense"})
        assert refused.value.code == -32602


def test_of_a_page_the_items_that_are_none_are_left_out_and_the_others_stay(caplog):
    good = {"name": "a", "inputSchema": {"type": "object"}}
    page = {"tools": [good, 5, {"name": "b"}, good]}
    assert pagination.definitions_of("tools/list", page, "tools", "name", Tool) == [good, good]
    assert caplog.text.count("tools/list: left out") == 2 and "'b'" in caplog.text


@pytest.mark.parametrize("found", [None, {}, "x"])
def test_a_page_without_a_list_is_refused_by_name(found):
    with pytest.raises(InvalidResponse, match="tools/list: the result has no list of tools"):
        pagination.definitions_of("tools/list", {"tools": found}, "tools", "name", Tool)


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
    return PagedList(
        "things/list",
        "things",
        lambda thing: thing.name,
        lambda thing, date: {"name": thing.name, "value": thing.value, "date": date},
        page_size,
        changed,
    )


def things_of(kept):
    return [thing["name"] for thing in kept["things"]]


def walk_through(things, at=AT):
    """The names on each page, as a client gets them."""
    pages, cursor = [], None
    while True:
        page = things.page(at, cursor)
        pages.append(things_of(page))
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
    pages = walk_through(things)
    assert [name for page in pages for name in page] == wanted
    assert {len(page) for page in pages[:-1]} <= {size}
    assert pages == walk_through(things)


def test_an_empty_list_is_one_page_without_a_cursor():
    assert shelf().page(AT, None) == {"things": []}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_page_is_the_same_object_until_something_changes(date):
    """And so what it looks like on the wire is worked out once."""
    things, at = shelf(), revision(date)
    for name in "abcde":
        things.add(Thing(name))
    first = things.page(at, None)
    assert isinstance(first, EncodedPage)
    assert first.encoded == {}
    assert first["things"][0]["date"] == date
    second = things.page(at, first["nextCursor"])
    assert things_of(second) == ["d", "e"]
    assert things.page(at, None) is first
    assert things.page(at, first["nextCursor"]) is second
    others = [things.page(revision(other), None) for other in REVISIONS if other != date]
    assert not any(other is first for other in others)
    things.add(Thing("f"))
    assert things.page(at, None) is not first
    assert things_of(things.page(at, first["nextCursor"])) == ["d", "e", "f"]


def test_nothing_is_left_out_or_comes_twice_while_items_come_and_go():
    things = shelf(2)
    for name in "abcdef":
        things.add(Thing(name))
    first = things.page(AT, None)
    assert things_of(first) == ["a", "b"]
    things.change([Thing("g")], ["a", "b", "d"])
    second = things.page(AT, first["nextCursor"])
    assert things_of(second) == ["c", "e"]
    things.remove("f")
    assert things_of(things.page(AT, second["nextCursor"])) == ["g"]
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
    assert len(walk_through(things)) == 10


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
        before, things_of = self.announced, set(self.expected)
        self.things.change([Thing(name, 9) for name in added], removed)
        for name in set(removed):
            self.expected.pop(name, None)
        self.expected.update(dict.fromkeys(added, 9))
        assert self.announced == before + (things_of != set(self.expected))

    @invariant()
    def is_the_dict(self):
        assert {thing.name: thing.value for thing in self.things.values()} == self.expected
        assert self.things.keys() == list(self.expected)
        assert [name for page in walk_through(self.things) for name in page] == list(self.expected)


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
        seen += things_of(page)
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


def tools(*things_of, **options):
    server = Server("tools", **for_server(options))
    for name in things_of:
        server.add_tool(returning(name), name=name)
    return server


@pytest.mark.spec("server/tools/list-deterministic-order", "server/tools/list-answered")
@pytest.mark.parametrize("date", REVISIONS)
def test_the_order_is_that_in_which_tools_were_added(date):
    things_of = ["zeta", "alpha", "mid", "Alpha", "beta"]
    with connect(tools(*things_of), revision=date) as client:
        for _ in range(3):
            assert listed(client) == things_of


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
