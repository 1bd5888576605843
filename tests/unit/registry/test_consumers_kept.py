"""What is answered is kept, also behind a write of which nobody knows what became."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidelog.actor import Reply
from tidelog.errors import Unavailable
from tidelog.messages import Consumer, SafePoint, SafePointRequest
from tidelog.sim.world import World, run
from tidelog_registry.consumers.kept import KeptConsumers
from tidelog_registry.lease.tenure import Tenure

APP = Consumer("app", "shop", 100)
REGISTER, REMOVE = SafePointRequest(APP), SafePointRequest(APP, remove=True)


async def loaded(world: World, epoch: int) -> KeptConsumers:
    """A life of the registry."""
    ports = world.ports()
    tenure = Tenure(ports.clock)
    tenure.epoch = epoch
    tenure.renewed((1e9, 1 << 60))
    kept = KeptConsumers(ports, "c", tenure, lambda: 0, list)
    await kept.load()
    return kept


async def ask(kept: KeptConsumers, body: SafePointRequest) -> SafePoint:
    future: asyncio.Future[SafePoint] = asyncio.get_running_loop().create_future()

    def settle(value: SafePoint | None, error: Exception | None) -> None:
        if error is not None:
            future.set_exception(error)
        elif value is not None:
            future.set_result(value)

    kept.ask(body, Reply(settle, {}))
    return await future


@pytest.mark.parametrize("undone", [REGISTER, REMOVE], ids=["registered again", "removed again"])
def test_what_was_not_kept_for_sure_is_kept_as_it_was_before(undone: SafePointRequest) -> None:
    async def main(world: World) -> None:
        kept = await loaded(world, 1)
        keeping = asyncio.ensure_future(kept.keep())
        if undone is REGISTER:
            await ask(kept, REGISTER)
        bucket = kept._store._bucket
        put = bucket.put

        async def unheard(*args: Any, **more: Any) -> int:
            await put(*args, **more)
            raise Unavailable("the connection to NATS was lost before the answer")

        bucket.put = unheard  # type: ignore[method-assign]
        with pytest.raises(Unavailable, match="not kept yet"):
            await ask(kept, REMOVE if undone is REGISTER else REGISTER)
        bucket.put = put  # type: ignore[method-assign]
        await ask(kept, undone)
        keeping.cancel()
        again = await loaded(world, 2)
        assert again.consumers.knows("shop", "app") == (undone is REGISTER)

    run(main, 1)
