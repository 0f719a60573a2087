"""A proxy: clients register and get their tokens here, and users log in at another provider.

Many providers know only clients that were registered by hand. To the provider, a proxy is such a client, with
one id and one secret; to all MCP clients, it is an authorization server:

    1  client   -> proxy      GET  /authorize        as with every authorization server
    2  user     -> proxy      POST /consent          may *this client* act for me?
    3  browser  -> provider   GET  its authorize     our client id, our state, our PKCE challenge
    4  browser  -> proxy      GET  /callback         the provider's code
    5  proxy    -> provider   POST its token         the provider's tokens, which stay here
    6  browser  -> client     the redirect URI       a code of ours
    7  client   -> proxy      POST /token            tokens of ours, for our resources

Why step 2, though the provider asks as well: the provider sees one client, us, and many providers do not ask
again for a client that was allowed once. Without a consent of our own, an attacker could register a client
here, send a user through, and get a code for that user without any question (the confused deputy).

So the state of step 3, and the cookie that belongs to it, are only made after the Yes. The callback accepts
a state once, and only from the browser that said Yes: the browser proves that by its session and by that
cookie, in which client, redirect URI and state are sealed.

Tokens of the provider stay in this process. `proxy.upstream_token(access_token)` gives one to the MCP server,
which sends it on to the provider's own services, and never the token that it was sent itself.

Revisions   2025-03-26 and later.
Errors      a person gets a PageError, a client access_denied, or server_error if the provider fails.
Threads     any. One thread at a time refreshes a token of the provider.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from mcp_ref.basic.authorization.index.access_tokens import AccessToken, Verifier
from mcp_ref.basic.authorization.security_considerations import s256
from mcp_ref.basic.authorization.token_requests import TokenClient
from mcp_ref.extras.authorization_server.authorization import (
    answer_url,
    consent_for,
    form_of,
    grant_of,
    read_request,
)
from mcp_ref.extras.authorization_server.browsers import AuthorizationRequest, Browsers, BrowserSession
from mcp_ref.extras.authorization_server.clients import RegisteredClient
from mcp_ref.extras.authorization_server.expiring import Expiring
from mcp_ref.extras.authorization_server.messages import (
    OAuthError,
    PageError,
    Request,
    Response,
    cookie,
    redirect,
)
from mcp_ref.extras.authorization_server.pages import consent_page
from mcp_ref.extras.authorization_server.server import Issuer
from mcp_ref.extras.authorization_server.settings import Settings
from mcp_ref.runtime.checks import check_callable
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.http_client.addresses import Reach
from mcp_ref.runtime.http_client.fetching import Fetcher
from mcp_ref.runtime.jose import Key
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.seals import BadSeal, Seal

__all__ = ["Proxy", "Upstream", "UpstreamTokens"]

_log = logger("mcp_ref.authorization_server")

CALLBACK_SECONDS = 600.0
"""Seconds that a user may take to log in at the provider."""
MAX_CALLBACKS = 5_000
UPSTREAM_SECONDS = 15.0
"""Seconds that the provider may take to answer."""
EARLY_SECONDS = 30.0
"""A token of the provider is refreshed if it expires within this many seconds."""

_CONSENT_PURPOSE = b"consent of a proxy"

Identify = Callable[[Mapping[str, Any]], str | None]
"""The provider's answer, with its tokens -> the user, or None if that user is not accepted here."""


@dataclass(frozen=True)
class Upstream:
    """The provider, and our client there. Raises TypeError if `client` is not a TokenClient."""

    authorize_url: str
    token_url: str
    client: TokenClient
    """Our client id there, and how that authenticates."""
    scopes: Sequence[str] = ()
    issuer: str | None = None
    """Its issuer, if known. An answer that names another one (`iss`, RFC 9207) is refused."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Further parameters for the authorization request, such as `audience` or `access_type`."""

    def __post_init__(self) -> None:
        if not isinstance(self.client, TokenClient):
            raise TypeError(f"client is a TokenClient, not {type(self.client).__name__}")


