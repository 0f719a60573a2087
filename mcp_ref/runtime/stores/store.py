"""Store: entries that several threads, and perhaps several processes, read and change.

An entry has an owner, a time after which it is gone, and, while a process works on it, the name of that
process (its runner). The rest of it is defined by the page that keeps it: a small `state`, and at the end an
`outcome`, which may be large.

    add      keeps a new entry: when `add` returns, all users of the store have it, and, if the store is a
             file, it survives this process
    change   replaces an entry by another, in one step: no other change comes between
    get, page, wait, listen      read it; read many; wait for a change; hear of all changes
    on_abandoned                 says what becomes of an entry whose runner died

A store has a limit of entries. One owner has at most half of them, finished ones included, so that it
cannot take the room of the others. Where owners are not told apart (None), all share the whole store.

Errors      StoreFull: a limit on entries is reached. StoreError: the store cannot be read or written, such
            as when the disk is full; nothing was changed.
Threads     any, for every method. The functions given to `change` and `on_abandoned` run while the store is
            locked: they must be quick, and must not call the store. A function given to `listen` must be
            quick too. It runs after the change, on the thread that made it or, for changes of other
            processes, on a thread of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_ref.runtime.errors import LocalError

__all__ = ["LOOKED_AT", "Entry", "Store", "StoreError", "StoreFull", "share_of"]

LOOKED_AT = 1_000
"""How many of an owner's oldest entries are searched for the first to expire: within a millisecond."""

MAX_WAIT = 86_400.0
"""The longest time, in seconds, after which a StoreFull says to try again."""


class StoreError(LocalError):
    """The store cannot be read or written now. Nothing was changed."""


class StoreFull(StoreError):
    """The store takes no more entries: of this owner, or at all."""

    def __init__(self, message: str, seconds: float | None = 1.0) -> None:
        """`seconds` until the first of the entries in the way expires; None if none of them does."""
        super().__init__(message)
        self.seconds = MAX_WAIT if seconds is None else min(max(1.0, seconds), MAX_WAIT)
        """Seconds after which it is worth another try."""


def share_of(most: int) -> int:
    """How many entries one owner may have, in a store of up to `most` entries."""
    return max(1, most // 2)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a store keeps under one id. It is immutable: a change makes another entry."""

    id: str
    owner: str | None
    """The principal to whom it belongs; None where owners are not told apart."""
    created: float
    """Seconds since 1970."""
    expires: float | None
    """Seconds since 1970, when the store drops it; None if it never does."""
    runner: str | None
    """The process that works on it (`Store.runner`); None once that is done."""
    state: dict[str, Any]
    """JSON, in the form of the page that keeps it. Must not be changed in place."""
    outcome: bytes | None = None
    """JSON as text, once the work is done."""
    version: int = 1
    """Grows by one with each change; the store counts."""


class Store(Protocol):
    """The interface of all stores of entries."""

    runner: str
    """The name of this process, among those that share the store."""

    def add(self, entry: Entry, *, most_live: int) -> None:
        """Keep a new entry. Raises StoreFull if its owner has `most_live` entries with a runner already, or
        its share of the store; and if the store is full.
        """

    def get(self, entry_id: str) -> Entry | None:
        """Return the entry; None if the store never had it, or has it no longer."""

    def change(self, entry_id: str, make: Callable[[Entry], Entry]) -> Entry | None:
        """Replace an entry by `make(entry)`, and return the new one; None if there is no such entry.

        If `make` returns the entry that it was given, nothing is written. What it raises is raised here.
        """

    def page(self, owner: str | None, after: tuple[float, str] | None, count: int) -> list[Entry]:
        """Return up to `count` entries of one owner, without outcomes.

        They are ordered by (created, id), and come after the pair `after`.
        """

    def wait(self, entry_id: str, version: int, seconds: float) -> Entry | None:
        """Wait until an entry has another version, for up to `seconds`; then return it as `get` does."""

    def listen(self, hear: Callable[[Entry], object]) -> Callable[[], None]:
        """Have `hear` called with each entry that any process adds or changes. Returns what stops that.

        Of two changes in quick succession the first may be left out, or be heard last: `version` tells which
        is newer. A change by another process is heard within a quarter of a second. If `hear` raises, that is
        logged.
        """

    def on_abandoned(self, make: Callable[[Entry], Entry]) -> None:
        """From now on, replace an entry whose runner has ended by `make(entry)`.

        That happens before the entry is returned to a caller, and within two seconds if no one asks for it.
        """

    def close(self) -> None:
        """Release all that belongs to this process. Entries that it worked on are abandoned from now on."""
