"""JSON Schemas written by hand, by an author or by the peer (page: basic/index, "JSON Schema Usage").

A schema is checked once, and its validator is stored: checking the schema each time would cost fifty times
the validation itself. A schema from a peer is not trusted, so what it may cost is bounded:

    dialect      2020-12 unless `$schema` says otherwise; also 2019-09, draft-07, -06, -04, -03;
                 any other is refused by name
    references   only within the schema itself; nothing is ever fetched
    patterns     of values and of names, in the dialect of ECMA-262 (runtime/typing/ecma262): a search that
                 might take too long is not begun (runtime/typing/patterns)
    size         MAX_SCHEMA_BYTES of JSON, MAX_SCHEMA_LEVELS, MAX_SCHEMA_NODES, MAX_URI_CHARACTERS in an
                 `$id` or `$ref`
    cost         MAX_REFERENCES followed in one validation, and MAX_VALIDATION_SECONDS of work, which also
                 bounds the check of the schema itself (runtime/typing/budget)

The `jsonschema` package is imported when the first schema is used, since importing it takes longer than
importing all of this package. Its rules that search for patterns, compare each item with each other, or
collect the errors of all alternatives are replaced by ours: they take quadratic time or more, and cannot be
stopped by the time limit while they run.

Threads     a Validator may be used by many threads at once.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.typing.budget import Exhausted, budget
from mcp_ref.runtime.typing.mismatch import Mismatch, summary
from mcp_ref.runtime.typing.parts import equality_key
from mcp_ref.runtime.typing.patterns import TooCostly, check, search
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["DIALECTS", "BadSchema", "Validator", "own_validator", "validator"]

MAX_SCHEMA_BYTES = 1024 * 1024
MAX_SCHEMA_LEVELS = 64
MAX_SCHEMA_NODES = 20_000
MAX_URI_CHARACTERS = 1000
MAX_REFERENCES = 20_000
MAX_VALIDATION_SECONDS = 5.0

MAX_ERRORS = 10
"""Errors reported for one value."""

MAX_CACHED_VALIDATORS = 512
"""Validators in the cache."""
MAX_CACHED_SCHEMA_BYTES = 4 * MAX_SCHEMA_BYTES
"""Bytes of the schemas of all validators in the cache."""

DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
    "http://json-schema.org/draft-03/schema": "Draft3Validator",
}
DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""# spec: basic/index/schema-2020-12-default, basic/index/schema-2020-12-supported"""


class BadSchema(ValueError):
    """A schema that cannot be used; the message says why."""


class Validator:
    """A schema that has been checked, and validates values."""

    def __init__(self, schema: Any, is_trusted: bool = False) -> None:
        """Raises BadSchema. `is_trusted`: the patterns are the author's own (runtime/typing/patterns)."""
        _check_size(schema)
        checker_class, registry = _machinery(_dialect(schema), is_trusted)
        try:
            # No limit of references: the dialect's schema refers to itself for each part of this schema.
            with budget().limited(math.inf, MAX_VALIDATION_SECONDS):
                _check_references(schema)
                _check_by_dialect(checker_class, registry, schema)
                _check_names(schema)
        except Exhausted as exhausted:
            raise BadSchema(f"the check of the schema was given up: {exhausted.reason}") from None
        self.schema = schema
        self._checker = checker_class(schema, registry=registry)

    def check(self, value: Any) -> None:
        """Raises Mismatch unless the value is valid.  # spec: basic/index/schema-validate-by-dialect"""
        try:
            with budget().limited(MAX_REFERENCES, MAX_VALIDATION_SECONDS):
                errors = list(itertools.islice(self._checker.iter_errors(value), MAX_ERRORS))
        except Exhausted:
            raise
        except RecursionError:
            raise Mismatch("validation was given up: schema and value are too deep") from None
        except Exception as problem:  # a reference to a missing part; a pattern that `re` cannot compile
            raise Mismatch(f"the schema cannot be applied: {_shown(problem)}") from None
        if errors:
            raise Mismatch.all(Mismatch(_shown(e.message), tuple(e.absolute_path)) for e in errors)


def _shown(text: Any) -> str:
    """Text from a schema, or from a package that quotes it, as a message may show it: short, on one line."""
    return one_line(f"{text!s:.200}")[:200]


