"""Which table an id means at a version, DDL kind by kind, and jobs in any order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fixtures.capture import SETS, Set, ddl_history
from tests.unit.schema.jobs import create_schema, job, table_info
from tidelog.schema import jobs as kinds
from tidelog.schema.errors import UnknownJob, UnknownTable
from tidelog.schema.history import Affected, TableAt
from tidelog.schema.model import DdlJob, HistoryInfo
from tidelog.schema.renames import Pair, renames
from tidelog.schema.tracker import BRIEF_ABOVE, SchemaTracker, is_setval


def tracker(*jobs: DdlJob) -> SchemaTracker:
    made = SchemaTracker()
    made.add_jobs([create_schema(1, 1, "app"), create_schema(2, 2, "other"), *jobs])
    return made


def names(affected: tuple[Affected, ...]) -> list[tuple[str, str]]:
    def name(state: TableAt | None) -> str:
        return f"{state.db}.{state.name}#{state.info.id}" if state is not None else ""

    return [(name(one.before), name(one.after)) for one in affected]


CREATE = job(10, kinds.CREATE_TABLE, table_info(5, "T"))


def test_the_newest_version_at_or_below_the_mutations_counts() -> None:
    made = tracker(CREATE, job(14, 5, table_info(5, "T", "id", "n")))
    assert made.version == 14
    assert (made.table(5, 10).db, made.table(5, 10).name) == ("app", "T")
    assert len(made.table(5, 13).info.columns) == 1
    assert len(made.table(5, 14).info.columns) == len(made.table(5, 99).info.columns) == 2
    for table_id, version in ((5, 9), (6, 99)):
        with pytest.raises(UnknownTable):
            made.table(table_id, version)


def test_rolled_back_jobs_and_version_0_change_nothing() -> None:
    wide = table_info(5, "T", "id", "n")
    made = tracker(CREATE, job(11, 5, wide, state=3), job(0, 5, wide))
    assert len(made.table(5, 99).info.columns) == 1
    for job_id in (1011, 1000):
        outcome = made.ddl(job_id)
        assert outcome.changes_nothing
        assert outcome.affected == ()


def test_truncate_ends_the_old_id() -> None:
    made = tracker(CREATE, job(11, kinds.TRUNCATE_TABLE, table_info(6, "T"), table_id=5))
    assert names(made.ddl(1011).affected) == [("app.T#5", "app.T#6")]
    assert not made.is_dropped_or_truncated(5, 10)
    assert made.is_dropped_or_truncated(5, 11)
    assert not made.is_dropped_or_truncated(6, 11)
    assert not made.is_dropped_or_truncated(77, 11), "an id never heard of is no dropped table"
    with pytest.raises(UnknownTable):
        made.table(5, 11)


def test_a_recovered_table_has_its_id_again() -> None:
    drop = job(11, kinds.DROP_TABLE, table_info(5, "T"))
    made = tracker(CREATE, drop, job(12, kinds.RECOVER_TABLE, table_info(5, "T2")))
    assert names(made.ddl(1011).affected) == [("app.T#5", "")]
    assert made.is_dropped_or_truncated(5, 11)
    assert made.table(5, 12).name == "T2"


def test_a_table_keeps_its_id_across_schemas() -> None:
    move = job(
        11,
        kinds.RENAME_TABLE,
        table_info(5, "U"),
        schema=(2, "other"),
        query="rename table T to other.U",
    )
    made = tracker(CREATE, move)
    outcome = made.ddl(1011)
    assert names(outcome.affected) == [("app.T#5", "other.U#5")]
    assert outcome.db == "app", "an unqualified source is in the schema it came from"
    fetched = job(12, kinds.RENAME_TABLE, table_info(5, "V"), query="rename table other.U to V")
    made.add_jobs([fetched])
    assert made.ddl(1012).db == "app", "an unqualified target is in the session's schema"


def test_renames_of_several_tables_go_step_by_step() -> None:
    cycle = job(
        12,
        kinds.RENAME_TABLES,
        table_info(5, "b"),
        schema=(2, "other"),
        infos=(table_info(5, "x"), table_info(6, "a"), table_info(5, "b")),
        query="RENAME TABLE `a` TO `x`, `b` TO `a`, `x` TO `other`.`b`;",
    )
    made = tracker(
        job(10, kinds.CREATE_TABLE, table_info(5, "a")),
        job(11, kinds.CREATE_TABLE, table_info(6, "b")),
        cycle,
    )
    assert names(made.ddl(1012).affected) == [
        ("app.a#5", "app.x#5"),
        ("app.b#6", "app.a#6"),
        ("app.x#5", "other.b#5"),
    ]
    assert (made.table(5, 12).db, made.table(5, 12).name) == ("other", "b")
    assert made.table(6, 11).name == "b"
    assert made.ddl(1012).db == "app", "the job is the last target's, unqualified names are not"


@pytest.mark.parametrize(
    ("query", "session", "moved"),
    [
        ("RENAME TABLE a TO c, b TO other.d", "app", ["app", "other"]),
        ("RENAME TABLE app.a TO other.c, b TO other.d", "app", ["other", "other"]),
        ("RENAME TABLE app.a TO c, app.b TO d", "other", ["other", "other"]),
        ("RENAME TABLE app.a TO c, app.b TO other.d", "other", ["app", "other"]),
        (
            "RENAME TABLE app.a TO tmp, tmp TO other.c, b TO other.d",
            "app",
            ["app", "other", "other"],
        ),
        ("/* to x, */ RENAME TABLE a TO `b to c,`, b TO other.d -- to z", "app", ["app", "other"]),
    ],
)
def test_renames_of_several_tables_out_of_their_schema(
    query: str, session: str, moved: list[str]
) -> None:
    """TiDB's job is the last target's. Where nobody can tell what an unqualified name means, the
    table stays where it was."""
    ids = [5, 5, 6] if "tmp" in query else [5, 6]
    made = tracker(
        job(10, kinds.CREATE_TABLE, table_info(5, "a")),
        job(11, kinds.CREATE_TABLE, table_info(6, "b")),
        job(
            12,
            kinds.RENAME_TABLES,
            schema=(2, "other"),
            infos=tuple(table_info(one, f"new{at}") for at, one in enumerate(ids)),
            query=query,
        ),
    )
    outcome = made.ddl(1012)
    assert outcome.db == session
    assert [one.db for one in outcome.affected] == moved


@pytest.mark.parametrize(
    ("query", "session"),
    [
        ("ALTER TABLE app.T RENAME U", "other"),
        ("ALTER TABLE app.T RENAME = U", "other"),
        ("ALTER TABLE T RENAME other.U", "app"),
        ("ALTER TABLE app.T RENAME TO other.U", "other"),
    ],
)
def test_a_table_moved_by_alter_is_in_the_session_s_schema(query: str, session: str) -> None:
    move = job(11, kinds.RENAME_TABLE, table_info(5, "U"), schema=(2, "other"), query=query)
    assert tracker(CREATE, move).ddl(1011).db == session


def test_a_schema_is_called_as_it_was_written() -> None:
    """Of the schema TiDB's jobs have the name in lower case only."""
    shop = create_schema(3, 3, "Shop")
    made = tracker(
        replace(shop, schema_name="shop"),
        job(10, kinds.CREATE_TABLE, table_info(5, "T"), schema=(3, "shop")),
        job(11, 51, schema=(3, "policy")),
        job(12, kinds.DROP_SCHEMA, schema=(3, "shop")),
    )
    named = [made.ddl(one).db for one in (1003, 1010, 1011, 1012)]
    assert named == ["Shop", "Shop", "policy", "Shop"]


