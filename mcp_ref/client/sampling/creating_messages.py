"""Creating messages (page: client/sampling).

A server asks the model of its client for a message:

    server -> client   sampling/createMessage {messages, maxTokens, ...}
    client -> server   {role, content, model, stopReason?}

The client decides which model that is, and whether it is asked at all: a user may look at the request and at
the answer, change both, or refuse.

Server half   `Sample` is the question, a `Reply` its result
Client half   `answer` calls the application's callback, with a `SamplingRequest`

Revisions   2024-11-05  sampling/createMessage, asked by the server; text and images
            2025-03-26  + audio
            2025-11-25  + tools; content may be several blocks; includeContext needs a capability
            2026-07-28  asked by way of basic/patterns/mrtr; sampling as a whole is deprecated
Errors      -1      the user refused (SamplingRefused)
            -32602  tools for a client that declared none; tool results that do not match the tool uses
            -32601  there is no callback
            -32603  what the callback answered breaks a rule of the page
            In 2026-07-28 no error is sent: the application's own call (call_tool ...) raises InputRefused
Threads     `Sample` and `Reply` are plain values. `answer` runs on a worker in the legacy era, on the
            caller's thread in the modern; the callback and the review run on a thread of api/callbacks.
Not here    the messages of a conversation (messages), the dicts with shortcuts that authors and applications
            handle (replies).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict

from mcp_ref.basic.index.error_responses import InternalError, InvalidParams, MethodNotFound, ProtocolError
from mcp_ref.basic.index.general_fields import JSONObject, RequestMeta
from mcp_ref.basic.index.json_schema_usage import validator
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequestType, Question
from mcp_ref.basic.versioning import LATEST, Method, Revision, missing_capabilities
from mcp_ref.client.sampling.messages import (
    SamplingContent,
    SamplingMessage,
    SamplingMessageContentBlock,
    ToolResultContent,
    ToolUseContent,
    as_messages,
    blocks_of,
    check_data,
    check_messages,
    check_unique,
    prune_message,
    results_of,
    under,
    uses_of,
)
from mcp_ref.client.sampling.replies import Reply, SamplingRequest, as_reply
from mcp_ref.runtime.errors import InvalidResponse, LocalError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.mismatch import must
from mcp_ref.schema import Bounds, Mismatch, checker, pruner, since, until, was
from mcp_ref.server.content import Role

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.mrtr.basic_workflow import AnswersServers
    from mcp_ref.basic.utilities.tasks.data_types import TaskMetadata
    from mcp_ref.server.tools import Tool

__all__ = ["Sample", "SamplingRefused", "answer"]

_log = logger("mcp_ref.sampling")

# ---------------------------------------------------------------------------- shapes

Weight = Annotated[float, Bounds(ge=0, le=1)]  # spec: client/sampling/priorities-normalised


class ModelHint(TypedDict, total=False):
    name: str


class ModelPreferences(TypedDict, total=False):
    hints: list[ModelHint]
    costPriority: Weight
    speedPriority: Weight
    intelligencePriority: Weight


class ToolChoice(TypedDict, total=False):
    mode: Literal["auto", "required", "none"]


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


class CreateMessageResult(TypedDict, total=False):
    """The model's message, with the model's name and the reason why it ends.

    # spec: client/sampling/result-fields, client/sampling/stop-reason-open
    """

    _meta: Json
    role: Required[Role]
    content: Required[SamplingContent]
    model: Required[str]
    stopReason: str


DEFINITIONS: dict[str, Any] = {
    "ModelHint": ModelHint,
    "ModelPreferences": ModelPreferences,
    "SamplingMessage": SamplingMessage,
    "SamplingMessageContentBlock": Annotated[SamplingMessageContentBlock, since("2025-11-25")],
    "ToolChoice": Annotated[ToolChoice, since("2025-11-25")],
    "ToolResultContent": Annotated[ToolResultContent, since("2025-11-25")],
    "ToolUseContent": Annotated[ToolUseContent, since("2025-11-25")],
}


def needs(params: Json, at: Revision) -> Json:
    """The capability that a client must have declared for such a request.

    # spec: client/sampling/no-tools-without-capability, client/sampling/include-context-needs-capability
    """
    parts: Json = {}
    if "tools" in params or "toolChoice" in params:
        parts["tools"] = {}
    if params.get("includeContext", "none") != "none" and at.declares_context:
        parts["context"] = {}
    return {"sampling": parts}


def capability(*, tools: bool, context: bool) -> Json:
    """What a client with sampling declares.

    # spec: client/sampling/capability-at-initialize, client/sampling/capability-per-request
    # spec: client/sampling/tools-capability-declared
    """
    return {name: {} for name, given in {"tools": tools, "context": context}.items() if given}


# ----------------------------------------------------------------------- server half


@dataclass(frozen=True)
class Sample:
    """A question for the model of the client: `ctx.sample("Write a greeting", max_tokens=50)`.

    `messages` is one item or a list of items: a message; or a string or a content block, which becomes a
    message of the user. Everything is checked before it is sent: ValueError for mistakes, LocalError for
    members that the client's revision does not have. Content is never converted to make it fit.
    """

    messages: Any
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: Sequence[str] | None = None
    model_preferences: Json | None = None
    include_context: str | None = None
    metadata: Json | None = None
    tools: Sequence[Any] | None = None
    """Definitions of tools, which need not be tools of the server.

    # spec: client/sampling/tools-scoped-to-request
    """
    tool_choice: str | Json | None = None
    """"auto", "required" or "none"."""

    def question(self, context: RequestContext) -> Question:
        """The sampling/createMessage request for the client of a request, and how its result is read.

        # spec: client/sampling/create-message-request, client/sampling/create-message-input-request
        """
        try:
            params = self._params()
            check_request(params)
            _check_own_request(params)
        except Mismatch as problem:
            raise ValueError(f"sample: {problem}") from None
        params = _without_undeclared_context(params, context)
        params = _for_revision(params, context.revision)
        read = functools.partial(_read, may_use_tools(params), context.revision)
        return Question("sampling/createMessage", params, needs(params, context.revision), read)

    def _params(self) -> Json:
        """The params of the request, with the members of the newest revision."""
        choice, stops, tools = self.tool_choice, self.stop_sequences, self.tools
        optional: Json = {
            "modelPreferences": self.model_preferences,
            "systemPrompt": self.system_prompt,
            "includeContext": self.include_context,
            "temperature": self.temperature,
            "stopSequences": list(stops) if isinstance(stops, tuple) else stops,
            "metadata": self.metadata,
            "tools": list(tools) if isinstance(tools, tuple) else tools,
            "toolChoice": {"mode": choice} if isinstance(choice, str) else choice,
        }
        present = {name: value for name, value in optional.items() if value is not None}
        return {"messages": as_messages(self.messages), "maxTokens": self.max_tokens, **present}


def check_request(params: Json, date: str = LATEST.date) -> None:
    """Check a request by the rules of the page, from either side. Raises Mismatch."""
    checker(CreateMessageRequestParams, date, ("_meta",))(params)
    if params["maxTokens"] < 1:
        raise must("be at least 1", params["maxTokens"]).under("maxTokens")
    if not math.isfinite(params.get("temperature", 0)):
        raise must("be a finite number", params["temperature"]).under("temperature")
    check_messages(params["messages"])


def may_use_tools(params: Json) -> bool:
    """Whether the model may answer with tool uses.  # spec: client/sampling/tool-choice-none"""
    return bool(params.get("tools")) and params.get("toolChoice", {}).get("mode", "auto") != "none"


