"""Reading committed transactions in commit order: the index says where, the segments have them.

Commit order is nearly log order, so records are cut out of a window read at once; some at a time
are read in log order, since of a thousand transactions in flight any may be committed next. Pure
but for the reads; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from tidelog import record
from tidelog.errors import Corrupt, InvariantBroken, Purged
from tidelog.payload import commit_head
from tidelog.ports import IndexStore
from tidelog_pump.index import keys
from tidelog_pump.log.place import Place, Pointer
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments

WINDOW_BYTES = 128 << 10
Take = Callable[[memoryview], object]


class Committed(NamedTuple):
    """A transaction: its timestamps, the head it is given, where its Prewrite's record is."""

    commit_ts: int
    start_ts: int
    head: bytes
    place: Place

    @property
    def total(self) -> int:
        """Bytes of the rewritten Commit."""
        return len(self.head) + self.place.length - self.place.body


class CommitScan:
    """One reader's view; keep one a reader, it caches a window."""

    def __init__(self, segments: Segments, store: IndexStore, purge: PurgePoint) -> None:
        self._segments = segments
        self._store = store
        self._purge = purge
        self._window = memoryview(b"")
        self._window_fid = -1
        self._window_at = 0

    def entries(self, after_ts: int, up_to: int, limit: int) -> list[Committed]:
        """Transactions with after_ts < commit_ts <= up_to, ascending, at most `limit`.

        Raises Purged below the purge point, InvariantBroken if two have one commit_ts (I3). One
        more key is read than is given out: whoever goes on behind the last one would never see its
        twin.
        """
        self._purge.check(after_ts)
        start, stop = keys.commit_range(after_ts, up_to)
        found: list[Committed] = []
        before = before_start = -1
        for key, value in self._store.scan(start, stop, limit + 1):
            commit_ts, start_ts, place = keys.unpack_commit(key, value)
            if commit_ts == before:
                raise InvariantBroken(
                    f"transactions {before_start} and {start_ts} have one commit_ts, {commit_ts}"
                )
            before, before_start = commit_ts, start_ts
            if len(found) < limit:
                head = commit_head(start_ts, commit_ts)
                found.append(Committed(commit_ts, start_ts, head, place))
        return found

    def payloads(self, page: Sequence[Committed]) -> list[bytes]:
        """Each one's, as `payload`, up to the first that can't be read; all are in memory. Raises
        Corrupt, Purged if none can."""
        found = [b""] * len(page)
        for at in sorted(range(len(page)), key=lambda n: page[n].place):
            if at >= len(found):
                continue
            try:
                found[at] = self.payload(page[at])
            except (Corrupt, Purged):
                if not at:
                    raise
                del found[at:]
        return found

    def payload(self, committed: Committed) -> bytes:
        """The Prewrite rewritten as a Commit, whole. Raises Corrupt, Purged."""
        place = committed.place
        taken = self._from_window(place)
        if taken is None:
            whole = self._segments.payload(Pointer(place.fid, place.offset))
            if len(whole) != place.length:
                raise Corrupt(f"the index does not fit the record of {committed.start_ts}")
            taken = memoryview(whole)
        return b"".join((committed.head, taken[place.body :]))

    def _from_window(self, place: Place) -> memoryview | None:
        """The record's payload out of the window, checked; None if it must be read by itself."""
        needed = record.HEADER_BYTES + place.length
        if needed > WINDOW_BYTES // 2:
            return None
        at = place.offset - self._window_at
        if place.fid != self._window_fid or at < 0 or at + needed > len(self._window):
            self._window = memoryview(
                self._segments.window(Pointer(place.fid, place.offset), WINDOW_BYTES)
            )
            self._window_fid, self._window_at, at = place.fid, place.offset, 0
        header = record.parse_header(self._window, at)
        start = at + record.HEADER_BYTES
        payload = self._window[start : start + place.length]
        if (
            header is None
            or header.length != place.length
            or not record.matches(payload, header.crc)
        ):
            # The window may have caught a write half done; the record itself is synced.
            self._window_fid = -1
            return None
        return payload

    def piece(self, committed: Committed, offset: int, length: int) -> bytes:
        """`length` bytes of the rewritten Commit from `offset`, unchecked."""
        head, place = committed.head[offset : offset + length], committed.place
        at = place.body + max(0, offset - len(committed.head))
        wanted = min(length - len(head), place.length - at)
        return head + self._segments.read(Pointer(place.fid, place.offset), at, wanted)

    def checksum(self, committed: Committed, step: int, take: Take | None = None) -> Checksum:
        """`take` gets every step's bytes of the rewritten Commit, those of its head excepted: they
        are not known to be right before the last step is done."""
        return Checksum(self._segments, committed, step, take)


def fitting(
    page: Sequence[Committed], begin: int, room: int, overhead: int = 0
) -> Sequence[Committed]:
    """Of those from `begin` on as many as fit `room` bytes, with `overhead` for each."""
    for end in range(begin, len(page)):
        room -= page[end].total + overhead
        if room < 0:
            return page[begin:end]
    return page[begin:]


class Checksum:
    """The crc32c of a large rewritten Commit, read once in steps; checks the record meanwhile."""

    def __init__(
        self, segments: Segments, committed: Committed, step: int, take: Take | None
    ) -> None:
        self._segments = segments
        self._committed = committed
        self._step = step
        self._take = take
        self._at = 0
        self._stored = 0
        self.value = crc32c(committed.head)

    def advance(self) -> bool:
        """Read one step; True when done. Raises Corrupt."""
        place = self._committed.place
        pointer = Pointer(place.fid, place.offset)
        data = memoryview(
            self._segments.read(pointer, self._at, min(self._step, place.length - self._at))
        )
        self._stored = crc32c(data, self._stored)
        rest = data[max(0, place.body - self._at) :]
        self.value = crc32c(rest, self.value)
        if self._take is not None:
            self._take(rest)
        self._at += len(data)
        if self._at < place.length:
            return False
        header = self._segments.header(pointer)
        if header.length != place.length or header.crc != self._stored:
            raise Corrupt(f"the record of transaction {self._committed.start_ts} is damaged")
        return True
