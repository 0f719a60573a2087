"""The messages of a conversation with a model (page: client/sampling, "Message Content Constraints").

A conversation is a list of messages, each of a `user` or an `assistant`, each with one content block or
several. Two kinds of blocks exist only here:

    assistant   tool_use {id, name, input}               the model asks for a call of this tool
    user        tool_result {toolUseId, content, ...}    the result of the call

Tool uses are answered before anything else is said: the message after one with tool uses holds a result for
each of them, and nothing else.

`as_messages` makes such a list from strings, blocks and messages. `check_messages` checks it by these rules:
the server uses it on what it sends, the client on what it receives.

Revisions   2024-11-05  text, image
            2025-03-26  + audio
            2025-11-25  + tool_use, tool_result; content may be several blocks; + `_meta`
            2026-07-28  + structured content of any kind in a tool's result
Errors      Mismatch, with the place; client/sampling/creating_messages turns it into an error response.
Threads     plain functions.
"""

from __future__ import annotations

import binascii
import contextlib
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.messages import Json
from mcp_ref.schema import Mismatch, since, was
from mcp_ref.server.content import (
    AudioContent,
    ContentBlock,
    ImageContent,
    Role,
    TextContent,
    block_for,
    is_block,
    text,
)

__all__ = ["SamplingMessage", "as_messages", "check_messages", "tool_result", "tool_use"]

MAX_TOOL_ROUNDS = 100
"""The most messages with tool uses in one conversation.  # spec: client/sampling/tool-loop-limits"""

# ---------------------------------------------------------------------------- shapes


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
# spec: client/sampling/content-types
SamplingContent: TypeAlias = (
    TextContent
    | ImageContent
    | Annotated[AudioContent, since("2025-03-26")]
    | Annotated[ToolUseContent, since("2025-11-25")]
    | Annotated[ToolResultContent, since("2025-11-25")]
    | Annotated[list[SamplingMessageContentBlock], since("2025-11-25")]
)


class SamplingMessage(TypedDict, total=False):
    """One message of a conversation.  # spec: client/sampling/message-role-content"""

    role: Required[Role]
    content: Required[SamplingContent]
    _meta: Annotated[Json, since("2025-11-25")]


# ---------------------------------------------------------------------------- making


def tool_use(use_id: str, name: str, arguments: Json, *, meta: Json | None = None) -> Json:
    """A block in which the model asks for a call of a tool, for the answer of a client's callback."""
    block: Json = {"type": "tool_use", "id": use_id, "name": name, "input": arguments}
    return block if meta is None else {**block, "_meta": meta}


def tool_result(
    use: Json | str,
    result: Any,
    *,
    structured: Any = None,
    is_error: bool = False,
    meta: Json | None = None,
) -> Json:
    """A block with the result of a tool use: text, a content block, or a list of these.

    `use` is the block of the tool use, or its id.
    """
    items = result if isinstance(result, list | tuple) else [result]
    block: Json = {
        "type": "tool_result",
        "toolUseId": use if isinstance(use, str) else use["id"],
        "content": [text(item) if isinstance(item, str) else item for item in items],
    }
    optional = {"structuredContent": structured, "isError": is_error or None, "_meta": meta}
    return block | {name: value for name, value in optional.items() if value is not None}


def as_messages(source: Any) -> list[Any]:
    """Messages, from one item or a list of items: a message; or a string or a block, said by the user.

    Tool results in a row become one message, since they answer the same message.
    """
    messages: list[Any] = []
    results: list[Any] = []  # the content of the last message, while it consists of tool results
    for item in source if isinstance(source, list | tuple) else [source]:
        if isinstance(item, dict) and item.get("type") == "tool_result":
            results.append(item)
            if len(results) == 1:
                messages.append({"role": "user", "content": item})
            else:
                messages[-1] = {"role": "user", "content": results}
            continue
        results = []
        if isinstance(item, str):
            item = text(item)
        is_message = not isinstance(item, dict) or "role" in item
        messages.append(item if is_message else {"role": "user", "content": item})
    return messages


def blocks_of(message: Any) -> list[Any]:
    """The content of a message, always as a list."""
    content = message["content"]
    return content if isinstance(content, list) else [content]


def uses_of(message: Any) -> list[Any]:
    """The tool uses in a message."""
    return [block for block in blocks_of(message) if block["type"] == "tool_use"]


