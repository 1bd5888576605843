"""What a client skipped, from its Commit to the reader of a feed: real registry, Pump, Drainer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from tests.simulation.created import created
from tidelog.change_reader import ChangeReader
from tidelog.oracle import RegistryOracle
from tidelog.pump_client import PumpClient
from tidelog.schema.model import DdlJob
from tidelog.sim.world import World, run
from tidelog.skipped import Skipped
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.service import build as build_drainer
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite
from tidelog_pump.config import PumpConfig
from tidelog_pump.service import build as build_pump
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

CLUSTER = "default"


class Empty:
    """A DDL history without jobs."""

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        no_pages: list[list[DdlJob]] = []
        for page in no_pages:
            yield page


async def scenario(world: World) -> None:
    world.open_ddl_history = lambda url, bus: Empty()
    world.node("registry").start(
        build_registry, RegistryConfig(node_id="registry", cluster=CLUSTER, data_dir="")
    )
    pump = world.node("pump-1")
    pump.start(build_pump, PumpConfig(node_id="pump-1", cluster=CLUSTER, data_dir=""))
    await created(world.ports("creator").bus, CLUSTER, "main")
    drainer = world.node("drainer")
    drainer.start(build_drainer, DrainerConfig(node_id="drainer", cluster=CLUSTER, data_dir=""))
    app = world.ports("app")
    oracle = RegistryOracle(app.bus, CLUSTER)
    reader = ChangeReader(app.bus, "main", None)
    told: list[Skipped] = []
    commits: list[int] = []

    async def transaction(client: PumpClient) -> None:
        start_ts = await oracle.fresh(0)
        await client.write(Binlog(tp=Prewrite, start_ts=start_ts))
        commits.append(await oracle.fresh(start_ts))
        await client.write(Binlog(tp=Commit, start_ts=start_ts, commit_ts=commits[-1]))

    async with PumpClient(
        app.bus, CLUSTER, 0, app.clock, app.rng, ignore_error=True, write_timeout_s=1.0
    ) as client:
        await world.until(lambda: client.status()["available"] == ["pump-1"], 30, "the Pump")
        await transaction(client)
        assert await client.flush(10)
        pump.kill(restart_after_s=20)
        for _ in range(5):
            await transaction(client)
        assert client.skipping
        async with asyncio.timeout(120):
            while not told:
                for change in await reader.next():
                    told += [t.skipped for t in change.txns if isinstance(t.skipped, Skipped)]
        await reader.close()
        client.recover()
    assert sum(one.transactions for one in told) == 5
    assert told[0].from_ts <= commits[1]
    assert told[-1].to_ts == commits[-1]
    status = msgspec.to_builtins(drainer.status())
    assert "5 transactions" in status["publisher"]["skipped"]


def test_readers_meet_what_was_skipped() -> None:
    run(scenario, 3)
