"""JSON Schemas that others wrote (page: basic/index, "JSON Schema Usage").

A schema is checked once and its validator kept: checking it again each time costs fifty times the
validation itself. What a stranger's schema may do is bounded:

    dialect      2020-12 unless `$schema` says otherwise; also 2019-09, draft-07, -06, -04, -03;
                 any other is refused by name
    references   only within the schema itself; nothing is ever fetched
    patterns     searched with an end (runtime/patterns); for names of members: simple ones only
    size         MAX_DEPTH levels, MAX_NODES nodes
    cost         MAX_REFERENCES followed in one validation, which ends after MAX_SECONDS

The `jsonschema` package is imported by the first schema, since it takes longer than all of ours.

Threads     a Validator may be used by many threads at once.
"""

from __future__ import annotations

import functools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mcp_ref.runtime.mismatch import Mismatch
from mcp_ref.runtime.parts import identity
from mcp_ref.runtime.patterns import TooCostly, is_simple, search

__all__ = ["DIALECTS", "BadSchema", "Validator", "validator"]

MAX_DEPTH = 64
MAX_NODES = 20_000
MAX_REFERENCES = 20_000
MAX_SECONDS = 5.0

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

    def __init__(self, schema: Any) -> None:
        _check_size(schema)
        _check_references(schema)
        _check_names(schema)
        dialect = _dialect(schema)
        kind, registry = _machinery(dialect)
        from jsonschema.exceptions import SchemaError

        try:
            kind.check_schema(schema)  # spec: basic/index/schema-valid
        except SchemaError as problem:
            where = "/".join(str(p) for p in problem.absolute_path)
            raise BadSchema(f"not a valid schema at /{where}: {problem.message:.200}") from None
        except RecursionError:
            raise BadSchema("the schema is too deep to be checked") from None
        except OverflowError as problem:  # a pattern with a number beyond what `re` counts
            raise BadSchema(f"the schema cannot be checked: {problem}") from None
        self.schema = schema
        self._kind = kind(schema, registry=registry)

    def check(self, value: Any) -> None:
        """Raises Mismatch unless the value is valid.  # spec: basic/index/schema-validate-by-dialect"""
        _spent.references, _spent.until = 0, time.monotonic() + MAX_SECONDS
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
    """The kept validator of a schema. Raises BadSchema."""
    try:
        return _kept(json.dumps(schema, sort_keys=True))
    except (TypeError, ValueError, RecursionError) as problem:
        if isinstance(problem, BadSchema):
            raise
        raise BadSchema(f"a schema is JSON: {problem}") from None


@functools.lru_cache(maxsize=512)
def _kept(text: str) -> Validator:
    return Validator(json.loads(text))


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
    """Names of members are matched by `jsonschema` itself, so their patterns must be simple ones."""
    for node, _ in _nodes(schema):
        patterns = node.get("patternProperties") if isinstance(node, dict) else None
        for pattern in patterns if isinstance(patterns, dict) else ():
            try:
                simple = is_simple(pattern)
            except re.error as problem:
                raise BadSchema(f"patternProperties: {pattern[:60]!r}: {problem}") from None
            if not simple:
                raise BadSchema(f"patternProperties: {pattern[:60]!r} could take for ever to match")


def _resolved(base: str, target: str) -> str:
    from urllib.parse import urldefrag, urljoin

    try:
        return urldefrag(urljoin(base, target)).url
    except ValueError as problem:
        raise BadSchema(f"{target[:100]!r} is not a URI: {problem}") from None


class _TooCostly(Exception):
    pass


class _Spent(threading.local):
    """What this thread's validation has cost so far."""

    references = 0
    until = 0.0


_spent = _Spent()


@functools.cache
def _machinery(dialect: str) -> tuple[Any, Any]:
    """The validator class of a dialect, which counts what it does; a closed registry."""
    from jsonschema import validators
    from jsonschema_specifications import REGISTRY

    base: Any = getattr(validators, DIALECTS[dialect])
    rules = {**base.VALIDATORS, "uniqueItems": _unique_items, "pattern": _pattern}
    references = ("$ref", "$dynamicRef", "$recursiveRef")
    extend: Any = validators.extend
    # The dialects' own schemas and nothing else: this registry has no way to fetch.
    return extend(base, {k: _watched(rule, int(k in references)) for k, rule in rules.items()}), REGISTRY


def _unique_items(kind: Any, wanted: Any, value: Any, schema: Any) -> Any:
    """In linear time: comparing each with each takes minutes for the items of one large message."""
    from jsonschema.exceptions import ValidationError

    if wanted and kind.is_type(value, "array") and len(set(map(identity, value))) != len(value):
        yield ValidationError("holds an item twice")


def _pattern(kind: Any, pattern: Any, value: Any, schema: Any) -> Any:
    """With an end, whatever the expression."""
    from jsonschema.exceptions import ValidationError

    if kind.is_type(value, "string"):
        try:
            if not search(pattern, value):
                yield ValidationError(f"{value!r:.80} does not match {pattern!r:.80}")
        except TooCostly as problem:
            raise _TooCostly(str(problem)) from None


def _watched(apply: Callable[..., Any], cost: int) -> Callable[..., Any]:
    """A keyword's rule, which first looks at what the validation has spent so far."""

    def watched(kind: Any, target: Any, value: Any, schema: Any) -> Any:
        _spent.references += cost
        if _spent.references > MAX_REFERENCES:
            raise _TooCostly("the schema refers to itself too often")
        if time.monotonic() > _spent.until:
            raise _TooCostly(f"it takes longer than {MAX_SECONDS} seconds")
        return apply(kind, target, value, schema)

    return watched
