"""A schema of two tables as TiDB's jobs, for tests of the writers' API."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.rows.table_codec import RowChange, TableCodec
from tidelog.schema import jobs
from tidelog.schema.history import TableAt
from tidelog.schema.model import (
    FLAG_NOT_NULL,
    FLAG_PRIMARY,
    ColumnInfo,
    DBInfo,
    DdlJob,
    FieldType,
    HistoryInfo,
    Name,
    TableInfo,
)
from tidelog_proto.binlog_pb2 import TableMutation

BIGINT = FieldType(8, 0, 20, 0, "binary", "binary")
TEXT = FieldType(15, 0, 20, 0, "utf8mb4", "utf8mb4_bin")


def column(at: int, name: str, kind: FieldType, *, flag: int = 0, **more: object) -> ColumnInfo:
    made = msgspec.structs.replace(kind, Flag=kind.Flag | flag)
    return ColumnInfo(at + 1, Name(name, name.lower()), at, made, **more)  # type: ignore[arg-type]


def table(*columns: ColumnInfo, name: str = "t", handle: bool = False) -> TableAt:
    info = TableInfo(100, Name(name, name), cols=tuple(columns), pk_is_handle=handle)
    return TableAt("db", name, 1, info)


def decoded(at: TableAt, **rows: Sequence[bytes]) -> list[RowChange]:
    """What a Drainer makes of rows in these lists of a TableMutation."""
    kinds = {"inserted_rows": 0, "updated_rows": 1, "deleted_rows": 4}
    sequence = [kinds[which] for which, some in rows.items() for _ in some]
    mutation = TableMutation(table_id=at.info.id, sequence=sequence, **rows)  # type: ignore[arg-type]
    return TableCodec(at.info).decode(mutation)


ITEM = TableInfo(
    104,
    Name("Item", "item"),
    cols=(
        column(0, "id", BIGINT, flag=FLAG_NOT_NULL | FLAG_PRIMARY),
        column(1, "Name", TEXT),
    ),
    pk_is_handle=True,
)
SHOP = DBInfo(102, Name("shop", "shop"), "utf8mb4", "utf8mb4_bin")
CREATE_SHOP = DdlJob(
    101,
    jobs.CREATE_SCHEMA,
    102,
    0,
    "shop",
    query="create database shop;",
    binlog=HistoryInfo(1, SHOP),
)
CREATE_ITEM = DdlJob(
    103,
    jobs.CREATE_TABLE,
    102,
    104,
    "shop",
    "Item",
    query="create table shop.Item (id bigint primary key, Name varchar(20));",
    binlog=HistoryInfo(2, None, ITEM),
)
WIDER = msgspec.structs.replace(ITEM, cols=(*ITEM.columns, column(2, "price", BIGINT)))
ADD_PRICE = DdlJob(
    105,
    5,
    102,
    104,
    "shop",
    "Item",
    query="alter table shop.Item add column price bigint;",
    binlog=HistoryInfo(3, None, WIDER),
)
