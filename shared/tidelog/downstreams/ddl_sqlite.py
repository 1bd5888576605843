"""DDL in SQLite: built from the structures, within the transaction that also moves the checkpoint.

What ALTER TABLE can't do there is done by copying the table; what that has of its own goes with it.
Dropped and truncated tables are kept under a hidden name until they are too old for RECOVER TABLE.
"""

from __future__ import annotations

import sqlite3

from tidelog.changes import DdlMessage
from tidelog.downstreams import dates_sqlite, own_sqlite
from tidelog.downstreams import operations as ops
from tidelog.downstreams import table_sqlite as text
from tidelog.downstreams.altered_sqlite import altered, is_sure
from tidelog.downstreams.collations import beyond_order, collation_of
from tidelog.downstreams.literals import Kind
from tidelog.downstreams.partition_rows import rows_of
from tidelog.downstreams.sqlite_values import (
    TEXT,
    default_cell,
    is_number,
    storage,
)
from tidelog.downstreams.structure_diff import TableDiff, diff
from tidelog.downstreams.table_sqlite import literal, name, place
from tidelog.downstreams.writing import kind_of
from tidelog.errors import Stopped
from tidelog.schema.structure import (
    ColumnStructure,
    KeyStructure,
    PartitionStructure,
    TableStructure,
)

DROPPED = "tidb_binlog.dropped"
CREATE_DROPPED = (
    f"CREATE TABLE IF NOT EXISTS {name(DROPPED)}"
    " (table_id INTEGER PRIMARY KEY, commit_ts INTEGER NOT NULL, hidden TEXT NOT NULL)"
)
_COPY = "tidb_binlog.copy"
_ASIDE = "tidb_binlog.exchanged"


