"""What the collector handed over, in order, decoded into the open batch."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from tidelog.actor import Reply
from tidelog.decode.decoder import job_of
from tidelog.decode.doubts import InDoubt
from tidelog.decode.errors import MustAsk
from tidelog.decode.transactions import DdlTxn, LargeTxn, RowTxn
from tidelog.failpoints import hit
from tidelog.filter.unwanted import Unwanted
from tidelog_drainer.decode.decoding import Decoding
from tidelog_drainer.mail import Merged
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.publish.batcher import Batch
from tidelog_drainer.publish.counts import Counts
from tidelog_drainer.publish.parts import PartsBatcher
from tidelog_drainer.publish.position import Start

QUEUE_BYTES = 16 << 20
YIELD_TXNS = 128
"""Decoding lets others run after so many transactions."""
LOOK_AHEAD_S = 5.0
"""How long a transaction waits for what lies ahead of it."""


class Intake:
    """Owned by the publisher. Bounded: the collector is answered while there is room."""

    def __init__(self, decoding: Decoding, counts: Counts) -> None:
        self.accepted = 0
        """Up to here the collector has handed over everything."""
        self.covered = 0
        """Up to here all is decoded: published, in the open batch, or dropped."""
        self.prev = 0
        """The last commit_ts of the newest batch made: what the next mark's prev_commit_ts is."""
        self.bytes = 0
        self._decoding = decoding
        self._counts = counts
        self._batcher: PartsBatcher
        self._queue: deque[Merged] = deque()
        self._at = 0
        self._more = asyncio.Event()
        self._carry: LargeTxn | RowTxn | DdlTxn | None = None
        self._credits: deque[Reply[Unwanted]] = deque()

    def begin(self, start: Start, batcher: PartsBatcher) -> None:
        self._batcher = batcher
        self.accepted = self.covered = start.commit_ts
        self.prev = start.prev_commit_ts

    @property
    def waiting(self) -> bool:
        """Is there something to decode?"""
        return bool(self._queue)

    def put(self, merged: Merged) -> None:
        self._queue.append(merged)
        self.bytes += merged.size
        self.accepted = merged.upto
        self._credits.append(merged.reply)
        self._more.set()

    def answer(self) -> None:
        """More may come, as far as there is room."""
        while self._credits and self.bytes < QUEUE_BYTES:
            self._credits.popleft().set(self._decoding.unwanted)

    async def fill(
        self, on_room: Callable[[], None], enough: Callable[[], bool]
    ) -> Batch | LargeTxn | None:
        """Decode into the open batch; returns it when it is full. A large transaction comes alone,
        its rows not decoded yet. `enough`: what is left can wait, though nothing is in the batch.
        Raises Undecodable."""
        decoded = 0
        while self._queue:
            head = self._queue[0]
            while self._at < len(head.txns):
                full = await self._next(head.txns[self._at])
                if full is not None:
                    return full
                decoded += 1
                if decoded % YIELD_TXNS == 0:
                    await asyncio.sleep(0)
            self._queue.popleft()
            self._at = 0
            self.covered = head.upto
            self.bytes -= head.size
            on_room()
            if self._batcher.empty and enough():
                break
        return None

    async def _next(self, txn: Txn) -> Batch | LargeTxn | None:
        decoded, self._carry = self._carry, None
        if decoded is None:
            try:
                decoded = self._decoding.at_once(txn)
            except MustAsk:
                decoded = await self._ask(txn)
        if decoded is not None and not self._batcher.takes(decoded):
            self._carry = decoded
            return self.finish()
        self._at += 1
        self.covered = txn[0]
        if decoded is None or isinstance(decoded, LargeTxn):
            return decoded
        if isinstance(decoded, DdlTxn):
            return self.made(self._batcher.ddl(decoded, self.prev))
        if decoded.ddls:
            return self.made(self._batcher.early(decoded, self.prev))
        if decoded.skipped is not None:
            self._counts.met(decoded.commit_ts, decoded.skipped)
        self._batcher.add(decoded)
        return None

    async def _ask(self, txn: Txn) -> LargeTxn | RowTxn | DdlTxn | None:
        """As `Decoding.decode`."""
        while True:
            try:
                return await self._decoding.decode(txn)
            except InDoubt as doubt:
                comes = await self._comes(doubt)
                self._decoding.ddls.doubts.settle(doubt.job_id, comes=comes)

    async def _comes(self, doubt: InDoubt) -> bool:
        """Whether a DDL's binlog stands in the queue. Where that does not reach as far it counts as
        one that does: readers rather meet a DDL twice."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AHEAD_S):
                while self.accepted < doubt.upto and self.bytes < QUEUE_BYTES:
                    self._more.clear()
                    await self._more.wait()
        ahead = (txn[2] for merged in self._queue for txn in merged.txns)
        found = any(isinstance(one, bytes) and job_of(one) == doubt.job_id for one in ahead)
        return found or self.accepted < doubt.upto

    def finish(self) -> Batch:
        """The open batch as it is."""
        hit("drainer.intake.batch_decoded")
        return self.made(self._batcher.finish(self.prev, self.covered))

    def made(self, batch: Batch) -> Batch:
        """It is the newest batch."""
        self.prev = batch.last_ts
        return batch
