"""Forms (page: client/elicitation, "Requested Schema"): a class -> the schema of a form.

    form = form_of(Contact)           from a dataclass or TypedDict, a schema, or None: a form without fields
    form = form_of(int)               from the type of one field, whose name is `value`
    form.schema(revision)             the requestedSchema, as the client's revision has it
    form.load(content)                the content of an answer -> a Contact, or an int; or a Mismatch with the
                                      place of each fault

A form is a flat object. A field of it may have one of these types:

    str, int, float, bool             with Bounds: length, minimum and maximum, format
    date, datetime                    strings of that format
    UUID, Decimal, Path, time ...     strings; they are checked when the answer is loaded
    Literal["a", "b"], Enum           one of these strings; the members of an Enum have titles. If one of its
                                      values is not a string, as with auto(), a form has the members' names
    list, set, tuple[..., ...]        several values of a Literal or an Enum, with Bounds on their number
    X | None                          an X, or left out

`Annotated[str, "what it is"]` describes a field, `Annotated[str, {"title": "Name"}]` names it.

Revisions   2025-06-18  strings, numbers, booleans, `enum` with `enumNames`; a default for booleans only
            2025-11-25  + titled selections, + selections of several values; + defaults everywhere; + $schema

Errors      TypeError: a hint that no field can have. BadForm: a schema that is not a form, or has more than
            the revision can express. Mismatch: content that does not fit.
Threads     plain functions. The forms of the types used last are cached.
Not here    how content is checked (client/elicitation/requested_schema), the request that carries a form
            (client/elicitation/requests), the dialogue in which a user fills it in (cli/terminal).
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import Revision
from mcp_ref.client.elicitation import requested_schema as shapes
from mcp_ref.client.elicitation.requested_schema import (
    BadForm,
    FormField,
    check_content,
    check_fields,
    choices_of,
    field_of,
    fields_of,
    parts_of,
    shape_of,
    with_defaults,
)
from mcp_ref.runtime.typing.codec import scalar_of
from mcp_ref.runtime.typing.formats import FORMATS
from mcp_ref.runtime.typing.mismatch import place
from mcp_ref.runtime.typing.values import Compiler
from mcp_ref.schema import ShapeCompiler, in_force, pruner

__all__ = ["BadForm", "Form", "FormField", "check_content", "fields_of", "form_of", "with_defaults"]


@dataclasses.dataclass(frozen=True)
class Form:
    """A form: its schema for each revision, and the conversion of the content of an answer."""

    schema: Callable[[Revision], Json]
    """The requestedSchema as a revision has it; must not be changed. Raises BadForm."""
    load: Callable[[Any], Any]
    """Content -> an instance of the form's class, the value of its one field, or the content itself.

    Raises Mismatch.
    """


VALUE = "value"
"""The name of the only field in a form that is made from the type of one field."""


def form_of(source: Any) -> Form:
    """The form of a dataclass or a TypedDict, of one field's type, or of a schema.

    None is a confirmation, without fields. Raises TypeError for a field that no form can have.
    """
    if source is None:
        return _CONFIRMATION
    if isinstance(source, dict):
        return _form_of_schema(source)
    kind = get_origin(source) or source
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)):
        return _form_of_type(source)
    try:
        hash(source)
    except TypeError:  # a dict in Annotated: such a form cannot be cached
        return _form_of_hint.__wrapped__(source)
    return _form_of_hint(source)


# ------------------------------------------------------------------------ from a schema


def _form_of_schema(schema: Json) -> Form:
    def load(content: Any) -> Any:
        content = {} if content is None else content
        check_content(schema, content)
        return content

    return Form(lambda at: _schema_at(schema, at), load)


_CONFIRMATION = _form_of_schema({"type": "object", "properties": {}})


def _schema_at(schema: Json, at: Revision) -> Json:
    """An author's schema as a revision has it. Raises BadForm if it is not a form of this revision.

    # spec: client/elicitation/flat-primitive-schema, client/elicitation/string-formats
    """
    if in_force(shapes.DEFINITIONS["PrimitiveSchemaDefinition"], at.date) is None:
        raise BadForm(f"there are no forms in {at.date}")
    properties, required = parts_of(schema)
    _check_keywords(schema, shapes.RequestedSchemaNow, ())
    for name, about in properties.items():
        _check_keywords(about, shape_of(name, about), ("properties", name))
        field_of(name, about, name in required, strict=True)
    sent = {key: value for key, value in schema.items() if key != "$schema" or at.form_dialects}
    sent["properties"] = {name: _property_at(name, about, at) for name, about in properties.items()}
    return sent


def _check_keywords(about: Json, shape: Any, path: tuple[str, ...]) -> None:
    """Refuse keywords that the page does not have: a client would ignore them without a word."""
    for keyword in about:
        if keyword not in shape.__annotations__:
            known = ", ".join(shape.__annotations__)
            raise BadForm(f"{place((*path, keyword))}is not a keyword here; the keywords are {known}")


@functools.cache
def _shapes_at(date: str) -> list[Any]:
    """The shapes of fields that a revision has."""
    return ShapeCompiler(date, refer=False).members(shapes.PrimitiveSchemaDefinition)


def _property_at(name: str, about: Json, at: Revision) -> Json:
    """The schema of a field as a revision has it: the same content fits, but a default or titles may be lost.

    # spec: client/elicitation/enum-legacy-names
    """
    shape, known = shape_of(name, about), _shapes_at(at.date)
    if shape is shapes.TitledSingleSelectEnumSchema and shape not in known:
        shape, choices = shapes.LegacyTitledEnumSchema, choices_of(about)
        names = {"enum": [value for value, _ in choices], "enumNames": [title for _, title in choices]}
        about = {key: value for key, value in about.items() if key != "oneOf"} | names
    if shape not in known:
        where = place(("properties", name))
        raise BadForm(f"{where}this client speaks {at.date}, where a field cannot have several choices")
    return pruner(shape, at.date)(about)


# ------------------------------------------------------------------------- from a type


_POSSIBLE_HINTS = (
    "a field of a form must be a str, int, float, bool, date, datetime, time, UUID, Decimal or Path,"
    " a Literal of strings, an Enum, a list of one of these two, or any of them with `| None`"
)


class _Member(NamedTuple):
    """A field of an author's class."""

    name: str
    hint: Any
    """Without `| None`."""
    optional: bool
    """Whether the hint was `X | None`: the field may be left out, and is None then."""
    required: bool
    default: Any


