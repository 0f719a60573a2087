"""server/utilities/caching: the two hints, where they stand and what they may say; what a client keeps."""

import dataclasses
import sys
import threading

import pytest
from choices import for_server
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import LEGACY, MODERN

from mcp_ref import Server, ServerOptions, connect
from mcp_ref.schema import Mismatch, checker
from mcp_ref.server.utilities import caching
from mcp_ref.server.utilities.caching import CACHEABLE, Cache, Caching

HINTS = {"ttlMs", "cacheScope"}


def cached(**options):
    server = Server("cached", page_size=2, **for_server(options))
    for number in range(5):
        server.add_tool(lambda: "x", name=f"t{number}")
    return server


@pytest.mark.spec(
    "server/utilities/caching/hints-required",
    "server/utilities/caching/page-same-scope",
    "server/discover/result-fields",
    "server/utilities/caching/ttl-without-list-changed",
)
def test_modern_lists_and_discovery_carry_the_hints_the_server_was_given():
    with connect(cached(ttl_ms=5000, cache_scope="public"), revision=MODERN) as client:
        results = [*client.pages("tools/list"), client.request("server/discover")]
        assert len(results) == 4
        assert {(r["ttlMs"], r["cacheScope"]) for r in results} == {(5000, "public")}


@pytest.mark.spec("server/utilities/caching/hints-required")
def test_by_default_a_result_is_stale_at_once_and_private():
    with connect(cached(), revision=MODERN) as client:
        result = client.request("tools/list")
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


def test_a_result_that_is_not_cacheable_has_no_hints():
    with connect(cached(ttl_ms=5000), revision=MODERN) as client:
        assert not HINTS & client.call_tool("t1").keys()


@pytest.mark.spec("server/utilities/caching/interim-without-hints")
def test_a_result_that_is_not_complete_has_no_hints():
    server = cached(ttl_ms=5000)
    server.add_resource(lambda: "", "a://b")

    @server.around
    def asks_first(ctx, params, proceed):
        if ctx.method == "resources/read":
            return {"resultType": "input_required", "requestState": "x"}
        return proceed(params)

    with connect(server, revision=MODERN) as client:
        result = client.asker.connection.request("resources/read", {"uri": "a://b", **client.asker.probe()})
        assert result["resultType"] == "input_required"
        assert not HINTS & result.keys()


@pytest.mark.parametrize("date", LEGACY)
def test_results_of_the_legacy_era_have_no_hints(date):
    with connect(cached(ttl_ms=5000, cache_scope="public"), revision=date) as client:
        for page in client.pages("tools/list"):
            assert not HINTS & page.keys()


@pytest.mark.spec("server/utilities/caching/ttl-non-negative")
@pytest.mark.parametrize("ttl", [-1, 1.5, True, "5", None])
def test_a_ttl_is_a_whole_number_from_0_on(ttl):
    with pytest.raises(ValueError, match="ttl_ms"):
        Server("bad", options=ServerOptions(ttl_ms=ttl))


@pytest.mark.parametrize("scope", ["Public", "", None, "shared"])
def test_there_are_two_scopes(scope):
    with pytest.raises(ValueError, match="cache_scope"):
        Server("bad", options=ServerOptions(cache_scope=scope))


@pytest.mark.parametrize("ttl", [0, 1, 2**53])
def test_any_whole_number_from_0_on_is_a_ttl(ttl):
    assert caching.hints(ttl, "public") == {"ttlMs": ttl, "cacheScope": "public"}


