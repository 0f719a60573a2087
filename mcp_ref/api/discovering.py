"""The requests of discovery: which authorization server an MCP server has (page:
basic/authorization/authorization-server-discovery).

What is asked, and what an answer is worth, is in basic/authorization/authorization_server_discovery. Here the
documents are fetched, within bounds (runtime/http_client/fetching): from public addresses; from others only
where the MCP server is at such an address itself, or where options say so.

Revisions   2025-03-26 and later, whichever is spoken.
Errors      AuthorizationError.
Threads     one at a time; `stop` is for any.
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
    """What discovery found out of one MCP server."""

    resource: ProtectedResource
    issuer: str
    metadata: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, str]:
        """What tokens are of, and for."""
        return self.issuer, self.resource.resource

    def error(self, fault: str, code: str | None = None) -> AuthorizationError:
        """An error of a step, with the authorization server."""
        said = f"authorization at {one_line(self.issuer)}: {fault}"
        return AuthorizationError(said, error=code, issuer=self.issuer)


class Discovery:
    """What fetches documents for one MCP server."""

    def __init__(self, oauth: OAuth, url: str, session: requests.Session | None = None) -> None:
        """Of a session, its certificates and proxies count."""
        self._oauth, self._url, self._session = oauth, url, session
        self._is_for_address = False  # why the last fetch failed
        self._is_stopped = False
        self.place = canonical_uri(url).partition("?")[0]
        self.fetcher = self._fetcher(None)
        # Where the application has named a server, it may be at any address.
        self._named = Fetcher(allowed=tuple(Reach), allow_http=oauth.allow_http, session=session)

    def _fetcher(self, peer: str | None) -> Fetcher:
        """What asks no other addresses than a server at this one may name.

        # spec: docs/security_best_practices/ssrf-considered
        # spec: docs/security_best_practices/block-private-ranges
        # spec: docs/security_best_practices/validate-redirect-targets
        """
        allowed = set() if peer is None else {reach(peer)}
        if self._oauth.allow_private:
            allowed |= {Reach.PRIVATE, Reach.LOOPBACK}
        return Fetcher(allowed=allowed, allow_http=self._oauth.allow_http, session=self._session)

    def stop(self) -> None:
        """Fetch nothing any more. Any thread."""
        self._is_stopped = True  # before the line that follows: `find` replaces the fetcher
        self.fetcher.stop()
        self._named.stop()

    def find(self, challenge: Challenge | None, peer: str | None, last: str | None) -> Found:
        """Which authorization server there is for the MCP server, and what it can do.

        `peer` is the address of the MCP server, `last` the authorization server of before.
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
        """The first authorization server at an address that may be asked. Raises AuthorizationError."""
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
        """The JSON object at a URL; None where there is no such thing.

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
        """The answer to a form, or to a body."""
        return self.fetch(lambda: self.fetcher.post(url, form, headers))

    def post_to_named(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Fetched:
        """The answer to a form of a server that the application itself has named, and no other server."""
        return self.fetch(lambda: self._named.post(url, form, headers))

    def fetch(self, step: Callable[[], Fetched]) -> Fetched:
        """One step. Raises AuthorizationError in place of FetchError."""
        try:
            return step()
        except FetchError as problem:
            self._is_for_address = problem.is_for_address
            raise AuthorizationError(f"authorization for {self.place}: {problem}") from None
