"""The benchmarks' tables and rows. Pure.

Shapes as real tables have: two columns, and four, six and sixteen of the common types. Row `n` at
version `v` is always the same, so that the downstream can be checked by sums.
"""

from __future__ import annotations

import msgspec

from tidelog.rows.table_codec import TableCodec
from tidelog.rows.values import Value
from tidelog.schema.model import TableInfo
from tidelog.workload.column_kinds import BIGINT, DATETIME, DECIMAL, INT, NAME
from tidelog.workload.table_kinds import ColumnPlan, TablePlan, create_query, table_info

DATABASE = "bench"
ID = ColumnPlan("id", INT, True)
NOTE = msgspec.structs.replace(
    NAME, sql="VARCHAR(512)", type=msgspec.structs.replace(NAME.type, Flen=512)
)
SHAPES = {
    # Also that of large transactions: see `bench.binlogs.large_prewrite`.
    2: TablePlan((ColumnPlan("id", BIGINT, True), ColumnPlan("note", NOTE)), ("id",)),
    4: TablePlan(
        (
            ID,
            ColumnPlan("customer", BIGINT, True),
            ColumnPlan("amount", DECIMAL, True),
            ColumnPlan("note", NAME),
        ),
        ("id",),
    ),
    6: TablePlan(
        (
            ID,
            ColumnPlan("version", INT, True),
            ColumnPlan("customer", BIGINT, True),
            ColumnPlan("amount", DECIMAL, True),
            ColumnPlan("placed", DATETIME, True),
            ColumnPlan("note", NAME),
        ),
        ("id",),
    ),
    16: TablePlan(
        (
            ID,
            *(
                ColumnPlan(f"{name}{at}", kind, True)
                for at in range(3)
                for name, kind in (
                    ("version", INT),
                    ("customer", BIGINT),
                    ("amount", DECIMAL),
                    ("placed", DATETIME),
                    ("note", NAME),
                )
            ),
        ),
        ("id",),
    ),
}
STATES = ("placed and waiting", "paid in advance", "packed for sending", "sent, not yet there")


class BenchTable:
    """One table of the upstream: its definition, its rows, its bytes on the wire."""

    def __init__(self, table_id: int, columns: int, name: str = "") -> None:
        plan = SHAPES[columns]
        self.columns = columns
        self.name = name or f"orders_{columns}"
        self.info: TableInfo = table_info(plan, table_id, self.name)
        self.query = create_query(plan, self.name)
        self.codec = TableCodec(self.info)

    def row(self, number: int, version: int = 0) -> dict[str, Value]:
        note = f"{STATES[number % 4]} {number}/{version}"
        if self.columns == 2:
            return {"id": number, "note": note}
        day, minute = number // 1440 % 28 + 1, number % 1440
        common: dict[str, Value] = {
            "version": version,
            "customer": number * 7919 % 1_000_003,
            "amount": f"{number % 100_000}.{version % 100:02d}00",
            "placed": f"2026-10-{day:02d} {minute // 60:02d}:{minute % 60:02d}:00.000",
            "note": note,
        }
        # Column names of the widest shape end with a digit.
        names = [column.name for column in SHAPES[self.columns].columns[1:]]
        return {"id": number} | {name: common[name.rstrip("012")] for name in names}

    def insert(self, number: int) -> bytes:
        return self.codec.encode_insert(self.row(number), number)

    def update(self, number: int, version: int) -> bytes:
        """From the version before."""
        return self.encode(number, version - 1, version)

    def encode(self, number: int, before: int | None, after: int | None) -> bytes:
        """A change from one version to another; None = the row is not there."""
        if before is None:
            assert after is not None
            return self.codec.encode_insert(self.row(number, after), number)
        if after is None:
            return self.codec.encode_delete(self.row(number, before), number)
        before_row, after_row = self.row(number, before), self.row(number, after)
        return self.codec.encode_update(before_row, after_row, number)


def values(row: dict[str, Value]) -> str:
    """The row in a VALUES list; these texts need no escape."""
    return "(" + ",".join(str(v) if isinstance(v, int) else f"'{v}'" for v in row.values()) + ")"
