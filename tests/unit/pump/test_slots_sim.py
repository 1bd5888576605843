"""Several Pumps on one directory: each takes a slot, and finds it again."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.pump.shared_disk import SLOTS, Pumps
from tidelog.errors import ConfigError, Refused
from tidelog.sim import World, run
from tidelog_pump.config import PumpConfig
from tidelog_pump.slots.claim import next_new, slots


def test_pumps_take_the_slots_in_turn_and_find_them_again() -> None:
    async def main(world: World) -> None:
        pumps = Pumps(world)
        await pumps.start(3)
        before = pumps.identities()
        assert sorted(before) == ["slot-0", "slot-1", "slot-2"]
        assert len({node for node, _ in before.values()}) == 3
        for _ in range(3):
            await pumps.stop()
            await pumps.start(3)
            after = pumps.identities()
            assert {slot: node for slot, (node, _) in after.items()} == {
                slot: node for slot, (node, _) in before.items()
            }
            assert all(after[slot][1] == before[slot][1] + 1 for slot in after)
            before = after

    for seed in range(4):
        run(main, seed)


def test_one_that_is_killed_and_comes_back_gets_the_lowest_free_slot() -> None:
    async def main(world: World) -> None:
        pumps = Pumps(world)
        await pumps.start(3)
        before = pumps.identities()
        await pumps.kill(1)
        (gone,) = set(before) - set(pumps.identities())
        await pumps.start(3)
        assert pumps.identities()[gone] == (before[gone][0], before[gone][1] + 1)

    run(main, 5)


def test_more_pumps_than_slots_are_refused() -> None:
    async def main(world: World) -> None:
        pumps = Pumps(world, msgspec.structs.replace(SLOTS, max_slots=2))
        await pumps.start(2)
        one = pumps.begin()
        await world.until(lambda: bool(one.failures), 10)
        assert isinstance(one.failures[0], Refused)
        assert "max-slots" in one.failures[0].hint

    run(main, 6)


def test_slots_are_ordered_by_number_and_the_lowest_missing_one_is_made() -> None:
    assert next_new([]) == "slot-0"
    assert next_new(["slot-0", "slot-2"]) == "slot-1"
    assert next_new(["slot-0", "slot-1"]) == "slot-2"

    async def main(world: World) -> list[str]:
        disk = world.ports("eye").disk
        for name in ("slot-10", "slot-9", "slot-01", "slot-x", "lost+found"):
            disk.mkdir(name)
        return slots(disk)

    assert run(main, 7) == ["slot-9", "slot-10"]


def test_a_slot_has_its_own_node_id() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        PumpConfig(slots_dir="/x", node_id="p")
