"""client/elicitation/requested_schema: the fields of a form, and content against them."""

import copy

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import json_values, spoilt
from peers import REVISIONS

from mcp_ref.client.elicitation import requested_schema as fields
from mcp_ref.client.elicitation.requested_schema import (
    BadForm,
    check_content,
    fields_of,
    with_defaults,
)
from mcp_ref.runtime.typing.formats import FORMATS
from mcp_ref.schema import Mismatch, checker, definitions

WITH_FORMS = REVISIONS[2:]
TEXT = {"title": "T", "description": "D"}
FIELDS = {
    "StringSchema": {"type": "string", **TEXT, "minLength": 1, "maxLength": 9, "format": "email"},
    "NumberSchema": {"type": "number", **TEXT, "minimum": 0, "maximum": 1.5},
    "BooleanSchema": {"type": "boolean", **TEXT, "default": True},
    "LegacyTitledEnumSchema": {"type": "string", **TEXT, "enum": ["a", "b"], "enumNames": ["A", "B"]},
    "UntitledSingleSelectEnumSchema": {"type": "string", **TEXT, "enum": ["a", "b"], "default": "a"},
    "TitledSingleSelectEnumSchema": {
        "type": "string",
        **TEXT,
        "oneOf": [{"const": "a", "title": "A"}],
        "default": "a",
    },
    "UntitledMultiSelectEnumSchema": {
        "type": "array",
        **TEXT,
        "minItems": 1,
        "maxItems": 2,
        "items": {"type": "string", "enum": ["a", "b"]},
        "default": ["a"],
    },
    "TitledMultiSelectEnumSchema": {
        "type": "array",
        **TEXT,
        "items": {"anyOf": [{"const": "a", "title": "A"}]},
        "default": ["a"],
    },
}
WRONG = {
    "StringSchema": {"minLength": "1", "format": "ipv4", "type": "text"},
    "NumberSchema": {"minimum": "0", "type": "string"},
    "BooleanSchema": {"default": "yes", "type": "bool"},
    "LegacyTitledEnumSchema": {"enum": [1], "enumNames": "A"},
    "UntitledSingleSelectEnumSchema": {"enum": "ab", "default": 1},
    "TitledSingleSelectEnumSchema": {"oneOf": [{"const": "a"}]},
    "UntitledMultiSelectEnumSchema": {"items": {"type": "string"}, "maxItems": "2", "default": "a"},
    "TitledMultiSelectEnumSchema": {"items": {"anyOf": ["a"]}, "default": [1]},
}


