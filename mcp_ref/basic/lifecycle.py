"""Lifecycle (page: basic/lifecycle), and the legacy door.

    client -> server   initialize {protocolVersion, capabilities, clientInfo}
    server -> client   {protocolVersion, capabilities, serverInfo, instructions?}
    client -> server   notifications/initialized
    ... each uses what the other declared, until the transport closes ...

What the handshake agreed on is the state of the session, and applies to all later requests. The server
answers with the version that the client offered if it supports that version, else with the newest legacy
version that it supports; the client then accepts the version or disconnects.

Revisions   2024-11-05 to 2025-11-25. 2026-07-28 has no handshake: each request carries in its `_meta` what
            initialize said, and server/discover returns the server's part (basic/versioning, server/discover)
            2025-06-18  version and capabilities MUST be respected, no longer SHOULD

    state       on                          becomes
    NEW         initialize                  ANSWERED
    ANSWERED    notifications/initialized   OPEN

    Until the session is OPEN, the server accepts only the next step and `ping`. Any other request is answered
    with an error that says which step is missing; a second `initialize` is an error too. A
    notifications/initialized in another state is ignored.

Threads     the reader runs `on_initialize` and `on_initialized`, so that the messages that follow on the wire
            find the session in its new state. `context_from_session` runs on workers (for ping and
            initialize: on the reader) and only reads the session.
Not here    shutdown and time-outs: the transports end a connection, and each request has its own deadline
            (basic/patterns/index/requester).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Required, TypedDict

from mcp_ref.basic.index.error_responses import InvalidParams, InvalidRequest
from mcp_ref.basic.index.general_fields import (
    SERVER_INFO,
    Implementation,
    JSONObject,
    RequestMeta,
    ResultMeta,
)
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import (
    TABLE,
    Era,
    Method,
    Notification,
    Revision,
    UnsupportedProtocolVersion,
    Versions,
    newest,
    newest_first,
)
from mcp_ref.runtime.errors import InvalidResponse, LocalError
from mcp_ref.runtime.logs import logger
from mcp_ref.schema import Mismatch, checker, pruner, since, until, was

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.connection import Connection
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.progress import Report
    from mcp_ref.server.utilities.logging import LoggingLevel  # only the type of a field

__all__ = ["ClientCapabilities", "KnowsServer", "Negotiated", "ServerCapabilities", "Session"]

_log = logger("mcp_ref.lifecycle")

# ---------------------------------------------------------------------------- shapes

AnyObject = Annotated[JSONObject, was(Json, until="2025-11-25")]


class RootsCapability(TypedDict, total=False):
    listChanged: Annotated[bool, until("2025-11-25")]


class SamplingCapability(TypedDict, total=False):
    context: Annotated[AnyObject, since("2025-11-25")]
    tools: Annotated[AnyObject, since("2025-11-25")]


class ElicitationCapability(TypedDict, total=False):
    form: Annotated[AnyObject, since("2025-11-25")]
    url: Annotated[AnyObject, since("2025-11-25")]


class ElicitationTasks(TypedDict, total=False):
    create: Json


class SamplingTasks(TypedDict, total=False):
    createMessage: Json


class ToolTasks(TypedDict, total=False):
    call: Json


class ClientTaskRequests(TypedDict, total=False):
    elicitation: ElicitationTasks
    sampling: SamplingTasks


class ServerTaskRequests(TypedDict, total=False):
    tools: ToolTasks


class ClientTasks(TypedDict, total=False):
    list: Json
    cancel: Json
    requests: ClientTaskRequests


class ServerTasks(TypedDict, total=False):
    list: Json
    cancel: Json
    requests: ServerTaskRequests


class ClientCapabilities(TypedDict, total=False):
    """The features of this client that a server may use.  # spec: basic/lifecycle/capability-names"""

    experimental: dict[str, AnyObject]
    extensions: Annotated[dict[str, JSONObject], since("2026-07-28")]
    roots: RootsCapability
    sampling: SamplingCapability
    elicitation: Annotated[ElicitationCapability, since("2025-06-18")]
    tasks: Annotated[ClientTasks, since("2025-11-25"), until("2025-11-25")]


class ListChanged(TypedDict, total=False):
    listChanged: bool


class ResourcesCapability(TypedDict, total=False):
    subscribe: bool
    listChanged: bool


class ServerCapabilities(TypedDict, total=False):
    """The features of this server that a client may use."""

    experimental: dict[str, AnyObject]
    extensions: Annotated[dict[str, JSONObject], since("2026-07-28")]
    logging: AnyObject
    completions: Annotated[AnyObject, since("2025-03-26")]
    prompts: ListChanged
    resources: ResourcesCapability
    tools: ListChanged
    # spec: extensions/tasks/legacy-not-advertised, extensions/tasks/legacy-declaration-migrated
    tasks: Annotated[ServerTasks, since("2025-11-25"), until("2025-11-25")]


class InitializeRequestParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25")]
    protocolVersion: Required[str]
    capabilities: Required[ClientCapabilities]
    clientInfo: Required[Implementation]


class InitializeResult(TypedDict, total=False):
    _meta: ResultMeta
    protocolVersion: Required[str]
    capabilities: Required[ServerCapabilities]
    serverInfo: Required[Implementation]
    instructions: str


DEFINITIONS: dict[str, Any] = {
    "ClientCapabilities": ClientCapabilities,
    "ServerCapabilities": ServerCapabilities,
}

# ----------------------------------------------------------------------- the session


class State(enum.Enum):
    """How far the handshake has come."""

    NEW = "new"
    ANSWERED = "answered"
    OPEN = "open"


TRANSITIONS = {
    (State.NEW, "initialize"): State.ANSWERED,
    (State.ANSWERED, "notifications/initialized"): State.OPEN,
}


class Session:
    """What the handshake agreed on. Both sides keep one per connection (or HTTP session)."""

    def __init__(self) -> None:
        # Written by the reader, read by workers; each attribute is replaced, never changed in place.
        self.state = State.NEW
        self.revision: Revision = TABLE[0]
        self.client_info: Any = {}
        self.client_capabilities: Any = {}
        self.server_capabilities: Json = {}
        self.log_level: LoggingLevel | None = None
        self.is_lasting = True
        """False over HTTP without sessions (`stateless=True`), where a session lasts for one message: no
        notification can be sent between two requests, so listChanged is not declared."""
        self.roots: Any = None
        """The list of the client's roots while it is known; None, or a marker while it is requested
        (client/roots)."""
        self.reporters: dict[str, Callable[[Report], object]] = {}
        """Receivers of the progress of tasks, by progress token. The requests that began these tasks have
        been answered, so their calls cannot take the reports."""

    def declares_changes(self, kind: str) -> bool:
        """Whether the server declared listChanged for a list ("tools", "prompts" or "resources").

        # spec: basic/lifecycle/negotiated-capabilities-only
        """
        return self.server_capabilities.get(kind, {}).get("listChanged") is True

    @property
    def is_ready(self) -> bool:
        """Whether the handshake is done, so that either side may send anything.

        # spec: basic/lifecycle/no-requests-before-initialized
        """
        return self.state is State.OPEN

    @property
    def is_negotiated(self) -> bool:
        """Whether a revision was negotiated."""
        return self.state is not State.NEW

    def assume(self, agreed: Revision, capabilities: Json) -> None:
        """Open the session without a handshake, with what the server would have answered to `initialize`.

        For a message over HTTP that is served without a session: TRANSITIONS is not followed.
        """
        self.revision = agreed
        self.server_capabilities = pruner(ServerCapabilities, agreed.date)(capabilities)
        self.state = State.OPEN

    def step(self, event: str) -> None:
        """Go to the next state, by TRANSITIONS. Raises InvalidRequest if it has no row for the event."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise InvalidRequest(f"{event} is not allowed now: the session is {self.state.value}")
        self.state = following


# ------------------------------------------------------------------- server: the legacy door


class ServerFacts(Protocol):
    """What a server says about itself in the handshake."""

    @property
    def info(self) -> Implementation:
        """The server's name and version."""

    @property
    def instructions(self) -> str | None:
        """How to use the server, for the model."""

    @property
    def versions(self) -> Versions:
        """The protocol versions that the server supports."""

    def capabilities(self, at: Revision, *, tells: bool = True, knows_requestor: bool = False) -> Json:
        """The capabilities to declare in a revision.

        `tells`: whether notifications reach the client at any time (else no listChanged, no subscribe).
        `knows_requestor`: whether this client can be told apart from others (else no tasks/list).
        """


def on_initialize(server: ServerFacts, params: Json, context: RequestContext) -> Json:
    """Answer `initialize`: agree on a version, and store what both sides declared.

    # spec: basic/lifecycle/init-response, basic/versioning/dual-era-selects-legacy
    # spec: basic/versioning/initialize-scoped-to-process
    """
    # Step 1: a session can be initialized only once.
    session = context.connection.session
    if (session.state, "initialize") not in TRANSITIONS:
        raise InvalidRequest("initialize: this connection is initialized already")
    # Step 2: choose the version, and check the params by the schema of that version.
    offered = params.get("protocolVersion")
    if type(offered) is not str:
        raise InvalidParams("initialize: protocolVersion: must be a string")
    agreed = negotiate(offered, server.versions.supported)
    try:
        checker(InitializeRequestParams, agreed.date, ("_meta",))(params)
    except Mismatch as problem:
        raise InvalidParams(f"initialize: {problem}") from None
    # Step 3: store what both sides declared.
    session.revision = agreed
    session.client_info = params["clientInfo"]
    session.client_capabilities = params["capabilities"]
    session.server_capabilities = pruner(ServerCapabilities, agreed.date)(
        server.capabilities(agreed, tells=session.is_lasting, knows_requestor=_is_told_apart(context))
    )
    # Step 4: await notifications/initialized.
    session.step("initialize")
    # Step 5: answer with the version and the server's half.
    result: Json = {
        "protocolVersion": agreed.date,
        "capabilities": session.server_capabilities,
        "serverInfo": pruner(Implementation, agreed.date)({**server.info}),
    }
    if server.instructions:
        result["instructions"] = server.instructions
    return result


