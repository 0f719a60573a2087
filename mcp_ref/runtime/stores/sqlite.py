"""SqliteStore: entries in a file, which the processes of one machine share, and which outlive them.

What is added or changed is in the file when the call returns: it survives the end of the process, however
that comes. With `power_safe` it survives a power cut too, and each write waits for the disk.

    entries     one row for each entry. `seq` numbers the changes of all entries, and `changer` is the runner
                that made the last change of this row: so another process finds the changes that it missed.
    totals      one row: the number of the last change, and the number of entries; triggers update it

An entry whose runner has ended is abandoned. The first process that meets it, in a call or on a round of the
store's thread, replaces it as `on_abandoned` says. That is a change like any other, and happens once.

Threads     any. `mcp_ref store`, a daemon, is started by the first `listen`, `wait` or `on_abandoned` and
            ended by `close`: it looks for changes of other processes, removes expired entries, and looks for
            abandoned ones. It goes on when the file cannot be used for a while. In a forked child the store
            has another runner and no connection, and begins with its first use.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.stores.changes import Changes, next_version
from mcp_ref.runtime.stores.database import Database, FileKind
from mcp_ref.runtime.stores.runners import Runners
from mcp_ref.runtime.stores.store import LOOKED_AT, Entry, StoreError, StoreFull, share_of
from mcp_ref.runtime.threads import forks

__all__ = ["SqliteStore"]

_log = logger("mcp_ref.stores")

LOOK_SECONDS = 0.05
"""Seconds between two looks for changes of other processes, while a thread waits or a listener listens."""
ROUND_SECONDS = 1.0
"""Seconds between two rounds, which remove expired entries and look for abandoned ones."""
BATCH = 200
"""Rows that are read, removed or changed at once, before other threads and processes have their turn."""
MAX_BATCHES = 50
"""The most batches of expired entries that one round removes."""
CLOSE_SECONDS = 10.0
"""Seconds that `close` waits for the thread, whose own waits (LOCKED_SECONDS) take half of it at most."""

TABLES = FileKind(
    application_id=0x6D637073,  # "mcps"
    version=1,
    tables=(
        """CREATE TABLE entries (
            id TEXT NOT NULL UNIQUE, owner TEXT, created REAL NOT NULL, expires REAL, runner TEXT,
            version INTEGER NOT NULL, state TEXT NOT NULL,
            seq INTEGER NOT NULL, changer TEXT NOT NULL,
            outcome BLOB)""",  # last: to read the others, its pages are not read
        "CREATE INDEX by_owner ON entries (owner, created, id)",
        "CREATE INDEX by_change ON entries (seq, changer)",
        "CREATE INDEX by_expiry ON entries (expires) WHERE expires IS NOT NULL",
        "CREATE INDEX live_by_owner ON entries (owner, expires, runner) WHERE runner IS NOT NULL",
        "CREATE INDEX live_by_runner ON entries (runner) WHERE runner IS NOT NULL",
        "CREATE TABLE totals (seq INTEGER NOT NULL, entries INTEGER NOT NULL)",
        "INSERT INTO totals VALUES (0, 0)",
        """CREATE TRIGGER added AFTER INSERT ON entries BEGIN
            UPDATE totals SET seq = new.seq, entries = entries + 1;
        END""",
        """CREATE TRIGGER changed AFTER UPDATE ON entries BEGIN
            UPDATE totals SET seq = new.seq;
        END""",
        """CREATE TRIGGER removed AFTER DELETE ON entries BEGIN
            UPDATE totals SET entries = entries - 1;
        END""",
    ),
)

_IS_LIVE = "owner IS :owner AND runner IS NOT NULL AND (expires IS NULL OR expires > :now)"
_ADD = f"""
    INSERT INTO entries (id, owner, created, expires, runner, version, state, seq, changer, outcome)
    SELECT :id, :owner, :created, :expires, :runner, :version, :state, seq + 1, :changer, :outcome FROM totals
    WHERE entries < :most
        AND (:owner IS NULL OR entries < :share
            OR (SELECT count(*) FROM entries WHERE owner = :owner) < :share)
        AND (:runner IS NULL OR (SELECT count(*) FROM entries WHERE {_IS_LIVE}) < :most_live)
