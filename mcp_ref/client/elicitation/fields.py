"""The fields of a form (page: client/elicitation, "Requested Schema"): the shapes.

A form is a flat object whose members are strings, numbers, booleans or selections: a small part of
JSON Schema, so that any client can draw it.

Revisions   2025-06-18  strings, numbers, booleans (with a default), selections with enumNames
            2025-11-25  + defaults everywhere; + titled selections (const, title), and of several
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypeAlias, TypedDict

from mcp_ref.schema import since

__all__ = ["PrimitiveSchemaDefinition", "RequestedSchema", "RequestedSchemaNow"]


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
