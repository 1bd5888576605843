"""SQLite as downstream: rows that keys, ranges and failing writes must not mix up."""

from __future__ import annotations

import resource
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, created, ddl, table, updated
from tests.unit.downstreams.test_sqlite import ID, Rig, T, V, run
from tidelog.errors import Stopped, Unavailable
from tidelog.schema.structure import KeyPart, KeyStructure, Partitioning, PartitionStructure


@pytest.mark.parametrize("primary", [False, True])
def test_the_beginnings_of_texts_go_on_behind_a_nul(tmp_path: Path, primary: bool) -> None:
    """For SQLite's substr() they don't: one row took the place of the other."""
    key = KeyStructure("PRIMARY" if primary else "u", (KeyPart("k", 5),), True, primary)
    k = column("k", "varchar(20)", nullable=False, id=3)
    structure = msgspec.structs.replace(table("t", ID, k, V), keys=(key,), key_columns=("k",))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, structure)))
        for number, text in enumerate(("a\0b", "a\0c", "a\0cd5", "a")):
            await rig.rows(structure, created({"id": number, "k": text, "v": "old"}))
        row = {"id": 2, "k": "a\0cd5", "v": "old"}
        await rig.rows(structure, updated(row, row | {"v": "new"}))
        await rig.rows(structure, updated(row | {"v": "new"}, row | {"k": "a\0cd56"}))

    rows = run(tmp_path, scenario).read('SELECT id, k, v FROM "d.t" ORDER BY id')
    assert rows == [(0, "a\0b", "old"), (1, "a\0c", "old"), (2, "a\0cd56", "old"), (3, "a", "old")]


def test_an_index_on_a_computed_column_is_not_unique(tmp_path: Path) -> None:
    left = column("l", "varchar(20)", generated="left(`v`, 3)", id=3)
    by_l = KeyStructure("by_l", (KeyPart("l"),), unique=True)
    structure = table("t", ID, V, left, key=("id",), keys=(by_l,))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, structure)))
        for number, text in enumerate(("a\0b", "a\0c")):
            await rig.rows(structure, created({"id": number, "v": text}))

    assert run(tmp_path, scenario).read('SELECT id FROM "d.t"') == [(0,), (1,)]


def test_a_table_whose_columns_are_spelled_otherwise_is_copied_with_its_rows(
    tmp_path: Path,
) -> None:
    """Somebody made it: upper and lower case tell no two columns apart, there and upstream."""
    before = table("t", ID, V, column("n", "int(11)", id=3), key=("id",), number=10)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db:
        db.execute("CREATE TABLE `d.t` (ID INTEGER PRIMARY KEY, V TEXT, N INTEGER)")

    async def scenario(rig: Rig) -> None:
        await rig.rows(before, created({"id": 5, "v": "a", "n": 1}))
        await rig.ddl(ddl("drop_column", (before, T)))

    assert run(tmp_path, scenario).read('SELECT id, v FROM "d.t"') == [(5, "a")]


@pytest.mark.parametrize(
    ("collation", "text", "told"),
    [
        ("utf8mb4_unicode_ci", "_x", False),  # below every letter there, above them in ASCII
        ("utf8mb4_0900_ai_ci", "~", False),
        ("utf8mb4_general_ci", "_x", True),
        ("utf8mb4_general_ci", "\u0439\u0430", False),
        ("utf8mb4_unicode_ci", "X1", True),
        ("utf8mb4_bin", "x", True),
    ],
)
def test_a_range_of_texts_that_the_upstream_orders_otherwise_stops(
    tmp_path: Path, collation: str, text: str, told: bool
) -> None:
    low = PartitionStructure("low", ("'m'",), id=11)
    high = PartitionStructure("high", ("MAXVALUE",), id=12)
    k = column("k", "varchar(9)", collation=collation)
    parts = Partitioning("range", "", ("k",), (low, high))
    before = table("t", ID, k, partitioning=parts)
    emptied = msgspec.structs.replace(high, id=13)
    after = msgspec.structs.replace(
        before, partitioning=msgspec.structs.replace(parts, partitions=(low, emptied))
    )

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, before)))
        await rig.rows(before, created({"id": 1, "k": text}), created({"id": 2, "k": "A"}))
        if told:
            await rig.ddl(ddl("truncate_partition", (before, after)))
            return
        with pytest.raises(Stopped, match="orders some texts of k in its own way"):
            await rig.ddl(ddl("truncate_partition", (before, after)))

    rows = run(tmp_path, scenario).read('SELECT k FROM "d.t" ORDER BY id')
    assert rows == [("A",)] if told else [(text,), ("A",)]


