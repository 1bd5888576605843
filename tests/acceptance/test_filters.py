"""The original's scenarios `filter` and `binlogfilter` (appendix C.3), and a route, through a whole
topology into SQLite."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.acceptance.stream import read_stream
from tests.topology import Running, up
from tidelog import changes, subjects
from tidelog.real.bus import NatsBus

CONFIG: dict[str, Any] = {
    "replicate-do-db": ["~^do_start.*", "do_name", "~do_not_[a-z_]+_database1", "shard_1"],
    "replicate-do-table": [
        {"db-name": "test", "tbl-name": name}
        for name in ("do_name", "do_ignore_name", "~^do_start.*", "do_not_filter")
    ],
    "ignore-table": [{"db-name": "test", "tbl-name": "do_ignore_name"}],
    "table-migrate-rule": [
        {
            "source": {"schema": "do_not_truncate_database*", "table": "do_not_truncate_table*"},
            "binlog-filter-rule": ["truncate", "add-column-aaa", "delete"],
        },
        {
            "source": {"schema": "do_not_add_col_database*", "table": "do_not_add_col_table*"},
            "binlog-filter-rule": ["add-column-aaa"],
        },
        {
            "source": {"schema": "do_not_delete_database*", "table": "do_not_delete_table*"},
            "binlog-filter-rule": ["delete"],
        },
        {"source": {"schema": "shard_1", "table": "*"}, "target": {"schema": "shop"}},
    ],
    "binlog-filter-rule": {
        "truncate": {"ignore-event": ["truncate table"]},
        "add-column-aaa": {"ignore-sql": ["alter table .* add column aaa int"]},
        "delete": {"ignore-event": ["delete"]},
    },
    "origin": "the source",
}
FILTERED = (
    "do_not_truncate_database1.do_not_truncate_table1",
    "do_not_add_col_database1.do_not_add_col_table1",
    "do_not_delete_database1.do_not_delete_table1",
    "test.do_not_filter",
)
DATABASES = ("do_start1", "do_name", "do_not_start1", "do_not_name", "shard_1", "test")
TABLES = ("do_start1", "do_name", "do_not_start1", "do_not_name", "do_ignore_name")


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in CONFIG.items():
        text = value if isinstance(value, str) else json.dumps(value)
        monkeypatch.setenv(f"TIDELOG_DRAINER_{key.upper().replace('-', '_')}", text)


class Downstream:
    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self._path)) as db:
            return [row[0] for row in db.execute(sql)]

    def counts(self) -> list[int]:
        return [self.ask(f'SELECT COUNT(*) FROM "{table}"')[0] for table in FILTERED]

    def tables(self) -> set[str]:
        names = self.ask("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for name in names if "." in name and not name.startswith("tidb_binlog")}

    def has_aaa(self, table: str) -> bool:
        return "aaa" in self.ask(f"SELECT name FROM pragma_table_info('{table}')")


def drainer(running: Running) -> dict[str, Any]:
    """What its actors say."""
    with urllib.request.urlopen(f"{running.ready['http']['drainer']}/status") as answer:
        found: dict[str, Any] = json.load(answer)["actors"]
        return found


async def write(running: Running, state: Path, down: Downstream) -> int:
    """Both scenarios; the counts are the original's. Returns the last commit_ts."""
    async with tidelog.connect(running.nats, state_dir=state) as client:

        async def over(sql: str) -> int:
            return [(await client.ddl(sql.format(table))).commit_ts for table in FILTERED][-1]

        async def row(table: str, number: int, *, delete: bool = False) -> int:
            async with client.transaction() as txn:
                if delete:
                    txn.delete(table, {"id": number, "aaa": None})
                else:
                    txn.insert(table, {"id": number})
            return txn.commit_ts

        async def reached(commit_ts: int) -> None:
            await asyncio.to_thread(running.wait, commit_ts)

        for database in DATABASES:
            await client.ddl(f"create database if not exists {database}")
        for table in TABLES:
            await client.ddl(f"create table test.{table} (id int)")
            await row(f"test.{table}", 1)
        await client.ddl("create table shard_1.t (id int primary key)")
        await reached(await row("shard_1.t", 1))
        assert down.tables() == {"test.do_start1", "test.do_name", "shop.t"}
        for table in ("test.do_start1", "test.do_name", "shop.t"):
            assert down.ask(f'SELECT COUNT(*) FROM "{table}"') == [1]

        for table in FILTERED[:-1]:
            await client.ddl(f"create database {table.partition('.')[0]}")
        await over("create table {} (id int)")
        for table in FILTERED:
            await row(table, 1)
        await reached(await over("truncate table {}"))
        assert down.counts() == [1, 0, 0, 0]

        await reached(await over("alter table {} add column aaa int"))
        assert list(map(down.has_aaa, FILTERED)) == [False, False, True, True]

        for table in FILTERED:
            await row(table, 2)
            last = await row(table, 2, delete=True)
        await reached(last)
        assert down.counts() == [2, 0, 1, 0]
        # A transaction of which nothing is left: the watermark passes it, and so does who waits.
        await reached(await row(FILTERED[0], 3, delete=True))
        # A table on no list: once it was met, its transactions stay at the Pumps (T3).
        for number in range(2, 40):
            last = await row("test.do_not_name", number)
            await reached(last)
            if drainer(running)["collector"]["left_out_at_pumps"] >= 3:
                return last
        raise AssertionError("a filtered table is shipped on and on")


async def origins(url: str) -> set[str]:
    """What the newest message of each kind says of its origin."""
    bus = await NatsBus.connect(url, name="test")
    try:
        kinds = ("row.>", "ddl.>", "txn", "watermark")
        found = [
            await bus.last_message(subjects.changes_stream("main"), f"changes.main.{kind}")
            for kind in kinds
        ]
        return {one.headers[changes.H_ORIGIN] for one in found if one is not None}
    finally:
        await bus.close()


@pytest.mark.usefixtures("configured")
def test_what_the_filters_leave_arrives(tmp_path: Path) -> None:
    database = tmp_path / "down.db"
    down = Downstream(database)
    with up(tmp_path / "data", f"sqlite:///{database}", "--pumps", "2") as running:
        last = asyncio.run(write(running, tmp_path / "state", down))
        found = read_stream(running.nats, "main", last)
        assert {(rows.db, rows.table) for change in found for rows in change.rows} == {
            ("test", "do_start1"),
            ("test", "do_name"),
            ("shop", "t"),
            *(tuple(table.split(".")) for table in FILTERED),
        }
        texts = [ddl.query for change in found for ddl in change.ddls]
        assert "create table `shop`.`t` (id int primary key);" in texts
        assert not any("do_not_start1" in text or "do_not_name" in text for text in texts)
        assert asyncio.run(origins(running.nats)) == {"the source"}
        counts = drainer(running)["publisher"]["dropped"]
        # TRUNCATE of one table, ADD COLUMN aaa of two, three rows' DELETE.
        assert counts["event_filter"] == 6
        # Two databases; two tables not on the list and an ignored one: CREATE and a row of each;
        # and what came of do_not_name before the Pumps knew.
        assert counts["filter"] >= 8
