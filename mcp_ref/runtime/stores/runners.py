"""Runners: which of the processes that share a store are alive.

Each has a file in one folder, with a random name, and holds a lock on it (flock). The system lets go of the
lock when the process ends, however it ends. So a runner lives as long as its lock cannot be had.

A file gets its name only when it is locked, and a name is never used again: what is dead stays dead.

Threads     any. The descriptor is not inherited by programs that are started, and a forked child closes its
            copy: else the parent's lock would outlive the parent.
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
"""Age of a file without its name that its maker must have left behind."""

_RUNNER_NAME = re.compile(r"[0-9a-f]{32}\Z")
_UNNAMED = ".new-"


class Runners:
    """The runners of one folder, and among them the one that this process is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locked: int | None = None
        self.name = secrets.token_hex(16)

    def begin(self) -> None:
        """Be alive from now on. Raises OSError."""
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
            os.close(self._locked)  # the parent's lock stays, for it has the file open as well
        self._locked = None
        self.name = secrets.token_hex(16)

    def is_alive(self, name: str) -> bool:
        """Whether a runner is alive. The system is asked each time: what was so a moment ago may be wrong."""
        return _RUNNER_NAME.match(name) is not None and _is_locked(self._folder / name)

    def dead(self) -> list[str]:
        """The runners whose files are there, and their processes are not."""
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
        """Remove the file of a runner that is dead: without it, it is dead as well."""
        with contextlib.suppress(OSError):  # another process did it, or it stays for a while
            (self._folder / name).unlink()


def _is_locked(file: Path) -> bool:
    """Whether a process holds the lock of a file; False if there is no file."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:  # such as too many open files: no reason to take anyone for dead
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
    """Remove what a process left that was killed between making its file and naming it."""
    with contextlib.suppress(OSError):
        if time.time() - unnamed.stat().st_mtime > UNNAMED_SECONDS and not _is_locked(unnamed):
            unnamed.unlink()
