"""The registry on a full disk: what would have to be durable is refused, the rest goes on, and with
the room it comes back by itself."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.registry.nodes import CLUSTER, build, nodes, pump
from tests.unit.registry.rig import CONFIG, entries, given_within, until_state
from tests.unit.registry.test_ddl_store import Bench, job
from tidelog.ask_registry import ask
from tidelog.errors import DiskFull, Unavailable
from tidelog.messages import ONLINE, Consumer, SafePoint, SafePointRequest
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus
from tidelog.sim import World, run
from tidelog.sim.file import SimFile
from tidelog_registry import service


@pytest.mark.parametrize("seed", range(5))
def test_ddl_jobs_are_refused_until_there_is_room(seed: int) -> None:
    async def main(world: World) -> None:
        bench, node = Bench(), world.node("n")
        node.start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        await bench.append(job(1))
        for round_ in (2, 4):
            node.disk.full = True
            for job_id in (round_, round_ + 1, round_):
                with pytest.raises(DiskFull):
                    await bench.append(job(job_id, "x" * 500))
            await bench.append(job(1))  # it is kept already
            assert await bench.ids() == [1, *range(2, round_)]
            node.disk.full = False
            await bench.append(job(round_))
            await bench.append(job(round_ + 1))
        node.kill()
        await world.until(lambda: not bench.ref.alive, 5)
        node.restart()
        await world.until(lambda: bench.ref.alive, 5)
        assert await bench.ids() == [1, 2, 3, 4, 5]
        assert node.starts == 2

    run(main, seed)


@pytest.mark.parametrize("dies", [False, True])
def test_jobs_that_were_refused_are_not_kept_and_kept_ones_are_not_refused(dies: bool) -> None:
    """Of several in one write some are whole in the file. What is kept is asked for again."""

    async def main(world: World) -> None:
        bench, node = Bench(), world.node("n")
        node.start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        await bench.append(job(1))
        node.disk.full = True
        told = await asyncio.gather(
            *(bench.append(job(n)) for n in (2, 1, 3)), return_exceptions=True
        )
        assert [type(one) for one in told] == [DiskFull, type(None), DiskFull]
        if dies:
            node.kill()
            await world.until(lambda: not bench.ref.alive, 5)
            node.restart()
            await world.until(lambda: bench.ref.alive, 5)
        node.disk.full = False
        await bench.append(job(9))
        assert await bench.ids() == [1, 9]

    for seed in range(12):
        run(main, seed)


def test_jobs_without_room_for_the_length_that_is_synced_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are durable; how far all is synced, a start reads anew."""

    def refuses(_file: SimFile, _data: bytes) -> None:
        raise DiskFull("ddl.synced: no space left")

    async def main(world: World) -> None:
        bench, node = Bench(), world.node("n")
        node.start(bench.build, None)
        await world.until(lambda: bench.ref.alive, 5)
        await bench.append(job(1))
        with monkeypatch.context() as patch:
            patch.setattr(SimFile, "overwrite", refuses)
            await bench.append(job(2))
            assert await bench.ids() == [1, 2]
        await bench.append(job(3))
        node.kill()
        await world.until(lambda: not bench.ref.alive, 5)
        node.restart()
        await world.until(lambda: bench.ref.alive, 5)
        assert await bench.ids() == [1, 2, 3]
        assert (node.starts, node.failures) == (2, [])

    run(main, 1)


def test_a_full_disk_ends_no_registry() -> None:
    async def main(world: World) -> None:
        bus, registry = world.ports().bus, world.node("r")
        registry.start(service.build, CONFIG)
        await _joined(world, bus, "p1")
        oracle = RegistryOracle(bus, CLUSTER, timeout_s=1.0)
        before = await given_within(world, bus, 10)
        registry.disk.full = True
        await world.sleep(5)
        with pytest.raises(Unavailable, match="no space"):
            await oracle.take(1)
        with pytest.raises(Unavailable, match="no space"):
            await _register(bus, "a")
        await _joined(world, bus, "p2")
        assert len((await nodes(bus)).nodes) == 2
        registry.disk.full = False
        assert await given_within(world, bus, 5) > before
        await _register(bus, "a")
        assert (registry.starts, registry.stopped) == (1, [])
        await world.sleep(2)
        registry.kill()
        world.nats.delete_store()
        registry.restart()
        await until_state(world, bus, "p2", ONLINE, 20)
        assert {member.node for member in (await entries(bus)).values()} == {"p1", "p2"}

    run(main)


async def _joined(world: World, bus: Bus, name: str) -> None:
    world.node(name).start(build, pump(name))
    await until_state(world, bus, name, ONLINE, 20)


async def _register(bus: Bus, name: str) -> None:
    wanted = SafePointRequest(Consumer(name, "f", 5))
    await ask(bus, CLUSTER, "safepoint", wanted, SafePoint, timeout_s=5)
