"""Late copies in a cluster that a Pump has left: nobody can ask it any more."""

from __future__ import annotations

from tests.unit.pump.rig import commit, prewrite, ts_now
from tests.unit.pump.test_verifier import passed, start, until, verdicts
from tidelog.messages import OFFLINE, NodeStatus
from tidelog.sim import World, run


def test_a_pump_that_left_before_a_transaction_does_not_have_it() -> None:
    async def main(world: World) -> None:
        registry, late, _ = await start(world)
        base = ts_now(world)
        registry.left.append(NodeStatus("pump-9", state=OFFLINE, maxCommitTS=base - 1000))
        position = await passed(late, base)
        await late.done(prewrite(base), commit(base, base + 60))
        await until(world, 0, 1)
        assert (await late.pull(position, feed="past", wait_ms=0)).code == "LatePair"

    run(main, 1)


def test_one_that_left_later_may_have_had_it() -> None:
    async def main(world: World) -> None:
        registry, late, _ = await start(world)
        base = ts_now(world)
        registry.left.append(NodeStatus("pump-9", state=OFFLINE, maxCommitTS=base + 60))
        await passed(late, base)
        await late.done(prewrite(base), commit(base, base + 60))
        await world.sleep(60)
        assert verdicts(world) == (1, 0)

    run(main, 2)
