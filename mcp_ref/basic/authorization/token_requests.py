"""Token requests: how a client authenticates (page: basic/authorization/client-registration).

However a client came to its id (registered beforehand, dynamically, or with a metadata document), it has a
way to show at the token endpoint that the id is its own:

    none                  a public client: only its id
    client_secret_basic   id and secret in the header Authorization
    client_secret_post    id and secret in the form
    private_key_jwt       an assertion: a token that it signs with its key, for this server, for one use

Client half   `choose_method`, `TokenClient`
Server half   `check_assertion`, for every JSON web token that authenticates a client or is a grant
              (RFC 7523, section 3)

A grant is what a client exchanges for a token. The usual one is the authorization code, which it gets by a
person's consent. The grants of the extensions need no person: each is a `Grant`, which fills in a form and
has `TokenRequests` send it.

Revisions   2025-03-26.
Errors      ValueError: there is no method that both support. BadAssertion: an assertion is not accepted, and
            why.
Threads     plain values and functions.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote_plus

from mcp_ref.runtime import jose
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.jose import ASYMMETRIC, JoseError, Key, KeySet, audience_of, check_times

__all__ = [
    "ASSERTION_SECONDS",
    "CLIENT_ASSERTION_TYPE",
    "METHODS_OF_CLIENTS",
    "Assertion",
    "BadAssertion",
    "Grant",
    "TokenClient",
    "TokenRequests",
    "check_assertion",
    "choose_method",
]

CLIENT_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
METHODS_OF_CLIENTS = ("private_key_jwt", "client_secret_basic", "client_secret_post", "none")
ASSERTION_SECONDS = 60
"""How long an assertion of a client is valid. It is short, since the assertion is used at once."""
MAX_ASSERTION_SECONDS = 3600.0
"""The longest remaining life of an assertion that a server accepts."""
MAX_JTI_CHARACTERS = 256

# ---------------------------------------------------------------------------- client half


def choose_method(
    supported: Sequence[str] | None, *, has_secret: bool, has_key: bool, wanted: str | None = None
) -> str:
    """Choose how a client authenticates, among the methods that the server supports. Raises ValueError.

    `supported` is the metadata's `token_endpoint_auth_methods_supported`; None if it is absent, which
    means `client_secret_basic` (RFC 8414). `wanted` is the choice of the application, or of the registration:
    it is returned if the client can authenticate in that way, whatever the server supports.
    """
    possible = _possible(has_secret, has_key)
    if wanted is not None:
        if wanted not in (*possible, "none"):
            raise ValueError(f"the client cannot authenticate with {wanted}: it has not what that takes")
        return wanted
    offered = ("client_secret_basic",) if supported is None else supported
    for method in possible:
        # A server that does not list "none" may accept public clients all the same: PKCE is made for them.
        if method in offered or method == "none":
            return method
    raise ValueError(f"the authorization server takes no {' and no '.join(possible)}")


def _possible(has_secret: bool, has_key: bool) -> tuple[str, ...]:
    """The methods for which a client has the key or the secret, the best first."""
    with_key = ("private_key_jwt",) if has_key else ()
    with_secret = ("client_secret_basic", "client_secret_post") if has_secret else ()
    return (*with_key, *with_secret) or ("none",)


@dataclass(frozen=True)
class TokenClient:
    """A client at the token endpoint of one authorization server."""

    client_id: str
    _: KW_ONLY
    method: str = "none"
    """One of METHODS_OF_CLIENTS."""
    secret: str | None = field(default=None, repr=False)
    key: Key | None = field(default=None, repr=False)
    signing_algorithm: str = "ES256"

    def __post_init__(self) -> None:
        """Raises ValueError for an unknown method, or if the secret or key that it takes is missing."""
        if self.method not in METHODS_OF_CLIENTS:
            # The message does not repeat the method: it may be a secret that was passed in the wrong place.
            raise ValueError(f"method is one of {', '.join(METHODS_OF_CLIENTS)}")
        if self.method.startswith("client_secret") and self.secret is None:
            raise ValueError(f"{self.method} takes a secret")
        if self.method == "private_key_jwt" and (self.key is None or not self.key.is_private):
            raise ValueError(f"{self.method} takes a private key")

    def authenticated(self, form: Mapping[str, str], audience: str) -> tuple[dict[str, str], dict[str, str]]:
        """The headers and the form of a request, with what authenticates the client.

        `audience`: the issuer that an assertion is for. No other server may accept it.
        """
        match self.method:
            case "client_secret_basic":
                # The form need not have the client_id as well, but some servers demand it.
                return {"Authorization": self._basic()}, {**form, "client_id": self.client_id}
            case "client_secret_post":
                return {}, {**form, "client_id": self.client_id, "client_secret": str(self.secret)}
            case "private_key_jwt":
                # The id of the client is in the assertion (RFC 7523, section 3).
                # spec: basic/authorization/client-registration/cimd-private-key-jwt
                signed = {"client_assertion_type": CLIENT_ASSERTION_TYPE}
                return {}, {**form, **signed, "client_assertion": self.assertion(audience)}
        return {}, {**form, "client_id": self.client_id}

    def _basic(self) -> str:
        """The value of the header: id and secret, each encoded as in a form (RFC 6749, section 2.3.1)."""
        pair = f"{quote_plus(self.client_id)}:{quote_plus(str(self.secret))}"
        return f"Basic {base64.b64encode(pair.encode('ascii')).decode('ascii')}"

    def assertion(self, audience: str, now: float | None = None) -> str:
        """A signed token that authenticates the client to one server, once."""
        if self.key is None:
            raise ValueError("an assertion takes a private key")
        made = int(time.time() if now is None else now)
        claims = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": audience,
            "iat": made,
            "exp": made + ASSERTION_SECONDS,
            "jti": secrets.token_urlsafe(16),
        }
        return jose.sign(claims, self.key, algorithm=self.signing_algorithm)


Answer = TypeVar("Answer")
Outcome = TypeVar("Outcome", covariant=True)


class TokenRequests(Protocol[Outcome]):
    """What a grant knows of the flow that it is used in, and how it sends its token requests."""

    @property
    def issuer(self) -> str:
        """The authorization server, as discovered."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata."""

    @property
    def resource(self) -> str:
        """The MCP server that the token is for."""

    @property
    def scopes(self) -> Sequence[str] | None:
        """The scopes to ask for; None or empty if the request names none."""

    @property
    def client(self) -> TokenClient:
        """The client that asks. A grant that needs no client does not read this: reading may register one."""

    def request(self, form: Mapping[str, str], *, client: TokenClient | None = None) -> Outcome:
        """Send one authenticated request to the token endpoint, and return the tokens. Raises McpError."""

    def post(self, url: str, form: Mapping[str, str], *, client: TokenClient) -> dict[str, Any]:
        """Ask another token endpoint, named by the application, and return its response. Raises McpError."""


