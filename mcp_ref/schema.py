"""Schema (page: schema): the shapes of messages, and what each revision makes of them.

Every shape is a `TypedDict` in the module of the page that defines it, with the wire's own field
names. A field (or a member of a union) that not every revision has carries a mark:

    title: Annotated[str, since("2025-06-18")]             from this revision on
    execution: Annotated[ToolExecution, until("2025-11-25")]    up to and with this one
    data: Annotated[Any, was(JsonObject, until="2025-11-25")]   another type in older ones
    requestId: Annotated[RequestId, required(since="2026-07-28")]    required only from this one on
    inputSchema: Annotated[InputSchema, opaque()]    an author's own: nothing inside it is left out

A page's module lists its shapes in `DEFINITIONS` (official name -> shape) and its messages in `METHODS` and
`NOTIFICATIONS`: a row says who sends the message, with which params, since and until which revision. From the
rows follow the shapes of whole messages (`CallToolRequest`, `CallToolResultResponse`) and their unions by
direction (`ClientRequest`, answered by a `ServerResult`).

    definitions      the JSON Schema of all shapes at a revision, by the official definition's name
    message_shapes   the shapes that follow from the rows
    checker          the function that checks messages of a shape, when they arrive
    pruner           the function that leaves out the fields that a peer's revision does not know

The same compiler (mcp_ref/runtime/typing/values) reads the signatures of users' functions: `int float
str bool None list tuple dict set Literal Enum Optional Union dataclass TypedDict NamedTuple
datetime date time UUID Decimal Path bytes`, classes of pydantic, attrs and msgspec, nested and recursive,
`Annotated[int, "what it is"]` and `Annotated[int, Bounds(ge=0)]`.

Dialects    schemas that this package writes are JSON Schema 2020-12; for those that it reads, see
            basic/index/json_schema_usage.
Threads     everything here is compiled once and has no state afterwards.
"""

from __future__ import annotations

import functools
import importlib
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.runtime.typing.codec import Codec, Field, Schema
from mcp_ref.runtime.typing.hints import required_hint
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Compiler

if TYPE_CHECKING:
    from mcp_ref.basic.versioning import Method, Notification, Sender

__all__ = [
    "REVISIONS",
    "Bounds",
    "Mismatch",
    "checker",
    "definitions",
    "message_shapes",
    "pruner",
    "required",
    "rows",
    "since",
    "until",
    "was",
]

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Oldest first. Revisions are compared by their place in this list, never as strings."""

PAGES = (
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
    "basic.utilities.tasks.data_types",
    "basic.utilities.tasks.protocol_messages",
    "client.elicitation.requests",
    "client.elicitation.requested_schema",
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
"""The modules that define shapes and messages."""


# ----------------------------------------------------------------------------- marks


@dataclass(frozen=True)
class since:
    """The field exists from this revision on."""

    revision: str

    def covers(self, revision: str) -> bool:
        return _at(revision) >= _at(self.revision)


@dataclass(frozen=True)
class until:
    """The field exists up to this revision, and in it."""

    revision: str

    def covers(self, revision: str) -> bool:
        return _at(revision) <= _at(self.revision)


@dataclass(frozen=True)
class was:
    """The field had another type up to this revision, and in it."""

    hint: Any
    until: str

    def covers(self, revision: str) -> bool:
        return _at(revision) <= _at(self.until)


@dataclass(frozen=True)
class required:
    """The field is required from (or up to) this revision only."""

    since: str = REVISIONS[0]
    until: str = REVISIONS[-1]

    def covers(self, revision: str) -> bool:
        return _at(self.since) <= _at(revision) <= _at(self.until)


@dataclass(frozen=True)
class opaque:
    """The value belongs to the author of a tool: nothing inside it is ever left out."""


def _at(revision: str) -> int:
    if revision not in REVISIONS:
        raise ValueError(f"no revision {revision!r}; known: {', '.join(REVISIONS)}")
    return REVISIONS.index(revision)


def _marks(hint: Any, kind: Any) -> list[Any]:
    return [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, kind)]


def in_force(hint: Any, revision: str) -> Any:
    """The hint as this revision has it; None if this revision does not have it."""
    if not all(mark.covers(revision) for mark in _marks(hint, since | until)):
        return None
    for mark in _marks(hint, was):
        if mark.covers(revision):
            return in_force(mark.hint, revision)
    return _unmarked(hint)


def _unmarked(hint: Any) -> Any:
    """The hint without this module's marks. Other annotations, such as Bounds, stay."""
    if get_origin(hint) is not Annotated:
        return hint
    others = [m for m in hint.__metadata__ if not isinstance(m, since | until | was | required | opaque)]
    return Annotated[get_args(hint)[0], *others] if others else get_args(hint)[0]


