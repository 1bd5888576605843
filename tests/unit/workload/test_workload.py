"""What the workload writes, read back as a Drainer would, is what the source says."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.workload.bed import Bed
from tests.unit.workload.replay import Replay, told_by
from tidelog.workload import WorkloadConfig, compare

CONFIG = WorkloadConfig(
    cluster="c", seed=7, seconds=30, rate=100, rows_per_table=60, ddl_share=0.06, dead_share=0.06
)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_binlogs_replayed_in_commit_order_give_the_source(seed: int) -> None:
    bed = Bed(msgspec.structs.replace(CONFIG, seed=seed))
    workload = bed.run(seed)
    replay = Replay(bed.jobs)
    replay.run(bed.binlogs, workload.outcomes)

    verdict = asyncio.run(compare(workload.source.contents(), replay.fetch))
    assert verdict.differences == []
    assert replay.told == told_by(bed.ledger)
    assert verdict.rows > 200
    counts = workload.counts
    assert counts.committed > 2000
    assert counts.rolled_back > 100
    assert counts.died > 100
    assert counts.ddls > 50
    assert counts.failed == 0
