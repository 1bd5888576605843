"""A table's structure as the outside sees it: in DDL messages, in the KV bucket, in the Applier.

Free of SQL dialect and of TiDB's numbers: only public columns, types as names and as MySQL's text.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Final

import msgspec

from tidelog.rows.key_columns import handle_column, key_columns
from tidelog.schema.history import TableAt
from tidelog.schema.jobs import STATE_PUBLIC
from tidelog.schema.model import (
    FLAG_AUTO_INCREMENT,
    FLAG_ON_UPDATE_NOW,
    FLAG_UNSIGNED,
    FLAG_ZEROFILL,
    ColumnInfo,
    FieldType,
    ForeignKey,
    IndexInfo,
    PartitionInfo,
    TableInfo,
)

_TYPE_NAMES: Final = {
    0: "decimal",
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    6: "null",
    7: "timestamp",
    8: "bigint",
    9: "mediumint",
    10: "date",
    11: "time",
    12: "datetime",
    13: "year",
    14: "date",
    15: "varchar",
    16: "bit",
    245: "json",
    246: "decimal",
    247: "enum",
    248: "set",
    249: "tinyblob",
    250: "mediumblob",
    251: "longblob",
    252: "blob",
    253: "varchar",
    254: "char",
    255: "geometry",
}
_BINARY_NAMES: Final = {"varchar": "varbinary", "char": "binary"}
_STRINGS: Final = frozenset((15, 249, 250, 251, 252, 253, 254))
_WITH_LENGTH: Final = frozenset((1, 2, 3, 8, 9, 13, 15, 16, 253, 254))
_WITH_SCALE: Final = frozenset((4, 5, 246))
_WITH_FSP: Final = frozenset((7, 11, 12))
_NUMERIC: Final = frozenset((1, 2, 3, 4, 5, 8, 9, 246))
_BIT: Final = 16


class ColumnStructure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One public column.

    `type` is MySQL's text for it, `base` the type's bare name (`bigint`, `varbinary`, `text`).
    `length` is MySQL's display width or length in characters, `scale` the fraction digits of
    numbers and times; -1 = not given. `default` is text, null for none (of a nullable column:
    NULL); with `default_is_expr` it is an expression (`CURRENT_TIMESTAMP(3)`, `b'101'`), not a
    literal. `origin_default` is what rows hold that are older than the column.
    """

    name: str
    type: str
    base: str
    length: int = -1
    scale: int = -1
    unsigned: bool = False
    zerofill: bool = False
    nullable: bool = True
    default: str | None = None
    default_is_expr: bool = False
    origin_default: str | None = None
    auto_increment: bool = False
    charset: str = ""
    collation: str = ""
    elems: tuple[str, ...] = ()
    binary: bool = False
    """Values are bytes: base64 in events."""
    generated: str = ""
    """The expression of a generated column."""
    generated_stored: bool = False
    on_update_now: bool = False
    comment: str = ""
    id: int = 0
    """TiDB's column id, which a rename keeps."""


class KeyPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of a key; `length` > 0 is a prefix length. An `expression` stands for a column
    that nobody sees; `column` is empty then."""

    column: str = ""
    length: int = 0
    expression: str = ""


class KeyStructure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key. The primary key is called PRIMARY."""

    name: str
    parts: tuple[KeyPart, ...]
    unique: bool = False
    primary: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; "" where a part is an expression."""
        return tuple(part.column for part in self.parts)


class ForeignKeyStructure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A foreign key. `ref_db` is empty where it is the table's own schema; actions are MySQL's
    words, empty for none."""

    name: str
    columns: tuple[str, ...]
    ref_table: str
    ref_columns: tuple[str, ...]
    ref_db: str = ""
    on_delete: str = ""
    on_update: str = ""


class PartitionStructure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition. `less_than` and `in_values` are SQL text (`10`, `MAXVALUE`, `'a'`)."""

    name: str
    less_than: tuple[str, ...] = ()
    in_values: tuple[tuple[str, ...], ...] = ()
    id: int = 0
    """TiDB's physical id: TRUNCATE and EXCHANGE PARTITION give the partition a new one."""


