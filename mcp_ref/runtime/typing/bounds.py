"""The marks in `Annotated` beside a type: limits on its values, and words for people.

Our own mark is `Bounds`: `Annotated[int, Bounds(ge=0, le=10)]`. Objects of other packages are recognized by
their attributes, and no such package is imported:

    ge, gt, le, lt, multiple_of, min_length, max_length, pattern   a limit
    an iterable of others (annotated_types.Interval, Len)          each of them
    `metadata`, a list of others (pydantic.Field)                  each of them, and its words for people
    title, description, examples, documentation                    words for people

`Bounds(format=...)` takes the formats that can be checked (runtime/typing/formats). Any other can be shown by
a dict, `{"format": "hostname"}`: a dict has words for people, which are not checked.

A limit holds, or is refused when the function is registered: it is never lost. An object with none of these
attributes is refused if it is of one of those packages, and ignored if it is of any other.

Limits are tested on the JSON, on its way in and on its way out, as a peer that reads the schema would do.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from mcp_ref.runtime.typing.codec import DECIMAL, Codec, Schema, json_kind
from mcp_ref.runtime.typing.formats import FORMATS
from mcp_ref.runtime.typing.mismatch import Mismatch, must
from mcp_ref.runtime.typing.patterns import TooCostly, check, search

__all__ = ["Bounds", "apply_mark", "check_informs", "description_in", "is_field"]


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Limits on a value, to be written `Annotated[int, Bounds(ge=0, le=10)]`.

    The names are those of the `annotated-types` package, whose objects are understood as well.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    """"email", "uri", "date" or "date-time"."""


# -- limits -------------------------------------------------------------------------------


def is_match(value: str, pattern: str) -> bool:
    """Whether a string has a match for JSON Schema's `pattern` of a type hint: anywhere, unless anchored.

    Raises Mismatch if the search could take too long.
    """
    try:
        return search(pattern, value, is_trusted=True)
    except TooCostly as problem:
        raise Mismatch(f"cannot be checked: {problem}") from None


def is_multiple(value: Any, step: Any) -> bool:
    """Whether JSON Schema's `multipleOf` holds; exact for whole numbers."""
    if type(step) is int:
        return bool(value % step == 0)
    try:
        quotient = float(value / step)
    except OverflowError:
        quotient = math.inf
    if math.isfinite(quotient):
        return quotient.is_integer()
    from fractions import Fraction  # imports decimal, which takes a millisecond or two

    return Fraction(value) % Fraction(step) == 0


# name -> (keyword, JSON types it limits, rule, test); as in JSON Schema, other types pass.
_NUMBERS, _SIZED = ("integer", "number"), ("string", "array", "object")
_LIMITS: dict[str, tuple[str, tuple[str, ...], str, Callable[[Any, Any], bool]]] = {
    "ge": ("minimum", _NUMBERS, "be at least {}", operator.ge),
    "gt": ("exclusiveMinimum", _NUMBERS, "be more than {}", operator.gt),
    "le": ("maximum", _NUMBERS, "be at most {}", operator.le),
    "lt": ("exclusiveMaximum", _NUMBERS, "be less than {}", operator.lt),
    "multiple_of": ("multipleOf", _NUMBERS, "be a multiple of {}", is_multiple),
    "min_length": ("minLength", _SIZED, "be at least {} long", lambda v, b: len(v) >= b),
    "max_length": ("maxLength", _SIZED, "be at most {} long", lambda v, b: len(v) <= b),
    "pattern": ("pattern", ("string",), "match {}", is_match),
    "format": ("format", ("string",), "have the format {}", lambda v, name: FORMATS[name][1](v)),
}
_OF_OTHERS = tuple(name for name in _LIMITS if name != "format")
"""The limits that any object may have: the `format` of another class may mean something else."""

_SIZES = {"string": "Length", "array": "Items", "object": "Properties"}


