"""The SQL that makes the texts of `kinds` inside a MySQL-speaking server. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog_cli.verify.kinds import Kind
from tidelog_cli.verify.sides import Bucket, Chunk, Key, Range
from tidelog_cli.verify.tables import Column, Part

TEXTS = {"char": Kind.TEXT, "varchar": Kind.TEXT, "enum": Kind.TEXT, "set": Kind.TEXT}
_KINDS = TEXTS | {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), Kind.INT),
    **dict.fromkeys(("bit", "year"), Kind.INT),
    "decimal": Kind.DECIMAL,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    **dict.fromkeys(("date", "datetime", "timestamp", "time"), Kind.TIME),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), Kind.LONG_TEXT),
    **dict.fromkeys(("binary", "varbinary"), Kind.BINARY),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), Kind.LONG_BINARY),
    "json": Kind.JSON,
}
_UNORDERED = {"enum", "set"}
"""Servers order them by number, and the numbers may differ."""
_SHORT = 255


def column_of(name: str, data_type: str, length: int, collation: str, *, is_json: bool) -> Column:
    """`length`: of a character or binary column, in characters. `is_json`: MariaDB's own way."""
    kind = Kind.JSON if is_json else _KINDS.get(data_type)
    if kind is None:
        # Of another server's own types (INET6, UUID) the text, of geometry and vectors the bytes.
        kind = (
            Kind.TEXT if collation or data_type in ("uuid", "inet4", "inet6") else Kind.LONG_BINARY
        )
    if length > _SHORT and kind in (Kind.TEXT, Kind.BINARY):
        kind = Kind.LONG_TEXT if kind is Kind.TEXT else Kind.LONG_BINARY
    return Column(name, kind, collation, data_type not in _UNORDERED)


def name(identifier: str) -> str:
    return "`" + identifier.replace("`", "``") + "`"


def quote(text: str) -> str:
    """Under NO_BACKSLASH_ESCAPES."""
    return "'" + text.replace("'", "''") + "'"


def place(part: Part) -> str:
    return f"{name(part.db)}.{name(part.table)}"


def plain(column: Column) -> str:
    """The column's plain text; NULL stays NULL."""
    value, kind = name(column.name), column.kind
    if kind is Kind.INT:
        return f"CAST({value}+0 AS CHAR)"
    if kind is Kind.DECIMAL:
        text = f"CAST({value}+0 AS CHAR)"
        trimmed = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"
        return f"IF(LOCATE('.',{text}),{trimmed},{text})"
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return f"CAST({value}+0e0 AS CHAR)"
    if kind in (Kind.BINARY, Kind.LONG_BINARY):
        return f"HEX({value})"
    if kind in (Kind.TEXT, Kind.LONG_TEXT):
        return f"CONVERT({value} USING utf8mb4)"
    return f"CAST({value} AS CHAR)"


def piece(column: Column) -> str:
    text = plain(column)
    if column.kind is Kind.TEXT:
        text = f"CONCAT(LENGTH({text}),':',{text})"
    elif column.kind in (Kind.LONG_TEXT, Kind.JSON):
        text = f"MD5({text})"
    elif column.kind is Kind.LONG_BINARY:
        text = f"MD5({name(column.name)})"
    return f"IFNULL({text},'n')"


def row_hash(part: Part) -> str:
    return f"MD5(CONCAT_WS(',',{','.join(map(piece, part.columns))}))"


def summed(hashed: str) -> str:
    """Rows, both halves, and how many rows have no hash (there must be none)."""
    high, low = (f"SUM(CAST(CONV({half},16,10) AS UNSIGNED))" for half in _halves(hashed))
    return f"COUNT(*),{high},{low},COUNT(*)-COUNT({hashed})"


def _halves(hashed: str) -> tuple[str, str]:
    return f"LEFT({hashed},16)", f"RIGHT({hashed},16)"


def bucket(part: Part, of: int) -> str:
    chosen = [piece(part.columns[at]) for at in part.bucketed]
    return f"CRC32(CONCAT_WS(',',{','.join(chosen)}))%{of}" if chosen else "0"


def where(part: Part, chunk: Chunk) -> str:
    if isinstance(chunk, Bucket):
        return f"{bucket(part, chunk.of)}={chunk.number}"
    return _within(part, chunk)


def _within(part: Part, chunk: Range) -> str:
    bounds = [
        _beyond(part, key, sign)
        for key, sign in ((chunk.after, ">"), (chunk.upto, "<"))
        if key is not None
    ]
    return " AND ".join(bounds) or "TRUE"


def _beyond(part: Part, key: Key, sign: str) -> str:
    """Above a key; or below it, itself included. The bare first column is what an index is asked
    for."""
    columns = part.key_columns
    literals = [_literal(column, value) for column, value in zip(columns, key, strict=True)]
    names = [name(column.name) for column in columns]
    steps = []
    for at in range(len(names)):
        same = [f"{n}={v}" for n, v in zip(names[:at], literals[:at], strict=True)]
        steps.append(" AND ".join([*same, f"{names[at]}{sign}{literals[at]}"]))
    if sign == "<":
        steps.append(" AND ".join(f"{n}={v}" for n, v in zip(names, literals, strict=True)))
    if len(names) == 1:
        return f"{names[0]}{sign if sign == '>' else '<='}{literals[0]}"
    return f"({names[0]}{sign}={literals[0]} AND ({' OR '.join(steps)}))"


def _literal(column: Column, value: str | None) -> str:
    assert value is not None, "a key's columns are NOT NULL"
    if column.kind in (Kind.INT, Kind.DECIMAL):
        return value
    if column.kind in (Kind.BINARY, Kind.LONG_BINARY):
        return f"x'{value}'"
    return quote(value)


def ordered(part: Part) -> str:
    return ",".join(name(column.name) for column in part.key_columns)


def plains(columns: Iterable[Column]) -> str:
    """A list to select; never empty."""
    return ",".join(map(plain, columns)) or "NULL"
