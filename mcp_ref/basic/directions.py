"""Who may send what (page: schema; basic/index, "Messages"): the unions of messages by direction.

    client -> server   ClientRequest        answered by a ServerResult, or an error
    client -> server   ClientNotification
    server -> client   ServerRequest        answered by a ClientResult, or an error
    server -> client   ServerNotification

A line without a mark holds in all revisions. So this one page shows what each of them brought and took.

Revisions   2024-11-05  both sides ask, both answer
            2025-06-18  + elicitation
            2025-11-25  + tasks in both directions; + notifications/elicitation/complete
            2026-07-28  servers ask nothing: InputRequiredResult takes the place of ServerRequest, and the
                        answers travel in the params of the next ClientRequest. - initialize, ping,
                        logging/setLevel, resources/subscribe, tasks; + server/discover, subscriptions/listen

Errors      none. A method that the other side does not have in a revision is -32601 (basic/versioning).
Threads     shapes alone: nothing runs here.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from mcp_ref.basic.index.messages import Result
from mcp_ref.basic.lifecycle import InitializedNotification, InitializeRequest, InitializeResult
from mcp_ref.basic.patterns.cancellation import CancelledNotification
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequiredResult
from mcp_ref.basic.patterns.progress import ProgressNotification
from mcp_ref.basic.patterns.subscriptions.server import (
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequest,
    SubscriptionsListenResult,
)
from mcp_ref.basic.utilities.ping import PingRequest
from mcp_ref.basic.utilities.tasks import (
    CancelTaskRequest,
    CancelTaskResult,
    GetTaskPayloadRequest,
    GetTaskPayloadResult,
    GetTaskRequest,
    GetTaskResult,
    ListTasksRequest,
    ListTasksResult,
    TaskStatusNotification,
)
from mcp_ref.client.elicitation.requests import ElicitRequest, ElicitResult
from mcp_ref.client.elicitation.url_mode import ElicitationCompleteNotification
from mcp_ref.client.roots import ListRootsRequest, ListRootsResult, RootsListChangedNotification
from mcp_ref.client.sampling.creating_messages import CreateMessageRequest, CreateMessageResult
from mcp_ref.schema import since, until
from mcp_ref.server.discover import DiscoverRequest, DiscoverResult
from mcp_ref.server.prompts import (
    GetPromptRequest,
    GetPromptResult,
    ListPromptsRequest,
    ListPromptsResult,
    PromptListChangedNotification,
)
from mcp_ref.server.resources import (
    ListResourcesRequest,
    ListResourcesResult,
    ListResourceTemplatesRequest,
    ListResourceTemplatesResult,
    ReadResourceRequest,
    ReadResourceResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscribeRequest,
    UnsubscribeRequest,
)
from mcp_ref.server.tools import (
    CallToolRequest,
    CallToolResult,
    ListToolsRequest,
    ListToolsResult,
    ToolListChangedNotification,
)
from mcp_ref.server.utilities.completion import CompleteRequest, CompleteResult
from mcp_ref.server.utilities.logging import LoggingMessageNotification, SetLevelRequest

__all__ = [
    "ClientNotification",
    "ClientRequest",
    "ClientResult",
    "ServerNotification",
    "ServerRequest",
    "ServerResult",
]

LEGACY = until("2025-11-25")
MODERN = since("2026-07-28")

# ------------------------------------------------------------------- client to server

ClientRequest: TypeAlias = (
    Annotated[InitializeRequest, LEGACY]
    | Annotated[PingRequest, LEGACY]
    | Annotated[DiscoverRequest, MODERN]
    | ListToolsRequest
    | CallToolRequest
    | ListPromptsRequest
    | GetPromptRequest
    | ListResourcesRequest
    | ListResourceTemplatesRequest
    | ReadResourceRequest
    | Annotated[SubscribeRequest, LEGACY]
    | Annotated[UnsubscribeRequest, LEGACY]
    | Annotated[SubscriptionsListenRequest, MODERN]
    | CompleteRequest
    | Annotated[SetLevelRequest, LEGACY]
    | Annotated[GetTaskRequest, since("2025-11-25"), LEGACY]
    | Annotated[GetTaskPayloadRequest, since("2025-11-25"), LEGACY]
    | Annotated[CancelTaskRequest, since("2025-11-25"), LEGACY]
    | Annotated[ListTasksRequest, since("2025-11-25"), LEGACY]
)

ClientNotification: TypeAlias = (
    CancelledNotification
    | Annotated[InitializedNotification, LEGACY]
    | Annotated[ProgressNotification, LEGACY]
    | Annotated[RootsListChangedNotification, LEGACY]
    | Annotated[TaskStatusNotification, since("2025-11-25"), LEGACY]
)

ClientResult: TypeAlias = (
    Result
    | Annotated[CreateMessageResult, LEGACY]
    | Annotated[ListRootsResult, LEGACY]
    | Annotated[ElicitResult, since("2025-06-18"), LEGACY]
    | Annotated[GetTaskResult, since("2025-11-25"), LEGACY]
    | Annotated[GetTaskPayloadResult, since("2025-11-25"), LEGACY]
    | Annotated[CancelTaskResult, since("2025-11-25"), LEGACY]
    | Annotated[ListTasksResult, since("2025-11-25"), LEGACY]
)

# ------------------------------------------------------------------- server to client

ServerRequest: TypeAlias = (
    PingRequest
    | CreateMessageRequest
    | ListRootsRequest
    | Annotated[ElicitRequest, since("2025-06-18")]
    | Annotated[GetTaskRequest, since("2025-11-25")]
    | Annotated[GetTaskPayloadRequest, since("2025-11-25")]
    | Annotated[CancelTaskRequest, since("2025-11-25")]
    | Annotated[ListTasksRequest, since("2025-11-25")]
)

ServerNotification: TypeAlias = (
    CancelledNotification
    | ProgressNotification
    | LoggingMessageNotification
    | ToolListChangedNotification
    | PromptListChangedNotification
    | ResourceListChangedNotification
    | ResourceUpdatedNotification
    | Annotated[SubscriptionsAcknowledgedNotification, MODERN]
    | Annotated[ElicitationCompleteNotification, since("2025-11-25"), LEGACY]
    | Annotated[TaskStatusNotification, since("2025-11-25"), LEGACY]
)

ServerResult: TypeAlias = (
    Result
    | Annotated[InitializeResult, LEGACY]
    | Annotated[DiscoverResult, MODERN]
    | Annotated[InputRequiredResult, MODERN]
    | ListToolsResult
    | CallToolResult
    | ListPromptsResult
    | GetPromptResult
    | ListResourcesResult
    | ListResourceTemplatesResult
    | ReadResourceResult
    | Annotated[SubscriptionsListenResult, MODERN]
    | CompleteResult
    | Annotated[GetTaskResult, since("2025-11-25"), LEGACY]
    | Annotated[GetTaskPayloadResult, since("2025-11-25"), LEGACY]
    | Annotated[CancelTaskResult, since("2025-11-25"), LEGACY]
    | Annotated[ListTasksResult, since("2025-11-25"), LEGACY]
)

DEFINITIONS: dict[str, Any] = {
    "ClientNotification": ClientNotification,
    "ClientRequest": ClientRequest,
    "ClientResult": ClientResult,
    "ServerNotification": ServerNotification,
    "ServerRequest": Annotated[ServerRequest, LEGACY],  # spec: basic/index/requests-client-to-server-only
    "ServerResult": ServerResult,
}
