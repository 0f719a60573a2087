"""Completion (page: server/utilities/completion).

While a user types the argument of a prompt or the variable of a resource template, the client asks for values
that it could become.

    client -> server   completion/complete {ref, argument: {name, value}, context?: {arguments}}
    server -> client   {completion: {values, total?, hasMore?}}

    What an author writes                         What a client gets
    an argument with an Enum, Literal or bool     those of its values that match, the best first
    complete={"name": [...]} or an Enum           the same
    complete={"name": fn}                         the values of fn, in its order: `fn(value)` or
                                                  `fn(value, arguments)`, with a Context if fn has a
                                                  parameter for it

A value matches if it begins with the typed text, or has it at the beginning of a word, or somewhere, or has
its letters in that order. Values are sent in this order, at most 100 of them.

Server half   `on_complete`, `completers`
Client half   `complete_params`

Revisions   2024-11-05  ref/prompt, ref/resource
            2025-03-26  + the capability `completions`
            2025-06-18  + context.arguments: the values chosen for other arguments
            2026-07-28  the limit of 100 is part of the schema

Errors      an unknown prompt, template or argument, and a value that is too long: -32602; a completer
            that fails: -32603; more requests than the limit: 429.
Threads     `on_complete`, and with it an author's function, runs on the thread of the request (a worker, or
            over Streamable HTTP the thread that took the POST); the client half on the caller's thread.
Not here    when to ask: not at every key, but after a pause in typing. That is for the application.
"""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.error_responses import InternalError, InvalidParams, ProtocolError, TooManyRequests
from mcp_ref.basic.index.general_fields import RequestMeta, ResultMeta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.context import RequestContext
from mcp_ref.basic.versioning import Method, Revision
from mcp_ref.runtime.errors import InvalidResponse, RequestCancelled
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing import functions
from mcp_ref.runtime.typing.mismatch import message_of, summary
from mcp_ref.runtime.typing.texts import TextParameters, choices_of, text_of
from mcp_ref.schema import Bounds, required, since, until, was
from mcp_ref.server.resources import ResourceLists

if TYPE_CHECKING:
    from mcp_ref.runtime.limits import Limiters
    from mcp_ref.server.prompts import RegisteredPrompt
    from mcp_ref.server.utilities.pagination import PagedList

__all__ = ["Completer", "Suggestions", "complete_params", "completers"]

_log = logger("mcp_ref.completion")

MAX_SENT_VALUES = 100
"""The most values in one result: a limit of the specification."""
MAX_SOURCE_VALUES = 10_000
"""Values that are taken from a list or a function for one result."""
MAX_TYPED_CHARACTERS = 10_000
"""Characters of `argument.value`, the typed text."""
MAX_CHOSEN_CHARACTERS = 1_000_000
"""Characters of all names and values in `context.arguments`."""
LISTED_NAMES = 20
"""Names of arguments in an error message."""

# ---------------------------------------------------------------------------- shapes


class PromptReference(TypedDict, total=False):
    type: Required[Literal["ref/prompt"]]
    name: Required[str]
    title: Annotated[str, since("2025-06-18")]


class ResourceTemplateReference(TypedDict, total=False):
    type: Required[Literal["ref/resource"]]
    uri: Required[Annotated[str, {"format": "uri-template"}]]


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
    values: Required[
        Annotated[list[str], Bounds(max_length=MAX_SENT_VALUES), was(list[str], until="2025-11-25")]
    ]
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

# -------------------------------------------------------------------------- completers


@dataclass(frozen=True)
class Suggestions:
    """The first values of a completer that limits them itself, their total, and whether there are more."""

    values: Sequence[Any]
    total: int | None = None
    has_more: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Sequence):
            raise TypeError(f"values must be a list of strings, not {summary(self.values)}")
        if self.total is not None and (type(self.total) is not int or self.total < 0):
            raise ValueError(f"total must be a whole number, 0 or more, not {self.total!r:.60}")


Completer: TypeAlias = Callable[[str, dict[str, str], RequestContext], Sequence[Any] | Suggestions]
"""Typed text, values chosen for other arguments, and the request -> values that the text could become."""


def completers(parameters: TextParameters, sources: Mapping[str, Any] | None) -> dict[str, Completer]:
    """The completers of a function's arguments, by name: the author's, and those that follow from hints.

    Raises ValueError for a name that the function does not have, TypeError for a source of another kind.
    """
    sources = sources or {}
    if not parameters.others:
        _check_names(sources, [field.name for field in parameters.fields])
    by_hint = {
        field.name: _list_completer(choices)
        for field in parameters.fields
        if field.name not in sources and (choices := choices_of(field.hint))
    }
    return {name: _completer(name, source) for name, source in sources.items()} | by_hint


