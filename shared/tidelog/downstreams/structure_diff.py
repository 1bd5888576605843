"""What differs between two structures of a table. Pure."""

from __future__ import annotations

import re

import msgspec

from tidelog.schema.structure import (
    ColumnStructure,
    ForeignKeyStructure,
    KeyStructure,
    TableStructure,
)


class ColumnChange(msgspec.Struct, frozen=True):
    """A column to add (`before` None) or change. `place`: the column it follows, "" = first, None
    = it stays where it is (an added one: last)."""

    before: ColumnStructure | None
    after: ColumnStructure
    place: str | None = None


class TableDiff(msgspec.Struct, frozen=True):
    """All lists are in an order in which one ALTER TABLE can name them."""

    dropped_columns: list[ColumnStructure]
    columns: list[ColumnChange]
    dropped_keys: list[KeyStructure]
    added_keys: list[KeyStructure]
    renamed_keys: list[tuple[str, str]]
    dropped_foreign_keys: list[ForeignKeyStructure]
    added_foreign_keys: list[ForeignKeyStructure]
    defaults: tuple[str, str] | None
    """The table's new default character set and collation."""
    comment: str | None


def diff(before: TableStructure, after: TableStructure, query: str = "") -> TableDiff:
    """What makes `after` of `before`; names and partitioning aside."""
    pairs = _pairs(before, after, query)
    kept = {column.name for column in pairs.values()}
    renamed = {column.name: name for name, column in pairs.items()}
    dropped_keys, added_keys, renamed_keys = _keys(before, after, renamed)
    old = {key.name: key for key in before.foreign_keys}
    new = {key.name: key for key in after.foreign_keys}
    changed = (before.charset, before.collation) != (after.charset, after.collation)
    return TableDiff(
        dropped_columns=[column for column in before.columns if column.name not in kept],
        columns=_columns(before, after, pairs),
        dropped_keys=dropped_keys,
        added_keys=added_keys,
        renamed_keys=renamed_keys,
        dropped_foreign_keys=[key for name, key in old.items() if name not in new],
        added_foreign_keys=[key for name, key in new.items() if name not in old],
        defaults=(after.charset, after.collation) if changed else None,
        comment=after.comment if before.comment != after.comment else None,
    )


def same_shape(before: ColumnStructure, after: ColumnStructure) -> bool:
    """Equal but for the name and what only old rows hold."""
    return _neutral(before) == _neutral(after)


def _neutral(column: ColumnStructure) -> ColumnStructure:
    return msgspec.structs.replace(column, name="", origin_default=None, id=0)


def _pairs(before: TableStructure, after: TableStructure, query: str) -> dict[str, ColumnStructure]:
    """The old column of each column that isn't new, by its new name.

    By id; a change that converts data gives the column a new id, so next by name, and last by what
    the query says it renames.
    """
    ids = {column.id: column for column in before.columns if column.id}
    names = {column.name.lower(): column for column in before.columns}
    pairs = {column.name: ids[column.id] for column in after.columns if column.id in ids}
    taken = {column.name for column in pairs.values()}
    sources = {new: old for old, new in renamed_columns(query)}
    for column in after.columns:
        for name in (column.name.lower(), sources.get(column.name.lower(), "")):
            old = names.get(name)
            if column.name not in pairs and old is not None and old.name not in taken:
                pairs[column.name] = old
                taken.add(old.name)
    return pairs


_NAME = r"(`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[^\s`\",;()]+)"
_CHANGE = re.compile(rf"\bCHANGE\s+(?:COLUMN\s+)?{_NAME}\s+{_NAME}", re.IGNORECASE)
_RENAME = re.compile(rf"\bRENAME\s+COLUMN\s+{_NAME}\s+TO\s+{_NAME}", re.IGNORECASE)


def renamed_columns(query: str) -> list[tuple[str, str]]:
    """(old, new) names in `CHANGE COLUMN` and `RENAME COLUMN`, in lower case. The text may be
    TiDB's normalised one or the user's own."""
    found = _CHANGE.findall(query) + _RENAME.findall(query)
    return [(_bare(old), _bare(new)) for old, new in found]


def _bare(name: str) -> str:
    quote = name[0]
    if quote in '`"':
        name = name[1:-1].replace(quote * 2, quote)
    return name.lower()


def _columns(
    before: TableStructure, after: TableStructure, pairs: dict[str, ColumnStructure]
) -> list[ColumnChange]:
    """Walk the new order, moving or adding what is not where it should be."""
    names = {column.name: name for name, column in pairs.items()}
    present = [names[column.name] for column in before.columns if column.name in names]
    changes: list[ColumnChange] = []
    for at, column in enumerate(after.columns):
        name, old = column.name, pairs.get(column.name)
        place = after.columns[at - 1].name if at else ""
        if old is None:
            last = at == len(present)
            present.insert(at, name)
            changes.append(ColumnChange(None, column, None if last else place))
        elif present[at] != name:
            present.remove(name)
            present.insert(at, name)
            changes.append(ColumnChange(old, column, place))
        elif old.name != name or not same_shape(old, column):
            changes.append(ColumnChange(old, column))
    return changes


def _keys(
    before: TableStructure, after: TableStructure, renamed: dict[str, str]
) -> tuple[list[KeyStructure], list[KeyStructure], list[tuple[str, str]]]:
    old = {key.name: _with_names(key, renamed) for key in before.keys}
    new = {key.name: key for key in after.keys}
    dropped = [key for key in before.keys if old[key.name] != new.get(key.name)]
    added = [key for key in after.keys if key != old.get(key.name)]
    renames: list[tuple[str, str]] = []
    for key in list(dropped):
        if key.name in new or key.primary:
            continue
        twin = next((k for k in added if k.name not in old and _same(old[key.name], k)), None)
        if twin is not None:
            renames.append((key.name, twin.name))
            dropped.remove(key)
            added.remove(twin)
    return dropped, added, renames


def _same(before: KeyStructure, after: KeyStructure) -> bool:
    return msgspec.structs.replace(before, name=after.name) == after


def _with_names(key: KeyStructure, renamed: dict[str, str]) -> KeyStructure:
    parts = [
        msgspec.structs.replace(part, column=renamed.get(part.column, part.column))
        for part in key.parts
    ]
    return msgspec.structs.replace(key, parts=tuple(parts))
