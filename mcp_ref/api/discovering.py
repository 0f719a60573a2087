"""The requests of discovery: which authorization server an MCP server has (page:
basic/authorization/authorization-server-discovery).

Which documents to ask for, and when to believe them, is in
basic/authorization/authorization_server_discovery. Here the documents are fetched, within bounds
(runtime/http_client/fetching): from public addresses; from others only if the MCP server itself has an
address of the same kind, or if options allow it.

Revisions   2025-03-26 and later, independent of the revision that was agreed on.
Errors      AuthorizationError.
Threads     one at a time; `stop` may be called by any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import requests

from mcp_ref.basic.authorization.authorization_server_discovery import (
    ProtectedResource,
    choose_issuer,
    find_resource,
    find_server,
    find_server_of_old,
)
from mcp_ref.basic.authorization.index.authorization_flow import canonical_uri
from mcp_ref.basic.authorization.index.error_handling import AuthorizationError, Challenge
from mcp_ref.runtime.http_client.addresses import Reach, reach
from mcp_ref.runtime.http_client.fetching import Fetched, Fetcher, FetchError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.untrusted_text import one_line
from mcp_ref.schema import REVISIONS

if TYPE_CHECKING:
    from mcp_ref.api.authorization import OAuth

__all__ = ["Discovery", "Found"]

_log = logger("mcp_ref.authorization")


@dataclass(frozen=True)
class Found:
    """What discovery found for one MCP server: its resource metadata, its authorization server's issuer
    and metadata.
    """

    resource: ProtectedResource
    issuer: str
    metadata: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, str]:
        """The issuer of the tokens, and the resource that they are for."""
        return self.issuer, self.resource.resource

    def error(self, fault: str, code: str | None = None) -> AuthorizationError:
        """An AuthorizationError that names the authorization server."""
        said = f"authorization at {one_line(self.issuer)}: {fault}"
        return AuthorizationError(said, error=code, issuer=self.issuer)


class Discovery:
    """Fetches the documents of discovery, and sends the forms of later steps, for one MCP server."""

    def __init__(self, oauth: OAuth, url: str, session: requests.Session | None = None) -> None:
        """Of `session`, only the certificates and proxies are used."""
        self._oauth, self._url, self._session = oauth, url, session
        self._is_for_address = False  # whether the last fetch failed because of the server's address
        self._is_stopped = False
        self.place = canonical_uri(url).partition("?")[0]
        self.fetcher = self._fetcher(None)
        # For a server that the application itself has named: it may be at any address.
        self._named = Fetcher(allowed=tuple(Reach), allow_http=oauth.allow_http, session=session)

    def _fetcher(self, peer: str | None) -> Fetcher:
        """A Fetcher for the addresses that an MCP server at the address `peer` may name.

        Public ones always; others of the kind of `peer`, or with `allow_private`.

        # spec: docs/security_best_practices/ssrf-considered
        # spec: docs/security_best_practices/block-private-ranges
        # spec: docs/security_best_practices/validate-redirect-targets
        """
        allowed = set() if peer is None else {reach(peer)}
        if self._oauth.allow_private:
            allowed |= {Reach.PRIVATE, Reach.LOOPBACK}
        return Fetcher(allowed=allowed, allow_http=self._oauth.allow_http, session=self._session)

    def stop(self) -> None:
        """End the fetch under way, and let no other begin. May be called by any thread."""
        self._is_stopped = True  # before the line that follows: `find` replaces the fetcher
        self.fetcher.stop()
        self._named.stop()

    def find(self, challenge: Challenge | None, peer: str | None, last: str | None) -> Found:
        """Find the authorization server of the MCP server, and fetch its metadata.

        `peer` is the IP address of the MCP server, `last` the issuer that the discovery before this found.
        # spec: basic/authorization/index/discovery-requirements-followed
        """
        allow_http, named = self._oauth.allow_http, self._oauth.issuer
        self.fetcher = self._fetcher(peer)
        if self._is_stopped:  # after the line above, for `stop` may not have seen the new one
            self.fetcher.stop()
        announced = challenge.resource_metadata if challenge else None
        resource = find_resource(self.get, self._url, announced, allow_http=allow_http)
        if resource is not None:
            wanted = named or (last if self._oauth.client_id is not None else None)
            first = choose_issuer(resource.issuers, wanted, [str(last)])
            issuer, metadata = self._server([first] if wanted else [first, *resource.issuers])
        elif named is not None:
            issuer, metadata = named, find_server(self.get, named, allow_http=allow_http)
        else:
            metadata = find_server_of_old(self.get, self._url, allow_http=allow_http)
            issuer = metadata["issuer"]
        resource = resource or ProtectedResource(canonical_uri(self._url), (issuer,), None)
        return Found(resource, issuer, metadata)

    def _server(self, issuers: list[str]) -> tuple[str, dict[str, Any]]:
        """The first issuer whose address may be asked, and its metadata. Raises AuthorizationError."""
        problems: list[AuthorizationError] = []
        for issuer in dict.fromkeys(issuers):
            self._is_for_address = False
            try:
                return issuer, find_server(self.get, issuer, allow_http=self._oauth.allow_http)
            except AuthorizationError as problem:
                if not self._is_for_address:
                    raise
                _log.info("%s", problem)
                problems.append(problem)
        raise problems[0]

    def get(self, url: str) -> dict[str, Any] | None:
        """The JSON object at a URL; None for a status other than 200, or a body that is not a JSON object.

        # spec: basic/authorization/index/metadata-version-header
        """
        fetched = self.fetch(lambda: self.fetcher.get(url, {"MCP-Protocol-Version": REVISIONS[-1]}))
        if fetched.status != 200:
            return None
        try:
            return fetched.json()
        except FetchError as problem:
            _log.info("%s", problem)
            return None

    def post(self, url: str, form: Mapping[str, str] | bytes, headers: Mapping[str, str]) -> Fetched:
        """POST a form, or a body of bytes, and return the response. Raises AuthorizationError."""
        return self.fetch(lambda: self.fetcher.post(url, form, headers))

    def post_to_named(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Fetched:
        """POST a form to a server that the application itself has named: its address may be of any kind."""
        return self.fetch(lambda: self._named.post(url, form, headers))

    def fetch(self, step: Callable[[], Fetched]) -> Fetched:
        """Call `step`, which fetches. Raises AuthorizationError instead of FetchError."""
        try:
            return step()
        except FetchError as problem:
            self._is_for_address = problem.is_for_address
            raise AuthorizationError(f"authorization for {self.place}: {problem}") from None
