"""Options of a server that few authors need: `Server(..., options=ServerOptions(workers=10))`.

Revisions   all.
Threads     an object that never changes: any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from mcp_ref.basic.index.general_fields import Icon, check_icons
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.versioning import check_extensions
from mcp_ref.runtime.checks import (
    check_bool,
    check_count,
    check_object,
    check_seconds,
    check_text_if_any,
)
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.threads.workers import MAX_WAITING_BYTES
from mcp_ref.server.utilities.caching import CacheScope, Caching, hints_by_method

if TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.options import HttpOptions
    from mcp_ref.basic.transports.streamable_http.security import Authenticate

__all__ = ["AppOptions", "RunOptions", "ServerOptions"]

FEATURES = ("tools", "resources", "prompts", "completions")
"""Capabilities that a server may declare before there is anything behind them."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How a server describes itself, what it declares, and within which bounds it serves.

    Raises TypeError or ValueError for an option that cannot be, by its name.
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
    """What is declared though there is nothing of it yet: some of FEATURES."""
    logging: bool = True
    """Whether clients may be sent log messages."""
    experimental: dict[str, Json] | None = None
    """Capabilities of no specification: name -> settings."""
    extensions: dict[str, Json] | None = None
    """Extensions that it supports: identifier -> settings."""

    ttl_ms: int = 0
    """Milliseconds for which clients may keep results."""
    cache_scope: CacheScope = "private"
    """Whether a result may be given to others than the client that requested it."""
    caching: Mapping[str, Caching] | None = None
    """The same two for single methods: {"tools/list": Caching(60_000)}."""

    workers: int = 100
    """Requests that run at once: of each connection, or of all over HTTP."""
    queue: int = 1000
    """Requests that wait for a worker; beyond them, requests are refused."""
    queue_bytes: int = MAX_WAITING_BYTES
    """Bytes of all messages that wait."""
    max_message_bytes: int = 64 << 20
    """Bytes of the longest message that is read."""
    notices: Limit | None = None
    """Progress and log messages that one connection may be sent."""

    timeout: float = 30.0
    """Seconds for a request to the client."""
    ping_every: float | None = None
    """Seconds after which a legacy client is pinged, and left if it does not answer in `timeout`."""
    state_seconds: float = 900.0
    """Seconds for which the state of a question is good."""
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

    health_path: str | None
    sse_path: str | None
    stateless: bool
    allowed_hosts: str | Iterable[str] | None
    allowed_origins: str | Iterable[str] | None
    authenticate: Authenticate | None
    threads: int | None
    keep_alive: float
    options: HttpOptions


class RunOptions(AppOptions, total=False):
    """The keywords of `Server.run("http")` (api/http_server)."""

    host: str
    port: int
    path: str
    grace: float
    max_connections: int
    on_ready: Callable[[str], object] | None
