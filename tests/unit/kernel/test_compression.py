"""Compressed frames: what was packed comes out, and nothing else does."""

from __future__ import annotations

import gzip

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from tidelog import compression
from tidelog.compression import GZIP, MAX_BYTES, NONE, ZSTD, pack, unpack
from tidelog.errors import Corrupt, TidelogError, UnparsablePayload
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame

WAYS = (NONE, ZSTD, GZIP, "", "snappy")


def frame(payload: bytes) -> PullFrame:
    txn = PulledTxn(commit_ts=5, start_ts=3, payload=payload, total=len(payload), crc=1)
    return PullFrame(resolved_ts=7, txns=[txn], number=9, high_ts=8)


@given(st.binary(max_size=3000), st.sampled_from(WAYS), st.integers(1, 20))
def test_what_was_packed_comes_out(content: bytes, way: str, times: int) -> None:
    sent = frame(content * times)
    data = pack(sent, way)
    assert unpack(data) == sent
    assert len(data) <= len(sent.SerializeToString())


@pytest.mark.parametrize("way", [ZSTD, GZIP])
def test_rows_get_smaller(way: str) -> None:
    sent = frame(b"".join(b"row %06d of the table" % n for n in range(1000)))
    assert len(pack(sent, way)) < len(pack(sent, NONE)) / 3


@pytest.mark.parametrize("way", [ZSTD, GZIP])
def test_a_flipped_bit_never_makes_another_frame(way: str) -> None:
    sent = frame(b"".join(b"row %d" % n for n in range(300)))
    packed = PullFrame.FromString(pack(sent, way)).packed
    for position in range(len(packed) * 8):
        flipped = bytearray(packed)
        flipped[position // 8] ^= 1 << position % 8
        try:
            got = unpack(PullFrame(compression=way, packed=bytes(flipped)).SerializeToString())
        except TidelogError as error:
            assert isinstance(error, Corrupt | UnparsablePayload)  # noqa: PT017
        else:
            assert got == sent, position


@pytest.mark.parametrize("way", [ZSTD, GZIP])
def test_what_opens_to_too_much_is_refused(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = bytes(MAX_BYTES + 1)
    packed = zstd.compress(bomb) if way == ZSTD else gzip.compress(bomb)
    data = PullFrame(compression=way, packed=packed).SerializeToString()
    assert len(data) < 20_000
    with pytest.raises(Corrupt, match="does not end"):
        unpack(data)
    monkeypatch.setattr(compression, "MAX_BYTES", 100)
    with pytest.raises(Corrupt, match="does not end"):
        unpack(pack(frame(bytes(5000)), way))


def test_a_way_nobody_knows_and_a_tail_are_refused() -> None:
    with pytest.raises(UnparsablePayload, match="snappy"):
        unpack(PullFrame(compression="snappy", packed=b"x").SerializeToString())
    packed = PullFrame.FromString(pack(frame(bytes(5000)), GZIP)).packed + b"more"
    with pytest.raises(Corrupt):
        unpack(PullFrame(compression=GZIP, packed=packed).SerializeToString())
    with pytest.raises(UnparsablePayload):
        unpack(b"\xff")


@pytest.mark.parametrize("way", [ZSTD, GZIP])
def test_what_was_never_packed_is_corrupt(way: str) -> None:
    claimed = PullFrame(compression=way, packed=b"neither the one nor the other")
    with pytest.raises(Corrupt, match="can't be opened"):
        unpack(claimed.SerializeToString())
