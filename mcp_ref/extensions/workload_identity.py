"""Workload identity: the platform says who a machine is (page: extensions/workload-identity, RFC 7523).

A workload in a cluster or a cloud has a token of its platform, which is short-lived and which the platform
renews. If the authorization server trusts the platform, that token is the grant: no secret has to be made,
stored or replaced.

    client -> authorization server   POST token: grant_type=...:jwt-bearer, assertion=<the platform's token>,
                                     client_id, resource, scope             -> access token

Client half: `WorkloadIdentity`.   Server half: `check_workload`.

The request is sent once. If it is refused, the token is wrong: it would not help to send it again, or to try
another grant.

Revisions   io.modelcontextprotocol/auth/wif, an extension of 2025-11-25 and 2026-07-28; its draft is not
            among the published pages.
Errors      AuthorizationError: there is no token of the platform.
            BadAssertion: that token is not accepted.
Threads     a grant has no state; its function is called by the thread that needs a token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.basic.authorization.token_requests import (
    Assertion,
    BadAssertion,
    TokenClient,
    TokenRequests,
    check_assertion,
)
from mcp_ref.runtime.jose import ASYMMETRIC, Key, KeySet

__all__ = ["JWT_BEARER", "WorkloadIdentity", "check_workload", "text_of"]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""The grant type of RFC 7523, section 2.1."""

Answer = TypeVar("Answer")

# ---------------------------------------------------------------------------- client half


@dataclass(frozen=True)
class WorkloadIdentity:
    """The grant: `OAuth(client_id=..., grant=WorkloadIdentity(lambda: TOKEN_FILE.read_text()))`."""

    token: str | Callable[[], str] = field(repr=False)
    """The platform's token, or a function that reads the current one."""

    registers = False
    """Whether the client may register itself: no, the authorization server knows the workload beforehand."""

    # spec: extensions/workload-identity/token-request, extensions/workload-identity/one-request
    def fetch(self, flow: TokenRequests[Answer]) -> Answer:
        """Get tokens, with one request of a public client: the assertion shows who it is. Raises McpError."""
        form = {
            "grant_type": JWT_BEARER,
            "assertion": text_of(self.token, "workload identity: the platform's token"),
            "resource": flow.resource,
        }
        if flow.scopes:
            form["scope"] = " ".join(flow.scopes)
        return flow.request(form, client=TokenClient(flow.client.client_id))


def text_of(token: str | Callable[[], str], name: str) -> str:
    """A token, or the token that a function returns. Raises AuthorizationError for an empty one."""
    found = token if isinstance(token, str) else token()
    if not isinstance(found, str) or not found.strip():
        raise AuthorizationError(f"{name} is a text, and not empty")
    return found.strip()


# ---------------------------------------------------------------------------- server half


# spec: extensions/workload-identity/server-checks
def check_workload(
    assertion: str,
    keys: KeySet | Key,
    *,
    platform: str,
    issuer: str,
    subjects: Collection[str],
    algorithms: Sequence[str] = ASYMMETRIC,
    skew: float = 30.0,
    now: float | None = None,
) -> Assertion:
    """Check that a token of the platform is for this authorization server, and about a known workload.

    `platform`: the issuer whose keys `keys` are. `subjects`: the workloads that may have a token. Returns the
    token, verified. Raises BadAssertion.
    """
    found = check_assertion(
        assertion, keys, issuer=platform, audience=[issuer], algorithms=algorithms, skew=skew, now=now
    )
    if found.subject not in subjects:
        raise BadAssertion("the assertion is about a workload that is not known here (sub)")
    return found