def _is_required(hint: Any, revision: str, named: bool) -> bool:
    rules = _marks(hint, required)
    return any(rule.covers(revision) for rule in rules) if rules else named


# -------------------------------------------------------------------------- compiling


@functools.cache
def _pages() -> tuple[types.ModuleType, ...]:
    return tuple(importlib.import_module(f"mcp_ref.{page}") for page in PAGES)


def rows(table: Literal["METHODS", "NOTIFICATIONS"]) -> list[Any]:
    """The rows of all pages, for methods or for notifications."""
    return [row for page in _pages() for row in getattr(page, table, ())]


@functools.cache
def _shapes(revision: str) -> dict[str, Any]:
    """All shapes that a revision defines: official name -> shape."""
    found = dict(message_shapes(revision))
    for page in _pages():
        found |= {name: in_force(row, revision) for name, row in getattr(page, "DEFINITIONS", {}).items()}
    return {name: shape for name, shape in found.items() if shape is not None}


@functools.cache
def _names() -> dict[str, Any]:
    """Name -> type, for all names that the hints of a shape may refer to, whichever page defines them."""
    names: dict[str, Any] = {}
    for page in _pages():
        names |= {name: value for name, value in vars(page).items() if not name.startswith("__")}
    questions = message_shapes(REVISIONS[-1])
    return names | {name: questions[name] for name in ("InputRequest", "InputResponse")}


def _by_name(hint: Any) -> Any:
    """The type that a hint names, if it is a name; otherwise the hint."""
    name = hint.__forward_arg__ if isinstance(hint, typing.ForwardRef) else hint
    return _names()[name] if isinstance(name, str) else hint


class ShapeCompiler(Compiler):
    """Reads shapes as one revision has them. With `refer`, a shape with an official name becomes a `$ref`."""

    def __init__(self, revision: str, *, refer: bool) -> None:
        super().__init__()
        self.revision = revision
        shapes = _shapes(revision) if refer else {}
        self._official = {id(s): name for name, s in shapes.items() if typing.is_typeddict(s)}

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
        return mark  # a shape may have any keyword: these only describe, and check nothing

    def codec(self, hint: Any) -> Codec:
        hint = in_force(_by_name(hint), self.revision)
        name = self._official.get(id(hint))
        if name is not None:
            return Codec({"$ref": f"#/$defs/{name}"}, dict, dict, "an object")
        return super().codec(hint)

    def definition(self, shape: Any) -> Schema:
        """The schema of a shape that has an official name, written out."""
        return super().codec(shape).schema


def _hints_of(shape: Any) -> dict[str, tuple[Any, bool]]:
    """Each field of a shape: its hint with the marks, and whether it is required."""
    hints = typing.get_type_hints(shape, globalns=_names(), localns=_names(), include_extras=True)
    return {name: required_hint(hint, shape.__total__) for name, hint in hints.items()}


def _bare(hint: Any) -> Any:
    """The type that a hint names or annotates."""
    hint = _by_name(hint)
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _shape_of(hint: Any, revision: str) -> Any:
    """The type that a hint has at this revision; None if it has none."""
    return _bare(in_force(_by_name(hint), revision))


