"""Every kind of DDL job that TiDB has (appendix B.11), and every state of a job (seed 001)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.unit.schema.jobs import create_schema, job, table_info
from tidelog.schema import jobs as kinds
from tidelog.schema.handlers import HANDLERS
from tidelog.schema.model import DBInfo, DdlJob, HistoryInfo, Name, SequenceInfo, ViewInfo
from tidelog.schema.tracker import SchemaTracker

KIND = {name: number for number, name in kinds.KIND_NAMES.items()}
CREATE = job(10, kinds.CREATE_TABLE, table_info(5, "t"))
PARTED = job(10, kinds.CREATE_TABLE, table_info(5, "t", partitions=(51, 52)))


def tracker(*jobs: DdlJob) -> SchemaTracker:
    made = SchemaTracker()
    made.add_jobs([create_schema(1, 1, "app"), *jobs])
    return made


@pytest.mark.parametrize("kind", [*sorted(set(kinds.KIND_NAMES) - set(HANDLERS)), 999])
def test_whatever_leaves_one_table_behind_is_followed_by_its_table_info(kind: int) -> None:
    wide = table_info(5, "t", "id", "n")
    made = tracker(CREATE, job(12, kind, wide))
    outcome = made.ddl(1012)
    assert not outcome.changes_nothing
    ((before, after),) = [(one.before, one.after) for one in outcome.affected]
    assert before is not None
    assert after is not None
    assert [len(one.info.columns) for one in (before, after)] == [1, 2]
    assert len(made.table(5, 11).info.columns) == 1
    assert len(made.table(5, 12).info.columns) == 2


@pytest.mark.parametrize("kind", [*sorted(kinds.KIND_NAMES), 999])
def test_a_job_that_says_nothing_of_a_table_touches_none(kind: int) -> None:
    """Placement policies, resource groups, locks, CACHE; and whatever is to come."""
    made = tracker(CREATE, job(12, kind, schema=(77, "policy")))
    assert made.ddl(1012).affected == ()
    assert made.table(5, 99).name == "t"


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        ("add_partition", (51, 52, 53)),
        ("drop_partition", (52,)),
        ("truncate_partition", (51, 60)),
        ("reorganize_partition", (60, 61, 62)),
        ("alter_table_alter_partition", (51, 52)),
    ],
)
def test_partitions_come_and_go_under_one_table_id(kind: str, left: tuple[int, ...]) -> None:
    made = tracker(PARTED, job(12, KIND[kind], table_info(5, "t", partitions=left)))
    assert made.table(5, 11).info.partition_ids == {51, 52}
    assert made.table(5, 12).info.partition_ids == set(left)


@pytest.mark.parametrize("kind", ["alter_partitioning", "remove_partitioning", "truncate_table"])
def test_a_new_table_id_ends_the_old_one(kind: str) -> None:
    left = () if kind == "remove_partitioning" else (61, 62)
    made = tracker(PARTED, job(12, KIND[kind], table_info(6, "t", partitions=left), table_id=5))
    (one,) = made.ddl(1012).affected
    assert one.before is not None
    assert one.after is not None
    assert (one.before.info.id, one.after.info.id) == (5, 6)
    assert made.is_dropped_or_truncated(5, 12)
    assert made.table(6, 12).info.partition_ids == set(left)


def test_a_truncated_table_is_flashed_back_beside_its_successor() -> None:
    made = tracker(
        CREATE,
        job(11, kinds.TRUNCATE_TABLE, table_info(6, "t"), table_id=5),
        job(12, kinds.RECOVER_TABLE, table_info(5, "t_old"), query="FLASHBACK TABLE t TO t_old"),
    )
    assert made.is_dropped_or_truncated(5, 11)
    assert (made.table(5, 12).name, made.table(6, 12).name) == ("t_old", "t")


def test_a_schema_is_flashed_back_under_a_new_name() -> None:
    drop = job(12, kinds.DROP_SCHEMA)
    history = HistoryInfo(13, DBInfo(1, Name("app2", "app2")))
    back = DdlJob(1013, kinds.RECOVER_SCHEMA, 1, schema_name="app2", binlog=history)
    made = tracker(CREATE, drop, back)
    assert made.is_dropped_or_truncated(5, 12)
    assert (made.table(5, 13).db, made.table(5, 13).name) == ("app2", "t")
    assert made.ddl(1013).db == "app2"


def test_a_multi_schema_change_is_one_version() -> None:
    wide = table_info(5, "t", "id", "a", "b")
    made = tracker(CREATE, job(17, KIND["multi_schema_change"], wide))
    for version, columns in ((10, 1), (16, 1), (17, 3)):
        assert len(made.table(5, version).info.columns) == columns
    assert made.jobs_between(5, 10, 17) == [1017]


def test_views_and_sequences() -> None:
    view = replace(table_info(7, "v"), view=ViewInfo("select 1"))
    first, then = (
        replace(table_info(8, "s"), cols=None, sequence=SequenceInfo(sequence_start=start))
        for start in (1, 50)
    )
    made = tracker(
        job(11, kinds.CREATE_VIEW, view),
        job(12, kinds.CREATE_SEQUENCE, first),
        job(13, KIND["alter_sequence"], then),
        job(14, kinds.DROP_VIEW, view),
        job(15, kinds.DROP_SEQUENCE, then),
    )
    assert made.table(7, 11).info.view == ViewInfo("select 1")
    assert [made.table(8, at).info.sequence for at in (12, 13)] == [first.sequence, then.sequence]
    assert made.is_dropped_or_truncated(7, 14)
    assert made.is_dropped_or_truncated(8, 15)
    assert not made.is_dropped_or_truncated(8, 14)


@pytest.mark.parametrize("state", range(8))
def test_only_done_and_synced_jobs_change_the_schema(state: int) -> None:
    """Of a job that is queued, running, rolling back, rolled back or being cancelled: nothing."""
    made = tracker(CREATE, job(12, 5, table_info(5, "t", "id", "n"), state=state))
    counts = state in (kinds.JOB_STATE_DONE, kinds.JOB_STATE_SYNCED)
    assert made.ddl(1012).changes_nothing is not counts
    assert len(made.table(5, 12).info.columns) == 1 + counts


@pytest.mark.parametrize("first", [1, kinds.JOB_STATE_DONE])
def test_a_job_met_again_in_a_later_state_counts_by_that(first: int) -> None:
    """Its last transaction failed (a Rollback binlog) and was tried again."""
    wide = job(12, 5, table_info(5, "t", "id", "n"), state=first)
    made = tracker(CREATE, wide)
    made.add_jobs([replace(wide, state=kinds.JOB_STATE_SYNCED)])
    assert len(made.table(5, 12).info.columns) == 2
    assert made.jobs_between(5, 10, 12) == [1012]


def test_a_job_that_was_running_and_then_rolled_back_changes_nothing() -> None:
    wide = job(12, 5, table_info(5, "t", "id", "n"), state=1)
    made = tracker(CREATE, wide)
    made.add_jobs([replace(wide, state=kinds.JOB_STATE_ROLLED_BACK)])
    assert len(made.table(5, 12).info.columns) == 1
    assert made.ddl(1012).changes_nothing