@pytest.mark.parametrize(
    ("query", "schemas"),
    [
        ("rename table a to b", [("", "")]),
        ("RENAME TABLE `a` TO `d``b` . `c`, x to y.z ;", [("", "d`b"), ("", "y")]),
        ('rename table "to" to "q"."r"', [("", "q")]),
        ("rename tables x.`a to b, c` to y.c # to z.d", [("x", "y")]),
        ("alter table a rename as b.c", [("", "b")]),
        ("ALTER TABLE /* to */ a.b RENAME c", [("a", "")]),
        ("alter table a.b rename", []),
        ("rename table a to b, c", []),
        ("rename table a to ,", []),
        ("rename table a to b.c " + "/* " * 50_000, [("", "b")]),
        ("drop table a", []),
    ],
)
def test_schemas_of_renames(query: str, schemas: list[Pair]) -> None:
    assert renames(query) == schemas


def test_batches_create_every_table() -> None:
    batch = job(10, kinds.CREATE_TABLES, infos=(table_info(5, "a"), table_info(6, "b")))
    made = tracker(batch)
    assert names(made.ddl(1010).affected) == [("", "app.a#5"), ("", "app.b#6")]
    assert made.table(5, 10).name == "a"


def test_or_replace_ends_the_view_before() -> None:
    made = tracker(
        job(10, kinds.CREATE_VIEW, table_info(5, "v")),
        job(11, kinds.CREATE_VIEW, table_info(6, "v")),
    )
    assert names(made.ddl(1011).affected) == [("app.v#5", "app.v#6")]
    assert made.is_dropped_or_truncated(5, 11)


