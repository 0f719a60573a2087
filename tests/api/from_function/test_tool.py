"""server/tools, "Data Types": how functions become tools, and what their values become."""

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import logging
import pathlib
import typing
import uuid

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import LEGACY, MODERN, REVISIONS, RawClient, plain

from mcp_ref import Bounds, ClientOptions, Context, Server, connect
from mcp_ref.api.from_function.tool import tool_from
from mcp_ref.basic.index.json_schema_usage import BadSchema
from mcp_ref.runtime.json_text import to_json
from mcp_ref.schema import definitions
from mcp_ref.server import content
from mcp_ref.server.content import ContentBlock, ImageContent, TextContent
from mcp_ref.server.tools import CallToolResult

ICON = {"src": "https://example.org/i.png"}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Movie(typing.TypedDict):
    title: str
    year: typing.NotRequired[int]


class Pair(typing.NamedTuple):
    left: int
    right: str


@dataclasses.dataclass
class Tree:
    value: int
    children: list["Tree"]


def definition(function, **options):
    return tool_from(function, **options).definition


def call(function, arguments=None, date=MODERN, **options):
    """What a client of this revision gets from a tool."""
    server = Server("one")
    server.add_tool(function, name="it", **options)
    with connect(server, revision=date) as client:
        client.list_tools()
        return client.call_tool("it", arguments)


# -- definitions ---------------------------------------------------------------------------------


