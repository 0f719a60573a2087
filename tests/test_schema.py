"""Schema (page: schema): the shapes of messages, and what each revision makes of them."""

from __future__ import annotations

import importlib
import json
import typing
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import spoilt

from mcp_ref import schema
from mcp_ref.api.context import INPUT_REQUESTS
from mcp_ref.api.server import ROWS
from mcp_ref.basic.lifecycle import InitializeResult
from mcp_ref.basic.versioning import methods
from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.schema import (
    REVISIONS,
    ShapeCompiler,
    checker,
    definitions,
    in_force,
    message_shapes,
    opaque,
    pruner,
    required,
    rows,
    since,
    until,
    was,
)
from mcp_ref.server.content import BLOCKS
from mcp_ref.server.tools import CallToolResult, Tool

OLDEST, MARCH, JUNE, NOVEMBER, NEWEST = REVISIONS
EACH = pytest.mark.parametrize("revision", REVISIONS)


class Inner(TypedDict, total=False):
    always: str
    late: Annotated[str, since(JUNE)]


class Shape(TypedDict, total=False):
    """A shape with each mark once."""

    name: Required[str]
    early: Annotated[int, until(MARCH)]
    between: Annotated[int, since(MARCH), until(JUNE)]
    late: Annotated[Annotated[int, Bounds(ge=0)], since(NOVEMBER)]
    changed: Annotated[list[str], was(str, until=MARCH), was(bool, until=JUNE)]
    must: Annotated[str, required(since=NOVEMBER)]
    must_once: Annotated[str, required(until=OLDEST)]
    inner: Inner
    items: list[Inner]
    either: int | Annotated[str, since(JUNE)]
    author: Annotated[Inner, opaque()]
    more: NotRequired[Shape]


def keys(value, revision):
    return set(pruner(Shape, revision)(value))


def told(shape, revision, value, without=()):
    with pytest.raises(Mismatch) as caught:
        checker(shape, revision, without)(value)
    return str(caught.value)


# --------------------------------------------------------------------------------- marks


@pytest.mark.parametrize(
    ("field", "in_each"),
    [
        ("name", "yyyyy"),
        ("early", "yy---"),
        ("between", "-yy--"),
        ("late", "---yy"),
        ("changed", "yyyyy"),
    ],
)
def test_since_and_until(field, in_each):
    for revision, expected in zip(REVISIONS, in_each, strict=True):
        assert (field in keys({field: 1}, revision)) == (expected == "y"), revision


@pytest.mark.parametrize(
    ("revision", "good", "bad", "said"),
    [
        (OLDEST, "a", True, "must be a string, not true"),
        (MARCH, "a", ["a"], "must be a string, not an array of 1"),
        (JUNE, True, "a", "must be true or false, not 'a'"),
        (NOVEMBER, ["a"], "a", "must be an array, not 'a'"),
        (NEWEST, ["a"], True, "must be an array, not true"),
    ],
)
def test_was(revision, good, bad, said):
    rest = {"name": "n", "must": "m", "must_once": "o"}
    checker(Shape, revision)({**rest, "changed": good})
    assert told(Shape, revision, {**rest, "changed": bad}) == f"changed: {said}"


@pytest.mark.parametrize(
    ("revision", "missing"),
    [
        (OLDEST, ["name", "must_once"]),
        (MARCH, ["name"]),
        (JUNE, ["name"]),
        (NOVEMBER, ["name", "must"]),
        (NEWEST, ["name", "must"]),
    ],
)
def test_required(revision, missing):
    assert told(Shape, revision, {}) == "; ".join(f"{name}: is required" for name in missing)


def test_a_member_of_a_union_has_its_revisions():
    rest = {"name": "n", "must": "m", "must_once": "o"}
    assert told(Shape, MARCH, {**rest, "either": "a"}) == "either: must be an integer, not 'a'"
    checker(Shape, JUNE)({**rest, "either": "a"})


