"""Arguments of tools that go into headers, as a client knows and sends them."""

import pytest
from peers import PATIENCE, Notes, raw_server
from web import opened, talking, text, web

from mcp_ref import Server, connect
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.transports.streamable_http import client_behavior as tool_headers
from mcp_ref.runtime.errors import (
    LocalError,
    RequestTimeout,
)


def plain(request, wire):
    wire.result(request, text("hello"))


TOOL = {
    "name": "query",
    "inputSchema": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "sql": {"type": "string"}},
    },
}
BAD = {
    "name": "bad",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}},
}


def lists(*tools):
    """A modern server with these tools, and the handler that it uses for the rest."""

    def handle(request, wire, rest=plain):
        if request.rpc == "tools/list":
            found = {"resultType": "complete", "tools": list(tools), "ttlMs": 0, "cacheScope": "private"}
            wire.result(request, found)
        else:
            opened(rest)(request, wire)

    return handle


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-supported",
    "basic/transports/streamable-http/x-mcp-header-mirrored",
    "basic/transports/streamable-http/inspect-input-schema",
    "basic/transports/streamable-http/append-param-headers",
    "basic/transports/streamable-http/append-encoded-values",
)
@pytest.mark.parametrize("listed", [True, False])
def test_arguments_go_into_headers_where_the_tool_says_so(listed):
    with web(lists(TOOL)) as site, connect(site.url) as client:
        if listed:
            client.list_tools()
        client.call_tool("query", {"region": "eu w\u00fc", "sql": "select"})
        client.call_tool("query", {"sql": "select"})
        client.call_tool("query", {"region": "eu"})
        first, second, third = site.of("tools/call")
        assert first.headers["mcp-param-region"] == "=?base64?ZXUgd8O8?="
        assert "mcp-param-region" not in second.headers
        assert third.headers["mcp-param-region"] == "eu"
        assert not any("mcp-param-sql" in r.headers for r in (first, second, third))
        assert len(site.of("tools/list")) == 1, "asked for once, and only if it was not known"


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-reject-tool",
    "basic/transports/streamable-http/x-mcp-header-exclude-tool",
    "basic/transports/streamable-http/x-mcp-header-warn",
)
def test_a_tool_whose_marks_break_a_rule_is_left_out_with_a_warning(caplog):
    with web(lists(BAD, TOOL)) as site, connect(site.url) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["query"]
    assert "left out the tool 'bad'" in caplog.text


def test_an_argument_that_fits_into_no_header_is_an_error_before_anything_is_sent():
    with web(lists(TOOL)) as site, connect(site.url) as client:
        with pytest.raises(LocalError, match="region"):
            client.call_tool("query", {"region": [1]})
        assert site.of("tools/call") == []


@pytest.mark.spec("basic/transports/streamable-http/header-mismatch-refresh")
@pytest.mark.parametrize("how", ["wait", "future"])
def test_a_call_that_is_refused_for_its_headers_is_sent_again_with_those_of_the_tool_as_it_is_now(how):
    tools = [{"name": "query", "inputSchema": {"type": "object"}}]

    def rest(request, wire):
        if request.rpc == "tools/call" and "mcp-param-region" not in request.headers:
            wire.error(request, -32020, "Header mismatch: Mcp-Param-Region", 400)
        else:
            plain(request, wire)

    with web(lambda request, wire: lists(*tools)(request, wire, rest)) as site, connect(site.url) as client:
        client.list_tools()
        tools[:] = [TOOL]
        if how == "wait":
            assert client.call_tool("query", {"region": "eu"}).text == "hello"
        else:
            params = {"name": "query", "arguments": {"region": "eu"}}
            assert client.submit("tools/call", params).result(PATIENCE).text == "hello"
        assert [r.headers.get("mcp-param-region") for r in site.of("tools/call")] == [None, "eu"]


@pytest.mark.parametrize("how", ["wait", "future"])
def test_it_is_sent_again_once_and_no_more(how):
    def rest(request, wire):
        wire.error(request, -32020, "Header mismatch: no", 400)

    with web(lambda request, wire: lists(TOOL)(request, wire, rest)) as site, connect(site.url) as client:
        with pytest.raises(ErrorResponse, match="Header mismatch"):
            if how == "wait":
                client.call_tool("query")
            else:
                client.submit("tools/call", {"name": "query"}).result(PATIENCE)
        assert len(site.of("tools/call")) == 2


