"""client/elicitation/fields: the fields of a form, as each revision has them."""

import jsonschema
import pytest
from peers import REVISIONS

from mcp_ref.client.elicitation import fields
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