"""
"""One statement, so that no other process adds between the counts and the insertion. The entries of an owner
are only counted once the store is half full: before that, no owner can have half of it.
"""
_COUNT_OF_OWNER = "SELECT count(*) FROM entries WHERE owner = ?"
_FIRST_EXPIRY = "SELECT min(expires) FROM entries WHERE expires IS NOT NULL"
_FIRST_EXPIRY_OF = """
    SELECT min(expires) FROM (SELECT expires FROM entries WHERE owner = ? ORDER BY created, id LIMIT ?)
"""
_COLUMNS = "id, owner, created, expires, runner, state, version"
_GET = f"SELECT {_COLUMNS}, outcome FROM entries WHERE id = ?"
_PAGE = f"""
    SELECT {_COLUMNS}, NULL FROM entries
    WHERE owner IS ? AND (created, id) > (?, ?) AND (expires IS NULL OR expires > ?)
    ORDER BY created, id LIMIT ?
"""
_CHANGE = """
    UPDATE entries SET expires = ?, runner = ?, state = ?, outcome = ?, version = ?, changer = ?,
        seq = (SELECT seq + 1 FROM totals)
    WHERE id = ?
"""
_NEWEST = "SELECT seq FROM totals"
_CHANGED_BY_OTHERS = """
    SELECT seq, id FROM entries WHERE seq > ? AND seq <= ? AND changer <> ? ORDER BY seq LIMIT ?
"""
_REMOVE_EXPIRED = """
    DELETE FROM entries WHERE rowid IN
        (SELECT rowid FROM entries WHERE expires <= ? ORDER BY expires LIMIT ?)
"""
_NEXT_RUNNER = "SELECT min(runner) FROM entries WHERE runner > ?"
_OF_RUNNER = f"SELECT rowid, {_COLUMNS}, outcome FROM entries WHERE runner = ? AND rowid > ? LIMIT ?"

Make = Callable[[Entry], Entry]


def _check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a name that `sqlite3.connect` takes for something other than a path. Raises StoreError."""
    given = os.fspath(path)
    is_uri = given.startswith("file:")
    name, _, settings = given.removeprefix("file:").partition("?") if is_uri else (given, "", "")
    if name == ":memory:" or "mode=memory" in settings:
        raise StoreError(f"{given} is no file, and SqliteStore needs one: MemoryStore() keeps them in memory")
    if is_uri:
        raise StoreError(f"{given} is a URI, and SqliteStore takes a path: write {name.removeprefix('//')!r}")


