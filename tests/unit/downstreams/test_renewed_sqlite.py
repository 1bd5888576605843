"""A SQLite file that an older version wrote is mended once, as it is opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.downstreams.shapes import column, created, ddl, table
from tests.unit.downstreams.test_sqlite import ID, Rig, V, run
from tidelog.downstreams import renewed_sqlite, sqlite
from tidelog.downstreams.collations import CASE_INSENSITIVE


def test_an_index_that_older_comparisons_ordered_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ci = table("t", column("k", "varchar(9)", collation="utf8mb4_general_ci"), V, key=("k",))
    texts = ["мой", "мои", "мор", "А", "я", "Ё"]

    async def older(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, ci)))
        await rig.rows(ci, *(created({"k": text, "v": text}) for text in texts))

    with monkeypatch.context() as then:
        then.setitem(CASE_INSENSITIVE, "utf8mb4_general_ci", lambda a, b: (a < b) - (a > b))
        then.setattr(sqlite, "renew", lambda db: None)
        path = run(tmp_path, older).path

    async def newer(rig: Rig) -> None:
        for text in texts:
            await rig.rows(ci, created({"k": text.upper(), "v": "new"}))

    assert run(tmp_path, newer).read('SELECT DISTINCT v FROM "d.t"') == [("new",)]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (renewed_sqlite.VERSION,)


@pytest.mark.parametrize("renamed", [False, True])
def test_older_indexes_on_expressions_are_unique_no_more(tmp_path: Path, renamed: bool) -> None:
    """Also of a table that was renamed, as each is that was copied: SQLite quotes its name
    otherwise then. But those of columns and their beginnings are, and the reader's own stay as
    they are."""
    shape = table("t", ID, V, key=("id",), number=10)

    async def newer(rig: Rig) -> None:
        for number, text in enumerate(("\u00e9", "a")):
            await rig.rows(shape, created({"id": number, "v": text}))

    with closing(sqlite3.connect(tmp_path / "copy.db")) as db, db:
        db.execute("CREATE TABLE `d.t` (`id` INTEGER, `v` TEXT, PRIMARY KEY (`id`))")
        for index, parts in (
            ("10.e", "LENGTH(`v`)"),
            ("10.m", "`id`, LENGTH(`v`)"),
            ("10.c", "`v`, substr(`v`, 1, 3)"),
            ("mine", "hex(`v`)"),
        ):
            db.execute(f"CREATE UNIQUE INDEX `{index}` ON `d.t` ({parts})")
        if renamed:
            db.execute("ALTER TABLE `d.t` RENAME TO `copy`")
            db.execute("ALTER TABLE `copy` RENAME TO `d.t`")
    rig = run(tmp_path, newer)
    assert rig.read('SELECT id FROM "d.t" ORDER BY id') == [(0,), (1,)]
    sql = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE UNIQUE%' ORDER BY name"
    assert rig.read(sql) == [("10.c",), ("mine",)]
    assert len(rig.read("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE INDEX%'")) == 2


def test_older_indexes_on_beginnings_are_on_the_whole_columns(tmp_path: Path) -> None:
    shape = table("t", ID, V, key=("id",), number=10)

    async def newer(rig: Rig) -> None:
        for number, text in enumerate(("a\0b", "a\0c")):
            await rig.rows(shape, created({"id": number, "v": text}))

    with closing(sqlite3.connect(tmp_path / "copy.db")) as db, db:
        db.execute("CREATE TABLE `d.t` (`id` INTEGER, `v` TEXT, PRIMARY KEY (`id`))")
        db.execute("CREATE UNIQUE INDEX `10.u` ON `d.t` (substr(`v`, 1, 3))")
    assert run(tmp_path, newer).read('SELECT id FROM "d.t" ORDER BY id') == [(0,), (1,)]


def test_an_older_index_on_beginnings_stays_where_whole_columns_are_not_unique(
    tmp_path: Path,
) -> None:
    """As a TiDB without new collations has such rows: they differ in case only."""
    ci = column("v", "varchar(20)", collation="utf8mb4_general_ci")
    shape = table("t", ID, ci, key=("id",), number=10)

    async def newer(rig: Rig) -> None:
        await rig.rows(shape, created({"id": 3, "v": "b"}))

    with closing(sqlite3.connect(tmp_path / "copy.db")) as db, db:
        for collation, compare in CASE_INSENSITIVE.items():
            db.create_collation(collation, compare)
        db.execute(
            "CREATE TABLE `d.t`"
            " (`id` INTEGER, `v` TEXT COLLATE utf8mb4_general_ci, PRIMARY KEY (`id`))"
        )
        db.execute("INSERT INTO `d.t` VALUES (1, 'a'), (2, 'A')")
        db.execute("CREATE UNIQUE INDEX `10.u` ON `d.t` (substr(`v`, 1, 3))")
    rig = run(tmp_path, newer)
    assert rig.read('SELECT id FROM "d.t" ORDER BY id') == [(1,), (2,), (3,)]
    sql = "SELECT sql FROM sqlite_master WHERE name = '10.u'"
    assert rig.read(sql) == [("CREATE UNIQUE INDEX `10.u` ON `d.t` (substr(`v`, 1, 3))",)]
    assert rig.read("PRAGMA user_version") == [(renewed_sqlite.VERSION,)]
