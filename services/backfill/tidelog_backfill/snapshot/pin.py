"""The snapshot's timestamp, and that nobody deletes what the stream needs behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import structlog

from tidelog import ask_registry
from tidelog.bulk.jobs import BackfillJob
from tidelog.config import redacted_url
from tidelog.errors import (
    BadInput,
    ConfigError,
    NotFound,
    Refused,
    StreamMissing,
    TidelogError,
    Unavailable,
)
from tidelog.feed_reader import newest_mark
from tidelog.feeds import Feeds
from tidelog.messages import Consumer, SafePoint, SafePointRequest
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus, Clock
from tidelog.real.bus import NatsBus
from tidelog.timestamps import compose

log = structlog.get_logger()

ASK_S = 5.0
SETTLE_S = 120.0
"""How long the feed may take to get to a timestamp of now."""
LOOK_S = 0.1
SKEW_MS = 60_000
"""How far clocks may differ, where no oracle is asked."""
LATE_MS = 60_000
"""So long after its commit at the source a transaction may still fetch its commit_ts, as one does
that a change capture tells of."""


def consumer_of(job: BackfillJob) -> str:
    """The same for whoever goes on with a copy, another one for each target."""
    place = redacted_url(job.downstream) + job.checkpoint_table if job.downstream else job.parquet
    return f"backfill-{job.feed}-{sha256(place.encode()).hexdigest()[:8]}"


class Pin:
    """The feed's cluster, if the job names its NATS server; else the job says all timestamps."""

    def __init__(self, job: BackfillJob, clock: Clock) -> None:
        self._job = job
        self._clock = clock
        self._consumer = consumer_of(job)
        self._holds = False

    @property
    def holds(self) -> bool:
        return self._holds

    @property
    def held(self) -> str:
        """For hints, how a person gives up what a copy that has ended still holds; "" = nothing."""
        if not self._holds:
            return ""
        feed, consumer = self._job.feed, self._consumer
        return (
            f"until the copy goes on, the Pumps keep what it needs for the consumer {consumer}:"
            f" `tidelog feed unregister {feed} {consumer}` gives it up"
        )

    async def timestamp(self, by_source: int) -> int:
        """A fresh one; what is committed up to it has been committed at the source, too: the feed
        was published that far. `by_source`: the source's own, 0 = it has none."""
        job = self._job
        ts = job.snapshot_ts or by_source
        if not job.nats_url:
            if not ts:
                raise ConfigError(
                    "nobody says at which timestamp to copy",
                    hint="nats-url, whose registry is asked, or snapshot-ts",
                )
            return ts
        async with self._bus() as bus:
            ts = ts or await RegistryOracle(bus, job.cluster).fresh()
            await self._check_feed(bus, ts)
            await self._hold(bus, ts)
            await self._published(bus, ts)
        return ts

    async def hold(self, ts: int) -> None:
        """Again, for a job that goes on."""
        if self._job.nats_url:
            async with self._bus() as bus:
                await self._hold(bus, ts)

    async def reach(self, by_source: int) -> int:
        """Above the commit_ts of all that is committed at the source by now, `LATE_MS` included."""
        if self._job.nats_url:
            async with self._bus() as bus:
                now = await RegistryOracle(bus, self._job.cluster).fresh()
        else:
            now = compose(self._clock.wall_ms() + SKEW_MS)
        return max(by_source, now) + compose(LATE_MS)

    async def let_go(self, ts: int) -> list[str]:
        """The copy is whole. A downstream's Applier still needs all that is behind it, and is
        registered in its name until it comes itself; where that name does not hold it, our own
        stays. Returns what a person has to see to."""
        if not self._job.nats_url:
            return []
        async with self._bus() as bus:
            notes: list[str] = []
            if self._job.downstream:
                try:
                    notes = await self._hold_for_applier(bus, ts)
                except Refused as error:
                    kept = (
                        f"the Applier can't be registered ({error.message}): in its place the"
                        f" consumer {self._consumer} holds what it needs until you remove it, once"
                        " the copy's Applier runs:"
                        f" `tidelog feed unregister {self._job.feed} {self._consumer}`"
                    )
                    return [kept]
            await self._remove(bus)
        return notes

    async def drop(self) -> None:
        """There is no copy to go on with. What can't be removed now is removed by the next one."""
        if not self._holds:
            return
        try:
            async with self._bus() as bus:
                await self._remove(bus)
        except TidelogError as error:
            log.warning("the copy's consumer stays", consumer=self._consumer, why=str(error))

    async def _hold_for_applier(self, bus: Bus, ts: int) -> list[str]:
        """Raises Refused where the registry has too many consumers, or that name's stands where it
        is not for this copy."""
        feed = self._job.feed
        name = f"applier-{feed}"
        try:  # one that is known stays: another copy's Applier may need what is behind that one
            await self._ask(bus, SafePointRequest(Consumer(name, feed, ts, only_if_new=True)))
            is_node = False
        except BadInput as error:
            log.info("the Applier announces itself", reason=error.message)
            is_node = True
        at = await self._position(bus, name)
        if is_node and at is not None and at <= ts:
            note = (
                f"what is behind the copy is kept for the Applier {name}, which stands at {at}:"
                " where the copy's has another name, begin that one before this one goes on"
            )
            return [note]
        if is_node or at != ts:
            where = "an unknown place" if at is None else at
            raise Refused(f"{name} is another's, at {where}")
        note = (
            f"what is behind the copy is kept for the consumer {name}; where the Applier has"
            " another name (node-id, standby-of), give it up once that one runs:"
            f" `tidelog feed unregister {feed} {name}`"
        )
        return [note]

    async def _position(self, bus: Bus, name: str) -> int | None:
        """A consumer's of the feed; None = nobody knows it for sure."""
        found = await ask_registry.nodes(bus, self._job.cluster, timeout_s=ASK_S)
        places = {(one.feed, one.name): one.commit_ts for one in found.consumers}
        return places.get((self._job.feed, name)) if found.settled else None

    async def _remove(self, bus: Bus) -> None:
        own = Consumer(self._consumer, self._job.feed, 0)
        await self._ask(bus, SafePointRequest(own, remove=True))
        self._holds = False

    async def _hold(self, bus: Bus, ts: int) -> None:
        consumer = Consumer(self._consumer, self._job.feed, ts)
        await self._ask(bus, SafePointRequest(consumer))
        self._holds = True

    async def _check_feed(self, bus: Bus, ts: int) -> None:
        feed = await Feeds(bus, self._job.cluster).get(self._job.feed)
        if feed is None or feed.initial_commit_ts > ts:
            raise NotFound(
                f"no feed {self._job.feed!r} begins before {ts}",
                hint=f"`tidelog feed create {self._job.feed}` comes first: the copy ends where the"
                " stream goes on",
            )

    async def _published(self, bus: Bus, ts: int) -> None:
        deadline = self._clock.monotonic() + SETTLE_S
        while (await self._newest(bus)) < ts:
            if self._clock.monotonic() > deadline:
                raise Unavailable(
                    f"the feed {self._job.feed} has not been published up to {ts} yet",
                    hint="does its Drainer run? See `tidelog status`",
                )
            await self._clock.sleep(LOOK_S)

    async def _newest(self, bus: Bus) -> int:
        try:
            return await newest_mark(bus, self._job.feed) or 0
        except StreamMissing:
            return 0

    async def _ask(self, bus: Bus, request: SafePointRequest) -> None:
        cluster = self._job.cluster
        await ask_registry.ask(bus, cluster, "safepoint", request, SafePoint, timeout_s=ASK_S)

    @asynccontextmanager
    async def _bus(self) -> AsyncIterator[Bus]:
        job = self._job
        bus = await NatsBus.connect(
            job.nats_url, name="backfill", timeout_s=ASK_S, access=job.access
        )
        try:
            yield bus
        finally:
            await bus.close()
