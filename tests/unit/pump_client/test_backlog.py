"""The bounds of what is unacked, and who waits for room."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tidelog.pump_client.delivery.backlog import Backlog, Finish


def item(start_ts: int, size: int = 10) -> Finish:
    return Finish(start_ts, bytes(size), "p1", 600.0)


def play(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    asyncio.run(main())  # whose tasks run in the order they were made


@pytest.mark.parametrize(("limit", "max_bytes"), [(3, 1 << 20), (100, 30)])
def test_it_is_full_by_count_and_by_bytes(limit: int, max_bytes: int) -> None:
    async def body() -> None:
        backlog = Backlog(limit, max_bytes)
        items = [item(n) for n in range(6)]
        for one in items[:3]:
            await backlog.enter(one)
        waiting = [asyncio.create_task(backlog.enter(one)) for one in items[3:]]
        await asyncio.sleep(0)
        assert [one.accepted for one in items] == [True] * 3 + [False] * 3
        backlog.leave(items[0])
        await asyncio.sleep(0)
        assert [one.accepted for one in items] == [True] * 4 + [False] * 2, "in order"
        waiting[1].cancel()
        backlog.leave(items[1])
        await asyncio.sleep(0)
        assert not items[4].accepted
        assert items[5].accepted
        for one in (items[2], items[3], items[5]):
            backlog.leave(one)
        assert (backlog.open, backlog.bytes) == (0, 0)

    play(body)


def test_one_larger_than_all_the_room_enters_alone() -> None:
    async def body() -> None:
        backlog = Backlog(100, 30)
        small, large, then = item(1), item(2, 1000), item(3)
        await backlog.enter(small)
        waiting = asyncio.create_task(backlog.enter(large))
        behind = asyncio.create_task(backlog.enter(then))
        await asyncio.sleep(0)
        backlog.leave(small)
        await waiting
        assert not then.accepted
        backlog.leave(large)
        await behind

    play(body)


def test_a_cancelled_caller_has_not_entered_even_in_the_instant_it_was_let_in() -> None:
    async def body() -> None:
        backlog = Backlog(1)
        first, second, third = item(1), item(2), item(3)
        await backlog.enter(first)
        waiting = asyncio.create_task(backlog.enter(second))
        behind = asyncio.create_task(backlog.enter(third))
        await asyncio.sleep(0)
        backlog.leave(first)
        waiting.cancel()
        await behind
        assert not second.accepted
        assert backlog.open == 1

    play(body)


def test_follow_ups_never_wait() -> None:
    async def body() -> None:
        backlog = Backlog(1)
        first, then = item(1), item(2)
        await backlog.enter(first)
        backlog.enter_now(then)
        assert backlog.open == 2
        drained = asyncio.create_task(backlog.drained())
        backlog.leave(first)
        await asyncio.sleep(0)
        assert not drained.done()
        backlog.leave(then)
        await drained

    play(body)
