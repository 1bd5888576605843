"""Frames of any cut give the same transactions."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidelog.errors import Corrupt
from tidelog.ports import Disk
from tidelog.sim.world import World, run
from tidelog_drainer.merge.inbound import Inbound
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.merge.spool import DIRECTORY, KEPT_FREE, Spool, Spooled, SpoolFull
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame, PullRequest


def piece(txn: Txn, start: int, end: int) -> PulledTxn:
    commit_ts, start_ts, payload = txn
    assert isinstance(payload, bytes)
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
    txns: list[Txn] = [(10 * i, 10 * i - 1, payload) for i, payload in enumerate(payloads, 1)]
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


@pytest.mark.parametrize(
    "answer",
    [(7, 5, b"ABCDEF"), (7, 5, b"abcde"), (7, 5, b"abcdefgh"), (9, 8, b"another")],
    ids=["crc", "shorter", "longer", "transaction"],
)
def test_a_piece_that_continues_nothing_moves_no_position(answer: Txn) -> None:
    """Its frame says that all is there up to a transaction of which nothing is left here."""
    inbound = Inbound("p", 0)
    inbound.take(serve([(7, 5, b"abcdef")], inbound.ask("f", 1000, 10), 4))
    last = serve([answer], inbound.ask("f", 1000, 10), 10)
    assert last.resolved_ts == answer[0]
    with pytest.raises(Corrupt, match="does not follow"):
        inbound.take(last)
    inbound.reset()
    assert inbound.ask("f", 1000, 10) == PullRequest(feed="f", max_bytes=1000, wait_ms=10)
    assert inbound.take(serve([answer], inbound.ask("f", 1000, 10), 10))[0] == [answer]


def test_a_transaction_may_begin_anew_from_its_start() -> None:
    again: Txn = (7, 6, b"ABCDEF")
    inbound = Inbound("p", 0)
    inbound.take(serve([(7, 5, b"abcdef")], inbound.ask("f", 1000, 10), 4))
    asked = inbound.ask("f", 1000, 10)
    asked.offset = 0
    assert inbound.take(serve([again], asked, 10))[0] == [again]


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


ABOVE = 20


def whole(txns: list[Txn]) -> list[tuple[int, int, bytes]]:
    return [(c, s, p.read(0, len(p)) if isinstance(p, Spooled) else p) for c, s, p in txns]


async def pull(disk: Disk, txns: list[Txn], size: int, full: set[int], world: World) -> list[Txn]:
    """All of them through frames of `size` bytes; before the steps in `full` the disk is full."""
    spool = Spool(disk, ABOVE)
    await spool.clear()
    inbound = Inbound("p", 0, spool)
    got: list[Txn] = []
    for step in range(1000):
        if len(got) == len(txns):
            break
        world.node("drainer").disk.full = step in full
        before_ts = inbound.after_ts
        found, _ = inbound.take(serve(txns, inbound.ask("f", 1000, 10), size))
        try:
            await inbound.flush(before_ts)
        except SpoolFull:
            continue
        got += found
    assert spool.promised == 0
    assert not disk.listdir(DIRECTORY)
    return got


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=60), max_size=8),
    st.integers(1, 50),
    st.sets(st.integers(0, 40), max_size=6),
)
@example([b"whole in the frame that fails", bytes(30)], 40, {0})
def test_large_ones_come_by_files_whatever_room_there_is(
    payloads: list[bytes], size: int, full: set[int]
) -> None:
    txns: list[Txn] = [(10 * i, 10 * i - 1, payload) for i, payload in enumerate(payloads, 1)]

    async def main(world: World) -> None:
        got = await pull(world.ports("drainer").disk, txns, size, full, world)
        assert whole(got) == txns
        for _, _, payload in got:
            cut = len(payload) > size
            assert isinstance(payload, Spooled) >= (cut and len(payload) > ABOVE)

    run(main, 1)


def test_the_first_has_the_room_and_the_second_waits() -> None:
    txn: Txn = (10, 9, bytes(100))

    async def main(world: World) -> None:
        spool = Spool(world.ports("drainer").disk, ABOVE)
        await spool.clear()
        world.node("drainer").disk.faults.capacity = KEPT_FREE + 130
        first, second = Inbound("p1", 0, spool), Inbound("p2", 0, spool)
        for inbound in (first, second):
            inbound.take(serve([txn], inbound.ask("f", 1000, 10), 60))
        await first.flush(0)
        with pytest.raises(SpoolFull, match="transaction 10 of 100 bytes"):
            await second.flush(0)
        assert second.ask("f", 1000, 10).offset == 0
        ((_, _, payload),), _ = first.take(serve([txn], first.ask("f", 1000, 10), 60))
        await first.flush(0)
        assert isinstance(payload, Spooled)
        assert payload.read(0, 100) == txn[2]
        assert spool.promised == 0

    run(main, 1)
