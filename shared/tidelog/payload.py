"""Binlog bytes without building their values: what a record is, and the Commit a reader gets.

A Prewrite may be two gigabytes; nothing here copies it. `classify` reads the few small fields.
The Prewrite rewritten as a Commit (fixtures README) is `commit_head` before the Prewrite's bytes
from `Facts.body` on: a new tp, start_ts and commit_ts, everything else as it was written.
For what a TiDB writes that is byte for byte what the original answers. Pure.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from tidelog.errors import UnparsablePayload
from tidelog.ports import Buffer
from tidelog.timestamps import TS_MAX
from tidelog_proto.binlog_pb2 import Binlog

SLOWEST_BYTES_PER_S = 10 << 20
"""Of a disk: who writes a large payload waits so much longer, and so does who looks for hangs."""
_SHALLOW_ABOVE = 64 << 10
_MOST_FIELDS = 64
"""Of the top level, where they are read one by one: a Binlog has eight. More are refused, for a
payload of two bytes a field would hold the process."""
_FURTHEST_BODY = 255
"""Where `Facts.body` may lie at most: an index keeps it in a byte."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TP, _START, _COMMIT, _KEY = 1, 2, 3, 4


class Kind(IntEnum):
    """What a record is to the Pump. A fake is the Pump's own: a Rollback whose start_ts equals
    its commit_ts (original.md B.5)."""

    PREWRITE = 0
    COMMIT = 1
    ROLLBACK = 2
    FAKE = 3


PREWRITE, COMMIT, ROLLBACK, FAKE = Kind
"""Python 3.11 takes longer to look up a member than to compare it."""
_LAST_KNOWN = int(ROLLBACK)
PREWRITE_HEAD = b"\x08\x00"
"""tp = 0, as every writer puts it first."""


class Facts(NamedTuple):
    """`commit_ts` is 0 for a Prewrite or Rollback. `payload` is what to store: the given bytes, or
    the same fields in order. `body` is where its fields after tp, start_ts and commit_ts begin, at
    most 255."""

    kind: Kind
    start_ts: int
    commit_ts: int
    payload: Buffer
    body: int


Head = tuple[Kind, int, int]
"""Kind, start_ts, commit_ts: as in Facts."""


def head(payload: Buffer) -> Head:
    """Of a serialised Binlog that need not be stored. Raises UnparsablePayload."""
    if len(payload) > _SHALLOW_ABOVE:
        return _shallow(payload)[:3]
    try:
        binlog = Binlog.FromString(payload)  # type: ignore[arg-type]
    except DecodeError as error:
        raise UnparsablePayload("the payload is no Binlog") from error
    tp = binlog.tp
    if tp == 0 and payload[:2] != PREWRITE_HEAD:  # 0 may stand for a type that we don't know
        return _shallow(payload)[:3]
    return _judge(tp, binlog.start_ts, binlog.commit_ts)


def classify(payload: Buffer) -> Facts:
    """The kind and timestamps of a serialised Binlog. The payload that it says is to be stored has
    the same facts. Raises UnparsablePayload."""
    if len(payload) <= _SHALLOW_ABOVE:
        payload = payload if isinstance(payload, bytes) else bytes(payload)
        try:
            binlog = Binlog.FromString(payload)
        except DecodeError as error:
            raise UnparsablePayload("the payload is no Binlog") from error
        # Written again the same: in order, each field once, no type that we don't know.
        if payload[:1] == b"\x08" and binlog.SerializeToString() == payload:
            tp, start_ts, commit_ts = binlog.tp, binlog.start_ts, binlog.commit_ts
            body = 3 + _varint_bytes(start_ts)
            if payload[body : body + 1] == b"\x18":
                body += 1 + _varint_bytes(commit_ts)
            return _facts(tp, start_ts, commit_ts, payload, body)
    return _shallow(payload)


def _varint_bytes(value: int) -> int:
    return (value.bit_length() + 6) // 7 if value > 0 else 1


def _facts(tp: int, start_ts: int, commit_ts: int, payload: Buffer, body: int) -> Facts:
    # A third of the time of the constructor's own way, once for every binlog written.
    return tuple.__new__(Facts, (*_judge(tp, start_ts, commit_ts), payload, body))


