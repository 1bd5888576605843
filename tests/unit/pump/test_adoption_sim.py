"""Slots that scaling down left: drained by another Pump, under a real registry."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.unit.pump.rig import CLUSTER, Client, commit, prewrite, ts_now
from tests.unit.pump.shared_disk import SLOTS, Pumps
from tidelog import messages, subjects
from tidelog.errors import DirectoryLocked
from tidelog.messages import OFFLINE, ONLINE, Consumer, Nodes, NodeStatus, SafePointRequest
from tidelog.sim import Node, World, run
from tidelog_pump.metrics import OWN
from tidelog_pump.service import adopt
from tidelog_pump.slots.claim import Slot
from tidelog_pump.slots.orphans import FIRST_S, LONGEST_S, LeftAlone
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

CONFIG = msgspec.structs.replace(SLOTS, adopt_after_s=20.0, resolve_after_s=3600.0)
GRACE_S = 20.0


class Cluster(Pumps):
    """With the real registry, and one consumer that the test moves."""

    def __init__(self, world: World) -> None:
        super().__init__(world, CONFIG)
        self.bus = world.ports("eye").bus

    async def listen(self) -> None:
        config = RegistryConfig(cluster=CLUSTER, cluster_id=self.config.cluster_id, oracle="follow")
        self.world.node("registry-node").start(build_registry, config)

    async def nodes(self) -> dict[str, NodeStatus]:
        subject = subjects.registry(CLUSTER, "nodes")
        answer = await self.bus.request(subject, b"{}", timeout_s=5)
        found = messages.decode_reply(answer.data, Nodes)
        return {node.nodeId: node for node in found.nodes}

    async def read_up_to(self, ts: int) -> None:
        """The consumer has read everything up to there."""
        body = messages.encode(SafePointRequest(Consumer("reader", "f", ts)))
        subject = subjects.registry(CLUSTER, "safepoint")
        await self.bus.request(subject, body, timeout_s=5)

    async def until_state(self, node: str, state: str, within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while True:
                if (await self.nodes())[node].state == state:
                    return
                await asyncio.sleep(0.2)

    async def until_told(self, node: str, text: str, within_s: float = 20.0) -> None:
        """The nodes' list says so of the slots beside this Pump's."""
        async with asyncio.timeout(within_s):
            while True:
                if text in (await self.nodes())[node].detail.get("slots", ""):
                    return
                await asyncio.sleep(0.2)

    def adopter(self, node: Node) -> dict[str, Any]:
        status: Any = node.status()
        found: dict[str, Any] = status["adopter"] if isinstance(status, dict) else {}
        return found

    async def until_adopted(self, slot: str, within_s: float = 60.0) -> Node:
        def by() -> list[Node]:
            return [n for n in self.running if self.adopter(n).get("adopted") == slot]

        await self.world.until(lambda: bool(by()), within_s, f"{slot} adopted")
        (one,) = by()
        await self.world.until(lambda: "step" in self.adopter(one), 20)
        return one


async def down_to_one(world: World) -> tuple[Cluster, dict[str, str], dict[str, int], int]:
    """Two Pumps with a transaction each, one more open on the second; then only the first is left.
    Returns the cluster, slot -> node, node -> commit_ts, and the open one's start_ts."""
    cluster = Cluster(world)
    await cluster.start(2)
    names = {slot: node for slot, (node, _) in cluster.identities().items()}
    written: dict[str, int] = {}
    for number, node in enumerate(names.values()):
        base = ts_now(world, 100 * number)
        client = Client(cluster.bus, node)
        await client.done(prewrite(base), commit(base, base + 1))
        written[node] = base + 1
    open_ts = ts_now(world, 900)
    await Client(cluster.bus, names["slot-1"]).done(prewrite(open_ts, b"open"))
    await cluster.read_up_to(1)
    cluster.running.sort(key=lambda node: cluster.identity(node)[2])
    return cluster, names, written, open_ts


