"""The shapes of the tasks extension, held against its official schema.

    python tests/task_shapes.py ext-tasks.json

Compared is what a validator sees: members, which of them are required, types, constants, enumerations and
bounds. References are followed, so it makes no difference whether a shape is named. What is composed of
several schemas is put together first: a message of the extension is one of the protocol, with more in it.

Prints one line a difference, and a count; exits with 1 where there is a difference.
"""

from __future__ import annotations

import argparse
import json
import operator
import sys
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from mcp_ref.basic.patterns.subscriptions.server import METHOD_BY_KIND
from mcp_ref.basic.versioning import LATEST
from mcp_ref.extensions import tasks
from mcp_ref.schema import ShapeCompiler, definitions

Json = dict[str, Any]

LARGEST = 2**53 - 1
"""The official generator writes this bound to every integer: it is that of all JSON numbers."""

NOT_COMPARED = {
    "UpdateTaskResult": "the empty result",
    "CancelTaskResult": "the empty result",
    "TasksExtensionCapability": "an empty object",
}
"""Definitions for which there is no shape of ours, and what they are."""


class Kind(NamedTuple):
    """What a validator sees of a schema: a name, and what there is to say of it."""

    name: str
    detail: Any = None


class Members(NamedTuple):
    """An object: its members, which are required, and what others there may be."""

    known: dict[str, Any]
    required: frozenset[str]
    others: Any


ANYTHING = Kind("anything")


class Reader:
    """Reads schemas whose references are to these definitions."""

    def __init__(self, known: Json) -> None:
        self.known = known

    def read(self, schema: Any, above: tuple[str, ...] = ()) -> Any:
        """A schema as values that can be compared: the alternatives there are, as a rule one."""
        if schema is True or not schema:
            return ANYTHING
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return Kind("again", name) if name in above else self.read(self.known[name], (*above, name))
        if "allOf" in schema:
            return _joined([self.read(part, above) for part in schema["allOf"]])
        if "anyOf" in schema:
            return _union(self.read(part, above) for part in schema["anyOf"])
        return self._plain(schema, above)

    def _plain(self, schema: Json, above: tuple[str, ...]) -> Any:
        """A schema that is not composed of others."""
        if "const" in schema or "enum" in schema:
            return Kind("one of", frozenset(map(json.dumps, schema.get("enum", [schema.get("const")]))))
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union(self.read({**schema, "type": each}, above) for each in kind)
        if kind == "array":
            return Kind("array", (self.read(schema.get("items"), above), _bounds(schema)))
        if kind == "object" or "properties" in schema:
            known = {name: self.read(part, above) for name, part in schema.get("properties", {}).items()}
            others = self.read(schema.get("additionalProperties"), above)
            return Members(known, frozenset(schema.get("required", ())), others)
        return Kind(kind, _bounds(schema)) if kind else ANYTHING


