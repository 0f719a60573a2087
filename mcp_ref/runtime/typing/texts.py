"""A user's function whose arguments arrive as text: those of a prompt, the variables of a template.

A text that the parameter's type accepts as a string is taken as it is; otherwise it is read as JSON.

    def review(code: str, style: Literal["short", "long"] = "short", line: int = 0, tags: list[str] = []): ...

    {"code": "12", "style": "long", "line": "7", "tags": "[\\"a\\"]"}   ->  "12", "long", 7, ["a"]

Threads     `TextParameters` does not change once it is made; any number of threads may use it.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable, Mapping
from typing import Any

from mcp_ref.runtime.json_text import NotJson, from_json, to_json
from mcp_ref.runtime.typing.codec import Convert, Field, Schema, same
from mcp_ref.runtime.typing.functions import parameters_of, signature_of
from mcp_ref.runtime.typing.mismatch import Mismatch, summary
from mcp_ref.runtime.typing.values import Compiler

__all__ = ["TextParameters", "choices_of", "fits", "reader_of", "text_of", "text_parameters_of"]


class TextParameters(typing.NamedTuple):
    """How to call one function with arguments that are text."""

    fields: list[Field]
    """The parameters, without the one for the Context and without `**kwargs`."""
    descriptions: dict[str, str]
    load: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Texts by name -> keyword arguments. Raises Mismatch for what is missing, unknown or wrong."""
    context: str | None
    """The name of the parameter for the Context; None without one."""
    others: bool = False
    """Whether the function takes any other name, as `**kwargs`."""


def text_parameters_of(function: Callable[..., Any], context_type: type) -> TextParameters:
    """Read the signature of a function. Raises TypeError if neither text nor JSON can fill a parameter."""
    parameters = parameters_of(function, context_type)
    fields, context, others = signature_of(function, context_type)
    readers = {field.name: reader_of(field.hint) for field in fields}
    rest = (
        reader_of(others) if others is not None else same
    )  # an unknown name is refused by `parameters.load`

    def load(texts: Mapping[str, Any]) -> dict[str, Any]:
        return parameters.load({name: readers.get(name, rest)(text) for name, text in texts.items()})

    properties: dict[str, Schema] = parameters.schema["properties"]
    described = {n: schema["description"] for n, schema in properties.items() if "description" in schema}
    return TextParameters(fields, described, load, context, others is not None)


def reader_of(hint: Any) -> Convert:
    """The function that reads a text: it returns the JSON value for a parameter of this type."""
    compiler = Compiler()
    codec = compiler.codec(hint)
    takes_text = _takes_text(compiler.resolved(codec))

    def read(text: str) -> Any:
        if takes_text and fits(codec.load, text):
            return text
        try:
            data = from_json(text.encode("utf-8"))
        except (NotJson, UnicodeEncodeError):
            return text
        # If both readings are wrong, the error should be about the text, which is what was meant.
        return text if takes_text and not fits(codec.load, data) else data

    return read


def _takes_text(schema: Schema) -> bool:
    """Whether some string is a value of this schema."""
    if "anyOf" in schema:
        return any(map(_takes_text, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return any(isinstance(value, str) for value in schema.get("enum", [schema.get("const")]))
    kinds = schema.get("type", "string" if "$ref" not in schema else "object")
    return "string" in ([kinds] if isinstance(kinds, str) else kinds)


def fits(load: Convert, value: Any) -> bool:
    """Whether a value can be loaded."""
    try:
        load(value)
    except Mismatch:
        return False
    return True


def choices_of(hint: Any) -> list[str]:
    """The texts for a type that has a few values: an Enum, a Literal, a bool; empty for any other."""
    return _choices(Compiler().codec(hint).schema)


def _choices(schema: Schema) -> list[str]:
    if "anyOf" in schema:
        return [choice for part in schema["anyOf"] for choice in _choices(part)]
    if "enum" in schema or "const" in schema:
        constants = schema.get("enum", [schema.get("const")])
        return [text_of(constant) for constant in constants if constant is not None]
    return ["true", "false"] if "boolean" in schema.get("type", ()) else []


def text_of(value: Any) -> str:
    """The text that a person would write for a text, a number or a constant. Raises TypeError for others."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float):
        return to_json(value)
    raise TypeError(f"a suggestion is a string, not {summary(value)}")
