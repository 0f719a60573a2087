"""Arguments that go into headers (page: basic/transports/streamable-http, "Schema Extension")."""

from __future__ import annotations

import copy
import json
import logging
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import LEGACY, MODERN, PATIENCE, Notes, RawClient, raw_server
from web import LIMITS, opened, talking, text, web

from mcp_ref import ClientOptions, Server, connect
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.transports.streamable_http.http_errors import RefusedByStatus
from mcp_ref.basic.transports.streamable_http.schema_extension import (
    MAX_PARTS,
    BadAnnotation,
    annotated,
    annotated_by_us,
    is_about_headers,
    usable,
)
from mcp_ref.runtime.errors import LocalError, RequestTimeout

REGION = {"type": "string", "x-mcp-header": "Region"}


def schema(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


def named(name: Any) -> Json:
    return schema(value={"type": "string", "x-mcp-header": name})


def wrong(input_schema: Json) -> str:
    with pytest.raises(BadAnnotation) as problem:
        annotated(input_schema)
    assert len(str(problem.value)) < 300
    return str(problem.value)


# -- what is found ---------------------------------------------------------------------------------


@pytest.mark.spec("basic/transports/streamable-http/inspect-input-schema")
def test_annotated_properties_are_found_with_their_paths():
    inner = schema(limit={"type": "integer", "x-mcp-header": "Limit"}, other={"type": "string"})
    found = annotated(
        schema(
            region=REGION,
            query={"type": "string"},
            dry={"type": "boolean", "x-mcp-header": "X-Dry.Run_1"},
            options=inner,
            deep=schema(deeper=schema(x={"type": "string", "x-mcp-header": "x", "enum": ["a"]})),
        )
    )
    assert found == {
        "region": ("region",),
        "x-dry.run_1": ("dry",),
        "limit": ("options", "limit"),
        "x": ("deep", "deeper", "x"),
    }


@pytest.mark.parametrize(
    "nothing", [{}, {"type": "object"}, schema(), schema(a=True, b={"type": "array"}), True, [], None]
)
def test_most_schemas_have_none(nothing):
    assert annotated(nothing) == {}


# -- the name --------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-not-empty", "server/tools/x-mcp-header-not-empty"
)
def test_a_name_is_not_empty():
    assert wrong(named("")) == "value: x-mcp-header '' is no name for a header: letters, digits, -"


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-token",
    "server/tools/x-mcp-header-token",
    "basic/transports/streamable-http/x-mcp-header-no-control",
    "server/tools/x-mcp-header-no-control",
    "basic/transports/streamable-http/x-mcp-header-ascii",
    "server/tools/x-mcp-header-ascii-draft",
)
@pytest.mark.parametrize("character", [*' \t\r\n\0\x1f\x7f():;<=>?@[\\]{}",/é', "世", "\u2028", "\ud800"])
def test_a_name_is_a_token(character):
    for name in (f"a{character}b", f"{character}b", f"a{character}", character):
        assert "is no name for a header" in wrong(named(name))


@pytest.mark.spec("basic/transports/streamable-http/x-mcp-header-token", "server/tools/x-mcp-header-token")
def test_a_name_may_have_every_character_of_a_token():
    characters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert list(annotated(named(characters))) == [characters.lower()]


@pytest.mark.spec("basic/transports/streamable-http/x-mcp-header-token", "server/tools/x-mcp-header-token")
@pytest.mark.parametrize("name", [None, 5, True, [], ["Region"], {}, {"x-mcp-header": "a"}, 10**4000])
def test_a_name_is_a_string(name):
    assert "is no name for a header" in wrong(named(name))


@pytest.mark.spec("basic/transports/streamable-http/x-mcp-header-unique", "server/tools/x-mcp-header-unique")
@pytest.mark.parametrize("other", ["Region", "region", "REGION"])
def test_a_name_stands_once_whatever_its_case(other):
    said = wrong(schema(a=schema(b=REGION), c={"type": "integer", "x-mcp-header": other}))
    assert said == f"c: x-mcp-header '{other}' is that of a.b already"


