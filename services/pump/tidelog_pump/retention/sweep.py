"""Takes out of the index what the purge point has passed, a little at a time (design section 7).

Every sweep begins at the start of each range: what a crash brought back goes with the next one.
Pure but for the index.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.ports import IndexStore
from tidelog.timestamps import TS_MAX
from tidelog_pump.index import keys
from tidelog_pump.index.keys import State

PAGE = 1024


class Sweep:
    """`remembered_ts`: a transaction that began later is remembered as ended, though purged, so
    that whatever its writer still sends of it is known for what it is; so is one that was `taken`.
    """

    def __init__(
        self,
        store: IndexStore,
        purge_ts: int,
        first: int,
        remembered_ts: int = TS_MAX,
        taken: Collection[int] = (),
    ) -> None:
        self._store = store
        self._purge_ts = purge_ts
        self._first = first
        self._taken = frozenset(taken)
        self._pages = [
            (b"u", keys.unpaired_key(TS_MAX)),
            (b"p", keys.transaction_key(min(purge_ts, remembered_ts) + 1)),
        ]
        self._begins = b""
        self.deleted = 0
        for span in (
            keys.commit_range(-1, purge_ts),
            keys.late_range(-1, purge_ts),
            keys.suspect_range(-1, purge_ts),
            keys.pointed_range(first),
            keys.ended_range(0, first),
        ):
            store.delete_range(*span)

    def step(self) -> bool:
        """One page; True when all is done. What is contiguous in it goes as one range: a store
        reads the slower the more ranges it has to remember. Not beyond the page: between two steps
        others write, and what they put among what was looked at would go with it."""
        if not self._pages:
            return True
        start, stop = self._pages[0]
        page = self._store.scan(start, stop, PAGE)
        for key, value in page:
            if self._over(key, value):
                self._begins = self._begins or key
                self.deleted += 1
            else:
                self._delete_up_to(key)
        after = page[-1][0] + b"\x00" if page else start
        self._delete_up_to(after)
        self._pages[0] = after, stop
        if len(page) < PAGE:
            del self._pages[0]
        return not self._pages

    def _delete_up_to(self, stop: bytes) -> None:
        if self._begins:
            self._store.delete_range(self._begins, stop)
            self._begins = b""

    def _over(self, key: bytes, value: bytes) -> bool:
        """May this `u` or `p` go? (An open Prewrite may be older than the purge point.)"""
        if key.startswith(b"u"):
            _, commit_ts, at = keys.unpack_unpaired(key, value)
            return commit_ts <= self._purge_ts and at.fid < self._first
        state, commit_ts, _ = keys.unpack_transaction(value)
        if state is State.LOST and keys.start_of(key) in self._taken:
            return False
        return state is not State.OPEN and commit_ts <= self._purge_ts


def lost_between(store: IndexStore, after_ts: int, up_to: int, limit: int) -> int:
    """How many transactions are committed above `after_ts` and up to `up_to`; no more than `limit`
    are counted."""
    if after_ts >= up_to:
        return 0
    return len(store.scan(*keys.commit_range(after_ts, up_to), limit))
