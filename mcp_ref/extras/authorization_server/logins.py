"""Logins of users: by their passwords, or by a function of the caller; with a limit of attempts.

Passwords are kept as hashes (scrypt, which is slow and takes memory on purpose), in memory, each with a salt
of its own. A login with an unknown name takes as long as one with a wrong password, and gets the same answer.

    at most ATTEMPTS_PER_ADDRESS wrong passwords from an address, and ATTEMPTS_PER_USER for a name, in
    ATTEMPT_SECONDS

Threads     any; MAX_HASHES_AT_ONCE of them hash at a time, since each hash takes 32 MiB.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus

from mcp_ref.extras.authorization_server.expiring import Attempts
from mcp_ref.extras.authorization_server.messages import PageError
from mcp_ref.runtime.checks import check_callable, check_text

__all__ = ["Login", "Logins"]

Login = Callable[[str, str], str | None]
"""Name and password -> the user (the subject of tokens), or None."""

ATTEMPT_SECONDS = 300.0
ATTEMPTS_PER_ADDRESS = 20
ATTEMPTS_PER_USER = 80
"""More than for an address, so that a stranger with one address cannot lock out a user."""
MAX_PASSWORD_CHARACTERS = 1000

# OWASP, Password Storage Cheat Sheet: 2^15, r 8, p 3 is one of its equal choices, with 32 MiB.
SCRYPT_COST, SCRYPT_BLOCK, SCRYPT_PARALLEL = 2**15, 8, 3
MAX_HASHES_AT_ONCE = 2
HASH_WAIT_SECONDS = 10.0


class _Passwords:
    """Logs users in by their passwords."""

    def __init__(self, users: Mapping[str, str]) -> None:
        for name, password in users.items():
            check_text(user=name)
            check_text(**{f"the password of {name!r}": password})
            if not name or not password:
                raise ValueError("a user has a name and a password")
        self._hashing = threading.BoundedSemaphore(MAX_HASHES_AT_ONCE)
        self._hashes = {name: self._salted(password) for name, password in users.items()}
        self._of_nobody = (os.urandom(16), os.urandom(64))

    def __call__(self, name: str, password: str) -> str | None:
        salt, expected = self._hashes.get(name, self._of_nobody)
        return name if hmac.compare_digest(self._hash(password, salt), expected) else None

    def _salted(self, password: str) -> tuple[bytes, bytes]:
        salt = os.urandom(16)
        return salt, self._hash(password, salt)

    def _hash(self, password: str, salt: bytes) -> bytes:
        if not self._hashing.acquire(timeout=HASH_WAIT_SECONDS):
            raise PageError("Too many people log in at once. Try again.", HTTPStatus.SERVICE_UNAVAILABLE)
        try:
            return hashlib.scrypt(
                password.encode("utf-8"),
                salt=salt,
                n=SCRYPT_COST,
                r=SCRYPT_BLOCK,
                p=SCRYPT_PARALLEL,
                maxmem=2 * 128 * SCRYPT_COST * SCRYPT_BLOCK,
                dklen=64,
            )
        finally:
            self._hashing.release()


class Logins:
    """Logs users in, and limits their attempts."""

    def __init__(self, users: Mapping[str, str] | Login) -> None:
        if isinstance(users, Mapping):
            self._login: Login = _Passwords(users)
        else:
            check_callable(users=users)
            self._login = users
        self._attempts = {
            "address": Attempts(ATTEMPTS_PER_ADDRESS, ATTEMPT_SECONDS),
            "user": Attempts(ATTEMPTS_PER_USER, ATTEMPT_SECONDS),
        }

    def log_in(self, name: str, password: str, address: str) -> str | None:
        """Return the user; None if name and password do not fit.

        Raises PageError after too many attempts.
        """
        if len(password) > MAX_PASSWORD_CHARACTERS:
            return None
        for kind, key in ("address", address), ("user", name):
            if self._attempts[kind].begin(key):
                raise PageError(_TOO_OFTEN, HTTPStatus.TOO_MANY_REQUESTS)
        user = self._login(name, password)
        if user is not None:
            self._attempts["address"].forgive(address)
            self._attempts["user"].forgive(name)
        return user


_TOO_OFTEN = f"Too many attempts. Wait {ATTEMPT_SECONDS / 60:g} minutes, then begin again."
