"""The messages of a conversation with a model (page: client/sampling, "Message Content Constraints").

What is sampled from is a list of messages, each of a `user` or an `assistant`, each with one content
block or several. Two kinds of blocks exist only here:

    assistant   tool_use {id, name, input}               the model wants this tool called
    user        tool_result {toolUseId, content, ...}    what came of it

Whoever asked for a tool is answered before anything else is said: the message after one with tool uses
holds a result for each of them, and holds nothing else.

`as_messages` makes such a list of what an author gives, `check_messages` tells whether one keeps these
rules; both peers use it, on what they send and on what they get.

Revisions   2024-11-05  text, image
            2025-03-26  + audio
            2025-11-25  + tool_use, tool_result; content may be several blocks; + `_meta`
            2026-07-28  + structured content of any kind in a tool's result
Errors      Mismatch, with the place; the page's other module says what becomes of it.
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
    for_revision,
    is_block,
    text,
)

__all__ = ["SamplingMessage", "as_messages", "check_messages", "tool_result", "tool_use"]

MAX_TOOL_ROUNDS = 100
"""Messages with tool uses in one conversation.  # spec: client/sampling/tool-loop-limits"""

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
    """# spec: client/sampling/message-role-content"""

    role: Required[Role]
    content: Required[SamplingContent]
    _meta: Annotated[Json, since("2025-11-25")]


# ---------------------------------------------------------------------------- making


def tool_use(use_id: str, name: str, arguments: Json, *, meta: Json | None = None) -> Json:
    """The model wants a tool called: what a client's callback may answer with."""
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
    """What came of a tool use (the block, or its id): text, a content block, or a list of these."""
    items = result if isinstance(result, list | tuple) else [result]
    block: Json = {
        "type": "tool_result",
        "toolUseId": use if isinstance(use, str) else use["id"],
        "content": [text(item) if isinstance(item, str) else item for item in items],
    }
    more = {"structuredContent": structured, "isError": is_error or None, "_meta": meta}
    return block | {name: value for name, value in more.items() if value is not None}


def as_messages(given: Any) -> list[Any]:
    """Messages, from one or a list of: a string or a block, which the user says; or a message.

    Tool results in a row are one message, since they answer one.
    """
    messages: list[Any] = []
    results: list[Any] = []  # of the message that is being made
    for item in given if isinstance(given, list | tuple) else [given]:
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
    """Each tool result in balanced messages: its place, the name of the tool, the block."""
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        for number, block in enumerate(blocks_of(message)):
            if block["type"] == "tool_use":
                names[block["id"]] = block["name"]
            elif block["type"] == "tool_result":
                yield ("messages", index, "content", number), names[block["toolUseId"]], block


def pruned(message: Any, date: str) -> Any:
    """A message that this revision can say, without the members of its blocks that it does not have."""
    prune = for_revision(date)
    content = message["content"]
    if isinstance(content, list):
        return {**message, "content": [prune(b) if is_block(b) else b for b in content]}
    return {**message, "content": prune(content)} if is_block(content) else message


# -------------------------------------------------------------------------- checking


def check_messages(messages: list[Any]) -> None:
    """What the shapes leave open. Raises Mismatch.

    # spec: client/sampling/validate-content
    """
    with under("messages"):
        for index, message in enumerate(messages):
            with under(index, "content"):
                check_data(message["content"])
        _check_balance(messages)


def check_data(content: Any) -> None:
    """Pictures and sound are base64, wherever they stand in some content."""
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
    """Each tool use is answered by the very next message.

    # spec: client/sampling/tool-use-balanced, client/sampling/tool-use-answered
    # spec: schema/tool-result-id-matches
    """
    owed: list[str] = []
    rounds = 0
    for index, message in enumerate(messages):
        with under(index):
            answered = _results(message)
            _check_answered(owed, answered)
            owed = _uses(message)
            rounds += bool(owed)
            if rounds > MAX_TOOL_ROUNDS:
                raise Mismatch(f"a conversation has at most {MAX_TOOL_ROUNDS} messages with tool uses")
    _check_answered(owed, [])


def _results(message: Any) -> list[str]:
    """The ids that a message has results for.  # spec: client/sampling/tool-results-only"""
    blocks = blocks_of(message)
    found = [block["toolUseId"] for block in blocks if block["type"] == "tool_result"]
    if found and message["role"] != "user":
        raise Mismatch("tool results are a user's to give", ("role",))
    if found and len(found) < len(blocks):
        raise Mismatch("Tool results mixed with other content: such a message holds nothing else")
    return found


def _uses(message: Any) -> list[str]:
    """The ids that a message wants results for."""
    uses = uses_of(message)
    if uses and message["role"] != "assistant":
        raise Mismatch("tool uses are an assistant's to ask for", ("role",))
    check_unique(uses)
    return [use["id"] for use in uses]


def check_unique(uses: list[Any]) -> None:
    """No two tool uses of a message have the same id."""
    seen: set[str] = set()
    for use in uses:
        if use["id"] in seen:
            raise Mismatch(f"two tool uses have the id {use['id'][:100]!r}")
        seen.add(use["id"])


def _check_answered(owed: list[str], answered: list[str]) -> None:
    given = set(answered)
    missing = next((use_id for use_id in owed if use_id not in given), None)
    if missing is not None:
        raise Mismatch(f"Tool result missing in request: none for the tool use {missing[:100]!r}")
    left = set(owed)
    for use_id in answered:
        if use_id not in left:
            raise Mismatch(f"a tool result for {use_id[:100]!r}, which is no open tool use")
        left.discard(use_id)


@contextlib.contextmanager
def under(*path: str | int) -> Iterator[None]:
    """The faults found inside are those of a part."""
    try:
        yield
    except Mismatch as problem:
        for key in reversed(path):
            problem.under(key)
        raise
