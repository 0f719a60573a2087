"""Browsers, and the authorization requests that wait in them for a person.

    BrowserSession   a browser that was here: the cookie by which it is known, and the user who is logged in
    Flow             one authorization request, from the first page to the answer; a browser may have several

A form is accepted only from the browser that it was given to: it names its flow and has the flow's CSRF
token, and the cookie must be that of the flow's session. Each flow is answered once. When a user logs in, the
cookie changes: a cookie that an attacker put into the browser before is then worthless. Flows in other tabs
go on.

Threads     any. The answer takes its flow out of the table, so of two threads only one can answer.
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
"""Seconds for which a person may think about a request."""
SESSION_SECONDS = 3600.0
"""Seconds for which a user stays logged in."""
MAX_FLOWS = 5_000
MAX_SESSIONS = 10_000

_FORGOTTEN = (
    "This page is too old, or belongs to another browser. Go back to the application and begin again."
)


@dataclass(frozen=True)
class AuthorizationRequest:
    """An authorization request, after all its parts were checked."""

    client: RegisteredClient
    redirect_uri: str
    state: str | None
    scopes: tuple[str, ...]
    resource: str
    challenge: str
    jkt: str | None = None
    """Thumbprint of the key that the code is bound to (RFC 9449, section 10)."""


@dataclass
class BrowserSession:
    """A browser that was here, and its user."""

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
        """The hidden fields of each of its forms."""
        return [("flow", self.id), ("csrf", self.csrf)]


class Browsers:
    """All browsers with sessions here, and their flows."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Servers on two ports of a machine share its cookies, so each needs a name of its own.
        mark = hashlib.sha256(settings.issuer.encode("utf-8")).hexdigest()[:8]
        self.cookie_name = f"{'__Host-' if settings.is_secure else ''}mcp_ref_{mark}"
        self._sessions: Expiring[BrowserSession] = Expiring(MAX_SESSIONS, SESSION_SECONDS)
        self._flows: Expiring[Flow] = Expiring(MAX_FLOWS, FLOW_SECONDS)

    def begin(self, request: Request, wanted: AuthorizationRequest) -> tuple[Flow, tuple[str, str]]:
        """Begin a flow in this browser. Returns it, and the header that sets the browser's cookie."""
        session = self.session_of(request) or BrowserSession()
        self._sessions.put(session.cookie, session)
        flow = Flow(wanted, session)
        self._flows.put(flow.id, flow)
        return flow, self._cookie(session)

    def flow_of(self, request: Request, given: Mapping[str, str]) -> Flow:
        """The flow that a request of this browser names. Raises PageError."""
        flow = self._flows.get(given.get("flow"))
        session = self.session_of(request)
        if flow is None or session is None or session is not flow.session:
            raise PageError(_FORGOTTEN, HTTPStatus.FORBIDDEN)
        return flow

    def check_form(self, request: Request, form: Mapping[str, str]) -> Flow:
        """Check that a form came from this browser and a page of ours. Returns its flow. Raises PageError."""
        origin = request.header("Origin")
        if origin is not None and origin != self._settings.origin:
            raise PageError("The form came from another site.", HTTPStatus.FORBIDDEN)
        flow = self.flow_of(request, form)
        if not hmac.compare_digest(form.get("csrf", "").encode("utf-8"), flow.csrf.encode("utf-8")):
            raise PageError("The form is not one of this page.", HTTPStatus.FORBIDDEN)
        return flow

    def finish(self, flow: Flow) -> None:
        """End a flow that is being answered. Raises PageError if it was answered before."""
        if self._flows.take(flow.id) is None:
            raise PageError(_FORGOTTEN, HTTPStatus.FORBIDDEN)

    def log_in(self, session: BrowserSession, user: str) -> tuple[str, str]:
        """Log a user in, in this browser. Returns the header that sets its new cookie."""
        self._sessions.take(session.cookie)
        session.cookie = secrets.token_urlsafe(32)
        session.user, session.logged_in_until = user, time.monotonic() + SESSION_SECONDS
        self._sessions.put(session.cookie, session)
        return self._cookie(session)

    def log_out(self, session: BrowserSession) -> None:
        session.user = None

    def session_of(self, request: Request) -> BrowserSession | None:
        """The session of the browser that sent a request; None if it has no session."""
        found = request.cookie(self.cookie_name)
        return None if found is None else self._sessions.get(found)

    def _cookie(self, session: BrowserSession) -> tuple[str, str]:
        return cookie(self.cookie_name, session.cookie, SESSION_SECONDS, is_secure=self._settings.is_secure)
