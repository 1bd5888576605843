"""Status and membership bucket on a real server: deleted, rolled back, or the whole store wiped in
mid-run, they are rebuilt from the nodes' announcements within BOUND_S (the time is printed)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.integration.registry.process import Registry, living
from tests.integration.registry.test_store_deleted import all_online, eventually, filled
from tests.servers import NatsServer, nats_server
from tests.unit.registry.nodes import CLUSTER, drainer, pump
from tidelog import subjects
from tidelog.messages import DRAINER, ONLINE, PAUSED, PUMP
from tidelog.node_statuses import STATUS_TTL_S, read_statuses
from tidelog.ports import Bus
from tidelog.real.bus import NatsBus

BOUND_S = 10.0
STATUS, MEMBERS = (
    "KV_" + bucket(CLUSTER) for bucket in (subjects.status_bucket, subjects.members_bucket)
)
ALL = {(DRAINER, "d1", ONLINE), (PUMP, "p1", ONLINE), (PUMP, "p2", ONLINE)}


async def told(bus: Bus) -> set[tuple[str, str, str]]:
    return {(s.kind, s.nodeId, s.state) for s in await read_statuses(bus, CLUSTER) if s.isAlive}


async def all_told(bus: Bus) -> bool:
    return await told(bus) == ALL


async def rebuilt(bus: Bus) -> bool:
    return await all_told(bus) and await filled(bus)


Lose = Callable[[NatsBus, NatsServer, Path], Awaitable[None]]


async def delete_status(bus: NatsBus, server: NatsServer, older: Path) -> None:
    await bus.stream_delete(STATUS)


async def delete_members(bus: NatsBus, server: NatsServer, older: Path) -> None:
    await bus.stream_delete(MEMBERS)


async def roll_back(bus: NatsBus, server: NatsServer, older: Path) -> None:
    """Both at once, with the whole store: to before p2 and the Drainer came."""
    server.kill()
    server.wipe()
    shutil.copytree(older, server.store)
    server.start()


async def wipe(bus: NatsBus, server: NatsServer, older: Path) -> None:
    server.kill()
    server.wipe()
    server.start()


@pytest.mark.parametrize("lose", [delete_status, delete_members, roll_back, wipe])
def test_a_lost_bucket_is_rebuilt_in_time(tmp_path: Path, lose: Lose) -> None:
    async def main() -> None:
        with nats_server(tmp_path) as server:
            registry = Registry(server, tmp_path / "registry")
            registry.start()
            try:
                async with living(server, tmp_path, pump("p1")) as bus:
                    await eventually(lambda: all_online(bus, "p1"), 25, "p1 is online")
                    server.kill()
                    shutil.copytree(server.store, tmp_path / "older")
                    server.start()
                    async with living(server, tmp_path, pump("p2"), drainer("d1")):
                        names = ("p1", "p2", "d1")
                        await eventually(lambda: all_online(bus, *names), 25, "all are online")
                        await eventually(lambda: rebuilt(bus), 25, "both buckets say so")
                        created = {await _created(bus, STATUS), await _created(bus, MEMBERS)}
                        await lose(bus, server, tmp_path / "older")
                        took = await eventually(lambda: rebuilt(bus), BOUND_S, "rebuilt")
                        print(f"{lose.__name__}: both buckets are whole after {took:.1f} s")
                        now = {await _created(bus, STATUS), await _created(bus, MEMBERS)}
                        assert now != created, "nothing was lost"
            finally:
                registry.kill()

    asyncio.run(main())


async def _created(bus: NatsBus, stream: str) -> str:
    state = await bus.stream_state(stream)
    assert state is not None
    return state.created


def test_a_dead_nodes_entry_ends_though_the_registry_is_dead_and_others_come_back(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        with nats_server(tmp_path) as server:
            registry = Registry(server, tmp_path / "registry")
            registry.start()
            try:
                async with living(server, tmp_path, pump("p1")) as bus:
                    async with living(server, tmp_path, pump("p2"), drainer("d1")):
                        await eventually(lambda: all_told(bus), 25, "all are told of")
                    # The two said good-bye.
                    left = {(PUMP, "p1", ONLINE)}
                    await eventually(lambda: _are(bus, left), 15, "p1 alone is told of")
                    found = {s.nodeId: s.state for s in await read_statuses(bus, CLUSTER)}
                    assert found.get("p2", PAUSED) == PAUSED
                    registry.kill()
                    await eventually(lambda: _none(bus), STATUS_TTL_S + 20, "all ended")
                    registry.start()
                    took = await eventually(lambda: _are(bus, left), 25, "p1 is told of again")
                    print(f"p1 is told of {took:.1f} s after the registry's start")
            finally:
                registry.kill()

    asyncio.run(main())


async def _are(bus: Bus, wanted: set[tuple[str, str, str]]) -> bool:
    return await told(bus) == wanted


async def _none(bus: Bus) -> bool:
    return not await read_statuses(bus, CLUSTER)
