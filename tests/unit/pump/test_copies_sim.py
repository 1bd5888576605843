"""Second copies of transactions on other Pumps, in any order, over kills (I2): every one is settled
by the Pump that has the first, none stops a reader; one that has no first is found, always."""

from __future__ import annotations

import asyncio
import contextlib
import random

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, Client, Registry, commit, join, prewrite, start
from tidelog.errors import TidelogError
from tidelog.messages import TxnStatusReply
from tidelog.sim import World, run
from tidelog_pump.metrics import LATE_VERDICTS

PUMPS = 3
TRANSACTIONS = 30


class Upstream:
    """Clients whose Prewrite also reaches Pumps other than the one that acked it first."""

    def __init__(self, world: World, registry: Registry, clients: list[Client]) -> None:
        self.world = world
        self.registry = registry
        self.clients = clients
        self.rng: random.Random = world.random("upstream")
        self.committed: dict[int, int] = {}

    async def certainly(self, client: Client, binlog: bytes) -> None:
        while True:
            with contextlib.suppress(TidelogError):
                if not (await client.write(binlog))[0].code:
                    return
            await asyncio.sleep(self.rng.random() * 0.1)

    async def transaction(self) -> None:
        rng = self.rng
        await asyncio.sleep(rng.random() * 6)
        first, *others = rng.sample(self.clients, rng.randint(1, PUMPS))
        start_ts = self.registry.allocate()
        await self.certainly(first, prewrite(start_ts))
        commit_ts = self.committed[start_ts] = self.registry.allocate()
        copies = [asyncio.ensure_future(self.copy(o, start_ts, commit_ts)) for o in others]
        await asyncio.sleep(rng.random() * 3)
        self.registry.verdicts[start_ts] = TxnStatusReply("committed", commit_ts)
        if rng.random() < 0.7:
            await self.certainly(first, commit(start_ts, commit_ts))
        await asyncio.gather(*copies)

    async def copy(self, client: Client, start_ts: int, commit_ts: int) -> None:
        """On its way for long; its Commit is the client's, or our own resolver's."""
        await asyncio.sleep(self.rng.random() * 4)
        await self.certainly(client, prewrite(start_ts))
        if self.rng.random() < 0.4:
            await self.certainly(client, commit(start_ts, commit_ts))


async def read(client: Client, feed: str, found: list[tuple[int, int]], registry: Registry) -> None:
    """For ever; a Pump that is down is asked again, a stop is none of what we expect."""
    position = 0
    while True:
        with contextlib.suppress(TidelogError):
            want = registry.allocate()
            frame = await client.pull(position, feed=feed, wait_ms=200, want_ts=want)
            if frame.code in ("", "ActorStopped"):
                found += [(t.start_ts, t.commit_ts) for t in frame.txns]
                position = max(position, frame.resolved_ts)
            else:
                assert not frame.code, f"{frame.code}: {frame.message}"
        await asyncio.sleep(0.02)


def shown(world: World, pumps: list[str], what: str) -> list[str | int]:
    """What each Pump's verifier says; "down" while it does not run."""
    statuses = [world.node(node).status() for node in pumps]
    return [s["verifier"].get(what, "down") if isinstance(s, dict) else "down" for s in statuses]


async def cluster(world: World, oracle: str) -> tuple[Registry, list[Client]]:
    config = msgspec.structs.replace(CONFIG, oracle=oracle)
    registry, client = await start(world, config)
    registry.pumps = [NODE, *(f"pump-{n}" for n in range(2, PUMPS + 1))]
    others = [
        await join(world, msgspec.structs.replace(config, node_id=name))
        for name in registry.pumps[1:]
    ]
    return registry, [client, *others]


async def kills(world: World, names: list[str]) -> None:
    rng = world.random("kills")
    for _ in range(4):
        await asyncio.sleep(rng.random() * 2)
        world.node(rng.choice(names)).kill(restart_after_s=rng.random())


@pytest.mark.parametrize("oracle", ["follow", "embedded"])
@pytest.mark.parametrize("seed", range(8))
def test_second_copies_are_settled_and_stop_nobody(seed: int, oracle: str) -> None:
    async def main(world: World) -> None:
        before = LATE_VERDICTS.labels("settled")._value.get()
        registry, clients = await cluster(world, oracle)
        names = [client.node for client in clients]
        upstream = Upstream(world, registry, clients)
        found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        readers = [asyncio.ensure_future(read(c, "f", found[c.node], registry)) for c in clients]
        killing = asyncio.ensure_future(kills(world, names))
        await asyncio.gather(*(upstream.transaction() for _ in range(TRANSACTIONS)))
        await killing
        await world.until(lambda: shown(world, names, "unverified") == [0] * PUMPS, 120)
        expected = set(upstream.committed.items())
        await world.until(
            lambda: {pair for came in found.values() for pair in came} == expected, 60, "all came"
        )
        assert shown(world, names, "missing") == [0] * PUMPS
        assert LATE_VERDICTS.labels("settled")._value.get() - before > 5
        for reader in readers:
            assert not reader.done() or reader.exception() is None
            reader.cancel()

    run(main, seed)


@pytest.mark.parametrize("oracle", ["follow", "embedded"])
@pytest.mark.parametrize("seed", range(4))
def test_what_no_pump_has_is_found_and_stops_who_missed_it(seed: int, oracle: str) -> None:
    """An upstream that fetches commit_ts before the first ack, which none of ours may do."""

    async def main(world: World) -> None:
        registry, clients = await cluster(world, oracle)
        names, upstream = [c.node for c in clients], Upstream(world, registry, clients)
        early = [(registry.allocate(), registry.allocate()) for _ in range(10)]
        position: dict[str, int] = {}
        for client in clients:
            at = 0
            while at < early[-1][1]:
                at = (await client.pull(at, want_ts=early[-1][1])).resolved_ts
            position[client.node] = at
        rng = world.random("early")
        holders = set()
        for start_ts, commit_ts in early:
            holder = rng.choice(clients)
            holders.add(holder.node)
            await asyncio.sleep(rng.random())
            await upstream.certainly(holder, prewrite(start_ts))
            await upstream.certainly(holder, commit(start_ts, commit_ts))
        for _ in range(3):
            await world.until(lambda: found(world, names) == (0, len(early)), 120, "each is found")
            for client in clients:
                frame = await client.pull(position[client.node], wait_ms=0)
                assert frame.code == ("LatePair" if client.node in holders else "")
                # Who begins below them is given them.
                begins = f"begins {rng.random()}"
                assert not (await client.pull(early[0][1] - 1, feed=begins, wait_ms=0)).code
            await kills(world, names)
            for name in names:
                for stored in world.node(name).indexes.values():
                    stored.broken = rng.random() < 0.5
                world.node(name).kill()
                world.node(name).restart()
            await asyncio.gather(*(client.until_online() for client in clients))

    run(main, seed)


def found(world: World, names: list[str]) -> tuple[int, int]:
    """Unverified and missing ones in all; -1 while a Pump does not run."""
    unverified, missing = (shown(world, names, what) for what in ("unverified", "missing"))
    if "down" in unverified:
        return -1, -1
    return sum(map(int, unverified)), sum(map(int, missing))
