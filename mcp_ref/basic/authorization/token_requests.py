"""Token requests: how a client shows who it is (page: basic/authorization/client-registration).

However a client came to its id (registered beforehand, by itself, or by a document), it has a way to show at
the token endpoint that the id is its own:

    none                  a public client; its id alone
    client_secret_basic   id and secret in the header Authorization
    client_secret_post    id and secret in the form
    private_key_jwt       an assertion: a token that it signs with its key, for this server, for one use

Client half: `choose_method`, `TokenClient`.   Server half: `check_assertion`, for every JSON web token that
stands for a client or for a grant (RFC 7523, section 3).

A grant is what a token is asked for with. The usual one is the code of a person's consent; those of the
extensions need no person, and are a `Grant` each, which fills in a form and lets `TokenRequests` send it.

Revisions   2025-03-26.
Errors      ValueError: no method that both have. BadAssertion: an assertion that is not accepted, and why.
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
"""For how long an assertion that is made here is good: it is used at once."""
MAX_ASSERTION_SECONDS = 3600.0
"""For how long an assertion may be good that is accepted here."""
MAX_JTI_CHARACTERS = 256

# ---------------------------------------------------------------------------- client half


def choose_method(
    supported: Sequence[str] | None, *, has_secret: bool, has_key: bool, wanted: str | None = None
) -> str:
    """How a client authenticates, of what the server supports. Raises ValueError.

    `supported` is the metadata's `token_endpoint_auth_methods_supported`; None where it says nothing, which
    means `client_secret_basic` (RFC 8414). `wanted` is what the application, or the registration, has said.
    """
    possible = _possible(has_secret, has_key)
    if wanted is not None:
        if wanted not in (*possible, "none"):
            raise ValueError(f"the client cannot authenticate with {wanted}: it has not what that takes")
        return wanted
    offered = ("client_secret_basic",) if supported is None else supported
    for method in possible:
        # A server that says nothing of public clients may know them all the same: PKCE is made for them.
        if method in offered or method == "none":
            return method
    raise ValueError(f"the authorization server takes no {' and no '.join(possible)}")


def _possible(has_secret: bool, has_key: bool) -> tuple[str, ...]:
    """Those methods that a client has what it takes for; the best first."""
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
        """Raises ValueError for a method without what it takes."""
        if self.method not in METHODS_OF_CLIENTS:
            # What was given may be a secret in the wrong place.
            raise ValueError(f"method is one of {', '.join(METHODS_OF_CLIENTS)}")
        if self.method.startswith("client_secret") and self.secret is None:
            raise ValueError(f"{self.method} takes a secret")
        if self.method == "private_key_jwt" and (self.key is None or not self.key.is_private):
            raise ValueError(f"{self.method} takes a private key")

    def authenticated(self, form: Mapping[str, str], audience: str) -> tuple[dict[str, str], dict[str, str]]:
        """The headers and the form of a request that shows who the client is.

        `audience`: the issuer that an assertion is for, and no one else may take it.
        """
        match self.method:
            case "client_secret_basic":
                # The form need not name the client as well; there are servers that want it to.
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
        """RFC 6749, section 2.3.1: each is encoded as in a form before they are joined."""
        pair = f"{quote_plus(self.client_id)}:{quote_plus(str(self.secret))}"
        return f"Basic {base64.b64encode(pair.encode('ascii')).decode('ascii')}"

    def assertion(self, audience: str, now: float | None = None) -> str:
        """A token that says who the client is, to one server, once."""
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
    """What a grant has to ask for a token with: the client's, in the flow that it is in."""

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
        """What to ask for; perhaps nothing."""

    @property
    def client(self) -> TokenClient:
        """Who asks. A grant that needs none does not look: to look may register the client."""

    def request(self, form: Mapping[str, str], *, client: TokenClient | None = None) -> Outcome:
        """The tokens for a grant: one request to the token endpoint, authenticated. Raises McpError."""

    def post(self, url: str, form: Mapping[str, str], *, client: TokenClient) -> dict[str, Any]:
        """The answer of another token endpoint, which the application has named. Raises McpError."""


class Grant(Protocol):
    """How an access token is had without a person."""

    @property
    def registers(self) -> bool:
        """Whether a client that has no id yet may register for this grant."""

    def fetch(self, flow: TokenRequests[Answer]) -> Answer:
        """New tokens. Raises McpError."""


# ---------------------------------------------------------------------------- server half


class BadAssertion(LocalError):
    """An assertion that is not accepted. It repeats nothing of it."""


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
    """A token that a known issuer has signed, for this server (RFC 7523, section 3). Raises BadAssertion.

    `audience`: the names of this server, one of which the token has to be for: its issuer, and nothing else.
    That it is used once is for the caller to see to, who has a memory.
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
