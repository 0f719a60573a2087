"""Clients: how they become known here, and how they authenticate.

    of the operator      RegisteredClient(...) in AuthorizationServer(clients=[...])
    dynamic              POST /register (RFC 7591): open to anyone, so it is limited, in all and by address
    by a document        the client id is the URL of a metadata document, which is fetched (documents)

    client_secret_basic, client_secret_post     a secret; kept as a hash
    private_key_jwt                             a token that the client signs (RFC 7523), for one use
    none                                        a public client: its id alone, with PKCE or a rotated token

Errors      OAuthError: invalid_client (401), or the codes of RFC 7591 for a registration.
Threads     any.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote_plus, urlsplit

from mcp_ref.basic.authorization.client_registration import (
    ASSERTION_METHOD,
    AUTHORIZATION_CODE,
    SECRET_METHODS,
    BadRegistration,
    ClientMetadata,
    check_client_id_url,
    check_metadata_document,
    check_registration,
    is_client_id_url,
)
from mcp_ref.basic.authorization.security_considerations import check_redirect_uri, redirect_is_loopback
from mcp_ref.basic.authorization.token_requests import (
    CLIENT_ASSERTION_TYPE,
    MAX_ASSERTION_SECONDS,
    check_assertion,
)
from mcp_ref.extras.authorization_server.expiring import Attempts, Expiring
from mcp_ref.extras.authorization_server.messages import OAuthError, Request
from mcp_ref.extras.authorization_server.settings import Settings
from mcp_ref.runtime.checks import check_text
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.jose import JoseError, KeySet, peek

__all__ = ["CLIENT_CREDENTIALS", "REFRESH_TOKEN", "Clients", "Documents", "RegisteredClient"]

CLIENT_CREDENTIALS, REFRESH_TOKEN = "client_credentials", "refresh_token"

MAX_DYNAMIC_CLIENTS = 2_000
DYNAMIC_CLIENT_SECONDS = 90 * 86400.0
UNUSED_CLIENT_SECONDS = 86400.0
"""Seconds until a client that registered is forgotten if no user has decided on it."""
REGISTRATIONS_PER_ADDRESS, REGISTRATION_SECONDS = 100, 3600.0
FAILURES_PER_CLIENT, FAILURE_SECONDS = 60, 60.0
"""How many attempts to authenticate as one client may fail from one address, within how many seconds.
Attempts that are still being checked count too."""
ASSERTION_SKEW = 30.0
MAX_ASSERTIONS = 20_000
"""Used assertions of all clients that are remembered; each for longer than it is valid."""


class Documents(Protocol):
    """Fetches documents that clients publish."""

    def get(self, url: str) -> Any:
        """Return the JSON value at a URL. Raises ValueError, with a sentence that says why not."""


@dataclass(frozen=True)
class RegisteredClient:
    """A client that is known here."""

    client_id: str
    redirect_uris: tuple[str, ...] = ()
    client_secret: str | None = field(default=None, repr=False)
    """Given by an operator; `Clients` keeps a hash in its place."""
    client_name: str = ""
    grant_types: tuple[str, ...] = (AUTHORIZATION_CODE, REFRESH_TOKEN)
    jwks: Mapping[str, Any] | None = None
    """Its public keys, if it signs its requests."""
    jwks_uri: str | None = None
    origin: str = "operator"
    """How it came to be known: "operator", "dynamic" or "document"."""

    def __post_init__(self) -> None:
        check_text(client_id=self.client_id)
        for uri in self.redirect_uris:
            check_redirect_uri(uri)

    @property
    def is_trusted(self) -> bool:
        """Whether the operator of this server chose this client."""
        return self.origin == "operator"

    @property
    def is_public(self) -> bool:
        """Whether it has no secret and no keys to authenticate with."""
        return self.client_secret is None and self.jwks is None and self.jwks_uri is None

    @property
    def host(self) -> str | None:
        """The host of its metadata document; None if it has no such document."""
        return urlsplit(self.client_id).netloc if self.origin == "document" else None

    @property
    def is_local_only(self) -> bool:
        return all(map(redirect_is_loopback, self.redirect_uris))

    @property
    def shown_name(self) -> str:
        return self.client_name or self.client_id


class _Known(NamedTuple):
    client: RegisteredClient
    secret_hash: bytes | None


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _known(client: RegisteredClient) -> _Known:
    if client.client_secret is None:
        return _Known(client, None)
    return _Known(replace(client, client_secret=_KEPT_AS_HASH), _hash(client.client_secret))


_KEPT_AS_HASH = "(kept as a hash)"


def of_metadata(client_id: str, said: ClientMetadata, origin: str, secret: str | None) -> RegisteredClient:
    return RegisteredClient(
        client_id,
        redirect_uris=said.redirect_uris,
        client_secret=secret,
        client_name=said.client_name,
        grant_types=said.grant_types,
        jwks=said.jwks,
        jwks_uri=said.jwks_uri,
        origin=origin,
    )


def _refused(description: str) -> OAuthError:
    challenge = ("WWW-Authenticate", 'Basic realm="authorization server"')
    return OAuthError("invalid_client", description, HTTPStatus.UNAUTHORIZED, (challenge,))


class Clients:
    """All clients that are known here."""

    def __init__(self, settings: Settings, clients: Iterable[RegisteredClient], documents: Documents) -> None:
        self._settings = settings
        self._of_operator = {client.client_id: _known(client) for client in clients}
        self._documents = documents
        self._dynamic: Expiring[_Known] = Expiring(MAX_DYNAMIC_CLIENTS, DYNAMIC_CLIENT_SECONDS)
        self._registrations = Attempts(REGISTRATIONS_PER_ADDRESS, REGISTRATION_SECONDS)
        self._failures = Attempts(FAILURES_PER_CLIENT, FAILURE_SECONDS)
        self._assertions: Expiring[bool] = Expiring(
            MAX_ASSERTIONS, MAX_ASSERTION_SECONDS + 2 * ASSERTION_SKEW
        )
        self._ways: dict[str, Callable[[_Known, str], None]] = {
            "secret": self._check_secret,
            ASSERTION_METHOD: self._check_assertion,
            "none": _check_public,
        }

    # -- known clients -----------------------------------------------------------------------------

    def find(self, client_id: str) -> RegisteredClient | None:
        """The client with an id; None if there is no such client.

        Raises BadRegistration for a metadata document that cannot be accepted.
        """
        known = self._find(client_id)
        return None if known is None else known.client

    def is_name_of_operator(self, subject: str) -> bool:
        """Whether a user has the name of a client that gets tokens for itself, with itself as their subject:
        a server could not tell the user from the client (RFC 9068, section 5).
        """
        known = self._of_operator.get(subject)
        return known is not None and CLIENT_CREDENTIALS in known.client.grant_types

    def _find(self, client_id: str) -> _Known | None:
        known = self._of_operator.get(client_id) or self._dynamic.get(client_id)
        if known is None and self._settings.metadata_documents and is_client_id_url(client_id):
            return _Known(self._by_document(client_id), None)
        return known

    def _by_document(self, client_id: str) -> RegisteredClient:
        # spec: basic/authorization/client-registration/cimd-as-fetch
        url = check_client_id_url(client_id, allow_loopback=self._settings.allow_private)
        try:
            given = self._documents.get(url)
        except ValueError as problem:
            raise BadRegistration(f"the metadata document of the client cannot be had: {problem}") from None
        return of_metadata(url, check_metadata_document(url, given), "document", None)

    def used(self, client: RegisteredClient) -> None:
        """Remember a dynamic client for longer: a user has decided on it."""
        known = self._dynamic.get(client.client_id)
        if known is not None:
            self._dynamic.put(client.client_id, known)

    # -- dynamic registration ----------------------------------------------------------------------

    def register(self, given: object, address: str, grant_types: Iterable[str]) -> dict[str, Any]:
        """Register a client. Returns the response as JSON. Raises OAuthError."""
        if self._registrations.begin(address):
            raise OAuthError(
                "temporarily_unavailable", "too many clients were registered", HTTPStatus.TOO_MANY_REQUESTS
            )
        try:
            said = check_registration(given, grant_types=tuple(grant_types))
        except BadRegistration as problem:
            raise OAuthError(problem.error, str(problem)) from None
        client_id = secrets.token_urlsafe(18)
        secret = secrets.token_urlsafe(32) if said.auth_method in SECRET_METHODS else None
        client = of_metadata(client_id, said, "dynamic", secret)
        self._dynamic.put(client_id, _known(client), UNUSED_CLIENT_SECONDS)
        hidden = {} if secret is None else {"client_secret": secret, "client_secret_expires_at": 0}
        return {"client_id": client_id, "client_id_issued_at": int(time.time()), **hidden, **said.to_json()}

    # -- authentication ----------------------------------------------------------------------------

    def authenticate(self, request: Request, form: Mapping[str, str]) -> RegisteredClient:
        """The client that sent a request to the token endpoint, or one beside it. Raises OAuthError."""
        # Step 1: it authenticates in exactly one way.
        way, client_id, proof = _presented(request, form)
        if form.get("client_id", client_id) != client_id:
            raise OAuthError("invalid_request", "client_id is not that of the client authentication")
        # Step 2: it has not failed too often. Each attempt counts as failed until it has succeeded.
        attempt = (client_id, request.address)
        if way != "none" and self._failures.begin(attempt):
            raise OAuthError(
                "invalid_client", "too many attempts: try again in a minute", HTTPStatus.TOO_MANY_REQUESTS
            )
        # Step 3: it is known, and the proof is good.
        try:
            known = self._find(client_id)
        except BadRegistration as problem:
            raise _refused(str(problem)) from None
        if known is None:
            raise _refused("the client is not known here")
        self._ways[way](known, proof)
        if way != "none":
            self._failures.forgive(attempt)
        return known.client

    def _check_secret(self, known: _Known, secret: str) -> None:
        if known.secret_hash is None or not hmac.compare_digest(known.secret_hash, _hash(secret)):
            raise _refused("the client secret is wrong")

    def _check_assertion(self, known: _Known, assertion: str) -> None:
        """RFC 7523, section 3: signed by the client, for this server, for a short time, used once."""
        client, ours = known.client, (self._settings.issuer, self._settings.endpoint("token"))
        try:
            found = check_assertion(
                assertion, self._keys_of(client), issuer=client.client_id, audience=ours, skew=ASSERTION_SKEW
            )
        except (LocalError, ValueError) as problem:
            raise _refused(f"client_assertion: {problem}") from None
        if found.subject != client.client_id:
            raise _refused("client_assertion is not about this client (sub)")
        if found.jti is None or not self._assertions.put_new((client.client_id, found.jti), True):
            raise _refused("client_assertion has no jti, or was used before")

    def _keys_of(self, client: RegisteredClient) -> KeySet:
        if client.jwks is not None:
            return KeySet.of(client.jwks)
        if client.jwks_uri is None:
            raise _refused("the client has no keys here")
        return KeySet.of(self._documents.get(client.jwks_uri))


def _check_public(known: _Known, proof: str) -> None:
    if not known.client.is_public:
        raise _refused("the client has to authenticate")


def _presented(request: Request, form: Mapping[str, str]) -> tuple[str, str, str]:
    """How a client authenticates: the way, its id, its proof. Raises OAuthError."""
    basic = _basic(request.header("Authorization"))
    ways = {
        "basic": basic is not None,
        "post": "client_secret" in form,
        "assertion": "client_assertion" in form or "client_assertion_type" in form,
    }
    if sum(ways.values()) > 1:
        raise OAuthError("invalid_request", "a client authenticates in one way, not in several")
    if basic is not None:
        return "secret", *basic
    if ways["assertion"]:
        return _asserted(form)
    if "client_id" not in form:
        raise _refused("there is no client_id")
    way = "secret" if ways["post"] else "none"
    return way, form["client_id"], form.get("client_secret", "")


def _asserted(form: Mapping[str, str]) -> tuple[str, str, str]:
    if form.get("client_assertion_type") != CLIENT_ASSERTION_TYPE or "client_assertion" not in form:
        raise OAuthError("invalid_request", f"client_assertion_type is {CLIENT_ASSERTION_TYPE}")
    try:
        _, claims = peek(form["client_assertion"])
    except JoseError as problem:
        raise _refused(f"client_assertion: {problem}") from None
    return ASSERTION_METHOD, str(claims.get("sub")), form["client_assertion"]


def _basic(header: str | None) -> tuple[str, str] | None:
    """Id and secret of an Authorization header; None without one. Raises OAuthError."""
    if header is None:
        return None
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        raise _refused("the scheme of client authentication is Basic")
    try:
        text = base64.b64decode(value.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise _refused("the Authorization header is no base64 of UTF-8") from None
    client_id, colon, secret = text.partition(":")
    if not colon:
        raise _refused("the Authorization header has no colon")
    # RFC 6749, section 2.3.1: each is encoded as in a form before they are joined.
    return unquote_plus(client_id), unquote_plus(secret)