def _limits_in(mark: Any) -> dict[str, Any]:
    """The limits that an object has, by name; a compiled pattern as its text, which is what a schema has."""
    names = _LIMITS if isinstance(mark, Bounds) else _OF_OTHERS
    found = {name: limit for name in names if (limit := getattr(mark, name, None)) is not None}
    pattern = found.get("pattern")
    if isinstance(pattern, re.Pattern):
        if pattern.flags != re.compile("").flags:
            raise TypeError(f"{pattern!r} has flags, which a schema cannot say")
        found["pattern"] = pattern.pattern
    return found


def _limit(codec: Codec, limits: dict[str, Any]) -> Codec:
    """The codec with limits added, in its schema and to its loader and dumper. Raises TypeError."""
    schema, tests = dict(codec.schema), []
    types = _types(codec.schema)
    for name, limit in limits.items():
        keyword, kinds, says, test = _LIMITS[name]
        kinds_here = [kind for kind in kinds if not types or kind in types]
        _check_limit(name, limit, kinds_here, codec)
        for kind in kinds_here:  # the length of an array is `minItems`, that of an object `minProperties`
            word = keyword.replace("Length", _SIZES.get(kind, "Length"))
            if schema.get(word, limit) == limit:
                schema[word] = limit
            else:  # both hold
                schema["allOf"] = [*schema.get("allOf", []), {word: limit}]
        tests.append((kinds, test, limit, says.format(limit)))
    _check_room(schema)

    def check(value: Any) -> None:
        kind = json_kind(value)
        for kinds, test, limit, says in tests:
            if kind in kinds and not test(value, limit):
                problem = must(says, value)
                problem.is_right_type = True
                raise problem

    def load(value: Any) -> Any:
        done = codec.load(value)
        check(value)
        return done

    def dump(value: Any) -> Any:
        done = codec.dump(value)
        check(done)
        return done

    return Codec(schema, load, dump, codec.says)


def _alternatives(schema: Schema) -> Iterator[Schema]:
    if "anyOf" not in schema:
        yield schema
    for part in schema.get("anyOf", ()):
        yield from _alternatives(part)


def _types(schema: Schema) -> set[str]:
    """The JSON types that a schema allows; empty where it does not name them."""
    types: set[str] = set()
    for part in _alternatives(schema):
        if "type" not in part:
            return set()
        types.update([part["type"]] if isinstance(part["type"], str) else part["type"])
    return types


def _check_limit(name: str, limit: Any, kinds: list[str], codec: Codec) -> None:
    """Raises TypeError for a limit that means nothing for the type, or whose value cannot be a limit."""
    if isinstance(limit, int) and abs(limit) > sys.float_info.max:  # Python may refuse to print it, too
        raise TypeError(f"the bound {name} is beyond a double, as which many peers read numbers")
    if not kinds:
        raise TypeError(f"the bound {name}={limit!r} means nothing for {codec.says}")
    _VALUE_CHECKS.get(name, _check_number)(name, limit)
    if "integer" in kinds and any(part.get("pattern") == DECIMAL for part in _alternatives(codec.schema)):
        raise TypeError(
            f"the bound {name}={limit!r} would not hold for a Decimal, which JSON has as a string: "
            "compare it within the function instead"
        )


def _check_number(name: str, limit: Any) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
        raise TypeError(f"the bound {name}={limit!r} is not a number")
    if name == "multiple_of" and limit <= 0:
        raise TypeError(f"the bound {name}={limit!r} is too small")


def _check_length(name: str, limit: Any) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"the bound {name}={limit!r} is not a whole number")
    if limit < 0:
        raise TypeError(f"the bound {name}={limit!r} is too small")


def _check_pattern(name: str, limit: Any) -> None:
    if not isinstance(limit, str):
        raise TypeError(f"{limit!r} is not a pattern: it is not a string")
    try:
        check(limit)
    except (re.error, OverflowError, TooCostly) as problem:
        raise TypeError(f"{limit!r} is not a pattern: {problem}") from None


def _check_format(name: str, limit: Any) -> None:
    if not isinstance(limit, str) or limit not in FORMATS:
        raise TypeError(
            f"the bound format={limit!r} cannot be checked here; {', '.join(FORMATS)} can. "
            'To show another one, without a check, write a dict: Annotated[str, {"format": "hostname"}]'
        )


