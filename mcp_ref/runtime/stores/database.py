"""Database: an SQLite file that several processes share, and this process's one connection to it.

It says what is wrong in words: each error of SQLite but IntegrityError becomes a StoreError that names the
file. A connection that can read nothing any more is closed, and the next use opens another: so the database
works again when the cause is gone.

Waits       for the lock of the connection, and for other processes that write, LOCKED_SECONDS at most.
Forks       a connection must not cross a fork, not even unused: SQLite keeps one table of locks per process
            and file, and a child that inherits it believes that it holds the parent's locks. So the
            connection is closed before a fork, and parent and child each open one when they need it.
Threads     any; one at a time uses the connection.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from mcp_ref.runtime import chance
from mcp_ref.runtime.stores.store import StoreError
from mcp_ref.runtime.threads import forks

__all__ = ["Database", "FileKind"]

T = TypeVar("T")

LOCKED_SECONDS = 5.0
"""The longest time, in seconds, that anything here waits for other threads and processes."""
MAX_PAUSE = 0.01
"""The longest pause, in seconds, between two attempts to write while another process writes."""
PAGE_BYTES = 4096
WAL_PAGES = 4000
"""Length of the write-ahead log, in pages, at which its changes are moved into the file, which waits for the
disk. SQLite's own limit is a quarter of it, and a page that changes often would be moved four times as often.
"""


@dataclass(frozen=True)
class FileKind:
    """A kind of database file: two numbers that mark it, and the statements that make its tables."""

    application_id: int
    version: int
    tables: tuple[str, ...]

    def check(self, connection: sqlite3.Connection, path: Path) -> bool:
        """Whether a file is new and empty. Raises StoreError if it is of another kind or version."""
        application_id, version = _number(connection, "application_id"), _number(connection, "user_version")
        if application_id == self.application_id:
            if version != self.version:
                raise StoreError(
                    f"{path} has version {version} of its tables, and this program reads version"
                    f" {self.version}: use another file, or the program that made it"
                )
            return False
        if application_id or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreError(f"{path} is an SQLite database of another program: use another file")
        return True

    def begin(self, connection: sqlite3.Connection, path: Path) -> None:
        """Make the tables of a new file, unless another process is quicker."""
        connection.execute("BEGIN IMMEDIATE")
        with _committed(connection):
            if self.check(connection, path):
                for statement in self.tables:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {self.application_id}")
                connection.execute(f"PRAGMA user_version = {self.version}")


class Database:
    """A file, and the connection of this process to it."""

    def __init__(self, path: Path, kind: FileKind, *, power_safe: bool = False) -> None:
        """Open the file; make it if it is not there. With `power_safe`, each write waits for the disk.

        Raises StoreError.
        """
        self.path = path
        self._kind = kind
        self._synchronous = "FULL" if power_safe else "NORMAL"
        self._lock = threading.Lock()
        # All below guarded by _lock.
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)  # device and inode
        self._is_inherited = False
        self._is_closed = False
        self._forker: int | None = None  # the thread that is forking, and holds _lock meanwhile
        forks.register(self)
        _all.add(self)
        _make_file(path)
        self.read(lambda connection: connection.execute("SELECT 1"))

    # -- use ---------------------------------------------------------------------------------------

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which reads, or executes one statement that writes. It may be run several times."""
        return self._use(lambda connection, end: _patiently(lambda: work(connection), end))

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` once, in a transaction that is committed if it returns. No other process writes then."""

        def run(connection: sqlite3.Connection, end: float) -> T:
            _patiently(lambda: connection.execute("BEGIN IMMEDIATE"), end)
            with _committed(connection):
                return work(connection)

        return self._use(run)

    def close(self) -> None:
        """Close the connection, for good. May be called again."""
        with self._lock:
            self._is_closed = True
            self._let_go()

    def _use(self, run: Callable[[sqlite3.Connection, float], T]) -> T:
        end = time.monotonic() + LOCKED_SECONDS
        if not self._lock.acquire(timeout=LOCKED_SECONDS):
            raise StoreError(f"other threads have used {self.path} for {LOCKED_SECONDS:g} s: try again")
        try:
            return run(self._connected(end), end)
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as problem:
            self._let_go_if_useless()
            raise StoreError(_in_words(problem, self.path)) from problem
        finally:
            self._lock.release()

    # -- the connection; all with _lock held -------------------------------------------------------

    def _connected(self, end: float) -> sqlite3.Connection:
        if self._is_closed:
            raise StoreError("the store is closed")
        if self._is_inherited:
            raise StoreError(f"this process was forked while {self.path} was in use: make a store of its own")
        if self._connection is None:
            self._connection = _patiently(self._open, end)
        elif self._file != _identity(self.path):
            # SQLite would go on with the old file, which has no name any more: no error, but all is lost.
            self._let_go()
            raise StoreError(
                f"{self.path} was deleted or replaced while it was in use: what it said is lost, unless it is"
                " put back"
            )
        return self._connection

    def _open(self) -> sqlite3.Connection:
        if not self.path.exists():
            raise StoreError(f"{self.path} is gone: put it back, or start anew with an empty one")
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            timeout=0,  # _patiently is quicker: SQLite's own pauses grow to a tenth of a second
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("BEGIN")  # else another process could make the tables between two queries
            with _committed(connection):
                is_new = self._kind.check(connection, self.path)
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreError(f"{self.path} is on a file system that several processes cannot share")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_PAGES * PAGE_BYTES}")
            if is_new:
                self._kind.begin(connection, self.path)
            self._file = _identity(self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _let_go_if_useless(self) -> None:
        """After an error: close the connection if it cannot read any more.

        One that can is kept: on a full disk there is no room to open another.
        """
        try:
            if self._connection is not None:
                self._connection.execute("SELECT 1 FROM sqlite_master").fetchall()
        except sqlite3.Error as problem:
            if _code(problem) != sqlite3.SQLITE_BUSY:
                self._let_go()

    # -- forks -------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Close the connection, and keep all other threads from opening one until the fork is done."""
        if self._lock.acquire(timeout=LOCKED_SECONDS):
            self._forker = threading.get_ident()
            self._let_go()

    def after_fork(self) -> None:
        """In the parent: go on."""
        if self._forker == threading.get_ident():
            self._forker = None
            self._lock.release()

    def forked(self) -> None:
        """In the child: begin anew. A connection that is still open is kept unused: it is the parent's."""
        self._lock = threading.Lock()
        self._forker = None
        if self._connection is not None:
            self._is_inherited = True
            forks.without_end.append(self._connection)
            self._connection = None


_all: WeakSet[Database] = WeakSet()


def _before_fork() -> None:
    for database in sorted(_all, key=id):
        database.before_fork()


def _after_fork() -> None:
    for database in list(_all):
        database.after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)


# -- helpers ---------------------------------------------------------------------------------------


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (number,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(number)


@contextmanager
def _committed(connection: sqlite3.Connection) -> Iterator[None]:
    """End a transaction: commit it after the block, or roll it back if the block raises."""
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _patiently(work: Callable[[], T], end: float) -> T:
    """Run `work` again and again while the database is busy, until `end` by the monotonic clock."""
    pause = 0.0002
    while True:
        try:
            return work()
        except sqlite3.OperationalError as problem:
            if _code(problem) != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
        time.sleep(pause * chance.fraction())  # at random, so that two processes do not keep colliding
        pause = min(2 * pause, MAX_PAUSE)


def _make_file(path: Path) -> None:
    """Make an empty file that its owner alone may read, unless there is one.

    A file that exists is not opened: closing it again would release the locks that this process has on it.
    """
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a folder: name a file")
        if not path.parent.is_dir():
            raise StoreError(f"there is no folder {path.parent}: make it, or name a file elsewhere")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except (OSError, ValueError) as problem:
        raise StoreError(f"{path} cannot be made: {problem}") from problem


def _identity(path: Path) -> tuple[int, int]:
    """Device and inode of the file at a path; zeros if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116  (before each use, and Path.stat takes twice as long)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


_EXPLANATIONS = {
    sqlite3.SQLITE_BUSY: f"other processes have kept {{}} locked for {LOCKED_SECONDS:g} s: try again",
    sqlite3.SQLITE_FULL: "the disk of {} is full: make room",
    sqlite3.SQLITE_READONLY: "{} may only be read: give this process the right to write it and its folder",
    sqlite3.SQLITE_PERM: "{} may not be read or written by this process",
    sqlite3.SQLITE_CANTOPEN: "{} cannot be opened: is its folder there, and may this process write to it?",
    sqlite3.SQLITE_IOERR: "{} cannot be read or written: is the disk full, or failing?",
    sqlite3.SQLITE_NOTADB: "{} is not an SQLite database: use another file",
    sqlite3.SQLITE_CORRUPT: "{} is damaged: put back a copy, or begin with another file",
}
"""Errors of SQLite by their primary codes: what is wrong, and what a person can do about it."""


def _code(problem: sqlite3.Error) -> int:
    """The primary code of SQLite; 0 for an error of Python's module."""
    code: int = getattr(problem, "sqlite_errorcode", 0)
    return code & 0xFF


def _in_words(problem: sqlite3.Error, path: Path) -> str:
    words = _EXPLANATIONS.get(_code(problem), "{} cannot be used")
    return f"{words.format(path)} ({problem})"
