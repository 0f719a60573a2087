"""The less common options of a server or a client: `Server(..., options=ServerOptions(workers=10))`.

Revisions   all.
Threads     any: these objects never change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from mcp_ref.basic.index.general_fields import Icon, check_icons
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr.basic_workflow import MAX_ROUNDS
from mcp_ref.basic.transports.stdio.backward_compatibility import PROBE_TIMEOUT_SECONDS, KnownEras
from mcp_ref.basic.versioning import check_extensions, revision
from mcp_ref.client.elicitation import requests
from mcp_ref.client.elicitation.requests import MODES
from mcp_ref.runtime.checks import (
    check_bool,
    check_callable,
    check_count,
    check_object,
    check_seconds,
    check_text,
    check_text_if_any,
)
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.runtime.threads.workers import MAX_WAITING_BYTES
from mcp_ref.schema import REVISIONS
from mcp_ref.server.utilities.caching import CacheScope, Caching, hints_by_method

if TYPE_CHECKING:
    from mcp_ref.api.resource_server import ResourceServer
    from mcp_ref.basic.transports.streamable_http.options import HttpOptions
    from mcp_ref.basic.transports.streamable_http.security import Authenticate

__all__ = ["AppOptions", "ClientOptions", "RunOptions", "ServerOptions"]

FEATURES = ("tools", "resources", "prompts", "completions")
"""Capabilities that a server may declare before anything is registered for them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerOptions:
    """How a server describes itself, what it declares, and within which bounds it serves.

    Raises TypeError or ValueError for an invalid option, and names it.
    """

    description: str | None = None
    """What it is for, in a sentence that a client may show."""
    website_url: str | None = None
    """Where there is more about it."""
    icons: list[Icon] | None = None
    """Pictures that a client may show beside its name."""
    identify: bool = True
    """Whether each result of 2026-07-28 says which server it is from (serverInfo)."""

    offers: Iterable[str] = ()
    """Capabilities to declare though nothing is registered for them yet: some of FEATURES."""
    logging: bool = True
    """Whether clients may be sent log messages."""
    experimental: dict[str, Json] | None = None
    """Capabilities outside the specification: name -> settings."""
    extensions: dict[str, Json] | None = None
    """Extensions that it supports: identifier -> settings."""

    ttl_ms: int = 0
    """Milliseconds for which clients may cache results."""
    cache_scope: CacheScope = "private"
    """Whether a cached result may be given to others than the client that requested it."""
    caching: Mapping[str, Caching] | None = None
    """The same two for single methods: {"tools/list": Caching(60_000)}."""

    workers: int = 100
    """Requests that run at once: of each connection, or of all over HTTP."""
    queue: int = 1000
    """Requests that may wait for a worker; beyond them, requests are refused."""
    queue_bytes: int = MAX_WAITING_BYTES
    """Bytes of all messages that may wait for a worker."""
    max_message_bytes: int = 64 << 20
    """Bytes of the longest message that is read."""
    notices: Limit | None = None
    """How many progress and log messages one connection may be sent."""

    timeout: float = 30.0
    """Seconds that a request to the client waits for its answer."""
    ping_every: float | None = None
    """Seconds between pings of a legacy client, which is given up if one is not answered within `timeout`."""
    state_seconds: float = 900.0
    """Seconds for which the state of a question is accepted."""
    audit_arguments: bool = False
    """Whether the audit has the arguments of calls, too."""

    def __post_init__(self) -> None:
        check_text_if_any(description=self.description, website_url=self.website_url)
        check_icons(self.icons or [])
        check_bool(identify=self.identify, logging=self.logging, audit_arguments=self.audit_arguments)
        offers = frozenset((self.offers,) if isinstance(self.offers, str) else self.offers)
        if not offers <= set(FEATURES):
            raise ValueError(f"offers are some of {', '.join(FEATURES)}, not {', '.join(sorted(offers))}")
        object.__setattr__(self, "offers", offers)  # it may have been an iterator
        check_object(experimental=self.experimental, extensions=self.extensions, caching=self.caching)
        check_extensions(self.extensions or {})
        self.hints()
        check_count(1, workers=self.workers, max_message_bytes=self.max_message_bytes)
        check_count(0, queue=self.queue, queue_bytes=self.queue_bytes)
        if not isinstance(self.notices, Limit | None):
            raise TypeError(f"notices is a Limit, not {self.notices!r:.60}")
        check_seconds("timeout", self.timeout)
        check_seconds("state_seconds", self.state_seconds)
        if self.ping_every is not None:
            check_seconds("ping_every", self.ping_every)

    def hints(self) -> dict[str, Json]:
        """The caching hints of results, by method. Raises ValueError, TypeError."""
        return hints_by_method(Caching(self.ttl_ms, self.cache_scope), self.caching)


class AppOptions(TypedDict, total=False):
    """The keywords of `Server.wsgi_app` (basic/transports/streamable_http/endpoint)."""

    auth: ResourceServer | None
    health_path: str | None
    sse_path: str | None
    stateless: bool
    allowed_hosts: str | Iterable[str] | None
    allowed_origins: str | Iterable[str] | None
    authenticate: Authenticate | None
    threads: int | None
    keep_alive: float
    options: HttpOptions


