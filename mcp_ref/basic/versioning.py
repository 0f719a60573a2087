"""Versioning and compatibility (page: basic/versioning), and the modern door.

There are two eras. In the *legacy* one (until 2025-11-25) an `initialize` handshake opens a session that
remembers version, identity and capabilities (basic/lifecycle). In the *modern* one each request carries them
in its `_meta`, and is accepted or rejected on its own:

    client -> server   any request, `_meta` with protocolVersion and clientCapabilities
    server -> client   its result, or -32022 with the versions it supports
    client -> server   the request again, in a version that both support

A server of ours is *dual-era*: a request with modern `_meta` is served statelessly, `initialize` opens a
session, both on one pipe and at once.

This module has the facts of all five revisions (`TABLE`), the rows that pages add to the tables of messages
(`Method`, `Notification`), and the modern door (`context_from_meta`).

Revisions   2026-07-28.  The facts cover all.
Errors      -32022 UnsupportedProtocolVersion, -32021 MissingRequiredClientCapability.
Threads     `context_from_meta` runs on the request's worker.
Not here    what every modern request carries (basic/index/general_fields) and every modern result
            (basic/index/messages), how a client finds out a server's era
            (basic/transports/stdio/backward_compatibility).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    Required,
    TypeAlias,
    TypedDict,
)

from mcp_ref.basic.index.error_responses import (
    HEADER_MISMATCH,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorResponse,
    InvalidParams,
    ProtocolError,
)
from mcp_ref.basic.index.general_fields import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    META_KEY,
    PROTOCOL_VERSION,
    InvalidMeta,
    MissingRequiredClientCapability,
    RequestMeta,
)
from mcp_ref.basic.index.messages import Json, RequestId
from mcp_ref.runtime.json_text import Encoded
from mcp_ref.schema import REVISIONS, Mismatch, checker, since

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext

__all__ = ["LATEST", "Era", "Method", "Notification", "Revision", "UnsupportedProtocolVersion", "revision"]

# ---------------------------------------------------------------------------- shapes


class UnsupportedVersionData(TypedDict):
    supported: list[str]
    requested: str


class UnsupportedVersionError(TypedDict, total=False):
    code: Required[Literal[-32022]]
    message: Required[str]
    data: Required[UnsupportedVersionData]


class UnsupportedProtocolVersionError(TypedDict, total=False):
    jsonrpc: Required[Literal["2.0"]]
    id: RequestId
    error: Required[UnsupportedVersionError]


DEFINITIONS: dict[str, Any] = {
    "UnsupportedProtocolVersionError": Annotated[UnsupportedProtocolVersionError, since("2026-07-28")],
}

# ------------------------------------------------------------------------- the facts


class Era(enum.Enum):
    """Where a request's context comes from: a session, or the request itself."""

    LEGACY = "legacy"
    MODERN = "modern"


@dataclass(frozen=True, eq=False)
class Revision:
    """One published revision: the facts that other pages need. Equal to its date."""

    date: str
    modern: bool = False
    """Whether requests carry their own context, instead of having that of a session."""
    batches: bool = False
    """basic/index: a JSON array of messages is understood."""
    unreadable_id: Literal["null", "omitted"] = "null"
    """basic/index: the id of an error response when the request's could not be read."""
    bad_arguments: Literal["error", "result"] = "error"
    """server/tools: arguments that break the schema are a protocol error, or a result with isError."""
    structured: Literal["none", "object", "any"] = "none"
    """server/tools: what structuredContent may be."""
    polls: bool = False
    """basic/transports: an event stream begins with an id, so that the client may be sent away and return."""
    resource_not_found: int = -32002
    """server/resources: the error code for a resource that does not exist."""
    asks: Literal["in requests", "in results"] = "in requests"
    """basic/patterns/mrtr: how a server asks its client something while it handles a request."""
    resumes: bool = False
    """basic/transports: the rest of an event stream that broke can be had."""
    version_header: bool = False
    """basic/transports: MCP-Protocol-Version goes with each HTTP request of a session."""
    progress_messages: bool = False
    """basic/patterns/progress: a report may say in words what is being done."""
    completion_context: bool = False
    """server/utilities/completion: arguments that were chosen already come along."""
    elicitation_modes: tuple[str, ...] = ()
    """client/elicitation: how a user can be asked."""
    url_errors: bool = False
    """client/elicitation: error -32042 asks for a visit, a notification tells its end."""
    form_dialects: bool = False
    """client/elicitation: a form may name its dialect of JSON Schema."""
    declares_context: bool = False
    """client/sampling: a server may ask for context only if the client declared `sampling.context`."""
    pings: bool = True
    """basic/utilities/ping: either side may ask whether the other is there."""
    sets_log_level: bool = True
    """server/utilities/logging: the level is set by a request, instead of being said in each."""
    reports_roots: bool = True
    """client/roots: the client reports that its roots have changed."""
    subscribes_by_request: bool = False
    """basic/patterns/subscriptions: changes are reported to the open requests that asked for them."""
    caches: bool = False
    """server/utilities/caching: results say how long they may be kept."""
    mirrors_body: bool = False
    """basic/transports: HTTP headers repeat what the body says."""
    tasks: Literal["unknown", "asked for", "decided"] = "unknown"
    """basic/utilities/tasks: the requestor asks that a call run as a task; or the server decides so."""

    @property
    def era(self) -> Era:
        """Where the context of a request comes from."""
        return Era.MODERN if self.modern else Era.LEGACY

    def __str__(self) -> str:
        return self.date

    def __eq__(self, other: object) -> bool:
        return self.date == (other.date if isinstance(other, Revision) else other)

    def __hash__(self) -> int:
        return hash(self.date)

    def reaches(self, date: str) -> bool:
        """Whether this revision is that one or a later one."""
        return REVISIONS.index(self.date) >= REVISIONS.index(date)


