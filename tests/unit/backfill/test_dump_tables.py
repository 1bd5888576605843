"""CREATE TABLE as TiDB, MySQL and MariaDB write it into dumps."""

from __future__ import annotations

import pytest

from tidelog.errors import BadInput
from tidelog.pump_client.ddl.errors import DdlNotSupported
from tidelog.schema.structure import TableStructure
from tidelog_backfill.snapshot.dump_tables import defined


def table(body: str, options: str = "ENGINE=InnoDB") -> tuple[TableStructure, list[str]]:
    text = f"/*!40101 SET NAMES binary*/;\nCREATE TABLE `t` (`id` int NOT NULL, {body}) {options};"
    return defined("d", text)


KEY = "PRIMARY KEY (`id`)"


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        ("`p` int, KEY `k` (`p`), CONSTRAINT `f` FOREIGN KEY (`p`) REFERENCES `o` (`id`)", "FOREI"),
        ("`p` varchar(5), KEY `x` ((lower(`p`)))", "LOWER(`p`)"),
        ("`p` varchar(5), FULLTEXT KEY `x` (`p`)", "FULLTEXT"),
        ("`p` int, CONSTRAINT `c` CHECK ((`p` > 1))", "CHECK ((`p` > 1))"),
        ("`p` int CHECK (`p` > 1)", "of column p"),
        ("`p` int(5) unsigned zerofill", "ZEROFILL of column p"),
        ("`p` varchar(36) DEFAULT uuid()", "DEFAULT UUID() of column p"),
        ("`p` varchar(36) NOT NULL DEFAULT (uuid())", "DEFAULT (UUID()) of column p"),
    ],
)
def test_what_a_copy_lacks_is_left_out_and_said(body: str, lacks: str) -> None:
    found, said = table(f"{body}, {KEY}")
    assert [one.name for one in found.columns] == ["id", "p"]
    assert found.key_columns == ("id",)
    assert [one.name for one in found.keys if not one.primary] in ([], ["k"])
    (phrase,) = said
    assert lacks in phrase


@pytest.mark.parametrize(
    "partitions",
    [
        "PARTITION BY RANGE (`id`)\n(PARTITION `p0` VALUES LESS THAN (10))",
        "PARTITION BY HASH (`id`) PARTITIONS 4",
        "PARTITION BY LIST COLUMNS(`id`) (PARTITION `a` VALUES IN (1,2), PARTITION b DEFAULT)",
    ],
)
def test_partitions(partitions: str) -> None:
    found, said = table(KEY, f"ENGINE=InnoDB COMMENT='PARTITION BY'\n{partitions}")
    assert (found.key_columns, found.comment) == (("id",), "PARTITION BY")
    assert said == ["its partitions"]


def test_of_an_ordinary_table_nothing_is_left_out() -> None:
    found, said = table(
        "`v` int GENERATED ALWAYS AS (`id` + 1) VIRTUAL,"
        " `ts` timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),"
        " `l` varchar(9) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'it''s; x',"
        f" UNIQUE KEY `u` (`l`) USING BTREE, {KEY} /*T![clustered_index] CLUSTERED */",
        "ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='x'",
    )
    assert said == []
    assert [one.name for one in found.columns if one.generated] == ["v"]
    assert [one.default for one in found.columns][2:] == ["CURRENT_TIMESTAMP(3)", "it's; x"]
    assert [one.name for one in found.keys] == ["PRIMARY", "u"]


def test_a_default_that_only_an_old_server_takes_is_left_out() -> None:
    found, said = table(f"`d` datetime NOT NULL DEFAULT '0000-00-00 99:00:00', {KEY}")
    assert found.columns[1].default is None
    assert "of column d" in said[0]


def test_comments_within_quotes_are_no_comments() -> None:
    found, _ = table(f"`e` enum('/*x*/','y') DEFAULT '/*x*/' COMMENT 'a /* b */ c', {KEY}")
    column = found.columns[1]
    assert (column.elems, column.default) == (("/*x*/", "y"), "/*x*/")
    assert column.comment == "a /* b */ c"


def test_what_would_be_another_table_is_refused() -> None:
    with pytest.raises(DdlNotSupported):
        table(f"`g` geometry, {KEY}")
    with pytest.raises(DdlNotSupported):
        table("`p` varchar(5), PRIMARY KEY ((lower(`p`)))")
    with pytest.raises(DdlNotSupported, match="only a database can compute"):
        table(f"`s` int GENERATED ALWAYS AS (`id`) STORED, {KEY}")
    with pytest.raises(BadInput, match="no CREATE TABLE"):
        defined("d", "hello")


def test_a_year_is_one_as_servers_show_it() -> None:
    """TiDB, MariaDB and MySQL 5.7 give it its width."""
    of = "CREATE TABLE `t` (`id` int, `y` {} DEFAULT NULL, PRIMARY KEY (`id`))"
    (shown, lacks), (plain, _) = (defined("d", of.format(kind)) for kind in ("year(4)", "year"))
    assert shown == plain
    assert lacks == []
