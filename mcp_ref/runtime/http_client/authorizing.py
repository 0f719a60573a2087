"""Authorizers: they add credentials to each HTTP request of a client, and get new ones if it is refused.

    authorizer.headers("POST", url)       -> {"Authorization": "Bearer ..."}
    ... 401 or 403 ...
    authorizer.refused(refusal, deadline) -> True: the request is sent once more, with new headers

An exchange (runtime/http_client/exchange) asks for the headers of each request that it sends, and reports
whether they were refused or accepted. While the authorizer is at work, the exchange keeps its slot, but gives
its connection back. Where a person has to act, the authorizer stops the deadline: `with deadline.hold()`.

Errors      an McpError that an authorizer raises is the outcome of the request: no token can be had.
Threads     any, and many at once: an authorizer takes care of its own locks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["MAX_AUTHORIZATIONS", "Authorizer", "Refusal"]

MAX_AUTHORIZATIONS = 3
"""How often one request is sent again with other headers, at most."""
REFUSALS = (401, 403)


@dataclass(frozen=True)
class Refusal:
    """A 401 or 403: the authorization of the request was not enough."""

    status: int
    challenge: str | None
    """All WWW-Authenticate headers, joined by commas."""
    nonce: str | None
    """The DPoP-Nonce header."""
    sent: Mapping[str, str]
    """The headers that the authorizer had given for the request."""
    peer: str | None = None
    """The IP address of the server that refused it; None behind a proxy."""

    def __repr__(self) -> str:
        return f"Refusal({self.status}, {self.challenge!r:.200})"  # what was sent is secret


class Authorizer(Protocol):
    """What an HttpClient asks before each request, and after those that were refused."""

    def headers(self, method: str, url: str) -> dict[str, str]:
        """The headers of a request that is about to be sent. May wait for a new token. Raises McpError."""

    def refused(self, refusal: Refusal, deadline: Deadline) -> bool:
        """Get other credentials. Returns whether to send the request once more.

        Raises McpError if authorization failed for good.
        """

    def accepted(self, nonce: str | None) -> None:
        """Called after a response with any other status, with its DPoP-Nonce header."""

    def stop(self) -> None:
        """The client is closed: end all waits, and ask for nothing more. Any number of times."""
