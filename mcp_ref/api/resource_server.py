"""A protected server: which access tokens it accepts, and what they allow (pages: basic/authorization).

    server.run("http", auth=ResourceServer(
        "https://notes.example.com/mcp",
        authorization_servers=["https://auth.example.com"],
        verify=JwtVerifier("https://auth.example.com", jwks_uri="https://auth.example.com/jwks"),
        scopes=["notes:read"],
    ))

    @server.tool(scopes=["notes:write"])
    def write(ctx: Context, text: str) -> str:
        return f"{ctx.token.subject} wrote {len(text)} characters"

Every HTTP request, in either transport, passes these steps before its body is read:

    step 1   its token, from the Authorization header        401, 400
    step 2   what the token says, by `verify`                401, 503
    step 3   for this server, of its issuers, valid now      401
    step 4   if bound to a key: the request proves it (DPoP) 401
    step 5   the scopes: of a POST once its message is known, before any of it is done    403

The principal of the request is the subject of its token, unless `principal` says otherwise.

Revisions   2025-03-26 to 2026-07-28
Errors      Refused, with a challenge; TypeError and ValueError for invalid options of a ResourceServer.
Threads     any: a ResourceServer never changes.
Not here    how a request carries its token, and the order of the checks
            (basic/authorization/index/access_tokens), which status and which challenge (.../error_handling),
            the metadata (basic/authorization/authorization_server_discovery)
"""

from __future__ import annotations

import functools
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Protocol
from urllib.parse import quote, urlsplit

from mcp_ref.api.token_verifiers import Introspection, JwtVerifier
from mcp_ref.basic.authorization.authorization_server_discovery import (
    document,
    metadata_paths,
    metadata_url,
    resource_metadata,
)
from mcp_ref.basic.authorization.index.access_tokens import (
    Access,
    AccessToken,
    CannotVerify,
    Credentials,
    InvalidToken,
    Rules,
    Verifier,
    closure,
    credentials_of,
)
from mcp_ref.basic.authorization.index.error_handling import Refusals, check_scopes
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.context import ALLOWED
from mcp_ref.basic.patterns.subscriptions.server import MAX_URIS
from mcp_ref.basic.transports.streamable_http.security import Authenticate, Guard, Refused
from mcp_ref.extensions.dpop import InvalidProof, Nonces, Replays, UseNonce, check_proof
from mcp_ref.runtime.checks import check_bool, check_callable, check_seconds, check_text, check_text_if_any
from mcp_ref.runtime.jose import ASYMMETRIC
from mcp_ref.runtime.logs import logger
from mcp_ref.server.prompts import RegisteredPrompt
from mcp_ref.server.resources import RegisteredResource, RegisteredTemplate
from mcp_ref.server.tools import RegisteredTool
from mcp_ref.server.utilities.pagination import PagedList

__all__ = ["AccessToken", "CannotVerify", "Introspection", "InvalidToken", "JwtVerifier", "ResourceServer"]

_log = logger("mcp_ref.auth")