@dataclass
class UpstreamTokens:
    """Tokens of the provider, for one grant."""

    access_token: str = field(repr=False)
    expires_at: float | None = None
    """In monotonic time; None if the provider did not say."""
    refresh_token: str | None = field(default=None, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def is_old(self) -> bool:
        """Whether the access token has expired; or is about to, where it can be replaced."""
        early = 0.0 if self.refresh_token is None else EARLY_SECONDS
        return self.expires_at is not None and self.expires_at < time.monotonic() + early


class _Waiting(NamedTuple):
    """A flow whose user said Yes, and is now at the provider."""

    request: AuthorizationRequest
    session: BrowserSession
    verifier: str


class _Provider:
    """Talks to the provider."""

    def __init__(self, upstream: Upstream, callback: str, *, allow_private: bool) -> None:
        self.upstream = upstream
        self._callback = callback
        self._allowed = (Reach.LOOPBACK, Reach.PRIVATE) if allow_private else ()
        for url in (upstream.authorize_url, upstream.token_url):
            self._fetcher().check(url)

    def _fetcher(self) -> Fetcher:
        return Fetcher(allowed=self._allowed, seconds=UPSTREAM_SECONDS)

    def url(self, state: str, verifier: str) -> str:
        """Step 3: the provider's URL to which the browser is sent."""
        query = {
            **self.upstream.more,
            "response_type": "code",
            "client_id": self.upstream.client.client_id,
            "redirect_uri": self._callback,
            "state": state,
            "code_challenge": s256(verifier),
            "code_challenge_method": "S256",
            **({"scope": " ".join(self.upstream.scopes)} if self.upstream.scopes else {}),
        }
        there = self.upstream.authorize_url
        return f"{there}{'&' if urlsplit(there).query else '?'}{urlencode(query)}"

    def redeem(self, code: str, verifier: str) -> dict[str, Any]:
        """Step 5: redeem a code. Returns the provider's answer. Raises LocalError."""
        return self._ask(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._callback,
                "code_verifier": verifier,
            }
        )

    def refresh(self, tokens: UpstreamTokens) -> None:
        """Replace the tokens by new ones. Raises LocalError."""
        if tokens.refresh_token is None:
            raise LocalError("it has expired, and the provider gave no refresh token")
        answer = self._ask({"grant_type": "refresh_token", "refresh_token": tokens.refresh_token})
        new = tokens_of(answer)
        tokens.access_token, tokens.expires_at = new.access_token, new.expires_at
        tokens.refresh_token = new.refresh_token or tokens.refresh_token

    def _ask(self, form: Mapping[str, str]) -> dict[str, Any]:
        url = self.upstream.token_url
        headers, sent = self.upstream.client.authenticated(form, self.upstream.issuer or url)
        response = self._fetcher().post(url, sent, headers)
        answer = response.json()
        if response.status != 200 or not isinstance(answer.get("access_token"), str):
            raise response.error(f"the provider gave no token (status {response.status})")
        return answer


def tokens_of(answer: Mapping[str, Any]) -> UpstreamTokens:
    """The tokens in an answer of the provider."""
    seconds, refresh = answer.get("expires_in"), answer.get("refresh_token")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return UpstreamTokens(
        answer["access_token"],
        time.monotonic() + float(seconds) if is_number else None,  # type: ignore[arg-type]
        refresh if isinstance(refresh, str) else None,
    )


