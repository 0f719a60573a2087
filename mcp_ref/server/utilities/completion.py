"""Completion (page: server/utilities/completion).

While a user types the argument of a prompt or the variable of a resource template, the client asks what
it could become.

    client -> server   completion/complete {ref, argument: {name, value}, context?: {arguments}}
    server -> client   {completion: {values, total?, hasMore?}}

What an author says                        what a client gets
    nothing; the type is an Enum, Literal, bool   its values that match, the best first
    complete={"name": [...]} or an Enum           the same
    complete={"name": fn}                         what fn gives, in its order: `fn(value)` or
                                                  `fn(value, arguments)`, and the Context if it wants it

A value matches that begins with what was typed, or has it at the beginning of a word, or somewhere, or has
its letters in that order; in this order they are sent, at most 100 of them.

Server half   `on_complete`, `completers`
Client half   `complete`

Revisions   2024-11-05  ref/prompt, ref/resource
            2025-03-26  + the capability `completions`
            2025-06-18  + context.arguments: what was chosen for other arguments
            2026-07-28  the limit of 100 is part of the schema

Errors      an unknown prompt, template or argument, and a value that is too long: -32602; a completer
            that fails: -32603; more requests than the limit: 429.
Threads     `on_complete` and with it an author's function run on the request's own worker; `complete` on
            the caller's.
Not here    when to ask: not with every key, but after a pause in typing. An application knows best.
"""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.error_responses import (
    InternalError,
    InvalidParams,
    ProtocolError,
    TooManyRequests,
)
from mcp_ref.basic.index.general_fields import RequestMeta, ResultMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.context import RequestContext
from mcp_ref.basic.versioning import Method
from mcp_ref.runtime.errors import (
    InvalidResponse,
    RequestCancelled,
)
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing import functions
from mcp_ref.runtime.typing.mismatch import message_of, summary
from mcp_ref.runtime.typing.texts import TextParameters, choices_of, text_of
from mcp_ref.schema import Bounds, required, since, until, was

__all__ = ["Completer", "Suggestions", "complete", "completers"]

_log = logger("mcp_ref.completion")

MAX_SENT = 100
"""Values in one result."""
MAX_FOUND = 10_000
"""Values that are looked at for one result."""
MAX_VALUE = 10_000
"""Characters of what was typed."""
MAX_ARGUMENTS = 1_000_000
"""Characters of all that was chosen before."""

# ---------------------------------------------------------------------------- shapes


class PromptReference(TypedDict, total=False):
    type: Required[Literal["ref/prompt"]]
    name: Required[str]
    title: Annotated[str, since("2025-06-18")]


class ResourceTemplateReference(TypedDict, total=False):
    type: Required[Literal["ref/resource"]]
    uri: Required[Annotated[str, Bounds(format="uri-template")]]


class CompletedArgument(TypedDict, total=False):
    name: Required[str]
    value: Required[str]


class CompletionContext(TypedDict, total=False):
    arguments: dict[str, str]


class CompleteRequestParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), required(since="2026-07-28")]
    ref: Required[PromptReference | ResourceTemplateReference]
    argument: Required[CompletedArgument]
    context: Annotated[CompletionContext, since("2025-06-18")]


class Completion(TypedDict, total=False):
    values: Required[Annotated[list[str], Bounds(max_length=MAX_SENT), was(list[str], until="2025-11-25")]]
    total: int
    hasMore: bool


class CompleteResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    completion: Required[Completion]


DEFINITIONS: dict[str, Any] = {
    "PromptReference": PromptReference,
    "ResourceReference": Annotated[ResourceTemplateReference, until("2025-03-26")],
    "ResourceTemplateReference": Annotated[ResourceTemplateReference, since("2025-06-18")],
}

# ------------------------------------------------------------------- what an author gives


@dataclass(frozen=True)
class Suggestions:
    """What a completer gives that pages by itself: some values, of how many, and whether there are more."""

    values: Sequence[Any]
    total: int | None = None
    has_more: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Sequence):
            raise TypeError(f"values are a list of strings, not {summary(self.values)}")
        if self.total is not None and (type(self.total) is not int or self.total < 0):
            raise ValueError(f"total is a whole number from 0 on, not {self.total!r:.60}")


Completer: TypeAlias = Callable[[str, dict[str, str], RequestContext], Sequence[Any] | Suggestions]
"""What was typed, what was chosen for other arguments, and the request -> what could be meant."""


def completers(parameters: TextParameters, given: Mapping[str, Any] | None) -> dict[str, Completer]:
    """Who completes which argument of a function. Raises ValueError, TypeError for what cannot be."""
    given = given or {}
    names = [field.name for field in parameters.fields]
    for name in given:
        if name not in names and not parameters.others:
            raise ValueError(f"complete: there is no parameter {name!r}, but {', '.join(names) or 'none'}")
    found = {name: _completer(name, source) for name, source in given.items()}
    for field in parameters.fields:
        choices = choices_of(field.hint)
        if choices and field.name not in found:
            found[field.name] = _among(choices)
    return found


