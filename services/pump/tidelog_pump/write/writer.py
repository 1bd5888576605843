"""The writer: group commit. Whatever waits is framed, written once, fdatasynced once, answered.

A Prewrite is told to the sorter before the sync; nobody is acked before it (I1). A failed write or
sync acks nobody and ends the process: what is durable is found out at the next start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog

from tidelog.actor import Actor, Reply
from tidelog.errors import DiskFull, Fatal, ForeignCluster, InvariantBroken, IoFailed, TidelogError
from tidelog.failpoints import hit
from tidelog.messages import JOINING
from tidelog.payload import SLOWEST_BYTES_PER_S
from tidelog.ports import Buffer, Clock, Disk, IndexStore
from tidelog_pump.config import StorageConfig
from tidelog_pump.index.census import Census
from tidelog_pump.index.chaser import Handover
from tidelog_pump.index.keys import newest_transaction
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments
from tidelog_pump.log.space import POLL_S, Space
from tidelog_pump.metrics import (
    BATCH_BYTES,
    BATCH_SECONDS,
    NOTED,
    REFUSED,
    ROTATE_SECONDS,
    TO_DISK_SECONDS,
    WRITTEN,
)
from tidelog_pump.unforeseen import count_fatal
from tidelog_pump.write.answers import answers_first
from tidelog_pump.write.closed import ClosedStarts
from tidelog_pump.write.intake import Intake
from tidelog_pump.write.load import Load

log = structlog.get_logger()

WRITE_BYTES = 16 << 20
"""Payloads of one write, unless a single one is larger."""
GROUP_RECORDS = 128
"""See `group_records`."""
STRANGERS = 16
"""Clusters whose writers are told of in the log, each once, not with each of their tries."""

Outcome = TidelogError | None


class Append(msgspec.Struct, frozen=True):
    """Serialised Binlogs in order; the answer has one outcome each. Empty payload = probe."""

    cluster_id: int
    payloads: list[Buffer]
    reply: Reply[list[Outcome]]
    own: bool = False
    """From within this Pump: a fake, or a verdict."""


class SetState(msgspec.Struct, frozen=True):
    """What the registry says; Prewrites are taken while it is `online`, nothing once it is
    `offline`. `sealed`: nothing is open and nothing shall be, so Commits and Rollbacks are not
    taken either. Answered when all that came before is written and entered in the sorter."""

    state: str
    reply: Reply[None] | None = None
    sealed: bool = False


WriterMessage = Append | SetState


class Writer(Actor[WriterMessage]):
    tick_s = POLL_S

    def __init__(
        self,
        clock: Clock,
        disk: Disk,
        segments: Segments,
        store: IndexStore,
        handover: Handover,
        census: Census,
        load: Load,
        *,
        cluster_id: int,
        storage: StorageConfig,
    ) -> None:
        self._clock = clock
        self._segments = segments
        self._index = store
        self._closed: ClosedStarts
        self._handover = handover
        self._census = census
        self._load = load
        self._was_chased = False
        self._cluster_id = cluster_id
        self._strangers: set[int] = set()
        self._state = JOINING
        self._sealed = False
        self._space = Space(disk, storage)
        self._slow_s = storage.slow_write_threshold

    def weigh(self, message: WriterMessage) -> int:
        match message:
            case Append():
                return 128 + sum(map(len, message.payloads))
            case SetState():
                return 64

    async def on_start(self) -> None:
        # The indexer has read the log to its end, and nobody but us adds to it from now on.
        newest = newest_transaction(self._index.scan)
        self._closed = ClosedStarts(self._index.get, newest)
        self._handover.reset()
        await self.on_tick()

    async def on_tick(self) -> None:
        self._space.look()
        self._load.room = self._space.share

    async def on_batch(self, batch: list[WriterMessage]) -> None:
        group: list[Append] = []
        size = records = 0
        most = group_records(batch)
        for message in batch:
            match message:
                case SetState():
                    await self._write(group)
                    group, size, records = [], 0, 0
                    self._state, self._sealed = message.state, message.sealed
                    hit("pump.writer.state_set")
                    if message.reply is not None:
                        message.reply.set(None)
                case Append():
                    weight, count = self.weigh(message), len(message.payloads)
                    if group and (size + weight > WRITE_BYTES or records + count > most):
                        await self._write(group)
                        group, size, records = [], 0, 0
                    group.append(message)
                    size += weight
                    records += count
        await self._write(group)

    async def _write(self, group: list[Append]) -> None:
        if not group:
            return
        size = sum(map(self.weigh, group))
        self.progress_limit_s = Actor.progress_limit_s + size / SLOWEST_BYTES_PER_S
        async with self._handover.lock:
            await self._write_held(group)
        self.progress()  # a batch is several groups, and each may take a slow disk its time
        await answers_first()

    async def _write_held(self, group: list[Append]) -> None:
        """The chaser ends, or doesn't, before or after this, never meanwhile."""
        if self._was_chased and not self._handover.chased:
            self._closed.ask_again()
        self._was_chased = self._handover.chased
        self._space.look_if_tight()
        space = self._space
        opens = self._census.left
        intake = Intake(
            self._closed,
            self._state,
            room=space.room,
            left=space.left,
            opens=opens,
            sealed=self._sealed,
        )
        outcomes = [self._judge(message, intake) for message in group]
        for note in intake.notes:
            NOTED.labels(note.value).inc()
        if not intake.chunks:
            self._answer(group, outcomes)
            return
        await self._handover.enter(intake.entered)
        hit("pump.writer.entered")
        written = await self._store(intake)
        hit("pump.writer.before_ack")
        self._answer(group, outcomes)
        WRITTEN.inc(len(intake))
        self._load.binlogs += len(intake)
        hit("pump.writer.acked")
        await self._handover.give(lambda: intake.placed(*written), written)

    def _judge(self, message: Append, intake: Intake) -> list[Outcome]:
        if message.cluster_id != self._cluster_id:
            error = ForeignCluster(
                f"cluster id {message.cluster_id}, this Pump serves {self._cluster_id}"
            )
            known = self._strangers
            if message.cluster_id not in known and len(known) < STRANGERS:
                known.add(message.cluster_id)
                log.warning("a writer is refused", reason=str(error))
            return [error] * len(message.payloads)
        return [intake.take(payload, own=message.own) for payload in message.payloads]

    async def _store(self, intake: Intake) -> Pointer:
        try:
            return await self._append(intake)
        except Fatal as error:
            count_fatal(error)
            raise

    async def _append(self, intake: Intake) -> Pointer:
        """Write and sync. Every failure is fatal: half of a batch may be anywhere, and only a start
        from the log knows."""
        began = self._clock.monotonic()
        try:
            await self._segments.rotate(intake.size)
            rotated = self._clock.monotonic()
            written = await self._segments.append(intake.chunks, intake.max_ts)
        except Fatal:
            raise
        except DiskFull as error:
            raise IoFailed(f"the segment could not be written: {error}") from error
        except Exception as error:
            raise InvariantBroken(f"writing failed unexpectedly: {error!r}") from error
        self._space.wrote(intake.size)
        self._observe(intake.size, began, rotated, self._clock.monotonic())
        return written

    def _observe(self, size: int, began: float, rotated: float, done: float) -> None:
        BATCH_BYTES.observe(size)
        BATCH_SECONDS.observe(done - began)
        ROTATE_SECONDS.observe(rotated - began)
        TO_DISK_SECONDS.observe(done - rotated)
        self._load.wrote(began, done)
        if done - began > self._slow_s:
            log.warning("a slow write", seconds=round(done - began, 3), bytes=size)

    def _answer(self, group: list[Append], outcomes: list[list[Outcome]]) -> None:
        for message, outcome in zip(group, outcomes, strict=True):
            message.reply.set(outcome)
            for error in outcome:
                if error is not None:
                    REFUSED.labels(type(error).__name__).inc()

    def status(self) -> dict[str, object]:
        fid, offset = self._segments.end if self._segments.fids else (0, 0)
        return {
            "state": self._state,
            **self._space.status(),
            "segment": fid,
            "offset": offset,
            **self._segments.status(),
        }


def group_records(batch: Sequence[WriterMessage]) -> int:
    """How many records to write at once: half of what waits. Were it all, then everybody would be
    answered at once and come again at once: the Pump and its writers would take turns. The more
    waits, because the disk is slow, the larger the writes are nevertheless."""
    waiting = sum(len(message.payloads) for message in batch if isinstance(message, Append))
    return max(GROUP_RECORDS, (waiting + 1) // 2)
