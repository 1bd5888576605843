"""The oracle in the simulator: order over kills and clock jumps, the fence, where it starts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.registry.nodes import CLUSTER, build, pump
from tests.unit.registry.rig import CONFIG, given_within, operate, until_state
from tidelog import messages, subjects
from tidelog.errors import BadInput, TidelogError, Unavailable
from tidelog.kv import Bucket
from tidelog.messages import ONLINE, TsoReply, TsoRequest
from tidelog.oracle import RegistryOracle
from tidelog.sim import World, run
from tidelog.timestamps import compose, physical_ms
from tidelog_registry import service
from tidelog_registry.lease.tenure import AnotherRegistry
from tidelog_registry.oracle.store import KEY


@pytest.mark.parametrize("seed", range(8))
def test_timestamps_rise_whatever_dies(seed: int) -> None:
    async def main(world: World) -> None:
        rng = world.random("test")
        bus = world.ports().bus
        registry = world.node("r")
        registry.start(service.build, CONFIG)
        highest, taken = await given_within(world, bus, 10), 0
        oracle = RegistryOracle(bus, CLUSTER, timeout_s=1.0)
        world.net.loss, world.net.duplicate, world.net.unknown = 0.02, 0.05, 0.2
        for _ in range(40):
            match rng.randrange(5):
                case 0:
                    registry.kill(restart_after_s=rng.random())
                case 1:
                    registry.clock.skew_ms = rng.randrange(-90_000, 5_000)
                case 2:
                    world.nats.stop()
                    await world.sleep(rng.random())
                    world.nats.start()
            for _ in range(10):
                count = rng.randrange(1, 1000)
                try:
                    last = await oracle.take(count)
                except Unavailable:
                    continue
                assert last - count + 1 > highest
                highest, taken = last, taken + 1
            await world.sleep(rng.random())
        world.net.heal()
        assert await given_within(world, bus, 20) > highest
        assert taken > 100
        assert not registry.stopped

    run(main, seed)


def test_a_deleted_store_does_not_stop_the_oracle_nor_turn_it_back() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r").start(service.build, CONFIG)
        highest = await given_within(world, bus, 10)
        for _ in range(3):
            world.nats.delete_store()
            for _ in range(40):
                last = await given_within(world, bus, 10)
                assert last > highest
                highest = last
                await world.sleep(0.1)
        assert world.node("r").starts == 1

    run(main)


def test_it_starts_above_every_pumps_high_ts_and_waits_for_a_silent_pump() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r").start(service.build, CONFIG)
        p = pump("p1")
        world.node("p1").start(build, p)
        await until_state(world, bus, "p1", ONLINE)
        first = await given_within(world, bus, 10)
        world.node("p1").kill()
        world.node("r").kill()
        world.nats.delete_store()
        world.node("r").restart()
        with pytest.raises(TidelogError):
            await given_within(world, bus, 30)
        p.high_ts = compose(physical_ms(first) + 600_000)
        world.node("p1").restart()
        assert await given_within(world, bus, 10) > p.high_ts

    run(main)


def test_an_operator_may_give_a_silent_pump_up() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r").start(service.build, CONFIG)
        world.node("p1").start(build, pump("p1"))
        await until_state(world, bus, "p1", ONLINE)
        first = await given_within(world, bus, 10)
        world.node("p1").kill()
        world.node("r").kill()
        world.node("r").restart()
        await world.sleep(10)
        await operate(bus, "p1", "offline", accept_loss=True)
        assert await given_within(world, bus, 10) > first

    run(main)


def test_a_second_registry_stops_and_the_first_goes_on() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r1").start(service.build, CONFIG)
        first = await given_within(world, bus, 10)
        world.node("r2").start(service.build, CONFIG)
        await world.until(lambda: bool(world.node("r2").stopped), 30, "the second one stops")
        assert isinstance(world.node("r2").stopped[0], AnotherRegistry)
        assert await given_within(world, bus, 5) > first
        assert not world.node("r1").stopped

    run(main)


def test_a_registry_with_a_new_directory_takes_over_after_the_lease() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r1").start(service.build, CONFIG)
        first = await given_within(world, bus, 10)
        world.node("r1").kill()
        world.node("r2", skew_ms=-30_000).start(service.build, CONFIG)
        assert await given_within(world, bus, 20) > first

    run(main)


def test_callers_share_requests_and_get_distinct_timestamps() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r").start(service.build, CONFIG)
        await given_within(world, bus, 10)
        oracle = RegistryOracle(bus, CLUSTER)
        calls = [asyncio.ensure_future(oracle.fresh()) for _ in range(500)]
        await asyncio.sleep(0)
        calls[0].cancel()
        calls[7].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        given = [a for a in answers if isinstance(a, int)]
        assert len(given) == len(set(given)) == 498
        assert await oracle.fresh() > max(given)

    run(main)


def test_nonsense_counts_are_refused() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r").start(service.build, CONFIG)
        await given_within(world, bus, 10)
        subject = subjects.registry(CLUSTER, "tso")
        for count in (0, -1, 1 << 40):
            answer = await bus.request(subject, messages.encode(TsoRequest(count)), timeout_s=3)
            with pytest.raises(BadInput):
                messages.decode_reply(answer.data, TsoReply)

    run(main)


def test_a_bucket_that_goes_while_it_is_claimed_is_claimed_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        real, losses = Bucket.put, [1, 2]

        async def put(bucket: Bucket, key: str, *args: Any, **more: Any) -> int:
            if key == KEY and losses:
                losses.pop()
                await bus.stream_delete(bucket.stream)
            return await real(bucket, key, *args, **more)

        monkeypatch.setattr(Bucket, "put", put)
        registry = world.node("r")
        registry.start(service.build, CONFIG)
        first = await given_within(world, bus, 30)
        assert losses == []
        assert await given_within(world, bus, 5) > first
        assert (registry.starts, registry.stopped) == (1, [])

    run(main)