def test_a_signature_gives_the_input_schema_and_the_docstring_the_description():
    def move(what: str, to: Point, colour: Colour = Colour.RED) -> None:
        """Move something.

        Args:
            what: its name
        """

    tool = definition(move)
    assert tool["name"] == "move"
    assert tool["description"] == "Move something."
    schema = tool["inputSchema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["what", "to"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["what"] == {"type": "string", "description": "its name"}
    assert schema["properties"]["to"]["properties"]["y"] == {"type": "integer", "default": 0}
    assert schema["properties"]["colour"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert "outputSchema" not in tool


@pytest.mark.spec(
    "server/tools/input-schema-no-parameters",
    "server/tools/input-schema-object",
    "server/tools/input-schema-root-object",
)
def test_a_tool_without_parameters_takes_an_empty_object_and_nothing_else():
    def now() -> None: ...

    def later(ctx: Context) -> None: ...

    for function in (now, later):
        assert definition(function)["inputSchema"] == {
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        }


def test_everything_an_author_says_of_a_tool_is_in_its_definition():
    tool = definition(
        lambda: None,
        name="a.b-c_1",
        title="Title",
        description="Says what.",
        icons=[ICON],
        annotations={"readOnlyHint": True},
        meta={"com.example/x": [1]},
    )
    assert tool == {
        "name": "a.b-c_1",
        "title": "Title",
        "description": "Says what.",
        "icons": [ICON],
        "annotations": {"readOnlyHint": True},
        "_meta": {"com.example/x": [1]},
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }


@pytest.mark.spec("server/tools/name-length", "server/tools/name-characters", "server/tools/name-no-special")
@pytest.mark.parametrize("name", ["", "a b", "a,b", "ü", "x" * 129, "a/b", "a\n", "<lambda>"])
def test_a_name_that_no_tool_may_have_is_refused(name):
    with pytest.raises(ValueError, match="tool name"):
        tool_from(lambda: None, name=name)


@pytest.mark.spec("server/tools/name-length", "server/tools/name-characters")
@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "x" * 128, "-", "..."])
def test_a_name_of_the_characters_of_the_page_is_taken(name):
    assert definition(lambda: None, name=name)["name"] == name


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"icons": [{"src": "file:///x"}]}, "src"),
        ({"icons": [{"src": "https://x", "theme": "pink"}]}, "theme"),
        ({"annotations": {"readOnlyHint": "yes"}}, "readOnlyHint"),
        ({"title": 5}, "title"),
        ({"description": 5}, "description"),
        ({"meta": {"io.modelcontextprotocol/x": 1}}, "reserved"),
        ({"meta": {"bad key": 1}}, "_meta"),
        ({"meta": {"x": object()}}, "JSON"),
        ({"meta": {"x": float("nan")}}, "JSON|range"),
        ({"input_schema": {"type": "array"}}, "type"),
        ({"input_schema": {}}, "type"),
        ({"input_schema": True}, "type"),
    ],
    ids=plain,
)
@pytest.mark.spec("server/tools/input-schema-root-object", "server/tools/input-schema-object")
def test_what_a_tool_cannot_say_is_refused_when_it_is_registered(options, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        tool_from(lambda arguments: None, name="x", **options)


async_function = compile("async def f(): pass", "a", "exec")


def test_what_cannot_be_called_with_json_is_refused_when_it_is_registered():
    def positional(a, /): ...

    def many(*values: int): ...

    def odd(a: object(), b: complex): ...

    def secret(a): ...

    secret.__annotations__["a"] = "NotImportable"

    names = {}
    exec(async_function, names)
    for function in (positional, many, odd, secret, names["f"]):
        with pytest.raises(TypeError):
            tool_from(function, name="x")


def test_a_partial_a_method_and_an_object_that_is_called_are_functions_too():
    class Counter:
        def add(self, n: int) -> int:
            """Add."""
            return n + 1

        def __call__(self, n: int) -> int:
            return n + 2

    def three(n: int, m: int) -> int:
        return n * m

    assert call(Counter().add, {"n": 1}).structured == {"result": 2}
    assert call(Counter(), {"n": 1}).structured == {"result": 3}
    assert call(functools.partial(three, m=7), {"n": 3}).structured == {"result": 21}


def test_arguments_arrive_as_real_values_and_results_go_back_the_same_way():
    seen = []

    def take(
        colour: Colour,
        point: Point,
        movie: Movie,
        pair: Pair,
        when: datetime.datetime,
        day: datetime.date,
        key: uuid.UUID,
        price: decimal.Decimal,
        path: pathlib.Path,
        raw: bytes,
        tags: set[str],
        some: int | None = None,
    ) -> dict[str, typing.Any]:
        seen.append([colour, point, movie, pair, when, day, key, price, path, raw, tags, some])
        return {"point": point, "colour": colour, "when": when, "key": key, "raw": raw, "pair": pair}

    arguments = {
        "colour": "blue",
        "point": {"x": 1},
        "movie": {"title": "M", "year": 1931},
        "pair": {"left": 1, "right": "r"},
        "when": "2025-01-02T03:04:05Z",
        "day": "2025-01-02",
        "key": "12345678-1234-5678-1234-567812345678",
        "price": "1.50",
        "path": "/tmp/x",
        "raw": "YWJj",
        "tags": ["a", "b"],
    }
    result = call(take, arguments)
    assert not result.is_error, result.text
    assert seen[0] == [
        Colour.BLUE,
        Point(1, 0),
        {"title": "M", "year": 1931},
        Pair(1, "r"),
        datetime.datetime(2025, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        datetime.date(2025, 1, 2),
        uuid.UUID("12345678-1234-5678-1234-567812345678"),
        decimal.Decimal("1.50"),
        pathlib.Path("/tmp/x"),
        b"abc",
        {"a", "b"},
        None,
    ]
    assert result.structured["point"] == {"x": 1, "y": 0}
    assert result.structured["colour"] == "blue"
    assert result.structured["raw"] == "YWJj"


@pytest.mark.parametrize("date", ["2025-11-25", MODERN])
def test_a_decimal_of_any_length_is_an_argument(date):
    """A Decimal computes with 28 digits unless it is told otherwise: that is no limit of a tool's."""
    server = Server("bank")
    taken = []

    @server.tool
    def pay(amount: decimal.Decimal) -> None:
        taken.append(amount)

    with connect(server, options=ClientOptions(revisions=[date])) as client:
        for amount in ("1" * 29, "1" * 29 + ".25", "1" * 400 + ".25"):
            assert not client.call_tool("pay", {"amount": amount}).is_error
            assert taken.pop() == decimal.Decimal(amount)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (typing.NewType("Metres", float), r"Metres has no JSON form; write the type that it is made of"),
        (typing.TypeVar("Number", int, float), r"~Number has no JSON form; write its types themselves"),
        (collections.abc.Iterator[int], r"Iterator\[int\] has no JSON form; write Iterable\[...\] or list"),
        (
            typing.Annotated[decimal.Decimal, Bounds(ge=0)],
            r"the bound ge=0 would not hold for a Decimal.*: compare it within the function instead",
        ),
    ],
    ids=["NewType", "TypeVar", "Iterator", "Decimal"],
)
def test_a_hint_that_json_cannot_keep_is_refused_with_what_to_write_instead(hint, words):
    def take(size: hint) -> None: ...

    with pytest.raises(TypeError, match=rf"take: size: .*{words}"):
        Server("exotic").add_tool(take)