@pytest.mark.spec("server/utilities/caching/ttl-non-negative")
def test_the_shape_takes_no_negative_ttl():
    check = checker(caching.CacheableResult, MODERN)
    check({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
    with pytest.raises(Mismatch, match="ttlMs"):
        check({"resultType": "complete", "ttlMs": -1, "cacheScope": "private"})


@pytest.mark.spec(
    "server/utilities/caching/ttl-absent-zero",
    "server/utilities/caching/ttl-negative-zero",
)
@pytest.mark.parametrize(
    ("result", "seconds"),
    [({}, 0), ({"ttlMs": -5}, 0), ({"ttlMs": 0}, 0), ({"ttlMs": 1500}, 1.5), ({"ttlMs": 2.5}, 0.0025)]
    + [({"ttlMs": odd}, 0) for odd in (True, "9", None, [])],
)
def test_what_says_nothing_sensible_is_stale_at_once(result, seconds):
    assert caching.fresh_for(result) == seconds


@pytest.mark.parametrize("ttl", [10**400, 1e308, 2**53])
def test_a_ttl_without_measure_is_a_very_long_time(ttl):
    assert caching.fresh_for({"ttlMs": ttl}) == 2**53 / 1000


# -- what a server says ---------------------------------------------------------------------


@pytest.mark.spec("server/utilities/caching/page-same-scope", "server/utilities/caching/ttl-non-negative")
def test_each_method_has_the_hints_that_it_was_given_or_else_those_of_the_server():
    found = caching.hints_by_method(Caching(1000), {"tools/list": Caching(5000, "public")})
    assert tuple(found) == CACHEABLE
    assert found.pop("tools/list") == {"ttlMs": 5000, "cacheScope": "public"}
    assert all(hints == {"ttlMs": 1000, "cacheScope": "private"} for hints in found.values())


def test_nothing_need_be_given_for_a_method():
    assert caching.hints_by_method(Caching()) == {m: {"ttlMs": 0, "cacheScope": "private"} for m in CACHEABLE}


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "tools", "", None])
def test_a_method_whose_results_are_not_cacheable_is_refused(method):
    with pytest.raises(ValueError, match="cannot be cached; hints apply to server/discover, "):
        caching.hints_by_method(Caching(), {method: Caching(1)})


@pytest.mark.parametrize("odd", [5000, None, {"ttlMs": 1, "cacheScope": "public"}])
def test_what_is_said_of_a_method_is_a_caching(odd):
    with pytest.raises(TypeError, match=r"tools/list.*Caching"):
        caching.hints_by_method(Caching(), {"tools/list": odd})
    with pytest.raises(TypeError, match=r"server/discover.*Caching"):
        caching.hints_by_method(odd)


@pytest.mark.spec("server/utilities/caching/ttl-non-negative")
@pytest.mark.parametrize(
    ("given", "named"), [((-1,), "ttl_ms"), ((True,), "ttl_ms"), ((1, "shared"), "scope"), ((1, []), "scope")]
)
def test_a_caching_is_checked_and_stays_as_it_is(given, named):
    with pytest.raises(ValueError, match=named):
        Caching(*given)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Caching().ttl_ms = 5


# -- what a client keeps ---------------------------------------------------------------------


