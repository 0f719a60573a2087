"""Browsers, and the authorization requests that wait in them for a person.

    BrowserSession   a browser that was here: known by a cookie, and who is logged in there
    Flow             one authorization request, from the first page to the answer; a browser may have several

A form is taken from the browser that it was given to, once for each flow: it names its flow and has the
flow's CSRF token, and the cookie must be that of the flow's session. When a user logs in the cookie changes,
so that one that an attacker had put into the browser before is worth nothing afterwards; flows in other tabs
go on.

Threads     any. A flow is taken out of its table by what answers it, so of two threads one does.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from mcp_ref.extras.authorization_server.clients import RegisteredClient
from mcp_ref.extras.authorization_server.expiring import Expiring
from mcp_ref.extras.authorization_server.messages import PageError, Request, cookie
from mcp_ref.extras.authorization_server.settings import Settings

__all__ = ["AuthorizationRequest", "BrowserSession", "Browsers", "Flow"]

FLOW_SECONDS = 600.0
"""For which a person may think about it."""
SESSION_SECONDS = 3600.0
"""For which a user stays logged in."""
MAX_FLOWS = 5_000
MAX_SESSIONS = 10_000

_FORGOTTEN = (
    "This page is too old, or belongs to another browser. Go back to the application and begin again."
)


@dataclass(frozen=True)
class AuthorizationRequest:
    """An authorization request whose every part was checked."""

    client: RegisteredClient
    redirect_uri: str
    state: str | None
    scopes: tuple[str, ...]
    resource: str
    challenge: str
    jkt: str | None = None
    """The key that the code is bound to (RFC 9449, section 10)."""


@dataclass
class BrowserSession:
    """A browser."""

    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    user: str | None = None
    logged_in_until: float = 0.0

    def current_user(self) -> str | None:
        return self.user if self.logged_in_until > time.monotonic() else None


@dataclass(frozen=True)
class Flow:
    """An authorization request in a browser."""

    request: AuthorizationRequest
    session: BrowserSession
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def fields(self) -> list[tuple[str, str]]:
        """What each form of it has hidden in it."""
        return [("flow", self.id), ("csrf", self.csrf)]


class Browsers:
    """All browsers that are under way here."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Ports share their cookies: two servers on one machine need two names.
        mark = hashlib.sha256(settings.issuer.encode("utf-8")).hexdigest()[:8]
        self.cookie_name = f"{'__Host-' if settings.is_secure else ''}mcp_ref_{mark}"
        self._sessions: Expiring[BrowserSession] = Expiring(MAX_SESSIONS, SESSION_SECONDS)
        self._flows: Expiring[Flow] = Expiring(MAX_FLOWS, FLOW_SECONDS)

    def begin(self, request: Request, wanted: AuthorizationRequest) -> tuple[Flow, tuple[str, str]]:
        """A new flow in this browser, and the cookie of the browser."""
        session = self.session_of(request) or BrowserSession()
        self._sessions.put(session.cookie, session)
        flow = Flow(wanted, session)
        self._flows.put(flow.id, flow)
        return flow, self._cookie(session)

    def flow_of(self, request: Request, given: Mapping[str, str]) -> Flow:
        """The flow that a page of this browser belongs to. Raises PageError."""
        flow = self._flows.get(given.get("flow"))
        session = self.session_of(request)
        if flow is None or session is None or session is not flow.session:
            raise PageError(_FORGOTTEN, HTTPStatus.FORBIDDEN)
        return flow

    def check_form(self, request: Request, form: Mapping[str, str]) -> Flow:
        """The flow of a form that was filled in in this browser, on a page of ours. Raises PageError."""
        origin = request.header("Origin")
        if origin is not None and origin != self._settings.origin:
            raise PageError("The form came from another site.", HTTPStatus.FORBIDDEN)
        flow = self.flow_of(request, form)
        if not hmac.compare_digest(form.get("csrf", "").encode("utf-8"), flow.csrf.encode("utf-8")):
            raise PageError("The form is not one of this page.", HTTPStatus.FORBIDDEN)
        return flow

    def finish(self, flow: Flow) -> None:
        """End a flow, for it is answered. Raises PageError if it was answered before."""
        if self._flows.take(flow.id) is None:
            raise PageError(_FORGOTTEN, HTTPStatus.FORBIDDEN)

    def log_in(self, session: BrowserSession, user: str) -> tuple[str, str]:
        """Note who sits in front of the browser. Returns its new cookie."""
        self._sessions.take(session.cookie)
        session.cookie = secrets.token_urlsafe(32)
        session.user, session.logged_in_until = user, time.monotonic() + SESSION_SECONDS
        self._sessions.put(session.cookie, session)
        return self._cookie(session)

    def log_out(self, session: BrowserSession) -> None:
        session.user = None

    def session_of(self, request: Request) -> BrowserSession | None:
        """The browser that sent a request, if it was here before."""
        found = request.cookie(self.cookie_name)
        return None if found is None else self._sessions.get(found)

    def _cookie(self, session: BrowserSession) -> tuple[str, str]:
        return cookie(self.cookie_name, session.cookie, SESSION_SECONDS, is_secure=self._settings.is_secure)
