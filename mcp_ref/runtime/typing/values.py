"""Type hints as contracts for JSON: one hint gives a schema, a loader and a dumper.

    schema   what a peer is told about the value (JSON Schema 2020-12)
    load     JSON -> a real Python value, or a `Mismatch` that says what was wrong and where
    dump     the Python value -> JSON, with the same care: a wrong result is found here

The three are made together, kind by kind, so that they cannot disagree: what `load` accepts is
what the schema says, and what `dump` gives is what `load` would accept again.

Two users: functions (mcp_ref/runtime/functions) and the protocol's own shapes (mcp_ref/schema),
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

from mcp_ref.runtime.typing import parts, scalars
from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.runtime.typing.codec import Codec, Field, Schema
from mcp_ref.runtime.typing.hints import filled, hashable, kind_of, parameters_given, required_hint
from mcp_ref.runtime.typing.marks import check_informs, marked
from mcp_ref.runtime.typing.mismatch import Mismatch, must

__all__ = ["Bounds", "Codec", "Compiler", "Field", "dump_any"]

# What a hint names -> what is made of a JSON array for it.
_LISTS: dict[Any, Any] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Iterator: iter,
    collections.abc.Generator: iter,
}
_SETS: dict[Any, Any] = {
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_Plain = str | int | float | bool | None
"""What a set of anything can hold: what JSON has and Python can hash."""


class Compiler:
    """Turns hints into codecs. One compiler is one document: its `$defs` are shared."""

    def __init__(self) -> None:
        self.defs: dict[str, Schema] = {}
        self._building: dict[Any, list[Codec]] = {}  # a type under way -> [its codec, once known]
        self._recursive: dict[Any, str] = {}  # a type that refers to itself -> its name in $defs
        self._done: dict[Any, Codec] = {}  # types with a name: each is built once

    # -- the kinds ----------------------------------------------------------------

    def codec(self, hint: Any) -> Codec:
        """The codec of any supported hint. Raises TypeError for a hint that JSON cannot carry."""
        simple = scalars.CODECS.get(hint) if isinstance(hint, type) or hint is None else None
        if simple is not None:
            return Codec(dict(simple[0]), simple[1], simple[2], simple[3])
        if hint is Any or hint is object:
            return Codec({}, parts.same, dump_any, "any value")
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(args[0], args[1:])
        if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
            return self.codec(args[0])
        if origin is Literal:
            return parts.choice(args, None)
        if origin in (Union, types.UnionType):
            return self._union(self.members(hint))
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return parts.choice([member.value for member in hint], hint)
        if hasattr(hint, "__supertype__"):  # typing.NewType
            return self.codec(hint.__supertype__)
        if isinstance(hint, typing.TypeVar):
            constraints = list(hint.__constraints__)
            return self._union(constraints) if constraints else self.codec(hint.__bound__ or Any)
        if hasattr(hint, "__value__"):  # the `type X = ...` statement
            return self._named(hint, lambda: self.codec(hint.__value__))
        return self._container(hint, origin or hint, args)

    def _container(self, hint: Any, kind: Any, args: tuple[Any, ...]) -> Codec:
        if typing.is_typeddict(kind):
            return self._named(hint, lambda: self.object(self.fields(hint), dict, closed=False))
        if isinstance(kind, type):
            if dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
                return self._named(hint, lambda: self.object(self.fields(hint), kind))
            if kind is tuple:
                is_bare = getattr(hint, "__args__", None) is None  # `tuple[()]` has some: none
                return self._tuple((Any, ...) if is_bare else args)
            if kind in _MAPS:
                return self._mapping(args or (str, Any))
            if kind in _SETS:
                return self._set(args[0] if args and args[0] is not Any else _Plain, _SETS[kind])
            if kind in _LISTS:
                return self._array(args[0] if args else Any, _LISTS[kind])
        raise TypeError(f"{hint!r} has no JSON form; see the list of types in mcp_ref.schema")

    # -- objects ------------------------------------------------------------------

    def fields(self, hint: Any) -> list[Field]:
        """The members of a dataclass, a NamedTuple or a TypedDict."""
        origin: Any = get_origin(hint) or hint
        hints = typing.get_type_hints(origin, include_extras=True)
        given = parameters_given(hint)
        hints = {name: filled(member, given) for name, member in hints.items()}
        if typing.is_typeddict(origin):
            return [Field(n, *required_hint(h, n in origin.__required_keys__)) for n, h in hints.items()]
        if any(isinstance(h, dataclasses.InitVar) for h in hints.values()):
            raise TypeError(f"{origin.__name__} has an InitVar, which cannot be read back from it")
        if not dataclasses.is_dataclass(origin):
            defaults: dict[str, Any] = getattr(origin, "_field_defaults", {})
            return [Field(n, hints.get(n, Any), n not in defaults, defaults.get(n)) for n in origin._fields]
        return [Field(f.name, hints[f.name], *_default_of(f)) for f in dataclasses.fields(origin) if f.init]

    def object(self, fields: list[Field], make: Any, *, closed: bool = True) -> Codec:
        """An object with named members. A closed one refuses members it does not know."""
        codecs = {field.name: self.codec(field.hint) for field in fields}
        required = [field.name for field in fields if field.required]
        properties = {}
        for field in fields:
            schema = dict(codecs[field.name].schema)
            if not field.required and field.default is not None:
                schema["default"] = _default(field, codecs[field.name])
            properties[field.name] = schema
        schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if closed:
            schema["additionalProperties"] = False
        description = _own_docstring(make)
        if description:
            schema["description"] = description
        constants = [name for name, codec in codecs.items() if "const" in codec.schema]
        loads = {n: c.load for n, c in codecs.items()}
        load = parts.object_loader(loads, required, constants, make, closed)
        rest = None if closed else dump_any
        dump = parts.object_dumper({n: c.dump for n, c in codecs.items()}, required, make, rest)
        return Codec(schema, load, dump, "an object")

    def _named(self, hint: Any, build: Callable[[], Codec]) -> Codec:
        """A type with a name may refer to itself: then, and only then, it becomes a `$ref`."""
        if hint in self._done:
            return self._done[hint]
        if hint in self._building:
            return self._reference(hint)
        slot: list[Codec] = []
        self._building[hint] = slot
        try:
            codec = build()
            slot.append(codec)
        finally:
            del self._building[hint]
        if hint in self._recursive:
            name = self._recursive[hint]
            self.defs[name] = codec.schema
            codec = dataclasses.replace(codec, schema={"$ref": f"#/$defs/{name}"})
        self._done[hint] = codec
        return codec

    def _reference(self, hint: Any) -> Codec:
        if hint not in self._recursive:
            name = getattr(hint, "__name__", "Type")
            while name in self._recursive.values():
                name += "_"
            self._recursive[hint] = name
        slot = self._building[hint]
        schema = {"$ref": f"#/$defs/{self._recursive[hint]}"}
        return Codec(schema, lambda v: slot[0].load(v), lambda v: slot[0].dump(v), "an object")

    # -- arrays and maps ----------------------------------------------------------

    def _array(self, item: Any, make: Any) -> Codec:
        inner = self.codec(item)

        def load(value: Any) -> Any:
            if not isinstance(value, list):
                raise must("be an array", value)
            items = parts.each(inner.load, value)
            return items if make is list else make(items)

        def dump(value: Any) -> Any:
            if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
                raise must("be an array", value)
            return parts.each(inner.dump, list(value))

        return Codec({"type": "array", "items": inner.schema}, load, dump, "an array")

    def _set(self, item: Any, make: Any) -> Codec:
        if not hashable(item):
            raise TypeError(f"a set cannot hold {item!r}")
        inner = self._array(item, list)

        def load(value: Any) -> Any:
            items = inner.load(value)
            parts.all_different(value)
            try:
                unique = make(items)
                if len(unique) < len(items):
                    raise must("hold no item twice", value)
                return unique
            except TypeError as problem:  # a tuple with a list in it, say
                raise Mismatch(f"must hold what Python can hash: {problem}") from None

        def dump(value: Any) -> Any:
            items = inner.dump(value)
            parts.all_different(items)
            return items

        return Codec({**inner.schema, "uniqueItems": True}, load, dump, inner.says)

    def _tuple(self, args: tuple[Any, ...]) -> Codec:
        if len(args) == 2 and args[1] is Ellipsis:
            return self._array(args[0], tuple)
        codecs = [self.codec(a) for a in args]
        loads, dumps, says = [c.load for c in codecs], [c.dump for c in codecs], f"an array of {len(codecs)}"

        def load(value: Any) -> Any:
            if not isinstance(value, list) or len(value) != len(loads):
                raise must(f"be {says}", value)
            return tuple(parts.row(loads, value))

        def dump(value: Any) -> Any:
            if not isinstance(value, list | tuple) or len(value) != len(dumps):
                raise must(f"be {says}", value)
            return parts.row(dumps, value)

        schema: Schema = {"type": "array", "minItems": len(codecs), "maxItems": len(codecs)}
        if codecs:
            schema["prefixItems"] = [c.schema for c in codecs]
        return Codec(schema, load, dump, says)

    def _mapping(self, args: tuple[Any, ...]) -> Codec:
        key, item = self.codec(str if args[0] is Any else args[0]), self.codec(args[1])
        schema: Schema = {"type": "object"}
        if item.schema:
            schema["additionalProperties"] = item.schema
        if args[0] is int:
            schema["propertyNames"] = {"pattern": scalars.INT_KEY}
        elif key.schema.get("type", "string") not in ("string", ["string", "integer"]):
            raise TypeError(f"a key of a JSON object is a string; {args[0]!r} is not one")
        elif key.schema.keys() - {"type"}:
            schema["propertyNames"] = {k: v for k, v in key.schema.items() if k != "type"}
        load_key = scalars.load_int_key if args[0] is int else key.load

        def load(value: Any) -> Any:
            if not isinstance(value, dict):
                raise must("be an object", value)
            return parts.members(load_key, item.load, value)

        def dump(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise must("be an object", value)
            return parts.members(lambda k: str(key.dump(k)), item.dump, value)

        return Codec(schema, load, dump, "an object")

    # -- unions and annotations ---------------------------------------------------

    def members(self, hint: Any) -> list[Any]:
        """The alternatives of a union."""
        return list(get_args(hint))

    def _union(self, members: list[Any]) -> Codec:
        if len(members) == 1:
            return self.codec(members[0])
        codecs = [self.codec(m) for m in members]
        says = " or ".join(dict.fromkeys(c.says for c in codecs))
        loads, dumps = [c.load for c in codecs], [c.dump for c in codecs]
        own = {kind_of(m): c.dump for m, c in zip(members, codecs, strict=True)}
        kinds = list(dict.fromkeys(str(c.schema.get("type")) for c in codecs))
        if all(len(c.schema) == 1 and isinstance(c.schema.get("type"), str) for c in codecs):
            schema: Schema = {"type": kinds if len(kinds) > 1 else kinds[0]}
        else:
            schema = {"anyOf": [c.schema for c in codecs]}

        def dump(value: Any) -> Any:
            exact = own.get(type(value))  # a subclass would fit its base too, but lose its own fields
            order = [exact, *(d for d in dumps if d is not exact)] if exact is not None else dumps
            return parts.first(order, value, says)

        return Codec(schema, lambda value: parts.first(loads, value, says), dump, says)

    def keywords(self, mark: Schema) -> Schema:
        """What a dict in Annotated adds to a schema. Raises TypeError unless all of it only informs."""
        check_informs(mark, f"{mark!r:.200} in Annotated")
        return mark

    def _annotated(self, hint: Any, marks: Iterable[Any]) -> Codec:
        codec = self.codec(hint)
        for mark in marks:
            if isinstance(mark, str):
                codec = dataclasses.replace(codec, schema={**codec.schema, "description": mark})
            elif isinstance(mark, dict):
                codec = dataclasses.replace(codec, schema={**codec.schema, **self.keywords(mark)})
            else:
                codec = marked(codec, mark)
        return codec


def _default_of(field: Any) -> tuple[bool, Any]:
    """(required, default) of a dataclass field."""
    if field.default_factory is not dataclasses.MISSING:
        return False, field.default_factory()
    if field.default is not dataclasses.MISSING:
        return False, field.default
    return True, None


def _default(field: Field, codec: Codec) -> Any:
    try:
        return codec.dump(field.default)
    except Mismatch as problem:
        raise TypeError(f"the default of {field.name} does not fit its type: {problem}") from None


def _own_docstring(make: Any) -> str | None:
    text = getattr(make, "__doc__", None) if make is not dict else None
    if not text or text.startswith(f"{make.__name__}("):  # what @dataclass and NamedTuple write
        return None
    return inspect.cleandoc(text)


# -- values without a hint ----------------------------------------------------------


def dump_any(value: Any) -> Any:
    """JSON for a value whose type was not declared, by what it is."""
    kind = type(value)
    if kind in (str, int, bool, type(None)):
        return value
    if kind is dict:
        return parts.members(parts.text_key, dump_any, value)
    if kind in (list, tuple):
        return parts.each(dump_any, list(value))
    try:
        dump = _dumper(typing.cast(collections.abc.Hashable, kind))
    except TypeError as problem:
        raise Mismatch(f"a {kind.__name__} has no JSON form") from problem
    return dump(value)


@functools.lru_cache(maxsize=256)  # bounded, since it keeps classes alive
def _dumper(kind: Any) -> Callable[[Any], Any]:
    """How to dump a class; one without a rule of its own goes by what it extends."""
    try:
        if kind is object:  # as a hint it means anything, as a value nothing
            raise TypeError("no type of its own")
        return Compiler().codec(kind).dump
    except TypeError:
        if issubclass(kind, Mapping):
            return lambda value: parts.members(parts.text_key, dump_any, value)
        if issubclass(kind, collections.abc.Sequence | collections.abc.Set) and not issubclass(kind, str):
            return lambda value: parts.each(dump_any, list(value))
        for base in (bool, int, float, str):
            if issubclass(kind, base):
                return lambda value: base(value)
        raise
