"""MySQL, MariaDB and TiDB as downstream (design section 9).

The control connection holds the feed's lock, runs DDL and saves the checkpoint; lanes write rows
(mysql_lane). DDL commits by itself there, so it runs in steps (see `ddl_steps`), each recorded in
the checkpoint before it begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from tidelog.changes import DdlMessage
from tidelog.downstream import (
    Checkpoint,
    DownstreamOptions,
    Lane,
    Opened,
    TableRule,
    TakenOver,
)
from tidelog.downstreams import state_tables
from tidelog.downstreams.checkpoint_table import CheckpointTable, Found, load
from tidelog.downstreams.ddl_steps import DdlSteps
from tidelog.downstreams.ddl_watch import DdlWatch
from tidelog.downstreams.divergence import Divergences
from tidelog.downstreams.mysql_lane import MysqlLane, Writer
from tidelog.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog.downstreams.mysql_tables import MysqlTables
from tidelog.downstreams.state_tables import CONTROL, MarkTable
from tidelog.downstreams.structure_ddl import Flavor
from tidelog.downstreams.takeover import (
    check_epoch,
    draw_life,
    lanes_known,
    raise_epoch,
    refuse_held,
    take_lock,
)
from tidelog.downstreams.target import Target
from tidelog.errors import InvariantBroken, Stopped, Unavailable
from tidelog.schema.structure import TableStructure

PARTIAL = 2
"""The sync mode in which columns may be missing on either side."""


class MysqlDownstream:
    """`open` connects anew after an error. Who was taken over stays fenced, whatever it opens."""

    def __init__(self, target: Target, options: DownstreamOptions) -> None:
        self._target = target
        self._options = options
        self._lanes = max(1, options.lanes)
        self._mark = (
            MarkTable(options.mark_schema, options.channel_id) if options.loopback else None
        )
        self._session: MysqlSession | None = None
        self._joined = False
        self._flavor = Flavor("mysql", frozenset())
        self._table = CheckpointTable("")
        self._life = 0
        self._saved: Checkpoint | None = None
        self._tables = MysqlTables(self._flavor, target.shown)
        self._divergences = Divergences()
        self._writers: dict[int, MysqlLane] = {}
        self._watch: DdlWatch | None = None
        self._turn = asyncio.Lock()
        """One query at a time on the control connection."""

    async def open(self, feed: str) -> Opened:
        await self.close()
        async with self._turn:
            self._session = session = await MysqlSession.connect(self._target)
            try:
                return await self._take_over(session, feed)
            except BaseException:
                session.discard()
                raise

    async def _take_over(self, session: MysqlSession, feed: str) -> Opened:
        self._flavor = await _flavor(session)
        self._tables = MysqlTables(self._flavor, self._target.shown)
        if self._flavor.is_tidb:
            await session.run(_TIDB_SETTING)
        options, epoch = self._options, self._table.epoch
        table = CheckpointTable(feed, options.checkpoint_table, options.cluster_id)
        for statement in (*table.create(), *state_tables.CREATE):
            await _guarded(session, statement)
        rows = await _rows(session, table)
        table.check_cluster(rows)
        if not options.copies:
            table.check_copied(rows, self._target.shown)
        if epoch:
            await check_epoch(session, feed, CONTROL, epoch, self._life)
        self._life = self._life or await draw_life(session)
        tells = not self._flavor.is_tidb
        if options.if_free and tells and not epoch:
            await refuse_held(session, feed)  # with an epoch, who holds it is we: a lost connection
        await take_lock(session, feed, tells_holder=tells)
        for lane in await lanes_known(session, feed) if tells else ():
            await take_lock(session, feed, lane, tells_holder=tells)
        found = await _load(session, table)
        self._saved = found.checkpoint if found is not None else None
        epoch = await raise_epoch(session, feed, self._lanes, self._saved, self._life)
        for lane in await lanes_known(session, feed):
            await session.rows(state_tables.release_lock(feed, lane))
        self._table = msgspec.structs.replace(table, epoch=epoch)
        found = await _load(session, table)  # nobody else writes it any more
        self._table = self._table.with_key(found)
        self._saved = found.checkpoint if found is not None else None
        if found is None:
            await session.run(state_tables.forget_progress(self._table.owner))
            await session.run(state_tables.forget_parts(feed, ""))
        elif steps := self._table.adopt(found):
            await self._fenced(session, *steps)
        if self._mark is not None:
            for statement in self._mark.prepare(self._lanes):
                await _guarded(session, statement)
        return Opened(self._saved, epoch, self._lanes)

    async def _fenced(self, session: MysqlSession, *writes: str) -> None:
        """On the control connection, as long as nobody has taken over. Raises TakenOver."""
        fence = state_tables.fence(self._table.feed, CONTROL, self._table.epoch)
        if (await session.run_all([b"BEGIN", fence.encode()]))[1] != 1:
            raise TakenOver(f"another Applier has taken over {self._target.shown}")
        await session.run_all([*(write.encode() for write in writes), b"COMMIT"])

    async def join(
        self, feed: str, epoch: int, newest: Sequence[tuple[str, TableStructure]] = ()
    ) -> None:
        session = await MysqlSession.connect(self._target)
        try:
            self._flavor = await _flavor(session)
        finally:
            await session.close()
        self._tables = MysqlTables(self._flavor, self._target.shown)
        for db, structure in newest:
            self._tables.know(db, structure)
        options = self._options
        self._table = CheckpointTable(feed, options.checkpoint_table, options.cluster_id, epoch)
        self._joined = True

    async def renew(self) -> int:
        feed = self._table.feed
        async with self._turn:
            session = self._living()
            await check_epoch(session, feed, CONTROL, self._table.epoch)
            epoch = await raise_epoch(session, feed, self._lanes, self._saved, self._life)
        self._table = msgspec.structs.replace(self._table, epoch=epoch)
        return epoch

    async def parts_done(self, step: str) -> frozenset[int]:
        feed = self._table.feed
        async with self._turn:
            session = self._living()
            await session.run(state_tables.forget_parts(feed, step))
            rows = await session.rows(state_tables.parts_done(feed, step))
        return frozenset(int(part) for (part,) in rows)

    async def forget_written(self, ordered: Sequence[tuple[str, str]]) -> None:
        feed, owner = self._table.feed, self._table.owner
        begun = [state_tables.set_progress(owner, db, table, 0, 0) for db, table in ordered]
        await self._write(state_tables.forget_parts(feed, ""), *begun)

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        async with self._turn:
            return await self._tables.rule(self._living(), db, structure)

    async def lane(self, number: int) -> Lane:
        """Also while the control connection is lost: that one is opened anew only when the lanes
        are through with what they have."""
        if self._session is None and not self._joined:
            raise InvariantBroken("the downstream is used before it is opened")
        earlier = self._writers.pop(number, None)
        if earlier is not None:
            earlier.discard()
        session = await MysqlSession.connect(self._target)
        try:
            session.strict = self._options.sync_mode != PARTIAL
            if self._flavor.is_tidb:
                await session.run(_TIDB_SETTING)
            feed, epoch = self._table.feed, self._table.epoch
            await check_epoch(session, feed, number, epoch)
            await take_lock(session, feed, number, tells_holder=not self._flavor.is_tidb)
        except BaseException:
            session.discard()
            raise
        writer = Writer(self._table, number, self._mark)
        found = MysqlLane(session, self._tables, writer, self._divergences, self._remember)
        self._writers[number] = found
        return found

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        async with self._turn:
            session = self._living()
            keep_ms = self._target.keep_dropped_s * 1000
            watch = DdlWatch(self._target, self._flavor, session, self._options.ddl_timeout_s)
            marks = () if self._mark is None else (self._mark.mark(0),)  # no lane has work
            steps = DdlSteps(session, self._flavor, self._table, self._saved, keep_ms, watch, marks)
            self._watch = watch
            try:
                notes = await steps.run(ddl, checkpoint)
            except StatementRefused as error:
                session.discard()
                raise Stopped(
                    f"{self._target.shown} can't run the DDL at {ddl.commit_ts}: {error.message}",
                    hint="mend what stands against it, then start the Applier again",
                ) from error
            except BaseException:
                session.discard()
                raise
            finally:
                self._watch = None
                self._tables.forget()
            self._saved = checkpoint
            self._tables.after_ddl(ddl)
            return notes

    async def ddl_progress(self) -> str:
        return await self._watch.look() if self._watch is not None else ""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self._write(self._table.replace(checkpoint))
        self._saved = checkpoint

    async def _write(self, *writes: str) -> None:
        """Raises TakenOver, Unavailable."""
        async with self._turn:
            session = self._living()
            try:
                await self._fenced(session, *writes)
            except BaseException:
                session.discard()
                raise

    async def close(self) -> None:
        writers, self._writers = self._writers, {}
        for lane in writers.values():
            await lane.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _remember(self, checkpoint: Checkpoint) -> None:
        self._saved = checkpoint

    def _living(self) -> MysqlSession:
        if self._session is None:
            raise InvariantBroken("the downstream is used before it is opened")
        if self._session.closed:
            raise Unavailable(f"the connection to {self._target.shown} is lost")
        return self._session


_TIDB_SETTING = "SET SESSION allow_auto_random_explicit_insert=1"


async def _flavor(session: MysqlSession) -> Flavor:
    version = str((await session.rows("SELECT VERSION()"))[0][0]).lower()
    product = next((one for one in ("tidb", "mariadb") if one in version), "mysql")
    rows = await session.rows("SELECT COLLATION_NAME FROM information_schema.COLLATIONS")
    names = frozenset(str(name) for (name,) in rows if name)
    if product != "mariadb":
        return Flavor(product, names)
    names |= await _applicable(session)
    return Flavor(product, names, await _compares_json(session))


async def _compares_json(session: MysqlSession) -> bool:
    try:
        await session.rows("SELECT JSON_EQUALS('1', '1')")
    except StatementRefused:
        return False
    return True


async def _applicable(session: MysqlSession) -> frozenset[str]:
    """MariaDB lists its newest collations under their full names only here."""
    try:
        rows = await session.rows(
            "SELECT FULL_COLLATION_NAME FROM"
            " information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        )
    except StatementRefused:
        return frozenset()
    return frozenset(str(name) for (name,) in rows if name)


async def _rows(session: MysqlSession, table: CheckpointTable) -> list[tuple[int, str]]:
    return [(int(i), str(text)) for i, text in await session.rows(table.select())]


async def _load(session: MysqlSession, table: CheckpointTable) -> Found | None:
    return load(await _rows(session, table), table.feed, table.cluster_id)


async def _guarded(session: MysqlSession, sql: str) -> None:
    try:
        await session.run(sql)
    except StatementRefused as error:
        hint = (
            "rename the table at that name, which is none of ours, or name another in the settings"
        )
        raise Stopped(error.message, hint=hint) from error
