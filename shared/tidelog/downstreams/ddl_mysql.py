"""A DDL as steps for a MySQL-speaking server, each one statement that happens wholly or not. Pure.

Dropped and truncated tables keep their rows under a hidden name in `tidb_binlog` until they are too
old to be recovered upstream: RECOVER and FLASHBACK TABLE carry no rows, so the rows must be here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from hashlib import sha256

import msgspec

from tidelog.changes import DdlMessage
from tidelog.ddl_pending import DdlFacts
from tidelog.downstreams import operations as ops
from tidelog.downstreams import structure_ddl as text
from tidelog.downstreams.checkpoint_table import DROPPED, STATE_DB
from tidelog.downstreams.literals import name, quote, table_name
from tidelog.downstreams.partition_rows import rows_of
from tidelog.downstreams.structure_ddl import Flavor
from tidelog.downstreams.structure_diff import ColumnChange, TableDiff, diff
from tidelog.schema.structure import ColumnStructure, PartitionStructure, TableStructure


class Attempt(msgspec.Struct, frozen=True):
    """One way to do a step. `note` says what the downstream then lacks. `sql` empty: do nothing.
    `lenient`: conversions may cut values, as TiDB's did. `rows`: it changes rows, no definition."""

    sql: str
    note: str = ""
    lenient: bool = False
    rows: bool = False


class Effect(Enum):
    """How one sees that a step was done: by the definitions of its tables."""

    NONE = "none"
    """Not at all: it may run twice."""
    MAKES = "makes"
    ALTERS = "alters"
    MOVES = "moves"
    """Of two tables: the old name's and the new one's."""
    DROPS = "drops"


class Step(msgspec.Struct, frozen=True):
    """The first attempt the server takes counts. `tables` are the (db, name) of the effect.
    `before` and `after` are statements that may run twice. `swap`: the row exchange, in one
    transaction with the checkpoint, which is only ever the last step."""

    attempts: tuple[Attempt, ...] = ()
    effect: Effect = Effect.NONE
    tables: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    swap: tuple[str, ...] = ()


class Facts(msgspec.Struct, frozen=True):
    """What planning must know of the server."""

    flavor: Flavor
    keep_dropped: bool
    partitions: Mapping[tuple[str, str], frozenset[str]] = {}
    """Partition names of the tables that are partitioned downstream."""
    referenced: frozenset[tuple[str, str]] = frozenset()
    """Tables that a foreign key of another one points to: a rename would take it along."""
    own: frozenset[tuple[str, str]] = frozenset()
    """Tables with columns, indexes or triggers that the upstream's lack: no new one would have
    them."""
    owner: str = ""
    """`CheckpointTable.owner`: whose dropped tables wait."""

    @classmethod
    def of(cls, flavor: Flavor, noted: DdlFacts, owner: str) -> Facts:
        parted = {(one.db, one.name): one.partitions for one in noted.tables if one.partitions}
        return cls(
            flavor,
            noted.keep_dropped,
            {place: frozenset(names) for place, names in parted.items()},
            frozenset((one.db, one.name) for one in noted.tables if one.referenced),
            frozenset((one.db, one.name) for one in noted.tables if one.own),
            owner,
        )


def plan(ddl: DdlMessage, facts: Facts) -> list[Step]:
    """The steps of a DDL, the same ones whenever it is planned."""
    return [step for one in ops.operations(ddl) for step in _steps(one, ddl, facts)]


def hidden_name(table: TableStructure, owner: str) -> str:
    """Where the rows of a dropped table wait."""
    return f"dropped_{sha256(owner.encode()).hexdigest()[:12]}_{table.id}"


