"""runtime/typing/records: classes of pydantic, attrs and msgspec, as parameters and as results."""

import datetime
import enum
import subprocess
import sys
import textwrap
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import annotated_types as at
import attrs
import jsonschema
import msgspec
import pydantic
import pytest
from peers import REVISIONS

from mcp_ref import InvalidResponse, Server, connect
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Compiler, dump_any


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


@attrs.define
class AttrsNote:
    """A note."""

    text: Annotated[str, at.MinLen(1)]
    day: datetime.date
    color: Color = Color.RED
    tags: list[str] = attrs.Factory(list)
    size: int = attrs.field(default=1, validator=attrs.validators.le(9))
    reply: "AttrsNote | None" = None


class MsgspecNote(msgspec.Struct):
    """A note."""

    text: Annotated[str, msgspec.Meta(min_length=1)]
    day: datetime.date
    color: Color = Color.RED
    tags: list[str] = []
    size: int = 1
    reply: "MsgspecNote | None" = None

    def __post_init__(self):
        if self.size > 9:
            raise ValueError("'size' must be <= 9")


class PydanticNote(pydantic.BaseModel):
    """A note."""

    model_config = pydantic.ConfigDict(extra="forbid")
    text: str = pydantic.Field(min_length=1)
    day: datetime.date
    color: Color = Color.RED
    tags: list[str] = []
    size: int = pydantic.Field(1, le=9)
    reply: "PydanticNote | None" = None


NOTES = [AttrsNote, MsgspecNote, PydanticNote]
DAY = datetime.date(2026, 7, 28)
JSON = {"text": "a", "day": "2026-07-28"}
WHOLE = {**JSON, "color": "r", "tags": [], "size": 1, "reply": None}

every = pytest.mark.parametrize("kind", NOTES)


def codec_of(hint):
    """Its codec, and its schema as a document."""
    compiler = Compiler()
    codec = compiler.codec(hint)
    schema = {**codec.schema, "$defs": compiler.defs}
    jsonschema.Draft202012Validator.check_schema(schema)
    return codec, jsonschema.Draft202012Validator(schema)


def refusal(kind, value):
    with pytest.raises(Mismatch) as caught:
        codec_of(kind)[0].load(value)
    return str(caught.value)


# ------------------------------------------------------------------- what holds for all three


@every
def test_what_is_loaded_is_an_instance_and_what_is_dumped_is_loaded_again(kind):
    codec, schema = codec_of(kind)
    value = {**JSON, "color": "b", "tags": ["x"], "size": 3, "reply": JSON}
    loaded = codec.load(value)
    assert loaded == kind(
        text="a", day=DAY, color=Color.BLUE, tags=["x"], size=3, reply=kind(text="a", day=DAY)
    )
    assert type(loaded.reply) is kind
    dumped = codec.dump(loaded)
    assert dumped == {**value, "reply": WHOLE}
    assert codec.load(dumped) == loaded
    schema.validate(value)
    schema.validate(dumped)
    assert dump_any([loaded]) == [dumped]
    assert codec.dump({"text": "a", "day": DAY}).items() <= WHOLE.items()  # a dict of the members will do


@every
def test_what_the_schema_refuses_is_refused(kind):
    codec, schema = codec_of(kind)
    wrong = [3, None, [], {}, {"text": "a"}, {**JSON, "odd": 1}]
    wrong += [{**JSON, name: value} for name, value in {"text": 3, "tags": "x", "color": "g"}.items()]
    wrong += [{**JSON, "size": "3"}, {**JSON, "size": 1.5}, {**JSON, "text": ""}, {**JSON, "reply": {}}]
    for value in wrong:
        assert not schema.is_valid(value)
        with pytest.raises(Mismatch):
            codec.load(value)


@every
def test_each_fault_has_its_place(kind):
    said = refusal(kind, {"text": 3, "reply": {"text": "a"}})
    assert "text: must be a" in said
    assert "day: is required" in said
    assert "reply.day: is required" in said
    assert "odd: is not known here" in refusal(kind, {**JSON, "odd": 1})


@every
def test_the_rules_of_the_class_itself_hold(kind):
    assert refusal(kind, {**JSON, "size": 10})


@every
def test_what_is_another_thing_cannot_be_dumped(kind):
    codec, _ = codec_of(kind)
    for value in (3, None, SimpleNamespace(text="a", day=DAY), {"text": 3}):
        with pytest.raises(Mismatch):
            codec.dump(value)


