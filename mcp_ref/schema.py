"""Schema (page: schema): the shapes of messages, and what each revision makes of them.

Every shape is a `TypedDict` in the module of the page that defines it, with the wire's own field
names. A field (or a member of a union) that not every revision has carries a mark:

    title: Annotated[str, since("2025-06-18")]             from this revision on
    execution: Annotated[ToolExecution, until("2025-11-25")]    up to and with this one
    data: Annotated[Any, was(JsonObject, until="2025-11-25")]   another type in older ones
    requestId: Annotated[RequestId, required(since="2026-07-28")]    a must only there
    inputSchema: Annotated[InputSchema, opaque()]    an author's own: nothing inside it is left out

From that one listing come
    definitions   the JSON Schema of all shapes at a revision, by the official definition's name
    checker       what checks a message that arrives
    pruner        what leaves out the fields that a peer's revision does not know

A page's module ends with the rows it adds, `DEFINITIONS`: official name -> shape.

The same compiler (mcp_ref/runtime/typing/values) reads the signatures of users' functions: `int float
str bool None list tuple dict set Literal Enum Optional Union dataclass TypedDict NamedTuple
datetime date time UUID Decimal Path bytes`, nested and recursive, `Annotated[int, "what it is"]`
and `Annotated[int, Bounds(ge=0)]`.

Dialects    schemas we write are JSON Schema 2020-12; see mcp_ref/basic/index/json_schema_usage
            for those that we read.
Threads     everything here is compiled once and has no state afterwards.
"""

from __future__ import annotations

import functools
import importlib
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.runtime.typing.codec import Codec, Field, Schema
from mcp_ref.runtime.typing.hints import required_hint
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Compiler

__all__ = [
    "REVISIONS",
    "Bounds",
    "Mismatch",
    "checker",
    "definitions",
    "pruner",
    "required",
    "since",
    "until",
    "was",
]

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Oldest first. Revisions are compared by their place in this list, never as strings."""

PAGES = (
    "basic.directions",
    "basic.index.messages",
    "basic.index.error_responses",
    "basic.index.general_fields",
    "basic.versioning",
    "basic.lifecycle",
    "basic.patterns.cancellation",
    "basic.patterns.mrtr.basic_workflow",
    "basic.patterns.progress",
    "basic.patterns.subscriptions.server",
    "basic.transports.streamable_http.request_metadata",
    "basic.utilities.ping",
    "basic.utilities.tasks",
    "client.elicitation.requests",
    "client.elicitation.fields",
    "client.roots",
    "client.sampling.creating_messages",
    "client.elicitation.url_mode",
    "server.content",
    "server.discover",
    "server.prompts",
    "server.resources",
    "server.tools",
    "server.utilities.caching",
    "server.utilities.completion",
    "server.utilities.logging",
    "server.utilities.pagination",
)
"""The modules that define shapes."""


# ----------------------------------------------------------------------------- marks


@dataclass(frozen=True)
class since:
    """The field exists from this revision on."""

    revision: str


@dataclass(frozen=True)
class until:
    """The field exists up to this revision, and in it."""

    revision: str


@dataclass(frozen=True)
class was:
    """The field had another type up to this revision, and in it."""

    hint: Any
    until: str


@dataclass(frozen=True)
class required:
    """The field is required from (or up to) this revision only."""

    since: str = REVISIONS[0]
    until: str = REVISIONS[-1]


@dataclass(frozen=True)
class opaque:
    """The value belongs to the author of a tool: nothing inside it is ever left out."""


def _at(revision: str) -> int:
    if revision not in REVISIONS:
        raise ValueError(f"no revision {revision!r}; known: {', '.join(REVISIONS)}")
    return REVISIONS.index(revision)


def in_force(hint: Any, revision: str) -> Any:
    """The hint as this revision has it; None if it has it not."""
    if get_origin(hint) is not Annotated:
        return hint
    base, marks = get_args(hint)[0], hint.__metadata__
    if not all(_exists(mark, revision) for mark in marks):
        return None
    for mark in marks:
        if isinstance(mark, was) and _at(revision) <= _at(mark.until):
            return in_force(mark.hint, revision)
    others = [m for m in marks if not isinstance(m, since | until | was | required | opaque)]
    return Annotated[base, *others] if others else base


def _exists(mark: Any, revision: str) -> bool:
    """Whether a revision has a field, as far as one of its marks says."""
    if isinstance(mark, since):
        return _at(revision) >= _at(mark.revision)
    return not isinstance(mark, until) or _at(revision) <= _at(mark.revision)


def _is_required(hint: Any, revision: str, named: bool) -> bool:
    rules = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, required)]
    if not rules:
        return named
    return any(_at(m.since) <= _at(revision) <= _at(m.until) for m in rules)


# -------------------------------------------------------------------------- compiling


@functools.cache
def _rows() -> dict[str, Any]:
    """Every page's DEFINITIONS in one table."""
    rows: dict[str, Any] = {}
    for page in PAGES:
        rows |= importlib.import_module(f"mcp_ref.{page}").DEFINITIONS
    return rows


@functools.cache
def _names() -> dict[str, Any]:
    """What the hints of a shape may refer to, whichever page defines it."""
    names: dict[str, Any] = {}
    for page in PAGES:
        module = vars(importlib.import_module(f"mcp_ref.{page}"))
        names |= {k: v for k, v in module.items() if not k.startswith("__")}
    return names


