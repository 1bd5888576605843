"""What several servers wrote while the schema changed, and what it means."""

from __future__ import annotations

from dataclasses import dataclass, field

Row = dict[str, object]


@dataclass(frozen=True)
class Wrote:
    """A committed row, with the columns that its statement had: an insert, or the whole new row of
    an update by `id`."""

    commit_ts: int
    version: int
    table_id: int
    name: str
    row: Row
    is_update: bool


@dataclass(frozen=True)
class Changed:
    """A schema change. `table_id`: the table's afterwards, 0 = none."""

    commit_ts: int
    version: int
    table_id: int
    text: str


@dataclass
class History:
    """What the truth is made of."""

    rows: list[Wrote] = field(default_factory=list)
    changes: list[Changed] = field(default_factory=list)

    def out_of_order(self) -> tuple[int, int]:
        """How many rows came before the change that they need, and behind one that they don't know
        of."""
        pairs = [(row, change) for row in self.rows for change in self.changes]
        early = sum(r.version >= c.version and r.commit_ts < c.commit_ts for r, c in pairs)
        late = sum(r.version < c.version and r.commit_ts > c.commit_ts for r, c in pairs)
        return early, late

    def in_order(self) -> list[Wrote | Changed]:
        """As a reader must see it: a change comes with the first row that needs it, at the latest
        with its own binlog. Rows of a table that is gone by then are left out."""
        rows = sorted(self.rows, key=lambda row: row.commit_ts)
        found: list[Wrote | Changed] = []
        waiting = sorted(self.changes, key=lambda change: change.commit_ts)
        table_id = 0
        for row in [*rows, None]:
            while waiting and (
                row is None
                or waiting[0].commit_ts < row.commit_ts
                or waiting[0].version <= row.version
            ):
                table_id = waiting[0].table_id
                found.append(waiting.pop(0))
            if row is not None and row.table_id == table_id:
                found.append(row)
        return found