def _steps(one: ops.Operation, ddl: DdlMessage, facts: Facts) -> list[Step]:
    match one:
        case ops.CreateDatabase():
            return [_step(_database(one.db))]
        case ops.DropDatabase():
            return [_drop_database(one.db, ddl, facts)]
        case ops.Create():
            return [_create(one.db, one.structure, facts)]
        case ops.Drop() if ddl.brief and one.db == ddl.db:
            return []  # which of them can be moved isn't told: they go with their database
        case ops.Drop():
            return [_drop(one.db, one.structure, ddl, facts)]
        case ops.Truncate():
            return _truncate(one, ddl, facts)
        case ops.Recover():
            return _recover(one, facts)
        case ops.Rename():
            old, new = (one.db_before, one.before), (one.db_after, one.after)
            sql = f"RENAME TABLE {table_name(*old)} TO {table_name(*new)}"
            before = (_database(one.db_after),)
            return [Step((Attempt(sql),), Effect.MOVES, (old, new), before)]
        case ops.Alter():
            return _alter(one, ddl, facts)
        case ops.EmptyPartitions():
            return [_empty(one, facts)]
        case ops.Exchange():
            return [_exchange(one, facts)]


def _step(sql: str, *altered: tuple[str, str]) -> Step:
    return Step((Attempt(sql),), Effect.ALTERS if altered else Effect.NONE, altered)


def _create(db: str, structure: TableStructure, facts: Facts) -> Step:
    flavor, label = facts.flavor, f"{db}.{structure.name}"
    target = table_name(db, structure.name)
    if structure.kind == "view":
        columns = ",".join(name(column.name) for column in structure.columns)
        listed = f" ({columns})" if columns else ""
        view = f"CREATE OR REPLACE VIEW {target}{listed} AS {structure.definition}"
        return Step((Attempt(view), Attempt("", f"view {label}: the server refuses it")))
    if structure.kind == "sequence":
        sequence = f"CREATE OR REPLACE SEQUENCE {target} {structure.definition}"
        note = f"sequence {label}: its present value is not followed"
        refused = f"sequence {label}: the server has no sequences"
        return Step((Attempt(sequence, note), Attempt("", refused)))
    lost = _lost_keys(db, structure, flavor)
    attempts = [Attempt(text.create_table(db, structure, flavor), lost)]
    parted, refs = structure.partitioning is not None, bool(structure.foreign_keys)
    if refs:
        sql = text.create_table(db, structure, flavor, foreign_keys=False)
        attempts.append(Attempt(sql, f"table {label}: its foreign keys{lost and '; ' + lost}"))
    if parted:
        sql = text.create_table(db, structure, flavor, partitioned=False)
        attempts.append(Attempt(sql, f"table {label}: its partitioning{lost and '; ' + lost}"))
    sql = text.create_table(
        db, structure, flavor, partitioned=False, foreign_keys=False, expressions=False
    )
    if sql != attempts[0].sql:
        attempts.append(Attempt(sql, f"table {label}: expressions, partitioning, foreign keys"))
    return Step(tuple(attempts), Effect.MAKES, ((db, structure.name),), (_database(db),))


def _database(db: str) -> str:
    """A schema may be older than the feed; every table's text names its own character set."""
    return f"CREATE DATABASE IF NOT EXISTS {name(db)} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def _drop_database(db: str, ddl: DdlMessage, facts: Facts) -> Step:
    note = ""
    if ddl.brief and facts.keep_dropped:
        note = f"database {db}: the rows of its {len(ddl.tables)} tables, should it be recovered"
    return Step((Attempt(f"DROP DATABASE IF EXISTS {name(db)}", note),))


def _lost_keys(db: str, structure: TableStructure, flavor: Flavor) -> str:
    lost = [key.name for key in structure.keys if not text.can_hold_key(key, flavor)]
    return _lost(db, structure.name, lost)


def _lost(db: str, table: str, keys: list[str]) -> str:
    listed = ", ".join(f"{db}.{table}.{key}" for key in keys)
    return f"index {listed}: it is on an expression" if listed else ""


