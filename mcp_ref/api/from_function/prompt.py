"""The prompts of one server (page: server/prompts, "Data Types"): how a function becomes a prompt.

Its signature gives the arguments (which arrive as text, see runtime/typing/texts), its docstring the
descriptions, and what it returns is the messages:

    a string, or a content block           one message of the user's
    user(...), assistant(...)              that message: {"role", "content"}
    a list of these                        one message each
    {"messages": [...], "description"?}    the result itself

Revisions   all; content that a revision does not have arrives as text (server/content).
Errors      TypeError, ValueError: a function that can be no prompt. Mismatch: what it returned is none.
Threads     a RegisteredPrompt never changes; see server/utilities/pagination for the list of them.
"""

from __future__ import annotations

import mimetypes
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_ref.api.context import Context
from mcp_ref.basic.index.general_fields import Icon, check_meta
from mcp_ref.basic.index.messages import Json, encode
from mcp_ref.basic.patterns.mrtr.basic_workflow import is_question
from mcp_ref.basic.versioning import LATEST, Revision
from mcp_ref.runtime.typing.functions import description_of
from mcp_ref.runtime.typing.mismatch import must, summary
from mcp_ref.runtime.typing.parts import convert_each
from mcp_ref.runtime.typing.texts import TextParameters, text_parameters_of
from mcp_ref.runtime.uri.uris import BadUri, check_uri
from mcp_ref.schema import Mismatch, checker
from mcp_ref.server import content
from mcp_ref.server.content import ContentBlock, check_base64, check_icons
from mcp_ref.server.prompts import GetPromptResult, Prompt, PromptMessage
from mcp_ref.server.utilities.completion import Completer, completers

__all__ = ["RegisteredPrompt", "assistant", "prompt_from", "user"]


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
        return convert_each(_message, list(value))
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
        raise Mismatch(f"must be a MIME type such as image/png, not {summary(kind)}", path)
