"""What a server's information_schema says of a table -> its structure. Pure.

Rows are as the driver of `values.DECODERS` gives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tidelog.schema.structure import (
    ColumnStructure,
    ForeignKeyStructure,
    KeyPart,
    KeyStructure,
    TableStructure,
)
from tidelog_backfill.snapshot.dump_rows import unescaped

COLUMNS = (
    "SELECT COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA,"
    " CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_COMMENT, GENERATION_EXPRESSION"
    " FROM information_schema.COLUMNS WHERE {where} ORDER BY ORDINAL_POSITION"
)
KEYS = "SHOW INDEX FROM {table}"
"""In the order in which the table has them, which information_schema does not tell: the first of
several unique keys is the stream's."""
FOREIGN_KEYS = (
    "SELECT u.CONSTRAINT_NAME, u.COLUMN_NAME, u.REFERENCED_TABLE_SCHEMA, u.REFERENCED_TABLE_NAME,"
    " u.REFERENCED_COLUMN_NAME, r.DELETE_RULE, r.UPDATE_RULE"
    " FROM information_schema.KEY_COLUMN_USAGE u JOIN information_schema.REFERENTIAL_CONSTRAINTS r"
    " ON r.CONSTRAINT_SCHEMA = u.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = u.CONSTRAINT_NAME"
    " AND r.TABLE_NAME = u.TABLE_NAME"
    " WHERE u.TABLE_SCHEMA = {db} AND u.TABLE_NAME = {table}"
    " AND u.REFERENCED_TABLE_NAME IS NOT NULL ORDER BY u.CONSTRAINT_NAME, u.ORDINAL_POSITION"
)
JSON_CHECKS = (
    "SELECT CONSTRAINT_NAME FROM information_schema.CHECK_CONSTRAINTS WHERE"
    " CONSTRAINT_SCHEMA = {db} AND TABLE_NAME = {table} AND CHECK_CLAUSE LIKE 'json_valid%'"
)
"""MariaDB's JSON is a LONGTEXT with this check, which is called like the column."""
CHECKS = (
    "SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE {where}"
    " AND CONSTRAINT_TYPE = 'CHECK' ORDER BY 1"
)

_NUMBERS = re.compile(r"\((\d+)(?:,(\d+))?\)")
_ELEMENT = re.compile(r"'((?:[^'\\]|\\.|'')*)'", re.DOTALL)
_NOW = re.compile(r"current_timestamp(?:\((\d*)\))?", re.IGNORECASE)
_TIMES = frozenset(("time", "datetime", "timestamp"))
_OTHER_KEYS = frozenset(("FULLTEXT", "SPATIAL"))
_BLOBS = ("binary", "blob")
_NUMERIC = frozenset(
    ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double")
)

Row = Sequence[Any]


def column(row: Row, *, is_mariadb: bool, is_json: bool = False) -> ColumnStructure:
    """Of a row of COLUMNS."""
    name, kind, base, nullable, default, extra, charset, collation, comment, generated = row
    base = "json" if is_json else str(base).lower()
    words = str(extra or "").lower()
    length, scale = _sizes(kind, base)
    text, is_expression = _default(base, default, words, is_mariadb=is_mariadb)
    return ColumnStructure(
        name=name,
        type="json" if is_json else kind,
        base=base,
        length=length,
        scale=scale,
        unsigned="unsigned" in kind and base in _NUMERIC,
        zerofill="zerofill" in kind and base in _NUMERIC,
        nullable=nullable == "YES",
        default=None if generated else text,
        default_is_expr=is_expression and not generated,
        auto_increment="auto_increment" in words,
        charset="binary" if base.endswith(_BLOBS) else str(charset or ""),
        collation="binary" if base.endswith(_BLOBS) else str(collation or ""),
        elems=_elements(kind) if base in ("enum", "set") else (),
        binary=base.endswith(_BLOBS),
        generated=generated or "",
        generated_stored=bool(generated) and ("stored" in words or "persistent" in words),
        on_update_now="on update" in words,
        comment=comment or "",
    )


def key_part(row: Row) -> Row:
    """(key, is it not unique, column, prefix, type) of a row of KEYS. No column: an expression,
    beside which TiDB names one that is none."""
    expression = row[14] if len(row) > 14 else None
    return row[2], row[1], None if expression else row[4], row[7], row[10]


