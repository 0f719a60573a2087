"""Questions about a type hint that `typing` leaves to its users.

Threads     plain functions.
"""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any, Union, get_args, get_origin

__all__ = ["filled", "hashable", "kind_of", "parameters_given", "required_hint"]


def required_hint(hint: Any, otherwise: bool) -> tuple[Any, bool]:
    """A TypedDict's member without its Required or NotRequired, and what that said.

    Python's own `__required_keys__` cannot see either where annotations are strings.
    """
    origin = get_origin(hint)
    if origin is typing.Required or origin is typing.NotRequired:
        return get_args(hint)[0], origin is typing.Required
    if origin is Annotated:
        inner, is_required = required_hint(get_args(hint)[0], otherwise)
        return Annotated[inner, *hint.__metadata__], is_required
    return hint, otherwise


def kind_of(hint: Any) -> Any:
    """The class of the values that a hint is for, if it is a class."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return get_origin(hint) or hint


def hashable(hint: Any) -> bool:
    kind = kind_of(hint)
    if kind in (Union, types.UnionType, tuple, frozenset):
        return all(map(hashable, get_args(hint)))
    return not isinstance(kind, type) or kind.__hash__ is not None


def parameters_given(hint: Any) -> dict[Any, Any]:
    """What the parameters of a generic class, and of its generic bases, stand for."""
    origin = get_origin(hint) or hint
    given = dict(zip(getattr(origin, "__parameters__", ()), get_args(hint), strict=False))
    for base in getattr(origin, "__orig_bases__", ()):
        if get_origin(base) not in (None, typing.Generic):
            given = parameters_given(filled(base, given)) | given
    return given


def filled(hint: Any, given: dict[Any, Any]) -> Any:
    """A hint with its type parameters filled in, as far as they are known."""
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not isinstance(parameters, tuple) or isinstance(hint, type) or not parameters:
        return hint
    return hint[tuple(given.get(p, p) for p in parameters)]
