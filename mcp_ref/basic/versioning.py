"""Versioning and compatibility (page: basic/versioning), and the modern door.

There are two eras. In the *legacy* era (until 2025-11-25) an `initialize` handshake opens a session that
stores version, identity and capabilities (basic/lifecycle). In the *modern* era each request carries them
in its `_meta`, and is accepted or rejected on its own:

    client -> server   any request, `_meta` with protocolVersion and clientCapabilities
    server -> client   its result, or -32022 with the versions that the server supports
    client -> server   the request again, in a version that both support

Our server is *dual-era* by default: a request with modern `_meta` is served statelessly, `initialize` opens a
session, and one pipe may carry both at the same time.

This module has the facts of all five revisions (`TABLE`), the classes of the rows with which pages define
their messages (`Method`, `Notification`), and the modern door (`context_from_meta`).

Revisions   2026-07-28.  `TABLE` has all five.
Errors      -32022 UnsupportedProtocolVersion, -32021 MissingRequiredClientCapability.
Threads     `context_from_meta` runs on the request's worker.
Not here    the fields of every modern request (basic/index/general_fields) and of every modern result
            (basic/index/messages); how a client finds out a server's era
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
    """One published revision: the facts that other pages need. It compares equal to its date."""

    date: str
    modern: bool = False
    """Whether each request carries its context in `_meta`, instead of having the context of a session."""
    batches: bool = False
    """basic/index: a JSON array of messages is accepted, as a batch."""
    unreadable_id: Literal["null", "omitted"] = "null"
    """basic/index: the id of an error response to a request whose id could not be read."""
    bad_arguments: Literal["error", "result"] = "error"
    """server/tools: arguments that break the schema get a protocol error, or a result with isError."""
    structured: Literal["none", "object", "any"] = "none"
    """server/tools: what structuredContent may be."""
    polls: bool = False
    """basic/transports: an event stream begins with an id, so that the server may end the connection early
    and the client resume the stream."""
    resource_not_found: int = -32002
    """server/resources: the error code for a resource that does not exist."""
    asks: Literal["in requests", "in results"] = "in requests"
    """basic/patterns/mrtr: how a server asks its client something while it handles a request."""
    resumes: bool = False
    """basic/transports: an event stream that broke can be resumed."""
    version_header: bool = False
    """basic/transports: each HTTP request except initialize has the header MCP-Protocol-Version."""
    progress_messages: bool = False
    """basic/patterns/progress: a report may have a message, in words."""
    completion_context: bool = False
    """server/utilities/completion: a request may carry the arguments that were chosen already."""
    elicitation_modes: tuple[str, ...] = ()
    """client/elicitation: the modes in which a user can be asked."""
    url_errors: bool = False
    """client/elicitation: error -32042 asks for a visit to a URL, and a notification reports its end."""
    form_dialects: bool = False
    """client/elicitation: the schema of a form may name its dialect (`$schema`)."""
    declares_context: bool = False
    """client/sampling: a server may ask for context only if the client declared `sampling.context`."""
    pings: bool = True
    """basic/utilities/ping: either side may ask whether the other is there."""
    sets_log_level: bool = True
    """server/utilities/logging: the level is set by a request of its own, not by each request's `_meta`."""
    reports_roots: bool = True
    """client/roots: the client reports that its roots have changed."""
    subscribes_by_request: bool = False
    """basic/patterns/subscriptions: changes are reported only to open subscriptions/listen requests."""
    caches: bool = False
    """server/utilities/caching: results say how long they may be cached."""
    mirrors_body: bool = False
    """basic/transports: HTTP headers repeat parts of the body."""
    tasks: Literal["unknown", "asked for", "decided"] = "unknown"
    """basic/utilities/tasks: a call runs as a task if the requestor asks for it, or the server decides it."""

    @property
    def era(self) -> Era:
        """The era that this revision belongs to."""
        return Era.MODERN if self.modern else Era.LEGACY

    def __str__(self) -> str:
        return self.date

    def __eq__(self, other: object) -> bool:
        return self.date == (other.date if isinstance(other, Revision) else other)

    def __hash__(self) -> int:
        return hash(self.date)

    def reaches(self, date: str) -> bool:
        """Whether this revision is the one of that date, or a later one."""
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
    """The newest revision of an era among these dates; None if the era has none of them."""
    known = [r for r in TABLE if r.era is era and r.date in set(dates)]
    return known[-1] if known else None


