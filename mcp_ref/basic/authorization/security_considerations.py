"""Security considerations (page: basic/authorization/security-considerations).

What either side checks before it trusts the other. An authorization server checks:

    check_redirect_uri(uri)                  may a client register it?
    redirect_uri_is_registered(uri, uris)    is the URI of a request one of those that were registered?
    check_code_challenge(challenge, method)  PKCE, in the authorization request: only S256 is accepted
    code_verifier_fits(verifier, challenge)  PKCE, in the token request

A client makes and checks:

    new_verifier(), new_state()              secrets of one authorization request
    check_pkce_support(metadata)             does the server say that it supports S256?
    check_endpoint(name, url, ...)           may this URL be an endpoint of an authorization server?
    check_page(url)                          may a browser be sent there?

Redirect URIs are compared as strings, character by character. Two strings that a browser takes for the same
address are two redirect URIs here: everything that a comparison normalizes, an attacker may vary. OAuth 2.1,
section 8.4.2, has the one exception: a native application learns the port of the loopback interface at which
it listens only when it starts, so any port is accepted there.

Revisions   2025-03-26 and later.
Errors      ValueError says what is wrong with a redirect URI, or with a challenge.
Threads     functions only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mcp_ref.runtime.http_client.addresses import is_loopback
from mcp_ref.runtime.uri.uris import check_uri

__all__ = [
    "LOOPBACK_HOSTS",
    "MAX_REDIRECT_URI_CHARACTERS",
    "check_code_challenge",
    "check_endpoint",
    "check_page",
    "check_pkce_support",
    "check_redirect_uri",
    "code_verifier_fits",
    "new_state",
    "new_verifier",
    "redirect_host",
    "redirect_is_loopback",
    "redirect_uri_is_registered",
    "s256",
]

# ---------------------------------------------------------------- redirect URIs, as a server takes them

MAX_REDIRECT_URI_CHARACTERS = 2000
"""A longer one, with all that is added to it, would not fit into the first line of a request."""

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")

OF_ANSWERS = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})
"""The query parameters of an authorization response (RFC 6749, section 4.1.2, and RFC 9207)."""

# RFC 3986, section 3.2, narrowed: authority = host [ ":" port ], without userinfo, without encoded characters
_REDIRECT_AUTHORITY = re.compile(
    r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::([0-9]{1,5}))?"
)
# "http://" loopback host [ ":" port ] rest
_LOOPBACK_REDIRECT = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?].*)?)")


def check_redirect_uri(uri: object) -> str:
    """Return the URI, if a client may register it. Raises ValueError.

    It must be https, or http to the loopback interface, and must not have in its query what a response adds.
    """
    # spec: basic/authorization/security-considerations/redirect-localhost-or-https
    if not isinstance(uri, str) or not 0 < len(uri) <= MAX_REDIRECT_URI_CHARACTERS:
        raise ValueError(f"a redirect URI is a text of up to {MAX_REDIRECT_URI_CHARACTERS} characters")
    scheme, host = _scheme_and_host(check_uri(uri))
    if scheme not in ("https", "http"):
        raise ValueError("a redirect URI begins with https://, or with http:// and a loopback address")
    if "#" in uri:
        raise ValueError("a redirect URI has no fragment")
    # A client that reads the first of two values would take a stranger's value for that of the server.
    given = sorted(OF_ANSWERS.intersection(name for name, _ in parse_qsl(urlsplit(uri).query, True)))
    if given:
        raise ValueError(f"a redirect URI has no {given[0]} in its query, where the answer brings it")
    if scheme == "http" and host not in LOOPBACK_HOSTS:
        raise ValueError("a redirect URI with http leads to localhost, 127.0.0.1 or [::1]; others need https")
    return uri


def _scheme_and_host(uri: str) -> tuple[str, str]:
    """The scheme and host of a URI. Raises ValueError for an authority that could be read in two ways."""
    scheme, separator, rest = uri.partition("://")
    found = _REDIRECT_AUTHORITY.fullmatch(re.split(r"[/?#]", rest, maxsplit=1)[0])
    if not separator or found is None or int(found[2] or 443) > 65535:
        raise ValueError("a redirect URI names a host, perhaps a port, and no user")
    return scheme, found[1]


def redirect_uri_is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Whether the redirect URI of a request is one of those that its client registered."""
    # spec: basic/authorization/security-considerations/redirects-exact
    if uri in registered:
        return True
    found = _LOOPBACK_REDIRECT.fullmatch(uri)
    if found is None:
        return False
    try:
        check_redirect_uri(uri)  # checks the port, too
    except ValueError:
        return False
    others = (_LOOPBACK_REDIRECT.fullmatch(one) for one in registered)
    return any(other is not None and other.groups() == found.groups() for other in others)


