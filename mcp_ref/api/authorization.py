"""Access tokens for a client's requests over HTTP: `connect(url, auth=...)` (pages: basic/authorization).

    connect(url, auth="token")                a token that the application has
    connect(url, auth=lambda: read_token())   a function that returns one, called for each request
    connect(url, auth=OAuth())                gets tokens by itself: if the server wants one, a browser opens
    connect(url, auth=OAuth(client_id="...", client_secret="...", grant=ClientCredentials()))
                                              no person is asked (extensions)

An `OAuth` holds the options. For each URL it makes an `OAuthClient` (api/oauth_client), which gets the tokens
that the server asks for.

Revisions   2025-03-26 and later; a rule of only one of them applies wherever a server needs it, whichever
            revision was agreed on.
Errors      AuthorizationError, if no token can be got. No error, log message or `repr` shows a token.
Threads     any: requests on many threads share one authorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import requests

from mcp_ref.api.oauth_client import OAuthClient
from mcp_ref.api.token_stores import FileTokens, MemoryTokens, TokenStore
from mcp_ref.api.user_agents import Browser, PasteUrl, UserAgent, user_agent_of
from mcp_ref.basic.authorization.client_registration import check_client_id_url
from mcp_ref.basic.authorization.index.access_tokens import authorization_header
from mcp_ref.basic.authorization.index.scope_selection import scopes_of
from mcp_ref.basic.authorization.security_considerations import check_endpoint
from mcp_ref.basic.authorization.token_requests import METHODS_OF_CLIENTS, Grant
from mcp_ref.runtime.checks import check_bool, check_seconds, check_text, check_text_if_any
from mcp_ref.runtime.http_client.addresses import is_loopback
from mcp_ref.runtime.http_client.authorizing import Authorizer, Refusal
from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = [
    "Auth",
    "BearerToken",
    "Browser",
    "FileTokens",
    "MemoryTokens",
    "OAuth",
    "OAuthClient",
    "PasteUrl",
    "TokenStore",
    "UserAgent",
    "authorizer_of",
]


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """How a client gets its access tokens.

    Raises TypeError or ValueError for an invalid option, and names it.
    """

    client_name: str = "mcp_ref"
    """The name of this client that a person is shown, if the client registers dynamically."""
    client_id: str | None = None
    """The id of a client that is registered already."""
    client_secret: str | None = field(default=None, repr=False)
    """The secret that belongs to `client_id`."""
    issuer: str | None = None
    """The authorization server to use, the one that knows `client_id`; None: the first that is found."""
    client_metadata_url: str | None = None
    """The https URL of a document that describes this client; it is the client's id, where servers support
    that."""
    scopes: Sequence[str] | str | None = None
    """The scopes to ask for; None: those that the server says are needed."""
    auth_method: str | None = None
    """How the client authenticates at the token endpoint; None: chosen by the server's metadata."""
    private_key: str | Mapping[str, Any] | None = field(default=None, repr=False)
    """PEM or JWK, for the method `private_key_jwt`."""
    signing_algorithm: str = "ES256"
    """The JWS algorithm of the private key, and of the key for DPoP."""
    user_agent: UserAgent | Callable[[str], str] = field(default_factory=Browser)
    """How a person is sent to the authorization server (api/user_agents)."""
    store: TokenStore = field(default_factory=MemoryTokens)
    """Where tokens and registrations are kept (api/token_stores)."""
    grant: Grant | None = None
    """A grant that gets tokens without a person (extensions)."""
    dpop: bool = False
    """Whether tokens are bound to a key of this client (extensions/dpop)."""
    offline_access: bool = True
    """Whether to ask for refresh tokens, if the authorization server supports that scope."""
    allow_http: bool = False
    """Whether http is allowed to other machines, too. Anyone on the way can then read the tokens."""
    allow_private: bool = False
    """Whether an MCP server on a public address may name authorization servers on private or loopback
    addresses."""
    timeout: float = 300.0
    """Seconds that a person has to decide."""

    def __post_init__(self) -> None:
        check_text(client_name=self.client_name, signing_algorithm=self.signing_algorithm)
        check_text_if_any(client_id=self.client_id, client_secret=self.client_secret, issuer=self.issuer)
        check_text_if_any(client_metadata_url=self.client_metadata_url, auth_method=self.auth_method)
        check_bool(dpop=self.dpop, offline_access=self.offline_access)
        check_bool(allow_http=self.allow_http, allow_private=self.allow_private)
        check_seconds("timeout", self.timeout)
        user_agent_of(self.user_agent)
        self._check_client()
        if self.scopes is not None:
            object.__setattr__(self, "scopes", _scopes(self.scopes))
        if not all(hasattr(self.store, name) for name in ("get", "set", "delete", "lock")):
            raise TypeError(f"store is a MemoryTokens or a FileTokens, not {self.store!r:.60}")
        if self.grant is not None and not hasattr(self.grant, "fetch"):
            raise TypeError(f"grant is a Grant of an extension, not {self.grant!r:.60}")

    def authorizer(self, url: str, session: requests.Session | None = None) -> OAuthClient:
        """The authorizer for the requests to one URL."""
        return OAuthClient(self, url, session)

    def _check_client(self) -> None:
        if self.client_secret is not None and self.client_id is None:
            raise ValueError("client_secret goes with a client_id")
        if self.issuer is not None:
            check_endpoint("issuer", self.issuer, allow_http=self.allow_http)
        if self.auth_method is not None and self.auth_method not in METHODS_OF_CLIENTS:
            raise ValueError(f"auth_method is one of {', '.join(METHODS_OF_CLIENTS)}")
        if self.client_metadata_url is not None:
            check_client_id_url(self.client_metadata_url)


