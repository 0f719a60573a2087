"""The settings of an authorization server: its name, the resources that it guards, how long tokens last.

Errors      ValueError and TypeError for a setting that is not possible. OAuthError for a request that asks
            for a resource or a scope that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp_ref.basic.authorization.security_considerations import LOOPBACK_HOSTS
from mcp_ref.extras.authorization_server.messages import OAuthError
from mcp_ref.runtime.checks import check_bool, check_seconds, check_text
from mcp_ref.runtime.uri.uris import check_uri

__all__ = ["OFFLINE_ACCESS", "Settings", "check_issuer"]

OFFLINE_ACCESS = "offline_access"
"""The scope with which a client asks for a refresh token. It belongs to no resource."""

# RFC 6749, section 3.3: scope-token = 1*( %x21 / %x23-5B / %x5D-7E )
_SCOPE_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def check_issuer(issuer: str) -> str:
    """Return `issuer` if it can name an authorization server (RFC 8414, section 2). Raises ValueError."""
    check_text(issuer=issuer)
    check_uri(issuer)
    parts = urlsplit(issuer)
    host = parts.netloc.rpartition(":")[0] if parts.port is not None else parts.netloc
    if "?" in issuer or "#" in issuer or "@" in parts.netloc or not parts.hostname:
        raise ValueError(f"an issuer is a URL with a host, and without a user, query or fragment: {issuer!r}")
    # spec: basic/authorization/security-considerations/https-endpoints
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK_HOSTS):
        raise ValueError(f"an issuer has https, or http on this machine only, not {issuer!r}")
    return issuer


@dataclass(frozen=True)
class Settings:
    """The settings, checked."""

    issuer: str
    resources: tuple[str, ...]
    """The MCP servers for which tokens are issued: their `resource`, as in their metadata."""
    scopes: Mapping[str, str]
    """Each scope, with what a person is told about it."""
    token_seconds: float = 600.0
    refresh_seconds: float = 30 * 86400.0
    registration: bool = True
    metadata_documents: bool = True
    allow_private: bool = False
    """Whether metadata documents may be at private addresses and, on this machine, be fetched with http."""

    def __post_init__(self) -> None:
        check_issuer(self.issuer)
        check_bool(
            registration=self.registration,
            metadata_documents=self.metadata_documents,
            allow_private=self.allow_private,
        )
        check_seconds("token_seconds", self.token_seconds)
        check_seconds("refresh_seconds", self.refresh_seconds)
        if not self.resources:
            raise ValueError("an authorization server issues tokens for resources: name one at least")
        for resource in self.resources:
            check_text(resources=resource)
            if "#" in check_uri(resource):
                raise ValueError(f"a resource has no fragment: {resource!r}")
        for scope, description in self.scopes.items():
            check_text(scopes=scope, description=description)
            if not _SCOPE_TOKEN.fullmatch(scope):
                raise ValueError(f"a scope has no spaces, quotes or backslashes: {scope!r}")

    @property
    def path(self) -> str:
        """The path of the issuer, without a slash at its end: "" or "/tenant1"."""
        return urlsplit(self.issuer).path.rstrip("/")

    @property
    def origin(self) -> str:
        parts = urlsplit(self.issuer)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def is_secure(self) -> bool:
        return self.issuer.startswith("https://")

    @property
    def is_local(self) -> bool:
        """Whether the server is for browsers of this machine only."""
        return not self.is_secure

    def endpoint(self, name: str) -> str:
        return f"{self.origin}{self.path}/{name}"

    def scopes_supported(self) -> list[str]:
        return [*self.scopes, OFFLINE_ACCESS]

    def resource_of(self, given: str | None) -> str:
        """The resource that a request names (RFC 8707), as it was configured. Raises OAuthError.

        If there is only one, a client of an old revision need not name it.
        """
        if given is None and len(self.resources) == 1:
            return self.resources[0]
        found = [
            one for one in self.resources if given is not None and _comparable(one) == _comparable(given)
        ]
        if not found:
            raise OAuthError("invalid_target", "resource names none of the MCP servers that are known here")
        return found[0]

    def scopes_of(self, given: str | None) -> tuple[str, ...]:
        """The scopes that a request asks for; if it does not say, all. Raises OAuthError."""
        if given is None:
            return tuple(self.scopes)
        wanted = tuple(dict.fromkeys(given.split(" ")))
        if not all(scope in self.scopes or scope == OFFLINE_ACCESS for scope in wanted):
            raise OAuthError("invalid_scope", f"the scopes are {', '.join(self.scopes_supported())}")
        return wanted

    def described(self, scopes: Iterable[str]) -> list[tuple[str, str]]:
        """The scopes that have a description for people, each with its description."""
        return [(scope, self.scopes[scope]) for scope in scopes if scope in self.scopes]


def _comparable(resource: str) -> str:
    """A resource with scheme and host in lower case, and without a path that is only a slash."""
    parts = urlsplit(resource)
    path = "" if parts.path == "/" and not parts.query else parts.path
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), path=path).geturl()