def _judge(tp: int, start_ts: int, commit_ts: int) -> Head:
    if tp > _LAST_KNOWN:
        raise UnparsablePayload(f"binlogs of type {tp} are obsolete or unknown")
    if not 0 < start_ts <= TS_MAX or not 0 <= commit_ts <= TS_MAX:
        raise UnparsablePayload(f"timestamps {start_ts}, {commit_ts} are none of an oracle")
    if tp == 0:
        return PREWRITE, start_ts, 0
    if tp == 1:
        if commit_ts <= start_ts:
            raise UnparsablePayload(f"commit_ts {commit_ts} is not above start_ts {start_ts}")
        return COMMIT, start_ts, commit_ts
    if commit_ts == start_ts:
        return FAKE, start_ts, commit_ts
    return ROLLBACK, start_ts, 0


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    for position in range(at, min(at + 10, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + 1
        shift += 7
    raise UnparsablePayload("a varint of the payload has no end")


def write_request(request: Buffer) -> tuple[int, Buffer]:
    """Cluster id and payload of a serialised WriteBinlogReq, uncopied. Raises UnparsablePayload."""
    cluster_id, binlog, data = 0, memoryview(b""), memoryview(request)
    for number, _, value, end in _fields(data, varints=(1,)):
        if number == 1:
            cluster_id = value
        elif number == 2:
            binlog = data[value:end]
    return cluster_id, binlog


def _fields(
    data: memoryview, varints: tuple[int, ...] = (_TP, _START, _COMMIT)
) -> list[tuple[int, int, int, int]]:
    """Top-level fields as (number, start, value or start of bytes, end). Raises UnparsablePayload,
    also if they are more than _MOST_FIELDS."""
    found: list[tuple[int, int, int, int]] = []
    at, size = 0, len(data)
    while at < size:
        start = at
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _BYTES:
            length, value = _varint(data, at)
            at = value + length
        elif wire in (_FIXED64, _FIXED32):
            value, at = at, at + (8 if wire == _FIXED64 else 4)
        else:
            raise UnparsablePayload("the payload is no Binlog")
        if at > size or tag >> 3 == 0 or (tag >> 3 in varints and wire != _VARINT):
            raise UnparsablePayload("the payload is no Binlog")
        if len(found) == _MOST_FIELDS:
            raise UnparsablePayload(f"the payload has more than {_MOST_FIELDS} fields")
        found.append((tag >> 3, start, value, at))
    return found


def _shallow(payload: Buffer) -> Facts:
    """The same without building the message: for large payloads, and for unusual ones."""
    data = memoryview(payload)
    fields = _fields(data)
    values = {_TP: 0, _START: 0, _COMMIT: 0}
    for number, _, value, _ in fields:
        if number in values:
            values[number] = value
    _judge(values[_TP], values[_START], values[_COMMIT])  # what it lets pass can be written anew
    lead = [field for field in fields if field[0] <= _COMMIT]
    body = max((end for *_, end in lead), default=0)
    if fields[: len(lead)] != lead or body > _FURTHEST_BODY:
        rest = b"".join(data[start:end] for number, start, _, end in fields if number > _COMMIT)
        # Judged as a restart will judge it: shorter by now, it may be for protobuf to parse.
        return classify(_head(values[_TP], values[_START], values[_COMMIT]) + rest)
    return _facts(values[_TP], values[_START], values[_COMMIT], payload, body)


def prewrite_key(head: Buffer) -> bytes:
    """The prewrite_key, from a payload's first bytes (64 KiB are plenty); empty if it is not there,
    or not all of it: a key that is cut may be another transaction's."""
    data = memoryview(head)
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            length, at = _varint(data, at)
            if tag >> 3 == _KEY:
                return bytes(data[at : at + length]) if at + length <= len(data) else b""
            at += length if tag & 7 == _BYTES else 0
    except UnparsablePayload:
        return b""  # Cut before the key: whoever asks goes by the start_ts alone.
    return b""


def _head(tp: int, start_ts: int, commit_ts: int) -> bytes:
    return Binlog(tp=tp, start_ts=start_ts, commit_ts=commit_ts).SerializeToString()  # type: ignore[arg-type]


def commit_head(start_ts: int, commit_ts: int) -> bytes:
    """The first fields of the Commit that a reader gets: tp, start_ts, commit_ts."""
    return _head(Kind.COMMIT, start_ts, commit_ts)


def committed(prewrite: Buffer, commit_ts: int) -> bytes:
    """What a reader of a Pump gets: the Prewrite as its Commit. Raises UnparsablePayload."""
    facts = classify(prewrite)
    start = commit_head(facts.start_ts, commit_ts)
    return b"".join((start, memoryview(facts.payload)[facts.body :]))


def fake(ts: int) -> bytes:
    """A fake binlog at `ts`."""
    return _head(Kind.ROLLBACK, ts, ts)


def verdict(start_ts: int, commit_ts: int, key: bytes) -> bytes:
    """The Commit (or, with commit_ts 0, the Rollback) that closes a Prewrite nobody closed."""
    return Binlog(
        tp=1 if commit_ts else 2,  # type: ignore[arg-type]
        start_ts=start_ts,
        commit_ts=commit_ts,
        prewrite_key=key,
    ).SerializeToString()