_VALUE_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "min_length": _check_length,
    "max_length": _check_length,
    "pattern": _check_pattern,
    "format": _check_format,
}
"""What checks the value of a limit; `_check_number`, if there is no entry."""

_LOWEST_AND_HIGHEST: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
    *((f"min{word}", f"max{word}", operator.gt) for word in ("imum", "Length", "Items", "Properties")),
    ("minimum", "exclusiveMaximum", operator.ge),
    ("exclusiveMinimum", "maximum", operator.ge),
    ("exclusiveMinimum", "exclusiveMaximum", operator.ge),
)
"""Two keywords, and what is true of their values if nothing is left between them."""


def _check_room(schema: Schema) -> None:
    """Raises TypeError if two limits of a schema leave no value between them."""
    parts = [schema, *schema.get("allOf", ())]
    for low, high, is_empty in _LOWEST_AND_HIGHEST:
        lowest, highest = ([part[word] for part in parts if word in part] for word in (low, high))
        for least, most in itertools.product(lowest, highest):
            if is_empty(least, most):
                raise TypeError(f"the bounds {low} {least} and {high} {most} leave no value between them")


# -- marks of other packages --------------------------------------------------------------

_PACKAGES = ("annotated_types", "pydantic", "pydantic_core")
"""Packages whose objects always mean something, so that an unknown one is refused."""
_HARMLESS = ("strict", "allow_inf_nan", "unit", "documentation", "union_mode", "fail_fast")
"""Attributes that need no support: what they ask for holds here anyway, or they are for people."""

_REFUSED = (
    *("func", "strip_whitespace", "to_upper", "to_lower", "ascii_only", "coerce_numbers_to_str"),
    *("max_digits", "decimal_places", "tz", "uuid_version", "encoder", "path_type"),
)
"""Attributes that check or change a value in a way that is not supported here."""

_REFUSED_OF_FIELDS = ("alias", "validation_alias", "default_factory", "discriminator")
"""Attributes of a `pydantic.Field` that would change what a client sends, or may leave out."""

_INFORMING: dict[str, type] = {
    **dict.fromkeys(("title", "description", "$comment", "format"), str),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), str),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), bool),
    "examples": list,
}
"""The keywords of JSON Schema that an author may add, with their types: they are words for people."""

_RULE = re.compile(
    r"type|enum|const|required|pattern|multipleOf|uniqueItems|contains|default|nullable|definitions|\$.*"
    r"|(min|max)(imum|Length|Items|Properties|Contains)|exclusive(Min|Max)imum"
    r"|(pattern|additional|unevaluated)?[pP]roperties|propertyNames|(prefix|unevaluated)?[iI]tems"
    r"|not|anyOf|oneOf|allOf|if|then|else|dependen(t(Required|Schemas)|cies)|contentSchema|additionalItems|id"
)
"""The other keywords of JSON Schema. A client takes them for a promise, which would not be checked, or for
what they are not: a default, or another place in the schema. Keywords that JSON Schema does not have only
inform."""


def apply_mark(codec: Codec, mark: Any) -> Codec:
    """The codec with the limits and words of a mark. Raises TypeError for one that cannot hold here."""
    if isinstance(mark, type):  # the class itself: `pydantic.Strict`, or a mark that lacks its limit
        _check_known(mark, mark)
        return codec
    _check_refused(mark, _REFUSED)
    limits = _limits_in(mark)
    marks = _marks_in(mark, is_limit=bool(limits))
    for inner in marks or ():
        codec = apply_mark(codec, inner)
    words = _words(mark, is_ours=bool(limits) or marks is not None)
    if not limits and not words and marks is None:
        _check_known(mark, type(mark))
    if words:
        codec = dataclasses.replace(codec, schema={**codec.schema, **words})
    return _limit(codec, limits) if limits else codec


def _marks_in(mark: Any, is_limit: bool) -> list[Any] | None:
    """The marks that a `pydantic.Field`, or a group of annotated-types, consists of; None for any other."""
    metadata: Any = getattr(mark, "metadata", None)
    if isinstance(metadata, list | tuple):
        _check_field(mark)
        return list(metadata)
    is_group = hasattr(mark, "__is_annotated_types_grouped_metadata__")
    return list(mark) if is_group and not is_limit else None  # an Interval also has the limits itself


