"""A Pump that collects often, a load, a Drainer: what the tests of retention share."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tests.unit.pump.rig import (
    CONFIG,
    NODE,
    Client,
    commit,
    prewrite,
    ts_now,
)
from tidelog.sim import World

QUICK = msgspec.structs.replace(
    CONFIG, segment_bytes=2 << 10, gc="20s", gc_hard_cap="1h", gc_interval="5s"
)
ON_DEMAND = msgspec.structs.replace(QUICK, gc_interval="1h")


class Load:
    """Transactions one after the other, and what has become of them."""

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client
        self.committed: list[int] = []

    async def run(self, seconds: float, *, pause_s: float = 0.2) -> None:
        until = self._world.loop.time() + seconds
        while self._world.loop.time() < until:
            await self.one()
            await asyncio.sleep(pause_s)

    async def one(self, rows: bytes = b"rows" * 50) -> int:
        """Its commit_ts."""
        start_ts = ts_now(self._world)
        await self._client.done(prewrite(start_ts, rows), commit(start_ts, start_ts + 1))
        self.committed.append(start_ts + 1)
        return start_ts + 1


class Drainer:
    """Pulls as a feed does, for ever."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.position = 0
        self.got: list[int] = []

    async def run(self) -> None:
        while True:
            frame = await self._client.pull(self.position, wait_ms=500)
            assert not frame.code, f"{frame.code}: {frame.message}"
            self.got += [txn.commit_ts for txn in frame.txns]
            self.position = frame.resolved_ts


def segments(world: World) -> list[str]:
    disk = world.node(NODE).ports().disk
    return [name for name in disk.listdir("value") if name.endswith(".vlog")]


def status(world: World, actor: str) -> dict[str, Any]:
    found: Any = world.node(NODE).status()
    return dict(found[actor])


async def restart_without_index(world: World, client: Client) -> None:
    node = world.node(NODE)
    await node.stop()
    node.indexes.clear()
    node.restart()
    await client.until_online()


async def purged(client: Client, after_ts: int) -> str:
    frame = await client.pull(after_ts, wait_ms=0)
    assert frame.code == "Purged", frame
    return frame.message
