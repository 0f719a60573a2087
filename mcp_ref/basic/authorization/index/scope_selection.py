"""Scope Selection Strategy (page: basic/authorization/index), on the client.

A scope is a word for what a token allows. A client asks for as few as will do:

    1   the scopes of the challenge, if it has any: they are what this operation needs
    2   else all that the protected resource metadata lists (`scopes_supported`): its minimum
    3   else none is named, and the authorization server decides

After a 403 a client asks for more, and keeps what it had: a challenge lists what the one operation needs, and
perhaps nothing of what was granted for others.

Revisions   2025-11-25; 2026-07-28: the union of both.
Errors      none: what is no scope is left out.
Threads     plain functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["scopes_of", "select_scopes", "union"]

MAX_SCOPES = 200
"""Scopes that a server can have a client ask for."""

# RFC 6749, section 3.3: scope-token
_SCOPE_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,500}")


def scopes_of(given: object) -> tuple[str, ...] | None:
    """The scopes of a text or a list, each once; None for anything else."""
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
    """What a client asks for at first; None: nothing is said of scopes.

    `wanted` is what the application has named: then it is that, and what the challenge needs beside it.
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
    """All scopes, each once, in the order in which they came up.

    # spec: basic/authorization/index/reauth-keeps-scopes
    """
    return tuple(dict.fromkeys(scope for scopes in several for scope in scopes))[:MAX_SCOPES]
