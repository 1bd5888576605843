"""What holds the merge, by name: two transactions of one commit_ts, and a Pump that is down."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.integration.drainer.fakes import FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import begin, everything, said
from tidelog.messages import OFFLINE
from tidelog.sim.world import World, run
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.service import complaints


async def two_pumps(world: World) -> tuple[FakeRegistry, FakePump, FakePump]:
    world.open_ddl_history = lambda url, bus: OneTable()
    registry, first = await begin(world)
    second = await registry.pump("p2")
    first.commit([*DDLS, txn(10)], 10)
    second.commit([txn(20)], 20)
    return registry, first, second


def twin(commit_ts: int) -> Txn:
    """Another transaction of that commit_ts."""
    _, start_ts, payload = txn(commit_ts)
    return commit_ts, start_ts - 1, payload


@pytest.mark.parametrize("restarted", [False, True])
def test_one_commit_ts_twice_stops_the_merge_not_the_process(*, restarted: bool) -> None:
    async def main(world: World) -> None:
        registry, first, second = await two_pumps(world)
        node = world.node("drainer")
        first.commit([txn(30), txn(40), txn(50)], 60)
        second.commit([twin(40), txn(55)], 60)
        for life in (1, 2, 3):
            await world.until(lambda: bool(said(node, "collector").get("error")), 30, "the stop")
            error = said(node, "collector")["error"]
            assert "commit_ts 40 is that of two transactions" in error
            assert "39 (p1) and 38 (p2)" in error
            assert "offline" in error
            assert await everything(world) == [2, 4, 10, 20, 30]
            await world.sleep(10)
            assert (node.starts, node.failures) == (life, [])
            if life < 3:
                node.kill()
                node.restart()
        # An operator decides which of the two belongs here, before or after a restart.
        if restarted:
            node.kill()
        await registry.record("p2", OFFLINE)
        if restarted:
            node.restart()
        with capture_logs() as logs:
            await world.until(lambda: said(node).get("published_ts", 0) >= 60, 30, "the rest")
        found = await everything(world)
        assert [ts for ts in found if ts != 55] == [2, 4, 10, 20, 30, 40, 50]
        assert said(node, "collector")["error"] == ""
        given_up = [line for line in logs if "given up" in line["event"]]
        if restarted:
            # Accepted is the loss of all that was not read of p2 when it was taken offline.
            assert len(given_up) <= 1
        else:
            assert found[-1] == 55
            assert len(given_up) == 1
        for line in given_up:
            assert (line["commit_ts"], line["start_ts"], line["pump"]) == (40, 38, "p2")

    run(main, 2)


def test_a_pump_that_is_down_is_named_with_the_time() -> None:
    async def main(world: World) -> None:
        _, first, second = await two_pumps(world)
        node = world.node("drainer")
        await world.until(lambda: said(node).get("published_ts", 0) >= 20, 30, "the feed")
        await second.close()
        first.commit([txn(30)], 30)

        def told() -> str:
            return complaints(node.service.status()).get("p2", "")

        await world.until(lambda: "waits" in told(), 30, "the complaint")
        assert told().startswith("the merge waits for it, in vain since 20")
        assert "p1" not in complaints(node.service.status())
        assert await everything(world) == [2, 4, 10, 20]
        await second.start()
        second.commit([], 30)
        await world.until(lambda: said(node).get("published_ts", 0) >= 30, 30, "the rest")
        assert told() == ""

    run(main, 1)
