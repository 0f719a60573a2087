"""JSON Schemas written by hand, by an author or by a stranger (page: basic/index, "JSON Schema Usage").

A schema is checked once and its validator kept: checking it again each time costs fifty times the
validation itself. What a stranger's schema may do is bounded:

    dialect      2020-12 unless `$schema` says otherwise; also 2019-09, draft-07, -06, -04, -03;
                 any other is refused by name
    references   only within the schema itself; nothing is ever fetched
    patterns     of values and of names: searched for only if that cannot take long (runtime/typing/patterns)
    size         MAX_BYTES of JSON, MAX_DEPTH levels, MAX_NODES nodes, MAX_URI characters in `$id` and `$ref`
    cost         MAX_REFERENCES followed in one validation, which ends after MAX_SECONDS of work; so does
                 the check of the schema itself

The `jsonschema` package is imported by the first schema, since it takes longer than all of ours. Its rules
that search for patterns, compare each item with each, or collect the complaints of all alternatives are
replaced by ours: they take quadratic time or more, in the midst of which no clock is looked at.

Threads     a Validator may be used by many threads at once.
"""

from __future__ import annotations

import functools
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mcp_ref.runtime.threads import forks
from mcp_ref.runtime.typing.mismatch import Mismatch, shown
from mcp_ref.runtime.typing.parts import identity
from mcp_ref.runtime.typing.patterns import TooCostly, check, search

__all__ = ["DIALECTS", "BadSchema", "Validator", "own_validator", "validator"]

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 20_000
MAX_URI = 1000
MAX_REFERENCES = 20_000
MAX_SECONDS = 5.0

MAX_KEPT = 512
"""Validators that are kept."""
MAX_KEPT_BYTES = 4 * MAX_BYTES
"""And bytes of their schemas, together."""

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
    """A schema that cannot be used, and why."""


class Validator:
    """A checked schema."""

    def __init__(self, schema: Any, is_trusted: bool = False) -> None:
        """`is_trusted` says that the patterns are the author's own (runtime/typing/patterns)."""
        _check_size(schema)
        _check_references(schema)
        _check_names(schema)
        dialect = _dialect(schema)
        kind, registry = _machinery(dialect)
        _check_by_dialect(kind, registry, schema)
        self.schema = schema
        self._is_trusted = is_trusted
        self._kind = kind(schema, registry=registry)

    def check(self, value: Any) -> None:
        """Raises Mismatch unless the value is valid.  # spec: basic/index/schema-validate-by-dialect"""
        _spent.begin(MAX_REFERENCES, self._is_trusted)
        try:
            errors = [e for _, e in zip(range(10), self._kind.iter_errors(value), strict=False)]
        except _TooCostly as problem:
            raise Mismatch(f"validation was given up: {problem}") from None
        except RecursionError:
            raise Mismatch("validation was given up: schema and value are too deep") from None
        except Exception as problem:  # a reference into nowhere; a pattern that `re` does not know
            raise Mismatch(f"the schema cannot be applied: {problem!s:.200}") from None
        if errors:
            raise Mismatch.all(Mismatch(f"{e.message:.200}", tuple(e.absolute_path)) for e in errors)


def validator(schema: Any) -> Validator:
    """The kept validator of a stranger's schema. Raises BadSchema."""
    return _kept.get(_text_of(schema))


def own_validator(schema: Any) -> Validator:
    """A validator of an author's own schema, which the caller keeps. Raises BadSchema."""
    return Validator(json.loads(_text_of(schema)), is_trusted=True)


