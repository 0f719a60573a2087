"""General fields (page: basic/index, "General fields").

`_meta`, to which both sides attach data that is not part of a method, and the fields that many
shapes share: identity (`Implementation`), icons, and the params that every request has.

A key of `_meta` is a name, or a prefix and a name: `com.example/trace`. A prefix is a series of
labels, separated by dots and followed by a slash; the name begins and ends with a letter or digit.
Keys without a prefix belong to the specification, and so do those with a reserved prefix.

Revisions   2024-11-05  `_meta` on requests (progressToken), notifications and results
            2025-06-18  + rules for its keys; + `_meta` on tools, resources, content
            2025-11-25  + icons; a prefix is reserved by its second label (before: by its last but one)
            2026-07-28  + fields that each request must have in `_meta` (basic/versioning)

Threads     plain functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict

from mcp_ref.basic.index.error_responses import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    InvalidParams,
    ProtocolError,
)
from mcp_ref.schema import required, since

if TYPE_CHECKING:
    from mcp_ref.basic.index.messages import RequestId
    from mcp_ref.basic.lifecycle import ClientCapabilities

    # The page on logging defines it, in a higher layer than this one: mcp_ref/schema finds it by its name.
    from mcp_ref.server.utilities.logging import LoggingLevel

__all__ = ["Icon", "Implementation", "MissingRequiredClientCapability", "check_meta"]

# ---------------------------------------------------------------------------- shapes

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

# All other keys may have any value, even those with a reserved prefix.
# spec: basic/index/meta-reserved-key-no-assumptions
RequestMeta = TypedDict(
    "RequestMeta",
    {
        "progressToken": "RequestId",
        "io.modelcontextprotocol/protocolVersion": Required[Annotated[str, since("2026-07-28")]],
        "io.modelcontextprotocol/clientCapabilities": Required[
            Annotated["ClientCapabilities", since("2026-07-28")]
        ],
        "io.modelcontextprotocol/clientInfo": Annotated["Implementation", since("2026-07-28")],
        "io.modelcontextprotocol/logLevel": Annotated["LoggingLevel", since("2026-07-28")],
    },
    total=False,
)

# spec: basic/index/meta-subscription-id
NotificationMeta = TypedDict(
    "NotificationMeta",
    {"io.modelcontextprotocol/subscriptionId": Annotated["RequestId", since("2026-07-28")]},
    total=False,
)

ResultMeta = TypedDict(
    "ResultMeta",
    {"io.modelcontextprotocol/serverInfo": Annotated["Implementation", since("2026-07-28")]},
    total=False,
)


class RequestParams(TypedDict, total=False):
    """The members that the params of each request have, whatever its method."""

    _meta: Annotated[RequestMeta, required(since="2026-07-28")]


class NotificationParams(TypedDict, total=False):
    _meta: NotificationMeta


class Icon(TypedDict, total=False):
    """# spec: basic/index/icon-members"""

    src: Required[Annotated[str, {"format": "uri"}]]  # spec: basic/index/icon-src-required
    mimeType: str
    sizes: list[str]
    theme: Literal["light", "dark"]


class Icons(TypedDict, total=False):
    """# spec: basic/index/icon-places, basic/index/icon-several"""

    icons: list[Icon]


class BaseMetadata(TypedDict, total=False):
    name: Required[str]
    title: str


class Implementation(TypedDict, total=False):
    """The name and version that a peer gives itself. For display and logs; no behaviour depends on it."""

    # spec: basic/index/info-not-for-behaviour, basic/index/info-not-for-security
    name: Required[str]
    version: Required[str]
    title: Annotated[str, since("2025-06-18")]
    description: Annotated[str, since("2025-11-25")]
    icons: Annotated[list[Icon], since("2025-11-25")]
    websiteUrl: Annotated[str, {"format": "uri"}, since("2025-11-25")]


class MissingCapabilityData(TypedDict):
    requiredCapabilities: ClientCapabilities


class MissingCapabilityError(TypedDict, total=False):
    code: Required[Literal[-32021]]
    message: Required[str]
    data: Required[MissingCapabilityData]


