"""The fields of a form, and content checked by them (page: client/elicitation, "Requested Schema").

A form is a flat object whose members are strings, numbers, booleans or selections: a small part of JSON
Schema, so that any client can draw it.

    client    fields_of(schema)                 the schema of a form -> its fields, for the code that draws it
              with_defaults(schema, content)    the content, with defaults for the fields that it leaves out
    both      check_content(schema, content)    a Mismatch with the place of each fault

The schema of a form has no references and no patterns, so that any server's form is checked in a short time.
The fields of all revisions are understood, whatever revision was negotiated.

Revisions   2025-06-18  strings, numbers, booleans (with a default), selections with enumNames
            2025-11-25  + defaults everywhere; + titled selections (oneOf with const and title), + selections
                        of several values

Errors      BadForm: a schema that is not a form. Mismatch: content that does not fit it.
Threads     plain functions.
Not here    how a class becomes a schema (client/elicitation/forms).
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import LATEST
from mcp_ref.runtime.typing.formats import FORMATS
from mcp_ref.runtime.typing.mismatch import MAX_FAULTS, Mismatch, must, place
from mcp_ref.schema import checker, since

__all__ = [
    "BadForm",
    "FormField",
    "PrimitiveSchemaDefinition",
    "RequestedSchema",
    "RequestedSchemaNow",
    "check_content",
    "check_fields",
    "choices_of",
    "field_of",
    "fields_of",
    "parts_of",
    "shape_of",
    "with_defaults",
]

MAX_LISTED_NAMES = 20
"""Names of fields, or choices of one, in an error message."""
_NO_FORMAT: tuple[str, Callable[[str], bool]] = ("a string", lambda text: True)

# ---------------------------------------------------------------------------- shapes


class StringSchema(TypedDict, total=False):
    type: Required[Literal["string"]]
    title: str
    description: str
    minLength: int
    maxLength: int
    format: Literal["email", "uri", "date", "date-time"]
    default: Annotated[str, since("2025-11-25")]


class NumberSchema(TypedDict, total=False):
    type: Required[Literal["number", "integer"]]
    title: str
    description: str
    minimum: float
    maximum: float
    default: Annotated[float, since("2025-11-25")]


class BooleanSchema(TypedDict, total=False):
    type: Required[Literal["boolean"]]
    title: str
    description: str
    default: bool


class LegacyTitledEnumSchema(TypedDict, total=False):
    type: Required[Literal["string"]]
    title: str
    description: str
    enum: Required[list[str]]
    enumNames: list[str]
    default: Annotated[str, since("2025-11-25")]


class UntitledSingleSelectEnumSchema(TypedDict, total=False):
    type: Required[Literal["string"]]
    title: str
    description: str
    enum: Required[list[str]]
    default: str


class TitledChoice(TypedDict):
    const: str
    title: str


class TitledSingleSelectEnumSchema(TypedDict, total=False):
    type: Required[Literal["string"]]
    title: str
    description: str
    oneOf: Required[list[TitledChoice]]
    default: str


class UntitledItems(TypedDict):
    type: Literal["string"]
    enum: list[str]


class TitledItems(TypedDict):
    anyOf: list[TitledChoice]


class UntitledMultiSelectEnumSchema(TypedDict, total=False):
    type: Required[Literal["array"]]
    title: str
    description: str
    minItems: int
    maxItems: int
    items: Required[UntitledItems]
    default: list[str]


class TitledMultiSelectEnumSchema(TypedDict, total=False):
    type: Required[Literal["array"]]
    title: str
    description: str
    minItems: int
    maxItems: int
    items: Required[TitledItems]
    default: list[str]


SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
EnumSchema: TypeAlias = (
    LegacyTitledEnumSchema
    | Annotated[UntitledSingleSelectEnumSchema, since("2025-11-25")]
    | Annotated[TitledSingleSelectEnumSchema, since("2025-11-25")]
    | Annotated[UntitledMultiSelectEnumSchema, since("2025-11-25")]
    | Annotated[TitledMultiSelectEnumSchema, since("2025-11-25")]
)
PrimitiveSchemaDefinition: TypeAlias = StringSchema | NumberSchema | BooleanSchema | EnumSchema


class RequestedSchema(TypedDict, total=False):
    """A flat object: a form has fields, and a field has no fields of its own."""

    type: Required[Literal["object"]]
    properties: Required[dict[str, PrimitiveSchemaDefinition]]
    required: list[str]


RequestedSchemaNow = TypedDict(
    "RequestedSchemaNow",
    {
        "$schema": str,
        "type": Required[Literal["object"]],
        "properties": Required[dict[str, PrimitiveSchemaDefinition]],
        "required": list[str],
    },
    total=False,
)


DEFINITIONS: dict[str, Any] = {
    "BooleanSchema": Annotated[BooleanSchema, since("2025-06-18")],
    "EnumSchema": Annotated[EnumSchema, since("2025-06-18")],
    "LegacyTitledEnumSchema": Annotated[LegacyTitledEnumSchema, since("2025-11-25")],
    "MultiSelectEnumSchema": Annotated[MultiSelectEnumSchema, since("2025-11-25")],
    "NumberSchema": Annotated[NumberSchema, since("2025-06-18")],
    "PrimitiveSchemaDefinition": Annotated[PrimitiveSchemaDefinition, since("2025-06-18")],
    "SingleSelectEnumSchema": Annotated[SingleSelectEnumSchema, since("2025-11-25")],
    "StringSchema": Annotated[StringSchema, since("2025-06-18")],
    "TitledMultiSelectEnumSchema": Annotated[TitledMultiSelectEnumSchema, since("2025-11-25")],
    "TitledSingleSelectEnumSchema": Annotated[TitledSingleSelectEnumSchema, since("2025-11-25")],
    "UntitledMultiSelectEnumSchema": Annotated[UntitledMultiSelectEnumSchema, since("2025-11-25")],
    "UntitledSingleSelectEnumSchema": Annotated[UntitledSingleSelectEnumSchema, since("2025-11-25")],
}


class BadForm(ValueError):
    """A schema that is not a form, or not one of the client's revision. The message says where."""


