"""runtime/typing/marks: what other packages' objects say in `Annotated` is kept, or refused; never lost.

The stand-ins have the shapes of pydantic's and of annotated-types' objects; the objects themselves are met in
tests/interop/test_pydantic.py.
"""

import re
from types import SimpleNamespace
from typing import Annotated

import jsonschema
import pytest

from mcp_ref import Bounds, Context, ErrorResponse, Server, connect
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Compiler


class Limit:
    """Shaped as annotated_types.Ge and the like: one attribute, in a slot."""

    def __init__(self, **limits):
        self.__dict__.update(limits)


class Group(Limit):
    """Shaped as annotated_types.GroupedMetadata: an iterable of others."""

    __is_annotated_types_grouped_metadata__ = ()

    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


class FieldInfo(Limit):
    """Shaped as pydantic.fields.FieldInfo."""

    def __init__(self, *metadata, required=True, **said):
        empty = dict.fromkeys(("title", "description", "examples", "alias", "json_schema_extra"))
        super().__init__(metadata=list(metadata), required=required, **(empty | said))

    def is_required(self):
        return self.required


class Doc(Limit):
    """Shaped as typing_extensions.Doc."""


def made(hint, *marks):
    codec = Compiler().codec(Annotated[hint, *marks])
    jsonschema.Draft202012Validator.check_schema(codec.schema)
    return codec


@pytest.mark.parametrize(
    ("hint", "mark", "keywords", "good", "bad"),
    [
        (int, FieldInfo(Limit(ge=1)), {"minimum": 1}, 1, 0),
        (int, FieldInfo(Limit(gt=1), Limit(le=3)), {"exclusiveMinimum": 1, "maximum": 3}, 2, 4),
        (float, FieldInfo(Limit(lt=1)), {"exclusiveMaximum": 1}, 0.5, 1),
        (int, FieldInfo(Limit(multiple_of=5)), {"multipleOf": 5}, 10, 11),
        (str, FieldInfo(Limit(min_length=1)), {"minLength": 1}, "a", ""),
        (list[int], FieldInfo(Limit(max_length=1)), {"maxItems": 1}, [1], [1, 2]),
        (str, FieldInfo(Limit(pattern="^a")), {"pattern": "^a"}, "ab", "ba"),
        (str, FieldInfo(Limit(pattern=re.compile("^a"))), {"pattern": "^a"}, "ab", "ba"),
        (int, FieldInfo(FieldInfo(Limit(ge=1))), {"minimum": 1}, 1, 0),
        (int, FieldInfo(Limit(strict=True), Limit(ge=1)), {"minimum": 1}, 1, 0),
        (float, FieldInfo(Limit(allow_inf_nan=False), Limit(ge=1)), {"minimum": 1}, 1, 0),
        (int, Group(Limit(ge=1), Limit(le=3)), {"minimum": 1, "maximum": 3}, 3, 4),
        (int, FieldInfo(Group(Limit(ge=1))), {"minimum": 1}, 1, 0),
        (int | None, FieldInfo(Limit(ge=1)), {"minimum": 1}, None, 0),
    ],
)
def test_the_limits_of_another_package_are_in_the_schema_and_kept(hint, mark, keywords, good, bad):
    codec = made(hint, mark)
    assert keywords.items() <= codec.schema.items()
    codec.load(good)
    with pytest.raises(Mismatch):
        codec.load(bad)


@pytest.mark.parametrize(
    ("mark", "schema"),
    [
        (
            FieldInfo(title="Size", description="How much", examples=[1]),
            {"title": "Size", "description": "How much", "examples": [1]},
        ),
        (FieldInfo(json_schema_extra={"x-unit": "m"}), {"x-unit": "m"}),
        (FieldInfo(deprecated=True), {"deprecated": True}),
        (Limit(ge=1, description="How much"), {"minimum": 1, "description": "How much"}),
        (Doc(documentation="How much"), {"description": "How much"}),
    ],
)
def test_what_they_say_for_people_is_in_the_schema(mark, schema):
    assert made(int, mark).schema == {"type": "integer", **schema}


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (Limit(func=str.isdigit), "func"),
        (FieldInfo(Limit(func=str.isdigit)), "func"),
        (Group(Limit(min_length=1), Limit(strip_whitespace=True)), "strip_whitespace"),
        (Limit(min_length=1, to_upper=True), "to_upper"),
        (FieldInfo(Limit(max_digits=3)), "max_digits"),
        (FieldInfo(Limit(decimal_places=0)), "decimal_places"),
        (Limit(tz=None, uuid_version=4), "uuid_version"),
        (FieldInfo(alias="other"), "alias"),
        (FieldInfo(json_schema_extra=print), "json_schema_extra"),
        (FieldInfo(json_schema_extra={"minLength": 5}), "says minLength, which is shown and not checked"),
        ({"minLength": 5, "examples": ["x"]}, "says minLength, which is shown and not checked"),
        ({"enum": ["a", "b"]}, "says enum, which is shown and not checked"),
        (Bounds, "Bounds in Annotated says no limit"),
        (FieldInfo(discriminator="kind"), "discriminator"),
        (FieldInfo(required=False), r"default: write it behind the parameter"),
        (Limit(pattern=re.compile("a", re.IGNORECASE)), "flags"),
        (Limit(ge=1), "ge=1 means nothing for a string"),
    ],
)
def test_what_cannot_be_kept_is_refused_when_the_function_is_registered(mark, said):
    def tool(a: Annotated[str, mark]) -> str:
        return a

    with pytest.raises(TypeError, match=rf"tool: .*{said}"):
        Server("marks").add_tool(tool)


@pytest.mark.parametrize("module", ["pydantic.types", "annotated_types", "pydantic"])
def test_an_object_of_these_packages_that_says_nothing_known_is_refused(module):
    kind = type("Odd", (), {"__module__": module})
    with pytest.raises(TypeError, match=f"{re.escape(module)}\\.Odd"):
        made(int, kind())


@pytest.mark.parametrize(
    "mark",
    [None, 5, object(), SimpleNamespace(dependency=print), int, ("a",)],
    ids=["None", "number", "object", "dependency", "class", "tuple"],
)
def test_an_object_of_anybody_else_says_nothing(mark):
    assert made(int, mark).schema == {"type": "integer"}


def test_a_description_in_a_mark_counts_more_than_the_docstring():
    server = Server("marks")

    @server.tool
    def add(a: Annotated[int, FieldInfo(Limit(ge=1), description="mine")], b: int, ctx: Context) -> int:
        """Add.

        Args:
            a: not this
            b: this
        """
        return a + b

    with connect(server) as client:
        (tool,) = client.list_tools()
    properties = tool["inputSchema"]["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 1, "description": "mine"}
    assert properties["b"] == {"type": "integer", "description": "this"}


def test_a_call_that_breaks_such_a_limit_does_not_reach_the_function():
    server, called = Server("marks"), []

    @server.tool
    def add(a: Annotated[int, FieldInfo(Limit(ge=1))]) -> None:
        called.append(a)

    @server.prompt
    def review(line: Annotated[int, FieldInfo(Limit(ge=1))]) -> str:
        called.append(line)
        return "x"

    with connect(server) as client:
        result = client.call_tool("add", {"a": 0})
        assert result.is_error and "a: must be at least 1, not 0" in result.text
        with pytest.raises(ErrorResponse, match="line: must be at least 1, not 0"):
            client.get_prompt("review", {"line": "0"})
    assert called == []