def test_a_slot_left_by_scaling_down_is_read_committed_to_drained_and_offline() -> None:
    async def main(world: World) -> None:
        cluster, names, written, open_ts = await down_to_one(world)
        gone = names["slot-1"]
        await cluster.stop(leave=1)
        left = world.loop.time()
        await cluster.until_adopted("slot-1")
        assert world.loop.time() - left >= GRACE_S
        client = Client(cluster.bus, gone)
        assert (await client.write(prewrite(open_ts + 5)))[0].code == "NotOnline"
        assert [t.commit_ts for t in await client.pull_up_to(written[gone])] == [written[gone]]
        # Neither the open Prewrite's end nor a reader that is behind is left out.
        await cluster.read_up_to(written[gone] + (1 << 30))
        await world.sleep(10)
        assert (await cluster.nodes())[gone].state == ONLINE
        await client.done(commit(open_ts, open_ts + 9))
        found = await client.pull_up_to(open_ts + 9, written[gone])
        assert [t.commit_ts for t in found] == [open_ts + 9]
        await cluster.until_state(gone, OFFLINE)
        await world.until(lambda: not cluster.adopter(cluster.running[0])["adopted"], 20)
        disk = world.ports("machine").disk
        assert disk.listdir("slot-1/value")
        assert not disk.exists("slot-1/adopted")
        await world.sleep(3 * GRACE_S)
        shown = cluster.adopter(cluster.running[0])
        assert (shown["adopted"], shown["offline"], shown["failures"]) == ("", ["slot-1"], {})
        assert (await cluster.nodes())[names["slot-0"]].state == ONLINE

    run(main, 1)


def test_a_reader_that_is_behind_keeps_the_slot_from_going_offline() -> None:
    async def main(world: World) -> None:
        cluster, names, written, open_ts = await down_to_one(world)
        gone = names["slot-1"]
        await Client(cluster.bus, gone).done(commit(open_ts, open_ts + 1))
        await cluster.stop(leave=1)
        await cluster.until_adopted("slot-1")
        await cluster.read_up_to(written[gone])
        await world.sleep(20)
        assert (await cluster.nodes())[gone].state == ONLINE
        await cluster.read_up_to(open_ts + 1)
        await cluster.until_state(gone, OFFLINE)

    run(main, 2)


def test_a_pump_that_is_back_within_the_grace_time_keeps_its_slot() -> None:
    async def main(world: World) -> None:
        cluster, names, _, _ = await down_to_one(world)
        before = cluster.identities()
        await cluster.kill(1)
        await world.sleep(GRACE_S / 2)
        await cluster.start(2)
        await world.sleep(2 * GRACE_S)
        after = cluster.identities()
        assert after["slot-1"] == (names["slot-1"], before["slot-1"][1] + 1)
        assert all(not cluster.adopter(node)["adopted"] for node in cluster.running)

    run(main, 3)


def test_scaling_up_gets_an_adopted_slot_back_with_everything_in_it() -> None:
    async def main(world: World) -> None:
        cluster, names, written, open_ts = await down_to_one(world)
        gone = names["slot-1"]
        await cluster.stop(leave=1)
        await cluster.until_adopted("slot-1")
        await cluster.start(2)
        after = cluster.identities()
        assert sorted(after) == ["slot-0", "slot-1"]
        assert after["slot-1"] == (gone, 3)
        client = Client(cluster.bus, gone)
        await client.done(commit(open_ts, open_ts + 9), prewrite(open_ts + 20))
        found = await client.pull_up_to(open_ts + 9)
        assert [t.commit_ts for t in found] == [written[gone], open_ts + 9]
        assert (await cluster.nodes())[gone].state == ONLINE
        assert not world.ports("machine").disk.exists("slot-1/adopted")
        assert not world.ports("machine").disk.exists("slot-1/wanted")

    for seed in (4, 5, 6):
        run(main, seed)


def test_a_slow_disk_makes_no_new_slot_of_one_that_is_being_given_back() -> None:
    """Its marks are deleted and its lock let go in one turn, however long that takes."""

    async def main(world: World) -> None:
        cluster, names, _, _ = await down_to_one(world)
        await cluster.stop(leave=1)
        await cluster.until_adopted("slot-1")
        cluster.machine.disk.faults.write_s = 0.5
        await cluster.start(2)
        assert {slot: node for slot, (node, _) in cluster.identities().items()} == names

    for seed in (9, 10, 11):
        run(main, seed)


