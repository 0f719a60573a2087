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

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from mcp_ref.runtime import scalars
from mcp_ref.runtime.mismatch import Mismatch, must, shown

__all__ = ["Bounds", "Codec", "Compiler", "Field", "dump_any", "required_hint"]

Schema = dict[str, Any]
Convert = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Codec:
    """A compiled hint."""

    schema: Schema
    load: Convert
    dump: Convert
    says: str
    """What a value must be, in words: "an integer"."""


class Field(NamedTuple):
    """One member of an object: of a dataclass, a TypedDict, a NamedTuple or an argument list."""

    name: str
    hint: Any
    required: bool
    default: Any = None


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


class Compiler:
    """Turns hints into codecs. One compiler is one document: its `$defs` are shared."""

    def __init__(self) -> None:
        self.defs: dict[str, Schema] = {}
        self._building: dict[Any, list[Codec]] = {}  # a type under way -> [its codec, once known]
        self._recursive: dict[Any, str] = {}  # a type that refers to itself -> its name in $defs

    # -- the kinds ----------------------------------------------------------------

    def codec(self, hint: Any) -> Codec:
        """The codec of any supported hint. Raises TypeError for a hint that JSON cannot carry."""
        simple = scalars.CODECS.get(hint) if isinstance(hint, type) or hint is None else None
        if simple is not None:
            return Codec(dict(simple[0]), simple[1], simple[2], simple[3])
        if hint is Any or hint is object:
            return Codec({}, _same, dump_any, "any value")
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(args[0], args[1:])
        if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
            return self.codec(args[0])
        if origin is Literal:
            return _choice(args, None)
        if origin in (Union, types.UnionType):
            return self._union(self.members(hint))
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return _choice([member.value for member in hint], hint)
        if hasattr(hint, "__supertype__"):  # typing.NewType
            return self.codec(hint.__supertype__)
        if hasattr(hint, "__value__"):  # the `type X = ...` statement
            return self._named(hint, lambda: self.codec(hint.__value__))
        return self._container(hint, origin or hint, args)

    def _container(self, hint: Any, kind: Any, args: tuple[Any, ...]) -> Codec:
        if typing.is_typeddict(kind):
            return self._named(hint, lambda: self.object(self.fields(hint), dict, closed=False))
        if isinstance(kind, type):
            if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
                return self._named(hint, lambda: self.object(self.fields(hint), kind))
            if issubclass(kind, tuple):
                return self._tuple(args)
            if issubclass(kind, Mapping):
                return self._mapping(args or (str, Any))
            if issubclass(kind, set | frozenset):
                return self._array(args[0] if args else Any, kind, {"uniqueItems": True})
            if issubclass(kind, Iterable) and kind is not str:
                return self._array(args[0] if args else Any, list, {})
        raise TypeError(f"{hint!r} has no JSON form; see the list of types in mcp_ref.schema")

    # -- objects ------------------------------------------------------------------

    def fields(self, hint: Any) -> list[Field]:
        """The members of a dataclass, a NamedTuple or a TypedDict."""
        origin: Any = get_origin(hint) or hint
        hints = typing.get_type_hints(origin, include_extras=True)
        if typing.is_typeddict(origin):
            return [Field(n, *required_hint(h, n in origin.__required_keys__)) for n, h in hints.items()]
        if not dataclasses.is_dataclass(origin):
            defaults: dict[str, Any] = getattr(origin, "_field_defaults", {})
            return [Field(n, hints.get(n, Any), n not in defaults, defaults.get(n)) for n in origin._fields]
        given = {}
        if get_origin(hint):  # a generic class with its parameters filled in
            given = dict(zip(getattr(origin, "__parameters__", ()), get_args(hint), strict=False))
        return [
            Field(f.name, given.get(hints[f.name], hints[f.name]), *_default_of(f))
            for f in dataclasses.fields(origin)
            if f.init
        ]

    def object(self, fields: list[Field], make: Any, *, closed: bool = True) -> Codec:
        """An object with named members. A closed one refuses members it does not know."""
        codecs = {field.name: self.codec(field.hint) for field in fields}
        required = [field.name for field in fields if field.required]
        properties = {}
        for field in fields:
            schema = dict(codecs[field.name].schema)
            if not field.required and field.default is not None:
                schema["default"] = codecs[field.name].dump(field.default)
            properties[field.name] = schema
        schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if closed:
            schema["additionalProperties"] = False
        description = _own_docstring(make)
        if description:
            schema["description"] = description
        load = _object_loader({n: c.load for n, c in codecs.items()}, required, make, closed)
        dump = _object_dumper({n: c.dump for n, c in codecs.items()}, required, closed)
        return Codec(schema, load, dump, "an object")

    def _named(self, hint: Any, build: Callable[[], Codec]) -> Codec:
        """A type with a name may refer to itself: then, and only then, it becomes a `$ref`."""
        if hint in self._building:
            return self._reference(hint)
        slot: list[Codec] = []
        self._building[hint] = slot
        try:
            codec = build()
            slot.append(codec)
        finally:
            del self._building[hint]
        if hint not in self._recursive:
            return codec
        name = self._recursive[hint]
        self.defs[name] = codec.schema
        return dataclasses.replace(codec, schema={"$ref": f"#/$defs/{name}"})

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

    def _array(self, item: Any, make: Any, extra: Schema) -> Codec:
        inner = self.codec(item)
        collect = make if make is not list else None

        def load(value: Any) -> Any:
            if type(value) is not list:
                raise must("be an array", value)
            items = _each(inner.load, value)
            if collect is None:
                return items
            if len({_identity(v) for v in value}) != len(value):
                raise must("hold no item twice", value)
            return collect(items)

        def dump(value: Any) -> Any:
            if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
                raise must("be an array", value)
            return _each(inner.dump, list(value))

        return Codec({"type": "array", "items": inner.schema, **extra}, load, dump, "an array")

    def _tuple(self, args: tuple[Any, ...]) -> Codec:
        if (len(args) == 2 and args[1] is Ellipsis) or not args:
            inner = self._array(args[0] if args else Any, list, {})
            return dataclasses.replace(inner, load=lambda v: tuple(inner.load(v)))
        codecs = [self.codec(a) for a in args if a != ()]
        size = len(codecs)

        def through(side: str, value: Any) -> list[Any]:
            if not isinstance(value, list | tuple) or len(value) != size:
                raise must(f"be an array of {size}", value)
            done = []
            for index, (codec, item) in enumerate(zip(codecs, value, strict=True)):
                try:
                    done.append(codec.load(item) if side == "load" else codec.dump(item))
                except Mismatch as problem:
                    raise problem.under(index) from None
            return done

        schema: Schema = {"type": "array", "minItems": size, "maxItems": size}
        if codecs:
            schema["prefixItems"] = [c.schema for c in codecs]
        return Codec(
            schema,
            lambda v: tuple(through("load", v)),
            lambda v: through("dump", v),
            f"an array of {size}",
        )

    def _mapping(self, args: tuple[Any, ...]) -> Codec:
        key, item = self.codec(args[0]), self.codec(args[1])
        schema: Schema = {"type": "object"}
        if item.schema:
            schema["additionalProperties"] = item.schema
        if args[0] is int:
            schema["propertyNames"] = {"pattern": r"^-?(0|[1-9]\d*)$"}
        elif key.schema.keys() - {"type"}:
            schema["propertyNames"] = {k: v for k, v in key.schema.items() if k != "type"}
        elif key.schema.get("type", "string") != "string":
            raise TypeError(f"a key of a JSON object is a string; {args[0]!r} is not one")
        load_key = scalars.load_int_key if args[0] is int else key.load

        def load(value: Any) -> Any:
            if type(value) is not dict:
                raise must("be an object", value)
            return _members(load_key, item.load, value)

        def dump(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise must("be an object", value)
            return _members(lambda k: str(key.dump(k)), item.dump, value)

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
        kinds = [c.schema.get("type") for c in codecs]
        if all(len(c.schema) == 1 and isinstance(k, str) for c, k in zip(codecs, kinds, strict=True)):
            schema: Schema = {"type": kinds}
        else:
            schema = {"anyOf": [c.schema for c in codecs]}
        return Codec(
            schema,
            lambda value: _first([c.load for c in codecs], value, says),
            lambda value: _first([c.dump for c in codecs], value, says),
            says,
        )

    def _annotated(self, hint: Any, marks: Iterable[Any]) -> Codec:
        codec = self.codec(hint)
        for mark in marks:
            if isinstance(mark, str):
                codec = dataclasses.replace(codec, schema={**codec.schema, "description": mark})
            elif isinstance(mark, dict):  # JSON Schema keywords that only inform, say `examples`
                codec = dataclasses.replace(codec, schema={**codec.schema, **mark})
            else:
                codec = _bounded(codec, mark)
        return codec


def required_hint(hint: Any, otherwise: bool) -> tuple[Any, bool]:
    """A TypedDict's member without its Required or NotRequired, and what that said.

    Python's own `__required_keys__` cannot see either where annotations are strings.
    """
    origin = get_origin(hint)
    if origin is typing.Required or origin is typing.NotRequired:
        return get_args(hint)[0], origin is typing.Required
    if origin is Annotated:
        inner, is_required = required_hint(get_args(hint)[0], otherwise)
        return Annotated[inner, *hint.__metadata__], is_required
    return hint, otherwise


# ------------------------------------------------------------------------- the loops


def _same(value: Any) -> Any:
    return value


def _each(convert: Convert, values: list[Any]) -> list[Any]:
    try:
        return [convert(value) for value in values]
    except Mismatch:
        pass  # found again below, this time with its place
    problems = []
    for index, value in enumerate(values):
        try:
            convert(value)
        except Mismatch as problem:
            problems.append(problem.under(index))
    raise Mismatch.all(problems)


def _members(load_key: Convert, load: Convert, value: Mapping[Any, Any]) -> dict[Any, Any]:
    done, problems = {}, []
    for key, item in value.items():
        try:
            done[load_key(key)] = load(item)
        except Mismatch as problem:
            problems.append(problem.under(key))
    if problems:
        raise Mismatch.all(problems)
    return done


def _object_loader(loads: dict[str, Convert], required: list[str], make: Any, closed: bool) -> Convert:
    def load(value: Any) -> Any:
        if type(value) is not dict:
            raise must("be an object", value)
        done, problems = {}, []
        for name, item in value.items():
            convert = loads.get(name)
            if convert is None:
                if closed:
                    problems.append(Mismatch(f"is not known here; known: {', '.join(loads)}", (name,)))
                else:
                    done[name] = item
                continue
            try:
                done[name] = convert(item)
            except Mismatch as problem:
                problems.append(problem.under(name))
        problems += [Mismatch("is required", (n,)) for n in required if n not in value]
        if problems:
            raise Mismatch.all(problems)
        return done if make is dict else _made(make, done)

    return load


def _made(make: Any, members: dict[str, Any]) -> Any:
    """The dataclass itself, whose `__post_init__` may have rules of its own."""
    try:
        return make(**members)
    except ValueError as problem:
        raise Mismatch(str(problem)) from problem


def _object_dumper(dumps: dict[str, Convert], required: list[str], closed: bool) -> Convert:
    def dump(value: Any) -> Any:
        if not isinstance(value, Mapping):
            value = _attributes(value, dumps)
        done, problems = {}, []
        for name, item in value.items():
            try:
                convert = dumps.get(name, None if closed else dump_any)
                if convert is None:
                    raise Mismatch(f"is not known here; known: {', '.join(dumps)}")
                done[name] = convert(item)
            except Mismatch as problem:
                problems.append(problem.under(name))
        problems += [Mismatch("is required", (n,)) for n in required if n not in value]
        if problems:
            raise Mismatch.all(problems)
        return done

    return dump


def _attributes(value: Any, names: Iterable[str]) -> dict[str, Any]:
    try:
        return {name: getattr(value, name) for name in names}
    except AttributeError:
        raise must("be an object", value) from None


def _first(converts: list[Convert], value: Any, says: str) -> Any:
    """The first alternative that fits. If none does, the complaint of the one that was meant."""
    problems = []
    for convert in converts:
        try:
            return convert(value)
        except Mismatch as problem:
            problems.append(problem)
    meant = [p for p in problems if not p.is_another_kind]
    raise meant[0] if len(meant) == 1 else must(f"be {says}", value)


def _identity(value: Any) -> Any:
    """Equality as JSON has it: 1 and true differ, 1 and 1.0 do not."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *map(_identity, value))
    if isinstance(value, dict):
        return (dict, frozenset((k, _identity(v)) for k, v in value.items()))
    return value


def _choice(values: Iterable[Any], enumeration: Any) -> Codec:
    """A Literal, or an Enum: one of a few constants."""
    values = list(values)
    table = {}
    for value in values:
        constant = value.value if isinstance(value, enum.Enum) else value
        if not isinstance(constant, str | int | float | bool | None):
            raise TypeError(f"a choice must be a JSON constant, not {constant!r}")
        table[_identity(constant)] = value if enumeration is None else enumeration(value)
    constants = [v.value if isinstance(v, enum.Enum) else v for v in values]
    names = ", ".join(shown(c) for c in constants)
    says = names if len(constants) == 1 else f"one of {names}"

    def load(value: Any) -> Any:
        try:
            return table[_identity(value)]
        except (KeyError, TypeError):
            raise must(f"be {says}", value, another_kind=True) from None

    def dump(value: Any) -> Any:
        load(value.value if isinstance(value, enum.Enum) else value)
        return value.value if isinstance(value, enum.Enum) else value

    schema: Schema = {"const": constants[0]} if len(constants) == 1 else {"enum": constants}
    kinds = {scalars.json_kind(c) for c in constants}
    if len(kinds) == 1:
        schema = {"type": kinds.pop(), **schema}
    return Codec(schema, load, dump, says)


def _default_of(field: Any) -> tuple[bool, Any]:
    """(required, default) of a dataclass field."""
    if field.default_factory is not dataclasses.MISSING:
        return False, field.default_factory()
    if field.default is not dataclasses.MISSING:
        return False, field.default
    return True, None


def _own_docstring(make: Any) -> str | None:
    text = getattr(make, "__doc__", None) if make is not dict else None
    if not text or text.startswith(f"{make.__name__}("):  # what @dataclass and NamedTuple write
        return None
    return typing.cast(str, text).strip()


# ---------------------------------------------------------------------------- bounds

# name -> (keyword, JSON types it limits, rule, test); as in JSON Schema, other types pass.
_NUMBERS, _SIZED = ("integer", "number"), ("string", "array", "object")
_BOUNDS: dict[str, tuple[str, tuple[str, ...], str, Callable[[Any, Any], bool]]] = {
    "ge": ("minimum", _NUMBERS, "be at least {}", lambda v, b: v >= b),
    "gt": ("exclusiveMinimum", _NUMBERS, "be more than {}", lambda v, b: v > b),
    "le": ("maximum", _NUMBERS, "be at most {}", lambda v, b: v <= b),
    "lt": ("exclusiveMaximum", _NUMBERS, "be less than {}", lambda v, b: v < b),
    "multiple_of": ("multipleOf", _NUMBERS, "be a multiple of {}", scalars.divides),
    "min_length": ("minLength", _SIZED, "be at least {} long", lambda v, b: len(v) >= b),
    "max_length": ("maxLength", _SIZED, "be at most {} long", lambda v, b: len(v) <= b),
    "pattern": ("pattern", ("string",), "match {}", scalars.matches),
}
_SIZES = {
    "array": {"minLength": "minItems", "maxLength": "maxItems"},
    "object": {"minLength": "minProperties", "maxLength": "maxProperties"},
}


def _bounded(codec: Codec, mark: Any) -> Codec:
    """The codec with the limits of a `Bounds` (or of an annotated-types object) on it.

    What is tested is the JSON, on its way in and on its way out, so that the schema says the same.
    """
    schema, tests = dict(codec.schema), []
    if getattr(mark, "format", None) is not None:
        schema["format"] = mark.format
    for name, (keyword, kinds, says, test) in _BOUNDS.items():
        bound = getattr(mark, name, None)
        if bound is not None:
            schema[_keyword(keyword, schema)] = bound
            tests.append((kinds, test, bound, says.format(bound)))
    if not tests:
        return dataclasses.replace(codec, schema=schema)

    def check(value: Any) -> None:
        kind = scalars.json_kind(value)
        for kinds, test, bound, says in tests:
            if kind in kinds and not test(value, bound):
                raise must(says, value)

    def load(value: Any) -> Any:
        done = codec.load(value)
        check(value)
        return done

    def dump(value: Any) -> Any:
        done = codec.dump(value)
        check(done)
        return done

    return Codec(schema, load, dump, codec.says)


def _keyword(keyword: str, schema: Schema) -> str:
    """The length of an array is `minItems`, that of an object `minProperties`."""
    for part in (schema, *schema.get("anyOf", ())):
        if part.get("type") in _SIZES:
            return _SIZES[part["type"]].get(keyword, keyword)
    return keyword


def dump_any(value: Any) -> Any:
    """JSON for a value whose type was not declared, by what it is."""
    kind = type(value)
    if kind in (str, int, bool, type(None)):
        return value
    if kind is dict:
        return _members(_text_key, dump_any, value)
    if kind in (list, tuple):
        return _each(dump_any, list(value))
    try:
        return Compiler().codec(kind).dump(value)
    except TypeError as problem:
        raise Mismatch(f"a {kind.__name__} has no JSON form") from problem


def _text_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise Mismatch(f"a key of a JSON object is a string, not {shown(key)}")
