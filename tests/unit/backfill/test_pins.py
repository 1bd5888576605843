"""What a job needs is held until its end, and let go of then."""

from __future__ import annotations

from tests.unit.registry.nodes import CLUSTER
from tidelog import messages, subjects
from tidelog.bulk.control import RUNNING
from tidelog.bulk.jobs import ReplayJob
from tidelog.messages import SafePoint, SafePointRequest, encode
from tidelog.ports import Request
from tidelog.sim.world import World, run
from tidelog_backfill.jobs.pins import Pins
from tidelog_backfill.jobs.queue import Kept


def test_one_that_ends_while_it_is_held_is_let_go_of_the_next_time() -> None:
    """It was called released then and there, and held the Pumps' data for ever."""

    async def main(world: World) -> None:
        ports = world.ports()
        job = Kept("a", ReplayJob(inputs=("relay",), downstream="db"), RUNNING, tries=1)
        asked: list[bool] = []

        async def registry(request: Request) -> None:
            asked.append(messages.decode(request.data, SafePointRequest).remove)
            job.ended = 7
            request.respond(encode(SafePoint(0)))

        await ports.bus.serve(subjects.registry(CLUSTER, "safepoint"), registry)
        pins = Pins(ports, CLUSTER)
        assert await pins.hold([job]) == []
        assert await pins.hold([job]) == ["a"]
        assert asked == [False, True]

    run(main, seed=1)
