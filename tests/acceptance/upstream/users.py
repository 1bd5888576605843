"""Users of one of two databases that replicate into each other: they write rows of their own."""

from __future__ import annotations

import random

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor

from tests.acceptance.upstream.contents import cursor
from tests.servers import MariaDb

TABLES = (
    "create table app.item (id int primary key, name varchar(40) not null, n int, unique (name))",
    "create table app.account (id int primary key, balance decimal(12, 2) not null)",
    "create table app.journal (side varchar(1), n int, what varchar(40))",  # without a key
)


class Users:
    """Those of side 0 have even numbers, those of side 1 odd ones. `committed`: transactions, each
    of which changes a row."""

    def __init__(self, number: int, db: MariaDb) -> None:
        self.name = "AB"[number]
        self.committed = 0
        self._number = number
        self._db = db
        self._random = random.Random(number)
        self._count = 0
        self._items: list[int] = []
        self._accounts: list[int] = []

    def write(self, count: int) -> None:
        """So many transactions. One that meets the Applier in a deadlock is undone."""
        wanted = self.committed + count
        with cursor(self._db) as at:
            while self.committed < wanted:
                known = list(self._items), list(self._accounts)
                at.execute("begin")
                try:
                    self._transaction(at)
                except pymysql.err.OperationalError as error:
                    if error.args[0] != ER.LOCK_DEADLOCK:
                        raise
                    at.execute("rollback")
                    self._items, self._accounts = known
                    continue
                at.execute("commit")
                self.committed += 1

    def _transaction(self, at: Cursor) -> None:
        self._count += 1
        at.execute("insert into app.journal values (%s, %s, 'began')", (self.name, self._count))
        for _ in range(self._random.randrange(5)):
            self._random.choice((self._item, self._account, self._rename, self._forget))(at)

    def _new(self) -> int:
        self._count += 1
        return 2 * self._count + self._number

    def _item(self, at: Cursor) -> None:
        """A new one, or another number for an old one. B alone has `only_b`."""
        if self._items and self._random.random() < 0.5:
            number = self._random.choice(self._items)
            values = ", only_b = n" if self._number else ""
            at.execute(f"update app.item set n = n + 1{values} where id = %s", (number,))
            return
        number = self._new()
        self._items.append(number)
        more, value = (", only_b", ", %s") if self._number else ("", "")
        arguments = (number, f"{self.name} {number}", number, *[number] * self._number)
        at.execute(
            f"insert into app.item (id, name, n{more}) values (%s, %s, %s{value})", arguments
        )

    def _account(self, at: Cursor) -> None:
        """Money goes from one to the other."""
        if len(self._accounts) < 20:
            self._accounts.append(self._new())
            at.execute("insert into app.account values (%s, 100)", (self._accounts[-1],))
            return
        for number, sign in zip(self._random.sample(self._accounts, 2), "+-", strict=True):
            sql = f"update app.account set balance = balance {sign} 1.25 where id = %s"
            at.execute(sql, (number,))

    def _rename(self, at: Cursor) -> None:
        """Two items exchange their names."""
        if len(self._items) < 2:
            return
        one, other = self._random.sample(self._items, 2)
        at.execute("select id, name from app.item where id in (%s, %s)", (one, other))
        names = dict(at.fetchall())
        steps = ((one, f"{self.name} ?"), (other, names[one]), (one, names[other]))
        for number, name in steps:
            at.execute("update app.item set name = %s where id = %s", (name, number))

    def _forget(self, at: Cursor) -> None:
        if len(self._items) > 50:
            number = self._items.pop(self._random.randrange(len(self._items)))
            at.execute("delete from app.item where id = %s", (number,))
        sql = "delete from app.journal where side = %s and n = %s"
        at.execute(sql, (self.name, self._random.randrange(1, self._count + 1)))
