"""The downstream of a replay as its driver has it: the checkpoint, DDLs, what tables allow, and the
opening under which tasks make their lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import final

import structlog

from tidelog.changes import DdlMessage
from tidelog.downstream import Checkpoint, DownstreamOptions, TableRule
from tidelog.downstreams import open_downstream
from tidelog.errors import Stopped
from tidelog.schema.structure import TableStructure
from tidelog.subjects import unescape
from tidelog_backfill.replay.outline import position_after
from tidelog_backfill.replay.position import Position
from tidelog_backfill.replay.routing import Place

log = structlog.get_logger()
Said = Callable[[str], None]

WATCH_S = 5.0
"""A DDL is looked after so often."""


@final
class Target:
    """`newest`: tables as they are after the last DDL, as far as it is known. What it raises is
    what the downstream does."""

    def __init__(self, options: DownstreamOptions, feed: str) -> None:
        self.options = options
        self.feed = feed
        self.newest: dict[Place, TableStructure] = {}
        self.position = Position(feed, None)
        self._downstream = open_downstream(options)

    async def open(self) -> None:
        """Raises BadInput for a downstream that tasks can't write, before anything is touched."""
        await self._downstream.join(self.feed, 0)
        opened = await self._downstream.open(self.feed)
        self.position = Position(self.feed, opened.checkpoint)

    async def close(self) -> None:
        await self._downstream.close()

    async def save(self, checkpoint: Checkpoint) -> None:
        await self._downstream.save_checkpoint(checkpoint)
        self.position.saved = checkpoint

    async def step(self, digest: str) -> tuple[int, frozenset[int]]:
        """Begin one: the epoch of its lanes, those of the step before are void; and the parts of it
        that are written."""
        return await self._downstream.renew(), await self._downstream.parts_done(digest)

    async def rules(
        self, structures: dict[str, TableStructure]
    ) -> list[tuple[str, TableStructure, TableRule]]:
        """With their databases; without tables that the downstream does not have."""
        found: list[tuple[str, TableStructure, TableRule]] = []
        for key, structure in structures.items():
            db = unescape(key.partition(".")[0])
            try:
                rule = await self._downstream.rule(db, structure)
            except Stopped as error:
                log.info("a table of the log has no place", reason=error.message)
                continue
            found.append((db, structure, rule))
            known = self.newest.get((db, structure.name))
            if known is None or known.version < structure.version:
                self.newest[db, structure.name] = structure
        return found

    async def ddl(self, ddl: DdlMessage, said: Said) -> list[str]:
        """Run it, unless it was early and is done. Returns what the downstream can't hold."""
        if ddl.schema_version in self.position.early:
            return []
        after = self.position.after(ddl, max(self.position.commit_ts, position_after(ddl)))
        log.info("ddl", kind=ddl.kind, commit_ts=ddl.commit_ts, query=ddl.query[:500])
        done = asyncio.Event()
        notes, _ = await asyncio.gather(self._apply(ddl, after, done), self._watch(done, said))
        self.position.saved = after
        for table in ddl.tables:
            if table.before is not None:
                self.newest.pop((table.db_before, table.before.name), None)
            if table.after is not None:
                self.newest[table.db_after, table.after.name] = table.after
        return notes

    async def _apply(self, ddl: DdlMessage, after: Checkpoint, done: asyncio.Event) -> list[str]:
        try:
            return await self._downstream.apply_ddl(ddl, after)
        finally:
            done.set()

    async def _watch(self, done: asyncio.Event, said: Said) -> None:
        while not done.is_set():
            try:
                async with asyncio.timeout(WATCH_S):
                    await done.wait()
            except TimeoutError:
                said(await self._downstream.ddl_progress())