HTTP_URL = re.compile(r"https?://[!-~]+")
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class ResourceServer:
    """Which tokens a server accepts, and what they allow.

    Raises TypeError or ValueError for an invalid option, and names it.
    """

    resource: str
    """The URL of the MCP endpoint as its clients know it, also behind a proxy. Tokens must have it as their
    audience.
    """
    _: KW_ONLY
    authorization_servers: Sequence[str]
    """The issuers whose tokens are accepted."""
    verify: Verifier
    """Makes an AccessToken from a token: a JwtVerifier, an Introspection, or a function."""
    scopes: Sequence[str] = ()
    """Scopes that every request needs."""
    scopes_supported: Sequence[str] | None = None
    """Scopes that the metadata lists for clients to ask for; None for those of `scopes`."""
    implies: Mapping[str, Sequence[str]] | None = None
    """Scopes that have others in them: {"notes:write": ["notes:read"]}."""
    principal: Callable[[AccessToken], str] | None = None
    """Returns on whose behalf a token is. None: its subject, after its issuer if there are several."""
    hides_tools: bool = False
    """Whether tools/list has only the tools that the token allows."""
    dpop: bool | Literal["required"] = False
    """Whether tokens may, or must, be bound to a key that each request proves to have (extensions/dpop)."""
    dpop_nonces: Nonces | None = None
    """Makes the nonces of this server, which each proof must then have: a `Nonces()`, with one secret for all
    processes behind one URL.
    """
    clock_skew: float = 30.0
    """Seconds by which the clocks of two machines may differ."""
    resource_name: str | None = None
    """A name of the server for people, in the metadata."""
    documentation: str | None = None
    """A URL for people who write clients, in the metadata."""
    allow_http: bool = False
    """Whether these URLs may be http on other machines, too: only for a network of one's own."""

    def __post_init__(self) -> None:
        check_text(resource=self.resource)
        check_text_if_any(resource_name=self.resource_name, documentation=self.documentation)
        check_bool(hides_tools=self.hides_tools, allow_http=self.allow_http)
        check_callable(verify=self.verify, principal=self.principal)
        if self.verify is None:
            raise TypeError("verify is what makes an AccessToken of a token, not None")
        if self.dpop not in (False, True, "required"):
            raise ValueError(f"dpop is False, True or 'required', not {self.dpop!r:.60}")
        if not isinstance(self.dpop_nonces, Nonces | None):
            raise TypeError(f"dpop_nonces is a Nonces, not {type(self.dpop_nonces).__name__}")
        if self.clock_skew != 0:
            check_seconds("clock_skew", self.clock_skew)
        object.__setattr__(self, "scopes", check_scopes(self.scopes))
        if self.scopes_supported is not None:
            object.__setattr__(self, "scopes_supported", check_scopes(self.scopes_supported))
        self._check_urls()

    def _check_urls(self) -> None:
        servers = self.authorization_servers
        if isinstance(servers, str) or not servers:
            raise ValueError("authorization_servers names at least one, in a list")
        object.__setattr__(self, "authorization_servers", tuple(servers))
        self._check_url("resource", self.resource)
        for issuer in self.authorization_servers:
            self._check_url("authorization_servers", issuer)
            if urlsplit(issuer).query:
                raise ValueError(f"authorization_servers: {issuer!r:.200} has a query, which no issuer has")

    def _check_url(self, name: str, url: str) -> None:
        """Raise ValueError for a URL that cannot identify a server, or is not protected by https."""
        try:
            parts, is_url = urlsplit(url), HTTP_URL.fullmatch(url) is not None
        except ValueError:
            is_url = False
        if not is_url or not parts.hostname:
            raise ValueError(f"{name}: {url!r:.200} is no URL such as https://mcp.example.com/mcp")
        if "#" in url or "@" in parts.netloc:
            raise ValueError(f"{name}: {url!r:.200} has a fragment, or a user")
        if parts.scheme == "http" and parts.hostname not in LOCAL_HOSTS and not self.allow_http:
            raise ValueError(f"{name}: {url!r:.200} is not https, which only a server on this machine may be")

    # -- what is told ----------------------------------------------------------------------------------

    @property
    def metadata_url(self) -> str:
        """Where clients find the metadata: each challenge names it."""
        return metadata_url(self.resource)

    def metadata(self) -> Json:
        """The protected resource metadata; an application may serve it elsewhere as well."""
        supported = self.scopes if self.scopes_supported is None else self.scopes_supported
        found = resource_metadata(
            self.resource,
            self.authorization_servers,
            scopes_supported=list(supported) or None,
            resource_name=self.resource_name,
            resource_documentation=self.documentation,
            dpop_signing_alg_values_supported=list(ASYMMETRIC) if self.dpop else None,
            dpop_bound_access_tokens_required=True if self.dpop == "required" else None,
        )
        return {**found}

    def rules(self) -> Rules:
        """The rules that every token is checked against."""
        bound = {"DPoP": {"algs": " ".join(ASYMMETRIC)}}
        schemes: Mapping[str, Mapping[str, str]] = {"Bearer": {}}
        if self.dpop:
            schemes = bound if self.dpop == "required" else {**schemes, **bound}
        refusals = Refusals(self.metadata_url, schemes, tuple(self.scopes))
        return Rules(
            self.resource,
            tuple(self.authorization_servers),
            refusals,
            closure(self.implies or {}),
            self.clock_skew,
            self.hides_tools,
        )

    def principal_of(self, token: AccessToken) -> str:
        """The principal of a token. Raises InvalidToken if the token does not name one.

        With several issuers the name begins with the issuer, since two of them may use one subject for two
        people. A token without a subject belongs to its client. The name of that begins with "client ", and
        a subject that begins so gets a prefix, so that none can be mistaken for a client.
        """
        if self.principal is not None:
            return self.principal(token)
        name = token.subject
        if name and name.startswith(("client ", "subject ")):
            name = f"subject {name}"
        elif not name and token.client_id:
            name = f"client {token.client_id}"
        if not name:
            raise InvalidToken("the token says neither whose it is nor to which client it was issued")
        if len(self.authorization_servers) == 1:
            return name
        if token.issuer is None:
            raise InvalidToken("the token does not say who issued it")
        return f"{token.issuer} {name}"

    # -- what `Server.wsgi_app` uses -------------------------------------------------------------------

    def guard(self, server: ScopedServer, path: str, authenticate: Authenticate | None = None) -> Guard:
        """The Guard that checks each request to a server at this path. For `Server.wsgi_app`."""
        if authenticate is not None:
            raise ValueError("auth and authenticate both say who asks: pass one of them")
        if self.hides_tools:
            server.handlers.may_hide = True  # no error names what a caller does not see
        return ProtectingGuard(self, server, path)


