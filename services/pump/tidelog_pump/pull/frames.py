"""Fills PullFrames: whole transactions in commit order, or one piece of a large one (section 5).

`frame.resolved_ts` = r when everything up to r is in it; of a frame cut short, the last commit_ts
it holds whole; of a piece that is not the last, what the reader had before.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from crc32c import crc32c

from tidelog.errors import Corrupt, Purged
from tidelog.ports import Clock, IndexStore
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments
from tidelog_pump.pull.scan import CommitScan, Committed, fitting
from tidelog_pump.pull.table_ids import Changed, TableIds

FRAME_BYTES = 512 << 10
FRAME_OVERHEAD = 128
TXN_OVERHEAD = 48
"""An upper bound of a PulledTxn's other fields and the tag and length before it."""
PAGE = 256
CHECKSUM_STEP = 1 << 20
REMEMBERED_CHECKSUMS = 16
"""Of those that are read in pieces, and as many of the others: the last that somebody asked for."""
LEFT_OUT_BYTES = 32 << 20
LEFT_OUT_TXNS = 10_000
"""A frame ends where so much was left out of it: its reader waits, and others too."""


class Unwanted(NamedTuple):
    """What a reader does not want: transactions that change none but these tables, under a schema
    version at or below this one."""

    tables: frozenset[int] = frozenset()
    upto_version: int = 0

    def has(self, changed: Changed | None) -> bool:
        return (
            changed is not None
            and changed.version <= self.upto_version
            and changed.tables <= self.tables
        )


NOTHING = Unwanted()


class _Sum(NamedTuple):
    """Of a large transaction: the crc32c of the whole, and which tables it changes."""

    crc: int
    changed: Changed | None


_Key = tuple[int, int]
"""commit_ts, start_ts."""


class _Filling:
    """A frame, the room that it still has, the transaction up to which it goes, and what was left
    out of it."""

    def __init__(self, after_ts: int, resolved: int, room: int) -> None:
        self.frame = PullFrame(resolved_ts=resolved)
        self.position = after_ts
        self.room = room
        self.left_out: list[int] = []
        self._left_out_bytes = 0

    @property
    def is_full(self) -> bool:
        """Of what was left out."""
        return len(self.left_out) >= LEFT_OUT_TXNS or self._left_out_bytes >= LEFT_OUT_BYTES

    def add(self, committed: Committed, payload: bytes) -> None:
        self.room -= committed.total + TXN_OVERHEAD
        self.position = committed.commit_ts
        txn = PulledTxn(
            commit_ts=committed.commit_ts,
            start_ts=committed.start_ts,
            payload=payload,
            total=len(payload),
            crc=crc32c(payload),
        )
        self.frame.txns.append(txn)

    def leave_out(self, committed: Committed) -> None:
        self.position = committed.commit_ts
        self.left_out.append(committed.commit_ts)
        self._left_out_bytes += committed.total

    def cut(self) -> tuple[PullFrame, list[int]]:
        """As it is, although there is more."""
        self.frame.resolved_ts = self.position
        return self.frame, self.left_out


