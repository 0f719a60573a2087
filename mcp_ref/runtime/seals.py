"""Notes that travel through a stranger's hands and come back: signed, bound and short-lived.

    seal.close(value, bound_to)  -> text            seal.open(text, bound_to)  -> value, or Broken

The text is base64url of a MAC (HMAC-SHA256), the time of its end and the value as JSON. The MAC covers
all of it and what it is bound to, so that a note is good for one purpose of one caller's only. It is
*not* secret: who holds it can read it.

Several secrets may be given, so that they can be changed while notes are under way: the first signs,
any of them verifies. Processes that share a secret open each other's notes.

Threads     a Seal has no state; any number of threads may use it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Broken", "Seal"]

MAX_TEXT = 4 << 20
"""Characters of the longest note that is looked at."""

LEAST_SECRET = 16
"""Bytes: a shorter secret could be guessed."""

_PURPOSE = b"mcp_ref note 1\0"
_ALPHABET = re.compile(r"[A-Za-z0-9_-]*")


_MADE_UP = (
    "; this process made up its secret when it started, and the processes behind one URL need one secret, "
    "Server(secret=...)"
)
"""What to do about a note of another process."""


class Broken(ValueError):
    """A note that cannot be trusted, and why."""


class Seal:
    """Signs notes and tells its own from others."""

    def __init__(
        self,
        secrets: Sequence[bytes] = (),
        seconds: float = 900.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._is_made_up = not secrets
        self._secrets = tuple(secrets) or (os.urandom(32),)
        self._seconds = seconds
        self._now = now

    def close(self, value: Any, bound_to: bytes) -> str:
        """The note. Raises ValueError for what has no JSON form, or too much of it."""
        body = struct.pack(">d", self._now() + self._seconds) + json.dumps(
            value, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode("utf-8")
        text = _text(_mac(self._secrets[0], bound_to, body) + body)
        if len(text) > MAX_TEXT:
            raise ValueError(f"{len(text)} characters are more than the {MAX_TEXT} that may travel")
        return text

    def open(self, text: str, bound_to: bytes) -> Any:
        """The value of a note. Raises Broken."""
        if len(text) > MAX_TEXT:
            raise Broken(f"longer than {MAX_TEXT} characters")
        if not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
            raise Broken("not a note that this server wrote")
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        given, body = raw[:32], raw[32:]
        # The last character has bits that decoding drops: only the one way to write a note is good.
        whole = len(raw) > 40 and _text(raw) == text
        signed = [hmac.compare_digest(_mac(secret, bound_to, body), given) for secret in self._secrets]
        if not whole or not any(signed):
            why = "it was altered, or belongs to another request, caller or server"
            raise Broken(why + (_MADE_UP if self._is_made_up else ""))
        if struct.unpack(">d", body[:8])[0] < self._now():
            raise Broken("it has expired")
        return json.loads(body[8:])


def secrets_of(given: str | bytes | Sequence[str | bytes] | None) -> tuple[bytes, ...]:
    """Secrets as bytes; none for None. Raises TypeError, ValueError."""
    if given is None:
        return ()
    several = tuple(given) if isinstance(given, list | tuple) else (given,)
    found = [secret.encode("utf-8") if isinstance(secret, str) else secret for secret in several]
    if not found or not all(isinstance(secret, bytes) for secret in found):
        raise TypeError("a secret is bytes or text, or a list of these, the newest first")
    if any(len(secret) < LEAST_SECRET for secret in found):
        raise ValueError(f"a secret has at least {LEAST_SECRET} bytes")
    return tuple(found)


def _mac(secret: bytes, bound_to: bytes, body: bytes) -> bytes:
    bound = hashlib.sha256(bound_to).digest()  # of one length, so that no two pairs look alike
    return hmac.digest(secret, _PURPOSE + bound + body, "sha256")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
