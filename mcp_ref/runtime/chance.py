"""Chance, for pauses: peers that wait for the same thing are not to come back at the same moment.

`random` has this and much more; it takes 1 ms of `import mcp_ref`, and a forked child goes on with the
numbers of its parent.
"""

from __future__ import annotations

import os

__all__ = ["fraction"]


def fraction() -> float:
    """A number from 0 up to, but not including, 1; each as likely as any other."""
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)
