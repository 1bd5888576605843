"""SQLite as downstream: what a group leaves, over failures, and its DDL."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.downstreams.shapes import (
    column,
    created,
    ddl,
    deleted,
    ranges,
    share,
    table,
    updated,
)
from tidelog.changes import DdlMessage, Event
from tidelog.downstream import Checkpoint, Work
from tidelog.downstreams.sqlite import SqliteDownstream
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, Stopped, Unavailable
from tidelog.schema.structure import (
    KeyPart,
    KeyStructure,
    Partitioning,
    PartitionStructure,
    TableStructure,
)

ID = column("id", "int(11)", nullable=False, id=1)
V = column("v", "varchar(20)", id=2)
T = table("t", ID, V, key=("id",), number=10)


class Rig:
    """A file, its downstream, and a position that moves with every call."""

    def __init__(self, path: Path, options: str = "") -> None:
        self.path = path
        self.downstream = SqliteDownstream(Target.parse(f"sqlite:///{path}{options}"))
        self.commit_ts = 10_000 << 18

    async def rows(self, structure: TableStructure, *events: Event) -> None:
        self.commit_ts += 1
        rule = await self.downstream.rule("d", structure)
        shares = share("d", structure, rule, events)
        lane = await self.downstream.lane(0)
        await lane.apply(Work(shares, checkpoint=Checkpoint(self.commit_ts)))

    async def ddl(self, message: DdlMessage) -> list[str]:
        self.commit_ts += 1
        message = msgspec.structs.replace(message, commit_ts=self.commit_ts)
        return await self.downstream.apply_ddl(message, Checkpoint(self.commit_ts))

    def read(self, sql: str) -> list[Any]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


def run(path: Path, scenario: Callable[[Rig], Coroutine[Any, Any, None]], options: str = "") -> Rig:
    rig = Rig(path / "copy.db", options)

    async def whole() -> None:
        await rig.downstream.open("feed")
        try:
            await scenario(rig)
        finally:
            await rig.downstream.close()

    asyncio.run(whole())
    return rig


def test_values_that_sqlite_would_round_are_text(tmp_path: Path) -> None:
    wide = table(
        "w",
        column("id", "bigint(20) unsigned", nullable=False),
        column("n", "decimal(65,30)"),
        column("b", "bit(64)", length=64),
        key=("id",),
    )
    big = (1 << 64) - 1

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, wide)))
        await rig.rows(wide, created({"id": big, "n": "0." + "1" * 30, "b": big}))
        await rig.rows(wide, updated({"id": big, "n": "1", "b": 0}, {"id": big, "n": "2", "b": 0}))

    rig = run(tmp_path, scenario)
    assert rig.read('SELECT * FROM "d.w"') == [(str(big), "2", "0")]


def test_keys_compare_as_upstream_by_collation(tmp_path: Path) -> None:
    ci = table("t", column("k", "varchar(9)", collation="utf8mb4_general_ci"), V, key=("k",))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, ci)))
        await rig.rows(ci, created({"k": "É", "v": "1"}), created({"k": "b ", "v": "2"}))
        await rig.rows(ci, updated({"k": "É", "v": "1"}, {"k": "e", "v": "3"}))
        await rig.rows(ci, deleted({"k": "b ", "v": "2"}), created({"k": "B", "v": "4"}))

    rig = run(tmp_path, scenario)
    assert rig.read('SELECT k, v FROM "d.t" ORDER BY v') == [("e", "3"), ("B", "4")]


def test_a_group_with_an_error_leaves_nothing_and_no_checkpoint(tmp_path: Path) -> None:
    unique = KeyStructure("u", (KeyPart("v"),), unique=True)
    strict = msgspec.structs.replace(T, keys=(*T.keys, unique), key_columns=())

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, strict)))
        before = await rig.downstream.open("feed")
        with pytest.raises(Stopped):
            await rig.rows(strict, created({"id": 1, "v": "x"}), created({"id": 2, "v": "x"}))
        assert await rig.downstream.open("feed") == before

    assert run(tmp_path, scenario).read('SELECT * FROM "d.t"') == []


def test_keyless_rows_go_one_for_one(tmp_path: Path) -> None:
    bag = table("b", column("f", "float"), column("j", "json"), column("s", "varchar(9)"))
    row = {"f": 0.1, "j": {"a": 1.5}, "s": "x "}

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, bag)))
        await rig.rows(bag, *[created(row)] * 3, created({"f": None, "j": None, "s": "X"}))
        await rig.rows(bag, deleted(row), updated(row, row | {"s": "y"}))

    rig = run(tmp_path, scenario)
    assert rig.read('SELECT s FROM "d.b" ORDER BY s') == [("X",), ("x ",), ("y",)]


def test_columns_are_converted_renamed_and_filled(tmp_path: Path) -> None:
    late = column("late", "timestamp(3)", scale=3, origin_default="2026-01-02 03:04:05.678", id=9)
    number = column("number", "decimal(9,2)", scale=2, id=8)
    after = table("t", late, ID, number, key=("id",), number=10)
    query = "ALTER TABLE `t` CHANGE COLUMN `v` `number` DECIMAL(9,2)"

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created({"id": 1, "v": "7.125"}), created({"id": 2, "v": None}))
        await rig.ddl(ddl("multi_schema_change", (T, after), query=query))

    rig = run(tmp_path, scenario)
    assert rig.read('SELECT id, number, late FROM "d.t"') == [
        (1, "7.13", "2026-01-02 03:04:05.678"),
        (2, None, "2026-01-02 03:04:05.678"),
    ]


N = column("n", "int(11)", default="7", origin_default="7", id=3)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("keys", [1, 2])
def test_rows_of_before_a_ddl_keep_what_its_column_has(
    tmp_path: Path, keys: int, again: bool
) -> None:
    """An early DDL comes before transactions that had not seen it; `again`: over a restart."""
    unique = (KeyStructure("u", (KeyPart("v"),), unique=True),)[: keys - 1]
    before = table("t", ID, V, key=("id",), keys=unique, number=10)
    after = table("t", ID, V, N, key=("id",), keys=unique, number=10, version=2)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, before)))
        await rig.ddl(ddl("add_column", (before, after)))
        await rig.rows(after, *[created({"id": n, "v": str(n), "n": 40 + n}) for n in range(4)])
        if again:
            rig.downstream = SqliteDownstream(Target.parse(f"sqlite:///{rig.path}"))
            await rig.downstream.open("feed")
        await rig.rows(
            before,
            updated({"id": 1, "v": "1"}, {"id": 1, "v": "x"}),
            updated({"id": 2, "v": "2"}, {"id": 9, "v": "2"}),
            deleted({"id": 3, "v": "3"}),
            created({"id": 3, "v": "3"}),
        )

    rows = run(tmp_path, scenario).read('SELECT id, v, n FROM "d.t" ORDER BY id')
    assert rows == [(0, "0", 40), (1, "x", 41), (3, "3", 7), (9, "2", 42)]


def test_generated_columns_are_computed_or_listed(tmp_path: Path) -> None:
    known = column("twice", "int(11)", generated="`id` * 2")
    odd = column("odd", "varchar(9)", generated="uuid_to_bin(`v`)")

    async def scenario(rig: Rig) -> None:
        shape = table("t", ID, V, known, key=("id",))
        assert await rig.ddl(ddl("create_table", (None, shape))) == []
        await rig.rows(shape, created({"id": 4, "v": "a"}))
        other = table("o", ID, V, odd, key=("id",))
        (note,) = await rig.ddl(ddl("create_table", (None, other)))
        assert "d.o.odd" in note
        await rig.rows(other, created({"id": 4, "v": "a"}))

    rig = run(tmp_path, scenario)
    assert rig.read('SELECT twice FROM "d.t"') == [(8,)]
    assert rig.read('SELECT * FROM "d.o"') == [(4, "a")]


def test_a_column_computed_from_one_that_is_left_out_is_left_out_too(tmp_path: Path) -> None:
    odd = column("odd", "varchar(64)", generated="sha2(`v`, 256)")
    of_it = column("of_it", "varchar(3)", generated="left(`odd`, 3)")
    shape = table("t", ID, V, odd, of_it, key=("id",))

    async def scenario(rig: Rig) -> None:
        notes = await rig.ddl(ddl("create_table", (None, shape)))
        assert [note.partition(":")[0] for note in notes] == ["column d.t.odd", "column d.t.of_it"]
        await rig.rows(shape, created({"id": 4, "v": "a"}))

    assert run(tmp_path, scenario).read('SELECT * FROM "d.t"') == [(4, "a")]


def test_an_index_on_a_column_that_is_left_out_is_left_out_too(tmp_path: Path) -> None:
    """SQLite would take the name for a text: in a unique index each row replaced the one before."""
    odd = column("odd", "varchar(64)", generated="sha2(`v`, 256)")
    on_it = column("on_it", "varchar(64)", generated="lower(`odd`)")

    async def scenario(rig: Rig) -> None:
        for number, expression in enumerate(("", "lower(`odd`)", "concat(`odd`, 'x')")):
            part = KeyPart("" if expression else "odd", expression=expression)
            key = KeyStructure("k", (part,), unique=True)
            shape = table(f"t{number}", ID, V, odd, key=("id",), keys=(key,), number=number + 1)
            left_out, index = await rig.ddl(ddl("create_table", (None, shape)))
            assert f"d.t{number}.odd" in left_out
            assert f"index d.t{number}.k: no such column: odd" in index
            await rig.rows(shape, *(created({"id": n, "v": "a"}) for n in range(3)))
            found = rig.read(f'SELECT id FROM "d.t{number}" ORDER BY id')
            assert found == [(0,), (1,), (2,)]
        key = KeyStructure("k", (KeyPart("on_it"),), unique=True)
        both = table("both", ID, V, odd, on_it, key=("id",), keys=(key,), number=9)
        notes = await rig.ddl(ddl("create_table", (None, both)))
        assert len(notes) == 3
        await rig.rows(both, *(created({"id": n, "v": "a"}) for n in range(3)))
        assert len(rig.read('SELECT * FROM "d.both"')) == 3

    run(tmp_path, scenario)


def test_an_index_on_what_sqlite_computes_is_not_unique(tmp_path: Path) -> None:
    """Here these are equal, as a text's characters and as a REAL; upstream they are not."""
    n = column("n", "decimal(30,2)", scale=2, id=3)
    rows = [{"v": "\u00e9", "n": "12345678901234567.01"}, {"v": "a", "n": "12345678901234567.02"}]

    async def scenario(rig: Rig) -> None:
        for number, expression in enumerate(("length(`v`)", "`n` * 100", "ascii(`v`)")):
            key = KeyStructure("u", (KeyPart("", expression=expression),), unique=True)
            shape = table(f"t{number}", ID, V, n, key=("id",), keys=(key,), number=number)
            await rig.ddl(ddl("create_table", (None, shape)))
            await rig.rows(shape, *(created({"id": i} | row) for i, row in enumerate(rows)))
            assert rig.read(f'SELECT id FROM "d.t{number}" ORDER BY id') == [(0,), (1,)]

    run(tmp_path, scenario)


