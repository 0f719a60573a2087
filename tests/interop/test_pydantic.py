"""What pydantic and annotated-types say in `Annotated` is kept, or refused: their own objects."""

import decimal
from typing import Annotated, Any, Literal

import annotated_types as at
import pydantic
import pytest

from mcp_ref import Server, connect
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Compiler

KEPT: list[tuple[Any, Any, Any]] = [
    (Annotated[int, pydantic.Field(ge=1)], 1, 0),
    (Annotated[int, pydantic.Field(gt=1, le=3, multiple_of=3, strict=True)], 3, 2),
    (Annotated[float, pydantic.Field(lt=1, allow_inf_nan=False)], 0.5, 1),
    (Annotated[str, pydantic.Field(min_length=1, max_length=2, pattern="^a")], "ab", "ba"),
    (Annotated[str, pydantic.StringConstraints(min_length=1, pattern="^a")], "a", ""),
    (Annotated[list[int], pydantic.Field(max_length=1)], [1], [1, 2]),
    (Annotated[int, at.Ge(1)], 1, 0),
    (Annotated[int, at.Interval(ge=1, lt=3)], 2, 3),
    (Annotated[str, at.Len(1, 2)], "a", "abc"),
    (Annotated[str, at.MinLen(1)], "a", ""),
    (pydantic.PositiveInt, 1, 0),
    (pydantic.conint(ge=1), 1, 0),
    (pydantic.constr(pattern="^a"), "a", "b"),
    (pydantic.FiniteFloat, 1.5, "x"),
    (pydantic.StrictInt, 1, "1"),
    (Annotated[int, pydantic.Strict], 1, "1"),
]


@pytest.mark.parametrize(("hint", "good", "bad"), KEPT, ids=lambda value: str(value)[:60])
def test_limits_are_in_the_schema_as_pydantic_writes_it_and_kept(hint: Any, good: Any, bad: Any) -> None:
    codec = Compiler().codec(hint)
    assert codec.schema == pydantic.TypeAdapter(hint).json_schema()
    codec.load(good)
    with pytest.raises(Mismatch):
        codec.load(bad)


REFUSED: list[Any] = [
    Annotated[int, pydantic.AfterValidator(abs)],
    Annotated[int, pydantic.Field(default=5)],
    Annotated[int, pydantic.Field(default_factory=int)],
    Annotated[int, pydantic.Field(alias="b")],
    Annotated[str, pydantic.StringConstraints(strip_whitespace=True)],
    Annotated[str, pydantic.Field(coerce_numbers_to_str=True)],
    Annotated[decimal.Decimal, pydantic.Field(max_digits=3)],
    Annotated[str, at.Predicate(str.isdigit)],
    Annotated[str, at.Timezone("UTC")],
    Annotated[int, pydantic.WithJsonSchema({"type": "string"})],
    Annotated[int, pydantic.Field(json_schema_extra={"default": 3, "$schema": "zz", "$id": "x"})],
    Annotated[int, pydantic.Field(le=10**400)],
    Annotated[int, pydantic.Field(ge=2, le=1)],
    Annotated[int, at.Ge],
    pydantic.UUID4,
    pydantic.FilePath,
]


@pytest.mark.parametrize("hint", REFUSED, ids=lambda value: str(value)[:60])
def test_what_cannot_be_kept_is_refused_at_the_decorator(hint: Any) -> None:
    def tool(a: int) -> None: ...

    tool.__annotations__["a"] = hint
    with pytest.raises(TypeError, match=r"^.*tool: "):
        Server("marks").add_tool(tool)


@pytest.mark.parametrize(
    ("hint", "default", "line"),
    [
        (int, pydantic.Field(ge=1), r"`a: Annotated\[int, Field\(...\)\]`"),
        (int, pydantic.Field(5, ge=1), r"`a: Annotated\[int, Field\(...\)\] = default`"),
        (Annotated[list[str], "words"], pydantic.Field(), r"`a: Annotated\[list\[str\], Field\(...\)\]`"),
    ],
)
def test_a_field_is_no_default_and_the_line_that_works_is_named(hint: Any, default: Any, line: str) -> None:
    def tool(a: int = default) -> None: ...

    tool.__annotations__["a"] = hint
    with pytest.raises(TypeError, match=f"tool: the default of a is a Field, .* write {line}"):
        Server("marks").add_tool(tool)


def test_a_field_says_its_words_for_people() -> None:
    server = Server("marks")

    @server.tool
    def size(a: Annotated[int, pydantic.Field(ge=1, title="A", description="How much", examples=[3])]) -> int:
        return a

    with connect(server) as client:
        (tool,) = client.list_tools()
        assert client.call_tool("size", {"a": 0}).is_error
        assert client.call_tool("size", {"a": 1}).structured == {"result": 1}
    words = {"title": "A", "description": "How much", "examples": [3]}
    assert tool["inputSchema"]["properties"]["a"] == {"type": "integer", "minimum": 1, **words}


def test_a_discriminator_changes_nothing() -> None:
    """A union finds its alternative by its constants anyway."""
    hint = Annotated[Literal["a"] | Literal["b"], pydantic.Field(description="Which")]
    assert Compiler().codec(hint).load("b") == "b"
