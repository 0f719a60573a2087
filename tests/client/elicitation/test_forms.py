"""client/elicitation/forms: what a server may ask for, from hints or from a schema, at each revision."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.basic.versioning import TABLE, revision
from mcp_ref.client.elicitation.forms import BadForm, check_content, fields_of, form_of
from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.runtime.typing.values import Compiler
from mcp_ref.schema import Mismatch, definitions

FORMS = TABLE[2:]
OLD, MIDDLE, NEW = FORMS
T = TypeVar("T")


class Color(enum.Enum):
    DARK_RED = "#800000"
    GREEN = "#00ff00"


class Size(enum.StrEnum):
    SMALL = "small"
    EXTRA_LARGE = "extra-large"


class Day(NamedTuple):
    """No dataclass, and no form."""

    name: str


@dataclasses.dataclass
class Contact:
    name: Annotated[str, "Your full name", Bounds(min_length=1)]
    mail: Annotated[str, Bounds(format="email"), {"title": "E-mail"}]
    age: Annotated[int, Bounds(ge=18)] | None = None
    sure: bool = False


def one(hint, **more):
    """The schema of a form with a field of this hint, as the newest revision has it."""
    return form_of(dataclasses.make_dataclass("Form", [("it", hint)], **more)).schema(NEW)["properties"]["it"]


def refusal(hint):
    with pytest.raises(TypeError) as caught:
        form_of(dataclasses.make_dataclass("Form", [("it", hint)]))
    return str(caught.value)


# --------------------------------------------------------------------------- from hints


@pytest.mark.spec("client/elicitation/flat-primitive-schema")
@pytest.mark.parametrize("at", FORMS, ids=str)
def test_a_dataclass_is_a_form_in_every_revision_that_has_forms(at):
    schema = form_of(Contact).schema(at)
    assert schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Your full name", "minLength": 1},
            "mail": {"type": "string", "format": "email", "title": "E-mail"},
            "age": {"type": "integer", "minimum": 18},
            "sure": {"type": "boolean", "default": False},
        },
        "required": ["name", "mail"],
    }
    params = {"message": "Who are you?", "requestedSchema": schema}
    request = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
    official = {"$ref": "#/$defs/ElicitRequest", "$defs": definitions(at.date)}
    assert jsonschema.Draft202012Validator(official).is_valid(request)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.time, {"type": "string"}),
        (uuid.UUID, {"type": "string"}),
        (decimal.Decimal, {"type": "string"}),
        (pathlib.Path, {"type": "string"}),
        (bytes, {"type": "string"}),
        (
            Annotated[str, Bounds(format="uri", max_length=9)],
            {"type": "string", "format": "uri", "maxLength": 9},
        ),
        (
            Annotated[float, Bounds(ge=0, le=0.5), "How much"],
            {"type": "number", "minimum": 0, "maximum": 0.5, "description": "How much"},
        ),
        (Annotated[int, Bounds(gt=0, lt=9.5)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[int, Bounds(gt=0, lt=10, ge=5, le=7)], {"type": "integer", "minimum": 5, "maximum": 7}),
        (Annotated[uuid.UUID, "Which one"], {"type": "string", "description": "Which one"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Annotated[Literal["a"], "Say a"], {"type": "string", "enum": ["a"], "description": "Say a"}),
        (Size, {"type": "string", "enum": ["small", "extra-large"]}),
        (
            Color,
            {
                "type": "string",
                "oneOf": [{"const": "#800000", "title": "Dark red"}, {"const": "#00ff00", "title": "Green"}],
            },
        ),
        (Literal[Color.GREEN], {"type": "string", "oneOf": [{"const": "#00ff00", "title": "Green"}]}),
        (list[Literal["a", "b"]], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
        (
            list[Annotated[Literal["a"], "Say a"]],
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        ),
        (tuple[Size, ...], {"type": "array", "items": {"type": "string", "enum": ["small", "extra-large"]}}),
        (
            Annotated[set[Color], Bounds(min_length=1, max_length=2), "Which"],
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        {"const": "#800000", "title": "Dark red"},
                        {"const": "#00ff00", "title": "Green"},
                    ]
                },
                "minItems": 1,
                "maxItems": 2,
                "description": "Which",
            },
        ),
    ],
    ids=str,
)
def test_a_hint_is_a_field(hint, schema):
    assert one(hint) == schema
    assert one(hint | None) == schema
    assert one(Annotated[hint | None, {"title": "It"}]) == {**schema, "title": "It"}


@pytest.mark.parametrize(
    "hint",
    [
        Contact,
        Day,
        list[Contact],
        list[str],
        list,
        dict,
        dict[str, int],
        tuple[Size, Size],
        Any,
        None,
        int | str,
        Literal[1, 2],
        Literal["a", 1],
        enum.Enum("Odd", {"ONE": (1, 2)}),
        list[Literal[1]],
        list[int | None],
        Annotated[str, Bounds(format="hostname")],
        Annotated[decimal.Decimal, Bounds(ge=0)],
        Annotated[str, Bounds(ge=1)],
        complex,
        T,
        "Nowhere",
    ],
    ids=str,
)
def test_what_no_form_can_have_is_refused_with_the_field_and_what_is_possible(hint):
    said = refusal(hint)
    assert "Nowhere" in said if hint == "Nowhere" else said.startswith("it: ")
    assert "a field of a form must be a str" in said or hint == "Nowhere"


@pytest.mark.parametrize(
    ("hint", "keyword"),
    [
        (Annotated[float, Bounds(gt=0)], "exclusiveMinimum"),
        (Annotated[int, Bounds(multiple_of=2)], "multipleOf"),
        (Annotated[str, Bounds(pattern="^a")], "pattern"),
        (Annotated[str, {"examples": ["a"]}], "examples"),
    ],
    ids=str,
)
def test_of_a_possible_type_only_what_stands_beside_it_is_refused(hint, keyword):
    said = f"{keyword}: is not a keyword here; the keywords are type, title, description"
    assert refusal(hint).startswith(f"it: {said}")
    with pytest.raises(TypeError, match=f"^value: {said}"):
        form_of(hint)


@pytest.mark.parametrize(
    "kind",
    [
        enum.Enum("Level", ["LOW", "HIGH"]),
        enum.IntEnum("Level", ["LOW", "HIGH"]),
        enum.Enum("Level", {"LOW": 0.5, "HIGH": "1"}),
        enum.Enum("Level", {"LOW": False, "HIGH": True, "LOUD": True}),
    ],
    ids=repr,
)
def test_an_enum_whose_values_are_no_strings_is_asked_for_by_the_names_of_its_members(kind):
    assert one(kind) == {"type": "string", "enum": ["LOW", "HIGH"]}
    assert one(list[kind])["items"] == {"type": "string", "enum": ["LOW", "HIGH"]}
    assert form_of(kind).load({"value": "HIGH"}) is kind.HIGH
    assert form_of(kind | None).load({}) is None
    with pytest.raises(Mismatch, match="value: must be one of 'LOW', 'HIGH'"):
        form_of(kind).load({"value": 1})
    fields = [("one", kind), ("some", set[kind], dataclasses.field(default_factory=lambda: {kind.LOW}))]
    fields += [("other", Annotated[kind, "what it is"], kind.HIGH)]
    form = form_of(dataclasses.make_dataclass("Form", fields))
    loaded = form.load({"one": "LOW", "some": ["HIGH", "LOW"]})
    assert (loaded.one, loaded.some, loaded.other) == (kind.LOW, {kind.LOW, kind.HIGH}, kind.HIGH)
    properties = form.schema(NEW)["properties"]
    assert (properties["some"]["default"], properties["other"]["default"]) == (["LOW"], "HIGH")


def test_choices_that_no_form_can_have_are_refused_with_what_to_write():
    assert "must be strings, or the members of an Enum" in refusal(Literal[1, 2])


def test_defaults_are_written_as_json():
    @dataclasses.dataclass
    class Order:
        size: Size = Size.SMALL
        color: Color = Color.GREEN
        day: datetime.date = datetime.date(2026, 7, 28)
        count: int = 0
        extras: set[Color] = dataclasses.field(default_factory=lambda: {Color.GREEN, Color.DARK_RED})
        note: str | None = None

    schema = form_of(Order).schema(NEW)
    defaults = {name: about.get("default") for name, about in schema["properties"].items()}
    assert "required" not in schema
    assert defaults == {
        "size": "small", "color": "#00ff00", "day": "2026-07-28", "count": 0,
        "extras": ["#800000", "#00ff00"], "note": None,
    }  # fmt: skip
    assert form_of(Order).load({}) == Order()
    assert form_of(Order).load(None) == Order()


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (int, "x"),
        (Annotated[int, Bounds(ge=1)], 0),
        (Annotated[str, Bounds(format="email")], "nobody"),
        (Size, "large"),
        (datetime.datetime, datetime.datetime(2026, 7, 28)),  # a date-time has an offset
    ],
    ids=str,
)
def test_a_default_that_does_not_fit_is_refused(hint, default):
    with pytest.raises(TypeError, match=r"^it: "):
        form_of(dataclasses.make_dataclass("Form", [("it", hint, default)]))


def test_a_typed_dict_is_a_form():
    class Trip(TypedDict):
        where: str
        how: NotRequired[Literal["train", "bike"]]
        when: datetime.date | None

    form = form_of(Trip)
    assert form.schema(NEW)["required"] == ["where"]
    assert form.load({"where": "Bern"}) == {"where": "Bern", "when": None}
    day = datetime.date(2026, 7, 28)
    assert form.load({"where": "Bern", "how": "bike", "when": "2026-07-28"}) == {
        "where": "Bern",
        "how": "bike",
        "when": day,
    }
    with pytest.raises(Mismatch, match=r"^why: is not a field of this form"):
        form.load({"where": "Bern", "why": "?"})


def test_the_form_of_a_type_is_made_once():
    assert form_of(Contact) is form_of(Contact)
    assert form_of(Contact).schema(NEW) is form_of(Contact).schema(NEW)


@pytest.mark.parametrize(
    "what", [3, "Contact", [Contact], Contact("a", "b"), Day, list[str], dict[str, int], int | str]
)
def test_what_is_no_form_at_all_is_refused(what):
    with pytest.raises(TypeError, match="a form must be a dataclass"):
        form_of(what)


# --------------------------------------------------------------- from the type of one field


@pytest.mark.spec("client/elicitation/flat-primitive-schema")
@pytest.mark.parametrize("at", FORMS, ids=str)
@pytest.mark.parametrize(
    ("hint", "about", "content", "value"),
    [
        (int, {"type": "integer"}, 3, 3),
        (str, {"type": "string"}, "Mona", "Mona"),
        (bool, {"type": "boolean"}, False, False),
        (float, {"type": "number"}, 0.5, 0.5),
        (Size, {"type": "string", "enum": ["small", "extra-large"]}, "small", Size.SMALL),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
        (
            datetime.date,
            {"type": "string", "format": "date"},
            "2026-07-28",
            datetime.date(2026, 7, 28),
        ),
        (
            Annotated[int, "How many", Bounds(ge=1)],
            {"type": "integer", "description": "How many", "minimum": 1},
            3,
            3,
        ),
        (
            Annotated[str, {"title": "Your name"}],  # a dict cannot be hashed
            {"type": "string", "title": "Your name"},
            "Mona",
            "Mona",
        ),
    ],
    ids=str,
)
def test_the_type_of_a_field_is_a_form_of_one_field(hint, about, content, value, at):
    form = form_of(hint)
    schema = {"type": "object", "properties": {"value": about}, "required": ["value"]}
    assert form.schema(at) == schema
    loaded = form.load({"value": content})
    assert (loaded, type(loaded)) == (value, type(value))
    for wrong in ({}, None, {"value": []}, {"value": None}, {"value": content, "more": 1}):
        with pytest.raises(Mismatch):
            form.load(wrong)


def test_an_enum_alone_has_the_titles_of_its_members():
    assert form_of(Color).schema(NEW)["properties"]["value"] == {
        "type": "string",
        "oneOf": [{"const": "#800000", "title": "Dark red"}, {"const": "#00ff00", "title": "Green"}],
    }
    assert form_of(Color).load({"value": "#00ff00"}) is Color.GREEN


def test_several_of_a_choice_are_one_field():
    form = form_of(set[Color])
    assert form.schema(NEW)["properties"]["value"]["type"] == "array"
    assert form.load({"value": ["#00ff00", "#00ff00"]}) == {Color.GREEN}


def test_one_field_that_may_be_left_out_is_none_then():
    form = form_of(int | None)
    assert form.schema(NEW) == {"type": "object", "properties": {"value": {"type": "integer"}}}
    assert form.load({}) is None
    assert form.load({"value": 3}) == 3


def test_the_form_of_one_field_is_made_once():
    assert form_of(int) is form_of(int)


def test_bounds_of_one_field_hold_for_its_answer():
    with pytest.raises(Mismatch, match=r"^value: must be at least 1, not 0"):
        form_of(Annotated[int, Bounds(ge=1)]).load({"value": 0})


# ------------------------------------------------------------------------------ answers


def test_content_becomes_an_instance():
    content = {"name": "Mona", "mail": "mona@example.org", "age": 30, "sure": True}
    assert form_of(Contact).load(content) == Contact("Mona", "mona@example.org", 30, True)
    assert form_of(Contact).load({"name": "Mona", "mail": "m@o.na"}) == Contact("Mona", "m@o.na", None, False)


@pytest.mark.spec("client/elicitation/server-validates-data")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"mail": "a@b.c"}, "name: is required"),
        ({"name": "", "mail": "a"}, "name: must be at least 1 long, not ''; mail: must be an e-mail address"),
        ({"name": "a", "mail": "a@b.c", "age": 17}, "age: must be at least 18, not 17"),
        ({"name": "a", "mail": "a@b.c", "age": None}, "age: must be a number, not null"),
        ({"name": "a", "mail": "a@b.c", "admin": True}, "admin: is not a field of this form"),
        ("yes", "must be an object"),
    ],
)
def test_content_that_does_not_fit_is_refused(content, says):
    with pytest.raises(Mismatch) as caught:
        form_of(Contact).load(content)
    assert str(caught.value).startswith(says)


def test_what_a_schema_cannot_say_is_still_checked():
    form = form_of(dataclasses.make_dataclass("Form", [("it", uuid.UUID)]))
    check_content(form.schema(NEW), {"it": "not a UUID"})
    with pytest.raises(Mismatch, match=r"^it: must be a UUID"):
        form.load({"it": "not a UUID"})


def test_the_rules_of_the_class_itself_hold():
    @dataclasses.dataclass
    class Range:
        low: int
        high: int

        def __post_init__(self):
            if self.low > self.high:
                raise ValueError("low is above high")

    assert form_of(Range).load({"low": 1, "high": 2.0}) == Range(1, 2)
    with pytest.raises(Mismatch, match="low is above high"):
        form_of(Range).load({"low": 2, "high": 1})


def test_what_was_chosen_twice_is_in_a_set_once():
    form = form_of(dataclasses.make_dataclass("Form", [("it", set[Size]), ("all", list[Size])]))
    loaded = form.load({"it": ["small", "small"], "all": ["small", "small"]})
    assert (loaded.it, loaded.all) == ({Size.SMALL}, [Size.SMALL, Size.SMALL])


FIELDS = {
    str: st.text(max_size=5),
    int: st.integers(-(2**70), 2**70),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    datetime.date: st.dates(),
    datetime.datetime: st.datetimes(timezones=st.just(datetime.UTC)),
    datetime.time: st.times(),
    uuid.UUID: st.uuids(),
    decimal.Decimal: st.decimals(allow_nan=False, allow_infinity=False, places=2),
    pathlib.Path: st.text("ab/", min_size=1).map(pathlib.Path),
    bytes: st.binary(max_size=4),
    Annotated[str, Bounds(format="email")]: st.emails(),
    Annotated[str, Bounds(min_length=1, max_length=3), "Short"]: st.text(min_size=1, max_size=3),
    Annotated[int, Bounds(gt=0, le=9)]: st.integers(1, 9),
    Literal["a", "b"]: st.sampled_from(["a", "b"]),
    Color: st.sampled_from(Color),
    Size: st.sampled_from(Size),
    list[Color]: st.lists(st.sampled_from(Color)),
    set[Size]: st.sets(st.sampled_from(Size)),
    tuple[Literal["a", "b"], ...]: st.lists(st.sampled_from(["a", "b"])).map(tuple),
    Annotated[frozenset[Color], Bounds(min_length=1)]: st.sets(st.sampled_from(Color), min_size=1).map(
        frozenset
    ),
}
HINTS = list(FIELDS.items())


@settings(deadline=None, max_examples=200)
@given(st.data(), st.lists(st.tuples(st.sampled_from(HINTS), st.booleans()), max_size=4))
def test_what_a_form_asks_for_fits_it_and_comes_back(data, drawn):
    members, values = [], {}
    for number, ((hint, strategy), optional) in enumerate(drawn):
        name = f"field{number}"
        members.append((name, hint | None) if optional else (name, hint))
        values[name] = data.draw(st.none() | strategy if optional else strategy)
    kind = dataclasses.make_dataclass("Drawn", members)
    given_, form = kind(**values), form_of(kind)
    content = {
        name: value for name, value in Compiler().codec(kind).dump(given_).items() if value is not None
    }
    for at in (MIDDLE, NEW):
        check_content(form.schema(at), content)
    assert form.load(content) == given_


# ------------------------------------------------------------------------ from a schema

CHOICE = {"type": "string", "title": "Color", "oneOf": [{"const": "#f00", "title": "Red"}], "default": "#f00"}
SEVERAL = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "default": ["a"]}


def form(**properties):
    return {"type": "object", "properties": properties}


def test_a_schema_goes_out_as_it_is_where_the_revision_has_all_of_it():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **form(
            a=CHOICE,
            b=SEVERAL,
            c={"type": "string", "default": "x"},
            d={"type": "string", "enum": ["a"], "enumNames": ["A"]},
        ),
        "required": ["a"],
    }
    assert form_of(schema).schema(MIDDLE) == form_of(schema).schema(NEW) == schema


@pytest.mark.spec("client/elicitation/enum-legacy-names")
def test_2025_06_18_has_names_for_choices_and_defaults_for_booleans_only():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **form(a=CHOICE, b={"type": "number", "default": 1}, c={"type": "boolean", "default": True}),
    }
    before = str(schema)
    assert form_of(schema).schema(OLD) == form(
        a={"type": "string", "title": "Color", "enum": ["#f00"], "enumNames": ["Red"]},
        b={"type": "number"},
        c={"type": "boolean", "default": True},
    )
    assert str(schema) == before
    assert [f.choices for f in fields_of(form_of(schema).schema(OLD))[:1]] == [(("#f00", "Red"),)]


@pytest.mark.parametrize(
    "what",
    [form(it=SEVERAL), dataclasses.make_dataclass("Form", [("it", list[Size])])],
    ids=["schema", "type"],
)
def test_2025_06_18_cannot_ask_for_several_choices(what):
    with pytest.raises(BadForm, match=r"^properties\.it: .* 2025-06-18"):
        form_of(what).schema(OLD)


@pytest.mark.parametrize("at", TABLE[:2], ids=str)
def test_older_revisions_have_no_forms(at):
    with pytest.raises(BadForm, match=f"there are no forms in {at.date}"):
        form_of(Contact).schema(at)


@pytest.mark.spec("client/elicitation/flat-primitive-schema", "client/elicitation/string-formats")
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({}, "the schema of a form must be"),
        ({**form(), "additionalProperties": False}, "additionalProperties: is not a keyword"),
        ({**form(), "required": ["it"]}, "required: there is no field 'it'"),
        (form(it={"type": "object", "properties": {}}), "properties.it.type: "),
        (form(it={"type": "array", "items": {"type": "object"}}), "properties.it.items.type: "),
        (form(it={"type": "array", "items": {"type": "string"}}), "properties.it.items.enum: "),
        (form(it={"type": "null"}), "properties.it.type: "),
        (form(it={"type": "string", "format": "hostname"}), "properties.it.format: "),
        (form(it={"type": "string", "pattern": "^a"}), "properties.it.pattern: is not a keyword"),
        (
            form(it={"type": "string", "enum": ["a"], "minLength": 1}),
            "properties.it.minLength: is not a keyword",
        ),
        (
            form(it={"type": "number", "exclusiveMinimum": 0}),
            "properties.it.exclusiveMinimum: is not a keyword",
        ),
        (form(it={"type": "string", "default": 5}), "properties.it.default: "),
        (form(it={"type": "number", "default": 5, "maximum": 4}), "properties.it.default: must be at most 4"),
    ],
)
@pytest.mark.parametrize("at", FORMS, ids=str)
def test_a_schema_that_breaks_the_page_is_refused_with_the_place(schema, place, at):
    with pytest.raises(BadForm) as caught:
        form_of(schema).schema(at)
    assert str(caught.value).startswith(place)


def test_the_content_of_a_schema_comes_back_as_it_is():
    content = {"b": ["a"]}
    assert form_of(form(b=SEVERAL)).load(content) is content
    assert form_of(form(b=SEVERAL)).load(None) == {}
    with pytest.raises(Mismatch, match=r"^b\[0\]: "):
        form_of(form(b=SEVERAL)).load({"b": ["c"]})


@pytest.mark.parametrize("at", FORMS, ids=str)
def test_nothing_is_a_plain_confirmation(at):
    assert form_of(None).schema(at) == {"type": "object", "properties": {}}
    assert form_of(None).load(None) == form_of(None).load({}) == {}


def test_a_revision_is_known_by_its_date():
    assert form_of(Contact).schema(revision("2026-07-28")) is form_of(Contact).schema(NEW)
