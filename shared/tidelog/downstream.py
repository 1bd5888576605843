"""The Downstream port (design section 9): where the Applier writes.

A downstream has one control connection (checkpoint, DDL) and up to `Opened.lanes` writers. Whoever
opens it takes it over: all that an earlier writer of the feed still tries is refused from then on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from tidelog.changes import DdlMessage, Event
from tidelog.config import Secret
from tidelog.ddl_pending import DdlPending
from tidelog.errors import BadInput, Stopped, TidelogError
from tidelog.schema.structure import KeyPart, TableStructure

Row = dict[str, Any]

DDLS_KEPT = 64
"""Of the DDLs that were run, the checkpoint remembers so many."""


class TakenOver(TidelogError):
    """Another Applier has taken the downstream over: this one writes nothing more."""

    default_hint = "it goes on where this one stopped; end one of the two, or let one stand by"


class RowRefused(Stopped):
    """The downstream works and refuses a row of a Work; `code` is its error number. Nothing of the
    Work is there, and the lane is of no more use."""

    def __init__(self, message: str, code: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Checkpoint(msgspec.Struct, frozen=True, rename={"commit_ts": "commitTS", "ts_map": "ts-map"}):
    """The seed's checkpoint JSON (seed 002) and our fields (design section 6).

    Everything up to `commit_ts` is applied. `consistent`: and nothing above it.
    """

    commit_ts: int
    consistent: bool = False
    ts_map: dict[str, int] = {}
    feed: str = ""
    epoch: int = 0
    ddl_pending: DdlPending | None = None
    ddls_done: tuple[int, ...] = ()
    """Schema versions of the last DDLs that were run, the newest last: an early one is here before
    the rows it came with are, and a refilled stream may bring any of them again, later
    (docs/adr/0005)."""
    reach: int = 0
    """Above `commit_ts` rows may be applied, but none above this."""
    unsure: int = 0
    """Up to there an earlier Applier than that of `epoch` may have applied rows; 0 = none has."""
    replayed: bool = False
    """A replay said it: what lies above `commit_ts` are the parts of its step, and parts that are
    done have rows of nobody else over theirs."""
    copying: bool = False
    """A first copy that is not whole: what it has not written yet, no stream and no log has."""

    def with_ddl(self, ddl: DdlMessage) -> Checkpoint:
        """The same, and the DDL is done as well."""
        done = self.ddls_done
        if ddl.schema_version:
            done = (*done, ddl.schema_version)[-DDLS_KEPT:]
        return msgspec.structs.replace(self, ddl_pending=None, ddls_done=done)

    def has_run(self, ddl: DdlMessage) -> bool:
        """Before its own binlog came, or before the stream was filled again (docs/adr/0005)."""
        return ddl.schema_version in self.ddls_done

    def covers(self, other: Checkpoint) -> bool:
        """Whether all that `other` stands for has happened."""
        same = self.commit_ts == other.commit_ts and self.ddls_done == other.ddls_done
        return self.commit_ts > other.commit_ts or same


class DownstreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to open a downstream. `lanes`: at most so many writers. `cluster_id`: the checkpoint
    row's key, 0 = not known."""

    url: str
    password: Secret = Secret()
    """The account's, if the URL has none."""
    node: str = ""
    cluster_id: int = 0
    if_free: bool = False
    """Take it from nobody: the first `open` raises Refused while another Applier holds it."""
    copies: bool = False
    """A first copy's own: to anybody else `open` raises Refused until that one is whole."""
    lanes: int = 1
    checkpoint_table: str = "tidb_binlog.checkpoint"
    loopback: bool = False
    """Each transaction updates the mark table of `channel_id` in `mark_schema` (seed 004)."""
    channel_id: int = 0
    mark_schema: str = "retl"
    ddl_timeout_s: float = 0
    """How long one statement of a DDL may take; 0 = as long as it takes."""
    sync_mode: int = 1
    """2: columns may be missing on either side (seed 004)."""


class Opened(msgspec.Struct, frozen=True):
    """A downstream that is ours now. `epoch` is above every earlier writer's; so many `lanes` may
    write at once; `atomic`: each Work needs the checkpoint, which commits with its rows."""

    checkpoint: Checkpoint | None
    epoch: int = 0
    lanes: int = 1
    atomic: bool = False


class TableRule(msgspec.Struct, frozen=True):
    """How changes of a table may be written, given what the downstream has.

    `ordered`: replaying them is not idempotent, so they go through one lane, one by one, in
    upstream order, and the downstream remembers how far it got. `replaceable`: nothing downstream
    would notice a row that is deleted and inserted again. `keys`: all unique keys, the upstream's
    and the downstream's own, the event's key first. `collations`: the downstream's, of text columns
    that it compares otherwise than the structure says; "" for a column of any type = it may take
    any two values for equal.
    """

    ordered: bool
    replaceable: bool
    keys: tuple[tuple[KeyPart, ...], ...]
    collations: dict[str, str] = {}