def _is_kept(db: str, structure: TableStructure, facts: Facts) -> bool:
    """A table with foreign keys to or from it isn't moved: they would go with it."""
    free = not structure.foreign_keys and (db, structure.name) not in facts.referenced
    return facts.keep_dropped and structure.kind == "table" and structure.id > 0 and free


def _rows_gone(db: str, table: str) -> str:
    return f"table {db}.{table}: its rows, should it be recovered"


def _hide(db: str, structure: TableStructure, ddl: DdlMessage, facts: Facts) -> Step:
    hidden = hidden_name(structure, facts.owner)
    record = (
        f"REPLACE INTO {DROPPED} (owner, table_id, commit_ts, hidden)"
        f" VALUES ({quote(facts.owner)}, {structure.id}, {ddl.commit_ts}, '{hidden}')"
    )
    move = f"RENAME TABLE {table_name(db, structure.name)} TO {table_name(STATE_DB, hidden)}"
    gone = _rows_gone(db, structure.name)
    drop = f"DROP TABLE IF EXISTS {table_name(db, structure.name)}"
    where = ((db, structure.name),)
    return Step((Attempt(move), Attempt(drop, gone)), Effect.DROPS, where, (record,))


def _drop(db: str, structure: TableStructure, ddl: DdlMessage, facts: Facts) -> Step:
    target = table_name(db, structure.name)
    if structure.kind != "table":
        sql = f"DROP {structure.kind.upper()} IF EXISTS {target}"
        return Step((Attempt(sql), Attempt("")))
    if _is_kept(db, structure, facts):
        return _hide(db, structure, ddl, facts)
    return _step(f"DROP TABLE IF EXISTS {target}")


def _truncate(one: ops.Truncate, ddl: DdlMessage, facts: Facts) -> list[Step]:
    place = (one.db, one.before.name)
    is_kept = _is_kept(one.db, one.before, facts)
    if is_kept and place not in facts.own:
        return [_hide(one.db, one.before, ddl, facts), _create(one.db, one.after, facts)]
    note = _rows_gone(*place) if is_kept else ""
    return [Step((Attempt(f"TRUNCATE TABLE {table_name(one.db, one.after.name)}", note),))]


def _recover(one: ops.Recover, facts: Facts) -> list[Step]:
    if not facts.keep_dropped:
        create = _create(one.db, one.structure, facts)
        note = f"table {one.db}.{one.structure.name}: the rows it had when it was dropped"
        first = msgspec.structs.replace(create.attempts[0], note=note)
        return [msgspec.structs.replace(create, attempts=(first, *create.attempts[1:]))]
    hidden = (STATE_DB, hidden_name(one.structure, facts.owner))
    target = (one.db, one.structure.name)
    sql = f"RENAME TABLE {table_name(*hidden)} TO {table_name(*target)}"
    whose = f"owner = {quote(facts.owner)} AND table_id = {one.structure.id}"
    forget = f"DELETE FROM {DROPPED} WHERE {whose}"
    return [Step((Attempt(sql),), Effect.MOVES, (hidden, target), (_database(one.db),), (forget,))]


def _alter(one: ops.Alter, ddl: DdlMessage, facts: Facts) -> list[Step]:
    tables = ((one.db, one.after.name),)
    target = table_name(one.db, one.after.name)
    change = diff(one.before, one.after, ddl.query)
    change.columns.extend(_counting(one, change, facts.flavor))
    clauses = _clauses(change, one, facts.flavor)
    steps: list[Step] = []
    if clauses:
        sql = f"ALTER TABLE {target} {', '.join(clauses)}"
        lost = _lost_added(one, change, facts.flavor)
        attempts = (Attempt(sql, lost), Attempt(sql, lost, lenient=True))
        steps.append(Step(attempts, Effect.ALTERS, tables))
    keyed = text.first_key_columns(one.after, facts.flavor)
    later = [
        f"MODIFY COLUMN {text.column(c.after, facts.flavor, keyed=c.after.name in keyed)}"
        for c in change.columns
        if _in_two_steps(c)
    ]
    if later:
        steps.append(_step(f"ALTER TABLE {target} {', '.join(later)}", *tables))
    steps.extend(_repartition(one, facts))
    return steps


