"""What a MySQL-speaking downstream has in place of an upstream table, and the rule that follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidelog.downstream import TableRule
from tidelog.downstreams.forms import Form, compared
from tidelog.downstreams.literals import quote
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.writing import spelled
from tidelog.schema.structure import KeyPart, TableStructure

Place = tuple[str, str]
Key = tuple[KeyPart, ...]


class Present(msgspec.Struct, frozen=True):
    """A downstream table. `columns`: True where the server computes the value itself; `unique`: the
    keys it enforces; `triggers`, and `referenced` by a foreign key that acts on its changes;
    `forms` of its columns; `needing`: columns that take no NULL and have no default."""

    columns: Mapping[str, bool] = {}
    unique: tuple[Key, ...] = ()
    triggers: bool = False
    referenced: bool = False
    forms: Mapping[str, Form] = {}
    needing: frozenset[str] = frozenset()

    def own_columns(self, structure: TableStructure) -> list[str]:
        """Writable columns that the upstream's rows do not have."""
        names = {column.name for column in structure.columns}
        present = spelled(structure, self.columns)
        return [name for name, computed in present.items() if not computed and name not in names]

    def rule(self, structure: TableStructure) -> TableRule:
        """REPLACE only where nobody notices that a row was away; without it only one unique key
        says which row an upsert meets. Else the table's changes go one by one."""
        noticed = self.triggers or self.referenced or bool(self.own_columns(structure))
        keys = self._keys(structure)
        event_key = frozenset(structure.key_columns)
        enforced = any(_columns(key) == event_key for key in self._enforced(structure))
        ordered = not event_key or not enforced or (noticed and len(keys) > 1)
        forms = spelled(structure, self.forms)
        return TableRule(ordered, not noticed, keys, compared(structure, keys, forms))

    def _keys(self, structure: TableStructure) -> tuple[Key, ...]:
        """The upstream's and the downstream's own, the event's key first."""
        upstream = [key.parts for key in structure.keys if key.unique]
        known = {frozenset(key): key for key in (*upstream, *self._enforced(structure))}
        event_key = frozenset(structure.key_columns)
        return tuple(sorted(known.values(), key=lambda key: _columns(key) != event_key))

    def _enforced(self, structure: TableStructure) -> list[Key]:
        """`unique`, in the upstream's spelling."""
        names = spelled(structure, {name: name for name in self.columns})
        ours = {theirs: name for name, theirs in names.items()}
        return [
            tuple(
                msgspec.structs.replace(part, column=ours.get(part.column, part.column))
                for part in key
            )
            for key in self.unique
        ]


def _columns(key: Key) -> frozenset[str]:
    """Of a key of whole columns; a prefix of one tells rows apart otherwise."""
    return frozenset("" if part.length or part.expression else part.column for part in key)


async def read_present(
    session: MysqlSession, place: Place, referenced: frozenset[Place]
) -> Present | None:
    """None: there is no such table. `referenced` is what `read_referenced` found."""
    where = f"TABLE_SCHEMA = {quote(place[0])} AND TABLE_NAME = {quote(place[1])}"
    columns = await session.rows(
        "SELECT COLUMN_NAME, EXTRA, IS_NULLABLE, COLUMN_DEFAULT, DATA_TYPE, COLLATION_NAME,"
        " CHARACTER_MAXIMUM_LENGTH, NUMERIC_SCALE, DATETIME_PRECISION, COLUMN_TYPE"
        " FROM information_schema.COLUMNS"
        f" WHERE {where} ORDER BY ORDINAL_POSITION"
    )
    if not columns:
        return None
    parts = await session.rows(
        "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        f" WHERE {where} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX"
    )
    triggers = await session.rows(
        "SELECT 1 FROM information_schema.TRIGGERS WHERE"
        f" EVENT_OBJECT_SCHEMA = {quote(place[0])} AND EVENT_OBJECT_TABLE = {quote(place[1])}"
        " LIMIT 1"
    )
    unique: dict[str, Key] = {}
    for index, column, prefix in parts:
        part = KeyPart(str(column), int(prefix or 0)) if column else KeyPart("", 0, "?")
        unique[str(index)] = (*unique.get(str(index), ()), part)
    return Present(
        {str(name): _is_computed(extra) for name, extra, *_ in columns},
        tuple(unique.values()),
        bool(triggers),
        place in referenced,
        {str(name): _form(*rest) for name, _, _, _, *rest in columns},
        frozenset(
            str(name)
            for name, extra, nullable, default, *_ in columns
            if nullable == "NO" and default is None and not _is_filled(extra)
        ),
    )


def _is_computed(extra: Any) -> bool:
    return " GENERATED" in str(extra).upper()


def _is_filled(extra: Any) -> bool:
    return _is_computed(extra) or "AUTO_INCREMENT" in str(extra).upper()


def _form(
    data_type: Any, collation: Any, length: Any, scale: Any, fsp: Any, column_type: Any
) -> Form:
    return Form(
        str(data_type).lower(),
        str(collation or ""),
        int(length or 0),
        int(scale or fsp or 0),
        "unsigned" in str(column_type).lower(),
    )


async def read_referenced(session: MysqlSession) -> frozenset[Place]:
    """The tables to which foreign keys with actions point: those would see a row deleted that is
    only replaced. Of all tables at once, because a server has no faster way to tell."""
    rows = await session.rows(
        "SELECT DISTINCT UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME FROM"
        " information_schema.REFERENTIAL_CONSTRAINTS WHERE"
        " DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION')"
        " OR UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION')"
    )
    return frozenset((str(db), str(table)) for db, table in rows)
