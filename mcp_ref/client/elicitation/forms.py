"""Forms (page: client/elicitation, "Requested Schema"): what a server may ask for, field by field.

    form = form_of(Contact)           a dataclass or TypedDict, a schema, or None: nothing to fill in
    form.schema(revision)             what goes out, as the client's revision has it
    form.load(content)                what came back -> a Contact, or a Mismatch with the place of each fault

A form is a flat object. What a field of it may be:

    str, int, float, bool             with Bounds: length, least and most, format
    date, datetime                    strings of that format
    UUID, Decimal, Path, time ...     strings; looked at when they are loaded
    Literal["a", "b"], Enum           one of these strings; the members of an Enum have titles
    list, set, tuple[..., ...]        several of these two, with Bounds on how many
    X | None                          an X, or left out

`Annotated[str, "what it is"]` describes a field, `Annotated[str, {"title": "Name"}]` names it.

Revisions   2025-06-18  strings, numbers, booleans, `enum` with `enumNames`; a default for booleans only
            2025-11-25  + titled selections, and of several; + defaults everywhere; + $schema

Errors      TypeError: a hint that no form has. BadForm: a schema that is none, or more than a revision
            can say. Mismatch: content that does not fit.
Threads     plain functions. The form of a type is made once.
Not here    how an answer is checked (client/elicitation/requested_schema), the request that carries a form
            (client/elicitation), a person who fills it in (cli/terminal).
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
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import Revision
from mcp_ref.client.elicitation import requested_schema as shapes
from mcp_ref.client.elicitation.requested_schema import (
    FORMATS,
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
from mcp_ref.runtime.typing.codec import Field, scalar_of
from mcp_ref.runtime.typing.mismatch import place
from mcp_ref.runtime.typing.values import Compiler
from mcp_ref.schema import ShapeCompiler, in_force, pruner

__all__ = ["BadForm", "Form", "FormField", "check_content", "fields_of", "form_of", "with_defaults"]

DIALECT_SINCE = "2025-11-25"
"""A form may name the dialect of its schema, `$schema`, since then."""


@dataclasses.dataclass(frozen=True)
class Form:
    """What is asked for, and what is made of the answer."""

    schema: Callable[[Revision], Json]
    """The requestedSchema as a revision has it; not to be changed. Raises BadForm."""
    load: Callable[[Any], Any]
    """Content -> what the author gets. Raises Mismatch."""


def form_of(what: type | Json | None) -> Form:
    """The form of a dataclass or a TypedDict, of a schema, or of nothing: a plain confirmation.

    Raises TypeError for a field that no form can have.
    """
    if what is None:
        return _CONFIRMATION
    if isinstance(what, dict):
        return _of_schema(what)
    kind = get_origin(what) or what
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)):
        return _of_type(what)
    raise TypeError(f"a form is a dataclass, a TypedDict, a schema (a dict) or None, not {what!r:.60}")


# ------------------------------------------------------------------------ from a schema


def _of_schema(schema: Json) -> Form:
    def load(content: Any) -> Any:
        content = {} if content is None else content
        check_content(schema, content)
        return content

    return Form(lambda at: _written(schema, at), load)


_CONFIRMATION = _of_schema({"type": "object", "properties": {}})


def _written(schema: Json, at: Revision) -> Json:
    """An author's schema as a revision has it, if it is a form.

    # spec: client/elicitation/flat-primitive-schema, client/elicitation/string-formats
    """
    if in_force(shapes.DEFINITIONS["PrimitiveSchemaDefinition"], at.date) is None:
        raise BadForm(f"there are no forms in {at.date}")
    properties, required = parts_of(schema)
    _only(schema, shapes.RequestedSchemaNow, ())
    for name, about in properties.items():
        _only(about, shape_of(name, about), ("properties", name))
        field_of(name, about, name in required, strict=True)
    written = {key: value for key, value in schema.items() if key != "$schema" or at.reaches(DIALECT_SINCE)}
    written["properties"] = {name: _field_at(name, about, at) for name, about in properties.items()}
    return written


def _only(about: Json, shape: Any, path: tuple[str, ...]) -> None:
    """Our own forms have no keyword that the page has not: a client would pass over it."""
    for keyword in about:
        if keyword not in shape.__annotations__:
            known = ", ".join(shape.__annotations__)
            raise BadForm(f"{place((*path, keyword))}is no keyword of it; there are {known}")


@functools.cache
def _shapes(date: str) -> list[Any]:
    """What a field may be in a revision."""
    return ShapeCompiler(date, refer=False).members(shapes.PrimitiveSchemaDefinition)


def _field_at(name: str, about: Json, at: Revision) -> Json:
    """A field as a revision has it: a default or a title may be lost, but nothing of what is valid.

    # spec: client/elicitation/enum-legacy-names
    """
    shape, known = shape_of(name, about), _shapes(at.date)
    if shape is shapes.TitledSingleSelectEnumSchema and shape not in known:
        shape, choices = shapes.LegacyTitledEnumSchema, choices_of(about)
        names = {"enum": [value for value, _ in choices], "enumNames": [title for _, title in choices]}
        about = {key: value for key, value in about.items() if key != "oneOf"} | names
    if shape not in known:
        where = place(("properties", name))
        raise BadForm(f"{where}a form of {at.date}, which this client speaks, cannot have several choices")
    return pruner(shape, at.date)(about)


# ------------------------------------------------------------------------- from a type


_POSSIBLE = (
    "a field of a form is a str, int, float, bool, date, datetime, a Literal or an Enum of strings,"
    " a list of one of these two, or any of them with `| None`"
)


@functools.lru_cache(maxsize=256)  # bounded, since it keeps classes alive
def _of_type(kind: Any) -> Form:
    try:
        members = Compiler().fields(kind)
    except NameError as problem:
        raise TypeError(f"{kind.__name__}: {problem}") from None
    hints = {member.name: _without_none(member.hint) for member in members}
    schema: Json = {
        "type": "object",
        "properties": {m.name: _property(m._replace(hint=hints[m.name][0])) for m in members},
    }
    required = [m.name for m in members if m.required and not hints[m.name][1]]
    if required:
        schema["required"] = required
    # Nobody can write null into a form: `X | None` is left out, and None for the author.
    absent = {m.name: None for m in members if m.required and hints[m.name][1]}
    sets = [name for name, (hint, _) in hints.items() if _is_set(_bare(hint))]
    fields, convert = fields_of(schema), Compiler().codec(kind).load

    def load(content: Any) -> Any:
        content = {} if content is None else content
        check_fields(fields, content)
        once = {name: list(dict.fromkeys(content[name])) for name in sets if name in content}
        return convert({**absent, **content, **once})

    return Form(functools.cache(lambda at: _written(schema, at)), load)


def _bare(hint: Any) -> Any:
    """A hint without what is said about it."""
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


def _property(member: Field) -> Json:
    """The schema of a field, from its hint. Raises TypeError."""
    try:
        codec = Compiler().codec(member.hint)
        about = _restricted(_bare(member.hint), codec.schema)
        if member.default is not None:
            about["default"] = codec.dump(member.default)
            if about["type"] == "array":  # a set has no order, but a question is the same each time
                about["default"] = [v for v, _ in choices_of(about) if v in about["default"]]
        _only(about, shape_of(member.name, about), (member.name,))
        field_of(member.name, about, False, strict=True)
    except (TypeError, NameError, ValueError) as problem:
        raise TypeError(f"{member.name}: {problem}; {_POSSIBLE}") from None
    return about


def _restricted(hint: Any, schema: Json) -> Json:
    """What a codec says of its values, in the words that a form has for it."""
    about: Json = dict(schema)
    kind: Any = schema.get("type")
    scalar = scalar_of(hint)
    if scalar is not None and "string" in kind:  # also a Decimal, which could be an integer elsewhere
        unsaid = [word for word, says in scalar.schema.items() if word != "type" and says not in FORMATS]
        about = {word: says for word, says in about.items() if word not in unsaid} | {"type": "string"}
    elif "enum" in about or "const" in about:
        about = {k: v for k, v in about.items() if k not in ("enum", "const")} | _choice(hint, about, "oneOf")
    elif kind == "integer":
        _include_bounds(about)
    elif kind == "array":
        about.pop("uniqueItems", None)
        item = _bare(get_args(hint)[0]) if get_args(hint) else None
        about["items"] = _choice(item, about.get("items", {}), "anyOf")
    elif kind not in ("string", "number", "boolean"):
        raise TypeError(f"{hint!r:.80} cannot be asked for")
    return about


def _include_bounds(about: Json) -> None:
    """More than 0 is 1 at least, where numbers are whole."""
    if "exclusiveMinimum" in about:
        least = math.floor(about.pop("exclusiveMinimum")) + 1
        about["minimum"] = max(least, about.get("minimum", least))
    if "exclusiveMaximum" in about:
        most = math.ceil(about.pop("exclusiveMaximum")) - 1
        about["maximum"] = min(most, about.get("maximum", most))


def _choice(hint: Any, schema: Json, titled: str) -> Json:
    """The keywords of a selection among strings, with titles if the hint is an Enum that has some."""
    if schema.get("type") != "string" or not schema.keys() & {"enum", "const"}:
        raise TypeError("this is no choice among strings")
    values, titles = schema.get("enum", [schema.get("const")]), _titles(hint)
    if titles:
        return {titled: [{"const": value, "title": titles[value]} for value in values]}
    return {"type": "string", "enum": values}


def _titles(hint: Any) -> dict[str, str]:
    """What to call the members of an Enum; nothing if their values say the same."""
    is_enum = isinstance(hint, type) and issubclass(hint, enum.Enum)
    members: Iterable[Any] = hint if is_enum else get_args(hint) if get_origin(hint) is Literal else ()
    titles = {m.value if isinstance(m, enum.Enum) else m: _readable(m) for m in members}
    if all(_readable(value).casefold() == title.casefold() for value, title in titles.items()):
        return {}
    return titles


def _readable(member: Any) -> str:
    """DARK_RED -> Dark red"""
    name = member.name if isinstance(member, enum.Enum) else member
    words = re.sub(r"[\s_-]+", " ", name).strip()
    return words.capitalize() if words.isupper() else words[:1].upper() + words[1:]