class SqliteDdl:
    """Runs one DDL inside the caller's transaction. `notes`: what the file can't hold."""

    def __init__(self, connection: sqlite3.Connection, ddl: DdlMessage, keep_ms: int) -> None:
        self._db = connection
        self._ddl = ddl
        self._keep_ms = keep_ms
        self.notes: list[str] = []

    def run(self) -> list[str]:
        for one in ops.operations(self._ddl):
            self._one(one)
        self._forget_old()
        return self.notes

    def _one(self, one: ops.Operation) -> None:
        match one:
            case ops.CreateDatabase() | ops.DropDatabase():
                pass  # a schema is only the first part of its tables' names
            case ops.Create():
                self._create(one.db, one.structure)
            case ops.Drop():
                self._drop(one.db, one.structure)
            case ops.Truncate():
                self._truncate(one)
            case ops.Recover():
                self._recover(one)
            case ops.Rename():
                called = place(one.db_after, one.after)
                if self._holds(one.kind, called):
                    self._rename_for_all(place(one.db_before, one.before), called)
            case ops.Alter():
                self._alter(one)
            case ops.EmptyPartitions():
                for partition in one.partitions:
                    condition = self._condition(one.db, one.before, partition)
                    self._db.execute(f"DELETE FROM {_at(one.db, one.before)} WHERE {condition}")
            case ops.Exchange():
                self._exchange(one)

    def _exists(self, called: str) -> bool:
        sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self._db.execute(sql, (called,)).fetchone() is not None

    def _holds(self, kind: str, called: str) -> bool:
        if kind != "table":
            self.notes.append(f"{kind} {called}: SQLite downstreams hold tables only")
        return kind == "table"

    def _create(self, db: str, structure: TableStructure) -> None:
        called = place(db, structure.name)
        if not self._holds(structure.kind, called) or self._exists(called):
            return
        self._create_table(called, structure)
        if structure.foreign_keys:
            self.notes.append(f"table {called}: its foreign keys")

    def _create_table(self, called: str, structure: TableStructure) -> list[str]:
        """Returns the columns left out."""
        without = text.untranslatable(structure)
        try:
            self._db.execute(text.create_table(called, structure, without))
        except sqlite3.OperationalError as error:
            without = text.virtual_columns(structure)
            if not without or not own_sqlite.is_refusal(error):
                raise
            self._db.execute(text.create_table(called, structure, without))
        self.notes.extend(
            f"column {called}.{column}: its expression can't be translated for sure"
            for column in without
        )
        for key in text.secondary_keys(structure):
            self._create_index(called, structure, key)
        return without

    def _create_index(self, called: str, structure: TableStructure, key: KeyStructure) -> None:
        taken = {str(n) for (n,) in self._db.execute("SELECT name FROM sqlite_master")}
        index, number = f"{structure.id}.{key.name}", 0
        while index in taken:
            number += 1
            index = f"{structure.id}_{number}.{key.name}"
        sql = text.create_index(index, called, key, structure)
        try:
            if sql is not None:
                self._db.execute(sql)
                return
        except sqlite3.OperationalError as error:
            if not own_sqlite.is_refusal(error):
                raise
            self.notes.append(f"index {called}.{key.name}: {error}")
            return
        self.notes.append(f"index {called}.{key.name}: its expression can't be translated")

    def _drop_index(self, called: str, key: KeyStructure) -> None:
        sql = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ?"
        for (index,) in self._db.execute(sql, (called,)).fetchall():
            if str(index).partition(".")[2] == key.name:
                self._db.execute(f"DROP INDEX {name(str(index))}")

    def _rename(self, old: str, new: str) -> None:
        self._db.execute(f"ALTER TABLE {name(old)} RENAME TO {name(new)}")

    def _rename_for_all(self, old: str, new: str) -> None:
        """Triggers and views that a reader made go with it; elsewhere they stay with the name."""
        try:
            self._db.execute("PRAGMA legacy_alter_table = OFF")
            self._rename(old, new)
        except sqlite3.OperationalError as error:  # one of them is broken, of this table or not
            if not own_sqlite.is_refusal(error):
                raise
            self._db.execute("PRAGMA legacy_alter_table = ON")
            self._rename(old, new)
            self.notes.append(f"table {new}: triggers and views still name it {old}: {error}")
        finally:
            self._db.execute("PRAGMA legacy_alter_table = ON")

    def _drop(self, db: str, structure: TableStructure) -> None:
        called = place(db, structure.name)
        if structure.kind != "table" or not self._exists(called):
            return
        if self._keep_ms <= 0 or structure.id <= 0:
            self._db.execute(f"DROP TABLE {name(called)}")
            return
        hidden = f"tidb_binlog.dropped_{structure.id}"
        self._db.execute(f"DROP TABLE IF EXISTS {name(hidden)}")
        self._rename(called, hidden)
        self._db.execute(
            f"REPLACE INTO {name(DROPPED)} VALUES (?, ?, ?)",
            (structure.id, self._ddl.commit_ts, hidden),
        )

    def _truncate(self, one: ops.Truncate) -> None:
        called = place(one.db, one.before.name)
        own = own_sqlite.take(self._db, called, one.before)
        self._drop(one.db, one.before)
        self._create(one.db, one.after)
        self.notes.extend(own_sqlite.give_columns(self._db, called, own, to=called))
        self.notes.extend(own_sqlite.give_parts(self._db, called, own))

    def _recover(self, one: ops.Recover) -> None:
        called = place(one.db, one.structure.name)
        if not self._holds(one.structure.kind, called):
            return
        sql = f"SELECT hidden FROM {name(DROPPED)} WHERE table_id = ?"
        found = self._db.execute(sql, (one.structure.id,)).fetchone()
        if found is not None:
            self._rename(str(found[0]), called)
            self._db.execute(f"DELETE FROM {name(DROPPED)} WHERE table_id = ?", (one.structure.id,))
        elif self._keep_ms > 0:
            raise Stopped(
                f"the rows of the recovered table {called} are not kept here",
                hint="backfill the table, or set keep_dropped_s=0 to begin with it empty",
            )
        else:
            self._create(one.db, one.structure)
            self.notes.append(f"table {called}: the rows it had when it was dropped")

    def _alter(self, one: ops.Alter) -> None:
        called = place(one.db, one.after.name)
        change = diff(one.before, one.after, self._ddl.query)
        if _needs_copy(change):
            self._copy(called, one, change)
            return
        for key in change.dropped_keys:
            self._drop_index(called, key)
        for added in change.columns:
            if added.before is None:
                definition = text.added_column(added.after, one.after)
                self._db.execute(f"ALTER TABLE {name(called)} ADD COLUMN {definition}")
        for old, new in change.renamed_keys:
            self._drop_index(called, next(k for k in one.before.keys if k.name == old))
            key = next(k for k in one.after.keys if k.name == new)
            self._create_index(called, one.after, key)
        for key in change.added_keys:
            self._create_index(called, one.after, key)
        if change.added_foreign_keys:
            self.notes.append(f"table {called}: its foreign keys")

    def _copy(self, called: str, one: ops.Alter, change: TableDiff) -> None:
        """Make the new table beside, fill it with converted rows, and put it in the old one's
        place."""
        own = own_sqlite.take(self._db, called, one.before)
        without = frozenset(self._create_table(_COPY, one.after))
        old_names = {c.after.name: c.before for c in change.columns if c.before is not None}
        added = {c.after.name for c in change.columns if c.before is None}
        info = self._db.execute(f"PRAGMA table_xinfo({name(called)})")
        # A table that was made by hand may spell its columns otherwise.
        present = {str(row[1]).lower() for row in info}
        into: list[str] = []
        values: list[str] = []
        for column in one.after.columns:
            if text.virtual(column) or column.name in without:
                continue
            before = old_names.get(column.name, column)
            into.append(name(column.name))
            if column.name in added or before.name.lower() not in present:
                values.append(literal(default_cell(column)))
            else:
                values.append(self._value(before, column))
                if before.type != column.type and not is_sure(before, column):
                    told = f"from {before.type} to {column.type}"
                    self.notes.append(
                        f"column {called}.{column.name}: {told} its stored values may differ"
                    )
        self.notes.extend(own_sqlite.give_columns(self._db, called, own, to=_COPY))
        kept = own_sqlite.columns(self._db, _COPY, one.after)
        into.extend(map(name, kept))
        values.extend(map(name, kept))
        source = f"SELECT {', '.join(values)} FROM {name(called)}"
        self._db.execute(f"INSERT INTO {name(_COPY)} ({', '.join(into)}) {source}")
        self._db.execute(f"DROP TABLE {name(called)}")
        self._rename(_COPY, called)
        self.notes.extend(own_sqlite.give_parts(self._db, called, own))

    def _value(self, before: ColumnStructure, after: ColumnStructure) -> str:
        if before.type == after.type:
            return name(before.name)
        function = f"tidelog_convert_{after.id or len(self.notes)}"
        self._db.create_function(
            function, 1, lambda cell: altered(cell, before, after), deterministic=True
        )
        return f"{function}({name(before.name)})"

    def _condition(self, db: str, table: TableStructure, partition: PartitionStructure) -> str:
        """Of a partition's rows. Raises Stopped if SQLite can't tell them."""
        condition = rows_of(table, partition, _compared_names(table))
        all_of_it = table.partitioning.partitions if table.partitioning is not None else ()
        bounds = str([(one.less_than, one.in_values) for one in all_of_it]).lower()
        dates_sqlite.register(self._db)
        try:
            self._db.execute(f"EXPLAIN SELECT 1 FROM {_at(db, table)} WHERE {condition}")
            error = "a bound is in a session's time zone" if "unix_timestamp" in bounds else ""
        except sqlite3.OperationalError as refused:
            if not own_sqlite.is_refusal(refused):
                raise
            error = str(refused)
        error = error or self._unordered(db, table)
        if error:
            raise Stopped(
                f"the rows of partition {partition.name} of {place(db, table.name)} can't be told"
                f" here: {error}",
                hint="filter the table out of the feed, or use a downstream that holds partitions",
            )
        return condition

    def _unordered(self, db: str, table: TableStructure) -> str:
        """Why ranges of texts are other ones here, where they may be; else nothing."""
        parts = table.partitioning
        if parts is None or parts.method != "range":
            return ""
        for column in table.columns:
            texts = beyond_order(column.collation) if column.name in parts.columns else ""
            if not texts:
                continue
            subject = name(column.name)
            bounds = [b[1:-1] for p in parts.partitions for b in p.less_than if b[:1] == "'"]
            found = self._db.execute(
                f"SELECT ? GLOB '{texts}' OR EXISTS (SELECT 1 FROM {_at(db, table)} WHERE {subject}"
                f" GLOB '{texts}' OR typeof({subject}) = 'blob')",
                ("".join(bounds),),
            ).fetchone()
            if found[0]:
                return f"{column.collation} orders some texts of {column.name} in its own way"
        return ""

    def _exchange(self, one: ops.Exchange) -> None:
        table, plain = _at(one.db, one.table), _at(one.plain_db, one.plain)
        condition = self._condition(one.db, one.table, one.partition)
        ours = ", ".join(name(c.name) for c in one.table.columns if not text.virtual(c))
        theirs = ", ".join(name(c.name) for c in one.plain.columns if not text.virtual(c))
        aside = name(_ASIDE)
        for sql in (
            f"CREATE TEMP TABLE {aside} AS SELECT {theirs} FROM {plain}",
            f"DELETE FROM {plain}",
            f"INSERT INTO {plain} ({theirs}) SELECT {ours} FROM {table} WHERE {condition}",
            f"DELETE FROM {table} WHERE {condition}",
            f"INSERT INTO {table} ({ours}) SELECT {theirs} FROM temp.{aside}",
            f"DROP TABLE temp.{aside}",
        ):
            self._db.execute(sql)

    def _forget_old(self) -> None:
        horizon = max(0, (self._ddl.commit_ts >> 18) - self._keep_ms) << 18
        sql = f"SELECT table_id, hidden FROM {name(DROPPED)} WHERE commit_ts < ? LIMIT 100"
        for table_id, hidden in self._db.execute(sql, (horizon,)).fetchall():
            self._db.execute(f"DROP TABLE IF EXISTS {name(str(hidden))}")
            self._db.execute(f"DELETE FROM {name(DROPPED)} WHERE table_id = ?", (table_id,))


