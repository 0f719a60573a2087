"""The prompts of one server (page: server/prompts, "Data Types"): how a function becomes a prompt.

Its signature gives the arguments (which arrive as text, see runtime/typing/texts), its docstring the
descriptions, and its return value the messages:

    a string, or a content block           one message of the user
    user(...), assistant(...)              that message: {"role", "content"}
    a list of these                        one message each
    {"messages": [...], "description"?}    the result itself

Revisions   all; content that a revision does not have arrives as text (server/content).
Errors      TypeError, ValueError: a function that cannot be a prompt. Mismatch: it returned something
            other than a prompt.
Threads     a RegisteredPrompt never changes; see server/utilities/pagination for the list of them.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcp_ref.api.context import Context
from mcp_ref.api.from_function.common import common_members, name_of, scopes_of
from mcp_ref.basic.index.general_fields import Icon
from mcp_ref.basic.index.messages import Json, encode
from mcp_ref.basic.versioning import LATEST
from mcp_ref.runtime.typing.texts import TextParameters, text_parameters_of
from mcp_ref.schema import checker
from mcp_ref.server.content import ContentBlock
from mcp_ref.server.prompts import Prompt, PromptMessage, RegisteredPrompt, checked_block
from mcp_ref.server.utilities.completion import completers

__all__ = ["assistant", "prompt_from", "user"]


def prompt_from(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: list[Icon] | None = None,
    meta: Json | None = None,
    complete: Mapping[str, Any] | None = None,
    scopes: Sequence[str] = (),
) -> RegisteredPrompt:
    """Make a prompt from a function. Raises TypeError or ValueError if it cannot be one.

    `complete` has suggestions for its arguments: `{"style": ["short", "long"], "table": function}`
    (server/utilities/completion). On a protected server a token must have these `scopes` to get the prompt.
    """
    parameters = text_parameters_of(function, Context)
    name = name_of(function, name)
    if not isinstance(name, str) or not name.strip() or name == "<lambda>":
        raise ValueError(f"{name!r:.60} is no name for a prompt; pass name=...")
    definition: Json = {"name": name, **common_members(function, title, description, icons, meta)}
    arguments = _arguments(parameters)
    if arguments:
        definition["arguments"] = arguments
    checker(Prompt, LATEST.date)(definition)
    encode(definition)  # so that a value with no JSON form fails here, not at the first client
    return RegisteredPrompt(
        typing.cast(Prompt, definition),
        function,
        parameters.load,
        parameters.context,
        completers(parameters, complete),
        scopes_of(scopes),
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
    """A message in the role of the user."""
    return {"role": "user", "content": checked_block(said)}


def assistant(said: str | ContentBlock) -> PromptMessage:
    """A message in the role of the assistant, the model."""
    return {"role": "assistant", "content": checked_block(said)}
