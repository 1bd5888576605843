"""What the workload writes, read back as a Drainer would, is what the source says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from tests.unit.pump_client.fakes import LoopClock
from tests.unit.workload.bed import Bed
from tests.unit.workload.replay import Replay, told_by
from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import DiskFull, Forbidden, Unavailable
from tidelog.ports import Oracle
from tidelog.schema.model import DdlJob, decode_jobs
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.workload import WorkloadConfig, compare
from tidelog.workload.resume import resume
from tidelog.workload.timestamps import fresh
from tidelog_proto.binlog_pb2 import Commit, Prewrite, Rollback

CONFIG = WorkloadConfig(
    cluster="c", seed=7, seconds=30, rate=100, rows_per_table=60, ddl_share=0.06, dead_share=0.06
)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_binlogs_replayed_in_commit_order_give_the_source(seed: int) -> None:
    bed = Bed(msgspec.structs.replace(CONFIG, seed=seed))
    workload = bed.run(seed)
    replay = Replay(bed.jobs)
    replay.run(bed.taken, workload.outcomes)

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


@pytest.mark.parametrize("seed", range(4, 10))
def test_troubled_pumps_lose_nothing_and_see_no_early_rollback(seed: int) -> None:
    """Refusals, lost and unanswered batches: copies on two Pumps, Prewrites that failed. A Rollback
    before its Commit's ack, or two ends of one transaction, would show."""
    config = msgspec.structs.replace(CONFIG, seed=seed, seconds=120, rate=20, clients=32)
    bed = Bed(config, nodes=("p1", "p2", "p3"), trouble=0.1)
    workload = bed.run(seed)
    replay = Replay(bed.jobs)
    replay.run(bed.taken, workload.outcomes)

    verdict = asyncio.run(compare(workload.source.contents(), replay.fetch))
    assert verdict.differences == []
    assert replay.told == told_by(bed.ledger)
    committed: set[int] = set()
    for binlog in bed.cluster.journal:
        if binlog.tp == Commit:
            committed.add(binlog.start_ts)
        elif (
            binlog.tp == Rollback
            and workload.outcomes.verdict(binlog.start_ts, force=False).commit_ts
        ):
            assert binlog.start_ts in committed, "a Rollback overtook its Commit"
    prewrites = Counter(b.start_ts for b in bed.binlogs if b.tp == Prewrite)
    assert max(prewrites.values()) > 1, "no Prewrite was tried twice: the trouble does not bite"


def test_a_registry_without_room_is_waited_for() -> None:
    """Seed 2780: the workload ended."""
    bed = Bed(msgspec.structs.replace(CONFIG, seconds=5), full=3)
    workload = bed.run()
    assert bed.full == 0
    assert len(bed.jobs) == workload.counts.ddls > 0


def test_the_same_seed_is_the_same_run() -> None:
    config = msgspec.structs.replace(CONFIG, seconds=5)
    first, second, other = Bed(config), Bed(config), Bed(msgspec.structs.replace(config, seed=8))
    for bed in (first, second, other):
        bed.run()
    assert first.ledger == second.ledger
    assert [b.SerializeToString() for b in first.binlogs] == [
        b.SerializeToString() for b in second.binlogs
    ]
    assert first.ledger != other.ledger


def test_a_second_run_takes_up_where_the_first_left_the_cluster() -> None:
    config = msgspec.structs.replace(CONFIG, seconds=5)
    first, second = Bed(config), Bed(msgspec.structs.replace(config, seed=9))
    first.run()
    second.jobs.extend(first.jobs)
    workload = second.run()
    replay = Replay(second.jobs)
    replay.run(second.taken, workload.outcomes)
    assert asyncio.run(compare(workload.source.contents(), replay.fetch)).differences == []
    ids = [msgspec.json.decode(job)["id"] for job in second.jobs]
    assert len(ids) == len(set(ids)) > len(first.jobs)


def test_commits_carry_what_tidb_sends() -> None:
    bed = Bed(msgspec.structs.replace(CONFIG, seconds=5))
    bed.run()
    prewrites = {b.start_ts: b for b in bed.binlogs if b.tp == Prewrite}
    for end in (b for b in bed.binlogs if b.tp == Commit):
        begin = prewrites[end.start_ts]
        assert end.commit_ts > end.start_ts
        assert end.prewrite_key == begin.prewrite_key
        assert not end.HasField("prewrite_value")
        assert (end.ddl_job_id, end.ddl_query) == (begin.ddl_job_id, begin.ddl_query)


def test_a_registry_that_goes_while_its_history_is_read_is_read_on() -> None:
    bed = Bed(msgspec.structs.replace(CONFIG, seconds=5))
    bed.run()
    jobs = decode_jobs(b"[" + b",".join(bed.jobs) + b"]")
    taken, asked = list[int](), list[int]()

    class Breaking:
        async def jobs(self, after: int) -> AsyncIterator[list[DdlJob]]:
            asked.append(after)
            for job in jobs:
                if job.id > after:
                    yield [job]
                    if job.id == jobs[2].id:
                        raise Unavailable("the registry went away")

    class Kept:
        schema_version = 0

        def __init__(self) -> None:
            self.databases: dict[str, int] = {}

        def used_id(self, one: int) -> None:
            taken.append(one)

    kept = cast(Any, Kept())
    run_loop(SimLoop(1), resume(kept, cast(EmbeddedHistory, Breaking()), LoopClock()))
    assert asked == [0, jobs[2].id]
    assert set(taken) >= {job.id for job in jobs}
    assert len(taken) < 3 * len(jobs), "each is taken once"
    assert kept.schema_version == max(job.version for job in jobs)


def test_an_oracle_is_asked_again_but_for_what_is_for_good() -> None:
    answers: list[int | Exception] = [Unavailable("away"), DiskFull("full"), 7]

    class Asked:
        async def fresh(self, at_least: int) -> int:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    oracle = cast(Oracle, Asked())
    assert run_loop(SimLoop(1), fresh(oracle, LoopClock(), 6)) == 7
    answers.append(Forbidden("not with this key"))
    with pytest.raises(Forbidden):
        run_loop(SimLoop(1), fresh(oracle, LoopClock(), 6))
