"""What the bench writes must be what a TiDB writes: decoded again, it is the same rows."""

from typing import Any

from bench.backlog import GROUP, few_rows, many_rows
from bench.binlogs import (
    BATCH_BYTES,
    Timestamps,
    batches,
    commit,
    padded_value,
    prewrite,
    prewrite_value,
)
from bench.tables import BenchTable, values
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite, PrewriteValue
from tidelog_proto.transport_pb2 import WriteBatch


def decoded(table: BenchTable, payload: bytes) -> list[Any]:
    value = PrewriteValue.FromString(Binlog.FromString(payload).prewrite_value)
    assert [m.table_id for m in value.mutations] == [table.info.id]
    return table.codec.decode(value.mutations[0])


def test_rows_come_back_from_their_bytes() -> None:
    for columns in (2, 6):
        table = BenchTable(100, columns)
        assert len(table.row(5)) == columns
        changes = [("c", table.insert(7)), ("u", table.update(3, 1))]
        insert, update = decoded(table, prewrite(9, prewrite_value(2, 100, changes)))
        assert (insert.op, insert.after) == ("c", table.row(7))
        assert (update.op, update.before, update.after) == ("u", table.row(3), table.row(3, 1))


def test_a_prewrite_is_exactly_as_large_as_asked() -> None:
    timestamps = Timestamps(1_790_000_000_000)
    value = padded_value(256, timestamps.next())
    payload = prewrite(timestamps.next(), value)
    assert len(payload) == 256
    assert Binlog.FromString(payload).tp == Prewrite


def test_a_commit_names_its_prewrite() -> None:
    timestamps = Timestamps(1_790_000_000_000)
    start_ts, commit_ts = timestamps.next(), timestamps.next()
    binlog = Binlog.FromString(commit(start_ts, commit_ts))
    assert (binlog.tp, binlog.start_ts, binlog.commit_ts) == (Commit, start_ts, commit_ts)
    assert commit_ts > start_ts


def test_batches_keep_order_and_stay_below_the_bus_limit() -> None:
    payloads = [bytes([n % 251]) * (1 + n * 997 % 60_000) for n in range(60)]
    bodies = list(batches(7, payloads))
    parsed = [WriteBatch.FromString(body) for body in bodies]
    assert [p for batch in parsed for p in batch.payloads] == payloads
    assert {batch.cluster_id for batch in parsed} == {7}
    assert max(map(len, bodies)) < BATCH_BYTES + 60_000
    assert len(bodies) > 1
    assert list(batches(7, [])) == []


def test_an_update_is_always_of_a_row_from_an_earlier_group() -> None:
    table = BenchTable(100, 6)
    inserted: list[Any] = []
    updated: list[Any] = []
    for number, changes in enumerate(few_rows(table, 3 * GROUP)):
        for change in decoded(table, prewrite(1, prewrite_value(1, 100, changes))):
            if change.op == "c":
                inserted.append(change.after["id"])
            else:
                updated.append(change.after["id"])
                assert change.after["id"] < number // GROUP * GROUP
                assert change.after["version"] == 1
    assert inserted == list(range(3 * GROUP))
    assert len(updated) == len(set(updated)) == GROUP


def test_large_transactions_insert_consecutive_rows() -> None:
    table = BenchTable(100, 6)
    found = [len(changes) for changes in many_rows(table, 3, 100)]
    assert found == [100, 100, 100]


def test_a_values_list_has_quotes_around_text_only() -> None:
    assert values({"id": 1, "note": "x y"}) == "(1,'x y')"
