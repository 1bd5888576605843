"""A large transaction in parts says to a reader what it says as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.fixtures import capture
from tests.unit.decode import test_filter_decoding as filters
from tests.unit.decode.test_survey import Held, surveyed
from tests.unit.decode.upstream import Upstream
from tests.unit.drainer.test_decoder import decoder, publish
from tidelog import changes
from tidelog.change_reader import Change, ChangeAssembler
from tidelog.changes import Event
from tidelog.decode import survey as module
from tidelog.decode.decoder import Decoder
from tidelog.decode.errors import SchemaBehind, Undecodable
from tidelog.decode.transactions import DdlTxn, LargeTxn, RowTxn
from tidelog.ports import Message, Outgoing
from tidelog.skipped import KEY as SKIPPED
from tidelog_drainer.publish import batcher as batcher_module
from tidelog_drainer.publish.parts import PartsBatcher
from tidelog_proto.binlog_pb2 import Binlog, Insert, PrewriteValue, TableMutation

MESSAGES = 3
BYTES = 2000


def decode(made: Decoder, binlog: Binlog) -> LargeTxn | RowTxn | DdlTxn | None:
    """As if it were too large."""
    payload = binlog.SerializeToString()
    return made.large(binlog.commit_ts, binlog.start_ts, Held(payload), surveyed(payload))


def in_chunks(batcher: PartsBatcher, txn: LargeTxn, prev: int) -> list[list[Outgoing]]:
    batcher.begin(txn)
    chunks: list[list[Outgoing]] = []
    for rows in txn.slices():
        if rows is not None:
            batcher.add_part(rows)
        while chunk := batcher.full_chunk():
            assert len(chunk) <= MESSAGES
            assert len(chunk) == 1 or sum(len(one.data) for one in chunk) <= BYTES
            chunks.append(chunk)
        assert batcher.under_way["commit_ts"] == txn.commit_ts
        assert len(batcher._messages) <= MESSAGES, "more than a chunk is held"
    batch = batcher.end(prev)
    assert batcher.empty
    assert not batcher.under_way
    return chunks + (batch.chunks if batch is not None else [])


def publish_large(which: capture.Set, made: Decoder) -> tuple[list[Change], int]:
    """`publish`, with every transaction of rows in parts; and the most chunks of one."""
    batcher = PartsBatcher("main", "1:d", max_messages=MESSAGES, max_bytes=BYTES)
    assembler = ChangeAssembler("main", 0)
    found: list[Change] = []
    most = sequence = prev = 0
    for binlog in capture.pulled(which):
        if binlog.start_ts == binlog.commit_ts:
            continue
        txn = decode(made, binlog)
        if isinstance(txn, DdlTxn):
            chunks = batcher.ddl(txn, prev).chunks
        elif isinstance(txn, LargeTxn):
            chunks = in_chunks(batcher, txn, prev)
        else:
            assert txn is None
            continue
        most = max(most, len(chunks))
        messages = [one for chunk in chunks for one in chunk]
        for index, out in enumerate(messages):
            sequence += 1
            assert out.headers[changes.H_INDEX] == str(index)
            found += assembler.feed([Message(out.subject, out.data, out.headers, sequence)])
        if messages:
            prev = binlog.commit_ts
    return found, most


def contents(found: list[Change]) -> list[tuple[object, ...]]:
    """By transaction: its mark, and its events by table and version."""
    out: list[tuple[object, ...]] = []
    for change in found:
        for txn in change.txns:
            tables: dict[tuple[str, str, int], list[Event]] = {}
            for rows in change.rows:
                events = [one for one in rows.events if one.commit_ts == txn.commit_ts]
                if events:
                    tables.setdefault((rows.db, rows.table, rows.schema_version), []).extend(events)
            ddls = [ddl for ddl in change.ddls if ddl.commit_ts == txn.commit_ts]
            out.append((txn.commit_ts, txn.start_ts, txn.rows, txn.tables, tables, ddls))
    return out


def test_a_recording_in_parts_is_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_ROWS", 2)
    whole, parted = decoder("set-x"), decoder("set-x")
    found, most = publish_large("set-x", parted)
    assert contents(found) == contents(publish("set-x", whole))
    assert parted.passed.dropped == whole.passed.dropped
    assert most >= 2


def test_a_damaged_row_is_named_by_its_place_in_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_ROWS", 2)
    made = decoder()
    for binlog in capture.pulled("set-a"):
        value = PrewriteValue.FromString(binlog.prewrite_value)
        if not binlog.ddl_job_id and any(len(m.inserted_rows) > 5 for m in value.mutations):
            break
    mutation = next(m for m in value.mutations if len(m.inserted_rows) > 5)
    mutation.inserted_rows[4] = b"\xff"
    made.passed.base_version = value.schema_version
    binlog = Binlog(commit_ts=9, start_ts=8, prewrite_value=value.SerializeToString())
    txn = decode(made, binlog)
    assert isinstance(txn, LargeTxn)
    with pytest.raises(Undecodable, match=r"transaction 9: .*inserted_rows\[4\]"):
        list(txn.slices())
    assert made.passed.dropped == {}


def test_what_the_history_lacks_is_asked_for_before_anything_is_read() -> None:
    made = decoder()
    made.allowed_version = 0
    binlog = next(b for b in capture.pulled("set-a") if b.prewrite_value)
    with pytest.raises(SchemaBehind):
        decode(made, binlog)


def commit_large(up: Upstream, *changes: tuple[str, str, Mapping[str, int]]) -> RowTxn | None:
    """Upstream.commit of what is too large."""
    commit_ts, start_ts, payload = up.txn(*changes)
    assert isinstance(payload, bytes)
    txn = up.decoder.large(commit_ts, start_ts, Held(payload), surveyed(payload))
    if txn is None:
        return None
    assert isinstance(txn, LargeTxn)
    tables = [rows for rows in txn.slices() if rows is not None]
    count = sum(len(rows.events) for rows in tables)
    if not count and not txn.ddls:
        return None
    return RowTxn(commit_ts, start_ts, tables, count, 0, txn.ddls)


@pytest.mark.parametrize(
    "case",
    [
        filters.test_mutations_of_filtered_tables_are_dropped_the_others_stay_one_transaction,
        filters.test_an_ignored_transaction_is_dropped_whatever_it_holds,
        filters.test_event_filters_by_kind_of_row,
        filters.test_event_filters_of_ddls_and_rows_behind_them,
        lambda: filters.test_what_our_channel_wrote_is_dropped_whole(first=True),
        lambda: filters.test_what_our_channel_wrote_is_dropped_whole(first=False),
        filters.test_marks_of_other_channels_pass_and_the_mark_table_is_not_published,
        filters.test_without_loopback_control_the_mark_table_is_a_table,
    ],
)
def test_filters_are_those_of_small_ones(
    case: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Upstream, "commit", commit_large)
    case()


def test_never_more_than_a_chunk_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_ROWS", 2)
    monkeypatch.setattr(batcher_module, "MESSAGE_BYTES", 150)
    up = Upstream()
    up.create("app", "t")
    commit_ts, start_ts, payload = up.txn(
        *(("app.t", "insert", {"id": number, "n": number}) for number in range(60))
    )
    assert isinstance(payload, bytes)
    txn = up.decoder.large(commit_ts, start_ts, Held(payload), surveyed(payload))
    assert isinstance(txn, LargeTxn)
    batcher = PartsBatcher("main", "1:d", max_messages=MESSAGES, max_bytes=BYTES)
    assert len(in_chunks(batcher, txn, 1)) > 10


def test_of_a_filtered_table_no_row_is_read() -> None:
    up = Upstream(replicate_do_db=("app",))
    up.create("app", "t")
    up.create("other", "x")
    commit_ts, start_ts, payload = up.txn(("other.x", "insert", {"id": 2, "n": 2}))
    assert isinstance(payload, bytes)
    damaged = payload.replace(b"\x08\x04\x08\x04\x08\x04", b"\xff" * 6)
    assert damaged != payload
    assert up.decoder.large(commit_ts, start_ts, Held(damaged), surveyed(damaged)) is None


def cut_row(mutation: TableMutation) -> None:
    for rows in (mutation.inserted_rows, mutation.updated_rows):
        if rows:
            rows[-1] = rows[-1][:-1]


def one_too_many(mutation: TableMutation) -> None:
    mutation.sequence.append(Insert)


def damaged(payload: object, damage: Callable[[TableMutation], None]) -> Binlog:
    """Its first mutation is."""
    assert isinstance(payload, bytes)
    binlog = Binlog.FromString(payload)
    value = PrewriteValue.FromString(binlog.prewrite_value)
    damage(value.mutations[0])
    binlog.prewrite_value = value.SerializeToString()
    return binlog


DAMAGE: dict[str, tuple[Callable[[TableMutation], None], str]] = {
    "row": (cut_row, r"updated_rows\[0\]"),
    "sequence": (one_too_many, "the sequence names another count"),
}


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_mark_stops_the_feed(what: str, large: bool) -> None:
    """Whether our own channel wrote it is not known, so it is neither dropped nor published."""
    damage, says = DAMAGE[what]
    up = filters.looping()
    commit_ts, start_ts, payload = up.txn(filters.mark(7), ("app.t", "insert", filters.ONE))
    binlog = damaged(payload, damage)
    small = commit_ts, start_ts, binlog.SerializeToString()
    with pytest.raises(Undecodable, match=rf"transaction {commit_ts}: .*{says}"):
        _ = decode(up.decoder, binlog) if large else up.decoder.decode(small)
    assert up.dropped == {}


def test_rows_whose_sequence_names_another_count_stop_the_feed() -> None:
    up = Upstream()
    up.create("app", "t")
    commit_ts, _, payload = up.txn(("app.t", "insert", {"id": 1, "n": 1}))
    txn = decode(up.decoder, damaged(payload, one_too_many))
    assert isinstance(txn, LargeTxn)
    with pytest.raises(Undecodable, match=rf"transaction {commit_ts}: .*names another count"):
        list(txn.slices())


def test_a_record_of_what_was_skipped_that_is_none_stops_the_feed_however_large() -> None:
    up = Upstream()
    up.create("app", "t")
    _, _, payload = up.txn(("app.t", "insert", {"id": 1, "n": 1}))
    assert isinstance(payload, bytes)
    binlog = Binlog.FromString(payload)
    binlog.prewrite_key = SKIPPED + b"{"
    with pytest.raises(Undecodable, match="its record of what was skipped is none"):
        decode(up.decoder, binlog)
