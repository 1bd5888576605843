"""Draws what the workload does next: rows, keys, fates. Pure but for its dice."""

from __future__ import annotations

from tidelog.rows.values import Value
from tidelog.workload.config import WorkloadConfig
from tidelog.workload.dice import Dice
from tidelog.workload.draft import Draft
from tidelog.workload.source import Source, SourceTable
from tidelog.workload.table_kinds import ColumnPlan, Row

COMMIT = "commit"
ROLL_BACK = "roll back"
DIE_COMMITTED = "die committed"
DIE_ROLLED_BACK = "die rolled back"
DIE_UNDECIDED = "die undecided"

_DEATHS = (DIE_COMMITTED, DIE_ROLLED_BACK, DIE_UNDECIDED)
_KEY_SPACE = 3
"""Key numbers are drawn from this many times `rows_per_table`, so that deleted keys come back."""


class Generator:
    def __init__(self, dice: Dice, source: Source, config: WorkloadConfig) -> None:
        self._dice = dice
        self._source = source
        self._config = config

    def draft(self, start_ts: int) -> Draft | None:
        """A transaction over one to three tables; None when nothing can be touched now."""
        dice = self._dice
        tables = self._source.open_tables()
        draft = Draft(self._source, start_ts)
        if tables:
            chosen = [dice.pick(tables) for _ in range(dice.weighted(((1, 6), (2, 3), (3, 1))))]
            for _ in range(dice.between(1, self._config.max_changes)):
                self._change(draft, dice.pick(chosen))
        return draft if draft.changes else None

    def fate(self) -> str:
        if self._dice.chance(self._config.dead_share):
            return self._dice.pick(_DEATHS)
        return ROLL_BACK if self._dice.chance(self._config.rollback_share) else COMMIT

    def _change(self, draft: Draft, table: SourceTable) -> None:
        full = len(table.rows) / max(1, self._config.rows_per_table)
        kind = self._dice.weighted(
            (("insert", 2 if full > 1 else 8), ("update", 6), ("delete", 8 if full > 1 else 2))
        )
        row_id = self._existing(draft, table)
        if kind == "insert" or row_id is None:
            draft.insert(table, self._new_row(table))
        elif kind == "delete":
            draft.delete(table, row_id)
        else:
            row = draft.row(table, row_id)
            assert row is not None
            draft.update(table, row_id, self._changed(table, row))

    def _existing(self, draft: Draft, table: SourceTable) -> int | None:
        """A row to change, with some preference for one this transaction wrote itself."""
        own = draft.own_rows(table)
        if own and self._dice.chance(0.2):
            return self._dice.pick(own)
        if not table.rows:
            return None
        row_ids = list(table.rows)
        for _ in range(3):
            row_id = self._dice.pick(row_ids)
            if draft.row(table, row_id) is not None:
                return row_id
        return None

    def _new_row(self, table: SourceTable) -> Row:
        number = self._dice.below(_KEY_SPACE * self._config.rows_per_table + 1)
        return {column.name: self._value(column, number) for column in table.plan.columns}

    def _changed(self, table: SourceTable, row: Row) -> Row:
        """Some columns drawn anew; key columns seldom (the row moves)."""
        dice = self._dice
        after = dict(row)
        number = self._dice.below(_KEY_SPACE * self._config.rows_per_table + 1)
        moves = dice.chance(0.15)
        for column in table.plan.columns:
            if column.draw_key is not None:
                if moves:
                    after[column.name] = self._value(column, number)
            elif dice.chance(0.4):
                after[column.name] = self._value(column, number)
        return after

    def _value(self, column: ColumnPlan, number: int) -> Value:
        dice = self._dice
        if not column.not_null and dice.chance(0.1):
            return None
        if column.draw_key is not None:
            return column.draw_key(dice, number)
        if column.name == "body":
            large = dice.chance(self._config.large_share)
            return dice.word() * (self._config.large_row_bytes // 4 if large else 1)
        return column.kind.draw(dice)
