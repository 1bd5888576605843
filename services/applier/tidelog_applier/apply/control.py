"""The downstream's control connection: the checkpoint, DDL, and what tables allow.

One call at a time, whoever asks. Nothing here tries again: a connection that broke is opened anew
by the coordinator, once no lane has work, since opening ends the lanes.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from tidelog.changes import DdlMessage
from tidelog.config import redacted_url
from tidelog.ddl_pending import DdlPending
from tidelog.downstream import Checkpoint, DownstreamOptions, Opened, TableRule
from tidelog.errors import Conflict, Refused, Unavailable
from tidelog.failpoints import hit
from tidelog.ports import Ports
from tidelog.schema.structure import TableStructure
from tidelog.timestamps import LOGICAL_BITS, age_s
from tidelog_applier import metrics
from tidelog_applier.apply.epochs import Epochs
from tidelog_applier.apply.lanes import PASSING
from tidelog_applier.config import SPOOL, ApplierConfig
from tidelog_applier.position import Position

log = structlog.get_logger()

AHEAD = 10_000 << LOGICAL_BITS
"""Of the stream's time, 10 s: a checkpoint says that rows so far ahead of it may be applied, so
that whoever comes next knows how far replay goes, whatever has become of the stream."""
RULES_KEPT = 4096


class Control:
    """`checkpoint`: as it is saved; None until the downstream was opened, or while it has none."""

    def __init__(
        self, config: ApplierConfig, ports: Ports, position: Position, *, if_free: bool
    ) -> None:
        self._config = config
        self._clock = ports.clock
        self._position = position
        self.downstream = ports.open_downstream(options(config, if_free=if_free))
        self.shown = redacted_url(config.downstream)
        self.checkpoint: Checkpoint | None = None
        self.is_open = False
        self.was_open = False
        self.saved_at = 0.0
        self.safe_until = 0
        """Up to there an earlier life may have applied what its checkpoint doesn't tell."""
        self._handed = 0
        """Up to there this life has handed rows to its lanes."""
        self._epoch = 0
        self._epochs = Epochs(ports.disk, config.relay_dir or SPOOL)
        self._rules: dict[tuple[str, str, int], TableRule] = {}
        self._turn = asyncio.Lock()

    async def open(self) -> Opened:
        """Raises Conflict where the downstream went back behind what was applied (restored from a
        backup, or another database behind the same URL), besides what `Downstream.open` does."""
        async with self._turn:
            self.is_open = False
            self._rules.clear()
            opened = await self.downstream.open(self._config.feed)
            hit("applier.control.opened")
            known, found = self.checkpoint, opened.checkpoint
            found_ts = found.commit_ts if found is not None else self._config.start_ts
            if known is not None and found_ts < known.commit_ts:
                raise Conflict(f"the downstream went back from {known.commit_ts} to {found_ts}")
            self._epoch = opened.epoch
            self.checkpoint = found
            if found is not None and not found.consistent and not self.was_open:
                self.safe_until = max(found.unsure, found.reach)
            self.is_open = self.was_open = True
            self._position.checkpoint = found_ts
            log.info("downstream opened", downstream=self.shown, checkpoint=found_ts)
            return opened

    def next(self, commit_ts: int, *, consistent: bool) -> Checkpoint:
        """The checkpoint to save when everything up to `commit_ts` is applied. It is not consistent
        where an earlier life may have got further."""
        saved = self.checkpoint or Checkpoint(commit_ts)
        consistent = consistent and self.safe_until <= commit_ts
        pending = saved.ddl_pending
        return Checkpoint(
            commit_ts,
            consistent=consistent,
            ts_map=saved.ts_map,
            feed=self._config.feed,
            epoch=self._epoch,
            # A DDL that was begun and not reached again keeps its record.
            ddl_pending=pending if pending and pending.commit_ts > commit_ts else None,
            ddls_done=saved.ddls_done,
            reach=0 if consistent else max(self._handed, commit_ts) + AHEAD,
            unsure=self._unsure(commit_ts),
        )

    def _unsure(self, commit_ts: int) -> int:
        return self.safe_until if self.safe_until > commit_ts else 0

    def tells_of_rows(self, upto: int) -> bool:
        """Rows up to there are handed to the lanes next. Does the checkpoint say that rows of this
        Applier may lie above it, that far?"""
        self._handed = max(self._handed, upto)
        saved = self.checkpoint
        if saved is None or saved.consistent or saved.epoch != self._epoch:
            return False
        return saved.reach >= upto and self.is_own(saved)

    async def claim(self) -> None:
        """Rows of this epoch come next, with checkpoints that may not be consistent. Raises
        DiskFull, IoFailed."""
        await self._epochs.add(self._epoch)

    def narrow(self, relay_end: int) -> None:
        """What the life before this one had applied is in our relay log, if it had this one: it
        can have got no further than that."""
        found = self.checkpoint
        if found is not None and self.safe_until and self.is_own(found):
            self.safe_until = max(found.unsure, relay_end)

    def is_own(self, checkpoint: Checkpoint) -> bool:
        """Was it this directory's Applier that wrote rows last, with the relay log that is there
        now?"""
        return checkpoint.epoch in self._epochs.own

    async def save(self, commit_ts: int, *, consistent: bool, if_ahead: bool = False) -> None:
        """`if_ahead`: not where the position was saved meanwhile, which may have said more of it.
        Raises TakenOver, Stopped, Unavailable, DiskFull."""
        async with self._turn:
            saved_ts = self.checkpoint.commit_ts if self.checkpoint is not None else -1
            if commit_ts < saved_ts or (if_ahead and commit_ts == saved_ts):
                return  # a DDL came first
            checkpoint = self.next(commit_ts, consistent=consistent)
            if not checkpoint.consistent:
                await self._epochs.add(self._epoch)
            hit("applier.control.before_checkpoint")
            try:
                await self.downstream.save_checkpoint(checkpoint)
            except PASSING:
                self.is_open = False
                raise
            hit("applier.control.checkpointed")
            self.saved(checkpoint)

    def saved(self, checkpoint: Checkpoint) -> None:
        """It is durable downstream."""
        self.checkpoint = checkpoint
        self._position.checkpoint = checkpoint.commit_ts
        self.saved_at = self._clock.monotonic()
        now_ms = self._clock.wall_ms()
        metrics.SAVED.inc()
        metrics.SAVED_AT.set(now_ms / 1000)
        metrics.CHECKPOINT_DELAY.observe(age_s(checkpoint.commit_ts, now_ms))

    @property
    def saved_ts(self) -> int:
        """Everything up to there is applied, and the downstream says so; the configured beginning
        while it says nothing."""
        return self.checkpoint.commit_ts if self.checkpoint else self._config.start_ts

    def has_run(self, ddl: DdlMessage) -> bool:
        """Does the checkpoint say so?"""
        return self.checkpoint is not None and self.checkpoint.has_run(ddl)

    async def run_ddl(self, ddl: DdlMessage, commit_ts: int) -> list[str]:
        """Everything before it is applied and saved. `commit_ts`: the position after it. Returns
        what the downstream can't hold. Raises as `save`."""
        async with self._turn:
            after = self.next(commit_ts, consistent=False).with_ddl(ddl)
            self._rules.clear()
            await self._epochs.add(self._epoch)
            # Whatever goes wrong, the downstream may have recorded how far the DDL is: only what
            # is loaded from there again may be saved over it.
            self.is_open = False
            hit("applier.control.before_ddl")
            notes = await self.downstream.apply_ddl(ddl, after)
            hit("applier.control.ddl_applied")
            self.is_open = True
            self.saved(after)
            return notes

    async def decide(self, commit_ts: int, word: str) -> DdlPending:
        """Record an operator's word on the DDL of that commit_ts, which is under way. Returns its
        record from before. Raises Refused, and as `save`."""
        async with self._turn:
            saved = self.checkpoint
            pending = saved.ddl_pending if saved is not None else None
            if saved is None or pending is None or pending.commit_ts != commit_ts:
                under_way = f"the one at {pending.commit_ts} is" if pending else "none is"
                raise Refused(
                    f"the DDL at {commit_ts} is not under way in {self.shown}: {under_way}",
                    hint="`tidelog appliers` shows where the Applier stands",
                )
            decided = msgspec.structs.replace(pending, decision=word)
            decided_at = msgspec.structs.replace(
                saved,
                ddl_pending=decided,
                epoch=self._epoch,
                feed=self._config.feed,
                unsure=self._unsure(saved.commit_ts),
            )
            await self._epochs.add(self._epoch)
            await self.downstream.save_checkpoint(decided_at)
            self.saved(decided_at)
            return pending

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        """Raises Stopped, Unavailable."""
        key = (db, structure.name, structure.version)
        found = self._rules.get(key)
        if found is None:
            async with self._turn:
                try:
                    found = await self.downstream.rule(db, structure)
                except PASSING:
                    self.is_open = False
                    raise
            if len(self._rules) >= RULES_KEPT:
                self._rules.pop(next(iter(self._rules)))
            self._rules[key] = found
        return found

    async def close(self) -> None:
        """Also what can't be told any more is let go."""
        self.is_open = False
        try:
            await self.downstream.close()
        except Unavailable as error:
            log.info("the downstream did not hear the end", reason=str(error))


def options(config: ApplierConfig, *, if_free: bool) -> DownstreamOptions:
    """How this Applier opens its downstream."""
    return DownstreamOptions(
        url=config.downstream,
        password=config.downstream_password,
        node=config.node,
        cluster_id=config.cluster_id,
        if_free=if_free,
        lanes=config.worker_count,
        checkpoint_table=config.checkpoint_table,
        loopback=config.loopback_control,
        channel_id=config.channel_id,
        mark_schema=config.mark_schema,
        sync_mode=config.sync_mode,
        ddl_timeout_s=config.ddl_timeout_s,
    )