class ShapeCompiler(Compiler):
    """Reads shapes as one revision has them. With `refer`, a named one becomes a `$ref`."""

    def __init__(self, revision: str, *, refer: bool) -> None:
        super().__init__()
        self.revision = revision
        rows = {name: in_force(row, revision) for name, row in _rows().items()} if refer else {}
        self._official = {id(s): name for name, s in rows.items() if typing.is_typeddict(s)}

    def fields(self, hint: Any) -> list[Field]:
        fields = []
        for name, (marked, named) in _hints_of(hint).items():
            current = in_force(marked, self.revision)
            if current is not None:
                fields.append(Field(name, current, _is_required(marked, self.revision, named)))
        return fields

    def members(self, hint: Any) -> list[Any]:
        found = [in_force(member, self.revision) for member in get_args(hint)]
        return [member for member in found if member is not None]

    def keywords(self, mark: Schema) -> Schema:
        return mark  # a shape may be described in JSON Schema alone: nothing is checked by that

    def codec(self, hint: Any) -> Codec:
        if isinstance(hint, typing.ForwardRef):
            hint = _names()[hint.__forward_arg__]
        hint = in_force(hint, self.revision)
        name = self._official.get(id(hint))
        if name is not None:
            return Codec({"$ref": f"#/$defs/{name}"}, dict, dict, "an object")
        return super().codec(hint)

    def definition(self, row: Any) -> Schema:
        """The schema of one row of DEFINITIONS, written out."""
        return super().codec(row).schema


def _hints_of(shape: Any) -> dict[str, tuple[Any, bool]]:
    """Each field of a shape: its hint with the marks, and whether it is required."""
    hints = typing.get_type_hints(shape, globalns=_names(), localns=_names(), include_extras=True)
    return {name: required_hint(hint, shape.__total__) for name, hint in hints.items()}


def _bare(row: Any) -> Any:
    return get_args(row)[0] if get_origin(row) is Annotated else row


# ------------------------------------------------------------------------ what they are for


@functools.cache
def definitions(revision: str) -> dict[str, Schema]:
    """The JSON Schema of every shape at a revision, by the official definition's name."""
    _at(revision)
    compiler = ShapeCompiler(revision, refer=True)
    found = {name: in_force(row, revision) for name, row in _rows().items()}
    return {name: compiler.definition(row) for name, row in found.items() if row is not None}


Checker = Callable[[Any], Any]


@functools.cache
def checker(shape: Any, revision: str, without: tuple[str, ...] = ()) -> Checker:
    """A function that raises Mismatch unless its argument is such a shape at this revision.

    Unknown members pass: later revisions and extensions add some.
    # spec: schema/unknown-fields-tolerated, schema/capabilities-open-set
    """
    compiler = ShapeCompiler(revision, refer=False)
    fields = [f for f in compiler.fields(shape) if f.name not in without]
    return compiler.object(fields, dict, closed=False).load


Pruner = Callable[[dict[str, Any]], dict[str, Any]]


@functools.cache
def pruner(shape: Any, revision: str) -> Pruner:
    """A function that leaves out of such a shape what this revision does not have."""
    prune = _pruner(shape, revision, ())
    return prune or (lambda value: value)


def _pruner(hint: Any, revision: str, above: tuple[Any, ...]) -> Callable[[Any], Any] | None:
    """None where there is nothing to leave out, so that most of a message is not even visited."""
    if any(isinstance(mark, opaque) for mark in getattr(hint, "__metadata__", ())):
        return None
    current = _bare(in_force(hint, revision))
    if isinstance(current, typing.ForwardRef):
        current = _names()[current.__forward_arg__]
    if get_origin(current) is list:
        inner = _pruner(get_args(current)[0], revision, above)
        return None if inner is None else lambda items: [inner(item) for item in items]
    if get_origin(current) in (typing.Union, types.UnionType):
        return _alternatives_pruner(get_args(current), revision)
    if not typing.is_typeddict(current) or current in above:
        return None
    return _shape_pruner(current, revision, (*above, current))


def _shape_pruner(shape: Any, revision: str, above: tuple[Any, ...]) -> Pruner | None:
    gone, inside = _gone(shape, revision), {}
    for name, (marked, _) in _hints_of(shape).items():
        prune = None if name in gone else _pruner(marked, revision, above)
        if prune is not None:
            inside[name] = prune
    if not gone and not inside:
        return None
    return lambda value: {k: inside[k](v) if k in inside else v for k, v in value.items() if k not in gone}


def _gone(shape: Any, revision: str) -> set[str]:
    """The fields that a revision does not have."""
    return {name for name, (marked, _) in _hints_of(shape).items() if in_force(marked, revision) is None}


def _alternatives_pruner(members: tuple[Any, ...], revision: str) -> Pruner | None:
    """Of several shapes, whichever it is: what none of them has is left out."""
    shapes = [member for member in map(_bare, members) if typing.is_typeddict(member)]
    if len(shapes) < len(members):
        return None
    gone = set.intersection(*(_gone(shape, revision) for shape in shapes))
    return (lambda value: {k: v for k, v in value.items() if k not in gone}) if gone else None