TABLE = (
    Revision("2024-11-05"),
    Revision("2025-03-26", batches=True, resumes=True, progress_messages=True),
    Revision(
        "2025-06-18",
        structured="object",
        resumes=True,
        version_header=True,
        progress_messages=True,
        completion_context=True,
        elicitation_modes=("form",),
    ),
    Revision(
        "2025-11-25",
        unreadable_id="omitted",
        bad_arguments="result",
        structured="object",
        polls=True,
        resumes=True,
        version_header=True,
        progress_messages=True,
        completion_context=True,
        elicitation_modes=("form", "url"),
        url_errors=True,
        form_dialects=True,
        declares_context=True,
        tasks="asked for",
    ),
    Revision(
        "2026-07-28",
        modern=True,
        pings=False,
        sets_log_level=False,
        reports_roots=False,
        subscribes_by_request=True,
        caches=True,
        mirrors_body=True,
        tasks="decided",
        unreadable_id="omitted",
        bad_arguments="result",
        structured="any",
        resource_not_found=-32602,
        asks="in results",
        version_header=True,
        progress_messages=True,
        completion_context=True,
        elicitation_modes=("form", "url"),
        form_dialects=True,
        declares_context=True,
    ),
)
LATEST = TABLE[-1]
_BY_DATE = {r.date: r for r in TABLE}


def revision(date: str) -> Revision:
    """The facts of a revision. Raises ValueError for one that is not in the table."""
    try:
        return _BY_DATE[date]
    except KeyError:
        raise ValueError(f"{date!r} is not a revision of MCP; there are {', '.join(_BY_DATE)}") from None


def newest(dates: Iterable[str], era: Era) -> Revision | None:
    """The newest revision of an era among these dates, or None."""
    known = [r for r in TABLE if r.era is era and r.date in set(dates)]
    return known[-1] if known else None


def newest_first(dates: Iterable[str]) -> list[str]:
    """Dates in the order in which a peer is offered them: a peer that takes the first takes the newest."""
    return sorted(dates, reverse=True)


class Versions(NamedTuple):
    """The versions that a server speaks, newest first."""

    supported: list[str]
    modern: list[str]
    """Those that a request may name."""
    legacy: list[str]
    """Those that a session may be of."""

    @classmethod
    def of(cls, dates: Iterable[str]) -> Versions:
        """Raises ValueError for a date that is no revision."""
        found = newest_first({revision(date).date for date in dates})
        modern = [date for date in found if revision(date).modern]
        return cls(found, modern, [date for date in found if date not in modern])


Sender: TypeAlias = Literal["client", "server", "either"]


class Row:
    """The sender and the revisions of a message: what rows of methods and of notifications share."""

    sender: Sender
    since: str
    until: str

    def holds(self, date: str) -> bool:
        """Whether a revision has this message."""
        return REVISIONS.index(self.since) <= REVISIONS.index(date) <= REVISIONS.index(self.until)

    def is_sent_by(self, side: Sender) -> bool:
        """Whether this side sends it."""
        return self.sender in (side, "either")


