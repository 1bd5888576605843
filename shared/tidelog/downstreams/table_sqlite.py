"""A table's structure as SQLite's DDL text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.downstreams.collations import collation_of
from tidelog.downstreams.generated_sqlite import expression, same_expression
from tidelog.downstreams.sqlite_values import TEXT, Cell, default_cell, is_number, storage
from tidelog.schema.structure import ColumnStructure, KeyPart, KeyStructure, TableStructure

QuoteName = Callable[[str], str]


def name(identifier: str) -> str:
    """In backticks: SQLite takes a name in double quotes that is no column's for a text, silently,
    and a unique index on that has room for one row."""
    return "`" + identifier.replace("`", "``") + "`"


def place(db: str, table: str) -> str:
    """The name of the one table that holds `db`.`table`: `db.table`."""
    return f"{db}.{table}"


def literal(cell: Cell) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'"
    if isinstance(cell, int | float):
        return repr(cell)
    return "'" + cell.replace("'", "''") + "'"


def virtual(column: ColumnStructure) -> bool:
    """The stream carries the values of stored generated columns: those are plain columns here."""
    return bool(column.generated) and not column.generated_stored


def held_columns(structure: TableStructure, without: Iterable[str] = ()) -> list[ColumnStructure]:
    left_out = frozenset(without)
    return [column for column in structure.columns if column.name not in left_out]


def column(definition: ColumnStructure, structure: TableStructure) -> str:
    text = f"{name(definition.name)} {storage(definition)}"
    keyed = {c for key in structure.keys if key.unique for c in key.columns}
    if definition.name in keyed and storage(definition) == TEXT and not is_number(definition):
        collation = collation_of(definition.collation)
        text += f" COLLATE {collation}" if collation else ""
    if virtual(definition):
        same = same_expression(definition, structure)
        return f"{text} GENERATED ALWAYS AS ({same}) VIRTUAL"
    return text


def untranslatable(structure: TableStructure) -> list[str]:
    """Virtual columns whose expression SQLite has no words for, or may mean otherwise."""
    return [
        c.name for c in structure.columns if virtual(c) and same_expression(c, structure) is None
    ]


def virtual_columns(structure: TableStructure) -> list[str]:
    return [column.name for column in structure.columns if virtual(column)]


def create_table(called: str, structure: TableStructure, without: Iterable[str] = ()) -> str:
    lines = [column(one, structure) for one in held_columns(structure, without)]
    primary = next((key for key in structure.keys if key.primary), None)
    if primary is not None and all(part.column and not part.length for part in primary.parts):
        lines.append(f"PRIMARY KEY ({', '.join(name(c) for c in primary.columns)})")
    return f"CREATE TABLE {name(called)} (\n  " + ",\n  ".join(lines) + "\n)"


def added_column(definition: ColumnStructure, structure: TableStructure) -> str:
    """With a constant default that gives older rows what they have upstream."""
    origin = default_cell(definition)
    return column(definition, structure) + (
        f" DEFAULT {literal(origin)}" if origin is not None else ""
    )


def secondary_keys(structure: TableStructure) -> list[KeyStructure]:
    """Keys that are indexes of their own here."""
    return [
        key for key in structure.keys if not key.primary or any(part.length for part in key.parts)
    ]


def create_index(
    index: str, called: str, key: KeyStructure, structure: TableStructure
) -> str | None:
    """None if a part is an expression that SQLite has no words for. One on expressions, or on what
    SQLite computes, is never unique: they may be equal where the upstream's are not, and REPLACE
    would delete a row. Nor is one on the beginnings of texts, which SQLite ends at a NUL: a unique
    one is on the whole columns, which is finer."""
    computed = {column.name for column in structure.columns if virtual(column)}
    unique = key.unique and all(p.column and p.column not in computed for p in key.parts)
    parts = [_part(part, whole=unique) for part in key.parts]
    if any(part is None for part in parts):
        return None
    listed = ", ".join(part for part in parts if part is not None)
    kind = "UNIQUE INDEX" if unique else "INDEX"
    return f"CREATE {kind} {name(index)} ON {name(called)} ({listed})"


def _part(part: KeyPart, *, whole: bool) -> str | None:
    if not part.column:
        return expression(part.expression)
    cut = part.length and not whole
    return f"substr({name(part.column)}, 1, {part.length})" if cut else name(part.column)
