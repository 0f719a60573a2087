"""Prompts (page: server/prompts).

A server lists named prompts, for people to choose from; a client gets one, with its arguments filled in,
as messages for a model.

    client -> server   prompts/list {cursor?}             -> {prompts: [Prompt], nextCursor?}
    client -> server   prompts/get {name, arguments?}     -> {messages: [{role, content}], description?}
    server -> client   notifications/prompts/list_changed

Server half   `on_list_prompts`, `on_get_prompt` (a function as a prompt: api/from_function/prompt)
Client half   `list_prompts`, `get_params`

Revisions   2024-11-05  prompts/list, prompts/get, notifications/prompts/list_changed
            2025-03-26  + audio content
            2025-06-18  + title, `_meta`; resource links
            2025-11-25  + icons
            2026-07-28  prompts/get may answer with a question (basic/patterns/mrtr)

Errors      an unknown prompt, and arguments that are missing, unknown or of the wrong type: -32602; a
            function that raises, or returns something other than a prompt: -32603.
Threads     `on_get_prompt` runs on the thread of the request (a worker, or over Streamable HTTP the thread
            that took the POST), and may block; the client half on the caller's thread.
"""

from __future__ import annotations

import mimetypes
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Required, TypedDict

from mcp_ref.basic.index.error_responses import InternalError, InvalidParams, ProtocolError
from mcp_ref.basic.index.general_fields import Icon, RequestMeta, ResultMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.requester import Asks
from mcp_ref.basic.patterns.mrtr.basic_workflow import is_input_required
from mcp_ref.basic.versioning import LATEST, Method, Notification, Revision
from mcp_ref.runtime.errors import InvalidResponse, RequestCancelled
from mcp_ref.runtime.json_text import Encoded, to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.mismatch import message_of, must, summary
from mcp_ref.runtime.typing.parts import convert_each
from mcp_ref.runtime.uri.uris import BadUri, check_uri
from mcp_ref.schema import Mismatch, checker, required, since
from mcp_ref.server import content
from mcp_ref.server.content import ContentBlock, Role, check_base64
from mcp_ref.server.utilities import pagination
from mcp_ref.server.utilities.caching import CacheScope, TtlMs
from mcp_ref.server.utilities.completion import Completer
from mcp_ref.server.utilities.pagination import ListParams, PagedList

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.mrtr.basic_workflow import InputResponses

__all__ = ["Prompt", "PromptMessage", "get_params", "list_prompts"]

_log = logger("mcp_ref.prompts")

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


class GetPromptResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    description: str
    messages: Required[list[PromptMessage]]


DEFINITIONS: dict[str, Any] = {
    "Prompt": Prompt,
    "PromptArgument": PromptArgument,
    "PromptMessage": PromptMessage,
}

# ----------------------------------------------------------------------- server half


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredPrompt:
    """One prompt, ready for prompts/get."""

    definition: Prompt
    """As the newest revision has it."""
    function: Callable[..., Any]
    load: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Texts by name -> keyword arguments. Raises Mismatch."""
    context: str | None
    """The function's parameter that takes the Context, if it has one."""
    complete: Mapping[str, Completer]
    """The completers of its arguments, by name."""
    scopes: tuple[str, ...] = ()
    """The scopes that a token needs to get it, where the server is protected (basic/authorization)."""

    def result(self, value: Any, at: Revision) -> Json:
        """The result for what the function returned, as a client's revision has it. Raises Mismatch."""
        if is_input_required(value):
            return typing.cast(Json, value)
        result: Json = {"messages": value}
        if isinstance(value, dict) and "messages" in value:
            result = {key: member for key, member in value.items() if key != "resultType"}
            checker(GetPromptResult, LATEST.date, ("messages", "resultType"))(result)
        if "description" in self.definition:
            result.setdefault("description", self.definition["description"])
        messages = _messages(result["messages"])
        result["messages"] = [{**m, "content": content.block_for(m["content"], at.date)} for m in messages]
        return result


class PromptHost(Protocol):
    """What this page needs of the server."""

    @property
    def prompts(self) -> PagedList[RegisteredPrompt]:
        """The prompts that can be listed and got."""

    def known(self, names: Iterable[str]) -> str:
        """The end of an error about an unknown name: the names that exist, unless some may be hidden."""


def on_list_prompts(server: PromptHost, params: Json, context: RequestContext) -> Json:
    """Answer prompts/list: one page, the same for every client.

    # spec: server/prompts/list-answered, server/prompts/list-paginated, server/prompts/list-may-change
    # spec: server/prompts/list-empty-or-changing, server/prompts/list-not-per-connection
    """
    return server.prompts.page(context.revision, params.get("cursor"))