def table(
    name: str,
    columns: Sequence[ColumnStructure],
    keys: Iterable[Row],
    foreign_keys: Iterable[Row],
    *,
    collation: str,
    comment: str,
) -> TableStructure:
    """`keys` are a `key_part` each, `foreign_keys` rows of FOREIGN_KEYS; without the keys
    `left_out`."""
    found = tuple(
        KeyStructure(
            index,
            tuple(KeyPart(str(one[2]), int(one[3] or 0)) for one in rows),
            unique=not int(rows[0][1] or 0),
            primary=index == "PRIMARY",
        )
        for index, rows in _parts(keys).items()
        if not _why_not(rows)
    )
    return TableStructure(
        name=name,
        version=0,
        columns=tuple(columns),
        keys=found,
        key_columns=key_columns(found, columns),
        charset=collation.partition("_")[0],
        collation=collation,
        comment=comment,
        foreign_keys=tuple(_foreign_keys(foreign_keys)),
    )


def left_out(keys: Iterable[Row]) -> list[str]:
    """The keys that a copy doesn't get, a phrase each. `keys` are a `key_part` each."""
    found = ((index, _why_not(rows)) for index, rows in _parts(keys).items())
    return [f"the key {index} ({why})" for index, why in found if why]


def changed(columns: Iterable[Row], checks: Iterable[str]) -> list[str]:
    """What else a copy doesn't have as the source, a phrase each: of rows of COLUMNS, and of CHECKS
    that are no JSON_CHECKS."""
    found = [f"the CHECK {name}" for name in checks]
    for row in columns:
        if "invisible" in str(row[5] or "").lower():
            found.append(f"INVISIBLE of column {row[0]}")
        if row[6] == "latin1":
            found.append(f"latin1 of column {row[0]}, which is utf8mb4_bin there")
    return found


def _parts(keys: Iterable[Row]) -> dict[str, list[Row]]:
    parts: dict[str, list[Row]] = {}
    for row in keys:
        parts.setdefault(str(row[0]), []).append(row)
    return parts


def _why_not(parts: Sequence[Row]) -> str:
    """Why a key is left out: it has no KeyStructure."""
    kind = str(parts[0][4])
    if kind in _OTHER_KEYS:
        return kind
    return "an expression" if any(one[2] is None for one in parts) else ""


def key_columns(
    keys: Iterable[KeyStructure], columns: Iterable[ColumnStructure]
) -> tuple[str, ...]:
    """Of the primary key, else of the first unique key whose columns are all NOT NULL and not
    virtual: what `tidelog.rows.key_columns` chooses for the stream."""
    usable = {one.name for one in columns if not one.nullable and _has_values(one)}
    for key in sorted(keys, key=lambda one: not one.primary):
        if key.unique and usable.issuperset(key.columns):
            return key.columns
    return ()


def _has_values(column: ColumnStructure) -> bool:
    return not column.generated or column.generated_stored


def _sizes(kind: str, base: str) -> tuple[int, int]:
    found = _NUMBERS.search(kind)
    if found is None or base in ("enum", "set"):
        return -1, -1
    if base in _TIMES:
        return -1, int(found[1])
    return int(found[1]), int(found[2]) if found[2] else -1


def _elements(kind: str) -> tuple[str, ...]:
    return tuple(unescaped(text, "'") for text in _ELEMENT.findall(kind))


def _default(
    base: str, default: str | None, extra: str, *, is_mariadb: bool
) -> tuple[str | None, bool]:
    """The text, and whether it is an expression. MariaDB gives a default as one writes it, others
    give its text."""
    if default is None or (is_mariadb and default == "NULL"):
        return None, False
    now = _NOW.fullmatch(default) if base in _TIMES else None
    if now is not None:
        return f"CURRENT_TIMESTAMP({now[1]})" if now[1] else "CURRENT_TIMESTAMP", True
    if default.startswith("b'"):
        return default, True
    if is_mariadb and default.startswith("'"):
        return unescaped(default[1:-1], "'"), False
    is_number = re.fullmatch(r"-?[0-9.]+(?:e[+-]?[0-9]+)?", default) is not None
    return default, (not is_number) if is_mariadb else "default_generated" in extra


def _foreign_keys(rows: Iterable[Row]) -> Iterable[ForeignKeyStructure]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(str(row[0]), []).append(row)
    for name, parts in grouped.items():
        _, _, db, table_name, _, on_delete, on_update = parts[0]
        yield ForeignKeyStructure(
            name,
            tuple(str(part[1]) for part in parts),
            str(table_name),
            tuple(str(part[4]) for part in parts),
            ref_db=str(db or ""),
            on_delete=str(on_delete or ""),
            on_update=str(on_update or ""),
        )
