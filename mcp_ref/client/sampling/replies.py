"""What is handled in sampling (page: client/sampling): a request and its answer, each a dict with short-cuts.

    SamplingRequest   what the callback of a client gets: the params of sampling/createMessage
    Reply             what the author of a tool gets: the result
    as_reply          what a callback returns -> a whole result

Both are the dicts of the wire. A request may be changed by whoever reviews it.

Revisions   all; see client/sampling for what each has.
Threads     plain values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_ref.basic.index.messages import Json
from mcp_ref.client.sampling.messages import blocks_of, uses_of
from mcp_ref.runtime.typing.mismatch import must
from mcp_ref.server.content import text, texts

__all__ = ["Reply", "SamplingRequest", "as_reply"]


class SamplingRequest(dict[str, Any]):
    """What the callback gets: the params of the request, with a few short-cuts. It may be changed."""

    def __init__(self, params: Json, server: str = "") -> None:
        super().__init__(params)
        self.server = server
        """Who asks, by its own account."""

    @property
    def messages(self) -> list[Any]:
        """The conversation so far."""
        found: list[Any] = self["messages"]
        return found

    @property
    def text(self) -> str:
        """All text of the last message of the user's."""
        said = [message for message in self.messages if message["role"] == "user"]
        return texts(blocks_of(said[-1])) if said else ""

    @property
    def max_tokens(self) -> int:
        """More than this the answer must not have.  # spec: client/sampling/max-tokens-respected"""
        return int(self["maxTokens"])

    @property
    def system_prompt(self) -> str | None:
        """What the server would like the model to be told first."""
        return self.get("systemPrompt")

    @property
    def include_context(self) -> str:
        """What the server would like to be added.  # spec: schema/sampling-include-context-default"""
        return str(self.get("includeContext", "none"))

    @property
    def tools(self) -> list[Any]:
        """The tools that the model may want called."""
        return list(self.get("tools", ()))

    @property
    def tool_choice(self) -> str:
        """auto, required or none.  # spec: client/sampling/tool-choice-auto-default"""
        return str(self.get("toolChoice", {}).get("mode", "auto"))

    @property
    def hints(self) -> list[str]:
        """Names of models, or parts of names, that the server would like; the first ones most."""
        hints = self.get("modelPreferences", {}).get("hints", ())
        return [hint["name"] for hint in hints if "name" in hint]

    def choose(self, models: Sequence[str]) -> str:
        """Of the models there are, the one that the first fitting hint names; without one, the first.

        # spec: client/sampling/hints-advisory, schema/sampling-hints-order, schema/sampling-hint-substring
        """
        fitting = (model for hint in self.hints for model in models if hint in model)
        return next(fitting, models[0])


class Reply(dict[str, Any]):
    """A message of the model's, as it came over the wire, with a few short-cuts."""

    @property
    def blocks(self) -> list[Any]:
        """The content, always as a list.  # spec: client/sampling/result-content-array"""
        return blocks_of(self)

    @property
    def text(self) -> str:
        """All text in it, one block after another."""
        return texts(self.blocks)

    @property
    def tool_uses(self) -> list[Any]:
        """The tools that the model wants called: blocks with `id`, `name` and `input`."""
        return uses_of(self)

    @property
    def model(self) -> str:
        """The model that wrote it."""
        return str(self["model"])

    @property
    def stop_reason(self) -> str | None:
        """Why it ends: endTurn, stopSequence, maxTokens, toolUse, or a word of the provider's own."""
        return self.get("stopReason")

    def as_message(self) -> Json:
        """To go on with: the message to put behind those that were asked with, as it is.

        # spec: schema/tool-use-meta-preserved
        """
        return {"role": self["role"], "content": self["content"]}


def as_reply(given: Any) -> Reply:
    """What a callback returned, as a result: text, a block, a list of these, or a whole result."""
    is_whole = isinstance(given, dict) and "type" not in given
    content = _content(given.get("content") if is_whole else given)
    reply = Reply(
        {"role": "assistant", "model": "unknown", **(given if is_whole else {}), "content": content}
    )
    if reply.tool_uses:
        reply.setdefault("stopReason", "toolUse")
    elif not is_whole:  # else nobody knows
        reply["stopReason"] = "endTurn"
    return reply


def _content(given: Any) -> Any:
    """One block as it is, several as a list."""
    items = given if isinstance(given, list | tuple) else [given]
    blocks = [text(item) if isinstance(item, str) else item for item in items] or [text("")]
    for block in blocks:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise must("be text, a content block, a list of these or a result", block)
    return blocks[0] if len(blocks) == 1 else blocks
