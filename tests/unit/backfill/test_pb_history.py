"""The texts of pb_binlog files are found among the jobs that our Writer told before their binlogs,
and among a TiDB's, which end behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import json

from tests.unit.backfill.pb_logs import SECOND, ddl, facts, inserted
from tidelog.changes import RowMessage
from tidelog.pump_client.ddl.parse import parse
from tidelog.pump_client.ddl.plan import plan as planned
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.replay.errors import DdlNotTold
from tidelog_backfill.replay.pb_history import ENDS_WITHIN_MS
from tidelog_backfill.replay.plan import Plan
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted

S = SECOND
MS = S // 1000
ADD_A = "ALTER TABLE shop.t ADD COLUMN a INT"
ADD_B = "ALTER TABLE shop.t ADD COLUMN b INT"
DROP_V = "ALTER TABLE shop.t DROP COLUMN v"


def history(*told: tuple[int, str], ours: bool = True) -> SchemaTracker:
    """The jobs of shop.t (id, v) and of these queries, with FinishedTS, as a Writer makes them;
    not `ours`: as they are without ToldBefore."""
    catalog, tracker = Catalog(), SchemaTracker()
    made = (S, "CREATE DATABASE shop"), (S, "CREATE TABLE shop.t (id INT, v INT)")
    for ts, query in (*made, *told):
        change = planned(parse(query), catalog, "2026-01-01 00:00:00")
        assert change is not None
        job = change.job(catalog.next_id, catalog.version, f"{query};", ts)
        if not ours and job.binlog is not None:
            told_by = msgspec.structs.replace(job.binlog, told_before=msgspec.UNSET)
            job = msgspec.structs.replace(job, binlog=told_by)
        catalog.add([job])
        tracker.add_jobs([job])
    return tracker


def replayed(made: Plan) -> tuple[list[tuple[str, str]], list[dict[str, Any] | None]]:
    """DDLs as (kind, text), and the rows."""
    return (
        [(one.kind, one.query) for segment in made.segments for one in segment.ddls],
        [
            event.after
            for segment in made.segments
            for chunk in segment.chunks
            for body in bodies(chunk, segment.view)
            for event in json.decode(body.body, type=RowMessage).events
        ],
    )


@pytest.mark.parametrize("later", [(), ((100 * S, DROP_V),)])
def test_a_writers_ddl_is_the_job_that_was_told_before_it(
    tmp_path: Path, later: tuple[tuple[int, str], ...]
) -> None:
    """Not the next one of its table, of a history that was read later."""
    log = facts(
        tmp_path,
        inserted(5 * S, "t", id=1, v=7),
        ddl(10 * S + 5 * MS, ADD_A),
        inserted(20 * S, "t", id=2, v=8, a=9),
    )
    made = plan(log, Wanted(), history=history((10 * S, ADD_A), *later))
    assert replayed(made) == (
        [("add_column", ADD_A)],
        [{"id": 1, "v": 7}, {"id": 2, "v": 8, "a": 9}],
    )


def test_a_tidbs_ddl_is_the_job_that_ends_behind_it(tmp_path: Path) -> None:
    log = facts(
        tmp_path,
        inserted(5 * S, "t", id=1, v=7),
        ddl(10 * S, ADD_A),
        inserted(20 * S, "t", id=2, v=8, a=9),
        ddl(100 * S, DROP_V),
    )
    jobs = (4 * S, ADD_B), (10 * S + 5 * MS, ADD_A), (100 * S + 5 * MS, DROP_V)
    ddls, rows = replayed(plan(log, Wanted(), history=history(*jobs, ours=False)))
    assert ddls == [("add_column", ADD_A), ("drop_column", DROP_V)]
    assert rows == [{"id": 1, "v": 7}, {"id": 2, "v": 8, "a": 9}]


def test_ddls_of_two_clients_that_overtook_one_another_are_told_by_their_texts(
    tmp_path: Path,
) -> None:
    log = facts(tmp_path, ddl(12 * S, ADD_A), ddl(13 * S, DROP_V), ddl(14 * S, ADD_B))
    jobs = (9 * S, ADD_B), (10 * S, ADD_A), (11 * S, DROP_V)
    ddls, _ = replayed(plan(log, Wanted(), history=history(*jobs)))
    assert ddls == [("add_column", ADD_A), ("drop_column", DROP_V), ("add_column", ADD_B)]


def test_a_ddl_whose_text_is_not_the_jobs_is_the_last_job_told_before_it(tmp_path: Path) -> None:
    """The binlog of the one before that was in a file that is gone."""
    log = facts(tmp_path, ddl(12 * S, f"{DROP_V} /* written anew */"))
    made = plan(log, Wanted(), history=history((10 * S, ADD_A), (11 * S, DROP_V)))
    assert [kind for kind, _ in replayed(made)[0]] == ["drop_column"]


def test_rows_between_a_job_and_its_binlog_are_whole(tmp_path: Path) -> None:
    """Though the files begin behind the job."""
    log = facts(
        tmp_path,
        inserted(10 * S + MS, "t", id=1, v=7),
        ddl(10 * S + 5 * MS, DROP_V),
        inserted(20 * S, "t", id=2),
    )
    _, rows = replayed(plan(log, Wanted(), history=history((10 * S, DROP_V))))
    assert rows == [{"id": 1, "v": 7}, {"id": 2}]


def test_a_job_that_was_told_long_before_is_not_it(tmp_path: Path) -> None:
    at = 10 * S + ENDS_WITHIN_MS * MS
    jobs = history((10 * S, ADD_A))
    made = plan(facts(tmp_path, ddl(at, ADD_A)), Wanted(), history=jobs)
    assert replayed(made)[0] == [("add_column", ADD_A)]
    with pytest.raises(DdlNotTold, match="no job that may be it"):
        plan(facts(tmp_path, ddl(at + 1, ADD_A)), Wanted(), history=jobs)


ADD_P = "CREATE TABLE shop.p (id INT PRIMARY KEY)"


@pytest.mark.parametrize("ends", [10 * S + 50 * MS, 10 * S + 350 * MS])
def test_rows_behind_a_tidbs_ddl_whose_binlog_is_in_a_file_that_is_gone_are_whole(
    tmp_path: Path, ends: int
) -> None:
    """The DDLs' binlogs stood at 10 s. Their jobs' FinishedTS is up to 350 ms above that
    (docs/adr/0005): before the first row that is left, or behind it."""
    log = facts(
        tmp_path,
        inserted(10 * S + 100 * MS, "t", id=1, v=7, a=9),
        inserted(10 * S + 101 * MS, "p", id=3),
        inserted(20 * S, "t", id=2, v=8, a=9),
        ddl(30 * S, ADD_B),
        inserted(40 * S, "t", id=4, v=8, a=9, b=5),
    )
    jobs = history((ends, ADD_A), (ends, ADD_P), (30 * S + MS, ADD_B), ours=False)
    ddls, rows = replayed(plan(log, Wanted(), history=jobs))
    assert ddls == [("add_column", ADD_B)]
    assert rows == [
        {"id": 1, "v": 7, "a": 9},
        {"id": 3},
        {"id": 2, "v": 8, "a": 9},
        {"id": 4, "v": 8, "a": 9, "b": 5},
    ]


def test_rows_before_a_tidbs_ddl_with_which_the_files_begin_are_as_before_it(
    tmp_path: Path,
) -> None:
    log = facts(
        tmp_path,
        inserted(10 * S - MS, "t", id=1, v=7),
        ddl(10 * S, DROP_V),
        inserted(10 * S + 100 * MS, "t", id=2),
    )
    jobs = history((10 * S + 350 * MS, DROP_V), ours=False)
    ddls, rows = replayed(plan(log, Wanted(), history=jobs))
    assert (ddls, rows) == ([("drop_column", DROP_V)], [{"id": 1, "v": 7}, {"id": 2}])
