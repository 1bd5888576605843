"""The downstream of a replay as its driver has it: the checkpoint, DDLs, what tables allow, and the
opening under which tasks make their lanes."""

from __future__ import annotations

import asyncio
import glob
from collections.abc import Callable, Sequence
from typing import Protocol, final

import structlog

from tidelog.changes import DdlMessage
from tidelog.downstream import Checkpoint, DownstreamOptions, TableRule
from tidelog.downstreams import open_downstream
from tidelog.errors import Stopped
from tidelog.schema.structure import TableStructure
from tidelog.subjects import unescape
from tidelog_backfill.replay.outline import position_after
from tidelog_backfill.replay.plan import Segment
from tidelog_backfill.replay.position import Position
from tidelog_backfill.replay.routing import Place, Routing
from tidelog_backfill.replay.step import digest
from tidelog_backfill.replay.write import LaneWriting, PartWriting
from tidelog_backfill.snapshot.mysql_source import MysqlSource, has_geometry

log = structlog.get_logger()
Said = Callable[[str], None]

WATCH_S = 5.0
"""A DDL is looked after so often."""


class Target(Protocol):
    """`position`: up to where it holds everything; moved by `save` and `ddl`."""

    position: Position

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def save(self, checkpoint: Checkpoint) -> None: ...

    async def present(self, databases: Sequence[str]) -> dict[Place, TableStructure]:
        """The tables of these databases, as they are; views aren't told."""

    async def rules(
        self, structures: dict[str, TableStructure]
    ) -> list[tuple[str, TableStructure, TableRule]]:
        """With their databases; without tables that the target does not have."""

    async def ddl(self, ddl: DdlMessage, said: Said) -> list[str]:
        """Run it, unless the checkpoint says that it was. Returns what the target can't hold."""

    async def forget_steps(self) -> None:
        """No step is gone on with any more."""

    async def step(self, segment: Segment, route: Routing) -> tuple[PartWriting, frozenset[int]]:
        """Begin one, and void what the one before may still write; and the parts of it that are
        written."""


@final
class DatabaseTarget:
    """A downstream that several processes may write, in transactions of at most `max_rows` rows.
    What it raises is what the downstream does."""

    def __init__(self, options: DownstreamOptions, feed: str, max_rows: int) -> None:
        self._options = options
        self._feed = feed
        self._rows = max_rows
        self._newest: dict[Place, TableStructure] = {}
        """Tables as they are after the last DDL, as far as it is known."""
        self.position = Position(feed, None)
        self._downstream = open_downstream(options)

    async def open(self) -> None:
        """Raises BadInput for a downstream that tasks can't write, before anything is touched."""
        await self._downstream.join(self._feed, 0)
        opened = await self._downstream.open(self._feed)
        self.position = Position(self._feed, opened.checkpoint)
        if self.position.commit_ts and not self.position.is_replays:
            # An Applier may have written older rows over those of parts that are done. Without a
            # commit_ts they are of a first copy, which goes on.
            await self.forget_steps()

    async def close(self) -> None:
        await self._downstream.close()

    async def save(self, checkpoint: Checkpoint) -> None:
        await self._downstream.save_checkpoint(checkpoint)
        self.position.saved = checkpoint

    async def present(self, databases: Sequence[str]) -> dict[Place, TableStructure]:
        source = MysqlSource(self._options.url, self._options.password.reveal())
        wanted = [f"{glob.escape(db)}.*" for db in databases]
        found = source.described(wanted, 0).tables if wanted else []
        return {
            (one.db, one.structure.name): one.structure
            for one in found
            if not has_geometry(one.structure)  # the upstream has none: it is the downstream's own
        }

    async def step(self, segment: Segment, route: Routing) -> tuple[PartWriting, frozenset[int]]:
        step = digest(segment, route)
        epoch, done = await self._downstream.renew(), await self._downstream.parts_done(step)
        newest = [(db, structure) for (db, _), structure in self._newest.items()]
        writing = LaneWriting(self._options, self._feed, epoch, newest, route, step, self._rows)
        return writing, done

    async def forget_steps(self) -> None:
        await self._downstream.parts_done("")

    async def rules(
        self, structures: dict[str, TableStructure]
    ) -> list[tuple[str, TableStructure, TableRule]]:
        found: list[tuple[str, TableStructure, TableRule]] = []
        for key, structure in structures.items():
            db = unescape(key.partition(".")[0])
            try:
                rule = await self._downstream.rule(db, structure)
            except Stopped as error:
                log.info("a table of the log has no place", reason=error.message)
                continue
            found.append((db, structure, rule))
            known = self._newest.get((db, structure.name))
            if known is None or known.version < structure.version:
                self._newest[db, structure.name] = structure
        return found

    async def ddl(self, ddl: DdlMessage, said: Said) -> list[str]:
        if ddl.schema_version in self.position.ddls_done:
            return []
        after = self.position.after(ddl, max(self.position.commit_ts, position_after(ddl)))
        log.info("ddl", kind=ddl.kind, commit_ts=ddl.commit_ts, query=ddl.query[:500])
        done = asyncio.Event()
        notes, _ = await asyncio.gather(self._apply(ddl, after, done), self._watch(done, said))
        self.position.saved = after
        for table in ddl.tables:
            if table.before is not None:
                self._newest.pop((table.db_before, table.before.name), None)
            if table.after is not None:
                self._newest[table.db_after, table.after.name] = table.after
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
