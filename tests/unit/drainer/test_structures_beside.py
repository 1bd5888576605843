"""The snapshot's root is written beside a batch's structures, and its answer is read first."""

from __future__ import annotations

import pytest

from tests.unit.drainer.test_simulated import TABLE
from tidelog import subjects
from tidelog.kv import Bucket
from tidelog.ports import StreamState
from tidelog.schema.history import TableAt
from tidelog.schema.structure import structure
from tidelog.sim.world import World, run
from tidelog_drainer.schema.structures import Structures

SHAPES = {f"app.t.{n}": structure(TableAt("app", "t", n, TABLE)) for n in (2, 3)}


class Late(Bucket):
    """What another task of this process writes is written behind, and is answered before."""

    def __init__(self, world: World) -> None:
        super().__init__(world.ports().bus, subjects.schemas_bucket("shop"))
        self.structures: Structures

    async def _beside(self) -> None:
        await self.structures.remember(await self.put("schema/root", b"root"), 1, 1)

    async def put_all(self, *values: object, **how: object) -> int:
        revision = await super().put_all(*values, **how)  # type: ignore[arg-type]
        await self._beside()
        return revision

    async def state(self) -> StreamState | None:
        state = await super().state()
        await self._beside()
        return state


@pytest.mark.parametrize("step", ["publish", "look"])
def test_what_is_answered_out_of_order_is_no_loss(step: str) -> None:
    async def main(world: World) -> None:
        bucket = Late(world)
        structures = bucket.structures = Structures(world.ports(), bucket)
        await structures.exist()
        await world.sleep(5)
        if step == "publish":
            await structures.publish(SHAPES)
            assert structures.remembered == 2
        else:
            assert not await structures.is_lost()

    run(main, 1)