def test_exchange_partition_swaps_the_ids() -> None:
    made = tracker(
        job(10, kinds.CREATE_TABLE, table_info(5, "r", partitions=(51, 52))),
        job(11, kinds.CREATE_TABLE, table_info(6, "ex")),
        job(
            12,
            kinds.EXCHANGE_PARTITION,
            table_info(5, "r", partitions=(6, 52)),
            table_id=6,
        ),
    )
    assert names(made.ddl(1012).affected) == [("app.r#5", "app.r#5"), ("app.ex#6", "app.ex#51")]
    assert made.table(51, 12).info.id == 51
    assert made.is_dropped_or_truncated(6, 12)


def test_dropping_a_schema_drops_its_tables_and_recovering_brings_them_back() -> None:
    drop = job(12, kinds.DROP_SCHEMA)
    made = tracker(CREATE, job(11, kinds.CREATE_TABLE, table_info(6, "b")), drop)
    assert names(made.ddl(1012).affected) == [("app.T#5", ""), ("app.b#6", "")]
    assert made.is_dropped_or_truncated(6, 12)
    made.add_jobs([job(13, kinds.RECOVER_SCHEMA)])
    assert names(made.ddl(1013).affected) == [("", "app.T#5"), ("", "app.b#6")]


def test_of_a_schema_of_very_many_tables_only_their_names_are_told() -> None:
    """Decoded, they would take gigabytes, and the event loop for seconds."""
    count = BRIEF_ABOVE + 1
    made = tracker(
        *(job(10 + at, kinds.CREATE_TABLE, table_info(5 + at, f"T{at}")) for at in range(count)),
        job(10 + count, kinds.DROP_SCHEMA),
    )
    made.fold(0, keep=1)
    away = {i: (state, 1) for i, state in made.folded.live.items()}
    made.folded.saved(away)
    made.again()
    told = made.ddl(1010 + count)
    assert told.brief
    assert names(told.affected) == [(f"app.T{at}#{5 + at}", "") for at in range(count)]
    assert {one.before.info.columns for one in told.affected if one.before} == {()}
    assert made.is_dropped_or_truncated(5, 10 + count)


def test_drop_column_says_twice_what_counts_once() -> None:
    made = tracker(CREATE, job(11, kinds.DROP_COLUMN, table_info(5, "T")))
    assert made.ddl(1011, kinds.STATE_DELETE_ONLY).changes_nothing
    assert made.ddl(1011, kinds.STATE_NONE).affected
    assert made.ddl(1011).kind == "drop_column"


def test_system_schemas_and_jobs_without_a_table() -> None:
    made = tracker(
        job(10, kinds.CREATE_TABLE, table_info(5, "user"), schema=(3, "mysql")),
        job(11, 51, schema=(1, "pp")),
        job(12, 999, table_info(5, "user"), schema=(3, "mysql")),
    )
    assert made.ddl(1010).system
    policy = made.ddl(1011)
    assert (policy.kind, policy.affected, policy.system) == ("create_placement_policy", (), False)
    assert made.ddl(1012).kind == "unknown_999"
    with pytest.raises(UnknownJob):
        made.ddl(1)


