"""A SQLite file that an older version wrote, mended once as it is opened."""

from __future__ import annotations

import re
import sqlite3

from tidelog.downstreams.collations import CASE_INSENSITIVE
from tidelog.downstreams.own_sqlite import OURS
from tidelog.downstreams.table_sqlite import name

VERSION = 2
"""The file's `user_version`. 1: keys are never coarser than the upstream's. 2: nor are those of the
beginnings of texts, nor of computed columns."""

_NAME = "`(?:[^`]|``)+`"
_PART = rf"(?:{_NAME}|substr\({_NAME}, 1, \d+\))"
_OF_COLUMNS = re.compile(rf"{_PART}(?:, {_PART})*")
_BEGINNING = re.compile(rf"substr\(({_NAME}), 1, \d+\)")
_UNIQUE = "CREATE UNIQUE INDEX "


def renew(db: sqlite3.Connection) -> None:
    """Not within a transaction. Raises SQLite's errors."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version >= VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    _not_unique(db)
    for collation in CASE_INSENSITIVE:
        # Other comparisons ordered it: rows would not be found in it.
        db.execute(f"REINDEX {collation}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")


def _not_unique(db: sqlite3.Connection) -> None:
    """Indexes of ours on expressions: what SQLite computes may be equal where the upstream's own is
    not."""
    sql = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE ?"
    for index, table, text in db.execute(sql, (f"{_UNIQUE}%",)).fetchall():
        parts = _parts(text, table)
        if not OURS.fullmatch(index) or not parts:
            continue
        info = db.execute(f"PRAGMA table_xinfo({name(table)})").fetchall()
        computed = {name(column) for _, column, *_, hidden in info if hidden == 2}
        whole = _BEGINNING.sub(r"\1", parts)
        if _OF_COLUMNS.fullmatch(parts) is None or computed & set(re.findall(_NAME, parts)):
            db.execute(f"DROP INDEX {name(index)}")
            db.execute(text.replace(_UNIQUE, "CREATE INDEX ", 1))
        elif whole != parts:
            db.execute(f"DROP INDEX {name(index)}")
            try:
                db.execute(f"{text.removesuffix(f'{parts})')}{whole})")
            except sqlite3.IntegrityError:  # rows that only a TiDB without new collations has
                db.execute(text)


def _parts(text: str, table: str) -> str:
    """What is in an index. SQLite quotes a table's name in its own way where it was renamed."""
    quoted = '"' + table.replace('"', '""') + '"'
    as_made, as_renamed = (text.partition(f" ON {one} (")[2] for one in (name(table), quoted))
    return (as_made or as_renamed).removesuffix(")")