def validator(schema: Any) -> Validator:
    """The validator of a peer's schema, from the cache if possible. Raises BadSchema."""
    return _cache.get(_text_of(schema))


def own_validator(schema: Any) -> Validator:
    """The validator of an author's own schema; the caller stores it. Raises BadSchema."""
    return Validator(json.loads(_text_of(schema)), is_trusted=True)


def _text_of(schema: Any) -> str:
    try:
        text = json.dumps(schema, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadSchema(f"a schema is JSON: {problem}") from None
    if len(text) > MAX_SCHEMA_BYTES:  # JSON as we write it is ASCII
        raise BadSchema(f"the schema has more than {MAX_SCHEMA_BYTES} bytes")
    return text


class _Cache:
    """The validators that were used last, by the text of their schemas."""

    def __init__(self) -> None:
        self.forked()
        forks.register(self)

    def forked(self) -> None:
        """Begin empty: at the start, and again in a forked child, where the lock may be held for ever."""
        self._lock = threading.Lock()
        self._validators: OrderedDict[str, Validator] = OrderedDict()  # guarded by _lock; oldest first
        self._size = 0  # guarded by _lock

    def get(self, text: str) -> Validator:
        """The validator of a schema; makes and stores it if it is not in the cache. Raises BadSchema."""
        with self._lock:
            if text in self._validators:
                self._validators.move_to_end(text)
                return self._validators[text]
        made = Validator(json.loads(text))  # without the lock, since it may take seconds
        with self._lock:
            self._size += len(text) if text not in self._validators else 0
            self._validators[text] = made
            while len(self._validators) > MAX_CACHED_VALIDATORS or self._size > MAX_CACHED_SCHEMA_BYTES:
                oldest, _ = self._validators.popitem(last=False)
                self._size -= len(oldest)
        return made


_cache = _Cache()


def _dialect(schema: Any) -> str:
    named = schema.get("$schema", DEFAULT_DIALECT) if isinstance(schema, dict) else DEFAULT_DIALECT
    uri = named.rstrip("#") if isinstance(named, str) else ""  # spec: basic/index/schema-explicit-dialect
    if uri not in DIALECTS:  # spec: basic/index/schema-unsupported-dialect-error
        raise BadSchema(f"unsupported dialect {named!r:.100}; supported: {', '.join(DIALECTS)}")
    return uri


# ---------------------------------------------------------------------------- bounds


def _check_size(schema: Any) -> None:
    """Check levels and number of objects and arrays.  # spec: basic/index/schema-validation-bounds"""
    if not isinstance(schema, dict | bool):
        raise BadSchema(f"a schema is an object, not {schema!r:.60}")
    level, depth, count = _inner_parts([[schema]]), 0, 0
    while level:
        if depth > MAX_SCHEMA_LEVELS:
            raise BadSchema(f"the schema nests deeper than {MAX_SCHEMA_LEVELS} levels")
        count += len(level)
        if count > MAX_SCHEMA_NODES:
            raise BadSchema(f"the schema has more than {MAX_SCHEMA_NODES} parts")
        level, depth = _inner_parts(level), depth + 1


def _inner_parts(nodes: list[Any]) -> list[Any]:
    """The objects and arrays that are direct members of these objects and arrays."""
    children = (node.values() if isinstance(node, dict) else node for node in nodes)
    return [part for part in itertools.chain.from_iterable(children) if isinstance(part, dict | list)]


def _check_references(schema: Any) -> None:
    parts = list(_parts_with_base(schema))
    known = {"", *DIALECTS, *(base for _, base in parts)}
    for part, base in parts:
        for key in sorted(_REFERENCES & part.keys()):
            if isinstance(part[key], str):
                _check_reference(schema, key, part[key], base, known)


def _check_reference(schema: Any, key: str, target: str, base: str, known: set[str]) -> None:
    """Check that a reference leads to a part of the schema itself. Raises BadSchema.

    # spec: basic/index/ref-no-network-deref, basic/index/ref-opt-in-default-off
    """
    if target.startswith("#/") and not base and not _leads_somewhere(schema, target):
        raise BadSchema(f"{key} {target[:100]!r} leads nowhere in the schema")
    # spec: basic/index/ref-unresolved-rejected
    if not target.startswith("#") and _resolved(base, target) not in known:
        raise BadSchema(f"{key} {target[:100]!r} leads out of the schema; it is never fetched")


def _check_names(schema: Any) -> None:
    """Check the names of `patternProperties`: not each dialect's own schema says that these are patterns."""
    named = (part.get("patternProperties") for part, _ in _parts_with_base(schema))
    for pattern in itertools.chain.from_iterable(names for names in named if isinstance(names, dict)):
        budget().spend()
        try:
            check(pattern)
        except (re.error, TooCostly) as problem:
            raise BadSchema(_about_pattern("patternProperties", pattern, problem)) from None


def _about_pattern(where: str, pattern: str, cause: Any) -> str:
    """The schema may be right all the same: its pattern may be of a dialect that has more than ours."""
    said = f"{pattern[:60]!r}: {cause}"
    return f"the pattern at {where} is invalid, or its dialect is not supported: {said}"


_REFERENCES = {"$ref", "$dynamicRef", "$recursiveRef"}
DATA_KEYWORDS = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are data, even if they look like schemas."""
_NAMING_KEYWORDS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members are schemas; their keys are names, even if they look like keywords."""


def _parts_with_base(schema: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every object within a schema that may be a schema, with the base URI of its references."""
    stack: list[tuple[Any, str]] = [(schema, "")]
    while stack:
        budget().spend()
        node, base = stack.pop()
        if isinstance(node, list):
            stack.extend((item, base) for item in node)
        elif isinstance(node, dict):
            for key in ("$id", "id"):
                base = _resolved(base, node[key]) if isinstance(node.get(key), str) else base
            yield node, base
            stack.extend(
                (inner, base) for key in node.keys() - DATA_KEYWORDS for inner in _schemas_at(key, node[key])
            )


def _schemas_at(key: str, value: Any) -> Iterable[Any]:
    return value.values() if key in _NAMING_KEYWORDS and isinstance(value, dict) else (value,)


def _leads_somewhere(schema: Any, target: str) -> bool:
    """Whether a JSON pointer, written as a fragment, points at something."""
    from urllib.parse import unquote

    node = schema
    for part in unquote(target[2:]).split("/") if target != "#/" else [""]:
        step = part.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(step) if isinstance(node, list) and step.isdecimal() else step]
        except (LookupError, TypeError, ValueError):
            return False
    return True


def _resolved(base: str, target: str) -> str:
    """A URI resolved against its base. Raises BadSchema.

    The result is bounded, too: many short URIs could each be resolved against one long base.
    """
    from urllib.parse import urldefrag, urljoin

    try:
        resolved = urldefrag(urljoin(base, target)).url if len(target) <= MAX_URI_CHARACTERS else target
    except ValueError as problem:
        raise BadSchema(f"{target[:100]!r} is not a URI: {_shown(problem)}") from None
    if len(resolved) > MAX_URI_CHARACTERS:
        raise BadSchema(f"{target[:100]!r} is a URI of more than {MAX_URI_CHARACTERS} characters")
    return resolved


def _check_by_dialect(checker_class: Any, registry: Any, schema: Any) -> None:
    """Check a schema by the schema of its dialect. Raises BadSchema.  # spec: basic/index/schema-valid"""
    try:
        checker = checker_class(checker_class.META_SCHEMA, registry=registry, format_checker=_formats())
        problem = next(checker.iter_errors(schema), None)
    except RecursionError:
        raise BadSchema("the schema is too deep to be checked") from None
    if problem is not None:
        where = _shown("/" + "/".join(map(str, problem.absolute_path)))
        if problem.cause is not None:  # of the formats, only `regex` is checked
            raise BadSchema(_about_pattern(where, problem.instance, problem.cause))
        raise BadSchema(f"not a valid schema at {where}: {_shown(problem.message)}")


@functools.cache
def _formats() -> Any:
    from jsonschema import FormatChecker

    formats = FormatChecker(formats=())
    formats.checks("regex", raises=(re.error, TooCostly))(
        lambda value: not isinstance(value, str) or check(value)
    )
    return formats


# ---------------------------------------------------------------------------- the package's validators


@functools.cache
def _machinery(dialect: str, is_trusted: bool) -> tuple[Any, Any]:
    """The validator class of a dialect, with our rules, and a registry that cannot fetch anything."""
    from jsonschema import validators
    from jsonschema_specifications import REGISTRY

    base: Any = getattr(validators, DIALECTS[dialect])
    rules = base.VALIDATORS | {name: rule for name, rule in _RULES.items() if name in base.VALIDATORS}
    if dialect.endswith("draft-03/schema"):  # there a type may be a schema
        rules["type"] = base.VALIDATORS["type"]
    extend: Any = validators.extend
    checker_class = extend(base, {n: _spending(rule, int(n in _REFERENCES)) for n, rule in rules.items()})
    checker_class.evolve = _evolve
    checker_class.is_trusted = is_trusted
    return checker_class, REGISTRY


def _evolve(self: Any, **changes: Any) -> Any:
    """The same validator for a schema within the schema.

    The package's own method would change to a class without our rules where an inner schema has `$schema`.
    """
    schema = changes.get("schema", self.schema)
    named = schema.get("$schema") if isinstance(schema, dict) else None
    uri = named.rstrip("#") if isinstance(named, str) else ""
    checker_class = _machinery(uri, self.is_trusted)[0] if uri in DIALECTS else type(self)
    return checker_class(
        schema=schema,
        format_checker=self.format_checker,
        registry=self._registry,
        _resolver=changes.get("_resolver", self._resolver),
    )


def _spending(rule: Callable[..., Any], steps: int) -> Callable[..., Any]:
    """A keyword's rule that spends `steps` of the budget first, which also checks the time limit."""

    def spending(checker: Any, target: Any, value: Any, schema: Any) -> Any:
        budget().spend(steps)
        return rule(checker, target, value, schema)

    return spending


# ---------------------------------------------------------------------------- rules of our own


def _is_found(checker: Any, pattern: str, text: str) -> bool:
    """Search a text for a pattern of the schema. Every pattern is searched for here. Raises Exhausted."""
    budget().spend()
    try:
        return search(pattern, text, is_trusted=checker.is_trusted)
    except TooCostly as problem:
        raise Exhausted(str(problem)) from None


def _names_with_schema(checker: Any, value: Any, schema: Any) -> set[str]:
    """The names of a value's members that `properties` or `patternProperties` has a schema for."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return {n for n in value if n in known or any(_is_found(checker, pattern, n) for pattern in patterns)}


def _fits(checker: Any, value: Any, schema: Any) -> bool:
    return next(checker.descend(value, schema), None) is None


def _error(message: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


def _type(checker: Any, types: Any, value: Any, schema: Any) -> Any:
    """Our error does not contain the whole value: it is often about one alternative among many."""
    wanted = [types] if isinstance(types, str) else types
    if not any(checker.is_type(value, name) for name in wanted):
        yield _error(f"{summary(value)} is not of type {', '.join(map(repr, wanted))}")


def _unique_items(checker: Any, wanted: Any, value: Any, schema: Any) -> Any:
    """In linear time: to compare each item with each other would take minutes in one large message."""
    if wanted and checker.is_type(value, "array") and len(set(map(equality_key, value))) != len(value):
        yield _error("holds an item twice")


def _pattern(checker: Any, pattern: Any, value: Any, schema: Any) -> Any:
    if checker.is_type(value, "string") and not _is_found(checker, pattern, value):
        yield _error(f"{value[:80]!r} does not match {pattern[:80]!r}")


def _pattern_properties(checker: Any, patterns: Any, value: Any, schema: Any) -> Any:
    for pattern, part in patterns.items() if checker.is_type(value, "object") else ():
        for name, item in value.items():
            if _is_found(checker, pattern, name):
                yield from checker.descend(item, part, path=name, schema_path=pattern)


def _additional_properties(checker: Any, wanted: Any, value: Any, schema: Any) -> Any:
    if not checker.is_type(value, "object"):
        return
    named = _names_with_schema(checker, value, schema)
    extra = [name for name in value if name not in named]
    if wanted is False and extra:
        yield _error(f"Additional properties are not allowed: {', '.join(map(repr, extra[:10])):.200}")
    elif checker.is_type(wanted, "object"):
        for name in extra:
            yield from checker.descend(value[name], wanted, path=name)


def _any_of(checker: Any, choices: Any, value: Any, schema: Any) -> Any:
    """Without the errors of all alternatives: there may be thousands, each with the value in it."""
    if not any(_fits(checker, value, choice) for choice in choices):
        yield _error(f"{summary(value)} is not valid under any of the given schemas")


def _one_of(checker: Any, choices: Any, value: Any, schema: Any) -> Any:
    fitting = (number for number, choice in enumerate(choices) if _fits(checker, value, choice))
    first, second = next(fitting, None), next(fitting, None)
    if first is None:
        yield _error(f"{summary(value)} is not valid under any of the given schemas")
    elif second is not None:
        yield _error(f"{summary(value)} is valid under the given schemas {first} and {second}, not under one")


def _unevaluated_properties(checker: Any, wanted: Any, value: Any, schema: Any) -> Any:
    if checker.is_type(value, "object"):
        seen = _evaluated(checker, value, _without(schema, "unevaluatedProperties"), _evaluated_names)
        for name in value.keys() - seen:
            if not _fits(checker, value[name], wanted):
                yield _error(f"Unevaluated properties are not allowed: {name[:80]!r}")
                return


def _unevaluated_items(checker: Any, wanted: Any, value: Any, schema: Any) -> Any:
    if checker.is_type(value, "array"):
        seen = _evaluated(checker, value, _without(schema, "unevaluatedItems"), _evaluated_places)
        for index in range(len(value)):
            if index not in seen and not _fits(checker, value[index], wanted):
                yield _error(f"Unevaluated items are not allowed: {summary(value[index])}")
                return


def _without(schema: Any, keyword: str) -> Any:
    return {name: part for name, part in schema.items() if name != keyword}


def _evaluated(checker: Any, value: Any, schema: Any, seen_by: Callable[..., set[Any]]) -> set[Any]:
    """The names, or indexes, in a value that a schema evaluates: itself, or by a schema that it applies.

    `unevaluatedProperties` and `unevaluatedItems` are about the others.
    """
    budget().spend()
    if not isinstance(schema, dict):
        return set()
    seen = seen_by(checker, value, schema)
    for inner, part in _schemas_in_force(checker, value, schema):
        seen |= _evaluated(inner, value, part, seen_by)
    return seen


def _evaluated_names(checker: Any, value: Any, schema: Any) -> set[Any]:
    if schema.keys() & {"additionalProperties", "unevaluatedProperties"}:
        return set(value)
    return _names_with_schema(checker, value, schema)


def _evaluated_places(checker: Any, value: Any, schema: Any) -> set[Any]:
    items, first = schema.get("items"), schema.get("prefixItems", [])
    if isinstance(items, list) and "additionalItems" not in schema:  # of 2019-09
        items, first = None, items
    if items is not None or "unevaluatedItems" in schema:
        return set(range(len(value)))
    seen = set(range(min(len(first), len(value))))
    if "contains" in schema:
        seen |= {index for index, item in enumerate(value) if _fits(checker, item, schema["contains"])}
    return seen


def _schemas_in_force(checker: Any, value: Any, schema: Any) -> Iterator[tuple[Any, Any]]:
    """The schemas that a schema applies to the same value, if they are valid for it (references: always)."""
    from referencing.jsonschema import lookup_recursive_ref

    for keyword in sorted(_REFERENCES & schema.keys()):
        budget().spend(1)
        found: Any = checker._resolver
        found = lookup_recursive_ref(found) if keyword == "$recursiveRef" else found.lookup(schema[keyword])
        yield checker.evolve(schema=found.contents, _resolver=found.resolver), found.contents
    yield from ((checker, part) for part in _in_place(checker, value, schema) if _fits(checker, value, part))


def _in_place(checker: Any, value: Any, schema: Any) -> Iterator[Any]:
    """The schemas within a schema that apply to the same value, whether or not it is valid for them."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(keyword, ())
    yield from (part for name, part in schema.get("dependentSchemas", {}).items() if name in value)
    if "if" in schema:
        yield schema["if"]
        yield schema.get("then" if _fits(checker, value, schema["if"]) else "else", True)


_RULES: dict[str, Callable[..., Any]] = {
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "type": _type,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}
"""Our rules, in place of those of the `jsonschema` package."""
