"""Client registration (page: basic/authorization/client-registration).

How an authorization server comes to know a client that it has never heard of. The server half checks what a
client says of itself:

    check_registration(given)            the body of a dynamic registration (RFC 7591)
    check_client_id_url(client_id)       is this client id the URL of a metadata document?
    check_metadata_document(url, given)  the document at that URL (OAuth Client ID Metadata Document)

The first and the last return a `ClientMetadata`. The name of a client is only its own claim: it is made short
and printable, to be shown as a claim.

The client half chooses among the ways to get a client id, in the order of the page:

    choose_registration(...)   1 PRE_REGISTERED    the application has an id for this server
                               2 DOCUMENT          the id is the URL of a document that it has published
                               3 DYNAMIC           POST to the registration endpoint: registration_request
                                                   makes the body, read_registration reads the response
    metadata_document(...)     the document to publish

Each way leads to a `Registration`, which is valid only at the authorization server that it names.

Revisions   2025-03-26  dynamic registration
            2025-11-25  + client id metadata documents
            2026-07-28  + application_type; dynamic registration is deprecated
Errors      server: BadRegistration, with the error code of RFC 7591.
            client: AuthorizationError, if there is no way to an id, or the server refuses to register it.
Threads     functions only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.basic.authorization.index.refresh_tokens import GRANT_TYPES
from mcp_ref.basic.authorization.security_considerations import (
    LOOPBACK_HOSTS,
    check_redirect_uri,
    redirect_is_loopback,
)
from mcp_ref.runtime.untrusted_text import one_line
from mcp_ref.runtime.uri.uris import BadUri, check_uri

__all__ = [
    "ASSERTION_METHOD",
    "AUTHORIZATION_CODE",
    "AUTH_METHODS",
    "DOCUMENT",
    "DYNAMIC",
    "PRE_REGISTERED",
    "SECRET_METHODS",
    "BadRegistration",
    "ClientMetadata",
    "Registration",
    "check_client_id_url",
    "check_metadata_document",
    "check_registration",
    "choose_registration",
    "is_client_id_url",
    "metadata_document",
    "read_registration",
    "registration_request",
]

MAX_REDIRECT_URIS = 10
MAX_CLIENT_NAME_CHARACTERS = 80
"""A longer name is cut: it stands on a page where a person has to read other things, too."""
MAX_CLIENT_ID_URL_CHARACTERS = 2000

SECRET_METHODS = ("client_secret_basic", "client_secret_post")
ASSERTION_METHOD = "private_key_jwt"
AUTH_METHODS = (*SECRET_METHODS, ASSERTION_METHOD, "none")
"""How a client may authenticate at the token endpoint."""
AUTHORIZATION_CODE = "authorization_code"

_DOT_SEGMENT = re.compile(r"/(?:\.|%2[Ee]){1,2}(?=/|$)")
# https:// host [ ":" port ] path [ "?" query ], without a user and without a fragment
_CLIENT_ID_URL = re.compile(r"(https?)://([^/?#@\\]+)(/[^?#]*)(?:\?[^#]*)?")


class BadRegistration(ValueError):
    """The metadata of a client cannot be accepted. `error` is the code of RFC 7591, section 3.2.2."""

    def __init__(self, message: str, error: str = "invalid_client_metadata") -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True)
class ClientMetadata:
    """What a client says of itself, checked."""

    redirect_uris: tuple[str, ...]
    client_name: str = ""
    """One line, and short; "" if it gave none."""
    auth_method: str = "client_secret_basic"
    """Its `token_endpoint_auth_method`."""
    grant_types: tuple[str, ...] = (AUTHORIZATION_CODE,)
    application_type: str | None = None
    jwks: Mapping[str, Any] | None = None
    jwks_uri: str | None = None

    @property
    def is_local_only(self) -> bool:
        """Whether each of its redirect URIs leads to the user's own machine, where any program may listen."""
        return all(redirect_is_loopback(uri) for uri in self.redirect_uris)

    def to_json(self) -> dict[str, Any]:
        """The members of a registration response."""
        optional = {
            "client_name": self.client_name or None,
            "application_type": self.application_type,
            "jwks": self.jwks,
            "jwks_uri": self.jwks_uri,
        }
        return {
            "redirect_uris": list(self.redirect_uris),
            "token_endpoint_auth_method": self.auth_method,
            "grant_types": list(self.grant_types),
            "response_types": ["code"] if AUTHORIZATION_CODE in self.grant_types else [],
            **{name: value for name, value in optional.items() if value is not None},
        }


