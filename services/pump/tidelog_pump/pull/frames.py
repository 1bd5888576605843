"""Fills PullFrames: whole transactions in commit order, or one piece of a large one (section 5).

`frame.resolved_ts` = r when everything up to r is in it; of a frame cut short, the last commit_ts
it holds whole; of a piece that is not the last, what the reader had before.
"""

from __future__ import annotations

import asyncio

from crc32c import crc32c

from tidelog.errors import Purged
from tidelog.ports import Clock, IndexStore
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments
from tidelog_pump.pull.scan import CommitScan, Committed

FRAME_BYTES = 512 << 10
FRAME_OVERHEAD = 128
TXN_OVERHEAD = 48
"""An upper bound of a PulledTxn's other fields and the tag and length before it."""
PAGE = 256
CHECKSUM_STEP = 1 << 20
REMEMBERED_CHECKSUMS = 16


class Framer:
    def __init__(
        self, segments: Segments, store: IndexStore, purge: PurgePoint, clock: Clock
    ) -> None:
        self._scan = CommitScan(segments, store, purge)
        self._clock = clock
        self._checksums: dict[tuple[int, int], int] = {}
        self._under_way: dict[tuple[int, int], asyncio.Future[None]] = {}

    async def frame(self, after_ts: int, resolved: int, budget: int) -> PullFrame:
        """Transactions of (after_ts, resolved] in about `budget` bytes. Raises Corrupt, Purged."""
        room = max(budget - FRAME_OVERHEAD, 1)
        frame = PullFrame(resolved_ts=resolved)
        position = after_ts
        while True:
            page = self._scan.entries(position, resolved, PAGE)
            for committed in page:
                needed = committed.total + TXN_OVERHEAD
                if needed > room:
                    if frame.txns:
                        frame.resolved_ts = position
                        return frame
                    return await self._piece(after_ts, committed, 0, room)
                room -= needed
                payload = self._scan.payload(committed)
                frame.txns.append(
                    PulledTxn(
                        commit_ts=committed.commit_ts,
                        start_ts=committed.start_ts,
                        payload=payload,
                        total=len(payload),
                        crc=crc32c(payload),
                    )
                )
                position = committed.commit_ts
            if len(page) < PAGE:
                return frame
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
        crc = await self._checksum(committed)
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

    async def _checksum(self, committed: Committed) -> int:
        """Of the whole, computed once for its first piece; the record's own is checked with it.
        It may take longer than a reader waits: who asks again waits for the same reading."""
        key = (committed.commit_ts, committed.start_ts)
        while (known := self._checksums.get(key)) is None:
            under_way = self._under_way.get(key)
            if under_way is None:
                return await self._compute(key, committed)
            await asyncio.wait([under_way])  # however it ended
        return known

    async def _compute(self, key: tuple[int, int], committed: Committed) -> int:
        done = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            checksum = self._scan.checksum(committed, CHECKSUM_STEP)
            while not checksum.advance():
                await self._clock.sleep(0)
        finally:
            del self._under_way[key]
            done.set_result(None)
        self._checksums[key] = checksum.value
        if len(self._checksums) > REMEMBERED_CHECKSUMS:
            del self._checksums[next(iter(self._checksums))]
        return checksum.value
