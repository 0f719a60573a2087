"""Refresh Tokens (page: basic/authorization/index), on the client.

An access token is valid for minutes. With a refresh token a client gets the next one, and asks no person:

    client -> authorization server   POST grant_type=refresh_token   -> access token, and perhaps another
                                                                        refresh token in place of the old one

A client that wants refresh tokens says so when it registers, and with the scope `offline_access` if the
authorization server lists it. The server decides whether it issues any.

Revisions   2026-07-28; refresh tokens as such: all revisions that have authorization.
Errors      none here: the token response tells of a refusal (authorization_flow).
Threads     plain functions. That one thread refreshes while the others wait is done in api/oauth_client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp_ref.basic.authorization.index.authorization_flow import Tokens
from mcp_ref.basic.authorization.index.scope_selection import scopes_of, union

__all__ = ["GRANT_TYPES", "OFFLINE_ACCESS", "is_due", "refresh_form", "renewed", "with_offline_access"]

OFFLINE_ACCESS = "offline_access"
GRANT_TYPES = ("authorization_code", "refresh_token")
"""What a client of a person registers for.  # spec: basic/authorization/index/refresh-grant-type"""

EARLY_SECONDS = 30.0
"""A token is renewed that long before it expires; a short-lived one when a tenth of its life is left."""


def with_offline_access(
    scopes: tuple[str, ...] | None, metadata: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """The scopes with `offline_access`, where the authorization server lists it.

    # spec: basic/authorization/index/refresh-offline-access
    If no scope is named, the server chooses. This one is not added then: the server would choose no other.
    """
    if scopes is None or OFFLINE_ACCESS not in (scopes_of(metadata.get("scopes_supported")) or ()):
        return scopes
    return union(scopes, (OFFLINE_ACCESS,))


def is_due(tokens: Tokens, now: float) -> bool:
    """Whether the access token has expired, or may expire before a request arrives."""
    if tokens.expires_at is None:
        return False
    life = max(0.0, tokens.expires_at - tokens.obtained_at)
    return now >= tokens.expires_at - min(EARLY_SECONDS, life / 10)


def refresh_form(tokens: Tokens) -> dict[str, str]:
    """The form of the token request. It names no scopes, which means the same as before."""
    return {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh_token or "",
        "resource": tokens.resource,
    }


def renewed(before: Tokens, now: Tokens) -> Tokens:
    """The tokens after a refresh. What the response left out stays as it was before.

    # spec: basic/authorization/index/refresh-not-assumed
    """
    return replace(
        now,
        refresh_token=now.refresh_token or before.refresh_token,
        scopes=before.scopes if now.scopes is None else now.scopes,
        requested=before.requested,
    )