def newest_first(dates: Iterable[str]) -> list[str]:
    """Dates, newest first: a peer that takes the first of a list that we offer takes the newest."""
    return sorted(dates, reverse=True)


class Versions(NamedTuple):
    """The versions that a server supports, newest first."""

    supported: list[str]
    modern: list[str]
    """The versions that a request may name in its `_meta`."""
    legacy: list[str]
    """The versions that a session may have."""

    @classmethod
    def of(cls, dates: Iterable[str]) -> Versions:
        """Sort these dates into the three lists. Raises ValueError for a date that is not a revision."""
        found = newest_first({revision(date).date for date in dates})
        modern = [date for date in found if revision(date).modern]
        return cls(found, modern, [date for date in found if date not in modern])


Sender: TypeAlias = Literal["client", "server", "either"]


class Row:
    """The common part of `Method` and `Notification`: who sends a message, and in which revisions."""

    sender: Sender
    since: str
    until: str

    def holds(self, date: str) -> bool:
        """Whether a revision has this message."""
        return REVISIONS.index(self.since) <= REVISIONS.index(date) <= REVISIONS.index(self.until)

    def is_sent_by(self, side: Sender) -> bool:
        """Whether this side sends the message."""
        return self.sender in (side, "either")


@dataclass(frozen=True, eq=False)
class Method(Row):
    """A row of the table of methods: who sends the request, who answers it, and in which revisions.

    mcp_ref/schema derives from it the shapes of the request and its response, and the unions of messages by
    direction.
    """

    name: str
    handler: Callable[[Any, Any, Any], Any]
    """`handler(endpoint, params, context)`; returns the result."""
    since: str = REVISIONS[0]
    until: str = REVISIONS[-1]
    params: Any = None
    """The shape of the params, if they have more than `_meta`. Like any field of a shape, it may have marks
    (`since`, `required`)."""
    result: Any = None
    """The shape of the result; None for an empty result."""
    sender: Sender = "client"
    capability: str | None = None
    """The server capability that the method belongs to: a server has the method only if it offers that."""
    cacheable: bool = False
    """server/utilities/caching: the result carries ttlMs and cacheScope."""
    asks: bool = False
    """basic/patterns/mrtr: the result may be input_required."""
    may_be_task: bool = False
    """basic/utilities/tasks: the request may run as a task."""
    encode: Callable[[Json], Encoded] | None = None
    """Encodes the result, where plain JSON encoding would be wasteful."""
    handler_checks: bool = False
    """The handler checks the params itself, because only it knows the revision (initialize)."""

    @property
    def definition(self) -> str:
        """The method's name in the official schema: "CallTool", as in CallToolRequest and CallToolResult."""
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
    """The name in the official schema: "ToolListChanged", as in ToolListChangedNotification."""
    sender: Sender
    since: str = REVISIONS[0]
    until: str = REVISIONS[-1]
    params: Any = None
    """The shape of the params, if they have more than `_meta`."""


def methods(rows: tuple[Method, ...], date: str) -> dict[str, Method]:
    """The methods of a revision: name -> row. A method without a row for it does not exist there."""
    return {row.name: row for row in rows if row.holds(date)}


# ---------------------------------------------------------------------------- errors


class UnsupportedProtocolVersion(ProtocolError):
    """A request names a protocol version that this server does not support.

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
"""Error codes that only a modern server sends: they prove its era.

