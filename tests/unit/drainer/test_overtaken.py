"""A Pump that all had forgotten comes back with what was passed without it (I3, I4)."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, begin, everything, remembered, said
from tidelog.messages import OFFLINE
from tidelog.sim.world import World, run
from tidelog_drainer.merger import Merger, Overtaken


def test_a_source_met_late_is_read_from_before() -> None:
    merger = Merger(3)
    merger.add("a")
    merger.push("a", [(5, 4, b""), (9, 8, b"")], 9, 0)
    assert [ts for ts, _, _ in merger.take(9)] == [5, 9]
    assert merger.add("b", 3)
    assert merger.horizon() == 9
    merger.push("b", [], 8, 0)
    merger.push("b", [(11, 10, b"")], 11, 0)
    merger.push("a", [], 12, 0)
    assert [ts for ts, _, _ in merger.take(merger.horizon())] == [11]


@pytest.mark.parametrize("commit_ts", [4, 8, 9])
def test_what_was_passed_without_a_source_stops_the_merge(commit_ts: int) -> None:
    merger = Merger(3)
    merger.add("a")
    merger.push("a", [(5, 4, b"")], 9, 0)
    merger.take(9)
    merger.add("b", 3)
    with pytest.raises(Overtaken) as stop:
        merger.push("b", [(commit_ts, 1, b"")], 20, 0)
    assert stop.value.commit_ts == commit_ts
    assert merger.horizon() == 9


def test_the_stop_holds_over_restarts_until_the_pump_is_given_up() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 100)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 100, 30, "100")
        forgotten = await registry.pump("p2")
        forgotten.commit([txn(50)], 60)
        pump.commit([txn(200)], 300)
        for _ in range(2):
            await world.until(lambda: bool(said(node, "collector").get("error")), 30, "the stop")
            assert "p2 has commit_ts 50" in said(node, "collector")["error"]
            assert remembered(node) == {"p1": None, "p2": 0}
            await world.sleep(2)
            node.kill()
            node.restart()
        assert 200 not in await everything(world)
        await registry.record("p2", OFFLINE)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 300, 30, "300")
        assert said(node, "collector")["error"] == ""
        assert set(remembered(node)) == {"p1"}
        assert 200 in await everything(world)

    run(main, 1)


def test_a_newcomer_is_read_from_the_position_after_a_restart() -> None:
    """Once it was read up to what was emitted, what it commits later is no news from before."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 100)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 100, 30, "100")
        late = await registry.pump("p2")
        late.commit([txn(150)], 400)
        pump.commit([], 400)
        await world.until(lambda: said(node, "collector")["emitted_ts"] >= 400, 30, "400")
        assert remembered(node) == {"p1": None, "p2": None}
        node.kill()
        node.restart()
        late.commit([txn(450)], 500)
        pump.commit([], 500)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 500, 30, "500")
        assert (await everything(world))[-2:] == [150, 450]

    run(main, 1)


def test_a_bucket_that_is_not_trusted_yet_is_remembered_all_the_same() -> None:
    """It is lost before it is old enough, with the registry's copy of it (seed 1014)."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world, msgspec.structs.replace(CONFIG, lease_s=6.0))
        node = world.node("drainer")
        late = await registry.pump("p2")
        late.commit([txn(50)], 60)
        await world.until(
            lambda: "p2" in said(node, "collector").get("sources", {}), 3, "the bucket to be read"
        )
        assert not said(node, "collector")["trusted"]
        node.kill()
        world.nats.delete(registry.bucket.stream)
        registry.pumps.remove(late)
        await registry.again()
        node.restart()
        pump.commit([*DDLS, txn(10), txn(100)], 200)
        late.commit([], 200)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 200, 30, "200")
        assert await everything(world) == [*[ts for ts, _, _ in DDLS], 10, 50, 100]

    run(main, 1)
