"""Reading the stream (I5): any cut, any abandoned attempt, any refilled tail gives each transaction
once; a gap is seen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog import changes
from tidelog.change_reader import ChangeAssembler, Gap
from tidelog.decode.routes import Route
from tidelog.decode.transactions import RowTxn, TableRows
from tidelog.ports import Message, Outgoing
from tidelog.schema.history import TableAt
from tidelog.schema.model import Name, TableInfo
from tidelog_drainer.publish.batcher import Batcher

FEED = "f"
TABLES = [
    Route(FEED, TableAt("app", name, 7, TableInfo(id=i, name=Name(name, name))))
    for i, name in enumerate(("a", "b.c"), 1)
]


def row(ts: int, at: int, width: int) -> bytes:
    text = "x" * width
    return b'{"op":"c","commit_ts":%d,"after":{"n":%d,"t":"%s"}}' % (ts, at, text.encode())


def txn(ts: int, shape: list[tuple[int, int]]) -> RowTxn:
    """`shape`: per mutation (rows, width of a row)."""
    tables = []
    for at, (count, width) in enumerate(shape):
        events = [row(ts, i, width) for i in range(count)]
        tables.append(TableRows(TABLES[at % 2], events, (count, 0, 0)))
    rows = sum(len(table.events) for table in tables)
    return RowTxn(ts, ts - 1, tables, rows, sum(len(e) for t in tables for e in t.events))


def publish(
    txns: list[RowTxn], cuts: set[int], epoch: str, prev: int, abandoned: set[int], limit: int
) -> list[Outgoing]:
    """The messages of a Drainer that closes a batch after the transactions at `cuts`, and that
    dies after the first chunk of the batches at `abandoned`, publishing them again."""
    out: list[Outgoing] = []
    batcher = Batcher(FEED, epoch, max_messages=limit, max_bytes=4 << 20)

    def close() -> None:
        nonlocal prev
        batch = batcher.finish(prev, 0)
        assert all(len(chunk) <= limit for chunk in batch.chunks)
        if len(out) in abandoned and len(batch.chunks) > 1:
            for message in batch.chunks[0]:
                headers = dict(message.headers) | {changes.H_ATTEMPT: "dead"}
                out.append(Outgoing(message.subject, message.data, headers))
        out.extend(message for chunk in batch.chunks for message in chunk)
        prev = batch.last_ts

    for at, one in enumerate(txns):
        if not batcher.takes(one):
            close()
        batcher.add(one)
        if at in cuts:
            close()
            out.extend(batcher.watermark(one.commit_ts + 1, prev).chunks[0])
    if not batcher.empty:
        close()
    return out


def stored(out: list[Outgoing]) -> list[Message]:
    return [Message(o.subject, o.data, o.headers, i) for i, o in enumerate(out, 1)]


shapes = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from((1, 50, 90_000, 300_000))), min_size=1, max_size=2
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(shapes, min_size=1, max_size=8),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 40)),
    st.integers(0, 8),
    st.sampled_from((4, 1000)),
    st.integers(1, 9),
)
def test_each_transaction_once(
    all_shapes: list[list[tuple[int, int]]],
    cuts: set[int],
    cuts_again: set[int],
    abandoned: set[int],
    refill_from: int,
    limit: int,
    step: int,
) -> None:
    txns = [txn(10 * i, shape) for i, shape in enumerate(all_shapes, 1)]
    stream = stored(publish(txns, cuts, "1:a", 0, abandoned, limit))
    # The stream is lost after a part was read, and filled again from an earlier position.
    before = txns[: min(refill_from, len(txns))]
    prev = before[-2].commit_ts if len(before) > 1 else 0
    again = [one for one in txns if one.commit_ts > prev]
    refilled = stored(publish(again, cuts_again, "2:a", prev, abandoned, limit))

    assembler = ChangeAssembler(FEED, 0)
    found = []
    read = 0
    for at in range(0, len(stream), step):
        found += assembler.feed(stream[at : at + step])
        read = at
        if assembler.position is not None and before and assembler.position >= before[-1].commit_ts:
            break
    assembler.restart()
    for at in range(0, len(refilled), step):
        found += assembler.feed(refilled[at : at + step])
    assert read <= len(stream)
    marked = [one.commit_ts for change in found for one in change.txns]
    assert marked == [one.commit_ts for one in txns]
    got: dict[str, list[bytes]] = {}
    for change in found:
        assert change.commit_ts >= max([0, *(one.commit_ts for one in change.txns)])
        for rows in change.rows:
            table = got.setdefault(rows.table, [])
            table += [row(e.commit_ts, e.after["n"], len(e.after["t"])) for e in rows.events]  # type: ignore[index]
    want: dict[str, list[bytes]] = {}
    for one in txns:
        for table_rows in one.tables:
            want.setdefault(table_rows.route.table.name, []).extend(table_rows.events)
    assert got == want


def test_a_gap_is_seen() -> None:
    stream = stored(publish([txn(50, [(1, 1)])], set(), "1:a", 40, set(), 1000))
    for position in (0, 39):
        with pytest.raises(Gap) as caught:
            ChangeAssembler(FEED, position).feed(stream)
        assert (caught.value.position, caught.value.prev_commit_ts) == (position, 40)
    for position in (40, 49):
        assert ChangeAssembler(FEED, position).feed(stream)[0].commit_ts == 50
    assert ChangeAssembler(FEED, 50).feed(stream) == []
    assert ChangeAssembler(FEED, None).feed(stream)[0].commit_ts == 50


def test_a_batch_without_its_beginning_is_a_gap() -> None:
    stream = stored(publish([txn(50, [(1, 300_000)])], set(), "1:a", 0, set(), 1000))
    assert len(stream) > 2
    with pytest.raises(Gap):
        ChangeAssembler(FEED, 0).feed(stream[1:])
    late = ChangeAssembler(FEED, None)
    assert late.feed(stream[1:]) == []
    assert late.position == 50


def test_watermarks_move_the_position() -> None:
    batcher = Batcher(FEED, "1:a", max_messages=10, max_bytes=1 << 20)
    stream = stored(batcher.watermark(60, 40).chunks[0])
    assembler = ChangeAssembler(FEED, 45)
    assert [change.commit_ts for change in assembler.feed(stream)] == [60]
    assert assembler.feed(stream) == []
    assert assembler.skipped == 1
    with pytest.raises(Gap):
        ChangeAssembler(FEED, 39).feed(stream)