def _at(db: str, table: TableStructure) -> str:
    return name(place(db, table.name))


def _compared_names(table: TableStructure) -> text.QuoteName:
    """Names in a partition's condition; numbers kept as text compare as numbers, texts by their
    collation, which only a unique key's have by themselves."""
    wide = {c.name for c in table.columns if storage(c) == TEXT and is_number(c)}
    texts = {c.name: collation_of(c.collation) for c in table.columns if kind_of(c) is Kind.TEXT}

    def quoted(column: str) -> str:
        if column in wide:
            return f"CAST({name(column)} AS NUMERIC)"
        collation = texts.get(column, "")
        return f"{name(column)} COLLATE {collation}" if collation else name(column)

    return quoted


def _needs_copy(change: TableDiff) -> bool:
    """Whatever SQLite's ALTER TABLE has no form for, or would not convert."""
    if change.dropped_columns or any(key.primary for key in change.dropped_keys):
        return True
    if any(key.primary for key in change.added_keys):
        return True
    for one in change.columns:
        if one.before is None:
            if text.virtual(one.after):
                return True
        elif one.before.name != one.after.name or _is_converted(one.before, one.after):
            return True
    return False


def _is_converted(before: ColumnStructure, after: ColumnStructure) -> bool:
    if storage(before) != storage(after) or before.generated != after.generated:
        return True
    if before.collation != after.collation or before.elems != after.elems:
        return True
    wider = before.base == after.base and after.base in ("varchar", "char", "varbinary")
    return before.type != after.type and not wider
