"""Recorded transactions through decoder and batcher: the golden ones once, the rest counted."""

from __future__ import annotations

import msgspec
import pytest

from tests.fixtures import capture
from tidelog import changes
from tidelog.change_reader import Change, ChangeAssembler
from tidelog.decode.decoder import Decoder
from tidelog.decode.errors import SchemaBehind, Undecodable
from tidelog.decode.transactions import DdlTxn, RowTxn
from tidelog.ports import Message
from tidelog.schema.errors import UnknownJob, UnknownTable
from tidelog.schema.tracker import SchemaTracker
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decode.envelopes import envelope_of
from tidelog_drainer.publish.batcher import Batch, Batcher
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation


def decoder(which: capture.Set | None = "set-a", **changed: object) -> Decoder:
    tracker = SchemaTracker()
    jobs = capture.ddl_history(which) if which else []
    tracker.add_jobs(jobs)
    queries = {job.id: job.query for job in jobs}
    config = DrainerConfig(**changed)  # type: ignore[arg-type]
    made = Decoder(config, tracker, lambda job_id: queries.get(job_id, ""), envelope_of(config))
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
        item = made.decode((binlog.commit_ts, binlog.start_ts, binlog.SerializeToString()))
        if item is None:
            continue
        if not batcher.takes(item):
            read(batcher.finish(prev, 0))
        if isinstance(item, DdlTxn):
            read(batcher.ddl(item, prev))
        elif item.ddls:
            read(batcher.early(item, prev))
        else:
            batcher.add(item)
    if not batcher.empty:
        read(batcher.finish(prev, 0))
    return found


