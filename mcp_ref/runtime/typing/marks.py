"""What objects of other packages say in `Annotated`: `Annotated[int, pydantic.Field(ge=1)]`.

They are known by what they offer, and none of these packages is imported:

    ge, gt, le, lt, multiple_of, min_length, max_length, pattern   a limit (runtime/typing/bounds)
    an iterable of others (annotated_types.Interval, Len)          each of them
    `metadata`, a list of others (pydantic.Field)                  each of them, and its words for people
    title, description, examples, documentation                    words for people

A limit is kept, or refused when the function is registered: it is never lost. What comes from any other
package and offers none of this means something to others, and nothing here.

Threads     plain functions.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from mcp_ref.runtime.typing.bounds import LIMITS, Bounds, bounded
from mcp_ref.runtime.typing.codec import Codec, Schema

__all__ = ["check_informs", "description_in", "marked"]

_PACKAGES = ("annotated_types", "pydantic", "pydantic_core")
"""Packages whose objects are never without a meaning."""

_REFUSED = (
    *("func", "strip_whitespace", "to_upper", "to_lower", "ascii_only", "coerce_numbers_to_str"),
    *("max_digits", "decimal_places", "tz", "uuid_version", "encoder", "path_type"),
)
"""Attributes that check or change a value in a way that we have not."""

_REFUSED_OF_FIELDS = ("alias", "validation_alias", "default_factory", "discriminator")
"""Attributes of a `pydantic.Field` that would change what a client sends, or may leave out."""

_RULES = frozenset(
    (
        *(
            "type",
            "enum",
            "const",
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
        ),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "contains", "required"),
        *("maxContains", "minContains", "maxProperties", "minProperties", "dependentRequired", "properties"),
        *("patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems", "not"),
        *("anyOf", "oneOf", "allOf", "if", "then", "else", "dependentSchemas", "$ref"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
"""Keywords that a client takes for a promise: what is only shown, and not checked, may have none of them."""

_HARMLESS = ("strict", "allow_inf_nan", "unit", "documentation", "union_mode", "fail_fast")
"""Attributes that say what is so here anyway, or what is for people."""


def marked(codec: Codec, mark: Any) -> Codec:
    """The codec with what a mark says. Raises TypeError for what cannot be kept."""
    if mark is None:
        return codec
    if isinstance(mark, type):  # `pydantic.Strict`, or an `annotated_types.Ge` that lacks its number
        if mark is Bounds:
            raise TypeError(
                "Bounds in Annotated says no limit: write Bounds(ge=...), or another of its limits"
            )
        _check_known(mark, mark)
        return codec
    _check_refused(mark, _REFUSED)
    within: Any = getattr(mark, "metadata", None)
    is_field = isinstance(within, list | tuple)
    is_limit = any(getattr(mark, name, None) is not None for name in LIMITS)
    if is_field:
        _check_field(mark)
        parts = list(within)
    elif not is_limit and hasattr(mark, "__is_annotated_types_grouped_metadata__"):
        parts = list(mark)
    else:
        parts = []
    for part in parts:
        codec = marked(codec, part)
    words = _words(mark) if is_field or is_limit else {}
    documentation = getattr(mark, "documentation", None)
    if isinstance(documentation, str):
        words["description"] = documentation
    if not (is_field or is_limit or parts or words):
        _check_known(mark, type(mark))
    if words:
        codec = dataclasses.replace(codec, schema={**codec.schema, **words})
    return bounded(codec, _with_text_pattern(mark))


def description_in(mark: Any) -> str | None:
    """The description of a parameter that a mark is, or has."""
    found = [mark, getattr(mark, "description", None), getattr(mark, "documentation", None)]
    return next((text for text in found if isinstance(text, str)), None)


def _check_refused(mark: Any, names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(mark, name, None)
        if value is not None and value is not False:
            raise TypeError(
                f"{mark!r:.200} says {name}, which cannot be kept here; do it within the function instead"
            )


def _check_field(mark: Any) -> None:
    """What a `pydantic.Field` says beside its limits."""
    _check_refused(mark, _REFUSED_OF_FIELDS)
    is_required = getattr(mark, "is_required", None)
    if callable(is_required) and not is_required():
        raise TypeError(
            f"{mark!r:.200} says a default: write it behind the parameter instead, `name: type = default`"
        )
    if callable(getattr(mark, "json_schema_extra", None)):
        raise TypeError(f"{mark!r:.200} says json_schema_extra by a function; give a dict instead")
    extra = getattr(mark, "json_schema_extra", None)
    if isinstance(extra, dict):
        check_informs(extra, f"json_schema_extra of {mark!r:.200}")


def check_informs(keywords: Schema, where: str) -> None:
    """Keywords that an author adds inform people. Raises TypeError for one that sets a rule."""
    rules = sorted(_RULES & keywords.keys())
    if rules:
        raise TypeError(
            f"{where} says {', '.join(rules)}, which is shown and not checked; give a limit instead, such as "
            "Bounds(ge=...) or Bounds(pattern=...)"
        )


def _check_known(mark: Any, kind: type) -> None:
    """An object of these packages says something, and we do not know what."""
    if kind.__module__.partition(".")[0] in _PACKAGES and not any(hasattr(mark, n) for n in _HARMLESS):
        raise TypeError(
            f"{kind.__module__}.{kind.__qualname__} in Annotated cannot be kept here; check the value within "
            "the function instead"
        )


def _words(mark: Any) -> Schema:
    """What informs people, as keywords."""
    found: Schema = {}
    for name in ("title", "description"):
        if isinstance(getattr(mark, name, None), str):
            found[name] = getattr(mark, name)
    if isinstance(getattr(mark, "examples", None), list):
        found["examples"] = mark.examples
    if getattr(mark, "deprecated", None):
        found["deprecated"] = True
    more = getattr(mark, "json_schema_extra", None)
    return {**found, **more} if isinstance(more, dict) else found


def _with_text_pattern(mark: Any) -> Any:
    """A compiled pattern as its text, which is what a schema has."""
    pattern = getattr(mark, "pattern", None)
    if not isinstance(pattern, re.Pattern):
        return mark
    if pattern.flags != re.compile("").flags:
        raise TypeError(f"{pattern!r} has flags, which a schema cannot say")
    return Bounds(**{name: getattr(mark, name, None) for name in LIMITS} | {"pattern": pattern.pattern})
