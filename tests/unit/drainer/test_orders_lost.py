"""An operator's order that was answered, and a store of NATS that is older, or gone."""

from __future__ import annotations

import msgspec
import pytest

from tests.integration.drainer.fakes import FEED
from tests.unit.drainer.test_ddl_orders import AT, UNKNOWN, ddl, order, published, stopped
from tests.unit.drainer.test_simulated import txn
from tests.unit.drainer.test_stops import CONFIG, everything, said
from tidelog import subjects
from tidelog.sealed import read_sealed, seal
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_drainer.publish.ddl_desk import DDLS_FILE, Kept
from tidelog_drainer.service import build


def leads(node: Node) -> bool:
    return bool(said(node, "lease").get("leads")) and said(node).get("not_ready") == ""


@pytest.mark.parametrize("restart", [False, True])
def test_an_order_outlives_a_store_that_goes_back(*, restart: bool) -> None:
    """One Drainer, one directory, which has the order in its ddls.json."""

    async def main(world: World) -> None:
        registry, pump = await stopped(world, [ddl(AT, 3)])
        node = world.node("drainer")
        await order(world, "ddl-policy", kind=UNKNOWN, action="forward")
        await published(node, world, 30)
        copy = world.nats.copy_store()
        await order(world, "ddl-policy", kind=UNKNOWN, action="skip")  # answered
        await world.sleep(2)
        if restart:
            node.kill()
        world.nats.roll_back(copy)
        await registry.again()
        if restart:
            node.restart()
        await world.sleep(10)
        pump.commit([ddl(40, 4), txn(50)], 50)
        await world.until(lambda: said(node).get("published_ts", 0) >= 50, 60, "the feed")
        found = await order(world, "ddls")
        assert found.policy == {UNKNOWN: "skip"}
        assert 40 not in await everything(world)

    run(main, 1)


def test_an_order_outlives_the_store_and_whoever_led() -> None:
    """d1 was ordered, d2 led since and was ordered otherwise; the store is lost, d1 leads again."""

    async def main(world: World) -> None:
        registry, pump = await stopped(world, [ddl(AT, 3)])
        node = world.node("drainer")
        await order(world, "ddl-policy", kind=UNKNOWN, action="forward")
        await published(node, world, 30)
        other = world.node("other")
        other.start(build, msgspec.structs.replace(CONFIG, node_id="d2"))
        await world.sleep(5)
        node.kill()
        await world.until(lambda: leads(other), 60, "d2")
        node.restart()  # stands by
        await world.sleep(5)
        await order(world, "ddl-policy", node="d2", kind=UNKNOWN, action="skip")
        await world.sleep(30)
        other.kill()
        world.nats.delete_store()
        await registry.again()
        await world.until(lambda: leads(node), 60, "d1")
        pump.commit([ddl(40, 4), txn(50)], 50)
        await published(node, world, 50)
        assert (await order(world, "ddls")).policy == {UNKNOWN: "skip"}
        assert 40 not in await everything(world)

    run(main, 1)


def test_an_order_that_an_earlier_release_kept_outlives_the_bucket() -> None:
    async def main(world: World) -> None:
        await stopped(world, [ddl(AT, 3)])
        node = world.node("drainer")
        await order(world, "ddl-policy", kind=UNKNOWN, action="skip")
        await published(node, world, 30)
        node.kill()
        disk = node.ports().disk
        kept = read_sealed(disk, DDLS_FILE, Kept, "")
        assert kept is not None
        unnumbered = msgspec.structs.replace(kept.orders, number=0)
        await disk.write_file(DDLS_FILE, seal(msgspec.structs.replace(kept, orders=unnumbered)))
        world.nats.delete(f"KV_{subjects.ddl_bucket(FEED)}")
        node.restart()
        await world.until(lambda: leads(node), 60, "the next life")
        assert (await order(world, "ddls")).policy == {UNKNOWN: "skip"}

    run(main, 1)


def test_a_newer_order_outlives_older_ones_that_were_more() -> None:
    """d1 had many, and was away when the store was lost and d2, which had none, was ordered."""

    async def main(world: World) -> None:
        registry, _ = await stopped(world, [ddl(AT, 3)])
        node = world.node("drainer")
        for action in ("skip", "rewrite", "forward"):
            await order(world, "ddl-policy", kind=UNKNOWN, action=action)
        await published(node, world, 30)
        node.kill()
        world.nats.delete_store()
        await registry.again()
        other = world.node("other")
        other.start(build, msgspec.structs.replace(CONFIG, node_id="d2"))
        await world.until(lambda: leads(other), 60, "d2")
        await order(world, "ddl-policy", node="d2", kind=UNKNOWN, action="skip")
        node.restart()  # stands by
        await world.sleep(10)
        other.kill()
        await world.until(lambda: leads(node), 60, "d1")
        assert (await order(world, "ddls")).policy == {UNKNOWN: "skip"}

    run(main, 1)
