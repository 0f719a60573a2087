"""Questions about a type hint that `typing` leaves to its users."""

from __future__ import annotations

import collections.abc
import dataclasses
import typing
from typing import Annotated, Any, get_args, get_origin

from mcp_ref.runtime.typing.codec import Field

__all__ = ["fields_of", "kind_of", "replacement_for", "required_hint"]


def required_hint(hint: Any, otherwise: bool) -> tuple[Any, bool]:
    """The hint of a TypedDict's member without Required or NotRequired, and whether the member is required.

    Python's own `__required_keys__` sees neither of the two where annotations are strings.
    """
    origin = get_origin(hint)
    if origin is typing.Required or origin is typing.NotRequired:
        return get_args(hint)[0], origin is typing.Required
    if origin is Annotated:
        inner, is_required = required_hint(get_args(hint)[0], otherwise)
        return Annotated[inner, *hint.__metadata__], is_required
    return hint, otherwise


def kind_of(hint: Any) -> Any:
    """The class of the values that a hint is for, or the hint itself if there is no such class."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return get_origin(hint) or hint


def fields_of(hint: Any) -> list[Field]:
    """The members of a dataclass, a NamedTuple or a TypedDict."""
    kind: Any = get_origin(hint) or hint
    hints = typing.get_type_hints(kind, include_extras=True)
    if typing.is_typeddict(kind):
        return [Field(n, *required_hint(h, n in kind.__required_keys__)) for n, h in hints.items()]
    if not dataclasses.is_dataclass(kind):
        defaults = kind._field_defaults
        return [Field(n, hints.get(n, Any), n not in defaults, defaults.get(n)) for n in kind._fields]
    if any(isinstance(h, dataclasses.InitVar) for h in hints.values()):
        raise TypeError(f"{kind!r} has an InitVar, which cannot be read back from it")
    return [_dataclass_field(f, hints[f.name]) for f in dataclasses.fields(kind) if f.init]


def _dataclass_field(field: Any, hint: Any) -> Field:
    missing = dataclasses.MISSING
    default = field.default if field.default_factory is missing else field.default_factory()
    return Field(field.name, hint, True) if default is missing else Field(field.name, hint, False, default)


def replacement_for(hint: Any) -> str:
    """What to write in place of a hint that has no JSON form, as the end of a sentence."""
    if hasattr(hint, "__supertype__"):
        return f"the type that it is made of, {hint.__supertype__!r}"
    if getattr(hint, "__constraints__", ()):
        return f"its types themselves, {' | '.join(map(repr, hint.__constraints__))}"
    if isinstance(hint, typing.TypeVar):
        return "the type that it stands for: a generic class is not filled in here"
    if kind_of(hint) in (collections.abc.Iterator, collections.abc.Generator):
        return "Iterable[...] or list[...], which a generator may fill as well"
    return "one of the types listed in mcp_ref.schema"