# ------------------------------------------------------------------ messages, from the rows

WITH_ENVELOPE = since("2025-11-25")
"""From this revision on, official definitions of messages have `jsonrpc` and `id`, and params have a name."""
MODERN_ERA = since("2026-07-28")

# These are called with what only the rows know, which no type checker can follow.
_typed_dict: Any = typing.TypedDict
_union: Any = Union


@functools.cache
def message_shapes(revision: str) -> dict[str, Any]:
    """The shapes that follow from the rows that a revision has: official name -> shape."""
    _at(revision)  # raises ValueError for an unknown revision
    methods = [row for row in rows("METHODS") if row.holds(revision)]
    notifications = [row for row in rows("NOTIFICATIONS") if row.holds(revision)]
    shapes: dict[str, Any] = {}
    for row in methods:
        shapes |= _params(row, revision) | _results(row, revision)
        shapes[f"{row.definition}Request"] = _request(row, revision)
    for row in notifications:
        shapes |= _params(row, revision)
        shapes[f"{row.definition}Notification"] = _notification(row, revision)
    return shapes | _by_direction(methods, notifications, shapes, revision)


def _params(row: Method | Notification, revision: str) -> dict[str, Any]:
    """The params of a row, if they have an official name."""
    shape = _unmarked(row.params)
    name = getattr(shape, "__name__", "")
    is_official = WITH_ENVELOPE.covers(revision) and name.endswith(("RequestParams", "NotificationParams"))
    return {name: shape} if is_official else {}


def _results(row: Method, revision: str) -> dict[str, Any]:
    """The result; and, in the modern era, the response to a request, whose result may ask for input."""
    if row.result is None:
        return {}
    found = {f"{row.definition}Result": row.result}
    if MODERN_ERA.covers(revision) and row.is_sent_by("client"):
        name = f"{row.definition}ResultResponse"
        result = typing.ForwardRef("InputRequiredResult") | row.result if row.asks else row.result
        found[name] = _message(name, revision, with_id=True, result=result)
    return found


def _request(row: Method, revision: str) -> Any:
    name, params = f"{row.definition}Request", row.params
    if params is None:
        params = Annotated[typing.ForwardRef("RequestParams"), required(since=MODERN_ERA.revision)]
    if MODERN_ERA.covers(revision) and not row.is_sent_by("client"):
        # Servers send no requests here: this is a question in an InputRequiredResult, without `id`.
        # spec: basic/index/requests-client-to-server-only
        return _typed_dict(name, {"method": Literal[row.name], "params": params})
    return _message(name, revision, with_id=True, method=Literal[row.name], params=params)


def _notification(row: Notification, revision: str) -> Any:
    params = row.params or typing.NotRequired[typing.ForwardRef("NotificationParams")]
    name = f"{row.definition}Notification"
    return _message(name, revision, with_id=False, method=Literal[row.name], params=params)


def _message(name: str, revision: str, *, with_id: bool, **fields: Any) -> Any:
    """A message of JSON-RPC, with the fields of the envelope that the official definition has."""
    envelope: dict[str, Any] = {"jsonrpc": Literal["2.0"]} if WITH_ENVELOPE.covers(revision) else {}
    if envelope and with_id:
        envelope["id"] = typing.ForwardRef("RequestId")
    return _typed_dict(name, envelope | fields)