def test_in_force_leaves_only_what_is_no_mark():
    assert in_force(int, OLDEST) is int
    assert in_force(Annotated[int, since(JUNE)], MARCH) is None
    assert in_force(Annotated[int, since(JUNE)], JUNE) is int
    assert in_force(Annotated[int, "text", opaque(), required()], JUNE) == Annotated[int, "text"]
    assert in_force(Annotated[int, was(Annotated[str, "old"], until=JUNE)], MARCH) == Annotated[str, "old"]


def test_revisions_are_compared_by_their_place():
    assert list(REVISIONS) == sorted(REVISIONS)
    with pytest.raises(ValueError, match="2025-01-01"):
        in_force(Annotated[int, since("2025-01-01")], JUNE)
    with pytest.raises(ValueError, match="2025-01-01"):
        definitions("2025-01-01")


# --------------------------------------------------------------------------- definitions


@EACH
def test_every_definition_is_a_json_schema(revision):
    found = definitions(revision)
    assert json.loads(json.dumps(found)) == found
    for shape in found.values():
        jsonschema.Draft202012Validator.check_schema(shape)


@EACH
def test_every_reference_has_its_target(revision):
    found = definitions(revision)
    targets = set()

    def walk(node):
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                targets.add(node["$ref"])
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(found)
    assert targets
    assert targets <= {f"#/$defs/{name}" for name in found}


@EACH
def test_every_field_with_a_mark_is_there_only_in_its_revisions(revision):
    """No mark of ours is left in what is sent."""
    assert "since(" not in repr(definitions(revision))
    assert "$defs" not in str(definitions(revision)["Tool"].get("$defs", ""))


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("Tool", OLDEST, NEWEST),
        ("CallToolRequest", OLDEST, NEWEST),
        ("TextContent", OLDEST, NEWEST),
        ("ProgressToken", OLDEST, NEWEST),
        ("Annotated", OLDEST, OLDEST),
        ("AudioContent", MARCH, NEWEST),
        ("ToolAnnotations", MARCH, NEWEST),
        ("JSONRPCBatchRequest", MARCH, MARCH),
        ("JSONRPCBatchResponse", MARCH, MARCH),
        ("ResourceLink", JUNE, NEWEST),
        ("ContentBlock", JUNE, NEWEST),
        ("ElicitRequest", JUNE, NEWEST),
        ("Icon", NOVEMBER, NEWEST),
        ("ToolExecution", NOVEMBER, NOVEMBER),
        ("InitializeRequest", OLDEST, NOVEMBER),
        ("InitializedNotification", OLDEST, NOVEMBER),
        ("PingRequest", OLDEST, NOVEMBER),
        ("SetLevelRequest", OLDEST, NOVEMBER),
        ("RootsListChangedNotification", OLDEST, NOVEMBER),
        ("JSONRPCError", OLDEST, JUNE),
        ("JSONRPCErrorResponse", NOVEMBER, NEWEST),
        ("DiscoverRequest", NEWEST, NEWEST),
        ("DiscoverResult", NEWEST, NEWEST),
        ("InputRequiredResult", NEWEST, NEWEST),
        ("CacheableResult", NEWEST, NEWEST),
        ("UnsupportedProtocolVersionError", NEWEST, NEWEST),
        ("MissingRequiredClientCapabilityError", NEWEST, NEWEST),
    ],
)
def test_which_revision_defines_what(name, first, last):
    there = [revision for revision in REVISIONS if name in definitions(revision)]
    assert there == list(REVISIONS[REVISIONS.index(first) : REVISIONS.index(last) + 1])


