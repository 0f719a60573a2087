"""Type hints as contracts for JSON: one hint gives a schema, a loader and a dumper.

    schema   what a peer is told about the value (JSON Schema 2020-12)
    load     JSON -> a real Python value, or a `Mismatch` that says what was wrong and where
    dump     the Python value -> JSON, with the same care: a wrong result is found here

The three are made together, kind by kind, so that they cannot disagree: what `load` accepts is
what the schema says, and what `dump` gives is what `load` would accept again.

Two users: functions (mcp_ref/runtime/typing/functions) and the protocol's own shapes (mcp_ref/schema),
which know since when a field exists and so override `fields` and `members`.

Threads     a compiled codec has no state and may be used from any thread.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from mcp_ref.runtime.typing import parts, records
from mcp_ref.runtime.typing.alternatives import choice, first
from mcp_ref.runtime.typing.bounds import Bounds, apply_mark, check_informs, is_field
from mcp_ref.runtime.typing.codec import (
    INT_KEY,
    Codec,
    Convert,
    Field,
    Schema,
    load_int_key,
    same,
    scalar_of,
    text_key,
)
from mcp_ref.runtime.typing.hints import fields_of, kind_of, replacement_for
from mcp_ref.runtime.typing.mismatch import Mismatch, must

__all__ = ["Bounds", "Codec", "Compiler", "Field", "dump_any"]


class _Named:
    """A type that has a name, and so may refer to itself."""

    codec: Any = None
    """Its codec; None while it is being built."""
    name = ""
    """Its name in `$defs`, if it refers to itself."""

    @property
    def reference(self) -> Schema:
        return {"$ref": f"#/$defs/{self.name}"}


class Compiler:
    """Turns hints into codecs. One compiler is one document: its `$defs` are shared."""

    def __init__(self) -> None:
        self.defs: dict[str, Schema] = {}
        self._types: dict[Any, _Named] = {}

    def codec(self, hint: Any) -> Codec:
        """The codec of any supported hint. Raises TypeError for a hint that JSON cannot carry."""
        scalar = scalar_of(hint)
        if scalar is not None:
            return Codec(dict(scalar.schema), scalar.load, scalar.dump, scalar.says)
        kind = get_origin(hint) or hint
        form = _FORMS.get(kind) if isinstance(kind, collections.abc.Hashable) else None
        if form is not None:
            return form(self, hint)
        for is_such, build in _KINDS_OF_TYPES:
            if is_such(kind):
                return build(self, hint)
        raise TypeError(f"{hint!r} has no JSON form; write {replacement_for(hint)}")

    def resolved(self, codec: Codec) -> Schema:
        """The schema of a codec, also where it is a reference to one of the `$defs`."""
        return self.defs.get(codec.schema.get("$ref", "").removeprefix("#/$defs/"), codec.schema)

    def fields(self, hint: Any) -> list[Field]:
        """The members of a dataclass, a NamedTuple or a TypedDict; mcp_ref/schema overrides this."""
        return fields_of(hint)

    def object(self, fields: list[Field], make: Any, *, closed: bool = True) -> Codec:
        """An object with named members. A closed one refuses members it does not know."""
        codecs = {field.name: self._member(field) for field in fields}
        properties = {field.name: _property(field, codecs[field.name]) for field in fields}
        required = [field.name for field in fields if field.required]
        constants = [name for name, codec in codecs.items() if "const" in codec.schema]
        loads = {name: codec.load for name, codec in codecs.items()}
        dumps = {name: codec.dump for name, codec in codecs.items()}
        load = parts.object_loader(loads, required, constants, make, closed)
        dump = parts.object_dumper(dumps, required, make, None if closed else dump_any)
        return Codec(_object_schema(properties, required, closed, make), load, dump, "an object")

    def _member(self, field: Field) -> Codec:
        try:
            return self.codec(field.hint)
        except TypeError as problem:
            raise TypeError(f"{field.name}: {problem}") from None

    def _record(self, hint: Any) -> Codec:
        """A dataclass, a NamedTuple or a TypedDict, which alone takes members that it does not know."""
        kind = get_origin(hint) or hint
        is_open = typing.is_typeddict(kind)
        make = dict if is_open else kind
        return self._named(hint, lambda: self.object(self.fields(hint), make, closed=not is_open))

    def _foreign(self, hint: Any) -> Codec:
        """A class of attrs or msgspec, whose schema and checks are made here."""

        kind = get_origin(hint) or hint

        def build() -> Codec:
            record = records.record_of(kind)
            members = self.object(record.fields, dict)
            return records.record_codec(kind, record, _described(members, kind))

        return self._named(hint, build)

    def _model(self, hint: Any) -> Codec:
        """A model of pydantic, which has its own schema and checks."""

        def build() -> Codec:
            return records.model_codec(hint, self.defs, {named.name for named in self._types.values()})

        return self._named(hint, build)

    def _named(self, hint: Any, build: Callable[[], Codec]) -> Codec:
        """A type with a name may refer to itself: then, and only then, it becomes a `$ref`."""
        if hint not in self._types:
            named = self._types[hint] = _Named()
            codec = build()
            if named.name:
                self.defs[named.name] = codec.schema
                codec = dataclasses.replace(codec, schema=named.reference)
            named.codec = codec
        named = self._types[hint]
        built: Codec | None = named.codec
        if built is not None:
            return built
        if not named.name:
            name = getattr(hint, "__name__", "Type")
            while name in self.defs or any(name == other.name for other in self._types.values()):
                name += "_"
            named.name = name
        load, dump = (lambda v: named.codec.load(v)), (lambda v: named.codec.dump(v))  # not built yet
        return Codec(named.reference, load, dump, "an object")

    def _list(self, hint: Any) -> Codec:
        return self._array((*get_args(hint), Any)[0], list)

    def _array(self, item: Any, make: Any) -> Codec:
        inner = self.codec(item)

        def load(value: Any) -> Any:
            if not isinstance(value, list):
                raise must("be an array", value)
            items = parts.convert_each(inner.load, value)
            return items if make is list else make(items)

        def dump(value: Any) -> Any:
            if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
                raise must("be an array", value)
            return parts.convert_each(inner.dump, list(value))

        return Codec({"type": "array", "items": inner.schema}, load, dump, "an array")

    def _set(self, hint: Any) -> Codec:
        item = (*get_args(hint), Any)[0]
        inner = self._array(item, list)
        make = set if kind_of(hint) is set else frozenset

        def load(value: Any) -> Any:
            items = inner.load(value)
            parts.check_different(value)
            try:
                unique = make(items)
            except TypeError as problem:  # a tuple with a list in it, say
                raise Mismatch(f"must hold what Python can hash: {problem}") from None
            if len(unique) < len(items):
                raise must("hold no item twice", value)
            return unique

        def dump(value: Any) -> Any:
            items = inner.dump(value)
            parts.check_different(items)
            return items

        return Codec({**inner.schema, "uniqueItems": True}, load, dump, inner.says)

    def _tuple(self, hint: Any) -> Codec:
        is_bare = getattr(hint, "__args__", None) is None  # for `tuple[()]` they are ()
        args = (Any, ...) if is_bare else get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return self._array(args[0], tuple)
        codecs = [self.codec(a) for a in args]
        loads, dumps, says = [c.load for c in codecs], [c.dump for c in codecs], f"an array of {len(codecs)}"

        def load(value: Any) -> Any:
            if not isinstance(value, list) or len(value) != len(loads):
                raise must(f"be {says}", value)
            return tuple(parts.convert_row(loads, value))

        def dump(value: Any) -> Any:
            if not isinstance(value, list | tuple) or len(value) != len(dumps):
                raise must(f"be {says}", value)
            return parts.convert_row(dumps, value)

        schema: Schema = {"type": "array", "minItems": len(codecs), "maxItems": len(codecs)}
        if codecs:
            schema["prefixItems"] = [c.schema for c in codecs]
        return Codec(schema, load, dump, says)

    def _mapping(self, hint: Any) -> Codec:
        key_hint, item_hint = get_args(hint) or (Any, Any)
        key, item = self._key(key_hint), self.codec(item_hint)
        schema: Schema = {"type": "object"}
        if item.schema:
            schema["additionalProperties"] = item.schema
        if key.schema:
            schema["propertyNames"] = key.schema

        def dump(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise must("be an object", value)
            return parts.convert_members(lambda k: str(key.dump(k)), item.dump, value)

        return Codec(schema, parts.map_loader(key.load, item.load), dump, "an object")

    def _key(self, hint: Any) -> Codec:
        """The codec of a map's keys, all of which are strings, with the schema of `propertyNames`."""
        codec = self.codec(str if hint is Any else hint)
        if hint is int:
            return dataclasses.replace(codec, schema={"pattern": INT_KEY}, load=load_int_key)
        if codec.schema.get("type", "string") not in ("string", ["string", "integer"]):
            raise TypeError(f"a key of a JSON object is a string; {hint!r} is not one")
        return dataclasses.replace(codec, schema={k: v for k, v in codec.schema.items() if k != "type"})

    def members(self, hint: Any) -> list[Any]:
        """The alternatives of a union; mcp_ref/schema overrides this."""
        return list(get_args(hint))

    def _union(self, hint: Any) -> Codec:
        members = self.members(hint)
        codecs = [self.codec(member) for member in members]
        if len(codecs) == 1:
            return codecs[0]
        says = " or ".join(dict.fromkeys(codec.says for codec in codecs))
        loads, dumps = [codec.load for codec in codecs], [codec.dump for codec in codecs]
        own = {kind_of(member): codec.dump for member, codec in zip(members, codecs, strict=True)}

        def dump(value: Any) -> Any:
            exact = own.get(type(value))  # a subclass would also fit its base, but lose its own fields
            order = [exact, *(d for d in dumps if d is not exact)] if exact is not None else dumps
            return first(order, value, says)

        schema = _union_schema([codec.schema for codec in codecs])
        return Codec(schema, lambda value: first(loads, value, says), dump, says)

    def keywords(self, mark: Schema) -> Schema:
        """The keywords that a dict in Annotated adds to a schema. Raises TypeError if one sets a rule."""
        check_informs(mark, f"{mark!r:.200} in Annotated")
        return mark

    def _annotated(self, hint: Any) -> Codec:
        codec = self.codec(get_args(hint)[0])
        for mark in hint.__metadata__:
            if isinstance(mark, str):
                codec = dataclasses.replace(codec, schema={**codec.schema, "description": mark})
            elif isinstance(mark, dict):
                codec = dataclasses.replace(codec, schema={**codec.schema, **self.keywords(mark)})
            else:
                codec = apply_mark(codec, mark)
        return codec