def test_a_table_may_have_thousands_of_ranges_of_texts(tmp_path: Path) -> None:
    """TiDB takes 8192, one a day for 22 years."""
    k = column("k", "varchar(9)", collation="utf8mb4_general_ci")
    days = tuple(PartitionStructure(f"p{n}", (f"'{n:05}'",), id=100 + n) for n in range(1200))
    parts = Partitioning("range", "", ("k",), days)
    before = table("t", ID, k, partitioning=parts)
    left = msgspec.structs.replace(parts, partitions=days[1:])
    after = msgspec.structs.replace(before, partitioning=left)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, before)))
        await rig.rows(before, created({"id": 1, "k": "0"}), created({"id": 2, "k": "00000"}))
        await rig.rows(before, created({"id": 3, "k": ""}))
        await rig.ddl(ddl("drop_partition", (before, after)))

    assert run(tmp_path, scenario).read('SELECT id FROM "d.t" ORDER BY id') == [(2,)]


LATE = column("n", "int(11)", id=3)
BY_V = KeyStructure("by_v", (KeyPart("v"),))
WITH_INDEX = table("t", ID, V, LATE, key=("id",), keys=(BY_V,), number=10, version=2)


def test_a_ddl_whose_index_meets_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """An index that has no room is none that the downstream can't hold."""

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, *(created({"id": n, "v": "x" * 500}) for n in range(200)))
        opened = rig.downstream._living()
        (pages,) = opened.execute("PRAGMA page_count").fetchone()
        opened.execute(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(Unavailable, match="when there is room"):
            await rig.ddl(ddl("add_index", (T, WITH_INDEX)))
        opened.execute("PRAGMA max_page_count = 100000")
        assert await rig.ddl(ddl("add_index", (T, WITH_INDEX))) == []

    sql = "SELECT name FROM sqlite_master WHERE type = 'index'"
    assert run(tmp_path, scenario).read(sql) == [("10.by_v",)]


def test_a_ddl_that_sqlite_undid_is_not_in_the_checkpoint(tmp_path: Path) -> None:
    """A write that fails within a statement ends the whole transaction (a quota, a bad sector):
    what follows would be one by itself."""

    async def before(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, *(created({"id": n, "v": f"{n:020}"}) for n in range(10_000)))

    async def scenario(rig: Rig) -> None:
        opened = await rig.downstream.open("feed")
        rig.commit_ts = opened.checkpoint.commit_ts if opened.checkpoint is not None else 0
        known = rig.commit_ts
        rig.downstream._living().execute("PRAGMA cache_size = 10")  # so that it writes meanwhile
        most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most[1]))
        try:
            with pytest.raises(Stopped):
                await rig.ddl(ddl("add_column", (T, WITH_INDEX)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
        opened = await rig.downstream.open("feed")
        assert opened.checkpoint is not None
        assert opened.checkpoint.commit_ts == known
        await rig.ddl(ddl("add_column", (T, WITH_INDEX)))
        await rig.rows(WITH_INDEX, created({"id": -1, "v": "a", "n": 7}))

    run(tmp_path, before)
    assert run(tmp_path, scenario).read('SELECT n FROM "d.t" WHERE id < 0') == [(7,)]
