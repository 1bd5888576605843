"""Many writers, a reader, power losses: nothing ever appears at or below what was resolved (I2)."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from tests.unit.pump.rig import (
    CONFIG,
    NODE,
    Client,
    Registry,
    commit,
    prewrite,
    rollback,
    start,
)
from tidelog.errors import TidelogError
from tidelog.sim import World, run

WRITERS, ROUNDS = 8, 12


class Upstream:
    """Writers as a TiDB: commit_ts is fetched only after the ack of the Prewrite."""

    def __init__(self, world: World, registry: Registry, client: Client) -> None:
        self.rng = world.random("upstream")
        self.registry = registry
        self.client = client
        self.committed: dict[int, int] = {}

    async def until_acked(self, payload: bytes) -> None:
        while True:
            with contextlib.suppress(TidelogError):
                if not (await self.client.write(payload))[0].code:
                    return
            await asyncio.sleep(self.rng.random() * 0.1)

    async def write(self) -> None:
        for _ in range(ROUNDS):
            start_ts = self.registry.allocate()
            await self.until_acked(prewrite(start_ts, self.rng.randbytes(self.rng.randrange(900))))
            await asyncio.sleep(self.rng.random() * 0.05)
            if self.rng.random() < 0.2:
                await self.until_acked(rollback(start_ts))
                continue
            commit_ts = self.registry.allocate()
            self.committed[commit_ts] = start_ts
            await asyncio.sleep(self.rng.random() * 0.05)
            await self.until_acked(commit(start_ts, commit_ts))


async def read(client: Client, registry: Registry, found: dict[int, int]) -> None:
    """Pull for ever from where we are; every transaction must lie above what was resolved."""
    position = 0
    while True:
        with contextlib.suppress(TidelogError):
            frame = await client.pull(position, wait_ms=300, want_ts=registry.allocate())
            assert not frame.code, frame.message
            for txn in frame.txns:
                assert position < txn.commit_ts <= frame.resolved_ts
                assert txn.commit_ts not in found
                found[txn.commit_ts] = txn.start_ts
            position = max(position, frame.resolved_ts)
        await asyncio.sleep(0)


@pytest.mark.parametrize("oracle", ["follow", "embedded"])
@pytest.mark.parametrize("seed", range(12))
def test_nothing_appears_below_resolved(seed: int, oracle: str) -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, oracle=oracle, gen_binlog_interval=0.5)
        registry, client = await start(world, config)
        # Short, so that the reader is back as soon as the Pump, before the late Commits.
        client.timeout_s = 0.4
        upstream, found = Upstream(world, registry, client), dict[int, int]()
        reading = asyncio.create_task(read(client, registry, found))
        writing = [asyncio.create_task(upstream.write()) for _ in range(WRITERS)]
        pump = world.node(NODE)
        for _ in range(seed % 4):
            await asyncio.sleep(upstream.rng.random())
            pump.kill(restart_after_s=upstream.rng.random())
        await asyncio.gather(*writing)
        with contextlib.suppress(TimeoutError):
            await world.until(lambda: reading.done() or found == upstream.committed, 60)
        if reading.done():
            reading.result()
        reading.cancel()
        assert found == upstream.committed
        assert list(found) == sorted(found)
        await client.until_online()
        assert pump.service.status()["sorter"]["late_copies"] == 0
        assert not pump.failures

    run(main, seed)
