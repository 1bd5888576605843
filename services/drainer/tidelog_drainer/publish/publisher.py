"""The publisher: decodes what the collector merged and appends it to the feed's stream.

Group commit: one atomic batch is in flight; what arrives meanwhile is decoded and forms the next.
A typed stop keeps the actor alive and shows its reason, so that nothing restarts in circles.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from tidelog import feed_metrics, subjects
from tidelog.actor import Actor, Ref
from tidelog.decode.errors import UndecidedDdl, Undecodable
from tidelog.decode.transactions import LargeTxn
from tidelog.drainer_control import DrainerRequest
from tidelog.errors import BadInput, DiskFull, Stopped, StreamMissing, TidelogError, Unavailable
from tidelog.failpoints import hit
from tidelog.lease import AskLead, Hold, LeaseMail, Role
from tidelog.ports import Ports
from tidelog.questions import serve_questions
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decode.decoding import Decoding
from tidelog_drainer.decode.envelopes import envelope_of
from tidelog_drainer.mail import (
    AskPublished,
    AskStart,
    Begin,
    Control,
    Merged,
    Published,
    PublisherMail,
)
from tidelog_drainer.publish.appender import Appender, until_done
from tidelog_drainer.publish.batcher import Batch
from tidelog_drainer.publish.beginning import FeedNotCreated, FeedRecord
from tidelog_drainer.publish.counts import Counts
from tidelog_drainer.publish.ddl_desk import DdlDesk
from tidelog_drainer.publish.fenced import stand_off
from tidelog_drainer.publish.intake import Intake
from tidelog_drainer.publish.lives import Epoch, rise
from tidelog_drainer.publish.parts import PartsBatcher
from tidelog_drainer.publish.position import Start, find_start, follow_leader
from tidelog_drainer.publish.tail import Fenced, StreamTail
from tidelog_drainer.schema.store import KEEP_S, SchemaStore

WATERMARK_S = 1.0
WATERMARK_SOON_S = 0.03
"""An idle feed's new position is told this soon."""

log = structlog.get_logger()