# -- hand-written schemas ------------------------------------------------------------------------


BY_HAND = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}},
    "required": ["n"],
    "$defs": {"unused": {"title": "kept"}},
}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_tool_with_a_hand_written_schema_takes_one_dict(date):
    server = Server("by hand")
    seen = []

    @server.tool(input_schema=BY_HAND)
    def work(arguments: dict, ctx: Context) -> str:
        seen.append((arguments, ctx.method))
        return "done"

    with RawClient(server, revision=date) as raw:
        (tool,) = raw.request("tools/list")["result"]["tools"]
        assert tool["inputSchema"] == BY_HAND
        assert raw.answer(raw.call("work", {"n": 1, "more": []}))["result"]["content"][0]["text"] == "done"
        assert seen == [({"n": 1, "more": []}, "tools/call")]
        for wrong in ({}, {"n": 0}, {"n": "1"}):
            answer = raw.answer(raw.call("work", wrong))
            assert "error" in answer or answer["result"]["isError"]
        assert len(seen) == 1


def test_a_hand_written_schema_needs_a_function_that_takes_the_arguments():
    with pytest.raises(TypeError, match="one dict"):
        tool_from(lambda: None, name="x", input_schema=BY_HAND)


@pytest.mark.spec(
    "basic/index/schema-valid",
    "basic/index/schema-unsupported-dialect-error",
    "basic/index/ref-no-network-deref",
    "server/tools/input-schema-object",
    "server/tools/ref-requirements",
)
@pytest.mark.parametrize("option", ["input_schema", "output_schema"])
@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "not a valid schema"),
        ({"required": "a"}, "not a valid schema"),
        ({"$schema": "https://example.org/my-dialect"}, "unsupported dialect"),
        ({"$schema": 5}, "unsupported dialect"),
        ({"properties": {"a": {"$ref": "https://example.org/a.json"}}}, "never fetched"),
        ({"properties": {"a": {"$ref": "other.json#/x"}}}, "never fetched"),
        ({"allOf": [{"$dynamicRef": "http://127.0.0.1:1/x"}]}, "never fetched"),
    ],
    ids=str,
)
def test_a_bad_schema_is_refused_when_the_tool_is_registered(option, more, complaint):
    with pytest.raises(BadSchema, match=complaint):
        tool_from(lambda arguments: None, name="x", **{option: {"type": "object", **more}})


@pytest.mark.spec("basic/index/schema-validate-by-dialect")
@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
    ],
)
def test_a_schema_may_name_an_older_dialect(dialect):
    schema = {"$schema": dialect, **BY_HAND}
    assert call(lambda arguments: "x", {"n": 1}, input_schema=schema).text == "x"
    assert call(lambda arguments: "x", {"n": "1"}, input_schema=schema).is_error


# -- output schemas ------------------------------------------------------------------------------


def returning(hint, value):
    def function():
        return value

    function.__annotations__["return"] = hint
    return function