@every
def test_the_class_says_what_it_is_and_a_default_is_fresh_each_time(kind):
    codec, schema = codec_of(kind)
    assert schema.schema["$defs"][kind.__name__]["description"] == "A note."
    one, other = codec.load(JSON), codec.load(JSON)
    one.tags.append("x")
    assert other.tags == []


@every
def test_a_union_keeps_the_class(kind):
    codec, _ = codec_of(kind | int | None)
    loaded = codec.load(JSON)
    assert type(loaded) is kind
    assert codec.dump(loaded) == WHOLE
    assert codec.load(3) == codec.dump(3) == 3
    assert codec.load(None) is None


@pytest.mark.parametrize("date", REVISIONS)
@every
def test_a_tool_takes_and_returns_it(kind, date):
    server, seen = Server("notes"), []

    def postpone(note: kind, days: int = 1) -> kind:
        seen.append(note)
        note.day += datetime.timedelta(days=days)
        return note

    def several(note: kind) -> list[kind]:
        return [note, note]

    def untyped(note: kind):
        return note

    for tool in (postpone, several, untyped):
        server.add_tool(tool)
    later = kind(text="a", day=DAY + datetime.timedelta(days=1))
    with connect(server, revision=date) as client:
        for tool in client.list_tools():
            jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
            jsonschema.Draft202012Validator.check_schema(tool.get("outputSchema", {}))
        assert client.call_tool("postpone", {"note": JSON}, returns=kind) == later
        assert type(seen[0]) is kind
        assert (
            client.call_tool("several", {"note": JSON}, returns=list[kind]) == [kind(text="a", day=DAY)] * 2
        )
        assert client.call_tool("untyped", {"note": JSON}, returns=kind) == kind(text="a", day=DAY)
        if date >= "2025-11-25":
            failed = client.call_tool("postpone", {"note": {"text": 3, "day": "2026-07-28"}})
            assert failed.is_error
            assert "note.text: must be a" in failed.text
        with pytest.raises(InvalidResponse, match="what the tool returned is no int"):
            client.call_tool("postpone", {"note": JSON}, returns=int)