class Partitioning(msgspec.Struct, frozen=True, omit_defaults=True):
    """`method`: range, hash, list or key; by `columns` if there are any, else by `expression`."""

    method: str
    expression: str = ""
    columns: tuple[str, ...] = ()
    partitions: tuple[PartitionStructure, ...] = ()


class TableStructure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table (or view, or sequence) at one schema version.

    `key_columns`: primary key, else first NOT NULL unique key, else empty: the columns of an
    event's `key`. `definition`: a view's SELECT, a sequence's options.
    """

    name: str
    version: int
    kind: str = "table"
    columns: tuple[ColumnStructure, ...] = ()
    keys: tuple[KeyStructure, ...] = ()
    key_columns: tuple[str, ...] = ()
    charset: str = ""
    collation: str = ""
    comment: str = ""
    definition: str = ""
    id: int = 0
    """TiDB's table id: RECOVER TABLE brings it back, TRUNCATE gives a new one."""
    foreign_keys: tuple[ForeignKeyStructure, ...] = ()
    partitioning: Partitioning | None = None


def structure(table: TableAt) -> TableStructure:
    """The public structure of a table."""
    info = table.info
    kind, definition = _kind(info)
    return TableStructure(
        name=table.name,
        version=table.version,
        kind=kind,
        columns=tuple(_column(column) for column in info.columns if column.public),
        keys=_keys(info),
        key_columns=key_columns(info),
        charset=info.charset,
        collation=info.collate,
        comment=info.comment,
        definition=definition,
        id=info.id,
        foreign_keys=tuple(_foreign_key(key) for key in info.fk_info or ()),
        partitioning=_partitioning(info.partition),
    )


def type_text(field: FieldType) -> str:
    """MySQL's text for a type: `bigint(20) unsigned`, `enum('a','b')`, `datetime(3)`."""
    base = _base(field)
    text = base
    if field.Tp in (247, 248):
        quoted = ",".join("'" + elem.replace("'", "''") + "'" for elem in field.Elems or ())
        return f"{base}({quoted})"
    if field.Tp in _WITH_SCALE and field.Flen >= 0 and field.Decimal >= 0:
        text = f"{base}({field.Flen},{field.Decimal})"
    elif field.Tp in _WITH_FSP and field.Decimal > 0:
        text = f"{base}({field.Decimal})"
    elif field.Tp in _WITH_LENGTH and field.Flen >= 0:
        text = f"{base}({field.Flen})"
    if field.Tp in _NUMERIC and field.Flag & FLAG_UNSIGNED:
        text += " unsigned"
    if field.Tp in _NUMERIC and field.Flag & FLAG_ZEROFILL:
        text += " zerofill"
    return text


def _base(field: FieldType) -> str:
    name = _TYPE_NAMES.get(field.Tp, f"unknown_{field.Tp}")
    if field.Tp not in _STRINGS:
        return name
    if field.Charset == "binary":
        return _BINARY_NAMES.get(name, name)
    return name.replace("blob", "text")


def _kind(info: TableInfo) -> tuple[str, str]:
    if info.view is not None:
        return "view", info.view.view_select
    sequence = info.sequence
    if sequence is not None:
        cache = f"cache {sequence.sequence_cache_value}" if sequence.sequence_cache else "nocache"
        return "sequence", (
            f"start with {sequence.sequence_start} minvalue {sequence.sequence_min_value}"
            f" maxvalue {sequence.sequence_max_value} increment by {sequence.sequence_increment}"
            f" {cache} {'cycle' if sequence.sequence_cycle else 'nocycle'}"
        )
    return "table", ""


