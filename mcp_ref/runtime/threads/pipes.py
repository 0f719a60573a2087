"""What the system knows of a pipe."""

from __future__ import annotations

import contextlib
import select
import sys

__all__ = ["poll_for", "terminal_is_ready", "unread", "widen"]


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


def poll_for(descriptor: int, event: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, event)
    return poll


def terminal_is_ready(descriptor: int, seconds: float, *, reading: bool) -> bool:
    """Whether there is something to read, or room to write, in time. `select`: macOS polls no terminals."""
    watched = ([descriptor], []) if reading else ([], [descriptor])
    return any(select.select(*watched, [], seconds))