def test_none_of_these_packages_is_loaded_by_ours():
    """But for attrs, which jsonschema has use for."""
    code = """
        import sys
        from mcp_ref import Server
        Server("a").add_tool(lambda: 1, name="a")
        print({"pydantic", "msgspec", "annotated_types"} & {*sys.modules})
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


# ----------------------------------------------------------------------------------- attrs


def test_fields_of_attrs_have_the_names_of_its_arguments():
    @attrs.define
    class Private:
        _size: int
        both: int = attrs.field(alias="other")
        computed: int = attrs.field(init=False, default=3)
        of_itself: int = attrs.field(default=attrs.Factory(lambda self: self._size + 1, takes_self=True))

    codec, schema = codec_of(Private)
    assert list(schema.schema["properties"]) == ["size", "other", "of_itself"]
    assert schema.schema["required"] == ["size", "other"]
    loaded = codec.load({"size": 1, "other": 2})
    assert (loaded._size, loaded.both, loaded.computed, loaded.of_itself) == (1, 2, 3, 2)
    assert codec.dump(loaded) == {"size": 1, "other": 2, "of_itself": 2}


def test_a_class_of_attrs_may_have_converters_and_fields_without_a_hint():
    fields = {"x": attrs.field(type=int, converter=float), "y": attrs.field(default=None)}
    codec, _ = codec_of(attrs.make_class("Old", fields))
    loaded = codec.load({"x": 1, "y": [1]})
    assert (type(loaded.x), loaded.y) == (float, [1])


# --------------------------------------------------------------------------------- msgspec


class Cat(msgspec.Struct, tag=True, rename="camel", kw_only=True):
    first_name: str
    lives: Annotated[int, msgspec.Meta(ge=0, description="Left")] = 9
    friends: "list[Cat | Dog]" = msgspec.field(default_factory=list)
    home: str


class Dog(msgspec.Struct, tag="dog"):
    name: str


def test_structs_have_the_names_and_the_tags_of_msgspec():
    codec, schema = codec_of(Cat)
    value = {"type": "Cat", "firstName": "Tom", "home": "x", "friends": [{"type": "dog", "name": "Rex"}]}
    loaded = codec.load(value)
    assert loaded == msgspec.convert(value, Cat)
    assert codec.dump(loaded) == msgspec.to_builtins(loaded)
    cat = schema.schema["$defs"]["Cat"]
    assert cat["required"] == ["type", "firstName", "home"]
    assert cat["properties"]["lives"] == {
        "type": "integer",
        "minimum": 0,
        "description": "Left",
        "default": 9,
    }
    assert codec_of(Cat | Dog)[0].load({"type": "dog", "name": "Rex"}) == Dog("Rex")
    assert refusal(Cat, {**value, "type": "dog"}).startswith("type: must be 'Cat'")
    assert codec_of(Dog)[0].dump({"name": "Rex"}) == {"type": "dog", "name": "Rex"}


def test_a_struct_without_names_in_json_is_refused():
    class Point(msgspec.Struct, array_like=True):
        x: int

    with pytest.raises(TypeError, match="Point is array_like, so that its members have no names in JSON"):
        codec_of(Point)


# -------------------------------------------------------------------------------- pydantic


class Model(pydantic.BaseModel):
    the_name: str = pydantic.Field(alias="theName")
    when: datetime.datetime | None = None
    kind: Literal["a", "b"] = "a"

    @pydantic.computed_field
    def length(self) -> int:
        return len(self.the_name)

    @pydantic.field_validator("the_name")
    @classmethod
    def _no_digits(cls, name):
        if name.isdigit():
            raise ValueError("has digits alone")
        return name


def test_a_model_has_its_aliases_and_its_validators_and_leaves_out_what_it_computes():
    codec, schema = codec_of(Model)
    loaded = codec.load({"theName": "Tom", "when": "2026-07-28T12:00:00Z"})
    dumped = codec.dump(loaded)
    assert dumped == {"theName": "Tom", "when": "2026-07-28T12:00:00Z", "kind": "a"}
    schema.validate(dumped)
    assert codec.dump({"theName": "Tom"}) == {"theName": "Tom", "when": None, "kind": "a"}
    assert refusal(Model, {"theName": "123"}) == "theName: Value error, has digits alone"
    assert refusal(Model, {"theName": "Tom", "kind": "c"}) == "kind: must be 'a' or 'b', not 'c'"
    assert refusal(Model, {"theName": "\ud800"})


def test_definitions_of_several_models_do_not_meet():
    def inner(hint):
        class Inner(pydantic.BaseModel):
            x: hint

        class Outer(pydantic.BaseModel):
            inner: Inner

        return Outer

    one, other = inner(int), inner(str)
    codec, schema = codec_of(tuple[one, other, one])
    value = [{"inner": {"x": 1}}, {"inner": {"x": "a"}}, {"inner": {"x": 2}}]
    schema.validate(value)
    assert not schema.is_valid([value[1], value[0], value[2]])
    assert codec.dump(codec.load(value)) == value


def test_a_model_that_is_no_object_is_one_too():
    class Names(pydantic.RootModel[list[str]]):
        pass

    codec, schema = codec_of(Names)
    assert schema.schema["type"] == "array"
    assert codec.dump(codec.load(["a"])) == ["a"]
    server = Server("names")

    def names() -> Names:
        return Names(["a", "b"])

    server.add_tool(names)
    with connect(server) as client:
        assert client.call_tool("names", returns=Names) == Names(["a", "b"])


def test_a_model_that_cannot_be_read_as_it_is_written_is_refused():
    class Odd(pydantic.BaseModel):
        x: int = pydantic.Field(validation_alias="in", serialization_alias="out")

    with pytest.raises(TypeError, match="Odd reads in, and writes it by another name: use one alias"):
        codec_of(Odd)

    class NoJson(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
        x: SimpleNamespace

    with pytest.raises(TypeError, match="NoJson has no JSON schema: "):
        codec_of(NoJson)


def test_what_fails_within_a_model_is_the_fault_of_the_value():
    class Failing(pydantic.BaseModel):
        x: Any

        @pydantic.field_validator("x")
        @classmethod
        def _fail(cls, value):
            raise RuntimeError("no such x")

        @pydantic.field_serializer("x")
        def _fail_too(self, value) -> int:
            raise RuntimeError("no way out")

    codec, _ = codec_of(Failing)
    assert refusal(Failing, {"x": 1}) == "no such x"
    with pytest.raises(Mismatch, match="no way out"):
        codec.dump(Failing.model_construct(x=1))
