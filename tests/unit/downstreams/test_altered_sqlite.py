"""What MODIFY COLUMN makes of the cells that SQLite holds: what TiDB makes of them, or a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.downstreams.shapes import column, created, ddl, table
from tests.unit.downstreams.test_sqlite import ID, Rig, run
from tidelog.downstreams.altered_sqlite import altered, is_sure
from tidelog.schema.structure import ColumnStructure

DATETIME, DATETIME3 = column("c", "datetime", scale=0), column("c", "datetime(3)", scale=3)
TIME, TIME3 = column("c", "time", scale=0), column("c", "time(3)", scale=3)
DATE, TEXT, INT = column("c", "date"), column("c", "varchar(40)"), column("c", "bigint(20)")
DOUBLE, FLOAT = column("c", "double"), column("c", "float")
DECIMAL = column("c", "decimal(20,2)", scale=2)
BIT, YEAR, JSON = column("c", "bit(12)", length=12), column("c", "year(4)"), column("c", "json")
ENUM, SET = column("c", "enum('a','b')", elems=("a", "b")), column("c", "set", elems=("a", "b"))
BINARY = column("c", "binary(4)", length=4)


@pytest.mark.parametrize(
    ("before", "cell", "after", "expected"),
    [
        (DATETIME3, "2024-01-01 10:00:00.600", DATETIME, "2024-01-01 10:00:01"),
        (DATETIME3, "2024-12-31 23:59:59.500", DATETIME, "2025-01-01 00:00:00"),
        (DATETIME3, "0000-00-00 00:00:00.000", DATETIME, "0000-00-00 00:00:00"),
        (DATETIME3, "9999-12-31 23:59:59.999", DATETIME, "9999-12-31 23:59:59"),
        (DATETIME, "2024-01-01 10:00:00", DATETIME3, "2024-01-01 10:00:00.000"),
        (DATETIME3, "2024-01-01 23:59:59.600", DATE, "2024-01-01"),
        (DATETIME3, "2024-01-01 10:20:30.600", TIME, "10:20:31"),
        (DATE, "2024-01-01", DATETIME3, "2024-01-01 00:00:00.000"),
        (TIME3, "10:00:00.600", TIME, "10:00:01"),
        (TIME3, "-00:59:59.600", TIME, "-01:00:00"),
        (TIME, "10:00:00", TIME3, "10:00:00.000"),
        (DATETIME3, "2024-01-01 10:00:59.600", INT, 20240101100100),
        (DATETIME3, "2024-01-01 10:00:59.600", DECIMAL, "20240101100059.60"),
        (DATE, "2024-01-01", INT, 20240101),
        (TIME, "-10:20:30", INT, -102030),
        (TIME3, "10:20:59.500", DOUBLE, 102059.5),
        (DOUBLE, 1.0, TEXT, "1"),
        (DOUBLE, -1.5e20, TEXT, "-150000000000000000000"),
        (DOUBLE, 2.5, INT, 2),
        (DOUBLE, 2.345, DECIMAL, "2.35"),
        (FLOAT, 0.1, DOUBLE, 0.10000000149011612),
        (FLOAT, 0.1, TEXT, "0.1"),
        (DOUBLE, 0.10000000149011612, FLOAT, 0.1),
        (DOUBLE, 1e300, FLOAT, 3.4028235e38),
        (DECIMAL, "2.50", INT, 3),
        (JSON, '{"a":1,"b":[1,"x:,\\""]}', TEXT, '{"a": 1, "b": [1, "x:,\\""]}'),
        (BIT, 0x0141, TEXT, "\x01A"),
        (BIT, 0x0141, INT, 0x0141),
        (YEAR, 2024, TEXT, "2024"),
        (ENUM, "b", INT, 2),
        (ENUM, "", INT, 0),
        (ENUM, "b", TEXT, "b"),
        (SET, "a,b", INT, 3),
        (TEXT, "12.5x", INT, 13),
        (TEXT, "nan", DOUBLE, 0.0),
        (TEXT, "ab", BINARY, b"ab\x00\x00"),
        (TEXT, None, BINARY, None),
    ],
)
def test_a_stored_cell_becomes_what_tidb_makes_of_it(
    before: ColumnStructure, cell: str | float | None, after: ColumnStructure, expected: object
) -> None:
    assert is_sure(before, after)
    found = altered(cell, before, after)
    assert found == expected
    assert type(found) is type(expected)


def test_digits_and_odd_texts_of_times_are_kept_as_well_as_can_be() -> None:
    for text, after, expected in (
        ("20240102", DATE, "2024-01-02"),
        ("20240102030405", DATETIME3, "2024-01-02 03:04:05.000"),
        ("soon", TIME, "soon"),
    ):
        assert altered(text, TEXT, after) == expected
        assert not is_sure(TEXT, after)


def test_what_may_differ_from_the_upstream_is_noted(tmp_path: Path) -> None:
    zone = column("c", "timestamp", scale=0, id=2)
    number = column("c", "bigint(20)", id=3)
    text = column("c", "varchar(20)", id=4)
    first, second, third = (table("t", ID, one, key=("id",)) for one in (zone, number, text))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, first)))
        await rig.rows(first, created({"id": 1, "c": "2024-01-01 10:00:00"}))
        (note,) = await rig.ddl(ddl("modify_column", (first, second)))
        assert note == "column d.t.c: from timestamp to bigint(20) its stored values may differ"
        assert await rig.ddl(ddl("modify_column", (second, third))) == []

    assert run(tmp_path, scenario).read('SELECT c FROM "d.t"') == [("20240101100000",)]
