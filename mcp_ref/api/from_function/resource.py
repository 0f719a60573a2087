"""The resources of one server (page: server/resources, "Data Types"): how a function becomes a resource.

    @server.resource("config://app")                def config() -> str: ...
    @server.resource("db://{table}/{row}")          def row(table: str, row: int) -> Row: ...

A URI with `{variables}` is a template (RFC 6570). The variables are the function's parameters, converted to
the types of their hints. The contents of the resource are what the function returns:

    returns                             contents
    str                                 text, text/plain
    bytes                               blob, application/octet-stream
    a dataclass, a dict, a list ...     its JSON as text, application/json
    {"uri"?, "mimeType"?, "text"}       as they are; several in a list
    {"uri"?, "mimeType"?, "blob"}
    an input_required result            itself: see basic/patterns/mrtr

`mime_type=...` replaces the default type. An empty list is data too, unless the function declares that it
returns contents (`-> list[TextResourceContents]`): then, from a template, it means that there is no such
resource.

Errors      BadTemplate, BadUri, ValueError and TypeError when a function is registered.
Threads     nothing here changes after it was made; functions run on the worker of the request.
"""

from __future__ import annotations

import base64
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mcp_ref.api.context import Context
from mcp_ref.api.from_function.common import common_members, name_of, scopes_of
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.basic.index.general_fields import Icon, check_meta
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.context import RequestContext
from mcp_ref.basic.patterns.mrtr.basic_workflow import is_input_required
from mcp_ref.runtime.checks import check_callable, check_count, check_text
from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.functions import return_hint
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.typing.parts import convert_each
from mcp_ref.runtime.typing.texts import TextParameters, text_parameters_of
from mcp_ref.runtime.typing.values import dump_any
from mcp_ref.runtime.uri.templates import Template
from mcp_ref.runtime.uri.uris import BadUri, check_uri
from mcp_ref.schema import REVISIONS, checker
from mcp_ref.server.content import (
    Annotations,
    BlobResourceContents,
    ResourceContents,
    TextResourceContents,
    check_base64,
)
from mcp_ref.server.resources import (
    RegisteredResource,
    RegisteredTemplate,
    Resource,
    ResourceNotFound,
    ResourceTemplate,
    Variables,
    check_annotations,
    check_definition,
    short,
)
from mcp_ref.server.utilities import caching
from mcp_ref.server.utilities.completion import completers

__all__ = ["resource_from"]

_log = logger("mcp_ref.resources")


def resource_from(
    function: Callable[..., Any],
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    annotations: Annotations | None = None,
    icons: list[Icon] | None = None,
    meta: Json | None = None,
    ttl_ms: int | None = None,
    cache_scope: caching.CacheScope | None = None,
    allow_traversal: bool = False,
    complete: Mapping[str, Any] | None = None,
    scopes: Sequence[str] = (),
) -> RegisteredResource | RegisteredTemplate:
    """Make a resource from a function, or a template if the URI has variables.

    Raises TypeError or ValueError if it cannot be one. `allow_traversal=True` lets variables be `..`,
    absolute paths and the like: then the function itself must check where they lead. On a protected server a
    token must have these `scopes` to read it.
    """
    check_callable(function=function)
    check_text(uri=uri)
    about: Json = {"name": name_of(function, name)}
    about |= common_members(function, title, description, icons, meta)
    if mime_type is not None:
        about["mimeType"] = mime_type
    if annotations is not None:
        about["annotations"] = check_annotations(annotations)
    hints = _hints(ttl_ms, cache_scope)
    parameters = text_parameters_of(function, Context)
    if "{" in uri:
        template = Template(uri)
        if _URI_SCHEME.match(uri) is None:
            raise ValueError(f"{uri!r:.100}: a template begins with the scheme of its URIs, as in file:")
        _fit(template.variables, parameters, uri)
        if size is not None:
            raise ValueError(f"{uri} is a template, and has no size of its own")
        definition = check_definition(ResourceTemplate, {"uriTemplate": uri, **about})
        read = _reader(function, parameters, mime_type, is_template=True)
        suggest = completers(parameters, complete)
        return RegisteredTemplate(
            definition, template, read, hints, suggest, allow_traversal, scopes_of(scopes)
        )
    _fit((), parameters, uri)
    if complete is not None:
        raise ValueError(f"{uri} has no variables that could be completed")
    if size is not None:
        check_count(0, size=size)
        about["size"] = size
    definition = check_definition(Resource, {"uri": uri, **about})
    read = _reader(function, parameters, mime_type, is_template=False)
    return RegisteredResource(definition, partial(read, uri, {}), hints, scopes_of(scopes))


