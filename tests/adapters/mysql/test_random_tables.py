"""Random tables under random changes and DDLs, through windows, lanes and second attempts into a
downstream: it holds the same rows as a plain list.

TIDELOG_TABLES says how many for each kind of downstream.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.adapters.mysql.lanes_rig import LanesRig
from tests.adapters.mysql.mysql_rig import START_TS, UNSYNCED
from tests.adapters.mysql.random_source import Source
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import ddl
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, Downstream, Work
from tidelog.downstreams import packets, statements
from tidelog.downstreams.literals import name
from tidelog.downstreams.sqlite import SqliteDownstream
from tidelog.downstreams.sqlite_values import marked_to_cell, to_cell
from tidelog.downstreams.target import Target
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Plan, Planner
from tidelog.rows.column import JSON_NULL
from tidelog.schema.structure import TableStructure

TABLES = int(os.environ.get("TIDELOG_TABLES", "60"))
IN_FLIGHT = 3


class InMariaDb(LanesRig):
    def disturb(self, rng: Random, structure: TableStructure) -> None:
        """A column or a trigger of somebody's own, documents as a first copy has written them."""
        what = rng.random()
        if what < 0.03:
            self.sql("ALTER TABLE d.t ADD COLUMN IF NOT EXISTS own INT DEFAULT 5")
        elif what < 0.06:
            self.sql("CREATE OR REPLACE TRIGGER d.r AFTER DELETE ON d.t FOR EACH ROW SET @x = 1")
        for one in structure.columns:
            if one.base == "json" and what > 0.7:
                text = f"COALESCE(JSON_LOOSE({one.name}), {one.name})"
                self.sql(f"UPDATE d.t SET {one.name} = {text}")

    def rows(self, source: Source) -> Counter[Any]:
        cases = [(c.name, source.drawn[c.name].case) for c in source.structure.columns]
        shown = ",".join(re.sub(r"\bv\b", name(called), case.shown) for called, case in cases)
        reads = [case.read for _, case in cases]
        return Counter(
            tuple(v if v is None else read(v) for read, v in zip(reads, row, strict=True))
            for row in self.sql(f"SELECT {shown} FROM d.t")
        )

    def wanted(self, source: Source) -> Counter[Any]:
        cases = [(c.name, source.drawn[c.name].case) for c in source.structure.columns]
        return Counter(
            tuple(None if row[n] is None else case.expected(row[n]) for n, case in cases)
            for row in source.rows
        )


class InSqlite:
    def __init__(self, path: Path) -> None:
        self._path = path / "copy.db"
        self.downstream = SqliteDownstream(Target.parse(f"sqlite:///{self._path}"))

    def disturb(self, rng: Random, structure: TableStructure) -> None:
        """Nobody else writes it."""

    def rows(self, source: Source) -> Counter[Any]:
        listed = ",".join(one.name for one in source.structure.columns)
        with closing(sqlite3.connect(self._path)) as connection:
            return Counter(connection.execute(f'SELECT {listed} FROM "d.t"'))

    def wanted(self, source: Source) -> Counter[Any]:
        cells = [(c.name, to_cell(c), marked_to_cell(c)) for c in source.structure.columns]
        return Counter(
            tuple((marked if row[n] == JSON_NULL else cell)(row[n]) for n, cell, marked in cells)
            for row in source.rows
        )