def test_a_schema_that_somebody_damaged_is_told(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        with closing(sqlite3.connect(rig.path)) as other, other:
            other.execute("PRAGMA writable_schema = ON")
            other.execute("UPDATE sqlite_master SET sql = 'CREATE TABLE' WHERE name = 'd.t'")
            (version,) = other.execute("PRAGMA schema_version").fetchone()
            other.execute(f"PRAGMA schema_version = {version + 1}")
        with pytest.raises(Stopped, match="malformed database schema"):
            await rig.downstream.rule("d", T)

    run(tmp_path, scenario)


def test_dropped_rows_come_back_until_they_are_old(tmp_path: Path) -> None:
    renamed = msgspec.structs.replace(T, name="back")
    emptied = msgspec.structs.replace(T, id=11)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created({"id": 1, "v": "a"}))
        await rig.ddl(ddl("truncate_table", (T, emptied)))
        await rig.rows(emptied, created({"id": 2, "v": "b"}))
        await rig.ddl(ddl("recover_table", (None, renamed)))
        await rig.ddl(ddl("drop_table", (renamed, None)))
        rig.commit_ts += 11_000 << 18
        await rig.ddl(ddl("create_schema"))
        with pytest.raises(Stopped, match="not kept"):
            await rig.ddl(ddl("recover_table", (None, renamed)))

    rig = run(tmp_path, scenario, "?keep_dropped_s=10")
    assert rig.read('SELECT * FROM "d.t"') == [(2, "b")]


