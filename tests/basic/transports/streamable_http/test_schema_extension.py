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
from peers import LEGACY, MODERN, RawClient

from mcp_ref import Server
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.transports.streamable_http.schema_extension import (
    MAX_PARTS,
    BadAnnotation,
    annotated,
    annotated_by_us,
    usable,
)

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
    tool = server.toolbox.get(name)
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
    assert server.toolbox.keys() == []


def test_a_tool_of_ours_has_no_name_that_servers_would_drop():
    tool = {"name": "t", "inputSchema": named("my_region")}
    assert annotated(tool["inputSchema"]) == {"my_region": ("value",)}
    with pytest.raises(
        BadAnnotation, match="the tool t: value: x-mcp-header 'my_region': a header with _ would get lost"
    ):
        annotated_by_us(tool)