_WORDS: tuple[tuple[str, str, type, bool], ...] = (
    ("documentation", "description", str, True),
    ("title", "title", str, False),
    ("description", "description", str, False),
    ("examples", "examples", list, False),
)
"""An attribute of a mark, the keyword that it becomes, its type, and whether any mark may have it: a `title`
means what we take it for only in the marks that we know."""


def _words(mark: Any, is_ours: bool) -> Schema:
    """The words for people, as keywords. `is_ours`: the mark is one that we know, by its limits or marks."""
    found: Schema = {}
    for attribute, keyword, kind, is_anyones in _WORDS:
        value = getattr(mark, attribute, None)
        if isinstance(value, kind) and (is_ours or is_anyones):
            found[keyword] = value
    if is_ours and getattr(mark, "deprecated", None):
        found["deprecated"] = True
    extra = getattr(mark, "json_schema_extra", None) if is_ours else None
    return {**found, **extra} if isinstance(extra, dict) else found


def description_in(mark: Any) -> str | None:
    """The description of a parameter that a mark is (a string), or has; None without one."""
    found = [mark, getattr(mark, "description", None), getattr(mark, "documentation", None)]
    return next((text for text in found if isinstance(text, str)), None)


def _check_refused(mark: Any, names: tuple[str, ...]) -> None:
    """Raises TypeError for a mark that uses one of these attributes."""
    for name in names:
        value = getattr(mark, name, None)
        if value is not None and value is not False:
            raise TypeError(
                f"{mark!r:.200} says {name}, which cannot be kept here; do it within the function instead"
            )


def is_field(thing: Any) -> bool:
    """Whether an object is a `pydantic.Field`, by its attributes."""
    metadata: Any = getattr(thing, "metadata", None)
    return isinstance(metadata, list | tuple) and callable(getattr(thing, "is_required", None))


def _check_field(mark: Any) -> None:
    """Raises TypeError for a `pydantic.Field` that does more than limit and describe a value."""
    _check_refused(mark, _REFUSED_OF_FIELDS)
    is_required = getattr(mark, "is_required", None)
    if callable(is_required) and not is_required():
        raise TypeError(
            f"{mark!r:.200} says a default: write it behind the parameter instead, `name: type = default`"
        )
    extra = getattr(mark, "json_schema_extra", None)
    if callable(extra):
        raise TypeError(f"{mark!r:.200} says json_schema_extra by a function; give a dict instead")
    if isinstance(extra, dict):
        check_informs(extra, f"json_schema_extra of {mark!r:.200}")


def check_informs(keywords: Schema, where: str) -> None:
    """Raises TypeError if one of the keywords that an author adds does more than inform people."""
    for name in keywords:
        if not isinstance(name, str):
            raise TypeError(f"{where} says {name!r:.60}, which is no keyword: it is not a string")
    rules = sorted(name for name in keywords if name not in _INFORMING and _RULE.fullmatch(name))
    if rules:
        raise TypeError(
            f"{where} says {', '.join(rules)}, which would be shown and not kept; write a limit as "
            "Bounds(ge=...) or Bounds(pattern=...), a default behind the parameter, and null as `| None`"
        )
    for name, value in keywords.items():
        if not isinstance(value, _INFORMING.get(name, object)):
            raise TypeError(f"{where} says {name}={value!r:.60}: not a {_INFORMING[name].__name__}")


def _check_known(mark: Any, kind: type) -> None:
    """Raises TypeError for the class `Bounds` itself, and for an unknown object of one of `_PACKAGES`."""
    if mark is Bounds:
        raise TypeError("Bounds in Annotated says no limit: write Bounds(ge=...), or another of its limits")
    if kind.__module__.partition(".")[0] in _PACKAGES and not any(hasattr(mark, n) for n in _HARMLESS):
        raise TypeError(
            f"{kind.__module__}.{kind.__qualname__} in Annotated cannot be kept here; check the value within "
            "the function instead"
        )
