"""server/utilities/caching: the two hints, where they stand and what they may say."""

import pytest
from peers import LEGACY, MODERN

from mcp_ref import Server, connect
from mcp_ref.schema import Mismatch, checker
from mcp_ref.server.utilities import caching

HINTS = {"ttlMs", "cacheScope"}


def cached(**options):
    server = Server("cached", page_size=2, **options)
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

    @server.around
    def asks_first(ctx, params, proceed):
        if ctx.method == "tools/list":
            return {"resultType": "input_required", "requestState": "x"}
        return proceed(params)

    with connect(server, revision=MODERN) as client:
        result = client.connection.request("tools/list", client.probe())
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
        Server("bad", ttl_ms=ttl)


@pytest.mark.parametrize("scope", ["Public", "", None, "shared"])
def test_there_are_two_scopes(scope):
    with pytest.raises(ValueError, match="cache_scope"):
        Server("bad", cache_scope=scope)


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
