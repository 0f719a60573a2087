"""Random numbers for pauses, so that peers that wait for the same thing do not return at the same moment.

`random` of the standard library has this and much more, but takes 1 ms of `import mcp_ref`.
"""

from __future__ import annotations

import os

__all__ = ["fraction"]


def fraction() -> float:
    """A number from 0 up to, but not including, 1; each as likely as any other."""
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)