class MissingRequiredClientCapabilityError(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: RequestId
    error: Required[MissingCapabilityError]


# An object whose members must be JSON values in the official schema; here any members are accepted.
JSONObject = Annotated[dict[str, Any], {"$ref": "#/$defs/JSONObject"}]

_LAST = since("2026-07-28")
DEFINITIONS: dict[str, Any] = {
    "BaseMetadata": Annotated[BaseMetadata, since("2025-06-18")],
    "Icon": Annotated[Icon, since("2025-11-25")],
    "Icons": Annotated[Icons, since("2025-11-25")],
    "Implementation": Implementation,
    "JSONArray": Annotated[Any, {"type": "array", "items": {"$ref": "#/$defs/JSONValue"}}, _LAST],
    "JSONObject": Annotated[
        Any, {"type": "object", "additionalProperties": {"$ref": "#/$defs/JSONValue"}}, _LAST
    ],
    "JSONValue": Annotated[
        Any,
        {
            "anyOf": [
                {"$ref": "#/$defs/JSONObject"},
                {"type": "array", "items": {"$ref": "#/$defs/JSONValue"}},
                {"type": ["string", "integer", "boolean"]},
            ]
        },
        _LAST,
    ],
    "MetaObject": Annotated[Any, {"type": "object"}, _LAST],
    "MissingRequiredClientCapabilityError": Annotated[MissingRequiredClientCapabilityError, _LAST],
    "NotificationMetaObject": Annotated[NotificationMeta, _LAST],
    "NotificationParams": Annotated[NotificationParams, since("2025-11-25")],
    "RequestMetaObject": Annotated[RequestMeta, _LAST],
    "RequestParams": Annotated[RequestParams, since("2025-11-25")],
    "ResultMetaObject": Annotated[ResultMeta, _LAST],
}


def request_meta(date: str, capabilities: Any, info: Any) -> dict[str, Any]:
    """The `_meta` that every request of a modern client carries.

    # spec: basic/index/meta-required-request-fields, basic/index/meta-client-info
    """
    return {PROTOCOL_VERSION: date, CLIENT_CAPABILITIES: capabilities, CLIENT_INFO: info}


class InvalidMeta(InvalidParams):
    """The `_meta` of a modern request lacks a required field, or has a field of a wrong type: -32602.

    # spec: basic/index/meta-missing-field-32602
    """


class MissingRequiredClientCapability(ProtocolError):
    """The client did not declare a capability that its request needs.

    # spec: basic/index/missing-capability-error
    """

    code = MISSING_REQUIRED_CLIENT_CAPABILITY

    def __init__(self, required: dict[str, Any]) -> None:
        names = [
            f"{name}.{part}" if part else name for name, parts in required.items() for part in parts or [""]
        ]
        super().__init__(
            f"this request needs the client capability {', '.join(names)}",
            data={"requiredCapabilities": required},
        )


# ------------------------------------------------------------------------ keys of _meta

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"  # spec: basic/index/meta-label-format
META_KEY = re.compile(
    rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?"  # spec: basic/index/meta-prefix-format
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"  # spec: basic/index/meta-name-format
)
_OURS = frozenset({"mcp", "modelcontextprotocol"})
# The grammars of W3C Trace Context (a list of at most 32 members, which may be empty) and W3C Baggage.
_COMMA = r"[ \t]*+,[ \t]*+"
_STATE = (
    r"(?:[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])?"
)
_BAGGAGE_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_IS_VALUE = r"[ \t]*+=[ \t]*+[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_BAGGAGE = rf"{_BAGGAGE_TOKEN}{_IS_VALUE}(?:[ \t]*+;[ \t]*+{_BAGGAGE_TOKEN}(?:{_IS_VALUE})?)*"
# As text: `re` compiles a pattern when it is first used, since that takes half a millisecond.
_TRACE = {  # spec: basic/index/trace-context-format, basic/index/trace-keys-unprefixed
    "traceparent": r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}",
    "tracestate": rf"{_STATE}(?:{_COMMA}{_STATE}){{0,31}}",
    "baggage": rf"{_BAGGAGE}(?:{_COMMA}{_BAGGAGE})*",
}


def is_key(key: str) -> bool:
    """Whether this is a well-formed key of `_meta`."""
    return bool(key) and META_KEY.fullmatch(key) is not None


def is_reserved(key: str) -> bool:
    """Whether the key's prefix is reserved for the protocol, by the rule of any revision."""
    match = META_KEY.fullmatch(key)
    if match is None or match["prefix"] is None:
        return False
    labels = match["prefix"].lower().split(".")
    # spec: basic/index/meta-reserved-prefix-second-label, basic/index/meta-reserved-prefix-trailing
    return any(label in _OURS for label in labels[1:2] + labels[-2:-1])


def check_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Check the `_meta` that an author or an application wants to send, and return a copy. Raises ValueError.

    A `_meta` that arrives is never checked in this way: a receiver assumes nothing about unknown keys.
    """
    for key, value in meta.items():
        if not isinstance(key, str) or not is_key(key):
            raise ValueError(f"{key!r} is not a key for _meta; write one like com.example/name")
        if is_reserved(key):
            raise ValueError(f"{key!r} is reserved for the protocol; use a prefix of your own")
        form = _TRACE.get(key)
        if form is not None and not (isinstance(value, str) and re.fullmatch(form, value)):
            raise ValueError(f"{key} must be written as W3C Trace Context says, not {value!r:.100}")
        if key == "progressToken":  # spec: basic/index/meta-reserved-keys
            raise ValueError("progressToken is set by the client itself: pass on_progress")
    return dict(meta)


def check_icons(icons: list[Icon]) -> list[Icon]:
    """Return the icons. Raises ValueError unless their sources are http(s) or data URIs.

    # spec: basic/index/icon-src-required
    """
    for icon in icons:
        source = icon.get("src") if isinstance(icon, dict) else None
        if not isinstance(source, str) or not source.startswith(("https://", "http://", "data:")):
            raise ValueError(f"the src of an icon must be an http(s) or data URI, not {source!r:.80}")
    return icons
