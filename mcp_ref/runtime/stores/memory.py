"""MemoryStore: entries in this process, which end with it.

Bounded by `most` entries, of which one owner has half at most, and by `most_bytes` of outcomes. An entry
that has expired is not returned any more from that moment, and is removed within a second: by a timer, or by
the next `add`.

A runner is a process, and all entries here belong to the process that has the store. So no entry is ever
abandoned.

Threads     any. `_lock` guards all that the store keeps; `get` alone reads without it. It is held while
            `make` runs, and never while any other function of a caller does. After a fork the child's store
            is empty.
"""

from __future__ import annotations

import heapq
import secrets
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from weakref import ref

from mcp_ref.runtime.stores.changes import Changes, next_version
from mcp_ref.runtime.stores.store import LOOKED_AT, Entry, StoreError, StoreFull, share_of
from mcp_ref.runtime.threads import forks, timers

__all__ = ["MemoryStore"]

REMOVED_AT_ONCE = 1_000
"""Expired entries that the timer removes while it holds the lock, about a millisecond; `add` removes all."""
GATHER = 0.1
"""Seconds between the expiry of an entry and the timer, so that the timer removes several at once."""
FEW = 64
"""Outdated items that a small collection may have before it is rebuilt without them."""


class _Owned:
    """The entries of one owner."""

    __slots__ = ("gone", "keys", "live")

    def __init__(self) -> None:
        # Sorted (created, id). Keys of removed entries stay for a while: to remove from a long list is slow.
        self.keys: list[tuple[float, str]] = []
        self.gone = 0  # keys of removed entries
        self.live = 0  # entries with a runner

    @property
    def count(self) -> int:
        return len(self.keys) - self.gone

    def add(self, key: tuple[float, str]) -> None:
        if not self.keys or key > self.keys[-1]:
            self.keys.append(key)
            return
        at = bisect_left(self.keys, key)
        if self.keys[at] == key:  # that of a removed entry, whose id is used again
            self.gone -= 1
        else:
            self.keys.insert(at, key)