Build = Callable[[Compiler, Any], Codec]


def _any(compiler: Compiler, hint: Any) -> Codec:
    return Codec({}, same, dump_any, "any value")


_FORMS: dict[Any, Build] = {
    **dict.fromkeys((Any, object), _any),
    Annotated: Compiler._annotated,
    Literal: lambda compiler, hint: choice(get_args(hint)),
    **dict.fromkeys((Union, types.UnionType), Compiler._union),
    tuple: Compiler._tuple,
    **dict.fromkeys((list, collections.abc.Sequence, collections.abc.Iterable), Compiler._list),
    **dict.fromkeys((set, frozenset, collections.abc.Set), Compiler._set),
    **dict.fromkeys((dict, collections.abc.Mapping), Compiler._mapping),
}
"""What builds the codec of a hint, by the hint itself or by its origin: `list` for `list` and `list[int]`."""


def _is_record(kind: Any) -> bool:
    if typing.is_typeddict(kind):
        return True
    is_named_tuple = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    return is_named_tuple or (isinstance(kind, type) and dataclasses.is_dataclass(kind))


_KINDS_OF_TYPES: tuple[tuple[Callable[[Any], bool], Build], ...] = (
    (lambda kind: isinstance(kind, enum.EnumType), lambda compiler, hint: choice(hint)),
    (records.is_model, Compiler._model),
    (records.is_record, Compiler._foreign),
    (_is_record, Compiler._record),
    (
        lambda kind: hasattr(kind, "__value__"),  # what the statement `type X = ...` makes
        lambda compiler, hint: compiler._named(hint, lambda: compiler.codec(hint.__value__)),
    ),
)
"""What builds the codec of a type that users define: the first entry whose test is true of the type."""


