"""What the registry keeps and can't read any more: it says which, and changes nothing."""

from __future__ import annotations

import pytest

from tests.unit.registry.nodes import CLUSTER, build, pump
from tests.unit.registry.rig import CONFIG, join, until_state
from tidelog import subjects
from tidelog.errors import Corrupt
from tidelog.kv import Bucket
from tidelog.messages import ONLINE
from tidelog.sim import World, run
from tidelog_registry import members, service
from tidelog_registry.consumers import store as consumer_store
from tidelog_registry.oracle import store as tso_store

FILES = {
    members.COPY: "members.json can't be read",
    tso_store.FILE: f"{tso_store.FILE} can't be read",
    consumer_store.FILE: f"{consumer_store.FILE} can't be read",
}
ENTRIES = {
    (subjects.members_bucket(CLUSTER), "p1"): "membership entry p1 can't be read",
    (subjects.registry_bucket(CLUSTER), tso_store.KEY): "the oracle's bound can't be read",
    (
        subjects.registry_bucket(CLUSTER),
        consumer_store.KEY,
    ): f"{subjects.registry_bucket(CLUSTER)}: the kept consumers can't be read",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_can_not_be_read_is_named(name: str) -> None:
    async def main(world: World) -> None:
        registry = world.node("r")
        registry.start(service.build, CONFIG)
        await join(world, pump("p1"))
        disk = registry.ports().disk
        held: dict[str, bytes | None] = {path: disk.read_file(path) for path in disk.listdir("")}
        registry.kill()
        registry.disk.restore(held | {name: b'{"sealed":'})
        registry.restart()
        await world.until(lambda: bool(registry.failures), 60, "the error")
        assert FILES[name] in str(registry.failures[0])
        assert isinstance(registry.failures[0], Corrupt)

        registry.kill()
        registry.disk.restore(held)
        registry.restart()
        await until_state(world, world.ports().bus, "p1", ONLINE, 60)

    run(main)


@pytest.mark.parametrize("place", ENTRIES)
def test_an_entry_that_can_not_be_read_is_named(place: tuple[str, str]) -> None:
    async def main(world: World) -> None:
        registry = world.node("r")
        registry.start(service.build, CONFIG)
        node = world.node("p1")
        node.start(build, pump("p1"))
        bus = world.ports().bus
        await until_state(world, bus, "p1", ONLINE, 20)
        registry.kill()
        bucket = Bucket(bus, place[0])
        before = await bucket.get(place[1])
        assert before is not None
        await bucket.put(place[1], b"[")
        registry.restart()
        await world.until(lambda: bool(registry.failures), 60, "the error")
        assert ENTRIES[place] in str(registry.failures[0])

        await bucket.put(place[1], before.value)
        await until_state(world, bus, "p1", ONLINE, 60)

    run(main)