def _members_of(kind: Any) -> list[_Member]:
    """The fields of a dataclass or a TypedDict. Raises TypeError for a hint that cannot be evaluated."""
    try:
        fields = Compiler().fields(kind)
    except NameError as problem:
        raise TypeError(f"{kind.__name__}: {problem}") from None
    return [_Member(f.name, *_without_none(f.hint), f.required, f.default) for f in fields]


@functools.lru_cache(maxsize=256)  # bounded, since it keeps classes alive
def _form_of_type(kind: Any) -> Form:
    members = _members_of(kind)
    schema = _schema_of_members(members)  # first, since its TypeError says what a field may be
    return _form_of_members(members, schema, Compiler().codec(kind).load)


@functools.lru_cache(maxsize=256)
def _form_of_hint(hint: Any) -> Form:
    """The form of one field of this type: what is loaded is its value."""
    member = _Member(VALUE, *_without_none(hint), required=True, default=None)
    try:
        schema, load = _schema_of_members([member]), Compiler().codec(hint).load
        return _form_of_members([member], schema, lambda content: load(content[VALUE]))
    except TypeError as problem:
        if isinstance(problem.__cause__, BadForm):
            raise
        raise TypeError(
            "a form must be a dataclass, a TypedDict, the type of one field, a schema (a dict) or None,"
            f" not {hint!r:.60}: {problem}"
        ) from None


def _form_of_members(members: list[_Member], schema: Json, convert: Callable[[Json], Any]) -> Form:
    fields = fields_of(schema)
    # A form has no null: `X | None` is left out of the content, and becomes None for the author.
    absent = {m.name: None for m in members if m.required and m.optional}
    sets = [m.name for m in members if _is_set(_unwrapped(m.hint))]
    named = {m.name: values for m in members if (values := _values_by_name(_chosen_among(m.hint)))}

    def load(content: Any) -> Any:
        content = {} if content is None else content
        check_fields(fields, content)
        distinct = {name: list(dict.fromkeys(content[name])) for name in sets if name in content}
        content = {**absent, **content, **distinct}
        return convert({name: _renamed(value, named.get(name)) for name, value in content.items()})

    return Form(functools.cache(lambda at: _schema_at(schema, at)), load)


def _schema_of_members(members: list[_Member]) -> Json:
    """The schema of a form in the words of the newest revision. Raises TypeError."""
    schema: Json = {"type": "object", "properties": {m.name: _property(m) for m in members}}
    required = [m.name for m in members if m.required and not m.optional]
    if required:
        schema["required"] = required
    return schema


def _unwrapped(hint: Any) -> Any:
    """A hint without Annotated and without the name that a `type` statement gave it."""
    while True:
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif hasattr(hint, "__value__"):  # the `type X = ...` statement
            hint = hint.__value__
        else:
            return hint


def _is_set(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, AbstractSet)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """`X | None` -> X, and whether there was a None."""
    if get_origin(hint) is Annotated:
        inner, optional = _without_none(get_args(hint)[0])
        return Annotated[inner, *hint.__metadata__], optional
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()
    if type(None) not in members:
        return hint, False
    return functools.reduce(lambda a, b: a | b, [m for m in members if m is not type(None)]), True


