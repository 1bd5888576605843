"""DROP PARTITION in SQLite of a table that a function of a date partitions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, created, ddl, table
from tests.unit.downstreams.test_sqlite import ID, Rig, run
from tidelog.downstreams import dates_sqlite
from tidelog.errors import Stopped
from tidelog.schema.structure import Partitioning, PartitionStructure, TableStructure


def parted(kind: str, expression: str, bound: str) -> tuple[TableStructure, TableStructure]:
    """A table with two partitions, and without the first."""
    old, new = PartitionStructure("old", (bound,), (), 11), PartitionStructure("new", ("MAXVALUE",))
    parts = Partitioning("range", expression, (), (old, msgspec.structs.replace(new, id=12)))
    before = table("t", ID, column("d", kind), partitioning=parts)
    left = msgspec.structs.replace(parts, partitions=parts.partitions[1:])
    return before, msgspec.structs.replace(before, partitioning=left)


@pytest.mark.parametrize(
    ("kind", "expression", "bound"),
    [
        ("datetime", "year(`d`)", "2020"),
        ("datetime", "YEAR(`d`) * 100 + MONTH(`d`)", "202001"),
        ("datetime", "to_days(`d`)", "737790"),
        ("timestamp", "unix_timestamp(`d`)", "1577836800"),
        ("timestamp(3)", "floor(unix_timestamp(`d`))", "1577836800"),
    ],
)
def test_a_partition_by_a_date_is_emptied(
    tmp_path: Path, kind: str, expression: str, bound: str
) -> None:
    before, after = parted(kind, expression, bound)
    days = ("0000-00-00 00:00:00", "2019-12-31 23:59:59.999", "2020-01-01 00:00:00", None)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, before)))
        for number, day in enumerate(days):
            await rig.rows(before, created({"id": number, "d": day}))
        await rig.ddl(ddl("drop_partition", (before, after)))

    assert run(tmp_path, scenario).read('SELECT id FROM "d.t"') == [(2,)]


@pytest.mark.parametrize(
    ("expression", "bound", "said"),
    [
        ("extract(year from `d`)", "2020", "syntax error"),
        ("microsecond(`d`)", "5", "no such function: microsecond"),
        ("unix_timestamp(`d`)", "UNIX_TIMESTAMP('2020-01-01 00:00:00')", "time zone"),
    ],
)
def test_rows_that_sqlite_cant_tell_are_a_stop_that_says_so(
    tmp_path: Path, expression: str, bound: str, said: str
) -> None:
    before, after = parted("timestamp", expression, bound)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, before)))
        with pytest.raises(Stopped, match=said) as stopped:
            await rig.ddl(ddl("drop_partition", (before, after)))
        assert "partition old of d.t" in stopped.value.message
        assert "filter the table out" in stopped.value.hint

    run(tmp_path, scenario)


def test_its_functions_are_mysqls() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        dates_sqlite.register(db)
        for call, expected in (
            ("to_days('2007-10-07')", 733321),
            ("quarter('2008-04-01')", 2),
            ("day('2007-02-03 10:00:00')", 3),
            ("dayofmonth('2007-00-00')", 0),
            ("dayofyear('2007-02-03')", 34),
            ("dayofweek('2007-02-03')", 7),
            ("weekday('2007-11-06')", 1),
            ("to_days('0000-00-00')", None),
            ("year(NULL)", None),
            ("unix_timestamp('1970-01-01 00:00:01.500')", 1.5),
        ):
            assert db.execute(f"SELECT {call}").fetchone() == (expected,)