def valid(date, name, value):
    """Whether the schema of this revision takes the value."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": definitions(date)}
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize("date", REVISIONS)
def test_which_kinds_of_fields_there_are(date):
    there = {name for name in fields.DEFINITIONS if name in definitions(date)}
    plain = {"PrimitiveSchemaDefinition", "StringSchema", "NumberSchema", "BooleanSchema", "EnumSchema"}
    if date < "2025-06-18":
        assert not there
    elif date == "2025-06-18":
        assert there == plain
    else:
        assert there == set(fields.DEFINITIONS)


@pytest.mark.spec("client/elicitation/enum-variants", "client/elicitation/flat-primitive-schema")
@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("date", REVISIONS[3:])
def test_each_kind_takes_what_the_page_says(date, name):
    shape = getattr(fields, name)
    checker(shape, date)(FIELDS[name])
    assert valid(date, name, FIELDS[name])
    assert valid(date, "PrimitiveSchemaDefinition", FIELDS[name])


@pytest.mark.spec("client/elicitation/string-formats")
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("date", REVISIONS[3:])
def test_each_kind_refuses_what_is_none(date, name):
    shape = getattr(fields, name)
    for keyword, value in WRONG[name].items():
        wrong = {**FIELDS[name], keyword: value}
        with pytest.raises(Mismatch, match=keyword):
            checker(shape, date)(wrong)
        assert not valid(date, name, wrong)


@pytest.mark.spec("client/elicitation/enum-legacy-names")
def test_the_first_forms_had_defaults_for_booleans_only():
    kinds = {"StringSchema": "", "NumberSchema": 1, "BooleanSchema": True}
    for name, default in kinds.items():
        had = "default" in definitions("2025-06-18")[name]["properties"]
        assert had == isinstance(default, bool)
        assert "default" in definitions("2025-11-25")[name]["properties"]
    enums = definitions("2025-06-18")["EnumSchema"]["properties"]
    assert set(enums) == {"type", "title", "description", "enum", "enumNames"}


@pytest.mark.parametrize("date", WITH_FORMS)
def test_a_number_may_be_a_fraction(date):
    assert valid(date, "NumberSchema", {"type": "number", "minimum": 0.5})


@pytest.mark.spec("client/elicitation/flat-primitive-schema")
@pytest.mark.parametrize("date", WITH_FORMS)
@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "null"},
        {"anyOf": [{"type": "string"}]},
        {},
        "string",
    ],
    ids=repr,
)
def test_a_field_has_no_parts(date, field):
    assert not valid(date, "PrimitiveSchemaDefinition", field)
    shape = fields.RequestedSchema if date == "2025-06-18" else fields.RequestedSchemaNow
    with pytest.raises(Mismatch, match=r"properties\.x"):
        checker(shape, date)({"type": "object", "properties": {"x": field}})


@pytest.mark.parametrize("date", WITH_FORMS)
def test_a_form_is_an_object_with_fields(date):
    shape = fields.RequestedSchema if date == "2025-06-18" else fields.RequestedSchemaNow
    check = checker(shape, date)
    check({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]})
    for wrong in (
        {},
        {"type": "object"},
        {"type": "array", "properties": {}},
        {"type": "object", "properties": []},
    ):
        with pytest.raises(Mismatch):
            check(wrong)


SELECTIONS = {
    "untitled": {"type": "string", "enum": ["a", "b"]},
    "legacy": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
    "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    "several titled": {
        "type": "array",
        "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
    },
}
EVERYTHING = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Yours", "minLength": 2, "maxLength": 4},
        "mail": {"type": "string", "format": "email"},
        "height": {"type": "number", "minimum": 0.5, "maximum": 3},
        "age": {"type": "integer", "minimum": 0, "default": 18},
        "sure": {"type": "boolean", "default": False},
        **SELECTIONS,
        "two": {**SELECTIONS["several"], "minItems": 1, "maxItems": 2, "default": ["b"]},
    },
    "required": ["name", "height"],
}
GOOD = {"name": "Mona", "height": 1.5}


def form(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def fault(schema, content):
    with pytest.raises(Mismatch) as caught:
        check_content(schema, content)
    return str(caught.value)


# ------------------------------------------------------------------------------ fields


def test_fields_are_read_in_their_order_with_all_that_is_said_of_them():
    fields = {field.name: field for field in fields_of(EVERYTHING)}
    assert list(fields) == list(EVERYTHING["properties"])
    name = fields["name"]
    assert (name.title, name.description, name.kind, name.required) == ("Name", "Yours", "string", True)
    assert (name.min_length, name.max_length, name.default, name.choices) == (2, 4, None, ())
    assert (fields["mail"].title, fields["mail"].description, fields["mail"].format) == ("mail", "", "email")
    assert (fields["height"].kind, fields["height"].minimum, fields["height"].maximum) == ("number", 0.5, 3)
    assert (fields["age"].kind, fields["age"].default, fields["age"].required) == ("integer", 18, False)
    assert (fields["sure"].kind, fields["sure"].default) == ("boolean", False)
    assert (fields["two"].min_items, fields["two"].max_items, fields["two"].default) == (1, 2, ["b"])


@pytest.mark.spec("client/elicitation/enum-variants")
@pytest.mark.parametrize("how", SELECTIONS)
def test_all_ways_to_write_a_selection_are_understood(how):
    (field,) = fields_of(form(it=SELECTIONS[how]))
    assert field.kind == ("choices" if "several" in how else "choice")
    titles = ["a", "b"] if how in ("untitled", "several") else ["A", "B"]
    assert field.choices == tuple(zip(["a", "b"], titles, strict=True))


def test_names_that_are_missing_are_the_values_and_others_are_nobodys():
    few = fields_of(form(it={"type": "string", "enum": ["a", "b"], "enumNames": ["A"]}))
    many = fields_of(form(it={"type": "string", "enum": ["a"], "enumNames": ["A", "B"]}))
    assert few[0].choices == (("a", "A"), ("b", "b"))
    assert many[0].choices == (("a", "A"),)


def test_what_a_stranger_says_that_nobody_knows_is_passed_over():
    schema = form(it={"type": "string", "pattern": "^x", "format": "hostname", "x-more": 1})
    (field,) = fields_of({**schema, "title": "Form", "additionalProperties": False})
    assert (field.kind, field.format) == ("string", "hostname")
    field.check("anything")


@pytest.mark.parametrize(
    "about",
    [
        {"type": "string", "default": 5},
        {"type": "string", "default": "x", "minLength": 2},
        {"type": "integer", "default": 1.5},
        {"type": "string", "enum": ["a"], "default": "b"},
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": "a"},
    ],
)
def test_a_strangers_default_that_does_not_fit_is_none(about):
    assert fields_of(form(it=about))[0].default is None
    assert with_defaults(form(it=about)) == {}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (None, "the schema of a form must be"),
        ([], "the schema of a form must be"),
        ({}, "the schema of a form must be"),
        ({"type": "string"}, "the schema of a form must be"),
        ({"type": "object"}, "properties: "),
        ({"type": "object", "properties": []}, "properties: "),
        ({"type": "object", "properties": {"a": "string"}}, "properties.a: "),
        ({"type": "object", "properties": {}, "required": "a"}, "required: "),
        ({"type": "object", "properties": {}, "required": [1]}, "required: "),
        ({"type": "object", "properties": {}, "required": ["ghost"]}, "required: there is no field 'ghost'"),
        (form(a={}), "properties.a.type: "),
        (form(a={"type": "object", "properties": {}}), "properties.a.type: "),
        (form(a={"type": "null"}), "properties.a.type: "),
        (form(a={"type": ["string", "null"]}), "properties.a.type: "),
        (form(a={"anyOf": [{"type": "string"}]}), "properties.a.type: "),
        (form(a={"type": "array"}), "properties.a.items: "),
        (form(a={"type": "array", "items": "string"}), "properties.a.items: "),
        (form(a={"type": "array", "items": {"type": "string"}}), "properties.a.items.enum: "),
        (
            form(a={"type": "array", "items": {"anyOf": [{"const": 1}]}}),
            "properties.a.items.anyOf[0].const: ",
        ),
        (form(a={"type": "string", "oneOf": [{"const": "a"}]}), "properties.a.oneOf[0].title: "),
        (form(a={"type": "string", "enum": []}), "properties.a: has no choices"),
        (form(a={"type": "string", "oneOf": []}), "properties.a: has no choices"),
        (form(a={"type": "array", "items": {"type": "string", "enum": []}}), "properties.a: has no choices"),
        (form(a={"type": "string", "enum": [1]}), "properties.a.enum[0]: "),
        (form(a={"type": "string", "minLength": "1"}), "properties.a.minLength: "),
        (form(a={"type": "number", "maximum": True}), "properties.a.maximum: "),
        (form(a={"type": "string", "title": 1}), "properties.a.title: "),
        (form(**{"a b": {"type": "what"}}), "properties['a b'].type: "),
    ],
)
def test_a_schema_that_is_no_form_is_refused_with_the_place(schema, place):
    with pytest.raises(BadForm) as caught:
        fields_of(schema)
    assert str(caught.value).startswith(place)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_schema_whatever_raises_anything_else(data):
    schema = data.draw(spoilt(copy.deepcopy(EVERYTHING)) | json_values)
    try:
        fields = fields_of(schema)
    except BadForm:
        return
    for field in fields:
        if field.default is not None:
            field.check(field.default)


# ----------------------------------------------------------------------------- content


@pytest.mark.spec(
    "client/elicitation/client-validates-responses",
    "client/elicitation/server-validates-data",
    "client/elicitation/validate-both-sides",
)
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "must be an object, not null"),
        ([], "must be an object, not an array of 0"),
        ({}, "name: is required; height: is required"),
        ({**GOOD, "more": 1}, "more: is not a field of this form; there are: name, mail"),
        ({**GOOD, "name": 5}, "name: must be a string, not 5"),
        ({**GOOD, "name": None}, "name: must be a string, not null"),
        ({**GOOD, "name": "M"}, "name: must be at least 2 long, not 'M'"),
        ({**GOOD, "name": "Monalisa"}, "name: must be at most 4 long, not 'Monalisa'"),
        ({**GOOD, "mail": "Mona"}, "mail: must be an e-mail address, not 'Mona'"),
        ({**GOOD, "height": "1.5"}, "height: must be a number, not '1.5'"),
        ({**GOOD, "height": True}, "height: must be a number, not true"),
        ({**GOOD, "height": float("nan")}, "height: must be a number, not nan"),
        ({**GOOD, "height": float("inf")}, "height: must be a number, not inf"),
        ({**GOOD, "height": 0.25}, "height: must be at least 0.5, not 0.25"),
        ({**GOOD, "height": 4}, "height: must be at most 3, not 4"),
        ({**GOOD, "age": 1.5}, "age: must be an integer, not 1.5"),
        ({**GOOD, "age": False}, "age: must be a number, not false"),
        ({**GOOD, "sure": 1}, "sure: must be true or false, not 1"),
        ({**GOOD, "sure": "true"}, "sure: must be true or false, not 'true'"),
        ({**GOOD, "titled": "A"}, "titled: must be one of 'a', 'b', not 'A'"),
        ({**GOOD, "legacy": ["a"]}, "legacy: must be one of 'a', 'b', not an array of 1"),
        ({**GOOD, "several": "a"}, "several: must be an array, not 'a'"),
        ({**GOOD, "several": ["a", "c"]}, "several[1]: must be one of 'a', 'b', not 'c'"),
        ({**GOOD, "several": [["a"]]}, "several[0]: must be one of 'a', 'b', not an array of 1"),
        ({**GOOD, "two": []}, "two: must have at least 1 of the choices, not an array of 0"),
        ({**GOOD, "two": ["a", "b", "a"]}, "two: must have at most 2 of the choices, not an array of 3"),
        (
            {"name": 1, "age": "x"},
            "name: must be a string, not 1; age: must be a number, not 'x'; height: is",
        ),
    ],
)
def test_content_that_does_not_fit_is_refused_with_the_place_of_each_fault(content, says):
    assert fault(EVERYTHING, content).startswith(says)


def test_content_that_fits_is_taken():
    check_content(EVERYTHING, GOOD)
    check_content(
        EVERYTHING, {**GOOD, "age": 10**30, "sure": True, "titled": "b", "several": [], "two": ["a"]}
    )
    check_content(EVERYTHING, {**GOOD, "age": 3.0, "mail": "mona@example.org", "several titled": ["b", "a"]})
    check_content(form(), {})


def test_what_is_told_of_many_faults_or_choices_is_short():
    schema = form(it={"type": "string", "enum": [f"choice {n} {'x' * 200}" for n in range(1000)]})
    assert len(fault(schema, {"it": "none"})) < 2_000
    assert "or 980 others" in fault(schema, {"it": "none"})
    assert len(fault(schema, {str(n): n for n in range(100_000)})) < 5_000


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_check_agrees_with_json_schema(data):
    schema = copy.deepcopy(EVERYTHING)
    del schema["properties"]["mail"]["format"]
    full = {
        "name": "abc", "mail": "m", "height": 1, "age": 3, "sure": True, "untitled": "a",
        "titled": "b", "several": ["a"], "two": ["a", "b"],
    }  # fmt: skip
    content = data.draw(spoilt(full))
    closed = jsonschema.Draft202012Validator({**schema, "additionalProperties": False})
    try:
        check_content(schema, content)
        assert closed.is_valid(content)
    except Mismatch:
        assert not closed.is_valid(content)


# ----------------------------------------------------------------------------- formats


@pytest.mark.spec("client/elicitation/string-formats")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("email", "octocat@github.com"),
        ("email", "first.last+tag@sub.example.co.uk"),
        ("email", '"two words"@example.org'),
        ("email", "user@[192.0.2.1]"),
        ("email", "x" * 64 + "@example.org"),
        ("uri", "https://example.com/a?b=c#d"),
        ("uri", "mailto:octocat@github.com"),
        ("uri", "urn:isbn:0451450523"),
        ("date", "2026-07-28"),
        ("date", "2024-02-29"),
        ("date-time", "2026-07-28T12:00:00Z"),
        ("date-time", "2026-07-28t12:00:00.123456789z"),
        ("date-time", "2026-07-28T12:00:00-05:30"),
    ],
)
def test_text_of_a_format_is_taken(name, text):
    check_content(form(it={"type": "string", "format": name}), {"it": text})


@pytest.mark.spec("client/elicitation/string-formats")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("email", text) for text in ("", "@", "a@", "@b", "a b@c.de", "a@b@c", "a..b@c.de", ".a@b.c")),
        *(
            ("email", text)
            for text in ("a@-b.c", "a@b..c", "ä@b.c", "a@b.c\n", "x" * 65 + "@b.c", "a@" + "b" * 300)
        ),
        ("email", "a@" + "b." * 130 + "c"),
        *(("uri", text) for text in ("", "example.com", "/a", "//a/b", "1a:b", "http://a b", "a:%zz", "a:é")),
        *(("date", text) for text in ("", "20260728", "2026-7-28", "2026-02-30", "2026-W31-2", "26-07-28")),
        *(("date", text) for text in ("2026-07-28T00:00:00Z", "２０２６-07-28", "2026-07-28\n")),
        *(("date-time", text) for text in ("", "2026-07-28", "2026-07-28T12:00:00", "2026-07-28 12:00:00Z")),
        *(
            ("date-time", text)
            for text in ("2026-07-28T25:00:00Z", "2026-07-28T12:00Z", "2026-07-28T12:00:00+99:00")
        ),
        *(
            ("date-time", text)
            for text in ("2026-02-30T12:00:00Z", "20260728T120000Z", "2026-07-28T12:00:00,5Z")
        ),
    ],
)
def test_other_text_is_not(name, text):
    assert fault(form(it={"type": "string", "format": name}), {"it": text}).startswith(
        f"it: must be {FORMATS[name][0]}"
    )


# ---------------------------------------------------------------------------- defaults


@pytest.mark.spec("client/elicitation/defaults-prefilled")
def test_what_is_missing_takes_its_default_in_a_copy():
    content = {"name": "Mona"}
    filled = with_defaults(EVERYTHING, content)
    assert filled == {"name": "Mona", "age": 18, "sure": False, "two": ["b"]}
    assert content == {"name": "Mona"}
    filled["two"].append("a")
    assert with_defaults(EVERYTHING) == {"age": 18, "sure": False, "two": ["b"]}
    assert list(with_defaults(EVERYTHING, {"more": 1, "sure": None, "name": "Mona"})) == [
        "name",
        "age",
        "sure",
        "two",
        "more",
    ]
    assert with_defaults(EVERYTHING, {"age": 3, "sure": True, "two": ["a"]}) == {
        "age": 3,
        "sure": True,
        "two": ["a"],
    }
