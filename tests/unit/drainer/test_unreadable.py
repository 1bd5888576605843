"""What a life finds in its directory and can't read is named, with what to do about it."""

from __future__ import annotations

import pytest

from tests.unit.drainer.test_simulated import OneTable
from tests.unit.drainer.test_stops import begin
from tidelog.errors import Corrupt
from tidelog.lease_store import FILE as LEASE_FILE
from tidelog.orders import ORDER_FILE
from tidelog.sim.world import World, run
from tidelog_drainer.publish.ddl_desk import DDLS_FILE
from tidelog_drainer.publish.lives import EPOCH_FILE
from tidelog_drainer.schema.structures import SCHEMAS_FILE


@pytest.mark.parametrize("what", [b"", b"\x00" * 40, b"[7]"])
@pytest.mark.parametrize("file", [EPOCH_FILE, SCHEMAS_FILE, DDLS_FILE, LEASE_FILE, ORDER_FILE])
def test_a_file_that_is_none_ends_the_start_by_name(file: str, what: bytes) -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        await world.node("drainer").ports().disk.write_file(file, what)
        await begin(world)
        node = world.node("drainer")
        await world.until(lambda: bool(node.failures), 10, "the refusal")
        error = node.failures[0]
        assert isinstance(error, Corrupt)
        assert error.message.startswith(f"{file} can't be read")
        assert "delete it" in error.hint

    run(main, 1)
