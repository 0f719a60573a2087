"""Store: entries that several threads, and perhaps several processes, read and change.

An entry has an owner, a time after which it is gone, and as long as it is being worked on the name of the
process that does (its runner). What else it says is the business of the page that keeps it: a small `state`,
and at the end an `outcome`, which may be large.

    add      a new entry, which is there for everyone, and survives this process, when `add` returns
    change   an entry becomes another one, in one step: no other change comes between
    get, page, wait, listen      read it; read many; wait for a change; hear of all changes
    on_abandoned                 what becomes of an entry whose runner died

A store takes so many entries in all. One owner has half of them at most, those that are over counted: what it
keeps is not to take the room of the others. Where owners are not told apart, all have the whole store.

Errors      StoreFull: a limit on entries is reached. StoreError: the store cannot be read or written, such
            as when the disk is full; nothing was changed.
Threads     any, for every method. What `change` and `on_abandoned` are given runs while the store is locked:
            it is quick, and does not call the store. What `listen` is given runs after the change, on the
            thread that made it or, for changes of other processes, on a thread of the store's; it is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_ref.runtime.errors import LocalError

__all__ = ["LOOKED_AT", "Entry", "Store", "StoreError", "StoreFull", "share_of"]

LOOKED_AT = 1_000
"""Entries of an owner, the oldest, among which the first to expire is looked for: within a millisecond."""

MAX_WAIT = 86_400.0
"""The longest time, in seconds, after which someone is told to try again."""


class StoreError(LocalError):
    """The store cannot be read or written now. Nothing was changed."""


class StoreFull(StoreError):
    """The store takes no more entries: of this owner, or at all."""

    def __init__(self, message: str, seconds: float | None = 1.0) -> None:
        """`seconds` until the first of the entries in the way expires; None if none of them does."""
        super().__init__(message)
        self.seconds = MAX_WAIT if seconds is None else min(max(1.0, seconds), MAX_WAIT)
        """After which it is worth another try."""


def share_of(most: int) -> int:
    """The entries that one owner may have, in a store that takes so many."""
    return max(1, most // 2)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a store keeps under one id. It never changes: a change is another entry."""

    id: str
    owner: str | None
    """Whose it is; None where owners are not told apart."""
    created: float
    """Seconds since 1970."""
    expires: float | None
    """Seconds since 1970, after which the store has it no more; None for ever."""
    runner: str | None
    """The process that works on it (`Store.runner`); None once it is over."""
    state: dict[str, Any]
    """JSON, as the page that keeps it has it. Not to be changed in place."""
    outcome: bytes | None = None
    """JSON as text, once it is over."""
    version: int = 1
    """One more with each change; the store counts."""


class Store(Protocol):
    """Where entries are kept."""

    runner: str
    """The name of this process, among those that share the store."""

    def add(self, entry: Entry, *, most_live: int) -> None:
        """Keep a new entry. Raises StoreFull if its owner has `most_live` entries with a runner already, or
        its share of the store; and if the store is full.
        """

    def get(self, entry_id: str) -> Entry | None:
        """The entry; None if the store has no such entry, or no more."""

    def change(self, entry_id: str, make: Callable[[Entry], Entry]) -> Entry | None:
        """Replace an entry by what `make` makes of it, and return that; None if there is no such entry.

        If `make` returns the entry that it was given, nothing is written. What it raises is raised here.
        """

    def page(self, owner: str | None, after: tuple[float, str] | None, count: int) -> list[Entry]:
        """Up to `count` entries of one owner, by (created, id), that come after these two; no outcomes."""

    def wait(self, entry_id: str, version: int, seconds: float) -> Entry | None:
        """Wait until an entry has another version than this one, at most so long; then as `get`."""

    def listen(self, hear: Callable[[Entry], object]) -> Callable[[], None]:
        """Have each entry that was added or changed heard of, by whichever process. Returns what ends it.

        Of two changes that follow each other at once the first may be left out, or be heard last: `version`
        tells which is newer. What another process changes is heard within a quarter of a second. A `hear`
        that raises is logged.
        """

    def on_abandoned(self, make: Callable[[Entry], Entry]) -> None:
        """From now on an entry whose runner has ended becomes what `make` makes of it.

        That happens before anyone sees it, or within two seconds if no one asks for it.
        """

    def close(self) -> None:
        """Let go of all that belongs to this process; what it ran counts as abandoned from now on."""
