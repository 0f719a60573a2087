"""Headers that repeat the body (page: basic/transports/streamable-http, "Request Metadata").

A client repeats some of a message's fields in HTTP headers, so that a proxy can route by them without reading
the body. The server, which reads the body, refuses a message whose headers do not agree with it: otherwise
the proxy would act upon the header, and the server upon the body.

    MCP-Protocol-Version    params._meta, its protocolVersion
    Mcp-Method              method
    Mcp-Name                params.name of tools/call and prompts/get, params.uri of resources/read,
                            params.taskId of tasks/get, tasks/update and tasks/cancel
    Mcp-Param-{name}        the argument of tools/call whose schema has "x-mcp-header": "{name}"

The values of the last two may have characters that no header can hold: then the header has the value's UTF-8
in base64, as =?base64?...?=.

    client      mirror      a request -> its headers
                mirror_draft    a message within a session, by the interim draft -> its headers
    server      check       a message and its headers -> HeaderMismatch, unless they agree
                check_draft the same within a session, by the interim draft

Revisions   interim draft   within sessions, for notifications too; -32001; says nothing of versions, of
                            Mcp-Name in base64, and of plain values that look like base64
            2026-07-28      for requests; -32020
Errors      -32020 HeaderMismatch; -32001 DraftHeaderMismatch. Both go with HTTP status 400.
Not here    which arguments a tool wants in headers (basic/transports/streamable_http/schema_extension).
Threads     plain functions. `check` runs on whichever thread reads the request, `mirror` on the caller's.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.error_responses import (
    HEADER_MISMATCH,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    TooManyRequests,
)
from mcp_ref.basic.index.general_fields import InvalidMeta, MissingRequiredClientCapability
from mcp_ref.basic.transports.streamable_http.schema_extension import DRAFT_HEADER_MISMATCH
from mcp_ref.basic.versioning import UnsupportedProtocolVersion
from mcp_ref.runtime.errors import LocalError, McpError
from mcp_ref.runtime.typing.mismatch import place, summary
from mcp_ref.schema import since

if TYPE_CHECKING:
    from mcp_ref.basic.index.messages import Json, RequestId
    from mcp_ref.basic.transports.streamable_http.schema_extension import Paths

__all__ = [
    "STATUS",
    "DraftHeaderMismatch",
    "HeaderMismatch",
    "check",
    "check_draft",
    "decode_value",
    "encode_value",
    "header_of",
    "mirror",
    "mirror_draft",
    "mirrored",
]


class Tool(Protocol):
    """A tool, as HTTP sees it."""

    @property
    def mirrored(self) -> Paths:
        """The arguments that also travel in headers."""


class Tools(Protocol):
    """The tools of a server, by name."""

    def get(self, key: str, /) -> Tool | None: ...


MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every peer's numbers hold exactly."""

Get: TypeAlias = Callable[[str], str | None]
"""A header's value by its name in lower case.

# spec: basic/transports/streamable-http/header-names-case-insensitive
"""

# ---------------------------------------------------------------------------- shapes


class HeaderMismatchDetails(TypedDict, total=False):
    code: Required[Literal[-32020]]
    message: Required[str]
    data: Any


