"""The publisher: decodes what the collector merged and appends it to the feed's stream.

Group commit: one atomic batch is in flight; what arrives meanwhile is decoded and forms the next.
A typed stop keeps the actor alive and shows its reason, so that nothing restarts in circles.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

import structlog

from tidelog.actor import Actor, Reply
from tidelog.errors import BadInput, Stopped, StreamMissing, TidelogError, Unavailable
from tidelog.ports import Ports
from tidelog_drainer import metrics
from tidelog_drainer.batcher import Batch, Batcher
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.counts import Counts
from tidelog_drainer.decoder import DdlTxn, RowTxn, Undecodable
from tidelog_drainer.decoding import Decoding
from tidelog_drainer.mail import (
    AskPublished,
    AskStart,
    Begin,
    Hold,
    Merged,
    Published,
    PublisherMail,
)
from tidelog_drainer.position import Epoch, Start, find_start, rise
from tidelog_drainer.schema_store import SchemaStore
from tidelog_drainer.tail import StreamTail

QUEUE_BYTES = 16 << 20
YIELD_TXNS = 128
"""Decoding lets others run after so many transactions."""
WATERMARK_S = 1.0
WATERMARK_SOON_S = 0.03
"""An idle feed's new position is told this soon."""

log = structlog.get_logger()


