"""Who works for a feed: of its Drainers one leads, of its Appliers one; the others stand by.

The lease is a record in the bucket of feeds, renewed each second by revision. Who stands by takes
it over once it has seen the record unchanged for TAKEOVER_S, or released. Only how soon a feed goes
on rests on it: whoever publishes is fenced by the stream's last sequence, whoever applies by its
epoch in the downstream, so two that both take themselves for the leader do no harm (ADR 14).
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import msgspec
import structlog
from msgspec.structs import replace

from tidelog import ask_registry, subjects
from tidelog.actor import Actor, Reply
from tidelog.errors import Conflict, DiskFull, StreamMissing, TidelogError, Unavailable
from tidelog.failpoints import hit
from tidelog.lease_store import Holder, LeaseStore
from tidelog.ports import Ports

RENEW_S = 1.0
LOOK_S = 0.25
RETRY_S = 0.2
TAKEOVER_S = 4.0
RELEASE_S = 2.0
ASK_S = 2.0

log = structlog.get_logger()


class AskLead(msgspec.Struct, frozen=True):
    """Answered once this node leads the feed, by its record's word."""

    reply: Reply[None]


class Release(msgspec.Struct, frozen=True):
    """Membership -> lease: let another node lead, for the rest of this life."""

    reply: Reply[None]


class Hold(msgspec.Struct, frozen=True):
    """Membership -> lease, whoever works: do nothing further and keep the place, or go on."""

    held: bool


LeaseMail = AskLead | Hold | Release


class Candidate(msgspec.Struct, frozen=True):
    """Who asks for the lease `key`: a node of `kind` for `feed`, and where it is."""

    key: str
    kind: str
    node: str
    cluster: str
    feed: str
    host: str


class Superseded(TidelogError):
    """Another node leads the feed now: this one stands by."""


@dataclass
class Role:
    """What the lease says of this process, for its other actors to read; only `Lease` changes it.
    `standby`: who leads instead. `paused`: by a record that says so, nobody works."""

    leads: bool = False
    standby: str = ""
    paused: bool = False


