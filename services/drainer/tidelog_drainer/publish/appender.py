"""Batches to the stream's end, and before them what must be kept beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tidelog.decode.transactions import LargeTxn
from tidelog.errors import DiskFull, StreamMissing, Unavailable
from tidelog.failpoints import hit
from tidelog.schema.structure import TableStructure
from tidelog_drainer.publish.batcher import Batch
from tidelog_drainer.publish.ddl_desk import DdlDesk
from tidelog_drainer.publish.parts import PartsBatcher
from tidelog_drainer.publish.tail import StreamTail
from tidelog_drainer.schema.store import SchemaStore


class Appender:
    """`desk` is None where nothing of DDLs is kept: a replay's feed has noted them already."""

    def __init__(
        self, store: SchemaStore, desk: DdlDesk | None, tail: StreamTail, batcher: PartsBatcher
    ) -> None:
        self._store = store
        self._desk = desk
        self._tail = tail
        self._batcher = batcher

    async def append(self, batch: Batch) -> None:
        """Raises as StreamTail.append."""
        await self._keep_beside(batch.structures)
        for chunk in batch.chunks:
            await self._tail.append(chunk)
        self._store.forget(batch.ended)

    async def append_parts(self, txn: LargeTxn) -> None:
        """Decode and append it part by part, but for the last, which the batcher's `end` gives.
        Raises as StreamTail.append, and Undecodable."""
        self._batcher.begin(txn)
        for rows in txn.slices():
            if rows is not None:
                self._batcher.add_part(rows)
                while chunk := self._batcher.full_chunk():
                    await self._keep_beside(self._batcher.structures)
                    await self._tail.append(chunk)
            await asyncio.sleep(0)

    async def _keep_beside(self, structures: dict[str, TableStructure]) -> None:
        """What must be kept before the stream names or passes it."""

        async def write() -> None:
            hit("drainer.schema.before_structures")
            await self._store.look()
            await self._store.publish(structures)
            hit("drainer.schema.structures_written")
            if self._desk is not None:
                await self._desk.save()

        await until_done(self._store, write)


async def until_done(store: SchemaStore, write: Callable[[], Awaitable[None]]) -> None:
    """A write beside the stream, waiting for an unreachable server, or for room on our disk."""
    failures = 0
    while True:
        try:
            return await write()
        except (Unavailable, StreamMissing, DiskFull) as error:
            store.waiting = f"what is kept beside the stream: {error}"
            await store.pause(failures)
            failures += 1