def _check_names(sources: Mapping[str, Any], parameters: list[str]) -> None:
    for name in sources:
        if name not in parameters:
            raise ValueError(f"complete: there is no parameter {name!r}; there are: {_listed(parameters)}")


def _completer(name: str, source: Any) -> Completer:
    """The completer of one argument, from the author's source: values, an Enum, a Literal, or a function."""
    if typing.get_origin(source) is Literal or (isinstance(source, type) and issubclass(source, enum.Enum)):
        return _list_completer(choices_of(source))
    if callable(source):
        return _function_completer(name, source)
    if isinstance(source, str | Mapping) or not isinstance(source, Iterable):
        raise TypeError(f"complete: {name} must be a list, an Enum or a function, not {summary(source)}")
    values = list(islice(source, MAX_SOURCE_VALUES + 1))
    if len(values) > MAX_SOURCE_VALUES:
        raise ValueError(
            f"complete: {name} has more than {MAX_SOURCE_VALUES} values; pass a function that chooses"
        )
    return _list_completer([text_of(value) for value in values])


def _list_completer(values: list[str]) -> Completer:
    """A completer that takes from a list the values that match, the best first.

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
    """How well a value matches the typed text, 1 is best; both are folded. None if it does not match."""
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


def _function_completer(name: str, function: Callable[..., Any]) -> Completer:
    """A completer that calls a function of the author."""
    context_name, names = _signature(name, function)

    def complete(
        typed: str, arguments: dict[str, str], context: RequestContext
    ) -> Sequence[Any] | Suggestions:
        keywords: Json = dict(zip(names, (typed, arguments), strict=False))
        if context_name is not None:
            keywords[context_name] = context
        return _read_values(function(**keywords))

    return complete


def _signature(name: str, function: Callable[..., Any]) -> tuple[str | None, list[str]]:
    """The parameters that a function has: for the Context, if any; for the text, and for the arguments.

    Raises TypeError for a function that could not be called with these.
    """
    if functions.is_async(function):
        raise TypeError(f"complete: the function for {name} is asynchronous; write a plain one, it may block")
    hints = functions.hints_of(function)
    context, names, has_positional_only = None, [], False
    for parameter in inspect.signature(function).parameters.values():
        if functions.wants(hints.get(parameter.name, Any), RequestContext):
            context = parameter.name
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            # A parameter with a default is for the function's own use, unless it has one of these names.
            if parameter.default is parameter.empty or parameter.name in ("value", "arguments"):
                names.append(parameter.name)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            has_positional_only = True
    if has_positional_only or not 1 <= len(names) <= 2:
        raise TypeError(f"complete: the function for {name} must take (value) or (value, arguments)")
    return context, names


def _read_values(returned: Any) -> Sequence[Any] | Suggestions:
    """The values that a function returned: all of a short iterable, the first of an endless one."""
    if returned is None:
        return []
    if isinstance(returned, Suggestions):
        return returned
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise TypeError(f"a completer must return a list of strings, not {summary(returned)}")
    values = list(islice(returned, MAX_SOURCE_VALUES + 1))
    if len(values) > MAX_SOURCE_VALUES:
        return Suggestions(values[:MAX_SENT_VALUES], has_more=True)  # no total: the rest was not counted
    return values


# ----------------------------------------------------------------------- server half


class CompletionHost(ResourceLists, Protocol):
    """What this page needs of the server: prompts, templates and resources, and the limits of callers."""

    @property
    def prompts(self) -> PagedList[RegisteredPrompt]: ...

    def known(self, names: Iterable[str]) -> str:
        """The end of an error about an unknown name: the names that exist, unless some may be hidden."""

    @property
    def limiters(self) -> Limiters:
        """One limiter for each principal: it bounds the completions that the principal requests."""


def on_complete(server: CompletionHost, params: Json, context: RequestContext) -> Json:
    """Answer completion/complete: find the argument, run its completer, send the first values.

    # spec: server/utilities/completion/rate-limit, server/utilities/completion/rate-limit-requests
    """
    own, principal = context.connection.responder.limiter, context.principal
    limiter = own if principal is None else server.limiters.of(principal)
    wait = limiter.enter()
    if wait:
        raise TooManyRequests("too many completions", wait)
    try:
        completer = _find_completer(server, params)
        if completer is None:
            return _result([])
        return _run(completer, params, context)
    finally:
        limiter.leave()


def _find_completer(server: CompletionHost, params: Json) -> Completer | None:
    """The completer of the argument, None if it has none. Raises InvalidParams for an unknown argument.

    # spec: server/utilities/completion/validate-inputs, server/utilities/completion/validate-inputs-should
    # spec: server/utilities/completion/invalid-prompt-32602
    # spec: server/utilities/completion/missing-argument-32602
    """
    ref, name, value = params["ref"], params["argument"]["name"], params["argument"]["value"]
    what, names, complete = REFERENCES[ref["type"]](server, ref)
    if name not in names:
        raise InvalidParams(f"{what} has no argument {name[:200]!r}; it has {_listed(names)}")
    if len(value) > MAX_TYPED_CHARACTERS:
        raise InvalidParams(
            f"argument.value: {len(value)} characters; at most {MAX_TYPED_CHARACTERS} can be completed"
        )
    return complete.get(name)


def _of_prompt(server: CompletionHost, ref: Json) -> tuple[str, list[str], Mapping[str, Completer]]:
    prompt = server.prompts.get(ref["name"])
    if prompt is None:
        raise InvalidParams(f"Unknown prompt: {ref['name'][:200]}{server.known(server.prompts.keys())}")
    names = [argument["name"] for argument in prompt.definition.get("arguments", ())]
    return f"the prompt {ref['name']}", names, prompt.complete


def _of_resource(server: CompletionHost, ref: Json) -> tuple[str, list[str], Mapping[str, Completer]]:
    """A template, found by its text. The reference may also be to a resource, which has no arguments."""
    uri = ref["uri"]
    template = server.templates.get(uri)
    if template is not None:
        return f"the template {uri}", list(template.template.variables), template.complete
    if server.resources.get(uri) is None and not any(found.find(uri) for found in server.directories):
        known = server.known(server.templates.keys())
        raise InvalidParams(f"Unknown resource template: {uri[:200]}{known}")
    return f"the resource {uri}", [], {}


REFERENCES: dict[str, Callable[[CompletionHost, Json], tuple[str, list[str], Mapping[str, Completer]]]] = {
    "ref/prompt": _of_prompt,
    "ref/resource": _of_resource,
}
"""A reference -> its name in messages, its arguments, its completers.