def results_of(messages: list[Any]) -> Iterator[tuple[tuple[str | int, ...], str, Any]]:
    """The tool results in checked messages, each with its place, the name of its tool, and the block."""
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        for number, block in enumerate(blocks_of(message)):
            if block["type"] == "tool_use":
                names[block["id"]] = block["name"]
            elif block["type"] == "tool_result":
                yield ("messages", index, "content", number), names[block["toolUseId"]], block


def prune_message(message: Any, date: str) -> Any:
    """A message as a revision has it: without the members of its blocks that the revision does not have."""
    content = message["content"]
    if isinstance(content, list):
        return {**message, "content": [block_for(b, date) if is_block(b) else b for b in content]}
    return {**message, "content": block_for(content, date)} if is_block(content) else message


# -------------------------------------------------------------------------- checking


def check_messages(messages: list[Any]) -> None:
    """Check the rules for messages that their shapes cannot express. Raises Mismatch.

    # spec: client/sampling/validate-content
    """
    with under("messages"):
        for index, message in enumerate(messages):
            with under(index, "content"):
                check_data(message["content"])
        _check_balance(messages)


def check_data(content: Any) -> None:
    """Check that images and audio are base64, in content of any depth. Raises Mismatch."""
    if isinstance(content, list):
        for index, block in enumerate(content):
            with under(index):
                check_data(block)
    elif content["type"] == "tool_result":
        with under("content"):
            check_data(content["content"])
    elif content["type"] in ("image", "audio"):
        try:
            binascii.a2b_base64(content["data"], strict_mode=True)
        except ValueError as problem:
            raise Mismatch(f"must be base64: {problem}", ("data",)) from None


def _check_balance(messages: list[Any]) -> None:
    """Check that each tool use is answered by the next message. Raises Mismatch.

    # spec: client/sampling/tool-use-balanced, client/sampling/tool-use-answered
    # spec: schema/tool-result-id-matches
    """
    open_uses: list[str] = []
    rounds = 0
    for index, message in enumerate(messages):
        with under(index):
            _check_answered(open_uses, _result_ids(message))
            open_uses = _use_ids(message)
            rounds += bool(open_uses)
            if rounds > MAX_TOOL_ROUNDS:
                raise Mismatch(f"a conversation has at most {MAX_TOOL_ROUNDS} messages with tool uses")
    _check_answered(open_uses, [])


def _result_ids(message: Any) -> list[str]:
    """The ids of the tool uses that a message answers.  # spec: client/sampling/tool-results-only"""
    blocks = blocks_of(message)
    ids = [block["toolUseId"] for block in blocks if block["type"] == "tool_result"]
    if ids and message["role"] != "user":
        raise Mismatch("tool results must be in a message of the user", ("role",))
    if ids and len(ids) < len(blocks):
        raise Mismatch("Tool results mixed with other content: such a message must hold nothing else")
    return ids


def _use_ids(message: Any) -> list[str]:
    """The ids of the tool uses in a message."""
    uses = uses_of(message)
    if uses and message["role"] != "assistant":
        raise Mismatch("tool uses must be in a message of the assistant", ("role",))
    check_unique(uses)
    return [use["id"] for use in uses]


def check_unique(uses: list[Any]) -> None:
    """Check that no two tool uses have the same id. Raises Mismatch."""
    seen: set[str] = set()
    for use in uses:
        if use["id"] in seen:
            raise Mismatch(f"two tool uses have the id {use['id'][:100]!r}")
        seen.add(use["id"])


def _check_answered(open_uses: list[str], answered: list[str]) -> None:
    results = set(answered)
    missing = next((use_id for use_id in open_uses if use_id not in results), None)
    if missing is not None:
        raise Mismatch(f"Tool result missing in request: none for the tool use {missing[:100]!r}")
    left = set(open_uses)
    for use_id in answered:
        if use_id not in left:
            raise Mismatch(f"a tool result for {use_id[:100]!r}, which is not an open tool use")
        left.discard(use_id)


@contextlib.contextmanager
def under(*path: str | int) -> Iterator[None]:
    """Put a path before the place of each Mismatch raised inside, which knows only its place in a part."""
    try:
        yield
    except Mismatch as problem:
        for key in reversed(path):
            problem.under(key)
        raise