class FormField(NamedTuple):
    """One field of a form, for the code that draws it."""

    name: str
    title: str
    """The title that the schema gives it, or else its name."""
    description: str
    kind: Literal["string", "number", "integer", "boolean", "choice", "choices"]
    required: bool
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    """The values that may be chosen, each with its title."""
    format: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None

    def check(self, value: Any) -> None:
        """Check a value for this field. Raises Mismatch."""
        _CHECKS[self.kind](self, value)


def fields_of(schema: Json) -> list[FormField]:
    """The fields of a form, in the order of its schema. Raises BadForm.

    Unknown keywords of a server's schema are ignored, and so are defaults that do not fit their field.
    # spec: client/elicitation/enum-variants
    """
    properties, required = parts_of(schema)
    return [field_of(name, about, name in required) for name, about in properties.items()]


def check_content(schema: Json, content: Any) -> None:
    """Check content by the schema of its form. Raises Mismatch; BadForm if the schema is not a form.

    # spec: client/elicitation/client-validates-responses, client/elicitation/server-validates-data
    # spec: client/elicitation/validate-both-sides
    """
    check_fields(fields_of(schema), content)


def with_defaults(schema: Json, content: Json | None = None) -> Json:
    """A copy of the content in which missing fields have their defaults. Fields come first, in their order.

    # spec: client/elicitation/defaults-prefilled
    """
    content = content or {}
    filled: Json = {}
    for field in fields_of(schema):
        value = content.get(field.name, field.default)
        if value is not None or field.name in content:
            filled[field.name] = list(value) if isinstance(value, list) else value
    return filled | {name: value for name, value in content.items() if name not in filled}


# ---------------------------------------------------------------------- reading a schema