class Clock:
    """The time, as a test has it."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class One:
    """A cache as one client at one server uses it."""

    def __init__(self, **options):
        self.clock = Clock()
        self.cache = Cache(clock=self.clock, **options)

    def store(
        self, method="tools/list", params=None, *, server="s", who="me", ttl=1000, since=None, **members
    ):
        result = {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private", **members}
        since = self.cache.generation(server) if since is None else since
        return self.cache.store(server, who, method, params, result, since=since)

    def find(self, method="tools/list", params=None, *, server="s", who="me"):
        return self.cache.find(server, who, method, params)

    def has(self, *what, **where):
        return self.find(*what, **where) is not None


URI = {"uri": "file:///a"}


@pytest.mark.spec(
    "server/utilities/caching/ttl-fresh-period",
    "server/utilities/caching/ttl-positive-fresh",
    "server/utilities/caching/stale-refetch",
)
def test_a_result_is_fresh_until_its_time_is_over():
    one = One()
    assert one.store(ttl=1000)
    one.clock.now += 0.999
    assert one.has()
    one.clock.now += 0.001
    assert not one.has()
    one.clock.now -= 0.5
    assert not one.has()  # it is gone


def test_what_is_found_says_how_long_it_is_still_good():
    one = One()
    one.store(ttl=300_000)
    one.clock.now += 120
    assert one.find()["ttlMs"] == 180_000


def test_time_is_that_of_the_system_unless_another_clock_is_given():
    cache = Cache()
    kept = {"tools": [], "ttlMs": 3_600_000, "cacheScope": "private"}
    assert cache.store("s", None, "tools/list", {}, kept, since=cache.generation("s"))
    assert 3_500_000 < cache.find("s", None, "tools/list", None)["ttlMs"] <= 3_600_000


@pytest.mark.spec(
    "server/utilities/caching/ttl-zero-stale",
    "server/utilities/caching/ttl-absent-zero",
    "server/utilities/caching/ttl-negative-zero",
)
@pytest.mark.parametrize("ttl", [0, -1, -(2**70), None, "1000", True, [], {}, -0.0])
def test_a_result_that_is_stale_at_once_is_not_cached(ttl):
    one = One()
    assert not one.store(ttl=ttl)
    assert not one.cache.store("s", "me", "tools/list", {}, {"tools": []}, since=0)
    assert len(one.cache) == 0


def test_a_result_with_a_huge_ttl_is_cached_and_found():
    one = One()
    assert one.store(ttl=10**400)
    one.clock.now += 10**9
    assert one.has()


@pytest.mark.parametrize("method", CACHEABLE)
def test_results_of_the_six_methods_are_cached(method):
    one = One()
    assert one.store(method)
    assert one.has(method)


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "completion/complete", "tasks/get", "x"])
def test_results_of_other_methods_are_not_cached_whatever_their_hints(method):
    one = One()
    assert not one.store(method, {"name": "a"})
    assert not one.has(method, {"name": "a"})


@pytest.mark.spec("server/utilities/caching/key-method-params")
@pytest.mark.parametrize(
    "other",
    [
        {},
        None,
        {"cursor": ""},
        {"cursor": "b"},
        {"cursor": "a", "more": 1},
        {"cursor": ["a"]},
        {"CURSOR": "a"},
        {"cursor": None},
        {"cursor": "a", "_meta": {"com.example/tenant": 1}},
        {"cursor": "a", "_meta": {"baggage": "tenant=1"}},
    ],
)
def test_a_result_is_no_answer_to_other_parameters(other):
    one = One()
    one.store(params={"cursor": "a"})
    assert not one.has(params=other)
    assert one.has(params={"cursor": "a"})


@pytest.mark.spec("server/utilities/caching/key-method-params")
def test_a_result_is_no_answer_to_another_method_or_another_server():
    one = One()
    one.store(cacheScope="public")
    assert not one.has("prompts/list")
    assert not one.has(server="other")


@pytest.mark.spec("server/utilities/caching/key-method-params")
@pytest.mark.parametrize("pair", [(1, True), (1, 1.0), (1, "1"), (0, False), (None, "null"), ([], {})])
def test_parameters_that_python_takes_for_equal_are_not_the_same(pair):
    one = One()
    one.store(params={"x": pair[0]})
    assert not one.has(params={"x": pair[1]})


@pytest.mark.parametrize(
    "same",
    [
        {"b": {"d": 2, "c": 1}, "a": "\u00e9"},
        {"a": "\u00e9", "b": {"c": 1, "d": 2}, "_meta": {}},
        {
            "a": "\u00e9",
            "b": {"c": 1, "d": 2},
            "_meta": {
                "progressToken": 7,
                "traceparent": "00-1-1-00",
                "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
            },
        },
    ],
)
def test_the_order_of_members_and_who_asks_change_nothing(same):
    one = One()
    one.store(params={"a": "\u00e9", "b": {"c": 1, "d": 2}})
    assert one.has(params=same)


def test_no_parameters_are_the_same_as_an_empty_object():
    one = One()
    one.store(params=None)
    assert one.has(params={})
    assert one.has(params={"_meta": {}})


def _endless():
    params = {}
    params["again"] = params
    return params


def _deep():
    deep = []
    for _ in range(sys.getrecursionlimit() * 10):
        deep = [deep]
    return {"deep": deep}


@pytest.mark.parametrize(
    "odd", [{"x": {1}}, {"x": float("nan")}, {1: 1, "1": 2}, {"_meta": 5}, _endless(), _deep()]
)
def test_parameters_that_are_none_keep_nothing_and_find_nothing(odd):
    one = One()
    assert not one.store(params=odd)
    assert not one.has(params=odd)


@pytest.mark.parametrize("odd", [{1}, float("inf"), "\ud800", object()])
def test_a_result_that_is_not_json_is_not_cached(odd):
    one = One()
    assert not one.store(odd=odd)
    assert not one.has()


@pytest.mark.spec("server/utilities/caching/retry-results-uncached")
@pytest.mark.parametrize("extra", [{"inputResponses": {}}, {"requestState": "x"}, {"requestState": None}])
def test_the_result_of_a_retry_is_neither_cached_nor_taken_from_the_cache(extra):
    one = One()
    assert not one.store("resources/read", {**URI, **extra})
    one.store("resources/read", URI)
    assert not one.has("resources/read", {**URI, **extra})
    assert len(one.cache) == 1


@pytest.mark.spec("server/utilities/caching/interim-without-hints")
@pytest.mark.parametrize("kind", ["input_required", "task", None, 5])
def test_a_result_that_is_not_complete_is_not_cached(kind):
    one = One()
    assert not one.store("resources/read", URI, resultType=kind)


def test_a_result_without_a_type_is_complete():
    one = One()
    assert one.cache.store("s", "me", "tools/list", None, {"ttlMs": 5, "tools": []}, since=0)


@pytest.mark.spec(
    "server/utilities/caching/scope-private-not-shared", "server/utilities/caching/scope-private"
)
@pytest.mark.parametrize("scope", ["private", "Public", "shared", None, 5, ["public"]])
def test_what_is_not_public_is_for_the_principal_that_fetched_it(scope):
    one = One()
    one.store(who="ann", cacheScope=scope)
    assert one.has(who="ann")
    for other in ("bob", None, "", ("ann",)):
        assert not one.has(who=other)


@pytest.mark.spec("server/utilities/caching/scope-private-not-shared")
def test_a_result_without_a_scope_is_private():
    one = One()
    assert one.cache.store("s", None, "tools/list", None, {"ttlMs": 5, "tools": []}, since=0)
    assert one.has(who=None)
    assert not one.has(who="ann")


@pytest.mark.spec("server/utilities/caching/scope-public")
def test_what_is_public_is_for_everybody():
    one = One()
    one.store(who="ann", cacheScope="public")
    assert one.has(who="ann")
    assert one.has(who="bob")
    assert one.has(who=None)


@pytest.mark.spec("server/utilities/caching/scope-private-not-shared")
def test_what_was_public_and_is_private_now_is_for_nobody_else_any_more():
    one = One()
    one.store(who="ann", cacheScope="public", ttl=10_000)
    one.store(who="ann", cacheScope="private")
    assert not one.has(who="bob")
    assert one.has(who="ann")


def test_a_newer_result_takes_the_place_of_an_older_one():
    one = One()
    one.store(number=1)
    one.store(number=2, cacheScope="public")
    assert one.find()["number"] == 2
    one.store(number=3)
    assert one.find()["number"] == 3
    assert len(one.cache) == 1


def test_a_newer_result_that_is_stale_at_once_takes_the_older_one_away():
    one = One()
    one.store()
    assert not one.store(ttl=0)
    assert not one.has()


def test_a_found_result_is_a_copy_and_the_stored_one_may_be_changed():
    one = One()
    result = {"tools": [{"name": "a"}], "ttlMs": 1000, "resultType": "complete"}
    one.cache.store("s", "me", "tools/list", None, result, since=0)
    result["tools"].append("more")
    found = one.find()
    found["tools"][0]["name"] = "b"
    assert one.find()["tools"] == [{"name": "a"}]


@pytest.mark.spec(
    "server/utilities/caching/page-own-ttl",
    "server/utilities/caching/page-refetch",
    "server/utilities/caching/page-ttl-differs",
)
def test_each_page_is_fresh_for_its_own_time_from_its_own_receipt():
    one = One()
    one.store(params={}, ttl=5000)
    one.clock.now += 1
    one.store(params={"cursor": "b"}, ttl=1000)
    one.clock.now += 2
    assert one.has(params={})
    assert not one.has(params={"cursor": "b"})
    one.store(params={"cursor": "b"}, ttl=9000)
    one.clock.now += 3
    assert not one.has(params={})
    assert one.has(params={"cursor": "b"})


@pytest.mark.spec("server/utilities/caching/ttl-not-polling", "server/utilities/caching/poll-jitter-backoff")
def test_a_cache_does_nothing_by_itself():
    """It has no thread and nothing to ask with: when a result is stale, nobody hears of it."""
    before = threading.enumerate()
    one = One()
    one.store(ttl=1)
    one.clock.now += 10
    assert threading.enumerate() == before
    assert len(one.cache) == 1
    assert not one.has()
    assert len(one.cache) == 0


# -- changes that are announced --------------------------------------------------------------


def a_full_cache():
    one = One()
    for method in CACHEABLE:
        one.store(method, {}, ttl=10_000)
        one.store(method, {"cursor": "b"}, ttl=10_000, cacheScope="public")
        one.store(method, {}, ttl=10_000, server="other")
    return one


@pytest.mark.spec(
    "server/utilities/caching/notification-invalidates", "server/utilities/caching/ttl-with-list-changed"
)
@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        ("tools", {"tools/list"}),
        ("prompts", {"prompts/list"}),
        ("resources", {"resources/list", "resources/templates/list"}),
    ],
)
def test_when_a_list_changes_its_pages_are_stale_and_nothing_else_is(kind, methods):
    one = a_full_cache()
    one.cache.on_notification("s", f"notifications/{kind}/list_changed", None)
    for method in CACHEABLE:
        assert one.has(method, {}) == (method not in methods)
        assert one.has(method, {"cursor": "b"}, who="bob") == (method not in methods)
        assert one.has(method, {}, server="other")


@pytest.mark.spec("server/utilities/caching/notification-invalidates")
@pytest.mark.parametrize(
    ("updated", "gone"),
    [
        ("file:///a", {"file:///a", "file:///a/", "file:///a/b"}),
        ("file:///a/", {"file:///a", "file:///a/", "file:///a/b"}),
        ("file:///a/b", {"file:///a", "file:///a/", "file:///a/b"}),
        ("file:///a/b/c", {"file:///a", "file:///a/", "file:///a/b"}),
        ("file:///ab", {"file:///ab"}),
        ("file:///", {"file:///a", "file:///a/", "file:///a/b", "file:///ab"}),
        ("db://x", set()),
    ],
)
def test_when_a_resource_changes_what_was_read_of_it_above_and_below_it_is_stale(updated, gone):
    one = One()
    known = {"file:///a", "file:///a/", "file:///a/b", "file:///ab", "http://x/a"}
    for uri in known:
        one.store("resources/read", {"uri": uri})
    one.store("resources/list")
    one.cache.on_notification("s", "notifications/resources/updated", {"uri": updated})
    assert {uri for uri in known if not one.has("resources/read", {"uri": uri})} == gone
    assert one.has("resources/list")


@pytest.mark.parametrize("params", [None, {}, {"uri": 5}, {"uri": None}])
def test_a_change_of_nobody_knows_what_is_one_of_all_resources(params):
    one = One()
    one.store("resources/read", URI)
    one.store("tools/list")
    one.cache.on_notification("s", "notifications/resources/updated", params)
    assert not one.has("resources/read", URI)
    assert one.has("tools/list")


@pytest.mark.parametrize("method", ["notifications/message", "notifications/progress", "tools/list", ""])
def test_other_notifications_change_nothing(method):
    one = a_full_cache()
    before, many = one.cache.generation("s"), len(one.cache)
    one.cache.on_notification("s", method, {"uri": "file:///a"})
    assert one.cache.generation("s") == before
    assert len(one.cache) == many


def test_a_method_or_a_whole_server_can_be_forgotten():
    one = a_full_cache()
    one.cache.forget("s", "tools/list")
    assert not one.has("tools/list", {})
    assert not one.has("tools/list", {"cursor": "b"})
    assert one.has("prompts/list", {})
    one.cache.forget("s")
    assert not any(one.has(method, {}) for method in CACHEABLE)
    assert all(one.has(method, {}, server="other") for method in CACHEABLE)


CHANGES = {
    "list_changed": lambda cache: cache.on_notification("s", "notifications/prompts/list_changed", {}),
    "updated": lambda cache: cache.on_notification("s", "notifications/resources/updated", URI),
    "forget": lambda cache: cache.forget("s", "tools/list"),
}


@pytest.mark.spec("server/utilities/caching/notification-invalidates")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_result_requested_before_a_change_is_not_cached_after_it(change):
    one = One()
    before = one.cache.generation("s")
    change(one.cache)
    assert one.cache.generation("s") != before
    assert not one.store(since=before)
    assert one.store(number=2)
    assert not one.store(since=before, number=1)
    assert one.find()["number"] == 2  # a late answer takes nothing away


def test_a_change_at_one_server_is_none_at_another():
    one = One()
    before = one.cache.generation("other")
    one.cache.forget("s")
    assert one.cache.generation("other") == before
    assert one.store(server="other", since=before)


def test_changes_at_very_many_servers_are_not_all_remembered_but_none_is_lost():
    """Of a server that is forgotten it is taken for granted that it changed last of all forgotten ones."""
    one = One()
    before = one.cache.generation(0)
    numbers = {}
    for server in range(caching.MAX_CHANGED_SERVERS + 50):
        one.cache.forget(server)
        numbers[server] = one.cache.generation(server)
    assert len(one.cache._last_change) == caching.MAX_CHANGED_SERVERS
    assert not one.store(server=0, since=before)
    for server, number in numbers.items():
        assert one.cache.generation(server) >= number
    assert one.store(server=0)


# -- bounds -------------------------------------------------------------------------------------


def test_the_least_recently_used_goes_first():
    one = One(max_entries=3)
    for cursor in "abc":
        one.store(params={"cursor": cursor})
    assert one.has(params={"cursor": "a"})
    one.store(params={"cursor": "d"})
    assert [c for c in "abcd" if one.has(params={"cursor": c})] == ["a", "c", "d"]
    assert len(one.cache) == 3


def test_all_results_together_have_no_more_bytes_than_there_is_room_for():
    one = One(max_bytes=10_000)
    for number in range(100):
        assert one.store(params={"cursor": str(number)}, text="x" * 900)
        assert one.cache._bytes <= 10_000
    assert len(one.cache) == 10_000 // 1000
    one.cache.forget("s")
    assert one.cache._bytes == 0


def test_bytes_are_counted_as_they_are_on_the_wire_parameters_included():
    one = One(max_bytes=8 * 1000)
    assert one.store(text="x" * 900)
    assert not one.store(text="\N{GREEK SMALL LETTER ALPHA}" * 900)
    assert not one.store("resources/read", {"uri": "x" * 1000})


def test_a_result_over_an_eighth_of_the_size_is_not_cached_and_the_one_it_replaces_is_dropped():
    one = One(max_bytes=8000)
    one.store(number=1)
    one.store(params={"cursor": "b"})
    assert not one.store(text="x" * 1000)
    assert not one.has()
    assert one.has(params={"cursor": "b"})


@pytest.mark.parametrize("options", [{"max_entries": 0}, {"max_bytes": 0}, {"max_bytes": -1}])
def test_a_cache_has_room(options):
    with pytest.raises(ValueError, match="at least 1"):
        Cache(**options)
    with pytest.raises(TypeError, match="whole number"):
        Cache(max_entries="many")


# -- any order of events -------------------------------------------------------------------------

SERVERS, PEOPLE = st.sampled_from("st"), st.sampled_from(["ann", "bob", None])
METHODS = st.sampled_from(["tools/list", "resources/list", "resources/read"])
PARAMS = st.sampled_from([{}, {"cursor": "b"}, {"uri": "a:b"}, {"uri": "a:b/c"}])
EVENTS = st.one_of(
    st.tuples(
        st.just("store"), SERVERS, PEOPLE, METHODS, PARAMS, st.sampled_from([0, 500, 5000]), st.booleans()
    ),
    st.tuples(st.just("find"), SERVERS, PEOPLE, METHODS, PARAMS),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 0.5, 2.0])),
    st.tuples(st.just("changed"), SERVERS, st.sampled_from(["tools", "resources"])),
    st.tuples(st.just("updated"), SERVERS, st.sampled_from(["a:b", "a:b/c", "z:"])),
)


class Story:
    """A cache and what ought to be in it, for any order of events."""

    def __init__(self):
        self.one = One(max_entries=1000)
        self.known = {}  # (server, who, method, params) -> number, until; who is () if public
        self.count = 0

    def play(self, event):
        getattr(self, event[0])(*event[1:])

    def store(self, server, who, method, params, ttl, public):
        self.count += 1
        scope = "public" if public else "private"
        self.one.store(method, params, server=server, who=who, ttl=ttl, cacheScope=scope, number=self.count)
        for older in ((), (who,)):
            self.known.pop((server, older, method, str(params)), None)
        if ttl:
            until = self.one.clock.now + ttl / 1000
            self.known[server, () if public else (who,), method, str(params)] = self.count, until

    def find(self, server, who, method, params):
        right = None
        for mine in ((), (who,)):
            number, until = self.known.get((server, mine, method, str(params)), (None, 0.0))
            right = number if until > self.one.clock.now else right
        found = self.one.find(method, params, server=server, who=who)
        assert (found and found["number"]) == right

    def wait(self, seconds):
        self.one.clock.now += seconds

    def changed(self, server, kind):
        self.one.cache.on_notification(server, f"notifications/{kind}/list_changed", {})
        self.known = {k: v for k, v in self.known.items() if (k[0], k[2]) != (server, f"{kind}/list")}

    def updated(self, server, uri):
        self.one.cache.on_notification(server, "notifications/resources/updated", {"uri": uri})
        hit = {str({"uri": "a:b"}), str({"uri": "a:b/c"})} if uri != "z:" else set()
        self.known = {
            k: v
            for k, v in self.known.items()
            if (k[0], k[2]) != (server, "resources/read") or k[3] not in hit
        }


@pytest.mark.spec(
    "server/utilities/caching/key-method-params", "server/utilities/caching/scope-private-not-shared"
)
@settings(deadline=None, max_examples=200)
@given(st.lists(EVENTS, max_size=40))
def test_whatever_happens_only_fresh_results_of_the_same_request_are_found(events):
    story = Story()
    for event in events:
        story.play(event)


def test_many_threads_may_use_a_cache_at_once():
    cache = Cache(max_entries=20, max_bytes=20_000)
    failures = []

    def work(me):
        try:
            for number in range(200):
                params = {"cursor": str(number % 30)}
                kept = {"ttlMs": 60_000, "cacheScope": ("public", "private")[number % 2], "c": params}
                cache.store("s", me, "tools/list", params, kept, since=cache.generation("s"))
                found = cache.find("s", me, "tools/list", params)
                assert found is None or found["c"] == params
                if number % 50 == me:
                    cache.on_notification("s", "notifications/tools/list_changed", {})
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert len(cache) <= 20
    assert cache._bytes == sum(entry.size for entry in cache._entries.values())


@pytest.mark.spec("server/utilities/caching/hints-required", "server/utilities/caching/interim-without-hints")
def test_hints_are_added_to_complete_results_only_and_those_of_the_handler_stay():
    hints = {"ttlMs": 5, "cacheScope": "public"}
    whole = {"resultType": "complete", "a": 1}
    assert caching.with_hints(whole, hints) == {**whole, **hints}
    assert caching.with_hints({**whole, "ttlMs": 9}, hints) == {**whole, "ttlMs": 9, "cacheScope": "public"}
    interim = {"resultType": "input_required"}
    assert caching.with_hints(interim, hints) == interim
