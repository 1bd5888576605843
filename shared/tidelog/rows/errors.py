"""Errors of the row codecs."""

from __future__ import annotations

from tidelog.errors import BadInput


class Malformed(Exception):
    """Bytes that no TiDB writes. Internal: TableCodec wraps it with the row's position."""


class RowCorrupt(BadInput):
    """A row of a mutation can't be decoded with its table's schema.

    `list_name` is the field of TableMutation, `index` the row's place in it (-1: the mutation as a
    whole), `reason` one clause.
    """

    default_hint = "its bytes or its table's schema are wrong: check the ddl-history"

    def __init__(self, table_id: int, list_name: str, index: int, reason: str) -> None:
        super().__init__(f"table {table_id}, {list_name}[{index}]: {reason}")
        self.table_id = table_id
        self.list_name = list_name
        self.index = index
        self.reason = reason


class BadValue(BadInput):
    """A value can't be written into its column."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column}: {reason}")
        self.column = column
        self.reason = reason
