"""A server's word on a table's keys."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.downstreams.shapes import column
from tidelog.schema.structure import KeyPart, KeyStructure
from tidelog_backfill.snapshot.dump_tables import defined
from tidelog_backfill.snapshot.structures import key_columns, key_part, left_out, table

KEYS = [
    ("PRIMARY", 0, "id", None, "BTREE"),
    ("by_sum", 1, "a", None, "BTREE"),
    ("by_sum", 1, None, None, "BTREE"),
    ("by_text", 1, "note", None, "FULLTEXT"),
    ("by_two", 1, "a", 10, "BTREE"),
    ("by_two", 1, "b", None, "BTREE"),
    ("place", 1, "at", 32, "SPATIAL"),
]


def test_a_key_is_copied_or_said_to_be_left_out() -> None:
    made = table("t", [], KEYS, [], collation="utf8mb4_bin", comment="")
    assert [(key.name, key.columns) for key in made.keys] == [
        ("PRIMARY", ("id",)),
        ("by_two", ("a", "b")),
    ]
    assert left_out(KEYS) == [
        "the key by_sum (an expression)",
        "the key by_text (FULLTEXT)",
        "the key place (SPATIAL)",
    ]


def test_a_key_of_an_expression_has_no_column() -> None:
    begun = ("t", 0, "x", 1, "NULL", "A", 0, None, None, "", "BTREE", "", "", "YES")
    assert key_part((*begun, "(lower(`v`))")) == ("x", 0, None, None, "BTREE")
    for expression in ((), (None,)):
        assert key_part((*begun, *expression)) == ("x", 0, "NULL", None, "BTREE")


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("UNIQUE KEY `zz` (`a`), UNIQUE KEY `aa` (`b`)", ("a",)),
        ("UNIQUE KEY `u` (`n`), UNIQUE KEY `v` (`a`,`n`), UNIQUE KEY `w` (`b`,`a`)", ("b", "a")),
        ("UNIQUE KEY `u` (`s`(3)), UNIQUE KEY `v` (`b`)", ("s",)),
        ("UNIQUE KEY `u` (`a`), PRIMARY KEY (`b`)", ("b",)),
        ("UNIQUE KEY `u` (`n`), KEY `k` (`a`)", ()),
    ],
)
def test_a_copys_key_is_the_streams(keys: str, chosen: tuple[str, ...]) -> None:
    columns = "`a` int NOT NULL, `b` int NOT NULL, `n` int, `s` varchar(9) NOT NULL"
    found, _ = defined("d", f"CREATE TABLE `t` ({columns}, {keys});")
    assert found.key_columns == chosen
    assert key_columns(found.keys, found.columns) == chosen


def test_a_key_is_of_columns_that_rows_have() -> None:
    made = [column(name, "int", nullable=False, generated=f"`a` + {name!r}") for name in "vs"]
    kept = msgspec.structs.replace(made[1], generated_stored=True)
    keys = [KeyStructure(name, (KeyPart(name),), unique=True) for name in "vs"]
    assert key_columns(keys, made) == ()
    assert key_columns(keys, [made[0], kept]) == ("s",)
