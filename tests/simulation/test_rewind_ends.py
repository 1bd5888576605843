"""A replay that ended holds nothing back: no Pump waits for its reader."""

from __future__ import annotations

from tests.simulation.cluster import CLUSTER, FEED
from tests.simulation.test_orders import Rig, play
from tidelog.messages import OFFLINE, ONLINE
from tidelog.rewind import Rewinding


def test_a_pump_leaves_though_somebody_has_just_read_a_replay() -> None:
    async def act(rig: Rig) -> None:
        rig.cluster.start_pump(rig.cluster.late[0])
        await rig.until_state("pump-3", ONLINE)
        rewinding = Rewinding(rig.world.ports().bus, CLUSTER, FEED, "late")
        replay = await rewinding.ask(1)
        while replay.filled_ts < replay.upto:
            await rig.world.sleep(0.5)
            replay = await rewinding.ask(1)
        await rewinding.end()
        await rig.world.sleep(5)
        assert set((await rig.nodes()).feeds) == {FEED}
        await rig.operate("pump-1", "offline")
        await rig.until_state("pump-1", OFFLINE, 60)

    play(act)
