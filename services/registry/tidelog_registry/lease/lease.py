"""The registry's lease: one registry of a cluster acts, however many run (I3, I9).

It is a record in the registry bucket, renewed each second by revision. Whoever finds it unchanged
for TAKEOVER_S, released, or its own of an earlier life, takes it over with a higher epoch; so a
registry that was frozen finds out at its next write, and has not acted since LEASE_S (`Tenure`).
One on a copy of a directory finds that directory's record and takes it over too; whose epoch is the
lower one then stops, and finds, started again, that the record is no more its own.
Beside the time, revisions fence: the oracle's bound (`tso_store`) and the membership bucket
(`members`) refuse whatever their earlier writer may still have under way.
"""

from __future__ import annotations

import asyncio

import structlog
from msgspec.structs import replace

from tidelog import subjects
from tidelog.actor import Actor, Nothing
from tidelog.errors import Conflict, NoResponders, StreamMissing, Unavailable
from tidelog.failpoints import hit
from tidelog.lease_store import Holder, LeaseStore
from tidelog.ports import Ports
from tidelog_registry.config import RegistryConfig
from tidelog_registry.lease.tenure import TAKEOVER_S, AnotherRegistry, Tenure

log = structlog.get_logger()

RENEW_S = 1.0
RETRY_S = 0.2
RELEASE_S = 2.0
ANSWER_S = 0.5


class Lease(Actor[Nothing]):
    """The first child: nobody else starts before it is taken, nor ends after it is given back."""

    def __init__(self, config: RegistryConfig, ports: Ports, tenure: Tenure) -> None:
        self._config = config
        self._bus = ports.bus
        self._clock = ports.clock
        self._rng = ports.rng
        self._store = LeaseStore(ports, subjects.registry_bucket(config.cluster), "lease")
        self._tenure = tenure
        self._mine = Holder("")
        self._revision = 0
        self._reason = ""
        self._keeping: asyncio.Task[None] | None = None

    async def on_start(self) -> None:
        self._mine, lived = await self._store.known()
        await self._acquire(lived)
        self._keeping = self.spawn(self._keep(), "keep")

    async def on_stop(self) -> None:
        """Give it back: the next registry need not wait."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        self._tenure.end()
        try:
            async with asyncio.timeout(RELEASE_S):
                await self._store.write(replace(self._mine, released=True), self._revision)
        except (Conflict, StreamMissing, Unavailable, TimeoutError) as error:
            log.info("the lease was not given back: it will run out", reason=str(error))

    def status(self) -> dict[str, object]:
        return {
            "held": self._tenure.holds(),
            "owner": self._mine.owner,
            "epoch": self._mine.epoch,
            "since_ms": self._mine.since_ms,
            "reason": self._reason,
        }

    # Taking it ------------------------------------------------------------------------------

    async def _acquire(self, lived: bool) -> None:
        """Raises AnotherRegistry."""
        watched: tuple[Holder, int] | None = None
        since = alone_from = 0.0
        while True:
            try:
                found, revision = await self._store.read()
                now = self._clock.monotonic()
                if found is None or found.released or found.is_of(self._mine):
                    if found is None and (lived or watched is not None or revision):
                        # Of a record that is gone nobody knows whose it was.
                        alone_from = now + TAKEOVER_S
                    elif found is not None and not found.released and await self._answered():
                        # One on a copy of our directory, which has yet to find us out.
                        alone_from = self._clock.monotonic() + TAKEOVER_S
                    await self._take(found, revision, alone_from)
                    return
                if watched is None:
                    log.info("waiting for the lease of another registry to run out", of=str(found))
                    watched, since = (found, revision), now
                elif revision != watched[1]:
                    raise AnotherRegistry(f"registry {found} leads cluster {self._config.cluster}")
                elif now - since >= TAKEOVER_S:
                    await self._take(found, revision, alone_from)
                    return
            except (Conflict, StreamMissing, Unavailable) as error:
                self._reason = str(error)
                log.info("the lease is not taken yet", reason=self._reason)
            await self._clock.sleep(RETRY_S)

    async def _answered(self) -> bool:
        """Does anybody serve in our place? What can't be told counts as a yes."""
        try:
            subject = subjects.registry(self._config.cluster, "nodes")
            await self._bus.request(subject, b"{}", timeout_s=ANSWER_S)
        except NoResponders:
            return False
        except Unavailable as error:
            log.info("whether another registry answers is unknown", reason=str(error))
        return True

    async def _take(self, found: Holder | None, revision: int, alone_from: float) -> None:
        mine = replace(
            self._mine,
            epoch=max(self._mine.epoch, found.epoch if found is not None else 0) + 1,
            life=self._rng.token(),
            node=self._config.node_id,
            host=self._config.http_addr,
            since_ms=self._clock.wall_ms(),
            released=False,
        )
        hit("registry.lease.before_record")
        await self._store.remember(mine)
        self._mine = mine
        hit("registry.lease.recorded")
        began = self._tenure.now()
        self._revision = await self._store.write(mine, revision)
        hit("registry.lease.taken")
        self._tenure.epoch, self._tenure.alone_from = mine.epoch, alone_from
        self._tenure.renewed(began)
        self._reason = ""
        log.info("this registry leads", cluster=self._config.cluster, epoch=mine.epoch)

    # Keeping it -----------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Raises AnotherRegistry once somebody took it over."""
        while True:
            began = self._tenure.now()
            hit("registry.lease.before_renewal")
            try:
                self._revision = await self._store.write(self._mine, self._revision)
            except (Conflict, StreamMissing, Unavailable) as error:
                self._reason = str(error)
                log.info("the lease is not renewed", reason=self._reason)
                await self._clock.sleep(RETRY_S)
                await self._explain()
            else:
                self._tenure.renewed(began)
                self._reason = ""
                await self._clock.sleep(RENEW_S)

    async def _explain(self) -> None:
        """After a refusal or an unknown outcome: an answer that got lost, a record lost or rolled
        back with its store, or a registry that took over?"""
        try:
            found, self._revision = await self._store.read()
        except Unavailable as error:
            self._reason = str(error)
            return
        if found is not None and found.follows(self._mine):
            self._tenure.end()
            copied = ", on a copy of its data directory" if found.owner == self._mine.owner else ""
            cluster = self._config.cluster
            raise AnotherRegistry(
                f"registry {found} took cluster {cluster} over from this one{copied}"
            )
