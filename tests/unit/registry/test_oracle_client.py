"""The oracle's client: whoever is cancelled, nobody waits for ever, no timestamp comes twice."""

from __future__ import annotations

import asyncio
import random

import pytest

from tidelog import messages, subjects
from tidelog.errors import Unavailable
from tidelog.messages import TsoReply, TsoRequest
from tidelog.oracle import REQUEST_S, TRY_S, RegistryOracle
from tidelog.ports import Headers, Message, Request
from tidelog.sim import World, run
from tidelog.sim.bus import SimBus
from tidelog_registry.oracle.tso import PATIENCE_S


class Slow(SimBus):
    """Answers the oldest request when told to."""

    def __init__(self) -> None:
        self.last = 0
        self.asked: list[tuple[int, asyncio.Future[bool]]] = []

    async def request(
        self, subject: str, data: bytes, *, timeout_s: float, headers: Headers | None = None
    ) -> Message:
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.asked.append((messages.decode(data, TsoRequest).count, turn))
        if not await turn:
            raise Unavailable("no answer")
        return Message(subject, messages.encode(TsoReply(self.last)))

    def answer(self, *, well: bool = True) -> None:
        count, turn = self.asked.pop(0)
        self.last += count
        if not turn.done():
            turn.set_result(well)


async def _steps(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_a_follower_cancelled_in_the_step_of_the_answer_is_passed_over() -> None:
    async def main() -> None:
        bus = Slow()
        oracle = RegistryOracle(bus, "c")
        leader = asyncio.ensure_future(oracle.fresh())
        await _steps()
        first, second = (asyncio.ensure_future(oracle.fresh()) for _ in range(2))
        await _steps()
        # The leader's step comes first: the cancelled one still stands in the line.
        bus.answer()
        first.cancel()
        await _steps()
        bus.answer()
        async with asyncio.timeout(10):
            assert [await leader, await second] == [1, 2]
        assert first.cancelled()

    asyncio.run(main())


def test_followers_of_a_cancelled_leader_are_asked_for_again_in_order() -> None:
    async def main() -> None:
        bus = Slow()
        oracle = RegistryOracle(bus, "c")
        first = asyncio.ensure_future(oracle.fresh())
        await _steps()
        leader, *others = (asyncio.ensure_future(oracle.take(2)) for _ in range(4))
        await _steps()
        bus.answer()
        await _steps()
        assert [count for count, _ in bus.asked] == [8]
        leader.cancel()
        others[1].cancel()
        await _steps()
        bus.answer()
        await _steps()
        assert [count for count, _ in bus.asked] == [4]
        bus.answer()
        async with asyncio.timeout(10):
            found = [await caller for caller in (first, others[0], others[2])]
        assert found == [1, 11, 13]

    asyncio.run(main())


@pytest.mark.parametrize("says", ["nothing", "that it can't"])
@pytest.mark.parametrize("recovers", [True, False])
def test_one_that_gives_nothing_is_asked_again_each_second(says: str, recovers: bool) -> None:
    """A registry that dies takes with it what it was asked."""

    async def main(world: World) -> None:
        asked: list[int] = []

        async def answer(request: Request) -> None:
            asked.append(messages.decode(request.data, TsoRequest).count)
            if recovers and len(asked) > 1:
                request.respond(messages.encode(TsoReply(7)))
            elif says != "nothing":
                await world.sleep(PATIENCE_S)
                request.respond(messages.encode_error(Unavailable("it waits for p1")))

        await world.ports("r").bus.serve(subjects.registry("c", "tso"), answer)
        oracle, began = RegistryOracle(world.ports("app").bus, "c"), world.loop.time()
        if recovers:
            assert await oracle.take(3) == 7
            assert world.loop.time() - began < TRY_S + 0.2
        else:
            with pytest.raises(
                Unavailable, match="it waits for p1" if says != "nothing" else "1.0 s"
            ):
                await oracle.take(3)
            assert len(asked) == REQUEST_S / TRY_S
        assert set(asked) == {3}

    run(main)


@pytest.mark.parametrize("seed", range(40))
def test_whoever_is_cancelled_the_others_get_timestamps_of_their_own(seed: int) -> None:
    async def main() -> None:
        rng, bus = random.Random(seed), Slow()
        oracle = RegistryOracle(bus, "c")
        calls: list[tuple[int, asyncio.Task[int]]] = []
        for _ in range(300):
            match rng.randrange(5):
                case 0 | 1:
                    count = rng.randrange(1, 9)
                    calls.append((count, asyncio.create_task(oracle.take(count))))
                case 2 if calls:
                    rng.choice(calls)[1].cancel()
                case 3 if bus.asked:
                    bus.answer(well=rng.random() < 0.8)
                case _:
                    await _steps(rng.randrange(1, 3))
        async with asyncio.timeout(10):
            while not all(task.done() for _, task in calls):
                if bus.asked:
                    bus.answer()
                await _steps()
        given: set[int] = set()
        for count, task in calls:
            if task.cancelled() or task.exception() is not None:
                assert task.cancelled() or isinstance(task.exception(), Unavailable)
                continue
            own = set(range(task.result() - count + 1, task.result() + 1))
            assert not own & given
            given |= own
        assert given

    asyncio.run(main())