def _text_of(schema: Any) -> str:
    try:
        text = json.dumps(schema, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadSchema(f"a schema is JSON: {problem}") from None
    if len(text) > MAX_BYTES:  # JSON as we write it is ASCII
        raise BadSchema(f"the schema has more than {MAX_BYTES} bytes")
    return text


class _Kept:
    """The validators that were used last, by the text of their schemas."""

    def __init__(self) -> None:
        self.forked()
        forks.tell(self)

    def forked(self) -> None:
        """At the beginning, and again in a forked child: another thread may have been at work here."""
        self._lock = threading.Lock()
        self._validators: dict[str, Validator] = {}  # guarded by _lock, as is the next; the oldest first
        self._size = 0

    def get(self, text: str) -> Validator:
        """Kept, or made. Raises BadSchema."""
        with self._lock:
            kept = self._validators.pop(text, None)
            if kept is not None:
                self._validators[text] = kept
                return kept
        made = Validator(json.loads(text))  # without the lock: it may take seconds
        with self._lock:
            if text not in self._validators:
                self._size += len(text)
            self._validators[text] = made
            while len(self._validators) > MAX_KEPT or self._size > MAX_KEPT_BYTES:
                oldest = next(iter(self._validators))
                del self._validators[oldest]
                self._size -= len(oldest)
        return made


_kept = _Kept()


def _dialect(schema: Any) -> str:
    named = schema.get("$schema", DEFAULT_DIALECT) if isinstance(schema, dict) else DEFAULT_DIALECT
    uri = named.rstrip("#") if isinstance(named, str) else ""  # spec: basic/index/schema-explicit-dialect
    if uri not in DIALECTS:  # spec: basic/index/schema-unsupported-dialect-error
        raise BadSchema(f"unsupported dialect {named!r:.100}; supported: {', '.join(DIALECTS)}")
    return uri


# ---------------------------------------------------------------------------- bounds


def _nodes(schema: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Every object and array of a schema, with its depth."""
    stack = [(schema, depth)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, dict | list):
            yield node, depth
            children = node.values() if isinstance(node, dict) else node
            stack.extend((child, depth + 1) for child in children)


def _check_size(schema: Any) -> None:
    """# spec: basic/index/schema-validation-bounds"""
    if not isinstance(schema, dict | bool):
        raise BadSchema(f"a schema is an object, not {schema!r:.60}")
    for count, (_, depth) in enumerate(_nodes(schema)):
        if depth > MAX_DEPTH:
            raise BadSchema(f"the schema nests deeper than {MAX_DEPTH} levels")
        if count > MAX_NODES:
            raise BadSchema(f"the schema has more than {MAX_NODES} parts")


def _check_references(schema: Any) -> None:
    """Only what the schema holds itself may be referred to.

    # spec: basic/index/ref-no-network-deref, basic/index/ref-opt-in-default-off
    """
    own, targets = {"", *DIALECTS}, []
    for node, base in _based(schema):
        own.add(base)
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = node.get(key)
            if not isinstance(target, str):
                continue
            if not target.startswith("#"):
                targets.append((key, target, base))
            elif target.startswith("#/") and not base and not _leads_somewhere(schema, target):
                raise BadSchema(f"{key} {target[:100]!r} leads nowhere in the schema")
    for key, target, base in targets:
        if _resolved(base, target) not in own:  # spec: basic/index/ref-unresolved-rejected
            raise BadSchema(f"{key} {target[:100]!r} leads out of the schema; it is never fetched")


_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are no schemas, whatever they look like."""
_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members are schemas, whatever they are called."""


def _based(schema: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every schema within a schema, with the URI that its references start from."""
    stack = [(schema, "", False)]
    while stack:
        node, base, named = stack.pop()
        if isinstance(node, list):
            stack.extend((child, base, False) for child in node)
        if not isinstance(node, dict):
            continue
        if not named:
            for key in ("$id", "id"):
                if isinstance(node.get(key), str):
                    base = _resolved(base, node[key])
            yield node, base
        children = [(key, child) for key, child in node.items() if named or key not in _DATA]
        stack.extend((child, base, not named and key in _NAMES) for key, child in children)


def _leads_somewhere(schema: Any, target: str) -> bool:
    """Whether a JSON pointer, written as a fragment, points at something."""
    from urllib.parse import unquote

    node = schema
    for part in unquote(target[2:]).split("/") if target != "#/" else [""]:
        step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        elif isinstance(node, dict) and step in node:
            node = node[step]
        else:
            return False
    return True


def _check_names(schema: Any) -> None:
    """The patterns of `patternProperties`, which not every dialect's own schema looks at."""
    for node, _ in _nodes(schema):
        patterns = node.get("patternProperties") if isinstance(node, dict) else None
        for pattern in patterns if isinstance(patterns, dict) else ():
            try:
                check(pattern)
            except (re.error, TooCostly) as problem:
                raise BadSchema(f"patternProperties: {pattern[:60]!r}: {problem}") from None


def _resolved(base: str, target: str) -> str:
    """A URI against its base. A short one at the end of a long base is long: there could be many."""
    from urllib.parse import urldefrag, urljoin

    try:
        resolved = urldefrag(urljoin(base, target)).url if len(target) <= MAX_URI else target
    except ValueError as problem:
        raise BadSchema(f"{target[:100]!r} is not a URI: {problem}") from None
    if len(resolved) > MAX_URI:
        raise BadSchema(f"{target[:100]!r} is a URI of more than {MAX_URI} characters")
    return resolved


def _check_by_dialect(kind: Any, registry: Any, schema: Any) -> None:
    """Whether it is a schema, by the dialect's own.  # spec: basic/index/schema-valid"""
    _spent.begin(math.inf)  # of those that the dialect's schema holds, for each part of this one
    try:
        checker = kind(kind.META_SCHEMA, registry=registry, format_checker=_formats())
        problem = next(checker.iter_errors(schema), None)
    except _TooCostly as costly:
        raise BadSchema(f"the check of the schema was given up: {costly}") from None
    except RecursionError:
        raise BadSchema("the schema is too deep to be checked") from None
    if problem is not None:
        where = "/".join(str(p) for p in problem.absolute_path)
        raise BadSchema(f"not a valid schema at /{where}: {problem.message:.200}")


@functools.cache
def _formats() -> Any:
    from jsonschema import FormatChecker

    formats = FormatChecker(formats=())
    formats.checks("regex", raises=(re.error, TooCostly))(
        lambda value: not isinstance(value, str) or check(value)
    )
    return formats


# ---------------------------------------------------------------------------- what a validation costs


class _TooCostly(Exception):
    pass


class _Spent(threading.local):
    """What this thread's validation may still cost."""

    references = 0.0
    until = 0.0
    work_until = 0.0
    is_trusted = False

    def begin(self, references: float, is_trusted: bool = False) -> None:
        self.references, self.until = references, time.monotonic() + MAX_SECONDS
        self.work_until = time.thread_time() + MAX_SECONDS
        self.is_trusted = is_trusted

    def spend(self, references: int = 0) -> None:
        """Raises _TooCostly."""
        self.references -= references
        if self.references < 0:
            raise _TooCostly("the schema refers to itself too often")
        if time.monotonic() > self.until:
            self._count_work()

    def _count_work(self) -> None:
        """What counts is the time that this thread worked, so that a busy machine makes no schema costly.

        It is asked for only where the clock says so: that takes ten times as long as to read the clock.
        """
        left = self.work_until - time.thread_time()
        if left <= 0:
            raise _TooCostly(f"it takes longer than {MAX_SECONDS} seconds")
        self.until = time.monotonic() + left


_spent = _Spent()


@functools.cache
def _machinery(dialect: str) -> tuple[Any, Any]:
    """The validator class of a dialect, which counts what it does; a closed registry."""
    from jsonschema import validators
    from jsonschema_specifications import REGISTRY

    base: Any = getattr(validators, DIALECTS[dialect])
    rules = base.VALIDATORS | {name: rule for name, rule in _RULES.items() if name in base.VALIDATORS}
    if dialect.endswith("draft-03/schema"):  # where a type may be a schema
        rules["type"] = base.VALIDATORS["type"]
    extend: Any = validators.extend
    kind = extend(base, {name: _watched(rule, int(name in _REFERENCES)) for name, rule in rules.items()})
    kind.evolve = _evolve
    # The dialects' own schemas and nothing else: this registry has no way to fetch.
    return kind, REGISTRY


def _evolve(self: Any, **changes: Any) -> Any:
    """The same validator for a schema within the schema.

    The package's own would go over to its own class, with none of our rules, at a `$schema` in there.
    """
    schema = changes.get("schema", self.schema)
    named = schema.get("$schema") if isinstance(schema, dict) else None
    uri = named.rstrip("#") if isinstance(named, str) else ""
    kind = _machinery(uri)[0] if uri in DIALECTS else type(self)
    return kind(
        schema=schema,
        format_checker=self.format_checker,
        registry=self._registry,
        _resolver=changes.get("_resolver", self._resolver),
    )


def _watched(apply: Callable[..., Any], cost: int) -> Callable[..., Any]:
    """A keyword's rule, which first looks at what the validation has spent so far."""

    def watched(kind: Any, target: Any, value: Any, schema: Any) -> Any:
        _spent.spend(cost)
        return apply(kind, target, value, schema)

    return watched


# ---------------------------------------------------------------------------- rules of our own


def _found(pattern: str, text: str) -> bool:
    """The one door to the patterns of a schema."""
    _spent.spend()
    try:
        return search(pattern, text, is_trusted=_spent.is_trusted)
    except TooCostly as problem:
        raise _TooCostly(str(problem)) from None


def _fits(kind: Any, value: Any, schema: Any) -> bool:
    return next(kind.descend(value, schema), None) is None


def _wrong(says: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(says)


def _type(kind: Any, types: Any, value: Any, schema: Any) -> Any:
    """Without the whole value in the complaint, which is often of one alternative among many."""
    wanted = [types] if isinstance(types, str) else types
    if not any(kind.is_type(value, name) for name in wanted):
        yield _wrong(f"{shown(value)} is not of type {', '.join(map(repr, wanted))}")


def _unique_items(kind: Any, wanted: Any, value: Any, schema: Any) -> Any:
    """In linear time: comparing each with each takes minutes for the items of one large message."""
    if wanted and kind.is_type(value, "array") and len(set(map(identity, value))) != len(value):
        yield _wrong("holds an item twice")


def _pattern(kind: Any, pattern: Any, value: Any, schema: Any) -> Any:
    if kind.is_type(value, "string") and not _found(pattern, value):
        yield _wrong(f"{value[:80]!r} does not match {pattern[:80]!r}")


def _pattern_properties(kind: Any, patterns: Any, value: Any, schema: Any) -> Any:
    for pattern, part in patterns.items() if kind.is_type(value, "object") else ():
        for name, item in value.items():
            if _found(pattern, name):
                yield from kind.descend(item, part, path=name, schema_path=pattern)


def _additional_properties(kind: Any, wanted: Any, value: Any, schema: Any) -> Any:
    if kind.is_type(value, "object"):
        named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        extra = [n for n in value if n not in named and not any(_found(pattern, n) for pattern in patterns)]
        if wanted is False and extra:
            yield _wrong(f"Additional properties are not allowed: {', '.join(map(repr, extra[:10])):.200}")
        elif kind.is_type(wanted, "object"):
            for name in extra:
                yield from kind.descend(value[name], wanted, path=name)


def _any_of(kind: Any, choices: Any, value: Any, schema: Any) -> Any:
    """Without the complaints of all: there may be thousands, each with the value in it."""
    if not any(_fits(kind, value, choice) for choice in choices):
        yield _wrong(f"{shown(value)} is not valid under any of the given schemas")


def _one_of(kind: Any, choices: Any, value: Any, schema: Any) -> Any:
    fitting = (number for number, choice in enumerate(choices) if _fits(kind, value, choice))
    first, second = next(fitting, None), next(fitting, None)
    if first is None:
        yield _wrong(f"{shown(value)} is not valid under any of the given schemas")
    elif second is not None:
        yield _wrong(f"{shown(value)} is valid under the given schemas {first} and {second}, not under one")


def _unevaluated_properties(kind: Any, wanted: Any, value: Any, schema: Any) -> Any:
    if kind.is_type(value, "object"):
        seen = _evaluated(kind, value, _without(schema, "unevaluatedProperties"), _names_seen)
        for name in value.keys() - seen:
            if not _fits(kind, value[name], wanted):
                yield _wrong(f"Unevaluated properties are not allowed: {name[:80]!r}")
                return


def _unevaluated_items(kind: Any, wanted: Any, value: Any, schema: Any) -> Any:
    if kind.is_type(value, "array"):
        seen = _evaluated(kind, value, _without(schema, "unevaluatedItems"), _items_seen)
        for index in range(len(value)):
            if index not in seen and not _fits(kind, value[index], wanted):
                yield _wrong(f"Unevaluated items are not allowed: {shown(value[index])}")
                return


def _without(schema: Any, keyword: str) -> Any:
    return {name: part for name, part in schema.items() if name != keyword}


def _evaluated(kind: Any, value: Any, schema: Any, seen_by: Callable[..., set[Any]]) -> set[Any]:
    """The names, or the places, of a value that a schema looks at, itself or by one that it applies."""
    _spent.spend()
    if not isinstance(schema, dict):
        return set()
    seen = seen_by(kind, value, schema)
    for inner, part in _applied(kind, value, schema):
        seen |= _evaluated(inner, value, part, seen_by)
    return seen


def _names_seen(kind: Any, value: Any, schema: Any) -> set[Any]:
    if schema.keys() & {"additionalProperties", "unevaluatedProperties"}:
        return set(value)
    patterns = schema.get("patternProperties", {})
    return {n for n in value if n in schema.get("properties", {}) or any(_found(p, n) for p in patterns)}


def _items_seen(kind: Any, value: Any, schema: Any) -> set[Any]:
    items, first = schema.get("items"), schema.get("prefixItems", [])
    if isinstance(items, list) and "additionalItems" not in schema:  # of 2019-09
        items, first = None, items
    if items is not None or "unevaluatedItems" in schema:
        return set(range(len(value)))
    seen = set(range(min(len(first), len(value))))
    if "contains" in schema:
        seen |= {index for index, item in enumerate(value) if _fits(kind, item, schema["contains"])}
    return seen


def _applied(kind: Any, value: Any, schema: Any) -> Iterator[tuple[Any, Any]]:
    """The schemas that a schema applies to the same value, and that it fits."""
    from referencing.jsonschema import lookup_recursive_ref

    for keyword in sorted(_REFERENCES & schema.keys()):
        _spent.spend(1)
        found: Any = kind._resolver
        found = lookup_recursive_ref(found) if keyword == "$recursiveRef" else found.lookup(schema[keyword])
        yield kind.evolve(schema=found.contents, _resolver=found.resolver), found.contents
    parts = [part for keyword in ("allOf", "anyOf", "oneOf") for part in schema.get(keyword, ())]
    parts += [part for name, part in schema.get("dependentSchemas", {}).items() if name in value]
    if "if" in schema:
        fits = _fits(kind, value, schema["if"])
        parts += [schema["if"]] if fits else []
        parts += [schema[keyword] for keyword in ("then" if fits else "else",) if keyword in schema]
    yield from ((kind, part) for part in parts if _fits(kind, value, part))


_REFERENCES = {"$ref", "$dynamicRef", "$recursiveRef"}
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
"""In place of those of the `jsonschema` package."""
