"""SQLite as downstream: one file, each table named `db.table`, one writer (design section 9).

Rows, DDL and the checkpoint go in one transaction. All calls run in a thread, one at a time: where
two use one connection, the one that compares text waits for Python's lock and holds SQLite's, the
other the other way round, and the whole process stands still for ever.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import TypeVar

from tidelog.actor import off_loop
from tidelog.changes import DdlMessage
from tidelog.downstream import (
    Checkpoint,
    Lane,
    OneProcess,
    OneWriterLane,
    Opened,
    TableRule,
    TakenOver,
    Work,
)
from tidelog.downstreams import checkpoint_table
from tidelog.downstreams.collations import CASE_INSENSITIVE
from tidelog.downstreams.ddl_sqlite import CREATE_DROPPED, SqliteDdl
from tidelog.downstreams.renewed_sqlite import renew
from tidelog.downstreams.sqlite_rows import SqliteTable
from tidelog.downstreams.table_sqlite import name, place
from tidelog.downstreams.target import Target
from tidelog.downstreams.writing import writing
from tidelog.errors import ConfigError, InvariantBroken, Stopped, TidelogError, Unavailable
from tidelog.schema.structure import TableStructure

T = TypeVar("T")

CHECKPOINT = name("tidb_binlog.checkpoint")
WRITER = name("tidb_binlog.writer")
BUSY_S = 10.0
CACHED_TABLES = 4096


class SqliteDownstream(OneProcess):
    """Opened again after an error; the file is locked only while a group is written."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._db: sqlite3.Connection | None = None
        self._turn = threading.Lock()
        self._feed = ""
        self._life = ""
        """Ours, as it stands in the file: whoever opens it writes another one there."""
        self._tables: dict[tuple[str, str, int], SqliteTable] = {}
        self._newest: dict[tuple[str, str], TableStructure] = {}
        self._dotted: dict[str, tuple[str, str]] = {}
        """Whose places they are that two of the upstream's tables may have."""

    async def open(self, feed: str) -> Opened:
        await self.close()
        self._feed = feed
        rows = await self._in_thread(self._connect)
        found = checkpoint_table.load(rows, feed)
        return Opened(found.checkpoint if found is not None else None, atomic=True)

    def _connect(self) -> list[tuple[int, str]]:
        try:
            self._db = db = sqlite3.connect(
                self._target.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = OFF")
            # A view goes on reading the table of that name, as upstream, wherever a DDL moves the
            # old one: else SQLite rewrites it, or refuses to move the new one there.
            db.execute("PRAGMA legacy_alter_table = ON")
            for collation, compare in CASE_INSENSITIVE.items():
                db.create_collation(collation, compare)
            renew(db)
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {CHECKPOINT}"
                " (clusterID INTEGER PRIMARY KEY, checkPoint TEXT)"
            )
            db.execute(CREATE_DROPPED)
            return self._take_over(db)
        except sqlite3.Error as error:
            raise self._typed(error) from error

    def _take_over(self, db: sqlite3.Connection) -> list[tuple[int, str]]:
        """Behind whatever transaction an earlier writer has begun; what it begins from now on is
        refused. Raises TakenOver where somebody else has done so since we did."""
        db.execute(f"CREATE TABLE IF NOT EXISTS {WRITER} (id INTEGER PRIMARY KEY, life TEXT)")
        db.execute("BEGIN IMMEDIATE")
        try:
            if self._life:
                self._check_life(db)
            (life,) = db.execute("SELECT hex(randomblob(16))").fetchone()
            life = self._life or life
            db.execute(f"REPLACE INTO {WRITER} VALUES (0, ?)", (life,))
            rows = db.execute(f"SELECT clusterID, checkPoint FROM {CHECKPOINT}").fetchall()
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self._life = life
        return rows

    def _begin(self, db: sqlite3.Connection) -> None:
        """A transaction, if nobody has taken over."""
        db.execute("BEGIN IMMEDIATE")
        self._check_life(db)

    def _check_life(self, db: sqlite3.Connection) -> None:
        found = db.execute(f"SELECT life FROM {WRITER}").fetchone()
        if found != (self._life,):
            raise TakenOver(f"another Applier has taken over {self._target.shown}")

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        return await self._in_thread(self._rule, db, structure)

    def _rule(self, schema: str, structure: TableStructure) -> TableRule:
        try:
            return self._table(self._living(), schema, structure).rule
        except sqlite3.Error as error:
            raise self._typed(error) from error

    async def lane(self, number: int) -> Lane:
        return OneWriterLane(partial(self._in_thread, self._apply))

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        return await self._in_thread(self._apply_ddl, ddl, checkpoint)

    async def ddl_progress(self) -> str:
        return ""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self._in_thread(self._apply, Work([], checkpoint=checkpoint))

    async def close(self) -> None:
        db, self._db = self._db, None
        self._tables.clear()
        if db is not None:
            await self._in_thread(db.close)

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await off_loop(self._in_turn, call, *args)

    def _in_turn(self, call: Callable[..., T], *args: object) -> T:
        with self._turn:
            return call(*args)

    def _living(self) -> sqlite3.Connection:
        if self._db is None:
            raise InvariantBroken("the downstream is used before it is opened")
        return self._db

    def _apply(self, work: Work) -> None:
        db = self._living()
        try:
            if not db.in_transaction:
                self._begin(db)
            for one in work.shares:
                self._table(db, one.db, one.structure).write(db, one)
            if work.checkpoint is not None:
                self._save(db, work.checkpoint)
            if work.ends:
                db.execute("COMMIT")
        except BaseException as error:
            self._give_up(db, error)
            raise

    def _apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        db = self._living()
        self._tables.clear()
        for one in ddl.tables:
            if one.before is not None:
                self._dotted.pop(place(one.db_before, one.before.name), None)
        for one in ddl.tables:
            if one.after is not None and one.after.kind == "table":
                self._place(one.db_after, one.after.name)
        try:
            self._begin(db)
            notes = SqliteDdl(db, ddl, self._target.keep_dropped_s * 1000).run()
            self._save(db, checkpoint)
            db.execute("COMMIT")
        except BaseException as error:
            self._give_up(db, error)
            raise
        for one in ddl.tables:
            if one.before is not None:
                self._newest.pop((one.db_before, one.before.name), None)
            if one.after is not None:
                if len(self._newest) >= CACHED_TABLES:
                    self._newest.pop(next(iter(self._newest)))
                self._newest[one.db_after, one.after.name] = one.after
        return notes

    def _save(self, db: sqlite3.Connection, checkpoint: Checkpoint) -> None:
        if not db.in_transaction:  # SQLite may end it itself where a write fails
            raise InvariantBroken("a checkpoint is saved without what it stands for")
        row = (checkpoint_table.CLUSTER_ID, checkpoint_table.dump(self._feed, checkpoint))
        db.execute(f"REPLACE INTO {CHECKPOINT} VALUES (?, ?)", row)

    def _give_up(self, db: sqlite3.Connection, error: BaseException) -> None:
        """Undo, and raise SQLite's errors as ours."""
        if db.in_transaction:
            db.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise self._typed(error) from error

    def _typed(self, error: sqlite3.Error) -> TidelogError:
        code = getattr(error, "sqlite_errorcode", None)
        primary = code & 0xFF if code is not None else 0
        where = self._target.shown
        if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM):
            hint = "name a file in a writable directory, new or written by an Applier"
            return ConfigError(f"{where} can't be opened: {error}", hint=hint)
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Unavailable(f"{where} is locked by another writer", hint="end the other writer")
        if primary == sqlite3.SQLITE_READONLY:
            return Unavailable(f"{where} is read-only", hint="make the file writable")
        if primary == sqlite3.SQLITE_FULL:
            hint = "it goes on by itself when there is room: free space on the file's disk"
            return Unavailable(f"{where}: {error}", hint=hint)
        if primary == sqlite3.SQLITE_IOERR:
            return Stopped(f"{where}: {error}", hint="check the disk that holds the file")
        return Stopped(f"{where} can't hold a change: {error}", hint="mend the table, then restart")

    def _place(self, schema: str, table: str) -> str:
        """Raises Stopped if another table has that place, as `a`.`b.c` has that of `a.b`.`c`."""
        called = place(schema, table)
        if called.count(".") > 1:
            owner = self._dotted.setdefault(called, (schema, table))
            if owner != (schema, table):
                both = " and ".join(f"{name(d)}.{name(t)}" for d, t in (owner, (schema, table)))
                raise Stopped(
                    f"{both} would share the table {name(called)} of {self._target.shown}",
                    hint="filter one of them out of the feed, or route it to another name",
                )
        return called

    def _table(self, db: sqlite3.Connection, schema: str, structure: TableStructure) -> SqliteTable:
        key = (schema, structure.name, structure.version)
        found = self._tables.get(key)
        if found is None:
            called = self._place(schema, structure.name)
            rows: Sequence[tuple[object, ...]] = db.execute(
                f"PRAGMA table_xinfo({name(called)})"
            ).fetchall()
            if not rows:
                raise Stopped(
                    f"table {called} does not exist in {self._target.shown}",
                    hint="backfill it, or filter it out of the feed",
                )
            present = {str(n): hidden in (2, 3) for n, hidden in map(itemgetter(1, 6), rows)}
            newest = self._newest.get((schema, structure.name))
            found = SqliteTable(called, structure, writing(structure, present, newest))
            if len(self._tables) >= CACHED_TABLES:
                self._tables.pop(next(iter(self._tables)))
            self._tables[key] = found
        return found