def check_registration(
    given: object, *, grant_types: Sequence[str], auth_methods: Sequence[str] = AUTH_METHODS
) -> ClientMetadata:
    """Check the body of a dynamic registration, on a server that supports these grant types and methods.

    Grant types that the server does not support are left out. Raises BadRegistration.
    """
    if not isinstance(given, Mapping):
        raise BadRegistration("the metadata of a client is a JSON object")
    wanted = _texts(given, "grant_types", (AUTHORIZATION_CODE,))
    granted = tuple(grant for grant in wanted if grant in grant_types)
    if not granted:
        raise BadRegistration(f"grant_types has none of {', '.join(grant_types)}")
    method = given.get("token_endpoint_auth_method", "client_secret_basic")
    if method not in auth_methods:
        raise BadRegistration(f"token_endpoint_auth_method is one of {', '.join(auth_methods)}")
    found = ClientMetadata(
        redirect_uris=_redirect_uris(given, AUTHORIZATION_CODE in granted),
        client_name=_name(given),
        auth_method=method,
        grant_types=granted,
        application_type=_application_type(given),
        **_keys(given, method),
    )
    if AUTHORIZATION_CODE in granted and "code" not in _texts(given, "response_types", ("code",)):
        raise BadRegistration('response_types has "code", with the grant type authorization_code')
    if found.application_type == "web" and any(map(redirect_is_loopback, found.redirect_uris)):
        raise BadRegistration(
            'a redirect URI with a loopback address belongs to an application_type "native"',
            "invalid_redirect_uri",
        )
    return found