def _is_told_apart(context: RequestContext) -> bool:
    """Whether this client can be told apart from others: by its principal, or as the only one on its pipe."""
    server = context.handling.server
    has_principals = server is not None and server.has_principals
    return has_principals or context.principal is not None or not context.connection.responder.is_shared


def negotiate(offered: str, supported: Iterable[str]) -> Revision:
    """The version to answer `initialize` with: the one offered if supported, else the newest legacy one.

    Raises UnsupportedProtocolVersion if the server has no legacy version.

    # spec: basic/lifecycle/echo-supported-version, basic/lifecycle/counter-offer-version
    # spec: basic/lifecycle/counter-offer-latest, basic/lifecycle/handle-version-mismatch
    """
    same = newest({offered} & set(supported), Era.LEGACY)
    agreed = same or newest(supported, Era.LEGACY)
    if agreed is None:
        raise UnsupportedProtocolVersion(offered, newest_first(supported))
    return agreed


def on_initialized(connection: Connection) -> bool:
    """Open the session: the client is ready. False, and nothing happens, in another state than ANSWERED."""
    try:
        connection.session.step("notifications/initialized")
    except InvalidRequest as problem:
        _log.info("ignored: %s", problem)
        return False
    return True


MODERN_HINT = "put io.modelcontextprotocol/protocolVersion and .../clientCapabilities into params._meta"
"""What a request without a session needs instead of `initialize`, on a server of both eras."""


def context_from_session(context: RequestContext, *, has_modern: bool = True) -> None:
    """Fill the context of a request from its session. Raises InvalidParams, InvalidRequest.

    `has_modern`: whether the server has the modern era as well, for the advice in the error.
    """
    session = context.connection.session
    if context.method not in ("ping", "initialize"):
        if session.state is State.NEW:  # spec: basic/lifecycle/init-first
            otherwise = f", or (2026-07-28) {MODERN_HINT}" if has_modern else ""
            raise InvalidParams(f"{context.method[:80]}: not initialized; send initialize first{otherwise}")
        if session.state is State.ANSWERED:
            raise InvalidRequest(f"{context.method[:80]}: send notifications/initialized first")
    token = context.meta.get("progressToken")
    if token is not None and type(token) is not str and type(token) is not int:
        raise InvalidParams("params._meta.progressToken: must be a string or an integer")
    context.session = session
    # spec: basic/lifecycle/respect-version, basic/lifecycle/respect-version-should
    context.revision = session.revision
    context.client_info = session.client_info
    context.client_capabilities = session.client_capabilities
    context.reports.log_level = session.log_level
    context.reports.progress_token = token


METHODS = (
    Method(
        "initialize",
        on_initialize,
        until="2025-11-25",
        params=InitializeRequestParams,
        result=InitializeResult,
        handler_checks=True,
    ),
)
NOTIFICATIONS = (Notification("notifications/initialized", "Initialized", "client", until="2025-11-25"),)

# --------------------------------------------------------------------------- client half


CAPABILITIES = {
    "tools": "tools",
    "resources": "resources",
    "prompts": "prompts",
    "completion": "completions",
    "logging": "logging",
}
"""The part of a method before the slash -> the server capability that the method needs."""

PARTS = {"resources/subscribe": "subscribe", "resources/unsubscribe": "subscribe"}
"""Method -> the part of the capability that the method needs as well.

# spec: architecture/index/subscription-capability-needed
"""


class KnowsServer(Protocol):
    """A client that has agreed with its server on a revision; pages extend this by what else they need."""

    @property
    def negotiated(self) -> Negotiated:
        """What the client and its server agreed on."""