class RunOptions(AppOptions, TypedDict, total=False):
    """The keywords of `Server.run("http")` (api/http_server)."""

    host: str
    port: int
    path: str
    grace: float
    max_connections: int
    on_ready: Callable[[str], object] | None
    log: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientOptions:
    """How a client describes itself, what it declares, and within which bounds it asks and is asked.

    Raises TypeError or ValueError for an invalid option, and names it.
    """

    name: str = "mcp_ref"
    """The client's name, as servers are told it."""
    version: str = "0"
    """Its version."""
    title: str | None = None
    """Its name for people."""
    revisions: Sequence[str] = REVISIONS
    """The revisions that it supports, unless `connect(revision=...)` insists on one."""
    experimental: Mapping[str, Json] | None = None
    """Capabilities outside the specification: name -> settings."""
    extensions: Mapping[str, Json] | None = None
    """Extensions that it supports: identifier -> settings."""
    tasks: bool = True
    """Whether calls may be tasks, and servers may have this client run tasks (basic/utilities/tasks).

    In 2026-07-28 a request declares tasks only where they are needed: `start_tool`, a call that was refused
    because it must be a task, and requests about a task.
    """

    elicitation_modes: Sequence[str] = MODES
    """What the callback `elicitation` can present: forms, URLs, or both."""
    sampling_tools: bool = False
    """Whether the model of `sampling` may be offered tools."""
    sampling_context: bool = False
    """Whether that model may be given context of other servers."""
    sampling_review: Callable[[Any, Any], Any] | None = None
    """`fn(request, proceed)` sees every request and answer of `sampling`, and may change or refuse them."""
    ask_limit: Limit | None = None
    """How often the server may ask for elicitation, sampling and roots."""
    ask_timeout: float = FOR_PEOPLE
    """Seconds that an answer of the application may take."""
    max_rounds: int = MAX_ROUNDS
    """How often one request is sent again with answers to what the server asked (basic/patterns/mrtr)."""

    max_timeout: float | None = None
    """Seconds for all of a request whose progress restarts its `timeout`; by default 20 times that."""
    probe_timeout: float = PROBE_TIMEOUT_SECONDS
    """Seconds, but at most `timeout`, for a process to answer server/discover; then it is sent `initialize`.

    See basic/transports/stdio/backward_compatibility.
    """
    ping_every: float | None = None
    """Seconds between pings of a legacy server, which is given up if one is not answered within `timeout`."""
    max_message_bytes: int = 64 << 20
    """Bytes of the longest message that is read."""
    eras: bool | KnownEras = True
    """Where the era of a server is remembered: in this process, nowhere (False), or in a KnownEras."""
    principal: Hashable = None
    """On whose behalf this client asks: a shared Cache keeps private results for each principal apart."""
    draft_headers: bool = False
    """Whether messages in sessions over HTTP have the `Mcp-*` headers, for servers of an interim draft."""
    audit_arguments: bool = False
    """Whether the audit has the arguments of calls, too."""

    env: Mapping[str, str] | None = None
    """Environment variables of a command, besides the few that a child gets by default."""
    cwd: str | os.PathLike[str] | None = None
    """The directory in which a command is run."""
    on_stderr: Callable[[str], object] | None = None
    """Called with each line that a command says on its stderr."""
    grace: float = 2.0
    """Seconds that a command has to exit after its stdin is closed, and again after SIGTERM; then SIGKILL."""
    session: Any = None
    """A `requests.Session`, for a URL: its proxies, certificates, headers, cookies and `auth` are used. One
    that sends in its own way is refused.
    """
    on_wire: Callable[[str, bytes], object] | None = None
    """Called with each message as it crosses the wire: ">" for one to the server, "<" for one from it."""

    def __post_init__(self) -> None:
        check_text(name=self.name, version=self.version)
        check_text_if_any(title=self.title)
        self._check_declared()
        check_bool(tasks=self.tasks, draft_headers=self.draft_headers)
        check_callable(sampling_review=self.sampling_review, on_stderr=self.on_stderr, on_wire=self.on_wire)
        check_object(env=self.env)
        check_text(**{f"env[{key}]": value for key, value in (self.env or {}).items()})
        if not isinstance(self.ask_limit, Limit | None):
            raise TypeError(f"ask_limit is a Limit, not {self.ask_limit!r:.60}")
        if not isinstance(self.eras, bool | KnownEras):
            raise TypeError(f"eras is True, False or a KnownEras, not {self.eras!r:.60}")
        check_count(1, max_message_bytes=self.max_message_bytes, max_rounds=self.max_rounds)
        seconds = ["ask_timeout", "probe_timeout", "grace"]
        seconds += [name for name in ("max_timeout", "ping_every") if getattr(self, name) is not None]
        for name in seconds:
            check_seconds(name, getattr(self, name))
        hash(self.principal)  # TypeError if it is not hashable: the cache has it in its keys

    def _check_declared(self) -> None:
        """Check what a server is told: revisions and capabilities."""
        if not self.revisions:
            raise ValueError("revisions names at least one revision")
        for date in self.revisions:
            revision(date)
        check_object(experimental=self.experimental, extensions=self.extensions)
        check_extensions(self.extensions or {})
        requests.capability(self.elicitation_modes)

    def declared(self) -> Json:
        """The capabilities beside those that the application's callbacks declare."""
        found = {"experimental": self.experimental, "extensions": self.extensions}
        return {kind: dict(what) for kind, what in found.items() if what}
