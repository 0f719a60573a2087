"""Handlers that users write, and the hooks around them; the same for servers and clients.

Threads     run on the worker of the request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

__all__ = ["Handler", "Hook", "Proceed", "handler_of", "run_with_hooks"]

C = TypeVar("C")
"""The context of a request: for an author's handler it is a Context."""

Proceed: TypeAlias = Callable[[dict[str, Any]], Any]
Handler: TypeAlias = Callable[[dict[str, Any], C], Any]
Hook: TypeAlias = Callable[[C, dict[str, Any], Proceed], Any]
"""A function around handlers: `proceed(params)` runs what it is around, and returns the result."""


def handler_of(function: Callable[..., Any]) -> Handler[Any]:
    """`fn(params)` or `fn(params, ctx)` as a handler."""
    if len(inspect.signature(function).parameters) > 1:
        return function
    return lambda params, context: function(params)


def run_with_hooks(hooks: Sequence[Hook[C]], handler: Handler[C], context: C, params: dict[str, Any]) -> Any:
    """Run a handler with hooks around it, the first of them outermost, and return the result."""
    if not hooks:
        return handler(params, context)
    first, *others = hooks
    return first(context, params, lambda params: run_with_hooks(others, handler, context, params))