@pytest.mark.parametrize(
    ("name", "field", "first", "last"),
    [
        ("Tool", "inputSchema", OLDEST, NEWEST),
        ("Tool", "annotations", MARCH, NEWEST),
        ("Tool", "title", JUNE, NEWEST),
        ("Tool", "outputSchema", JUNE, NEWEST),
        ("Tool", "icons", NOVEMBER, NEWEST),
        ("Tool", "execution", NOVEMBER, NOVEMBER),
        ("CallToolResult", "structuredContent", JUNE, NEWEST),
        ("CallToolResult", "resultType", NEWEST, NEWEST),
        ("ListToolsResult", "ttlMs", NEWEST, NEWEST),
    ],
)
def test_which_revision_has_which_field(name, field, first, last):
    there = [r for r in REVISIONS if field in definitions(r)[name]["properties"]]
    assert there == list(REVISIONS[REVISIONS.index(first) : REVISIONS.index(last) + 1])


def definitions_of(page):
    return getattr(importlib.import_module(f"mcp_ref.{page}"), "DEFINITIONS", {})


def test_one_name_is_defined_once():
    """The pages' rows share one table: none may replace another's."""
    names = [name for page in schema.PAGES for name in definitions_of(page)]
    assert len(names) == len(set(names))


def test_named_shapes_are_referred_to_and_the_definition_itself_written_out():
    tools = definitions(NEWEST)["ListToolsResult"]["properties"]["tools"]
    assert tools == {"type": "array", "items": {"$ref": "#/$defs/Tool"}}
    assert definitions(NEWEST)["Tool"]["type"] == "object"


def test_definitions_are_made_once():
    assert definitions(JUNE) is definitions(JUNE)


# ------------------------------------------------------------- messages, from the rows