def _lost_added(one: ops.Alter, change: TableDiff, flavor: Flavor) -> str:
    lost = [key.name for key in change.added_keys if not text.can_hold_key(key, flavor)]
    return _lost(one.db, one.after.name, lost)


def _in_two_steps(change: ColumnChange) -> bool:
    """Rows older than the column hold its origin default, which is not what `DEFAULT
    CURRENT_TIMESTAMP` would give them here."""
    column = change.after
    return (
        change.before is None
        and not column.generated
        and not column.auto_increment
        and column.origin_default is not None
        and column.origin_default != column.default
    )


def _counting(one: ops.Alter, change: TableDiff, flavor: Flavor) -> list[ColumnChange]:
    """AUTO_INCREMENT comes and goes with the keys that allow it: the column itself is the same."""
    was = text.first_key_columns(one.before, flavor)
    is_now = text.first_key_columns(one.after, flavor)
    known = {column.name for column in one.before.columns}
    told = {changed.after.name for changed in change.columns}
    return [
        ColumnChange(column, column)
        for column in one.after.columns
        if column.auto_increment
        and column.name in known - told
        and (column.name in was) != (column.name in is_now)
    ]


def _added(column: ColumnStructure, flavor: Flavor, *, keyed: bool) -> str:
    if _in_two_steps(ColumnChange(None, column)):
        column = msgspec.structs.replace(
            column,
            default=text.origin_default(column),
            default_is_expr=column.base == "bit",
        )
    return text.column(column, flavor, keyed=keyed)


def _clauses(change: TableDiff, one: ops.Alter, flavor: Flavor) -> list[str]:
    clauses = [f"DROP FOREIGN KEY {name(key.name)}" for key in change.dropped_foreign_keys]
    clauses += [
        "DROP PRIMARY KEY" if key.primary else f"DROP KEY {name(key.name)}"
        for key in change.dropped_keys
        if text.can_hold_key(key, flavor)
    ]
    clauses += [f"DROP COLUMN {name(column.name)}" for column in change.dropped_columns]
    keyed = text.first_key_columns(one.after, flavor)
    clauses += [_column_clause(column, flavor, keyed) for column in change.columns]
    here = {key.name for key in one.after.keys if text.can_hold_key(key, flavor)}
    clauses += [
        f"RENAME KEY {name(old)} TO {name(new)}" for old, new in change.renamed_keys if new in here
    ]
    clauses += [f"ADD {text.key(k)}" for k in change.added_keys if text.can_hold_key(k, flavor)]
    clauses += [f"ADD {text.foreign_key(key)}" for key in change.added_foreign_keys]
    if change.defaults is not None:
        charset, collation = flavor.text_as(*change.defaults)
        clauses.append(f"DEFAULT CHARACTER SET {charset} COLLATE {collation}")
    if change.comment is not None:
        clauses.append(f"COMMENT {quote(change.comment)}")
    return clauses


def _column_clause(change: ColumnChange, flavor: Flavor, keyed: frozenset[str]) -> str:
    place = ""
    if change.place is not None:
        place = f" AFTER {name(change.place)}" if change.place else " FIRST"
    is_keyed = change.after.name in keyed
    if change.before is None:
        return f"ADD COLUMN {_added(change.after, flavor, keyed=is_keyed)}{place}"
    definition = text.column(change.after, flavor, keyed=is_keyed)
    return f"CHANGE COLUMN {name(change.before.name)} {definition}{place}"


def _shape(partitions: tuple[PartitionStructure, ...]) -> list[PartitionStructure]:
    return [msgspec.structs.replace(partition, id=0) for partition in partitions]


