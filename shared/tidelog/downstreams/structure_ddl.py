"""A table's structure as MySQL's DDL text, for what the server at hand can hold. Pure.

Everything that TiDB's own query leaves to its defaults is spelled out: TiDB's default collations
are the `_bin` ones, other servers' are not, and a key under a coarser collation would lose rows.
"""

from __future__ import annotations

import msgspec

from tidelog.downstreams.literals import name, quote, table_name
from tidelog.schema.structure import (
    ColumnStructure,
    ForeignKeyStructure,
    KeyStructure,
    Partitioning,
    PartitionStructure,
    TableStructure,
)

_TEXTS = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"))
_LONG = frozenset(
    ("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob")
)
_MARIADB_COLLATIONS = {
    "utf8mb4_0900_ai_ci": "utf8mb4_uca1400_nopad_ai_ci",
    "utf8mb4_0900_bin": "utf8mb4_nopad_bin",
}


class Flavor(msgspec.Struct, frozen=True):
    """What the server is: `tidb`, `mysql` or `mariadb`, and which collations it has.
    `json_equals`: it has that function (MariaDB since 10.7)."""

    product: str
    collations: frozenset[str]
    json_equals: bool = False

    @property
    def is_tidb(self) -> bool:
        return self.product == "tidb"

    @property
    def is_mysql(self) -> bool:
        return self.product == "mysql"

    @property
    def expression_keys(self) -> bool:
        return self.product != "mariadb"

    def text_as(self, charset: str, collation: str) -> tuple[str, str]:
        """The character set and collation that hold TiDB's text here. TiDB's latin1 takes any
        UTF-8, so it becomes utf8mb4 elsewhere; so does a set whose collation is missing here."""
        if self.product == "mariadb":
            collation = _MARIADB_COLLATIONS.get(collation, collation)
        if self.is_tidb:
            return charset, collation
        modern = collation.replace("utf8_", "utf8mb3_", 1)
        known = collation in self.collations or modern in self.collations
        if charset == "latin1" or not known:
            return "utf8mb4", "utf8mb4_bin"
        return charset, collation


def column(definition: ColumnStructure, flavor: Flavor, *, keyed: bool = True) -> str:
    """`name type …`. `keyed`: the column begins a key, as AUTO_INCREMENT demands."""
    parts = [name(definition.name), _type(definition, flavor)]
    if definition.base in _TEXTS:
        charset, collation = flavor.text_as(definition.charset, definition.collation)
        parts.append(f"CHARACTER SET {charset} COLLATE {collation}")
    if definition.generated:
        kind = "STORED" if definition.generated_stored else "VIRTUAL"
        parts.append(f"GENERATED ALWAYS AS ({definition.generated}) {kind}")
        if flavor.product != "mariadb" and not definition.nullable:
            parts.append("NOT NULL")
    else:
        parts.append("NULL" if definition.nullable else "NOT NULL")
        parts.extend(_default(definition, flavor))
        if definition.auto_increment and keyed:
            parts.append("AUTO_INCREMENT")
    if definition.comment:
        parts.append(f"COMMENT {quote(definition.comment)}")
    return " ".join(parts)


def _type(definition: ColumnStructure, flavor: Flavor) -> str:
    if definition.base == "json" and flavor.product == "mariadb":
        # MariaDB's JSON is this plus a check, which refuses what is nested more than 32 deep.
        return "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    return definition.type


def _default(definition: ColumnStructure, flavor: Flavor) -> list[str]:
    parts: list[str] = []
    default = definition.default
    if default is None:
        if definition.nullable:
            parts.append("DEFAULT NULL")
    elif not definition.default_is_expr:
        literal = quote(default)
        is_long = definition.base in _LONG or definition.base == "json"
        # MySQL takes no literal there, but an expression that is one; TiDB takes neither, and gives
        # older rows what the upstream's TiDB gave them.
        if not (is_long and flavor.is_tidb):
            parts.append(
                f"DEFAULT ({literal})" if is_long and flavor.is_mysql else f"DEFAULT {literal}"
            )
    elif default.startswith(("CURRENT_TIMESTAMP", "b'")):
        parts.append(f"DEFAULT {default}")
    else:
        parts.append(f"DEFAULT ({default})")
    if definition.on_update_now:
        fsp = f"({definition.scale})" if definition.scale > 0 else ""
        parts.append(f"ON UPDATE CURRENT_TIMESTAMP{fsp}")
    return parts


def origin_default(definition: ColumnStructure) -> str | None:
    """What rows older than the column hold: text, or bits as SQL has them. The zero that TiDB gives
    a BIT NOT NULL without a default is the empty text."""
    if definition.base == "bit" and definition.origin_default == "":
        return "b'0'"
    return definition.origin_default


