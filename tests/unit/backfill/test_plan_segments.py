"""A plan of Pumps' logs comes to what the Drainer publishes of the same: DDLs, rows, bytes."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures import capture
from tests.unit.backfill.drained import Done, PumpLog, drained
from tests.unit.decode.upstream import Upstream
from tidelog.decode.config import DecodeConfig
from tidelog.decode.errors import Undecodable
from tidelog.decode.transactions import Txn
from tidelog.filter.settings import BinlogFilterRule, TableMigrateRule, TableName, TableWildcards
from tidelog.schema.model import HistoryInfo
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted
from tidelog_proto.binlog_pb2 import Binlog

FILTERED = {
    "none": DecodeConfig(),
    "no DDL": DecodeConfig(sync_ddl=False),
    "a table": DecodeConfig(ignore_table=(TableName("app", "~.*a.*"),)),
    "two schemas": DecodeConfig(replicate_do_db=("types", "part")),
    "renamed": DecodeConfig(
        table_migrate_rule=(TableMigrateRule(TableWildcards("app"), TableWildcards("copy")),)
    ),
    "no deletes": DecodeConfig(
        table_migrate_rule=(
            TableMigrateRule(TableWildcards("app"), binlog_filter_rule=("no deletes",)),
        ),
        binlog_filter_rule={"no deletes": BinlogFilterRule(("delete", "truncate table"))},
    ),
}


@cache
def log(which: capture.Set) -> PumpLog:
    """In the order of Prewrites, as they lie in a Pump's log."""
    committed = [one for one in capture.pulled(which) if one.start_ts != one.commit_ts]
    return PumpLog(sorted(committed, key=lambda one: one.start_ts))


def history(which: capture.Set) -> SchemaTracker:
    tracker = SchemaTracker()
    tracker.add_jobs(capture.ddl_history(which))
    return tracker


@cache
def expected(which: capture.Set, rules: str) -> tuple[list[Done], dict[str, int]]:
    return drained(log(which).binlogs, history(which), FILTERED[rules])


@pytest.mark.parametrize("which", capture.SETS)
@pytest.mark.parametrize("rules", FILTERED)
def test_what_is_done_is_what_the_drainer_publishes(which: capture.Set, rules: str) -> None:
    made = plan(
        log(which).facts((1000, 1500)),
        Wanted(segment_bytes=100_000),
        history=history(which),
        config=FILTERED[rules],
    )
    wanted, _ = expected(which, rules)
    assert log(which).done(made) == wanted


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 400), max_size=6), st.integers(1, 200_000), st.integers(0, 400))
def test_wherever_it_is_cut_and_ends_it_is_the_same(
    cuts: list[int], size: int, number: int
) -> None:
    times = sorted(one.commit_ts for one in log("set-x").binlogs)
    until = times[number % len(times)]
    made = plan(
        log("set-x").facts(cuts),
        Wanted(segment_bytes=size, until_ts=until),
        history=history("set-x"),
    )
    upto = PumpLog([one for one in log("set-x").binlogs if one.commit_ts <= until])
    wanted, _ = drained(upto.binlogs, history("set-x"), DecodeConfig())
    assert log("set-x").done(made) == wanted
    assert made.until == until


def parsed(txn: Txn) -> Binlog:
    assert isinstance(txn[2], bytes)
    return Binlog.FromString(txn[2])


class Recorded(Upstream):
    """Keeps what it commits. What is `late` commits only when it is let go."""

    def __init__(self, **config: object) -> None:
        super().__init__(**config)
        self.log: list[Binlog] = []
        self.waiting: list[Binlog] = []

    def job(self, kind: str, db: str, table_id: int, query: str, info: HistoryInfo) -> int:
        # A job is finished some time behind its binlog's commit_ts.
        finished = msgspec.structs.replace(info, finished_ts=self.ts + 1000)
        return super().job(kind, db, table_id, query, finished)

    def decoded(self, job_id: int) -> None:
        self.log.append(parsed(self.binlog(job_id)))

    def late_binlog(self, job_id: int) -> None:
        self.waiting.append(parsed(self.binlog(job_id)))

    def row(self, table: str, n: int, *, late: bool = False) -> None:
        made = parsed(self.txn((f"shop.{table}", "insert", {"id": n, "n": n})))
        (self.waiting if late else self.log).append(made)

    def let_go(self) -> None:
        for one in self.waiting:
            self.ts += 1
            one.commit_ts = self.ts
            self.log.append(one)
        self.waiting = []