# spec: server/utilities/completion/reference-types
"""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(islice(names, LISTED_NAMES)) or "none"


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
    """The values chosen for other arguments. Raises InvalidParams if they are too long."""
    if not context.revision.completion_context:
        return {}
    chosen: dict[str, str] = params.get("context", {}).get("arguments", {})
    if sum(len(name) + len(value) for name, value in chosen.items()) > MAX_CHOSEN_CHARACTERS:
        raise InvalidParams(f"context.arguments: at most {MAX_CHOSEN_CHARACTERS} characters in all")
    return dict(chosen)


def _result(found: Sequence[Any] | Suggestions) -> Json:
    """The first hundred values, their total, and whether there are more.

    # spec: server/utilities/completion/max-100-values, server/utilities/completion/total-and-has-more
    """
    given = found if isinstance(found, Suggestions) else Suggestions(found, total=len(found))
    values = [text_of(value) for value in given.values[:MAX_SENT_VALUES]]
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


def complete_params(
    at: Revision,
    *,
    prompt: str | None = None,
    resource: str | None = None,
    argument: str,
    value: str = "",
    arguments: Mapping[str, str] | None = None,
) -> Json:
    """The params of completion/complete: what could an argument of a prompt or a template become?

    `arguments` are those chosen so far; they are left out in a revision that has no member for them.
    # spec: server/utilities/completion/argument-name-value
    """
    if (prompt is None) == (resource is None):
        raise TypeError("completion needs a prompt's name or the URI of a resource template: one of them")
    by_name, by_uri = {"type": "ref/prompt", "name": prompt}, {"type": "ref/resource", "uri": resource}
    ref: Json = by_uri if prompt is None else by_name
    params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
    if arguments and at.completion_context:
        # spec: server/utilities/completion/context-arguments
        params["context"] = {"arguments": dict(arguments)}
    return params


def check_result(client: object, params: Json, result: Json, timeout: float | None) -> None:
    """Tidy a server's result: values that are not strings are left out, as are a wrong `total` or `hasMore`.

    Raises InvalidResponse if there is no list of values.

    # spec: server/utilities/completion/handle-partial
    """
    completion = result.get("completion")
    if not isinstance(completion, dict) or not isinstance(completion.get("values", []), list):
        raise InvalidResponse("completion/complete: the result has no completion with a list of values")
    values = [value for value in completion.get("values", []) if isinstance(value, str)]
    good: Json = {**completion, "values": values[:MAX_SENT_VALUES]}
    if len(values) > MAX_SENT_VALUES:
        good["hasMore"] = True
    if type(good.get("total", 0)) is not int:
        del good["total"]
    if not isinstance(good.get("hasMore", False), bool):
        del good["hasMore"]
    result["completion"] = good
