"""One table as a writer sees it: rows in, bytes of TableMutations out. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping

from tidelog.pump_client.tables.convert import convert
from tidelog.pump_client.tables.errors import (
    Generated,
    MissingValue,
    NoSuchColumn,
    NotWritable,
)
from tidelog.pump_client.tables.times import ZERO_DATE
from tidelog.rows.column import Column
from tidelog.rows.table_codec import TableCodec
from tidelog.rows.values import T_BIT, T_DATETIME, T_TIMESTAMP, TIME_TYPES, Value
from tidelog.schema.history import TableAt
from tidelog.schema.model import FLAG_AUTO_INCREMENT, ColumnInfo

Row = Mapping[str, object]
"""A row as an application gives it, by column name (in any case, as in SQL)."""
NO_HANDLE = 0
"""The hidden row id of a row whose insert we didn't see: nobody reads it (rows/table_codec)."""


class Table:
    """Made once for each version of a table."""

    def __init__(self, at: TableAt) -> None:
        self.name = f"{at.db}.{at.name}"
        self.id = at.info.id
        info = at.info
        if info.view is not None or info.sequence is not None:
            raise NotWritable(f"{self.name} is a view or a sequence")
        if info.partition is not None and info.partition.enable:
            raise NotWritable(f"{self.name} is partitioned", hint="write it through a TiDB")
        columns = [column for column in info.columns if column.public]
        if any(column.generated_stored for column in columns):
            raise NotWritable(
                f"{self.name} has a stored generated column, which only a database can compute",
                hint="make the column VIRTUAL, or a plain one that the application fills",
            )
        self._codec = TableCodec(info)
        self._columns = {column.name.lower: column for column in columns}
        self._stored = [column for column in columns if not column.virtual]

    def insert(self, row: Row, row_id: int, now: str) -> bytes:
        """Columns that are not named get their default; `now` is CURRENT_TIMESTAMP, with six
        fraction digits, in UTC."""
        values = self._values(row)
        for column in self._stored:
            if column.name.text not in values:
                values[column.name.text] = self._default(column, now)
        return self._codec.encode_insert(values, row_id)

    def update(self, before: Row, after: Row) -> bytes:
        """`before` is the whole old row; what `after` does not name stays."""
        old = self._image(before)
        return self._codec.encode_update(old, old | self._values(after), NO_HANDLE)

    def delete(self, row: Row) -> bytes:
        """`row` is the whole old row."""
        return self._codec.encode_delete(self._image(row), NO_HANDLE)

    def _values(self, row: Row) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for name, value in row.items():
            column = self._columns.get(name.lower())
            if column is None:
                known = ", ".join(one.name.text for one in self._columns.values())
                raise NoSuchColumn(name, f"{self.name} has {known}")
            if column.virtual:
                raise Generated(name, f"{self.name} computes it")
            if column.name.text in values:
                raise NoSuchColumn(name, "named twice")
            values[column.name.text] = convert(column, value)
        return values

    def _image(self, row: Row) -> dict[str, Value]:
        values = self._values(row)
        for column in self._stored:
            if column.name.text not in values:
                raise MissingValue(
                    column.name.text, f"an image of a row of {self.name} names every column"
                )
        return values

    def _default(self, column: ColumnInfo, now: str) -> Value:
        name = column.name.text
        if column.type.Flag & FLAG_AUTO_INCREMENT:
            raise MissingValue(name, f"{self.name} counts it in a database: give the value here")
        if column.default is None and not (column.type.Tp == T_BIT and column.default_bit):
            if column.not_null:
                raise MissingValue(name, f"{self.name} has no default for it")
            return None
        if column.type.Tp == T_BIT:
            return int.from_bytes(b64decode(column.default_bit or ""), "big")
        text = str(column.default)
        if column.type.Tp in (T_DATETIME, T_TIMESTAMP) and text.upper() == "CURRENT_TIMESTAMP":
            return now[: 20 + column.type.Decimal] if column.type.Decimal > 0 else now[:19]
        if column.default_is_expr:
            raise MissingValue(name, f"its default {text} is an expression: give the value here")
        if column.type.Tp in TIME_TYPES and text.startswith(ZERO_DATE):
            return convert(column, text)
        return _as_read(column, text)


def _as_read(column: ColumnInfo, text: str) -> Value:
    """A default's text as the value that rows with it are read with."""
    info = ColumnInfo(column.id, column.name, column.offset, column.type, origin_default=text)
    return Column(info).default([])
