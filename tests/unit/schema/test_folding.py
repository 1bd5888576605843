"""Folding: what anybody can still ask about is answered as if nothing had been let go of."""

from __future__ import annotations

import pytest

from tests.unit.schema.random_history import TS_STEP, RandomHistory
from tidelog.schema.errors import UnknownJob, UnknownTable
from tidelog.schema.history import TableAt
from tidelog.schema.tracker import SchemaTracker


def table(tracker: SchemaTracker, table_id: int, version: int) -> TableAt | None:
    try:
        return tracker.table(table_id, version)
    except UnknownTable:
        return None


def same(whole: SchemaTracker, folded: SchemaTracker, history: RandomHistory) -> None:
    """Above what is folded both say the same."""
    rng, newest, floor = history.rng, len(history.jobs), folded.folded.version
    for table_id in set(history.ids):
        for version in {newest, floor, rng.randint(floor, newest)}:
            assert table(whole, table_id, version) == table(folded, table_id, version)
            gone = whole.is_dropped_or_truncated(table_id, version)
            assert folded.is_dropped_or_truncated(table_id, version) == gone
        between = whole.jobs_between(table_id, floor, newest)
        assert folded.jobs_between(table_id, floor, newest) == between
    for job in history.jobs:
        if job.id > folded.folded.last_job:
            assert folded.ddl(job.id) == whole.ddl(job.id)
        else:
            with pytest.raises(UnknownJob):
                folded.ddl(job.id)
    assert (folded.version, folded.seen_version) == (whole.version, whole.seen_version)


@pytest.mark.parametrize("seed", range(25))
def test_folded_or_not_the_answers_are_the_same(seed: int) -> None:
    history = RandomHistory(seed)
    whole, folded = SchemaTracker(), SchemaTracker()
    whole.add_jobs(history.jobs)
    folded.add_jobs(history.jobs)
    for _ in range(12):
        fresh = history.extend(history.rng.randrange(1, 40))
        whole.add_jobs(fresh)
        folded.add_jobs([*fresh, *history.jobs[-60:]])
        upto = history.rng.randrange(len(history.jobs) + 1)
        folded.fold(upto * TS_STEP, keep=history.rng.randrange(20))
        same(whole, folded, history)


def test_a_job_asked_for_by_name_is_taken_even_if_it_was_folded() -> None:
    history = RandomHistory(1)
    history.extend(40)
    made = SchemaTracker()
    made.add_jobs(history.jobs)
    assert made.fold(20 * TS_STEP, keep=0) == 20
    made.add_jobs(history.jobs[:20])
    with pytest.raises(UnknownJob):
        made.ddl(10)
    before = [table(made, table_id, 99) for table_id in history.ids]
    made.add_jobs(history.jobs[:20], wanted=10)
    assert made.ddl(10).job_id == 10
    assert [table(made, table_id, 99) for table_id in history.ids] == before


def test_jobs_that_finish_out_of_order_fold_when_they_are_finished() -> None:
    """A long one of a lower id and version than others that the feed has passed."""
    history = RandomHistory(2)
    history.extend(30)
    alters = [job for job in history.jobs if job.type == 5 and job.state != 3]
    late = alters[-1]
    rest = [job for job in history.jobs if job is not late]
    whole, made = SchemaTracker(), SchemaTracker()
    whole.add_jobs(history.jobs)
    made.add_jobs(rest)
    made.fold(late.id * TS_STEP + TS_STEP, keep=0)
    made.add_jobs([late])
    if late.binlog is not None and late.binlog.finished_ts <= made.folded.ts:
        made.add_jobs([late], wanted=late.id)
    assert made.ddl(late.id).affected[-1].after == whole.ddl(late.id).affected[-1].after
    for table_id in set(history.ids):
        assert table(made, table_id, 99) == table(whole, table_id, 99)