# spec: basic/versioning/modern-error-means-modern
"""

# ------------------------------------------------------------------- server: the modern door


MODERN_FIELDS = frozenset({PROTOCOL_VERSION, CLIENT_CAPABILITIES})
"""A request with one of these keys in its `_meta` is modern. The era is decided for each request by itself:
one connection may serve both.

# spec: basic/versioning/dual-era-selects-stateless
# spec: basic/versioning/dual-era-server, basic/versioning/dual-era-concurrent
"""


def is_modern(params: Json) -> bool:
    """Whether a request is of the modern era, by the `_meta` in its params."""
    meta = params.get("_meta")
    return type(meta) is dict and not MODERN_FIELDS.isdisjoint(meta)


def context_from_meta(context: RequestContext, modern: Iterable[str], supported: Iterable[str]) -> None:
    """Fill the context of a request from its own `_meta`, and from nothing else.

    `modern` are the versions that the request may name. `supported` are all versions of the server: the error
    lists these, as `server/discover` does, so that a client that finds a legacy version there may send
    initialize instead. Raises UnsupportedProtocolVersion, InvalidMeta.

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
    """Refuse initialize on a server without the legacy era, even if more is wrong with the request.

    Raises UnsupportedProtocolVersion, whose message names the versions that the server supports: it may be
    all that the user of a legacy client gets to see.
    # spec: basic/versioning/initialize-error-names-versions
    # spec: basic/versioning/modern-only-initialize-stdio, basic/versioning/modern-only-initialize-http
    """
    offered = params.get("protocolVersion") if type(params) is dict else None
    raise UnsupportedProtocolVersion(offered if type(offered) is str else str(offered)[:40], supported)


def require_capability(context: RequestContext, required: Json) -> None:
    """Raise MissingRequiredClientCapability unless the client declared these capabilities.

    `{"elicitation": {"url": {}}}` requires a part of a capability.
    # spec: basic/index/no-undeclared-capability
    # spec: basic/versioning/extension-fallback-or-reject
    """
    missing = missing_capabilities(required, context.client_capabilities)
    if missing:
        raise MissingRequiredClientCapability(missing)


def check_extensions(extensions: Mapping[str, Any]) -> None:
    """Check the extensions that capabilities will declare: identifier -> settings. Raises ValueError.

    # spec: basic/versioning/extension-id-format, basic/versioning/extension-settings-object
    """
    for identifier, settings in extensions.items():
        match = META_KEY.fullmatch(identifier) if isinstance(identifier, str) else None
        if match is None or match["prefix"] is None or not match["name"]:
            raise ValueError(f"{identifier!r} is not an extension's identifier: it needs prefix/name")
        if not isinstance(settings, Mapping):
            raise ValueError(f"the settings of {identifier} are an object, perhaps an empty one: {{}}")


IMPLIED_PARTS: dict[str, Json] = {"elicitation": {"form": {}}}
"""The parts that a capability has if it was declared as an empty object.

# spec: client/elicitation/empty-capability-means-form
"""


def missing_capabilities(required: Json, declared: Any) -> Json:
    """The required capabilities, or parts of them, that were not declared, in the same form as `required`."""
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
    """The newest of our modern versions that a server lists in its error -32022, for a retry.

    It may be the version that was refused. A server may refuse a version that it accepted before, if it was
    restarted as another release. None if the error is another one, or lists no modern version of ours: then
    the error, which says what the server supports, is for the caller.
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
    """The advice for a client that supports only modern versions and has met a legacy server.

    # spec: basic/versioning/modern-client-actionable-error
    """
    spoken, newest_legacy = ", ".join(supported), newest(REVISIONS, Era.LEGACY)
    return (
        f"this client speaks {spoken} alone: connect with revision={str(newest_legacy)!r}, or without "
        "`revision`, to reach a legacy server"
    )