OBJECTS = [
    (Point, Point(1, 2), {"x": 1, "y": 2}),
    (Movie, {"title": "M"}, {"title": "M"}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (Pair, Pair(1, "r"), {"left": 1, "right": "r"}),
    (Tree, Tree(1, [Tree(2, [])]), {"value": 1, "children": [{"value": 2, "children": []}]}),
    (dict, {"a": [1]}, {"a": [1]}),
]
WRAPPED = [
    (int, 5, 5),
    (str, "text", "text"),
    (bool, True, True),
    (float, 0.5, 0.5),
    (list[int], [1, 2], [1, 2]),
    (list[Point], [Point(1, 2)], [{"x": 1, "y": 2}]),
    (int | None, None, None),
    (Colour, Colour.RED, "red"),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (datetime.date, datetime.date(2025, 1, 2), "2025-01-02"),
    (typing.Literal["a", "b"], "b", "b"),
    (typing.Annotated[int, Bounds(ge=0)], 3, 3),
    (Point | Movie, Point(1), {"x": 1, "y": 0}),
    (list[Tree], [Tree(1, [])], [{"value": 1, "children": []}]),
]
SHAPES = [(hint, value, data, False) for hint, value, data in OBJECTS]
SHAPES += [(hint, value, data, True) for hint, value, data in WRAPPED]


@pytest.mark.spec(
    "server/tools/structured-also-text",
    "server/tools/output-schema-conforms",
    "server/tools/output-schema-root-object",
    "server/tools/structured-as-object",
)
@pytest.mark.parametrize(("hint", "value", "data", "wrapped"), SHAPES, ids=lambda v: str(v)[:40])
def test_a_return_type_gives_an_output_schema_that_the_result_keeps(hint, value, data, wrapped):
    tool = tool_from(returning(hint, value), name="x")
    schema = tool.definition["outputSchema"]
    assert schema["type"] == "object"
    result = call(returning(hint, value))
    assert not result.is_error, result.text
    assert result.structured == ({"result": data} if wrapped else data)
    jsonschema.Draft202012Validator(schema).validate(result.structured)
    text = result["content"][0]["text"]
    assert text == (data if isinstance(data, str) else to_json(data))


@pytest.mark.parametrize("date", LEGACY[:2])
def test_revisions_without_structured_content_get_the_text(date):
    assert call(returning(Point, Point(1, 2)), date=date) == {
        "content": [{"type": "text", "text": '{"x":1,"y":2}'}]
    }


WRONG = [
    (int, "five"),
    (int, 5.5),
    (str, None),
    (Point, {"x": "a"}),
    (Movie, {"year": 1}),
    (list[int], [1, "2"]),
    (dict[str, int], {"a": "b"}),
    (typing.Annotated[int, Bounds(ge=0)], -1),
    (Colour, "green"),
    (float, float("nan")),
]


@pytest.mark.spec("server/tools/output-schema-conforms")
@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize(("hint", "value"), WRONG, ids=str)
def test_a_tool_that_returns_what_it_does_not_declare_fails_and_it_is_logged(hint, value, date, caplog):
    caplog.set_level(logging.ERROR, "mcp_ref.tools")
    result = call(returning(hint, value), date=date)
    assert result.is_error
    assert "not as declared" in result.text
    assert result.structured is None
    assert any("does not declare" in record.getMessage() for record in caplog.records)


ODD = {
    "nan": float("nan"),
    "infinity in a list": [1, float("inf")],
    "a lone surrogate": "\ud800",
    "an object of no kind": object(),
    "a function": len,
    "keys that are no text": {1: 2},
}
ODD["a list that holds itself"] = [ODD]


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
@pytest.mark.parametrize("date", [LEGACY[0], MODERN])
def test_a_value_that_is_no_json_is_a_failed_call_not_a_broken_connection(value, date):
    def function():
        return value

    server = Server("odd")
    server.add_tool(function, name="it")
    server.add_tool(lambda: "fine", name="other")
    with connect(server, revision=date) as client:
        result = client.call_tool("it")
        assert result.is_error
        assert client.call_tool("other").text == "fine"


def test_an_author_may_declare_no_output_schema():
    assert "outputSchema" not in definition(returning(int, 5), name="x", output_schema=False)
    result = call(returning(int, 5), output_schema=False)
    assert (result.text, result.structured) == ("5", None)


UNDECLARED = [
    (None, []),
    ("text", [content.text("text")]),
    (5, [content.text("5")]),
    ({"a": [1, None]}, [content.text('{"a":[1,null]}')]),
    (["a", "b"], [content.text("a"), content.text("b")]),
    ([1, "b"], [content.text('[1,"b"]')]),
    ([], [content.text("[]")]),
    (content.text("block"), [content.text("block")]),
    (("a", content.text("b")), [content.text("a"), content.text("b")]),
    (content.image(b"x", "image/png"), [content.image(b"x", "image/png")]),
    (Point(1, 2), [content.text('{"x":1,"y":2}')]),
    ({"content": [content.text("ready")], "isError": True}, [content.text("ready")]),
    ({"content": ["not a block"]}, [content.text('{"content":["not a block"]}')]),
]


@pytest.mark.spec("server/tools/content-always-present")
@pytest.mark.parametrize(("value", "blocks"), UNDECLARED, ids=str)
@pytest.mark.parametrize("date", REVISIONS)
def test_what_was_not_declared_becomes_content_by_what_it_is(value, blocks, date):
    def function():
        return value

    result = call(function, date=date)
    assert result["content"] == blocks
    assert "structuredContent" not in result


CONTENT_HINTS = [TextContent, list[TextContent], TextContent | ImageContent, list[ContentBlock]]
CONTENT_HINTS += [tuple[TextContent, ...], typing.Annotated[TextContent, "said"]]


@pytest.mark.parametrize("hint", CONTENT_HINTS, ids=str)
def test_a_return_type_of_content_declares_no_data(hint):
    block = content.text("said")
    many = typing.get_origin(hint) in (list, tuple)
    assert "outputSchema" not in definition(returning(hint, None), name="x")
    assert call(returning(hint, [block] if many else block))["content"] == [block]


@pytest.mark.spec("server/tools/content-block-types")
@pytest.mark.parametrize("block", [{"type": "text"}, {"type": "image", "data": 5, "mimeType": "x"}])
def test_content_that_is_none_is_a_failed_call_with_its_place(block):
    for value in (block, [content.text("good"), block]):
        result = call(returning(list[ContentBlock], value))
        assert result.is_error
        assert f"content[{1 if isinstance(value, list) else 0}]" in result.text


# -- results that a function makes itself ----------------------------------------------------------


@pytest.mark.parametrize("date", REVISIONS)
def test_a_result_made_by_hand_is_sent_as_it_is(date):
    made = {"content": [content.text("a")], "structuredContent": {"a": 1}, "isError": True, "_meta": {"x": 1}}
    result = call(returning(CallToolResult, made), date=date)
    assert result["content"] == made["content"]
    assert result.is_error
    assert result["_meta"]["x"] == 1
    assert ("structuredContent" in result) == (date >= "2025-06-18")


@pytest.mark.spec("server/tools/content-always-present")
@pytest.mark.parametrize("value", ["text", None, {"content": "x"}, {}, {"content": [{"type": "odd"}]}])
def test_what_is_declared_as_a_result_must_be_one(value):
    result = call(returning(CallToolResult, value))
    assert result.is_error
    assert "not as declared" in result.text


OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.spec("server/tools/output-schema-conforms")
def test_a_hand_written_output_schema_is_kept_by_data_and_by_results():
    def result(value, **options):
        return call(lambda: value, output_schema=OUTPUT, **options)

    assert result({"n": 1}).structured == {"n": 1}
    assert result({"n": 1}).text == '{"n":1}'
    assert result({"content": [], "structuredContent": {"n": 1}}).structured == {"n": 1}
    failed = result({"content": [content.text("no")], "isError": True})
    assert failed.is_error
    assert failed.text == "no"
    for wrong in ({"n": "1"}, {}, None, 5, {"content": []}, {"content": [], "structuredContent": {"n": "x"}}):
        assert result(wrong).is_error
        assert "not as declared" in result(wrong).text


@pytest.mark.spec("server/tools/output-schema-any-root", "server/tools/structured-any-json")
def test_in_the_modern_era_an_output_schema_may_have_any_root():
    schema = {"type": "array", "items": {"type": "integer"}}
    server = Server("array")
    server.add_tool(lambda: [1, 2], name="it", output_schema=schema)
    with connect(server, revision=MODERN) as client:
        assert client.list_tools()[0]["outputSchema"] == schema
        assert client.call_tool("it").structured == [1, 2]


@pytest.mark.spec("server/tools/output-schema-root-object", "server/tools/structured-as-object")
@pytest.mark.parametrize("date", LEGACY)
def test_in_the_legacy_era_a_schema_and_data_of_another_root_are_left_out(date):
    server = Server("array")
    server.add_tool(lambda: [1, 2], name="it", output_schema={"type": "array"})
    with connect(server, revision=date) as client:
        assert "outputSchema" not in client.list_tools()[0]
        result = client.call_tool("it")
        assert result.text == "[1,2]"
        assert "structuredContent" not in result


# -- the table -----------------------------------------------------------------------------------


@pytest.mark.spec("server/tools/name-unique")
def test_a_name_is_taken_once():
    server = Server("tools")
    server.add_tool(lambda: None, name="a")
    with pytest.raises(ValueError, match="replace=True"):
        server.add_tool(lambda: None, name="a")
    with pytest.raises(KeyError, match="among the tools"):
        server.remove_tool("b")


FULL = {
    "name": "full",
    "title": "Full",
    "description": "Everything.",
    "icons": [ICON],
    "annotations": {"readOnlyHint": True, "title": "T"},
    "meta": {"com.example/x": 1},
}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_definition_has_the_fields_of_the_revision_and_no_others(date):
    server = Server("full")
    server.add_tool(returning(Point, Point(1)), **FULL)
    with RawClient(server, revision=date) as raw:
        (tool,) = raw.request("tools/list")["result"]["tools"]
    official = definitions(date)
    assert tool.keys() == official["Tool"]["properties"].keys() - {"execution"}
    schema = {"$ref": "#/$defs/Tool", "$defs": official}
    jsonschema.Draft202012Validator(schema).validate(tool)


@pytest.mark.parametrize("date", REVISIONS)
def test_what_an_author_wrote_into_a_schema_is_never_left_out(date):
    """Also where it has the names of fields that this revision lacks."""
    own = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "icons": {"type": "array"}, "_meta": {"type": "object"}},
        "title": "mine",
        "execution": {"taskSupport": "odd"},
    }
    server = Server("own")
    server.add_tool(lambda arguments: "x", name="it", input_schema=own)
    with RawClient(server, revision=date) as raw:
        assert raw.request("tools/list")["result"]["tools"][0]["inputSchema"] == own


