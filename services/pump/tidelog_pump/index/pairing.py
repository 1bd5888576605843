"""From log records to index entries: which Commit belongs to which Prewrite (section 7). Pure.

Fed in log order, live and at the restart alike; what it decides depends on the log alone, but for
what is late: that depends on what readers were promised, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog import record
from tidelog.payload import Kind
from tidelog_pump.index import keys
from tidelog_pump.index.keys import NOWHERE, Head, State, Transaction
from tidelog_pump.log.place import Place, Pointer
from tidelog_pump.log.promised import NOTHING, Promise
from tidelog_pump.sort.high_ts import HighTs
from tidelog_pump.write.intake import Stored


class Odd(NamedTuple):
    """Stored, but not as usual: a line of the log each. `place` is of the record that was odd."""

    what: str
    start_ts: int
    commit_ts: int
    place: Place


UNPAIRED = "a Commit came without its Prewrite"
LATE_PAIR = "a Prewrite came after its Commit"
CONFLICT = "a second Commit differs from the first"
PURGED = "a Commit came whose transaction, if it was here, is purged"
LOST = "a Commit came whose Prewrite gc-hard-cap took: no reader gets this transaction"


class Changes(NamedTuple):
    """One index batch, the (start_ts, commit_ts or 0) that it closes, what was odd in it, and which
    of the closed came too late for some reader."""

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    closed: list[tuple[int, int]]
    odd: list[Odd]
    late: list[tuple[int, int]]


class Pairing:
    """`look_up` reads a key of the index, `newest` is the largest start_ts it knows, `purged_ts`
    the purge point, `promised` what readers were promised."""

    def __init__(
        self,
        look_up: Callable[[bytes], bytes | None],
        head: Head,
        opened: list[tuple[int, int, Place]],
        high: HighTs,
        newest: int,
        purged_ts: Callable[[], int] = lambda: 0,
        promised: Callable[[], Promise] = lambda: NOTHING,
    ) -> None:
        self.head = head
        self.high = high
        self.unpaired = 0
        self.late_pairs = 0
        self.conflicts = 0
        self.purged = 0
        self._purged_ts = purged_ts
        self._promised = promised
        self._late: list[tuple[int, int]] = []
        self._pointed: dict[int, int] = {}
        self._pointed_now: set[int] = set()
        self._look_up = look_up
        self._newest = newest
        self._open = {start: (bound, place) for start, bound, place in opened}
        self._puts: dict[bytes, bytes] = {}
        self._deletes: dict[bytes, None] = {}
        self._last: Place | None = None
        self._closed: list[tuple[int, int]] = []
        self._odd: list[Odd] = []

    def __len__(self) -> int:
        """Puts of the batch so far."""
        return len(self._puts)

    @property
    def open_count(self) -> int:
        return len(self._open)

    def opened(self) -> list[tuple[int, int]]:
        """Open Prewrites as (start_ts, bound), in log order."""
        return [(start, bound) for start, (bound, _) in self._open.items()]

    def lose(self, start_ts: int) -> None:
        """Its Prewrite is gone (`taken`)."""
        self._open.pop(start_ts, None)

    def bound(self, start_ts: int) -> int | None:
        """Of an open Prewrite, else None."""
        found = self._open.get(start_ts)
        return None if found is None else found[0]

    def feed(self, stored: Stored, wall_ms: int) -> None:
        kind, start_ts, commit_ts, place = stored
        if kind is Kind.PREWRITE:
            self._prewrite(start_ts, place, wall_ms)
        elif kind is Kind.COMMIT:
            self._commit(start_ts, commit_ts, place, wall_ms)
        elif kind is Kind.ROLLBACK:
            self._rollback(start_ts)
        else:
            # A fake's timestamp came from the oracle: under `embedded` nothing else vouches.
            self.high.value = max(self.high.value, commit_ts)
        self._last = place

    def take(self) -> Changes:
        """The batch so far, with the head; the next one begins."""
        if self._last is not None:
            fid, offset, length, _ = self._last
            self.head = Head(fid, offset + record.HEADER_BYTES + length, self.high.value)
            self._last = None
        self._puts[keys.HEAD_KEY] = keys.pack_head(self.head)
        for fid in sorted(self._pointed_now):
            self._puts[keys.pointed_key(fid)] = keys.pack_ts(self._pointed[fid])
        self._pointed_now.clear()
        puts, deletes = list(self._puts.items()), list(self._deletes)
        changes = Changes(puts, deletes, self._closed, self._odd, self._late)
        self._puts, self._deletes, self._closed, self._odd, self._late = {}, {}, [], [], []
        return changes

    def _known(self, start_ts: int) -> Transaction | None:
        if start_ts > self._newest:
            return None
        key = keys.transaction_key(start_ts)
        value = self._puts.get(key) or self._look_up(key)
        return None if value is None else keys.unpack_transaction(value)

    def _put(self, key: bytes, value: bytes) -> None:
        self._deletes.pop(key, None)
        self._puts[key] = value

    def _delete(self, key: bytes) -> None:
        self._puts.pop(key, None)
        self._deletes[key] = None

    def _set(self, start_ts: int, state: State, commit_ts: int, place: Place) -> None:
        value = keys.pack_transaction(state, commit_ts, place)
        self._puts[keys.transaction_key(start_ts)] = value
        if start_ts > self._newest:
            self._newest = start_ts

    def _prewrite(self, start_ts: int, place: Place, wall_ms: int) -> None:
        if self.high.follow:
            self.high.claim(start_ts, wall_ms)
        known = self._known(start_ts)
        if known is None or known.endless:
            bound = max(start_ts, self.high.value)
            self._open[start_ts] = (bound, place)
            self._set(start_ts, State.OPEN, 0, place)
            self._put(keys.open_key(start_ts), keys.pack_open(bound, place))
            return
        if known.state is not State.OPEN:
            self._put(keys.ended_key(place.fid, start_ts), keys.pack_ts(known.commit_ts))
        if known.state is State.UNPAIRED:
            self.late_pairs += 1
            self._odd.append(Odd(LATE_PAIR, start_ts, known.commit_ts, place))
            self._delete(keys.unpaired_key(start_ts))
            pointer = keys.pack_pointer(Pointer(place.fid, place.offset))
            self._put(keys.late_key(known.commit_ts, start_ts), pointer)
            self._put(keys.suspect_key(known.commit_ts, start_ts), pointer)
            self._pair(start_ts, known.commit_ts, place)

    def _point(self, fid: int, commit_ts: int) -> None:
        """A pair's Prewrite lies in that segment."""
        if fid not in self._pointed:
            self._pointed[fid] = keys.unpack_ts(self._look_up(keys.pointed_key(fid)))
        if commit_ts > self._pointed[fid]:
            self._pointed[fid] = commit_ts
            self._pointed_now.add(fid)

    def _pair(self, start_ts: int, commit_ts: int, place: Place) -> None:
        if commit_ts > self._pointed.get(place.fid, -1):
            self._point(place.fid, commit_ts)
        self._set(start_ts, State.COMMITTED, commit_ts, place)
        self._put(keys.commit_key(commit_ts, start_ts), keys.pack_place(place))
        self._closed.append((start_ts, commit_ts))

    def _commit(self, start_ts: int, commit_ts: int, place: Place, wall_ms: int) -> None:
        if self.high.follow:
            self.high.claim(commit_ts, wall_ms)
        bound, prewrite = self._open.pop(start_ts, (0, None))
        if prewrite is not None:
            self._delete(keys.open_key(start_ts))
            late = self._promised().broken_by(commit_ts, place)
            if late:
                self._late.append((start_ts, commit_ts))
            if late or commit_ts <= bound:
                # Allocated before this Prewrite came: a second copy (I2), to be verified.
                at = keys.pack_pointer(Pointer(prewrite.fid, prewrite.offset))
                self._put(keys.suspect_key(commit_ts, start_ts), at)
            self._pair(start_ts, commit_ts, prewrite)
            return
        known = self._known(start_ts)
        if known is None and commit_ts <= self._purged_ts():
            # An open Prewrite's is above it: this one is over, and no reader may ask for it.
            self.purged += 1
            self._odd.append(Odd(PURGED, start_ts, commit_ts, place))
            self._set(start_ts, State.COMMITTED, commit_ts, NOWHERE)
        elif known is not None and known.endless:
            self.purged += 1
            self._odd.append(Odd(LOST, start_ts, commit_ts, place))
            self._set(start_ts, State.LOST, commit_ts, NOWHERE)
        elif known is None:
            self.unpaired += 1
            self._odd.append(Odd(UNPAIRED, start_ts, commit_ts, place))
            self._set(start_ts, State.UNPAIRED, commit_ts, NOWHERE)
            pointer = Pointer(place.fid, place.offset)
            self._put(keys.unpaired_key(start_ts), keys.pack_unpaired(commit_ts, pointer))
            self._closed.append((start_ts, commit_ts))
        elif known.commit_ts != commit_ts:
            self.conflicts += 1
            self._odd.append(Odd(CONFLICT, start_ts, commit_ts, place))

    def _rollback(self, start_ts: int) -> None:
        _, prewrite = self._open.pop(start_ts, (0, None))
        if prewrite is not None:
            self._delete(keys.open_key(start_ts))
        else:
            known = self._known(start_ts)
            if known is not None and not known.endless:
                return
        self._set(start_ts, State.ROLLED_BACK, 0, prewrite or NOWHERE)
        self._closed.append((start_ts, 0))