class Feed:
    """An Applier's hands. `since`: what came after the checkpoint."""

    def __init__(self, rng: Random, copy: InMariaDb | InSqlite, source: Source) -> None:
        self.rng, self.copy, self.source = rng, copy, source
        self.downstream: Downstream = copy.downstream
        self.since: list[Event] = []
        self._flight: list[Plan] = []
        self._window = 0

    async def open(self) -> None:
        opened = await self.downstream.open("feed")
        self._atomic = opened.atomic
        self._lanes = [await self.downstream.lane(n) for n in range(opened.lanes)]
        self._planner = Planner(len(self._lanes))

    async def _play(
        self, events: list[Event], structure: TableStructure, *, safe: bool, crash: bool = False
    ) -> None:
        while events:
            at = self.rng.randint(1, 12)
            rule = await self.downstream.rule("d", structure)
            tables = [TableEvents("d", structure, rule, events[:at])]
            plan = self._planner.plan(self._window, tables, safe=safe)
            if plan is None:
                await self._land(safe=safe)
                plan = self._planner.plan(self._window, tables, safe=safe)
                assert plan is not None
            self._window += 1
            self._flight.append(plan)
            if len(self._flight) == IN_FLIGHT:
                await self._land(safe=safe)
            events = events[at:]
        await self._land(safe=safe, crash=crash)

    async def _land(self, *, safe: bool, crash: bool = False) -> None:
        """Each lane by itself; before a crash each gets some way."""
        flight, self._flight = self._flight, []
        checkpoint = Checkpoint(self.source.commit_ts) if self._atomic else None

        async def one(number: int, way: int) -> None:
            for plan in flight[:way]:
                if plan[number]:
                    await self._lanes[number].apply(Work(plan[number], safe, checkpoint))

        ways = [self.rng.randint(0, len(flight)) if crash else len(flight) for _ in self._lanes]
        await asyncio.gather(*(one(number, way) for number, way in enumerate(ways)))
        for window in range(self._window - len(flight), self._window):
            self._planner.applied(window)

    async def rows(self) -> None:
        events, structure = self.source.transactions(self.rng.randint(1, 8)), self.source.structure
        self.since += events
        crash = not self._atomic and self.rng.random() < 0.4
        await self._play(events, structure, safe=False, crash=crash)
        if crash:
            if self.rng.random() < 0.2:
                await self.open()
            self._planner = Planner(len(self._lanes))
            await self._play(self.since, structure, safe=True)
        self._check()
        if self.rng.random() < 0.5:
            await self.downstream.save_checkpoint(Checkpoint(self.source.commit_ts))
            self.since = []

    async def ddl(self) -> None:
        """Some come before rows that don't know of it."""
        before, events = self.source.structure, self.source.transactions(self.rng.randint(0, 4))
        message = self.source.ddl()
        late = message is not None and message.kind in ("add_column", "drop_column")
        if not late:
            await self._play(events, before, safe=False)
        if message is None:
            self.since += events
            return
        self.since = []
        await self.downstream.apply_ddl(message, Checkpoint(message.commit_ts))
        self._planner.forget(("d", "t"))
        if late:
            await self._play(events, before, safe=False)
        self._check()

    def _check(self) -> None:
        found, wanted = self.copy.rows(self.source), self.copy.wanted(self.source)
        assert found == wanted, (
            f"missing {wanted - found}, too much {found - wanted}: {self.source.structure}"
        )


async def scenario(number: int, copy: InMariaDb | InSqlite) -> None:
    rng = Random(number)
    source = Source(number, rng)
    feed = Feed(rng, copy, source)
    try:
        await feed.open()
        for first in (ddl("create_schema"), ddl("create_table", (None, source.structure))):
            await copy.downstream.apply_ddl(first, Checkpoint(START_TS))
        for _ in range(rng.randint(6, 10)):
            await feed.rows()
            copy.disturb(rng, source.structure)
            if rng.random() < 0.4:
                await feed.ddl()
    finally:
        await copy.downstream.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("random"), *UNSYNCED) as found:
        yield found


@pytest.fixture(autouse=True)
def in_pieces(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few rows are several statements and packets, in every other table."""
    if number % 4 < 2:
        monkeypatch.setattr(statements, "STATEMENT_ROWS", 2)
        monkeypatch.setattr(packets, "PACKET_STATEMENTS", 3)


@pytest.mark.parametrize("number", range(TABLES))
def test_a_mariadb_holds_the_rows_of_the_source(server: MariaDb, number: int) -> None:
    copy = InMariaDb(server)
    for database in ("d", "tidb_binlog"):
        copy.sql(f"DROP DATABASE IF EXISTS {database}")
    asyncio.run(scenario(number, copy))


@pytest.mark.parametrize("number", range(TABLES))
def test_a_sqlite_file_holds_the_rows_of_the_source(tmp_path: Path, number: int) -> None:
    asyncio.run(scenario(number, InSqlite(tmp_path)))
