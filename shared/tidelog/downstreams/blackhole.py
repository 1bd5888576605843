"""A dry run: every row becomes the statements a MariaDB would get, which are counted and forgotten.

The checkpoint is in memory only, so each start begins at `start-ts` again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.changes import DdlMessage
from tidelog.downstream import (
    Checkpoint,
    DownstreamOptions,
    Lane,
    Opened,
    TableRule,
    TableShare,
    Work,
)
from tidelog.downstreams import metrics
from tidelog.downstreams.statements import TableStatements, folded, in_order
from tidelog.downstreams.writing import rule_of, writing
from tidelog.schema.structure import TableStructure

MAX_PACKET = 16 << 20
"""MariaDB's default: a row that is larger is a typed stop here too."""
CACHED_TABLES = 4096


class BlackholeLane:
    """Any number of them, which have their tables' statements in common."""

    def __init__(self, builders: dict[tuple[str, str, int], TableStatements]) -> None:
        self._builders = builders

    async def apply(self, work: Work) -> None:
        for share in work.shares:
            builder = self._builder(share)
            for statement in (*folded(builder, share), *in_order(builder, share.events)):
                metrics.DRY_STATEMENTS.inc()
                metrics.DRY_BYTES.inc(len(statement.sql))

    async def close(self) -> None:
        """There is nothing to close."""

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
                share.db,
                structure.name,
                plan,
                MAX_PACKET,
                rule=rule_of(structure),
            )
            self._builders[key] = found
        return found


class Blackhole:
    """A downstream that holds nothing."""

    def __init__(self, options: DownstreamOptions) -> None:
        self._lanes = options.lanes
        self._saved: Checkpoint | None = None
        self._builders: dict[tuple[str, str, int], TableStatements] = {}

    async def open(self, feed: str) -> Opened:
        return Opened(self._saved, lanes=self._lanes)

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        return rule_of(structure)

    async def join(
        self, feed: str, epoch: int, newest: Sequence[tuple[str, TableStructure]] = ()
    ) -> None:
        """Any process may forget rows."""

    async def renew(self) -> int:
        return 0

    async def parts_done(self, step: str) -> frozenset[int]:
        return frozenset()

    async def forget_written(self, ordered: Sequence[tuple[str, str]]) -> None:
        """Nothing is remembered."""

    async def lane(self, number: int) -> Lane:
        return BlackholeLane(self._builders)

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        self._builders.clear()
        self._saved = checkpoint
        return []

    async def ddl_progress(self) -> str:
        return ""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._saved = checkpoint

    async def close(self) -> None:
        """There is nothing to close; the checkpoint stays for the next `open`."""
