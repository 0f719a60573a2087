"""server/utilities/pagination: cursors that stay good, and clients that find the end."""

import base64
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import MODERN, Notes, raw_server

from mcp_ref import Caching, ErrorResponse, InvalidResponse, Server, connect
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.schema import REVISIONS
from mcp_ref.server.tools import Tool
from mcp_ref.server.utilities import pagination

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
    server, asked = Server("pages", caching={KIND: Caching(60_000, "public")}), []

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
    with connect(raw_server(script), on_stderr=Notes()) as client:
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
