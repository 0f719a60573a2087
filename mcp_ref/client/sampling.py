"""Sampling (page: client/sampling): the shapes.

A server asks the client's model for a message.

Revisions   2024-11-05  sampling/createMessage, asked by the server; text and images
            2025-03-26  + audio
            2025-11-25  + tools; content may be several blocks
            2026-07-28  asked by way of basic/patterns/mrtr; deprecated
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict

from mcp_ref.basic.messages import Json, RequestId
from mcp_ref.basic.meta import JSONObject, RequestMeta
from mcp_ref.schema import Bounds, since, until, was
from mcp_ref.server.content import AudioContent, ContentBlock, ImageContent, Role, TextContent

if TYPE_CHECKING:
    from mcp_ref.basic.utilities.tasks import TaskMetadata
    from mcp_ref.server.tools import Tool

__all__ = ["SamplingMessage"]

Weight = Annotated[float, Bounds(ge=0, le=1)]


class ModelHint(TypedDict, total=False):
    name: str


class ModelPreferences(TypedDict, total=False):
    hints: list[ModelHint]
    costPriority: Weight
    speedPriority: Weight
    intelligencePriority: Weight


class ToolChoice(TypedDict, total=False):
    mode: Literal["auto", "required", "none"]


class ToolUseContent(TypedDict, total=False):
    type: Required[Literal["tool_use"]]
    id: Required[str]
    name: Required[str]
    input: Required[Json]
    _meta: Json


class ToolResultContent(TypedDict, total=False):
    type: Required[Literal["tool_result"]]
    toolUseId: Required[str]
    content: Required[list[ContentBlock]]
    structuredContent: Annotated[Any, was(Json, until="2025-11-25")]
    isError: bool
    _meta: Json


SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
)
SamplingContent: TypeAlias = (
    TextContent
    | ImageContent
    | Annotated[AudioContent, since("2025-03-26")]
    | Annotated[ToolUseContent, since("2025-11-25")]
    | Annotated[ToolResultContent, since("2025-11-25")]
    | Annotated[list[SamplingMessageContentBlock], since("2025-11-25")]
)


class SamplingMessage(TypedDict, total=False):
    role: Required[Role]
    content: Required[SamplingContent]
    _meta: Annotated[Json, since("2025-11-25")]


class CreateMessageRequestParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), until("2025-11-25")]
    task: Annotated[TaskMetadata, since("2025-11-25"), until("2025-11-25")]
    messages: Required[list[SamplingMessage]]
    modelPreferences: ModelPreferences
    systemPrompt: str
    includeContext: Literal["none", "thisServer", "allServers"]
    temperature: float
    maxTokens: Required[int]
    stopSequences: list[str]
    metadata: Annotated[JSONObject, was(Json, until="2025-11-25")]
    tools: Annotated[list[Tool], since("2025-11-25")]
    toolChoice: Annotated[ToolChoice, since("2025-11-25")]


class CreateMessageRequest(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25"), until("2025-11-25")]]
    id: Required[Annotated[RequestId, since("2025-11-25"), until("2025-11-25")]]
    method: Required[Literal["sampling/createMessage"]]
    params: Required[CreateMessageRequestParams]


class CreateMessageResult(TypedDict, total=False):
    _meta: Json
    role: Required[Role]
    content: Required[SamplingContent]
    model: Required[str]
    stopReason: str


DEFINITIONS: dict[str, Any] = {
    "CreateMessageRequest": CreateMessageRequest,
    "CreateMessageRequestParams": Annotated[CreateMessageRequestParams, since("2025-11-25")],
    "CreateMessageResult": CreateMessageResult,
    "ModelHint": ModelHint,
    "ModelPreferences": ModelPreferences,
    "SamplingMessage": SamplingMessage,
    "SamplingMessageContentBlock": Annotated[SamplingMessageContentBlock, since("2025-11-25")],
    "ToolChoice": Annotated[ToolChoice, since("2025-11-25")],
    "ToolResultContent": Annotated[ToolResultContent, since("2025-11-25")],
    "ToolUseContent": Annotated[ToolUseContent, since("2025-11-25")],
}