class Publisher(Actor[PublisherMail]):
    """Owns the stream's end, the schema and the feed's position. `held`: an operator paused it."""

    def __init__(
        self,
        config: DrainerConfig,
        ports: Ports,
        lease: Ref[LeaseMail],
        role: Role,
        *,
        held: bool = False,
    ) -> None:
        self._lease = lease
        self._role = role
        self._config = config
        self._ports = ports
        self._feed = config.feed
        self._store = SchemaStore(config, ports)
        self._decoding = Decoding(config, self._store, ports.clock)
        self._desk = DdlDesk(config.feed, ports, self._decoding.ddls)
        self._start: Start | None = None
        self._epoch: Epoch
        self._tail: StreamTail
        self._batcher: PartsBatcher
        self._counts = Counts(config.feed)
        self._intake = Intake(self._decoding, self._counts)
        self._appender: Appender
        self._met: Undecodable | None = None
        """What stops the feed, while the batches in front of it are being sent."""
        self._stands_at: UndecidedDdl | None = None
        """It waits here for an operator's order."""
        self._askers: list[AskStart] = []
        self._published = 0
        self._marked = 0
        self._marked_at = 0.0
        self._moved_at = 0.0
        self._in_flight = False
        self._held = held
        self._wake = asyncio.Event()
        self._begun = False
        self._stopped: TidelogError | None = None
        self._error = ""
        self._absent = ""
        """The feed was not created yet."""

    # Mail

    async def on_start(self) -> None:
        """A wrong `ddl-history` ends the start; an unreachable one is waited for later."""
        await self._store.check()
        self._epoch = await self._risen()
        self._store.recall()
        self.spawn(self._run(), "publish")

    async def _risen(self) -> Epoch:
        """Waits for the room that a durable epoch needs."""
        while True:
            try:
                return await rise(self._config, self._ports)
            except DiskFull as error:
                if not self._store.waiting:
                    log.warning("the feed waits", error=error.message, hint=error.hint)
                self._store.waiting = f"epoch: {error}"
                await self._store.pause(8)
                self.progress()

    async def on_batch(self, batch: list[PublisherMail]) -> None:
        for message in batch:
            match message:
                case AskStart():
                    self._askers.append(message)
                case AskPublished():
                    message.reply.set(self._where())
                case Control():
                    self.spawn(self._control(message), "control")
                case Hold(held):
                    self._held = held
                case Merged():
                    self._intake.put(message)
        self._answer()
        self._wake.set()

    def _where(self) -> Published:
        quiet = self._held and not self._in_flight
        return Published(self._published, self._epoch.number, self._error, quiet)

    async def _control(self, asked: Control) -> None:
        """An order may let the feed go on."""
        try:
            answer = await self._desk.answer(asked.request, self._stands_at)
        except TidelogError as error:
            asked.reply.fail(error)
            return
        self._wake.set()
        asked.reply.set(answer)

    def weigh(self, message: PublisherMail) -> int:
        return message.size + 64 if isinstance(message, Merged) else 64

    def _answer(self) -> None:
        """A collector begins behind everything that an earlier one handed over; after a typed
        stop none begins any more, and each is told so."""
        while self._askers and self._stopped is not None:
            self._askers.pop().reply.fail(self._stopped)
        while self._askers and self._start is not None:
            life = self._start.life
            self._askers.pop().reply.set(Begin(self._intake.accepted, life.chain, life.apart))
        if not self._error:
            self._intake.answer()

    # The loop

    async def _run(self) -> None:
        try:
            await self._begin()
            while not self._error:
                batch = await self._gather()
                if batch is None and await self._decided():
                    continue
                if batch is None:
                    break
                self._in_flight = True
                if isinstance(batch, LargeTxn):
                    await self._send_large(batch)
                else:
                    self.spawn(self._send(batch), "append")
        except (Stopped, BadInput) as error:
            self._stop(error)
            return
        if self._met is not None and not self._error:
            self._stop(self._met)

    async def _decided(self) -> bool:
        """Waits at a DDL that nobody decided about, until somebody does; False for another stop.
        Collectors may begin meanwhile: this is no end."""
        if self._error or not isinstance(self._met, UndecidedDdl):
            return False
        self._stands_at, self._error = self._met, str(self._met)
        self._log_stop(self._met)
        while not self._desk.decides(self._met):
            self._wake.clear()
            await self._wake.wait()
        if self._stopped is not None:  # for another reason, meanwhile: that stands
            return False
        self._met, self._stands_at, self._error = None, None, ""
        log.info("the feed goes on", feed=self._feed, published_ts=self._published)
        self._answer()
        return True

    async def _begin(self) -> None:
        """The position first, once this Drainer leads: the merge waits for nothing else."""
        record = FeedRecord(self._config, self._ports)
        leader = follow_leader(self._config, self._ports)
        following = [self.spawn(record.follow(), "feed-record"), self.spawn(leader, "leader")]
        if not self._config.is_replay:
            following.append(self.spawn(self._desk.follow(), "ddl-orders"))
        await self._lease.ask(AskLead)
        hit("drainer.publisher.leading")
        for task in following:
            task.cancel()
        await asyncio.wait(following)
        while self._start is None:
            try:
                start = await find_start(self._config, self._ports, self._epoch)
                self._store.waiting = self._absent = ""
            except FeedNotCreated as error:
                if not self._absent:
                    log.error("the feed waits", error=error.message, hint=error.hint)
                self._absent = str(error)
                await self._store.pause(8)
                continue
            except (Unavailable, StreamMissing, DiskFull) as error:
                self._store.waiting = f"position: {error}"
                await self._store.pause(8)
                continue
            hit("drainer.publisher.placed")
            await self._place(start)
            self._start = start
            self._answer()
        if self._error:
            return  # its first mark met another Drainer
        # From now on a stream without a mark is one that lost it.
        await until_done(self._store, record.begun)
        coming = (*start.behind, *start.early)
        await self._store.open(start.commit_ts, start.schema_version, coming)
        await until_done(self._store, self._desk.load)
        self._decoding.begin(start.commit_ts, start.schema_version, start.early, start.behind)
        self._marked_at = self._now()
        self._begun = True
        self.spawn(self._keep_schema(), "schema")
        if not self._config.is_replay:  # an order is for the feed
            self._serve_orders()
        log.info(
            "feed goes on", feed=self._feed, after_ts=self._intake.covered, epoch=start.epoch.text
        )

    def _serve_orders(self) -> None:
        subject = subjects.drainer(self._config.cluster, self._config.node, "control")
        serving = serve_questions(self._ports.bus, subject, DrainerRequest, self.self_ref, Control)
        self.spawn(serving, "control")

    async def _keep_schema(self) -> None:
        """The schema's snapshot follows the feed. Who is held or has stopped writes nothing."""
        while True:
            await self._ports.clock.sleep(KEEP_S)
            if self._held or self._error:
                continue
            try:
                await self._decoding.keep(self._marked)  # where a next life begins
            except (Unavailable, StreamMissing, DiskFull) as error:
                log.info("the schema's snapshot waits", error=str(error))
            except (Stopped, BadInput) as error:
                self._stop(error)

    async def _place(self, start: Start) -> None:
        self._epoch = start.epoch
        self._tail = StreamTail(self._ports, self._feed, start)
        self._batcher = PartsBatcher(
            self._feed,
            start.epoch.text,
            max_messages=self._config.batch_messages,
            max_bytes=self._config.batch_bytes,
            envelope=envelope_of(self._config),
            origin=self._config.origin_name,
        )
        desk = None if self._config.is_replay else self._desk
        self._appender = Appender(self._store, desk, self._tail, self._batcher)
        self._intake.begin(start, self._batcher)
        self._published = self._marked = start.commit_ts
        # Each life begins with a mark. A stream that has one can't be taken for a feed that nobody
        # ever published; and whoever published before meets it: a batch on its way comes too late,
        # and a Drainer that goes on beside us stops. (A paused one writes nothing.)
        if start.fresh or not self._held:
            self._in_flight = True
            await self._send(self._batcher.watermark(start.commit_ts, start.prev_commit_ts))

    async def _gather(self) -> Batch | LargeTxn | None:
        """The next batch, once nothing is in flight and nobody holds it: full, or all there is, or
        a watermark. None when the batch in flight met a typed stop, or when all in front of one is
        published."""
        full: Batch | LargeTxn | None = None
        while True:
            if full is None and self._met is None and not self._held:
                full = await self._fill_or_meet()
            if self._error:
                return None
            if not self._in_flight and not self._held:
                if full is not None:
                    return full
                if not self._batcher.empty:
                    return self._intake.finish()
                self._advance(self._intake.covered)
                moved = self._published > self._marked
                if self._met is not None and not moved:
                    return None
                if self._met is not None or self._watermark_due() <= self._now():
                    hit("drainer.publisher.before_watermark")
                    return self._batcher.watermark(self._published, self._intake.prev)
            self._wake.clear()
            if not self._intake.waiting or full is not None or self._met is not None or self._held:
                await self._wait()

    async def _wait(self) -> None:
        """Wait for mail, for the batch in flight, or until a watermark is due."""
        if self._in_flight or self._held:
            await self._wake.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._watermark_due() - self._now())):
                await self._wake.wait()

    def _watermark_due(self) -> float:
        """Soon after the position moved without a marker, at the latest each second (I5)."""
        due = self._marked_at + WATERMARK_S
        if self._published > self._marked:
            due = min(due, self._moved_at + WATERMARK_SOON_S)
        return due

    def _advance(self, covers: int) -> None:
        if covers > self._published:
            if self._published <= self._marked:
                self._moved_at = self._ports.clock.monotonic()
            self._published = covers

    def _now(self) -> float:
        return self._ports.clock.monotonic()

    async def _fill_or_meet(self) -> Batch | LargeTxn | None:
        """Decode up to a full batch, or to a transaction that stops the feed. What stands in front
        of it was acked and can be published: first that is sent, then the feed stops."""
        try:
            return await self._intake.fill(self._answer, self._must_mark)
        except Undecodable as error:
            self._met = error
            return None

    def _must_mark(self) -> bool:
        """A fully filtered feed moves by watermarks, however much there is to drop."""
        return self._now() - self._marked_at >= WATERMARK_S

    async def _send(self, batch: Batch) -> None:
        try:
            await self._appender.append(batch)
        except (Stopped, BadInput) as error:
            await self._refused(error)
        else:
            self._sent(batch)
        finally:
            self._in_flight = False
            self._wake.set()

    async def _send_large(self, txn: LargeTxn) -> None:
        """Decode and append it part by part; nothing behind it is decoded meanwhile."""
        try:
            await self._appender.append_parts(txn)
            batch = self._batcher.end(self._intake.prev)
            if batch is not None:
                await self._send(self._intake.made(batch))
        except (Stopped, BadInput) as error:
            await self._refused(error)
        finally:
            txn.close()
            self._in_flight = False

    async def _refused(self, error: Stopped | BadInput) -> None:
        """A typed stop, if all of this doesn't start anew."""
        if isinstance(error, Fenced):
            self._store.waiting = str(error)
            log.warning("fenced off", feed=self._feed, error=error.message)
            await stand_off(self._config, self._ports, self._lease, self._tail, error)
        self._stop(error)

    def _sent(self, batch: Batch) -> None:
        self._store.waiting = ""
        hit("drainer.publisher.sent")
        self._marked = batch.last_ts
        self._marked_at = self._ports.clock.monotonic()
        self._advance(batch.covers)
        self._counts.sent(batch, self._decoding.dropped)

    def _stop(self, error: TidelogError) -> None:
        self._stopped, self._error = error, str(error)
        self._log_stop(error)
        self._answer()

    def _log_stop(self, error: TidelogError) -> None:
        feed_metrics.STOPS.labels(type(error).__name__).inc()
        position = {"commit_ts": error.commit_ts} if isinstance(error, Undecodable) else {}
        log.error(
            "the feed stops",
            feed=self._feed,
            error=error.message,
            hint=error.hint,
            kind=type(error).__name__,
            published_ts=self._published,
            **position,
        )

    def status(self) -> dict[str, object]:
        waiting = self._store.waiting
        if self._start is not None:
            waiting = waiting or self._tail.waiting
        not_ready = self._error or self._absent
        if not self._begun and not self._role.standby:
            not_ready = not_ready or f"the feed has not begun: {waiting or 'its position is read'}"
        return {
            "feed": self._feed,
            "not_ready": not_ready,
            "published_ts": self._published,
            "epoch": self._epoch.text,
            "sequence": self._tail.sequence if self._start is not None else 0,
            "large": self._batcher.under_way if self._start is not None else {},
            "schema_version": self._store.newest_version,
            "schema": self._store.status(),
            "queued_bytes": self._intake.bytes,
            "dropped": dict(sorted(self._decoding.dropped.items())),
            "waiting": waiting,
            "held": self._held,
            "error": self._error or self._absent,
            **self._counts.shown(),
        }