class Publisher(Actor[PublisherMail]):
    """Owns the stream's end, the schema and the feed's position. `held`: an operator paused it."""

    def __init__(self, config: DrainerConfig, ports: Ports, *, held: bool = False) -> None:
        self._config = config
        self._ports = ports
        self._feed = config.feed
        self._store = SchemaStore(config, ports)
        self._decoding = Decoding(config, self._store, ports.clock)
        self._start: Start | None = None
        self._epoch: Epoch
        self._tail: StreamTail
        self._batcher: Batcher
        self._queue: deque[Merged] = deque()
        self._queued_bytes = 0
        self._at = 0
        self._carry: RowTxn | DdlTxn | None = None
        self._met: Undecodable | None = None
        """What stops the feed, while the batches in front of it are being sent."""
        self._credits: deque[Reply[None]] = deque()
        self._askers: list[AskStart] = []
        self._accepted = 0
        self._covered = 0
        self._published = 0
        self._prev = 0
        self._marked = 0
        self._marked_at = 0.0
        self._moved_at = 0.0
        self._in_flight = False
        self._held = held
        self._wake = asyncio.Event()
        self._begun = False
        self._stopped: TidelogError | None = None
        self._error = ""
        self._counts = Counts(config.feed)

    # Mail

    async def on_start(self) -> None:
        """A wrong `ddl-history` ends the start; an unreachable one is waited for later."""
        await self._store.check()
        self._epoch = await rise(self._config, self._ports)
        self._store.recall()
        self.spawn(self._run(), "publish")

    async def on_batch(self, batch: list[PublisherMail]) -> None:
        for message in batch:
            match message:
                case AskStart():
                    self._askers.append(message)
                case AskPublished():
                    message.reply.set(self._where())
                case Hold(held):
                    self._held = held
                case Merged():
                    self._queue.append(message)
                    self._queued_bytes += message.size
                    self._accepted = message.upto
                    self._credits.append(message.reply)
        self._answer()
        self._wake.set()

    def _where(self) -> Published:
        quiet = self._held and not self._in_flight
        return Published(self._published, self._epoch.number, self._error, quiet)

    def weigh(self, message: PublisherMail) -> int:
        return message.size + 64 if isinstance(message, Merged) else 64

    def _answer(self) -> None:
        """A collector begins behind everything that an earlier one handed over; after a typed
        stop none begins any more, and each is told so."""
        while self._askers and self._stopped is not None:
            self._askers.pop().reply.fail(self._stopped)
        while self._askers and self._start is not None:
            self._askers.pop().reply.set(Begin(self._accepted, self._start.ours))
        while self._credits and self._queued_bytes < QUEUE_BYTES and not self._error:
            self._credits.popleft().set(None)

    # The loop

    async def _run(self) -> None:
        try:
            await self._begin()
            while not self._error:
                batch = await self._gather()
                if batch is None:
                    break
                self._in_flight = True
                self.spawn(self._send(batch), "append")
        except (Stopped, BadInput) as error:
            self._stop(error)
            return
        if self._met is not None and not self._error:
            self._stop(self._met)

    async def _begin(self) -> None:
        """The position first: the merge, and the Pumps that join it, wait for nothing else."""
        while self._start is None:
            try:
                start = await find_start(self._config, self._ports, self._epoch)
                self._store.waiting = ""
            except (Unavailable, StreamMissing) as error:
                self._store.waiting = f"position: {error}"
                await self._store.pause(8)
                continue
            await self._place(start)
            self._start = start
            self._answer()
        if self._error:
            return  # its first mark met another Drainer
        await self._store.fetch_until_answered("the DDL history at start")
        self._decoding.begin(start)
        self._marked_at = self._now()
        self._begun = True
        log.info("feed goes on", feed=self._feed, after_ts=self._covered, epoch=start.epoch.text)

    async def _place(self, start: Start) -> None:
        self._epoch = start.epoch
        self._tail = StreamTail(self._ports, self._feed, start)
        self._batcher = Batcher(
            self._feed,
            start.epoch.text,
            max_messages=self._config.batch_messages,
            max_bytes=self._config.batch_bytes,
        )
        self._accepted = self._covered = self._published = self._marked = start.commit_ts
        self._prev = start.prev_commit_ts
        # Each life begins with a mark. A stream that has one can't be taken for a feed that nobody
        # ever published; and whoever published before meets it: a batch on its way comes too late,
        # and a Drainer that goes on beside us stops. (A paused one writes nothing.)
        if start.fresh or not self._held:
            self._in_flight = True
            await self._send(self._batcher.watermark(start.commit_ts, self._prev))

    async def _gather(self) -> Batch | None:
        """The next batch, once nothing is in flight and nobody holds it: full, or all there is, or
        a watermark. None when the batch in flight met a typed stop, or when all in front of one is
        published."""
        full: Batch | None = None
        while True:
            if full is None and self._met is None and not self._held:
                full = await self._fill_or_meet()
            if self._error:
                return None
            if not self._in_flight and not self._held:
                if full is not None:
                    return full
                if not self._batcher.empty:
                    return self._finish(self._covered)
                self._advance(self._covered)
                moved = self._published > self._marked
                if self._met is not None and not moved:
                    return None
                if self._met is not None or self._watermark_due() <= self._now():
                    return self._batcher.watermark(self._published, self._prev)
            self._wake.clear()
            if not self._queue or full is not None or self._met is not None or self._held:
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
            metrics.PUBLISHED_TS.labels(self._feed).set(covers)

    def _now(self) -> float:
        return self._ports.clock.monotonic()

    async def _fill_or_meet(self) -> Batch | None:
        """`_fill`, up to a transaction that stops the feed. What stands in front of it was acked
        and can be published: first that is sent, then the feed stops."""
        try:
            return await self._fill()
        except Undecodable as error:
            self._met = error
            return None

    async def _fill(self) -> Batch | None:
        """Decode the queue into the open batch; returns it when it is full."""
        decoded_since_yield = 0
        while self._queue:
            head = self._queue[0]
            while self._at < len(head.txns):
                txn = head.txns[self._at]
                decoded, self._carry = self._carry, None
                if decoded is None:
                    decoded = await self._decoding.decode(txn)
                if decoded is not None and not self._batcher.takes(decoded):
                    self._carry = decoded
                    return self._finish(self._covered)
                self._at += 1
                self._covered = txn[0]
                if isinstance(decoded, DdlTxn):
                    return self._note(self._batcher.ddl(decoded, self._prev))
                if decoded is not None and decoded.ddls:
                    return self._note(self._batcher.early(decoded, self._prev))
                if decoded is not None:
                    self._counts.met(decoded)
                    self._batcher.add(decoded)
                decoded_since_yield += 1
                if decoded_since_yield >= YIELD_TXNS:
                    decoded_since_yield = 0
                    await asyncio.sleep(0)
            self._queue.popleft()
            self._at = 0
            self._covered = head.upto
            self._queued_bytes -= head.size
            self._answer()
            if self._batcher.empty and self._now() - self._marked_at >= WATERMARK_S:
                break  # a fully filtered feed moves by watermarks, however much there is to drop
        return None

    def _finish(self, covers: int) -> Batch:
        return self._note(self._batcher.finish(self._prev, covers))

    def _note(self, batch: Batch) -> Batch:
        self._prev = batch.last_ts
        return batch

    async def _send(self, batch: Batch) -> None:
        try:
            await self._write_structures(batch)
            for chunk in batch.chunks:
                await self._tail.append(chunk)
        except (Stopped, BadInput) as error:
            self._stop(error)
        else:
            self._sent(batch)
        finally:
            self._in_flight = False
            self._wake.set()

    async def _write_structures(self, batch: Batch) -> None:
        failures = 0
        while True:
            try:
                await self._store.look()
                await self._store.publish(batch.structures)
                return
            except (Unavailable, StreamMissing) as error:
                self._store.waiting = f"{self._store.bucket_name}: {error}"
                await self._store.pause(failures)
                failures += 1

    def _sent(self, batch: Batch) -> None:
        self._store.waiting = ""
        self._marked = batch.last_ts
        self._marked_at = self._ports.clock.monotonic()
        self._advance(batch.covers)
        self._counts.sent(batch, self._decoding.dropped)

    def _stop(self, error: TidelogError) -> None:
        self._stopped, self._error = error, str(error)
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
        self._answer()

    def status(self) -> dict[str, object]:
        waiting = self._store.waiting
        if self._start is not None:
            waiting = waiting or self._tail.waiting
        not_ready = self._error
        if not self._begun:
            not_ready = not_ready or f"the feed has not begun: {waiting or 'its position is read'}"
        return {
            "feed": self._feed,
            "not_ready": not_ready,
            "published_ts": self._published,
            "epoch": self._epoch.text,
            "sequence": self._tail.sequence if self._start is not None else 0,
            "schema_version": self._store.newest_version,
            "queued_bytes": self._queued_bytes,
            "dropped": dict(sorted(self._decoding.dropped.items())),
            "waiting": waiting,
            "held": self._held,
            "error": self._error,
            **self._counts.shown(),
        }
