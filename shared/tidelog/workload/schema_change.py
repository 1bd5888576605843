"""Schema changes: what to run, what the schema is afterwards, what happens to the rows. Pure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidelog.rows.values import Value
from tidelog.schema import jobs
from tidelog.schema.model import (
    FLAG_NOT_NULL,
    ColumnInfo,
    IndexColumn,
    IndexInfo,
    Name,
    TableInfo,
)
from tidelog.workload.column_kinds import ADDED
from tidelog.workload.config import WorkloadConfig
from tidelog.workload.dice import Dice
from tidelog.workload.source import Source, SourceTable
from tidelog.workload.table_kinds import KINDS, ColumnPlan, create_query, draw_plan, table_info


class SchemaChange(msgspec.Struct, frozen=True):
    """`table` is blocked while it runs. `db` is the job's schema (of a rename, the target's);
    `info` the TableInfo after it; `apply` changes the source when it is committed."""

    type: int
    db: str
    query: str
    apply: Callable[[], None]
    table: SourceTable | None = None
    table_id: int = 0
    table_name: str = ""
    info: TableInfo | None = None
    state: int = jobs.STATE_PUBLIC

    @property
    def steps(self) -> int:
        return jobs.VERSION_STEPS.get(self.type, 1)


class SchemaChanges:
    """Draws the next change. Names are never used twice but by TRUNCATE and RENAME back."""

    def __init__(self, dice: Dice, source: Source, config: WorkloadConfig) -> None:
        self._dice = dice
        self._source = source
        self._config = config
        self._number = 0
        self._run = source.new_id()
        """In every table's name, so that no earlier run's table has the same."""

    def create_database(self, name: str) -> SchemaChange:
        query = f"CREATE DATABASE `{name}` CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;"
        return SchemaChange(jobs.CREATE_SCHEMA, name, query, lambda: None)

    def create_table(self) -> SchemaChange:
        number, self._number = self._number, self._number + 1
        plan = draw_plan(self._dice, number, large=self._config.large_row_bytes > 0)
        db = self._dice.pick(list(self._source.databases))
        between = "_" if number % 5 else " "
        name = f"{self._dice.word()}{between}{self._run}{between}{number}"
        info = table_info(plan, self._source.new_id(), name)

        def apply() -> None:
            self._source.add(SourceTable(db, info, plan))

        query = create_query(plan, name)
        return SchemaChange(jobs.CREATE_TABLE, db, query, apply, None, info.id, name, info)

    def draw(self) -> SchemaChange:
        """A random change; CREATE TABLE when nothing else is possible."""
        tables = list(self._source)
        if len(tables) < max(KINDS, self._config.tables):
            return self.create_table()
        table = self._dice.pick(tables)
        kind = self._dice.weighted(
            (
                (self._add_column, 5),
                (self._drop_column, 4),
                (self._add_index, 3),
                (self._drop_index, 2),
                (self._rename, 3),
                (self._truncate, 2),
                (self._drop_table, 2),
            )
        )
        return kind(table) or self.create_table()

    def _change(
        self,
        kind: int,
        table: SourceTable,
        query: str,
        info: TableInfo,
        apply: Callable[[], None],
        state: int = jobs.STATE_PUBLIC,
    ) -> SchemaChange:
        return SchemaChange(
            kind, table.db, query, apply, table, table.info.id, table.name, info, state
        )

    def _add_column(self, table: SourceTable) -> SchemaChange | None:
        if len(table.info.columns) >= 14:
            return None
        kind = self._dice.pick(ADDED)
        not_null = kind.default is not None and self._dice.chance(0.6)
        column_id = 1 + max(table.last_column_id, *(c.id for c in table.info.columns))
        plan = ColumnPlan(f"x{column_id}", kind, not_null)
        flag = kind.type.Flag | (FLAG_NOT_NULL if not_null else 0)
        sql, origin, value = ("", None, None)
        if kind.default is not None and (not_null or self._dice.chance(0.5)):
            literal, origin, value = kind.default
            sql = f" DEFAULT {literal}"
        column = ColumnInfo(
            column_id,
            Name(plan.name, plan.name),
            len(table.info.columns),
            msgspec.structs.replace(kind.type, Flag=flag),
            origin_default=origin,
            default=origin,
        )
        info = msgspec.structs.replace(table.info, cols=(*table.info.columns, column))
        null = " NOT NULL" if not_null else ""

        def apply() -> None:
            table.set_info(info)
            table.plan = msgspec.structs.replace(table.plan, columns=(*table.plan.columns, plan))
            table.last_column_id = column_id
            _fill(table, plan.name, value)

        query = f"ALTER TABLE `{table.name}` ADD COLUMN `{plan.name}` {kind.sql}{null}{sql};"
        return self._change(jobs.ADD_COLUMN, table, query, info, apply)

    def _drop_column(self, table: SourceTable) -> SchemaChange | None:
        indexed = {part.name.text for index in table.info.indexes for part in index.idx_cols}
        free = [
            c
            for c in table.plan.columns
            if c.draw_key is None and c.name not in indexed and c.name != "body"
        ]
        if len(free) < 2 or len(table.plan.columns) < 3:
            return None
        name = self._dice.pick(free).name
        kept = [c for c in table.info.columns if c.name.text != name]
        info = _renumbered(table.info, kept)

        def apply() -> None:
            table.last_column_id = max(table.last_column_id, *(c.id for c in table.info.columns))
            columns = tuple(c for c in table.plan.columns if c.name != name)
            table.set_info(info)
            table.plan = msgspec.structs.replace(table.plan, columns=columns)
            for row in table.rows.values():
                del row[name]

        query = f"ALTER TABLE `{table.name}` DROP COLUMN `{name}`;"
        return self._change(jobs.DROP_COLUMN, table, query, info, apply, jobs.STATE_NONE)

    def _add_index(self, table: SourceTable) -> SchemaChange | None:
        columns = [c for c in table.info.columns if c.type.Tp in (3, 8, 15)]
        if not columns or len(table.info.indexes) >= 5:
            return None
        column = self._dice.pick(columns)
        number = 1 + max([index.id for index in table.info.indexes], default=0)
        name = f"i{number}_{table.new_row_id()}"
        index = IndexInfo(number, Name(name, name), (IndexColumn(column.name, column.offset),))
        info = msgspec.structs.replace(table.info, index_info=(*table.info.indexes, index))
        query = f"ALTER TABLE `{table.name}` ADD INDEX `{name}`(`{column.name.text}`);"
        return self._change(jobs.ADD_INDEX, table, query, info, lambda: table.set_info(info))

    def _drop_index(self, table: SourceTable) -> SchemaChange | None:
        plain = [i for i in table.info.indexes if not i.is_unique and not i.is_primary]
        if not plain:
            return None
        index = self._dice.pick(plain)
        left = tuple(i for i in table.info.indexes if i is not index)
        info = msgspec.structs.replace(table.info, index_info=left or None)
        query = f"ALTER TABLE `{table.name}` DROP INDEX `{index.idx_name.text}`;"
        return self._change(
            jobs.DROP_INDEX, table, query, info, lambda: table.set_info(info), jobs.STATE_NONE
        )

    def _rename(self, table: SourceTable) -> SchemaChange | None:
        """Within its database, or into another."""
        number, self._number = self._number, self._number + 1
        db = self._dice.pick(list(self._source.databases))
        name = f"{self._dice.word()}_{self._run}_r{number}"
        info = msgspec.structs.replace(table.info, name=Name(name, name))
        old = (table.db, table.name)
        query = f"RENAME TABLE `{table.name}` TO `{name}`;"
        if db != table.db:
            query = f"RENAME TABLE `{table.db}`.`{table.name}` TO `{db}`.`{name}`;"

        def apply() -> None:
            del self._source.tables[old]
            table.db = db
            table.set_info(info)
            self._source.add(table)

        change = self._change(jobs.RENAME_TABLE, table, query, info, apply)
        return msgspec.structs.replace(change, db=db)

    def _truncate(self, table: SourceTable) -> SchemaChange:
        info = msgspec.structs.replace(table.info, id=self._source.new_id())

        def apply() -> None:
            table.rows.clear()
            table.keys.clear()
            table.set_info(info)

        return self._change(
            jobs.TRUNCATE_TABLE, table, f"TRUNCATE TABLE `{table.name}`;", info, apply
        )

    def _drop_table(self, table: SourceTable) -> SchemaChange:
        info = msgspec.structs.replace(table.info, state=0)

        def apply() -> None:
            del self._source.tables[table.db, table.name]

        return self._change(
            jobs.DROP_TABLE, table, f"DROP TABLE `{table.name}`;", info, apply, jobs.STATE_NONE
        )


def _fill(table: SourceTable, name: str, value: Value) -> None:
    for row in table.rows.values():
        row[name] = value


def _renumbered(info: TableInfo, columns: list[ColumnInfo]) -> TableInfo:
    """Offsets follow positions, in columns and in the indexes over them."""
    offsets = {column.name.text: at for at, column in enumerate(columns)}
    cols = tuple(msgspec.structs.replace(c, offset=at) for at, c in enumerate(columns))
    indexes = tuple(
        msgspec.structs.replace(
            index,
            idx_cols=tuple(
                msgspec.structs.replace(part, offset=offsets[part.name.text])
                for part in index.idx_cols
            ),
        )
        for index in info.indexes
    )
    return msgspec.structs.replace(info, cols=cols, index_info=indexes or None)
