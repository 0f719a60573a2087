"""The tools of one server (page: server/tools, "Data Types"): how a function becomes a tool.

A function's signature gives the input schema, its docstring the description, its return type the
output schema. A tool may also be written by hand: `input_schema=...` and a function that takes the
arguments as a plain dict.

    returns                                  content            structuredContent
    a dataclass, TypedDict, dict[str, T]     its JSON as text   the object
    int, list[T], str ... (declared)         its JSON or text   {"result": ...}
    content blocks, or a list of them        as they are        -
    nothing declared                         by what it is      -
    a CallToolResult                         as it is           as it is

Threads     any thread may add, replace and remove tools while requests run: each change makes a new
            table, and requests read whichever table they find.
"""

from __future__ import annotations

import inspect
import re
import threading
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_ref.basic.context import Context
from mcp_ref.basic.messages import Encoded, Json, encode, to_json
from mcp_ref.basic.meta import Icon, check_meta
from mcp_ref.basic.versioning import Revision, revision
from mcp_ref.runtime.functions import description_of, parameters_of, return_hint, takes_one
from mcp_ref.runtime.mismatch import Mismatch
from mcp_ref.runtime.validators import validator
from mcp_ref.runtime.values import Compiler, dump_any
from mcp_ref.schema import REVISIONS, checker, pruner
from mcp_ref.server import content
from mcp_ref.server.tools import CallToolResult, Tool, ToolAnnotations
from mcp_ref.server.utilities import pagination

__all__ = ["RegisteredTool", "Toolbox", "tool_from"]

# spec: server/tools/name-length, server/tools/name-characters, server/tools/name-no-special
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
MISSING: Any = object()
"""No structured content; None would be a value."""

Made = tuple[list[Any], Any]
"""Content blocks and structured content."""


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """One tool, ready to be called."""

    definition: Tool
    """As the newest revision has it."""
    function: Callable[..., Any]
    load: Callable[[Any], dict[str, Any]]
    """Arguments from JSON -> keyword arguments. Raises Mismatch."""
    context: str | None
    make: Callable[[Any], Made | CallToolResult]
    """What the function returned -> content and structured content. Raises Mismatch."""

    def result(self, value: Any, at: Revision) -> CallToolResult:
        """What the function returned, as a client of this revision gets it."""
        made = self.make(value)
        if isinstance(made, dict):
            result = {**made, "content": content.downgrade(made["content"], at)}
            blocks, structured = result["content"], result.pop("structuredContent", MISSING)
        else:
            blocks, structured = made
            result = {"content": content.downgrade(blocks, at)}
        if structured is not MISSING and _may_be_sent(structured, at):
            result["structuredContent"] = structured
        return result  # type: ignore[return-value]


def _may_be_sent(structured: Any, at: Revision) -> bool:
    # spec: server/tools/structured-as-object, server/tools/structured-any-json
    return at.structured == "any" or (at.structured == "object" and isinstance(structured, dict))


def tool_from(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: list[Icon] | None = None,
    annotations: ToolAnnotations | None = None,
    meta: Json | None = None,
    input_schema: Json | None = None,
    output_schema: Json | bool | None = None,
) -> RegisteredTool:
    """A function as a tool. Raises TypeError or ValueError for one that cannot be.

    `output_schema=False` declares none, whatever the function says it returns.
    """
    name = name if name is not None else str(getattr(function, "__name__", ""))
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no tool name: 1 to 128 of A-Z a-z 0-9 _ - .")
    if input_schema is None:
        parameters = parameters_of(function, Context)
        schema, load, context = parameters.schema, parameters.load, parameters.context
    else:
        schema, load, context = _by_hand(function, input_schema)
    declared, make = _output(function, output_schema)
    definition: Json = {"name": name, "inputSchema": schema}
    more: Json = {
        "title": title,
        "description": description if description is not None else description_of(function),
        "icons": content.check_icons(icons) if icons is not None else None,
        "outputSchema": declared,
        "annotations": annotations,
        "_meta": check_meta(meta) if meta is not None else None,
    }
    definition |= {key: value for key, value in more.items() if value is not None}
    checker(Tool, "2026-07-28")(definition)
    encode(definition)  # what has no JSON form is found now, not by the first client
    return RegisteredTool(typing.cast(Tool, definition), function, load, context, make)