class Negotiated:
    """What a client and its server agreed on, in either era, and what each said about itself."""

    def __init__(
        self, info: Json, declared: Json, revisions: Iterable[str], *, allows_tasks: bool = True
    ) -> None:
        self.info = info
        self.allows_tasks = allows_tasks
        """Whether requests of 2026-07-28 may declare the tasks extension where they need it."""
        self.declared = declared
        """The client's capabilities, in the shape of the newest revision."""
        self.revisions = list(revisions)
        """The revisions that the client supports."""
        # Written when the connection opens, and when a modern server changes to another revision.
        self.revision: Revision = TABLE[0]
        self.capabilities = declared
        """The client's capabilities, in the shape of `revision`."""
        self.server_info: Json = {}
        self.server_capabilities: Json | None = None
        self.instructions: str | None = None

    @property
    def server_name(self) -> str:
        """The server's title or name, to show to people."""
        name = self.server_info.get("title") or self.server_info.get("name")
        return name if isinstance(name, str) and name else "a server without a name"

    def undeclared(self, method: str) -> str | None:
        """The capability that a method needs and the server did not declare. None: the method may be sent."""
        capability = CAPABILITIES.get(method.partition("/")[0])
        if capability == "completions" and not self.revision.reaches("2025-03-26"):
            return None  # 2024-11-05 has completion, but no capability for it
        declared = self.server_capabilities
        if capability is None or declared is None:
            return None
        if capability not in declared:
            return capability
        part = PARTS.get(method)
        return f"{capability}.{part}" if part is not None and not declared[capability].get(part) else None

    def check_declared(self, method: str) -> None:
        """Check that the server declared the capability that a method needs. Raises LocalError.

        # spec: basic/lifecycle/negotiated-capabilities-only, architecture/index/respect-declared-capabilities
        # spec: basic/lifecycle/negotiated-capabilities-only-should, basic/lifecycle/handle-capability-failure
        """
        lacking = self.undeclared(method)
        if lacking is not None:
            raise LocalError(f"{method}: the server did not declare the capability {lacking!r}")

    def initialize(self, connection: Connection, timeout: float | None = None) -> None:
        """Open a session, by the handshake. Nothing else is sent until `initialize` is answered.

        Raises RequestTimeout, and what `hello` and `open_legacy` raise.

        # spec: basic/lifecycle/no-requests-before-init-response, basic/lifecycle/handle-init-timeout
        """
        self.open_legacy(connection, connection.request("initialize", self.hello(), timeout=timeout))

    def hello(self) -> Json:
        """The params of `initialize`, which offer the newest legacy revision that the client supports.

        Raises LocalError if it supports only modern ones.

        # spec: basic/lifecycle/init-request, basic/lifecycle/offer-supported-version
        # spec: basic/lifecycle/offer-latest-version
        """
        offer = newest(self.revisions, Era.LEGACY)
        if offer is None:
            raise LocalError(f"the server is a legacy one; this client speaks {', '.join(self.revisions)}")
        return {
            "protocolVersion": offer.date,
            "capabilities": pruner(ClientCapabilities, offer.date)(self.declared),
            "clientInfo": pruner(Implementation, offer.date)(self.info),
        }

    def go_on_in(self, chosen: Revision) -> None:
        """Use this revision from now on, and declare our capabilities in its shape."""
        self.revision = chosen
        self.capabilities = pruner(ClientCapabilities, chosen.date)(self.declared)

    def open_modern(self, connection: Connection, chosen: Revision, result: Json) -> None:
        """Store the server's answer to server/discover. The modern era has no session to open.

        # spec: schema/removed-notifications-2026
        """
        self.go_on_in(chosen)
        connection.responder.is_mute = True
        self.server_capabilities = result["capabilities"]
        self.server_info = result.get("_meta", {}).get(SERVER_INFO, {})
        self.instructions = result.get("instructions")

    def open_legacy(self, connection: Connection, result: Json) -> None:
        """Store the server's answer to `initialize`, and send notifications/initialized.

        Raises LocalError, InvalidResponse; then the caller disconnects.

        # spec: basic/lifecycle/disconnect-on-unsupported, schema/initialize-must-disconnect
        # spec: basic/lifecycle/handle-version-mismatch, schema/initialize-older-versions
        """
        # Step 1: the version must be one that this client supports.
        offered = result.get("protocolVersion")
        agreed = newest({offered} & set(self.revisions), Era.LEGACY) if isinstance(offered, str) else None
        if agreed is None:
            raise LocalError(f"the server speaks {offered!r:.40}; this client {', '.join(self.revisions)}")
        # Step 2: the result must be valid in that version.
        try:
            checker(InitializeResult, agreed.date)(result)
        except Mismatch as problem:
            raise InvalidResponse(f"initialize: {problem}") from None
        # Step 3: store what was agreed on, before the server may send requests.
        self.go_on_in(agreed)
        session = connection.session
        session.revision = agreed
        session.server_capabilities = self.server_capabilities = result["capabilities"]
        self.server_info = result["serverInfo"]
        self.instructions = result.get("instructions")
        session.step("initialize")
        # Step 4: tell the server that this client is ready.
        connection.notify("notifications/initialized")  # spec: basic/lifecycle/initialized-notification
        session.step("notifications/initialized")