def on_get_prompt(server: PromptHost, params: Json, context: RequestContext) -> Json:
    """Answer prompts/get: find the prompt, check the arguments, run its function, check what it returns.

    # spec: server/prompts/validate-arguments, server/prompts/validate-input-output
    """
    name = params["name"]
    prompt = server.prompts.get(name)
    if prompt is None:  # spec: server/prompts/invalid-name-32602, schema/invalid-params-contexts
        raise InvalidParams(f"Unknown prompt: {name[:200]}{server.known(server.prompts.keys())}")
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
        raise InternalError(f"the prompt {name} failed: {message_of(problem)}") from None
    try:
        return prompt.result(value, context.revision)
    except (ValueError, TypeError, RecursionError) as problem:
        _log.error("%s returned what is no prompt: %s", name, problem)
        raise InternalError(f"the prompt {name} returned no prompt: {message_of(problem)}") from None


def write(result: Json) -> Encoded:
    """Encode a result as JSON. Raises InternalError if it has no JSON form."""
    try:
        return Encoded([to_json(result).encode("utf-8")])
    except (ValueError, TypeError, RecursionError) as problem:
        _log.error("a prompt is no JSON: %s", problem)
        raise InternalError(f"what the prompt returned is no JSON: {message_of(problem)}") from None


# spec: server/prompts/capability-at-initialize, server/prompts/capability-in-discover
# spec: server/prompts/respect-capabilities
METHODS = (
    Method(
        "prompts/list",
        on_list_prompts,
        params=ListParams,
        result=ListPromptsResult,
        capability="prompts",
        cacheable=True,
    ),
    Method(
        "prompts/get",
        on_get_prompt,
        params=GetPromptRequestParams,
        result=GetPromptResult,
        capability="prompts",
        asks=True,  # spec: server/prompts/input-required
        encode=write,
    ),
)
# spec: server/prompts/list-changed-subscribed
NOTIFICATIONS = (Notification("notifications/prompts/list_changed", "PromptListChanged", "server"),)


# -- the messages of a prompt


def _messages(value: Any) -> list[PromptMessage]:
    """The messages that a function returned: one, or a list.  # spec: server/prompts/validate-input-output"""
    if not isinstance(value, list | tuple):
        return [_message(value)]
    try:
        return convert_each(_message, list(value))
    except Mismatch as problem:
        raise problem.under("messages") from None


def _message(value: Any) -> PromptMessage:
    if not isinstance(value, dict) or "role" not in value:
        if not isinstance(value, str) and not content.is_block(value):
            raise must("be text, a content block, a message, or a list of these", value)
        return {"role": "user", "content": checked_block(value)}
    if value["role"] not in ("user", "assistant"):  # spec: server/prompts/role-values
        raise must("be 'user' or 'assistant'", value["role"]).under("role")
    try:
        return {"role": value["role"], "content": checked_block(value.get("content"))}
    except Mismatch as problem:
        raise problem.under("content") from None


def checked_block(said: Any) -> ContentBlock:
    """Check content, and return it as a block: a string becomes one of text. Raises Mismatch.

    # spec: server/prompts/resource-links
    """
    if isinstance(said, str):
        return content.text(said)
    content.check_block(said)
    block: ContentBlock = _FURTHER[said["type"]](said) if said["type"] in _FURTHER else said
    return block


def _media(block: Any) -> Any:
    """Check the data and the MIME type of an image or of audio.

    # spec: server/prompts/image-base64-mime, server/prompts/audio-base64-mime
    """
    check_base64(block["data"], ("data",))
    _check_mime(block["mimeType"], ("mimeType",))
    return block


def _embedded(block: Any) -> Any:
    """Check an embedded resource. One without a MIME type gets that of its URI's ending, or a default.

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
"""The checks of a block besides that of its shape, by type. Each returns the block as it is sent."""

_MIME = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;.*)?", re.ASCII | re.DOTALL)


def _check_mime(kind: str, path: tuple[str, ...]) -> None:
    if not _MIME.fullmatch(kind):
        raise Mismatch(f"must be a MIME type such as image/png, not {summary(kind)}", path)


# ----------------------------------------------------------------------- client half


def list_prompts(client: Asks, timeout: float | None = None) -> list[Prompt]:
    """All prompts, from all pages.  # spec: server/prompts/handle-pagination"""
    return pagination.everything(client, "prompts/list", "prompts", timeout=timeout)


def get_params(name: str, arguments: Mapping[str, str] | None = None, meta: Json | None = None) -> Json:
    """The params of prompts/get.  # spec: schema/prompt-arguments-strings"""
    params: Json = {"name": name, "arguments": dict(arguments or {})}
    for argument, value in params["arguments"].items():
        if not isinstance(value, str):
            raise TypeError(f"the argument {argument!r} of a prompt is text, not {value!r:.60}")
    if meta is not None:
        params["_meta"] = meta
    return params


def check_list(client: object, params: Json, result: Json, timeout: float | None) -> None:
    """Drop the malformed definitions from a list of prompts, and keep the others."""
    result["prompts"] = pagination.definitions_of("prompts/list", result, "prompts", "name", Prompt)


def check_result(client: object, params: Json, result: Json, timeout: float | None) -> None:
    """Check the shape of a result, and that its data are valid base64. Raises InvalidResponse.

    # spec: server/prompts/validate-input-output
    """
    if is_input_required(result):
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