def _by_direction(
    methods: list[Method], notifications: list[Notification], shapes: dict[str, Any], revision: str
) -> dict[str, Any]:
    """The unions of the messages that each side sends, and of the results that it returns."""

    def sent(by: Sender, rows: list[Any], kind: str) -> list[Any]:
        names = [f"{row.definition}{kind}" for row in rows if row.is_sent_by(by)]
        return [shapes[name] for name in names if name in shapes]  # the empty result has no name

    any_result = typing.ForwardRef("Result")  # the empty one, or one of an extension
    unions = {
        "ClientRequest": sent("client", methods, "Request"),
        "ClientNotification": sent("client", notifications, "Notification"),
        "ClientResult": [any_result],
        "ServerNotification": sent("server", notifications, "Notification"),
        "ServerResult": [any_result, *sent("client", methods, "Result")],
    }
    questions, answers = sent("server", methods, "Request"), sent("server", methods, "Result")
    if MODERN_ERA.covers(revision):
        unions |= {"InputRequest": questions, "InputResponse": answers}
        unions["ServerResult"].append(typing.ForwardRef("InputRequiredResult"))
    else:
        unions["ServerRequest"] = questions
        unions["ClientResult"] += answers
    # Annotated, since a union of one member is that member, and would be taken for a second name of it.
    return {name: Annotated[_union[tuple(members)], None] for name, members in unions.items()}


# ------------------------------------------------------------------------ what they are for


@functools.cache
def definitions(revision: str) -> dict[str, Schema]:
    """Official name -> JSON Schema, for every shape of a revision."""
    compiler = ShapeCompiler(revision, refer=True)
    return {name: compiler.definition(shape) for name, shape in _shapes(revision).items()}


Checker = Callable[[Any], Any]


@functools.cache
def checker(shape: Any, revision: str, without: tuple[str, ...] = ()) -> Checker:
    """A function that raises Mismatch unless its argument has this shape at this revision.

    Fields in `without` are not checked. Unknown members pass: later revisions and extensions add some.
    # spec: schema/unknown-fields-tolerated, schema/capabilities-open-set
    """
    compiler = ShapeCompiler(revision, refer=False)
    fields = [f for f in compiler.fields(_shape_of(shape, revision)) if f.name not in without]
    return compiler.object(fields, dict, closed=False).load


Pruner = Callable[[dict[str, Any]], dict[str, Any]]


@functools.cache
def pruner(shape: Any, revision: str) -> Pruner:
    """A function that returns a value of this shape without what this revision does not have."""
    prune = _pruner(shape, revision, ())
    return prune or (lambda value: value)


def _pruner(hint: Any, revision: str, above: tuple[Any, ...]) -> Callable[[Any], Any] | None:
    """The pruner of a hint; None if there is nothing to leave out: most of a message is not visited."""
    if _marks(hint, opaque):
        return None
    shape = _shape_of(hint, revision)
    if get_origin(shape) is list:
        inner = _pruner(get_args(shape)[0], revision, above)
        return None if inner is None else lambda items: [inner(item) for item in items]
    if get_origin(shape) in (Union, types.UnionType):
        return _alternatives_pruner(get_args(shape), revision)
    if not typing.is_typeddict(shape) or shape in above:
        return None
    return _fields_pruner(shape, revision, (*above, shape))


def _fields_pruner(shape: Any, revision: str, above: tuple[Any, ...]) -> Callable[[Any], Any] | None:
    gone = _lacking(shape, revision)
    pruners = {name: _pruner(hint, revision, above) for name, (hint, _) in _hints_of(shape).items()}
    inside = {name: prune for name, prune in pruners.items() if prune is not None}
    if not gone and not inside:
        return None
    return lambda value: {k: inside[k](v) if k in inside else v for k, v in value.items() if k not in gone}


def _alternatives_pruner(members: tuple[Any, ...], revision: str) -> Callable[[Any], Any] | None:
    """The pruner of a union of shapes: it leaves out the fields that none of them has at this revision."""
    shapes = [_bare(member) for member in members]
    if not all(map(typing.is_typeddict, shapes)):
        return None
    gone = set.intersection(*(_lacking(shape, revision) for shape in shapes))
    return (lambda value: {k: v for k, v in value.items() if k not in gone}) if gone else None


def _lacking(shape: Any, revision: str) -> set[str]:
    """The fields that a shape has only in other revisions."""
    return {name for name, (hint, _) in _hints_of(shape).items() if in_force(hint, revision) is None}