def _check_own_request(params: Json) -> None:
    """Rules for requests that we send, stricter than those for what we receive. Raises Mismatch."""
    if not params["messages"]:
        raise must("hold a message", []).under("messages")
    tools = params.get("tools", [])
    if params.get("toolChoice", {}).get("mode") == "required" and not tools:
        raise Mismatch('"required" needs tools to choose from', ("toolChoice",))
    if len({tool["name"] for tool in tools}) < len(tools):
        raise Mismatch("two tools have the same name", ("tools",))
    _check_structured_results(params["messages"], tools)


def _check_structured_results(messages: list[Any], tools: list[Any]) -> None:
    """Check the structured content of tool results by the output schemas of the tools. Raises Mismatch."""
    schemas = {tool["name"]: tool["outputSchema"] for tool in tools if "outputSchema" in tool}
    for place, name, result in results_of(messages):  # spec: schema/tool-result-structured
        if name in schemas and "structuredContent" in result and not result.get("isError"):
            with under(*place, "structuredContent"):
                validator(schemas[name]).check(result["structuredContent"])


def _without_undeclared_context(params: Json, context: RequestContext) -> Json:
    """The params, without `includeContext` if the client did not declare `sampling.context`.

    # spec: client/sampling/include-context-needs-capability, schema/sampling-context-none
    """
    lacking = missing_capabilities(needs(params, context.revision), context.client_capabilities)
    if "context" not in lacking.get("sampling", {}):
        return params
    wanted = params["includeContext"]
    _log.info("includeContext %s is left out: the client did not declare sampling.context", wanted)
    return {name: value for name, value in params.items() if name != "includeContext"}


def _for_revision(params: Json, at: Revision) -> Json:
    """The params as a revision has them. Raises LocalError for members that it does not have."""
    known = pruner(CreateMessageRequestParams, at.date)(params)
    try:
        for name in sorted(params.keys() - known.keys()):
            raise Mismatch("this revision has no such member", (name,))
        checker(CreateMessageRequestParams, at.date)(known)
    except Mismatch as problem:
        raise LocalError(f"sampling/createMessage: the client speaks {at}: {problem}") from None
    return {**known, "messages": [prune_message(message, at.date) for message in known["messages"]]}


