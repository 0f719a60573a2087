"""A user's function as a contract: the schema of its arguments, and how to call it with JSON.

The signature is read once, when the function is registered. A call makes one pass over its arguments:
`Parameters.load` makes Python values of them, or says what is wrong.

Threads     `Parameters` does not change once it is made; any number of threads may use it.
"""

from __future__ import annotations

import copy
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from mcp_ref.runtime.typing import parts
from mcp_ref.runtime.typing.bounds import description_in
from mcp_ref.runtime.typing.codec import Codec, Convert, Field, Schema
from mcp_ref.runtime.typing.docstrings import parameter_docs
from mcp_ref.runtime.typing.values import Compiler

__all__ = ["Parameters", "parameters_of", "return_hint", "signature_of", "takes_one"]


class Parameters(typing.NamedTuple):
    """How to call one function from JSON."""

    schema: Schema
    load: Callable[[Any], dict[str, Any]]
    """JSON object -> keyword arguments. Raises Mismatch."""
    context: str | None
    """The name of the parameter for the Context; None without one."""


def parameters_of(function: Callable[..., Any], context_type: type) -> Parameters:
    """Read the signature of a function. Raises TypeError for a parameter that JSON cannot fill."""
    fields, context, others = signature_of(function, context_type)
    described = parameter_docs(inspect.getdoc(function) or "")
    fields_shown = [_with_description(field, described) for field in fields]
    compiler = Compiler()
    try:
        codec = compiler.object(fields_shown, dict, closed=others is None)
        rest = compiler.codec(others) if others is not None else None
    except (TypeError, NameError) as problem:
        raise TypeError(f"{_name(function)}: {problem}") from None
    # spec: server/tools/input-schema-no-parameters
    schema = {**codec.schema, "additionalProperties": (rest.schema or True) if rest else False}
    if compiler.defs:
        schema["$defs"] = compiler.defs
    return Parameters(schema, _loader(codec.load, fields, rest), context)


def signature_of(function: Callable[..., Any], context_type: type) -> tuple[list[Field], str | None, Any]:
    """The parameters of a function, the name of the one for the Context, and the hint of its `**kwargs`.

    Either of the last two is None if the function does not have it. Raises TypeError for an async function,
    and for a parameter that cannot be filled by name.
    """
    if is_async(function) or is_async(type(function).__call__):
        raise TypeError(f"{_name(function)} is asynchronous; a plain function may block as it likes")
    hints = hints_of(function)
    fields, contexts, others = [], [], None
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name, Any)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{_name(function)}: `{parameter}` cannot be filled by name from JSON")
        if parameter.kind is parameter.VAR_KEYWORD:
            others = hint
        elif wants(hint, context_type):
            contexts.append(name)
        else:
            is_required = parameter.default is parameter.empty
            fields.append(Field(name, hint, is_required, None if is_required else parameter.default))
    if len(contexts) > 1:
        raise TypeError(f"{_name(function)}: both {contexts[0]} and {contexts[1]} want the context")
    return fields, contexts[0] if contexts else None, others


def _with_description(field: Field, described: dict[str, str]) -> Field:
    """The field with the docstring's description, unless its hint has one."""
    marks = getattr(field.hint, "__metadata__", ())
    if field.name not in described or any(description_in(mark) is not None for mark in marks):
        return field
    return field._replace(hint=typing.Annotated[field.hint, described[field.name]])


def _loader(load: Convert, fields: list[Field], rest: Codec | None) -> Convert:
    """A loader that also fills `**kwargs`, and copies lists, dicts and sets that are defaults.

    Otherwise a function that changes a default would change it for all later calls.
    """
    names = {field.name for field in fields}
    fresh = {f.name: f.default for f in fields if isinstance(f.default, list | dict | set)}
    if rest is None and not fresh:
        return load

    def load_more(value: Any) -> dict[str, Any]:
        done: dict[str, Any] = load(value)
        if rest is not None:
            done |= parts.convert_members(str, rest.load, {k: v for k, v in done.items() if k not in names})
        for name in fresh.keys() - done.keys():
            done[name] = copy.deepcopy(fresh[name])
        return done

    return load_more


def is_async(function: Any) -> bool:
    """Whether a function is a coroutine function, or an asynchronous generator."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def takes_one(function: Callable[..., Any], context_type: type) -> tuple[str | None, str]:
    """The parameters of a function that takes one dict: the one for the Context, if any, and the dict's.

    Raises TypeError for a function that cannot be called so.
    """
    fields, context, _ = signature_of(function, context_type)
    needed = [field for field in fields if field.required]
    if not fields or len(needed) > 1:
        raise TypeError(f"{_name(function)}: with a hand-written schema it takes its arguments as one dict")
    return context, (needed or fields)[0].name


def return_hint(function: Callable[..., Any]) -> Any:
    """The hint of a function's result; `inspect.Signature.empty` without one."""
    return hints_of(function).get("return", inspect.Signature.empty)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The type hints of a function, a partial or a callable object. Raises TypeError."""
    target = inspect.unwrap(function)
    while isinstance(target, functools.partial):
        target = inspect.unwrap(target.func)
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, AttributeError, SyntaxError) as problem:
        raise TypeError(
            f"{_name(function)}: {problem} in a type hint; hints must be importable from its module"
        ) from None


def wants(hint: Any, context_type: type) -> bool:
    """Whether a parameter with this hint gets the Context: `ctx: Context`, `Context | None` and the like."""
    if isinstance(hint, type):
        return issubclass(hint, context_type)
    if typing.get_origin(hint) not in (typing.Union, types.UnionType, typing.Annotated):
        return False
    return any(wants(arg, context_type) for arg in typing.get_args(hint))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