def _completer(name: str, source: Any) -> Completer:
    """What an author wrote for one argument: values, an Enum or a Literal, or a function."""
    if typing.get_origin(source) is Literal or (isinstance(source, type) and issubclass(source, enum.Enum)):
        return _among(choices_of(source))
    if callable(source):
        return _asked(name, source)
    if isinstance(source, str | Mapping) or not isinstance(source, Iterable):
        raise TypeError(f"complete: {name} is a list, an Enum or a function, not {summary(source)}")
    values = list(islice(source, MAX_FOUND + 1))
    if len(values) > MAX_FOUND:
        raise ValueError(f"complete: {name} has more than {MAX_FOUND} values; pass a function that chooses")
    return _among([text_of(value) for value in values])


def _among(values: list[str]) -> Completer:
    """Complete from a list: what matches, the best first.

    # spec: server/utilities/completion/sorted-by-relevance, server/utilities/completion/fuzzy-matching
    """
    folded = [(value, value.casefold()) for value in values]

    def complete(typed: str, arguments: dict[str, str], context: RequestContext) -> list[str]:
        wanted = typed.casefold()
        ranked: list[list[str]] = [[] for _ in range(5)]
        for value, text in folded:
            rank = 0 if value.startswith(typed) else _rank(text, wanted)
            if rank is not None:
                ranked[rank].append(value)
        return [value for values in ranked for value in values]

    return complete


def _rank(text: str, wanted: str) -> int | None:
    """How well a value fits what was typed, both without case; None if not at all."""
    at = text.find(wanted)
    if at == 0:
        return 1
    if at < 0:
        rest = iter(text)
        is_spread = len(wanted) <= len(text) and all(character in rest for character in wanted)
        return 4 if is_spread else None
    while at > 0 and text[at - 1].isalnum():
        at = text.find(wanted, at + 1)
    return 2 if at > 0 else 3


def _asked(name: str, function: Callable[..., Any]) -> Completer:
    """Complete by a function of the author's."""
    context_name, takes = _signature(name, function)

    def complete(
        typed: str, arguments: dict[str, str], context: RequestContext
    ) -> Sequence[Any] | Suggestions:
        given: Json = dict(zip(takes, (typed, arguments), strict=False))
        if context_name is not None:
            given[context_name] = context
        return _gathered(function(**given))

    return complete


def _signature(name: str, function: Callable[..., Any]) -> tuple[str | None, list[str]]:
    """The parameters for the Context, if any, and for what was typed and what was chosen."""
    if functions.is_async(function):
        raise TypeError(f"complete: the function for {name} is asynchronous; a plain one may block")
    hints = functions.hints_of(function)
    context, takes, closed = None, [], False
    for parameter in inspect.signature(function).parameters.values():
        if functions.wants(hints.get(parameter.name, Any), RequestContext):
            context = parameter.name
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            # What has a default is the function's own, but for the name we give it ourselves.
            if parameter.default is parameter.empty or parameter.name in ("value", "arguments"):
                takes.append(parameter.name)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            closed = True
    if closed or not 1 <= len(takes) <= 2:
        raise TypeError(f"complete: the function for {name} takes (value) or (value, arguments)")
    return context, takes


def _gathered(found: Any) -> Sequence[Any] | Suggestions:
    """What a function gave, as far as anybody looks at it."""
    if found is None:
        return []
    if isinstance(found, Suggestions):
        return found
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise TypeError(f"a completer gives a list of strings, not {summary(found)}")
    values = list(islice(found, MAX_FOUND + 1))
    if len(values) > MAX_FOUND:
        return Suggestions(values[:MAX_SENT], has_more=True)  # of how many, nobody has counted
    return values


# ----------------------------------------------------------------------- server half


def on_complete(server: Any, params: Json, context: RequestContext) -> Json:
    """Find the argument, ask its completer, send the best.

    # spec: server/utilities/completion/rate-limit, server/utilities/completion/rate-limit-requests
    """
    limiter = server.limiter(context)
    wait = limiter.enter()
    if wait:
        raise TooManyRequests("too many completions", wait)
    try:
        completer = _found(server, params)
        if completer is None:
            return _result([])
        return _run(completer, params, context)
    finally:
        limiter.leave()


def _found(server: Any, params: Json) -> Completer | None:
    """Who completes the argument, None if nobody.

    # spec: server/utilities/completion/validate-inputs, server/utilities/completion/validate-inputs-should
    # spec: server/utilities/completion/invalid-prompt-32602
    # spec: server/utilities/completion/missing-argument-32602
    """
    ref, name, value = params["ref"], params["argument"]["name"], params["argument"]["value"]
    what, names, complete = REFERENCES[ref["type"]](server, ref)
    if name not in names:
        raise InvalidParams(f"{what} has no argument {name[:200]!r}; it has {_some(names)}")
    if len(value) > MAX_VALUE:
        raise InvalidParams(f"argument.value: {len(value)} characters; at most {MAX_VALUE} can be completed")
    return complete.get(name)


