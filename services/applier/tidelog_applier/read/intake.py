"""What the Applier takes in: first what its relay holds after the checkpoint, then the stream.

    intake = Intake(bus, "shop", log, structures, after=checkpoint.commit_ts)
    while True:
        for one in await intake.next():      # Batch | LargeBatch | Moved, durable in the relay
            ...
        await intake.applied(checkpoint.commit_ts)

What comes in one fetch is written with one sync, before any of it is handed on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import structlog

from tidelog.errors import DiskFull
from tidelog.failpoints import hit
from tidelog.feed_reader import FeedReader
from tidelog.ports import Bus
from tidelog.relay import BatchLog, Handed, Piece
from tidelog_applier.read.assembler import SPILL_BYTES, BatchAssembler, Item, Moved
from tidelog_applier.read.structures import Structures

log = structlog.get_logger()

AT_ONCE_BYTES = 4 << 20
"""Of what the relay holds, about so much is handed on at once."""
Taken = Handed | Moved


class Intake:
    """One feed's changes above `after`, each once. Its BatchLog is opened here, at the first
    `next`, and nobody else writes it."""

    def __init__(
        self,
        bus: Bus,
        feed: str,
        relay: BatchLog,
        structures: Structures,
        *,
        after: int,
        spill_bytes: int = SPILL_BYTES,
    ) -> None:
        self._bus = bus
        self._feed = feed
        self._relay = relay
        self._structures = structures
        self._position = after
        self._spill_bytes = spill_bytes
        self._left: AsyncGenerator[Handed, None] | None = None
        self._reader: FeedReader[Item] | None = None
        self._pending: list[Item] = []

    @property
    def position(self) -> int:
        """Everything with commit_ts <= this was handed on."""
        return self._position

    @property
    def relay_end(self) -> int:
        """What lies at or below it is in the relay, or applied; known from the first `next` on."""
        return self._relay.end

    async def next(self, max_wait_s: float = 1.0) -> list[Taken]:
        """What is there, in order; maybe nothing, after `max_wait_s` at the latest.

        Raises Gap, Purged, UnparsablePayload behind all that came before; of the relay RelayGap,
        Corrupt, ForeignDirectory, ForeignCluster, IoFailed; Corrupt of a structure that is none.
        Raises Unavailable while a table's structure can't be had, and DiskFull: call again, nothing
        is lost or handed on twice.
        """
        try:
            found = await self._next(max_wait_s)
        except DiskFull:
            await self._begin_anew()  # the log takes no more before it is opened again
            raise
        if found:
            self._position = found[-1].commit_ts
        return found

    async def _next(self, max_wait_s: float) -> list[Taken]:
        if self._left is None and self._reader is None:
            await self._relay.open(self._position)
            hit("applier.intake.opened")
            self._left = self._relay.batches(self._position)
            log.info("reading", feed=self._feed, after=self._position, relay_end=self._relay.end)
        if self._left is not None:
            found = await some(self._left)
            if found:
                return found
            self._left = None
        if self._reader is None:
            self._reader = self._stream(max(self._position, self._relay.end))
        if not self._pending:
            self._pending = await self._reader.next(max_wait_s)
        return await self._kept()

    def _stream(self, after: int) -> FeedReader[Item]:
        assembler = BatchAssembler(self._feed, after, spill_bytes=self._spill_bytes)
        return FeedReader(self._bus, self._feed, assembler)

    async def _kept(self) -> list[Taken]:
        """What is pending, once it is in the relay."""
        items = [item for item in self._pending if not isinstance(item, Moved)]
        structures = await self._structures.all({key for item in items for key in item.tables})
        hit("applier.intake.fetched")
        handed = await self._relay.append(items, structures)
        hit("applier.intake.kept")
        for ddl in (ddl for one in handed for ddl in one.ddls):
            self._structures.forget(ddl)
        pending, self._pending = self._pending, []
        return in_order(pending, handed)

    async def applied(self, commit_ts: int) -> None:
        """The checkpoint is durable there: what lies at or below it may go from the disk."""
        await self._relay.purge(commit_ts)

    async def close(self) -> None:
        """`next` may be called again, and begins anew behind what was handed on."""
        await self._begin_anew()
        self._relay.close()

    async def _begin_anew(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            await left.aclose()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()
        self._pending = []


async def some(left: AsyncGenerator[Handed, None]) -> list[Taken]:
    """The next of them, AT_ONCE_BYTES or one batch; empty at the end."""
    found: list[Taken] = []
    size = 0
    async for batch in left:
        found.append(batch)
        size += batch.size
        if size >= AT_ONCE_BYTES:
            break
    return found


def in_order(items: Sequence[Item], handed: Sequence[Handed]) -> list[Taken]:
    """The batches that were handed on for the items, with the moves between them."""
    batches = iter(handed)
    kept = [item for item in items if not isinstance(item, Piece)]
    return [item if isinstance(item, Moved) else next(batches) for item in kept]