def _repartition(one: ops.Alter, facts: Facts) -> list[Step]:
    old, new = one.before.partitioning, one.after.partitioning
    where = (one.db, one.after.name)
    target, label = table_name(*where), f"table {one.db}.{one.after.name}"
    if new is None:
        if old is None or where not in facts.partitions:
            return []
        return [_step(f"ALTER TABLE {target} REMOVE PARTITIONING", where)]
    if old is not None and _shape(old.partitions) == _shape(new.partitions):
        return []
    if old is not None and where not in facts.partitions:
        return []
    attempts: list[Attempt] = []
    if old is not None and new.method in ("range", "list"):
        known, wanted = _shape(old.partitions), _shape(new.partitions)
        gone = [name(p.name) for p in known if p not in wanted]
        added = ",".join(text.partition(p) for p in wanted if p not in known)
        if not gone:
            attempts.append(Attempt(f"ALTER TABLE {target} ADD PARTITION ({added})"))
        elif added:
            sql = f"ALTER TABLE {target} REORGANIZE PARTITION {','.join(gone)} INTO ({added})"
            attempts.append(Attempt(sql))
    attempts.append(Attempt(f"ALTER TABLE {target} {text.partition_by(new)}"))
    unparted = f"ALTER TABLE {target} REMOVE PARTITIONING" if old is not None else ""
    attempts.append(Attempt(unparted, f"{label}: its partitioning"))
    return [Step(tuple(attempts), Effect.ALTERS, (where,))]


def _empty(one: ops.EmptyPartitions, facts: Facts) -> Step:
    where = (one.db, one.before.name)
    target, present = table_name(*where), facts.partitions.get(where, frozenset())
    is_same = _is_same_share(one.before, facts)
    if is_same and all(partition.name in present for partition in one.partitions):
        verb = "DROP" if one.drop else "TRUNCATE"
        listed = ",".join(name(partition.name) for partition in one.partitions)
        return _step(
            f"ALTER TABLE {target} {verb} PARTITION {listed}", *([where] if one.drop else [])
        )
    conditions = [rows_of(one.before, p, name) for p in one.partitions]
    return Step((Attempt(f"DELETE FROM {target} WHERE {' OR '.join(conditions)}", rows=True),))


def _is_same_share(table: TableStructure, facts: Facts) -> bool:
    """Whether a partition has the rows here that it has upstream: KEY is each server's own hash."""
    parts = table.partitioning
    return facts.flavor.is_tidb or parts is None or parts.method != "key"


def _exchange(one: ops.Exchange, facts: Facts) -> Step:
    """By moving rows: the statement itself leaves no trace in any definition, so nobody could
    tell after a crash whether it ran."""
    where = (one.db, one.table.name)
    table, plain = table_name(*where), table_name(one.plain_db, one.plain.name)
    aside = table_name(STATE_DB, "exchanged")
    written = [name(c.name) for c in one.table.columns if not c.generated]
    other = [name(c.name) for c in one.plain.columns if not c.generated]
    ours, theirs = ",".join(written), ",".join(other)
    source = f"{table} PARTITION ({name(one.partition.name)})"
    chosen, filtered = source, source
    present = facts.partitions.get(where, frozenset())
    if one.partition.name not in present or not _is_same_share(one.table, facts):
        condition = rows_of(one.table, one.partition, name)
        chosen = filtered = f"{table} WHERE {condition}"
    return Step(
        swap=(
            f"CREATE TEMPORARY TABLE {aside} AS SELECT {theirs} FROM {plain}",
            f"DELETE FROM {plain}",
            f"INSERT INTO {plain} ({theirs}) SELECT {ours} FROM {chosen}",
            f"DELETE FROM {filtered}",
            f"INSERT INTO {table} ({ours}) SELECT {theirs} FROM {aside}",
            f"DROP TEMPORARY TABLE {aside}",
        )
    )