def _property(member: _Member) -> Json:
    """The schema of a field, from its hint. Raises TypeError."""
    try:
        codec = Compiler().codec(member.hint)
        about = _form_words(_unwrapped(member.hint), codec.schema)
        if member.default is not None:
            names = {value: name for name, value in _values_by_name(_chosen_among(member.hint)).items()}
            about["default"] = _renamed(codec.dump(member.default), names)
            if about["type"] == "array":  # a set has no order, but a form should be the same each time
                about["default"] = [v for v, _ in choices_of(about) if v in about["default"]]
        _check_keywords(about, shape_of(member.name, about), ())
        field_of(member.name, about, False, strict=True)
    except BadForm as problem:  # the type is one of those, but not what stands beside it
        raise TypeError(f"{member.name}: {problem}") from problem
    except (TypeError, NameError, ValueError) as problem:
        raise TypeError(f"{member.name}: {problem}; {_POSSIBLE_HINTS}") from None
    return about


def _form_words(hint: Any, schema: Json) -> Json:
    """The schema of a codec, in the keywords that forms have. Raises TypeError if they have none for it."""
    kind: Any = schema.get("type")
    scalar = scalar_of(hint)
    if scalar is not None and "string" in kind:  # also a Decimal, which elsewhere may be an integer
        return _string_words(scalar.schema, schema)
    if "enum" in schema or "const" in schema:
        return _without(schema, "enum", "const") | _selection(hint, schema, "oneOf")
    if kind == "integer":
        return _inclusive_bounds(schema)
    if kind == "array":
        item = _unwrapped(get_args(hint)[0]) if get_args(hint) else None
        items = _selection(item, schema.get("items", {}), "anyOf")
        return _without(schema, "uniqueItems") | {"items": items}
    if kind in ("string", "number", "boolean"):
        return dict(schema)
    raise TypeError(f"a form cannot ask for {hint!r:.80}")


def _string_words(own: Json, schema: Json) -> Json:
    """A string, without those keywords of its scalar type that forms lack; the author's Bounds stay."""
    lacking = [word for word, value in own.items() if word != "type" and value not in FORMATS]
    return _without(schema, *lacking) | {"type": "string"}


def _without(schema: Json, *words: str) -> Json:
    return {word: value for word, value in schema.items() if word not in words}


def _inclusive_bounds(schema: Json) -> Json:
    """An integer with minimum and maximum only: forms have no exclusive bounds, and > 0 means >= 1 here."""
    about = dict(schema)
    if "exclusiveMinimum" in about:
        least = math.floor(about.pop("exclusiveMinimum")) + 1
        about["minimum"] = max(least, about.get("minimum", least))
    if "exclusiveMaximum" in about:
        most = math.ceil(about.pop("exclusiveMaximum")) - 1
        about["maximum"] = min(most, about.get("maximum", most))
    return about


def _selection(hint: Any, schema: Json, titled: str) -> Json:
    """The keywords of a selection among strings; under `titled` if the hint is an Enum with titles."""
    names = list(_values_by_name(hint))
    if names:
        return {"type": "string", "enum": names}
    if schema.get("type") != "string" or not schema.keys() & {"enum", "const"}:
        raise TypeError("the choices of a form must be strings, or the members of an Enum")
    values, titles = schema.get("enum", [schema.get("const")]), _titles(hint)
    if titles:
        return {titled: [{"const": value, "title": titles[value]} for value in values]}
    return {"type": "string", "enum": values}


def _chosen_among(hint: Any) -> Any:
    """The type of a field's value; for a list, a set or a tuple, the type of its items."""
    hint = _unwrapped(hint)
    return _unwrapped(get_args(hint)[0]) if get_args(hint) and get_origin(hint) is not Literal else hint


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, enum.Enum)


def _values_by_name(hint: Any) -> dict[str, Any]:
    """The values of an Enum by the names of its members, if one of them is not a string; else empty.

    The choices of a form are strings, so that it offers the names of such an Enum.
    """
    if not _is_enum(hint) or all(isinstance(member.value, str) for member in hint):
        return {}
    return {member.name: member.value for member in hint}


def _renamed(value: Any, names: dict[Any, Any] | None) -> Any:
    """A choice, or a list of choices, translated: from names in the form to values in the class, or back."""
    if not names or value is None:
        return value
    return [names[one] for one in value] if isinstance(value, list) else names[value]


def _titles(hint: Any) -> dict[str, str]:
    """The titles of the members of an Enum, by value; empty if they only repeat the values."""
    members: Iterable[Any] = hint if _is_enum(hint) else get_args(hint) if get_origin(hint) is Literal else ()
    titles = {m.value if isinstance(m, enum.Enum) else m: _readable(m) for m in members}
    if all(_readable(value).casefold() == title.casefold() for value, title in titles.items()):
        return {}
    return titles


def _readable(member: Any) -> str:
    """The name of a member as a title: DARK_RED -> Dark red."""
    name = member.name if isinstance(member, enum.Enum) else member
    words = re.sub(r"[\s_-]+", " ", name).strip()
    return words.capitalize() if words.isupper() else words[:1].upper() + words[1:]
