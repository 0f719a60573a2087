"""Sealed texts: values that a client keeps for the server and sends back.

    seal.sign(value, bound_to)  -> text            seal.verify(text, bound_to)  -> value, or BadSeal

The alternative would be a table on the server, which would have to be bounded, expire, and be shared by all
processes behind one URL. A sealed text needs none of that.

It is the base64url of a MAC (HMAC-SHA256), the time when it expires, and the value as JSON. The MAC covers
the time, the value, and what the text is bound to: so it is good for one purpose of one caller only. It is
*not* secret: the client can read it.

Several secrets may be given, so that a secret can be changed while texts are under way: the first signs, each
of them verifies. Processes that share a secret accept each other's texts.

Threads     a Seal has no state; any number of threads may use it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from mcp_ref.runtime import digests

__all__ = ["BadSeal", "Seal", "secrets_of"]

MAX_CHARACTERS = 4 << 20
"""Characters of a sealed text; a longer one is neither made nor verified."""
MIN_SECRET_BYTES = 16
"""Bytes of a secret; a shorter one could be guessed."""

_MAC_BYTES = 32
_TIME_BYTES = 8

_PURPOSE = b"mcp_ref note 1\0"
_ALPHABET = re.compile(r"[A-Za-z0-9_-]*")

_ADVICE = (
    "; this process made up its secret when it started, and the processes behind one URL need one secret, "
    "Server(secret=...)"
)
"""Added to the error: the text may come from another process, which also made up its secret."""


class BadSeal(ValueError):
    """A text that cannot be trusted, and why."""


class Seal:
    """Signs values, and verifies what it signed."""

    def __init__(
        self, secrets: Sequence[bytes] = (), seconds: float = 900.0, now: Callable[[], float] = time.time
    ) -> None:
        self._is_made_up = not secrets
        self._secrets = tuple(secrets) or (os.urandom(32),)
        self._seconds = seconds
        self._now = now

    def sign(self, value: Any, bound_to: bytes) -> str:
        """The sealed text. Raises ValueError for a value without a JSON form, or one that is too long."""
        encoded = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        body = struct.pack(">d", self._now() + self._seconds) + encoded.encode("utf-8")
        text = _base64(_mac(self._secrets[0], bound_to, body) + body)
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"{len(text)} characters are more than the {MAX_CHARACTERS} that may travel")
        return text

    def verify(self, text: str, bound_to: bytes) -> Any:
        """The value of a sealed text. Raises BadSeal."""
        raw = _from_base64(text)
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        # All secrets are tried, even after one has matched: the time must not tell which one did.
        matches = [digests.is_same(_mac(secret, bound_to, body), mac) for secret in self._secrets]
        if len(body) <= _TIME_BYTES or _base64(raw) != text or not any(matches):
            why = "it was altered, or belongs to another request, caller or server"
            raise BadSeal(why + (_ADVICE if self._is_made_up else ""))
        if struct.unpack(">d", body[:_TIME_BYTES])[0] < self._now():
            raise BadSeal("it has expired")
        return json.loads(body[_TIME_BYTES:])


def secrets_of(given: str | bytes | Sequence[str | bytes] | None) -> tuple[bytes, ...]:
    """The secrets that a setting gives, as bytes. Raises TypeError, ValueError."""
    if given is None:
        return ()
    several = tuple(given) if isinstance(given, list | tuple) else (given,)
    found = [secret.encode("utf-8") if isinstance(secret, str) else secret for secret in several]
    if not found or not all(isinstance(secret, bytes) for secret in found):
        raise TypeError("a secret is bytes or text, or a list of these, the newest first")
    if any(len(secret) < MIN_SECRET_BYTES for secret in found):
        raise ValueError(f"a secret has at least {MIN_SECRET_BYTES} bytes")
    return tuple(found)


def _mac(secret: bytes, bound_to: bytes, body: bytes) -> bytes:
    bound = digests.sha256(bound_to)  # always 32 bytes: else `ab` + `c` would equal `a` + `bc`
    return digests.mac(secret, _PURPOSE + bound + body)


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _from_base64(text: str) -> bytes:
    """The bytes of a base64url text. Raises BadSeal.

    Some bits of the last character may be lost, so that several texts have the same bytes: the caller makes
    the text again, by `_base64`, and compares.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadSeal(f"longer than {MAX_CHARACTERS} characters")
    if not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
        raise BadSeal("this server did not write it")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
