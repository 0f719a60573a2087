"""Digests of bytes, by hashlib and hmac of the standard library.

They load OpenSSL, which takes 2.4 ms and a megabyte: too much for `import mcp_ref`, which a host waits for
with each server that it starts. So they are imported only when the first digest is made.
"""

from __future__ import annotations

__all__ = ["is_same", "mac", "sha256"]


def sha256(data: bytes) -> bytes:
    """The SHA-256 digest, of 32 bytes."""
    import hashlib  # start-up time

    return hashlib.sha256(data).digest()


def mac(secret: bytes, data: bytes) -> bytes:
    """The HMAC-SHA256 of the data, of 32 bytes, which can be made only with the secret."""
    import hmac  # start-up time

    return hmac.digest(secret, data, "sha256")


def is_same(one: bytes, other: bytes) -> bool:
    """Whether two digests are equal. The time that this takes does not tell where they differ."""
    import hmac  # start-up time

    return hmac.compare_digest(one, other)
