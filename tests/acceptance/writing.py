"""Binlogs by hand, right ones and wrong ones, sent over gRPC as a TiDB sends them.

Rows go into `app.t1 (id int primary key, v varchar, n int)` of set-a's DDL history.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from tests.fixtures.capture import records
from tests.topology import Running
from tidelog_proto.binlog_pb2 import Binlog, BinlogType, MutationType, PrewriteValue, TableMutation
from tidelog_proto.pump_pb2 import WriteBinlogReq

CLUSTER_ID = records("set-a")[0].cluster_id
T1, T1_VERSION = 92, 46
_ticks = itertools.count()


def now_ts() -> int:
    """A timestamp as an oracle gives them now: each larger than the one before."""
    return ((time.time_ns() // 1_000_000) << 18) + next(_ticks) % (1 << 18)


def _int(value: int) -> bytes:
    """A datum: the flag of a varint, then the zigzag varint (values below 64)."""
    assert 0 <= value < 64
    return bytes((8, value * 2))


def row(number: int, text: bytes = b"kept") -> bytes:
    """id, then column id and value of each other column."""
    return _int(number) + _int(2) + bytes((2, len(text) * 2)) + text + _int(3) + _int(number)


def prewrite(start_ts: int, inserted: bytes, table_id: int = T1) -> bytes:
    mutation = TableMutation(
        table_id=table_id, inserted_rows=[inserted], sequence=[MutationType.Insert]
    )
    value = PrewriteValue(schema_version=T1_VERSION, mutations=[mutation])
    return Binlog(
        tp=BinlogType.Prewrite,
        start_ts=start_ts,
        prewrite_key=b"k%d" % start_ts,
        prewrite_value=value.SerializeToString(),
    ).SerializeToString()


def commit(start_ts: int, commit_ts: int) -> bytes:
    return Binlog(
        tp=BinlogType.Commit, start_ts=start_ts, commit_ts=commit_ts, prewrite_key=b"k%d" % start_ts
    ).SerializeToString()


class Refusal(Exception):
    """What gRPC says: the status and its text."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details


class Pump:
    """One Pump as a TiDB sees it."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._call = channel.unary_unary("/binlog.Pump/WriteBinlog", bytes, bytes)

    def raw(self, request: bytes) -> None:
        """Raises Refusal."""
        try:
            self._call(request, timeout=20, wait_for_ready=True)
        except grpc.RpcError as error:
            raise Refusal(error.code(), error.details() or "") from error

    def write(self, payload: bytes, cluster_id: int = CLUSTER_ID) -> None:
        self.raw(WriteBinlogReq(clusterID=cluster_id, payload=payload).SerializeToString())

    def transaction(self, inserted: bytes, table_id: int = T1) -> int:
        """Prewrite, then Commit; its commit_ts."""
        start_ts = now_ts()
        self.write(prewrite(start_ts, inserted, table_id))
        commit_ts = now_ts()
        self.write(commit(start_ts, commit_ts))
        return commit_ts


@contextmanager
def pump_of(running: Running, at: int = 0) -> Iterator[Pump]:
    with grpc.insecure_channel(running.ready["pumps"][at]["grpc"]) as channel:
        yield Pump(channel)
