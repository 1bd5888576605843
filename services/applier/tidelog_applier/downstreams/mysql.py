"""MySQL, MariaDB and TiDB as downstream (design section 9).

Rows and checkpoint go in one transaction. DDL commits by itself there, so it runs in steps (see
`ddl_steps`), each recorded in the checkpoint before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from tidelog.changes import DdlMessage, Event
from tidelog.downstream import (
    Checkpoint,
    DownstreamOptions,
    Image,
    Lane,
    Opened,
    TableRule,
    TableShare,
    Work,
)
from tidelog.errors import InvariantBroken, Stopped
from tidelog.schema.structure import TableStructure
from tidelog_applier import metrics
from tidelog_applier.downstreams import checkpoint_table as table
from tidelog_applier.downstreams.ddl_mysql import STATE_DB
from tidelog_applier.downstreams.ddl_steps import DdlSteps
from tidelog_applier.downstreams.ddl_watch import DdlWatch
from tidelog_applier.downstreams.literals import quote
from tidelog_applier.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog_applier.downstreams.statements import Statement, TableStatements
from tidelog_applier.downstreams.structure_ddl import Flavor
from tidelog_applier.downstreams.target import Target
from tidelog_applier.downstreams.writing import rule_of, writing

log = structlog.get_logger()

CACHED_TABLES = 4096
Place = tuple[str, str]


class MysqlLane:
    """The one writer: it shares the connection with checkpoint and DDL."""

    def __init__(self, downstream: MysqlDownstream) -> None:
        self._downstream = downstream

    async def apply(self, work: Work) -> None:
        await self._downstream.apply(work)

    async def close(self) -> None:
        """The connection is the downstream's."""