def test_golden_once_the_rest_counted() -> None:
    made = decoder()
    found = publish("set-a", made)
    assert [txn.commit_ts for change in found for txn in change.txns] == sorted(
        txn.commit_ts for txn in capture.published()
    )
    texts = {ddl.commit_ts: ddl.query for change in found for ddl in change.ddls}
    assert texts == {t.commit_ts: t.ddl["SQL"] for t in capture.published() if t.ddl is not None}
    assert made.passed.dropped == {
        "nothing_left": 1,
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
    assert made.passed.dropped["early"] == 2
    assert made.passed.early == set()
    times = [txn.commit_ts for change in found for txn in change.txns]
    assert times == sorted(set(times))
    kinds = [ddl.kind for change in found for ddl in change.ddls]
    history = [job for job in capture.ddl_history("set-x") if job.type == 61]
    assert kinds.count("multi_schema_change") == len(history)


def test_early_ddls_share_the_batch_and_the_commit_ts_of_the_rows_that_need_them() -> None:
    found = publish("set-x", decoder("set-x"))
    upstream = {b.commit_ts for b in capture.pulled("set-x")}
    early = [change for change in found if any(ddl.early for ddl in change.ddls)]
    assert len(early) == 2
    for change in early:
        (marked,) = change.txns
        assert marked.commit_ts in upstream
        assert marked.rows == sum(len(rows.events) for rows in change.rows) > 0
        assert all(ddl.early and ddl.commit_ts == marked.commit_ts for ddl in change.ddls)
        versions = {rows.schema_version for rows in change.rows}
        assert max(versions) >= max(ddl.schema_version for ddl in change.ddls)
    others = [change for change in found if change.ddls and change not in early]
    assert all(len(change.ddls) == 1 and not change.rows for change in others)


def test_a_ddl_found_early_survives_a_question_to_the_history() -> None:
    """The transaction's second table is unknown: it is decoded again, with the DDL in front."""
    made = decoder("set-x")
    for binlog in capture.pulled("set-x"):
        if binlog.start_ts == binlog.commit_ts:
            continue
        state = dict(made.passed._known), set(made.passed.early)
        item = made.decode((binlog.commit_ts, binlog.start_ts, binlog.SerializeToString()))
        if isinstance(item, RowTxn) and item.ddls:
            break
    assert isinstance(item, RowTxn)
    made.passed._known, made.passed.early = state
    made.schema_changed()
    value = PrewriteValue.FromString(binlog.prewrite_value)
    asked = PrewriteValue.FromString(binlog.prewrite_value)
    asked.mutations.append(TableMutation(table_id=987_654))
    whole = Binlog(commit_ts=binlog.commit_ts, prewrite_value=value.SerializeToString())
    unknown = Binlog(commit_ts=binlog.commit_ts, prewrite_value=asked.SerializeToString())
    with pytest.raises(UnknownTable):
        made.decode((binlog.commit_ts, binlog.start_ts, unknown.SerializeToString()))
    again = made.decode((binlog.commit_ts, binlog.start_ts, whole.SerializeToString()))
    assert isinstance(again, RowTxn)
    assert again.ddls == item.ddls
    assert [one.events for one in again.tables] == [one.events for one in item.tables]


@pytest.mark.parametrize("most", [1000, 3])
def test_an_abandoned_attempt_leaves_no_early_ddl(most: int) -> None:
    """DDLs stand first where the batch is one chunk, else beside the marker: never without it."""
    made = decoder("set-x")
    for binlog in capture.pulled("set-x"):
        if binlog.start_ts == binlog.commit_ts:
            continue
        item = made.decode((binlog.commit_ts, binlog.start_ts, binlog.SerializeToString()))
        if isinstance(item, RowTxn) and item.ddls:
            break
    assert isinstance(item, RowTxn)
    table = item.tables[0]
    wide = [bytes([*event[:-1], *b" " * changes.MESSAGE_BYTES, 125]) for event in table.events[:1]]
    item.tables = [table, *(msgspec.structs.replace(table, events=wide) for _ in range(2))]
    item.rows = sum(len(one.events) for one in item.tables)
    batch = Batcher("main", "1:d", max_messages=most, max_bytes=4 << 20).early(item, 5)
    kinds = [[out.subject.split(".")[2] for out in chunk] for chunk in batch.chunks]
    if most == 1000:
        (only,) = kinds
        assert only[: len(item.ddls)] == ["ddl"] * len(item.ddls)
    else:
        assert len(kinds) > 1
        assert kinds[-1] == ["ddl"] * len(item.ddls) + ["txn"]
        assert not any("ddl" in chunk for chunk in kinds[:-1])
    versions = ",".join(str(ddl.message.schema_version) for ddl in item.ddls)
    headers = [out.headers for chunk in batch.chunks for out in chunk if ".ddl." in out.subject]
    assert headers[-1][changes.H_EARLY] == versions
    flat = [out for chunk in batch.chunks for out in chunk]
    messages = [Message(out.subject, out.data, out.headers, n) for n, out in enumerate(flat, 1)]
    (change,) = ChangeAssembler("main", 5).feed(messages)
    assert change.ddls == [ddl.message for ddl in item.ddls]
    assert sum(len(rows.events) for rows in change.rows) == item.rows


def test_an_unknown_kind_stops_unless_told_otherwise() -> None:
    with pytest.raises(Undecodable, match=r"tidelog ddl policy main create_table=skip"):
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
    assert made.passed.dropped == {}


def test_a_truncated_row_stops_typed() -> None:
    made = decoder()
    for binlog in capture.pulled("set-a"):
        value = PrewriteValue.FromString(binlog.prewrite_value)
        if not binlog.ddl_job_id and any(m.inserted_rows for m in value.mutations):
            made.passed.base_version = value.schema_version
            broken = value.mutations[0]
            broken.inserted_rows[0] = broken.inserted_rows[0][:-3]
            binlog = Binlog(commit_ts=5, start_ts=4, prewrite_value=value.SerializeToString())
            break
    with pytest.raises(Undecodable, match="transaction 5"):
        made.decode((5, 4, binlog.SerializeToString()))
    with pytest.raises(Undecodable, match="no binlog"):
        made.decode((6, 5, b"\xff\xff"))
