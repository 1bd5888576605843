"""Writing a group's changes of one table into SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import structlog

from tidelog.changes import Event
from tidelog.downstream import Image, TableShare
from tidelog.downstreams import metrics
from tidelog.downstreams.sqlite_values import (
    Cell,
    ToCell,
    default_cell,
    marked_to_cell,
    to_cell,
)
from tidelog.downstreams.table_sqlite import name
from tidelog.downstreams.writing import Writing, rule_of
from tidelog.schema.structure import TableStructure

log = structlog.get_logger()


class SqliteTable:
    """The statements of one table at one structure."""

    def __init__(self, called: str, structure: TableStructure, writing: Writing) -> None:
        self.called = called
        self._key = structure.key_columns
        self._columns = writing.columns
        self._plain: dict[str, ToCell] = {c.name: to_cell(c.structure) for c in writing.columns}
        self._marked = {c.name: marked_to_cell(c.structure) for c in writing.columns}
        known = [(called, column) for called, column in writing.extra if column is not None]
        self._extra: list[Cell] = [default_cell(column) for _, column in known]
        every = [name(c.name) for c in writing.columns] + [name(c) for c, _ in known]
        marks = ", ".join("?" * len(every))
        self._insert = f"INTO {name(called)} ({', '.join(every)}) VALUES ({marks})"
        self._put = f"REPLACE {self._insert}"
        self.rule = rule_of(structure, noticed=bool(writing.extra))
        self._by_key = " AND ".join(f"{name(c)} = ?" for c in self._key)
        self._delete = f"DELETE FROM {name(called)} WHERE {self._by_key}"
        taken = {c.name.lower() for c in structure.columns}
        self._rowid = next(n for n in ("rowid", "_rowid_", "oid") if n not in taken)

    def write(self, db: sqlite3.Connection, share: TableShare) -> None:
        """The net effect; by `rule` every change by itself, in order."""
        if share.events:
            self._in_order(db, share.events)
            return
        if share.deletes:
            db.executemany(self._delete, map(self._key_cells, share.deletes))
        for images in (share.inserts, share.updates):
            if images:
                db.executemany(self._put, self._rows(images))

    def _key_cells(self, image: Image) -> list[Cell]:
        return [self._cell(image, column) for column in self._key]

    def _cell(self, image: Image, column: str) -> Cell:
        table = self._marked if column in image.b64 else self._plain
        return table[column](image.row.get(column))

    def _rows(self, images: Iterable[Image]) -> Iterator[list[Cell]]:
        plain, extra = list(self._plain.items()), self._extra
        for image in images:
            row = image.row
            if image.b64 or len(row) < len(plain):
                yield [self._cell(image, n) for n, _ in plain] + extra
            else:
                yield [convert(row[n]) for n, convert in plain] + extra

    def _in_order(self, db: sqlite3.Connection, events: Sequence[Event]) -> None:
        run: list[Image] = []
        for event in events:
            if event.before is None and event.after is not None:
                run.append(Image(event.after, event.b64))
                continue
            self._flush(db, run)
            run = []
            if event.before is not None:
                after = Image(event.after, event.b64) if event.after is not None else None
                self._change_one(db, Image(event.before, event.b64), after)
        self._flush(db, run)

    def _flush(self, db: sqlite3.Connection, run: list[Image]) -> None:
        if run:
            db.executemany(f"INSERT {self._insert}", self._rows(run))

    def _change_one(self, db: sqlite3.Connection, before: Image, after: Image | None) -> None:
        """The row of that key; without one, exactly one of the rows that equal `before`: duplicates
        are interchangeable."""
        where, cells = self._by_key, [self._cell(before, n) for n in self._key]
        if not self._key:
            known = [c.name for c in self._columns if c.name in before.row]
            where = " AND ".join(f"{name(n)} IS ? COLLATE BINARY" for n in known)
            cells = [self._cell(before, n) for n in known]
        table, rowid = name(self.called), self._rowid
        chosen = f"{rowid} = (SELECT {rowid} FROM {table} WHERE {where} LIMIT 1)"
        if after is None:
            done = db.execute(f"DELETE FROM {table} WHERE {chosen}", cells)
        else:
            names = [c.name for c in self._columns if c.name in after.row]
            sets = ", ".join(f"{name(n)} = ?" for n in names)
            new = [self._cell(after, n) for n in names]
            done = db.execute(f"UPDATE {table} SET {sets} WHERE {chosen}", new + cells)
        if done.rowcount != 1:
            metrics.UNMATCHED.inc()
            log.error("a row to change is not downstream", table=self.called)