def redirect_is_loopback(uri: str) -> bool:
    """Whether a redirect URI leads to the machine on which the browser runs, over http."""
    return _LOOPBACK_REDIRECT.fullmatch(uri) is not None


def redirect_host(uri: str) -> str:
    """The host of a redirect URI that was checked, to show to a person: with the port, if it has one."""
    return urlsplit(uri).netloc


# ------------------------------------------------------------------------------- PKCE (RFC 7636)

# RFC 7636, section 4.1: code-verifier = 43*128unreserved
_CODE_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")
# RFC 7636, section 4.2: the base64url of a SHA-256 has 43 characters
_CODE_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


def s256(verifier: str) -> str:
    """The code challenge of a verifier, by the method S256."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def check_code_challenge(challenge: str | None, method: str | None) -> str:
    """Return the code challenge of a request. Raises ValueError; `plain`, even as the default, is refused."""
    if challenge is None:
        raise ValueError("PKCE is required: there is no code_challenge")
    if method != "S256":
        raise ValueError("code_challenge_method is S256 here, and must be given")
    if not _CODE_CHALLENGE.fullmatch(challenge):
        raise ValueError("a code_challenge of S256 is 43 characters of base64url")
    return challenge


def code_verifier_fits(verifier: str | None, challenge: str) -> bool:
    """Whether the verifier of a token request is the one that the challenge was made of."""
    if verifier is None or not _CODE_VERIFIER.fullmatch(verifier):
        return False
    return hmac.compare_digest(s256(verifier), challenge)


# ------------------------------------------------------------------ what a client makes and checks


def new_verifier() -> str:
    """A new random code verifier.  # spec: basic/authorization/security-considerations/pkce"""
    return secrets.token_urlsafe(48)


def new_state() -> str:
    """A new random `state`, which binds an authorization response to its request.

    # spec: basic/authorization/security-considerations/state-verified
    """
    return secrets.token_urlsafe(32)


def check_pkce_support(metadata: Mapping[str, Any]) -> None:
    """Raises ValueError unless the metadata lists S256: otherwise the server may ignore the code verifier.

    # spec: basic/authorization/security-considerations/pkce-support-verified
    # spec: basic/authorization/security-considerations/pkce-from-metadata
    # spec: basic/authorization/security-considerations/pkce-refuse-oauth
    # spec: basic/authorization/security-considerations/pkce-verify-oidc
    # spec: basic/authorization/security-considerations/pkce-refuse-oidc
    # spec: basic/authorization/security-considerations/pkce-s256
    """
    methods = metadata.get("code_challenge_methods_supported")
    if not isinstance(methods, list) or "S256" not in methods:
        raise ValueError(
            "its metadata does not list S256 among code_challenge_methods_supported: it may not know PKCE"
        )


def check_endpoint(name: str, url: object, *, allow_http: bool = False) -> str:
    """Return the URL, if it may be an endpoint: https, or http to this machine. Raises ValueError.

    The IP address of its host is checked when the URL is fetched (runtime/http_client/fetching).
    # spec: basic/authorization/security-considerations/oauth-communication-security
    # spec: docs/security_best_practices/oauth-https, docs/security_best_practices/sanitise-urls
    """
    if not isinstance(url, str):
        raise ValueError(f"{name} is no text")
    try:
        parts = urlsplit(check_uri(url))
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"{name} is no URL") from None
    if not host or "@" in parts.netloc or "#" in url or parts.scheme not in ("https", "http"):
        raise ValueError(f"{name} is no URL of a server: https://host/path, without user and fragment")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        raise ValueError(f"{name} is http, and not https")
    return url


def check_page(url: str, *, allow_http: bool = False) -> str:
    """Return the URL, if a browser may be sent there. Raises ValueError.

    A shell may be what opens the browser, so only characters that stand in URLs are let through.
    # spec: docs/security_best_practices/auth-url-validated
    # spec: docs/security_best_practices/auth-url-http-https
    # spec: docs/security_best_practices/auth-url-dangerous-schemes
    # spec: docs/security_best_practices/auth-url-allowlist
    """
    check_endpoint("the authorization URL", url, allow_http=allow_http)
    if _PAGE_URL.fullmatch(url) is None:
        raise ValueError("the authorization URL has characters that are in no URL")
    return url


# RFC 3986, section 2, without quotation marks, which a URL can do without
_PAGE_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=%-]+")
