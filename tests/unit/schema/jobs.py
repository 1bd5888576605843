"""Short ways to write DDL jobs."""

from __future__ import annotations

from tidelog.schema import jobs as kinds
from tidelog.schema.model import (
    ColumnInfo,
    DBInfo,
    DdlJob,
    FieldType,
    HistoryInfo,
    Name,
    PartitionDefinition,
    PartitionInfo,
    TableInfo,
)


def table_info(
    table_id: int, name: str, *columns: str, partitions: tuple[int, ...] = ()
) -> TableInfo:
    """A table of INT columns; the first is its handle."""
    cols = tuple(
        ColumnInfo(at + 1, Name(col, col.lower()), at, FieldType(3, 3 if at == 0 else 0))
        for at, col in enumerate(columns or ("id",))
    )
    definitions = tuple(PartitionDefinition(i, Name(f"p{i}", f"p{i}")) for i in partitions)
    return TableInfo(
        table_id,
        Name(name, name.lower()),
        cols=cols,
        pk_is_handle=True,
        partition=PartitionInfo(1, "`id`", definitions=definitions) if partitions else None,
    )


def job(
    version: int,
    kind: int,
    info: TableInfo | None = None,
    *,
    schema: tuple[int, str] = (1, "app"),
    table_id: int = 0,
    query: str = "",
    state: int = 6,
    infos: tuple[TableInfo, ...] = (),
) -> DdlJob:
    """A job whose id is 1000 + its version."""
    return DdlJob(
        id=1000 + version,
        type=kind,
        schema_id=schema[0],
        table_id=table_id or (info.id if info is not None else 0),
        schema_name=schema[1],
        state=state,
        query=query,
        binlog=HistoryInfo(schema_version=version, table_info=info, table_infos=infos or None),
    )


def create_schema(version: int, schema_id: int, name: str) -> DdlJob:
    info = DBInfo(schema_id, Name(name, name.lower()))
    history = HistoryInfo(schema_version=version, db_info=info)
    return DdlJob(1000 + version, kinds.CREATE_SCHEMA, schema_id, schema_name=name, binlog=history)