def _hints(ttl_ms: int | None, scope: caching.CacheScope | None) -> Json | None:
    if ttl_ms is None and scope is None:
        return None
    return caching.hints(0 if ttl_ms is None else ttl_ms, "private" if scope is None else scope)


def _fit(variables: Sequence[str], parameters: TextParameters, uri: str) -> None:
    """Check that the variables of a URI are the function's parameters. Raises ValueError.

    The URI may lack a variable for a parameter that has a default.
    """
    known = {field.name for field in parameters.fields}
    alone = [name for name in variables if name not in known and not parameters.others]
    if alone:
        raise ValueError(f"{uri}: the function has no parameter {', '.join(alone)}")
    needed = [f.name for f in parameters.fields if f.required and f.name not in variables]
    if needed:
        raise ValueError(f"{uri} has no variable for the parameter {', '.join(needed)}")


_URI_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


# ----------------------------------------------------------------------------- contents


def _reader(
    function: Callable[..., Any], parameters: TextParameters, mime_type: str | None, *, is_template: bool
) -> Callable[[str, Variables, RequestContext], list[Json] | Json]:
    """A function that runs the author's function, and makes contents of its return value."""
    may_be_empty = _is_contents(return_hint(function))

    def read(uri: str, variables: Variables, context: RequestContext) -> list[Json] | Json:
        try:
            arguments = parameters.load(variables)
        except Mismatch as problem:
            raise InvalidParams(f"{short(uri)}: {problem}") from None
        if parameters.context is not None:
            arguments[parameters.context] = context
        value = function(**arguments)
        if is_input_required(value):
            return typing.cast(Json, value)
        found = _contents(value, uri, mime_type, may_be_empty)
        if not found and is_template:
            raise ResourceNotFound(uri)
        return found

    return read


def _contents(value: Any, uri: str, mime_type: str | None, may_be_empty: bool) -> list[Json]:
    """The contents that a return value stands for. Raises Mismatch."""
    if value is None:
        raise Mismatch("its function returned nothing; for an unknown resource it raises ResourceNotFound")
    if isinstance(value, list | tuple) and (value or may_be_empty) and all(map(_is_ready, value)):
        return convert_each(lambda item: _ready(item, uri, mime_type), list(value))
    return [_content(value, uri, mime_type)]


def _content(value: Any, uri: str, mime_type: str | None) -> Json:
    """One item: a text as it is, bytes as a blob, ready contents as they are, any other value as its JSON."""
    if _is_ready(value):
        return _ready(value, uri, mime_type)
    if isinstance(value, str):
        return {"uri": uri, "mimeType": mime_type or "text/plain", "text": value}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"uri": uri, "mimeType": mime_type or "application/octet-stream", "blob": _base64(value)}
    return {"uri": uri, "mimeType": mime_type or "application/json", "text": to_json(dump_any(value))}


def _base64(data: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(data).decode("ascii")


_MEMBERS = frozenset({"uri", "mimeType", "text", "blob", "_meta"})


def _is_ready(value: Any) -> bool:
    """Whether a value is meant as contents rather than as data."""
    return (
        isinstance(value, dict) and not value.keys().isdisjoint({"text", "blob"}) and value.keys() <= _MEMBERS
    )


def _ready(value: Json, uri: str, mime_type: str | None) -> Json:
    """Contents that the function made itself, completed with the resource's URI and MIME type."""
    item = {"uri": uri, **value}
    if mime_type is not None and item["uri"] == uri:
        item = {"mimeType": mime_type, **item}
    if "text" in item and "blob" in item:
        raise Mismatch("must be text or blob, not both")
    if isinstance(item.get("blob"), bytes | bytearray | memoryview):
        item["blob"] = _base64(item["blob"])
    checker(BlobResourceContents if "blob" in item else TextResourceContents, REVISIONS[-1])(item)
    try:
        check_uri(item["uri"])
    except BadUri as problem:
        raise Mismatch(str(problem), ("uri",)) from None
    if "blob" in item:
        check_base64(item["blob"])
    if "_meta" in item:
        check_meta(item["_meta"])
    return item


def _is_contents(hint: Any) -> bool:
    """Whether a return type says that the function makes contents itself."""
    if any(hint is shape for shape in (ResourceContents, TextResourceContents, BlobResourceContents)):
        return True
    return any(map(_is_contents, typing.get_args(hint)))
