"""Which rows a partition has, told to a downstream that knows none: run by SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.downstreams.partition_rows import rows_of
from tidelog.errors import Stopped
from tidelog.schema.structure import Partitioning, PartitionStructure, TableStructure


def quoted(name: str) -> str:
    return f'"{name}"'


def parted(method: str, *parts: PartitionStructure, **by: object) -> TableStructure:
    made = Partitioning(method, partitions=parts, **by)  # type: ignore[arg-type]
    return table("t", column("id", "int"), partitioning=made)


def ids(structure: TableStructure) -> dict[str, list[int | None]]:
    """Of the rows NULL, 0 to 9 and 25: by partition."""
    assert structure.partitioning is not None
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE t (id INTEGER)")
        db.executemany("INSERT INTO t VALUES (?)", [(n,) for n in (None, *range(10), 25)])
        return {
            part.name: [
                found
                for (found,) in db.execute(
                    f"SELECT id FROM t WHERE {rows_of(structure, part, quoted)} ORDER BY id"
                )
            ]
            for part in structure.partitioning.partitions
        }


RANGES = (
    PartitionStructure("low", ("4",)),
    PartitionStructure("mid", ("8",)),
    PartitionStructure("high", ("MAXVALUE",)),
)


@pytest.mark.parametrize("by", [{"columns": ("id",)}, {"expression": "`id`"}])
def test_ranges_share_all_rows_and_null_is_in_the_first(by: dict[str, object]) -> None:
    assert ids(parted("range", *RANGES, **by)) == {
        "low": [None, 0, 1, 2, 3],
        "mid": [4, 5, 6, 7],
        "high": [8, 9, 25],
    }


def test_one_range_of_all() -> None:
    (low,) = ids(parted("range", RANGES[2], columns=("id",))).values()
    assert len(low) == 12


@pytest.mark.parametrize("by", [{"columns": ("id",)}, {"expression": "`id`"}])
def test_lists_name_their_rows(by: dict[str, object]) -> None:
    parts = (
        PartitionStructure("odd", in_values=(("1",), ("3",), ("NULL",))),
        PartitionStructure("even", in_values=(("2",),)),
    )
    assert ids(parted("list", *parts, **by)) == {"odd": [None, 1, 3], "even": [2]}


def test_hashes_count_from_the_first_which_has_null() -> None:
    parts = (PartitionStructure("p0"), PartitionStructure("p1"), PartitionStructure("p2"))
    found = ids(parted("hash", *parts, expression="`id`"))
    assert found == {"p0": [None, 0, 3, 6, 9], "p1": [1, 4, 7, 25], "p2": [2, 5, 8]}


@pytest.mark.parametrize(
    ("structure", "said"),
    [
        (parted("key", RANGES[0], columns=("id",)), "can't be told downstream"),
        (parted("range", RANGES[0], columns=("id", "at")), "can't be told downstream"),
        (table("t", column("id", "int")), "was not partitioned"),
    ],
)
def test_what_only_the_upstream_can_tell_is_a_stop(structure: TableStructure, said: str) -> None:
    with pytest.raises(Stopped, match=said):
        rows_of(structure, RANGES[0], quoted)