def _of_prompt(server: Any, ref: Json) -> tuple[str, list[str], Mapping[str, Completer]]:
    prompt = server.prompts.get(ref["name"])
    if prompt is None:
        raise InvalidParams(f"Unknown prompt: {ref['name'][:200]}{server.known(server.prompts.keys())}")
    names = [argument["name"] for argument in prompt.definition.get("arguments", ())]
    return f"the prompt {ref['name']}", names, prompt.complete


def _of_resource(server: Any, ref: Json) -> tuple[str, list[str], Mapping[str, Completer]]:
    """A template by its very text; a resource has nothing to complete, but there is such a reference."""
    uri = ref["uri"]
    template = server.templates.get(uri)
    if template is not None:
        return f"the template {uri}", list(template.template.variables), template.complete
    if server.resources.get(uri) is None and not any(found.find(uri) for found in server.directories):
        known = server.known(server.templates.keys())
        raise InvalidParams(f"Unknown resource template: {uri[:200]}{known}")
    return f"the resource {uri}", [], {}


REFERENCES: dict[str, Callable[[Any, Json], tuple[str, list[str], Mapping[str, Completer]]]] = {
    "ref/prompt": _of_prompt,
    "ref/resource": _of_resource,
}
"""What to call it, its arguments, who completes them.  # spec: server/utilities/completion/reference-types"""


def _some(names: Iterable[str]) -> str:
    return ", ".join(islice(names, 20)) or "none"


def _run(completer: Completer, params: Json, context: RequestContext) -> Json:
    argument = params["argument"]
    chosen = _chosen(params, context)
    try:
        return _result(completer(argument["value"], chosen, context))
    except (ProtocolError, RequestCancelled):
        raise
    except Exception as problem:  # spec: server/utilities/completion/errors
        _log.warning("completing %.100r failed", argument["name"], exc_info=problem)
        raise InternalError(f"completing {argument['name']} failed: {message_of(problem)}") from None


def _chosen(params: Json, context: RequestContext) -> dict[str, str]:
    """What was chosen for other arguments, where the revision can say so."""
    if not context.revision.reaches("2025-06-18"):
        return {}
    chosen: dict[str, str] = params.get("context", {}).get("arguments", {})
    if sum(len(name) + len(value) for name, value in chosen.items()) > MAX_ARGUMENTS:
        raise InvalidParams(f"context.arguments: at most {MAX_ARGUMENTS} characters in all")
    return dict(chosen)


def _result(found: Sequence[Any] | Suggestions) -> Json:
    """The first hundred, and how many there are.

    # spec: server/utilities/completion/max-100-values, server/utilities/completion/total-and-has-more
    """
    given = found if isinstance(found, Suggestions) else Suggestions(found, total=len(found))
    values = [text_of(value) for value in given.values[:MAX_SENT]]
    count = max(given.total or 0, len(given.values))
    more = count > len(values) if given.has_more is None else given.has_more
    completion: Json = {"values": values}
    if given.total is not None:
        completion["total"] = count
    completion["hasMore"] = more or len(given.values) > len(values)
    return {"completion": completion}


# spec: server/utilities/completion/capability-declared, server/utilities/completion/unsupported-32601
METHODS = (
    Method(
        "completion/complete",
        on_complete,
        params=CompleteRequestParams,
        result=CompleteResult,
        capability="completions",
    ),
)

# ----------------------------------------------------------------------- client half


def complete(
    client: Any,
    *,
    prompt: str | None = None,
    resource: str | None = None,
    argument: str,
    value: str = "",
    arguments: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """Ask what an argument of a prompt, or a variable of a resource template, could become.

    `arguments` are those chosen so far; a revision that has no place for them goes without.
    # spec: server/utilities/completion/argument-name-value
    """
    if (prompt is None) == (resource is None):
        raise TypeError("completion is for a prompt's name or for a resource template: one of them")
    by_name, by_uri = {"type": "ref/prompt", "name": prompt}, {"type": "ref/resource", "uri": resource}
    ref: Json = by_uri if prompt is None else by_name
    params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
    if arguments and client.revision.reaches("2025-06-18"):
        # spec: server/utilities/completion/context-arguments
        params["context"] = {"arguments": dict(arguments)}
    return client.request("completion/complete", params, **options)


def check_result(client: Any, params: Json, result: Json, timeout: float | None) -> None:
    """Make do with what a server sent: values that are none are left out, as is what is not said right.

    # spec: server/utilities/completion/handle-partial
    """
    completion = result.get("completion")
    if not isinstance(completion, dict) or not isinstance(completion.get("values", []), list):
        raise InvalidResponse("completion/complete: the result has no completion with a list of values")
    values = [value for value in completion.get("values", []) if isinstance(value, str)]
    good: Json = {**completion, "values": values[:MAX_SENT]}
    if len(values) > MAX_SENT:
        good["hasMore"] = True
    if type(good.get("total", 0)) is not int:
        del good["total"]
    if not isinstance(good.get("hasMore", False), bool):
        del good["hasMore"]
    result["completion"] = good