def _property(field: Field, codec: Codec) -> Schema:
    """The schema of a member, with its default."""
    if field.required or field.default is None:
        return dict(codec.schema)
    try:
        return {**codec.schema, "default": codec.dump(field.default)}
    except Mismatch as problem:
        raise TypeError(f"the default of {field.name} {_wrong_default(field, problem)}") from None


def _wrong_default(field: Field, problem: Mismatch) -> str:
    """Why a default is refused. With `a: int = Field(ge=1)`, Python would pass the Field itself for a."""
    if not is_field(field.default):
        return f"does not fit its type: {problem}"
    kind = get_args(field.hint)[0] if get_origin(field.hint) is Annotated else field.hint
    behind = "" if field.default.is_required() else " = default"
    written = f"{field.name}: Annotated[{inspect.formatannotation(kind)}, Field(...)]{behind}"
    return f"is a Field, which stands in the type here: write `{written}`"


def _object_schema(properties: Schema, required: list[str], closed: bool, make: Any) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return schema if make is dict else {**schema, **_description(make)}


def _description(kind: Any) -> Schema:
    """The docstring of a class, if it has its own: not one that a decorator wrote, nor one it inherits."""
    text = kind.__dict__.get("__doc__")
    written = text and not text.startswith((f"{kind.__name__}(", "Method generated by attrs"))
    return {"description": inspect.cleandoc(text)} if written else {}


