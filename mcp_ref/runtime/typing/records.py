"""Classes of pydantic, attrs and msgspec, known by their attributes: none of these packages is imported.

    attrs      __attrs_attrs__                               its fields, read as those of a dataclass are
    msgspec    __struct_fields__, __struct_encode_fields__   the same, under the names of its own JSON
    pydantic   model_json_schema, model_validate_json ...    its schema and its checks are pydantic's own

Fields of attrs and msgspec have our schema and our checks; then the class is called, so that validators,
converters and `__post_init__` run, and what they raise is reported as a fault of the value. A model of
pydantic is read as JSON and strictly: "3" is not an integer, as its schema says. What it dumps is what it
would load again, which leaves out computed fields.

Threads     plain functions.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.typing.codec import Codec, Field, Schema
from mcp_ref.runtime.typing.mismatch import MAX_FAULTS, Mismatch, message_of, must, summary
from mcp_ref.runtime.typing.parts import construct

__all__ = ["Record", "is_model", "is_record", "model_codec", "record_codec", "record_of"]


class Record(NamedTuple):
    """A class of attrs or msgspec: its fields, and the names of each."""

    fields: list[Field]
    """The fields, under the names that they have in JSON."""
    attributes: dict[str, str]
    """Name in JSON -> attribute of an instance."""
    arguments: dict[str, str]
    """Name in JSON -> argument of the class."""
    tag: tuple[str, str | int] | None = None
    """The member that says which class it is, and its value."""


def is_record(kind: Any) -> bool:
    """Whether this is a class of attrs or msgspec."""
    return isinstance(kind, type) and (hasattr(kind, "__attrs_attrs__") or hasattr(kind, "__struct_config__"))


def record_of(kind: Any) -> Record:
    """The fields of a class of attrs or msgspec. Raises TypeError if it is not an object in JSON."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return _of_attrs(kind, hints) if hasattr(kind, "__attrs_attrs__") else _of_msgspec(kind, hints)


# ---------------------------------------------------------------------------- attrs


def _of_attrs(kind: Any, hints: Mapping[str, Any]) -> Record:
    record = Record([], {}, {})
    for attribute in kind.__attrs_attrs__:
        if attribute.init:
            name = attribute.alias or attribute.name  # `_size` is an argument `size`
            hint = hints.get(attribute.name, attribute.type or Any)
            record.fields.append(_with_default(name, hint, attribute.default))
            record.attributes[name], record.arguments[name] = attribute.name, name
    return record


NO_DEFAULT = frozenset({"_Nothing", "NoDefaultType"})
"""The types of attrs.NOTHING and msgspec.NODEFAULT."""


def _with_default(name: str, hint: Any, default: Any) -> Field:
    """A field with its declared default: a value, a factory, or an object that means "required".

    A factory that takes the instance is not called: the field has a default, but that cannot be shown.
    """
    if type(default).__name__ in NO_DEFAULT:
        return Field(name, hint, True)
    factory = getattr(default, "factory", None)
    if not callable(factory):
        return Field(name, hint, False, default)
    return Field(name, hint, False, None if getattr(default, "takes_self", False) else factory())


# --------------------------------------------------------------------------- msgspec


def _of_msgspec(kind: Any, hints: Mapping[str, Any]) -> Record:
    config = kind.__struct_config__
    if config.array_like:
        raise TypeError(f"{kind.__name__} is array_like, so that its members have no names in JSON")
    names = kind.__struct_fields__
    required = len(names) - len(kind.__struct_defaults__)
    record = Record([], {}, {}, (config.tag_field, config.tag) if config.tag is not None else None)
    if record.tag is not None:
        record.fields.append(Field(config.tag_field, Literal[config.tag], True))
    for index, (name, encoded) in enumerate(zip(names, kind.__struct_encode_fields__, strict=True)):
        field = Field(encoded, hints[name], True)
        if index >= required:
            field = _with_default(encoded, hints[name], kind.__struct_defaults__[index - required])
        record.fields.append(field)
        record.attributes[encoded] = record.arguments[encoded] = name
    return record


def record_codec(kind: Any, record: Record, members: Codec) -> Codec:
    """The codec of a class of attrs or msgspec; `members` is the codec of its fields, as a dict."""
    tag = {} if record.tag is None else dict([record.tag])

    def load(value: Any) -> Any:
        done = members.load(value)
        return construct(kind, {record.arguments[name]: done[name] for name in done if name not in tag})

    def dump(value: Any) -> Any:
        if isinstance(value, Mapping):
            return members.dump({**tag, **value})
        if not isinstance(value, kind):
            raise must(f"be a {kind.__name__}", value)
        return members.dump(
            {**tag, **{name: getattr(value, attribute) for name, attribute in record.attributes.items()}}
        )

    return Codec(members.schema, load, dump, "an object")