# -- the type --------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-primitive",
    "server/tools/x-mcp-header-primitive",
    "basic/transports/streamable-http/x-mcp-header-primitive-with-number",
    "server/tools/x-mcp-header-number-draft",
)
@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_a_string_an_integer_or_a_boolean_may_go_into_a_header(kind):
    assert annotated(schema(a={"type": kind, "x-mcp-header": "A"})) == {"a": ("a",)}


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-primitive", "server/tools/x-mcp-header-primitive"
)
@pytest.mark.parametrize(
    "kind", ["number", "object", "array", "null", "String", "", None, 5, ["string", "null"], ["string"], {}]
)
def test_nothing_else_may(kind):
    said = wrong(schema(a={"type": kind, "x-mcp-header": "A"}))
    assert said == f"a: x-mcp-header is for type string, integer or boolean, not {kind!r}"


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-primitive", "server/tools/x-mcp-header-primitive"
)
@pytest.mark.parametrize(
    "rest", [{}, {"enum": ["a"]}, {"anyOf": [{"type": "string"}]}, {"$ref": "#/$defs/R"}]
)
def test_the_type_is_said(rest):
    assert "not 'none'" in wrong(
        {**schema(a={"x-mcp-header": "A", **rest}), "$defs": {"R": {"type": "string"}}}
    )


# -- the place -------------------------------------------------------------------------------------

ELSEWHERE = [
    REGION,
    {"items": REGION},
    {"items": [REGION]},
    {"items": schema(a=REGION)},
    {"prefixItems": [{}, REGION]},
    {"contains": REGION},
    {"additionalItems": REGION},
    {"unevaluatedItems": REGION},
    {"oneOf": [{}, REGION]},
    {"anyOf": [schema(a=REGION)]},
    {"allOf": [schema(a=schema(b=REGION))]},
    {"not": REGION},
    {"if": schema(a=REGION)},
    {"then": schema(a=REGION)},
    {"else": schema(a=REGION)},
    {"patternProperties": {"^a": REGION}},
    {"patternProperties": {"default": REGION}},
    {"additionalProperties": REGION},
    {"unevaluatedProperties": REGION},
    {"propertyNames": REGION},
    {"dependentSchemas": {"a": schema(b=REGION)}},
    {"dependencies": {"a": schema(b=REGION)}},
    {"contentSchema": REGION},
    {"$defs": {"R": REGION}},
    {"definitions": {"R": REGION}},
    {"$defs": {"enum": {"properties": {"a": REGION}}}},
    {"unknown": {"properties": {"a": REGION}}},
]


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-reachable",
    "server/tools/x-mcp-header-reachable",
    "basic/transports/streamable-http/x-mcp-header-no-indirection",
)
@pytest.mark.parametrize("place", ELSEWHERE, ids=lambda place: json.dumps(place)[:40])
def test_only_properties_lead_to_an_annotation(place):
    """At the root, below a property, and below one of that."""
    for bad in (place, schema(a=schema(b=place))) if place is not REGION else (place,):
        expected = "x-mcp-header 'Region': `properties` alone do not lead there from the root"
        assert wrong({"type": "object", **bad}) == expected


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-reachable", "server/tools/x-mcp-header-reachable"
)
def test_what_a_reference_leads_to_is_not_reached():
    via = {"$ref": "#/$defs/R"}
    assert "do not lead there" in wrong({**schema(a=via), "$defs": {"R": schema(b=REGION)}})


@pytest.mark.parametrize(
    "harmless",
    [
        {"x-mcp-header": {"type": "array"}},
        {"x-mcp-header": REGION},
        {"x-mcp-header": schema(**{"x-mcp-header": {"type": "number"}})},
        {"default": schema(a=REGION)},
        {"const": REGION, "properties": {}},
        {"a": {"const": REGION}},
        {"a": {"enum": [REGION, schema(b=REGION)]}},
        {"a": {"default": REGION}},
        {"a": {"examples": [REGION]}},
        {"a": {"dependentRequired": {"x-mcp-header": ["b"]}}},
        {"a": {"patternProperties": {"x-mcp-header": {"type": "object"}}}},
        {"a": {"required": ["x-mcp-header"], "description": "x-mcp-header"}},
    ],
    ids=lambda harmless: json.dumps(harmless)[:40],
)
def test_a_property_of_that_name_and_what_is_data_are_no_annotations(harmless):
    found = annotated(schema(**harmless))
    straight = {("x-mcp-header",), ("default", "a"), ("const",)}
    assert set(found.values()) <= straight


