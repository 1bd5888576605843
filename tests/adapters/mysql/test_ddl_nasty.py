"""Definitions that a server reads otherwise than they were meant, on a real MariaDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.adapters.mysql.mysql_rig import ID, PARTED, UNSYNCED, Rig, T, V, run
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, created, ddl, ranges, table
from tidelog.schema.history import TableAt
from tidelog.schema.model import ColumnInfo, FieldType, Name, TableInfo
from tidelog.schema.structure import (
    ForeignKeyStructure,
    KeyPart,
    KeyStructure,
    Partitioning,
    PartitionStructure,
    TableStructure,
    structure,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("nasty"), *UNSYNCED) as found:
        yield found


PARENT = table("parent", ID, key=("id",), number=30)
UP = column("up", "int(11)", id=5)
CHILD = replace(
    table(
        "child", ID, UP, key=("id",), keys=(KeyStructure("up_key", (KeyPart("up"),)),), number=31
    ),
    foreign_keys=(
        ForeignKeyStructure("it's `up`", ("up",), "parent", ("id",), "d", "CASCADE", "SET NULL"),
    ),
)


def test_foreign_keys_have_their_names_over_renamed_columns_and_tables(server: MariaDb) -> None:
    renamed = replace(CHILD, columns=(ID, replace(UP, name="over")))
    renamed = replace(
        renamed,
        keys=(CHILD.keys[0], KeyStructure("up_key", (KeyPart("over"),))),
        foreign_keys=(replace(CHILD.foreign_keys[0], columns=("over",)),),
    )
    moved = replace(renamed, name="moved")
    bare = replace(moved, foreign_keys=())

    async def scenario(rig: Rig) -> None:
        for one in (PARENT, CHILD):
            assert await rig.ddl(ddl("create_table", (None, one))) == []
        assert await rig.ddl(ddl("modify_column", (CHILD, renamed))) == []
        assert await rig.ddl(ddl("rename_table", (renamed, moved))) == []
        ((_, text),) = rig.sql("SHOW CREATE TABLE d.moved")
        assert "CONSTRAINT `it's ``up``` FOREIGN KEY (`over`) REFERENCES `parent` (`id`)" in text
        assert "ON DELETE CASCADE ON UPDATE SET NULL" in text
        assert await rig.ddl(ddl("drop_foreign_key", (moved, bare))) == []
        assert "CONSTRAINT" not in rig.sql("SHOW CREATE TABLE d.moved")[0][1]

    run(server, scenario)


def test_generated_columns_follow_a_renamed_one(server: MariaDb) -> None:
    doubled = column("g", "int(11)", id=7, generated="`a` * 2")
    stored = column("s", "varchar(30)", id=8, generated="concat(`a`,'''\\')", generated_stored=True)
    a = column("a", "int(11)", id=6)
    before = table("t", ID, a, doubled, stored, key=("id",))
    after = table(
        "t",
        *(ID, replace(a, name="b"), replace(doubled, generated="`b` * 2")),
        replace(stored, generated="concat(`b`,'''\\')"),
        key=("id",),
    )

    async def scenario(rig: Rig) -> None:
        assert await rig.ddl(ddl("create_table", (None, before))) == []
        rig.sql("INSERT INTO d.t (id, a) VALUES (1, 4)")
        assert await rig.ddl(ddl("modify_column", (before, after))) == []

    assert run(server, scenario).sql("SELECT b, g, s FROM d.t") == [(4, 8, "4'\\")]


def test_a_column_changes_its_character_set_with_its_rows(server: MariaDb) -> None:
    before = table("t", ID, replace(V, charset="utf8", collation="utf8_general_ci"), key=("id",))
    after = table("t", ID, V, key=("id",))
    gbk = table("t", ID, replace(V, charset="gbk", collation="gbk_chinese_ci"), key=("id",))

    async def scenario(rig: Rig) -> None:
        assert await rig.ddl(ddl("create_table", (None, before))) == []
        await rig.rows(before, created({"id": 1, "v": "é中"}))
        for one, other in ((before, after), (after, gbk), (gbk, after)):
            assert await rig.ddl(ddl("modify_column", (one, other))) == []
            assert rig.sql("SELECT v FROM d.t") == [("é中",)]

    run(server, scenario)


def test_the_longest_and_oddest_names(server: MariaDb) -> None:
    long = "é`'\\ select" + "x" * 53
    one = replace(T, name=long)
    other = replace(PARTED, name="o" * 64)
    swapped = (one, replace(one, name=other.name)), (other, replace(other, name=one.name))

    async def scenario(rig: Rig) -> None:
        for each in (one, other):
            assert await rig.ddl(ddl("create_table", (None, each))) == []
        await rig.rows(one, created({"id": 1, "v": "a"}))
        assert await rig.ddl(ddl("rename_tables", *swapped)) == []
        assert rig.sql(f"SELECT v FROM d.`{other.name}`") == [("a",)]
        assert await rig.ddl(ddl("drop_table", (swapped[0][1], None))) == []
        assert await rig.ddl(ddl("recover_table", (None, replace(one, name="back")))) == []

    assert run(server, scenario).sql("SELECT v FROM d.back") == [("a",)]


def test_partitions_come_split_and_go_with_their_rows(server: MariaDb) -> None:
    def parted(*bounds: tuple[str, str, int]) -> TableStructure:
        return replace(PARTED, partitioning=ranges(*bounds))

    first = parted(("p0", "10", 1), ("p`1", "MAXVALUE", 2))
    split = parted(("p0", "10", 1), ("select", "20", 3), ("p2", "MAXVALUE", 4))
    named = parted(("p0", "10", 1), ("p1", "20", 3), ("p2", "MAXVALUE", 4))
    fewer = parted(("p0", "10", 1), ("p2", "MAXVALUE", 4))
    plain = replace(PARTED, partitioning=None)

    async def scenario(rig: Rig) -> None:
        assert await rig.ddl(ddl("create_table", (None, first))) == []
        rows = (created({"id": number, "v": "r"}) for number in (1, 15, 25))
        await rig.rows(first, *rows)
        assert await rig.ddl(ddl("reorganize_partition", (first, split))) == []
        assert await rig.ddl(ddl("reorganize_partition", (split, named))) == []
        assert await rig.ddl(ddl("drop_partition", (named, fewer))) == []
        assert await rig.ddl(ddl("remove_partitioning", (fewer, plain))) == []
        assert await rig.ddl(ddl("alter_table_partitioning", (plain, first))) == []

    assert run(server, scenario).sql("SELECT id FROM d.r ORDER BY id") == [(1,), (25,)]


def test_a_list_of_odd_values_by_columns(server: MariaDb) -> None:
    parts = (
        PartitionStructure("a", (), (("'it''s'",), ("'\\'",)), 1),
        PartitionStructure("b", (), (("'b'",), ("NULL",)), 2),
    )
    keyless = table("l", V, number=40, partitioning=Partitioning("list", "", ("v",), parts))

    async def scenario(rig: Rig) -> None:
        assert await rig.ddl(ddl("create_table", (None, keyless))) == []
        values = (created({"v": value}) for value in ("it's", "\\", "b", None))
        await rig.rows(keyless, *values)
        emptied = replace(
            keyless,
            partitioning=Partitioning("list", "", ("v",), (replace(parts[0], id=9), parts[1])),
        )
        assert await rig.ddl(ddl("truncate_partition", (keyless, emptied))) == []

    assert run(server, scenario).sql("SELECT v FROM d.l ORDER BY v") == [(None,), ("b",)]


def test_keys_longer_than_the_server_s_come_and_go(server: MariaDb) -> None:
    """TiDB counts latin1 as one byte a character; here it is stored as utf8mb4. MariaDB shortens
    the one and hashes the other."""
    wide = column("w", "varchar(1000)", id=9, charset="latin1", collation="latin1_bin")
    keys = (
        KeyStructure("wide", (KeyPart("w"),)),
        KeyStructure("unique_wide", (KeyPart("w"),), unique=True),
    )
    one = table("t", ID, wide, key=("id",), keys=keys)
    bare = table("t", ID, wide, key=("id",))

    async def scenario(rig: Rig) -> None:
        assert await rig.ddl(ddl("create_table", (None, one))) == []
        assert await rig.ddl(ddl("drop_index", (one, bare))) == []
        assert await rig.ddl(ddl("add_index", (bare, one))) == []

    run(server, scenario)


def test_bits_without_a_default_are_zero_in_older_rows(server: MariaDb) -> None:
    """TiDB keeps the empty text of such a zero."""
    bits = column("b", "bit(3)", nullable=False, origin_default="", id=3)
    wide = table("t", ID, V, bits, key=("id",), number=10, version=2)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        rig.sql("INSERT INTO d.t VALUES (1, 'a')")
        await rig.ddl(ddl("add_column", (T, wide)))
        await rig.rows(T, created({"id": 2, "v": "b"}))  # its transaction had not seen the DDL
        assert rig.sql("SELECT id, b + 0 FROM d.t") == [(1, 0), (2, 0)]

    run(server, scenario)


def test_a_date_of_today_by_default(server: MariaDb) -> None:
    today = ColumnInfo(
        2, Name("d"), 1, FieldType(10, 128, 10, 0, "binary", "binary"), default="CURRENT_DATE"
    )
    number = ColumnInfo(1, Name("id"), 0, FieldType(3, 3, 11, 0, "binary", "binary"))
    info = TableInfo(7, Name("t"), "utf8mb4", "utf8mb4_bin", (number, today), pk_is_handle=True)
    made = structure(TableAt("d", "t", 1, info))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, made)))
        rig.sql("INSERT INTO d.t (id) VALUES (1)")
        assert rig.sql("SELECT d = CURRENT_DATE FROM d.t") == [(1,)]

    run(server, scenario)
