"""`tidelog capture replay`: send a recorded stream of binlogs to the Pumps of a topology.

A capture is repeated [u32 big-endian length][payload], `.xz` or plain, with `FILE.meta.jsonl`
beside it (its first line names the cluster id). Records go in their order, each after the ack of
the one before it, a Commit or Rollback to the Pump of its Prewrite.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import grpc
import msgspec
from google.protobuf.message import DecodeError

from tidelog.errors import BadInput, DeadlineExceeded, Unavailable
from tidelog.real.grpc_channel import open_channel
from tidelog.security.tls import TlsFiles
from tidelog_proto.binlog_pb2 import Binlog, BinlogType
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp

DEADLINE_S = 30.0
RETRY_S = 0.2
REACH_S = 5.0
GIVE_UP_S = 120.0
"""A record that its Pump has not taken by then ends the replay: nobody starts that Pump again."""
MAX_BYTES = (2 << 30) - 1
PASSING = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.FAILED_PRECONDITION,
)
"""Tried again: a Pump that is away, full, or not online for now."""


class Replayed(msgspec.Struct, frozen=True):
    sent: int
    transactions: int
    max_commit_ts: int


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:  # a directory, too
        raise BadInput(f"{path} can't be read: {error.strerror}") from error
    if path.suffix != ".xz":
        return data
    try:
        return lzma.decompress(data)
    except lzma.LZMAError as error:
        raise BadInput(f"{path} is no xz file, or a damaged one: {error}") from error


def records(path: Path) -> Iterator[bytes]:
    """The payloads of a capture. Raises BadInput if it is empty, damaged or cut."""
    data = memoryview(_bytes(path))
    if not data:
        raise BadInput(f"{path} is empty")
    offset = 0
    while offset < len(data):
        if offset + 4 > len(data):
            raise BadInput(f"{path} is cut at {offset}")
        (length,) = struct.unpack_from(">I", data, offset)
        if offset + 4 + length > len(data):
            raise BadInput(f"{path} is cut within the record at {offset}")
        yield bytes(data[offset + 4 : offset + 4 + length])
        offset += 4 + length


def cluster_id(path: Path) -> int:
    """The cluster id in the first line of the capture's `.meta.jsonl`; 0 if there is none."""
    base = path.name.removesuffix(".xz").removesuffix(".bin")
    for name in (f"{base}.meta.jsonl.xz", f"{base}.meta.jsonl"):
        if (path.parent / name).exists():
            first = _bytes(path.parent / name).split(b"\n", 1)[0]
            try:
                return int(json.loads(first)["cluster_id"])
            except (ValueError, KeyError, TypeError) as error:
                raise BadInput(
                    f"{path.parent / name} names no cluster_id in its first line",
                    hint="--cluster-id says it instead",
                ) from error
    return 0


class Replayer:
    """Sends one capture to several Pumps, Prewrites in turn."""

    def __init__(self, pumps: Sequence[str], cluster: int, tls: TlsFiles | None = None) -> None:
        """Raises ConfigError."""
        options = [("grpc.max_send_message_length", MAX_BYTES)]
        self._channels = [open_channel(pump, tls or TlsFiles(), options) for pump in pumps]
        self._write = [
            channel.unary_unary(
                "/binlog.Pump/WriteBinlog",
                request_serializer=WriteBinlogReq.SerializeToString,
                response_deserializer=WriteBinlogResp.FromString,
            )
            for channel in self._channels
        ]
        self._pumps = list(pumps)
        self._cluster = cluster
        self._pump_of: dict[int, int] = {}
        self._turn = 0
        self.sent = 0
        self.transactions = 0
        self.max_commit_ts = 0

    async def __aenter__(self) -> Self:
        """Raises Unavailable if a Pump can't be connected to: nothing was sent then."""
        try:
            await self._reach()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _reach(self) -> None:
        for pump, channel in zip(self._pumps, self._channels, strict=True):
            try:
                async with asyncio.timeout(REACH_S):
                    await channel.channel_ready()
            except TimeoutError:
                raise Unavailable(
                    f"no Pump answers at {pump}",
                    hint="start the topology with `tidelog up`, or check --dir and --grpc",
                ) from None

    async def send(self, payload: bytes) -> None:
        """One record, again until it is acked: the same bytes twice are one transaction."""
        try:
            binlog = Binlog.FromString(payload)
        except DecodeError as error:
            raise BadInput(f"record {self.sent} of the capture is no binlog") from error
        if binlog.tp == BinlogType.Prewrite:
            self._turn += 1
            self._pump_of[binlog.start_ts] = self._turn % len(self._write)
            pump = self._pump_of[binlog.start_ts]
        else:
            pump = self._pump_of.pop(binlog.start_ts, 0)
        await self._deliver(pump, WriteBinlogReq(clusterID=self._cluster, payload=payload))
        self.sent += 1
        if binlog.tp == BinlogType.Commit:
            self.transactions += 1
            self.max_commit_ts = max(self.max_commit_ts, binlog.commit_ts)

    async def _deliver(self, pump: int, request: WriteBinlogReq) -> None:
        where, why = f"record {self.sent} at {self._pumps[pump]}", "no answer"
        try:
            async with asyncio.timeout(GIVE_UP_S):
                while True:
                    try:
                        await self._write[pump](request, timeout=DEADLINE_S, wait_for_ready=True)
                        return
                    except grpc.aio.AioRpcError as error:
                        why = error.details() or error.code().name
                        if error.code() not in PASSING:
                            raise BadInput(f"the Pump refuses {where}: {why}") from error
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            raise DeadlineExceeded(f"the Pump does not take {where}: {why}") from None

    def result(self) -> Replayed:
        return Replayed(self.sent, self.transactions, self.max_commit_ts)

    async def _close(self) -> None:
        for channel in self._channels:
            await channel.close(None)
