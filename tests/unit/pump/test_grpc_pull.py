"""PullBinlogs answers as bytes: what protobuf would have made of them, and what is too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import MessageTooLarge, Overloaded
from tidelog.payload import commit_head
from tidelog.record import MAX_PAYLOAD
from tidelog.timestamps import TS_MAX
from tidelog_proto.pump_pb2 import Entity, Meta, PullBinlogResp
from tidelog_pump.edges.grpc_pull import LARGE_BYTES, SENDING_BYTES, PullStreams, around
from tidelog_pump.log.place import Place
from tidelog_pump.pull.scan import Committed, fitting


def of(length: int, start_ts: int = 5, commit_ts: int = 9, body: int = 4) -> Committed:
    place = Place(0, 0, length, body)
    return Committed(commit_ts, start_ts, commit_head(start_ts, commit_ts), place)


def streams() -> PullStreams:
    nothing = object()
    return PullStreams(nothing, nothing, nothing, nothing, nothing, lambda: True)  # type: ignore[arg-type]


@given(st.integers(1, TS_MAX - 1), st.integers(1, 1 << 20), st.sampled_from([0, 1, 100, 70_000]))
def test_the_bytes_are_protobufs(start_ts: int, more: int, size: int) -> None:
    commit_ts = min(start_ts + more, TS_MAX)
    committed = of(size + 4, start_ts, commit_ts)
    binlog = committed.head + bytes(size)
    assert len(binlog) == committed.total
    lead, tail = around(committed)
    entity = Entity(payload=binlog, meta=Meta(startTs=start_ts, commitTs=commit_ts))
    assert lead + binlog + tail == PullBinlogResp(entity=entity).SerializeToString()


def test_what_no_grpc_message_holds_is_refused_and_the_largest_is_not() -> None:
    pulls = streams()
    committed = of(1 << 30)
    lead, tail = around(committed)
    over = MAX_PAYLOAD - len(lead) - len(tail) - committed.total
    largest = of((1 << 30) + over)
    assert sum(map(len, around(largest))) + largest.total == MAX_PAYLOAD
    assert pulls._admit(largest) == MAX_PAYLOAD
    with pytest.raises(MessageTooLarge, match="NATS"):
        streams()._admit(of((1 << 30) + over + 1))


def test_large_ones_under_way_are_bounded_by_their_sum_or_one_alone() -> None:
    pulls = streams()
    assert fitting([of(LARGE_BYTES - 100)], 0, LARGE_BYTES) == [of(LARGE_BYTES - 100)]
    assert fitting([of(LARGE_BYTES)], 0, LARGE_BYTES) == []
    first = pulls._admit(of(SENDING_BYTES // 2))
    assert first == pulls.sending_bytes > SENDING_BYTES // 2
    with pytest.raises(Overloaded):
        pulls._admit(of(SENDING_BYTES // 2))
    assert pulls._admit(of(SENDING_BYTES // 4)) > 0
    assert streams()._admit(of(MAX_PAYLOAD // 2)) > SENDING_BYTES
