"""The mailbox: order, both bounds, fairness among senders, closing."""

import asyncio

import pytest

from tidelog.errors import ActorStopped
from tidelog.mailbox import Mailbox
from tidelog.sim import World, run


def test_takes_in_order_and_at_most_the_asked_count() -> None:
    async def main(world: World) -> None:
        box: Mailbox[int] = Mailbox(10, 1000)
        for number in range(5):
            await box.put(number, 1)
        assert await box.take(3, None) == [0, 1, 2]
        assert await box.take(3, None) == [3, 4]
        assert await box.take(3, 0.5) == []
        assert world.loop.time() >= 0.5

    run(main)


@pytest.mark.parametrize(("count", "size"), [(2, 10**9), (10**9, 200)])
def test_a_sender_waits_while_the_box_is_full_by_count_or_by_bytes(count: int, size: int) -> None:
    async def main(world: World) -> None:
        box: Mailbox[str] = Mailbox(count, size)
        await box.put("a", 100)
        await box.put("b", 100)
        assert not box.try_put("c", 100)
        sender = world.loop.create_task(box.put("c", 100))
        await asyncio.sleep(1)
        assert not sender.done()
        assert len(box) == 2
        assert box.bytes == 200
        assert await box.take(1, None) == ["a"]
        await sender
        assert await box.take(9, None) == ["b", "c"]
        assert box.bytes == 0

    run(main)


def test_an_oversized_message_is_taken_when_the_box_is_empty() -> None:
    async def main(world: World) -> None:
        box: Mailbox[str] = Mailbox(10, 100)
        await box.put("huge", 5000)
        assert not box.try_put("small", 1)
        assert await box.take(10, None) == ["huge"]
        assert box.try_put("small", 1)

    run(main)


@pytest.mark.parametrize("seed", range(30))
def test_waiting_senders_get_in_in_order_of_arrival(seed: int) -> None:
    async def main(world: World) -> None:
        box: Mailbox[int] = Mailbox(1, 10**9)
        senders = []
        for number in range(6):
            senders.append(world.loop.create_task(box.put(number, 1)))
            await asyncio.sleep(0.001)
        cancelled = senders.pop(3)
        cancelled.cancel()
        got: list[int] = []
        while len(got) < 5:
            got += await box.take(4, 1.0)
        assert got == [0, 1, 2, 4, 5]
        await asyncio.gather(*senders)
        assert not box.try_put(9, 1) or len(box) == 1

    run(main, seed)


def test_a_closed_box_refuses_new_messages_and_still_gives_the_queued_ones() -> None:
    async def main(world: World) -> None:
        box: Mailbox[int] = Mailbox(1, 10**9)
        await box.put(1, 1)
        waiting = world.loop.create_task(box.put(2, 1))
        await asyncio.sleep(0)
        box.close()
        with pytest.raises(ActorStopped):
            await waiting
        with pytest.raises(ActorStopped):
            box.try_put(3, 1)
        assert await box.take(9, None) == [1]
        assert await box.take(9, None) == []

    run(main)


def test_a_waiting_taker_is_woken_by_close() -> None:
    async def main(world: World) -> None:
        box: Mailbox[int] = Mailbox(1, 1)
        taker = world.loop.create_task(box.take(1, None))
        await asyncio.sleep(1)
        box.close()
        assert await taker == []

    run(main)
