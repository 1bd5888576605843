"""One writer of a MySQL-speaking downstream: a connection, and a row of `tidb_binlog.worker`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from tidelog import failpoints
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, Image, RowRefused, TableShare, Work
from tidelog.downstreams import state_tables
from tidelog.downstreams.checkpoint_table import CheckpointTable
from tidelog.downstreams.divergence import Divergences
from tidelog.downstreams.failures import TOO_MUCH_AT_ONCE
from tidelog.downstreams.mysql_session import MysqlSession, StatementRefused, WorkRolledBack
from tidelog.downstreams.mysql_tables import MysqlTables
from tidelog.downstreams.packets import Packets
from tidelog.downstreams.state_tables import MarkTable
from tidelog.downstreams.statements import TableStatements, folded, in_order
from tidelog.errors import InvariantBroken, Stopped

ATTEMPTS = 5
"""Of a transaction that the server gives up for another's sake."""
NO_SUCH_COLUMN, NO_DEFAULT, DUPLICATE = 1054, 1364, 1062


class Writer(msgspec.Struct, frozen=True):
    """Who writes: lane `number` at this `epoch`."""

    table: CheckpointTable
    number: int
    mark: MarkTable | None = None

    @property
    def feed(self) -> str:
        return self.table.feed

    @property
    def fence(self) -> str:
        return state_tables.fence(self.feed, self.number, self.table.epoch)


class MysqlLane:
    """Each Work is one transaction: the fence, the mark, the rows, the progress of ordered tables,
    the checkpoint if it has one (`saved` is told then), COMMIT. That goes in as few packets as may
    be, but COMMIT only after the fence's answer."""

    def __init__(
        self,
        session: MysqlSession,
        tables: MysqlTables,
        writer: Writer,
        divergences: Divergences,
        saved: Callable[[Checkpoint], None],
    ) -> None:
        self._session = session
        self._tables = tables
        self._writer = writer
        self._divergences = divergences
        self._saved = saved
        self._in_transaction = False

    @property
    def closed(self) -> bool:
        return self._session.closed

    async def apply(self, work: Work) -> None:
        if self.closed:
            raise InvariantBroken("a lane is used after it failed")
        try:
            await self._surely(work)
        except StatementRefused as error:
            self._session.discard()
            what = f"{self._session.where} can't hold a change: {error.message}"
            if error.code in TOO_MUCH_AT_ONCE:
                raise Stopped(what, hint=error.hint) from error
            raise RowRefused(what, error.code, hint=error.hint) from error
        except BaseException:
            self._session.discard()
            raise

    async def close(self) -> None:
        await self._session.close()

    def discard(self) -> None:
        """Another connection takes this lane's place."""
        self._session.discard()

    async def _surely(self, work: Work) -> None:
        """Again where that surely changes nothing: after a deadlock, and once with the columns that
        the table has now."""
        known = False
        begun = self._in_transaction
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._transaction(work)
                return
            except WorkRolledBack:
                if begun or attempt == ATTEMPTS:
                    raise
            except StatementRefused as error:
                if begun or known or error.code not in (NO_SUCH_COLUMN, NO_DEFAULT):
                    raise
                known = True
                self._tables.forget()
            self._in_transaction = False
            await self._session.run("ROLLBACK")

    async def _transaction(self, work: Work) -> None:
        shares = [
            (share, await self._tables.statements(self._session, share.db, share.structure))
            for share in work.shares
        ]
        failpoints.hit("applier.lane.begin")
        packets = Packets(self._session)
        if not self._in_transaction:
            self._in_transaction = True
            packets.begin(self._writer.fence)
            if self._writer.mark is not None:
                await packets.add(self._writer.mark.mark(self._writer.number))
        for share, statements in shares:
            await self._share(packets, share, statements, safe=work.safe)
        if work.checkpoint is not None:
            await packets.add(self._writer.table.replace(work.checkpoint))
        if work.done is not None:
            done = work.done
            await packets.add(state_tables.part_done(self._writer.feed, done.step, done.part))
        failpoints.hit("applier.lane.commit")
        await packets.end(commit=work.ends)
        self._in_transaction = not work.ends
        failpoints.hit("applier.lane.committed")
        if work.checkpoint is not None and work.ends:
            self._saved(work.checkpoint)
        if not work.safe:
            for table, rows in packets.unmatched.items():
                self._divergences.found(table, rows)

    async def _share(
        self, packets: Packets, share: TableShare, statements: TableStatements, *, safe: bool
    ) -> None:
        label = f"{share.db}.{share.structure.name}"
        if statements.rule.ordered and share.events:
            await self._ordered(packets, share, statements, label, safe=safe)
            return
        for statement in folded(statements, share):
            await packets.put(statement, label)
        for event in share.events:
            await _linked(packets, statements, event, label)

    async def _ordered(
        self,
        packets: Packets,
        share: TableShare,
        statements: TableStatements,
        label: str,
        *,
        safe: bool,
    ) -> None:
        """Upstream order, each change once: progress is in the same transaction."""
        place = (self._writer.table.owner, share.db, share.structure.name)
        numbered = list(_numbered(share))
        if safe:
            await packets.flush()
            done = await self._session.rows(state_tables.progress(*place))
            reached = (int(done[0][0]), int(done[0][1])) if done else (0, 0)
            numbered = [one for one in numbered if one[:2] > reached]
        for statement in in_order(statements, [event for _, _, event in numbered]):
            await packets.put(statement, label)
        if numbered:
            commit_ts, rows, _ = numbered[-1]
            await packets.add(state_tables.set_progress(*place, commit_ts, rows))


def _numbered(share: TableShare) -> Iterator[tuple[int, int, Event]]:
    """(commit_ts, the how manieth of its transaction's in this table from 1, event)."""
    commit_ts, rows = share.events[0].commit_ts, share.offset
    for event in share.events:
        if event.commit_ts != commit_ts:
            commit_ts, rows = event.commit_ts, 0
        rows += 1
        yield commit_ts, rows, event


async def _linked(packets: Packets, statements: TableStatements, event: Event, label: str) -> None:
    """One of the changes of keys that updates link, in a table that is not replaced. Whatever an
    earlier attempt has left, the end is the same."""
    before = Image(event.before, event.b64) if event.before is not None else None
    after = Image(event.after, event.b64) if event.after is not None else None
    if after is None:
        assert before is not None
        for statement in statements.delete([before]):
            await packets.put(statement, label)
    elif before is None:
        for statement in statements.put([after], new=True):
            await packets.put(statement, label)
    else:
        await packets.flush()
        try:
            await packets.alone(statements.move(before, after), label)
        except StatementRefused as error:
            if error.code != DUPLICATE:
                raise
            for statement in statements.settle(before, after):
                await packets.put(statement, label)
