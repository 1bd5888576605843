"""The Applier: reads a feed, groups whole transactions, writes them downstream (design section 9).

A reader task of this actor fetches and parses while the previous group is being written; what came
meanwhile forms the next group. Rows and checkpoint go in one downstream transaction, so that after
an unknown outcome the checkpoint tells whether the group is there. A typed stop keeps the actor
alive, applies nothing further and shows its reason, so that nothing restarts in circles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import structlog

from tidelog import failpoints
from tidelog.actor import Actor
from tidelog.change_reader import Change, ChangeReader, Gap
from tidelog.changes import DdlMessage
from tidelog.config import redacted_url
from tidelog.downstream import Checkpoint, DownstreamOptions, Lane, TableShare, Work
from tidelog.errors import (
    ActorStopped,
    BadInput,
    ConfigError,
    Conflict,
    Refused,
    Stopped,
    TidelogError,
    Unavailable,
)
from tidelog.ports import Ports
from tidelog_applier import metrics
from tidelog_applier.config import ApplierConfig
from tidelog_applier.groups import EVENT_BYTES, Group, Run, change_weight, groups
from tidelog_applier.plan.shares import share
from tidelog_applier.position import Position
from tidelog_applier.read.structures import Structures

T = TypeVar("T")
log = structlog.get_logger()

RETRY_S = (0.2, 5.0)
"""First and longest pause before the downstream is tried again; each times 0.5 to 1.5."""
ALIVE_S = 5.0
HELD_S = 0.5
NOTES = 200
EARLY_KEPT = 64
"""Early DDLs that the checkpoint remembers: their own binlogs come soon behind them."""
TYPED_STOPS = (Stopped, BadInput, Refused, Gap)
"""Asking again changes nothing: somebody has to mend the cause and start the Applier again."""


class Read(msgspec.Struct, frozen=True):
    """The reader has these changes, in order."""

    changes: list[Change]
    bytes: int


class Ended(msgspec.Struct, frozen=True):
    """The reader met a typed stop, after all that it handed over before."""

    error: TidelogError


class Applier(Actor[Read | Ended]):
    """`position` outlives this instance; everything else is read from the downstream again."""

    max_count = 256
    max_bytes = 32 << 20
    tick_s = 1.0
    progress_limit_s = 120.0

    def __init__(self, config: ApplierConfig, ports: Ports, position: Position) -> None:
        if not config.downstream:
            raise ConfigError("downstream is not set", hint="--downstream sqlite:////data/copy.db")
        self._config = config
        self._ports = ports
        self._position = position
        self._downstream = ports.open_downstream(
            DownstreamOptions(
                url=config.downstream,
                password=config.downstream_password,
                node=config.node,
                cluster_id=config.cluster_id,
            )
        )
        self._lane: Lane | None = None
        self._shown = redacted_url(config.downstream)
        self._structures = Structures(ports, config.feed)
        self._checkpoint: Checkpoint | None = None
        self._saved_at = 0.0
        self._in_hand: list[Change] = []
        self._ended: TidelogError | None = None
        self._is_open = False
        self._was_open = False
        self._stopped = False
        self._notes: deque[str] = deque(maxlen=NOTES)
        self._rows = self._ddls = self._ddls_met_again = self._group_count = 0
        self._doing = ""

    def weigh(self, message: Read | Ended) -> int:
        return message.bytes if isinstance(message, Read) else EVENT_BYTES

    async def on_start(self) -> None:
        """A wrong URL or password ends the start; an unreachable downstream doesn't."""
        try:
            await self._open()
        except Unavailable as error:
            self._trouble(error)
        except Stopped as error:
            self._halt(error)
        self.spawn(self._read(), "reader")

    async def on_batch(self, batch: list[Read | Ended]) -> None:
        if self._stopped:
            return
        for message in batch:
            match message:
                case Read():
                    self._in_hand += message.changes
                case Ended(error):
                    self._ended = error
        await self._work()

    async def _work(self) -> None:
        """Apply all that is in hand, unless held: then it stays there. (That is not much: the
        reader is held too.)"""
        if self._stopped or self._position.held:
            return
        changes, self._in_hand = self._in_hand, []
        ended = self._ended
        try:
            for group in groups(changes, self._config.group_rows, self._config.group_bytes):
                self.progress()
                await self._take(group)
        except TYPED_STOPS as error:
            ended = error
        if ended is not None:
            self._halt(ended)

    async def on_tick(self) -> None:
        """Watermarks alone: the position is saved now and then, and before a pause."""
        held = self._position.held
        if not held and (self._in_hand or self._ended is not None):
            await self._work()
        due = held or self._ports.clock.monotonic() - self._saved_at >= self._config.checkpoint_s
        if self._unsaved() and due:
            checkpoint = self._next(self._position.applied)
            try:
                await self._certainly(
                    checkpoint, lambda: self._downstream.save_checkpoint(checkpoint), "checkpoint"
                )
            except TYPED_STOPS as error:
                self._halt(error)

        self._position.quiet = held and not self._unsaved()

    def _unsaved(self) -> bool:
        saved = self._checkpoint.commit_ts if self._checkpoint is not None else 0
        return self._is_open and not self._stopped and self._position.applied > saved

    async def on_stop(self) -> None:
        try:
            if self._unsaved():
                await self._downstream.save_checkpoint(self._next(self._position.applied))
            await self._downstream.close()
        except Unavailable as error:
            log.info("stopped without a last checkpoint", reason=str(error))

    def status(self) -> dict[str, object]:
        return {
            "feed": self._config.feed,
            "downstream": self._shown,
            "applied_ts": self._position.applied,
            "checkpoint_ts": self._position.checkpoint,
            "doing": self._doing,
            "error": self._position.error,
            "stopped": self._stopped,
            "held": self._position.held,
            "not_ready": self._not_ready(),
            "rows": self._rows,
            "ddls": self._ddls,
            "ddls_met_again": self._ddls_met_again,
            "groups": self._group_count,
            "not_held": list(self._notes),
        }

    def _not_ready(self) -> str:
        """A downstream that was lost on the way is waited for; one that never answered may be
        none."""
        if self._stopped:
            return self._position.error
        error = self._position.error or "its answer is waited for"
        return "" if self._was_open else f"the downstream was never opened: {error}"

    async def _read(self) -> None:
        """The reader: from the checkpoint on, as fast as the mailbox takes it. Without one from
        `start_ts`, so that a stream which begins later is a gap."""
        await self._until_open()
        after = self._checkpoint.commit_ts if self._checkpoint is not None else None
        reader = ChangeReader(
            self._ports.bus, self._config.feed, self._config.start_ts if after is None else after
        )
        try:
            while not self._stopped:
                if self._position.held:
                    await self._ports.clock.sleep(HELD_S)
                    continue
                try:
                    changes = await reader.next()
                except TYPED_STOPS as error:
                    await self.self_ref.tell(Ended(error))
                    return
                if changes:
                    await self.self_ref.tell(Read(changes, sum(map(change_weight, changes))))
        except ActorStopped:
            return
        finally:
            await reader.close()

    async def _until_open(self) -> None:
        pause = RETRY_S[0]
        while not (self._is_open or self._stopped):
            await self._pause(pause)
            pause = min(pause * 2, RETRY_S[1])
            try:
                await self._open()
            except (Unavailable, ConfigError) as error:
                self._trouble(error)
            except Stopped as error:
                self._halt(error)

    async def _open(self) -> None:
        self._is_open = False
        opened = await self._downstream.open(self._config.feed)
        self._lane = await self._downstream.lane(0)
        checkpoint = opened.checkpoint
        commit_ts = checkpoint.commit_ts if checkpoint is not None else self._config.start_ts
        if self._checkpoint is not None and commit_ts < self._checkpoint.commit_ts:
            # Restored from a backup, or another database behind the same URL: a fresh instance
            # reads the stream again from there.
            raise Conflict(f"the downstream went back from {self._checkpoint.commit_ts}")
        if self._checkpoint is None:
            self._position.applied = commit_ts
        self._checkpoint = checkpoint
        self._is_open = self._was_open = True
        self._position.error = ""
        self._position.checkpoint = commit_ts
        log.info("downstream opened", downstream=self._shown, checkpoint=commit_ts)

    async def _take(self, group: Group) -> None:
        if group.only_moves:
            self._reached(group.commit_ts)
            return
        for number, ddl in enumerate(group.ddls, 1):
            if self._checkpoint is not None and ddl.schema_version in self._checkpoint.early:
                log.info("ddl was early and is done", kind=ddl.kind, commit_ts=ddl.commit_ts)
                self._ddls_met_again += 1
                continue
            is_last = number == len(group.ddls) and not group.rows
            # All below the transaction is done, and this DDL too: the rows are still to come.
            at = group.commit_ts if is_last else group.commit_ts - 1
            await self._run_ddl(ddl, self._after_ddl(ddl, at))
            if not is_last:
                failpoints.hit("applier.early.run")
        if group.rows:
            await self._apply(group)
        self._reached(group.commit_ts)

    async def _apply(self, group: Group) -> None:
        checkpoint = self._next(group.commit_ts)
        work = Work(await self._shares(group), checkpoint=checkpoint)
        with metrics.GROUP_SECONDS.time():
            await self._certainly(checkpoint, lambda: self._write(work), "group")
        self._rows += group.rows
        self._group_count += 1
        metrics.ROWS.inc(group.rows)
        metrics.TXNS.inc(group.txns)
        metrics.GROUPS.inc()

    async def _write(self, work: Work) -> None:
        assert self._lane is not None
        await self._lane.apply(work)

    async def _shares(self, group: Group) -> list[TableShare]:
        while True:
            try:
                return [await self._share(run) for run in group.runs]
            except Unavailable as error:
                self._trouble(error)
                self.progress()

    async def _share(self, run: Run) -> TableShare:
        structure = await self._structures.get(run.db, run.table, run.version)
        rule = await self._downstream.rule(run.db, structure)
        return share(run.db, structure, rule, run.events, safe=False)

    async def _run_ddl(self, ddl: DdlMessage, checkpoint: Checkpoint) -> None:
        self._doing = f"{ddl.kind} at {ddl.commit_ts}"
        log.info("ddl", kind=ddl.kind, commit_ts=ddl.commit_ts, query=ddl.query[:500])
        alive = self.spawn(self._stay_alive(), "ddl")
        try:
            notes = await self._certainly(
                checkpoint, lambda: self._downstream.apply_ddl(ddl, checkpoint), self._doing
            )
        finally:
            alive.cancel()
            self._doing = ""
        for note in notes or ():
            log.warning("not held downstream", what=note, commit_ts=ddl.commit_ts)
            metrics.NOT_HELD.inc()
            self._notes.append(note)
        self._ddls += 1
        metrics.DDLS.labels(ddl.kind).inc()

    async def _certainly(
        self, checkpoint: Checkpoint, act: Callable[[], Awaitable[T]], what: str
    ) -> T | None:
        """Do it until it is done: after an unknown outcome connect again and ask the checkpoint.
        None if an attempt whose answer was lost turns out to have done it."""
        pause = RETRY_S[0]
        while True:
            try:
                if not self._is_open:
                    await self._open()
                    saved = self._checkpoint
                    if saved is not None and saved.covers(checkpoint):
                        log.info("it was done after all", what=what, commit_ts=saved.commit_ts)
                        self._saved(saved)
                        return None
                result = await act()
            except (Unavailable, ConfigError) as error:
                # A ConfigError too: it let us in before, so a password was changed, or a right
                # was taken away, and may be given back. At the start it ends the process.
                self._is_open = False
                self._trouble(error)
                metrics.RECONNECTS.inc()
                self.progress()
                await self._pause(pause)
                pause = min(pause * 2, RETRY_S[1])
                continue
            self._saved(checkpoint)
            return result

    def _saved(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._position.checkpoint = checkpoint.commit_ts
        self._position.error = ""
        self._saved_at = self._ports.clock.monotonic()

    def _reached(self, commit_ts: int) -> None:
        self._position.applied = max(self._position.applied, commit_ts)
        metrics.APPLIED_TS.set(self._position.applied)

    def _next(self, commit_ts: int) -> Checkpoint:
        """Each checkpoint lies between whole transactions, so it is always consistent."""
        saved = self._checkpoint or Checkpoint(commit_ts)
        pending = saved.ddl_pending
        return Checkpoint(
            commit_ts,
            consistent=True,
            ts_map=saved.ts_map,
            feed=self._config.feed,
            # A DDL that was begun and not reached again keeps its record.
            ddl_pending=pending if pending and pending.commit_ts > commit_ts else None,
            early=saved.early,
        )

    def _after_ddl(self, ddl: DdlMessage, commit_ts: int) -> Checkpoint:
        checkpoint = self._next(commit_ts)
        early = (*checkpoint.early, ddl.schema_version) if ddl.early else checkpoint.early
        return msgspec.structs.replace(checkpoint, ddl_pending=None, early=early[-EARLY_KEPT:])

    def _halt(self, error: TidelogError) -> None:
        """A typed stop: nothing is applied any more, and status and heartbeats show why."""
        self._stopped = True
        log.error(
            "the applier stops",
            error=error.message,
            hint=error.hint,
            kind=type(error).__name__,
            after_ts=self._position.applied,
        )
        self._position.error = str(error)

    def _trouble(self, error: Unavailable | ConfigError) -> None:
        if self._position.error != str(error):
            log.warning("applying waits", error=error.message, hint=error.hint)
        self._position.error = str(error)

    async def _pause(self, seconds: float) -> None:
        await self._ports.clock.sleep(seconds * (0.5 + self._ports.rng.random()))

    async def _stay_alive(self) -> None:
        """A DDL may rewrite a large table: only its connection can tell whether it gets on."""
        while True:
            self.progress()
            await self._ports.clock.sleep(ALIVE_S)
