"""Requests and replies of sampling (page: client/sampling): the dicts of the wire, with shortcuts.

    SamplingRequest   the params of sampling/createMessage, for the callback of a client
    Reply             the result, for the author of a tool
    as_reply          the value that a callback returns -> a whole result

A review may change a request in place.

Revisions   all; see client/sampling for what each has.
Threads     plain values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_ref.basic.index.messages import Json
from mcp_ref.client.sampling.messages import blocks_of, uses_of
from mcp_ref.runtime.brief import brief
from mcp_ref.runtime.typing.mismatch import must
from mcp_ref.server.content import text, texts

__all__ = ["Reply", "SamplingRequest", "as_reply"]


class SamplingRequest(dict[str, Any]):
    """The params of a sampling request, with shortcuts. A review may change it."""

    def __init__(self, params: Json, server: str = "") -> None:
        super().__init__(params)
        self.server = server
        """The name of the server that asks, as it gave it itself."""

    def __repr__(self) -> str:
        return f"<SamplingRequest of {brief(self.server)}: {brief(dict(self))}>"

    @property
    def messages(self) -> list[Any]:
        """The conversation so far."""
        messages: list[Any] = self["messages"]
        return messages

    @property
    def text(self) -> str:
        """The text of the user's last message."""
        from_user = [message for message in self.messages if message["role"] == "user"]
        return texts(blocks_of(from_user[-1])) if from_user else ""

    @property
    def max_tokens(self) -> int:
        """The most tokens that the answer may have.  # spec: client/sampling/max-tokens-respected"""
        return int(self["maxTokens"])

    @property
    def system_prompt(self) -> str | None:
        """The system prompt that the server suggests."""
        return self.get("systemPrompt")

    @property
    def include_context(self) -> str:
        """The context that the server would like to have added: none, thisServer or allServers.

        # spec: schema/sampling-include-context-default
        """
        return str(self.get("includeContext", "none"))

    @property
    def tools(self) -> list[Any]:
        """The tools that the model may use."""
        return list(self.get("tools", ()))

    @property
    def tool_choice(self) -> str:
        """Whether the model uses tools: auto, required or none.

        # spec: client/sampling/tool-choice-auto-default
        """
        return str(self.get("toolChoice", {}).get("mode", "auto"))

    @property
    def hints(self) -> list[str]:
        """Names of models, or parts of names, that the server prefers, the most wanted first."""
        hints = self.get("modelPreferences", {}).get("hints", ())
        return [hint["name"] for hint in hints if "name" in hint]

    def choose(self, models: Sequence[str]) -> str:
        """The model that the first matching hint names; the first of `models` if no hint matches.

        # spec: client/sampling/hints-advisory, schema/sampling-hints-order, schema/sampling-hint-substring
        """
        fitting = (model for hint in self.hints for model in models if hint in model)
        return next(fitting, models[0])


class Reply(dict[str, Any]):
    """The result of sampling/createMessage, as a dict with shortcuts: received, or made of an answer."""

    def __repr__(self) -> str:
        return f"Reply({brief(self)})"

    @property
    def blocks(self) -> list[Any]:
        """The content, always as a list.  # spec: client/sampling/result-content-array"""
        return blocks_of(self)

    @property
    def text(self) -> str:
        """The text of all its blocks."""
        return texts(self.blocks)

    @property
    def tool_uses(self) -> list[Any]:
        """The calls of tools that the model asks for: blocks with `id`, `name` and `input`."""
        return uses_of(self)

    @property
    def model(self) -> str:
        """The name of the model that wrote the message."""
        return str(self["model"])

    @property
    def stop_reason(self) -> str | None:
        """Why the message ends: endTurn, stopSequence, maxTokens, toolUse, or a provider's own word."""
        return self.get("stopReason")

    def as_message(self) -> Json:
        """The message to append to the conversation, unchanged, for the next request.

        # spec: schema/tool-use-meta-preserved
        """
        return {"role": self["role"], "content": self["content"]}


def as_reply(returned: Any) -> Reply:
    """The result for the value of a callback: text, a block, a list of these, or a whole result."""
    is_result = isinstance(returned, dict) and "type" not in returned
    content = _content(returned.get("content") if is_result else returned)
    members = returned if is_result else {}
    reply = Reply({"role": "assistant", "model": "unknown", **members, "content": content})
    if reply.tool_uses:
        reply.setdefault("stopReason", "toolUse")
    elif not is_result:  # a whole result without a reason may have ended for any
        reply["stopReason"] = "endTurn"
    return reply


def _content(returned: Any) -> Any:
    """The content of a result: one block as it is, several as a list. Raises Mismatch."""
    items = returned if isinstance(returned, list | tuple) else [returned]
    blocks = [text(item) if isinstance(item, str) else item for item in items] or [text("")]
    for block in blocks:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise must("be text, a content block, a list of these or a result", block)
    return blocks[0] if len(blocks) == 1 else blocks
