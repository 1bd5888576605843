"""Writers' jobs of tables that the feed leaves out: no stream tells that they were passed."""

from __future__ import annotations

import msgspec

from tests.unit.drainer.test_folding_waits import behind_mine
from tests.unit.drainer.test_pending_ddls import Growing, ddl, published
from tests.unit.drainer.test_simulated import DDLS, txn
from tests.unit.drainer.test_stops import CONFIG, begin, said
from tidelog.filter.settings import TableName
from tidelog.sim.world import World, run
from tidelog_drainer.schema.store import FOLD_JOBS, KEEP_JOBS
from tidelog_drainer.service import build

FILTERED = msgspec.structs.replace(CONFIG, ignore_table=(TableName("app", "o"),))


def test_what_no_reader_meets_is_folded_in_the_next_life_too() -> None:
    async def main(world: World) -> None:
        jobs = [one async for page in behind_mine(600).jobs(3) for one in page]
        before, after = jobs[:100], jobs[100:]
        history = Growing(*before)
        world.open_ddl_history = lambda url, bus: history
        _, pump = await begin(world, FILTERED)
        binlogs = [ddl(10 * one.id + 1, one.id) for one in jobs]
        upto = 10 * before[-1].id + 1
        node = await published(world, pump, [*DDLS, txn(20), *binlogs[:100]], upto)
        await world.sleep(2.0)  # the stream has a watermark there
        node.kill()
        node.start(build, FILTERED)
        await world.until(lambda: said(node).get("not_ready") == "", 30, "the next life")
        history.add(*after)
        await published(world, pump, binlogs[100:], 10 * after[-1].id + 1)
        await world.sleep(12.0)
        assert said(node)["schema"]["jobs"] < KEEP_JOBS + FOLD_JOBS

    run(main, 1)
