"""The simulated downstream fences as the real ones do."""

from __future__ import annotations

import pytest

from tidelog.downstream import Checkpoint, DownstreamOptions, TakenOver
from tidelog.errors import Unavailable
from tidelog.sim import World, run
from tidelog.sim.downstream import SimDatabase, SimDownstream
from tidelog.sim.life import Life

OPTIONS = DownstreamOptions(url="sim:")


def _opened(world: World, database: SimDatabase, name: str) -> SimDownstream:
    return database.open(OPTIONS, Life(name))


def test_one_that_opens_again_takes_nothing_from_who_took_over() -> None:
    async def main(world: World) -> None:
        database = SimDatabase(world.random("database"), world.trace)
        first, second = (_opened(world, database, name) for name in ("first", "second"))
        assert (await first.open("main")).epoch == 1
        assert (await second.open("main")).epoch == 2
        with pytest.raises(TakenOver):
            await first.open("main")
        assert (await second.open("main")).epoch == 3

    run(main)


def test_one_whose_own_answer_was_lost_is_let_in() -> None:
    async def main(world: World) -> None:
        database = SimDatabase(world.random("database"), world.trace)
        only = _opened(world, database, "only")
        await only.open("main")
        database.faults.unknown = 1.0
        with pytest.raises(Unavailable):
            await only.open("main")
        database.faults.unknown = 0.0
        assert (await only.open("main")).epoch == 3

    run(main)


def test_what_contradicts_the_database_is_noted_and_not_told_to_who_did_it() -> None:
    """He could mend it: the test has to see it."""

    async def main(world: World) -> None:
        database = SimDatabase(world.random("database"), world.trace)
        only = _opened(world, database, "only")
        await only.open("main")
        for commit_ts in (9, 5):
            await only.save_checkpoint(Checkpoint(commit_ts=commit_ts, epoch=1, feed="main"))
        assert [str(one) for one in database.violations] == ["the checkpoint went back: 9 5"]

    run(main)