LISTS = {"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
USES = {"tools/call", "prompts/get", "resources/read", "completion/complete"}
SESSION = {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
TASKS = {"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"}
QUESTIONS = {"ping", "sampling/createMessage", "roots/list"}
NOTED = {"cancelled", "progress", "message", "resources/updated"} | {
    f"{kind}/list_changed" for kind in ("tools", "prompts", "resources")
}


def members(union, date):
    """The names of what a union consists of."""
    schema = definitions(date)[union]
    return [part["$ref"].rpartition("/")[2] for part in schema.get("anyOf", [schema])]


def sent(union, date):
    """The methods of the requests or notifications of a union."""
    shapes = [definitions(date)[name]["properties"]["method"] for name in members(union, date)]
    return {shape["const"].removeprefix("notifications/") for shape in shapes}


@pytest.mark.parametrize("date", REVISIONS[:-1])
def test_until_2025_11_25_a_client_asks_within_a_session(date):
    tasks = TASKS if date == "2025-11-25" else set()
    assert sent("ClientRequest", date) == LISTS | USES | SESSION | tasks


def test_in_2026_07_28_a_client_asks_without_a_session():
    assert sent("ClientRequest", NEWEST) == LISTS | USES | {"server/discover", "subscriptions/listen"}


@pytest.mark.parametrize("date", REVISIONS[:-1])
def test_until_2025_11_25_a_server_asks_too(date):
    more = {
        "2024-11-05": set(),
        "2025-03-26": set(),
        "2025-06-18": {"elicitation/create"},
        "2025-11-25": {"elicitation/create"} | TASKS,
    }
    assert sent("ServerRequest", date) == QUESTIONS | more[date]


@pytest.mark.spec("basic/index/requests-client-to-server-only")
def test_in_2026_07_28_there_is_no_request_for_a_server_to_send():
    assert "ServerRequest" not in definitions(NEWEST)
    assert "InputRequiredResult" in members("ServerResult", NEWEST)
    assert members("ClientResult", NEWEST) == ["Result"]


@pytest.mark.parametrize("date", REVISIONS)
def test_which_notifications_a_client_sends(date):
    names = {"cancelled"}
    if date != NEWEST:
        names |= {"initialized", "progress", "roots/list_changed"}
    if date == "2025-11-25":
        names.add("tasks/status")
    assert sent("ClientNotification", date) == names


@pytest.mark.parametrize("date", REVISIONS)
def test_which_notifications_a_server_sends(date):
    more = {
        "2025-11-25": {"tasks/status", "elicitation/complete"},
        NEWEST: {"subscriptions/acknowledged"},
    }
    assert sent("ServerNotification", date) == NOTED | more.get(date, set())


@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize("side", ["Client", "Server"])
def test_each_request_has_its_result_on_the_other_side(side, date):
    other = "Server" if side == "Client" else "Client"
    if f"{side}Request" not in definitions(date):
        return
    results = set(members(f"{other}Result", date))
    empty = {"PingRequest", "SubscribeRequest", "UnsubscribeRequest", "SetLevelRequest"}
    for name in set(members(f"{side}Request", date)) - empty:
        assert name.replace("Request", "Result") in results
    assert "Result" in results  # the empty one, and those of later revisions


@pytest.mark.parametrize("date", REVISIONS)
def test_our_server_answers_what_a_client_may_send(date):
    """Tasks are no method of the server itself."""
    answered = {name for name in methods(ROWS, date) if not name.startswith("tasks/")}
    assert answered == sent("ClientRequest", date) - TASKS


def test_our_client_answers_what_a_server_may_ask():
    answers = {row.name: row.handler for row in rows("METHODS") if row.sender == "server"}
    assert answers == {method: row.answer for method, row in INPUT_REQUESTS.items()}


@EACH
def test_a_message_is_one_of_a_union_by_its_method(revision):
    def load(union, message):
        return ShapeCompiler(revision, refer=False).codec(message_shapes(revision)[union]).load(message)

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add"}}
    if revision == NEWEST:
        meta = {
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        call["params"] = {"name": "add", "_meta": meta}
    load("ClientRequest", call)
    with pytest.raises(Mismatch):
        load("ClientRequest", {**call, "method": "tools/drop"})
    with pytest.raises(Mismatch):
        load("ServerNotification", {"jsonrpc": "2.0", "method": "notifications/initialized"})


@EACH
def test_params_are_required_where_something_in_them_is(revision):
    def needs_params(name):
        return "params" in definitions(revision)[name]["required"]

    assert needs_params("CallToolRequest")
    assert needs_params("CancelledNotification")
    assert needs_params("ListToolsRequest") == (revision == NEWEST)
    assert not needs_params("ListRootsRequest")
    assert not needs_params("ToolListChangedNotification")


@EACH
def test_a_question_in_a_result_has_no_envelope(revision):
    in_envelope = "jsonrpc" in definitions(revision)["ListRootsRequest"]["properties"]
    assert in_envelope == (revision == NOVEMBER)


@EACH
def test_no_page_lists_what_follows_from_the_rows(revision):
    listed = {name for page in schema.PAGES for name in definitions_of(page)}
    assert not listed & set(message_shapes(revision))


# ------------------------------------------------------------------------------- checker

TOOL = {"name": "add", "inputSchema": {"type": "object"}}


@EACH
def test_a_shape_that_fits(revision):
    assert checker(Tool, revision)(TOOL) == TOOL


@EACH
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "must be an object, not an array of 0"),
        (None, "must be an object, not null"),
        ({}, "name: is required; inputSchema: is required"),
        ({**TOOL, "name": 5}, "name: must be a string, not 5"),
        ({**TOOL, "description": None}, "description: must be a string, not null"),
        ({**TOOL, "inputSchema": None}, "inputSchema: must be an object, not null"),
        ({**TOOL, "inputSchema": {"type": "array"}}, "inputSchema.type: must be 'object', not 'array'"),
        ({**TOOL, "inputSchema": {}}, "inputSchema.type: is required"),
    ],
)
@pytest.mark.spec("server/tools/input-schema-object", "server/tools/input-schema-root-object")
def test_a_shape_that_does_not_fit_is_refused_with_the_place(revision, value, said):
    assert told(Tool, revision, value) == said


