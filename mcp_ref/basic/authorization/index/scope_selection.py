"""Scope Selection Strategy (page: basic/authorization/index), on the client.

A scope is a word for what a token allows. A client asks for as few as possible:

    1   the scopes of the challenge, if it has any: this operation needs them
    2   else all that the protected resource metadata lists (`scopes_supported`): the server's minimum
    3   else the request names no scope, and the authorization server decides

After a 403 a client asks for more scopes, and keeps those it had: a challenge lists what this operation
needs, and may leave out scopes that were granted for others.

Revisions   2025-11-25  the order above
            2026-07-28  + after a 403, the union of the scopes asked for before and of those in the challenge
Errors      none: anything that is not a scope is left out.
Threads     plain functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["scopes_of", "select_scopes", "union"]

MAX_SCOPES = 200
"""Scopes that a client takes from a server: any more are left out."""

# RFC 6749, section 3.3: scope-token
_SCOPE_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,500}")


def scopes_of(given: object) -> tuple[str, ...] | None:
    """The scopes in a string with spaces, or in a list, each once; None for anything else."""
    if isinstance(given, str):
        given = given.split()
    if not isinstance(given, list | tuple):
        return None
    good = (scope for scope in given if isinstance(scope, str) and _SCOPE_TOKEN.fullmatch(scope))
    return tuple(dict.fromkeys(good))[:MAX_SCOPES]


def select_scopes(
    challenged: Sequence[str] | None,
    supported: Sequence[str] | None,
    wanted: Sequence[str] | None = None,
) -> tuple[str, ...] | None:
    """The scopes that a client asks for first; None if the request names none.

    If the application has named scopes (`wanted`), these and the scopes of the challenge are asked for.
    # spec: basic/authorization/index/scope-priority, basic/authorization/index/least-privilege
    # spec: basic/authorization/index/challenge-authoritative
    # spec: basic/authorization/index/no-scope-set-assumption
    # spec: basic/authorization/index/scope-fallback
    """
    if wanted is not None:
        return union(wanted, challenged or ())
    if challenged:
        return tuple(challenged)
    return None if supported is None else tuple(supported)


def union(*several: Iterable[str]) -> tuple[str, ...]:
    """All these scopes, each once, in the order in which they come first.

    # spec: basic/authorization/index/reauth-keeps-scopes
    """
    return tuple(dict.fromkeys(scope for scopes in several for scope in scopes))[:MAX_SCOPES]