def _by_hand(function: Callable[..., Any], schema: Json) -> tuple[Json, Any, str | None]:
    """A hand-written input schema: the function takes the arguments as one dict."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        # spec: server/tools/input-schema-object, server/tools/input-schema-root-object
        raise ValueError('an input schema is an object with "type": "object"')
    check = validator(schema).check
    context, first = takes_one(function, Context)

    def load(arguments: Any) -> dict[str, Any]:
        check(arguments)
        return {first: arguments}

    return schema, load, context


# ----------------------------------------------------------------------------- results


def _output(
    function: Callable[..., Any], declared: Json | bool | None
) -> tuple[Json | None, Callable[[Any], Made | CallToolResult]]:
    """The output schema, if there is one, and how to make a result of what the function returns."""
    if isinstance(declared, dict):  # spec: server/tools/output-schema-any-root
        return declared, _checked_by(declared)
    hint = return_hint(function)
    if hint is CallToolResult:
        return None, _ready
    if declared is False or hint in (inspect.Signature.empty, Any, None, type(None)):
        return None, _by_looks
    if _is_content(hint):
        return None, _by_looks
    return _typed(hint)


def _typed(hint: Any) -> tuple[Json, Callable[[Any], Made]]:
    compiler = Compiler()
    codec = compiler.codec(hint)
    named = compiler.defs.get(codec.schema.get("$ref", "").removeprefix("#/$defs/"), codec.schema)
    is_object = named.get("type") == "object"
    # An object at the root is what every revision can say.
    # spec: server/tools/output-schema-root-object
    if is_object:
        schema = {"type": "object", **codec.schema}
    else:
        schema = {"type": "object", "properties": {"result": codec.schema}, "required": ["result"]}
    if compiler.defs:
        schema["$defs"] = compiler.defs
    dump = codec.dump

    def make(value: Any) -> Made:
        data = dump(value)  # spec: server/tools/output-schema-conforms
        # spec: server/tools/structured-also-text
        block = {"type": "text", "text": data if type(data) is str else to_json(data)}
        return [block], data if is_object else {"result": data}

    return schema, make


def _checked_by(schema: Json) -> Callable[[Any], Made | CallToolResult]:
    check = validator(schema).check

    def make(value: Any) -> Made | CallToolResult:
        if _is_result(value):
            result = _ready(value)
            if "structuredContent" in result:
                check(result["structuredContent"])
            elif not result.get("isError"):
                raise Mismatch("structuredContent: is required by the output schema")
            return result
        data = dump_any(value)
        check(data)
        return [content.text(to_json(data))], data

    return make


def _ready(value: Any) -> CallToolResult:
    """A result that the function made itself."""
    if not _is_result(value):
        raise Mismatch("must be a CallToolResult: a dict with a list of content blocks")
    checker(CallToolResult, REVISIONS[-1], ("content", "resultType"))(value)
    for index, block in enumerate(value["content"]):
        try:
            content.check_block(block)
        except Mismatch as problem:
            raise problem.under(index).under("content") from None
    return typing.cast(CallToolResult, value)


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("content"), list)


def _by_looks(value: Any) -> Made | CallToolResult:
    """Content for a value of which nothing was declared."""
    if value is None:
        return [], MISSING
    if _is_result(value) and all(map(content.is_block, value["content"])):
        return _ready(value)
    items = list(value) if isinstance(value, list | tuple) else [value]
    if items and all(isinstance(i, str) or content.is_block(i) for i in items):
        blocks = [content.text(i) if isinstance(i, str) else i for i in items]
        return _ready({"content": blocks})["content"], MISSING
    return [content.text(to_json(dump_any(value)))], MISSING


def _is_content(hint: Any) -> bool:
    """Whether a return type is made of content blocks, or says nothing about what it is made of."""
    args = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if hint in (Any, object, list):
        return True
    if origin in (typing.Annotated, list) or (origin is tuple and args[1:] == (...,)):
        return _is_content(args[0])
    if origin in (typing.Union, types.UnionType):
        return any(map(_is_content, args)) and all(
            arg in (str, type(None)) or _is_content(arg) for arg in args
        )
    return any(hint is shape for shape in content.BLOCKS.values())


# ---------------------------------------------------------------------------- the table


class Kept(dict[str, Any]):
    """A result that is sent many times: it remembers what it looks like on the wire."""

    def __init__(self, members: Json) -> None:
        super().__init__(members)
        self.encoded: dict[Any, Encoded] = {}


class Toolbox:
    """All tools of a server, in the order in which they were added."""

    def __init__(self, page_size: int, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()  # guards changes, not reads
        # Name -> its number, which grows from tool to tool, and the tool.
        self._tools: dict[str, tuple[int, RegisteredTool]] = {}
        self._count = 0
        self._pages: dict[tuple[str, int], Kept] = {}  # by revision and first tool
        self.page_size = page_size
        self.used = False
        """Whether there ever was a tool: then the server has the capability, also with an empty list."""

    def get(self, name: str) -> RegisteredTool | None:
        """The tool of that very name.  # spec: server/tools/name-case-sensitive"""
        found = self._tools.get(name)
        return None if found is None else found[1]

    def names(self) -> list[str]:
        """All names, in order."""
        return list(self._tools)

    def add(self, tool: RegisteredTool, *, replace: bool = False) -> None:
        """Add a tool; a name that is taken is an error unless it is to be replaced, in its place."""
        name = tool.definition["name"]
        with self._lock:
            if name in self._tools and not replace:  # spec: server/tools/name-unique
                raise ValueError(f"there is a tool {name!r} already; pass replace=True to replace it")
            self.used = True
            self._count += 1
            number = self._tools[name][0] if name in self._tools else self._count
            self._set({**self._tools, name: (number, tool)})
        self._changed()

    def remove(self, name: str) -> None:
        """Remove a tool. Raises KeyError if there is none of that name."""
        with self._lock:
            if name not in self._tools:
                raise KeyError(f"there is no tool {name!r}")
            self._set({n: t for n, t in self._tools.items() if n != name})
        self._changed()

    def _set(self, tools: dict[str, tuple[int, RegisteredTool]]) -> None:
        self._tools = tools
        self._pages = {}

    def page(self, at: Revision, cursor: str | None) -> Kept:
        """One page of the list, as this revision has it; the same object until something changes.

        # spec: server/tools/list-deterministic-order, server/tools/list-not-per-connection
        # spec: server/tools/list-paginated, server/tools/list-may-change, server/tools/list-empty-or-changing
        """
        pages = self._pages
        if cursor is None and (at.date, 0) in pages:
            return pages[at.date, 0]
        tools = list(self._tools.values())
        numbers = [number for number, _ in tools]
        start, end, following = pagination.page("tools/list", numbers, cursor, self.page_size)
        if (at.date, start) in pages:
            return pages[at.date, start]
        kept = Kept({"tools": [_listed(tool.definition, at.date) for _, tool in tools[start:end]]})
        if following is not None:
            kept["nextCursor"] = following
        pages[at.date, start] = kept  # as many as there are tools, at most
        return kept


def _listed(definition: Tool, date: str) -> Json:
    """A tool's definition without what this revision does not have."""
    listed = pruner(Tool, date)(typing.cast(Json, definition))
    output = listed.get("outputSchema")
    if output is not None and revision(date).structured == "object" and output.get("type") != "object":
        listed = {key: value for key, value in listed.items() if key != "outputSchema"}
    return listed