def test_a_property_may_be_called_like_a_keyword():
    found = annotated(schema(enum=REGION, properties=schema(items={"type": "string", "x-mcp-header": "I"})))
    assert found == {"region": ("enum",), "i": ("properties", "items")}


# -- schemas that mean no good ---------------------------------------------------------------------


def test_a_deep_schema_takes_no_stack():
    deep: Json = REGION
    for _ in range(5000):
        deep = schema(a=deep)
    assert annotated(deep) == {"region": ("a",) * 5000}
    assert len(wrong(schema(a=deep, b=REGION))) < 200
    for _ in range(5000):
        deep = {"items": deep}
    assert "do not lead there" in wrong(deep)


def test_a_schema_without_end_has_one():
    loop: Json = {"type": "object"}
    loop["properties"] = {"a": loop, "b": loop}
    before = time.thread_time()
    assert wrong(loop) == f"the schema has more than {MAX_PARTS} parts"
    assert time.thread_time() - before < 5


KEYWORDS = ["properties", "items", "x-mcp-header", "type", "enum", "default", "$defs", "allOf", "a"]
JSON = st.recursive(
    st.sampled_from(["string", "Region", "", "integer"]) | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5),
    max_leaves=25,
)


@given(JSON)
def test_whatever_stands_in_a_schema_is_read_or_refused(value):
    before = copy.deepcopy(value)
    try:
        found = annotated(value)
    except BadAnnotation as problem:
        assert "x-mcp-header" in str(problem)
    else:
        for name, path in found.items():
            node = value
            for key in path:
                node = node["properties"][key]
            assert node["x-mcp-header"].lower() == name
    assert value == before


# -- the client ------------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-reject-tool",
    "basic/transports/streamable-http/x-mcp-header-exclude-tool",
    "basic/transports/streamable-http/x-mcp-header-warn",
    "server/tools/x-mcp-header-rejected",
    "server/tools/x-mcp-header-excluded",
    "server/tools/x-mcp-header-warned",
)
def test_a_client_leaves_out_what_is_void_and_says_so(caplog):
    good = {"name": "good", "inputSchema": schema(region=REGION)}
    plain = {"name": "plain", "inputSchema": {"type": "object"}}
    bad = {"name": "bad\nname", "inputSchema": named("My Region")}
    number = {"name": "number", "inputSchema": schema(score={"type": "number", "x-mcp-header": "Score"})}
    with caplog.at_level(logging.WARNING, "mcp_ref.http"):
        assert usable([good, bad, plain, number]) == [good, plain]
    assert [record.getMessage() for record in caplog.records] == [
        "left out the tool 'bad\\nname': value: x-mcp-header 'My Region' is no name for a header: "
        "letters, digits, -",
        "left out the tool 'number': score: x-mcp-header is for type string, integer or boolean, "
        "not 'number'",
    ]
    assert usable([{}, {"name": "x", "inputSchema": None}]) == [{}, {"name": "x", "inputSchema": None}]


# -- the author of a tool --------------------------------------------------------------------------


def listed(server: Server, revision: str) -> Json:
    with RawClient(server, revision=revision) as client:
        tools = client.request("tools/list")["result"]["tools"]
        return {tool["name"]: tool["inputSchema"]["properties"] for tool in tools}


def mirrored(server: Server, name: str) -> Any:
    """What the transport asks for."""
    tool = server.tools.get(name)
    assert tool is not None
    return tool.mirrored


@dataclass
class Options:
    limit: Annotated[int, "how many", {"x-mcp-header": "Limit"}]
    dry: Annotated[bool, {"x-mcp-header": "Dry"}] = False


@pytest.mark.spec(
    "basic/transports/streamable-http/x-mcp-header-designate", "server/tools/x-mcp-header-annotation"
)
@pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[-1], MODERN])
def test_a_parameter_is_marked_where_it_is_declared(revision):
    server = Server("tests")

    @server.tool
    def query(
        sql: str,
        options: Options,
        region: Annotated[Literal["eu", "us"], "where", {"x-mcp-header": "Region"}] = "eu",
    ) -> str:
        return f"{sql} {options.limit} {region}"

    properties = listed(server, revision)["query"]
    assert properties["region"] == {
        "type": "string",
        "enum": ["eu", "us"],
        "description": "where",
        "x-mcp-header": "Region",
        "default": "eu",
    }
    assert mirrored(server, "query") == {
        "region": ("region",),
        "limit": ("options", "limit"),
        "dry": ("options", "dry"),
    }


