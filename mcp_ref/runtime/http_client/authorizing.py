"""What gives each HTTP request of a client its right to be answered.

    authorizer.headers("POST", url)       -> {"Authorization": "Bearer ..."}
    ... 401 or 403 ...
    authorizer.refused(refusal, deadline) -> True: the request is sent once more, with new headers

An exchange (runtime/http_client/exchange) asks for the headers of each request that it sends, and says what
became of them. Its slot is kept while the authorizer is at work, its connection is given back. Where that
takes a person, time stands still for the deadline: `with deadline.hold()`.

Errors      McpError of an authorizer is the outcome of the request: no token is to be had.
Threads     any, and many at once: an authorizer sees to its own locks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = ["MAX_AUTHORIZATIONS", "Authorizer", "Refusal"]

MAX_AUTHORIZATIONS = 3
"""How often one request is sent again with other headers."""
REFUSALS = (401, 403)


@dataclass(frozen=True)
class Refusal:
    """An answer to a request whose authorization was not enough."""

    status: int
    challenge: str | None
    """All WWW-Authenticate headers, joined by commas."""
    nonce: str | None
    """The DPoP-Nonce header."""
    sent: Mapping[str, str]
    """The headers of the authorizer that the request had."""
    peer: str | None = None
    """The IP address of the server that refused it; None behind a proxy."""

    def __repr__(self) -> str:
        return f"Refusal({self.status}, {self.challenge!r:.200})"  # what was sent is secret


class Authorizer(Protocol):
    """What an HttpClient asks before each request, and after those that were refused."""

    def headers(self, method: str, url: str) -> dict[str, str]:
        """The headers of a request that is about to be sent. May wait for a new token. Raises McpError."""

    def refused(self, refusal: Refusal, deadline: Deadline) -> bool:
        """Whether to send the request once more. Raises McpError where authorization failed for good."""

    def accepted(self, nonce: str | None) -> None:
        """A response of another status came; and the DPoP-Nonce that it brought."""

    def stop(self) -> None:
        """The client is closed: let go of what waits. Any number of times."""
