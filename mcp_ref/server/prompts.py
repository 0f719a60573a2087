"""Prompts (page: server/prompts).

A server lists named prompts, for people to choose from; a client gets one, with its arguments filled in,
as messages for a model.

    client -> server   prompts/list {cursor?}             -> {prompts: [Prompt], nextCursor?}
    client -> server   prompts/get {name, arguments?}     -> {messages: [{role, content}], description?}
    server -> client   notifications/prompts/list_changed

How a function becomes a prompt: its signature gives the arguments (which arrive as text, see
runtime/texts), its docstring the descriptions, and what it returns is the messages:

    a string, or a content block           one message of the user's
    user(...), assistant(...)              that message: {"role", "content"}
    a list of these                        one message each
    {"messages": [...], "description"?}    the result itself

Server half   `on_list_prompts`, `on_get_prompt`, `prompt_from`; `user`, `assistant`
Client half   `list_prompts`, `get_prompt`

Revisions   2024-11-05  prompts/list, prompts/get, notifications/prompts/list_changed
            2025-03-26  + audio content
            2025-06-18  + title, `_meta`; resource links
            2025-11-25  + icons
            2026-07-28  prompts/get may answer with a question (basic/patterns/mrtr)

Errors      an unknown prompt, and arguments that are missing, unknown or of the wrong type: -32602; a
            function that raises, or returns what is no prompt: -32603.
Threads     `on_get_prompt` runs on the request's own worker and may block; `get_prompt` on the caller's.
"""

from __future__ import annotations

import logging
import mimetypes
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict

from mcp_ref.basic.context import Context
from mcp_ref.basic.errors import (
    InternalError,
    InvalidParams,
    InvalidResponse,
    ProtocolError,
    RequestCancelled,
)
from mcp_ref.basic.messages import AnyNotificationParams, Encoded, Json, RequestId, encode, to_json
from mcp_ref.basic.meta import Icon, NotificationParams, RequestMeta, ResultMeta, check_meta
from mcp_ref.basic.patterns.mrtr import is_question
from mcp_ref.basic.versioning import LATEST, Method, Revision
from mcp_ref.runtime.functions import description_of
from mcp_ref.runtime.mismatch import must, shown, told
from mcp_ref.runtime.parts import each
from mcp_ref.runtime.templates import BadUri, check_uri
from mcp_ref.runtime.texts import TextParameters, text_parameters_of
from mcp_ref.schema import Mismatch, checker, required, since, was
from mcp_ref.server import content
from mcp_ref.server.content import ContentBlock, Role, check_icons
from mcp_ref.server.resources import check_base64
from mcp_ref.server.utilities import pagination
from mcp_ref.server.utilities.caching import CacheScope, TtlMs
from mcp_ref.server.utilities.completion import Completer, completers
from mcp_ref.server.utilities.pagination import PaginatedRequestParams

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.mrtr import InputRequiredResult, InputResponses

__all__ = ["Prompt", "PromptMessage", "assistant", "get_prompt", "list_prompts", "prompt_from", "user"]

_log = logging.getLogger("mcp_ref.prompts")

# ---------------------------------------------------------------------------- shapes


class PromptArgument(TypedDict, total=False):
    name: Required[str]
    title: Annotated[str, since("2025-06-18")]
    description: str
    required: bool


class Prompt(TypedDict, total=False):
    name: Required[str]
    title: Annotated[str, since("2025-06-18")]
    description: str
    icons: Annotated[list[Icon], since("2025-11-25")]
    arguments: list[PromptArgument]
    _meta: Annotated[Json, since("2025-06-18")]


class PromptMessage(TypedDict):
    role: Role  # spec: server/prompts/role-values
    content: ContentBlock


class ListPromptsRequest(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25")]]
    id: Required[Annotated[RequestId, since("2025-11-25")]]
    method: Required[Literal["prompts/list"]]
    params: Annotated[PaginatedRequestParams, required(since="2026-07-28")]


class ListPromptsResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    prompts: Required[list[Prompt]]
    nextCursor: str
    ttlMs: Required[Annotated[TtlMs, since("2026-07-28")]]
    cacheScope: Required[Annotated[CacheScope, since("2026-07-28")]]


class GetPromptRequestParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), required(since="2026-07-28")]
    name: Required[str]
    arguments: dict[str, str]
    inputResponses: Annotated[InputResponses, since("2026-07-28")]
    requestState: Annotated[str, since("2026-07-28")]


