"""The tools of one server (page: server/tools, "Data Types"): how a function becomes a tool.

A function's signature gives the input schema, its docstring the description, its return type the
output schema. The input schema may also be written by hand: `input_schema=...`, with a function that takes
the arguments as one dict.

    returns                                  content            structuredContent
    a dataclass, TypedDict, dict[str, T]     its JSON as text   the object
    int, list[T], str ... (declared)         its JSON or text   {"result": ...}
    content blocks, or a list of them        as they are        -
    nothing declared                         by what it is      -
    a CallToolResult                         as it is           as it is

Threads     a RegisteredTool never changes; see server/utilities/pagination for the list of them.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from mcp_ref.api.context import Context
from mcp_ref.api.from_function.common import common_members, name_of, scopes_of
from mcp_ref.basic.index.general_fields import Icon
from mcp_ref.basic.index.json_schema_usage import own_validator
from mcp_ref.basic.index.messages import Json, encode
from mcp_ref.basic.transports.streamable_http.schema_extension import KEYWORD, annotated_by_us
from mcp_ref.basic.utilities.tasks.protocol_messages import TaskSupport
from mcp_ref.runtime.checks import check_text_if_any
from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.typing.codec import UNCHANGED
from mcp_ref.runtime.typing.functions import parameters_of, return_hint, takes_one
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.values import Compiler, dump_any
from mcp_ref.schema import REVISIONS, checker
from mcp_ref.server import content
from mcp_ref.server.tools import (
    MISSING,
    CallToolResult,
    ContentAndData,
    RegisteredTool,
    Tool,
    ToolAnnotations,
    check_input_schema,
    check_name,
)

__all__ = ["tool_from"]


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
    task: TaskSupport = "forbidden",
    immediate_response: str | None = None,
    scopes: Sequence[str] = (),
) -> RegisteredTool:
    """Make a tool from a function. Raises TypeError or ValueError if it cannot be one.

    `output_schema=False` declares none, whatever the return type. `task` is "required" if each call must run
    as a task, "optional" if it may; then `immediate_response` is what a model can be told until the task is
    over. On a protected server a token must have these `scopes` to call the tool.
    """
    name = name_of(function, name)
    check_name(name)
    if input_schema is None:
        parameters = parameters_of(function, Context)
        schema, load, context = parameters.schema, parameters.load, parameters.context
    else:
        schema, load, context = _by_hand(function, input_schema)
    declared, content_of = _output(function, output_schema)
    definition: Json = {"name": name, "inputSchema": schema}
    definition |= common_members(function, title, description, icons, meta)
    more: Json = {"outputSchema": declared, "annotations": annotations, "execution": _execution(task)}
    definition |= {key: value for key, value in more.items() if value is not None}
    checker(Tool, "2026-07-28")(definition)
    encoded = encode(definition)  # so that a value with no JSON form fails here, not at the first client
    mirrored = annotated_by_us(definition) if KEYWORD.encode() in encoded else {}
    check_text_if_any(immediate_response=immediate_response)
    return RegisteredTool(
        typing.cast(Tool, definition),
        function,
        load,
        context,
        content_of,
        mirrored,
        immediate_response,
        scopes_of(scopes),
    )


def _execution(task: Any) -> Json | None:
    """The member `execution` of a definition: whether calls may be tasks. Raises ValueError."""
    supports = typing.get_args(TaskSupport)
    if task not in supports:
        raise ValueError(f"task is one of {', '.join(supports)}, not {task!r:.60}")
    return None if task == "forbidden" else {"taskSupport": task}


def _by_hand(function: Callable[..., Any], schema: Json) -> tuple[Json, Any, str | None]:
    """Schema, loader and Context parameter of a function that takes its arguments as one dict."""
    check_input_schema(schema)
    check = own_validator(schema).check
    context, first = takes_one(function, Context)

    def load(arguments: Any) -> dict[str, Any]:
        check(arguments)
        return {first: arguments}

    return schema, load, context


# ----------------------------------------------------------------------------- results


def _output(
    function: Callable[..., Any], declared: Json | bool | None
) -> tuple[Json | None, Callable[[Any], ContentAndData | CallToolResult]]:
    """The output schema, if there is one, and the function that makes a result of a return value."""
    if isinstance(declared, dict):
        return declared, _checked_by(declared)
    hint = return_hint(function)
    if hint is CallToolResult:
        return None, _ready
    if declared is False or hint in (inspect.Signature.empty, Any, None, type(None)):
        return None, _by_looks
    if _is_content(hint):
        return None, _by_looks
    return _typed(hint)


def _typed(hint: Any) -> tuple[Json, Callable[[Any], ContentAndData]]:
    compiler = Compiler()
    codec = compiler.codec(hint)
    is_object = compiler.resolved(codec).get("type") == "object"
    # Always an object at the root: revisions before 2026-07-28 know no other output schemas.
    if is_object:
        schema = {"type": "object", **codec.schema}
    else:
        schema = {"type": "object", "properties": {"result": codec.schema}, "required": ["result"]}
    if compiler.defs:
        schema["$defs"] = compiler.defs
    dump, kind = codec.dump, UNCHANGED.get(codec.dump)

    def content_of(value: Any) -> ContentAndData:
        data = value if type(value) is kind else dump(value)
        # spec: server/tools/structured-also-text
        block = {"type": "text", "text": data if type(data) is str else to_json(data)}
        return [block], data if is_object else {"result": data}

    return schema, content_of


def _checked_by(schema: Json) -> Callable[[Any], ContentAndData | CallToolResult]:
    check = own_validator(schema).check

    def content_of(value: Any) -> ContentAndData | CallToolResult:
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

    return content_of


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


def _by_looks(value: Any) -> ContentAndData | CallToolResult:
    """Content for a value whose type was not declared: by what the value is."""
    if value is None:
        return [], MISSING
    if _is_result(value) and all(map(content.is_block, value["content"])):
        return _ready(value)
    items = list(value) if isinstance(value, list | tuple) else [value]
    if items and all(map(_is_text_or_block, items)):
        blocks = [content.text(item) if isinstance(item, str) else item for item in items]
        return _ready({"content": blocks})["content"], MISSING
    return [content.text(to_json(dump_any(value)))], MISSING


def _is_text_or_block(value: Any) -> bool:
    return isinstance(value, str) or content.is_block(value)


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