class Hides(Protocol):
    """The part of a server's handlers that this module sets (api/registering)."""

    may_hide: bool
    """Whether a client may see less than the lists have; then errors do not name what there is."""


class ScopedServer(Protocol):
    """What this module needs of a server: its lists, whose items may need scopes."""

    @property
    def tools(self) -> PagedList[RegisteredTool]: ...

    @property
    def resources(self) -> PagedList[RegisteredResource]: ...

    @property
    def templates(self) -> PagedList[RegisteredTemplate]: ...

    @property
    def prompts(self) -> PagedList[RegisteredPrompt]: ...

    @property
    def handlers(self) -> Hides: ...


class ProtectingGuard(Guard):
    """Admits requests with a valid token."""

    def __init__(self, protected: ResourceServer, server: ScopedServer, path: str) -> None:
        self._protected, self._rules = protected, protected.rules()
        self._needs = functools.partial(scopes_of, server)
        self._seen = Replays()
        self._paths = PublicPaths(protected.resource, path)
        serve = document(protected.metadata())
        self.documents = dict.fromkeys(metadata_paths(protected.resource, path), serve)

    def admit(self, environ: Json) -> str:
        """The principal of a request. The environ gets an Access: what its token allows. Raises Refused.

        Every request is checked, whatever came before it in its session: a session authorizes nothing.
        # spec: basic/authorization/security-considerations/validate-before-processing
        # spec: docs/security_best_practices/verify-inbound
        """
        # Step 1: read the token from the request.
        credentials = credentials_of(environ, self._rules.refusals)
        # Step 2: verify it, and read what it says.
        token = self._verified(credentials)
        # Step 3: check that it is for this server, from its issuers, and valid now.
        self._rules.check(token, time.time(), credentials.scheme)
        # Step 4: check that it belongs to the sender.
        self._check_binding(token, credentials, environ)
        principal = self._principal(token, credentials.scheme)
        # Step 5: check the scopes. Those that a POST needs are known once its body is read.
        access = environ[ALLOWED] = Access(token, self._rules, self._needs)
        if environ["REQUEST_METHOD"] != "POST":
            access.require(())
        return principal

    def _verified(self, credentials: Credentials) -> AccessToken:
        """Step 2. The client is not told how a verifier failed: the text might have the token in it."""
        try:
            token: Any = self._protected.verify(credentials.token)
        except InvalidToken as problem:
            raise self._invalid(problem, credentials.scheme) from None
        except CannotVerify as problem:
            _log.warning("no token can be verified: %.300s", problem)
            later = [("Retry-After", str(max(1, round(problem.retry_after))))]
            raise Refused(503, "tokens cannot be verified just now", later) from None
        except Exception as problem:
            _log.error("the verifier of tokens failed: %s", _fault(problem))
            raise _failed() from None
        if token is None:
            raise self._rules.refusals.invalid("the token is not known here", scheme=credentials.scheme)
        if not isinstance(token, AccessToken):
            _log.error("the verifier of tokens returned a %s, no AccessToken", type(token).__name__)
            raise _failed()
        return token

    def _check_binding(self, token: AccessToken, credentials: Credentials, environ: Json) -> None:
        """Step 4. A token that is bound to a key must come with a DPoP proof, any other as Bearer.

        A thief of a bound token, who does not have the key, would present it as Bearer. Raises Refused.
        """
        refusals, scheme = self._rules.refusals, credentials.scheme
        if (token.confirmation is not None) != (scheme == "DPoP"):
            bound = "a token that is" if token.confirmation is not None else "a token that is not"
            raise refusals.invalid(f"{bound} bound to a key does not come as {scheme}", scheme=scheme)
        if token.confirmation is None:
            return
        try:
            check_proof(
                environ.get("HTTP_DPOP"),
                method=environ["REQUEST_METHOD"],
                url=self._paths.url_of(environ),
                seen=self._seen,
                access_token=credentials.token,
                bound_to=token.confirmation,
                nonces=self._protected.dpop_nonces,
                skew=self._rules.clock_skew,
            )
        except InvalidProof as problem:
            nonce = problem.nonce if isinstance(problem, UseNonce) else None
            raise refusals.invalid(str(problem), scheme=scheme, error=problem.error, nonce=nonce) from None

    def _principal(self, token: AccessToken, scheme: str) -> str:
        try:
            principal = self._protected.principal_of(token)
        except InvalidToken as problem:
            raise self._invalid(problem, scheme) from None
        except Exception as problem:
            _log.error("the principal of a token cannot be told: %s", _fault(problem))
            raise _failed() from None
        if not isinstance(principal, str) or not principal:
            _log.error("the principal of a token is a %s, not a name", type(principal).__name__)
            raise _failed()
        return principal

    def _invalid(self, problem: InvalidToken, scheme: str) -> Refused:
        _log.debug("refused a token: %.200s", problem)
        return self._rules.refusals.invalid(str(problem), scheme=scheme)


