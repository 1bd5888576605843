"""100,000 binlogs through a client: every Pump gets its share, on the simulated bus and on a real
server; Pumps and registry are fakes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conformance.places import Place, RealPlace, Scenario, SimPlace, until
from tests.servers import nats_server
from tests.unit.pump_client.fakes import Dice, FakeCluster
from tidelog.pump_client import PumpClient
from tidelog_proto.binlog_pb2 import Binlog, Prewrite

BINLOGS = 100_000
WRITERS = 500
SCORES = {"p1": 10, "p2": 25, "p3": 25, "p4": 40}


async def shares(place: Place, strategy: str) -> dict[str, int]:
    cluster = FakeCluster(await place.bus(), *SCORES, name=f"{place.name}-{strategy}")
    cluster.scores |= SCORES
    await cluster.start()
    async with PumpClient(
        await place.bus(), cluster.name, 9, place.clock(), Dice(), strategy=strategy
    ) as client:
        await until(lambda: client.status()["available"] == list(SCORES))

        async def writer(first: int) -> None:
            for number in range(first, BINLOGS, WRITERS):
                start_ts = (1_700_000_000_000 + number) << 18
                await client.write(Binlog(tp=Prewrite, start_ts=start_ts))
                client.forget(start_ts)

        async with asyncio.TaskGroup() as group:
            for first in range(WRITERS):
                group.create_task(writer(first))
    return {node: len(pump.taken) for node, pump in cluster.pumps.items()}


async def scenario(place: Place) -> None:
    for strategy in ("range", "hash"):
        for share in (await shares(place, strategy)).values():
            assert abs(share - BINLOGS / 4) <= 0.02 * BINLOGS / 4
    for node, share in (await shares(place, "score")).items():
        wanted = BINLOGS * SCORES[node] / 100
        assert abs(share - wanted) <= 0.05 * wanted


class LongPlace(RealPlace):
    """Without a bound in wall time but the test's own."""

    def run(self, scenario: Scenario) -> None:
        async def main() -> None:
            try:
                await scenario(self)
            finally:
                for bus in self._buses:
                    await bus.close()

        asyncio.run(main())


@pytest.mark.parametrize("where", ["simulated", pytest.param("real", marks=pytest.mark.full)])
def test_shares_of_100_000_binlogs(where: str, tmp_path: Path) -> None:
    if where == "simulated":
        SimPlace(1).run(scenario)
        return
    with nats_server(tmp_path) as server:
        LongPlace(server, tmp_path / "data").run(scenario)
