"""server/discover: one request that tells all about a server."""

import pytest
from peers import LEGACY, META, MODERN, REVISIONS, Notes, RawClient, raw_server

from mcp_ref import ClientOptions, Server, ServerOptions, connect
from mcp_ref.basic.versioning import MODERN_CODES
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.schema import checker
from mcp_ref.server import discover

ALL = [*reversed(REVISIONS)]
GOOD = {"supportedVersions": [MODERN], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}


def full():
    server = Server(
        "demo",
        version="1.2.3",
        title="Demo",
        instructions="Be gentle.",
        options=ServerOptions(extensions={"com.example/thing": {"deep": True}}, experimental={"odd": {}}),
    )
    server.add_tool(lambda: None, name="nothing")
    return server


@pytest.mark.spec("server/discover/implemented", "server/discover/result-fields")
def test_discover_tells_versions_capabilities_identity_and_instructions():
    with RawClient(full(), revision=MODERN) as raw:
        result = raw.request("server/discover")["result"]
    checker(discover.DiscoverResult, MODERN)(result)
    assert result == {
        "resultType": "complete",
        "supportedVersions": ALL,
        "capabilities": {
            "logging": {},
            "tools": {"listChanged": True},
            "experimental": {"odd": {}},
            "extensions": {"com.example/thing": {"deep": True}},
        },
        "instructions": "Be gentle.",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {
            "io.modelcontextprotocol/serverInfo": {"name": "demo", "version": "1.2.3", "title": "Demo"}
        },
    }


def test_what_a_server_does_not_have_is_not_told():
    with RawClient(
        Server("bare", options=ServerOptions(logging=False, identify=False)), revision=MODERN
    ) as raw:
        result = raw.request("server/discover")["result"]
    assert result == {"resultType": "complete", **GOOD, "supportedVersions": ALL}


@pytest.mark.parametrize("served", [[MODERN], ["2025-06-18", MODERN], [MODERN, *LEGACY]])
def test_discover_and_the_error_name_the_same_versions_newest_first(served):
    """Also those of the legacy era: a server that is asked names what it supports."""
    with RawClient(Server("some", revisions=served), revision=MODERN) as raw:
        versions = raw.request("server/discover")["result"]["supportedVersions"]
        unknown = {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}
        error = raw.request("tools/list", {"_meta": unknown})["error"]
    assert versions == sorted(served, reverse=True)
    assert error["data"] == {"supported": versions, "requested": "1999-01-01"}


@pytest.mark.parametrize("date", LEGACY)
def test_the_legacy_era_has_no_discover(date):
    with RawClient(full(), revision=date) as raw:
        assert raw.request("server/discover")["error"]["code"] == -32601


def test_a_server_of_the_legacy_era_only_refuses_as_such_servers_do():
    """With an ordinary code: one of the modern era's own would keep clients from falling back."""
    server = Server("old", revisions=LEGACY)
    with RawClient(server, revision=MODERN) as raw:
        assert raw.request("server/discover")["error"]["code"] not in MODERN_CODES
    with connect(server) as client:
        assert client.revision.date == LEGACY[-1]


@pytest.mark.spec(
    "server/discover/no-body-parameters",
    "server/discover/stdio-probe",
    "basic/transports/stdio/probe-preferred-version",
)
def test_the_probe_comes_first_and_carries_its_meta_and_nothing_else():
    notes = Notes()
    with connect(raw_server("open_modern()\ngo_on()"), options=ClientOptions(on_stderr=notes)) as client:
        client.ping()
        first = notes.message("server/discover")
        assert notes.all[0] is first
        assert first["params"].keys() == {"_meta"}
        assert first["params"]["_meta"].keys() == META.keys()
        assert first["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN
        again = notes.until(lambda m: m["method"] == "server/discover" and m is not first)
        assert again["params"].keys() == {"_meta"}


@pytest.mark.spec("server/discover/choose-version")
def test_the_client_goes_on_in_a_version_that_the_server_named():
    notes = Notes()
    script = """
        request = receive("server/discover")
        answer(request, discovered(supportedVersions=["2099-01-01", "2026-07-28", "2031-05-05"]))
        go_on(text("done"))
    """
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as client:
        assert client.revision.date == MODERN
        client.call_tool("anything")
        sent = notes.message("tools/call")["params"]["_meta"]
        assert sent["io.modelcontextprotocol/protocolVersion"] == MODERN


def test_the_client_knows_what_it_was_told():
    with connect(full(), revision=MODERN) as client:
        assert client.server_info == {"name": "demo", "version": "1.2.3", "title": "Demo"}
        assert client.instructions == "Be gentle."
        assert client.server_capabilities["experimental"] == {"odd": {}}


def test_a_server_that_says_nothing_of_itself_is_served_all_the_same():
    with connect(Server("hidden", options=ServerOptions(identify=False)), revision=MODERN) as client:
        assert client.server_info == {}
        assert client.instructions is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"supportedVersions": MODERN},
        {"supportedVersions": [1]},
        {"supportedVersions": None},
        {"capabilities": []},
        {"capabilities": {"tools": True}},
        {"instructions": 5},
    ],
)
def test_what_is_no_discover_result_is_refused_with_its_place(wrong):
    with pytest.raises(InvalidResponse, match=next(iter(wrong))):
        discover.check_result(None, {}, {**GOOD, **wrong}, None)


@pytest.mark.parametrize("lacking", ["supportedVersions", "capabilities"])
def test_a_result_without_its_required_parts_is_refused(lacking):
    with pytest.raises(InvalidResponse, match=lacking):
        discover.check_result(None, {}, {k: v for k, v in GOOD.items() if k != lacking}, None)


def test_hints_that_are_missing_or_wrong_do_not_keep_a_client_away():
    discover.check_result(None, {}, {"supportedVersions": [MODERN], "capabilities": {}}, None)
