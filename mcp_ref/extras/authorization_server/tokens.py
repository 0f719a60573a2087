"""Codes, access tokens and refresh tokens: issued, kept and revoked.

    Granted           what was granted: by whom, to whom, which scopes, for which resource
    Family            all tokens of one grant: they end together
    code              one use, within CODE_SECONDS; a second use ends the family of the first
    access token      a JSON web token (RFC 9068), signed with ES256, for `token_seconds`
    refresh token     one use; gives an access token and the next refresh token. An old one that comes back
                      was copied, by its client or by a thief: no one can tell which, so the family ends

A refresh token is `<id of its family>.<secret>`, and only the hash of the newest one is kept: so an old one
is recognized as long as the family lives, without a list of all old ones.

The claims of access tokens are kept here as well: `find` looks a token up by its hash, verifies no signature,
and refuses a revoked token at once. A server that has only the keys (`jwks`) accepts it until it expires.

Errors      OAuthError("invalid_grant") for a code or a refresh token that is not good.
Threads     any. `_lock` is held while a code or a refresh token is used up: of two threads only one can.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from mcp_ref.basic.authorization.security_considerations import code_verifier_fits
from mcp_ref.extras.authorization_server.expiring import Expiring
from mcp_ref.extras.authorization_server.messages import OAuthError
from mcp_ref.extras.authorization_server.settings import Settings
from mcp_ref.runtime.jose import Key, KeySet, new_key, sign

__all__ = ["ALGORITHM", "Family", "Granted", "IssuedToken", "TokenTable"]

ALGORITHM = "ES256"
CODE_SECONDS = 60.0
USED_CODE_SECONDS = 3600.0
"""Seconds for which a used code is remembered, so that a replay of it is noticed."""
MAX_CODES = 10_000
MAX_FAMILIES = 100_000
MAX_ACCESS_TOKENS = 100_000


@dataclass(frozen=True)
class Granted:
    """What a user granted to a client."""

    client_id: str
    subject: str
    """The user; the client itself if no user was involved."""
    scopes: tuple[str, ...]
    resource: str
    has_refresh: bool = False
    """Whether the client gets refresh tokens."""
    jkt: str | None = None
    """Thumbprint of the key that may redeem the code (RFC 9449, section 10)."""
    upstream: object = field(default=None, repr=False, compare=False)
    """What a proxy keeps with the grant: the tokens of its provider."""


@dataclass
class Family:
    """The tokens of one grant."""

    grant: Granted
    expires_at: float
    """When the last of its refresh tokens expires, in wall time."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    refresh_hash: bytes = field(default=b"", repr=False)
    """The hash of the newest refresh token."""
    refresh_jkt: str | None = None
    """Thumbprint of the key to which refresh tokens are bound (DPoP), if the client has no credentials."""
    is_revoked: bool = False


@dataclass
class _Code:
    """An authorization code, used or not."""

    grant: Granted
    redirect_uri: str
    """The redirect URI to which it was sent."""
    challenge: str
    family: Family | None = None
    """The family that was issued for it; None until it is used."""


@dataclass(frozen=True)
class IssuedToken:
    """An access token that was issued."""

    claims: dict[str, Any]
    family: Family

    @property
    def is_active(self) -> bool:
        return not self.family.is_revoked and bool(self.claims["exp"] > time.time())


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def _mismatch(code: _Code, redirect_uri: str | None, verifier: str | None, jkt: str | None) -> str:
    """Say in what a token request does not fit the authorization request of its code; "" if it fits."""
    if not code_verifier_fits(verifier, code.challenge):
        return "code_verifier does not fit the code_challenge"
    if redirect_uri not in (None, code.redirect_uri):  # OAuth 2.1 lets it be left out, thanks to PKCE
        return "redirect_uri is not that of the authorization request"
    if code.grant.jkt not in (None, jkt):
        return "the code belongs to another key (dpop_jkt)"
    return ""