def test_places_deep_inside():
    result = {"content": [{"type": "text", "text": "a"}, {"type": "text"}]}
    assert told(CallToolResult, NOVEMBER, result) == "content[1].text: is required"
    result = {
        "content": [{"type": "image", "data": "", "mimeType": "", "annotations": {"audience": ["dog"]}}]
    }
    assert told(CallToolResult, NOVEMBER, result) == (
        "content[0].annotations.audience[0]: must be one of 'user', 'assistant', not 'dog'"
    )


def test_a_block_that_an_older_revision_has_not():
    result = {"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}
    checker(CallToolResult, MARCH)(result)
    assert told(CallToolResult, OLDEST, result).startswith("content[0].type: must be 'text', not 'audio'")


def test_fields_that_somebody_else_checks_are_left_out():
    assert "resultType: is required" in told(CallToolResult, NEWEST, {"content": []})
    checker(CallToolResult, NEWEST, ("resultType",))({"content": [], "resultType": 5})


@EACH
@pytest.mark.spec("schema/unknown-fields-tolerated", "schema/capabilities-open-set")
def test_unknown_fields_are_tolerated_and_kept(revision):
    unknown = {"x-vendor": {"deep": [1, None]}, "later": True}
    tool = {**TOOL, **unknown, "inputSchema": {"type": "object", "x": 1}}
    assert checker(Tool, revision)(tool) == tool
    result = {
        "protocolVersion": revision,
        "capabilities": {"tools": {"later": 1}, "experimental": {"a": {}}, "newOne": {"b": 2}},
        "serverInfo": {"name": "a", "version": "1", **unknown},
        **unknown,
    }
    assert checker(InitializeResult, revision)(result) == result


@EACH
@pytest.mark.spec("schema/unknown-fields-tolerated")
def test_no_definition_closes_a_shape_that_the_page_leaves_open(revision):
    assert not [n for n, d in definitions(revision).items() if d.get("additionalProperties") is False]


def test_a_field_of_a_later_revision_counts_as_unknown():
    """Whatever type it has there: an older peer cannot know."""
    assert checker(Tool, OLDEST)({**TOOL, "title": 5})
    assert told(Tool, JUNE, {**TOOL, "title": 5}) == "title: must be a string, not 5"


EXAMPLES: dict[str, tuple[Any, Any]] = {
    "Tool": (
        Tool,
        {
            **TOOL,
            "title": "Add",
            "description": "adds",
            "icons": [{"src": "https://a/b.png", "sizes": ["any"], "mimeType": "image/png"}],
            "outputSchema": {"type": "object", "properties": {"a": {}}, "required": ["a"]},
            "annotations": {"title": "x", "readOnlyHint": True},
            "execution": {"taskSupport": "optional"},
            "_meta": {"a": 1},
        },
    ),
    "CallToolResult": (
        CallToolResult,
        {
            "resultType": "complete",
            "content": [
                {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 0.5}},
                {"type": "image", "data": "AA==", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "file:///a", "blob": "AA=="}},
                {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 5},
            ],
            "structuredContent": {"a": [1]},
            "isError": False,
        },
    ),
    "InitializeResult": (
        InitializeResult,
        {
            "protocolVersion": NOVEMBER,
            "capabilities": {"tools": {"listChanged": True}, "logging": {}, "experimental": {"a": {}}},
            "serverInfo": {"name": "a", "version": "1", "websiteUrl": "https://a"},
            "instructions": "use it",
        },
    ),
}


@settings(deadline=None, max_examples=300)
@given(st.data(), st.sampled_from(REVISIONS), st.sampled_from(sorted(EXAMPLES)))
def test_the_checker_says_what_the_definition_says(data, revision, name):
    if name not in definitions(revision):
        return
    shape, example = EXAMPLES[name]
    value = data.draw(spoilt(example))
    defined = {"$ref": f"#/$defs/{name}", "$defs": definitions(revision)}
    try:
        checker(shape, revision)(value)
        fits = True
    except Mismatch as problem:
        assert str(problem)
        fits = False
    assert fits == jsonschema.Draft202012Validator(defined).is_valid(value)


