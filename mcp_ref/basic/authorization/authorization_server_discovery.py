"""Authorization Server Discovery (page: basic/authorization/authorization-server-discovery), on both sides.

A client knows the URL of an MCP server, and finds out who issues tokens for it:

    client -> server   a request without a token     -> 401  resource_metadata="https://.../.well-known/..."
    client -> server   GET that URL                  -> {resource, authorization_servers: [...], ...}
              or, if the challenge does not name it:
    client -> server   GET /.well-known/oauth-protected-resource/mcp     the path of the endpoint, inserted
    client -> server   GET /.well-known/oauth-protected-resource         the root

    client -> authorization server   GET its metadata -> {issuer, authorization_endpoint, token_endpoint, ...}
                                     at up to three URLs, of two specifications

Server half   `resource_metadata`, and where it is served: `metadata_url`, `metadata_paths`, `document`
Client half   `find_resource`, `find_server`; for servers of 2025-03-26 `find_server_of_old`

A document is believed only if it says that it is about the server that was asked. The metadata of a resource
must name the URL of that server (or its bare origin); the metadata of an authorization server must have the
issuer, character by character, that led to it. Otherwise any server could speak for any other.

Revisions   2025-03-26  the MCP server is its own authorization server: its metadata is at the root; without
                        metadata, its endpoints are /authorize, /token and /register
            2025-06-18  the challenge names the metadata; the metadata names the authorization servers
            2025-11-25  + without a challenge, two well-known places; OpenID Connect Discovery
            2026-07-28  + the issuer of the metadata is the one that was asked
Errors      server: 405 for methods other than GET, HEAD and OPTIONS.
            client: AuthorizationError, which names the URLs that were asked.
Threads     plain functions, and data that never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Required, TypedDict
from urllib.parse import urlsplit

from mcp_ref.basic.authorization.index.authorization_flow import canonical_uri, covers
from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.basic.authorization.index.scope_selection import scopes_of
from mcp_ref.basic.authorization.security_considerations import check_endpoint
from mcp_ref.basic.transports.streamable_http.security import Refused
from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.untrusted_text import one_line

if TYPE_CHECKING:
    from mcp_ref.runtime.http_server.reply import HttpReply

__all__ = [
    "ProtectedResource",
    "ProtectedResourceMetadata",
    "choose_issuer",
    "document",
    "find_resource",
    "find_server",
    "find_server_of_old",
    "metadata_paths",
    "metadata_url",
    "resource_metadata",
    "server_metadata_urls",
]

# ---------------------------------------------------------------------------- shapes


class ProtectedResourceMetadata(TypedDict, total=False):
    """What a protected server says of itself (RFC 9728, section 2): the fields that this protocol uses.

    # spec: basic/authorization/authorization-server-discovery/prm-authorization-servers
    """

    resource: Required[str]
    authorization_servers: Required[list[str]]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]
    resource_name: str
    resource_documentation: str
    dpop_signing_alg_values_supported: list[str]
    dpop_bound_access_tokens_required: bool


# ----------------------------------------------------------------------- server half

WELL_KNOWN_RESOURCE = "/.well-known/oauth-protected-resource"


def metadata_url(resource: str) -> str:
    """The URL of a resource's metadata: its path goes after the well-known part (RFC 9728, section 3.1).

    Each challenge of the server has this URL.
    # spec: basic/authorization/authorization-server-discovery/discovery-mechanism
    # spec: basic/authorization/authorization-server-discovery/www-authenticate-on-401
    """
    parts = urlsplit(resource)
    path = "" if parts.path == "/" else parts.path
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN_RESOURCE}{path}{query}"


def metadata_paths(resource: str, path: str) -> list[str]:
    """The paths at which an application serves the metadata.

    They are for its public path, for its own `path` behind a proxy, and at the root.
    """
    public = urlsplit(resource).path
    inserted = [WELL_KNOWN_RESOURCE + each.rstrip("/") for each in (public, path)]
    return list(dict.fromkeys([*inserted, WELL_KNOWN_RESOURCE]))


def resource_metadata(
    resource: str, authorization_servers: Sequence[str], **more: Any
) -> ProtectedResourceMetadata:
    """The metadata of a resource. A member of `more` that is None is left out.

    # spec: basic/authorization/index/prm-server
    # spec: basic/authorization/authorization-server-discovery/prm-implemented
    """
    found: ProtectedResourceMetadata = {
        "resource": resource,
        "authorization_servers": list(authorization_servers),
        "bearer_methods_supported": ["header"],
    }
    found.update({name: value for name, value in more.items() if value is not None})  # type: ignore[typeddict-item]
    return found


DOCUMENT_HEADERS = (
    ("Content-Type", "application/json"),
    ("Cache-Control", "public, max-age=300"),
    ("Access-Control-Allow-Origin", "*"),
)
PREFLIGHT_HEADERS = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Methods", "GET"),
    ("Access-Control-Allow-Headers", "MCP-Protocol-Version"),
    ("Access-Control-Max-Age", "7200"),
)
"""For preflight requests: a web page may send the header that clients send."""


def document(value: Any) -> Callable[[HttpReply], Iterable[bytes]]:
    """A function that answers HTTP requests for a public document."""
    body = to_json(value).encode("utf-8")

    def serve(reply: HttpReply) -> Iterable[bytes]:
        method = reply.environ["REQUEST_METHOD"]
        if method == "OPTIONS":
            reply.begin(204, PREFLIGHT_HEADERS)
            return ()
        if method not in ("GET", "HEAD"):
            raise Refused(405, "this document is read with GET", [("Allow", "GET, HEAD, OPTIONS")])
        return reply.whole(200, body, DOCUMENT_HEADERS)

    return serve


# ----------------------------------------------------------------------- client half

Get = Callable[[str], "dict[str, Any] | None"]
"""Returns the JSON object at a URL, or None if nothing is there. Raises McpError if it cannot be asked."""

MAX_ISSUERS = 20
OAUTH_SUFFIX = "/.well-known/oauth-authorization-server"
OPENID_SUFFIX = "/.well-known/openid-configuration"
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")


@dataclass(frozen=True)
class ProtectedResource:
    """The metadata of an MCP server, as far as a client needs it, after the checks."""

    resource: str
    """As the metadata has it. Tokens are requested for this resource."""
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] | None
    """`scopes_supported`; None if the metadata has none."""


def find_resource(
    get: Get, url: str, announced: str | None, *, allow_http: bool = False
) -> ProtectedResource | None:
    """The metadata of the MCP server at a URL; None if it has none, as in 2025-03-26.

    `announced` is the URL of the metadata in the challenge, if it has one. Raises AuthorizationError.
    # spec: basic/authorization/authorization-server-discovery/client-both-mechanisms
    # spec: basic/authorization/authorization-server-discovery/client-well-known-fallback
    # spec: basic/authorization/authorization-server-discovery/parse-www-authenticate
    # spec: basic/authorization/index/prm-client
    """
    if announced is not None:
        try:
            check_endpoint("resource_metadata", announced, allow_http=allow_http)
        except ValueError as problem:
            raise AuthorizationError(f"the challenge of {_shown(url)} is no good: {problem}") from None
        found = get(announced)
        if found is None:
            raise AuthorizationError(
                f"the challenge of {_shown(url)} names the metadata at {_shown(announced)}, where none is"
            )
        return _resource(found, url, announced, allow_http)
    whole = canonical_uri(url).partition("?")[0]
    root = _origin(url)
    for place in dict.fromkeys((metadata_url(whole), metadata_url(root))):
        if (found := get(place)) is not None:
            return _resource(found, url, place, allow_http)
    return None


def _resource(said: Mapping[str, Any], url: str, place: str, allow_http: bool) -> ProtectedResource:
    """Check the metadata of a resource. Raises AuthorizationError for another server's, or a useless one."""
    resource = said.get("resource")
    if not covers(resource, url):
        raise AuthorizationError(
            f"the metadata at {_shown(place)} is about {_shown(str(resource)[:200])}, and not about the "
            f"server at {_shown(url)}: no token for it would be good here, and nothing was asked for"
        )
    # spec: basic/authorization/authorization-server-discovery/client-selects-as
    issuers = tuple(i for i in _texts(said.get("authorization_servers")) if _is_issuer(i, allow_http))
    if not issuers:
        raise AuthorizationError(
            f"the metadata at {_shown(place)} names no authorization server that can be asked"
        )
    return ProtectedResource(str(resource), issuers[:MAX_ISSUERS], scopes_of(said.get("scopes_supported")))