class TokenTable:
    """All codes and tokens of one authorization server."""

    def __init__(self, settings: Settings, key: Key | None = None) -> None:
        self._settings = settings
        self._key = new_key(ALGORITHM) if key is None else key
        self._lock = threading.Lock()
        self._codes: Expiring[_Code] = Expiring(MAX_CODES, CODE_SECONDS)
        self._families: Expiring[Family] = Expiring(MAX_FAMILIES, settings.refresh_seconds)
        self._access: Expiring[IssuedToken] = Expiring(MAX_ACCESS_TOKENS, settings.token_seconds)

    def jwks(self) -> dict[str, Any]:
        """The public keys that access tokens are verified with."""
        return KeySet([self._key]).public()

    # -- codes -------------------------------------------------------------------------------------

    def issue_code(self, grant: Granted, redirect_uri: str, challenge: str) -> str:
        code = secrets.token_urlsafe(32)
        self._codes.put(_digest(code), _Code(grant, redirect_uri, challenge))
        return code

    def redeem(
        self,
        code: str,
        client_id: str,
        redirect_uri: str | None,
        verifier: str | None,
        jkt: str | None = None,
    ) -> Family:
        """Use a code up, and begin the family of its tokens. Raises OAuthError.

        A request by the code's own client uses the code up even if something in the request is wrong.
        """
        # Step 1: of two requests with one code, the first goes on. The second revokes what the first gets.
        with self._lock:
            found = self._codes.get(_digest(code))
            if found is None or found.grant.client_id != client_id:
                raise OAuthError("invalid_grant", "the code is not one of this client, or has expired")
            if found.family is not None:
                found.family.is_revoked = True
                raise OAuthError("invalid_grant", "the code was used before; what came of it is revoked")
            found.family = self.begin(found.grant)
            self._codes.put(_digest(code), found, USED_CODE_SECONDS)
        # Step 2: the request must come from the sender of the authorization request (PKCE).
        problem = _mismatch(found, redirect_uri, verifier, jkt)
        if problem:
            found.family.is_revoked = True
            raise OAuthError("invalid_grant", problem)
        return found.family

    # -- access tokens -----------------------------------------------------------------------------

    def begin(self, grant: Granted) -> Family:
        """Return a new family, without tokens yet."""
        return Family(grant, time.time() + self._settings.refresh_seconds)

    def issue(self, family: Family, scopes: tuple[str, ...] | None = None, jkt: str | None = None) -> str:
        """Issue an access token (RFC 9068), perhaps with fewer scopes, or bound to a key (RFC 9449)."""
        grant, now = family.grant, int(time.time())
        claims = {
            "iss": self._settings.issuer,
            "sub": grant.subject,
            "aud": grant.resource,
            "client_id": grant.client_id,
            "scope": " ".join(grant.scopes if scopes is None else scopes),
            "iat": now,
            "exp": now + int(self._settings.token_seconds),
            "jti": secrets.token_urlsafe(16),
            **({} if jkt is None else {"cnf": {"jkt": jkt}}),
        }
        token = sign(claims, self._key, algorithm=ALGORITHM, header={"typ": "at+jwt"})
        self._access.put(_digest(token), IssuedToken(claims, family))
        return token

    def find(self, token: str) -> IssuedToken | None:
        """Look up an access token; None if it is expired, revoked or unknown."""
        found = self._access.get(_digest(token))
        return found if found is not None and found.is_active else None

    # -- refresh tokens ----------------------------------------------------------------------------

    def first_refresh_token(self, family: Family) -> str:
        with self._lock:
            self._families.put(family.id, family, max(0.0, family.expires_at - time.time()))
            return self._next_secret(family)

    def refreshable(self, token: str, client_id: str) -> Family:
        """The family of a refresh token that may be used, without using it. Raises OAuthError."""
        with self._lock:
            return self._checked(token, client_id)

    def rotate(self, token: str, client_id: str) -> tuple[Family, str]:
        """Use a refresh token up. Returns its family, and the next refresh token. Raises OAuthError."""
        # spec: basic/authorization/security-considerations/rotate-refresh-tokens
        with self._lock:
            family = self._checked(token, client_id)
            return family, self._next_secret(family)

    def _checked(self, token: str, client_id: str) -> Family:
        """The family of a refresh token that is good. An old one revokes it. With _lock held."""
        family = self._families.get(token.partition(".")[0])
        if family is None or family.grant.client_id != client_id or family.is_revoked:
            raise OAuthError("invalid_grant", "the refresh token is not one of this client, or has expired")
        if not hmac.compare_digest(_digest(token), family.refresh_hash):
            family.is_revoked = True
            raise OAuthError("invalid_grant", "the refresh token was used before; its family is revoked")
        return family

    def _next_secret(self, family: Family) -> str:
        """Make the next refresh token of a family. With _lock held."""
        token = f"{family.id}.{secrets.token_urlsafe(32)}"
        family.refresh_hash = _digest(token)
        return token

    # -- the end -----------------------------------------------------------------------------------

    def revoke(self, token: str, client_id: str) -> None:
        """Revoke a token of this client (RFC 7009), with its family. Any other text is ignored."""
        issued = self._access.get(_digest(token))
        family = self._families.get(token.partition(".")[0]) if issued is None else issued.family
        if family is not None and family.grant.client_id == client_id:
            family.is_revoked = True