class Image(msgspec.Struct, frozen=True, gc=False):
    """A row to write; names in `b64` hold base64."""

    row: Row
    b64: Sequence[str] = ()


class TableShare(msgspec.Struct, frozen=True):
    """A lane's part of one table's changes, all of one structure. Either their net effect per key
    (`deletes` first: images of at least the key's columns; `inserts`: rows that were not there
    before; `updates`: rows that were), or `events` one by one, in order.

    `offset`, with `events`: so many events of the first one's transaction in this table went in
    earlier shares, as that transaction is large."""

    db: str
    structure: TableStructure
    deletes: list[Image] = []
    inserts: list[Image] = []
    updates: list[Image] = []
    events: list[Event] = []
    offset: int = 0


class PartDone(msgspec.Struct, frozen=True):
    """Part number `part` of a bulk job's step is written. `step`: what the step does, as a digest
    (32 characters), so that another step's parts are never taken for its."""

    step: str
    part: int


class Work(msgspec.Struct, frozen=True):
    """One downstream transaction. `safe`: it may have been applied before, so how many rows it
    matches says nothing. With a `checkpoint` (an atomic downstream) both commit together. Without
    `ends` the transaction stays open for the lane's next Work: pieces of a large one."""

    shares: list[TableShare]
    safe: bool = False
    checkpoint: Checkpoint | None = None
    ends: bool = True
    up_to: int = 0
    """The last commit_ts among its rows, for those who read the log."""
    done: PartDone | None = None
    """Remembered with the rows, for `parts_done`."""


class Lane(Protocol):
    """One writer. Not for two tasks at once."""

    async def apply(self, work: Work) -> None:
        """All or nothing. After an Unavailable (the outcome is unknown) the lane is closed; the
        same Work, `safe`, through a new lane comes to the same. Raises TakenOver, Stopped."""

    async def close(self) -> None: ...


class Downstream(Protocol):
    """A database, or files, that a feed is written into. Errors are typed."""

    async def open(self, feed: str) -> Opened:
        """Connect, create what we keep there, fence earlier writers off, load the checkpoint.
        Lanes of an earlier `open` are void. Raises ConfigError, Stopped, Unavailable."""

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        """Raises Stopped if there is no such table, Unavailable."""

    async def join(
        self, feed: str, epoch: int, newest: Sequence[tuple[str, TableStructure]] = ()
    ) -> None:
        """Instead of `open`, in another process than the one that opened it with this `epoch`:
        lanes of that opening may be made here, and nothing else. `newest`: databases and tables as
        they are after the last DDL, where rows of before it may come. Raises BadInput where only
        one process can write, Unavailable."""

    async def renew(self) -> int:
        """Void all lanes of this opening: a task that lives on writes nothing any more. Returns the
        epoch under which new ones are made. Raises TakenOver, Unavailable."""

    async def parts_done(self, step: str) -> frozenset[int]:
        """Parts of a bulk job's step that lanes said are done; those of other steps of the feed are
        forgotten. Raises Unavailable."""

    async def forget_written(self, ordered: Sequence[tuple[str, str]]) -> None:
        """Parts of all steps of the feed, and how far these ordered tables (database, name) are
        applied: the tables are empty, and a bulk job begins. Raises TakenOver, Unavailable."""

    async def lane(self, number: int) -> Lane:
        """Connect writer `number`, 0 <= number < `Opened.lanes`. Raises Unavailable."""

    async def apply_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        """Run a DDL exactly once over crashes; `checkpoint` is the one after it. No lane has work
        meanwhile. Returns what the downstream can't hold (a column, an index, a view), one
        sentence each, for status."""

    async def ddl_progress(self) -> str:
        """What the DDL does that runs now, for status; "" if nobody can say. Asked now and then
        beside `apply_ddl`: also ends a statement of it that takes too long."""

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Raises TakenOver if another writer has taken over."""

    async def close(self) -> None: ...


class OneWriterLane:
    """Of a downstream with one writer: what it writes through is the downstream's own, and shared
    with checkpoint and DDL."""

    def __init__(self, apply: Callable[[Work], Awaitable[None]]) -> None:
        self._apply = apply

    async def apply(self, work: Work) -> None:
        await self._apply(work)

    async def close(self) -> None:
        """The downstream closes it."""


class OneProcess:
    """The part of a Downstream that only the process can write that opened it."""

    async def join(
        self, feed: str, epoch: int, newest: Sequence[tuple[str, TableStructure]] = ()
    ) -> None:
        raise self._refused()

    async def renew(self) -> int:
        raise self._refused()

    async def parts_done(self, step: str) -> frozenset[int]:
        raise self._refused()

    async def forget_written(self, ordered: Sequence[tuple[str, str]]) -> None:
        raise self._refused()

    def _refused(self) -> BadInput:
        return BadInput(
            f"{type(self).__name__} can't be written by several processes at once",
            hint="bulk jobs write mysql://, mariadb:// and tidb:// downstreams",
        )
