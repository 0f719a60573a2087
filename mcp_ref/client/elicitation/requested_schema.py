"""The form and the answers to it (page: client/elicitation, "Requested Schema").

A form is a flat object whose members are strings, numbers, booleans or selections: a small part of
JSON Schema, so that any client can draw it.

    client    fields_of(schema)                 the schema of a form -> its fields, for the code that draws it
              with_defaults(schema, content)    what was left out takes its default
    both      check_content(schema, content)    a Mismatch with the place of each fault

A form's schema is a closed language: no references, no patterns, nothing that could take long. The
fields of all revisions are understood, whatever was negotiated.

Revisions   2025-06-18  strings, numbers, booleans (with a default), selections with enumNames
            2025-11-25  + defaults everywhere; + titled selections (oneOf with const and title),
            and of several

Errors      BadForm: a schema that is no form. Mismatch: content that does not fit it.
Threads     plain functions.
Not here    writing a schema (client/elicitation/forms).
"""

from __future__ import annotations

import datetime
import math
import re
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import LATEST
from mcp_ref.runtime.typing.mismatch import MAX_FAULTS, Mismatch, must, place
from mcp_ref.runtime.uri.uris import check_uri
from mcp_ref.schema import checker, since

__all__ = [
    "FORMATS",
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
    """A flat object: a form has fields, and fields have no parts."""

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
    """A schema that is no form, or none of that revision; and where it is not."""


class FormField(NamedTuple):
    """One field, for whoever draws it."""

    name: str
    title: str
    """What to call it; its name if it has no title."""
    description: str
    kind: Literal["string", "number", "integer", "boolean", "choice", "choices"]
    required: bool
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    """Each value that may be chosen, and what to call it."""
    format: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None

    def check(self, value: Any) -> None:
        """Raises Mismatch unless the value is one for this field."""
        _CHECKS[self.kind](self, value)


def fields_of(schema: Json) -> list[FormField]:
    """The fields that a schema asks for, in its order. Raises BadForm.

    Of a stranger's schema, keywords that are not known are passed over, and defaults that do not fit.
    # spec: client/elicitation/enum-variants
    """
    properties, required = parts_of(schema)
    return [field_of(name, about, name in required) for name, about in properties.items()]


def check_content(schema: Json, content: Any) -> None:
    """Raises Mismatch unless this is content for that schema, BadForm if that is no form.

    # spec: client/elicitation/client-validates-responses, client/elicitation/server-validates-data
    # spec: client/elicitation/validate-both-sides
    """
    check_fields(fields_of(schema), content)


def with_defaults(schema: Json, content: Json | None = None) -> Json:
    """A copy of the content in which what was missing has its default, if there is one.

    # spec: client/elicitation/defaults-prefilled
    """
    given = content or {}
    found = {f.name: given.get(f.name, f.default) for f in fields_of(schema)}
    filled = {name: value for name, value in found.items() if name in given or value is not None}
    copies = {name: list(value) if isinstance(value, list) else value for name, value in filled.items()}
    return copies | {name: value for name, value in given.items() if name not in copies}


# ---------------------------------------------------------------------- reading a schema


def parts_of(schema: Any) -> tuple[dict[str, Json], frozenset[str]]:
    """The schemas of the fields, and the names of those that are required. Raises BadForm."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise BadForm('the schema of a form is {"type": "object", "properties": {...}}')
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict):
        raise BadForm("properties: must be an object with a schema for each field")
    for name, about in properties.items():
        if not isinstance(about, dict):
            raise BadForm(f"{place(('properties', name))}must be the schema of a field")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise BadForm("required: must be an array of names")
    for name in required:
        if name not in properties:
            raise BadForm(f"required: there is no field {name!r:.60}")
    return properties, frozenset(required)


def shape_of(name: str, about: Json) -> Any:
    """The shape that the schema of a field is to have, by its type. Raises BadForm."""
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
    """A field, from its schema. Our own are read strictly, down to format and default. Raises BadForm."""
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
    default = about.get("default")
    try:
        if default is not None:
            field.check(default)
    except Mismatch as problem:
        if strict:
            raise BadForm(str(problem.under("default").under(name).under("properties"))) from None
        default = None
    return field._replace(default=default)


def choices_of(about: Json) -> tuple[tuple[str, str], ...]:
    """Values and titles, in whichever of the five ways a selection is written; none where it is none."""
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
    """Raises Mismatch unless this is content for these fields."""
    if not isinstance(content, dict):
        raise must("be an object", content)
    known, problems = {field.name: field for field in fields}, []
    for name, value in content.items():
        try:
            if name not in known:
                told = ", ".join(list(known)[:20]) or "none"
                raise Mismatch(f"is not a field of this form; there are: {told:.300}")
            known[name].check(value)
        except Mismatch as problem:
            problems.append(problem.under(name))
            if len(problems) == MAX_FAULTS:
                break
    problems += [Mismatch("is required", (f.name,)) for f in fields if f.required and f.name not in content]
    if problems:
        raise Mismatch.all(problems)


def _string(field: FormField, value: Any) -> None:
    if type(value) is not str:
        raise must("be a string", value)
    if field.min_length is not None and len(value) < field.min_length:
        raise must(f"be at least {field.min_length} long", value)
    if field.max_length is not None and len(value) > field.max_length:
        raise must(f"be at most {field.max_length} long", value)
    says, fits = FORMATS.get(field.format or "", _ANYTHING)
    if not fits(value):
        raise must(f"be {says}", value)


def _number(field: FormField, value: Any) -> None:
    # bool is an int to Python and no number in JSON; neither are NaN and the infinities
    if type(value) not in (int, float) or (type(value) is float and not math.isfinite(value)):
        raise must("be a number", value)
    if field.kind == "integer" and type(value) is float and not value.is_integer():
        raise must("be an integer", value)
    if field.minimum is not None and value < field.minimum:
        raise must(f"be at least {field.minimum}", value)
    if field.maximum is not None and value > field.maximum:
        raise must(f"be at most {field.maximum}", value)


def _boolean(field: FormField, value: Any) -> None:
    if type(value) is not bool:
        raise must("be true or false", value)


def _choice(field: FormField, value: Any) -> None:
    if type(value) is not str or value not in dict(field.choices):
        raise must(f"be one of {_told(field)}", value)


def _several(field: FormField, value: Any) -> None:
    if type(value) is not list:
        raise must("be an array", value)
    if field.min_items is not None and len(value) < field.min_items:
        raise must(f"have at least {field.min_items} of the choices", value)
    if field.max_items is not None and len(value) > field.max_items:
        raise must(f"have at most {field.max_items} of the choices", value)
    known = dict(field.choices)
    for index, item in enumerate(value):
        if type(item) is not str or item not in known:
            raise must(f"be one of {_told(field)}", item).under(index)


def _told(field: FormField) -> str:
    known = ", ".join(repr(choice)[:60] for choice, _ in field.choices[:20])
    return known if len(field.choices) <= 20 else f"{known} or {len(field.choices) - 20} others"


_CHECKS: dict[str, Callable[[FormField, Any], None]] = {
    "string": _string,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
    "choice": _choice,
    "choices": _several,
}

# --------------------------------------------------------------------------- the formats

_LOCAL = r"""(?:[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*|"(?:[ !#-\[\]-~]|\\[ -~]){0,62}")"""
_DOMAIN = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
_EMAIL = re.compile(rf"(?=.{{1,64}}@){_LOCAL}@(?:{_DOMAIN}|\[[!-Z^-~]+\])", re.ASCII | re.IGNORECASE)
MAX_EMAIL = 254
"""What RFC 5321 leaves for an address."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME = re.compile(
    rf"{_DATE.pattern}T[0-9:]{{8}}(?:\.[0-9]{{1,60}})?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})", re.I
)


def _is_email(text: str) -> bool:
    return len(text) <= MAX_EMAIL and _EMAIL.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    try:
        return bool(check_uri(text))
    except ValueError:
        return False


def _is_date(text: str) -> bool:
    """RFC 3339, of which Python reads more than there is."""
    try:
        return _DATE.fullmatch(text) is not None and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    """RFC 3339 likewise: the offset must be there. A leap second is no time to Python."""
    try:
        return _DATE_TIME.fullmatch(text) is not None and bool(datetime.datetime.fromisoformat(text.upper()))
    except ValueError:
        return False


FORMATS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "email": ("an e-mail address", _is_email),
    "uri": ("a URI such as https://example.com/", _is_uri),
    "date": ("a date such as 2026-07-28", _is_date),
    "date-time": ("a date and time such as 2026-07-28T12:00:00Z", _is_date_time),
}
"""All formats of the page: what a text must be, and whether it is.

# spec: client/elicitation/string-formats
"""
_ANYTHING: tuple[str, Callable[[str], bool]] = ("a string", lambda text: True)
