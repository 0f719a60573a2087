"""The files below one directory, and no other file of the machine.

Whoever asks for a file by name may be hostile, and so may be whoever makes links in the directory:

    tree = Tree(Path("/srv/handbook"), Globs("**/*.md"), hidden=False)
    tree.files(most, over)       -> all there are, those in the nearest directories first
    tree.status(("a", "b.md"))   -> size, times
    tree.read(("a", "b.md"), most)

Where links lead is looked up first; then the way to that place is gone from the directory's own descriptor,
name by name, through no link. Whatever changes in between can only end it.

Errors      OSError: with an errno of GONE where there is no such regular file within, of CLOSED where it
            may not be opened, EFBIG where it is too long.
Threads     plain functions on the thread that calls; nothing is kept between two calls.
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

__all__ = ["CLOSED", "DEPTH", "GONE", "Found", "Globs", "Parts", "Tree", "is_missing"]

DEPTH = 32
"""Names from the directory to a file; deeper ones are not looked for."""

ENTRIES = 200_000
"""Names that one look at everything sees, whether they fit or not."""

PIECE = 1 << 18
"""Bytes that are read at a time."""

Parts = tuple[str, ...]
"""The names on the way from the directory to a file."""

GONE = frozenset({
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EINVAL,  # of a link that is none any more
    errno.ENXIO,
    errno.EILSEQ,
    errno.ESTALE,
})  # fmt: skip
"""What the system says of a file that is not there, or is no such file any more."""

CLOSED = frozenset({errno.EACCES, errno.EPERM})

_THROUGH = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

_PLAIN = re.compile(r"[^/\\\0]+")
"""A name. A backslash is what other systems take for a slash, and no name here has one."""


class Globs:
    """A pattern for relative paths: `*`, `?`, `[...]` within a name, `**` for any number of names."""

    def __init__(self, pattern: str) -> None:
        self._names = pattern.split("/")
        if any(name in ("", ".", "..") for name in self._names):
            raise ValueError(
                f"glob is a pattern for paths in the directory, such as '**/*.md', not {pattern!r}"
            )
        self.start = self._open({0})

    def step(self, places: frozenset[int], name: str) -> frozenset[int]:
        """How far in the pattern one is after a further name; nowhere if nothing below can fit."""
        on = {place for place in places if place < len(self._names) and self._fits(place, name)}
        return self._open({place if self._names[place] == "**" else place + 1 for place in on})

    def is_end(self, places: frozenset[int]) -> bool:
        """Whether a path that led here fits."""
        return len(self._names) in places

    def match(self, parts: Parts) -> bool:
        """Whether a whole path fits."""
        places = self.start
        for name in parts:
            places = self.step(places, name)
        return self.is_end(places)

    def _fits(self, place: int, name: str) -> bool:
        return self._names[place] == "**" or fnmatchcase(name, self._names[place])

    def _open(self, places: set[int]) -> frozenset[int]:
        """These places, and those behind each `**`, which may stand for no name at all."""
        for place, name in enumerate(self._names):
            if place in places and name == "**":
                places.add(place + 1)
        return frozenset(places)


class Entry(NamedTuple):
    """Something in a directory that is being looked through."""

    parts: Parts
    real: Parts
    """Where it really is."""
    status: os.stat_result
    places: frozenset[int]
    """How far in the pattern its path leads."""

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)


class Branch(NamedTuple):
    """A directory that will be looked through."""

    parts: Parts
    real: Parts
    above: frozenset[Parts]
    """Where the directories on the way really are, itself among them: a link to one of these is a loop."""
    places: frozenset[int]

    def entry(self, name: str, status: os.stat_result, places: frozenset[int]) -> Entry:
        """Something in it."""
        return Entry((*self.parts, name), (*self.real, name), status, places)


class Found(NamedTuple):
    """A regular file."""

    parts: Parts
    status: os.stat_result


class Tree:
    """One directory. Files in it are reached through its descriptor, and through no link.

    # spec: server/resources/sanitize-file-paths
    """

    def __init__(self, root: Path, globs: Globs, hidden: bool) -> None:
        self._root, self._globs, self._hidden = root, globs, hidden

    def may_be(self, parts: Parts) -> bool:
        """Whether there may be a file of that name here."""
        return len(parts) <= DEPTH and all(map(self._may_be_named, parts)) and self._globs.match(parts)

    def _may_be_named(self, name: str) -> bool:
        if name in ("", ".", "..") or not _PLAIN.fullmatch(name):
            return False
        return self._hidden or not name.startswith(".")

    def status(self, parts: Parts) -> os.stat_result:
        """What is known of a regular file. Raises OSError."""
        status = self._status(self._real(parts))
        _check_regular(status)
        return status

    def read(self, parts: Parts, most: int) -> bytes:
        """The bytes of a regular file. Raises OSError, also if there are more than `most`."""
        real = self._real(parts)
        _check_regular(self._status(real))  # opening a device may do something to it
        with self._directory(real[:-1]) as above:
            file = os.open(real[-1], _FILE, dir_fd=above)
        try:
            _check_regular(os.fstat(file))
            return _read(file, most)
        finally:
            os.close(file)

    def files(self, most: int, over: threading.Event) -> tuple[list[Found], bool]:
        """All files, those in the nearest directories first, and whether that was all. Raises OSError."""
        found: list[Found] = []
        left = ENTRIES
        coming = deque([Branch((), (), frozenset({()}), self._globs.start)])
        while coming and left > 0 and not over.is_set():
            branch = coming.popleft()
            entries, seen = self._entries(branch, left)
            left -= seen
            for entry in entries:
                entry = self._followed(entry)
                if entry.is_directory and self._may_go_on(branch, entry):
                    coming.append(Branch(entry.parts, entry.real, branch.above | {entry.real}, entry.places))
                elif entry.is_file and self._globs.is_end(entry.places):
                    if len(found) == most:
                        return found, False
                    found.append(Found(entry.parts, entry.status))
        return found, left > 0

    def _may_go_on(self, branch: Branch, entry: Entry) -> bool:
        return len(entry.parts) < DEPTH and entry.real not in branch.above

    def _entries(self, branch: Branch, most: int) -> tuple[list[Entry], int]:
        """What a directory has that may fit, in order, and how many names were looked at."""
        entries, seen = [], 0
        try:
            with self._directory(branch.real) as directory, os.scandir(directory) as listing:
                for item in islice(listing, most):
                    seen += 1
                    places = self._globs.step(branch.places, item.name)
                    if places and self._may_be_named(item.name):
                        with suppress(FileNotFoundError, PermissionError):
                            status = item.stat(follow_symlinks=False)
                            entries.append(branch.entry(item.name, status, places))
        except OSError as problem:
            if not is_missing(problem):
                raise
        entries.sort()
        return entries, seen

    def _followed(self, entry: Entry) -> Entry:
        """For a link what it leads to; itself if that is nowhere, or out."""
        if not stat.S_ISLNK(entry.status.st_mode):
            return entry
        try:
            real = self._real(entry.real)
            return entry._replace(real=real, status=self._status(real))
        except OSError as problem:
            if not is_missing(problem):
                raise
            return entry

    def _real(self, parts: Parts) -> Parts:
        """Where a file really is. Raises OSError unless that is within, and may be shown."""
        real = Path(os.path.realpath(self._root.joinpath(*parts), strict=True))
        if real.is_relative_to(self._root):
            inside = real.relative_to(self._root).parts
            if all(map(self._may_be_named, inside)):
                return inside
        raise FileNotFoundError(errno.ENOENT, "it leads out")

    def _status(self, real: Parts) -> os.stat_result:
        with self._directory(real[:-1]) as above:
            return os.stat(real[-1] if real else ".", dir_fd=above, follow_symlinks=False)

    @contextmanager
    def _directory(self, real: Parts) -> Iterator[int]:
        """The descriptor of a directory, reached through no link."""
        directory = os.open(self._root, _THROUGH)
        try:
            for name in real:
                below = os.open(name, _THROUGH, dir_fd=directory)
                above, directory = directory, below
                os.close(above)
            yield directory
        finally:
            os.close(directory)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(errno.ENOENT, "it is no file")


def is_missing(problem: OSError) -> bool:
    """Whether it only says that something is not there, or not for us."""
    return problem.errno in GONE or problem.errno in CLOSED


def _read(file: int, most: int) -> bytes:
    """All bytes of an open file. It may grow meanwhile."""
    data = bytearray()
    while len(data) <= most and os.fstat(file).st_size <= most:
        piece = os.read(file, min(PIECE, most + 1 - len(data)))
        if not piece:
            return bytes(data)
        data += piece
    raise OSError(errno.EFBIG, f"it has more than {most} bytes")