# -------------------------------------------------------------------------- pydantic


def is_model(kind: Any) -> bool:
    """Whether this is a model of pydantic, or of a package that offers the same."""
    offers = ("model_json_schema", "model_validate_json", "model_validate", "model_dump")
    return isinstance(kind, type) and all(hasattr(kind, name) for name in offers)


def model_codec(kind: Any, defs: dict[str, Schema], taken: Iterable[str]) -> Codec:
    """The codec of a model. What its schema refers to goes into `defs`, under names that are not `taken`."""
    schema = _adopted(_schema_of(kind), defs, {*defs, *taken})

    def load(value: Any) -> Any:
        return _validated(lambda: kind.model_validate_json(to_json(value), strict=True))

    def dump(value: Any) -> Any:
        if isinstance(value, Mapping):
            members = value
            value = _validated(lambda: kind.model_validate(members))
        if not isinstance(value, kind):
            raise must(f"be a {kind.__name__}", value)
        try:
            return value.model_dump(mode="json", by_alias=True, round_trip=True)
        except Exception as problem:  # a serializer of the author's
            raise Mismatch(message_of(problem)) from problem

    return Codec(schema, load, dump, "an object" if schema.get("type") == "object" else f"a {kind.__name__}")


def _schema_of(kind: Any) -> Schema:
    """The schema of a model. Raises TypeError if it reads a member by another name than it writes it by."""
    try:
        schema: Schema = kind.model_json_schema(by_alias=True, mode="validation")
        written: Schema = kind.model_json_schema(by_alias=True, mode="serialization")
    except Exception as problem:  # of another package, for a field that JSON cannot carry
        raise TypeError(f"{kind.__name__} has no JSON schema: {message_of(problem)}") from problem
    odd = sorted(_members(schema) - _members(written))
    if odd:
        raise TypeError(
            f"{kind.__name__} reads {', '.join(odd)}, and writes it by another name: use one alias"
        )
    return schema


def _members(schema: Schema) -> set[str]:
    """The names of a model's own members, also where its schema is a reference to one of its `$defs`."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    return set(schema.get("$defs", {}).get(name, schema).get("properties", {}))


def _adopted(schema: Schema, defs: dict[str, Schema], taken: set[str]) -> Schema:
    """The schema, with its definitions moved to `defs`, under new names where theirs are taken."""
    own: dict[str, Schema] = schema.get("$defs", {})
    names: dict[str, str] = {}
    for name in own:
        names[name] = name
        while names[name] in taken:
            names[name] += "_"
    for name, definition in own.items():
        defs[names[name]] = _renamed(definition, names)
    rest = {word: part for word, part in schema.items() if word != "$defs"}
    return typing.cast(Schema, _renamed(rest, names))


def _renamed(part: Any, names: Mapping[str, str]) -> Any:
    """A part of a schema, in which references have the new names."""
    if isinstance(part, list):
        return [_renamed(item, names) for item in part]
    if not isinstance(part, dict):
        return part
    done = {word: _renamed(value, names) for word, value in part.items()}
    reference = part.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix("#/$defs/")
        done["$ref"] = f"#/$defs/{names.get(name, name)}"
    return done


def _validated(validate: Callable[[], Any]) -> Any:
    """The value that pydantic makes. Raises Mismatch with the faults that it found, each with its place."""
    try:
        return validate()
    except Exception as problem:
        errors: Any = getattr(problem, "errors", None)
        if not callable(errors):
            raise Mismatch(message_of(problem)) from problem
        faults = [Mismatch(_said(error), tuple(error["loc"])) for error in errors()[:MAX_FAULTS]]
        raise Mismatch.all(faults) from None


def _said(error: Mapping[str, Any]) -> str:
    """A fault in pydantic's words, as part of a sentence: "Input should be ..." -> "must be ..."."""
    words = str(error["msg"])
    if words.startswith("Input should be "):
        return f"must be {words.removeprefix('Input should be ')}, not {summary(error.get('input'))}"
    return {"missing": "is required", "extra_forbidden": "is not known here"}.get(error["type"], words)