def _is_issuer(issuer: str, allow_http: bool) -> bool:
    """Whether this may be an issuer: a URL without query and fragment (RFC 8414, section 2)."""
    try:
        check_endpoint("issuer", issuer, allow_http=allow_http)
    except ValueError:
        return False
    return "?" not in issuer


def choose_issuer(issuers: Sequence[str], wanted: str | None, known: Collection[str] = ()) -> str:
    """The authorization server to ask: the one that is wanted, else one that is known, else the first.

    `known` are issuers that know this client. Raises AuthorizationError if the one that is wanted is not
    among `issuers`.
    # spec: basic/authorization/authorization-server-discovery/client-selects-as
    # spec: basic/authorization/client-registration/preregistered-mismatch
    """
    if wanted is not None:
        if wanted not in issuers:
            raise AuthorizationError(
                f"this client is registered with {_shown(wanted)}, and the MCP server takes tokens of "
                f"{_shown(', '.join(issuers))} alone: register there, and change issuer= and client_id=",
                issuer=wanted,
            )
        return wanted
    return next((issuer for issuer in issuers if issuer in known), issuers[0])


def server_metadata_urls(issuer: str) -> list[str]:
    """The URLs where the metadata of an authorization server may be, in the order in which to ask.

    # spec: basic/authorization/authorization-server-discovery/issuer-with-path
    # spec: basic/authorization/authorization-server-discovery/issuer-without-path
    """
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if not path:
        return [origin + OAUTH_SUFFIX, origin + OPENID_SUFFIX]
    return [origin + OAUTH_SUFFIX + path, origin + OPENID_SUFFIX + path, origin + path + OPENID_SUFFIX]


