"""What writers and Drainers send to a Pump, and what a Pump sends to them: protobuf, by gRPC and by
NATS."""

from __future__ import annotations

from functools import cache

from crc32c import crc32c

from tests.fixtures.capture import pulled, records
from tests.fuzz.surface import Surface
from tests.unit.drainer.test_any_bytes import (
    ALL_TYPES,
    COMMIT_TS,
    RECORDED,
    TYPED,
    as_debezium,
    decoded,
    golden,
    taken,
)
from tidelog import payload
from tidelog.compression import unpack
from tidelog.errors import TidelogError
from tidelog_drainer.merge.inbound import Inbound
from tidelog_drainer.merge.merger import Merger
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.pump_pb2 import WriteBinlogReq
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame
from tidelog_pump.edges.grpc_edge import parse_write

LARGEST_SEED = 8 << 10


@cache
def write_requests() -> list[bytes]:
    """Recorded ones of each type, small enough to change many of."""
    found = [
        WriteBinlogReq(clusterID=one.cluster_id, payload=one.payload).SerializeToString()
        for one in records("set-a")
        if len(one.payload) < LARGEST_SEED
    ]
    return found[:: max(1, len(found) // 300)]


def write(data: bytes) -> object:
    """As the gRPC edge: the request, then the binlog; its two readers must agree."""
    cluster_id, body = parse_write(data)
    facts = payload.classify(body)
    kind, start_ts, commit_ts = facts[:3]
    stored = bytes(facts.payload)
    assert payload.head(body) == payload.head(stored) == (kind, start_ts, commit_ts)
    assert payload._shallow(stored)[:3] == (kind, start_ts, commit_ts), "the shallow look differs"
    again = Binlog.FromString(stored)
    assert again.start_ts == start_ts
    return cluster_id, kind, start_ts, commit_ts, stored


def shallow(data: bytes) -> object:
    """As for requests above 64 KiB: the same request without building it."""
    cluster_id, body = payload.write_request(data)
    return cluster_id, tuple(payload._shallow(bytes(body))[:3])


def transaction(data: bytes) -> object:
    """As the Drainer decodes what the Pumps acked, for either envelope: recorded tables, and one of
    each type."""
    return [
        (decoded(which, data) is None, as_debezium(which, data)) for which in (RECORDED, ALL_TYPES)
    ]


def frame(data: bytes) -> object:
    """As a Drainer's cursor takes what answers its pull."""
    inbound, merger = Inbound("p", 10), Merger(10)
    merger.add("p")
    taken(lambda: unpack(data), inbound, merger)
    return None


def _frames() -> list[bytes]:
    whole = PullFrame(resolved_ts=COMMIT_TS)
    for number, one in enumerate(golden()[:6]):
        txn = PulledTxn(commit_ts=20 + number, payload=one, total=len(one), crc=crc32c(one))
        whole.txns.append(txn)
    error = PullFrame(code="Purged", message="gone")
    return [one.SerializeToString() for one in (whole, PullFrame(resolved_ts=70), error)]


def surfaces() -> list[Surface]:
    recorded = [one.SerializeToString() for one in pulled("set-a") if one.ByteSize() < LARGEST_SEED]
    return [
        Surface("write", "proto", write_requests(), write, 12),
        Surface("large write", "proto", write_requests(), shallow, 8),
        Surface(
            "transaction",
            "proto",
            [*golden(), *recorded[::8]],
            transaction,
            10,
            tuple(one for one in TYPED if not issubclass(one, TidelogError)),
        ),
        Surface("pull frame", "proto", _frames(), frame, 6),
    ]