def _column(info: ColumnInfo) -> ColumnStructure:
    field = info.type
    default, is_expr = _default(info)
    origin = info.origin_default
    return ColumnStructure(
        name=info.name.text,
        type=type_text(field),
        base=_base(field),
        length=field.Flen,
        scale=field.Decimal,
        unsigned=bool(field.Flag & FLAG_UNSIGNED) and field.Tp in _NUMERIC,
        zerofill=bool(field.Flag & FLAG_ZEROFILL) and field.Tp in _NUMERIC,
        nullable=not info.not_null,
        default=default,
        default_is_expr=is_expr,
        origin_default=_bits(info.origin_default_bit) or (None if origin is None else str(origin)),
        auto_increment=bool(field.Flag & FLAG_AUTO_INCREMENT),
        charset=field.Charset,
        collation=field.Collate,
        elems=field.Elems or (),
        binary=field.Tp in _STRINGS and field.Charset == "binary",
        generated=info.generated_expr_string,
        generated_stored=info.generated_stored,
        on_update_now=bool(field.Flag & FLAG_ON_UPDATE_NOW),
        comment=info.comment,
        id=info.id,
    )


def _default(info: ColumnInfo) -> tuple[str | None, bool]:
    field = info.type
    if field.Tp == _BIT:
        bits = _bits(info.default_bit)
        return bits, bits is not None
    if info.default is None:
        return None, False
    text = str(info.default)
    # TiDB stores the bare word, whatever the column's precision.
    if field.Tp in (7, 12) and text.upper() == "CURRENT_TIMESTAMP":
        fsp = f"({field.Decimal})" if field.Decimal > 0 else ""
        return f"CURRENT_TIMESTAMP{fsp}", True
    if field.Tp in (7, 10, 12, 14) and text.upper() == "CURRENT_DATE":
        return "CURRENT_DATE", True
    return text, info.default_is_expr


def _bits(encoded: str | None) -> str | None:
    return f"b'{int.from_bytes(b64decode(encoded), 'big'):b}'" if encoded else None


def _keys(info: TableInfo) -> tuple[KeyStructure, ...]:
    keys: list[KeyStructure] = []
    at = handle_column(info)
    if at is not None:
        part = KeyPart(info.columns[at].name.text)
        keys.append(KeyStructure("PRIMARY", (part,), unique=True, primary=True))
    keys.extend(_key(info, index) for index in info.indexes if index.state == STATE_PUBLIC)
    return tuple(keys)


def _key(info: TableInfo, index: IndexInfo) -> KeyStructure:
    parts: list[KeyPart] = []
    for part in index.idx_cols:
        column = info.columns[part.offset]
        length = max(part.length, 0)
        if column.hidden:
            parts.append(KeyPart("", length, column.generated_expr_string))
        else:
            parts.append(KeyPart(column.name.text, length))
    name = "PRIMARY" if index.is_primary else index.idx_name.text
    return KeyStructure(name, tuple(parts), index.is_unique or index.is_primary, index.is_primary)


_ACTIONS: Final = ("", "RESTRICT", "CASCADE", "SET NULL", "NO ACTION", "SET DEFAULT")
_METHODS: Final = {1: "range", 2: "hash", 3: "list", 4: "key"}


def _foreign_key(key: ForeignKey) -> ForeignKeyStructure:
    return ForeignKeyStructure(
        name=key.fk_name.text,
        columns=tuple(column.text for column in key.cols),
        ref_table=key.ref_table.text,
        ref_columns=tuple(column.text for column in key.ref_cols),
        ref_db=key.ref_schema.text,
        on_delete=_ACTIONS[key.on_delete],
        on_update=_ACTIONS[key.on_update],
    )


def _partitioning(info: PartitionInfo | None) -> Partitioning | None:
    if info is None or not info.enable:
        return None
    return Partitioning(
        method=_METHODS.get(info.type, f"unknown_{info.type}"),
        expression=info.expr,
        columns=tuple(column.text for column in info.columns or ()),
        partitions=tuple(
            PartitionStructure(one.name.text, one.less_than or (), one.in_values or (), one.id)
            for one in info.definitions or ()
        ),
    )
