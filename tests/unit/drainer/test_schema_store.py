"""The feed's schema, read again while transactions ask it for more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.drainer.test_schema_restarts import SCHEMAS, STEP, Alters
from tests.unit.drainer.test_stops import CONFIG
from tidelog.changes import structure_key
from tidelog.kv import Bucket
from tidelog.schema.structure import TableStructure, structure
from tidelog.sim.world import World, run
from tidelog_drainer.schema.store import SchemaStore
from tidelog_drainer.schema.structures import LOOK_S, Structures


def shapes(store: SchemaStore) -> Mapping[str, TableStructure]:
    table = store.tracker.table(100, 1 << 40)
    return {structure_key(table.db, structure(table)): structure(table)}


def test_jobs_that_were_read_while_a_lost_bucket_is_filled_again_stay_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forgotten, a row of their version would be decoded without its newest columns."""

    async def main(world: World) -> None:
        history = Alters(5)
        world.open_ddl_history = lambda url, bus: history
        ports = world.ports()
        store = SchemaStore(CONFIG, ports)
        await store.open(5 * STEP, 0)
        await store.publish(dict(shapes(store)))
        await ports.bus.stream_delete(Bucket(ports.bus, SCHEMAS).stream)
        await ports.clock.sleep(LOOK_S)
        publish = Structures.publish

        async def meanwhile(self: Structures, made: dict[str, TableStructure]) -> None:
            history.jobs_made = 8
            await store.fetch()
            await publish(self, made)

        monkeypatch.setattr(Structures, "publish", meanwhile)
        await store.look()
        assert store.rebuilds == {"lost": 1}
        assert store.newest_version == 8
        assert store.tracker.table(100, 8).version == 8

    run(main)