class MemoryStore:
    """Entries in this process."""

    def __init__(self, *, most: int = 100_000, most_bytes: int = 256 << 20) -> None:
        """At most `most` entries, half of them of one owner; no new one while outcomes take `most_bytes` or
        more.
        """
        self.most = most
        self.most_bytes = most_bytes
        self._changes = Changes()
        self._is_closed = False
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        self.runner = secrets.token_hex(16)
        self._lock = threading.Lock()
        # All below guarded by _lock.
        self._entries: dict[str, Entry] = {}
        self._owners: dict[str | None, _Owned] = {}
        self._bytes = 0
        # A heap of (expires, id). The former time of an entry that was changed stays until it is reached.
        self._expiries: list[tuple[float, str]] = []
        self._timer: timers.Timer | None = None
        self._timer_due = float("inf")

    def forked(self) -> None:
        """In a forked child: begin anew, empty. Listeners stay."""
        self._changes.forked()
        self._begin()

    # -- the operations on entries -----------------------------------------------------------------

    def add(self, entry: Entry, *, most_live: int) -> None:
        """Keep a new entry. Raises StoreFull, and ValueError if its id is used."""
        with self._lock:
            self._check_open()
            now = time.time()
            while self._remove_expired(now):
                pass
            self._check_room(entry, most_live)
            owned = self._owners.setdefault(entry.owner, _Owned())
            owned.add((entry.created, entry.id))
            self._keep(entry, owned)
        self._changes.tell(entry)

    def _check_room(self, entry: Entry, most_live: int) -> None:
        """Raise StoreFull, or ValueError, if an entry cannot be added. With _lock held."""
        owned = self._owners.get(entry.owner)
        if entry.id in self._entries:
            raise ValueError("the id of a new entry is that of another one")
        if len(self._entries) >= self.most:
            raise StoreFull(f"the store has {self.most:,} entries, which is its limit", self._until_expiry())
        if self._bytes >= self.most_bytes:
            raise StoreFull(
                f"the outcomes in the store take {self.most_bytes:,} bytes, which is its limit",
                self._until_expiry(),
            )
        share = share_of(self.most)
        if entry.owner is not None and owned is not None and owned.count >= share:
            raise StoreFull(
                f"one owner has {share:,} of the {self.most:,} entries there may be, which is its limit",
                self._until_expiry_of(owned, entry.owner),
            )
        if entry.runner is not None and owned is not None and owned.live >= most_live:
            raise StoreFull(f"{owned.live:,} are under way, which is the limit")

    def get(self, entry_id: str) -> Entry | None:
        """Return the entry; None if the store never had it, or has it no longer."""
        self._check_open()
        entry = self._entries.get(entry_id)
        if entry is None or _has_expired(entry):
            return None
        return entry

    def change(self, entry_id: str, make: Callable[[Entry], Entry]) -> Entry | None:
        """Replace an entry by `make(entry)`, and return the new one; None if there is no such entry."""
        with self._lock:
            entry = self.get(entry_id)
            if entry is None:
                return None
            made = make(entry)
            if made is entry:
                return entry
            changed = next_version(entry, made)
            owned = self._owners[entry.owner]
            self._let_go(entry, owned)
            self._keep(changed, owned, expired_before=entry.expires)
        self._changes.tell(changed)
        return changed

    def page(self, owner: str | None, after: tuple[float, str] | None, count: int) -> list[Entry]:
        """Return up to `count` entries of one owner after `after`, without outcomes (see `Store`)."""
        found: list[Entry] = []
        with self._lock:
            self._check_open()
            owned = self._owners.get(owner)
            keys = owned.keys if owned else []
            at = 0 if after is None else bisect_right(keys, after)
            while at < len(keys) and len(found) < count:
                entry = self._entry_of(keys[at], owner)
                if entry is not None and not _has_expired(entry):
                    found.append(entry)
                at += 1
        return [entry if entry.outcome is None else replace(entry, outcome=None) for entry in found]

    def wait(self, entry_id: str, version: int, seconds: float) -> Entry | None:
        """Wait until an entry has another version, for up to `seconds`; then return it as `get` does."""
        entry = self.get(entry_id)
        if entry is None or entry.version != version:
            return entry
        return self._changes.wait(self.get, entry_id, version, seconds)

    def listen(self, hear: Callable[[Entry], object]) -> Callable[[], None]:
        """Have `hear` called with each entry that is added or changed. Returns a function to stop that."""
        self._check_open()
        return self._changes.listen(hear)

    def on_abandoned(self, make: Callable[[Entry], Entry]) -> None:
        """Do nothing: this process is the only runner, and the entries end with it."""
        self._check_open()

    def close(self) -> None:
        """Forget all entries. A thread that waits gets a StoreError. May be called again."""
        with self._lock:
            self._is_closed = True
            self._entries, self._owners, self._expiries = {}, {}, []
            self._bytes = 0
            if self._timer is not None:
                self._timer.cancel()
        self._changes.wake_all()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("the store is closed")

    # -- what is counted; all with _lock held ------------------------------------------------------

    def _keep(self, entry: Entry, owned: _Owned, expired_before: float | None = None) -> None:
        self._entries[entry.id] = entry
        owned.live += entry.runner is not None
        if entry.outcome is not None:
            self._bytes += len(entry.outcome)
        if entry.expires is not None and entry.expires != expired_before:
            self._will_expire(entry.expires, entry.id)

    def _let_go(self, entry: Entry, owned: _Owned) -> None:
        """Stop counting an entry, but leave it in place: `get` takes no lock, and must find it meanwhile."""
        owned.live -= entry.runner is not None
        if entry.outcome is not None:
            self._bytes -= len(entry.outcome)

    # -- expiry; all but the timer's function with _lock held --------------------------------------

    def _will_expire(self, expires: float, entry_id: str) -> None:
        if len(self._expiries) > 2 * len(self._entries) + FEW:  # from entries that were changed many times
            self._expiries = [(e.expires, e.id) for e in self._entries.values() if e.expires is not None]
            heapq.heapify(self._expiries)
        else:
            heapq.heappush(self._expiries, (expires, entry_id))
        self._set_timer()

    def _until_expiry(self) -> float | None:
        """Seconds until the first entry expires; None if no entry does."""
        while self._expiries:
            expires, entry_id = self._expiries[0]
            entry = self._entries.get(entry_id)
            if entry is not None and entry.expires == expires:
                return expires - time.time()
            heapq.heappop(self._expiries)  # outdated: the entry was changed or removed
        return None

    def _until_expiry_of(self, owned: _Owned, owner: str | None) -> float | None:
        """Seconds until the first of an owner's oldest entries expires; None if none of them does."""
        found = (self._entry_of(key, owner) for key in owned.keys)
        oldest = islice((entry for entry in found if entry is not None), LOOKED_AT)
        expiries = [entry.expires for entry in oldest if entry.expires is not None]
        return min(expiries) - time.time() if expiries else None

    def _set_timer(self) -> None:
        if not self._expiries or self._expiries[0][0] >= self._timer_due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = self._expiries[0][0]
        seconds = max(0.0, self._timer_due - time.time()) + GATHER
        self._timer = timers.later(seconds, partial(_expire, ref(self)))

    def _timer_ran(self) -> None:
        with self._lock:
            self._timer, self._timer_due = None, float("inf")
            self._remove_expired(time.time())
            self._set_timer()

    def _remove_expired(self, now: float) -> bool:
        """Remove some of the expired entries. Returns whether there may be more."""
        for _ in range(REMOVED_AT_ONCE):
            if not self._expiries or self._expiries[0][0] > now:
                return False
            expires, entry_id = heapq.heappop(self._expiries)
            entry = self._entries.get(entry_id)
            if entry is not None and entry.expires == expires:
                self._remove(entry)
        return True

    def _remove(self, entry: Entry) -> None:
        owned = self._owners[entry.owner]
        self._let_go(entry, owned)
        del self._entries[entry.id]
        owned.gone += 1
        if owned.gone == len(owned.keys):
            del self._owners[entry.owner]
        elif owned.gone > len(owned.keys) // 2 + FEW:
            owned.keys = [key for key in owned.keys if self._entry_of(key, entry.owner) is not None]
            owned.gone = 0

    def _entry_of(self, key: tuple[float, str], owner: str | None) -> Entry | None:
        """The entry of an owner's key; None if that was removed, even if its id is used again."""
        created, entry_id = key
        entry = self._entries.get(entry_id)
        return entry if entry is not None and entry.created == created and entry.owner == owner else None


def _has_expired(entry: Entry) -> bool:
    return entry.expires is not None and entry.expires <= time.time()


def _expire(store: ref[MemoryStore]) -> None:
    """The timer's function. It has a weak reference, so that a timer does not keep an unused store alive."""
    there = store()
    if there is not None:
        there._timer_ran()