def test_the_lock_of_an_adopted_slot_is_held_until_its_files_are_closed() -> None:
    async def main(world: World) -> None:
        cluster = Cluster(world)
        ports = world.ports("machine")
        disk = ports.disk
        disk.mkdir("slot-1")
        lock = disk.lock("slot-1/.lock")
        slot = Slot("slot-1", lock, ports.within("slot-1"), ports, adopted=True)
        tree, let_go = adopt(cluster.config, slot)
        ended = asyncio.Event()
        ended.set()
        await tree.run(ended)
        with pytest.raises(DirectoryLocked):
            disk.lock("slot-1/.lock")
        let_go()
        disk.lock("slot-1/.lock")

    run(main, 13)


def test_gauges_tell_of_the_process_own_pump_only() -> None:
    async def main(world: World) -> None:
        cluster, names, _, open_ts = await down_to_one(world)
        await cluster.stop(leave=1)
        await cluster.until_adopted("slot-1")
        shown = OWN.max_commit_ts._value.get()
        client = Client(cluster.bus, names["slot-1"])
        committed = open_ts + (500 << 18)
        await client.done(commit(open_ts, committed))
        assert [t.commit_ts for t in await client.pull_up_to(committed)][-1] == committed
        assert OWN.max_commit_ts._value.get() == shown

    run(main, 12)


def test_when_the_adopter_dies_another_start_finds_the_slot_free() -> None:
    async def main(world: World) -> None:
        cluster, names, written, _ = await down_to_one(world)
        gone = names["slot-1"]
        await cluster.stop(leave=1)
        await cluster.until_adopted("slot-1")
        await cluster.kill(0)
        await cluster.start(2)
        assert {slot: node for slot, (node, _) in cluster.identities().items()} == names
        client = Client(cluster.bus, gone)
        assert [t.commit_ts for t in await client.pull_up_to(written[gone])] == [written[gone]]

    run(main, 7)


def test_an_adopted_pump_that_fails_is_told_and_left_alone() -> None:
    async def main(world: World) -> None:
        cluster, names, _, _ = await down_to_one(world)
        await cluster.stop(leave=1)
        await world.ports("machine").disk.write_file("slot-1/purged.json", b"no JSON")
        one = cluster.running[0]
        await world.until(lambda: bool(cluster.adopter(one)["failures"]), 60)
        assert "Corrupt" in cluster.adopter(one)["failures"]["slot-1"]
        await cluster.until_told(names["slot-0"], "slot-1 can't be drained: Corrupt")
        await world.sleep(60)
        assert cluster.adopter(one)["adopted"] == ""
        assert not one.failures
        await Client(cluster.bus, names["slot-0"]).until_online()
        # The lock is free again: an operator may mend it.
        assert world.ports("machine").disk.lock("slot-1/.lock")

    run(main, 8)


@pytest.mark.parametrize("adopted", [False, True])
def test_a_slot_on_a_full_disk_is_drained_once_there_is_space(adopted: bool) -> None:
    """It is a source of every feed: nobody may wait for it longer than for the disk."""

    async def main(world: World) -> None:
        cluster, names, _, open_ts = await down_to_one(world)
        faults = cluster.machine.disk.faults
        roomy = faults.capacity
        await cluster.stop(leave=1)
        if adopted:
            await cluster.until_adopted("slot-1")
        faults.capacity = cluster.machine.disk.used()
        client = Client(cluster.bus, names["slot-1"])
        if adopted:
            assert (await client.write(commit(open_ts, open_ts + 9)))[0].code == "ActorStopped"
        await cluster.until_told(names["slot-0"], "slot-1 can't be drained", within_s=60)
        await world.sleep(120)
        faults.capacity = roomy
        await cluster.until_adopted("slot-1", within_s=FIRST_S)
        await client.done(commit(open_ts, open_ts + 9))
        await cluster.read_up_to(open_ts + 9)
        await cluster.until_state(names["slot-1"], OFFLINE)
        await world.until(lambda: not cluster.adopter(cluster.running[0])["failures"], 20)

    run(main, 14)


def test_a_slot_that_fails_again_and_again_is_left_alone_for_longer() -> None:
    alone = LeftAlone()
    now, pauses = 0.0, []
    for _ in range(9):
        alone.failed("slot-1", now)
        began = now
        while alone.names(now):
            now += 5.0
        pauses.append(now - began)
    assert pauses == [FIRST_S, 20, 40, 80, 160, 320, LONGEST_S, LONGEST_S, LONGEST_S]
    now += LONGEST_S
    alone.failed("slot-1", now)
    assert not alone.names(now + FIRST_S), "it had served for long"