def _scopes(given: Sequence[str] | str) -> tuple[str, ...]:
    found, named = scopes_of(given), given.split() if isinstance(given, str) else given
    if found is None:
        raise TypeError("scopes are words, as a list, or in one text with spaces between them")
    if len(found) != len(set(named)):
        raise ValueError("scopes are words, as a list, or in one text with spaces between them")
    return found


Auth: TypeAlias = OAuth | OAuthClient | str | Callable[[], str]
"""The types of `auth=`. An OAuthClient must have been made for the same URL, by `OAuth.authorizer(url)`."""


def authorizer_of(auth: Any, url: str, session: requests.Session | None = None) -> Authorizer:
    """The authorizer that `auth` stands for, for requests to a URL. Raises TypeError, ValueError."""
    if isinstance(auth, OAuthClient):
        return auth
    if not isinstance(auth, OAuth | str) and not callable(auth):
        raise TypeError(
            f"auth is an OAuth, a token, or a function that returns one, not {type(auth).__name__}"
        )
    parts = urlsplit(url)
    allows_http = isinstance(auth, OAuth) and auth.allow_http
    if parts.scheme != "https" and not allows_http and not is_loopback(parts.hostname or ""):
        raise ValueError(f"a token is sent by https, or within this very machine, not to {parts.netloc}")
    return auth.authorizer(url, session) if isinstance(auth, OAuth) else BearerToken(auth)


class BearerToken:
    """The authorizer for a token that the application has, or that its function returns."""

    def __init__(self, token: str | Callable[[], str]) -> None:
        """Raises ValueError for a text that cannot be a token."""
        self._token = token
        if isinstance(token, str):
            _header(token)

    def __repr__(self) -> str:
        return "BearerToken(...)"

    def headers(self, method: str, url: str) -> dict[str, str]:
        """The Authorization header. Raises TypeError, ValueError if the function returns no valid token."""
        return _header(self._token if isinstance(self._token, str) else self._token())

    def refused(self, refusal: Refusal, deadline: Deadline) -> bool:
        """Whether to send again: after a 401, if the function now returns another token."""
        if refusal.status != 401 or isinstance(self._token, str):
            return False
        return self.headers("", "") != refusal.sent

    def accepted(self, nonce: str | None) -> None:
        """Do nothing: only a DPoP proof could carry the nonce, and none is sent with this token."""

    def stop(self) -> None:
        """Do nothing: no thread waits in this authorizer."""


def _header(token: Any) -> dict[str, str]:
    """The Authorization header with a token. Raises TypeError, ValueError, which do not show the token."""
    if not isinstance(token, str):
        raise TypeError(f"a token is a string, not {type(token).__name__}")
    return authorization_header(token)