@dataclass(frozen=True, eq=False)
class Method(Row):
    """A row of the table of methods: who sends the request, who answers it, and in which revisions.

    The request, its response and the unions of messages by direction follow from it (mcp_ref/schema).
    """

    name: str
    handler: Callable[[Any, Any, Any], Any]
    """`handler(endpoint, params, context)`; returns the result."""
    since: str = REVISIONS[0]
    until: str = REVISIONS[-1]
    params: Any = None
    """The shape of the params, if they have more than `_meta`; as a field of the request, so with marks."""
    result: Any = None
    """The shape of the result, unless it is the empty one."""
    sender: Sender = "client"
    capability: str | None = None
    """The server capability without which there is no such method."""
    cacheable: bool = False
    """server/utilities/caching: the result carries ttlMs and cacheScope."""
    asks: bool = False
    """basic/patterns/mrtr: the result may be a question."""
    may_be_task: bool = False
    """basic/utilities/tasks: the request may run as a task."""
    encode: Callable[[Json], Encoded] | None = None
    """How to encode the result, where plain JSON encoding would be wasteful."""
    handler_checks: bool = False
    """The handler checks the params itself, because the revision is known only there (initialize)."""

    @property
    def definition(self) -> str:
        """Its name in the official schema: "CallTool", as in CallToolRequest and CallToolResult."""
        if self.result is not None:
            return str(self.result.__name__).removesuffix("Result")
        last = self.name.rpartition("/")[2]
        return last[0].upper() + last[1:]

    def check(self, params: Json, date: str) -> None:
        """Check the params by the page's schema. Raises InvalidParams with the place of each fault."""
        if self.params is None or self.handler_checks:
            return
        try:
            checker(self.params, date, ("_meta", "inputResponses"))(params)
        except Mismatch as problem:
            raise InvalidParams(f"{self.name}: {problem}") from None


@dataclass(frozen=True, eq=False)
class Notification(Row):
    """A row of the table of notifications: who sends it, and in which revisions.

    A notification that the two sides send in different revisions has two rows.
    """

    name: str
    definition: str
    """Its name in the official schema: "ToolListChanged", as in ToolListChangedNotification."""
    sender: Sender
    since: str = REVISIONS[0]
    until: str = REVISIONS[-1]
    params: Any = None
    """The shape of the params, if they have more than `_meta`."""


def methods(rows: tuple[Method, ...], date: str) -> dict[str, Method]:
    """The table of one revision. A method without a row for it does not exist there."""
    return {row.name: row for row in rows if row.holds(date)}


# ---------------------------------------------------------------------------- errors


class UnsupportedProtocolVersion(ProtocolError):
    """The protocol version of a request is not one that this server supports.

    # spec: basic/versioning/unsupported-version-error, basic/versioning/unsupported-version-data
    """

    code = UNSUPPORTED_PROTOCOL_VERSION

    def __init__(self, requested: str, supported: Iterable[str]) -> None:
        known = list(supported)
        names = ", ".join(known) or "none"
        message = f"Unsupported protocol version {requested[:40]!r} (supported: {names})"
        if requested in known:  # a legacy version in `_meta`, or a modern one in initialize
            how = "a request with _meta" if revision(requested).modern else "initialize"
            message = f"Protocol version {requested!r} begins with {how} (supported: {names})"
        super().__init__(message, data={"supported": known, "requested": requested})


MODERN_CODES = frozenset({HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION})
"""Codes that only a modern server sends: proof of its era.

# spec: basic/versioning/modern-error-means-modern
"""

# ------------------------------------------------------------------- server: the modern door


MODERN_FIELDS = frozenset({PROTOCOL_VERSION, CLIENT_CAPABILITIES})
"""A request with one of these in its `_meta` brings its own context. Each request says so by itself: one
connection may serve both eras.

# spec: basic/versioning/dual-era-selects-stateless
# spec: basic/versioning/dual-era-server, basic/versioning/dual-era-concurrent
"""


def is_modern(params: Json) -> bool:
    """Whether a request brings its own context."""
    meta = params.get("_meta")
    return type(meta) is dict and not MODERN_FIELDS.isdisjoint(meta)


