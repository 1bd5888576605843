"""A SQLite downstream, read in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tidelog.downstream import Checkpoint
from tidelog.downstreams.table_sqlite import name
from tidelog.errors import BadInput, Unavailable
from tidelog.schema.tracker import SYSTEM_SCHEMAS
from tidelog_cli.verify.kinds import Cell, Kind
from tidelog_cli.verify.sides import checkpoint_of
from tidelog_cli.verify.tables import Column, Part, Table


class SqliteCells:
    """Its tables are called `db.table`."""

    def __init__(self, path: str, shown: str, checkpoint_table: str) -> None:
        """Raises BadInput if there is no such file."""
        if not Path(path).is_file():
            raise BadInput(f"there is no file {path}")
        self.shown = shown
        self._checkpoint_table = checkpoint_table
        self._file = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
        self._file.text_factory = _text

    def fix(self) -> str:
        if self._file.in_transaction:
            self._file.execute("ROLLBACK")
        self._file.execute("BEGIN")
        return "as it is now, in one snapshot"

    def checkpoints(self) -> list[Checkpoint]:
        if self._checkpoint_table.lower() not in map(str.lower, self._names()):
            return []
        with self._typed():
            rows = self._file.execute(f"SELECT checkPoint FROM {name(self._checkpoint_table)}")
            return [checkpoint_of(text, self.shown) for (text,) in rows]

    def _names(self) -> list[str]:
        with self._typed():
            found = self._file.execute(
                "SELECT name FROM sqlite_master WHERE type='table' ORDER BY name"
            )
            return [called for (called,) in found]

    def tables(self) -> list[Table]:
        found = []
        for called in self._names():
            db, dot, table = called.partition(".")
            if dot and db.lower() not in SYSTEM_SCHEMAS:
                with self._typed():
                    found.append(self._table(called, db, table))
        return found

    def _table(self, called: str, db: str, table: str) -> Table:
        columns: list[Column] = []
        primary: dict[int, str] = {}
        for _, column, _, _, _, place, hidden in self._file.execute(
            f"PRAGMA table_xinfo({name(called)})"
        ):
            if hidden != 1:
                columns.append(Column(column, Kind.STORED, ordered=False))
            if place:
                primary[place] = column
        keys = (tuple(primary[place] for place in sorted(primary)),) if primary else None
        (rows,) = self._file.execute(f"SELECT COUNT(*) {_from(called)}").fetchone()
        return Table(db, table, tuple(columns), keys, rows, ranges=False)

    def cells(self, part: Part) -> Iterator[Sequence[Cell]]:
        columns = ", ".join(name(column.name) for column in part.columns)
        source = _from(f"{part.db}.{part.table}")
        with self._typed():
            yield from self._file.execute(f"SELECT {columns} {source}")

    @contextmanager
    def _typed(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                said = f"{self.shown} is locked by another program"
                raise Unavailable(said, hint="end that one, then compare again") from error
            raise BadInput(f"{self.shown} can't be read: {error}") from error

    def close(self) -> None:
        self._file.close()


def _from(called: str) -> str:
    """By row id: an index may need a collation that only the Applier has."""
    return f"FROM {name(called)} NOT INDEXED"


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
