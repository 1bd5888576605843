"""A database as target: rows go through the downstream's lanes, as the Applier's do, and the
checkpoint at the snapshot's timestamp tells the Applier where to go on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.changes import DdlMessage, DdlTable, Event
from tidelog.downstream import (
    Checkpoint,
    Downstream,
    DownstreamOptions,
    Image,
    Lane,
    Opened,
    PartDone,
    TableShare,
    Work,
)
from tidelog.downstreams import open_downstream
from tidelog.downstreams.literals import table_name
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, Refused, Unavailable
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.plan_table import PlanTable
from tidelog_backfill.snapshot.target import Prepared

NOT_EMPTY_HINT = "empty the tables, or leave them out; a first copy is written into empty tables"


class LaneWriter:
    """One chunk through one lane. Its mark commits with its last rows, so each Work is handed over
    when the next one is known."""

    def __init__(
        self, downstream: Downstream, lane: Lane, table: CopiedTable, done: PartDone, ts: int
    ) -> None:
        self._downstream = downstream
        self._lane = lane
        self._table = table
        self._done = done
        self._ts = ts
        self._held: Sequence[Image] = ()
        self._written = 0

    async def write(self, images: Sequence[Image]) -> None:
        if self._held:
            await self._apply(self._held, None)
        self._held = images

    async def done(self) -> None:
        await self._apply(self._held, self._done)
        self._held = ()

    async def _apply(self, images: Sequence[Image], done: PartDone | None) -> None:
        shares = [self._share(images)] if images else []
        await self._lane.apply(Work(shares, safe=True, up_to=self._ts, done=done))
        self._written += len(images)

    def _share(self, images: Sequence[Image]) -> TableShare:
        db, structure = self._table.db, self._table.structure
        if not self._table.ordered:
            return TableShare(db, structure, inserts=list(images))
        events = [Event("r", self._ts, after=one.row, b64=list(one.b64)) for one in images]
        return TableShare(db, structure, events=events, offset=self._written)

    async def close(self) -> None:
        await self._lane.close()
        await self._downstream.close()


class DatabaseWay(msgspec.Struct, frozen=True):
    """To lanes of the opening with this `epoch`. `step`: the plan's digest."""

    options: DownstreamOptions
    feed: str
    epoch: int
    step: str

    async def chunk(self, lane: int, table: CopiedTable, chunk: Chunk, ts: int) -> LaneWriter:
        downstream = open_downstream(self.options)
        await downstream.join(self.feed, self.epoch)
        done = PartDone(self.step, chunk.number)
        return LaneWriter(downstream, await downstream.lane(lane), table, done, ts)