def test_a_schema_by_hand_is_read_too():
    server = Server("tests")

    @server.tool(input_schema=schema(region=REGION))
    def by_hand(arguments: dict[str, Any]) -> str:
        """x-mcp-header"""
        return "x"

    @server.tool
    def plain(text: str) -> str:
        """Says what an x-mcp-header is."""
        return text

    assert mirrored(server, "by_hand") == {"region": ("region",)}
    assert mirrored(server, "plain") == {}


def test_a_tool_with_a_void_mark_is_not_registered():
    server = Server("tests")

    def number(score: Annotated[float, {"x-mcp-header": "Score"}]) -> str: ...

    def several(ids: list[Annotated[int, {"x-mcp-header": "Id"}]]) -> str: ...

    def nullable(region: Annotated[str | None, {"x-mcp-header": "Region"}] = None) -> str: ...

    def spaced(region: Annotated[str, {"x-mcp-header": "My Region"}]) -> str: ...

    for function, why in (
        (number, "the tool number: score: x-mcp-header is for type string, integer or boolean, not 'number'"),
        (several, "the tool several: x-mcp-header 'Id': `properties` alone do not lead there"),
        (nullable, r"the tool nullable: region: x-mcp-header is for .*, not \['string', 'null'\]"),
        (spaced, "the tool spaced: region: x-mcp-header 'My Region' is no name for a header"),
    ):
        with pytest.raises(BadAnnotation, match=why):
            server.tool(function)
    assert server.tools.keys() == []


def test_a_tool_of_ours_has_no_name_that_servers_would_drop():
    tool = {"name": "t", "inputSchema": named("my_region")}
    assert annotated(tool["inputSchema"]) == {"my_region": ("value",)}
    with pytest.raises(
        BadAnnotation, match="the tool t: value: x-mcp-header 'my_region': a header with _ would get lost"
    ):
        annotated_by_us(tool)


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
        assert not client.asker.repeats_arguments
        assert client.call_tool("add", {"a": 1}).structured == {"result": 1}
        assert client.asker.tools._paths == {}


def test_what_was_found_out_of_a_tool_is_kept_until_it_is_another_one():
    with web(lists(TOOL)) as site, connect(site.url) as client:
        first = client.asker.tools.paths(client.asker, "query", None)
        assert first == {"region": ("region",)}
        assert len(site.of("tools/list")) == 1
        assert client.asker.tools.paths(client.asker, "query", None) is first
        client.list_tools()
        assert client.asker.tools.paths(client.asker, "query", None) is not first


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
    def has_arrived(seconds):
        with web(handle) as site, connect(site.url, timeout=30) as client:
            with pytest.raises(RequestTimeout):
                client.call_tool("query", {}, timeout=seconds)
            assert not site.of("tools/call")
            return site.of("tools/list")

    assert any(map(has_arrived, LIMITS))


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


@pytest.mark.parametrize(
    ("code", "status", "is_one"),
    [(-32001, 400, True), (-32001, 404, False), (-32602, 400, False), (-32020, 400, False)],
)
def test_by_the_interim_draft_only_its_own_code_with_status_400_is_about_headers(
    code: int, status: int, is_one: bool
) -> None:
    problem = RefusedByStatus(ErrorResponse(code, "no"), status, url="http://x/")
    assert is_about_headers("tools/call", problem, is_draft=True) is is_one


@pytest.mark.parametrize("wait", [True, False])
def test_on_a_pipe_where_no_header_can_be_wrong_nothing_is_sent_again(wait):
    script = """
        open_modern()
        while True:
            request = receive()
            error(request, -32020, "Header mismatch")
    """
    notes = Notes()
    with connect(raw_server(script), options=ClientOptions(on_stderr=notes)) as client:
        with pytest.raises(ErrorResponse):
            if wait:
                client.request("tools/call", {"name": "query", "arguments": {}})
            else:
                client.submit("tools/call", {"name": "query", "arguments": {}}).result(PATIENCE)
        with pytest.raises(ErrorResponse):
            client.request("vendor/last")
    assert [note["method"] for note in notes.all] == ["server/discover", "tools/call", "vendor/last"]
