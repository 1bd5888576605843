"""A feed whose last Drainer was let go of holds nothing: not by a Pump that had left before it."""

from __future__ import annotations

from tests.unit.registry.nodes import CLUSTER, Script, drainer, nodes, pump
from tests.unit.registry.rig import join, operate, play, until_state
from tidelog import messages, subjects
from tidelog.messages import OFFLINE
from tidelog.ports import Bus, Request
from tidelog.pump_control import ControlRequest, Forgotten
from tidelog.sim import World
from tidelog.timestamps import TS_MAX


async def forgets(bus: Bus, name: str, script: Script) -> None:
    async def control(request: Request) -> None:
        feed = messages.decode(request.data, ControlRequest).feed
        request.respond(messages.encode(Forgotten(script.feeds.pop(feed, None))))

    await bus.serve(subjects.pump(CLUSTER, name, "control"), control)


def test_a_pump_that_has_left_and_still_runs_does_not_speak_for_it() -> None:
    async def main(world: World, bus: Bus) -> None:
        pumps, reader = {name: pump(name) for name in ("p1", "p2")}, drainer("d1")
        reader.resolved_ts = 1000
        await join(world, *pumps.values(), reader)
        for name, script in pumps.items():
            await forgets(bus, name, script)
            script.max_commit_ts = script.feeds["f"] = 500
        await world.sleep(10)
        pumps["p2"].reached = OFFLINE
        await operate(bus, "p2", "offline")
        await until_state(world, bus, "p2", OFFLINE)
        pumps["p1"].feeds["f"] = 1000
        await world.sleep(10)
        assert (await nodes(bus)).feeds == {"f": 1000}
        await operate(bus, "d1", "offline")
        reader.reached = OFFLINE
        await until_state(world, bus, "d1", OFFLINE)
        await world.sleep(60)
        found = await nodes(bus)
        assert (found.feeds, found.safe_point) == ({}, TS_MAX)

    play(main)
