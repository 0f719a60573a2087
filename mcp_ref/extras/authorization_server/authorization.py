"""The authorization endpoint: from a client's request to the answer of a person.

    GET  /authorize   steps 1 to 4
    POST /login       step 5
    GET  /consent     step 6, after a login
    POST /consent     steps 7 and 8

    1  the client is known                         else a page: an error has nowhere to go
    2  the redirect URI is one that it registered  else a page
    3  the rest of the request is right            else an error to the redirect URI, or a page (see below)
    4  the request becomes a flow of this browser
    5  the user logs in, unless that was done in this browser before
    6  the user is asked
    7  the user answers, on our page, in this browser, once
    8  code, state and iss go to the redirect URI; after a No, an error

Why some errors do not go to the redirect URI, though it is registered: attackers can register one too, and
send people a link that leads to us, and from here, with an error, straight to the attacker's page (OAuth 2.1,
section 7.12.2). So an error redirects by itself only for a client of the operator, or if the URI leads to the
user's own machine. Otherwise the user gets a page that names the host, and a link to follow or not.

Errors      PageError. Errors that go to the redirect URI have the codes of OAuth 2.1, section 4.1.2.1.
Threads     any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

from mcp_ref.basic.authorization.client_registration import AUTHORIZATION_CODE, BadRegistration
from mcp_ref.basic.authorization.security_considerations import (
    check_code_challenge,
    redirect_is_loopback,
    redirect_uri_is_registered,
)
from mcp_ref.extras.authorization_server.browsers import AuthorizationRequest, Browsers, Flow
from mcp_ref.extras.authorization_server.clients import REFRESH_TOKEN, Clients, RegisteredClient
from mcp_ref.extras.authorization_server.logins import Logins
from mcp_ref.extras.authorization_server.messages import OAuthError, PageError, Request, Response, redirect
from mcp_ref.extras.authorization_server.pages import Consent, consent_page, error_page, login_page
from mcp_ref.extras.authorization_server.settings import Settings
from mcp_ref.extras.authorization_server.tokens import Granted, TokenTable

__all__ = ["Authorization", "answer_url", "consent_for", "form_of", "grant_of", "read_request"]

ScopesOf = Callable[[str], Collection[str]]
"""A user -> the scopes that he or she may grant."""

_LOCAL_ONLY = (
    "This application runs on this machine, or claims to: any program that runs here could say the same. "
    "Allow it only if you have just started it yourself."
)


# ------------------------------------------------------------------------------- the request


def read_request(settings: Settings, clients: Clients, request: Request) -> AuthorizationRequest | Response:
    """Steps 1 to 3. Returns the request, or the response to one that is wrong. Raises PageError."""
    try:
        query = request.query
    except OAuthError as problem:
        raise PageError(
            f"The application has sent a request that cannot be read: {problem.description}."
        ) from None
    client = _client_of(clients, query.get("client_id"))
    redirect_uri = _redirect_uri_of(client, query.get("redirect_uri"))
    try:
        return _checked(settings, client, redirect_uri, query)
    except OAuthError as problem:
        fault = {"error": problem.error, "error_description": problem.description}
        location = answer_url(settings, redirect_uri, query.get("state"), fault)
        return _told(client, redirect_uri, location, problem)


def _client_of(clients: Clients, client_id: str | None) -> RegisteredClient:
    """Step 1. Raises PageError."""
    if client_id is None:
        raise PageError("The application has not said who it is: there is no client_id.")
    try:
        client = clients.find(client_id)
    except BadRegistration as problem:
        raise PageError(f"The application cannot be accepted: {problem}.") from None
    if client is None:
        raise PageError("The application is not known here. Perhaps its registration has expired.")
    return client


def _redirect_uri_of(client: RegisteredClient, given: str | None) -> str:
    """Step 2. Raises PageError."""
    # spec: basic/authorization/client-registration/cimd-as-redirects
    if given is None and len(client.redirect_uris) == 1:
        return client.redirect_uris[0]
    if given is None or not redirect_uri_is_registered(given, client.redirect_uris):
        raise PageError(
            "The application wants the answer at an address (redirect_uri) that it did not register."
        )
    return given


def _checked(
    settings: Settings, client: RegisteredClient, redirect_uri: str, query: Mapping[str, str]
) -> AuthorizationRequest:
    """Step 3. Raises OAuthError."""
    if query.get("response_type") != "code":
        raise OAuthError("unsupported_response_type", "response_type is code")
    if query.get("response_mode", "query") != "query":
        raise OAuthError("invalid_request", "response_mode is query")
    if AUTHORIZATION_CODE not in client.grant_types:
        raise OAuthError("unauthorized_client", "the client did not register for authorization_code")
    for name, error in ("request", "request_not_supported"), ("request_uri", "request_uri_not_supported"):
        if name in query:
            raise OAuthError(error, f"{name} is not supported")
    if "none" in query.get("prompt", "").split(" "):
        raise OAuthError("interaction_required", "the user is always asked")
    try:
        challenge = check_code_challenge(query.get("code_challenge"), query.get("code_challenge_method"))
    except ValueError as problem:
        raise OAuthError("invalid_request", str(problem)) from None
    return AuthorizationRequest(
        client=client,
        redirect_uri=redirect_uri,
        state=query.get("state"),
        scopes=settings.scopes_of(query.get("scope")),
        resource=settings.resource_of(query.get("resource")),
        challenge=challenge,
        jkt=query.get("dpop_jkt"),
    )


def answer_url(settings: Settings, redirect_uri: str, state: str | None, answer: Mapping[str, str]) -> str:
    """The redirect URI with an answer: `state` as it came, and our issuer as `iss` (RFC 9207)."""
    # spec: basic/authorization/index/iss-emitted
    said = {**answer, **({} if state is None else {"state": state}), "iss": settings.issuer}
    joint = "?" if "?" not in redirect_uri else "" if redirect_uri.endswith(("?", "&")) else "&"
    return f"{redirect_uri}{joint}{urlencode(said)}"


def _told(client: RegisteredClient, redirect_uri: str, location: str, problem: OAuthError) -> Response:
    # spec: basic/authorization/security-considerations/trusted-auto-redirect
    if client.is_trusted or redirect_is_loopback(redirect_uri):
        return redirect(location)
    host = urlsplit(redirect_uri).netloc
    message = f"The application has sent a request that is wrong ({problem.error}): {problem.description}."
    return error_page(message, HTTPStatus.BAD_REQUEST, back=(f"Tell the application, at {host}", location))


# ------------------------------------------------------------------------------- the answer


def grant_of(request: AuthorizationRequest, user: str, upstream: object = None) -> Granted:
    """What the user grants with a Yes. `upstream` is what a proxy keeps with it."""
    return Granted(
        client_id=request.client.client_id,
        subject=user,
        scopes=request.scopes,
        resource=request.resource,
        has_refresh=REFRESH_TOKEN in request.client.grant_types,
        jkt=request.jkt,
        upstream=upstream,
    )


def consent_for(
    settings: Settings, request: AuthorizationRequest, user: str | None, next_host: str | None = None
) -> Consent:
    """What the consent page asks a person about a request."""
    client = request.client
    days = settings.refresh_seconds / 86400
    stays = f"It may go on without asking you again for {days:.3g} days."
    # spec: basic/authorization/security-considerations/localhost-warning
    local = client.origin == "document" and client.is_local_only
    return Consent(
        client=client.shown_name,
        client_host=client.host,
        redirect_host=urlsplit(request.redirect_uri).netloc,
        resource=request.resource,
        scopes=settings.described(request.scopes),
        user=user,
        stays=stays if REFRESH_TOKEN in client.grant_types else "",
        warnings=(_LOCAL_ONLY,) if local else (),
        next_host=next_host,
    )


class Authorization:
    """The authorization endpoint of a server whose users log in here."""

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        tokens: TokenTable,
        logins: Logins,
        scopes_of: ScopesOf | None = None,
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._tokens = tokens
        self._logins = logins
        self._scopes_of = scopes_of
        self._browsers = Browsers(settings)

    def authorize(self, request: Request) -> Response:
        """GET /authorize."""
        wanted = read_request(self._settings, self._clients, request)
        if isinstance(wanted, Response):
            return wanted
        flow, cookie = self._browsers.begin(request, wanted)  # Step 4
        return self._page(flow, cookie)

    def login(self, request: Request) -> Response:
        """POST /login: step 5."""
        form = form_of(request)
        flow = self._browsers.check_form(request, form)
        user = self._logins.log_in(form.get("name", ""), form.get("password", ""), request.address)
        if user is None or self._clients.is_name_of_operator(user):
            return self._login_page(flow, "That is not a name and a password that are known here.")
        cookie = self._browsers.log_in(flow.session, user)
        location = f"{self._settings.endpoint('consent')}?{urlencode({'flow': flow.id})}"
        return redirect(location, cookie)

    def show_consent(self, request: Request) -> Response:
        """GET /consent."""
        try:
            return self._page(self._browsers.flow_of(request, request.query))
        except OAuthError as problem:
            raise PageError(problem.description) from None

    def consent(self, request: Request) -> Response:
        """POST /consent."""
        form = form_of(request)
        flow = self._browsers.check_form(request, form)  # Step 7
        if form.get("answer") == "other":
            self._browsers.log_out(flow.session)
            return self._login_page(flow, "")
        user = flow.session.current_user()
        if user is None:
            return self._login_page(flow, "You were logged out meanwhile.")
        wanted = self._granted(flow, user)
        allowed = form.get("answer") == "allow" and bool(wanted.scopes or not flow.request.scopes)
        self._browsers.finish(flow)
        # Step 8
        self._clients.used(wanted.client)
        if not allowed:
            answer = {"error": "access_denied", "error_description": "the user has not allowed it"}
        else:
            grant = grant_of(wanted, user)
            answer = {"code": self._tokens.issue_code(grant, wanted.redirect_uri, wanted.challenge)}
        return redirect(answer_url(self._settings, wanted.redirect_uri, wanted.state, answer))

    def _page(self, flow: Flow, *headers: tuple[str, str]) -> Response:
        """Step 6: the consent page; or the login page, if the user is not logged in."""
        user = flow.session.current_user()
        if user is None:
            return self._login_page(flow, "", *headers)
        asked = consent_for(self._settings, self._granted(flow, user), user)
        return consent_page(self._settings.endpoint("consent"), flow.fields(), asked, *headers)

    def _login_page(self, flow: Flow, problem: str, *headers: tuple[str, str]) -> Response:
        action, client = self._settings.endpoint("login"), flow.request.client.shown_name
        return login_page(action, flow.fields(), client, problem, *headers)

    def _granted(self, flow: Flow, user: str) -> AuthorizationRequest:
        """The request, with only those scopes that this user may grant."""
        if self._scopes_of is None:
            return flow.request
        may = {*self._scopes_of(user), "offline_access"}
        return replace(flow.request, scopes=tuple(s for s in flow.request.scopes if s in may))


def form_of(request: Request) -> dict[str, str]:
    """The form of a page. Raises PageError."""
    try:
        return request.form()
    except OAuthError as problem:
        raise PageError(f"The form cannot be read: {problem.description}.", problem.status) from None