class PublicPaths:
    """The URLs of requests as clients know them, where a proxy in front may have changed the paths."""

    def __init__(self, resource: str, path: str) -> None:
        parts = urlsplit(resource)
        self._origin, self._resource = f"{parts.scheme}://{parts.netloc}", resource
        self._path = "/" + path.strip("/")
        public = parts.path.rstrip("/")
        own = self._path.rstrip("/")
        self._prefix = public.removesuffix(own) if public.endswith(own) else ""
        """The beginning of each path that the proxy takes off."""

    def url_of(self, environ: Json) -> str:
        """The URL of a request as its client knows it, without the query. The Host header is not used."""
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        if "/" + path.strip("/") == self._path:
            return self._resource
        return f"{self._origin}{self._prefix}{quote(path.encode('latin-1'))}"


def _fault(problem: Exception) -> str:
    """The type and the place of an exception. Its message is left out: it may have the token in it."""
    place = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__} at {place.filename}:{place.lineno}"


def _failed() -> Refused:
    return Refused(500, "authorization failed on the server's side")


# ------------------------------------------------------------------ what a message needs


def scopes_of(server: ScopedServer, message: Any) -> list[str]:
    """The scopes that a message needs, or all messages of a batch together; [] for anything else."""
    if type(message) is list:
        return [scope for each in message for scope in scopes_of(server, each)]
    if type(message) is not dict:
        return []
    method, params = message.get("method"), message.get("params")
    find = SCOPES_BY_METHOD.get(method) if isinstance(method, str) else None
    return [] if find is None or type(params) is not dict else [*find(server, params)]


def _of_tool(server: ScopedServer, params: Json) -> Iterable[str]:
    name = params.get("name")
    tool = server.tools.get(name) if isinstance(name, str) else None
    return () if tool is None else tool.scopes


def _of_prompt(server: ScopedServer, params: Json) -> Iterable[str]:
    name = params.get("name")
    prompt = server.prompts.get(name) if isinstance(name, str) else None
    return () if prompt is None else prompt.scopes


def _of_resource(server: ScopedServer, params: Json) -> Iterable[str]:
    """By the resource of this URI, else the first template that matches: the same as resources/read finds."""
    uri = params.get("uri")
    if not isinstance(uri, str):
        return ()
    found: RegisteredResource | RegisteredTemplate | None = server.resources.get(uri)
    if found is None:
        found = server.templates.get(uri)
    if found is None:
        fitting = (item for item in server.templates.values() if item.template.match(uri) is not None)
        found = next(fitting, None)
    return () if found is None else found.scopes


def _of_reference(server: ScopedServer, params: Json) -> Iterable[str]:
    ref = params.get("ref")
    if type(ref) is not dict:
        return ()
    return [*_of_prompt(server, ref), *_of_resource(server, ref)]


def _of_subscription(server: ScopedServer, params: Json) -> Iterable[str]:
    wanted = params.get("notifications")
    uris = wanted.get("resourceSubscriptions") if type(wanted) is dict else None
    several = dict.fromkeys(uri for uri in uris if isinstance(uri, str)) if type(uris) is list else {}
    if len(several) > MAX_URIS:  # basic/patterns/subscriptions refuses such a request
        return ()
    return [scope for uri in several for scope in _of_resource(server, {"uri": uri})]


SCOPES_BY_METHOD: dict[str, Callable[[ScopedServer, Json], Iterable[str]]] = {
    "tools/call": _of_tool,
    "prompts/get": _of_prompt,
    "resources/read": _of_resource,
    "resources/subscribe": _of_resource,
    "completion/complete": _of_reference,
    "subscriptions/listen": _of_subscription,
}
"""By method: the scopes of the item that the params name. Other methods need no scopes of their own."""