class GetPromptRequest(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25")]]
    id: Required[Annotated[RequestId, since("2025-11-25")]]
    method: Required[Literal["prompts/get"]]
    params: Required[GetPromptRequestParams]


class GetPromptResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    description: str
    messages: Required[list[PromptMessage]]


class ListPromptsResultResponse(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: Required[RequestId]
    result: Required[ListPromptsResult]


class GetPromptResultResponse(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: Required[RequestId]
    result: Required[InputRequiredResult | GetPromptResult]


class PromptListChangedNotification(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25")]]
    method: Required[Literal["notifications/prompts/list_changed"]]
    params: Annotated[NotificationParams, was(AnyNotificationParams, until="2025-06-18")]


DEFINITIONS: dict[str, Any] = {
    "GetPromptRequest": GetPromptRequest,
    "GetPromptRequestParams": Annotated[GetPromptRequestParams, since("2025-11-25")],
    "GetPromptResult": GetPromptResult,
    "GetPromptResultResponse": Annotated[GetPromptResultResponse, since("2026-07-28")],
    "ListPromptsRequest": ListPromptsRequest,
    "ListPromptsResult": ListPromptsResult,
    "ListPromptsResultResponse": Annotated[ListPromptsResultResponse, since("2026-07-28")],
    "Prompt": Prompt,
    "PromptArgument": PromptArgument,
    "PromptListChangedNotification": PromptListChangedNotification,
    "PromptMessage": PromptMessage,
}

# ------------------------------------------------------------------ how a function becomes one


@dataclass(frozen=True, slots=True)
class RegisteredPrompt:
    """One prompt, ready to be got."""

    definition: Prompt
    """As the newest revision has it."""
    function: Callable[..., Any]
    load: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Texts by name -> keyword arguments. Raises Mismatch."""
    context: str | None
    complete: Mapping[str, Completer]
    """What completes which argument."""

    def result(self, value: Any, at: Revision) -> Json:
        """What the function returned, as a client of this revision gets it. Raises Mismatch."""
        if is_question(value):
            return typing.cast(Json, value)
        result: Json = {"messages": value}
        if isinstance(value, dict) and "messages" in value:
            result = {key: member for key, member in value.items() if key != "resultType"}
            checker(GetPromptResult, LATEST.date, ("messages", "resultType"))(result)
        if "description" in self.definition:
            result.setdefault("description", self.definition["description"])
        downgraded = content.for_revision(at.date)
        messages = _messages(result["messages"])
        result["messages"] = [{**m, "content": downgraded(m["content"])} for m in messages]
        return result


def prompt_from(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: list[Icon] | None = None,
    meta: Json | None = None,
    complete: Mapping[str, Any] | None = None,
) -> RegisteredPrompt:
    """A function as a prompt. Raises TypeError or ValueError for one that cannot be.

    `complete` says what its arguments could be: `{"style": ["short", "long"], "table": function}`
    (server/utilities/completion).
    """
    parameters = text_parameters_of(function, Context)
    name = name if name is not None else str(getattr(function, "__name__", ""))
    if not isinstance(name, str) or not name.strip() or name == "<lambda>":
        raise ValueError(f"{name!r:.60} is no name for a prompt; pass name=...")
    more: Json = {
        "title": title,
        "description": description if description is not None else description_of(function),
        "icons": check_icons(icons) if icons is not None else None,
        "arguments": _arguments(parameters) or None,
        "_meta": check_meta(meta) if meta is not None else None,
    }
    definition = {"name": name, **{key: value for key, value in more.items() if value is not None}}
    checker(Prompt, LATEST.date)(definition)
    encode(definition)  # what has no JSON form is found now, not by the first client
    return RegisteredPrompt(
        typing.cast(Prompt, definition),
        function,
        parameters.load,
        parameters.context,
        completers(parameters, complete),
    )


def _arguments(parameters: TextParameters) -> list[Json]:
    arguments: list[Json] = []
    for field in parameters.fields:
        said = parameters.descriptions.get(field.name)
        about = {"description": said} if said is not None else {}
        arguments.append({"name": field.name, **about, "required": field.required})
    return arguments


# ----------------------------------------------------------------------------- messages


def user(said: str | ContentBlock) -> PromptMessage:
    """A message of the user's."""
    return {"role": "user", "content": _block(said)}


def assistant(said: str | ContentBlock) -> PromptMessage:
    """A message of the model's."""
    return {"role": "assistant", "content": _block(said)}


def _block(said: Any) -> ContentBlock:
    """Content as it may be sent. Raises Mismatch.  # spec: server/prompts/resource-links"""
    if isinstance(said, str):
        return content.text(said)
    content.check_block(said)
    block: ContentBlock = _FURTHER[said["type"]](said) if said["type"] in _FURTHER else said
    return block


def _messages(value: Any) -> list[PromptMessage]:
    """# spec: server/prompts/validate-input-output"""
    if not isinstance(value, list | tuple):
        return [_message(value)]
    try:
        return each(_message, list(value))
    except Mismatch as problem:
        raise problem.under("messages") from None


def _message(value: Any) -> PromptMessage:
    if not isinstance(value, dict) or "role" not in value:
        if not isinstance(value, str) and not content.is_block(value):
            raise must("be text, a content block, a message, or a list of these", value)
        return {"role": "user", "content": _block(value)}
    if value["role"] not in ("user", "assistant"):  # spec: server/prompts/role-values
        raise must("be 'user' or 'assistant'", value["role"]).under("role")
    try:
        return {"role": value["role"], "content": _block(value.get("content"))}
    except Mismatch as problem:
        raise problem.under("content") from None


def _media(block: Any) -> Any:
    """# spec: server/prompts/image-base64-mime, server/prompts/audio-base64-mime"""
    check_base64(block["data"], ("data",))
    _check_mime(block["mimeType"], ("mimeType",))
    return block


def _embedded(block: Any) -> Any:
    """An embedded resource, with a MIME type in any case.

    # spec: server/prompts/embedded-resource-fields, server/prompts/embedded-resource-mime
    # spec: server/prompts/embedded-resource-content
    """
    resource = block["resource"]
    try:
        check_uri(resource["uri"])
    except BadUri as problem:
        raise Mismatch(str(problem), ("resource", "uri")) from None
    if "blob" in resource:
        check_base64(resource["blob"], ("resource", "blob"))
    if "mimeType" in resource:
        _check_mime(resource["mimeType"], ("resource", "mimeType"))
        return block
    guess, _ = mimetypes.guess_type(resource["uri"])
    default = "application/octet-stream" if "blob" in resource else "text/plain"
    return {**block, "resource": {**resource, "mimeType": guess or default}}


_FURTHER: dict[str, Callable[[Any], Any]] = {"image": _media, "audio": _media, "resource": _embedded}
"""What is seen to besides the shape of a block."""

_MIME = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;.*)?", re.ASCII | re.DOTALL)


def _check_mime(kind: str, path: tuple[str, ...]) -> None:
    if not _MIME.fullmatch(kind):
        raise Mismatch(f"must be a MIME type such as image/png, not {shown(kind)}", path)


# ----------------------------------------------------------------------- server half


def on_list_prompts(server: Any, params: Json, context: Context) -> Json:
    """One page of the prompts, the same for everybody.

    # spec: server/prompts/list-answered, server/prompts/list-paginated, server/prompts/list-may-change
    # spec: server/prompts/list-empty-or-changing, server/prompts/list-not-per-connection
    """
    page: Json = server.prompts.page(context.revision, params.get("cursor"))
    return page


def on_get_prompt(server: Any, params: Json, context: Context) -> Json:
    """Find the prompt, check the arguments, run it, check what it returns.

    # spec: server/prompts/validate-arguments, server/prompts/validate-input-output
    """
    name = params["name"]
    prompt: RegisteredPrompt | None = server.prompts.get(name)
    if prompt is None:  # spec: server/prompts/invalid-name-32602
        known = ", ".join(islice(server.prompts.keys(), 20)) or "none"
        raise InvalidParams(f"Unknown prompt: {name[:200]}; known: {known}")
    try:
        arguments = prompt.load(params.get("arguments", {}))
    except Mismatch as problem:  # spec: server/prompts/missing-argument-32602
        raise InvalidParams(f"{name}: {problem}") from None
    if prompt.context is not None:
        arguments[prompt.context] = context
    try:
        value = prompt.function(**arguments)
    except (ProtocolError, RequestCancelled):
        raise
    except Exception as problem:  # spec: server/prompts/errors
        _log.warning("prompt %s failed", name, exc_info=problem)
        raise InternalError(f"the prompt {name} failed: {told(problem)}") from None
    try:
        return prompt.result(value, context.revision)
    except (ValueError, TypeError, RecursionError) as problem:
        _log.error("%s returned what is no prompt: %s", name, problem)
        raise InternalError(f"what the prompt {name} returned is none: {told(problem)}") from None


def write(result: Json) -> Encoded:
    """A result as it goes on the wire. Raises InternalError if it cannot."""
    try:
        return Encoded(to_json(result).encode("utf-8"))
    except (ValueError, TypeError, RecursionError) as problem:
        _log.error("a prompt is no JSON: %s", problem)
        raise InternalError(f"what the prompt returned is no JSON: {told(problem)}") from None


# spec: server/prompts/capability-at-initialize, server/prompts/capability-in-discover
# spec: server/prompts/respect-capabilities
_LIST: Json = {"params": PaginatedRequestParams, "capability": "prompts", "cacheable": True}
_GET: Json = {"params": GetPromptRequestParams, "capability": "prompts", "encode": write}
METHODS = (
    Method("prompts/list", on_list_prompts, **_LIST),
    Method("prompts/get", on_get_prompt, **_GET, asks=True),  # spec: server/prompts/input-required
)

# ----------------------------------------------------------------------- client half


def list_prompts(client: Any, timeout: float | None = None) -> list[Any]:
    """All prompts, from all pages.  # spec: server/prompts/handle-pagination"""
    return pagination.everything(client, "prompts/list", "prompts", timeout=timeout)


def get_prompt(
    client: Any,
    name: str,
    arguments: Mapping[str, str] | None = None,
    *,
    meta: Json | None = None,
    **options: Any,
) -> Any:
    """Get a prompt, its arguments filled in: see Client.request for the options."""
    params: Json = {"name": name, "arguments": dict(arguments or {})}
    for argument, value in params["arguments"].items():
        if not isinstance(value, str):
            raise TypeError(f"the argument {argument!r} of a prompt is text, not {value!r:.60}")
    if meta is not None:
        params["_meta"] = meta
    return client.request("prompts/get", params, **options)


def check_list(client: Any, params: Json, result: Json, timeout: float | None) -> None:
    """Leave out definitions that are none; the others are still good."""
    prompts = result.get("prompts")
    if not isinstance(prompts, list):
        raise InvalidResponse("prompts/list: the result has no list of prompts")
    good, check = [], checker(Prompt, LATEST.date)
    for prompt in prompts:
        try:
            check(prompt)
            good.append(prompt)
        except Mismatch as problem:
            name = prompt.get("name") if isinstance(prompt, dict) else prompt
            _log.warning("left out the prompt %.100r, whose definition is wrong: %s", name, problem)
    result["prompts"] = good


def check_result(client: Any, params: Json, result: Json, timeout: float | None) -> None:
    """The shape of what came, and whether its data are real base64.

    # spec: server/prompts/validate-input-output
    """
    if is_question(result):
        return
    try:
        checker(GetPromptResult, LATEST.date, ("_meta", "resultType"))(result)
        for index, message in enumerate(result["messages"]):
            _check_data(message["content"], ("messages", index, "content"))
    except Mismatch as problem:
        raise InvalidResponse(f"prompts/get {params.get('name')}: {problem}") from None


def _check_data(block: Any, path: tuple[str | int, ...]) -> None:
    if block["type"] in ("image", "audio"):
        check_base64(block["data"], (*path, "data"))
    elif block["type"] == "resource" and "blob" in block["resource"]:
        check_base64(block["resource"]["blob"], (*path, "resource", "blob"))