class Lease(Actor[LeaseMail]):
    """The first child, so that losing the lease starts all others anew, on stand-by.

    `AskLead` is answered by a renewal that began after it: who was fenced off is told only once
    the record says that it leads all the same. `held`: an order; it keeps its own lease then, so
    that nobody works in its place, and takes no other's.
    """

    def __init__(self, candidate: Candidate, ports: Ports, role: Role, *, held: bool) -> None:
        self._candidate = candidate
        self._ports = ports
        self._clock = ports.clock
        bucket = subjects.feeds_bucket(candidate.cluster)
        self._store = LeaseStore(ports, bucket, candidate.key)
        self._mine = Holder("")
        self._revision = 0
        self._held = held
        self._role = role
        role.leads, role.standby, role.paused = False, "", False
        self._waiting = ""
        self._askers: list[Reply[None]] = []
        self._wake = asyncio.Event()
        self._living: asyncio.Task[None]

    async def on_start(self) -> None:
        self._mine, _ = await self._store.known()
        self._living = self.spawn(self._live(), "live")

    async def on_batch(self, batch: list[LeaseMail]) -> None:
        for message in batch:
            match message:
                case AskLead(reply):
                    self._askers.append(reply)
                case Hold(held):
                    self._held = held
                case Release(reply):
                    await self._release()
                    reply.set(None)
        self._wake.set()

    async def on_stop(self) -> None:
        await self._release()

    async def _release(self) -> None:
        """Give it back, and take it no more in this life: another one need not wait."""
        self._living.cancel()
        await asyncio.wait([self._living])
        if not self._role.leads:
            return
        hit("node.lease.before_release")
        self._role.leads = False
        try:
            async with asyncio.timeout(RELEASE_S):
                # Again, as the renewal that was ended here may have got through.
                while not await self._given_back():
                    await self._explain()
        except (Superseded, StreamMissing, Unavailable, TimeoutError) as error:
            log.info("the feed's lease was not given back: it runs out", reason=str(error))

    async def _given_back(self) -> bool:
        with contextlib.suppress(Conflict):
            await self._store.write(replace(self._mine, released=True), self._revision)
            return True
        return False

    async def _live(self) -> None:
        await self._acquire()
        hit("node.lease.taken")
        self._role.leads, self._role.standby, self._waiting = True, "", ""
        log.info("this node leads", feed=self._candidate.feed, epoch=self._mine.epoch)
        await self._keep()

    # Standing by ----------------------------------------------------------------------------

    async def _acquire(self) -> None:
        seen, since, there = -1, 0.0, False
        while True:
            try:
                found, revision = await self._store.read()
                now = self._clock.monotonic()
                # One that was there and is gone is looked at for as long: its holder writes it
                # again where the store was lost, or somebody deleted it.
                if seen != revision:
                    since = now
                seen, there = revision, there or revision > 0
                free = self._is_free(found, first=not there)
                if free or await self._ran_out(found, now - since):
                    await self._take(found, revision)
                    return
                self._role.standby = f"{found} leads" if found is not None else ""
                self._waiting = ""
            except (Conflict, DiskFull, StreamMissing, Unavailable) as error:
                # Nobody renews what nobody can reach: how long it stood says nothing.
                seen, self._waiting = -1, f"the feed's lease: {error}"
            await self._until_due(LOOK_S)

    def _is_free(self, found: Holder | None, *, first: bool) -> bool:
        """Is there nobody to wait for?"""
        if found is not None and found.is_of(self._mine):
            return True  # of an earlier life
        if self._held:
            return False
        return first if found is None else found.released

    async def _ran_out(self, found: Holder | None, unchanged_s: float) -> bool:
        if self._held or unchanged_s < TAKEOVER_S:
            return False
        if found is None or not found.paused:
            return True
        return not await self._is_paused(found)

    async def _is_paused(self, leader: Holder) -> bool:
        """Does the operator's order to a leader that is gone still stand? The registry keeps it.
        Raises Unavailable: who can't know does nothing."""
        nodes = await ask_registry.nodes(self._ports.bus, self._candidate.cluster, timeout_s=ASK_S)
        ordered = {(n.kind, n.nodeId): n.order.action for n in nodes.nodes}
        return ordered.get((self._candidate.kind, leader.node)) == "pause"

    async def _take(self, found: Holder | None, revision: int) -> None:
        mine = replace(
            self._mine,
            epoch=max(self._mine.epoch, found.epoch if found is not None else 0) + 1,
            life=self._ports.rng.token(),
            node=self._candidate.node,
            host=self._candidate.host,
            since_ms=self._clock.wall_ms(),
            released=False,
            paused=self._held,
        )
        hit("node.lease.before_record")
        await self._store.remember(mine)
        self._mine = mine
        hit("node.lease.recorded")
        self._revision = await self._store.write(mine, revision)

    # Leading --------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Raises Superseded."""
        while True:
            asked, self._askers = self._askers, []
            mine = replace(self._mine, paused=self._held)
            hit("node.lease.before_renewal")
            try:
                self._revision = await self._store.write(mine, self._revision)
            except (Conflict, StreamMissing, Unavailable) as error:
                self._askers = asked + self._askers
                self._waiting = f"the feed's lease is not renewed: {error}"
                log.info("the feed's lease is not renewed", reason=str(error))
                await self._clock.sleep(RETRY_S)
                await self._explain()
                continue
            self._mine, self._role.paused = mine, mine.paused
            self._waiting = ""
            for reply in asked:
                reply.set(None)
            await self._until_due(RENEW_S)

    async def _explain(self) -> None:
        """After a refusal or an unknown outcome: an answer that got lost, a record lost or rolled
        back with its store, or a node that took over?"""
        try:
            found, self._revision = await self._store.read()
        except (StreamMissing, Unavailable):
            return
        if found is not None and found.follows(self._mine):
            raise Superseded(f"{found} leads feed {self._candidate.feed} now")

    async def _until_due(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def status(self) -> dict[str, object]:
        return {
            "leads": self._role.leads,
            "standby": self._role.standby,
            "epoch": self._mine.epoch,
            "paused": self._role.paused,
            "waiting": self._waiting,
        }
