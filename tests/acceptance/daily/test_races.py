"""Cases 2, 9, 18: rows while the schema changes, from two servers that follow it in their own time.

The truth is what the statements mean in commit order, run at the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.acceptance.daily.conftest import Case
from tests.acceptance.daily.stage import Stage
from tests.acceptance.upstream.contents import cursor
from tests.acceptance.upstream.race_history import Changed, Row, Wrote
from tests.acceptance.upstream.tidb_server import Server
from tests.acceptance.upstream.tidb_servers import Cluster
from tests.servers import MariaDb

Play = Callable[[Case], None]
ADDED = 100
DROPPED = 13
ROUNDS = 12


def replay(source: MariaDb, events: Sequence[Wrote | Changed]) -> None:
    """In lax mode: a row may lack a column that is about to be dropped."""
    with cursor(source) as at:
        at.execute("SET sql_log_bin = 0, sql_mode = '', autocommit = 0")
        for event in events:
            if isinstance(event, Changed):
                at.execute(event.text)
            elif event.is_update:
                sets = ", ".join(f"{name} = %s" for name in event.row)
                statement = f"UPDATE {event.name} SET {sets} WHERE id = %s"
                at.execute(statement, (*event.row.values(), event.row["id"]))
            else:
                names, values = ", ".join(event.row), tuple(event.row.values())
                at.execute(f"INSERT INTO {event.name} ({names}) VALUES %s", (values,))
        at.execute("COMMIT")


class Race:
    def __init__(self, on: Stage, db: str, table: str, seed: int) -> None:
        self._on = on
        self._db = db
        self.cluster = Cluster(on.writers, f"{db}.{table}", seed)
        self._early = self._late = 0

    async def equal(self) -> None:
        """Wait for what was written since the last time, and compare."""
        history = self.cluster.history
        replay(self._on.source, history.in_order())
        last = max(e.commit_ts for part in (history.rows, history.changes) for e in part)
        early, late = history.out_of_order()
        self._early += early
        self._late += late
        history.rows.clear()
        history.changes.clear()
        await self._on.equal(self._db, commit_ts=last)

    def was_one(self) -> None:
        assert self._early > 5, self._early
        assert self._late > 5, self._late


class OneRowEach:
    """Each server updates a row of its own, again and again. `columns`: of the first insert."""

    def __init__(self, columns: Row | None = None) -> None:
        self.rows: dict[int, Row] = {}
        self._columns = columns or {}

    async def __call__(self, server: Server) -> None:
        number = server.number
        if number not in self.rows:
            self.rows[number] = {"id": number, "val": 0, **self._columns}
            await server.insert(self.rows[number])
        before = self.rows[number]
        self.rows[number] = await server.update(before, {"val": int(str(before["val"])) + 1})


async def columns_come(on: Stage) -> None:
    """Case 2. Columns of 5 characters: MariaDB's rows are smaller than TiDB's."""
    race = Race(on, "growing", "cols", seed=2)
    create = "create table growing.cols (id int primary key, val int default 0)"
    adds = (f"alter table growing.cols add column col{n} varchar(5)" for n in range(ADDED))
    await race.cluster.race(OneRowEach(), ["create database growing", create, *adds])
    await race.equal()
    await race.cluster.ddl("drop table growing.cols")
    await race.equal()
    race.was_one()


async def columns_go(on: Stage) -> None:
    """Case 9: NOT NULL and without defaults; from "delete only" on rows lack them. Without a key a
    row is found by all that it has."""
    await Cluster(on.writers, "shrinking.none", 0).ddl("create database shrinking")
    on.aside("create database shrinking")
    for key in (" primary key", ""):
        race = Race(on, "shrinking", "cols", seed=9)
        texts, numbers = ([f"{kind}{n}" for n in range(DROPPED)] for kind in "tn")
        columns = [f"{name} varchar(5)" for name in texts] + [f"{name} int" for name in numbers]
        defined = ", ".join(f"{column} not null" for column in columns)
        create = f"create table shrinking.cols (id int{key}, val int default 0, {defined})"
        updates = OneRowEach(dict.fromkeys(texts, "value") | dict.fromkeys(numbers, 7))
        await race.cluster.race(updates, [create])
        drops = [f"alter table shrinking.cols drop column {name}" for name in texts + numbers]
        for part in (drops[:10], drops[10:]):
            await race.cluster.race(updates, part)
            await race.equal()
        await race.cluster.ddl("drop table shrinking.cols")
        await race.equal()
        race.was_one()


CREATE = (
    "create database test",
    "create table test.test1 (id int primary key, v1 int default null)",
)


def new_columns() -> list[str]:
    found = []
    for value in range(1, ROUNDS + 1):
        default = "null" if value % 5 == 1 else f"{value}{' not null' * (value % 5 == 0)}"
        found += [
            "alter table test.test1 drop column v1",
            f"alter table test.test1 add column v1 int default {default}",
        ]
    return found


RACES: dict[str, Sequence[str]] = {
    "create and drop": ("drop database test", *CREATE) * ROUNDS,
    "truncate": ["truncate table test.test1"] * ROUNDS,
    "add and drop column": new_columns(),
    "modify column": [
        f"alter table test.test1 modify column v1 int default {value if value % 5 else 'null'}"
        for value in range(1, ROUNDS + 1)
    ],
}


class Inserts:
    """Each server its own ids."""

    def __init__(self) -> None:
        self._count = 0

    async def __call__(self, server: Server) -> None:
        self._count += 1
        await server.insert({"id": server.number * 100_000_000 + self._count})


async def ddl_race(on: Stage) -> None:
    """Case 18."""
    race = Race(on, "test", "test1", seed=18)
    inserts = Inserts()
    for ddls in RACES.values():
        await race.cluster.race(inserts, [*CREATE, *ddls])
        await race.equal()
        await race.cluster.ddl("drop database test")
        await race.equal()
    race.was_one()


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", [columns_come, columns_go, ddl_race])
def test_rows_while_the_schema_changes(play: Play, case: Case) -> None:
    play(case)
