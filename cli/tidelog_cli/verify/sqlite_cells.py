"""A SQLite downstream, read in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput
from tidelog.schema.tracker import SYSTEM_SCHEMAS
from tidelog_cli.verify.kinds import Cell, Kind
from tidelog_cli.verify.tables import Column, Part, Table


class SqliteCells:
    """Its tables are called `db.table`."""

    def __init__(self, path: str, shown: str, checkpoint_table: str) -> None:
        """Raises BadInput if there is no such file."""
        if not Path(path).is_file():
            raise BadInput(f"there is no file {path}")
        self.shown = shown
        self._checkpoint_table = checkpoint_table
        self._file = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        self._file.text_factory = _text

    def fix(self) -> str:
        if self._file.in_transaction:
            self._file.execute("ROLLBACK")
        self._file.execute("BEGIN")
        return "as it is now, in one snapshot"

    def checkpoints(self) -> list[Checkpoint]:
        try:
            rows = self._file.execute(f"SELECT checkPoint FROM {_name(self._checkpoint_table)}")
            return [msgspec.json.decode(text, type=Checkpoint) for (text,) in rows]
        except sqlite3.OperationalError:
            return []

    def tables(self) -> list[Table]:
        found = []
        names = "SELECT name FROM sqlite_master WHERE type='table' ORDER BY name"
        for (called,) in self._file.execute(names).fetchall():
            db, dot, table = called.partition(".")
            if dot and db.lower() not in SYSTEM_SCHEMAS:
                found.append(self._table(called, db, table))
        return found

    def _table(self, called: str, db: str, table: str) -> Table:
        columns: list[Column] = []
        primary: dict[int, str] = {}
        for _, name, _, _, _, place, hidden in self._file.execute(
            f"PRAGMA table_xinfo({_name(called)})"
        ):
            if hidden != 1:
                columns.append(Column(name, Kind.STORED, ordered=False))
            if place:
                primary[place] = name
        keys = (tuple(primary[place] for place in sorted(primary)),) if primary else None
        (rows,) = self._file.execute(f"SELECT COUNT(*) {_from(called)}").fetchone()
        return Table(db, table, tuple(columns), keys, rows, ranges=False)

    def cells(self, part: Part) -> Iterator[Sequence[Cell]]:
        columns = ", ".join(_name(column.name) for column in part.columns)
        source = _from(f"{part.db}.{part.table}")
        return iter(self._file.execute(f"SELECT {columns} {source}"))

    def close(self) -> None:
        self._file.close()


def _from(called: str) -> str:
    """By row id: an index may need a collation that only the Applier has."""
    return f"FROM {_name(called)} NOT INDEXED"


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
