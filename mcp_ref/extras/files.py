"""The files below one directory, and no other file of the machine.

Clients that ask for files by name may be hostile, and so may processes that make links in the directory.

    tree = Tree(Path("/srv/handbook"), Glob("**/*.md"), hidden=False)
    tree.files(max_files, stop)          -> all files, those in the nearest directories first
    tree.status(("a", "b.md"))           -> size, times
    tree.read(("a", "b.md"), max_bytes)  -> bytes

First all links are resolved. Then the resulting path is opened from the descriptor of the directory, name by
name, and no link is followed. If something is changed in between, this fails; it never leads out of the
directory.

Errors      OSError: with an errno of GONE_ERRNOS if there is no such regular file within, of DENIED_ERRNOS if
            it may not be opened, EFBIG if it is too long.
Threads     plain functions on the caller's thread; nothing is stored between two calls.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import NamedTuple

__all__ = ["DENIED_ERRNOS", "GONE_ERRNOS", "MAX_DEPTH", "File", "Glob", "Parts", "Tree", "is_gone_or_denied"]

MAX_DEPTH = 32
"""The most names on the way from the directory to a file; deeper files do not exist for clients."""
MAX_NAMES_SEEN = 200_000
"""The most names that one scan looks at, whether they match or not."""
READ_BYTES = 1 << 18
"""The most bytes of one read."""

Parts = tuple[str, ...]
"""The names on the way from the directory to a file."""

# EINVAL: a link was replaced by something else.
GONE_ERRNOS = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.ENXIO,
        errno.EILSEQ,
        errno.ESTALE,
    }
)
"""Errors for a file that does not exist, or was replaced by something else."""

DENIED_ERRNOS = frozenset({errno.EACCES, errno.EPERM})

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_FILE_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

_FILE_NAME = re.compile(r"[^/\\\0]+")
"""A name in a path. Backslashes are excluded, since other systems take them for slashes."""


class Glob:
    """A pattern for relative paths: `*`, `?`, `[...]` within a name, `**` for any number of names.

    A path is matched name by name. The state is a set of places: the indexes in the pattern of the names that
    may match next.
    """

    def __init__(self, pattern: str) -> None:
        self._names = pattern.split("/")
        if any(name in ("", ".", "..") for name in self._names):
            raise ValueError(f"glob must be a pattern for paths in the directory: '**/*.md', not {pattern!r}")
        self.start = self._open({0})

    def step(self, places: frozenset[int], name: str) -> frozenset[int]:
        """The places after one more name; an empty set if no path that begins like this can match."""
        matched = {place for place in places if place < len(self._names) and self._matches(place, name)}
        return self._open({place if self._names[place] == "**" else place + 1 for place in matched})

    def is_match(self, places: frozenset[int]) -> bool:
        return len(self._names) in places

    def match(self, parts: Parts) -> bool:
        places = self.start
        for name in parts:
            places = self.step(places, name)
        return self.is_match(places)

    def _matches(self, place: int, name: str) -> bool:
        return self._names[place] == "**" or fnmatchcase(name, self._names[place])

    def _open(self, places: set[int]) -> frozenset[int]:
        """Add the place behind each `**` that has been reached, since `**` may stand for no name at all."""
        for place, name in enumerate(self._names):
            if place in places and name == "**":
                places.add(place + 1)
        return frozenset(places)


class File(NamedTuple):
    """A file or a directory that a scan has found."""

    parts: Parts
    status: os.stat_result
    real: Parts
    """Its path without links."""
    above: frozenset[Parts]
    """Paths without links of the directories above it: a link to one of them is a loop."""
    places: frozenset[int]
    """The places in the pattern that its path leads to."""

    @property
    def is_branch(self) -> bool:
        """Whether it is a directory that is scanned, too."""
        is_near = len(self.parts) < MAX_DEPTH and self.real not in self.above
        return is_near and stat.S_ISDIR(self.status.st_mode)


class Tree:
    """One directory. Files in it are opened through its descriptor, without following links.

    # spec: server/resources/sanitize-file-paths
    """

    def __init__(self, root: Path, glob: Glob, hidden: bool) -> None:
        self._root, self._glob, self._hidden = root, glob, hidden

    def may_have(self, parts: Parts) -> bool:
        """Whether a file with these names may be shown, if it exists."""
        return len(parts) <= MAX_DEPTH and all(map(self._is_name_allowed, parts)) and self._glob.match(parts)

    def _is_name_allowed(self, name: str) -> bool:
        if name in ("", ".", "..") or not _FILE_NAME.fullmatch(name):
            return False
        return self._hidden or not name.startswith(".")

    def status(self, parts: Parts) -> os.stat_result:
        """The status of a regular file. Raises OSError."""
        status = self._status(self._resolve(parts))
        _check_regular(status)
        return status

    def read(self, parts: Parts, max_bytes: int) -> bytes:
        """The bytes of a regular file. Raises OSError, also if there are more than `max_bytes`."""
        real = self._resolve(parts)
        _check_regular(self._status(real))  # opening a device may do something to it
        with self._directory(real[:-1]) as above:
            file = os.open(real[-1], _FILE_FLAGS, dir_fd=above)
        try:
            _check_regular(os.fstat(file))
            return _read(file, max_bytes)
        finally:
            os.close(file)

    def files(self, max_files: int, stop: threading.Event) -> tuple[list[File], bool]:
        """Return the files, those in the nearest directories first, and whether these are all.

        It ends early if `stop` is set. Raises OSError.
        """
        files: list[File] = []
        left = MAX_NAMES_SEEN
        no_status = os.stat_result([0] * 10)  # the root's is not looked at: if it is gone, it has no entries
        branches = deque([File((), no_status, (), frozenset({()}), self._glob.start)])
        while branches and left > 0 and not stop.is_set():
            branch = branches.popleft()
            entries, seen = self._entries(branch, left)
            left -= seen
            for entry in entries:
                entry = self._follow(entry)
                if entry.is_branch:
                    branches.append(entry._replace(above=entry.above | {entry.real}))
                elif stat.S_ISREG(entry.status.st_mode) and self._glob.is_match(entry.places):
                    if len(files) == max_files:
                        return files, False
                    files.append(entry)
        return files, left > 0

    def _entries(self, branch: File, max_names: int) -> tuple[list[File], int]:
        """The entries of a directory that may match, sorted, and how many names were looked at."""
        entries, seen = [], 0
        try:
            with self._directory(branch.real) as directory, os.scandir(directory) as listing:
                for item in islice(listing, max_names):
                    seen += 1
                    places = self._glob.step(branch.places, item.name)
                    if places and self._is_name_allowed(item.name):
                        with suppress(FileNotFoundError, PermissionError):
                            status = item.stat(follow_symlinks=False)
                            parts, real = (*branch.parts, item.name), (*branch.real, item.name)
                            entries.append(File(parts, status, real, branch.above, places))
        except OSError as problem:
            if not is_gone_or_denied(problem):
                raise
        entries.sort()
        return entries, seen

    def _follow(self, entry: File) -> File:
        """The entry that a link leads to; the link itself if it is broken, or leads out."""
        if not stat.S_ISLNK(entry.status.st_mode):
            return entry
        try:
            real = self._resolve(entry.real)
            return entry._replace(real=real, status=self._status(real))
        except OSError as problem:
            if not is_gone_or_denied(problem):
                raise
            return entry

    def _resolve(self, parts: Parts) -> Parts:
        """The path of a file, with links resolved. Raises OSError unless it is within, and may be shown."""
        real = Path(os.path.realpath(self._root.joinpath(*parts), strict=True))
        if real.is_relative_to(self._root):
            inside = real.relative_to(self._root).parts
            if all(map(self._is_name_allowed, inside)):
                return inside
        raise FileNotFoundError(errno.ENOENT, "it leads out")

    def _status(self, real: Parts) -> os.stat_result:
        with self._directory(real[:-1]) as above:
            return os.stat(real[-1] if real else ".", dir_fd=above, follow_symlinks=False)

    @contextmanager
    def _directory(self, real: Parts) -> Iterator[int]:
        """The descriptor of a directory, opened without following links, while the block runs."""
        directory = os.open(self._root, _DIRECTORY_FLAGS)
        try:
            for name in real:
                below = os.open(name, _DIRECTORY_FLAGS, dir_fd=directory)
                above, directory = directory, below
                os.close(above)
            yield directory
        finally:
            os.close(directory)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(errno.ENOENT, "it is not a regular file")


def is_gone_or_denied(problem: OSError) -> bool:
    """Whether an error is about one file, gone or not to be opened, and not about the machine."""
    return problem.errno in GONE_ERRNOS or problem.errno in DENIED_ERRNOS


def _read(file: int, max_bytes: int) -> bytes:
    """Read all bytes of an open file, which may grow meanwhile. Raises OSError beyond `max_bytes`."""
    data = bytearray()
    while len(data) <= max_bytes and os.fstat(file).st_size <= max_bytes:
        piece = os.read(file, min(READ_BYTES, max_bytes + 1 - len(data)))
        if not piece:
            return bytes(data)
        data += piece
    raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes")
