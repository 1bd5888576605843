"""What a reader added to an SQLite downstream outlives the DDLs that make a table anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from tests.unit.downstreams.shapes import column, created, ddl, table
from tests.unit.downstreams.test_sqlite import ID, Rig, T, V, run
from tidelog.schema.structure import KeyPart, KeyStructure

N = column("n", "int(11)", id=3)
WITH_N = table("t", ID, V, N, key=("id",), number=10)
WITHOUT_V = table("t", ID, N, key=("id",), number=10)
BY_N = KeyStructure("by_n", (KeyPart("n"),))
OWN = """
    ALTER TABLE "d.t" ADD COLUMN seen TEXT NOT NULL DEFAULT 'no';
    ALTER TABLE "d.t" ADD COLUMN twice INTEGER GENERATED ALWAYS AS (2 * n);
    CREATE INDEX mine ON "d.t"(v);
    CREATE INDEX "12.mine" ON "d.t"(n);
    CREATE VIEW numbers AS SELECT id, n FROM "d.t";
    CREATE TABLE log(id);
    CREATE TRIGGER logs AFTER INSERT ON "d.t" BEGIN INSERT INTO log VALUES (new.id); END;
"""
PARTS = "SELECT name FROM sqlite_master WHERE tbl_name = 'd.t' AND type <> 'table' ORDER BY name"


def added(rig: Rig, script: str) -> None:
    with closing(sqlite3.connect(rig.path)) as other:
        other.executescript(script)


def test_what_is_the_downstreams_own_outlives_a_copy_of_the_table(tmp_path: Path) -> None:
    notes: list[str] = []

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, WITH_N)))
        added(rig, OWN)
        await rig.rows(WITH_N, created({"id": 1, "v": "a", "n": 7}))
        added(rig, 'UPDATE "d.t" SET seen = "yes"')
        notes.extend(await rig.ddl(ddl("drop_column", (WITH_N, WITHOUT_V))))
        await rig.rows(WITHOUT_V, created({"id": 2, "n": 8}))

    rig = run(tmp_path, scenario)
    assert rig.read('SELECT id, n, seen FROM "d.t"') == [(1, 7, "yes"), (2, 8, "no")]
    assert rig.read("SELECT * FROM numbers") == [(1, 7), (2, 8)]
    assert rig.read("SELECT * FROM log") == [(1,), (2,)]
    assert rig.read(PARTS) == [("12.mine",), ("logs",)]
    assert notes == [
        "column d.t.twice: it is computed",
        "index mine of d.t: no such column: v",
    ]


def test_what_is_the_downstreams_own_outlives_a_truncate(tmp_path: Path) -> None:
    keyed = msgspec.structs.replace(WITH_N, keys=(*WITH_N.keys, BY_N))
    emptied = msgspec.structs.replace(keyed, id=11)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, keyed)))
        added(rig, OWN)
        await rig.rows(keyed, created({"id": 1, "v": "a", "n": 7}))
        await rig.ddl(ddl("truncate_table", (keyed, emptied)))
        assert rig.read("SELECT * FROM numbers") == []
        await rig.rows(emptied, created({"id": 2, "v": "b", "n": 8}))

    rig = run(tmp_path, scenario)
    assert rig.read('SELECT id, seen FROM "d.t"') == [(2, "no")]
    assert rig.read("SELECT * FROM numbers") == [(2, 8)]
    assert rig.read("SELECT * FROM log") == [(1,), (2,)]
    assert rig.read(PARTS) == [("11.by_n",), ("12.mine",), ("logs",), ("mine",)]


def test_a_view_does_not_hold_up_a_table_that_is_copied(tmp_path: Path) -> None:
    after = table("t", ID, column("v", "int(11)", id=2), key=("id",), number=10)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        added(rig, 'CREATE VIEW texts AS SELECT v FROM "d.t"')
        await rig.rows(T, created({"id": 1, "v": "5"}))
        await rig.ddl(ddl("modify_column", (T, after)))

    assert run(tmp_path, scenario).read("SELECT * FROM texts") == [(5,)]


def test_triggers_and_views_go_with_a_table_that_is_renamed_upstream(tmp_path: Path) -> None:
    renamed = msgspec.structs.replace(T, name="t2")
    other = table("o", ID, V, key=("id",), number=20)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.ddl(ddl("create_table", (None, other)))
        own = """
            ALTER TABLE "d.t" ADD COLUMN seen TEXT;
            CREATE TRIGGER tr AFTER INSERT ON "d.t"
                BEGIN UPDATE "d.t" SET seen = 'x' WHERE id = new.id; END;
            CREATE TRIGGER of_o AFTER INSERT ON "d.o"
                BEGIN UPDATE "d.t" SET seen = 'o' WHERE id = new.id; END;
            CREATE VIEW seen AS SELECT id, seen FROM "d.t";
        """
        added(rig, own)
        await rig.rows(T, created({"id": 1, "v": "a"}))
        assert await rig.ddl(ddl("rename_table", (T, renamed))) == []
        await rig.rows(renamed, created({"id": 2, "v": "a"}))
        await rig.rows(other, created({"id": 2, "v": "a"}))

    assert run(tmp_path, scenario).read("SELECT * FROM seen") == [(1, "x"), (2, "o")]


def test_a_view_that_is_broken_holds_up_no_rename(tmp_path: Path) -> None:
    renamed = msgspec.structs.replace(T, name="t2")

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        added(rig, "CREATE VIEW broken AS SELECT * FROM gone")
        (note,) = await rig.ddl(ddl("rename_table", (T, renamed)))
        assert "still name it d.t: error in view broken" in note
        await rig.rows(renamed, created({"id": 2, "v": "a"}))

    assert run(tmp_path, scenario).read('SELECT id FROM "d.t2"') == [(2,)]


def test_an_own_unique_index_for_which_rows_are_equal_now_is_left_out(tmp_path: Path) -> None:
    price = column("n", "decimal(10,2)", id=3)
    before = table("t", ID, price, key=("id",), number=10)
    after = table("t", ID, N, key=("id",), number=10)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, before)))
        added(rig, 'CREATE UNIQUE INDEX mine ON "d.t"(n)')
        await rig.rows(before, created({"id": 1, "n": "1.10"}), created({"id": 2, "n": "1.20"}))
        (note,) = await rig.ddl(ddl("modify_column", (before, after)))
        assert note.startswith("index mine of d.t: UNIQUE constraint failed")

    assert run(tmp_path, scenario).read('SELECT n FROM "d.t"') == [(1,), (1,)]


def test_a_column_of_its_own_keeps_its_default(tmp_path: Path) -> None:
    emptied = msgspec.structs.replace(T, id=11)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        added(
            rig,
            """
            DROP TABLE "d.t";
            CREATE TABLE "d.t" (id INTEGER PRIMARY KEY, v TEXT, two DEFAULT (1 + 1), t DEFAULT 'x');
            """,
        )
        assert await rig.ddl(ddl("truncate_table", (T, emptied))) == []
        await rig.rows(emptied, created({"id": 1, "v": "a"}))

    assert run(tmp_path, scenario).read('SELECT two, t FROM "d.t"') == [(2, "x")]
