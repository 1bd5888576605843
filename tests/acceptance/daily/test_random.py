"""Cases 14 and 19: random changes. The source says what is possible."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator

import pymysql
import pytest
from pymysql.constants import ER
from pymysql.cursors import Cursor

from tests.acceptance.daily.conftest import Case
from tests.acceptance.daily.stage import Stage
from tests.acceptance.upstream.contents import cursor

Play = Callable[[Case], None]
KEYS = 20
OPERATIONS = 1000


def _operation(dice: random.Random) -> str:
    pk, old, uk, v = (dice.randrange(KEYS) for _ in range(4))
    return dice.choice(
        (
            f"insert into pkuk.t values ({pk}, {uk}, {v})",
            f"update pkuk.t set pk = {pk}, uk = {uk}, v = {v} where pk = {old}",
            f"delete from pkuk.t where pk = {old}",
        )
    )


async def primary_and_unique_key(on: Stage) -> None:
    """Case 14: keys and unique values go from row to row, a transaction each."""
    dice = random.Random(14)
    await on.sql("create database pkuk")
    await on.sql("create table pkuk.t (pk int primary key, uk int, v int, unique key uk (uk))")
    done = 0
    with cursor(on.source) as at:
        while done < OPERATIONS:
            try:
                done += at.execute(_operation(dice))
            except pymysql.err.IntegrityError as error:
                if error.args[0] != ER.DUP_ENTRY:
                    raise
            if done % (OPERATIONS // 4) == 0:
                await on.bridge.catch_up()
                await on.equal("pkuk")
    await on.bridge.catch_up()
    await on.equal("pkuk")
    await on.sql("drop table pkuk.t")
    await on.equal("pkuk")


COLUMNS = "a int{}, b double not null default 2.0, c varchar(10) not null, d time unique{}"
TABLES = {
    "ptest": COLUMNS.format(" primary key", ""),
    "itest": COLUMNS.format("", ", primary key (a, b)"),
    "ntest": COLUMNS.format("", ""),
}
TRANSACTIONS = 6
BATCH = 40


class Table:
    """Random rows and columns of one table, whose first four columns stay."""

    def __init__(self, name: str, dice: random.Random) -> None:
        self.name = f"daily.{name}"
        self.texts = ["c"]
        self._dice = dice
        self._count = 0

    def transaction(self, at: Cursor) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Deletes, inserts, updates. A change of one of several rows that are alike takes one."""
        for row in self._some(at):
            yield f"delete from {self.name} where {self._where(row)} limit 1", tuple(row.values())
        for _ in range(BATCH):
            yield self._insert()
        for row in self._some(at):
            column, value = self._dice.choice(
                [("b", self._number()), ("c", self._text()), *self._other()]
            )
            yield (
                f"update {self.name} set `{column}` = %s where {self._where(row)} limit 1",
                (value, *row.values()),
            )

    def drop_column(self) -> str:
        column = self._dice.choice(self.texts[1:])
        self.texts.remove(column)
        return f"alter table {self.name} drop column `{column}`"

    def add_column(self) -> str:
        column = "".join(self._dice.choices(string.ascii_letters, k=5)) + str(self._count)
        after = self._dice.choice(["c", "d"])
        self.texts.append(column)
        return f"alter table {self.name} add column `{column}` varchar(45) after {after}"

    def _insert(self) -> tuple[str, tuple[object, ...]]:
        self._count += 1
        names = ["a", "b", "d", *self.texts]
        clock = None if self._dice.random() < 0.1 else f"{self._count // 60}:{self._count % 60}:00"
        values = (self._key(), self._number(), clock, *(self._text() for _ in self.texts))
        listed = ", ".join(f"`{name}`" for name in names)
        return f"insert ignore into {self.name} ({listed}) values %s", (values,)

    def _some(self, at: Cursor) -> list[dict[str, object]]:
        at.execute(f"select * from {self.name} order by rand({self._count}) limit {BATCH // 10}")
        assert at.description is not None
        names = [column[0] for column in at.description]
        return [dict(zip(names, row, strict=True)) for row in at.fetchall()]

    def _where(self, row: dict[str, object]) -> str:
        return " and ".join(f"`{name}` <=> %s" for name in row)

    def _other(self) -> list[tuple[str, object]]:
        return [(name, self._text()) for name in self.texts]

    def _key(self) -> int:
        return self._dice.randrange(-500, 500)

    def _number(self) -> float:
        return float(self._dice.randrange(-(1 << 31), 1 << 31))

    def _text(self) -> str:
        return "".join(self._dice.choices(string.printable, k=self._dice.randrange(1, 10)))


async def _transactions(on: Stage, tables: list[Table]) -> None:
    for _ in range(TRANSACTIONS):
        for table in tables:
            with cursor(on.source) as at:
                at.execute("begin")
                for statement, values in table.transaction(at):
                    at.execute(statement, values)
                at.execute("commit")
    await on.bridge.catch_up()
    await on.equal("daily")


async def random_tables(on: Stage) -> None:
    """Case 19: a primary key, one of two columns, none; columns come and go in between."""
    dice = random.Random(19)
    tables = [Table(name, dice) for name in TABLES]
    await on.sql("create database daily")
    for table, columns in zip(tables, TABLES.values(), strict=True):
        await on.sql(f"create table {table.name} ({columns})")
    await _transactions(on, tables)
    for changes in (1, 2):
        for table in tables:
            await on.each(*(table.add_column() for _ in range(3)))
        await _transactions(on, tables)
        for table in tables:
            await on.each(*(table.drop_column() for _ in range(changes)))
        await _transactions(on, tables)
    await on.each(*(f"truncate table {table.name}" for table in tables))
    await on.equal("daily")
    await on.each(*(f"drop table {table.name}" for table in tables))
    await on.equal("daily")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "case", [pytest.param(primary_and_unique_key, marks=pytest.mark.full), random_tables]
)
def test_random_changes(play: Play, case: Case) -> None:
    play(case)