@settings(deadline=None, max_examples=60)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_json_comes_back_as_it_was(value):
    try:
        to_json(value).encode()
    except UnicodeEncodeError:
        return
    tool = tool_from(returning(dict[str, typing.Any], {"value": value}), name="x")
    made, structured = tool.content_of({"value": value})
    assert structured == {"value": value}
    assert made[0]["text"] == to_json({"value": value})


def test_a_tool_may_return_the_empty_tuple():
    def nothing() -> tuple[()]:
        return ()

    tool = tool_from(nothing)
    assert tool.definition["outputSchema"]["properties"]["result"]["maxItems"] == 0


@pytest.mark.parametrize(
    "hint", [list, list[typing.Any], object, list[ContentBlock | str], TextContent | None]
)
def test_blocks_are_content_also_where_the_hint_says_little(hint):
    def tool():
        return [content.text("a"), "b"]

    tool.__annotations__["return"] = hint
    made = tool_from(tool)
    assert "outputSchema" not in made.definition
    assert made.content_of(tool())[0] == [content.text("a"), content.text("b")]


def test_an_authors_own_pattern_is_searched_for_where_a_strangers_would_not_be():
    """Its estimate is exponential; that of a stranger's tool is a Mismatch (tests/server/test_tools.py)."""
    costly = r"^(\w+\s?)+$"
    schema = {"type": "object", "properties": {"words": {"type": "string", "pattern": costly}}}

    def by_hand(arguments: dict[str, str]) -> str:
        return arguments["words"]

    def by_hints(words: typing.Annotated[str, Bounds(pattern=costly)]) -> str:
        return words

    server = Server("demo")
    server.add_tool(by_hand, input_schema=schema)
    server.add_tool(by_hints)
    with connect(server) as client:
        for name in "by_hand", "by_hints":
            assert client.call_tool(name, {"words": "quite a few words"}).text == "quite a few words"
            assert client.call_tool(name, {"words": "quite a few!"}).is_error
