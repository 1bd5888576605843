"""What differs between two structures, and the ALTER TABLE that it becomes."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, ddl, ranges, table
from tidelog.downstreams.ddl_mysql import Facts, Step, plan
from tidelog.downstreams.structure_ddl import Flavor
from tidelog.downstreams.structure_diff import diff
from tidelog.schema.structure import KeyPart, KeyStructure, TableStructure

MARIADB = Flavor("mariadb", frozenset(("utf8mb4_bin", "utf8mb4_general_ci")))
FACTS = Facts(MARIADB, keep_dropped=True)
ID = column("id", "int(11)", nullable=False, id=1)
A = column("a", "int(11)", id=2)
B = column("b", "varchar(9)", id=3)


def first_sql(before: TableStructure, after: TableStructure, query: str = "") -> list[str]:
    steps = plan(ddl("modify_column", (before, after), query=query), FACTS)
    return [step.attempts[0].sql for step in steps]


def test_a_column_moves_with_its_id() -> None:
    before = table("t", ID, A, B, key=("id",))
    after = table("t", B, ID, msgspec.structs.replace(A, name="aa"), key=("id",))
    assert first_sql(before, after) == [
        (
            "ALTER TABLE `d`.`t` CHANGE COLUMN `b` `b` varchar(9) CHARACTER SET utf8mb4"
            " COLLATE utf8mb4_bin NULL DEFAULT NULL FIRST,"
            " CHANGE COLUMN `a` `aa` int(11) NULL DEFAULT NULL"
        )
    ]


@pytest.mark.parametrize(
    "query",
    [
        "ALTER TABLE `t` CHANGE COLUMN `a` `cc` DECIMAL(9,2)",
        "alter table t change A CC decimal(9,2)",
        'alter table "t" change column "a" "cc" decimal(9,2), comment = \'x\'',
    ],
)
def test_a_converted_column_has_a_new_id_and_keeps_its_rows(query: str) -> None:
    before = table("t", ID, A, key=("id",))
    after = table("t", ID, column("cc", "decimal(9,2)", id=7), key=("id",))
    assert not diff(before, after, query).dropped_columns
    assert first_sql(before, after, query) == [
        "ALTER TABLE `d`.`t` CHANGE COLUMN `a` `cc` decimal(9,2) NULL DEFAULT NULL"
    ]


def test_tables_of_which_only_names_are_told_go_with_their_database() -> None:
    """They may be views, or have foreign keys: none can be moved away before."""
    brief = TableStructure("t", 1, id=7)
    told = msgspec.structs.replace(ddl("drop_schema", (brief, None), (brief, None)), brief=True)
    (step,) = plan(told, FACTS)
    assert step.attempts[0].sql == "DROP DATABASE IF EXISTS `d`"
    assert step.attempts[0].note == "database d: the rows of its 2 tables, should it be recovered"


def test_old_rows_get_the_origin_default_not_the_present_time() -> None:
    stamp = column(
        "f",
        "timestamp(3)",
        nullable=False,
        default="CURRENT_TIMESTAMP(3)",
        default_is_expr=True,
        origin_default="2026-01-01 00:00:00.000",
        id=4,
    )
    found = first_sql(table("t", ID, key=("id",)), table("t", ID, stamp, key=("id",)))
    assert found == [
        (
            "ALTER TABLE `d`.`t` ADD COLUMN `f` timestamp(3) NOT NULL"
            " DEFAULT '2026-01-01 00:00:00.000'"
        ),
        "ALTER TABLE `d`.`t` MODIFY COLUMN `f` timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)",
    ]


def test_keys_are_added_dropped_and_renamed() -> None:
    key = KeyStructure("ia", (KeyPart("a"),))
    named = KeyStructure("ia2", (KeyPart("a"),))
    unique = KeyStructure("ub", (KeyPart("b", 5),), unique=True)
    before = table("t", ID, A, B, key=("id",), keys=(key,))
    after = table("t", ID, A, B, key=("id",), keys=(named, unique))
    assert first_sql(before, after) == [
        "ALTER TABLE `d`.`t` RENAME KEY `ia` TO `ia2`, ADD UNIQUE KEY `ub` (`b`(5))"
    ]
    assert first_sql(after, before) == [
        "ALTER TABLE `d`.`t` DROP KEY `ub`, RENAME KEY `ia2` TO `ia`"
    ]


def test_nothing_to_alter_is_no_step() -> None:
    same = table("t", ID, key=("id",))
    assert first_sql(same, same) == []


def test_a_collation_the_server_lacks_becomes_the_exact_one() -> None:
    odd = column("b", "varchar(9)", id=3, charset="utf8mb4", collation="utf8mb4_zh_0900_as_cs")
    assert (
        "COLLATE utf8mb4_bin"
        in first_sql(table("t", ID, key=("id",)), table("t", ID, odd, key=("id",)))[0]
    )


def steps(kind: str, before: TableStructure | None, after: TableStructure | None) -> list[Step]:
    facts = msgspec.structs.replace(FACTS, partitions={("d", "r"): frozenset(("p0", "p1"))})
    return plan(ddl(kind, (before, after)), facts)


def test_partitions_are_added_split_and_dropped_by_their_own_statements() -> None:
    old = table("r", ID, key=("id",), partitioning=ranges(("p0", "10", 1), ("p1", "20", 2)))
    more = ranges(("p0", "10", 1), ("p1", "20", 2), ("p2", "30", 3))
    grown = msgspec.structs.replace(old, partitioning=more)
    split = ranges(("p00", "5", 4), ("p01", "10", 5), ("p1", "20", 2))
    halved = msgspec.structs.replace(old, partitioning=split)
    fewer = msgspec.structs.replace(old, partitioning=ranges(("p0", "10", 1)))
    emptied = msgspec.structs.replace(old, partitioning=ranges(("p0", "10", 9), ("p1", "20", 2)))
    assert steps("add_partition", old, grown)[0].attempts[0].sql == (
        "ALTER TABLE `d`.`r` ADD PARTITION (PARTITION `p2` VALUES LESS THAN (30))"
    )
    assert steps("reorganize_partition", old, halved)[0].attempts[0].sql == (
        "ALTER TABLE `d`.`r` REORGANIZE PARTITION `p0` INTO (PARTITION `p00` VALUES LESS THAN"
        " (5),PARTITION `p01` VALUES LESS THAN (10))"
    )
    assert steps("drop_partition", old, fewer)[0].attempts[0].sql == (
        "ALTER TABLE `d`.`r` DROP PARTITION `p1`"
    )
    assert steps("truncate_partition", old, emptied)[0].attempts[0].sql == (
        "ALTER TABLE `d`.`r` TRUNCATE PARTITION `p0`"
    )
    unparted = plan(ddl("truncate_partition", (old, emptied)), FACTS)
    assert unparted[0].attempts[0].sql == (
        "DELETE FROM `d`.`r` WHERE (`id` < 10 OR `id` IS NULL)".replace(
            "`id` <", "(`id`) <"
        ).replace("`id` IS", "(`id`) IS")
    )


def test_renames_of_a_ring_go_by_a_temporary_name() -> None:
    a, b = table("a", ID, number=1), table("b", ID, number=2)
    swapped = ddl(
        "rename_tables",
        (a, msgspec.structs.replace(a, name="b")),
        (b, msgspec.structs.replace(b, name="a")),
    )
    assert [step.attempts[0].sql for step in plan(swapped, FACTS)] == [
        "RENAME TABLE `d`.`a` TO `d`.`b_tidelog_0`",
        "RENAME TABLE `d`.`b` TO `d`.`a`",
        "RENAME TABLE `d`.`b_tidelog_0` TO `d`.`b`",
    ]


COUNTING = msgspec.structs.replace(ID, auto_increment=True)


def test_a_counter_goes_with_the_key_that_allows_it_and_comes_back() -> None:
    without, keyed = table("t", COUNTING, A), table("t", COUNTING, A, key=("id",))
    assert first_sql(keyed, without) == [
        "ALTER TABLE `d`.`t` DROP PRIMARY KEY, CHANGE COLUMN `id` `id` int(11) NOT NULL"
    ]
    assert first_sql(without, keyed) == [
        (
            "ALTER TABLE `d`.`t` CHANGE COLUMN `id` `id` int(11) NOT NULL AUTO_INCREMENT,"
            " ADD PRIMARY KEY (`id`)"
        )
    ]


def test_a_key_that_the_server_can_not_hold_allows_no_counter_and_is_not_renamed() -> None:
    parts = (KeyPart("id"), KeyPart("", 0, "`a` + 1"))
    one = table("t", COUNTING, A, keys=(KeyStructure("k", parts),))
    other = table("t", COUNTING, A, keys=(KeyStructure("kk", parts),))
    assert first_sql(one, other) == []
    (step,) = plan(ddl("create_table", (None, one)), FACTS)
    assert "AUTO_INCREMENT" not in step.attempts[0].sql


def test_a_text_that_looks_like_bits_is_a_text() -> None:
    new = column("c", "varchar(9)", default=None, origin_default="b'1", id=4)
    first, _ = first_sql(table("t", ID), table("t", ID, new))
    assert first.endswith("NULL DEFAULT 'b''1'")


def test_a_long_text_has_its_default_as_each_server_takes_it() -> None:
    new = column("c", "text", nullable=False, origin_default="", id=4)
    message = ddl("add_column", (table("t", ID), table("t", ID, new)))
    for product, default in (("mysql", "DEFAULT ('')"), ("mariadb", "DEFAULT ''")):
        facts = Facts(Flavor(product, MARIADB.collations), keep_dropped=True)
        assert plan(message, facts)[0].attempts[0].sql.endswith(f"NOT NULL {default}")
    facts = Facts(Flavor("tidb", MARIADB.collations), keep_dropped=True)
    assert plan(message, facts)[0].attempts[0].sql.endswith("NOT NULL")
