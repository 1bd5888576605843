"""Recorded transactions through decoder and batcher: the golden ones once, the rest counted."""

from __future__ import annotations

import pytest

from tests.fixtures import capture
from tidelog.change_reader import Change, ChangeAssembler
from tidelog.ports import Message
from tidelog.schema.errors import UnknownJob, UnknownTable
from tidelog.schema.tracker import SchemaTracker
from tidelog_drainer.batcher import Batch, Batcher
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decoder import DdlTxn, Decoder, SchemaBehind, Undecodable
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation


def decoder(which: capture.Set | None = "set-a", **changed: object) -> Decoder:
    tracker = SchemaTracker()
    jobs = capture.ddl_history(which) if which else []
    tracker.add_jobs(jobs)
    queries = {job.id: job.query for job in jobs}
    made = Decoder(
        DrainerConfig(**changed),  # type: ignore[arg-type]
        tracker,
        lambda job_id: queries.get(job_id, ""),
    )
    made.allowed_version = 1 << 40
    return made


def publish(which: capture.Set, made: Decoder) -> list[Change]:
    """Everything of a recording, decoded, batched and read again."""
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=4 << 20)
    assembler = ChangeAssembler("main", 0)
    found: list[Change] = []
    sequence = prev = 0

    def read(batch: Batch) -> None:
        nonlocal sequence, prev
        for chunk in batch.chunks:
            for out in chunk:
                sequence += 1
                found.extend(
                    assembler.feed([Message(out.subject, out.data, out.headers, sequence)])
                )
        prev = batch.last_ts

    for binlog in capture.pulled(which):
        if binlog.start_ts == binlog.commit_ts:
            continue
        while True:
            item = made.decode((binlog.commit_ts, binlog.start_ts, binlog.SerializeToString()))
            if item is None:
                break
            if isinstance(item, DdlTxn):
                if not batcher.empty:
                    read(batcher.finish(prev, 0))
                read(batcher.ddl(item, prev))
                if item.early:
                    continue
                break
            if not batcher.fits(item):
                read(batcher.finish(prev, 0))
            batcher.add(item)
            break
    if not batcher.empty:
        read(batcher.finish(prev, 0))
    return found


def test_golden_once_the_rest_counted() -> None:
    made = decoder()
    found = publish("set-a", made)
    assert [txn.commit_ts for change in found for txn in change.txns] == sorted(
        txn.commit_ts for txn in capture.golden()
    )
    assert made.dropped == {
        "system": 40,
        "setval": 6,
        "drop_column_first": 3,
        "placement": 3,
        "rolled_back": 2,
        "truncated": 1,
    }
    rows = {txn.commit_ts: txn.rows for change in found for txn in change.txns}
    for golden in capture.golden():
        if golden.ddl is None:
            assert rows[golden.commit_ts] == len(golden.dmls)


def test_early_ddls_stand_before_their_transactions() -> None:
    made = decoder("set-x")
    found = publish("set-x", made)
    assert made.dropped["early"] == 2
    assert made.early == set()
    times = [txn.commit_ts for change in found for txn in change.txns]
    assert times == sorted(set(times))
    kinds = [change.ddl.kind for change in found if change.ddl is not None]
    history = [job for job in capture.ddl_history("set-x") if job.type == 61]
    assert kinds.count("multi_schema_change") == len(history)


def test_an_unknown_kind_stops_unless_told_otherwise() -> None:
    with pytest.raises(Undecodable, match="ddl-policy create_table=forward"):
        publish("set-a", decoder(ddl_policy={"create_table": "stop"}))


def test_what_is_unknown_is_asked_for() -> None:
    made = decoder(None)
    ddl = Binlog(start_ts=1, commit_ts=2, ddl_query=b"CREATE TABLE t (a int)", ddl_job_id=9)
    with pytest.raises(UnknownJob):
        made.decode((2, 1, ddl.SerializeToString()))
    value = PrewriteValue(schema_version=3, mutations=[TableMutation(table_id=77)])
    dml = Binlog(start_ts=3, commit_ts=4, prewrite_value=value.SerializeToString())
    with pytest.raises(UnknownTable):
        made.decode((4, 3, dml.SerializeToString()))
    made.allowed_version = 2
    with pytest.raises(SchemaBehind):
        made.decode((4, 3, dml.SerializeToString()))
    assert made.dropped == {}


def test_a_truncated_row_stops_typed() -> None:
    made = decoder()
    for binlog in capture.pulled("set-a"):
        value = PrewriteValue.FromString(binlog.prewrite_value)
        if not binlog.ddl_job_id and any(m.inserted_rows for m in value.mutations):
            made.base_version = value.schema_version
            broken = value.mutations[0]
            broken.inserted_rows[0] = broken.inserted_rows[0][:-3]
            binlog = Binlog(commit_ts=5, start_ts=4, prewrite_value=value.SerializeToString())
            break
    with pytest.raises(Undecodable, match="transaction 5"):
        made.decode((5, 4, binlog.SerializeToString()))
    with pytest.raises(Undecodable, match="no binlog"):
        made.decode((6, 5, b"\xff\xff"))
