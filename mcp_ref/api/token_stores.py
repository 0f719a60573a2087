"""Where a client keeps its tokens (page: basic/authorization/security-considerations, "Token Theft").

    MemoryTokens()          for as long as this process runs; the default
    FileTokens("tokens")    in a file of mode 0600, which processes of one user share, and which outlives them

A client uses a store by `KeptTokens`. A store of one's own has the four methods of `TokenStore`. Keys:

    server <url>                              which authorization server a URL was last authorized by
    client <issuer>                           the registration there
    tokens <issuer> <resource> [<client id>]  the tokens

Revisions   2025-03-26 and later.
Errors      StoreError, where a file cannot be used. A damaged entry counts as lost: there is a warning, and
            the tokens are obtained anew.
Threads     any; `lock` is held while tokens are renewed, also across processes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from mcp_ref.basic.authorization.index.authorization_flow import Tokens
from mcp_ref.basic.authorization.index.refresh_tokens import is_due
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.stores.secrets import SecretFile

__all__ = ["FileTokens", "KeptTokens", "MemoryTokens", "TokenStore"]

_log = logger("mcp_ref.authorization")

MAX_WAIT_SECONDS = 60.0
"""How long a thread waits for the lock of a key: a renewal takes seconds."""


class TokenStore(Protocol):
    """Stores secrets under keys. Each value is a JSON object."""

    def get(self, key: str) -> dict[str, Any] | None:
        """The value of a key; None for an unknown one."""

    def set(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a value."""

    def delete(self, key: str) -> None:
        """Forget a value, if there is one."""

    def lock(self, key: str) -> AbstractContextManager[None]:
        """Around a block that no other user of the store runs with the same key at the same time."""


class MemoryTokens:
    """A store in the memory of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, dict[str, Any]] = {}  # guarded by _lock
        self._locks: dict[str, threading.Lock] = {}  # guarded by _lock

    def __repr__(self) -> str:
        return "MemoryTokens()"

    def get(self, key: str) -> dict[str, Any] | None:
        """The value of a key; None for an unknown one."""
        with self._lock:
            found = self._kept.get(key)
        return None if found is None else dict(found)

    def set(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a value."""
        with self._lock:
            self._kept[key] = dict(value)

    def delete(self, key: str) -> None:
        """Forget a value, if there is one."""
        with self._lock:
            self._kept.pop(key, None)

    def keys(self) -> list[str]:
        """All keys."""
        with self._lock:
            return list(self._kept)

    @contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Keep out other threads that lock the same key. Raises LocalError if they take too long."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        if not lock.acquire(timeout=MAX_WAIT_SECONDS):
            raise LocalError(f"another thread has held the tokens for {MAX_WAIT_SECONDS:g} s")
        try:
            yield
        finally:
            lock.release()


class FileTokens:
    """A store in a file of mode 0600 (runtime/stores/secrets).

    # spec: basic/authorization/security-considerations/secure-token-storage
    # spec: basic/authorization/security-considerations/secure-token-storage-client
    # spec: basic/authorization/index/refresh-confidential
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SecretFile(path)

    def __repr__(self) -> str:
        return f"FileTokens({str(self._file.path)!r})"

    def get(self, key: str) -> dict[str, Any] | None:
        """The value of a key; None for an unknown one. Raises StoreError."""
        return self._file.get(key)

    def set(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a value. Raises StoreError."""
        self._file.set(key, value)

    def delete(self, key: str) -> None:
        """Forget a value, if there is one. Raises StoreError."""
        self._file.delete(key)

    def keys(self) -> list[str]:
        """All keys. Raises StoreError."""
        return self._file.keys()

    def lock(self, key: str) -> AbstractContextManager[None]:
        """Keep out other threads and processes that lock the same key."""
        return self._file.lock(key, MAX_WAIT_SECONDS)


class KeptTokens:
    """The entries of one MCP server in a store."""

    def __init__(self, store: TokenStore, place: str, client: str | None, token_type: str) -> None:
        """`place` is the URL of the server, `client` the client id that the application has named, if any."""
        self._store, self._place = store, place
        self._suffix = f" {client}" if client else ""
        self._token_type = token_type
        self._is_told = False

    def server(self) -> dict[str, Any]:
        """The entry of the server: its issuer, its resource, the key for DPoP. {} if it is a new one."""
        return self._store.get(f"server {self._place}") or {}

    def last(self) -> Tokens | None:
        """The tokens that were obtained last for this server; None without such, or if they are damaged."""
        known = self.server()
        issuer, resource = known.get("issuer"), known.get("resource")
        if not isinstance(issuer, str) or not isinstance(resource, str):
            return None
        return self._like(Tokens("", self._token_type, issuer, resource))

    def newer(self, than: Tokens) -> Tokens | None:
        """Other tokens for the same, stored by another process; None if there are no good ones."""
        found = self._like(than)
        is_other = found is not None and found.access_token != than.access_token
        return found if found is not None and is_other and not is_due(found, time.time()) else None

    def latest(self, tokens: Tokens) -> Tokens:
        """These tokens as they are stored now: another process may have replaced their refresh token."""
        return self._like(tokens) or tokens

    def _like(self, tokens: Tokens) -> Tokens | None:
        kept = self._store.get(self._key(tokens))
        found = None if kept is None else Tokens.from_json(kept)
        if kept is not None and found is None:
            self.tell_damage("the tokens")
        if found is None or (found.issuer, found.resource) != (tokens.issuer, tokens.resource):
            return None
        return found if found.token_type == self._token_type else None

    def tell_damage(self, what: str) -> None:
        """Warn that an entry cannot be used; once, since a damaged entry is read many times."""
        if not self._is_told:
            _log.warning("what is kept of %s is damaged, and begun anew: %s", self._place, what)
        self._is_told = True

    def _key(self, tokens: Tokens) -> str:
        return f"tokens {tokens.issuer} {tokens.resource}{self._suffix}"

    def lock(self, tokens: Tokens) -> AbstractContextManager[None]:
        """Keep out other threads and processes that renew these tokens."""
        return self._store.lock(self._key(tokens))

    def keep(self, tokens: Tokens, dpop_key: Mapping[str, Any] | None = None) -> None:
        """Store them, and note in the entry of the server that they are for it."""
        self._store.set(self._key(tokens), tokens.to_json())
        known: dict[str, Any] = {"issuer": tokens.issuer, "resource": tokens.resource}
        if dpop_key is not None:
            known["dpop_key"] = dict(dpop_key)
        self._store.set(f"server {self._place}", known)

    def forget(self) -> bool:
        """Forget the tokens of this server, but not the registration. True if there were any."""
        known = self.server()
        issuer, resource = known.get("issuer"), known.get("resource")
        if not isinstance(issuer, str) or not isinstance(resource, str):
            return False
        self._store.delete(self._key(Tokens("", self._token_type, issuer, resource)))
        self._store.delete(f"server {self._place}")
        return True

    def forget_refresh(self, tokens: Tokens) -> Tokens:
        """The same tokens without the refresh token, which is invalid; they are stored so."""
        rest = replace(tokens, refresh_token=None)
        self._store.set(self._key(rest), rest.to_json())
        return rest
