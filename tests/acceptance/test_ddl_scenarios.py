"""The original's scenarios about DDLs (appendix C.3: attributes, cache_table, gencol, partition,
placement_rules, resource_control, sequence) into MariaDB with its counts, and T10: one topology."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from msgspec.structs import replace

import tidelog
from tests.acceptance.by_hand import ByHand, hashed, ranges
from tests.acceptance.stream import read_stream
from tests.processes import until
from tests.servers import MariaDb, mariadb_server
from tests.topology import Running, up
from tidelog.pump_client import Writer
from tidelog.schema.model import Name, SequenceInfo, TableInfo

POLICY = "PLACEMENT POLICY=`p1`"


class Scenario:
    """Writes, waits until the downstream has it, and looks."""

    def __init__(self, running: Running, db: MariaDb, writer: Writer) -> None:
        self.running = running
        self.writer = writer
        self.by_hand = ByHand(writer)
        self._db = db

    async def insert(self, table: str, *rows: dict[str, Any]) -> int:
        async with self.writer.transaction() as txn:
            for row in rows:
                txn.insert(table, row)
        return txn.commit_ts

    async def update(self, table: str, before: dict[str, Any], after: dict[str, Any]) -> int:
        async with self.writer.transaction() as txn:
            txn.update(table, before, after)
        return txn.commit_ts

    async def holds(self, commit_ts: int, sql: str, wanted: list[tuple[Any, ...]]) -> None:
        await asyncio.to_thread(until, lambda: self._applied() >= commit_ts, f"{commit_ts}: {sql}")
        assert await asyncio.to_thread(self.ask, sql) == wanted, sql

    def _applied(self) -> int:
        with urllib.request.urlopen(f"{self.running.ready['http']['applier']}/status") as answer:
            return int(json.load(answer)["actors"]["applier"]["applied_ts"])

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        db = pymysql.connect(host=self._db.host, port=self._db.port, user=self._db.user)
        with closing(db) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())


def named(info: TableInfo, name: str) -> TableInfo:
    return replace(info, name=Name(name, name))


def tables(db: str) -> str:
    what = "SELECT table_name FROM information_schema.tables"
    return f"{what} WHERE table_schema = '{db}' ORDER BY 1"


async def attributes(on: Scenario) -> int:
    """ATTRIBUTES reach no downstream; recovered tables come back with their rows; 3 tables."""
    hand, db = on.by_hand, "attributes"
    await on.writer.ddl(f"create database {db}")
    await on.writer.ddl(f"create table {db}.t1 (id int primary key, v varchar(9))")
    await on.insert(f"{db}.t1", {"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    t1 = await hand.found(f"{db}.t1")
    await hand.ddl("alter_table_attributes", db, "ALTER TABLE t1 ATTRIBUTES='x'", t1)
    await on.writer.ddl(f"drop table {db}.t1")
    job = await hand.job("recover_table", db, "RECOVER TABLE t1", t1)
    await hand.rolled_back(job, "RECOVER TABLE t1")  # done twice it would be a typed stop
    back = await hand.binlogs(job, "RECOVER TABLE t1")
    await on.holds(back, f"SELECT * FROM {db}.t1 ORDER BY id", [(1, "a"), (2, "b")])
    await on.writer.ddl(f"truncate table {db}.t1")
    await on.insert(f"{db}.t1", {"id": 3, "v": "c"})
    older = named(t1, "t1_old")
    await hand.ddl("recover_table", db, "FLASHBACK TABLE t1 TO t1_old", older)
    await on.writer.ddl(f"rename table {db}.t1 to {db}.t1_new")

    ids = await hand.ids(3)
    t2 = await hand.made(f"create table {db}.t2 (id int primary key)")
    t2 = replace(t2, id=ids[0], partition=ranges(ids[1:], "id", ("p0", "10"), ("p1", "20")))
    await hand.ddl("create_table", db, "CREATE TABLE t2 (id INT) PARTITION BY RANGE (id) (…)", t2)
    await hand.insert(f"{db}.t2", {"id": 1}, {"id": 11})
    for text in ("", " PARTITION p0"):
        kind = "alter_partition_attributes" if text else "alter_table_attributes"
        await hand.ddl(kind, db, f"ALTER TABLE t2{text} ATTRIBUTES='x'", t2)
    (new,) = await hand.ids(1)
    t2 = replace(t2, partition=ranges([ids[1], new], "id", ("p0", "10"), ("p1", "20")))
    await hand.ddl("truncate_partition", db, "ALTER TABLE t2 TRUNCATE PARTITION p1", t2)
    t2 = replace(t2, partition=ranges([new], "id", ("p1", "20")))
    await hand.ddl("drop_partition", db, "ALTER TABLE t2 DROP PARTITION p0", t2)
    last = await hand.insert(f"{db}.t2", {"id": 12})
    await on.holds(last, tables(db), [("t1_new",), ("t1_old",), ("t2",)])
    await on.holds(last, f"SELECT id FROM {db}.t1_old ORDER BY id", [(1,), (2,)])
    await on.holds(last, f"SELECT id FROM {db}.t1_new", [(3,)])
    await on.holds(last, f"SELECT id FROM {db}.t2", [(12,)])
    return last


async def cache_table(on: Scenario) -> int:
    """CACHE and NOCACHE have jobs and no binlogs; rows under their versions come all the same."""
    hand, table = on.by_hand, "cache_table.t"
    await on.writer.ddl("create database cache_table")
    await on.writer.ddl(f"create table {table} (id int primary key)")
    last = 0
    for number in range(8):
        if number in (2, 5):
            kind = ("cache_table", "nocache_table")[number // 5]
            text = f"ALTER TABLE t {kind.partition('_')[0].upper()}"
            await hand.job(kind, "cache_table", text, await hand.found(table))
        last = await on.insert(table, {"id": number})
    await on.holds(last, f"SELECT COUNT(*) FROM {table}", [(8,)])
    return last


async def gencol(on: Scenario) -> int:
    table = "gencol.t"
    sums = f"SELECT COUNT(*), SUM(a), SUM(b), SUM(c) FROM {table}"
    await on.writer.ddl("create database gencol")
    await on.writer.ddl(
        f"create table {table} (a int primary key, b int as (a * a) virtual, c int)"
    )
    rows = [{"a": 1, "c": 10}, {"a": 2, "c": 12}, {"a": 3, "c": 32}]
    await on.holds(await on.insert(table, *rows), sums, [(3, 6, 14, 54)])
    changed = await on.update(table, rows[0], {"a": 7, "c": 8})
    await on.holds(changed, sums, [(3, 12, 62, 52)])
    changed = await on.update(table, {"a": 7, "c": 8}, {"c": 49})
    await on.holds(changed, sums, [(3, 12, 62, 93)])
    async with on.writer.transaction() as txn:
        txn.delete(table, rows[2])
    await on.holds(txn.commit_ts, sums, [(2, 9, 53, 61)])
    return txn.commit_ts


async def partition(on: Scenario) -> int:
    hand, db = on.by_hand, "partitions"
    await on.writer.ddl(f"create database {db}")
    ids = await hand.ids(3)
    ranged = await hand.made(f"create table {db}.r (a int primary key, b varchar(9))")
    bounds = [("p0", "3"), ("p1", "6"), ("p2", "9")]
    ranged = replace(ranged, id=ids[0], partition=ranges(ids[1:], "a", *bounds[:2]))
    await hand.ddl("create_table", db, "CREATE TABLE r (a INT) PARTITION BY RANGE (a) (…)", ranged)
    await hand.insert(f"{db}.r", {"a": 1, "b": "a"}, {"a": 4, "b": "d"})
    (new,) = await hand.ids(1)
    ranged = replace(ranged, partition=ranges([*ids[1:], new], "a", *bounds))
    await hand.ddl("add_partition", db, "ALTER TABLE r ADD PARTITION (…)", ranged)
    last = await hand.insert(f"{db}.r", {"a": 7, "b": "g"}, {"a": 8, "b": "h"})
    in_p2 = f"SELECT * FROM {db}.r PARTITION (p2) ORDER BY a"
    await on.holds(last, in_p2, [(7, "g"), (8, "h")])

    ids = await hand.ids(3)
    made = replace(ranged, name=Name("h", "h"), id=ids[0], partition=hashed(ids[1:], "a"))
    await hand.ddl("create_table", db, "CREATE TABLE h (a INT) PARTITION BY HASH (a)", made)
    await hand.insert(f"{db}.h", {"a": 1, "b": "a"}, {"a": 2, "b": "b"})
    ids = await hand.ids(3)
    emptied = replace(made, id=ids[0], partition=hashed(ids[1:], "a"))
    await hand.ddl("truncate_table", db, "TRUNCATE TABLE h", emptied, table_id=made.id)
    last = await hand.insert(f"{db}.h", {"a": 5, "b": "e"}, {"a": 6, "b": "f"})
    await on.holds(last, f"SELECT * FROM {db}.h ORDER BY a LIMIT 1", [(5, "e")])
    await on.holds(last, f"SELECT COUNT(*) FROM {db}.h", [(2,)])
    return last


async def placement_rules(on: Scenario) -> int:
    hand, db = on.by_hand, "placement"
    await on.writer.ddl(f"create database {db}")
    await hand.ddl("create_placement_policy", "p1", "CREATE PLACEMENT POLICY p1 FOLLOWERS=1")
    (number,) = await hand.ids(1)
    made = await hand.made(f"create table {db}.t (id int primary key)")
    text = f"CREATE TABLE t (id INT PRIMARY KEY) /*T![placement] {POLICY} */"
    await hand.ddl("create_table", db, text, replace(made, id=number))
    await on.insert(f"{db}.t", {"id": 1}, {"id": 2})
    found = await hand.found(f"{db}.t")
    await hand.ddl("alter_table_placement", db, "ALTER TABLE t PLACEMENT POLICY=default", found)
    await hand.ddl("drop_placement_policy", "p1", "DROP PLACEMENT POLICY p1")
    last = await on.insert(f"{db}.t", {"id": 3})
    await on.holds(last, f"SELECT COUNT(*) FROM {db}.t", [(3,)])
    shown = await asyncio.to_thread(on.ask, f"SHOW CREATE TABLE {db}.t")
    assert "placement" not in shown[0][1].lower()
    return last


async def resource_control(on: Scenario) -> int:
    for what in ("CREATE", "ALTER", "DROP"):
        text = f"{what} RESOURCE GROUP rg" + " RU_PER_SEC=100" * (what != "DROP")
        await on.by_hand.ddl(f"{what.lower()}_resource_group", "", text)
    return await on.insert("placement.t", {"id": 4})


async def sequence(on: Scenario) -> int:
    """`id` has the sequence's value in the row. SETVAL is no part of the stream: the downstream's
    sequence is not followed (docs/operating.md)."""
    hand, db = on.by_hand, "sequences"
    await on.writer.ddl(f"create database {db}")
    made = await hand.made(f"create table {db}.s (id int primary key)")
    (number,) = await hand.ids(1)
    info = SequenceInfo(sequence_max_value=1000, sequence_cache=True, sequence_cache_value=10)
    made = replace(made, id=number, cols=None, index_info=None, pk_is_handle=False, sequence=info)
    await hand.ddl("create_sequence", db, "CREATE SEQUENCE s", made)
    await on.writer.ddl(f"create table {db}.t (id int primary key, val int)")
    await on.insert(f"{db}.t", {"id": 1, "val": 10})
    last = await hand.binlogs(999_999, "SELECT SETVAL(`sequences`.`s`, 32)")
    await on.holds(last, f"SELECT SUM(id), SUM(val) FROM {db}.t", [(1, 10)])
    await on.writer.ddl(f"drop table {db}.t")
    last = await hand.ddl("drop_sequence", db, "DROP SEQUENCE s", made)
    await on.holds(last, tables(db), [])
    return last


SCENARIOS: tuple[Callable[[Scenario], Awaitable[int]], ...] = (
    *(attributes, cache_table, gencol, partition, placement_rules, resource_control, sequence),
)


def ddls(running: Running, *words: str) -> dict[str, Any]:
    done = running.command("ddl", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def unknown_kind(on: Scenario) -> None:
    """T10: the feed stands there, over a kill of its Drainer, until it is told; then it goes on."""
    running, table = on.running, "gencol.t"
    info = await on.by_hand.found(table)
    stop = await on.by_hand.ddl("unknown_999", "gencol", "ALTER TABLE t FANCY", info)
    behind = await on.insert(table, {"a": 20, "c": 1})

    def stands() -> bool:
        at = ddls(running)["stands_at"]
        return at is not None and (at["commit_ts"], at["kind"]) == (stop, "unknown_999")

    def check() -> int:
        until(stands, "the feed to stand at the DDL")
        running.kill("drainer")
        until(stands, "the feed to stand there again")
        hint = f"tidelog ddl skip main {stop}"
        until(lambda: hint in str(running.status()["nodes"]), "a heartbeat that says so")
        assert on.ask(f"SELECT COUNT(*) FROM {table} WHERE a = 20") == [(0,)]
        pid = running.pid("drainer")
        refused = running.command("ddl", "skip", "main", str(behind))
        assert refused.returncode == 1, refused.stderr
        assert ddls(running, "skip", "main", str(stop))["stands_at"] is None
        return pid

    pid = await asyncio.to_thread(check)
    await on.holds(behind, f"SELECT COUNT(*) FROM {table} WHERE a = 20", [(1,)])
    await asyncio.to_thread(ddls, running, "policy", "main", "unknown_999=skip")
    await on.by_hand.ddl("unknown_999", "gencol", "ALTER TABLE t FANCIER", info)
    behind = await on.insert(table, {"a": 21, "c": 1})
    await on.holds(behind, f"SELECT COUNT(*) FROM {table} WHERE a = 21", [(1,)])
    assert running.pid("drainer") == pid


async def everything(running: Running, db: MariaDb, state: Path) -> int:
    async with tidelog.connect(running.nats, state_dir=state) as writer:
        on = Scenario(running, db, writer)
        last = [await scenario(on) for scenario in SCENARIOS][-1]
        await on.holds(last, "SELECT COUNT(*) FROM placement.t", [(4,)])
        await unknown_kind(on)
    return last


@pytest.mark.timeout(300)
def test_the_original_s_ddl_scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_DRAINER_PULL_COMPRESSION", "gzip")
    with (
        mariadb_server(tmp_path / "db") as db,
        up(tmp_path / "top", f"mysql://{db.user}@{db.host}:{db.port}/", "--pumps", "2") as running,
    ):
        last = asyncio.run(everything(running, db, tmp_path / "state"))
        texts = [d.query for change in read_stream(running.nats, "main", last) for d in change.ddls]
        assert "CREATE TABLE t (id INT PRIMARY KEY)" in texts
        told = ("ATTRIBUTES=", "POLICY", "RESOURCE", "T CACHE", "T NOCACHE", "SETVAL", "FANC")
        assert not [text for text in texts if any(word in text.upper() for word in told)]
        assert [(one["kind"], one["why"]) for one in ddls(running)["ddls"]] == [
            *[("alter_table_attributes", "ddl_policy")] * 2,
            ("alter_partition_attributes", "ddl_policy"),
            ("create_placement_policy", "placement"),
            ("create_table", "rewritten"),
            ("alter_table_placement", "placement"),
            ("drop_placement_policy", "placement"),
            *[(f"{what}_resource_group", "ddl_policy") for what in ("create", "alter", "drop")],
            ("setval", "setval"),
            ("unknown_999", "ddl_order"),
            ("unknown_999", "ddl_policy"),
        ]
