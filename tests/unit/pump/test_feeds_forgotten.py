"""A feed that nobody reads any more holds nothing back: it expires, or an operator says so."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.pump.gc_rig import Load, status
from tests.unit.pump.rig import CLUSTER, CONFIG, NODE, start
from tidelog.errors import BadInput, Refused
from tidelog.messages import DRAINER, OFFLINE, Consumer, Nodes, NodeStatus, SafePointRequest
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX
from tidelog_cli.feed import forget, refuse_if_read

ON_DEMAND = msgspec.structs.replace(
    CONFIG, segment_bytes=2 << 10, gc="20s", gc_hard_cap="1h", gc_interval="1h"
)


def test_one_that_is_registered_nowhere_expires_after_gc_of_uptime() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        registry.safe_point, registry.pumps = TS_MAX, [NODE]
        load = Load(world, client)
        await load.run(5)
        first = load.committed[2]
        registry.consumers = [Consumer("a1", "asleep", TS_MAX)]
        for feed in ("typo", "asleep", "main"):
            await client.pull(first, wait_ms=0, feed=feed)
        await load.run(15)
        node = world.node(NODE)
        await node.stop()
        await asyncio.sleep(3600)
        node.restart()
        await client.until_online()
        # An hour of which nobody can say that it might have pulled.
        await client.control("gc")
        assert status(world, "puller")["feeds"].keys() == {"typo", "asleep", "main"}
        await load.run(6)
        await client.pull(first, wait_ms=0, feed="main")
        await client.control("gc")
        assert status(world, "puller")["feeds"].keys() == {"asleep", "main"}
        await client.pull(load.committed[-1], wait_ms=0, feed="main")
        registry.consumers = []
        answer = await client.control("gc")
        assert status(world, "puller")["feeds"].keys() == {"main"}
        assert answer["purge_ts"] > first
        await asyncio.sleep(2)
        await node.stop()
        node.restart()
        await client.until_online()
        assert status(world, "puller")["feeds"].keys() == {"main"}
        beats = len(registry.beats)
        await world.until(lambda: len(registry.beats) > beats + 1, 10)
        assert registry.beats[-1].feeds.keys() == {"main"}

    run(main, 1)


def test_while_the_registry_is_silent_or_not_settled_nothing_expires() -> None:
    async def main(world: World) -> None:
        _, client = await start(world, ON_DEMAND)
        await client.pull(0, wait_ms=0, feed="main")
        await asyncio.sleep(100)
        client.timeout_s = 10
        await client.control("gc")
        assert status(world, "puller")["feeds"].keys() == {"main"}

    run(main, 2)


def test_an_operator_has_it_forgotten() -> None:
    async def main(world: World) -> None:
        registry, client = await start(
            world, msgspec.structs.replace(ON_DEMAND, gc="10m", gc_hard_cap="2h")
        )
        registry.safe_point, registry.pumps = TS_MAX, [NODE]
        load = Load(world, client)
        await load.run(5)
        await client.pull(load.committed[0], wait_ms=0, feed="typo")
        asked: list[str] = []
        with pytest.raises(Refused, match="in the last 60 s"):
            await forget(client.bus, CLUSTER, "typo", asked.append)
        await asyncio.sleep(61)
        registry.consumers = [Consumer("a1", "typo", 5)]
        with pytest.raises(Refused, match="consumer a1"):
            await forget(client.bus, CLUSTER, "typo", asked.append)
        registry.consumers = []
        with pytest.raises(BadInput, match="nobody knows"):
            await forget(client.bus, CLUSTER, "tipo", asked.append)
        done = await forget(client.bus, CLUSTER, "typo", asked.append)
        assert "typo" in asked[-1]
        assert (done.pumps, done.silent) == ({NODE: load.committed[0]}, [])
        assert registry.safe_point_requests == [
            SafePointRequest(Consumer("", "typo", 0), remove=True)
        ]
        assert not status(world, "puller")["feeds"]
        await asyncio.sleep(2)
        node = world.node(NODE)
        node.kill()
        node.restart()
        await client.until_online()
        assert not status(world, "puller")["feeds"]

    run(main, 3)


def test_a_drainer_that_is_only_registered_needs_its_feed() -> None:
    for alive, state in ((True, OFFLINE), (False, "paused")):
        known = Nodes([NodeStatus("d1", state=state, isAlive=alive, kind=DRAINER, feed="f")])
        with pytest.raises(Refused, match="Drainer d1"):
            refuse_if_read(known, "f")
        refuse_if_read(known, "g")
