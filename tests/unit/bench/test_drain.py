"""The workload of `bench drain` is what it says: each transaction once, whatever Pump has it."""

from __future__ import annotations

from functools import cache

import pytest

from bench.alone import Work, batches, measure, merged
from bench.drain import CASES, LEAST, Case
from bench.feeder import PumpBacklog, answer
from bench.frames import FRAME_BYTES, Prepared, head, prepare
from bench.progress import FEWEST
from bench.tables import SHAPES, BenchTable
from tidelog.rows.values import Value
from tidelog_proto.transport_pb2 import PullFrame, PullRequest

FIRST_TS = 460_000_000_000_000_000


@cache
def prepared(count: int, rows: int) -> Prepared:
    return prepare("c", ("a", "b"), FIRST_TS, 4, count, rows)


def pulled(pump: PumpBacklog) -> list[int]:
    """Every commit_ts, as a cursor asks for them."""
    found: list[int] = []
    after_ts = 0
    while True:
        data = answer(pump, PullRequest(after_ts=after_ts, max_bytes=1).SerializeToString())
        if data is None:
            return found
        frame = PullFrame.FromString(data)
        assert sum(len(txn.payload) for txn in frame.txns) <= FRAME_BYTES
        found += [txn.commit_ts for txn in frame.txns]
        after_ts = frame.resolved_ts


def test_the_pumps_answer_with_every_transaction_once() -> None:
    made = prepared(9000, 1)
    a, b = (pulled(pump) for pump in made.backlog.pumps)
    assert len(made.backlog.pumps[0].frames) > 1
    assert sorted(a + b) == [commit_ts for commit_ts, _, _ in made.txns]


def test_a_nudge_says_where_the_pump_is() -> None:
    (pump, _) = prepared(9000, 1).backlog.pumps
    asked = PullRequest(after_ts=pump.resolved[0], want_ts=1 << 60).SerializeToString()
    assert PullFrame.FromString(answer(pump, asked) or b"").resolved_ts == pump.resolved[0]


@pytest.mark.parametrize(("count", "rows"), [(300, 1), (5, 1000)])
def test_all_rows_come_out_of_merge_decoder_and_batcher(count: int, rows: int) -> None:
    made = prepared(count, rows)
    assert [txn for txns in merged(made.backlog) for txn in txns] == made.txns
    work = Work(made.history, made.backlog)
    found = list(batches(work))
    assert sum(batch.txns for batch in found) == count
    assert sum(batch.rows for batch in found) == made.rows == count * rows
    assert measure(work).transactions == count


def test_a_head_is_the_beginning_of_a_workload() -> None:
    made = prepared(9000, 1)
    first = [txn for txns in merged(head(made.backlog, 1)) for txn in txns]
    assert 0 < len(first) < len(made.txns)
    assert first == made.txns[: len(first)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_a_workload_has_batches_for_a_pace(case: Case) -> None:
    """What is published moves on by a batch at a time."""
    made = prepare("c", ("a", "b"), FIRST_TS, case.columns, 30_000 // case.rows, case.rows)
    found = batches(Work(made.history, made.backlog))
    first = next(found)
    assert next(found, None), "the first batch is not full"
    assert case.transactions * LEAST / first.txns > FEWEST


@pytest.mark.parametrize("columns", sorted({case.columns for case in CASES}))
def test_rows_survive_their_table(columns: int) -> None:
    table = BenchTable(1, columns)
    row: dict[str, Value] = table.row(5)
    assert len(row) == len(SHAPES[columns].columns) == columns