def find_server(get: Get, issuer: str, *, allow_http: bool = False) -> dict[str, Any]:
    """The metadata of an authorization server. Raises AuthorizationError.

    # spec: basic/authorization/authorization-server-discovery/multiple-well-known
    # spec: basic/authorization/index/discovery-client-both
    # spec: basic/authorization/index/rfc8414-client
    # spec: basic/authorization/index/metadata-discovery-followed
    """
    places = server_metadata_urls(issuer)
    for place in places:
        if (found := get(place)) is not None:
            return _server(found, issuer, place, allow_http)
    raise AuthorizationError(
        f"the authorization server {_shown(issuer)} has no metadata; asked were {_shown(', '.join(places))}",
        issuer=issuer,
    )


def find_server_of_old(get: Get, url: str, *, allow_http: bool = False) -> dict[str, Any]:
    """The metadata of an MCP server of 2025-03-26, which is its own authorization server.

    If it has none, `default_metadata`.
    # spec: basic/authorization/index/base-url-drops-path
    # spec: basic/authorization/index/metadata-before-defaults
    """
    origin = _origin(url)
    place = origin + OAUTH_SUFFIX
    found = get(place)
    return default_metadata(origin) if found is None else _server(found, origin, place, allow_http)


def default_metadata(origin: str) -> dict[str, Any]:
    """The metadata assumed for a server of 2025-03-26 that has none; PKCE is required of it.

    # spec: basic/authorization/index/default-paths
    """
    return {
        "issuer": origin,
        "authorization_endpoint": f"{origin}/authorize",
        "token_endpoint": f"{origin}/token",
        "registration_endpoint": f"{origin}/register",
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
    }


def _server(said: Mapping[str, Any], issuer: str, place: str, allow_http: bool) -> dict[str, Any]:
    """The metadata of an authorization server, after the checks. Raises AuthorizationError.

    Members `*_supported` with a value that is no list and no boolean are left out.

    # spec: basic/authorization/authorization-server-discovery/metadata-validated
    # spec: basic/authorization/authorization-server-discovery/issuer-identical
    # spec: basic/authorization/authorization-server-discovery/issuer-mismatch-unused
    """
    if said.get("issuer") != issuer:
        raise AuthorizationError(
            f"the metadata at {_shown(place)} is of {_shown(str(said.get('issuer'))[:200])}, and not of "
            f"{_shown(issuer)}, which led there: it may be forged, and was not used",
            issuer=issuer,
        )
    good = {n: v for n, v in said.items() if not n.endswith("_supported") or isinstance(v, list | bool)}
    try:
        for name in ENDPOINTS:
            if name in good or name == "token_endpoint":
                check_endpoint(name, good.get(name), allow_http=allow_http)
    except ValueError as problem:
        raise AuthorizationError(f"the metadata at {_shown(place)}: {problem}", issuer=issuer) from None
    return good


def _origin(url: str) -> str:
    parts = urlsplit(canonical_uri(url))
    return f"{parts.scheme}://{parts.netloc}"


def _texts(given: object) -> list[str]:
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []


def _shown(text: str) -> str:
    return one_line(text.partition("?")[0][:500])