def _bounds(schema: Json) -> dict[str, Any]:
    names = ("format", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems")
    return {name: schema[name] for name in names if name in schema and abs(_number(schema[name])) != LARGEST}


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


def _alternatives(seen: Any) -> list[Any]:
    return seen.detail if isinstance(seen, Kind) and seen.name == "any of" else [seen]


def _union(parts: Iterable[Any]) -> Any:
    """Any of several: constants are put together, and the order does not matter."""
    found = [each for part in parts for each in _alternatives(part)]
    constants = [each.detail for each in found if isinstance(each, Kind) and each.name == "one of"]
    rest = [each for each in found if not (isinstance(each, Kind) and each.name == "one of")]
    if constants:
        rest.append(Kind("one of", frozenset().union(*constants)))
    return rest[0] if len(rest) == 1 else Kind("any of", sorted(rest, key=_in_order))


def _in_order(seen: Any) -> str:
    """The same text for what is the same."""
    return json.dumps(_as_json(seen), sort_keys=True)


def _as_json(seen: Any) -> Any:
    if isinstance(seen, Members):
        known = {name: _as_json(part) for name, part in seen.known.items()}
        return {"members": known, "required": sorted(seen.required), "others": _as_json(seen.others)}
    if isinstance(seen, frozenset):
        return sorted(seen)
    return [_as_json(part) for part in seen] if isinstance(seen, tuple | list) else seen


def _joined(parts: list[Any]) -> Any:
    """All of several objects at once, each of which may have alternatives."""
    return _union(reduce(_both, choice) for choice in product(*map(_alternatives, parts)))


def _both(first: Any, second: Any) -> Any:
    if not isinstance(first, Members) or not isinstance(second, Members):
        return second if first == ANYTHING else first
    known = {**first.known, **second.known}  # the later one says more: a constant, and not a string
    return Members(known, first.required | second.required, _both(first.others, second.others))


# ------------------------------------------------------------------------------ the differences


def differences(ours: Any, theirs: Any, where: str) -> Iterator[str]:
    """What the two do not say alike."""
    if isinstance(ours, Members) and isinstance(theirs, Members):
        for name in sorted(ours.known.keys() - theirs.known.keys()):
            yield f"{where}.{name}: is not in the official schema"
        for name in sorted(theirs.known.keys() - ours.known.keys()):
            yield f"{where}.{name}: is missing"
        for name in sorted(theirs.known.keys() & ours.known.keys()):
            yield from differences(ours.known[name], theirs.known[name], f"{where}.{name}")
        if ours.required != theirs.required:
            yield f"{where}: required are {sorted(ours.required)}, officially {sorted(theirs.required)}"
        yield from differences(ours.others, theirs.others, f"{where}.*")
    elif _are_alternatives(ours, theirs):
        for number, (mine, other) in enumerate(zip(ours.detail, theirs.detail, strict=True), 1):
            yield from differences(mine, other, f"{where}({number})")
    elif _in_order(ours) != _in_order(theirs):
        yield f"{where}: {ours!s:.200}, officially {theirs!s:.200}"


def _are_alternatives(ours: Any, theirs: Any) -> bool:
    both = isinstance(ours, Kind) and isinstance(theirs, Kind) and ours.name == theirs.name == "any of"
    return both and len(ours.detail) == len(theirs.detail)


def our_definitions() -> Json:
    """Our shapes by the official names, as JSON Schema: those of the protocol, and those of the extension."""
    known = dict(definitions(LATEST.date))
    compiler = ShapeCompiler(LATEST.date, refer=True)
    shapes = {**tasks.DEFINITIONS, "DetailedTask": reduce(operator.or_, tasks.BY_STATUS.values())}
    known |= {name: compiler.definition(shape) for name, shape in shapes.items()}
    task = {"$ref": "#/$defs/DetailedTask"}
    # That it is "complete" is added to the result of every handler (basic/index/messages).
    complete = {"type": "object", "properties": {"resultType": {"const": "complete"}}}
    known["GetTaskResult"] = {"allOf": [{"$ref": "#/$defs/Result"}, complete, task]}
    known["TaskStatusNotificationParams"] = {"allOf": [{"$ref": "#/$defs/NotificationParams"}, task]}
    for row in tasks.METHODS:
        name = f"{row.name.rpartition('/')[2].capitalize()}TaskRequest"
        known[name] = _message("JSONRPCRequest", row.name, _without_meta(compiler.definition(row.params)))
    notified = {"$ref": "#/$defs/TaskStatusNotificationParams"}
    known["TaskStatusNotification"] = _message("JSONRPCNotification", METHOD_BY_KIND["task"], notified)
    return known


def _without_meta(params: Json) -> Json:
    """Params without `_meta`, which every request has (basic/index) and the extension does not mention."""
    known = {name: part for name, part in params["properties"].items() if name != "_meta"}
    return {**params, "properties": known, "required": [n for n in params["required"] if n != "_meta"]}


def _message(envelope: str, method: str, params: Json) -> Json:
    members = {"method": {"const": method}, "params": params}
    more = {"type": "object", "properties": members, "required": ["method", "params"]}
    return {"allOf": [{"$ref": f"#/$defs/{envelope}"}, more]}


def compare(official: Json, only: Iterable[str] = ()) -> tuple[int, list[str]]:
    """How many definitions were compared, all of them unless some are named, and all differences."""
    theirs, ours = official["$defs"], our_definitions()
    found: list[str] = []
    names = [name for name in only or theirs if name not in NOT_COMPARED]
    for name in names:
        if name in ours:
            mine, other = Reader(ours).read(ours[name], (name,)), Reader(theirs).read(theirs[name], (name,))
            found += differences(mine, other, name)
        else:
            found.append(f"{name}: no such definition is ours")
    return len(names), found


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="hold the shapes of the tasks extension against its schema")
    parser.add_argument("schema", type=Path, help="the official ext-tasks.json")
    count, found = compare(json.loads(parser.parse_args(arguments).schema.read_text(encoding="utf-8")))
    for line in found:
        print(line)
    print(f"{len(found)} differences in {count} definitions compared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
