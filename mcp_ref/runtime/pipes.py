"""What the system knows of a pipe.

Threads     plain functions.
"""

from __future__ import annotations

import contextlib
import sys

__all__ = ["unread", "widen"]


def unread(descriptor: int) -> int:
    """How many bytes lie in a pipe."""
    import fcntl
    import termios

    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def widen(*descriptors: int) -> None:
    """Pipes that take a megabyte at once: large messages cost fewer turns (Linux)."""
    import fcntl

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, 1 << 20)
