"""A Pump that was let go, and comes back with records above its tombstone (I4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.pump.rig import CLUSTER, NODE, Client, commit, prewrite, rollback, start, ts_now
from tidelog import record, subjects
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.messages import OFFLINE, ONLINE
from tidelog.sim import World, run
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_pump.stranded.export import Exported, folder


async def tombstone(world: World, high_ts: int, state: str = OFFLINE) -> None:
    bucket = Bucket(world.ports("registry").bus, subjects.members_bucket(CLUSTER))
    await bucket.create()
    await bucket.put(NODE, msgspec.json.encode(Member(NODE, state, 1, high_ts)))


async def come_back(world: World) -> None:
    await world.node(NODE).stop()
    world.node(NODE).restart()
    await world.until(lambda: bool(shown(world).get("stranded")), 20, "a Pump that is stranded")


def shown(world: World) -> dict[str, Any]:
    status = world.node(NODE).status()
    found = status.get("stranded", {}) if isinstance(status, dict) else {}
    assert isinstance(found, dict)
    return found


def exported(world: World, high_ts: int) -> tuple[Exported, list[tuple[int, int, int]]]:
    """What export.json says, and (tp, start_ts, commit_ts) of each record."""
    disk, at = world.ports(NODE).disk, folder(high_ts, 1)
    told = msgspec.json.decode(disk.read_file(f"{at}/export.json"), type=Exported)
    records = []
    for name in told.files:
        data = disk.read_file(f"{at}/{name}")
        found = record.split(data)
        assert found.consumed + record.FOOTER_BYTES == len(data)
        binlogs = [Binlog.FromString(bytes(payload)) for _, payload in found.records]
        records += [(int(b.tp), b.start_ts, b.commit_ts) for b in binlogs]
        last = max(max(b.start_ts, b.commit_ts) for b in binlogs)
        assert record.parse_footer(data) == last
    return told, records


async def filled(world: World, client: Client, size: int = 5000) -> int:
    """Committed at +1, +11, …, +41; one open, one rolled back, one Commit alone. Returns base."""
    base = ts_now(world)
    for at in range(0, 50, 10):
        await client.done(prewrite(base + at, b"x" * size), commit(base + at, base + at + 1))
    await client.done(prewrite(base + 60), prewrite(base + 61), rollback(base + 61))
    await client.done(commit(base + 70, base + 71))
    return base


def test_records_above_the_tombstone_are_exported_and_keep_the_pump_out() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        base = await filled(world, client)
        await tombstone(world, base + 21)
        await world.node(NODE).stop()
        beats = len(registry.beats)
        world.node(NODE).restart()
        await world.until(lambda: bool(shown(world).get("stranded")), 20)
        told, records = exported(world, base + 21)
        assert records == [
            (0, base + 30, 0),
            (1, base + 30, base + 31),
            (0, base + 40, 0),
            (1, base + 40, base + 41),
            (1, base + 70, base + 71),
            (0, base + 60, 0),
        ]
        counts = (told.committed, told.open, told.unpaired, told.first, told.last)
        assert counts == (2, 1, 1, base + 31, base + 71)
        assert shown(world)["stranded"] == told.count == 4
        assert "2 transactions committed" in shown(world)["why"]
        assert "stranded: 2 transactions committed" in shown(world)["not_ready"]
        await world.sleep(20)
        assert len(registry.beats) == beats
        assert "Stranded" in (await client.pull(0)).code
        assert (await client.write(b""))[0].code == "NotOnline"
        membership: Any = world.node(NODE).status()
        assert "above the tombstone" in membership["membership"]["not_ready"]

    run(main, 1)


def test_once_accepted_it_joins_as_a_new_pump_and_commits_that_came_since_are_exported() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = await filled(world, client)
        await tombstone(world, base + 41)
        await come_back(world)
        await client.done(commit(base + 60, base + 80))
        at = folder(base + 41, 1)
        await world.ports(NODE).disk.write_file(f"{at}/accepted", b"")
        await client.until_online()
        told, records = exported(world, base + 41)
        assert (told.committed, told.open, told.unpaired) == (1, 0, 1)
        assert (1, base + 60, base + 80) in records
        assert shown(world)["stranded"] == 0
        found = await client.pull_up_to(base + 80, base + 41)
        assert [txn.commit_ts for txn in found] == [base + 80]
        # The next start finds it accepted.
        world.node(NODE).kill()
        world.node(NODE).restart()
        await client.until_online()

    run(main, 2)


def test_each_tombstone_has_an_export_and_a_consent_of_its_own() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = await filled(world, client)
        await tombstone(world, base + 41)
        await come_back(world)
        await world.ports(NODE).disk.write_file(f"{folder(base + 41, 1)}/accepted", b"")
        await client.until_online()
        await tombstone(world, base + 31)
        await come_back(world)
        told, _ = exported(world, base + 31)
        assert told.committed == 1
        assert world.ports(NODE).disk.exists(f"{folder(base + 41, 1)}/export.json")

    run(main, 3)


@pytest.mark.parametrize("state", [ONLINE, OFFLINE])
def test_one_without_a_tombstone_or_with_nothing_above_it_joins(state: str) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 1))
        await tombstone(world, base + 1 if state == OFFLINE else 0, state)
        await world.node(NODE).stop()
        world.node(NODE).restart()
        await client.until_online()
        assert not world.ports(NODE).disk.exists("stranded")

    run(main, 4)


def test_one_that_is_told_offline_while_it_runs_says_what_it_holds() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        base = await filled(world, client)
        registry.state = OFFLINE
        await world.sleep(5)
        assert shown(world)["stranded"] == 0
        await tombstone(world, base + 41)
        await world.until(lambda: bool(shown(world).get("stranded")), 10)
        assert "Stranded" in (await client.pull(0)).code

    run(main, 5)


def test_one_that_is_told_offline_and_can_t_look_goes_on_looking() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        base = await filled(world, client)
        registry.state = OFFLINE
        pump = world.node(NODE)
        await world.sleep(5)
        pump.partition(True)
        await tombstone(world, base + 41)
        await world.sleep(20)
        assert shown(world)["stranded"] == 0
        pump.partition(False)
        await world.until(lambda: bool(shown(world).get("stranded")), 20, "what it holds")
        assert (pump.failures, pump.service.restarts_total) == ([], 0)

    run(main, 7)


def test_an_export_on_a_full_disk_is_tried_again() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = await filled(world, client, size=400_000)
        await tombstone(world, base)
        disk = world.node(NODE).disk
        await world.node(NODE).stop()
        roomy, disk.faults.capacity = disk.faults.capacity, disk.used() + (1 << 20)
        world.node(NODE).restart()
        await world.until(lambda: "append failed" in str(shown(world).get("error")), 20)
        assert "Stranded" in (await client.pull(0)).code
        disk.faults.capacity = roomy
        await world.until(lambda: bool(shown(world).get("stranded")), 20)
        assert exported(world, base)[0].committed == 5

    run(main, 6)
