"""A part's connection to its downstream, which breaks now and then."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.downstream import DownstreamOptions, Work
from tidelog.errors import Stopped, TidelogError, Unavailable
from tidelog.sim.world import World, run
from tidelog_backfill.replay import write
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.write import ATTEMPTS, PAUSE_S, LaneWriting, PartLane

LOST = Unavailable("lost")
WORK = Work([], safe=True)
OPTIONS = DownstreamOptions(url="mysql://u@db/")
WRITING = LaneWriting(OPTIONS, "f", 7, [], routing([], 1), "step", 100)


class Database:
    """A downstream and its lane. What it is asked for fails by the errors to come, None = it does
    not fail; then nothing fails any more."""

    def __init__(self, *fails: TidelogError | None) -> None:
        self._fails = list(fails)
        self.asked: list[str] = []

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self._fails and (error := self._fails.pop(0)) is not None:
            raise error

    async def join(self, feed: str, epoch: int, newest: object) -> None:
        assert (feed, epoch) == (WRITING.feed, WRITING.epoch)
        self._ask("join")

    async def lane(self, number: int) -> Database:
        self._ask(f"lane {number}")
        return self

    async def apply(self, work: Work) -> None:
        assert work is WORK
        self._ask("apply")

    async def close(self) -> None:
        self.asked.append("close")


def lane(world: World, monkeypatch: pytest.MonkeyPatch, database: Database) -> PartLane:
    opened: Any = lambda _: database  # noqa: E731
    monkeypatch.setattr(write, "open_downstream", opened)
    return PartLane(WRITING, 3, world.ports().clock)


ALL = ["join", "lane 3", "apply"]


def test_it_is_connected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        database = Database()
        part = lane(world, monkeypatch, database)
        await part.apply(WORK)
        await part.apply(WORK)
        await part.close()
        assert database.asked == [*ALL, "apply", "close"]

    run(main, 1)


@pytest.mark.parametrize("at", range(3))
def test_whatever_is_lost_is_written_through_a_new_one(
    monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    async def main(world: World) -> None:
        database = Database(*[None] * at, LOST)
        await lane(world, monkeypatch, database).apply(WORK)
        assert database.asked == [*ALL[: at + 1], "close", *ALL]

    run(main, 1)


def test_it_is_given_up_after_its_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        database = Database(*[LOST] * ATTEMPTS)
        began = world.loop.time()
        with pytest.raises(Unavailable, match="lost"):
            await lane(world, monkeypatch, database).apply(WORK)
        assert database.asked == ["join", "close"] * ATTEMPTS
        waited = sum(PAUSE_S * 2**attempt for attempt in range(ATTEMPTS - 1))
        assert world.loop.time() - began == pytest.approx(waited)

    run(main, 1)


def test_what_does_not_pass_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        database = Database(None, None, Stopped("refused"))
        with pytest.raises(Stopped, match="refused"):
            await lane(world, monkeypatch, database).apply(WORK)
        assert database.asked == ALL

    run(main, 1)
