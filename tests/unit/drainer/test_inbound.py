"""Frames of any cut give the same transactions."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import Corrupt
from tidelog_drainer.inbound import Inbound
from tidelog_drainer.merger import Txn
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame, PullRequest


def piece(txn: Txn, start: int, end: int) -> PulledTxn:
    commit_ts, start_ts, payload = txn
    return PulledTxn(
        commit_ts=commit_ts,
        start_ts=start_ts,
        payload=payload[start:end],
        offset=start,
        total=len(payload),
        crc=crc32c(payload),
    )


def serve(txns: list[Txn], asked: PullRequest, size: int) -> PullFrame:
    """What a Pump answers with frames of `size` bytes."""
    frame = PullFrame()
    whole = asked.after_ts
    for txn in txns:
        if txn[0] <= asked.after_ts:
            continue
        start = asked.offset if txn[0] == asked.commit_ts else 0
        end = min(len(txn[2]), start + size)
        frame.txns.append(piece(txn, start, end))
        size -= end - start
        if end < len(txn[2]):
            break
        whole = txn[0]
        if size <= 0:
            break
    frame.resolved_ts = whole
    return frame


@given(
    st.lists(st.binary(max_size=40), max_size=12),
    st.integers(1, 30),
    st.sets(st.integers(0, 40), max_size=6),
)
def test_any_cut(payloads: list[bytes], size: int, lost: set[int]) -> None:
    txns = [(10 * i, 10 * i - 1, payload) for i, payload in enumerate(payloads, 1)]
    inbound = Inbound("p", 0)
    got: list[Txn] = []
    for step in range(1000):
        if len(got) == len(txns):
            break
        asked = inbound.ask("f", 1000, 10)
        if step in lost:
            inbound.reset()  # the Pump answered with an error
            continue
        found, bytes_ = inbound.take(serve(txns, asked, size))
        assert bytes_ == sum(len(txn[2]) for txn in found)
        got += found
    assert got == txns


def test_a_wrong_crc_is_corruption() -> None:
    bad = piece((5, 4, b"abc"), 0, 3)
    bad.crc ^= 1
    with pytest.raises(Corrupt):
        Inbound("p", 0).take(PullFrame(resolved_ts=5, txns=[bad]))


@given(st.binary(min_size=1, max_size=60), st.integers(1, 30), st.data())
def test_a_bit_flipped_under_way_is_corruption_and_then_nothing_is_missing(
    payload: bytes, size: int, data: st.DataObject
) -> None:
    txn = (7, 5, payload)
    bit = data.draw(st.integers(0, len(payload) * 8 - 1))
    inbound = Inbound("p", 0)
    got: list[Txn] = []
    corrupt = 0
    while not got:
        frame = serve([txn], inbound.ask("f", 1000, 10), size)
        cut = frame.txns[0]
        at = bit // 8 - cut.offset
        if not corrupt and 0 <= at < len(cut.payload):
            flipped = bytearray(cut.payload)
            flipped[at] ^= 1 << bit % 8
            cut.payload = bytes(flipped)
        try:
            got, _ = inbound.take(frame)
        except Corrupt:
            corrupt += 1
            inbound.reset()
    assert (got, corrupt) == ([txn], 1)