def can_hold_key(definition: KeyStructure, flavor: Flavor) -> bool:
    return flavor.expression_keys or all(part.column for part in definition.parts)


def key(definition: KeyStructure) -> str:
    """`PRIMARY KEY (…)`, `UNIQUE KEY name (…)`, `KEY name (…)`."""
    parts = ",".join(
        f"({part.expression})"
        if not part.column
        else name(part.column) + (f"({part.length})" if part.length else "")
        for part in definition.parts
    )
    if definition.primary:
        return f"PRIMARY KEY ({parts})"
    return f"{'UNIQUE ' if definition.unique else ''}KEY {name(definition.name)} ({parts})"


def foreign_key(definition: ForeignKeyStructure) -> str:
    columns = ",".join(name(c) for c in definition.columns)
    refs = ",".join(name(c) for c in definition.ref_columns)
    table = (
        table_name(definition.ref_db, definition.ref_table)
        if definition.ref_db
        else name(definition.ref_table)
    )
    actions = f" ON DELETE {definition.on_delete}" if definition.on_delete else ""
    actions += f" ON UPDATE {definition.on_update}" if definition.on_update else ""
    constraint = f"CONSTRAINT {name(definition.name)} FOREIGN KEY ({columns})"
    return f"{constraint} REFERENCES {table} ({refs}){actions}"


def partition(definition: PartitionStructure) -> str:
    text = f"PARTITION {name(definition.name)}"
    if definition.less_than:
        return f"{text} VALUES LESS THAN ({','.join(definition.less_than)})"
    values = ",".join(
        one[0] if len(one) == 1 else f"({','.join(one)})" for one in definition.in_values
    )
    return f"{text} VALUES IN ({values})"


def partition_by(partitioning: Partitioning) -> str:
    """`PARTITION BY …`, all partitions included."""
    columns = ",".join(name(c) for c in partitioning.columns)
    if partitioning.method in ("hash", "key"):
        by = f"HASH ({partitioning.expression})" if partitioning.method == "hash" else ""
        by = by or f"KEY ({columns})"
        return f"PARTITION BY {by} PARTITIONS {len(partitioning.partitions)}"
    method = partitioning.method.upper()
    by = f"{method} COLUMNS ({columns})" if columns else f"{method} ({partitioning.expression})"
    listed = ",".join(partition(one) for one in partitioning.partitions)
    return f"PARTITION BY {by} ({listed})"


def table_options(structure: TableStructure, flavor: Flavor) -> str:
    charset, collation = flavor.text_as(
        structure.charset or "utf8mb4", structure.collation or "utf8mb4_bin"
    )
    text = f"DEFAULT CHARACTER SET {charset} COLLATE {collation}"
    if structure.comment:
        text += f" COMMENT {quote(structure.comment)}"
    return text


def first_key_columns(structure: TableStructure, flavor: Flavor) -> frozenset[str]:
    """Of the keys that the server can hold."""
    return frozenset(key.columns[0] for key in structure.keys if can_hold_key(key, flavor))


def create_table(
    db: str,
    structure: TableStructure,
    flavor: Flavor,
    *,
    partitioned: bool = True,
    foreign_keys: bool = True,
    expressions: bool = True,
) -> str:
    """CREATE TABLE IF NOT EXISTS, without what the flags leave out."""
    keyed = first_key_columns(structure, flavor)
    lines = [
        column(_plain(one) if not expressions else one, flavor, keyed=one.name in keyed)
        for one in structure.columns
    ]
    lines += [key(one) for one in structure.keys if can_hold_key(one, flavor)]
    if foreign_keys:
        lines += [foreign_key(one) for one in structure.foreign_keys]
    text = f"CREATE TABLE IF NOT EXISTS {table_name(db, structure.name)} (\n  "
    text += ",\n  ".join(lines) + f"\n) ENGINE=InnoDB {table_options(structure, flavor)}"
    if partitioned and structure.partitioning is not None:
        text += " " + partition_by(structure.partitioning)
    return text


def _plain(definition: ColumnStructure) -> ColumnStructure:
    """Without an expression that the server may not know: the stream carries the values."""
    default = definition.default or ""
    simple = default.startswith(("CURRENT_TIMESTAMP", "b'"))
    if definition.default_is_expr and not simple:
        return msgspec.structs.replace(definition, default=None, default_is_expr=False)
    if definition.generated_stored:
        return msgspec.structs.replace(definition, generated="", generated_stored=False)
    return definition
