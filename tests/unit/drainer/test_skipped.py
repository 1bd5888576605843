"""The record of what a writer skipped, from a Pump's transaction to a reader's marker."""

from __future__ import annotations

import msgspec
import pytest

from tidelog.change_reader import Change, ChangeAssembler
from tidelog.decode.decoder import Decoder
from tidelog.decode.errors import Undecodable
from tidelog.decode.transactions import RowTxn
from tidelog.ports import Message
from tidelog.schema.tracker import SchemaTracker
from tidelog.skipped import KEY, Skipped, from_key, joined, to_key
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.publish.batcher import MARKER_BYTES, Batch, Batcher
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation

RECORD = Skipped("shop", "NoPump: none is online", 20, 90, 7, 1)


def decoder() -> Decoder:
    return Decoder(DrainerConfig(), SchemaTracker(), lambda _: "")


def txn(prewrite_key: bytes, commit_ts: int = 101) -> tuple[int, int, bytes]:
    binlog = Binlog(start_ts=commit_ts - 1, commit_ts=commit_ts, prewrite_key=prewrite_key)
    return commit_ts, commit_ts - 1, binlog.SerializeToString()


def read(batch: Batch, assembler: ChangeAssembler) -> list[Change]:
    messages = [out for chunk in batch.chunks for out in chunk]
    return assembler.feed([Message(m.subject, m.data, m.headers, 1) for m in messages])


def test_a_reader_meets_it_in_its_place_even_alone_in_a_batch() -> None:
    decoded = decoder().decode(txn(to_key(RECORD)))
    assert isinstance(decoded, RowTxn)
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=1 << 20)
    assembler = ChangeAssembler("main", 50)
    assert batcher.takes(decoded)
    batcher.add(decoded)
    (change,) = read(batcher.finish(50, 101), assembler)
    assert (change.commit_ts, change.rows, change.ddls) == (101, [], [])
    (marked,) = change.txns
    assert (marked.commit_ts, marked.start_ts, marked.rows) == (101, 100, 0)
    assert marked.skipped == RECORD
    assert assembler.position == 101


def test_what_an_incomplete_attempt_left_does_not_get_into_it() -> None:
    assembler = ChangeAssembler("main", 50)
    headers = {"Tidelog-Attempt": "0:d-9", "Tidelog-Index": "0"}
    assert assembler.feed([Message("changes.main.row.a.b", b"{}", headers, 1)]) == []
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=1 << 20)
    decoded = decoder().decode(txn(to_key(RECORD)))
    assert isinstance(decoded, RowTxn)
    batcher.add(decoded)
    (change,) = read(batcher.finish(50, 101), assembler)
    assert change.rows == []


def test_other_markers_are_as_before() -> None:
    """No key without a record: what applications parse has not changed."""
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=1 << 20)
    batcher.add(RowTxn(101, 100, [], 0, 0))
    body = batcher.finish(50, 101).chunks[-1][-1].data
    assert msgspec.json.decode(body)["txns"] == [
        {"commit_ts": 101, "start_ts": 100, "rows": 0, "tables": {}}
    ]


def test_a_damaged_record_stops_the_feed() -> None:
    with pytest.raises(Undecodable, match="101"):
        decoder().decode(txn(KEY + b"{"))


def test_a_record_that_comes_with_rows_stops_the_feed_rather_than_lose_them() -> None:
    value = PrewriteValue(schema_version=1, mutations=[TableMutation(table_id=1)])
    binlog = Binlog(
        start_ts=100,
        commit_ts=101,
        prewrite_key=to_key(RECORD),
        prewrite_value=value.SerializeToString(),
    )
    with pytest.raises(Undecodable, match="has rows itself"):
        decoder().decode((101, 100, binlog.SerializeToString()))


def test_a_rows_key_is_none() -> None:
    assert from_key(b"t\x80\x00\x00\x00\x00\x00\x00\x64_r") is None
    assert from_key(b"") is None


def test_two_records_join() -> None:
    later = Skipped("shop", "OutcomeUnknown: later", 95, 99, 2, at_least=True)
    assert joined(RECORD, later) == Skipped("shop", RECORD.reason, 20, 99, 9, 1, at_least=True)
    assert joined(None, later) == joined(later, None) == later
    assert joined(None, None) is None


def test_markers_of_long_records_stay_within_a_message() -> None:
    long = msgspec.structs.replace(RECORD, reason="x" * 4000)
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=64 << 20)
    for commit_ts in range(101, 1101):
        decoded = decoder().decode(txn(to_key(long), commit_ts))
        assert isinstance(decoded, RowTxn)
        if not batcher.takes(decoded):
            break
        batcher.add(decoded)
    (marker,) = (out for chunk in batcher.finish(50, commit_ts).chunks for out in chunk)
    assert len(marker.data) < 2 * MARKER_BYTES