# -------------------------------------------------------------------------------- pruner


def test_the_pruner_drops_exactly_what_the_revision_has_not():
    deep = {"always": "a", "late": "b", "unknown": "c"}
    value = {
        "name": "n",
        "early": 1,
        "late": 2,
        "inner": deep,
        "items": [deep, {"late": "b"}],
        "author": deep,
        "unknown": {"late": 1},
    }
    assert pruner(Shape, OLDEST)(value) == {
        "name": "n",
        "early": 1,
        "inner": {"always": "a", "unknown": "c"},
        "items": [{"always": "a", "unknown": "c"}, {}],
        "author": deep,
        "unknown": {"late": 1},
    }
    assert pruner(Shape, NEWEST)(value) == {k: v for k, v in value.items() if k != "early"}
    assert value["inner"] == deep == {"always": "a", "late": "b", "unknown": "c"}


def test_nothing_inside_an_opaque_value_is_dropped():
    """An input schema may have a property of any name, `title` and `icons` among them."""
    author = {"type": "object", "title": "T", "properties": {"icons": {"title": "x"}}, "execution": 1}
    tool = {"name": "a", "title": "A", "inputSchema": author, "outputSchema": author, "icons": []}
    assert pruner(Tool, OLDEST)(tool) == {"name": "a", "inputSchema": author}
    assert pruner(Tool, JUNE)(tool) == {
        "name": "a",
        "title": "A",
        "inputSchema": author,
        "outputSchema": author,
    }


def test_where_nothing_is_to_be_dropped_nothing_is_copied():
    class Plain(TypedDict):
        a: int

    value = {"a": 1}
    assert pruner(Plain, OLDEST)(value) is value
    assert pruner(Inner, NEWEST)(value) is value


def test_a_shape_that_holds_itself_is_pruned_at_its_top():
    assert pruner(Shape, NEWEST)({"name": "a", "early": 1}) == {"name": "a"}


@EACH
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_pruned_block_is_one_that_the_revision_defines(revision, kind):
    examples = {
        "text": {"text": "a", "_meta": {}},
        "image": {"data": "", "mimeType": "", "_meta": {}},
        "audio": {"data": "", "mimeType": "", "annotations": {"lastModified": "x"}},
        "resource_link": {"uri": "a:b", "name": "a", "icons": [{"src": "https://a"}]},
        "resource": {"resource": {"uri": "a:b", "text": "", "_meta": {}}, "_meta": {}},
    }
    block = {"type": kind, **examples[kind]}
    pruned = pruner(BLOCKS[kind], revision)(block)
    checker(BLOCKS[kind], revision)(pruned)
    name = BLOCKS[kind].__name__
    if name in definitions(revision):
        known = definitions(revision)[name]["properties"].keys()
        assert pruned.keys() == block.keys() & known


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(REVISIONS), st.sampled_from(sorted(EXAMPLES)))
def test_a_pruned_message_is_pruned_for_good(revision, name):
    shape, example = EXAMPLES[name]
    once = pruner(shape, revision)(example)
    assert pruner(shape, revision)(once) == once


# ------------------------------------------------------------------------------ the module


def test_the_marks_are_values():
    assert since(JUNE) == since(JUNE) != since(MARCH)
    assert required() == required(since=OLDEST, until=NEWEST)


def test_a_forward_reference_is_found_on_any_page():
    """Shapes refer to shapes of pages that import them in turn."""
    compiler = schema.ShapeCompiler(NEWEST, refer=False)
    codec = compiler.codec(typing.ForwardRef("Icon"))
    assert codec.load({"src": "https://a"}) == {"src": "https://a"}
    assert schema._pruner(typing.ForwardRef("Icon"), NEWEST, ()) is None


def test_a_literal_is_a_constant_of_the_wire():
    class Method(TypedDict):
        method: Literal["tools/list"]

    assert told(Method, NEWEST, {"method": "tools/call"}) == "method: must be 'tools/list', not 'tools/call'"
