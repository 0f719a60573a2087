"""Elicitation (page: client/elicitation): the shapes.

A server asks the person behind the client something: with a form, or by way of a URL.

Revisions   2025-06-18  elicitation/create, asked by the server; a form of primitive fields
            2025-11-25  + URL mode; + defaults everywhere; + selections with titles, and of several
            2026-07-28  asked by way of basic/patterns/mrtr
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict

from mcp_ref.basic.messages import Json, RequestId
from mcp_ref.basic.meta import RequestMeta
from mcp_ref.schema import Bounds, since, until, was

if TYPE_CHECKING:
    from mcp_ref.basic.utilities.tasks import TaskMetadata

__all__ = ["ElicitRequest", "ElicitResult"]


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


class ElicitRequestFormParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), until("2025-11-25")]
    task: Annotated[TaskMetadata, since("2025-11-25"), until("2025-11-25")]
    mode: Annotated[Literal["form"], since("2025-11-25")]
    message: Required[str]
    requestedSchema: Required[Annotated[RequestedSchemaNow, was(RequestedSchema, until="2025-06-18")]]


class ElicitRequestURLParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), until("2025-11-25")]
    task: Annotated[TaskMetadata, since("2025-11-25"), until("2025-11-25")]
    mode: Required[Literal["url"]]
    message: Required[str]
    url: Required[Annotated[str, Bounds(format="uri")]]
    elicitationId: Required[Annotated[str, until("2025-11-25")]]


ElicitRequestParams: TypeAlias = (
    ElicitRequestFormParams | Annotated[ElicitRequestURLParams, since("2025-11-25")]
)


class ElicitRequest(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25"), until("2025-11-25")]]
    id: Required[Annotated[RequestId, since("2025-11-25"), until("2025-11-25")]]
    method: Required[Literal["elicitation/create"]]
    params: Required[ElicitRequestParams]


class ElicitResult(TypedDict, total=False):
    _meta: Annotated[Json, until("2025-11-25")]
    action: Required[Literal["accept", "decline", "cancel"]]
    content: dict[str, str | int | bool | Annotated[list[str], since("2025-11-25")]]


DEFINITIONS: dict[str, Any] = {
    "BooleanSchema": Annotated[BooleanSchema, since("2025-06-18")],
    "ElicitRequest": Annotated[ElicitRequest, since("2025-06-18")],
    "ElicitRequestFormParams": Annotated[ElicitRequestFormParams, since("2025-11-25")],
    "ElicitRequestParams": Annotated[ElicitRequestParams, since("2025-11-25")],
    "ElicitRequestURLParams": Annotated[ElicitRequestURLParams, since("2025-11-25")],
    "ElicitResult": Annotated[ElicitResult, since("2025-06-18")],
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
