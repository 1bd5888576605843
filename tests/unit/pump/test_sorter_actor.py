"""The sorter as an actor: nothing promised before the log is read, bounds on late copies."""

from __future__ import annotations

import pytest

from tidelog.actor import Reply
from tidelog.sim import World, run
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.promised import NOTHING, PROMISED_FILE, Promise, PromisedFile, unpack
from tidelog_pump.metrics import Gauges
from tidelog_pump.sort import sorter_actor
from tidelog_pump.sort.sorter_actor import (
    AwaitLate,
    HasRead,
    Indexed,
    Late,
    Recovered,
    SorterActor,
)


def actor(world: World) -> SorterActor:
    ports = world.ports("pump")
    return SorterActor(
        ports.clock,
        ports.rng,
        None,
        PromisedFile(ports.disk),
        clock_skew_s=60.0,
        locate=lambda _: None,
        gauges=Gauges(None),
    )


async def late_above(one: SorterActor, taken: int) -> list[Late]:
    found: list[Late] = []

    def settle(value: list[Late] | None, _: Exception | None) -> None:
        found.extend(value or [])

    await one.on_batch([AwaitLate(taken, Reply(settle, {}))])
    return found


def test_nothing_is_promised_before_the_log_was_read() -> None:
    async def main(world: World) -> None:
        one, disk = actor(world), world.ports("pump").disk
        await one.on_start()
        await one.on_batch([HasRead(7)])
        assert unpack(disk.read_file(PROMISED_FILE)) == NOTHING
        await one.on_batch([Recovered(9, 9, [], Pointer(0, 50))])
        assert unpack(disk.read_file(PROMISED_FILE)) == Promise(9, Pointer(0, 50))
        await one.on_stop()
        await one.on_stop()

    run(main, 1)


def test_late_copies_that_nobody_takes_are_counted_and_the_newest_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sorter_actor, "LATE_KEPT", 2)

    async def main(world: World) -> None:
        one = actor(world)
        await one.on_start()
        await one.on_batch([Recovered(50, 50, [], Pointer(0, 50))])
        copies = [(start, start + 1) for start in (10, 20, 30)]
        await one.on_batch([Indexed(copies)])
        status = one.status()
        assert (status["late_copies"], status["late_copies_not_verified"]) == (3, 1)
        assert await late_above(one, 0) == [Late(2, 20, 21), Late(3, 30, 31)]
        assert await late_above(one, 2) == [Late(3, 30, 31)]
        assert await late_above(one, 3) == []
        await one.on_batch([Indexed([(40, 41)])])
        assert await late_above(one, 3) == [Late(4, 40, 41)]
        await one.on_stop()

    run(main, 2)
