"""What an SQLite downstream's table has of its own: columns, indexes, triggers that somebody added.

A table that a DDL makes anew would lose them: they are taken from the old one first and given to
the new one.
"""

from __future__ import annotations

import re
import sqlite3
from typing import NamedTuple

from tidelog.downstreams.table_sqlite import name
from tidelog.schema.structure import TableStructure

OURS = re.compile(r"-?\d+(?:_\d+)?\.(.*)", re.DOTALL)
"""An index of ours is named `<table id>.<key>`, with a number where that was taken."""


_REFUSALS = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)


def is_refusal(error: sqlite3.Error) -> bool:
    """Of the statement alone, which has changed nothing. Whatever else fails, a write or a full
    disk, may have undone the whole transaction, and is no reason to do without."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _REFUSALS


class Own(NamedTuple):
    """`columns`: their definitions by name, empty where SQLite does not tell it. `parts`: what it
    is, and the statement that makes it."""

    columns: dict[str, str]
    parts: list[tuple[str, str]]


def take(db: sqlite3.Connection, called: str, structure: TableStructure) -> Own:
    """What `structure` does not know. Indexes and triggers are dropped: their names are free."""
    parts: list[tuple[str, str]] = []
    sql = (
        "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE"
        " AND type IN ('index', 'trigger') AND sql IS NOT NULL"
    )
    keys = {key.name for key in structure.keys}
    for kind, part, text in db.execute(sql, (called,)).fetchall():
        found = OURS.fullmatch(part) if kind == "index" else None
        if found is None or found[1] not in keys:
            parts.append((f"{kind} {part}", text))
            db.execute(f"DROP {kind.upper()} {name(part)}")
    return Own(columns(db, called, structure), parts)


def columns(db: sqlite3.Connection, called: str, structure: TableStructure) -> dict[str, str]:
    ours = {column.name.lower() for column in structure.columns}
    found: dict[str, str] = {}
    for _, column, kind, not_null, default, _, hidden in db.execute(
        f"PRAGMA table_xinfo({name(called)})"
    ):
        if column.lower() in ours:
            continue
        text = f"{name(column)} {kind}" + (" NOT NULL" if not_null else "")
        text += f" DEFAULT ({default})" if default is not None else ""
        found[column] = "" if hidden else text
    return found


def give_columns(db: sqlite3.Connection, called: str, own: Own, to: str) -> list[str]:
    """`called` is named `to` as long as it is made. Returns what it can't have, and why."""
    left_out: list[str] = []
    for column, definition in own.columns.items():
        what = f"column {called}.{column}"
        if definition:
            _try(db, what, f"ALTER TABLE {name(to)} ADD COLUMN {definition}", left_out)
        else:
            left_out.append(f"{what}: it is computed")
    return left_out


def give_parts(db: sqlite3.Connection, called: str, own: Own) -> list[str]:
    """Once the columns are there. Returns what the new table can't have, and why."""
    left_out: list[str] = []
    for what, sql in own.parts:
        _try(db, f"{what} of {called}", sql, left_out)
    return left_out


def _try(db: sqlite3.Connection, what: str, sql: str, left_out: list[str]) -> None:
    try:
        db.execute(sql)
    except sqlite3.DatabaseError as error:  # also that a unique index has no room for all rows now
        if not is_refusal(error):
            raise
        left_out.append(f"{what}: {error}")