class Told(Recorded):
    """Jobs of our Writer."""

    def job(self, kind: str, db: str, table_id: int, query: str, info: HistoryInfo) -> int:
        told = msgspec.structs.replace(info, finished_ts=self.ts, told_before=True)
        return Upstream.job(self, kind, db, table_id, query, told)


OPERATIONS = ("row", "row", "late row", "alter", "early alter", "truncate", "rename", "let go")
RULES = {
    "all": {},
    "one table": {"ignore_table": (TableName("shop", "b2"),)},
    "no DDL": {"sync_ddl": False},
    "marks": {"loopback_control": True, "channel_id": 5},
}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.sampled_from("ab")), max_size=25),
    st.lists(st.integers(1, 25), max_size=3),
    st.integers(1, 300),
    st.sampled_from(sorted(RULES)),
)
def test_any_history_comes_to_what_the_drainer_publishes(
    operations: list[tuple[str, str]], cuts: list[int], size: int, rules: str
) -> None:
    upstream = Recorded()
    upstream.schema("shop")
    names = {"a": "a", "b": "b"}
    for name in names:
        upstream.create("shop", name)
    for number, (operation, which) in enumerate(operations):
        table = names[which]
        if operation.endswith("row"):
            upstream.row(table, number, late=operation.startswith("late"))
        elif operation == "alter":
            upstream.alter("shop", table, f"c{number}")
        elif operation == "early alter":
            upstream.late_binlog(upstream.add_column("shop", table, f"c{number}"))
        elif operation == "truncate":
            upstream.truncate("shop", table)
        elif operation == "rename":
            names[which] = which + "2" if table == which else which
            upstream.rename("shop", (table, names[which]))
        else:
            upstream.let_go()
    upstream.let_go()
    config = DecodeConfig(**RULES[rules])  # type: ignore[arg-type]
    log = PumpLog(sorted(upstream.log, key=lambda one: (one.start_ts, one.commit_ts)))
    asked = log.facts(cuts), Wanted(segment_bytes=size)
    try:
        wanted, _ = drained(log.binlogs, upstream.tracker, config)
    except Undecodable as stopped:  # a rename brings rows that were filtered
        with pytest.raises(Undecodable, match=str(stopped.commit_ts)):
            plan(*asked, history=upstream.tracker, config=config)
        return
    assert log.done(plan(*asked, history=upstream.tracker, config=config)) == wanted


@pytest.mark.parametrize("cut", [False, True])
def test_a_ddl_of_a_writer_of_ours_whose_job_was_told_before_the_log_begins(cut: bool) -> None:
    """Its binlog lies in the log, so that it is to come, whatever its job says of the time."""
    up = Told()
    up.schema("shop")
    up.create("shop", "a")
    up.row("a", 1)
    up.late_binlog(up.add_column("shop", "a", "c"))
    told_at = up.ts
    up.row("a", 2)
    up.let_go()
    up.row("a", 3)
    log = PumpLog([one for one in up.log if one.commit_ts > told_at or not cut])
    made = plan(log.facts([]), Wanted(segment_bytes=1000), history=up.tracker)
    done = [str(one) for one in log.done(made)]
    rows = [at for at, one in enumerate(done) if '"events"' in one]
    (added,) = [at for at, one in enumerate(done) if "ADD COLUMN" in one]
    assert [at > added for at in rows] == ([True, True] if cut else [False, True, True])