class HeaderMismatchError(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: RequestId
    error: Required[HeaderMismatchDetails]


DEFINITIONS: dict[str, Any] = {"HeaderMismatchError": Annotated[HeaderMismatchError, since("2026-07-28")]}


class HeaderMismatch(ProtocolError):
    """A header does not agree with the body, is missing, or holds characters that no header may.

    # spec: basic/transports/streamable-http/header-failure-json-error
    """

    code = HEADER_MISMATCH

    def __init__(self, message: str) -> None:
        super().__init__(f"Header mismatch: {message}")


class DraftHeaderMismatch(HeaderMismatch):
    """The same error in the interim draft, for messages within sessions: no modern client ever gets it.

    # spec: basic/transports/streamable-http/header-failure-json-error-32001
    # spec: basic/transports/streamable-http/param-mismatch-error-32001
    """

    def __init__(self, problem: HeaderMismatch) -> None:
        ProtocolError.__init__(self, problem.message)
        self.code = DRAFT_HEADER_MISMATCH


STATUS: dict[type[McpError], int] = {
    InvalidMeta: 400,  # spec: basic/index/meta-missing-field-http-400
    HeaderMismatch: 400,  # spec: basic/transports/streamable-http/header-failure-400
    UnsupportedProtocolVersion: 400,  # spec: basic/transports/streamable-http/version-unsupported-400
    MissingRequiredClientCapability: 400,  # spec: basic/index/missing-capability-http-400
    InvalidRequest: 400,
    MethodNotFound: 404,  # spec: basic/transports/streamable-http/method-unknown-404
    TooManyRequests: 429,
}
"""The HTTP status of a modern error response, by its exception; 200 for all others."""

# -------------------------------------------------------------------------- the values

_BEGIN, _END = "=?base64?", "?="  # spec: basic/transports/streamable-http/encode-sentinel-exact
_FIELD = re.compile(r"[\t\x20-\x7e]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_NUMBER = 100
"""Characters of a header that is compared as a number."""


def encode_value(value: str | int | float | bool) -> str:
    """A value in the form that a header can hold. Raises ValueError for a value that has no such form.

    # spec: basic/transports/streamable-http/encode-values
    """
    text = _text_of(value)
    if text.isascii() and text.isprintable() and text.strip(" ") == text and not _is_wrapped(text):
        return text
    # spec: basic/transports/streamable-http/encode-base64-unsafe
    # spec: basic/transports/streamable-http/encode-sentinel-lookalike
    return f"{_BEGIN}{base64.b64encode(text.encode('utf-8')).decode('ascii')}{_END}"


def decode_value(text: str) -> str:
    """The value that a header encodes. Raises ValueError for a header that is malformed.

    # spec: basic/transports/streamable-http/decode-sentinel
    """
    if _FIELD.fullmatch(text) is None:  # spec: basic/transports/streamable-http/header-invalid-characters
        raise ValueError("holds a character that no header may")
    if not _is_wrapped(text) or len(text) < len(_BEGIN) + len(_END):
        return text
    inside = text[len(_BEGIN) : -len(_END)]
    try:
        data = base64.b64decode(inside, validate=True)
    except ValueError:
        raise ValueError("is not base64 inside") from None
    if base64.b64encode(data).decode("ascii") != inside:  # the bits that pad the last character are not zero
        raise ValueError("is not base64 inside as it is to be written")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 inside") from None


def _is_wrapped(text: str) -> bool:
    return text.startswith(_BEGIN) and text.endswith(_END)


def _text_of(value: Any) -> str:
    """A value in plain text.  # spec: basic/transports/streamable-http/encode-scalars"""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number: 42.0 is 42
        value = int(value)
    if isinstance(value, int):
        # spec: basic/transports/streamable-http/x-mcp-header-integer-range
        # spec: server/tools/x-mcp-header-integer-range
        if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            raise ValueError(f"{summary(value)} is beyond ±(2^53 - 1), where peers read different numbers")
        return int.__repr__(value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{_exactly(value):f}"  # spec: basic/transports/streamable-http/encode-number-decimal
    raise ValueError(f"{summary(value)} has no form in a header; a string, an integer or a boolean has")


def _exactly(number: Any) -> Any:
    """A number as a Decimal, which rounds nothing."""
    from decimal import Decimal

    return Decimal(number if isinstance(number, str) else repr(number))


def _equal(said: str, value: Any) -> bool:
    """Whether a header that was read says what the body says. Raises ValueError, as `encode_value`.

    Numbers are compared as numbers, exactly: `42.0` and `4.2e1` are 42.
    # spec: basic/transports/streamable-http/integer-numeric-compare
    """
    if said == _text_of(value):
        return True
    if type(value) not in (int, float) or len(said) > _LONGEST_NUMBER or not _NUMBER.fullmatch(said):
        return False
    return bool(_exactly(said) == _exactly(value))


def _argument(params: Json, path: tuple[str, ...]) -> Any:
    """The argument at a path; None if it is absent.

    # spec: basic/transports/streamable-http/x-mcp-header-extraction
    """
    value = params.get("arguments")
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


# ----------------------------------------------------------------------- server half

_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_TASK_PARAMS = {"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
_MODERN_NAMES = _NAME_PARAMS | _TASK_PARAMS
"""Methods that have an Mcp-Name, and the member of their params that it repeats.

# spec: extensions/tasks/mcp-name-task-id
"""


def header_of(environ: Json) -> Get:
    """A function that returns a header's value by its name, from a WSGI environ."""
    return lambda name: environ.get("HTTP_" + name.upper().replace("-", "_"))


def mirrored(tools: Tools, message: Json) -> Paths | None:
    """The arguments that a message must repeat in headers; None if it is no call of a known tool."""
    if message["method"] != "tools/call":
        return None
    params = message.get("params")
    name = params.get("name") if type(params) is dict else None
    tool = tools.get(name) if type(name) is str else None
    return None if tool is None else tool.mirrored


def check(get: Get, message: Json, date: str, annotated: Paths | None = None) -> None:
    """Check that the headers of a modern message repeat its body, whose `_meta` names the revision `date`.

    Raises HeaderMismatch.

    # spec: basic/transports/streamable-http/reject-header-body-mismatch
    # spec: basic/transports/streamable-http/missing-standard-header
    # spec: basic/transports/streamable-http/version-header-mismatch
    # spec: basic/transports/streamable-http/version-header-absent-reject
    """
    _check_plain("MCP-Protocol-Version", get("mcp-protocol-version"), date)
    method, said = message["method"], get("mcp-method")
    if said is not None or "id" in message:  # no page says which headers a notification must have
        _check_plain("Mcp-Method", said, method)
    member = _MODERN_NAMES.get(method)
    if member is not None:
        params = message.get("params")
        if type(params) is dict:
            _check_name(get, params.get(member), required=True, draft=False)
            if annotated and method == "tools/call":
                _check_arguments(get, params, annotated, required=True, draft=False)


def check_draft(get: Get, message: Json, annotated: Paths | None = None, required: bool = False) -> None:
    """Check the headers of a message within a session: those that it has, or all that apply if `required`.

    Raises DraftHeaderMismatch.
    """
    method, said = message.get("method"), get("mcp-method")
    if type(method) is not str:  # a response, which repeats nothing in headers
        return
    try:
        if said is not None or required:
            _check_plain("Mcp-Method", said, method)
        member, params = _NAME_PARAMS.get(method), message.get("params")
        if member is not None and type(params) is dict:
            _check_name(get, params.get(member), required, draft=True)
            if annotated and method == "tools/call":
                _check_arguments(get, params, annotated, required, draft=True)
    except HeaderMismatch as problem:
        raise DraftHeaderMismatch(problem) from None


def _check_plain(header: str, said: str | None, value: str) -> None:
    """Check a header that is never in base64.

    # spec: basic/transports/streamable-http/header-values-case-sensitive
    """
    if said != value or not said.isascii() or not said.isprintable():
        _compare_plain(header, said, value)


def _compare_plain(header: str, said: str | None, value: str) -> None:
    if said is None:
        raise HeaderMismatch(f"{header} header is missing, body value is {summary(value)}")
    said = said.strip(" \t")  # spaces around a value are HTTP's, and no part of it
    if said != value:
        raise _different(header, said, value)
    if _FIELD.fullmatch(said) is None:  # spec: basic/transports/streamable-http/header-invalid-characters
        raise HeaderMismatch(f"{header} header value {summary(said)} holds a character that no header may")


def _check_name(get: Get, value: Any, required: bool, draft: bool) -> None:
    said = get("mcp-name")
    # Quickly, for most names are plain: one that may be in base64, or has spaces, is checked below.
    if (
        said == value
        and said
        and said.isascii()
        and said.isprintable()
        and " " not in said
        and said[0] != "="
    ):
        return
    if said is not None:
        _check_value("Mcp-Name", said, value, draft)
    elif required and type(value) is str:  # params without the name are refused where they are read
        raise HeaderMismatch(f"Mcp-Name header is missing, body value is {summary(value)}")


def _check_arguments(get: Get, params: Json, annotated: Paths, required: bool, draft: bool) -> None:
    """Check that the headers which the tool wants are there, and agree. Other Mcp-Param headers are ignored.

    # spec: basic/transports/streamable-http/param-validate
    """
    for name, path in annotated.items():
        said, value = get(f"mcp-param-{name}"), _argument(params, path)
        if said is not None:
            _check_value(f"Mcp-Param-{name}", said, value, draft)
        elif required and value is not None:  # spec: basic/transports/streamable-http/param-not-expected
            # spec: basic/transports/streamable-http/param-missing-rejected
            where = place(("arguments", *path)).removesuffix(": ")
            raise HeaderMismatch(
                f"Mcp-Param-{name} header is missing, body value of {where} is {summary(value)}"
            )


def _check_value(header: str, said: str, value: Any, draft: bool) -> None:
    """Check a header that may be in base64.

    # spec: basic/transports/streamable-http/decode-before-compare
    # spec: basic/transports/streamable-http/server-validation-decodes
    """
    said = said.strip(" \t")
    if value is None:
        raise HeaderMismatch(f"{header} header value {summary(said)} has no body value")
    if draft and said == value and _FIELD.fullmatch(said):  # in the draft a plain value may look like base64
        return
    try:  # spec: basic/transports/streamable-http/param-invalid-characters
        decoded = decode_value(said)
    except ValueError as problem:
        raise HeaderMismatch(f"{header} header value {summary(said)} {problem}") from None
    try:
        agree = _equal(decoded, value)
    except ValueError as problem:
        raise HeaderMismatch(f"{header} header value {summary(said)}, but body value {problem}") from None
    if not agree:
        raise _different(header, decoded, value)


def _different(header: str, said: str, value: Any) -> HeaderMismatch:
    return HeaderMismatch(f"{header} header value {summary(said)} does not match body value {summary(value)}")


# ----------------------------------------------------------------------- client half


def mirror(method: str, params: Json | None, date: str, annotated: Paths | None = None) -> dict[str, str]:
    """The headers of a request. Raises LocalError for a value that no header can hold.

    # spec: basic/transports/streamable-http/version-header-every-post
    # spec: basic/transports/streamable-http/version-header-matches-meta
    # spec: basic/transports/streamable-http/extract-standard-headers
    # spec: basic/transports/streamable-http/mcp-method-header
    # spec: basic/transports/streamable-http/append-standard-headers
    # spec: basic/transports/streamable-http/append-param-headers
    # spec: basic/transports/streamable-http/append-encoded-values
    """
    return {"MCP-Protocol-Version": date, **_repeated(method, params or {}, _MODERN_NAMES, annotated)}


def mirror_draft(method: str, params: Json | None, annotated: Paths | None = None) -> dict[str, str]:
    """The headers of a message within a session, by the interim draft. Raises LocalError, as `mirror`."""
    return _repeated(method, params or {}, _NAME_PARAMS, annotated)


def _repeated(method: str, params: Json, names: Mapping[str, str], annotated: Paths | None) -> dict[str, str]:
    if not (method.isascii() and method.isprintable()):
        raise LocalError(f"{summary(method)} cannot go into the header Mcp-Method")
    headers = {"Mcp-Method": method}
    member = names.get(method)
    if member is not None and isinstance(params.get(member), str):
        # spec: basic/transports/streamable-http/mcp-name-header
        headers["Mcp-Name"] = _encoded("Mcp-Name", params[member], (member,))
    if annotated and method == "tools/call":
        for name, path in annotated.items():
            value = _argument(params, path)
            # spec: basic/transports/streamable-http/param-null-omitted
            # spec: basic/transports/streamable-http/param-absent-omitted
            if value is not None:
                # spec: basic/transports/streamable-http/x-mcp-header-supported
                # spec: basic/transports/streamable-http/x-mcp-header-mirrored
                # spec: basic/transports/streamable-http/param-provided
                header = f"Mcp-Param-{name}"
                headers[header] = _encoded(header, value, ("arguments", *path))
    return headers


def _encoded(header: str, value: Any, path: tuple[str, ...]) -> str:
    """# spec: basic/transports/streamable-http/mcp-name-encoded"""
    try:
        return encode_value(value)
    except ValueError as problem:
        raise LocalError(f"{place(path)}cannot go into the header {header}: {problem}") from None