class MysqlDownstream:
    """One writer on one connection; `open` connects anew after an error."""

    def __init__(self, target: Target, options: DownstreamOptions) -> None:
        self._target = target
        self._options = options
        self._session: MysqlSession | None = None
        self._flavor = Flavor("mysql", frozenset())
        self._feed = ""
        self._in_transaction = False
        self._saved: Checkpoint | None = None
        self._present: dict[Place, dict[str, bool]] = {}
        self._builders: dict[tuple[str, str, int], TableStatements] = {}
        self._watch: DdlWatch | None = None
        self._newest: dict[Place, TableStructure] = {}

    async def open(self, feed: str) -> Opened:
        await self.close()
        self._feed = feed
        self._in_transaction = False
        self._session = session = await MysqlSession.connect(self._target)
        self._flavor = await _flavor(session)
        if self._flavor.is_tidb:
            await session.run("SET SESSION allow_auto_random_explicit_insert=1")
        for statement in table.CREATE:
            await _guarded(session, statement)
        found = await session.rows(table.select(feed))
        self._saved = table.load([(int(i), str(text)) for i, text in found], feed)
        return Opened(self._saved, atomic=True)

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        return rule_of(structure)

    async def lane(self, number: int) -> Lane:
        return MysqlLane(self)

    async def apply(self, work: Work) -> None:
        session = self._living()
        try:
            builders = [(one, await self._builder(session, one)) for one in work.shares]
            if not self._in_transaction:
                await session.run("BEGIN")
            self._in_transaction = not work.ends
            for one, builder in builders:
                for statement in _statements(builder, one):
                    self._check(one, statement, await session.send(statement))
            if work.checkpoint is not None:
                await session.run(table.replace(self._feed, work.checkpoint))
            if work.ends:
                await session.run("COMMIT")
        except StatementRefused as error:
            session.discard()
            raise Stopped(
                f"{self._target.shown} can't hold a change: {error.message}", hint=error.hint
            ) from error
        except BaseException:
            session.discard()
            raise
        self._saved = work.checkpoint or self._saved

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        session = self._living()
        keep_ms = self._target.keep_dropped_s * 1000
        watch = DdlWatch(self._target, self._flavor, session, self._options.ddl_timeout_s)
        steps = DdlSteps(session, self._flavor, self._feed, self._saved, keep_ms, watch)
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
            self._present.clear()
            self._builders.clear()
        self._saved = checkpoint
        self._remember(ddl)
        return notes

    async def ddl_progress(self) -> str:
        return await self._watch.look() if self._watch is not None else ""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self._living().run(table.replace(self._feed, checkpoint))
        self._saved = checkpoint

    async def close(self) -> None:
        session, self._session = self._session, None
        self._present.clear()
        self._builders.clear()
        if session is not None:
            await session.close()

    def _living(self) -> MysqlSession:
        if self._session is None or self._session.closed:
            raise InvariantBroken("the downstream is used before it is opened")
        return self._session

    def _remember(self, ddl: DdlMessage) -> None:
        """The newest structures, for transactions that began before their DDL."""
        for one in ddl.tables:
            if one.before is not None:
                self._newest.pop((one.db_before, one.before.name), None)
            if one.after is not None:
                if len(self._newest) >= CACHED_TABLES:
                    self._newest.pop(next(iter(self._newest)))
                self._newest[one.db_after, one.after.name] = one.after

    async def _builder(self, session: MysqlSession, one: TableShare) -> TableStatements:
        structure = one.structure
        key = (one.db, structure.name, structure.version)
        found = self._builders.get(key)
        if found is None:
            place = (one.db, structure.name)
            columns = await self._columns(session, place)
            plan = writing(structure, columns, self._newest.get(place))
            found = TableStatements(*place, plan, structure.key_columns, session.max_packet)
            if len(self._builders) >= CACHED_TABLES:
                self._builders.pop(next(iter(self._builders)))
            self._builders[key] = found
        return found

    async def _columns(self, session: MysqlSession, place: Place) -> dict[str, bool]:
        found = self._present.get(place)
        if found is None:
            rows = await session.rows(
                "SELECT COLUMN_NAME, EXTRA FROM information_schema.COLUMNS WHERE TABLE_SCHEMA ="
                f" {quote(place[0])} AND TABLE_NAME = {quote(place[1])} ORDER BY ORDINAL_POSITION"
            )
            if not rows:
                raise Stopped(
                    f"table {place[0]}.{place[1]} does not exist in {self._target.shown}",
                    hint="backfill it, or filter it out of the feed",
                )
            found = {str(name): " GENERATED" in str(extra).upper() for name, extra in rows}
            if len(self._present) >= CACHED_TABLES:
                self._present.pop(next(iter(self._present)))
            self._present[place] = found
        return found

    def _check(self, one: TableShare, statement: Statement, matched: int) -> None:
        if statement.rows >= 0 and matched != statement.rows:
            metrics.UNMATCHED.inc()
            label = f"{one.db}.{one.structure.name}"
            log.error("a row to change is not downstream", table=label, matched=matched)


def _statements(builder: TableStatements, share: TableShare) -> Iterator[Statement]:
    if share.events:
        yield from _in_order(builder, share.events)
        return
    if share.deletes:
        yield from builder.delete(share.deletes)
    for images in (share.inserts, share.updates):
        if images:
            yield from builder.put(images)


def _in_order(builder: TableStatements, events: list[Event]) -> Iterator[Statement]:
    """A table without a key: upstream order, each change by itself, inserts in runs."""
    run: list[Image] = []
    for event in events:
        if event.before is None and event.after is not None:
            run.append(Image(event.after, event.b64))
            continue
        if run:
            yield from builder.insert(run)
            run = []
        if event.before is None:
            continue
        before = Image(event.before, event.b64)
        if event.after is None:
            yield builder.delete_one(before)
        else:
            yield builder.update_one(before, Image(event.after, event.b64))
    if run:
        yield from builder.insert(run)


async def _flavor(session: MysqlSession) -> Flavor:
    version = str((await session.rows("SELECT VERSION()"))[0][0]).lower()
    product = next((one for one in ("tidb", "mariadb") if one in version), "mysql")
    rows = await session.rows("SELECT COLLATION_NAME FROM information_schema.COLLATIONS")
    names = frozenset(str(name) for (name,) in rows if name)
    if product == "mariadb":
        names |= await _applicable(session)
    return Flavor(product, names)


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


async def _guarded(session: MysqlSession, sql: str) -> None:
    try:
        await session.run(sql)
    except StatementRefused as error:
        raise Stopped(error.message, hint=f"the account needs to create `{STATE_DB}`") from error
