"""The loads of `bench apply` are what they say, and the rows they leave are what is checked."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.binlogs import prewrite_value
from bench.limits_apply import _statements
from bench.shapes import SHAPES, TRANSACTION, Shape, encoded, load
from tidelog.rows.table_codec import TableCodec
from tidelog_proto.binlog_pb2 import PrewriteValue

SHARE = 0.02


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.key)
def test_each_change_follows_the_one_before_of_its_row(shape: Shape) -> None:
    made = load(shape, 7, SHARE)
    at: dict[int, int | None] = {}
    for transaction in (*made.present, *made.measured):
        assert len(transaction) <= TRANSACTION
        for change in transaction:
            assert at.get(change.number) == change.before
            at[change.number] = change.after
    left = [version for version in at.values() if version is not None]
    assert (len(left), sum(left)) == (made.rows, made.versions)
    assert sum(map(len, made.present)) == shape.present
    assert sum(map(len, made.measured)) == int(shape.changes * SHARE)


def test_the_mix_and_the_hot_rows() -> None:
    mix, hot = (load(next(s for s in SHAPES if s.key == key), 7, SHARE) for key in ("mix", "hot"))
    ops = Counter(change.op for transaction in mix.measured for change in transaction)
    total = ops.total()
    assert 0.45 < ops["u"] / total < 0.55
    assert 0.2 < ops["c"] / total < 0.3
    hottest = Counter(change.number for transaction in hot.measured for change in transaction)
    assert hottest[0] > 20 * hottest[100]


def test_a_transaction_s_bytes_and_statements() -> None:
    made = load(SHAPES[1], 7, SHARE)
    first = made.measured[0]
    value = PrewriteValue.FromString(prewrite_value(2, 7, encoded(made.table, first)))
    rows = TableCodec(made.table.info).decode(value.mutations[0])
    for change, row in zip(first, rows, strict=True):
        images = [None if image is None else image["version"] for image in (row.before, row.after)]
        assert (row.op, images) == (change.op, [change.before, change.after])
    statements = _statements(made.table, made.measured[0] + made.measured[1])
    assert statements.count("BEGIN") == statements.count("COMMIT") == 2
    assert len(statements) == 2 * TRANSACTION + 4