def test_in_the_legacy_era_marks_mean_nothing():
    def handle(request, wire):
        if request.rpc == "tools/list":
            wire.result(request, {"tools": [TOOL, BAD]})
        else:
            plain(request, wire)

    with talking(handle, "2025-11-25") as (site, client):
        assert len(client.list_tools()) == 2
        client.call_tool("query", {"region": "eu"})
        assert "mcp-param-region" not in site.of("tools/call")[0].headers


@pytest.mark.spec("basic/transports/streamable-http/x-mcp-header-ignored-elsewhere")
def test_on_a_pipe_marks_mean_nothing():
    server = Server("x", version="1")

    @server.tool
    def add(a: int) -> int:
        return a

    with connect(server) as client:
        assert not client.repeats_arguments
        assert client.call_tool("add", {"a": 1}).structured == {"result": 1}
        assert client.mirrored == {}


def test_what_was_found_out_of_a_tool_is_kept_until_it_is_another_one():
    with web(lists(TOOL)) as site, connect(site.url) as client:
        first = tool_headers.mirrored(client, "query", None)
        assert first == {"region": ("region",)}
        assert len(site.of("tools/list")) == 1
        assert tool_headers.mirrored(client, "query", None) is first
        client.list_tools()
        assert tool_headers.mirrored(client, "query", None) is not first


def silent_list(request, wire):
    """A server that says nothing of its tools."""
    if request.rpc == "tools/list":
        wire.site.over.wait(10)
    else:
        opened(plain)(request, wire)


def endless_list(request, wire):
    """One whose list of tools has no end."""
    if request.rpc == "tools/list":
        cursor = int(request.message["params"].get("cursor", 0)) + 1
        tools = [{"name": f"tool{cursor}", "inputSchema": {"type": "object"}}]
        more = {"tools": tools, "nextCursor": str(cursor), "ttlMs": 0, "cacheScope": "private"}
        wire.result(request, {"resultType": "complete", **more})
    else:
        opened(plain)(request, wire)


@pytest.mark.parametrize("handle", [silent_list, endless_list])
def test_the_list_of_tools_is_fetched_in_the_time_of_the_call_that_wants_it(handle):
    with web(handle) as site, connect(site.url, timeout=30) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("query", {}, timeout=0.3)
        assert site.of("tools/list")
        assert not site.of("tools/call")


def test_a_future_waits_for_no_list_of_tools():
    with web(silent_list) as site, connect(site.url, timeout=30) as client:
        future = client.submit("tools/call", {"name": "query", "arguments": {}})
        site.asked(lambda r: r.rpc == "tools/list")
        assert future.cancel()
        assert not site.of("tools/call")


def test_other_errors_and_other_requests_are_not_sent_again():
    def handle(request, wire):
        code = -32602 if request.rpc == "tools/call" else -32020
        wire.error(request, code, "no", 400)

    with talking(handle) as (site, client):
        with pytest.raises(ErrorResponse):
            client.call_tool("a")
        with pytest.raises(ErrorResponse):
            client.get_prompt("a")
        assert len(site.of("tools/call")) == len(site.of("prompts/get")) == 1


@pytest.mark.parametrize("wait", [True, False])
def test_on_a_pipe_where_no_header_can_be_wrong_nothing_is_sent_again(wait):
    script = """
        open_modern()
        while True:
            request = receive()
            error(request, -32020, "Header mismatch")
    """
    notes = Notes()
    with connect(raw_server(script), on_stderr=notes) as client:
        with pytest.raises(ErrorResponse):
            if wait:
                client.request("tools/call", {"name": "query", "arguments": {}})
            else:
                client.submit("tools/call", {"name": "query", "arguments": {}}).result(PATIENCE)
        with pytest.raises(ErrorResponse):
            client.request("vendor/last")
    assert [note["method"] for note in notes.all] == ["server/discover", "tools/call", "vendor/last"]
