"""Pipes and terminals: how much waits in them, how much they hold, and whether they are ready."""

from __future__ import annotations

import contextlib
import select
import sys

__all__ = ["poll_for", "terminal_is_ready", "unread", "widen"]


def unread(descriptor: int) -> int:
    """How many bytes wait in a pipe to be read; 0 if the system cannot tell."""
    import fcntl
    import termios

    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def widen(*descriptors: int) -> None:
    """Let pipes hold a megabyte: then writer and reader of a large message take fewer turns (Linux only)."""
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
    """Whether there is something to read, or room to write, within `seconds`.

    By `select`, since `poll` on macOS does not support terminals.
    """
    watched = ([descriptor], []) if reading else ([], [descriptor])
    return any(select.select(*watched, [], seconds))