class Grant(Protocol):
    """A way to get an access token without asking a person."""

    @property
    def registers(self) -> bool:
        """Whether a client that has no id yet may register for this grant."""

    def fetch(self, flow: TokenRequests[Answer]) -> Answer:
        """Get new tokens. Raises McpError."""


# ---------------------------------------------------------------------------- server half


class BadAssertion(LocalError):
    """An assertion is not accepted. The message repeats nothing of it."""


class Assertion(NamedTuple):
    """An assertion that was accepted."""

    header: dict[str, Any]
    claims: dict[str, Any]
    subject: str
    ends: float
    """`exp`, in seconds since 1970. Accepted until `skew` seconds later: remember `jti` for as long."""
    jti: str | None


def check_assertion(
    assertion: str,
    keys: KeySet | Key,
    *,
    issuer: str,
    audience: Sequence[str],
    algorithms: Sequence[str] = ASYMMETRIC,
    typ: str | None = None,
    skew: float = 30.0,
    now: float | None = None,
) -> Assertion:
    """Check that a known issuer signed a token for this server (RFC 7523, section 3). Raises BadAssertion.

    `audience`: the names of this server, of which the token must have at least one; it should be the server's
    issuer, and nothing else. The caller, which has a memory, must see to it that the token is used once.
    """
    now = time.time() if now is None else now
    try:
        header, claims = jose.verify(assertion, keys, algorithms=algorithms, typ=typ)
        ends = check_times(claims, now=now, skew=skew)
        named = audience_of(claims)
    except JoseError as problem:
        raise BadAssertion(f"the assertion is not accepted: {problem}") from None
    if claims.get("iss") != issuer:
        raise BadAssertion("the assertion is of another issuer (iss)")
    if set(named).isdisjoint(audience):
        raise BadAssertion("the assertion is for another server (aud)")
    if ends is None or ends > now + MAX_ASSERTION_SECONDS + skew:
        raise BadAssertion(f"the assertion is good for more than {MAX_ASSERTION_SECONDS:.0f} seconds (exp)")
    return Assertion(header, claims, _subject(claims), ends, _jti(claims))


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise BadAssertion("the assertion does not say who it is about (sub)")
    return subject


def _jti(claims: Mapping[str, Any]) -> str | None:
    jti = claims.get("jti")
    if "jti" in claims and (not isinstance(jti, str) or not 0 < len(jti) <= MAX_JTI_CHARACTERS):
        raise BadAssertion("the id of the assertion (jti) is no short text")
    return jti