def parts_of(schema: Any) -> tuple[dict[str, Json], frozenset[str]]:
    """The schemas of the fields, and the names of the required ones. Raises BadForm."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise BadForm('the schema of a form must be {"type": "object", "properties": {...}}')
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        raise BadForm("properties: must be an object with a schema for each field")
    for name, about in properties.items():
        if not isinstance(about, dict):
            raise BadForm(f"{place(('properties', name))}must be the schema of a field")
    return properties, _required_names(schema.get("required", []), properties)


def _required_names(required: Any, properties: dict[str, Json]) -> frozenset[str]:
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise BadForm("required: must be an array of names")
    for name in required:
        if name not in properties:
            raise BadForm(f"required: there is no field {name!r:.60}")
    return frozenset(required)


def shape_of(name: str, about: Json) -> Any:
    """The shape for the schema of a field, chosen by its type. Raises BadForm for a type that forms lack."""
    kind = about.get("type")
    if kind == "string":
        if "oneOf" in about:
            return TitledSingleSelectEnumSchema
        return LegacyTitledEnumSchema if "enum" in about else StringSchema
    if kind == "array":
        is_titled = isinstance(about.get("items"), dict) and "anyOf" in about["items"]
        return TitledMultiSelectEnumSchema if is_titled else UntitledMultiSelectEnumSchema
    if kind == "boolean":
        return BooleanSchema
    if kind in ("number", "integer"):
        return NumberSchema
    where = place(("properties", name, "type"))
    raise BadForm(
        f"{where}must be string, number, integer, boolean, or array for several choices, not {kind!r:.60};"
        " a form has no fields within fields"
    )


def field_of(name: str, about: Json, required: bool, *, strict: bool = False) -> FormField:
    """A field, from its schema. Raises BadForm.

    `strict` is for our own forms: with it, a wrong format or default is an error; else it is ignored.
    """
    shape = shape_of(name, about)
    try:
        checker(shape, LATEST.date, () if strict else ("default", "format"))(about)
    except Mismatch as problem:
        raise BadForm(str(problem.under(name).under("properties"))) from None
    choices = choices_of(about)
    if not choices and shape not in (StringSchema, NumberSchema, BooleanSchema):
        raise BadForm(f"{place(('properties', name))}has no choices")
    kinds = {"array": "choices", "string": "choice" if choices else "string"}
    field = FormField(
        name=name,
        title=about.get("title", name),
        description=about.get("description", ""),
        kind=typing.cast(Any, kinds.get(about["type"], about["type"])),
        required=required,
        choices=choices,
        format=about["format"] if isinstance(about.get("format"), str) else None,
        minimum=about.get("minimum"),
        maximum=about.get("maximum"),
        min_length=about.get("minLength"),
        max_length=about.get("maxLength"),
        min_items=about.get("minItems"),
        max_items=about.get("maxItems"),
    )
    return field._replace(default=_default(field, about.get("default"), strict))


def _default(field: FormField, default: Any, strict: bool) -> Any:
    """The default of a field. One that does not fit raises BadForm if `strict`, else it is dropped."""
    try:
        if default is not None:
            field.check(default)
    except Mismatch as problem:
        if strict:
            raise BadForm(str(problem.under("default").under(field.name).under("properties"))) from None
        return None
    return default


def choices_of(about: Json) -> tuple[tuple[str, str], ...]:
    """Values and titles of a selection, written in any of the five ways; empty for another kind of field."""
    items = about.get("items", about)
    titled = items.get("oneOf", items.get("anyOf"))
    if about["type"] not in ("string", "array"):
        return ()
    if titled is not None:
        return tuple((choice["const"], choice["title"]) for choice in titled)
    values, names = items.get("enum", []), items.get("enumNames", [])
    return tuple(zip(values, [*names, *values[len(names) :]], strict=False))


# ---------------------------------------------------------------------- checking content


def check_fields(fields: list[FormField], content: Any) -> None:
    """Check content by the fields of its form. Raises Mismatch with all faults, 100 at most."""
    if not isinstance(content, dict):
        raise must("be an object", content)
    faults = list(islice(_member_faults(fields, content), MAX_FAULTS))
    faults += [Mismatch("is required", (f.name,)) for f in fields if f.required and f.name not in content]
    if faults:
        raise Mismatch.all(faults)


def _member_faults(fields: list[FormField], content: Json) -> Iterator[Mismatch]:
    known = {field.name: field for field in fields}
    for name, value in content.items():
        try:
            if name not in known:
                names = ", ".join(list(known)[:MAX_LISTED_NAMES]) or "none"
                raise Mismatch(f"is not a field of this form; there are: {names:.300}")
            known[name].check(value)
        except Mismatch as fault:
            yield fault.under(name)


def _check_string(field: FormField, value: Any) -> None:  # spec: client/elicitation/string-formats
    if type(value) is not str:
        raise must("be a string", value)
    _check_range(value, len(value), field.min_length, field.max_length, "be {} long")
    phrase, fits = FORMATS.get(field.format or "", _NO_FORMAT)
    if not fits(value):
        raise must(f"be {phrase}", value)


def _check_number(field: FormField, value: Any) -> None:
    # By exact type: True is an int to Python. NaN and the infinities are not numbers in JSON either.
    if type(value) not in (int, float) or (type(value) is float and not math.isfinite(value)):
        raise must("be a number", value)
    if field.kind == "integer" and type(value) is float and not value.is_integer():
        raise must("be an integer", value)
    _check_range(value, value, field.minimum, field.maximum, "be {}")


def _check_boolean(field: FormField, value: Any) -> None:
    if type(value) is not bool:
        raise must("be true or false", value)


def _check_choice(field: FormField, value: Any) -> None:
    if type(value) is not str or value not in dict(field.choices):
        raise must(f"be one of {_listed_choices(field)}", value)


def _check_choices(field: FormField, value: Any) -> None:
    if type(value) is not list:
        raise must("be an array", value)
    _check_range(value, len(value), field.min_items, field.max_items, "have {} of the choices")
    known = dict(field.choices)
    for index, item in enumerate(value):
        if type(item) is not str or item not in known:
            raise must(f"be one of {_listed_choices(field)}", item).under(index)


def _check_range(value: Any, size: float, least: float | None, most: float | None, rule: str) -> None:
    """Check the size of a value. `rule` says what is wrong, with {} for the bound."""
    if least is not None and size < least:
        raise must(rule.format(f"at least {least}"), value)
    if most is not None and size > most:
        raise must(rule.format(f"at most {most}"), value)


def _listed_choices(field: FormField) -> str:
    listed = ", ".join(repr(choice)[:60] for choice, _ in field.choices[:MAX_LISTED_NAMES])
    more = len(field.choices) - MAX_LISTED_NAMES
    return listed if more <= 0 else f"{listed} or {more} others"


_CHECKS: dict[str, Callable[[FormField, Any], None]] = {
    "string": _check_string,
    "number": _check_number,
    "integer": _check_number,
    "boolean": _check_boolean,
    "choice": _check_choice,
    "choices": _check_choices,
}