def context_from_meta(context: RequestContext, modern: Iterable[str], supported: Iterable[str]) -> None:
    """Fill the context of a request from its own `_meta`, and from nothing else.

    `modern` are the versions that it may name, `supported` all that the server speaks: an error lists these,
    as `server/discover` does. A client that finds a legacy version there may send initialize instead.

    # spec: basic/index/no-state-from-prior-requests, basic/versioning/version-judged-per-request
    # spec: basic/index/connection-is-not-session, basic/index/no-connection-affinity
    # spec: basic/index/explicit-state-identifier, basic/transports/index/metadata-in-body
    """
    meta = context.meta
    requested = meta.get(PROTOCOL_VERSION)
    if type(requested) is str and requested not in modern:
        raise UnsupportedProtocolVersion(requested, supported)
    try:
        checker(RequestMeta, LATEST.date)(meta)
    except Mismatch as problem:
        raise InvalidMeta(f"params._meta: {problem}") from None
    context.revision = _BY_DATE[meta[PROTOCOL_VERSION]]
    # spec: schema/meta-empty-capabilities, architecture/index/capabilities-per-request
    context.client_capabilities = meta[CLIENT_CAPABILITIES]
    context.client_info = meta.get(CLIENT_INFO, {})
    context.reports.log_level = meta.get(LOG_LEVEL)
    context.reports.progress_token = meta.get("progressToken")


def refuse_initialize(params: Any, supported: Iterable[str]) -> NoReturn:
    """Refuse initialize on a server without the legacy era, whatever else is wrong with the request.

    The error lists the versions: it may be all that the user of a legacy client gets to see.
    # spec: basic/versioning/initialize-error-names-versions
    # spec: basic/versioning/modern-only-initialize-stdio, basic/versioning/modern-only-initialize-http
    """
    offered = params.get("protocolVersion") if type(params) is dict else None
    raise UnsupportedProtocolVersion(offered if type(offered) is str else str(offered)[:40], supported)


def require_capability(context: RequestContext, required: Json) -> None:
    """Raise MissingRequiredClientCapability unless the client declared these capabilities.

    `{"elicitation": {"url": {}}}` requires a part of one.
    # spec: basic/index/no-undeclared-capability
    # spec: basic/versioning/extension-fallback-or-reject
    """
    missing = missing_capabilities(required, context.client_capabilities)
    if missing:
        raise MissingRequiredClientCapability(missing)


def check_extensions(extensions: Mapping[str, Any]) -> None:
    """Identifier -> settings, as capabilities advertise them. Raises ValueError.

    # spec: basic/versioning/extension-id-format, basic/versioning/extension-settings-object
    """
    for identifier, settings in extensions.items():
        match = META_KEY.fullmatch(identifier) if isinstance(identifier, str) else None
        if match is None or match["prefix"] is None or not match["name"]:
            raise ValueError(f"{identifier!r} is not an extension's identifier: it needs prefix/name")
        if not isinstance(settings, Mapping):
            raise ValueError(f"the settings of {identifier} are an object, perhaps an empty one: {{}}")


IMPLIED_PARTS: dict[str, Json] = {"elicitation": {"form": {}}}
"""The parts that a capability has if it was declared empty.

# spec: client/elicitation/empty-capability-means-form
"""


def missing_capabilities(required: Json, declared: Any) -> Json:
    """The required capabilities that were not declared, in the form in which they would be."""
    lacking = {}
    for name, parts in required.items():
        if not isinstance(declared, dict) or name not in declared:
            lacking[name] = parts
        elif isinstance(parts, dict):
            inner = missing_capabilities(parts, declared[name] or IMPLIED_PARTS.get(name, {}))
            if inner:
                lacking[name] = inner
    return lacking


# --------------------------------------------------------------------------- client half


def version_named(problem: object, current: Revision, supported: Iterable[str]) -> Revision | None:
    """The newest modern version of ours that a server names which refused another, or the same.

    Perhaps it was started anew as another release. None where there is nothing in common: then its error,
    which says what it supports, is for the caller.
    # spec: basic/versioning/client-retries-supported-version
    """
    if not isinstance(problem, ErrorResponse) or problem.code != UNSUPPORTED_PROTOCOL_VERSION:
        return None
    offered = problem.data.get("supported") if isinstance(problem.data, dict) else None
    if not current.modern or not isinstance(offered, list):
        return None
    dates = {date for date in offered if isinstance(date, str)}
    return newest(dates & set(supported), Era.MODERN)


def speak_legacy(supported: Iterable[str]) -> str:
    """The advice to a client of modern versions alone that has met a legacy server.

    # spec: basic/versioning/modern-client-actionable-error
    """
    spoken, newest_legacy = ", ".join(supported), newest(REVISIONS, Era.LEGACY)
    return (
        f"this client speaks {spoken} alone: connect with revision={str(newest_legacy)!r}, or without "
        "`revision`, to reach a legacy server"
    )