class SqliteStore:
    """Entries in a file."""

    def __init__(
        self, path: str | os.PathLike[str], *, most: int = 1_000_000, power_safe: bool = False
    ) -> None:
        """Open the file, or make it. Raises StoreError if that cannot be done.

        At most `most` entries in all, and half of them of one owner.
        """
        _check_path(path)
        self.most = most
        file = Path(path).absolute()
        self._database = Database(file, TABLES, power_safe=power_safe)
        self._runners = Runners(file.with_name(f"{file.name}-runners"))
        self._changes = Changes()
        self._make_abandoned: Make | None = None
        self._is_attended = False  # whether the thread is wanted
        self._is_closed = False
        self._begin_anew()
        forks.register(self)
        self._ready()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._has_begun = False
        self._thread: threading.Thread | None = None
        # Wakes the thread; and, used by the thread alone once it runs:
        self._nudge = threading.Event()
        self._heard = 0  # the number of the last change that the thread knows of

    def forked(self) -> None:
        """In a forked child: be another runner. Listeners, and the function of `on_abandoned`, stay."""
        self._runners.forked()
        self._changes.forked()
        self._begin_anew()

    @property
    def runner(self) -> str:
        """The name of this process, among those that share the file."""
        return self._runners.name

    def _ready(self) -> None:
        """Begin, before each use, unless that is done. Raises StoreError."""
        if self._is_closed:
            raise StoreError("the store is closed")
        if not self._has_begun:
            self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._has_begun or self._is_closed:
                return
            try:
                self._runners.begin()
            except OSError as problem:
                raise StoreError(
                    f"the folder beside {self._database.path} that says who is alive cannot be written:"
                    f" {problem.strerror}"
                ) from problem
            if self._is_attended:
                self._start()
            self._has_begun = True

    # -- the operations on entries -----------------------------------------------------------------

    def add(self, entry: Entry, *, most_live: int) -> None:
        """Keep a new entry. Raises StoreFull, and ValueError if its id is used."""
        self._ready()
        row = {
            "id": entry.id,
            "owner": entry.owner,
            "created": entry.created,
            "expires": entry.expires,
            "runner": entry.runner,
            "version": entry.version,
            "state": _as_text(entry.state),
            "outcome": entry.outcome,
            "changer": self.runner,
            "most": self.most,
            "share": share_of(self.most),
            "most_live": most_live,
            "now": time.time(),
        }
        if not self._added(row):
            # There may be room once expired entries are removed, and abandoned ones replaced.
            self._remove_expired()
            self._bury_all()
            if not self._added(row):
                raise self._refusal(entry, most_live)
        self._changes.tell(entry)

    def _added(self, row: dict[str, Any]) -> bool:
        try:
            return self._database.read(lambda connection: connection.execute(_ADD, row).rowcount == 1)
        except sqlite3.IntegrityError:  # the id is used
            return False

    def _refusal(self, entry: Entry, most_live: int) -> Exception:
        if self.get(entry.id) is not None:
            return ValueError("the id of a new entry is that of another one")
        entries, share = self._one("SELECT entries FROM totals"), share_of(self.most)
        if entries >= self.most:
            return StoreFull(
                f"the store has {self.most:,} entries, which is its limit", _until(self._one(_FIRST_EXPIRY))
            )
        if entry.owner is not None and entries >= share and self._one(_COUNT_OF_OWNER, entry.owner) >= share:
            return StoreFull(
                f"one owner has {share:,} of the {self.most:,} entries there may be, which is its limit",
                _until(self._one(_FIRST_EXPIRY_OF, entry.owner, LOOKED_AT)),
            )
        return StoreFull(f"{most_live:,} are under way, which is the limit")

    def get(self, entry_id: str) -> Entry | None:
        """Return the entry; None if the store never had it, or has it no longer."""
        self._ready()
        entry = self._database.read(lambda connection: _found(connection, entry_id))
        if entry is not None and self._is_abandoned(entry):
            return self.change(entry_id, _as_it_is)
        return entry

    def change(self, entry_id: str, make: Make) -> Entry | None:
        """Replace an entry by `make(entry)`, and return the new one; None if there is no such entry."""
        self._ready()

        def run(connection: sqlite3.Connection) -> tuple[Entry | None, Entry | None]:
            before = _found(connection, entry_id)
            if before is None:
                return None, None
            entry = before
            if self._is_abandoned(entry):
                entry = self._write(connection, entry, self._buried(entry))
            return before, self._write(connection, entry, make(entry))

        before, after = self._database.write(run)
        if after is not None and after is not before:
            self._changes.tell(after)
        return after

    def _write(self, connection: sqlite3.Connection, entry: Entry, made: Entry) -> Entry:
        """Within a transaction: write `made` in place of `entry`. Returns the entry as it is from now on."""
        if made is entry:
            return entry
        new = next_version(entry, made)
        row = (new.expires, new.runner, _as_text(new.state), new.outcome, new.version, self.runner, new.id)
        connection.execute(_CHANGE, row)
        return new

    def page(self, owner: str | None, after: tuple[float, str] | None, count: int) -> list[Entry]:
        """Return up to `count` entries of one owner after `after`, without outcomes (see `Store`)."""
        self._ready()
        row = (owner, *(after or (float("-inf"), "")), time.time(), count)
        try:
            found = [_entry(each) for each in self._rows(_PAGE, row)]
        except UnicodeEncodeError:  # it has a lone surrogate, and so names no owner
            return []
        return self._without_abandoned(found)

    def _without_abandoned(self, found: list[Entry]) -> list[Entry]:
        """Replace the abandoned entries of a page, each in its place."""
        dead = {e.runner for e in {e.runner: e for e in found}.values() if self._is_abandoned(e)}
        if not dead:
            return found
        seen = [self.change(e.id, _as_it_is) if e.runner in dead else e for e in found]
        return [replace(e, outcome=None) for e in seen if e is not None]

    def wait(self, entry_id: str, version: int, seconds: float) -> Entry | None:
        """Wait until an entry has another version, for up to `seconds`; then return it as `get` does."""
        self._attend()
        entry = self.get(entry_id)
        if entry is None or entry.version != version:
            return entry
        self._nudge.set()  # the thread may be asleep for a whole round
        return self._changes.wait(self.get, entry_id, version, seconds, look_again=ROUND_SECONDS)

    def listen(self, hear: Callable[[Entry], object]) -> Callable[[], None]:
        """Have `hear` called with each entry that any process adds or changes. Returns what stops that."""
        self._attend()
        end = self._changes.listen(hear)
        self._nudge.set()
        return end

    def on_abandoned(self, make: Make) -> None:
        """From now on, replace an entry whose runner has ended by `make(entry)`."""
        self._make_abandoned = make
        self._attend()
        self._nudge.set()

    def close(self) -> None:
        """Release all that belongs to this process. Entries that it worked on are abandoned from now on."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._nudge.set()
        self._changes.wake_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)
        self._database.close()
        self._runners.end()

    # -- abandoned entries -------------------------------------------------------------------------

    def _is_abandoned(self, entry: Entry) -> bool:
        return (
            entry.runner is not None
            and entry.runner != self.runner
            and self._make_abandoned is not None
            and not self._runners.is_alive(entry.runner)
        )

    def _buried(self, entry: Entry) -> Entry:
        """The entry that replaces an abandoned one; the same if `make` fails: others must not wait for it."""
        try:
            return self._make_abandoned(entry) if self._make_abandoned else entry
        except Exception:
            _log.exception("an abandoned entry of a store stays as it is")
            return entry

    def _bury_all(self) -> None:
        """Replace each entry whose runner is dead, as `on_abandoned` says."""
        if self._make_abandoned is None:
            return
        dead = self._runners.dead()
        for name in self._database.read(_runners_with_entries):
            if name != self.runner and not self._runners.is_alive(name):
                self._bury(name)
        for name in dead:
            self._runners.forget(name)

    def _bury(self, name: str) -> None:
        last, count = 0, BATCH

        def run(connection: sqlite3.Connection) -> tuple[int, int, list[Entry]]:
            rows = connection.execute(_OF_RUNNER, (name, last, BATCH)).fetchall()
            found = [_entry(row[1:]) for row in rows]
            made = [self._write(connection, entry, self._buried(entry)) for entry in found]
            changed = [new for new, old in zip(made, found, strict=True) if new is not old]
            return (rows[-1][0] if rows else last), len(rows), changed

        while count == BATCH:
            last, count, changed = self._database.write(run)
            for entry in changed:
                self._changes.tell(entry)

    # -- the thread --------------------------------------------------------------------------------

    def _attend(self) -> None:
        """Have the thread from now on. Changes after this returns are heard of."""
        self._ready()
        if self._thread is None:
            with self._lock:
                self._is_attended = True
                if self._thread is None and not self._is_closed:
                    self._start()

    def _start(self) -> None:
        """Start the thread. With _lock held."""
        self._heard = self._one(_NEWEST)
        thread = threading.Thread(target=self._run, name="mcp_ref store", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        next_round, problem = 0.0, ""
        while not self._is_closed:
            try:
                self._hear()
                if time.monotonic() >= next_round:
                    next_round = time.monotonic() + ROUND_SECONDS
                    self._remove_expired()
                    self._bury_all()
                problem = ""
            except StoreError as error:
                if str(error) != problem and not self._is_closed:  # once, not twenty times a second
                    problem = str(error)
                    _log.warning("a store cannot be used now: %s", error)
            except Exception:
                _log.exception("the thread of a store failed, and goes on")
            self._nudge.wait(LOOK_SECONDS if self._changes.is_watched else ROUND_SECONDS)
            self._nudge.clear()

    def _hear(self) -> None:
        """Tell of the changes that other processes have made."""
        newest = self._one(_NEWEST)
        # `is_watched` is read after `newest`. Otherwise a listener could begin in between, and a change after
        # that would be skipped as if no one listened.
        while self._heard < newest and self._changes.is_watched:
            row = (self._heard, newest, self.runner, BATCH)
            found = self._rows(_CHANGED_BY_OTHERS, row)
            for _, entry_id in found:
                self._tell_of(entry_id)
            self._heard = found[-1][0] if len(found) == BATCH else newest
        self._heard = newest  # also if it is less: another file may be in its place

    def _tell_of(self, entry_id: str) -> None:
        entry = self._database.read(lambda c: _found(c, entry_id)) if self._changes.is_heard else None
        if entry is not None:
            self._changes.tell(entry)
        else:
            self._changes.wake(entry_id)

    def _remove_expired(self) -> None:
        now = time.time()
        for _ in range(MAX_BATCHES):
            # First a query: unlike the removal, it does not keep other processes from writing.
            if not self._one("SELECT EXISTS (SELECT 1 FROM entries WHERE expires <= ?)", now):
                return
            self._rows(_REMOVE_EXPIRED, (now, BATCH))

    def _rows(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        return self._database.read(lambda connection: connection.execute(statement, values).fetchall())

    def _one(self, query: str, *values: Any) -> Any:
        """The value of a query with one row and one column."""
        return self._rows(query, values)[0][0]


def _runners_with_entries(connection: sqlite3.Connection) -> list[str]:
    """Names of all runners of entries: one step in the index for each, however many entries it has."""
    names: list[str] = [""]
    while True:
        (name,) = connection.execute(_NEXT_RUNNER, (names[-1],)).fetchone()
        if name is None:
            return names[1:]
        names.append(name)


def _until(expires: float | None) -> float | None:
    return None if expires is None else expires - time.time()


def _as_it_is(entry: Entry) -> Entry:
    return entry


def _as_text(state: dict[str, Any]) -> str:
    """JSON, in ASCII: a string may hold a lone surrogate, which a text of SQLite cannot."""
    return json.dumps(state, separators=(",", ":"))


def _found(connection: sqlite3.Connection, entry_id: str) -> Entry | None:
    """The entry as the file has it; None if it is not there, or has expired."""
    try:
        row = connection.execute(_GET, (entry_id,)).fetchone()
    except UnicodeEncodeError:  # it has a lone surrogate, and so is the id of no entry
        return None
    if row is None or (row[3] is not None and row[3] <= time.time()):
        return None
    return _entry(row)


def _entry(row: tuple[Any, ...]) -> Entry:
    entry_id, owner, created, expires, runner, state, version, outcome = row
    return Entry(entry_id, owner, created, expires, runner, json.loads(state), outcome, version)
