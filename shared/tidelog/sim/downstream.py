"""The simulated Downstream port, and the database behind it.

The database is another machine: it outlives the Appliers that write to it. Rows and checkpoint are
committed together. A call may end with Unavailable before or after it happened, and the caller may
die at any moment of it.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from tidelog.changes import DdlMessage, DdlTable
from tidelog.downstream import Checkpoint, TableChanges
from tidelog.errors import Stopped, Unavailable
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


class SimDatabase:
    """Tables by (db, name), the checkpoint, and what contradicted them."""

    def __init__(
        self, rng: random.Random, trace: Trace, faults: DatabaseFaults | None = None
    ) -> None:
        self.tables: dict[tuple[str, str], SimTable] = {}
        self.checkpoint: Checkpoint | None = None
        self.violations: list[Violation] = []
        self.faults = faults or DatabaseFaults()
        self.commits = 0
        self.faulted = 0
        self._rng = rng
        self._trace = trace

    def open(self, life: Life) -> SimDownstream:
        """The port of one process."""
        return SimDownstream(self, life)

    def contents(self) -> dict[str, list[Row]]:
        """Rows by `db.table`, in a stable order."""
        return {f"{db}.{name}": t.rows() for (db, name), t in sorted(self.tables.items())}

    def rows(self, db: str, table: str) -> list[Row]:
        """Rows of a table; empty if there is none."""
        found = self.tables.get((db, table))
        return found.rows() if found is not None else []

    async def transact(self, life: Life, work: _Work) -> None:
        """Run `work` as one transaction of a client that may lose the connection or die."""
        await self._hop()
        life.check()
        if self._chance(self.faults.refused):
            raise Unavailable("the database refuses connections (injected)")
        self.commits += 1
        try:
            work.commit(self)
        except Violation as violation:
            self.violations.append(violation)
        self._trace.event(life.name, "commit", work.checkpoint.commit_ts)
        if self._chance(self.faults.unknown):
            raise Unavailable("the connection broke at COMMIT (injected)")
        await self._hop()
        life.check()

    def _chance(self, chance: float) -> bool:
        hit = bool(chance) and self._rng.random() < chance
        self.faulted += hit
        return hit

    async def _hop(self) -> None:
        await asyncio.sleep(self._rng.random() * 2 * self.faults.delay_s)


@dataclass
class _Work:
    """What one downstream transaction does."""

    changes: list[TableChanges]
    ddl: DdlMessage | None
    checkpoint: Checkpoint

    def commit(self, database: SimDatabase) -> None:
        before = database.checkpoint
        position = before.commit_ts if before is not None else -1
        database.checkpoint = self.checkpoint
        if self.checkpoint.commit_ts < position:
            raise Violation(f"the checkpoint went back: {position} {self.checkpoint.commit_ts}")
        early = before.early if before is not None else ()
        if early and early[-1] not in self.checkpoint.early:
            raise Violation(f"the checkpoint forgot the early DDL of version {early[-1]}")
        if self.ddl is not None and self.ddl.schema_version in early:
            raise Violation(f"the early DDL of version {self.ddl.schema_version} again")
        for changes in self.changes:
            self._apply_rows(database, changes, position)
        if self.ddl is not None:
            self._apply_ddl(database, self.ddl, position)

    def _apply_rows(self, database: SimDatabase, changes: TableChanges, position: int) -> None:
        name = (changes.db, changes.structure.name)
        table = database.tables.get(name)
        if table is None:
            raise Violation(f"rows for {name}, which does not exist")
        for event in changes.events:
            if event.commit_ts <= position:
                # A database would not notice: whether it is there twice then, its rows tell.
                late = f"{name}: {event.commit_ts} is applied after checkpoint {position}"
                database.violations.append(Violation(late))
            if event.commit_ts > self.checkpoint.commit_ts:
                raise Violation(f"{name}: {event.commit_ts} above its checkpoint")
            table.apply(event)

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


class SimDownstream:
    """The Downstream port of one Applier process."""

    def __init__(self, database: SimDatabase, life: Life) -> None:
        self._database = database
        self._life = life

    async def open(self, feed: str) -> Checkpoint | None:
        self._life.check()
        await self._database._hop()
        self._life.check()
        if self._database._chance(self._database.faults.refused):
            raise Unavailable("the database refuses connections (injected)")
        held = self._database.checkpoint
        if held is not None and held.feed and held.feed != feed:
            raise Stopped(f"the checkpoint belongs to feed {held.feed}")
        return held

    async def apply(self, changes: list[TableChanges], checkpoint: Checkpoint) -> None:
        await self._database.transact(self._life, _Work(changes, None, checkpoint))

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        await self._database.transact(self._life, _Work([], ddl, checkpoint))
        return []

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self._database.transact(self._life, _Work([], None, checkpoint))

    async def close(self) -> None:
        """Nothing is held open."""
