"""The Downstream port (design section 9): where the Applier writes."""

from __future__ import annotations

from typing import Protocol

import msgspec

from tidelog.changes import DdlMessage, Event
from tidelog.schema.structure import TableStructure


class DdlPending(msgspec.Struct, frozen=True):
    """A DDL that was begun: which one, its next step, and a digest of the affected downstream
    definitions from before that step (equal at start: run it again; different: it is done)."""

    commit_ts: int
    step: int = 0
    before: str = ""


class Checkpoint(msgspec.Struct, frozen=True, rename={"commit_ts": "commitTS", "ts_map": "ts-map"}):
    """The seed's checkpoint JSON (seed 002) and our fields (design section 6)."""

    commit_ts: int
    consistent: bool = False
    ts_map: dict[str, int] = {}
    feed: str = ""
    epoch: int = 0
    ddl_pending: DdlPending | None = None
    early: tuple[int, ...] = ()
    """Schema versions of early DDLs that are done, the newest last: one may be here before the rows
    it came with are, and a refilled stream may bring it again later (docs/adr/0005)."""

    def covers(self, other: Checkpoint) -> bool:
        """Whether all that `other` stands for has happened."""
        same = self.commit_ts == other.commit_ts and self.early == other.early
        return self.commit_ts > other.commit_ts or same


class TableChanges(msgspec.Struct, frozen=True):
    """Events of one table, in commit order, all of one structure."""

    db: str
    structure: TableStructure
    events: list[Event]


class Downstream(Protocol):
    """A database that takes groups of whole transactions. One writer; errors are typed."""

    async def open(self, feed: str) -> Checkpoint | None:
        """Connect, create what we keep there, load the checkpoint. Raises ConfigError, Stopped."""

    async def apply(self, changes: list[TableChanges], checkpoint: Checkpoint) -> None:
        """Rows and checkpoint in one downstream transaction: all or nothing. Applying a group
        again after an unknown outcome is safe, because the checkpoint tells whether it happened."""

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        """Run a DDL exactly once over crashes; `checkpoint` is the one after it. Returns what the
        downstream can't hold (a column, an index, a view), one sentence each, for status."""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None: ...
    async def close(self) -> None: ...