def _described(codec: Codec, kind: Any) -> Codec:
    """The codec with the docstring of a class in its schema."""
    return dataclasses.replace(codec, schema={**codec.schema, **_description(kind)})


def _union_schema(schemas: list[Schema]) -> Schema:
    """`anyOf`, or a list of types where nothing else is said of each."""
    if not all(len(schema) == 1 and isinstance(schema.get("type"), str) for schema in schemas):
        return {"anyOf": schemas}
    kinds = list(dict.fromkeys(schema["type"] for schema in schemas))
    return {"type": kinds if len(kinds) > 1 else kinds[0]}


def dump_any(value: Any) -> Any:
    """The JSON of a value whose type no hint declares, by its class. Raises Mismatch."""
    kind = type(value)
    if kind in (str, int, bool, type(None)):
        return value
    if kind is dict:
        return parts.convert_members(text_key, dump_any, value)
    if kind in (list, tuple):
        return parts.convert_each(dump_any, list(value))
    try:
        dump = _dumper(typing.cast(collections.abc.Hashable, kind))
    except TypeError as problem:
        raise Mismatch(f"a {kind.__name__} has no JSON form") from problem
    return dump(value)


@functools.lru_cache(maxsize=256)  # bounded, since it keeps classes alive
def _dumper(kind: Any) -> Convert:
    """How to dump a class; one without a rule of its own is dumped as what it extends. Raises TypeError."""
    try:
        if kind is object:  # as a hint it allows any value, but an `object()` has no JSON form
            raise TypeError("no type of its own")
        return Compiler().codec(kind).dump
    except TypeError:
        if issubclass(kind, Mapping):
            return lambda value: parts.convert_members(text_key, dump_any, value)
        if issubclass(kind, collections.abc.Sequence | collections.abc.Set) and not issubclass(kind, str):
            return lambda value: parts.convert_each(dump_any, list(value))
        for base in (bool, int, float, str):
            if issubclass(kind, base):
                return lambda value: base(value)
        raise
