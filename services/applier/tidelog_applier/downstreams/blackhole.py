"""A dry run: every row becomes the statements a MariaDB would get, which are counted and forgotten.

The checkpoint is in memory only, so each start begins at `start-ts` again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.changes import DdlMessage
from tidelog.downstream import (
    Checkpoint,
    DownstreamOptions,
    Image,
    Lane,
    Opened,
    TableRule,
    TableShare,
    Work,
)
from tidelog.schema.structure import TableStructure
from tidelog_applier import metrics
from tidelog_applier.downstreams.statements import Statement, TableStatements
from tidelog_applier.downstreams.writing import rule_of, writing

MAX_PACKET = 16 << 20
"""MariaDB's default: a row that is larger is a typed stop here too."""
CACHED_TABLES = 4096


class BlackholeLane:
    """Any number of them."""

    def __init__(self) -> None:
        self._builders: dict[tuple[str, str, int], TableStatements] = {}

    async def apply(self, work: Work) -> None:
        for share in work.shares:
            for statement in _statements(self._builder(share), share):
                metrics.DRY_STATEMENTS.inc()
                metrics.DRY_BYTES.inc(len(statement.sql))

    async def close(self) -> None:
        self._builders.clear()

    def _builder(self, share: TableShare) -> TableStatements:
        structure = share.structure
        key = (share.db, structure.name, structure.version)
        found = self._builders.get(key)
        if found is None:
            if len(self._builders) >= CACHED_TABLES:
                self._builders.pop(next(iter(self._builders)))
            present = {c.name: bool(c.generated) for c in structure.columns}
            plan = writing(structure, present, None)
            found = TableStatements(
                share.db, structure.name, plan, structure.key_columns, MAX_PACKET
            )
            self._builders[key] = found
        return found


class Blackhole:
    """A downstream that holds nothing."""

    def __init__(self, options: DownstreamOptions) -> None:
        self._lanes = options.lanes
        self._saved: Checkpoint | None = None

    async def open(self, feed: str) -> Opened:
        return Opened(self._saved, lanes=self._lanes)

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        return rule_of(structure)

    async def lane(self, number: int) -> Lane:
        return BlackholeLane()

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        self._saved = checkpoint
        return []

    async def ddl_progress(self) -> str:
        return ""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._saved = checkpoint

    async def close(self) -> None:
        """There is nothing to close; the checkpoint stays for the next `open`."""


def _statements(builder: TableStatements, share: TableShare) -> Iterator[Statement]:
    if share.deletes:
        yield from builder.delete(share.deletes)
    puts = [*share.inserts, *share.updates]
    if puts:
        yield from builder.put(puts)
    for event in share.events:
        before = Image(event.before, event.b64) if event.before is not None else None
        after = Image(event.after, event.b64) if event.after is not None else None
        if before is None and after is not None:
            yield from builder.insert([after])
        elif before is not None:
            yield builder.delete_one(before) if after is None else builder.update_one(before, after)