def test_partitions_exchange_and_empty_their_rows(tmp_path: Path) -> None:
    before = table("r", ID, V, key=("id",), number=20, partitioning=ranges(("p0", "10", 21)))
    swapped = msgspec.structs.replace(before, partitioning=ranges(("p0", "10", 10)))
    emptied = msgspec.structs.replace(before, partitioning=ranges(("p0", "10", 30)))
    plain = msgspec.structs.replace(T, id=21)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, before)))
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(before, created({"id": 1, "v": "a"}))
        await rig.rows(T, created({"id": 2, "v": "b"}))
        await rig.ddl(ddl("exchange_partition", (before, swapped), (T, plain)))
        assert rig.read('SELECT v FROM "d.r"') == [("b",)]
        assert rig.read('SELECT v FROM "d.t"') == [("a",)]
        await rig.ddl(ddl("truncate_partition", (swapped, emptied)))

    assert run(tmp_path, scenario).read('SELECT * FROM "d.r"') == []


@pytest.mark.parametrize(
    ("method", "first", "second"),
    [
        ("list", {"in_values": (("'east'",),)}, {"in_values": (("'west'",),)}),
        ("range", {"less_than": ("'f'",)}, {"less_than": ("MAXVALUE",)}),
    ],
)
def test_a_partition_of_texts_has_those_that_are_equal_upstream(
    tmp_path: Path, method: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    east = PartitionStructure("east", id=11, **first)
    west = PartitionStructure("west", id=12, **second)
    region = column("region", "varchar(9)", collation="utf8mb4_general_ci")
    parts = Partitioning(method, "", ("region",), (east, west))
    before = table("t", ID, region, partitioning=parts)
    left = msgspec.structs.replace(parts, partitions=(west,))
    after = msgspec.structs.replace(before, partitioning=left)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, before)))
        for number, text in enumerate(("East", "EAST ", "east", "West")):
            await rig.rows(before, created({"id": number, "region": text}))
        await rig.ddl(ddl("drop_partition", (before, after)))

    assert run(tmp_path, scenario).read('SELECT region FROM "d.t"') == [("West",)]


