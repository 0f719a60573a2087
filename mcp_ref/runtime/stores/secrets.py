"""A file of secrets that processes share: read by its owner alone, and never half written.

    secrets = SecretFile("~/.local/share/app/tokens")
    secrets.get("key"), secrets.set("key", {...}), secrets.delete("key")
    with secrets.lock("key", seconds): ...      one thread of one process at a time

The file is one JSON object. It is replaced as a whole: a reader finds the old file or the new one, even if a
process dies in between, or the disk is full. A file that is cut or damaged counts as empty, with a warning,
and the next change replaces it. A file that others may read is not used at all.

Errors      StoreError: other users may read it, it is another user's, or it cannot be read or written.
Threads     any, and any number of processes. Writers lock a file beside it (`.lock`), and `lock` one file for
            each key. These files stay: if one were deleted, a process that waits for it would get a lock
            that no other process sees.
POSIX       locks are those of `flock`; modes and owners are checked.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_ref.runtime.json_text import NotJson, from_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.stores.store import StoreError

__all__ = ["SecretFile"]

_log = logger("mcp_ref.stores")

MAX_SECRET_BYTES = 16 << 20
MAX_LOCK_SECONDS = 10.0
"""Seconds to wait for the lock, for a change of the file, which takes milliseconds."""
POLL_SECONDS = 0.02
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretFile:
    """Secrets by key: each value is a JSON object."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """File and folder are made with the first value; only their owner may read or enter them."""
        self.path = Path(path).expanduser()

    def __repr__(self) -> str:
        return f"SecretFile({str(self.path)!r})"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the value of a key; None if there is no object. Raises StoreError."""
        found = self._read().get(key)
        return found if type(found) is dict else None

    def set(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a value. Raises StoreError."""
        with self._changing() as kept:
            kept[key] = dict(value)

    def delete(self, key: str) -> None:
        """Forget a value, if there is one. Raises StoreError."""
        with self._changing() as kept:
            kept.pop(key, None)

    def keys(self) -> list[str]:
        """All keys. Raises StoreError."""
        return list(self._read())

    @contextlib.contextmanager
    def lock(self, key: str, seconds: float = MAX_LOCK_SECONDS) -> Iterator[None]:
        """Keep out threads and processes that lock the same key, while the block runs.

        Raises StoreError if the lock cannot be had within `seconds`.
        """
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        with self._locked(f"{self.path}.{digest}.lock", seconds):
            yield

    @contextlib.contextmanager
    def _locked(self, path: str, seconds: float) -> Iterator[None]:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as problem:
            raise self._error("cannot be locked", problem) from None
        try:
            end = time.monotonic() + seconds
            while not _is_locked_now(descriptor):
                if time.monotonic() > end:
                    raise StoreError(f"{self.path}: another process has held its lock for {seconds:g} s")
                time.sleep(POLL_SECONDS)  # flock itself would wait without a limit
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        with self._locked(f"{self.path}.lock", MAX_LOCK_SECONDS):
            kept = self._read()
            yield kept
            self._write(kept)

    def _read(self) -> dict[str, Any]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise self._error("cannot be read", problem) from None
        try:
            with os.fdopen(descriptor, "rb") as file:
                self._check(os.fstat(descriptor))
                text = file.read(MAX_SECRET_BYTES + 1)
        except OSError as problem:
            raise self._error("cannot be read", problem) from None
        return self._parsed(text)

    def _check(self, found: os.stat_result) -> None:
        """Raise StoreError for a file that others than its owner, this user, may read or change."""
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{self.path} is no file, and not used for secrets")
        if found.st_uid != os.geteuid():
            raise StoreError(f"{self.path} belongs to another user, and is not used for secrets")
        if found.st_mode & OTHERS:
            mode = stat.S_IMODE(found.st_mode)
            raise StoreError(
                f"{self.path} has mode {mode:04o}: other users may read or change it, and so it is not used; "
                "delete it, or run chmod 600 if no other user has read it"
            )

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            if len(text) > MAX_SECRET_BYTES:
                raise NotJson(f"it is longer than {MAX_SECRET_BYTES:,} bytes")
            kept = from_json(text)
            if type(kept) is not dict:
                raise NotJson("it is no JSON object")
        except NotJson as problem:
            _log.warning("%s is damaged, and begun anew: %.100s", self.path, problem)
            return {}
        return kept

    def _write(self, kept: Mapping[str, Any]) -> None:
        """Write a whole new file, and put it in place of the old one."""
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with contextlib.suppress(FileNotFoundError):
                new.unlink()  # left by a process that died, and had the same number
            with os.fdopen(os.open(new, flags | os.O_EXCL, 0o600), "wb") as file:
                file.write(json.dumps(kept).encode())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as problem:
            with contextlib.suppress(OSError):
                new.unlink()
            raise self._error("cannot be written", problem) from None

    def _error(self, what: str, problem: OSError) -> StoreError:
        return StoreError(f"{self.path} {what}: {problem.strerror}")


def _is_locked_now(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
