"""A reader within a replay, and a Drainer that says no, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tidelog.errors import DeadlineExceeded, Overloaded, Unavailable
from tidelog.feed_reader import Gap
from tidelog.rewind import ASK_S, PATIENCE_S, Replay, Rewind, Rewinding, RewindingFeed
from tidelog.sim.world import World, run

UPTO = 100
FULL = Overloaded("4 readers rewind this feed already")


class Asked(Rewinding):
    """Asks nobody. `says`: instead of an answer."""

    def __init__(self, bus: Any) -> None:
        super().__init__(bus, "c", "f", "app")
        self.says: Exception | None = None

    async def _ask(self, request: Rewind) -> Replay:
        if isinstance(self.says, DeadlineExceeded):
            await asyncio.sleep(ASK_S)
        if self.says is not None and not request.end:
            raise self.says
        return Replay("f=app", UPTO, UPTO)


class Feed:
    """The feed itself lacks what is not above UPTO. `step`: how far a read of either comes."""

    step = 25

    def __init__(self, feed: str, after: int | None) -> None:
        self.feed = feed
        self.position = after or 0

    async def next(self, max_wait_s: float = 1.0) -> list[int]:
        if self.feed == "f" and self.position < UPTO:
            raise Gap(self.position, UPTO)
        if not self.step:
            await asyncio.sleep(max_wait_s)
            return []
        self.position += self.step
        return [self.position]

    async def close(self) -> None: ...


def within_a_replay(world: World) -> tuple[Asked, RewindingFeed[int]]:
    asked = Asked(world.ports().bus)
    return asked, RewindingFeed(asked, "f", Feed, 50)  # type: ignore[arg-type]


@pytest.mark.parametrize("begun", [False, True])
def test_a_drainer_with_no_place_for_a_replay_any_more_is_waited_for(
    begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(world: World) -> None:
        monkeypatch.setattr(Feed, "step", 0)
        asked, reader = within_a_replay(world)
        if begun:
            assert await reader.next() == []
        asked.says = FULL
        began, told = world.loop.time(), None
        while told is None:
            try:
                assert await reader.next() == []
            except Overloaded as error:
                told = error
        assert PATIENCE_S <= world.loop.time() - began < PATIENCE_S + 5

    run(main, 1)


def test_what_a_replay_holds_is_read_whatever_its_drainer_says() -> None:
    async def main(world: World) -> None:
        asked, reader = within_a_replay(world)
        assert await reader.next() == []
        await world.sleep(20)
        asked.says = FULL
        assert await reader.next() == [75]
        await reader.keep()
        assert await reader.next() == [UPTO]
        assert await reader.next() == [UPTO + 25]
        assert not reader.replaying

    run(main, 1)


@pytest.mark.parametrize("idle", [False, True])
def test_who_waits_for_a_moment_only_reads_on_while_nobody_answers(
    idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of the replay, and in its midst where more of it comes only now."""

    async def main(world: World) -> None:
        asked, reader = within_a_replay(world)
        assert await reader.next() == []
        if idle:
            with monkeypatch.context() as patch:
                patch.setattr(Feed, "step", 0)
                assert await reader.next() == []
        else:
            assert [await reader.next() for _ in range(2)] == [[75], [UPTO]]
        asked.says = DeadlineExceeded("no answer")
        found = list[int]()
        for _ in range(8):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    found += await reader.next(0.5)
        assert found[0] == (75 if idle else UPTO + 25)
        assert len(found) >= 5

    run(main, 1)


def test_a_drainer_that_is_away_in_the_midst_of_a_replay_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one is whose feed is read: however long."""

    async def main(world: World) -> None:
        monkeypatch.setattr(Feed, "step", 0)
        asked, reader = within_a_replay(world)
        assert await reader.next() == []
        asked.says = Unavailable("nobody is there")
        for _ in range(3 * int(PATIENCE_S)):
            assert await reader.next() == []
        monkeypatch.setattr(Feed, "step", 25)
        assert await reader.next() == [75]

    run(main, 1)