class Proxy(Issuer):
    """An authorization server whose users log in at another one.

        from mcp_ref import TokenClient
        from mcp_ref.extras.authorization_server import Proxy, Upstream

        upstream = Upstream(
            "https://provider.example.com/authorize",
            "https://provider.example.com/token",
            TokenClient("our id there", method="client_secret_basic", secret=os.environ["PROVIDER_SECRET"]),
            scopes=["openid"],
        )
        proxy = Proxy(
            "https://auth.example.com",
            upstream=upstream,
            identify=lambda answer: answer.get("user"),
            resources=["https://notes.example.com/mcp"],
            scopes={"notes:read": "Read your notes"},
        )

    At the provider, register the redirect URI `<issuer>/callback`.
    """

    def __init__(
        self,
        issuer: str,
        *,
        upstream: Upstream,
        identify: Identify,
        resources: Sequence[str],
        scopes: Mapping[str, str],
        clients: Iterable[RegisteredClient] = (),
        token_seconds: float = 600.0,
        refresh_seconds: float = 30 * 86400.0,
        registration: bool = True,
        metadata_documents: bool = True,
        allow_private: bool = False,
        key: Key | Mapping[str, Any] | str | None = None,
    ) -> None:
        """`identify` returns the user, given the answer of the provider's token endpoint. The other options
        are those of AuthorizationServer; `allow_private` allows a provider at a private address as well.
        """
        check_callable(identify=identify)
        settings = Settings(
            issuer,
            tuple(resources),
            dict(scopes),
            token_seconds,
            refresh_seconds,
            registration,
            metadata_documents,
            allow_private,
        )
        super().__init__(settings, clients, None, key)
        self._provider = _Provider(upstream, settings.endpoint("callback"), allow_private=allow_private)
        self._identify = identify
        self._browsers = Browsers(settings)
        self._seal = Seal(seconds=CALLBACK_SECONDS)
        self._waiting: Expiring[_Waiting] = Expiring(MAX_CALLBACKS, CALLBACK_SECONDS)
        self._app.add("GET", f"{settings.path}/authorize", self._authorize)
        self._app.add("POST", f"{settings.path}/consent", self._consent)
        self._app.add("GET", f"{settings.path}/callback", self._callback)

    def upstream_token(self, access_token: str) -> str | None:
        """The provider's access token behind one of ours, refreshed if need be.

        None if ours is not good, or if the provider gives no new one: then the user has to log in again.
        """
        found = self._tokens.find(access_token)
        tokens = None if found is None else found.family.grant.upstream
        if not isinstance(tokens, UpstreamTokens):
            return None
        if not tokens.lock.acquire(timeout=UPSTREAM_SECONDS):
            return None
        try:
            if tokens.is_old():
                self._provider.refresh(tokens)
            return tokens.access_token
        except LocalError as problem:
            _log.warning("a token of the provider was not refreshed: %s", problem)
            return None
        finally:
            tokens.lock.release()

    def verifier(self, resource: str) -> Verifier:
        """Return a verifier, as `Issuer` does. It also refuses a token of ours once the provider's token
        behind it expires and cannot be refreshed.
        """
        # spec: basic/authorization/index/third-party-status
        verify = super().verifier(resource)

        def verify_both(token: str) -> AccessToken | None:
            found = verify(token)
            return found if found is not None and self.upstream_token(token) is not None else None

        return verify_both

    # -- before the provider -----------------------------------------------------------------------

    def _authorize(self, request: Request) -> Response:
        """Step 1, answered with the consent page of step 2."""
        # spec: basic/authorization/security-considerations/proxy-consent
        wanted = read_request(self.settings, self._clients, request)
        if isinstance(wanted, Response):
            return wanted
        flow, header = self._browsers.begin(request, wanted)
        host = urlsplit(self._provider.upstream.authorize_url).netloc
        asked = consent_for(self.settings, wanted, None, next_host=host)
        return consent_page(self.settings.endpoint("consent"), flow.fields(), asked, header)

    def _consent(self, request: Request) -> Response:
        """Step 2: the user's answer; a Yes is redirected to the provider."""
        form = form_of(request)
        flow = self._browsers.check_form(request, form)
        self._browsers.finish(flow)
        self._clients.used(flow.request.client)
        if form.get("answer") != "allow":
            return self._answered(flow.request, {"error": "access_denied"})
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        self._waiting.put(state, _Waiting(flow.request, flow.session, verifier))
        return redirect(self._provider.url(state, verifier), self._consent_cookie(state, flow.request))

    def _consent_cookie(self, state: str, wanted: AuthorizationRequest) -> tuple[str, str]:
        """The cookie that seals what the user of this browser has said Yes to."""
        sealed = self._seal.sign([wanted.client.client_id, wanted.redirect_uri, state], _CONSENT_PURPOSE)
        name, is_secure = self._cookie_name(state), self.settings.is_secure
        return cookie(name, sealed, CALLBACK_SECONDS, is_secure=is_secure)

    def _cookie_name(self, state: str) -> str:
        """The name of a flow's cookie. Each flow has one, since a browser may have several flows."""
        mark = hashlib.sha256(state.encode("utf-8")).hexdigest()[:8]
        return f"{self._browsers.cookie_name}_{mark}"

    # -- after the provider ------------------------------------------------------------------------

    def _callback(self, request: Request) -> Response:
        """Steps 4 to 6."""
        try:
            query = request.query
        except OAuthError as problem:
            raise PageError(f"The answer of the provider cannot be read: {problem.description}.") from None
        waiting = self._waited_for(request, query.get("state", ""))
        forget = cookie(self._cookie_name(query["state"]), "", 0, is_secure=self.settings.is_secure)
        ours = self._provider.upstream.issuer
        if ours is not None and query.get("iss", ours) != ours:
            raise PageError("The answer is not one of the provider.")  # and so its code must not be used
        return self._answered(waiting.request, self._outcome(waiting, query), forget)

    def _waited_for(self, request: Request, state: str) -> _Waiting:
        """The flow that comes back, with a state that was given to this browser. The state is used up.

        Raises PageError.
        """
        waiting = self._waiting.get(state)
        if waiting is None:
            raise PageError(_NOT_EXPECTED, HTTPStatus.FORBIDDEN)
        try:
            given = self._seal.verify(request.cookie(self._cookie_name(state)) or "", _CONSENT_PURPOSE)
        except BadSeal:
            raise PageError(_NOT_EXPECTED, HTTPStatus.FORBIDDEN) from None
        wanted = waiting.request
        is_here = self._browsers.session_of(request) is waiting.session
        if given != [wanted.client.client_id, wanted.redirect_uri, state] or not is_here:
            raise PageError(_NOT_EXPECTED, HTTPStatus.FORBIDDEN)
        if self._waiting.take(state) is None:  # two callbacks at the same moment
            raise PageError(_NOT_EXPECTED, HTTPStatus.FORBIDDEN)
        return waiting

    def _outcome(self, waiting: _Waiting, query: Mapping[str, str]) -> dict[str, str]:
        """Step 5: the answer for the client, a code or an error."""
        if "code" not in query or "error" in query:
            denied = query.get("error") == "access_denied"
            return {"error": "access_denied" if denied else "server_error"}
        try:
            answer = self._provider.redeem(query["code"], waiting.verifier)
        except LocalError as problem:
            _log.warning("a code of the provider was not redeemed: %s", problem)
            return {"error": "server_error"}
        user = self._identify(answer)
        if user is None or self._clients.is_name_of_operator(user):
            return {"error": "access_denied"}
        grant = grant_of(waiting.request, user, tokens_of(answer))
        wanted = waiting.request
        return {"code": self._tokens.issue_code(grant, wanted.redirect_uri, wanted.challenge)}

    def _answered(
        self, wanted: AuthorizationRequest, answer: Mapping[str, str], *headers: tuple[str, str]
    ) -> Response:
        """Step 6: redirect the browser to the client, with an answer."""
        return redirect(answer_url(self.settings, wanted.redirect_uri, wanted.state, answer), *headers)


_NOT_EXPECTED = (
    "This answer was not expected here: it was used before, is too old, or belongs to another browser. "
    "Go back to the application and begin again."
)
