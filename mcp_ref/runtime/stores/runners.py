"""Runners: which of the processes that share a store are alive.

Each has a file in one folder, with a random name, and holds a lock on it (flock). The system releases the
lock when the process ends, however it ends. So a runner is alive as long as no other process can get its
lock.

A file gets its name only when it is locked, and a name is never used again: a runner that is dead stays dead.

Threads     any. Programs that this one starts do not inherit the descriptor, and a forked child closes its
            copy: otherwise the lock would outlive its process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from pathlib import Path

__all__ = ["Runners"]

UNNAMED_SECONDS = 60.0
"""Seconds after which a file that still has no name must have been left behind by a dead process."""

_RUNNER_NAME = re.compile(r"[0-9a-f]{32}\Z")
_UNNAMED = ".new-"


class Runners:
    """The runners of one folder. `name` is the one of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locked: int | None = None
        self.name = secrets.token_hex(16)

    def begin(self) -> None:
        """Count as alive from now on. Raises OSError."""
        if self._locked is not None:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        unnamed = self._folder / f"{_UNNAMED}{self.name}"
        descriptor = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(self._folder / self.name)
        except OSError:
            os.close(descriptor)
            unnamed.unlink(missing_ok=True)
            raise
        self._locked = descriptor

    def end(self) -> None:
        """Count as dead from now on. May be called again."""
        if self._locked is not None:
            self.forget(self.name)
            os.close(self._locked)
            self._locked = None

    def forked(self) -> None:
        """In a forked child: be another runner, which has not begun."""
        if self._locked is not None:
            os.close(self._locked)  # the lock stays: the parent has the file open as well
        self._locked = None
        self.name = secrets.token_hex(16)

    def is_alive(self, name: str) -> bool:
        """Whether a runner is alive. The system is asked each time: an earlier answer may be outdated."""
        return _RUNNER_NAME.match(name) is not None and _is_locked(self._folder / name)

    def dead(self) -> list[str]:
        """Names of the runners whose files are there, but whose processes have ended."""
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as files:
            for file in files:
                if _RUNNER_NAME.match(file.name):
                    if file.name != self.name and not self.is_alive(file.name):
                        found.append(file.name)
                elif file.name.startswith(_UNNAMED):
                    _remove_old(Path(file.path))
        return found

    def forget(self, name: str) -> None:
        """Remove the file of a runner that is dead. Without a file it still counts as dead."""
        with contextlib.suppress(OSError):  # another process removed it; or the file stays for a while
            (self._folder / name).unlink()


def _is_locked(file: Path) -> bool:
    """Whether a process holds the lock of a file; False if there is no file."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:  # such as too many open files: that does not mean that the runner is dead
        return True
    try:
        # Shared, so that two processes that ask at once do not take each other for the runner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _remove_old(unnamed: Path) -> None:
    """Remove the file of a process that was killed between making and naming it."""
    with contextlib.suppress(OSError):
        if time.time() - unnamed.stat().st_mtime > UNNAMED_SECONDS and not _is_locked(unnamed):
            unnamed.unlink()