def _texts(given: Mapping[str, Any], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = given.get(name, default)
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise BadRegistration(f"{name} is a list of strings")
    return tuple(dict.fromkeys(value))


def _redirect_uris(given: Mapping[str, Any], are_needed: bool) -> tuple[str, ...]:
    uris = _texts(given, "redirect_uris", ())
    if len(uris) > MAX_REDIRECT_URIS or (are_needed and not uris):
        raise BadRegistration(f"redirect_uris has one to {MAX_REDIRECT_URIS} URIs", "invalid_redirect_uri")
    try:
        return tuple(check_redirect_uri(uri) for uri in uris)
    except ValueError as problem:
        raise BadRegistration(str(problem), "invalid_redirect_uri") from None


def _name(given: Mapping[str, Any]) -> str:
    name = given.get("client_name", "")
    if not isinstance(name, str):
        raise BadRegistration("client_name is a string")
    shown = " ".join(one_line(name[: MAX_CLIENT_NAME_CHARACTERS * 4]).split())
    return shown if len(shown) <= MAX_CLIENT_NAME_CHARACTERS else shown[:MAX_CLIENT_NAME_CHARACTERS] + "..."


def _application_type(given: Mapping[str, Any]) -> str | None:
    found = given.get("application_type")
    if found not in ("web", "native", None):
        raise BadRegistration('application_type is "web" or "native"')
    return found


def _keys(given: Mapping[str, Any], method: str) -> dict[str, Any]:
    """The keys of a client that authenticates with an assertion; {} for any other client."""
    if method != ASSERTION_METHOD:
        return {}
    jwks, jwks_uri = given.get("jwks"), given.get("jwks_uri")
    if (jwks is None) == (jwks_uri is None):
        raise BadRegistration("a client with private_key_jwt has jwks or jwks_uri, and not both")
    if jwks is not None and not (isinstance(jwks, Mapping) and isinstance(jwks.get("keys"), list)):
        raise BadRegistration("jwks is an object with a list named keys")
    if jwks_uri is not None and not (isinstance(jwks_uri, str) and jwks_uri.startswith("https://")):
        raise BadRegistration("jwks_uri is a URL that begins with https://")
    return {"jwks": jwks, "jwks_uri": jwks_uri}


# ------------------------------------------------------------------- client id metadata documents


def is_client_id_url(client_id: str) -> bool:
    """Whether a client id looks like the URL of a metadata document."""
    return client_id.startswith(("https://", "http://"))


def check_client_id_url(client_id: str, *, allow_loopback: bool = False) -> str:
    """Return the client id, if it may be the URL of a metadata document. Raises BadRegistration.

    `allow_loopback`: accept http, too, for a document on this machine, as in tests.
    """
    try:
        found = _CLIENT_ID_URL.fullmatch(check_uri(client_id[: MAX_CLIENT_ID_URL_CHARACTERS + 1]))
    except BadUri:
        found = None
    if found is None or len(client_id) > MAX_CLIENT_ID_URL_CHARACTERS or _DOT_SEGMENT.search(found[3]):
        raise BadRegistration(
            "a client id that is a URL has https, a host and a path, and no dots for segments"
        )
    host = f"[{urlsplit(client_id).hostname}]" if found[2][0] == "[" else urlsplit(client_id).hostname
    if found[1] == "http" and not (allow_loopback and host in LOOPBACK_HOSTS):
        raise BadRegistration("a client id that is a URL begins with https://")
    return client_id


def check_metadata_document(url: str, given: object) -> ClientMetadata:
    """Check the metadata document that was found at a URL, which is the client id. Raises BadRegistration."""
    # spec: basic/authorization/client-registration/cimd-as-structure
    if not isinstance(given, Mapping):
        raise BadRegistration("the metadata document is no JSON object")
    # spec: basic/authorization/client-registration/cimd-as-match
    if given.get("client_id") != url:
        raise BadRegistration("the client_id in the metadata document is not the URL that it was found at")
    missing = [name for name in ("client_name", "redirect_uris") if not given.get(name)]
    if missing:
        raise BadRegistration(f"the metadata document has no {' and no '.join(missing)}")
    # A document that anyone may read cannot hold a secret.
    if "client_secret" in given or "client_secret_expires_at" in given:
        raise BadRegistration("the metadata document has a client secret")
    return check_registration(
        {"token_endpoint_auth_method": "none", **given},
        grant_types=(AUTHORIZATION_CODE, "refresh_token"),
        auth_methods=("none", ASSERTION_METHOD),
    )


# --------------------------------------------------------------------------------- client half

PRE_REGISTERED, DOCUMENT, DYNAMIC = "pre-registered", "document", "dynamic"
"""The ways to get a client id."""

MAX_CREDENTIAL_CHARACTERS = 10_000


@dataclass(frozen=True)
class Registration:
    """A client id, and the authorization server that knows it.

    # spec: basic/authorization/client-registration/credentials-keyed-by-issuer
    # spec: basic/authorization/authorization-server-discovery/registration-per-as
    """

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    auth_method: str | None = None
    """How the client authenticates at the token endpoint, if the server's response says so."""
    secret_expires_at: float | None = None
    """Seconds since 1970."""
    redirect_uris: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form in which a store keeps the registration."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Registration | None:
        """The registration from a store; None if it has something else there."""
        if not isinstance(given.get("issuer"), str) or not isinstance(given.get("client_id"), str):
            return None
        return _registration(given["issuer"], given)

    def is_good(self, redirect_uri: str, now: float) -> bool:
        """Whether the secret has not expired, and this redirect URI is registered."""
        if self.secret_expires_at is not None and now >= self.secret_expires_at:
            return False
        # Character by character: not every server allows another port of the loopback interface.
        return redirect_uri in self.redirect_uris


def choose_registration(
    metadata: Mapping[str, Any], *, has_client_id: bool, document_url: str | None, allow_dynamic: bool = True
) -> str:
    """The first way to a client id that both sides support. Raises AuthorizationError if there is no way.

    # spec: basic/authorization/client-registration/registration-priority
    # spec: basic/authorization/client-registration/static-credentials
    # spec: basic/authorization/client-registration/cimd-capability-checked
    # spec: basic/authorization/client-registration/cimd-fallback
    # spec: basic/authorization/client-registration/dcr-deprecated
    # spec: basic/authorization/index/client-id-obtained
    """
    if has_client_id:
        return PRE_REGISTERED
    if document_url is not None and metadata.get("client_id_metadata_document_supported") is True:
        return DOCUMENT
    if allow_dynamic and isinstance(metadata.get("registration_endpoint"), str):
        return DYNAMIC
    raise AuthorizationError(
        f"the authorization server {one_line(metadata.get('issuer'))} registers no client by itself: "
        "register one there, and write OAuth(client_id=..., client_secret=...)",
        issuer=metadata.get("issuer"),
    )


def registration_request(
    client_name: str, redirect_uris: Sequence[str], auth_method: str, scopes: Sequence[str] | None = None
) -> dict[str, Any]:
    """The body of a dynamic registration.

    # spec: basic/authorization/client-registration/application-type
    # spec: basic/authorization/client-registration/application-type-native
    # spec: basic/authorization/client-registration/application-type-web
    # spec: basic/authorization/security-considerations/redirects-registered
    """
    is_web = redirect_uris and not any(map(redirect_is_loopback, redirect_uris))
    request = {
        "client_name": client_name,
        "redirect_uris": list(redirect_uris),
        "grant_types": list(GRANT_TYPES),
        "response_types": ["code"],
        "token_endpoint_auth_method": auth_method,
        "application_type": "web" if is_web else "native",
    }
    return {**request, "scope": " ".join(scopes)} if scopes else request


def metadata_document(
    url: str, client_name: str, redirect_uris: Sequence[str], **more: Any
) -> dict[str, Any]:
    """The client id metadata document to publish at a URL. Raises BadRegistration.

    # spec: basic/authorization/client-registration/cimd-properties
    # spec: basic/authorization/client-registration/cimd-client-id-matches
    # spec: basic/authorization/client-registration/cimd-url-path
    # spec: basic/authorization/client-registration/cimd-requirements
    """
    document = {
        **registration_request(client_name, redirect_uris, "none"),
        **more,
        "client_id": check_client_id_url(url),
    }
    check_metadata_document(url, document)
    return document


def read_registration(
    status: int, said: Mapping[str, Any], issuer: str, redirect_uris: Sequence[str]
) -> Registration:
    """The Registration from the response to a dynamic registration. Raises AuthorizationError, saying why.

    # spec: basic/authorization/client-registration/registration-failure
    # spec: basic/authorization/client-registration/registration-failure-surfaced
    """
    where = f"the authorization server {one_line(issuer)}"
    if not 200 <= status < 300:
        code, told = said.get("error"), said.get("error_description")
        why = f" ({one_line(str(code)[:100])})" if isinstance(code, str) else f" (status {status})"
        more = f": {one_line(told[:300])}" if isinstance(told, str) else ""
        shown = one_line(", ".join(redirect_uris))
        raise AuthorizationError(
            f"{where} did not register this client with the redirect URI {shown}{why}{more}",
            error=code if isinstance(code, str) else None,
            issuer=issuer,
        )
    found = _registration(issuer, {**said, "redirect_uris": list(redirect_uris)})
    if found is None:
        raise AuthorizationError(f"{where} registered this client without a client_id", issuer=issuer)
    return found


def _registration(issuer: str, said: Mapping[str, Any]) -> Registration | None:
    client_id, secret = _credential(said.get("client_id")), _credential(said.get("client_secret"))
    if client_id is None:
        return None
    method = said.get("token_endpoint_auth_method", said.get("auth_method"))
    ends = said.get("client_secret_expires_at", said.get("secret_expires_at"))
    uris = said.get("redirect_uris")
    return Registration(
        issuer,
        client_id,
        secret,
        method if isinstance(method, str) else None,
        _moment(ends) if secret is not None else None,
        tuple(uri for uri in uris if isinstance(uri, str)) if isinstance(uris, list | tuple) else (),
    )


def _moment(given: object) -> float | None:
    """A time in seconds since 1970; None for 0, which means never, and for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        return None
    return float(given) if given > 0 else None


def _credential(given: object) -> str | None:
    is_one = isinstance(given, str) and given.isprintable() and 0 < len(given) <= MAX_CREDENTIAL_CHARACTERS
    return str(given) if is_one else None