@pytest.mark.parametrize("kind", ["view", "sequence"])
def test_what_is_no_table_is_noted_whatever_is_done_to_it(tmp_path: Path, kind: str) -> None:
    one = msgspec.structs.replace(table("one", ID), kind=kind)
    two = msgspec.structs.replace(one, name="two")

    async def scenario(rig: Rig) -> None:
        for message in (
            ddl(f"create_{kind}", (None, one)),
            ddl("rename_table", (one, two)),
            ddl("rename_tables", (one, two), (two, one)),
            ddl("recover_schema", (None, two)),
        ):
            notes = await rig.ddl(message)
            assert notes
            assert all("hold tables only" in note for note in notes)
        assert await rig.ddl(ddl(f"drop_{kind}", (two, None))) == []

    run(tmp_path, scenario, "?keep_dropped_s=10")


def test_two_tables_never_share_one_place(tmp_path: Path) -> None:
    """`a`.`b.c` and `a.b`.`c`; the second's rows do not get there either, over a restart."""
    one, two = table("b.c", ID, V, key=("id",), number=1), table("c", ID, V, key=("id",), number=2)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, one), db="a"))
        with pytest.raises(Stopped, match=r"`a`\.`b\.c` and `a\.b`\.`c` would share"):
            await rig.ddl(ddl("create_table", (None, two), db="a.b"))
        rig.downstream = SqliteDownstream(Target.parse(f"sqlite:///{rig.path}"))
        await rig.downstream.open("feed")
        await rig.downstream.rule("a.b", two)
        with pytest.raises(Stopped, match="would share"):
            await rig.downstream.rule("a", one)
        await rig.ddl(ddl("drop_table", (two, None), db="a.b"))
        await rig.ddl(ddl("create_table", (None, one), db="a"))

    run(tmp_path, scenario)


def test_another_feeds_file_is_refused(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.downstream.save_checkpoint(Checkpoint(5))
        with pytest.raises(Stopped, match="belongs to feed feed"):
            await rig.downstream.open("other")

    run(tmp_path, scenario)


def test_wrong_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database at all, but long enough to look at" * 9)
    for path in (tmp_path / "text", tmp_path / "nowhere" / "x.db"):
        with pytest.raises(ConfigError):
            asyncio.run(SqliteDownstream(Target.parse(f"sqlite:///{path}")).open("feed"))


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """SQLite's own limit of pages says what a full disk says."""

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        opened = rig.downstream._living()
        (pages,) = opened.execute("PRAGMA page_count").fetchone()
        opened.execute(f"PRAGMA max_page_count = {pages}")
        large = [created({"id": n, "v": "x" * 1000}) for n in range(50)]
        with pytest.raises(Unavailable, match="when there is room"):
            await rig.rows(T, *large)
        opened.execute("PRAGMA max_page_count = 100000")
        await rig.rows(T, *large)

    assert run(tmp_path, scenario).read('SELECT COUNT(*) FROM "d.t"') == [(50,)]


def test_a_locked_file_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.downstreams.sqlite.BUSY_S", 0.05)

    async def scenario(rig: Rig) -> None:
        await rig.downstream.save_checkpoint(Checkpoint(1))
        other = sqlite3.connect(rig.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable):
            await rig.downstream.save_checkpoint(Checkpoint(2))
        other.close()
        await rig.downstream.save_checkpoint(Checkpoint(3))

    run(tmp_path, scenario)


def test_calls_beside_each_other_do_not_hold_the_process_for_ever(tmp_path: Path) -> None:
    """One had SQLite's lock and waited for Python's, the other the other way round: no timeout ends
    that in the process itself."""
    command = [sys.executable, "-m", "tests.unit.downstreams.two_at_once", str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
