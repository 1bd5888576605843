"""Which columns identify a row of a table (design section 5: `key`)."""

from __future__ import annotations

from tidelog.schema.model import FLAG_PRIMARY, IndexInfo, TableInfo

_PUBLIC = 5


def primary_index(table: TableInfo) -> IndexInfo | None:
    """The primary key's index; None for a table without one and for an int-handle one."""
    for index in table.indexes:
        if index.is_primary:
            return index
    return None


def handle_column(table: TableInfo) -> int | None:
    """Offset of the integer primary key that is the handle itself, if the table has one."""
    if table.pk_is_handle:
        for at, column in enumerate(table.columns):
            if column.type.Flag & FLAG_PRIMARY:
                return at
    return None


def key_columns(table: TableInfo) -> tuple[str, ...]:
    """Primary key, else the first NOT NULL unique key, else ().

    Keys over hidden or virtual columns don't count: the rows of inserts and updates lack them.
    """
    columns = table.columns
    handle = handle_column(table)
    if handle is not None:
        return (columns[handle].name.text,)
    for index in sorted(table.indexes, key=lambda index: not index.is_primary):
        if not (index.is_primary or index.is_unique) or index.state != _PUBLIC or index.mv_index:
            continue
        parts = [columns[part.offset] for part in index.idx_cols]
        if all(part.not_null and part.public and not part.virtual for part in parts):
            return tuple(part.name.text for part in parts)
    return ()
