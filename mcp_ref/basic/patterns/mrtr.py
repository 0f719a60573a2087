"""Multi round-trip requests (page: basic/patterns/mrtr): the shapes.

    client -> server   tools/call
    server -> client   {resultType: "input_required", inputRequests?, requestState?}
    client -> server   tools/call again, new id, + inputResponses and the requestState

Revisions   2026-07-28, on tools/call, prompts/get and resources/read.
"""

from __future__ import annotations

from typing import Annotated, Any, Required, TypeAlias, TypedDict

from mcp_ref.basic.meta import RequestMeta, ResultMeta
from mcp_ref.client.elicitation import ElicitRequest, ElicitResult
from mcp_ref.client.roots import ListRootsRequest, ListRootsResult
from mcp_ref.client.sampling import CreateMessageRequest, CreateMessageResult
from mcp_ref.schema import since

__all__ = ["InputRequests", "InputResponses"]

InputRequest: TypeAlias = CreateMessageRequest | ListRootsRequest | ElicitRequest
InputResponse: TypeAlias = CreateMessageResult | ListRootsResult | ElicitResult
InputRequests: TypeAlias = dict[str, InputRequest]
InputResponses: TypeAlias = dict[str, InputResponse]


class InputResponseRequestParams(TypedDict, total=False):
    _meta: Required[RequestMeta]
    inputResponses: InputResponses
    requestState: str


class InputRequiredResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[str]
    inputRequests: InputRequests
    requestState: str


DEFINITIONS: dict[str, Any] = {
    "InputRequest": Annotated[InputRequest, since("2026-07-28")],
    "InputRequests": Annotated[InputRequests, since("2026-07-28")],
    "InputRequiredResult": Annotated[InputRequiredResult, since("2026-07-28")],
    "InputResponse": Annotated[InputResponse, since("2026-07-28")],
    "InputResponseRequestParams": Annotated[InputResponseRequestParams, since("2026-07-28")],
    "InputResponses": Annotated[InputResponses, since("2026-07-28")],
}