class Framer:
    def __init__(
        self, segments: Segments, store: IndexStore, purge: PurgePoint, clock: Clock
    ) -> None:
        self._scan = CommitScan(segments, store, purge)
        self._clock = clock
        self._in_pieces: dict[_Key, _Sum] = {}
        self._judged: dict[_Key, _Sum] = {}
        """Those that somebody might not want. One frame leaves out very many: they must not drive
        out one that is read in pieces."""
        self._under_way: dict[_Key, asyncio.Future[None]] = {}

    async def frame(
        self, after_ts: int, resolved: int, budget: int, unwanted: Unwanted = NOTHING
    ) -> tuple[PullFrame, list[int]]:
        """Transactions of (after_ts, resolved] in about `budget` bytes, and the commit_ts of the
        unwanted ones, which are not in it: they were read and checked. It ends before one that
        can't be read. Raises Corrupt, Purged if that is the first."""
        filling = _Filling(after_ts, resolved, max(budget - FRAME_OVERHEAD, 1))
        try:
            return await self._fill(filling, resolved, unwanted)
        except (Corrupt, Purged):
            if filling.position == after_ts:
                raise
            return filling.cut()

    async def _fill(
        self, filling: _Filling, resolved: int, unwanted: Unwanted
    ) -> tuple[PullFrame, list[int]]:
        while True:
            page = self._scan.entries(filling.position, resolved, PAGE)
            at = 0
            while at < len(page):
                near = fitting(page, at, filling.room, TXN_OVERHEAD)
                payloads = self._scan.payloads(near)
                for committed, payload in zip(near, payloads, strict=False):
                    if filling.is_full:
                        return filling.cut()
                    if unwanted.tables and unwanted.has(await self._changed(committed, payload)):
                        filling.leave_out(committed)
                    else:
                        filling.add(committed, payload)
                if len(payloads) < len(near):
                    return filling.cut()
                at += len(near)
                if near:
                    continue
                large, at = page[at], at + 1
                if filling.is_full or filling.frame.txns:
                    return filling.cut()
                if not (unwanted.tables and unwanted.has(await self._changed(large, b""))):
                    piece = await self._piece(filling.position, large, 0, filling.room)
                    return piece, filling.left_out
                filling.leave_out(large)
            if len(page) < PAGE:
                return filling.frame, filling.left_out
            await self._clock.sleep(0)

    async def continued(self, after_ts: int, commit_ts: int, offset: int, budget: int) -> PullFrame:
        """The next piece of a transaction that was cut. Raises Purged if it is gone."""
        found = self._scan.entries(commit_ts - 1, commit_ts, 2)
        if not found or offset >= found[0].total:
            raise Purged(f"there is no transaction {commit_ts} to go on with at offset {offset}")
        return await self._piece(after_ts, found[0], offset, max(budget - FRAME_OVERHEAD, 1))

    async def _piece(
        self, after_ts: int, committed: Committed, offset: int, room: int
    ) -> PullFrame:
        length = min(max(room - TXN_OVERHEAD, 1), committed.total - offset)
        crc = (await self._checksum(committed, self._in_pieces)).crc
        piece = PulledTxn(
            commit_ts=committed.commit_ts,
            start_ts=committed.start_ts,
            payload=self._scan.piece(committed, offset, length),
            offset=offset,
            total=committed.total,
            crc=crc,
        )
        last = offset + length == committed.total
        return PullFrame(resolved_ts=committed.commit_ts if last else after_ts, txns=[piece])

    async def _changed(self, committed: Committed, payload: bytes) -> Changed | None:
        """The tables it changes; `payload` if it is at hand."""
        if not payload:
            return (await self._checksum(committed, self._judged)).changed
        ids = TableIds()
        ids.feed(memoryview(payload)[len(committed.head) :])
        return ids.found()

    async def _checksum(self, committed: Committed, remembered: dict[_Key, _Sum]) -> _Sum:
        """Of the whole, computed once for its first piece; the record's own is checked with it.
        It may take longer than a reader waits: who asks again waits for the same reading."""
        key = (committed.commit_ts, committed.start_ts)
        while (found := self._in_pieces.get(key) or self._judged.get(key)) is None:
            under_way = self._under_way.get(key)
            if under_way is None:
                found = await self._compute(key, committed)
                break
            await asyncio.wait([under_way])  # however it ended
        remembered.pop(key, None)  # it is the newest one again
        remembered[key] = found
        if len(remembered) > REMEMBERED_CHECKSUMS:
            del remembered[next(iter(remembered))]
        return found

    async def _compute(self, key: _Key, committed: Committed) -> _Sum:
        done = self._under_way[key] = asyncio.get_running_loop().create_future()
        ids = TableIds()
        try:
            checksum = self._scan.checksum(committed, CHECKSUM_STEP, ids.feed)
            while not checksum.advance():
                await self._clock.sleep(0)
        finally:
            del self._under_way[key]
            done.set_result(None)
        return _Sum(checksum.value, ids.found())
