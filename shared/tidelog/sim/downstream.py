"""The simulated Downstream port, and the database behind it.

The database is another machine: it outlives the Appliers that write to it. A call may end with
Unavailable before or after it happened, and the caller may die at any moment of it. Whoever opens
the database takes it over; a transaction of an earlier one is refused.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from tidelog.changes import DdlMessage, DdlTable
from tidelog.downstream import (
    Checkpoint,
    DownstreamOptions,
    Lane,
    OneProcess,
    Opened,
    TableRule,
    TableShare,
    TakenOver,
    Work,
)
from tidelog.errors import Stopped, Unavailable
from tidelog.schema.structure import TableStructure
from tidelog.sim.faults import Injected
from tidelog.sim.life import Life
from tidelog.sim.tables import Row, SimTable, Violation
from tidelog.sim.trace import Trace


@dataclass
class DatabaseFaults:
    delay_s: float = 0.001
    refused: float = 0.0
    """Chance of Unavailable before anything happened."""
    unknown: float = 0.0
    """Chance of Unavailable after it happened."""

    def heal(self) -> None:
        self.refused = self.unknown = 0.0


Place = tuple[str, str]


class SimDatabase:
    """Tables by (db, name), the checkpoint, and what contradicted them."""

    def __init__(
        self, rng: random.Random, trace: Trace, faults: DatabaseFaults | None = None
    ) -> None:
        self.tables: dict[Place, SimTable] = {}
        self.checkpoint: Checkpoint | None = None
        self.violations: list[Violation] = []
        self.faults = faults or DatabaseFaults()
        self.commits = 0
        self.epoch = 0
        self._raised_by: Life | None = None
        self.progress: dict[Place, tuple[int, int]] = {}
        """How far tables without a key got: a commit_ts, and how many of its events are in."""
        self._rng = rng
        self._trace = trace

    def open(self, options: DownstreamOptions, life: Life) -> SimDownstream:
        """The port of one process."""
        return SimDownstream(self, options, life)

    def contents(self) -> dict[str, list[Row]]:
        """Rows by `db.table`, in a stable order."""
        return {f"{db}.{name}": t.rows() for (db, name), t in sorted(self.tables.items())}

    def rows(self, db: str, table: str) -> list[Row]:
        """Rows of a table; empty if there is none."""
        found = self.tables.get((db, table))
        return found.rows() if found is not None else []

    async def transact(self, life: Life, work: _Transaction) -> None:
        """Run `work` as one transaction of a client that may lose the connection or die."""
        await self._ask(life)
        if work.epoch != self.epoch:
            raise TakenOver(f"epoch {work.epoch} of the downstream ended, {self.epoch} writes now")
        self.commits += 1
        try:
            work.commit(self)
        except Violation as violation:
            self.violations.append(violation)
        saved = work.checkpoint.commit_ts if work.checkpoint is not None else 0
        self._trace.event(life.name, "rows" if work.works else "commit", saved)
        await self._answer(life, "the connection broke at COMMIT (injected)")

    async def take_over(self, life: Life, feed: str, epoch: int = 0) -> int:
        """Raise the fence; returns the new epoch. `epoch`: of a process that opens it again, which
        takes nothing from somebody who took over meanwhile. (One whose own answer was lost does not
        know its epoch, and is let in.)"""
        await self._ask(life)
        if epoch and self.epoch > epoch and self._raised_by is not life:
            raise TakenOver(f"epoch {epoch} of the downstream ended, {self.epoch} writes now")
        self._raised_by = life
        held = self.checkpoint
        if held is not None and held.feed and held.feed != feed:
            raise Stopped(f"the checkpoint belongs to feed {held.feed}")
        self.epoch += 1
        raised = self.epoch
        await self._answer(life, "the connection broke while the fence was raised (injected)")
        return raised

    async def _ask(self, life: Life) -> None:
        life.check()
        await self._hop()
        life.check()
        if self._chance(self.faults.refused):
            self._trace.inject(life.name, Injected.REFUSED)
            raise Unavailable("the database refuses connections (injected)")

    async def _answer(self, life: Life, broken: str) -> None:
        if self._chance(self.faults.unknown):
            self._trace.inject(life.name, Injected.BROKEN_COMMIT)
            raise Unavailable(broken)
        await self._hop()
        life.check()

    def _chance(self, chance: float) -> bool:
        return bool(chance) and self._rng.random() < chance

    async def _hop(self) -> None:
        await asyncio.sleep(self._rng.random() * 2 * self.faults.delay_s)


@dataclass
class _Transaction:
    """What one downstream transaction does."""

    epoch: int
    checkpoint: Checkpoint | None = None
    ddl: DdlMessage | None = None
    works: list[Work] = field(default_factory=list)

    def commit(self, database: SimDatabase) -> None:
        before = database.checkpoint
        if self.checkpoint is not None:
            self._save(database, self.checkpoint, before)
        for work in self.works:
            for share in work.shares:
                self._apply_rows(database, share, safe=work.safe)
        if self.ddl is not None:
            self._apply_ddl(database, self.ddl, before.commit_ts if before is not None else -1)

    def _save(
        self, database: SimDatabase, checkpoint: Checkpoint, before: Checkpoint | None
    ) -> None:
        database.checkpoint = checkpoint
        if before is None:
            return
        if checkpoint.commit_ts < before.commit_ts:
            moved = f"{before.commit_ts} {checkpoint.commit_ts}"
            raise Violation(f"the checkpoint went back: {moved}")
        if before.ddls_done and before.ddls_done[-1] not in checkpoint.ddls_done:
            raise Violation(f"the checkpoint forgot the DDL of version {before.ddls_done[-1]}")
        if self.ddl is not None and self.ddl.schema_version in before.ddls_done:
            raise Violation(f"the DDL of version {self.ddl.schema_version} again")

    def _apply_rows(self, database: SimDatabase, share: TableShare, *, safe: bool) -> None:
        place = (share.db, share.structure.name)
        table = database.tables.get(place)
        if table is None:
            raise Violation(f"rows for {place}, which does not exist")
        table.share(share, safe=safe)
        index = share.offset
        for number, event in enumerate(share.events):
            if number and event.commit_ts != share.events[number - 1].commit_ts:
                index = 0
            if (event.commit_ts, index) >= database.progress.get(place, (0, 0)):
                table.apply(event)
                database.progress[place] = (event.commit_ts, index + 1)
            elif not safe:
                late = f"{place}: event {index} of {event.commit_ts} is applied again"
                database.violations.append(Violation(late))
            index += 1

    def _apply_ddl(self, database: SimDatabase, ddl: DdlMessage, position: int) -> None:
        if ddl.commit_ts <= position:
            raise Violation(f"DDL {ddl.commit_ts} again after checkpoint {position}")
        taken: list[tuple[DdlTable, SimTable | None]] = []
        for change in ddl.tables:
            before = change.before
            old = database.tables.pop((change.db_before, before.name), None) if before else None
            if before is not None and before.kind == "table" and old is None:
                raise Violation(f"DDL {ddl.query!r}: {change.db_before}.{before.name} is absent")
            taken.append((change, old))
        for change, old in taken:
            after = change.after
            if after is None or after.kind != "table":
                continue
            place = (change.db_after, after.name)
            if place in database.tables:
                raise Violation(f"DDL {ddl.query!r}: {place} is there already")
            database.tables[place] = old.altered(after) if old is not None else SimTable(after)
            database.progress.pop(place, None)


class SimLane:
    """One writer of one process."""

    def __init__(self, database: SimDatabase, life: Life, epoch: int) -> None:
        self._database = database
        self._life = life
        self._epoch = epoch
        self._works: list[Work] = []

    async def apply(self, work: Work) -> None:
        self._works.append(work)
        if work.ends:
            works, self._works = self._works, []
            done = _Transaction(self._epoch, work.checkpoint, works=works)
            await self._database.transact(self._life, done)

    async def close(self) -> None:
        """What did not end is rolled back."""
        self._works = []


class SimDownstream(OneProcess):
    """The Downstream port of one Applier process."""

    def __init__(self, database: SimDatabase, options: DownstreamOptions, life: Life) -> None:
        self._database = database
        self._life = life
        self._lanes = options.lanes
        self._epoch = 0

    async def open(self, feed: str) -> Opened:
        self._epoch = await self._database.take_over(self._life, feed, self._epoch)
        return Opened(self._database.checkpoint, self._epoch, self._lanes)

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        if (db, structure.name) not in self._database.tables:
            raise Stopped(f"table {db}.{structure.name} does not exist", hint="backfill it")
        unique = [key.parts for key in structure.keys if key.unique]
        return TableRule(not structure.key_columns, True, tuple(unique))

    async def lane(self, number: int) -> Lane:
        return SimLane(self._database, self._life, self._epoch)

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        await self._database.transact(self._life, _Transaction(self._epoch, checkpoint, ddl))
        return []

    async def ddl_progress(self) -> str:
        return ""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self._database.transact(self._life, _Transaction(self._epoch, checkpoint))

    async def close(self) -> None:
        """Nothing is held open."""