def _read(tools: bool, at: Revision, result: Json) -> Reply:
    """The client's result, checked. Raises InvalidResponse."""
    if result.get("stopReason", "") is None:  # some clients send null instead of leaving it out
        result = {name: value for name, value in result.items() if name != "stopReason"}
    try:
        check_result(result, tools, at)
    except Mismatch as problem:
        raise InvalidResponse(f"sampling/createMessage: the client's answer: {problem}") from None
    return Reply(result)


def question_of(params: Json, context: RequestContext) -> Question:
    """The question in the params of sampling/createMessage."""
    names = {re.sub("_(.)", lambda m: m[1].upper(), field.name): field.name for field in fields(Sample)}
    options = {names[name]: value for name, value in params.items() if name in names}
    return Sample(**options).question(context)


def check_result(result: Any, tools: bool, at: Revision) -> None:
    """Check a result by the rules of the page, from either side. Raises Mismatch."""
    checker(CreateMessageResult, at.date)(result)
    kinds = {block["type"] for block in blocks_of(result)}
    if "tool_result" in kinds:
        raise Mismatch("a model must not answer with tool results", ("content",))
    if "tool_use" in kinds and not tools:
        raise Mismatch("a tool use, though no tools may be used", ("content",))
    with under("content"):
        check_data(result["content"])
        check_unique(uses_of(result))


# ----------------------------------------------------------------------- client half


class SamplingRefused(ProtocolError):
    """The user refused the request (error -1). Raise it in the callback or in the review.

    # spec: client/sampling/user-rejected-code, client/sampling/errors
    # spec: client/sampling/declined-needs-no-replay
    """

    code = -1

    def __init__(self, message: str = "User rejected sampling request") -> None:
        super().__init__(message)


def answer(client: AnswersServers, params: Json, context: RequestContext | None) -> Json:
    """Answer sampling/createMessage: check it, have the application's model answer, check the result.

    # spec: client/sampling/messages-not-retained
    """
    callbacks = client.callbacks
    if callbacks.sampling is None:
        raise MethodNotFound("sampling/createMessage: this client has no model to ask")
    request = _received(client, params)
    tools = may_use_tools(request)
    # spec: client/sampling/rate-limit
    returned = callbacks.run(
        *_callback_of(callbacks.sampling, callbacks.sampling_review, request), context=context
    )
    try:
        return _result(as_reply(returned), tools, client.negotiated.revision)
    except Mismatch as problem:
        _log.error("the answer of the callback for sampling cannot be sent: %s", problem)
        raise InternalError(f"sampling/createMessage: the answer of this client's model: {problem}") from None


def _callback_of(
    sampling: Callable[[Any], Any], review: Callable[[Any, Any], Any] | None, request: SamplingRequest
) -> tuple[Any, ...]:
    """The function to call, and its arguments: the callback, or the review with the callback inside."""

    def proceed(reviewed: Json) -> Reply:
        is_request = isinstance(reviewed, SamplingRequest)
        return as_reply(sampling(reviewed if is_request else SamplingRequest(reviewed, request.server)))

    # spec: client/sampling/view-edit-prompts, client/sampling/review-responses
    return (sampling, request) if review is None else (review, request, proceed)


def _received(client: AnswersServers, params: Json) -> SamplingRequest:
    """The server's request, checked, without members that its revision does not have. Raises InvalidParams.

    # spec: client/sampling/tool-result-missing-32602, client/sampling/tool-result-mixed-32602
    """
    date = client.negotiated.revision.date
    try:
        check_request(params, date)
        known = pruner(CreateMessageRequestParams, date)(params)
        if "tools" not in client.negotiated.capabilities.get("sampling", {}):
            # spec: schema/sampling-tools-error, schema/sampling-tool-choice-error
            for name in ("tools", "toolChoice"):
                if name in known:
                    raise Mismatch("this client did not declare sampling.tools", (name,))
    except Mismatch as problem:
        raise InvalidParams(f"sampling/createMessage: {problem}") from None
    return SamplingRequest(known, str(client.negotiated.server_info.get("name", "")))


def _result(reply: Reply, tools: bool, at: Revision) -> Json:
    """The reply as the server's revision has it. Raises Mismatch if it breaks a rule of that revision."""
    check_result(reply, tools, at)
    result: Json = prune_message(dict(reply), at.date)
    return result


INPUT_REQUEST = InputRequestType(
    "sampling/createMessage",
    needs,
    question_of,
    lambda result, date: checker(CreateMessageResult, date, ("stopReason",))(result),
    answer,
)
"""The row for sampling among the requests that a server may make of its client."""

METHODS = (
    Method(
        "sampling/createMessage",
        answer,
        params=CreateMessageRequestParams,
        result=CreateMessageResult,
        sender="server",
    ),
)