def test_setval_is_recognised() -> None:
    assert is_setval("SELECT SETVAL(`misc`.`sq`, 32);")
    assert is_setval(" select setval (x, 1)")
    assert not is_setval("CREATE TABLE setval (a INT)")


def test_jobs_between_are_those_that_touched_the_table() -> None:
    made = tracker(
        CREATE,
        job(11, kinds.CREATE_TABLE, table_info(6, "b")),
        job(12, 5, table_info(5, "T", "id", "n")),
        job(13, kinds.RENAME_TABLE, table_info(5, "U")),
    )
    assert made.jobs_between(5, 10, 13) == [1012, 1013]
    assert made.jobs_between(5, 0, 12) == [1010, 1012]
    assert made.jobs_between(6, 11, 99) == []


def test_folding_keeps_what_later_readers_ask_for() -> None:
    made = tracker(
        CREATE,
        job(11, 5, table_info(5, "T", "id", "n")),
        job(12, kinds.CREATE_TABLE, table_info(6, "b")),
        job(13, kinds.DROP_TABLE, table_info(6, "b")),
        job(15, 5, table_info(5, "T", "id", "n", "m")),
    )
    assert made.fold(0, keep=1) == 6
    assert len(made.table(5, 14).info.columns) == 2
    assert len(made.table(5, 15).info.columns) == 3
    assert made.is_dropped_or_truncated(6, 14), "its late mutations are no stop"
    with pytest.raises(UnknownJob):
        made.ddl(1011)
    made.add_jobs([CREATE])
    assert made.version == 15


@given(st.sampled_from(SETS), st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_the_order_and_number_of_deliveries_does_not_matter(which: Set, rng: object) -> None:
    in_order, shuffled = SchemaTracker(), SchemaTracker()
    jobs = ddl_history(which)
    in_order.add_jobs(jobs)
    again = [*jobs, *jobs[:50]]
    rng.shuffle(again)  # type: ignore[attr-defined]
    for at in range(0, len(again), 40):
        shuffled.add_jobs(again[at : at + 40])
    assert in_order.version == shuffled.version
    for one in jobs:
        assert in_order.ddl(one.id) == shuffled.ddl(one.id)


def finished(version: int, ts: int, *, ours: bool = False) -> DdlJob:
    info = table_info(version, "x")
    binlog = HistoryInfo(version, table_info=info, finished_ts=ts, told_before=ours)
    return DdlJob(1000 + version, kinds.CREATE_TABLE, 1, version, "app", binlog=binlog)


@pytest.mark.parametrize(
    ("jobs", "after", "given_ts", "known"),
    [
        ([], 3, 0, 3),
        ([(4, 50), (5, 60), (7, 70)], 3, 0, 5),
        ([(5, 60), (7, 70)], 3, 0, 3),
        ([(5, 60), (7, 70), (8, 80)], 3, 65, 5),
        ([(5, 60), (7, 70), (8, 80)], 3, 70, 8),
        ([(5, 60), (7, 70)], 9, 0, 9),
    ],
)
def test_up_to_which_version_all_jobs_are_known(
    jobs: list[tuple[int, int]], after: int, given_ts: int, known: int
) -> None:
    made = tracker(*(finished(version, ts) for version, ts in jobs))
    assert made.known_upto(after, given_ts) == known


def test_a_writer_of_ours_tells_its_jobs_one_by_one() -> None:
    made = tracker(finished(5, 60, ours=True), finished(9, 70, ours=True), finished(12, 80))
    assert made.known_upto(0, 0) == 9


def test_gaps_are_the_versions_of_no_job_above_what_is_folded() -> None:
    made = tracker(finished(3, 10), finished(5, 20), job(8, 5, None, state=3))
    assert made.gaps(0, 10) == [4, 6, 7, 9]
    assert made.gaps(6, 9) == [7]
    made.fold(20, keep=1)
    assert made.gaps(0, 10) == [6, 7, 9]
