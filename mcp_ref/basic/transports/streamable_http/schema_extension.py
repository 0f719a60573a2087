"""Arguments that go into headers (page: basic/transports/streamable-http, "Schema Extension").

The author of a tool marks a parameter, and over Streamable HTTP every call repeats it in a header:

    def query(sql: str, region: Annotated[str, {"x-mcp-header": "Region"}] = "eu"): ...

    tools/list      inputSchema {properties: {region: {type: "string", "x-mcp-header": "Region"}, ...}}
    tools/call      Mcp-Param-Region: eu

All proxies on the way can read such a header: mark no password, no key, nothing personal. The page
server/tools has the same rules.

A mark that breaks a rule invalidates the whole tool: a server does not register it, a client leaves it out.
How a client knows which arguments of a call to repeat:

    known tool        the arguments that its definition marks (server/tools keeps them)
    unknown tool      the list of tools is fetched once, in the time of the first call
    -32020            the tool wants other headers than we know of: the list is fetched anew, and the call
                      sent again, once

Revisions   interim drafts  also for type number, and any ASCII but space and colon; all that we accept is
                            valid there too
            2026-07-28      type string, integer or boolean; HTTP's tokens; reached by `properties` alone
Errors      BadAnnotation, which is a ValueError and is never sent.
Threads     the caller's; for futures a worker's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from mcp_ref.basic.index.error_responses import HEADER_MISMATCH, ErrorResponse, RefusedByStatus
from mcp_ref.basic.index.json_schema_usage import DATA_KEYWORDS
from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.mismatch import place, summary

__all__ = ["BadAnnotation", "Paths", "annotated", "annotated_by_us", "is_about_headers", "usable"]

_log = logger("mcp_ref.http")

MAX_PARTS = 100_000
"""Objects and arrays that an input schema may consist of."""

Paths: TypeAlias = Mapping[str, tuple[str, ...]]
"""The {name} of Mcp-Param-{name}, in lower case -> the path of the argument."""


class BadAnnotation(ValueError):
    """An `x-mcp-header` that breaks a rule, and where it stands."""


KEYWORD = "x-mcp-header"

# The characters of a name: ASCII, without space, colon and controls.
# spec: basic/transports/streamable-http/x-mcp-header-token
# spec: basic/transports/streamable-http/x-mcp-header-ascii
# spec: basic/transports/streamable-http/x-mcp-header-no-control
# spec: server/tools/x-mcp-header-token, server/tools/x-mcp-header-ascii-draft
# spec: server/tools/x-mcp-header-no-control
_HEADER_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# An integer is a number, and so one is allowed by the interim drafts too.
# spec: basic/transports/streamable-http/x-mcp-header-primitive
# spec: basic/transports/streamable-http/x-mcp-header-primitive-with-number
# spec: server/tools/x-mcp-header-primitive, server/tools/x-mcp-header-number-draft
_PRIMITIVE = ("string", "integer", "boolean")
_NAMED = frozenset(
    {
        "$defs",
        "definitions",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "properties",
    }
)
"""Keywords whose members the author of the schema names: such a name is never a keyword itself."""


def annotated(input_schema: Json) -> dict[str, tuple[str, ...]]:
    """Which arguments a tool wants in headers. Raises BadAnnotation.

    # spec: basic/transports/streamable-http/inspect-input-schema
    """
    found: dict[str, tuple[str, ...]] = {}
    for schema, way in _schemas(input_schema):
        if KEYWORD in schema:
            path = _path(way)
            name = _name(schema, path).lower()
            # spec: basic/transports/streamable-http/x-mcp-header-unique, server/tools/x-mcp-header-unique
            if name in found:
                other = _at(found[name]).removesuffix(": ")
                raise BadAnnotation(
                    f"{_at(path)}{KEYWORD} {summary(schema[KEYWORD])} is that of {other} already"
                )
            found[name] = path
    return found


def _name(schema: Json, path: tuple[str, ...]) -> str:
    """The header name that an annotation gives. Raises BadAnnotation."""
    name, kind, where = schema[KEYWORD], schema.get("type", "none"), _at(path)
    # spec: basic/transports/streamable-http/x-mcp-header-reachable, server/tools/x-mcp-header-reachable
    # spec: basic/transports/streamable-http/x-mcp-header-no-indirection
    if not path:
        raise BadAnnotation(f"{KEYWORD} {summary(name)}: `properties` alone do not lead there from the root")
    # spec: basic/transports/streamable-http/x-mcp-header-not-empty, server/tools/x-mcp-header-not-empty
    if not isinstance(name, str) or _HEADER_TOKEN.fullmatch(name) is None:
        raise BadAnnotation(f"{where}{KEYWORD} {summary(name)} is no name for a header: letters, digits, -")
    if kind not in _PRIMITIVE:
        raise BadAnnotation(f"{where}{KEYWORD} is for type string, integer or boolean, not {kind!r:.60}")
    return name


def _at(path: tuple[str, ...]) -> str:
    """Where an annotation stands, for an error message; a long path is shortened."""
    text = place(path)
    return text if len(text) <= 100 else f"{text[:60]}...{text[-40:]}"


_Way: TypeAlias = tuple[Any, str] | tuple[()] | None
"""A linked list of the `properties` keys from the root to a schema: the list of the schema around it, and one
key; () at the root. None if another keyword than `properties` lies between."""


def _path(way: _Way) -> tuple[str, ...]:
    """The keys of a way, from the root; () for the root itself, and for None."""
    keys = []
    while way:
        way, key = way
        keys.append(key)
    return tuple(reversed(keys))


def _schemas(root: Any) -> Iterator[tuple[Json, _Way]]:
    """Every schema within a schema, in order, and the way there. Raises BadAnnotation if there are too many.

    Without recursion, since some schemas are deep.
    """
    stack: list[tuple[Any, _Way]] = [(root, ())]
    for _ in range(MAX_PARTS):
        if not stack:
            return
        node, way = stack.pop()
        if isinstance(node, list):
            stack.extend((part, None) for part in reversed(node) if isinstance(part, dict | list))
        elif isinstance(node, dict):
            yield node, way
            stack.extend(reversed(list(_inside(node, way))))
    raise BadAnnotation(f"the schema has more than {MAX_PARTS} parts")


def _inside(schema: Json, way: _Way) -> Iterator[tuple[Any, _Way]]:
    """The values directly within a schema that may be schemas, each with the way there."""
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            straight = keyword == "properties" and way is not None
            yield from ((child, (way, key) if straight else None) for key, child in value.items())
        elif keyword not in DATA_KEYWORDS and isinstance(value, dict | list):
            yield value, None


# ----------------------------------------------------------------------- server half


def annotated_by_us(tool: Json) -> dict[str, tuple[str, ...]]:
    """`annotated` for a tool of this server, which its headers must be able to reach. Raises BadAnnotation.

    # spec: basic/transports/streamable-http/x-mcp-header-designate, server/tools/x-mcp-header-annotation
    """
    try:
        found = annotated(tool["inputSchema"])
        for name, path in found.items():
            if "_" in name:  # WSGI cannot tell it from -, so servers and proxies drop headers that have one
                raise BadAnnotation(f"{_at(path)}{KEYWORD} {summary(name)}: a header with _ would get lost")
    except BadAnnotation as problem:
        raise BadAnnotation(f"the tool {tool['name']}: {problem}") from None
    return found


# ----------------------------------------------------------------------- client half


def usable(tools: list[Json], *, over_http: bool = True) -> list[Json]:
    """The tools of a list whose annotations keep the rules; what is wrong with the others is logged.

    Over another transport annotations mean nothing, and all tools are usable.
    # spec: basic/transports/streamable-http/x-mcp-header-ignored-elsewhere
    # spec: basic/transports/streamable-http/x-mcp-header-reject-tool
    # spec: basic/transports/streamable-http/x-mcp-header-exclude-tool
    # spec: server/tools/x-mcp-header-rejected, server/tools/x-mcp-header-excluded
    """
    if not over_http:
        return tools
    kept = []
    for tool in tools:
        try:
            annotated(tool.get("inputSchema", {}))
        except BadAnnotation as problem:
            # spec: basic/transports/streamable-http/x-mcp-header-warn, server/tools/x-mcp-header-warned
            _log.warning("left out the tool %s: %s", summary(tool.get("name")), problem)
        else:
            kept.append(tool)
    return kept


def is_about_headers(method: str, problem: Any, *, is_draft: bool = False) -> bool:
    """Whether a call was refused for its headers: then the list of tools is fetched anew.

    By the interim draft, in a session, the code alone does not say so: servers use it with other meanings.

    # spec: basic/transports/streamable-http/header-mismatch-refresh
    """
    if method != "tools/call" or not isinstance(problem, ErrorResponse):
        return False
    if is_draft:
        is_refused = isinstance(problem, RefusedByStatus) and problem.status == 400
        return is_refused and problem.code == DRAFT_HEADER_MISMATCH
    return problem.code == HEADER_MISMATCH


DRAFT_HEADER_MISMATCH = -32001
"""The code of a HeaderMismatch in the interim draft."""