class DatabaseTarget:
    """Of one feed. Opened by its first call; it has taken the database over then."""

    def __init__(self, options: DownstreamOptions, feed: str) -> None:
        self._options = options
        self._feed = feed
        self._place = Target.parse(options.url, options.password.reveal())
        if self._place.scheme != "mysql":
            raise ConfigError(
                f"{self._place.shown} can't be filled by a backfill",
                hint="mysql://, mariadb:// or tidb://; or --parquet DIR",
            )
        self._downstream = open_downstream(options)
        self._plans = PlanTable(self._place, feed, self.anew)
        self._opened: Opened | None = None
        self._step = ""

    @property
    def anew(self) -> str:
        return (
            "end the feed's Applier, drop the copied tables, and delete its rows in"
            f" `tidb_binlog`.`backfill` and {self._options.checkpoint_table}"
        )

    async def kept(self) -> SnapshotPlan | None:
        at = await self._reached()
        plan = await self._plans.load()
        if plan is None and at:
            raise Refused(
                f"{self._place.shown} has the feed {self._feed} up to {at}",
                hint="a first copy is for a database without it: use another feed or database",
            )
        return plan

    async def prepare(self, tables: Sequence[CopiedTable], ts: int) -> Prepared:
        await self._open()
        found: list[CopiedTable] = []
        warnings: list[str] = []
        for number, table in enumerate(tables):
            ddl = _creation(table, ts - len(tables) + number)
            notes = await self._downstream.apply_ddl(ddl, _begun(self._feed, ts))
            warnings += [f"{table.shown}: {note}" for note in notes]
            rule = await self._downstream.rule(table.db, table.structure)
            found.append(msgspec.structs.replace(table, ordered=rule.ordered))
        filled = await self._filled(tables)
        if filled:
            where = f"{', '.join(filled)} in {self._place.shown}"
            raise Refused(f"there are rows already: {where}", hint=NOT_EMPTY_HINT)
        await self._forget_earlier(found)
        return Prepared(found, warnings)

    async def _filled(self, tables: Sequence[CopiedTable]) -> list[str]:
        session = await MysqlSession.connect(self._place)
        try:
            return [
                table.shown
                for table in tables
                if await session.rows(
                    f"SELECT 1 FROM {table_name(table.db, table.structure.name)} LIMIT 1"
                )
            ]
        finally:
            await session.close()

    async def _forget_earlier(self, tables: Sequence[CopiedTable]) -> None:
        """What a copy has marked as written whose plan a person has deleted: the tables are empty,
        and a plan like it would pass by its chunks, an ordered table's rows up to its progress."""
        ordered = [(table.db, table.structure.name) for table in tables if table.ordered]
        await self._downstream.forget_written(ordered)

    async def keep(self, plan: SnapshotPlan) -> None:
        await self._plans.save(plan)

    async def done(self, plan: SnapshotPlan) -> frozenset[int]:
        at = await self._reached()
        self._step = plan.digest
        found = await self._downstream.parts_done(self._step)
        if at and (at < plan.ts or len(found) < len(plan.chunks)):  # else it was not forgotten
            missing = len(plan.chunks) - len(found)
            raise Refused(
                f"an Applier has written {self._place.shown} up to {at}, and {missing} of the"
                f" copy's {len(plan.chunks)} chunks are missing: it is no copy any more",
                hint=f"begin anew: {self.anew}",
            )
        return found

    def way(self) -> DatabaseWay:
        assert self._opened is not None
        return DatabaseWay(self._options, self._feed, self._opened.epoch, self._step)

    async def finish(self, plan: SnapshotPlan, reach: int) -> None:
        if await self._reached() < plan.ts:
            ahead = 0 if plan.exact else reach
            # `unsure`, too: no Applier's relay log tells how far these rows go, not even that of
            # one whose earlier downstream counted the same epochs.
            await self._save(
                Checkpoint(
                    plan.ts, consistent=plan.exact, feed=self._feed, reach=ahead, unsure=ahead
                )
            )
        await self._plans.say_whole()

    async def is_whole(self, plan: SnapshotPlan) -> bool:
        """Whoever writes the database since, as a replay does, may forget which parts were done."""
        return await self._reached() >= plan.ts and await self._plans.is_whole()

    async def _reached(self) -> int:
        """The checkpoint that was found."""
        saved = (await self._open()).checkpoint
        return saved.commit_ts if saved is not None else 0

    async def forget(self) -> None:
        await self._plans.forget()

    async def _save(self, checkpoint: Checkpoint) -> None:
        """The control connection may have been idle for hours."""
        try:
            await self._downstream.save_checkpoint(checkpoint)
        except Unavailable:
            self._opened = None
            await self._open()
            await self._downstream.save_checkpoint(checkpoint)

    async def _open(self) -> Opened:
        if self._opened is None:
            self._opened = await self._downstream.open(self._feed)
        return self._opened

    async def close(self) -> None:
        await self._downstream.close()


def _begun(feed: str, ts: int) -> Checkpoint:
    return Checkpoint(0, feed=feed, reach=ts, copying=True)


def _creation(table: CopiedTable, commit_ts: int) -> DdlMessage:
    """Each has a commit_ts of its own, by which a start after a crash knows which one was begun."""
    return DdlMessage(
        commit_ts,
        "",
        "create_table",
        table.db,
        0,
        table=table.structure,
        tables=[DdlTable(db_after=table.db, after=table.structure)],
    )
