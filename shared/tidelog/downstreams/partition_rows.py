"""Which rows of a table belong to a partition, as a condition for a downstream that holds the
table unpartitioned. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from tidelog.errors import Stopped
from tidelog.schema.structure import PartitionStructure, TableStructure

MAXVALUE = "MAXVALUE"
_NAME = re.compile(r"`([^`]+)`")


def rows_of(
    table: TableStructure, partition: PartitionStructure, quote_name: Callable[[str], str]
) -> str:
    """A condition in SQL that both MySQL and SQLite read, as long as the partitioning's expression
    and bounds do. Raises Stopped for a partitioning whose rows only the upstream can tell."""
    parts = table.partitioning
    if parts is None:
        raise Stopped(f"table {table.name} was not partitioned", hint="report this")
    expression = _NAME.sub(lambda found: quote_name(found[1]), parts.expression)
    columns = [quote_name(column) for column in parts.columns]
    if parts.method == "hash":
        number = [one.name for one in parts.partitions].index(partition.name)
        condition = f"abs({expression}) % {len(parts.partitions)} = {number}"
        return f"({condition})" if number else f"({condition} OR ({expression}) IS NULL)"
    if parts.method == "list":
        subject = columns or [f"({expression})"]
        return _in_list(subject, partition)
    if parts.method == "range" and len(columns) <= 1:
        return _in_range(columns[0] if columns else f"({expression})", table, partition)
    raise Stopped(
        f"the rows of partition {partition.name} of {table.name} can't be told downstream",
        hint="empty the partition's rows by hand, or use a downstream that holds the partitioning",
    )


def _in_range(subject: str, table: TableStructure, partition: PartitionStructure) -> str:
    """From the bound of the partition before up to its own; NULL belongs to the first."""
    parts = table.partitioning.partitions if table.partitioning is not None else ()
    at = [one.name for one in parts].index(partition.name)
    bounds: list[str] = []
    if at:
        bounds.append(f"{subject} >= {parts[at - 1].less_than[0]}")
    if partition.less_than[0].upper() != MAXVALUE:
        bounds.append(f"{subject} < {partition.less_than[0]}")
    condition = " AND ".join(bounds) or "1 = 1"
    return f"({condition})" if at else f"({condition} OR {subject} IS NULL)"


def _in_list(subject: list[str], partition: PartitionStructure) -> str:
    rows: list[str] = []
    for values in partition.in_values:
        pairs = zip(subject, values, strict=True)
        rows.append(
            " AND ".join(f"{s} IS NULL" if v.upper() == "NULL" else f"{s} = {v}" for s, v in pairs)
        )
    return f"({' OR '.join(f'({row})' for row in rows)})"
